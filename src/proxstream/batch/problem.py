"""The problem that a batch solver is given, and the solution that it returns.

    P(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + Psi(w)                         p_i = c_i / sum c, the rows' shares
    D(alpha) = -sum_i p_i phi*(-alpha_i, y_i) - Psi*(sum_i p_i alpha_i x_i)     with an intercept: sum_i p_i alpha_i = 0

Any alpha proves that no weights do better than D(alpha): P(w, b) - D(alpha) is how far from the optimum w can be at
most. A solver keeps a `Trace`, which stores the best dual value so far and decides when the proof is good enough, and
when no better one can be had: P and D are sums in 64 bits, and below some 1e-13 of them their difference is rounding.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.rows.for_kernels())

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


ROUNDING = 1e-12  # part of the objective below which a gap may be rounding alone
PATIENCE = 5  # certificates below it that are not better than the best before them: there a solver ends
BETTER = 0.99  # part of the best gap from which another one is better


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
        return within(self.history[-1], self.tol)

    @property
    def aim(self) -> float:
        """The relative gap from which each epoch is worth a certificate: `tol`, or where rounding begins if larger."""
        return max(self.tol, ROUNDING)

    @property
    def near_rounding(self) -> bool:
        """Whether the last gap may be rounding alone."""
        return bool(self.history) and within(self.history[-1], ROUNDING)

    @property
    def stalled(self) -> bool:
        """Whether rounding hides all further progress, so that no smaller gap can be proved in 64 bits."""
        before, last = self.history[:-PATIENCE], self.history[-PATIENCE:]
        if not before or not all(within(record, ROUNDING) for record in last):
            return False
        return not min(record.gap for record in last) < BETTER * min(record.gap for record in before)


def within(record: Record, tol: float) -> bool:
    """Return whether the relative gap of a record is at most tol."""
    return bool(np.isfinite(record.gap)) and record.gap <= tol * max(abs(record.primal), abs(record.dual))


class Solution(NamedTuple):
    """Weights, intercept, dual variables (one per row, or per row and output) and the history that proves them.

    `v` is sum_i p_i alpha_i x_i where the solver knows it from plain sums; features that no dual point can bring to
    their bounds may have 0 there.
    """

    coef: Array
    intercept: Any
    alpha: Array
    history: list[Record]
    converged: bool
    v: Array | None = None

    @property
    def primal(self) -> float:
        """P at the weights."""
        return self.history[-1].primal

    @property
    def dual(self) -> float:
        """The best lower bound on P."""
        return self.history[-1].dual

    @property
    def limited_by_rounding(self) -> bool:
        """Whether the solver ended because no smaller gap can be proved in 64 bits."""
        return not self.converged and within(self.history[-1], ROUNDING)


def shortfall(name: str, last: Record, tol: float, advice: str) -> str:
    """Return the warning of a proof that falls short of `tol`: how far it came, and what to do.

    >>> shortfall("solver", Record(9, 0.1, 1.0, 1.0 - 2e-14, 2e-14, 3), 1e-15, "raise max_epochs")
    'solver stopped after 9 epochs with a relative duality gap of 2e-14, above tol=1e-15: a smaller gap cannot be proved
     in 64-bit numbers; raise tol to 1e-12 or more'
    """
    size = max(abs(last.primal), abs(last.dual))
    relative = last.gap / size if size > 0.0 else 0.0
    if within(last, ROUNDING):
        advice = f"a smaller gap cannot be proved in 64-bit numbers; raise tol to {ROUNDING:g} or more"
    return (
        f"{name} stopped after {last.epoch} epochs with a relative duality gap of {relative:.2g}, above tol={tol:g}: "
        f"{advice}"
    )
