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

from ...jit.compile import compiled, inlined


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
def tally(rows, low, high, first, end, table):
    """Add up of each feature, over rows first to end: how many have it, the least and the largest <x_j, theta>.

    theta is any between low and high.
    """
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    for i in range(first, end):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j, x = np.uint64(indices[k]), np.float64(data[k])
            table[j, 0] += 1.0
            table[j, 1] += min(x * low[i], x * high[i])
            table[j, 2] += max(x * low[i], x * high[i])


@compiled
def fill(rows, place, first, end, free, idx, val):
    """Write the entries in rows first to end of the features that have a place.

    free[place] is where a column's next entry goes.
    """
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    for i in range(first, end):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            at = place[np.uint64(indices[k])]
            if at >= 0:
                slot = np.uint64(free[np.uint64(at)])
                idx[slot], val[slot] = i, data[k]
                free[np.uint64(at)] += 1


class Parts(NamedTuple):
    """Ranges of rows, how to work on each of them, and how many entries the features that are kept have in each."""

    ranges: Any
    each: Any
    counts: Any


def gather(rows: Any, kept: Any, parts: Parts, n_features: int, ones: bool) -> Columns:
    """Return the columns of the features `kept`, with a last column of ones if `ones`."""
    n = rows.n_rows
    ptr = np.zeros(len(kept) + 1 + ones, np.int64)
    np.cumsum(sum(parts.counts), out=ptr[1 : len(kept) + 1])
    if ones:
        ptr[-1] = ptr[-2] + n
    place = np.full(n_features, -1, np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    columns = Columns(ptr, np.empty(ptr[-1], np.uint32), np.empty(ptr[-1], rows.data.dtype))
    free = ptr[: len(kept)] + np.cumsum([np.zeros_like(kept), *parts.counts[:-1]], axis=0)
    parts.each(
        lambda first, end, own: fill(rows, place, first, end, own, columns.idx, columns.val),
        [(*between, own) for between, own in zip(parts.ranges, free, strict=True)],
    )
    if ones:
        columns.idx[ptr[-2] :] = np.arange(n, dtype=np.uint32)
        columns.val[ptr[-2] :] = 1.0
    return columns


@inlined
def dot(idx, val, first, last, v):
    """Return the sum of val_k v[idx_k], k from first to last, in four strands: one addition need not wait for another.

    Columns come as their arrays here: to take those out of a record counts references, which is slow for each column.
    """
    k, end = np.uint64(first), np.uint64(last)
    whole = k + (end - k) // np.uint64(4) * np.uint64(4)
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    while k < whole:
        a += val[k] * v[idx[k]]
        b += val[k + np.uint64(1)] * v[idx[k + np.uint64(1)]]
        c += val[k + np.uint64(2)] * v[idx[k + np.uint64(2)]]
        d += val[k + np.uint64(3)] * v[idx[k + np.uint64(3)]]
        k += np.uint64(4)
    while k < end:
        a += val[k] * v[idx[k]]
        k += np.uint64(1)
    return (a + b) + (c + d)


@inlined
def square(idx, val, first, last, v):
    """Return the sum of v[idx_k] val_k^2."""
    total = 0.0
    for k in range(np.uint64(first), np.uint64(last)):
        x = np.float64(val[k])
        total += x * x * v[idx[k]]
    return total


@compiled
def largest(columns, out):
    """Write the largest |x_ij| of each column into out[j]."""
    ptr, val = columns.ptr, columns.val
    for j in range(ptr.shape[0] - 1):
        x = 0.0
        for k in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
            x = max(x, abs(np.float64(val[k])))
        out[j] = x


@compiled
def products(columns, chosen, v, out):
    """Write <x_j, v> into out[j] for each chosen j."""
    ptr, idx, val = columns.ptr, columns.idx, columns.val
    for j in chosen:
        out[j] = dot(idx, val, ptr[j], ptr[j + 1], v)


@compiled
def squares(columns, chosen, v, out):
    """Write sum_i v_i x_ij^2 into out[j] for each chosen j."""
    ptr, idx, val = columns.ptr, columns.idx, columns.val
    for j in chosen:
        out[j] = square(idx, val, ptr[j], ptr[j + 1], v)


@compiled
def combine(columns, chosen, w, z):
    """Add sum_j w_j x_j over the chosen j to z."""
    ptr, idx, val = columns.ptr, columns.idx, columns.val
    for j in chosen:
        if w[j] != 0.0:
            for k in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
                z[idx[k]] += val[k] * w[j]


class Rows(NamedTuple):
    """The same entries by rows: row i has data[indptr[i]:indptr[i+1]] in the columns `indices`, ascending."""

    indptr: Any
    indices: Any
    data: Any


@compiled
def _count_rows(columns, chosen, indptr):
    ptr, idx = columns.ptr, columns.idx
    for j in chosen:
        for k in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
            indptr[idx[k] + np.uint32(1)] += 1
    for i in range(indptr.shape[0] - 1):
        indptr[i + 1] += indptr[i]


@compiled
def _fill_rows(columns, chosen, free, indices, data):
    ptr, idx, val = columns.ptr, columns.idx, columns.val
    for at in range(chosen.shape[0]):
        j = chosen[at]
        for k in range(np.uint64(ptr[j]), np.uint64(ptr[j + 1])):
            slot = np.uint64(free[idx[k]])
            indices[slot], data[slot] = at, val[k]
            free[idx[k]] += 1


def by_rows(columns: Columns, chosen: Any, n: int) -> Rows:
    """Return the chosen columns by rows; a column's number is its place among the chosen."""
    indptr = np.zeros(n + 1, np.int64)
    _count_rows(columns, chosen, indptr)
    rows = Rows(indptr, np.empty(indptr[-1], np.uint32), np.empty(indptr[-1], columns.val.dtype))
    _fill_rows(columns, chosen, indptr[:-1].copy(), rows.indices, rows.data)
    return rows


# -- some columns, straight from rows --------------------------------------------------------------


@compiled
def _select(X, place, indptr, indices, data):
    # A bit per feature fits into a near cache where places do not, and most entries are not wanted.
    wanted = np.zeros((place.shape[0] + 63) // 64, np.uint64)
    for j in range(place.shape[0]):
        if place[j] >= 0:
            wanted[j >> 6] |= np.uint64(1) << np.uint64(j & 63)
    begin, columns, values = X.indptr, X.indices, X.data
    end = np.uint64(0)
    for i in range(begin.shape[0] - 1):
        for k in range(np.uint64(begin[i]), np.uint64(begin[i + 1])):
            j = np.uint64(columns[k])
            if (wanted[j >> np.uint64(6)] >> (j & np.uint64(63))) & np.uint64(1):
                indices[end], data[end] = place[j], values[k]
                end += np.uint64(1)
        indptr[i + 1] = end


@compiled
def _transpose(rows, free, idx, val):
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    for i in range(indptr.shape[0] - 1):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            slot = np.uint64(free[indices[k]])
            idx[slot], val[slot] = i, data[k]
            free[indices[k]] += 1


def pick(X: Any, place: Any, m: int) -> Columns:
    """Return the m features with a place >= 0 as columns in that order, by one pass over the rows."""
    indptr = np.zeros(len(X.indptr), np.int64)
    room = len(X.data)  # address space, of which only what is written becomes memory
    rows = Rows(indptr, np.empty(room, np.uint32), np.empty(room, X.data.dtype))
    _select(X, place, *rows)
    rows = Rows(indptr, rows.indices[: indptr[-1]], rows.data[: indptr[-1]])
    ptr = np.zeros(m + 1, np.int64)
    np.cumsum(np.bincount(rows.indices, minlength=m), out=ptr[1:])
    columns = Columns(ptr, np.empty(ptr[-1], np.uint32), np.empty(ptr[-1], X.data.dtype))
    _transpose(rows, ptr[:-1].copy(), columns.idx, columns.val)
    return columns
