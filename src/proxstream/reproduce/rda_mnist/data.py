"""Pairs of digits: raw pixels, a sign a row, nothing scaled or centred."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..._checks import Array
from ...blocks import RowBlock
from ...datasets import Rows, Split, load_mnist


@dataclass(frozen=True, eq=False)
class Pair:
    """The images of two digits: -1 is the first, +1 the second."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @cached_property
    def sparse(self) -> csr_array:
        """The training rows without their zeros, four in five."""
        return csr_array(self.X)

    def rows(self, order: Array) -> RowBlock:
        """Return the training rows in this order, as a block."""
        matrix = self.sparse[order]
        return RowBlock(matrix.indptr, matrix.indices, matrix.data, self.y[order])

    def part(self, indices: Array) -> Pair:
        """Return the pair with some of the training rows; the test rows stay."""
        return replace(self, X=self.X[indices], y=self.y[indices])

    def error(self, weights: Array, intercept: float) -> float:
        """Return the percentage of test rows on the wrong side; a score of 0 is on none."""
        return 100.0 * float(np.mean(self.y_test * (self.X_test @ weights + intercept) <= 0.0))

    def strongest(self) -> float:
        """Return the least lambda whose optimum has no weight: the largest gradient under the best intercept alone."""
        positive = np.mean(self.y > 0.0)
        residuals = positive - (self.y > 0.0)
        return float(np.max(np.abs(residuals @ self.X)) / len(self.y))


@lru_cache(maxsize=1)
def digits(folder: Path | None) -> Split[Rows]:
    """Return MNIST from its folder or, without one, scikit-learn's 8 by 8 digits with their 16 greys spread to 255."""
    if folder is not None:
        return load_mnist(folder)
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    images = np.round(found.data * (255.0 / 16.0))
    held_out = np.arange(len(images)) % 4 == 0
    return Split(Rows(images[~held_out], found.target[~held_out]), Rows(images[held_out], found.target[held_out]))


@lru_cache(maxsize=2)
def pair(folder: Path | None, first: int, second: int) -> Pair:
    """Return the rows of two digits."""
    both = digits(folder)

    def chosen(rows: Rows) -> tuple[Array, Array]:
        kept = (rows.y == first) | (rows.y == second)
        return rows.X[kept].astype(np.float64), np.where(rows.y[kept] == second, 1.0, -1.0)

    return Pair(*chosen(both.train), *chosen(both.test))
