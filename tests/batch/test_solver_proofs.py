"""The dual values that solvers return are never above the truth either, and cost them neither tolerance nor alpha."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from proxstream.batch import Problem, dispatch
from proxstream.batch.centring import solve_centred
from proxstream.batch.problem import Solution
from proxstream.batch.sdca import Rule, solve as sdca

from .exact import Exact
from .test_proved import KINDS, SEARCHED, SMOOTH, tiny

TOLERANCES = (1e-2, 1e-6, 1e-13)
RULES = [Rule(), Rule(sampling="uniform", output="average"), Rule(strong_part="q_norm")]


def solved(problem: Problem, tol: float, seed: int) -> dict[str, Solution]:
    """Return what the solvers return: the one that is chosen, and Prox-SDCA under some rule."""

    def by_sdca(near: Problem, start: Solution | None) -> Solution:
        rule = RULES[seed % 3]
        if rule.strong_part == "q_norm" and np.any(problem.penalty.terms(problem.shape).l2):
            rule = RULES[0]
        return sdca(near, tol=tol, max_epochs=30, start=start, rule=rule)

    with np.errstate(all="ignore"):
        return {
            "chosen": dispatch.solve(problem, tol=tol, max_epochs=60),
            "sdca": solve_centred(problem, None, tol, by_sdca),
        }


def check(kind: str, loss: str, seed: int) -> None:
    problem, tol = tiny(kind, loss, seed), TOLERANCES[seed % 3]
    found = solved(problem, tol, seed)
    best = min(found.values(), key=lambda one: one.primal)
    least = Exact(problem).least(best.coef, best.intercept)
    for place, one in found.items():
        last = one.history[-1]
        assert not np.isfinite(last.dual) or Decimal(last.dual) <= least, (kind, loss, seed, place, last, float(least))
        assert last.gap == last.primal - last.dual
        assert not one.converged or last.gap <= tol * max(abs(last.primal), abs(last.dual))


@pytest.mark.default_cases(12)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_no_returned_dual_value_is_above_the_truth(kind: str, seed: int) -> None:
    check(kind, SMOOTH[seed % 3], seed)


@pytest.mark.parametrize("block", [pytest.param(0, marks=pytest.mark.exhaustive), *SEARCHED])
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_no_returned_dual_value_of_thousands_is_above_the_truth(kind: str, loss: str, block: int) -> None:
    for seed in range(1000 + 5 * block, 1005 + 5 * block):
        check(kind, loss, seed)
