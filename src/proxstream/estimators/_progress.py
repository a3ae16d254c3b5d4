"""Progress of a fit: records of passes for `history_` and callbacks, and a progress bar on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Report = Callable[[int, float], None]  # rows just learned, progressive loss so far


class PassRecord(NamedTuple):
    """One pass over the rows.

    `epoch` numbers the passes from 1 and `rows` counts those of this pass. `progressive_loss` is the mean loss of
    predictions made before each row was learned in this pass: from the second pass on the model has seen the rows
    before. `nnz` counts the weights that are not zero, and `seconds` run from the start of the fit.
    """

    epoch: int
    rows: int
    progressive_loss: float
    nnz: int
    seconds: float


def check_callbacks(callbacks: Any) -> None:
    """Raise a TypeError unless callbacks are None or callables in a list or tuple."""
    if callbacks is not None and not (isinstance(callbacks, (list, tuple)) and all(map(callable, callbacks))):
        raise TypeError(f"callbacks must be None or a list of callables, got {callbacks!r}")


def stops(callbacks: Any, record: Any) -> bool:
    """Call every callback with the record; return whether any of them returned a true value."""
    answers = [callback(record) for callback in callbacks or ()]
    return any(answers)


@contextmanager
def progress(verbose: int, total: int | None) -> Iterator[Report]:
    """Yield a function to call after each block; it does nothing unless `verbose`. An unknown total is None."""
    if not verbose:
        yield lambda rows, loss: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TextColumn(
            "{task.completed:,} rows, {task.fields[rate]:,.0f} rows/s, progressive loss {task.fields[loss]:.5f}"
        ),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, rate=0.0, loss=float("nan"))
        start, done = time.perf_counter(), 0

        def report(rows: int, loss: float) -> None:
            nonlocal done
            done += rows
            bar.update(task, advance=rows, rate=done / max(time.perf_counter() - start, 1e-9), loss=loss)

        yield report
