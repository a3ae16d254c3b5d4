"""Linear models of every make, reduced to what a certificate has to know of them.

A model is a learner, an estimator of this package, one of scikit-learn's linear models, or a bare (coef, intercept).
Models of scikit-learn are known by their class and its parameters; nothing here imports it. Their objectives, brought
to the form  mean loss + Psi(w)  with an unpenalized intercept (n: the sum of the rows' weights):

    SGDClassifier, SGDRegressor, Perceptron  mean loss + alpha (r ||w||_1 + (1 - r)/2 ||w||^2)
    LogisticRegression                       as above with alpha = 1/(C n)
    LinearSVC, LinearSVR                     mean loss + 1/(2 C n) ||w||^2
    Ridge                                    mean squared loss + alpha/(2 n) ||w||^2
    Lasso, ElasticNet                        mean squared loss + alpha (r ||w||_1 + (1 - r)/2 ||w||^2)
    PoissonRegressor                         mean Poisson loss + alpha/2 ||w||^2
    QuantileRegressor                        mean quantile loss + alpha ||w||_1

LIBLINEAR (LinearSVC, LinearSVR, LogisticRegression with that solver) penalizes its intercept: such a model has no
objective of this form unless it was fitted without one, and loss and penalty have to be told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import losses, penalties
from .._checks import Array
from ..learner import Learner
from ..losses import Loss
from ..penalties import L1, L2, ElasticNet, NonNegative, NoPenalty, Penalty

MakePenalty = Callable[[float], Penalty]  # from the sum of the rows' weights


class LinearModel(NamedTuple):
    """Weights (features,) or (features, outputs) with the objective that they are to minimize.

    `penalty` may depend on the sum of the rows' weights. `classes` translate labels; None takes labels as the loss
    knows them. `alpha` is the solver's own dual point, for the rows that it was fitted on.
    """

    coef: Array
    intercept: Any
    loss: Loss
    penalty: Penalty | MakePenalty
    fit_intercept: bool = True
    classes: Array | None = None
    class_weight: Any = None
    alpha: Array | None = None

    @property
    def n_outputs(self) -> int:
        """Columns of weights."""
        return 1 if self.coef.ndim == 1 else self.coef.shape[1]

    def penalty_at(self, total: float) -> Penalty:
        """Return Psi where the rows' weights have this sum."""
        return self.penalty if isinstance(self.penalty, Penalty) else self.penalty(total)


def as_linear(model: Any, loss: Any = None, penalty: Any = None) -> LinearModel:
    """Return any model as a linear one; a loss or a penalty that is told takes the place of the model's own.

    >>> as_linear((np.ones(3), 0.5), "hinge", L2(0.1))
    LinearModel(coef=array([1., 1., 1.]), intercept=0.5, loss=Hinge(), penalty=L2(lam=0.1), fit_intercept=True,
                classes=None, class_weight=None, alpha=None)
    """
    told_loss = None if loss is None else losses.get(loss)
    told_penalty = None if penalty is None else penalties.get(penalty)
    if hasattr(model, "_linear_model"):
        linear: LinearModel = model._linear_model()
    elif isinstance(getattr(model, "_learner", model), Learner):
        linear = _from_learner(getattr(model, "_learner", model), model)
    elif isinstance(model, tuple):
        linear = _bare(model, told_loss, told_penalty)
    elif hasattr(model, "coef_"):
        linear = _from_attributes(model, told_loss, told_penalty)
    else:
        raise TypeError(
            "model must be a learner, a fitted linear model with coef_ and intercept_, or a pair (coef, intercept), "
            f"got {type(model).__name__}"
        )
    if told_loss is not None and told_loss is not linear.loss:
        linear = linear._replace(loss=told_loss, alpha=None)
    if told_penalty is not None:
        linear = linear._replace(penalty=told_penalty)
    return _checked(linear)


def _checked(linear: LinearModel) -> LinearModel:
    """Refuse objectives that have no certificate."""
    if linear.loss.kind == "ranking":
        raise TypeError(f"a ranker has no certificate: {linear.loss} is a loss of pairs of rows, not of rows")
    if linear.loss.kind == "multiclass" and linear.n_outputs == 1:
        raise ValueError(f"{linear.loss} needs one column of weights a class, got one vector of weights")
    if linear.loss.kind == "regression" and linear.n_outputs > 1:
        raise ValueError(f"a model of one target is judged at a time, got {linear.n_outputs} columns of weights")
    if np.size(linear.intercept) not in (1, linear.n_outputs):
        raise ValueError(f"intercept must be one number an output, {linear.n_outputs}, got {linear.intercept!r}")
    if linear.n_outputs == 1:
        linear = linear._replace(intercept=float(np.reshape(linear.intercept, ())))
    linear.loss.conjugate(np.zeros(linear.n_outputs) if linear.loss.kind == "multiclass" else 0.0, 0)
    return linear


def _bare(model: tuple[Any, ...], loss: Loss | None, penalty: Penalty | None) -> LinearModel:
    if len(model) != 2:
        raise TypeError(f"a bare model is a pair (coef, intercept), got {len(model)} things")
    if loss is None or penalty is None:
        raise TypeError("a bare (coef, intercept) needs loss and penalty, such as loss='logistic', penalty=L2(1e-4)")
    coef, intercept = _columns(model[0]), model[1]
    return LinearModel(coef, 0.0 if intercept is None else intercept, loss, penalty, intercept is not None)


def _from_learner(learner: Learner, model: Any) -> LinearModel:
    coef, intercept = learner.weights()
    penalty: Penalty | MakePenalty = learner.penalty
    if getattr(learner.algorithm, "penalty_weight", "every_round") == "once":
        penalty = _share_of(learner.penalty)
    return LinearModel(
        coef,
        intercept,
        learner.loss,
        penalty,
        learner.fit_intercept,
        getattr(model, "classes_", None),
        getattr(model, "class_weight", None),
    )


def _share_of(penalty: Penalty) -> MakePenalty:
    """Psi beside a sum of n losses is Psi/n beside their mean."""

    def made(total: float) -> Penalty:
        try:
            return scaled(penalty, 1.0 / total)
        except KeyError:
            raise TypeError(f"{penalty!r} with penalty_weight='once' cannot be divided by the number of rows") from None

    return made


# Parameters of each penalty that multiply it; constraints have none.
_STRENGTHS = {
    "NoPenalty": (),
    "L1": ("lam",),
    "L2": ("lam",),
    "ElasticNet": ("l1", "l2"),
    "Berhu": ("lam",),
    "GroupL2": ("lam",),
    "GroupLinf": ("lam",),
    "L2Norm": ("lam",),
    "LinfNorm": ("lam",),
    "KL": ("sigma",),
    "Box": (),
    "NonNegative": (),
    "L1Ball": (),
    "L2Ball": (),
    "Simplex": (),
}


def scaled(penalty: Penalty, factor: float) -> Penalty:
    """Return factor * Psi, its constraints as they are.

    >>> scaled(L1(0.5) + NonNegative(), 0.1)
    L1(lam=0.05) + NonNegative()
    """
    return sum((_scaled(part, factor) for part in penalty.parts), NoPenalty())


def _scaled(part: Penalty, factor: float) -> Penalty:
    from dataclasses import replace

    strengths = _STRENGTHS[type(part).__name__]
    return replace(part, **{name: getattr(part, name) * factor for name in strengths})  # type: ignore[type-var]


# -- models with coef_ and intercept_ ------------------------------------------------------------


def _from_attributes(model: Any, loss: Loss | None, penalty: Penalty | None) -> LinearModel:
    coef, intercept = _columns(model.coef_), getattr(model, "intercept_", 0.0)
    if coef.ndim == 1:
        intercept = float(np.squeeze(intercept)) if np.size(intercept) else 0.0
    classes = getattr(model, "classes_", None)
    if loss is None or penalty is None:
        kind = type(model).__name__
        if kind not in _OBJECTIVES:
            raise TypeError(
                f"the objective of {kind} is not known here: tell loss and penalty; known are {', '.join(_OBJECTIVES)}"
            )
        known_loss, known_penalty = _OBJECTIVES[kind](model)
        loss = known_loss if loss is None else loss
        own: Penalty | MakePenalty = known_penalty if penalty is None else penalty
    else:
        own = penalty
    return LinearModel(
        coef,
        intercept,
        loss,
        own,
        bool(getattr(model, "fit_intercept", True)),
        classes,
        getattr(model, "class_weight", None),
    )


def _columns(coef: Any) -> Array:
    """Return weights as (features,), or (features, outputs) from one row an output."""
    coef = coef.toarray() if hasattr(coef, "toarray") else np.asarray(coef)
    coef = coef.astype(np.float64)
    if coef.ndim == 2:
        return np.asarray(coef[0]) if len(coef) == 1 else np.ascontiguousarray(coef.T)
    if coef.ndim != 1:
        raise ValueError(f"coef must have one or two axes, got shape {coef.shape}")
    return np.asarray(coef)


Objective = tuple[Loss, "Penalty | MakePenalty"]


def _mixed(alpha: float, l1_ratio: float) -> Penalty:
    """alpha (r ||w||_1 + (1 - r)/2 ||w||^2)."""
    if l1_ratio == 0.0:
        return L2(alpha)
    return L1(alpha) if l1_ratio == 1.0 else ElasticNet(alpha * l1_ratio, alpha * (1.0 - l1_ratio))


def _ambiguous(model: Any, why: str) -> TypeError:
    return TypeError(f"the objective of this {type(model).__name__} {why}: tell loss and penalty")


_RATIOS = {"l2": 0.0, "l1": 1.0}


def _sgd(model: Any) -> Objective:
    named = {"log_loss": "logistic", "squared_error": "squared"}.get(model.loss, model.loss)
    takes = {"huber": "delta", "epsilon_insensitive": "epsilon"}
    if named not in losses.names():
        raise _ambiguous(model, f"has the loss {model.loss!r}, which is none of {', '.join(losses.names())}")
    loss = losses.get(named)
    if named in takes:
        loss = loss(**{takes[named]: model.epsilon})
    if model.penalty is None:
        return loss, NoPenalty()
    return loss, _mixed(model.alpha, _RATIOS.get(model.penalty, model.l1_ratio))


def _logistic_regression(model: Any) -> Objective:
    if model.solver == "liblinear" and model.fit_intercept:
        raise _ambiguous(model, "penalizes its intercept (solver='liblinear')")
    ratio = _RATIOS.get(model.penalty, model.l1_ratio)
    ratio = 0.0 if ratio is None else float(ratio)
    many = len(model.classes_) > 2 and model.solver != "liblinear"
    loss = losses.softmax if many else losses.logistic
    if model.penalty is None or np.isinf(model.C):
        return loss, NoPenalty()
    return loss, lambda total: _mixed(1.0 / (model.C * total), ratio)


def _linear_svm(model: Any) -> Objective:
    if model.fit_intercept:
        raise _ambiguous(model, "penalizes its intercept (fit_intercept=True)")
    if getattr(model, "multi_class", "ovr") != "ovr":
        loss: Loss = losses.multiclass_hinge
    elif model.loss not in ("hinge", "squared_hinge", "epsilon_insensitive"):
        raise _ambiguous(model, f"has the loss {model.loss!r}")
    else:
        loss = losses.get(model.loss)
        loss = loss(model.epsilon) if model.loss == "epsilon_insensitive" else loss
    ratio = _RATIOS[getattr(model, "penalty", "l2")]
    return loss, lambda total: _mixed(1.0 / (model.C * total), ratio)


def _ridge(model: Any) -> Objective:
    if getattr(model, "positive", False):
        return losses.squared, lambda total: L2(model.alpha / total) + NonNegative()
    return losses.squared, lambda total: L2(model.alpha / total)


def _elastic_net(model: Any) -> Objective:
    penalty = _mixed(model.alpha, model.l1_ratio)
    return losses.squared, penalty + NonNegative() if model.positive else penalty


_OBJECTIVES: dict[str, Callable[[Any], Objective]] = {
    "SGDClassifier": _sgd,
    "SGDRegressor": _sgd,
    "Perceptron": _sgd,
    "LogisticRegression": _logistic_regression,
    "LinearSVC": _linear_svm,
    "LinearSVR": _linear_svm,
    "Ridge": _ridge,
    "ElasticNet": _elastic_net,
    "Lasso": _elastic_net,
    "LinearRegression": lambda model: (losses.squared, NoPenalty()),
    "PoissonRegressor": lambda model: (losses.poisson, L2(model.alpha)),
    "QuantileRegressor": lambda model: (losses.quantile(model.quantile), L1(model.alpha)),
}
