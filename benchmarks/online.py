"""One pass of logistic regression over data in memory: this library, its peers, and bare memory traffic.

    python -m benchmarks online [--rounds 5] [--rows 400000] [FILE.svm ...]

Every contestant gets the same rows in the same order and makes one pass. Vowpal Wabbit reads its own text, and its own
binary cache, which is its fastest way; river is given a small share of the rows, and its time is scaled up. `bare`
reads, changes and writes the cells that FTRL-Proximal would, with the same prefetching, and computes nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import proxstream as ps
from proxstream.data.rowblock import as_block
from proxstream.jit.compile import compiled, prefetch
from proxstream.learner.learner import Learner

from . import data, harness
from .data import Stream
from .harness import Contestant

ALPHA, L1 = 0.5, 1e-6
RIVER_ROWS = 1_000


def ours(stream: Stream, algorithm: Any, *, n_threads: int = 1, dtype: Any = np.float32) -> Callable[[], Any]:
    """Return the preparation of one of our learners."""
    rows = as_block(stream.X, stream.y, dtype=dtype)

    def prepare() -> Callable[[], dict[str, Any]]:
        learner = Learner(
            algorithm, "logistic", ps.L1(L1), n_features=stream.X.shape[1], dtype=dtype, n_threads=n_threads
        )

        def run() -> dict[str, Any]:
            learner.learn(rows)
            return {"progressive loss": learner.progressive_loss}

        return run

    return prepare


@compiled
def _touch(indices: Any, cells: Any) -> None:
    for q in range(indices.shape[0]):
        if q + 64 < indices.shape[0]:
            prefetch(cells, 2 * np.int64(indices[q + 64]))
        j = np.int64(indices[q])
        cells[j, 0] += np.float32(1.0)
        cells[j, 1] += np.float32(1.0)


def touch(stream: Stream) -> None:
    """Read the rows once, so that every contestant finds them in the same caches, and memory that is really there.

    A virtual machine gives freed memory back to its host; whoever asks first for it again waits for the host.
    """
    np.ones(1 << 26)
    stream.X.indices.sum()
    stream.X.data.sum()


def bare(stream: Stream) -> Callable[[], Any]:
    """Return the preparation of the bound kernel."""

    def prepare() -> Callable[[], dict[str, Any]]:
        cells = np.zeros((stream.X.shape[1], 2), np.float32)

        def run() -> dict[str, Any]:
            _touch(stream.X.indices, cells)
            return {}

        return run

    return prepare


def scikit_learn(stream: Stream, penalty: str) -> Callable[[], Any]:
    """Return the preparation of SGDClassifier, one pass, without shuffling."""
    from sklearn.linear_model import SGDClassifier

    def prepare() -> Callable[[], dict[str, Any]]:
        model = SGDClassifier(loss="log_loss", penalty=penalty, alpha=1e-6, max_iter=1, tol=None, shuffle=False)

        def run() -> dict[str, Any]:
            model.fit(stream.X, stream.y)
            return {}

        return run

    return prepare


def river(stream: Stream, optimizer: str) -> Callable[[], Any]:
    """Return the preparation of river's logistic regression, a row at a time as it is meant to be used."""
    from river import linear_model, optim

    made = {
        "SGD": lambda: optim.SGD(0.1),
        "FTRLProximal": lambda: optim.FTRLProximal(alpha=ALPHA, beta=1.0, l1=L1, l2=0.0),
    }[optimizer]

    X = stream.X[:RIVER_ROWS]
    rows = [dict(zip(X[i].indices.tolist(), X[i].data.tolist(), strict=True)) for i in range(RIVER_ROWS)]
    labels = (stream.y[:RIVER_ROWS] > 0).tolist()

    def prepare() -> Callable[[], dict[str, Any]]:
        model = linear_model.LogisticRegression(optimizer=made(), l2=0.0)

        def run() -> dict[str, Any]:
            for x, y in zip(rows, labels, strict=True):
                model.learn_one(x, y)
            return {}

        return run

    return prepare


def vowpal_wabbit(stream: Stream, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the preparations of `vw --ftrl` on its own text and on its own cache file."""
    from vowpalwabbit import Workspace

    bits = int(np.ceil(np.log2(stream.X.shape[1])))
    text, cache = folder / "rows.vw", folder / "rows.cache"
    X = stream.X
    with text.open("w") as file:
        for i in range(X.shape[0]):
            row = slice(X.indptr[i], X.indptr[i + 1])
            cells = " ".join(f"{j}:{v:.6g}" for j, v in zip(X.indices[row], X.data[row], strict=True))
            file.write(f"{int(stream.y[i])} | {cells}\n")
    settings = f"--ftrl --ftrl_alpha {ALPHA} --ftrl_beta 1 --l1 {L1} --loss_function logistic -b {bits} --quiet"
    Workspace(f"{settings} -d {text} --cache_file {cache} -k").finish()

    def preparation(more: str) -> Callable[[], Any]:
        def prepare() -> Callable[[], dict[str, Any]]:
            def run() -> dict[str, Any]:
                model = Workspace(f"{settings} -d {text} {more}")
                loss = model.get_sum_loss() / model.get_weighted_examples()
                model.finish()
                return {"progressive loss": loss}

            return run

        return prepare

    return {"text": preparation(""), "cache": preparation(f"--cache_file {cache}")}


def start_up() -> dict[str, float]:
    """Return the seconds that a fresh process takes to import, and for its first fit with a warm cache."""
    fit = (
        "import time, numpy as np, numba, sklearn.linear_model; t = time.perf_counter()\n"
        "import proxstream as ps; X = np.eye(4, dtype=np.float32); y = [0, 1, 0, 1]\n"
        "ps.StreamClassifier(ps.FTRLProximal()).fit(X, y); print(time.perf_counter() - t)"
    )
    imports = "import time, numpy; t = time.perf_counter(); import proxstream; print(time.perf_counter() - t)"
    out = {}
    for name, code in (("import, beyond numpy", imports), ("first fit, beyond numba and scikit-learn", fit)):
        runs = [float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(6)]
        out[name] = float(np.median(runs[1:]))
    return out


def main(arguments: list[str]) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks online", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--without", nargs="*", default=[], choices=["vw", "river", "scikit-learn"])
    parser.add_argument("files", nargs="*", help="svmlight files to run on in place of the made streams")
    options = parser.parse_args(arguments)
    streams = [data.svmlight(name) for name in options.files] or [
        data.zipf(options.rows, 20),
        data.zipf(options.rows, 24),
        data.digits(),
    ]
    tables, figures = [], {}
    for stream in streams:
        print(f"{stream.name} ...", file=sys.stderr, flush=True)
        contestants = [
            Contestant("proxstream FTRLProximal", ours(stream, ps.FTRLProximal(ALPHA, 1.0, "once"))),
            Contestant("bare read-modify-write", bare(stream)),
            Contestant("proxstream, 2 threads", ours(stream, ps.FTRLProximal(ALPHA, 1.0, "once"), n_threads=2)),
            Contestant("proxstream AutoFTRL", ours(stream, ps.AutoFTRL())),
        ]
        with tempfile.TemporaryDirectory() as folder:
            if "scikit-learn" not in options.without:
                contestants += [Contestant(f"SGDClassifier {p}", scikit_learn(stream, p)) for p in ("l1", "l2")]
            if "vw" not in options.without:
                ways = vowpal_wabbit(stream, Path(folder))
                contestants += [Contestant(f"vw --ftrl, its {way}", prepare) for way, prepare in ways.items()]
            if "river" not in options.without:
                share = RIVER_ROWS / stream.X.shape[0]
                names = ("SGD", "FTRLProximal")
                contestants += [Contestant(f"river learn_one, {name}", river(stream, name), share) for name in names]
            harness.race(contestants, options.rounds, partial(touch, stream))
        tables.append(harness.table(stream.name, contestants, stream.X.nnz))
        figures[stream.name] = {c.name: {"seconds": c.seconds, "share": c.share, **c.facts} for c in contestants}
    begun = time.perf_counter()
    figures["start-up"] = start_up()
    print(f"start-up, median seconds: {figures['start-up']} ({time.perf_counter() - begun:.0f} s)")
    harness.save("online" if not options.files else "online-files", tables, figures)
