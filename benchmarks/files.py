"""Files to measure on: the same rows as svmlight text, as Vowpal Wabbit's, as a row cache, as CSV and as Parquet.

A file of many rows is a piece of distinct rows written again and again: what a reader and a learner do with a row does
not depend on whether they have seen it, and making text in Python is slow.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .data import Stream, zipf

PIECE = 20_000  # distinct rows
BITS = 22
NUMBERS, CATEGORIES = 13, 26


class Pair(NamedTuple):
    """The same rows for us and for Vowpal Wabbit."""

    ours: Path
    vw: Path


def repeated(path: Path, head: bytes, piece: bytes, times: int) -> Path:
    """Write a piece so many times behind a head."""
    with path.open("wb") as file:
        file.write(head)
        for _ in range(times):
            file.write(piece)
    return path


def sparse(folder: Path, times: int, stream: Stream) -> Pair:
    """Write sparse rows of numbered features as svmlight text and as Vowpal Wabbit's."""
    X, y = stream.X, stream.y
    ours, vw = [], []
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        cells = " ".join(f"{j}:{v:.6g}" for j, v in zip(X.indices[row], X.data[row], strict=True))
        ours.append(f"{int(y[i])} {cells}\n")
        vw.append(f"{int(y[i])} | {cells}\n")
    name = f"sparse-{times}"
    return Pair(
        repeated(folder / f"{name}.svm", b"", "".join(ours).encode(), times),
        repeated(folder / f"{name}.vw", b"", "".join(vw).encode(), times),
    )


def text(folder: Path, times: int, seed: int = 0) -> Pair:
    """Write rows of words in two namespaces, as Vowpal Wabbit's text for both."""
    rng = np.random.default_rng(seed)
    words = (100_000 * rng.random((PIECE, 30)) ** 3).astype(np.int64)
    labels = np.where((words % 7 == 0).sum(axis=1) + rng.random(PIECE) > 4.5, 1, -1)
    lines = (
        f"{label} |title " + " ".join(f"w{w:x}" for w in row[:8]) + " |body " + " ".join(f"w{w:x}" for w in row[8:])
        for label, row in zip(labels.tolist(), words.tolist(), strict=True)
    )
    path = repeated(folder / f"words-{times}.vw", b"", ("\n".join(lines) + "\n").encode(), times)
    return Pair(path, path)


def clicks(folder: Path, times: int, seed: int = 0) -> tuple[Pair, Path]:
    """Write rows of 13 numbers and 26 categories as CSV, as Vowpal Wabbit's text, and as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    numbers = np.floor(np.exp(3.0 * rng.standard_normal((PIECE, NUMBERS)) ** 2 / 2)).clip(0, 1e6).astype(np.int64)
    absent = rng.random((PIECE, NUMBERS)) < 0.2
    sizes = np.logspace(1, 5.5, CATEGORIES).astype(np.int64)
    drawn = (sizes * rng.random((PIECE, CATEGORIES)) ** 3).astype(np.int64)
    categories = [[f"{hash32(j, v):08x}" for j, v in enumerate(row)] for row in drawn.tolist()]
    labels = (rng.random(PIECE) < 0.1 + 0.3 * (drawn[:, 0] == 0)).astype(np.int64)
    names = [f"I{j + 1}" for j in range(NUMBERS)] + [f"C{j + 1}" for j in range(CATEGORIES)]
    rows, lines = [], []
    for label, number, missing, category in zip(
        labels.tolist(), numbers.tolist(), absent.tolist(), categories, strict=True
    ):
        cells = ["" if gone else str(value) for value, gone in zip(number, missing, strict=True)]
        rows.append(f"{label}," + ",".join(cells + category))
        present = " ".join(f"I{j + 1}:{value}" for j, value in enumerate(cells) if value)
        spaces = " ".join(f"|C{j + 1} {value}" for j, value in enumerate(category))
        lines.append(f"{2 * label - 1} | {present} {spaces}")
    header = ",".join(["label", *names]) + "\n"
    pair = Pair(
        repeated(folder / f"clicks-{times}.csv", header.encode(), ("\n".join(rows) + "\n").encode(), times),
        repeated(folder / f"clicks-{times}.vw", b"", ("\n".join(lines) + "\n").encode(), times),
    )
    columns = {"label": pa.array(labels)}
    columns |= {f"I{j + 1}": pa.array(numbers[:, j], mask=absent[:, j]) for j in range(NUMBERS)}
    columns |= {f"C{j + 1}": pa.array([row[j] for row in categories]) for j in range(CATEGORIES)}
    table = pa.table(columns)
    path = folder / f"clicks-{times}.parquet"
    with parquet.ParquetWriter(path, table.schema) as writer:
        for _ in range(times):
            writer.write_table(table)
    return pair, path


def hash32(column: int, value: int) -> int:
    """Return eight hexadecimal digits' worth of a category's name."""
    return (value * 2654435761 + column * 40503) % (1 << 32)


def cache(source: Path) -> Path:
    """Convert a file to a row cache."""
    path = source.with_suffix(".psr")
    subprocess.run([sys.executable, "-m", "proxstream", "convert", str(source), str(path)], check=True)
    return path


def small(folder: Path, rows: int = 1000) -> Path:
    """Write a file that takes no time, to see how long everything else takes."""
    return sparse(folder, 1, zipf(rows, 16, 10)).ours


def removed(paths: Iterable[Path]) -> None:
    """Remove files."""
    for path in paths:
        path.unlink(missing_ok=True)
