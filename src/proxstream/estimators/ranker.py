"""StreamRanker: the order of each query's rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from ..core.losses import Loss
from ..core.validation import Array, vector
from ..data.batches import Batch
from ..data.measures import pair_accuracy
from ._base import StreamEstimator
from ._params import AlgorithmLike, PenaltyLike
from ._rows import labelled_blocks


class StreamRanker(StreamEstimator):
    """A sparse linear ranking that learns in one pass, from pairs of rows.

    Rows belong to queries, given by `qid`, and y is their relevance: any numbers, the larger the better. Each row is
    paired with the rows of its query that came before it and differ in relevance. With the more relevant row first, the
    model follows the minimizer of

        (sum over pairs of c_ij phi(<w, x_i - x_j>, +1)) / (sum over pairs of c_ij)  +  Psi(w)

    where phi is the loss, Psi the penalty, and c_ij the geometric mean of the two rows' weights. An intercept would
    cancel in every pair: there is none. With penalty_weight="once", where an algorithm has it, Psi is added once to
    the sum of the losses in place of their mean.

    Rows of a query must be adjacent. A model is a function of the sequence of rows: `fit` in one call, or `partial_fit`
    in any batches, also if one ends within a query, give the same model bit for bit (with one thread).

    Parameters
    ----------
    algorithm : Algorithm or str, optional
        How to learn, such as RDA(gamma=2.0) or "rda(gamma=2)". None is `AutoFTRL()`, which needs no rate.
    loss : str or Loss
        "ranking_hinge", or any binary loss: "logistic" on pairs is the loss of RankNet.
    penalty : Penalty or str, optional
        Psi, such as L1(1e-4) or "l1(1e-4) + nonnegative". None is no penalty.
    passes : int
        How often `fit` (and `fit_stream`, if the stream can be read again) goes over the rows.
    shuffle : bool
        Whether `fit` takes the queries in another random order each pass; the rows of a query keep theirs.
    average : bool
        Predict with the mean of all weights played, where the algorithm can keep it.
    fit_intercept : bool
        Without effect, and kept so that all stream estimators share one signature: see above.
    n_threads : int
        If > 1, update the model from several threads without locks: faster, but not bit-reproducible.
    random_state : int, RandomState or None
        For `shuffle`, and for the draws of `pairs`.
    pairs : int, optional
        At most so many partners for each row, sampled among those before it. None takes all: a query of m rows
        makes up to m (m - 1) / 2 pairs.
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
        0, or what the means of standardized columns leave.
    n_features_in_ : int
    feature_names_in_ : array of str, when X had names
    t_ : int
        Pairs learned, all passes counted.
    nnz_ : int
        Weights that are not zero.
    progressive_loss_ : float
        The weighted mean loss of pairs, each scored before any pair of its query was learned (first pass): that of new
        queries. NaN as long as there was none.
    history_ : list of PassRecord(epoch, rows, progressive_loss, nnz, seconds)
        One for each pass of `fit` or `fit_stream`; `partial_fit` adds none, and model files leave it out.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(1000, 20)), np.repeat(np.arange(100), 10)
    >>> y = np.round(X[:, 0] + 10.0 * rng.normal(size=100)[qid])        # only the order within a query matters
    >>> model = ps.StreamRanker(ps.FTRLProximal(alpha=0.5), penalty=ps.L1(0.05)).fit(X, y, qid=qid)
    >>> np.flatnonzero(model.coef_), round(model.score(X, y, qid=qid), 2)
    (array([0]), 1.0)

    References: Herbrich, Graepel and Obermayer 2000, Large margin rank boundaries for ordinal regression; Burges et al.
    2005, Learning to rank using gradient descent.
    """

    _kinds = ("ranking", "binary")
    _ranks = True

    def __init__(
        self,
        algorithm: AlgorithmLike = None,
        loss: Loss | str = "ranking_hinge",
        penalty: PenaltyLike = None,
        passes: int = 1,
        shuffle: bool = False,
        average: bool = False,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        pairs: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
        features: Any = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows from the start, in `passes` passes.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features), or RowBlock
        y : array of shape (n_samples,)
            None takes the labels of a RowBlock, or the label column that `features` names.
            Relevance.
        qid : array of shape (n_samples,), optional
            The query of each row, an integer; rows of a query must be adjacent. None: all rows are one query.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        with self._kept_if_refused():
            X, y, c = self._checked(X, y, sample_weight, reset=True, y_numeric=True)
            batch = self._prepare(Batch(X, y, c, qid), first=True)
            _check_together(batch.qid)
            return self._fit(self._standardized(batch))

    def partial_fit(self, X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows, in one pass and in order.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features), or RowBlock
        y : array of shape (n_samples,)
            None takes the labels of a RowBlock, or the label column that `features` names.
        qid : array of shape (n_samples,), optional
            The query of each row, an integer. A first row with the last qid of the call before continues its query.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        with self._kept_if_refused():
            X, y, c = self._checked(X, y, sample_weight, reset=first, y_numeric=True)
            batch = self._standardized(self._prepare(Batch(X, y, c, qid), first=first))
            return self._learn_more(batch, first=first)

    def fit_stream(self, stream: Iterable[Any], reset: bool = True) -> Self:
        """Learn a stream of batches; new features may turn up at any time.

        Batches are learned as they are read and may be forgotten then. A refused batch raises an error, and leaves the
        model as the batches before it made it. Empty batches are passed over.

        Parameters
        ----------
        stream : iterable of (X, y, qid), (X, y, qid, sample_weight) or (RowBlock, qid)
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
        y = vector("y", batch.y).astype(np.float64, copy=False)
        qid = _checked_qid(batch.qid, batch.n_rows)
        if first:
            seed = 0 if self.pairs is None else int(check_random_state(self.random_state).randint(2**31 - 1))
            settings = {"growing": True, "ranking": True, "pairs": self.pairs, "seed": seed}
            self._start(self._loss(), 1, batch.n_features, batch.dtype, **settings)
        return batch._replace(y=y, qid=qid)

    def _order(self, batch: Batch, random: np.random.RandomState) -> Array:
        starts = np.concatenate(([0], np.flatnonzero(np.diff(batch.qid)) + 1, [batch.n_rows]))
        runs = [np.arange(a, b) for a, b in pairwise(starts)]
        return np.concatenate([runs[i] for i in random.permutation(len(runs))])

    def decision_function(self, X: Any) -> Array:
        """Return the scores, as `predict` does.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives

        Returns
        -------
        array of shape (n_samples,)
        """
        return self._scores(X)

    def predict(self, X: Any) -> Array:
        """Return the scores: within a query, the larger, the higher a row ranks.

        Parameters
        ----------
        X : array, sparse matrix, frame, RowBlock or what `open_stream` gives

        Returns
        -------
        array of shape (n_samples,)
        """
        return self._scores(X)

    def score(self, X: Any, y: Any = None, qid: Any = None) -> float:
        """Return the pair accuracy: the share of pairs in the right order, in the mean over queries.

        Pairs are rows of one query that differ in relevance; one with equal scores counts half. Random scores have 0.5.
        Queries without pairs are left out; where all are, the score is NaN.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features), or RowBlock
        y : array of shape (n_samples,)
            None takes the labels of a RowBlock, or the label column that `features` names.
        qid : array of shape (n_samples,), optional
            None: all rows are one query.

        Returns
        -------
        float in [0, 1]
        """
        if y is None:
            labelled = ((rows, _checked_qid(ids, rows.n_rows)) for rows, ids in labelled_blocks(self, X))
            parts = [(self.predict(rows), rows.y, ids) for rows, ids in labelled]
            scores, y, qid = (np.concatenate(column) for column in zip(*parts, strict=True))
        else:
            scores = self.predict(X)
        y = vector("y", y, scores.shape)
        qid = _checked_qid(qid, len(scores))
        order = np.argsort(qid, kind="stable")
        queries = np.split(order, np.flatnonzero(np.diff(qid[order])) + 1)
        found = [pair_accuracy(scores[query], y[query]) for query in queries]
        known = [accuracy for accuracy in found if not np.isnan(accuracy)]
        return float(np.mean(known)) if known else float("nan")


def _checked_qid(qid: Any, n_rows: int) -> Array:
    if qid is None:
        return np.zeros(n_rows, np.int64)
    array = np.asarray(qid)
    if array.shape != (n_rows,) or array.dtype.kind not in "iu":
        raise ValueError(f"qid must be one integer per row, {n_rows} in all, got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64, copy=False)


def _check_together(qid: Array) -> None:
    """Refuse a query in two places: its rows would not meet."""
    begins = np.concatenate(([0], np.flatnonzero(np.diff(qid)) + 1))
    _, first = np.unique(qid[begins], return_index=True)
    if len(first) < len(begins):
        again = begins[np.setdiff1d(np.arange(len(begins)), first)[0]]
        raise ValueError(
            f"rows of a query must be adjacent, but qid {qid[again]} comes again at row {again}: sort by qid"
        )
