"""Smooth losses under l1 and l2: proximal Newton steps by coordinate descent, on the features that can matter.

    P(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + sum_j l1_j |w_j| + (l2_j / 2) w_j^2                              (1)

    theta_i  p_i phi'(z_i)          G = X' theta             D_i  p_i phi''(z_i)
    s        the part of theta that is dual feasible         q_j  sqrt(sum_i p_i x_ij^2)

The intercept is one more column, of ones, whose strengths are 0. An epoch is

1. theta, D, G at the weights, and the certificate: s theta with s |G_j| <= l1_j wherever l2_j = 0 is a dual point.
   Weights without a penalty (the intercept) demand G_j = 0: Newton steps on them alone come first;
2. gap-safe screening. phi* is 1/L-strongly convex, so the dual optimum is within sqrt(2 L gap) of s theta in the norm
   weighted by p, and a feature with

       s |G_j| + q_j sqrt(2 L gap) < l1_j                                                                          (2)

   has weight 0 at the optimum: it is never looked at again (Ndiaye et al. 2017, for the lasso and beyond);
3. proximal Newton steps (see `proxstream.kernels.l1`) on the live features: those with a weight, or with G_j near the
   threshold.

Before all that, columns are left out which no dual point can pull across their threshold: a loss of bounded slope
bounds |G_j| by sums over the column alone, for other losses (2) is used at the start.

Reference: G.-X. Yuan, C.-H. Ho, C.-J. Lin, An improved GLMNET for l1-regularized logistic regression, 2012; E. Ndiaye,
O. Fercoq, A. Gramfort, J. Salmon, Gap safe screening rules for sparsity enforcing penalties, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .._checks import Array
from ..kernels import columns, newton
from ..kernels import l1 as kernels
from .dual import balance, dual_point
from .problem import Problem, Solution, Trace

LOSSES = ("logistic", "squared", "squared_hinge", "huber", "poisson")

FLOOR = 1e-7  # of phi'', so that rows far from their bend keep a model
LIVE = 0.9  # part of l1 from which |G_j| makes a resting feature worth looking at
FEASIBLE = 1e-13  # what rounding may leave of <x_j, theta> = 0, relative to its terms
HALVINGS = 40
INNER_PASSES = 6


def solve(
    problem: Problem,
    *,
    tol: float,
    max_epochs: int,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
) -> Solution:
    """Minimize (1) until the duality gap is at most `tol` of the objective, or for `max_epochs`."""
    work = _Work(problem, start, seed)
    trace = Trace(tol)
    epoch = 0
    while True:
        work.refresh()
        work.certify()
        done = trace.certify(epoch, work.primal, work.best_dual, work.nnz)
        if done or epoch >= max_epochs:
            break
        epoch += 1
        work.screen()
        work.improve(trace)
    coef, intercept = work.weights()
    return Solution(coef, intercept, work.best_alpha, trace.history, done)


def strengths(problem: Problem) -> tuple[Array, Array]:
    """Return l1 and l2 of each feature; a TypeError if the loss or the penalty is not one that (1) speaks of."""
    if problem.loss.name not in LOSSES:
        raise TypeError(f"loss must be one of {', '.join(LOSSES)}, got {problem.loss}")
    shape = (problem.n_features,)
    terms = problem.penalty._terms(shape)
    unbounded = bool(np.all(np.isneginf(terms.lo)) and np.all(np.isposinf(terms.hi)))
    if terms.bends or terms.coupled is not None or not unbounded:
        raise TypeError(f"penalty must be a sum of L1, L2 and ElasticNet, got {problem.penalty!r}")
    return np.broadcast_to(terms.l1, shape).astype(np.float64), np.broadcast_to(terms.l2, shape).astype(np.float64)


class _Work:
    """The weights of the columns that survive, and everything that follows from them."""

    def __init__(self, problem: Problem, start: Solution | None, seed: int):
        from ..kernels.losses import as_tuple

        self.problem, self.loss = problem, as_tuple(problem.loss)
        self.y, self.p = problem.rows.y, problem.shares
        self.rng = np.random.default_rng(seed)
        strength1, strength2 = strengths(problem)
        intercept = problem.fit_intercept
        n, d = problem.rows.n_rows, problem.n_features
        w = np.zeros(d) if start is None else np.array(start.coef, dtype=np.float64)
        b = 0.0 if start is None else float(start.intercept)

        self.theta, self.D, self.g = np.empty(n), np.empty(n), np.empty(n)
        self.z = problem.scores(w, b)
        self.expand()
        self.kept, counts = self._survivors(w, b, strength1, strength2)
        self.columns = columns.gather(problem.rows, self.kept, counts, d, intercept)
        free = np.zeros(int(intercept))
        self.w = np.concatenate((w[self.kept], np.full(int(intercept), b)))
        self.l1 = np.concatenate((strength1[self.kept], free))
        self.l2 = np.concatenate((strength2[self.kept], free))
        m = len(self.w)
        every = np.arange(m)
        self.alive = every
        self.free = every[(self.l1 == 0.0) & (self.l2 == 0.0)]
        self.G, self.q = np.zeros(m), np.zeros(m)
        columns.squares(self.columns, every, self.p, self.q)
        np.sqrt(self.q, out=self.q)
        self.H = np.empty(m)
        self.best_alpha = np.zeros(n)  # always feasible
        self.best_dual = float(kernels.dual_loss(self.loss, self.best_alpha, 1.0, self.y, self.p))
        if start is not None:
            self._offer(*dual_point(problem, start.alpha, search=False)[:2])

    # -- what can matter -------------------------------------------------------------------------

    def _survivors(self, w: Array, b: float, l1: Array, l2: Array) -> tuple[Array, Array]:
        """Return the features that the optimum may use, and how many rows have each."""
        problem, loss = self.problem, self.problem.loss
        table = np.zeros((problem.n_features, 3))
        if math.isfinite(loss.lipschitz):
            edge = loss.lipschitz * self.p
            binary = loss.kind == "binary"  # slopes are between -y L and 0
            low = np.where(self.y > 0.0, -edge, 0.0) if binary else -edge
            high = np.where(self.y > 0.0, 0.0, edge) if binary else edge
            columns.tally_bounded(problem.rows, low, high, table)
            pull = np.maximum(-table[:, 1], table[:, 2])
        else:
            pull = np.full(problem.n_features, np.inf)
            columns.tally_bounded(problem.rows, self.p, self.p, table)
        kept = np.flatnonzero((table[:, 0] > 0.0) & (pull > l1 * (1.0 - 1e-9)))
        return kept, table[kept, 0].astype(np.int64)

    def screen(self) -> None:
        """Let go of the features that (2) proves to be 0."""
        radius = math.sqrt(2.0 * self.problem.loss.smoothness * max(self.primal - self.dual, 0.0))
        if not math.isfinite(radius):
            return
        j = self.alive
        reach = self.scale * np.abs(self.G[j]) + self.q[j] * radius
        self.alive = j[(reach >= self.l1[j]) | (self.w[j] != 0.0)]

    # -- where we are ----------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """Number of features with a weight."""
        return int(np.count_nonzero(self.w[: len(self.kept)]))

    @property
    def primal(self) -> float:
        """P at the weights."""
        return self.mean_loss + self.penalty(self.w)

    def penalty(self, w: Array, chosen: Array | slice = slice(None)) -> float:
        """Return the penalty of weights of the chosen columns."""
        return float(self.l1[chosen] @ np.abs(w) + 0.5 * (self.l2[chosen] @ (w * w)))

    def weights(self) -> tuple[Array, float]:
        """Return the weight of every feature, and the intercept."""
        coef = np.zeros(self.problem.n_features)
        coef[self.kept] = self.w[: len(self.kept)]
        return coef, float(self.w[-1]) if self.problem.fit_intercept else 0.0

    def refresh(self) -> None:
        """Compute z, theta and D from the weights, whatever small errors steps have summed up."""
        self.z[:] = 0.0
        columns.combine(self.columns, np.flatnonzero(self.w), self.w, self.z)
        self.expand()

    def expand(self) -> None:
        """Compute theta, D and the mean loss at z."""
        n = len(self.z)
        self.mean_loss = float(newton.expand(self.loss, self.y, self.p, self.z, 0, n, self.theta, self.D))

    # -- the certificate -------------------------------------------------------------------------

    def certify(self) -> None:
        """Compute the dual value at the weights; keep the best alpha seen."""
        if len(self.free):
            self._free_steps()
            self._centre()
        j = self.alive
        columns.products(self.columns, j, self.theta, self.G)
        size, l1, l2 = np.abs(self.G[j]), self.l1[j], self.l2[j]
        bound = (l2 == 0.0) & (l1 > 0.0)
        over = size[bound] > l1[bound]
        self.scale = float(np.min(l1[bound][over] / size[bound][over], initial=1.0))
        beyond = np.maximum(self.scale * size - l1, 0.0)[l2 > 0.0]
        value = float(kernels.dual_loss(self.loss, self.theta, self.scale, self.y, self.p))
        value -= 0.5 * float(np.sum(beyond * (beyond / l2[l2 > 0.0])))
        self.dual = value
        if value > self.best_dual:
            positive = self.p > 0.0
            self._offer(value, np.divide(-self.scale * self.theta, self.p, out=np.zeros_like(self.p), where=positive))

    def _offer(self, value: float, alpha: Array) -> None:
        """Keep the better of the best dual point and this one."""
        if value > self.best_dual:
            self.best_dual, self.best_alpha = value, alpha

    def _free_steps(self) -> None:
        """Take Newton steps on the weights without a penalty: where they are optimal G is 0, as a dual point needs."""
        j = self.free
        for _ in range(5):
            columns.products(self.columns, j, self.theta, self.G)
            if np.all(np.abs(self.G[j]) <= 1e-15 * self._sizes(j)):
                return
            d, v = self._free_direction()
            t = self._line_search(v, d, j)
            if t == 0.0:
                return
            self.w[j] += t * d
            self.z += t * v
            self.expand()

    def _free_direction(self) -> tuple[Array, Array]:
        """Return the Newton step d on the free weights, and X d, by conjugate gradients."""
        j, v = self.free, np.zeros_like(self.z)
        full, out = np.zeros_like(self.w), np.zeros_like(self.w)

        def hessian(u: Array) -> Array:
            v[:] = 0.0
            full[j] = u
            columns.combine(self.columns, j, full, v)
            columns.products(self.columns, j, self.D * v, out)
            return np.asarray(out[j])

        columns.squares(self.columns, j, self.D, self.H)
        d = _conjugate_gradients(hessian, -self.G[j], self.H[j], 1e-14, 4 * len(j))
        hessian(d)
        return d, v

    def _centre(self) -> None:
        """Move theta to where the free columns do not feel it; to 0, which is always dual feasible, if that fails.

        An intercept alone asks that theta sums to 0: the heavier side is scaled down, which stays where phi* is finite.
        """
        j = self.free
        if len(j) == 1 and self.problem.fit_intercept:
            up, down = balance(float(np.sum(np.maximum(self.theta, 0.0))), float(np.sum(np.minimum(self.theta, 0.0))))
            self.theta *= np.where(self.theta > 0.0, up, down)
            return
        for _ in range(2):
            columns.products(self.columns, j, self.theta, self.G)
            _, v = self._free_direction()
            self.theta += self.D * v
        columns.products(self.columns, j, self.theta, self.G)
        if np.any(np.abs(self.G[j]) > FEASIBLE * self._sizes(j)):
            self.theta[:] = 0.0

    def _sizes(self, j: Array) -> Array:
        """Return upper bounds on |<x_j, theta>|, to measure rounding by."""
        return np.asarray(self.q[j] * math.sqrt(float(np.sum(self.theta**2 / np.where(self.p > 0.0, self.p, 1.0)))))

    # -- steps -----------------------------------------------------------------------------------

    def improve(self, trace: Trace) -> None:
        """Take proximal Newton steps on the live features until a tenth of their first violation is left."""
        j = self.alive
        w, size = self.w[j], np.abs(self.G[j])
        resting = np.maximum(size - self.l1[j], 0.0)
        moving = np.abs(self.G[j] + self.l2[j] * w + self.l1[j] * np.sign(w))
        far = np.where(w == 0.0, resting, moving)
        target, largest = 0.1 * float(far.sum()), float(far.max(initial=0.0))
        live = j[(w != 0.0) | (size >= LIVE * self.l1[j])]
        for _ in range(50):
            live, first, largest = self._newton(live, largest)
            if first <= target:
                break

    def _newton(self, live: Array, largest: float) -> tuple[Array, float, float]:
        """Take one step; return the features still live, and the sum and the largest of the first violations."""
        self.expand()
        new = self.w.copy()
        self.g[:] = self.theta
        self.H[live] = -1.0
        model = (self.g, np.maximum(self.D, FLOOR * self.p), self.H)
        order = self.rng.permutation(live)
        slack = np.full(len(self.w), largest)
        kept, first, largest = kernels.descend(self.columns, order, model, new, self.l1, self.l2, slack)
        live = movers = order[:kept]
        slack[:] = np.inf
        total = first
        for _ in range(INNER_PASSES):
            if total <= 0.05 * first:
                break
            movers = self.rng.permutation(movers)
            _, total, _ = kernels.descend(self.columns, movers, model, new, self.l1, self.l2, slack)
        v = np.zeros_like(self.z)
        d = new[live] - self.w[live]
        step = np.zeros_like(self.w)
        step[live] = d
        columns.combine(self.columns, live, step, v)
        t = self._line_search(v, d, live)
        self.w[live] = new[live] if t == 1.0 else self.w[live] + t * d
        self.z += t * v
        return live, first, largest

    def _line_search(self, v: Array, d: Array, j: Array) -> float:
        """Return the first of 1, 1/2, 1/4 ... whose part of the step lowers P enough; 0.0 if none does."""
        w = self.w[j]
        before = self.penalty(w, j)
        promise = float(self.theta @ v) + self.penalty(w + d, j) - before
        start = self.mean_loss + before
        t = 1.0
        for _ in range(HALVINGS):
            loss, _, _ = newton.along(self.loss, self.y, self.p, self.z, v, t, 0, len(v))
            if loss + self.penalty(w + t * d, j) <= start + 0.01 * t * promise + 1e-15 * abs(start):
                return t
            t *= 0.5
        return 0.0


def _conjugate_gradients(hessian: Callable[[Array], Array], b: Array, diagonal: Array, tol: float, most: int) -> Array:
    """Solve H d = b, preconditioned by H's diagonal."""
    M = np.where(diagonal > 0.0, diagonal, 1.0)
    d, r = np.zeros_like(b), b.copy()
    z = r / M
    u = z.copy()
    rz = first = float(r @ z)
    for _ in range(most):
        if rz <= tol * tol * first:
            break
        Hu = hessian(u)
        curvature = float(u @ Hu)
        if curvature <= 0.0:
            break
        a = rz / curvature
        d += a * u
        r -= a * Hu
        z = r / M
        rz, before = float(r @ z), rz
        u = z + (rz / before) * u
    return d
