"""Predictions of the cluster's estimators: those of dask collections are computed on demand, block by block."""

from __future__ import annotations

import math
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..core.validation import Array
from ..estimators._classifier import has_probabilities
from ..models import file as modelfile


def is_lazy(X: Any) -> bool:
    """Return whether X is a dask array or data frame."""
    return (
        bool(dask.is_dask_collection(X))
        and hasattr(X, "to_delayed")
        and hasattr(X, "dtypes" if _is_frame(X) else "chunks")
    )


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns")


def predict_lazily(model: Any, X: Any, method: str, width: int, dtype: Any) -> da.Array:
    """Return a method of a fitted local model on X as a dask array of `width` columns, or a vector (0); not computed.

    Over the network: the weights of the model, once to each worker that computes a partition.
    """
    frozen = modelfile.unpack(*modelfile.pack(model, weights_only=True))
    shared = dask.delayed(frozen, name=f"proxstream-model-{uuid4().hex}", traverse=False)
    if _is_frame(X):
        blocks, sizes = X.to_delayed(), [math.nan] * X.npartitions
    else:
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        blocks, sizes = X.to_delayed().ravel(), X.chunks[0]
    predict = dask.delayed(_predict_block, pure=True)
    made = [
        da.from_delayed(predict(shared, block, method), (size, *([width] if width else [])), dtype=dtype)
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return da.concatenate(made, allow_unknown_chunksizes=True)


def _predict_block(model: Any, block: Any, method: str) -> Array:
    if len(block) if _is_frame(block) else block.shape[0]:
        return np.asarray(getattr(model, method)(block))
    return np.asarray(getattr(model, method)(np.zeros((1, model.n_features_in_))))[:0]


class LazyPredictions:
    """What an estimator predicts that has a local twin, `_to_predict()`."""

    def _predict(self, X: Any, method: str, width: int = 0, dtype: Any = np.float64) -> Any:
        """Return predictions of the local model; for a dask array or frame, a dask array."""
        check_is_fitted(self)
        model: Any = self
        local = model._to_predict()
        return predict_lazily(local, X, method, width, dtype) if is_lazy(X) else getattr(local, method)(X)

    def _score(self, X: Any, y: Any, sample_weight: Any, measure: Any) -> float:
        if y is None:  # a stream has its own labels
            return float(self._to_predict().score(X))  # type: ignore[attr-defined]
        y, predicted, sample_weight = dask.compute(y, self._predict(X, "predict"), sample_weight)
        return float(measure(y, predicted, sample_weight=sample_weight))


class LazyClassifier(LazyPredictions):
    """Classes, scores and probabilities."""

    classes_: Array

    def decision_function(self, X: Any) -> Any:
        """Return the scores; for a dask array or frame a dask array, computed on demand.

        Parameters
        ----------
        X : as of the local estimator, or dask array or data frame

        Returns
        -------
        array of shape (n_samples,) for two classes, above 0 for classes_[1]; else (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self._predict(X, "decision_function", len(self.classes_) if len(self.classes_) > 2 else 0)

    def predict(self, X: Any) -> Any:
        """Return the class of the best score; for a dask array or frame a dask array.

        Parameters
        ----------
        X : as of the local estimator, or dask array or data frame

        Returns
        -------
        array of shape (n_samples,)
        """
        check_is_fitted(self)
        return self._predict(X, "predict", 0, self.classes_.dtype)

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class; for a dask array or frame a dask array.

        Parameters
        ----------
        X : as of the local estimator, or dask array or data frame

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self._predict(X, "predict_proba", len(self.classes_))

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of each class's probability; for a dask array or frame a dask array.

        Parameters
        ----------
        X : as of the local estimator, or dask array or data frame

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self._predict(X, "predict_log_proba", len(self.classes_))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy. For dask collections, predictions and labels are sent to the client, rows are not.

        Parameters
        ----------
        X, y, sample_weight

        Returns
        -------
        float
        """
        return self._score(X, y, sample_weight, accuracy_score)


class LazyRegressor(LazyPredictions):
    """Numbers."""

    def predict(self, X: Any) -> Any:
        """Return the predictions, in the units of y; for a dask array or frame a dask array.

        Parameters
        ----------
        X : as of the local estimator, or dask array or data frame

        Returns
        -------
        array of shape (n_samples,)
        """
        return self._predict(X, "predict")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2. For dask collections, predictions and labels are sent to the client, rows are not.

        Parameters
        ----------
        X, y, sample_weight

        Returns
        -------
        float
        """
        return self._score(X, y, sample_weight, r2_score)
