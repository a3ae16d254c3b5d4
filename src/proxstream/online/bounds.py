"""The bound of the theorem that covers a game, from what was observed.

`Observed` keeps O(d) sums of a game while it is played; `bound` picks the theorem by algorithm and penalty and
evaluates it at a comparator x. Notation, with ||.||_(t) the norm in which r_0:t (and past penalties) has modulus 1:

| theorem                   | bounds the regret, penalties included, by                                        |
|---------------------------|----------------------------------------------------------------------------------|
| Xiao Theorem 1            | Delta_T of equation 14                                                           |
| Xiao Corollary 2          | (gamma D^2 + G^2/gamma) sqrt(T), for beta_t = gamma sqrt(t) and gamma >= sigma     |
| McMahan Theorem 1         | r_0:T-1(x) + (1/2) sum ||g_t||^2_(t-1),*      regularizers centred at one point    |
| McMahan Theorems 2, 10    | r_0:T(x) + (1/2) sum ||g_t||^2_(t),*          regularizers centred at each x_t     |
| McMahan Theorem 12        | the same, with Bregman divergences            mirror descent                       |
| Duchi et al. Theorems 6, 8| (16) to (19), with delta/(2 eta) ||x - x_1||^2 put back into (17)                  |
| Duchi et al. Theorem 13   | delta/(2 eta) ||x - x_1||^2 + (eta/2) sum_j ln(1 + sum_t g_t,j^2 / delta)          |

D^2 = R(x) - R(x_1), G is the largest dual norm observed, sigma the penalty's strong convexity. All these bound
linearized regret, hence regret; all but McMahan 1 in its second form need Psi smallest at x_1.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from .._checks import Array
from ..algorithms import (
    FTRL,
    RDA,
    SGD,
    AdaGrad,
    Algorithm,
    FollowTheLeader,
    FTRLProximal,
    MirrorDescent,
    TruncatedGradient,
)
from ..algorithms.base import Point
from ..geometries import Curvature, Euclidean, Spectrum
from ..penalties import Penalty

WITH_PENALTY = "linearized_regret(x, penalty=True)"
WITHOUT_PENALTY = "linearized_regret(x, penalty=False)"
TRUE_LOSSES = "regret(x, penalty=True)"


class Bound(NamedTuple):
    """What a theorem promises: `regret` names the ledger's call that is never above `value`."""

    value: float
    theorem: str
    regret: str


class Observed:
    """O(d) sums over the rounds of one game: all that the theorems need but (19), which needs every point."""

    def __init__(self, algorithm: Algorithm, penalty: Penalty, first: Point, h: Curvature) -> None:
        self.algorithm, self.penalty, self.first, self.h0 = algorithm, penalty, first, h
        self.t = 0
        self.k = 0.0  # alpha_1:t
        self.h: Curvature = h  # h_t
        self.h_before: Curvature = h  # h_{t-1}
        self.largest = 0.0  # G, in the geometry's dual norm
        self.largest_coordinate = 0.0
        self.low = self.high = first.x
        self.squares_before = 0.0  # sum of ||g_t||^2_(t-1),*
        self.squares_after = 0.0  # sum of ||g_t||^2_(t),*
        # sum over t of sigma_t B(x, x_t) = centre_0 R(x) - <centre_1, x> + centre_2, sigma_t = h_t - h_{t-1}
        self.centre_0: float | Array = 0.0
        self.centre_1: float | Array = 0.0
        self.centre_2 = 0.0
        self.points_sum: float | Array = 0.0
        self.points_squared = 0.0
        self.points: list[Array] = []
        self.minimal = penalty.minimal_at(first.x)

    def see(self, at: Point, g: Array, h: Curvature) -> None:
        """Take in one round: the point, the gradient that the step was built on, and the curvature after it."""
        self.t += 1
        space = self.algorithm.space
        self.largest = max(self.largest, space.dual_norm(g, at.x))
        self.largest_coordinate = max(self.largest_coordinate, float(np.max(np.abs(g))))
        self.low, self.high = np.minimum(self.low, at.x), np.maximum(self.high, at.x)
        # A native penalty's own curvature counts as far as it had come in before this round.
        own = self.penalty.strong_convexity * self.k if _keeps_penalties(self.algorithm) else 0.0
        self.squares_before += self._dual_square(g, at, self.h, own)
        self.squares_after += self._dual_square(g, at, h, own)
        if not isinstance(h, Spectrum) and not isinstance(self.h, Spectrum):
            sigma = h - self.h
            self.centre_0 = self.centre_0 + sigma
            self.centre_1 = self.centre_1 + sigma * at.theta
            if isinstance(space, Euclidean):
                self.centre_2 += 0.5 * float(np.sum(sigma * at.x * at.x))
            else:
                self.centre_2 += float(sigma) * (float(np.vdot(at.theta, at.x)) - space.value(at.x))
        elif _needs_points(self.algorithm):
            self.points.append(at.x)
        self.points_sum = self.points_sum + at.x
        self.points_squared += float(np.vdot(at.x, at.x))
        self.h_before, self.h = self.h, h
        self.k += self.algorithm.penalty_weight_at(self.t)

    def _dual_square(self, g: Array, at: Point, h: Curvature, own: float) -> float:
        if isinstance(h, Spectrum):
            g, h = h.vectors.T @ g, h.values
            g = np.where(np.abs(g) > 1e-9 * self.largest, g, 0.0)  # rounding outside the matrix's range
        if np.ndim(h) == 0:
            return float(_ratio(self.algorithm.space.dual_norm(g, at.x) ** 2, h + own))
        return float(np.sum(_ratio(g * g, h + own)))

    # -- the pieces of the theorems --------------------------------------------------------------

    def distance(self, x: Array) -> float:
        """Return D^2 = R(x) - R(x_1), with rho ||x||_1 for enhanced RDA."""
        value = self.algorithm.space.value(x) - self.algorithm.space.value(self.first.x)
        rho = self.algorithm.rho if isinstance(self.algorithm, RDA) else 0.0
        return value + rho * float(np.sum(np.abs(x)) - np.sum(np.abs(self.first.x)))

    def centred(self, x: Array, h: Curvature) -> float:
        """Return r_0:t(x) of regularizers centred at the origin: h R(x)."""
        if isinstance(h, Spectrum):
            return 0.5 * float(x @ h.times(x))
        if np.ndim(h):
            return 0.5 * float(np.sum(h * x * x))
        return float(h) * self.algorithm.space.value(x) + self._rho(x, h)

    def _rho(self, x: Array, h: float | Array) -> float:
        rho = self.algorithm.rho if isinstance(self.algorithm, RDA) else 0.0
        return float(h) * rho * float(np.sum(np.abs(x))) if rho else 0.0

    def moving(self, x: Array) -> float:
        """Return the sum of sigma_t B(x, x_t), without r_0."""
        if np.ndim(self.centre_0) or isinstance(self.algorithm.space, Euclidean):
            quadratic = 0.5 * float(np.sum(self.centre_0 * x * x))
        else:
            quadratic = float(self.centre_0) * self.algorithm.space.value(x)
        return max(quadratic - float(np.sum(self.centre_1 * x)) + self.centre_2, 0.0)

    def first_divergence(self, x: Array) -> float:
        """Return h_0 B(x, x_1)."""
        if isinstance(self.algorithm.space, Euclidean):
            return 0.5 * float(np.sum(self.h0 * (x - self.first.x) ** 2))
        assert isinstance(self.h0, float)  # no other geometry takes a rate a coordinate
        return self.h0 * self.algorithm.space.bregman(x, self.first.theta)

    def spread(self, x: Array) -> float:
        """Return the sum of ||x_t - x||_2^2."""
        across = float(np.sum(self.points_sum * x))
        return max(self.points_squared - 2.0 * across + self.t * float(np.vdot(x, x)), 0.0)


def bound(seen: Observed, x: Array, *, penalty: bool = True, loss_curvature: float = 0.0) -> Bound:
    """Return the bound on the game seen so far against x, or one that says that no theorem covers it.

    With penalty=False the bound is on regret without the penalty: alpha_1:T Psi(x) more (McMahan 26 and 39).
    """
    found = theorem(seen.algorithm, seen, x)
    if not found.regret:
        return found
    if loss_curvature > 0.0 and found.regret != TRUE_LOSSES:
        value = found.value - 0.5 * loss_curvature * seen.spread(x)
        found = Bound(value, f"{found.theorem}, losses strongly convex", TRUE_LOSSES)
    if not penalty and found.regret != WITHOUT_PENALTY:
        call = found.regret.replace("True", "False")
        found = found._replace(value=found.value + _weighted(seen.k, seen.penalty.value(x)), regret=call)
    return found


@singledispatch
def theorem(algorithm: Algorithm, seen: Observed, x: Array) -> Bound:
    """Return the bound of the theorem that covers this algorithm."""
    return _none(f"{type(algorithm).__name__}")


@theorem.register
def _rda(algorithm: RDA, seen: Observed, x: Array) -> Bound:
    if not seen.minimal:
        return _mcmahan_1(seen, x)
    sigma, T = seen.penalty.strong_convexity, seen.t
    D2, G2 = seen.distance(x), seen.largest**2
    if algorithm.schedule == "sqrt" and algorithm.gamma >= sigma:
        value = (algorithm.gamma * D2 + G2 / algorithm.gamma) * math.sqrt(T)
        return Bound(value, "Xiao 2010, Corollary 2", WITH_PENALTY)
    beta_1 = algorithm.beta(1)
    beta_0 = max(sigma, beta_1)
    rounds = np.arange(1, T)
    if algorithm.schedule == "zero":
        betas = np.zeros(T - 1)
    else:
        betas = algorithm.gamma * (np.sqrt(rounds) if algorithm.schedule == "sqrt" else 1.0 + np.log(rounds))
    inverse = 1.0 / beta_0 + float(np.sum(1.0 / (sigma * rounds + betas)))
    value = algorithm.beta(T) * D2 + 0.5 * G2 * inverse + 2.0 * (beta_0 - beta_1) * G2 / (beta_1 + sigma) ** 2
    return Bound(value, "Xiao 2010, Theorem 1", WITH_PENALTY)


@theorem.register
def _adagrad(algorithm: AdaGrad, seen: Observed, x: Array) -> Bound:
    eta, delta, diagonal = algorithm.eta, algorithm.delta, algorithm.matrix == "diagonal"
    dual_averaging = algorithm.update == "dual_averaging"
    enough = delta >= (seen.largest_coordinate if diagonal else seen.largest)
    if dual_averaging and (not seen.minimal or not enough or np.any(seen.first.x)):
        return _mcmahan_1(seen, x)
    if not seen.minimal:
        return _none_minimal(algorithm, seen.penalty)
    values = seen.h.values if isinstance(seen.h, Spectrum) else np.asarray(seen.h)
    moments = eta * values - delta  # the roots of second moments; section 5: the moments
    from_first = float(np.sum((x - seen.first.x) ** 2))
    if algorithm.strongly_convex:
        modulus = seen.penalty.strong_convexity
        if delta > 0.0 and modulus > 0.0 and eta * modulus >= seen.largest_coordinate**2:
            value = delta / (2.0 * eta) * from_first + 0.5 * eta * float(np.sum(np.log1p(moments / delta)))
            return Bound(value, "Duchi et al. 2010, Theorem 13", WITH_PENALTY)
        return _mcmahan_12(seen, x)
    gradients = float(np.sum(moments))  # sum of ||g_1:T,j||_2, or the trace of the root
    name = "Duchi et al. 2010, Theorem " + ("6" if diagonal else "8")
    if dual_averaging:
        size = float(np.max(np.abs(x))) ** 2 if diagonal else from_first
        value = (delta * from_first + size * gradients) / eta + eta * gradients
        return Bound(value, f"{name}, equation {16 if diagonal else 18}", WITH_PENALTY)
    if diagonal:
        furthest = float(np.max(np.maximum(np.abs(x - seen.low), np.abs(x - seen.high)))) ** 2
        value = (delta * from_first + furthest * gradients) / (2.0 * eta) + eta * gradients
        return Bound(value, f"{name}, equation 17", WITH_PENALTY)
    furthest = max(float(np.sum((x - point) ** 2)) for point in seen.points)
    value = (delta * from_first + 0.5 * furthest * gradients) / eta + eta * gradients
    return Bound(value, f"{name}, equation 19", WITH_PENALTY)


@theorem.register
def _ftrl_proximal(algorithm: FTRLProximal, seen: Observed, x: Array) -> Bound:
    return _mcmahan_10(seen, x, seen.centred(x, seen.h0))  # beta's share is centred at 0


@theorem.register
def _ftrl(algorithm: FTRL, seen: Observed, x: Array) -> Bound:
    if algorithm.past == "native":
        if algorithm.centering == "origin":
            return _mcmahan_1(seen, x)
        return _mcmahan_10(seen, x, seen.first_divergence(x))
    if algorithm.centering == "proximal" or not np.any(seen.centre_0):
        return _mcmahan_12(seen, x)
    return _none("FTRL(centering='origin', past='linearized') at a rate that falls")


@theorem.register
def _mirror(algorithm: MirrorDescent, seen: Observed, x: Array) -> Bound:
    if algorithm.implicit:
        return _none("MirrorDescent(implicit=True)")
    return _mcmahan_1(seen, x) if algorithm.projection == "lazy" else _mcmahan_12(seen, x)


@theorem.register
def _sgd(algorithm: SGD, seen: Observed, x: Array) -> Bound:
    # Mirror descent on f_t + psi, linearized as a whole; only the constraint is left to Theorem 12's Psi.
    value = seen.first_divergence(x) + seen.moving(x) + 0.5 * seen.squares_after
    return Bound(_feasible(seen, x, value), "McMahan 2017, Theorem 12", WITH_PENALTY)


@theorem.register
def _truncated(algorithm: TruncatedGradient, seen: Observed, x: Array) -> Bound:
    if algorithm.every > 1 or algorithm.theta != math.inf:
        return _none("TruncatedGradient with every > 1 or a finite theta")
    return _mcmahan_12(seen, x)


@theorem.register
def _leader(algorithm: FollowTheLeader, seen: Observed, x: Array) -> Bound:
    if not seen.minimal:
        return _none_minimal(algorithm, seen.penalty)
    value = _feasible(seen, x, 0.5 * seen.squares_after)
    return Bound(value, "McMahan 2017, Theorem 2 (section 3.7)", TRUE_LOSSES)


def _mcmahan_1(seen: Observed, x: Array) -> Bound:
    value = seen.centred(x, seen.h_before) + 0.5 * seen.squares_before
    if seen.minimal:
        return Bound(_feasible(seen, x, value), "McMahan 2017, Theorem 1", WITH_PENALTY)
    # With Psi among the regularizers no minimum is asked for, but the regret leaves Psi out.
    before_last = seen.k - seen.algorithm.penalty_weight_at(seen.t) if seen.t else 0.0
    value += _weighted(before_last, seen.penalty.value(x))
    return Bound(_feasible(seen, x, value), "McMahan 2017, Theorem 1", WITHOUT_PENALTY)


def _mcmahan_10(seen: Observed, x: Array, r0: float) -> Bound:
    if not seen.minimal:
        return _none_minimal(seen.algorithm, seen.penalty)
    value = _feasible(seen, x, r0 + seen.moving(x) + 0.5 * seen.squares_after)
    number = 2 if seen.penalty.is_constraint else 10
    return Bound(value, f"McMahan 2017, Theorem {number}", WITH_PENALTY)


def _mcmahan_12(seen: Observed, x: Array) -> Bound:
    if not seen.minimal:
        return _none_minimal(seen.algorithm, seen.penalty)
    value = seen.first_divergence(x) + seen.moving(x) + 0.5 * seen.squares_after
    return Bound(_feasible(seen, x, value), "McMahan 2017, Theorem 12", WITH_PENALTY)


def _none(what: str) -> Bound:
    return Bound(math.inf, f"none: no theorem of the four papers covers {what}", "")


def _none_minimal(algorithm: Algorithm, penalty: Penalty) -> Bound:
    return _none(f"{type(algorithm).__name__} with {penalty!r}, which is not smallest at the first point")


def _feasible(seen: Observed, x: Array, value: float) -> float:
    """Return the value, or inf for a comparator outside the constraint (the bound is vacuous there)."""
    return value if math.isfinite(seen.penalty.value(x)) else math.inf


def _weighted(k: float, psi: float) -> float:
    return k * psi if k > 0.0 else 0.0


def _ratio(a: float | Array, h: float | Array) -> Array:
    """Return a / h with 0/0 = 0 and a/0 = inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.equal(a, 0.0), 0.0, np.divide(a, h))


def _keeps_penalties(algorithm: Algorithm) -> bool:
    """Tell whether past penalties stand in the step as they are, with their curvature."""
    if isinstance(algorithm, FTRL):
        return algorithm.past == "native"
    if isinstance(algorithm, AdaGrad):
        return algorithm.update == "dual_averaging"
    return isinstance(algorithm, (RDA, FTRLProximal, FollowTheLeader))


def _needs_points(algorithm: Algorithm) -> bool:
    return isinstance(algorithm, AdaGrad) and algorithm.update == "mirror"
