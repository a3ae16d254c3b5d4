"""Races of `benchmarks.batch`: runs in processes of their own, at the loosest tolerance that is good enough."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from proxstream.batch import dispatch as certified

from . import peers
from .batch_tasks import ours, problem_of
from .peers import TOLERANCES, Task

TARGET = 1e-6
PROOFS = (1e-4, 1e-6)
CUT = 10.0  # times our seconds: a longer run of a peer is ended
LEAST_LIMIT = 1.0  # seconds
SWEEP = 2.0  # times the limit for all tolerances of one peer together
SHORT, REPEATS = 0.5, 3  # seconds of a run that is repeated, and how often
PATIENCE = 20.0  # seconds of a task, from which on runs are not repeated

fork = multiprocessing.get_context("fork")


@dataclass
class Run:
    """The result of a child process."""

    seconds: float
    value: Any
    grown: float = 0.0  # bytes


def run(work: Callable[[], Any], limit: float) -> Run | None:
    """Return the seconds and the value of work() in a forked process, None if it takes longer than the limit.

    A short one is done some times more, and the first is then not counted: it pays for memory that fork left shared.
    """

    def child(pipe: Any) -> None:
        warnings.filterwarnings("ignore")
        before, seconds = _resident(), []
        while not seconds or (len(seconds) <= REPEATS and sum(seconds) < SHORT):
            begun = time.perf_counter()
            value = work()
            seconds.append(time.perf_counter() - begun)
        pipe.send(Run(statistics.median(seconds[1:] or seconds), value, _peak() - before))
        pipe.close()

    receive, send = fork.Pipe(duplex=False)
    process = fork.Process(target=child, args=(send,))
    process.start()
    send.close()
    try:
        return receive.recv() if receive.poll(limit) else None  # type: ignore[no-any-return]
    except EOFError:  # it died
        return None
    finally:
        process.kill()
        process.join()


def _resident() -> float:
    with open("/proc/self/statm") as file:
        return float(file.read().split()[1]) * resource.getpagesize()


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


@dataclass
class Entry:
    """One contestant on one task."""

    name: str
    solve: peers.Solve
    tol: float | None = None
    seconds: list[float] = field(default_factory=list)
    cut: float | None = None

    @property
    def median(self) -> float | None:
        """The median of the runs at the tolerance that was needed."""
        return statistics.median(self.seconds) if self.seconds else None

    def words(self) -> str:
        """The median, or why there is none."""
        if self.median is not None:
            return f"{self.median:.3g}"
        return "-" if self.cut is None else f"> {self.cut:.2g}"


def sweep(entry: Entry, good: Callable[[Any], bool], limit: float) -> None:
    """Find the loosest tolerance that is good enough; `cut` is what it is known to need more than."""
    spent, longest = 0.0, 0.0
    for tol in TOLERANCES:
        done = run(partial(entry.solve, tol), limit)
        if done is None:
            entry.cut = limit
            return
        if good(done.value):
            entry.tol, entry.seconds = tol, [done.seconds]
            return
        spent, longest = spent + done.seconds, max(longest, done.seconds)
        if spent > SWEEP * limit:  # a tighter tolerance takes no less than the longest so far
            entry.cut = longest
            return


def compare(task: Task, rounds: int, most: float) -> dict[str, Any]:
    """Race everyone on one task; return seconds by name and what the proofs cost. No run takes longer than `most`."""
    begun = time.perf_counter()
    problem = problem_of(task)
    reference = certified.solve(problem, tol=1e-9, max_epochs=10_000)
    known = {"best": reference.primal}

    def good(w: Any) -> bool:
        value = problem.primal(np.asarray(w, dtype=np.float64), 0.0)
        known["best"] = min(known["best"], value)
        return value <= known["best"] * (1.0 + TARGET)

    mine = Entry("ours", partial(ours, problem))
    sweep(mine, good, most)
    limit = min(most, max(LEAST_LIMIT, CUT * (mine.median or most)))
    entries = [mine]
    for name, make in peers.of(task).items():
        entries.append(Entry(name, make()))
        sweep(entries[-1], good, limit)
    proofs: dict[float, list[float]] = {tol: [] for tol in PROOFS}
    for number in range(rounds):
        if number and time.perf_counter() - begun > PATIENCE:
            break
        for entry in entries if number else []:
            if entry.tol is not None:
                done = run(partial(entry.solve, entry.tol), most)
                entry.seconds += [done.seconds] if done else []
        for tol in PROOFS:
            done = run(partial(ours, problem, tol), most)
            proofs[tol] += [done.seconds] if done else []
    return {
        "solver": certified.choose(problem),
        "optimum": known["best"],
        "proved gap of the optimum": reference.history[-1].gap / abs(reference.primal),
        "entries": entries,
        "proofs": {tol: statistics.median(seconds) if seconds else None for tol, seconds in proofs.items()},
    }
