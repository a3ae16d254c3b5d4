"""How soon a command starts: in a new environment, with kernels compiled ahead and without, beside Vowpal Wabbit.

    python -m benchmarks start [--rounds 7]

A virtual environment is made, the package installed from this checkout (which compiles the everyday kernels), and
commands are run there on 1,000 and 3,000 generated rows. Commands that take turns are compared by medians; what happens
only once, the first run from an empty cache, is timed once. Each bar is printed as met or NOT met.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from . import harness

ROOT = Path(__file__).parent.parent
FIT = """
import numpy as np, proxstream as ps
X = np.random.default_rng(0).normal(size=(300, 5))
ps.StreamClassifier().fit(X, X[:, 0] > 0)
"""
IMPORTS = {
    "numpy and scikit-learn": "import numpy, sklearn.base, sklearn.utils.validation",
    "the same and proxstream": "import numpy, sklearn.base, sklearn.utils.validation, proxstream",
    "the same and StreamClassifier": (
        "import numpy, sklearn.base, sklearn.utils.validation; from proxstream import StreamClassifier"
    ),
}


class Bar(NamedTuple):
    """A measurement and the most seconds that it may take."""

    name: str
    seconds: float
    limit: float | None


class Place:
    """A new environment with the package, and files to learn from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "env" / "bin"

    def install(self) -> tuple[float, float]:
        """Make the environment; return the seconds of the installation, and of compiling within it."""
        subprocess.run([sys.executable, "-m", "venv", str(self.folder / "env")], check=True)
        started = time.perf_counter()
        pip = [str(self.bin / "pip"), "install", "-q", str(ROOT)]
        subprocess.run(pip, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
        subprocess.run([*pip[:-1], "vowpalwabbit>=9.10"], check=True, stdout=subprocess.DEVNULL)
        started = time.perf_counter()
        code = "import sys; from pathlib import Path; from proxstream.jit.build import build; build(Path(sys.argv[1]))"
        self.run([str(self.bin / "python"), "-c", code, str(self.folder / "kernels")])
        return seconds, time.perf_counter() - started

    def run(self, command: Sequence[str], **variables: str) -> float:
        """Run a command to its end and return its seconds; it has to succeed."""
        environment = {**os.environ, "PROXSTREAM_CACHE_DIR": str(self.folder / "cache"), **variables}
        started = time.perf_counter()
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return seconds

    def ours(self, *words: str) -> list[str]:
        """Return a command of ours."""
        return [str(self.bin / "proxstream"), *words]

    def first(self, command: Sequence[str], name: str) -> float:
        """Return the seconds of a first run without code compiled ahead, from a cache of this name."""
        return self.run(command, PROXSTREAM_PREBUILD="0", PROXSTREAM_CACHE_DIR=str(self.folder / name))


def write_files(folder: Path, rows: int, name: str) -> None:
    """Write the same rows as svmlight, Vowpal Wabbit text and CSV."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=40)
    svm, vw, csv = [], [], ["label," + ",".join(f"x{j}" for j in range(40))]
    for x in np.round(rng.normal(size=(rows, 40)) * (rng.random((rows, 40)) < 0.3), 3):
        y = 1 if x @ w > 0.0 else -1
        some = np.flatnonzero(x)
        svm.append(f"{y} " + " ".join(f"{j + 1}:{x[j]}" for j in some))
        vw.append(f"{y} | " + " ".join(f"x{j}:{x[j]}" for j in some))
        csv.append(f"{y}," + ",".join(map(str, x)))
    for extension, lines in (("svm", svm), ("vw", vw), ("csv", csv)):
        (folder / f"{name}.{extension}").write_text("\n".join(lines) + "\n")


def turns(place: Place, commands: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """Return the median seconds of commands that take turns, after a round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            taken = place.run(command)
            if number:
                seconds[name].append(taken)
    return {name: statistics.median(times) for name, times in seconds.items()}


def measure(place: Place, rounds: int) -> list[Bar]:
    """Measure everything, in the order of the table."""
    installing, compiling = place.install()
    write_files(place.folder, 1000, "small")
    write_files(place.folder, 3000, "data")
    python = str(place.bin / "python")
    bars = [
        Bar("pip install . (with numpy, numba and all)", installing, None),
        Bar("  compiling in it", compiling, 45.0),
    ]
    bars.append(Bar("first demo", place.run(place.ours("demo")), 5.0))
    train = place.ours("train", "small.svm", "-o", "m.psm", "-q")
    bars.append(Bar("first train of 1,000 rows", place.run(train), 0.35))
    medians = turns(
        place,
        {
            "train 1,000 rows": train,
            "predict": place.ours("predict", "m.psm", "small.svm", "-o", "p.txt"),
            "evaluate": place.ours("evaluate", "m.psm", "small.svm"),
            "vw, 1,000 rows": [python, "-m", "vowpalwabbit", "-d", "small.vw", "--quiet", "-f", "m.vw"],
            "--help": place.ours("--help"),
            "--version": place.ours("--version"),
            **{f"import {name}": [python, "-c", code] for name, code in IMPORTS.items()},
        },
        rounds,
    )
    limits = {"train 1,000 rows": 0.35, "predict": 0.35, "evaluate": 0.35, "--help": 0.12, "--version": 0.12}
    base = medians["import numpy and scikit-learn"]
    limits |= {f"import {name}": base + 0.05 for name in list(IMPORTS)[1:]}
    bars += [Bar(name, seconds, limits.get(name)) for name, seconds in medians.items()]
    for kind in ("svm", "vw", "csv"):
        command = place.ours("train", f"data.{kind}", "-o", "m.psm", "-q")
        bars.append(Bar(f"first train without code compiled ahead, {kind}", place.first(command, kind), 8.0))
    more = place.ours("train", "data.svm", "-o", "m.psm", "-q", "--algorithm", "rda", "--loss", "hinge")
    warm = place.first(place.ours("train", "data.svm", "-o", "m.psm", "-q"), "svm")
    bars.append(Bar("  another algorithm and loss, in addition", place.first(more, "svm") - warm, 3.0))
    l1 = place.ours("train", "data.svm", "-o", "m.psm", "-q", "--algorithm", "certified", "--l1", "0.001")
    bars.append(Bar("first certified l1 without", place.first(l1, "l1"), 10.0))
    bars.append(Bar("first StreamClassifier.fit without", place.first([python, "-c", FIT], "fit"), 4.0))
    return bars


def main(arguments: Sequence[str]) -> None:
    """Run the benchmark and keep its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks start", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        bars = measure(place, options.rounds)
        verbose = subprocess.run(place.ours("--version", "--verbose"), capture_output=True, text=True, check=False)
    kernels = next(iter(re.findall(r"kernels.*", verbose.stdout)), "")
    title = f"Seconds to start, from an empty environment; {kernels}"
    table = Table("", "seconds", "at most", "", title=title, title_justify="left")
    for bar in bars:
        verdict = "" if bar.limit is None else "met" if bar.seconds <= bar.limit else "NOT met"
        table.add_row(bar.name, f"{bar.seconds:.2f}", f"{bar.limit:.2f}" if bar.limit else "", verdict)
    harness.save("start", [table], {"bars": [bar._asdict() for bar in bars], "rounds": options.rounds})
