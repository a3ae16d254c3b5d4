"""The dual side of losses and penalties, compiled: conjugates, their domains, and sums over rows and features.

A loss's `conjugate` and `implicit_step` run here with the bodies of `core.losses`, one number at a time. The
domain of phi* is closed by the slopes at the two ends of the line, so no loss has to tell it.

Penalties come as strengths: arrays l1, l2 with one entry for all features or one for each, of

    Psi(w) = sum_j l1_j |w_j| + (l2_j / 2) w_j^2      Psi*(v) = sum_j (|v_j| - l1_j)+^2 / (2 l2_j)

where l2_j = 0 leaves |v_j| <= l1_j as a constraint.
"""

from __future__ import annotations

from typing import Any

from ..core.losses._kernels import TUPLES, slope
from ..jit.compile import compiled, generic, inlined

FAR = 1e300  # a prediction so far out that the slope there is the limit
SHORT_OF_EDGE = 0.9  # part of the way to the edge of the domain of phi* that a step beyond it goes


@generic
def conjugate(loss: Any, a: float, y: float) -> float:
    """Return phi*(a, y)."""
    raise NotImplementedError


for _kind, _tuple in TUPLES.items():
    conjugate.of(_tuple)(_kind.conjugate)


@inlined
def into_domain(loss, alpha, y):
    """Return the nearest number whose negative is in the domain of phi*."""
    return min(max(alpha, -slope(loss, FAR, y)), -slope(loss, -FAR, y))


# -- over rows -----------------------------------------------------------------------------------


@compiled
def scores(rows, w, b, out):
    """Write <x_i, w> + b of each row; features beyond w count 0."""
    d = w.shape[0]
    for i in range(out.shape[0]):
        total = 0.0
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[q]
            if j < d:
                total += w[j] * rows.data[q]
        out[i] = total + b


@compiled
def add_rows(rows, a, v):
    """Add sum_i a_i x_i to v, which has room for every feature."""
    for i in range(a.shape[0]):
        if a[i] != 0.0:
            for q in range(rows.indptr[i], rows.indptr[i + 1]):
                v[rows.indices[q]] += a[i] * rows.data[q]


@compiled
def add_row_matrix(rows, a, v):
    """Add sum_i x_i a_i' to the matrix v, one column an output."""
    for i in range(a.shape[0]):
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[q]
            for k in range(a.shape[1]):
                v[j, k] += a[i, k] * rows.data[q]


@compiled
def conjugate_sum(loss, alpha, y, c, scale):
    """Return sum_i c_i phi*(-scale alpha_i, y_i); an empty c is all ones."""
    total = 0.0
    for i in range(alpha.shape[0]):
        total += (c[i] if c.shape[0] else 1.0) * conjugate(loss, -scale * alpha[i], y[i])
    return total


@compiled
def clip(loss, alpha, y):
    """Put every alpha_i, in place, where phi*(-alpha_i) is finite."""
    for i in range(alpha.shape[0]):
        alpha[i] = into_domain(loss, alpha[i], y[i])


@compiled
def move(loss, theta, D, v, y, p):
    """Subtract D_i v_i from theta_i, which is p_i times a slope of the loss.

    Where that would leave the domain of phi*, go most of the way to its edge, and take D_i as so much smaller.
    """
    for i in range(theta.shape[0]):
        if p[i] > 0.0:
            new = (theta[i] - D[i] * v[i]) / p[i]
            inside = -into_domain(loss, -new, y[i])
            if inside == new:
                theta[i] = p[i] * new
            else:
                theta[i] += SHORT_OF_EDGE * (p[i] * inside - theta[i])
                D[i] *= 1.0 - SHORT_OF_EDGE


@compiled
def scale_sides(alpha, up, down):
    """Multiply, in place, the positive alphas by up and the negative ones by down."""
    for i in range(alpha.shape[0]):
        alpha[i] *= up if alpha[i] > 0.0 else down


@compiled
def sides(alpha, c):
    """Return the weighted sums of the positive and of the negative alphas; an empty c is all ones."""
    positive, negative = 0.0, 0.0
    for i in range(alpha.shape[0]):
        part = (c[i] if c.shape[0] else 1.0) * alpha[i]
        positive += max(part, 0.0)
        negative += min(part, 0.0)
    return positive, negative


# -- over features -------------------------------------------------------------------------------


@compiled
def net_limit(v, l1, l2):
    """Return the largest s <= 1 for which s v keeps every constraint |v_j| <= l1_j of l2_j = 0."""
    s = 1.0
    for j in range(v.shape[0]):
        if l2[j if l2.shape[0] > 1 else 0] == 0.0:
            bound, size = l1[j if l1.shape[0] > 1 else 0], abs(v[j])
            if s * size > bound:
                s = bound / size
    return s


@compiled
def net_conjugate(v, l1, l2, scale):
    """Return Psi*(scale v), where the constraints are known to hold."""
    total = 0.0
    for j in range(v.shape[0]):
        curvature = l2[j if l2.shape[0] > 1 else 0]
        beyond = scale * abs(v[j]) - l1[j if l1.shape[0] > 1 else 0]
        if curvature > 0.0 and beyond > 0.0:
            total += beyond * (beyond / curvature)
    return 0.5 * total


@compiled
def net_value(w, l1, l2):
    """Return Psi(w), making no arrays."""
    total = 0.0
    for j in range(w.shape[0]):
        size = abs(w[j])
        total += size * (l1[j if l1.shape[0] > 1 else 0] + 0.5 * l2[j if l2.shape[0] > 1 else 0] * size)
    return total
