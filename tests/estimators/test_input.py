"""Estimators with streams and rankings, and what they do with input that is wrong."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from sklearn.base import clone

import proxstream as ps
from proxstream.data.rowblock import as_block
from proxstream.estimators.ranker import pair_accuracy
from proxstream.learner.learner import Learner

from ..examples import examples

FTRL = ps.FTRLProximal(alpha=0.5)


def data(rows: int = 100, features: int = 10, classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)) * (rng.random((rows, features)) < 0.5)
    return X, np.argmax(X[:, :3] @ rng.normal(size=(3, classes)) + 0.3 * rng.normal(size=(rows, classes)), axis=1)


def state(model: Any) -> dict[str, Any]:
    return {name: array.copy() for name, array in model._learner.state_dict().items()}


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# ---- streams


def test_features_may_grow_in_a_stream_alone() -> None:
    X, y = data()
    X[:50, 6:] = 0.0
    stream = [(X[:50, :6], y[:50]), (sparse.csr_array(X[50:]), y[50:]), (X[:50, :6], y[:50])]
    model = ps.StreamClassifier(FTRL).fit_stream(stream)
    assert model.n_features_in_ == 10
    assert model.coef_.shape == (1, 10)
    whole = ps.StreamClassifier(FTRL).fit(np.concatenate((X, X[:50])), np.concatenate((y, y[:50])))
    same(state(model), state(whole))
    model.predict(X)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :6], y)
    with pytest.raises(ValueError, match="features"):
        ps.StreamClassifier(FTRL).fit(X[:, :6], y).partial_fit(X, y)


def test_row_blocks_are_taken_as_they_are() -> None:
    X, y = data()
    block = as_block(X, y, np.linspace(0.5, 1.5, 100))
    model = ps.StreamClassifier(FTRL).fit_stream([block])
    same(state(model), state(ps.StreamClassifier(FTRL).fit(X, y, sample_weight=block.c)))
    np.testing.assert_array_equal(model.predict(as_block(X)), model.predict(X))
    wider = as_block(np.column_stack((X, np.ones(100))))
    np.testing.assert_array_equal(model.decision_function(wider), model.decision_function(X))
    assert model.fit_stream([as_block(X, y, dtype=np.float32)]).coef_.dtype == np.float32


def test_a_stream_starts_anew_or_goes_on() -> None:
    X, y = data()
    model = ps.StreamRegressor(FTRL).fit(X, y)
    on = copy.deepcopy(model).fit_stream(iter([(X, y)]), reset=False)
    same(state(on), state(copy.deepcopy(model).partial_fit(X, y)))
    same(state(on.fit_stream((X[i : i + 10], y[i : i + 10]) for i in range(0, 100, 10))), state(model))
    fresh = ps.StreamRegressor(FTRL).fit_stream([(X, y)], reset=False)
    same(state(fresh), state(model))


def test_a_stream_is_read_again_for_each_pass() -> None:
    X, y = data()
    model = ps.StreamClassifier(FTRL, passes=2)
    same(state(model.fit_stream([(X[:30], y[:30]), (X[30:], y[30:])])), state(clone(model).fit(X, y)))
    with pytest.raises(ValueError, match="passes=2 needs a stream that can be read again"):
        model.fit_stream(iter([(X, y)]))


def test_a_stream_keeps_what_it_learned_before_a_refused_batch() -> None:
    X, y = data()
    bad = X.copy()
    bad[3, 3] = np.nan
    model = ps.StreamClassifier(FTRL)
    with pytest.raises(ValueError, match="NaN"):
        model.fit_stream([(X[:30], y[:30]), (np.column_stack((bad, bad)), y), (X, y)])
    same(state(model), state(ps.StreamClassifier(FTRL).fit(X[:30], y[:30])))
    assert model.n_features_in_ == 10
    with pytest.raises(ValueError, match=r"label 8 at index 0"):
        model.fit_stream([(X, y + 7)], reset=False)
    same(state(model), state(ps.StreamClassifier(FTRL).fit(X[:30], y[:30])))


def test_empty_batches_are_passed_over_and_empty_streams_refused() -> None:
    X, y = data()
    model = ps.StreamClassifier(FTRL).fit_stream([(X[:0], y[:0]), (X, y), (X[:0], y[:0])])
    same(state(model), state(ps.StreamClassifier(FTRL).fit(X, y)))
    for stream in ([], [(X[:0], y[:0])]):
        with pytest.raises(ValueError, match="at least one row"):
            ps.StreamClassifier().fit_stream(stream)


@pytest.mark.parametrize("element", [np.ones((2, 2)), (np.ones((2, 2)),), (np.ones((2, 2)), [0, 1], None, None)])
def test_a_stream_of_something_else(element: Any) -> None:
    with pytest.raises(TypeError, match=r"a stream is made of \(X, y\)"):
        ps.StreamClassifier().fit_stream([element])


# ---- wrong input


HOLE = np.arange(10) == 3
REFUSED = {
    "NaN": lambda X, y: (np.where(HOLE, np.nan, X), y, None),
    "infinity": lambda X, y: (np.where(HOLE, np.inf, X), y, None),
    "sparse NaN": lambda X, y: (sparse.csr_array(np.where(HOLE, np.nan, X)), y, None),
    "features": lambda X, y: (X[:, :4], y, None),
    "no rows": lambda X, y: (X[:0], y[:0], None),
    "lengths": lambda X, y: (X, y[:-1], None),
    "two outputs": lambda X, y: (X, np.column_stack((y, y)), None),
    "missing label": lambda X, y: (X, np.where(np.arange(100) == 5, np.nan, y), None),
    "a weight too few": lambda X, y: (X, y, np.ones(99)),
    "weight below 0": lambda X, y: (X, y, -np.ones(100)),
    "weight NaN": lambda X, y: (X, y, np.full(100, np.nan)),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("kind", [ps.StreamClassifier, ps.StreamRegressor, ps.StreamRanker])
def test_a_refused_batch_leaves_no_trace(kind: Any, what: str) -> None:
    X, y = data()
    model = kind(FTRL).fit(X, y)
    before, attributes = state(model), model.__dict__.copy()
    bad_X, bad_y, c = REFUSED[what](X, y)
    calls = [model.partial_fit, model.fit] if what != "features" else [model.partial_fit]
    for call in calls:
        with pytest.raises(ValueError):  # noqa: PT011 - the words are scikit-learn's
            call(bad_X, bad_y, sample_weight=c)
        assert model.__dict__ == attributes
        same(before, state(model))


@pytest.mark.parametrize(
    ("model", "y", "words"),
    [
        (ps.StreamRegressor(loss="poisson"), -1.0, "poisson must be"),
        (ps.StreamRegressor(loss="logistic"), 1.0, "loss of StreamRegressor must be one of squared"),
        (ps.StreamClassifier(loss="squared"), 1, "loss of StreamClassifier must be one of logistic"),
        (ps.StreamRanker(loss="squared"), 1, "loss of StreamRanker must be one of"),
        (ps.StreamClassifier(loss="nonsense"), 1, "loss must be one of"),
        (ps.StreamClassifier(multi_class="many"), 1, "multi_class must be one of"),
        (ps.StreamClassifier(loss="softmax", multi_class="one_vs_rest"), 1, "takes a binary loss"),
        (ps.StreamClassifier(passes=0), 1, "passes must be an integer >= 1"),
        (ps.StreamClassifier(n_threads=0), 1, "n_threads must be an integer >= 1"),
        (ps.StreamRanker(pairs=0), 1, "pairs must be an integer >= 1"),
    ],
)
def test_wrong_settings_are_named(model: Any, y: Any, words: str) -> None:
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match=words):
        model.fit(X, [0, y, 2])
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"algorithm": 3}, "algorithm must be None, text or an Algorithm"),
        ({"penalty": 3}, "penalty must be None, one of"),
        ({"shuffle": 1}, "shuffle must be True or False"),
        ({"average": "yes"}, "average must be True or False"),
        ({"fit_intercept": None}, "fit_intercept must be True or False"),
    ],
)
def test_wrong_types_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ps.StreamClassifier(**settings).fit(np.eye(2), [0, 1])


def test_weights_that_are_all_zero() -> None:
    X, y = data()
    for model in (ps.StreamClassifier(FTRL), ps.StreamRegressor(FTRL), ps.StreamRanker(FTRL)):
        with pytest.raises(ValueError, match="zero"):
            model.fit(X, y, sample_weight=np.zeros(100))
    model = ps.StreamClassifier(FTRL).fit(X, y)
    before = state(model)
    same(before, state(model.partial_fit(X, y, sample_weight=np.zeros(100))))


def test_a_label_that_comes_too_late() -> None:
    X, y = data()
    model = ps.StreamClassifier(FTRL).fit(X, y)
    before = state(model)
    with pytest.raises(ValueError, match=r"label 2 at index 4.*declare classes that come later"):
        model.partial_fit(X[:5], [0, 1, 0, 1, 2])
    same(before, state(model))


# ---- regression


@pytest.mark.interpreted
def test_poisson_predicts_means() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 3))
    y = rng.poisson(np.exp(X @ [1.0, -1.0, 0.5]))
    model = ps.StreamRegressor(ps.FTRLProximal(alpha=0.5), loss="poisson").fit(X, y)
    np.testing.assert_allclose(np.log(model.predict(X)), X @ model.coef_ + model.intercept_)
    assert abs(model.predict(X).mean() / y.mean() - 1.0) < 0.1
    with pytest.raises(ValueError, match="poisson"):
        model.partial_fit(X[:2], [1.0, -1.0])


def lopsided(p: float, y: float) -> float:
    return 0.5 * (p - y) ** 2 if p < y else p - y


def lopsided_slope(p: float, y: float) -> float:
    return p - y if p < y else 1.0


@pytest.mark.interpreted
def test_a_loss_of_one_s_own() -> None:
    X, _ = data()
    y = X[:, 0]
    loss = ps.losses.custom(lopsided, lopsided_slope)
    model = ps.StreamRegressor(FTRL, loss=loss, fit_intercept=False).fit(X, y)
    reference = ps.OnlineLearner(FTRL, dim=10)
    for x, label in zip(X, y, strict=True):
        reference.learn(x, label, loss)
    np.testing.assert_allclose(model.coef_, reference.point, atol=1e-12)
    assert clone(model).loss == loss


# ---- ranking


def queries(rows: int = 60, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)) * (rng.random((rows, 6)) < 0.7)
    qid = np.sort(rng.integers(0, rows // 6, rows))
    return X, np.round(X[:, 0] - X[:, 1] + 5.0 * qid + 0.3 * rng.normal(size=rows)), qid


def naive_pairs(X: Any, y: Any, qid: Any, c: Any) -> Any:
    for i in range(len(y)):
        for e in range(i):
            if qid[e] == qid[i] and y[e] != y[i] and c[e] * c[i] > 0:
                yield np.sign(y[i] - y[e]) * (X[i] - X[e]), np.sqrt(c[i] * c[e])


@pytest.mark.parametrize("loss", ["ranking_hinge", "logistic"])
def test_the_ranker_learns_pairs(loss: str) -> None:
    X, y, qid = queries()
    c = np.random.default_rng(0).uniform(size=60)
    model = ps.StreamRanker(FTRL, loss=loss, penalty=ps.L1(0.02)).fit(X, y, qid=qid, sample_weight=c)
    learner = Learner(FTRL, loss, ps.L1(0.02), n_features=6, fit_intercept=False)
    suffered, weight = 0.0, 0.0  # each pair scored before any pair of its query is learned
    for query in dict.fromkeys(qid):
        here = qid == query
        pairs = list(naive_pairs(X[here], y[here], qid[here], c[here]))
        if pairs:
            rows, weights = map(np.array, zip(*pairs, strict=True))
            block = as_block(rows, np.ones(len(rows)), weights)
            suffered += weights @ learner.losses_of(learner.predict(block), block.y)
            weight += weights.sum()
            learner.learn(block)
    np.testing.assert_allclose(model.coef_, learner.weights()[0], atol=1e-13)
    assert (model.t_, model.intercept_) == (learner.t, 0.0)
    np.testing.assert_allclose(model.progressive_loss_, suffered / weight)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X))
    assert model.score(X, y, qid=qid) > 0.8


@examples(15)
@given(cuts=st.sets(st.integers(1, 59)), seed=st.integers(0, 5), pairs=st.sampled_from([None, 2]))
def test_a_ranking_stream_may_be_cut_anywhere(cuts: set[int], seed: int, pairs: int | None) -> None:
    X, y, qid = queries(60, seed)
    model = ps.StreamRanker(FTRL, pairs=pairs, random_state=1)
    whole = clone(model).fit(sparse.csr_array(X), y, qid=qid)
    at = np.split(np.arange(60), sorted(cuts))
    pieces = clone(model)
    for part in at:
        pieces.partial_fit(X[part], y[part], qid=qid[part])
    same(state(whole), state(pieces))
    same(state(whole), state(clone(model).fit_stream([(X[part], y[part], qid[part]) for part in at])))
    blocks = [(as_block(X[part], y[part]), qid[part]) for part in at]
    same(state(whole), state(clone(model).fit_stream(blocks)))


def test_passes_and_shuffles_of_queries() -> None:
    X, y, qid = queries()
    for model in (ps.StreamRanker(FTRL, passes=2), ps.StreamRanker(FTRL, passes=2, shuffle=True, random_state=0)):
        once = clone(model).set_params(passes=1).fit(X, y, qid=qid)
        assert clone(model).fit(X, y, qid=qid).t_ == 2 * once.t_
        alone = clone(model).fit(X, y)  # one query: a pass does not meet the rows of the pass before
        assert alone.t_ == 2 * sum(a != b for a, b in itertools.combinations(y, 2))


def test_fewer_pairs_are_drawn() -> None:
    X, y, qid = queries()
    few = [ps.StreamRanker(FTRL, pairs=1, random_state=seed).fit(X, y, qid=qid) for seed in (0, 0, 1)]
    assert few[0].t_ < ps.StreamRanker(FTRL).fit(X, y, qid=qid).t_
    same(state(few[0]), state(few[1]))
    assert not np.array_equal(few[0].coef_, few[2].coef_)


def test_qid_is_checked() -> None:
    X, y, qid = queries()
    model = ps.StreamRanker(FTRL)
    for bad in (qid[:-1], qid.astype(float), np.column_stack((qid, qid))):
        with pytest.raises(ValueError, match="qid must be one integer per row, 60 in all"):
            model.fit(X, y, qid=bad)
    with pytest.raises(ValueError, match="qid 3 comes again at row 2"):
        model.fit(X[:4], y[:4], qid=[3, 1, 3, 1])
    assert not hasattr(model, "coef_")


@examples(60)
@given(rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=12))
def test_pair_accuracy_counts_pairs(rows: list[tuple[int, int]]) -> None:
    scores, y = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    known = [
        0.5 if a == c else float((a < c) == (b < d))
        for (a, b), (c, d) in itertools.combinations(zip(scores, y, strict=True), 2)
        if b != d
    ]
    np.testing.assert_allclose(pair_accuracy(scores, y), np.mean(known) if known else np.nan)


@pytest.mark.interpreted
def test_the_score_is_a_mean_over_queries() -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    y, qid = np.array([0, 1, 2, 1, 0, 5]), np.array([1, 1, 1, 2, 2, 3])
    model = ps.StreamRanker(FTRL).fit(X[:3], y[:3], qid=qid[:3])
    assert model.coef_[0] > 0.0
    assert model.score(X, y, qid=qid) == 0.5
    assert np.isnan(model.score(X[:1], y[:1]))
    again = [3, 0, 5, 1, 4, 2]
    assert model.score(X[again], y[again], qid=qid[again]) == 0.5
