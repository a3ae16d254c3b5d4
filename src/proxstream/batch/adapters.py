"""Adapters from any linear model, and any rows, to what a certificate needs of them.

A model is a learner, an estimator or a loaded model file of this package, one of scikit-learn's linear models, or a
bare (coef, intercept).
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
objective of this form unless it was fitted without one, and loss and penalty have to be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core import losses, penalties
from ..core.losses import Loss
from ..core.penalties import L1, L2, ElasticNet, NonNegative, NoPenalty, Penalty
from ..core.validation import Array
from ..data.labels import LabelEncoder, class_weighted
from ..data.rowblock import RowBlock, as_block
from ..learner.learner import Learner
from .centring import Frame, frame_of

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
    """Return any model as a linear one; a given loss or penalty replaces the model's own.

    >>> as_linear((np.ones(3), 0.5), "hinge", L2(0.1))
    LinearModel(coef=array([1., 1., 1.]), intercept=0.5, loss=Hinge(), penalty=L2(lam=0.1), fit_intercept=True,
                classes=None, class_weight=None, alpha=None)
    """
    given_loss = None if loss is None else losses.get(loss)
    given_penalty = None if penalty is None else penalties.get(penalty)
    if hasattr(model, "_linear_model"):
        linear: LinearModel = model._linear_model()
    elif isinstance(getattr(model, "_learner", model), Learner):
        linear = _from_learner(getattr(model, "_learner", model), model)
    elif hasattr(getattr(model, "learner", None), "weights"):  # a loaded model file
        linear = _from_learner(model.learner, model)
    elif isinstance(model, tuple):
        linear = _bare(model, given_loss, given_penalty)
    elif hasattr(model, "coef_"):
        linear = _from_attributes(model, given_loss, given_penalty)
    else:
        raise TypeError(
            "model must be a learner, a fitted linear model with coef_ and intercept_, or a pair (coef, intercept), "
            f"got {type(model).__name__}"
        )
    if given_loss is not None and given_loss is not linear.loss:
        linear = linear._replace(loss=given_loss, alpha=None)
    if given_penalty is not None:
        linear = linear._replace(penalty=given_penalty)
    return _checked(linear)


def _checked(linear: LinearModel) -> LinearModel:
    """Refuse objectives that have no certificate."""
    if linear.loss.kind == "ranking":
        raise TypeError(f"a ranker has no certificate: {linear.loss} is a loss of pairs of rows, not of rows")
    if linear.loss.kind == "multiclass" and linear.n_outputs == 1:
        raise ValueError(f"{linear.loss} needs one column of weights per class, got one vector of weights")
    if linear.loss.kind == "regression" and linear.n_outputs > 1:
        raise ValueError(f"a certificate is for one target at a time, got {linear.n_outputs} columns of weights")
    if np.size(linear.intercept) not in (1, linear.n_outputs):
        raise ValueError(f"intercept must be one number per output, {linear.n_outputs}, got {linear.intercept!r}")
    if linear.n_outputs == 1:
        linear = linear._replace(intercept=float(np.reshape(linear.intercept, ())))
    if not linear.loss.has_conjugate:
        raise TypeError(f"{linear.loss} has no conjugate, which a certificate needs; take a built-in loss")
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

    return lambda total: penalty.scaled(1.0 / total)


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
                f"the objective of {kind} is not known here: pass loss and penalty; known are {', '.join(_OBJECTIVES)}"
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
    """Return weights as (features,), or (features, outputs) from one row per output."""
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
    return TypeError(f"the objective of this {type(model).__name__} {why}: pass loss and penalty")


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


# -- rows: validated, with encoded labels, scored in each pass -----------------------------------


class InMemory:
    """One block that is scored once."""

    def __init__(self, rows: RowBlock, linear: LinearModel):
        self.rows, self.scores = rows, _score(rows, linear)

    def __iter__(self) -> Iterator[tuple[RowBlock, Array]]:
        yield self.rows, self.scores


class Stream:
    """Blocks that are read and scored again in each pass, in the frame that the first of them has (`centring`)."""

    def __init__(self, stream: Iterable[Any], linear: LinearModel):
        if not hasattr(stream, "__iter__"):
            raise TypeError(f"X must be a matrix with y beside it, or a stream, got {type(stream).__name__}")
        if iter(stream) is stream:
            raise TypeError(
                "a certificate reads a stream several times: pass an iterable that can be read again, not an iterator"
            )
        self.stream, self.linear = stream, linear
        self.frame: Frame | None = None
        self.frame_known = not linear.fit_intercept

    def prepared(self) -> Iterator[RowBlock]:
        """Yield the stream's blocks that have rows, validated and with encoded labels."""
        for element in self.stream:
            element = getattr(element, "rows", element)  # of a chunk
            if isinstance(element, RowBlock):
                rows = element
            elif isinstance(element, tuple) and len(element) in (2, 3):
                rows = as_rows(*element, *(None,) * (3 - len(element)))
            else:
                raise TypeError(
                    f"a stream is made of (X, y), (X, y, sample_weight) or RowBlock, got {type(element).__name__}"
                )
            if rows.n_rows:
                yield prepare_rows(rows, self.linear, all_rows=False)

    def __iter__(self) -> Iterator[tuple[RowBlock, Array]]:
        for rows in self.prepared():
            if not self.frame_known:
                self.frame_known, self.frame = True, frame_of(rows, self.linear.loss)
                if self.frame is not None:
                    b = self.frame.inward(self.linear.coef, self.linear.intercept)
                    self.linear = self.linear._replace(intercept=b)
            moved = rows if self.frame is None else self.frame.rows(rows)
            yield moved, _score(moved, self.linear)


def _score(rows: RowBlock, linear: LinearModel) -> Array:
    """Return the scores, one column per output."""
    from ._conjugates import scores

    columns, out = linear.coef.reshape(len(linear.coef), -1), np.empty((rows.n_rows, linear.n_outputs))
    for k, b in enumerate(np.broadcast_to(linear.intercept, linear.n_outputs)):
        p = np.empty(rows.n_rows)
        scores(rows, np.ascontiguousarray(columns[:, k]), float(b), p)
        out[:, k] = p
    return out


def as_rows(X: Any, y: Any, sample_weight: Any) -> RowBlock:
    """Return a matrix with its labels, of any type, as a block."""
    if isinstance(X, RowBlock):
        return X if y is None else X._replace(y=np.asarray(y))
    if hasattr(X, "to_numpy") and hasattr(X, "columns"):
        X = X.to_numpy()
    if y is None:
        raise TypeError("a matrix X needs its labels y")
    block = as_block(X, None, sample_weight)
    y = np.asarray(y)
    if y.shape != (block.n_rows,):
        raise ValueError(f"{block.n_rows} rows need as many labels, got y of shape {y.shape}")
    if len(block.c) and block.c.shape != (block.n_rows,):
        raise ValueError(f"sample_weight must have shape ({block.n_rows},), got {block.c.shape}")
    return block._replace(y=y)


def prepare_rows(rows: RowBlock, linear: LinearModel, *, all_rows: bool) -> RowBlock:
    """Return validated rows with encoded labels and class weights; `all_rows` means that no other rows follow."""
    rows.check()
    rows.check_finite()
    if len(rows.c) and not (np.isfinite(rows.c) & (rows.c >= 0.0)).all():
        raise ValueError("a weight must be finite and >= 0")
    y, c = rows.y, rows.c
    if linear.classes is not None:
        encoder = LabelEncoder(linear.classes)
        numbers = encoder.encode(y)
        y, c = encoder.targets(numbers, linear.n_outputs), _class_weighted(c, numbers, linear, all_rows)
    if linear.n_outputs > 1:
        losses.softmax.check_labels(y, linear.n_outputs)
    else:
        linear.loss.check_labels(y)
    return rows._replace(y=np.asarray(y, dtype=np.float64), c=c)


def _class_weighted(c: Array, at: Array, linear: LinearModel, all_rows: bool) -> Array:
    class_weight, classes = linear.class_weight, linear.classes
    if class_weight is None or classes is None:
        return c
    if isinstance(class_weight, str):
        if not all_rows:
            raise ValueError(f"class_weight={class_weight!r} needs all labels at once: give weights in the stream")
        of = len(at) / (len(classes) * np.maximum(np.bincount(at, minlength=len(classes)), 1))
    else:
        of = np.array([class_weight.get(k, 1.0) for k in classes.tolist()])
    return class_weighted(c, at, of)
