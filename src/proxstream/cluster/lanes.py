"""Lanes: what a worker does in a round. All functions here run on workers and are pure, whatever they keep in store.

A round begins with one state for all lanes. A lane takes its next rows, learns them on a copy of that state, and
returns what changed; changes of all lanes are added, and the sum is the next round's news:

    state r, rows of lane i  ->  learn  ->  changes  \
    state r, rows of lane j  ->  learn  ->  changes   >  add, in a fixed order  ->  update r  ->  state r + 1

A worker keeps the state that it had last and the file that it was reading, so that usually nothing but the update has
to come to it. What it keeps changes no result: the state is that of a round, by number, and is told to be missing if
it is; a file is opened again at the place where the lane stood. The client is told numbers (`news`), and asks a worker
for the state (`state_of`) when it wants it.

A lane's rows weigh as many times more as there are lanes, as if each had its twin in every other lane; see
`proxstream.engines.sums` for how that is taken back. Without this, n lanes that find one step would make it n times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .._checks import Array
from ..blocks import RowBlock
from ..engines import sums
from ..engines.sums import Sums
from ..estimators.rows import Batch, blocks
from ..learner import Learner
from ..training import metrics
from ..training.heldout import added
from .parts import FilePart
from .quarantine import Bad
from .reading import Found, Place, Reader, sliced

RUNS = 2  # whose states and files a worker keeps
MOST_BAD = 1 << 22  # bytes of bad rows that lanes tell in a round, about
UPDATES = 8  # of the last rounds, for threads that had no lane in some


class Slice(NamedTuple):
    """Rows of a partition in memory; `part` counts those that the task was given."""

    part: int
    start: int
    stop: int


@dataclass(frozen=True)
class Job:
    """One lane's part of a round.

    `round` numbers the state that it starts from; in a `fresh` run the first is that of a learner that knows nothing.
    `slices` are the rows of partitions in memory; of files they are `rows` behind `place`, and `lanes` have some. Where
    the last round has yet to tell both, `place` is None. With `tally` predictions are counted as well as losses; and
    losses of rows learned again, apart from those that `count`. `held_out` is the share of each file's rows that are
    predicted where they stand and not learned.
    """

    run: str
    round: int
    lane: int
    lanes: int
    rows: int
    count: bool
    fresh: bool
    settings: Mapping[str, Any]
    labelled: Callable[[Batch], Batch]
    slices: tuple[Slice, ...] = ()
    place: Place | None = None
    tally: bool = False
    held_out: Fraction = Fraction(0)


Counts = dict[str, tuple[Array, Array]]  # by name: places in a flat array, and what is added there


class Told(NamedTuple):
    """What a lane tells beside its changes: rows, bytes of files and of changes, and where it stands."""

    lane: int
    rows: int
    n_bytes: int
    sent: int
    place: Place
    done: bool
    seen: tuple[bool, bool]  # whether a label was 0, and whether one was -1
    last: tuple[Any, Any, int] | None  # label, scores and number of features of the last row
    counts: Counts | None = None  # of predictions, see `training.metrics`
    bad_labels: int = 0  # rows left out for their labels
    bad: tuple[Bad, ...] = ()  # rows to be kept in a file


class Update(NamedTuple):
    """Changes of one lane or of all; `behind`: of a worker that did not have the state that it was to start from."""

    behind: bool
    changes: Sums | None
    losses: Array
    told: tuple[Told, ...]


BEHIND = Update(True, None, np.zeros(2), ())


class News(NamedTuple):
    """What the client is told of a round's update: all but the changes, of which it has the bytes."""

    behind: bool
    exact: bool  # the losses are those of all rows so far
    losses: Array
    told: tuple[Told, ...]
    n_bytes: int


def news(parts: list[Update]) -> News:
    """Return what the client is told of an update, of which there may be several parts."""
    found = [part.changes for part in parts if part.changes is not None]
    losses = np.sum([part.losses for part in parts], axis=0)
    told = tuple(one for part in parts for one in part.told)
    behind, exact = any(part.behind for part in parts), any(changes.exact for changes in found)
    return News(behind, exact, losses, told, sum(changes.n_bytes for changes in found))


def learn_lane(job: Job, data: Any, base: Mapping[str, Array] | None, last: list[Update]) -> Update:
    """Learn a lane's next rows.

    Parameters
    ----------
    job : Job
    data : list of partitions in memory, or of the lane's files
    base : arrays of the state of this round, or None: it is what the worker has, or a new one in round 0
    last : the update that leads to this round, in parts that add up to it; none where there is a base
    """
    learner = _replica(job, base, last)
    if learner is None:
        return BEHIND
    if job.place is None and not job.slices:
        lanes = {told.lane: told for part in last for told in part.told}
        mine = lanes[job.lane]
        if mine.done:
            _STORE.put_state(job.run, job.round, learner)
            return Update(False, None, np.zeros(2), (Told(job.lane, 0, 0, 0, mine.place, True, mine.seen, None),))
        job = replace(job, place=mine.place, lanes=sum(not told.done for told in lanes.values()))
    try:
        if job.slices:
            found = Found([sliced(data[at.part], at.start, at.stop) for at in job.slices], Place(), False, 0)
        else:
            found = _read(job, data)
        rows = _labelled(job, found)
    except Exception:
        _STORE.put_state(job.run, job.round, learner)  # which nothing has touched
        raise
    update = _learned(job, learner, found, rows)
    _STORE.put_state(job.run, job.round, learner)
    return update


def state_of(job: Job, last: list[Update]) -> dict[str, Array] | None:
    """Return the state that a round starts from, None if this worker cannot know it."""
    learner = _replica(job, None, last)
    if learner is None:
        return None
    arrays = learner.state_dict()
    _STORE.put_state(job.run, job.round, learner)
    return arrays


def add(updates: list[Update]) -> Update:
    """Return the updates of some lanes as one."""
    if any(update.behind for update in updates):
        return BEHIND
    changes = [update.changes for update in updates if update.changes is not None]
    losses = np.sum([update.losses for update in updates], axis=0)
    told = tuple(one for update in updates for one in update.told)
    return Update(False, sums.add(changes) if changes else None, losses, told)


def apply(learner: Learner, update: Update) -> None:
    """Bring a learner from the state of a round to that of the next."""
    if update.changes is None:
        return
    sums.apply(learner.engine, update.changes)
    loss, weight = learner.loss_sums
    before = (0.0, 0.0) if update.changes.exact else (loss, weight)
    learner.loss_sums = before[0] + float(update.losses[0]), before[1] + float(update.losses[1])


def make(settings: Mapping[str, Any], base: Mapping[str, Array] | None = None) -> Learner:
    """Return a learner that knows nothing yet, or one in the state given."""
    learner = Learner(**settings)
    if base is not None:
        learner.load_state_dict(base)
    return learner


# ---- learning


def _labelled(job: Job, found: Found) -> list[RowBlock]:
    """Return the rows as the learner takes them."""
    dtype = job.settings["dtype"]
    labelled = (job.labelled(batch) for batch in found.batches if batch.n_rows)
    return [_weighed(block, dtype, job.lanes) for batch in labelled if batch.n_rows for block, _ in blocks(batch)]


def _learned(job: Job, learner: Learner, found: Found, rows: list[RowBlock]) -> Update:
    """Learn rows from the state of this round, and put the learner back there."""
    seen = tuple(any(bool(np.any(batch.y == label)) for batch in found.batches) for label in (0, -1))
    n_rows = sum(block.n_rows for block in rows)
    told = Told(job.lane, n_rows, found.n_bytes, 0, found.place, found.done, (seen[0], seen[1]), None)
    told = told._replace(bad_labels=sum(batch.n_rows for batch in found.batches) - n_rows, bad=found.bad)
    if not rows:
        return Update(False, None, np.zeros(2), (told,))
    learner.engine.grow(max(learner.n_features, *(batch.n_features for batch in found.batches), 0))
    indices = [block.indices[block.indptr[0] : block.indptr[-1]] for block in rows]
    start = sums.before(learner.engine, sums.touched(learner.n_features, indices))
    began = learner.loss_sums
    tally = metrics.tally(learner.loss, learner.n_outputs) if job.tally and job.count else None
    place, again = found.place, job.tally and not job.count
    if again:
        learner.loss_sums = place.again_loss * job.lanes, place.again_weight * job.lanes
    for block in rows:
        learned = block._replace(c=np.maximum(block.c, 0.0)) if job.held_out else block
        scores = learner.learn(learned, count=job.count or again)
        if tally is not None:
            tally.add(scores, learned.y, learned.c / job.lanes)
        if job.held_out:
            place = _suffered(place, learner, block, scores, job.lanes)
    if again:
        loss, weight = learner.loss_sums
        place, learner.loss_sums = place._replace(again_loss=loss / job.lanes, again_weight=weight / job.lanes), began
    ended = learner.loss_sums
    changes = sums.taken_back(learner.engine, start, job.lanes)
    learner.loss_sums = began
    losses = np.array(ended) if changes.exact else (np.array(ended) - began) / job.lanes
    label = [batch for batch in found.batches if batch.n_rows][-1].y[-1]
    told = told._replace(
        place=place,
        sent=changes.n_bytes,
        last=(label, scores[-1], int(rows[-1].indptr[-1] - rows[-1].indptr[-2])),
        counts=None if tally is None else {name: _sparse(array) for name, array in tally.arrays.items()},
    )
    return Update(False, changes, losses, (told,))


def _suffered(place: Place, learner: Learner, rows: RowBlock, scores: Array, lanes: int) -> Place:
    """Return the place with the losses of rows that are held out, whose weights are below 0."""
    out = np.flatnonzero(rows.c < 0.0)
    losses = learner.suffered(scores[out], rows.y[out])
    loss, weight = added((place.loss, place.weight), losses, -rows.c[out] / lanes)
    return place._replace(loss=loss, weight=weight)


def _sparse(array: Array) -> tuple[Array, Array]:
    """Return where an array is not 0, counted flat, and its values there."""
    flat = array.reshape(-1)
    there = np.flatnonzero(flat).astype(np.int32)
    return there, flat[there]


def _weighed(block: RowBlock, dtype: Any, lanes: int) -> RowBlock:
    """Return rows in the state's precision that weigh `lanes` times as much."""
    block = block._replace(data=block.data.astype(dtype, copy=False))
    if lanes == 1:
        return block
    return block._replace(c=block.c * lanes if len(block.c) else np.full(block.n_rows, float(lanes)))


# ---- rows


def _read(job: Job, files: list[FilePart]) -> Found:
    """Read a lane's next rows, with the reader that stands there if this worker has it."""
    reader, place = _STORE.take_reader(job.run, job.lane), job.place or Place()
    if reader is None or not reader.at(place):
        if reader is not None:
            reader.close()
        reader = Reader(files, place, job.held_out)
    try:
        found = reader.read(job.rows, MOST_BAD // job.lanes)
    except BaseException:
        reader.close()
        raise
    if found.done:
        reader.close()
    else:
        _STORE.put_reader(job.run, job.lane, reader)
    return found


# ---- what a worker keeps


class _Kept:
    """What is kept of a run: learners with the number of their round, the last updates, and readers by lane."""

    def __init__(self) -> None:
        self.states: list[tuple[int, Learner]] = []
        self.updates: dict[int, Update] = {}
        self.readers: dict[int, Reader] = {}


class _Store:
    """What is kept between tasks, which may run on several threads; old runs are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, _Kept] = {}

    def _of(self, run: str) -> _Kept:
        if run not in self._runs:
            while len(self._runs) >= RUNS:
                _close(self._runs.pop(next(iter(self._runs))))
            self._runs[run] = _Kept()
        return self._runs[run]

    def take_reader(self, run: str, lane: int) -> Reader | None:
        """Return the reader of a lane, which is then nobody else's."""
        with self._lock:
            return self._of(run).readers.pop(lane, None)

    def put_reader(self, run: str, lane: int, reader: Reader) -> None:
        """Keep a reader."""
        with self._lock:
            self._of(run).readers[lane] = reader

    def take_state(self, run: str, number: int, updates: list[Update]) -> tuple[Learner | None, list[Update]]:
        """Return a learner, nobody else's, and the updates that bring it to this round; None if there is none."""
        with self._lock:
            kept = self._of(run)
            for i, update in enumerate(updates):
                kept.updates[number - len(updates) + i] = update
            kept.states = [(at, learner) for at, learner in kept.states if at >= number - UPDATES]
            ways = [
                (at, i) for i, (at, _) in enumerate(kept.states) if all(k in kept.updates for k in range(at, number))
            ]
            usable = [(at, i) for at, i in ways if at <= number]
            learner, missed = None, []
            if usable:
                at, i = max(usable)
                learner, missed = kept.states.pop(i)[1], [kept.updates[k] for k in range(at, number)]
            oldest = min((at for at, _ in kept.states), default=number)
            kept.updates = {at: update for at, update in kept.updates.items() if at >= oldest}
            return learner, missed

    def put_state(self, run: str, number: int, learner: Learner) -> None:
        """Keep a learner that is in the state of this round."""
        with self._lock:
            self._of(run).states.append((number, learner))

    def forget(self, run: str) -> None:
        """Let go of all that a run has left."""
        with self._lock:
            if run in self._runs:
                _close(self._runs.pop(run))


def _close(kept: _Kept) -> None:
    for reader in kept.readers.values():
        reader.close()


_STORE = _Store()


def forget(run: str) -> None:
    """Let a worker forget a run that has ended."""
    _STORE.forget(run)


def _replica(job: Job, base: Mapping[str, Array] | None, last: list[Update]) -> Learner | None:
    """Return a learner in the state of the job's round, None if this worker cannot know it."""
    if any(part.behind for part in last):
        return None
    updates = [add(last)] if last else []
    learner, missed = _STORE.take_state(job.run, job.round, updates)
    if base is not None:
        return make(job.settings, base)
    if learner is None:
        if not job.fresh or job.round > len(updates):
            return None
        learner, missed = make(job.settings), updates
    for update in missed:
        apply(learner, update)
    return learner
