"""Dual points that a model's scores suggest, in memory or over a stream.

A model that was not made by a dual solver has no alpha; its scores suggest one. Where the loss is smooth the optimum
has alpha_i = -phi'(score_i), so near the optimum these alphas are nearly optimal. With an intercept, scores are first
shifted by the same number until the alphas sum to 0 (the exact minimization over b), then `dual.balance` takes away
what rounding left.

At a kink the slope does not determine alpha: a support vector on its margin may have any in [0, 1]. There alphas are
the slopes of the loss smoothed over a width (its Moreau envelope: `implicit_step`), for a ladder of widths around the
mean loss, and the best bound of all is used.

Everything is a sum over rows, so one pass over the data tries several shifts, widths or scales at once and stores no
more than the weights and a few vectors of their size:

    pass 1           the primal value, the number of features, the sum of the rows' weights
    passes 2..       positive and negative sums of alpha at some shifts (with an intercept alone)
    one pass         X'alpha of each width
    some passes      the dual value at some scales of each
    the last pass    the best dual value again, with a bound on its rounding error (`rounding`)

One class against the rest is one problem per class: primal and dual are sums.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from ..core.validation import Array
from ..data.labels import one_vs_rest
from ..data.rowblock import RowBlock
from .adapters import InMemory, LinearModel, Stream
from .dual import LADDER, balance, circulation, e_less, flows, scale_search, scaled_flows
from .penalty_conjugates import conjugate_of
from .rounding import DualSums

_WIDTHS = np.array([0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])  # of smoothing, in mean losses
_STREAM_WIDTHS = np.array([0.0, 1e-2, 0.3])
_SHIFTS = 8  # shifts that a pass tries
_IN_MEMORY, _STREAMED = 8, 3  # rounds of a search: passes, where data is read again

# -- the passes ----------------------------------------------------------------------------------

Search = Generator[Any, Any, Any]  # asks for values at some places, is sent them, returns what it found


def _together(searches: list[Search], answer: Callable[[dict[int, Any]], dict[int, Any]]) -> list[Any]:
    """Run searches together: one pass answers what all of them ask for in a round."""
    found: list[Any] = [None] * len(searches)
    asked = {i: next(search) for i, search in enumerate(searches)}
    while asked:
        answers, asked = answer(asked), {}
        for i, values in answers.items():
            try:
                asked[i] = searches[i].send(values)
            except StopIteration as end:
                found[i] = end.value
    return found


class Scored:
    """The objective of a model, and the best alphas that its scores suggest.

    `primals` and `duals` have one number per problem: one class against the rest is a problem per class.
    """

    def __init__(self, source: InMemory | Stream, linear: LinearModel):
        kept = isinstance(source, InMemory)
        self.source, self.linear, self.rounds = source, linear, _IN_MEMORY if kept else _STREAMED
        self.loss, self.separate = linear.loss, linear.loss.kind != "multiclass"
        losses, total, d = np.zeros(1), 0.0, len(linear.coef)
        for rows, p in source:
            losses = losses + rows.weights() @ self._columns(self.loss.value(p, self._labels(rows)))
            total += float(rows.weights().sum())
            d = max(d, rows.n_features)
        if total == 0.0:
            raise ValueError("there must be a row with a weight that is not zero, got none")
        self.total, self.penalty = total, linear.penalty_at(total)
        self.coef = np.zeros((d, *linear.coef.shape[1:]))
        self.coef[: len(linear.coef)] = linear.coef
        weights = list(self.coef.reshape(d, -1).T) if self.separate else [self.coef]
        self.primals = losses / total + np.array([self.penalty.value(w) for w in weights])
        self.conjugate = conjugate_of(self.penalty, weights[0].shape)
        self.widths = _WIDTHS if kept else _STREAM_WIDTHS
        widths = np.zeros(1) if self.loss.smooth else self.widths
        found = (
            self._separate(widths[:, None] * (losses / total))
            if self.separate
            else self._joint(widths * float(losses[0]) / total)
        )
        self.best = self._best(found)

    def _columns(self, values: Array) -> Array:
        return np.asarray(values)[:, None] if np.ndim(values) == 1 else np.asarray(values)

    def _labels(self, rows: RowBlock) -> Array:
        """Return labels that go with the scores: signs by column for one class against the rest."""
        if self.loss.kind == "multiclass":
            return rows.y.astype(np.int64)
        return one_vs_rest(rows.y, range(self.linear.n_outputs)) if self.linear.n_outputs > 1 else rows.y[:, None]

    def _slopes(self, p: Array, y: Array, width: Array | float) -> Array:
        """Return minus the slopes at the scores, of the loss smoothed over the width; 0 where they overflow."""
        if not np.any(width):
            a = -self.loss.slope(p, y)
        else:
            a = -self.loss.implicit_step(p, y, np.broadcast_to(width, p.shape[: np.ndim(y)]))
        return np.where(np.isfinite(a), a, 0.0)

    # ---- candidates: alphas from scores

    def _separate(self, widths: Array) -> list[_Separate]:
        """One candidate per width (a row has one width per column), shifted and balanced by column."""
        made = [_Separate(width, *np.repeat([[0.0], [1.0], [1.0]], len(width), axis=1)) for width in widths]
        if not self.linear.fit_intercept:
            return made
        flat = [(i, k) for i in range(len(made)) for k in range(len(widths[0]))]
        steps = [max(self.widths[-1] * widths[i, k], 1.0 / max(self.loss.smoothness, 1e-3), 1e-3) for i, k in flat]
        searches = [_shift_search(1e-3 * step, self.rounds) for step in steps]

        def answer(asked: dict[int, Array]) -> dict[int, Array]:
            sums = {i: np.zeros((2, len(shifts))) for i, shifts in asked.items()}
            for rows, p in self.source:
                c, y = rows.weights(), self._labels(rows)
                for i, shifts in asked.items():
                    which, k = flat[i]
                    for s, shift in enumerate(shifts):
                        part = c * self._slopes(p[:, k] + shift, y[:, k], widths[which, k])
                        sums[i][:, s] += np.maximum(part, 0.0).sum(), np.minimum(part, 0.0).sum()
            return sums

        for (i, k), (shift, positive, negative) in zip(flat, _together(searches, answer), strict=True):
            made[i].shift[k], (made[i].up[k], made[i].down[k]) = shift, balance(positive, negative)
        return made

    def _joint(self, widths: Array) -> list[_Joint]:
        """One candidate per width, its flows between classes balanced."""
        k = self.linear.n_outputs
        if not self.linear.fit_intercept:
            return [_Joint(width, np.zeros(k), np.ones((k, k))) for width in widths]
        searches = [_class_shift_search(k, self.rounds if self.loss.smooth else 1) for _ in widths]

        def answer(asked: dict[int, Array]) -> dict[int, tuple[Array, Array]]:
            sums = {i: (np.zeros((k, k)), np.zeros((k, k))) for i in asked}
            for rows, p in self.source:
                c, y = rows.weights(), self._labels(rows)
                for i, shift in asked.items():
                    b = -self._slopes(p + shift, y, widths[i])
                    b[np.arange(len(b)), y] += 1.0
                    sums[i][0][...] += flows(b, y, c)
                    sums[i][1][...] += np.diag(c @ b) - (c[:, None] * b).T @ b
            return sums

        return [_Joint(w, *found) for w, found in zip(widths, _together(searches, answer), strict=True)]

    # ---- from candidates to a bound

    def _best(self, candidates: list[Any]) -> list[tuple[Any, float]]:
        """Return, for each problem, the candidate of the best dual value, and its scale."""
        from ._conjugates import add_row_matrix

        v = [np.zeros((len(self.coef), self.linear.n_outputs)) for _ in candidates]
        for rows, p in self.source:
            for candidate, sums in zip(candidates, v, strict=True):
                a = candidate.alpha(self._slopes, p, self._labels(rows))
                add_row_matrix(rows, a * (rows.weights() / self.total)[:, None], sums)
        problems = len(self.primals)
        rays = [(i, k) for i in range(len(v)) for k in range(problems)]
        along = [np.ascontiguousarray(v[i][:, k]) if self.separate else v[i] for i, k in rays]
        looks = (1.0, 0.9999, *LADDER)
        searches = [scale_search(self.conjugate.limit(ray), self.rounds, looks) for ray in along]

        def answer(asked: dict[int, Array]) -> dict[int, Array]:
            values = {i: np.array([-self.conjugate.value(along[i], s) for s in at]) for i, at in asked.items()}
            for rows, p in self.source:
                c, y = rows.weights() / self.total, self._labels(rows)
                alphas = [candidate.alpha(self._slopes, p, y) for candidate in candidates]
                for i, scales in asked.items():
                    which, k = rays[i]
                    a, labels = self._of(k, alphas[which], y)
                    values[i] -= [c @ self.loss.conjugate(-s * a, labels) for s in scales]
            return values

        found = _together(searches, answer)
        values = np.array([value for _, value in found]).reshape(len(v), problems)
        best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=0)
        return [(candidates[i], found[i * problems + k][0]) for k, i in enumerate(best)]

    def _of(self, k: int, alpha: Array, y: Array) -> tuple[Array, Array]:
        """Return the alphas and labels of a problem."""
        return (np.ascontiguousarray(alpha[:, k]), np.ascontiguousarray(y[:, k])) if self.separate else (alpha, y)

    def alpha(self, k: int, rows: RowBlock, p: Array) -> tuple[Array, Array]:
        """Return the best alphas of problem k for some rows with their scores, and their labels."""
        (candidate, scale), y = self.best[k], self._labels(rows)
        a, labels = self._of(k, candidate.alpha(self._slopes, p, y), y)
        return np.asarray(scale * a), labels

    def proved(self) -> float:
        """Return the dual value of the best alphas, summed over problems, in one more pass."""
        shape = self.coef.shape if not self.separate else self.coef.shape[:1]
        intercept = self.linear.fit_intercept
        sums = [DualSums(self.loss, shape, self.total, fit_intercept=intercept) for _ in self.primals]
        for rows, p in self.source:
            for k, one in enumerate(sums):
                alpha, labels = self.alpha(k, rows, p)
                one.add(rows, labels, alpha)
        return sum(one.value(self.conjugate) for one in sums)


class _Separate(NamedTuple):
    """Alphas of separate columns: slopes at shifted scores, either side scaled down."""

    width: Array
    shift: Array
    up: Array
    down: Array

    def alpha(self, slopes: Callable[..., Array], p: Array, y: Array) -> Array:
        """Return the alphas of these scores."""
        a = slopes(p + self.shift, y, self.width)
        return np.asarray(a * np.where(a > 0.0, self.up, self.down))


class _Joint(NamedTuple):
    """Alphas of classes together: slopes at shifted scores, flows between classes scaled down."""

    width: float
    shift: Array
    factors: Array

    def alpha(self, slopes: Callable[..., Array], p: Array, y: Array) -> Array:
        """Return the alphas of these scores."""
        b = -slopes(p + self.shift, y, self.width)
        b[np.arange(len(b)), y] += 1.0
        return e_less(scaled_flows(b, y, self.factors), y)


def _shift_search(step: float, rounds: int) -> Search:
    """Find the shift at which the positive and the negative alphas cancel; their sum falls as the shift grows."""
    tried, sides = np.zeros(1), (yield np.zeros(1))
    for _ in range(rounds):
        excess = sides.sum(axis=0)
        size = np.max(sides[0] - sides[1])
        if np.min(np.abs(excess)) <= 1e-13 * size:
            break
        below, above = tried[excess > 0.0], tried[excess < 0.0]
        if not len(above) or not len(below):  # go out from the end, ever faster
            end, way = (below.max(), 1.0) if len(below) else (above.min(), -1.0)
            ask = end + way * max(step, abs(end)) * 4.0 ** np.arange(_SHIFTS)
        else:
            low, high = below.max(), above.min()
            at_low, at_high = (float(excess[tried == x][0]) for x in (low, high))
            guess = low + (high - low) * at_low / (at_low - at_high)
            near = (high - low) * np.array([1e-4, 1e-2, 0.1])
            ask = np.unique(np.clip(np.concatenate((guess - near, [guess], guess + near)), low, high))
            ask = ask[(ask > low) & (ask < high)]
            if not len(ask):
                break
        tried, sides = np.concatenate((tried, ask)), np.concatenate((sides, (yield ask)), axis=1)
    best = int(np.argmin(np.abs(sides.sum(axis=0))))
    return float(tried[best]), float(sides[0, best]), float(sides[1, best])


def _class_shift_search(k: int, rounds: int) -> Search:
    """Find shifts of the classes' scores that balance their flows, by Newton's method; return the factors left."""
    best, shift, least = (np.zeros(k), np.zeros((k, k))), np.zeros(k), np.inf
    for _ in range(rounds):
        sent, curvature = yield shift
        excess = sent.sum(axis=1) - sent.sum(axis=0)
        if np.abs(excess).sum() >= least:
            break
        best, least = (shift, sent), np.abs(excess).sum()
        shift = shift + np.linalg.lstsq(curvature, excess, rcond=1e-12)[0]
    return best[0], circulation(best[1])
