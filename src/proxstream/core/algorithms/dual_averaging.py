"""Dual averaging: the next point minimizes the sum of all gradients, all of the penalty, and beta_t R(x).

The whole penalty, t Psi, stands in every step. That is why its zeros are many and stay: a coordinate whose mean
gradient is below lam is exactly 0, whatever the rate.

Reference: L. Xiao, Dual averaging methods for regularized stochastic learning and online optimization, 2010.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .. import validation as _checks
from ..component import component
from ..geometries import Curvature, Euclidean, Geometry, Shape, check_geometry
from ..penalties import L1, Penalty
from ..records import NamedTuple
from ..validation import Array
from .base import Algorithm, Point, Problem


class Sum(NamedTuple):
    """The sum of gradients, of their weights, and their number."""

    u: Array
    k: float
    t: int


@component
class RDA(Algorithm):
    """Regularized dual averaging: u = g_1:t, h = beta_t, k = t.

    x_{t+1} = argmin <g_1:t, x> + t Psi(x) + beta_t R(x), with beta_t = gamma sqrt(t) for any penalty and
    beta_t = 0 or gamma (1 + ln t) for a strongly convex one. The enhanced form takes
    R(x) = ||x||^2/2 + rho ||x||_1: with L1(lam) its threshold on the mean gradient is lam + gamma rho / sqrt(t).

    Parameters
    ----------
    gamma : float
        Weight of the geometry. The best one in the bound is (largest gradient norm) / (distance to travel).
    rho : float
        Extra sparsity of the first rounds (Algorithm 2).
    geometry : Geometry
        Euclidean(), PNorm(p) or Entropy().
    schedule : {"sqrt", "zero", "log"}
        beta_t. "zero" needs a penalty with curvature of its own.

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.RDA(gamma=2.0), ps.L1(0.5), dim=2)
    >>> learner.update([1.0, 0.25])
    >>> learner.point                      # (|1| - 0.5) / 2, and |0.25| <= 0.5
    array([-0.25, 0. ])

    References: Xiao 2010, Algorithms 1 and 2, equations 8, 10 and 30.
    """

    gamma: float = 1.0
    rho: float = 0.0
    geometry: Geometry = Euclidean()
    schedule: str = "sqrt"

    name: ClassVar[str] = "rda"

    def __post_init__(self) -> None:
        _checks.set_number(self, "gamma", low=0.0, strict=True)
        _checks.set_number(self, "rho", low=0.0)
        check_geometry(self.geometry)
        _checks.one_of("schedule", self.schedule, ("sqrt", "zero", "log"))

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Also refuse rho where no l1 norm can join, and beta_t = 0 with a penalty that is not strongly convex."""
        super().check(penalty, shape)
        if self.rho > 0.0:
            super().check(penalty + L1(self.rho), shape)
        if self.schedule == "zero" and penalty.strong_convexity <= 0.0:
            raise ValueError(
                f"schedule='zero' leaves all curvature to the penalty: it takes a strongly convex one "
                f"(L2, ElasticNet with l2 > 0, KL), got {penalty!r}"
            )

    def beta(self, t: int) -> float:
        """Return beta_t."""
        if self.schedule == "zero":
            return 0.0
        return self.gamma * (math.sqrt(t) if self.schedule == "sqrt" else 1.0 + math.log(t))

    def start(self, at: Point) -> Sum:
        """Return the empty sum."""
        return Sum(np.zeros_like(at.x), 0.0, 0)

    def take(self, s: Sum, at: Point, g: Array, c: float) -> Sum:
        """Add g."""
        return Sum(s.u + g, s.k + c, s.t + 1)

    def h(self, s: Sum) -> Curvature:
        """Return beta_t, and beta_1 before the first gradient (Xiao's beta_0, which moves no point)."""
        return self.beta(max(s.t, 1))

    def problem(self, s: Sum, at: Point) -> Problem:
        """Return (g_1:t, beta_t, k), and beta_t rho on the l1 norm."""
        h = self.beta(s.t)
        return Problem(s.u, h, s.k, h * self.rho)


class Accelerated(NamedTuple):
    """The weighted sum A_t g~_t of gradients, A_t, and the two points beside the query point."""

    u: Array
    k: float
    A: float
    t: int
    v: Array
    w: Array


@component
class AcceleratedRDA(Algorithm):
    """Accelerated dual averaging for smooth losses: u = sum of alpha_s g_s, h = L + beta_t, k = A_t.

    With A_t = alpha_1:t and theta_t = alpha_t / A_t, gradients are asked for at
    x_t = (1 - theta_t) w_{t-1} + theta_t v_{t-1}; v_t solves (*) and w_t = (1 - theta_t) w_{t-1} + theta_t v_t is
    the output. `learner.point` is the query point, `learner.output` is w_t.

    Parameters
    ----------
    gamma : float
        beta_t = gamma sqrt(t + 1) or gamma (t + 1)^1.5 / 2. The best one in the bound is (standard deviation of
        the gradients) / (distance to travel); 0 for exact gradients.
    smoothness : float
        L, the Lipschitz constant of the gradients.
    weights : {"linear", "constant"}
        alpha_t = t/2 (rate L/t^2 + Q/sqrt(t)) or alpha_t = 1 (rate L/t + Q/sqrt(t)).
    geometry : Geometry
        Euclidean(), PNorm(p) or Entropy().

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> learner = ps.OnlineLearner(ps.AcceleratedRDA(gamma=0.0, smoothness=1.0), dim=1)
    >>> for _ in range(50):
    ...     learner.update(learner.point - 1.0)          # the gradient of (x - 1)^2 / 2
    >>> bool(abs(learner.output[0] - 1.0) < 4 / 50**2)   # within 4 L D^2 / t^2, Corollary 7
    True

    References: Xiao 2010, Algorithm 3, section 7.1.
    """

    gamma: float = 1.0
    smoothness: float = 1.0
    weights: str = "linear"
    geometry: Geometry = Euclidean()

    name: ClassVar[str] = "accelerated_rda"

    def __post_init__(self) -> None:
        _checks.set_number(self, "gamma", low=0.0)
        _checks.set_number(self, "smoothness", low=0.0, strict=True)
        _checks.one_of("weights", self.weights, ("linear", "constant"))
        check_geometry(self.geometry)

    def _alpha(self, t: int) -> float:
        return t / 2.0 if self.weights == "linear" else 1.0

    def _beta(self, t: int) -> float:
        return self.gamma * ((t + 1) ** 1.5 / 2.0 if self.weights == "linear" else math.sqrt(t + 1))

    def start(self, at: Point) -> Accelerated:
        """Return w_0 = v_0 = x_1 and A_0 = 0."""
        return Accelerated(np.zeros_like(at.x), 0.0, 0.0, 0, at.x, at.x)

    def take(self, s: Accelerated, at: Point, g: Array, c: float) -> Accelerated:
        """Add alpha_t g."""
        alpha = self._alpha(s.t + 1)
        return s._replace(u=s.u + alpha * g, k=s.k + alpha * c, A=s.A + alpha, t=s.t + 1)

    def h(self, s: Accelerated) -> Curvature:
        """Return L + beta_t."""
        return self.smoothness + self._beta(s.t)

    def problem(self, s: Accelerated, at: Point) -> Problem:
        """Return (A_t g~_t, L + beta_t, A_t)."""
        return Problem(s.u, self.h(s), s.k)

    def step(self, s: Accelerated, at: Point, g: Array, penalty: Penalty, c: float = 1.0) -> tuple[Accelerated, Point]:
        """Move v, then w, then the query point (steps 3-5, and step 2 of the next round)."""
        s = self.take(s, at, g, c)
        v = self.space.primal(self.space.solve(penalty, *self.problem(s, at)))
        theta = self._alpha(s.t) / s.A
        w = (1.0 - theta) * s.w + theta * v
        following = self._alpha(s.t + 1)
        theta = following / (s.A + following)
        query = (1.0 - theta) * w + theta * v
        return s._replace(v=v, w=w), Point(query, query)

    def output(self, s: Accelerated, at: Point) -> Array:
        """Return w_t."""
        return s.w
