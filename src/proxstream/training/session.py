"""Training from a stream: chunk after chunk into the learner, with what is told and kept on the way.

    source -> chunk -> labels -> learner.learn -> scores -> sums, lines of the table, held-out loss

A session is a function of the sequence of rows, as the learner is: where chunks end, where lines are told and where a
run was broken off and resumed leave no trace in the model or in the sums. All that it remembers is in `facts` (numbers)
and `arrays`, so that a checkpoint can hold it.

Rows are held out without cutting the stream: they are given to the learner with weight 0, which leaves the model
untouched and returns the score that the model had for them at that place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from .._checks import Array
from ..blocks import RowBlock
from ..engines.threads import part
from ..learner import Learner
from ..streams.base import Chunk, DataError, Position
from . import heldout, metrics, report
from .labels import Labels
from .report import Line, Pass

EARLY = 1024  # rows, up to which the features that have occurred are kept


class Source(Protocol):
    """What chunks come from: `proxstream.open_stream` makes one."""

    names: list[str]  # of its files

    def chunks(self, start: Position = ...) -> Iterator[Chunk]:
        """Yield the chunks behind a place."""


class Interrupted(Exception):  # noqa: N818 - a wish, not an error
    """The session was asked to stop; it stands between two chunks and can go on."""


class NoRowsError(ValueError):
    """A source without a single row to learn from."""


@dataclass(frozen=True)
class Plan:
    """How a session goes about its rows.

    Parameters
    ----------
    passes : int
        How often the source is read.
    held_out : Fraction
        This share of the rows, evenly spaced, is predicted and never learned.
    early_stop : int
        End after so many passes without a lower held-out loss, with the model of the best pass; 0: never.
    every : int
        Rows between two lines; 0: lines at powers of two.
    skip_bad : bool
        Leave out rows whose label the loss does not know, and count them.
    """

    passes: int = 1
    held_out: Fraction = Fraction(0)
    early_stop: int = 0
    every: int = 0
    skip_bad: bool = False


@dataclass
class Facts:
    """The numbers that a session remembers."""

    number: int = 0  # of the pass that is going on, from 0
    rows: int = 0  # of this pass, learned or held out
    all_rows: int = 0
    n_bytes: int = 0
    bad_labels: int = 0
    position: Position = field(default_factory=Position)
    whole: Position | None = None  # where the first pass ended
    pass_began: tuple[float, float] = (0.0, 0.0)  # the learner's sums of loss and weight then
    last_line: tuple[float, float] = (0.0, 0.0)  # and at the last line
    held_out: tuple[float, float] = (0.0, 0.0)  # sums of loss and weight of this pass
    best_pass: int = -1
    zeros: bool = False  # whether a label was 0, and whether one was -1
    negatives: bool = False
    done: bool = False


class Session:
    """One training run.

    Parameters
    ----------
    learner : Learner
        New, or one that goes on.
    labels : Labels
    plan : Plan
    held_out : Source, optional
        Rows to predict after each pass.
    on_line : function of a Line
    on_pass : function of a Pass
    on_chunk : function, called after each chunk when the session stands between two
    """

    def __init__(
        self,
        learner: Learner,
        labels: Labels,
        plan: Plan | None = None,
        *,
        held_out: Source | None = None,
        on_line: Callable[[Line], None] | None = None,
        on_pass: Callable[[Pass], None] | None = None,
        on_chunk: Callable[[], None] | None = None,
    ) -> None:
        self.learner, self.labels, self.plan = learner, labels, plan or Plan()
        if learner.ranking and self.plan.held_out:
            raise ValueError("a query cannot be held out in part: hold out rows of their own")
        self.facts = Facts(pass_began=learner.loss_sums, last_line=learner.loss_sums)
        self.began = learner.loss_sums
        self.lines: list[Line] = []
        self.passes: list[Pass] = []
        self.tally = metrics.tally(learner.loss, learner.n_outputs, ranking=learner.ranking)
        self.best: dict[str, Array] = {}
        self._held_out = held_out
        self._on_line, self._on_pass, self._on_chunk = on_line, on_pass, on_chunk
        self._occurred: Array | None = np.empty(0, np.int32) if learner.t == 0 else None
        self._waiting = self._stop = False

    @property
    def mean_loss(self) -> float:
        """The mean loss of this pass so far."""
        return heldout.mean(self.learner.loss_sums, self.facts.pass_began)

    @property
    def progressive_loss(self) -> float:
        """The mean loss of predictions made before their rows were first learned, in this session."""
        return self.passes[0].mean_loss if self.passes else self.mean_loss

    @property
    def classes(self) -> tuple[float, ...]:
        """The labels of the classes as the data have them, none where there are none."""
        return self.labels.seen(zeros=self.facts.zeros, negatives=self.facts.negatives)

    # ---- running

    def run(self, source: Source) -> None:
        """Read the source to its end, as often as planned, from where the session stands."""
        while not self.facts.done:
            for chunk in self._waited(source.chunks(self.facts.position)):
                self._take(chunk, source)
                self.facts.position = chunk.end
                if self._on_chunk is not None:
                    self._on_chunk()
            self._check_whole(source)
            self._end_pass()

    def _check_whole(self, source: Source) -> None:
        """Refuse data that are not those of the first pass: what a later one has read of them says nothing of the rest.

        Where rows end, blank lines and bad rows may follow, which are cut into chunks as it happens: ends that differ
        are the same if the data are the same up to the first one, and no row is behind it.
        """
        facts = self.facts
        if facts.whole is None:
            facts.whole = facts.position
        elif _end(facts.position) != _end(facts.whole):
            for chunk in self._waited(source.chunks(facts.whole)):
                name = source.names[chunk.end.file]
                raise DataError(f"{name}: the file has changed, it has rows that the first pass did not; begin anew")

    def stop(self) -> None:
        """Ask the session to stop between two chunks, from a signal handler: `run` raises Interrupted."""
        self._stop = True
        if self._waiting:  # nothing is half done while waiting for data
            raise Interrupted

    def _waited(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks; while waiting for one, and only then, `stop` may break in."""
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

    def _take(self, chunk: Chunk, source: Source) -> None:
        facts, plan = self.facts, self.plan
        rows, kept = self.labels.read_chunk(chunk, source.names, skip=plan.skip_bad)
        given, qid = chunk.rows.y, chunk.qid
        if kept is not None:
            facts.bad_labels += len(given) - len(kept)
            given, qid = given[kept], None if qid is None else qid[kept]
        facts.zeros = facts.zeros or bool((given == 0.0).any())
        facts.negatives = facts.negatives or bool((given == -1.0).any())
        rows = rows._replace(data=rows.data.astype(self.learner.dtype, copy=False))
        start, n_bytes = 0, facts.n_bytes
        while start < rows.n_rows:
            stop = min(start + report.next_told(facts.rows, plan.every) - facts.rows, rows.n_rows)
            piece = part(rows, start, stop)
            scores = self._learn(piece, None if qid is None else qid[start:stop])
            facts.rows += stop - start
            facts.all_rows += stop - start
            facts.n_bytes = n_bytes + chunk.n_bytes * stop // rows.n_rows
            if report.is_told(facts.rows, plan.every):
                self._tell(piece, scores, float(given[stop - 1]))
            start = stop
        facts.n_bytes = n_bytes + chunk.n_bytes

    def _learn(self, rows: RowBlock, qid: Array | None) -> Array:
        """Learn rows, those to be held out with weight 0; return the scores."""
        facts, learner, first = self.facts, self.learner, self.facts.number == 0
        held = self._held(rows.n_rows)
        if held is not None:
            c = rows.c if len(rows.c) else np.ones(rows.n_rows)
            learned = rows._replace(c=np.where(held, 0.0, c))
        else:
            learned = rows
        scores = learner.learn(learned, qid)
        self._remember(rows)
        if held is not None:
            out = np.flatnonzero(held)
            suffered = learner.suffered(scores[out], rows.y[out])
            facts.held_out = heldout.added(facts.held_out, suffered, rows.c[out] if len(rows.c) else rows.c)
        if first:
            self.tally.add(scores, learned.y, learned.c)
        return scores

    def _remember(self, rows: RowBlock) -> None:
        """Keep the features that have occurred while they are few, so that early lines need not look at all weights."""
        if self._occurred is not None:
            if self.facts.rows + rows.n_rows > EARLY:
                self._occurred = None
            else:
                new = rows.indices[rows.indptr[0] : rows.indptr[-1]]
                self._occurred = np.union1d(self._occurred, new)

    def _held(self, n_rows: int) -> Array | None:
        """Tell which of the next rows are held out."""
        share = self.plan.held_out
        return heldout.held(share, self.facts.rows, n_rows) if share else None

    def _tell(self, rows: RowBlock, scores: Array, label: float) -> None:
        """Enter a line about the last of these rows."""
        facts, learner = self.facts, self.learner
        sums = learner.loss_sums
        line = Line(
            number=facts.number + 1,
            rows=facts.rows,
            mean_loss=heldout.mean(sums, facts.pass_began),
            since_last=heldout.mean(sums, facts.last_line),
            label=label,
            prediction=self._prediction(scores),
            features=int(rows.indptr[-1] - rows.indptr[-2]),
            nonzeros=learner.count_nonzero(self._occurred),
        )
        facts.last_line = sums
        self.lines.append(line)
        if self._on_line is not None:
            self._on_line(line)

    def _prediction(self, scores: Array) -> float:
        """Return what the model said of the last row, NaN where scores are those of pairs."""
        if self.learner.ranking:
            return math.nan
        told = report.prediction(self.learner.loss, scores[-1])
        return self.labels.classes[int(told)] if self.learner.n_outputs > 1 else told

    # ---- passes

    def _end_pass(self) -> None:
        facts, learner, plan = self.facts, self.learner, self.plan
        if facts.rows == 0:
            raise NoRowsError("there are no rows to learn from")
        if self._held_out is not None:
            facts.held_out = self._held_out_losses(self._held_out)
        ended = Pass(facts.number + 1, facts.rows, self.mean_loss, heldout.mean(facts.held_out))
        self.passes.append(ended)
        if self._on_pass is not None:
            self._on_pass(ended)
        if facts.number > 0:  # the progressive loss is that of rows never seen
            learner.loss_sums = facts.pass_began
        if plan.early_stop:
            self._compare()
        waited = facts.number - facts.best_pass
        facts.done = facts.number + 1 >= plan.passes or 0 < plan.early_stop <= waited
        if facts.done:
            if self.best:
                learner.load_state_dict(self.best)
                self.best = {}
            return
        learner.end_query()
        self.facts = Facts(
            number=facts.number + 1,
            all_rows=facts.all_rows,
            n_bytes=facts.n_bytes,
            bad_labels=facts.bad_labels,
            whole=facts.whole,
            pass_began=learner.loss_sums,
            last_line=learner.loss_sums,
            best_pass=facts.best_pass,
            zeros=facts.zeros,
            negatives=facts.negatives,
        )

    def _compare(self) -> None:
        """Keep the model if no earlier pass has a held-out loss as low."""
        if heldout.is_best(self.passes):
            self.facts.best_pass = self.facts.number
            self.best = self.learner.state_dict()

    def _held_out_losses(self, source: Source) -> tuple[float, float]:
        """Return the sums of loss and of weight over rows that are predicted and not learned."""
        skip, chunks = self.plan.skip_bad, self._waited(source.chunks(Position()))
        rows = ((self.labels.read_chunk(chunk, source.names, skip=skip).rows, chunk.qid) for chunk in chunks)
        return heldout.losses_of(self.learner, rows)

    # ---- what is remembered

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that the session remembers, those of the learner among them, not copied."""
        found = {f"learner.{name}": array for name, array in self.learner.state_dict(copy=False).items()}
        found |= {f"tally.{name}": array for name, array in self.tally.arrays.items()}
        return found | {f"best.{name}": array for name, array in self.best.items()}

    def record(self) -> dict[str, Any]:
        """Return the numbers that the session remembers, as JSON knows them."""
        facts = asdict(self.facts) | {"position": list(self.facts.position), "began": list(self.began)}
        return facts | {
            "whole": None if self.facts.whole is None else list(self.facts.whole),
            "lines": [plain(line) for line in self.lines],
            "passes": [plain(one) for one in self.passes],
        }

    def restore(self, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Go on from what `record` and `arrays` returned in a session with the same settings."""
        self._occurred = None
        told = dict(record)
        self.lines = [Line(*floats(line)) for line in told.pop("lines")]
        self.passes = [Pass(*floats(one)) for one in told.pop("passes")]
        self.began = _pair(told.pop("began"))
        pairs: dict[str, Any] = {name: _pair(told.pop(name)) for name in ("pass_began", "last_line", "held_out")}
        whole = told.pop("whole", None)
        pairs["whole"] = None if whole is None else Position(*whole)
        self.facts = Facts(position=Position(*told.pop("position")), **pairs, **told)
        self.learner.load_state_dict(under("learner.", arrays))
        self.best = under("best.", arrays)
        metrics.restore(self.tally, under("tally.", arrays))


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with this, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _end(position: Position) -> tuple[int, int, int]:
    return position.file, position.offset, position.check


def _pair(values: Any) -> tuple[float, float]:
    first, second = values
    return float(first), float(second)


def plain(record: tuple[Any, ...]) -> list[Any]:
    """Return a record as JSON knows it: NaN is null."""
    return [None if isinstance(value, float) and math.isnan(value) else value for value in record]


def floats(values: list[Any]) -> list[Any]:
    """Return the values of which `plain` made a record: null is NaN."""
    return [math.nan if value is None else value for value in values]
