"""CertifiedClassifier and CertifiedRegressor: the right solver, the optimum of other libraries, a true proof."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import proxstream as ps
from proxstream import L1, L2, ElasticNet, NonNegative, NoPenalty, losses
from proxstream.batch import Problem, certified
from proxstream.batch.certified import choose
from proxstream.blocks import as_block

# Two problems that are the same in other words have the same solution, but what a solver gives back differs by as much
# as its tolerance allows: scikit-learn compares to seven digits.
MODELS = [ps.CertifiedClassifier(tol=1e-12), ps.CertifiedRegressor(tol=1e-12)]
SLOW = "three classes, softmax under a weak penalty: Prox-SDCA does not get to seven digits"
EXEMPT = {
    "check_sample_weight_equivalence_on_dense_data": SLOW,
    "check_sample_weight_equivalence_on_sparse_data": SLOW,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    MODELS, expected_failed_checks=lambda model: EXEMPT if isinstance(model, ps.CertifiedClassifier) else {}
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


# -- which solver ----------------------------------------------------------------------------------

WIDE = 3000


def problem_of(name: str, penalty: ps.penalties.Penalty, d: int = 4, n: int = 10) -> Problem:
    """Rows of length 2: kappa = 4 L / (n mu)."""
    X = np.zeros((n, d))
    X[np.arange(n), np.arange(n) % d] = 2.0
    loss = losses.get(name)
    y = np.arange(n) % 3 if loss.kind == "multiclass" else np.where(np.arange(n) % 2, 1.0, -1.0)
    return Problem(as_block(X, np.abs(y)) if name == "poisson" else as_block(X, y), d, loss, penalty, True, 1)


@pytest.mark.parametrize(
    ("name", "penalty", "d", "room"),
    [
        ("logistic", L2(0.051), 4, "sdca"),  # kappa = 0.1 / 0.051
        ("logistic", L2(0.049), 4, "newton"),
        ("logistic", L2(0.049), WIDE, "sdca"),
        ("logistic", L2(0.0039), WIDE, "newton"),
        ("poisson", L2(1e3), 4, "newton"),  # no bound on how it bends
        ("logistic", L1(10.0), 4, "l1"),
        ("squared", ElasticNet(1.0, 1e3), 4, "l1"),
        ("squared", L1(1.0) + L2(1.0), 4, "l1"),
        ("hinge", L2(0.134), 4, "sdca"),  # kappa = 0.4 / 0.134
        ("hinge", L2(0.132), 4, "interior"),
        ("hinge", L2(1e-6), WIDE, "sdca"),
        ("absolute", ElasticNet(1.0, 1e-6), 4, "sdca"),
        ("perceptron", L2(1e-6), 4, "sdca"),
        ("logistic", L2(1e-6) + NonNegative(), 4, "sdca"),
        ("softmax", L2(1.0), 4, "multiclass"),
    ],
)
def test_choice(name: str, penalty: ps.penalties.Penalty, d: int, room: str) -> None:
    assert choose(problem_of(name, penalty, d)) == room


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("logistic", NoPenalty()),
        ("logistic", L2([1.0, 0.0, 1.0, 1.0])),
        ("hinge", L1(1.0)),
        ("logistic", L1(1.0) + NonNegative()),
    ],
)
def test_what_nobody_solves_is_refused(name: str, penalty: ps.penalties.Penalty) -> None:
    with pytest.raises(TypeError, match="no solver for loss"):
        certified.solve(problem_of(name, penalty))


def test_a_solver_that_is_told_is_taken_or_refused() -> None:
    assert choose(problem_of("logistic", L2(10.0)), "newton") == "newton"
    assert choose(problem_of("logistic", L2(1e-9)), "sdca") == "sdca"
    assert choose(problem_of("hinge", L2(10.0)), "newton") == "interior"
    with pytest.raises(TypeError, match="no solver for loss"):
        choose(problem_of("perceptron", L2(1.0)), "newton")
    with pytest.raises(ValueError, match="solver must be one of"):
        choose(problem_of("hinge", L2(1.0)), "simplex")
    own = losses.custom(lambda p, y: 0.5 * (p - y) ** 2, lambda p, y: p - y)
    with pytest.raises(TypeError, match="conjugate"):
        certified.solve(Problem(as_block(np.eye(2), [1.0, 2.0]), 2, own, L2(1.0)))


@pytest.mark.parametrize("name", ["logistic", "squared", "hinge", "epsilon_insensitive"])
@pytest.mark.parametrize("penalty", [L2(3.0), L2(1e-3), ElasticNet(1e-2, 1e-2)])
def test_every_road_leads_to_one_optimum(name: str, penalty: ps.penalties.Penalty) -> None:
    problem = problem_of(name, penalty)
    solutions = [certified.solve(problem, solver=solver, tol=1e-6, max_epochs=20_000) for solver in ("auto", "sdca")]
    assert all(solution.converged for solution in solutions)
    values = [problem.primal(solution.coef, solution.intercept) for solution in solutions]
    assert values[0] == pytest.approx(values[1], rel=2e-6)
    assert max(solution.dual for solution in solutions) <= min(values) * (1.0 + 1e-12)
