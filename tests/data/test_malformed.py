"""Malformed sparse matrices are refused at every way in, and never crash; odd but sound ones mean what they say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

import proxstream as ps
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.data.sparse_checks import check_csr, check_sparse, is_canonical
from proxstream.learner.learner import Learner

from ..examples import examples
from .malformed_cases import BLOCK_WAYS, DENSE, LABELS, MALFORMED, WAYS, D, N, cases, changed, made

EVERY_WAY = (*WAYS, *(f"block {way}" for way in BLOCK_WAYS))


@pytest.mark.parametrize("ways", [pytest.param(EVERY_WAY, marks=pytest.mark.exhaustive, id="all"), EVERY_WAY[::5]])
def test_malformed_matrices_crash_no_way_in(ways: tuple[str, ...]) -> None:
    """In a process of its own, which is what a crash would end."""
    command = [sys.executable, "-m", "tests.data.malformed_cases", *ways]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent.parent, capture_output=True, text=True, check=False)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.returncode, lines[-1:], done.stderr[-500:])
    expected = [(name, case) for name in ways for case in cases(name)]
    assert [(name, case) for name, case, _ in lines] == expected
    assert len(expected) > 35 * len(ways)
    kinds = ("ValueError: ", "TypeError: ", "DataError: ")
    assert [line for line in lines if not line[2].startswith(kinds) or " must " not in line[2]] == []


PLACES = {
    "index beyond the columns": "indices must be in 0..3, got 99 at position 3, in row 1",
    "index -1": "indices must be in 0..3, got -1 at position 3, in row 1",
    "indptr falls": "indptr must not fall, got row 2 from 4 to 1",
    "indptr past the end": "the 1000000000 at which row 5 ends, got 12 indices and 12 values",
    "csc index": "indices must be in 0..5, got 1073741824 at position 3, in column 1",
    "coo column": "col must be in 0..3, got 4 at position 3",
}


@pytest.mark.parametrize("case", PLACES)
def test_the_place_and_the_value_are_named(case: str) -> None:
    with pytest.raises(ValueError, match="X is malformed: ") as error:
        as_block(MALFORMED[case]())
    assert PLACES[case] in str(error.value)


def test_a_refused_matrix_changes_no_model() -> None:
    model = ps.StreamClassifier(ps.RDA()).fit(DENSE, LABELS)
    before = model._learner.state_dict()
    for case, make in MALFORMED.items():
        with pytest.raises((TypeError, ValueError)):
            model.partial_fit(make(), LABELS)
        after = model._learner.state_dict()
        assert all(np.array_equal(before[name], after[name]) for name in before), case


# -- sound matrices in odd forms -----------------------------------------------------------------


def twisted(X: Any) -> Any:
    """Return the same matrix: each row turned round, and each entry as two halves."""
    at = [np.arange(a, b)[::-1].repeat(2) for a, b in pairwise(X.indptr)]
    at = np.concatenate(at)
    return sparse.csr_array((X.data[at] / 2, X.indices[at], 2 * X.indptr), shape=X.shape)


def lying(X: Any) -> Any:
    """Return a matrix whose flags are wrong."""
    X.has_sorted_indices = X.has_canonical_format = True
    return X


def longer(X: Any) -> Any:
    """Return a matrix whose arrays have room for more, as scipy leaves it."""
    X.indices = np.append(X.indices, np.full(3, 1 << 29, X.indices.dtype))
    X.data = np.append(X.data, np.full(3, 7.0))
    return X


def strided(X: Any) -> Any:
    X.indices, X.data = X.indices.repeat(2)[::2], X.data.repeat(2)[::2]
    return X


SOUND: dict[str, Callable[[], Any]] = {
    **{format: lambda format=format: made(format) for format in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")},
    "matrix": lambda: made(kind=sparse.csr_matrix),
    "int64": lambda: made(indices=lambda a: a.astype(np.int64), indptr=lambda a: a.astype(np.int64)),
    "mixed": lambda: made(indices=lambda a: a.astype(np.int64)),
    "twisted": lambda: twisted(made()),
    "twisted with lying flags": lambda: lying(twisted(made())),
    "csc with lying flags": lambda: lying(twisted(made("csc").T.tocsr()).T),
    "room for more": lambda: longer(made()),
    "strided": lambda: strided(made()),
    "explicit zeros": lambda: sparse.csr_array(
        (np.append(made().data, 0.0), np.append(made().indices, 0), made().indptr)
    ),
}


@pytest.mark.parametrize("form", SOUND)
def test_one_matrix_is_one_block_in_any_form(form: str) -> None:
    X = SOUND[form]()
    before = [np.array(part, copy=True) for part in (X.data, X.indices, X.indptr)] if X.format == "csr" else []
    block, expected = as_block(X), as_block(DENSE)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(block, name), getattr(expected, name))
    for part, was in zip((X.data, X.indices, X.indptr) if before else (), before, strict=True):
        np.testing.assert_array_equal(part, was)


@pytest.mark.parametrize("form", ["twisted with lying flags", "csc with lying flags", "room for more"])
def test_estimators_do_not_trust_flags(form: str) -> None:
    algorithm = ps.AdaGrad(eta=0.5)
    expected = ps.StreamClassifier(algorithm).fit(DENSE, LABELS)
    model = ps.StreamClassifier(algorithm).fit(SOUND[form](), LABELS)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.decision_function(SOUND[form]()), expected.decision_function(DENSE))


@st.composite
def csr_arrays(draw: Any) -> tuple[Any, Any, int]:
    counts = draw(st.lists(st.integers(0, 4), max_size=6))
    indptr = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(draw(st.sampled_from(["i4", "i8"])))
    width = draw(st.integers(1, 5))
    size = int(indptr[-1])
    indices = draw(st.lists(st.integers(-1, width), min_size=size, max_size=size))
    return indptr, np.array(indices, draw(st.sampled_from(["i4", "i8"]))), width


@given(csr_arrays())
@examples(300)
def test_checks_agree_with_a_look_at_every_entry(case: tuple[Any, Any, int]) -> None:
    indptr, indices, width = case
    rows = [indices[a:b].tolist() for a, b in pairwise(indptr)]
    sound = all(0 <= j < width for row in rows for j in row)
    data = np.ones(len(indices))
    if not sound:
        with pytest.raises(ValueError, match=r"indices must be in 0\.\.") as error:
            check_csr(indptr, indices, data, width)
        i, at = next((i, a) for i, row in enumerate(rows) for a, j in enumerate(row) if not 0 <= j < width)
        assert f"got {rows[i][at]} at position {indptr[i] + at}, in row {i}" in str(error.value)
        return
    assert check_csr(indptr, indices, data, width) == max((j + 1 for row in rows for j in row), default=0)
    assert is_canonical(indptr, indices) == all(a < b for row in rows for a, b in pairwise(row))


def test_a_block_of_other_arrays_is_refused() -> None:
    good = as_block(DENSE, 2.0 * LABELS - 1.0)
    learner = Learner(ps.RDA(), "logistic", n_features=D)
    bad: list[RowBlock] = [
        good._replace(data=good.data.astype(np.int64)),
        good._replace(data=good.data.astype(np.float16)),
        good._replace(data=good.data.tolist()),  # type: ignore[arg-type]
        good._replace(indices=good.indices.astype(np.uint32)),
        good._replace(indices=good.indices.tolist()),  # type: ignore[arg-type]
        good._replace(y=good.y.tolist()),  # type: ignore[arg-type]
        good._replace(y=good.y.astype(object)),
        good._replace(c=[1.0] * N),  # type: ignore[arg-type]
        good._replace(c=np.ones(N, complex)),
    ]
    for block in bad:
        with pytest.raises(TypeError, match="must be"):
            learner.learn(block)
    assert learner.t == 0


def test_vectors_and_cubes_are_no_matrices() -> None:
    for X in (np.ones(3), np.ones((2, 2, 2)), sparse.coo_array(np.ones(3)), 3.0):
        with pytest.raises(ValueError, match="X must be a matrix, got shape"):
            as_block(X)
    with pytest.raises(TypeError, match="X must be a matrix of real numbers, got complex128"):
        as_block(np.ones((2, 2)) * 1j)


def test_a_vector_of_features_is_checked_too() -> None:
    vector = sparse.csr_array(np.ones(4))
    check_sparse(vector)
    vector.indices = changed(vector.indices, 2, 9)
    with pytest.raises(ValueError, match=r"in 0\.\.3, got 9 at position 2"):
        check_sparse(vector)
