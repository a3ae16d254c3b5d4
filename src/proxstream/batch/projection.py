"""Dual points by projection: feasible, and hundreds of times closer to the optimum than scaling makes them.

    P(w) = sum_i p_i phi(<x_i, w>, y_i) + sum_j l1_j |w_j| + (l2_j / 2) w_j^2
    D(theta) = -sum_i p_i phi*(theta_i / p_i, y_i) - sum_j (|G_j| - l1_j)+^2 / (2 l2_j)        G = X' theta       (1)

where l2_j = 0 requires |G_j| <= l1_j and an intercept, a last column of ones, G_j = 0. At weights w that are nearly
optimal the slopes theta_i = p_i phi'(z_i) nearly satisfy that. To scale all of theta until the worst of a million
columns is feasible costs (worst relative violation) sum_j l1_j |w_j|, first order in the violation. To move only what
violates costs second order, except |w_j| times its own violation for columns with a weight.

The dual is curved as sum_i delta_i^2 / (2 D_i), D_i = p_i phi''(z_i). The change of theta that is least in this metric
and takes an excess e_j off each column j of a set S is

    delta = -D X_S q            (X_S' D X_S + diag(l2_S)) q = e_S                                                (2)

by conjugate gradients. A round adds the columns that violate to S (those in S that do not are held where they are),
solves (2) and measures all columns again. Where the l2 part is not 0, e_j is G_j beyond its bound less what a weight
x_j accounts for, G_j = -(l2_j x_j +- l1_j), and x_j -= q_j follows.

When theta is feasible, a second series of rounds also brings columns with a weight that are inside of their bounds to
them: with the support of the optimum that is Newton's step in the dual, and the gap falls to its square. Every point on
the way is made feasible by balancing and scaling what is left, and the best one is returned.

Far from the optimum, where more columns come to violate than leave, the rounds end: scaling is then the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.losses import Loss
from ..core.losses._kernels import as_tuple
from ..core.validation import Array
from ..data import _products as csr_products
from ..data.threads import ALONE, Threads
from . import _conjugates as row_kernels, cost
from .dual import balance
from .l1 import _csc as column_kernels, _kernels as l1_kernels
from .l1._csc import Columns, Rows

MOST_ROUNDS = 12  # of each series
ITERATIONS = 150  # of conjugate gradients in a round
IDLE, FALLS = 30, 0.7  # iterations that leave more than this part of the largest excess: a round ends
ACCURACY = 0.03  # part of the largest excess that a round may leave
PAYS = 0.1  # part of the gap by which a round has to reduce it
FLOOR = 1e-11  # of phi''
NEAR = 0.999  # part of its bound from which a column that has violated stays in S


class Dual(NamedTuple):
    """The dual problem (1): columns, the loss as kernels take it, labels, shares of rows, strengths of columns."""

    columns: Columns
    loss: Any
    y: Array
    p: Array
    l1: Array
    l2: Array
    intercept: bool = False  # whether the last column is one of ones
    threads: Threads = ALONE

    @classmethod
    def of(
        cls, X: Any, y: Any, loss: Loss, l1: Any, l2: Any = 0.0, *, sample_weight: Any = None, intercept: bool = False
    ) -> Dual:
        """Return the dual problem of a matrix, dense or sparse.

        Parameters
        ----------
        X : matrix (rows, features)
        y : labels as the loss knows them: -1 and +1, or numbers
        l1, l2 : strengths, one number or one per feature, beside the mean loss
        sample_weight : weights of rows, optional
        intercept : bool
            Whether an unpenalized intercept is part of the model.
        """
        from scipy.sparse import csc_array

        X, y = csc_array(X), np.asarray(y, np.float64)
        n, m = X.shape
        c = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
        ones = np.ones(n if intercept else 0)
        columns = Columns(
            np.append(X.indptr, [X.nnz + n] * intercept).astype(np.int64),
            np.append(X.indices, np.arange(len(ones))).astype(np.uint32),
            np.append(X.data, ones.astype(X.dtype)),
        )
        zero = np.zeros(int(intercept))
        l1, l2 = (np.append(np.broadcast_to(strength, m), zero).astype(np.float64) for strength in (l1, l2))
        return cls(columns, as_tuple(loss), y, c / c.sum(), l1, l2, intercept)


class Preconditioner(NamedTuple):
    """An approximate inverse of X_F' D X_F, for some columns F, and the seconds of its use."""

    columns: Array
    solve: Callable[[Array], Array]
    seconds: float


class Projection(NamedTuple):
    """A feasible theta with the value that it proves, the columns that ever violated, and what the work cost."""

    theta: Array
    value: float
    S: Array
    seconds: float  # by the cost model


def project(
    dual: Dual,
    theta: Array,
    D: Array,
    w: Array,
    primal: float,
    *,
    chosen: Array | None = None,
    warm: Array | None = None,
    preconditioner: Preconditioner | None = None,
    tol: float = 0.0,
    budget: float = np.inf,
) -> Projection:
    """Return a feasible dual point near theta, (2) being the metric, and its value (1).

    Any start is allowed, and any result is a proof; the slopes of nearly optimal weights make it a tight one.

    Parameters
    ----------
    dual : Dual
    theta : array (rows,)
        p_i times a slope of the loss in row i (in terms of alpha: -p_i alpha_i).
    D : array (rows,)
        p_i times the second derivative of the loss there.
    w : array (columns,)
        The weights that theta belongs to, with the intercept last.
    primal : float
        P(w): rounds end where they do not reduce primal - value.
    chosen : array of column numbers, optional
        The columns that are not known to be 0 at the optimum (all).
    warm : array of column numbers, optional
        S of an earlier projection.
    preconditioner : Preconditioner, optional
        For conjugate gradients; beyond its columns the diagonal is used.
    tol : float
        A gap of tol |primal| needs no further work.
    budget : float
        Seconds, by the cost model, after which no round begins.

    >>> import proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 50))
    >>> y = np.sign(X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(200))
    >>> dual = Dual.of(X, y, ps.logistic, 0.02)
    >>> w = np.where(np.arange(50) < 2, [1.8, -1.7] * 25, 0.0)
    >>> primal = ps.logistic.value(X @ w, y).mean() + 0.02 * abs(w).sum()
    >>> slopes, D = ps.logistic.slope(X @ w, y) / 200, ps.logistic.curvature(X @ w, y) / 200
    >>> scaled = slopes * min(1.0, 0.02 / abs(X.T @ slopes).max())
    >>> by_scaling = -ps.logistic.conjugate(200 * scaled, y).mean()
    >>> found = project(dual, slopes, D, w, primal)
    >>> bool(primal - found.value < 0.5 * (primal - by_scaling)), bool(abs(X.T @ found.theta).max() <= 0.02)
    (True, True)
    """
    every = np.arange(dual.columns.n_columns) if chosen is None else chosen
    search = _Search(dual, theta, D, w, primal, every)
    search.preconditioner = preconditioner
    return search.run(np.empty(0, np.int64) if warm is None else warm, tol, budget)


class _Search:
    """Rounds of (2), and the best point met."""

    def __init__(self, dual: Dual, theta: Array, D: Array, w: Array, primal: float, chosen: Array):
        self.dual, self.chosen, self.w, self.primal = dual, chosen, w, primal
        self.theta = np.zeros(len(theta))
        self.D = np.maximum(D, FLOOR * dual.p)
        self.sizes = np.where(dual.l1 > 0.0, dual.l1, max(float(np.mean(dual.l1)), 1e-300))
        row_kernels.move(dual.loss, self.theta, np.ones(len(theta)), -theta, dual.y, dual.p)
        self.x, self.G, self.e = w.copy(), np.zeros(len(w)), np.zeros(len(w))
        self.best, self.value = self.theta, -np.inf
        self.preconditioner: Preconditioner | None = None
        ptr = dual.columns.ptr
        self.pass_seconds = cost.data_pass(float(np.sum(ptr[chosen + 1] - ptr[chosen])))
        self.seconds = 0.0  # by the cost model

    def run(self, warm: Array, tol: float, budget: float) -> Projection:
        """Make theta feasible, then bring the columns with a weight to their bounds, too."""
        dual, on = self.dual, self.w[self.chosen] != 0.0
        support = self.chosen[on]
        self.budget = budget
        self.goal = 0.1 * tol * abs(self.primal) / max(float(dual.l1 @ np.abs(self.w)), 1e-300)
        self._measure()
        stays = np.zeros(len(self.w), np.bool_)
        stays[warm] = np.abs(self.G[warm]) >= NEAR * dual.l1[warm]
        stays[support] = True
        if dual.intercept:
            stays[-1] = True
        self.S = self.chosen[stays[self.chosen]]
        self._rows: Rows | None = None
        for pulled in (np.empty(0, np.int64), support[dual.l1[support] > 0.0]):
            self._series(pulled, tol)
            if self.primal - self.value <= tol * abs(self.primal) or self.seconds > budget:
                break
        return Projection(self.best, self.value, self.S, self.seconds)

    def _series(self, pulled: Array, tol: float) -> None:
        """Take rounds while they pay; the first two also bring the pulled columns to their bounds."""
        dual = self.dual
        violating = l1_kernels.excess(self.G, self.chosen, self.x, dual.l1, dual.l2, self.e)
        gap, scale = np.inf, 0.0
        for k in range(MOST_ROUNDS):
            if len(pulled) and k < 2:
                self.e[pulled] = (self.G + dual.l1 * np.sign(self.w) + dual.l2 * self.x)[pulled]
            elif 1.0 - scale <= self.goal:
                return
            if not self._step(violating):
                return
            value, scale = self._measure()
            before = len(violating)
            violating = l1_kernels.excess(self.G, self.chosen, self.x, dual.l1, dual.l2, self.e)
            last, gap = gap, self.primal - value
            if gap <= tol * abs(self.primal) or self.seconds > self.budget:
                return
            if len(violating) > 1.1 * before + len(pulled) or (k > 2 and not gap <= (1.0 - PAYS) * last):
                return

    def _measure(self) -> tuple[float, float]:
        """Balance theta and compute G; return the value that scaling proves, and the scale."""
        dual, n = self.dual, len(self.theta)
        if dual.intercept:
            up, down = balance(float(np.sum(np.maximum(self.theta, 0.0))), float(np.sum(np.minimum(self.theta, 0.0))))
            self.theta *= np.where(self.theta > 0.0, up, down)
        dual.threads.each(
            lambda j: column_kernels.products(dual.columns, j, self.theta, self.G), dual.threads.deal(self.chosen)
        )
        s = min(float(l1_kernels.limit(self.G, self.chosen, dual.l1, dual.l2)), 1.0)
        value = float(l1_kernels.dual_loss(dual.loss, self.theta, s, dual.y, dual.p, 0, n))
        value -= float(l1_kernels.beyond(self.G, self.chosen, s, dual.l1, dual.l2))
        if value > self.value:
            self.value, self.best = value, s * self.theta
        self.seconds += self.pass_seconds
        return value, s

    def _step(self, violating: Array) -> bool:
        """Add columns to S and move theta by (2); return whether it moved: too few iterations may solve nothing."""
        dual, n = self.dual, len(self.theta)
        grown = np.union1d(self.S, violating)
        if self._rows is None or len(grown) > len(self.S):
            self.S, self._rows = grown, column_kernels.by_rows(dual.columns, grown, n)
        q = self._solve(self._rows)
        if not np.any(q):
            return False
        self.x[self.S] -= q
        v = np.empty(n)
        csr_products.times(self._rows, 0.0, np.append(q, 0.0), 0, n, v)
        row_kernels.move(dual.loss, self.theta, self.D, v, dual.y, dual.p)
        return True

    def _solve(self, X: Rows) -> Array:
        """Solve (2) by conjugate gradients."""
        S, D, n, m = self.S, self.D, len(self.D), len(self.S)
        l2, size = np.append(self.dual.l2[S], 0.0), np.append(self.sizes[S], 1.0)
        h, t = np.zeros(m + 1), np.empty(n)
        csr_products.transposed_squares(X, 0.0, D, 0, n, h)
        h += l2
        h[h == 0.0] = 1.0
        residual, q = np.append(self.e[S], 0.0), np.zeros(m + 1)
        precondition, seconds = self._preconditioned(h)
        seconds += cost.FACE_PRODUCT * len(X.data)
        u = precondition(residual)
        towards, ru = u, float(residual @ u)
        best, left = q, float(np.max(np.abs(residual) / size))
        enough = max(0.3 * self.goal, ACCURACY * left)
        met: list[float] = []
        for k in range(ITERATIONS):
            met.append(left)
            idle = k >= IDLE and left > FALLS * met[k - IDLE]
            if left <= enough or idle or self.seconds > self.budget:
                break
            Ht = np.zeros(m + 1)
            csr_products.hessian_times(X, 0.0, D, towards, 0, n, t, Ht)
            Ht += l2 * towards
            self.seconds += seconds
            bend = float(towards @ Ht)
            if not bend > 0.0:
                break
            q = q + ru / bend * towards
            residual -= ru / bend * Ht
            largest = float(np.max(np.abs(residual) / size))
            if largest < left:
                best, left = q, largest
            u = precondition(residual)
            ru, before = float(residual @ u), ru
            towards = u + ru / before * towards
        return best[:-1]

    def _preconditioned(self, h: Array) -> tuple[Callable[[Array], Array], float]:
        """Return what approximates the inverse of (2), whose diagonal is h, and the seconds that it takes."""
        given = self.preconditioner
        if given is None:
            return (lambda residual: residual / h), 0.0
        where = np.full(len(self.w), -1, np.int64)
        where[given.columns] = np.arange(len(given.columns))
        known = np.flatnonzero(where[self.S] >= 0)
        places = where[self.S[known]]

        def precondition(residual: Array) -> Array:
            u, b = residual / h, np.zeros(len(given.columns))
            b[places] = residual[known]
            u[known] = given.solve(b)[places]
            return u

        return precondition, given.seconds
