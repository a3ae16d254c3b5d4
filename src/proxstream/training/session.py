"""A training session: reads a stream chunk by chunk, trains the learner, reports progress.

    source -> chunk -> labels -> learner.learn -> scores -> sums, lines of the table, held-out loss

A session is a function of the sequence of rows, as the learner is: neither the chunk boundaries, nor the reported
lines, nor an interruption and resume leave a trace in the model or in the sums. Its complete state is in `progress`
(numbers) and `arrays`, so that a checkpoint can hold it.

Rows are held out without splitting the stream: the learner gets them with weight 0, which leaves the model unchanged
and returns the score that it had for them at that point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from ..core.validation import Array
from ..data import metrics
from ..data.offsets import absorb_offset
from ..data.rowblock import RowBlock
from ..io.open import place_of
from ..io.types import Chunk, DataError, Position
from ..learner.divergence import DivergedError
from ..learner.learner import Learner
from . import holdout, report
from .labels import Labels
from .report import Line, Pass

EARLY = 1024  # rows up to which the session remembers the features that occurred


class Source(Protocol):
    """A source of chunks, such as `proxstream.open_stream` returns."""

    names: list[str]  # of its files

    def chunks(self, start: Position = ...) -> Iterator[Chunk]:
        """Yield the chunks after a position."""


class Interrupted(Exception):  # noqa: N818 - a request, not an error
    """The session was asked to stop; it is between two chunks and can be resumed."""


class NoRowsError(ValueError):
    """A source without any row to learn from."""


@dataclass(frozen=True)
class Plan:
    """How a session uses its rows.

    Parameters
    ----------
    passes : int
        Number of passes over the source.
    held_out : Fraction
        This share of the rows, evenly spaced, is predicted and never learned.
    early_stop : int
        Stop after this many passes without a lower held-out loss, with the model of the best pass; 0: never.
    every : int
        Rows between two reported lines; 0: lines at powers of two.
    skip_bad : bool
        Skip and count rows whose label the loss does not accept.
    """

    passes: int = 1
    held_out: Fraction = Fraction(0)
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
    held_out: tuple[float, float] = (0.0, 0.0)  # sums of loss and weight over the held-out rows of this pass
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
    """

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
        self.tally = metrics.tally(learner.loss, learner.n_outputs, ranking=learner.ranking)
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
        )
        progress.last_line = sums
        self.lines.append(line)
        if self._on_line is not None:
            self._on_line(line)

    def end_pass(self) -> None:
        """Report the pass, keep the state if it is the best, and prepare the next pass unless the session is done."""
        progress, learner, plan = self.progress, self.learner, self.plan
        if progress.rows == 0:
            raise NoRowsError("there are no rows to learn from")
        ended = Pass(progress.number + 1, progress.rows, self.mean_loss, holdout.mean(progress.held_out))
        self.passes.append(ended)
        if self._on_pass is not None:
            self._on_pass(ended)
        if progress.number > 0:
            self._drop_losses()
        if plan.early_stop and holdout.is_best(self.passes):
            progress.best_pass, self.best = progress.number, learner.state_dict()
        waited = progress.number - progress.best_pass
        progress.done = progress.number + 1 >= plan.passes or 0 < plan.early_stop <= waited
        if not progress.done:
            learner.end_query()
            number = progress.number + 1
            self.progress = replace(progress, number=number, rows=0, position=Position(), held_out=(0.0, 0.0))
            self.progress.pass_start = self.progress.last_line = self.loss_sums
        elif self.best:
            learner.load_state_dict(self.best)
            self.best = {}

    def _drop_losses(self) -> None:
        """Drop the losses of this pass from those of the learner, which are of rows seen for the first time."""
        self.learner.loss_sums = self.progress.pass_start

    def losses_of(self, chunks: Iterable[Chunk], names: Sequence[str]) -> tuple[float, float]:
        """Return the sums of loss and weight over chunks of these files, which are not learned."""
        skip = self.plan.skip_bad
        read = ((self.labels.read_chunk(chunk, names, skip=skip), chunk) for chunk in chunks)
        rows = ((self._standardize(found.rows, False), chunk.qid, found.take(chunk.offset)) for found, chunk in read)
        return holdout.total_losses(self.learner, rows)

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
        pairs: dict[str, Any] = {name: _pair(values.pop(name)) for name in ("pass_start", "last_line", "held_out")}
        end = values.pop("first_pass_end", None)
        pairs["first_pass_end"] = None if end is None else Position(*end)
        self.progress = Progress(position=Position(*values.pop("position")), **pairs, **values)
        self.learner.load_state_dict(under("learner.", arrays))
        self.best = under("best.", arrays)
        metrics.restore(self.tally, under("tally.", arrays))


class Session(BaseSession):
    """A session that reads a stream; parameters as of `BaseSession`, and two more.

    Parameters
    ----------
    held_out : Source, optional
        Rows to predict after each pass.
    on_chunk : function, called between two chunks
    """

    def __init__(
        self,
        learner: Learner,
        labels: Labels,
        plan: Plan | None = None,
        *,
        held_out: Source | None = None,
        on_chunk: Callable[[], None] | None = None,
        **reports: Any,
    ) -> None:
        super().__init__(learner, labels, plan, **reports)
        if learner.ranking and self.plan.held_out:
            raise ValueError("part of a query cannot be held out; hold out a separate file")
        self._held_out, self._on_chunk = held_out, on_chunk
        self._occurred: Array | None = np.empty(0, np.int32) if learner.t == 0 else None
        self._waiting = self._stop = False

    def restore(self, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Restore the state that `record` and `arrays` returned in a session with the same settings."""
        super().restore(record, arrays)
        self._occurred = None

    def run(self, source: Source) -> None:
        """Read the source to its end, pass after pass, from the current position."""
        while not self.progress.done:
            for chunk in self._wait_for(source.chunks(self.progress.position)):
                self._learn_chunk(chunk, source)
                self.progress.position = chunk.end
                if self._on_chunk is not None:
                    self._on_chunk()
            self._check_unchanged(source)
            if self._held_out is not None and self.progress.rows:
                chunks = self._wait_for(self._held_out.chunks(Position()))
                self.progress.held_out = self.losses_of(chunks, self._held_out.names)
            self.end_pass()

    def _check_unchanged(self, source: Source) -> None:
        """Raise a DataError if a later pass read other data than the first.

        Blank lines and bad rows may follow the last row, and chunks may end anywhere among them: different end
        positions are equivalent if the data agree up to the first one and no row follows it.
        """
        progress = self.progress
        if progress.first_pass_end is None:
            progress.first_pass_end = progress.position
        elif _end(progress.position) != _end(progress.first_pass_end):
            for chunk in self._wait_for(source.chunks(progress.first_pass_end)):
                name = source.names[chunk.end.file]
                raise DataError(
                    f"{name}: the file has changed: it has rows that the first pass did not see; start over"
                )

    def stop(self) -> None:
        """Stop between two chunks; safe to call from a signal handler. `run` raises Interrupted."""
        self._stop = True
        if self._waiting:  # no chunk is half learned while waiting for data
            raise Interrupted

    def _wait_for(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks; `stop` may interrupt while waiting for one, and only then."""
        try:
            while True:
                try:
                    self._waiting = True
                    if self._stop:
                        raise Interrupted
                    chunk = next(chunks, None)
                finally:
                    self._waiting = False
                if chunk is None:
                    return
                yield chunk
        finally:
            if hasattr(chunks, "close"):
                chunks.close()

    def _learn_chunk(self, chunk: Chunk, source: Source) -> None:
        progress, plan = self.progress, self.plan
        labelled = self.labels.read_chunk(chunk, source.names, skip=plan.skip_bad)
        rows, kept = labelled
        qid, offset = labelled.take(chunk.qid), labelled.take(chunk.offset)
        given = chunk.rows.y if kept is None else chunk.rows.y[kept]
        progress.bad_labels += chunk.rows.n_rows - rows.n_rows
        progress.zeros = progress.zeros or bool((given == 0.0).any())
        progress.negatives = progress.negatives or bool((given == -1.0).any())
        progress.index_zero = progress.index_zero or bool((rows.indices == 0).any())
        start, n_bytes = 0, progress.n_bytes
        while start < rows.n_rows:
            stop = min(start + report.next_line(progress.rows, plan.every) - progress.rows, rows.n_rows)
            piece = rows.slice(start, stop)
            try:
                scores = self._learn(piece, *(None if one is None else one[start:stop] for one in (qid, offset)))
            except DivergedError as error:
                row = start + error.row
                given_row = row if kept is None else int(kept[row])
                raise DivergedError(row, place_of(source, chunk, progress.position, given_row)) from None
            progress.rows += stop - start
            progress.all_rows += stop - start
            progress.n_bytes = n_bytes + chunk.n_bytes * stop // rows.n_rows
            if report.is_line_due(progress.rows, plan.every):
                features = int(piece.indptr[-1] - piece.indptr[-2])
                self.report_line(float(given[stop - 1]), scores, features, self.learner.count_nonzero(self._occurred))
            start = stop
        progress.n_bytes = n_bytes + chunk.n_bytes

    def _learn(self, rows: RowBlock, qid: Array | None, offset: Array | None) -> Array:
        """Learn rows, held-out ones with weight 0; return the scores."""
        progress, learner, first = self.progress, self.learner, self.progress.number == 0
        held = self._held_out_rows(rows.n_rows)
        learned = rows if held is None else rows._replace(c=np.where(held, 0.0, rows.weights()))
        learned = self._standardize(learned, first).in_precision(learner.dtype)
        if offset is None:
            scores = learner.learn(learned, qid, undo=False, repeated=not first)
        else:
            scores = self._learn_with_offset(learned, offset, repeated=not first)
        self._track_features(rows)
        if held is not None:
            out = np.flatnonzero(held)
            losses = learner.losses_of(scores[out], rows.y[out])
            progress.held_out = holdout.add_losses(progress.held_out, losses, rows.c[out] if len(rows.c) else rows.c)
        if first:
            self.tally.add(scores, learned.y, learned.c)
        return scores

    def _learn_with_offset(self, rows: RowBlock, offset: Array, *, repeated: bool) -> Array:
        """Learn rows whose scores have an offset; return these scores. Losses count as those of the rows given."""
        learner = self.learner
        without = absorb_offset(learner.loss, rows, offset)
        scores: Array = learner.learn(without, count=False, undo=False, repeated=repeated) + offset
        learner.loss_sums = holdout.add_losses(learner.loss_sums, learner.losses_of(scores, rows.y), rows.c)
        return scores

    def _track_features(self, rows: RowBlock) -> None:
        """Remember the features that occurred while they are few, so that early lines need not scan all weights."""
        if self._occurred is not None:
            if self.progress.rows + rows.n_rows > EARLY:
                self._occurred = None
            else:
                new = rows.indices[rows.indptr[0] : rows.indptr[-1]]
                self._occurred = np.union1d(self._occurred, new)

    def _held_out_rows(self, n_rows: int) -> Array | None:
        """Return which of the next rows are held out."""
        share = self.plan.held_out
        return holdout.held_out_rows(share, self.progress.rows, n_rows) if share else None


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names start with the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _end(position: Position) -> tuple[int, int, int]:
    return position.file, position.offset, position.check


def _pair(values: Any) -> tuple[float, float]:
    first, second = values
    return float(first), float(second)


def _plain(record: tuple[Any, ...]) -> list[Any]:
    """Return a record as JSON values: NaN becomes null."""
    return [None if isinstance(value, float) and math.isnan(value) else value for value in record]


def _floats(values: list[Any]) -> list[Any]:
    """Invert `_plain`: null becomes NaN."""
    return [math.nan if value is None else value for value in values]
