"""Newton's method on sparse rows of few features: its passes against naive sums, whole solutions against others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.batch import Problem, Solution, l1, narrow, newton
from proxstream.batch.dual import dual_point
from proxstream.batch.problem import Trace
from proxstream.data.rowblock import as_block
from proxstream.data.threads import ALONE

ROWS, FEATURES = 8_000, 40


def problem_of(penalty: ps.Penalty, *, rare: bool = True, dtype: Any = np.float64, **settings: Any) -> Problem:
    """Rows of up to eight of 40 features of uneven frequency, with few positive labels."""
    rng = np.random.default_rng(1)
    share = (1.0 + np.arange(FEATURES)) ** -0.7
    indices = rng.choice(FEATURES, (ROWS, 8), p=share / share.sum())
    data = rng.choice([-1.0, 1.0, 2.0], indices.size)
    X = csr_array((data, indices.ravel(), np.arange(0, indices.size + 1, 8)), shape=(ROWS, FEATURES))
    X.sum_duplicates()
    X = X.astype(dtype)
    score = X @ rng.normal(0.0, 0.5, FEATURES) + rng.logistic(size=ROWS)
    y = np.where(score > np.quantile(score, 0.96 if rare else 0.5), 1.0, -1.0)
    return Problem(as_block(X, y, settings.pop("c", None)), FEATURES, ps.logistic, penalty, **settings)


def strengths(problem: Problem) -> tuple[Any, Any]:
    terms = problem.penalty.terms(problem.shape)
    return tuple(np.array(np.broadcast_to(term, problem.shape), np.float64) for term in (terms.l1, terms.l2))  # type: ignore[return-value]


def solved(problem: Problem, tol: float, start: Solution | None = None, threads: int = 1) -> Solution:
    """Solve by this method alone."""
    assert narrow.suits(problem, *strengths(problem))
    solution, ended = narrow.solve(problem, *strengths(problem), Trace(tol), 100, start, threads)
    assert ended
    assert solution.converged
    return solution


PENALTIES = [
    ps.L1(1e-4),
    ps.L1(2e-3),
    ps.L2(1e-4),
    ps.ElasticNet(5e-4, 1e-3),
    ps.L1(np.geomspace(1e-4, 1e-2, FEATURES)),
]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES, ids=["weak l1", "l1", "l2", "both", "one for each"])
def test_as_good_as_the_other_methods(penalty: ps.Penalty, intercept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(penalty, fit_intercept=intercept)
    found = solved(problem, 1e-8)
    monkeypatch.setattr(narrow, "suits", lambda *_: False)
    room = l1 if np.any(strengths(problem)[0]) else newton
    other = room.solve(problem, tol=1e-9, max_epochs=1000)
    assert found.primal == pytest.approx(problem.primal(found.coef, found.intercept), rel=1e-12)
    assert found.primal == pytest.approx(other.primal, rel=3e-8)
    assert found.dual <= other.primal * (1.0 + 1e-12)
    np.testing.assert_allclose(found.coef, other.coef, atol=2e-3)
    value = dual_point(problem, found.alpha, search=False).value
    assert value == pytest.approx(found.dual, abs=1e-9 * found.primal)


def test_as_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    problem = problem_of(ps.L2(1e-3), fit_intercept=True)
    rows = problem.rows
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(ROWS, FEATURES))
    other = LogisticRegression(C=1.0 / (1e-3 * ROWS), tol=1e-10, max_iter=1000).fit(X, rows.y)
    found = solved(problem, 1e-10)
    np.testing.assert_allclose(found.coef, other.coef_[0], atol=1e-4)
    assert found.intercept == pytest.approx(other.intercept_[0], abs=1e-4)


def test_optimal_by_definition() -> None:
    """At the optimum |G_j| = l1 for weights that are not 0, with their sign, and at most l1 for the others."""
    problem = problem_of(ps.L1(1e-3), fit_intercept=False)
    found = solved(problem, 1e-11)
    z = problem.scores(found.coef, 0.0)
    rows = problem.rows
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(ROWS, FEATURES))
    G = X.T @ (problem.shares * ps.logistic.slope(z, rows.y))
    on = found.coef != 0.0
    assert 0 < on.sum() < FEATURES
    np.testing.assert_allclose(G[on], -1e-3 * np.sign(found.coef[on]), atol=1e-6)
    assert np.all(np.abs(G[~on]) <= 1e-3 + 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("one", [0.0, 1.0])
def test_passes(dtype: Any, one: float) -> None:
    """Scores, slopes, gradient and Hessian are those of dense sums; rows whose D has changed little wait."""
    problem = problem_of(ps.L1(1e-3), dtype=dtype, fit_intercept=one > 0.0)
    rows = problem.rows._replace(indices=problem.rows.indices.view("u4"))
    psi = tuple(np.append(strength, 0.0) for strength in strengths(problem))
    steps = narrow._Steps(problem, rows, problem.shares, psi, ALONE)  # type: ignore[arg-type]
    X = csr_array((rows.data, rows.indices.view("i4"), rows.indptr), shape=(ROWS, FEATURES)).toarray()
    X = np.column_stack([X.astype(np.float64), np.full(ROWS, one)])
    rng = np.random.default_rng(2)
    w = np.append(rng.normal(0.0, 0.3, FEATURES), one * 0.7)
    at = steps.expand(w)
    z, p = X @ w, problem.shares
    np.testing.assert_allclose(at.z, z, atol=1e-12)
    np.testing.assert_allclose(at.s, p * ps.logistic.slope(z, rows.y), rtol=1e-10)
    assert pytest.approx(problem.primal(w[:-1], w[-1]), rel=1e-12) == at.P
    D = p * ps.logistic.curvature(z, rows.y)
    np.testing.assert_allclose(steps.gather(at), X.T @ at.s, atol=1e-12)
    np.testing.assert_allclose(steps.hessian(), X.T @ (D[:, None] * X), rtol=1e-9, atol=1e-14)
    nearby = steps.expand(w + rng.normal(0.0, 0.1, FEATURES + 1) * np.append(np.ones(FEATURES), one))
    steps.gather(nearby)
    lagged = np.where(np.abs(nearby.D - D) > narrow.CHANGED * D, nearby.D, D)
    assert 0 < np.count_nonzero(lagged != D) < ROWS
    np.testing.assert_allclose(steps.hessian(), X.T @ (lagged[:, None] * X), rtol=1e-9, atol=1e-14)


def test_sample_keeps_a_rare_class_and_the_weight_of_each() -> None:
    c = np.random.default_rng(3).uniform(0.5, 2.0, ROWS)
    problem = problem_of(ps.L1(1e-3), c=c)
    chosen, shares = narrow._sample(problem)  # type: ignore[misc]
    y, p = problem.rows.y, problem.shares
    assert len(chosen) < ROWS / 2
    assert set(np.flatnonzero(y > 0.0)) <= set(chosen)
    for label in (-1.0, 1.0):
        assert shares[y[chosen] == label].sum() == pytest.approx(p[y == label].sum())
    few, own = narrow._taken(problem.rows, chosen, shares)
    assert own is shares
    X = csr_array((problem.rows.data, problem.rows.indices, problem.rows.indptr), shape=(ROWS, FEATURES))
    taken = csr_array((few.data, few.indices, few.indptr), shape=(len(chosen), FEATURES))
    assert (taken != X[chosen]).nnz == 0


def test_a_start_and_no_epochs() -> None:
    problem = problem_of(ps.L1(1e-3))
    first = solved(problem, 1e-6)
    again = solved(problem, 1e-6, start=first)
    assert len(again.history) <= 2
    none = l1.solve(problem, tol=1e-6, max_epochs=0)
    assert not none.converged
    assert not none.coef.any()
    assert none.dual <= first.primal


def test_bits_depend_on_the_problem_alone() -> None:
    problem = problem_of(ps.L1(1e-3))
    one, two = solved(problem, 1e-7), solved(problem, 1e-7)
    assert np.array_equal(one.coef, two.coef)
    assert one.dual == two.dual
    threads = solved(problem, 1e-7, threads=2)
    assert threads.primal == pytest.approx(one.primal, rel=1e-6)


def test_rows_without_weight_count_for_nothing() -> None:
    c = np.ones(ROWS)
    c[::3] = 0.0
    problem = problem_of(ps.L1(1e-3), c=c)
    found = solved(problem, 1e-7)
    rows, on = problem.rows, np.flatnonzero(c)
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(ROWS, FEATURES))[on]
    fewer = Problem(as_block(X, rows.y[on]), FEATURES, ps.logistic, problem.penalty)
    other = l1.solve(fewer, tol=1e-9, max_epochs=1000)
    assert found.primal == pytest.approx(other.primal, rel=2e-7)


def test_what_steps_cannot_prove_is_left_to_the_other_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "MOST_STEPS", 1)
    for penalty, room in ((ps.L1(1e-3), l1), (ps.L2(1e-3), newton)):
        problem = problem_of(penalty)
        _, ended = narrow.solve(problem, *strengths(problem), Trace(1e-9), 100, None, 1)
        assert not ended
        found = room.solve(problem, tol=1e-9, max_epochs=100)
        assert found.converged
        assert found.history[-1].gap <= 1e-9 * found.primal


@pytest.mark.parametrize("balanced", [False, True])
def test_naive(balanced: bool) -> None:
    problem = problem_of(ps.L1(3e-3), rare=not balanced, fit_intercept=False)
    assert solved(problem, 1e-9).primal <= naive_l1_value(problem) * (1.0 + 1e-7)


def naive_l1_value(problem: Problem) -> float:
    """The lowest P that proximal gradients find in a thousand accelerated steps."""
    rows = problem.rows
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(ROWS, FEATURES)).toarray()
    lam, step = 3e-3, 4.0 / np.linalg.norm(X, 2) ** 2 * ROWS
    w = v = np.zeros(FEATURES)
    t = 1.0
    for _ in range(1000):
        u = v - step * (X.T @ (problem.shares * ps.logistic.slope(X @ v, rows.y)))
        new = np.sign(u) * np.maximum(np.abs(u) - step * lam, 0.0)
        t, last = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t)), t
        w, v = new, new + (last - 1.0) / t * (new - w)
    return problem.primal(w, 0.0)
