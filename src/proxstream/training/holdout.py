"""Held-out rows: which rows they are, where they are until a pass has ended, and how well the model predicts them.

Losses of two passes can be compared only if both models had learned all of their rows. So held-out rows are scored at
the end of each pass, all of them by the same model. Until then they are kept in memory; where they are too many, the
stream is read again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..core.validation import Array
from ..data import tallies
from ..data.measures import row_losses
from ..data.rowblock import RowBlock
from ..data.sums import add_in_order
from ..learner.learner import Learner
from ..models.model import Weights
from .report import HELD_OUT, Pass

if TYPE_CHECKING:
    from fractions import Fraction

Block: TypeAlias = "tuple[RowBlock, Array | None, Array | None]"  # rows, their qid and their offset
MOST = 1 << 23  # numbers of held-out rows that are kept: about 100 MB


def held_out_rows(share: Fraction | int, before: int, n_rows: int) -> Array:
    """Return which of the next rows are held out: row i (from 1) if floor(i f) > floor((i - 1) f).

    >>> from fractions import Fraction
    >>> held_out_rows(Fraction(1, 3), 1, 5)
    array([False,  True, False, False,  True])
    """
    counted = np.arange(before, before + n_rows + 1) * share.numerator // share.denominator
    return np.asarray(counted[1:] > counted[:-1])


class HeldOutRows:
    """The first held-out rows of a stream, as many as fit; which they are does not depend on how it was cut.

    Parameters
    ----------
    most : int
        Limit of the entries of all rows, a row counting three more.

    Examples
    --------
    >>> from proxstream.data.rowblock import as_block
    >>> kept = HeldOutRows(most=9)
    >>> kept.add(as_block(np.eye(3), y=[1, 2, 3]))
    >>> rows, offset = kept.blocks[0]
    >>> rows.y, kept.complete
    (array([1., 2.]), False)
    """

    def __init__(self, most: int = MOST) -> None:
        self.blocks: list[tuple[RowBlock, Array | None]] = []  # rows, and what is added to their scores
        self.complete = True  # no row was left out
        self._room = most

    def add(self, rows: RowBlock, offset: Array | None = None) -> None:
        """Keep the next rows, or those that fit; their arrays must not change."""
        if not self.complete:
            return
        sizes = np.cumsum(np.diff(rows.indptr) + 3)
        fitting = int(np.searchsorted(sizes, self._room, side="right"))
        self.complete = fitting == rows.n_rows
        if fitting:
            self._room -= int(sizes[fitting - 1])
            self.blocks.append((rows.slice(0, fitting), None if offset is None else offset[:fitting]))

    def drop(self) -> None:
        """Free the memory: the rows are to be read again."""
        self.blocks, self.complete = [], False

    def arrays(self) -> dict[str, Array]:
        """Return the rows as arrays; empty if there are none."""
        if not self.blocks:
            return {}
        several, offsets = zip(*self.blocks, strict=True)
        rows, offset = RowBlock.concat(list(several)), None if offsets[0] is None else np.concatenate(offsets)
        self.blocks = [(rows, offset)]
        return rows._asdict() | ({} if offset is None else {"offset": offset})

    def restore(self, arrays: Mapping[str, Array], complete: bool) -> None:
        """Continue from what `arrays` returned."""
        self.blocks = []
        if arrays:
            self.add(RowBlock(**{name: arrays[name] for name in RowBlock._fields}), arrays.get("offset"))
        self.complete = complete


class Measures:
    """Loss, accuracy, AUC and the like over rows that are not learned; all sums run in the order of the rows."""

    def __init__(self, learner: Learner | Weights) -> None:
        self.learner, self.sums = learner, (0.0, 0.0)
        self.tally = tallies.tally(learner.loss, learner.n_outputs, ranking=learner.ranking)

    def add_rows(self, several: Iterable[Block]) -> Measures:
        """Predict blocks of rows with their qid and offset (or None)."""
        pairs = _pairs_of(self.learner) if self.learner.ranking else None
        for block, qid, offset in several:
            rows = block._replace(data=block.data.astype(self.learner.dtype, copy=False))
            if pairs is None:
                scores = self.learner.predict(rows)
                self.add(scores if offset is None else scores + offset, rows)
            else:
                pairs.learn(rows, qid, each=self.add)
        return self

    def add(self, scores: Array, rows: RowBlock) -> None:
        """Take in the scores of rows."""
        self.sums = add_losses(self.sums, row_losses(self.learner.loss, scores, rows.y), rows.c)
        self.tally.add(scores, rows.y, rows.c)

    def facts(self) -> dict[str, float]:
        """Return the measures by the names of a `Pass`; empty without rows."""
        found = {f"held_out_{name}": value for name, value in self.tally.facts().items()}
        if self.sums[1] > 0.0:
            found["held_out_loss"] = mean(self.sums)
        return {name: found[name] for name in HELD_OUT if name in found}


def add_losses(sums: tuple[float, float], losses: Array, c: Array) -> tuple[float, float]:
    """Add losses to the sums of weight times loss and of weight, one after another."""
    weights = c if len(c) else np.ones(len(losses))
    return add_in_order(sums[0], weights * losses), add_in_order(sums[1], weights)


def mean(sums: tuple[float, float], before: tuple[float, float] = (0.0, 0.0)) -> float:
    """Return the mean loss since `before`; NaN if the weight is 0."""
    weight = sums[1] - before[1]
    return (sums[0] - before[0]) / weight if weight > 0.0 else math.nan


def _pairs_of(learner: Any) -> Any:
    """Return what makes pairs of the rows of a query."""
    from ..learner.ranking import RankingEngine

    predictor: Any = _PredictOnly(learner)
    return RankingEngine(predictor)


class _PredictOnly:
    """An engine that only predicts: gives the losses of pairs without learning them."""

    def __init__(self, learner: Learner) -> None:
        self.predict = learner.predict

    def learn(self, rows: RowBlock, n_threads: int = 1, *, repeated: bool = False) -> Array:
        """Learn nothing, and return the scores."""
        return self.predict(rows)

    def arrays(self) -> dict[str, Array]:
        """Return an empty state."""
        return {}


def is_best(passes: list[Pass]) -> bool:
    """Return whether the last pass has a lower held-out loss than all earlier ones."""
    return passes[-1].held_out_loss < min((one.held_out_loss for one in passes[:-1]), default=math.inf)


def summary(passes: list[Pass], saved: int) -> dict[str, float]:
    """Return the measures of the pass whose model is saved, -1 for the last; empty without held-out rows."""
    return {name: value for name in HELD_OUT if not math.isnan(value := getattr(passes[saved], name))}
