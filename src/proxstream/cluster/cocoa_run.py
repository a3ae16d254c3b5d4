"""The client's side of CoCoA+: rounds, what is decided between them, and the certificate that ends them.

A round costs one exchange. Partitions measure the point that they are told, then move on from it; so the certificate of
a point comes with the next one, and the last round that was made is one that was not needed. Vectors stay on workers;
the client sees numbers (`View`) until the weights at the end.

    steps   a future a partition: alphas and what they give          total   the sum of what they give
    point   v and its last change, told to all partitions            view    the same in numbers, told to the client
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._checks import Array
from ..batch.problem import Record, Trace
from ..batch.sdca import StrongPart, first_strength, net_terms
from ..batch.sdca_run import SKIP, Intercepts, scale_of
from . import cocoa
from .cocoa import Command, Facts, Job, View

_FEATURES = 0.1  # 1/mu as a part of the rows' mean curvature, over sqrt(K): more would tie partitions together,
_LOSS = 0.01  # and of what a row's step bears beside the curvature of its loss

Alphas = Sequence[tuple[Array, Array]]


class Engine(Protocol):
    """Where tasks run; handles stand for results and can be arguments of further tasks."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a handle of what the function returns."""

    def tree(self, function: Callable[[list[Any]], Any], handles: Sequence[Any]) -> Any:
        """Return a handle of all results put together, in their order."""

    def result(self, handle: Any) -> Any:
        """Return the result."""


class Here:
    """Tasks that run at once in this process: the mathematics without a cluster."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result itself."""
        return function(*arguments)

    def tree(self, function: Callable[[list[Any]], Any], handles: Sequence[Any]) -> Any:
        """Return all results put together."""
        return function(list(handles))

    def result(self, handle: Any) -> Any:
        """Return what was returned."""
        return handle


@dataclass
class Progress:
    """What the client remembers between rounds, in numbers; with all alphas it is the whole state of a run."""

    round: int = 0
    theta: float = 1.0
    center: float = 0.0
    loose: float = 0.0
    skip: float = 0.0
    lam: float | None = None
    floor: float = math.inf
    least: float = 0.0  # what the mean loss is at least
    guess: float = 0.0
    spread: float = 0.1
    best_dual: float = -math.inf

    def as_array(self) -> Array:
        """Return the numbers, NaN for none."""
        return np.array([math.nan if x is None else float(x) for x in astuple(self)])

    @classmethod
    def of_array(cls, numbers: Array) -> Progress:
        """Return what `as_array` was made of."""
        made = cls(*numbers.tolist())
        return replace(made, round=int(made.round), lam=None if math.isnan(numbers[5]) else float(numbers[5]))


class Outcome(NamedTuple):
    """Weights, intercept, handles of the alphas that prove them, the history, and whether it proves enough."""

    coef: Array
    intercept: float
    alphas: list[Any]
    history: list[Record]
    converged: bool


class _Pending(NamedTuple):
    """A point that is being measured."""

    view: View
    command: Command
    point: Any


class Run:
    """One run of CoCoA+ over partitions that are row blocks somewhere.

    Parameters
    ----------
    engine : Engine
    job : Job
    blocks : handles of RowBlock, none of them empty
    facts : Facts
        Of all of them together.
    tol, max_rounds : when to stop
    keep : function of Progress, history and alphas, optional
        Called every `keep_every` rounds with the whole state, from which a run goes on to the same bits.

    Examples
    --------
    >>> import proxstream as ps
    >>> from proxstream.blocks import as_block
    >>> blocks = [as_block(np.array([[1.0], [3.0]]), y=[1, 1]), as_block(np.array([[-1.0]]), y=[-1])]
    >>> job = Job(ps.hinge, ps.L2(1.0), 1, False, total=3.0, partitions=2)
    >>> outcome = Run(Here(), job, blocks, cocoa.summed_facts([cocoa.facts(b) for b in blocks]), tol=1e-6).solve()
    >>> round(float(outcome.coef[0]), 3), outcome.converged
    (0.667, True)
    """

    def __init__(
        self,
        engine: Engine,
        job: Job,
        blocks: Sequence[Any],
        facts: Facts,
        *,
        tol: float = 1e-4,
        max_rounds: int = 1000,
        keep: Callable[[Progress, list[Record], Alphas], None] | None = None,
        keep_every: int = 10,
    ) -> None:
        self.engine, self.job, self.blocks, self.facts = engine, job, blocks, facts
        self._job = engine.submit(cocoa.itself, job)
        self.max_rounds, self.trace = max_rounds, Trace(tol)
        self._keep, self._keep_every = keep, keep_every
        terms = net_terms(job.penalty, job.n_features)
        self.part: StrongPart | None = None
        if not np.all(np.greater(terms.l2, 0.0)):
            lam = first_strength(job.loss, facts.squares, facts.n_rows)
            self.part = StrongPart(job.penalty, job.n_features, job.strong_part, lam)
        deviation = math.sqrt(max(facts.y_squared / facts.n_rows - (facts.y / facts.n_rows) ** 2, 0.0))
        self.scale = 1.0 if job.loss.kind == "binary" else scale_of(deviation, facts.y_largest)
        self.progress = Progress(lam=None if self.part is None else self.part.lam, spread=0.1 * self.scale)
        self._bends = self._curvatures()

    @property
    def bytes_a_round(self) -> int:
        """Bytes that partitions are told and give in a round, each counted as if it were alone on a worker."""
        d, pulls = self.job.n_features, 2 if self.job.fit_intercept else 1
        return 8 * len(self.blocks) * ((pulls * d) + 2 * (d + 1))

    # ---- rounds

    def solve(self, start: tuple[Progress, list[Record], Alphas] | None = None) -> Outcome:
        """Go through rounds until a certificate is good enough, or for as many as are allowed."""
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
                if proved or not pending.command.moves:
                    return self._outcome(pending, k, proved)
                if self._weaken(pending):
                    view = self._view()
            if start is None and pending is None:
                self.progress.least = -view.conjugates
            if not fresh:
                self._decide(view)
                self._maybe_keep()
            fresh = False
            pending = self._submit(view)

    def _begin(self, alphas: Sequence[tuple[Array, ...]]) -> None:
        """Set partitions to alphas, or to 0; nothing before that is needed any more."""
        submit = self.engine.submit
        begun = [submit(cocoa.begin, self._job, rows, *given) for rows, given in zip(self.blocks, alphas, strict=True)]
        self.steps = [submit(cocoa.first, one) for one in begun]
        self.total = self.engine.tree(cocoa.add, [submit(cocoa.part_of, step) for step in self.steps])
        before = self.engine.tree(cocoa.add, [submit(cocoa.second, one) for one in begun])
        self.point = submit(cocoa.point_of, self.total, before)

    def _submit(self, view: View) -> _Pending:
        """Send partitions on their way, and return what they will have measured."""
        p, submit = self.progress, self.engine.submit
        theta = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * p.theta**2))
        shifts = tuple(self._intercepts.tried(p.center).tolist()) if self.job.fit_intercept else (0.0,)
        beta, p.theta = (p.theta - 1.0) / theta, theta
        moves = p.round < self.max_rounds
        command = Command(p.round, beta, p.center, p.loose, p.lam, p.skip, shifts, view.sides, moves)
        told = self.point
        self.steps = [
            submit(cocoa.advance, self._job, k, rows, step, told, command)
            for k, (rows, step) in enumerate(zip(self.blocks, self.steps, strict=True))
        ]
        before, self.total = self.total, self.engine.tree(cocoa.add, [submit(cocoa.part_of, s) for s in self.steps])
        self.point = submit(cocoa.point_of, self.total, before)
        p.round += 1
        return _Pending(view, command, told)

    def _view(self) -> View:
        view: View = self.engine.result(self.engine.submit(cocoa.look, self._job, self.total, self.progress.lam))
        return view

    def _decide(self, view: View) -> None:
        """Move the intercept's center; begin momentum anew where the round turned back."""
        self.progress.center += self.progress.loose * view.sum
        if view.back > 0.0:
            self.progress.theta = 1.0

    # ---- certificates

    @property
    def _intercepts(self) -> Intercepts:
        return Intercepts(self.progress.guess, self.progress.spread)

    def _certify(self, pending: _Pending, view: View) -> tuple[int, bool]:
        """Put the two halves of a certificate together; tell the best intercept's number, and whether it suffices."""
        losses, seen, command = view.measured[:-1], pending.view, pending.command
        k = int(np.argmin(losses))
        dual = -float(view.measured[-1]) - seen.conjugate
        proved = self.trace.certify(command.round, float(losses[k]) + seen.penalty, dual, seen.nnz)
        if self.job.fit_intercept:
            guess = self._intercepts
            guess.move(np.array(command.shifts), losses, k)
            self.progress.guess, self.progress.spread = guess.guess, guess.spread
        # The sum of the rows' local gaps: the gap of the objective that partitions work on.
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
        return max(_FEATURES * mean / math.sqrt(k), _LOSS * flat * self.facts.total / (self.facts.heaviest * k))

    # ---- checkpoints

    def _maybe_keep(self) -> None:
        """Keep the whole state when it is due, and go on from what was kept."""
        if self._keep is None or self.progress.round % self._keep_every:
            return
        alphas = [self.engine.result(self.engine.submit(cocoa.kept_alphas, step)) for step in self.steps]
        self._keep(self.progress, self.trace.history, alphas)
        self._begin(alphas)
