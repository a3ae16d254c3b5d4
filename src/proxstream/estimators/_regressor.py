"""What every regressor shares: the score of its predictions, and offsets.

Offsets for losses with a log link: the score of a row is <w, x> + b + o, with o given.

Let e = exp(o), and q the power of the mean that the variance grows with: 1 for Poisson, 2 for gamma, `power` for
Tweedie. Each of these losses satisfies

    phi(p + o, y) = e^(2-q) phi(p, y / e) + const                                                           (1)

so a row with an offset is a row without one that has the label y / e and e^(2-q) times the weight: a rate, weighted by
its exposure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array

from ..core.losses import Loss
from ..core.validation import Array
from ._rows import predicted_blocks


class Regresses(RegressorMixin):  # type: ignore[misc]
    """The score of a regressor, from matrices or streams."""

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
        predicted, y, weights = predicted_blocks(model.predict, X)
        return float(r2_score(y, predicted, sample_weight=weights))


class WithoutOffset(NamedTuple):
    """Rows after (1): their labels, the factors of their weights, and the constants."""

    y: Array
    factors: Array
    constants: Array


def checked_offset(loss: Loss, offset: Any, n_rows: int) -> Array:
    """Return one finite offset per row; a ValueError where the loss takes none."""
    _power(loss)
    o = np.asarray(check_array(offset, ensure_2d=False, ensure_min_samples=0, dtype=np.float64, input_name="offset"))
    if o.ndim == 0:
        o = np.full(n_rows, float(o))
    if o.shape != (n_rows,):
        raise ValueError(f"offset must have shape ({n_rows},), got {o.shape}")
    return o


def absorbed(loss: Loss, y: Array, offset: Any) -> WithoutOffset:
    """Return labels and factors of weights by which rows need no offset.

    >>> from proxstream import losses
    >>> rows = absorbed(losses.poisson, np.array([3.0]), np.log([2.0]))
    >>> rows.y, rows.factors.round(12)
    (array([1.5]), array([2.]))
    """
    o = checked_offset(loss, offset, len(y))
    with np.errstate(over="ignore"):
        rates, factors = y * np.exp(-o), np.exp((2.0 - _power(loss)) * o)
    bad = ~(np.isfinite(rates) & np.isfinite(factors) & (factors > 0.0) & ((rates > 0.0) | (y <= 0.0)))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"offset must have an exponential that is a positive finite number, got {o[i]:g} at index {i}")
    constants = loss.value(o, y) - factors * loss.value(np.zeros(len(y)), rates)
    return WithoutOffset(rates, factors, np.asarray(constants))


def _power(loss: Loss) -> float:
    power = {"poisson": 1.0, "gamma": 2.0, "tweedie": getattr(loss, "power", None)}.get(loss.name)
    if power is None:
        raise ValueError(f"offset is for the losses poisson, gamma and tweedie, whose mean is e^score, got {loss}")
    return power
