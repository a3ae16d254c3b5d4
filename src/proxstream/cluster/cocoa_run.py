"""The client's side of CoCoA+: rounds, what is decided between them, and the certificate that ends them.

A round costs one exchange. Partitions measure the point that they receive, then move on from it; so the certificate of
a point arrives with the next one, and the last round is always one too many. Vectors stay on the workers; the client
sees numbers (`View`) until the weights at the end.

    steps   one future per partition: alphas and their contribution     total   the sum of the contributions
    point   v and its last change, sent to all partitions               view    the same in numbers, for the client
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..batch.problem import Record, Trace
from ..batch.sdca import StrongPart, first_strength, net_terms
from ..batch.sdca.run import SKIP, Intercepts, scale_of
from ..core.validation import Array
from . import cocoa
from .cocoa import Command, DataSums, Job, View

_FEATURES = 0.1  # 1/mu as a part of the rows' mean curvature, over sqrt(K): more would tie partitions together,
_LOSS = 0.01  # and of what a row's step bears beside the curvature of its loss

Alphas = Sequence[tuple[Array, Array]]


class Engine(Protocol):
    """Where tasks run; handles represent results and can be arguments of further tasks."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a handle of the result."""

    def tree(self, function: Callable[[list[Any]], Any], handles: Sequence[Any]) -> Any:
        """Return a handle of all results combined, in their order."""

    def result(self, handle: Any) -> Any:
        """Return the result."""


class LocalEngine:
    """Runs tasks immediately in this process: the mathematics without a cluster."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result itself."""
        return function(*arguments)

    def tree(self, function: Callable[[list[Any]], Any], handles: Sequence[Any]) -> Any:
        """Return all results combined."""
        return function(list(handles))

    def result(self, handle: Any) -> Any:
        """Return the result."""
        return handle


@dataclass
class Progress:
    """The numbers that the client keeps between rounds; together with all alphas, the complete state of a run."""

    round: int = 0
    theta: float = 1.0
    center: float = 0.0
    loose: float = 0.0
    skip: float = 0.0
    lam: float | None = None
    floor: float = math.inf
    least: float = 0.0  # lower bound of the mean loss
    guess: float = 0.0
    spread: float = 0.1
    best_dual: float = -math.inf

    def as_array(self) -> Array:
        """Return the numbers, NaN for none."""
        return np.array([math.nan if x is None else float(x) for x in astuple(self)])

    @classmethod
    def of_array(cls, numbers: Array) -> Progress:
        """Invert `as_array`."""
        made = cls(*numbers.tolist())
        return replace(made, round=int(made.round), lam=None if math.isnan(numbers[5]) else float(numbers[5]))


class Outcome(NamedTuple):
    """Weights, intercept, handles of the alphas that prove them, the history, and whether the tolerance is reached."""

    coef: Array
    intercept: float
    alphas: list[Any]
    history: list[Record]
    converged: bool


class _Pending(NamedTuple):
    """A point whose certificate is pending."""

    view: View
    command: Command
    point: Any


class Run:
    """One run of CoCoA+ over partitions, which are row blocks.

    Parameters
    ----------
    engine : Engine
    job : Job
    blocks : handles of RowBlock, none of them empty
    sums : DataSums
        Of all blocks together.
    tol, max_rounds : when to stop
    save : function of Progress, history and alphas, optional
        Called every `save_every` rounds with the complete state, from which a run resumes to the same bits.

    Examples
    --------
    >>> import proxstream as ps
    >>> from proxstream.data.rowblock import as_block
    >>> blocks = [as_block(np.array([[1.0], [3.0]]), y=[1, 1]), as_block(np.array([[-1.0]]), y=[-1])]
    >>> job = Job(ps.hinge, ps.L2(1.0), 1, False, total=3.0, partitions=2)
    >>> sums = cocoa.add_sums([cocoa.data_sums(block) for block in blocks])
    >>> outcome = Run(LocalEngine(), job, blocks, sums, tol=1e-6).solve()
    >>> round(float(outcome.coef[0]), 3), outcome.converged
    (0.667, True)
    """

    def __init__(
        self,
        engine: Engine,
        job: Job,
        blocks: Sequence[Any],
        sums: DataSums,
        *,
        tol: float = 1e-4,
        max_rounds: int = 1000,
        save: Callable[[Progress, list[Record], Alphas], None] | None = None,
        save_every: int = 10,
    ) -> None:
        self.engine, self.job, self.blocks, self.sums = engine, job, blocks, sums
        self._job = engine.submit(cocoa.itself, job)
        self.max_rounds, self.trace = max_rounds, Trace(tol)
        self._save, self._save_every = save, save_every
        terms = net_terms(job.penalty, job.n_features)
        self.part: StrongPart | None = None
        if not np.all(np.greater(terms.l2, 0.0)):
            lam = first_strength(job.loss, sums.squares, sums.n_rows)
            self.part = StrongPart(job.penalty, job.n_features, job.strong_part, lam)
        deviation = math.sqrt(max(sums.y_squared / sums.n_rows - (sums.y / sums.n_rows) ** 2, 0.0))
        self.scale = 1.0 if job.loss.kind == "binary" else scale_of(deviation, sums.y_largest)
        self.progress = Progress(lam=None if self.part is None else self.part.lam, spread=0.1 * self.scale)
        self._bends = self._curvatures()

    @property
    def bytes_per_round(self) -> int:
        """Bytes that partitions receive and send per round, as if each were alone on a worker."""
        d, pulls = self.job.n_features, 2 if self.job.fit_intercept else 1
        return 8 * len(self.blocks) * ((pulls * d) + 2 * (d + 1))

    # ---- rounds

    def solve(self, start: tuple[Progress, list[Record], Alphas] | None = None) -> Outcome:
        """Run rounds until a certificate reaches the tolerance, or `max_rounds`."""
        if start is None:
            self._begin([()] * len(self.blocks))
            self.progress.loose = self._loose()
        else:
            self.progress, self.trace.history = replace(start[0]), list(start[1])
            self.trace.best_dual = self.progress.best_dual
            if self.part is not None and self.progress.lam is not None:
                self.part.lam, self.part.floor = self.progress.lam, self.progress.floor
            self._begin(start[2])
        pending: _Pending | None = None
        fresh = True
        while True:
            view = self._view()
            if pending is not None:
                k, proved = self._certify(pending, view)
                if proved or self.trace.stalled or not pending.command.moves:
                    return self._outcome(pending, k, proved)
                if self._weaken(pending):
                    view = self._view()
            if start is None and pending is None:
                self.progress.least = -view.conjugates
            if not fresh:
                self._decide(view)
                self._maybe_save()
            fresh = False
            pending = self._submit(view)

    def _begin(self, alphas: Sequence[tuple[Array, ...]]) -> None:
        """Set the alphas of the partitions, or 0; nothing before that is needed any more."""
        submit = self.engine.submit
        started = [
            submit(cocoa.begin, self._job, rows, *given) for rows, given in zip(self.blocks, alphas, strict=True)
        ]
        self.steps = [submit(cocoa.first, one) for one in started]
        self.total = self.engine.tree(cocoa.add, [submit(cocoa.part_of, step) for step in self.steps])
        before = self.engine.tree(cocoa.add, [submit(cocoa.second, one) for one in started])
        self.point = submit(cocoa.point_of, self.total, before)

    def _submit(self, view: View) -> _Pending:
        """Submit a round, and return the point that it measures."""
        p, submit = self.progress, self.engine.submit
        theta = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * p.theta**2))
        shifts = tuple(self._intercepts.tried(p.center).tolist()) if self.job.fit_intercept else (0.0,)
        beta, p.theta = (p.theta - 1.0) / theta, theta
        moves = p.round < self.max_rounds
        command = Command(p.round, beta, p.center, p.loose, p.lam, p.skip, shifts, view.sides, moves)
        point = self.point
        self.steps = [
            submit(cocoa.advance, self._job, k, rows, step, point, command)
            for k, (rows, step) in enumerate(zip(self.blocks, self.steps, strict=True))
        ]
        before, self.total = self.total, self.engine.tree(cocoa.add, [submit(cocoa.part_of, s) for s in self.steps])
        self.point = submit(cocoa.point_of, self.total, before)
        p.round += 1
        return _Pending(view, command, point)

    def _view(self) -> View:
        view: View = self.engine.result(self.engine.submit(cocoa.look, self._job, self.total, self.progress.lam))
        return view

    def _decide(self, view: View) -> None:
        """Move the center of the intercept; restart momentum if the round turned back."""
        self.progress.center += self.progress.loose * view.sum
        if view.back > 0.0:
            self.progress.theta = 1.0

    # ---- certificates

    @property
    def _intercepts(self) -> Intercepts:
        return Intercepts(self.progress.guess, self.progress.spread)

    def _certify(self, pending: _Pending, view: View) -> tuple[int, bool]:
        """Combine the two halves of a certificate; return the number of the best intercept, and whether to stop."""
        losses, seen, command = view.measured[:-1], pending.view, pending.command
        k = int(np.argmin(losses))
        dual = -float(view.measured[-1]) - seen.conjugate
        proved = self.trace.certify(command.round, float(losses[k]) + seen.penalty, dual, seen.nnz)
        if self.job.fit_intercept:
            guess = self._intercepts
            guess.move(np.array(command.shifts), losses, k)
            self.progress.guess, self.progress.spread = guess.guess, guess.spread
        # The sum of the local gaps of rows: the gap of the objective that partitions work on.
        self._estimate = float(losses[0]) + seen.conjugates + seen.fit + command.center * seen.sum
        self.progress.skip, self.progress.best_dual = SKIP * self._estimate, self.trace.best_dual
        return k, proved

    def _weaken(self, pending: _Pending) -> bool:
        """Weaken the strong part if it is due."""
        if self.part is None:
            return False
        last = self.trace.history[-1]
        accuracy = self.trace.tol * max(abs(last.primal), abs(last.dual))
        room = min(record.primal for record in self.trace.history) - self.progress.least
        if not self.part.weaken(self._estimate, pending.view.part, accuracy, room):
            return False
        self.progress.lam, self.progress.floor = self.part.lam, self.part.floor
        self.progress.loose = self._loose()
        return True

    def _outcome(self, pending: _Pending, k: int, proved: bool) -> Outcome:
        """Return the point that the last certificate is for, which partitions have left if they moved."""
        command = pending.command
        w = self.engine.result(self.engine.submit(cocoa.weights, self._job, pending.point, command.lam))
        alphas = [
            self.engine.submit(cocoa.proved_alpha, step, pending.view.sides, command.moves) for step in self.steps
        ]
        return Outcome(w, command.shifts[k], alphas, self.trace.history, proved)

    # ---- the intercept's strength

    def _curvatures(self) -> tuple[float, float]:
        """Return the mean curvature of rows, but for a strong part, and what a strong part of strength 1 adds."""
        lams: tuple[float | None, ...] = (None,) if self.part is None else (math.inf, 1.0)
        parts = [self.engine.submit(cocoa.bend, self._job, rows, lams) for rows in self.blocks]
        found = self.engine.result(self.engine.tree(sum, parts))
        return float(found[0]), float(found[-1] - found[0])

    def _loose(self) -> float:
        """Return 1/mu for the strength that the strong part has now."""
        if not self.job.fit_intercept:
            return 0.0
        mean = self._bends[0] + (self._bends[1] / self.part.lam if self.part is not None else 0.0)
        smoothness = self.job.loss.smoothness
        flat = 1.0 / smoothness if np.isfinite(smoothness) else self.scale
        k = len(self.blocks)
        return max(_FEATURES * mean / math.sqrt(k), _LOSS * flat * self.sums.total / (self.sums.heaviest * k))

    # ---- checkpoints

    def _maybe_save(self) -> None:
        """Save the complete state if it is due, and continue from what was saved."""
        if self._save is None or self.progress.round % self._save_every:
            return
        alphas = [self.engine.result(self.engine.submit(cocoa.current_alphas, step)) for step in self.steps]
        self._save(self.progress, self.trace.history, alphas)
        self._begin(alphas)
