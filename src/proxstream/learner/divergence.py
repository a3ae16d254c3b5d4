"""Models that leave the finite numbers: the error that reports it, and the checks that find it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.validation import Array
from ..data.rowblock import RowBlock
from . import _finite as finite

REMEDY = "use a lower rate, scaled features, or AutoFTRL, which finds its own rates"


class DivergedError(FloatingPointError):
    """A row at which a score, a weight or another number of a model is not finite; `row` is its place in the block.

    `scores` are those of the block, of which the rows before this one count, where an engine has them.
    """

    scores: Array | None = None

    def __init__(self, row: int, place: str = "") -> None:
        where = f"{place}: the model has diverged" if place else f"the model has diverged in row {row} of the block"
        super().__init__(f"{where}: a score or a weight is not a finite number; {REMEDY}")
        self.row = row

    def __reduce__(self) -> Any:
        return _diverged, (self.row, str(self))


def _diverged(row: int, message: str) -> DivergedError:
    """Return the error as it was before it was pickled, by a worker for example."""
    error = DivergedError(row)
    error.args = (message,)
    return error


@contextmanager
def keeping_scores(scores: Array) -> Iterator[None]:
    """Give the scores of a block to a DivergedError about one of its rows."""
    try:
        yield
    except DivergedError as error:
        error.scores = scores
        raise


def is_careful(*arrays: Array) -> bool:
    """Return whether a state has numbers beside which quiet steps are not safe; see `_finite`.

    >>> is_careful(np.ones((2, 2), np.float32)), is_careful(np.full(3, 1e20, np.float32))
    (False, True)
    """
    for array in arrays:
        most = finite.LIMIT_32 if array.itemsize == 4 else finite.LIMIT_64
        if array.size and not max(abs(float(array.max())), abs(float(array.min()))) <= most:
            return True
    return False


def check(guard: Array) -> bool:
    """Raise a DivergedError if the loop over rows has found one; return whether to be careful from now on."""
    if guard[finite.ROW] >= 0.0:
        raise DivergedError(int(guard[finite.ROW]))
    return bool(guard[finite.CAREFUL])


def check_weights(weights: Array, rows: RowBlock) -> None:
    """Raise a DivergedError that names the last row with a weight (features first) that is not finite."""
    bad = ~np.isfinite(weights)
    if bad.any():
        features = np.flatnonzero(bad.reshape(len(weights), -1).any(axis=1))
        first, last = int(rows.indptr[0]), int(rows.indptr[-1])
        there = np.flatnonzero(np.isin(rows.indices[first:last], features))
        at = first + int(there[-1]) if len(there) else last
        raise DivergedError(max(int(np.searchsorted(rows.indptr, at, side="right")) - 1, 0))


def check_finite(learner: Any, place: str) -> None:
    """Raise a DivergedError unless all weights of a learner are finite; `place` is what it has learned from."""
    if not all(np.isfinite(values).all() for values in learner.weights()):
        raise DivergedError(-1, place)
