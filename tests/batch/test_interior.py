"""The interior-point method: its view of losses, its optimum against a quadratic program of scipy, its proofs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array, random_array

from proxstream import L2
from proxstream.batch import Problem
from proxstream.batch.newton import interior
from proxstream.core import losses
from proxstream.data.rowblock import as_block

from ..examples import examples

KINKED = ["hinge", "absolute", "quantile(0.8)", "epsilon_insensitive(0.3)"]


def problem_of(name: str, n: int = 60, d: int = 5, lam: Any = 0.01, seed: int = 0, **settings: Any) -> Problem:
    rng = np.random.default_rng(seed)
    loss = losses.get(name)
    X = csr_array(random_array((n, d), density=0.6, rng=rng, data_sampler=rng.standard_normal))
    y = X @ rng.normal(size=d) + 0.5 + 0.5 * rng.normal(size=n)
    y = np.where(y > 0.0, 1.0, -1.0) if loss.kind == "binary" else y
    return Problem(as_block(X, y, settings.pop("c", None)), d, loss, L2(lam), **settings)


def best(problem: Problem) -> float:
    """The least P as a quadratic program in (w, b, t), t the loss of a row, solved by SLSQP."""
    rows, d, n = problem.rows, problem.n_features, problem.rows.n_rows
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(n, d)).toarray()
    X = np.column_stack([X, np.full(n, float(problem.fit_intercept))])
    lam = np.append(np.broadcast_to(problem.penalty.lam, d), 0.0)  # type: ignore[attr-defined]
    # phi(z) = max of its pieces a z + c: the slopes far out on both sides, and 0 where the loss has a floor.
    pieces = []
    for far in (-1e6, 1e6):
        a = problem.loss.slope(np.full(n, far), rows.y)
        pieces.append((a, problem.loss.value(np.full(n, far), rows.y) - a * far))
    pieces.append((np.zeros(n), np.zeros(n)))
    G = np.concatenate([np.column_stack([-a[:, None] * X, np.eye(n)]) for a, _ in pieces])
    h = np.concatenate([c for _, c in pieces])

    def value_and_slope(x: Any) -> Any:
        w, t = x[: d + 1], x[d + 1 :]
        return 0.5 * lam @ w**2 + problem.shares @ t, np.concatenate([lam * w, problem.shares])

    start = np.concatenate([np.zeros(d + 1), problem.loss.value(np.zeros(n), rows.y) + 0.1])
    found = minimize(
        value_and_slope,
        start,
        jac=True,
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": lambda x: G @ x - h, "jac": lambda x: G}],
        options={"maxiter": 500, "ftol": 1e-13},
    )
    w = found.x[: d + 1]
    return float(problem.shares @ problem.loss.value(X @ w, rows.y) + 0.5 * lam @ w**2)


@pytest.mark.parametrize("name", KINKED)
def test_sides_are_the_loss(name: str) -> None:
    loss, rng = losses.get(name), np.random.default_rng(0)
    z = rng.normal(0.0, 2.0, 50)
    y = rng.choice([-1.0, 1.0], 50) if loss.kind == "binary" else rng.normal(size=50)
    sides = loss.sides(y)
    gain = sides.c - sides.sigma * z
    beta = np.where(gain > 0.0, sides.h, 0.0)  # the best of a linear function between bounds is at one of them
    np.testing.assert_allclose((beta * gain).sum(axis=0) - sides.o * (y - z), loss.value(z, y), atol=1e-12)
    np.testing.assert_allclose(-((sides.sigma * beta).sum(axis=0) - sides.o), loss.slope(z, y), atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", KINKED)
def test_optimum_is_scipys(name: str, fit_intercept: bool) -> None:
    problem = problem_of(name, fit_intercept=fit_intercept)
    solution = interior.solve(problem, tol=1e-8)
    optimum = best(problem)
    assert solution.converged
    assert solution.primal == pytest.approx(optimum, rel=1e-6)
    assert solution.primal <= optimum * (1.0 + 1e-7)
    assert solution.dual <= optimum * (1.0 + 1e-9)
    assert solution.primal == pytest.approx(problem.primal(solution.coef, solution.intercept), rel=1e-12)


def test_weights_are_duplicates_and_strengths_differ() -> None:
    rng = np.random.default_rng(4)
    c = rng.integers(0, 3, 60).astype(float)
    weighted = problem_of("hinge", lam=10.0 ** rng.uniform(-4, 0, 5), c=c)
    rows, copies = weighted.rows, np.repeat(np.arange(60), c.astype(int))
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(60, 5))
    repeated = Problem(as_block(X[copies], rows.y[copies]), 5, weighted.loss, weighted.penalty)
    one, other = interior.solve(weighted, tol=1e-9), interior.solve(repeated, tol=1e-9)
    assert one.primal == pytest.approx(other.primal, rel=1e-8)
    assert one.primal == pytest.approx(best(repeated), rel=1e-6)


@examples(25)
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-7, 1e-3, 1.0]), name=st.sampled_from(KINKED))
def test_every_gap_in_the_history_is_valid(seed: int, lam: float, name: str) -> None:
    problem = problem_of(name, 40, 4, lam, seed)
    solution = interior.solve(problem, tol=1e-7)
    assert solution.converged
    for record in solution.history:
        assert record.dual <= solution.primal * (1.0 + 1e-12)
        assert record.gap >= record.primal - solution.primal - 1e-12


def test_a_warm_start_at_the_solution_stays_there() -> None:
    problem = problem_of("hinge")
    solution = interior.solve(problem, tol=1e-6)
    again = interior.solve(problem, tol=1e-6, start=solution)
    assert again.converged
    assert len(again.history) == 1


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_extreme_data_have_a_valid_gap(scale: float) -> None:
    """A constant column, an empty one, a huge or tiny one, rows of zeros, and a separable problem."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    X[:, 1], X[:, 2], X[:10] = 1.0, 0.0, 0.0
    X[:, 3] *= scale
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    for lam in (1e-8, 1e-2):
        solution = interior.solve(Problem(as_block(X, y), 5, losses.hinge, L2(lam)), tol=1e-5)
        assert solution.converged
        assert abs(solution.coef[2]) < 1e-9


def test_labels_of_any_size() -> None:
    small, large = problem_of("absolute", lam=1e-3), problem_of("absolute", lam=1e-3 * 1e-6)
    large = Problem(large.rows._replace(y=1e6 * large.rows.y + 1e8), 5, large.loss, large.penalty)
    one, other = interior.solve(small, tol=1e-7), interior.solve(large, tol=1e-7)
    assert other.converged
    assert other.primal == pytest.approx(1e6 * one.primal, rel=1e-5)
