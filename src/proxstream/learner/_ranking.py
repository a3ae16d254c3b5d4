"""Pairs of rows as rows: x_first - x_second, formed without a dense vector, a buffer full at a time.

A pair is two rows of one query, the more relevant one first, with the label +1: its score <w, x_first - x_second> is
the difference of the two rows' scores. Each row is paired with rows of its query that came before it, so pairs are
made as the stream flows, and a query needs no end. What they are depends on the rows in their order alone.

In the buffer the pairs of a query come after its rows themselves, which have weight 0 there: a learner that takes the
buffer row by row returns their scores before it learns the first of their pairs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.records import NamedTuple
from ..data._random import uniform
from ..jit.compile import compiled

# Where the next pair is looked for: the row, its partner, partners still to be sampled; and how many rows of the
# query are in the buffer themselves.
ROW, EARLIER, NEED, SCORED = range(4)
SMALLEST = 1e-290  # product of weights that has all its digits


class Pairs(NamedTuple):
    """Room for pairs in CSR form, and the cursor: where to continue. A row itself has first = second, and c = 0."""

    indptr: Any
    indices: Any
    data: Any
    c: Any
    first: Any  # the more relevant of a pair's rows
    second: Any
    cursor: Any


@compiled
def eligible(rows, i, start, stop):
    """Count the rows from start on and before stop that make a pair with row i."""
    count = 0
    for e in range(start, stop):
        if is_pair(rows, i, e):
            count += 1
    return count


@compiled
def is_pair(rows, i, e):
    """Return whether rows i and e differ in relevance and both have weight."""
    return rows.y[i] != rows.y[e] and (rows.c.shape[0] == 0 or (rows.c[i] > 0.0 and rows.c[e] > 0.0))


@compiled
def pair_weight(a, b):
    """Return the geometric mean of two weights > 0, also where their product overflows or underflows."""
    product = a * b
    return math.sqrt(product) if SMALLEST < product < np.inf else math.sqrt(a) * math.sqrt(b)


@compiled
def fill(rows, starts, limit, seed, pairs):
    """Fill `pairs` from where its cursor stands; return how many were made: 0 when all rows are done.

    starts[i] is the first row of row i's query; a query that is alone in its rows may have its first ones paired
    already, and the cursor after them. At most `limit` earlier rows are sampled for each row, each set of them
    as likely as any other (Knuth's Algorithm S: a row is taken with probability need / left); a negative limit takes
    all. A weight of a pair is the geometric mean of its rows'.
    """
    cursor, indptr = pairs.cursor, pairs.indptr
    made, filled = 0, 0
    indptr[0] = 0
    while cursor[ROW] < starts.shape[0]:
        i, e = cursor[ROW], cursor[EARLIER]
        start = starts[i]
        if i == start and e < start and i + 1 < starts.shape[0] and starts[i + 1] == start:
            while cursor[SCORED] < starts.shape[0] - i and starts[i + cursor[SCORED]] == start:
                j = i + cursor[SCORED]
                size = rows.indptr[j + 1] - rows.indptr[j]
                if made == pairs.c.shape[0] or (filled + size > pairs.data.shape[0] and made > 0):
                    return made
                for q in range(rows.indptr[j], rows.indptr[j + 1]):
                    pairs.indices[filled], pairs.data[filled] = rows.indices[q], rows.data[q]
                    filled += 1
                pairs.c[made], pairs.first[made], pairs.second[made] = 0.0, j, j
                made += 1
                indptr[made] = filled
                cursor[SCORED] += 1
        if e < start:  # a row not begun
            e = start
            cursor[NEED] = i - start if limit < 0 else limit
        left = eligible(rows, i, e, i) if limit >= 0 else 0
        while e < i and cursor[NEED] > 0:
            if is_pair(rows, i, e):
                size = rows.indptr[i + 1] - rows.indptr[i] + rows.indptr[e + 1] - rows.indptr[e]
                if made == pairs.c.shape[0] or (filled + size > pairs.data.shape[0] and made > 0):
                    cursor[EARLIER] = e
                    return made
                if limit < 0 or left <= cursor[NEED] or uniform(seed) * left < cursor[NEED]:
                    if limit >= 0:
                        cursor[NEED] -= 1
                    filled = difference(rows, i, e, pairs, filled)
                    pairs.c[made] = pair_weight(rows.c[i], rows.c[e]) if rows.c.shape[0] else 1.0
                    more = rows.y[i] > rows.y[e]
                    pairs.first[made], pairs.second[made] = (i, e) if more else (e, i)
                    made += 1
                    indptr[made] = filled
                left -= 1
            e += 1
        cursor[ROW], cursor[EARLIER], cursor[SCORED] = i + 1, -1, 0
    return made


@compiled
def difference(rows, i, e, pairs, at):
    """Write the more relevant row minus the other to pairs from `at` on, indices rising; return where it ends."""
    one, two = (i, e) if rows.y[i] > rows.y[e] else (e, i)
    a, a_end = rows.indptr[one], rows.indptr[one + 1]
    b, b_end = rows.indptr[two], rows.indptr[two + 1]
    while a < a_end or b < b_end:
        if b == b_end or (a < a_end and rows.indices[a] < rows.indices[b]):
            pairs.indices[at], pairs.data[at] = rows.indices[a], rows.data[a]
            a += 1
        elif a == a_end or rows.indices[b] < rows.indices[a]:
            pairs.indices[at], pairs.data[at] = rows.indices[b], -rows.data[b]
            b += 1
        else:
            x = rows.data[a] - rows.data[b]
            a, b = a + 1, b + 1
            if x == 0.0:  # a feature that both rows share cancels
                continue
            pairs.indices[at], pairs.data[at] = rows.indices[a - 1], x
        at += 1
    return at


def room(longest: int, rows: Any) -> Pairs:
    """Return room for some thousands of pairs, and for one of the longest two rows at least."""
    size = max(1 << 16, 2 * longest)
    count = 1 << 12
    return Pairs(
        np.zeros(count + 1, np.int32),  # as in the blocks of a file, so that the same kernels learn them
        np.zeros(size, rows.indices.dtype),
        np.zeros(size, rows.data.dtype),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.array([0, -1, 0, 0]),
    )
