"""Whether a model stays finite: rows that could take it beyond finite numbers are looked at closely, all others not.

A row whose steps are small cannot do it alone, and 2^40 of them cannot do it together: with |g| max |x| <= QUIET, every
number of a cell stays far below LIMIT times QUIET, whose square is finite, and so does every weight (`quiet` has the
conditions of each rule). Such a row costs one comparison. After any other row the cells that it wrote and the weights
that they stand for are looked at. Once a number is above LIMIT, or a quiet step would not be small beside it, every row
is looked at: the guard is careful from then on.

The guard is what a loop over rows is given and leaves behind: the largest |x| of the block, whether to be careful, and
the first row at which a score or the model was not finite (-1: none), where the loop ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.validation import Array
from ..jit.compile import generic, inlined, intrinsic
from ._rules import AROW, RDA, SGD, AdaGrad, AdaGradMirror, FTRLProximal, MirrorDescent, TruncatedGradient

REACH, CAREFUL, ROW = 0, 1, 2  # the guard
QUIET_32, QUIET_64 = 1e12, 1e100
LIMIT_32, LIMIT_64 = 1e18, 1e140
LEAST_H = 1e-12  # curvature that the weights of a quiet row are divided by


def guard(data: Array, reach: float | None, careful: bool) -> Array:
    """Return the guard before a block with these values, of which the largest magnitude may be known already."""
    if reach is None:
        reach = max(abs(float(data.max())), abs(float(data.min()))) if len(data) else 0.0
    return np.array([reach, float(careful), -1.0])


@inlined
def quiet_step(state):
    """Return the largest |g| max |x| of a quiet row."""
    return QUIET_32 if state.itemsize == 4 else QUIET_64


@inlined
def limit(state):
    """Return the largest number beside which quiet steps are safe."""
    return LIMIT_32 if state.itemsize == 4 else LIMIT_64


@intrinsic
def magnitude(value):
    """Return |value| as whole numbers are compared: its bits; infinity and NaN are above all others.

    The maximum of whole numbers is the same in any order, so the compiler takes it on whole vector registers.
    """
    word = np.int32 if isinstance(value, np.float32) else np.int64
    return np.abs(np.asarray(value)).view(word)[()]


@generic
def quiet(rule: Any, row: Any, g: float, x: float, most: float) -> bool:
    """Return whether the gradient |g| of a prediction from values up to x makes small steps alone."""
    return g * x <= most


@quiet.of(RDA)
def _(rule, row, g, x, most):
    return (g * x <= most) & (row.h + row.ridge >= LEAST_H)


@quiet.of(AdaGrad, FTRLProximal)
def _(rule, row, g, x, most):
    # A step is 1/rate at most, whatever the gradient.
    return (g * x <= most) & (rule.rate >= LEAST_H) & (rule.rate <= most)


@quiet.of(AdaGradMirror)
def _(rule, row, g, x, most):
    return (g * x <= most) & (rule.rate >= LEAST_H) & (rule.rate <= most) & (not rule.squares)


@quiet.of(MirrorDescent, SGD, TruncatedGradient)
def _(rule, row, g, x, most):
    # Where ridge > h the step turns a weight's sign, and may make it larger; h w must be a number.
    return (g * x <= most * min(row.h, 1.0)) & (row.ridge <= row.h) & (row.h <= most)


@quiet.of(AROW)
def _(rule, row, g, x, most):
    return (g * x <= most) & (x * x <= most * row.h)


@inlined
def larger(most, value):
    """Return the larger of `most` and |value|, infinity where the value is NaN."""
    size = abs(value)
    return np.inf if not size < np.inf else max(most, size)


@inlined
def largest(most, cells, n):
    """Return the largest |number| of the first n cells, or `most`; infinity if one is not finite."""
    for q in range(n):
        for k in range(cells.shape[1]):
            most = larger(most, cells[q, k])
    return most


@inlined
def are_finite(values):
    """Return whether all are finite."""
    for i in range(values.shape[0]):  # noqa: SIM110 - numba knows no generators
        if not abs(values[i]) < np.inf:
            return False
    return True
