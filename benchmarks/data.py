"""Streams to measure on, made in memory: the same for every contestant, the same in every run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix


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
