"""Passes over rows with a score for each class: products with CSR rows, and the softmax to second order.

Weights V are (features + 1, classes), the intercepts' row last; `one` is as in `csr_products`. The curvature of a row
is p (diag(pi) - pi pi'), pi its classes' probabilities: it is applied, never built.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import compiled


@compiled
def times(X, one, V, first, last, out):
    """Write out_i = x_i' V."""
    k = V.shape[1]
    for i in range(first, last):
        for c in range(k):
            out[i, c] = one * V[-1, c]
        for q in range(X.indptr[i], X.indptr[i + 1]):
            x, row = X.data[q], V[X.indices[q]]
            for c in range(k):
                out[i, c] += x * row[c]


@compiled
def transposed(X, one, T, first, last, out):
    """Add sum_i x_i t_i' to out."""
    k = T.shape[1]
    for i in range(first, last):
        for q in range(X.indptr[i], X.indptr[i + 1]):
            x, row = X.data[q], out[X.indices[q]]
            for c in range(k):
                row[c] += x * T[i, c]
        for c in range(k):
            out[-1, c] += one * T[i, c]


@compiled
def transposed_squares(X, one, T, first, last, out):
    """Add sum_i x_ij^2 t_i' to out_j."""
    k = T.shape[1]
    for i in range(first, last):
        for q in range(X.indptr[i], X.indptr[i + 1]):
            x, row = float(X.data[q]), out[X.indices[q]]
            for c in range(k):
                row[c] += x * x * T[i, c]
        for c in range(k):
            out[-1, c] += one * T[i, c]


@compiled
def bent(p, pi, T, first, last, out):
    """Write p_i (diag(pi_i) - pi_i pi_i') t_i."""
    k = T.shape[1]
    for i in range(first, last):
        mean = 0.0
        for c in range(k):
            mean += pi[i, c] * T[i, c]
        for c in range(k):
            out[i, c] = p[i] * pi[i, c] * (T[i, c] - mean)


@compiled
def expand(y, p, Z, first, last, S, pi):
    """Write p_i (pi_i - e_y) to S and the probabilities to pi; return sum_i p_i phi(z_i)."""
    total, k = 0.0, Z.shape[1]
    for i in range(first, last):
        top = -np.inf
        for c in range(k):
            top = max(top, Z[i, c])
        mass = 0.0
        for c in range(k):
            pi[i, c] = math.exp(Z[i, c] - top)
            mass += pi[i, c]
        label = int(y[i])
        total += p[i] * (math.log(mass) + top - Z[i, label])
        for c in range(k):
            pi[i, c] /= mass
            S[i, c] = p[i] * pi[i, c]
        S[i, label] -= p[i]
    return total


@compiled
def along(y, p, Z, T, step, first, last):
    """Return f(step) = sum_i p_i phi(z_i + step t_i) and its first two derivatives."""
    f0 = f1 = f2 = 0.0
    k = Z.shape[1]
    for i in range(first, last):
        top = -np.inf
        for c in range(k):
            top = max(top, Z[i, c] + step * T[i, c])
        mass = mean = square = 0.0
        for c in range(k):
            e = math.exp(Z[i, c] + step * T[i, c] - top)
            mass += e
            mean += e * T[i, c]
            square += e * T[i, c] * T[i, c]
        label = int(y[i])
        mean /= mass
        f0 += p[i] * (math.log(mass) + top - Z[i, label] - step * T[i, label])
        f1 += p[i] * (mean - T[i, label])
        f2 += p[i] * max(square / mass - mean * mean, 0.0)
    return f0, f1, f2
