"""What a training session tells: a line of the table as it goes, and what a prediction looks like."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._checks import Array
from ..losses import Loss


class Line(NamedTuple):
    """How learning stood right after a row; the prediction was made before that row was learned.

    `rows` counts those of the pass. The losses are means since the pass began and since the line before; from the
    second pass on, they are losses of rows that have been seen. `features` are those of the row, `nonzeros` those of
    the model.
    """

    number: int
    rows: int
    mean_loss: float
    since_last: float
    label: float
    prediction: float
    features: int
    nonzeros: int


class Pass(NamedTuple):
    """How a pass ended; losses of nothing are NaN."""

    number: int
    rows: int
    mean_loss: float
    held_out_loss: float


def record(told: Line | Pass) -> dict[str, Any]:
    """Return a line or a pass as a dict, without what is not known.

    >>> record(Pass(1, 100, 0.5, math.nan))
    {'pass': 1, 'rows': 100, 'mean_loss': 0.5}
    """
    named = {"pass" if name == "number" else name: value for name, value in told._asdict().items()}
    return {name: value for name, value in named.items() if not (isinstance(value, float) and math.isnan(value))}


def prediction(loss: Loss, scores: Array | float) -> float:
    """Return what a model says with these scores of one row: a probability, a class, or a number.

    >>> from proxstream import losses
    >>> prediction(losses.logistic, 0.0), prediction(losses.softmax, np.array([0.1, 0.7]))
    (0.5, 1.0)
    """
    if np.ndim(scores):
        return float(np.argmax(scores))
    score = float(scores)
    if loss.name == "logistic":
        return 1.0 / (1.0 + math.exp(-score)) if score > -700.0 else 0.0
    if loss.name == "poisson":
        return math.exp(min(score, 700.0))
    return score


def is_told(rows: int, every: int) -> bool:
    """Tell whether a line is due after this many rows: at each multiple of `every`, or (0) at powers of two."""
    return rows % every == 0 if every else rows & (rows - 1) == 0


def next_told(rows: int, every: int) -> int:
    """Return the first number of rows beyond these after which a line is due.

    >>> [next_told(rows, 0) for rows in (0, 1, 2, 3, 4)], next_told(7, 5)
    ([1, 2, 4, 4, 8], 10)
    """
    return (rows // every + 1) * every if every else 1 << rows.bit_length()
