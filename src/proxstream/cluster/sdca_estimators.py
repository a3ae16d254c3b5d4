"""DaskSDCAClassifier and DaskSDCARegressor: Prox-SDCA on a cluster, with one duality gap over all rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..core import validation as _checks
from ..core.losses import Loss
from ..core.validation import Array
from ..estimators import SDCAClassifier, SDCARegressor
from ..estimators._batch import DEFAULT_PENALTY, BatchClassifier, BatchRegressor
from ..estimators._classifier import loss_of_classes
from ..estimators._params import PenaltyLike
from .cocoa_estimator import DaskSDCABase, at_client
from .labels import ClassEncoder, TargetCheck
from .lazy_predictions import LazyClassifier, LazyRegressor
from .partitions import make_partitions, survey


class DaskSDCAClassifier(LazyClassifier, BatchClassifier, DaskSDCABase):
    """`SDCAClassifier` on a cluster: CoCoA+ over blocks of rows that stay on Dask's workers.

    It minimizes the same objective,

        P(w, b) = (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    until the duality gap, recomputed over all rows of all workers, is at most tol * max(|primal|, |dual|). In each
    round every block moves its own dual variables by passes of Prox-SDCA, and one vector of the size of the weights is
    summed over all blocks. If a worker dies, Dask repeats its work, and the result is the same bits.

    For more than two classes pass multi_class="one_vs_rest": one problem per class is solved, one after another.

    Parameters
    ----------
    loss, penalty, tol, option, sampling, strong_part, fit_intercept : as in `SDCAClassifier`
    max_epochs : int
        Rounds.
    local_epochs : int
        Passes over a block per round: use more if rounds are slow, as with large `n_features`.
    n_blocks : int, optional
        Number of blocks into which partitions are combined, in their order. None is one per thread of the cluster when
        the fit starts: fewer blocks take fewer rounds. A block has to fit into the memory of a worker.
    client : distributed.Client, str or None
        An address, "local:N", or None: the current client, or else a cluster on this machine.
    checkpoint : path, optional
        A file on the client to which the dual variables (16 bytes per row) are written every `checkpoint_every` rounds.
        A fit that finds one resumes from it, to the same bits; other data or settings are rejected. Also, Dask need
        not go back further than this when a worker dies. A fit that reaches `tol` removes it.
    checkpoint_every : int
    random_state, class_weight : as in `SDCAClassifier`
    multi_class : {"auto", "one_vs_rest"}

    Attributes
    ----------
    coef_, intercept_, classes_, primal_, dual_, duality_gap_, nnz_, n_features_in_ : as in `SDCAClassifier`
    n_iter_ : int
        Rounds.
    history_ : list of RoundRecord(epoch, seconds, primal, dual, gap, nnz, bytes)
        One for each round, the start included.
    dual_coef_ : dask array of shape (n_samples,) or (n_samples, n_classes)
        On the workers, one chunk per block, in the order of the partitions; a NumPy array if the cluster ended with the
        fit.

    Examples
    --------
    >>> import numpy as np, dask.array as da, proxstream as ps
    >>> from distributed import Client
    >>> from proxstream.cluster import DaskSDCAClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 20))
    >>> y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=500) > 0, "yes", "no")
    >>> with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
    ...     model = DaskSDCAClassifier(penalty=ps.L2(0.01), client=client, random_state=0)
    ...     model = model.fit(da.from_array(X, chunks=(100, 20)), da.from_array(y, chunks=100))
    >>> bool(0 <= model.duality_gap_ <= 1e-4 * model.primal_), model.predict(X[:2]).tolist()
    (True, ['yes', 'no'])

    Reference: Ma et al. 2015, Adding vs. averaging in distributed primal-dual optimization.
    """

    _local = SDCAClassifier

    def __init__(
        self,
        loss: Loss | str = "logistic",
        penalty: PenaltyLike = DEFAULT_PENALTY,
        tol: float = 1e-4,
        max_epochs: int = 1000,
        option: str = "I",
        sampling: str = "permutation",
        strong_part: str = "l2",
        fit_intercept: bool = True,
        local_epochs: int = 1,
        n_blocks: int | None = None,
        client: Any = None,
        checkpoint: Any = None,
        checkpoint_every: int = 10,
        random_state: Any = None,
        class_weight: Any = None,
        multi_class: str = "auto",
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None, **reading: Any) -> Self:
        """Solve the problem over the rows of all partitions.

        Parameters
        ----------
        X : dask array, data frame or bag, list of delayed values or futures, or paths
            See `proxstream.cluster.partitions.make_partitions`.
        y, sample_weight : dask arrays or series chunked as X, columns of the frame; None for files
        classes : list, optional
            All classes, which saves a pass over files (class_weight="balanced" has to count them anyway).
        **reading
            For files: `format`, `features` and the other options of `open_stream`.

        Returns
        -------
        self
        """
        self._check_parameters()
        parts = make_partitions(X, y, sample_weight, **reading)
        with at_client(self.client) as at:
            counts = np.empty(0)
            if classes is None or self.class_weight == "balanced":
                seen = survey(at.client, parts)
                counts, known = seen.counts, seen.labels
            else:
                known = np.unique(np.asarray(classes))
            if len(known) < 2:
                raise ValueError(f"a classifier needs at least 2 classes, got {known.tolist()}")
            loss = loss_of_classes(self._loss(), len(known), self.multi_class)
            if loss.kind != "binary":
                raise ValueError(
                    f"{len(known)} classes on a cluster need a binary loss and multi_class='one_vs_rest', got "
                    f" loss={self.loss!r}, multi_class={self.multi_class!r}"
                )
            encode = ClassEncoder(known, len(known) > 2, self._class_weights(known, counts))
            self._solve_all(parts, loss, encode, range(len(known)) if len(known) > 2 else [None], at)
        self.classes_ = known
        return self

    def _class_weights(self, classes: Array, counts: Array) -> Array | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str):
            _checks.one_of("class_weight", self.class_weight, ("balanced",))
            return np.asarray(counts.sum() / (len(classes) * counts))
        return np.array([float(self.class_weight.get(label, 1.0)) for label in classes.tolist()])


class DaskSDCARegressor(LazyRegressor, BatchRegressor, DaskSDCABase):  # type: ignore[misc]
    """`SDCARegressor` on a cluster: CoCoA+ over blocks of rows that stay on Dask's workers.

    The objective and the certificate are those of `SDCARegressor`; the solver is that of `DaskSDCAClassifier`.

    Parameters
    ----------
    loss, penalty, tol, option, sampling, strong_part, fit_intercept, random_state : as in `SDCARegressor`
    max_epochs, local_epochs, n_blocks, client, checkpoint, checkpoint_every : as in `DaskSDCAClassifier`

    Attributes
    ----------
    coef_, intercept_, primal_, dual_, duality_gap_, nnz_, n_features_in_ : as in `SDCARegressor`
    n_iter_, history_, dual_coef_ : as in `DaskSDCAClassifier`

    Examples
    --------
    >>> import numpy as np, dask.array as da, proxstream as ps
    >>> from distributed import Client
    >>> from proxstream.cluster import DaskSDCARegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 5))
    >>> y = X[:, 0] + 0.5 + 0.1 * rng.normal(size=300)
    >>> with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
    ...     model = DaskSDCARegressor(penalty=ps.L2(0.01), tol=1e-6, client=client, random_state=0)
    ...     model = model.fit(da.from_array(X, chunks=(100, 5)), da.from_array(y, chunks=100))
    >>> round(float(model.coef_[0]), 2), round(model.intercept_, 2)
    (1.0, 0.49)

    Reference: Ma et al. 2015, Adding vs. averaging in distributed primal-dual optimization.
    """

    _local = SDCARegressor

    def __init__(
        self,
        loss: Loss | str = "squared",
        penalty: PenaltyLike = DEFAULT_PENALTY,
        tol: float = 1e-4,
        max_epochs: int = 1000,
        option: str = "I",
        sampling: str = "permutation",
        strong_part: str = "l2",
        fit_intercept: bool = True,
        local_epochs: int = 1,
        n_blocks: int | None = None,
        client: Any = None,
        checkpoint: Any = None,
        checkpoint_every: int = 10,
        random_state: Any = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **reading: Any) -> Self:  # type: ignore[override]
        """Solve the problem over the rows of all partitions.

        Parameters
        ----------
        X, y, sample_weight, **reading : as in `DaskSDCAClassifier.fit`

        Returns
        -------
        self
        """
        self._check_parameters()
        parts, loss = make_partitions(X, y, sample_weight, **reading), self._loss()
        with at_client(self.client) as at:
            return self._solve_all(parts, loss, TargetCheck(loss), [None], at)
