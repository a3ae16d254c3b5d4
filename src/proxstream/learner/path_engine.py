"""Engines of K models that differ in the strength of their penalty alone, and learn the same rows.

| engine       | algorithms                              | how                                                    |
|--------------|-----------------------------------------|--------------------------------------------------------|
| `PathEngine` | RDA, AdaGrad, FTRLProximal, AutoFTRL    | side by side in one compiled loop                      |
| `PathTrial`  | AutoFTRL(scale="auto")                  | the same for both scales, until each model has its own |
| `EachAlone`  | all others; several outputs; means      | one engine per model, one after the other              |

All are made of the engines that the models have alone, which say what to compute and read weights off a model's cells.
Scores are (models, rows), or (models, rows, outputs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..core.validation import Array
from ..data.rowblock import RowBlock
from . import _auto as auto, _finite as finite, _loop as loop, _path as path, _path_auto as path_auto, divergence
from .engine import CompiledEngine, Engine
from .layouts import START, SUMMED, AutoLayout, Columns, Layout, ScalarLayout
from .memory import zeros_on_lines
from .state_checks import check_clock


class ManyEngine(Protocol):
    """What keeps the numbers of K models."""

    @property
    def n_features(self) -> int: ...  # noqa: D102
    @property
    def t(self) -> int: ...  # noqa: D102
    @property
    def k(self) -> float: ...  # noqa: D102
    @property
    def loss_kernel(self) -> Any: ...  # noqa: D102
    def check(self, rows: RowBlock) -> None: ...  # noqa: D102
    def learn(  # noqa: D102
        self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False
    ) -> Array: ...
    def snapshot(self, rows: RowBlock, indices: Array, *, grows: bool) -> Any: ...  # noqa: D102
    def predict(self, rows: RowBlock) -> Array: ...  # noqa: D102
    def grow(self, n_features: int) -> None: ...  # noqa: D102
    def arrays(self) -> dict[str, Array]: ...  # noqa: D102
    def restore(self, arrays: Mapping[str, Array]) -> None: ...  # noqa: D102
    def member(self, k: int) -> dict[str, Array]:
        """Return what the engine of model k alone would remember."""


class PathLayout:
    """The cells of K models side by side: the first number of all models, the second of all, the unit that they share.

    Parameters
    ----------
    alone : the layouts of the models, which differ in the strengths of their penalties
    """

    cells = 1

    def __init__(self, alone: Sequence[Layout]) -> None:
        first = alone[0]
        self.alone, self.parts, self.n_outputs = tuple(alone), first.parts, len(alone)
        self.reader = first.reader
        self.counts, self.moves_all, self.bias_width = first.counts, first.moves_all, first.bias_width
        self._auto = isinstance(first, AutoLayout)
        self._shared = int(self._auto and first.parts.rule.sized)  # numbers of all models
        self.width = (first.width - self._shared) * len(alone) + self._shared
        penalties = [layout.parts.penalty for layout in alone]
        self._strengths = path.Strengths(np.array([p.l1 for p in penalties]), np.array([p.l2 for p in penalties]))

    def start(self) -> tuple[Array, Array | None]:
        """Return the clocks of all models, or the one that they share, before the first row."""
        if self._auto:
            return np.stack([layout.start()[0] for layout in self.alone]), None
        return self.alone[0].start()[0], None

    def model(self, state: Array, bias: Array, clock: Array, table: Array | None) -> Any:
        """Return the arrays as loops take them."""
        return auto.Model(state, bias, clock) if self._auto else loop.Model(state, bias, clock, START, START)

    def check(self, rows: RowBlock) -> None:
        """Take any weights."""

    def check_state(self, new: Mapping[str, Array]) -> None:
        """Refuse counts that are not counts."""
        for clock in np.atleast_2d(new["clock"]):
            check_clock(clock, *self.counts)

    def for_repeated_rows(self) -> PathLayout:
        """Return a layout for rows that have been learned before."""
        return PathLayout([layout.for_repeated_rows() for layout in self.alone]) if self._auto else self

    def learn(self, model: Any, rows: RowBlock, scores: Array, guard: Array) -> None:
        """Learn rows in order; scores are (models, rows)."""
        kernel = path_auto.learn if self._auto else path.learn
        kernel(self.parts, self._strengths, rows, model, scores, guard)

    def may_settle(self, model: Any, rows: RowBlock) -> bool:
        """Return False: cells change only where rows touch them."""
        return False

    def select(self, members: Sequence[int] | Array) -> PathLayout:
        """Return the layout of some of the models."""
        return PathLayout([self.alone[k] for k in members])

    def places_of(self, members: Sequence[int] | Array) -> Array:
        """Return where the numbers of some models are in a cell, in the order of their own layout."""
        firsts = np.arange(0, self.width - self._shared, self.n_outputs)
        own = (firsts[:, None] + np.asarray(members, np.int64)).ravel()
        return np.concatenate((own, np.arange(self.width - self._shared, self.width)))

    def arrays_of(self, arrays: Mapping[str, Array], members: Sequence[int] | Array) -> dict[str, Array]:
        """Return the arrays of some of the models, side by side."""
        chosen = np.asarray(members, np.int64)
        return {
            "state": _touched_columns(arrays["state"], self.places_of(members)),
            "bias": arrays["bias"][chosen] if len(arrays["bias"]) else arrays["bias"].copy(),
            "clock": arrays["clock"][chosen] if self._auto else arrays["clock"].copy(),
        }

    def member(self, arrays: Mapping[str, Array], k: int) -> dict[str, Array]:
        """Return the arrays of one model as its own engine has them."""
        own = self.arrays_of(arrays, [k])
        return {**own, "clock": own["clock"][0]} if self._auto else {**own, "table": START[:1].copy()}

    def weights(self, model: Any) -> tuple[Array, Array]:
        """Return the weights (features, models) and the intercepts (models,)."""
        coefficients = np.empty((len(model.state), self.n_outputs), model.state.dtype)
        intercepts = np.zeros(self.n_outputs)
        state = np.empty((len(model.state), self.alone[0].width), model.state.dtype)
        for k, layout in enumerate(self.alone):
            for at, place in enumerate(self.places_of([k])):
                state[:, at] = model.state[:, place]
            own = layout.model(state, model.bias[k : k + 1], self._clock_of(model.clock, k), START[:1])
            coefficients[:, k], intercepts[k] = layout.weights(own)
        return coefficients, intercepts

    # ---- states learned apart: each model's is merged as it would be alone

    adds_up = True

    def columns(self) -> Columns:
        """Return where numbers are in a feature's cell; see `_merge`."""
        z, columns = np.arange(self.n_outputs), self.alone[0].columns().columns
        return Columns(z, z + len(z) if columns > 1 else z[:0], 2 * len(z) if self._shared else -1, columns, 1)

    def rate(self, clock: Array) -> Array:
        """Return the curvature of each model for each unit of r."""
        return np.array([alone.rate(self._clock_of(clock, k)) for k, alone in enumerate(self.alone)])

    def clock_change(self, old: Array, new: Array, lanes: int) -> Array:
        """Return the change of a clock, or of all clocks, by rows that weigh `lanes`."""
        if not self._auto:
            return self.alone[0].clock_change(old, new, lanes)
        each = zip(self.alone, old, new, strict=True)
        return np.stack([alone.clock_change(before, after, lanes) for alone, before, after in each])

    def apply_clock(self, clock: Array, change: Array, grown: Array) -> None:
        """Change a clock, or all clocks."""
        for k, alone in enumerate(self.alone if self._auto else self.alone[:1]):
            alone.apply_clock(self._clock_of(clock, k), self._clock_of(change, k), grown)

    def _clock_of(self, clock: Array, k: int) -> Array:
        """Return the clock of one model, not copied."""
        return clock[k] if self._auto else clock


class PathEngine(CompiledEngine):
    """Models side by side, moved by one compiled loop; the arrays are those of a `CompiledEngine`."""

    layout: PathLayout  # type: ignore[assignment]

    @property
    def loss_kernel(self) -> Any:
        """The loss as compiled loops know it."""
        return self.layout.parts.loss

    def _scores(self, n_rows: int) -> Array:
        return np.full((self.layout.n_outputs, n_rows), np.nan)

    def learn(self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False) -> Array:
        """Learn the rows in order, by one thread; return the scores (models, rows) before each was learned."""
        layout = self.layout.for_repeated_rows() if repeated else self.layout
        scores, guard = self._scores(rows.n_rows), finite.guard(rows.data, reach, self._careful)
        layout.learn(self._model(), rows, scores, guard)
        with divergence.keeping_scores(scores):
            self._careful = divergence.check(guard)
            if self._careful and layout.moves_all:
                for k in range(layout.n_outputs):
                    divergence.check_weights(self.alone(k).weights()[0], rows)
        return scores

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept, (models, rows); features without a cell count 0."""
        scores = self._scores(rows.n_rows)
        seen = without_features(rows, self.n_features)
        unweighted = seen._replace(y=np.ones(rows.n_rows), c=np.zeros(rows.n_rows))
        self.layout.learn(self._model(), unweighted, scores, finite.guard(rows.data, 1.0, self._careful))
        return scores

    def member(self, k: int) -> dict[str, Array]:
        """Return what the engine of model k alone would remember."""
        return self.layout.member(self.arrays(), k)

    def alone(self, k: int) -> CompiledEngine:
        """Return model k in an engine of its own."""
        engine = CompiledEngine(self.layout.alone[k], 0, self.state.dtype, len(self.bias) > 0)
        engine.restore(self.member(k))
        return engine

    def count_nonzero(self, occurred: Array | None = None) -> Any:
        """Return how many weights of each model are not zero; only cells that rows have touched are looked at."""
        touched = _touched_rows(self.state) if occurred is None else occurred
        none = np.zeros((1, self.state.shape[1]), self.state.dtype)
        weights, _ = self.weights_of(np.concatenate((self.state[touched], none)))
        if weights[-1].any():  # of a feature that no row has touched
            weights, _ = self.weights()
        return np.count_nonzero(weights, axis=0)

    def empty(self, layout: Any) -> PathEngine:
        """Return an engine like this one, with another layout and without features."""
        return PathEngine(layout, 0, self.state.dtype, len(self.bias) > 0)

    def select(self, members: Sequence[int] | Array) -> PathEngine:
        """Return an engine of some of the models."""
        if len(members) == self.layout.n_outputs:
            return self
        engine, own = self.empty(self.layout.select(members)), self.layout.arrays_of(self.arrays(), members)
        engine.state, engine.bias, engine.clock = own["state"], own["bias"], own["clock"]
        engine._careful = self._careful
        return engine


def _touched_rows(state: Array) -> Array:
    """Return the rows that have a bit set: a zero with a sign counts."""
    return np.flatnonzero(state.view(np.uint32 if state.itemsize == 4 else np.uint64).any(axis=1))


def _touched_columns(state: Array, columns: Array) -> Array:
    """Return columns of a state; of its millions of rows only those that are not zero are copied."""
    touched = _touched_rows(state)
    chosen = zeros_on_lines((len(state), len(columns)), state.dtype)
    chosen[touched] = state[touched[:, None], columns]
    return chosen


class EachAlone:
    """One engine per model: each learns all rows of a block before the next one does."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = tuple(engines)

    @property
    def n_features(self) -> int:
        """Features that have a weight."""
        return self.engines[0].n_features

    @property
    def t(self) -> int:
        """Rows learned."""
        return self.engines[0].t

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the rows' weights."""
        return self.engines[0].k

    @property
    def loss_kernel(self) -> Any:
        """The loss of one output as compiled loops know it; None where NumPy computes losses."""
        return self.engines[0].loss_kernel

    def check(self, rows: RowBlock) -> None:
        """Raise an error if these rows cannot be learned."""
        for engine in self.engines:
            engine.check(rows)

    def learn(self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False) -> Array:
        """Learn the rows in order; return the scores before each was learned."""
        return np.stack([engine.learn(rows, n_threads, reach, repeated=repeated) for engine in self.engines])

    def snapshot(self, rows: RowBlock, indices: Array, *, grows: bool) -> Snapshots:
        """Return what rows with these indices may change, to be put back."""
        return Snapshots(self.engines, rows, indices, grows=grows)

    def predict(self, rows: RowBlock) -> Array:
        """Return the scores; features without a weight count 0."""
        return np.stack([engine.predict(rows) for engine in self.engines])

    def grow(self, n_features: int) -> None:
        """Add features; theirs are as if they had been there from the start."""
        for engine in self.engines:
            engine.grow(n_features)

    def arrays(self) -> dict[str, Array]:
        """Return all that the engines remember; names start with the number of the model."""
        each = enumerate(engine.arrays() for engine in self.engines)
        return {f"{k}.{name}": array for k, arrays in each for name, array in arrays.items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from what `arrays` returned."""
        for k, engine in enumerate(self.engines):
            engine.restore(under(f"{k}.", arrays))

    def member(self, k: int) -> dict[str, Array]:
        """Return what the engine of model k remembers."""
        return self.engines[k].arrays()


class Snapshots:
    """What a block may change in several engines."""

    def __init__(self, engines: Sequence[Any], rows: RowBlock, indices: Array, *, grows: bool) -> None:
        self.engines = engines
        self._before = [engine.snapshot(rows, indices, grows=grows) for engine in engines]

    def put_back(self, _: Any) -> None:
        """Bring the engines back to where they were."""
        for engine, before in zip(self.engines, self._before, strict=True):
            before.put_back(engine)


def side_by_side(alone: Sequence[Engine], n_features: int) -> PathEngine | None:
    """Return an engine that runs these models in one loop, None if no such loop exists."""
    first = alone[0]
    if not isinstance(first, CompiledEngine) or first.layout.n_outputs > 1:
        return None
    summed = type(first.layout) is ScalarLayout and isinstance(first.layout.parts.rule, SUMMED)
    if not summed and not isinstance(first.layout, AutoLayout):
        return None
    layout: Any = PathLayout([engine.layout for engine in alone])  # type: ignore[attr-defined]
    return PathEngine(layout, n_features, first.state.dtype, len(first.bias) > 0)


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names start with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def without_features(rows: RowBlock, n_features: int) -> RowBlock:
    """Return the rows without the features from this number on."""
    first, last = int(rows.indptr[0]), int(rows.indptr[-1])
    known = rows.indices[first:last] < n_features
    if known.all():
        return rows
    ends = np.concatenate(([0], np.cumsum(known)))[np.asarray(rows.indptr, np.int64) - first]
    indptr = ends.astype(rows.indptr.dtype)
    return rows._replace(indptr=indptr, indices=rows.indices[first:last][known], data=rows.data[first:last][known])
