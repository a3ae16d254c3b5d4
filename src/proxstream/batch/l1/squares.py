"""The squared loss on few columns: the lasso and the elastic net through a Gram matrix that grows.

    P(w, b) = (1/2) sum_i p_i (y_i - <x_i, w> - b)^2 + sum_j l1_j |w_j| + (l2_j / 2) w_j^2        all l1_j > 0      (1)

The loss is its own quadratic model, and its Hessian never changes. So columns enter a working set S once, with their
Gram matrix H = X_S' diag(p) X_S, and (1) on S is then solved without reading the data (`gram.minimize`). A round is

1. residuals r = y - X w - b from the weights alone, b the optimal intercept, and G = X' diag(p) r of all features;
2. the certificate, from alpha = s r with the best s that G allows;
3. features with |G_j| > l1_j enter S (on narrow data all do, at once);
4. the weights of S.

H may be rounded to 32 bits: each round corrects the weights with exact slopes. With an intercept columns are centred
through their means in H. If S grows beyond what a Gram matrix is good for, another method takes over.

Reference: M. Massias, A. Gramfort, J. Salmon, Celer: a fast solver for the lasso with dual extrapolation, 2018, for
working sets; J. Friedman, T. Hastie, R. Tibshirani, Regularization paths for generalized linear models via coordinate
descent, 2010, section 2.2, for descent on Gram matrices.
"""

from __future__ import annotations

import numpy as np

from ...core.validation import Array
from .. import cost
from ..dual import balance
from ..newton.curvature import Factorized, factorization_cost
from ..newton.passes import Passes
from ..problem import Problem, Solution, Trace
from . import _csc as column_kernels, _kernels as kernels, gram
from ._csc import Columns
from .point import Strengths

MOST_COLUMNS = 2000
NEAR = 0.5  # part of l1 from which a feature's column is fetched, before it is needed
PASSES_WORTH = 8.0  # what H may cost, in passes over the data
SOLVED = 1e-5  # part of the violations that weights of S may leave
STALLED = 3  # rounds that do not halve the gap


def solve(
    problem: Problem, psi: Strengths, trace: Trace, max_epochs: int, start: Solution | None, n_threads: int
) -> tuple[Solution, bool]:
    """Minimize (1) in at most `max_epochs` rounds; return the solution, and whether it is final."""
    with Passes(problem, n_threads) as passes:
        return _Rounds(problem, psi, passes, start).run(trace, max_epochs)


class _Rounds:
    """The current weights and the best dual point."""

    def __init__(self, problem: Problem, psi: Strengths, passes: Passes, start: Solution | None):
        self.problem, self.psi, self.passes = problem, psi, passes
        self.every, self.bent = np.arange(problem.n_features), bool(np.any(psi.l2))
        self.w = np.zeros(problem.n_features) if start is None else np.array(start.coef, dtype=np.float64)
        self.b, self.dual, self.alpha = 0.0, 0.0, np.zeros(problem.rows.n_rows)  # D(0) = 0
        self.v = np.zeros(problem.n_features)
        self.working: Whole | Working = (Whole if Whole.worth(passes) else Working)(problem, passes)

    def run(self, trace: Trace, max_epochs: int) -> tuple[Solution, bool]:
        """Iterate until the gap is proved."""
        gap, idle, done = np.inf, 0, False
        for epoch in range(max_epochs + 1):
            support = np.flatnonzero(self.w)
            G, primal = self._look(support)
            done = trace.certify(epoch, primal, self.dual, len(support))
            left = trace.history[-1].gap
            gap, idle = (left, 0) if left < 0.5 * gap else (gap, idle + 1)
            if done or epoch == max_epochs or (idle >= STALLED and gap <= 1e-8 * primal):
                break
            if idle >= STALLED or not self._improve(G):
                trace.history.pop()  # another method continues from here
                return self._solution(trace, done), False
        return self._solution(trace, done), True

    def _solution(self, trace: Trace, done: bool) -> Solution:
        return Solution(self.w, self.b, self.alpha, trace.history, done, self.v)

    def _look(self, support: Array) -> tuple[Array, float]:
        """Compute residuals, intercept and dual point from the weights alone; return G and P."""
        p, y = self.problem.shares, self.problem.rows.y
        r = y - self.working.scores(self.w) if len(support) else y.copy()
        if self.problem.fit_intercept:
            self.b = float(p @ r)
            r -= self.b
        theta = p * r
        primal = 0.5 * float(theta @ r) + self.psi.of(support).value(self.w[support])
        if self.problem.fit_intercept:  # what rounding leaves of sum_i p_i alpha_i = 0
            up, down = balance(float(np.sum(np.maximum(theta, 0.0))), float(np.sum(np.minimum(theta, 0.0))))
            scale = np.where(theta > 0.0, up, down)
            theta, r = theta * scale, r * scale
        G = self.passes.transposed(theta)[:-1]
        linear, square = float(theta @ y), float(theta @ r)
        s, most = 1.0, float(kernels.limit(G, self.every, *self.psi))
        if not self.bent and square > 0.0:
            s = linear / square  # maximizes s <theta, y> - s^2 <theta, r> / 2
        s = min(max(s, 0.0), most)
        value = s * linear - 0.5 * s * s * square - float(kernels.beyond(G, self.every, s, *self.psi))
        if value > self.dual:
            self.dual, self.alpha, self.v = value, s * r, s * G
        return G, primal

    def _improve(self, G: Array) -> bool:
        """Add features to S and solve for its weights; return False if there would be too many."""
        if not self.working.extend(G, self.w, self.psi.l1):
            return False
        S, H = self.working.S, self.working.H
        w, psi, g = self.w[S], self.psi.of(S), -G[S]
        far = np.empty(len(S))
        kernels.violations(np.arange(len(S)), w, g, psi.l1, psi.l2, far)
        self.w[S] = gram.minimize(H, H.diagonal().copy(), g, w, psi, SOLVED * float(far.sum()))
        return True


class Whole:
    """All features of narrow data."""

    def __init__(self, problem: Problem, passes: Passes):
        self.problem, self.passes, self.S = problem, passes, np.arange(problem.n_features)
        self.H = np.empty((0, 0))

    @staticmethod
    def worth(passes: Passes) -> bool:
        """Return whether the complete Gram matrix is cheap."""
        affordable = PASSES_WORTH * cost.data_pass(passes.nonzeros)
        return passes.size <= MOST_COLUMNS and factorization_cost(passes)[1] <= affordable

    def extend(self, G: Array, w: Array, l1: Array) -> bool:
        """Build the Gram matrix once; it never becomes too expensive."""
        if len(self.H) == 0:
            H = Factorized(self.passes, np.zeros(self.passes.size)).hessian(self.problem.shares)
            self.H = np.ascontiguousarray(H[:-1, :-1])
            if self.problem.fit_intercept:
                self.H -= np.outer(H[-1, :-1], H[-1, :-1])
        return True

    def scores(self, w: Array) -> Array:
        """Return X w."""
        return self.passes.times(np.append(w, 0.0))


class Working:
    """The fetched columns and those of them that are in S, with their Gram matrix."""

    def __init__(self, problem: Problem, passes: Passes):
        self.problem, self.passes, d = problem, passes, problem.n_features
        self.fetched, self.S, self.H = np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0))
        self.place, self.inside = np.full(d, -1, np.int32), np.zeros(d, np.bool_)
        self.columns = Columns(np.zeros(1, np.int64), np.empty(0, np.uint32), np.empty(0, problem.rows.data.dtype))

    def extend(self, G: Array, w: Array, l1: Array) -> bool:
        """Add all features above their threshold; return False if their Gram matrix would cost too much."""
        near = kernels.above(G, w, self.inside, NEAR, l1)
        new = near[(w[near] != 0.0) | (np.abs(G[near]) > l1[near])]
        if len(new) == 0:
            return True
        before, S = len(self.S), np.concatenate((self.S, new))
        if not self._affordable(len(S), len(S) * self.passes.nonzeros / len(w)):
            return False
        if np.any(self.place[new] < 0):
            self.fetched = np.union1d(self.fetched, near)
            self.place[self.fetched] = np.arange(len(self.fetched), dtype=np.int32)
            self.columns = column_kernels.pick(self.passes.X, self.place, len(self.fetched))
        at, ptr = self.place[S].astype(np.int64), self.columns.ptr
        if not self._affordable(len(S), float(np.sum(ptr[at + 1] - ptr[at]))):
            return False
        self.S, self.inside[new] = S, True
        self.H = gram.extended(self.H, self.columns, at, self.problem.shares, self.passes.threads)
        if self.problem.fit_intercept:
            means = np.zeros(len(self.fetched))
            column_kernels.products(self.columns, at, self.problem.shares, means)
            self.H[before:] -= np.outer(means[at[before:]], means[at])
            self.H[:before, before:] = self.H[before:, :before].T
        return True

    def _affordable(self, m: int, entries: float) -> bool:
        """Return whether a Gram matrix of m columns with this many entries is worth its cost."""
        seconds = float(cost.gram(self.passes.n, entries, m))
        return m <= MOST_COLUMNS and seconds <= PASSES_WORTH * cost.data_pass(self.passes.nonzeros)

    def scores(self, w: Array) -> Array:
        """Return X w; weights outside S are 0 once S is not empty."""
        if len(self.S) == 0:
            return self.passes.times(np.append(w, 0.0))
        z, at = np.zeros(self.passes.n), self.place[self.S].astype(np.int64)
        local = np.zeros(len(self.fetched))
        local[at] = w[self.S]
        column_kernels.combine(self.columns, at, local, z)
        return z
