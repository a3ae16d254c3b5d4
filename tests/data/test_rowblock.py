"""Row blocks against dense matrices: slices, copies of rows, concatenation, sorting, and what is checked how often."""

from __future__ import annotations

import gc
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.core import losses
from proxstream.core.validation import Array
from proxstream.data import rowblock, sparse_checks
from proxstream.data.rowblock import NO_WEIGHTS, RowBlock, as_block
from proxstream.io import Chunk, Position
from proxstream.learner.learner import Learner
from proxstream.training.base_session import Plan
from proxstream.training.labels import Labels
from proxstream.training.session import Session

from ..examples import examples

N, D = 12, 5


def block(seed: int = 0, *, weighted: bool = True, loose: bool = False) -> RowBlock:
    """Rows with some empty ones; a loose block has entries before and after those of its rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.5)
    X[rng.integers(N)] = 0.0
    rows = as_block(X, rng.standard_normal(N), rng.random(N) if weighted else None)
    if not loose:
        return rows
    indices = np.concatenate((np.full(3, 77, np.int32), rows.indices, np.full(2, 99, np.int32)))
    data = np.concatenate((np.full(3, np.nan), rows.data, np.full(2, np.inf)))
    return rows._replace(indptr=rows.indptr + 3, indices=indices, data=data)


def dense(rows: RowBlock) -> Array:
    X = np.zeros((rows.n_rows, D))
    for i in range(rows.n_rows):
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            X[i, rows.indices[q]] += rows.data[q]
    return X


def is_compact(rows: RowBlock) -> bool:
    return rows.indptr[0] == 0 and len(rows.indices) == len(rows.data) == rows.indptr[-1]


def same(got: RowBlock, X: Array, y: Array, c: Array) -> None:
    assert is_compact(got)
    np.testing.assert_array_equal(dense(got), X)
    np.testing.assert_array_equal(got.y, y)
    np.testing.assert_array_equal(got.c, c)


@examples(40)
@given(start=st.integers(0, N), length=st.integers(0, N), weighted=st.booleans(), loose=st.booleans())
def test_a_slice_has_its_rows_and_no_other_entries(start: int, length: int, weighted: bool, loose: bool) -> None:
    rows, stop = block(weighted=weighted, loose=loose), min(start + length, N)
    got = rows.slice(start, stop)
    same(got, dense(rows)[start:stop], rows.y[start:stop], rows.c[start:stop] if weighted else NO_WEIGHTS)
    assert len(got.data) == 0 or np.shares_memory(got.data, rows.data)
    assert got.indptr.dtype == rows.indptr.dtype


@examples(40)
@given(numbers=st.lists(st.integers(0, N - 1), max_size=20), weighted=st.booleans(), loose=st.booleans())
def test_rows_are_copied_in_any_order(numbers: list[int], weighted: bool, loose: bool) -> None:
    rows, at = block(weighted=weighted, loose=loose), np.array(numbers, np.int64)
    same(rows.take(at), dense(rows)[at], rows.y[at], rows.c[at] if weighted else NO_WEIGHTS)


@examples(40)
@given(cuts=st.lists(st.integers(0, N), max_size=5), loose=st.booleans())
def test_slices_concatenated_are_the_block(cuts: list[int], loose: bool) -> None:
    rows, edges = block(loose=loose), [0, *sorted(cuts), N]
    pieces = [rows.slice(a, b) for a, b in pairwise(edges)]
    same(RowBlock.concat(pieces), dense(rows), rows.y, rows.c)


def test_rows_without_weights_weigh_one_beside_others() -> None:
    a, b = block(0, weighted=True), block(1, weighted=False, loose=True)
    both = RowBlock.concat([a, b])
    same(both, np.vstack((dense(a), dense(b))), np.concatenate((a.y, b.y)), np.concatenate((a.c, np.ones(N))))
    assert len(RowBlock.concat([b, b]).c) == 0
    np.testing.assert_array_equal(b.weights(), np.ones(N))
    assert a.weights() is a.c


def test_rows_are_sorted_by_a_key_equal_ones_in_their_order() -> None:
    rows, key = block(), np.array([2, 1] * (N // 2))
    order = [*range(1, N, 2), *range(0, N, 2)]
    same(rows.sorted_by(key), dense(rows)[order], rows.y[order], rows.c[order])


@pytest.mark.parametrize("add_duplicates", [True, False])
def test_indices_are_sorted_within_rows(add_duplicates: bool) -> None:
    indptr, indices = np.array([1, 4, 4, 7]), np.array([9, 4, 0, 2, 3, 1, 3, 9], np.int32)
    rows = RowBlock(indptr, indices, np.array([np.nan, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.nan]), np.zeros(3))
    got = rows.sorted_indices(add_duplicates=add_duplicates)
    same(got, dense(rows), rows.y, rows.c)
    assert got.indices.tolist() == ([0, 2, 4, 1, 3] if add_duplicates else [0, 2, 4, 1, 3, 3])
    assert rows.slice(1, 2).sorted_indices().n_rows == 1


def test_rows_that_rise_already_are_not_copied() -> None:
    rows = block(loose=True)
    assert rows.sorted_indices() is rows


def test_values_outside_of_the_rows_are_not_checked() -> None:
    rows = block(loose=True)
    assert rows.check() == D
    assert rows.check_finite() == np.abs(dense(rows)).max()


def test_a_bad_value_is_named_by_its_row_in_the_slice() -> None:
    rows = as_block(np.diag([1.0, 2.0, np.nan, 4.0]))
    with pytest.raises(ValueError, match="in row 1 of the block"):
        rows.slice(1, 4).check_finite()
    assert rows.slice(3, 4).check_finite() == 4.0


# ---- how much is checked


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Entries that each check of indices or values looks at, while the checks run as ever."""
    counts: list[int] = []
    real: Callable[..., Any] = rowblock.in_pieces

    def counting(work: Callable[[int, int], Any], n: int, *more: Any, **named: Any) -> list[Any]:
        counts.append(n)
        return real(work, n, *more, **named)

    for module in (rowblock, sparse_checks):
        monkeypatch.setattr(module, "in_pieces", counting)
    return counts


class Memory:
    """Rows in memory as a source of one chunk."""

    names = ("memory",)

    def __init__(self, rows: RowBlock) -> None:
        self.rows = rows

    def chunks(self, start: Position = Position()) -> Any:  # noqa: B008
        if start.row < self.rows.n_rows:
            yield Chunk(self.rows, None, Position(row=self.rows.n_rows), 100)


@pytest.mark.parametrize("every", [1, 7, 300])
def test_training_checks_each_entry_as_often_however_often_it_reports(checked: list[int], every: int) -> None:
    rng = np.random.default_rng(0)
    rows = as_block(rng.random((300, 4)), np.where(rng.random(300) < 0.5, 1.0, -1.0))
    learner = Learner(ps.FTRLProximal(0.5), "logistic", ps.L1(0.01), growing=True)
    Session(learner, Labels(losses.logistic), Plan(passes=1, held_out=Fraction(0), every=every)).run(Memory(rows))
    assert learner.t == 300
    assert sum(checked) == 2 * len(rows.data)  # the indices once, the values once


@pytest.mark.parametrize("outputs", [(), (3,)])
@pytest.mark.parametrize("known", [0, 2, D, D + 2])
def test_scores_are_those_of_the_dense_matrix(outputs: tuple[int, ...], known: int) -> None:
    rows, rng = block(loose=True), np.random.default_rng(0)
    coef, intercept = rng.standard_normal((known, *outputs)), rng.standard_normal(outputs)
    expected = dense(rows)[:, :known] @ coef[:D] + intercept
    np.testing.assert_allclose(rows.scores(coef, intercept), expected, rtol=1e-12, atol=1e-12)


def test_kernels_get_rows_without_marks_of_read_only_memory() -> None:
    block = as_block(np.diag([1.0, 2.0, 3.0]), y=[1, 2, 3], c=[1, 2, 3])
    assert block.for_kernels() is block
    marked = RowBlock(*(part.copy() for part in block))
    for part in marked:
        part.flags.writeable = False
    rows = marked.for_kernels()
    for part, view, original in zip(marked, rows, block, strict=True):
        assert view.flags.writeable
        assert not part.flags.writeable
        assert np.shares_memory(part, view)
        assert view.dtype == part.dtype
        assert np.array_equal(view, original)
    del marked, part
    gc.collect()
    assert np.array_equal(rows.data, [1.0, 2.0, 3.0])
    assert RowBlock(*(np.frombuffer(b"", part.dtype) for part in block)).for_kernels().data.size == 0
