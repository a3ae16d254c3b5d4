"""Rounds: the client's side of learning in lanes.

The client submits a lane's part of a round as one task, named by run, round and lane; Dask runs it where the lane ran
before if it can, elsewhere if it must, and again if its worker dies. The changes of all lanes are added by tasks, too,
and their sum goes to the workers (with two lanes their changes go to both, which add them themselves); the client is
told numbers. A round is submitted before the one ahead of it has ended, be it in the same pass or the next: its tasks
wait for the sum, not for the client.

What moves in a round: each lane's changes of the features that its rows had, once, and their sum to each worker. The
state as a whole moves to the client when it is wanted there (`wants`), at the end, and every CUT rounds; and from the
client to a worker that does not have it: at the beginning, when a run goes on from a model or a checkpoint, after CUT
rounds, in a pass behind one where some lanes had fewer rounds than others, and after a fault.

Faults. A worker that dies takes its state with it. Its lane's task runs on another worker, which may have the state of
that round or not; then, and when a result was lost on the way, the client scatters the state that it holds, and the
rounds since then are learned again. All that a task does depends on its arguments alone, so the result is the same
bits, and nothing is told twice.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

from distributed import Client, Future, KilledWorker
from distributed.comm import CommClosedError

from ..estimators.rows import Batch
from ..learner import Learner
from .clients import tree
from .lanes import Job, News, Slice, Told, add, forget, learn_lane, news, state_of
from .parts import Parts
from .places import Places
from .plan import Plan, Round, Standing
from .reading import Place

AHEAD = 2  # rounds that are under way
DIRECT = 2  # lanes whose changes go to each other's workers: a sum would have the same way to go, after another task
CUT = 16  # rounds after which the client hands out the state, so that Dask can forget how it came about
FIRST_ROWS = 1 << 10  # rows of a lane's first round; the next has twice as many, until all have what they should
RETRIES = 2  # of a task that raised, as when a file could not be reached
MOST_FAULTS = 20  # rounds in a row that begin again
PAUSE = 0.2  # seconds before the state is sent again

PRIORITY = 1  # of what the client waits for, before learning

LOST = (KilledWorker, CommClosedError)


class ClusterError(RuntimeError):
    """A cluster that lost the same round again and again."""


class _Submitted(NamedTuple):
    number: int
    news: Future
    update: list[Future]  # parts of it, which workers add
    after: Places
    rows: int  # at most, of all lanes
    job: Job  # of one lane
    uneven: bool  # not all lanes have rows, and those without do not hear of it
    kept: list[Any]  # futures that must live until the round has ended


class _Mark(NamedTuple):
    """Where the state that the client has belongs: the number of rounds behind it, and the places of lanes."""

    round: int
    places: Places


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
    on_round : function of a Round and what the lanes told, optional
        Called after each round.
    on_told : function of what the lanes told, optional
        Called before that, for rounds that are learned again, too.
    on_pass : function, optional
        Called after each pass, once or more; tells whether to go on, for which the plan must be `settled`.
    wants : function of two numbers of rows, optional
        Whether the learner is to hold the state when a round is told that ends between them, counted from the beginning
        of the pass. It costs the state's way to the client, and a wait for it.
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
        on_told: Callable[[tuple[Told, ...]], None] | None = None,
        on_pass: Callable[[], bool] | None = None,
        wants: Callable[[int, int], bool] | None = None,
        standing: Standing | None = None,
    ) -> None:
        self.client, self.parts, self.learner, self.plan = client, parts, learner, plan
        self.run_name = f"proxstream-{uuid4().hex[:12]}"
        self.standing = Standing() if standing is None else standing
        self.rounds: list[Round] = []
        self._settings, self._labelled, self._wants = settings, labelled, wants
        self._on_round, self._on_told, self._on_pass = on_round, on_told, on_pass
        self._loaded: dict[int, Any] = {}
        self._files: dict[tuple[int, int], Future] = {}  # by pass and lane
        self._attempt = self._faults = 0
        self._homes: list[list[str]] = []
        self._stop = False
        self.losses = learner.loss_sums  # and weights, up to the last round that was told

    def __call__(self) -> None:
        """Run to the end of the last pass."""
        try:
            self._run()
        finally:
            self._loaded.clear()
            self._files.clear()
            self.client.run(forget, self.run_name, on_error="ignore")

    def stop(self) -> None:
        """Ask the run to end between two rounds."""
        self._stop = True

    def _run(self) -> None:
        standing, n = self.standing, self.plan.lanes
        passes = [[list(order[i::n]) for i in range(n)] for order in self.plan.passes]
        planned = Places(passes, self.parts.rows, standing.number, standing.places, standing.done)
        self._at, self._mark = standing.round, _Mark(standing.round, planned.copy())
        self._settle_homes()
        self._base = self._scattered()
        submitted: deque[_Submitted] = deque()
        began = time.perf_counter()
        while True:
            # Not while rounds are learned again: their passes have been told of.
            if not submitted and planned.ended and self._at == standing.round and not self._pass_ended():
                return
            while self._may_submit(submitted, planned):
                entry = self._submit(planned, self._at + len(submitted), submitted)
                submitted.append(entry)
                planned, self._base = entry.after, None
            if not submitted:
                return
            told = self._ended(submitted[0])
            entry = submitted.popleft()
            if told is not None:
                for known in (entry, *submitted):
                    known.after.told(entry.after.number, told.told)
            # Nothing is under way: the state is wanted, or this was the last round.
            if told is None or (not submitted and not self._synchronized(entry)):
                submitted.clear()
                self._recover()
                self._at, planned = self._mark.round, self._mark.places.copy()
                self._base = self._scattered(always=True)
                continue
            self._at += 1
            planned = submitted[-1].after if submitted else entry.after
            if self._at % CUT == 0:
                self._base, self._last = self._scattered(always=True), ()
            if self._on_told is not None:
                self._on_told(told.told)
            if self._at > self.standing.round:
                self._tell(told, entry.after, time.perf_counter() - began)
            began = time.perf_counter()

    def _may_submit(self, submitted: deque[_Submitted], planned: Places) -> bool:
        """Tell whether another round can be under way: not behind one whose state is wanted, until that is here."""
        if self._stop or len(submitted) >= AHEAD or not planned.more():
            return False
        if not submitted:
            return True
        if planned.ended and (self.plan.settled or submitted[-1].uneven):
            return False
        return not self._wanted(submitted) and (submitted[-1].number + 1) % CUT != 0

    def _wanted(self, submitted: deque[_Submitted]) -> bool:
        """Tell whether the state is wanted behind a round that is under way."""
        spans = {self.standing.number: (self.standing.pass_rows, self.standing.pass_rows)}
        for entry in submitted:
            low, high = spans.get(entry.after.number, (0, 0))
            spans[entry.after.number] = low, high + entry.rows
        return self._wants is not None and any(self._wants(low, high) for low, high in spans.values() if low < high)

    def _scattered(self, *, always: bool = False) -> Future | None:
        """Scatter the state, unless workers can make it themselves or have it already."""
        if not always and (self.rounds or (self.plan.fresh and self.standing.round == 0)):
            return None
        for _ in range(MOST_FAULTS):
            try:
                return self.client.scatter([self.learner.state_dict(copy=False)], hash=False)[0]
            except OSError:  # to a worker that has died, of which the scheduler has yet to hear
                time.sleep(PAUSE)
                self.client.wait_for_workers(1, timeout=300)
        raise ClusterError(f"the state was lost on its way {MOST_FAULTS} times; see the workers' logs")

    def _submit(self, places: Places, number: int, submitted: deque[_Submitted]) -> _Submitted:
        share = max(self.plan.rows // self.plan.lanes, 1)
        rows = min(share, FIRST_ROWS << min(number, 40)) if self.plan.fresh else share
        name, after = f"{self.run_name}-{self._attempt}", places.copy()
        moves = after.take(rows)
        turned = after.number > places.number
        if turned:
            self._settle_homes()
        base = self._base
        if turned and self._uneven and base is None:
            base = self._scattered(always=True)
        last = submitted[-1].update if submitted else self._last
        if base is not None:
            last = []
        self._uneven = None in moves
        futures, kept, jobs = [], [], []
        for lane, slices in enumerate(moves):
            if slices is None:
                continue
            job = Job(
                self.run_name,
                number,
                lane,
                sum(one is not None for one in moves),
                rows,
                after.number == 0,
                self.plan.fresh,
                self._settings,
                self._labelled,
                tuple(Slice(k, start, stop) for k, (_, start, stop) in enumerate(slices)),
                Place() if turned else None if submitted else places.places[lane],
                self.plan.tally,
                self.plan.held_out,
            )
            data = self._data(after, lane, slices)
            jobs.append(job)
            kept.append(data)
            futures.append(
                self.client.submit(
                    learn_lane,
                    job,
                    data,
                    base,
                    last,
                    key=f"{name}-learn-{number}-{lane}",
                    workers=self._homes[lane],
                    allow_other_workers=True,
                    retries=RETRIES,
                )
            )
        self._forget(after)
        update = futures if len(futures) <= DIRECT else [tree(self.client, add, futures, f"{name}-add-{number}")]
        told = self.client.submit(news, update, key=f"{name}-news-{number}", priority=PRIORITY)
        at_most = sum(sum(stop - start for _, start, stop in one) or rows for one in moves if one is not None)
        return _Submitted(number, told, update, after, at_most, jobs[0], self._uneven, [*kept, *last, base])

    def _data(self, places: Places, lane: int, slices: list[tuple[int, int, int]]) -> Any:
        """Return the partitions of a lane's slices, or all its files."""
        if not self.parts.from_files:
            for part, _, _ in slices:
                if part not in self._loaded:
                    self._loaded[part] = self.parts.parts[part].load(self.client, self._homes[lane])
            return [self._loaded[part] for part, _, _ in slices]
        at = places.number, lane
        if at not in self._files:
            files = [self.parts.parts[part].data for part in places.lanes[lane]]
            self._files[at] = self.client.submit(list, files, key=f"{self.run_name}-files-{places.number}-{lane}")
        return self._files[at]

    def _forget(self, places: Places) -> None:
        """Let go of partitions that no later round of this pass needs, unless they stay in memory all the same."""
        needed = places.needed()
        for part in [part for part in self._loaded if part not in needed and not self.parts.parts[part].held]:
            del self._loaded[part]

    # ---- the end of a round

    _last: Sequence[Future] = ()  # the update that brings workers to the state of the next round,
    _base: Future | None = None  # or that state
    _mark: _Mark
    _uneven = False  # as of the round submitted last
    _at = 0  # rounds behind us, counted again where they are learned again

    def _ended(self, entry: _Submitted) -> News | None:
        """Return what is told of a round, or None if it has to begin again."""
        told: News | None = _result(entry.news)
        if told is None or told.behind:
            return None
        self._last = entry.update
        return told

    def _synchronized(self, entry: _Submitted) -> bool:
        """Bring the learner to the state behind a round; nothing else is under way. Tell whether a worker had it."""
        job = replace(entry.job, round=entry.number + 1)
        state = self.client.submit(
            state_of,
            job,
            entry.update,
            key=f"{self.run_name}-{self._attempt}-state-{entry.number}",
            workers=self._homes[job.lane],
            allow_other_workers=True,
        )
        arrays = _result(state)
        if arrays is None:
            return False
        self.learner.load_state_dict(arrays)
        self._mark = _Mark(entry.number + 1, entry.after.copy())
        return True

    def _recover(self) -> None:
        """Begin a round again: with other names, as Dask keeps what became of a name."""
        self._attempt, self._faults, self._last = self._attempt + 1, self._faults + 1, ()
        if self._faults > MOST_FAULTS:
            raise ClusterError(f"round {self.standing.round} was lost {MOST_FAULTS} times; see the workers' logs")
        self._loaded.clear()
        self._files.clear()
        self.client.wait_for_workers(1, timeout=300)
        self._settle_homes()

    def _settle_homes(self) -> None:
        """Give each lane a worker to stay at, as long as it lives."""
        while not (found := self.client.nthreads()):  # all have died
            self.client.wait_for_workers(1, timeout=300)
        slots = [address for address, threads in sorted(found.items()) for _ in range(threads)]
        self._homes = [[slots[i * len(slots) // self.plan.lanes % len(slots)]] for i in range(self.plan.lanes)]

    def _pass_ended(self) -> bool:
        """Tell that the pass has ended in which the run stands; return whether to go on."""
        return self._on_pass is None or self._on_pass()

    def _tell(self, told: News, places: Places, seconds: float) -> None:
        standing, self._faults = self.standing, 0
        standing.round += 1
        if places.number > standing.number:
            self._pass_ended()
            standing.number, standing.pass_rows = places.number, 0
        rows = sum(lane.rows for lane in told.told)
        standing.rows += rows
        standing.pass_rows += rows
        standing.n_bytes += sum(lane.n_bytes for lane in told.told)
        standing.bad_labels += sum(lane.bad_labels for lane in told.told)
        standing.zeros |= any(lane.seen[0] for lane in told.told)
        standing.negatives |= any(lane.seen[1] for lane in told.told)
        standing.places, standing.done = list(places.places), list(places.done)
        standing.skipped = sum(place.left_out for place in places.places)
        if not rows:
            return
        before = (0.0, 0.0) if told.exact else self.losses
        self.losses = before[0] + float(told.losses[0]), before[1] + float(told.losses[1])
        workers = len(set(map(tuple, self._homes)))
        sent = told.n_bytes * (workers - 1)
        if workers > 1 and len(told.told) > DIRECT:
            sent = sum(lane.sent for lane in told.told) + told.n_bytes * workers
        mean_loss = self.losses[0] / self.losses[1] if self.losses[1] > 0.0 else math.nan
        ended = Round(standing.round, rows, standing.rows, mean_loss, sent, seconds)
        self.rounds.append(ended)
        if self._on_round is not None:
            self._on_round(ended, told.told)


def _result(future: Future) -> Any:
    """Return a task's result, None if it was lost with its worker."""
    try:
        return future.result()
    except LOST:
        return None
    except Exception:
        if future.status in ("cancelled", "lost"):
            return None
        raise
