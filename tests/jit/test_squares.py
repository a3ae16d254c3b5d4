"""Squares, lines and strands of numbers: the compiled code is that of the plain functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proxstream.jit.byteops import SQUARE, dot_in_strands, every_nth, gather_square, pointer, scatter_square
from proxstream.jit.compile import compiled


@compiled
def _there_and_back(state: Any, places: Any, lines: Any, back: Any) -> None:
    gather_square(pointer(state), pointer(places), 2, 3, pointer(lines), 5, 20)
    scatter_square(pointer(lines), 5, 20, pointer(back), pointer(places), 2, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_are_those_of_the_plain_functions(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    state, places = rng.normal(size=(12, 16)).astype(dtype), rng.permutation(12)[: SQUARE + 2] * 16
    found = [np.zeros(200, dtype), np.zeros((12, 16), dtype)]
    expected = [np.zeros(200, dtype), np.zeros((12, 16), dtype)]
    _there_and_back(state, places, *found)
    gather_square(state.ravel(), places, 2, 3, expected[0], 5, 20)
    scatter_square(expected[0], 5, 20, expected[1].reshape(-1), places, 2, 3)
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(found[1][places[2:] // 16, 3:11], state[places[2:] // 16, 3:11])


@compiled
def _double_every_nth(lines: Any, k: int, n: int, m: int) -> None:
    columns = every_nth(lines, k, n)
    for q in range(m):
        for a in range(lines.shape[0] // n):
            columns[q, a] *= 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_nth_line_is_a_column_that_can_be_written(dtype: Any) -> None:
    found = np.arange(66, dtype=dtype).reshape(6, 11)
    expected = found.copy()
    _double_every_nth(found, 1, 3, 11)
    every_nth(expected, 1, 3)[...] *= 2
    assert np.array_equal(found, expected)
    assert np.array_equal(found[[1, 4]], 2 * np.arange(66, dtype=dtype).reshape(6, 11)[[1, 4]])


@compiled
def _strands(w: Any, v: Any, n: int) -> float:
    return dot_in_strands(pointer(w), pointer(v), n)


@pytest.mark.parametrize("n", [0, 1, 8, 13, 40])
def test_strands_add_up_in_their_order(n: int) -> None:
    rng = np.random.default_rng(n)
    w, v = (rng.normal(size=n + SQUARE).astype(np.float32) for _ in range(2))
    v[n:] = 0.0
    products = (w * v)[: -(-n // SQUARE) * SQUARE].astype(np.float64).reshape(-1, SQUARE)
    total = 0.0
    for strand in products.T:
        own = 0.0
        for product in strand:
            own += product
        total += own
    assert _strands(w, v, n) == dot_in_strands(w, v, n) == total
    assert _strands(w.astype(float), v.astype(float), n) == pytest.approx(float(w[:n].astype(float) @ v[:n]), rel=1e-12)
