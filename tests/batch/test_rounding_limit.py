"""Solvers end where rounding hides all further progress, and say so."""

import warnings
from importlib import import_module

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning as EstimatorWarning

import proxstream as ps
from proxstream.batch import Multiclass, Problem, StructuredSDCA, dispatch
from proxstream.batch.problem import PATIENCE, ConvergenceWarning, Trace
from proxstream.core import losses
from proxstream.core.penalties import L1, L2, ElasticNet, Penalty
from proxstream.data.rowblock import as_block

BELOW_ROUNDING = 1e-17

CASES = {
    "sdca": [("hinge", L2(0.1)), ("hinge", ElasticNet(0.01, 0.01)), ("smoothed_hinge", L2(0.01)), ("squared", L2(1.0))],
    "newton": [("logistic", L2(1e-3)), ("squared_hinge", L2(1e-3)), ("poisson", L2(1e-3)), ("softmax", L2(1e-3))],
    "interior": [("hinge", L2(1e-3)), ("absolute", L2(1e-3)), ("epsilon_insensitive", L2(1e-3))],
    "l1": [("logistic", L1(0.01)), ("squared", L1(0.01)), ("huber", ElasticNet(0.01, 0.01))],
    "multiclass": [("softmax", L2(0.1)), ("multiclass_hinge", ElasticNet(0.01, 0.1))],
}
EACH = [(room, loss, penalty) for room, cases in CASES.items() for loss, penalty in cases]


def stated(loss: str, penalty: Penalty, *, intercept: bool) -> Problem:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 6))
    score = X @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.0] + rng.logistic(size=120)
    kind, phi = losses.get(loss).kind, losses.get(loss)
    y = np.where(score > 0.0, 1.0, -1.0) if kind == "binary" else score
    if kind == "multiclass":
        y = np.digitize(score, [-1.0, 1.0]).astype(float)
    elif loss == "poisson":
        y = rng.poisson(np.exp(0.3 * score)).astype(float)
    return Problem(as_block(X, y), 6, phi, penalty, intercept, 3 if kind == "multiclass" else 1)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("room", "loss", "penalty"), EACH)
def test_no_solver_continues_where_rounding_hides_progress(
    room: str, loss: str, penalty: Penalty, intercept: bool
) -> None:
    problem = stated(loss, penalty, intercept=intercept)
    solver = import_module(dispatch.MODULES[room], "proxstream.batch")  # type: ignore[index]
    found = solver.solve(problem, tol=BELOW_ROUNDING, max_epochs=5000)
    last = found.history[-1]
    assert last.epoch < 500
    assert last.gap <= 1e-12 * abs(last.primal)
    assert found.converged == (last.gap <= BELOW_ROUNDING * abs(last.primal))
    assert found.limited_by_rounding != found.converged


def trace_of(*gaps: float) -> Trace:
    trace = Trace(0.0)
    for epoch, gap in enumerate(gaps):
        trace.best_dual = -np.inf
        trace.certify(epoch, 1.0, 1.0 - gap, 1)
    return trace


def test_a_trace_stalls_only_where_rounding_may_be_all_that_is_left() -> None:
    fives = [2.0**-50] * PATIENCE
    assert trace_of(2.0**-50, *fives).stalled
    assert not trace_of(*fives).stalled  # nothing to compare with
    assert not trace_of(2.0**-49, *fives).stalled  # half of what it was
    assert not trace_of(1e-9, *[1e-9] * PATIENCE).stalled  # slow, but progress is possible
    assert trace_of(2.0**-51, *fives, 2.0**-50).stalled
    assert not Trace(0.0).stalled


def test_estimators_report_the_gap_that_was_reached_and_why() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X[:, 0] + rng.logistic(size=200) > 0
    for model in (
        ps.CertifiedClassifier(loss="hinge", penalty=L2(1e-3), tol=1e-16),
        ps.CertifiedClassifier(penalty=L2(1e-3), tol=1e-16),
    ):
        with pytest.warns(EstimatorWarning, match=r"above tol=1e-16: a smaller gap cannot be proved in 64-bit numbers"):
            model.fit(X, y)
        assert model.n_iter_ < 200
        assert 0.0 < model.duality_gap_ <= 1e-12 * model.primal_


def test_structured_outputs_end_there_too() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 3, size=40)
    model = StructuredSDCA(Multiclass(3, 3), lam=0.1, tol=1e-17, max_epochs=3000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a gap of exactly 0 is a proof
        model.fit(list(X), list(y))
    assert model.n_iter_ < 500
    assert model.duality_gap_ <= 1e-12 * model.primal_
