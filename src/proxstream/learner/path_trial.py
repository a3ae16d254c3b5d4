"""AutoFTRL(scale="auto") for K models: both scales learn the first rows, then each model keeps its better one.

Every model decides as it would alone (see `trial`), by its own progressive losses. After the trial the models of one
scale continue side by side, and those of the other scale, if there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.algorithms import auto_state
from ..core.algorithms.auto_state import SCALES, UNDECIDED
from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.rowblock import RowBlock
from .path_engine import PathEngine, Snapshots, under
from .state_checks import restored
from .trial import LossesOf, end_of_trial, find_survivor, learn_finite, running_sums


class Group(NamedTuple):
    """Models that learn with one scale, as places in the path, and their engine."""

    scale: int  # a place in SCALES
    members: Array
    engine: PathEngine


class PathTrial:
    """Two engines of all models, one per scale; after the trial, each model is in the engine of its scale alone.

    Parameters
    ----------
    engines : one PathEngine for each of SCALES
    losses_of : function of scores and labels
        Returns the loss of each row.
    """

    def __init__(self, engines: Sequence[PathEngine], losses_of: LossesOf) -> None:
        self._losses_of, self._layouts = losses_of, tuple(engine.layout for engine in engines)
        models = self._layouts[0].n_outputs
        self.groups = tuple(Group(i, np.arange(models), engine) for i, engine in enumerate(engines))
        self.losses = np.zeros((2, models))  # of feature and global, over new rows
        self.decision = np.full(models, float(UNDECIDED))  # which scale each model has kept

    @property
    def engines(self) -> tuple[PathEngine, ...]:
        """The engines that learn."""
        return tuple(group.engine for group in self.groups)

    @property
    def n_features(self) -> int:
        """Features that have cells."""
        return self.groups[0].engine.n_features

    @property
    def t(self) -> int:
        """Rows learned."""
        return self.groups[0].engine.t

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the rows' weights."""
        return self.groups[0].engine.k

    @property
    def loss_kernel(self) -> Any:
        """The loss as compiled loops know it."""
        return self.groups[0].engine.loss_kernel

    @property
    def undecided(self) -> bool:
        """Whether both scales still learn."""
        return bool(self.decision[0] == UNDECIDED)

    @property
    def _leaders(self) -> Array:
        """The scale that is ahead, or left, for each model."""
        return (self.losses[1] < self.losses[0]).astype(int) if self.undecided else self.decision.astype(int)

    @property
    def scales(self) -> tuple[str, ...]:
        """The scale that is ahead, or left, for each model."""
        return tuple(SCALES[scale] for scale in self._leaders)

    def settle(self, scales: Sequence[str]) -> None:
        """Keep these scales of the models; those that have been dropped cannot be kept."""
        wanted = np.array([SCALES.index(scale) for scale in scales])
        if self.undecided:
            self._decide(wanted)
        elif (wanted != self._leaders).any():
            raise ValueError(f"the models have kept the scales {', '.join(self.scales)}, got {', '.join(scales)}")

    def check(self, rows: RowBlock) -> None:
        """Take any weights."""

    def learn(self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False) -> Array:
        """Learn the rows in order; return the scores (models, rows), by the scale ahead, before each was learned."""
        if not self.undecided:
            return self._learn_decided(rows, reach, repeated)
        stop = end_of_trial(rows, auto_state.TRIAL - self.t)
        head = rows.slice(0, stop)
        scores = [learn_finite(engine, head, 1, reach, repeated=repeated, axis=1) for engine in self.engines]
        left = find_survivor([each.shape[1] for each in scores], stop)
        both = min(each.shape[1] for each in scores)
        compared = head.slice(0, both)
        chosen = np.array(
            [self._compare(k, [each[k, :both] for each in scores], compared, repeated) for k in range(len(scores[0]))]
        )
        if left is None and self.t < auto_state.TRIAL:
            return chosen
        self._decide(self._leaders if left is None else np.full(len(chosen), left))
        rest = self._learn_decided(rows.slice(stop, rows.n_rows), reach, repeated)
        return np.concatenate((chosen, scores[left or 0][:, both:], rest), axis=1)

    def _compare(self, k: int, scores: Sequence[Array], rows: RowBlock, repeated: bool) -> Array:
        """Add the losses of model k under both scales, and return the scores of the one ahead before each row."""
        if repeated:
            return scores[int(self._leaders[k])]
        each = zip(self.losses[:, k], scores, strict=True)
        sums = [running_sums(start, rows, self._losses_of(p, rows.y)) for start, p in each]
        self.losses[:, k] = [one[-1] for one in sums]
        return np.where(sums[1][:-1] < sums[0][:-1], scores[1], scores[0])

    def _decide(self, leaders: Array) -> None:
        """Keep one scale of each model."""
        kept = [(group, np.flatnonzero(leaders == group.scale)) for group in self.groups]
        self.groups = tuple(Group(old.scale, own, old.engine.select(own)) for old, own in kept if len(own))
        self.decision = leaders.astype(float)

    def _learn_decided(self, rows: RowBlock, reach: float | None, repeated: bool) -> Array:
        scores = np.empty((len(self.decision), rows.n_rows))
        for _, members, engine in self.groups:
            scores[members] = engine.learn(rows, 1, reach, repeated=repeated)
        return scores

    def snapshot(self, rows: RowBlock, indices: Array, *, grows: bool) -> TrialSnapshot:
        """Return what rows with these indices may change, to be put back."""
        taken = Snapshots(self.engines, rows, indices, grows=grows)
        return TrialSnapshot(self.groups, taken, self.losses.copy(), self.decision.copy())

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept, (models, rows), by the scale ahead."""
        scores, leaders = np.empty((len(self.decision), rows.n_rows)), self._leaders
        for scale, members, engine in self.groups:
            ahead = leaders[members] == scale
            scores[members[ahead]] = engine.predict(rows)[ahead]
        return scores

    def count_nonzero(self, occurred: Array | None = None) -> Array:
        """Return how many weights of each model are not zero, under the scale ahead."""
        counts, leaders = np.empty(len(self.decision), np.int64), self._leaders
        for scale, members, engine in self.groups:
            ahead = leaders[members] == scale
            if ahead.any():
                counts[members[ahead]] = engine.count_nonzero(occurred)[ahead]
        return counts

    def grow(self, n_features: int) -> None:
        """Make cells for more features; theirs are as if they had been there from the start."""
        for engine in self.engines:
            engine.grow(n_features)

    def arrays(self) -> dict[str, Array]:
        """Return all that the engines remember; names start with the scale."""
        own = {"trial.losses": self.losses, "trial.decision": self.decision}
        for scale, _, engine in self.groups:
            own |= {f"{SCALES[scale]}.{name}": array for name, array in engine.arrays().items()}
        return own

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from what `arrays` returned; arrays of an engine with other settings are refused."""
        own = restored({"trial.losses": self.losses, "trial.decision": self.decision}, arrays, grows=())
        decision, losses = own["trial.decision"], own["trial.losses"]
        if not (np.isin(decision, (0.0, 1.0)).all() or (decision == UNDECIDED).all()):
            raise ValueError(f"trial.decision of the state must be all -1, or 0 and 1, got {decision}")
        if np.isnan(losses).any():
            raise ValueError(f"trial.losses of the state must be numbers, got {losses}")
        groups = []
        for scale, layout in enumerate(self._layouts):
            members = np.flatnonzero((decision == UNDECIDED) | (decision == scale))
            if len(members):
                engine = self.groups[0].engine.empty(layout.select(members))
                engine.restore(under(f"{SCALES[scale]}.", arrays))
                groups.append(Group(scale, members, engine))
        if len({(group.engine.n_features, group.engine.t) for group in groups}) > 1:
            raise ValueError("both scales of a trial must have the same features and rows")
        self.groups, self.losses, self.decision = tuple(groups), losses, decision

    def member(self, k: int) -> dict[str, Array]:
        """Return what the engine of model k alone would remember."""
        own = {"trial.losses": self.losses[:, k].copy(), "trial.decision": self.decision[k : k + 1].copy()}
        for scale, members, engine in self.groups:
            if k in members:
                prefix = f"{SCALES[scale]}." if self.undecided else ""
                arrays = engine.member(int(np.searchsorted(members, k)))
                own |= {prefix + name: array for name, array in arrays.items()}
        return own


class TrialSnapshot(NamedTuple):
    """What a block may change in a trial."""

    groups: tuple[Group, ...]
    taken: Snapshots
    losses: Array
    decision: Array

    def put_back(self, engine: PathTrial) -> None:
        """Bring the engines back to where they were."""
        self.taken.put_back(None)
        engine.groups, engine.losses, engine.decision = self.groups, self.losses, self.decision
