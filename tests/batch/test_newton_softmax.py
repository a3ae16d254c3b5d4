"""Newton's method for the softmax: passes against dense formulas, optimum against scipy and the binary solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array, random_array

from proxstream import L2
from proxstream.batch import Problem, newton
from proxstream.batch.newton.curvature import JointFactorized
from proxstream.batch.newton.passes import JointPasses
from proxstream.core import losses
from proxstream.data.rowblock import as_block


def problem_of(n: int = 80, d: int = 5, k: int = 4, lam: Any = 0.01, c: Any = None, **settings: Any) -> Problem:
    rng = np.random.default_rng(0)
    X = csr_array(random_array((n, d), density=0.5, rng=rng, data_sampler=rng.standard_normal))
    y = np.argmax(X @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k)), axis=1)
    return Problem(as_block(X, y, c), d, losses.softmax, L2(lam), n_outputs=k, **settings)


def dense(problem: Problem) -> Any:
    rows = problem.rows
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, problem.n_features)).toarray()
    return np.column_stack([X, np.full(len(X), float(problem.fit_intercept))])


def best(problem: Problem) -> float:
    X, k, d = dense(problem), problem.n_outputs, problem.n_features
    lam = np.zeros((d + 1, k))
    lam[:-1] = problem.penalty.terms(problem.shape).l2

    def value_and_slope(w: Any) -> Any:
        W = w.reshape(d + 1, k)
        value = problem.shares @ problem.loss.value(X @ W, problem.labels) + 0.5 * np.sum(lam * W * W)
        slope = X.T @ (problem.shares[:, None] * problem.loss.slope(X @ W, problem.labels)) + lam * W
        return value, slope.ravel()

    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10}
    return float(minimize(value_and_slope, np.zeros((d + 1) * k), jac=True, method="L-BFGS-B", options=options).fun)


@pytest.mark.interpreted
@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("n_threads", [1, 2])
def test_passes_are_the_dense_formulas(n_threads: int) -> None:
    problem, rng = problem_of(), np.random.default_rng(1)
    X, y = dense(problem), problem.labels
    V, Z = rng.normal(size=(6, 4)), rng.normal(size=(80, 4))
    with JointPasses(problem, n_threads) as passes:
        np.testing.assert_allclose(passes.times(V.ravel()), X @ V, atol=1e-12)
        np.testing.assert_allclose(passes.transposed(Z), (X.T @ Z).ravel(), atol=1e-12)
        loss, s, pi = passes.expand(Z)
        assert loss == pytest.approx(float(problem.shares @ problem.loss.value(Z, y)), rel=1e-13)
        np.testing.assert_allclose(s, problem.shares[:, None] * problem.loss.slope(Z, y), atol=1e-15)
        np.testing.assert_allclose(pi.sum(axis=1), 1.0)
        h = 1e-6  # the Hessian is the derivative of the gradient
        moved = [passes.transposed(passes.expand(X @ (t * V))[1]) for t in (h, -h)]
        t, product = passes.hessian_times(passes.expand(0.0 * Z)[2], V.ravel())
        np.testing.assert_allclose(t, X @ V, atol=1e-12)
        np.testing.assert_allclose(product, (moved[0] - moved[1]) / (2 * h), atol=1e-8)
        H = JointFactorized(passes, np.zeros(24)).hessian(pi)
        np.testing.assert_allclose(H @ V.ravel(), passes.hessian_times(pi, V.ravel())[1], atol=1e-12)
        np.testing.assert_allclose(H.diagonal(), passes.transposed_squares(pi), atol=1e-12)
        f = passes.along(Z, X @ V, 0.3)
        assert f[0] == pytest.approx(float(problem.shares @ problem.loss.value(Z + 0.3 * (X @ V), y)), rel=1e-13)
        assert f[1] == pytest.approx(float(np.sum(passes.expand(Z + 0.3 * (X @ V))[1] * (X @ V))), rel=1e-10)
        assert passes.along(Z, X @ V, 0.0)[2] == pytest.approx(float(V.ravel() @ H @ V.ravel()), rel=1e-10)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [1e-4, 0.1])
def test_optimum_is_scipys(lam: float, fit_intercept: bool) -> None:
    problem = problem_of(lam=lam, fit_intercept=fit_intercept)
    solution = newton.solve(problem, tol=1e-8)
    optimum = best(problem)
    assert solution.converged
    assert solution.primal == pytest.approx(optimum, rel=1e-7)
    assert solution.dual <= optimum * (1.0 + 1e-10)
    assert solution.primal == pytest.approx(problem.primal(solution.coef, solution.intercept), rel=1e-12)
    again = newton.solve(problem, tol=1e-8, start=solution)
    assert len(again.history) == 1


def test_wide_data_strengths_and_weights() -> None:
    rng = np.random.default_rng(2)
    c = rng.integers(0, 3, 50).astype(float)
    problem = problem_of(50, 300, 3, 10.0 ** rng.uniform(-3, -1, 300), c=c)
    solution = newton.solve(problem, tol=1e-8)
    assert solution.converged
    assert solution.primal == pytest.approx(best(problem), rel=1e-6)


def test_two_classes_are_the_logistic_loss() -> None:
    """Weights of two classes differ by a vector u, and w = u/2, -u/2 costs half of what u does."""
    two = problem_of(k=2, lam=0.02)
    rows = two.rows._replace(y=2.0 * two.labels - 1.0)
    one = Problem(rows, two.n_features, losses.logistic, L2(0.01))
    joint, single = newton.solve(two, tol=1e-10), newton.solve(one, tol=1e-10)
    assert joint.primal == pytest.approx(single.primal, rel=1e-9)
    np.testing.assert_allclose(joint.coef[:, 1] - joint.coef[:, 0], single.coef, atol=1e-5)
    assert joint.intercept[1] - joint.intercept[0] == pytest.approx(single.intercept, abs=1e-5)
