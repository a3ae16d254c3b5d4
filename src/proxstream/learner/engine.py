"""Engines: what keeps a model's numbers and moves them, a row block at a time.

An engine knows nothing of files or scikit-learn. `CompiledEngine` runs all compiled loops, each with its layout (see
`layouts`); `DenseEngine` runs whatever couples coordinates, at the cost of all weights per row; `FrozenEngine` has its
weights alone. `RankingEngine` turns rows of queries into pairs, which any engine of one output learns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ..core.validation import Array
from ..data.rowblock import RowBlock
from . import _finite as finite, _loop_averaged as averaged, divergence
from ._loop_averaged import FALLEN, SUM, Means
from ._rules import EPOCH, NOW
from .divergence import DivergedError, is_careful
from .layouts import AveragedLayout, Layout, ScalarLayout
from .memory import zeros_on_lines
from .state_checks import restored


class Engine(Protocol):
    """What keeps a model's numbers."""

    @property
    def n_features(self) -> int:
        """Features that have a weight."""

    @property
    def t(self) -> int:
        """Rows learned."""

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the rows' weights."""

    @property
    def loss_kernel(self) -> Any:
        """The loss of one output as compiled loops know it; None where NumPy computes losses."""

    def check(self, rows: RowBlock) -> None:
        """Raise an error if these rows, well formed as they are, cannot be learned."""

    def learn(self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False) -> Array:
        """Learn rows in order; return the scores before each was learned.

        `reach` is their largest |value| if known; `repeated`: they have been learned before.
        """

    def snapshot(self, rows: RowBlock, indices: Array, *, grows: bool) -> Any:
        """Return what rows with these indices may change, with a method `put_back`; `grows`: features come first."""

    def predict(self, rows: RowBlock) -> Array:
        """Return the scores; features without a weight count 0."""

    def weights(self) -> tuple[Array, Any]:
        """Return all weights and the intercept."""

    def averages(self) -> tuple[Array, Any]:
        """Return the means of the weights and of the intercept over the rows learned."""

    def count_nonzero(self, occurred: Array | None = None) -> int:
        """Return how many weights are not zero; `occurred` are all features so far, if known."""

    def grow(self, n_features: int) -> None:
        """Add features; theirs are as if they had been there from the start."""

    def arrays(self) -> dict[str, Array]:
        """Return all that the engine remembers."""

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from what `arrays` returned; arrays of an engine with other settings are refused."""


class CompiledEngine:
    """Cells of state, intercepts and a clock, moved by the compiled loop of a layout.

    state : cells of all features, in the precision of the model
    bias : cells of the intercepts, none without an intercept
    clock : what all features share
    table : of idle rounds, where the layout has one; those up to now count, the others are room
    means : sums of the weights played, with an AveragedLayout
    """

    def __init__(self, layout: Layout, n_features: int, dtype: Any = np.float64, fit_intercept: bool = True) -> None:
        self.layout = layout
        self.state = zeros_on_lines((n_features * layout.cells, layout.width), dtype)
        self.bias = np.zeros((layout.n_outputs if fit_intercept else 0, layout.bias_width))
        self.clock, self.table = layout.start()
        self.means: Means | None = None
        if isinstance(layout, AveragedLayout):
            self.means = layout.start_means(n_features)
        self._careful = False  # see `_finite`

    @property
    def n_features(self) -> int:
        """Features that have cells."""
        return len(self.state) // self.layout.cells

    @property
    def t(self) -> int:
        """Rows learned."""
        return int(self.clock.flat[self.layout.counts[0]])

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the rows' weights."""
        return float(self.clock.flat[self.layout.counts[1]])

    @property
    def loss_kernel(self) -> Any:
        """The loss of one output as compiled loops know it."""
        return self.layout.parts.loss if self.layout.n_outputs == 1 else None

    @property
    def cells(self) -> Array:
        """The state as a row per feature, not copied."""
        return self.state.reshape(self.n_features, -1) if self.n_features else self.state

    def _model(self) -> Any:
        return self.layout.model(self.state, self.bias, self.clock, self.table)

    def _scores(self, n_rows: int) -> Array:
        return np.empty(n_rows if self.layout.n_outputs == 1 else (n_rows, self.layout.n_outputs))

    def check(self, rows: RowBlock) -> None:
        """Refuse weights of rows for which the loop has no closed form."""
        self.layout.check(rows)

    def learn(self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False) -> Array:
        """Learn the rows in order; return the scores, (rows,) or (rows, outputs), before each was learned.

        Means are kept by one thread, whatever n_threads is. Where a row takes the model beyond finite numbers a
        DivergedError is raised, and the engine is of no use until a `snapshot` is put back.
        """
        layout = self.layout.for_repeated_rows() if repeated else self.layout
        layout.check(rows)
        if layout.n_outputs > 1:
            _check_classes(rows.y, layout.n_outputs)
        self._reserve(rows.n_rows)
        scores, guard = self._scores(rows.n_rows), finite.guard(rows.data, reach, self._careful)
        if self.means is not None:
            averaged.learn(layout.parts, rows, self._model(), self.means, scores, guard)
        elif n_threads > 1:
            layout.learn_in_threads(self._model(), rows, scores, guard, n_threads)
        else:
            layout.learn(self._model(), rows, scores, guard)
        with divergence.keeping_scores(scores):
            self._careful = divergence.check(guard)
            if self._careful and layout.moves_all:
                coefficients, intercept = self.weights()
                divergence.check_weights(coefficients, rows)
                if not np.isfinite(intercept).all():
                    raise DivergedError(rows.n_rows - 1)
        return scores

    def snapshot(self, rows: RowBlock, indices: Array, *, grows: bool) -> Snapshot:
        """Return what rows with these indices may change, to be put back; `grows`: features are added first."""
        return Snapshot(self, rows, indices, grows=grows)

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept, (rows,) or (rows, outputs); features without a cell count 0."""
        scores = self._scores(rows.n_rows)
        self.layout.predict(self._model(), rows, scores)
        return scores

    def weights(self) -> tuple[Array, Any]:
        """Return all weights and the intercept: (features,) and a number, or (features, outputs) and (outputs,)."""
        return self.layout.weights(self._model())

    def weights_of(self, cells: Array) -> tuple[Array, Any]:
        """Return the weights that a feature would have with each of these cells, as `weights` does."""
        state = np.ascontiguousarray(cells).reshape(-1, self.layout.width)
        return self.layout.weights(self._model()._replace(state=state))

    def averages(self) -> tuple[Array, Any]:
        """Return the means of the weights and of the intercept over the rows learned (average=True)."""
        if self.means is None:
            raise ValueError("no means are kept: make the learner with average=True")
        if self.t == 0:
            return self.weights()  # the first point
        sums, rounds = np.empty(self.n_features), self.t
        averaged.read(self.layout.reader, self._model(), self.means, sums)
        return (sums / rounds).astype(self.state.dtype), float(self.means.bias[0]) / rounds

    def count_nonzero(self, occurred: Array | None = None) -> int:
        """Return how many weights are not zero; only features that occurred are looked at if others have none."""
        if occurred is not None:
            none = np.zeros((1, self.layout.cells * self.layout.width), self.state.dtype)
            weights = self.weights_of(np.concatenate((self.cells[occurred], none)))[0]
            if not weights[-1:].any():
                return int(np.count_nonzero(weights))
        return int(np.count_nonzero(self.weights()[0] != 0.0))  # truth values take a third of the time

    def grow(self, n_features: int) -> None:
        """Make cells for more features; theirs are as if they had been there from the start."""
        if n_features <= self.n_features:
            return
        # Before anything changes: memory may not suffice. Before the first row all cells are zero, and are not copied.
        known = self.state if self.t else self.state[:0]
        state = _longer(known, n_features * self.layout.cells)
        if self.means is not None and isinstance(self.layout, AveragedLayout):
            sums = _longer(self.means.sums, n_features)
            sums[self.n_features :, SUM] = self.layout.first_sum(self.means, self.t)
            self.means = self.means._replace(sums=sums)
        self.state = state

    def arrays(self) -> dict[str, Array]:
        """Return all that the engine remembers."""
        arrays = {"state": self.state, "bias": self.bias, "clock": self.clock}
        if self.table is not None:
            arrays["table"] = self.table[: int(self.clock[NOW]) + 1]
        if self.means is not None:
            means = self.means._replace(rounds=self.means.rounds[: int(self.means.clock[0]) + 1])
            arrays.update({f"means.{name}": array for name, array in means._asdict().items()})
        return arrays

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from what `arrays` returned; arrays of an engine with other settings are refused."""
        new = restored(self.arrays(), arrays, grows=("state", "table", "means.sums", "means.rounds"))
        self.layout.check_state(new)
        if isinstance(self.layout, AveragedLayout):
            self.layout.check_means(new)
            self.means = Means(*(new[f"means.{name}"] for name in Means._fields))
        self.state, self.bias, self.clock = new["state"], new["bias"], new["clock"]
        self.table = new.get("table")
        self._careful = is_careful(self.state, self.bias)

    def _reserve(self, rows: int) -> None:
        """Make room in the tables for the rounds to come, at most one epoch's."""
        if self.table is not None and isinstance(self.layout, ScalarLayout) and self.layout.decays:
            self.table = _roomier(self.table, int(self.clock[NOW]) + rows)
        if self.means is not None:
            self.means = self.means._replace(rounds=_roomier(self.means.rounds, int(self.means.clock[0]) + rows))


class Snapshot:
    """What a block may change in a compiled engine, taken before the block is learned.

    The cells of the block's features, or the state of all where that is smaller, or where all features may be settled.
    A state that grows for the block becomes another array: the one before is then as good as a copy.
    """

    def __init__(self, engine: CompiledEngine, rows: RowBlock, indices: Array, *, grows: bool) -> None:
        self._fields = {name: value for name, value in vars(engine).items() if name != "layout"}
        n, means, layout = engine.n_features, engine.means, engine.layout
        if means is not None and isinstance(layout, AveragedLayout):
            settles = means.clock[0] + rows.n_rows >= EPOCH or layout.may_settle(engine._model(), rows, FALLEN)
        else:
            settles = layout.may_settle(engine._model(), rows)
        arrays: list[tuple[Array, Any]] = [(engine.bias, slice(None)), (engine.clock, slice(None))]
        some = slice(None) if settles or len(indices) >= n else indices
        if not grows:
            arrays.append((_items(engine.state, n), some))
        if engine.table is not None:
            now = int(engine.clock[NOW])
            arrays.append((engine.table, slice(now + 1) if settles else slice(now, now + 1)))
        if means is not None:
            at = int(means.clock[0])
            arrays += [(means.bias, slice(None)), (means.clock, slice(None))]
            arrays += [] if grows else [(_items(means.sums, n), some)]
            arrays.append((means.rounds, slice(at + 1) if settles else slice(at, at + 1)))
        self._before = [(array, at, array[at].copy() if isinstance(at, slice) else array[at]) for array, at in arrays]

    def put_back(self, engine: CompiledEngine) -> None:
        """Bring the engine back to where it was."""
        for array, at, before in self._before:
            array[at] = before
        vars(engine).update(self._fields)


def _items(state: Array, n_features: int) -> Array:
    """Return one item per feature, all of its cells: NumPy takes and puts them at one go."""
    if state.size == 0:
        return state
    item = np.dtype((np.void, state.nbytes // n_features))
    size = {2: np.uint16, 4: np.uint32, 8: np.uint64}.get(item.itemsize, item)
    return state.reshape(-1).view(size)


def _longer(array: Array, rows: int) -> Array:
    """Return the array with this many rows, the new ones zero."""
    longer = zeros_on_lines((rows, array.shape[1]), array.dtype)
    longer[: len(array)] = array
    return longer


def _roomier(table: Array, rounds: int) -> Array:
    """Return a table with room for the rounds of an epoch; what grows doubles, so that growing costs little."""
    needed = min(rounds, EPOCH) + 2
    return table if needed <= len(table) else _longer(table, max(needed, min(2 * len(table), EPOCH + 2)))


def _check_classes(y: Array, n_outputs: int) -> None:
    """Refuse labels that are not classes: the loop would write past its cells."""
    bad = ~((y >= 0) & (y < n_outputs) & (y == np.floor(y)))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"y must be a class in 0..{n_outputs - 1}, got {y[i]!r} at index {i}")
