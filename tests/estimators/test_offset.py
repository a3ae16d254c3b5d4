"""Offsets of Poisson models: scores <w, x> + b + o, against an independent minimizer and a step-by-step reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import proxstream as ps
from proxstream.data.offsets import absorbed

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
EXPOSURE = RNG.uniform(0.2, 5.0, 150)
OFFSET = np.log(EXPOSURE)
W = np.array([0.8, -0.5, 0.0, 0.3])
COUNTS = RNG.poisson(EXPOSURE * np.exp(X @ W - 0.5)).astype(float)
WEIGHT = RNG.uniform(0.5, 2.0, 150)
LAM = 0.1


def objective(theta: Any, c: Any) -> float:
    """Mean loss + (LAM / 2) ||w||^2 of the problem with a true offset, in plain NumPy."""
    p = X @ theta[:4] + theta[4] + OFFSET
    return float(np.average(np.exp(p) - COUNTS * p, weights=c) + 0.5 * LAM * theta[:4] @ theta[:4])


class Rates(type(ps.losses.poisson)):
    """A new loss with a log link."""

    name = "rates"


def test_a_loss_says_itself_whether_it_takes_an_offset() -> None:
    y, o = np.array([3.0, 0.0]), np.log([2.0, 0.5])
    for found, expected in zip(absorbed(Rates(), y, o), absorbed(ps.losses.poisson, y, o), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [ps.CertifiedRegressor, ps.SDCARegressor])
def test_batch_estimators_solve_the_problem_with_the_offset(kind: Any, weighted: bool) -> None:
    c = WEIGHT if weighted else None
    model = kind("poisson", ps.L2(LAM), tol=1e-10, random_state=0, max_epochs=5000)
    model.fit(X, COUNTS, sample_weight=c, offset=OFFSET)
    best = minimize(objective, np.zeros(5), args=(c,), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose([*model.coef_, model.intercept_], best.x, atol=2e-5)
    assert model.primal_ == pytest.approx(objective(np.array([*model.coef_, model.intercept_]), c), rel=1e-12)
    assert model.dual_ <= best.fun + 1e-9
    assert model.duality_gap_ == model.primal_ - model.dual_
    expected = EXPOSURE * np.exp(X @ model.coef_ + model.intercept_)
    np.testing.assert_allclose(model.predict(X, offset=OFFSET), expected)
    np.testing.assert_allclose(model.predict(X), expected / EXPOSURE)
    assert model.score(X, COUNTS, offset=OFFSET) > model.score(X, COUNTS)


def test_an_l1_penalty_counts_as_with_a_true_offset() -> None:
    model = ps.CertifiedRegressor("poisson", "l1(0.3)", tol=1e-10).fit(X, COUNTS, offset=OFFSET)
    slopes = X.T @ (model.predict(X, offset=OFFSET) - COUNTS) / len(X)  # of the mean loss
    assert 0 < model.nnz_ < 4
    used = model.coef_ != 0.0
    np.testing.assert_allclose(slopes[used], -0.3 * np.sign(model.coef_[used]), atol=1e-4)
    assert (np.abs(slopes[~used]) <= 0.3 + 1e-4).all()


def test_an_offset_of_zero_changes_nothing() -> None:
    with_zero = ps.CertifiedRegressor("poisson").fit(X, COUNTS, offset=0.0)
    np.testing.assert_array_equal(with_zero.coef_, ps.CertifiedRegressor("poisson").fit(X, COUNTS).coef_)


@pytest.mark.exhaustive
def test_streams_take_the_steps_of_a_true_offset() -> None:
    algorithm = ps.FTRLProximal(alpha=0.3)
    reference, losses = ps.OnlineLearner(algorithm, dim=4), []
    for x, y, o in zip(X, COUNTS, OFFSET, strict=True):
        p = x @ reference.point + o
        losses.append(np.exp(p) - y * p)
        reference.update((np.exp(p) - y) * x)
    model = ps.StreamRegressor(algorithm, "poisson", fit_intercept=False).fit(X, COUNTS, offset=OFFSET)
    np.testing.assert_allclose(model.coef_, reference.point, rtol=1e-9)
    assert model.progressive_loss_ == pytest.approx(np.mean(losses), rel=1e-10)
    assert model.history_[0].progressive_loss == pytest.approx(np.mean(losses), rel=1e-10)
    pieces = ps.StreamRegressor(algorithm, "poisson", fit_intercept=False)
    for start in range(0, 150, 40):
        at = slice(start, start + 40)
        pieces.partial_fit(X[at], COUNTS[at], offset=OFFSET[at])
    np.testing.assert_array_equal(pieces.coef_, model.coef_)
    assert pieces.progressive_loss_ == pytest.approx(np.mean(losses), rel=1e-10)
    np.testing.assert_allclose(model.predict(X, offset=OFFSET), model.predict(X) * EXPOSURE)


def test_streams_take_no_offset_with_a_penalty_that_it_would_multiply() -> None:
    model = ps.StreamRegressor(loss="poisson", penalty=ps.L1(0.01))
    with pytest.raises(ValueError, match=r"needs penalty=None or constraints .* CertifiedRegressor takes both"):
        model.fit(X, COUNTS, offset=OFFSET)
    assert not hasattr(model, "coef_")
    bounded = ps.StreamRegressor(loss="poisson", penalty="nonnegative").fit(X, COUNTS, offset=OFFSET)
    assert (bounded.coef_ >= 0.0).all()


@pytest.mark.parametrize("kind", [ps.StreamRegressor, ps.CertifiedRegressor])
def test_bad_offsets_are_named(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"offset is for the losses poisson, gamma and tweedie.*got squared"):
        kind().fit(X, COUNTS, offset=OFFSET)
    model = kind(loss="poisson")
    with pytest.raises(ValueError, match=r"offset must have shape \(150,\), got \(3,\)"):
        model.fit(X, COUNTS, offset=OFFSET[:3])
    with pytest.raises(ValueError, match=r"offset must have an exponential .* got 1000 at index 2"):
        model.fit(X, COUNTS, offset=np.where(np.arange(150) == 2, 1000.0, OFFSET))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, COUNTS, offset=np.full(150, np.nan))


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie(1.3)"])
def test_a_row_with_an_offset_is_a_weighted_row_without(name: str) -> None:
    loss, p, y = ps.losses.get(name), RNG.normal(size=150), COUNTS + 0.5
    rows = absorbed(loss, y, OFFSET)
    expected = rows.factors * loss.value(p, rows.y) + rows.constants
    np.testing.assert_allclose(loss.value(p + OFFSET, y), expected, rtol=1e-10)


def test_gamma_streams_take_offset_and_penalty_together() -> None:
    algorithm, penalty = ps.FTRLProximal(alpha=0.3), ps.L1(0.05)
    reference = ps.OnlineLearner(algorithm, penalty, dim=4)
    amounts = COUNTS + 0.5
    for x, y, o in zip(X, amounts, OFFSET, strict=True):
        reference.update((1.0 - y * np.exp(-(x @ reference.point + o))) * x)
    model = ps.StreamRegressor(algorithm, "gamma", penalty, fit_intercept=False).fit(X, amounts, offset=OFFSET)
    np.testing.assert_allclose(model.coef_, reference.point, rtol=1e-9, atol=1e-12)
