"""Balls and the simplex: constraints whose one multiplier couples all coordinates."""

from __future__ import annotations

import numpy as np

from .. import validation as _checks
from ..component import component
from .base import Coupled, Strength
from .coordinate import shrink
from .segments import Segments, Vector, fill, secular_root


class _Radius(Coupled):
    """A constraint with a size."""

    radius: float
    _hard = True

    def _validate(self) -> None:
        self._set("radius", _checks.number("radius", self.radius, low=0.0, strict=True))


@component
class L1Ball(_Radius):
    """A bound on the l1 norm, with exact zeros: Psi(w) = 0 if ||w||_1 <= radius, else infinity.

    Parameters
    ----------
    radius : > 0

    >>> L1Ball(2.0).solve([-6.0, 4.0, 1.0], h=2.0)
    array([ 1.5, -0.5,  0. ])

    Reference: Duchi, Hazan and Singer (2011), section 6.3, with the early return at <a, v> <= c.
    """

    radius: float = 1.0

    def _value(self, w: Vector, slack: float) -> float:
        return 0.0 if np.abs(w).sum() <= self.radius * (1.0 + slack) else np.inf

    def _magnitudes(self, a: Vector, h: Vector, k: float) -> Vector:
        free = np.asarray(shrink(a, h))
        if free.sum() <= self.radius:
            return free
        # Inside the active ball the multiplier is > 0, so a coordinate without pull stays at 0.
        return np.where(a > 0.0, fill(a.ravel(), h.ravel(), self.radius).reshape(a.shape), 0.0)


@component
class L2Ball(_Radius):
    """A bound on the l2 norm: Psi(w) = 0 if ||w||_2 <= radius, else infinity.

    Parameters
    ----------
    radius : > 0

    >>> L2Ball(1.0).solve([-6.0, 8.0], h=2.0)
    array([ 0.6, -0.8])

    Reference: Xiao (2010), eq. 9; the root is that of Duchi, Hazan and Singer (2011), section 6.4.
    """

    radius: float = 1.0
    _round = True

    def _value(self, w: Vector, slack: float) -> float:
        return 0.0 if _norm(w) <= self.radius * (1.0 + slack) else np.inf

    def _magnitudes(self, a: Vector, h: Vector, k: float) -> Vector:
        free = np.asarray(shrink(a, h))
        if _norm(free) <= self.radius:
            return free
        # x = a / (h + z) with the multiplier z >= 0 for which ||x|| = radius.
        r = np.full(a.size, self.radius)
        z = secular_root(a.ravel(), r * h.ravel(), r, Segments.even(1, a.size))
        return np.asarray(shrink(a, h + z))


@component
class Simplex(_Radius):
    """Non-negative weights of a given sum: Psi(w) = 0 if w >= 0 and sum_j w_j = radius, else infinity.

    Parameters
    ----------
    radius : the sum, > 0

    >>> Simplex().solve([-1.0, -0.5, 2.0], h=1.0)
    array([0.75, 0.25, 0.  ])

    Reference: Duchi, Hazan and Singer (2011), Figure 3, with the constraint as an equality.
    """

    radius: float = 1.0

    def _value(self, w: Vector, slack: float) -> float:
        off = max(float(-w.min()), abs(float(w.sum()) - self.radius))
        return 0.0 if off <= self.radius * slack else np.inf

    def _solve(self, u: Vector, h: Vector, k: float, t: Strength, *, nonnegative: bool) -> Vector:
        """Solve with signs. Where x >= 0 an l1 term is linear, and of that only differences matter here."""
        return fill((-u - (t - np.min(t))).ravel(), h.ravel(), self.radius).reshape(u.shape)


def _norm(x: Vector) -> float:
    return float(Segments.even(1, x.size).norm(x.ravel())[0])
