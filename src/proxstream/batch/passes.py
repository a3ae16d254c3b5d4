"""Passes over the rows of a problem, in one thread or several.

Rows are cut into as many ranges as there are threads (`threads`), of about as many non-zeros each. A pass that writes
one number a row writes where it will; one that sums over rows has a vector for each range, added up in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._checks import Array
from .._threads import Threads
from ..blocks import RowBlock
from ..kernels import csr_products, newton
from .problem import Problem


def unsigned(rows: RowBlock) -> RowBlock:
    """Return the same rows with indices that have no sign: loops need not look at it then."""
    return rows._replace(indices=rows.indices.view(f"u{rows.indices.itemsize}"))


class Passes:
    """Products with the rows of a problem, and its loss to second order.

    Vectors of features have d + 1 entries, the intercept's last. Use as a context: it may hold threads.
    """

    def __init__(self, problem: Problem, n_threads: int = 1) -> None:
        from ..kernels.losses import as_tuple

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
