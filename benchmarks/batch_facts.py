"""Beside the races of `benchmarks.batch`: two threads, the order of columns, the cost of an epoch, memory."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any

from rich.table import Table

from proxstream.batch import Problem, dispatch as certified

from . import data
from .batch_runs import PATIENCE, run
from .batch_tasks import logistic, ours, problem_of
from .data import Stream

LIMIT = 40.0  # seconds of a run
LONG = 0.5  # seconds of a run from which two threads are to be worth their while
FASTER = 1.6
SEEDS, SPREAD = 10, 2.0  # random orders, and the longest time over the shortest that is allowed


def threads(streams: list[Stream], rounds: int) -> tuple[Table, dict[str, Any], list[str]]:
    """Race two threads against one, to a proved gap of 1e-6."""
    out = Table("", "solver", "1 thread", "2 threads", "times faster", title="Two threads", title_justify="left")
    facts, short = {}, []
    for stream in streams:
        for kind, C in (("l2", 1.0), ("l2", 100.0), ("l2-hinge", 1.0), ("l1", 1.0)):
            problem = problem_of(logistic(stream, kind, C))
            seconds: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(rounds):
                if sum(map(sum, seconds.values())) > PATIENCE:
                    break
                for n_threads in seconds:
                    done = run(partial(ours, problem, 1e-6, n_threads), LIMIT)
                    seconds[n_threads] += [done.seconds] if done else []
            if not all(seconds.values()):
                continue
            one, two = (statistics.median(times) for times in seconds.values())
            name = f"{stream.name}, {kind}, C = {C:g}"
            facts[name] = {"one": seconds[1], "two": seconds[2]}
            out.add_row(name, certified.choose(problem), f"{one:.3g}", f"{two:.3g}", f"{one / two:.2f}")
            if one > LONG and one < FASTER * two:
                short.append(f"{name}: {one / two:.2f}")
    bar = f"two threads {FASTER} times as fast where one takes more than {LONG} s"
    verdict = f"NOT met: {bar} ({'; '.join(short)})" if short else f"met: {bar}"
    return out, facts, [verdict]


def seeds(streams: list[Stream]) -> tuple[Table, dict[str, Any], list[str]]:
    """Measure how much the seconds to a proof of 1e-4 depend on the random order of columns, under L1 at C = 10."""
    title = f"{SEEDS} random orders, l1-logistic, C = 10, to a proof of 0.0001"
    out = Table("", "shortest", "median", "longest", "longest / shortest", title=title, title_justify="left")
    facts: dict[str, list[float]] = {}
    short = []
    for stream in streams:
        problem = problem_of(logistic(stream, "l1", 10.0))
        runs = [run(partial(certified.solve, problem, tol=1e-4, seed=seed), LIMIT) for seed in range(SEEDS)]
        seconds = sorted(done.seconds if done else LIMIT for done in runs)
        facts[stream.name] = seconds
        spread = seconds[-1] / seconds[0]
        figures = seconds[0], statistics.median(seconds), seconds[-1]
        out.add_row(stream.name, *(f"{figure:.3g}" for figure in figures), f"{spread:.2f}")
        if spread > SPREAD:
            short.append(f"{stream.name}: {spread:.2f}")
    bar = f"the longest at most {SPREAD:g} times the shortest"
    return out, facts, [f"NOT met: {bar} ({'; '.join(short)})" if short else f"met: {bar}"]


def epochs(rows: int, rounds: int) -> tuple[Table, dict[str, Any], list[str]]:
    """Measure what an epoch of each solver costs on more and more rows."""
    out = Table("", "non-zeros", "seconds per epoch", "ns per non-zero", title="Cost of an epoch", title_justify="left")
    facts: dict[str, Any] = {}
    for solver in ("sdca", "newton"):
        for part in (4, 2, 1):
            stream = data.zipf(rows // part, 20)
            problem = problem_of(logistic(stream, "l2", 1.0))
            times = []
            for _ in range(rounds):
                done = run(partial(_seconds_an_epoch, problem, solver), LIMIT)
                times += [done.value] if done else []
            if times:
                second = statistics.median(times)
                facts[f"{solver}, {stream.X.nnz:,}"] = times
                out.add_row(solver, f"{stream.X.nnz:,}", f"{second:.3g}", f"{second / stream.X.nnz * 1e9:.2f}")
    return out, facts, []


def _seconds_an_epoch(problem: Problem, solver: str) -> float:
    begun = time.perf_counter()
    solution = certified.solve(problem, solver=solver, tol=1e-15, max_epochs=4)
    return (time.perf_counter() - begun) / max(solution.history[-1].epoch, 1)


def memory(streams: list[Stream]) -> tuple[Table, dict[str, Any], list[str]]:
    """Measure how much memory solving takes beyond the data."""
    heads = ["", "solver", "X, MB", "beyond X, MB", "bytes per non-zero", "bytes per row and feature"]
    out = Table(*heads, title="Memory beyond the data (largest resident size)", title_justify="left")
    facts = {}
    for stream in streams:
        for kind, C in (("l2", 1.0), ("l2", 1000.0), ("l1", 1.0)):
            problem = problem_of(logistic(stream, kind, C))
            rows = problem.rows
            size = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
            done = run(partial(ours, problem, 1e-4), LIMIT)
            if done is None:
                continue
            name, both = f"{stream.name}, {kind}, C = {C:g}", sum(stream.X.shape)
            facts[name] = done.grown
            cells = [f"{size / 1e6:.1f}", f"{done.grown / 1e6:.1f}", f"{done.grown / stream.X.nnz:.1f}"]
            out.add_row(name, certified.choose(problem), *cells, f"{done.grown / both:.1f}")
    return out, facts, []
