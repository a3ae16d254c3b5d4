"""The primal point of the l1 solver and the dual points that certify it.

Primal. Weights of the columns that matter, the loss to second order there, and steps that lower the objective:

    P(w) = sum_i p_i phi(z_i, y_i) + sum_j l1_j |w_j| + (l2_j / 2) w_j^2         z = X w
    theta_i = p_i phi'(z_i)        D_i = p_i phi''(z_i)

The intercept is one more column, of ones, whose strengths are 0.

Dual. The lower bound that a dual point proves, and the features that it rules out:

    D(theta) = -sum_i p_i phi*(theta_i / p_i, y_i) - sum_j (|G_j| - l1_j)+^2 / (2 l2_j)          G = X' theta

where l2_j = 0 requires |G_j| <= l1_j, and a column without a penalty (the intercept) G_j = 0. Any theta becomes such a
point: first it is made orthogonal to the unpenalized columns, then scaled by s <= 1 into the other constraints.

Two kinds of theta are offered. At weights w there are the slopes, theta_i = p_i phi'(z_i). A violation e of
|G_j| <= l1_j costs them s = 1 - e / l1_j: the gap is of first order in e, while P is off by e^2 only. After a full
Newton step there are also the slopes of its model, theta + D X d. There G is as good as the solution of the quadratic
problem, and the gap is what the model leaves out: these prove 1e-6 a step or two before the others.

Each of them is made feasible by scaling, and once the weights are nearly settled the slopes also by projection
(`projection`), which does not depend on the worst column: the better value counts, and the tighter gap screens.

Gap-safe screening. phi* is 1/L-strongly convex, so the dual optimum is within sqrt(2 L gap) of s theta in the norm
weighted by p, and a feature with

    s |G_j| + q_j sqrt(2 L gap) < l1_j                  q_j = sqrt(sum_i p_i x_ij^2)                          (1)

has weight 0 at the optimum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...core.losses._kernels import as_tuple
from ...core.validation import Array
from ...data.threads import ALONE, Threads
from .. import cost, projection
from ..dual import balance, dual_point
from ..newton import _kernels as newton
from ..problem import Problem, Solution
from . import _csc as kernels, _kernels as l1
from ._csc import Columns

HALVINGS = 40
EXPANDED, AHEAD, MOVED = range(3)  # theta and D are those of z; those computed ahead are; none are
HIDDEN = 1e-12  # part of P below which rounding hides a decrease
ENOUGH = 0.01  # part of the decrease that slopes promise which a step has to bring


class Strengths(NamedTuple):
    """l1 and l2 of each column."""

    l1: Array
    l2: Array

    def value(self, w: Array) -> float:
        """Return the penalty of the weights."""
        return float(l1.penalty(w, self.l1, self.l2))

    def of(self, chosen: Array) -> Strengths:
        """Return the strengths of some columns."""
        return Strengths(self.l1[chosen], self.l2[chosen])


class Point:
    """Weights w and what follows from them: z, theta, D and the mean loss."""

    def __init__(self, problem: Problem, columns: Columns, psi: Strengths, w: Array, threads: Threads = ALONE):
        self.loss, self.y, self.p = as_tuple(problem.loss), problem.rows.y, problem.shares
        self._quadratic_range = problem.loss.quadratic_range
        self.columns, self.psi, self.w = columns, psi, w
        self.threads, n = threads, problem.rows.n_rows
        self.z, self.theta, self.D = np.empty(n), np.empty(n), np.empty(n)
        self._ahead = np.empty(n), np.empty(n)  # theta and D of the last scores that a step has tried
        self._state = MOVED
        self.mean_loss = np.inf

    @property
    def primal(self) -> float:
        """P at the weights."""
        return self.mean_loss + self.psi.value(self.w)

    @property
    def trust(self) -> float:
        """How far one weight may move a score before the quadratic model of the loss is inaccurate."""
        return self._quadratic_range(self.z, self.y)

    def refresh(self) -> None:
        """Compute everything from the weights alone, without the rounding errors that steps have accumulated."""
        self.z[:] = 0.0
        kernels.combine(self.columns, np.flatnonzero(self.w), self.w, self.z)
        self._state = MOVED
        self.expand()

    def expand(self) -> None:
        """Have theta, D and the mean loss at z; a step that ended there has computed them already."""
        if self._state == MOVED:
            self.mean_loss = self._expand(self.z)
        if self._state != EXPANDED:
            (self.theta, self.D), self._ahead = self._ahead, (self.theta, self.D)
        self._state = EXPANDED

    def _expand(self, z: Array) -> float:
        """Compute theta and D at scores z into `_ahead`; return the mean loss there."""
        theta, D = self._ahead

        def work(first: int, last: int) -> float:
            return float(newton.expand(self.loss, self.y, self.p, z, first, last, theta, D))

        return float(sum(self.threads.each(work, self.threads.ranges(len(z)))))

    def products(self, j: Array, v: Array, out: Array) -> None:
        """Write <x_j, v> into out[j] for each of the given columns j."""
        self.threads.each(lambda some: kernels.products(self.columns, some, v, out), self.threads.deal(j))

    def advance(self, j: Array, u: Array, v: Array) -> float:
        """Move the weights of columns j towards u, v = X (u - w), as far as P falls enough; return how far, up to 1.

        theta and D stay those of the start of the step.
        """
        w, psi = self.w[j], self.psi.of(j)
        d, before = u - w, psi.value(w)
        promised = float(self.theta @ v) + psi.value(u) - before
        start = self.mean_loss + before
        hidden = HIDDEN * abs(start) if -promised <= HIDDEN * abs(start) else 0.0
        t = 1.0
        for _ in range(HALVINGS):
            moved = u if t == 1.0 else w + t * d
            z = self.z + (v if t == 1.0 else t * v)
            loss = self._expand(z)
            if loss + psi.value(moved) <= start + ENOUGH * t * promised + hidden:
                self.w[j] = moved
                self.z, self.mean_loss, self._state = z, loss, AHEAD
                return t
            t *= 0.5
        return 0.0


PROJECTING = 1.0  # part of the descent's seconds that projections may take
WAITING = 2.0  # how much longer the descent has to be after a projection before the next
MEASURES = 6.0  # passes over the columns left that they may take beside that
FEASIBLE = 1e-13  # what rounding may leave of <x_j, theta> = 0, relative to its terms
FREE_STEPS = 5


class Proof:
    """The best dual point seen, and the columns that are not yet ruled out."""

    def __init__(self, problem: Problem, at: Point, start: Solution | None):
        self.problem, self.at = problem, at
        m = len(at.w)
        self.alive = np.arange(m)
        self.free = np.flatnonzero((at.psi.l1 == 0.0) & (at.psi.l2 == 0.0))
        self.G, self.q = np.zeros(m), np.zeros(m)
        at.threads.each(lambda j: kernels.squares(at.columns, j, at.p, self.q), at.threads.deal(self.alive))
        np.sqrt(self.q, out=self.q)
        self.violators = np.empty(0, np.int64)  # columns that the last projection had to move
        self.seconds, self.projected = 0.0, 0.0  # of projections, by the cost model; of the descent before the last one
        self.alpha = np.zeros(len(at.z))  # 0 is always feasible
        self.dual = self._dual_loss(self.alpha, 1.0)
        if start is not None:
            value, alpha, _ = dual_point(problem, start.alpha, search=False)
            if value > self.dual:
                self.dual, self.alpha = value, alpha

    def offer(self, theta: Array, w: Array) -> None:
        """Take the bound that theta proves, and rule out features by it; G is X' theta of the columns left."""
        at, j = self.at, self.alive
        if len(self.free):
            theta = self._centred(theta)
        at.products(j, theta, self.G)
        s = min(float(l1.limit(self.G, j, *at.psi)), 1.0)
        value = self._dual_loss(theta, s) - float(l1.beyond(self.G, j, s, *at.psi))
        if value > self.dual:
            self.dual = value
            self.alpha = np.divide(-s * theta, at.p, out=np.zeros_like(at.p), where=at.p > 0.0)
        radius = math.sqrt(2.0 * self.problem.loss.smoothness * max(at.primal - value, 0.0))
        if math.isfinite(radius):
            self.alive = l1.not_ruled_out(self.G, j, w, self.q, s, radius, at.psi.l1)

    def products(self) -> Array:
        """Return sum_i p_i alpha_i x_ij of the best point, for all columns."""
        out = np.empty(len(self.q))
        self.at.products(np.arange(len(self.q)), self.at.p * self.alpha, out)
        return out

    def project(self, tol: float, descent: float, preconditioner: projection.Preconditioner | None = None) -> None:
        """Offer the projection of the slopes at the weights, if the seconds of the descent so far allow one."""
        at, ptr, alive = self.at, self.at.columns.ptr, self.alive
        measure = cost.data_pass(float(np.sum(ptr[alive + 1] - ptr[alive])))
        budget = PROJECTING * descent + MEASURES * measure - self.seconds
        proved = at.primal - self.dual <= tol * abs(at.primal)
        waits = descent < WAITING * self.projected and preconditioner is None
        if proved or waits or budget < 2.0 * measure or len(self.free) > self.problem.fit_intercept:
            return
        self.projected = descent
        dual = projection.Dual(
            at.columns, at.loss, at.y, at.p, *at.psi, intercept=self.problem.fit_intercept, threads=at.threads
        )
        found = projection.project(
            dual,
            at.theta,
            at.D,
            at.w,
            at.primal,
            chosen=alive,
            warm=self.violators,
            preconditioner=preconditioner,
            tol=tol,
            budget=budget,
        )
        self.seconds += found.seconds
        self.violators = found.S
        slopes = self.G.copy()
        self.offer(found.theta, at.w)
        self.G = slopes

    def _dual_loss(self, theta: Array, s: float) -> float:
        """Return -sum_i p_i phi*(s theta_i / p_i)."""
        at = self.at

        def work(first: int, last: int) -> float:
            return float(l1.dual_loss(at.loss, theta, s, at.y, at.p, first, last))

        return float(sum(at.threads.each(work, at.threads.ranges(len(theta)))))

    # -- columns without a penalty ---------------------------------------------------------------

    def settle(self) -> None:
        """Take Newton steps on the weights without a penalty: where they are optimal G is 0, as a dual point needs."""
        at, j = self.at, self.free
        for _ in range(FREE_STEPS if len(j) else 0):
            kernels.products(at.columns, j, at.theta, self.G)
            if np.all(np.abs(self.G[j]) <= 1e-15 * self._sizes(at.theta, j)):
                return
            d, v = self._free_direction()
            if at.advance(j, at.w[j] + d, v) == 0.0:
                return
            at.expand()

    def _centred(self, theta: Array) -> Array:
        """Return theta made orthogonal to the unpenalized columns; 0, always feasible, if that fails.

        An intercept alone asks that theta sums to 0: the heavier side is scaled down, which stays where phi* is finite.
        """
        at, j = self.at, self.free
        if len(j) == 1 and self.problem.fit_intercept:
            up, down = balance(float(np.sum(np.maximum(theta, 0.0))), float(np.sum(np.minimum(theta, 0.0))))
            return np.asarray(theta * np.where(theta > 0.0, up, down))
        for _ in range(2):
            kernels.products(at.columns, j, theta, self.G)
            _, v = self._free_direction()
            theta = theta + at.D * v
        kernels.products(at.columns, j, theta, self.G)
        return theta if np.all(np.abs(self.G[j]) <= FEASIBLE * self._sizes(theta, j)) else np.zeros_like(theta)

    def _sizes(self, theta: Array, j: Array) -> Array:
        """Return upper bounds on |<x_j, theta>|, to measure rounding by."""
        p = np.where(self.at.p > 0.0, self.at.p, 1.0)
        return np.asarray(self.q[j] * math.sqrt(float(np.sum(theta * (theta / p)))))

    def _free_direction(self) -> tuple[Array, Array]:
        """Return the Newton step d of the free weights against G, and X d."""
        at, j = self.at, self.free
        full, out, v = np.zeros_like(at.w), np.zeros_like(at.w), np.zeros_like(at.z)
        kernels.squares(at.columns, j, at.D, out)
        M = np.where(out[j] > 0.0, out[j], 1.0)
        d, r = np.zeros(len(j)), -self.G[j]
        u, rz = r / M, float(r @ (r / M))
        first = rz
        for _ in range(4 * len(j)):  # conjugate gradients
            if not rz > 1e-28 * first:
                break
            full[j], v[:] = u, 0.0
            kernels.combine(at.columns, j, full, v)
            kernels.products(at.columns, j, at.D * v, out)
            bend = float(u @ out[j])
            if not bend > 0.0:
                break
            d += rz / bend * u
            r -= rz / bend * out[j]
            rz, before = float(r @ (r / M)), rz
            u = r / M + rz / before * u
        full[j], v[:] = d, 0.0
        kernels.combine(at.columns, j, full, v)
        return d, v
