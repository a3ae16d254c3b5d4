"""Rows that look ordered by their labels: the ratio against its definition, its mean, and what it calls ordered."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from proxstream.core.validation import Array
from proxstream.data.order import FIRST, LIMIT, LabelOrder

from ..examples import examples


def naive_ratio(y: Array, n_classes: int) -> float:
    """Return von Neumann's ratio of numbers, or of unit vectors."""
    points = np.eye(n_classes)[y.astype(int)] if n_classes else y[:, None]
    spread = 2.0 * float(np.sum((points - points.mean(axis=0)) ** 2))
    return float(np.sum(np.diff(points, axis=0) ** 2)) / spread if spread else float("nan")


@examples(60)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 700),
    n_classes=st.sampled_from([0, 2, 5]),
    cuts=st.lists(st.integers(1, 699), max_size=5),
)
def test_the_ratio_is_its_definition_however_labels_are_cut(seed: int, n: int, n_classes: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n).astype(float) if n_classes else 1e3 + rng.normal(size=n)
    if seed % 2:
        y = np.sort(y)
    whole, pieces = LabelOrder(n_classes), LabelOrder(n_classes)
    found = [whole.add(y)]
    parts = [pieces.add(part) for part in np.split(y, sorted({cut for cut in cuts if cut < n}))]
    assert any(parts) == any(found)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(pieces.arrays[name], array)
    np.testing.assert_allclose(whole.ratio(), naive_ratio(y, n_classes), rtol=1e-6)


@pytest.mark.parametrize(
    ("y", "n_classes"), [((0, 0, 1, 2, 2, 2), 3), ((1, 1, -1, 1, 1, 1), 0), ((3, 9, -4, 0.5, 7, 7), 0)]
)
def test_over_all_orders_of_the_labels_the_mean_ratio_is_one(y: tuple[float, ...], n_classes: int) -> None:
    found = []
    for order in permutations(y):
        labels = LabelOrder(n_classes)
        labels.add(np.array(order, float))
        found.append(labels.ratio())
    assert np.mean(found) == pytest.approx(1.0, rel=1e-12)


def looks_ordered(y: Array, n_classes: int = 0) -> bool:
    labels = LabelOrder(n_classes)
    return labels.add(y) or labels.judge()


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_labels_never_look_ordered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for share in (0.5, 0.1, 0.01, 0.001):
        for n in (FIRST, 1000, 20_000):
            assert not looks_ordered(np.where(rng.random(n) < share, 1.0, -1.0))
    for y in (rng.normal(size=5000), rng.standard_cauchy(5000), rng.exponential(size=5000), rng.poisson(0.1, 5000)):
        assert not looks_ordered(np.asarray(y, float))
    assert not looks_ordered(rng.integers(10, size=5000).astype(float), 10)
    assert not looks_ordered(rng.choice(10, p=[0.91, *[0.01] * 9], size=5000).astype(float), 10)


def test_runs_and_sorted_labels_look_ordered() -> None:
    rng = np.random.default_rng(0)
    assert looks_ordered(np.repeat([-1.0, 1.0], [900, 100]))  # at the end, no power of two
    assert looks_ordered(np.repeat(rng.choice([-1.0, 1.0], 60), 20))  # runs of 20
    assert looks_ordered(np.repeat(np.arange(10.0), 50), 10)
    assert looks_ordered(np.sort(rng.normal(size=1000)))
    assert looks_ordered(np.cumsum(rng.normal(size=1000)))
    mild = np.repeat(rng.choice([-1.0, 1.0], 1000), 3)  # three rows of a visitor
    assert not looks_ordered(mild)
    assert naive_ratio(mild, 0) > 2 * LIMIT


def test_few_rows_and_a_single_label_are_not_judged() -> None:
    assert not looks_ordered(np.sort(np.random.default_rng(0).normal(size=FIRST - 1)))
    assert not looks_ordered(np.ones(5000))


def test_order_is_reported_once() -> None:
    labels = LabelOrder()
    y: Any = np.repeat([-1.0, 1.0], 300)
    assert [labels.add(part) for part in np.split(np.tile(y, 4), 4)] == [True, False, False, False]
    assert not labels.judge()
