"""Prox-SDCA for structured outputs: sequences, trees, rankings, whatever a user's own argmax can search.

    P(w) = sum_i p_i max_y [ loss(y_i, y) - <w, psi_i(y)> ] + (lam/2) ||w||^2      psi_i(y) = features(x_i, y_i)
    D(beta) = sum_i p_i l_i - (lam/2) ||w||^2                                                - features(x_i, y)
    w = (1/lam) sum_i p_i u_i,   u_i = sum_y beta_i(y) psi_i(y),   l_i = sum_y beta_i(y) loss(y_i, y)

There may be more outputs y than atoms in the world, so beta is never written down. The paper (section 3.3) keeps what D
needs of it, a vector u_i and a number l_i an example, and moves them towards the output y that is worth most now:

    u_i <- u_i + s (psi_i(y) - u_i)              s = lam gap_i / (p_i ||psi_i(y) - u_i||^2), clipped to [0, 1]
    l_i <- l_i + s (loss(y_i, y) - l_i)          gap_i = max_y [...] - (l_i - <w, u_i>), what the example lacks

P - D is the sum of p_i gap_i. (This s is Option II, the best there is; the print has the sign of l_i wrong.)

Such steps end slowly, zigzagging between few outputs. So each example here keeps up to `planes` pairs (psi, loss) that
it has met, with a weight each, and maximizes D over all of them; between two searches by argmax it does so a few times
more, which costs next to nothing. Where pairs are too many, the two of the least weight are merged into their mean.
With planes = 1 what is left is the paper's step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from ..core import validation as _checks
from ..core.validation import Array
from ..data.sparse_checks import check_sparse
from .problem import ConvergenceWarning, Trace, shortfall

GROWTH = 1.3  # epochs at which the certificate is computed anyway, each this many times the one before
MOST_ROUNDS = 20  # over what examples keep, between two searches
SETTLED = 0.1  # rounds end when less than this part of the gap is left in what examples keep


class StructuredProblem(Protocol):
    """What `StructuredSDCA` has to know of a task; x and y may be anything.

    features(x, y) : the joint features, a dense or sparse vector or a mapping from indices to numbers
    loss(y, y2) : the cost of predicting y2 where y is right, a number >= 0, and 0 for y2 = y
    argmax(w, x, y) : the output y2 of the largest <w, features(x, y2)> + loss(y, y2); without the loss where y is None
    """

    def features(self, x: Any, y: Any) -> Any:
        """Return the joint features of an input and an output."""

    def loss(self, y: Any, y2: Any) -> float:
        """Return what y2 costs where y is right."""

    def argmax(self, w: Array, x: Any, y: Any) -> Any:
        """Return the best output, of score and loss together."""


class Vector(NamedTuple):
    """The entries of a vector that are not zero, indices rising."""

    at: Array
    values: Array


class StructuredSDCA:
    """Learn to predict structured outputs, with a proof of how well the objective was minimized.

    P(w) = sum_i p_i max_y [ loss(y_i, y) - <w, features(x_i, y_i) - features(x_i, y)> ] + (lam/2) ||w||^2

    Parameters
    ----------
    problem : an object with the methods features(x, y), loss(y, y2) and argmax(w, x, y), see `StructuredProblem`; if it
        has a method predict(w, x) predictions are made by that, else by argmax(w, x, None). A number `dim`, the length
        of w, is needed only if features are mappings
    lam : strength of the penalty, > 0
    tol : relative duality gap to reach, > 0
    max_epochs : most passes over the examples, each with one argmax an example
    planes : pairs of features and loss that an example may keep, >= 1; 1 is the paper's method
    random_state : seed of the order in which examples are visited

    Attributes
    ----------
    coef_ : the weights w
    primal_, dual_, duality_gap_ : P(w), a lower bound on every P, and their difference
    history_ : records with epoch, seconds, primal, dual, gap and nnz
    n_iter_ : epochs
    n_argmax_ : how often argmax was called

    >>> import numpy as np, proxstream as ps
    >>> X, y = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]]), [0, 1, 2]
    >>> model = ps.StructuredSDCA(ps.batch.Multiclass(n_features=2, n_classes=3), lam=0.1, tol=1e-6).fit(X, y)
    >>> model.coef_.reshape(2, 3).round(3), model.predict(X)
    (array([[ 0.333, -0.167, -0.167],
           [-0.167,  0.333, -0.167]]), [0, 1, 2])
    >>> bool(0.0 <= model.duality_gap_ <= 1e-6 * model.primal_)
    True

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA, section 3.3.
    """

    def __init__(
        self,
        problem: StructuredProblem,
        lam: float,
        tol: float = 1e-3,
        max_epochs: int = 1000,
        planes: int = 20,
        random_state: Any = None,
    ) -> None:
        self.problem = problem
        self.lam = lam
        self.tol = tol
        self.max_epochs = max_epochs
        self.planes = planes
        self.random_state = random_state

    def fit(self, xs: Sequence[Any], ys: Sequence[Any], sample_weight: Any = None) -> Self:
        """Learn from inputs xs with outputs ys, weighted by `sample_weight`."""
        for name in ("lam", "tol"):
            _checks.number(name, getattr(self, name), low=0.0, strict=True)
        for name in ("max_epochs", "planes"):
            _checks.integer(name, getattr(self, name), low=1)
        ascent = _Ascent(self.problem, self.lam, self.planes, xs, ys, _shares(xs, ys, sample_weight))
        with np.errstate(over="ignore", invalid="ignore"):  # weights that are not finite are not returned
            trace, done, w = self._climb(ascent)
        self.coef_, self.history_ = w, trace.history
        last = trace.history[-1]
        self.primal_, self.dual_, self.duality_gap_, self.n_iter_ = last.primal, last.dual, last.gap, last.epoch
        self.n_argmax_ = ascent.n_argmax
        if not done:
            message = shortfall("StructuredSDCA", last, self.tol, "raise max_epochs, planes or lam, or tol")
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, xs: Sequence[Any]) -> list[Any]:
        """Return the output of the best score for each input."""
        predict: Callable[[Array, Any], Any] | None = getattr(self.problem, "predict", None)
        w = self._weights()
        return [self.problem.argmax(w, x, None) if predict is None else predict(w, x) for x in xs]

    def score(self, xs: Sequence[Any], ys: Sequence[Any]) -> float:
        """Return minus the mean loss of the predictions: the higher the better, 0 is perfect."""
        _check_lengths(xs, ys)
        return -float(np.mean([self.problem.loss(y, y2) for y, y2 in zip(ys, self.predict(xs), strict=True)]))

    def _weights(self) -> Array:
        if not hasattr(self, "coef_"):
            raise AttributeError("this StructuredSDCA is not fitted yet: call fit(xs, ys) first")
        return self.coef_

    def _climb(self, ascent: _Ascent) -> tuple[Trace, bool, Array]:
        """Ascend until the certificate is good enough; return the history, whether it is, and the best weights."""
        rng = np.random.default_rng(self.random_state)
        # Before the first step each example has its truth alone: a dual point of w = 0.
        trace = Trace(self.tol, best_dual=float(ascent.shares @ [example.loss[0] for example in ascent.examples]))
        best, w, look = np.inf, ascent.w, 1
        for epoch in range(1, self.max_epochs + 1):
            lacked = ascent.search(rng.permutation(len(ascent.examples)))
            for _ in range(MOST_ROUNDS if self.planes > 1 else 0):
                if ascent.settle(rng.permutation(len(ascent.examples))) <= SETTLED * lacked:
                    break
            if epoch >= look or epoch == self.max_epochs or lacked <= trace.aim * abs(best) or trace.near_rounding:
                look = int(np.ceil(GROWTH * epoch))
                primal, dual = ascent.certify()
                if primal < best:
                    best, w = primal, ascent.w.copy()
                if trace.certify(epoch, best, dual, int(np.count_nonzero(w))):
                    return trace, True, w
                if trace.stalled:
                    break
        zero = ascent.objective_at_zero()
        if not best <= zero:  # P may rise on the way: it is D that the steps ascend
            w = np.zeros(ascent.dim)
            return trace, trace.certify(epoch, zero, dual, 0), w
        return trace, False, w


class _Example:
    """What is kept of an example: pairs (psi, loss) with their weights; psi on the features that any of them has."""

    def __init__(self, truth: Vector, loss: float) -> None:
        self.truth = truth
        self.at: Array = np.empty(0, dtype=np.intp)
        self.psi = np.zeros((1, 0))  # the truth's own pair: no features are missing, the loss is that of the truth
        self.loss = np.array([loss])
        self.beta = np.ones(1)
        self.gram = np.zeros((1, 1))

    def values(self, w: Array) -> Array:
        """Return loss - <w, psi> of each pair."""
        return np.asarray(self.loss - self.psi @ w[self.at])

    def mean(self) -> tuple[Array, float]:
        """Return u on the features `at`, and l."""
        return self.beta @ self.psi, float(self.beta @ self.loss)

    def add(self, output: Vector, loss: float) -> None:
        """Keep the pair of an output, with weight 0, unless it is there."""
        known = np.union1d(self.at, np.union1d(self.truth.at, output.at))
        if len(known) > len(self.at):
            wide = np.zeros((len(self.psi), len(known)))
            wide[:, np.searchsorted(known, self.at)] = self.psi
            self.at, self.psi = known, wide
        psi = np.zeros(len(known))
        psi[np.searchsorted(known, self.truth.at)] += self.truth.values
        psi[np.searchsorted(known, output.at)] -= output.values
        if ((self.loss == loss) & (self.psi == psi).all(axis=1)).any():
            return
        self._set(np.vstack([self.psi, psi]), np.append(self.loss, loss), np.append(self.beta, 0.0))

    def thin(self, planes: int) -> None:
        """Keep no more pairs: first those without weight go, then the lightest two become one."""
        while len(self.beta) > planes:
            lightest, other = np.argsort(self.beta, kind="stable")[:2]
            psi, loss, beta = self.psi.copy(), self.loss.copy(), self.beta.copy()
            total = beta[lightest] + beta[other]
            if beta[lightest] > 0.0:
                part = beta[lightest] / total
                psi[other] += part * (psi[lightest] - psi[other])
                loss[other] += part * (loss[lightest] - loss[other])
            beta[other] = total
            self._set(*(np.delete(kept, lightest, axis=0) for kept in (psi, loss, beta)))

    def _set(self, psi: Array, loss: Array, beta: Array) -> None:
        self.psi, self.loss, self.beta, self.gram = psi, loss, beta, psi @ psi.T

    def climb(self, g: Array, c: float) -> Array:
        """Maximize <g, beta+ - beta> - (c/2) ||psi' (beta+ - beta)||^2 over weights; return how u changes.

        Weight goes from the pair of the least value that has some to the one of the largest, as much as is best for
        the two; a few hundred times, or until the values agree.
        """
        before, beta, g = self.beta.copy(), self.beta, g.copy()
        slack = 1e-13 * (1.0 + np.abs(g).max())
        for _ in range(10 * len(beta)):
            high = int(np.argmax(g))
            low = int(np.argmin(np.where(beta > 0.0, g, np.inf)))
            if g[high] - g[low] <= slack:
                break
            bend = c * (self.gram[high, high] + self.gram[low, low] - 2.0 * self.gram[high, low])
            move = beta[low] if bend <= 0.0 else min((g[high] - g[low]) / bend, beta[low])
            beta[high] += move
            beta[low] -= move
            g -= c * move * (self.gram[:, high] - self.gram[:, low])
        beta /= beta.sum()
        return np.asarray((beta - before) @ self.psi)


class _Ascent:
    """Examples, their shares and the weights that they make together."""

    def __init__(
        self, problem: StructuredProblem, lam: float, planes: int, xs: Sequence[Any], ys: Sequence[Any], shares: Array
    ) -> None:
        self.problem, self.lam, self.planes, self.xs, self.ys, self.shares = problem, lam, planes, xs, ys, shares
        self.dim = _dim(problem, xs, ys)
        self.w = np.zeros(self.dim)
        self.n_argmax = 0
        self.examples = [
            _Example(self._features(i, y), _checks.number(f"loss(y, y) of example {i}", problem.loss(y, y)))
            for i, y in enumerate(ys)
        ]

    def search(self, order: Array) -> float:
        """Ask argmax for each example's best output and climb; return what the examples lacked in all."""
        lacked = 0.0
        for i in order:
            lacked += self.shares[i] * self._meet(i)
            self._climb(i)
        return lacked

    def settle(self, order: Array) -> float:
        """Climb on what the examples keep; return what they lacked of that in all."""
        return float(sum(self.shares[i] * self._climb(i) for i in order if len(self.examples[i].beta) > 1))

    def certify(self) -> tuple[float, float]:
        """Return P and D at the weights that the examples make, all computed from scratch."""
        self.w = np.zeros(self.dim)
        mean_loss = 0.0
        for share, example in zip(self.shares, self.examples, strict=True):
            u, mean = example.mean()
            self.w[example.at] += share * u / self.lam
            mean_loss += share * mean
        half = 0.5 * self.lam * float(self.w @ self.w)
        dual = mean_loss - half
        # P - D is the sum of what the examples lack, since lam ||w||^2 = sum_i p_i <w, u_i>.
        keep = self.planes > 1
        primal = dual + sum(share * self._meet(i, keep=keep) for i, share in enumerate(self.shares) if share > 0.0)
        return primal, dual

    def objective_at_zero(self) -> float:
        """Return P of weights 0."""
        w = np.zeros(self.dim)
        w.flags.writeable = False
        total = 0.0
        for i, share in enumerate(self.shares):
            if share > 0.0:
                self.n_argmax += 1
                total += share * self._loss(i, self.problem.argmax(w, self.xs[i], self.ys[i]))
        return total

    def _meet(self, i: int, *, keep: bool = True) -> float:
        """Ask argmax for the best output of example i, keep its pair and return what the example lacks."""
        example, w = self.examples[i], self.w.view()
        w.flags.writeable = False
        y2 = self.problem.argmax(w, self.xs[i], self.ys[i])
        self.n_argmax += 1
        features = self._features(i, y2)
        loss = self._loss(i, y2)
        worth = loss - (_dot(example.truth, self.w) - _dot(features, self.w))
        kept = example.values(self.w)
        slack = 1e-9 * (1.0 + abs(worth) + float(np.abs(kept).max()))
        if kept.max() > worth + slack:
            raise ValueError(
                f"argmax(w, x, y) must return the output of the largest score plus loss: for example {i} it returned "
                f"one worth {worth:g} more than the truth, where one it returned before is worth {kept.max():g}"
            )
        if keep:
            example.add(features, loss)
        return max(worth - float(example.beta[: len(kept)] @ kept), 0.0)

    def _climb(self, i: int) -> float:
        """Maximize D over the weights of what example i keeps; return what it lacked of that."""
        example, c = self.examples[i], self.shares[i] / self.lam
        g = example.values(self.w)
        lacked = float(g.max() - example.beta @ g)
        if lacked > 0.0 and c > 0.0:
            self.w[example.at] += c * example.climb(g, c)
        example.thin(self.planes)
        return lacked

    def _features(self, i: int, y: Any) -> Vector:
        try:
            features = self.problem.features(self.xs[i], y)
        except ValueError as error:
            raise ValueError(f"features(x, y) of example {i}: {error}") from error
        return as_vector(features, self.dim, f"features(x, y) of example {i}")

    def _loss(self, i: int, y2: Any) -> float:
        return _checks.number(f"loss of example {i}", self.problem.loss(self.ys[i], y2))


def as_vector(features: Any, dim: int, name: str) -> Vector:
    """Return the result of `features` as a vector of `dim` entries.

    >>> as_vector({3: 1.0, 1: -2.0}, 5, "features")
    Vector(at=array([1, 3]), values=array([-2.,  1.]))
    """
    if isinstance(features, Mapping):
        for key in features:
            if isinstance(key, (bool, np.bool_)) or not isinstance(key, (int, np.integer)):
                raise TypeError(f"{name} must have integers as indices, got {key!r}")
        at = np.fromiter(features.keys(), dtype=np.intp, count=len(features))
        values = np.fromiter(features.values(), dtype=np.float64, count=len(features))
        if len(at) and not (at.min() >= 0 and at.max() < dim):
            raise ValueError(f"{name} must have indices in 0..{dim - 1}, got {at.min()}..{at.max()}")
    elif hasattr(features, "tocoo"):
        try:
            check_sparse(features)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
        flat = features.tocoo().reshape((1, -1)).tocsr()
        flat.sum_duplicates()
        _check_length(flat.shape[1], dim, name)
        at, values = flat.indices.astype(np.intp), _checks.vector(name, flat.data).astype(np.float64)
    else:
        dense = _checks.vector(name, features)
        _check_length(dense.size if dense.ndim == 1 else -1, dim, name)
        at = np.flatnonzero(dense)
        values = dense[at].astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, got {values[~np.isfinite(values)][0]}")
    order = np.argsort(at)
    return Vector(at[order], values[order])


def _check_length(length: int, dim: int, name: str) -> None:
    if length != dim:
        found = "not a vector" if length < 0 else f"{length} entries"
        raise ValueError(f"{name} must be a vector of {dim} entries, got {found}")


def _dot(vector: Vector, w: Array) -> float:
    return float(vector.values @ w[vector.at])


def _dim(problem: StructuredProblem, xs: Sequence[Any], ys: Sequence[Any]) -> int:
    """Return the length of w, from the problem or from the first example's features."""
    dim = getattr(problem, "dim", None)
    if dim is not None:
        return _checks.integer("dim of the problem", dim, low=1)
    first = problem.features(xs[0], ys[0])
    if isinstance(first, Mapping):
        raise TypeError("a problem whose features are mappings must have a number `dim`, the length of the weights")
    return int(np.prod(first.shape)) if hasattr(first, "shape") else len(first)


def _check_lengths(xs: Sequence[Any], ys: Sequence[Any]) -> int:
    for name, given in (("xs", xs), ("ys", ys)):
        if not hasattr(given, "__len__"):
            raise TypeError(f"{name} must be a sequence with a length, such as a list, got {type(given).__name__}")
    if len(xs) != len(ys) or len(xs) == 0:
        raise ValueError(f"xs and ys must be as many, and at least one, got {len(xs)} and {len(ys)}")
    return len(xs)


def _shares(xs: Sequence[Any], ys: Sequence[Any], sample_weight: Any) -> Array:
    n = _check_lengths(xs, ys)
    c = _checks.vector("sample_weight", np.ones(n) if sample_weight is None else sample_weight, (n,))
    if c.min() < 0.0 or not c.any():
        raise ValueError(f"sample_weight must be numbers >= 0, not all 0, got {c.min()} as the smallest")
    c = c / c.max()  # the sum of large ones may overflow
    return np.asarray(c / c.sum(), dtype=np.float64)
