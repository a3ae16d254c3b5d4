"""DaskStreamClassifier and DaskStreamRegressor: the estimators of streams, learning in lanes on a Dask cluster.

`rounds` describes how, `learner.merge` what is added. These classes find classes and features of the data, and are
otherwise the local estimators that they are named after: `to_local` returns one, and `save` writes one.
"""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from distributed import Client
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from ..core import validation as _checks
from ..core.algorithms import Algorithm
from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import Array
from ..data.batches import Batch
from ..estimators.classifier import StreamClassifier
from ..estimators.regressor import StreamRegressor
from .client import connect
from .labels import ClassEncoder, TargetCheck
from .lazy_predictions import LazyClassifier, LazyRegressor
from .partitions import Partitions, Survey, make_partitions
from .stream_fitting import DaskStreamBase, survey_if_needed


class DaskStreamClassifier(LazyClassifier, DaskStreamBase, StreamClassifier):
    """A sparse linear classifier that learns on a Dask cluster, in rounds.

    It follows the minimizer of

        (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    as `StreamClassifier` does, in lanes that run in parallel. All lanes start a round with the same state, each learns
    its next rows with the compiled kernels, and their changes are added: the state of dual averaging is a sum over
    rows. At the end of a round a lane has not seen the changes of the other lanes from at most `rows_per_round` rows:
    that bounds staleness. One lane equals `StreamClassifier` bit for bit, for any number of rounds. More lanes give the
    same bits each time, whichever worker ran a task or died.

    The state of RDA, of AdaGrad with dual averaging, FTRLProximal and AutoFTRL is such a sum; see
    `proxstream.learner.merge`. For other algorithms, and for average=True, fit raises a TypeError.

    Parameters
    ----------
    algorithm, loss, penalty, fit_intercept, class_weight, multi_class
        As of `StreamClassifier`.
    passes : int
    shuffle : bool
        Whether each pass shuffles the order of the partitions (not of the rows in them).
    average : bool
        Must be False.
    n_threads : int
        Lock-free threads per lane; not bit-reproducible if > 1.
    random_state : int, RandomState or None
    verbose : int
        1 shows a bar on stderr.
    rows_per_round : int, optional
        Rows per round, of all lanes together. None is two per lane and feature, at least 2^17 and at most 2^22. The
        first rounds of a model have fewer: 1024 per lane, 2048, and so on.
    lanes : int, optional
        Partitions learned in parallel. None is one per thread of the workers when fit is called.
    client : Client, str or None
        A client, an address, "local:N" for N worker processes on this machine, or None for the current client; if there
        is none, a cluster on this machine is started, and closed afterwards.
    checkpoint : path, optional
        A file on the client with the state after each round. If it exists when fit starts, made with the same settings
        and partitions, fit resumes from it; a finished fit removes it.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_, t_, nnz_, progressive_loss_
        As of `StreamClassifier`. The progressive loss is that of each lane's predictions before learning.
    lanes_ : int
    rounds_ : list of Round
        number, rows, all_rows, mean_loss, sent (bytes of changes) and seconds of each round.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from distributed import Client
    >>> from proxstream.cluster import DaskStreamClassifier
    >>> X = np.random.default_rng(0).normal(size=(4000, 5))
    >>> with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as client:
    ...     model = DaskStreamClassifier(client=client).fit(da.from_array(X, chunks=(500, 5)), X[:, 0] > 0)
    >>> model.lanes_, model.t_, model.to_local().score(X, X[:, 0] > 0) > 0.95
    (2, 4000, True)

    References: L. Xiao, Dual averaging methods for regularized stochastic learning and online optimization, 2010;
    J. Duchi, A. Agarwal, M. Wainwright, Dual averaging for distributed optimization, 2012.
    """

    _local = StreamClassifier

    def __init__(
        self,
        algorithm: Algorithm | None = None,
        loss: Loss | str = "logistic",
        penalty: Penalty | None = None,
        passes: int = 1,
        shuffle: bool = False,
        average: bool = False,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        class_weight: Any = None,
        multi_class: str = "auto",
        verbose: int = 0,
        rows_per_round: int | None = None,
        lanes: int | None = None,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None, **reading: Any) -> Self:
        """Learn the rows from the start, in `passes` passes.

        Parameters
        ----------
        X : dask array, data frame, bag, list of delayed values or futures, path, glob or list of paths
            See `proxstream.cluster.partitions.make_partitions`. Files are opened and read by the workers.
        y : dask array or series, column of the frame, list of delayed values or futures, or local array
        sample_weight : as y, optional
        classes : array, optional
            All classes. None finds them in the labels, which takes a pass over files.
        **reading
            For files: `format`, `features` and the other options of `proxstream.open_stream`.

        Returns
        -------
        self
        """
        with self._kept_if_refused(), connect(self.client) as client:
            parts, found, known = self._survey(client, make_partitions(X, y, sample_weight, **reading), classes)
            self._begin(known, parts.n_features or found.n_features, parts.dtype)
            self._name(parts)
            return self._learn_partitions(client, parts, self._label_encoder(found), self._orders(len(parts)))

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None, **reading: Any
    ) -> Self:
        """Learn more partitions, in one pass and in order.

        Parameters
        ----------
        X, y, sample_weight, **reading
            As of `fit`.
        classes : array, optional
            All classes, for the first call.

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        with self._kept_if_refused(), connect(self.client) as client:
            parts = make_partitions(X, y, sample_weight, **reading)
            parts, found, known = self._survey(client, parts, classes if first else self.classes_)
            if first:
                self._begin(known, parts.n_features or found.n_features, parts.dtype)
                self._name(parts)
            else:
                self._know(Batch(np.empty((0, 0)), np.empty(0)), classes, first=False)
                self._check_features(parts)
            return self._learn_partitions(client, parts, self._label_encoder(found), [list(range(len(parts)))])

    def _survey(self, client: Client, parts: Partitions, classes: Any) -> tuple[Partitions, Survey, Array]:
        """Return the partitions with their rows counted, their statistics, and the classes."""
        counted = classes is None or isinstance(self.class_weight, str)
        parts, found = survey_if_needed(client, parts, labels=counted)
        known = found.labels if classes is None else unique_labels(classes)
        check_classification_targets(known)
        return parts, found, known

    def _label_encoder(self, found: Survey) -> ClassEncoder:
        weights = None
        if self.class_weight is not None:
            class_weight: Any = self.class_weight
            if isinstance(class_weight, str):
                _checks.one_of("class_weight", class_weight, ("balanced",))
                class_weight = dict(
                    zip(
                        found.labels.tolist(),
                        sum(found.rows) / (len(found.labels) * np.maximum(found.counts, 1)),
                        strict=True,
                    )
                )
            weights = compute_class_weight(class_weight, classes=self.classes_, y=self.classes_)
        return ClassEncoder(self.classes_, self._learner.n_outputs > 1, weights)


class DaskStreamRegressor(LazyRegressor, DaskStreamBase, StreamRegressor):  # type: ignore[misc]
    """A sparse linear regression that learns on a Dask cluster, in rounds.

    It is `StreamRegressor` in lanes that run in parallel, as in `DaskStreamClassifier`; parameters and attributes are
    theirs.

    Examples
    --------
    >>> from proxstream.cluster import DaskStreamRegressor
    >>> DaskStreamRegressor(loss="huber(0.5)", lanes=4)
    DaskStreamRegressor(lanes=4, loss='huber(0.5)')

    Reference: L. Xiao, Dual averaging methods for regularized stochastic learning and online optimization, 2010.
    """

    _local = StreamRegressor

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
        rows_per_round: int | None = None,
        lanes: int | None = None,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **reading: Any) -> Self:  # type: ignore[override]
        """Learn the rows from the start, in `passes` passes.

        Parameters
        ----------
        X, y, sample_weight, **reading
            As of `DaskStreamClassifier.fit`.

        Returns
        -------
        self
        """
        with self._kept_if_refused(), connect(self.client) as client:
            parts, found = survey_if_needed(client, make_partitions(X, y, sample_weight, **reading), labels=False)
            self._start(self._loss(), 1, parts.n_features or found.n_features, parts.dtype, growing=True)
            self._name(parts)
            return self._learn_partitions(client, parts, TargetCheck(self._learner.loss), self._orders(len(parts)))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, **reading: Any) -> Self:  # type: ignore[override]
        """Learn more partitions, in one pass and in order.

        Parameters
        ----------
        X, y, sample_weight, **reading
            As of `DaskStreamClassifier.fit`.

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        with self._kept_if_refused(), connect(self.client) as client:
            parts, found = survey_if_needed(client, make_partitions(X, y, sample_weight, **reading), labels=False)
            if first:
                self._start(self._loss(), 1, parts.n_features or found.n_features, parts.dtype, growing=True)
                self._name(parts)
            else:
                self._check_features(parts)
            return self._learn_partitions(client, parts, TargetCheck(self._learner.loss), [list(range(len(parts)))])
