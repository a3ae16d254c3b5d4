"""The warning of a learner whose rate does not fit the units of its features.

A rate has a unit, that of the features. With columns of counts or amounts in their own units the default rates of
FTRLProximal, AdaGrad or SGD take steps that are far too large: no number overflows, but predictions are far worse than
none. That shows in the progressive loss, which is compared with the loss at score 0, that of a model without weights.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.algorithms import AROW, Algorithm, AutoFTRL, PassiveAggressive
from ..core.losses import Loss

ROWS = 1000  # rows before a progressive loss is judged
WORSE = 2.0  # times the loss of a model without weights


class ScaleWarning(UserWarning):
    """Predictions have been far worse than none: the rate does not fit the units of the features."""


def loss_without_weights(algorithm: Algorithm, loss: Loss, n_outputs: int) -> float:
    """Return the loss at score 0; 0 where it depends on the label, or where the algorithm has no rate.

    >>> from proxstream import SGD, AutoFTRL, losses
    >>> round(loss_without_weights(SGD(), losses.logistic, 1), 3), loss_without_weights(AutoFTRL(), losses.logistic, 1)
    (0.693, 0.0)
    >>> loss_without_weights(SGD(), losses.hinge, 3), loss_without_weights(SGD(), losses.squared, 1)
    (3.0, 0.0)
    """
    if loss.kind == "regression" or isinstance(algorithm, (AutoFTRL, PassiveAggressive, AROW)):
        return 0.0
    if loss.kind == "multiclass":
        return float(np.mean(loss.value(np.zeros((1, n_outputs)), np.zeros(1, np.int64))))
    return n_outputs * float(loss.value(0.0, 1.0))


def is_too_large(progressive_loss: float, rows: int, without_weights: float) -> bool:
    """Return whether predictions have been far worse than those of a model without weights."""
    return rows >= ROWS and 0.0 < WORSE * without_weights < progressive_loss


def warn_of_scale(algorithm: Any, progressive_loss: float, rows: int, without_weights: float) -> None:
    """Warn that the steps of an algorithm are too large for the features."""
    warnings.warn(
        f"the progressive loss is {progressive_loss:.3g} after {rows} rows, that of a model without weights "
        f"{without_weights:.3g}: the steps of {algorithm!r} are too large for the units of these features; scale the "
        "features, lower the rate, or use AutoFTRL, which finds its own scales and rates",
        ScaleWarning,
        stacklevel=4,
    )
