"""Tasks in memory that `benchmarks.versions` times with any installed version of proxstream.

    PYTHON version_worker.py FOLDER

reads FOLDER's arrays, then names of tasks from standard input, one per line, and prints the seconds that each took.
It uses only names that every version has had, and imports nothing of this package: PYTHON may be another environment's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

import proxstream as ps

STREAMS = ("zipf", "digits")
SETS = ("text", "one-hot", "strokes")
LEARNERS: dict[str, Callable[[], Any]] = {
    "FTRLProximal": lambda: ps.FTRLProximal(alpha=0.5),
    "AdaGrad": lambda: ps.AdaGrad(eta=0.3),
    "RDA": lambda: ps.RDA(gamma=1.0),
    "AutoFTRL by feature": lambda: ps.AutoFTRL(scale="feature"),
}


def load(folder: Path, name: str) -> tuple[csr_matrix, np.ndarray]:
    """Return rows and labels."""
    parts = np.load(folder / f"{name}.npz")
    return csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])), parts["y"]


def online(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return one pass of each learner over each stream."""
    tasks = {}
    for name in STREAMS:
        X, y = load(folder, name)
        for learner, made in LEARNERS.items():
            model = ps.StreamClassifier(made(), penalty=ps.L1(1e-6))
            tasks[f"online: {learner}, {name}"] = lambda model=model, X=X, y=y: model.fit(X, y)
    return tasks


def batch(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return fits of each kind of batch solver on each set, with LIBLINEAR's C."""
    tasks = {}
    for name in SETS:
        X, y = load(folder, name)
        rows = X.shape[0]
        models = {
            f"{word} logistic, C = {C}": ps.CertifiedClassifier(penalty=penalty(1.0 / (C * rows)), fit_intercept=False)
            for word, penalty, C in (("L1", ps.L1, 1), ("L1", ps.L1, 10), ("L2", ps.L2, 1))
        }
        models["L2 hinge by SDCA, C = 1"] = ps.SDCAClassifier(
            "hinge", penalty=ps.L2(1.0 / rows), fit_intercept=False, tol=1e-3, random_state=0
        )
        largest = float(np.abs(X.T @ y).max()) / rows
        models["lasso, a tenth of the largest l1"] = ps.CertifiedRegressor(penalty=ps.L1(0.1 * largest))
        for word, model in models.items():
            tasks[f"batch: {word}, {name}"] = lambda model=model, X=X, y=y: model.fit(X, y)
    return tasks


def main(folder: Path) -> None:
    """Answer requests until the input ends; what is compiled is compiled before a task is timed for the first time."""
    tasks = online(folder) | batch(folder)
    print(*tasks, sep="\n", end="\n\n", flush=True)
    done = set()
    for line in sys.stdin:
        run = tasks[line.rstrip("\n")]
        if line not in done:
            run()
            done.add(line)
        begun = time.perf_counter()
        run()
        print(time.perf_counter() - begun, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
