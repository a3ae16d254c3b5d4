"""Probabilities of classes from scores, for the losses that are likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import losses
from .._checks import Array


def has_probabilities(estimator: Any) -> bool:
    """Tell that the estimator's loss knows probabilities; else raise an AttributeError that says which do."""
    loss = losses.get(estimator.loss)
    if not hasattr(loss, "probability"):
        raise AttributeError(f"probabilities come with the losses logistic and softmax, not with {loss}")
    return True


def log_probabilities(scores: Array, *, each: bool) -> Array:
    """Return the logarithms of the classes' probabilities; `each` class has its own against the rest."""
    if scores.ndim == 1:
        return np.asarray(-np.logaddexp(0.0, np.column_stack((scores, -scores))))
    if each:
        scores = -np.logaddexp(0.0, -scores)
    top = scores.max(axis=1, keepdims=True)
    return np.asarray(scores - top - np.log(np.sum(np.exp(scores - top), axis=1, keepdims=True)))
