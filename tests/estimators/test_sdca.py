"""SDCAClassifier and SDCARegressor: conventions, classes and weights, and what they say when they fall short."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import estimator_checks_generator

import proxstream as ps

pytestmark = pytest.mark.interpreted

# The tol is below what rounding lets be proved and never reached.
PRECISE = {"penalty": ps.L2(1.0), "tol": 1e-14, "max_epochs": 200}
MODELS = [ps.SDCAClassifier(**PRECISE), ps.SDCARegressor(**PRECISE)]


def checks() -> Iterator[tuple[Any, Any]]:
    """Return scikit-learn's checks, but for those of row weights.

    They compare models to 1e-7, which is more than a gap of a few roundings proves of weights:
    `test_rows_of_weight_c_are_c_rows` has the bound that it does prove.
    """
    for model in MODELS:
        for estimator, check in estimator_checks_generator(model):
            if "sample_weight_equivalence" not in check.func.__name__:
                yield pytest.param(estimator, check, id=f"{estimator!r}-{check.func.__name__}")


@pytest.mark.default_cases(40)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), [*checks()])
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


rng = np.random.default_rng(0)
N, D = 150, 5
X = rng.normal(size=(N, D))
SCORE = X @ np.array([1.0, -1.0, 0.5, 0.0, 0.0]) + 0.4 + 0.7 * rng.normal(size=N)
TWO = np.where(SCORE > 0.0, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(SCORE, [-0.5, 0.8])]


def test_two_classes_against_scikit_learn() -> None:
    lam = 0.02
    model = ps.SDCAClassifier(penalty=ps.L2(lam), tol=1e-10, random_state=0).fit(X, TWO)
    other = LogisticRegression(C=1.0 / (lam * N), tol=1e-12, max_iter=1000).fit(X, TWO)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, other.intercept_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-5)
    assert model.dual_coef_.shape == (N,)
    assert model.nnz_ == D


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("model", "y"), [(MODELS[0], TWO), (MODELS[1], SCORE)], ids=["classes", "numbers"])
@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_rows_of_weight_c_are_c_rows(model: Any, y: Any, storage: Any) -> None:
    """The objective is l2-strongly convex: weights are within sqrt(2 gap / l2) of the optimum, which both share."""
    c = np.random.default_rng(1).integers(0, 4, N)
    weighted = clone(model).fit(storage(X), y, sample_weight=c)
    repeated = clone(model).fit(storage(np.repeat(X, c, axis=0)), np.repeat(y, c))
    gaps = np.array([weighted.duality_gap_, repeated.duality_gap_])
    assert gaps.max() < 1e-11
    assert np.linalg.norm(weighted.coef_ - repeated.coef_) <= np.sqrt(2.0 * gaps).sum() + 1e-12
    assert weighted.primal_ == pytest.approx(repeated.primal_, rel=1e-11)


def test_sparse_dense_and_32_bits_agree() -> None:
    model = ps.SDCAClassifier(penalty=ps.L2(0.05), tol=1e-9, random_state=0)
    dense, sparse, single = (clone(model).fit(data, TWO).coef_ for data in (X, csr_array(X), X.astype(np.float32)))
    np.testing.assert_array_equal(dense, sparse)
    np.testing.assert_allclose(dense, single, atol=1e-4)
    assert single.dtype == np.float64


@pytest.mark.default_cases(1)
@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("n_threads", [1, 2])
def test_one_class_against_the_rest(n_threads: int) -> None:
    model = ps.SDCAClassifier("squared_hinge", penalty=ps.L2(0.1), tol=1e-6, n_threads=n_threads, random_state=0)
    model.fit(X, THREE)
    assert model.coef_.shape == (3, D)
    assert model.dual_coef_.shape == (N, 3)
    assert model.duality_gap_ <= 1e-6 * model.primal_
    for k, name in enumerate(model.classes_):
        alone = ps.SDCAClassifier("squared_hinge", penalty=ps.L2(0.1), tol=1e-6, random_state=0)
        alone.fit(X, np.where(name == THREE, 1, -1))
        np.testing.assert_allclose(alone.coef_[0], model.coef_[k], atol=1e-3)
    proof = ps.certificate(model, X, THREE)
    assert proof.primal == pytest.approx(model.primal_, rel=1e-10)
    probabilities = ps.SDCAClassifier(penalty=ps.L2(0.1), multi_class="one_vs_rest").fit(X, THREE).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_many_classes_are_solved_together_and_take_option_i_alone() -> None:
    model = ps.SDCAClassifier(penalty=ps.L2(0.05), tol=1e-9).fit(X, THREE)
    other = LogisticRegression(C=1.0 / (0.05 * N), tol=1e-12, max_iter=1000).fit(X, THREE)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-3)
    with pytest.raises(TypeError, match="softmax is solved with option='I'"):
        ps.SDCAClassifier(option="II").fit(X, THREE)


def test_class_weights_are_weights_of_rows() -> None:
    weighted = ps.SDCAClassifier(penalty=ps.L2(0.05), tol=1e-10, class_weight={"no": 2.0, "yes": 0.5}).fit(X, TWO)
    same = ps.SDCAClassifier(penalty=ps.L2(0.05), tol=1e-10)
    same.fit(X, TWO, sample_weight=np.where(TWO == "no", 2.0, 0.5))
    np.testing.assert_allclose(weighted.coef_, same.coef_, atol=1e-4)


def test_falling_short_is_told_with_the_gap_and_what_to_change() -> None:
    with pytest.warns(
        ConvergenceWarning, match=r"after 2 epochs .* gap of .*, above tol=1e-08: raise max_epochs or tol"
    ):
        model = ps.SDCARegressor(penalty=ps.L2(1e-3), tol=1e-8, max_epochs=2).fit(X, SCORE)
    assert model.n_iter_ == 2
    assert model.duality_gap_ == model.primal_ - model.dual_ > 0.0


def test_warm_start_goes_on() -> None:
    model = ps.SDCAClassifier(penalty=ps.L2(0.02), tol=1e-9, warm_start=True, random_state=0).fit(X, TWO)
    before = model.n_iter_
    assert model.fit(X, TWO).n_iter_ < before
    model.fit(X[:50], TWO[:50])  # another size: from the start
    assert model.dual_coef_.shape == (50,)


def test_poisson_predicts_means() -> None:
    counts = np.round(np.exp(0.5 * SCORE))
    model = ps.SDCARegressor("poisson", penalty=ps.L2(0.01), tol=1e-8).fit(X, counts)
    assert model.predict(X).mean() == pytest.approx(counts.mean(), rel=1e-3)  # as the intercept sees to
    with pytest.raises(ValueError, match="label y of poisson"):
        ps.SDCARegressor("poisson").fit(X, SCORE)


def test_parts_have_parameters_and_models_survive_pickling() -> None:
    model = ps.SDCARegressor(penalty=ps.ElasticNet(0.1, 0.2), tol=1e-6).set_params(penalty__l1=0.3).fit(X, SCORE)
    assert model.penalty == ps.ElasticNet(0.3, 0.2)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert issparse(again.sparsify().coef_)
    np.testing.assert_allclose(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.densify().coef_, model.coef_)


def value(p: float, y: float) -> float:
    return (p - y) ** 2


def slope(p: float, y: float) -> float:
    return 2.0 * (p - y)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (ps.SDCARegressor(tol=0.0), ValueError, "tol must be a finite number > 0, got 0.0"),
        (ps.SDCARegressor(tol=-1.0), ValueError, "tol must be a finite number > 0, got -1.0"),
        (ps.SDCARegressor(max_epochs=0), ValueError, "max_epochs must be an integer >= 1"),
        (ps.SDCARegressor(fit_intercept=1), TypeError, "fit_intercept must be True or False"),
        (ps.SDCARegressor("hinge"), ValueError, "the loss of SDCARegressor must be one of"),
        (ps.SDCARegressor(ps.losses.custom(value, slope)), TypeError, "has no conjugate"),
        (ps.SDCARegressor("absolute", option="V"), TypeError, "option 'V' is for smooth losses"),
        (ps.SDCARegressor(option="VI"), ValueError, "option must be one of 'I'"),
        (ps.SDCARegressor(penalty=2.0), TypeError, "penalty must be None, one of"),
        (ps.SDCARegressor(penalty="ridge"), ValueError, "penalty must be one of none, l1, l2"),
        (ps.SDCARegressor(penalty=None), TypeError, "needs a strongly convex penalty"),
        (ps.SDCARegressor(penalty=ps.NoPenalty()), TypeError, "needs a strongly convex penalty"),
        (ps.SDCARegressor(penalty=ps.L2([1.0, 2.0])), ValueError, "lam must have shape"),
    ],
)
def test_refusals_are_named_and_leave_no_trace(model: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        model.fit(X, SCORE)
    assert not hasattr(model, "coef_")
