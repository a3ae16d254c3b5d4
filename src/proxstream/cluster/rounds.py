"""Rounds: the client's side of learning in lanes.

The client submits a lane's part of a round as one task, named by run, round and lane; Dask runs it on the same worker
as before if it can, on another if it must, and again if the worker dies. The changes of all lanes are added by tasks,
too, and their sum is sent to the workers (two lanes send their changes to each other's worker, which adds them);
the client receives numbers only. A round is submitted before the previous one has ended, in the same pass or the next:
its tasks wait for the sum, not for the client.

What is sent in a round: each lane's changes of the features in its rows, once, and their sum to each worker. The
complete state is sent to the client when it is needed there (`needs_state`), at the end, and every CUT rounds; and from
the client to a worker that does not have it: at the start, when a run continues from a model or a checkpoint, after CUT
rounds, in a pass after one where some lanes had fewer rounds than others, and after a failure.

Failures. A worker that dies takes its state with it. Its lane's task runs on another worker, which may or may not have
the state of that round; if not, or if a result was lost on the way, the client scatters the state that it holds, and
the rounds since then are learned again. Tasks depend on their arguments only, so the result is the same bits, and
nothing is reported twice.
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

from ..data.batches import Batch
from ..learner.learner import Learner
from .client import tree
from .lane_reader import LanePosition
from .lanes import LaneReport, LaneTask, RoundReport, Slice, add, forget, learn_lane, report_round, state_of
from .partitions import Partitions
from .schedule import Plan, Round, RunProgress, Schedule

AHEAD = 2  # rounds in progress
DIRECT = 2  # lanes that send changes to each other directly: a sum would be sent as far, after another task
CUT = 16  # rounds after which the client scatters the state, so that Dask can forget its history
FIRST_ROWS = 1 << 10  # rows per lane of the first round; doubled every round up to the number wanted
RETRIES = 2  # of a task that raised, for example because a file was unreachable
MAX_FAILURES = 20  # consecutive failed rounds
PAUSE = 0.2  # seconds before the state is sent again

PRIORITY = 1  # of results that the client waits for, over learning

LOST = (KilledWorker, CommClosedError)


class ClusterError(RuntimeError):
    """The same round was lost repeatedly."""


class _Submitted(NamedTuple):
    number: int
    report: Future
    update: list[Future]  # its parts, which workers add
    after: Schedule
    rows: int  # at most, of all lanes
    task: LaneTask  # of one lane
    uneven: bool  # some lanes have no rows and do not receive the update
    kept: list[Any]  # futures that must live until the round ends


class _Mark(NamedTuple):
    """The round and the schedule of the state that the client holds."""

    round: int
    schedule: Schedule


class Rounds:
    """One run over partitions.

    Parameters
    ----------
    client : Client
    parts : Partitions
    learner : Learner
        The state to start from; updated at the end.
    settings : dict
        Arguments of `Learner` for the workers.
    encode : function of a Batch
        Run on workers; returns the batch with labels of the loss.
    plan : Plan
    on_round : function of a Round and the reports of its lanes, optional
        Called after each round.
    on_reports : function of the reports of lanes, optional
        Called before that, also for rounds that are learned again.
    on_pass : function, optional
        Called after each pass, once or more; returns whether to continue, which needs a `settled` plan.
    needs_state : function of two numbers of rows, optional
        Whether the learner must hold the state after a round that ends between these rows of the pass. The state is
        then sent to the client, which waits for it.
    progress : RunProgress, optional
        Of an earlier run.
    """

    def __init__(
        self,
        client: Client,
        parts: Partitions,
        learner: Learner,
        settings: dict[str, Any],
        encode: Callable[[Batch], Batch],
        plan: Plan,
        *,
        on_round: Callable[[Round, tuple[LaneReport, ...]], None] | None = None,
        on_reports: Callable[[tuple[LaneReport, ...]], None] | None = None,
        on_pass: Callable[[], bool] | None = None,
        needs_state: Callable[[int, int], bool] | None = None,
        progress: RunProgress | None = None,
    ) -> None:
        self.client, self.parts, self.learner, self.plan = client, parts, learner, plan
        self.run_name = f"proxstream-{uuid4().hex[:12]}"
        self.progress = RunProgress() if progress is None else progress
        self.rounds: list[Round] = []
        self._settings, self._encode, self._needs_state = settings, encode, needs_state
        self._on_round, self._on_reports, self._on_pass = on_round, on_reports, on_pass
        self._loaded: dict[int, Any] = {}
        self._files: dict[tuple[int, int], Future] = {}  # by pass and lane
        self._attempt = self._failures = 0
        self._lane_workers: list[list[str]] = []
        self._stop = False
        self.losses = learner.loss_totals  # up to the last round reported

    def __call__(self) -> None:
        """Run to the end of the last pass."""
        try:
            self._run()
        finally:
            self._loaded.clear()
            self._files.clear()
            self.client.run(forget, self.run_name, on_error="ignore")

    def stop(self) -> None:
        """Stop the run between two rounds."""
        self._stop = True

    def _run(self) -> None:
        progress, n = self.progress, self.plan.lanes
        passes = [[list(order[i::n]) for i in range(n)] for order in self.plan.passes]
        planned = Schedule(passes, self.parts.rows, progress.number, progress.positions, progress.done)
        self._at, self._mark = progress.round, _Mark(progress.round, planned.copy())
        self._assign_workers()
        self._base = self._scatter_state()
        submitted: deque[_Submitted] = deque()
        began = time.perf_counter()
        while True:
            # Not while rounds are learned again: their passes have been reported.
            if not submitted and planned.ended and self._at == progress.round and not self._pass_ended():
                return
            while self._may_submit(submitted, planned):
                entry = self._submit(planned, self._at + len(submitted), submitted)
                submitted.append(entry)
                planned, self._base = entry.after, None
            if not submitted:
                return
            report = self._wait_for(submitted[0])
            entry = submitted.popleft()
            if report is not None:
                for known in (entry, *submitted):
                    known.after.update(entry.after.number, report.reports)
            # No other round is in progress: the state is needed, or this was the last round.
            if report is None or (not submitted and not self._fetch_state(entry)):
                submitted.clear()
                self._recover()
                self._at, planned = self._mark.round, self._mark.schedule.copy()
                self._base = self._scatter_state(always=True)
                continue
            self._at += 1
            planned = submitted[-1].after if submitted else entry.after
            if self._at % CUT == 0:
                self._base, self._last = self._scatter_state(always=True), ()
            if self._on_reports is not None:
                self._on_reports(report.reports)
            if self._at > self.progress.round:
                self._record_round(report, entry.after, time.perf_counter() - began)
            began = time.perf_counter()

    def _may_submit(self, submitted: deque[_Submitted], planned: Schedule) -> bool:
        """Return whether another round can be submitted: not after one whose state is needed, until it has arrived."""
        if self._stop or len(submitted) >= AHEAD or not planned.has_rows():
            return False
        if not submitted:
            return True
        if planned.ended and (self.plan.settled or submitted[-1].uneven):
            return False
        return not self._state_needed(submitted) and (submitted[-1].number + 1) % CUT != 0

    def _state_needed(self, submitted: deque[_Submitted]) -> bool:
        """Return whether the state is needed after a round in progress."""
        spans = {self.progress.number: (self.progress.pass_rows, self.progress.pass_rows)}
        for entry in submitted:
            low, high = spans.get(entry.after.number, (0, 0))
            spans[entry.after.number] = low, high + entry.rows
        return self._needs_state is not None and any(
            self._needs_state(low, high) for low, high in spans.values() if low < high
        )

    def _scatter_state(self, *, always: bool = False) -> Future | None:
        """Scatter the state, unless workers can make it themselves or have it already."""
        if not always and (self.rounds or (self.plan.fresh and self.progress.round == 0)):
            return None
        for _ in range(MAX_FAILURES):
            try:
                return self.client.scatter([self.learner.state_dict(copy=False)], hash=False)[0]
            except OSError:  # the worker has died and the scheduler does not know it yet
                time.sleep(PAUSE)
                self.client.wait_for_workers(1, timeout=300)
        raise ClusterError(f"sending the state failed {MAX_FAILURES} times; see the logs of the workers")

    def _submit(self, schedule: Schedule, number: int, submitted: deque[_Submitted]) -> _Submitted:
        share = max(self.plan.rows // self.plan.lanes, 1)
        rows = min(share, FIRST_ROWS << min(number, 40)) if self.plan.fresh else share
        name, after = f"{self.run_name}-{self._attempt}", schedule.copy()
        moves = after.take(rows)
        new_pass = after.number > schedule.number
        if new_pass:
            self._assign_workers()
        base = self._base
        if new_pass and self._uneven and base is None:
            base = self._scatter_state(always=True)
        last = submitted[-1].update if submitted else self._last
        if base is not None:
            last = []
        self._uneven = None in moves
        futures, kept, tasks = [], [], []
        for lane, slices in enumerate(moves):
            if slices is None:
                continue
            task = LaneTask(
                self.run_name,
                number,
                lane,
                sum(one is not None for one in moves),
                rows,
                after.number == 0,
                self.plan.fresh,
                self._settings,
                self._encode,
                tuple(Slice(k, start, stop) for k, (_, start, stop) in enumerate(slices)),
                LanePosition() if new_pass else None if submitted else schedule.positions[lane],
                self.plan.tally,
                self.plan.held_out,
            )
            data = self._data(after, lane, slices)
            tasks.append(task)
            kept.append(data)
            futures.append(
                self.client.submit(
                    learn_lane,
                    task,
                    data,
                    base,
                    last,
                    key=f"{name}-learn-{number}-{lane}",
                    workers=self._lane_workers[lane],
                    allow_other_workers=True,
                    retries=RETRIES,
                )
            )
        self._forget(after)
        update = futures if len(futures) <= DIRECT else [tree(self.client, add, futures, f"{name}-add-{number}")]
        report = self.client.submit(report_round, update, key=f"{name}-report-{number}", priority=PRIORITY)
        at_most = sum(sum(stop - start for _, start, stop in one) or rows for one in moves if one is not None)
        return _Submitted(number, report, update, after, at_most, tasks[0], self._uneven, [*kept, *last, base])

    def _data(self, schedule: Schedule, lane: int, slices: list[tuple[int, int, int]]) -> Any:
        """Return the partitions of a lane's slices, or all its files."""
        if not self.parts.from_files:
            for part, _, _ in slices:
                if part not in self._loaded:
                    self._loaded[part] = self.parts.parts[part].load(self.client, self._lane_workers[lane])
            return [self._loaded[part] for part, _, _ in slices]
        at = schedule.number, lane
        if at not in self._files:
            files = [self.parts.parts[part].data for part in schedule.lanes[lane]]
            self._files[at] = self.client.submit(list, files, key=f"{self.run_name}-files-{schedule.number}-{lane}")
        return self._files[at]

    def _forget(self, schedule: Schedule) -> None:
        """Release partitions that no later round of this pass needs, unless they stay in memory anyway."""
        needed = schedule.needed()
        for part in [part for part in self._loaded if part not in needed and not self.parts.parts[part].in_memory]:
            del self._loaded[part]

    # ---- the end of a round

    _last: Sequence[Future] = ()  # the update to the state of the next round,
    _base: Future | None = None  # or that state
    _mark: _Mark
    _uneven = False  # of the round submitted last
    _at = 0  # rounds finished, counted again when learned again

    def _wait_for(self, entry: _Submitted) -> RoundReport | None:
        """Wait for the report of a round; None if the round has to be learned again."""
        report: RoundReport | None = result_of(entry.report)
        if report is None or report.stale:
            return None
        self._last = entry.update
        return report

    def _fetch_state(self, entry: _Submitted) -> bool:
        """Load the state after a round into the learner; return whether a worker had it."""
        task = replace(entry.task, round=entry.number + 1)
        state = self.client.submit(
            state_of,
            task,
            entry.update,
            key=f"{self.run_name}-{self._attempt}-state-{entry.number}",
            workers=self._lane_workers[task.lane],
            allow_other_workers=True,
        )
        arrays = result_of(state)
        if arrays is None:
            return False
        self.learner.load_state_dict(arrays)
        self._mark = _Mark(entry.number + 1, entry.after.copy())
        return True

    def _recover(self) -> None:
        """Prepare to learn rounds again, under new task names, since Dask remembers results by name."""
        self._attempt, self._failures, self._last = self._attempt + 1, self._failures + 1, ()
        if self._failures > MAX_FAILURES:
            raise ClusterError(f"round {self.progress.round} failed {MAX_FAILURES} times; see the logs of the workers")
        self._loaded.clear()
        self._files.clear()
        self.client.wait_for_workers(1, timeout=300)
        self._assign_workers()

    def _assign_workers(self) -> None:
        """Assign a worker to each lane."""
        while not (found := self.client.nthreads()):  # all have died
            self.client.wait_for_workers(1, timeout=300)
        slots = [address for address, threads in sorted(found.items()) for _ in range(threads)]
        self._lane_workers = [[slots[i * len(slots) // self.plan.lanes % len(slots)]] for i in range(self.plan.lanes)]

    def _pass_ended(self) -> bool:
        """Report the end of the pass; return whether to continue."""
        return self._on_pass is None or self._on_pass()

    def _record_round(self, report: RoundReport, schedule: Schedule, seconds: float) -> None:
        progress, self._failures = self.progress, 0
        progress.round += 1
        if schedule.number > progress.number:
            self._pass_ended()
            progress.number, progress.pass_rows = schedule.number, 0
        rows = sum(lane.rows for lane in report.reports)
        progress.rows += rows
        progress.pass_rows += rows
        progress.n_bytes += sum(lane.n_bytes for lane in report.reports)
        progress.bad_labels += sum(lane.bad_labels for lane in report.reports)
        progress.seen = tuple(map(any, zip(progress.seen, *(lane.seen for lane in report.reports), strict=True)))
        progress.positions, progress.done = list(schedule.positions), list(schedule.done)
        progress.skipped = sum(position.bad_rows for position in schedule.positions)
        if not rows:
            return
        self.losses = (0.0 if report.exact else self.losses) + report.losses
        workers = len(set(map(tuple, self._lane_workers)))
        sent = report.n_bytes * (workers - 1)
        if workers > 1 and len(report.reports) > DIRECT:
            sent = sum(lane.sent for lane in report.reports) + report.n_bytes * workers
        loss, weight = float(self.losses[..., 0].min()), float(self.losses[..., 1].max())  # of the best strength
        ended = Round(progress.round, rows, progress.rows, loss / weight if weight > 0.0 else math.nan, sent, seconds)
        self.rounds.append(ended)
        if self._on_round is not None:
            self._on_round(ended, report.reports)


def result_of(future: Future) -> Any:
    """Return the result of a task, None if it was lost with its worker."""
    try:
        return future.result()
    except LOST:
        return None
    except Exception:
        if future.status in ("cancelled", "lost"):
            return None
        raise
