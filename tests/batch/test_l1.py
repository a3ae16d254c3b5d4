"""The certified solver for l1 and l1 + l2: its optimum, its zeros, its proof."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.batch import Problem, Solution
from proxstream.batch.l1 import solve
from proxstream.core import losses
from proxstream.data.rowblock import as_block

from ..examples import examples
from . import naive_l1

pytestmark = pytest.mark.interpreted

LOSSES = (losses.logistic, losses.squared, losses.squared_hinge, losses.huber(0.7), losses.poisson)
LOSSES += (losses.gamma, losses.tweedie(1.4))
PER_FEATURE = np.array([0.05, 0.0, 0.02, 0.01, 0.1, 0.03, 0.0, 0.04, 0.02, 0.05, 0.01, 0.02])
PENALTIES = {
    "l1": (0.03, 0.0),
    "elastic net": (0.02, 0.05),
    "a strength a feature": (PER_FEATURE, 0.0),
    "both a feature": (PER_FEATURE, PER_FEATURE[::-1].copy()),
}


def labels(loss: losses.Loss, score: Any, rng: np.random.Generator) -> Any:
    if loss.kind == "binary":
        return np.where(score + 0.5 * rng.standard_normal(len(score)) > 0.0, 1.0, -1.0)
    if loss.link == "log":
        return rng.poisson(np.exp(np.clip(score, -3.0, 3.0))) + float(loss.name == "gamma")
    return score + rng.standard_normal(len(score))


def data(loss: losses.Loss, n: int = 80, d: int = 12, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    return X, labels(loss, X[:, :4] @ np.array([1.0, -1.0, 0.5, 0.3]) + 0.4, rng)


def penalty(l1: Any, l2: Any) -> ps.Penalty:
    return ps.ElasticNet(l1, l2) if np.any(l2) else ps.L1(l1)


def run(X: Any, y: Any, loss: losses.Loss, l1: Any, l2: Any = 0.0, **options: Any) -> Solution:
    problem = Problem(
        as_block(X, y, options.pop("c", None)),
        X.shape[1],
        loss,
        penalty(l1, l2),
        fit_intercept=options.pop("intercept", False),
    )
    return solve(problem, **{"tol": 1e-9, "max_epochs": 300, **options})


def joined(solution: Solution, intercept: bool) -> Any:
    return np.append(solution.coef, solution.intercept) if intercept else solution.coef


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_optimum_and_zeros_are_those_of_a_slow_and_precise_solver(
    loss: losses.Loss, name: str, intercept: bool
) -> None:
    X, y = data(loss)
    case = naive_l1.case(X, y, loss, *PENALTIES[name], intercept=intercept)
    best = naive_l1.minimize(case)
    assert case.distance(best) < 1e-10
    solution = run(X, y, loss, *PENALTIES[name], intercept=intercept)
    w = joined(solution, intercept)
    assert solution.converged
    assert solution.primal == pytest.approx(case.objective(w), rel=1e-13)
    assert case.objective(w) == pytest.approx(case.objective(best), rel=1e-8)
    assert np.array_equal(w != 0.0, best != 0.0)
    assert solution.dual <= case.objective(best) + 1e-13 * abs(case.objective(best))


def test_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

    X, y = data(losses.squared)
    lasso = Lasso(0.05, tol=1e-12, max_iter=10**5).fit(X, y)
    ours = run(X, y, losses.squared, 0.05, intercept=True)
    assert ours.coef == pytest.approx(lasso.coef_, abs=1e-5)
    assert ours.intercept == pytest.approx(lasso.intercept_, abs=1e-5)

    net = ElasticNet(0.1, l1_ratio=0.3, tol=1e-12, max_iter=10**5).fit(X, y)
    ours = run(X, y, losses.squared, 0.03, 0.07, intercept=True)
    assert ours.coef == pytest.approx(net.coef_, abs=1e-5)

    X, y = data(losses.logistic)
    theirs = LogisticRegression(l1_ratio=1.0, C=1.0, solver="liblinear", fit_intercept=False, tol=1e-10).fit(X, y)
    ours = run(X, y, losses.logistic, 1.0 / len(y))
    assert ours.coef == pytest.approx(theirs.coef_[0], abs=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_alike_in_either_precision(dtype: Any) -> None:
    X, y = data(losses.logistic, n=200, d=40)
    X = X.astype(dtype)
    dense, sparse = (run(matrix, y, losses.logistic, 0.01, intercept=True) for matrix in (X, csr_array(X)))
    case = naive_l1.case(X, y, losses.logistic, 0.01, 0.0, intercept=True)
    assert np.array_equal(dense.coef, sparse.coef)
    assert dense.primal == pytest.approx(case.objective(naive_l1.minimize(case)), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_weight_counts_as_so_many_rows(loss: losses.Loss) -> None:
    X, y = data(loss)
    c = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    weighted = run(X, y, loss, 0.02, c=c, intercept=True)
    repeated = run(np.repeat(X, c.astype(int), axis=0), np.repeat(y, c.astype(int)), loss, 0.02, intercept=True)
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-9)
    assert weighted.coef == pytest.approx(repeated.coef, abs=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_start_at_the_solution_needs_no_steps(loss: losses.Loss) -> None:
    X, y = data(loss)
    first = run(X, y, loss, 0.02, intercept=True)
    second = run(X, y, loss, 0.02, intercept=True, start=first)
    assert second.converged
    assert len(second.history) == 1
    assert second.coef == pytest.approx(first.coef, abs=1e-8)


def test_a_start_at_another_strength_ends_at_the_same_optimum() -> None:
    X, y = data(losses.logistic)
    other = run(X, y, losses.logistic, 0.1, intercept=True)
    warm = run(X, y, losses.logistic, 0.01, intercept=True, start=other)
    cold = run(X, y, losses.logistic, 0.01, intercept=True)
    assert warm.primal == pytest.approx(cold.primal, rel=1e-9)


def test_a_strong_penalty_leaves_no_weights() -> None:
    X, y = data(losses.logistic)
    solution = run(X, y, losses.logistic, 10.0, intercept=True)
    assert solution.converged
    assert not solution.coef.any()
    assert solution.intercept == pytest.approx(np.log(np.sum(y > 0) / np.sum(y < 0)))


def test_history_ends_where_the_proof_is_good_enough() -> None:
    X, y = data(losses.logistic, n=200, d=40)
    solution = run(X, y, losses.logistic, 0.01, tol=1e-4)
    last = solution.history[-1]
    assert solution.converged
    assert 0.0 <= last.gap <= 1e-4 * last.primal
    assert all(record.gap > 1e-4 * record.primal for record in solution.history[:-1])
    assert [record.epoch for record in solution.history] == list(range(len(solution.history)))
    cut = run(X, y, losses.logistic, 0.01, tol=1e-9, max_epochs=1)
    assert not cut.converged
    assert len(cut.history) == 2


def test_alpha_proves_the_dual_value() -> None:
    from proxstream.batch.dual import dual_point

    X, y = data(losses.logistic)
    solution = run(X, y, losses.logistic, 0.02, intercept=True)
    problem = Problem(as_block(X, y), X.shape[1], losses.logistic, ps.L1(0.02))
    assert dual_point(problem, solution.alpha, search=False).value == pytest.approx(solution.dual, rel=1e-10)


@pytest.mark.parametrize("wrong", [losses.hinge, losses.quantile(0.3)], ids=str)
def test_refuses_a_loss_with_kinks(wrong: losses.Loss) -> None:
    X, y = data(losses.logistic)
    with pytest.raises(TypeError, match="the l1 solver takes smooth losses"):
        run(X, y, wrong, 0.1)


def test_refuses_a_penalty_with_other_parts() -> None:
    X, y = data(losses.logistic)
    problem = Problem(as_block(X, y), X.shape[1], losses.logistic, ps.L1(0.1) + ps.NonNegative())
    with pytest.raises(TypeError, match="penalty must be a sum of L1, L2 and ElasticNet"):
        solve(problem, tol=1e-4, max_epochs=10)


# -- data that breaks solvers ----------------------------------------------------------------------


@st.composite
def nasty(draw: st.DrawFn) -> tuple[Any, Any, losses.Loss, Any, Any, bool]:
    """Draw one-hot groups, duplicate, constant and empty columns, zero rows, columns of 1e6, separable labels."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n = draw(st.integers(4, 40))
    parts = [rng.standard_normal((n, draw(st.integers(1, 6))))]
    if draw(st.booleans()):
        parts.append(np.eye(4)[rng.integers(0, 4, n)])
    if draw(st.booleans()):
        parts.append(parts[0][:, :1])
    if draw(st.booleans()):
        parts.append(np.column_stack((np.ones(n), np.zeros(n))))
    if draw(st.booleans()):
        parts.append(1e6 * rng.standard_normal((n, 1)))
    X = np.hstack(parts)
    if draw(st.booleans()):
        X[rng.random(n) < 0.3] = 0.0
    loss = draw(st.sampled_from(LOSSES))
    score = 3.0 * X[:, 0]
    y = np.where(score > 0.0, 1.0, -1.0) if loss.kind == "binary" and draw(st.booleans()) else labels(loss, score, rng)
    l1 = rng.random(X.shape[1]) * 0.1 + 1e-3 if draw(st.booleans()) else 10.0 ** draw(st.integers(-4, -1))
    l2 = draw(st.sampled_from([0.0, 0.0, 0.01, 1.0]))
    return X, y, loss, l1, l2, draw(st.booleans())


@examples(150)
@given(nasty())
def test_no_weights_are_below_the_proved_bound(drawn: Any) -> None:
    X, y, loss, l1, l2, intercept = drawn
    case = naive_l1.case(X, y, loss, l1, l2, intercept=intercept)
    solution = run(X, y, loss, l1, l2, intercept=intercept, tol=1e-7, max_epochs=100)
    w = joined(solution, intercept)
    assert solution.primal == pytest.approx(case.objective(w), rel=1e-9, abs=1e-15)
    others = naive_l1.minimize(case, most=300)
    lowest = min(case.objective(w), case.objective(others))
    for record in solution.history:
        assert record.gap >= 0.0
        assert record.dual <= lowest + 1e-11 * abs(lowest)
    if solution.converged:
        assert case.objective(w) - case.objective(others) <= 1.0001e-7 * abs(case.objective(w))


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("loss", [losses.logistic, losses.squared], ids=str)
def test_threads_prove_the_same_optimum_with_the_same_bits_each_time(loss: losses.Loss) -> None:
    X, y = data(loss, n=150, d=200)
    one = run(X, y, loss, 0.03, intercept=True)
    two, again = (run(X, y, loss, 0.03, intercept=True, n_threads=2) for _ in range(2))
    assert two.converged
    assert np.array_equal(two.coef, again.coef)
    assert two.coef == pytest.approx(one.coef, abs=1e-5)
    assert two.primal == pytest.approx(one.primal, rel=1e-9)
