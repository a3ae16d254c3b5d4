"""What a fitted estimator reports: its history, callbacks while it learns, and its largest weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import proxstream as ps
from proxstream.estimators._progress import PassRecord

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))
SCORE = 3.0 * X[:, 0] - 2.0 * X[:, 1] + X[:, 2]
TWO = np.where(SCORE + RNG.logistic(size=300) > 0.0, "yes", "no")
THREE = np.digitize(SCORE, [-1.0, 1.0])
FTRL = ps.FTRLProximal(alpha=0.5)


# ---- history


def test_history_has_a_record_for_each_pass() -> None:
    model = ps.StreamClassifier(FTRL, penalty=ps.L1(0.02), passes=3).fit(X, TWO)
    assert [(record.epoch, record.rows) for record in model.history_] == [(1, 300), (2, 300), (3, 300)]
    first, second, last = model.history_
    assert first.progressive_loss == model.progressive_loss_
    assert second.progressive_loss < first.progressive_loss  # the rows have been seen
    assert last.nnz == model.nnz_
    assert 0.0 < first.seconds < second.seconds < last.seconds
    model.fit(X, TWO)
    assert len(model.history_) == 3  # of this fit alone


@pytest.mark.parametrize("model", [ps.StreamRegressor(FTRL), ps.StreamRanker(FTRL)])
def test_the_loss_of_a_pass_is_that_of_its_predictions(model: Any) -> None:
    more = {"qid": np.repeat(np.arange(30), 10)} if isinstance(model, ps.StreamRanker) else {}
    once = model.set_params(passes=1).fit(X, SCORE, **more)
    sums = once._learner.loss_sums
    once._learner.end_query()
    again = once.partial_fit(X, SCORE, **more)._learner.loss_sums
    twice = model.set_params(passes=2).fit(X, SCORE, **more)
    assert twice.history_[1].progressive_loss == (again[0] - sums[0]) / (again[1] - sums[1])
    assert twice.progressive_loss_ == sums[0] / sums[1]


def test_streams_have_the_history_of_matrices() -> None:
    batches = [(X[:100], SCORE[:100]), (X[100:], SCORE[100:])]
    whole = ps.StreamRegressor(FTRL, passes=2).fit(X, SCORE)
    stream = ps.StreamRegressor(FTRL, passes=2).fit_stream(batches)
    assert [record[:4] for record in stream.history_] == [record[:4] for record in whole.history_]
    stream.fit_stream(batches, reset=False)
    assert [record.epoch for record in stream.history_] == [1, 2, 3, 4]
    assert stream.fit_stream(batches).history_[0][:4] == whole.history_[0][:4]


def test_a_failing_pass_leaves_the_progressive_loss_of_the_first() -> None:
    class Failing:
        passes = 0

        def __iter__(self) -> Any:
            self.passes += 1
            yield X[:100], SCORE[:100]
            if self.passes == 2:
                raise OSError("disk")

    model = ps.StreamRegressor(FTRL, passes=2)
    with pytest.raises(OSError, match="disk"):
        model.fit_stream(Failing())
    assert model.progressive_loss_ == ps.StreamRegressor(FTRL).fit(X[:100], SCORE[:100]).progressive_loss_
    assert len(model.history_) == 1


def test_partial_fit_adds_no_records_and_files_hold_none(tmp_path: Path) -> None:
    model = ps.StreamRegressor(FTRL).partial_fit(X, SCORE)
    assert model.history_ == []
    model.fit(X, SCORE)
    ps.save(model, tmp_path / "model.psm")
    assert ps.load(tmp_path / "model.psm").history_ == []
    assert len(model.partial_fit(X, SCORE).history_) == 1


# ---- callbacks


def test_callbacks_get_each_record_and_can_stop() -> None:
    seen: list[PassRecord] = []
    ends: list[int] = []

    def settled(record: PassRecord) -> bool:
        ends.append(record.epoch)
        return record.epoch == 2

    model = ps.StreamRegressor(FTRL, passes=5, callbacks=[settled, seen.append]).fit(X, SCORE)
    assert model.history_ == seen
    assert ends == [1, 2]  # and the second callback was called for both
    expected = ps.StreamRegressor(FTRL, passes=2).fit(X, SCORE)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    model.fit_stream([(X, SCORE)])
    assert len(model.history_) == 2


@pytest.mark.parametrize("callbacks", [print, ["print"], 3])
def test_callbacks_are_checked(callbacks: Any) -> None:
    with pytest.raises(TypeError, match="callbacks must be None or a list of callables"):
        ps.StreamRegressor(callbacks=callbacks).fit(X, SCORE)


BATCH = [
    ps.CertifiedRegressor(penalty="l1(1e-3)", tol=1e-12),
    ps.CertifiedRegressor(penalty="l2(1e-3)", tol=1e-12),
    ps.CertifiedRegressor("absolute", penalty="l2(1e-3)", tol=1e-9),
    ps.SDCARegressor(penalty="l2(1e-3)", tol=1e-12, random_state=0),
]


@pytest.mark.parametrize("model", BATCH, ids=str)
def test_callbacks_of_batch_estimators_get_each_record_and_can_stop(model: Any) -> None:
    seen: list[Any] = []
    whole = clone(model).set_params(callbacks=[seen.append]).fit(X, SCORE)
    assert whole.history_[:-1] == seen[:-1]
    assert len(seen) > 2
    last = whole.history_[-1]  # whose dual value is what rounding cannot have raised
    assert seen[-1]._replace(dual=last.dual, gap=last.gap) == last
    assert abs(last.dual - seen[-1].dual) <= (0.01 * model.tol + 1e-13) * last.primal

    def second(record: Any) -> bool:
        return record.epoch == seen[1].epoch

    stopped = clone(model).set_params(callbacks=[second]).fit(X, SCORE)  # without a warning
    assert [record.epoch for record in stopped.history_] == [record.epoch for record in seen[:2]]
    assert [record.primal for record in stopped.history_] == [record.primal for record in seen[:2]]
    assert stopped.duality_gap_ > whole.duality_gap_


def test_callbacks_of_classes_against_the_rest() -> None:
    y = np.digitize(SCORE, np.quantile(SCORE, [0.3, 0.7]))
    counts = []
    for n_threads in (1, 2):
        seen: list[Any] = []
        options = {"multi_class": "one_vs_rest", "n_threads": n_threads, "callbacks": [seen.append]}
        ps.CertifiedClassifier("squared_hinge", "l2(1e-3)", tol=1e-9, **options).fit(X, y)
        counts.append(len(seen))
    assert counts[0] == counts[1] >= 6  # at least a start and an end of three problems


@pytest.mark.parametrize("model", [ps.CertifiedRegressor(), ps.CertifiedClassifier()])
def test_certified_estimators_without_a_penalty_name_the_smallest_one(model: Any) -> None:
    y = SCORE if "Regressor" in type(model).__name__ else SCORE > 0.0
    with pytest.raises(TypeError, match=r"needs a penalty, got NoPenalty\(\): .*L2\(lam=1e-08\)"):
        clone(model).set_params(penalty=None).fit(X, y)
    assert clone(model).set_params(penalty="l2(1e-8)").fit(X, y).duality_gap_ >= 0.0


@pytest.mark.parametrize("kind", [ps.StreamRegressor, ps.CertifiedRegressor, ps.SDCARegressor])
def test_model_files_leave_callbacks_out(kind: Any, tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "model.psm")
    ps.save(kind(callbacks=[print]).fit(X, SCORE), path)
    again = ps.load(path)
    assert again.callbacks is None
    again.fit(X, SCORE)


# ---- top features


@pytest.mark.parametrize(
    "model", [ps.StreamRegressor(FTRL), ps.CertifiedRegressor(), ps.SDCARegressor(penalty="l2(1e-3)")]
)
def test_top_features_of_numbers(model: Any) -> None:
    model.fit(X, SCORE)
    top = model.top_features(3)
    assert [feature.name for feature in top] == [0, 1, 2]
    assert [feature.weight for feature in top] == model.coef_[:3].tolist()
    assert model.top_features(3, names=list("abcde"))[1] == ("b", model.coef_[1])
    assert model.top_features(1, names={0: "first"})[0].name == "first"
    assert model.sparsify().top_features(3) == top
    frame = pd.DataFrame(X, columns=[f"column {i}" for i in range(5)])
    assert [feature.name for feature in model.fit(frame, SCORE).top_features(2)] == ["column 0", "column 1"]


def test_top_features_leave_zero_weights_out() -> None:
    model = ps.CertifiedClassifier(penalty="l1(0.05)").fit(X, TWO)
    top = model.top_features()
    assert len(top) == model.nnz_ < 5
    assert top[0].weight > 0.0 > top[1].weight  # for and against "yes"


@pytest.mark.parametrize("model", [ps.StreamClassifier(FTRL), ps.SDCAClassifier(penalty="l2(0.01)")])
def test_top_features_of_several_classes_are_lists_by_class(model: Any) -> None:
    top = model.fit(X, THREE).top_features(2)
    assert list(top) == [0, 1, 2]
    for k, features in top.items():
        magnitudes = np.abs(model.coef_[k])
        assert [feature.name for feature in features] == np.argsort(-magnitudes)[:2].tolist()


def test_top_features_of_a_ranker() -> None:
    model = ps.StreamRanker(FTRL).fit(X, SCORE, qid=np.repeat(np.arange(30), 10))
    assert model.top_features(1)[0].name == 0


def test_top_features_check_what_they_get() -> None:
    model = ps.StreamRegressor(FTRL).fit(X, SCORE)
    with pytest.raises(ValueError, match="names must have 5 entries, one per feature, got 2"):
        model.top_features(names=["a", "b"])
    with pytest.raises(ValueError, match="n must be an integer >= 1"):
        model.top_features(0)
