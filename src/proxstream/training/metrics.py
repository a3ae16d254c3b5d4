"""What is counted of predictions made before their rows were learned, in memory that does not grow with the rows.

Scores and labels are kept as counts in bins. A bin is a float32 cut to its sign, exponent and leading digits, which
keeps the order: numbers in one bin agree to one part in 2^9 (scores) or 2^11 (labels: whole numbers up to 4,096 have
bins of their own). So

- accuracy and the share of each class are exact;
- AUC counts a pair of one bin half, so it is off by at most half the share of such pairs, which is told beside it;
- the best constant prediction is exact for two classes, for the squared loss and for whole labels, else good to three
  digits.

All sums run in the order of the rows: they do not depend on how the stream was cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from .._checks import Array
from ..losses import Loss

SCORE_BITS, LABEL_BITS = 18, 20


class Constant(NamedTuple):
    """The best of all constant predictions, and its mean loss; of several classes the most frequent one is told."""

    value: float
    loss: float


class Tally(Protocol):
    """Sums over predictions."""

    arrays: dict[str, Array]

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in the scores of rows with labels y and weights c (none: all 1)."""

    def facts(self) -> dict[str, float]:
        """Return the metrics by name."""

    def best_constant(self) -> Constant | None:
        """Return the best constant prediction, None where there is none to tell."""


def tally(loss: Loss, n_outputs: int, *, ranking: bool = False) -> Tally:
    """Return the sums that fit a loss, empty."""
    if ranking:
        return Pairs()
    if n_outputs > 1:
        return Classes(loss, n_outputs)
    return TwoClasses(loss) if loss.kind == "binary" else Numbers(loss)


class TwoClasses:
    """Weights of the negative and of the positive rows, by bin of their score.

    >>> from proxstream import losses
    >>> counted = TwoClasses(losses.logistic)
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

    def facts(self) -> dict[str, float]:
        """Return accuracy, AUC and how far AUC can be off."""
        found = self.arrays["scores"]
        negative, positive = found.T
        total, pairs = float(found.sum()), float(negative.sum() * positive.sum())
        if total == 0.0:
            return {}
        zero = (1 << SCORE_BITS) // 2  # the bin of 0, which predicts the negative class
        right = float(negative[: zero + 1].sum() + positive[zero + 1 :].sum())
        facts = {"accuracy": right / total}
        if pairs > 0.0:
            below = np.cumsum(negative) - negative
            tied = float(positive @ negative)
            facts |= {"auc": (float(positive @ below) + tied / 2) / pairs, "auc_error": tied / 2 / pairs}
        return facts

    def best_constant(self) -> Constant | None:
        """Return the constant score of the least loss."""
        return _best_constant(self._loss, np.array([-1.0, 1.0]), self.arrays["scores"].sum(axis=0))


class Classes:
    """Weights of all rows and of those told right, a class."""

    def __init__(self, loss: Loss, n_outputs: int) -> None:
        self._loss = loss
        self.arrays = {"classes": np.zeros((n_outputs, 2))}

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores."""
        labels = y.astype(np.int64)
        found = self.arrays["classes"]
        c = c if len(c) else np.ones(len(y))
        np.add.at(found[:, 0], labels, c)
        np.add.at(found[:, 1], labels, c * (np.argmax(scores, axis=1) == labels))

    def facts(self) -> dict[str, float]:
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


class Numbers:
    """Weights and sums of the labels by bin, and the squared error."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self.arrays = {"labels": np.zeros((1 << LABEL_BITS, 2)), "sums": np.zeros(3)}

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in scores."""
        c = c if len(c) else np.ones(len(y))
        cells = 2 * bins(y, LABEL_BITS)
        flat = self.arrays["labels"].reshape(-1)
        np.add.at(flat, cells, c)
        np.add.at(flat, cells + 1, c * y)
        sums = self.arrays["sums"]
        predicted = np.exp(scores) if self._loss.name == "poisson" else scores
        with np.errstate(over="ignore"):
            for i, terms in enumerate((c, c * (predicted - y) ** 2, c * y**2)):
                sums[i] = np.cumsum(np.concatenate((sums[i : i + 1], terms)))[-1]

    def facts(self) -> dict[str, float]:
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


class Pairs:
    """Pairs of a query's rows, and those in the right order."""

    def __init__(self) -> None:
        self.arrays = {"pairs": np.zeros(2)}

    def add(self, scores: Array, y: Array, c: Array) -> None:
        """Take in the scores of pairs."""
        self.arrays["pairs"] += np.array([len(scores), np.count_nonzero(scores > 0.0)])

    def facts(self) -> dict[str, float]:
        """Return the share of pairs in the right order."""
        total, right = self.arrays["pairs"]
        return {"pair_accuracy": float(right / total)} if total > 0.0 else {}

    def best_constant(self) -> Constant | None:
        """Return None: a constant orders nothing."""
        return None


def bins(values: Array, bits: int) -> Array:
    """Return the bin of each number: in the order of the numbers, 2^bits in all.

    >>> bins(np.array([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf]), 4)
    array([ 0,  4,  7,  8, 11, 15])
    """
    with np.errstate(over="ignore"):
        raw = values.astype(np.float32).view(np.uint32)
    # Floats order like integers once the sign bit is turned, and all bits of a negative one.
    ordered = raw ^ np.where(raw >> 31, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))
    return (ordered >> np.uint32(32 - bits)).astype(np.int64)


def restore(counted: Tally, arrays: Mapping[str, Array]) -> None:
    """Go on from the sums of an earlier run."""
    for name, own in counted.arrays.items():
        own[...] = arrays[name]


def _best_constant(loss: Loss, labels: Array, weights: Array) -> Constant | None:
    """Return the score that minimizes the weighted mean loss: where the mean slope changes its sign."""
    total = float(weights.sum())
    if total == 0.0:
        return None
    low, high = (-40.0, 40.0) if loss.kind == "binary" or loss.name == "poisson" else (labels.min(), labels.max())
    for _ in range(100):
        middle = (low + high) / 2
        with np.errstate(over="ignore"):
            slope = float(weights @ loss.slope(np.full(len(labels), middle), labels))
        low, high = (low, middle) if slope > 0.0 else (middle, high)
    best = min((low, high), key=lambda p: float(weights @ loss.value(np.full(len(labels), p), labels)))
    return Constant(float(best), float(weights @ loss.value(np.full(len(labels), best), labels)) / total)
