"""How everything is measured here: contestants take turns on the same data, medians are compared, ratios are printed.

Machines are noisy; a contestant is never timed on its own. One round runs each of them once, in order, and the table
shows the median over rounds and how many times slower each is than the first.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "proxstream",
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "vowpalwabbit",
    "river",
    "liblinear-official",
    "skglm",
    "celer",
    "snapml",
)


@dataclass
class Contestant:
    """Something to time: `prepare` makes a fresh model and returns the function that is timed; that returns facts."""

    name: str
    prepare: Callable[[], Callable[[], dict[str, Any]]]
    share: float = 1.0  # of the rows that it is given, where all of them would take too long
    seconds: list[float] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Median seconds for all rows."""
        return statistics.median(self.seconds) / self.share


def race(
    contestants: Sequence[Contestant],
    rounds: int,
    warm: Callable[[], Any],
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Time every contestant once per round, in turn, after one round that is not counted.

    `warm` reads the data before each run: whoever comes after a slow peer would else find it gone from the caches.
    """
    for number in range(rounds + 1):
        for contestant in contestants:
            run = contestant.prepare()
            warm()
            begun = clock()
            facts = run()
            seconds = clock() - begun
            if number:
                contestant.seconds.append(seconds)
            contestant.facts.update(facts)


def table(title: str, contestants: Sequence[Contestant], nonzeros: int) -> Table:
    """Return medians, speeds, facts, and how many times the first one's time each took."""
    facts = list(dict.fromkeys(name for contestant in contestants for name in contestant.facts))
    out = Table("", "seconds", "M non-zeros/s", "times the first", *facts, title=title, title_justify="left")
    for column in out.columns[1:]:
        column.justify = "right"
    for c in contestants:
        values = [f"{c.facts[name]:.5g}" if name in c.facts else "" for name in facts]
        speed = nonzeros / c.median / 1e6
        out.add_row(c.name, f"{c.median:.3f}", f"{speed:.2f}", f"{c.median / contestants[0].median:.2f}", *values)
    return out


def listed(title: str, figures: dict[str, Any]) -> Table:
    """Return figures, one per line."""
    out = Table("", "", title=title, title_justify="left")
    out.columns[1].justify = "right"
    for name, value in figures.items():
        out.add_row(name.replace("_", " "), f"{value:,.1f}" if isinstance(value, float) else f"{value:,}")
    return out


def environment() -> dict[str, Any]:
    """Return what a figure depends on: processor, Python, packages."""
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), cpu)
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {"cpu": cpu, "python": platform.python_version(), "packages": versions}


def save(name: str, tables: Sequence[Table], figures: dict[str, Any], *, show: Sequence[Table] | None = None) -> None:
    """Print the tables (or those to show alone) and keep them, readable and as JSON, in benchmarks/results."""
    console = Console(width=150)
    for one in tables if show is None else show:
        console.print(one)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"environment": environment(), **figures}, indent=2) + "\n")
    with (RESULTS / f"{name}.txt").open("w") as file:
        readable = Console(file=file, width=150)
        for one in tables:
            readable.print(one)
