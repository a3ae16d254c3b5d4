"""Checks of a state that comes from outside, such as a file: compiled loops trust what an engine holds.

An engine accepts arrays like its own: the same names, precisions and shapes, but for the number of rows of those that
grow with the features or the rounds. Positions that a loop reads from the state must be inside of its tables.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.validation import Array
from .memory import copied_to_lines


def restored(own: Mapping[str, Array], saved: Mapping[str, Array], grows: tuple[str, ...]) -> dict[str, Array]:
    """Return copies of saved arrays, after checking that they are of the kind that the engine itself keeps.

    >>> restored({"bias": np.zeros((1, 2))}, {"bias": np.ones((1, 2))}, grows=())
    {'bias': array([[1., 1.]])}
    >>> restored({"bias": np.zeros((1, 2))}, {"bias": np.ones((3, 2))}, grows=())
    Traceback (most recent call last):
    ValueError: bias of the state must have 1 rows of float64 of shape (2,), got float64 of shape (3, 2)
    """
    return {name: _like(name, array, saved, name in grows) for name, array in own.items()}


def _like(name: str, own: Array, arrays: Mapping[str, Array], grows: bool) -> Array:
    if name not in arrays:
        raise ValueError(f"the state must have the entry {name}, got {', '.join(sorted(arrays))}")
    saved = np.asarray(arrays[name])
    if saved.dtype != own.dtype or saved.ndim != own.ndim or saved.shape[grows:] != own.shape[grows:]:
        rows = "any number of rows" if grows else f"{len(own)} rows"
        raise ValueError(
            f"{name} of the state must have {rows} of {own.dtype} of shape {own.shape[1:]}, "
            f"got {saved.dtype} of shape {saved.shape}"
        )
    return copied_to_lines(saved)


def check_clock(clock: Array, *places: int) -> None:
    """Refuse counts that are not finite numbers >= 0."""
    bad = ~((clock[list(places)] >= 0.0) & (clock[list(places)] < 2.0**53))
    if bad.any():
        raise ValueError(f"the clock of the state must have counts >= 0, got {clock[list(places)][bad][0]}")


def check_rounds(name: str, rounds: Array, highest: float, table: tuple[str, Array]) -> None:
    """Refuse rounds outside of the table in which they are looked up."""
    if not highest < len(table[1]):
        raise ValueError(f"{table[0]} of the state must have {highest + 1:g} rows or more, got {len(table[1])}")
    bad = ~((rounds >= 0.0) & (rounds <= highest))
    if bad.any():
        raise ValueError(f"{name} of the state must hold rounds in 0..{highest:g}, got {rounds[bad][0]}")
