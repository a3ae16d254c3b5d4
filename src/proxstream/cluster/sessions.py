"""Sessions whose rows are learned by lanes, round after round: of one strength, or of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.validation import Array
from ..data.tallies import Tally
from ..learner.learner import Learner
from ..learner.path import PathLearner
from ..training import report
from ..training.base_session import BaseSession, Plan
from ..training.labels import Labels
from ..training.path_session import BasePathSession, PathMember
from .lanes import LaneReport, add_counts
from .rounds import Rounds


class LaneSession(BaseSession):
    """A session whose rows are learned by lanes, round after round."""

    rounds: Rounds | None = None
    model = 0  # its place among the models that the lanes learn

    def start(self, rounds: Rounds) -> None:
        """Take losses and counters from these rounds."""
        self.rounds = rounds

    @property
    def loss_sums(self) -> tuple[float, float]:
        """The sums of loss and weight: of all rows in the first pass, of this pass in later ones."""
        if self.rounds is None:
            return self.learner.loss_sums
        progress = self.rounds.progress
        if self.progress.number == 0:
            loss, weight = np.atleast_2d(self.rounds.losses)[self.model, :2].tolist()
            return loss, weight
        positions = progress.positions if progress.number == self.progress.number else []
        sums = [at.relearned for at in positions if at.relearned]
        return sum(each[self.model] for each in sums), sum(each[-1] for each in sums)

    def _end_losses(self) -> None:
        """Do nothing: the learner of a lane has only the losses of the first pass."""

    def update_progress(self) -> None:
        """Take over the counters of the lanes."""
        assert self.rounds is not None
        here, there = self.progress, self.rounds.progress
        here.all_rows, here.n_bytes, here.bad_labels = there.rows, there.n_bytes, there.bad_labels
        here.zeros, here.negatives, here.index_zero = there.seen

    def end_round(self, n_rows: int, reports: tuple[LaneReport, ...]) -> None:
        """Add a round, and report a line if one is due within its rows."""
        self.update_progress()
        for lane in reports:
            for tally, counts in zip(self._tallies(), lane.counts, strict=False):  # later passes have no counts
                add_counts(tally, counts)
        before, self.progress.rows = self.progress.rows, self.progress.rows + n_rows
        if report.next_line(before, self.plan.every) <= self.progress.rows:
            label, scores, features = next(one.last for one in reports[::-1] if one.last)
            self.report_line(float(label), self._of_one_row(scores), features, self.learner.count_nonzero())

    def _tallies(self) -> Sequence[Tally]:
        """Return the tally of each model."""
        return [self.tally]

    def _of_one_row(self, scores: Any) -> Any:
        """Return the scores of a row as those of several rows."""
        return [scores]

    def keep_measures(self, measures: Any) -> dict[str, float]:
        """Return the facts of measures of held-out rows."""
        facts: dict[str, float] = measures.facts()
        return facts

    def models(self) -> Iterator[Learner]:
        """Yield the learner of each model."""
        yield self.learner


class LanePathSession(BasePathSession, LaneSession):
    """A session of several strengths whose rows are learned by lanes."""

    members: Sequence[LaneSession]

    def _new_member(self, path: PathLearner, k: int, labels: Labels, plan: Plan) -> BaseSession:
        member = LaneSession(PathMember(path, k), labels, plan)  # type: ignore[arg-type]
        member.model = k
        return member

    def start(self, rounds: Rounds) -> None:
        """Take losses and counters from these rounds."""
        super().start(rounds)
        for member in self.members:
            member.start(rounds)

    def _tallies(self) -> Sequence[Tally]:
        return [member.tally for member in self.members]

    def _of_one_row(self, scores: Array) -> Array:
        return np.expand_dims(scores, 1)

    def models(self) -> Iterator[Learner]:
        """Yield the learner of each strength, one at a time."""
        return (self._learner.model(k) for k in range(len(self.members)))
