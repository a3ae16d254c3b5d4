"""Passes over the rows of a problem, in one thread or several.

Rows are cut into as many ranges as there are threads (`threads`), of about as many non-zeros each. A pass that writes
one number per row writes it in place; one that sums over rows has a vector per range, added up in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ...core.validation import Array
from ...data import _products as csr_products
from ...data.rowblock import RowBlock
from ...data.threads import Threads
from ..problem import Problem
from . import _kernels as newton

CENTRING_STEPS = 30
MOST_FACTORIZED = 800  # weights of all classes up to which the Hessian is factorized


def unsigned(rows: RowBlock) -> RowBlock:
    """Return the same rows with indices that have no sign: loops need not look at it then."""
    return rows._replace(indices=rows.indices.view(f"u{rows.indices.itemsize}"))


class Passes:
    """Products with the rows of a problem, and its loss to second order.

    Vectors of features have d + 1 entries, the intercept's last. Use as a context: it may hold threads.
    """

    def __init__(self, problem: Problem, n_threads: int = 1) -> None:
        from ...core.losses._kernels import as_tuple

        rows = problem.rows
        self.X = unsigned(rows)
        self.y, self.p, self.loss = rows.y, problem.shares, as_tuple(problem.loss)
        self.one = float(problem.fit_intercept)
        self.outputs = 1
        self.n, self.size, self.nonzeros = rows.n_rows, problem.n_features + 1, len(rows.data)
        self.threads = Threads(n_threads)
        self.ranges = self.threads.ranges_by_entries(rows.indptr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.__exit__()

    def each(self, work: Callable[[int, int], Any]) -> list[Any]:
        """Return work(first, last) of each range of rows, in order."""
        return self.threads.each(work, self.ranges)

    def summed(self, work: Callable[[int, int, Array], Any], shape: int | tuple[int, ...]) -> Array:
        """Return the sum of what work(first, last, out) adds to zeros of this shape."""

        def on_zeros(first: int, last: int) -> Array:
            out = np.zeros(shape)
            work(first, last, out)
            return out

        total, *others = self.each(on_zeros)
        if others:
            flat = [part.ravel() for part in (total, *others)]

            def add(first: int, last: int) -> None:
                for other in flat[1:]:
                    flat[0][first:last] += other[first:last]

            self.threads.each(add, self.threads.ranges(len(flat[0])))
        return np.asarray(total)

    def times(self, v: Array) -> Array:
        """Return X v."""
        out = np.empty(self.n)
        self.each(lambda first, last: csr_products.times(self.X, self.one, v, first, last, out))
        return out

    def squared_norms(self) -> Array:
        """Return ||x_i||^2 of each row, the intercept's 1 included."""
        out = np.empty(self.n)
        self.each(lambda first, last: csr_products.squared_norms(self.X, self.one, first, last, out))
        return out

    def transposed(self, t: Array) -> Array:
        """Return X't."""
        return self.summed(
            lambda first, last, out: csr_products.transposed(self.X, self.one, t, first, last, out), self.size
        )

    def transposed_squares(self, t: Array) -> Array:
        """Return sum_i t_i x_ij^2, the diagonal of X' diag(t) X."""
        return self.summed(
            lambda first, last, out: csr_products.transposed_squares(self.X, self.one, t, first, last, out), self.size
        )

    def hessian_times(self, D: Array, v: Array) -> tuple[Array, Array]:
        """Return X v and X'DX v."""
        t = np.empty(self.n)
        product = self.summed(
            lambda first, last, out: csr_products.hessian_times(self.X, self.one, D, v, first, last, t, out), self.size
        )
        return t, product

    def expand(self, z: Array) -> tuple[float, Array, Array]:
        """Return sum_i p_i phi(z_i), and p_i phi'(z_i) and p_i phi''(z_i) of each row."""
        s, D = np.empty(self.n), np.empty(self.n)
        sums = self.each(lambda first, last: newton.expand(self.loss, self.y, self.p, z, first, last, s, D))
        return float(sum(sums)), s, D

    def along(self, z: Array, t: Array, step: float) -> Array:
        """Return f(step) = sum_i p_i phi(z_i + step t_i), f' and f''."""
        sums = self.each(lambda first, last: newton.along(self.loss, self.y, self.p, z, t, step, first, last))
        return np.asarray(np.sum(sums, axis=0))


class JointPasses(Passes):
    """The same for the softmax, with one score per class.

    Weights are flat, (features + 1) x classes, so that conjugate gradients need not know about classes. The curvature
    of row i, p_i (diag(pi_i) - pi_i pi_i'), follows from the probabilities pi_i, which take the place of D_i.
    """

    def __init__(self, problem: Problem, n_threads: int = 1) -> None:
        super().__init__(problem, n_threads)
        self.outputs = problem.n_outputs
        self.rows_of_weights = self.size
        self.size *= self.outputs
        self.nonzeros *= self.outputs

    @property
    def narrow(self) -> bool:
        """Whether the Hessian is worth factorizing."""
        return self.size <= MOST_FACTORIZED

    def _matrix(self, v: Array) -> Array:
        return v.reshape(self.rows_of_weights, self.outputs)

    def _added(self, work: Callable[..., Any], T: Array) -> Array:
        shape = (self.rows_of_weights, self.outputs)
        return self.summed(lambda first, last, out: work(self.X, self.one, T, first, last, out), shape).ravel()

    def times(self, v: Array) -> Array:
        """Return X V."""
        out = np.empty((self.n, self.outputs))
        self.each(lambda first, last: newton.times_classes(self.X, self.one, self._matrix(v), first, last, out))
        return out

    def transposed(self, t: Array) -> Array:
        """Return X'T."""
        return self._added(newton.transposed_classes, t)

    def transposed_squares(self, t: Array) -> Array:
        """Return the diagonal of the Hessian for probabilities t."""
        return self._added(newton.transposed_squares_classes, self.p[:, None] * t * (1.0 - t))

    def hessian_times(self, D: Array, v: Array) -> tuple[Array, Array]:
        """Return X V, and the Hessian of the mean loss times V."""
        t, bent = self.times(v), np.empty((self.n, self.outputs))
        self.each(lambda first, last: newton.softmax_curvature_times(self.p, D, t, first, last, bent))
        return t, self.transposed(bent)

    def expand(self, z: Array) -> tuple[float, Array, Array]:
        """Return the mean loss, p_i (pi_i - e_y) and pi_i of each row."""
        s, pi = np.empty_like(z), np.empty_like(z)
        sums = self.each(lambda first, last: newton.expand_softmax(self.y, self.p, z, first, last, s, pi))
        return float(sum(sums)), s, pi

    def along(self, z: Array, t: Array, step: float) -> Array:
        """Return f(step) = sum_i p_i phi(z_i + step t_i), f' and f''."""
        sums = self.each(lambda first, last: newton.along_softmax(self.y, self.p, z, t, step, first, last))
        return np.asarray(np.sum(sums, axis=0))

    def centred(self, z: Array, b: Array) -> Array:
        """Return the intercepts that minimize the mean loss for scores z without them, from b; they sum to 0."""
        value, s, pi = self.expand(z + b)
        for _ in range(CENTRING_STEPS):
            g = s.sum(axis=0)
            H = np.diag(self.p @ pi) - pi.T @ (self.p[:, None] * pi)
            step = -np.linalg.lstsq(H, g, rcond=1e-12)[0]
            size, moved = 1.0, self.expand(z + b + step)
            while not moved[0] <= value and size > 1e-3:
                size *= 0.5
                moved = self.expand(z + b + size * step)
            if not moved[0] <= value or np.abs(moved[1].sum(axis=0)).max() >= np.abs(g).max():
                break
            b, (value, s, pi) = b + size * step, moved
        return np.asarray(b - b.mean())
