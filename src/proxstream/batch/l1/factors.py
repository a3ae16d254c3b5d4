"""The Hessian on a face, factorized: its inverse, and the inverses of what is left when columns leave.

    H = X_F' D X_F + diag(l2)                                                                               (1)

Where few columns share rows, H is sparse and `kernels.cholesky` eliminates the rare ones; else it is a dense matrix.
With E the unit vectors of the columns that have left, W = H^-1 E and K = E' W,

    H^-1 - W K^-1 W'                                                                                        (2)

is the inverse of H without them. (Gill, Murray, Saunders and Wright 1990 solve quadratic programs in this way.)
"""

from __future__ import annotations

import numpy as np

from ..._checks import Array
from ...kernels import cholesky, gram
from ...kernels.cholesky import Lower
from ...kernels.columns import Rows
from .point import Point

MOST_DENSE = 5000  # columns of a dense matrix
MOST_LEFT = 400  # columns that may leave
SPARSE = 0.3  # pairs of entries a cell of H, up to which it is kept sparse
ROOM = 4  # entries of the sparse factors for each of H's
RIDGE = 1e-9  # of the diagonal, so that columns that depend on one another do no harm

# Seconds for each of: a pair of entries in a row (dense, sparse), a multiply-add of a factorization, a cell read.
DENSE_PAIR, SPARSE_PAIR, FACTOR_CELL, CELL = 1e-9, 1e-8, 1.5e-11, 1e-9


class Plan:
    """How to factorize: the order of columns, how many of them sparsely, and what it will cost."""

    def __init__(self, X: Rows, m: int):
        counts = np.diff(X.indptr).astype(np.float64)
        self.pairs = float(counts @ counts)
        self.order, self.eliminated = np.arange(m), 0
        self.sparse = self.pairs < SPARSE * m * m
        if self.sparse:
            self.eliminated = int(cholesky.rare_first(cholesky.touching(X, m), self.order))
        dense = m - self.eliminated
        pair = SPARSE_PAIR if self.sparse else DENSE_PAIR
        self.seconds = 0.5 * pair * self.pairs + FACTOR_CELL * float(dense) ** 3
        self.seconds_a_solution = CELL * float(dense) ** 2
        self.possible = dense <= MOST_DENSE


def price_of_plan(entries: float, n: int, m: int) -> float:
    """Return about how many seconds a plan for m columns takes."""
    return SPARSE_PAIR * min(entries * entries / n, SPARSE * m * m)


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
            gram.add(at.columns, columns, X, D, np.arange(m), S)
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
        """Eliminate the rare columns; return the dense rest, its lower half."""
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
        """Go on without these columns, by their places; those that had left before come back."""
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
