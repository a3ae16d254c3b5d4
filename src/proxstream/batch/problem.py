"""The problem that a batch solver is given, and the solution that it returns.

    P(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + Psi(w)                         p_i = c_i / sum c, the rows' shares
    D(alpha) = -sum_i p_i phi*(-alpha_i, y_i) - Psi*(sum_i p_i alpha_i x_i)     with an intercept: sum_i p_i alpha_i = 0

Any alpha proves that no weights do better than D(alpha): P(w, b) - D(alpha) is how far from the optimum w can be at
most. A solver keeps a `Trace`, which stores the best dual value so far and decides when the proof is good enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import Array
from ..data.rowblock import RowBlock


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimize mean loss + Psi over weights (features,) or (features, outputs), and an unpenalized intercept.

    `rows` hold labels as the loss knows them (-1 and +1, numbers, or 0..n_outputs-1) and weights (none: all 1).
    """

    rows: RowBlock
    n_features: int
    loss: Loss
    penalty: Penalty
    fit_intercept: bool = True
    n_outputs: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weights."""
        return (self.n_features, self.n_outputs) if self.loss.kind == "multiclass" else (self.n_features,)

    @cached_property
    def shares(self) -> Array:
        """The share p_i of each row in the mean."""
        c = self.rows.weights()
        return np.asarray(c / c.sum())

    def scores(self, w: Array, b: Any) -> Array:
        """Return <x_i, w> + b of each row."""
        return self.rows.scores(w, b)

    def primal(self, w: Array, b: Any) -> float:
        """Return P(w, b)."""
        return float(self.shares @ self.loss.value(self.scores(w, b), self.labels)) + self.penalty.value(w)

    @cached_property
    def labels(self) -> Array:
        """The labels, as integers where they are classes."""
        return self.rows.y.astype(np.int64) if self.loss.kind == "multiclass" else self.rows.y


class ConvergenceWarning(UserWarning):
    """A proof fell short of `tol` (estimators give scikit-learn's warning of this name)."""


class Record(NamedTuple):
    """One line of a solver's history."""

    epoch: int
    seconds: float
    primal: float
    dual: float
    gap: float
    nnz: int


_WATCH: ContextVar[Callable[[Record], bool] | None] = ContextVar("watch", default=None)


@contextmanager
def watching(watch: Callable[[Record], bool]) -> Iterator[None]:
    """Within, call `watch` with each record of a solver; a true return value ends the solver as if it had converged."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


@dataclass
class Trace:
    """The history of a solver, the best dual value it has seen, and whether that proves enough."""

    tol: float
    history: list[Record] = field(default_factory=list)
    best_dual: float = -np.inf
    started: float = field(default_factory=time.perf_counter)

    def certify(self, epoch: int, primal: float, dual: float, nnz: int) -> bool:
        """Record a primal and a dual value; return whether the relative gap is at most tol.

        By weak duality a dual value above the primal one can only be rounding; it is replaced by it. Without a finite
        dual value nothing is proved.
        """
        self.best_dual = min(max(self.best_dual, dual), primal)
        gap = primal - self.best_dual
        self.history.append(Record(epoch, time.perf_counter() - self.started, primal, self.best_dual, gap, nnz))
        watch = _WATCH.get()
        if watch is not None and watch(self.history[-1]):
            return True
        return bool(np.isfinite(gap)) and gap <= self.tol * max(abs(primal), abs(self.best_dual))


class Solution(NamedTuple):
    """Weights, intercept, dual variables (one per row, or per row and output) and the history that proves them."""

    coef: Array
    intercept: Any
    alpha: Array
    history: list[Record]
    converged: bool

    @property
    def primal(self) -> float:
        """P at the weights."""
        return self.history[-1].primal

    @property
    def dual(self) -> float:
        """The best lower bound on P."""
        return self.history[-1].dual
