"""Conjugates of penalties, along rays from 0 and with bounds.

The conjugate of a penalty is Psi*(v) = sup_w <v, w> - Psi(w):

    Psi                              Psi*(v)                                     finite where
    sum l1_j |w_j| + (l2_j/2) w_j^2  sum (|v_j| - l1_j)+^2 / (2 l2_j)            |v_j| <= l1_j wherever l2_j = 0
    lam sum_g ||w_g||_2              sum_g (||soft(v_g, l1)|| - lam)+^2 / (2 l2) that norm <= lam if l2 = 0
      + l1 ||w||_1 + (l2/2) ||w||^2
    0 where ||w|| <= R               R ||v||                                     everywhere
    every other penalty              <v, w> - Psi(w) at the w that `solve(-v, h=0)` finds

The domain is convex and holds 0 (Psi is bounded below), so on the ray s v it is an interval [0, limit].

`bound` is for proofs: v is known to within `error` per entry. All but the last row of the table grow with each |v_j|,
so that |v| + error has the largest conjugate, rounded up by `NUDGE` and `UP`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce

import numpy as np

from ..core.penalties import GroupL2, L2Ball, L2Norm, Penalty
from ..core.penalties.base import Terms
from ..core.validation import Array

_HALVINGS = 60
UP = 1.0 + 2.0**-46  # more than the roundings of a sum of squares, which NumPy sums in pairs
NUDGE = 1.0 + 2.0**-50
INWARD = 1.0 - 2.0**-50
SOLVED = 1e-12  # part of its terms that the conjugate found by a penalty's solver may be off by


class PenaltyConjugate(ABC):
    """Psi* along rays from 0."""

    @abstractmethod
    def limit(self, v: Array) -> float:
        """Return the largest s in [0, 1] for which Psi*(s v) is finite."""

    @abstractmethod
    def value(self, v: Array, scale: float = 1.0) -> float:
        """Return Psi*(scale v) for a scale up to the limit."""

    def bound(self, v: Array, error: Array) -> tuple[float, float]:
        """Return a scale s and an upper bound on Psi*(s u) for every u with |u - v| <= error."""
        largest = np.abs(v) + error
        s = self.limit(largest)
        s = s * INWARD if s < 1.0 else s
        return s, UP * self.value(NUDGE * largest, s)


def conjugate_of(penalty: Penalty, shape: tuple[int, ...]) -> PenaltyConjugate:
    """Return the conjugate of a penalty on weights of this shape.

    >>> from proxstream import L1, L2
    >>> v = np.array([3.0, -1.0])
    >>> conjugate_of(L1(1.0) + L2(0.5), v.shape).value(v), conjugate_of(L1(1.5), v.shape).limit(v)
    (4.0, 0.5)
    """
    if not isinstance(penalty, Penalty):
        raise TypeError(f"penalty must be a Penalty such as L2(1e-4), got {penalty!r}")
    penalty.check_shape(shape)
    terms = reduce(Terms.join, (part.terms(shape) for part in penalty.parts))
    if terms.only_l1_l2:
        return Net(terms, shape)
    if isinstance(penalty, L2Ball):
        return _Ball(penalty.radius)
    others = terms._replace(coupled=None, bends=())
    if others.only_l1_l2 and isinstance(terms.coupled, (GroupL2, L2Norm)) and np.ndim(terms.l2) == 0:
        return _Groups(terms, terms.coupled, shape)
    return _Solved(penalty)


class Net(PenaltyConjugate):
    """L1, L2, the elastic net, with one strength or one per weight; no penalty at all."""

    def __init__(self, terms: Terms, shape: tuple[int, ...]):
        self.l1, self.l2 = (_flat(strength, shape) for strength in (terms.l1, terms.l2))

    def limit(self, v: Array) -> float:
        """Return the largest s in [0, 1] for which Psi*(s v) is finite."""
        from ._conjugates import net_limit

        return float(net_limit(v.ravel(), self.l1, self.l2))

    def value(self, v: Array, scale: float = 1.0) -> float:
        """Return Psi*(scale v) for a scale up to the limit."""
        from ._conjugates import net_conjugate

        return float(net_conjugate(v.ravel(), self.l1, self.l2, scale))

    def bound(self, v: Array, error: Array) -> tuple[float, float]:
        """Return a scale s and an upper bound on Psi*(s u) for every u with |u - v| <= error; few passes over v."""
        beyond = np.abs(v)
        beyond += error
        beyond = beyond.ravel()
        s = self.limit(beyond)
        s = s * INWARD if s < 1.0 else s
        if not self.l2.any():
            return s, 0.0
        beyond *= NUDGE
        beyond *= s
        beyond -= self.l1
        np.maximum(beyond, 0.0, out=beyond)
        if len(self.l2) == 1:
            over = beyond / self.l2
        else:
            over = np.divide(beyond, self.l2, out=np.zeros_like(beyond), where=self.l2 > 0.0)
        over *= beyond
        return s, 0.5 * UP * float(np.sum(over))

    def primal(self, w: Array) -> float:
        """Return Psi(w) itself."""
        from ._conjugates import net_value

        return float(net_value(w.ravel(), self.l1, self.l2))


class _Groups(PenaltyConjugate):
    """Norms of groups with an l1 norm and one strength of squares beside them."""

    def __init__(self, terms: Terms, norm: GroupL2 | L2Norm, shape: tuple[int, ...]):
        self.l1, self.l2, self.lam = terms.l1, float(terms.l2), norm.lam
        self.cut = norm._segments(shape)

    def _norms(self, v: Array, scale: float) -> Array:
        return self.cut.norm(self.cut.gather(np.maximum(scale * np.abs(v) - self.l1, 0.0).ravel()))

    def limit(self, v: Array) -> float:
        if self.l2 > 0.0:
            return 1.0
        return _last(lambda s: bool(np.all(self._norms(v, s) <= self.lam)))

    def value(self, v: Array, scale: float = 1.0) -> float:
        if self.l2 == 0.0:
            return 0.0
        beyond = np.maximum(self._norms(v, scale) - self.lam, 0.0)
        return 0.5 * float(np.sum(beyond * (beyond / self.l2)))


class _Ball(PenaltyConjugate):
    """A bound on the norm of all weights."""

    def __init__(self, radius: float):
        self.radius = radius

    def limit(self, v: Array) -> float:
        return 1.0

    def value(self, v: Array, scale: float = 1.0) -> float:
        return scale * self.radius * float(np.linalg.norm(v))


class _Solved(PenaltyConjugate):
    """Any other penalty, through the solver of its subproblem without curvature."""

    def __init__(self, penalty: Penalty):
        self.penalty = penalty

    def limit(self, v: Array) -> float:
        return _last(lambda s: np.isfinite(self.value(v, s)))

    def value(self, v: Array, scale: float = 1.0) -> float:
        try:
            w = self.penalty.solve(-scale * v, 0.0)
        except ValueError:  # no minimizer: outside the domain
            return np.inf
        return scale * float(np.sum(v * w)) - self.penalty.value(w)

    def bound(self, v: Array, error: Array) -> tuple[float, float]:
        s = self.limit(v) * (1.0 - SOLVED)
        try:
            w = self.penalty.solve(-s * v, 0.0)
        except ValueError:
            return 0.0, np.inf
        gain, cost = s * v * w, self.penalty.value(w)
        rounding = float(np.sum(error * np.abs(w))) + SOLVED * (float(np.sum(np.abs(gain))) + abs(cost))
        return s, float(np.sum(gain)) - cost + rounding


def _flat(strength: Array | float, shape: tuple[int, ...]) -> Array:
    """Return one number, or one per weight, as a flat array."""
    if np.ndim(strength) == 0:
        return np.full(1, float(strength))
    return np.broadcast_to(strength, shape).astype(np.float64).ravel()


def _last(inside: Callable[[float], bool]) -> float:
    """Return the largest s of [0, 1] that is inside, for a set that holds 0 and every s below another."""
    if inside(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low
