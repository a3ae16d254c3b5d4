"""From v to weights, w = grad g*(v), for each strongly convex penalty of Prox-SDCA; notation as in `sdca`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .jit import generic, inlined


class Ridge(NamedTuple):
    """One strength of squares: w = v / l2."""

    inverse: float


class Net(NamedTuple):
    """One l1 and one l2: w = soft(v, l1) / l2."""

    l1: float
    inverse: float


class Nets(NamedTuple):
    """An l1 and an l2 for each feature."""

    l1: Any
    inverse: Any


class QNorm(NamedTuple):
    """One l1 and a squared q-norm, (lam kappa / 2) ||w||_q^2; p = q/(q - 1) is the dual exponent (eqs. 9 to 11).

    With u = (|v| - l1)+ the weights are w_j = sign(v_j) u_j^(p-1) ||u||_p^(2-p) / (lam kappa). `sums` holds a unit r
    and S = sum_j (u_j / r)^p, which every push keeps up to date.
    """

    l1: float
    inverse: float  # 1 / (lam kappa)
    p: float
    inverse_lam: float
    sums: Any


ONE, TWO, THREE, FOUR = (np.uint64(k) for k in (1, 2, 3, 4))


@inlined
def soft(v, l1):
    """Return v brought nearer to 0 by l1, and not past it."""
    return max(v - l1, 0.0) + min(v + l1, 0.0)


@generic
def weight(link, v, j):
    """Return w_j = grad_j g*(v)."""
    return v[j] * link.inverse


@weight.of(Net)
def _(link, v, j):
    return soft(v[j], link.l1) * link.inverse


@weight.of(Nets)
def _(link, v, j):
    return soft(v[j], link.l1[j]) * link.inverse[j]


@weight.of(QNorm)
def _(link, v, j):
    u = abs(v[j]) - link.l1
    if u <= 0.0:
        return 0.0
    u /= link.sums[0]
    total = max(link.sums[1], u**link.p)  # rounding may have eaten into the sum
    return math.copysign(link.sums[0] * link.inverse * total ** ((2.0 - link.p) / link.p) * u ** (link.p - 1.0), v[j])


@generic
def push(link, v, j, change):
    """Change v_j."""
    v[j] += change


@push.of(QNorm)
def _(link, v, j, change):
    before, after = abs(v[j]) - link.l1, abs(v[j] + change) - link.l1
    v[j] += change
    if before > 0.0:
        link.sums[1] -= (before / link.sums[0]) ** link.p
    if after > 0.0:
        link.sums[1] += (after / link.sums[0]) ** link.p


@generic
def refresh(link, v):
    """Compute afresh what the link keeps about v."""


@refresh.of(QNorm)
def _(link, v):
    largest = 0.0
    for j in range(v.shape[0]):
        largest = max(largest, abs(v[j]) - link.l1)
    link.sums[0] = largest if largest > 0.0 else 1.0
    link.sums[1] = 0.0
    for j in range(v.shape[0]):
        if abs(v[j]) > link.l1:
            link.sums[1] += ((abs(v[j]) - link.l1) / link.sums[0]) ** link.p


@generic
def squared_norm(link, indices, data, first, last):
    """Return ||x_i||^2 / lambda, in the norm that the strongly convex part is dual to."""
    total = 0.0
    for q in range(first, last):
        total += np.float64(data[q]) ** 2
    return total * link.inverse


@squared_norm.of(Nets)
def _(link, indices, data, first, last):
    total = 0.0
    for q in range(first, last):
        total += np.float64(data[q]) ** 2 * link.inverse[indices[q]]
    return total


@squared_norm.of(QNorm)
def _(link, indices, data, first, last):
    largest = 0.0
    for q in range(first, last):
        largest = max(largest, abs(np.float64(data[q])))
    return largest * largest * link.inverse_lam


@generic
def dot(link, v, indices, data, first, last):
    """Return <x, w> of cells first to last (unsigned numbers), in four strands that need not wait for each other."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    q, whole = first, first + (last - first) // FOUR * FOUR
    while q < whole:
        a += weight(link, v, indices[q]) * data[q]
        b += weight(link, v, indices[q + ONE]) * data[q + ONE]
        c += weight(link, v, indices[q + TWO]) * data[q + TWO]
        d += weight(link, v, indices[q + THREE]) * data[q + THREE]
        q += FOUR
    while q < last:
        a += weight(link, v, indices[q]) * data[q]
        q += ONE
    return (a + b) + (c + d)


@dot.of(Ridge)
def _(link, v, indices, data, first, last):
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    q, whole = first, first + (last - first) // FOUR * FOUR
    while q < whole:
        a += v[indices[q]] * data[q]
        b += v[indices[q + ONE]] * data[q + ONE]
        c += v[indices[q + TWO]] * data[q + TWO]
        d += v[indices[q + THREE]] * data[q + THREE]
        q += FOUR
    while q < last:
        a += v[indices[q]] * data[q]
        q += ONE
    return ((a + b) + (c + d)) * link.inverse
