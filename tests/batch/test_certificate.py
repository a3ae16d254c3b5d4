"""Certificates: dual points against closed forms, strong duality, and what random weights can reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.batch import Problem, Trace, dual_point
from proxstream.batch.dual import circulation
from proxstream.batch.penalty_conjugates import conjugate_of
from proxstream.data.rowblock import as_block

from ..examples import examples

pytestmark = pytest.mark.interpreted

PENALTIES = [
    ps.L1(0.3),
    ps.L2(0.7),
    ps.ElasticNet(0.2, 0.5),
    ps.ElasticNet(np.array([0.1, 0.0, 0.4]), np.array([1.0, 0.5, 2.0])),
    ps.GroupL2(0.3, [0, 0, 1]),
    ps.GroupL2(0.3, [0, 0, 1]) + ps.L2(0.4) + ps.L1(0.1),
    ps.L2Norm(0.5),
    ps.LinfNorm(0.5),
    ps.L1Ball(2.0),
    ps.L2Ball(2.0),
    ps.Box(-1.0, 0.5),
    ps.L1(0.2) + ps.NonNegative(),
    ps.Berhu(0.3, 0.5),
    ps.Simplex(),
]


@pytest.mark.default_cases(5)
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@examples(25)
@given(seed=st.integers(0, 10**6))
def test_the_conjugate_bounds_every_linear_gain_and_is_reached(penalty: ps.penalties.Penalty, seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = rng.normal(size=3)
    conjugate = conjugate_of(penalty, (3,))
    s = conjugate.limit(v)
    value = conjugate.value(v, s)
    w = [penalty.project(r) for r in rng.normal(size=(200, 3)) * rng.exponential(2.0, size=(200, 1))]
    assert max(s * float(v @ x) - penalty.value(x) for x in w) <= value + 1e-9
    # Reached: near the domain's end a little curvature picks a maximizer, and costs as little.
    x = penalty.solve(-0.999 * s * v, 1e-9)
    assert 0.999 * s * float(v @ x) - penalty.value(x) == pytest.approx(conjugate.value(v, 0.999 * s), abs=1e-6)


@pytest.mark.parametrize("penalty", [p for p in PENALTIES if conjugate_of(p, (3,)).limit(np.full(3, 1e3)) < 1.0])
def test_beyond_the_limit_the_gain_has_no_bound(penalty: ps.penalties.Penalty) -> None:
    v = np.array([2.0, -1.5, 3.0])
    s = conjugate_of(penalty, (3,)).limit(v)
    assert 0.0 < s < 1.0
    w = penalty.solve(-1.001 * s * v, 1e-12)
    assert 1.001 * s * float(v @ w) - penalty.value(w) > 100.0


BINARY = ["logistic", "hinge", "squared_hinge", "smoothed_hinge(0.5)"]
REGRESSION = [
    "squared",
    "absolute",
    "huber(0.5)",
    "epsilon_insensitive(0.2)",
    "quantile(0.3)",
    "poisson",
    "gamma",
    "tweedie",
]


def problem(loss: Any, penalty: ps.penalties.Penalty, seed: int = 0, fit_intercept: bool = True) -> Problem:
    rng = np.random.default_rng(seed)
    loss = ps.losses.get(loss)
    X = rng.normal(size=(30, 3)) * rng.choice([0.0, 1.0], size=(30, 3))
    score = X @ np.array([1.0, -1.0, 0.5]) + 0.3 + rng.normal(size=30)
    if loss.kind == "multiclass":
        y = rng.integers(0, 4, 30).astype(float)
    elif loss.kind == "binary":
        y = np.where(score > 0.0, 1.0, -1.0)
    else:
        y = rng.poisson(np.exp(0.5 * score)) + float(loss.name == "gamma") if loss.link == "log" else score
    n_outputs = 4 if loss.kind == "multiclass" else 1
    return Problem(as_block(X, y, rng.uniform(0.1, 2.0, 30)), 3, loss, penalty, fit_intercept, n_outputs)


@pytest.mark.default_cases(5)
@pytest.mark.parametrize("loss", [*BINARY, *REGRESSION, "softmax", "multiclass_hinge"])
@examples(10)
@given(seed=st.integers(0, 10**6), penalty=st.sampled_from([ps.L2(0.1), ps.L1(0.05), ps.ElasticNet(0.05, 0.01)]))
def test_no_weights_reach_below_the_dual_value_of_any_alpha(loss: str, seed: int, penalty: Any) -> None:
    given = problem(loss, penalty, seed)
    rng = np.random.default_rng(seed)
    shape = (30, 4) if given.n_outputs > 1 else (30,)
    point = dual_point(given, rng.normal(size=shape) * rng.exponential(3.0))
    assert np.abs(given.shares @ point.alpha).max() <= 1e-13
    np.testing.assert_allclose(point.v, given.rows.times(np.eye(3)).T @ (given.shares * point.alpha.T).T, atol=1e-12)
    for _ in range(30):
        w = rng.normal(size=given.shape) * rng.exponential(1.0)
        assert given.primal(w, rng.normal(size=shape[1:])) >= point.value


def test_at_the_optimum_the_slopes_prove_it() -> None:
    from scipy.optimize import minimize

    for loss in ("logistic", "squared", "softmax"):
        given = problem(loss, ps.L2(0.1))
        k = given.n_outputs if given.n_outputs > 1 else ()
        shape = (3 + 1, k) if k else (4,)

        def objective(z: Any, given: Problem = given, shape: Any = shape) -> float:
            z = z.reshape(shape)
            return given.primal(z[:3], z[3])

        z = minimize(objective, np.zeros(np.prod(shape)), method="BFGS", options={"gtol": 1e-8}).x.reshape(shape)
        point = dual_point(given, -given.loss.slope(given.scores(z[:3], z[3]), given.labels))
        assert 0.0 <= given.primal(z[:3], z[3]) - point.value <= 1e-10


@examples(50)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 6))
def test_scaled_flows_are_balanced(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    sent = rng.uniform(size=(k, k)) * rng.choice([0.0, 1.0], size=(k, k), p=[0.3, 0.7])
    np.fill_diagonal(sent, 0.0)
    factors = circulation(sent)
    assert factors.min() >= 0.0
    assert factors.max() <= 1.0
    kept = factors * sent
    np.testing.assert_allclose(kept.sum(axis=0), kept.sum(axis=1), atol=1e-13)


def test_a_wrong_shape_is_named() -> None:
    with pytest.raises(ValueError, match=r"alpha must have shape \(30,\).* got \(3,\)"):
        dual_point(problem("logistic", ps.L2(1.0)), np.zeros(3))
    with pytest.raises(TypeError, match="penalty must be a Penalty"):
        conjugate_of("l2", (3,))  # type: ignore[arg-type]


@pytest.mark.parametrize(("primal", "dual"), [(1.0, -np.inf), (np.inf, 0.0), (np.inf, -np.inf), (np.nan, 0.0)])
def test_a_gap_that_is_not_finite_proves_nothing(primal: float, dual: float) -> None:
    assert Trace(tol=0.5).certify(1, primal, dual, nnz=0) is False
