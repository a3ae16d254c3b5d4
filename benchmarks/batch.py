"""Batch problems to a given accuracy: this library and its peers on the same objective, checked by one yardstick.

    python -m benchmarks batch [--quick] [--svmlight FILE ...]

Who is how fast to a relative sub-optimality of 1e-6? Tolerances mean something else in every package, so each
contestant runs with a loose one first and then tighter ones until its weights are that good, judged by our primal
value against the best value known (ours at a proved relative gap of 1e-9, or lower if anyone finds lower). That
tolerance is then run again, all contestants in turn, and the medians of at least three runs are compared. A run that
takes ten times as long as ours is cut and shown as ">"; "-" stands for a peer that is not accurate enough at any
tolerance.

Then what the proof costs: ours to a proved relative gap of 1e-4 and 1e-6, beside ours to 1e-6. Then threads, the cost
of an epoch, and memory beyond the data. Every run is a process of its own, forked when the data are ready; BLAS has one
thread. C is LIBLINEAR's: the weight of a row's loss beside ||w||_1 or ||w||^2 / 2.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_matrix

import proxstream as ps
from proxstream.batch import Problem, certified
from proxstream.blocks import as_block

from . import data, harness, peers
from .data import Stream
from .peers import TOLERANCES, Task

TARGET = 1e-6
PROOFS = (1e-4, 1e-6)
CUT = 10.0  # times our seconds
LEAST_LIMIT, LIMIT = 2.0, 40.0  # seconds
QUICK_LIMIT = 4.0
SHORT, REPEATS = 0.5, 3  # seconds of a run that is repeated, and how often

fork = multiprocessing.get_context("fork")


# -- runs ------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What a child process tells."""

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


# -- contestants -----------------------------------------------------------------------------------


def problem_of(task: Task) -> Problem:
    """Return the task as our solvers take it."""
    penalty = ps.ElasticNet(task.l1, task.l2) if task.l1 and task.l2 else ps.L1(task.l1) if task.l1 else ps.L2(task.l2)
    problem = Problem(as_block(task.X, task.y), task.X.shape[1], ps.losses.get(task.loss), penalty, fit_intercept=False)
    _ = problem.shares
    return problem


def ours(problem: Problem, tol: float, n_threads: int = 1) -> Any:
    """Return our weights."""
    return certified.solve(problem, tol=tol, max_epochs=10_000, n_threads=n_threads).coef


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
    """Find the loosest tolerance that is good enough."""
    for tol in TOLERANCES:
        done = run(partial(entry.solve, tol), limit)
        if done is None:
            entry.cut = limit
            return
        if good(done.value):
            entry.tol, entry.seconds = tol, [done.seconds]
            return


def compare(task: Task, rounds: int, most: float) -> dict[str, Any]:
    """Race everyone on one task; return seconds by name and what the proofs cost."""
    problem = problem_of(task)
    reference = certified.solve(problem, tol=1e-9, max_epochs=10_000)
    best = reference.primal
    known = {"best": best}

    def good(w: Any) -> bool:
        value = problem.primal(np.asarray(w, dtype=np.float64), 0.0)
        known["best"] = min(known["best"], value)
        return value <= known["best"] * (1.0 + TARGET)

    mine = Entry("ours", partial(ours, problem))
    sweep(mine, good, most)
    limit = min(most, max(LEAST_LIMIT, CUT * (mine.median or most)))
    entries = [mine]
    for name, make in peers.of(task).items():
        entry = Entry(name, make())
        sweep(entry, good, limit)
        entries.append(entry)
    proofs: dict[float, list[float]] = {tol: [] for tol in PROOFS}
    for _ in range(rounds - 1):
        for entry in entries:
            if entry.tol is not None:
                done = run(partial(entry.solve, entry.tol), LIMIT)
                entry.seconds += [done.seconds] if done else []
    for _ in range(rounds):
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


# -- tasks -----------------------------------------------------------------------------------------


def numeric(stream: Stream, seed: int = 0) -> np.ndarray:
    """Labels for regression: a sparse linear model and noise."""
    rng = np.random.default_rng(seed)
    d = stream.X.shape[1]
    z = stream.X @ (rng.standard_normal(d) * (rng.random(d) < max(0.05, 4.0 / d)))
    return np.asarray((z + z.std() * rng.standard_normal(len(z))) / z.std(), dtype=np.float64)


@dataclass
class Plan:
    """A group of tasks that make one table."""

    title: str
    tasks: list[tuple[str, Task]] = field(default_factory=list)


def logistic(stream: Stream, kind: str, C: float) -> Task:
    """Return a task with a binary loss; the penalty's weight is 1/C beside the sum of losses."""
    lam = 1.0 / (C * stream.X.shape[0])
    loss = "hinge" if kind == "l2-hinge" else "logistic"
    l1, l2 = {"l2": (0.0, lam), "l1": (lam, 0.0), "en": (0.5 * lam, 0.5 * lam)}[kind[:2]]
    return Task(stream.X, stream.y, loss, l1, l2)


def squared(stream: Stream, part: float, ratio: float) -> Task:
    """Return a lasso (ratio 1) or elastic net whose l1 is a part of the strength that leaves no weight."""
    y = numeric(stream)
    largest = float(np.abs(stream.X.T @ y).max()) / len(y)
    return Task(stream.X, y, "squared", part * largest * ratio, part * largest * (1.0 - ratio))


def plans(streams: list[Stream], large: list[Stream], quick: bool) -> Iterator[Plan]:
    """Yield the tables' tasks; `large` data have one strength each."""
    few = (1.0,) if quick else (1.0, 30.0)
    yield Plan(
        "l2-logistic",
        [(f"{s.name}, C = {C:g}", logistic(s, "l2", C)) for s in streams for C in few]
        + [(f"{s.name}, C = 1", logistic(s, "l2", 1.0)) for s in large],
    )
    yield Plan(
        "l2-hinge",
        [(f"{s.name}, C = {C:g}", logistic(s, "l2-hinge", C)) for s in streams for C in few]
        + [(f"{s.name}, C = 1", logistic(s, "l2-hinge", 1.0)) for s in large],
    )
    many = (1.0, 10.0) if quick else (0.3, 1.0, 10.0, 30.0)
    yield Plan(
        "l1-logistic",
        [(f"{s.name}, C = {C:g}", logistic(s, "l1", C)) for s in streams for C in many]
        + [(f"{s.name}, C = 1", logistic(s, "l1", 1.0)) for s in large],
    )
    yield Plan("elastic net, equal parts, logistic", [(f"{s.name}, C = 1", logistic(s, "en", 1.0)) for s in streams])
    parts = (0.1,) if quick else (0.1, 0.01)
    yield Plan(
        "squared loss: the lasso, and the elastic net in equal parts",
        [
            (f"{s.name}, {word}, l1 {part:g} of the largest", squared(s, part, ratio))
            for s in streams
            for word, ratio in (("lasso", 1.0), ("elastic net", 0.5))
            for part in parts
        ],
    )


def table(title: str, results: dict[str, dict[str, Any]]) -> Table:
    """Return seconds to 1e-6 by contestant, the best peer's as a multiple of ours, and what proofs cost."""
    names = list(dict.fromkeys(entry.name for found in results.values() for entry in found["entries"]))
    heads = ["", "solver", *names, "best peer / ours", *(f"proof {tol:g} / ours" for tol in PROOFS)]
    out = Table(*heads, title=f"{title}: seconds to a relative sub-optimality of {TARGET:g}", title_justify="left")
    for column in out.columns[1:]:
        column.justify = "right"
    for name, found in results.items():
        by_name = {entry.name: entry for entry in found["entries"]}
        mine = by_name["ours"].median
        reached = [e.median for e in found["entries"][1:] if e.median is not None]
        bounds = [e.cut for e in found["entries"][1:] if e.cut is not None]
        ratio = ""
        if mine is not None and reached:
            ratio = f"{min(reached) / mine:.2f}"
        elif mine is not None and bounds:
            ratio = f"> {min(bounds) / mine:.1f}"
        proofs = [f"{s / mine:.2f}" if s and mine else "-" for s in found["proofs"].values()]
        cells = [by_name[n].words() if n in by_name else "" for n in names]
        out.add_row(name, found["solver"], *cells, ratio, *proofs)
    return out


# -- threads, epochs, memory -----------------------------------------------------------------------


def threads(streams: list[Stream], rounds: int) -> tuple[Table, dict[str, Any]]:
    """Race two threads against one, to a proved gap of 1e-6."""
    out = Table("", "solver", "1 thread", "2 threads", "times faster", title="Two threads", title_justify="left")
    facts = {}
    for stream in streams:
        for kind, C in (("l2", 1.0), ("l2", 100.0), ("l2-hinge", 1.0), ("l1", 1.0)):
            problem = problem_of(logistic(stream, kind, C))
            seconds: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(rounds):
                for n_threads in seconds:
                    done = run(partial(ours, problem, 1e-6, n_threads), LIMIT)
                    seconds[n_threads] += [done.seconds] if done else []
            if not all(seconds.values()):
                continue
            one, two = (statistics.median(times) for times in seconds.values())
            name = f"{stream.name}, {kind}, C = {C:g}"
            facts[name] = {"one": seconds[1], "two": seconds[2]}
            out.add_row(name, certified.choose(problem), f"{one:.3g}", f"{two:.3g}", f"{one / two:.2f}")
    return out, facts


def epochs(rows: int, rounds: int) -> tuple[Table, dict[str, Any]]:
    """Tell what an epoch of each solver costs on more and more rows."""
    out = Table("", "non-zeros", "seconds an epoch", "ns a non-zero", title="Cost of an epoch", title_justify="left")
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
    return out, facts


def _seconds_an_epoch(problem: Problem, solver: str) -> float:
    begun = time.perf_counter()
    solution = certified.solve(problem, solver=solver, tol=1e-15, max_epochs=4)
    return (time.perf_counter() - begun) / max(solution.history[-1].epoch, 1)


def memory(streams: list[Stream]) -> tuple[Table, dict[str, Any]]:
    """Tell how much memory solving takes beyond the data."""
    heads = ["", "solver", "X, MB", "beyond X, MB", "bytes a non-zero", "bytes a row and feature"]
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
    return out, facts


def warm_up() -> None:
    """Compile and load everything, so that forked runs find it."""
    rng = np.random.default_rng(0)
    for n, d in ((60, 5), (40, 3000)):
        X = csr_matrix(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5), dtype=np.float32)
        stream = Stream("", X, np.where(rng.random(n) < 0.5, 1.0, -1.0))
        for kind in ("l2", "l2-hinge", "l1", "en"):
            for C in (0.01, 1.0, 100.0):
                task = logistic(stream, kind, C)
                certified.solve(problem_of(task), tol=1e-3, max_epochs=20)
                certified.solve(problem_of(task), tol=1e-3, max_epochs=20, n_threads=2)
                for make in peers.of(task).values():
                    make()(0.1)
        for ratio in (1.0, 0.5):
            task = squared(stream, 0.5, ratio)
            certified.solve(problem_of(task), tol=1e-3, max_epochs=20)
            for make in peers.of(task).values():
                make()(0.1)


def main(arguments: list[str]) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks batch", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="smaller data, fewer strengths, one run of each: 3 minutes"
    )
    parser.add_argument("--rounds", type=int, help="runs of each contestant (3; 1 with --quick)")
    parser.add_argument("--svmlight", nargs="*", default=[], metavar="FILE", help="files to add")
    parser.add_argument("--only", nargs="*", default=[], help="words of the tables' titles to run alone")
    options = parser.parse_args(arguments)
    quick = options.quick
    rounds = options.rounds or (1 if quick else 3)
    streams = (
        [data.one_hot(8_000), data.strokes(2_000), data.zipf(10_000, 17)] if quick else [data.one_hot(), data.strokes()]
    )
    large = [] if quick else [data.zipf(400_000, 20)]
    streams += [] if quick else [data.zipf(100_000, 20)]
    streams += [data.svmlight(name) for name in options.svmlight]
    warm_up()
    tables, figures = [], {}

    def wanted(title: str) -> bool:
        return not options.only or any(word in title for word in options.only)

    for plan in plans(streams, large, quick):
        if not wanted(plan.title):
            continue
        results = {}
        for name, task in plan.tasks:
            print(f"{plan.title}: {name} ...", file=sys.stderr, flush=True)
            results[name] = compare(task, rounds, QUICK_LIMIT if quick else LIMIT)
        tables.append(table(plan.title, results))
        figures[plan.title] = {
            name: found | {"entries": {e.name: vars(e) | {"solve": None} for e in found["entries"]}}
            for name, found in results.items()
        }
    for title, measure in (
        ("threads", partial(threads, streams, rounds)),
        ("epochs", partial(epochs, 20_000 if quick else 400_000, rounds)),
        ("memory", partial(memory, [*streams, *large])),
    ):
        if wanted(title):
            print(f"{title} ...", file=sys.stderr, flush=True)
            one, figures[title] = measure()
            tables.append(one)
    if options.only:  # a look, not a result to keep
        for one in tables:
            Console(width=150).print(one)
    else:
        harness.save("batch-quick" if quick else "batch", tables, figures)
