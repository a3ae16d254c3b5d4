"""The bound of the theorem that covers a game, from what was observed.

`Observed` keeps O(d) sums of a game while it is played; `bound` picks the theorem by algorithm and penalty and
evaluates it at a comparator x. With D^2 = R(x) - R(x_1), G the largest dual norm of a gradient, sigma the penalty's
strong convexity and tr the sum of ||g_1:T,j||_2 (with matrices the trace of the root of the second moments):

| theorem            | for             | bounds regret by                                                          |
|--------------------|-----------------|---------------------------------------------------------------------------|
| Xiao Thm 1         | RDA             | beta_T D^2 + (G^2/2) sum_{t<T} 1/(sigma t + beta_t)                       |
|                    |                 | + 2 (beta_0 - beta_1) G^2/(beta_1 + sigma)^2, beta_0 = max(sigma, beta_1) |
| Xiao Cor. 2        | RDA             | (gamma D^2 + G^2/gamma) sqrt(T) if beta_t = gamma sqrt(t), gamma >= sigma |
| McMahan Thm 1      | one centre      | r_0:T-1(x) + (1/2) sum ||g_t||^2_(t-1),*                                  |
| McMahan Thms 2, 10 | centres x_t     | r_0:T(x) + (1/2) sum ||g_t||^2_(t),*                                      |
| McMahan Thm 12     | mirror descent  | the same, with Bregman divergences                                        |
| Duchi (16), (18)   | dual averaging  | (delta ||x||^2 + max_b ||x_b||^2 tr)/eta + eta tr if delta >= max ||g_b|| |
| Duchi (17)         | mirror          | (delta ||x - x_1||^2 + max_t,b ||(x - x_t)_b||^2 tr)/(2 eta) + eta tr     |
| Duchi (19)         | mirror          | delta ||x - x_1||^2/eta + max_t,b ||(x - x_t)_b||^2 tr/(2 eta) + eta tr   |
| Duchi Thm 13       | mirror, no root | (delta/(2 eta)) ||x - x_1||^2 + (eta/2) sum_j ln(1 + ||g_1:T,j||^2/delta) |

Blocks b are coordinates in Theorem 6, all of x in Theorem 8, the matrix's own in Corollary 14.

All bound linearized regret, hence regret, with the penalty; they ask for Psi smallest at x_1. McMahan's Theorem 1 with
Psi among the regularizers does not, and bounds regret without the penalty. ||.||_(t) is the norm in which what the
step minimizes has modulus 1: 1/eta_t, and sigma for each penalty that stands in it as it is. This round's own penalty
does not count: the proof of McMahan's Corollary 8 has it out of the way before it asks for curvature.

Where the texts differ from their proofs: (17) gets its missing delta term; Theorem 13 has the constants that follow
from Corollary 11, for eta >= max |g_t,j|^2 / sigma in the l2 norm. There (lambda/2) ||x - x_1||^2 comes from the
first round, where x_1 minimizes Psi, and cancels what g_1 adds to the divergence from x_1.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..core.algorithms import (
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
from ..core.algorithms.base import Point
from ..core.geometries import Curvature, Entropy, Euclidean, Spectrum
from ..core.penalties import NoPenalty, Penalty, Simplex
from ..core.validation import Array

WITH_PENALTY = "linearized_regret(x, penalty=True)"
WITHOUT_PENALTY = "linearized_regret(x, penalty=False)"
TRUE_LOSSES = "regret(x, penalty=True)"

XIAO_1 = "Xiao 2010, Theorem 1"
XIAO_2 = "Xiao 2010, Corollary 2"
MCMAHAN_1 = "McMahan 2017, Theorem 1"
MCMAHAN_2 = "McMahan 2017, Theorem 2"
MCMAHAN_2_LEADER = "McMahan 2017, Theorem 2 (section 3.7)"
MCMAHAN_10 = "McMahan 2017, Theorem 10"
MCMAHAN_12 = "McMahan 2017, Theorem 12"
DUCHI_6 = "Duchi et al. 2010, Theorem 6"
DUCHI_8 = "Duchi et al. 2010, Theorem 8"
DUCHI_13 = "Duchi et al. 2010, Theorem 13"
DUCHI_14 = "Duchi et al. 2010, Corollary 14"


class Bound(NamedTuple):
    """What a theorem promises: `regret` names the ledger's call that is never above `value`.

    Where no theorem covers the game, value is inf, `theorem` says what stands in the way and `regret` is empty.

    >>> import proxstream as ps
    >>> ledger = ps.Regret(ps.OnlineLearner(ps.FTRL(rate=0.5), dim=1))
    >>> ledger.play(1.0, [1.0])
    >>> ledger.bound([2.0])                    # ||x||^2 / (2 eta) + eta ||g||^2 / 2
    Bound(value=4.25, theorem='McMahan 2017, Theorem 1', regret='linearized_regret(x, penalty=True)')
    """

    value: float
    theorem: str
    regret: str


class Observed:
    """O(d) sums over the rounds of one game: all that the theorems need, but for (19), which needs every point."""

    def __init__(self, algorithm: Algorithm, penalty: Penalty, first: Point, h: Curvature) -> None:
        self.algorithm, self.penalty, self.first, self.h0 = algorithm, penalty, first, h
        self.space = algorithm.space
        alone = isinstance(self.space, Entropy) and isinstance(penalty, NoPenalty)
        self.domain = Simplex(1.0) if alone else penalty  # infinite where no comparator may stand
        self.sigma = penalty.strong_convexity
        self.minimal = penalty.minimal_at(first.x)
        self.lowest = penalty.value(first.x) if self.minimal else 0.0  # Psi is nowhere less
        self.t = 0
        self.k = self.k_before = 0.0  # alpha_1:t, alpha_1:t-1
        self.h = self.h_before = h  # h_t, h_{t-1}
        self.largest = 0.0  # G, in the geometry's dual norm
        self.largest_coordinate = self.largest_block = 0.0
        self.squares_before = 0.0  # sum of ||g_t||^2_(t-1),*
        self.squares_after = 0.0  # sum of ||g_t||^2_(t),*
        self.inverses = 0.0  # sum of 1/(sigma (t - 1) + beta_{t-1}), for RDA
        # sum over t of sigma_t B(x, x_t) = d_0 R(x) - <d_1, x> + d_2, where sigma_t = h_t - h_{t-1}
        self.d_0: float | Array = 0.0
        self.d_1: float | Array = 0.0
        self.d_2 = 0.0
        # sum over t of ||x - x_t||^2, and how far x_t went
        self.points_sum: float | Array = 0.0
        self.points_squared = 0.0
        self.low = self.high = first.x
        self.points: list[Array] = []

    def see(self, at: Point, g: Array, h: Curvature) -> None:
        """Take in one round: the point, the gradient that the step was built on, and the curvature after it."""
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite bound is one
            self.t += 1
            self.largest = max(self.largest, self.space.dual_norm(g, at.x))
            self.largest_coordinate = max(self.largest_coordinate, float(np.max(np.abs(g))))
            self.largest_block = max(self.largest_block, math.sqrt(self.block(g)))
            # A penalty that stands in the step gives curvature as far as it had come in before this round.
            own = self.sigma * self.k if _keeps_penalties(self.algorithm) else 0.0
            if isinstance(self.algorithm, RDA):
                beta_0 = max(self.sigma, self.algorithm.beta(1))
                self.inverses += 1.0 / (beta_0 if self.t == 1 else own + self.algorithm.beta(self.t - 1))
            self.squares_before += self._dual_square(g, at, self.h, own, in_range=False)
            self.squares_after += self._dual_square(g, at, h, own, in_range=True)
            if not isinstance(h, Spectrum) and not isinstance(self.h, Spectrum):
                sigma = h - self.h
                self.d_0 = self.d_0 + sigma
                self.d_1 = self.d_1 + sigma * at.theta
                self.d_2 += float(np.sum(sigma * at.theta * at.x)) - self._times(sigma, at.x)
            self.points_sum = self.points_sum + at.x
            self.points_squared += float(np.vdot(at.x, at.x))
            self.low, self.high = np.minimum(self.low, at.x), np.maximum(self.high, at.x)
            if isinstance(self.algorithm, AdaGrad) and self.algorithm.matrix != "diagonal":
                self.points.append(at.x)
            self.h_before, self.h = self.h, h
            self.k_before, self.k = self.k, self.k + self.algorithm.penalty_weight_at(self.t)

    def _dual_square(self, g: Array, at: Point, h: Curvature, own: float, *, in_range: bool) -> float:
        """Return ||g||_*^2 for the norm of modulus h + own; inf if g points where that is 0.

        `in_range` promises that it does not: h was built on g, and anything else is rounding.
        """
        if isinstance(h, Spectrum):
            small = math.inf if in_range else 1e-9 * float(np.linalg.norm(g))
            g, h = h.vectors.T @ g, h.values
            g = np.where((h + own == 0.0) & (np.abs(g) <= small), 0.0, g)
        if np.ndim(h) == 0:
            return float(_ratio(self.space.dual_norm(g, at.x) ** 2, h + own))
        return float(np.sum(_ratio(g * g, h + own)))

    def _times(self, h: Curvature, x: Array) -> float:
        """Return h R(x), with rho ||x||_1 in enhanced RDA's R."""
        if isinstance(h, Spectrum):
            return 0.5 * float(x @ h.times(x))
        if np.ndim(h):
            return 0.5 * float(np.sum(h * x * x))
        rho = self.algorithm.rho if isinstance(self.algorithm, RDA) else 0.0
        return float(h) * (self.space.value(x) + rho * float(np.sum(np.abs(x))))

    def block(self, v: Array) -> float:
        """Return the largest ||v_b||^2 over AdaGrad's blocks b: coordinates, the matrix's own, or all of v."""
        matrix = self.algorithm.matrix if isinstance(self.algorithm, AdaGrad) else "diagonal"
        if matrix == "diagonal":
            return float(np.max(v * v))
        if matrix == "full":
            return float(np.sum(v * v))
        return float(np.max(np.bincount(np.unique(matrix, return_inverse=True)[1], weights=v * v)))

    # -- the pieces of the theorems ----------------------------------------------------------------

    def distance(self, x: Array) -> float:
        """Return D^2 = R(x) - R(x_1)."""
        return max(self._times(1.0, x) - self._times(1.0, self.first.x), 0.0)

    def centred(self, x: Array, h: Curvature) -> float:
        """Return r_0:t(x) of regularizers centred at the origin, r_t >= 0 and r_0(x_1) = 0.

        x_1 minimizes R over the constraint, so a number h leaves h (R(x) - R(x_1)); one per coordinate need not be
        smallest at an x_1 other than 0, and only r_0 gives up its value there.
        """
        return max(self._times(h, x) - self._times(h if _is_number(h) else self.h0, self.first.x), 0.0)

    def from_first(self, x: Array) -> float:
        """Return r_0(x) centred at x_1: h_0 B(x, x_1)."""
        if isinstance(self.space, Euclidean):
            return self._times(self.h0, x - self.first.x)
        assert isinstance(self.h0, float)  # no other geometry takes a rate per coordinate
        return self.h0 * self.space.bregman(x, self.first.theta)

    def moving(self, x: Array) -> float:
        """Return r_1:T(x) centred at each point played: the sum of sigma_t B(x, x_t)."""
        return max(self._times(self.d_0, x) - float(np.sum(self.d_1 * x)) + self.d_2, 0.0)

    def spread(self, x: Array) -> float:
        """Return the sum of ||x - x_t||_2^2."""
        across = float(np.sum(self.points_sum * x))
        return max(self.points_squared - 2.0 * across + self.t * float(np.vdot(x, x)), 0.0)

    def furthest(self, x: Array) -> float:
        """Return the largest ||(x - x_t)_b||^2 over rounds and blocks."""
        if self.points:
            return max(self.block(x - point) for point in self.points)
        return self.block(np.maximum(np.abs(x - self.low), np.abs(x - self.high)))


def bound(seen: Observed, x: Array, *, penalty: bool = True, loss_curvature: float = 0.0) -> Bound:
    """Return the bound on the game seen so far against x, or one that says why no theorem covers it.

    With penalty=False it is on regret without the penalty: alpha_1:T (Psi(x) - Psi(x_1)) more, as in McMahan (26)
    and (39), and up to T - 1 alone in Theorem 1. Outside the constraint it is inf, and where sums overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = _bound(seen, x, penalty, loss_curvature)
    # Of a difference of infinite numbers nothing is known, so that no bound below infinity is one.
    return found if found.value > -math.inf else found._replace(value=math.inf)


def _bound(seen: Observed, x: Array, penalty: bool, loss_curvature: float) -> Bound:
    found = theorem(seen.algorithm, seen, x)
    if not found.regret:
        return found
    if not math.isfinite(seen.domain.value(x)):
        found = found._replace(value=math.inf)
    elif not penalty and "penalty=True" in found.regret:
        k = seen.k_before if found.theorem == MCMAHAN_1 else seen.k
        found = found._replace(value=found.value + k * (seen.penalty.value(x) - seen.lowest))
    if not penalty:
        found = found._replace(regret=found.regret.replace("True", "False"))
    if loss_curvature > 0.0 and found.theorem != MCMAHAN_2_LEADER:
        value = found.value - 0.5 * loss_curvature * seen.spread(x)
        call = found.regret.replace("linearized_regret", "regret")
        found = Bound(value, f"{found.theorem}, losses strongly convex", call)
    return found


@singledispatch
def theorem(algorithm: Algorithm, seen: Observed, x: Array) -> Bound:
    """Return the bound of the theorem that covers this algorithm."""
    return _none(type(algorithm).__name__)


@theorem.register
def _rda(algorithm: RDA, seen: Observed, x: Array) -> Bound:
    gamma, sigma, T = algorithm.gamma, seen.sigma, seen.t
    D2, G2 = seen.distance(x), seen.largest**2
    beta_1 = algorithm.beta(1)
    beta_0 = max(sigma, beta_1)
    # Lemma 12 compares Psi with sigma R, which enhanced RDA's rho ||x||_1 may exceed.
    if not seen.minimal or (algorithm.rho > 0.0 and beta_0 > beta_1 > 0.0):
        return _mcmahan_1(seen, x)
    if algorithm.schedule == "sqrt" and gamma >= sigma:
        return Bound((gamma * D2 + G2 / gamma) * math.sqrt(T), XIAO_2, WITH_PENALTY)
    value = algorithm.beta(T) * D2 + 0.5 * G2 * seen.inverses + 2.0 * (beta_0 - beta_1) * G2 / (beta_1 + sigma) ** 2
    return Bound(value, XIAO_1, WITH_PENALTY)


@theorem.register
def _adagrad(algorithm: AdaGrad, seen: Observed, x: Array) -> Bound:
    eta, delta = algorithm.eta, algorithm.delta
    if algorithm.update == "dual_averaging":
        if not seen.minimal or np.any(seen.first.x) or delta < seen.largest_block:
            return _mcmahan_1(seen, x)
    elif not seen.minimal:
        return _none_minimal(seen)
    from_first = float(np.sum((x - seen.first.x) ** 2))
    moments = np.maximum(eta * (seen.h.values if isinstance(seen.h, Spectrum) else np.asarray(seen.h)) - delta, 0.0)
    if algorithm.strongly_convex:
        if delta == 0.0 or eta * seen.sigma < seen.largest_coordinate**2:
            return _mcmahan_12(seen, x)
        value = delta / (2.0 * eta) * from_first + 0.5 * eta * float(np.sum(np.log1p(moments / delta)))
        return Bound(value, DUCHI_13, WITH_PENALTY)
    tr = float(np.sum(moments))
    diagonal, full = algorithm.matrix == "diagonal", algorithm.matrix == "full"
    if algorithm.update == "dual_averaging":
        value = (delta * from_first + seen.block(x) * tr) / eta + eta * tr
        name = f"{DUCHI_6}, equation 16" if diagonal else f"{DUCHI_8}, equation 18" if full else DUCHI_14
    elif diagonal:
        value = (delta * from_first + seen.furthest(x) * tr) / (2.0 * eta) + eta * tr
        name = f"{DUCHI_6}, equation 17"
    else:
        value = delta * from_first / eta + seen.furthest(x) * tr / (2.0 * eta) + eta * tr
        name = f"{DUCHI_8}, equation 19" if full else DUCHI_14
    return Bound(value, name, WITH_PENALTY)


@theorem.register
def _ftrl_proximal(algorithm: FTRLProximal, seen: Observed, x: Array) -> Bound:
    return _mcmahan_10(seen, x, seen.centred(x, seen.h0))  # beta's share is centred at 0


@theorem.register
def _ftrl(algorithm: FTRL, seen: Observed, x: Array) -> Bound:
    origin, native = algorithm.centering == "origin", algorithm.past == "native"
    if origin and native:
        return _mcmahan_1(seen, x)
    if native:
        return _mcmahan_10(seen, x, seen.from_first(x))
    if not origin:
        return _mcmahan_12(seen, x)
    if np.any(seen.d_0):
        return _none("FTRL(centering='origin', past='linearized') at a rate that falls")
    return _mcmahan_12(seen, x, seen.centred(x, seen.h0))


@theorem.register
def _mirror(algorithm: MirrorDescent, seen: Observed, x: Array) -> Bound:
    if algorithm.implicit:
        return _none("MirrorDescent(implicit=True)")
    return _mcmahan_1(seen, x) if algorithm.projection == "lazy" else _mcmahan_12(seen, x)


@theorem.register
def _sgd(algorithm: SGD, seen: Observed, x: Array) -> Bound:
    # Mirror descent on f_t + Psi, linearized as a whole (so Psi need not be smallest at x_1): what the linear
    # losses give away is Psi's curvature. The constraint is all that is left of Theorem 12's Psi.
    value = seen.from_first(x) + seen.moving(x) + 0.5 * seen.squares_after
    return Bound(value - 0.5 * seen.sigma * seen.spread(x), MCMAHAN_12, WITH_PENALTY)


@theorem.register
def _truncated(algorithm: TruncatedGradient, seen: Observed, x: Array) -> Bound:
    if not isinstance(seen.penalty, NoPenalty) and (algorithm.every > 1 or algorithm.theta != math.inf):
        return _none("TruncatedGradient with every > 1 or a finite theta")
    found = _mcmahan_12(seen, x)  # the l1 part is Theorem 12's Psi, the l2 part is linearized with the loss
    return found._replace(value=found.value - 0.5 * seen.sigma * seen.spread(x))


@theorem.register
def _leader(algorithm: FollowTheLeader, seen: Observed, x: Array) -> Bound:
    if not seen.minimal:
        return _none_minimal(seen)
    return Bound(0.5 * seen.squares_after, MCMAHAN_2_LEADER, TRUE_LOSSES)


def _mcmahan_1(seen: Observed, x: Array) -> Bound:
    uneven = isinstance(seen.h0, np.ndarray) and np.ptp(seen.h0) > 0.0
    if uneven and np.any(seen.first.x) and not seen.penalty.separable:
        return _none(f"{type(seen.algorithm).__name__} with {seen.penalty!r}: r_0 is not smallest at the first point")
    if math.isinf(seen.squares_before):
        return _none(f"{type(seen.algorithm).__name__} whose step had no curvature along a gradient before it came")
    value = seen.centred(x, seen.h_before) + 0.5 * seen.squares_before
    if seen.minimal:
        return Bound(value, MCMAHAN_1, WITH_PENALTY)
    # With Psi among the regularizers no minimum is asked for, but the regret leaves Psi out.
    return Bound(value + seen.k_before * seen.penalty.value(x), MCMAHAN_1, WITHOUT_PENALTY)


def _mcmahan_10(seen: Observed, x: Array, r_0: float) -> Bound:
    if not seen.minimal:
        return _none_minimal(seen)
    value = r_0 + seen.moving(x) + 0.5 * seen.squares_after
    return Bound(value, MCMAHAN_2 if seen.penalty.is_constraint else MCMAHAN_10, WITH_PENALTY)


def _mcmahan_12(seen: Observed, x: Array, r_0: float | None = None) -> Bound:
    if not seen.minimal:
        return _none_minimal(seen)
    value = (seen.from_first(x) if r_0 is None else r_0) + seen.moving(x) + 0.5 * seen.squares_after
    return Bound(value, MCMAHAN_12, WITH_PENALTY)


def _none(what: str) -> Bound:
    return Bound(math.inf, f"none: no theorem of the four papers covers {what}", "")


def _none_minimal(seen: Observed) -> Bound:
    return _none(f"{type(seen.algorithm).__name__} with {seen.penalty!r}, which is not smallest at the first point")


def _is_number(h: Curvature) -> bool:
    return not isinstance(h, Spectrum) and np.ndim(h) == 0


def _ratio(a: float | Array, h: float | Array) -> Array:
    """Return a / h with 0/0 = 0 and a/0 = inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(a, h, out=np.zeros(np.broadcast(a, h).shape), where=np.not_equal(a, 0.0))


def _keeps_penalties(algorithm: Algorithm) -> bool:
    """Tell whether past penalties stand in the step as they are, with their curvature."""
    if isinstance(algorithm, FTRL):
        return algorithm.past == "native"
    if isinstance(algorithm, AdaGrad):
        return algorithm.update == "dual_averaging"
    return isinstance(algorithm, (RDA, FTRLProximal, FollowTheLeader))
