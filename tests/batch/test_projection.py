"""Dual points by projection: always valid, and far closer to the optimum than scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

from proxstream.batch.projection import Dual, Preconditioner, project
from proxstream.core import losses

from ..examples import examples
from . import naive_l1
from .test_l1 import LOSSES, data, labels


def slopes(case: naive_l1.Case, w: Any) -> tuple[Any, Any]:
    """Return p_i phi' and p_i phi'' at the weights."""
    z = case.X @ w
    return case.p * case.loss.slope(z, case.y), case.p * case.loss.curvature(z, case.y)


def dual_value(case: naive_l1.Case, theta: Any) -> float:
    """Return the dual objective by its definition, -inf outside of its domain (up to rounding of the constraints)."""
    G, bent = np.abs(case.X.T @ theta), case.l2 > 0.0
    allowed = case.l1 + 1e-13 * np.abs(case.X).T @ np.abs(theta)
    if np.any(~bent & (allowed < G)):
        return -np.inf
    on = case.p > 0.0
    beyond = np.maximum(G - case.l1, 0.0)[bent] ** 2 / (2.0 * case.l2[bent])
    inward = theta[on] / case.p[on] * (1.0 - 4e-16)
    return -float(case.p[on] @ case.loss.conjugate(inward, case.y[on])) - float(beyond.sum())


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw any loss and penalty, duplicate, constant and empty columns, weights of rows, and weights to start from."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    loss, n = draw(st.sampled_from(LOSSES)), draw(st.integers(3, 30))
    X = rng.standard_normal((n, draw(st.integers(1, 12)))) * (rng.random((n, 1)) < 0.9)
    if draw(st.booleans()):
        X = np.hstack((X, X[:, :1], np.ones((n, 1)), np.zeros((n, 1))))
    y = labels(loss, 2.0 * X[:, 0], rng)
    c = rng.integers(0, 3, n).astype(float) if draw(st.booleans()) else np.ones(n)
    c[0] = 1.0
    l1 = 10.0 ** draw(st.integers(-3, -1)) * (0.5 + rng.random(X.shape[1]))
    l2 = draw(st.sampled_from([0.0, 1e-4, 0.1]))
    return X, y, c, loss, l1, l2, draw(st.booleans()), draw(st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 3.0])), rng


@pytest.mark.exhaustive
@examples(300)
@given(problems())
def test_no_projection_is_above_the_optimum(drawn: Any) -> None:
    X, y, c, loss, l1, l2, intercept, away, rng = drawn
    case = naive_l1.case(X, y, loss, l1, l2, c=c, intercept=intercept)
    with np.errstate(over="ignore", invalid="ignore"):
        best = naive_l1.minimize(case, most=5000)
    w = best * (1.0 + away * rng.standard_normal(len(best)))
    if loss.link == "log" and np.max(np.abs(case.X @ w)) > 30.0:
        w = best
    theta, D = slopes(case, w)
    dual = Dual.of(csr_array(X), y, loss, l1, l2, sample_weight=c, intercept=intercept)
    found = project(dual, theta, D, w, case.objective(w))
    lowest = min(case.objective(best), case.objective(w))
    assert found.value <= lowest + 1e-12 * abs(lowest) + 1e-15
    if np.isfinite(found.value):
        assert dual_value(case, found.theta) == pytest.approx(found.value, rel=1e-9, abs=1e-12)
    if intercept:
        assert abs(found.theta.sum()) <= 1e-13 * np.abs(found.theta).sum()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("l2", [0.0, 1e-4])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_projection_of_nearly_optimal_weights_proves_more_than_scaling(
    loss: losses.Loss, l2: float, intercept: bool
) -> None:
    X, y = data(loss, n=120, d=60)
    c = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    case = naive_l1.case(X, y, loss, 0.02, l2, c=c, intercept=intercept)
    best = naive_l1.minimize(case)
    w = best * (1.0 + 1e-3 * np.random.default_rng(2).standard_normal(len(best)))
    theta, D = slopes(case, w)
    dual = Dual.of(X, y, loss, 0.02, l2, sample_weight=c, intercept=intercept)
    scaled, found = (project(dual, theta, D, w, case.objective(w), budget=budget) for budget in (0.0, np.inf))
    assert case.objective(best) - found.value < 0.1 * (case.objective(best) - scaled.value)
    again = project(dual, theta, D, w, case.objective(w), warm=found.S)
    assert case.objective(best) - again.value < 0.1 * (case.objective(best) - scaled.value)


def test_factors_and_a_choice_of_columns_lead_to_a_proof_as_good() -> None:
    X, y = data(losses.logistic, n=120, d=60)
    case = naive_l1.case(X, y, losses.logistic, 0.02, 0.0, intercept=False)
    best = naive_l1.minimize(case)
    w, F = best * (1.0 + 1e-3 * np.random.default_rng(2).standard_normal(60)), np.flatnonzero(best)
    theta, D = slopes(case, w)
    H = X[:, F].T @ (D[:, None] * X[:, F])
    factors = Preconditioner(F, lambda b: np.linalg.solve(H, b), 0.0)
    dual = Dual.of(X, y, losses.logistic, 0.02)
    left = np.flatnonzero(np.abs(X.T @ slopes(case, best)[0]) > 0.01)  # the others are far from their bounds
    scaled = project(dual, theta, D, w, case.objective(w), budget=0.0).value
    for options in ({"preconditioner": factors}, {"chosen": left}):
        found = project(dual, theta, D, w, case.objective(w), **options)
        assert np.all(np.abs(X.T @ found.theta) <= 0.02 * (1.0 + 1e-12))
        assert case.objective(best) - found.value < 0.1 * (case.objective(best) - scaled)
        assert found.value <= case.objective(best) + 1e-14
