"""Sums that run in the order of the rows, so that they do not depend on how a stream was cut."""

from __future__ import annotations

import numpy as np

from ..core.validation import Array


def add_in_order(total: float, terms: Array) -> float:
    """Return total + terms[0] + terms[1] + ..., one after the other; NumPy's own sum adds in pairs.

    >>> add_in_order(1.0, np.array([1e-16] * 4)), 1.0 + np.sum([1e-16] * 4) > 1.0
    (1.0, np.True_)
    """
    return float(np.cumsum(np.concatenate(([total], terms)))[-1])
