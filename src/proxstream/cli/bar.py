"""A progress bar on a terminal: the last line, drawn again in place, with lines of text above it.

    ━━━━━━━━━╸━━━━━━━━━━━━━━  39% 71,226 rows, 32,835 rows/s, loss 0.22239, ETA 0:00:02

Written out here because rich, which draws such bars, takes 0.1 s to import.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import IO

CELLS, FEWEST = 24, 4  # length of the bar, and on a narrow terminal
SIGNS = ("━", "╸", "╺")  # a cell, its left and its right half
PLAIN_SIGNS = ("-", "-", "-")  # where the encoding has no such signs
ERASE = "\r\x1b[2K"
DONE, LEFT, PERCENT, TIME = "38;5;197", "38;5;237", "35", "36"  # colours


def can_draw(file: IO[str]) -> bool:
    """Return whether a file is a terminal that can erase a line."""
    return file.isatty() and os.environ.get("TERM") != "dumb"


class Bar:
    """A bar with a text and the time left.

    Parameters
    ----------
    file : the terminal
    start, total : int
        How much is done before the first step, and at the end.
    """

    def __init__(self, file: IO[str], start: int, total: int) -> None:
        self._file, self._start, self._total = file, start, total
        self._colours = not os.environ.get("NO_COLOR")
        self._signs = SIGNS if _can_encode("".join(SIGNS), file) else PLAIN_SIGNS
        self._first: tuple[float, int] | None = None
        self._line = ""

    def draw(self, done: int, facts: Sequence[str]) -> None:
        """Draw the bar with as many of the facts as there is room for."""
        share = min(done / self._total, 1.0)
        percent, left = f"{share:4.0%}", clock(self._seconds_left(done))
        room = (os.get_terminal_size(self._file.fileno()).columns or 80) - 1 - len(f" {percent}  {left}")
        texts = (", ".join([*facts[:number], "ETA"]) for number in range(len(facts), 0, -1))
        text = next((text for text in texts if len(text) + FEWEST <= room), "ETA")
        drawn = self._cells(share, max(FEWEST, min(CELLS, room - len(text))))
        self._line = f"{drawn} {self._coloured(percent, PERCENT)} {text} {self._coloured(left, TIME)}"
        self._put(ERASE + self._line)

    def write(self, text: str) -> None:
        """Write a line above the bar."""
        self._put(f"{ERASE}{text}\n{self._line}")

    def erase(self) -> None:
        """Remove the bar."""
        self._put(ERASE)

    def _seconds_left(self, done: int) -> float | None:
        """Return the time left, by the speed since the first step: kernels may be compiled before it ends."""
        now = time.monotonic()
        if self._first is None:
            self._first = (now, done) if done > self._start else None
            return None
        since, before = self._first
        return (self._total - done) * (now - since) / (done - before) if done > before else None

    def _put(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()

    def _cells(self, share: float, cells: int) -> str:
        cell, left_half, right_half = self._signs
        full, half = divmod(round(2 * cells * share), 2)
        done, left = cell * full + left_half * half, cell * (cells - full - half)
        if not self._colours:
            return done.ljust(cells)
        if left and full and not half:
            left = right_half + left[1:]
        return self._coloured(done, DONE) + self._coloured(left, LEFT)

    def _coloured(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours and text else text


def clock(seconds: float | None) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> clock(3725.2), clock(None)
    ('1:02:05', '-:--:--')
    """
    if seconds is None:
        return "-:--:--"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"


def _can_encode(text: str, file: IO[str]) -> bool:
    try:
        text.encode(getattr(file, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
