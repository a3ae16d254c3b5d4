"""What rows have changed in an engine's state, in a form that adds: the ground on which learners work apart and meet.

Dual averaging keeps sums over rows and reads its weights off them. So n learners start from one state, each learns rows
of its own, and what they found is added. Added as it is, it would be unstable: where all n find that a weight has to go
a step, the sum goes n steps. Each learner therefore takes its rows n times as heavy, as if every other learner met
their twins, and goes as far as all of them will go together; what it found is divided by n before it is added. The
gradients that come into u are then those of the rows, each once, and where all agree, their mean is the new state.

| part                  | of which algorithms         | put together                                               |
|-----------------------|-----------------------------|------------------------------------------------------------|
| u or z                | all                         | changes over n add; z: and see centring below              |
| r^2                   | AdaGrad, FTRLProximal, Auto | changes over n^2 add, times m: by how many it was met      |
| t                     | all                         | changes add                                                |
| k                     | all                         | changes over n add                                         |
| 1/s                   | AutoFTRL                    | the least: that of the largest value                       |
| a, b, c               | AutoFTRL                    | each learner's estimate of one number: their mean by rows  |
| sums of q^2           | AutoFTRL                    | changes over n add                                         |
| sum of row sizes      | AutoFTRL                    | changes add                                                |
| S                     | AutoFTRL                    | from all s, or with one global scale from sums that add    |
| P, G, labels' range   | AutoFTRL                    | the widest                                                 |
| recent slope          | AutoFTRL                    | the mean by rows, over n                                   |

With d_i the change over n^2 of r^2 that learner i brings, m = (sum d_i)^2 / sum d_i^2 is 1 for a feature that one
learner alone has met, whose r^2 is then that of its rows, and n for one that all met alike, whose r is then that of
each learner: rates fall sqrt(n) times faster than in one stream, which is the price of n gradients at a stale point.

Centring. FTRL-Proximal centres each round's new curvature, rate (r_t - r_(t-1)), at the point played, and so has
sum_i (r_i - r_0) / n centred where curvature has grown by r - r_0. The difference is taken back at the points w_i where
the learners ended:

    z = z_0 + sum_i (z_i - z_0) / n + (1 - n (r - r_0) / sum_i (r_i - r_0)) rate sum_i (r_i - r_0) w_i / n

which is nothing for a feature that all met alike. Where there is one learner, its state is taken as it is.

Mirror descent, SGD, AROW and passive-aggressive steps keep the point itself, which is no sum over rows.

References: H. B. McMahan, M. Streeter, Delay-tolerant algorithms for asynchronous distributed online learning, 2014;
C. Ma et al., Adding vs. averaging in distributed primal-dual optimization, 2015 (the same remedy for dual steps).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._checks import Array
from ..algorithms import Algorithm
from ..kernels import auto, rules
from ..kernels import sums as kernel
from .auto import AutoEngine
from .multiclass import MulticlassEngine
from .scalar import ScalarEngine

SUMMED = (rules.RDA, rules.AdaGrad, rules.FTRLProximal)
ADDED = [auto.T, auto.K, auto.SQUARES_A, auto.SQUARES_B, auto.SQUARES_C, auto.SIZE]
MEANS = [auto.A, auto.B, auto.C]
WIDEST = [auto.HI, auto.P_UNIT, auto.G_UNIT]


def refusal(algorithm: Algorithm, engine: Any, average: bool = False) -> str:
    """Return why what an engine learns does not add up, or an empty string."""
    known = "RDA, AdaGrad(update='dual_averaging'), FTRLProximal and AutoFTRL"
    if average:
        return "the mean of the weights played is no sum of what workers learn apart: average must be False"
    if isinstance(engine, AutoEngine):
        return ""
    if isinstance(engine, (ScalarEngine, MulticlassEngine)):
        if isinstance(engine._parts.rule, SUMMED):
            return ""
        return f"the state of {algorithm!r} is no sum over rows, as that of {known} is"
    return f"{algorithm!r} runs on dense vectors with this penalty or geometry; what adds up are {known}, compiled"


ALL = 4  # non-zeros a feature from which on the whole state is compared, in place of the features that rows have
DENSE = 0.75  # of the features: from there on changes of all are kept, without their numbers
FEW_STILL = 0.9  # of the features of rows: where as many have moved, the others are sent along as they are
NO_FEATURES = np.empty(0, np.int32)


class Sums(NamedTuple):
    """Changes of some features' cells, of the intercept's, and of what all share. All but `exact` ones add.

    exact : the cells, the intercept's and the clock are new values in place of changes: of one learner alone
    features : which, rising; empty where row i of the cells is of feature i
    cells : a row a feature; of several classes side by side
    units : the least 1/s of AutoFTRL, a feature, 0 where it has none; else empty
    """

    exact: bool
    n_features: int
    features: Array
    cells: Array
    units: Array
    bias: Array
    clock: Array

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes to send them."""
        return sum(array.nbytes for array in (self.features, self.cells, self.units, self.bias, self.clock))


class Before(NamedTuple):
    """The state that learners start from: cells of features that rows may touch (empty: all), and what all share."""

    features: Array
    cells: Array
    bias: Array
    clock: Array


def touched(n_features: int, indices: list[Array]) -> Array:
    """Return the features that are there, rising; empty stands for all, where it is not worth while to look."""
    if sum(map(len, indices)) >= ALL * n_features:
        return NO_FEATURES
    marked = np.zeros(n_features, bool)
    for some in indices:
        kernel.mark(some, marked)
    return np.flatnonzero(marked).astype(np.int32)


def before(engine: Any, features: Array) -> Before:
    """Return what rows with these features (empty: with any) can change."""
    cells = _cells(engine)
    kept = kernel.taken(cells, features) if len(features) else cells.copy()
    return Before(features, kept, engine._bias.copy(), engine._clock.copy())


def taken_back(engine: Any, start: Before, lanes: int) -> Sums:
    """Put the engine back to where it started, and return what it has learned since from rows that weigh `lanes`."""
    cells, features = _cells(engine), start.features
    after = kernel.taken(cells, features) if len(features) else cells
    if lanes == 1:
        clock = engine._clock.copy()
        found = Sums(True, len(cells), features, after.copy(), np.empty(0), engine._bias.copy(), clock)
    else:
        found = _changes(engine, start, after, lanes)
    if len(features):
        kernel.put(cells, features, start.cells)
    else:
        cells[:] = start.cells
    engine._bias[:] = start.bias
    engine._clock[:] = start.clock
    return found


def add(several: list[Sums]) -> Sums:
    """Return changes put together, in the order given."""
    if len(several) == 1:
        return several[0]
    if any(sums.exact for sums in several):
        raise ValueError("exact states are those of one learner alone: they do not add")
    first, n_features = several[0], max(sums.n_features for sums in several)
    features, place, rows = _union(several, n_features)
    cells = np.zeros((rows, first.cells.shape[1]), first.cells.dtype)
    units = np.zeros(rows if any(len(sums.units) for sums in several) else 0, first.units.dtype)
    bias, clock = np.zeros_like(first.bias), first.clock
    for i, sums in enumerate(several):
        kernel.add(sums.features, place, sums.cells, sums.units, cells, units)
        bias += sums.bias
        if i:
            clock = _joined(clock, sums.clock)
    return Sums(False, n_features, features, cells, units, bias, clock)


def _union(several: list[Sums], n_features: int) -> tuple[Array, Array, int]:
    """Return the features of all, the place of each among them, and how many; neither of both where all have one."""
    if any(len(sums.cells) > len(sums.features) for sums in several):
        return NO_FEATURES, NO_FEATURES, n_features
    marked = np.zeros(n_features, bool)
    for sums in several:
        kernel.mark(sums.features, marked)
    features = np.flatnonzero(marked).astype(np.int32)
    if len(features) >= DENSE * n_features:
        return NO_FEATURES, NO_FEATURES, n_features
    place = np.zeros(n_features, np.int32)
    place[features] = np.arange(len(features), dtype=np.int32)
    return features, place, len(features)


def apply(engine: Any, sums: Sums) -> None:
    """Let an engine learn what others have, from the state that it is in."""
    engine.grow(sums.n_features)
    cells = _cells(engine)
    if sums.exact:
        if len(sums.features):
            cells[sums.features] = sums.cells
        else:
            cells[: len(sums.cells)] = sums.cells
        engine._bias[:], engine._clock[:] = sums.bias, sums.clock
        return
    grown = np.zeros(3)
    kernel.apply(cells, sums.features, *_layout(engine), sums.cells, sums.units, grown)
    kernel.apply(engine._bias, NO_FEATURES, *_bias_layout(engine), sums.bias, np.empty(0), np.zeros(3))
    if isinstance(engine, AutoEngine):
        _apply_clock(engine._parts.rule, engine._clock, sums.clock, grown)
    else:
        engine._clock += sums.clock


# ---- cells


def _cells(engine: Any) -> Array:
    """Return the state as a row a feature, not copied."""
    state: Array = engine._state
    return state.reshape(engine.n_features, -1) if engine.n_features else state


class Layout(NamedTuple):
    """Where z, r and the unit stand in a cell, and how many numbers its change has a class; see `kernels.sums`."""

    z_at: Array
    r_at: Array
    unit_at: int
    columns: int


def _layout(engine: Any) -> Layout:
    """Return the layout of a feature's cells: class by class, or for AutoFTRL all z, then all r, then the unit."""
    rule = engine._parts.rule
    if isinstance(engine, AutoEngine):
        z = np.arange(engine._classes)
        return Layout(z, z + engine._classes, 2 * engine._classes if isinstance(rule, auto.PerFeature) else -1, 5)
    width = engine._state.shape[1]
    z = np.arange(getattr(engine, "n_classes", 1)) * width
    columns = {rules.RDA: 1, rules.AdaGrad: 3}.get(type(rule), 5)
    return Layout(z, z + 1 if columns > 1 else z[:0], -1, columns)


def _bias_layout(engine: Any) -> Layout:
    """Return the layout of the intercepts' cells: z and r, one class a row."""
    columns = _layout(engine).columns
    return Layout(np.zeros(1, np.int64), np.ones(1 if columns > 1 else 0, np.int64), -1, columns)


def _changes(engine: Any, start: Before, after: Array, lanes: int) -> Sums:
    """Return changes of cells, in the state's precision."""
    layout, auto_engine = _layout(engine), isinstance(engine, AutoEngine)
    n, classes, columns = len(after), len(layout.z_at), layout.columns
    units = np.empty(n if layout.unit_at >= 0 else 0, after.dtype)
    weights, intercepts = np.zeros((n, classes), after.dtype), np.zeros((len(engine._bias), 1))
    rate = 0.0
    if columns > 3:
        weights, intercepts = _weights(engine, after)
        rate = 1.0 / _kappa(engine) if auto_engine else float(engine._parts.rule.rate)
    change = np.empty((n, classes * columns), after.dtype)
    moved = np.empty(n, bool)
    kernel.find(start.cells, after, *layout[:3], weights, rate, lanes, columns, change, units, moved)
    bias, own = np.empty((len(engine._bias), columns)), _bias_layout(engine)
    none = np.empty(0), np.empty(len(bias), bool)
    kernel.find(start.bias, engine._bias, *own[:3], intercepts, rate, lanes, columns, bias, *none)
    if auto_engine:
        clock = _auto_clock(start.clock, engine._clock, lanes)
    else:
        clock = engine._clock - start.clock
        clock[rules.K] /= lanes
    features, there = start.features, int(np.count_nonzero(moved))
    if there < (FEW_STILL if len(features) else DENSE) * len(moved):
        features = features[moved] if len(features) else np.flatnonzero(moved).astype(np.int32)
        change, units = change[moved], units[moved] if len(units) else units
    return Sums(False, engine.n_features, features, change, units, bias, clock)


def _weights(engine: Any, cells: Array) -> tuple[Array, Array]:
    """Return the weights that cells stand for now, (n, classes), and the intercepts."""
    state = engine._state
    engine._state = np.ascontiguousarray(cells).reshape(-1, state.shape[1])
    try:
        weights, intercepts = engine.weights()
    finally:
        engine._state = state
    n = len(engine._bias)
    return weights.reshape(len(cells), -1), np.atleast_1d(intercepts)[:n].reshape(-1, 1)


# ---- AutoFTRL


def _kappa(engine: AutoEngine) -> float:
    begin: Any = auto.begin
    return float(begin(engine._parts.rule, engine._parts.penalty, engine._clock).kappa)


def _scale(rule: Any, clock: Array) -> None:
    """Bring S, or the global scale, up to date (see `kernels.auto.measure`)."""
    if clock[auto.COUNT] == 0.0:
        return
    if isinstance(rule, auto.PerFeature):
        exponent = (clock[auto.SUM] + math.log2(clock[auto.MANTISSA])) / clock[auto.COUNT]
        clock[auto.SCALE] = rule.constants.floor * 2.0**-exponent
    elif clock[auto.SUM] > 0.0:
        clock[auto.SCALE] = math.sqrt(clock[auto.SUM] / clock[auto.COUNT])


def _auto_clock(old: Array, new: Array, lanes: int) -> Array:
    """Return the change of a clock: sums, and what becomes a mean already times its rows; widths as they are now."""
    change = new - old
    rows = change[auto.T]
    change[MEANS] *= rows
    change[auto.RECENT :] = new[auto.RECENT :] * rows / lanes
    change[[auto.K, auto.SQUARES_A, auto.SQUARES_B, auto.SQUARES_C]] /= lanes
    for at in (auto.LO, *WIDEST):
        change[at] = new[at]
    change[auto.SCALE], change[auto.MANTISSA] = 0.0, 0.0
    return change


def _joined(one: Array, other: Array) -> Array:
    """Return two changes of a clock as one; those of engines other than AutoFTRL's just add."""
    both = one + other
    if len(both) > auto.RECENT:
        both[auto.LO] = min(one[auto.LO], other[auto.LO])
        both[WIDEST] = np.maximum(one[WIDEST], other[WIDEST])
    return np.asarray(both)


def _apply_clock(rule: Any, clock: Array, change: Array, grown: Array) -> None:
    """Change a clock; `grown` is what the cells' units add to the exponents, mantissas and count of all units."""
    rows = max(float(change[auto.T]), 1.0)
    clock[ADDED] += change[ADDED]
    constants = rule.constants
    lows, highs = (
        (constants.low_a, constants.low_b, constants.low_c),
        (constants.high_a, constants.high_b, constants.high_c),
    )
    clock[MEANS] = np.clip(clock[MEANS] + change[MEANS] / rows, lows, highs)
    clock[auto.RECENT :] = change[auto.RECENT :] / rows
    clock[auto.LO] = min(clock[auto.LO], change[auto.LO])
    clock[WIDEST] = np.maximum(clock[WIDEST], change[WIDEST])
    if isinstance(rule, auto.PerFeature):
        exponents, logarithms, new = map(float, grown)
        total = math.log2(clock[auto.MANTISSA]) + logarithms
        whole = math.floor(total) + 1
        clock[auto.SUM] += exponents + whole
        clock[auto.MANTISSA] = 2.0 ** (total - whole)
        clock[auto.COUNT] += new
    else:
        clock[[auto.SUM, auto.COUNT]] += change[[auto.SUM, auto.COUNT]]
    _scale(rule, clock)
