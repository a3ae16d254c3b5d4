"""The arrays that a compiled parser fills, used again for each piece of text; rows are copied out of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import Array
from ..blocks import NO_WEIGHTS, RowBlock
from .base import Settings
from .text import Fault, Parsed

ROOM = 1 << 10  # rows and entries that always fit; whatever does not suffice is doubled
SHOWN = 40  # bytes of a token in an error


class Sheets:
    """A sheet for a parser, with what it tells of its progress."""

    def __init__(self, settings: Settings, mode: int = 0, *, has_qid: bool = False, has_weights: bool = False) -> None:
        from ..kernels import lines

        self._kernel: Any = lines
        self._dtype = settings.dtype
        self._state = np.zeros(lines.STATE, np.int64)
        self._state[lines.MODE] = mode
        self._has_qid, self._has_weights = has_qid, has_weights
        self._make(np.array([settings.chunk_bytes // 32, settings.chunk_bytes // 8]) + ROOM)

    def _make(self, room: Array) -> None:
        """Make a sheet with room for so many rows and entries."""
        self._room = room
        n_rows, n_entries = (int(n) for n in room)
        self._sheet = self._kernel.Sheet(
            np.empty(n_rows + 1, np.int32),
            np.empty(n_entries, np.int32),
            np.empty(n_entries, self._dtype),
            np.empty(n_rows),
            np.empty(n_rows if self._has_weights else 0),
            np.empty(n_rows if self._has_qid else 0, np.int64),
        )

    @property
    def mode(self) -> int:
        """The parser's mode."""
        return self._told("MODE")

    def _told(self, what: str) -> int:
        return int(self._state[getattr(self._kernel, what)])

    def run(self, parse: Callable[[Any, Array], None], at: int) -> None:
        """Let a parser fill the sheet from `at` on; if not even one line fits, a larger one."""
        if self._told("ERROR") == self._kernel.FULL:  # the last time
            used = np.array([self._told(what) for what in ("ROWS", "ENTRIES")])
            self._make(np.where(2 * used > self._room, 2 * self._room, self._room))
        while True:
            self._state[self._kernel.AT] = at
            parse(self._sheet, self._state)
            if self._told("ERROR") != self._kernel.FULL or self._told("LINES"):
                return
            self._make(2 * self._room)

    def parsed(self, buffer: Array, in_order: Callable[[Any, int], int] | None = None) -> Parsed:
        """Return copies of the rows; `in_order` brings those in order that share an index or hold a zero."""
        sheet, n_rows, n_entries = self._sheet, self._told("ROWS"), self._told("ENTRIES")
        if self._told("UNTIDY"):
            n_entries = (in_order or self._kernel.sort_rows)(sheet, n_rows)
        rows = RowBlock(
            sheet.indptr[: n_rows + 1].copy(),
            sheet.indices[:n_entries].copy(),
            sheet.data[:n_entries].copy(),
            sheet.y[:n_rows].copy(),
            sheet.c[:n_rows].copy() if self._has_weights else NO_WEIGHTS,
        )
        return Parsed(rows, None, self._told("LINES"), self._told("AT"), self._fault(buffer))

    def qid(self) -> Array:
        """Return a copy of the rows' qid."""
        return np.asarray(self._sheet.qid[: self._told("ROWS")].copy())

    def _fault(self, buffer: Array) -> Fault | None:
        kernel, error, where = self._kernel, self._told("ERROR"), self._told("WHERE")
        if error in (kernel.FINE, kernel.FULL):
            return None
        return Fault(where, f"found {token(buffer, where)}, expected {self._expected(error)}")

    def _expected(self, error: int) -> str:
        kernel = self._kernel
        return {
            kernel.LABEL: "a label, a finite number",
            kernel.FEATURE: "index:value",
            kernel.VALUE: "a finite number",
            kernel.LARGE: f"a number that fits {np.dtype(self._dtype).name}",
            kernel.INDEX: f"an index of at most {2**31 - 1}",
            kernel.ZERO: "an index of at least 1, since zero_based=False",
            kernel.QID: "qid:number, a whole number of up to 18 digits",
            kernel.NO_QID: "a qid, as the rows before have one",
            kernel.EXTRA_QID: "no qid, as the rows before have none",
            kernel.UTF8: "UTF-8",
        }[error]


def token(buffer: Array, at: int) -> str:
    """Return the token at a place of the buffer for an error: to the next blank, and not too long.

    >>> token(np.frombuffer(b"1 3:x 4:1", np.uint8), 4)
    "'x'"
    """
    text = buffer[at : at + SHOWN + 1].tobytes()
    found = re.match(rb"[^ \t\r\n]*", text)
    word = found[0] if found else b""
    if not word:
        return "the end of the line" if text[:1] in (b"\n", b"\r", b"") else "a blank"
    return repr(word[:SHOWN].decode("utf-8", "backslashreplace")) + ("..." if len(word) > SHOWN else "")
