"""The few numerical pieces the losses share: plain functions of floats or arrays, free of warnings.

They keep the precision of what comes in (float32 stays float32) and hold nothing but NumPy arithmetic. The
two root finders are Newton's method on a function that is convex or concave on the side of the root where
the search starts: every step then moves towards the root and never past it. That is their safeguard, no
bracket is needed. An element that has arrived stays put while others go on, so its digits do not depend on
the array it came in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = Any  # a float or a NumPy array of floats

MOST_STEPS = 64  # Newton takes about eight; rounding could make the last digit creep, this ends it
_TINY = 1e-37  # positive in float32 too


def inside(ok: Any, value: Floats) -> Floats:
    """`value` where ok, +inf elsewhere: a convex function from its formula and its domain."""
    return np.where(ok, value, np.inf) + 0.0  # the sum turns where's 0-d array into a scalar


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
        climbs = 1.0 + climbed > 1.0 + x  # t feels x to a rounding of 1 + x
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
