"""Losses with kinks under L1: a linear program, whose optimum HiGHS knows too."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, random_array, vstack

import proxstream as ps
from proxstream import L1, L2, ElasticNet
from proxstream.batch import Problem, dispatch, dual_point
from proxstream.batch.newton import interior
from proxstream.batch.sdca import solve as sdca
from proxstream.core import losses
from proxstream.data.rowblock import as_block

from ..examples import examples

KINKED = ["hinge", "absolute", "quantile(0.8)", "epsilon_insensitive(0.3)"]


def problem_of(
    name: str, penalty: Any, n: int = 80, d: int = 12, seed: int = 0, density: float = 0.6, **settings: Any
) -> Problem:
    rng = np.random.default_rng(seed)
    loss = losses.get(name)
    X = csr_array(random_array((n, d), density=density, rng=rng, data_sampler=rng.standard_normal))
    y = X[:, :4] @ rng.normal(size=4) + 0.5 + 0.5 * rng.normal(size=n)
    y = np.where(y > 0.0, 1.0, -1.0) if loss.kind == "binary" else y
    return Problem(as_block(X, y, settings.pop("c", None)), d, loss, penalty, **settings)


def least(problem: Problem) -> float:
    """Return the least P."""
    return linear_program(problem)[0]


def linear_program(problem: Problem) -> tuple[float, Any]:
    """Return the least P and its weights, by a linear program in (w+, w-, b, t).

    t is the loss of a row; its pieces follow from slopes far out.
    """
    rows, d, n = problem.rows, problem.n_features, problem.rows.n_rows
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(n, d))
    far = np.full(n, 1e6)
    pieces = [(problem.loss.slope(z, rows.y), problem.loss.value(z, rows.y), z) for z in (-far, far)]
    lines = [(a, value - a * z) for a, value, z in pieces] + [(np.zeros(n), np.zeros(n))]
    above = [hstack([X * a[:, None], X * -a[:, None], csr_array(a[:, None]), -eye_array(n)]) for a, _ in lines]
    strengths = np.broadcast_to(problem.penalty.terms((d,)).l1, d)
    found = linprog(
        np.concatenate([strengths, strengths, [0.0], problem.shares]),
        A_ub=vstack(above),
        b_ub=np.concatenate([-c for _, c in lines]),
        bounds=[(0.0, None)] * (2 * d) + [(None, None) if problem.fit_intercept else (0.0, 0.0)] + [(None, None)] * n,
        method="highs",
    )
    assert found.success
    return float(found.fun), found.x[:d] - found.x[d : 2 * d]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("lam", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("name", KINKED)
def test_the_optimum_is_that_of_the_linear_program(name: str, lam: float, intercept: bool) -> None:
    problem = problem_of(name, L1(lam), fit_intercept=intercept)
    found = interior.solve(problem, tol=1e-6)
    best = least(problem)
    assert found.converged
    assert found.primal == pytest.approx(problem.primal(found.coef, found.intercept), rel=1e-12)
    assert best * (1.0 - 1e-9) <= found.primal <= best * (1.0 + 1e-6)
    assert best * (1.0 - 2e-6) <= found.dual <= best * (1.0 + 1e-9)


@examples(40)
@given(
    name=st.sampled_from(KINKED),
    lam=st.sampled_from([0.2, 0.03, 0.003]),
    seed=st.integers(0, 1000),
    n=st.integers(3, 40),
    d=st.integers(1, 30),
    intercept=st.booleans(),
    weighted=st.booleans(),
    scale=st.sampled_from([1.0, 100.0, 0.01]),
)
def test_a_proof_of_1e_4_holds_on_any_small_problem(
    name: str, lam: float, seed: int, n: int, d: int, intercept: bool, weighted: bool, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    c = rng.integers(1, 4, size=n).astype(float) if weighted else None
    problem = problem_of(name, L1(lam * scale), n, max(d, 4), seed, fit_intercept=intercept, c=c)
    problem.rows.data[:] *= scale
    found = dispatch.solve(problem, tol=1e-4)
    best = least(problem)
    assert found.converged
    assert best * (1.0 - 1e-9) - 1e-12 <= found.primal <= best * (1.0 + 1.1e-4) + 1e-12
    assert found.dual <= best * (1.0 + 1e-9) + 1e-12


def test_strengths_may_differ_and_some_weights_have_l2_alone() -> None:
    l1, l2 = np.full(12, 0.02), np.full(12, 0.05)
    l1[:3], l2[6:] = 0.0, 0.0
    problem = problem_of("hinge", L1(l1) + L2(l2))
    found = interior.solve(problem, tol=1e-7)
    assert found.converged
    assert found.primal == pytest.approx(problem.primal(found.coef, found.intercept), rel=1e-12)
    assert dual_point(problem, found.alpha).value >= (1.0 - 1e-6) * found.primal
    assert np.count_nonzero(found.coef[:3]) == 3
    assert np.count_nonzero(found.coef[3:]) < 9


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("name", KINKED)
def test_the_elastic_net_agrees_with_dual_coordinate_ascent(name: str) -> None:
    problem = problem_of(name, ElasticNet(0.01, 0.05))
    found = interior.solve(problem, tol=1e-9)
    other = sdca(problem, tol=1e-9, max_epochs=5000)
    assert found.converged
    np.testing.assert_allclose(found.coef, other.coef, atol=1e-4)
    assert found.primal == pytest.approx(other.primal, rel=2e-9)


def test_weights_that_the_penalty_removes_are_exactly_zero() -> None:
    for name in KINKED:
        problem = problem_of(name, L1(0.02), n=200, d=40, density=1.0)
        found = interior.solve(problem, tol=1e-8)
        np.testing.assert_array_equal(np.abs(linear_program(problem)[1]) > 1e-7, found.coef != 0.0)
        assert 0 < np.count_nonzero(found.coef) < 40
        assert not interior.solve(problem_of(name, L1(2.0)), tol=1e-4).coef.any()


@pytest.mark.parametrize("name", ["hinge", "quantile(0.8)"])
def test_wide_data_are_solved_on_a_working_set(name: str) -> None:
    problem = problem_of(name, L1(0.03), n=60, d=4000, density=0.05)
    assert dispatch.choose(problem) == "interior"
    found = dispatch.solve(problem, tol=1e-5)
    best = least(problem)
    assert found.converged
    assert best * (1.0 - 1e-9) <= found.primal <= best * (1.0 + 1e-5)
    assert found.dual <= best * (1.0 + 1e-9)
    assert 0 < np.count_nonzero(found.coef) <= 100


ROUNDED = ["smoothed_hinge(1.0)", "smoothed_hinge(0.1)", "smoothed_hinge(0.001)"]


def quadratic_program(problem: Problem) -> float:
    """Return the least P of a smoothed hinge to some 1e-9, by proximal gradient steps with momentum that restarts."""
    d, y, p = problem.n_features, problem.rows.y, problem.shares
    X = csr_array((problem.rows.data, problem.rows.indices, problem.rows.indptr), shape=(len(y), d)).toarray()
    X = np.column_stack((X, np.full(len(y), float(problem.fit_intercept))))
    lam = np.append(np.broadcast_to(problem.penalty.terms((d,)).l1, d), 0.0)
    size = 1.0 / (problem.loss.smoothness * np.linalg.norm(X * np.sqrt(p)[:, None], 2) ** 2)
    w, ahead, t = np.zeros(d + 1), np.zeros(d + 1), 1.0
    for _ in range(60_000):
        u = ahead - size * (X.T @ (p * problem.loss.slope(X @ ahead, y)))
        new = np.sign(u) * np.maximum(np.abs(u) - size * lam, 0.0)
        t = 1.0 if (ahead - new) @ (new - w) > 0.0 else 0.5 + np.sqrt(0.25 + t * t)
        if np.array_equal(new, w):
            break
        w, ahead = new, new + (t - 1.0) / (0.5 + np.sqrt(0.25 + t * t)) * (new - w)
    return problem.primal(w[:d], float(w[d]))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("lam", [0.1, 0.003])
@pytest.mark.parametrize("name", ROUNDED[:2])
def test_rounded_corners_are_solved_as_by_proximal_gradient(name: str, lam: float, intercept: bool) -> None:
    problem = problem_of(name, L1(lam), fit_intercept=intercept)
    found = dispatch.solve(problem, tol=1e-7)
    best = quadratic_program(problem)
    assert found.converged
    assert found.primal == pytest.approx(problem.primal(found.coef, found.intercept), rel=1e-12)
    assert found.primal <= best * (1.0 + 1e-7)
    assert found.dual <= best * (1.0 + 1e-12)


@examples(40)
@given(
    name=st.sampled_from(ROUNDED),
    lam=st.sampled_from([0.2, 0.03, 0.003]),
    seed=st.integers(0, 1000),
    n=st.integers(3, 40),
    d=st.integers(4, 30),
    intercept=st.booleans(),
    scale=st.sampled_from([1.0, 100.0, 0.01]),
)
def test_rounded_corners_are_proved_on_any_small_problem(
    name: str, lam: float, seed: int, n: int, d: int, intercept: bool, scale: float
) -> None:
    """Between those of the hinge's linear program, phi <= hinge <= phi + gamma / 2, is the optimum."""
    problem = problem_of(name, L1(lam * scale), n, d, seed, fit_intercept=intercept)
    problem.rows.data[:] *= scale
    found = dispatch.solve(problem, tol=1e-6)
    hinge = least(replace(problem, loss=losses.hinge))
    assert found.converged
    assert found.primal == pytest.approx(problem.primal(found.coef, found.intercept), rel=1e-12)
    assert hinge - 0.5 * problem.loss.gamma - 1e-9 <= found.primal <= hinge * (1.0 + 2e-6) + 1e-12


def test_wide_data_with_rounded_corners_are_solved_on_a_working_set() -> None:
    problem = problem_of("smoothed_hinge(0.01)", L1(0.03), n=60, d=4000, density=0.05)
    found = dispatch.solve(problem, tol=1e-5)
    assert found.converged
    assert 0 < np.count_nonzero(found.coef) <= 100


def test_the_optimum_of_the_perceptron_is_0() -> None:
    for intercept in (False, True):
        for d in (12, 4000):
            found = dispatch.solve(problem_of("perceptron", L1(0.01), d=d, fit_intercept=intercept), tol=1e-12)
            assert found.converged
            assert (found.primal, found.dual, found.intercept) == (0.0, 0.0, 0.0)
            assert not found.coef.any()


def test_a_start_that_is_a_solution_is_returned() -> None:
    problem = problem_of("hinge", L1(0.01))
    found = interior.solve(problem, tol=1e-6)
    again = interior.solve(problem, tol=1e-5, start=found)
    assert again.converged
    assert again.history[-1].epoch == 0


def test_estimators_take_kinks_under_l1() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 20))
    score = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svm = ps.CertifiedClassifier(loss="hinge", penalty=L1(0.02)).fit(X, score > 0.0)
        median = ps.CertifiedRegressor(loss="absolute", penalty=L1(0.05)).fit(X, score)
    for model in (svm, median):
        assert model.duality_gap_ <= 1e-4 * model.primal_
        assert 2 <= model.nnz_ < 20
    weights = svm.coef_[0], svm.intercept_[0]  # without the dual variables of the fit
    proof = ps.certificate(weights, X, np.where(score > 0.0, 1.0, -1.0), loss="hinge", penalty=L1(0.02))
    assert 0.0 <= proof.gap <= 1.1e-4 * proof.primal


def test_a_path_of_strengths_is_proved() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 10))
    y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=150)
    path = ps.regularization_path(X, y, loss="quantile(0.7)", penalty=L1(1.0), n_strengths=5)
    assert (path.gaps <= path.tol).all()
