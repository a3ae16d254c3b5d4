"""What estimators that solve a batch problem share: checks, the road to a `Problem`, and the solution read back.

A subclass states its parameters and how to solve:

    def _solve(self, problem: Problem, start: Solution | None, n_threads: int) -> Solution

`start` is the last fit's solution of a problem of the same size under warm_start=True. One class against the rest is
one problem per class, solved in `n_threads` threads; all else about classes, labels and weights is settled here.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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

from ..batch import Problem, Record, Solution
from ..batch.adapters import LinearModel
from ..batch.centring import centred, outward
from ..batch.problem import shortfall, watching
from ..core import validation as _checks
from ..core.losses import Loss
from ..core.parsing import as_penalty
from ..core.penalties import L2, Penalty
from ..core.validation import Array
from ..data.batches import check_weights, checked_matrix
from ..data.labels import LabelEncoder, class_weighted, one_vs_rest
from ..data.offsets import WithoutOffset, absorbed
from ..data.rowblock import RowBlock, as_block, weights_or_ones
from ._classifier import Classifies, loss_of_classes
from ._params import Composed, PenaltyLike
from ._progress import check_callbacks, stops
from ._regressor import Regresses, checked_offset
from ._rows import block_scores, is_stream
from ._serialization import Stored
from ._top_features import LinearModelMixin

DEFAULT_PENALTY = L2(1e-4)  # in the signature of every batch estimator


class BatchEstimator(LinearModelMixin, Stored, Composed):
    """A linear model that ends with a proof; subclasses define what labels mean and how to solve."""

    _advice = "raise max_epochs or tol, strengthen the penalty, or scale the features"

    penalty: PenaltyLike
    tol: float
    max_epochs: int
    fit_intercept: bool
    random_state: Any
    warm_start: bool
    callbacks: Any = None

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
        check_callbacks(self.callbacks)
        for name in ("fit_intercept", "warm_start"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")

    def _penalty(self) -> Penalty:
        return as_penalty(self.penalty)

    def _loss(self) -> Loss:
        loss = super()._loss()
        loss.conjugate(np.zeros(2) if loss.kind == "multiclass" else 0.0, 1)  # a TypeError where there is none
        return loss

    def _seed(self) -> int:
        """Draw where a solver's random numbers begin."""
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    # ---- fitting

    def _checked(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> tuple[Any, Array, Array]:
        X, y = validate_data(self, checked_matrix(X), y, accept_sparse="csr", dtype=[np.float64, np.float32], **checks)
        c = check_weights(sample_weight, X.shape[0])
        if len(c) and not c.any():
            raise ValueError("sample_weight must have a weight that is not zero, got zeros alone")
        with np.errstate(over="ignore"):
            if not np.isfinite(np.sum(c)):
                raise ValueError(f"sample_weight must have a finite sum, got weights of up to {c.max():g}; scale them")
        return X, y, c

    def _fit(self, problem: Problem) -> Self:
        """Solve a problem and keep what it gives."""
        start = self._start(problem)
        with watching(partial(stops, self.callbacks)):
            solution = self._solve(problem, start[0] if start else None, self.n_threads)
        self._keep([solution], problem)
        return self

    def _fit_each(self, problem: Problem, n_classes: int) -> Self:
        """Solve one problem per class, each class against the rest, of a problem whose labels are classes."""
        start = self._start(problem)
        near, frame = centred(problem)  # once for all classes

        def solve(k: int) -> Solution:
            own = Problem(
                near.rows._replace(y=one_vs_rest(near.rows.y, k)),
                near.n_features,
                near.loss,
                near.penalty,
                near.fit_intercept,
            )
            first = start[k] if start else None
            if frame is None:
                return self._solve(own, first, 1)
            if first is not None:
                first = first._replace(intercept=frame.inward(first.coef, first.intercept))
            return outward(own, frame, self._solve(own, first, 1), self.tol)

        def watched(k: int) -> Solution:
            with watching(partial(stops, self.callbacks)):  # on the thread that solves
                return solve(k)

        with ThreadPoolExecutor(self.n_threads) as pool:
            self._keep(list(pool.map(watched, range(n_classes))), problem)
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
        short = [solution.history[-1] for solution in solutions if not solution.converged]
        if short:
            widest = max(short, key=lambda record: record.gap)
            message = shortfall(type(self).__name__, widest, self.tol, self._advice)
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

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
        """Return <x, w> + b of each row, one column per output; unknown features of a row block count 0."""
        check_is_fitted(self)
        if is_stream(X):
            return block_scores(self._scores, X)
        if isinstance(X, RowBlock):
            X.check()
            dense = self.coef_.toarray() if issparse(self.coef_) else np.atleast_2d(self.coef_)
            return X.scores(dense.T, self.intercept_)
        X = validate_data(self, checked_matrix(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        coef = self.coef_ if issparse(self.coef_) else np.atleast_2d(self.coef_)
        return np.asarray(safe_sparse_dot(X, coef.T, dense_output=True) + self.intercept_)

    @property
    def _fitted_loss(self) -> Loss:
        """The loss of the problem that was solved."""
        return self._solved[0]

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


class BatchRegressor(Regresses, BatchEstimator):
    """A batch estimator of numbers."""

    _kinds = ("regression",)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Solve the problem that the rows state.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
        offset : array of shape (n_samples,), optional
            Added to the scores, for the losses poisson, gamma and tweedie: log exposures. `tol` is then relative to
            the objective of the rates y / e^offset, weighted by exposure, which has the same solution.

        Returns
        -------
        self
        """
        self._check_parameters()
        loss, penalty = self._loss(), self._penalty()
        X, y, c = self._checked(X, y, sample_weight, y_numeric=True)
        loss.check_labels(y)
        penalty.check_shape((X.shape[1],))
        if offset is not None:
            rows = absorbed(loss, y, checked_offset(loss, offset, len(y)))
            return self._fit_offset(X, y, c, rows, loss, penalty)
        return self._fit(Problem(as_block(X, y, c, checked=True), X.shape[1], loss, penalty, bool(self.fit_intercept)))

    def _fit_offset(self, X: Any, y: Array, c: Array, rows: WithoutOffset, loss: Loss, penalty: Penalty) -> Self:
        """Solve the problem with an offset as one without, of other labels and weights.

        With factors f and constants k of rows, and means weighted by c,

            mean phi(p + o, y) + Psi = mean(f) [weighted mean of phi(p, y / e) + Psi / mean(f)] + mean(k)
        """
        c = weights_or_ones(c, len(y))
        factor, constant = float(c @ rows.factors / c.sum()), float(c @ rows.constants / c.sum())
        block = as_block(X, rows.y, c * rows.factors, checked=True)
        self._fit(Problem(block, X.shape[1], loss, penalty.scaled(1.0 / factor), bool(self.fit_intercept)))
        self._solved = loss, penalty
        self.history_ = [
            record._replace(primal=primal, dual=dual, gap=primal - dual)
            for record in self.history_
            for primal, dual in [(factor * record.primal + constant, factor * record.dual + constant)]
        ]
        last = self.history_[-1]
        self.primal_, self.dual_, self.duality_gap_ = last.primal, last.dual, last.gap
        return self

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
        loss, encoder, factors = (
            loss_of_classes(self._loss(), len(classes), self.multi_class),
            LabelEncoder(classes),
            None,
        )
        numbers, n_outputs = encoder.encode(y), len(classes) if len(classes) > 2 else 1
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=classes, y=y)
        c = class_weighted(c, numbers, factors)
        rows = as_block(X, encoder.targets(numbers, n_outputs), c, checked=True)
        problem = Problem(rows, X.shape[1], loss, penalty, bool(self.fit_intercept), n_outputs)
        penalty.check_shape(problem.shape)
        self.classes_ = classes
        return self._fit_each(problem, len(classes)) if n_outputs > 1 and loss.kind == "binary" else self._fit(problem)

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
