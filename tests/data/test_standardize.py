"""Standardized columns: against NumPy's means and deviations of every prefix, however rows are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.data.rowblock import RowBlock
from proxstream.data.standardize import Standardizer

from ..examples import examples


def naive(X: Any, c: Any) -> Any:
    """Standardize each row by means and deviations of the rows up to it; NaN is a missing number."""
    Z = np.full(X.shape, np.nan)
    for i in range(len(X)):
        for j in np.flatnonzero(~np.isnan(X[i])):
            seen = X[: i + 1, j]
            weights = np.where(np.isnan(seen), 0.0, c[: i + 1])
            if not weights.any():
                Z[i, j] = 0.0
                continue
            seen = np.nan_to_num(seen)
            mean = np.average(seen, weights=weights)
            deviation = np.sqrt(np.average((seen - mean) ** 2, weights=weights))
            Z[i, j] = (X[i, j] - mean) / deviation if len(set(seen[weights > 0.0])) > 1 else 0.0
    return Z


def as_rows(X: Any, c: Any, first: int = 5) -> RowBlock:
    """Return a matrix as rows with a feature 0 beside the columns, which start at `first`."""
    present = ~np.isnan(X)
    indices = [np.r_[0, first + np.flatnonzero(row)] for row in present]
    data = [np.r_[7.0, X[i][row]] for i, row in enumerate(present)]
    indptr = np.cumsum([0, *map(len, indices)])
    return RowBlock(indptr, np.concatenate(indices).astype(np.int32), np.concatenate(data), np.zeros(len(X)), c)


@st.composite
def tables(draw: Any) -> tuple[Any, Any]:
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    cells = st.one_of(
        st.just(float("nan")), st.integers(-3, 3).map(float), st.integers(99_000, 101_000).map(lambda x: x / 1000)
    )
    X = np.array(draw(st.lists(st.lists(cells, min_size=d, max_size=d), min_size=n, max_size=n)))
    c = np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n)))
    return X, c


@given(tables())
@examples(100)
def test_rows_are_standardized_by_the_rows_up_to_them(table: tuple[Any, Any]) -> None:
    X, c = table
    rows = as_rows(X, c)
    found = Standardizer(X.shape[1], first=5).transform(rows, learn=True)
    expected = as_rows(naive(X, c), c)
    np.testing.assert_allclose(found.data, expected.data, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found.indices, rows.indices)


@given(tables(), st.lists(st.integers(0, 12), max_size=4))
@examples(50)
def test_cuts_change_no_bit(table: tuple[Any, Any], cuts: list[int]) -> None:
    X, c = table
    rows, whole, cut = as_rows(X, c), Standardizer(X.shape[1], 5), Standardizer(X.shape[1], 5)
    expected = whole.transform(rows, learn=True, dtype=np.float32)
    ends = sorted({0, *(min(end, len(X)) for end in cuts), len(X)})
    pieces = [cut.transform(rows.slice(*ends[k : k + 2]), learn=True, dtype=np.float32) for k in range(len(ends) - 1)]
    assert np.concatenate([piece.data for piece in pieces]).tobytes() == expected.data.tobytes()
    assert cut.state.tobytes() == whole.state.tobytes()


def test_means_far_from_zero_keep_their_digits() -> None:
    x = 1.7e9 + np.random.default_rng(0).normal(size=5000)
    columns = Standardizer(1)
    z = columns.transform(RowBlock(np.arange(5001), np.zeros(5000, np.int32), x, np.zeros(5000)), learn=True).data
    assert columns.means[0] == pytest.approx(np.mean(x - 1.7e9) + 1.7e9, abs=6e-4)  # 5,000 roundings to 2e-7
    assert columns.deviations[0] == pytest.approx(np.std(x - 1.7e9), rel=1e-5)
    assert np.abs(z).max() < 6.0


def test_fixed_statistics_do_not_change() -> None:
    columns, rows = Standardizer(2, 5), as_rows(np.array([[1.0, 2.0], [3.0, 2.0]]), np.ones(2))
    columns.transform(rows, learn=True)
    before = columns.state.copy()
    later = columns.transform(rows, learn=False)
    np.testing.assert_array_equal(later.data, [7.0, -1.0, 0.0, 7.0, 1.0, 0.0])
    np.testing.assert_array_equal(columns.state, before)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_folded_weights_give_the_same_scores(outputs: int, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    X = 1e4 + rng.normal(size=(50, 3))
    X[:, 1] = 4.0  # a constant, whose weight is 0 in the units of the columns
    columns, c = Standardizer(3, first=5), np.ones(50)
    columns.transform(as_rows(X, c), learn=True)
    coef = rng.normal(size=(8, outputs) if outputs > 1 else 8).astype(dtype)
    intercept = rng.normal(size=outputs) if outputs > 1 else 0.25
    scores = columns.transform(as_rows(X, c), learn=False).scores(coef.astype(np.float64), intercept)
    folded = columns.fold(coef, intercept)
    raw = as_rows(X, c).scores(folded.coef.astype(np.float64), folded.intercept)
    np.testing.assert_allclose(raw, scores, atol=1e-6)
    assert folded.coef.dtype == dtype
    np.testing.assert_array_equal(folded.coef[6], 0.0 * coef[6])


def test_a_stream_of_arrays() -> None:
    rng = np.random.default_rng(2)
    X, c = 50.0 + rng.normal(size=(30, 2)), rng.integers(0, 3, 30).astype(float)
    batches = [(X[:7], np.zeros(7), c[:7]), (X[7:], np.zeros(23), c[7:])]
    stream = ps.StandardizedStream(batches)
    first = np.concatenate([Z for Z, *_ in stream])
    np.testing.assert_allclose(first, naive(X, c), atol=1e-9)
    second = np.concatenate([Z for Z, *_ in stream])
    mean = np.average(X, axis=0, weights=c)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=c))
    np.testing.assert_allclose(second, (X - mean) / deviation, atol=1e-9)
    np.testing.assert_allclose(stream.transform(X), second)
    np.testing.assert_allclose(stream.means_, mean)
    np.testing.assert_allclose(stream.deviations_, deviation)


def test_a_stream_refuses_what_it_cannot_standardize() -> None:
    from scipy.sparse import eye

    with pytest.raises(TypeError, match="dense matrices"):
        list(ps.StandardizedStream([(eye(2), [1, 2])]))
    with pytest.raises(ValueError, match="must have 2 columns as before, got 3"):
        list(ps.StandardizedStream([(np.eye(2), [1, 2]), (np.eye(3), [1, 2, 3])]))
    with pytest.raises(ValueError, match="finite numbers"):
        list(ps.StandardizedStream([(np.full((1, 1), np.nan), [1])]))
    with pytest.raises(TypeError, match=r"\(X, y\)"):
        list(ps.StandardizedStream([np.eye(2)]))
    once = ps.StandardizedStream(iter([(np.eye(2), [1, 2])]))
    list(once)
    with pytest.raises(ValueError, match="read again"):
        list(once)


@pytest.mark.parametrize("state", [np.zeros((3, 1)), np.full((3, 2), np.nan), -np.ones((3, 2))])
def test_statistics_that_do_not_fit_are_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="2 weights, means and squares"):
        Standardizer(2).restore(state)
