"""From scores to classes, and to probabilities for the losses that are likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from ..core import losses, validation as _checks
from ..core.losses import Loss
from ..core.validation import Array
from ._rows import predicted_blocks

# The same loss for two classes, with one vector of weights, and for more, with one per class.
TWINS = {"logistic": "softmax", "hinge": "multiclass_hinge"}


def loss_of_classes(loss: Loss, n_classes: int, multi_class: str, *, joint: bool = True) -> Loss:
    """Return the loss that goes with so many classes; unless `joint`, several have one each against the rest."""
    _checks.one_of("multi_class", multi_class, ("auto", "one_vs_rest"))
    if multi_class == "one_vs_rest" and loss.kind != "binary":
        raise ValueError(f"multi_class='one_vs_rest' takes a binary loss such as 'logistic', got {loss}")
    if n_classes == 2:
        return losses.get({many: two for two, many in TWINS.items()}.get(loss.name, loss))
    return losses.get(TWINS.get(loss.name, loss)) if joint and multi_class == "auto" else loss


def has_probabilities(estimator: Any) -> bool:
    """Return whether the estimator's loss knows probabilities; else raise an AttributeError that says which do."""
    loss = losses.get(estimator.loss)
    if not loss.has_probabilities:
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


class Classifies(ClassifierMixin):  # type: ignore[misc]
    """What every classifier makes of its scores."""

    classes_: Array
    _fitted_loss: Loss

    def decision_function(self, X: Any) -> Array:
        """Return the scores.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives

        Returns
        -------
        array of shape (n_samples,) for two classes, above 0 for classes_[1]; else (n_samples, n_classes)
        """
        model: Any = self
        scores: Array = model._scores(X)
        return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Return the class of the best score.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives

        Returns
        -------
        array of shape (n_samples,)
        """
        scores = self.decision_function(X)
        best = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0.0).astype(np.intp)
        return np.asarray(self.classes_[best])

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, for the losses logistic and softmax.

        One-vs-rest: each class's own probability, divided by their sum.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of each class's probability, however small.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        return log_probabilities(scores, each=scores.ndim == 2 and self._fitted_loss.kind == "binary")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows whose class is predicted.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives
        y : array of shape (n_samples,), optional
            None takes the labels and weights of a stream or RowBlock.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
        """
        if y is not None:
            return float(super().score(X, y, sample_weight))
        predicted, y, weights = predicted_blocks(self, X)
        return float(np.average(predicted == y, weights=weights))
