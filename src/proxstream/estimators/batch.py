"""What estimators that solve a batch problem share: checks, the road to a `Problem`, and the solution read back.

A subclass states its parameters and how to solve:

    def _solve(self, problem: Problem, start: Solution | None, n_threads: int) -> Solution

`start` is the last fit's solution of a problem of the same size under warm_start=True. One class against the rest is
one problem a class, solved in `n_threads` threads; all else about classes, labels and weights is settled here.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import _checks, losses
from .._checks import Array
from ..batch import Problem, Record, Solution
from ..batch.models import LinearModel
from ..blocks import RowBlock, as_block
from ..losses import Loss
from ..penalties import L2, Penalty
from .base import weights
from .classifier import TWINS
from .classifies import Classifies
from .components import Composed
from .rows import encoded
from .stored import Stored

DEFAULT_PENALTY = L2(1e-4)


class BatchEstimator(Stored, Composed):
    """A linear model that ends with a proof; subclasses tell what labels mean and how to solve."""

    _kinds: tuple[str, ...]  # of losses that the estimator takes
    _advice = "raise max_epochs or tol, strengthen the penalty, or scale the features"

    loss: Loss | str
    penalty: Penalty | None
    tol: float
    max_epochs: int
    fit_intercept: bool
    n_threads: int
    random_state: Any
    warm_start: bool

    coef_: Any
    intercept_: Any
    dual_coef_: Array
    primal_: float
    dual_: float
    duality_gap_: float
    n_iter_: int
    history_: list[Record]

    def _solve(self, problem: Problem, start: Solution | None, n_threads: int) -> Solution:
        """Solve a problem, from the solution of one of the same size if there is one."""
        raise NotImplementedError

    # ---- parameters

    def _check_parameters(self) -> None:
        """Raise before anything is touched; subclasses add their own."""
        _checks.number("tol", self.tol, low=0.0, strict=True)
        _checks.integer("max_epochs", self.max_epochs, low=1)
        _checks.integer("n_threads", self.n_threads, low=1)
        for name in ("fit_intercept", "warm_start"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")

    def _penalty(self) -> Penalty:
        if self.penalty is not None and not isinstance(self.penalty, Penalty):
            raise TypeError(f"penalty must be None or a Penalty such as L2(1e-4), got {self.penalty!r}")
        return DEFAULT_PENALTY if self.penalty is None else self.penalty

    def _loss(self) -> Loss:
        loss = losses.get(self.loss)
        if loss.kind not in self._kinds:
            named = [name for name in losses.names() if losses.get(name).kind in self._kinds]
            raise ValueError(f"the loss of {type(self).__name__} must be one of {', '.join(named)}, got {loss}")
        loss.conjugate(np.zeros(2) if loss.kind == "multiclass" else 0.0, 1)  # a TypeError where there is none
        return loss

    def _seed(self) -> int:
        """Draw where a solver's random numbers begin."""
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.non_deterministic = self.n_threads != 1
        return tags

    # ---- fitting

    def _checked(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> tuple[Any, Array, Array]:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **checks)
        c = weights(sample_weight, X.shape[0])
        if len(c) and not c.any():
            raise ValueError("sample_weight must have a weight that is not zero, got zeros alone")
        return X, y, c

    def _fit(self, problem: Problem) -> Self:
        """Solve a problem and keep what it gives."""
        start = self._start(problem)
        self._keep([self._solve(problem, start[0] if start else None, self.n_threads)], problem)
        return self

    def _fit_each(self, problem: Problem, n_classes: int) -> Self:
        """Solve one problem a class, each class against the rest, of a problem whose labels are classes."""
        rows, start = problem.rows, self._start(problem)

        def solve(k: int) -> Solution:
            signs = np.where(rows.y == k, 1.0, -1.0)
            own = Problem(
                rows._replace(y=signs), problem.n_features, problem.loss, problem.penalty, problem.fit_intercept
            )
            return self._solve(own, start[k] if start else None, 1)

        with ThreadPoolExecutor(self.n_threads) as pool:
            self._keep(list(pool.map(solve, range(n_classes))), problem)
        return self

    def _start(self, problem: Problem) -> list[Solution]:
        """Return the last solutions, if they are wanted and fit."""
        last: list[Solution] = getattr(self, "_solutions", [])
        fits = [
            s.coef.shape == problem.shape and s.alpha.shape == (problem.rows.n_rows, *problem.shape[1:]) for s in last
        ]
        return last if self.warm_start and all(fits) else []

    def _keep(self, solutions: list[Solution], problem: Problem) -> None:
        """Set the fitted attributes, and warn where a proof falls short."""
        self._solutions, self._solved = solutions, (problem.loss, problem.penalty)
        self.history_ = summed([solution.history for solution in solutions])
        last = self.history_[-1]
        self.primal_, self.dual_, self.duality_gap_, self.n_iter_ = last.primal, last.dual, last.gap, last.epoch
        one = len(solutions) == 1
        self.dual_coef_ = solutions[0].alpha if one else np.column_stack([s.alpha for s in solutions])
        self._set_weights(
            solutions[0].coef if one else np.column_stack([s.coef for s in solutions]),
            solutions[0].intercept if one else np.array([s.intercept for s in solutions]),
        )
        if not all(solution.converged for solution in solutions):
            size = max(abs(self.primal_), abs(self.dual_))
            warnings.warn(
                f"{type(self).__name__} stopped after {self.n_iter_} epochs with a relative duality gap of "
                f"{self.duality_gap_ / size if size else 0.0:.2g}, above tol={self.tol:g}: {self._advice}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _set_weights(self, coef: Array, intercept: Any) -> None:
        raise NotImplementedError

    # ---- the model, read back

    @property
    def nnz_(self) -> int:
        """Weights that are not exactly zero."""
        check_is_fitted(self)
        return int(self.coef_.nnz if issparse(self.coef_) else np.count_nonzero(self.coef_))

    def sparsify(self) -> Self:
        """Turn `coef_` into a CSR array.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.coef_ = csr_array(np.atleast_2d(self.coef_)) if not issparse(self.coef_) else self.coef_
        return self

    def densify(self) -> Self:
        """Turn `coef_` back into a dense array.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if issparse(self.coef_):
            dense = self.coef_.toarray()
            self.coef_ = dense[0] if isinstance(self, RegressorMixin) else dense
        return self

    def _scores(self, X: Any) -> Array:
        """Return <x, w> + b of each row, one column an output; unknown features of a row block count 0."""
        check_is_fitted(self)
        if isinstance(X, RowBlock):
            dense = self.coef_.toarray() if issparse(self.coef_) else np.atleast_2d(self.coef_)
            return np.asarray(X.times(dense.T) + self.intercept_)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        coef = self.coef_ if issparse(self.coef_) else np.atleast_2d(self.coef_)
        return np.asarray(safe_sparse_dot(X, coef.T, dense_output=True) + self.intercept_)

    def _linear_model(self) -> LinearModel:
        """Return what a certificate has to know of this model."""
        check_is_fitted(self)
        loss, penalty = self._solved
        coef = self.coef_.toarray() if issparse(self.coef_) else np.atleast_2d(self.coef_)
        one = len(coef) == 1
        return LinearModel(
            coef[0] if one else coef.T,
            float(np.squeeze(self.intercept_)) if one else self.intercept_,
            loss,
            penalty,
            fit_intercept=self.fit_intercept,
            classes=getattr(self, "classes_", None),
            class_weight=getattr(self, "class_weight", None),
            alpha=self.dual_coef_,
        )


class BatchRegressor(RegressorMixin, BatchEstimator):  # type: ignore[misc]
    """A batch estimator of numbers."""

    _kinds = ("regression",)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the problem that the rows state.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        loss, penalty = self._loss(), self._penalty()
        X, y, c = self._checked(X, y, sample_weight, y_numeric=True)
        loss.check_labels(y)
        penalty.check_shape((X.shape[1],))
        return self._fit(Problem(as_block(X, y, c), X.shape[1], loss, penalty, bool(self.fit_intercept)))

    def predict(self, X: Any) -> Array:
        """Return the predicted numbers: e^score for the Poisson loss, else the scores.

        Parameters
        ----------
        X : array, sparse matrix, frame or RowBlock

        Returns
        -------
        array of shape (n_samples,)
        """
        scores = self._scores(X)[:, 0]
        return np.asarray(np.exp(scores)) if self._solved[0].name == "poisson" else scores

    def _set_weights(self, coef: Array, intercept: Any) -> None:
        self.coef_, self.intercept_ = coef, float(intercept)


class BatchClassifier(Classifies, BatchEstimator):
    """A batch estimator of classes.

    Two classes have one vector of weights, classes_[1] being positive. With more, the logistic loss is the softmax and
    the hinge the multiclass hinge; every other binary loss, or multi_class="one_vs_rest", sets each class against the
    rest.
    """

    _kinds = ("binary", "multiclass")
    class_weight: Any
    multi_class: str
    classes_: Array

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the problem that the rows state.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Labels of at least two classes.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        penalty = self._penalty()
        X, y, c = self._checked(X, y, sample_weight)
        check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"a classifier needs at least 2 classes, got 1 class: {classes.tolist()}")
        loss, labels = self._twin(len(classes)), encoded(y, classes)
        if self.class_weight is not None:
            told = compute_class_weight(self.class_weight, classes=classes, y=y)
            c = told[labels] * (c if len(c) else 1.0)
        many = len(classes) > 2
        rows = as_block(X, labels if many else 2.0 * labels - 1.0, c)
        problem = Problem(rows, X.shape[1], loss, penalty, bool(self.fit_intercept), len(classes) if many else 1)
        penalty.check_shape(problem.shape)
        self.classes_ = classes
        return self._fit_each(problem, len(classes)) if many and loss.kind == "binary" else self._fit(problem)

    def _twin(self, n_classes: int) -> Loss:
        """Return the loss that goes with so many classes."""
        _checks.one_of("multi_class", self.multi_class, ("auto", "one_vs_rest"))
        loss = self._loss()
        if self.multi_class == "one_vs_rest" and loss.kind != "binary":
            raise ValueError(f"multi_class='one_vs_rest' takes a binary loss such as 'logistic', got {loss}")
        if n_classes == 2:
            return losses.get({many: two for two, many in TWINS.items()}.get(loss.name, loss))
        return loss if self.multi_class == "one_vs_rest" else losses.get(TWINS.get(loss.name, loss))

    def decision_function(self, X: Any) -> Array:
        """Return the scores.

        Parameters
        ----------
        X : array, sparse matrix, frame or RowBlock

        Returns
        -------
        array of shape (n_samples,) for two classes, above 0 for classes_[1]; else (n_samples, n_classes)
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _each_against_rest(self) -> bool:
        return bool(self._solved[0].kind == "binary")

    def _set_weights(self, coef: Array, intercept: Any) -> None:
        self.coef_ = np.ascontiguousarray(coef.T) if coef.ndim == 2 else coef[np.newaxis]
        self.intercept_ = np.atleast_1d(np.asarray(intercept, dtype=np.float64))


def summed(histories: list[list[Record]]) -> list[Record]:
    """Return one history of problems that were solved side by side: sums of where each stood.

    >>> one = [Record(1, 0.5, 3.0, 1.0, 2.0, 4)]
    >>> other = [Record(1, 0.1, 2.0, 1.5, 0.5, 1), Record(2, 0.3, 2.0, 2.0, 0.0, 1)]
    >>> summed([one, other])
    [Record(epoch=1, seconds=0.5, primal=5.0, dual=2.5, gap=2.5, nnz=5),
     Record(epoch=2, seconds=0.5, primal=5.0, dual=3.0, gap=2.0, nnz=5)]
    """
    if len(histories) == 1:
        return histories[0]
    together = []
    for i in range(max(map(len, histories))):
        now = [history[min(i, len(history) - 1)] for history in histories]
        epoch, seconds = max(r.epoch for r in now), max(r.seconds for r in now)
        together.append(Record(epoch, seconds, *(sum(column) for column in list(zip(*now, strict=True))[2:])))
    return together
