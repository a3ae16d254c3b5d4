"""Text, line by line: whole lines are gathered in a buffer, a parser makes rows of them, bad ones are left out.

    bytes -> buffer -> whole lines -> parser -> rows
                  \\-> checksum

A line longer than `max_line_bytes` is an error, so that memory stays bounded whatever the file holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._checks import Array
from ..blocks import RowBlock
from .base import Chunk, DataError, Position
from .formats import Job, changed
from .sources import Opened, Source

PIECE = 1 << 20  # bytes read at once where they are only checked
BOM = b"\xef\xbb\xbf"
NEWLINE = 10
PAD = 8  # bytes behind the last line, which parsers may look at but not mind


class Fault(NamedTuple):
    """Where in the buffer a row is wrong, and the words `found ..., expected ...` for it.

    A row of several lines tells where it ends. One that is `open` is wrong only if no more lines follow that end it.
    """

    where: int
    words: str
    end: int = 0
    open: bool = False


class Parsed(NamedTuple):
    """What a parser made of some lines: rows, the lines that it got through, where it stopped, and why if early."""

    rows: RowBlock
    qid: Array | None
    lines: int
    at: int
    fault: Fault | None


class Parser(Protocol):
    """What makes rows of lines. The last byte before `stop` is a newline."""

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse from `at` on, to `stop`, to a bad line or until there are enough rows."""


class Checksum:
    """A running checksum of bytes, 63 bits wide."""

    def __init__(self, seed: int) -> None:
        from ..kernels import xxhash

        self._kernel = xxhash
        self._state, self._rest = np.zeros(6, np.uint64), np.zeros(xxhash.STRIPE, np.uint8)
        xxhash.begin(self._state, np.uint64(seed))

    def update(self, buffer: Array, start: int, stop: int) -> None:
        """Take buffer[start:stop]."""
        self._kernel.update(self._state, self._rest, buffer, start, stop)

    def value(self) -> int:
        """Return the checksum of all bytes so far."""
        return int(self._kernel.digest(self._state, self._rest)) >> 1


def checksum(source: Source, seed: int, closed: Callable[[], bool]) -> int:
    """Return the check at a file's end, reading all of it."""
    check = Checksum(seed)
    with source.open(closed) as opened:
        skim(opened, check, None)
    return check.value()


def skim(opened: Opened, check: Checksum, n_bytes: int | None) -> tuple[int, int]:
    """Read so many bytes (None: all) for their checksum alone; return the bytes and the lines there were."""
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
    """Memory that whole lines are gathered in; it grows to hold the longest one."""

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
        """Bytes that wait."""
        return self.filled - self.at

    def rest(self, stop: int, spare: list[Buffer]) -> Buffer:
        """Return another buffer, a spare one if it is large enough, with what lies behind `stop`.

        It is there to read on in while this one is parsed.
        """
        size = max(self.size, 2 * (self.filled - stop))
        if spare and spare[-1].size < size:
            spare.clear()
        other = spare.pop() if spare else Buffer(size)
        other.at, other.filled, other.ended = 0, max(self.filled - stop, 0), self.ended
        other.bytes[: other.filled] = memoryview(self.bytes)[stop : self.filled]
        return other

    def copy(self, stop: int) -> bytes:
        """Return what waits before `stop`."""
        return bytes(memoryview(self.bytes)[self.at : min(stop, self.filled)])

    def fill(self, opened: Opened) -> None:
        """Move what waits to the front, grow if it takes more than half the room, and read as much as fits.

        Where bytes come as somebody writes them (a pipe), lines that are whole do not wait for more.
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
        """Return where the whole lines end; at the end of the file every line is whole."""
        if self.ended and self.left and self.bytes[self.filled - 1] != NEWLINE:
            self.bytes[self.filled] = NEWLINE
            return self.filled + 1
        return self.bytes.rfind(b"\n", self.at, self.filled) + 1


def read_lines(job: Job, parser: Parser, reading: Callable[..., LineReading] | None = None) -> Iterator[Chunk]:
    """Yield the rows of a text source, from `job.start` on."""
    from .accepting import Accepting

    if job.settings.labels is not None:
        parser = Accepting(parser, job.settings.labels)
    with job.source.open(job.closed) as opened:
        check = Checksum(job.seed)
        offset, lines = skim(opened, check, job.start.offset)
        if offset < job.start.offset:
            raise changed(job, f"it has {offset} bytes where {job.start.offset} had been read")
        if offset and check.value() != job.start.check:
            raise changed(job)
        yield from (reading or LineReading)(job, parser, opened, check, lines).chunks()


class LineReading:
    """One pass over the lines of a source."""

    def __init__(self, job: Job, parser: Parser, opened: Opened, check: Checksum, lines: int) -> None:
        self.job, self.parser, self.opened, self.check = job, parser, opened, check
        self.row, self.offset, self.line = job.start.row, job.start.offset, lines
        self.buffer = Buffer(job.settings.chunk_bytes)
        self.told = self._stored()  # bytes that chunks have told of

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows between bad lines."""
        buffer = self.buffer
        while not self.job.closed():
            stop = buffer.stop()
            if stop > buffer.at:
                yield from self._settle(self.parser.parse(buffer.array, buffer.at, stop), stop)
            elif buffer.ended:
                break
            elif buffer.left >= self.job.settings.max_line_bytes:
                self._leave_out_long()
                yield self._chunk(no_rows(self.job.settings.dtype), None)
            else:
                buffer.fill(self.opened)
                if self.offset == 0 and buffer.bytes.startswith(BOM):
                    self._pass(len(BOM))

    def _settle(self, parsed: Parsed, stop: int) -> Iterator[Chunk]:
        """Count what was parsed of the buffer and hand it on, without the bad line that it ended at."""
        self.row += parsed.rows.n_rows
        self.line += parsed.lines
        self._pass(parsed.at)
        fault, buffer = parsed.fault, self.buffer
        if fault is not None and fault.open and not buffer.ended and buffer.left < self.job.settings.max_line_bytes:
            buffer.fill(self.opened)  # what was a fault may end well
            fault = None
        if fault is not None and self.job.faults.on_error != "stop":
            self._leave_out(fault, stop)
            fault = None
        yield self._chunk(parsed.rows, parsed.qid)
        if fault is not None:  # behind all rows before it
            self._leave_out(fault, stop)

    def _pass(self, at: int) -> None:
        """Count what lies before `at` as read."""
        buffer = self.buffer
        at = min(at, buffer.filled)
        self.check.update(buffer.array, buffer.at, at)
        self.offset += at - buffer.at
        buffer.at = at

    def _stored(self) -> int:
        return self.opened.taken if self.job.source.compression is not None else self.offset

    def _chunk(self, rows: RowBlock, qid: Array | None) -> Chunk:
        stored = self._stored()
        n_bytes, self.told = stored - self.told, stored
        end = Position(self.job.start.file, self.row, self.offset, self.check.value())
        return Chunk(rows, qid, self.job.faults.mark(end), n_bytes)

    def _leave_out(self, fault: Fault, stop: int) -> None:
        """Hand a bad row to who decides about it, and go on behind it."""
        buffer = self.buffer
        end = fault.end or buffer.bytes.find(b"\n", buffer.at, stop) + 1
        line = self.line + 1 + buffer.bytes.count(b"\n", buffer.at, fault.where)
        column = fault.where - max(buffer.bytes.rfind(b"\n", buffer.at, fault.where) + 1, buffer.at) + 1
        place = f"{self.job.source.name}:{line}:{column}"
        self.job.faults.take(DataError(f"{place}: {fault.words}"), buffer.copy(end))
        self.line += buffer.bytes.count(b"\n", buffer.at, end)
        self._pass(end)

    def _leave_out_long(self) -> None:
        """The same for a line that is too long to be held."""
        buffer = self.buffer
        words = f"found a line of more than {self.job.settings.max_line_bytes} bytes, expected a shorter one"
        place = f"{self.job.source.name}:{self.line + 1}:1"
        self.job.faults.take(DataError(f"{place}: {words}"), buffer.copy(buffer.filled))
        end = 0
        while not end and not buffer.ended:
            self._pass(buffer.filled)
            buffer.fill(self.opened)
            end = buffer.bytes.find(b"\n", 0, buffer.filled) + 1
        self.line += 1
        self._pass(end or buffer.filled)


def parse_pieces(text: bytes, parser: Parser, n_bytes: int) -> Iterator[Parsed]:
    """Parse whole lines in memory, about so many bytes at a time."""
    buffer, start = Buffer(n_bytes), 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + n_bytes) + 1 or text.index(b"\n", start) + 1
        if end - start > buffer.size:
            buffer = Buffer(end - start)
        buffer.bytes[: end - start] = memoryview(text)[start:end]
        at = 0
        while at < end - start:
            parsed = parser.parse(buffer.array, at, end - start)
            if parsed.fault is not None:
                raise DataError(f"byte {start + parsed.fault.where}: {parsed.fault.words}")
            yield parsed
            at = parsed.at
        start = end


def shown(word: bytes, most: int) -> str:
    """Return the beginning of a word as errors show it: bytes that are no UTF-8, or move a terminal, by their codes.

    >>> print(shown("é".encode() + bytes([255, 27]), 40), shown(b"abc", 2))
    'é\\xff\\x1b' 'ab'...
    """
    shown = repr(word[:most].decode("utf-8", "surrogateescape"))
    shown = re.sub(r"\\udc([89a-f][0-9a-f])", r"\\x\1", shown)
    return shown + "..." * (len(word) > most)


def no_rows(dtype: Any) -> RowBlock:
    """Return a block of no rows."""
    return RowBlock(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, dtype), np.empty(0))
