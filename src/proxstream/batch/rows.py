"""Rows as a certificate reads them: checked, with labels as the loss knows them, scored, again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .. import losses
from .._checks import Array
from ..blocks import RowBlock, as_block
from .models import LinearModel


class InMemory:
    """One block, scored once."""

    def __init__(self, rows: RowBlock, linear: LinearModel):
        self.rows, self.scores = rows, _scored(rows, linear)

    def __iter__(self) -> Iterator[tuple[RowBlock, Array]]:
        yield self.rows, self.scores


class Stream:
    """Blocks that are read and scored anew in each pass."""

    def __init__(self, stream: Iterable[Any], linear: LinearModel):
        if not hasattr(stream, "__iter__"):
            raise TypeError(f"X must be a matrix with y beside it, or a stream, got {type(stream).__name__}")
        if iter(stream) is stream:
            raise TypeError("a certificate reads a stream several times: it cannot be an iterator")
        self.stream, self.linear = stream, linear

    def __iter__(self) -> Iterator[tuple[RowBlock, Array]]:
        for element in self.stream:
            element = getattr(element, "rows", element)  # of a chunk
            if isinstance(element, RowBlock):
                rows = element
            elif isinstance(element, tuple) and len(element) in (2, 3):
                rows = as_rows(*element, *(None,) * (3 - len(element)))
            else:
                raise TypeError(
                    f"a stream is made of (X, y), (X, y, sample_weight) or RowBlock, got {type(element).__name__}"
                )
            if rows.n_rows:
                rows = labelled(rows, self.linear, counted=False)
                yield rows, _scored(rows, self.linear)


def _scored(rows: RowBlock, linear: LinearModel) -> Array:
    """Return the scores, one column an output."""
    from ..kernels.conjugates import scores

    columns, out = linear.coef.reshape(len(linear.coef), -1), np.empty((rows.n_rows, linear.n_outputs))
    for k, b in enumerate(np.broadcast_to(linear.intercept, linear.n_outputs)):
        p = np.empty(rows.n_rows)
        scores(rows, np.ascontiguousarray(columns[:, k]), float(b), p)
        out[:, k] = p
    return out


def weights_of(rows: RowBlock) -> Array:
    """Return one weight a row."""
    return rows.c if len(rows.c) else np.ones(rows.n_rows)


def as_rows(X: Any, y: Any, sample_weight: Any) -> RowBlock:
    """Return a matrix with its labels, whatever they are, as a block."""
    if isinstance(X, RowBlock):
        return X if y is None else X._replace(y=np.asarray(y))
    if hasattr(X, "to_numpy") and hasattr(X, "columns"):
        X = X.to_numpy()
    if y is None:
        raise TypeError("a matrix X needs its labels y")
    block = as_block(X, None, sample_weight)
    y = np.asarray(y)
    if y.shape != (block.n_rows,):
        raise ValueError(f"{block.n_rows} rows need as many labels, got y of shape {y.shape}")
    if len(block.c) and block.c.shape != (block.n_rows,):
        raise ValueError(f"sample_weight must have shape ({block.n_rows},), got {block.c.shape}")
    return block._replace(y=y)


def labelled(rows: RowBlock, linear: LinearModel, counted: bool) -> RowBlock:
    """Return checked rows with labels as the loss knows them and the classes' weights."""
    rows.check()
    rows.check_finite()
    if len(rows.c) and not (np.isfinite(rows.c) & (rows.c >= 0.0)).all():
        raise ValueError("a weight must be finite and >= 0")
    y, c = rows.y, rows.c
    if linear.classes is not None:
        at = np.minimum(np.searchsorted(linear.classes, y), len(linear.classes) - 1)
        if (linear.classes[at] != y).any():
            i = int(np.argmax(linear.classes[at] != y))
            raise ValueError(f"the model has no class {y.tolist()[i]!r}: its classes are {linear.classes.tolist()}")
        c = _class_weighted(c, at, linear, counted)
        y = at.astype(np.float64) if linear.n_outputs > 1 else 2.0 * at - 1.0
    if linear.n_outputs > 1:
        losses.softmax.check_labels(y, linear.n_outputs)
    else:
        linear.loss.check_labels(y)
    return rows._replace(y=np.asarray(y, dtype=np.float64), c=c)


def _class_weighted(c: Array, at: Array, linear: LinearModel, counted: bool) -> Array:
    told, classes = linear.class_weight, linear.classes
    if told is None or classes is None:
        return c
    if isinstance(told, str):
        if not counted:
            raise ValueError(f"class_weight={told!r} needs all labels at once: give the weights in the stream")
        of = len(at) / (len(classes) * np.maximum(np.bincount(at, minlength=len(classes)), 1))
    else:
        of = np.array([told.get(k, 1.0) for k in classes.tolist()])
    return np.asarray(of[at] * (c if len(c) else 1.0))


def signs_of(y: Array, k: int) -> Array:
    """Return +1 in the label's column, -1 in the others."""
    return np.where(y[:, None] == np.arange(k), 1.0, -1.0)
