"""Groups in kernels: the rows of a weight matrix, each kept or dropped as a whole, solved when a row is read.

A matrix of weights (features x classes) has the groups of GroupL2 and GroupLinf in its rows. Beside the group's norm
the sum may hold an l1 term, an l2 term and the bound 0:

    x = argmin  <u, x> + t ||x||_1 + L ||x|| + (1/2) sum_c h_c x_c^2     (x >= 0)

With the pulls a_c = max(|u_c| - t, 0), the magnitudes m minimize -<a, m> + L ||m|| + (1/2) sum_c h_c m_c^2, m >= 0.

| norm  | zero iff       | else                                                                                   |
|-------|----------------|----------------------------------------------------------------------------------------|
| l2    | ||a||_2 <= L   | m = a / (h + L/z), z = ||m|| the root of ||a / (L + h z)|| = 1                         |
| l-inf | ||a||_1 <= L   | m = min(a/h, z), z the root of sum_c max(a_c - h_c z, 0) = L                           |

Idle rows. In dual averaging u and h stand still while a row is away and k is global: nothing is owed. In mirror descent
h is one number 1/eta_s for the row, and round s takes x to rho_s prox(x; a_s), the prox of a_s = lam/h_s times the
norm. The proxes of both norms add up, prox(prox(x; a); b) = prox(x; a + b), and scale, r prox(x; a) = prox(r x; r a):

- l2: the prox shortens x by a, as far as 0. Lengths subtract.
- l-inf: the prox cuts |x| at the level z with sum_c max(|x_c| - z, 0) = a. After a second cut at z' <= z the sum of
  what both took, sum_c max(|x_c| - min(|x_c|, z'), 0), is a + b.
- l-inf and l1: cutting at z commutes with the soft threshold t. Where t <= z it moves the level to z - t and takes
  nothing from what lies above; where t > z both orders leave 0.

So the table (P, A) of `rules` serves, with A counted in units of penalty: from round a to round b,
x_b = P_b prox(x_a / P_a; lam (A_b - A_a)). l2 and l1 together do not add up: the soft threshold turns x, the length's
prox does not.

In AdaGrad's mirror update h is unequal in a row but stands still while the row is away. Then l-inf alone adds up, by
the same count with weights, sum_c h_c max(|x_c| - z, 0) = lam k. Under l2 a step turns x by the unequal h, an l1 or an
l2 term moves the level apart: those have no lazy form.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.penalties._kernels import Plain
from ..core.records import NamedTuple
from ..jit.compile import generic, inlined
from ._rules import (
    NOW,
    RDA,
    AdaGrad,
    AdaGradMirror,
    FTRLProximal,
    K,
    MirrorDescent,
    accumulate,
    begin,
    longer,
    settle,
    weight,
)

EPS = float(np.finfo(np.float64).eps)


class RowL2(NamedTuple):
    """lam ||row||_2 + l1 ||row||_1 + (l2/2) ||row||^2, perhaps for row >= 0 alone."""

    l1: float
    l2: float
    lam: float
    nonnegative: bool


class RowLinf(NamedTuple):
    """lam ||row||_inf + l1 ||row||_1 + (l2/2) ||row||^2, perhaps for row >= 0 alone."""

    l1: float
    l2: float
    lam: float
    nonnegative: bool


# -- the subproblem of one row -------------------------------------------------------------------
# `work` is room for one row: u (then x) in its first third, the curvature h in the second, the pulls a in the last.
# One array and one way out of a function: with more of either, compiled code spends its time counting references.


@inlined
def solve_row(penalty, work, classes, threshold, ridge, L):
    """Replace u by the solution x, the curvature being h + ridge."""
    for c in range(classes):
        u = work[c]
        work[classes + c] += ridge
        work[2 * classes + c] = max((-u if penalty.nonnegative else abs(u)) - threshold, 0.0)
    z = length(penalty, work, classes, L)
    for c in range(classes):
        a, h = work[2 * classes + c], work[classes + c]
        work[c] = math.copysign(magnitude(penalty, a, h, L, z), -work[c]) if z > 0.0 and a > 0.0 else 0.0


@generic
def length(penalty: Any, work: Any, classes: int, L: float) -> float:
    """Return z, the norm of the solution; infinite where the norm does not count (L = 0)."""
    raise NotImplementedError


@generic
def magnitude(penalty: Any, a: float, h: float, L: float, z: float) -> float:
    """Return one coordinate of the solution whose norm is z > 0, for a > 0."""
    raise NotImplementedError


@length.of(RowL2)
def _(penalty, work, classes, L):
    top, low, high = 0.0, work[classes], work[classes]
    for c in range(classes):
        top, low, high = max(top, work[2 * classes + c]), min(low, work[classes + c]), max(high, work[classes + c])
    scale = 1.0 if 1e-100 < top < 1e100 else max(top, 1e-300)  # so that no square over- or underflows
    squares, flat, shrunk = 0.0, 0.0, 1.0 / scale
    for c in range(classes):
        v = work[2 * classes + c] * shrunk
        squares += v * v
        flat += v * v if work[classes + c] == 0.0 else 0.0
    norm = scale * math.sqrt(squares)
    z = np.inf
    if norm <= L:
        z = 0.0
    elif L > 0.0 and scale * math.sqrt(flat) < L:
        z = (norm - L) / low if low == high else _newton(work, classes, L, (norm - L) / high)
    return z


@inlined
def _newton(work, classes, L, start):
    """Return z > 0 with ||a / (L + h z)||_2 = 1; there is one, at `start` or above.

    The inverse of the left side is a power mean of affine functions of z: concave and rising. Newton's steps on it,
    begun on the left of the root, stay there and end when rounding stops them. They begin where all h are the largest
    one, or where the largest single term is 1, so that no term ever exceeds 1.
    """
    z, step, rounds = start, np.inf, 0
    for c in range(classes):
        h = work[classes + c]
        z = max(z, (work[2 * classes + c] - L) / h if h > 0.0 else 0.0)
    while step > EPS * z and rounds < 100:
        squares, slope = 0.0, 0.0
        for c in range(classes):
            h = work[classes + c]
            d = 1.0 / (L + h * z)
            v = work[2 * classes + c] * d
            squares += v * v
            slope += v * v * (h * d)
        step = squares * (math.sqrt(squares) - 1.0) / slope
        z += step if step > EPS * z else 0.0
        rounds += 1
    return z


@magnitude.of(RowL2)
def _(penalty, a, h, L, z):
    return a / (h + L / z)


@length.of(RowLinf)
def _(penalty, work, classes, L):
    total = 0.0
    for c in range(classes):
        total += work[2 * classes + c]
    z = np.inf
    if total <= L:
        z = 0.0
    elif L > 0.0:
        # The left side is convex and piecewise linear: Newton from z = 0 jumps from piece to piece without
        # overshooting, each piece has fewer coordinates above the level, and on the last one the step is exact.
        z, above, count = 0.0, -1, 0
        while count != above:
            above = count
            pull, slope, count = 0.0, 0.0, 0
            for c in range(classes):
                a, h = work[2 * classes + c], work[classes + c]
                above_z = a > h * z  # sums of 0 or a, not a branch that no processor can foresee
                pull += a if above_z else 0.0
                slope += h if above_z else 0.0
                count += 1 if above_z else 0
            if count > 0:
                z = max(z, (pull - L) / slope) if slope > 0.0 else np.inf
    return z


@magnitude.of(RowLinf)
def _(penalty, a, h, L, z):
    return min(a / h, z)


# -- how much of the norm counts, and the curvature of a cell -------------------------------------


@generic
def brought(rule: Any, clock: Any, c: float) -> float:
    """Return the k that multiplies the group's norm in the coming row."""
    return clock[K]


@brought.of(FTRLProximal)
def _(rule, clock, c):
    return 1.0 if rule.once else clock[K]


@brought.of(MirrorDescent, AdaGradMirror)
def _(rule, clock, c):
    return c


@generic
def norm_strength(penalty: Any, k: float) -> float:
    """Return L = k lam of the groups' norms."""
    return 0.0


@norm_strength.of(RowL2, RowLinf)
def _(penalty, k):
    return k * penalty.lam


@generic
def curvature(rule: Any, row: Any, state: Any, i: int) -> float:
    """Return h of the cell i."""
    raise NotImplementedError


@curvature.of(RDA)
def _(rule, row, state, i):
    return row.h


@curvature.of(AdaGrad)
def _(rule, row, state, i):
    return (rule.delta + state[i, 1]) * rule.rate


@curvature.of(FTRLProximal)
def _(rule, row, state, i):
    return (rule.beta + state[i, 1]) * rule.rate


# -- reading, writing and settling all classes of a feature ---------------------------------------


@generic
def read_row(penalty, rule, row, L, state, table, j, out, at, work):
    """Write the weights of feature j, one per class, to out[at:]."""
    classes = work.shape[0] // 3
    for c in range(classes):
        out[at + c] = weight(rule, penalty, row, state, table, j * classes + c)


@read_row.of(RowL2, RowLinf)
def _(penalty, rule, row, L, state, table, j, out, at, work):
    _read_group(rule, penalty, row, L, state, j, work)
    for c in range(work.shape[0] // 3):
        out[at + c] = work[c]


@generic
def _read_group(rule: Any, penalty: Any, row: Any, L: float, state: Any, j: int, work: Any) -> None:
    """Write the weights of feature j to work: the solution under the sums as they are now."""
    classes = work.shape[0] // 3
    for c in range(classes):
        work[c] = state[j * classes + c, 0]
        work[classes + c] = curvature(rule, row, state, j * classes + c)
    solve_row(penalty, work, classes, row.threshold, row.ridge, L)


@_read_group.of(MirrorDescent)
def _(rule, penalty, row, L, state, j, work):
    classes = work.shape[0] // 3
    last = min(int(state[j * classes, 1]), row.now)  # another thread may be ahead
    owed = row.table[row.now, 1] - row.table[last, 1]
    P_a = row.table[last, 0] if last < row.now else 1.0
    P_b = row.table[row.now, 0] if last < row.now else 1.0
    for c in range(classes):
        work[c] = -state[j * classes + c, 0] / P_a
        work[classes + c] = 1.0
    solve_row(penalty, work, classes, penalty.l1 * owed, 0.0, penalty.lam * owed)
    for c in range(classes):
        work[c] *= P_b


@_read_group.of(AdaGradMirror)
def _(rule, penalty, row, L, state, j, work):
    classes = work.shape[0] // 3
    last = min(int(state[j * classes, 2]), row.now)
    owed = row.table[row.now, 1] - row.table[last, 1]
    for c in range(classes):
        h = (rule.delta + state[j * classes + c, 1]) * rule.rate
        work[c] = -h * state[j * classes + c, 0]
        work[classes + c] = h
    solve_row(penalty, work, classes, 0.0, 0.0, penalty.lam * owed)
    for c in range(classes):
        work[c] = work[c] if owed > 0.0 else state[j * classes + c, 0]


@generic
def write_row(penalty, rule, row, L, state, j, weights, at, x, g, v, work):
    """Take g_c x into the cells of feature j; weights[at:] were read before."""
    classes = work.shape[0] // 3
    for c in range(classes):
        if g[c] != 0.0:
            accumulate(rule, penalty, row, state, j * classes + c, weights[at + c], x, g[c], v[c])


@write_row.of(RowL2, RowLinf)
def _(penalty, rule, row, L, state, j, weights, at, x, g, v, work):
    _write_group(rule, penalty, row, L, state, j, weights, at, x, g, v, work)


@generic
def _write_group(rule, penalty, row, L, state, j, weights, at, x, g, v, work):
    """Take the gradient into the sums."""
    classes = work.shape[0] // 3
    for c in range(classes):
        if g[c] != 0.0:
            accumulate(rule, penalty, row, state, j * classes + c, weights[at + c], x, g[c], v[c])


@_write_group.of(MirrorDescent)
def _(rule, penalty, row, L, state, j, weights, at, x, g, v, work):
    classes = work.shape[0] // 3
    for c in range(classes):
        work[c] = g[c] * x - row.h * weights[at + c]
        work[classes + c] = row.h
    solve_row(penalty, work, classes, row.threshold, row.ridge, L)
    for c in range(classes):
        state[j * classes + c, 0] = work[c]
        state[j * classes + c, 1] = max(state[j * classes + c, 1], row.now + 1)


@_write_group.of(AdaGradMirror)
def _(rule, penalty, row, L, state, j, weights, at, x, g, v, work):
    classes = work.shape[0] // 3
    for c in range(classes):
        gx, r = g[c] * x, state[j * classes + c, 1]
        r = r + gx * gx if rule.squares else longer(r, gx)
        work[classes + c] = (rule.delta + r) * rule.rate
        work[c] = gx - work[classes + c] * weights[at + c]
        state[j * classes + c, 1] = r
    solve_row(penalty, work, classes, row.threshold, row.ridge, L)
    for c in range(classes):
        state[j * classes + c, 0] = work[c]
        state[j * classes + c, 2] = max(state[j * classes + c, 2], row.now + 1)


@generic
def unit(penalty: Any) -> Any:
    """Return the penalty that the table of idle rounds is kept for."""
    return penalty


@unit.of(RowL2, RowLinf)
def _(penalty):
    return Plain(1.0, penalty.l2)


@generic
def settle_rows(penalty: Any, rule: Any, clock: Any, table: Any, state: Any, work: Any) -> None:
    """Bring all features up to date and begin a new epoch (descent only)."""
    settle(rule, penalty, clock, table, state)


@settle_rows.of(RowL2, RowLinf)
def _(penalty, rule, clock, table, state, work):
    _settle_groups(rule, penalty, clock, table, state, work)


@generic
def _settle_groups(rule: Any, penalty: Any, clock: Any, table: Any, state: Any, work: Any) -> None:
    """Owe nothing."""


@_settle_groups.of(MirrorDescent, AdaGradMirror)
def _(rule, penalty, clock, table, state, work):
    row = begin(rule, penalty, clock, int(clock[NOW]), table, 1.0, state)
    classes = work.shape[0] // 3
    for j in range(state.shape[0] // classes):
        _read_group(rule, penalty, row, 0.0, state, j, work)
        for c in range(classes):
            state[j * classes + c, 0] = work[c]
            state[j * classes + c, state.shape[1] - 1] = 0
    table[0, 0], table[0, 1], clock[NOW] = 1.0, 0.0, 0.0
