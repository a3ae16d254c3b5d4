"""Rows of a lane: slices of partitions in memory, or the next rows of files, on the worker that learns them.

The state of a lane of files is a `LanePosition`. It includes what was counted on the way there in this pass, so that a
round that is learned again, or a run that is resumed, counts nothing twice and loses nothing: what counts is the
position, not how often it was reported.

A worker collects the bad rows of a file as a stream does and reports them with a round, as bytes at an offset in the
bad rows of that file. Rounds that are learned again report the same bytes at the same offsets, and `Quarantine`, on the
client, writes each byte once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import IO, NamedTuple

import numpy as np

from ..core.validation import Array
from ..data.batches import Batch
from ..data.rowblock import RowBlock, weights_or_ones
from ..io.types import Chunk, Position
from ..training.holdout import held_out_rows
from .partitions import FilePartition, to_row_block

COPY_BYTES = 1 << 20


class LanePosition(NamedTuple):
    """The number of the lane's partition, the start of a chunk in its file, and rows after that.

    `skipped` counts the bad rows of the files before, `number` the rows of this file; `relearned` has the sum of the
    losses of rows of later passes under each model, and at its end that of their weights.
    """

    part: int = 0
    position: Position = Position()
    row: int = 0
    skipped: int = 0
    number: int = 0
    relearned: tuple[float, ...] = ()

    @property
    def bad_rows(self) -> int:
        """Bad rows of this pass up to the start of the chunk."""
        return self.skipped + self.position.skipped

    def next_part(self) -> LanePosition:
        """Return the start of the next partition."""
        return self._replace(part=self.part + 1, position=Position(), row=0, skipped=self.bad_rows, number=0)

    def relearned_totals(self, like: Array, lanes: int) -> Array:
        """Return `Learner.loss_totals`, shaped as given, of the rows relearned with `lanes` times their weights."""
        totals = np.zeros_like(like)
        if self.relearned:
            *losses, weight = np.array(self.relearned) * lanes
            totals[..., 0], totals[..., 1] = np.reshape(losses, like.shape[:-1]), weight
        return totals

    def add_relearned(self, totals: Array, lanes: int) -> LanePosition:
        """Return the position with the sums that are in `Learner.loss_totals`."""
        sums = np.append(totals[..., 0], totals[..., 1].flat[0]) / lanes
        return self._replace(relearned=tuple(sums.tolist()))


class BadRows(NamedTuple):
    """Bad rows of a file: its number in the lane, the offset in the bad rows of the file, and their text."""

    part: int
    start: int
    text: bytes


class LaneRows(NamedTuple):
    """A lane's rows of a round, its position after them, and bad rows for the quarantine."""

    batches: list[Batch]
    position: LanePosition
    done: bool
    n_bytes: int
    bad: tuple[BadRows, ...] = ()


def slice_partition(partition: list[Batch], start: int, stop: int) -> Batch:
    """Return some rows of a partition in memory as one batch."""
    found, at = [], 0
    for batch in partition:
        low, high = max(start - at, 0), min(stop - at, batch.n_rows)
        if low < high:
            found.append(slice_batch(batch, low, high))
        at += batch.n_rows
    return found[0] if len(found) == 1 else _concat(found)


def slice_batch(batch: Batch, start: int, stop: int) -> Batch:
    """Return rows start to stop."""
    if (start, stop) == (0, batch.n_rows):
        return batch
    c = batch.c[start:stop] if len(batch.c) else batch.c
    X = batch.X
    X = X._replace(y=batch.y, c=batch.c).slice(start, stop) if isinstance(X, RowBlock) else X[start:stop]
    return batch._replace(X=X, y=batch.y[start:stop], c=c)


def _concat(several: list[Batch]) -> Batch:
    block = to_row_block(several, lambda batch: batch._replace(y=np.arange(batch.n_rows, dtype=np.float64)))
    y = np.concatenate([batch.y for batch in several])
    return Batch(block._replace(y=y), y, block.c, columns=max(batch.columns for batch in several))


def mark_held_out(batch: Batch, share: Fraction | int, before: int) -> Batch:
    """Return a batch that starts at row `before` of a file with the weights of held-out rows negated.

    A row that is held out keeps its place and its weight, whatever happens to its label.
    """
    c = weights_or_ones(batch.c, batch.n_rows)
    return batch._replace(c=np.where(held_out_rows(share, before, batch.n_rows), -c, c))


class LaneReader:
    """Reads the files of a lane: the current chunk, and how many of its rows have been taken."""

    def __init__(self, files: list[FilePartition], position: LanePosition, held_out: Fraction | int) -> None:
        self._files, self.position, self._held_out = files, position, held_out
        self._chunks: Iterator[Chunk] = iter(())
        self._chunk: Chunk | None = None
        self._is_open = False
        self._bad_file: IO[bytes] | None = None  # bad rows of the open file

    def resume_at(self, position: LanePosition) -> bool:
        """Return whether the reader is at this position, and take over its counts."""
        if self.position[:3] != position[:3]:
            return False
        self.position = position
        return True

    def read(self, rows: int, most_bad: int) -> LaneRows:
        """Read the next rows; fewer at the end, or if the bad rows exceed `most_bad` bytes."""
        batches, n_bytes, bad = [], 0, _BadRowBuffer()
        while rows > 0 and bad.n_bytes < most_bad and self.position.part < len(self._files):
            if self._chunk is None:
                if not self._is_open:
                    self._open()
                self._chunk = next(self._chunks, None)
                if self._chunk is None:
                    self.position, self._is_open = self.position.next_part(), False
                    continue
            first, stop = self.position.row, min(self.position.row + rows, self._chunk.rows.n_rows)
            block = self._chunk.rows
            if first < stop:
                batch = slice_batch(Batch(block, block.y, block.c), first, stop)
                batches.append(mark_held_out(batch, self._held_out, self.position.number) if self._held_out else batch)
                rows -= stop - first
                n_bytes += self._chunk.n_bytes * stop // block.n_rows - self._chunk.n_bytes * first // block.n_rows
                self.position = self.position._replace(row=stop, number=self.position.number + stop - first)
            if stop == block.n_rows:
                if self._bad_file is not None:
                    bad.add(self._bad_file, self.position, self._chunk.end)
                self.position = self.position._replace(position=self._chunk.end, row=0)
                self._chunk = None
        return LaneRows(batches, self.position, self.position.part == len(self._files), n_bytes, tuple(bad.found))

    def _open(self) -> None:
        """Open the file at the lane's position."""
        self.close()
        file, start = self._files[self.position.part], self.position.position
        if file.quarantines:
            self._bad_file = tempfile.NamedTemporaryFile(prefix="proxstream-bad-")  # noqa: SIM115 - until `close`
        path = None if self._bad_file is None else self._bad_file.name
        begin = start if start != Position() else None
        self._chunks, self._is_open = file.chunks(begin, empty=True, quarantine=path), True

    def close(self) -> None:
        """Close the file that is being read."""
        if hasattr(self._chunks, "close"):
            self._chunks.close()
        if self._bad_file is not None:
            self._bad_file.close()
            self._bad_file = None


class _BadRowBuffer:
    """Bad rows of a round."""

    def __init__(self) -> None:
        self.found: list[BadRows] = []
        self.n_bytes = 0

    def add(self, file: IO[bytes], position: LanePosition, end: Position) -> None:
        """Add the bad rows between a position and the end of its chunk."""
        start = position.position.quarantined
        if end.quarantined > start:
            file.seek(start)
            text = file.read(end.quarantined - start)
            self.found.append(BadRows(position.part, start, text))
            self.n_bytes += len(text)


class Quarantine:
    """The bad rows of all files in one file of the client, each once, however often workers report them.

    During a run they are in the order of the reports; `finish` puts them in the order of the files.

    Parameters
    ----------
    path : str
        Anything in the file after the segments is cut off.
    segments : pairs of the number of a file and bytes
        What an earlier run has written, in order.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     quarantine = Quarantine(f"{folder}/bad")
    ...     quarantine.add(1, 0, b"# b:1\\n?\\n")
    ...     quarantine.add(0, 0, b"# a:1\\n!\\n")
    ...     quarantine.add(1, 0, b"# b:1\\n?\\n# b:2\\n??\\n")
    ...     quarantine.finish()
    ...     pathlib.Path(folder, "bad").read_text().split()
    ['#', 'a:1', '!', '#', 'b:1', '?', '#', 'b:2', '??']
    """

    def __init__(self, path: str, segments: Iterable[tuple[int, int]] = ()) -> None:
        self.path, self.segments = path, [(part, n) for part, n in segments]
        self._sizes: dict[int, int] = {}
        for part, n in self.segments:
            self._sizes[part] = self._sizes.get(part, 0) + n
        with open(path, "r+b" if self.segments else "wb") as file:
            file.truncate(sum(self._sizes.values()))

    def start_pass(self) -> None:
        """Empty the file: it holds the bad rows of one pass."""
        self.segments, self._sizes = [], {}
        os.truncate(self.path, 0)

    def add(self, part: int, start: int, text: bytes) -> None:
        """Append the bad rows of a file from an offset on, except those that are already there."""
        size = self._sizes.get(part, 0)
        new = text[max(size - start, 0) :]
        if not new:
            return
        with open(self.path, "ab") as file:
            file.write(new)
        self._sizes[part] = size + len(new)
        if self.segments and self.segments[-1][0] == part:
            self.segments[-1] = part, self.segments[-1][1] + len(new)
        else:
            self.segments.append((part, len(new)))

    def finish(self) -> None:
        """Sort the bad rows by file; the file is replaced atomically."""
        numbers = [part for part, _ in self.segments]
        if numbers == sorted(numbers):
            return
        starts, at = [], 0
        for part, n in self.segments:
            starts.append((part, at, n))
            at += n
        ordered = f"{self.path}.ordered"
        with open(self.path, "rb") as file, open(ordered, "wb") as made:
            for _, start, n in sorted(starts):
                file.seek(start)
                while n > 0:
                    n -= made.write(file.read(min(n, COPY_BYTES)))
        shutil.copymode(self.path, ordered)
        os.replace(ordered, self.path)
