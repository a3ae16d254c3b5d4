"""What the estimators on Dask share: labels on workers, the survey, the run with its checkpoints, the way back home."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from distributed import Client
from sklearn.utils import check_random_state

from .. import _checks
from .._checks import Array
from ..engines import sums
from ..estimators.base import StreamEstimator
from ..estimators.progress import progress
from ..estimators.rows import Batch, encoded
from ..learner import Learner
from ..losses import Loss
from .checkpoint import Keeper
from .lanes import Told
from .parts import Parts, Survey, survey
from .plan import Plan, Round
from .rounds import Rounds

FEWEST, MOST, A_FEATURE = 1 << 17, 1 << 22, 2  # rows of a round: at least, at most, and for each lane a feature

OWN = ("rows_per_round", "lanes", "client", "checkpoint")  # parameters that the local estimators do not have


@dataclass(frozen=True)
class Classes:
    """Makes labels of classes what the loss knows, on workers; `weights` multiply those of rows, a class."""

    classes: Array
    several: bool
    weights: Array | None = None

    def __call__(self, batch: Batch) -> Batch:
        """Return a batch with its labels -1 and 1, or 0, 1, ..."""
        labels = encoded(batch.y, self.classes)
        c = batch.c
        if self.weights is not None:
            c = self.weights[labels] * (c if len(c) else 1.0)
        return batch._replace(y=labels.astype(np.float64) if self.several else 2.0 * labels - 1.0, c=c)


@dataclass(frozen=True)
class Numbers:
    """Checks labels that are numbers, on workers."""

    loss: Loss

    def __call__(self, batch: Batch) -> Batch:
        """Return a batch with 64-bit labels that the loss accepts."""
        y = _checks.vector("y", batch.y).astype(np.float64, copy=False)
        self.loss.check_labels(y)
        return batch._replace(y=y)


def settings_of(learner: Learner) -> dict[str, Any]:
    """Return by what a worker makes the same learner."""
    names = ("algorithm", "loss", "penalty", "n_features", "n_outputs", "dtype", "fit_intercept", "n_threads")
    return {name: getattr(learner, name) for name in names} | {"growing": True}


def lanes_of(client: Client, told: int | None, n_parts: int) -> int:
    """Return the number of lanes: as told, or one a thread of the cluster; never more than partitions."""
    if told is None:
        client.wait_for_workers(1, timeout=300)
        told = sum(client.nthreads().values())
    return min(_checks.integer("lanes", told, low=1), n_parts)


def rows_of(told: int | None, lanes: int, n_features: int) -> int:
    """Return the rows of a round of all lanes together: as told, or so many that adding is short beside learning.

    What a round costs beside learning grows with the features that it changes: about a quarter of a row of 40 non-zeros
    for each. With two rows a feature and lane that is an eighth of the round.
    """
    if told is not None:
        return _checks.integer("rows_per_round", told, low=1)
    return min(max(A_FEATURE * lanes * n_features, FEWEST), MOST)


class OnDask(StreamEstimator):
    """What both estimators share."""

    rows_per_round: int | None
    lanes: int | None
    client: Any
    checkpoint: str | os.PathLike[str] | None
    rounds_: list[Round]
    lanes_: int

    def _learn_parts(self, client: Client, parts: Parts, labelled: Any, orders: list[list[int]]) -> Self:
        """Learn partitions from the state that the model is in."""
        learner = self._learner
        reason = sums.refusal(learner.algorithm, learner.engine, self.average)
        if reason:
            raise TypeError(f"{type(self).__name__}: {reason}")
        lanes = lanes_of(client, self.lanes, len(parts))
        plan = Plan(lanes, rows_of(self.rows_per_round, lanes, learner.n_features), orders, fresh=learner.t == 0)
        keeper = None if self.checkpoint is None else Keeper(self.checkpoint, self._told(parts))
        kept = None if keeper is None else keeper.find()
        if kept is not None:
            plan = kept.plan
            learner.load_state_dict(kept.arrays)
        with progress(self.verbose, None) as tell:

            def on_round(ended: Round, told: tuple[Told, ...]) -> None:
                tell(ended.rows, ended.mean_loss)
                if keeper is not None:
                    keeper.keep(learner, plan, run.standing)

            standing = None if kept is None else kept.standing
            settings = settings_of(learner)
            run = Rounds(
                client,
                parts,
                learner,
                settings,
                labelled,
                plan,
                on_round=on_round,
                wants=None if keeper is None else lambda *rows: True,
                standing=standing,
            )
            run()
        if learner.t == 0:
            raise ValueError("the partitions have no rows to learn from")
        if keeper is not None:
            keeper.clear()
        self.rounds_, self.lanes_ = run.rounds, plan.lanes
        self.n_features_in_ = learner.n_features
        return self

    def _orders(self, n_parts: int) -> list[list[int]]:
        """Return the partitions in the order of each pass."""
        random = check_random_state(self.random_state) if self.shuffle else None
        passes = range(_checks.integer("passes", self.passes, low=1))
        return [list(range(n_parts)) if random is None else random.permutation(n_parts).tolist() for _ in passes]

    def _told(self, parts: Parts) -> dict[str, Any]:
        """Return all that the model depends on, for checkpoints."""
        aside = ("client", "checkpoint", "verbose", "n_threads")
        told = {name: repr(value) for name, value in self.get_params(deep=False).items() if name not in aside}
        told["partitions"] = str(len(parts))
        if parts.from_files:
            told["files"] = ", ".join(part.data.path for part in parts.parts)
        if hasattr(self, "classes_"):
            told["classes"] = repr(self.classes_.tolist())
        return told

    def _name(self, parts: Parts) -> None:
        """Take the names of columns."""
        self._forget_names()
        if parts.names:
            self.feature_names_in_ = np.array(parts.names, dtype=object)

    def _same_features(self, parts: Parts) -> None:
        known = getattr(self, "feature_names_in_", None)
        if known is not None and parts.names and tuple(known) != parts.names:
            raise ValueError(f"the columns must be those of the first call, {', '.join(known)}; got {parts.names}")
        if parts.n_features is not None and not parts.from_files and parts.n_features != self.n_features_in_:
            raise ValueError(f"X has {parts.n_features} features, but the model has {self.n_features_in_}")

    def _local(self, cls: type[StreamEstimator]) -> Any:
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        model = cls(**params)
        own = vars(self)
        for name in ("_learner", "_sparse", "n_features_in_", "feature_names_in_", "classes_"):
            if name in own:
                setattr(model, name, own[name])
        return model

    def to_local(self) -> Any:
        """Return the local estimator that this model is: it shares the learner, and goes on without a cluster.

        Returns
        -------
        StreamClassifier or StreamRegressor
        """
        raise NotImplementedError

    def __proxstream_as__(self) -> Any:
        return self.to_local()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state["client"] = self.client if isinstance(self.client, str) else None  # connections stay where they are
        return state


def looked(client: Client, parts: Parts, *, labels: bool) -> tuple[Parts, Survey]:
    """Return the partitions with their rows counted, unless they are files, and what was found in them.

    Nothing is looked at that is known or not asked for.
    """
    if labels or (parts.rows is None and not parts.from_files):
        found = survey(client, parts, labels=labels)
    else:
        found = Survey(parts.rows or (), parts.n_features or 0, parts.dtype, np.empty(0), np.empty(0, np.int64))
    rows = None if parts.from_files else found.rows
    dtype = found.dtype if parts.dtype is None else parts.dtype
    return replace(parts, rows=rows, dtype=dtype, n_features=parts.n_features or found.n_features or None), found
