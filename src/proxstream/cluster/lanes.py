r"""Lanes: what a worker does in a round. All functions here run on workers; their results depend on arguments only.

A round starts from one state for all lanes. A lane learns its next rows on a copy of that state and returns what
changed; the changes of all lanes are added, and their sum is the update to the next round:

    state r, rows of lane i  ->  learn  ->  changes  \
    state r, rows of lane j  ->  learn  ->  changes   >  add, in a fixed order  ->  update r  ->  state r + 1

A worker caches its last state and the file that it is reading, so that usually only the update is sent to it. The cache
does not affect results: states are numbered by round, and a worker that does not have the right one reports that it is
stale; a file is opened again at the position of the lane. The client receives numbers only (`report_round`), and asks a
worker for the state (`state_of`) when it needs it.

The rows of a lane are weighted by the number of lanes, as if each row had a twin in every other lane; see
`proxstream.learner.merge` for how that is undone. Otherwise n lanes that find the same step would make it n times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ..core.validation import Array
from ..data import tallies
from ..data.batches import Batch, blocks
from ..data.rowblock import RowBlock
from ..learner import merge as sums
from ..learner.learner import Learner
from ..learner.merge import Sums
from .lane_reader import BadRows, LanePosition, LaneReader, LaneRows, slice_partition
from .partitions import FilePartition
from .worker_cache import WorkerCache

MOST_BAD = 1 << 22  # bytes of bad rows reported per round, approximately


class Slice(NamedTuple):
    """Rows of a partition in memory; `part` is its index in the data of the task."""

    part: int
    start: int
    stop: int


@dataclass(frozen=True)
class LaneTask:
    """One lane's part of a round.

    `round` is the number of the state that it starts from; in a `fresh` run the first is that of a new learner.
    `slices` are rows of partitions in memory; of files, the next `rows` after `position`. If the last round has not yet
    reported the position and the number of `lanes` with rows, `position` is None. With `tally`, predictions are counted
    as well as losses, and losses of relearned rows are summed apart from those that `count`. `held_out` is the share of
    the rows of each file that are not learned. `encode` returns a batch with labels of the loss.
    """

    run: str
    round: int
    lane: int
    lanes: int
    rows: int
    count: bool
    fresh: bool
    settings: Mapping[str, Any]
    encode: Callable[[Batch], Batch]
    slices: tuple[Slice, ...] = ()
    position: LanePosition | None = None
    tally: bool = False
    held_out: Fraction | int = 0


Counts = dict[str, tuple[Array, Array]]  # by name: indices into a flat array, and values to add there


class LaneReport(NamedTuple):
    """What a lane reports beside its changes: rows, bytes of files and of changes, and its position."""

    lane: int
    rows: int
    n_bytes: int
    sent: int
    position: LanePosition
    done: bool
    seen: tuple[bool, bool, bool]  # whether a label was 0, whether one was -1, and whether a feature was 0
    last: tuple[Any, Any, int] | None  # label, scores (of each model) and number of features of the last row
    counts: tuple[Counts, ...] = ()  # of predictions of each model, see `data.tallies`
    bad_labels: int = 0  # rows skipped because of their labels
    bad: tuple[BadRows, ...] = ()  # rows for the quarantine


class Update(NamedTuple):
    """Changes of one lane or of all; `stale` if the worker did not have the state to start from.

    `changes` are those of each of `learner.merge.engines_of`, none without rows; `losses` adds to `loss_totals`.
    """

    stale: bool
    changes: tuple[Sums, ...]
    losses: Array
    reports: tuple[LaneReport, ...]

    @property
    def exact(self) -> bool:
        """Whether changes and losses are new values, of one learner alone."""
        return any(changes.exact for changes in self.changes)


NO_LOSSES = np.zeros(())
STALE = Update(True, (), NO_LOSSES, ())


class RoundReport(NamedTuple):
    """What the client receives of a round: the reports of the lanes and the size of the changes."""

    stale: bool
    exact: bool  # the losses are sums over all rows so far
    losses: Array
    reports: tuple[LaneReport, ...]
    n_bytes: int


def report_round(parts: list[Update]) -> RoundReport:
    """Return the report of an update that is given in one or more parts."""
    n_bytes = sum(changes.n_bytes for part in parts for changes in part.changes)
    reports = tuple(report for part in parts for report in part.reports)
    stale, exact = any(part.stale for part in parts), any(part.exact for part in parts)
    return RoundReport(stale, exact, _add_losses(parts), reports, n_bytes)


def learn_lane(task: LaneTask, data: Any, base: Mapping[str, Array] | None, last: list[Update]) -> Update:
    """Learn a lane's next rows.

    Parameters
    ----------
    task : LaneTask
    data : list of partitions in memory, or of the lane's files
    base : arrays of the state of this round, or None: the state cached on the worker, or a new one in round 0
    last : the parts of the update that leads to this round; empty if there is a base
    """
    learner = _replica(task, base, last)
    if learner is None:
        return STALE
    if task.position is None and not task.slices:
        lanes = {report.lane: report for part in last for report in part.reports}
        mine = lanes[task.lane]
        if mine.done:
            _CACHE.put_state(task.run, task.round, learner)
            return Update(False, (), NO_LOSSES, (LaneReport(task.lane, 0, 0, 0, mine.position, True, mine.seen, None),))
        task = replace(task, position=mine.position, lanes=sum(not report.done for report in lanes.values()))
    try:
        if task.slices:
            found = LaneRows(
                [slice_partition(data[at.part], at.start, at.stop) for at in task.slices], LanePosition(), False, 0
            )
        else:
            found = _read(task, data)
        rows = prepare_rows(task, found)
    except Exception:
        _CACHE.put_state(task.run, task.round, learner)  # still unchanged
        raise
    update = _learn(task, learner, found, rows)
    _CACHE.put_state(task.run, task.round, learner)
    return update


def state_of(task: LaneTask, last: list[Update]) -> dict[str, Array] | None:
    """Return the state that a round starts from, None if this worker does not have it."""
    learner = _replica(task, None, last)
    if learner is None:
        return None
    arrays = learner.state_dict()
    _CACHE.put_state(task.run, task.round, learner)
    return arrays


def add(updates: list[Update]) -> Update:
    """Return the sum of updates."""
    if any(update.stale for update in updates):
        return STALE
    changes = zip(*(update.changes for update in updates if update.changes), strict=True)
    reports = tuple(report for update in updates for report in update.reports)
    return Update(False, tuple(sums.add(list(each)) for each in changes), _add_losses(updates), reports)


def _add_losses(updates: list[Update]) -> Array:
    """Return the sum of losses, added in the order given."""
    return np.asarray(reduce(np.add, (update.losses for update in updates)))


def apply(learner: Learner, update: Update) -> None:
    """Update a learner from the state of a round to that of the next."""
    if not update.changes:
        return
    for engine, changes in zip(sums.engines_of(learner.engine), update.changes, strict=True):
        sums.apply(engine, changes)
    learner.loss_totals = (0.0 if update.exact else learner.loss_totals) + update.losses


def make(settings: Mapping[str, Any], base: Mapping[str, Array] | None = None) -> Learner:
    """Return a new learner, of several strengths if there are any, or one in the given state."""
    if "strengths" in settings:
        from ..learner.path import PathLearner

        learner: Learner = PathLearner(**settings)
    else:
        learner = Learner(**settings)
    if base is not None:
        learner.load_state_dict(base)
    return learner


# ---- learning


def prepare_rows(task: LaneTask, found: LaneRows) -> list[RowBlock]:
    """Return the rows with labels, weights and precision of the learner."""
    dtype = task.settings["dtype"]
    encoded = (task.encode(batch) for batch in found.batches if batch.n_rows)
    return [_scale_weights(block, dtype, task.lanes) for batch in encoded if batch.n_rows for block, _ in blocks(batch)]


def _learn(task: LaneTask, learner: Learner, found: LaneRows, rows: list[RowBlock]) -> Update:
    """Learn rows from the state of this round, and restore that state."""
    zeros, negatives = (any(bool(np.any(batch.y == label)) for batch in found.batches) for label in (0, -1))
    seen = zeros, negatives, any(bool((block.indices == 0).any()) for block in rows)
    n_rows = sum(block.n_rows for block in rows)
    report = LaneReport(task.lane, n_rows, found.n_bytes, 0, found.position, found.done, seen, None)
    report = report._replace(bad_labels=sum(batch.n_rows for batch in found.batches) - n_rows, bad=found.bad)
    if not rows:
        return Update(False, (), NO_LOSSES, (report,))
    learner.engine.grow(max(learner.n_features, *(batch.n_features for batch in found.batches), 0))
    indices = [block.indices[block.indptr[0] : block.indptr[-1]] for block in rows]
    touched = sums.touched(learner.n_features, indices)
    starts = [(engine, sums.before(engine, touched)) for engine in sums.engines_of(learner.engine)]
    began, position, again = learner.loss_totals, found.position, task.tally and not task.count
    if again:
        learner.loss_totals = position.relearned_totals(began, task.lanes)
    scores, counts = _learn_blocks(task, learner, rows, count=task.count or again)
    if again:
        position = position.add_relearned(learner.loss_totals, task.lanes)
        learner.loss_totals = began
    changes = tuple(sums.withdraw(engine, start, task.lanes) for engine, start in starts)
    losses = learner.loss_totals if changes[0].exact else learner.losses_since(began, task.lanes)
    learner.loss_totals = began
    label = [batch for batch in found.batches if batch.n_rows][-1].y[-1]
    report = report._replace(
        position=position,
        sent=sum(each.n_bytes for each in changes),
        last=(label, scores, int(rows[-1].indptr[-1] - rows[-1].indptr[-2])),
        counts=counts,
    )
    return Update(False, changes, losses, (report,))


def _learn_blocks(
    task: LaneTask, learner: Learner, rows: list[RowBlock], *, count: bool
) -> tuple[Any, tuple[Counts, ...]]:
    """Learn blocks; return the scores of the last row, and counts of the predictions of each model."""
    several = hasattr(learner, "strengths")
    models = (len(learner.loss_totals) if several else 1) if task.tally and task.count else 0
    counted = [tallies.tally(learner.loss, learner.n_outputs) for _ in range(models)]
    for block in rows:
        learned = block._replace(c=np.maximum(block.c, 0.0)) if task.held_out else block
        # A block that is rejected is not stored.
        scores = learner.learn(learned, count=count, undo=False, repeated=not task.count)
        for tally, own in zip(counted, scores if several else [scores], strict=False):
            tally.add(own, learned.y, learned.c / task.lanes)
    counts = tuple({name: sparse_counts(array) for name, array in tally.arrays.items()} for tally in counted)
    return scores[:, -1] if several else scores[-1], counts


def sparse_counts(array: Array) -> tuple[Array, Array]:
    """Return the flat indices of the non-zeros of an array, and their values."""
    flat = array.reshape(-1)
    there = np.flatnonzero(flat).astype(np.int32)
    return there, flat[there]


def add_counts(tally: tallies.Tally, counts: Counts) -> None:
    """Add the counts that a worker has reported."""
    for name, (places, values) in counts.items():
        tally.arrays[name].reshape(-1)[places] += values


def _scale_weights(block: RowBlock, dtype: Any, lanes: int) -> RowBlock:
    """Return rows in the precision of the state with `lanes` times their weights."""
    block = block._replace(data=block.data.astype(dtype, copy=False))
    if lanes == 1:
        return block
    return block._replace(c=block.c * lanes if len(block.c) else np.full(block.n_rows, float(lanes)))


# ---- rows


def _read(task: LaneTask, files: list[FilePartition]) -> LaneRows:
    """Read a lane's next rows, with the cached reader if it is at the position."""
    reader, position = _CACHE.take_reader(task.run, task.lane), task.position or LanePosition()
    if reader is None or not reader.resume_at(position):
        if reader is not None:
            reader.close()
        reader = LaneReader(files, position, task.held_out)
    try:
        found = reader.read(task.rows, MOST_BAD // task.lanes)
    except BaseException:
        reader.close()
        raise
    if found.done:
        reader.close()
    else:
        _CACHE.put_reader(task.run, task.lane, reader)
    return found


_CACHE = WorkerCache()


def forget(run: str) -> None:
    """Drop the cache of a finished run on this worker."""
    _CACHE.forget(run)


def _replica(task: LaneTask, base: Mapping[str, Array] | None, last: list[Update]) -> Learner | None:
    """Return a learner in the state of the round, None if this worker does not have it."""
    if any(part.stale for part in last):
        return None
    updates = [add(last)] if last else []
    learner, missed = _CACHE.take_state(task.run, task.round, updates)
    if base is not None:
        return make(task.settings, base)
    if learner is None:
        if not task.fresh or task.round > len(updates):
            return None
        learner, missed = make(task.settings), updates
    for update in missed:
        apply(learner, update)
    return learner
