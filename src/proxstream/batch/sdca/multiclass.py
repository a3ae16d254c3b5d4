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
  passes continue from there.

A weak l2 makes passes slow: they come nearer by a constant factor in some 1 + ||x||^2 / (n l2). So where l2 is less
than a row's own pull, weights are held like intercepts: a pass is made on P(W) + (mu/2) ||W - Y||^2, a well-conditioned
problem, and Y is the last W carried on in its direction, as far as Nesterov's sequence goes, or not at all where it
turned back. The number of passes falls to about its root, and again the term vanishes as W settles.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from ...core import validation as _checks
from ...core.losses.multiclass import MulticlassHinge, Softmax
from ...core.penalties import GroupL2
from ...core.validation import Array
from ..dual import dual_point, e_less, into_simplex
from ..problem import Problem, Solution, Trace

PULL = 0.15  # of a row's squares, in the mean: where l2 is less, weights are held back
GROWTH = 1.2  # epochs at which the certificate is computed anyway, each this many times the one before
ACCEPTED = "L2, alone or with L1 and GroupL2 of the weights' rows, with one strength or one per feature"


def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
    accelerate: bool = True,
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
    accelerate : hold weights back under a weak penalty, as described above; False is the paper's method

    >>> import numpy as np
    >>> from proxstream import L2, losses
    >>> from proxstream.data.rowblock import as_block
    >>> X, y = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]]), [0, 1, 2]
    >>> found = solve(Problem(as_block(X, y), 2, losses.softmax, L2(0.1), n_outputs=3), tol=1e-9)
    >>> found.coef.round(3), found.converged
    (array([[ 0.922, -0.305, -0.617],
           [-0.305,  0.922, -0.617]]), True)

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA, Fig. 1, Option I; and (2014), Accelerated Prox-SDCA.
    """
    _checks.number("tol", tol, low=0.0, strict=True)
    ascent = _Ascent(problem, start, n_threads, accelerate=accelerate)
    rng = np.random.default_rng(seed)
    trace = Trace(tol)
    best, dual = ascent.certify()
    proof, beta = dual, ascent.beta.copy()
    done = trace.certify(0, best.primal, dual, int(np.count_nonzero(best.w)))
    look = 1
    for epoch in range(1, max_epochs + 1):
        if done or trace.stalled:
            break
        lacked = ascent.sweep(rng.permutation(problem.rows.n_rows))
        near = trace.near_rounding or (ascent.mu == 0.0 and lacked <= trace.aim * best.primal)
        if epoch >= look or epoch == max_epochs or near:
            look = int(np.ceil(GROWTH * epoch))
            point, dual = ascent.certify()
            best = min(best, point, key=lambda seen: seen.primal)
            if dual > proof:
                proof, beta = dual, ascent.beta.copy()
            done = trace.certify(epoch, best.primal, dual, int(np.count_nonzero(best.w)))
    return Solution(best.w, best.b, e_less(beta, problem.labels), trace.history, done)


class Point(NamedTuple):
    """Weights, intercepts and what they are worth."""

    w: Array
    b: Array
    primal: float


class _Ascent:
    """A dual point on its way: what the passes share, where weights and intercepts are held, and the proof."""

    def __init__(self, problem: Problem, start: Solution | None, n_threads: int, *, accelerate: bool) -> None:
        from ...core.losses import _kernels as losses
        from ._multiclass import Rows

        self.problem, self.n_threads = problem, n_threads
        self.loss = losses.as_tuple(problem.loss)
        shares, rows = problem.shares, problem.rows
        squared, l2 = _matrix(problem) ** 2, _component(problem)[1]
        pull = PULL * float(shares @ squared.sum(axis=1)) * float(shares.max())
        self.mu = max(pull - float(l2.min()), 0.0) if accelerate else 0.0
        self.penalty, stiff = _component(problem, self.mu)
        squares = squared @ np.broadcast_to(1.0 / stiff, problem.n_features)
        # As loose as one more feature may be without setting the pace: beside a row's other features, or its loss.
        self.loose = 0.2 * max(float(shares @ squares), 1.0 / float(shares.max())) if problem.fit_intercept else 0.0
        stiffness = shares * (squares + self.loose)
        self.rows = Rows(rows.indptr, rows.indices, rows.data, problem.labels, shares, stiffness)
        self.beta, self.b = _begin(problem, start)
        self.v = np.zeros(problem.shape)
        self.w = np.zeros(problem.shape) if start is None else np.array(start.coef, dtype=np.float64)
        self.held_w, self.held_b = self.w, self.b
        root = np.sqrt(float(l2.min()) / (float(l2.min()) + self.mu))
        self.most, self.streak = (1.0 - root) / (1.0 + root), 0

    def sweep(self, order: Array) -> float:
        """Visit each row once; return what the rows lacked in all."""
        from ._multiclass import Dual, sweep, weights

        if self.mu > 0.0:
            self.v += self.mu * self.held_w
        dual = Dual(self.beta, self.v, self._sums(), self.held_b, self.loose)
        if self.n_threads == 1:
            lacked = sweep(self.loss, self.penalty, self.rows, dual, order)
        else:
            with ThreadPoolExecutor(self.n_threads) as pool:
                parts = np.array_split(order, self.n_threads)
                lacked = sum(pool.map(lambda part: sweep(self.loss, self.penalty, self.rows, dual, part), parts))
        b = self.held_b + self.loose * self._sums()
        if self.mu > 0.0:
            w = np.zeros_like(self.w)
            weights(self.penalty, self.v, w)
            self.v -= self.mu * self.held_w
            self._carry_on(w, b)
        else:
            self.b = self.held_b = b
        return float(lacked)

    def _carry_on(self, w: Array, b: Array) -> None:
        """Hold weights and intercepts beyond the new ones; not at all beyond where they have turned back."""
        turned = float(np.vdot(self.held_w - w, w - self.w)) > 0.0
        self.streak = 0 if turned else self.streak + 1
        momentum = min(self.most, self.streak / (self.streak + 3.0))
        self.held_w, self.held_b = w + momentum * (w - self.w), b + momentum * (b - self.b)
        self.w, self.b = w, b

    def certify(self) -> tuple[Point, float]:
        """Return weights and intercepts with P, and D, all computed from beta; the dual point is balanced."""
        problem = self.problem
        dual = dual_point(problem, e_less(self.beta, problem.labels), search=False)
        if problem.fit_intercept:
            self.beta[:] = into_simplex(dual.alpha, problem.labels)
        self.v = dual.v
        w = self.w if self.mu > 0.0 else problem.penalty.solve(-dual.v, 0.0)
        z = problem.rows.times(w)
        b = best_intercept(problem, z, self.b) if problem.fit_intercept else self.b
        primal = float(problem.shares @ problem.loss.value(z + b, problem.labels)) + problem.penalty.value(w)
        return Point(w, b, primal), dual.value

    def _sums(self) -> Array:
        """The weighted sum of all alphas, one per class."""
        return np.asarray(_class_shares(self.problem) - self.problem.shares @ self.beta)


def _component(problem: Problem, mu: float = 0.0) -> tuple[Any, Array]:
    """Return the penalty, and mu/2 of squares beside it, as kernels know it; and its l2."""
    from ._multiclass import Net, NetEach, Ridge

    penalty, shape = problem.penalty, (problem.n_features, problem.n_outputs)
    penalty.check_shape(shape)
    if not isinstance(problem.loss, (Softmax, MulticlassHinge)):
        raise TypeError(f"multiclass Prox-SDCA takes the losses softmax and multiclass_hinge, got {problem.loss}")
    terms = penalty.terms(shape)
    group = terms.coupled
    rows_only = group is None or (isinstance(group, GroupL2) and group.groups is None)
    per_feature = all(np.shape(s) in ((), (shape[0], 1)) for s in terms[:2])
    if not (rows_only and per_feature and terms._replace(coupled=None).only_l1_l2):
        raise TypeError(f"multiclass Prox-SDCA takes the penalties {ACCEPTED}; got {penalty!r}")
    if not np.min(terms.l2) > 0.0:
        raise ValueError(f"Prox-SDCA needs a strongly convex penalty: add L2 with a strength > 0 to {penalty!r}")
    lam = 0.0 if group is None else float(group.lam)  # type: ignore[attr-defined]
    l1, l2 = np.asarray(terms.l1, dtype=np.float64), np.asarray(terms.l2, dtype=np.float64) + mu
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


# -- intercepts ----------------------------------------------------------------------------------


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
            prob = problem.loss.probabilities(z + found)
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
