"""Losses with kinks under L2, on narrow data: a primal-dual interior-point method.

A piecewise linear loss is the best that one or two bounded numbers beta_k, the sides of a row, can make of its score:

    phi(z, y) = max over 0 <= beta_k <= h_k of  sum_k beta_k (c_k - sigma_k z) - o (y - z)
    alpha = sum_k sigma_k beta_k - o                                                             (1)

    loss                 sides (sigma, c, h)                        o
    hinge                (y, 1, 1)                                  0
    absolute             (1, y, 2)                                  1
    quantile(tau)        (1, y, 1)                                  1 - tau
    epsilon_insensitive  (1, y - epsilon, 1), (-1, -y - epsilon, 1) 0

So the dual problem has bounds alone, and weights are optimal where, with multipliers l and u >= 0 of the two bounds,

    c - sigma z = u - l         l beta = 0,  u gamma = 0,  gamma = h - beta         mu w = X'(p alpha)        (2)

Products are put at nu > 0 in place of 0 and nu taken to 0, each step Newton's on (2). All but the weights can be
eliminated, and what is left has the form that `curvature` solves:

    theta = 1 / (u / gamma + l / beta)          r = c - sigma z - nu / gamma + nu / beta
    (X' D X + mu) dw = X'e + X'(p alpha) - mu w          D = p sum_k theta_k,  e = p sum_k theta_k sigma_k r_k      (3)
    dbeta = theta (r - sigma X dw)

A step is made twice (Mehrotra 1992): once aiming at nu = 0, which shows how far one could go; then at the nu that this
suggests, with the first one's products d(beta) d(l) and d(gamma) d(u) taken into account. Some 25 steps do, whatever
kappa is, where Prox-SDCA would need thousands of passes. Rows at a bound lose their D as nu falls: the factors of (3)
cost less and less.

Reference: Ferris and Munson (2002), Interior-point methods for massive support vector machines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.validation import Array
from ..dual import dual_point
from ..problem import Problem, Solution, Trace
from .curvature import Factorized, Point, direction
from .passes import Passes

INSIDE = 0.99  # how much of the way to the nearest bound a step goes
CAP = 2.0  # how far a correction may push one product, in mean products
DROPPED = 0.5  # the part of mu that the rows left out of the factors may bend
LEAVE = 1e-8  # what a direction leaves of its right side: (2) has to hold better and better, too
SHORTEST = 1e-10  # a step that is shorter than this leads nowhere
STALE = 10**9  # iterations that force a new factorization


def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
) -> Solution:
    """Solve a problem with a piecewise linear loss and an L2 penalty to a relative duality gap of `tol`.

    An epoch is a step of the method. `seed` is for solvers that draw; this one does not. A start is taken only if it
    proves enough by itself: points at their bounds are not a valid start.
    """
    with Passes(problem, n_threads) as passes:
        method = _Interior(problem, passes, tol)
        if start is not None and method.proves(start):
            return Solution(start.coef, start.intercept, start.alpha, method.trace.history, True)
        return method.run(max_epochs)


class Four(NamedTuple):
    """Distances from the two bounds and their multipliers (l and u of the equations), or changes of all that."""

    beta: Array
    gamma: Array
    low: Array
    up: Array


class _Interior:
    """The weights on their way."""

    def __init__(self, problem: Problem, passes: Passes, tol: float) -> None:
        self.problem, self.passes, self.trace = problem, passes, Trace(tol)
        self.p, self.sides = problem.shares, problem.loss.sides(problem.rows.y)
        self.mu = np.empty(passes.size)
        self.mu[:-1] = problem.penalty.terms((problem.n_features,)).l2
        self.mu[-1] = 1.0 - passes.one
        self.counted = self.p > 0.0
        self.bend = passes.squared_norms() * (passes.n / (DROPPED * self.mu[:-1].min()))
        self.M = Factorized(passes, self.mu)

    def proves(self, start: Solution) -> bool:
        """Tell whether a solution of before is one of this problem."""
        primal = self.problem.primal(start.coef, start.intercept)
        dual = dual_point(self.problem, start.alpha, search=False).value
        return self.trace.certify(0, primal, dual, int(np.count_nonzero(start.coef)))

    def run(self, max_epochs: int) -> Solution:
        """Make steps until the gap is proved, or none is left to make."""
        passes, sides = self.passes, self.sides
        w = np.zeros(passes.size)
        if self.problem.loss.kind == "regression":
            w[-1] = passes.one * float(self.p @ self.problem.rows.y)
        z = passes.times(w)
        residual = sides.c - sides.sigma * z
        scale = 0.5 * float(np.mean(np.abs(residual) @ self.p)) or 1.0
        low, up = np.maximum(-residual, 0.0) + scale, np.maximum(residual, 0.0) + scale
        at = Four(0.5 * sides.h, 0.5 * sides.h, low, up)
        for epoch in range(max_epochs + 1):
            alpha = (sides.sigma * at.beta).sum(axis=0) - sides.o
            done = self._certified(epoch, w, z, alpha)
            if done or epoch == max_epochs or self.trace.stalled:
                break
            size, d, changes = self._step(z, passes.transposed(self.p * alpha) - self.mu * w, at)
            if not size > SHORTEST:
                break
            w += size * d
            at = _moved(at, changes, size)
            z = passes.times(w)
        alpha = dual_point(self.problem, alpha, search=False).alpha
        return Solution(w[:-1].copy(), float(w[-1]), alpha, self.trace.history, done)

    def _certified(self, epoch: int, w: Array, z: Array, alpha: Array) -> bool:
        loss = float(self.p @ self.problem.loss.value(z, self.problem.rows.y))
        primal = loss + 0.5 * float(w[:-1] @ (self.mu[:-1] * w[:-1]))
        dual = dual_point(self.problem, alpha, search=False).value
        return self.trace.certify(epoch, primal, dual, int(np.count_nonzero(w[:-1])))

    def _step(self, z: Array, rest: Array, at: Four) -> tuple[float, Array, Four]:
        """Return the size of a step, the weights' direction and the changes of all else; `rest` is that of (2)."""
        theta = 1.0 / (at.up / at.gamma + at.low / at.beta)
        D = self.p * theta.sum(axis=0)
        self.M.update(np.where(D * self.bend > 1.0, D, 0.0), STALE)

        def towards(lower: Any, upper: Any) -> tuple[Array, Four]:
            """Return Newton's step to products l beta = lower and u gamma = upper, (3)."""
            r = self.sides.c - self.sides.sigma * z - upper / at.gamma + lower / at.beta
            e = self.p * (theta * self.sides.sigma * r).sum(axis=0)
            point = Point(z, e, D, -(self.passes.transposed(e) + rest), 0.0)
            d, t, _ = direction(self.passes, self.M, point, self.mu, LEAVE, 0.0)
            change = theta * (r - self.sides.sigma * t)
            low = (lower - at.low * change) / at.beta - at.low
            up = (upper + at.up * change) / at.gamma - at.up
            return d, Four(change, -change, low, up)

        _, first = towards(0.0, 0.0)
        now, then = (self._mean_product(_moved(at, first, size)) for size in (0.0, self._longest(at, first)))
        nu, most = now * (then / now) ** 3, CAP * now
        lower = np.clip(nu - first.beta * first.low, -most, most)
        upper = np.clip(nu - first.gamma * first.up, -most, most)
        d, changes = towards(lower, upper)
        return min(1.0, INSIDE * self._longest(at, changes)), d, changes

    def _longest(self, at: Four, changes: Four) -> float:
        """Return the longest step, up to 1, that leaves everything >= 0; rows of no weight do not count."""
        longest = 1.0
        for x, dx in zip(at, changes, strict=True):
            falling = (dx < 0.0) & self.counted
            if falling.any():
                longest = min(longest, float(np.min(x[falling] / -dx[falling])))
        return longest

    def _mean_product(self, at: Four) -> float:
        return 0.5 * float(np.mean((at.low * at.beta + at.up * at.gamma) @ self.p))


def _moved(at: Four, changes: Four, size: float) -> Four:
    return Four(*(x + size * dx for x, dx in zip(at, changes, strict=True)))
