"""svmlight text, also known as libsvm's: label [qid:q] index:value ... [# comment], one line per row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ...core.validation import Array
from ...data.rowblock import RowBlock
from ..formats import Job
from ..types import Chunk, Settings
from .buffers import ParseBuffers, Wants
from .parallel import read_on_threads
from .reader import Parsed, TextParser, line_spans, parse_pieces

HIGHEST_INDEX = 2**31 - 1  # what a row block's indices can hold


def read(job: Job) -> Iterator[Chunk]:
    """Read svmlight text."""
    return read_on_threads(job, SvmlightParser(job.settings))


class SvmlightParser(TextParser):
    """Rows of svmlight lines.

    `settings.qid` True: every row must have a qid; False: a qid is ignored; None: as the first row has it.
    """

    def __init__(self, settings: Settings) -> None:
        from . import _svmlight as svmlight

        if settings.qid not in (None, True, False):
            raise ValueError(f"qid of svmlight text must be None, True or False, got {settings.qid!r}")
        self._kernel: Any = svmlight
        self._settings = settings
        self.min_index = settings.min_index
        self._base = 0 if settings.zero_based else 1
        self._most = min(settings.max_features - 1 + self._base, HIGHEST_INDEX)
        mode = {None: svmlight.UNKNOWN, True: svmlight.WITH, False: svmlight.IGNORED}[settings.qid]
        self._buffers = ParseBuffers(settings, Wants(qid=settings.qid is not False), mode)

    def clone(self) -> Self | None:
        """Return a parser for another thread, once it is known whether rows have a qid."""
        mode = self._buffers.report("MODE")
        known = {self._kernel.WITHOUT: None, self._kernel.WITH: True, self._kernel.IGNORED: False}
        if mode not in known:
            return None
        other = type(self)(replace(self._settings, qid=known[mode]))
        other._buffers.set_mode(mode)
        return other

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse complete lines."""
        buffers = self._buffers
        buffers.run(lambda arrays, state: self._kernel.parse(buffer, stop, self._base, self._most, arrays, state), at)
        buffers.sort()
        filled = buffers.filled()
        rows = RowBlock(*(array.copy() for array in filled[:4]))
        return buffers.parsed(rows, filled.qid.copy() if buffers.report("MODE") == self._kernel.WITH else None, buffer)

    def row_spans(self, buffer: Array, at: int, stop: int) -> tuple[Array, Array]:
        """Return where each row begins and ends: lines that are neither blank nor a comment."""
        return line_spans(buffer, at, stop, b"#")


def parse_bytes(text: bytes, dtype: Any = np.float32) -> list[Parsed]:
    """Parse complete lines in memory, piece by piece as a stream does, and nothing else: for benchmarks.

    >>> [parsed.rows.indices for parsed in parse_bytes(b"1 3:0.5\\n-1 1:2\\n")]
    [array([3, 1], dtype=int32)]
    """
    settings = Settings(dtype=dtype)
    return list(parse_pieces(text, SvmlightParser(settings), settings.chunk_bytes))
