"""Sums over rows with what their rounding errors are measured by, compiled.

A sum is kept as two numbers, the rounded one and what rounding has taken from it (Knuth's two-sum): their sum is right
to one rounding of the result and to second order in the sizes of the terms. No operation here may be reordered, which
the compile policy ensures; a fused multiply-add replaces a rounded product by the exact one, which only helps.
"""

from __future__ import annotations

from ..jit.compile import compiled, prefetch
from ._conjugates import conjugate

CELL = 4  # numbers of a feature, side by side: sum a_i x_i in two numbers, sum |a_i x_i|, and one that is not used
AHEAD = 16  # non-zeros whose features are prefetched


@compiled
def add_rows(rows, a, sums):
    """Add what row i with weight a_i adds to the cells of its features; sums has room for every feature."""
    last = rows.indptr[a.shape[0]]
    for i in range(a.shape[0]):
        if a[i] != 0.0:
            for q in range(rows.indptr[i], rows.indptr[i + 1]):
                if q + AHEAD < last:
                    prefetch(sums, CELL * rows.indices[q + AHEAD])
                at = CELL * rows.indices[q]
                term = a[i] * rows.data[q]
                before = sums[at]
                after = before + term
                moved = after - before
                sums[at] = after
                sums[at + 1] += (before - (after - moved)) + (term - moved)
                sums[at + 2] += abs(term)


@compiled
def add_conjugates(loss, alpha, y, c, linear, square, wide, out):
    """Add the sums that a dual value is made of to out; an empty c is all ones.

    0, 1  sum c phi*(-alpha) in two numbers        3     sum c phi*(0)
    2     sum c (|phi*(-alpha)| + |phi*(0)|)       4     sum c (size of the terms of phi*)
    5, 6  sum c alpha in two numbers               7     sum c |alpha|

    The terms of a conjugate are no larger than |phi*| + |a y| + linear |a| + square a^2 + wide (1 + |a| + |y|).
    """
    total, low, excess, lost = out[0], out[1], out[5], out[6]
    for i in range(alpha.shape[0]):
        weight = c[i] if c.shape[0] else 1.0
        a = -alpha[i]
        value = conjugate(loss, a, y[i])
        term = weight * value
        after = total + term
        moved = after - total
        low += (total - (after - moved)) + (term - moved)
        total = after
        size = abs(a)
        null = weight * conjugate(loss, 0.0, y[i])
        out[2] += abs(term) + abs(null)
        out[3] += null
        out[4] += weight * (abs(value) + size * (linear + abs(y[i])) + square * a * a + wide * (1.0 + size + abs(y[i])))
        term = weight * alpha[i]
        after = excess + term
        moved = after - excess
        lost += (excess - (after - moved)) + (term - moved)
        excess = after
        out[7] += weight * size
    out[0], out[1], out[5], out[6] = total, low, excess, lost
