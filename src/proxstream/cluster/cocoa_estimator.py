"""What the SDCA estimators on a cluster share: from partitions to runs of CoCoA+ to a fitted estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple, Self
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Client, Future
from sklearn.utils.validation import check_is_fitted

from ..batch import Problem, Record, Solution
from ..batch.centring import Frame, frame_of
from ..core import validation as _checks
from ..core.losses import Loss
from ..data.batches import Batch
from ..data.rowblock import RowBlock, as_block
from ..estimators.sdca import _SDCA
from . import cocoa
from .checkpoint import CocoaCheckpoint, cocoa_settings
from .client import connect, tree
from .cocoa import DataSums, Job
from .cocoa_run import Outcome, Run
from .partitions import Partitions, batches, to_row_block


class DaskEngine:
    """Runs tasks on Dask, each with its own name; Dask computes a lost result again."""

    def __init__(self, client: Client) -> None:
        self.client, self._run, self._number = client, uuid4().hex[:12], 0

    def _key(self, name: str) -> str:
        self._number += 1
        return f"proxstream-{name}-{self._run}-{self._number}"

    def submit(self, function: Any, *arguments: Any) -> Future:
        """Return the future of a result.

        Dual variables of a checkpoint are part of the task, so that Dask can restart from it: that they are large is
        intended, and Dask need not warn.
        """
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            return self.client.submit(function, *arguments, key=self._key(function.__name__))

    def tree(self, function: Any, handles: Sequence[Future]) -> Future:
        """Return the future of all results combined, in their order."""
        return tree(self.client, function, handles, self._key("tree"))

    def result(self, handle: Future) -> Any:
        """Wait for a result."""
        return handle.result()


def block_of(encode: Callable[[Batch], Batch], loaded: list[Any]) -> RowBlock:
    """Return loaded partitions as one checked row block, on a worker."""
    rows = to_row_block([batch for part in loaded for batch in batches(part)], encode)
    rows.check()
    rows.check_finite()
    return rows._replace(indptr=rows.indptr.astype(np.int32)) if rows.indptr[-1] < 2**31 else rows


class RoundRecord(NamedTuple):
    """One line of the history; `bytes` are those received and sent by partitions, as if each were alone on a worker."""

    epoch: int
    seconds: float
    primal: float
    dual: float
    gap: float
    nnz: int
    bytes: int


class DaskSDCABase(_SDCA):
    """From partitions to runs of CoCoA+."""

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

    def _blocks(
        self, client: Client, parts: Partitions, encode: Callable[[Batch], Batch]
    ) -> tuple[list[Future], list[DataSums]]:
        """Return futures of the row blocks and their sums, without empty blocks."""
        wanted = self.n_blocks or sum(client.nthreads().values())
        groups = np.array_split(np.arange(len(parts)), min(wanted, len(parts)))
        run = uuid4().hex[:12]
        blocks = [
            client.submit(
                block_of, encode, [parts.parts[i].load(client) for i in group], key=f"proxstream-block-{run}-{number}"
            )
            for number, group in enumerate(groups)
        ]
        found: list[DataSums] = client.gather(client.map(cocoa.data_sums, blocks, pure=False))
        there = [i for i, one in enumerate(found) if one.n_rows]
        if not there or not sum(one.total for one in found) > 0.0:
            raise ValueError("the partitions must have a row whose weight is not zero, got none")
        return [blocks[i] for i in there], [found[i] for i in there]

    def _solve_all(
        self, parts: Partitions, loss: Loss, encode: Callable[[Batch], Batch], classes: Sequence[int | None], at: At
    ) -> Self:
        """Solve one problem, or one per class, and set the fitted attributes."""
        penalty, fit_intercept = self._penalty(), bool(self.fit_intercept)
        blocks, each = self._blocks(at.client, parts, encode)
        sums, rows = cocoa.add_sums(each), [one.n_rows for one in each]
        d = parts.n_features or sums.n_features
        penalty.check_shape((d,))
        # Partitions have one source: if columns and labels of the first are far from 0, all are centred.
        frame = at.client.submit(frame_of, blocks[0], loss, pure=False).result() if fit_intercept else None
        if frame is not None:
            blocks = at.client.map(frame.rows, blocks, pure=False)
            sums = cocoa.add_sums(at.client.gather(at.client.map(cocoa.data_sums, blocks, pure=False)))
        job = Job(
            loss,
            penalty,
            d,
            fit_intercept,
            sums.total,
            len(blocks),
            option=self.option,
            sampling=self.sampling,
            strong_part=self.strong_part,
            local_epochs=self.local_epochs,
            seed=self._seed(),
        )
        checkpoints, outcomes, sent = [], [], 0
        for positive in classes:
            own, checkpoint, start = replace(job, positive=positive), None, None
            if self.checkpoint is not None:
                checkpoint = CocoaCheckpoint(self.checkpoint, cocoa_settings(own, rows, self.random_state is not None))
                own, start = checkpoint.find(own)
                checkpoints.append(checkpoint)
            run = Run(
                DaskEngine(at.client),
                own,
                blocks,
                sums,
                tol=self.tol,
                max_rounds=self.max_epochs,
                save=None if checkpoint is None else checkpoint.save,
                save_every=self.checkpoint_every,
            )
            outcomes.append(run.solve(start))
            sent += run.bytes_per_round
        problem = Problem(as_block(np.zeros((0, d))), d, loss, penalty, fit_intercept)
        none = np.empty(0)
        self.n_features_in_ = d
        if parts.names:
            self.feature_names_in_ = np.array(parts.names, dtype=object)
        if frame is not None:
            outcomes = [_outward(outcome, frame) for outcome in outcomes]
        self._keep([Solution(o.coef, o.intercept, none, o.history, o.converged) for o in outcomes], problem)
        self._solutions = []
        self.history_ = [RoundRecord._make((*record, sent)) for record in self.history_]
        self.dual_coef_ = _dual(outcomes, rows, at)
        if all(outcome.converged for outcome in outcomes):
            for checkpoint in checkpoints:
                checkpoint.clear()
        return self

    def to_local(self, *, dual: bool = True) -> Any:
        """Return the model as a `SDCAClassifier` or `SDCARegressor`, which needs no cluster and can be saved.

        Parameters
        ----------
        dual : bool
            Send the dual variables to the client.

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

    def _to_predict(self) -> Any:
        return self.to_local(dual=False)


class At(NamedTuple):
    """A client, and whether it stays open after the fit."""

    client: Client
    stays: bool


@contextmanager
def at_client(client: Any) -> Iterator[At]:
    """Connect to a cluster; see `client.connect`."""
    stays = isinstance(client, Client)
    if client is None:
        with suppress(ValueError):
            stays = Client.current(allow_global=True) is not None
    with connect(client) as made:
        yield At(made, stays)


def _outward(outcome: Outcome, frame: Frame) -> Outcome:
    """Return the outcome for data that are not centred."""
    frame.check(outcome.coef)
    return outcome._replace(intercept=frame.outward(outcome.coef, outcome.intercept))


def _dual(outcomes: list[Outcome], rows: list[int], at: At) -> Any:
    """Return the dual variables as a dask array on the workers, as an array if the cluster ends with the fit."""
    columns = [
        da.concatenate(
            [da.from_delayed(delayed(alpha), (n,), np.float64) for alpha, n in zip(o.alphas, rows, strict=True)]
        )
        for o in outcomes
    ]
    dual = columns[0] if len(columns) == 1 else da.stack(columns, axis=1)
    return dual if at.stays else at.client.compute(dual).result()
