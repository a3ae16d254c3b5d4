"""Prox-SDCA on workers: time and rounds to the same gap as the local solver, and what moves in a round.

Rows are on the workers before the clock starts. A second table counts rounds for more blocks than this machine has
cores, in one process: what a larger cluster would need, without its speed.
"""

from __future__ import annotations

import statistics
import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from rich.table import Table

import proxstream as ps
from proxstream.batch import Problem, sdca
from proxstream.cluster import DaskSDCAClassifier, cocoa
from proxstream.cluster.cocoa_run import LocalEngine, Run
from proxstream.data.rowblock import as_block

from . import data

TOL = 1e-4
REPEATS = {"quick": 1, "default": 2, "full": 3}
WORKERS = (1, 2)
BLOCKS = {"quick": (1, 2, 8), "default": (1, 2, 8), "full": (1, 2, 8, 32)}


def cases(size: str) -> list[tuple[data.Stream, str, Any]]:
    """Return rows, losses and penalties; the hinge, which takes many rounds, of few rows."""
    few, census = data.zipf(20_000, 16), data.one_hot(32_000 if size == "full" else 8_000)
    text = few if size == "quick" else data.zipf(200_000, 18)
    kinked = text if size == "full" else few
    strength = 1.0 / text.X.shape[0]
    return [
        (text, "logistic", ps.L2(strength)),
        (text, "logistic", ps.ElasticNet(strength, strength)),
        (kinked, "hinge", ps.L2(1.0 / kinked.X.shape[0])),
        (census, "logistic", ps.L2(1e-3)),
    ]


def local(stream: data.Stream, loss: str, penalty: Any) -> dict[str, Any]:
    """Solve with the local solver, one thread."""
    problem = Problem(as_block(stream.X, stream.y), stream.X.shape[1], ps.losses.get(loss), penalty)
    begun = time.perf_counter()
    found = sdca.solve(problem, tol=TOL)
    return {"seconds": time.perf_counter() - begun, "rounds": found.history[-1].epoch, "primal": found.primal}


def on_workers(client: Client, stream: data.Stream, loss: str, penalty: Any, max_epochs: int = 1000) -> dict[str, Any]:
    """Solve on as many blocks as there are workers."""
    cuts = np.array_split(np.arange(stream.X.shape[0]), len(client.nthreads()))
    rows = client.scatter([(stream.X[at], stream.y[at]) for at in cuts], hash=False)
    before = _moved(client)
    begun = time.perf_counter()
    model = DaskSDCAClassifier(loss, penalty, tol=TOL, max_epochs=max_epochs, client=client, random_state=0)
    with warnings.catch_warnings(action="ignore"):  # of a run that is cut short, to warm up
        model.fit(rows)
    seconds = time.perf_counter() - begun
    return {
        "seconds": seconds,
        "rounds": model.n_iter_,
        "primal": model.primal_,
        "exchanged": model.history_[-1].bytes,
        "moved": (_moved(client) - before) / (model.n_iter_ + 1),
        "round": statistics.median(b.seconds - a.seconds for a, b in pairwise(model.history_)),
    }


def _moved(client: Client) -> int:
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def rounds(stream: data.Stream, loss: str, penalty: Any, k: int) -> int:
    """Count rounds with k blocks, in this process."""
    whole = as_block(stream.X, stream.y)
    cuts = np.linspace(0, whole.n_rows, k + 1).astype(int)
    blocks = [whole.slice(a, b) for a, b in pairwise(cuts)]
    sums = cocoa.add_sums([cocoa.data_sums(block) for block in blocks])
    job = cocoa.Job(ps.losses.get(loss), penalty, stream.X.shape[1], True, sums.total, k)
    return Run(LocalEngine(), job, blocks, sums, tol=TOL).solve().history[-1].epoch


def measure(size: str = "default") -> tuple[list[Table], dict[str, Any]]:
    """Return tables and figures; `size` is one of `REPEATS`."""
    figures: dict[str, Any] = {}
    todo, repeats = cases(size), REPEATS[size]
    names = [f"{stream.name}; {loss}, {penalty}" for stream, loss, penalty in todo]
    solved: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for workers in (0, *WORKERS):
        if not workers:
            for name, case in zip(names, todo, strict=True):
                solved[name, 0] = [local(*case) for _ in range(repeats + 1)][1:]
            continue
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            for name, case in zip(names, todo, strict=True):
                on_workers(client, *case, max_epochs=2)
                solved[name, workers] = [on_workers(client, *case) for _ in range(repeats)]
    timed = Table(
        "", "solver", "seconds", "times local", "rounds", "seconds per round", "MB exchanged", "MB moved", "primal",
        title=f"Prox-SDCA to a relative gap of {TOL:g}", title_justify="left",
    )  # fmt: skip
    for name in names:
        base = statistics.median(one["seconds"] for one in solved[name, 0])
        for workers in (0, *WORKERS):
            runs = solved[name, workers]
            seconds, last = statistics.median(one["seconds"] for one in runs), runs[-1]
            figures.setdefault(name, {})["local" if not workers else f"{workers} workers"] = last | {"seconds": seconds}
            timed.add_row(
                name if not workers else "",
                "local" if not workers else f"{workers} workers",
                f"{seconds:.2f}",
                f"{seconds / base:.1f}",
                str(last["rounds"]),
                f"{last['round']:.3f}" if workers else "",
                f"{last['exchanged'] / 1e6:.2f}" if workers else "",
                f"{last['moved'] / 1e6:.2f}" if workers else "",
                f"{last['primal']:.6f}",
            )
    counted = Table("rounds with so many blocks", *map(str, BLOCKS[size]), title_justify="left")
    few = todo if size == "full" else cases("quick")
    names = [f"{stream.name}; {loss}, {penalty}" for stream, loss, penalty in few]
    for name, (stream, loss, penalty) in zip(names, few, strict=True):
        found = [rounds(stream, loss, penalty, k) for k in BLOCKS[size]]
        figures.setdefault(name, {})["rounds"] = dict(zip(map(str, BLOCKS[size]), found, strict=True))
        counted.add_row(name, *map(str, found))
    return [timed, counted], figures
