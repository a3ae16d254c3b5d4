"""Components as objects, strings and defaults, and their parameters under double underscores."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import proxstream as ps

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 6))
Y = X[:, 0] - X[:, 1] + 0.3 * RNG.normal(size=120) > 0.0
SCORE = 2.0 * X[:, 0] - X[:, 1] + 0.1 * RNG.normal(size=120)
BATCH = (ps.CertifiedClassifier, ps.CertifiedRegressor, ps.SDCAClassifier, ps.SDCARegressor)


# ---- defaults


@pytest.mark.parametrize("kind", BATCH)
def test_batch_estimators_show_their_penalty_in_the_signature(kind: Any) -> None:
    assert inspect.signature(kind).parameters["penalty"].default == ps.L2(1e-4)
    model = clone(kind())
    assert model.penalty == ps.L2(1e-4)
    assert model.set_params(penalty__lam=0.5).penalty == ps.L2(0.5)
    assert kind().penalty == ps.L2(1e-4)  # the default itself has not changed


@pytest.mark.parametrize("kind", BATCH)
def test_no_penalty_is_never_another_penalty(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"NoPenalty\(\)|strongly convex penalty"):
        kind(penalty=None).fit(X, Y if "Classifier" in kind.__name__ else SCORE)


def test_streams_have_no_penalty_by_default() -> None:
    model = ps.StreamRegressor(ps.RDA()).fit(X, SCORE)
    np.testing.assert_array_equal(model.coef_, ps.StreamRegressor(ps.RDA(), penalty=ps.NoPenalty()).fit(X, SCORE).coef_)
    with pytest.raises(ValueError, match=r"Invalid parameter 'lam' for penalty=NoPenalty\(\)"):
        model.set_params(penalty__lam=0.1)


# ---- strings


@pytest.mark.default_cases(2)
@pytest.mark.parametrize(
    ("text", "built"),
    [
        (
            ps.StreamClassifier("rda(gamma=2)", "smoothed_hinge(0.5)", "l1(1e-3) + nonnegative"),
            ps.StreamClassifier(ps.RDA(gamma=2), ps.losses.smoothed_hinge(gamma=0.5), ps.L1(1e-3) + ps.NonNegative()),
        ),
        (ps.StreamRegressor("sgd", "huber(0.5)"), ps.StreamRegressor(ps.SGD(), ps.losses.huber(delta=0.5))),
        (
            ps.CertifiedRegressor(penalty="elastic_net(0.01, 0.1)"),
            ps.CertifiedRegressor(penalty=ps.ElasticNet(0.01, 0.1)),
        ),
        (
            ps.SDCARegressor("huber(0.5)", "l2(0.1)", random_state=0),
            ps.SDCARegressor(ps.losses.huber(delta=0.5), ps.L2(0.1), random_state=0),
        ),
    ],
    ids=["classifier", "regressor", "certified", "sdca"],
)
def test_a_string_is_the_component_that_it_names(text: Any, built: Any) -> None:
    y = Y if isinstance(text, ps.StreamClassifier) else SCORE
    params = text.get_params(deep=False)
    model = clone(text).fit(X, y)
    np.testing.assert_array_equal(model.coef_, built.fit(X, y).coef_)
    assert model.get_params(deep=False) == params  # strings stay as they were given
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_a_ranker_takes_strings() -> None:
    qid = np.repeat(np.arange(12), 10)
    text = ps.StreamRanker("ftrl_proximal(0.5)", penalty="l1(0.01)").fit(X, SCORE, qid=qid)
    built = ps.StreamRanker(ps.FTRLProximal(alpha=0.5), penalty=ps.L1(0.01)).fit(X, SCORE, qid=qid)
    np.testing.assert_array_equal(text.coef_, built.coef_)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ps.StreamClassifier("rda(gama=2)"), "algorithm rda takes gamma, rho"),
        (ps.StreamClassifier("adam"), "algorithm must be one of .*rda"),
        (ps.StreamClassifier(penalty="l1(1e-3) +"), "penalty must be one of none, l1"),
        (ps.StreamClassifier(loss="huge"), "huge"),
    ],
)
def test_bad_strings_are_named_at_fit_and_do_not_break_get_params(model: Any, message: str) -> None:
    assert model.get_params()
    assert repr(model)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


# ---- nested parameters


def test_nested_parameters_reach_defaults() -> None:
    model = ps.StreamClassifier().set_params(algorithm__scale="global")
    assert model.algorithm == ps.AutoFTRL(scale="global")
    assert ps.StreamClassifier().algorithm is None
    assert ps.StreamClassifier().get_params()["algorithm__scale"] == "auto"


def test_nested_parameters_reach_strings() -> None:
    model = ps.StreamRegressor("rda(gamma=2)", "huber(0.5)", "l1(0.1)")
    assert model.get_params()["penalty__lam"] == 0.1
    model.set_params(algorithm__gamma=3.0, loss__delta=2.0, penalty__lam=0.2)
    assert (model.algorithm, model.loss, model.penalty) == (ps.RDA(gamma=3.0), ps.losses.huber(delta=2.0), ps.L1(0.2))
    assert model.set_params(penalty="l2(1.0)", penalty__lam=0.5).penalty == ps.L2(0.5)


@pytest.mark.parametrize("penalty", ["l1(0.1) + nonnegative", ps.L1(0.1) + ps.NonNegative()])
def test_nested_parameters_reach_the_penalties_of_a_sum(penalty: Any) -> None:
    model = ps.StreamClassifier(penalty=penalty)
    assert model.get_params()["penalty__l1__lam"] == 0.1
    assert model.set_params(penalty__l1__lam=0.2).penalty == ps.L1(0.2) + ps.NonNegative()
    assert model.set_params(penalty__lam=0.3).penalty == ps.L1(0.3) + ps.NonNegative()
    if not isinstance(penalty, str):
        assert penalty == ps.L1(0.1) + ps.NonNegative()


def test_a_field_of_two_penalties_needs_the_name_of_one() -> None:
    model = ps.StreamClassifier(penalty=ps.L1(0.1) + ps.L2(0.2) + ps.L1(0.3))
    with pytest.raises(ValueError, match=r"Invalid parameter 'lam' .*'l1__lam', 'l2', 'l2__lam', 'l1_2', 'l1_2__lam'"):
        model.set_params(penalty__lam=0.5)
    assert model.set_params(penalty__l1_2__lam=0.5).penalty == ps.L1(0.1) + ps.L2(0.2) + ps.L1(0.5)


@pytest.mark.exhaustive
def test_grid_search_over_defaults_sums_and_strings() -> None:
    searches = [
        (ps.StreamClassifier(), {"algorithm__scale": ["feature", "global"]}),
        (ps.StreamClassifier(penalty="l1(1.0) + nonnegative"), {"penalty__l1__lam": [1.0, 0.001]}),
        (ps.StreamClassifier("rda(gamma=1e6)"), {"algorithm__gamma": [1e6, 1.0]}),
        (ps.StreamClassifier(), {"penalty": ["l1(10)", "l1(0.001)"], "algorithm": ["rda", "ftrl_proximal(0.5)"]}),
        (ps.CertifiedClassifier(), {"penalty__lam": [100.0, 0.01]}),
    ]
    for model, grid in searches:
        found = GridSearchCV(model, grid, cv=3, scoring="neg_log_loss").fit(X, Y)
        assert found.best_score_ > -0.6  # chance is -0.69
        for name, values in grid.items():
            assert found.best_params_[name] in values
        if len(grid) == 1 and "penalty" in next(iter(grid)):
            assert found.best_params_ == {name: values[-1] for name, values in grid.items()}
