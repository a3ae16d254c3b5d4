"""What every regressor shares: predictions, their score, and checks of offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array

from ..core.losses import Loss
from ..core.validation import Array
from ..data.offsets import variance_power
from ._rows import predicted_blocks


class Regresses(RegressorMixin):  # type: ignore[misc]
    """Predictions of a regressor and their score, from matrices or streams."""

    _fitted_loss: Loss

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Return the predicted means: e^score for a loss with a log link (poisson, gamma, tweedie), else the scores.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives
        offset : array of shape (n_samples,), optional
            Added to the scores, for the losses poisson, gamma and tweedie.

        Returns
        -------
        array of shape (n_samples,)
        """
        model: Any = self
        scores = model._scores(X)
        scores = scores[:, 0] if scores.ndim == 2 else scores
        if offset is not None:
            scores = scores + checked_offset(self._fitted_loss, offset, len(scores))
        return np.asarray(self._fitted_loss.mean(scores))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Return R^2, the coefficient of determination.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives
        y : array of shape (n_samples,), optional
            None takes the labels and weights of a stream or RowBlock.
        sample_weight : array of shape (n_samples,), optional
        offset : array of shape (n_samples,), optional
            As in `predict`.

        Returns
        -------
        float
        """
        model: Any = self
        if y is not None:
            predicted = model.predict(X) if offset is None else model.predict(X, offset=offset)
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        if offset is not None:
            raise ValueError("score with an offset needs y")
        predicted, y, weights = predicted_blocks(model, X)
        return float(r2_score(y, predicted, sample_weight=weights))


def checked_offset(loss: Loss, offset: Any, n_rows: int) -> Array:
    """Return one finite offset per row; a ValueError where the loss takes none."""
    variance_power(loss)
    o = np.asarray(check_array(offset, ensure_2d=False, ensure_min_samples=0, dtype=np.float64, input_name="offset"))
    if o.ndim == 0:
        o = np.full(n_rows, float(o))
    if o.shape != (n_rows,):
        raise ValueError(f"offset must have shape ({n_rows},), got {o.shape}")
    return o
