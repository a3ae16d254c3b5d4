"""The lasso and the elastic net through Gram matrices: both kinds of working sets, their rounds and where they end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array, random_array
from sklearn.linear_model import ElasticNet

import proxstream as ps
from proxstream.batch import Problem, cost
from proxstream.batch.l1 import _csc as columns, gram, solve, squares, strengths
from proxstream.batch.newton.passes import Passes
from proxstream.batch.problem import Trace
from proxstream.data.rowblock import as_block

WIDE, NARROW = (300, 400), (300, 20)


def data(shape: tuple[int, int], seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = csr_array(random_array(shape, density=0.1, rng=rng, data_sampler=rng.standard_normal))
    return X, X[:, :6] @ np.array([3.0, -2.0, 1.0, 1.0, -1.0, 2.0]) + 0.3 * rng.standard_normal(shape[0]) + 1.0


def problem_of(X: Any, y: Any, l1: Any, l2: Any = 0.0, c: Any = None, intercept: bool = True) -> Problem:
    psi = ps.ElasticNet(l1, l2) if np.any(l2) else ps.L1(l1)
    return Problem(as_block(X, y, c), X.shape[1], ps.squared, psi, fit_intercept=intercept)


def rounds(problem: Problem, start: Any = None, max_epochs: int = 50, tol: float = 1e-10) -> Any:
    return squares.solve(problem, strengths(problem), Trace(tol), max_epochs, start, 1)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("l2", [0.0, 0.02])
@pytest.mark.parametrize("shape", [WIDE, NARROW])
def test_the_optimum_is_that_of_scikit_learn(shape: tuple[int, int], l2: float, intercept: bool) -> None:
    X, y = data(shape)
    c = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    solution, ended = rounds(problem_of(X, y, 0.02, l2, c, intercept))
    assert ended
    assert solution.converged
    model = ElasticNet(0.02 + l2, l1_ratio=0.02 / (0.02 + l2), tol=1e-12, max_iter=100_000, fit_intercept=intercept)
    model.fit(X.toarray(), y, sample_weight=c)
    assert_allclose(solution.coef, model.coef_, atol=1e-6)
    assert_allclose(solution.intercept, model.intercept_, atol=1e-6)
    assert np.array_equal(solution.coef != 0.0, np.abs(model.coef_) > 1e-7)
    assert 0.0 <= solution.history[-1].gap <= 1e-10 * solution.primal


def test_a_certificate_is_what_the_dual_point_proves() -> None:
    X, y = data(WIDE)
    problem = problem_of(X, y, 0.05)
    for epochs in (0, 1, 2):
        solution, _ = rounds(problem, max_epochs=epochs)
        alpha, p = solution.alpha, problem.shares
        v = X.T @ (p * alpha)
        assert abs(p @ alpha) < 1e-15
        assert np.abs(v).max() <= 0.05 * (1.0 + 1e-12)
        assert_allclose(solution.dual, p @ (alpha * y - 0.5 * alpha**2), rtol=1e-12)
        assert_allclose(solution.primal, problem.primal(solution.coef, solution.intercept), rtol=1e-12)


def test_which_gram_matrix_is_made() -> None:
    for shape, whole in ((NARROW, True), (WIDE, False)):
        with Passes(problem_of(*data(shape), 0.1)) as passes:
            assert squares.Whole.worth(passes) is whole


def test_a_start_is_used() -> None:
    X, y = data(WIDE)
    best, _ = rounds(problem_of(X, y, 0.02))
    again, ended = rounds(problem_of(X, y, 0.02), start=best)
    assert ended
    assert again.history[-1].epoch == 0
    near, ended = rounds(problem_of(X, y, 0.015), start=best)
    assert ended
    assert near.converged
    assert near.history[0].primal < rounds(problem_of(X, y, 0.015), max_epochs=0)[0].primal
    assert_allclose(near.coef, rounds(problem_of(X, y, 0.015))[0].coef, atol=1e-7)


def test_too_many_columns_are_left_to_the_other_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(WIDE)
    problem = problem_of(X, y, 0.01)
    right = solve(problem, tol=1e-9, max_epochs=200)
    monkeypatch.setattr(squares, "MOST_COLUMNS", 30)
    _, ended = rounds(problem)
    assert not ended
    other = solve(problem, tol=1e-9, max_epochs=200)
    assert other.converged
    assert [record.epoch for record in other.history] == list(range(len(other.history)))
    assert_allclose(other.coef, right.coef, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales_and_constant_columns_have_a_valid_gap(scale: float) -> None:
    X, y = data(NARROW)
    dense = np.column_stack([X.toarray(), np.ones(len(y)), np.zeros(len(y)), X[:, [0]].toarray()])
    dense[:, 3] *= scale
    dense[:, 4] += 1e4
    problem = problem_of(csr_array(dense), y, 0.02)
    solution = solve(problem, tol=1e-7, max_epochs=500)
    assert solution.converged
    assert_allclose(solution.primal, problem.primal(solution.coef, solution.intercept), rtol=1e-9)


def test_a_gram_matrix_grows_in_rows_or_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X = csr_array(random_array((500, 40), density=0.3, rng=np.random.default_rng(0)))
    c = np.random.default_rng(1).random(500)
    c[:50] = 0.0
    place = np.full(40, -1, np.int32)
    place[5:35] = np.arange(30, dtype=np.int32)
    rows = as_block(X)
    made = columns.pick(rows._replace(indices=rows.indices.view("u4")), place, 30)
    dense = X.toarray()[:, 5:35]
    order = np.random.default_rng(2).permutation(30)
    expected = (dense * c[:, None]).T @ dense
    for seconds, accuracy in ((0.0, 1e-5), (1.0, 1e-12)):
        monkeypatch.setattr(cost, "BLOCK_ENTRY", seconds)
        H = gram.extended(np.empty((0, 0)), made, order[:12], c)
        H = gram.extended(H, made, order, c)
        assert_allclose(H, expected[np.ix_(order, order)], rtol=accuracy)
