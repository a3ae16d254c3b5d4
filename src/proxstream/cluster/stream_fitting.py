"""What the stream estimators on Dask share: the survey, the run with its checkpoints, the local estimator."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Self

import numpy as np
from distributed import Client
from sklearn.utils import check_random_state

from ..core import validation as _checks
from ..estimators._base import StreamEstimator
from ..estimators._progress import progress
from ..learner import merge as sums
from ..learner.divergence import check_finite
from ..training.checkpoint import CheckpointStore
from .checkpoint import KIND, record_rounds, restore_rounds
from .first_rows import settle_scale
from .lanes import LaneReport
from .partitions import Partitions, Survey, survey
from .rounds import Rounds
from .schedule import Plan, Round, choose_lanes, choose_rows, learner_settings

# Parameters that the local estimators do not have.
CLUSTER_PARAMETERS = ("rows_per_round", "lanes", "client", "checkpoint")


class DaskStreamBase(StreamEstimator):
    """What both estimators share."""

    _local: type[StreamEstimator]
    rows_per_round: int | None
    lanes: int | None
    client: Any
    checkpoint: str | os.PathLike[str] | None
    callbacks = features = None  # parameters of the local estimators alone
    rounds_: list[Round]
    lanes_: int

    def _learn_partitions(self, client: Client, parts: Partitions, encode: Any, orders: list[list[int]]) -> Self:
        """Learn partitions, starting from the state of the model."""
        learner = self._learner
        lanes = choose_lanes(client, self.lanes, len(parts))
        plan = Plan(lanes, choose_rows(self.rows_per_round, lanes, learner.n_features), orders, fresh=learner.t == 0)
        settle_scale(client, parts, learner, encode, plan)
        reason = sums.refusal(learner.algorithm, learner.engine, self.average)
        if reason:
            raise TypeError(f"{type(self).__name__}: {reason}")
        checkpoints = None if self.checkpoint is None else CheckpointStore(self.checkpoint, self._settings(parts), KIND)
        checkpoint, done = None if checkpoints is None else checkpoints.find(), None
        if checkpoint is not None:
            plan, done = restore_rounds(checkpoint[0]["rounds"])
            learner.load_state_dict(checkpoint[1])
        with learner.undo_on_error(), progress(self.verbose, None) as show:

            def on_round(ended: Round, reports: tuple[LaneReport, ...]) -> None:
                show(ended.rows, ended.mean_loss)
                if checkpoints is not None:
                    checkpoints.save({"rounds": record_rounds(plan, run.progress)}, learner.state_dict(copy=False))

            settings = learner_settings(learner)
            run = Rounds(
                client,
                parts,
                learner,
                settings,
                encode,
                plan,
                on_round=on_round,
                needs_state=None if checkpoints is None else lambda *rows: True,
                progress=done,
            )
            run()
            check_finite(learner, "the merged state of the lanes")
        if learner.t == 0:
            raise ValueError("the partitions have no rows to learn from")
        if checkpoints is not None:
            checkpoints.clear()
        self.rounds_, self.lanes_ = run.rounds, plan.lanes
        self.n_features_in_ = learner.n_features
        return self

    def _orders(self, n_parts: int) -> list[list[int]]:
        """Return the partitions in the order of each pass."""
        random = check_random_state(self.random_state) if self.shuffle else None
        passes = range(_checks.integer("passes", self.passes, low=1))
        return [list(range(n_parts)) if random is None else random.permutation(n_parts).tolist() for _ in passes]

    def _settings(self, parts: Partitions) -> dict[str, Any]:
        """Return everything that the model depends on, for checkpoints."""
        others = ("client", "checkpoint", "verbose", "n_threads")
        settings = {name: repr(value) for name, value in self.get_params(deep=False).items() if name not in others}
        settings["partitions"] = str(len(parts))
        if parts.from_files:
            settings["files"] = ", ".join(part.data.path for part in parts.parts)
        if hasattr(self, "classes_"):
            settings["classes"] = repr(self.classes_.tolist())
        return settings

    def _name(self, parts: Partitions) -> None:
        """Set the names of columns."""
        self._forget_names()
        if parts.names:
            self.feature_names_in_ = np.array(parts.names, dtype=object)

    def _check_features(self, parts: Partitions) -> None:
        known = getattr(self, "feature_names_in_", None)
        if known is not None and parts.names and tuple(known) != parts.names:
            raise ValueError(
                f"the columns must be the same as in the first call, {', '.join(known)}; got {parts.names}"
            )
        if parts.n_features is not None and not parts.from_files and parts.n_features != self.n_features_in_:
            raise ValueError(f"X has {parts.n_features} features, but the model has {self.n_features_in_}")

    def to_local(self) -> Any:
        """Return the model as a `StreamClassifier` or `StreamRegressor`, which shares the learner and needs no cluster.

        Returns
        -------
        StreamClassifier or StreamRegressor
        """
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in CLUSTER_PARAMETERS}
        model = self._local(**params)
        own = vars(self)
        for name in ("_learner", "_sparse", "n_features_in_", "feature_names_in_", "classes_"):
            if name in own:
                setattr(model, name, own[name])
        return model

    _to_predict = to_local

    def __proxstream_as__(self) -> Any:
        return self.to_local()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state["client"] = self.client if isinstance(self.client, str) else None  # connections are not pickled
        return state


def survey_if_needed(client: Client, parts: Partitions, *, labels: bool) -> tuple[Partitions, Survey]:
    """Return the partitions with their rows counted, unless they are files, and their statistics.

    Nothing is read that is known already or not requested.
    """
    if labels or (parts.rows is None and not parts.from_files):
        found = survey(client, parts, labels=labels)
    else:
        found = Survey(parts.rows or (), parts.n_features or 0, parts.dtype, np.empty(0), np.empty(0, np.int64))
    rows = None if parts.from_files else found.rows
    dtype = found.dtype if parts.dtype is None else parts.dtype
    return replace(parts, rows=rows, dtype=dtype, n_features=parts.n_features or found.n_features or None), found
