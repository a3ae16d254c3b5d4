"""What a fit tells while it runs: a bar on stderr with rows a second and the progressive loss, when asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int, float], None]  # rows learned just now, progressive loss so far


@contextmanager
def progress(verbose: int, total: int | None) -> Iterator[Tell]:
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

        def tell(rows: int, loss: float) -> None:
            nonlocal done
            done += rows
            bar.update(task, advance=rows, rate=done / max(time.perf_counter() - start, 1e-9), loss=loss)

        yield tell
