"""Streams, row blocks and tables as input of estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..core.validation import Array
from ..data.rowblock import RowBlock


def is_stream(X: Any) -> bool:
    """Return whether X is what `open_stream` gives."""
    from ..io.open import Stream

    return isinstance(X, Stream)


def is_table(X: Any) -> bool:
    """Return whether X is a data frame or an Arrow table."""
    return hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__")


def without_column(X: Any, name: str) -> tuple[Any, Array | None]:
    """Return a table without a column, and the column as an array, None if there is no such column."""
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    if name not in names:
        return X, None
    rest = [other for other in names if other != name]
    return X.select(rest) if hasattr(X, "column_names") else X[rest], np.asarray(X[name])


def standardized_rows(stream: Iterable[Any], *, learn: bool) -> Iterator[Any]:
    """Yield the elements of a stream; numbers of tables are standardized if their featurizer does so."""
    for element in stream:
        used = stream.used_featurizer if is_stream(stream) else None  # type: ignore[attr-defined]
        if used is None or not used.standardizes:
            yield element
        elif isinstance(element, RowBlock):
            yield used.standardize(element, learn=learn)
        else:
            yield used.standardize(element[0], learn=learn), *element[1:]


def labelled_blocks(X: Any) -> Iterator[tuple[RowBlock, Array | None]]:
    """Yield the blocks of a stream, or a block by itself, with their qid; a ValueError where rows have no labels."""
    if not isinstance(X, RowBlock) and not is_stream(X):
        raise ValueError("score needs y, or a stream or RowBlock with labels")
    for element in (X,) if isinstance(X, RowBlock) else standardized_rows(X, learn=False):
        rows, qid = (element, None) if isinstance(element, RowBlock) else element
        if len(rows.y) != rows.n_rows or (rows.y.dtype.kind == "f" and np.isnan(rows.y).any()):
            raise ValueError("score needs y, since the rows have no labels")
        yield rows, qid


def predicted_blocks(predict: Callable[[RowBlock], Array], X: Any) -> tuple[Array, Array, Array | None]:
    """Return the predictions, labels and weights (None: all 1) of labelled blocks, in one pass over them."""
    parts = [(predict(rows), rows.y, rows.weights()) for rows, _ in labelled_blocks(X)]
    if not parts:
        raise ValueError("score needs at least one row, got none")
    predicted, y, c = (np.concatenate(column) for column in zip(*parts, strict=True))
    return predicted, y, c if (c != 1.0).any() else None


def block_scores(score: Callable[[RowBlock], Array], X: Any) -> Array:
    """Return the scores of a stream's rows, one block at a time."""
    found = [score(element if isinstance(element, RowBlock) else element[0]) for element in X]
    if not found:
        return score(RowBlock(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0)))
    return np.concatenate(found)
