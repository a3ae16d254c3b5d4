"""Lines parsed on several threads: blocks of complete lines go to parsers, and their rows come back in order.

    read -> blocks of lines -> parsers, one per thread -> in order: rows counted, bytes checked -> chunks

A parser that has to remember what came before (numbers of names, whether the first row had a qid) parses alone until
it can be cloned; with one processor it stays alone. Lines that depend on those before them (a quoted field may contain
line ends) are parsed in sequence, too. The rows are the same either way.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ...core.records import NamedTuple
from ...data.threads import pool_of
from ..formats import Job
from ..types import Chunk
from .reader import BOM, Buffer, LineReading, Parsed, TextParser, no_rows, read_lines

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

MOST_PARSERS = 4  # more than a learner on a few threads can follow


class Block(NamedTuple):
    """Complete lines that are being parsed."""

    buffer: Buffer
    stop: int
    parsed: Future[list[Parsed]]


def parsers() -> int:
    """Return the number of threads to parse on: one per processor that this process may use, at most MOST_PARSERS."""
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST_PARSERS)


def read_on_threads(job: Job, parser: TextParser) -> Iterator[Chunk]:
    """Yield the rows of a text source, from `job.start` on, parsed on as many threads as help."""
    n = parsers()
    if n == 1:
        return read_lines(job, parser)
    return read_lines(job, parser, lambda *arguments: ParallelReading(*arguments, n=n))


class ParallelReading(LineReading):
    """One pass over the lines of a source on several threads."""

    def __init__(self, *arguments: Any, n: int) -> None:
        super().__init__(*arguments)
        self._n = n
        self._parsers: SimpleQueue[TextParser] = SimpleQueue()
        self._blocks: deque[Block] = deque()
        self._spare: list[Buffer] = []  # of parsed lines, used again: new memory would have to be cleared

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows between bad lines."""
        feed = self.buffer
        pool: ThreadPoolExecutor | None = None
        with ExitStack() as until_the_end:
            alone = True
            while not self.job.closed():
                stop = feed.stop()
                if stop > feed.at and (alone or self.parser.in_sequence(feed.bytes, feed.at, stop)):
                    yield from self._arrived(0)
                    self.buffer = feed
                    yield from self._finish(self.parser.parse(feed.array, feed.at, stop), stop)
                    alone = alone and not self._clones()
                elif stop > feed.at:
                    pool = pool or until_the_end.enter_context(pool_of(self._n, "proxstream-parse"))
                    self._blocks.append(Block(feed, stop, pool.submit(self._parse_any, feed, stop)))
                    feed = feed.rest(stop, self._spare)
                    yield from self._arrived(0 if self.opened.idle() else self._n)
                elif feed.ended:
                    yield from self._arrived(0)
                    return
                elif feed.left >= self.job.settings.max_line_bytes:
                    yield from self._arrived(0)
                    self.buffer = feed
                    self._leave_out_long()
                    yield self._chunk(no_rows(self.job.settings.dtype), None)
                else:
                    feed.fill(self.opened)
                    if self.offset == 0 and not self._blocks and feed.bytes.startswith(BOM):
                        self._pass(len(BOM))

    def _clones(self) -> bool:
        """Make a parser for each thread, if there can be."""
        clones = [self.parser.clone() for _ in range(self._n)]
        for clone in clones:
            if clone is None:
                return False
            self._parsers.put(clone)
        return True

    def _arrived(self, n: int) -> Iterator[Chunk]:
        """Yield the rows of the first blocks, until so many are left."""
        while len(self._blocks) > n:
            block = self._blocks.popleft()
            yield from self._finish_all(block.buffer, block.stop, block.parsed.result())
            self._spare.append(block.buffer)

    def _finish_all(self, buffer: Buffer, stop: int, parsed: list[Parsed]) -> Iterator[Chunk]:
        self.buffer = buffer
        for one in parsed:
            yield from self._finish(one, stop)

    def _parse_any(self, buffer: Buffer, stop: int) -> list[Parsed]:
        """Parse a block with an idle parser."""
        parser = self._parsers.get()
        try:
            return self._parse(parser, buffer, stop)
        finally:
            self._parsers.put(parser)

    def _parse(self, parser: TextParser, buffer: Buffer, stop: int) -> list[Parsed]:
        """Parse all lines of a block, passing over bad ones."""
        at, found = buffer.at, []
        while at < stop and not self.job.closed():
            found.append(parser.parse(buffer.array, at, stop))
            at = found[-1].at
            if found[-1].bad is not None:
                at = buffer.bytes.find(b"\n", at, stop) + 1
        return found
