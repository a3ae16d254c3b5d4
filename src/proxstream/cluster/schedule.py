"""What a run over partitions does, how far it has come, and which rows each lane learns next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from distributed import Client

from ..core import validation as _checks
from ..learner.learner import Learner
from .lane_reader import LanePosition
from .lanes import LaneReport

# Rows of a round: at least, at most, and per lane and feature.
FEWEST_ROWS, MOST_ROWS, ROWS_PER_FEATURE = 1 << 17, 1 << 22, 2

RowRange = tuple[int, int, int]  # number of a partition, first row, and one past the last row


class Round(NamedTuple):
    """A finished round: rows learned in it and in all, mean loss so far, bytes of changes sent, seconds.

    `sent` counts the changes of each lane once and their sum once per worker; with two lanes, the changes sent to the
    other worker. With one worker nothing is sent.
    """

    number: int
    rows: int
    all_rows: int
    mean_loss: float
    sent: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """The settings of a run.

    lanes : partitions that are learned in parallel
    rows : rows per round, of all lanes together
    passes : order of the partitions in each pass
    fresh : the learner has not learned any row yet
    tally : count predictions for metrics
    held_out : share of the rows of each file that are predicted and not learned
    settled : finish each pass before the next begins, with its state in the client's learner
    """

    lanes: int
    rows: int
    passes: Sequence[Sequence[int]]
    fresh: bool = True
    tally: bool = False
    held_out: Fraction | int = 0
    settled: bool = False


@dataclass
class RunProgress:
    """How far a run has come, as saved in a checkpoint."""

    number: int = 0  # of the pass
    round: int = 0  # of all passes
    rows: int = 0
    pass_rows: int = 0  # since the start of the pass
    n_bytes: int = 0
    skipped: int = 0  # bad rows of files in this pass, or in the last one
    bad_labels: int = 0  # rows skipped because of their labels, of all passes
    seen: tuple[bool, ...] = (False, False, False)  # a label 0, a label -1, a feature 0
    positions: list[LanePosition] = field(default_factory=list)
    done: list[bool] = field(default_factory=list)


def learner_settings(learner: Learner) -> dict[str, Any]:
    """Return the arguments with which a worker makes the same learner."""
    names = ("algorithm", "loss", "penalty", "n_features", "n_outputs", "dtype", "fit_intercept", "n_threads")
    several = ("strengths", "fixed_l2", "scales") if hasattr(learner, "strengths") else ()
    return {name: getattr(learner, name) for name in (*names, *several)} | {"growing": True}


def choose_lanes(client: Client, lanes: int | None, n_partitions: int) -> int:
    """Return the number of lanes: as given, or one per thread of the cluster; at most one per partition."""
    if lanes is None:
        client.wait_for_workers(1, timeout=300)
        lanes = sum(client.nthreads().values())
    return min(_checks.integer("lanes", lanes, low=1), n_partitions)


def choose_rows(rows: int | None, lanes: int, n_features: int) -> int:
    """Return the rows of a round of all lanes together: as given, or enough that merging is cheap beside learning.

    The cost of a round beside learning grows with the features that it changes: about a quarter of a row of 40
    non-zeros for each. With two rows per feature and lane that is an eighth of the round.
    """
    if rows is not None:
        return _checks.integer("rows_per_round", rows, low=1)
    return min(max(ROWS_PER_FEATURE * lanes * n_features, FEWEST_ROWS), MOST_ROWS)


class Schedule:
    """The positions of all lanes, pass after pass.

    Partitions in memory have a known number of rows, so all rounds are known in advance. Files are read until they end:
    the position is then the one that the lane reported last, and a round submitted before that report does not know it.
    No round has rows of two passes.

    Parameters
    ----------
    passes : for each pass, the partition numbers of each lane
    rows : rows of each partition, None for files
    number, positions, done : where an earlier run stopped: the pass, and the lanes in it

    Examples
    --------
    >>> schedule = Schedule([[[0, 2], [1]]], (3, 5, 2))
    >>> schedule.take(4)
    [[(0, 0, 3), (2, 0, 1)], [(1, 0, 4)]]
    >>> schedule.take(4), schedule.has_rows()
    ([[(2, 1, 2)], [(1, 4, 5)]], False)
    """

    def __init__(
        self,
        passes: Sequence[list[list[int]]],
        rows: Sequence[int] | None,
        number: int = 0,
        positions: Iterable[LanePosition] = (),
        done: Iterable[bool] = (),
    ) -> None:
        self._passes, self._rows, self.number = passes, rows, number
        self.positions = list(positions) or [LanePosition()] * len(self.lanes)
        self.done = list(done) or [not lane for lane in self.lanes]
        self._skip_finished()

    @property
    def lanes(self) -> list[list[int]]:
        """The partitions of each lane in this pass."""
        return self._passes[self.number]

    def copy(self) -> Schedule:
        """Return an independent copy."""
        return Schedule(self._passes, self._rows, self.number, self.positions, self.done)

    @property
    def ended(self) -> bool:
        """Whether no lane has more rows in this pass."""
        return all(self.done)

    def has_rows(self) -> bool:
        """Return whether a lane may have more rows, in this pass or a later one."""
        return not self.ended or (self.number + 1 < len(self._passes) and (self._rows is None or any(self._rows)))

    def take(self, rows: int) -> list[Any]:
        """Return the next rows of each lane and move past them: None if there are none, [] for files."""
        if self.ended:
            self.number += 1
            self.positions, self.done = [LanePosition()] * len(self.lanes), [not lane for lane in self.lanes]
            self._skip_finished()
        return [None if done else self._take_lane(lane, rows) for lane, done in enumerate(self.done)]

    def _take_lane(self, lane: int, rows: int) -> list[RowRange]:
        if self._rows is None:
            return []
        found: list[RowRange] = []
        while rows > 0 and not self.done[lane]:
            position = self.positions[lane]
            part = self.lanes[lane][position.part]
            stop = min(position.row + rows, self._rows[part])
            found.append((part, position.row, stop))
            rows -= stop - position.row
            self.positions[lane] = position._replace(row=stop)
            self._skip_finished()
        return found

    def _skip_finished(self) -> None:
        """Move past partitions that have no rows left."""
        if self._rows is None:
            return
        for lane, parts in enumerate(self.lanes):
            position = self.positions[lane]
            while position.part < len(parts) and position.row >= self._rows[parts[position.part]]:
                position = LanePosition(position.part + 1)
            self.positions[lane], self.done[lane] = position, position.part >= len(parts)

    def update(self, number: int, reports: tuple[LaneReport, ...]) -> None:
        """Set the positions that lanes of files have reported in a pass."""
        if self._rows is None and self.number == number:
            for report in reports:
                self.positions[report.lane], self.done[report.lane] = report.position, report.done

    def needed(self) -> set[int]:
        """Return the partitions from which lanes have rows left in this pass."""
        return {part for lane, at in zip(self.lanes, self.positions, strict=True) for part in lane[at.part :]}
