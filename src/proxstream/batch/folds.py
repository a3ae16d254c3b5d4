"""Folds for cross-validation: rows to learn from, and rows held out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _checks
from .._checks import Array
from ..blocks import RowBlock

Fold = tuple[Array, Array]


def draw(cv: Any, y: Array, rng: np.random.Generator, *, by_class: bool) -> list[Fold]:
    """Return (rows to learn from, rows held out) of each fold; by class, the rows of each are dealt out evenly.

    `cv` is the number of folds, the folds themselves, or None, which makes none.

    >>> draw(2, np.array([0.0, 0.0, 1.0, 1.0]), np.random.default_rng(0), by_class=True)
    [(array([1, 3]), array([0, 2])), (array([0, 2]), array([1, 3]))]
    """
    if cv is None:
        return []
    if not isinstance(cv, (int, np.integer)):
        folds = [(np.asarray(learn), np.asarray(held)) for learn, held in cv]
        if len(folds) < 2:
            raise ValueError(f"cv must have 2 folds or more, got {len(folds)}")
        return folds
    n, k = len(y), _checks.integer("cv", cv, low=2)
    if k > n:
        raise ValueError(f"cv must be at most the number of rows, {n}, got {k}")
    order = rng.permutation(n)
    if by_class:
        if np.unique(y, return_counts=True)[1].min() < 2:
            raise ValueError("cross-validation needs 2 rows or more of each class, got a class of 1")
        order = order[np.argsort(y[order], kind="stable")]
    fold_of = np.empty(n, dtype=np.intp)
    fold_of[order] = np.arange(n) % k
    return [(np.flatnonzero(fold_of != f), np.flatnonzero(fold_of == f)) for f in range(k)]


def take(rows: RowBlock, at: Array) -> RowBlock:
    """Return some rows of a block.

    >>> from proxstream.blocks import as_block
    >>> take(as_block(np.eye(3), y=[1.0, 2.0, 3.0]), np.array([2, 0])).y
    array([3., 1.])
    """
    from scipy.sparse import csr_array

    matrix = csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, max(rows.n_features, 1)))[at]
    return RowBlock(matrix.indptr, matrix.indices, matrix.data, rows.y[at], rows.c[at] if len(rows.c) else rows.c)
