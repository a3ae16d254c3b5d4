"""AutoFTRL(scale="auto"): both scales learn the first rows side by side, then the better one continues alone.

Which scale leaves the better model depends on the data, and the loss of predictions made before each row was learned
shows it early: rows of unit length prefer one global scale, columns in different units one scale per feature. So two
engines learn the first `TRIAL` rows of weight > 0, and their progressive losses are summed,

    L_i = sum over rows of c * loss(p_i, y),        i = feature, global

Each row is predicted by the engine that is ahead before it (at a tie, by feature's). After `TRIAL` rows the other one
is dropped: from then on a row costs what it costs with one scale, and the model is the one that this scale would have
had from the start. Rows that have been learned before add nothing to L: their losses say nothing about new rows. An
engine that leaves the finite numbers, as one global scale does in 32 bits with columns of 1e18, is dropped at once.

This is following the leader among two experts for a limited time. Nothing is proved about the choice, and a difference
that shows up after the trial only is missed. All is a function of the sequence of rows, wherever it is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.algorithms import auto_state
from ..core.algorithms.auto_state import SCALES, UNDECIDED
from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.rowblock import RowBlock
from .divergence import DivergedError
from .engine import CompiledEngine, Snapshot
from .state_checks import restored

LossesOf = Callable[[Array, Array], Array]  # of scores and labels


class TrialEngine:
    """Two engines of AutoFTRL, one per scale, of which one is left after the trial.

    Parameters
    ----------
    make : function
        Returns the engine of a scale.
    losses_of : function of scores and labels
        Returns the loss of each row.
    """

    def __init__(self, make: Callable[[str], CompiledEngine], losses_of: LossesOf) -> None:
        self._make, self._losses_of = make, losses_of
        self.engines = tuple(make(name) for name in SCALES)
        self.losses = np.zeros(2)  # of feature and global, over new rows
        self.decision = np.array([float(UNDECIDED)])  # which scale is left

    @property
    def scale(self) -> str:
        """The scale that is ahead, or left."""
        return SCALES[self._leader]

    @property
    def _leader(self) -> int:
        return int(self.losses[1] < self.losses[0]) if self.decision[0] == UNDECIDED else int(self.decision[0])

    @property
    def _best(self) -> CompiledEngine:
        return self.engines[-1] if len(self.engines) == 1 else self.engines[self._leader]

    def engine_of(self, scale: str) -> CompiledEngine:
        """Return the engine of a scale; after the trial there is one alone."""
        left = SCALES if len(self.engines) > 1 else (self.scale,)
        if scale not in left:
            raise ValueError(f"scale must be {' or '.join(left)}, got {scale!r}")
        return self.engines[left.index(scale)]

    @property
    def n_features(self) -> int:
        """Features that have cells."""
        return self._best.n_features

    @property
    def t(self) -> int:
        """Rows learned."""
        return self._best.t

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the rows' weights."""
        return self._best.k

    @property
    def loss_kernel(self) -> Any:
        """The loss of one output as compiled loops know it."""
        return self._best.loss_kernel

    def check(self, rows: RowBlock) -> None:
        """Take any weights."""

    def learn(self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False) -> Array:
        """Learn the rows in order; return the scores, of the engine ahead, before each was learned."""
        if len(self.engines) == 1:
            return self._best.learn(rows, n_threads, reach, repeated=repeated)
        stop = end_of_trial(rows, auto_state.TRIAL - self.t)
        head = rows.slice(0, stop)
        scores = [learn_finite(engine, head, n_threads, reach, repeated=repeated) for engine in self.engines]
        left = find_survivor([len(one) for one in scores], stop)
        both = min(map(len, scores))
        chosen = self._compare([one[:both] for one in scores], head.slice(0, both), repeated)
        if left is None and self.t < auto_state.TRIAL:
            return chosen
        kept = self._leader if left is None else left
        self.decision, self.engines = np.array([float(kept)]), (self.engines[kept],)
        rest = self._best.learn(rows.slice(stop, rows.n_rows), n_threads, reach, repeated=repeated)
        return np.concatenate((chosen, scores[kept][both:], rest))

    def _compare(self, scores: Sequence[Array], rows: RowBlock, repeated: bool) -> Array:
        """Add the losses of both scales, and return the scores of the one ahead before each row."""
        if repeated:
            return scores[self._leader]
        # Summed in order, so that the sums do not depend on how the stream was cut.
        each = zip(self.losses, scores, strict=True)
        sums = [running_sums(start, rows, self._losses_of(p, rows.y)) for start, p in each]
        leads, self.losses = sums[1][:-1] < sums[0][:-1], np.array([one[-1] for one in sums])
        return np.where(leads if scores[0].ndim == 1 else leads[:, None], scores[1], scores[0])

    def snapshot(self, rows: RowBlock, indices: Array, *, grows: bool) -> TrialSnapshot:
        """Return what rows with these indices may change, to be put back."""
        taken = tuple(engine.snapshot(rows, indices, grows=grows) for engine in self.engines)
        return TrialSnapshot(self.engines, taken, self.losses.copy(), self.decision.copy())

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept by the engine ahead."""
        return self._best.predict(rows)

    def weights(self) -> tuple[Array, Any]:
        """Return all weights and the intercept of the engine ahead."""
        return self._best.weights()

    def averages(self) -> tuple[Array, Any]:
        """Refuse: no means are kept."""
        return self._best.averages()

    def count_nonzero(self, occurred: Array | None = None) -> int:
        """Return how many weights are not zero."""
        return self._best.count_nonzero(occurred)

    def grow(self, n_features: int) -> None:
        """Make cells for more features; theirs are as if they had been there from the start."""
        for engine in self.engines:
            engine.grow(n_features)

    def arrays(self) -> dict[str, Array]:
        """Return all that the engines remember; names of the trial's engines start with their scale."""
        own = {"trial.losses": self.losses, "trial.decision": self.decision}
        if len(self.engines) == 1:
            return {**self._best.arrays(), **own}
        each = zip(SCALES, self.engines, strict=True)
        return {**{f"{name}.{key}": array for name, engine in each for key, array in engine.arrays().items()}, **own}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from what `arrays` returned; arrays of an engine with other settings are refused."""
        own = restored({"trial.losses": self.losses, "trial.decision": self.decision}, arrays, grows=())
        decision = own["trial.decision"][0]
        if decision not in (UNDECIDED, 0.0, 1.0):
            raise ValueError(f"trial.decision of the state must be -1, 0 or 1, got {decision}")
        if np.isnan(own["trial.losses"]).any():
            raise ValueError(f"trial.losses of the state must be numbers, got {own['trial.losses']}")
        undecided = decision == UNDECIDED
        names = SCALES if undecided else SCALES[int(decision) : int(decision) + 1]
        engines = tuple(self._make(name) for name in names)
        for engine, prefix in zip(engines, [f"{name}." if undecided else "" for name in names], strict=True):
            engine.restore({key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)})
        if len({(engine.n_features, engine.t) for engine in engines}) > 1:
            raise ValueError("both scales of a trial must have the same features and rows")
        self.engines, self.losses, self.decision = engines, own["trial.losses"], own["trial.decision"]


class TrialSnapshot(NamedTuple):
    """What a block may change in both engines of a trial."""

    engines: tuple[CompiledEngine, ...]
    taken: tuple[Snapshot, ...]
    losses: Array
    decision: Array

    def put_back(self, engine: TrialEngine) -> None:
        """Bring the engines back to where they were."""
        for one, before in zip(self.engines, self.taken, strict=True):
            before.put_back(one)
        engine.engines, engine.losses, engine.decision = self.engines, self.losses, self.decision


def learn_finite(
    engine: CompiledEngine, rows: RowBlock, n_threads: int, reach: float | None, *, repeated: bool, axis: int = 0
) -> Array:
    """Learn the rows, and return the scores of those before the first one that takes the engine beyond finite numbers.

    After such a row the engine is of no use. Rows are on this axis of the scores.
    """
    try:
        return engine.learn(rows, n_threads, reach, repeated=repeated)
    except DivergedError as error:
        if error.scores is None:
            raise
        return error.scores.take(range(error.row), axis)


def find_survivor(learned: Sequence[int], n_rows: int) -> int | None:
    """Return which engine has learned all rows where the other has not, None where both have; raise if none has.

    >>> find_survivor([3, 5], 5), find_survivor([5, 5], 5)
    (1, None)
    """
    if min(learned) == n_rows:
        return None
    if max(learned) < n_rows:
        raise DivergedError(max(learned))
    return int(np.argmax(learned))


def end_of_trial(rows: RowBlock, left: int) -> int:
    """Return how many of the rows belong to the trial, if `left` rows of weight > 0 do."""
    if len(rows.c) == 0:
        return min(left, rows.n_rows)
    return min(int(np.searchsorted(np.cumsum(rows.c > 0.0), left)) + 1, rows.n_rows)


def running_sums(start: float, rows: RowBlock, losses: Array) -> Array:
    """Return the sums of weight times loss before each row, and after the last."""
    return np.cumsum(np.concatenate(([start], losses * rows.c if len(rows.c) else losses)))
