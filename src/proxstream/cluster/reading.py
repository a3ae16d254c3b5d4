"""Rows of a lane: slices of partitions in memory, or the next rows of files, on the worker that learns them.

Where a lane of files stands is a `Place`. It brings along what was counted on the way there in this pass, so that a
round that is learned again, or a run that is resumed, counts nothing twice and forgets nothing: what counts is where a
lane has come to, not how often it was told.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from typing import IO, NamedTuple

import numpy as np

from ..blocks import RowBlock
from ..estimators.rows import Batch, part
from ..streams.base import Chunk, Position
from ..training.heldout import held
from .parts import FilePart, whole
from .quarantine import Bad


class Place(NamedTuple):
    """Where a lane stands: the number of its partition, the chunk's beginning in a file, rows behind that.

    `skipped` counts the bad rows of the files before, `number` the rows of this file; `loss` and `weight` are the sums
    over rows that were held out in this pass, `again_loss` and `again_weight` over rows that were learned again.
    """

    part: int = 0
    position: Position = Position()
    row: int = 0
    skipped: int = 0
    number: int = 0
    loss: float = 0.0
    weight: float = 0.0
    again_loss: float = 0.0
    again_weight: float = 0.0

    @property
    def left_out(self) -> int:
        """Bad rows that the lane has passed in this pass, up to the chunk's beginning."""
        return self.skipped + self.position.skipped

    def next_part(self) -> Place:
        """Return the beginning of the next partition."""
        return self._replace(part=self.part + 1, position=Position(), row=0, skipped=self.left_out, number=0)


class Found(NamedTuple):
    """A lane's rows of a round, where it stands behind them, and bad rows that are kept."""

    batches: list[Batch]
    place: Place
    done: bool
    n_bytes: int
    bad: tuple[Bad, ...] = ()


def sliced(partition: list[Batch], start: int, stop: int) -> Batch:
    """Return some rows of a partition in memory; of several batches those asked for lie in one or are put together."""
    found, at = [], 0
    for batch in partition:
        low, high = max(start - at, 0), min(stop - at, batch.n_rows)
        if low < high:
            found.append(cut(batch, low, high))
        at += batch.n_rows
    return found[0] if len(found) == 1 else _joined(found)


def cut(batch: Batch, start: int, stop: int) -> Batch:
    """Return rows start to stop."""
    if (start, stop) == (0, batch.n_rows):
        return batch
    c = batch.c[start:stop] if len(batch.c) else batch.c
    X = batch.X
    X = part(X._replace(y=batch.y, c=batch.c), start, stop) if isinstance(X, RowBlock) else X[start:stop]
    return batch._replace(X=X, y=batch.y[start:stop], c=c)


def _joined(several: list[Batch]) -> Batch:
    block = whole(several, lambda batch: batch._replace(y=np.arange(batch.n_rows, dtype=np.float64)))
    weighted = any(len(batch.c) for batch in several)
    c = np.concatenate([b.c if len(b.c) else np.ones(b.n_rows) for b in several]) if weighted else several[0].c
    y = np.concatenate([batch.y for batch in several])
    return Batch(block._replace(y=y, c=c), y, c, columns=max(batch.columns for batch in several))


def marked(batch: Batch, share: Fraction, before: int) -> Batch:
    """Return rows, before which a file has so many, with minus their weights where they are held out.

    So a row that is held out keeps its place and its weight until it is scored, whatever becomes of its label.
    """
    c = batch.c if len(batch.c) else np.ones(batch.n_rows)
    return batch._replace(c=np.where(held(share, before, batch.n_rows), -c, c))


class Reader:
    """A lane's files, being read: a chunk, and how many of its rows have been taken."""

    def __init__(self, files: list[FilePart], place: Place, held_out: Fraction) -> None:
        self._files, self.place, self._held_out = files, place, held_out
        self._chunks: Iterator[Chunk] = iter(())
        self._chunk: Chunk | None = None
        self._open = False
        self._kept: IO[bytes] | None = None  # bad rows of the file that is open

    def at(self, place: Place) -> bool:
        """Tell whether the reader stands there; it then goes on from what was counted up to there."""
        if self.place[:3] != place[:3]:
            return False
        self.place = place
        return True

    def read(self, rows: int, most_bad: int) -> Found:
        """Take the next rows; fewer are there at the end, or where bad rows that are kept have so many bytes."""
        batches, n_bytes, bad = [], 0, _BadRows()
        while rows > 0 and bad.n_bytes < most_bad and self.place.part < len(self._files):
            if self._chunk is None:
                if not self._open:
                    self._begin()
                self._chunk = next(self._chunks, None)
                if self._chunk is None:
                    self.place, self._open = self.place.next_part(), False
                    continue
            taken, stop = self.place.row, min(self.place.row + rows, self._chunk.rows.n_rows)
            block = self._chunk.rows
            if taken < stop:
                batch = cut(Batch(block, block.y, block.c), taken, stop)
                batches.append(marked(batch, self._held_out, self.place.number) if self._held_out else batch)
                rows -= stop - taken
                n_bytes += self._chunk.n_bytes * stop // block.n_rows - self._chunk.n_bytes * taken // block.n_rows
                self.place = self.place._replace(row=stop, number=self.place.number + stop - taken)
            if stop == block.n_rows:
                if self._kept is not None:
                    bad.add(self._kept, self.place, self._chunk.end)
                self.place = self.place._replace(position=self._chunk.end, row=0)
                self._chunk = None
        return Found(batches, self.place, self.place.part == len(self._files), n_bytes, tuple(bad.found))

    def _begin(self) -> None:
        """Open the file at the lane's place."""
        self.close()
        file, start = self._files[self.place.part], self.place.position
        if file.quarantines:
            self._kept = tempfile.NamedTemporaryFile(prefix="proxstream-bad-")  # noqa: SIM115 - until `close`
        there = None if self._kept is None else self._kept.name
        begin = start if start != Position() else None
        self._chunks, self._open = file.chunks(begin, empty=True, quarantine=there), True

    def close(self) -> None:
        """End what is still reading."""
        if hasattr(self._chunks, "close"):
            self._chunks.close()
        if self._kept is not None:
            self._kept.close()
            self._kept = None


class _BadRows:
    """Bad rows of a round."""

    def __init__(self) -> None:
        self.found: list[Bad] = []
        self.n_bytes = 0

    def add(self, kept: IO[bytes], place: Place, end: Position) -> None:
        """Take what a file of bad rows has between a place and the end of a chunk."""
        start = place.position.quarantined
        if end.quarantined > start:
            text = os.pread(kept.fileno(), end.quarantined - start, start)
            self.found.append(Bad(place.part, start, text))
            self.n_bytes += len(text)
