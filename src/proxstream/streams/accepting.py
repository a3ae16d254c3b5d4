"""Labels that whoever reads a stream cannot use are faults of their lines, like numbers that cannot be read.

A parser does not know which labels a loss takes; who opens the stream tells. Rows are parsed as ever, and only where a
label among them is not accepted its line is looked for, by parsing fewer and fewer lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._checks import Array
from .base import Accepted
from .text import NEWLINE, Fault, Parsed, no_rows

BLANKS = (9, 13, 32)


class Accepting:
    """A parser of rows whose labels are accepted."""

    def __init__(self, parser: Any, accepted: Accepted) -> None:
        self._parser, self._accepted = parser, accepted
        self._lines = 0  # to parse at once, for a while behind a bad label; 0: all

    def twin(self) -> Accepting | None:
        """Return one for another thread, if the parser can have one."""
        other = self._parser.twin()
        return None if other is None else Accepting(other, self._accepted)

    def in_sequence(self, text: bytearray, at: int, stop: int) -> bool:
        """Tell whether the parser has to know what comes before these lines."""
        minds = getattr(self._parser, "in_sequence", None)
        return minds is not None and bool(minds(text, at, stop))

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse whole lines up to the first row whose label is not accepted."""
        first = at + min(getattr(self._parser, "skip", 0), stop - at)
        if first > at:
            self._parser.parse(buffer, at, first)  # a header, which is passed once
        while True:
            part = _behind(buffer, first, stop, self._lines) if self._lines else stop
            parsed: Parsed = self._parser.parse(buffer, first, part)
            parsed = parsed._replace(lines=parsed.lines + _count(buffer, at, first))
            if not self._accepted.good(parsed.rows.y).all():
                if parsed.rows.n_rows == 1:
                    return self._refused(buffer, at, first, parsed)
                self._lines = max(_count(buffer, first, parsed.at) // 2, 1)
            elif part == stop:
                self._lines = 0
                return parsed
            else:
                self._lines *= 2  # bad labels are often neighbours: all lines at once only after many good ones
                if parsed.fault is None or not parsed.fault.open:
                    return parsed

    def _refused(self, buffer: Array, at: int, first: int, parsed: Parsed) -> Parsed:
        """Return what is parsed before the one row, whose label is its line's fault."""
        self._lines = 1
        ends = list(_line_ends(buffer, first, parsed.at))
        end = next(end for end in ends if self._parser.parse(buffer, first, end).rows.n_rows)
        begins = [begin for begin in (first, *ends) if begin < end]
        begin = next(begin for begin in reversed(begins) if self._parser.parse(buffer, begin, end).rows.n_rows)
        found = "no label" if np.isnan(parsed.rows.y[0]) else f"the label {parsed.rows.y[0]:g}"
        where = getattr(self._parser, "label_place", _first_word)(buffer, begin)
        fault = Fault(where, f"found {found}, expected {self._accepted.words}", end)
        qid = None if parsed.qid is None else parsed.qid[:0]
        return Parsed(no_rows(parsed.rows.data.dtype), qid, _count(buffer, at, begin), begin, fault)


def _line_ends(buffer: Array, at: int, stop: int) -> Iterator[int]:
    return (at + 1 + int(end) for end in np.flatnonzero(buffer[at:stop] == NEWLINE))


def _count(buffer: Array, at: int, stop: int) -> int:
    return int(np.count_nonzero(buffer[at:stop] == NEWLINE))


def _behind(buffer: Array, at: int, stop: int, lines: int) -> int:
    """Return where so many lines end."""
    ends = np.flatnonzero(buffer[at:stop] == NEWLINE)
    return stop if lines >= len(ends) else at + 1 + int(ends[lines - 1])


def _first_word(buffer: Array, at: int) -> int:
    while buffer[at] in BLANKS:
        at += 1
    return at
