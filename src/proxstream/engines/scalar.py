"""The engine of models with one output: cells of state, and the compiled loop over rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._checks import Array
from ..blocks import RowBlock
from ..kernels import averaged, driver
from ..kernels.averaged import LAST, SUM, Means
from ..kernels.driver import Model
from ..kernels.penalties import Bounded
from ..kernels.plan import Plan
from ..kernels.rules import DECAYING, EPOCH, NOW, AdaGradMirror, K, T
from . import threads
from .restoring import check_clock, check_rounds, restored


class ScalarEngine:
    """One weight a feature, learned a row at a time by a compiled kernel.

    State is one cell of `width` numbers a feature, side by side; the intercept's cell, the clock and the table of
    idle rounds are 64-bit whatever the state is.
    """

    def __init__(self, plan: Plan, n_features: int, dtype: Any, fit_intercept: bool, average: bool = False) -> None:
        self._parts, self._width = plan
        if average and (reason := averaged.refusal(self._parts)):
            raise ValueError(f"average=True: {reason}")
        self._state = np.zeros((n_features, self._width), dtype)
        self._bias = np.zeros((1 if fit_intercept else 0, self._width))
        self._clock = np.zeros(4)
        self._table = np.array([[1.0, 0.0], [1.0, 0.0]])
        self._still = self._table.copy()
        self._means: Means | None = None
        if average:
            self._means = Means(np.zeros((n_features, 2)), np.zeros(1), np.zeros((2, 3)), np.zeros(1))

    @property
    def n_features(self) -> int:
        """Features that have a cell."""
        return len(self._state)

    @property
    def t(self) -> int:
        """Rows learned."""
        return int(self._clock[T])

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the rows' weights."""
        return float(self._clock[K])

    def _model(self) -> Model:
        return Model(self._state, self._bias, self._clock, self._table, self._still)

    def check(self, rows: RowBlock) -> None:
        """Refuse rows whose weights have no closed form: h/(h + c l2) a round is no power of h/(h + l2)."""
        rule, penalty = self._parts.rule, self._parts.penalty
        if isinstance(rule, AdaGradMirror) and penalty.l2 > 0.0:
            bad = (rows.c != 0.0) & (rows.c != 1.0)
            if bad.any():
                raise ValueError(
                    "AdaGrad(update='mirror') with an l2 penalty has no closed form over idle rounds of unequal "
                    f"weights: each must be 0 or 1, got {rows.c[bad][0]:g} in row {int(np.argmax(bad))} of the block"
                )

    def learn(self, rows: RowBlock, n_threads: int = 1) -> Array:
        """Learn the rows in order; return the predictions made before each was learned.

        Means (average=True) are kept by one thread, whatever n_threads is.
        """
        self.check(rows)
        self._reserve(rows.n_rows)
        scores = np.empty(rows.n_rows)
        if self._means is not None:
            averaged.learn(self._parts, rows, self._model(), self._means, scores)
        elif n_threads > 1:
            threads.learn_settling(self._parts, rows, self._model(), scores, n_threads, self._learn_rows)
        else:
            driver.learn(self._parts, rows, self._model(), scores)
        return scores

    def suffer(self, scores: Array, rows: RowBlock, sums: Array, n_threads: int = 1) -> None:
        """Add the rows' losses at these scores, and their weights, to the sums."""
        threads.suffer(self._parts.loss, scores, rows, sums, n_threads)

    def _learn_rows(self, rows: RowBlock, bias: Array, clock: Array, scores: Array) -> None:
        model = self._model()._replace(bias=bias, clock=clock)
        driver.learn(self._parts, rows, model, scores)

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept a row; features without a cell count 0."""
        scores = np.empty(rows.n_rows)
        driver.predict(self._parts, rows, self._model(), scores)
        return scores

    def weights(self) -> tuple[Array, float]:
        """Return all weights and the intercept."""
        coefficients = np.empty(self.n_features, self._state.dtype)
        return coefficients, float(driver.read(self._parts, self._model(), coefficients))

    def weights_of(self, features: Array) -> tuple[Array, float]:
        """Return the weights of some features, and that of one that never occurred."""
        cells = np.concatenate((self._state[features], np.zeros_like(self._state, shape=(1, self._state.shape[1]))))
        weights = np.empty(len(cells), cells.dtype)
        driver.read(self._parts, self._model()._replace(state=cells), weights)
        return weights[:-1], float(weights[-1])

    def averages(self) -> tuple[Array, float]:
        """Return the means of the weights and of the intercept over the rows learned (average=True)."""
        if self._means is None:
            raise ValueError("the means are kept with average=True alone")
        if self.t == 0:
            return self.weights()  # the first point
        sums, rounds = np.empty(self.n_features), self.t
        averaged.read(self._parts, self._model(), self._means, sums)
        return (sums / rounds).astype(self._state.dtype), float(self._means.bias[0]) / rounds

    def grow(self, n_features: int) -> None:
        """Make cells for more features; theirs are as if they had been there from the start."""
        if n_features > self.n_features:
            if self._means is not None:
                sums, penalty = _longer(self._means.sums, n_features), self._parts.penalty
                if isinstance(penalty, Bounded):  # the first point may not be 0: its sum over the epochs before this
                    first = min(max(0.0, float(penalty.lo)), float(penalty.hi))
                    sums[self.n_features :, SUM] = first * (self.t - self._means.clock[0])
                self._means = self._means._replace(sums=sums)
            self._state = _longer(self._state, n_features)

    def arrays(self) -> dict[str, Array]:
        """Return all that the engine remembers."""
        table = self._table[: int(self._clock[NOW]) + 1]
        arrays = {"state": self._state, "bias": self._bias, "clock": self._clock, "table": table}
        if self._means is not None:
            sums, bias, rounds, clock = self._means
            means = {"sums": sums, "bias": bias, "rounds": rounds[: int(clock[0]) + 1], "clock": clock}
            arrays.update({f"means.{name}": array for name, array in means.items()})
        return arrays

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `arrays` returned; arrays of an engine with other settings are refused."""
        new = restored(self.arrays(), arrays, grows=("state", "table", "means.sums", "means.rounds"))
        check_clock(new["clock"], T, K, NOW)
        decaying = isinstance(self._parts.rule, DECAYING)
        last, now = new["state"][:, -1 if decaying else self._width :], new["clock"][NOW]
        check_rounds("state", last, now, ("table", new["table"]))
        if decaying:
            check_rounds("bias", new["bias"][:, -1], 1.0, ("still", self._still))
        if self._means is not None:
            check_clock(new["means.clock"], 0)
            rounds, last = ("means.rounds", new["means.rounds"]), new["means.sums"][:, LAST]
            check_rounds("means.sums", last, new["means.clock"][0], rounds)
            if len(new["means.sums"]) != len(new["state"]):
                raise ValueError("means.sums of the state must have a row a feature")
        self._state, self._bias, self._clock, self._table = (new[name] for name in ("state", "bias", "clock", "table"))
        if self._means is not None:
            self._means = Means(*(new[f"means.{name}"] for name in Means._fields))

    def _reserve(self, rows: int) -> None:
        """Make room in the tables for the rounds to come, at most one epoch's."""
        if isinstance(self._parts.rule, DECAYING):
            self._table = _roomier(self._table, int(self._clock[NOW]) + rows)
        if self._means is not None:
            self._means = self._means._replace(rounds=_roomier(self._means.rounds, int(self._means.clock[0]) + rows))


def _longer(array: Array, rows: int) -> Array:
    """Return the array with this many rows, the new ones zero."""
    longer = np.zeros((rows, array.shape[1]), array.dtype)
    longer[: len(array)] = array
    return longer


def _roomier(table: Array, rounds: int) -> Array:
    """Return a table with room for the rounds of an epoch; what grows doubles, so that growing costs little."""
    needed = min(rounds, EPOCH) + 2
    return table if needed <= len(table) else _longer(table, max(needed, min(2 * len(table), EPOCH + 2)))
