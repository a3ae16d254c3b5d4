"""Tallies of predictions made before their rows were learned: arrays that checkpoints keep and workers add up.

| tally       | what is measured               |
|-------------|--------------------------------|
| BinaryTally | accuracy, AUC                  |
| ClassTally  | accuracy                       |
| NumberTally | root mean squared error        |
| PairTally   | pairs in the right order       |

Scores and labels are counted in bins. A bin is a float32 cut to its sign, exponent and leading digits, which keeps the
order: numbers in one bin agree to one part in 2^9 (scores) or 2^11 (labels: whole numbers up to 4,096 have their own
bins). So accuracy and the share of each class are exact. AUC counts a pair of one bin half, and `auc_error` is how far
that can be off. The best constant prediction is exact for two classes, for the squared loss and for whole labels, else
good to three digits. All sums run in the order of the rows: they do not depend on how the stream was cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ..core.losses import Loss
from ..core.records import NamedTuple
from ..core.validation import Array
from .measures import LABEL_BITS, SCORE_BITS, bins, quotient
from .rowblock import weights_or_ones
from .sums import add_in_order


class Constant(NamedTuple):
    """The best of all constant predictions, and its mean loss; of several classes the most frequent one."""

    value: float
    loss: float


class Counted(Protocol):
    """Sums over rows, all of them in `arrays`."""

    arrays: dict[str, Array]


class Tally(Counted, Protocol):
    """Sums over predictions."""

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in the scores of rows with labels y, as the loss knows them, and weights c (none: all 1)."""

    def facts(self) -> dict[str, float | int]:
        """Return the measures by name."""

    def best_constant(self) -> Constant | None:
        """Return the best constant prediction, None where there is none."""


def tally(loss: Loss, n_outputs: int, *, ranking: bool = False) -> Tally:
    """Return the tally that fits a loss, empty."""
    if ranking:
        return PairTally()
    if n_outputs > 1:
        return ClassTally(loss, n_outputs)
    return BinaryTally(loss) if loss.kind == "binary" else NumberTally(loss)


def restore(counted: Counted, arrays: Mapping[str, Array]) -> None:
    """Continue from the sums of an earlier run."""
    for name, own in counted.arrays.items():
        own[...] = arrays[name]


class BinaryTally:
    """Labels -1 and +1: weights of the negative and of the positive rows, by bin of their score.

    >>> from proxstream import losses
    >>> counted = BinaryTally(losses.logistic)
    >>> counted.add(np.array([-2.0, 3.0, 1.0]), np.array([-1.0, 1.0, -1.0]), np.empty(0))
    >>> counted.facts()["auc"], counted.best_constant().loss.__round__(6)
    (1.0, 0.636514)
    """

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self.arrays = {"scores": np.zeros((1 << SCORE_BITS, 2))}

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores."""
        cells = 2 * bins(scores, SCORE_BITS) + (y > 0.0)
        np.add.at(self.arrays["scores"].reshape(-1), cells, c if len(c) else 1.0)

    def confusion(self) -> Array:
        """Return weights by label and by prediction, the negative class first."""
        used = self._used_bins()
        found = self.arrays["scores"][used]
        first = np.searchsorted(used, (1 << SCORE_BITS) // 2, side="right")  # the bin of 0 predicts the negative class
        return np.stack((found[:first].sum(axis=0), found[first:].sum(axis=0)), axis=1)

    def _used_bins(self) -> Array:
        """Return the bins that have weight: few of them if there are few rows."""
        bins = np.flatnonzero(self.arrays["scores"] != 0.0) // 2  # finding truth values takes a tenth of the time
        return bins[np.diff(bins, prepend=-1) > 0]

    def facts(self) -> dict[str, float | int]:
        """Return accuracy, AUC and how far AUC can be off."""
        right = self.confusion()
        if not right.any():
            return {}
        facts = {"accuracy": quotient(np.trace(right), right.sum())}
        auc, error = self._binned_auc()
        return facts if math.isnan(auc) else {**facts, "auc": auc, "auc_error": error}

    def _binned_auc(self) -> tuple[float, float]:
        negative, positive = self.arrays["scores"][self._used_bins()].T
        pairs, tied = negative.sum() * positive.sum(), positive @ negative
        below = np.cumsum(negative) - negative
        return quotient(positive @ below + tied / 2.0, pairs), quotient(tied / 2.0, pairs)

    def best_constant(self) -> Constant | None:
        """Return the constant score of the least loss."""
        weights = self.arrays["scores"][self._used_bins()].sum(axis=0)
        return _best_constant(self._loss, np.array([-1.0, 1.0]), weights)


class ClassTally:
    """Labels 0, 1, ...: weights of all rows and of those predicted right, per class."""

    def __init__(self, loss: Loss, n_outputs: int) -> None:
        self._loss = loss
        self.arrays = {"classes": np.zeros((n_outputs, 2))}

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores (rows, classes)."""
        labels, found, c = y.astype(np.int64), self.arrays["classes"], weights_or_ones(c, len(y))
        np.add.at(found[:, 0], labels, c)
        np.add.at(found[:, 1], labels, c * (np.argmax(scores, axis=1) == labels))

    def facts(self) -> dict[str, float | int]:
        """Return the accuracy."""
        total, right = self.arrays["classes"].sum(axis=0)
        return {"accuracy": float(right / total)} if total > 0.0 else {}

    def best_constant(self) -> Constant | None:
        """Return the most frequent class and the loss of the best constant scores."""
        weights = self.arrays["classes"][:, 0]
        total = float(weights.sum())
        if total == 0.0 or self._loss.name == "multiclass_hinge":
            return None
        if self._loss.name == "softmax":  # scores ln(share), so that the loss is the entropy
            shares = weights[weights > 0.0] / total
            loss = float(-(shares @ np.log(shares)))
        else:
            each = (_best_constant(self._loss, np.array([-1.0, 1.0]), np.array([total - w, w])) for w in weights)
            loss = sum(one.loss for one in each if one is not None)
        return Constant(float(np.argmax(weights)), loss)


class NumberTally:
    """Numbers and counts: weights and sums of the labels by bin, and the squared error."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self.arrays = {"labels": np.zeros((1 << LABEL_BITS, 2)), "sums": np.zeros(3)}

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores."""
        c = weights_or_ones(c, len(y))
        cells = 2 * bins(y, LABEL_BITS)
        flat = self.arrays["labels"].reshape(-1)
        np.add.at(flat, cells, c)
        np.add.at(flat, cells + 1, c * y)
        sums = self.arrays["sums"]
        predicted = self._loss.mean(scores)
        with np.errstate(over="ignore"):
            for i, terms in enumerate((c, c * (predicted - y) ** 2, c * y**2)):
                sums[i] = add_in_order(sums[i], terms)

    def facts(self) -> dict[str, float | int]:
        """Return the root of the mean squared error of the predictions."""
        total, squares, _ = self.arrays["sums"]
        return {"rmse": math.sqrt(squares / total)} if total > 0.0 and math.isfinite(squares) else {}

    def best_constant(self) -> Constant | None:
        """Return the constant prediction of the least loss."""
        weights, sums = self.arrays["labels"].T
        there = weights > 0.0
        if not there.any():
            return None
        weights, sums = weights[there], sums[there]
        if self._loss.name == "squared":
            total, _, squares = self.arrays["sums"]
            mean = float(sums.sum() / total)
            return Constant(mean, max(float(squares / total) - mean * mean, 0.0) / 2)
        return _best_constant(self._loss, sums / weights, weights)


class PairTally:
    """Pairs of a query's rows, and those in the right order."""

    def __init__(self) -> None:
        self.arrays = {"pairs": np.zeros(2)}

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in the scores of pairs."""
        self.arrays["pairs"] += np.array([len(scores), np.count_nonzero(scores > 0.0)])

    def facts(self) -> dict[str, float | int]:
        """Return the share of pairs in the right order."""
        total, right = self.arrays["pairs"]
        return {"pair_accuracy": float(right / total)} if total > 0.0 else {}

    def best_constant(self) -> Constant | None:
        """Return None: a constant orders nothing."""
        return None


def _best_constant(loss: Loss, labels: Array, weights: Array) -> Constant | None:
    """Return the score that minimizes the weighted mean loss: where the mean slope changes its sign."""
    total = float(weights.sum())
    if total == 0.0:
        return None
    low, high = (labels.min(), labels.max()) if loss.link == "identity" else (-40.0, 40.0)
    with np.errstate(over="ignore"):
        for _ in range(100):
            before, middle = (low, high), (low + high) / 2
            slope = float(weights @ loss.slope(np.full(len(labels), middle), labels))
            low, high = (low, middle) if slope > 0.0 else (middle, high)
            if (low, high) == before:  # there is no number between the two
                break
    best = min((low, high), key=lambda p: float(weights @ loss.value(np.full(len(labels), p), labels)))
    return Constant(float(best), float(weights @ loss.value(np.full(len(labels), best), labels)) / total)
