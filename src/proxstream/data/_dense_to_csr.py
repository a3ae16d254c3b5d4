"""Dense rows to CSR, at the speed of memory."""

from __future__ import annotations

import numpy as np

from ..core.validation import Array
from ..jit.compile import compiled


@compiled
def count(X, indptr):
    """Write where each row's non-zeros begin and end."""
    indptr[0] = 0
    for i in range(X.shape[0]):
        found = 0
        for j in range(X.shape[1]):
            found += X[i, j] != 0.0
        indptr[i + 1] = indptr[i] + found


@compiled
def fill(X, indices, data):
    """Write the non-zeros in order. Each entry is written and only a non-zero one kept, which spares a branch.

    So there must be room for one entry more than there are non-zeros.
    """
    at = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = X[i, j]
            indices[at], data[at] = j, x
            at += x != 0.0


def non_zeros(X: Array) -> tuple[Array, Array, Array]:
    """Return (indptr, indices, data) of a dense matrix."""
    X = np.ascontiguousarray(X)
    word = np.int32 if X.size < 2**31 else np.int64
    indptr = np.empty(len(X) + 1, word)
    count(X, indptr)
    indices, data = np.empty(indptr[-1] + 1, word), np.empty(indptr[-1] + 1, X.dtype)
    fill(X, indices, data)
    return indptr, indices[:-1], data[:-1]
