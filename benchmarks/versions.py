"""Two installed versions of proxstream on the same tasks, side by side.

    python -m benchmarks versions --before OTHER/bin/python [--rounds 7] [--small]

The version of the running interpreter is compared with the one that OTHER has, typically an earlier commit installed
into an environment of its own (`pip install git+file://CLONE@COMMIT`). Tasks in memory (`version_worker`: one pass of a
learner, fits of the batch solvers) run in one process per version that stays; files are trained on by whole commands.
Versions take turns on each task, and the ratio is that of their medians: above 1 the running version is slower.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from . import data, files, harness, stream, version_worker
from .data import Stream

TOLERATED = 1.05
ASK = "from importlib.metadata import version; print(*(version(name) for name in ('proxstream', 'numpy', 'numba')))"


def write_arrays(folder: Path, small: bool) -> None:
    """Write the data of the worker's tasks."""
    share = 20 if small else 1
    made: dict[str, Stream] = {
        "zipf": data.zipf(400_000 // share),
        "digits": data.digits(60_000 // share),
        "text": data.zipf(20_000 // share, bits=16),
        "one-hot": data.one_hot(32_000 // share),
        "strokes": data.strokes(12_000 // share),
    }
    for name in (*version_worker.STREAMS, *version_worker.SETS):
        X, y = made[name].X, made[name].y
        np.savez(folder / f"{name}.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)


class Worker:
    """A process of one version that runs tasks in memory."""

    def __init__(self, python: str, folder: Path) -> None:
        script = str(Path(version_worker.__file__))
        self.process = subprocess.Popen(
            [python, "-P", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.tasks = list(iter(self._line, ""))

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a worker ended with code {self.process.wait()}")
        return line.rstrip("\n")

    def seconds(self, task: str) -> float:
        """Run a task once."""
        assert self.process.stdin is not None
        print(task, file=self.process.stdin, flush=True)
        return float(self._line())


def file_tasks(folder: Path, pythons: dict[str, str], small: bool) -> dict[str, dict[str, Callable[[], float]]]:
    """Return whole commands on files of each format, for each version; row caches are each version's own."""
    times, model = (1 if small else 40), folder / "model.psm"
    sparse = files.sparse(folder, times, data.zipf(files.PIECE, files.BITS)).ours
    words = files.text(folder, times).ours
    table, parquet = files.clicks(folder, times)
    paths = {"svmlight text": sparse, "Vowpal Wabbit text": words, "CSV": table.ours, "Parquet": parquet}

    def train(version: str, path: Path) -> Callable[[], float]:
        # Numbers of tables have been standardized since; to do so is work that the earlier version does not do.
        raw = ("--no-standardize",) if version == "after" and path in (table.ours, parquet) else ()
        command = [pythons[version], *stream.ours(path, model, *raw)[1:]]
        return lambda: stream.run(command).seconds

    tasks = {f"file: {name}": {v: train(v, path) for v in pythons} for name, path in paths.items()}
    caches = {}
    for version, python in pythons.items():
        caches[version] = folder / f"{version}.psr"
        subprocess.run([python, "-m", "proxstream", "convert", str(sparse), str(caches[version])], check=True)
    tasks["file: row cache"] = {version: train(version, caches[version]) for version in pythons}
    return tasks


def compare(tasks: dict[str, dict[str, Callable[[], float]]], rounds: int) -> dict[str, dict[str, Any]]:
    """Run each task with each version in turn, once more than is counted; return medians and their ratio."""
    found = {}
    for name, runs in tasks.items():
        seconds: dict[str, list[float]] = {version: [] for version in runs}
        for number in range(rounds + 1):
            for version, run in runs.items():
                taken = run()
                if number:
                    seconds[version].append(taken)
        medians = {version: statistics.median(taken) for version, taken in seconds.items()}
        ratio = medians["after"] / medians["before"]
        found[name] = {**medians, "ratio": ratio, "runs": seconds}
        print(f"{name}: {medians['before']:.3f} s before, {medians['after']:.3f} after", file=sys.stderr, flush=True)
    return found


def main(arguments: list[str]) -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(prog="python -m benchmarks versions", description=__doc__)
    options.add_argument("--before", required=True, metavar="PYTHON", help="interpreter that has the other version")
    options.add_argument("--commit", default="", help="the other version's commit, for the table")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--small", action="store_true", help="small data: to see that it runs, not how fast")
    parsed = options.parse_args(arguments)
    pythons = {"before": parsed.before, "after": sys.executable}
    versions = {
        version: subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=True).stdout.split()
        for version, python in pythons.items()
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_arrays(folder, parsed.small)
        workers = {version: Worker(python, folder) for version, python in pythons.items()}
        tasks: dict[str, dict[str, Callable[[], float]]] = {
            task: {version: (lambda w=worker, task=task: w.seconds(task)) for version, worker in workers.items()}
            for task in workers["after"].tasks
        }
        found = compare(tasks | file_tasks(folder, pythons, parsed.small), parsed.rounds)
    out = Table("", "before, s", "after, s", "ratio", title=f"Before: {parsed.commit or parsed.before}")
    for column in out.columns[1:]:
        column.justify = "right"
    for task, one in found.items():
        mark = " !" if one["ratio"] > TOLERATED else ""
        out.add_row(task, f"{one['before']:.3f}", f"{one['after']:.3f}", f"{one['ratio']:.2f}{mark}")
    harness.save("versions", [out], {"before": parsed.commit, "versions": versions, "tasks": found})
