"""What Newton's method needs of rows whose scores are known: losses to second order, and Gram matrices X'DX."""

from __future__ import annotations

import math

import numpy as np

from .jit import compiled
from .taylor import taylor


@compiled
def expand(loss, y, p, z, first, last, s, D):
    """Write p_i phi'(z_i) to s and p_i phi''(z_i) to D; return sum_i p_i phi(z_i)."""
    total = 0.0
    for i in range(first, last):
        value, slope, curvature = taylor(loss, z[i], y[i])
        total += p[i] * value
        s[i] = p[i] * slope
        D[i] = p[i] * curvature
    return total


@compiled
def along(loss, y, p, z, t, step, first, last):
    """Return f(step) = sum_i p_i phi(z_i + step t_i) and its first two derivatives."""
    f0 = f1 = f2 = 0.0
    for i in range(first, last):
        value, slope, curvature = taylor(loss, z[i] + step * t[i], y[i])
        f0 += p[i] * value
        f1 += p[i] * slope * t[i]
        f2 += p[i] * curvature * t[i] * t[i]
    return f0, f1, f2


@compiled
def gram(X, one, c, first, last, H):
    """Add sum_i c_i x_i x_i' to H + H', each pair of features on one side of the diagonal alone, the diagonal whole."""
    indptr, indices, data = X.indptr, X.indices, X.data
    cells, size, longest = H.ravel(), np.uint64(H.shape[0]), 0
    for i in range(first, last):
        longest = max(longest, indptr[i + 1] - indptr[i])
    at, x = np.empty(longest, np.uint64), np.empty(longest)  # the row, as the inner loop likes it
    for i in range(first, last):
        if c[i] == 0.0:
            continue
        begin, length = np.uint64(indptr[i]), np.uint64(indptr[i + 1] - indptr[i])
        for q in range(length):
            at[q], x[q] = indices[begin + q], data[begin + q]
        for q in range(length):
            cx, row = c[i] * x[q], at[q] * size
            for r in range(q + np.uint64(1)):
                cells[row + at[r]] += cx * x[r]
        if one != 0.0:
            row = (size - np.uint64(1)) * size
            for q in range(length):
                cells[row + at[q]] += c[i] * x[q]
            cells[size * size - np.uint64(1)] += c[i]


@compiled
def scaled_rows(X, one, c, rows, out):
    """Write sqrt(c_i) x_i of the rows that are told to a dense matrix that was zero."""
    indptr, indices, data = X.indptr, X.indices, X.data
    for k in range(rows.shape[0]):
        i = rows[k]
        root, row = math.sqrt(c[i]), out[k]
        for q in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            row[indices[q]] = root * data[q]
        out[k, -1] = root * one


# -- conjugate gradients, for features first to last ----------------------------------------------


@compiled
def add_ridge(mu, p, Hp, first, last):
    """Add mu_j p_j to Hp; return <p, Hp>."""
    total = 0.0
    for j in range(first, last):
        Hp[j] += mu[j] * p[j]
        total += p[j] * Hp[j]
    return total


@compiled
def advance(a, p, Hp, mu, x, r, first, last):
    """Let x += a p and r -= a Hp; return sum_j r_j^2 / (2 mu_j) over the penalized."""
    total = 0.0
    for j in range(first, last):
        x[j] += a * p[j]
        r[j] -= a * Hp[j]
        if mu[j] > 0.0:
            total += r[j] * (r[j] / mu[j])
    return 0.5 * total


@compiled
def turn(q, beta, p, first, last):
    """Let p = q + beta p."""
    for j in range(first, last):
        p[j] = q[j] + beta * p[j]
