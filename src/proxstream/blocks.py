"""Row blocks: the one form in which data travels, from any source to any kernel.

A block is a piece of a stream in CSR form: row i has the values data[indptr[i]:indptr[i+1]] at the features
indices[indptr[i]:indptr[i+1]], the label y[i] and the weight c[i] (an empty c: all weights are 1). Indices may come in
any order, each once in a row: `as_block` adds up duplicates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._checks import Array
from ._threads import in_pieces

NO_WEIGHTS = np.empty(0)


class RowBlock(NamedTuple):
    """Rows in CSR form with their labels and weights."""

    indptr: Array
    indices: Array
    data: Array
    y: Array
    c: Array = NO_WEIGHTS

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_features(self) -> int:
        """One more than the largest index."""
        return int(self.indices.max()) + 1 if len(self.indices) else 0

    def times(self, weights: Array) -> Array:
        """Return <x, w> of each row (of each column of a matrix w); features that w does not know count 0."""
        from scipy.sparse import csr_array

        first, last = self.indptr[0], self.indptr[-1]
        indices, data = self.indices[first:last], self.data[first:last]
        if len(indices) and indices.max() >= len(weights):
            known = indices < len(weights)
            indices, data = np.where(known, indices, 0), np.where(known, data, 0)
        if len(weights) == 0:
            return np.zeros((self.n_rows, *weights.shape[1:]))
        matrix = csr_array((data, indices, self.indptr - first), shape=(self.n_rows, len(weights)))
        return np.asarray(matrix @ weights, dtype=np.float64)

    def check(self, n_threads: int = 1) -> int:
        """Raise a ValueError unless the arrays fit together, which a compiled loop trusts; return n_features."""
        steps = np.diff(self.indptr)
        if len(self.indptr) == 0 or self.indptr[0] < 0 or (steps < 0).any():
            raise ValueError("indptr must begin at 0 or above and not fall")
        if not len(self.indices) == len(self.data) >= self.indptr[-1]:
            raise ValueError(
                f"a block of {self.indptr[-1]} non-zeros needs as many indices and values, "
                f"got {len(self.indices)} and {len(self.data)}"
            )
        if len(self.indices) == 0:
            return 0
        # As unsigned numbers negative ones are the largest: one look tells both ends.
        unsigned = self.indices.view(f"u{self.indices.itemsize}")
        highest = max(in_pieces(lambda start, stop: int(unsigned[start:stop].max()), len(unsigned), n_threads))
        if highest > np.iinfo(self.indices.dtype).max:
            raise ValueError(f"a feature index must be >= 0, got {self.indices.min()}")
        return highest + 1

    def check_finite(self, n_threads: int = 1) -> None:
        """Raise a ValueError that names the first row with a value that is not finite."""
        if len(self.data) == 0:
            return
        # The least and the largest value tell, since of NaN both are NaN; their sum would take twice as long.
        ends = in_pieces(lambda start, stop: _ends(self.data[start:stop]), len(self.data), n_threads)
        if not np.isfinite(ends).all():
            row = int(np.searchsorted(self.indptr, np.argmin(np.isfinite(self.data)), side="right")) - 1
            raise ValueError(f"features must be finite, got NaN or infinity in row {row} of the block")


def _ends(values: Array) -> tuple[Any, Any]:
    return values.min(), values.max()


def as_block(X: Any, y: Any = None, c: Any = None, dtype: Any = None) -> RowBlock:
    """Return a dense or sparse matrix as a block; a CSR matrix of this dtype is not copied if it can stay as it is.

    Duplicate indices of a row are added up and explicit zeros dropped: dense or sparse, one matrix is one block.
    Numbers other than 32-bit floats become 64-bit ones, unless a dtype is told.

    >>> as_block(np.array([[0.0, 2.0], [3.0, 0.0]]))
    RowBlock(indptr=array([0, 1, 2], dtype=int32), indices=array([1, 0], dtype=int32), data=array([2., 3.]),
             y=array([], dtype=float64), c=array([], dtype=float64))
    """
    from scipy.sparse import csr_array, issparse

    if len(np.shape(X)) != 2:
        raise ValueError(f"X must be a matrix, got shape {np.shape(X)}")
    if issparse(X):
        matrix = X.tocsr()
        if not matrix.has_canonical_format or np.count_nonzero(matrix.data) < len(matrix.data):
            matrix = matrix.copy() if matrix is X else matrix
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
    else:
        matrix = csr_array(X)
    if dtype is None:
        dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    data = matrix.data.astype(dtype, copy=False)
    labels = np.empty(0) if y is None else np.asarray(y, dtype=np.float64)
    weights = NO_WEIGHTS if c is None else np.asarray(c, dtype=np.float64)
    return RowBlock(matrix.indptr, matrix.indices, data, labels, weights)
