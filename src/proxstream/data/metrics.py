"""How good predictions are: measured in one pass and in bounded memory, rows' weights counting as they do in learning.

There are two uses. While a learner runs, a tally counts predictions made before their rows were learned; it is a few
arrays, which checkpoints keep and workers add up. To evaluate a model, metrics measure more than a tally does.

| tally       | metrics         | what is measured                                                                     |
|-------------|-----------------|--------------------------------------------------------------------------------------|
| BinaryTally | BinaryMetrics   | accuracy, AUC; loss, precision, recall, F1; of probabilities: Brier, calibration     |
| ClassTally  | ClassMetrics    | accuracy; loss, macro F1; precision, recall and F1 of each class                     |
| NumberTally | NumberMetrics   | root mean squared error; loss, mean absolute error, R2, bias                         |
| PairTally   | RankingMetrics  | pairs in the right order; NDCG at 10 and at all ranks, each the mean over queries    |

Scores and labels are counted in bins. A bin is a float32 cut to its sign, exponent and leading digits, which keeps the
order: numbers in one bin agree to one part in 2^9 (scores) or 2^11 (labels: whole numbers up to 4,096 have their own
bins). So accuracy and the share of each class are exact. AUC counts a pair of one bin half, and `auc_error` is how far
that can be off; metrics keep up to KEPT rows for an exact AUC. The best constant prediction is exact for two classes,
for the squared loss and for whole labels, else good to three digits. All sums of a tally run in the order of the rows:
they do not depend on how the stream was cut.

Calibration: rows sorted by probability are cut into groups of about equal weight. In a calibrated model the mean
probability of each group is the share of its positive rows; the mean difference, weighted by the groups, is the
calibration error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.losses import Loss
from ..core.validation import Array
from .labels import one_vs_rest
from .rowblock import weights_or_ones
from .sums import add_in_order

SCORE_BITS, LABEL_BITS = 18, 20
KEPT = 1 << 22  # rows whose scores are kept, for an exact AUC
GROUPS = 10  # of the calibration table
RANKS = 10  # of NDCG@10


class Constant(NamedTuple):
    """The best of all constant predictions, and its mean loss; of several classes the most frequent one."""

    value: float
    loss: float


class Table(NamedTuple):
    """A table to be shown: a title, names of columns, and rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


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


class Metrics(Protocol):
    """Sums over predictions of a model that is evaluated."""

    def add(self, scores: Array, y: Array, c: Array, qid: Array | None = None) -> None:
        """Take in the scores of rows with labels y, as the loss knows them, and weights c (none: all 1)."""

    def facts(self) -> dict[str, float | int]:
        """Return the measures by name."""

    def tables(self) -> list[Table]:
        """Return measures of groups or classes."""


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


# ---- two classes


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
        bins = np.flatnonzero(self.arrays["scores"]) // 2
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
        return _best_constant(self._loss, np.array([-1.0, 1.0]), self.arrays["scores"].sum(axis=0))


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
            with np.errstate(over="ignore"):
                p = 1.0 / (1.0 + np.exp(-scores))
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


# ---- several classes


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


# ---- numbers


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


# ---- ranking


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


# ---- functions


def row_losses(loss: Loss, scores: Array, y: Array) -> Array:
    """Return the loss of each row; with a binary loss and a score per class, the sum of each class against the rest.

    >>> from proxstream import losses
    >>> row_losses(losses.hinge, np.array([[0.5, -3.0], [2.0, 0.0]]), np.array([0.0, 1.0]))
    array([0.5, 4. ])
    """
    if loss.kind == "multiclass":
        return np.asarray(loss.value(scores, y.astype(np.int64)))
    if scores.ndim == 2:
        return np.asarray(np.sum(loss.value(scores, one_vs_rest(y, range(scores.shape[1]))), axis=1))
    return np.asarray(loss.value(scores, y))


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


def middles(bits: int) -> Array:
    """Return the middle of each bin of `bins`; bins of what is not finite have the largest finite number.

    >>> middles(SCORE_BITS)[bins(np.array([-1.0, 1.0]), SCORE_BITS)].round(5)
    array([-1.00098,  1.00098])
    """
    ordered = (np.arange(1 << bits, dtype=np.uint32) << np.uint32(32 - bits)) + np.uint32(1 << (31 - bits))
    raw = ordered ^ np.where(ordered >> 31, np.uint32(0x80000000), np.uint32(0xFFFFFFFF))
    with np.errstate(invalid="ignore"):
        found = raw.view(np.float32).astype(np.float64)
    largest = float(np.finfo(np.float32).max)
    return np.where(np.isfinite(found), found, np.where(ordered >> 31, largest, -largest))


def calibration_groups(scores: Array, probabilities: Array) -> list[tuple[float, float, float]]:
    """Return weight, mean probability and share of positives of groups of about equal weight, by rising score.

    Parameters
    ----------
    scores : array of shape (bins, 2)
        Weights of the negative and of the positive rows, as a BinaryTally has them.
    probabilities : array of shape (bins,)
        Sums of weight times probability.
    """
    negative, positive = scores.T
    weight = negative + positive
    before = np.cumsum(weight) - weight / 2.0
    group = np.minimum((before * GROUPS / max(float(weight.sum()), 1e-300)).astype(np.int64), GROUPS - 1)
    sums = np.stack([np.bincount(group, w, GROUPS) for w in (weight, probabilities, positive)])
    return [(w, p / w, positive / w) for w, p, positive in sums.T.tolist() if w > 0.0]


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


def quotient(a: Any, b: Any) -> float:
    """Return a / b, NaN where b is 0."""
    return float(a) / float(b) if b else math.nan


def _best_constant(loss: Loss, labels: Array, weights: Array) -> Constant | None:
    """Return the score that minimizes the weighted mean loss: where the mean slope changes its sign."""
    total = float(weights.sum())
    if total == 0.0:
        return None
    low, high = (labels.min(), labels.max()) if loss.link == "identity" else (-40.0, 40.0)
    for _ in range(100):
        middle = (low + high) / 2
        with np.errstate(over="ignore"):
            slope = float(weights @ loss.slope(np.full(len(labels), middle), labels))
        low, high = (low, middle) if slope > 0.0 else (middle, high)
    best = min((low, high), key=lambda p: float(weights @ loss.value(np.full(len(labels), p), labels)))
    return Constant(float(best), float(weights @ loss.value(np.full(len(labels), best), labels)) / total)
