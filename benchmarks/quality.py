"""One pass at defaults: the loss of each prediction made before its row was learned, beside the peers' own defaults.

    python -m benchmarks quality [--rows N] [FILE.svm ...]

Streams of seven kinds are made here or come with scikit-learn; svmlight files are added to them. Every contestant sees
the same rows in the same order, once. Scores are clipped to [-50, 50] for all, as Vowpal Wabbit clips its own, so that
no figure hangs on a single row. Two things to know when reading:

- Vowpal Wabbit rescales its weights to a row before it predicts it in training; no other contestant does, and a saved
  model of its own does not either.
- SGDClassifier learns blocks of 8 rows between predictions, since a call costs far more than a row. "best" is the best
  of its constant rates 10^-4 ... 1 on that same stream, chosen afterwards: a bound on tuning it, not a contestant.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from scipy.sparse import csr_matrix, random_array

import proxstream as ps
from proxstream.data.rowblock import as_block
from proxstream.learner.learner import Learner

from .data import Stream, svmlight
from .harness import save

RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
BLOCK = 8  # rows that SGDClassifier learns at a time


# -- streams -------------------------------------------------------------------------------------


def _labels(scores: Any, rng: np.random.Generator) -> Any:
    return np.where(rng.random(len(scores)) < 1.0 / (1.0 + np.exp(-scores)), 1.0, -1.0)


def _documents(rows: int, rng: np.random.Generator, words: int = 30_000) -> csr_matrix:
    """Word counts: zipf-like words, documents of very different lengths."""
    lengths = np.maximum(rng.lognormal(3.5, 0.9, rows).astype(int), 2)
    word = np.minimum((words ** rng.random(lengths.sum())).astype(int), words) - 1
    counts = csr_matrix((np.ones(len(word)), (np.repeat(np.arange(rows), lengths), word)), shape=(rows, words))
    counts.sum_duplicates()
    return counts


def text_counts(rows: int) -> Stream:
    """Raw word counts."""
    rng = np.random.default_rng(1)
    X = _documents(rows, rng)
    return Stream("text, counts", X, _labels(np.sqrt(X) @ rng.normal(0.0, 0.6, X.shape[1]), rng))


def text_unit_rows(rows: int) -> Stream:
    """tf-idf, rows of length one."""
    from sklearn.feature_extraction.text import TfidfTransformer

    rng = np.random.default_rng(2)
    X = csr_matrix(TfidfTransformer(sublinear_tf=True).fit_transform(_documents(rows, rng)))
    return Stream("text, unit rows", X, _labels(X @ rng.normal(0.0, 6.0, X.shape[1]), rng))


def clicks(rows: int) -> Stream:
    """Categories of very different sizes, one active in each of 12 columns, one label in eight positive."""
    rng = np.random.default_rng(3)
    sizes = (2, 5, 7, 12, 24, 31, 60, 200, 900, 3_000, 9_000, 20_000)
    columns = [
        np.minimum((size ** rng.random(rows)).astype(int), size) - 1 + sum(sizes[:k]) for k, size in enumerate(sizes)
    ]
    indices = np.stack(columns, axis=1).ravel()
    X = csr_matrix(
        (np.ones(len(indices)), indices, np.arange(0, len(indices) + 1, len(sizes))), shape=(rows, sum(sizes))
    )
    return Stream("categories, click-like", X, _labels(X @ rng.normal(0.0, 0.5, X.shape[1]) - 2.2, rng))


def wild(rows: int) -> Stream:
    """30 dense columns with heavy tails and units from 1e-3 to 1e4."""
    rng = np.random.default_rng(4)
    Z = rng.standard_t(4, (rows, 30))
    return Stream(
        "numbers, wild scales",
        csr_matrix(Z * 10.0 ** rng.uniform(-3, 4, 30)),
        _labels(Z @ rng.normal(0.0, 0.4, 30), rng),
    )


def pixels(rows: int) -> Stream:
    """scikit-learn's digits, 0 to 4 against 5 to 9, raw pixels: each of the 1,797 once."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(5).permutation(len(y))[:rows]
    return Stream("digits, raw pixels", csr_matrix(X[order]), np.where(y[order] < 5, 1.0, -1.0))


def drifting(rows: int) -> Stream:
    """The base rate swings, and the weights turn, while the stream goes on."""
    rng = np.random.default_rng(6)
    Z, when = rng.normal(size=(rows, 20)), np.arange(rows)[:, None] / rows
    W = rng.normal(size=20) + 2.0 * np.sin(8.0 * when) * rng.normal(size=20)
    swing = 2.0 * np.sin(60.0 * when[:, 0])
    return Stream(
        "drifting", csr_matrix(Z * 10.0 ** rng.uniform(-2, 2, 20)), _labels(0.7 * (Z * W).sum(axis=1) + swing, rng)
    )


def abrupt(rows: int) -> Stream:
    """All weights are drawn again at every fifth of the stream."""
    rng = np.random.default_rng(7)
    X = csr_matrix(random_array((rows, 300), density=0.04, rng=rng, data_sampler=lambda size: np.ones(size)))
    W = rng.normal(0.0, 0.8, (5, 300))
    scores = np.einsum("ij,ij->i", X.toarray(), W[np.minimum(np.arange(rows) * 5 // rows, 4)])
    return Stream("drifting, abrupt", X, _labels(scores, rng))


STREAMS: tuple[Callable[[int], Stream], ...] = (
    text_unit_rows,
    text_counts,
    clicks,
    wild,
    pixels,
    drifting,
    abrupt,
)


# -- contestants ---------------------------------------------------------------------------------


def log_loss(scores: Any, y: Any) -> float:
    """Mean log loss of clipped scores."""
    return float(np.mean(np.logaddexp(0.0, -y * np.clip(scores, -50.0, 50.0))))


def ours(stream: Stream, algorithm: ps.AutoFTRL) -> float:
    """AutoFTRL, nothing set but whether to track."""
    learner = Learner(algorithm, n_features=stream.X.shape[1], dtype=np.float32)
    return log_loss(learner.learn(as_block(stream.X, stream.y, dtype=np.float32)), stream.y)


def scikit_learn(stream: Stream, **settings: Any) -> float:
    """SGDClassifier, block by block."""
    from sklearn.linear_model import SGDClassifier

    model, scores = SGDClassifier(loss="log_loss", random_state=0, **settings), np.zeros(len(stream.y))
    for start in range(0, len(scores), BLOCK):
        X, y = stream.X[start : start + BLOCK], stream.y[start : start + BLOCK]
        if start:
            scores[start : start + BLOCK] = model.decision_function(X)
        model.partial_fit(X, y, classes=[-1.0, 1.0])
    return log_loss(scores, stream.y)


def vowpal_wabbit(data: Path, y: Any, options: str) -> float:
    """Vowpal Wabbit from its own text, its predictions as it writes them while it learns."""
    from vowpalwabbit import Workspace

    out = data.with_suffix(".scores")
    Workspace(f"-d {data} -p {out} -b 22 --quiet --loss_function logistic {options}").finish()
    return log_loss(np.loadtxt(out), y)


def _write_vw(stream: Stream, path: Path) -> None:
    X = stream.X
    with path.open("w") as file:
        for i, label in enumerate(stream.y):
            pairs = zip(X.indices[X.indptr[i] : X.indptr[i + 1]], X.data[X.indptr[i] : X.indptr[i + 1]], strict=True)
            file.write(f"{label:g} | " + " ".join(f"{j}:{x:.9g}" for j, x in pairs) + "\n")


def compare(stream: Stream) -> dict[str, float]:
    """Return everyone's loss on one stream."""
    losses = {"AutoFTRL": ours(stream, ps.AutoFTRL()), "AutoFTRL track": ours(stream, ps.AutoFTRL(track=True))}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.vw"
        _write_vw(stream, data)
        for name, options in (("vw", ""), ("vw --ftrl", "--ftrl"), ("vw --coin", "--coin")):
            losses[name] = vowpal_wabbit(data, stream.y, options)
    losses["SGDClassifier"] = scikit_learn(stream)
    losses["SGD best"] = min(scikit_learn(stream, learning_rate="constant", eta0=rate) for rate in RATES)
    return losses


def main(arguments: list[str]) -> None:
    """Print and keep the table; * marks a stream where a default peer has the lower loss."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks quality", description="Progressive log loss, one pass.")
    parser.add_argument("files", nargs="*", help="svmlight files to add")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the streams made here; 0 for the files alone")
    options = parser.parse_args(arguments)
    streams = [make(options.rows) for make in STREAMS] if options.rows else []
    found = {stream.name: compare(stream) for stream in [*streams, *map(svmlight, options.files)]}
    names = list(next(iter(found.values())))
    table = Table("", *names, title="Progressive log loss, one pass, defaults", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for stream, losses in found.items():
        beaten = losses["AutoFTRL"] > min(losses[name] for name in ("vw", "vw --ftrl", "SGDClassifier"))
        table.add_row(f"{stream} *" if beaten else stream, *(f"{losses[name]:.4g}" for name in names))
    save("quality", [table], {"progressive_log_loss": found})
