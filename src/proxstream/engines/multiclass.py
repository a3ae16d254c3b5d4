"""The engine of models with one score a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._checks import Array
from ..blocks import RowBlock
from ..kernels import multiclass
from ..kernels.driver import Model
from ..kernels.groups import unit
from ..kernels.multiclass_plan import MulticlassPlan
from ..kernels.rules import DECAYING, EPOCH, NOW, K, T
from . import threads
from .restoring import check_clock, check_rounds, restored


class MulticlassEngine:
    """A weight a feature and class, learned a row at a time by a compiled kernel; labels are the classes 0, 1, ...

    State is one cell of `width` numbers a feature and class, a feature's classes side by side. The intercepts, one a
    class and free of penalty, the clock and the table of idle rounds are 64-bit whatever the state is.
    """

    def __init__(self, plan: MulticlassPlan, n_features: int, dtype: Any, fit_intercept: bool) -> None:
        self._parts, self._width, self._classes = plan
        self._state = np.zeros((n_features * self._classes, self._width), dtype)
        self._bias = np.zeros((self._classes if fit_intercept else 0, self._width))
        self._clock = np.zeros(4)
        self._table = np.array([[1.0, 0.0], [1.0, 0.0]])
        self._still = self._table.copy()

    @property
    def n_features(self) -> int:
        """Features that have cells."""
        return len(self._state) // self._classes

    @property
    def n_classes(self) -> int:
        """Classes, that is scores a row."""
        return self._classes

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

    def learn(self, rows: RowBlock, n_threads: int = 1) -> Array:
        """Learn the rows in order; return the scores (rows, classes) before each was learned."""
        self._check_labels(rows.y)
        self._reserve(rows.n_rows)
        scores = np.empty((rows.n_rows, self._classes))
        if n_threads > 1:
            parts = self._parts._replace(penalty=unit(self._parts.penalty))
            threads.learn_settling(parts, rows, self._model(), scores, n_threads, self._learn_rows)
        else:
            multiclass.learn(self._parts, self._classes, rows, self._model(), scores)
        return scores

    def _learn_rows(self, rows: RowBlock, bias: Array, clock: Array, scores: Array) -> None:
        model = self._model()._replace(bias=bias, clock=clock)
        multiclass.learn(self._parts, self._classes, rows, model, scores)

    def predict(self, rows: RowBlock) -> Array:
        """Return the scores (rows, classes); features without cells count 0."""
        scores = np.empty((rows.n_rows, self._classes))
        multiclass.predict(self._parts, self._classes, rows, self._model(), scores)
        return scores

    def weights(self) -> tuple[Array, Array]:
        """Return all weights (features, classes) and the intercepts (classes,)."""
        flat, intercepts = np.empty(len(self._state), self._state.dtype), np.zeros(self._classes)
        multiclass.read(self._parts, self._classes, self._model(), flat, intercepts)
        return flat.reshape(-1, self._classes), intercepts

    def averages(self) -> tuple[Array, Array]:
        """Refuse: the means of several classes are kept by the dense engine alone."""
        raise ValueError("the compiled engine of several classes keeps no means: average=True runs on dense rows")

    def grow(self, n_features: int) -> None:
        """Make cells for more features; theirs are as if they had been there from the start."""
        if n_features > self.n_features:
            state = np.zeros((n_features * self._classes, self._width), self._state.dtype)
            state[: len(self._state)] = self._state
            self._state = state

    def arrays(self) -> dict[str, Array]:
        """Return all that the engine remembers."""
        table = self._table[: int(self._clock[NOW]) + 1]
        return {"state": self._state, "bias": self._bias, "clock": self._clock, "table": table}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `arrays` returned; arrays of an engine with other settings are refused."""
        new = restored(self.arrays(), arrays, grows=("state", "table"))
        check_clock(new["clock"], T, K, NOW)
        if len(new["state"]) % self._classes:
            raise ValueError(f"the state must have {self._classes} rows a feature, got {len(new['state'])} in all")
        decaying = isinstance(self._parts.rule, DECAYING)
        last = new["state"][:, -1 if decaying else self._width :]
        check_rounds("state", last, new["clock"][NOW], ("table", new["table"]))
        if decaying:
            check_rounds("bias", new["bias"][:, -1], 1.0, ("still", self._still))
        self._state, self._bias, self._clock, self._table = (new[name] for name in ("state", "bias", "clock", "table"))

    def _check_labels(self, y: Array) -> None:
        """Refuse labels that are no classes: the kernel would write past its cells."""
        bad = ~((y >= 0) & (y < self._classes) & (y == np.floor(y)))
        if bad.any():
            i = int(np.argmax(bad))
            raise ValueError(f"y must be a class in 0..{self._classes - 1}, got {y[i]!r} at index {i}")

    def _reserve(self, rows: int) -> None:
        """Make room in the table for the rounds to come, at most one epoch's; what grows doubles."""
        now = int(self._clock[NOW])
        needed = min(now + rows, EPOCH) + 2
        if isinstance(self._parts.rule, DECAYING) and needed > len(self._table):
            table = np.zeros((max(needed, min(2 * len(self._table), EPOCH + 2)), 2))
            table[: now + 1] = self._table[: now + 1]
            self._table = table
