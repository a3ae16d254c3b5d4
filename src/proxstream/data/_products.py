"""Products with a CSR matrix, over a range of rows: scores X v, sums X't, and both at once for a Hessian X'DX v.

A vector of features has one entry more than there are features: the last belongs to the intercept, a feature that is
`one` in every row (1.0 with an intercept, 0.0 without). Values may be 32-bit; sums are 64-bit. Ranges of rows are what
threads share: each thread has its own sums.

What makes these loops twice as fast: indices and places are unsigned numbers, which spares a look at their sign for
each entry, and the arrays are taken out of their record once, since each time counts references.
"""

from __future__ import annotations

import numpy as np

from ..jit.compile import compiled


@compiled
def times(X, one, v, first, last, out):
    """Write out_i = <x_i, v>."""
    indptr, indices, data = X.indptr, X.indices, X.data
    for i in range(first, last):
        a = one * v[-1]
        for q in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            a += data[q] * v[indices[q]]
        out[i] = a


@compiled
def squared_norms(X, one, first, last, out):
    """Write out_i = ||x_i||^2."""
    indptr, data = X.indptr, X.data
    for i in range(first, last):
        a = one
        for q in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            x = float(data[q])
            a += x * x
        out[i] = a


@compiled
def transposed(X, one, t, first, last, out):
    """Add sum_i t_i x_i to out; rows with t_i = 0 cost nothing."""
    total = 0.0
    indptr, indices, data = X.indptr, X.indices, X.data
    for i in range(first, last):
        c = t[i]
        if c != 0.0:
            total += c
            for q in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                out[indices[q]] += c * data[q]
    out[-1] += one * total


@compiled
def transposed_squares(X, one, t, first, last, out):
    """Add sum_i t_i x_ij^2 to out_j; rows with t_i = 0 cost nothing."""
    total = 0.0
    indptr, indices, data = X.indptr, X.indices, X.data
    for i in range(first, last):
        c = t[i]
        if c != 0.0:
            total += c
            for q in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                x = float(data[q])
                out[indices[q]] += c * x * x
    out[-1] += one * total


@compiled
def hessian_times(X, one, D, v, first, last, t, out):
    """Write t_i = <x_i, v> and add sum_i D_i t_i x_i to out; rows with D_i = 0 cost one product."""
    total = 0.0
    indptr, indices, data = X.indptr, X.indices, X.data
    for i in range(first, last):
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        a = one * v[-1]
        for q in range(begin, end):
            a += data[q] * v[indices[q]]
        t[i] = a
        c = D[i] * a
        if c != 0.0:
            total += c
            for q in range(begin, end):
                out[indices[q]] += c * data[q]
    out[-1] += one * total
