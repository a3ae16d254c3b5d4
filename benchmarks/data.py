"""Streams to measure on, made in memory: the same for every contestant, the same in every run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

NUMBERS = [f"I{i}" for i in range(1, 14)]
# Values of each category, from a handful to millions, as uneven as those of logged clicks.
SIZES = [1460, 583, 10**7, 2 * 10**6, 305, 24, 12_517, 633, 3, 93_145, 5683, 8 * 10**6, 3194, 27, 14_992, 5 * 10**6, 10]
SIZES += [5652, 2173, 4, 7 * 10**6, 18, 15, 286_181, 105, 142_572]
CATEGORIES = {f"C{i}": size for i, size in enumerate(SIZES, 1)}


class Stream(NamedTuple):
    """Rows and labels -1/+1."""

    name: str
    X: csr_matrix
    y: np.ndarray


def zipf(rows: int = 400_000, bits: int = 20, per_row: int = 67, seed: int = 0) -> Stream:
    """Sparse rows of unit length, feature frequencies falling like a power of the rank: text or hashed clicks."""
    rng = np.random.default_rng(seed)
    d = 1 << bits
    indices = np.sort((d * rng.random((rows, per_row)) ** 3).astype(np.int32), axis=1)
    indptr = np.arange(0, rows * per_row + 1, per_row, dtype=np.int32)
    data = np.full(rows * per_row, 1 / np.sqrt(per_row), np.float32)
    X = csr_matrix((data, indices.ravel(), indptr), shape=(rows, d))
    X.sum_duplicates()
    w = rng.standard_normal(d).astype(np.float32) * (rng.random(d) < 0.2) * 4
    noise = rng.standard_normal(rows)
    return Stream(f"zipf-like, {rows:,} rows, 2^{bits} features", X, np.where(X @ w + noise > 0, 1.0, -1.0))


def digits(rows: int = 60_000, seed: int = 0) -> Stream:
    """Dense rows of 784 numbers from 0 to 1, most of them zero, as in pictures of digits."""
    rng = np.random.default_rng(seed)
    centre = rng.integers(0, 28, (rows, 2, 2))
    grid = np.arange(28)
    image = np.zeros((rows, 28, 28), np.float32)
    for blob in range(2):
        dx = np.exp(-((grid - centre[:, blob, :1]) ** 2) / 30.0)
        dy = np.exp(-((grid - centre[:, blob, 1:]) ** 2) / 30.0)
        image += (dx[:, :, None] * dy[:, None, :]).astype(np.float32)
    image[image < 0.3] = 0.0
    X = image.reshape(rows, 784)
    w = rng.standard_normal(784).astype(np.float32)
    return Stream(
        f"digits-like, {rows:,} rows, 784 features", csr_matrix(X), np.where(X @ w > np.median(X @ w), 1.0, -1.0)
    )


def one_hot(rows: int = 32_000, seed: int = 0) -> Stream:
    """A dozen categories and binned numbers, one-hot: tall, narrow and collinear, as census data are."""
    rng = np.random.default_rng(seed)
    sizes = np.array([5, 8, 16, 7, 14, 6, 5, 2, 2, 2, 5, 39, 8, 4])
    columns = []
    for size, start in zip(sizes, np.cumsum(sizes) - sizes, strict=True):
        share = rng.dirichlet(np.full(size, 0.5))
        columns.append(start + rng.choice(size, rows, p=share))
    indices = np.stack(columns, axis=1).astype(np.int32)
    indptr = np.arange(0, rows * len(sizes) + 1, len(sizes), dtype=np.int32)
    X = csr_matrix((np.ones(indices.size, np.float32), indices.ravel(), indptr), shape=(rows, int(sizes.sum())))
    score = X @ rng.normal(0.0, 1.0, X.shape[1]) - 1.5
    return Stream(f"one-hot, {rows:,} x {X.shape[1]}", X, np.where(rng.logistic(size=rows) < score, 1.0, -1.0))


def rare(rows: int = 40_000, features: int = 300, per_row: int = 12, positive: float = 0.03, seed: int = 0) -> Stream:
    """Short binary rows over few features of uneven frequency, with few positive labels: small and sparse."""
    rng = np.random.default_rng(seed)
    share = (1.0 + np.arange(features)) ** -0.7
    lengths = np.minimum(rng.poisson(per_row - 1, rows) + 1, features // 2)
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    drawn = rng.choice(features, int(indptr[-1]), p=share / share.sum()).astype(np.int32)
    X = csr_matrix((np.ones(len(drawn), np.float32), drawn, indptr), shape=(rows, features))
    X.sum_duplicates()
    X.data[:] = 1.0
    score = X @ rng.normal(0.0, 0.7, features) + rng.logistic(size=rows)
    return Stream(f"rare, {rows:,} x {features}", X, np.where(score > np.quantile(score, 1.0 - positive), 1.0, -1.0))


def strokes(rows: int = 12_000, seed: int = 0) -> Stream:
    """Pictures of two blobs, noisy labels: dense rows of 784, most of them zero, strongly correlated."""
    stream = digits(rows, seed)
    flips = np.random.default_rng(seed + 1).random(rows) < 0.03
    return Stream(f"digits-like, {rows:,} x 784", stream.X, np.where(flips, -stream.y, stream.y))


def svmlight(path: str) -> Stream:
    """Rows of a file, labels made -1/+1 at their middle."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(path, dtype=np.float32)
    return Stream(path.rsplit("/", 1)[-1], csr_matrix(X), np.where(y > (y.min() + y.max()) / 2, 1.0, -1.0))


def clicks(rows: int, seed: int = 0) -> Any:
    """Return an Arrow table of clicks: a label 0/1, 13 whole numbers and 26 categories of 8 hexadecimal digits.

    Numbers are heavy-tailed; a value out of ten or so is missing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    score = rng.standard_normal(rows) - 1.0
    for i, name in enumerate(NUMBERS):
        x = np.floor(np.exp(1.5 * rng.standard_normal(rows) + i % 5)).astype(np.int64) - 1
        columns[name] = pa.array(x, mask=rng.random(rows) < 0.04 * (i % 5))
        score += (0.1 if i % 2 else -0.1) * np.log1p(np.maximum(x, 0))
    places = np.arange(28, -1, -4, dtype=np.uint64)
    for i, (name, values) in enumerate(CATEGORIES.items()):
        value = (values * rng.random(rows) ** 4).astype(np.uint64)
        code = (value * np.uint64(2654435761) + np.uint64(i * 0x9E3779B9)) & np.uint64(0xFFFFFFFF)
        if i % 3 == 0:
            score += (((code >> np.uint64(7)) & np.uint64(63)).astype(float) - 32) / 64
        digits = np.frombuffer(b"0123456789abcdef", np.uint8)[
            ((code[:, None] >> places) & np.uint64(15)).astype(np.intp)
        ]
        offsets = np.arange(0, 8 * rows + 1, 8, dtype=np.int32)
        words = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(digits))
        columns[name] = pc.if_else(pa.array(rng.random(rows) < 0.03 * (i % 6)), None, words)
    return pa.table({"label": (score > 0).astype(np.int8), **columns})


def vw_lines(table: Any) -> bytes:
    """Return a table of clicks as Vowpal Wabbit's text: numbers without a namespace, a namespace for each category.

    With `--hash all` its features are those that a hashed table has.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [pc.if_else(pc.equal(table["label"], 1), "1 |", "-1 |")]
    for name in NUMBERS:
        words = table[name].cast(pa.string())
        parts.append(pc.fill_null(pc.binary_join_element_wise(f" {name}:", words, ""), ""))
    for name in CATEGORIES:
        parts.append(pc.fill_null(pc.binary_join_element_wise(f" |{name} ", table[name], ""), ""))
    lines = pc.binary_join_element_wise(*parts, "")
    return ("\n".join(lines.to_pylist()) + "\n").encode()


def write_clicks(folder: Path, rows: int, piece: int = 100_000) -> dict[str, Path]:
    """Write the same clicks as CSV, Parquet and Vowpal Wabbit's text, a piece at a time; return the paths."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    paths = {kind: folder / f"clicks{rows}.{kind}" for kind in ("csv", "parquet", "vw")}
    schema = clicks(1).schema
    plain = pc.WriteOptions(include_header=False, quoting_style="none")
    with (
        paths["csv"].open("wb") as text,
        paths["vw"].open("wb") as lines,
        pq.ParquetWriter(paths["parquet"], schema) as parquet,
    ):
        text.write((",".join(schema.names) + "\n").encode())
        for table in _pieces(rows, piece):
            pc.write_csv(table, text, plain)
            lines.write(vw_lines(table))
            parquet.write_table(table)
    return paths


def _pieces(rows: int, piece: int) -> Iterator[Any]:
    for seed, start in enumerate(range(0, rows, piece)):
        yield clicks(min(piece, rows - start), seed)
