"""A training session: reads a stream chunk by chunk, trains the learner, reports progress.

    source -> chunk -> labels -> learner.learn -> scores -> sums, lines of the table
                                 held-out rows -> kept until the pass has ended, then measured

Rows are held out without splitting the stream: the learner gets them with weight 0, which leaves the model unchanged
and returns the score that it had for them at that point, for the lines of the table. What is reported of them is
measured at the end of each pass (`holdout`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from ..core.validation import Array
from ..data import tallies
from ..data.offsets import absorb_offset
from ..data.order import LabelOrder, warn_of_order
from ..data.rowblock import RowBlock
from ..io.open import place_of
from ..io.types import Chunk, DataError, Position
from ..learner.divergence import DivergedError
from ..learner.learner import Learner
from . import holdout, report
from .base_session import BaseSession, Plan, under
from .labels import Labels

EARLY = 1024  # rows up to which the session remembers the features that occurred


class Source(Protocol):
    """A source of chunks, such as `proxstream.open_stream` returns."""

    names: list[str]  # of its files

    def chunks(self, start: Position = ...) -> Iterator[Chunk]:
        """Yield the chunks after a position."""


class Interrupted(Exception):  # noqa: N818 - a request, not an error
    """The session was asked to stop; it is between two chunks and can be resumed."""


class Session(BaseSession):
    """A session that reads a stream; parameters as of `BaseSession`, and some more.

    Parameters
    ----------
    held_out : Source, optional
        Rows to predict after each pass.
    again : Source, optional
        The source once more, from which rows held out by their number are read if they do not fit in memory. Without
        it, those that fit are measured.
    on_chunk : function, called between two chunks
    on_order : function of a LabelOrder, optional
        Called once if rows look ordered by their labels; by default a warning is given.
    """

    def __init__(
        self,
        learner: Learner,
        labels: Labels,
        plan: Plan | None = None,
        *,
        held_out: Source | None = None,
        again: Source | None = None,
        on_chunk: Callable[[], None] | None = None,
        on_order: Callable[[LabelOrder], None] | None = None,
        **reports: Any,
    ) -> None:
        super().__init__(learner, labels, plan, **reports)
        if learner.ranking and self.plan.held_out:
            raise ValueError("part of a query cannot be held out; hold out a separate file")
        self._held_out, self._again, self._on_chunk = held_out, again, on_chunk
        self._on_order = on_order or (lambda labels: warn_of_order(labels, "shuffle them"))
        self.kept, self.order = holdout.HeldOutRows(), LabelOrder(learner.n_outputs if learner.n_outputs > 1 else 0)
        self._occurred: Array | None = np.empty(0, np.int32) if learner.t == 0 else None
        self._waiting = self._stop = False

    def restore(self, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Restore the state that `record` and `arrays` returned in a session with the same settings."""
        super().restore(record, arrays)
        self._occurred = None
        self.kept.restore(under("held_out.", arrays), self.progress.held_out_complete)
        tallies.restore(self.order, under("order.", arrays))

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of the session, including those of the learner and of held-out rows."""
        found = super().arrays() | {f"held_out.{name}": array for name, array in self.kept.arrays().items()}
        return found | {f"order.{name}": array for name, array in self.order.arrays.items()}

    def run(self, source: Source) -> None:
        """Read the source to its end, pass after pass, from the current position."""
        while not self.progress.done:
            for chunk in self._wait_for(source.chunks(self.progress.position)):
                self._learn_chunk(chunk, source)
                self.progress.position = chunk.end
                if self._on_chunk is not None:
                    self._on_chunk()
            self._check_unchanged(source)
            if self.order.judge():
                self._on_order(self.order)
            self.end_pass(self._measure_held_out() if self.progress.rows else None)

    def _measure_held_out(self) -> dict[str, float] | None:
        """Return the measures of all held-out rows with the current model."""
        if self._held_out is not None:
            return self.measure(self._wait_for(self._held_out.chunks(Position())), self._held_out.names)
        if not self.plan.held_out:
            return None
        kept: Iterable[tuple[RowBlock, Array | None]] = self.kept.blocks
        if self._again is not None and not self.kept.complete:
            kept = self._read_held_out(self._again)
        several = ((self._standardize(rows, False), None, offset) for rows, offset in kept)
        return self._measure_rows(several)

    def _read_held_out(self, source: Source) -> Iterator[tuple[RowBlock, Array | None]]:
        """Read the rows that are held out by their number, with their offsets."""
        before = found = 0
        for chunk in self._wait_for(source.chunks(Position())):
            labelled = self.labels.read_chunk(chunk, source.names, skip=self.plan.skip_bad)
            rows, offset = labelled.rows, labelled.take(chunk.offset)
            out = np.flatnonzero(holdout.held_out_rows(self.plan.held_out, before, rows.n_rows))
            before, found = before + rows.n_rows, found + len(out)
            yield rows.take(out), None if offset is None else offset[out]
        if found != self.progress.held_out_rows:
            raise DataError(
                f"{source.names[-1]}: the file has changed: {found} rows are held out, the first pass had "
                f"{self.progress.held_out_rows}; start over"
            )

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
        learner, first = self.learner, self.progress.number == 0
        held = self._held_out_rows(rows.n_rows)
        learned = rows if held is None else rows._replace(c=np.where(held, 0.0, rows.weights()))
        learned = self._standardize(learned, first).in_precision(learner.dtype)
        if offset is None:
            scores = learner.learn(learned, qid, undo=False, repeated=not first)
        else:
            scores = self._learn_with_offset(learned, offset, repeated=not first)
        self._track_features(rows)
        if first:
            self.tally.add(scores, learned.y, learned.c)
            if not learner.ranking and self.order.add(rows.y):
                self._on_order(self.order)
            if held is not None:
                out = np.flatnonzero(held)
                self._keep_held_out(rows.take(out), None if offset is None else offset[out])
        return scores

    def _learn_with_offset(self, rows: RowBlock, offset: Array, *, repeated: bool) -> Array:
        """Learn rows whose scores have an offset; return these scores. Losses count as those of the rows given."""
        learner = self.learner
        without = absorb_offset(learner.loss, rows, offset)
        scores: Array = learner.learn(without, count=False, undo=False, repeated=repeated) + offset
        learner.loss_sums = holdout.add_losses(learner.loss_sums, learner.losses_of(scores, rows.y), rows.c)
        return scores

    def _keep_held_out(self, rows: RowBlock, offset: Array | None) -> None:
        """Keep held-out rows until the end of the pass, unless they are to be read again."""
        self.kept.add(rows, offset)
        if not self.kept.complete and self._again is not None:
            self.kept.drop()
        self.progress.held_out_rows += rows.n_rows
        self.progress.held_out_complete = self.kept.complete

    def _track_features(self, rows: RowBlock) -> None:
        """Remember the features that occurred while they are few, so that early lines need not scan all weights."""
        if self._occurred is not None:
            if self.progress.rows + rows.n_rows > EARLY:
                self._occurred = None
            else:
                new = rows.indices[rows.indptr[0] : rows.indptr[-1]]
                self._occurred = _union(self._occurred, new)

    def _held_out_rows(self, n_rows: int) -> Array | None:
        """Return which of the next rows are held out."""
        share = self.plan.held_out
        return holdout.held_out_rows(share, self.progress.rows, n_rows) if share else None


def _union(a: Array, b: Array) -> Array:
    """Return the sorted numbers of two arrays, each once: NumPy's own `unique` imports masked arrays, which is slow."""
    both = np.sort(np.concatenate((a, b)))
    return both[np.diff(both, prepend=-1) > 0]


def _end(position: Position) -> tuple[int, int, int]:
    return position.file, position.offset, position.check
