"""Penalties in kernels: every separable one folds into two strengths and two bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit.compile import generic
from ..records import NamedTuple
from . import Penalty


class Plain(NamedTuple):
    """l1 |x| + (l2/2) x^2."""

    l1: float
    l2: float


class Bounded(NamedTuple):
    """l1 |x| + (l2/2) x^2 for lo <= x <= hi."""

    l1: float
    l2: float
    lo: float
    hi: float


@generic
def clip(penalty: Any, x: float) -> float:
    """Return x moved into the bounds."""
    return x


@clip.of(Bounded)
def _(penalty: Any, x: float) -> float:
    return min(max(x, penalty.lo), penalty.hi)


@generic
def solve(penalty: Any, u: float, h: float, threshold: float, ridge: float) -> float:
    """Return the solution of (*) for one coordinate; threshold = k l1 and ridge = k l2 are made once a row.

    u less its part within the threshold, and no branch: which weights are zero is what a processor cannot guess.
    h + ridge must be > 0, also for a feature never seen.
    """
    return clip(penalty, (min(max(u, -threshold), threshold) - u) / (h + ridge))


def as_tuple(penalty: Penalty, dtype: Any) -> Any:
    """Return the named tuple that stands for `penalty` in a kernel, or None if it does not fold."""
    if not penalty.separable:
        return None
    terms = penalty.terms((1,))
    if terms.bends or any(np.ndim(value) for value in terms[:4]):
        return None
    l1, l2, lo, hi = (dtype(value) for value in terms[:4])
    return Plain(l1, l2) if lo == -np.inf and hi == np.inf else Bounded(l1, l2, lo, hi)
