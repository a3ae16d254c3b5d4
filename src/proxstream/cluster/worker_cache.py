"""What a worker caches between the tasks of a run: its last states, the updates between them, and open files."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..learner.learner import Learner
from .lane_reader import LaneReader

if TYPE_CHECKING:
    from .lanes import Update

RUNS = 2  # runs whose states and files a worker caches
UPDATES = 8  # rounds whose updates are cached, for threads that had no lane in some


class _RunCache:
    """The cache of a run: learners with the number of their round, the last updates, and readers by lane."""

    def __init__(self) -> None:
        self.states: list[tuple[int, Learner]] = []
        self.updates: dict[int, Update] = {}
        self.readers: dict[int, LaneReader] = {}


class WorkerCache:
    """The cache between tasks, which may run on several threads; old runs are dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, _RunCache] = {}

    def _of(self, run: str) -> _RunCache:
        if run not in self._runs:
            while len(self._runs) >= RUNS:
                _close(self._runs.pop(next(iter(self._runs))))
            self._runs[run] = _RunCache()
        return self._runs[run]

    def take_reader(self, run: str, lane: int) -> LaneReader | None:
        """Remove and return the reader of a lane."""
        with self._lock:
            return self._of(run).readers.pop(lane, None)

    def put_reader(self, run: str, lane: int, reader: LaneReader) -> None:
        """Cache the reader of a lane."""
        with self._lock:
            self._of(run).readers[lane] = reader

    def take_state(self, run: str, number: int, updates: list[Update]) -> tuple[Learner | None, list[Update]]:
        """Remove and return a learner and the updates that bring it to this round; None if there is none."""
        with self._lock:
            cache = self._of(run)
            for i, update in enumerate(updates):
                cache.updates[number - len(updates) + i] = update
            cache.states = [(at, learner) for at, learner in cache.states if at >= number - UPDATES]
            ways = [
                (at, i) for i, (at, _) in enumerate(cache.states) if all(k in cache.updates for k in range(at, number))
            ]
            usable = [(at, i) for at, i in ways if at <= number]
            learner, missed = None, []
            if usable:
                at, i = max(usable)
                learner, missed = cache.states.pop(i)[1], [cache.updates[k] for k in range(at, number)]
            oldest = min((at for at, _ in cache.states), default=number)
            cache.updates = {at: update for at, update in cache.updates.items() if at >= oldest}
            return learner, missed

    def put_state(self, run: str, number: int, learner: Learner) -> None:
        """Cache a learner that is in the state of this round."""
        with self._lock:
            self._of(run).states.append((number, learner))

    def forget(self, run: str) -> None:
        """Drop the cache of a run."""
        with self._lock:
            if run in self._runs:
                _close(self._runs.pop(run))


def _close(cache: _RunCache) -> None:
    for reader in cache.readers.values():
        reader.close()
