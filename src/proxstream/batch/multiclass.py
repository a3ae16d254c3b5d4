"""Prox-SDCA for losses of all scores at once: softmax and the multiclass hinge, weights (features, classes).

A row's dual vector is alpha_i = e_y - beta_i with beta_i in the simplex (for softmax beta is what the dual takes the
row's class probabilities to be). With V = sum_i p_i x_i alpha_i' the weights are W = grad Psi*(V).

The intercept is not penalized, so a dual point counts only if sum_i p_i alpha_i = 0: the mean of beta must be the
classes' shares. Two things see to it:

- On the way, the method of multipliers: with the intercepts b held, a pass ascends on
  D(alpha) - <b, s> - ||s||^2 / (2 rho), s = sum_i p_i alpha_i. That is Prox-SDCA with one feature more, whose weights
  b + s / rho are held in the next pass. In the primal it adds (rho/2) ||b - b_held||^2, which vanishes as b settles:
  the problem that is solved is the one stated.
- For the certificate, `dual.dual_point` moves beta to where its mean is right, to the last digit, in the simplex. The
  passes go on from there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .. import _checks
from .._checks import Array
from ..losses.multiclass import MulticlassHinge, Softmax
from ..penalties import GroupL2
from .dual import dual_point, e_less, into_simplex
from .problem import Problem, Solution, Trace

GROWTH = 1.2  # epochs at which the certificate is computed anyway, each this many times the one before
ACCEPTED = "L2, alone or with L1 and GroupL2 of the weights' rows, with one strength or one a feature"


def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
) -> Solution:
    """Minimize until the relative duality gap is at most tol, or for max_epochs passes over the rows.

    Parameters
    ----------
    problem : loss softmax or multiclass_hinge; penalty L2, perhaps with L1 and with GroupL2 of the weights' rows
    tol : relative gap to reach, > 0
    max_epochs : most passes over the rows
    seed : of the order in which rows are visited, a new one each pass
    start : a solution of the same rows, under another penalty say, to begin from
    n_threads : threads that share the weights without locks; one thread gives the same bits each time

    >>> import numpy as np
    >>> from proxstream import L2, losses
    >>> from proxstream.blocks import as_block
    >>> X, y = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]]), [0, 1, 2]
    >>> found = solve(Problem(as_block(X, y), 2, losses.softmax, L2(0.1), n_outputs=3), tol=1e-9)
    >>> found.coef.round(3), found.converged
    (array([[ 0.922, -0.305, -0.617],
           [-0.305,  0.922, -0.617]]), True)

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA, Fig. 1, Option I.
    """
    _checks.number("tol", tol, low=0.0, strict=True)
    ascent = _Ascent(problem, start, n_threads)
    rng = np.random.default_rng(seed)
    trace = Trace(tol)
    best = point = certify(problem, ascent.beta, ascent.held)
    done = trace.certify(0, point.primal, point.dual, int(np.count_nonzero(point.w)))
    look = 1
    for epoch in range(1, max_epochs + 1):
        if done:
            break
        lacked = ascent.sweep(point.v, rng.permutation(problem.rows.n_rows))
        if epoch >= look or epoch == max_epochs or lacked <= tol * best.primal:
            look = int(np.ceil(GROWTH * epoch))
            point = certify(problem, ascent.beta, ascent.held)
            best = min(best, point, key=lambda seen: seen.primal)
            done = trace.certify(epoch, best.primal, point.dual, int(np.count_nonzero(best.w)))
    return Solution(best.w, best.b, e_less(ascent.beta, problem.labels), trace.history, done)


class _Ascent:
    """What the passes share: compiled components, the dual point and the intercepts held."""

    def __init__(self, problem: Problem, start: Solution | None, n_threads: int) -> None:
        from ..kernels import losses
        from ..kernels.sdca_multiclass import Rows

        self.problem, self.n_threads = problem, n_threads
        self.penalty, l2 = _component(problem)
        self.loss = losses.as_tuple(problem.loss)
        squares = (_matrix(problem) ** 2) @ np.broadcast_to(1.0 / l2, problem.n_features)
        shares = problem.shares
        # As loose as one more feature may be without setting the pace: beside a row's other features, or its loss.
        self.loose = 0.2 * max(float(shares @ squares), 1.0 / float(shares.max())) if problem.fit_intercept else 0.0
        rows = problem.rows
        stiffness = shares * (squares + self.loose)
        self.rows = Rows(rows.indptr, rows.indices, rows.data, problem.labels, shares, stiffness)
        self.beta, self.held = _begin(problem, start)

    def sweep(self, v: Array, order: Array) -> float:
        """Visit each row once, v keeping up; return what the rows lacked in all."""
        from ..kernels.sdca_multiclass import Dual, sweep

        dual = Dual(self.beta, v, self._sums(), self.held, self.loose)
        if self.n_threads == 1:
            lacked = sweep(self.loss, self.penalty, self.rows, dual, order)
        else:
            with ThreadPoolExecutor(self.n_threads) as pool:
                parts = np.array_split(order, self.n_threads)
                lacked = sum(pool.map(lambda part: sweep(self.loss, self.penalty, self.rows, dual, part), parts))
        self.held = self.held + self.loose * self._sums()
        return float(lacked)

    def _sums(self) -> Array:
        """The weighted sum of all alphas, one a class."""
        return np.asarray(_class_shares(self.problem) - self.problem.shares @ self.beta)


def _component(problem: Problem) -> tuple[Any, Array]:
    """Return the penalty as kernels know it, and its l2."""
    from ..kernels.sdca_multiclass import Net, NetEach, Ridge

    penalty, shape = problem.penalty, (problem.n_features, problem.n_outputs)
    penalty.check_shape(shape)
    if not isinstance(problem.loss, (Softmax, MulticlassHinge)):
        raise TypeError(f"multiclass Prox-SDCA takes the losses softmax and multiclass_hinge, got {problem.loss}")
    terms = penalty._terms(shape)
    group = terms.coupled
    rows_only = group is None or (isinstance(group, GroupL2) and group.groups is None)
    per_feature = all(np.shape(s) in ((), (shape[0], 1)) for s in terms[:2])
    if not rows_only or not per_feature or terms.bends or np.any(terms.lo > -np.inf) or np.any(terms.hi < np.inf):
        raise TypeError(f"multiclass Prox-SDCA takes the penalties {ACCEPTED}; got {penalty!r}")
    if not np.min(terms.l2) > 0.0:
        raise ValueError(f"Prox-SDCA needs a strongly convex penalty: add L2 with a strength > 0 to {penalty!r}")
    lam = 0.0 if group is None else float(group.lam)  # type: ignore[attr-defined]
    l1, l2 = (np.asarray(s, dtype=np.float64) for s in terms[:2])
    if l1.ndim == l2.ndim == 0:
        return Ridge(float(l2)) if l1 == 0.0 and lam == 0.0 else Net(float(l1), float(l2), lam), l2
    l1, l2 = (np.broadcast_to(s, (shape[0], 1))[:, 0].copy() for s in (l1, l2))
    return NetEach(l1, l2, lam), l2


def _begin(problem: Problem, start: Solution | None) -> tuple[Array, Array]:
    """Return beta and intercepts to begin from."""
    labels, shape = problem.labels, (problem.rows.n_rows, problem.n_outputs)
    alpha, held = np.zeros(shape), np.zeros(shape[1])
    if start is not None:
        alpha = np.asarray(start.alpha)
        if alpha.shape != shape:
            alpha = -problem.loss.slope(problem.scores(start.coef, start.intercept), labels)
        if problem.fit_intercept:
            held += start.intercept
    elif problem.fit_intercept and isinstance(problem.loss, Softmax):
        held += np.log(np.maximum(_class_shares(problem), np.finfo(np.float64).tiny))
    return into_simplex(alpha, labels), held


def _class_shares(problem: Problem) -> Array:
    return np.bincount(problem.labels, problem.shares, minlength=problem.n_outputs)


def _matrix(problem: Problem) -> Any:
    from scipy.sparse import csr_array

    rows = problem.rows
    return csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, problem.n_features))


# -- the certificate -----------------------------------------------------------------------------


class Point(NamedTuple):
    """The weights and intercepts of a dual point, its v, and what the two sides are worth."""

    w: Array
    b: Array
    v: Array
    primal: float
    dual: float


def certify(problem: Problem, beta: Array, b: Array) -> Point:
    """Return the weights of a dual point, the best intercepts near b, and P and D, all computed afresh.

    Where there is an intercept beta is brought into balance, in place.
    """
    alpha, shares = e_less(beta, problem.labels), problem.shares
    dual = dual_point(problem, alpha, search=False)
    if problem.fit_intercept:
        beta[:] = into_simplex(dual.alpha, problem.labels)
    w = problem.penalty.solve(-dual.v, 0.0)
    z = problem.rows.times(w)
    if problem.fit_intercept:
        b = best_intercept(problem, z, b)
    primal = float(shares @ problem.loss.value(z + b, problem.labels)) + problem.penalty.value(w)
    return Point(w, b, dual.v, primal, dual.value)


def _newton(prob: Array, shares: Array, gradient: Array) -> Array:
    """Return Newton's step for sum_i p_i log sum_c e^(.. + t_c), which no shift of t changes; entries at most 1."""
    k = len(gradient)
    H = np.diag(shares @ prob) - (shares[:, None] * prob).T @ prob
    H += np.trace(H) / k * (1.0 / k + 1e-13 * np.eye(k)) + np.finfo(np.float64).tiny * np.eye(k)
    return np.clip(np.linalg.solve(H, gradient), -1.0, 1.0)


def best_intercept(problem: Problem, z: Array, b: Array) -> Array:
    """Return intercepts that are better than b for scores z without intercepts, or b; their mean is 0."""
    shares, labels = problem.shares, problem.labels
    found = b
    if isinstance(problem.loss, Softmax):
        for _ in range(3):
            prob = problem.loss.probability(z + found)
            found = found - _newton(prob, shares, shares @ prob - _class_shares(problem))
    else:
        found = _hinge_intercept(problem, z, b)
    better = shares @ problem.loss.value(z + found, labels) <= shares @ problem.loss.value(z + b, labels)
    return np.asarray(found - found.mean() if better else b - b.mean())


def _hinge_intercept(problem: Problem, z: Array, b: Array) -> Array:
    """Minimize over one class's intercept at a time, once each.

    As a function of b_c a row's loss has one kink, where class c meets the worst of the others: beyond it the slope is
    1 for rows of other classes, before it -1 for rows of class c. So the minimum is where the kinks passed weigh as
    much as class c does.
    """
    labels, shares, b = problem.labels, problem.shares, b.copy()
    m = z + b + 1.0
    m[np.arange(len(labels)), labels] -= 1.0
    for c, share in enumerate(_class_shares(problem)):
        alone = m[:, c] - b[c]
        m[:, c] = -np.inf
        kinks = m.max(axis=1) - alone
        order = np.argsort(kinks)
        passed = np.cumsum(shares[order])
        b[c] = kinks[order[min(np.searchsorted(passed, share), len(order) - 1)]]
        m[:, c] = alone + b[c]
    return b
