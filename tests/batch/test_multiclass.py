"""Multiclass Prox-SDCA: its step, its optimum and its certificate, against independent solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import random_array
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from proxstream.batch import Problem, Solution
from proxstream.batch.sdca import _multiclass as kernel, multiclass
from proxstream.core import losses
from proxstream.core.losses import _kernels as components
from proxstream.core.penalties import L1, L2, Box, ElasticNet, GroupL2, Penalty
from proxstream.data.rowblock import as_block

from ..examples import examples

Matrix = NDArray[np.float64]
PENALTIES = [L2(0.05), ElasticNet(0.02, 0.05), L2(0.05) + GroupL2(0.03), ElasticNet(0.01, 0.05) + GroupL2(0.03)]


def rows(seed: int, n: int = 60, d: int = 5, k: int = 3) -> tuple[Matrix, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(k, d))[y], y


def problem(seed: int, loss: str, penalty: Penalty, *, intercept: bool = True, c: Any = None, **size: int) -> Problem:
    X, y = rows(seed, **size)
    return Problem(as_block(X, y, c), X.shape[1], losses.get(loss), penalty, intercept, int(y.max()) + 1)


def descend(stated: Problem, steps: int = 20_000) -> float:
    """The optimum of softmax by proximal gradient steps with momentum (FISTA, restarted), in plain NumPy."""
    X = np.zeros((stated.rows.n_rows, stated.n_features))
    for i in range(len(X)):
        part = slice(stated.rows.indptr[i], stated.rows.indptr[i + 1])
        X[i, stated.rows.indices[part]] = stated.rows.data[part]
    Z = np.hstack([X, np.ones((len(X), 1))]) if stated.fit_intercept else X
    L = 0.5 * np.linalg.norm(Z * np.sqrt(stated.shares)[:, None], 2) ** 2
    at = np.zeros((Z.shape[1], stated.n_outputs))
    ahead, t = at.copy(), 1.0
    for _ in range(steps):
        g = Z.T @ (stated.shares[:, None] * stated.loss.slope(Z @ ahead, stated.labels))
        new = ahead - g / L
        new[: stated.n_features] = stated.penalty.solve(-L * new[: stated.n_features], L)
        if np.sum((ahead - new) * (new - at)) > 0.0:
            t = 1.0
        faster = 0.5 + np.sqrt(0.25 + t * t)
        ahead, at, t = new + (t - 1.0) / faster * (new - at), new, faster
    return stated.primal(at[: stated.n_features], at[stated.n_features] if stated.fit_intercept else 0.0)


# ---- the step ------------------------------------------------------------------------------------


@st.composite
def steps(draw: Any) -> tuple[Matrix, int, float, Matrix]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(st.integers(2, 8))
    p = rng.normal(size=k) * 10.0 ** draw(st.integers(-3, 3))
    old = rng.dirichlet(np.full(k, draw(st.sampled_from([0.05, 1.0]))))
    if draw(st.booleans()):
        old = np.eye(k)[rng.integers(k)]
    return p, int(rng.integers(k)), draw(st.sampled_from([0.0, 1e-8, 1e-2, 0.3, 1.0, 30.0, 1e4])), old


@pytest.mark.interpreted
@examples(200)
@given(steps(), st.sampled_from(["softmax", "multiclass_hinge"]))
def test_a_step_of_a_row_is_the_dual_step_of_its_loss(case: Any, name: str) -> None:
    p, y, c, old = case
    loss = losses.get(name)
    k = len(p)
    data = kernel.Rows(np.array([0, 1]), np.array([0]), np.array([1.0]), np.array([y]), np.array([1.0]), np.array([c]))
    beta = old[None].copy()
    dual = kernel.Dual(beta, p[None].copy(), np.zeros(k), np.zeros(k), 0.0)
    lacked = kernel.sweep(components.as_tuple(loss), kernel.Ridge(1.0), data, dual, np.array([0]))
    expected = np.eye(k)[y] + loss.implicit_step(p - c * (np.eye(k)[y] - old), y, c)
    np.testing.assert_allclose(beta[0], expected, atol=1e-9 if c < 1e3 else 1e-7)
    assert beta.min() >= 0.0
    assert abs(beta.sum() - 1.0) < 1e-12
    alpha = np.eye(k)[y] - old
    alpha[y] = -(alpha.sum() - alpha[y])
    lack = loss.value(p, y) + loss.conjugate(-alpha, y) + p @ alpha
    assert lacked == pytest.approx(lack, abs=1e-11 * (1.0 + abs(p).max()))
    np.testing.assert_allclose(dual.v[0], p + (old - beta[0]), atol=1e-12 * (1.0 + abs(p).max()))


@examples(100)
@given(steps())
def test_the_fallback_finds_the_same_softmax_step(case: Any) -> None:
    p, y, c, old = case
    new = np.empty(len(p))
    kernel.climb(p, c, old, new)
    expected = np.eye(len(p))[y] + losses.softmax.implicit_step(p - c * (np.eye(len(p))[y] - old), y, c)
    np.testing.assert_allclose(new / new.sum(), expected, atol=1e-9 if c < 1e3 else 1e-7)


@pytest.mark.parametrize("penalty", [*PENALTIES, L2(np.array([0.1, 2.0])), L1(np.array([0.5, 0.1])) + L2(0.3)])
def test_weights_are_those_of_the_penalty(penalty: Penalty) -> None:
    rng = np.random.default_rng(3)
    v = rng.normal(size=(2, 3)) * 0.1
    stated = Problem(as_block(np.eye(2), [0, 1]), 2, losses.softmax, penalty, False, 3)
    component, _ = multiclass._component(stated)
    w = np.zeros((2, 3))
    kernel.weights(component, v, w)
    np.testing.assert_allclose(w, penalty.solve(-v, 0.0), atol=1e-14)


@pytest.mark.default_cases(2)
@pytest.mark.parametrize("name", ["softmax", "multiclass_hinge"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_dual_never_falls(name: str, penalty: Penalty) -> None:
    stated = problem(5, name, penalty, intercept=False)
    ascent = multiclass._Ascent(stated, None, 1, accelerate=False)
    rng = np.random.default_rng(0)
    _, dual = ascent.certify()
    for _ in range(10):
        ascent.sweep(rng.permutation(60))
        before, (_, dual) = dual, ascent.certify()
        assert dual >= before - 1e-14
    assert dual > 0.0


# ---- the optimum ---------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
def test_softmax_is_scikit_learns_multinomial_logistic_regression(intercept: bool) -> None:
    X, y = rows(1)
    c = np.random.default_rng(2).uniform(0.0, 2.0, len(y)) * (np.arange(len(y)) % 7 > 0)
    stated = Problem(as_block(X, y, c), 5, losses.softmax, L2(0.05), intercept, 3)
    found = multiclass.solve(stated, tol=1e-12)
    other = LogisticRegression(C=1.0 / (0.05 * c.sum()), fit_intercept=intercept, tol=1e-10, max_iter=10_000)
    other.fit(X, y, sample_weight=c)
    assert found.converged
    np.testing.assert_allclose(found.coef.T, other.coef_, atol=1e-6)
    if intercept:
        np.testing.assert_allclose(found.intercept, other.intercept_ - other.intercept_.mean(), atol=1e-6)


def test_hinge_is_liblinears_crammer_singer() -> None:
    X, y = rows(2)
    stated = Problem(as_block(X, y), 5, losses.multiclass_hinge, L2(0.2), False, 3)
    found = multiclass.solve(stated, tol=1e-11, max_epochs=20_000)
    other = LinearSVC(multi_class="crammer_singer", C=1.0 / (0.2 * len(y)), fit_intercept=False, tol=1e-12)
    other.set_params(max_iter=10**6).fit(X, y)
    assert found.converged
    np.testing.assert_allclose(found.coef.T, other.coef_, atol=1e-6)


@pytest.mark.default_cases(2)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("intercept", [False, True])
def test_softmax_with_sparse_penalties_reaches_what_proximal_gradient_does(penalty: Penalty, intercept: bool) -> None:
    stated = problem(3, "softmax", penalty, intercept=intercept)
    found = multiclass.solve(stated, tol=1e-10)
    assert found.converged
    assert found.primal == pytest.approx(descend(stated, 4000), rel=1e-9)
    assert found.primal == pytest.approx(stated.primal(found.coef, found.intercept), rel=1e-14)


def test_hinge_with_intercept_is_the_quadratic_program() -> None:
    X, y = rows(4, n=18, d=2)
    stated = Problem(as_block(X, y), 2, losses.multiclass_hinge, L2(0.3), True, 3)
    found = multiclass.solve(stated, tol=1e-8, max_epochs=20_000)
    assert found.converged
    # Variables: weights (2 x 3), intercepts (3), a slack a row, each >= every one of the row's margins.
    A = np.zeros((18 * 3, 27))
    for i in range(18):
        for j in range(3):
            for sign, a in ((1.0, j), (-1.0, y[i])):
                A[3 * i + j, [a, 3 + a]] += sign * X[i]
                A[3 * i + j, 6 + a] += sign
            A[3 * i + j, 9 + i] = -1.0
    margin = np.array([1.0 if j != y[i] else 0.0 for i in range(18) for j in range(3)])
    gradient = np.r_[np.zeros(9), np.full(18, 1.0 / 18)]
    program = minimize(
        lambda x: 0.15 * x[:6] @ x[:6] + gradient @ x,
        np.r_[np.zeros(9), np.full(18, 2.0)],
        jac=lambda x: np.r_[0.3 * x[:6], np.zeros(21)] + gradient,
        constraints={"type": "ineq", "fun": lambda x: -(A @ x) - margin, "jac": lambda x: -A},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert program.success
    assert found.primal == pytest.approx(program.fun, rel=1e-7)
    np.testing.assert_allclose(found.coef, program.x[:6].reshape(2, 3), atol=1e-3)


@pytest.mark.parametrize("name", ["softmax", "multiclass_hinge"])
def test_row_groups_zero_complete_features(name: str) -> None:
    found = multiclass.solve(problem(3, name, L2(0.05) + GroupL2(0.2), d=12), tol=1e-4)
    zero = found.coef == 0.0
    assert 0 < zero.all(axis=1).sum() < 12
    assert (zero.any(axis=1) == zero.all(axis=1)).all()


def test_momentum_saves_passes() -> None:
    stated = problem(3, "softmax", L2(1e-3))
    slow, fast = (multiclass.solve(stated, tol=1e-4, max_epochs=5000, accelerate=on) for on in (False, True))
    assert fast.converged
    assert fast.history[-1].epoch < 0.5 * slow.history[-1].epoch


# ---- the certificate -----------------------------------------------------------------------------


@examples(40)
@given(st.integers(0, 10**6), st.sampled_from(["softmax", "multiclass_hinge"]), st.booleans(), st.integers(0, 4))
def test_the_gap_is_never_below_the_true_distance(seed: int, name: str, intercept: bool, epochs: int) -> None:
    penalty = PENALTIES[seed % len(PENALTIES)]
    stated = problem(seed % 50, name, penalty, intercept=intercept, n=20)
    early = multiclass.solve(stated, tol=1e-14, max_epochs=epochs, seed=seed)
    late = multiclass.solve(stated, tol=1e-5, max_epochs=3000)
    for record in early.history:
        assert record.gap >= 0.0
        assert record.dual <= late.primal * (1.0 + 1e-12)
        assert record.gap >= record.primal - late.primal - 1e-12
    assert stated.primal(early.coef, early.intercept) == pytest.approx(early.primal, rel=1e-13)


@pytest.mark.parametrize("name", ["softmax", "multiclass_hinge"])
def test_intercepts_only_get_better(name: str) -> None:
    stated = problem(9, name, L2(0.1))
    rng = np.random.default_rng(0)
    for _ in range(20):
        z, b = 3.0 * rng.normal(size=(60, 3)), 3.0 * rng.normal(size=3)
        found = multiclass.best_intercept(stated, z, b)
        before, after = (stated.shares @ stated.loss.value(z + at, stated.labels) for at in (b, found))
        assert after <= before + 1e-15


def test_medians_find_the_best_intercept_of_two_classes() -> None:
    stated = problem(9, "multiclass_hinge", L2(0.1), k=2)
    z = 3.0 * np.random.default_rng(1).normal(size=(60, 2))
    b = multiclass.best_intercept(stated, z, np.zeros(2))
    grid = np.linspace(-10.0, 10.0, 20_001)
    best = min(stated.shares @ stated.loss.value(z + np.array([t, -t]), stated.labels) for t in grid)
    assert stated.shares @ stated.loss.value(z + b, stated.labels) <= best + 1e-3


# ---- the ways in ---------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits_and_another_the_same_optimum() -> None:
    stated = problem(6, "softmax", PENALTIES[1])
    first, second, third = (multiclass.solve(stated, tol=1e-9, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.coef, second.coef)
    np.testing.assert_allclose(first.coef, third.coef, atol=1e-4)


def test_a_solution_is_a_start_that_needs_no_more_passes() -> None:
    stated = problem(6, "softmax", PENALTIES[1])
    found = multiclass.solve(stated, tol=1e-8)
    again = multiclass.solve(stated, tol=1e-8, start=found)
    assert [record.epoch for record in again.history] == [0]
    weights_alone = Solution(found.coef, found.intercept, np.empty(0), [], False)
    near = multiclass.solve(stated, tol=1e-5, start=weights_alone)
    assert len(near.history) == 1


@pytest.mark.parametrize("name", ["softmax", "multiclass_hinge"])
def test_threads_end_with_the_same_proof(name: str) -> None:
    X = random_array((400, 50), density=0.1, rng=np.random.default_rng(0), format="csr")
    y = np.asarray((X @ np.random.default_rng(1).normal(size=(50, 4))).argmax(axis=1))
    stated = Problem(as_block(X, y), 50, losses.get(name), L2(0.01), True, 4)
    one = multiclass.solve(stated, tol=1e-5, max_epochs=2000)
    two = multiclass.solve(stated, tol=1e-5, max_epochs=2000, n_threads=2)
    assert two.converged
    assert two.dual <= one.primal
    assert one.dual <= two.primal
    assert two.primal == pytest.approx(stated.primal(two.coef, two.intercept), rel=1e-13)


@pytest.mark.interpreted
def test_rows_of_zeros_and_of_weight_zero_and_narrow_floats() -> None:
    X, y = rows(8)
    X[3], X[:, 2] = 0.0, 0.0
    c = np.ones(60)
    c[:10] = 0.0
    stated = Problem(as_block(X, y, c), 5, losses.softmax, PENALTIES[1], True, 3)
    found = multiclass.solve(stated, tol=1e-10)
    assert found.converged
    assert not found.coef[2].any()
    without = Problem(as_block(X[10:], y[10:]), 5, losses.softmax, PENALTIES[1], True, 3)
    np.testing.assert_allclose(multiclass.solve(without, tol=1e-10).coef, found.coef, atol=1e-5)
    narrow = Problem(as_block(X.astype(np.float32), y, c), 5, losses.softmax, PENALTIES[1], True, 3)
    np.testing.assert_allclose(multiclass.solve(narrow, tol=1e-10).coef, found.coef, atol=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "multiclass_hinge"])
def test_features_of_huge_scale_have_a_valid_gap(loss: str) -> None:
    X, y = rows(8)
    stated = Problem(as_block(X * [1.0, 1e6, 1.0, 1e-6, 1.0], y), 5, losses.get(loss), L2(0.1), True, 3)
    found = multiclass.solve(stated, tol=1e-6, max_epochs=50)
    assert np.isfinite(found.coef).all()
    assert found.history[-1].gap >= 0.0
    assert found.dual <= found.primal


@pytest.mark.parametrize(
    ("penalty", "error", "message"),
    [
        (L1(0.1), ValueError, r"strongly convex penalty: add L2 with a strength > 0 to L1\(lam=0.1\)"),
        (GroupL2(0.1), ValueError, "strongly convex"),
        (L2(0.1) + Box(-1.0, 1.0), TypeError, "takes the penalties L2, alone or with L1 and GroupL2"),
        (L2(0.1) + GroupL2(0.1, groups=[0, 0, 1, 1, 1]), TypeError, "takes the penalties"),
        (L2(np.ones((5, 3))), TypeError, "one strength or one per feature"),
        (L2(np.ones(4)), ValueError, "must have shape"),
    ],
)
def test_unsupported_penalties_are_named(penalty: Penalty, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        multiclass.solve(problem(0, "softmax", penalty))


def test_other_losses_and_tolerances_are_named() -> None:
    with pytest.raises(TypeError, match="takes the losses softmax and multiclass_hinge, got hinge"):
        multiclass.solve(problem(0, "hinge", L2(0.1)))
    with pytest.raises(ValueError, match="tol must be a finite number > 0, got 0"):
        multiclass.solve(problem(0, "softmax", L2(0.1)), tol=0.0)
