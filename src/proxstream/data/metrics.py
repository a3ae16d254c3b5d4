"""Metrics of an evaluated model: in one pass, in bounded memory, rows' weights counting as they do in learning.

| metrics         | what is measured                                                            |
|-----------------|-----------------------------------------------------------------------------|
| BinaryMetrics   | accuracy, AUC, loss, precision, recall, F1; Brier score and calibration     |
| ClassMetrics    | accuracy, loss, macro F1; precision, recall and F1 of each class            |
| NumberMetrics   | root mean squared error, loss, mean absolute error, R2, bias                |
| RankingMetrics  | pairs in the right order; NDCG at 10 and at all ranks: means over queries   |

They measure more than the tallies of a learner that runs (`tallies`), and keep up to KEPT rows for an exact AUC.

Calibration: rows sorted by probability are cut into groups of about equal weight. In a calibrated model the mean
probability of each group is the share of its positive rows; the mean difference, weighted by the groups, is the
calibration error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..core.losses import Loss
from ..core.records import NamedTuple
from ..core.validation import Array
from .measures import SCORE_BITS, auc, bins, calibration_groups, ndcg, pair_accuracy, quotient, row_losses
from .rowblock import weights_or_ones
from .tallies import BinaryTally, ClassTally

KEPT = 1 << 22  # rows whose scores are kept, for an exact AUC
RANKS = 10  # of NDCG@10


class Table(NamedTuple):
    """A table to be shown: a title, names of columns, and rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Metrics(Protocol):
    """Sums over predictions of a model that is evaluated."""

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in the scores of rows with labels y, as the loss knows them, and weights c (none: all 1)."""

    def facts(self) -> dict[str, float | int]:
        """Return the measures by name."""

    def tables(self) -> list[Table]:
        """Return measures of groups or classes."""


def metrics_of(model: Any) -> Metrics:
    """Return the metrics that fit a `Model`, empty."""
    learner = model.learner
    if learner.ranking:
        return RankingMetrics()
    if learner.n_outputs > 1:
        return ClassMetrics(model.loss, model.classes)
    return BinaryMetrics(model.loss) if model.loss.kind == "binary" else NumberMetrics(model.loss)


class _Mean:
    """A weighted mean of each row's loss, and the number of rows."""

    def __init__(self) -> None:
        self.rows, self.weight, self.total = 0, 0.0, 0.0

    def add(self, losses: Array, c: Array) -> None:
        """Take in losses."""
        self.rows += len(losses)
        self.weight += float(np.sum(c))
        self.total += float(losses @ c)

    def facts(self, loss: Loss) -> dict[str, float | int]:
        """Return the number of rows, the sum of their weights unless it is the same, and the mean loss."""
        weight: dict[str, float | int] = {} if self.weight == self.rows else {"weight": self.weight}
        return {"rows": self.rows, **weight, f"{loss.name}_loss": quotient(self.total, self.weight)}


class BinaryMetrics(BinaryTally):
    """Labels -1 and +1.

    >>> from proxstream import losses
    >>> counted = BinaryMetrics(losses.logistic)
    >>> counted.add(np.array([-1.0, 2.0, 0.5]), np.array([-1.0, 1.0, -1.0]), np.empty(0))
    >>> counted.facts()["auc"], round(counted.facts()["accuracy"], 3)
    (1.0, 0.667)
    """

    def __init__(self, loss: Loss, kept: int = KEPT) -> None:
        super().__init__(loss)
        self._mean, self._likely = _Mean(), loss.has_probabilities
        self.probabilities = np.zeros(1 << SCORE_BITS)  # sums by bin
        self._brier, self._room, self._kept = 0.0, kept, [(np.empty(0), np.empty(0), np.empty(0))]

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in scores."""
        super().add(scores, y, c)
        c = weights_or_ones(c, len(y))
        self._mean.add(np.asarray(self._loss.value(scores, y)), c)
        if self._likely:
            p = self._loss.probabilities(scores)
            np.add.at(self.probabilities, bins(scores, SCORE_BITS), c * p)
            self._brier += float(c @ (p - (y > 0.0)) ** 2)
        if self._mean.rows <= self._room:
            self._kept.append((scores, y, c))
        else:
            self._kept.clear()

    def facts(self) -> dict[str, float | int]:
        """Return all measures but the calibration table."""
        right = self.confusion()
        (tn, fp), (fn, tp) = right
        facts = self._mean.facts(self._loss)
        facts |= {"accuracy": quotient(tp + tn, right.sum())}
        facts |= {"positive_share": quotient(tp + fn, right.sum())}
        facts |= {"precision": quotient(tp, tp + fp), "recall": quotient(tp, tp + fn)}
        facts |= {"f1": quotient(2.0 * tp, 2.0 * tp + fp + fn)}
        if self._kept:
            facts["auc"] = auc(*map(np.concatenate, zip(*self._kept, strict=True)))
        else:
            facts["auc"], facts["auc_error"] = self._binned_auc()
        if self._likely:
            facts["brier_score"] = quotient(self._brier, self._mean.weight)
            facts["mean_probability"] = quotient(self.probabilities.sum(), self._mean.weight)
            error = sum(w * abs(p - share) for w, p, share in self.calibration())
            facts["calibration_error"] = quotient(error, self._mean.weight)
        return facts

    def calibration(self) -> list[tuple[float, float, float]]:
        """Return weight, mean probability and share of positives of groups of rows, sorted by probability."""
        return calibration_groups(self.arrays["scores"], self.probabilities)

    def tables(self) -> list[Table]:
        """Return the calibration table, where there are probabilities."""
        if not self._likely:
            return []
        return [Table("calibration", ("weight", "mean probability", "share of positives"), self.calibration())]


class ClassMetrics(ClassTally):
    """Labels 0, 1, ... of scores (rows, classes); `classes` are their names."""

    def __init__(self, loss: Loss, classes: Sequence[Any]) -> None:
        super().__init__(loss, len(classes))
        self._mean, self._classes = _Mean(), classes
        self._predicted = np.zeros(len(classes))  # weights by prediction

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in scores."""
        super().add(scores, y, c)
        c = weights_or_ones(c, len(y))
        self._mean.add(row_losses(self._loss, scores, y), c)
        np.add.at(self._predicted, np.argmax(scores, axis=1), c)

    def _each(self) -> list[tuple[float, float, float, float]]:
        return [
            (float(n), quotient(r, p), quotient(r, n), quotient(2.0 * r, p + n))
            for (n, r), p in zip(self.arrays["classes"], self._predicted, strict=True)
        ]

    def facts(self) -> dict[str, float | int]:
        """Return loss, accuracy and macro F1: the mean over the classes that occur, as labels or as predictions."""
        f1 = [f1 for *_, f1 in self._each() if not math.isnan(f1)]
        total, right = self.arrays["classes"].sum(axis=0)
        facts = self._mean.facts(self._loss)
        return facts | {"accuracy": quotient(right, total), "macro_f1": quotient(sum(f1), len(f1))}

    def tables(self) -> list[Table]:
        """Return the measures of each class."""
        rows = [(label, *each) for label, each in zip(self._classes, self._each(), strict=True)]
        return [Table("classes", ("class", "weight", "precision", "recall", "f1"), rows)]


class NumberMetrics:
    """Numbers: the mean that the loss predicts with a score is compared with the label."""

    def __init__(self, loss: Loss) -> None:
        self._loss, self._mean = loss, _Mean()
        self._sums = np.zeros(4)  # of squared errors, absolute errors, labels and predictions
        self._spread = 0.0  # sum of squared differences of the labels from their mean

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in scores."""
        c = weights_or_ones(c, len(y))
        weight, mine = self._mean.weight, float(c.sum())
        if len(y) == 0 or mine == 0.0:
            return
        predicted = self._loss.mean(scores)
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
        facts = self._mean.facts(self._loss)
        facts |= {"rmse": math.sqrt(squared), "mae": absolute, "r2": 1.0 - quotient(self._sums[0], self._spread)}
        return facts | {"mean_label": label, "mean_prediction": predicted}

    def tables(self) -> list[Table]:
        """Return none."""
        return []


class RankingMetrics:
    """Rows of queries, which follow each other; a query whose rows are all alike is counted and not measured."""

    def __init__(self) -> None:
        self._open: tuple[int, list[Array], list[Array]] | None = None
        self._rows, self._queries, self._sums, self._measured = 0, 0, np.zeros(3), 0

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in scores; a query may continue in the next chunk."""
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
            self._measured += 1

    def facts(self) -> dict[str, float | int]:
        """Return the means over queries; no more rows may be added then."""
        self._close()
        at_ten, at_all, pairs = (quotient(total, self._measured) for total in self._sums)
        facts: dict[str, float | int] = {"rows": self._rows, "queries": self._queries}
        if self._measured < self._queries:
            facts["queries_all_alike"] = self._queries - self._measured
        return facts | {f"ndcg_at_{RANKS}": at_ten, "ndcg": at_all, "pair_accuracy": pairs}

    def tables(self) -> list[Table]:
        """Return none."""
        return []
