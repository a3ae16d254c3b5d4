"""Streams, row blocks and tables as input of estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.validation import Array
from ..data.rowblock import RowBlock

if TYPE_CHECKING:
    from ..io.features.featurizer import Featurizer
    from ..io.open import Stream


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


def start_features(stream: Stream) -> None:
    """Let a stream make features from scratch for a new model, and by default prepare numbers to be standardized."""
    from ..io.features.featurizer import Featurizer
    from ..io.features.spec import FeatureSpec

    given = stream.given_features
    if isinstance(given, Featurizer):
        stream.use_features(given.with_own_statistics(fresh=True))
    else:
        stream.use_features((given or FeatureSpec()).standardizing())


def continue_features(stream: Stream, featurizer: Featurizer) -> None:
    """Let a stream make features as those of a model were made, unless it was opened with a featurizer."""
    from ..io.features.featurizer import Featurizer

    if not isinstance(stream.given_features, Featurizer):
        stream.use_features(featurizer.with_roles(stream.given_features))


def read_as_learned(model: Any, X: Any) -> Any:
    """Return X, a stream so that its columns are read as those that a model has learned."""
    if is_stream(X) and "_featurizer" in vars(model):
        continue_features(X, model.featurizer_)
    return X


def labelled_blocks(model: Any, X: Any) -> Iterator[tuple[RowBlock, Array | None]]:
    """Yield the blocks of a stream, or a block by itself, with their qid; a ValueError where rows have no labels."""
    if not isinstance(X, RowBlock) and not is_stream(X):
        raise ValueError("score needs y, or a stream or RowBlock with labels")
    for element in (X,) if isinstance(X, RowBlock) else read_as_learned(model, X):
        rows, qid = (element, None) if isinstance(element, RowBlock) else element
        if len(rows.y) != rows.n_rows or (rows.y.dtype.kind == "f" and np.isnan(rows.y).any()):
            raise ValueError("score needs y, since the rows have no labels")
        yield rows, qid


def predicted_blocks(model: Any, X: Any) -> tuple[Array, Array, Array | None]:
    """Return the predictions, labels and weights (None: all 1) of labelled blocks, in one pass over them."""
    parts = [(model.predict(rows), rows.y, rows.weights()) for rows, _ in labelled_blocks(model, X)]
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
