"""From a file to a saved model, one pass of FTRL-Proximal with logistic loss: `proxstream train` and Vowpal Wabbit.

    python -m benchmarks stream [--rounds 5] [--big] [--small]

Every contestant is a process of its own that reads a file and writes a model. Files come in two sizes of the same
rows; rows per second are taken from the slope between them, so that start-up, which is shown on its own, does not
count. Contestants take turns, medians are compared, and the ratios are those to Vowpal Wabbit on the same rows in its
own text (or, for the row cache, its own cache as well). --big adds whole commands on a file of 1 GB.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from . import files, harness
from .data import zipf
from .files import BITS, PIECE, Pair

ALPHA, L1 = 0.5, 1e-6
SETTINGS = ("--algorithm", "ftrl_proximal", "--alpha", str(ALPHA), "--penalty-weight", "once", "--l1", str(L1))
VW = ("--ftrl", "--ftrl_alpha", str(ALPHA), "--ftrl_beta", "1", "--l1", str(L1), "--loss_function", "logistic")


class Used(NamedTuple):
    """What a process took: seconds by the clock and by the processors, and its largest memory in MB."""

    seconds: float
    cpu: float
    megabytes: float


# Starts a command and prints what it took. A process inherits the peak memory of who started it: this one has little.
STARTER = """
import os, sys, time
begun = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, 1, 0)])
_, status, used = os.wait4(child, 0)
seconds = time.perf_counter() - begun
print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, os.waitstatus_to_exitcode(status))
"""


def run(command: Sequence[str]) -> Used:
    """Run a command to its end; it has to succeed."""
    started = subprocess.run(
        [sys.executable, "-S", "-c", STARTER, *command], capture_output=True, text=True, check=True
    )
    *used, code = map(float, started.stdout.split())
    if code:
        sys.exit(f"{' '.join(command)}: {started.stderr}")
    return Used(*used)


def ours(path: Path, model: Path, *more: str) -> list[str]:
    """Return our command."""
    return [sys.executable, "-m", "proxstream", "train", str(path), "-o", str(model), *SETTINGS, *more]


def vowpal_wabbit(path: Path, model: Path, *more: str) -> list[str]:
    """Return Vowpal Wabbit's command, through its Python package: the same library, and a start-up of its own."""
    options = ["-b", str(BITS), "--quiet", "-d", str(path), "-f", str(model)]
    return [sys.executable, "-m", "vowpalwabbit", *VW, *options, *more]


class Runner(NamedTuple):
    """A contestant: its commands for the smaller and the larger file."""

    name: str
    commands: tuple[list[str], list[str]]


def slopes(runners: Sequence[Runner], rows: tuple[int, int], rounds: int, warm: Sequence[Path]) -> list[dict[str, Any]]:
    """Run every runner on both files, in turn, after one round that is not counted; return rows per second and more."""
    taken: dict[str, tuple[list[Used], list[Used]]] = {runner.name: ([], []) for runner in runners}
    for number in range(rounds + 1):
        for runner in runners:
            for size in (0, 1):
                for path in warm:  # whoever comes first would else wait for the disk
                    touch(path)
                used = run(runner.commands[size])
                if number:
                    taken[runner.name][size].append(used)
    found = []
    for runner in runners:
        small, large = (statistics.median(u.seconds for u in taken[runner.name][size]) for size in (0, 1))
        pairs = zip(*taken[runner.name], strict=True)  # of neighbours in time: the speed of the machine changes
        slope = statistics.median(more.seconds - less.seconds for less, more in pairs) / (rows[1] - rows[0])
        found.append(
            {
                "runner": runner.name,
                "rows_per_second": 1.0 / slope,
                "start_seconds": small - slope * rows[0],
                "seconds": [large, small],
                "megabytes": statistics.median(u.megabytes for u in taken[runner.name][1]),
            }
        )
    return found


def touch(path: Path) -> None:
    """Read a file, so that it lies in the system's cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def table(title: str, found: list[dict[str, Any]], against: str) -> Table:
    """Return rows per second, and how many times those of Vowpal Wabbit."""
    out = Table("", "rows/s", f"times {against}", "start, s", "peak MB", title=title, title_justify="left")
    for column in out.columns[1:]:
        column.justify = "right"
    base = next(one["rows_per_second"] for one in found if one["runner"] == against)
    for one in found:
        one["times"] = one["rows_per_second"] / base
        out.add_row(
            one["runner"],
            f"{one['rows_per_second']:,.0f}",
            f"{one['times']:.2f}",
            f"{one['start_seconds']:.2f}",
            f"{one['megabytes']:.0f}",
        )
    return out


def both(make: Callable[[int], Pair], times: tuple[int, int], model: Path, names: tuple[str, str]) -> tuple[Any, Any]:
    """Return the files of both sizes, and the two runners on them."""
    pairs = make(times[0]), make(times[1])
    runners = [
        Runner(names[0], (ours(pairs[0].ours, model), ours(pairs[1].ours, model))),
        Runner(names[1], (vowpal_wabbit(pairs[0].vw, model), vowpal_wabbit(pairs[1].vw, model))),
    ]
    return pairs, runners


def sparse_rows(folder: Path, times: tuple[int, int], rounds: int) -> tuple[Table, list[dict[str, Any]]]:
    """Compare on rows of 67 numbered features: text, and the row caches of both."""
    model, stream = folder / "model", zipf(PIECE, BITS)
    pairs, runners = both(lambda n: files.sparse(folder, n, stream), times, model, ("svmlight text", "vw text"))
    caches = [files.cache(pair.ours) for pair in pairs]
    for pair in pairs:
        run(vowpal_wabbit(pair.vw, model, "--cache_file", f"{pair.vw}.cache", "-k"))
    runners += [
        Runner("row cache", (ours(caches[0], model), ours(caches[1], model))),
        Runner("vw cache", tuple(vowpal_wabbit(p.vw, model, "--cache_file", f"{p.vw}.cache") for p in pairs)),
    ]
    paths = [path for pair in pairs for path in (*pair, Path(f"{pair.vw}.cache"))] + caches
    found = slopes(runners, (PIECE * times[0], PIECE * times[1]), rounds, paths)
    files.removed(paths)
    return table(f"67 numbered features per row, 2^{BITS} in all", found, "vw text"), found


def word_rows(folder: Path, times: tuple[int, int], rounds: int) -> tuple[Table, list[dict[str, Any]]]:
    """Compare on one text of words in two namespaces."""
    pairs, runners = both(lambda n: files.text(folder, n), times, folder / "model", ("the same text", "vw text"))
    paths = [pair.ours for pair in pairs]
    found = slopes(runners, (PIECE * times[0], PIECE * times[1]), rounds, paths)
    files.removed(paths)
    return table("30 words per row in Vowpal Wabbit's text, hashed", found, "vw text"), found


def click_rows(folder: Path, times: tuple[int, int], rounds: int) -> tuple[Table, list[dict[str, Any]]]:
    """Compare on 13 numbers and 26 categories: CSV and Parquet for us, its own text for Vowpal Wabbit."""
    model, parquets = folder / "model", []

    def make(n: int) -> Pair:
        pair, parquet = files.clicks(folder, n)
        parquets.append(parquet)
        return pair

    pairs, runners = both(make, times, model, ("CSV", "vw text"))
    runners.append(Runner("Parquet", (ours(parquets[0], model), ours(parquets[1], model))))
    paths = [path for pair in pairs for path in pair] + parquets
    found = slopes(runners, (PIECE * times[0], PIECE * times[1]), rounds, paths)
    files.removed(paths)
    return table(f"13 numbers and 26 categories per row, 2^{BITS} buckets", found, "vw text"), found


def parser(folder: Path, rounds: int) -> tuple[Table, dict[str, float]]:
    """Compare the parser alone, on one core, with scikit-learn's."""
    import io

    from sklearn.datasets import load_svmlight_file

    from proxstream.io.text.svmlight import parse_bytes

    pair = files.sparse(folder, 1, zipf(PIECE, BITS))
    text = pair.ours.read_bytes()
    files.removed(pair)
    parse_bytes(text)
    mine, theirs = [], []
    for _ in range(rounds):
        for seconds, parse in ((mine, parse_bytes), (theirs, lambda data: load_svmlight_file(io.BytesIO(data)))):
            begun = time.process_time()
            parse(text)
            seconds.append(time.process_time() - begun)
    found = {
        "megabytes_per_second": len(text) / statistics.median(mine) / 1e6,
        "scikit_learn_megabytes_per_second": len(text) / statistics.median(theirs) / 1e6,
    }
    found["times"] = found["megabytes_per_second"] / found["scikit_learn_megabytes_per_second"]
    out = Table("", "MB/s", "times", title="svmlight text parsed in memory, one core", title_justify="left")
    out.add_row("proxstream", f"{found['megabytes_per_second']:.0f}", f"{found['times']:.0f}")
    out.add_row("load_svmlight_file", f"{found['scikit_learn_megabytes_per_second']:.1f}", "1")
    return out, found


def memory(folder: Path) -> tuple[Table, dict[str, float]]:
    """Measure how memory grows with rows, and what a model of 2^22 features takes beyond everything else."""
    stream = zipf(PIECE, BITS)
    model, made = folder / "model", [files.sparse(folder, n, stream) for n in (2, 20)]
    tiny = files.small(folder)
    peaks = [statistics.median(run(ours(pair.ours, model)).megabytes for _ in range(3)) for pair in made]
    bare = statistics.median(run(ours(tiny, model, "--chunk-bytes", "65536")).megabytes for _ in range(3))
    files.removed([path for pair in made for path in pair])
    found = {
        "peak_megabytes": peaks[0],
        "peak_megabytes_ten_times_the_rows": peaks[1],
        "growth": peaks[1] / peaks[0] - 1.0,
        "model_megabytes_beyond_imports": peaks[1] - bare,
    }
    out = Table("", "", title="Memory", title_justify="left")
    out.add_row(f"peak, {2 * PIECE:,} rows, 2^{BITS} features", f"{peaks[0]:.0f} MB")
    out.add_row(f"peak, {20 * PIECE:,} rows", f"{peaks[1]:.0f} MB, {found['growth']:+.1%}")
    out.add_row("beyond a run of 1,000 rows and 2^16 features", f"{found['model_megabytes_beyond_imports']:.0f} MB")
    return out, found


def start_up(folder: Path, rounds: int) -> tuple[Table, dict[str, float]]:
    """Time whole commands that have hardly anything to do."""
    path, model = files.small(folder), folder / "small.psm"
    base = [sys.executable, "-m", "proxstream"]
    commands = {
        "--help": [*base, "--help"],
        "train --help": [*base, "train", "--help"],
        "train, 1,000 rows": ours(path, model),
        "predict, 1,000 rows": [*base, "predict", str(model), str(path)],
        "vw, 1,000 rows": vowpal_wabbit(path, folder / "model"),
    }
    found, out = {}, Table("", "seconds", title="Start-up, compiled code in its cache", title_justify="left")
    for name, command in commands.items():
        run(command)
        found[name] = statistics.median(run(command).seconds for _ in range(rounds))
        out.add_row(name, f"{found[name]:.2f}")
    return out, found


def table_cost(folder: Path, times: int, rounds: int) -> tuple[Table, dict[str, float]]:
    """Compare training with its table and without, on text and on a row cache."""
    pair, model = files.sparse(folder, times, zipf(PIECE, BITS)), folder / "model"
    cache = files.cache(pair.ours)
    found, out = (
        {},
        Table("", "with", "without", "cost", title="What the table costs, CPU seconds", title_justify="left"),
    )
    for name, path in (("text", pair.ours), ("row cache", cache)):
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for number in range(rounds + 1):
            for quiet in (False, True):
                used = run(ours(path, model, *(["--quiet"] if quiet else [])))
                if number:
                    seconds[quiet].append(used.cpu)
        shown, silent = statistics.median(seconds[False]), statistics.median(seconds[True])
        found[name] = shown / silent - 1.0
        out.add_row(name, f"{shown:.2f}", f"{silent:.2f}", f"{found[name]:+.1%}")
    files.removed([*pair, cache])
    return out, found


def whole_commands(folder: Path, rounds: int) -> tuple[Table, dict[str, float]]:
    """Time whole commands on a file of 1 GB, start-up and all."""
    stream, model = zipf(PIECE, BITS), folder / "model"
    times = 47  # pieces of 21 MB
    pair = files.sparse(folder, times, stream)
    taken: dict[str, list[float]] = {"proxstream": [], "vw": []}
    for number in range(rounds + 1):
        for name, command in (("proxstream", ours(pair.ours, model)), ("vw", vowpal_wabbit(pair.vw, model))):
            touch(pair.ours if name == "proxstream" else pair.vw)
            used = run(command)
            if number:
                taken[name].append(used.seconds)
    size = pair.ours.stat().st_size
    files.removed(pair)
    found = {name: statistics.median(seconds) for name, seconds in taken.items()}
    found |= {"times": found["vw"] / found["proxstream"], "bytes": float(size)}
    out = Table(
        "", "seconds", "times", title=f"Whole command, {size / 1e9:.2f} GB of svmlight text", title_justify="left"
    )
    out.add_row("proxstream train", f"{found['proxstream']:.2f}", f"{found['times']:.2f}")
    out.add_row("vw, its own text", f"{found['vw']:.2f}", "1.00")
    return out, found


def main(arguments: list[str]) -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(prog="python -m benchmarks stream", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--big", action="store_true", help="whole commands on a file of 1 GB, too")
    options.add_argument("--small", action="store_true", help="small files: to see that it runs, not how fast")
    parsed = options.parse_args(arguments)
    rounds, times = parsed.rounds, (1, 2) if parsed.small else (5, 105)
    tables, figures = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts: dict[str, Callable[[], tuple[Table, Any]]] = {
            "start-up": lambda: start_up(folder, rounds),
            "sparse rows": lambda: sparse_rows(folder, times, rounds),
            "words": lambda: word_rows(folder, times, rounds),
            "clicks": lambda: click_rows(folder, times, rounds),
            "parser": lambda: parser(folder, rounds),
            "memory": lambda: memory(folder),
            "table": lambda: table_cost(folder, times[1], rounds),
        }
        if parsed.big:
            parts["1 GB"] = lambda: whole_commands(folder, min(rounds, 3))
        for part, measure in parts.items():
            begun = time.perf_counter()
            made, figures[part] = measure()
            tables.append(made)
            print(f"{part}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    if parsed.small:
        Console(width=150).print(*tables)
    else:
        harness.save("stream", tables, figures)
