"""Newton's method under L2: each piece against what it stands for, whole solutions against scipy and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize as scipy_minimize
from scipy.sparse import csr_array, random_array

from proxstream import L2
from proxstream.batch import Problem, newton
from proxstream.batch.newton import _kernels as kernels, minimize
from proxstream.batch.newton.curvature import Diagonal, Factorized, direction, worth_factorizing
from proxstream.batch.newton.passes import Passes
from proxstream.core import losses
from proxstream.core.losses._kernels import as_tuple, taylor
from proxstream.data.rowblock import as_block

from ..examples import examples

pytestmark = pytest.mark.interpreted

SMOOTH = ["logistic", "squared", "squared_hinge", "smoothed_hinge(0.5)", "huber(0.7)", "poisson", "gamma"]
SMOOTH += ["tweedie(1.3)"]


def labels(loss: Any, scores: Any, rng: np.random.Generator) -> Any:
    if loss.kind == "binary":
        return np.where(scores + rng.logistic(size=len(scores)) > 0.0, 1.0, -1.0)
    if loss.link == "log":
        return rng.poisson(np.exp(np.clip(scores, -3.0, 3.0))) + float(loss.name == "gamma")
    return scores + rng.standard_t(3, size=len(scores))


def problem_of(
    name: str,
    shape: tuple[int, int] = (120, 6),
    lam: Any = 0.01,
    density: float = 0.5,
    dtype: Any = np.float64,
    seed: int = 0,
    **settings: Any,
) -> Problem:
    rng = np.random.default_rng(seed)
    loss = losses.get(name)
    X = csr_array(random_array(shape, density=density, rng=rng, data_sampler=rng.standard_normal), dtype=dtype)
    y = labels(loss, X @ rng.normal(size=shape[1]) * 0.7 + 0.4, rng)
    return Problem(as_block(X, y, settings.pop("c", None)), shape[1], loss, L2(lam), **settings)


def best(problem: Problem) -> float:
    """The least P that scipy finds: a general minimizer that knows values and slopes alone."""
    rows, d = problem.rows, problem.n_features
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, d)).toarray().astype(np.float64)
    X = np.column_stack([X, np.full(len(X), float(problem.fit_intercept))])
    lam = np.append(np.broadcast_to(problem.penalty.lam, d), 0.0)  # type: ignore[attr-defined]

    def value_and_slope(w: Any) -> Any:
        z = np.clip(X @ w, -100.0, 100.0)
        value = problem.shares @ problem.loss.value(z, rows.y) + 0.5 * lam @ w**2
        return value, X.T @ (problem.shares * problem.loss.slope(z, rows.y)) + lam * w

    w, options = np.zeros(d + 1), {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50}
    for _ in range(3):  # from where it stopped, with its memory cleared
        w = scipy_minimize(value_and_slope, w, jac=True, method="L-BFGS-B", options=options).x
    return float(value_and_slope(w)[0])


# -- pieces ----------------------------------------------------------------------------------------


def second_order(loss: Any, p: Any, y: Any) -> Any:
    return np.array([taylor(as_tuple(loss), float(a), float(b)) for a, b in zip(p, y, strict=True)]).T


@pytest.mark.parametrize("name", SMOOTH)
def test_second_order_is_value_slope_and_the_slopes_own_slope(name: str) -> None:
    loss = losses.get(name)
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.normal(0.0, 2.0, 200), [-40.0, -1.0, 0.0, 1.0, 40.0]])
    y = (
        rng.choice([-1.0, 1.0], len(p))
        if loss.kind == "binary"
        else rng.poisson(2.0, len(p)) + float(loss.name == "gamma")
    )
    value, slope, curvature = second_order(loss, p, y)
    np.testing.assert_allclose(value, loss.value(p, y), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(slope, loss.slope(p, y), rtol=1e-13, atol=1e-15)
    h = 1e-6
    left, right = (loss.slope(p + side, y) - loss.slope(p + side - h, y) for side in (0.0, h))
    low, high = np.minimum(left, right) / h, np.maximum(left, right) / h  # equal but where the slope has a kink
    slack = 1e-4 * (1.0 + np.abs(curvature))
    assert (curvature >= low - slack).all()
    assert (curvature <= high + slack).all()


def test_a_compiled_loop_over_many_rows_has_the_digits_of_the_logistic_loss() -> None:
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.normal(0.0, 5.0, 1200), [0.0, -0.0, 1e-300, 700.0, -700.0, 800.0, -1e4, np.inf, -np.inf]])
    y, p = rng.choice([-1.0, 1.0], len(z)), np.ones(len(z))
    s, D = np.empty(len(z)), np.empty(len(z))
    finite = np.isfinite(z)
    kernels.expand(as_tuple(losses.logistic), y, p, z, 0, len(z), s, D)
    np.testing.assert_allclose(s, losses.logistic.slope(z, y), rtol=2e-15, atol=1e-307)
    np.testing.assert_allclose(D, losses.logistic.curvature(z, y), rtol=4e-15, atol=1e-307)
    total = kernels.expand(as_tuple(losses.logistic), y[finite], p, z[finite], 0, int(finite.sum()), s, D)
    assert total == pytest.approx(float(np.sum(losses.logistic.value(z[finite], y[finite]))), rel=1e-13)
    kernels.expand(as_tuple(losses.logistic), y, p, np.full(1, np.nan), 0, 1, s, D)
    assert np.isnan([s[0], D[0]]).all()


def test_no_exponential_of_poisson_overflows() -> None:
    assert np.isposinf(second_order(losses.poisson, [1e3], [1.0])).all()


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_passes_are_products_with_the_matrix(fit_intercept: bool, n_threads: int) -> None:
    problem = problem_of("logistic", (50, 8), dtype=np.float32, fit_intercept=fit_intercept)
    rows, rng = problem.rows, np.random.default_rng(1)
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(50, 8)).toarray().astype(np.float64)
    X = np.column_stack([X, np.full(50, float(fit_intercept))])
    v, t, D = rng.normal(size=9), rng.normal(size=50), rng.random(50) * (rng.random(50) < 0.8)
    with Passes(problem, n_threads) as passes:
        np.testing.assert_allclose(passes.times(v), X @ v, atol=1e-12)
        np.testing.assert_allclose(passes.transposed(t), X.T @ t, atol=1e-12)
        np.testing.assert_allclose(passes.transposed_squares(t), (X * X).T @ t, atol=1e-12)
        Xv, Hv = passes.hessian_times(D, v)
        np.testing.assert_allclose(Xv, X @ v, atol=1e-12)
        np.testing.assert_allclose(Hv, X.T @ (D * (X @ v)), atol=1e-12)
        H = Factorized(passes, np.zeros(9))
        np.testing.assert_allclose(H._sparse(D), X.T @ (D[:, None] * X), atol=1e-12)
        np.testing.assert_allclose(H._dense(D), X.T @ (D[:, None] * X), atol=1e-5)
        loss, s, curvature = passes.expand(t)
        assert loss == pytest.approx(float(problem.shares @ problem.loss.value(t, rows.y)), rel=1e-13)
        np.testing.assert_allclose(s, problem.shares * problem.loss.slope(t, rows.y), rtol=1e-12)
        along = passes.along(t, Xv, 0.5)
        moved = problem.loss.slope(t + 0.5 * Xv, rows.y)
        assert along[1] == pytest.approx(float(problem.shares @ (moved * Xv)), rel=1e-12)
        assert passes.along(t, Xv, 0.0)[2] == pytest.approx(float(curvature @ Xv**2), rel=1e-12)


def test_gram_takes_indices_in_any_order() -> None:
    problem = problem_of("logistic", (1, 4), density=1.0)
    shuffled = problem.rows._replace(indices=np.array([2, 0, 3, 1], np.int32))
    with Passes(Problem(shuffled, 4, problem.loss, problem.penalty, False)) as passes:
        x = np.zeros(5)
        x[[2, 0, 3, 1]] = shuffled.data
        np.testing.assert_allclose(Factorized(passes, np.zeros(5))._sparse(np.ones(1)), np.outer(x, x), atol=1e-15)


@pytest.mark.parametrize("kind", [Diagonal, Factorized])
def test_direction_solves_newtons_equation(kind: Any) -> None:
    problem, rng = problem_of("logistic", (80, 12)), np.random.default_rng(2)
    with Passes(problem) as passes:
        at = newton._Newton(problem, passes, 1e-6)._expand(np.zeros(80))
        at = at._replace(D=rng.random(80) / 80.0)
        mu = np.append(np.full(12, 0.01), 0.0)
        M = kind(passes, mu)
        M.update(at.D, 0)
        d, t, iterations = direction(passes, M, at, mu, M.solve(-at.g), 1e-10, 0.0)
        H = Factorized(passes, mu)._sparse(at.D) + np.diag(mu)
        np.testing.assert_allclose(H @ d, -at.g, atol=1e-9)
        np.testing.assert_allclose(t, passes.times(d), atol=1e-12)
        assert iterations <= (2 if kind is Factorized else 40)


@given(
    centre=st.floats(1e-6, 1e6),
    side=st.sampled_from([1.0, -1.0]),
    power=st.sampled_from([2.0, 4.0]),
    first=st.sampled_from([None, 1.0, 1e-6, 1e6]),
)
def test_line_search_finds_the_bottom(centre: float, side: float, power: float, first: float | None) -> None:
    def f(x: float) -> Any:
        r = abs(x - centre)
        return np.array(
            [r**power, power * r ** (power - 1.0) * np.sign(x - centre), power * (power - 1.0) * r ** (power - 2.0)]
        )

    centre *= side
    start = f(0.0)
    if start[1] > 0.0:
        first = None  # a first step is for a direction that descends
    x = minimize(f, 1e-3, first)
    assert f(x)[0] <= start[0]
    assert abs(f(x)[1]) <= 1e-3 * abs(start[1])


def test_line_search_steps_back_from_infinity() -> None:
    def f(x: float) -> Any:
        return np.array([np.inf, np.inf, np.inf]) if x > 1e-3 else np.array([x * x - 1e-3 * x, 2.0 * x - 1e-3, 2.0])

    assert minimize(f, 1e-6, first=1.0) == pytest.approx(5e-4)


# -- solutions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", SMOOTH)
def test_optimum_is_scipys(name: str, fit_intercept: bool) -> None:
    problem = problem_of(name, fit_intercept=fit_intercept)
    solution = newton.solve(problem, tol=1e-8)
    optimum = best(problem)
    assert solution.converged
    assert solution.primal == pytest.approx(optimum, rel=1e-8)
    assert solution.dual <= optimum + 1e-10 * abs(optimum)
    assert solution.primal == pytest.approx(problem.primal(solution.coef, solution.intercept), rel=1e-12)


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_wide_data_strengths_of_each_feature_and_weights(name: str) -> None:
    rng = np.random.default_rng(5)
    strengths, c = 10.0 ** rng.uniform(-4, -1, 500), rng.integers(0, 4, 60).astype(float)
    problem = problem_of(name, (60, 500), strengths, density=0.05, c=c, seed=3)
    with Passes(problem) as passes:
        assert not worth_factorizing(passes)
    solution = newton.solve(problem, tol=1e-9)
    optimum = best(problem)
    assert solution.converged
    assert solution.primal == pytest.approx(optimum, rel=1e-7)
    assert solution.dual <= optimum + 1e-10 * abs(optimum)


def test_weights_are_duplicates() -> None:
    c = np.random.default_rng(0).integers(0, 3, 120).astype(float)
    weighted = problem_of("logistic", c=c)
    rows = weighted.rows
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(120, 6))
    copies = np.repeat(np.arange(120), c.astype(int))
    repeated = Problem(as_block(X[copies], rows.y[copies]), 6, weighted.loss, weighted.penalty)
    one, other = newton.solve(weighted, tol=1e-10), newton.solve(repeated, tol=1e-10)
    np.testing.assert_allclose(one.coef, other.coef, atol=1e-6)
    assert one.primal == pytest.approx(other.primal, rel=1e-9)


@examples(25)
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-6, 1e-3, 1.0]), fit_intercept=st.booleans())
def test_every_gap_in_the_history_is_valid(seed: int, lam: float, fit_intercept: bool) -> None:
    problem = problem_of("logistic", (40, 5), lam, seed=seed, fit_intercept=fit_intercept)
    solution = newton.solve(problem, tol=1e-7)
    assert solution.converged
    for record in solution.history:
        assert record.dual <= solution.primal
        assert record.gap >= record.primal - solution.primal >= -1e-12


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_warm_start_at_the_solution_stays_there(fit_intercept: bool) -> None:
    problem = problem_of("logistic", fit_intercept=fit_intercept)
    solution = newton.solve(problem, tol=1e-6)
    again = newton.solve(problem, tol=1e-6, start=solution)
    assert len(again.history) == 1
    assert again.converged


@pytest.mark.usefixtures("eager_threads")
def test_threads_find_the_same_optimum() -> None:
    problem = problem_of("logistic", (500, 20))
    one, two = newton.solve(problem, tol=1e-9), newton.solve(problem, tol=1e-9, n_threads=2)
    np.testing.assert_allclose(one.coef, two.coef, rtol=1e-6)
    assert two.converged


def test_max_epochs_ends_without_convergence() -> None:
    solution = newton.solve(problem_of("logistic"), tol=1e-12, max_epochs=2)
    assert not solution.converged
    assert [record.epoch for record in solution.history] == [0, 1, 2]
    assert np.isfinite(solution.history[-1].gap)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_extreme_data_have_a_valid_gap(scale: float, fit_intercept: bool) -> None:
    """A constant column, an empty one, a huge or tiny one, rows of zeros, and a separable problem."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    X[:, 1], X[:, 2], X[:10] = 1.0, 0.0, 0.0
    X[:, 3] *= scale
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    problem = Problem(as_block(X, y), 5, losses.logistic, L2(1e-8), fit_intercept)
    solution = newton.solve(problem, tol=1e-6)
    assert solution.converged
    assert solution.coef[2] == 0.0
    assert solution.dual <= solution.primal <= problem.primal(solution.coef * 1.001, solution.intercept)


def test_all_labels_far_away_for_huber() -> None:
    """Every residual is beyond delta at the start, where the loss does not bend at all."""
    X, w = np.random.default_rng(0).normal(size=(50, 3)), np.array([1e4, 2e4, 3e4])
    for fit_intercept in (True, False):
        y = X @ w + 1e6 * fit_intercept
        problem = Problem(as_block(X, y), 3, losses.huber, L2(1e-6), fit_intercept)
        solution = newton.solve(problem, tol=1e-6, max_epochs=20)
        assert solution.converged
        # The labels lie on a plane: w itself has no loss, and any gain over its penalty is smaller than that.
        assert (
            problem.primal(w, 1e6 * fit_intercept) * 0.999 <= solution.primal <= problem.primal(w, 1e6 * fit_intercept)
        )


@pytest.mark.parametrize("top", [200.0, 20_000.0])
def test_large_counts_converge(top: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = rng.poisson(top * np.exp(X[:, 0] - X[:, 1] - 2.0)).astype(float)
    problem = Problem(as_block(X, y), 5, losses.poisson, L2(1e-3))
    solution = newton.solve(problem, tol=1e-9)
    assert solution.converged
    assert solution.history[-1].epoch < 15
    with np.errstate(over="ignore"):
        b = minimize(lambda b: np.array([np.exp(b) - top * b, np.exp(b) - top, np.exp(b)]), 1e-14)
    assert b == pytest.approx(np.log(top), rel=1e-12)
