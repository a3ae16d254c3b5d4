"""Folds for cross-validation, and the losses on their held-out rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core import validation as _checks
from ..core.validation import Array

Fold = tuple[Array, Array]


class CrossValidation(NamedTuple):
    """Mean losses on the held-out rows, one row per fold and one column per strength."""

    losses: Array

    @property
    def mean(self) -> Array:
        """The mean over folds."""
        return np.asarray(self.losses.mean(axis=0))

    @property
    def error(self) -> Array:
        """The standard error of that mean."""
        return np.asarray(self.losses.std(axis=0, ddof=1) / np.sqrt(len(self.losses)))

    @property
    def best(self) -> int:
        """Index of the strength with the smallest mean."""
        return int(np.argmin(self.mean))

    @property
    def one_se(self) -> int:
        """Index of the largest strength whose mean is within one standard error of the smallest."""
        return int(np.argmax(self.mean <= self.mean[self.best] + self.error[self.best]))


def make_folds(cv: Any, y: Array, rng: np.random.Generator, *, stratify: bool, groups: Any = None) -> list[Fold]:
    """Return (training rows, held-out rows) of each fold.

    `cv` is None for no folds, their number, an object with scikit-learn's `split(X, y, groups)`, or pairs of arrays.
    If it is a number and `stratify` is true, the rows of each class are spread evenly over the folds.

    >>> make_folds(2, np.array([0.0, 0.0, 1.0, 1.0]), np.random.default_rng(0), stratify=True)
    [(array([1, 3]), array([0, 2])), (array([0, 2]), array([1, 3]))]
    """
    if cv is None:
        return []
    if not isinstance(cv, (int, np.integer)):
        if isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
            raise TypeError(
                "cv must be an integer, a splitter such as KFold(5), or pairs of arrays (training rows, held-out "
                f"rows), got {cv!r}"
            )
        pairs = cv.split(np.zeros((len(y), 1)), y, groups) if hasattr(cv, "split") else cv
        folds = [(_rows_of_fold(train, len(y)), _rows_of_fold(held_out, len(y))) for train, held_out in pairs]
        if len(folds) < 2:
            raise ValueError(f"cv must have 2 folds or more, got {len(folds)}")
        return folds
    n, k = len(y), _checks.integer("cv", cv, low=2)
    if k > n:
        raise ValueError(f"cv must be at most the number of rows, {n}, got {k}")
    order = rng.permutation(n)
    if stratify:
        if np.unique(y, return_counts=True)[1].min() < 2:
            raise ValueError("cross-validation needs 2 rows or more of each class, got a class of 1")
        order = order[np.argsort(y[order], kind="stable")]
    fold_of = np.empty(n, dtype=np.intp)
    fold_of[order] = np.arange(n) % k
    return [(np.flatnonzero(fold_of != f), np.flatnonzero(fold_of == f)) for f in range(k)]


def _rows_of_fold(rows: Any, n: int) -> Array:
    """Return row numbers, which may be given as a mask."""
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows) or rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"each fold of cv must be two arrays of row numbers from 0 to {n - 1}, got {rows!r}")
    return np.asarray(rows)
