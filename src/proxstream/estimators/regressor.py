"""StreamRegressor: numbers and counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ..core.losses import Loss
from ..core.validation import vector
from ..data.batches import Batch
from ..data.offsets import absorbed
from ..data.rowblock import weights_or_ones
from ._base import StreamEstimator
from ._params import AlgorithmLike, PenaltyLike
from ._regressor import Regresses, checked_offset


class StreamRegressor(Regresses, StreamEstimator):
    """A sparse linear regression that learns in one pass, a row at a time.

    It follows the minimizer of

        (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    where phi is the loss, Psi the penalty, c_i the weight of row i and b the intercept, which is never penalized. With
    penalty_weight="once", where an algorithm has it, Psi is added once to the sum of the losses in place of their
    mean, so that it matters less the longer the stream is.

    A model is a function of the sequence of rows: `fit` in one call, `partial_fit` in any batches, dense or sparse,
    give the same model bit for bit (with one thread). A weight of zero is exactly zero.

    Parameters
    ----------
    algorithm : Algorithm or str, optional
        How to learn, such as RDA(gamma=2.0) or "rda(gamma=2)". None is `AutoFTRL()`, which needs no rate and
        does not depend on the units of X and y.
    loss : str or Loss
        "squared", "absolute", "huber", "epsilon_insensitive", "quantile", "poisson", "gamma", "tweedie", any of them
        with parameters as in "quantile(0.9)", or a custom loss. With "poisson", "gamma" and "tweedie", for counts and
        amounts, `predict` returns the mean e^(<w, x> + b).
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
    verbose : int
        1 shows a bar on stderr, with rows per second and the progressive loss.
    callbacks : list of callables, optional
        Each is called with the `PassRecord` of every pass; a true return value ends the fit. Not stored in model files.
    features : FeatureSpec, optional
        How the columns of data frames become features, text columns too; numbers are standardized unless it says
        `standardize=False`. None takes frames of numbers as matrices.

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
    history_ : list of PassRecord(epoch, rows, progressive_loss, nnz, seconds)
        One for each pass of `fit` or `fit_stream`; `partial_fit` adds none, and model files leave it out.

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
        algorithm: AlgorithmLike = None,
        loss: Loss | str = "squared",
        penalty: PenaltyLike = None,
        passes: int = 1,
        shuffle: bool = False,
        average: bool = False,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        features: Any = None,
    ) -> None:
        self._set_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        loss = self._component("loss", self.loss)  # an invalid one is refused by fit
        tags.target_tags.positive_only = getattr(loss, "link", None) == "log"
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None) -> Self:
        """Learn the rows from the start, in `passes` passes.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features), or RowBlock
        y : array of shape (n_samples,)
            None takes the labels of a RowBlock, or the label column that `features` names.
        sample_weight : array of shape (n_samples,), optional
        offset : array of shape (n_samples,), optional
            Added to the scores, for the losses poisson, gamma and tweedie: log exposures. With poisson and tweedie it
            takes a model without a penalty other than constraints: see docs/estimators.md.

        Returns
        -------
        self
        """
        with self._kept_if_refused():
            X, y, c = self._checked(X, y, sample_weight, reset=True, y_numeric=True)
            batch = self._standardized(self._prepare(Batch(X, y, c), first=True))
            return self._fit(self._with_offset(batch, offset))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None) -> Self:
        """Learn more rows, in one pass and in order.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features), or RowBlock
        y : array of shape (n_samples,)
            None takes the labels of a RowBlock, or the label column that `features` names.
        sample_weight : array of shape (n_samples,), optional
        offset : array of shape (n_samples,), optional
            Added to the scores, for the losses poisson, gamma and tweedie: log exposures. With poisson and tweedie it
            takes a model without a penalty other than constraints: see docs/estimators.md.

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        with self._kept_if_refused():
            X, y, c = self._checked(X, y, sample_weight, reset=first, y_numeric=True)
            batch = self._standardized(self._prepare(Batch(X, y, c), first=first))
            return self._learn_more(self._with_offset(batch, offset), first=first)

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
            Start from scratch, as `fit` does. False continues from the current model, as `partial_fit` does.

        Returns
        -------
        self
        """
        return self._stream(stream, reset)

    def _prepare(self, batch: Batch, *, first: bool, **options: Any) -> Batch:
        loss = self._loss() if first else self._learner.loss
        y = vector("y", batch.y).astype(np.float64, copy=False)
        loss.check_labels(y)
        if first:
            self._start(loss, 1, batch.n_features, batch.dtype, growing=True)
        return batch._replace(y=y)

    def _with_offset(self, batch: Batch, offset: Any) -> Batch:
        """Return a batch whose labels and weights have taken in the offset."""
        if offset is None:
            return batch
        rows = absorbed(self._learner.loss, batch.y, checked_offset(self._learner.loss, offset, len(batch.y)))
        if not self._learner.penalty.is_constraint and not (rows.factors == 1.0).all():
            raise ValueError(
                f"offset with the loss {self._learner.loss} needs penalty=None or constraints in a stream estimator: "
                "it acts by weights of rows, which would multiply the penalty too; CertifiedRegressor takes both"
            )
        c = weights_or_ones(batch.c, batch.n_rows)
        shift = float(c @ rows.constants), float(c @ (1.0 - rows.factors))
        return batch._replace(y=rows.y, c=c * rows.factors, shift=shift)
