"""Follow the regularized leader: gradients summed, regularizers centred at the origin or at each point played.

Reference: H. B. McMahan, A survey of algorithms and analysis for adaptive online learning, 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from .. import validation as _checks
from ..component import component
from ..geometries import Curvature, Euclidean, Geometry, Spectrum, check_geometry
from ..losses.regression import Squared
from ..penalties import Penalty
from ..records import NamedTuple
from ..validation import Array
from .base import Algorithm, Example, Point, Problem
from .rates import Rate, rate_of

PENALTY_WEIGHTS = ("every_round", "once")


class Proximal(NamedTuple):
    """z = g_1:t - sum of sigma_s x_s, the sums of squared gradients, of weights, and the count."""

    z: Array
    q: Array
    k: float
    t: int


@component
class FTRLProximal(Algorithm):
    """FTRL-Proximal with a rate per coordinate: u = g_1:t - sum_s sigma_s x_s, h = 1/eta_t, k = t or 1.

    1/eta_t,j = (beta + sqrt(sum of g_s,j^2)) / alpha and sigma_s = 1/eta_s - 1/eta_{s-1}: every round's new
    curvature is centred at the point played, beta's share at 0.

    Parameters
    ----------
    alpha : float
        Rate.
    beta : float
        Curvature before the first gradient: the larger, the smaller the first steps.
    penalty_weight : {"every_round", "once"}
        Psi comes in with every gradient (k = t: mean loss + Psi), or once and for all (k = 1, as ad-click systems
        write it: sum of losses + Psi).

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.FTRLProximal(alpha=1.0, beta=1.0, penalty_weight="once"), ps.L1(1.0), dim=2)
    >>> learner.update([3.0, 0.5])
    >>> learner.point                            # (3 - 1) / (1 + 3), and 0.5 <= 1
    array([-0.5, 0. ])

    References: McMahan 2017, section 3.4; McMahan et al. 2013, Algorithm 1.
    """

    alpha: float = 0.1
    beta: float = 1.0
    penalty_weight: str = "every_round"

    name: ClassVar[str] = "ftrl_proximal"

    def __post_init__(self) -> None:
        _checks.set_number(self, "alpha", low=0.0, strict=True)
        _checks.set_number(self, "beta", low=0.0)
        _checks.one_of("penalty_weight", self.penalty_weight, PENALTY_WEIGHTS)

    def start(self, at: Point) -> Proximal:
        """Return no gradients."""
        return Proximal(np.zeros_like(at.x), np.zeros_like(at.x), 0.0, 0)

    def take(self, s: Proximal, at: Point, g: Array, c: float) -> Proximal:
        """Add g - sigma_t x_t."""
        q = s.q + g * g
        sigma = (np.sqrt(q) - np.sqrt(s.q)) / self.alpha
        return Proximal(s.z + g - sigma * at.x, q, s.k + c, s.t + 1)

    def h(self, s: Proximal) -> Curvature:
        """Return 1/eta_t."""
        return (self.beta + np.sqrt(s.q)) / self.alpha

    def problem(self, s: Proximal, at: Point) -> Problem:
        """Return (z, 1/eta_t, t or 1)."""
        return Problem(s.z, self.h(s), s.k if self.penalty_weight == "every_round" else 1.0)

    def penalty_weight_at(self, t: int) -> float:
        """Return 1, or 1 in the first round alone."""
        return 1.0 if self.penalty_weight == "every_round" or t == 1 else 0.0


class Template(NamedTuple):
    """Everything that a member of the family may remember.

    u: gradients, less the centres; psi: past penalties' subgradients; h: 1/eta_t; q, n: squares a coordinate and of
    the dual norms; k: alpha_1:t; alpha: the last alpha_t; t: the count.
    """

    u: Array
    psi: Array
    h: Array
    q: Array
    n: float
    k: float
    alpha: float
    c: float
    t: int


@component
class FTRL(Algorithm):
    """The survey's general template: any rate, either centre, penalties kept or linearized.

    x_{t+1} = argmin <u, x> + k Psi(x) + r_0:t(x), where r_0:t has curvature 1/eta_t and

    | choice                 | meaning                                                                         |
    |------------------------|---------------------------------------------------------------------------------|
    | centering="origin"     | all of r_0:t centred at the first point: u = g_1:t (dual averaging)              |
    | centering="proximal"   | r_s centred at x_s: u = g_1:t - sum_s sigma_s theta_s                            |
    | past="native"          | k = alpha_1:t: past penalties stand as they are                                  |
    | past="linearized"      | k = alpha_t, past penalties enter u as subgradients at the points they led to    |

    "proximal" with "linearized" selects mirror descent's points (Theorem 11).

    Parameters
    ----------
    rate : float, function of t, or a Rate of `proxstream.core.algorithms.rates`
        eta_t, which may not rise.
    centering : {"origin", "proximal"}
    past : {"native", "linearized"}
    penalty_weight : {"every_round", "once"}, function of t, or sequence
        alpha_t >= 0, not rising; a sequence's last entry stays.
    geometry : Geometry

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.FTRL(rate=0.5), dim=1)      # constant rate: online gradient descent
    >>> learner.update([1.0]); learner.update([2.0])
    >>> learner.point
    array([-1.5])

    References: McMahan 2017, equations 2, 24, 29 and 30, Figure 1.
    """

    rate: float | Rate | Callable[[int], float | Array] = 1.0
    centering: str = "origin"
    past: str = "native"
    penalty_weight: str | Callable[[int], float] | Sequence[float] = "every_round"
    geometry: Geometry = Euclidean()

    name: ClassVar[str] = "ftrl"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", rate_of(self.rate))
        _checks.one_of("centering", self.centering, ("origin", "proximal"))
        _checks.one_of("past", self.past, ("native", "linearized"))
        check_geometry(self.geometry)
        if isinstance(self.penalty_weight, str):
            _checks.one_of("penalty_weight", self.penalty_weight, PENALTY_WEIGHTS)
        elif not callable(self.penalty_weight):
            object.__setattr__(self, "penalty_weight", _falling_weights(self.penalty_weight))

    def penalty_weight_at(self, t: int) -> float:
        """Return alpha_t."""
        if isinstance(self.penalty_weight, str):
            return 1.0 if self.penalty_weight == "every_round" or t == 1 else 0.0
        if callable(self.penalty_weight):
            return _checks.number("penalty_weight", self.penalty_weight(t), low=0.0)
        return float(self.penalty_weight[min(t, len(self.penalty_weight)) - 1])

    def _inverse_rate(self, t: int, q: Array, n: float) -> Array:
        assert isinstance(self.rate, Rate)
        h = np.asarray(self.rate.inverse(t, q, n), dtype=np.float64)
        if h.ndim and not isinstance(self.geometry, Euclidean):
            raise TypeError(f"a rate per coordinate needs the Euclidean geometry, got {self.geometry!r}")
        return h

    def start(self, at: Point) -> Template:
        """Return r_0, smallest at the first point."""
        zeros = np.zeros_like(at.x)
        h = self._inverse_rate(0, zeros, 0.0)
        u = -h * at.theta if self.centering == "proximal" else zeros
        return Template(u, zeros, h, zeros, 0.0, 0.0, np.inf, 1.0, 0)

    def take(self, s: Template, at: Point, g: Array, c: float) -> Template:
        """Add g, the new curvature sigma_t and the penalty alpha_t."""
        t = s.t + 1
        norm = self.geometry.dual_norm(g, at.x)
        q, n = s.q + g * g, s.n + norm * norm
        h = self._inverse_rate(t, q, n)
        sigma = h - s.h
        if (sigma < 0.0).any():
            raise ValueError(f"rate must not rise: 1/eta fell by {-sigma.min():g} at t = {t}")
        alpha = self.penalty_weight_at(t)
        if alpha > s.alpha:
            raise ValueError(f"penalty_weight must not rise: {s.alpha:g} became {alpha:g} at t = {t}")
        u = s.u + g - sigma * at.theta if self.centering == "proximal" else s.u + g
        return Template(u, s.psi, h, q, n, s.k + alpha * c, alpha, c, t)

    def h(self, s: Template) -> Curvature:
        """Return 1/eta_t."""
        return s.h if s.h.ndim else float(s.h)

    def problem(self, s: Template, at: Point) -> Problem:
        """Return equation 24, or 29 with the past linearized."""
        return Problem(s.u + s.psi, self.h(s), s.k if self.past == "native" else s.alpha * s.c)

    def step(self, s: Template, at: Point, g: Array, penalty: Penalty, c: float = 1.0) -> tuple[Template, Point]:
        """Also linearize this round's penalty: its subgradient is what equation 30 leaves."""
        s, new = super().step(s, at, g, penalty, c)
        if self.past == "linearized":
            s = s._replace(psi=-(s.u + s.h * new.theta))
        return s, new


def _falling_weights(value: Any) -> tuple[float, ...]:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)) or getattr(value, "ndim", 1) != 1:
        raise TypeError(
            f"penalty_weight must be one of {', '.join(map(repr, PENALTY_WEIGHTS))}, a function of t or a sequence of "
            f"numbers, got {_checks.shown(value)}"
        )
    weights = tuple(_checks.number("penalty_weight", alpha, low=0.0) for alpha in value)
    if not weights or any(after > before for before, after in pairwise(weights)):
        raise ValueError(
            f"penalty_weight must be a sequence of one or more numbers that do not rise, got {_checks.shown(value)}"
        )
    return weights


class Quadratics(NamedTuple):
    """The sum of the losses so far, <u, x> + (c/2) ||x||^2 + x'Ax/2; A is empty until an example brings one."""

    u: Array
    c: float
    A: Array
    k: float
    t: int


@component
class FollowTheLeader(Algorithm):
    """The minimizer of all losses so far, exact for quadratics: u, h and k of f_1:t + t Psi.

    An example with the squared loss is itself a quadratic, (<z, x> - y)^2 / 2. A bare gradient g at x_t stands
    for the quadratic of known curvature, <g, x> + (curvature/2) ||x - x_t||^2: exact for losses
    (curvature/2) ||x - c_t||^2, a lower bound for all others that are so strongly convex (then the step is online
    gradient descent at rate 1/(curvature t)).

    Parameters
    ----------
    curvature : float
        Strong convexity of the losses known by gradient alone; 0 refuses bare gradients.

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.FollowTheLeader(), dim=1)
    >>> for c in (1.0, 2.0, 6.0):
    ...     learner.update(learner.point - c)          # the gradient of (x - c)^2 / 2
    >>> learner.point                                  # the mean of the three
    array([3.])

    References: McMahan 2017, section 3.7.
    """

    curvature: float = 1.0

    name: ClassVar[str] = "follow_the_leader"

    def __post_init__(self) -> None:
        _checks.set_number(self, "curvature", low=0.0)

    def start(self, at: Point) -> Quadratics:
        """Return no losses."""
        return Quadratics(np.zeros_like(at.x), 0.0, np.zeros((0, 0)), 0.0, 0)

    def take(self, s: Quadratics, at: Point, g: Array, c: float) -> Quadratics:
        """Add <g, x> + (curvature/2) ||x - x_t||^2."""
        if self.curvature == 0.0:
            raise TypeError(
                "FollowTheLeader(curvature=0) cannot tell a loss from a bare gradient: "
                "call learn(z, y, 'squared') or name the losses' curvature"
            )
        own = c * self.curvature
        return s._replace(u=s.u + g - own * at.x, c=s.c + own, k=s.k + c, t=s.t + 1)

    def h(self, s: Quadratics) -> Curvature:
        """Return the Hessian of the sum of losses."""
        return Spectrum.of(s.A).shifted(s.c) if s.A.size else s.c

    def problem(self, s: Quadratics, at: Point) -> Problem:
        """Return f_1:t and t Psi."""
        return Problem(s.u, self.h(s), s.k)

    def learn(self, s: Quadratics, at: Point, example: Example, penalty: Penalty) -> tuple[Quadratics, Point]:
        """Add (<z, x> - y)^2 / 2."""
        if not isinstance(example.loss, Squared) or at.x.ndim != 1:
            raise TypeError(f"FollowTheLeader is exact for the squared loss on a vector, got {example.loss!r}")
        if not penalty.rotation_invariant:
            raise TypeError(f"FollowTheLeader on examples takes no penalty, L2, L2Norm or L2Ball, got {penalty!r}")
        Z, y = np.atleast_2d(example.z), np.atleast_1d(example.y)
        A, b = example.c * Z.T @ Z / len(Z), example.c * Z.T @ y / len(Z)
        s = s._replace(u=s.u - b, A=s.A + A if s.A.size else A, k=s.k + example.c, t=s.t + 1)
        return s, self.point(self.space.solve(penalty, *self.problem(s, at)))
