"""Measures of predictions as plain functions: losses of rows, bins of scores, AUC, NDCG, pairs in the right order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.losses import Loss
from ..core.validation import Array
from .labels import one_vs_rest

SCORE_BITS, LABEL_BITS = 18, 20  # of the bins of scores and of labels
GROUPS = 10  # of the calibration table


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
    weight = scores[:, 0] + scores[:, 1]
    total, used = max(float(weight.sum()), 1e-300), np.flatnonzero(weight != 0.0)
    weight, positive, probabilities = weight[used], scores[used, 1], probabilities[used]
    before = np.cumsum(weight) - weight / 2.0
    group = np.minimum((before * GROUPS / total).astype(np.int64), GROUPS - 1)
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
