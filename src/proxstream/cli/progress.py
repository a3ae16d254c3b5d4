"""Progress of a training run: a table, a bar and a summary on stderr, and the same as JSON lines in a file.

The table is the one that users of Vowpal Wabbit know, with lines at rows 1, 2, 4, 8, ... A line costs one scan of the
model; the bar is drawn at most ten times per second.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import IO, TYPE_CHECKING, Any, Self

from . import elapsed
from .bar import Bar, can_draw
from .path_table import path_table

if TYPE_CHECKING:
    from ..data.order import LabelOrder
    from ..training.certified import CertifiedRun
    from ..training.report import Line, Pass
    from ..training.run import BaseRun
    from .page import TrainingPage

METRIC_NAMES = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "rmse": "root mean squared error",
    "pair_accuracy": "pairs in order",
}


class ProgressReport:
    """Reports the progress of a run on stderr and in a file; see `training.run.Watch`.

    Parameters
    ----------
    quiet : bool
        Print nothing on stderr.
    metrics_file : str, optional
        File for JSON lines.
    page : TrainingPage, optional
        The HTML report.
    """

    def __init__(self, quiet: bool, metrics_file: str | None, page: TrainingPage | None = None) -> None:
        self.quiet, self._path, self._page = quiet, metrics_file, page
        self._names: dict[float, str] = {}  # of labels that are texts
        self._table = ProgressTable(sys.stderr)
        self._file: IO[str] | None = None
        self._start = (0, 0)

    def __enter__(self) -> Self:
        if self._path is not None:
            self._file = open(self._path, "a+", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._file is not None:
            from ..io.atomic import named

            with named(self._path or ""):
                self._file.close()

    def note(self, text: str) -> None:
        """Print a line, unless the report is quiet."""
        if not self.quiet:
            self._table.write(text)

    # ---- called by the run

    def on_start(self, run: BaseRun) -> None:
        """Start the table; after a resume, drop metrics from beyond the checkpoint."""
        progress, config = run.session.progress, run.config
        self._names = {number: text for text, number in (config.label_texts or {}).items()}
        self._start = progress.all_rows, progress.n_bytes
        total = None if run.n_bytes is None else run.n_bytes * config.passes
        self._table = ProgressTable(sys.stderr, several=config.passes > 1, total=total, path=config.is_path)
        if self._file is not None:
            session = run.session
            known = {(line.number, line.rows, False) for line in session.lines}
            self._rewind(known | {(ended.number, ended.rows, True) for ended in session.passes})
        if run.resumed and not self.quiet:
            self._table.write(f"resumed after {progress.all_rows:,} rows")
        if self._page is not None:
            self._page.watch(run)
        self._table.start(*self._start, bar=not self.quiet)

    def on_line(self, line: Line, run: BaseRun) -> None:
        """Print a line."""
        from ..training.report import as_record

        progress = run.session.progress
        if not self.quiet:
            self._table.line(line, self._names, progress.all_rows, progress.n_bytes)
        self._json(as_record(line))

    def on_pass(self, ended: Pass, run: BaseRun) -> None:
        """Print the result of a pass, unless the summary says as much."""
        from ..training.report import as_record

        record = as_record(ended)
        held_out = _held_out(record)
        if not self.quiet and (held_out or run.config.passes > 1):
            more = f", held-out loss {held_out}" if held_out else ""
            more += "" if math.isnan(ended.strength) else f" at strength {ended.strength:.3g}"
            self._table.write(f"pass {ended.number}: {ended.rows:,} rows, mean loss {ended.mean_loss:.6f}{more}")
        self._json({"ended": True, **record})

    def on_chunk(self, run: BaseRun) -> None:
        """Update the bar."""
        if not self.quiet:
            progress = run.session.progress
            self._table.update_bar(progress.n_bytes, progress.all_rows, run.session.mean_loss)

    def on_order(self, labels: LabelOrder, run: BaseRun) -> None:
        """Say that rows look ordered, and what to do."""
        buffer = run.config.shuffle_buffer
        more = f"use a --shuffle-buffer above {buffer:,}" if buffer else "shuffle them: --shuffle-buffer ROWS"
        self.note(labels.describe(more))

    def stop(self) -> None:
        """Remove the bar."""
        self._table.stop()

    # ---- the end

    def solved(self, run: CertifiedRun) -> None:
        """Print the history of a batch solver and its certificate."""
        history = run.model().history
        facts = {**run.summary(), "loss": run.config.loss, "bytes": run.n_bytes, "seconds": elapsed()}
        facts |= _written(run.config.output)
        for entry in (*history, {"summary": facts}):
            self._json(entry)
        if not self.quiet:
            rounding = run.solution is not None and run.solution.limited_by_rounding
            self._show_solved(history, facts, rounding=rounding)
        if self._page is not None:
            self._page.write_solved(run, facts)
            self.note(f"report written to {self._page.path}")

    def _show_solved(self, history: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], *, rounding: bool) -> None:
        self._table.write("".join(f"{name:>12}" for name in history[0]))
        for one in history:
            cells = (f"{value:,}" if isinstance(value, int) else f"{value:.6g}" for value in one.values())
            self._table.write("".join(f"{cell:>12}" for cell in cells))
        above = ""
        if not facts["converged"]:
            above = ", above the requested tolerance" + ("; 64-bit numbers prove no less" if rounding else "")
        self._table.summary(
            {
                "rows": _rows(facts),
                "mean loss + penalty": f"{facts['primal']:.8g} ({facts['loss']})",
                "lower bound": f"{facts['dual']:.8g} (relative gap {facts['relative_gap']:.2g}{above})",
                "held-out loss": _held_out(facts),
                "non-zeros": f"{facts['nonzeros']:,} of {facts['weights']:,}",
                "read": f"{facts['bytes'] / 1e6:,.2f} MB",
                "seconds": f"{facts['seconds']:.2f}",
                "model": _model(facts),
            }
        )

    def summary(self, run: BaseRun) -> None:
        """Print the summary."""
        if run.finished:
            facts: dict[str, Any] = {}
            self.note(f"{run.config.output} is up to date, nothing to do")
        else:
            facts = self._facts(run)
            self._json({"summary": facts})
            if not self.quiet:
                self._table.summary(_words(facts, self._names))
                self._show_path(facts, run.remark)
        if self._page is not None:
            self._page.write(run, facts)
            self.note(f"report written to {self._page.path}")

    def _show_path(self, facts: Mapping[str, Any], remark: str) -> None:
        """Print the strengths that were learned, with the chosen one marked."""
        if "path" in facts:
            for line in ("", *path_table(facts["path"], facts["strength"]), *([remark] if remark else [])):
                self._table.write(line)

    def _facts(self, run: BaseRun) -> dict[str, Any]:
        progress, seconds = run.session.progress, self._table.seconds
        return {
            **run.summary,
            "loss": run.config.loss,
            "bytes": progress.n_bytes,
            "seconds": seconds,
            "start_seconds": elapsed() - seconds,
            "rows_per_second": (progress.all_rows - self._start[0]) / max(seconds, 1e-9),
            "megabytes_per_second": (progress.n_bytes - self._start[1]) / max(seconds, 1e-9) / 1e6,
            **_written(run.config.output),
        }

    def _json(self, entry: dict[str, Any]) -> None:
        if self._file is not None:
            if "summary" not in entry:
                entry = {**entry, "seconds": round(self._table.seconds, 6)}
            from ..io.atomic import named

            with named(self._path or ""):
                print(json.dumps(entry), file=self._file, flush=True)

    def _rewind(self, known: set[tuple[int, int, bool]]) -> None:
        """Keep the lines of the file that the session knows: a killed run may have got further than its checkpoint."""
        assert self._file is not None
        self._file.seek(0)
        kept = []
        for text in self._file:
            try:
                record = json.loads(text)
                if (record["pass"], record["rows"], record.get("ended", False)) in known:
                    kept.append(text)
            except (ValueError, KeyError, TypeError):
                continue
        self._file.truncate(0)
        self._file.writelines(kept)


def _words(facts: dict[str, Any], names: Mapping[float, str]) -> dict[str, str]:
    """Return the summary as text."""
    shown = {"rows": _rows(facts), "progressive loss": f"{facts['progressive_loss']:.6f} ({facts['loss']})"}
    if "negative_labels" in facts:
        shown["labels"] = "both -1 and 0 occur; both are read as the negative class"
    if "best_constant" in facts:
        shown["best constant"] = (
            f"{_predicted(facts['best_constant'], names, number)}, loss {facts['best_constant_loss']:.6f}"
        )
    for name, words in METRIC_NAMES.items():
        if name in facts:
            shown[words] = _metric(name, facts[name])
    shown["held-out loss"] = _held_out(facts)
    shown["non-zeros"] = f"{facts['nonzeros']:,} of {facts['weights']:,}"
    if "strength" in facts:
        shown["l1 strength"] = f"{facts['strength']:g}, chosen among {len(facts['path'])}"
    shown["read"] = f"{facts['bytes'] / 1e6:,.2f} MB"
    shown["seconds"] = (
        f"{facts['seconds']:.2f}, plus {facts['start_seconds']:.2f} to start; {facts['rows_per_second']:,.0f} rows/s, "
        f"{facts['megabytes_per_second']:,.1f} MB/s"
    )
    shown["model"] = _model(facts)
    return shown


def _metric(name: str, value: float) -> str:
    return f"{value:.6f}" if name.endswith("rmse") else f"{value:.4f}"


def _held_out(facts: Mapping[str, Any]) -> str:
    """Return the held-out loss and what else is measured; empty without held-out rows.

    >>> _held_out({"held_out_loss": 0.25, "held_out_accuracy": 0.9, "held_out_auc": 0.95})
    '0.250000, accuracy 0.9000, AUC 0.9500'
    """
    if "held_out_loss" not in facts:
        return ""
    names = ((words, f"held_out_{name}") for name, words in METRIC_NAMES.items())
    more = (f", {words} {_metric(name, facts[name])}" for words, name in names if name in facts)
    return f"{facts['held_out_loss']:.6f}" + "".join(more)


def _rows(facts: Mapping[str, Any]) -> str:
    passes, skipped = facts.get("passes", 1), facts["skipped"]
    more = [f" in {passes} passes"] * (passes > 1) + [f", {skipped:,} skipped"] * (skipped > 0)
    return f"{facts['rows']:,}" + "".join(more)


def _written(path: str) -> dict[str, Any]:
    return {"model": path, "model_bytes": os.path.getsize(path)}


def _model(facts: Mapping[str, Any]) -> str:
    return f"{facts['model']}, {facts['model_bytes']:,} bytes"


# ---- the table

REFRESH = 0.1  # seconds between two updates of the bar

COLUMNS = (
    ("rows", 12),
    ("mean loss", 11),
    ("since last", 12),
    ("label", 9),
    ("predicted", 11),
    ("features", 10),
    ("non-zeros", 12),
    ("l1", 9),
    ("rows/s", 11),
    ("MB/s", 8),
)


class ProgressTable:
    """Lines of progress, with a bar on a terminal if the size of the data is known.

    Parameters
    ----------
    file : text file to print to
    several : bool
        Show the pass in a separate column.
    total : int, optional
        Bytes to read in all passes.
    path : bool
        Show the best strength so far, in place of the features of a row.
    """

    def __init__(self, file: IO[str], *, several: bool = False, total: int | None = None, path: bool = False) -> None:
        self._file, self._several, self._total = file, several, total
        columns = [column for column in COLUMNS if column[0] != ("features" if path else "l1")]
        self._columns = columns[: _fitting(file, 4 * several, columns)]
        self._bar: Bar | None = None
        self._drawn = 0.0
        self._headed = False
        self._started: float | None = None
        self._start_rows = self._start_bytes = 0

    def start(self, rows: int = 0, n_bytes: int = 0, *, bar: bool = True) -> None:
        """Start to count time, and rows and bytes from these on, and draw the bar."""
        self._started, self._start_rows, self._start_bytes = time.perf_counter(), rows, n_bytes
        if bar and self._total and can_draw(self._file):
            self._bar = Bar(self._file, n_bytes, self._total)
            self._draw(n_bytes, rows, 0.0, math.nan)

    def line(self, line: Line, names: Mapping[float, str], all_rows: int, n_bytes: int) -> None:
        """Print a line; speeds are means since the start."""
        seconds = max(self.seconds, 1e-9)
        cells = {
            "rows": f"{line.rows:,}",
            "mean loss": decimal(line.mean_loss, 6),
            "since last": decimal(line.since_last, 6),
            "label": names.get(line.label, number(line.label))[:8],
            "predicted": _predicted(line.prediction, names),
            "features": f"{line.features:,}",
            "non-zeros": f"{line.nonzeros:,}",
            "l1": f"{line.strength:.3g}",
            "rows/s": f"{(all_rows - self._start_rows) / seconds:,.0f}",
            "MB/s": f"{(n_bytes - self._start_bytes) / seconds / 1e6:.2f}",
        }
        if not self._headed:
            self._headed = True
            self.write(self._row([name for name, _ in self._columns], "pass"))
        self.write(self._row([cells[name] for name, _ in self._columns], str(line.number)))

    def update_bar(self, n_bytes: int, rows: int, mean_loss: float) -> None:
        """Move the bar."""
        now = time.perf_counter()
        if self._bar is not None and now - self._drawn >= REFRESH:
            self._drawn = now
            speed = (rows - self._start_rows) / max(self.seconds, 1e-9)
            self._draw(n_bytes, rows, speed, mean_loss)

    def _draw(self, n_bytes: int, rows: int, speed: float, mean_loss: float) -> None:
        assert self._bar is not None
        self._bar.draw(n_bytes, (f"{rows:,} rows", f"{speed:,.0f} rows/s", f"loss {_loss(mean_loss)}"))

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.erase()
            self._bar = None

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return 0.0 if self._started is None else time.perf_counter() - self._started

    def write(self, text: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(text)
        else:
            print(text, file=self._file, flush=True)

    def summary(self, facts: Mapping[str, str]) -> None:
        """Print names and values in two columns, those without a value left out."""
        self.stop()
        shown = {name: value for name, value in facts.items() if value}
        width = max(map(len, shown), default=0)
        self.write("")
        for name, value in shown.items():
            self.write(f"{name:<{width}}  {value}")

    def _row(self, cells: Sequence[str], number: str) -> str:
        row = "".join(f" {cell:>{width - 1}}" for cell, (_, width) in zip(cells, self._columns, strict=True))
        return f"{number:>4}{row}" if self._several else row


def _fitting(file: IO[str], taken: int, columns: Sequence[tuple[str, int]] = COLUMNS) -> int:
    """Return how many columns fit a terminal, `taken` characters apart."""
    try:
        room = os.get_terminal_size(file.fileno()).columns - taken
    except (OSError, ValueError):  # not a terminal: all of them
        return len(columns)
    widths = accumulate(width for _, width in columns)
    return sum(width <= room for width in widths) if room > 0 else len(columns)


def number(value: float) -> str:
    """Format a label with up to six digits.

    >>> number(-1.0), number(0.125), number(123456.789)
    ('-1', '0.125', '123457')
    """
    return f"{value:.6g}"


def decimal(value: float, places: int) -> str:
    """Format a number with this many decimals, or with 5 digits if it is large, so that it fits a column.

    >>> decimal(0.25, 4), decimal(-12345.678, 4), decimal(2.5e11, 6)
    ('0.2500', '-12346', '2.5e+11')
    """
    return f"{value:.{places}f}" if not abs(value) >= 1000.0 else f"{value:.5g}"


def _predicted(value: float, names: Mapping[float, str], form: Callable[[float], str] = lambda p: decimal(p, 4)) -> str:
    """Format a prediction; of more than two classes with texts, the text."""
    if math.isnan(value):
        return ""
    return names[value][:10] if len(names) > 2 and value in names else form(value)


def _loss(value: float) -> str:
    return "-" if math.isnan(value) else decimal(value, 5)
