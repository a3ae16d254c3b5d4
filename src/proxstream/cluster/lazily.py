"""Predictions of dask collections: a task a partition, computed when they are asked for."""

from __future__ import annotations

import math
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np

from .. import modelfile
from .._checks import Array


def is_lazy(X: Any) -> bool:
    """Tell whether X is a dask array or data frame."""
    return (
        bool(dask.is_dask_collection(X))
        and hasattr(X, "to_delayed")
        and hasattr(X, "dtypes" if _framed(X) else "chunks")
    )


def _framed(X: Any) -> bool:
    return hasattr(X, "columns")


def predicted(model: Any, X: Any, method: str, width: int, dtype: Any) -> da.Array:
    """Return what a method of a fitted local model says of X, as a dask array of as many columns; 0 is a vector.

    What moves: the model's weights, once to each worker that computes a partition.
    """
    frozen = modelfile.unpack(*modelfile.pack(model, weights_only=True))
    shared = dask.delayed(frozen, name=f"proxstream-model-{uuid4().hex}", traverse=False)
    if _framed(X):
        blocks, sizes = X.to_delayed(), [math.nan] * X.npartitions
    else:
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        blocks, sizes = X.to_delayed().ravel(), X.chunks[0]
    told = dask.delayed(_of_block, pure=True)
    made = [
        da.from_delayed(told(shared, block, method), (size, *([width] if width else [])), dtype=dtype)
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return da.concatenate(made, allow_unknown_chunksizes=True)


def _of_block(model: Any, block: Any, method: str) -> Array:
    if len(block) if _framed(block) else block.shape[0]:
        return np.asarray(getattr(model, method)(block))
    return np.asarray(getattr(model, method)(np.zeros((1, model.n_features_in_))))[:0]
