"""Turn what users pass in into row blocks, one piece at a time, so that the data are never copied completely."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..core.records import NamedTuple
from ..core.validation import Array, vector
from .rowblock import NO_WEIGHTS, RowBlock, as_block
from .sparse_checks import check_sparse

PIECE = 1 << 19  # entries of a block that is a copy
THREAD_ROWS = 1 << 12  # rows that a thread should find in a block


class Batch(NamedTuple):
    """A checked matrix (dense, CSR, or rows of a stream as they came) with encoded labels, and weights.

    Empty weights are all 1. `qid` is for rankers: one integer per row. `columns` is the width of a matrix that was made
    a row block. `shift` is to be added to the sums of losses and of weights, which an offset has changed. `raw` are the
    rows of X before their numbers were standardized.
    """

    X: Any
    y: Array
    c: Array = NO_WEIGHTS
    qid: Any = None
    columns: int = 0
    shift: tuple[float, float] = (0.0, 0.0)
    raw: RowBlock | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.n_rows if isinstance(self.X, RowBlock) else int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns; of a row block that was not a matrix, one more than the largest index."""
        if self.columns or not isinstance(self.X, RowBlock):
            return self.columns or int(self.X.shape[1])
        return self.X.n_features

    @property
    def dtype(self) -> Any:
        """Precision of the features."""
        return self.X.data.dtype if isinstance(self.X, RowBlock) else self.X.dtype


def checked_matrix(X: Any) -> Any:
    """Return X; refuse a sparse matrix whose arrays do not fit together, which scikit-learn would not notice."""
    if issparse(X):
        check_sparse(X)
    return X


def check_weights(sample_weight: Any, n_rows: int) -> Array:
    """Return one weight >= 0 per row; an empty array where all are 1.

    >>> check_weights([1, 0.5], 2), check_weights(None, 2)
    (array([1. , 0.5]), array([], dtype=float64))
    """
    if sample_weight is None:
        return NO_WEIGHTS
    c = vector("sample_weight", sample_weight).astype(np.float64, copy=False)
    if c.ndim == 0:
        c = np.full(n_rows, float(c))
    if c.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},), got {c.shape}")
    if (c < 0.0).any():
        i = int(np.argmax(c < 0.0))
        raise ValueError(f"sample_weight must be >= 0, got {c[i]} at index {i}")
    return c


def blocks(
    batch: Batch, *, order: Array | None = None, pieces: bool = False, n_threads: int = 1
) -> Iterator[tuple[RowBlock, Array | None]]:
    """Yield the batch as row blocks with their qid, its rows in the given order.

    CSR rows in their own order are views: one block, or several where `pieces` are asked for. Dense rows, and rows in
    another order, are copied, at most a piece at a time.
    """
    from ._dense_to_csr import non_zeros

    X, y, c, qid, *_ = batch
    if isinstance(X, RowBlock):
        rows = X._replace(y=y, c=c)
        yield (rows, qid) if order is None else (rows.take(order), None if qid is None else qid[order])
        return
    sparse, n_rows = issparse(X), batch.n_rows
    whole = as_block(X, y, c, checked=True) if sparse and order is None else None
    if whole is not None and not pieces:
        yield whole, qid
        return
    entries = X.nnz / n_rows if sparse else X.shape[1]
    step = max(1, int(PIECE / max(entries, 1.0)), THREAD_ROWS * n_threads if n_threads > 1 else 0)
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        at: Any = slice(start, stop) if order is None else order[start:stop]
        if whole is not None:
            block = whole.slice(start, stop)
        else:
            labels, weights = y[at] if len(y) else y, c[at] if len(c) else c
            if sparse:
                block = as_block(X[at], labels, weights, checked=True)
            else:
                block = RowBlock(*non_zeros(X[at]), labels, weights)
        yield block, None if qid is None else qid[at]


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
