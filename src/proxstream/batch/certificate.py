"""How far from optimal is a model? A certificate for any linear model, in memory or over a stream.

A model that was not made by a dual solver has no alpha; its scores suggest one. Where the loss is smooth the optimum
has alpha_i = -phi'(score_i), so near the optimum these alphas are nearly optimal, and the gap they prove is of the
order of the model's own sub-optimality. With an intercept, scores are first shifted by the same number until the
alphas sum to 0 (the exact minimization over b), then `dual.balance` takes away what rounding left.

At a kink the slope does not determine alpha: a support vector on its margin may have any in [0, 1]. There alphas are
the slopes of the loss smoothed over a width (its Moreau envelope: `implicit_step`), for a ladder of widths around the
mean loss, and the best bound of all is used. It is valid, and as tight as the best width makes it: the gap of a model
at the optimum is then some percent, not 0. A dual solver's own alpha, where the model has one, has no such limit and is
tried too. In memory some passes of Prox-SDCA, from the best alpha so far, then tighten the bound.

Everything is a sum over rows, so one pass over the data tries several shifts, widths or scales at once and stores no
more than the weights and a few vectors of their size:

    pass 1           the primal value, the number of features, the sum of the rows' weights
    passes 2..       positive and negative sums of alpha at some shifts (with an intercept alone)
    one pass         X'alpha of each width
    the last passes  the dual value at some scales of each

One class against the rest is one problem per class: primal, dual and gap are sums. With an intercept, columns far from
zero are centred first (`centring`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from ..core.validation import Array, integer
from ..data.labels import one_vs_rest
from ..data.rowblock import RowBlock
from .adapters import InMemory, LinearModel, Stream, as_linear, as_rows, prepare_rows
from .centring import frame_of
from .dual import (
    LADDER,
    Certificate,
    PenaltyConjugate,
    balance,
    circulation,
    conjugate_of,
    dual_point,
    e_less,
    flows,
    scale_search,
    scaled_flows,
)
from .problem import Problem, Solution, Trace

_WIDTHS = np.array([0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])  # of smoothing, in mean losses
_STREAM_WIDTHS = np.array([0.0, 1e-2, 0.3])
_TIGHT = 1e-6  # a relative gap that needs no further work
_SHIFTS = 8  # shifts that a pass tries
_IN_MEMORY, _STREAMED = 8, 3  # rounds of a search: passes, where data is read again


def certificate(
    model: Any,
    X: Any,
    y: Any = None,
    loss: Any = None,
    penalty: Any = None,
    sample_weight: Any = None,
    passes: int = 10,
) -> Certificate:
    """Return a proof of how far from optimal a linear model is on data.

    The gap is an upper bound on P(model) - min P, where

        P(w, b) = (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i) + Psi(w)

    whatever produced the model. It is 0 for an optimal model with a smooth loss, up to rounding.
    Far from the optimum, and for losses with kinks, the model's own scores suggest a loose bound; a few passes of
    Prox-SDCA tighten it where data is in memory, there is one output, and the penalty is of l1 and l2 parts with
    l2 > 0. Without any penalty on a feature the only dual point that can be proved is 0.

    Parameters
    ----------
    model : estimator, learner, or pair (coef, intercept)
        An estimator or learner of this package, a linear model of scikit-learn, or weights as they are: coef of shape
        (n_features,), (1, n_features) or (n_classes, n_features), intercept a number, an array, or None where there
        is none in the objective. A learner with penalty_weight="once" is certifierd by Psi/n.
    X : array, sparse matrix or frame, or a stream
        A stream is an iterable that can be read again and gives (X, y), (X, y, sample_weight) or RowBlock; it is read
        some five times, in bounded memory.
    y : array, for a matrix X
        Labels as the model knows them; for a bare model as the loss does (-1 and +1, numbers, or 0..k-1).
    loss : str or Loss, optional
        Required for a bare model, and if the model's own cannot be inferred.
    penalty : Penalty, optional
        Likewise.
    sample_weight : array, for a matrix X
    passes : int
        Passes of Prox-SDCA at most, to tighten a bound that is not within 1e-6 already; 0 is none.

    Returns
    -------
    Certificate with primal, dual and gap

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> from sklearn.linear_model import Lasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=100)
    >>> proof = ps.certificate(Lasso(alpha=0.1, tol=1e-9).fit(X, y), X, y)
    >>> round(proof.primal, 4), bool(0 <= proof.gap < 1e-8)
    (0.0972, True)
    >>> ps.certificate((np.zeros(5), 0.0), X, y, loss="squared", penalty=ps.L1(0.1)).gap > 0.1
    True

    Reference: Shalev-Shwartz and Zhang (2012), eq. 2 and the duality gap after it.
    """
    linear = as_linear(model, loss, penalty)
    if y is None and not hasattr(X, "shape") and not isinstance(X, RowBlock):
        if sample_weight is not None:
            raise TypeError("a stream brings its own weights: sample_weight goes with a matrix X")
        return _Certifier(Stream(X, linear), linear, _STREAMED, _STREAM_WIDTHS).certificate()
    integer("passes", passes, low=0)
    rows = prepare_rows(as_rows(X, y, sample_weight), linear, all_rows=True)
    frame = frame_of(rows, linear.loss) if linear.fit_intercept else None
    if frame is not None:
        rows = frame.rows(rows)
        linear = linear._replace(intercept=frame.inward(linear.coef, linear.intercept))
    certifier = _Certifier(InMemory(rows, linear), linear, _IN_MEMORY, _WIDTHS)
    proved = certifier.certificate()
    if linear.alpha is not None and len(linear.alpha) == rows.n_rows:
        proved = Certificate.of(proved.primal, max(proved.dual, _own_bound(rows, linear)))
    if passes and linear.n_outputs == 1 and proved.relative_gap > _TIGHT:
        proved = Certificate.of(proved.primal, max(proved.dual, _tightened(rows, linear, certifier.alpha(), passes)))
    return proved


def _tightened(rows: RowBlock, linear: LinearModel, alpha: Array, passes: int) -> float:
    """Return the best bound of some passes of Prox-SDCA from alpha; -inf where it does not take the penalty."""
    from .sdca import Rule, link_of, net_terms
    from .sdca.run import Run

    d, total = max(len(linear.coef), rows.n_features), float(rows.weights().sum())
    problem = Problem(rows, d, linear.loss, linear.penalty_at(total), linear.fit_intercept)
    try:
        terms = net_terms(problem.penalty, d)
    except TypeError:
        return -np.inf
    if not np.all(np.greater(terms.l2, 0.0)):
        return -np.inf
    start = Solution(linear.coef, linear.intercept, alpha, [], False)
    trace = Trace(_TIGHT)
    Run(problem, link_of(terms.l1, terms.l2, d), Rule(), 0, start, 1).until(trace, passes)
    return trace.best_dual


def _own_bound(rows: RowBlock, linear: LinearModel) -> float:
    """Return the bound that the model's own dual variables prove on these rows."""
    total = float(rows.c.sum()) if len(rows.c) else float(rows.n_rows)
    d = max(len(linear.coef), rows.n_features)
    common = (d, linear.loss, linear.penalty_at(total), linear.fit_intercept)
    if linear.n_outputs == 1 or linear.loss.kind == "multiclass":
        return dual_point(Problem(rows, *common, linear.n_outputs), np.asarray(linear.alpha)).value
    signs = one_vs_rest(rows.y, range(linear.n_outputs))
    parts = zip(signs.T, np.asarray(linear.alpha).T, strict=True)
    return sum(dual_point(Problem(rows._replace(y=np.ascontiguousarray(s)), *common), a).value for s, a in parts)


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


class _Certifier:
    """The passes over scored rows that find the best candidate for alpha."""

    def __init__(self, source: InMemory | Stream, linear: LinearModel, rounds: int, widths: Array):
        self.source, self.linear, self.rounds, self.widths = source, linear, rounds, widths
        self.loss = linear.loss
        self.best: tuple[Any, float]
        self.smooth = self.loss.smooth

    def certificate(self) -> Certificate:
        """Return the certificate of the model."""
        losses, total, d = np.zeros(1), 0.0, len(self.linear.coef)
        for rows, p in self.source:
            losses = losses + rows.weights() @ self._columns(self.loss.value(p, self._labels(rows)))
            total += float(rows.weights().sum())
            d = max(d, rows.n_features)
        if total == 0.0:
            raise ValueError("there must be a row with a weight that is not zero, got none")
        self.total, self.n_features = total, d
        coef = np.zeros((d, *self.linear.coef.shape[1:]))
        coef[: len(self.linear.coef)] = self.linear.coef
        penalty, separate = self.linear.penalty_at(total), self.loss.kind != "multiclass"
        weights = list(coef.reshape(d, -1).T) if separate else [coef]
        primal = float(losses.sum()) / total + sum(penalty.value(w) for w in weights)
        widths = np.zeros(1) if self.smooth else self.widths
        candidates = (
            self._separate(widths[:, None] * (losses / total))
            if separate
            else self._joint(widths * float(losses[0]) / total)
        )
        return Certificate.of(primal, self._bound(candidates, conjugate_of(penalty, weights[0].shape)))

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
        searches = [_class_shift_search(k, self.rounds if self.smooth else 1) for _ in widths]

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

    def _bound(self, candidates: list[Any], conjugate: PenaltyConjugate) -> float:
        """Return the best dual value of the candidates at any scale, summed over separate columns."""
        from ._conjugates import add_row_matrix

        v = [np.zeros((self.n_features, self.linear.n_outputs)) for _ in candidates]
        for rows, p in self.source:
            for candidate, sums in zip(candidates, v, strict=True):
                a = candidate.alpha(self._slopes, p, self._labels(rows))
                add_row_matrix(rows, a * (rows.weights() / self.total)[:, None], sums)
        separate = self.loss.kind != "multiclass"
        rays = [(i, k) for i in range(len(v)) for k in range(self.linear.n_outputs if separate else 1)]
        along = [np.ascontiguousarray(v[i][:, k]) if separate else v[i] for i, k in rays]
        looks = (1.0, 0.9999, *LADDER)
        searches = [scale_search(conjugate.limit(ray), self.rounds, looks) for ray in along]

        def answer(asked: dict[int, Array]) -> dict[int, Array]:
            values = {i: np.array([-conjugate.value(along[i], s) for s in scales]) for i, scales in asked.items()}
            for rows, p in self.source:
                c, y = rows.weights() / self.total, self._labels(rows)
                alphas = [candidate.alpha(self._slopes, p, y) for candidate in candidates]
                for i, scales in asked.items():
                    which, k = rays[i]
                    a, labels = (alphas[which][:, k], y[:, k]) if separate else (alphas[which], y)
                    values[i] -= [c @ self.loss.conjugate(-s * a, labels) for s in scales]
            return values

        found = _together(searches, answer)
        values = np.array([value for _, value in found])
        best = int(np.argmax(values))
        self.best = candidates[rays[best][0]], found[best][0]
        return float(np.max(values.reshape(len(v), -1), axis=0).sum())

    def alpha(self) -> Array:
        """Return the alphas of the best candidate at its best scale, for one output in memory."""
        candidate, scale = self.best
        ((rows, p),) = self.source
        return np.asarray(scale * candidate.alpha(self._slopes, p, self._labels(rows))[:, 0])


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
