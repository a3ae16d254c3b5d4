"""Prox-SDCA's dual step of one row, by each option of the paper's Figure 1, and its link w = grad g*(v).

Notation as in `_sweep`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.losses import _kernels as kinds
from ...core.losses._kernels import LARGEST_EXPONENT, TUPLES, slope, value
from ...jit.compile import generic, inlined
from .._conjugates import conjugate

SMALLEST = 1e-300  # a probability above 0


class Option(NamedTuple):
    """An option of Figure 1 by its number, with the constants that III, IV and V know."""

    number: int
    gamma: float  # 1 / smoothness of the loss, 0 with kinks
    reach: float  # R^2 / lambda


@generic
def implicit_step(loss, p, y, c):
    """Return the slope s of phi at p - c s."""
    raise NotImplementedError


for _kind, _tuple in TUPLES.items():
    implicit_step.of(_tuple)(_kind.implicit_step)


@generic
def exact(loss, p, y, alpha, c):
    """Return the alpha that maximizes -phi*(-alpha') - alpha' p - (c/2) (alpha' - alpha)^2: Option I."""
    return -implicit_step(loss, p - c * alpha, y, c)


@inlined
def falling(m):
    """Return 1/(1 + e^m); that of -m takes the same exponential, so a row's gap and its step make it once."""
    e = math.exp(-abs(m))
    return (e if m >= 0.0 else 1.0) / (1.0 + e)


@exact.of(kinds.Logistic)
def _(loss, p, y, alpha, c):
    """Solve h(t) = log(t/(1-t)) + m + c (t - t0) = 0 for t = y alpha, by Newton's method.

    A root above 1/2 is mirrored (t -> 1 - t, m -> -m): below, h is concave, and Newton climbs to the root from any
    start under it. The first guess is a step on t - 1/(1 + e^m). Where a step from above falls too deep, s/(1 + c s)
    catches it, s = 1/(1 + e^(m - c t0)), which is under the root (as e^u <= 1/(1 - u) shows).
    """
    m, t0 = y * p, min(max(y * alpha, 0.0), 1.0)
    mirrored = m + c * (0.5 - t0) < 0.0
    if mirrored:
        m, t0 = -m, 1.0 - t0
    s = falling(m)
    t = t0 + (s - t0) / (1.0 + c * max(t0 * (1.0 - t0), s * (1.0 - s)))
    t = min(max(t, SMALLEST), 0.5)
    for _ in range(50):
        inverse = t * (1.0 - t)
        to = t - (math.log(t / (1.0 - t)) + m + c * (t - t0)) * inverse / (1.0 + c * inverse)
        if to < 0.1 * t:
            s = falling(m - c * t0)
            to = max(to, s / (1.0 + c * s), SMALLEST)
        to = min(to, 0.5)
        # What is left after this step is of the order of its square.
        done = abs(to - t) <= 0.01 * abs(to - t0) and abs(to - t) <= 0.03 * to
        t = to
        if done:
            break
    return y * (1.0 - t if mirrored else t)


@exact.of(kinds.Poisson)
def _(loss, p, y, alpha, c):
    """Solve q + c e^q = p + c (y - alpha) =: b for q, where alpha' = y - e^q.

    With z = q + log c this is z + e^z = b + log c: convex, so Newton descends from any start above the root.
    """
    b = p + c * (y - alpha)
    if c == 0.0:
        return y - math.exp(min(b, LARGEST_EXPONENT))
    r = b + math.log(c)
    z = math.log(r) if r > 1.0 else r
    for _ in range(100):
        e = math.exp(z)
        to = z - (z + e - r) / (1.0 + e)
        if not to < z:
            break
        z = to
    # Two names of one number: the second is the accurate one where e^z is large, for q hardly feels it then.
    e = math.exp(z)
    return min(y - (e / c if e < 1.0 else (r - z) / c), y)


@inlined
def local_gap(loss, p, y, alpha):
    """Return phi(p) + phi*(-alpha) + alpha p >= 0, the row's part of the duality gap (proof of Lemma 1)."""
    return max(value(loss, p, y) + conjugate(loss, -alpha, y) + alpha * p, 0.0)


@generic
def rough_gap(loss, p, y, alpha):
    """Return the local gap, or what is near it when it is small and costs less."""
    return local_gap(loss, p, y, alpha)


@rough_gap.of(kinds.Logistic)
def _(loss, p, y, alpha):
    """The relative entropy of t = y alpha to s = 1/(1 + e^m), to second order."""
    t, s = y * alpha, falling(y * p)
    return (t - s) ** 2 / max(t * (1.0 - t) + s * (1.0 - s), SMALLEST)


@inlined
def moved(option, loss, p, y, alpha, c, share):
    """Return the new alpha of a row.

    Options II to V go from alpha towards u = -phi'(p) by a part s of the way, 0 <= s <= 1:

        II   s maximizes the dual; alpha is one number, so Option I's maximizer lies on the way, and s cuts off rounding
        III  s = (local gap + (gamma/2) z^2) / (z^2 (gamma + c)), z = u - alpha, which Lemma 1 proves to gain
        IV   the same with the largest norm of all rows in c
        V    s = gamma / (gamma + R^2 / (lambda n)), the step of Theorem 1, for smooth losses
    """
    if option.number == 1:
        return exact(loss, p, y, alpha, c)
    u = -slope(loss, p, y)
    z = u - alpha
    if z == 0.0:
        return alpha
    if option.number == 2:
        s = (exact(loss, p, y, alpha, c) - alpha) / z
    else:
        reach = c if option.number == 3 else share * option.reach
        bottom = option.gamma + reach
        top = option.gamma
        if option.number < 5:
            top = local_gap(loss, p, y, alpha) / (z * z) + 0.5 * option.gamma
        s = top / bottom if bottom > 0.0 else 1.0
    s = min(max(s, 0.0), 1.0)
    return u if s == 1.0 else alpha + s * z


# -- from v to weights, for each strongly convex penalty -----------------------------------------


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
    """Recompute what the link stores about v."""


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
