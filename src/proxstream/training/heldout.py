"""Rows that are predicted and never learned: which they are, what they suffer, and the pass that does best on them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from .._checks import Array
from ..blocks import RowBlock
from ..engines.ranking import RankingEngine
from ..learner import Learner
from .report import Pass


def held(share: Fraction, before: int, n_rows: int) -> Array:
    """Tell which of the next rows are held out: row i (from 1) when floor(i f) is above floor((i - 1) f).

    >>> held(Fraction(1, 3), 1, 5)
    array([False,  True, False, False,  True])
    """
    counted = np.arange(before, before + n_rows + 1) * share.numerator // share.denominator
    return np.asarray(counted[1:] > counted[:-1])


def added(sums: tuple[float, float], losses: Array, c: Array) -> tuple[float, float]:
    """Return the sums of weight times loss and of weight with more terms, added one after another."""
    weights = c if len(c) else np.ones(len(losses))
    terms = np.stack((weights * losses, weights))
    loss, weight = np.cumsum(np.concatenate((np.reshape(sums, (2, 1)), terms), axis=1), axis=1)[:, -1]
    return float(loss), float(weight)


def mean(sums: tuple[float, float], before: tuple[float, float] = (0.0, 0.0)) -> float:
    """Return the mean of what has been added since, NaN where that weighs nothing."""
    weight = sums[1] - before[1]
    return (sums[0] - before[0]) / weight if weight > 0.0 else math.nan


def losses_of(learner: Learner, several: Iterable[tuple[RowBlock, Array | None]]) -> tuple[float, float]:
    """Return the sums of loss and of weight over rows, each with its qid where there is one; nothing is learned."""
    sums = (0.0, 0.0)

    def add(scores: Array, rows: RowBlock) -> None:
        nonlocal sums
        sums = added(sums, learner.suffered(scores, rows.y), rows.c)

    still: Any = _Still(learner)
    pairs = RankingEngine(still) if learner.ranking else None
    for block, qid in several:
        rows = block._replace(data=block.data.astype(learner.dtype, copy=False))
        if pairs is None:
            add(learner.predict(rows), rows)
        else:
            pairs.learn(rows, qid, each=add)
    return sums


class _Still:
    """An engine that predicts where it is told to learn: what becomes of pairs without learning them."""

    def __init__(self, learner: Learner) -> None:
        self.learn = lambda rows, n_threads: learner.predict(rows)


def is_best(passes: list[Pass]) -> bool:
    """Tell whether no earlier pass has a held-out loss as low as the last."""
    return passes[-1].held_out_loss < min((one.held_out_loss for one in passes[:-1]), default=math.inf)


def summary(passes: list[Pass], best: bool) -> dict[str, float]:
    """Return the held-out loss of the pass whose model is written, if rows were held out: the best or the last."""
    found = [one.held_out_loss for one in passes if not math.isnan(one.held_out_loss)]
    return {"held_out_loss": min(found) if best else found[-1]} if found else {}
