"""Estimators against the learner that they wrap, the dense reference, and what scikit-learn's users rely on."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import proxstream as ps
from proxstream.data._dense_to_csr import non_zeros
from proxstream.data.rowblock import as_block
from proxstream.learner.learner import Learner

from ..examples import examples

pytestmark = pytest.mark.interpreted

FTRL = ps.FTRLProximal(alpha=0.5)


def data(rows: int = 200, features: int = 30, classes: int = 2, seed: int = 0, density: float = 0.4) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)) * (rng.random((rows, features)) < density)
    scores = X[:, :3] @ rng.normal(size=(3, classes)) + rng.gumbel(size=(rows, classes)) * 0.3
    return X, np.argmax(scores, axis=1)


def numbers(rows: int = 200, features: int = 30, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)) * (rng.random((rows, features)) < 0.4)
    return X, X[:, 0] * 2.0 - X[:, 1] + 0.1 * rng.normal(size=rows)


def same_model(a: Any, b: Any) -> None:
    """The same bits: everything that the model remembers, and what it reports."""
    ours, theirs = a._learner.state_dict(), b._learner.state_dict()
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.intercept_, b.intercept_)


# ---- against the learner and the dense reference


@pytest.mark.parametrize("algorithm", [FTRL, ps.RDA(), None], ids=str)
def test_the_classifier_is_the_learner(algorithm: Any) -> None:
    X, y = data()
    model = ps.StreamClassifier(algorithm, penalty=ps.L1(0.01)).fit(X, y)
    learner = Learner(model._learner.algorithm, "logistic", ps.L1(0.01), n_features=30)
    learner.learn(as_block(X, 2 * y - 1))
    np.testing.assert_array_equal(model.coef_, learner.weights()[0][None])
    assert model.coef_.shape == (1, 30)
    assert model.intercept_ == learner.weights()[1]
    assert model.intercept_.shape == (1,)
    assert (model.t_, model.progressive_loss_) == (200, learner.progressive_loss)
    assert model.nnz_ == np.count_nonzero(model.coef_)
    np.testing.assert_array_equal(model.decision_function(X), learner.predict(as_block(X)))


def test_the_default_is_auto_ftrl() -> None:
    X, y = data()
    same_model(ps.StreamClassifier().fit(X, y), ps.StreamClassifier(ps.AutoFTRL()).fit(X, y))


def test_the_regressor_follows_the_dense_reference() -> None:
    X, y = numbers()
    reference = ps.OnlineLearner(FTRL, ps.L1(0.1), dim=30)
    losses = [reference.learn(x, label, "squared") for x, label in zip(X, y, strict=True)]
    model = ps.StreamRegressor(FTRL, penalty=ps.L1(0.1), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.point, rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(model.coef_ == 0.0, reference.point == 0.0)
    assert 0 < model.nnz_ < 30
    assert model.coef_.shape == (30,)
    assert model.intercept_ == 0.0
    np.testing.assert_allclose(model.progressive_loss_, np.mean(losses))


def test_the_constructor_is_the_published_one() -> None:
    expected = {
        "algorithm": None,
        "penalty": None,
        "passes": 1,
        "shuffle": False,
        "average": False,
        "fit_intercept": True,
        "n_threads": 1,
        "random_state": None,
        "verbose": 0,
    }
    for model, loss in (
        (ps.StreamClassifier(), "logistic"),
        (ps.StreamRegressor(), "squared"),
        (ps.StreamRanker(), "ranking_hinge"),
    ):
        assert (expected | {"loss": loss}).items() <= model.get_params().items()


# ---- the stream law


LAW = [
    (ps.StreamClassifier(FTRL, penalty=ps.L1(0.02)), 2),
    (ps.StreamClassifier(penalty=ps.L1(0.001)), 2),
    (ps.StreamClassifier(FTRL, penalty=ps.ElasticNet(0.01, 0.1)), 3),
    (ps.StreamClassifier(FTRL, loss="squared_hinge", class_weight={0: 0.5, 2: 3.0}), 3),
    (ps.StreamRegressor(ps.MirrorDescent(eta=0.1), penalty=ps.L1(0.02)), 0),
    (ps.StreamRegressor(ps.RDA(), penalty=ps.L1Ball(1.0)), 0),
]


@pytest.mark.default_cases(2)
@pytest.mark.parametrize(("model", "classes"), LAW, ids=str)
@examples(10)
@given(
    cuts=st.sets(st.integers(1, 59)), form=st.sampled_from(["dense", "csr", "csc", "fortran"]), seed=st.integers(0, 9)
)
def test_any_cut_and_any_form_gives_the_same_model(
    model: Any, classes: int, cuts: set[int], form: str, seed: int
) -> None:
    X, y = data(60, 8, classes, seed) if classes else numbers(60, 8, seed)
    c = np.random.default_rng(seed).integers(0, 3, 60).astype(float)
    whole = clone(model).fit(X, y, sample_weight=c)
    make = {"dense": np.asarray, "csr": sparse.csr_array, "csc": sparse.csc_matrix, "fortran": np.asfortranarray}[form]
    pieces = clone(model)
    options = {"classes": np.unique(y)} if classes else {}
    for at in np.split(np.arange(60), sorted(cuts)):
        pieces.partial_fit(make(X[at]), y[at], sample_weight=c[at], **options)
    same_model(whole, pieces)
    stream = [(make(X[at]), y[at], c[at]) for at in np.split(np.arange(60), sorted(cuts))]
    same_model(whole, clone(model).fit_stream(stream, **options))


def test_partial_fit_row_by_row_keeps_exact_zeros() -> None:
    X, y = data(500, 100, density=0.2)
    whole = ps.StreamClassifier(FTRL, penalty=ps.L1(0.02)).fit(X, y)
    rows, forgetful = clone(whole), SGDClassifier(loss="log_loss", penalty="l1", alpha=0.02)
    for i in range(500):
        rows.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
        forgetful.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
    same_model(whole, rows)
    assert 0 < rows.nnz_ < 10 < np.count_nonzero(forgetful.coef_)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "model",
    [
        ps.StreamClassifier(FTRL, penalty=ps.L1(0.01)),
        ps.StreamClassifier(),
        ps.StreamClassifier(FTRL, average=True),
        ps.StreamClassifier(ps.RDA(), penalty=ps.L2Ball(1.0)),
    ],
    ids=str,
)
def test_pickles_and_copies_go_on_bit_for_bit(model: Any) -> None:
    X, y = data()
    whole = clone(model).partial_fit(X, y, classes=[0, 1])
    half = clone(model).partial_fit(X[:90], y[:90], classes=[0, 1])
    for twin in (pickle.loads(pickle.dumps(half)), copy.deepcopy(half)):
        np.testing.assert_array_equal(twin.decision_function(X), half.decision_function(X))
        same_model(whole, twin.partial_fit(X[90:], y[90:]))
    assert half.t_ == 90


def test_weight_zero_leaves_the_model_untouched() -> None:
    X, y = data()
    c = (np.arange(200) % 3 > 0).astype(float)
    same_model(
        ps.StreamClassifier(FTRL).fit(X[c > 0], y[c > 0], sample_weight=np.ones(int(c.sum()))),
        ps.StreamClassifier(FTRL).fit(X, y, sample_weight=c),
    )


# ---- progressive loss, passes, order


def test_progressive_loss_predicts_each_row_before_it_is_learned() -> None:
    X, y = data()
    c = np.random.default_rng(1).uniform(0.5, 2.0, 200)
    model, shown = ps.StreamClassifier(FTRL), []
    for i in range(200):
        seen = i > 0
        shown.append(model.predict_proba(X[i : i + 1])[0] if seen else [0.5, 0.5])
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1], sample_weight=c[i : i + 1])
    np.testing.assert_allclose(model.progressive_loss_, log_loss(y, shown, sample_weight=c))


def test_passes_are_fits_one_after_another_and_only_the_first_counts() -> None:
    X, y = data()
    once = ps.StreamClassifier(FTRL).fit(X, y)
    thrice = ps.StreamClassifier(FTRL, passes=3).fit(X, y)
    again = copy.deepcopy(once).partial_fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(thrice.coef_, again.coef_)
    assert thrice.t_ == 600
    assert thrice.progressive_loss_ == once.progressive_loss_ > again.progressive_loss_


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_shuffle_takes_another_order_each_pass(make: Any) -> None:
    X, y = data()
    random = np.random.RandomState(7)
    model = ps.StreamClassifier(FTRL)
    for order in (random.permutation(200), random.permutation(200)):
        model.partial_fit(X[order], y[order])
    shuffled = ps.StreamClassifier(FTRL, passes=2, shuffle=True, random_state=7).fit(make(X), y)
    np.testing.assert_array_equal(model.coef_, shuffled.coef_)


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data()
    whole = ps.StreamClassifier(FTRL, passes=2, shuffle=True, random_state=0).fit(sparse.csr_array(X), y)
    monkeypatch.setattr("proxstream.data.batches.PIECE", 100)
    for form in (X, sparse.csr_array(X)):
        pieces = ps.StreamClassifier(FTRL, passes=2, shuffle=True, random_state=0).fit(form, y)
        same_model(whole, pieces)
        np.testing.assert_array_equal(whole.predict(X), pieces.predict(form))


def test_average_is_the_mean_of_the_weights_played() -> None:
    X, y = data(50)
    model, played = ps.StreamClassifier(FTRL, penalty=ps.L1(0.01)), []
    for i in range(50):
        played.append(model.coef_[0] if i else np.zeros(30))
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
    averaged = ps.StreamClassifier(FTRL, penalty=ps.L1(0.01), average=True).fit(X, y)
    np.testing.assert_allclose(averaged.coef_[0], np.mean(played, axis=0), atol=1e-12)
    scores = X @ averaged.coef_[0] + averaged.intercept_
    np.testing.assert_allclose(averaged.decision_function(X), scores, atol=1e-12)
    assert averaged.progressive_loss_ == model.progressive_loss_


# ---- classes


@pytest.mark.exhaustive
def test_more_classes_make_the_logistic_loss_the_softmax_and_the_hinge_the_multiclass_hinge() -> None:
    X, y = data(classes=4)
    for two, many in (("logistic", "softmax"), ("hinge", "multiclass_hinge")):
        model = ps.StreamClassifier(FTRL, loss=two).fit(X, y)
        same_model(model, ps.StreamClassifier(FTRL, loss=many).fit(X, y))
        assert model.coef_.shape == (4, 30)
        assert model.intercept_.shape == (4,)
        assert model.decision_function(X).shape == (200, 4)
        binary = X, y > 1
        same_model(ps.StreamClassifier(FTRL, loss=two).fit(*binary), ps.StreamClassifier(FTRL, loss=many).fit(*binary))


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_one_against_the_rest_is_a_model_a_class(loss: str) -> None:
    X, y = data(classes=3)
    model = ps.StreamClassifier(FTRL, loss=loss, penalty=ps.L1(0.01), multi_class="one_vs_rest").fit(X, y)
    alone = [ps.StreamClassifier(FTRL, loss=loss, penalty=ps.L1(0.01)).fit(X, y == label) for label in range(3)]
    np.testing.assert_allclose(model.coef_, np.concatenate([one.coef_ for one in alone]), atol=1e-12)
    np.testing.assert_allclose(model.progressive_loss_, sum(one.progressive_loss_ for one in alone))
    if loss == "logistic":
        each = np.column_stack([one.predict_proba(X)[:, 1] for one in alone])
        np.testing.assert_allclose(model.predict_proba(X), each / each.sum(axis=1, keepdims=True))
    else:
        same_model(model, ps.StreamClassifier(FTRL, loss=loss, penalty=ps.L1(0.01)).fit(X, y))


@pytest.mark.exhaustive
def test_arow_learns_one_class_against_the_rest() -> None:
    X, y = data(classes=3)
    model = ps.StreamClassifier(ps.AROW(), loss="hinge").fit(X, y)
    alone = [ps.StreamClassifier(ps.AROW(), loss="hinge").fit(X, y == label) for label in range(3)]
    np.testing.assert_allclose(model.coef_, np.concatenate([one.coef_ for one in alone]), atol=1e-12)


def test_probabilities() -> None:
    X, y = data(classes=3)
    for labels in (y, y > 0):
        model = ps.StreamClassifier(FTRL).fit(X, labels)
        shown = model.predict_proba(X)
        assert shown.shape == (200, len(np.unique(labels)))
        np.testing.assert_allclose(shown.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[shown.argmax(axis=1)], model.predict(X))
        np.testing.assert_allclose(model.predict_log_proba(X), np.log(shown))
        far = model.predict_log_proba(1e6 * X[:5])
        assert np.isfinite(far).all()
    for loss in ("hinge", "perceptron", "multiclass_hinge"):
        assert not hasattr(ps.StreamClassifier(loss=loss), "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        _ = ps.StreamClassifier(loss="hinge").predict_proba


def test_labels_of_any_kind() -> None:
    X, y = data(classes=3)
    names = np.array(["ham", "eggs", "spam"])
    model, plain = ps.StreamClassifier(FTRL).fit(X, names[y]), ps.StreamClassifier(FTRL)
    plain.fit(X, np.array([1, 0, 2])[y])
    assert model.classes_.tolist() == ["eggs", "ham", "spam"]
    same_model(model, plain)
    assert set(model.predict(X)) <= set(names)
    as_objects = ps.StreamClassifier(FTRL).fit(X, names[y].astype(object))
    same_model(model, as_objects)
    assert model.score(X, names[y]) > 0.7


def test_classes_declared_up_front_or_taken_from_the_first_batch() -> None:
    X, y = data(classes=3)
    declared = ps.StreamClassifier(FTRL).partial_fit(X[:1], y[:1], classes=[2, 1, 0])
    assert declared.classes_.tolist() == [0, 1, 2]
    same_model(declared.partial_fit(X[1:], y[1:], classes=[0, 1, 2]), ps.StreamClassifier(FTRL).fit(X, y))
    with pytest.raises(ValueError, match="not the same as on the first call"):
        declared.partial_fit(X, y, classes=[0, 1])
    same_model(ps.StreamClassifier(FTRL).partial_fit(X, y), declared)
    with pytest.raises(ValueError, match="at least 2 classes"):
        ps.StreamClassifier().partial_fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="at least 2 classes"):
        ps.StreamClassifier().fit(X, np.ones(200))


def test_class_weights_are_sample_weights() -> None:
    X, y = data(classes=3)
    options = {0: 0.5, 2: 4.0}
    c = np.random.default_rng(0).uniform(size=200)
    by_class = ps.StreamClassifier(FTRL, class_weight=options).fit(X, y, sample_weight=c)
    by_row = ps.StreamClassifier(FTRL).fit(X, y, sample_weight=c * np.array([0.5, 1.0, 4.0])[y])
    same_model(by_class, by_row)
    same_model(by_class, ps.StreamClassifier(FTRL, class_weight=options).partial_fit(X, y, sample_weight=c))
    counts = np.bincount(y)
    balanced = {label: 200 / (3 * counts[label]) for label in range(3)}
    same_model(
        ps.StreamClassifier(FTRL, class_weight="balanced").fit(X, y),
        ps.StreamClassifier(FTRL, class_weight=balanced).fit(X, y),
    )
    for call in (lambda m: m.partial_fit(X, y), lambda m: m.fit_stream([(X, y)])):
        model = ps.StreamClassifier(class_weight="balanced")
        with pytest.raises(ValueError, match="'balanced' needs all labels at once"):
            call(model)
        assert not hasattr(model, "coef_")


# ---- parameters


def test_parameters_of_parts() -> None:
    penalty = ps.L1(0.1)
    model = ps.StreamClassifier(ps.MirrorDescent(eta=0.5, geometry=ps.PNorm(p=1.5)), penalty=penalty)
    params = model.get_params()
    assert params["algorithm__eta"] == 0.5
    assert params["algorithm__geometry__p"] == 1.5
    assert params["penalty__lam"] == 0.1
    assert params["penalty"] is penalty
    assert not any("__" in name for name in model.get_params(deep=False))
    other = clone(model)
    model.set_params(algorithm__eta=2.0, algorithm__geometry__p=1.2, penalty__lam=0.3, passes=4)
    assert model.algorithm == ps.MirrorDescent(eta=2.0, geometry=ps.PNorm(p=1.2))
    assert model.penalty == ps.L1(0.3)
    assert model.passes == 4
    assert penalty == ps.L1(0.1)
    assert other.algorithm == ps.MirrorDescent(eta=0.5, geometry=ps.PNorm(p=1.5))
    assert model.set_params(algorithm=ps.RDA(), algorithm__gamma=3.0).algorithm == ps.RDA(gamma=3.0)
    assert ps.StreamRegressor(loss=ps.huber).set_params(loss__delta=0.5).loss == ps.huber(0.5)
    assert clone(model).get_params() == model.get_params()
    assert "RDA(gamma=3.0" in repr(model)
    assert model._repr_html_()


@pytest.mark.parametrize("name", ["alpha", "algorithm__alpha", "penalty__lam__x", "algoritm__gamma", "passes__x"])
def test_an_unknown_parameter_changes_nothing(name: str) -> None:
    model = ps.StreamClassifier(ps.RDA(), penalty=ps.L1(0.1))
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(passes=2, **{name: 1})
    assert model.get_params() == ps.StreamClassifier(ps.RDA(), penalty=ps.L1(0.1)).get_params()


def test_a_bad_value_of_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="gamma must be"):
        ps.StreamClassifier(ps.RDA()).set_params(algorithm__gamma=-1.0)


def test_grid_search_over_parts() -> None:
    X, y = data()
    grid = {"algorithm__alpha": [1e-4, 0.5], "penalty__lam": [1e-3, 10.0]}
    search = GridSearchCV(ps.StreamClassifier(FTRL, penalty=ps.L1(1.0)), grid, cv=3, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_ == {"algorithm__alpha": 0.5, "penalty__lam": 1e-3}
    assert ps.FTRLProximal(alpha=0.5) == FTRL
    same_model(search.best_estimator_, ps.StreamClassifier(FTRL, penalty=ps.L1(1e-3)).fit(X, y))


def test_pipelines() -> None:
    X, y = data()
    scaled = make_pipeline(StandardScaler(), ps.StreamClassifier(FTRL)).fit(X, y)
    assert scaled.set_params(streamclassifier__algorithm__alpha=0.1)[-1].algorithm.alpha == 0.1
    words = ["good great fine", "bad awful poor", "great good", "poor bad"] * 10
    text = make_pipeline(HashingVectorizer(n_features=2**18), ps.StreamClassifier(FTRL)).fit(words, [1, 0, 1, 0] * 10)
    assert text.predict(["great", "poor"]).tolist() == [1, 0]
    assert text[-1].coef_.shape == (1, 2**18)
    assert text[-1].nnz_ == 6


def test_metadata_is_routed() -> None:
    X, y = data()
    c = np.random.default_rng(0).uniform(size=200)
    with config_context(enable_metadata_routing=True):
        model = ps.StreamClassifier(FTRL).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        model.set_partial_fit_request(classes=True, sample_weight=True)
        search = GridSearchCV(model, {"algorithm__alpha": [0.5]}, cv=2).fit(X, y, sample_weight=c)
        ranker = ps.StreamRanker(FTRL).set_fit_request(qid=True).set_score_request(qid=True)
        GridSearchCV(ranker, {"algorithm__alpha": [0.5]}, cv=2).fit(X, y, qid=np.arange(200) // 10)
    same_model(search.best_estimator_, ps.StreamClassifier(FTRL).fit(X, y, sample_weight=c))


def test_tags() -> None:
    assert get_tags(ps.StreamClassifier()).input_tags.sparse
    assert not get_tags(ps.StreamClassifier()).non_deterministic
    assert get_tags(ps.StreamClassifier(n_threads=2)).non_deterministic
    assert get_tags(ps.StreamRegressor(loss="poisson")).target_tags.positive_only
    assert not get_tags(ps.StreamRegressor()).target_tags.positive_only
    assert get_tags(ps.StreamRanker()).target_tags.required


# ---- precision and memory


def test_state_takes_the_first_batch_s_precision() -> None:
    X, y = data()
    for dtype, state in ((np.float32, np.float32), (np.float64, np.float64), (np.int64, np.float64)):
        model = ps.StreamClassifier(FTRL).partial_fit(X.astype(dtype), y)
        assert model.coef_.dtype == state
        model.partial_fit(X.astype(np.float64), y)
        assert model.coef_.dtype == model._learner.state_dict()["state"].dtype == state
    narrow = ps.StreamClassifier(FTRL).partial_fit(X.astype(np.float32), y)
    mixed = copy.deepcopy(narrow).partial_fit(X, y)
    same_model(mixed, narrow.partial_fit(X.astype(np.float32), y))
    np.testing.assert_array_equal(mixed.predict(X), mixed.predict(X.astype(np.float32)))


def test_sparse_rows_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(50)
    X = sparse.csr_array(X.astype(np.float32))
    blocks = []
    learn = Learner.learn

    def spy(self: Any, rows: Any, *args: Any, **kwargs: Any) -> Any:
        blocks.append(rows)
        return learn(self, rows, *args, **kwargs)

    monkeypatch.setattr(Learner, "learn", spy)
    ps.StreamClassifier(FTRL).fit(X, y).partial_fit(X, y)
    ps.StreamClassifier(FTRL, verbose=1).fit(X, y)
    assert len(blocks) == 3
    for rows in blocks:
        assert np.shares_memory(rows.data, X.data)
        assert np.shares_memory(rows.indices, X.indices)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shuffle", [False, True])
def test_fitting_takes_little_memory_beside_the_data(shuffle: bool) -> None:
    X = sparse.random_array((60_000, 1000), density=0.05, format="csr", dtype=np.float64, rng=0)
    y = np.arange(60_000) % 2
    model = ps.StreamClassifier(FTRL, shuffle=shuffle, random_state=0).fit(X[:10], y[:10])
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = X.data.nbytes + X.indices.nbytes
    assert size > 35e6
    assert peak < 0.6 * size if shuffle else peak < 0.25 * size


@pytest.mark.compiled
def test_read_only_data_is_learned() -> None:
    X, y = data(50)
    X = sparse.csr_array(X)
    whole = ps.StreamClassifier(FTRL).fit(X, y)
    for array in (X.data, X.indices, X.indptr, y):
        array.flags.writeable = False
    same_model(whole, ps.StreamClassifier(FTRL).fit(X, y))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_become_sparse_rows(order: Any, density: float, dtype: Any) -> None:
    X = np.array(data(20, 7, density=density)[0], dtype=dtype, order=order)
    X[3] = -0.0
    expected = sparse.csr_array(X)
    for ours, theirs in zip(non_zeros(X), (expected.indptr, expected.indices, expected.data), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_unsorted_and_duplicate_entries() -> None:
    X, y = data(50)
    tidy = sparse.csr_array(X)
    halves = sparse.csr_array(
        (np.repeat(tidy.data / 2, 2), np.repeat(tidy.indices, 2), 2 * tidy.indptr), shape=tidy.shape
    )
    given = halves.data.copy()
    same_model(ps.StreamClassifier(FTRL).fit(tidy, y), ps.StreamClassifier(FTRL).fit(halves, y))
    np.testing.assert_array_equal(halves.data, given)


# ---- sparse coefficients


def test_sparsify_and_densify() -> None:
    X, y = data()
    model = ps.StreamClassifier(FTRL, penalty=ps.L1(0.02)).fit(X, y)
    dense, scores = model.coef_, model.decision_function(X)
    assert model.sparsify() is model
    assert sparse.issparse(model.coef_)
    assert model.coef_.nnz == model.nnz_ == np.count_nonzero(dense)
    np.testing.assert_array_equal(model.coef_.toarray(), dense)
    np.testing.assert_array_equal(model.decision_function(X), scores)
    assert sparse.issparse(model.partial_fit(X, y).coef_)
    assert isinstance(model.densify().coef_, np.ndarray)
    assert ps.StreamRegressor(FTRL).fit(X, y).sparsify().coef_.shape == (1, 30)
    with pytest.raises(NotFittedError):
        ps.StreamClassifier().sparsify()


# ---- frames


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_give_their_names(frame: Any) -> None:
    X, y = data(50, 4)
    table = frame({name: X[:, j] for j, name in enumerate("abcd")})
    model = ps.StreamClassifier(FTRL).fit(table, y)
    assert model.feature_names_in_.tolist() == list("abcd")
    same_model(model, ps.StreamClassifier(FTRL).fit(X, y))
    np.testing.assert_array_equal(model.predict(table), model.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(table[list("bacd")], y)
    streamed = ps.StreamClassifier(FTRL).fit_stream([(table, y), (table, y)])
    assert streamed.feature_names_in_.tolist() == list("abcd")
    assert not hasattr(streamed.fit_stream([(X, y)]), "feature_names_in_")


# ---- what is shown, and threads


def test_a_bar_on_stderr_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = data()
    ps.StreamClassifier(FTRL).fit(X, y)
    ps.StreamClassifier(FTRL).fit_stream([(X, y)])
    assert capsys.readouterr() == ("", "")
    for call in (lambda m: m.fit(X, y), lambda m: m.partial_fit(X, y), lambda m: m.fit_stream([(X, y)])):
        call(ps.StreamClassifier(FTRL, verbose=1))
        out, err = capsys.readouterr()
        assert out == ""
        assert "200 rows" in err
        assert "rows/s" in err
        assert "progressive" in err


@pytest.mark.default_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("model", [ps.StreamClassifier(FTRL, penalty=ps.L1(1e-4)), ps.StreamClassifier()], ids=str)
def test_threads_learn_the_same_model_up_to_noise(model: Any) -> None:
    X, y = data(20_000, 200, 3, density=0.1)
    X = sparse.csr_array(X)
    one = clone(model).fit(X, y)
    for _ in range(3):
        many = clone(model).set_params(n_threads=4).fit(X, y)
        assert many.t_ == one.t_ == 20_000
        assert np.isfinite(many.coef_).all()
        assert abs(many.progressive_loss_ / one.progressive_loss_ - 1.0) < 0.1
        assert abs(many.score(X, y) - one.score(X, y)) < 0.02


@pytest.mark.exhaustive
def test_a_model_whose_arrays_are_read_only_learns_on() -> None:
    """As joblib hands it to its workers: large arrays as files mapped into memory, which nobody may write to."""
    from proxstream.learner.learner import arrays_of

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
    for model in (
        ps.StreamClassifier(ps.FTRLProximal(0.3)),
        ps.StreamClassifier(ps.FTRLProximal(0.3), average=True),
        ps.StreamClassifier(),
        ps.StreamRanker(ps.FTRLProximal(0.3), loss="logistic"),
    ):
        model.fit(X, y)
        twin = pickle.loads(pickle.dumps(model)).partial_fit(X, y)
        for part in (model._learner, model._learner.engine, model._learner._queries):
            for array in arrays_of(part):
                array.flags.writeable = False
        coef = model.coef_.copy()
        assert np.array_equal(model.partial_fit(X, y).coef_, twin.coef_)
        assert not np.array_equal(coef, twin.coef_)
