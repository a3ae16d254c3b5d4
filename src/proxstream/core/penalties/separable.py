"""Penalties and constraints that act on each coordinate alone.

Each class states its terms (see base.py) and its value and slope; the solver of one coordinate does the rest.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import validation as _checks
from ..component import component
from .base import Penalty, Strength, Terms, frozen, spread, strength
from .segments import Vector


@component
class NoPenalty(Penalty):
    """No penalty and no constraint: Psi(w) = 0.

    >>> NoPenalty().solve([2.0, -1.0], 2.0)
    array([-1. ,  0.5])

    Reference: McMahan (2017), section 3, where follow-the-regularized-leader starts without composite terms.
    """

    _role = "light"
    _hard = True
    _round = True

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """None."""
        return Terms()

    def _value(self, w: Vector, slack: float) -> float:
        return 0.0


@component
class L1(Penalty):
    """The l1 norm, which makes weights exactly zero: Psi(w) = sum_j lam_j |w_j|.

    Parameters
    ----------
    lam : strength >= 0, a number or one per coordinate

    >>> L1(1.0).solve([3.0, -0.5, -2.0], h=2.0)
    array([-1. ,  0. ,  0.5])

    Reference: Xiao (2010), eq. 10; Duchi, Hazan and Singer (2011), section 6.1.
    """

    lam: Strength = 1.0
    _role = "light"
    _strengths = ("lam",)

    def _validate(self) -> None:
        self._set("lam", strength("lam", self.lam))

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """l1 = lam."""
        return Terms(l1=spread(self.lam, shape))

    def _value(self, w: Vector, slack: float) -> float:
        return float(np.sum(spread(self.lam, w.shape) * np.abs(w)))

    def _subgradient(self, w: Vector) -> Vector:
        return np.asarray(spread(self.lam, w.shape) * np.sign(w))


@component
class L2(Penalty):
    """The squared l2 norm, which is strongly convex: Psi(w) = (1/2) sum_j lam_j w_j^2.

    Parameters
    ----------
    lam : strength >= 0, a number or one per coordinate

    >>> L2(3.0).solve([-4.0, 2.0], h=1.0)
    array([ 1. , -0.5])

    Reference: Xiao (2010), section 2.2; Duchi, Hazan and Singer (2011), section 6.2.
    """

    lam: Strength = 1.0
    _role = "light"
    _strengths = ("lam",)

    def _validate(self) -> None:
        self._set("lam", strength("lam", self.lam))

    @property
    def _round(self) -> bool:  # type: ignore[override]
        return bool(np.ndim(self.lam) == 0)

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """l2 = lam."""
        return Terms(l2=spread(self.lam, shape))

    def _value(self, w: Vector, slack: float) -> float:
        return 0.5 * float(np.sum(spread(self.lam, w.shape) * w * w))

    def _subgradient(self, w: Vector) -> Vector:
        return np.asarray(spread(self.lam, w.shape) * w)


@component
class ElasticNet(Penalty):
    """The l1 norm and the squared l2 norm together: Psi(w) = sum_j l1_j |w_j| + (1/2) sum_j l2_j w_j^2.

    Parameters
    ----------
    l1 : strength >= 0 of the absolute values, a number or one per coordinate
    l2 : strength >= 0 of the squares, likewise

    >>> ElasticNet(l1=1.0, l2=1.0).solve([3.0, -0.5], h=1.0)
    array([-1.,  0.])

    Reference: Xiao (2010), section 2.2, mixed regularization.
    """

    l1: Strength = 1.0
    l2: Strength = 1.0
    _role = "light"
    _strengths = ("l1", "l2")

    def _validate(self) -> None:
        self._set("l1", strength("l1", self.l1))
        self._set("l2", strength("l2", self.l2))

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """l1 and l2."""
        return Terms(l1=spread(self.l1, shape), l2=spread(self.l2, shape))

    def _value(self, w: Vector, slack: float) -> float:
        terms = self.terms(w.shape)
        return float(np.sum((terms.l1 + 0.5 * terms.l2 * np.abs(w)) * np.abs(w)))

    def _subgradient(self, w: Vector) -> Vector:
        terms = self.terms(w.shape)
        return np.asarray(terms.l1 * np.sign(w) + terms.l2 * w)


@component
class Berhu(Penalty):
    """The reverse Huber function, an l1 norm for small weights and a square for large ones.

    Psi(w) = lam sum_j B(w_j), B(w) = |w| if |w| <= delta, else (w^2 + delta^2) / (2 delta).

    Parameters
    ----------
    lam : strength >= 0
    delta : where the square takes over, > 0

    >>> Berhu(lam=1.0, delta=0.5).solve([0.5, -1.25, -6.0], h=2.0)
    array([0.   , 0.125, 1.5  ])

    Reference: Xiao (2010), section 2.1 names it; Owen (2007), A robust hybrid of lasso and ridge regression.
    """

    lam: float = 1.0
    delta: float = 1.0
    _role = "separable"
    _strengths = ("lam",)

    def _validate(self) -> None:
        self._set("lam", _checks.number("lam", self.lam, low=0.0))
        self._set("delta", _checks.number("delta", self.delta, low=0.0, strict=True))

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """One bend."""
        return Terms(bends=((self.lam, self.delta),))

    def _value(self, w: Vector, slack: float) -> float:
        m = np.abs(w)
        square = 0.5 * (m * (m / self.delta) + self.delta)
        return self.lam * float(np.sum(np.where(m <= self.delta, m, square)))

    def _subgradient(self, w: Vector) -> Vector:
        return self.lam * np.sign(w) * np.maximum(np.abs(w) / self.delta, 1.0)


@component
class Box(Penalty):
    """Bounds on each weight: Psi(w) = 0 if lo <= w <= hi, else infinity.

    Parameters
    ----------
    lo, hi : bounds with lo <= hi, numbers or one per coordinate; -inf and inf leave a side open

    >>> Box(-1.0, 2.0).solve([-6.0, 6.0, 1.0], h=2.0)
    array([ 2. , -1. , -0.5])

    Reference: Xiao (2010), eq. 9; Duchi, Hazan and Singer (2011), section 1.3, where boxes motivate AdaGrad.
    """

    lo: Strength = -1.0
    hi: Strength = 1.0
    _role = "separable"
    _hard = True

    def _validate(self) -> None:
        self._set("lo", _bound("lo", self.lo, np.inf))
        self._set("hi", _bound("hi", self.hi, -np.inf))

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """lo and hi."""
        return Terms(lo=spread(self.lo, shape), hi=spread(self.hi, shape))

    def _value(self, w: Vector, slack: float) -> float:
        lo, hi = spread(self.lo, w.shape), spread(self.hi, w.shape)
        inside = (w >= lo - slack * np.abs(lo)) & (w <= hi + slack * np.abs(hi))
        return 0.0 if inside.all() else np.inf


@component
class NonNegative(Penalty):
    """No weight below zero: Psi(w) = 0 if w >= 0, else infinity.

    >>> NonNegative().solve([-6.0, 6.0], h=2.0)
    array([3., 0.])

    Reference: Xiao (2010), eq. 9.
    """

    _role = "light"
    _hard = True

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """lo = 0."""
        return Terms(lo=0.0)

    def _value(self, w: Vector, slack: float) -> float:
        return 0.0 if (w >= 0.0).all() else np.inf


def _is_masked(value: Any) -> bool:
    """Return whether an array is masked; the module of those is not imported to find out."""
    return "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray)


def _bound(name: str, value: Any, excluded: float) -> Strength:
    """Check a bound: numbers, infinite ones too, except on the side where nothing would be left."""
    try:
        given = array = np.asarray(value)
    except ValueError:  # lists of different lengths
        given = array = np.empty(0)
    if array.dtype.kind not in "iuf" or not array.size or _is_masked(value):
        raise TypeError(f"{name} must be a number or one per coordinate, got {_checks.shown(value)}")
    with np.errstate(over="ignore"):
        array = array.astype(np.float64)
    bad = np.isnan(array) | (array == excluded) | (np.isinf(array) & np.isfinite(given))
    if bad.any():
        raise ValueError(f"{name} must be numbers other than nan and {excluded}, got {array[bad][0]}")
    return frozen(array) if array.ndim else float(array)
