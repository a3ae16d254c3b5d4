"""Losses of straight pieces under L2, L1 and their sums: a primal-dual interior-point method.

Such a loss is the best that one or two bounded numbers beta_k, the sides of a row, can make of its score:

    phi(z, y) = max over 0 <= beta_k <= h_k of  sum_k beta_k (c_k - sigma_k z) - (e/2) beta_k^2 - o (y - z)
    alpha = sum_k sigma_k beta_k - o                                                             (1)

    loss                 sides (sigma, c, h)                        o        e
    hinge                (y, 1, 1)                                  0        0
    smoothed_hinge       (y, 1, 1)                                  0        gamma
    perceptron           (y, 0, 1)                                  0        0
    absolute             (1, y, 2)                                  1        0
    quantile(tau)        (1, y, 1)                                  1 - tau  0
    epsilon_insensitive  (1, y - epsilon, 1), (-1, -y - epsilon, 1) 0        0

So the dual problem has bounds alone, and weights are optimal where, with multipliers l and u >= 0 of the two bounds,

    c - sigma z - e beta = u - l     l beta = 0,  u gamma = 0,  gamma = h - beta     mu w = X'(p alpha)       (2)

Products are put at nu > 0 in place of 0 and nu taken to 0, each step Newton's on (2). All but the weights can be
eliminated, and what is left has the form that `curvature` solves:

    theta = 1 / (u / gamma + l / beta + e)      r = c - sigma z - e beta - nu / gamma + nu / beta
    (X' D X + mu) dw = X'e + X'(p alpha) - mu w          D = p sum_k theta_k,  e = p sum_k theta_k sigma_k r_k      (3)
    dbeta = theta (r - sigma X dw)

A step is made twice (Mehrotra 1992): once aiming at nu = 0, which shows how far one could go; then at the nu that this
suggests, with the first one's products d(beta) d(l) and d(gamma) d(u) taken into account. Some 25 steps do, whatever
kappa is, where Prox-SDCA would need thousands of passes. Rows at a bound lose their D as nu falls: the factors of (3)
cost less and less.

Weights under L1 are split by their signs (`signed`), and have a strength in place of mu that changes from step to step.
Those that tend to 0 are set to 0 in what is certified and returned. On wide data the method runs on a working set of
columns: those whose constraint |v_j| <= l1_j the dual point of the last run violates are added, until none is.

Reference: Ferris and Munson (2002), Interior-point methods for massive support vector machines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.penalties import L1, L2
from ...core.validation import Array
from ..dispatch import NARROW
from ..dual import DualPoint, combine, dual_point
from ..lambda_max import null_point
from ..problem import Problem, Solution, Trace
from .curvature import Factorized, Point, direction
from .passes import Passes
from .signed import Four, Signed

INSIDE = 0.99  # how much of the way to the nearest bound a step goes
CAP = 2.0  # how far a correction may push one product, in mean products
DROPPED = 0.5  # the part of mu that the rows left out of the factors may bend
LEAVE = 1e-8  # what a direction leaves of its right side: (2) has to hold better and better, too
BOLD = (np.inf, 1e4, 1e3, 1e2, 10.0)  # times as large as usual: weights that are tried as 0 at the end
SHORTEST = 1e-10  # a step that is shorter than this leads nowhere
STALE = 10**9  # iterations that force a new factorization
FEW = 300  # columns that a working set has at first, and that it gains at most in a round beside twice its size
ROUGH, FINER = 1e-2, 0.1  # gap that the first round aims at, and what the next ones make of it
SHORT_OF_TOL = 0.5  # part of tol that a working set aims at last


def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
) -> Solution:
    """Solve a problem with a loss of straight pieces and a penalty of l1 and l2 parts to a relative gap of `tol`.

    An epoch is a step of the method. `seed` is for solvers that draw; this one does not. A start is taken
    only if it proves enough by itself: points at their bounds are not a valid start.

    >>> import proxstream as ps
    >>> from proxstream.data.rowblock import as_block
    >>> problem = Problem(as_block(np.array([[1.0, 0.1], [-1.0, 0.1]]), y=[1, -1]), 2, ps.hinge, ps.L1(0.1))
    >>> solve(problem, tol=1e-6).coef.round(4)
    array([1., 0.])
    """
    trace = Trace(tol)
    zero = np.zeros(problem.shape)
    if problem.primal(zero, 0.0) == 0.0:  # as for the perceptron: no loss is below 0, which alpha = 0 proves exactly
        start = Solution(zero, 0.0, np.zeros(problem.rows.n_rows), trace.history, False)
    if start is not None and _proves(problem, start, trace):
        return Solution(start.coef, start.intercept, start.alpha, trace.history, True)
    if problem.n_features > NARROW and np.any(problem.penalty.terms(problem.shape).l1):
        return _Columns(problem, trace, n_threads).run(max_epochs)
    with Passes(problem, n_threads) as passes:
        return _Interior(problem, passes, trace).run(max_epochs)


def _proves(problem: Problem, start: Solution, trace: Trace) -> bool:
    """Return whether a solution of another problem is one of this, and record it then."""
    primal = problem.primal(start.coef, start.intercept)
    dual = dual_point(problem, start.alpha, search=False).value
    if not primal - dual <= trace.tol * max(abs(primal), abs(dual)):
        return False
    return trace.certify(0, primal, dual, int(np.count_nonzero(start.coef)))


class State(NamedTuple):
    """Rows and weights under L1 on their way to 0 products."""

    rows: Four
    weights: Four

    def moved(self, changes: State, size: float) -> State:
        """Return where a step of this size leads."""
        return State(self.rows.moved(changes.rows, size), self.weights.moved(changes.weights, size))


class _Interior:
    """The weights on their way."""

    def __init__(self, problem: Problem, passes: Passes, trace: Trace) -> None:
        self.problem, self.passes, self.trace = problem, passes, trace
        self.p, self.sides = problem.shares, problem.loss.sides(problem.rows.y)
        self.proof = DualPoint(-np.inf, np.zeros(problem.rows.n_rows), np.zeros(problem.n_features))
        terms = problem.penalty.terms(problem.shape)
        l1, self.l2 = (np.broadcast_to(np.asarray(each, np.float64), problem.shape) for each in (terms.l1, terms.l2))
        self.signed = Signed(l1, self.l2, 1.0 / passes.n)
        self.mu = np.empty(passes.size)
        self.mu[:-1] = self.l2
        self.mu[-1] = 1.0 - passes.one
        self.counted = self.p > 0.0
        self.norms = passes.squared_norms()
        self.M = Factorized(passes, self.mu, exact=bool(np.any(l1)))

    def run(self, max_epochs: int) -> Solution:
        """Make steps until the gap is proved, or none is left to make."""
        passes, sides = self.passes, self.sides
        w = np.zeros(passes.size)
        if self.problem.loss.kind == "regression":
            w[-1] = passes.one * float(self.p @ self.problem.rows.y)
        z = passes.times(w)
        residual = sides.c - sides.sigma * z - 0.5 * sides.e * sides.h
        scale = 0.5 * float(np.mean(np.abs(residual) @ self.p)) or 1.0
        low, up = np.maximum(-residual, 0.0) + scale, np.maximum(residual, 0.0) + scale
        at = State(Four(0.5 * sides.h, 0.5 * sides.h, low, up), self.signed.start(scale))
        history = self.trace.history
        first = history[-1].epoch if history else 0
        for epoch in range(max_epochs + 1):
            alpha = (sides.sigma * at.rows.beta).sum(axis=0) - sides.o
            kept, done = self._certified(first + epoch, w, z, alpha, at.weights)
            if done and len(self.signed.j):
                kept = self._sparser(kept, w, at.weights)
            if done or epoch == max_epochs or self.trace.stalled:
                break
            size, d, changes = self._step(w, z, passes.transposed(self.p * alpha), at)
            if not size > SHORTEST:
                break
            w += size * d
            at = at.moved(changes, size)
            z = passes.times(w)
        proof = self.proof
        return Solution(kept[:-1].copy(), float(kept[-1]), proof.alpha, self.trace.history, done, proof.v)

    def _certified(self, epoch: int, w: Array, z: Array, alpha: Array, at: Four) -> tuple[Array, bool]:
        """Return the weights with exact zeros, and whether they are proved to be good enough."""
        if len(self.signed.j):
            w = self.signed.rounded(at, w)
            z = self.passes.times(w)
        self.proof = max(self.proof, dual_point(self.problem, alpha, search=False), key=lambda point: point.value)
        return w, self.trace.certify(epoch, self._primal(w, z), self.proof.value, int(np.count_nonzero(w[:-1])))

    def _primal(self, w: Array, z: Array) -> float:
        loss = float(self.p @ self.problem.loss.value(z, self.problem.rows.y))
        squares = 0.5 * float(w[:-1] @ (self.l2 * w[:-1]))
        return loss + squares + float(self.signed.l1 @ np.abs(w[self.signed.j]))

    def _sparser(self, kept: Array, w: Array, at: Four) -> Array:
        """Return the sparsest of some roundings of w that the dual point proves as well, and record its P."""
        last = self.trace.history[-1]
        for bold in BOLD:
            some = self.signed.rounded(at, w, bold)
            nnz, primal = int(np.count_nonzero(some[:-1])), self._primal(some, self.passes.times(some))
            if nnz < last.nnz and primal - last.dual <= self.trace.tol * max(abs(primal), abs(last.dual)):
                gap = max(primal - last.dual, 0.0)
                self.trace.history[-1] = last._replace(primal=primal, gap=gap, nnz=nnz)
                return some
        return kept

    def _step(self, w: Array, z: Array, v: Array, at: State) -> tuple[float, Array, State]:
        """Return the size of a step, the weights' direction and the changes of all else; v is X'(p alpha)."""
        rows, weights, j = at.rows, at.weights, self.signed.j
        theta = 1.0 / (rows.up / rows.gamma + rows.low / rows.beta + self.sides.e)
        D = self.p * theta.sum(axis=0)
        rest = v - self.mu * w
        self.mu[j] = self.signed.stiffness(weights)
        bend = self.norms * (self.passes.n / (DROPPED * self.mu[:-1].min()))
        self.M.update(np.where(D * bend > 1.0, D, 0.0), STALE)

        def towards(lower: Any, upper: Any, aims: tuple[Any, Any]) -> tuple[Array, State]:
            """Return Newton's step to products l beta = lower and u gamma = upper, (3), and those of weights."""
            r = self.sides.c - self.sides.sigma * z - self.sides.e * rows.beta - upper / rows.gamma + lower / rows.beta
            e = self.p * (theta * self.sides.sigma * r).sum(axis=0)
            aim = self.signed.towards(weights, w[j], v[j], *aims)
            rest[j] = aim.A / aim.yielding
            point = Point(z, e, D, -(self.passes.transposed(e) + rest), 0.0)
            d, t, _ = direction(self.passes, self.M, point, self.mu, self.M.solve(-point.g), LEAVE, 0.0)
            change = theta * (r - self.sides.sigma * t)
            low = (lower - rows.low * change) / rows.beta - rows.low
            up = (upper + rows.up * change) / rows.gamma - rows.up
            return d, State(Four(change, -change, low, up), aim.changes(d[j]))

        _, first = towards(0.0, 0.0, (0.0, 0.0))
        now, then = (self._mean_product(at.moved(first, size)) for size in (0.0, self._longest(at, first)))
        nu = now * (then / now) ** 3
        d, changes = towards(*_corrected(first.rows, nu, now), _corrected(first.weights, nu, now, self.signed.share))
        return min(1.0, INSIDE * self._longest(at, changes)), d, changes

    def _longest(self, at: State, changes: State) -> float:
        """Return the longest step, up to 1, that leaves everything >= 0; rows of no weight do not count."""
        rows = at.rows.longest(changes.rows, self.counted)
        return min(rows, at.weights.longest(changes.weights, self.signed.all))

    def _mean_product(self, at: State) -> float:
        rows, signed = at.rows, self.signed
        sides = len(rows.low)
        total = sides * float(np.mean((rows.low * rows.beta + rows.up * rows.gamma) @ self.p))
        return 0.5 * (total + signed.products(at.weights)) / (sides + signed.share * len(signed.j))


def _corrected(first: Four, nu: float, now: float, share: float = 1.0) -> tuple[Array, Array]:
    """Return the products to aim at: nu less what second order adds, as far as one step may push a product."""
    most = CAP * now * share
    lower = np.clip(share * nu - first.beta * first.low, -most, most)
    return lower, np.clip(share * nu - first.gamma * first.up, -most, most)


# -- wide data under L1 ---------------------------------------------------------------------------


class _Columns:
    """Runs on a working set of columns, which gains those that the dual point violates."""

    def __init__(self, problem: Problem, trace: Trace, n_threads: int) -> None:
        self.problem, self.trace, self.n_threads = problem, trace, n_threads
        terms = problem.penalty.terms(problem.shape)
        self.l1, self.l2 = (np.broadcast_to(np.asarray(each, np.float64), problem.shape) for each in terms[:2])

    def run(self, max_epochs: int) -> Solution:
        """Solve on larger and larger working sets, and to smaller and smaller gaps."""
        tol, goal, epochs = self.trace.tol, ROUGH, 0
        first = null_point(self.problem)[1]
        dual, S = dual_point(self.problem, first, search=False), self._extended(np.empty(0, np.int64), first)
        while True:
            goal = max(SHORT_OF_TOL * tol, goal)
            found = self._solved(S, goal, max_epochs - epochs)
            epochs += found.history[-1].epoch
            coef = np.zeros(self.problem.n_features)
            coef[S] = found.coef
            dual = max(dual, dual_point(self.problem, found.alpha, search=False), key=lambda point: point.value)
            done = self.trace.certify(epochs, found.primal, dual.value, int(np.count_nonzero(coef)))
            grown = self._extended(S, found.alpha)
            if done or epochs >= max_epochs or (len(grown) == len(S) and goal <= SHORT_OF_TOL * tol):
                return Solution(coef, found.intercept, dual.alpha, self.trace.history, done, dual.v)
            S, goal = grown, FINER * goal

    def _solved(self, S: Array, goal: float, max_epochs: int) -> Solution:
        """Solve the problem of the columns S."""
        from scipy.sparse import csr_array

        rows = self.problem.rows
        X = csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, self.problem.n_features))[:, S]
        rows = rows._replace(indptr=X.indptr, indices=X.indices, data=X.data)
        penalty = L1(self.l1[S]) + L2(self.l2[S])
        narrow = replace(self.problem, rows=rows, n_features=len(S), penalty=penalty)
        with Passes(narrow, self.n_threads) as passes:
            return _Interior(narrow, passes, Trace(goal)).run(max_epochs)

    def _extended(self, S: Array, alpha: Array) -> Array:
        """Return S with the columns that alpha violates most; those without l1 are always in it."""
        size = np.abs(combine(self.problem, alpha))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.l1 > 0.0, size / self.l1, np.inf)
        ratio[S] = 0.0
        most = max(FEW, 2 * len(S))
        beyond = np.flatnonzero(ratio > (1.0 if len(S) else 0.0))
        if len(beyond) > most:
            beyond = beyond[np.argsort(-ratio[beyond], kind="stable")[:most]]
        return np.union1d(S, beyond)
