"""AutoFTRL: FTRL-Proximal that finds its own scales and rates.

Notation, beyond that of `base`:

| symbol     | meaning                                                                                     |
|------------|---------------------------------------------------------------------------------------------|
| z, r, s    | a feature's linear term, root of its sum of squared gradients, largest |x_j| seen            |
| st         | the scale that counts: s, but not below the floor S for a feature of little evidence         |
| kappa      | how far all weights go: e^a, the row size R and the tracking factor e^max(b, 0) in one       |
| beta, lam  | curvature before the first gradient (times e^c), and of the 1/t part of the rates            |
| P, G       | the units of predictions and slopes: 1 but for regression, whose labels set them             |
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from .. import validation as _checks
from ..component import component
from ..geometries import Curvature
from ..losses import Loss
from ..penalties import Penalty
from ..records import NamedTuple
from ..validation import Array
from . import auto_state
from .auto_state import SCALES, UNDECIDED, Auto, AutoTrial, join_scales
from .base import Example, ExampleAlgorithm, Point, Problem
from .ftrl import PENALTY_WEIGHTS


class Constants(NamedTuple):
    """All constants of AutoFTRL. Each may be off by a factor of 3 at little cost; none is meant to be tuned."""

    beta: float = 0.5  # first curvature: a feature's first step is about as long as the next ones
    lam: float = 0.05  # rates fall as 1/sqrt(n) up to about 1/lam^2 = 400 gradients, then towards 1/n
    lam_global: float = 0.03  # the same where one scale serves all features, which are then below it mostly
    floor: float = 2.0  # the floor in geometric means of s: above most features, far above few
    eta_a: float = 0.2  # step of a: calibration is learned slowly, it moves all weights
    eta_c: float = 1.0  # step of c: beta matters for rare features alone
    eta_b: float = 0.5  # step of b: it needs the evidence of many rows to leave its start below 0
    low_a: float = -7.0  # e^-7 to e^7: three orders of magnitude either way
    high_a: float = 7.0
    low_c: float = -7.0
    high_c: float = 5.0  # above it a feature would need e^5/2 = 74 gradients to move at all
    low_b: float = -1.0  # where b starts and ends: chance alone lifts it above 0 seldom, and never far
    high_b: float = 7.0  # 0 unless AutoFTRL is to track its stream
    recall: float = 0.5  # the recent slope is half the last one, a quarter the one before, ...


CONSTANTS = Constants()


class Shared(NamedTuple):
    """What all features of a row share."""

    kappa: float
    beta: float
    lam: float


@component
class AutoFTRL(ExampleAlgorithm):
    """FTRL-Proximal that finds its own scales and rates: the default, meant to be left alone.

    u = z, h = sigma / kappa, k = the penalty so far or 1, where with r_j the root of the sum of g_s^2 x_s,j^2, s_j the
    largest |x_j| seen and S twice the geometric mean of all s_j

        st_j = max(s_j, S / (1 + (r_j/s_j)^2)^4)           a rare feature seen small gets no huge weight
        sigma_j = st_j (beta st_j + r_j) + lam r_j^2
        kappa = e^(a + max(b, 0)) / sqrt(R),  beta = e^c / 2,  lam = e^-max(b, 0) / 20

    and each round's new curvature is centred at the point played, as in FTRLProximal. R is the mean over rows of
    1 + sum_j (x_j/s_j)^2. Three numbers are learned by gradient steps on the loss of each prediction p with slope g: a
    calibrates all weights (q = g p), c the weights of rare features (q = g dp/dc), and with `track` b lengthens the
    steps while slopes go on in one direction (q = -g times the recent slope): residuals of a model that keeps up with
    its stream are not correlated. Each moves by -eta q over the root of its sum of q^2; without `track`, b <= 0.
    All three are learned on rows that come for the first time: predictions for rows that have been learned before say
    nothing about new ones. Passes after the first leave them as they are.

    Multiplying all columns by one number changes nothing. A single column is not quite so free: made much smaller than
    the others it is held back by the floor S until it has shown (1 + (r_j/s_j)^2)^4 >= S/s_j, some ten gradients for a
    factor of 1e-4; made larger it lifts S for the others a little.
    For regression kappa has the unit of the labels and beta that of the slopes, so nor do the units of y matter; the
    slope is taken at p clipped to the labels' range so far. Multiclass: z and r a class, s a feature, the evidence
    (r_j/s_j)^2 and each q summed over classes.

    Parameters
    ----------
    penalty_weight : {"every_round", "once"}
        Psi comes in with every example (mean loss + Psi), or once and for all (sum of losses + Psi).
    scale : {"auto", "feature", "global"}
        A scale per feature, or one for all, the root mean square of all non-zeros: better on rows of unit length such
        as tf-idf text, bad where columns differ wildly. With "auto" both learn the first 4,096 rows, and the one with
        the lower progressive loss continues: see `proxstream.learner.trial`. Pairs of a ranker take "feature" then.
    track : bool
        Follow a stream that drifts: predictions for the next rows get better, and the model is one of the last rows.
        Not for rows that are sorted.

    Examples
    --------
    >>> import proxstream as ps
    >>> small, large = (ps.OnlineLearner(ps.AutoFTRL(), dim=2) for _ in range(2))
    >>> for x, y in [([1.0, 0.0], +1), ([0.0, 2.0], -1), ([3.0, 2.0], +1)]:
    ...     _ = small.learn(x, y, "logistic")
    ...     _ = large.learn([1024.0 * value for value in x], y, "logistic")
    >>> small.point.round(3)
    array([ 0.22 , -0.058])
    >>> bool((1024.0 * large.point == small.point).all())
    True

    References: McMahan 2017, section 3.4, for FTRL-Proximal; Orabona and Pal 2015, Scale-free algorithms for online
    linear optimization, and Ross, Mineiro and Langford 2013, Normalized online learning, for the idea of scale.
    """

    penalty_weight: str = "every_round"
    scale: str = "auto"
    track: bool = False

    name: ClassVar[str] = "auto_ftrl"

    def __post_init__(self) -> None:
        _checks.one_of("penalty_weight", self.penalty_weight, PENALTY_WEIGHTS)
        _checks.one_of("scale", self.scale, ("auto", *SCALES))
        object.__setattr__(self, "track", _checks.truth("track", self.track))

    @property
    def constants(self) -> Constants:
        """The constants that the steps take."""
        return CONSTANTS if self.track else CONSTANTS._replace(high_b=0.0)

    def start(self, at: Point) -> Auto | AutoTrial:
        """Return no examples."""
        if self.scale == "auto":
            return join_scales([one._start(at) for one in self._each()], np.zeros(2), UNDECIDED)
        return self._start(at)

    def _each(self) -> tuple[AutoFTRL, ...]:
        """Return the algorithm with each scale."""
        return tuple(replace(self, scale=scale) for scale in SCALES)

    def _start(self, at: Point) -> Auto:
        zeros = np.zeros_like(at.x)
        sums = np.array([0.0, 1.0, 0.0]) if self.scale == "feature" else np.zeros(3)
        return Auto(
            z=zeros,
            r=zeros,
            s=np.zeros(len(at.x)),
            a=0.0,
            b=CONSTANTS.low_b,
            c=0.0,
            squares_a=1.0,
            squares_b=1.0,
            squares_c=1.0,
            recent=np.zeros(at.x.shape[1:]),
            sums=sums,
            scale=0.0,
            size=0.0,
            lo=0.0,
            hi=0.0,
            P=0.0,
            G=0.0,
            k=0.0,
            t=0,
        )

    def h(self, s: Auto | AutoTrial) -> Curvature:
        """Return sigma / kappa."""
        if isinstance(s, AutoTrial):
            return self._each()[s.ahead].h(s.of_scale(s.ahead))
        return self._sigma(s) / self._shared(s).kappa

    def problem(self, s: Auto | AutoTrial, at: Point) -> Problem:
        """Return (z, sigma / kappa, the penalty so far or 1)."""
        if isinstance(s, AutoTrial):
            return self._each()[s.ahead].problem(s.of_scale(s.ahead), at)
        return Problem(s.z, self.h(s), self._k(s))

    def penalty_weight_at(self, t: int) -> float:
        """Return 1, or 1 in the first round alone."""
        return 1.0 if self.penalty_weight == "every_round" or t == 1 else 0.0

    def learn(
        self, s: Auto | AutoTrial, at: Point, example: Example, penalty: Penalty
    ) -> tuple[Auto | AutoTrial, Point]:
        """Take one example: its slope, its steps of a, b and c, and its features' sizes."""
        return self._try(s, at, example, penalty) if isinstance(s, AutoTrial) else self._learn(s, at, example, penalty)

    def _try(self, s: AutoTrial, at: Point, example: Example, penalty: Penalty) -> tuple[AutoTrial, Point]:
        """Take one example with both scales, or with the one that is left."""
        states, points, losses = [s.of_scale(0), s.of_scale(1)], [at, at], s.losses.copy()
        for i, one in enumerate(self._each()):
            if s.decision not in (UNDECIDED, i):
                continue
            own = at if i == s.ahead or states[i].t == 0 else one._point(states[i], at, penalty)
            played = example._replace(p=example.z @ own.x)
            states[i], points[i] = one._learn(states[i], own, played, penalty)
            if s.decision == UNDECIDED and not example.repeated:
                losses[i] += example.c * float(np.mean(example.loss.value(played.p, example.y)))
        new = join_scales(states, losses, s.decision)
        if s.decision == UNDECIDED and states[0].t >= auto_state.TRIAL:
            new = new._replace(decision=new.ahead)
        return new, points[new.ahead]

    def _learn(self, s: Auto, at: Point, example: Example, penalty: Penalty) -> tuple[Auto, Point]:
        x, w, p = example.z, at.x, example.p
        if x.ndim != 1:
            raise TypeError(f"AutoFTRL learns one example at a time, got {len(x)} rows")
        labels, ranged = units_move(example.loss)
        clipped = np.clip(p, s.lo, s.hi) if ranged else p
        g = example.c * np.asarray(example.loss.slope(clipped, example.y), dtype=np.float64)
        kappa, beta, lam = self._shared(s)
        st, sigma = _rows(self._scales(s), w), self._sigma(s)
        full = sigma + kappa * self._k(s) * penalty.strong_convexity
        moved = np.divide(beta * st * st * w, full, out=np.zeros_like(w), where=full > 0.0)
        q = float(np.sum(g * p)), -float(np.sum(g * s.recent)), -float(np.sum(g * (x @ moved)))
        rates = s if example.repeated else _adapted(self.constants, s, *q)
        recent = np.asarray(CONSTANTS.recall * s.recent + (1.0 - CONSTANTS.recall) * g)
        new = self._seen(s, x)
        st = _rows(self._scales(new._replace(scale=s.scale)), w)
        gx = np.multiply.outer(x, g)
        r = np.sqrt(s.r * s.r + gx * gx)
        z = s.z + gx - (st * (r - s.r) + lam * gx * gx) / kappa * w
        new = new._replace(
            z=z,
            r=r,
            a=rates.a,
            b=rates.b,
            c=rates.c,
            squares_a=rates.squares_a,
            squares_b=rates.squares_b,
            squares_c=rates.squares_c,
            recent=recent,
            k=s.k + example.c,
            t=s.t + 1,
        )
        if labels:
            y = float(example.y)
            new = new._replace(lo=min(s.lo, y), hi=max(s.hi, y), P=max(s.P, abs(y)) if ranged else 0.0)
            new = new._replace(G=max(s.G, abs(float(example.loss.slope(0.0, y)))))
        return new, self._point(new, at, penalty)

    def _point(self, s: Auto, at: Point, penalty: Penalty) -> Point:
        return self.point(self.space.solve(penalty, *self.problem(s, at)))

    def _k(self, s: Auto) -> float:
        return s.k if self.penalty_weight == "every_round" else 1.0

    def _shared(self, s: Auto) -> Shared:
        """Return kappa, beta and lam for the next row."""
        P, G, track = s.P or 1.0, s.G or 1.0, math.exp(max(s.b, 0.0))
        lam = CONSTANTS.lam if self.scale == "feature" else CONSTANTS.lam_global
        size = s.size / s.t if s.t else 1.0
        return Shared(
            P * track * math.exp(s.a) / math.sqrt(size), G * CONSTANTS.beta * math.exp(s.c), lam / (G * track)
        )

    def _scales(self, s: Auto) -> Array:
        """Return st, 0 for a feature never seen."""
        if self.scale == "global":
            return np.full(len(s.s), s.scale)
        total = np.sqrt(np.sum(s.r * s.r, axis=1)) if s.r.ndim == 2 else s.r
        ratio = np.divide(total, s.s * (s.G or 1.0), out=np.zeros_like(s.s), where=s.s > 0.0)
        floored = np.maximum(s.s, s.scale / (1.0 + ratio * ratio) ** 4)
        return np.where((s.s > 0.0) & (s.s < s.scale), floored, s.s)

    def _sigma(self, s: Auto) -> Array:
        _, beta, lam = self._shared(s)
        st = _rows(self._scales(s), s.r)
        return np.asarray(st * (beta * st + s.r) + lam * s.r * s.r)

    def _seen(self, s: Auto, x: Array) -> Auto:
        """Return the state after the sizes of a row's features."""
        v = np.abs(x)
        if self.scale == "global":
            sums = s.sums + np.array([float(v @ v), np.count_nonzero(v), 0.0])
            scale = math.sqrt(sums[0] / sums[1]) if sums[1] else 0.0
            size = s.size + 1.0 + (float(v @ v) / scale**2 if scale else 0.0)
            return s._replace(sums=sums, scale=scale, size=size)
        grown = v > s.s
        sizes = np.maximum(s.s, v)
        sums = s.sums.copy()
        for j in np.flatnonzero(grown):
            add_size(sums, float(s.s[j]), float(v[j]))
        ratio = np.divide(v, sizes, out=np.zeros_like(v), where=sizes > 0.0)
        scale = CONSTANTS.floor * geometric_mean(sums) if grown.any() else s.scale
        return s._replace(s=sizes, sums=sums, scale=scale, size=s.size + 1.0 + float(ratio @ ratio))


def units_move(loss: Loss) -> tuple[bool, bool]:
    """Return whether labels set the units of a loss, and whether predictions have the labels' range.

    >>> from proxstream import losses
    >>> units_move(losses.logistic), units_move(losses.squared), units_move(losses.poisson)
    ((False, False), (True, True), (True, False))
    """
    return loss.kind == "regression", loss.link == "identity"


def adapt(value: float, squares: float, q: float, eta: float, low: float, high: float) -> tuple[float, float]:
    """Return a learned number after one gradient step, and its sum of squares.

    >>> adapt(0.0, 1.0, 0.75, 0.5, -7.0, 7.0)
    (-0.3, 1.5625)
    """
    squares += q * q
    return min(max(value - eta * q / math.sqrt(squares), low), high), squares


def _adapted(by: Constants, s: Auto, q_a: float, q_b: float, q_c: float) -> Auto:
    """Return the state after a step of a, b and c each."""
    G = s.G or 1.0
    unit = (s.P or 1.0) * G
    a, squares_a = adapt(s.a, s.squares_a, q_a / unit, by.eta_a, by.low_a, by.high_a)
    b, squares_b = adapt(s.b, s.squares_b, q_b / G**2, by.eta_b, by.low_b, by.high_b)
    c, squares_c = adapt(s.c, s.squares_c, q_c / unit, by.eta_c, by.low_c, by.high_c)
    return s._replace(a=a, b=b, c=c, squares_a=squares_a, squares_b=squares_b, squares_c=squares_c)


def add_size(sums: Array, old: float, new: float) -> None:
    """Put a feature's new size in place of its old one, 0 for none, in the product that `sums` holds.

    The product is kept as a mantissa and an exponent, so that powers of two pass through it without rounding.
    """
    mantissa, exponent = math.frexp(new)
    if old > 0.0:
        less, lower = math.frexp(old)
        mantissa, exponent = mantissa / less, exponent - lower
    else:
        sums[2] += 1.0
    mantissa, carry = math.frexp(sums[1] * mantissa)
    sums[0] += exponent + carry
    sums[1] = mantissa


def geometric_mean(sums: Array) -> float:
    """Return the geometric mean of the sizes; the whole powers of two are taken out first, exactly.

    >>> sums = np.array([0.0, 1.0, 0.0])
    >>> for size in (3.0, 4.0, 18.0):
    ...     add_size(sums, 0.0, size)
    >>> round(geometric_mean(sums), 12)
    6.0
    """
    exponent, mantissa, count = sums
    whole = math.floor(exponent / count)
    return math.ldexp(2.0 ** ((exponent - whole * count + math.log2(mantissa)) / count), whole)


def _rows(values: Array, like: Array) -> Array:
    """Return one number per feature, ready to meet weights of shape (features,) or (features, classes)."""
    return values if like.ndim == 1 else values[:, None]
