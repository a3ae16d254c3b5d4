"""Changes of an engine's state in a form that adds, so that learners can learn separately and be merged.

Dual averaging keeps sums over rows and reads its weights off them. So n learners start from one state, each learns its
own rows, and their changes are added. Added as they are, they would be unstable: where all n find that a weight should
move by a step, the sum moves it by n steps. Each learner therefore weighs its rows n times, as if every other learner
met the same rows, and moves as far as all of them will together; its changes are divided by n before they are added.
The gradients in u are then those of the rows, each once, and where all agree, their mean is the new state.

| part                  | of which algorithms         | merged                                                     |
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

which is nothing for a feature that all met alike. The state of a single learner is copied.

Several strengths side by side (`path`) are merged as each would be alone: a model whose own numbers have not moved
stays as it is, to the last bit, whatever has moved beside it.

Mirror descent, SGD, AROW and passive-aggressive steps keep the point itself, which is not a sum over rows.

References: H. B. McMahan, M. Streeter, Delay-tolerant algorithms for asynchronous distributed online learning, 2014;
C. Ma et al., Adding vs. averaging in distributed primal-dual optimization, 2015 (the same remedy for dual steps).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.algorithms import Algorithm
from ..core.records import NamedTuple
from ..core.validation import Array
from . import _auto as auto, _merge as kernel
from .engine import CompiledEngine
from .layouts import AutoLayout
from .trial import TrialEngine


def refusal(algorithm: Algorithm, engine: Any, average: bool = False) -> str:
    """Return why what an engine learns does not add up, or an empty string."""
    known = "RDA, AdaGrad(update='dual_averaging'), FTRLProximal and AutoFTRL"
    if average:
        return "the mean of the weights played is not a sum of what workers learn apart: average must be False"
    first = engines_of(engine)[0]
    if isinstance(engine, TrialEngine) or isinstance(first, TrialEngine) or getattr(engine, "undecided", False):
        return "AutoFTRL(scale='auto') compares both scales on one stream: settle_scale() keeps one"
    if not isinstance(first, CompiledEngine):
        return f"{algorithm!r} runs on dense vectors with this penalty or geometry; what adds up are {known}, compiled"
    return "" if first.layout.adds_up else f"the state of {algorithm!r} is not a sum over rows, as that of {known} is"


def engines_of(engine: Any) -> tuple[Any, ...]:
    """Return the compiled engines that an engine is made of, each of which has changes: that of a path has several."""
    found: tuple[Any, ...] = getattr(engine, "engines", (engine,))
    return found


ALL = 4  # non-zeros per feature from which on all cells are compared, not only those of the rows' features
DENSE = 0.75  # share of features from which on changes of all are stored, without the features' numbers
FEW_STILL = 0.9  # share of the rows' features: where as many have moved, the others are sent too
NO_FEATURES = np.empty(0, np.int32)


class Sums(NamedTuple):
    """Changes of some features' cells, of the intercept's, and of what all share. All but `exact` ones add.

    exact : the cells, the intercept's and the clock are new values in place of changes: of one learner alone
    features : which, rising; empty where row i of the cells is of feature i
    cells : a row per feature; several classes side by side
    units : the least 1/s of AutoFTRL per feature, 0 where it has none; else empty
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
    """Return the features that occur, rising; empty means all, where most of them do."""
    if sum(map(len, indices)) >= ALL * n_features:
        return NO_FEATURES
    marked = np.zeros(n_features, bool)
    for some in indices:
        kernel.mark(some, marked)
    return np.flatnonzero(marked).astype(np.int32)


def before(engine: Any, features: Array) -> Before:
    """Return what rows with these features (empty: with any) can change."""
    cells = engine.cells
    kept = kernel.taken(cells, features) if len(features) else cells.copy()
    return Before(features, kept, engine.bias.copy(), engine.clock.copy())


def withdraw(engine: Any, start: Before, lanes: int) -> Sums:
    """Restore the engine's start and return what it has learned since from rows that weigh `lanes` times as much."""
    cells, features = engine.cells, start.features
    after = kernel.taken(cells, features) if len(features) else cells
    if lanes == 1:
        clock = engine.clock.copy()
        found = Sums(True, len(cells), features, after.copy(), np.empty(0), engine.bias.copy(), clock)
    else:
        found = _changes(engine, start, after, lanes)
    if len(features):
        kernel.put(cells, features, start.cells)
    else:
        cells[:] = start.cells
    engine.bias[:] = start.bias
    engine.clock[:] = start.clock
    return found


def add(several: list[Sums]) -> Sums:
    """Return the sum of changes, added in the order given."""
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
    cells = engine.cells
    if sums.exact:
        if len(sums.features):
            cells[sums.features] = sums.cells
        else:
            cells[: len(sums.cells)] = sums.cells
        engine.bias[:], engine.clock[:] = sums.bias, sums.clock
        return
    grown = np.zeros(3)
    columns = engine.layout.columns()
    kernel.apply(cells, sums.features, *columns, sums.cells, sums.units, grown)
    bias, change = engine.bias.reshape(1, -1), sums.bias.reshape(1, -1)
    kernel.apply(bias, NO_FEATURES, *columns.of_bias(engine.bias), change, np.empty(0), np.zeros(3))
    engine.layout.apply_clock(engine.clock, sums.clock, grown)


def _changes(engine: CompiledEngine, start: Before, after: Array, lanes: int) -> Sums:
    """Return changes of cells, in the state's precision."""
    layout, columns = engine.layout, engine.layout.columns()
    n, classes, numbers = len(after), len(columns.z_at), columns.columns
    units = np.empty(n if columns.unit_at >= 0 else 0, after.dtype)
    weights, intercepts = np.zeros((n, classes), after.dtype), np.zeros((1, len(engine.bias)))
    rates = np.zeros(classes)
    if numbers > 3:
        rates[:] = layout.rate(engine.clock)
        weights, own = engine.weights_of(after)
        weights = weights.reshape(n, classes)
        intercepts[0] = np.atleast_1d(own)[: len(engine.bias)]
    change = np.empty((n, classes * numbers), after.dtype)
    moved = np.empty(n, bool)
    kernel.find(start.cells, after, *columns, weights, rates, lanes, change, units, moved)
    bias, none = np.empty((1, len(engine.bias) * numbers)), (np.empty(0), np.empty(1, bool))
    old, new = start.bias.reshape(1, -1), engine.bias.reshape(1, -1)
    kernel.find(old, new, *columns.of_bias(start.bias), intercepts, rates, lanes, bias, *none)
    clock = layout.clock_change(start.clock, engine.clock, lanes)
    features, there = start.features, int(np.count_nonzero(moved))
    if there < (FEW_STILL if len(features) else DENSE) * len(moved):
        features = features[moved] if len(features) else np.flatnonzero(moved).astype(np.int32)
        change, units = change[moved], units[moved] if len(units) else units
    return Sums(False, engine.n_features, features, change, units, bias.reshape(-1, numbers), clock)


def _joined(one: Array, other: Array) -> Array:
    """Return two changes of a clock as one; those of engines other than AutoFTRL's just add."""
    return AutoLayout.join_changes(one, other) if one.shape[-1] > auto.RECENT else np.asarray(one + other)
