"""What training shows on stderr: a table that grows as it learns, a bar on a terminal, a summary at the end.

The table is the one that users of Vowpal Wabbit know, at rows 1, 2, 4, 8, ... A line costs one look at the model; the
bar is drawn ten times a second at most.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..training import Line

REFRESH = 0.1  # seconds between two looks of the bar

COLUMNS = (
    ("rows", 12),
    ("mean loss", 11),
    ("since last", 12),
    ("label", 9),
    ("predicted", 11),
    ("features", 10),
    ("non-zeros", 12),
    ("rows/s", 11),
    ("MB/s", 8),
)


class Table:
    """Lines of progress, under a bar if there is a terminal and the size is known.

    Parameters
    ----------
    file : where it goes
    several : bool
        Tell the pass in a column of its own.
    total : int, optional
        Bytes to be read in all passes.
    """

    def __init__(self, file: IO[str], *, several: bool = False, total: int | None = None) -> None:
        self._file, self._several, self._total = file, several, total
        self._columns = COLUMNS[: _fitting(file, 4 * several)]
        self._bar: Any = None
        self._task: Any = None
        self._drawn = 0.0
        self._headed = False
        self._began: float | None = None
        self._begin_rows = self._begin_bytes = 0

    def start(self, rows: int = 0, n_bytes: int = 0, *, bar: bool = True) -> None:
        """Begin to count time and rows, of a resumed run from these on, and draw the bar if it is wanted."""
        self._began, self._begin_rows, self._begin_bytes = time.perf_counter(), rows, n_bytes
        if bar and self._total and self._file.isatty():
            self._bar, self._task = _bar(self._file, self._total)
            self._bar.start()
            self._bar.update(self._task, completed=n_bytes)

    def line(self, line: Line, all_rows: int, n_bytes: int) -> None:
        """Show a line; speeds are those since the start."""
        seconds = max(self.seconds, 1e-9)
        cells = (
            f"{line.rows:,}",
            decimal(line.mean_loss, 6),
            decimal(line.since_last, 6),
            number(line.label),
            "" if math.isnan(line.prediction) else decimal(line.prediction, 4),
            f"{line.features:,}",
            f"{line.nonzeros:,}",
            f"{(all_rows - self._begin_rows) / seconds:,.0f}",
            f"{(n_bytes - self._begin_bytes) / seconds / 1e6:.2f}",
        )
        if not self._headed:
            self._headed = True
            self.write(self._row([name for name, _ in self._columns], "pass"))
        self.write(self._row(cells, str(line.number)))

    def moved(self, n_bytes: int, rows: int, mean_loss: float) -> None:
        """Let the bar stand at so many bytes."""
        now = time.perf_counter()
        if self._bar is not None and now - self._drawn >= REFRESH:
            self._drawn = now
            speed = (rows - self._begin_rows) / max(self.seconds, 1e-9)
            self._bar.update(self._task, completed=n_bytes, rows=rows, speed=speed, loss=_loss(mean_loss), refresh=True)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return 0.0 if self._began is None else time.perf_counter() - self._began

    def write(self, text: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self._file, flush=True)

    def summary(self, facts: Mapping[str, str]) -> None:
        """Show names and values in two columns."""
        self.stop()
        width = max(map(len, facts), default=0)
        self.write("")
        for name, value in facts.items():
            self.write(f"{name:<{width}}  {value}")

    def _row(self, cells: Sequence[str], number: str) -> str:
        row = "".join(f" {cell:>{width - 1}}" for cell, (_, width) in zip(cells, self._columns, strict=False))
        return f"{number:>4}{row}" if self._several else row


def _fitting(file: IO[str], taken: int) -> int:
    """Return how many columns a terminal has room for beside what is taken; the bar tells the speed, too."""
    try:
        room = os.get_terminal_size(file.fileno()).columns - taken
    except (OSError, ValueError):  # no terminal: all of them
        return len(COLUMNS)
    widths = accumulate(width for _, width in COLUMNS)
    return sum(width <= room for width in widths) if room > 0 else len(COLUMNS)


def number(value: float) -> str:
    """Return a label as short as it can be told.

    >>> number(-1.0), number(0.125), number(123456.789)
    ('-1', '0.125', '123457')
    """
    return f"{value:.6g}"


def decimal(value: float, places: int) -> str:
    """Return a number with so many decimals, or in 5 digits if it is large, so that it fits a column.

    >>> decimal(0.25, 4), decimal(-12345.678, 4), decimal(2.5e11, 6)
    ('0.2500', '-12346', '2.5e+11')
    """
    return f"{value:.{places}f}" if not abs(value) >= 1000.0 else f"{value:.5g}"


def _loss(value: float) -> str:
    return "-" if math.isnan(value) else decimal(value, 5)


def _bar(file: IO[str], total: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[speed]:,.0f} rows/s, loss {task.fields[loss]}, ETA"),
        TimeRemainingColumn(),
        console=Console(file=file),
        auto_refresh=False,
        transient=True,
    )
    return bar, bar.add_task("", total=total, rows=0, speed=0.0, loss=_loss(math.nan))
