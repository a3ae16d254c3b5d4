"""Losses of a score p and a label y >= 0 whose mean is e^p: Poisson, gamma and Tweedie.

All three are half the deviance of a Tweedie distribution, whose variance is the mean to a power, up to constants: power
1 is Poisson's, 2 is gamma's, between them are sums of a Poisson number of gamma variables, such as the claims of an
insurance policy. With kappa = power - 1 and lambda = 2 - power

    phi(p, y) = y e^(-kappa p) / kappa + e^(lambda p) / lambda      phi'(p, y) = e^(lambda p) - y e^(-kappa p)

where a term with kappa or lambda = 0 becomes its limit, -y p or p.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from proxstream.core.losses.base import Link, register
from proxstream.core.losses.numerics import (
    Floats,
    exp_or_inf,
    exp_root,
    inside,
    times_exp,
    tweedie_conjugate,
    tweedie_step,
    xlogx,
)
from proxstream.core.losses.regression import RegressionLoss
from proxstream.core.validation import number

from ..component import component

LARGEST_EXPONENT = 700.0


class LogLinkLoss(RegressionLoss):
    """A loss of a score that is the logarithm of the mean label; its slope and curvature grow without bound."""

    labels = "a finite number >= 0"
    link: ClassVar[Link | None] = "log"
    of_residuals: ClassVar[bool] = False
    smoothness = math.inf
    lipschitz = math.inf

    def _accepts(self, labels: Any) -> Any:
        return np.isfinite(labels) & (labels >= 0)


@component
class Poisson(LogLinkLoss):
    """Minus the log-likelihood of a count y whose mean is e^p, less the constant log(y!).

    phi(p, y) = e^p - y p, for y >= 0 (a rate need not be an integer). Smooth, but its slope and its
    curvature grow without bound. Where e^p is too large for a float, value and slope are +inf.

    >>> from proxstream import losses
    >>> float(losses.poisson.value(0.0, 3.0)), float(losses.poisson.slope(0.0, 3.0))
    (1.0, -2.0)

    Reference: McCullagh and Nelder (1989), Generalized Linear Models.
    """

    name = "poisson"
    variance_power = 1.0

    def value(self, p: Floats, y: Floats) -> Floats:
        """e^p - y p."""
        return exp_or_inf(p) - y * p

    def slope(self, p: Floats, y: Floats) -> Floats:
        """e^p - y."""
        return exp_or_inf(p) - y

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """u log u - u for u = a + y >= 0."""
        return inside(a + y >= 0.0, xlogx(a + y) - (a + y))

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """s = e^q - y where q + c e^q = p + c y, by Newton's method."""
        q = exp_root(p + c * y, c)
        positive_c = np.where(c > 0.0, c, 1.0)
        # Two forms of one number: (p - q)/c is accurate where c e^q is large, since q hardly depends on c y then.
        steep = (c > 0.0) & (q + np.log(positive_c) > 0.0)
        return np.maximum(np.where(steep, (p - q) / positive_c, exp_or_inf(q) - y), -y)

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """e^p."""
        return exp_or_inf(p)

    def _taylor(self, p: float, y: float) -> tuple[float, float, float]:
        if p > LARGEST_EXPONENT:
            return math.inf, math.inf, math.inf
        e = math.exp(p)
        return e - y * p, e - y, e


@component
class Gamma(LogLinkLoss):
    """Half the deviance of a gamma distribution with mean e^p, less what depends on y alone.

    phi(p, y) = y e^-p + p, for y > 0: amounts and durations, whose standard deviation grows with the mean. Smooth.
    Where e^-p is too large for a float, the value is +inf and the slope -inf.

    >>> from proxstream import losses
    >>> float(losses.gamma.value(0.0, 3.0)), float(losses.gamma.slope(0.0, 3.0))
    (3.0, -2.0)

    Reference: McCullagh and Nelder (1989), Generalized Linear Models.
    """

    name = "gamma"
    variance_power = 2.0
    labels = "a finite number > 0"

    def _accepts(self, labels: Any) -> Any:
        return np.isfinite(labels) & (labels > 0)

    def value(self, p: Floats, y: Floats) -> Floats:
        """y e^-p + p."""
        return times_exp(y, -p) + p

    def slope(self, p: Floats, y: Floats) -> Floats:
        """1 - y e^-p."""
        return 1.0 - times_exp(y, -p)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """u log u - u log y - u for u = 1 - a >= 0."""
        return inside(a <= 1.0, xlogx(1.0 - a) - (1.0 - a) * (np.log(y) + 1.0))

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """s = 1 - y e^-q where q + c (1 - y e^-q) = p, by Newton's method."""
        return tweedie_step(p, y, c, 2.0)

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """y e^-p."""
        return times_exp(y, -p)


@component
class Tweedie(LogLinkLoss):
    """Half the deviance of a Tweedie distribution with mean e^p and variance mean^power, less what depends on y alone.

    phi(p, y) = -y e^((1 - power) p) / (1 - power) + e^((2 - power) p) / (2 - power), for y >= 0: amounts that are often
    exactly 0, such as claims or rainfall. Smooth. Values too large for a float are infinite.

    Parameters: 1 < power < 2; near 1 labels are like counts, near 2 like gamma variables.

    >>> from proxstream import losses
    >>> float(losses.tweedie.value(0.0, 3.0)), float(losses.tweedie(power=1.5).slope(0.0, 3.0))
    (8.0, -2.0)

    Reference: Jorgensen (1997), The Theory of Dispersion Models.
    """

    power: float = 1.5

    name = "tweedie"

    def __post_init__(self) -> None:
        power = number("power", self.power)
        if not 1.0 < power < 2.0:
            raise ValueError(f"power must be a finite number in (1, 2), got {self.power!r}")
        object.__setattr__(self, "power", power)

    @property
    def variance_power(self) -> float:
        """The parameter `power`."""
        return self.power

    def value(self, p: Floats, y: Floats) -> Floats:
        """y e^(-kappa p) / kappa + e^(lambda p) / lambda."""
        kappa = self.power - 1.0
        return times_exp(y, -kappa * p) / kappa + exp_or_inf((1.0 - kappa) * p) / (1.0 - kappa)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """e^(lambda p) - y e^(-kappa p)."""
        return exp_or_inf((2.0 - self.power) * p) - times_exp(y, (1.0 - self.power) * p)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """a p - phi(p, y) at the p whose slope is a, by Newton's method; +inf for y = 0 and a < 0."""
        return tweedie_conjugate(a, y, self.power)

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """The slope s at q, where q + c s = p, by Newton's method."""
        return tweedie_step(p, y, c, self.power)

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """lambda e^(lambda p) + kappa y e^(-kappa p)."""
        kappa = self.power - 1.0
        return (1.0 - kappa) * exp_or_inf((1.0 - kappa) * p) + kappa * times_exp(y, -kappa * p)


poisson = register(Poisson())
gamma = register(Gamma())
tweedie = register(Tweedie())
