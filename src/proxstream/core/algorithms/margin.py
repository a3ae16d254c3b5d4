"""Learners that look at the margin: Passive-Aggressive and AROW. They need whole examples, not gradients.

References: K. Crammer et al., Online passive-aggressive algorithms, 2006; K. Crammer, A. Kulesza, M. Dredze, Adaptive
regularization of weight vectors, 2009; Duchi, Hazan and Singer 2010, equation 10 and section 7.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .. import validation as _checks
from ..component import component
from ..geometries import Shape
from ..losses.binary import Hinge
from ..losses.multiclass import MulticlassHinge
from ..losses.regression import Absolute, EpsilonInsensitive
from ..penalties import Penalty
from ..records import NamedTuple
from ..validation import Array
from .base import Example, ExampleAlgorithm, Point, State


def _check_clipping(name: str, penalty: Penalty) -> None:
    if not (penalty.is_constraint and penalty.separable):
        raise TypeError(f"{name} takes no penalty, or Box and NonNegative by clipping, got {penalty!r}")


class Count(NamedTuple):
    """The number of examples."""

    t: int


@component
class PassiveAggressive(ExampleAlgorithm):
    """The smallest change of x that cures the example's loss: x_{t+1} = x_t - tau_t g_t.

    With l_t the loss suffered and g_t its gradient, tau_t is l_t/||g_t||^2 ("PA"), at most C ("PA-I"), or
    l_t/(||g_t||^2 + 1/(2C)) ("PA-II"). Losses: hinge, ranking_hinge, epsilon_insensitive, absolute and
    multiclass_hinge, whose slopes are 0 or of size 1 a score.

    Parameters
    ----------
    C : float
        Aggressiveness of PA-I and PA-II.
    variant : {"PA", "PA-I", "PA-II"}

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.PassiveAggressive(variant="PA"), dim=2)
    >>> learner.learn([1.0, 1.0], 1, "hinge")              # the loss suffered
    1.0
    >>> learner.point                                      # the margin is now 1
    array([0.5, 0.5])
    """

    C: float = 0.03
    variant: str = "PA-I"

    name: ClassVar[str] = "passive_aggressive"

    def __post_init__(self) -> None:
        _checks.set_number(self, "C", low=0.0, strict=True)
        _checks.one_of("variant", self.variant, ("PA", "PA-I", "PA-II"))

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Accept what clipping can keep."""
        super().check(penalty, shape)
        _check_clipping("PassiveAggressive", penalty)

    def start(self, at: Point) -> Count:
        """Return no examples."""
        return Count(0)

    def learn(self, s: Count, at: Point, example: Example, penalty: Penalty) -> tuple[State, Point]:
        """Move by tau_t against the gradient."""
        accepted = Hinge, EpsilonInsensitive, Absolute, MulticlassHinge
        if not isinstance(example.loss, accepted) or example.z.ndim != 1:
            raise TypeError(
                "PassiveAggressive takes one example with hinge, ranking_hinge, epsilon_insensitive, absolute or "
                f"multiclass_hinge, got {example.loss!r}"
            )
        C, example = self.C * example.c, example._replace(c=1.0)  # a row's weight is its aggressiveness
        loss, g = float(example.loss.value(example.p, example.y)), example.gradient()
        squared = float(np.vdot(g, g))
        if loss == 0.0 or squared == 0.0:
            return Count(s.t + 1), at
        tau = loss / (squared + 1.0 / (2.0 * C)) if self.variant == "PA-II" else loss / squared
        if self.variant == "PA-I":
            tau = min(tau, C)
        x = penalty.project(at.x - tau * g)
        return Count(s.t + 1), Point(x, x)


class Covariance(NamedTuple):
    """Sigma_t, its diagonal or all of it, and the count."""

    sigma: Array
    t: int


@component
class AROW(ExampleAlgorithm):
    """Adaptive regularization of weights: a mean x and a covariance Sigma, moved where the margin is below 1.

    beta_t = 1/(<z, Sigma z> + r), alpha_t = beta_t max(0, 1 - y <z, x>),
    x += alpha_t y Sigma z, Sigma -= beta_t (Sigma z)(Sigma z)'; the diagonal form keeps Sigma's diagonal alone.

    Parameters
    ----------
    r : float
        Regularization: the larger, the smaller the steps.
    matrix : {"diagonal", "full"}

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.AROW(r=1.0), dim=2)
    >>> learner.learn([1.0, 0.0], 1, "hinge")
    1.0
    >>> learner.point
    array([0.5, 0. ])
    """

    r: float = 3.0
    matrix: str = "diagonal"

    name: ClassVar[str] = "arow"

    def __post_init__(self) -> None:
        _checks.set_number(self, "r", low=0.0, strict=True)
        _checks.one_of("matrix", self.matrix, ("diagonal", "full"))

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Accept what clipping can keep, on a vector of weights."""
        super().check(penalty, shape)
        _check_clipping("AROW", penalty)
        if len(shape) != 1:
            raise ValueError(f"AROW learns one vector of weights, got dim={shape}")

    def start(self, at: Point) -> Covariance:
        """Return Sigma = I."""
        return Covariance(np.ones_like(at.x) if self.matrix == "diagonal" else np.eye(len(at.x)), 0)

    def learn(self, s: Covariance, at: Point, example: Example, penalty: Penalty) -> tuple[State, Point]:
        """Move mean and covariance where the margin is below 1."""
        z, y = example.z, example.y
        if not isinstance(example.loss, Hinge) or z.ndim != 1:
            raise TypeError(f"AROW takes one example with hinge or ranking_hinge, got {example.loss!r}")
        loss = max(0.0, 1.0 - y * example.p)
        if loss == 0.0:
            return s._replace(t=s.t + 1), at
        sz = s.sigma * z if self.matrix == "diagonal" else s.sigma @ z
        beta = 1.0 / (float(z @ sz) + self.r / example.c)
        x = penalty.project(at.x + beta * loss * y * sz)
        shrink = sz * sz if self.matrix == "diagonal" else np.outer(sz, sz)
        return Covariance(s.sigma - beta * shrink, s.t + 1), Point(x, x)
