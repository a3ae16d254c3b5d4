"""Proximal Newton steps for mean loss + l1 + l2: the loops over columns, over rows, and along a line.

    z_i      <x_i, w> + b                        p_i   share of row i
    theta_i  p_i phi'(z_i)                       D_i   p_i phi''(z_i)
    u        the weights that a step tries       v     X (u - w)
    l1, l2   strengths, one per column           G     X' theta

A step minimizes the quadratic model of the loss plus the penalty,

    q(u) = <theta, v> + (1/2) sum_i D_i v_i^2 + sum_j l1_j |u_j| + (l2_j/2) u_j^2                           (1)

The model's slope in u_j is <x_j, r> + l2_j u_j with r = theta + D v, give or take l1_j: r is kept in place of v, so
that a coordinate costs one read of its column, and a second pass over it if the weight moves. With the Gram matrix of a
few columns at hand, coordinate passes keep q = g + H (u - w) instead and read one row of H per moved weight.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.validation import Array
from ...jit.compile import compiled, inlined
from .._conjugates import conjugate
from ._csc import dot, square

INWARD = 1.0 - 4e-16  # keeps a slope that was rounded inside the domain of phi*, which holds 0


@compiled
def dual_loss(loss, theta, s, y, p, first, last):
    """Return -sum_i p_i phi*(s theta_i / p_i, y_i) over rows first to last."""
    total = 0.0
    for i in range(first, last):
        if p[i] > 0.0:
            total -= p[i] * conjugate(loss, INWARD * s * theta[i] / p[i], y[i])
    return total


@compiled
def penalty(w, l1, l2):
    """Return sum_j l1_j |w_j| + (l2_j/2) w_j^2."""
    total = 0.0
    for j in range(w.shape[0]):
        if w[j] != 0.0:
            total += l1[j] * abs(w[j]) + 0.5 * l2[j] * w[j] * w[j]
    return total


@compiled
def limit(G, chosen, l1, l2):
    """Return the largest s with s |G_j| <= l1_j wherever l2_j = 0 < l1_j, for G = X' theta and the chosen columns."""
    s = np.inf
    for j in chosen:
        if l2[j] == 0.0 and l1[j] > 0.0 and s * abs(G[j]) > l1[j]:
            s = l1[j] / abs(G[j])
    return s


@compiled
def beyond(G, chosen, s, l1, l2):
    """Return sum_j (s |G_j| - l1_j)+^2 / (2 l2_j) over the chosen columns with l2_j > 0."""
    total = 0.0
    for j in chosen:
        if l2[j] > 0.0:
            over = max(s * abs(G[j]) - l1[j], 0.0)
            total += over * (over / l2[j])
    return 0.5 * total


@compiled
def excess(G, chosen, x, l1, l2, out):
    """Write how far G_j is beyond -(l2_j x_j +- l1_j), 0 where it is between; return the columns where it is not 0."""
    found, k = chosen.copy(), 0
    for j in chosen:
        out[j] = G[j] - min(max(G[j], -l1[j]), l1[j]) + l2[j] * x[j]
        if abs(out[j]) > 1e-14 * l1[j]:
            found[k] = j
            k += 1
    return found[:k].copy()


@compiled
def not_ruled_out(G, chosen, w, q, s, radius, l1):
    """Return the chosen columns that have a weight, or s |G_j| + q_j radius >= l1_j."""
    kept, found = np.empty_like(chosen), 0
    for j in chosen:
        if w[j] != 0.0 or s * abs(G[j]) + q[j] * radius >= l1[j]:
            kept[found] = j
            found += 1
    return kept[:found].copy()


@compiled
def above(G, w, inside, part, l1):
    """Return the features that are not inside and have a weight or |G_j| > part l1_j."""
    found = np.empty(l1.shape[0], np.int64)
    k = 0
    for j in range(l1.shape[0]):
        if not inside[j] and (abs(G[j]) > part * l1[j] or w[j] != 0.0):
            found[k] = j
            k += 1
    return found[:k].copy()


@inlined
def shrunk(x, g, h, l1, l2):
    """Return the minimizer over u of g u + (h/2) (u - x)^2 + l1 |u| + (l2/2) u^2."""
    u = h * x - g
    return (u - min(max(u, -l1), l1)) / (h + l2)


@inlined
def violation(u, g, l1, l2):
    """Return how far 0 is from the slopes of the model at u, where the loss has slope g."""
    if u == 0.0:
        return max(abs(g) - l1, 0.0)
    return abs(g + l2 * u + math.copysign(l1, u))


@compiled
def violations(chosen, w, G, l1, l2, out):
    """Write the violation of each chosen column, in their order."""
    for k in range(chosen.shape[0]):
        j = chosen[k]
        out[k] = violation(w[j], G[j], l1[j], l2[j])


@compiled
def sweep(columns, order, r, D, H, u, l1, l2, most, slack):
    """Go once over the columns in this order and move each weight to where the model is lowest along it.

    No weight moves further than most[j]. H holds curvatures sum_i D_i x_ij^2; a negative one is not known yet. A weight
    that rests at 0, with a slope further than `slack` inside its threshold, leaves the list. Return how many stay (they
    are moved to the front), the sum of the violations met and the largest, and the entries of columns that were read.
    """
    ptr, idx, val = columns.ptr, columns.idx, columns.val
    kept, total, largest, entries = 0, 0.0, 0.0, 0
    for c in range(order.shape[0]):
        j = order[c]
        first, last = ptr[j], ptr[j + 1]
        g, x = dot(idx, val, first, last, r), u[j]
        entries += last - first
        if x == 0.0 and abs(g) <= l1[j]:
            if abs(g) >= l1[j] - slack:
                order[kept] = j
                kept += 1
            continue
        order[kept] = j
        kept += 1
        far = violation(x, g, l1[j], l2[j])
        total += far
        largest = max(largest, far)
        if H[j] < 0.0:
            H[j] = square(idx, val, first, last, D)
        if H[j] + l2[j] == 0.0:
            continue
        u[j] = min(max(shrunk(x, g, H[j], l1[j], l2[j]), x - most[j]), x + most[j])
        move = u[j] - x
        if move != 0.0:
            entries += last - first
            for k in range(np.uint64(first), np.uint64(last)):
                i = idx[k]
                r[i] += val[k] * (D[i] * move)
    return kept, total, largest, entries


def lowest(u: Array, d: Array, slope: float, curvature: float, l1: Array) -> tuple[float, int]:
    """Return the t in [0, 1] that minimizes q(u + t d), and which weight is 0 there (-1: none need be).

    `slope` is that of q at t = 0 towards d, `curvature` its second derivative without kinks. The slope jumps by
    2 l1_k |d_k| where u_k + t d_k passes through 0; between these t it is straight.
    """
    crossing = np.divide(-u, d, out=np.full(len(u), np.inf), where=u * d < 0.0)
    return lowest_crossing(crossing, np.argsort(crossing, kind="stable"), d, slope, curvature, l1)


@compiled
def lowest_crossing(crossing, order, d, slope, curvature, l1):
    """Return what `lowest` does; the slope jumps at each crossing, in this order."""
    for k in order:
        t = crossing[k]
        if t >= 1.0:
            break
        if slope + curvature * t >= 0.0:
            return min(-slope / curvature, t) if slope < 0.0 else 0.0, -1
        slope += 2.0 * l1[k] * abs(d[k])
        if slope + curvature * t >= 0.0:
            return t, k
    if slope >= 0.0:
        return 0.0, -1
    return min(-slope / curvature, 1.0) if curvature > 0.0 else 1.0, -1


# -- through a Gram matrix H = X_S' D X_S --------------------------------------------------------


@compiled
def add_gram(columns, chosen, X, c, places, H):
    """Add sum_i c_i x_ij x_ik to H_jk and H_kj for each of the given places j and all k <= j.

    `chosen` are columns, X the same by rows. One column's products with those before it are summed up side by side,
    in a vector that stays near the processor, which all of H would not.
    """
    ptr, idx, val = columns.ptr, columns.idx, columns.val
    indptr, indices, data = X.indptr, X.indices, X.data
    sums = np.zeros(chosen.shape[0])
    for j in places:
        sums[: j + 1] = 0.0
        for k in range(np.uint64(ptr[chosen[j]]), np.uint64(ptr[chosen[j] + 1])):
            i = idx[k]
            x = c[i] * val[k]
            if x != 0.0:
                q, end = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint32(1)])
                while q < end and indices[q] <= j:
                    sums[indices[q]] += x * data[q]
                    q += np.uint64(1)
        for k in range(j):
            H[j, k] += sums[k]
            H[k, j] = H[j, k]
        H[j, j] += sums[j]


@compiled
def gram_passes(H, diagonal, q, u, l1, l2, enough, most):
    """Go over the coordinates up to `most` times, until a pass meets violations of `enough`; return their sum."""
    total = 0.0
    for _ in range(most):
        total = 0.0
        for j in range(u.shape[0]):
            x = u[j]
            if x == 0.0 and abs(q[j]) <= l1[j]:
                continue
            total += violation(x, q[j], l1[j], l2[j])
            h = diagonal[j]
            if h + l2[j] == 0.0:
                continue
            u[j] = shrunk(x, q[j], h, l1[j], l2[j])
            move = u[j] - x
            if move != 0.0:
                row = H[j]
                for k in range(u.shape[0]):
                    q[k] += move * row[k]
                q[j] += move * (h - row[j])
        if total <= enough:
            break
    return total
