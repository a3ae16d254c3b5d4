"""A loss to second order: phi, phi' and phi'' of a prediction in one go, so that an exponential is taken once.

Losses that bend almost everywhere have one body each. Where a second derivative jumps (squared hinge, Huber) any value
between its two sides makes a generalized Newton method; the bodies say which they take.
"""

from __future__ import annotations

import math
from typing import Any

from .jit import generic
from .losses import Huber, Logistic, Poisson, SmoothedHinge, Squared, SquaredHinge

LARGEST_EXPONENT = 700.0


@generic
def taylor(loss: Any, p: float, y: float) -> tuple[float, float, float]:
    """Return phi(p, y) and its first and second derivative in p."""
    raise NotImplementedError


@taylor.of(Logistic)
def _(loss, p, y):
    m = y * p
    e = math.exp(-abs(m))
    q = 1.0 / (1.0 + e)
    return math.log1p(e) + max(-m, 0.0), -y * (q * e if m > 0.0 else q), q * q * e


@taylor.of(Squared)
def _(loss, p, y):
    r = p - y
    return 0.5 * r * r, r, 1.0


@taylor.of(SquaredHinge)
def _(loss, p, y):
    d = 1.0 - y * p
    if d <= 0.0:
        return 0.0, 0.0, 0.0
    return d * d, -2.0 * y * d, 2.0


@taylor.of(SmoothedHinge)
def _(loss, p, y):
    d = 1.0 - y * p
    if d <= 0.0:
        return 0.0, 0.0, 0.0
    if d < loss.gamma:
        return 0.5 * d * d / loss.gamma, -y * d / loss.gamma, 1.0 / loss.gamma
    return d - 0.5 * loss.gamma, -y, 0.0


@taylor.of(Huber)
def _(loss, p, y):
    r = p - y
    if abs(r) <= loss.delta:
        return 0.5 * r * r, r, 1.0
    return loss.delta * (abs(r) - 0.5 * loss.delta), math.copysign(loss.delta, r), 0.0


@taylor.of(Poisson)
def _(loss, p, y):
    if p > LARGEST_EXPONENT:
        return math.inf, math.inf, math.inf
    e = math.exp(p)
    return e - y * p, e - y, e
