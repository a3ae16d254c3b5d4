"""Run: what an experiment is given. Its data, its randomness, its processes, and how its progress is shown."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from rich.progress import Progress

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Run:
    """One performance of an experiment.

    A random number depends on the seed and on the key that its generator was asked for by, never on the order of tasks
    or on the number of processes.

    Parameters
    ----------
    data
        The folder of the data, if one was named.
    quick
        A small version, on embedded or generated data.
    seed
        Of all generators.
    jobs
        Processes; 1 stays in this one.

    Examples
    --------
    >>> from proxstream.reproduce import Run
    >>> Run(jobs=1).map(abs, [-1, 2, -3], "making positive")
    [1, 2, 3]
    >>> Run(seed=1).generator(7).random() == Run(seed=1, quick=True).generator(7).random()
    True
    """

    data: Path | None = None
    quick: bool = False
    seed: int = 0
    jobs: int = 2

    def folder(self, name: str) -> Path:
        """Return the folder of one data set: `name` in the data folder if there is one, else the data folder itself."""
        if self.data is None:
            raise ValueError(f"the data of {name!r} are needed: --data names their folder, --quick does without")
        inside = self.data / name
        return inside if inside.is_dir() else self.data

    def map(self, function: Callable[[T], R], tasks: Iterable[T], label: str) -> list[R]:
        """Return function(task) for every task, in order, computed in `jobs` processes with a progress bar.

        The function has to be at the top level of a module, and tasks and results have to pickle. Libraries of
        linear algebra take one thread in each process.
        """
        todo: Sequence[T] = list(tasks)
        workers = min(self.jobs, len(todo))
        if workers <= 1:
            return [function(task) for task in self.track(todo, label)]
        # Forked processes would inherit the locks of the threads of numba, OpenMP and rich.
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin)
        try:
            return list(self.track(pool.map(function, todo), label, len(todo)))
        except BrokenProcessPool:
            raise OSError(
                f"a process of {label!r} was killed, perhaps for want of memory: --jobs 1 takes less"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)

    def track(self, iterable: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
        """Yield what `iterable` yields, with a progress bar on stderr if that is a terminal."""
        if total is None and isinstance(iterable, Sequence):
            total = len(iterable)
        with _bar() as bar:
            yield from bar.track(iterable, total=total, description=label)

    def generator(self, *key: int) -> np.random.Generator:
        """Return the generator of this run's seed and `key`."""
        import numpy as np

        return np.random.default_rng([self.seed, *key])


def _begin() -> None:
    """Keep a process's libraries to one thread, for the processes share the cores, and end it with its parent."""
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)
    # An interrupt reaches all processes at once: these exit silently, the parent reports it.
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    shown = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*shown, console=console, transient=True, disable=not console.is_terminal)
