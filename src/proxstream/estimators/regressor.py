"""StreamRegressor: numbers and counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from .. import losses
from .._checks import Array, vector
from ..algorithms import Algorithm
from ..losses import Loss
from ..penalties import Penalty
from .base import StreamEstimator
from .rows import Batch


class StreamRegressor(RegressorMixin, StreamEstimator):  # type: ignore[misc]
    """A sparse linear regression that learns in one pass, a row at a time.

    It follows the minimizer of

        (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    where phi is the loss, Psi the penalty, c_i the weight of row i and b the intercept, which is never penalized. With
    penalty_weight="once", where an algorithm has it, Psi stands once beside the sum of the losses in place of their
    mean, so that it matters less the longer the stream is.

    A model is a function of the sequence of rows: `fit` in one call, `partial_fit` in any batches, dense or sparse,
    give the same model bit for bit (with one thread). A weight of zero is exactly zero.

    Parameters
    ----------
    algorithm : Algorithm, optional
        How to learn. None is `AutoFTRL()`, which needs no rate and does not mind the units of X and y.
    loss : str or Loss
        "squared", "absolute", "huber", "epsilon_insensitive", "quantile", "poisson", any of them with parameters as in
        "quantile(0.9)", or a loss of one's own. With "poisson", for counts y >= 0, `predict` returns the mean
        e^(<w, x> + b).
    penalty : Penalty, optional
        Psi, such as L1(1e-4) or L1(1e-4) + NonNegative(). None is no penalty.
    passes : int
        How often `fit` (and `fit_stream`, if the stream can be read again) goes over the rows.
    shuffle : bool
        Whether `fit` takes the rows in another random order each pass.
    average : bool
        Predict with the mean of all weights played, where the algorithm can keep it.
    fit_intercept : bool
    n_threads : int
        More than one: lock-free threads that share the model; faster, and not the same bits each time.
    random_state : int, RandomState or None
        For `shuffle`.
    verbose : int
        1 shows a bar on stderr, with rows a second and the progressive loss.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Made on access; CSR of shape (1, n_features) after `sparsify()`.
    intercept_ : float
    n_features_in_ : int
    feature_names_in_ : array of str, when X had names
    t_ : int
        Rows learned, all passes counted.
    nnz_ : int
        Weights that are not zero.
    progressive_loss_ : float
        The weighted mean loss of predictions made before each row was learned (first pass): an honest estimate that
        costs no data.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 50))
    >>> y = 3.0 * X[:, 0] - 2.0 * X[:, 1] + 5.0 + rng.normal(size=2000)
    >>> model = ps.StreamRegressor(ps.FTRLProximal(alpha=2.0), penalty=ps.L1(0.3)).fit(X, y)
    >>> np.flatnonzero(model.coef_), bool(model.score(X, y) > 0.9)
    (array([0, 1]), True)

    References: McMahan 2017, A survey of algorithms and analysis for adaptive online learning; Xiao 2010, Dual
    averaging methods for regularized stochastic learning and online optimization.
    """

    _kinds = ("regression",)

    def __init__(
        self,
        algorithm: Algorithm | None = None,
        loss: Loss | str = "squared",
        penalty: Penalty | None = None,
        passes: int = 1,
        shuffle: bool = False,
        average: bool = False,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            algorithm, loss, penalty, passes, shuffle, average, fit_intercept, n_threads, random_state, verbose
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = str(self.loss) == "poisson"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the rows from the start, in `passes` passes.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        with self._kept_if_refused():
            X, y, c = self._checked(X, y, sample_weight, reset=True, y_numeric=True)
            return self._fit(self._taken(Batch(X, y, c), first=True))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more rows, in one pass and in order.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        with self._kept_if_refused():
            X, y, c = self._checked(X, y, sample_weight, reset=first, y_numeric=True)
            return self._learned(self._taken(Batch(X, y, c), first=first))

    def fit_stream(self, stream: Iterable[Any], reset: bool = True) -> Self:
        """Learn a stream of batches; new features may turn up at any time.

        Batches are learned as they are read and may be forgotten then. A refused batch raises an error, and leaves the
        model as the batches before it made it. Empty batches are passed over.

        Parameters
        ----------
        stream : iterable of (X, y), (X, y, sample_weight) or RowBlock
            A later X may have more columns than the first, or fewer: those that are missing are zero. With `passes`
            above 1 it has to be an iterable that can be read again.
        reset : bool
            Start anew, as `fit` does. False goes on from what the model knows, as `partial_fit` does.

        Returns
        -------
        self
        """
        return self._stream(stream, reset)

    def _taken(self, batch: Batch, *, first: bool, **told: Any) -> Batch:
        loss = self._loss() if first else self._learner.loss
        y = vector("y", batch.y).astype(np.float64, copy=False)
        loss.check_labels(y)
        if first:
            self._start(loss, 1, batch.n_features, batch.dtype, growing=True)
        return batch._replace(y=y)

    def predict(self, X: Any) -> Array:
        """Return the predictions, in the units of y.

        Parameters
        ----------
        X : array, sparse matrix, frame or RowBlock

        Returns
        -------
        array of shape (n_samples,)
        """
        scores = self._scores(X)
        return np.exp(scores) if isinstance(self._learner.loss, type(losses.poisson)) else scores
