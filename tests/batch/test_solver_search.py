"""Every batch solver on small odd problems: no dual value above the optimum, no claim that is not true."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.batch import Solution, dispatch, l1, newton, sdca
from proxstream.batch.lambda_max import no_worse_than_null
from proxstream.batch.newton import _kernels as newton_kernels
from proxstream.batch.sdca import multiclass
from proxstream.batch.sdca.run import Intercepts

from .solver_search import BINARY, MULTICLASS, REGRESSION, Case, draw, faults, objective, reference

TOL = 1e-6
LOSSES = (*BINARY, *REGRESSION, *MULTICLASS)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # an overflow is what some of these are about


def solvers(case: Case) -> dict[str, Callable[..., Solution]]:
    """The solvers that take a problem."""
    problem, taken = case.problem, {}
    if case.k == 1:
        taken["sdca"] = sdca.solve
    elif np.all(np.asarray(case.l2) > 0.0):
        taken["multiclass"] = multiclass.solve
    try:
        room = dispatch.choose(problem, "newton")
    except TypeError:
        return taken
    taken[room] = import_module(dispatch.MODULES[room], "proxstream.batch").solve
    return taken


def check(case: Case, max_epochs: int = 1000) -> None:
    """Solve a problem in every way there is, and hold what is returned against the reference."""
    optimum, null = reference(case), reference(case, False)
    for name, solve in solvers(case).items():
        found = no_worse_than_null(case.problem, solve(case.problem, tol=TOL, max_epochs=max_epochs), TOL)
        wrong = faults(case, found, TOL, optimum, null)
        assert not wrong, (case, name, wrong)


# ---- the reference itself ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_reference_is_the_closed_form_of_ridge_regression(seed: int) -> None:
    case = draw(seed, "squared", "l2")._replace(fit_intercept=False)
    X, c = case.X.astype(np.longdouble), np.ones(len(case.y)) if case.c is None else case.c
    p = c / c.sum()
    scale = np.maximum(np.abs(case.X).max(axis=0), 1e-300)
    Z = case.X / scale
    H = (Z.T * p) @ Z + np.diag(np.broadcast_to(case.l2, Z.shape[1]) / scale**2)
    w = np.linalg.solve(H, Z.T @ (p * case.y)) / scale
    assert X.dtype == np.longdouble
    assert float(reference(case)) == pytest.approx(float(objective(case, w, 0.0)), rel=1e-9, abs=1e-15)


def test_the_reference_is_the_median_without_weights() -> None:
    case = Case(np.zeros((5, 1)), np.array([3.0, -1.0, 10.0, 4.0, 5.0]), None, "absolute", 0.0, 1.0, True, 1)
    assert float(reference(case)) == pytest.approx((1.0 + 5.0 + 6.0 + 0.0 + 1.0) / 5.0, rel=1e-12)


# ---- the search ----------------------------------------------------------------------------------


@pytest.mark.default_cases(20)
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_solvers_on_odd_problems(loss: str, seed: int) -> None:
    check(draw(seed, loss, "l2", each=False), max_epochs=200)


@pytest.mark.search
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["l2", "net", "l1"])
def test_solvers_on_many_odd_problems(loss: str, kind: str) -> None:
    for seed in range(1000, 1100):
        check(draw(seed, loss, kind))


# ---- what the search found -----------------------------------------------------------------------


def huge(scale: float, loss: str, l1: float, l2: float) -> Case:
    """One column of three is far larger than the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3)) * [1.0, scale, 1.0]
    score = X @ [1.0, -1.0 / scale, 0.5] + 0.3 * rng.normal(size=12)
    y = {"poisson": np.round(np.exp(score)), "squared": score}.get(loss, np.where(score > 0.0, 1.0, -1.0))
    return Case(X, y, None, loss, l1, l2, True, 1)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_newton_does_not_depend_on_the_scale_of_columns(loss: str) -> None:
    """Factors with one ridge for all columns see nothing of those that are small beside the largest."""
    case = huge(1e9, loss, 0.0, 1e-3)
    found = newton.solve(case.problem, tol=TOL, max_epochs=50)
    assert found.converged
    assert not faults(case, found, TOL, reference(case), reference(case, False))


@pytest.mark.parametrize("scale", [1e20, 1e25])
def test_a_gram_matrix_of_huge_columns_is_finite(scale: float) -> None:
    case = huge(scale, "squared", 1e-2, 0.0)
    found = l1.solve(case.problem, tol=TOL, max_epochs=1000)
    assert found.history[-1].epoch < 100, "it goes on where rounding hides all progress"
    assert not faults(case, found, TOL, reference(case), reference(case, False))


def test_sdca_returns_the_best_weights_it_has_certified() -> None:
    """On the way up the dual, P rises and falls by orders of magnitude."""
    X = np.array([[-2.1e7], [8.5e7], [1.7e7], [-1.9e7], [-1.2e8], [5.6e6], [1.2e8]])
    y, c = np.array([1.0, 1.0, 1.0, 1.0, -1.0, 1.0, 1.0]), np.array([1e-8, 4e11, 5e-9, 3e10, 2e3, 1e-7, 2e-11])
    case = Case(X, y, c, "logistic", 0.0, 0.08, False, 1)
    found = sdca.solve(case.problem, tol=TOL, max_epochs=1000)
    assert not found.converged
    assert found.primal == min(record.primal for record in found.history) < 0.2
    assert not faults(case, found, TOL, reference(case), reference(case, False))


def test_an_intercept_where_the_loss_overflows_is_not_used() -> None:
    intercepts = Intercepts(0.0, 1000.0)
    shifts = intercepts.tried(5.0)
    intercepts.move(shifts, np.array([150.0, 1.0, 0.0, np.inf]), 2)
    assert np.isfinite([intercepts.guess, intercepts.spread]).all()


def test_the_strong_part_does_not_vanish() -> None:
    """Weakened at every pass, 1 / lam would be a division by zero."""
    part = sdca.StrongPart(ps.L1(0.1), 2, "l2", 1.0)
    while part.weaken(0.0, 1.0, 0.0, 0.0) or part.weaken(0.0, 1.0, 1e-9, 1e-3):
        assert part.lam > 0.0
    assert part.lam >= sdca._WEAKEN * sdca._SMALLEST


def test_curvatures_beyond_32_bits() -> None:
    case = Case(np.array([[1e18], [-1e18], [2e18]]), np.array([1.0, -1.0, 1.0]), None, "squared", 0.0, 1e-4, False, 1)
    found = sdca.solve(case.problem, tol=TOL, max_epochs=50)
    assert not faults(case, found, TOL, reference(case), reference(case, False))


def test_a_tiny_softmax_loss_keeps_its_digits() -> None:
    """P counts as the proof's own number: the gap would come out too small by what rounding takes from it."""
    Z, y, p = np.array([[40.0, 0.0, 3.0], [1.0, 2.0, 30.0]]), np.array([0.0, 2.0]), np.array([0.5, 0.5])
    expected = float(p @ ps.losses.softmax.value(Z, y.astype(int)))
    S, pi = np.empty_like(Z), np.empty_like(Z)
    assert newton_kernels.expand_softmax(y, p, Z, 0, 2, S, pi) == pytest.approx(expected, rel=1e-14, abs=0.0)
    value, _, _ = newton_kernels.along_softmax(y, p, 0.5 * Z, 0.5 * Z, 1.0, 0, 2)
    assert value == pytest.approx(expected, rel=1e-14, abs=0.0)


@pytest.mark.parametrize("model", [ps.CertifiedRegressor(), ps.SDCARegressor()])
def test_weights_whose_sum_is_not_finite_are_refused(model: Any) -> None:
    with pytest.raises(ValueError, match=r"sample_weight must have a finite sum, got weights of up to 1e\+308"):
        model.fit(np.eye(3), np.arange(3.0), sample_weight=np.full(3, 1e308))
