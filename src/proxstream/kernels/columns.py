"""A sparse matrix by columns, of those features only that can matter.

Solvers that move one weight at a time read X by columns. `tally` looks once over the rows and says of each feature how
strongly any dual point could pull it, so that a safe test can leave most of them out before `gather` copies the rest:
32-bit row numbers, values in the precision that came in, and every sum taken in 64 bits.

    X    rows of the problem, as a block           p_i      share of row i in the mean
    x_j  column j                                 theta_i  p_i times any slope of the loss in row i
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .jit import compiled, inlined


class Columns(NamedTuple):
    """Column j holds the values val[ptr[j]:ptr[j+1]] in the rows idx[ptr[j]:ptr[j+1]]."""

    ptr: Any
    idx: Any
    val: Any

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.ptr) - 1


@compiled
def tally(rows, low, high, table):
    """Write of each feature: how many rows have it, the least and the largest <x_j, theta> for low <= theta <= high."""
    for i in range(rows.indptr.shape[0] - 1):
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            j, x = np.uint64(rows.indices[k]), np.float64(rows.data[k])
            table[j, 0] += 1.0
            table[j, 1] += min(x * low[i], x * high[i])
            table[j, 2] += max(x * low[i], x * high[i])


@compiled
def fill(rows, place, free, idx, val):
    """Write the entries of the features that have a place; free[place] is where a column's next entry goes."""
    for i in range(rows.indptr.shape[0] - 1):
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            at = place[np.uint64(rows.indices[k])]
            if at >= 0:
                slot = np.uint64(free[np.uint64(at)])
                idx[slot], val[slot] = i, rows.data[k]
                free[np.uint64(at)] += 1


def gather(rows: Any, kept: Any, counts: Any, n_features: int, ones: bool) -> Columns:
    """Return the columns of the features `kept`, which have `counts` entries, and last a column of ones if told."""
    n = rows.n_rows
    ptr = np.zeros(len(kept) + 1 + ones, np.int64)
    np.cumsum(counts, out=ptr[1 : len(kept) + 1])
    if ones:
        ptr[-1] = ptr[-2] + n
    place = np.full(n_features, -1, np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    columns = Columns(ptr, np.empty(ptr[-1], np.uint32), np.empty(ptr[-1], rows.data.dtype))
    fill(rows, place, ptr[: len(kept)].copy(), columns.idx, columns.val)
    if ones:
        columns.idx[ptr[-2] :] = np.arange(n, dtype=np.uint32)
        columns.val[ptr[-2] :] = 1.0
    return columns


@inlined
def dot(columns, j, v):
    """Return <x_j, v>, in four strands so that one addition need not wait for another."""
    first, last = columns.ptr[j], columns.ptr[j + 1]
    idx, val = columns.idx, columns.val
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = first + (last - first) // 4 * 4
    for k in range(first, whole, 4):
        a += val[k] * v[idx[k]]
        b += val[k + 1] * v[idx[k + 1]]
        c += val[k + 2] * v[idx[k + 2]]
        d += val[k + 3] * v[idx[k + 3]]
    for k in range(whole, last):
        a += val[k] * v[idx[k]]
    return (a + b) + (c + d)


@inlined
def square(columns, j, v):
    """Return sum_i v_i x_ij^2."""
    total = 0.0
    for k in range(columns.ptr[j], columns.ptr[j + 1]):
        x = np.float64(columns.val[k])
        total += x * x * v[columns.idx[k]]
    return total


@compiled
def largest(columns, out):
    """Write the largest |x_ij| of each column into out[j]."""
    for j in range(columns.ptr.shape[0] - 1):
        x = 0.0
        for k in range(columns.ptr[j], columns.ptr[j + 1]):
            x = max(x, abs(np.float64(columns.val[k])))
        out[j] = x


@compiled
def products(columns, chosen, v, out):
    """Write <x_j, v> into out[j] for each chosen j."""
    for j in chosen:
        out[j] = dot(columns, j, v)


@compiled
def squares(columns, chosen, v, out):
    """Write sum_i v_i x_ij^2 into out[j] for each chosen j."""
    for j in chosen:
        out[j] = square(columns, j, v)


@compiled
def combine(columns, chosen, w, z):
    """Add sum_j w_j x_j over the chosen j to z."""
    for j in chosen:
        if w[j] != 0.0:
            for k in range(columns.ptr[j], columns.ptr[j + 1]):
                z[columns.idx[k]] += columns.val[k] * w[j]


class Rows(NamedTuple):
    """The same entries by rows: row i has data[indptr[i]:indptr[i+1]] in the columns `indices`, ascending."""

    indptr: Any
    indices: Any
    data: Any


@compiled
def _count_rows(columns, chosen, indptr):
    for j in chosen:
        for k in range(columns.ptr[j], columns.ptr[j + 1]):
            indptr[columns.idx[k] + np.uint32(1)] += 1
    for i in range(indptr.shape[0] - 1):
        indptr[i + 1] += indptr[i]


@compiled
def _fill_rows(columns, chosen, free, indices, data):
    for at in range(chosen.shape[0]):
        j = chosen[at]
        for k in range(columns.ptr[j], columns.ptr[j + 1]):
            slot = np.uint64(free[columns.idx[k]])
            indices[slot], data[slot] = at, columns.val[k]
            free[columns.idx[k]] += 1


def by_rows(columns: Columns, chosen: Any, n: int) -> Rows:
    """Return the chosen columns by rows; a column's number is its place among the chosen."""
    indptr = np.zeros(n + 1, np.int64)
    _count_rows(columns, chosen, indptr)
    rows = Rows(indptr, np.empty(indptr[-1], np.uint32), np.empty(indptr[-1], columns.val.dtype))
    _fill_rows(columns, chosen, indptr[:-1].copy(), rows.indices, rows.data)
    return rows
