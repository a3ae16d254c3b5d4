"""Batch problems to a given accuracy: this library and its peers on the same objective, checked by one yardstick.

    python -m benchmarks batch [--quick] [--svmlight FILE ...]

Who is how fast to a relative sub-optimality of 1e-6? Tolerances mean something else in every package, so each
contestant runs with a loose one first and then tighter ones until its weights are that good, judged by our primal
value against the best value known (ours at a proved relative gap of 1e-9, or lower if anyone finds lower). That
tolerance is then run again, all contestants in turn, and medians are compared (a task of more than 20 seconds has one
run of each). A run that takes ten times as long as ours is cut and shown as ">"; "-" stands for a peer that is not
accurate enough at any tolerance.

Then what the proof costs: ours to a proved relative gap of 1e-4 and 1e-6, beside ours to 1e-6. Then threads, ten random
orders of columns, the cost of an epoch, and memory beyond the data. Under each table stand its bars, met or not;
results are kept after each. Every run is a process of its own, forked when the data are ready; BLAS has one thread. C
is LIBLINEAR's: the weight of a row's loss beside ||w||_1 or ||w||^2 / 2.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_matrix

from proxstream.batch import dispatch as certified

from . import data, harness, peers
from .batch_bars import judge, ratio
from .batch_facts import epochs, memory, seeds, threads
from .batch_runs import PROOFS, TARGET, compare
from .batch_tasks import logistic, plans, problem_of, squared
from .data import Stream

LIMIT, QUICK_LIMIT = 15.0, 4.0  # seconds of a run


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
        best = ratio(found, lambda peer: True)
        bound = all(e.median is None for e in found["entries"][1:])
        times = f"{'> ' if bound else ''}{best:.2f}" if best < math.inf else "none gets there"
        proofs = [f"{s / mine:.2f}" if s and mine else "-" for s in found["proofs"].values()]
        cells = [by_name[n].words() if n in by_name else "" for n in names]
        out.add_row(name, found["solver"], *cells, times, *proofs)
    return out


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
        for part in (1.0, 0.5):
            task = squared(stream, 0.5, part)
            certified.solve(problem_of(task), tol=1e-3, max_epochs=20)
            for make in peers.of(task).values():
                make()(0.1)


class Kept:
    """Tables and figures so far, written to files after each table."""

    def __init__(self, name: str | None) -> None:
        self.name, self.tables, self.figures = name, [], {}  # type: ignore[var-annotated]

    def add(self, title: str, made: Table, figures: Any, verdicts: list[str]) -> None:
        """Show a table with its verdicts, and keep both."""
        made.caption, made.caption_justify = "\n".join(verdicts) or None, "left"
        self.tables.append(made)
        self.figures[title] = {"figures": figures, "bars": verdicts}
        if self.name is None:  # a look, not a result to keep
            Console(width=150).print(made)
        else:
            harness.save(self.name, self.tables, self.figures, show=[made])


def main(arguments: list[str]) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks batch", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="smaller data, fewer strengths, one run of each: 3 minutes"
    )
    parser.add_argument("--rounds", type=int, help="runs of each contestant (3; 1 with --quick)")
    parser.add_argument("--svmlight", nargs="*", default=[], metavar="FILE", help="files to add")
    parser.add_argument(
        "--small", nargs="*", default=[], metavar="FILE", help="files to add to the small and sparse data"
    )
    parser.add_argument("--only", nargs="*", default=[], help="words of the tables' titles to run alone")
    options = parser.parse_args(arguments)
    quick, begun = options.quick, time.perf_counter()
    rounds = options.rounds or (1 if quick else 3)
    streams = (
        [data.one_hot(8_000), data.strokes(2_000), data.zipf(10_000, 17)]
        if quick
        else [data.one_hot(), data.strokes(), data.zipf(100_000, 20)]
    )
    large = [] if quick else [data.zipf(400_000, 20)]
    streams += [data.svmlight(name) for name in options.svmlight]
    small = [data.rare(), data.rare(2_000, 500, 20, 0.2), data.one_hot()]
    small += [data.svmlight(name) for name in options.small]
    warm_up()
    kept = Kept(None if options.only else "batch-quick" if quick else "batch")

    def wanted(title: str) -> bool:
        print(f"{time.perf_counter() - begun:5.0f} s: {title} ...", file=sys.stderr, flush=True)
        return not options.only or any(word in title for word in options.only)

    for plan in plans(streams, large, small, quick):
        if not wanted(plan.title):
            continue
        results = {}
        for name, task in plan.tasks:
            print(f"{time.perf_counter() - begun:5.0f} s:   {name} ...", file=sys.stderr, flush=True)
            results[name] = compare(task, rounds, QUICK_LIMIT if quick else LIMIT)
        figures = {
            name: found | {"entries": {e.name: vars(e) | {"solve": None} for e in found["entries"]}}
            for name, found in results.items()
        }
        verdicts = [verdict.words() for verdict in judge(plan.title, results)]
        kept.add(plan.title, table(plan.title, results), figures, verdicts)
    for title, measure in (
        ("threads", partial(threads, [*streams, *large], rounds)),
        ("seeds", partial(seeds, streams)),
        ("epochs", partial(epochs, 20_000 if quick else 400_000, rounds)),
        ("memory", partial(memory, [*streams, *large])),
    ):
        if wanted(title):
            kept.add(title, *measure())
