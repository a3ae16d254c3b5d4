"""Numerical functions that the losses share: plain functions of floats or arrays, free of warnings.

They keep the precision of their arguments (float32 stays float32) and hold nothing but NumPy arithmetic. The
root finders are Newton's method on a function that is convex or concave on the side of the root where
the search starts: every step then moves towards the root and never past it. That is their safeguard, no
bracket is needed. An element that has converged does not move while others continue, so its digits do not
depend on the array it is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = Any  # a float or a NumPy array of floats

MOST_STEPS = 64  # Newton takes about eight; this ends a last digit that creeps by rounding
_TINY = 1e-37  # positive in float32 too


def inside(ok: Any, value: Floats) -> Floats:
    """`value` where ok, +inf elsewhere: a convex function from its formula and its domain."""
    return np.where(ok, value, np.inf) + 0.0  # the sum turns where's 0-d array into a scalar


def indicator(ok: Any, like: Floats) -> Floats:
    """1 where ok, 0 elsewhere, in the precision of `like`."""
    return np.where(ok, 1.0, 0.0).astype(np.result_type(like))[()]


def clipped(r: Floats, c: Floats) -> Floats:
    """r/c clipped to [-1, 1], for c >= 0; at c = 0 the sign of r, the limit.

    >>> float(clipped(0.3, 0.6)), float(clipped(-5.0, 0.6)), float(clipped(0.0, 0.0))
    (0.5, -1.0, 0.0)
    """
    m = np.maximum(np.abs(r), c)
    return r / np.where(m > 0.0, m, 1.0)


def sigmoid(z: Floats) -> Floats:
    """1/(1 + e^-z), to the last digits in both tails: no exponential of a positive number."""
    return np.exp(np.minimum(z, 0.0)) / (1.0 + np.exp(-np.abs(z)))


def exp_or_inf(p: Floats) -> Floats:
    """e^p, and +inf (without a warning) where p's precision has no number for it."""
    top = np.nextafter(np.log(np.nextafter(np.inf + 0.0 * p, 0.0)), 0.0)  # just under log(largest number)
    return inside(p <= top, np.exp(np.minimum(p, top)))


def times_exp(y: Floats, z: Floats) -> Floats:
    """y e^z for y >= 0: 0 where y = 0, whatever z is, and +inf where e^z has no number."""
    return np.where(y > 0.0, y * exp_or_inf(np.where(y > 0.0, z, 0.0 * z)), 0.0 * y) + 0.0


def xlogx(x: Floats) -> Floats:
    """x log x with 0 log 0 = 0 (and 0 for x < 0, which is outside every domain it is used on)."""
    return x * np.log(np.where(x > 0.0, x, 1.0))


def negative_entropy(t: Floats) -> Floats:
    """t log t + (1 - t) log(1 - t) on [0, 1], +inf elsewhere."""
    return inside((t >= 0.0) & (t <= 1.0), xlogx(t) + (1.0 - t) * np.log1p(-np.where(t < 1.0, t, 0.0)))


def logistic_root(m: Floats, c: Floats) -> Floats:
    """The t in [0, 1] with t = sigmoid(-(m + c t)), for c >= 0.

    With x = m + c t this is the root of g(x) = x - m - c sigmoid(-x), which is concave for x >= 0. A root x
    < 0 is mapped there by t -> 1 - t, x -> -x, m -> -(m + c).

    >>> t = float(logistic_root(-1.0, 4.0))
    >>> round(t, 12) == round(float(sigmoid(1.0 - 4.0 * t)), 12)
    True
    """
    mirrored = m < -0.5 * c
    n = np.where(mirrored, -(m + c), m)
    # sigmoid(-x) >= e^-x / 2, so the root of x - n = (c/2) e^-x, n + W((c/2) e^-n), is not above ours; and
    # W(e^l) >= l - log max(l, 1). From such a start the concave g <= 0 and Newton climbs.
    log_half_c = np.log(0.5 * np.maximum(c, _TINY))
    x = np.maximum(np.maximum(n, 0.0), log_half_c - np.log(np.maximum(log_half_c - n, 1.0)))
    for _ in range(MOST_STEPS):
        s = sigmoid(-x)
        climbed = x + (n + c * s - x) / (1.0 + c * s * (1.0 - s))
        climbs = 1.0 + climbed > 1.0 + x  # t depends on x to a rounding of 1 + x
        if not np.any(climbs):
            break
        x = np.where(climbs, climbed, x) + 0.0
    return sigmoid(np.where(mirrored, x, -x))


def exp_root(b: Floats, c: Floats) -> Floats:
    """The q with q + c e^q = b, for c >= 0.

    With w = q + log c this is w + e^w = r, r = b + log c (e^w is Wright's omega function of r): convex, so Newton
    descends from any start above the root: log r if r > 1, r itself otherwise.

    >>> round(float(exp_root(1.0, 1.0)), 12)
    0.0
    """
    log_c = np.log(np.where(c > 0.0, c, 1.0))
    r = b + log_c
    w = np.where(r > 1.0, np.log(np.maximum(r, 1.0)), r) + 0.0
    for _ in range(MOST_STEPS):
        z = np.exp(w)
        descended = w - (w + z - r) / (1.0 + z)
        if not np.any(descended < w):
            break
        w = np.minimum(w, descended)
    z = np.exp(w)  # = c e^q: whichever of the two differences loses nothing to cancellation
    return np.where(c > 0.0, np.where(z > 1.0, w - log_c, b - z), b) + 0.0


def tweedie_conjugate(a: Floats, y: Floats, power: float) -> Floats:
    """phi*(a, y) of the Tweedie loss, 1 < power < 2.

    With kappa = power - 1, lambda = 2 - power, T = y^lambda and p = log y + d the slope is
    T (e^(lambda d) - e^(-kappa d)). Where a >= 0 it is a for x = e^(lambda d) >= 1 with

        x - x^-k = |a| / T,  k = kappa / lambda,

    and where a < 0 for x = e^(-kappa d) with k = lambda / kappa. The left side is concave in x: Newton climbs from
    below.

    >>> round(float(tweedie_conjugate(0.0, 1.0, 1.5)), 12)
    -4.0
    """
    kappa, lam = power - 1.0, 2.0 - power
    positive = np.where(y > 0.0, y, 1.0 + 0.0 * y)
    T, rising = positive**lam, a >= 0.0
    slope = np.abs(a) / T
    k = np.where(rising, kappa / lam + 0.0 * slope, lam / kappa + 0.0 * slope)
    x = np.maximum(slope, 1.0)
    for _ in range(MOST_STEPS):
        small = x**-k
        climbed = x + (slope + small - x) / (1.0 + k * small / x)
        if not np.any(climbed > x):
            break
        x = np.maximum(x, climbed)
    up, down = np.where(rising, x, x**-k), np.where(rising, x**-k, x)
    at = np.log(positive) + np.where(rising, np.log(x) / lam, -np.log(x) / kappa)
    of_zero = inside(a >= 0.0, (xlogx(a) - a) / lam)
    return np.where(y > 0.0, a * at - T * (up / lam + down / kappa), of_zero) + 0.0


def tweedie_step(p: Floats, y: Floats, c: Floats, power: float) -> Floats:
    """The slope s of the Tweedie loss at p - c s, for c >= 0 and 1 < power <= 2, where 2 is the gamma loss.

    With T = y^(2 - power) and p - c s = log y + d the slope is T (e^(u d) - e^(-v d)), u = 2 - power, v = power - 1;
    for d < 0 the signs are turned and u and v change places. So d >= 0 is the root of

        F(d) = d + C (e^(u d) - e^(-v d)) - D,  C = c T,  D = |p - log y|,

    which is concave up to e^d = (v/u)^2 and convex from there on. If F <= 0 at that point Newton descends to the root
    from above, otherwise it climbs from 0. For y = 0 the slope is e^(u q) with q + c e^(u q) = p.

    >>> s = float(tweedie_step(1.0, 2.0, 3.0, 1.5))
    >>> round(float(np.exp(0.5 * (1.0 - 3.0 * s)) - 2.0 * np.exp(-0.5 * (1.0 - 3.0 * s)) - s), 12) + 0.0
    0.0
    """
    positive = np.where(y > 0.0, y, 1.0 + 0.0 * y)
    T, signed = positive ** (2.0 - power), p - np.log(positive)
    C, D, turned = c * T, np.abs(signed), signed < 0.0
    u = np.where(turned, power - 1.0 + 0.0 * D, 2.0 - power + 0.0 * D)
    v = 1.0 - u
    bend = np.minimum(2.0 * np.log(np.maximum(u, v) / np.maximum(u, _TINY)), D)
    falls = bend + times_exp(C, u * bend) - C * np.exp(-v * bend) <= D
    positive_u = np.where(u > 0.0, u, 1.0)
    above = np.where(u > 0.0, np.minimum(D, exp_root(u * (D + C), u * C) / positive_u), D)
    d = np.where(falls, above, 0.0 * D)
    for _ in range(MOST_STEPS):
        up, down = times_exp(C, u * d), C * np.exp(-v * d)
        moved = d - (d + up - down - D) / (1.0 + u * up + v * down)
        moves = np.where(falls, moved < d, moved > d)
        if not np.any(moves):
            break
        d = np.where(moves, moved, d)
    steep = u * times_exp(C, u * d) + v * C * np.exp(-v * d) > 1.0  # then (D - d)/c loses less than the slope at d
    s = np.where(steep, (D - d) / np.where(c > 0.0, c, 1.0 + 0.0 * c), -times_exp(T, u * d) * np.expm1(-d))
    s = np.where(turned, -s, s)
    if np.any(y == 0.0):
        lam = 2.0 - power
        q = exp_root(lam * p, lam * c) / lam
        steep = times_exp(lam * c, lam * q) > 1.0
        of_zero = np.where(steep, (p - q) / np.where(c > 0.0, c, 1.0 + 0.0 * c), exp_or_inf(lam * q))
        s = np.where(y > 0.0, s, of_zero)
    return s + 0.0


def project_simplex(v: Floats) -> Floats:
    """The nearest point of the unit simplex, along the last axis, by sorting.

    >>> project_simplex(np.array([0.9, 0.5, -1.0])).round(12)
    array([0.7, 0.3, 0. ])
    """
    descending = -np.sort(-v, axis=-1)
    counts = np.arange(1, v.shape[-1] + 1, dtype=v.dtype)
    excess = (np.cumsum(descending, axis=-1) - 1.0) / counts
    # The threshold is the excess of the longest head whose entries all stay above it.
    active = np.sum(descending > excess, axis=-1, keepdims=True)
    return np.maximum(v - np.take_along_axis(excess, active - 1, axis=-1), 0.0)
