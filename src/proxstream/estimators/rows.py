"""From what users hand in to row blocks, a piece at a time, so that no second copy of the data is ever whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from .._checks import Array
from ..blocks import NO_WEIGHTS, RowBlock, as_block

PIECE = 1 << 19  # entries of a block that is a copy
THREAD_ROWS = 1 << 12  # rows that a thread should find in a block


class Batch(NamedTuple):
    """A checked matrix (dense, CSR, or rows of a stream as they came) with labels as the loss knows them, and weights.

    Empty weights are all 1. `qid` is for rankers: one integer a row. `columns` are those of a matrix that has been made
    a row block.
    """

    X: Any
    y: Array
    c: Array = NO_WEIGHTS
    qid: Any = None
    columns: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.n_rows if isinstance(self.X, RowBlock) else int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns; of a row block that was no matrix one more than the largest index."""
        if self.columns or not isinstance(self.X, RowBlock):
            return self.columns or int(self.X.shape[1])
        return self.X.n_features

    @property
    def dtype(self) -> Any:
        """Precision of the features."""
        return self.X.data.dtype if isinstance(self.X, RowBlock) else self.X.dtype


def blocks(
    batch: Batch, *, order: Array | None = None, pieces: bool = False, n_threads: int = 1
) -> Iterator[tuple[RowBlock, Array | None]]:
    """Yield the batch as row blocks with their qid, its rows in the given order.

    CSR rows in their own order are views: one block, or several where `pieces` are asked for. Dense rows, and rows in
    another order, are copied, at most a piece at a time.
    """
    from ..kernels.matrix import non_zeros

    X, y, c, qid, _ = batch
    if isinstance(X, RowBlock):
        yield X._replace(y=y, c=c), qid
        return
    sparse, n_rows = issparse(X), batch.n_rows
    whole = as_block(X, y, c) if sparse and order is None else None
    if whole is not None and not pieces:
        yield whole, qid
        return
    entries = X.nnz / n_rows if sparse else X.shape[1]
    step = max(1, int(PIECE / max(entries, 1.0)), THREAD_ROWS * n_threads if n_threads > 1 else 0)
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        at: Any = slice(start, stop) if order is None else order[start:stop]
        if whole is not None:
            block = part(whole, start, stop)
        else:
            labels, weights = y[at] if len(y) else y, c[at] if len(c) else c
            block = as_block(X[at], labels, weights) if sparse else RowBlock(*non_zeros(X[at]), labels, weights)
        yield block, None if qid is None else qid[at]


def part(rows: RowBlock, start: int, stop: int) -> RowBlock:
    """Return rows start to stop as a block of their own; only their row pointers are copied."""
    first, last = rows.indptr[start], rows.indptr[stop]
    return RowBlock(
        rows.indptr[start : stop + 1] - first,
        rows.indices[first:last],
        rows.data[first:last],
        rows.y[start:stop],
        rows.c[start:stop] if len(rows.c) else rows.c,
    )


def element_parts(element: Any, ranks: bool) -> tuple[Any, Any, Any, Any]:
    """Return X, y, qid and weights of an element of a stream; None for what it does not have."""
    X, *rest = element if isinstance(element, tuple) and not isinstance(element, RowBlock) else (element,)
    if isinstance(X, RowBlock):
        rest = [X.y, *rest, *([X.c] if len(X.c) else [])] if len(rest) <= ranks else []
    if not ranks and len(rest) in (1, 2):
        return X, rest[0], None, rest[1] if len(rest) == 2 else None
    if ranks and len(rest) in (2, 3):
        return X, rest[0], rest[1], rest[2] if len(rest) == 3 else None
    made = "(X, y), (X, y, sample_weight) or RowBlock"
    if ranks:
        made = "(X, y, qid), (X, y, qid, sample_weight) or (RowBlock, qid)"
    raise TypeError(f"a stream is made of {made}, got {type(element).__name__}")


def encoded(y: Any, classes: Array) -> Array:
    """Return each label's place among the sorted classes.

    >>> encoded(np.array(["b", "a"]), np.array(["a", "b"]))
    array([1, 0])
    """
    y = np.asarray(y)
    at = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[at] != y
    if np.any(unknown):
        i = int(np.argmax(unknown))
        raise ValueError(
            f"y has the label {y.tolist()[i]!r} at index {i}, which is none of the classes {classes.tolist()}; "
            "classes that come later are declared up front, as partial_fit(X, y, classes=...)"
        )
    return np.asarray(at)
