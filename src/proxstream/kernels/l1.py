"""Proximal Newton steps for mean loss + l1 + l2: the loops over rows and over columns.

    z_i      <x_i, w> + b                        p_i   share of row i
    theta_i  p_i phi'(z_i)                       D_i   p_i phi''(z_i)
    d        the step, v = X d                   G_j   <x_j, theta>
    l1, l2   strengths, one a column

A step minimizes the quadratic model of the loss plus the penalty,

    q(d) = <theta, v> + (1/2) sum_i D_i v_i^2 + sum_j l1_j |w_j + d_j| + (l2_j/2) (w_j + d_j)^2             (1)

one coordinate at a time. Its gradient along x_j is <x_j, theta + D v>: the sum theta + D v is kept in place of theta,
so a coordinate costs its column once to look at and twice to move.
"""

from __future__ import annotations

import math

from numba.extending import register_jitable

from .columns import dot, square
from .conjugates import conjugate
from .jit import compiled

INWARD = 1.0 - 4e-16  # keeps a slope that was rounded inside the domain of phi*, which holds 0


@compiled
def dual_loss(loss, theta, s, y, p):
    """Return -sum_i p_i phi*(s theta_i / p_i, y_i)."""
    total = 0.0
    for i in range(theta.shape[0]):
        if p[i] > 0.0:
            total -= p[i] * conjugate(loss, INWARD * s * theta[i] / p[i], y[i])
    return total


@register_jitable
def shrunk(x, g, h, l1, l2):
    """Return the minimizer over u of g u + (h/2) (u - x)^2 + l1 |u| + (l2/2) u^2, up to constants; g the slope at x."""
    u = h * x - g
    return (u - min(max(u, -l1), l1)) / (h + l2)


@compiled
def descend(columns, order, model, w, l1, l2, slack):
    """Go once over the columns in this order and move each weight to where the model is lowest along it.

    A weight that rests at 0, with the model's slope further than `slack` inside its threshold, leaves the list. Return
    how many stay (they are moved to the front), the sum of how far slopes are from their thresholds, and the largest.
    """
    g_model, D, H = model
    kept, total, largest = 0, 0.0, 0.0
    for c in range(order.shape[0]):
        j = order[c]
        g, x = dot(columns, j, g_model), w[j]
        if x == 0.0:
            far = abs(g) - l1[j]
            if far <= 0.0:
                if far >= -slack[j]:
                    order[kept] = j
                    kept += 1
                continue
        else:
            far = abs(g + l2[j] * x + math.copysign(l1[j], x))
        order[kept] = j
        kept += 1
        total += far
        largest = max(largest, far)
        if H[j] < 0.0:
            H[j] = square(columns, j, D)
        if H[j] + l2[j] == 0.0:
            continue
        w[j] = shrunk(x, g, H[j], l1[j], l2[j])
        move = w[j] - x
        if move != 0.0:
            for k in range(columns.ptr[j], columns.ptr[j + 1]):
                i = columns.idx[k]
                g_model[i] += columns.val[k] * (D[i] * move)
    return kept, total, largest
