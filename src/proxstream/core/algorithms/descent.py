"""Descent: the next point is a step from the last, and the last point is all that is remembered.

Composite mirror descent (FOBOS), its lazy and implicit forms, and the two methods that it improved on: plain
stochastic subgradients, and truncated gradients. All penalties of the past live on in x_t alone, which is why
their zeros are fewer than dual averaging's.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .. import validation as _checks
from ..component import component
from ..geometries import Euclidean, Geometry, Shape, check_geometry
from ..penalties import L1, L2, ElasticNet, NoPenalty, Penalty
from ..records import NamedTuple
from ..validation import Array
from .base import Algorithm, Example, Point, Problem, check_rate, inverse_rate


class Gradient(NamedTuple):
    """The last gradient (or, lazily, the sum of all), its weight, and the count."""

    u: Array
    c: float
    t: int


@component
class MirrorDescent(Algorithm):
    """Composite mirror descent: u = g_t - theta_t / eta_t, h = 1/eta_t, k = 1.

    x_{t+1} = argmin <g_t, x> + Psi(x) + B_R(x, x_t) / eta_t. In the Euclidean geometry it is FOBOS, a gradient step
    and then the penalty's prox; in PNorm with L1 it is SMIDAS; in Entropy exponentiated gradients.
    projection="lazy" projects the sum of all steps instead of the last point (u = g_1:t). implicit=True keeps the
    loss of a linear model as it is: x_{t+1} = argmin phi(<z, x>, y) + Psi(x) + B_R(x, x_t) / eta_t.

    Parameters
    ----------
    eta : float
    schedule : {"sqrt", "constant", "linear"}
        eta_t = eta/sqrt(t), eta, or eta/t (for strongly convex losses, with eta = 1/modulus).
    geometry : Geometry
    implicit : bool
        Needs whole examples: `learn`, not `update`.
    projection : {"greedy", "lazy"}
        Lazy is for constraints alone.

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.MirrorDescent(eta=1.0), ps.L1(0.5), dim=2)
    >>> learner.update([1.0, 0.25])
    >>> learner.point
    array([-0.5, 0. ])

    References: Duchi and Singer 2009; McMahan 2017, equations 27 and 28, appendix C.2; Xiao 2010, equation 28.
    """

    eta: float = 0.1
    schedule: str = "sqrt"
    geometry: Geometry = Euclidean()
    implicit: bool = False
    projection: str = "greedy"

    name: ClassVar[str] = "mirror_descent"

    def __post_init__(self) -> None:
        check_rate(self)
        _checks.one_of("projection", self.projection, ("greedy", "lazy"))
        check_geometry(self.geometry)
        object.__setattr__(self, "implicit", _checks.truth("implicit", self.implicit))
        if self.implicit and self.projection == "lazy":
            raise ValueError("implicit=True takes projection='greedy': the step starts from the last point")

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Also refuse a soft penalty under lazy projection."""
        super().check(penalty, shape)
        if self.projection == "lazy" and not penalty.is_constraint:
            raise TypeError(
                "projection='lazy' takes a constraint (Box, NonNegative, L1Ball, L2Ball, Simplex) or no penalty; "
                f"FTRL(past='native') keeps a soft one, got {penalty!r}"
            )

    def start(self, at: Point) -> Gradient:
        """Return no gradient."""
        return Gradient(np.zeros_like(at.x), 0.0, 0)

    def take(self, s: Gradient, at: Point, g: Array, c: float) -> Gradient:
        """Keep g, or add it to the sum."""
        if self.implicit:
            raise TypeError("MirrorDescent(implicit=True) needs the loss itself: call learn(z, y, loss)")
        return Gradient(s.u + g if self.projection == "lazy" else g, c, s.t + 1)

    def h(self, s: Gradient) -> float:
        """Return 1/eta_t."""
        return inverse_rate(self.eta, self.schedule, s.t)

    def problem(self, s: Gradient, at: Point) -> Problem:
        """Return (g_t - theta_t / eta_t, 1/eta_t, 1), or (g_1:t, 1/eta_t, 1) projected lazily."""
        h = self.h(s)
        return Problem(s.u if self.projection == "lazy" else s.u - h * at.theta, h, s.c)

    def learn(self, s: Gradient, at: Point, example: Example, penalty: Penalty) -> tuple[Gradient, Point]:
        """Take the example; implicitly, the one slope that agrees with the point it leads to."""
        if not self.implicit:
            return super().learn(s, at, example, penalty)
        if example.z.ndim != 1 or at.x.ndim != 1:
            raise TypeError("an implicit update takes one example of a model with one output")
        t = s.t + 1
        h = inverse_rate(self.eta, self.schedule, t) / example.c  # a weight on loss and penalty is a longer step

        def after(slope: float) -> Array:
            return self.space.solve(penalty, slope * example.z - h * at.theta, h, 1.0)

        def prediction(slope: float) -> float:
            return float(example.z @ self.space.primal(after(slope)))

        def missing(slope: float) -> float:
            return float(example.loss.slope(prediction(slope), example.y)) / slope - 1.0

        from scipy.optimize import brentq

        # The larger the slope taken, the smaller the slope at the point reached: they agree once. A unit of slope
        # moves the prediction by ||z||_*^2 / h at most, and by just that without a penalty: the loss's own step at
        # this rate is the answer, or too short.
        norm = self.space.dual_norm(example.z, at.x)
        near = far = float(example.loss.implicit_step(prediction(0.0), example.y, norm * norm / h))
        while far != 0.0 and missing(far) > 0.0:
            near, far = far, 2.0 * far
        slope = far if near == far else brentq(missing, near, far, xtol=1e-300, rtol=1e-15, maxiter=1000)
        return Gradient(slope * example.z, example.c, t), self.point(after(slope))


@component
class SGD(Algorithm):
    """Stochastic subgradient descent: x_{t+1} = Proj(x_t - eta_t (g_t + xi_t)), xi_t a subgradient of Psi at x_t.

    The baseline that composite steps improve on: under L1 its weights pass through zero and do not stay.

    Parameters
    ----------
    eta : float
    schedule : {"sqrt", "constant", "linear"}
        eta_t = eta/sqrt(t), eta, or eta/t.

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.SGD(eta=1.0), ps.L1(0.5), dim=2)
    >>> learner.update([1.0, 0.25])
    >>> learner.point
    array([-1. , -0.25])

    References: Xiao 2010, equation 3.
    """

    eta: float = 0.1
    schedule: str = "sqrt"

    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        check_rate(self)

    def start(self, at: Point) -> Gradient:
        """Return no gradient."""
        return Gradient(np.zeros_like(at.x), 0.0, 0)

    def take(self, s: Gradient, at: Point, g: Array, c: float) -> Gradient:
        """Keep g."""
        return Gradient(g, c, s.t + 1)

    def h(self, s: Gradient) -> float:
        """Return 1/eta_t."""
        return inverse_rate(self.eta, self.schedule, s.t)

    def problem(self, s: Gradient, at: Point) -> Problem:
        """Return a step with no penalty in it."""
        h = self.h(s)
        return Problem(s.u - h * at.x, h, 0.0)

    def played_gradient(self, g: Array, at: Point, penalty: Penalty, c: float = 1.0) -> Array:
        """Return g_t + xi_t."""
        return g + c * penalty.subgradient(at.x)

    def step(self, s: Gradient, at: Point, g: Array, penalty: Penalty, c: float = 1.0) -> tuple[Gradient, Point]:
        """Step along g_t + xi_t and project onto the constraint: k = 0 leaves no more of Psi."""
        return super().step(s, at, self.played_gradient(g, at, penalty, c), penalty, c)


class Owing(NamedTuple):
    """The last gradient, the penalty that has come in since the last truncation, and the count."""

    u: Array
    owed: float
    t: int


@component
class TruncatedGradient(Algorithm):
    """Truncated gradient: gradient steps, and every K-th round a soft threshold eta_t lam K on weights up to theta.

    Parameters
    ----------
    eta : float
    every : int
        K. With every=1 and theta=inf the method is FOBOS with L1.
    theta : float
        Weights beyond theta are not shrunk.
    schedule : {"sqrt", "constant", "linear"}

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.TruncatedGradient(eta=1.0, every=2, schedule="constant"), ps.L1(0.5), dim=2)
    >>> learner.update([1.0, 0.2]); learner.point
    array([-1. , -0.2])
    >>> learner.update([1.0, 0.2]); learner.point
    array([-1., 0.])

    References: Langford, Li and Zhang 2009; Xiao 2010, equation 29.
    """

    eta: float = 0.1
    every: int = 10
    theta: float = math.inf
    schedule: str = "sqrt"

    name: ClassVar[str] = "truncated_gradient"

    def __post_init__(self) -> None:
        check_rate(self)
        _checks.integer("every", self.every, low=1)
        if not (isinstance(self.theta, float) and self.theta == math.inf):
            _checks.set_number(self, "theta", low=0.0)

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Accept no penalty, L1, and L2 (a gradient each step), alone or in sums."""
        super().check(penalty, shape)
        if not all(isinstance(part, (NoPenalty, L1, L2, ElasticNet)) for part in penalty.parts):
            raise TypeError(
                f"TruncatedGradient takes no penalty, L1, L2, ElasticNet or a sum of these, got {penalty!r}"
            )

    def start(self, at: Point) -> Owing:
        """Return no gradient."""
        return Owing(np.zeros_like(at.x), 0.0, 0)

    def take(self, s: Owing, at: Point, g: Array, c: float) -> Owing:
        """Keep g."""
        return Owing(g, s.owed + c, s.t + 1)

    def h(self, s: Owing) -> float:
        """Return 1/eta_t."""
        return inverse_rate(self.eta, self.schedule, s.t)

    def problem(self, s: Owing, at: Point) -> Problem:
        """Return a step with no penalty in it."""
        h = self.h(s)
        return Problem(s.u - h * at.x, h, 0.0)

    def played_gradient(self, g: Array, at: Point, penalty: Penalty, c: float = 1.0) -> Array:
        """Return g_t with the gradient of the penalty's l2 part."""
        return g + c * penalty.terms(g.shape).l2 * at.x

    def step(self, s: Owing, at: Point, g: Array, penalty: Penalty, c: float = 1.0) -> tuple[Owing, Point]:
        """Step, then truncate in every K-th round (equation 29)."""
        s = self.take(s, at, self.played_gradient(g, at, penalty, c), c)
        h = self.h(s)
        x = at.x - s.u / h
        if s.t % self.every == 0:
            threshold = penalty.terms(x.shape).l1 * s.owed / h
            s = s._replace(owed=0.0)
            shrunk = np.maximum(x - threshold, 0.0) + np.minimum(x + threshold, 0.0)
            x = np.where((np.abs(x) > self.theta) & (np.abs(x) > threshold), x, shrunk)
        return s, Point(x, x)
