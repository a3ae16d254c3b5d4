"""Learning in lanes on Dask: speed with one and two workers, what staleness costs, and 100 workers on paper.

    python -m benchmarks cluster [--full | --quick]

1. Rows per second and bytes per round of one and of two worker processes on this machine, which take turns. Partitions
   are in the workers' memory and are read several times, so that learning and merging are timed, not reading files.
   Rounds are those that `DaskStreamClassifier` chooses itself.
2. Held-out and progressive loss with 1, 2, 4 and 8 lanes and with rounds of different sizes: lanes are what staleness
   depends on, so two processes play all of them.
3. What 1 to 100 workers would take, from the costs measured in 1: see `on_paper`.
4. Prox-SDCA on workers, to the local solver's gap: see `cluster_sdca`.

Results are kept after each part. By default all of it takes about four minutes on two idle cores; --full takes more
rows and repeats, --quick is for trying and keeps nothing.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from contextlib import ExitStack
from typing import Any, NamedTuple

import dask
import numpy as np
from distributed import Client, LocalCluster, wait
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_matrix

import proxstream as ps
from proxstream.cluster import DaskStreamClassifier
from proxstream.cluster.client import FANOUT, PATIENT
from proxstream.data.rowblock import as_block
from proxstream.learner import merge as sums
from proxstream.learner.learner import Learner

from . import cluster_sdca, harness

BITS, PER_ROW, ROWS = 18, 40, 100_000  # features, non-zeros per row, rows per partition
NETWORK = 1.25e9  # bytes per second: 10 Gbit/s


def partition(k: int, rows: int = ROWS) -> tuple[csr_matrix, np.ndarray]:
    """Return partition k of one endless stream: frequencies of features fall like a power of their rank."""
    rng, d = np.random.default_rng([1, k]), 1 << BITS
    indices = np.sort((d * rng.random((rows, PER_ROW)) ** 3).astype(np.int32), axis=1)
    data = np.full(indices.size, 1 / math.sqrt(PER_ROW), np.float32)
    X = csr_matrix((data, indices.ravel(), np.arange(0, indices.size + 1, PER_ROW, dtype=np.int32)), shape=(rows, d))
    X.sum_duplicates()
    truth = np.random.default_rng(0).standard_normal(d).astype(np.float32) * 3
    return X, (X @ truth + rng.standard_normal(rows) > 0).astype(np.int64)


def held(client: Client, n: int) -> list[Any]:
    """Return partitions in the workers' memory, those of a lane on the worker where it runs."""
    homes = sorted(client.nthreads())
    futures = [client.submit(partition, k, workers=[homes[k % len(homes)]], pure=False) for k in range(n)]
    with client.as_current():
        wait(futures)
    return futures


class Size(NamedTuple):
    """How much is measured: partitions, passes and repeats of speed; partitions and rounds of losses."""

    parts: int
    passes: int
    repeats: int
    loss_parts: int
    loss_rounds: tuple[int, ...]


SIZES = {
    "quick": Size(4, 2, 1, 2, (1 << 17,)),
    "default": Size(10, 8, 4, 8, (1 << 14, 1 << 17, 1 << 20)),
    "full": Size(20, 8, 6, 16, (1 << 14, 1 << 16, 1 << 18, 1 << 20)),
}


def speeds(size: Size) -> list[dict[str, Any]]:
    """Return rows per second and bytes per round of one and of two worker processes, measured in turn."""
    workers = (1, 2)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(PATIENT))
        clients, parts, models = {}, {}, {}
        for n in workers:
            cluster = stack.enter_context(LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0"))
            clients[n] = stack.enter_context(Client(cluster, set_as_default=False))
            parts[n] = held(clients[n], size.parts)
        seconds: dict[int, list[float]] = {n: [] for n in workers}
        for i in range(size.repeats + 1):
            for n in workers:
                model = DaskStreamClassifier(lanes=n, passes=size.passes if i else 1, client=clients[n])
                begun = time.perf_counter()
                model.fit(parts[n], classes=[0, 1])
                if i:
                    seconds[n].append(time.perf_counter() - begun)
                    models[n] = model
    return [_speed(n, models[n], seconds[n]) for n in workers]


def _speed(workers: int, model: DaskStreamClassifier, seconds: list[float]) -> dict[str, Any]:
    largest = max(one.rows for one in model.rounds_)
    full = [one for one in model.rounds_ if one.rows == largest]
    return {
        "workers": workers,
        "rows_per_second": model.t_ / statistics.median(seconds),
        "seconds": seconds,
        "rounds": len(model.rounds_),
        "rows_a_round": largest,
        "seconds_a_round": statistics.median(one.seconds for one in full),
        "bytes_per_round": statistics.mean(one.sent for one in full),
        "progressive_loss": model.progressive_loss_,
    }


def ratio_of(found: list[dict[str, Any]]) -> tuple[float, float]:
    """Return how many times as fast two workers are as one, over a whole run and in its long rounds."""
    one, two = found
    whole = statistics.median(a / b for a, b in zip(one["seconds"], two["seconds"], strict=True))
    rate = [each["rows_a_round"] / each["seconds_a_round"] for each in found]
    return whole, rate[1] / rate[0]


def staleness(client: Client, n_parts: int, rounds: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return losses by lanes and rows per round."""
    parts, (X, y) = held(client, n_parts), partition(10_000)
    found = []
    for algorithm in (ps.AutoFTRL(scale="feature"), ps.FTRLProximal(alpha=0.5)):
        for lanes in (1, 2, 4, 8):
            for rows in rounds if lanes > 1 else rounds[-1:]:
                model = DaskStreamClassifier(algorithm, lanes=lanes, rows_per_round=rows, client=client)
                model.fit(parts, classes=[0, 1])
                p = model.predict_proba(X)[np.arange(len(y)), y]
                found.append(
                    {
                        "algorithm": type(algorithm).__name__,
                        "lanes": lanes,
                        "rows_per_round": rows,
                        "progressive_loss": model.progressive_loss_,
                        "held_out_loss": float(-np.log(np.maximum(p, 1e-15)).mean()),
                    }
                )
    return found


class Costs(NamedTuple):
    """Measured here, on one core: seconds per row, and a changed feature's bytes and seconds to find, add and apply."""

    row: float
    cell_bytes: float
    find: float
    add: float
    apply: float


def costs() -> tuple[Costs, dict[int, int]]:
    """Return what learning and adding cost, and how many features change in so many rows."""
    X, y = partition(0)
    block = as_block(X, 2.0 * y - 1.0)._replace(c=np.full(ROWS, 2.0))
    learner = Learner(ps.AutoFTRL(scale="feature"), n_features=1 << BITS, dtype=np.float32)
    took: dict[str, list[float]] = {"row": [], "find": [], "add": [], "apply": []}
    for i in range(4):
        marks = [time.perf_counter()]
        start = sums.before(learner.engine, sums.touched(1 << BITS, [block.indices]))
        learner.learn(block)
        marks.append(time.perf_counter())
        changes = sums.withdraw(learner.engine, start, 2)
        marks.append(time.perf_counter())
        both = sums.add([changes, changes])
        marks.append(time.perf_counter())
        sums.apply(learner.engine, both)
        marks.append(time.perf_counter())
        if i:
            for name, a, b in zip(took, marks, marks[1:], strict=False):
                took[name].append(b - a)
    n = len(changes.cells)
    median = {name: statistics.median(values) for name, values in took.items()}
    changed = {rows: len(np.unique(X.indices[: X.indptr[rows]])) for rows in (1000, 5000, 20_000, 50_000, ROWS)}
    return Costs(
        median["row"] / ROWS, changes.n_bytes / n, median["find"] / n, median["add"] / (2 * n), median["apply"] / n
    ), changed


def on_paper(cost: Costs, latency: float, workers: int, rows: int) -> dict[str, float]:
    """Return what a round of so many workers would take.

    A worker learns its share of the rows and finds its changes. They are added FANOUT at a time, level by level; a
    feature that a stream changes with probability 1 - (1 - q)^n is met by more workers the higher the level. The sum
    goes to all workers by copies of copies, in log2 steps, and is applied. `latency` is what a round takes beside.
    """
    share = rows / workers
    seconds = share * cost.row + latency
    cells = features_of(share)
    seconds += cells * cost.find
    sent, merged, width = workers * cells * cost.cell_bytes, cells, share
    left = workers
    while left > 1:
        group = min(FANOUT, left)
        seconds += group * merged * (cost.add + cost.cell_bytes / NETWORK) + latency / 2
        width = min(width * group, rows)
        merged, left = features_of(width), math.ceil(left / group)
    steps = math.ceil(math.log2(workers)) if workers > 1 else 0
    seconds += merged * cost.cell_bytes / NETWORK * steps + merged * cost.apply
    sent += workers * merged * cost.cell_bytes
    return {"workers": workers, "rows_per_round": rows, "rows_per_second": rows / seconds, "megabytes": sent / 1e6}


def features_of(rows: float) -> float:
    """Return how many features rows of this stream are expected to have: index j has the share of u^3 in [j, j+1)/d."""
    d = 1 << BITS
    edges = (np.arange(0, d + 1, 16) / d) ** (1 / 3)
    share = np.diff(edges) / 16
    return float(16 * -np.expm1(rows * PER_ROW * np.log1p(-share)).sum())


def main(words: list[str]) -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster")
    parser.add_argument("--full", action="store_true", help="more rows, rounds and repeats")
    parser.add_argument("--quick", action="store_true", help="small, and nothing is kept")
    parsed = parser.parse_args(words)
    name = "full" if parsed.full else "quick" if parsed.quick else "default"
    size = SIZES[name]
    tables: list[Table] = []
    figures: dict[str, Any] = {"size": size._asdict()}

    def keep(*new: Table, **found: Any) -> None:
        tables.extend(new)
        figures.update(found)
        if parsed.quick:
            for one in new:
                Console(width=150).print(one)
        else:
            harness.save("cluster", tables, figures, show=new)

    measured = speeds(size)
    whole, long = ratio_of(measured)
    title = f"Workers on this machine; from 1 to 2: {whole:.2f} times the rows per second, {long:.2f} in long rounds"
    keep(_table(title, measured, "seconds"), speed=measured, ratio=whole, ratio_of_long_rounds=long)
    with (
        dask.config.set(PATIENT),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        losses = staleness(client, size.loss_parts, size.loss_rounds)
        latency = _latency(client)
    keep(_table("Lanes, rows per round, and loss", losses), losses=losses)
    cost, changed = costs()
    paper = [on_paper(cost, latency, n, rows) for n in (1, 2, 10, 100) for rows in (1 << 18, 1 << 20, 1 << 24)]
    keep(
        _table(f"On paper: {latency * 1e3:.1f} ms per round beside, network {NETWORK / 1e9:g} GB/s", paper),
        latency=latency,
        on_paper=paper,
        costs=cost._asdict(),
        features_by_rows=changed,
    )
    solved, figures["sdca"] = cluster_sdca.measure(name)
    keep(*solved)


def _latency(client: Client) -> float:
    """Return the seconds of a round that has next to nothing to learn."""
    parts = [client.submit(partition, k, 2000, pure=False) for k in range(2)]
    model = DaskStreamClassifier(ps.FTRLProximal(), lanes=2, rows_per_round=40, client=client, passes=2)
    model.fit(parts, classes=[0, 1])
    return statistics.median(one.seconds for one in model.rounds_[10:])


def _table(title: str, found: list[dict[str, Any]], *aside: str) -> Table:
    names = [name for name in found[0] if name not in aside]
    out = Table(*names, title=title, title_justify="left")
    for column in out.columns:
        column.justify = "right"
    for one in found:
        out.add_row(*(_shown(one[name]) for name in names))
    return out


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
