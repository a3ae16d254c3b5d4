"""Newton steps on a face, the weights that are not 0: conjugate gradients, preconditioned by factors of the Hessian.

    H_F d = -(X_F' r + l2 u + l1 sign u)              H_F = X_F' D X_F + diag(l2)                              (1)

On hard problems (weak penalties, rare features) coordinate descent and plain conjugate gradients need thousands of
passes for this. With factors, be they of an older D and of an older face, it is a handful of iterations.

Weights that would pass through 0 are set to 0, all of them at once, and (1) is solved again without them: columns that
nearly depend on one another have large opposite steps, whose first meeting with 0 would stop all others if they went
together. Should the model not fall in the end, the first direction is followed to the lowest point on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._checks import Array
from ...kernels import csr_products
from ...kernels.columns import by_rows
from ...kernels.l1 import lowest
from .factors import Factors, Plan, price_of_plan
from .point import Point, Strengths

MOST_ITERATIONS = 60
MOST_ROUNDS = 12
ACCURACY = 1e-2  # part of the slopes, in the norm of the factors, that a solution of (1) may leave
PRODUCT = 5e-9  # seconds an entry, of X and X' together

UNSETTLED = 0.02  # part of a face that wants to leave at once, from which on it is too early for factors
STEPS = 50  # iterations of conjugate gradients, over a solution, with factors


class Direction(NamedTuple):
    """A solution d of (1), and X d."""

    d: Array
    v: Array


class Face:
    """Newton steps on faces of one problem, once they are worth it."""

    def __init__(self, at: Point):
        self.at = at
        self.columns = np.empty(0, np.int64)
        self._rows = by_rows(at.columns, self.columns, len(at.z))
        self.place = np.full(len(at.w), -1, np.int64)
        self.factors: Factors | None = None
        self.plan: Plan | None = None
        self.iterations = 0

    # -- factors, and when to buy them -----------------------------------------------------------

    def consider(self, otherwise: float, D: Array) -> Factors | None:
        """Return factors if steps are worth it, where other ways would take so many seconds; make them if need be."""
        F = np.flatnonzero(self.at.w)
        if self.factors is not None and self._fresh(self.factors):
            return self.factors
        if self.factors is None and not self._affordable(F, otherwise):
            return None
        self._cover(F, exactly=True)
        plan = self.plan = Plan(self._rows, len(F))
        self.factors = Factors(self.at, F, self._rows, D, plan) if plan.possible else None
        self.iterations = 0
        return self.factors

    def _affordable(self, F: Array, otherwise: float) -> bool:
        """Tell whether factors for the columns F, and steps with them, cost less; so does the plan that tells."""
        if self.plan is None or len(F) < 0.8 * len(self.plan.order):
            ptr = self.at.columns.ptr
            entries = float(np.sum(ptr[F + 1] - ptr[F]))
            if otherwise < price_of_plan(entries, len(self.at.z), len(F)):
                return False
            self._cover(F, exactly=True)
            self.plan = Plan(self._rows, len(F))
        iterations = self.plan.seconds_a_solution + PRODUCT * len(self._rows.data)
        return self.plan.possible and otherwise >= self.plan.seconds + STEPS * iterations

    def _fresh(self, factors: Factors) -> bool:
        """Tell whether the last step was cheap enough beside new factors."""
        iteration = factors.plan.seconds_a_solution + PRODUCT * len(self._rows.data)
        return self.iterations < max(8.0, 0.5 * factors.plan.seconds / iteration) and factors.room_to_leave

    def _cover(self, F: Array, exactly: bool = False) -> None:
        """Have the columns F by rows, perhaps with some more."""
        if exactly or len(self.columns) > 1.3 * len(F) or np.any(self.place[F] < 0):
            self.place[self.columns] = -1
            self.columns, self.place[F] = F, np.arange(len(F))
            self._rows = by_rows(self.at.columns, F, len(self.at.z))

    # -- a step ----------------------------------------------------------------------------------

    def descend(self, factors: Factors, live: Array, u: Array, r: Array, D: Array) -> float:
        """Minimize the model over the face of u, in place; return by how much it fell."""
        at, n = self.at, len(r)
        self._cover(np.sort(live[u[live] != 0.0]))
        X, m = self._rows, len(self.columns)
        psi = Strengths(*(np.append(strength, 0.0) for strength in at.psi.of(self.columns)))
        g, h = np.zeros(m + 1), np.zeros(m + 1)
        csr_products.transposed(X, 0.0, r, 0, n, g)
        csr_products.transposed_squares(X, 0.0, D, 0, n, h)
        h += psi.l2
        h[h == 0.0] = 1.0
        start = np.append(u[self.columns], 0.0)
        x, v = start.copy(), np.zeros(n)
        self.iterations, ways = 0, []
        for _ in range(MOST_ROUNDS):
            slope = np.where(x != 0.0, g + psi.l2 * x + psi.l1 * np.sign(x), 0.0)
            step = self._direction(factors, slope, x != 0.0, h, psi.l2, D)
            ways.append((step, slope))
            crosses = (x + step.d) * x < 0.0
            if not crosses.any():
                x, v = x + step.d, v + step.v
                break
            if np.count_nonzero(crosses) > UNSETTLED * np.count_nonzero(x):
                self.factors, x, v = None, start, np.zeros(n)
                break
            drop, t = np.where(crosses, -x, 0.0), np.empty(n)
            csr_products.hessian_times(X, 0.0, D, drop, 0, n, t, g)
            x[crosses], v = 0.0, v + t
        fallen = _change(r, D, v, psi, start, x)
        if fallen >= 0.0:
            x, v = self._towards(*ways[0], start, psi, D)
            fallen = _change(r, D, v, psi, start, x)
        if fallen < 0.0:
            u[self.columns] = x[:-1]
            r += D * v
        return max(-fallen, 0.0)

    def _direction(self, factors: Factors, slope: Array, on: Array, h: Array, l2: Array, D: Array) -> Direction:
        """Solve (1) for the columns that are on, by conjugate gradients."""
        n = len(D)
        known, places = self._restrict(factors, on)

        def precondition(residual: Array) -> Array:
            q, b = residual / h, np.zeros(len(factors.columns))
            b[places] = residual[known]
            q[known] = factors.solve_rest(b)[places]
            return q

        d, v, t = np.zeros_like(slope), np.zeros(n), np.empty(n)
        residual = -slope
        q = precondition(residual)
        towards = q.copy()
        rq = first = float(residual @ q)
        iterations = 0
        while rq > ACCURACY**2 * first and iterations < MOST_ITERATIONS:
            iterations += 1
            Ht = np.zeros_like(slope)
            csr_products.hessian_times(self._rows, 0.0, D, towards, 0, n, t, Ht)
            Ht = np.where(on, Ht + l2 * towards, 0.0)
            bend = float(towards @ Ht)
            if not bend > 0.0:
                break
            a = rq / bend
            d += a * towards
            v += a * t
            residual -= a * Ht
            q = precondition(residual)
            rq, before = float(residual @ q), rq
            towards = q + rq / before * towards
        self.iterations = max(self.iterations, iterations)
        return Direction(d, v)

    def _restrict(self, factors: Factors, on: Array) -> tuple[Array, Array]:
        """Take the columns out of the factors that are not on; return those on that they know, and their places."""
        where = np.full(len(self.at.w), -1, np.int64)
        where[factors.columns] = np.arange(len(factors.columns))
        where = np.append(where[self.columns], -1)
        known = np.flatnonzero(on & (where >= 0))
        out = np.ones(len(factors.columns), np.bool_)
        out[where[known]] = False
        factors.leave(np.flatnonzero(out))
        return known, where[known]

    def _towards(self, step: Direction, slope: Array, x: Array, psi: Strengths, D: Array) -> tuple[Array, Array]:
        """Return the lowest point of the model from x along a direction, and X times the way to it."""
        bend = float((D * step.v) @ step.v + psi.l2 @ (step.d * step.d))
        t, k = lowest(x, step.d, float(slope @ step.d), bend, psi.l1)
        new = x + t * step.d
        if k >= 0:
            new[k] = 0.0
        v = np.empty(len(D))
        csr_products.times(self._rows, 0.0, new - x, 0, len(D), v)
        return new, v


def _change(r: Array, D: Array, v: Array, psi: Strengths, before: Array, after: Array) -> float:
    """Return by how much the model changes from one set of weights to another, v = X times their difference."""
    return float(r @ v + 0.5 * ((D * v) @ v)) + psi.value(after) - psi.value(before)
