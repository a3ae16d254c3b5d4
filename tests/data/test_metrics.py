"""Metrics beside scikit-learn's, and beside sums over all pairs; in one chunk or many, with weights or without."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn import metrics as sk

from proxstream.core import losses
from proxstream.core.algorithms import FTRLProximal
from proxstream.data.measures import auc, ndcg, pair_accuracy
from proxstream.data.metrics import BinaryMetrics, ClassMetrics, NumberMetrics, RankingMetrics, metrics_of
from proxstream.learner.learner import Learner
from proxstream.models.model import Model

from ..examples import examples


def fed(counted: Any, scores: Any, y: Any, c: Any = None, qid: Any = None, cuts: tuple[int, ...] = (7, 7, 40)) -> Any:
    """Feed in chunks."""
    c = np.empty(0) if c is None else c
    for start, stop in zip((0, *cuts), (*cuts, len(y)), strict=True):
        part = slice(start, stop)
        counted.add(scores[part], y[part], c[part] if len(c) else c, None if qid is None else qid[part])
    return counted


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def binary(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], size=300, p=[0.7, 0.3])
    scores = np.round(y + 2.0 * rng.normal(size=300), 1)  # with ties
    return scores, y, rng.integers(0, 4, size=300).astype(float) if request.param else None


def test_two_classes(binary: tuple[Any, Any, Any]) -> None:
    scores, y, c = binary
    counted = fed(BinaryMetrics(losses.logistic), scores, y, c).facts()
    p, right, predicted = 1.0 / (1.0 + np.exp(-scores)), y > 0, scores > 0
    expected = {
        "logistic_loss": sk.log_loss(right, p, sample_weight=c),
        "accuracy": sk.accuracy_score(right, predicted, sample_weight=c),
        "precision": sk.precision_score(right, predicted, sample_weight=c),
        "recall": sk.recall_score(right, predicted, sample_weight=c),
        "f1": sk.f1_score(right, predicted, sample_weight=c),
        "auc": sk.roc_auc_score(right, scores, sample_weight=c),
        "brier_score": sk.brier_score_loss(right, p, sample_weight=c),
        "positive_share": np.average(right, weights=c),
        "mean_probability": np.average(p, weights=c),
    }
    assert counted["rows"] == 300
    assert ("weight" in counted) == (c is not None)
    for name, value in expected.items():
        np.testing.assert_allclose(counted[name], value, rtol=1e-12, err_msg=name)


def test_auc_of_more_rows_than_are_kept_is_as_near_as_it_says(binary: tuple[Any, Any, Any]) -> None:
    scores, y, c = binary
    scores = scores * (1.0 + 1e-4 * np.random.default_rng(1).normal(size=300))
    exact, binned = (fed(BinaryMetrics(losses.logistic, kept), scores, y, c).facts() for kept in (300, 60))
    assert "auc_error" not in exact
    assert 0.0 < binned["auc_error"] < 0.01
    assert 0.0 < abs(binned["auc"] - exact["auc"]) <= binned["auc_error"]


def test_calibration_groups_are_means_over_sorted_rows() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=1000)
    y = np.where(rng.random(1000) < 1.0 / (1.0 + np.exp(-scores)), 1.0, -1.0)
    counted = fed(BinaryMetrics(losses.logistic), scores, y, cuts=(500,))
    order = np.argsort(scores)
    groups = counted.calibration()
    assert len(groups) == 10
    assert sum(weight for weight, *_ in groups) == 1000
    begin, error = 0, 0.0
    for weight, mean, share in groups:  # neighbours in one bin of scores stay together
        assert abs(weight - 100) < 10
        mine = order[begin : begin + int(weight)]
        np.testing.assert_allclose(mean, np.mean(1.0 / (1.0 + np.exp(-scores[mine]))), rtol=1e-9)
        np.testing.assert_allclose(share, np.mean(y[mine] > 0))
        begin, error = begin + int(weight), error + weight / 1000 * abs(mean - share)
    np.testing.assert_allclose(counted.facts()["calibration_error"], error)
    assert error < 0.05


@pytest.mark.parametrize("weighted", [False, True])
def test_many_classes(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    y, scores = rng.integers(4, size=200), rng.normal(size=(200, 5))  # class 4 does not occur
    scores[np.arange(200), y] += 1.0
    c = rng.integers(0, 3, size=200).astype(float) if weighted else None
    counted = fed(ClassMetrics(losses.softmax, (1.0, 2.0, 3.0, 4.0, 9.0)), scores, y.astype(float), c)
    predicted = np.argmax(scores, axis=1)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    facts = counted.facts()
    np.testing.assert_allclose(facts["softmax_loss"], sk.log_loss(y, p, sample_weight=c, labels=range(5)))
    np.testing.assert_allclose(facts["accuracy"], sk.accuracy_score(y, predicted, sample_weight=c))
    each = sk.precision_recall_fscore_support(y, predicted, sample_weight=c, labels=range(5), zero_division=np.nan)
    (table,) = counted.tables()
    for k, (label, weight, *measured) in enumerate(table.rows):
        assert label == (1.0, 2.0, 3.0, 4.0, 9.0)[k]
        assert weight == each[3][k]
        np.testing.assert_allclose(measured, [column[k] for column in each[:3]])
    np.testing.assert_allclose(facts["macro_f1"], np.nanmean(each[2]))


def test_one_class_against_the_rest_has_the_sum_of_losses() -> None:
    scores, y = np.array([[0.5, -1.0, 0.2]]), np.array([2.0])
    counted = ClassMetrics(losses.hinge, (0.0, 1.0, 2.0))
    counted.add(scores, y, np.empty(0))
    assert counted.facts()["hinge_loss"] == pytest.approx(1.5 + 0.0 + 0.8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["squared", "poisson"])
def test_numbers(name: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=100)
    y = rng.poisson(np.exp(scores)).astype(float) if name == "poisson" else 1e6 + scores + rng.normal(size=100)
    predicted = np.exp(scores) if name == "poisson" else (scores := scores + 1e6)
    c = rng.integers(0, 3, size=100).astype(float) if weighted else None
    counted = fed(NumberMetrics(losses.get(name)), scores, y, c).facts()
    expected = {
        f"{name}_loss": np.average(losses.get(name).value(scores, y), weights=c),
        "rmse": math.sqrt(sk.mean_squared_error(y, predicted, sample_weight=c)),
        "mae": sk.mean_absolute_error(y, predicted, sample_weight=c),
        "r2": sk.r2_score(y, predicted, sample_weight=c),
        "mean_label": np.average(y, weights=c),
        "mean_prediction": np.average(predicted, weights=c),
    }
    for measure, value in expected.items():
        np.testing.assert_allclose(counted[measure], value, rtol=1e-9, err_msg=measure)


def test_queries_are_those_of_the_rows_wherever_the_stream_is_cut() -> None:
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(12), rng.integers(1, 14, size=12))
    y, scores = rng.integers(4, size=len(qid)).astype(float), rng.normal(size=len(qid))
    y[qid == 3] = 2.0
    counted = fed(RankingMetrics(), scores, y, qid=qid, cuts=(3, 4, 11, 30)).facts()
    found = []
    for query in range(12):
        mine = qid == query
        if len(np.unique(y[mine])) > 1:
            gains = 2.0 ** y[mine][None] - 1.0
            at = [sk.ndcg_score(gains, scores[mine][None], k=k) for k in (10, None)]
            i, j = np.nonzero(y[mine][:, None] > y[mine])
            found.append((*at, np.mean(scores[mine][i] > scores[mine][j])))
    assert counted["rows"] == len(qid)
    assert counted["queries"] == 12
    assert counted["queries_all_alike"] == 12 - len(found) > 0
    np.testing.assert_allclose(
        [counted["ndcg_at_10"], counted["ndcg"], counted["pair_accuracy"]], np.mean(found, axis=0)
    )


def test_queries_need_a_qid() -> None:
    with pytest.raises(ValueError, match="each row needs a qid"):
        RankingMetrics().add(np.ones(2), np.ones(2), np.empty(0))


ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=2, max_size=12)


@examples(60)
@given(ROWS)
def test_ndcg_with_ties_is_scikit_learns(rows: list[tuple[int, int]]) -> None:
    scores, y = np.array(rows, dtype=float).T
    if (y == y[0]).all():
        assert math.isnan(ndcg(scores, y))
        return
    for ranks in (None, 3):
        np.testing.assert_allclose(ndcg(scores, y, ranks), sk.ndcg_score(2.0 ** y[None] - 1.0, scores[None], k=ranks))


def test_ndcg_takes_no_negative_relevances() -> None:
    with pytest.raises(ValueError, match="relevances >= 0, got -1"):
        ndcg(np.ones(2), np.array([1.0, -1.0]))


def test_pair_accuracy_of_few_rows_and_of_many_agree() -> None:
    rng = np.random.default_rng(0)
    scores, y = np.round(rng.normal(size=600), 1), rng.integers(5, size=600)
    i, j = np.nonzero(y[:, None] > y)
    expected = np.mean((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
    np.testing.assert_allclose(pair_accuracy(scores, y), expected)
    np.testing.assert_allclose(pair_accuracy(np.zeros(600), y), 0.5)


def test_a_measure_without_rows_is_nan() -> None:
    assert math.isnan(auc(np.empty(0), np.empty(0), np.empty(0)))
    assert math.isnan(auc(np.ones(3), np.ones(3), np.ones(3)))
    facts = BinaryMetrics(losses.hinge).facts()
    assert facts["rows"] == 0
    assert all(math.isnan(value) for name, value in facts.items() if name != "rows")
    assert math.isnan(NumberMetrics(losses.squared).facts()["rmse"])


@pytest.mark.parametrize(
    ("loss", "outputs", "kind"),
    [
        ("logistic", 1, BinaryMetrics),
        ("softmax", 3, ClassMetrics),
        ("huber", 1, NumberMetrics),
        ("ranking_hinge", 1, RankingMetrics),
    ],
)
def test_the_metrics_fit_the_model(loss: str, outputs: int, kind: type) -> None:
    learner = Learner(FTRLProximal(), loss, n_outputs=outputs, ranking=loss == "ranking_hinge")
    model = Model(learner, tuple(range(outputs)) if outputs > 1 else ())
    assert type(metrics_of(model)) is kind
