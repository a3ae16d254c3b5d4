"""Losses of a prediction p and a real label y that are functions of the residual r = p - y.

Moving p by -c s moves the residual by as much: `implicit_step` solves s = dphi/dr at r - c s.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from proxstream.core.losses.base import Link, Loss, Sides, register
from proxstream.core.losses.numerics import Floats, clipped, indicator, inside
from proxstream.core.validation import number

from ..component import component


class RegressionLoss(Loss):
    """A loss of a prediction and a finite label."""

    kind = "regression"
    labels = "a finite number"
    link: ClassVar[Link | None] = "identity"
    of_residuals: ClassVar[bool] = True

    def _accepts(self, labels: Any) -> Any:
        return np.isfinite(labels)


@component
class Squared(RegressionLoss):
    """The squared loss, with a factor 1/2.

    phi(p, y) = (p - y)^2 / 2.

    >>> from proxstream import losses
    >>> float(losses.squared.value(3.0, 1.0)), float(losses.squared.slope(3.0, 1.0))
    (2.0, 2.0)

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA.
    """

    name = "squared"
    smoothness = 1.0
    lipschitz = math.inf

    def value(self, p: Floats, y: Floats) -> Floats:
        """r^2 / 2."""
        return 0.5 * (p - y) ** 2

    def slope(self, p: Floats, y: Floats) -> Floats:
        """r."""
        return p - y

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """a y + a^2 / 2."""
        return a * y + 0.5 * a * a

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """r / (1 + c)."""
        return (p - y) / (1.0 + c)

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """1."""
        return indicator(p == p, p)

    def quadratic_range(self, p: Floats, y: Floats) -> float:
        """Infinite: the loss is quadratic."""
        return math.inf


@component
class Absolute(RegressionLoss):
    """The absolute loss, whose best constant is the median.

    phi(p, y) = |p - y|. Kink at r = 0, slope 0 there.

    >>> from proxstream import losses
    >>> float(losses.absolute.value(3.0, 1.0)), float(losses.absolute.slope(1.0, 1.0))
    (2.0, 0.0)

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA.
    """

    name = "absolute"
    smoothness = math.inf
    lipschitz = 1.0

    def value(self, p: Floats, y: Floats) -> Floats:
        """|r|."""
        return np.abs(p - y)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """The sign of r, 0 at 0."""
        return np.sign(p - y)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """a y for |a| <= 1."""
        return inside(np.abs(a) <= 1.0, a * y)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """r/c clipped to [-1, 1]."""
        return clipped(p - y, c)

    def sides(self, y: Floats) -> Sides:
        """beta (y - p) - (y - p) for 0 <= beta <= 2."""
        one = np.ones((1, len(y)))
        return Sides(one, y[None], 2.0 * one, 1.0)


@component
class Huber(RegressionLoss):
    """Huber's loss: squared near the label, absolute far from it.

    phi(p, y) = r^2 / 2 for |r| <= delta, delta |r| - delta^2 / 2 beyond.

    Parameters: delta > 0.

    >>> from proxstream import losses
    >>> float(losses.huber.value(3.0, 0.0)), float(losses.huber(delta=0.5).slope(3.0, 0.0))
    (2.5, 0.5)

    Reference: Huber (1964), Robust estimation of a location parameter.
    """

    delta: float = 1.0

    name = "huber"
    smoothness = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", number("delta", self.delta, low=0.0, strict=True))

    @property
    def lipschitz(self) -> float:
        """The largest slope, delta."""
        return self.delta

    def value(self, p: Floats, y: Floats) -> Floats:
        """s (|r| - s/2) with s = min(|r|, delta)."""
        s = np.minimum(np.abs(p - y), self.delta)
        return s * (np.abs(p - y) - 0.5 * s)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """r clipped to [-delta, delta]."""
        return np.minimum(np.maximum(p - y, -self.delta), self.delta)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """a y + a^2 / 2 for |a| <= delta."""
        return inside(np.abs(a) <= self.delta, a * y + 0.5 * a * a)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """r / (1 + c) clipped to [-delta, delta]."""
        return np.minimum(np.maximum((p - y) / (1.0 + c), -self.delta), self.delta)

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """1 where |r| <= delta, else 0."""
        return indicator(np.abs(p - y) <= self.delta, p)

    def quadratic_range(self, p: Floats, y: Floats) -> float:
        """Twice the largest residual, which takes every row to the other side of its label."""
        return 2.0 * float(np.max(np.abs(p - y)))


@component
class EpsilonInsensitive(RegressionLoss):
    """The loss of support vector regression: the absolute loss outside a tube of half-width epsilon.

    phi(p, y) = max(0, |p - y| - epsilon). Kinks at r = -epsilon and r = epsilon, slope 0 there.

    Parameters: epsilon >= 0.

    >>> from proxstream import losses
    >>> tube = losses.epsilon_insensitive(0.5)
    >>> float(tube.value(3.0, 1.0)), float(tube.slope(1.25, 1.0))
    (1.5, 0.0)

    Reference: Vapnik (1995), The Nature of Statistical Learning Theory.
    """

    epsilon: float = 0.1

    name = "epsilon_insensitive"
    smoothness = math.inf
    lipschitz = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon, low=0.0))

    def value(self, p: Floats, y: Floats) -> Floats:
        """max(0, |r| - epsilon)."""
        return np.maximum(np.abs(p - y) - self.epsilon, 0.0)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """The sign of r where |r| > epsilon, else 0."""
        return np.sign(p - y) * (np.abs(p - y) > self.epsilon)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """a y + epsilon |a| for |a| <= 1."""
        return inside(np.abs(a) <= 1.0, a * y + self.epsilon * np.abs(a))

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """The sign of r times (|r| - epsilon)/c clipped to [0, 1]."""
        return np.sign(p - y) * clipped(np.maximum(np.abs(p - y) - self.epsilon, 0.0), c)

    def sides(self, y: Floats) -> Sides:
        """beta_1 (y - epsilon - p) + beta_2 (p - y - epsilon) for beta in [0, 1]."""
        one = np.ones((1, len(y)))
        sigma = np.concatenate([one, -one])
        return Sides(sigma, sigma * y - self.epsilon, np.ones_like(sigma), 0.0)


@component
class Quantile(RegressionLoss):
    """The pinball loss, whose best constant is the tau-quantile.

    phi(p, y) = tau (y - p) for p < y, (1 - tau)(p - y) otherwise. Kink at r = 0, slope 0 there.

    Parameters: 0 < tau < 1.

    >>> from proxstream import losses
    >>> float(losses.quantile(0.75).value(1.0, 3.0)), float(losses.quantile(0.75).value(3.0, 1.0))
    (1.5, 0.5)

    Reference: Koenker and Bassett (1978), Regression quantiles.
    """

    tau: float = 0.5

    name = "quantile"
    smoothness = math.inf

    def __post_init__(self) -> None:
        tau = number("tau", self.tau)
        if not 0.0 < tau < 1.0:
            raise ValueError(f"tau must be a finite number in (0, 1), got {self.tau!r}")
        object.__setattr__(self, "tau", tau)

    @property
    def lipschitz(self) -> float:
        """The larger of tau and 1 - tau."""
        return max(self.tau, 1.0 - self.tau)

    def value(self, p: Floats, y: Floats) -> Floats:
        """The larger of -tau r and (1 - tau) r."""
        return np.maximum(self.tau * (y - p), (1.0 - self.tau) * (p - y))

    def slope(self, p: Floats, y: Floats) -> Floats:
        """-tau for r < 0, 1 - tau for r > 0, 0 at 0."""
        return np.minimum(np.maximum(np.sign(p - y), -self.tau), 1.0 - self.tau)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """a y for -tau <= a <= 1 - tau."""
        return inside((a >= -self.tau) & (a <= 1.0 - self.tau), a * y)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """r/c clipped to [-tau, 1 - tau]."""
        return np.minimum(np.maximum(clipped(p - y, c), -self.tau), 1.0 - self.tau)

    def sides(self, y: Floats) -> Sides:
        """beta (y - p) - (1 - tau) (y - p) for 0 <= beta <= 1."""
        one = np.ones((1, len(y)))
        return Sides(one, y[None], one, 1.0 - self.tau)


squared = register(Squared())
absolute = register(Absolute())
huber = register(Huber())
epsilon_insensitive = register(EpsilonInsensitive())
quantile = register(Quantile())
