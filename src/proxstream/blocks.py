"""Row blocks: the one form in which data travels, from any source to any kernel.

A block is a piece of a stream in CSR form: row i has the values data[indptr[i]:indptr[i+1]] at the features
indices[indptr[i]:indptr[i+1]], the label y[i] and the weight c[i] (an empty c: all weights are 1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._checks import Array

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


def as_block(X: Any, y: Any = None, c: Any = None, dtype: Any = None) -> RowBlock:
    """Return a dense or sparse matrix as a block; a CSR matrix of this dtype is not copied.

    Explicit zeros stay (they change no model), duplicate indices of a row are added up.

    >>> as_block(np.array([[0.0, 2.0], [3.0, 0.0]]))
    RowBlock(indptr=array([0, 1, 2], dtype=int32), indices=array([1, 0], dtype=int32), data=array([2., 3.]),
             y=array([], dtype=float64), c=array([], dtype=float64))
    """
    from scipy.sparse import csr_array, issparse

    if issparse(X):
        matrix = X.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy() if matrix is X else matrix
            matrix.sum_duplicates()
    else:
        matrix = csr_array(X)
    data = matrix.data if dtype is None else matrix.data.astype(dtype, copy=False)
    labels = np.empty(0) if y is None else np.asarray(y, dtype=np.float64)
    weights = NO_WEIGHTS if c is None else np.asarray(c, dtype=np.float64)
    return RowBlock(matrix.indptr, matrix.indices, data, labels, weights)
