"""From partitions on a cluster to runs of CoCoA+ and back to a fitted estimator: what both estimators share."""

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
from ..batch import Problem, Record, Solution
from ..blocks import as_block
from ..estimators.sdca import _SDCA
from . import cocoa
from .clients import connected
from .cocoa import Facts, Job
from .cocoa_run import Outcome, Run
from .kept import Keeper, settings_of
from .lazily import is_lazy, predicted
from .parts import Parts
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


class OnBlocks(_SDCA):
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

    def _solve_all(self, parts: Parts, labelled: Labelled, classes: Sequence[int | None], at: At) -> Self:
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

    def to_local(self, *, dual: bool = True) -> Any:
        """Return the model as a `SDCAClassifier` or `SDCARegressor`, which needs no cluster and can be saved.

        Parameters
        ----------
        dual : bool
            Bring the dual variables to the client.

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
        local.dual_coef_ = np.asarray(self.dual_coef_) if dual else np.empty(0)
        local._solutions = []
        return local

    def _said(self, X: Any, method: str, width: int = 0, dtype: Any = np.float64) -> Any:
        """Return what the local model says: of a dask array or frame a dask array."""
        local = self.to_local(dual=False)
        return predicted(local, X, method, width, dtype) if is_lazy(X) else getattr(local, method)(X)


class At(NamedTuple):
    """A client, and whether it lives on after the fit."""

    client: Client
    stays: bool


@contextmanager
def at_client(client: Any) -> Iterator[At]:
    """Connect to what `client` means; see `clients.connected`."""
    stays = isinstance(client, Client)
    if client is None:
        with suppress(ValueError):
            stays = Client.current(allow_global=True) is not None
    with connected(client) as made:
        yield At(made, stays)


def _dual(outcomes: list[Outcome], rows: list[int], at: At) -> Any:
    """Leave dual variables where they are, as a dask array; take them along if the cluster ends with the fit."""
    columns = [
        da.concatenate(
            [da.from_delayed(delayed(alpha), (n,), np.float64) for alpha, n in zip(o.alphas, rows, strict=True)]
        )
        for o in outcomes
    ]
    dual = columns[0] if len(columns) == 1 else da.stack(columns, axis=1)
    return dual if at.stays else at.client.compute(dual).result()
