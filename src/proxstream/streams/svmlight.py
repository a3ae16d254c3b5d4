"""svmlight text, also known as libsvm's: label [qid:q] index:value ... [# comment], a line a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from .._checks import Array
from ..blocks import RowBlock
from .base import Chunk, Settings
from .formats import Job
from .parallel import read_on_threads
from .sheets import Sheets, Wants
from .text import Parsed, parse_pieces


def read(job: Job) -> Iterator[Chunk]:
    """Read svmlight text."""
    return read_on_threads(job, SvmlightParser(job.settings))


class SvmlightParser:
    """Rows of svmlight lines.

    `settings.qid` True: every row must have a qid; False: a qid is not looked at; None: as the first row has it.
    """

    def __init__(self, settings: Settings) -> None:
        from ..kernels import svmlight

        if settings.qid not in (None, True, False):
            raise ValueError(f"qid of svmlight text must be None, True or False, got {settings.qid!r}")
        self._kernel: Any = svmlight
        self._settings = settings
        self._base = 0 if settings.zero_based else 1
        mode = {None: svmlight.UNKNOWN, True: svmlight.WITH, False: svmlight.IGNORED}[settings.qid]
        self._sheets = Sheets(settings, Wants(qid=settings.qid is not False), mode)

    def twin(self) -> Self | None:
        """Return a parser for another thread, once it is settled whether rows have a qid."""
        mode = self._sheets.told("MODE")
        known = {self._kernel.WITHOUT: None, self._kernel.WITH: True, self._kernel.IGNORED: False}
        if mode not in known:
            return None
        other = type(self)(replace(self._settings, qid=known[mode]))
        other._sheets.set_mode(mode)
        return other

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse whole lines."""
        sheets = self._sheets
        sheets.run(lambda sheet, state: self._kernel.parse(buffer, stop, self._base, sheet, state), at)
        sheets.sort()
        filled = sheets.filled()
        rows = RowBlock(*(array.copy() for array in filled[:4]))
        return sheets.parsed(rows, filled.qid.copy() if sheets.told("MODE") == self._kernel.WITH else None, buffer)


def parse_bytes(text: bytes, dtype: Any = np.float32) -> list[Parsed]:
    """Parse whole lines in memory, piece by piece as a stream does, with nothing else around: for benchmarks.

    >>> [parsed.rows.indices for parsed in parse_bytes(b"1 3:0.5\\n-1 1:2\\n")]
    [array([3, 1], dtype=int32)]
    """
    settings = Settings(dtype=dtype)
    return list(parse_pieces(text, SvmlightParser(settings), settings.chunk_bytes))
