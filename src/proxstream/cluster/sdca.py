"""DaskSDCAClassifier and DaskSDCARegressor: Prox-SDCA on a cluster, with one duality gap over all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple, Self
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Client, Future
from sklearn.utils.validation import check_is_fitted

from .. import _checks
from .._checks import Array
from ..batch import Problem, Record, Solution
from ..blocks import as_block
from ..estimators import SDCAClassifier, SDCARegressor
from ..estimators.batch import BatchClassifier, BatchRegressor
from ..estimators.sdca import _SDCA
from ..losses import Loss
from ..penalties import Penalty
from . import cocoa
from .clients import connected
from .cocoa import Facts, Job
from .cocoa_run import Outcome, Run
from .kept import Keeper, settings_of
from .parts import Parts, parts_of, survey
from .work import Cluster, Labelled, block_of


class RoundRecord(NamedTuple):
    """One line of the history; `bytes` is what partitions were told and gave, each counted as if alone on a worker."""

    epoch: int
    seconds: float
    primal: float
    dual: float
    gap: float
    nnz: int
    bytes: int


class _DaskSDCA(_SDCA):
    """What both share: from partitions to runs of CoCoA+."""

    output, average_from, n_threads, warm_start = "last", None, 1, False
    _advice = "raise max_epochs, local_epochs or tol, strengthen the penalty, or scale the features"
    _local: type

    history_: Any
    local_epochs: int
    n_blocks: int | None
    client: Any
    checkpoint: Any
    checkpoint_every: int

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checks.integer("local_epochs", self.local_epochs, low=1)
        _checks.integer("checkpoint_every", self.checkpoint_every, low=1)
        if self.n_blocks is not None:
            _checks.integer("n_blocks", self.n_blocks, low=1)

    def _blocks(self, client: Client, parts: Parts, labelled: Labelled) -> tuple[list[Future], list[Facts]]:
        """Ask the cluster for row blocks, and tell what is in them; empty ones are left out."""
        wanted = self.n_blocks or sum(client.nthreads().values())
        groups = np.array_split(np.arange(len(parts)), min(wanted, len(parts)))
        run = uuid4().hex[:12]
        blocks = [
            client.submit(
                block_of, labelled, [parts.parts[i].load(client) for i in group], key=f"proxstream-block-{run}-{number}"
            )
            for number, group in enumerate(groups)
        ]
        found: list[Facts] = client.gather(client.map(cocoa.facts, blocks, pure=False))
        there = [i for i, fact in enumerate(found) if fact.n_rows]
        if not there or not sum(fact.total for fact in found) > 0.0:
            raise ValueError("the partitions must have a row whose weight is not zero, got none")
        return [blocks[i] for i in there], [found[i] for i in there]

    def _solve_all(self, parts: Parts, labelled: Labelled, classes: Sequence[int | None], at: _At) -> Self:
        """Solve one problem, or one a class, and keep what they give."""
        penalty, fit_intercept = self._penalty(), bool(self.fit_intercept)
        blocks, each = self._blocks(at.client, parts, labelled)
        told, rows = cocoa.summed_facts(each), [fact.n_rows for fact in each]
        d = parts.n_features or told.n_features
        penalty.check_shape((d,))
        job = Job(
            labelled.loss,
            penalty,
            d,
            fit_intercept,
            told.total,
            len(blocks),
            option=self.option,
            sampling=self.sampling,
            strong_part=self.strong_part,
            local_epochs=self.local_epochs,
            seed=self._seed(),
        )
        keepers, outcomes, sent = [], [], 0
        for positive in classes:
            own, keeper, start = replace(job, positive=positive), None, None
            if self.checkpoint is not None:
                keeper = Keeper(self.checkpoint, settings_of(own, rows, self.random_state is not None))
                own, start = keeper.find(own)
                keepers.append(keeper)
            run = Run(
                Cluster(at.client),
                own,
                blocks,
                told,
                tol=self.tol,
                max_rounds=self.max_epochs,
                keep=None if keeper is None else keeper.keep,
                keep_every=self.checkpoint_every,
            )
            outcomes.append(run.solve(start))
            sent += run.bytes_a_round
        problem = Problem(as_block(np.zeros((0, d))), d, labelled.loss, penalty, fit_intercept)
        none = np.empty(0)
        self.n_features_in_ = d
        if parts.names:
            self.feature_names_in_ = np.array(parts.names, dtype=object)
        self._keep([Solution(o.coef, o.intercept, none, o.history, o.converged) for o in outcomes], problem)
        self._solutions = []
        self.history_ = [RoundRecord._make((*record, sent)) for record in self.history_]
        self.dual_coef_ = _dual(outcomes, rows, at)
        if all(outcome.converged for outcome in outcomes):
            for keeper in keepers:
                keeper.clear()
        return self

    def to_local(self) -> Any:
        """Return the model as a `SDCAClassifier` or `SDCARegressor`, which needs no cluster and can be saved.

        Returns
        -------
        SDCAClassifier or SDCARegressor
        """
        check_is_fitted(self)
        local = self._local()
        known = self.get_params(deep=False)
        local.set_params(**{name: known[name] for name in local.get_params(deep=False) if name in known})
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") or name == "_solved"}
        for name, value in fitted.items():
            setattr(local, name, value)
        local.history_ = [Record(*record[:6]) for record in self.history_]
        local.dual_coef_ = np.asarray(self.dual_coef_)
        local._solutions = []
        return local


class _At(NamedTuple):
    """A client, and whether it lives on after the fit."""

    client: Client
    stays: bool


@contextmanager
def _at(client: Any) -> Iterator[_At]:
    stays = isinstance(client, Client)
    if client is None:
        with suppress(ValueError):
            stays = Client.current(allow_global=True) is not None
    with connected(client) as made:
        yield _At(made, stays)


def _dual(outcomes: list[Outcome], rows: list[int], at: _At) -> Any:
    """Leave dual variables where they are, as a dask array; take them along if the cluster ends with the fit."""
    columns = [
        da.concatenate(
            [da.from_delayed(delayed(alpha), (n,), np.float64) for alpha, n in zip(o.alphas, rows, strict=True)]
        )
        for o in outcomes
    ]
    dual = columns[0] if len(columns) == 1 else da.stack(columns, axis=1)
    return dual if at.stays else at.client.compute(dual).result()


class DaskSDCAClassifier(BatchClassifier, _DaskSDCA):
    """`SDCAClassifier` on a cluster: CoCoA+ over blocks of rows that stay on Dask's workers.

    It minimizes the same objective,

        P(w, b) = (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    until the duality gap, computed afresh over all rows of all workers, is at most tol * max(|primal|, |dual|). In each
    round every block moves its own dual variables by passes of Prox-SDCA, and one vector of weights' size is summed
    over all blocks. A worker that dies is made good by Dask, and the result is the same bits.

    With more than two classes each class stands against the rest (multi_class="one_vs_rest", which must be told); their
    problems are solved one after the other.

    Parameters
    ----------
    loss, penalty, tol, option, sampling, strong_part, fit_intercept : as in `SDCAClassifier`
    max_epochs : int
        Rounds.
    local_epochs : int
        Passes over a block in a round: more of them where rounds are slow, as with large `n_features`.
    n_blocks : int, optional
        Into how many blocks partitions are put together, in their order. None is one for each thread of the cluster as
        it is when the fit begins: fewer blocks take fewer rounds. A block has to fit into a worker's memory.
    client : distributed.Client, str or None
        An address, "local:N", or None: the current client, or else a cluster on this machine.
    checkpoint : path, optional
        A file on the client's disk that keeps the dual variables (16 bytes a row) every `checkpoint_every` rounds. A
        fit that finds one goes on from it, to the same bits; other data or settings are refused. Also, Dask need not
        go back further than this when a worker dies. A fit that reaches `tol` removes it.
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
        On the workers, a chunk a block, in the order of the partitions; a NumPy array if the cluster ended with the
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
        penalty: Penalty | None = None,
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
        self.loss = loss
        self.penalty = penalty
        self.tol = tol
        self.max_epochs = max_epochs
        self.option = option
        self.sampling = sampling
        self.strong_part = strong_part
        self.fit_intercept = fit_intercept
        self.local_epochs = local_epochs
        self.n_blocks = n_blocks
        self.client = client
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.random_state = random_state
        self.class_weight = class_weight
        self.multi_class = multi_class

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **reading: Any) -> Self:
        """Solve the problem that the rows of all partitions state.

        Parameters
        ----------
        X : dask array, data frame or bag, list of delayed values or futures, or paths
            As `proxstream.cluster.parts.parts_of` takes them.
        y, sample_weight : dask arrays or series cut as X is, columns of the frame; None for files
        **reading
            For files: `format`, `features` and all that `open_stream` takes.

        Returns
        -------
        self
        """
        self._check_parameters()
        parts = parts_of(X, y, sample_weight, **reading)
        with _at(self.client) as at:
            seen = survey(at.client, parts)
            if len(seen.labels) < 2:
                raise ValueError(f"a classifier needs at least 2 classes, got {seen.labels.tolist()}")
            many = len(seen.labels) > 2
            loss = self._twin(len(seen.labels))
            if loss.kind != "binary":
                raise ValueError(
                    f"{len(seen.labels)} classes: on a cluster each is set against the rest, with a binary loss and "
                    f"multi_class='one_vs_rest'; got loss={self.loss!r}, multi_class={self.multi_class!r}"
                )
            labelled = Labelled(loss, seen.labels, self._class_weights(seen.labels, seen.counts))
            self.classes_ = seen.labels
            return self._solve_all(parts, labelled, range(len(seen.labels)) if many else [None], at)

    def _class_weights(self, classes: Array, counts: Array) -> Array | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str):
            _checks.one_of("class_weight", self.class_weight, ("balanced",))
            return np.asarray(counts.sum() / (len(classes) * counts))
        return np.array([float(self.class_weight.get(label, 1.0)) for label in classes.tolist()])


class DaskSDCARegressor(BatchRegressor, _DaskSDCA):
    """`SDCARegressor` on a cluster: CoCoA+ over blocks of rows that stay on Dask's workers.

    The objective and the certificate are those of `SDCARegressor`; how it is solved is told in `DaskSDCAClassifier`.

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
        penalty: Penalty | None = None,
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
        self.loss = loss
        self.penalty = penalty
        self.tol = tol
        self.max_epochs = max_epochs
        self.option = option
        self.sampling = sampling
        self.strong_part = strong_part
        self.fit_intercept = fit_intercept
        self.local_epochs = local_epochs
        self.n_blocks = n_blocks
        self.client = client
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **reading: Any) -> Self:
        """Solve the problem that the rows of all partitions state.

        Parameters
        ----------
        X, y, sample_weight, **reading : as in `DaskSDCAClassifier.fit`

        Returns
        -------
        self
        """
        self._check_parameters()
        parts = parts_of(X, y, sample_weight, **reading)
        with _at(self.client) as at:
            return self._solve_all(parts, Labelled(self._loss()), [None], at)
