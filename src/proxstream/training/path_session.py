"""A session of several strengths: one stream, one learner of a path, and the books of each strength.

    source -> chunk -> path.learn -> scores (strengths, rows) -> tally, lines and passes of each strength

Each strength has a session of its own, in which nothing is learned: it counts what a session alone would count. What
is shown while rows come is about the best strength so far. At the end a rule chooses one, and the session becomes that
of the chosen strength, as if it had learned alone.

`BasePathSession` is what such sessions share, whoever learns the rows; `PathSession` reads a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.validation import Array
from ..data.offsets import absorb_offset
from ..data.rowblock import RowBlock
from ..data.tallies import Constant
from ..learner.path import PathLearner
from ..learner.path_losses import PairedLosses
from . import holdout
from .base_session import BaseSession, Plan, under
from .labels import Labels
from .session import Session


class BasePathSession(BaseSession):
    """A session whose learner is a path; parameters as of `BaseSession`.

    Attributes
    ----------
    members : one session per strength
    held_out : PairedLosses, or None
        Losses of the held-out rows after the pass whose models are kept.
    path : PathLearner, or None
        The path, once one of its models has been chosen and has taken its place.
    """

    def __init__(self, learner: PathLearner, labels: Labels, plan: Plan | None = None, **options: Any) -> None:
        self.members = [
            self._new_member(learner, k, labels, Plan((plan or Plan()).passes)) for k in range(len(learner.strengths))
        ]
        self.path: PathLearner | None = None
        self.chosen = -1
        self._path_facts: list[dict[str, Any]] = []
        self.held_out: PairedLosses | None = None
        self._measured: PairedLosses | None = None  # of the last pass
        self._facts: Sequence[Mapping[str, float]] = [{}] * len(self.members)
        super().__init__(learner, labels, plan, **options)
        self.tally = _Tallies(self.members)
        self.progress.pass_start = self.progress.last_line = self.loss_sums

    def _new_member(self, path: PathLearner, k: int, labels: Labels, plan: Plan) -> BaseSession:
        """Return the session of one strength."""
        return BaseSession(PathMember(path, k), labels, plan)  # type: ignore[arg-type]

    # ---- the best strength so far

    @property
    def place(self) -> int:
        """The best strength: by held-out rows if some have been measured, else by the losses of the first pass."""
        if self.chosen >= 0:
            return self.chosen
        means = np.array([member.progressive_loss for member in self.members])
        if self._measured is not None:
            means = self._measured.means
        least = np.flatnonzero(means == np.nanmin(means)) if not np.isnan(means).all() else np.arange(len(means))
        return int(least[np.argmax(self._learner.strengths[least])])

    @property
    def _learner(self) -> PathLearner:
        path = self.learner if self.path is None else self.path
        assert isinstance(path, PathLearner)
        return path

    @property
    def strength(self) -> float:
        """The strength that lines and passes are about."""
        return float(self._learner.strengths[self.place])

    @property
    def loss_sums(self) -> tuple[float, float]:
        """The sums of loss and weight of the best strength."""
        return self.members[self.place].loss_sums

    @property
    def mean_loss(self) -> float:
        """The mean loss of the best strength in this pass so far."""
        return self.members[self.place].mean_loss

    # ---- lines and passes

    def report_line(self, label: float, scores: Any, features: int, nonzeros: Any) -> None:
        """Report a line about the last row under each strength; the best one's is shown."""
        place = self.place
        for k, member in enumerate(self.members):
            member.progress.rows = self.progress.rows
            member.report_line(label, scores[k], features, int(nonzeros[k]))
        shown = self.members[place].lines[-1]._replace(strength=self.strength)
        self.lines.append(shown)
        if self._on_line is not None:
            self._on_line(shown)

    def end_pass(self, held_out: Mapping[str, float] | None = None) -> None:
        """Report the pass of the best strength; all strengths stop together."""
        number = self.progress.number
        super().end_pass(held_out)
        if not self.plan.early_stop or self.progress.best_pass == number:
            self.held_out = self._measured

    def _end_losses(self) -> None:
        """End the pass of each strength."""
        for member, facts in zip(self.members, self._facts, strict=True):
            member.progress.rows = self.progress.rows
            member.end_pass(facts)

    def _measure_rows(self, several: Iterable[holdout.Block]) -> dict[str, float]:
        """Measure rows under all strengths; return the measures of the best one."""
        return self.keep_measures(PathMeasures(self._learner).add_rows(several))

    def keep_measures(self, measures: PathMeasures) -> dict[str, float]:
        """Choose by these measures of held-out rows from now on; return those of the best strength."""
        self._facts = [own.facts() for own in measures.each]
        self._measured = measures.compared if measures.compared.weight else None
        return dict(self._facts[self.place])

    # ---- the end

    def choose(self, rule: Mapping[str, Any]) -> str:
        """Become the session of the strength that a rule chooses; return a remark if none is as sparse as wanted."""
        self.path, remark = self._learner, ""
        counts = self.path.count_nonzero(self._occurred)
        try:
            k = self.path.choose(held_out=self.held_out, counts=counts, **rule)
        except ValueError as error:
            if "nnz" not in rule:
                raise
            k, remark = int(np.argmin(counts)), f"{error}: chosen"
        errors = self._difference_errors(self.path)
        self._path_facts = [
            self._facts_of(each, count) | error
            for each, (count, error) in enumerate(zip(counts.tolist(), errors, strict=True))
        ]
        self.chosen, self.learner = k, self.path.model(k)
        self.tally, self.lines, self.passes = (getattr(self.members[k], name) for name in ("tally", "lines", "passes"))
        return remark

    def _difference_errors(self, path: PathLearner) -> list[dict[str, float]]:
        """Return the standard error of each strength's loss less the least one, if there are losses."""
        losses = path.compared if self.held_out is None else self.held_out
        if np.isnan(losses.means).all():
            return [{}] * len(self.members)
        errors = losses.difference_errors(int(np.nanargmin(losses.means)))
        return [{"difference_error": error} if np.isfinite(error) else {} for error in errors.tolist()]

    def _facts_of(self, k: int, nonzeros: int) -> dict[str, Any]:
        """Return what a path shows of one strength."""
        assert self.path is not None
        member = self.members[k]
        facts: dict[str, Any] = {"strength": float(self.path.strengths[k])}
        facts |= {"progressive_loss": member.progressive_loss, **member.tally.facts()}
        facts |= holdout.summary(member.passes, self.progress.best_pass)
        return facts | {"nonzeros": nonzeros}

    @property
    def path_summary(self) -> dict[str, Any]:
        """The chosen strength, and what each strength would have given."""
        return {"strength": self.strength, "path": self._path_facts}

    # ---- state

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of the session, of its path and of what each strength counts."""
        compared = {"compared.kept": self.held_out, "compared.last": self._measured}
        found = super().arrays() | {name: losses.sums for name, losses in compared.items() if losses is not None}
        for k, member in enumerate(self.members):
            found |= {f"strength.{k}.{name}": array for name, array in member.arrays().items()}
        return found

    def record(self) -> dict[str, Any]:
        """Return the counters of the session and of each strength as JSON values."""
        return super().record() | {"strengths": [member.record() for member in self.members]}

    def restore(self, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Restore the state that `record` and `arrays` returned in a session with the same settings."""
        values = dict(record)
        for k, (member, own) in enumerate(zip(self.members, values.pop("strengths"), strict=True)):
            member.restore(own, under(f"strength.{k}.", arrays))
        super().restore(values, arrays)
        self.held_out, self._measured = (self._paired(arrays.get(f"compared.{name}")) for name in ("kept", "last"))

    def _paired(self, sums: Array | None) -> PairedLosses | None:
        """Return the losses with these sums."""
        if sums is None:
            return None
        losses = PairedLosses(len(self.members))
        losses.sums = np.array(sums)
        return losses


class PathSession(BasePathSession, Session):
    """A session that reads a stream and whose learner is a path; parameters as of `Session`."""

    def _learn_with_offset(self, rows: RowBlock, offset: Array, *, repeated: bool) -> Array:
        path = self._learner
        without = absorb_offset(path.loss, rows, offset)
        scores: Array = path.learn(without, count=False, undo=False, repeated=repeated) + offset
        losses = path.losses_of(scores, rows.y)
        path.compared.add_sums(losses, rows.c)
        if not repeated:
            path.compared.add_pairs(losses, rows.c)
        return scores


class PathMeasures:
    """Measures of rows that are not learned, under each strength of a path, and their losses compared.

    Attributes
    ----------
    each : one `holdout.Measures` per strength
    compared : PairedLosses
    """

    def __init__(self, path: PathLearner) -> None:
        self._path, self.compared = path, PairedLosses(len(path.strengths))
        self.each = [holdout.Measures(path) for _ in path.strengths]

    def add_rows(self, several: Iterable[holdout.Block]) -> PathMeasures:
        """Predict blocks of rows with their offset (or None)."""
        models = [self._path.model(k) for k in range(len(self.each))]  # their sums, to the last bit
        for block, _, offset in several:
            rows = block._replace(data=block.data.astype(self._path.dtype, copy=False))
            scores = np.stack([model.predict(rows) for model in models])
            scores = scores if offset is None else scores + offset
            self.compared.add(self._path.losses_of(scores, rows.y), rows.weights())
            for own, measures in zip(scores, self.each, strict=True):
                measures.add(own, rows)
        return self


class PathMember:
    """What a session reads of its learner, of one strength of a path; the state is that of the path."""

    ranking = False

    def __init__(self, path: PathLearner, k: int) -> None:
        self.loss, self.n_outputs, self._path, self._k = path.loss, path.n_outputs, path, k

    @property
    def loss_sums(self) -> tuple[float, float]:
        """The sums of loss and weight."""
        loss, weight = self._path.loss_sums
        return float(loss[self._k]), float(weight[self._k])

    @loss_sums.setter
    def loss_sums(self, sums: tuple[float, float]) -> None:
        every = self._path.loss_sums
        for own, new in zip(every, sums, strict=True):
            own[self._k] = new
        self._path.loss_sums = every

    def state_dict(self, copy: bool = True) -> dict[str, Array]:
        """Return nothing: the path saves all models."""
        return {}

    def load_state_dict(self, saved: Mapping[str, Array]) -> None:
        """Do nothing."""

    def end_query(self) -> None:
        """Do nothing."""


class _Tallies:
    """The tallies of all strengths as one."""

    def __init__(self, members: Sequence[BaseSession]) -> None:
        self._members = members
        self.arrays: dict[str, Array] = {}  # members save their own

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores (strengths, rows, ...)."""
        for member, own in zip(self._members, scores, strict=True):
            member.tally.add(own, y, c)

    def facts(self) -> dict[str, float | int]:
        """Return nothing: each tally has its own."""
        return {}

    def best_constant(self) -> Constant | None:
        """Return nothing."""
        return None
