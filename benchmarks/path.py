"""K strengths in one pass: their time over that of one model, and what is chosen on real streams.

    python -m benchmarks path [--rounds 5] [--rows 200000]
    python -m benchmarks path --data FOLDER [--rows 30000]

The first measures the time of 8 and of 16 strengths learned side by side at 2^20 features, over that of one model of
the same algorithm: medians of alternating runs of one process, of processor time, as all run in one thread and other
processes should not count. The bars are 4 and 8.

The second learns the sets of `kept_sets`, shuffled, in one pass with strengths=None, and chooses by progressive losses
alone. Beside the choices "best" and "1se" is what is best in hindsight on held-out rows, which no choice has seen:
among the same strengths and weaker ones, down to 1e-8 of the largest. Marked is hindsight between the weakest strength
of the grid and 0. The loss without a penalty is there to compare.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import proxstream as ps
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.learner import Learner
from proxstream.learner.path import PathLearner

from . import data, harness, kept_sets
from .harness import Contestant
from .online import touch

ALGORITHMS = {
    "AutoFTRL": ps.AutoFTRL(scale="feature"),
    "AutoFTRL global": ps.AutoFTRL(scale="global"),
    "FTRLProximal": ps.FTRLProximal(alpha=0.5),
    "AdaGrad": ps.AdaGrad(),
    "RDA": ps.RDA(),
}
BARS = {8: 4.0, 16: 8.0}


def contestant(algorithm: Any, rows: RowBlock, n_features: int, count: int) -> Callable[[], Any]:
    """Return the preparation of one model, or of a path of `count` strengths."""

    def prepare() -> Callable[[], dict[str, Any]]:
        settings = {"n_features": n_features, "dtype": np.float32}
        learner: Learner = (
            Learner(algorithm, "logistic", ps.L1(1e-6), **settings)
            if count == 1
            else PathLearner(algorithm, "logistic", strengths=np.geomspace(1e-3, 1e-7, count), **settings)
        )
        learner.engine.state[:] = 0.0  # memory that is really there

        def run() -> dict[str, Any]:
            learner.learn(rows, undo=False)
            return {}

        return run

    return prepare


def measure_times(rows: int, rounds: int) -> tuple[list[Table], dict[str, Any]]:
    """Return tables and ratios of every algorithm."""
    stream = data.zipf(rows)
    block = as_block(stream.X, stream.y, dtype=np.float32)
    tables, figures = [], {}
    for name, algorithm in ALGORITHMS.items():
        raced = [
            Contestant(f"{name}, {count} strengths", contestant(algorithm, block, stream.X.shape[1], count))
            for count in (1, *BARS)
        ]
        harness.race(raced, rounds, lambda: touch(stream), time.process_time)
        tables.append(harness.table(f"{name}: {stream.name}", raced, stream.X.nnz))
        ratios = {count: one.median / raced[0].median for count, one in zip(BARS, raced[1:], strict=True)}
        figures[name] = {
            "seconds": {one.name: one.seconds for one in raced},
            "times one model": ratios,
            "within the bar": {count: ratios[count] <= bar for count, bar in BARS.items()},
        }
    return tables, figures


def choices(one: kept_sets.Kept) -> dict[str, Any]:
    """Return loss and non-zeros of the choices on a set, and of the best strength in hindsight."""
    mixed = kept_sets.shuffled(one)
    path = ps.StreamPathClassifier().fit(mixed.X.astype(np.float32), mixed.y)
    strengths = path.strengths_.tolist()
    places = {rule: strengths.index(path.choose(rule).penalty.lam) for rule in ("best", "1se")}
    entries = path.validate(mixed.new.astype(np.float32), mixed.new_y).table()
    weaker = ps.StreamPathClassifier(strengths[0] * np.geomspace(1e-4, 1e-8, 9)[1:])
    weaker.fit(mixed.X.astype(np.float32), mixed.y).validate(mixed.new.astype(np.float32), mixed.new_y)
    chosen = {name: entries[k] for name, k in places.items()}
    chosen["hindsight"] = min([*entries, *weaker.table()], key=lambda entry: entry.held_out_loss)
    found: dict[str, Any] = {
        name: {"strength": entry.strength, "loss": entry.held_out_loss, "nonzeros": entry.nnz}
        for name, entry in chosen.items()
    }
    found["no penalty"] = entries[-1].held_out_loss
    found["beyond"] = chosen["hindsight"].strength not in strengths
    found["best over hindsight"] = found["best"]["loss"] / found["hindsight"]["loss"] - 1.0
    found["1se over best, non-zeros"] = found["1se"]["nonzeros"] / max(found["best"]["nonzeros"], 1)
    return found


def choice_table(found: dict[str, Any]) -> Table:
    """Return one line per set."""
    columns = ("no penalty", "hindsight", "best", "above", "1se", "non-zeros: hindsight", "best", "1se", "1se / best")
    out = Table("", *columns, title="Held-out log loss and non-zeros of chosen strengths", title_justify="left")
    for column in out.columns[1:]:
        column.justify = "right"
    for name, one in found.items():
        rules = [one[rule] for rule in ("hindsight", "best", "1se")]
        hindsight, best, sparse = (f"{rule['loss']:.4f}" for rule in rules)
        hindsight += " (beyond)" if one["beyond"] else ""
        counts = [f"{rule['nonzeros']:,}" for rule in rules]
        shares = f"{100 * one['best over hindsight']:.2f}%", f"{one['1se over best, non-zeros']:.2f}"
        out.add_row(name, f"{one['no penalty']:.4f}", hindsight, best, shares[0], sparse, *counts, shares[1])
    return out


def main(arguments: list[str]) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks path")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--data", type=Path, help="folder of real sets, see kept_sets")
    options = parser.parse_args(arguments)
    if options.data is None:
        tables, figures = measure_times(options.rows or 200_000, options.rounds)
        harness.save("path", tables, figures)
        return
    found: dict[str, Any] = {}
    for one in kept_sets.load(options.data, options.rows or 30_000):
        found[one.name] = choices(one)
        harness.save("path_choices", [choice_table(found)], found)
