"""Kernels of Newton's method: losses to second order, Gram matrices X'DX, conjugate gradients; also for the softmax.

For the softmax, weights V are (features + 1, classes) with the intercepts in the last row, and `one` is as in
`data._products`. The curvature of a row is p (diag(pi) - pi pi'), pi its class probabilities; it is never formed.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.losses._kernels import taylor
from ...jit.compile import compiled

AT_ONCE = 512  # rows


@compiled
def expand(loss, y, p, z, first, last, s, D):
    """Write p_i phi'(z_i) to s and p_i phi''(z_i) to D; return sum_i p_i phi(z_i).

    Terms of a sum are kept and added up in a loop of their own, here and below: the other one can then work on several
    rows at once.
    """
    total, terms = 0.0, np.empty(AT_ONCE)
    for begin in range(first, last, AT_ONCE):
        end = min(begin + AT_ONCE, last)
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
def along(loss, y, p, z, t, step, first, last):
    """Return f(step) = sum_i p_i phi(z_i + step t_i) and its first two derivatives."""
    f0 = f1 = f2 = 0.0
    values, slopes, bends = np.empty(AT_ONCE), np.empty(AT_ONCE), np.empty(AT_ONCE)
    for begin in range(first, last, AT_ONCE):
        end = min(begin + AT_ONCE, last)
        scores, moves, labels, shares = z[begin:end], t[begin:end], y[begin:end], p[begin:end]
        for k in range(scores.shape[0]):
            value, slope, curvature = taylor(loss, scores[k] + step * moves[k], labels[k])
            values[k] = shares[k] * value
            slopes[k] = shares[k] * slope * moves[k]
            bends[k] = shares[k] * curvature * moves[k] * moves[k]
        for k in range(scores.shape[0]):
            f0 += values[k]
            f1 += slopes[k]
            f2 += bends[k]
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
    """Write sqrt(c_i) x_i of the given rows to a dense matrix that was zero."""
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


# -- the softmax: one score per class ------------------------------------------------------------


@compiled
def times_classes(X, one, V, first, last, out):
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
def transposed_classes(X, one, T, first, last, out):
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
def transposed_squares_classes(X, one, T, first, last, out):
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
def softmax_curvature_times(p, pi, T, first, last, out):
    """Write p_i (diag(pi_i) - pi_i pi_i') t_i."""
    k = T.shape[1]
    for i in range(first, last):
        mean = 0.0
        for c in range(k):
            mean += pi[i, c] * T[i, c]
        for c in range(k):
            out[i, c] = p[i] * pi[i, c] * (T[i, c] - mean)


@compiled
def expand_softmax(y, p, Z, first, last, S, pi):
    """Write p_i (pi_i - e_y) to S and the probabilities to pi; return sum_i p_i phi(z_i)."""
    total, k = 0.0, Z.shape[1]
    for i in range(first, last):
        best, top = 0, Z[i, 0]
        for c in range(1, k):
            if Z[i, c] > top:
                best, top = c, Z[i, c]
        rest = 0.0  # the mass of the others, so that a tiny loss keeps its digits
        for c in range(k):
            pi[i, c] = math.exp(Z[i, c] - top)
            if c != best:
                rest += pi[i, c]
        label, mass = int(y[i]), 1.0 + rest
        total += p[i] * (math.log1p(rest) + (top - Z[i, label]))
        for c in range(k):
            pi[i, c] /= mass
            S[i, c] = p[i] * pi[i, c]
        S[i, label] -= p[i]
    return total


@compiled
def along_softmax(y, p, Z, T, step, first, last):
    """Return f(step) = sum_i p_i phi(z_i + step t_i) and its first two derivatives."""
    f0 = f1 = f2 = 0.0
    k = Z.shape[1]
    for i in range(first, last):
        best, top = 0, Z[i, 0] + step * T[i, 0]
        for c in range(1, k):
            if Z[i, c] + step * T[i, c] > top:
                best, top = c, Z[i, c] + step * T[i, c]
        rest = mean = square = 0.0
        for c in range(k):
            e = math.exp(Z[i, c] + step * T[i, c] - top)
            if c != best:
                rest += e
            mean += e * T[i, c]
            square += e * T[i, c] * T[i, c]
        label, mass = int(y[i]), 1.0 + rest
        mean /= mass
        f0 += p[i] * (math.log1p(rest) + (top - (Z[i, label] + step * T[i, label])))
        f1 += p[i] * (mean - T[i, label])
        f2 += p[i] * max(square / mass - mean * mean, 0.0)
    return f0, f1, f2
