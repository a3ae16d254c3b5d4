"""The engine of AutoFTRL: cells of state, a clock of shared numbers, and the compiled loops over rows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._checks import Array
from ..algorithms.auto import CONSTANTS, AutoFTRL, units_move
from ..blocks import RowBlock
from ..kernels import auto, auto_multiclass, losses, penalties
from ..kernels.auto import Model, Parts
from ..kernels.multiclass import OneVsRest
from ..losses import Loss
from ..penalties import Penalty
from . import threads
from .restoring import check_clock, restored


def parts_of(algorithm: AutoFTRL, penalty: Penalty, loss: Loss, n_outputs: int, dtype: Any) -> Parts | str:
    """Return the components of a compiled AutoFTRL, or the reason why there is none for this combination."""
    folded = penalties.as_tuple(penalty, np.dtype(dtype).type)
    if folded is None:
        return f"{penalty!r} does not act on each coordinate alone, with one strength for all"
    if isinstance(folded, penalties.Bounded) and not folded.lo <= 0.0 <= folded.hi:
        return f"{penalty!r} gives weight to features never seen"
    labels, ranged = units_move(loss)
    if n_outputs > 1 and labels:
        return f"{loss} has one output, got {n_outputs}"
    each = losses.as_tuple(loss)
    kind: Any = auto.PerFeature
    lam = CONSTANTS.lam
    if algorithm.scale == "global":
        kind, lam = auto.Global, CONSTANTS.lam_global
    rule = kind(CONSTANTS, lam, algorithm.penalty_weight == "once", labels, ranged)
    return Parts(rule, folded, OneVsRest(each) if n_outputs > 1 and loss.kind != "multiclass" else each)


class AutoEngine:
    """AutoFTRL with one output, or one a class.

    A feature's cell holds (z, r) a class and, unless one global scale serves all, its own unit: 12 bytes a feature with
    one output in float32. The intercepts' cells and the clock are 64-bit whatever the state is. A binary loss with
    more than one output learns one against the rest.
    """

    def __init__(
        self,
        algorithm: AutoFTRL,
        penalty: Penalty,
        loss: Loss,
        *,
        n_features: int,
        n_outputs: int = 1,
        dtype: Any = np.float64,
        fit_intercept: bool = True,
    ) -> None:
        parts = parts_of(algorithm, penalty, loss, n_outputs, dtype)
        if isinstance(parts, str):
            raise TypeError(f"no compiled AutoFTRL: {parts}")
        self._parts, self._classes = parts, n_outputs
        width = 2 * n_outputs + isinstance(parts.rule, auto.PerFeature)
        self._state = np.zeros((n_features, width), dtype)
        self._bias = np.zeros((n_outputs if fit_intercept else 0, 2))
        self._clock = auto.start_clock(parts.rule, n_outputs)

    @property
    def _kernel(self) -> Any:  # a module, which an attribute could not pickle
        return auto if self._classes == 1 else auto_multiclass

    @property
    def n_features(self) -> int:
        """Features that have a cell."""
        return len(self._state)

    @property
    def t(self) -> int:
        """Rows learned."""
        return int(self._clock[auto.T])

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the rows' weights."""
        return float(self._clock[auto.K])

    def _model(self) -> Model:
        return Model(self._state, self._bias, self._clock)

    def _scores(self, rows: RowBlock) -> Array:
        return np.empty(rows.n_rows if self._classes == 1 else (rows.n_rows, self._classes))

    def learn(self, rows: RowBlock, n_threads: int = 1) -> Array:
        """Learn the rows in order; return the scores, (rows,) or (rows, classes), before each was learned."""
        if self._classes > 1:
            self._check_labels(rows.y)
        scores = self._scores(rows)
        if n_threads == 1:
            self._kernel.learn(self._parts, rows, self._model(), scores)
            return scores
        lock = threading.Lock()

        def learn_chunk(chunk: RowBlock, bias: Array, at: int, out: Array) -> None:
            with lock:
                own = self._clock.copy()
            before = own.copy()
            self._kernel.learn(self._parts, chunk, Model(self._state, bias, own), out)
            with lock:
                self._clock = auto.joined_clock(self._parts.rule, self._clock, before, own)

        threads.learn(rows, self._bias, scores, n_threads, learn_chunk)
        return scores

    def suffer(self, scores: Array, rows: RowBlock, sums: Array, n_threads: int = 1) -> None:
        """Add the rows' losses at these scores of one output, and their weights, to the sums."""
        threads.suffer(self._parts.loss, scores, rows, sums, n_threads)

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept, (rows,) or (rows, classes); features without a cell count 0."""
        scores = self._scores(rows)
        self._kernel.predict(self._parts, rows, self._model(), scores)
        return scores

    def weights(self) -> tuple[Array, Any]:
        """Return all weights and the intercept: (features,) and a number, or (features, classes) and (classes,)."""
        if self._classes == 1:
            coefficients = np.empty(self.n_features, self._state.dtype)
            return coefficients, float(auto.read(self._parts, self._model(), coefficients))
        coefficients = np.empty((self.n_features, self._classes), self._state.dtype)
        intercepts = np.zeros(self._classes)
        auto_multiclass.read(self._parts, self._model(), coefficients, intercepts)
        return coefficients, intercepts

    def weights_of(self, features: Array) -> tuple[Array, float]:
        """Return the weights of some features (one output), and that of one that never occurred."""
        cells = np.concatenate((self._state[features], np.zeros_like(self._state, shape=(1, self._state.shape[1]))))
        weights = np.empty(len(cells), cells.dtype)
        auto.read(self._parts, self._model()._replace(state=cells), weights)
        return weights[:-1], float(weights[-1])

    def averages(self) -> tuple[Array, Any]:
        """Refuse: every row moves every weight a little, so sums over the rounds have no closed form."""
        raise ValueError("average=True: AutoFTRL's shared step length moves all weights every round, no means are kept")

    def grow(self, n_features: int) -> None:
        """Make cells for more features; theirs are as if they had been there from the start."""
        if n_features > self.n_features:
            state = np.zeros((n_features, self._state.shape[1]), self._state.dtype)
            state[: self.n_features] = self._state
            self._state = state

    def arrays(self) -> dict[str, Array]:
        """Return all that the engine remembers."""
        return {"state": self._state, "bias": self._bias, "clock": self._clock}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `arrays` returned; arrays of an engine with other settings are refused."""
        new = restored(self.arrays(), arrays, grows=("state",))
        check_clock(new["clock"], auto.T, auto.K)
        self._state, self._bias, self._clock = new["state"], new["bias"], new["clock"]

    def _check_labels(self, y: Array) -> None:
        """Refuse labels that are no classes: the kernel would write past its cells."""
        bad = ~((y >= 0) & (y < self._classes) & (y == np.floor(y)))
        if bad.any():
            i = int(np.argmax(bad))
            raise ValueError(f"y must be a class in 0..{self._classes - 1}, got {y[i]!r} at index {i}")
