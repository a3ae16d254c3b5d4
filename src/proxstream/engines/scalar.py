"""The engine of models with one output: cells of state, and the compiled loop over rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._checks import Array
from ..blocks import RowBlock
from ..kernels import driver
from ..kernels.driver import Model
from ..kernels.plan import Plan
from ..kernels.rules import EPOCH, NOW, K, T


class ScalarEngine:
    """One weight a feature, learned a row at a time by a compiled kernel.

    State is one cell of `width` numbers a feature, side by side; the intercept's cell, the clock and the table of
    idle rounds are 64-bit whatever the state is.
    """

    def __init__(self, plan: Plan, n_features: int, dtype: Any, fit_intercept: bool) -> None:
        self._parts, self._width = plan
        self._state = np.zeros((n_features, self._width), dtype)
        self._bias = np.zeros((1 if fit_intercept else 0, self._width))
        self._clock = np.zeros(4)
        self._table = np.array([[1.0, 0.0], [1.0, 0.0]])
        self._still = self._table.copy()

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

    def learn(self, rows: RowBlock) -> Array:
        """Learn the rows in order; return the predictions made before each was learned."""
        self._reserve(rows.n_rows)
        scores = np.empty(rows.n_rows)
        driver.learn(self._parts, rows, self._model(), scores)
        return scores

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept a row; features without a cell count 0."""
        scores = np.empty(rows.n_rows)
        driver.predict(self._parts, rows, self._model(), scores)
        return scores

    def weights(self) -> tuple[Array, float]:
        """Return all weights and the intercept."""
        coefficients = np.empty(self.n_features, self._state.dtype)
        return coefficients, float(driver.read(self._parts, self._model(), coefficients))

    def grow(self, n_features: int) -> None:
        """Make cells for more features; theirs are as if they had been there from the start."""
        if n_features > self.n_features:
            state = np.zeros((n_features, self._width), self._state.dtype)
            state[: self.n_features] = self._state
            self._state = state

    def arrays(self) -> dict[str, Array]:
        """Return all that the engine remembers."""
        now = int(self._clock[NOW])
        return {"state": self._state, "bias": self._bias, "clock": self._clock, "table": self._table[: now + 2]}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `arrays` returned."""
        self._state = np.array(arrays["state"])
        self._bias, self._clock = np.array(arrays["bias"]), np.array(arrays["clock"])
        self._table = np.array(arrays["table"])

    def _reserve(self, rows: int) -> None:
        """Make room in the table for the rounds to come; only descent fills it."""
        now = int(self._clock[NOW])
        needed = min(now + rows, EPOCH) + 2
        if needed > len(self._table):
            table = np.ones((max(needed, min(2 * len(self._table), EPOCH + 2)), 2))
            table[:, 1] = 0.0
            table[: now + 1] = self._table[: now + 1]
            self._table = table
