"""Batch estimators in model files: weights, dual variables and the history that proves them."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from .. import _checks
from .._checks import Array
from ..batch import Record, Solution
from ..model import Weights

FITTED = ("n_features_in_", "feature_names_in_", "classes_")


class Stored:
    """What `save` and `load` ask of an estimator that has solved a batch problem.

    The seconds of the history are not kept: equal models are equal files, whatever the clock said.
    """

    history_: list[Record]

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        model: Any = self
        params = model.get_params(deep=False)
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
            return model  # type: ignore[no-any-return]
        if not isinstance(weights, Weights) or _checks.integer("n_features_in_", fitted["n_features_in_"], low=0) != (
            weights.n_features
        ):
            raise ValueError(f"a {cls.__name__} must have a weight a feature")
        classes = fitted.get("classes_")
        if (classes is None) == hasattr(model, "class_weight") or (
            classes is not None and (classes.ndim != 1 or len(classes) != max(weights.n_outputs, 2))
        ):
            raise ValueError(f"a {cls.__name__} of {weights.n_outputs} outputs does not have the classes {classes}")
        for name in FITTED:
            if name in fitted:
                setattr(model, name, fitted[name])
        model._solved = weights.loss, weights.penalty
        model.history_ = [Record(*line)._replace(seconds=math.nan) for line in fitted["history"]]
        last = model.history_[-1]
        model.primal_, model.dual_, model.duality_gap_, model.n_iter_ = last.primal, last.dual, last.gap, last.epoch
        model.dual_coef_ = fitted["alpha"]
        coef, intercept = weights.weights()
        model._set_weights(coef, intercept)
        model._solutions = _solutions(coef, intercept, model)
        return model.sparsify() if fitted["sparse"] else model  # type: ignore[no-any-return]


def _solutions(coef: Array, intercept: Any, model: Any) -> list[Solution]:
    """Return what a warm start goes on from: one solution, or one a class against the rest."""
    alpha, history = model.dual_coef_, model.history_
    if coef.ndim == 1 or model._solved[0].kind == "multiclass":
        return [Solution(coef, intercept, alpha, history, True)]
    if alpha.shape[1:] != coef.shape[1:]:
        return []
    columns = (np.ascontiguousarray(array.T) for array in (coef, alpha))
    return [Solution(w, float(b), a, history, True) for w, a, b in zip(*columns, intercept, strict=True)]
