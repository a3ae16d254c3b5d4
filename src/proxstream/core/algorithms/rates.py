"""Rates eta_t for the survey's templates: of the round, of each coordinate's gradients, or of their norms.

A rate computes 1/eta_t from the past: the round t, the sums q of squared gradients per coordinate, and the
sum n of squared dual norms. A number is a constant rate; any function of t is one too.

References: McMahan 2017, Figure 1 and sections 3.1 to 3.6.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from .. import validation as _checks
from ..component import component
from ..validation import Array


class Rate(ABC):
    """eta_t, given by its inverse."""

    @abstractmethod
    def inverse(self, t: int, q: Array, n: float) -> float | Array:
        """Return 1/eta_t."""


@component
class Constant(Rate):
    """eta_t = eta: online gradient descent (section 3.1).

    >>> Constant(0.5).inverse(7, np.zeros(2), 0.0)
    2.0
    """

    eta: float

    def __post_init__(self) -> None:
        _checks.set_number(self, "eta", "rate", low=0.0, strict=True)

    def inverse(self, t: int, q: Array, n: float) -> float:
        """Return 1/eta."""
        return 1.0 / self.eta


@component
class SqrtDecay(Rate):
    """eta_t = scale / sqrt(t + offset).

    Dual averaging takes scale = R/(sqrt(2) G) and offset = 1 (section 3.2), FTRL-Proximal scale = sqrt(2) R/G and
    offset = 0 (section 3.3).

    >>> SqrtDecay(1.0, offset=1.0).inverse(3, np.zeros(2), 0.0)
    2.0
    """

    scale: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        _checks.set_number(self, "scale", low=0.0, strict=True)
        _checks.set_number(self, "offset", low=0.0)

    def inverse(self, t: int, q: Array, n: float) -> float:
        """Return sqrt(t + offset) / scale; round 0 has the rate of round 1 where it would have none."""
        return math.sqrt(t + self.offset if t + self.offset > 0.0 else 1.0) / self.scale


@component
class AdaptiveDiagonal(Rate):
    """eta_t,j = scale / sqrt(floor^2 + sum of g_s,j^2): AdaGrad rates, scale = sqrt(2) R (section 3.4).

    >>> AdaptiveDiagonal(2.0).inverse(1, np.array([9.0, 0.0]), 9.0)
    array([1.5, 0. ])
    """

    scale: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        _checks.set_number(self, "scale", low=0.0, strict=True)
        _checks.set_number(self, "floor", low=0.0)

    def inverse(self, t: int, q: Array, n: float) -> Array:
        """Return sqrt(floor^2 + q_j) / scale."""
        return np.sqrt(self.floor**2 + q) / self.scale


@component
class AdaptiveNorm(Rate):
    """eta_t = scale / sqrt(floor^2 + sum of ||g_s||_*^2), one rate for all coordinates.

    With Entropy over n outcomes, scale = sqrt(ln n) and floor the largest |g| to come (section 3.6).

    >>> AdaptiveNorm(1.0, floor=3.0).inverse(1, np.zeros(2), 16.0)
    5.0
    """

    scale: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        _checks.set_number(self, "scale", low=0.0, strict=True)
        _checks.set_number(self, "floor", low=0.0)

    def inverse(self, t: int, q: Array, n: float) -> float:
        """Return sqrt(floor^2 + n) / scale."""
        return math.sqrt(self.floor**2 + n) / self.scale


@component
class OfRound(Rate):
    """eta_t from the user's own function of t (t = 1 for the first gradient); a rate may not rise.

    >>> OfRound(lambda t: 1.0 / t).inverse(4, np.zeros(2), 0.0)
    4.0
    """

    function: Callable[[int], float | Array]

    def inverse(self, t: int, q: Array, n: float) -> float | Array:
        """Return 1 / function(t); round 0, before the first gradient, has the rate of round 1."""
        eta = np.asarray(self.function(max(t, 1)), dtype=np.float64)
        if not (np.isfinite(eta).all() and (eta > 0.0).all()):
            raise ValueError(f"rate must be finite and > 0 in every round, got {eta} at t = {t}")
        return 1.0 / (eta if eta.ndim else float(eta))


def rate_of(value: Rate | float | Callable[[int], float | Array]) -> Rate:
    """Return a Rate from a Rate, a number or a function of t.

    >>> rate_of(0.1)
    Constant(eta=0.1)
    """
    if isinstance(value, Rate):
        return value
    if callable(value):
        return OfRound(value)
    return Constant(value)
