"""The numbers behind the figures of predictions: from counts in bins of the score, which a stream fills.

`counts` is an array (bins, 2) with the weights of the negative and of the positive rows by bin of their score, as
`data.measures.BinaryTally` keeps it: scores of one bin agree to one part in 2^9. A threshold between two bins is a real
threshold, so that every point of a curve here is a point of the exact curve; rows of one bin are one step.

| curve            | x                                  | y                                                   |
|------------------|------------------------------------|-----------------------------------------------------|
| ROC              | share of the negative rows above   | share of the positive rows above a threshold        |
| precision-recall | recall: share of the positive rows | precision: share of positive rows among those above |
| calibration      | mean probability of a group        | share of positive rows in it                        |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.losses import logistic
from ..core.validation import Array
from ..data.measures import SCORE_BITS, calibration_groups, middles

TAIL = 0.001  # share of the weight that a histogram leaves to its outermost bars, on each side


class Curve(NamedTuple):
    """Points of a curve, by rising x."""

    x: Array
    y: Array


def roc(counts: Array) -> Curve | None:
    """Return the ROC curve, from (0, 0) to (1, 1); None unless there are rows of both classes.

    >>> roc(np.array([[2.0, 0.0], [1.0, 1.0], [1.0, 3.0]]))
    Curve(x=array([0.  , 0.25, 0.5 , 1.  ]), y=array([0.  , 0.75, 1.  , 1.  ]))
    """
    above = _above(counts)
    if not above[-1].all():
        return None
    shares = np.concatenate((np.zeros((1, 2)), above)) / above[-1]
    return Curve(shares[:, 0], shares[:, 1])


def precision_recall(counts: Array) -> Curve | None:
    """Return precision (y) by recall (x), one point per threshold; None without positive rows.

    >>> precision_recall(np.array([[2.0, 0.0], [1.0, 1.0], [1.0, 3.0]]))
    Curve(x=array([0.75, 1.  , 1.  ]), y=array([0.75      , 0.66666667, 0.5       ]))
    """
    above = _above(counts)
    positive = above[:, 1]
    if not positive[-1:].any():
        return None
    return Curve(positive / positive[-1], positive / above.sum(axis=1))


def average_precision(curve: Curve) -> float:
    """Return the mean precision of a precision-recall curve, each threshold weighted by the recall that it adds."""
    return float(np.diff(curve.x, prepend=0.0) @ curve.y)


def _above(counts: Array) -> Array:
    """Return the weights of both classes with scores at or above each bin that has any, from high to low scores."""
    there = counts[counts.any(axis=1)]
    return np.asarray(np.cumsum(there[::-1], axis=0)) if len(there) else np.zeros((1, 2))


def calibration(counts: Array, probabilities: Array | None = None) -> list[tuple[float, float, float]]:
    """Return weight, mean probability and share of positives of groups of about equal weight.

    `probabilities` are the sums of weight times probability by bin. Without them, a row's probability is that of the
    middle of its bin: p (1 - p) |score| / 2^10 off at most, which is below 0.0003.
    """
    if probabilities is None:
        probabilities = counts.sum(axis=1) * logistic.probabilities(middles(SCORE_BITS))
    return calibration_groups(counts, probabilities)


class Histogram(NamedTuple):
    """Weights of series between edges; the outermost bars have also what is beyond the edges."""

    edges: Array
    weights: Array  # (series, bars)


def histogram(values: Array, weights: Array, bars: int = 40, limits: tuple[float, float] | None = None) -> Histogram:
    """Return a histogram of weighted values.

    Parameters
    ----------
    values : array of shape (n,), increasing
    weights : array of shape (n, series)
    bars : int
    limits : pair of floats, optional
        The first and the last edge; by default all series have their quantiles `TAIL` and 1 - `TAIL` between them.
    """
    low, high = limits or _limits(values, weights)
    edges = np.linspace(low, high, bars + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bars - 1)
    return Histogram(edges, np.stack([np.bincount(place, series, bars) for series in weights.T]))


def _limits(values: Array, weights: Array) -> tuple[float, float]:
    """Return limits of the quantiles `TAIL` and 1 - `TAIL` of all series, apart and wide enough for their bins."""
    totals = np.cumsum(weights, axis=0).T
    ends = [
        values[min(int(np.searchsorted(total, share * total[-1])), len(values) - 1)]
        for total in totals
        for share in (TAIL, 1.0 - TAIL)
        if total[-1] > 0.0
    ]
    low, high = (float(min(ends)), float(max(ends))) if ends else (0.0, 0.0)
    width = max(high - low, 0.02 * max(abs(low), abs(high)), 1e-6)
    middle = (low + high) / 2.0
    return middle - 0.52 * width, middle + 0.52 * width


def thin(curve: Curve, points: int = 300) -> Curve:
    """Return at most about so many points of a curve in the unit square, evenly spaced along it, ends included."""
    if len(curve.x) <= points:
        return curve
    steps = np.abs(np.diff(curve.x)) + np.abs(np.diff(curve.y))
    place = np.concatenate(([0.0], np.cumsum(steps)))
    kept = np.flatnonzero(np.diff(np.floor(place * (points / max(place[-1], 1e-300))), prepend=-1.0))
    kept = np.union1d(kept, [len(curve.x) - 1])
    return Curve(curve.x[kept], curve.y[kept])
