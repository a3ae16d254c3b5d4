"""Held-out rows: which rows they are, their losses, and the best pass by their loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.validation import Array
from ..data.rowblock import RowBlock
from ..learner.learner import Learner
from .report import Pass


def held_out_rows(share: Fraction, before: int, n_rows: int) -> Array:
    """Return which of the next rows are held out: row i (from 1) if floor(i f) > floor((i - 1) f).

    >>> held_out_rows(Fraction(1, 3), 1, 5)
    array([False,  True, False, False,  True])
    """
    counted = np.arange(before, before + n_rows + 1) * share.numerator // share.denominator
    return np.asarray(counted[1:] > counted[:-1])


def add_losses(sums: tuple[float, float], losses: Array, c: Array) -> tuple[float, float]:
    """Add losses to the sums of weight times loss and of weight, one after another."""
    weights = c if len(c) else np.ones(len(losses))
    terms = np.stack((weights * losses, weights))
    loss, weight = np.cumsum(np.concatenate((np.reshape(sums, (2, 1)), terms), axis=1), axis=1)[:, -1]
    return float(loss), float(weight)


def mean(sums: tuple[float, float], before: tuple[float, float] = (0.0, 0.0)) -> float:
    """Return the mean loss since `before`; NaN if the weight is 0."""
    weight = sums[1] - before[1]
    return (sums[0] - before[0]) / weight if weight > 0.0 else math.nan


def total_losses(
    learner: Learner, several: Iterable[tuple[RowBlock, Array | None, Array | None]]
) -> tuple[float, float]:
    """Return the sums of loss and weight over blocks of rows, their qid and offset (or None), without learning them."""
    sums = (0.0, 0.0)

    def add(scores: Array, rows: RowBlock) -> None:
        nonlocal sums
        sums = add_losses(sums, learner.losses_of(scores, rows.y), rows.c)

    pairs = _pairs_of(learner) if learner.ranking else None
    for block, qid, offset in several:
        rows = block._replace(data=block.data.astype(learner.dtype, copy=False))
        if pairs is None:
            scores = learner.predict(rows)
            add(scores if offset is None else scores + offset, rows)
        else:
            pairs.learn(rows, qid, each=add)
    return sums


def _pairs_of(learner: Learner) -> Any:
    """Return what makes pairs of the rows of a query."""
    from ..learner.ranking import RankingEngine

    predictor: Any = _PredictOnly(learner)
    return RankingEngine(predictor)


class _PredictOnly:
    """An engine whose `learn` only predicts: gives the losses of pairs without learning them."""

    def __init__(self, learner: Learner) -> None:
        self.learn = lambda rows, n_threads, repeated: learner.predict(rows)


def is_best(passes: list[Pass]) -> bool:
    """Return whether the last pass has a lower held-out loss than all earlier ones."""
    return passes[-1].held_out_loss < min((one.held_out_loss for one in passes[:-1]), default=math.inf)


def summary(passes: list[Pass], best: bool) -> dict[str, float]:
    """Return the held-out loss of the pass whose model is saved (the best or the last); empty without held-out rows."""
    found = [one.held_out_loss for one in passes if not math.isnan(one.held_out_loss)]
    return {"held_out_loss": min(found) if best else found[-1]} if found else {}
