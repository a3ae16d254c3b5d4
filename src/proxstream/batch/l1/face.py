"""Newton steps on a face, the weights that are not 0: conjugate gradients, preconditioned by a factorized Hessian.

    H_F d = -(X_F' r + l2 u + l1 sign u)              H_F = X_F' D X_F + diag(l2)                              (1)

On hard problems (weak penalties, rare features) coordinate descent and plain conjugate gradients need thousands of
passes for this. With factors, even of an older D and an older face, a few iterations are enough.

Weights that would cross 0 are set to 0, all at once, and (1) is solved again without them: nearly collinear columns
have large opposite steps, and stopping at the first crossing would stop all the others too. If the model does not
decrease in the end, the step goes to the lowest point along the first direction.

Factors. Where few columns share rows, H is sparse and `_cholesky` eliminates the rare columns; otherwise H is a dense
matrix. With E the unit vectors of columns that have left the face, W = H^-1 E and K = E' W,

    H^-1 - W K^-1 W'                                                                                        (2)

is the inverse of H without them (Gill, Murray, Saunders and Wright 1990 solve quadratic programs in this way).

`_cholesky` instead of scipy's `splu`: on faces of one-hot groups and of zipf-like features (4,000 to 15,000 columns) it
took between a seventh and a thirteenth of the time, since the part that fills in goes to dense LAPACK (the table is in
docs/l1_solver.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.validation import Array
from ...data import _products as csr_products
from .. import cost, projection
from . import _cholesky as cholesky
from ._cholesky import Lower
from ._csc import Rows, by_rows
from ._kernels import add_gram, lowest
from .point import Point, Strengths

MOST_ITERATIONS = 60
MOST_ROUNDS = 12
ITERATIONS_WITHOUT, MOST_ROUNDS_WITHOUT = 80, 3  # the same without factors
ACCURACY_WITHOUT = 0.1
ACCURACY = 1e-2  # part of the slopes, in the norm of the factors, that a solution of (1) may leave
UNSETTLED = 0.02  # part of a face that wants to leave at once, from which on it is too early for factors
STEPS = 50  # iterations of conjugate gradients, over a solution, with factors


_NONE = np.empty(0, np.int64)


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
        self.seconds = 0.0  # by the cost model

    @property
    def preconditioner(self) -> projection.Preconditioner | None:
        """The factors, if there are any, for systems of more columns."""
        factors = self.factors
        if factors is None:
            return None
        return projection.Preconditioner(factors.columns, factors.solve, factors.plan.seconds_per_solve)

    # -- factors, and when they are worth it -----------------------------------------------------

    def consider(self, otherwise: float, D: Array) -> Factors | None:
        """Return factors if steps with them cost less than the `otherwise` seconds of other methods, else None."""
        F = np.flatnonzero(self.at.w)
        if self.factors is not None and self._fresh(self.factors):
            return self.factors
        if self.factors is None and not self._affordable(F, otherwise):
            return None
        self._cover(F, exactly=True)
        plan = self.plan = Plan(self._rows, len(F))
        self.factors = Factors(self.at, F, self._rows, D, plan) if plan.possible else None
        self.seconds += plan.seconds + plan.leaving if plan.possible else 0.0
        self.iterations = 0
        return self.factors

    def _affordable(self, F: Array, otherwise: float) -> bool:
        """Return whether planning, factors for the columns F and steps with them cost less than `otherwise` seconds."""
        if self.plan is None or len(F) < 0.8 * len(self.plan.order):
            ptr = self.at.columns.ptr
            entries = float(np.sum(ptr[F + 1] - ptr[F]))
            if otherwise < planning_cost(entries, len(self.at.z), len(F)):
                return False
            self._cover(F, exactly=True)
            self.plan = Plan(self._rows, len(F))
        return self.plan.possible and otherwise >= self.plan.seconds + self.plan.leaving + STEPS * self._iteration_cost(
            self.plan
        )

    def _iteration_cost(self, plan: Plan | None) -> float:
        """Return the seconds of an iteration of conjugate gradients."""
        return (plan.seconds_per_solve if plan is not None else 0.0) + cost.FACE_PRODUCT * len(self._rows.data)

    def _fresh(self, factors: Factors) -> bool:
        """Return whether the last step was cheap compared with new factors."""
        most = max(8.0, 0.5 * factors.plan.seconds / self._iteration_cost(factors.plan))
        return self.iterations < most and factors.room_to_leave

    def _cover(self, F: Array, exactly: bool = False) -> None:
        """Store the columns F by rows, possibly with a few others."""
        if exactly or len(self.columns) > 1.3 * len(F) or np.any(self.place[F] < 0):
            self.place[self.columns] = -1
            self.columns, self.place[F] = F, np.arange(len(F))
            self._rows = by_rows(self.at.columns, F, len(self.at.z))

    # -- a step ----------------------------------------------------------------------------------

    def descend(self, factors: Factors | None, live: Array, u: Array, r: Array, D: Array) -> float:
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
        ways = []
        if factors is not None:
            self.iterations = 0
        for _ in range(MOST_ROUNDS if factors is not None else MOST_ROUNDS_WITHOUT):
            slope = np.where(x != 0.0, g + psi.l2 * x + psi.l1 * np.sign(x), 0.0)
            step = self._direction(factors, slope, x != 0.0, h, psi.l2, D)
            ways.append((step, slope))
            crosses = (x + step.d) * x < 0.0
            if not crosses.any():
                x, v = x + step.d, v + step.v
                break
            if factors is not None and np.count_nonzero(crosses) > UNSETTLED * np.count_nonzero(x):
                self.factors, x, v = None, start, np.zeros(n)
                break
            # With factors the others are solved for again; without, where that is dear, they keep their steps.
            move, t = np.where(crosses, -x, 0.0 if factors is not None else step.d), np.empty(n)
            csr_products.hessian_times(X, 0.0, D, move, 0, n, t, g)
            x, v = np.where(crosses, 0.0, x + move), v + t
        fallen = _change(r, D, v, psi, start, x)
        if fallen >= 0.0:
            x, v = self._towards(*ways[0], start, psi, D)
            fallen = _change(r, D, v, psi, start, x)
        if fallen < 0.0:
            u[self.columns] = x[:-1]
            r += D * v
        return max(-fallen, 0.0)

    def _direction(self, factors: Factors | None, slope: Array, on: Array, h: Array, l2: Array, D: Array) -> Direction:
        """Solve (1) for the columns that are on, by conjugate gradients."""
        n = len(D)
        known, places = (_NONE, _NONE) if factors is None else self._restrict(factors, on)
        accuracy, most = (ACCURACY, MOST_ITERATIONS) if factors is not None else (ACCURACY_WITHOUT, ITERATIONS_WITHOUT)

        def precondition(residual: Array) -> Array:
            q = residual / h
            if factors is None:
                return q
            b = np.zeros(len(factors.columns))
            b[places] = residual[known]
            q[known] = factors.solve_rest(b)[places]
            return q

        d, v, t = np.zeros_like(slope), np.zeros(n), np.empty(n)
        residual = -slope
        q = precondition(residual)
        towards = q.copy()
        rq = first = float(residual @ q)
        iterations = 0
        while rq > accuracy**2 * first and iterations < most:
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
        if factors is not None:
            self.iterations = max(self.iterations, iterations)
        self.seconds += iterations * self._iteration_cost(None if factors is None else factors.plan)
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


MOST_DENSE = 5000  # columns of a dense matrix
MOST_LEFT = 400  # columns that may leave a face before it is factorized again
SPARSE = 0.3  # pairs of entries a cell of H, up to which it is kept sparse
ROOM = 4  # entries of the sparse factors for each of H's
RIDGE = 1e-9  # of the diagonal, so that columns that depend on one another do no harm


class Plan:
    """How to factorize: the order of columns, how many of them sparsely, and what it will cost."""

    def __init__(self, X: Rows, m: int):
        self.pairs = cost.pairs_in_rows(X.indptr)
        self.order, self.eliminated = np.arange(m), 0
        self.sparse = self.pairs < SPARSE * m * m
        if self.sparse:
            self.eliminated = int(cholesky.rare_first(cholesky.touching(X, m), self.order))
        dense = m - self.eliminated
        pair = cost.SPARSE_PAIR if self.sparse else cost.ROW_PAIR
        self.seconds = 0.5 * pair * self.pairs + cost.FACE_FACTOR * float(dense) ** 3
        self.seconds_per_solve = cost.FACTOR_CELL * float(dense) ** 2
        self.leaving = 0.1 * MOST_LEFT * self.seconds_per_solve  # of columns, until new factors are made
        self.possible = dense <= MOST_DENSE


def planning_cost(entries: float, n: int, m: int) -> float:
    """Return about how many seconds it takes to plan for m columns."""
    return cost.SPARSE_PAIR * min(entries * entries / n, SPARSE * m * m)


class Factors:
    """Factors of (1), for columns that are given by rows too."""

    def __init__(self, at: Point, columns: Array, X: Rows, D: Array, plan: Plan):
        from scipy.linalg.lapack import dpotrf

        m = len(columns)
        self.plan, self.columns = plan, columns[plan.order]
        ridge = at.psi.l2[self.columns]
        if plan.sparse:
            S = self._eliminate(at, X, D, ridge, plan)
        else:
            S = np.zeros((m, m))
            add_gram(at.columns, columns, X, D, np.arange(m), S)
            self.L, self.pivots, self.eliminated = _empty(0, 0), np.empty(0), 0
            S.flat[:: m + 1] += RIDGE * S.diagonal() + ridge
        diagonal, more = S.diagonal().copy(), RIDGE
        while True:
            self.dense, failed = dpotrf(S.T, lower=0, clean=0)
            if not failed:
                break
            S.flat[:: len(S) + 1] = diagonal * (1.0 + more) + 1e-300
            more *= 100.0
        self.left = np.empty(0, np.int64)
        self._known: dict[int, int] = {}
        self._W = np.empty((m, 0))

    def _eliminate(self, at: Point, X: Rows, D: Array, ridge: Array, plan: Plan) -> Array:
        """Eliminate the rare columns; return the lower half of the dense remainder."""
        m = len(self.columns)
        place = np.empty(m, np.int64)
        place[plan.order] = np.arange(m)
        H = _empty(m, int(0.5 * plan.pairs) + m)
        cholesky.normal_matrix(at.columns, self.columns, place, X, D, H)
        diagonal = np.zeros(m)
        cholesky.diagonal(H, diagonal)
        ridge = ridge + RIDGE * diagonal + 1e-300
        self.L, self.pivots, rest = _empty(m, ROOM * int(H.ptr[-1]) + m), np.ones(m), np.zeros(m, np.int64)
        self.eliminated = int(cholesky.eliminate(H, ridge, plan.eliminated, self.L, self.pivots, rest))
        S = np.zeros((m - self.eliminated, m - self.eliminated))
        cholesky.schur(H, ridge, self.L, rest, self.eliminated, S)
        return S

    def solve(self, b: Array) -> Array:
        """Return H^-1 b, for one right side or several."""
        from scipy.linalg.lapack import dpotrs

        x = np.array(b if b.ndim == 2 else b[:, None])
        cholesky.forward(self.L, self.pivots, self.eliminated, x)
        if len(x) > self.eliminated:
            x[self.eliminated :] = dpotrs(self.dense, x[self.eliminated :], lower=0)[0]
        cholesky.backward(self.L, self.pivots, self.eliminated, x)
        return x if b.ndim == 2 else x[:, 0]

    @property
    def room_to_leave(self) -> bool:
        """Whether more columns may leave."""
        return len(self._known) < MOST_LEFT

    def leave(self, left: Array) -> None:
        """Continue without the columns at these places; columns that had left before come back."""
        new = np.array([j for j in left if int(j) not in self._known], dtype=np.int64)
        if len(new):
            E = np.zeros((len(self.columns), len(new)))
            E[new, np.arange(len(new))] = 1.0
            self._known.update(zip(new.tolist(), range(len(self._known), len(self._known) + len(new)), strict=True))
            self._W = np.concatenate((self._W, self.solve(E)), axis=1)
        self.left = left
        if len(left):
            self.W = self._W[:, [self._known[int(j)] for j in left]]
            self.K_inverse = np.linalg.inv(self.W[left])

    def solve_rest(self, b: Array) -> Array:
        """Return (2) times b, which is 0 at the columns that have left."""
        x = self.solve(b)
        if len(self.left):
            x -= self.W @ (self.K_inverse @ x[self.left])
            x[self.left] = 0.0
        return x


def _empty(columns: int, room: int) -> Lower:
    return Lower(np.zeros(columns + 1, np.int64), np.empty(room, np.int32), np.empty(room))
