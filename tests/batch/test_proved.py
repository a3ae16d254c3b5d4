"""Dual values are never above the truth: against 60-digit arithmetic on tiny problems of every awkward kind."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.batch import Problem, dual_point
from proxstream.batch.dispatch import solve
from proxstream.batch.dual import combine, conjugate_mean
from proxstream.batch.penalty_conjugates import conjugate_of
from proxstream.data.rowblock import as_block

from .exact import Exact

KINDS = (
    "plain",
    "duplicates",
    "collinear",
    "constant",
    "separable",
    "scales",
    "one class",
    "empty rows",
    "large labels",
    "weights",
)
SMOOTH = ("logistic", "squared", "squared_hinge", "poisson")


def tiny(kind: str, loss: str, seed: int) -> Problem:
    """Return a problem of up to eight rows and three features."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)).round(int(rng.integers(1, 6)))
    if kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 2), n)]
    elif kind == "collinear":
        X = X[:, [0] * d] * rng.integers(1, 4, d)
    elif kind == "constant":
        X[:, 0] = rng.choice([1.0, 0.1, 1e8])
    elif kind == "scales":
        X = X * 10.0 ** rng.uniform(-8.0, 8.0, d)
    elif kind == "empty rows":
        X[rng.random(n) < 0.5] = 0.0
    score = X[:, 0] / max(np.abs(X[:, 0]).max(), 1e-300) + 0.3 * rng.normal(size=n)
    if kind == "separable":
        score = X[:, 0]
    y = np.where(score > 0.0, 1.0, -1.0)
    if kind == "one class":
        y[:] = rng.choice([-1.0, 1.0])
    if loss == "squared":
        y = score * (1.0 if kind != "large labels" else 1.0 + rng.random()) + 1e14 * float(kind == "large labels")
    elif loss == "poisson":
        y = rng.poisson(2.0, n).astype(float) * (1e6 if kind == "large labels" else 1.0)
    l1, l2 = 10.0 ** rng.uniform(-5.0, 0.5, 2)
    penalty = [ps.L1(l1), ps.L2(l2), ps.ElasticNet(l1, l2)][int(rng.integers(3))]
    c = 10.0 ** rng.uniform(-6.0, 6.0, n) if kind == "weights" else None
    return Problem(as_block(X, y, c), d, ps.losses.get(loss), penalty, bool(rng.integers(2)))


def proofs(problem: Problem) -> tuple[Any, dict[str, float]]:
    """Return weights near the optimum, and dual values from every place that proves them."""
    with np.errstate(all="ignore"):
        found = solve(problem, tol=1e-10, max_epochs=60)
        slopes = -problem.loss.slope(problem.scores(found.coef, found.intercept), problem.labels)
        coef, intercept = found.coef, found.intercept if problem.fit_intercept else None
        rows = problem.rows
        proof = ps.certificate((coef, intercept), rows, loss=problem.loss, penalty=problem.penalty, tol=1e-12)
    own = {
        "its alpha": dual_point(problem, found.alpha, search=False).value,
        "slopes": dual_point(problem, slopes).value,
        "certificate": proof.dual,
    }
    return found, own


def check(kind: str, loss: str, seed: int) -> None:
    problem = tiny(kind, loss, seed)
    found, own = proofs(problem)
    least = Exact(problem).least(found.coef, found.intercept)
    for place, value in own.items():
        assert not np.isfinite(value) or Decimal(value) <= least, (kind, loss, seed, place, value, float(least))


SEARCHED = [pytest.param(block, marks=pytest.mark.search) for block in range(1, 10)]


@pytest.mark.default_cases(12)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_no_dual_value_is_above_the_truth(kind: str, seed: int) -> None:
    check(kind, SMOOTH[seed % 3], seed)


@pytest.mark.parametrize("block", [pytest.param(0, marks=pytest.mark.exhaustive), *SEARCHED])
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_no_dual_value_of_thousands_is_above_the_truth(kind: str, loss: str, block: int) -> None:
    for seed in range(100 + 5 * block, 105 + 5 * block):
        check(kind, loss, seed)


@pytest.mark.default_cases(2)
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson", "hinge"])
def test_proved_values_are_close_below_plain_sums(loss: str) -> None:
    for seed in range(40):
        problem = tiny("plain", loss, seed)
        alpha = np.random.default_rng(seed).normal(size=problem.rows.n_rows)
        point, conjugate = dual_point(problem, alpha), conjugate_of(problem.penalty, problem.shape)
        plain = -conjugate_mean(problem, point.alpha) - conjugate.value(combine(problem, point.alpha))
        assert abs(plain - point.value) <= 1e-12 * (1.0 + abs(plain))
