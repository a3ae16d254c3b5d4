"""Norms that are not squared: they set whole groups of weights to zero at once.

One group or many, l2 or l-infinity: where the dual norm of a group's pull is at most L = k lam, the whole
group is 0. Elsewhere one number per group remains to be found, and segments.py finds it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation as _checks
from ..component import component
from .base import Coupled, frozen, spread
from .coordinate import shrink
from .segments import Segments, Vector, level, secular_root


class _Norm(Coupled):
    """lam times the sum of the groups' norms."""

    lam: float
    _strengths = ("lam",)

    def _validate(self) -> None:
        self._set("lam", _checks.number("lam", self.lam, low=0.0))

    def _cut(self, shape: tuple[int, ...]) -> Segments:
        """The groups of weights of this shape: one group of all."""
        return Segments.even(1, int(np.prod(shape)))

    @cached_property
    def _cuts(self) -> dict[tuple[int, ...], Segments]:
        return {}

    def _segments(self, shape: tuple[int, ...]) -> Segments:
        if shape not in self._cuts:
            self._cuts[shape] = self._cut(shape)
        return self._cuts[shape]

    def _value(self, w: Vector, slack: float) -> float:
        cut = self._segments(w.shape)
        return self.lam * float(np.sum(self._norms(cut.gather(np.abs(w).ravel()), cut)))

    def _subgradient(self, w: Vector) -> Vector:
        cut = self._segments(w.shape)
        m = cut.gather(np.abs(w).ravel())
        with np.errstate(invalid="ignore"):  # 0/0 in a group at 0, where 0 is a subgradient
            s = np.fmax(self._slopes(m, cut), 0.0)
        return self.lam * np.copysign(cut.scatter(s).reshape(w.shape), w)

    def _magnitudes(self, a: Vector, h: Vector, k: float) -> Vector:
        if k * self.lam == 0.0:
            return np.asarray(shrink(a, h))
        cut = self._segments(a.shape)
        m = self._groups(cut.gather(a.ravel()), cut.gather(h.ravel()), k * self.lam, cut)
        return cut.scatter(m).reshape(a.shape)

    def _norms(self, m: Vector, cut: Segments) -> Vector:
        """The norm of each group of magnitudes."""
        raise NotImplementedError

    def _slopes(self, m: Vector, cut: Segments) -> Vector:
        """A subgradient of the norms at m != 0."""
        raise NotImplementedError

    def _groups(self, a: Vector, h: Vector, L: float, cut: Segments) -> Vector:
        """Minimize -<a, m> + L sum of norms + (1/2) sum_j h_j m_j^2 over m >= 0."""
        raise NotImplementedError


class _Euclidean(_Norm):
    """Groups measured by their l2 norm."""

    def _norms(self, m: Vector, cut: Segments) -> Vector:
        return cut.norm(m)

    def _slopes(self, m: Vector, cut: Segments) -> Vector:
        return m / cut.norm(m)[cut.index]

    def _groups(self, a: Vector, h: Vector, L: float, cut: Segments) -> Vector:
        # x = a / (h + L/theta) with theta = ||x||, so that ||a / (L + h theta)|| = 1 (Duchi et al. 2011,
        # eqs. 29-30; their multiplier of Figure 4 is theta / L). There is a theta iff the pull without
        # curvature is below L.
        pulled = cut.norm(a) > L
        endless = pulled & (cut.norm(np.where(h == 0.0, a, 0.0)) >= L)
        theta = secular_root(np.where((pulled & ~endless)[cut.index], a, 0.0), L, h, cut)
        theta[endless] = np.inf
        return np.asarray(shrink(a, h + L / theta[cut.index]))


class _Largest(_Norm):
    """Groups measured by their l-infinity norm."""

    def _norms(self, m: Vector, cut: Segments) -> Vector:
        return cut.max(m)

    def _slopes(self, m: Vector, cut: Segments) -> Vector:
        top = np.where(m == cut.max(m)[cut.index], 1.0, 0.0)
        return np.where(m > 0.0, top / cut.sum(top)[cut.index], 0.0)

    def _groups(self, a: Vector, h: Vector, L: float, cut: Segments) -> Vector:
        # m_j = min(a_j / h_j, theta) with sum_j max(a_j - h_j theta, 0) = L, the dual of Duchi et al. (2011),
        # eq. 31. A coordinate without curvature uses up a_j of L at every theta.
        flat = h == 0.0
        room = L - cut.sum(np.where(flat, a, 0.0))
        top, below, _ = level(np.where(flat, 0.0, a / h), h, np.maximum(room, 0.0), cut)
        theta = np.where(room < 0.0, np.inf, np.maximum(top - below, 0.0))
        theta[cut.sum(a) <= L] = 0.0
        return np.asarray(np.minimum(shrink(a, h), theta[cut.index]))


class _Grouped(_Norm):
    """Groups given by labels."""

    groups: NDArray[np.integer[Any]] | None

    def _validate(self) -> None:
        super()._validate()
        if self.groups is None:
            return
        try:
            labels = np.asarray(self.groups)
        except ValueError:  # lists of different lengths
            labels = np.empty(())
        if labels.ndim not in (1, 2) or not labels.size or not np.issubdtype(labels.dtype, np.integer):
            raise TypeError(
                f"groups must be None or one integer label per coordinate, got {_checks.shown(self.groups)}"
            )
        self._set("groups", frozen(labels, np.int64))

    def _cut(self, shape: tuple[int, ...]) -> Segments:
        if self.groups is None:
            return Segments.even(shape[0], shape[1] if len(shape) == 2 else 1)
        return Segments.labelled(np.broadcast_to(spread(self.groups, shape), shape).ravel())


@component
class L2Norm(_Euclidean):
    """The l2 norm, not squared: all weights are 0 until together they are worth it. Psi(w) = lam ||w||_2.

    Parameters
    ----------
    lam : strength >= 0

    >>> L2Norm(5.0).solve([6.0, -8.0], h=1.0), L2Norm(10.0).solve([6.0, -8.0], h=1.0)
    (array([-3.,  4.]), array([0., 0.]))

    Reference: Duchi, Hazan and Singer (2011), section 6.4.
    """

    lam: float = 1.0
    _round = True


@component
class LinfNorm(_Largest):
    """The largest magnitude, which levels the large weights: Psi(w) = lam max_j |w_j|.

    Parameters
    ----------
    lam : strength >= 0

    >>> LinfNorm(2.0).solve([-4.0, 3.0, 1.0], h=1.0)
    array([ 2.5, -2.5, -1. ])

    Reference: Duchi, Hazan and Singer (2011), section 6.5.
    """

    lam: float = 1.0


@component
class GroupL2(_Grouped, _Euclidean):
    """The l2 norms of groups, which set whole groups to 0: Psi(w) = lam sum_g ||w_g||_2.

    Parameters
    ----------
    lam : strength >= 0
    groups : one integer label per coordinate (on a matrix also one per row); None: the rows of a matrix, each
        coordinate of a vector alone

    >>> GroupL2(5.0, groups=[1, 1, 2]).solve([6.0, -8.0, 4.0], h=1.0)
    array([-3.,  4.,  0.])

    Reference: Duchi, Hazan and Singer (2011), section 6.6.
    """

    lam: float = 1.0
    groups: NDArray[np.integer[Any]] | None = None


@component
class GroupLinf(_Grouped, _Largest):
    """The largest magnitudes of groups, which set whole groups to 0: Psi(w) = lam sum_g max_{j in g} |w_j|.

    Parameters
    ----------
    lam : strength >= 0
    groups : one integer label per coordinate (on a matrix also one per row); None: the rows of a matrix, each
        coordinate of a vector alone

    >>> GroupLinf(2.0).solve([[-4.0, 3.0], [1.0, -1.0]], h=1.0)
    array([[ 2.5, -2.5],
           [ 0. ,  0. ]])

    Reference: Duchi, Hazan and Singer (2011), section 6.6.
    """

    lam: float = 1.0
    groups: NDArray[np.integer[Any]] | None = None
