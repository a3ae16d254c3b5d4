"""How good predictions are, told in one pass over them and in bounded memory.

Each class here takes scores and labels chunk by chunk, weights of rows counting as they do in learning, and tells its
measures at the end; `measures(model)` picks the one that fits.

| class         | measures                                                                                       |
|---------------|------------------------------------------------------------------------------------------------|
| TwoClasses    | loss, accuracy, precision, recall, F1, AUC; of probabilities: Brier score, calibration table   |
| ManyClasses   | loss, accuracy, macro F1; precision, recall and F1 of each class                               |
| Numbers       | loss, root mean squared error, mean absolute error, R2, bias                                   |
| Queries       | NDCG at 10 and at all ranks, pair accuracy, each the mean over queries                         |

AUC is exact as long as there are at most KEPT rows. Beyond that scores are counted in 2^18 bins, in the order of the
scores; a pair of one bin counts half, and how far that can be off is told as `auc_error`.

Calibration: rows sorted by probability are cut into groups of about equal weight. In a calibrated model the mean
probability of each group is the share of its positive rows; the mean difference, weighted by the groups, is the
calibration error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ._checks import Array
from .losses import Loss
from .training.metrics import SCORE_BITS, bins

KEPT = 1 << 22  # rows whose scores are kept, for an exact AUC
GROUPS = 10  # of the calibration table
RANKS = 10  # that NDCG@10 looks at


class Table(NamedTuple):
    """A table to be shown: a title, names of columns, and rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Measures(Protocol):
    """Sums over predictions, and what follows from them."""

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in the scores of rows with labels y, as the loss knows them, and weights c (none: all 1)."""

    def facts(self) -> dict[str, float | int]:
        """Return the measures by name."""

    def tables(self) -> list[Table]:
        """Return what is told in tables."""


def measures(model: Any) -> Measures:
    """Return what measures a `Model`, empty."""
    learner = model.learner
    if learner.ranking:
        return Queries()
    if learner.n_outputs > 1:
        return ManyClasses(model.loss, model.classes)
    return TwoClasses(model.loss) if model.loss.kind == "binary" else Numbers(model.loss)


class _Mean:
    """A weighted mean of each row's loss, and the number of rows."""

    def __init__(self) -> None:
        self.rows, self.weight, self.total = 0, 0.0, 0.0

    def add(self, losses: Array, c: Array) -> None:
        """Take in losses."""
        self.rows += len(losses)
        self.weight += float(np.sum(c))
        self.total += float(losses @ c)

    def facts(self, name: str) -> dict[str, float | int]:
        """Return the number of rows, the sum of their weights unless it is the same, and the mean loss."""
        told: dict[str, float | int] = {"rows": self.rows}
        if self.weight != self.rows:
            told["weight"] = self.weight
        return told | {name: quotient(self.total, self.weight)}


class TwoClasses:
    """Labels -1 and +1.

    >>> from proxstream import losses
    >>> told = TwoClasses(losses.logistic)
    >>> told.add(np.array([-1.0, 2.0, 0.5]), np.array([-1.0, 1.0, -1.0]), np.empty(0))
    >>> told.facts()["auc"], round(told.facts()["accuracy"], 3)
    (1.0, 0.667)
    """

    def __init__(self, loss: Loss, kept: int = KEPT) -> None:
        self._loss, self._mean = loss, _Mean()
        self._likely = loss.name == "logistic"
        self._bins = np.zeros((1 << SCORE_BITS, 3))  # weights of negatives, of positives, sums of probabilities
        self._right = np.zeros((2, 2))  # weights by label and by prediction
        self._brier, self._room, self._kept = 0.0, kept, [(np.empty(0), np.empty(0), np.empty(0))]

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in scores."""
        c, positive = ones(c, len(y)), (y > 0.0).astype(np.int64)
        self._mean.add(np.asarray(self._loss.value(scores, y)), c)
        np.add.at(self._right, (positive, (scores > 0.0).astype(np.int64)), c)
        places = bins(scores, SCORE_BITS)
        np.add.at(self._bins.reshape(-1), 3 * places + positive, c)
        if self._likely:
            with np.errstate(over="ignore"):
                p = 1.0 / (1.0 + np.exp(-scores))
            np.add.at(self._bins[:, 2], places, c * p)
            self._brier += float(c @ (p - positive) ** 2)
        if self._mean.rows <= self._room:
            self._kept.append((scores, y, c))
        else:
            self._kept.clear()

    def facts(self) -> dict[str, float | int]:
        """Return all measures but the calibration table."""
        (tn, fp), (fn, tp) = self._right
        told = self._mean.facts(f"{self._loss.name}_loss")
        told |= {"accuracy": quotient(tp + tn, self._right.sum())}
        told |= {"positive_share": quotient(tp + fn, self._right.sum())}
        told |= {"precision": quotient(tp, tp + fp), "recall": quotient(tp, tp + fn)}
        told |= {"f1": quotient(2.0 * tp, 2.0 * tp + fp + fn)}
        if self._kept:
            told["auc"] = auc(*map(np.concatenate, zip(*self._kept, strict=True)))
        else:
            negative, positive = self._bins[:, 0], self._bins[:, 1]
            pairs, tied = negative.sum() * positive.sum(), positive @ negative
            told["auc"] = quotient(positive @ (np.cumsum(negative) - negative) + tied / 2.0, pairs)
            told["auc_error"] = quotient(tied / 2.0, pairs)
        if self._likely:
            told["brier_score"] = quotient(self._brier, self._mean.weight)
            told["mean_probability"] = quotient(self._bins[:, 2].sum(), self._mean.weight)
            told["calibration_error"] = self._calibration_error()
        return told

    def calibration(self) -> list[tuple[float, float, float]]:
        """Return weight, mean probability and share of positives of groups of rows, sorted by probability."""
        weight = self._bins[:, 0] + self._bins[:, 1]
        before = np.cumsum(weight) - weight / 2.0
        group = np.minimum((before * GROUPS / max(float(weight.sum()), 1e-300)).astype(np.int64), GROUPS - 1)
        sums = np.stack([np.bincount(group, w, GROUPS) for w in (weight, self._bins[:, 2], self._bins[:, 1])])
        return [(w, p / w, positive / w) for w, p, positive in sums.T.tolist() if w > 0.0]

    def _calibration_error(self) -> float:
        groups = self.calibration()
        return quotient(sum(w * abs(p - share) for w, p, share in groups), self._mean.weight)

    def tables(self) -> list[Table]:
        """Return the calibration table, where there are probabilities."""
        if not self._likely:
            return []
        return [Table("calibration", ("weight", "mean probability", "share of positives"), self.calibration())]


class ManyClasses:
    """Labels 0, 1, ... of scores (rows, classes); `classes` are their names."""

    def __init__(self, loss: Loss, classes: Sequence[float]) -> None:
        self._loss, self._mean, self._classes = loss, _Mean(), classes
        self._confused = np.zeros((len(classes), len(classes)))  # weights by label and by prediction

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in scores."""
        c, labels = ones(c, len(y)), y.astype(np.int64)
        if self._loss.kind == "multiclass":
            suffered = self._loss.value(scores, labels)
        else:
            signs = np.where(labels[:, None] == np.arange(scores.shape[1]), 1.0, -1.0)
            suffered = np.sum(self._loss.value(scores, signs), axis=1)
        self._mean.add(np.asarray(suffered), c)
        np.add.at(self._confused, (labels, np.argmax(scores, axis=1)), c)

    def _each(self) -> list[tuple[float, float, float, float]]:
        right, told, there = np.diag(self._confused), self._confused.sum(axis=0), self._confused.sum(axis=1)
        return [
            (float(n), quotient(r, p), quotient(r, n), quotient(2.0 * r, p + n))
            for r, p, n in zip(right, told, there, strict=True)
        ]

    def facts(self) -> dict[str, float | int]:
        """Return loss, accuracy and macro F1: the mean over the classes that occur, as labels or as predictions."""
        f1 = [f1 for *_, f1 in self._each() if not math.isnan(f1)]
        told = self._mean.facts(f"{self._loss.name}_loss")
        told["accuracy"] = quotient(np.trace(self._confused), self._confused.sum())
        return told | {"macro_f1": quotient(sum(f1), len(f1))}

    def tables(self) -> list[Table]:
        """Return the measures of each class."""
        rows = [(label, *each) for label, each in zip(self._classes, self._each(), strict=True)]
        return [Table("classes", ("class", "weight", "precision", "recall", "f1"), rows)]


class Numbers:
    """Numbers and counts: scores are predictions, of the loss poisson their logarithms."""

    def __init__(self, loss: Loss) -> None:
        self._loss, self._mean = loss, _Mean()
        self._sums = np.zeros(4)  # of squared errors, absolute errors, labels and predictions
        self._spread = 0.0  # sum of squared differences of the labels from their mean

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in scores."""
        c = ones(c, len(y))
        weight, mine = self._mean.weight, float(c.sum())
        if len(y) == 0 or mine == 0.0:
            return
        predicted = np.exp(scores) if self._loss.name == "poisson" else scores
        # Two groups' squared differences from the common mean: those from their own means, and the means' distance
        # (Chan, Golub and LeVeque 1983).
        own = float(c @ y) / mine
        if weight > 0.0:
            apart = own - self._sums[2] / weight
            self._spread += apart * apart * weight * mine / (weight + mine)
        self._spread += float(c @ (y - own) ** 2)
        self._mean.add(np.asarray(self._loss.value(scores, y)), c)
        self._sums += (c @ (predicted - y) ** 2, c @ np.abs(predicted - y), c @ y, c @ predicted)

    def facts(self) -> dict[str, float | int]:
        """Return all measures."""
        squared, absolute, label, predicted = (quotient(total, self._mean.weight) for total in self._sums)
        told = self._mean.facts(f"{self._loss.name}_loss")
        told |= {"rmse": math.sqrt(squared), "mae": absolute, "r2": 1.0 - quotient(self._sums[0], self._spread)}
        return told | {"mean_label": label, "mean_prediction": predicted}

    def tables(self) -> list[Table]:
        """Return none."""
        return []


class Queries:
    """Rows of queries, which stand together; a query whose rows are all alike tells nothing and is counted apart."""

    def __init__(self) -> None:
        self._open: tuple[int, list[Array], list[Array]] | None = None
        self._rows, self._queries, self._sums, self._told = 0, 0, np.zeros(3), 0

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in scores; a query may go on in the next chunk."""
        if qid is None:
            raise ValueError("a ranker is measured by queries: each row needs a qid")
        self._rows += len(y)
        for one in np.split(np.arange(len(y)), np.flatnonzero(np.diff(qid)) + 1) if len(y) else ():
            number = int(qid[one[0]])
            if self._open is None or self._open[0] != number:
                self._close()
                self._open = number, [], []
            self._open[1].append(scores[one])
            self._open[2].append(y[one])

    def _close(self) -> None:
        if self._open is None:
            return
        scores, y = np.concatenate(self._open[1]), np.concatenate(self._open[2])
        self._open, self._queries = None, self._queries + 1
        found = np.array([ndcg(scores, y, RANKS), ndcg(scores, y), pair_accuracy(scores, y)])
        if not np.isnan(found).any():
            self._sums += found
            self._told += 1

    def facts(self) -> dict[str, float | int]:
        """Return the means over queries; no more rows may be added then."""
        self._close()
        at_ten, at_all, pairs = (quotient(total, self._told) for total in self._sums)
        told: dict[str, float | int] = {"rows": self._rows, "queries": self._queries}
        if self._told < self._queries:
            told["queries_all_alike"] = self._queries - self._told
        return told | {f"ndcg_at_{RANKS}": at_ten, "ndcg": at_all, "pair_accuracy": pairs}

    def tables(self) -> list[Table]:
        """Return none."""
        return []


# -- functions -----------------------------------------------------------------------------------


def auc(scores: Array, y: Array, c: Array) -> float:
    """Return the weighted share of pairs of a positive and a negative row in the right order, ties counting half.

    >>> auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([-1, 1, -1, 1]), np.ones(4))
    0.875
    """
    order = np.argsort(scores, kind="stable")
    _, begins = np.unique(scores[order], return_index=True)
    if len(begins) == 0:
        return math.nan
    negative = np.add.reduceat(np.where(y > 0, 0.0, c)[order], begins)
    positive = np.add.reduceat(np.where(y > 0, c, 0.0)[order], begins)
    below = np.cumsum(negative) - negative / 2.0
    return quotient(positive @ below, negative.sum() * positive.sum())


def ndcg(scores: Array, y: Array, ranks: int | None = None) -> float:
    """Return the discounted cumulative gain of a query's order over that of the best order, up to a rank.

    A row of relevance y at rank r gains (2^y - 1) / log2(r + 1). Rows of equal scores share their ranks' discounts, so
    that the order of the file does not matter (McSherry and Najork, 2008). NaN where all rows gain the same.

    >>> round(ndcg(np.array([3.0, 2.0, 1.0]), np.array([0.0, 2.0, 1.0])), 4)
    0.659
    """
    if (y < 0.0).any():
        raise ValueError(f"NDCG takes relevances >= 0, got {y[y < 0.0][0]:g}")
    if len(y) == 0 or (y == y[0]).all():
        return math.nan
    gains = np.exp2(y) - 1.0
    discounts = 1.0 / np.log2(np.arange(len(y)) + 2.0)
    discounts[len(y) if ranks is None else ranks :] = 0.0
    order = np.argsort(-scores, kind="stable")
    _, begins, counts = np.unique(-scores[order], return_index=True, return_counts=True)
    shared = np.repeat(np.add.reduceat(discounts, begins) / counts, counts)
    best = np.sort(gains)[::-1]
    return float(gains[order] @ shared / (best @ discounts))


def pair_accuracy(scores: Array, y: Array) -> float:
    """Return the share of pairs with different y whose scores are in the same order, equal scores counting half.

    With C pairs in the right order, D in the wrong one and T of different y in all it is (1 + (C - D) / T) / 2.

    >>> pair_accuracy(np.array([0.1, 0.3, 0.3, 0.2]), np.array([0, 1, 2, 2]))
    0.7
    """
    n = len(y)
    different = n * (n - 1) / 2 - _tied(y)
    if different == 0.0:
        return math.nan
    if n <= 256:  # all pairs at once
        balance = float(np.sum(np.sign(scores[:, None] - scores) * np.sign(y[:, None] - y))) / 2.0
        return float(0.5 * (1.0 + balance / different))
    apart = n * (n - 1) / 2 - _tied(scores)
    if apart == 0.0:
        return 0.5
    from scipy.stats import kendalltau

    # Kendall's tau-b is (C - D) / sqrt(different * apart), in n log n steps.
    balance = float(np.rint(kendalltau(scores, y).statistic * np.sqrt(different * apart)))
    return float(0.5 * (1.0 + balance / different))


def _tied(values: Array) -> float:
    """Return the number of pairs of equal values."""
    counts = np.unique(values, return_counts=True)[1]
    return float(np.sum(counts * (counts - 1) / 2))


def ones(c: Array, n: int) -> Array:
    """Return the weights of n rows."""
    return c if len(c) else np.ones(n)


def quotient(a: Any, b: Any) -> float:
    """Return a / b, NaN where b is 0."""
    return float(a) / float(b) if b else math.nan
