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
| s                     | AutoFTRL                    | the largest                                                |
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


class Sums(NamedTuple):
    """Changes of some features' cells, of the intercept's, and of what all share. All but `exact` ones add.

    exact : the cells, the intercept's and the clock are new values in place of changes: of one learner alone
    features : which, rising
    cells : a row a feature; of several classes side by side
    sizes : the largest s of AutoFTRL, a feature; else empty
    """

    exact: bool
    n_features: int
    features: Array
    cells: Array
    sizes: Array
    bias: Array
    clock: Array

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes to send them."""
        return sum(array.nbytes for array in (self.features, self.cells, self.sizes, self.bias, self.clock))


class Before(NamedTuple):
    """The state that learners start from: cells of the features that rows will touch, and what all share."""

    features: Array
    cells: Array
    bias: Array
    clock: Array


def before(engine: Any, features: Array) -> Before:
    """Return what rows with these features can change."""
    return Before(features, _cells(engine)[features].copy(), engine._bias.copy(), engine._clock.copy())


def taken_back(engine: Any, start: Before, lanes: int) -> Sums:
    """Put the engine back to where it started, and return what it has learned since from rows that weigh `lanes`."""
    cells = _cells(engine)
    after = cells[start.features]
    if lanes == 1:
        found = Sums(True, len(cells), start.features, after, np.empty(0), engine._bias.copy(), engine._clock.copy())
    else:
        found = _changes(engine, start, after, lanes)
    cells[start.features] = start.cells
    engine._bias[:] = start.bias
    engine._clock[:] = start.clock
    return found


def add(several: list[Sums]) -> Sums:
    """Return changes put together, in the order given."""
    if len(several) == 1:
        return several[0]
    if any(sums.exact for sums in several):
        raise ValueError("exact states are those of one learner alone: they do not add")
    n_features = max(sums.n_features for sums in several)
    place = np.zeros(n_features, np.int64)
    for sums in several:
        place[sums.features] = 1
    features = np.flatnonzero(place).astype(several[0].features.dtype)
    place[features] = np.arange(len(features))
    first = several[0]
    cells = np.zeros((len(features), first.cells.shape[1]), first.cells.dtype)
    sizes = np.zeros(len(features) if first.sizes.ndim and any(len(sums.sizes) for sums in several) else 0)
    bias, clock = np.zeros_like(first.bias), first.clock
    for i, sums in enumerate(several):
        at = place[sums.features]
        cells[at] += sums.cells
        if len(sums.sizes):
            sizes[at] = np.maximum(sizes[at], sums.sizes)
        bias += sums.bias
        if i:
            clock = _joined(clock, sums.clock)
    return Sums(False, n_features, features, cells, sizes, bias, clock)


def apply(engine: Any, sums: Sums) -> None:
    """Let an engine learn what others have, from the state that it is in."""
    engine.grow(sums.n_features)
    cells = _cells(engine)
    if sums.exact:
        cells[sums.features] = sums.cells
        engine._bias[:], engine._clock[:] = sums.bias, sums.clock
        return
    old = cells[sums.features]
    if isinstance(engine, AutoEngine):
        cells[sums.features] = _auto_cells(engine, old, sums)
        engine._bias[:] = _pairs(engine._bias, sums.bias)
    else:
        width = engine._state.shape[1]
        cells[sums.features] = _pairs(old.reshape(-1, width), sums.cells.reshape(-1, _columns(engine))).reshape(
            old.shape
        )
        engine._bias[:] = _pairs(engine._bias, sums.bias)
        engine._clock += sums.clock


# ---- cells


def _cells(engine: Any) -> Array:
    """Return the state as a row a feature, not copied."""
    state: Array = engine._state
    return state.reshape(engine.n_features, -1) if engine.n_features else state


def _columns(engine: Any) -> int:
    """Return how many numbers a cell's change has: z; z, r^2; or z, r^2, r and what was centred."""
    rule = engine._parts.rule
    return {rules.RDA: 1, rules.AdaGrad: 3}.get(type(rule), 5)


def _changes(engine: Any, start: Before, after: Array, lanes: int) -> Sums:
    """Return changes of cells, in the state's precision."""
    features, dtype = start.features, engine._state.dtype
    sizes = np.empty(0)
    if isinstance(engine, AutoEngine):
        old, new = (_absolute(engine, cells) for cells in (start.cells, after))
        sizes = new.size
        weights, intercepts = _weights(engine, after)
        kappa = _kappa(engine)
        change = _change(old.z, old.r, new.z, new.r, new.size[:, None] * weights / kappa, lanes)
        bias = _change(*_split(start.bias), *_split(engine._bias), intercepts[:, None] / kappa, lanes)
        clock = _auto_clock(start.clock, engine._clock, lanes)
    else:
        width, columns = engine._state.shape[1], _columns(engine)
        old_cells, new_cells = start.cells.reshape(-1, width), after.reshape(-1, width)
        rate = getattr(engine._parts.rule, "rate", 0.0)
        weights, intercepts = _weights(engine, after) if columns == 5 else (np.zeros(1), np.zeros(1))
        change = _change(*_split(old_cells), *_split(new_cells), rate * weights.reshape(-1, 1), lanes)[:, :columns]
        change = change.reshape(len(features), -1)
        bias = _change(*_split(start.bias), *_split(engine._bias), rate * intercepts.reshape(-1, 1), lanes)[:, :columns]
        clock = engine._clock - start.clock
        clock[rules.K] /= lanes
    moved = (change != 0.0).any(axis=1)
    if len(sizes):
        moved |= new.size != old.size
        sizes = sizes[moved]
    return Sums(False, engine.n_features, features[moved], change[moved].astype(dtype), sizes, bias, clock)


def _split(cells: Array) -> tuple[Array, Array]:
    """Return z and r of cells, as columns."""
    r = cells[:, 1:2] if cells.shape[1] > 1 else np.zeros((len(cells), 1))
    return cells[:, :1].astype(np.float64), r.astype(np.float64)


def _change(z: Array, r: Array, new_z: Array, new_r: Array, centred: Array, lanes: int) -> Array:
    """Return the changes of z and of r^2, its square, that of r, and what of z is centring, side by side."""
    more = (new_r - r) / lanes
    squares = more * (new_r + r) / lanes
    return np.concatenate(((new_z - z) / lanes, squares, squares * squares, more, more * centred), axis=1)


def _pairs(cells: Array, change: Array) -> Array:
    """Return cells (z, r) of one class each with their changes."""
    z, r = _split(cells)
    columns = [change[:, k : k + 1].astype(np.float64) for k in range(change.shape[1])]
    new_z, new_r = _together(z, r, columns)
    return np.concatenate((new_z, new_r), axis=1)[:, : cells.shape[1]]


def _together(z: Array, r: Array, change: list[Array]) -> tuple[Array, Array]:
    """Return z and r with changes that were added up."""
    if len(change) == 1:
        return z + change[0], r
    # The square of the sum over the sum of squares: by how many learners the coordinate was met.
    met = np.divide(change[1] * change[1], change[2], out=np.ones_like(r), where=change[2] > 0.0)
    new_r = np.sqrt(r * r + np.maximum(met, 1.0) * change[1])
    if len(change) == 3:
        return z + change[0], new_r
    surplus = 1.0 - np.divide(new_r - r, change[3], out=np.ones_like(r), where=change[3] > 0.0)
    return z + change[0] + surplus * change[4], new_r


def _weights(engine: Any, cells: Array) -> tuple[Array, Array]:
    """Return the weights that cells stand for now, (n, classes), and the intercepts."""
    state = engine._state
    engine._state = np.ascontiguousarray(cells).reshape(-1, state.shape[1])
    try:
        weights, intercepts = engine.weights()
    finally:
        engine._state = state
    n = len(engine._bias)
    return weights.reshape(len(cells), -1).astype(np.float64), np.atleast_1d(intercepts)[:n]


# ---- AutoFTRL


class Absolute(NamedTuple):
    """Cells of AutoFTRL in the units of the data: z and r a class, s a feature."""

    z: Array
    r: Array
    size: Array


def _kappa(engine: AutoEngine) -> float:
    begin: Any = auto.begin
    return float(begin(engine._parts.rule, engine._parts.penalty, engine._clock).kappa)


def _absolute(engine: AutoEngine, cells: Array) -> Absolute:
    """Return cells without their units: a cell is (z/s, r/s, 1/s), of classes first all z, then all r."""
    n = engine._classes
    wide = cells.astype(np.float64)
    if not isinstance(engine._parts.rule, auto.PerFeature):
        return Absolute(wide[:, :n], wide[:, n:], np.ones(len(cells)))
    seen = wide[:, -1] > 0.0
    size = np.divide(1.0, wide[:, -1], out=np.zeros(len(cells)), where=seen)
    return Absolute(wide[:, :n] * size[:, None], wide[:, n:-1] * size[:, None], size)


def _auto_cells(engine: AutoEngine, cells: Array, sums: Sums) -> Array:
    """Return cells with changes, and bring the clock up to date, the sizes' product among its numbers."""
    n, rule, clock = engine._classes, engine._parts.rule, engine._clock
    old = _absolute(engine, cells)
    parts = [sums.cells[:, k * n : (k + 1) * n].astype(np.float64) for k in range(5)]
    z, r = _together(old.z, old.r, parts)
    new = np.empty_like(cells)
    unit = np.ones(len(cells))
    if isinstance(rule, auto.PerFeature):
        size = np.maximum(old.size, sums.sizes)
        unit = np.divide(1.0, size, out=np.zeros(len(cells)), where=size > 0.0)
        new[:, -1] = unit
        unit = new[:, -1].astype(np.float64)
    new[:, :n], new[:, n : 2 * n] = z * unit[:, None], r * unit[:, None]
    _apply_clock(rule, clock, sums.clock)
    if isinstance(rule, auto.PerFeature):
        _count_sizes(clock, cells[:, -1].astype(np.float64), unit)
    auto_scale(rule, clock)
    return new


def _count_sizes(clock: Array, old: Array, new: Array) -> None:
    """Take changed units into the product of all units: its exponent, mantissa and count."""
    grown = (new > 0.0) & (new != old)
    mantissas, exponents = np.frexp(new[grown])
    less, lower = np.frexp(old[grown])
    known = less > 0.0
    logs = np.log2(mantissas) - np.log2(np.where(known, less, 1.0))
    total = math.log2(clock[auto.MANTISSA]) + float(logs.sum())
    whole = math.floor(total)
    clock[auto.SUM] += float(exponents.sum() - lower[known].sum()) + whole + 1
    clock[auto.MANTISSA] = 2.0 ** (total - whole - 1)
    clock[auto.COUNT] += np.count_nonzero(~known)


def auto_scale(rule: Any, clock: Array) -> None:
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


def _apply_clock(rule: Any, clock: Array, change: Array) -> None:
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
    if not isinstance(rule, auto.PerFeature):
        clock[[auto.SUM, auto.COUNT]] += change[[auto.SUM, auto.COUNT]]
