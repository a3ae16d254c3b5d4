"""Losses of a score p and a label y = -1 or +1. Each is a function of the margin m = y p.

Their slopes are a = -y t with t >= 0, so conjugates and steps are written in t = -y a. Moving p by -c a
moves the margin by +c t: `implicit_step` solves t = -dphi/dm at m + c t.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from proxstream.core.losses.base import Kind, Loss, Sides, register
from proxstream.core.losses.numerics import (
    Floats,
    clipped,
    indicator,
    inside,
    logistic_root,
    negative_entropy,
    sigmoid,
)
from proxstream.core.validation import number

from ..component import component
from ._lanes import exp_of_minus, log_of_1_plus


class MarginLoss(Loss):
    """A loss of the margin m = y p."""

    kind: ClassVar[Kind] = "binary"
    labels = "-1 or +1"

    def _accepts(self, labels: Any) -> Any:
        return (labels == 1) | (labels == -1)


@component
class Logistic(MarginLoss):
    """The logistic loss, minus the log-likelihood of y where P(y = +1) = 1/(1 + e^-p).

    phi(p, y) = log(1 + e^(-y p)), smooth everywhere.

    >>> from proxstream import losses
    >>> float(losses.logistic.value(-800.0, 1.0)), float(losses.logistic.probabilities(0.0))
    (800.0, 0.5)

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA.
    """

    name = "logistic"
    link = "logit"
    smoothness = 0.25
    lipschitz = 1.0

    def value(self, p: Floats, y: Floats) -> Floats:
        """log(1 + e^-m)."""
        return np.logaddexp(0.0, -y * p)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """-y / (1 + e^m)."""
        return -y * sigmoid(-y * p)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """t log t + (1 - t) log(1 - t) for t = -y a in [0, 1]."""
        return negative_entropy(-y * a)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """-y t where t = 1 / (1 + e^(m + c t)), by Newton's method."""
        return -y * logistic_root(y * p, c)

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """q (1 - q) with q = 1 / (1 + e^-p)."""
        return sigmoid(p) * sigmoid(-p)

    def _taylor(self, p: float, y: float) -> tuple[float, float, float]:
        m = y * p
        e = exp_of_minus(abs(m))
        q = 1.0 / (1.0 + e)
        return log_of_1_plus(e) + max(-m, 0.0), -y * (q * e if m > 0.0 else q), q * q * e

    def probabilities(self, scores: Any) -> Any:
        """1 / (1 + e^-p), divided by the sum over classes for scores of shape (n, k)."""
        p = sigmoid(np.asarray(scores))
        return p / np.sum(p, axis=1, keepdims=True) if np.ndim(p) == 2 else p


@component
class Hinge(MarginLoss):
    """The hinge loss of support vector machines.

    phi(p, y) = max(0, 1 - y p). Kink at m = 1, slope 0 there.

    >>> from proxstream import losses
    >>> float(losses.hinge.value(0.25, 1.0)), float(losses.hinge.slope(0.25, 1.0))
    (0.75, -1.0)

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA.
    """

    name = "hinge"
    smoothness = math.inf
    lipschitz = 1.0

    def value(self, p: Floats, y: Floats) -> Floats:
        """max(0, 1 - m)."""
        return np.maximum(1.0 - y * p, 0.0)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """-y where m < 1, else 0."""
        return -y * (y * p < 1.0)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """-t for t = -y a in [0, 1]."""
        return inside((y * a >= -1.0) & (y * a <= 0.0), y * a)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """-y t with t = (1 - m)/c clipped to [0, 1]."""
        return -y * clipped(np.maximum(1.0 - y * p, 0.0), c)

    def sides(self, y: Floats) -> Sides:
        """beta (1 - y p) for 0 <= beta <= 1."""
        one = np.ones((1, len(y)))
        return Sides(y[None], one, one, 0.0)


@component
class SquaredHinge(MarginLoss):
    """The squared hinge loss, without a factor 1/2.

    phi(p, y) = max(0, 1 - y p)^2.

    >>> from proxstream import losses
    >>> float(losses.squared_hinge.value(0.5, 1.0)), float(losses.squared_hinge.slope(0.5, 1.0))
    (0.25, -1.0)

    Reference: Fan et al. (2008), LIBLINEAR (its L2-loss support vector machine).
    """

    name = "squared_hinge"
    smoothness = 2.0
    lipschitz = math.inf

    def value(self, p: Floats, y: Floats) -> Floats:
        """max(0, 1 - m)^2."""
        return np.maximum(1.0 - y * p, 0.0) ** 2

    def slope(self, p: Floats, y: Floats) -> Floats:
        """-2 y max(0, 1 - m)."""
        return -2.0 * y * np.maximum(1.0 - y * p, 0.0)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """-t + t^2/4 for t = -y a >= 0."""
        return inside(y * a <= 0.0, y * a + 0.25 * a * a)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """-y t with t = 2 max(0, 1 - m)/(1 + 2 c)."""
        return -2.0 * y * np.maximum(1.0 - y * p, 0.0) / (1.0 + 2.0 * c)

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """2 where m < 1, else 0."""
        return 2.0 * indicator(1.0 - y * p > 0.0, p)


@component
class SmoothedHinge(MarginLoss):
    """The hinge loss with its corner rounded over a width gamma (the hinge's Moreau envelope).

    phi(p, y) = 0 for m >= 1, (1 - m)^2 / (2 gamma) for 1 - gamma <= m <= 1, 1 - m - gamma/2 below.

    Parameters: gamma > 0.

    >>> from proxstream import losses
    >>> float(losses.smoothed_hinge.value(0.0, 1.0)), losses.smoothed_hinge(gamma=0.1).smoothness
    (0.5, 10.0)

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA.
    """

    gamma: float = 1.0

    name = "smoothed_hinge"
    under_l1 = False  # its curvature is 0 on most rows
    lipschitz = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", number("gamma", self.gamma, low=0.0, strict=True))

    @property
    def smoothness(self) -> float:
        """1/gamma."""
        return 1.0 / self.gamma

    def value(self, p: Floats, y: Floats) -> Floats:
        """t (d - gamma t / 2) with d = max(0, 1 - m), t = min(1, d/gamma)."""
        d = np.maximum(1.0 - y * p, 0.0)
        t = d / np.maximum(d, self.gamma)
        return t * (d - 0.5 * self.gamma * t)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """-y t with t = (1 - m)/gamma clipped to [0, 1]."""
        return -y * clipped(np.maximum(1.0 - y * p, 0.0), self.gamma)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """-t + (gamma/2) t^2 for t = -y a in [0, 1]."""
        return inside((y * a >= -1.0) & (y * a <= 0.0), y * a + 0.5 * self.gamma * a * a)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """-y t with t = (1 - m)/(gamma + c) clipped to [0, 1]."""
        return -y * clipped(np.maximum(1.0 - y * p, 0.0), self.gamma + c)

    def sides(self, y: Floats) -> Sides:
        """beta (1 - y p) - (gamma/2) beta^2 for 0 <= beta <= 1."""
        one = np.ones((1, len(y)))
        return Sides(y[None], one, one, 0.0, self.gamma)

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """1/gamma where 1 - gamma < m < 1, else 0."""
        return indicator((1.0 - y * p > 0.0) & (1.0 - y * p < self.gamma), p) / self.gamma

    def _taylor(self, p: float, y: float) -> tuple[float, float, float]:
        d = 1.0 - y * p
        if d <= 0.0:
            return 0.0, 0.0, 0.0
        if d < self.gamma:
            return 0.5 * d * d / self.gamma, -y * d / self.gamma, 1.0 / self.gamma
        return d - 0.5 * self.gamma, -y, 0.0


@component
class Perceptron(MarginLoss):
    """The perceptron's loss: the hinge with its corner at margin 0.

    phi(p, y) = max(0, -y p). Kink at m = 0, slope -y there: a learner that starts from w = 0 is at the kink
    and would never leave it with slope 0. (`implicit_step` has no such choice: the exact step from m = 0 is 0.)

    >>> from proxstream import losses
    >>> float(losses.perceptron.value(0.0, 1.0)), float(losses.perceptron.slope(0.0, 1.0))
    (0.0, -1.0)

    Reference: Rosenblatt (1958), The perceptron.
    """

    name = "perceptron"
    smoothness = math.inf
    lipschitz = 1.0

    def value(self, p: Floats, y: Floats) -> Floats:
        """max(0, -m)."""
        return np.maximum(-y * p, 0.0)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """-y where m <= 0, else 0."""
        return -y * (y * p <= 0.0)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """0 for t = -y a in [0, 1]."""
        return inside((y * a >= -1.0) & (y * a <= 0.0), 0.0 * a)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """-y t with t = -m/c clipped to [0, 1]."""
        return -y * clipped(np.maximum(-y * p, 0.0), c)

    def sides(self, y: Floats) -> Sides:
        """-beta y p for 0 <= beta <= 1."""
        one = np.ones((1, len(y)))
        return Sides(y[None], np.zeros((1, len(y))), one, 0.0)


@component
class RankingHinge(Hinge):
    """The hinge loss of a pair to be ranked, of the difference of its two scores.

    phi(p, y) = max(0, 1 - y p) with p = score of the first - score of the second, and y = +1 when the first
    is to rank higher, -1 when the second is. Kink at y p = 1, slope 0 there. All else is the hinge's.

    >>> from proxstream import losses
    >>> float(losses.ranking_hinge.value(2.0 - 1.5, 1.0))
    0.5

    Reference: Herbrich, Graepel and Obermayer (2000), Large margin rank boundaries for ordinal regression.
    """

    name = "ranking_hinge"
    kind = "ranking"


logistic = register(Logistic())
hinge = register(Hinge())
squared_hinge = register(SquaredHinge())
smoothed_hinge = register(SmoothedHinge())
perceptron = register(Perceptron())
ranking_hinge = register(RankingHinge())
