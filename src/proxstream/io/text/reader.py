"""Text, line by line: complete lines are collected in a buffer, a parser makes rows of them, bad ones are left out.

    bytes -> buffer -> complete lines -> parser -> rows
                  \\-> checksum

A line longer than `max_line_bytes` is an error, so that memory stays bounded whatever the file contains. Rows carry no
line numbers: where one is refused for its label, or asked for by `Settings.row`, the lines of its block are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from ...core.records import NamedTuple
from ...core.validation import Array
from ...data.rowblock import RowBlock
from ..formats import Job, changed
from ..sources import Opened, Source
from ..types import Chunk, DataError, Position

PIECE = 1 << 20  # bytes read at once where they are only checked
BOM = b"\xef\xbb\xbf"
NEWLINE = 10
BLANKS = (9, 13, 32)
PAD = 8  # bytes after the last line, which parsers may read and ignore


class BadRow(NamedTuple):
    """Where in the buffer a row is wrong, and the words `found ..., expected ...` for it.

    A row of several lines reports its `end`. One that is `open` is wrong only if no line follows that ends it.
    """

    where: int
    words: str
    end: int = 0
    open: bool = False


class Parsed(NamedTuple):
    """The rows of some lines, how many lines were parsed, where parsing stopped, and why if early.

    `start` is where the first row may begin, if not where parsing began. `offset` is that of `Chunk`.
    """

    rows: RowBlock
    qid: Array | None
    lines: int
    at: int
    bad: BadRow | None
    start: int = 0
    offset: Array | None = None


class TextParser:
    """Makes rows of lines; the last byte before `stop` is always a newline."""

    min_index = 0  # of features: a row with a smaller one is refused

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse from `at` on, to `stop`, to a bad row or until there are enough rows."""
        raise NotImplementedError

    def clone(self) -> Self | None:
        """Return a parser for another thread that parses the lines to come as this one would.

        None if there cannot be two, or not yet.
        """
        return None

    def in_sequence(self, text: bytearray, at: int, stop: int) -> bool:
        """Return whether these lines can only be parsed after those before them."""
        return False

    def row_spans(self, buffer: Array, at: int, stop: int) -> tuple[Array, Array]:
        """Return where each row begins and ends among lines that were parsed: here, each line that is not blank."""
        return line_spans(buffer, at, stop)

    def label_position(self, buffer: Array, at: int) -> int:
        """Return where the label is of the row that begins at `at`: here, the first word."""
        while buffer[at] in BLANKS:
            at += 1
        return at


def line_spans(buffer: Array, at: int, stop: int, comment: bytes = b"") -> tuple[Array, Array]:
    """Return where lines begin and end that are neither blank nor a comment.

    >>> line_spans(np.frombuffer(b"1 2:1\\n\\n # no row\\n-1\\n", np.uint8), 0, 20, b"#")
    (array([ 0, 17]), array([ 6, 20]))
    """
    ends = np.flatnonzero(buffer[at:stop] == NEWLINE) + at + 1
    begins = np.concatenate(([at], ends[:-1])).astype(np.int64)
    odd = np.isin(buffer[begins], np.frombuffer(bytes((NEWLINE, *BLANKS)) + comment, np.uint8))
    keep = np.ones(len(ends), bool)
    for k in np.flatnonzero(odd).tolist():
        text = buffer[begins[k] : ends[k]].tobytes().strip()
        keep[k] = bool(text) and not (comment and text.startswith(comment))
    return begins[keep], ends[keep]


class Checksum:
    """A running checksum of bytes, 63 bits wide."""

    def __init__(self, seed: int) -> None:
        from .. import _xxhash as xxhash

        self._kernel = xxhash
        self._state, self._rest = np.zeros(6, np.uint64), np.zeros(xxhash.STRIPE, np.uint8)
        xxhash.begin(self._state, np.uint64(seed))

    def update(self, buffer: Array, start: int, stop: int) -> None:
        """Add buffer[start:stop]."""
        self._kernel.update(self._state, self._rest, buffer, start, stop)

    def value(self) -> int:
        """Return the checksum of all bytes so far."""
        return int(self._kernel.digest(self._state, self._rest)) >> 1


def checksum(source: Source, seed: int, closed: Callable[[], bool]) -> int:
    """Return the checksum at the end of a file, reading all of it."""
    check = Checksum(seed)
    with source.open(closed) as opened:
        skim(opened, check, None)
    return check.value()


def skim(opened: Opened, check: Checksum, n_bytes: int | None) -> tuple[int, int]:
    """Read so many bytes (None: all) for their checksum alone; return how many bytes and lines there were."""
    piece = bytearray(PIECE)
    array = np.frombuffer(piece, np.uint8)
    done = lines = 0
    while n_bytes is None or done < n_bytes:
        limit = PIECE if n_bytes is None else min(PIECE, n_bytes - done)
        n = opened.readinto(memoryview(piece)[:limit])
        if n == 0:
            break
        check.update(array, 0, n)
        lines += piece.count(b"\n", 0, n)
        done += n
    return done, lines


class Buffer:
    """Memory that complete lines are collected in; it grows to hold the longest one."""

    def __init__(self, size: int) -> None:
        self._make(size)
        self.at = self.filled = 0  # what is not parsed yet
        self.ended = False

    def _make(self, size: int) -> None:
        self.bytes = bytearray(size + 1 + PAD)  # one more for a newline that the last line lacks
        self.array = np.frombuffer(self.bytes, np.uint8)
        self.size = size

    @property
    def left(self) -> int:
        """Bytes that are not parsed yet."""
        return self.filled - self.at

    def rest(self, stop: int, spare: list[Buffer]) -> Buffer:
        """Return another buffer, a spare one if it is large enough, with what follows `stop`.

        Reading continues there while this one is parsed.
        """
        size = max(self.size, 2 * (self.filled - stop))
        if spare and spare[-1].size < size:
            spare.clear()
        other = spare.pop() if spare else Buffer(size)
        other.at, other.filled, other.ended = 0, max(self.filled - stop, 0), self.ended
        other.bytes[: other.filled] = memoryview(self.bytes)[stop : self.filled]
        return other

    def copy(self, stop: int) -> bytes:
        """Return the unparsed bytes before `stop`."""
        return bytes(memoryview(self.bytes)[self.at : min(stop, self.filled)])

    def fill(self, opened: Opened) -> None:
        """Move the unparsed bytes to the front, grow if they take more than half the room, and read as much as fits.

        Complete lines of a pipe do not wait until the buffer is full.
        """
        rest = self.copy(self.filled)
        if 2 * len(rest) > self.size:
            self._make(2 * self.size)
        self.bytes[: len(rest)] = rest
        self.at, self.filled = 0, len(rest)
        view = memoryview(self.bytes)
        while self.filled < self.size:
            n = opened.readinto(view[self.filled : self.size])
            if n == 0:
                self.ended = True
                break
            self.filled += n
            if opened.idle() and self.bytes.find(b"\n", 0, self.filled) >= 0:
                break

    def stop(self) -> int:
        """Return where the complete lines end; at the end of the file every line is complete."""
        if self.ended and self.left and self.bytes[self.filled - 1] != NEWLINE:
            self.bytes[self.filled] = NEWLINE
            return self.filled + 1
        return self.bytes.rfind(b"\n", self.at, self.filled) + 1


def read_lines(job: Job, parser: TextParser, reading: Callable[..., LineReading] | None = None) -> Iterator[Chunk]:
    """Yield the rows of a text source, from `job.start` on."""
    with job.source.open(job.closed) as opened:
        check = Checksum(job.seed)
        offset, lines = skim(opened, check, job.start.offset)
        if offset < job.start.offset:
            raise changed(job, f"it has {offset} bytes where {job.start.offset} had been read")
        if offset and check.value() != job.start.check:
            raise changed(job)
        yield from (reading or LineReading)(job, parser, opened, check, lines).chunks()


class RowFoundError(Exception):
    """The row asked for by `Settings.row`; the message is its place, `file:line`."""


class LineReading:
    """One pass over the lines of a source."""

    def __init__(self, job: Job, parser: TextParser, opened: Opened, check: Checksum, lines: int) -> None:
        self.job, self.parser, self.opened, self.check = job, parser, opened, check
        self.row, self.offset, self.line = job.start.row, job.start.offset, lines
        self.buffer = Buffer(job.settings.chunk_bytes)
        self._reported = self._stored()  # bytes of the chunks so far

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows between bad lines."""
        buffer = self.buffer
        while not self.job.closed():
            stop = buffer.stop()
            if stop > buffer.at:
                yield from self._finish(self.parser.parse(buffer.array, buffer.at, stop), stop)
            elif buffer.ended:
                break
            elif buffer.left >= self.job.settings.max_line_bytes:
                self._leave_out_long()
                yield self._chunk(no_rows(self.job.settings.dtype), None)
            else:
                buffer.fill(self.opened)
                if self.offset == 0 and buffer.bytes.startswith(BOM):
                    self._pass(len(BOM))

    def _finish(self, parsed: Parsed, stop: int) -> Iterator[Chunk]:
        """Yield the rows that were parsed, without those that are refused and without the bad one at their end."""
        buffer, settings, stopping = self.buffer, self.job.settings, self.job.bad_rows.on_error == "stop"
        refused = self._refused(parsed.rows)
        if len(refused) or settings.row >= 0:
            begins, ends = self.parser.row_spans(buffer.array, parsed.start or buffer.at, parsed.at)
            bad = [self._refusal(parsed.rows, row, begins[row], ends[row]) for row in refused.tolist()]
            keep = np.arange(refused[0]) if bad and stopping else np.delete(np.arange(parsed.rows.n_rows), refused)
            asked = settings.row - (self.row - self.job.start.row)
            if settings.row >= 0 and asked < len(keep):
                line = self.line + 1 + self._count_lines(buffer.at, begins[keep[asked]])
                raise RowFoundError(f"{self.job.source.name}:{line}")
            qid, offset = (None if one is None else one[keep] for one in (parsed.qid, parsed.offset))
            parsed = parsed._replace(rows=parsed.rows.take(keep), qid=qid, offset=offset)
            if bad and stopping:
                begin = int(begins[refused[0]])
                parsed = parsed._replace(lines=self._count_lines(buffer.at, begin), at=begin, bad=bad[0])
            else:
                for begin, one in zip(begins[refused].tolist(), bad, strict=True):
                    self._report(one, begin, one.end)
        self.row += parsed.rows.n_rows
        self.line += parsed.lines
        self._pass(parsed.at)
        last = parsed.bad
        if last is not None and last.open and not buffer.ended and buffer.left < settings.max_line_bytes:
            buffer.fill(self.opened)  # the lines to come may complete it
            last = None
        if last is not None and not stopping:
            self._leave_out(last, stop)
            last = None
        yield self._chunk(parsed.rows, parsed.qid, parsed.offset)
        if last is not None:  # after all rows before it
            self._leave_out(last, stop)

    def _refused(self, rows: RowBlock) -> Array:
        """Return the rows whose label is not accepted, or with a feature below the first one allowed."""
        wrong, labels, least = np.zeros(rows.n_rows, bool), self.job.settings.labels, self.parser.min_index
        if labels is not None:
            wrong |= ~labels.good(rows.y)
        if least and len(rows.indices) and rows.indices.min() < least:
            low = np.flatnonzero(rows.indices < least)
            wrong[np.searchsorted(rows.indptr, low, side="right") - 1] = True
        return np.flatnonzero(wrong)

    def _refusal(self, rows: RowBlock, row: int, begin: int, end: int) -> BadRow:
        """Return what is wrong with a row that is refused."""
        labels, y = self.job.settings.labels, rows.y[row]
        if labels is not None and not labels.good(rows.y[row : row + 1]).all():
            found = "no label" if np.isnan(y) else f"the label {y:g}"
            where = self.parser.label_position(self.buffer.array, int(begin))
            return BadRow(where, f"found {found}, expected {labels.words}", int(end))
        least = self.parser.min_index
        index = rows.indices[rows.indptr[row] : rows.indptr[row + 1]].min()
        token = re.search(rb"[ \t]0*%d:" % index, buffer_bytes := self.buffer.bytes[begin:end])
        where = int(begin) + (token.start() + 1 if token else len(buffer_bytes) - len(buffer_bytes.lstrip()))
        return BadRow(
            where, f"found the index {index}, expected an index of at least {least}, as in training", int(end)
        )

    def _count_lines(self, at: int, stop: int) -> int:
        return self.buffer.bytes.count(b"\n", at, stop)

    def _pass(self, at: int) -> None:
        """Count what precedes `at` as read."""
        buffer = self.buffer
        at = min(at, buffer.filled)
        self.check.update(buffer.array, buffer.at, at)
        self.offset += at - buffer.at
        buffer.at = at

    def _stored(self) -> int:
        return self.opened.bytes_read if self.job.source.compression is not None else self.offset

    def _chunk(self, rows: RowBlock, qid: Array | None, offset: Array | None = None) -> Chunk:
        stored = self._stored()
        n_bytes, self._reported = stored - self._reported, stored
        end = Position(self.job.start.file, self.row, self.offset, self.check.value())
        return Chunk(rows, qid, self.job.bad_rows.mark(end), n_bytes, offset)

    def _report(self, bad: BadRow, begin: int, end: int) -> None:
        """Report a bad row by its place; raise, or return if it is to be left out."""
        buffer = self.buffer
        line = self.line + 1 + self._count_lines(buffer.at, bad.where)
        column = bad.where - max(buffer.bytes.rfind(b"\n", buffer.at, bad.where) + 1, buffer.at) + 1
        error = DataError(f"{self.job.source.name}:{line}:{column}: {bad.words}")
        self.job.bad_rows.take(error, bytes(memoryview(buffer.bytes)[begin : min(end, buffer.filled)]))

    def _leave_out(self, bad: BadRow, stop: int) -> None:
        """Report the bad row at which parsing stopped, and continue after it."""
        buffer = self.buffer
        end = bad.end or buffer.bytes.find(b"\n", buffer.at, stop) + 1
        self._report(bad, buffer.at, end)
        self.line += self._count_lines(buffer.at, end)
        self._pass(end)

    def _leave_out_long(self) -> None:
        """The same for a line that does not fit the buffer."""
        buffer = self.buffer
        words = f"found a line of more than {self.job.settings.max_line_bytes} bytes, expected a shorter one"
        self._report(BadRow(buffer.at, words), buffer.at, buffer.filled)
        end = 0
        while not end and not buffer.ended:
            self._pass(buffer.filled)
            buffer.fill(self.opened)
            end = buffer.bytes.find(b"\n", 0, buffer.filled) + 1
        self.line += 1
        self._pass(end or buffer.filled)


def parse_pieces(text: bytes, parser: TextParser, n_bytes: int) -> Iterator[Parsed]:
    """Parse complete lines in memory, about so many bytes at a time."""
    buffer, start = Buffer(n_bytes), 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + n_bytes) + 1 or text.index(b"\n", start) + 1
        if end - start > buffer.size:
            buffer = Buffer(end - start)
        buffer.bytes[: end - start] = memoryview(text)[start:end]
        at = 0
        while at < end - start:
            parsed = parser.parse(buffer.array, at, end - start)
            if parsed.bad is not None:
                raise DataError(f"byte {start + parsed.bad.where}: {parsed.bad.words}")
            yield parsed
            at = parsed.at
        start = end


def shown(word: bytes, most: int) -> str:
    """Return the beginning of a word as errors show it: bytes that are not printable UTF-8 by their codes.

    >>> print(shown("é".encode() + bytes([255, 27]), 40), shown(b"abc", 2))
    'é\\xff\\x1b' 'ab'...
    """
    shown = repr(word[:most].decode("utf-8", "surrogateescape"))
    shown = re.sub(r"\\udc([89a-f][0-9a-f])", r"\\x\1", shown)
    return shown + "..." * (len(word) > most)


def check_highest(job: Job, rows: RowBlock, row: int) -> None:
    """Refuse a feature beyond `max_features` among rows that are not text, the first of them the row-th from 0."""
    most = job.settings.max_features
    if rows.n_features > most:
        at = int(np.argmax(rows.indices >= most))
        row += int(np.searchsorted(rows.indptr, at, side="right"))
        raise DataError(
            f"{job.source.name}: row {row}: found the index {rows.indices[at]}, expected an index of at most "
            f"{most - 1}, as max-features is {most}"
        )


def no_rows(dtype: Any) -> RowBlock:
    """Return a block of no rows."""
    return RowBlock(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, dtype), np.empty(0))
