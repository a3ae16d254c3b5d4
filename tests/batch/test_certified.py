"""CertifiedClassifier and CertifiedRegressor: the right solver, the optimum of other libraries, a true proof."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as SklearnElasticNet, Lasso, LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import proxstream as ps
from proxstream import L1, L2, ElasticNet, NonNegative, NoPenalty
from proxstream.batch import Problem, dispatch as certified
from proxstream.batch.dispatch import choose
from proxstream.core import losses
from proxstream.data.rowblock import as_block

pytestmark = pytest.mark.interpreted

# Two problems that are the same in other words have the same solution, but what a solver gives back differs by as much
# as its tolerance allows: scikit-learn compares to seven digits.
MODELS = [ps.CertifiedClassifier(tol=1e-12), ps.CertifiedRegressor(tol=1e-12)]


@pytest.mark.default_cases(40)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(MODELS)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


# -- which solver ----------------------------------------------------------------------------------

WIDE = 3000


def problem_of(name: str, penalty: ps.penalties.Penalty, d: int = 4, n: int = 10) -> Problem:
    """Rows of length 2: kappa = 4 L / (n mu)."""
    X = np.zeros((n, d))
    X[np.arange(n), np.arange(n) % d] = 2.0
    loss = losses.get(name)
    y = np.arange(n) % 3 if loss.kind == "multiclass" else np.where(np.arange(n) % 2, 1.0, -1.0)
    y = np.abs(y) if name == "poisson" else y
    return Problem(as_block(X, y), d, loss, penalty, True, 3 if loss.kind == "multiclass" else 1)


@pytest.mark.parametrize(
    ("name", "penalty", "d", "room"),
    [
        ("logistic", L2(0.051), 4, "sdca"),  # kappa = 0.1 / 0.051
        ("logistic", L2(0.049), 4, "newton"),
        ("logistic", L2(0.049), WIDE, "sdca"),
        ("logistic", L2(0.0039), WIDE, "newton"),
        ("poisson", L2(1e3), 4, "newton"),  # no bound on how it bends
        ("logistic", L1(10.0), 4, "l1"),
        ("squared", ElasticNet(1.0, 1e3), 4, "l1"),
        ("squared", L1(1.0) + L2(1.0), 4, "l1"),
        ("hinge", L2(0.134), 4, "sdca"),  # kappa = 0.4 / 0.134
        ("hinge", L2(0.132), 4, "interior"),
        ("hinge", L2(1e-6), WIDE, "sdca"),
        ("absolute", ElasticNet(1.0, 1e-6), 4, "interior"),
        ("absolute", ElasticNet(1.0, 1e-6), WIDE, "sdca"),
        ("hinge", L1(1.0), 4, "interior"),
        ("hinge", L1(1.0), WIDE, "interior"),
        ("perceptron", L2(1e-6), 4, "interior"),
        ("perceptron", L1(1.0), WIDE, "interior"),
        ("smoothed_hinge", L1(1.0), WIDE, "interior"),
        ("smoothed_hinge", ElasticNet(1.0, 1e-6), 4, "sdca"),
        ("smoothed_hinge", L2(1e-6), 4, "newton"),
        ("logistic", L2(1e-6) + NonNegative(), 4, "sdca"),
        ("softmax", L2(1.0), 4, "multiclass"),
        ("softmax", L2(0.001), 4, "newton"),
        ("softmax", L2(0.001) + L1(0.001), 4, "multiclass"),
        ("multiclass_hinge", L2(0.001), 4, "multiclass"),
    ],
)
def test_choice(name: str, penalty: ps.penalties.Penalty, d: int, room: str) -> None:
    assert choose(problem_of(name, penalty, d)) == room


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("logistic", NoPenalty()),
        ("logistic", L2([1.0, 0.0, 1.0, 1.0])),
        ("hinge", L1([1.0, 0.0, 1.0, 1.0])),
        ("logistic", L1(1.0) + NonNegative()),
    ],
)
def test_combinations_without_a_solver_are_refused(name: str, penalty: ps.penalties.Penalty) -> None:
    with pytest.raises(TypeError, match="no solver for loss"):
        certified.solve(problem_of(name, penalty))


def test_a_requested_solver_is_used_or_refused() -> None:
    assert choose(problem_of("logistic", L2(10.0)), "newton") == "newton"
    assert choose(problem_of("logistic", L2(1e-9)), "sdca") == "sdca"
    assert choose(problem_of("hinge", L2(10.0)), "newton") == "interior"
    with pytest.raises(TypeError, match="no solver for loss"):
        choose(problem_of("multiclass_hinge", L2(1.0)), "newton")
    with pytest.raises(ValueError, match="solver must be one of"):
        choose(problem_of("hinge", L2(1.0)), "simplex")
    own = losses.custom(lambda p, y: 0.5 * (p - y) ** 2, lambda p, y: p - y)
    with pytest.raises(TypeError, match="conjugate"):
        certified.solve(Problem(as_block(np.eye(2), [1.0, 2.0]), 2, own, L2(1.0)))


@pytest.mark.parametrize("name", ["logistic", "squared", "hinge", "epsilon_insensitive"])
@pytest.mark.parametrize("penalty", [L2(3.0), L2(1e-3), ElasticNet(1e-2, 1e-2)])
def test_all_solvers_reach_the_same_optimum(name: str, penalty: ps.penalties.Penalty) -> None:
    problem = problem_of(name, penalty)
    solutions = [certified.solve(problem, solver=solver, tol=1e-6, max_epochs=20_000) for solver in ("auto", "sdca")]
    assert all(solution.converged for solution in solutions)
    values = [problem.primal(solution.coef, solution.intercept) for solution in solutions]
    assert values[0] == pytest.approx(values[1], rel=2e-6)
    assert max(solution.dual for solution in solutions) <= min(values) * (1.0 + 1e-12)


# -- estimators ------------------------------------------------------------------------------------


def blobs(n: int = 150, d: int = 6, classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.argmax(X @ rng.normal(size=(d, classes)) + rng.gumbel(size=(n, classes)), axis=1)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.01, 10.0])
def test_logistic_regression_is_scikit_learns(C: float, fit_intercept: bool) -> None:
    X, y = blobs()
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000, fit_intercept=fit_intercept).fit(X, y)
    penalty = L2(1.0 / (C * len(y)))
    model = ps.CertifiedClassifier(penalty=penalty, tol=1e-9, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    optimum = ps.certificate((theirs.coef_, theirs.intercept_), X, 2.0 * y - 1.0, "logistic", penalty).primal
    assert model.dual_ <= optimum * (1.0 + 1e-12)
    assert model.primal_ <= optimum * (1.0 + 1e-8)


@pytest.mark.parametrize(
    ("penalty", "theirs"),
    [
        (L2(0.1), Ridge(alpha=0.1 * 150, tol=1e-12)),
        (L1(0.1), Lasso(alpha=0.1, tol=1e-12, max_iter=10_000)),
        (ElasticNet(0.05, 0.05), SklearnElasticNet(alpha=0.1, l1_ratio=0.5, tol=1e-12, max_iter=10_000)),
    ],
)
def test_regressions_are_scikit_learns(penalty: ps.penalties.Penalty, theirs: Any) -> None:
    X, _ = blobs()
    y = X @ [3.0, -2.0, 0.0, 0.0, 0.1, 0.0] + 5.0 + np.random.default_rng(1).normal(size=150)
    theirs.fit(X, y)
    model = ps.CertifiedRegressor(penalty=penalty, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5)
    assert model.intercept_ == pytest.approx(theirs.intercept_, abs=1e-5)
    np.testing.assert_array_equal(model.coef_ == 0.0, theirs.coef_ == 0.0)


def test_poisson_regression_is_scikit_learns() -> None:
    X, _ = blobs()
    y = np.random.default_rng(1).poisson(np.exp(0.4 * X[:, 0] + 1.0))
    theirs = PoissonRegressor(alpha=0.01, tol=1e-10, max_iter=1000).fit(X, y)
    model = ps.CertifiedRegressor("poisson", L2(0.01), tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-4)


def test_support_vector_machine_is_scikit_learns() -> None:
    X, y = blobs()
    theirs = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(X, y)
    model = ps.CertifiedClassifier("hinge", L2(1.0 / len(y)), tol=1e-7, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("multi_class", ["auto", "one_vs_rest"])
def test_three_classes(multi_class: str) -> None:
    X, y = blobs(classes=3)
    names = np.array(["a", "b", "c"])[y]
    model = ps.CertifiedClassifier(penalty=L2(0.1), multi_class=multi_class, n_threads=2).fit(X, names)
    assert model.coef_.shape == (3, 6)
    assert 0.0 <= model.duality_gap_ <= 1e-4 * model.primal_
    assert model.score(X, names) > 0.6
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert ps.certificate(model, X, names).gap <= 2.0 * model.duality_gap_ + 1e-12


def test_class_weights_and_sample_weights_are_duplicates() -> None:
    X, y = blobs()
    twice = np.concatenate([np.arange(len(y)), np.flatnonzero(y == 1)])
    # A gap of 1e-12, the least that 64 bits prove, puts weights within sqrt(2 gap / l2), some 4e-6, of the optimum's.
    settings: dict[str, Any] = {"penalty": L2(0.1), "tol": 1e-12, "random_state": 0}
    repeated = ps.CertifiedClassifier(**settings).fit(X[twice], y[twice])
    for model in (
        ps.CertifiedClassifier(class_weight={0: 1.0, 1: 2.0}, **settings).fit(X, y),
        ps.CertifiedClassifier(**settings).fit(X, y, sample_weight=1.0 + y),
    ):
        np.testing.assert_allclose(model.coef_, repeated.coef_, atol=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_warm_start_at_the_optimum_stops_at_once(loss: str) -> None:
    X, y = blobs()
    model = ps.CertifiedClassifier(loss, L2(1e-3), tol=1e-6, warm_start=True).fit(X, y)
    steps = model.n_iter_
    assert model.fit(X, y).n_iter_ == 0 < steps
    model.set_params(penalty__lam=2e-3).fit(X, y)
    assert model.duality_gap_ <= 1e-6 * model.primal_


def test_a_fit_cut_short_warns() -> None:
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match=r"after 1 epochs with a relative duality gap of .* above tol=1e-08"):
        model = ps.CertifiedClassifier(penalty=L2(1e-6), tol=1e-8, max_epochs=1).fit(X, y)
    assert model.duality_gap_ == model.primal_ - model.dual_ > 1e-8


def test_bad_parameters_are_named() -> None:
    X, y = blobs()
    for parameters, message in (
        ({"solver": "lbfgs"}, "solver must be one of"),
        ({"tol": 0.0}, "tol must be a finite number > 0"),
        ({"max_epochs": 0}, "max_epochs must be an integer >= 1"),
        ({"n_threads": 0}, "n_threads must be an integer >= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            ps.CertifiedClassifier(**parameters).fit(X, y)
    with pytest.raises(TypeError, match="no solver for loss"):
        ps.CertifiedClassifier("hinge", L1(0.1) + NonNegative()).fit(X, y)


def test_a_feature_without_a_penalty_ends_without_a_slope() -> None:
    X, y = blobs()
    strengths = np.full(X.shape[1], 0.05)
    strengths[0] = 0.0
    model = ps.CertifiedClassifier(penalty=ps.L1(strengths), tol=1e-10).fit(X, y)
    probability = model.predict_proba(X)[:, 1]
    slopes = np.abs(X.T @ (probability - y)) / len(y)
    assert slopes[0] < 1e-6
    assert (slopes[1:] <= 0.05 + 1e-6).all()


def test_a_loss_without_an_l1_solver_uses_sdca() -> None:
    X, y = blobs()
    model = ps.CertifiedClassifier("smoothed_hinge", ps.ElasticNet(0.01, 0.1), tol=1e-6).fit(X, y)
    assert model.duality_gap_ <= 1e-6 * model.primal_
