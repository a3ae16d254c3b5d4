"""What a stream of predictions leaves behind for its figures, in bounded memory and however the stream is cut.

Two classes need nothing of their own: the counts of `data.tallies.BinaryTally` have it all.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..core.losses import Loss
from ..core.validation import Array
from ..data.measures import SCORE_BITS, bins
from ..data.rowblock import weights_or_ones
from ..data.tallies import Constant, Tally

SAMPLE = 1000  # pairs of label and prediction


class Collector(Protocol):
    """Takes in predictions."""

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in the scores of rows with labels y, as the loss knows them, and weights c (none: all 1)."""


def collector(loss: Loss, n_outputs: int, *, ranking: bool = False) -> Collector | None:
    """Return what collects predictions of a loss; None where there is nothing to collect."""
    if ranking:
        return None
    if n_outputs > 1:
        return Confusion(n_outputs)
    return NumberPairs(loss) if loss.kind == "regression" else None


class NumberPairs:
    """Labels and predictions of numbers: an even sample of the rows, and weights of all by bin.

    Which rows are in the sample depends on their number in the stream alone: those whose hash is smallest.

    Examples
    --------
    >>> from proxstream import losses
    >>> pairs = NumberPairs(losses.squared)
    >>> pairs.add(np.array([1.0, 2.5]), np.array([1.5, 2.0]), np.empty(0))
    >>> pairs.labels, pairs.predictions, pairs.rows
    (array([1.5, 2. ]), array([1. , 2.5]), 2)
    """

    def __init__(self, loss: Loss, sample: int = SAMPLE) -> None:
        self._loss, self._sample, self._next, self.rows = loss, sample, 0, 0
        self._chosen = np.empty((0, 2))
        self._keys = np.empty(0, np.uint64)
        self.residuals = np.zeros(1 << SCORE_BITS)  # weights by bin of label minus prediction
        self.groups = np.zeros((1 << SCORE_BITS, 3))  # sums of weight, prediction and label by bin of the prediction

    @property
    def labels(self) -> Array:
        """The labels of the sample."""
        return self._chosen[:, 0]

    @property
    def predictions(self) -> Array:
        """The predictions of the sample."""
        return self._chosen[:, 1]

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores; rows of weight 0 count as absent."""
        keys = hashes(np.arange(self._next, self._next + len(y), dtype=np.uint64))
        self._next += len(y)
        c = weights_or_ones(c, len(y))
        there = c > 0.0
        self.rows += int(np.count_nonzero(there))
        keys, c, y, predicted = keys[there], c[there], y[there].astype(np.float64), self._loss.mean(scores[there])
        np.add.at(self.residuals, bins(y - predicted, SCORE_BITS), c)
        place = bins(predicted, SCORE_BITS)
        for i, terms in enumerate((c, c * predicted, c * y)):
            np.add.at(self.groups[:, i], place, terms)
        new = keys < self._keys.max() if len(self._keys) == self._sample else np.ones(len(keys), np.bool_)
        self._keys = np.concatenate((self._keys, keys[new]))
        self._chosen = np.concatenate((self._chosen, np.stack((y, predicted), axis=1)[new]))
        smallest = np.sort(np.argsort(self._keys)[: self._sample])
        self._keys, self._chosen = self._keys[smallest], self._chosen[smallest]

    def means(self, groups: int = 10) -> Array:
        """Return mean prediction and mean label of groups of about equal weight, by rising prediction."""
        weight = self.groups[:, 0]
        total = float(weight.sum())
        if total == 0.0:
            return np.empty((0, 2))
        place = np.minimum(((np.cumsum(weight) - weight / 2.0) * groups / total).astype(np.int64), groups - 1)
        sums = np.stack([np.bincount(place, column, groups) for column in self.groups.T], axis=1)
        sums = sums[sums[:, 0] > 0.0]
        return np.asarray(sums[:, 1:] / sums[:, :1])


class Confusion:
    """Weights by class (rows) and by predicted class (columns).

    >>> confusion = Confusion(2)
    >>> confusion.add(np.array([[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]]), np.array([0.0, 1.0, 1.0]), np.empty(0))
    >>> confusion.weights
    array([[1., 0.],
           [1., 1.]])
    """

    def __init__(self, n_classes: int) -> None:
        self.weights = np.zeros((n_classes, n_classes))

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores (rows, classes)."""
        np.add.at(self.weights, (y.astype(np.int64), np.argmax(scores, axis=1)), weights_or_ones(c, len(y)))


class WatchedTally:
    """A tally that also hands what it counts to a collector."""

    def __init__(self, tally: Tally, seen: Collector) -> None:
        self._tally, self._seen = tally, seen
        self.arrays = tally.arrays

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores."""
        self._tally.add(scores, y, c)
        self._seen.add(scores, y, c)

    def facts(self) -> dict[str, float | int]:
        """Return the measures of the tally."""
        return self._tally.facts()

    def best_constant(self) -> Constant | None:
        """Return the best constant of the tally."""
        return self._tally.best_constant()


def hashes(numbers: Array) -> Array:
    """Return numbers that look random, one per integer: the output function of splitmix64 (Steele et al. 2014).

    >>> hashes(np.array([0], np.uint64))
    array([16294208416658607535], dtype=uint64)
    """
    z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
