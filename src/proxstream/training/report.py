"""What a training session reports: lines of the progress table, passes, and predictions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.losses import Loss
from ..core.records import NamedTuple
from ..core.validation import Array


class Line(NamedTuple):
    """Progress after a row; the prediction was made before that row was learned.

    `rows` counts the rows of the pass. The losses are means since the start of the pass and since the previous line;
    from the second pass on, they are losses of rows seen before. `features` counts those of the row, `nonzeros` those
    of the model. `strength` is the one that all this is about, if there are several.
    """

    number: int
    rows: int
    mean_loss: float
    since_last: float
    label: float
    prediction: float
    features: int
    nonzeros: int
    strength: float = math.nan


class Pass(NamedTuple):
    """The result of a pass; NaN where there is none. Held-out rows are predicted after the pass."""

    number: int
    rows: int
    mean_loss: float
    held_out_loss: float = math.nan
    held_out_accuracy: float = math.nan
    held_out_auc: float = math.nan
    held_out_rmse: float = math.nan
    held_out_pair_accuracy: float = math.nan
    strength: float = math.nan


HELD_OUT = tuple(name for name in Pass._fields if name.startswith("held_out_"))


def as_record(entry: Line | Pass) -> dict[str, Any]:
    """Return a line or a pass as a dict without missing values.

    >>> as_record(Pass(1, 100, 0.5))
    {'pass': 1, 'rows': 100, 'mean_loss': 0.5}
    """
    named = {"pass" if name == "number" else name: value for name, value in entry._asdict().items()}
    return {name: value for name, value in named.items() if not (isinstance(value, float) and math.isnan(value))}


def prediction(loss: Loss, scores: Array | float) -> float:
    """Return the prediction shown for the scores of one row: a probability, a class, or a number.

    >>> from proxstream import losses
    >>> prediction(losses.logistic, 0.0), prediction(losses.softmax, np.array([0.1, 0.7]))
    (0.5, 1.0)
    """
    if np.ndim(scores):
        return float(np.argmax(scores))
    if loss.has_probabilities:
        return float(loss.probabilities(scores))
    return float(loss.mean(scores) if loss.kind == "regression" else scores)


def is_line_due(rows: int, every: int) -> bool:
    """Return whether a line is due after this many rows: at multiples of `every`, or (0) at powers of two."""
    return rows % every == 0 if every else rows & (rows - 1) == 0


def next_line(rows: int, every: int) -> int:
    """Return the next number of rows after which a line is due.

    >>> [next_line(rows, 0) for rows in (0, 1, 2, 3, 4)], next_line(7, 5)
    ([1, 2, 4, 4, 8], 10)
    """
    return (rows // every + 1) * every if every else 1 << rows.bit_length()
