"""Squares of numbers between cells and lines: the compiled code is that of the plain functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proxstream.jit.byteops import SQUARE, gather_square, pointer, scatter_square
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
