"""Newton directions: H d = -g solved by conjugate gradients, helped by an approximation M of the Hessian.

    H = X' D X + diag(mu)        D_i = p_i phi''(z_i)        (1)

    M                    where                      made of
    `Diagonal`           wide data                  the diagonal of H, at each step
    `Factorized`         narrow data                Cholesky factors of H at an earlier point

With M = H one iteration of conjugate gradients is exact. Hessians change less and less from step to step, so M is kept
until the iterations show that it has aged: they are what it costs not to make a new one.

A direction need not be exact. Its residual r = -g - H d is, to second order, minus the gradient at the next point, and

    sum_j r_j^2 / (2 mu_j)                                   (2)

is what the duality gap will be there: an iteration beyond the gap that is wanted would be wasted, and so would be one
that makes r much smaller than what second order leaves out (Eisenstat and Walker 1996, choice 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...core.validation import Array
from .. import cost
from ..dispatch import NARROW
from . import _kernels as kernels
from .passes import Passes

BLOCK = 1024  # rows of a dense block
MANY = 0.25  # of all rows
LARGE = 1e15  # values whose squares may be too large for 32 bits
LOOSEST, TIGHTEST = 0.25, 1e-4  # how much of the gradient a direction may leave
MOST_ITERATIONS = 250
RIDGE = 1e-12  # so that columns that depend on one another do no harm
TINY = 300  # features that are factorized whatever it costs
PRODUCTS_SPARED = 60.0  # by factors instead of a diagonal, over a solution


class Point(NamedTuple):
    """An objective to second order at some weights: scores, slopes and curvature of rows, gradient, value."""

    z: Array
    s: Array
    D: Array
    g: Array
    P: float


class Direction(NamedTuple):
    """A direction d of weights, X d, and the iterations it took."""

    d: Array
    t: Array
    iterations: int


class Preconditioner(Protocol):
    """An approximation M of the Hessian that is quickly inverted."""

    def update(self, D: Array, iterations: int) -> None:
        """Come closer to the Hessian of these D, if the iterations of the last direction say so."""

    def solve(self, r: Array) -> Array:
        """Return the q with M q = r."""


class Diagonal:
    """The diagonal of the Hessian."""

    def __init__(self, passes: Passes, mu: Array) -> None:
        self.passes, self.mu = passes, mu
        self.inverse = np.empty(0)

    def update(self, D: Array, iterations: int) -> None:
        """Take the diagonal of (1)."""
        h = self.passes.transposed_squares(D)
        h += self.mu
        h[h == 0.0] = 1.0
        self.inverse = 1.0 / h

    def solve(self, r: Array) -> Array:
        """Return r / diag(H)."""
        return np.asarray(self.inverse * r)


class Factorized:
    """Cholesky factors of the Hessian, kept until conjugate gradients need more than a few iterations."""

    def __init__(self, passes: Passes, mu: Array, *, exact: bool = False) -> None:
        self.passes, self.mu, self.exact = passes, mu, exact
        self.dense, seconds = factorization_cost(passes)
        self.patience = max(1.0, np.sqrt(seconds / cost.hessian_product(passes.nonzeros)))
        self.factor, self.scale = np.empty((0, 0)), np.empty(0)
        data = passes.X.data
        self.large = self.dense and len(data) > 0 and max(float(data.max()), -float(data.min())) > LARGE

    def update(self, D: Array, iterations: int) -> None:
        """Factorize (1) at the first step, and when the last direction took too many iterations."""
        if len(self.factor) and iterations <= self.patience:
            return
        from scipy.linalg.lapack import dpotrf

        H = self.hessian(D)
        diagonal = H.diagonal() + self.mu
        # On a unit diagonal the same little ridge suits columns of every scale.
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        H *= self.scale[:, None]
        H *= self.scale
        ridge = RIDGE
        while True:
            H.flat[:: len(H) + 1] = 1.0 + ridge
            self.factor, failed = dpotrf(H, lower=1, clean=0)
            if not failed:
                return
            ridge *= 100.0

    def hessian(self, D: Array) -> Array:
        """Return X'DX, made in the cheaper of two ways."""
        return self._dense(D) if self.dense else self._sparse(D)

    def _sparse(self, D: Array) -> Array:
        size = self.passes.size
        half = self.passes.summed(
            lambda first, last, out: kernels.gram(self.passes.X, self.passes.one, D, first, last, out), (size, size)
        )
        H = half + half.T
        H.flat[:: size + 1] = half.diagonal()
        return np.asarray(H.T)  # the same, as LAPACK stores it

    def _dense(self, D: Array) -> Array:
        passes = self.passes
        size, X, one = passes.size, passes.X, passes.one

        # Squares in 32 bits are half the work, and what they lose costs an iteration or two: not worth it for few rows.
        short = np.count_nonzero(D) > MANY * passes.n and not (self.large or self.exact)
        dtype = np.float32 if short else np.float64

        def work(first: int, last: int, out: Array) -> None:
            some = np.flatnonzero(D[first:last]) + first
            for at in range(0, len(some), BLOCK):
                block = np.zeros((min(BLOCK, len(some) - at), size), dtype)
                kernels.scaled_rows(X, one, D, some[at : at + BLOCK], block)
                out += block.T @ block

        return np.asfortranarray(passes.summed(work, (size, size)))

    def solve(self, r: Array) -> Array:
        """Return M^-1 r."""
        from scipy.linalg.lapack import dpotrs

        return np.asarray(self.scale * dpotrs(self.factor, self.scale * r, lower=1)[0])


class JointFactorized(Factorized):
    """Cholesky factors of the Hessian of all classes at once."""

    def hessian(self, D: Array) -> Array:
        """Return the Hessian of the mean loss for probabilities D."""
        passes = self.passes
        d, k = passes.size // passes.outputs, passes.outputs
        H = np.zeros((d, k, d, k))
        for first in range(0, passes.n, BLOCK):
            rows = np.arange(first, min(first + BLOCK, passes.n))
            X = np.zeros((len(rows), d))
            kernels.scaled_rows(passes.X, passes.one, np.ones(passes.n), rows, X)
            for a in range(k):
                for b in range(a + 1):
                    c = passes.p[rows] * D[rows, a] * ((a == b) - D[rows, b])
                    H[:, a, :, b] += X.T @ (c[:, None] * X)
        for a in range(k):
            for b in range(a):
                H[:, b, :, a] = H[:, a, :, b]
        return np.asfortranarray(H.reshape(passes.size, passes.size))


def factorization_cost(passes: Passes) -> tuple[bool, float]:
    """Return whether a Hessian is cheaper in dense blocks, and the seconds of making and factorizing it."""
    return cost.factorized_hessian(passes.X.indptr, passes.one, passes.size)


def worth_factorizing(passes: Passes) -> bool:
    """Return whether a factorized Hessian costs no more than the products that it saves."""
    if passes.size > NARROW:
        return False
    affordable = PRODUCTS_SPARED * cost.hessian_product(passes.nonzeros)
    return passes.size <= TINY or factorization_cost(passes)[1] <= affordable


def direction(
    passes: Passes, M: Preconditioner, at: Point, mu: Array, downhill: Array, leave: float, enough: float
) -> Direction:
    """Solve H d = -g until r is `leave` of g in the norm of M^-1, or until (2) is `enough`; `downhill` is -M^-1 g."""
    x, r, t = np.zeros_like(at.g), -at.g, np.zeros_like(at.s)
    q = downhill
    p = q.copy()
    rq = first = float(r @ q)
    iterations = 0
    features = passes.threads.ranges(len(x))

    def shared(kernel: Callable[..., Any], *vectors: Any) -> list[Any]:
        """Run a kernel on parts of the features."""
        return passes.threads.each(lambda first, last: kernel(*vectors, first, last), features)

    while iterations < MOST_ITERATIONS:
        iterations += 1
        Xp, Hp = passes.hessian_times(at.D, p)
        bend = sum(shared(kernels.add_ridge, mu, p, Hp))
        if not bend > 0.0:
            break
        a = rq / bend
        left = sum(shared(kernels.advance, a, p, Hp, mu, x, r))
        Xp *= a
        t += Xp
        q = M.solve(r)
        rq, before = float(r @ q), rq
        if left <= enough or rq <= leave * leave * first:
            break
        shared(kernels.turn, q, rq / before, p)
    return Direction(x, t, iterations)
