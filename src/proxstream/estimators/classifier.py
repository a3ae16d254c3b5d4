"""StreamClassifier: two classes or many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from ..core.algorithms import AROW
from ..core.losses import Loss
from ..core.parsing import as_algorithm
from ..core.validation import Array
from ..data.batches import Batch
from ..data.labels import LabelEncoder, class_weighted
from ..learner.learner import Learner
from ._base import StreamEstimator
from ._classifier import Classifies, loss_of_classes
from ._params import AlgorithmLike, PenaltyLike


class StreamClassifier(Classifies, StreamEstimator):
    """A sparse linear classifier that learns in one pass, a row at a time.

    It follows the minimizer of

        (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    where phi is the loss, Psi the penalty, c_i the weight of row i and b the intercept, which is never penalized. With
    penalty_weight="once", where an algorithm has it, Psi is added once to the sum of the losses in place of their
    mean, so that it matters less the longer the stream is.

    A model is a function of the sequence of rows: `fit` in one call, `partial_fit` in any batches, dense or sparse,
    give the same model bit for bit (with one thread). A weight of zero is exactly zero.

    Two classes have one vector of weights, classes_[1] being positive. With more, the logistic loss is the softmax and
    the hinge the multiclass hinge of Crammer and Singer; every other binary loss learns one class against the rest, and
    so does AROW. (For two classes, in turn, softmax and multiclass_hinge are the logistic loss and the hinge.)

    Parameters
    ----------
    algorithm : Algorithm or str, optional
        How to learn, such as RDA(gamma=2.0) or "rda(gamma=2)". None is `AutoFTRL()`, which needs no rate.
    loss : str or Loss
        "logistic", "hinge", "squared_hinge", "smoothed_hinge", "perceptron", "softmax", "multiclass_hinge", any of them
        with parameters as in "smoothed_hinge(0.5)", or a custom loss.
    penalty : Penalty or str, optional
        Psi, such as L1(1e-4) or "l1(1e-4) + nonnegative". None is no penalty.
    passes : int
        How often `fit` (and `fit_stream`, if the stream can be read again) goes over the rows.
    shuffle : bool
        Whether `fit` takes the rows in another random order each pass.
    average : bool
        Predict with the mean of all weights played, where the algorithm can keep it.
    fit_intercept : bool
    n_threads : int
        If > 1, update the model from several threads without locks: faster, but not bit-reproducible.
    random_state : int, RandomState or None
        For `shuffle`.
    class_weight : dict, "balanced" or None
        What multiplies the weights of a class's rows. "balanced" makes all classes weigh the same, and is for `fit`
        alone, which can count them.
    multi_class : {"auto", "one_vs_rest"}
        With more than two classes: as described above, or one class against the rest whatever the binary loss.
    verbose : int
        1 shows a bar on stderr, with rows per second and the progressive loss.
    callbacks : list of callables, optional
        Each is called with the `PassRecord` of every pass; a true return value ends the fit. Not stored in model files.
    features : FeatureSpec, optional
        How the columns of data frames become features, text columns too; numbers are standardized unless it says
        `standardize=False`. None takes frames of numbers as matrices.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) for two classes, else (n_classes, n_features)
        Made on access; CSR after `sparsify()`.
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : array of str, when X had names
    t_ : int
        Rows learned, all passes counted.
    nnz_ : int
        Weights that are not zero.
    progressive_loss_ : float
        The weighted mean loss of predictions made before each row was learned (first pass): an honest estimate that
        costs no data. One-vs-rest: the sum over the classes' problems.
    history_ : list of PassRecord(epoch, rows, progressive_loss, nnz, seconds)
        One for each pass of `fit` or `fit_stream`; `partial_fit` adds none, and model files leave it out.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 50))
    >>> y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=2000) > 0, "yes", "no")
    >>> model = ps.StreamClassifier(ps.FTRLProximal(alpha=0.5), penalty=ps.L1(0.03)).fit(X, y)
    >>> np.flatnonzero(model.coef_), model.classes_
    (array([0, 1]), array(['no', 'yes'], dtype='<U3'))
    >>> model.predict_proba(X[:1]).sum()
    np.float64(1.0)
    >>> model.set_params(algorithm__alpha=0.1).algorithm
    FTRLProximal(alpha=0.1, beta=1.0, penalty_weight='every_round')

    References: McMahan 2017, A survey of algorithms and analysis for adaptive online learning; Xiao 2010, Dual
    averaging methods for regularized stochastic learning and online optimization.
    """

    _kinds = ("binary", "multiclass")

    def __init__(
        self,
        algorithm: AlgorithmLike = None,
        loss: Loss | str = "logistic",
        penalty: PenaltyLike = None,
        passes: int = 1,
        shuffle: bool = False,
        average: bool = False,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        class_weight: Any = None,
        multi_class: str = "auto",
        verbose: int = 0,
        callbacks: Any = None,
        features: Any = None,
    ) -> None:
        self._set_parameters(locals())

    # ---- learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows from the start, in `passes` passes.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features), or RowBlock
        y : array of shape (n_samples,)
            None takes the labels of a RowBlock, or the label column that `features` names.
            Labels of at least two classes.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        with self._kept_if_refused():
            X, y, c = self._checked(X, y, sample_weight, reset=True)
            check_classification_targets(y)
            batch = Batch(X, y)
            self._begin(np.unique(y), batch.n_features, batch.dtype)
            return self._fit(self._standardized(self._batch(X, y, c, counted=True)))

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows, in one pass and in order.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features), or RowBlock
        y : array of shape (n_samples,)
            None takes the labels of a RowBlock, or the label column that `features` names.
        classes : array, optional
            All classes that will ever come, for the first call. None takes those of the first call's y.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        with self._kept_if_refused():
            X, y, c = self._checked(X, y, sample_weight, reset=first)
            check_classification_targets(y)
            self._know(Batch(X, y), classes, first)
            return self._learn_more(self._standardized(self._batch(X, y, c)), first=first)

    def fit_stream(self, stream: Iterable[Any], classes: Any = None, reset: bool = True) -> Self:
        """Learn a stream of batches; new features may turn up at any time.

        Batches are learned as they are read and may be forgotten then. A refused batch raises an error, and leaves the
        model as the batches before it made it. Empty batches are passed over.

        Parameters
        ----------
        stream : iterable of (X, y), (X, y, sample_weight) or RowBlock
            A later X may have more columns than the first, or fewer: those that are missing are zero. With `passes`
            above 1 it has to be an iterable that can be read again.
        classes : array, optional
            All classes that will ever come. None takes those of the first batch.
        reset : bool
            Start from scratch, as `fit` does. False continues from the current model, as `partial_fit` does.

        Returns
        -------
        self
        """
        return self._stream(stream, reset, classes=classes)

    def _prepare(self, batch: Batch, *, first: bool, **options: Any) -> Batch:
        check_classification_targets(batch.y)
        self._know(batch, options["classes"], first)
        return self._batch(batch.X, batch.y, batch.c)

    def _know(self, batch: Batch, classes: Any, first: bool) -> None:
        """Settle the classes at the first batch, hold on to them at the others."""
        if first:
            known = np.unique(batch.y) if classes is None else unique_labels(classes)
            self._begin(known, batch.n_features, batch.dtype)
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(f"classes={classes!r} is not the same as on the first call: {self.classes_.tolist()}")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all labels at once, as fit has them: for partial_fit and "
                "fit_stream compute the weights from a sample and give them as a dict"
            )

    def _begin(self, classes: Array, n_features: int, dtype: Any) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"a classifier needs at least 2 classes, got 1 class: {classes.tolist()}; a batch may have one alone "
                "when all are declared up front, as partial_fit(X, y, classes=...)"
            )
        joint = not isinstance(as_algorithm(self.algorithm), AROW)
        loss = loss_of_classes(self._loss(), len(classes), self.multi_class, joint=joint)
        self._start(loss, len(classes) if len(classes) > 2 else 1, n_features, dtype, growing=True)
        self.classes_ = classes

    def _batch(self, X: Any, y: Array, c: Array, *, counted: bool = False) -> Batch:
        """Return the batch with labels as the loss knows them, and with the classes' weights."""
        encoder, factors = LabelEncoder(self.classes_), None
        numbers = encoder.encode(y, "; declare classes that come later up front, as partial_fit(X, y, classes=...)")
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y if counted else self.classes_)
        return Batch(X, encoder.targets(numbers, self._learner.n_outputs), class_weighted(c, numbers, factors))

    def _coef(self, weights: Array) -> Array:
        return np.ascontiguousarray(weights.T) if weights.ndim == 2 else weights[np.newaxis]

    def _intercept(self, intercept: Any) -> Any:
        return np.atleast_1d(intercept)

    def _restored(self, learner: Learner, **fitted: Any) -> None:
        classes = fitted["classes_"]
        if classes.ndim != 1 or len(classes) != max(learner.n_outputs, 2):
            raise ValueError(
                f"a learner of {learner.n_outputs} outputs has as many classes (1: two), got {len(classes)}"
            )
        super()._restored(learner, **fitted)
