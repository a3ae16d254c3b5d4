"""The numbers behind figures: equal to those of scikit-learn on all rows, whatever the stream's cuts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn import calibration as sk_calibration, metrics as sk

from proxstream import losses
from proxstream.data.measures import SCORE_BITS, bins, middles
from proxstream.data.metrics import BinaryMetrics
from proxstream.data.tallies import BinaryTally
from proxstream.report import curves
from proxstream.report.collect import Confusion, NumberPairs, WatchedTally, collector, hashes

NONE = np.empty(0)


def rows(seed: int, n: int = 3000, *, in_bins: bool = False) -> tuple[Any, Any, Any]:
    """Return scores, labels and weights; the scores are middles of bins if they are to be counted exactly."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    scores = 1.3 * rng.normal(size=n) + 0.8 * y
    if in_bins:
        scores = middles(SCORE_BITS)[bins(scores, SCORE_BITS)]
    return scores, y, rng.integers(1, 5, n).astype(np.float64)


def counts(scores: Any, y: Any, c: Any = NONE) -> Any:
    tally = BinaryTally(losses.logistic)
    tally.add(scores, y, c)
    return tally.arrays["scores"]


# -- two classes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_roc_is_scikit_learns(seed: int) -> None:
    scores, y, c = rows(seed, in_bins=True)
    x, t, _ = sk.roc_curve(y, scores, sample_weight=c, drop_intermediate=False)
    ours = curves.roc(counts(scores, y, c))
    assert ours is not None
    assert np.allclose(ours.x, x, rtol=0, atol=1e-12)
    assert np.allclose(ours.y, t, rtol=0, atol=1e-12)
    assert np.trapezoid(ours.y, ours.x) == pytest.approx(sk.roc_auc_score(y, scores, sample_weight=c), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_points_of_binned_scores_are_points_of_the_exact_curve(seed: int) -> None:
    scores, y, c = rows(seed)
    exact = np.stack(sk.roc_curve(y, scores, sample_weight=c, drop_intermediate=False)[:2], axis=1)
    ours = curves.roc(counts(scores, y, c))
    assert ours is not None
    found = np.stack(ours, axis=1)
    assert len(found) < len(exact)
    distances = np.abs(found[:, None] - exact).max(axis=2).min(axis=1)
    assert distances.max() < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_precision_and_recall_are_scikit_learns(seed: int) -> None:
    scores, y, c = rows(seed, in_bins=True)
    precision, recall, _ = sk.precision_recall_curve(y, scores, sample_weight=c)
    ours = curves.precision_recall(counts(scores, y, c))
    assert ours is not None
    assert np.allclose(ours.x, recall[-2::-1], rtol=0, atol=1e-12)  # theirs rises with the threshold and adds (0, 1)
    assert np.allclose(ours.y, precision[-2::-1], rtol=0, atol=1e-12)
    average = sk.average_precision_score(y, scores, sample_weight=c)
    assert curves.average_precision(ours) == pytest.approx(average, abs=1e-12)


def test_calibration_is_scikit_learns() -> None:
    rng = np.random.default_rng(5)
    scores = middles(SCORE_BITS)[rng.choice(bins(np.array([-3.0, 3.0]), SCORE_BITS)[0] + np.arange(1500), 1000, False)]
    p = losses.logistic.probabilities(scores)
    y = np.where(rng.random(1000) < p**1.3, 1.0, -1.0)
    share, mean = sk_calibration.calibration_curve(y > 0, p, n_bins=10, strategy="quantile")
    for ours in (curves.calibration(counts(scores, y)), _metrics(scores, y).calibration()):
        weight, ours_mean, ours_share = np.array(ours).T
        assert weight.tolist() == [100.0] * 10
        assert np.allclose(ours_mean, mean, rtol=0, atol=1e-12)
        assert np.allclose(ours_share, share, rtol=0, atol=1e-12)


def _metrics(scores: Any, y: Any) -> BinaryMetrics:
    found = BinaryMetrics(losses.logistic)
    found.add(scores, y, NONE)
    return found


@given(st.lists(st.floats(-40, 40, width=32), min_size=1, max_size=50))
def test_probabilities_of_bins_are_close_to_those_of_the_rows(scores: list[float]) -> None:
    values, y = np.array(scores), np.ones(len(scores))
    near, exact = curves.calibration(counts(values, y)), _metrics(values, y).calibration()
    assert len(near) == len(exact)
    for (weight, mean, share), (weight_of, mean_of, share_of) in zip(near, exact, strict=True):
        assert (weight, share) == (weight_of, share_of)
        assert mean == pytest.approx(mean_of, abs=3e-4)


def test_one_class_has_no_curves() -> None:
    scores = np.array([0.5, -1.0])
    assert curves.roc(counts(scores, np.ones(2))) is None
    assert curves.roc(counts(scores, -np.ones(2))) is None
    assert curves.precision_recall(counts(scores, -np.ones(2))) is None
    assert curves.roc(counts(np.empty(0), np.empty(0))) is None
    assert curves.precision_recall(counts(np.empty(0), np.empty(0))) is None


def test_middles_are_in_their_bins_in_order() -> None:
    values = middles(SCORE_BITS)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0.0).all()
    ordinary = np.abs(values) < 1e38
    assert (bins(values[ordinary], SCORE_BITS) == np.flatnonzero(ordinary)).all()


# -- histograms and thinning ---------------------------------------------------------------------


def test_a_histogram_counts_what_numpy_counts() -> None:
    rng = np.random.default_rng(0)
    values, weights = np.sort(rng.normal(size=500)), rng.random((500, 2))
    edges, found = curves.histogram(values, weights, 20, (-1.5, 1.5))
    for series, ours in zip(weights.T, found, strict=True):
        naive = np.histogram(np.clip(values, -1.5, 1.5), edges, weights=series)[0]
        assert np.allclose(ours, naive, rtol=0, atol=1e-12)


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=30))
def test_a_histogram_has_all_the_weight_between_rising_edges(numbers: list[float]) -> None:
    values = np.sort(np.array(numbers))
    edges, found = curves.histogram(values, np.ones((len(values), 1)))
    assert np.isfinite(edges).all()
    assert (np.diff(edges) > 0.0).all()
    assert found.sum() == len(values)


def test_a_histogram_leaves_far_values_to_its_outermost_bars() -> None:
    values = np.sort(np.append(np.random.default_rng(0).normal(size=10_000), [1e20, -1e20]))
    edges, found = curves.histogram(values, np.ones((len(values), 1)))
    assert abs(edges).max() < 5.0
    assert found.sum() == len(values)


def test_a_rare_class_has_its_own_tails_in_a_histogram() -> None:
    values = np.linspace(-5.0, 5.0, 1001)
    weights = np.stack((1e6 * (values < 0.0), 1.0 * (values > 2.0)), axis=1)
    edges, found = curves.histogram(values, weights)
    assert edges[-1] > 4.9
    assert found[1, -1] < 0.1 * found[1].sum()


def test_a_thinned_curve_keeps_its_ends_and_leaves_no_gap() -> None:
    scores, y, _ = rows(1, 20_000)
    full = curves.roc(counts(scores, y))
    assert full is not None
    few = curves.thin(full, 100)
    assert len(few.x) <= 102
    assert [(curve.x[0], curve.y[0], curve.x[-1], curve.y[-1]) for curve in (few, full)] == [(0, 0, 1, 1)] * 2
    points, kept = np.stack(full, axis=1), np.stack(few, axis=1)
    assert (np.abs(points[:, None] - kept).sum(axis=2).min(axis=1) < 2.0 / 100).all()
    assert curves.thin(few, 1000) is few


# -- numbers and classes -------------------------------------------------------------------------


def pairs_of(scores: Any, y: Any, c: Any, cuts: list[int], sample: int = 20) -> NumberPairs:
    found = NumberPairs(losses.squared, sample)
    for start, stop in zip([0, *cuts], [*cuts, len(y)], strict=True):
        found.add(scores[start:stop], y[start:stop], c[start:stop])
    return found


@given(st.lists(st.integers(0, 200), max_size=6), st.integers(0, 3))
def test_what_is_collected_of_numbers_does_not_depend_on_cuts(cuts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, y, c = rng.normal(size=200), rng.normal(size=200), rng.integers(0, 3, 200).astype(np.float64)
    whole, cut = pairs_of(scores, y, c, []), pairs_of(scores, y, c, sorted(cuts))
    for name in ("labels", "predictions", "residuals", "groups"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name))


def test_the_sample_has_the_rows_of_the_smallest_hashes() -> None:
    rng = np.random.default_rng(0)
    scores, y, c = rng.normal(size=500), rng.normal(size=500), rng.integers(0, 2, 500).astype(np.float64)
    found = pairs_of(scores, y, c, [100, 250])
    there = np.flatnonzero(c)
    chosen = np.sort(there[np.argsort(hashes(there.astype(np.uint64)))[:20]])
    assert np.array_equal(found.labels, y[chosen])
    assert np.array_equal(found.predictions, scores[chosen])
    assert found.rows == len(there)


def test_the_sample_is_even() -> None:
    """Each tenth of the stream has about a tenth of the sample: within five standard deviations of it."""
    n, sample = 100_000, 2000
    found = NumberPairs(losses.squared, sample)
    found.add(np.zeros(n), np.arange(n, dtype=np.float64), NONE)
    tenths = np.bincount((found.labels // (n // 10)).astype(int), minlength=10)
    assert np.abs(tenths - sample / 10).max() < 5 * np.sqrt(sample * 0.1 * 0.9)


def test_means_of_groups_are_those_of_sorted_rows() -> None:
    rng = np.random.default_rng(2)
    scores = middles(SCORE_BITS)[bins(np.array([1.0]), SCORE_BITS)[0] + rng.choice(2000, 1000, False)]
    y = scores + rng.normal(size=1000)
    order = np.argsort(scores)
    naive = [[scores[group].mean(), y[group].mean()] for group in np.split(order, 10)]
    assert np.allclose(pairs_of(scores, y, np.ones(1000), []).means(), naive, rtol=0, atol=1e-10)


def test_residuals_are_those_of_the_mean_that_the_loss_predicts() -> None:
    found = NumberPairs(losses.poisson)
    found.add(np.log([2.0, 5.0]), np.array([3.0, 5.0]), np.array([1.0, 4.0]))
    expected = np.zeros(1 << SCORE_BITS)
    expected[bins(np.array([3.0, 5.0]) - np.exp(np.log([2.0, 5.0])), SCORE_BITS)] = [1.0, 4.0]
    assert np.array_equal(found.residuals, expected)


def test_the_confusion_matrix_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    scores, y, c = rng.normal(size=(300, 4)), rng.integers(0, 4, 300), rng.random(300)
    found = Confusion(4)
    for start in range(0, 300, 70):
        part = slice(start, start + 70)
        found.add(scores[part], y[part].astype(np.float64), c[part])
    assert np.allclose(found.weights, sk.confusion_matrix(y, scores.argmax(axis=1), sample_weight=c), atol=1e-12)


def test_a_watched_tally_counts_as_before_and_passes_on() -> None:
    tally, seen = BinaryTally(losses.logistic), Confusion(2)
    watched = WatchedTally(tally, seen)
    scores, y, c = rows(0, 50)
    tally_alone = BinaryTally(losses.logistic)
    tally_alone.add(scores, y, c)
    seen.add = lambda *given: setattr(seen, "given", given)  # type: ignore[method-assign]
    watched.add(scores, y, c)
    assert np.array_equal(watched.arrays["scores"], tally_alone.arrays["scores"])
    assert watched.facts() == tally_alone.facts()
    assert watched.best_constant() == tally_alone.best_constant()
    assert seen.given[0] is scores  # type: ignore[attr-defined]


def test_what_collects_fits_the_loss() -> None:
    assert isinstance(collector(losses.squared, 1), NumberPairs)
    assert isinstance(collector(losses.softmax, 3), Confusion)
    assert isinstance(collector(losses.logistic, 3), Confusion)  # one-vs-rest
    assert collector(losses.logistic, 1) is None
    assert collector(losses.get("ranking_hinge"), 1, ranking=True) is None
