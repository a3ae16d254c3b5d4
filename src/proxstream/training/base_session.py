"""The state of a training run, whoever learns the rows: its plan, its counters, the lines and passes it has reported.

A session is a function of the sequence of rows, as the learner is: neither the chunk boundaries, nor the reported
lines, nor an interruption and resume leave a trace in the model or in the sums. Its complete state is in `progress`
(numbers) and `arrays`, so that a checkpoint can hold it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..core.component import component
from ..core.validation import Array
from ..data import tallies
from ..data.rowblock import RowBlock
from ..io.types import Chunk, Position
from ..learner.learner import Learner
from . import holdout, report
from .labels import Labels
from .report import Line, Pass

if TYPE_CHECKING:
    from fractions import Fraction


class NoRowsError(ValueError):
    """A source without any row to learn from."""


@component
class Plan:
    """How a session uses its rows.

    Parameters
    ----------
    passes : int
        Number of passes over the source.
    held_out : Fraction
        This share of the rows, evenly spaced, is predicted after each pass and never learned.
    early_stop : int
        Stop after this many passes without a lower held-out loss, with the model of the best pass; 0: never.
    every : int
        Rows between two reported lines; 0: lines at powers of two.
    skip_bad : bool
        Skip and count rows whose label the loss does not accept.
    """

    passes: int = 1
    held_out: Fraction | int = 0
    early_stop: int = 0
    every: int = 0
    skip_bad: bool = False


@dataclass
class Progress:
    """The counters of a session."""

    number: int = 0  # of the current pass, from 0
    rows: int = 0  # of this pass, learned or held out
    all_rows: int = 0
    n_bytes: int = 0
    bad_labels: int = 0
    position: Position = field(default_factory=Position)
    first_pass_end: Position | None = None
    pass_start: tuple[float, float] = (0.0, 0.0)  # the learner's sums of loss and weight at the start of the pass
    last_line: tuple[float, float] = (0.0, 0.0)  # and at the last line
    held_out_rows: int = 0  # of the stream
    held_out_complete: bool = True  # all of them are in memory
    best_pass: int = -1
    zeros: bool = False  # a label 0 occurred; likewise -1
    negatives: bool = False
    index_zero: bool = False  # a feature 0 occurred
    done: bool = False


class BaseSession:
    """The state of one training run, whoever learns the rows: counters, lines of the table, passes, the best state.

    Its drivers are `Session`, which reads a stream, and that of `cluster.train`, whose rows are learned in lanes. A
    driver adds to `progress` and `tally`, and calls `report_line` and `end_pass`.

    Parameters
    ----------
    learner : Learner
        New, or already trained.
    labels : Labels
    plan : Plan
    standardize : function of a row block and of whether it is learned, optional
        Returns the rows as the learner is given them.
    on_line, on_pass : function of a Line, of a Pass

    Attributes
    ----------
    members, chosen : the sessions of several strengths, and the place of the chosen one, -1 before; see `PathSession`
    """

    members: Sequence[BaseSession] = ()
    chosen = -1
    _occurred: Array | None = None  # all features so far, if known

    def __init__(
        self,
        learner: Learner,
        labels: Labels,
        plan: Plan | None = None,
        *,
        standardize: Callable[[RowBlock, bool], RowBlock] | None = None,
        on_line: Callable[[Line], None] | None = None,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        self.learner, self.labels, self.plan = learner, labels, plan or Plan()
        self.progress = Progress(pass_start=learner.loss_sums, last_line=learner.loss_sums)
        self.lines: list[Line] = []
        self.passes: list[Pass] = []
        self.tally = tallies.tally(learner.loss, learner.n_outputs, ranking=learner.ranking)
        self.best: dict[str, Array] = {}
        self._on_line, self._on_pass = on_line, on_pass
        self._standardize = standardize or (lambda rows, learn: rows)

    @property
    def loss_sums(self) -> tuple[float, float]:
        """The sums of loss and weight to which those at the start of the pass are compared."""
        return self.learner.loss_sums

    @property
    def mean_loss(self) -> float:
        """The mean loss of this pass so far."""
        return holdout.mean(self.loss_sums, self.progress.pass_start)

    @property
    def strength(self) -> float:
        """The strength that lines and passes are about; NaN unless there are several."""
        return math.nan

    @property
    def path_summary(self) -> dict[str, Any]:
        """What a summary has of several strengths; nothing where there is one."""
        return {}

    @property
    def progressive_loss(self) -> float:
        """The mean loss of predictions made before their rows were first learned, in this session."""
        return self.passes[0].mean_loss if self.passes else self.mean_loss

    @property
    def classes(self) -> tuple[float, ...]:
        """The labels of the classes as the data have them; empty for regression and ranking."""
        return self.labels.observed_classes(zeros=self.progress.zeros, negatives=self.progress.negatives)

    def shown(self, prediction: float) -> float:
        """Return a prediction as it is shown: of several classes, the label instead of the number."""
        return self.labels.classes[int(prediction)] if self.learner.n_outputs > 1 else prediction

    def report_line(self, label: float, scores: Sequence[Any] | Array, features: int, nonzeros: int) -> None:
        """Report a line about the last row, whose scores are the last ones; those of a ranker are of pairs."""
        progress, sums, ranking = self.progress, self.loss_sums, self.learner.ranking
        line = Line(
            number=progress.number + 1,
            rows=progress.rows,
            mean_loss=self.mean_loss,
            since_last=holdout.mean(sums, progress.last_line),
            label=label,
            prediction=math.nan if ranking else self.shown(report.prediction(self.learner.loss, scores[-1])),
            features=features,
            nonzeros=nonzeros,
            strength=self.strength,
        )
        progress.last_line = sums
        self.lines.append(line)
        if self._on_line is not None:
            self._on_line(line)

    def end_pass(self, held_out: Mapping[str, float] | None = None) -> None:
        """Report the pass, keep the state if it is the best, and prepare the next pass unless the session is done.

        `held_out` are the measures of held-out rows with the model of this pass, see `holdout.Measures`.
        """
        progress, learner, plan = self.progress, self.learner, self.plan
        if progress.rows == 0:
            raise NoRowsError("there are no rows to learn from")
        ended = Pass(progress.number + 1, progress.rows, self.mean_loss, **(held_out or {}), strength=self.strength)
        self.passes.append(ended)
        if self._on_pass is not None:
            self._on_pass(ended)
        self._end_losses()
        if plan.early_stop and holdout.is_best(self.passes):
            progress.best_pass, self.best = progress.number, learner.state_dict()
        waited = progress.number - progress.best_pass
        progress.done = progress.number + 1 >= plan.passes or 0 < plan.early_stop <= waited
        if not progress.done:
            learner.end_query()
            number = progress.number + 1
            self.progress = replace(progress, number=number, rows=0, position=Position())
            self.progress.pass_start = self.progress.last_line = self.loss_sums
        elif self.best:
            learner.load_state_dict(self.best)
            self.best = {}

    def _end_losses(self) -> None:
        """Drop the losses of a later pass from those of the learner, which are of rows seen for the first time."""
        if self.progress.number > 0:
            self.learner.loss_sums = self.progress.pass_start

    def measure(self, chunks: Iterable[Chunk], names: Sequence[str]) -> dict[str, float]:
        """Return the measures of chunks of these files, which are not learned."""
        read = ((self.labels.read_chunk(chunk, names, skip=self.plan.skip_bad), chunk) for chunk in chunks)
        rows = (
            (self._standardize(found.rows, False), found.take(chunk.qid), found.take(chunk.offset))
            for found, chunk in read
        )
        return self._measure_rows(rows)

    def _measure_rows(self, several: Iterable[holdout.Block]) -> dict[str, float]:
        """Return the measures of rows that are not learned."""
        return holdout.Measures(self.learner).add_rows(several).facts()

    # ---- state

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of the session, including those of the learner, without copying."""
        found = {f"learner.{name}": array for name, array in self.learner.state_dict(copy=False).items()}
        found |= {f"tally.{name}": array for name, array in self.tally.arrays.items()}
        return found | {f"best.{name}": array for name, array in self.best.items()}

    def record(self) -> dict[str, Any]:
        """Return the counters of the session as JSON values."""
        return asdict(self.progress) | {
            "position": list(self.progress.position),
            "first_pass_end": None if self.progress.first_pass_end is None else list(self.progress.first_pass_end),
            "lines": [_plain(line) for line in self.lines],
            "passes": [_plain(one) for one in self.passes],
        }

    def restore(self, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Restore the state that `record` and `arrays` returned in a session with the same settings."""
        values = dict(record)
        self.lines = [Line(*_floats(line)) for line in values.pop("lines")]
        self.passes = [Pass(*_floats(one)) for one in values.pop("passes")]
        pairs: dict[str, Any] = {name: _pair(values.pop(name)) for name in ("pass_start", "last_line")}
        end = values.pop("first_pass_end", None)
        pairs["first_pass_end"] = None if end is None else Position(*end)
        self.progress = Progress(position=Position(*values.pop("position")), **pairs, **values)
        self.learner.load_state_dict(under("learner.", arrays))
        self.best = under("best.", arrays)
        tallies.restore(self.tally, under("tally.", arrays))


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names start with the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _pair(values: Any) -> tuple[float, float]:
    first, second = values
    return float(first), float(second)


def _plain(record: tuple[Any, ...]) -> list[Any]:
    """Return a record as JSON values: NaN becomes null."""
    return [None if isinstance(value, float) and math.isnan(value) else value for value in record]


def _floats(values: list[Any]) -> list[Any]:
    """Invert `_plain`: null becomes NaN."""
    return [math.nan if value is None else value for value in values]
