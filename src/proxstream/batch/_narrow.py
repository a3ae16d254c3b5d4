"""Passes of Newton's method over sparse rows of few features: all that a step needs, in two reads of the data.

s_i  p_i phi'(z_i)        D_i  p_i phi''(z_i)        latest_i  D_i when row i was last added to H
"""

from __future__ import annotations

import numpy as np

from ..core.losses._kernels import taylor
from ..jit.compile import compiled

AT_ONCE = 512  # rows


@compiled
def expand(X, one, loss, y, p, w, first, last, z, s, D):
    """Write scores z_i = <x_i, w>, s_i and D_i; return sum_i p_i phi(z_i)."""
    indptr, indices, data = X.indptr, X.indices, X.data
    total, terms = 0.0, np.empty(AT_ONCE)
    for begin in range(first, last, AT_ONCE):
        end = min(begin + AT_ONCE, last)
        for i in range(begin, end):
            a = one * w[-1]
            for q in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                a += data[q] * w[indices[q]]
            z[i] = a
        scores, labels, shares, slopes, bends = z[begin:end], y[begin:end], p[begin:end], s[begin:end], D[begin:end]
        for k in range(scores.shape[0]):
            value, slope, curvature = taylor(loss, scores[k], labels[k])
            terms[k] = shares[k] * value
            slopes[k] = shares[k] * slope
            bends[k] = shares[k] * curvature
        for k in range(scores.shape[0]):
            total += terms[k]
    return total


@compiled
def gather(X, one, s, D, floor, changed, first, last, latest, g, H):
    """Add sum_i s_i x_i to g; bring H up to date where D_i has changed by this fraction.

    D_i is at least floor_i. Of H, pairs of features are on one side of the diagonal alone.
    """
    indptr, indices, data = X.indptr, X.indices, X.data
    cells, size, longest = H.ravel(), np.uint64(H.shape[0]), 0
    for i in range(first, last):
        longest = max(longest, indptr[i + 1] - indptr[i])
    at, x = np.empty(longest, np.uint64), np.empty(longest)
    slopes = 0.0
    for i in range(first, last):
        begin, length, slope = np.uint64(indptr[i]), np.uint64(indptr[i + 1] - indptr[i]), s[i]
        slopes += slope
        bend = max(D[i], floor[i])
        delta = bend - latest[i]
        if abs(delta) <= changed * latest[i]:
            for q in range(begin, begin + length):
                g[indices[q]] += slope * data[q]
            continue
        latest[i] = bend
        for q in range(length):
            j, v = np.uint64(indices[begin + q]), np.float64(data[begin + q])
            at[q], x[q] = j, v
            g[j] += slope * v
        for q in range(length):
            move, row = delta * x[q], at[q] * size
            for r in range(q + np.uint64(1)):
                cells[row + at[r]] += move * x[r]
        if one != 0.0:
            row = (size - np.uint64(1)) * size
            for q in range(length):
                cells[row + at[q]] += delta * x[q]
            cells[size * size - np.uint64(1)] += delta
    g[-1] += one * slopes
