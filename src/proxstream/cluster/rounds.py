"""Rounds: the client's side of learning in lanes.

The client holds the state between rounds. It submits a lane's part of a round as one task, named by run, round and
lane; Dask runs it where the lane ran before if it can, elsewhere if it must, and again if its worker dies. The changes
of all lanes are added by tasks, too, and only their sum comes back. A round is submitted before the one ahead of it has
ended: its tasks wait for the sum, not for the client.

What moves in a round: each lane's changes of the features that its rows had, once; their sum, to each worker and to the
client. The state as a whole moves to a worker that does not have it: at the beginning, when a run goes on from a model
or a checkpoint, and after a fault.

Faults. A worker that dies takes its state with it. Its lane's task runs on another worker, which may have the state of
that round or not; then, and when a result was lost on the way, the client scatters the state that it holds and the
round begins again. All that a task does depends on its arguments alone, so the result is the same bits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

from distributed import Client, Future, KilledWorker
from distributed.comm import CommClosedError

from ..estimators.rows import Batch
from ..learner import Learner
from .clients import tree
from .lanes import Job, Place, Slice, Told, Update, add, apply, forget, learn_lane
from .parts import Parts
from .places import Places

AHEAD = 2  # rounds that are under way
CUT = 16  # rounds after which the client hands on the last sum itself, so that Dask can forget how all came about
FIRST_ROWS = 1 << 10  # rows of a lane's first round; the next has twice as many, until all have what they should
RETRIES = 2  # of a task that raised, as when a file could not be reached
MOST_FAULTS = 20  # rounds in a row that begin again

LOST = (KilledWorker, CommClosedError)


class ClusterError(RuntimeError):
    """A cluster that lost the same round again and again."""


class Round(NamedTuple):
    """A round that has ended: rows learned in it and in all, mean loss so far, bytes of changes sent, seconds."""

    number: int
    rows: int
    all_rows: int
    mean_loss: float
    sent: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """How a run goes about its rows.

    lanes : partitions that are learned side by side
    rows : rows a round, of all lanes together
    passes : partitions in the order of each pass
    fresh : the learner knows nothing yet
    """

    lanes: int
    rows: int
    passes: Sequence[Sequence[int]]
    fresh: bool = True


@dataclass
class Standing:
    """How far a run has come, as a checkpoint keeps it."""

    number: int = 0  # of the pass
    round: int = 0  # of all passes
    rows: int = 0
    n_bytes: int = 0
    zeros: bool = False
    negatives: bool = False
    places: list[Place] = field(default_factory=list)
    done: list[bool] = field(default_factory=list)


class _Submitted(NamedTuple):
    number: int
    update: Future
    after: Places
    kept: list[Any]  # futures that must live until the round has ended


class Rounds:
    """One run over partitions.

    Parameters
    ----------
    client : Client
    parts : Parts
    learner : Learner
        What the run goes on from; at the end it holds what was learned.
    settings : dict
        Of `Learner`, by which workers make theirs.
    labelled : function of a Batch
        Run on workers; returns it with labels as the loss knows them.
    plan : Plan
    on_round : function of a Round and what the lanes told, called when the learner stands between two rounds
    standing : Standing, optional
        Where an earlier run stood.
    """

    def __init__(
        self,
        client: Client,
        parts: Parts,
        learner: Learner,
        settings: dict[str, Any],
        labelled: Callable[[Batch], Batch],
        plan: Plan,
        *,
        on_round: Callable[[Round, tuple[Told, ...]], None] | None = None,
        standing: Standing | None = None,
    ) -> None:
        self.client, self.parts, self.learner, self.plan = client, parts, learner, plan
        self.run_name = f"proxstream-{uuid4().hex[:12]}"
        self.standing = Standing() if standing is None else standing
        self.rounds: list[Round] = []
        self._settings, self._labelled, self._on_round = settings, labelled, on_round
        self._loaded: dict[int, Any] = {}
        self._files: dict[int, Future] = {}
        self._attempt = self._faults = 0
        self._homes: list[list[str]] = []
        self._stop = False

    def __call__(self) -> None:
        """Run to the end of the last pass."""
        try:
            while self.standing.number < len(self.plan.passes):
                self._pass(self.plan.passes[self.standing.number])
                if self._stop:
                    return
                self.standing.number += 1
                self.standing.places, self.standing.done = [], []
        finally:
            self._loaded.clear()
            self._files.clear()
            self.client.run(forget, self.run_name, on_error="ignore")

    def stop(self) -> None:
        """Ask the run to end between two rounds."""
        self._stop = True

    # ---- a pass

    def _pass(self, order: Sequence[int]) -> None:
        lanes = [list(order[i :: self.plan.lanes]) for i in range(self.plan.lanes)]
        places = Places(lanes, self.parts.rows, self.standing.places, self.standing.done)
        self._files.clear()
        self._settle_homes()
        base = self._base()
        planned = places
        submitted: deque[_Submitted] = deque()
        began = time.perf_counter()
        while not self._stop:
            while len(submitted) < AHEAD and planned.more() and not (submitted and self._due(submitted)):
                entry = self._submit(planned, self.standing.round + len(submitted), base, submitted)
                submitted.append(entry)
                planned, base = entry.after, None
            if not submitted:
                return
            update = self._ended(submitted[0])
            if update is None:
                submitted.clear()
                self._recover()
                planned, base = places, self._base(always=True)
                continue
            places = submitted.popleft().after
            for known in (places, *(entry.after for entry in submitted)):
                known.told(update.told)
            apply(self.learner, update)
            if not submitted:
                self._last = self.client.scatter([update], hash=False, broadcast=True)[0]
            planned = submitted[-1].after if submitted else places
            self._tell(update, places, time.perf_counter() - began)
            began = time.perf_counter()

    def _due(self, submitted: deque[_Submitted]) -> bool:
        """Tell that the next round waits until the client has the sum of the last one under way."""
        return (submitted[-1].number + 1) % CUT == 0

    def _base(self, *, always: bool = False) -> Future | None:
        """Scatter the state, unless workers can make it themselves or have it already."""
        if not always and (self.rounds or (self.plan.fresh and self.standing.round == 0)):
            return None
        return self.client.scatter([self.learner.state_dict(copy=False)], hash=False)[0]

    def _submit(self, places: Places, number: int, base: Future | None, submitted: deque[_Submitted]) -> _Submitted:
        share = max(self.plan.rows // self.plan.lanes, 1)
        rows = min(share, FIRST_ROWS << min(number, 40)) if self.plan.fresh else share
        name, after = f"{self.run_name}-{self._attempt}", places.copy()
        updates = [entry.update for entry in submitted] if base is None else []
        if base is None and not submitted and self._last is not None:
            updates = [self._last]
        moves = after.take(rows)
        futures, kept = [], []
        for lane, slices in enumerate(moves):
            if slices is None:
                continue
            job = Job(
                self.run_name,
                number,
                lane,
                sum(one is not None for one in moves),
                rows,
                self.standing.number == 0,
                self.plan.fresh,
                self._settings,
                self._labelled,
                tuple(Slice(k, start, stop) for k, (_, start, stop) in enumerate(slices)),
                None if submitted else places.places[lane],
            )
            data = self._data(places, lane, slices)
            kept.append(data)
            futures.append(
                self.client.submit(
                    learn_lane,
                    job,
                    data,
                    base,
                    updates[-1:],
                    key=f"{name}-learn-{number}-{lane}",
                    workers=self._homes[lane],
                    allow_other_workers=True,
                    retries=RETRIES,
                )
            )
        self._forget(after)
        return _Submitted(
            number, tree(self.client, add, futures, f"{name}-add-{number}"), after, [*kept, *updates, base]
        )

    def _data(self, places: Places, lane: int, slices: list[tuple[int, int, int]]) -> Any:
        """Return the partitions of a lane's slices, or all its files."""
        if not self.parts.from_files:
            for part, _, _ in slices:
                if part not in self._loaded:
                    self._loaded[part] = self.parts.parts[part].load(self.client, self._homes[lane])
            return [self._loaded[part] for part, _, _ in slices]
        if lane not in self._files:
            files = [self.parts.parts[part].data for part in places.lanes[lane]]
            self._files[lane] = self.client.submit(
                list, files, key=f"{self.run_name}-files-{self.standing.number}-{lane}"
            )
        return self._files[lane]

    def _forget(self, places: Places) -> None:
        """Let go of partitions that no later round of this pass needs."""
        needed = places.needed()
        for part in [part for part in self._loaded if part not in needed]:
            del self._loaded[part]

    # ---- the end of a round

    _last: Future | None = None

    def _ended(self, entry: _Submitted) -> Update | None:
        """Return the sum of a round, or None if it has to begin again."""
        try:
            update: Update = entry.update.result()
        except LOST:
            return None
        except Exception:
            if entry.update.status in ("cancelled", "lost"):
                return None
            raise
        if update.behind:
            return None
        self._last, self._faults = entry.update, 0
        return update

    def _recover(self) -> None:
        """Begin a round again: with other names, as Dask keeps what became of a name."""
        self._attempt, self._faults, self._last = self._attempt + 1, self._faults + 1, None
        if self._faults > MOST_FAULTS:
            raise ClusterError(f"round {self.standing.round} was lost {MOST_FAULTS} times; see the workers' logs")
        self._loaded.clear()
        self._files.clear()
        self.client.wait_for_workers(1, timeout=300)
        self._settle_homes()

    def _settle_homes(self) -> None:
        """Give each lane a worker to stay at, as long as it lives."""
        slots = [address for address, threads in sorted(self.client.nthreads().items()) for _ in range(threads)]
        self._homes = [[slots[i * len(slots) // self.plan.lanes % len(slots)]] for i in range(self.plan.lanes)]

    def _tell(self, update: Update, places: Places, seconds: float) -> None:
        standing = self.standing
        standing.round += 1
        rows = sum(told.rows for told in update.told)
        standing.rows += rows
        standing.n_bytes += sum(told.n_bytes for told in update.told)
        standing.zeros |= any(told.seen[0] for told in update.told)
        standing.negatives |= any(told.seen[1] for told in update.told)
        standing.places, standing.done = list(places.places), list(places.done)
        if not rows:
            return
        workers = len(set(map(tuple, self._homes)))
        merged = 0 if update.changes is None else update.changes.n_bytes * (workers + 1)
        sent = sum(told.sent for told in update.told) + merged
        ended = Round(standing.round, rows, standing.rows, self.learner.progressive_loss, sent, seconds)
        self.rounds.append(ended)
        if self._on_round is not None:
            self._on_round(ended, update.told)
