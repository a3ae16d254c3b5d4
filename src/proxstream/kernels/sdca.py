"""Prox-SDCA, one output: rows in some order, each moving its own dual variable.

    here            the paper                                    what it is
    alpha_i         alpha_i                                      dual variable of row i
    v               lambda v = (1/n) sum_i x_i alpha_i           sum_i p_i alpha_i x_i, the pull on the weights
    weight(link)    grad g*(v)                                   w_j = soft(v_j, l1_j) / l2_j
    c_i             ||x_i||^2 / (lambda n)                       p_i sum_j x_ij^2 / l2_j, curvature of the row's step
    reach           R^2 / (lambda n)                             the same with the largest norm of all rows
    gamma           gamma                                        1 / smoothness of the loss, 0 with kinks

A row's share p_i stands where the paper has 1/n. An intercept is a feature of value 1 whose strength mu is not in the
objective: b = center + (1/mu) sum_i p_i alpha_i. Between passes the solver moves the center to b, which is the method
of multipliers for the dual's constraint sum_i p_i alpha_i = 0; 1/mu = 0 holds b where it is.

Equations and options are those of S. Shalev-Shwartz, T. Zhang, Proximal stochastic dual coordinate ascent, 2012.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from . import losses as kinds
from .conjugates import conjugate
from .jit import compiled, generic
from .losses import LARGEST_EXPONENT, TUPLES, slope, value

SMALLEST = 1e-300  # a probability above 0


# -- what varies: options and links --------------------------------------------------------------


class OptionI(NamedTuple):
    """Maximize the dual over the row's variable."""


class OptionII(NamedTuple):
    """Maximize the dual between the variable and minus the slope."""


class OptionIII(NamedTuple):
    """The step towards minus the slope that Lemma 1 proves."""

    gamma: float


class OptionIV(NamedTuple):
    """Option III with the largest norm of all rows."""

    gamma: float
    reach: float  # R^2 / lambda


class OptionV(NamedTuple):
    """The step of Theorem 1, the same for all rows."""

    gamma: float
    reach: float


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


class Parts(NamedTuple):
    """The components of a solver."""

    loss: Any
    option: Any
    link: Any


class State(NamedTuple):
    """Dual variables, their pull, the rows' curvatures, and the intercept's (sum_i p_i alpha_i, center, 1/mu).

    For the mean of all alphas played: each row's sum so far, when it was last brought up to date, and the clock; empty
    where it is not wanted.
    """

    alpha: Any
    v: Any
    curvature: Any
    bias: Any
    sums: Any
    since: Any
    clock: Any


@register_jitable
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


@generic
def dot(link, v, rows, i):
    """Return <x_i, w>, in four strands that need not wait for each other."""
    first, last = rows.indptr[i], rows.indptr[i + 1]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = first + (last - first) // 4 * 4
    for q in range(first, whole, 4):
        a += weight(link, v, rows.indices[q]) * rows.data[q]
        b += weight(link, v, rows.indices[q + 1]) * rows.data[q + 1]
        c += weight(link, v, rows.indices[q + 2]) * rows.data[q + 2]
        d += weight(link, v, rows.indices[q + 3]) * rows.data[q + 3]
    for q in range(whole, last):
        a += weight(link, v, rows.indices[q]) * rows.data[q]
    return (a + b) + (c + d)


@dot.of(Ridge)
def _(link, v, rows, i):
    first, last = rows.indptr[i], rows.indptr[i + 1]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = first + (last - first) // 4 * 4
    for q in range(first, whole, 4):
        a += v[rows.indices[q]] * rows.data[q]
        b += v[rows.indices[q + 1]] * rows.data[q + 1]
        c += v[rows.indices[q + 2]] * rows.data[q + 2]
        d += v[rows.indices[q + 3]] * rows.data[q + 3]
    for q in range(whole, last):
        a += v[rows.indices[q]] * rows.data[q]
    return ((a + b) + (c + d)) * link.inverse


# -- one row -------------------------------------------------------------------------------------


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
    s = 1.0 / (1.0 + math.exp(min(m, LARGEST_EXPONENT)))
    t = t0 + (s - t0) / (1.0 + c * max(t0 * (1.0 - t0), s * (1.0 - s)))
    t = min(max(t, SMALLEST), 0.5)
    for _ in range(50):
        inverse = t * (1.0 - t)
        to = t - (math.log(t / (1.0 - t)) + m + c * (t - t0)) * inverse / (1.0 + c * inverse)
        if to < 0.1 * t:
            s = 1.0 / (1.0 + math.exp(min(m - c * t0, LARGEST_EXPONENT)))
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


@register_jitable
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
    t, s = y * alpha, 1.0 / (1.0 + math.exp(min(y * p, 700.0)))
    return (t - s) ** 2 / (t * (1.0 - t) + s * (1.0 - s))


@generic
def moved(option, loss, p, y, alpha, c, share):
    """Return the new alpha of a row."""
    return exact(loss, p, y, alpha, c)


@moved.of(OptionII)
def _(option, loss, p, y, alpha, c, share):
    # The segment from alpha to u holds the maximizer of Option I whenever alpha is one number; s cuts off rounding.
    u = -slope(loss, p, y)
    z = u - alpha
    s = (exact(loss, p, y, alpha, c) - alpha) / z if z != 0.0 else 0.0
    return alpha + min(max(s, 0.0), 1.0) * z


@register_jitable
def proved(loss, p, y, alpha, c, gamma):
    """Return Option III's new alpha with c in the place of ||x||^2 / (lambda n), s clipped to [0, 1]."""
    u = -slope(loss, p, y)
    z2 = (u - alpha) ** 2
    bottom = z2 * (gamma + c)
    s = (local_gap(loss, p, y, alpha) + 0.5 * gamma * z2) / bottom if bottom > 0.0 else float(z2 > 0.0)
    s = min(s, 1.0)
    return u if s == 1.0 else alpha + s * (u - alpha)


@moved.of(OptionIII)
def _(option, loss, p, y, alpha, c, share):
    return proved(loss, p, y, alpha, c, option.gamma)


@moved.of(OptionIV)
def _(option, loss, p, y, alpha, c, share):
    return proved(loss, p, y, alpha, share * option.reach, option.gamma)


@moved.of(OptionV)
def _(option, loss, p, y, alpha, c, share):
    s = option.gamma / (share * option.reach + option.gamma)
    return alpha + s * (-slope(loss, p, y) - alpha)


# -- a pass --------------------------------------------------------------------------------------


@compiled
def sweep(parts, rows, state, order, total, skip):
    """Move the rows in this order; `total` is the sum of all rows' weights.

    Return the sum of their local gaps, each as it was met, and how many rows have one above `skip`: those are brought
    to the front of `order`, for a next sweep that leaves the others out.
    """
    alpha, v, bias = state.alpha, state.v, state.bias
    estimate, kept = 0.0, 0
    averaged = state.sums.shape[0] > 0
    b = bias[1] + bias[0] * bias[2]
    for t in range(order.shape[0]):
        i = order[t]
        share = (rows.c[i] if rows.c.shape[0] else 1.0) / total
        if share == 0.0:
            continue
        y, a = rows.y[i], alpha[i]
        p = dot(parts.link, v, rows, i) + b
        gap = rough_gap(parts.loss, p, y, a)
        estimate += share * gap
        to = moved(parts.option, parts.loss, p, y, a, state.curvature[i], share)
        if to != a:
            if averaged:
                state.sums[i] += a * (state.clock[0] + t + 1 - state.since[i])
                state.since[i] = state.clock[0] + t + 1
            alpha[i] = to
            move = share * (to - a)
            for q in range(rows.indptr[i], rows.indptr[i + 1]):
                v[rows.indices[q]] += move * rows.data[q]
            bias[0] += move
            b = bias[1] + bias[0] * bias[2]
        if gap > skip:
            order[t] = order[kept]
            order[kept] = i
            kept += 1
    state.clock[0] += order.shape[0]
    return estimate, kept


# -- a certificate -------------------------------------------------------------------------------


@compiled
def combine(rows, alpha, sides, total, v):
    """Add sum_i p_i f_i alpha_i x_i to v, f_i = sides[0] for positive alphas and sides[1] for negative ones."""
    for i in range(alpha.shape[0]):
        a = alpha[i] * (sides[0] if alpha[i] > 0.0 else sides[1]) * ((rows.c[i] if rows.c.shape[0] else 1.0) / total)
        if a != 0.0:
            for q in range(rows.indptr[i], rows.indptr[i + 1]):
                v[rows.indices[q]] += a * rows.data[q]


@compiled
def measure(loss, rows, w, shifts, alpha, sides, total, out):
    """Add the mean losses at scores <x, w> + each shift to out, to its last entry the mean of phi*(-f_i alpha_i)."""
    link, last = Ridge(1.0), shifts.shape[0]
    for i in range(alpha.shape[0]):
        share = (rows.c[i] if rows.c.shape[0] else 1.0) / total
        if share == 0.0:
            continue
        score = dot(link, w, rows, i)
        for k in range(last):
            out[k] += share * value(loss, score + shifts[k], rows.y[i])
        a = alpha[i] * (sides[0] if alpha[i] > 0.0 else sides[1])
        out[last] += share * conjugate(loss, -a, rows.y[i])


@compiled
def means(state, out):
    """Write the mean of all alphas since the sums began."""
    for i in range(out.shape[0]):
        out[i] = (state.sums[i] + state.alpha[i] * (state.clock[0] - state.since[i])) / max(state.clock[0], 1)


# -- orders of rows ------------------------------------------------------------------------------


@compiled
def shuffle(order, seed):
    """Bring the numbers into a random order; `seed` (one uint64) moves on."""
    for t in range(order.shape[0] - 1, 0, -1):
        k = np.int64(draw(seed) % np.uint64(t + 1))
        order[t], order[k] = order[k], order[t]


@compiled
def sample(order, n, seed):
    """Fill order with numbers below n, each drawn on its own."""
    for t in range(order.shape[0]):
        order[t] = draw(seed) % np.uint64(n)


@register_jitable
def draw(seed):
    """Return the next of a sequence of 64-bit numbers (splitmix64)."""
    seed[0] += np.uint64(0x9E3779B97F4A7C15)
    z = seed[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def curvatures(rows, link, total, extra, out):
    """Write c_i = p_i (sum_j x_ij^2 / l2_j + extra) and return the largest of these without p_i."""
    largest = 0.0
    for i in range(out.shape[0]):
        norm = extra
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            norm += np.float64(rows.data[q]) ** 2 * inverse_at(link, rows.indices[q])
        largest = max(largest, norm)
        out[i] = (rows.c[i] if rows.c.shape[0] else 1.0) / total * norm
    return largest


@generic
def inverse_at(link, j):
    """Return 1 / l2_j."""
    return link.inverse


@inverse_at.of(Nets)
def _(link, j):
    return link.inverse[j]


@compiled
def weights(link, v, out):
    """Write w = grad g*(v)."""
    for j in range(v.shape[0]):
        out[j] = weight(link, v, j)
