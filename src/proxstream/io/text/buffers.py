"""The arrays that a compiled parser fills, reused for each piece of text; rows are copied out of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.records import NamedTuple
from ...core.validation import Array
from ...data.rowblock import RowBlock
from ..types import ALL_FEATURES, Settings
from .reader import BadRow, Parsed, shown

ROOM = 1 << 10  # rows and entries that always fit; whatever does not suffice is doubled
SHOWN = 40  # bytes of a token in an error


class Wants(NamedTuple):
    """Which arrays a parser fills, beside entries and labels."""

    hashes: bool = False  # indices are hashes, which come in any order
    weights: bool = False
    qid: bool = False
    spans: bool = False


class ParseBuffers:
    """The arrays of a parser and its progress."""

    def __init__(self, settings: Settings, wants: Wants, mode: int = 0) -> None:
        from . import _lines as lines

        self._kernel: Any = lines
        self._settings, self._dtype, self._wants = settings, settings.dtype, wants
        self._state = np.zeros(lines.STATE, np.int64)
        self._state[lines.MODE] = mode
        self._make(np.array([settings.chunk_bytes // 32, settings.chunk_bytes // 8]) + ROOM)

    def _make(self, room: Array) -> None:
        """Allocate room for so many rows and entries."""
        self._room, wants = room, self._wants
        n_rows, n_entries = (int(n) for n in room)
        self._arrays = self._kernel.ParseBuffer(
            np.empty(n_rows + 1, np.int64 if wants.hashes else np.int32),
            np.empty(n_entries, np.uint32 if wants.hashes else np.int32),
            np.empty(n_entries, self._dtype),
            np.empty(n_rows),
            np.empty(n_rows * wants.weights),
            np.empty(n_rows * wants.qid, np.int64),
            *np.empty((3, n_entries * wants.spans), np.int32),
        )

    def report(self, what: str) -> int:
        """Return what the parser left in its state."""
        return int(self._state[getattr(self._kernel, what)])

    def set_mode(self, mode: int) -> None:
        """Set the mode of the parser."""
        self._state[self._kernel.MODE] = mode

    def run(self, parse: Callable[[Any, Array], None], at: int) -> int:
        """Let a parser fill the arrays from `at` on, larger ones if not even one line fits; return its error code."""
        if self.report("ERROR") == self._kernel.FULL:  # the last time
            used = np.array([self.report(what) for what in ("ROWS", "ENTRIES")])
            self._make(np.where(2 * used > self._room, 2 * self._room, self._room))
        while True:
            self._state[self._kernel.AT] = at
            parse(self._arrays, self._state)
            if self.report("ERROR") != self._kernel.FULL or self.report("LINES"):
                return self.report("ERROR")
            self._make(2 * self._room)

    def sort(self) -> None:
        """Sort rows whose indices do not increase, and sum duplicates."""
        if self.report("UNTIDY"):
            self._state[self._kernel.ENTRIES] = self._kernel.sort_rows(self._arrays, self.report("ROWS"))

    def filled(self) -> Any:
        """Return the part of the arrays that was filled, valid until the next run."""
        rows, entries = self.report("ROWS"), self.report("ENTRIES")
        full = self._arrays
        by_entry = {name: getattr(full, name)[:entries] for name in ("indices", "data", "terms", "starts", "stops")}
        by_row = {name: getattr(full, name)[:rows] for name in ("y", "c", "qid")}
        return full._replace(indptr=full.indptr[: rows + 1], **by_row, **by_entry)

    def parsed(self, rows: RowBlock, qid: Array | None, buffer: Array) -> Parsed:
        """Return the rows with where parsing stopped and why."""
        return Parsed(rows, qid, self.report("LINES"), self.report("AT"), self._bad_row(buffer))

    def _bad_row(self, buffer: Array) -> BadRow | None:
        kernel, error, where = self._kernel, self.report("ERROR"), self.report("WHERE")
        if error in (kernel.FINE, kernel.FULL, kernel.NEW_NAMESPACE):
            return None
        return BadRow(where, f"found {token(buffer, where)}, expected {self._expected(error)}")

    def _expected(self, error: int) -> str:
        kernel = self._kernel
        return {
            kernel.LABEL: "a label, a finite number",
            kernel.FEATURE: "index:value",
            kernel.VALUE: "a finite number",
            kernel.LARGE: f"a number that fits {np.dtype(self._dtype).name}",
            kernel.INDEX: highest_in_words(self._settings),
            kernel.ZERO: "an index of at least 1, since indices count from 1",
            kernel.QID: "qid:number, a whole number of up to 18 digits",
            kernel.NO_QID: "a qid, as the rows before have one",
            kernel.EXTRA_QID: "no qid, as the rows before have none",
            kernel.UTF8: "UTF-8",
            kernel.WEIGHT: "a weight, a finite number >= 0",
            kernel.BASE: "no base other than 0",
            kernel.TAG: "a bar after the tag",
            kernel.GLUED: "a blank between the label and the bar",
            kernel.NO_BAR: "a bar before the features",
            kernel.NAME: "the name of a feature",
        }[error]


def highest_in_words(settings: Settings) -> str:
    """Return which indices are accepted, for an error.

    >>> highest_in_words(Settings(max_features=1000)), highest_in_words(Settings())
    ('an index of at most 999, as max-features is 1000', 'an index of at most 2147483647')
    """
    if settings.max_features >= ALL_FEATURES:
        return f"an index of at most {ALL_FEATURES - 1}"
    highest = settings.max_features - settings.zero_based
    return f"an index of at most {highest}, as max-features is {settings.max_features}"


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
    return shown(word, SHOWN)
