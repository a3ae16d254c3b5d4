"""Batch estimators in model files: weights, dual variables and the history that proves them."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from ..batch import Record, Solution
from ..core import validation as _checks
from ..core.validation import Array
from ..models.model import Weights
from ._base import NOT_STORED, check_columns, check_unfitted

FITTED = ("n_features_in_", "feature_names_in_", "classes_")


class Stored:
    """What `save` and `load` ask of an estimator that has solved a batch problem.

    The seconds of the history are not kept: equal models are equal files, whatever the clock said.
    """

    history_: list[Record]

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        model: Any = self
        params = {name: value for name, value in model.get_params(deep=False).items() if name not in NOT_STORED}
        if "history_" not in vars(self):
            return {"params": params, "fitted": {}, "learner": None}
        linear = model._linear_model()
        fitted = {name: vars(self)[name] for name in FITTED if name in vars(self)}
        fitted |= {
            "sparse": issparse(model.coef_),
            "history": [list(record._replace(seconds=0.0)) for record in self.history_],
        }
        fitted["alpha"] = np.empty(0) if weights_only else model.dual_coef_
        weights = Weights(linear.coef, linear.intercept, linear.loss, linear.penalty, bool(linear.fit_intercept))
        return {"params": params, "fitted": fitted, "learner": weights}

    @classmethod
    def __proxstream_load__(cls, parts: dict[str, Any]) -> Self:
        model: Any = cls(**parts["params"])
        fitted, weights = parts["fitted"], parts["learner"]
        if weights is None:
            check_unfitted(cls.__name__, fitted)
            return model  # type: ignore[no-any-return]
        if not isinstance(weights, Weights):
            raise ValueError(f"a {cls.__name__} must have weights")
        check_columns(fitted, weights.n_features)
        if not isinstance(fitted["alpha"], np.ndarray) or fitted["alpha"].dtype.kind != "f":
            raise ValueError("alpha must be an array of numbers")
        classes = fitted.get("classes_")
        if (classes is None) == hasattr(model, "class_weight") or (
            classes is not None and (classes.ndim != 1 or len(classes) != max(weights.n_outputs, 2))
        ):
            raise ValueError(f"a {cls.__name__} of {weights.n_outputs} outputs does not have the classes {classes}")
        for name in FITTED:
            if name in fitted:
                setattr(model, name, fitted[name])
        model._solved = weights.loss, weights.penalty
        model.history_ = [_record(line) for line in fitted["history"]]
        last = model.history_[-1]
        model.primal_, model.dual_, model.duality_gap_, model.n_iter_ = last.primal, last.dual, last.gap, last.epoch
        model.dual_coef_ = fitted["alpha"]
        coef, intercept = weights.weights()
        model._set_weights(coef, intercept)
        model._solutions = _solutions(coef, intercept, model)
        return model.sparsify() if _checks.truth("sparse", fitted["sparse"]) else model  # type: ignore[no-any-return]


def _record(line: Any) -> Record:
    """Return a checked line of a solver's history; the seconds of another run are not kept."""
    epoch, _, *values, nnz = line
    if not all(type(value) in (int, float) for value in values):
        raise TypeError(f"primal, dual and gap of the history must be numbers, got {values}")
    primal, dual, gap = map(float, values)
    return Record(
        _checks.integer("epoch", epoch, low=0), math.nan, primal, dual, gap, _checks.integer("nnz", nnz, low=0)
    )


def _solutions(coef: Array, intercept: Any, model: Any) -> list[Solution]:
    """Return where a warm start begins: one solution, or one per class against the rest."""
    alpha, history = model.dual_coef_, model.history_
    if coef.ndim == 1 or model._solved[0].kind == "multiclass":
        return [Solution(coef, intercept, alpha, history, True)]
    if alpha.shape[1:] != coef.shape[1:]:
        return []
    columns = (np.ascontiguousarray(array.T) for array in (coef, alpha))
    return [Solution(w, float(b), a, history, True) for w, a, b in zip(*columns, intercept, strict=True)]
