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
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from .jit import generic
from .penalties import Plain
from .rules import NOW, RDA, AdaGrad, AdaGradMirror, FTRLProximal, K, MirrorDescent, accumulate, begin, settle, weight

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


class Work(NamedTuple):
    """Room for one row: what the solver reads and writes."""

    u: Any
    h: Any
    m: Any


# -- the subproblem of one row -------------------------------------------------------------------


@generic
def magnitudes(penalty: Any, m: Any, h: Any, L: float) -> None:
    """Minimize -<a, m> + L ||m|| + (1/2) sum_c h_c m_c^2 over m >= 0 in place: m holds the pulls a >= 0."""
    raise NotImplementedError


@register_jitable
def _divide(m, h):
    """Without a norm: m = a / h, and 0 where a = 0."""
    for c in range(m.shape[0]):
        if m[c] > 0.0:
            m[c] = m[c] / h[c]


@magnitudes.of(RowL2)
def _(penalty, m, h, L):
    top, low, high = 0.0, h[0], h[0]
    for c in range(m.shape[0]):
        top, low, high = max(top, m[c]), min(low, h[c]), max(high, h[c])
    if top == 0.0 or L == 0.0:
        _divide(m, h)
        return
    squares, flat = 0.0, 0.0
    for c in range(m.shape[0]):
        unit = m[c] / top
        squares += unit * unit
        if h[c] == 0.0:
            flat += unit * unit
    norm = top * math.sqrt(squares)
    if norm <= L:
        m[:] = 0.0
    elif top * math.sqrt(flat) >= L:
        _divide(m, h)  # no curvature holds what is left: infinite
    elif low == high:
        shrunk = (norm - L) / norm / low
        for c in range(m.shape[0]):
            m[c] *= shrunk
    else:
        z = _length(m, h, L)
        for c in range(m.shape[0]):
            m[c] = m[c] / (h[c] + L / z)


@register_jitable
def _length(a, h, L):
    """Return z > 0 with ||a / (L + h z)||_2 = 1; there is one.

    The inverse of the left side is a power mean of affine functions of z: concave and rising. Newton's steps on it,
    begun on the left of the root, stay there and end when rounding stops them. At the start no term exceeds 1.
    """
    z = 0.0
    for c in range(a.shape[0]):
        if h[c] > 0.0:
            z = max(z, (a[c] - L) / h[c])
    for _ in range(100):
        squares, slope = 0.0, 0.0
        for c in range(a.shape[0]):
            d = L + h[c] * z
            v = a[c] / d
            squares += v * v
            slope += v * v * (h[c] / d)
        step = squares * (math.sqrt(squares) - 1.0) / slope
        if not step > EPS * z:
            break
        z += step
    return z


@magnitudes.of(RowLinf)
def _(penalty, m, h, L):
    total = 0.0
    for c in range(m.shape[0]):
        total += m[c]
    if total <= L:
        m[:] = 0.0
        return
    if L == 0.0:
        _divide(m, h)
        return
    # The left side is convex and piecewise linear: Newton from z = 0 jumps from piece to piece without overshooting,
    # each piece has fewer coordinates above the level, and on the last one the step is exact.
    z, above = 0.0, -1
    while True:
        pull, slope, count = 0.0, 0.0, 0
        for c in range(m.shape[0]):
            if m[c] > h[c] * z:
                pull += m[c]
                slope += h[c]
                count += 1
        if count == above or count == 0:
            break
        if slope == 0.0:
            z = np.inf
            break
        z, above = max(z, (pull - L) / slope), count
    for c in range(m.shape[0]):
        if m[c] > 0.0:
            m[c] = z if m[c] >= h[c] * z else m[c] / h[c]


@register_jitable
def solve_row(penalty, work, threshold, ridge, L):
    """Replace work.u by the solution x, the curvature being work.h + ridge."""
    u, h, m = work.u, work.h, work.m
    for c in range(u.shape[0]):
        m[c] = max((-u[c] if penalty.nonnegative else abs(u[c])) - threshold, 0.0)
        h[c] += ridge
    magnitudes(penalty, m, h, L)
    for c in range(u.shape[0]):
        u[c] = math.copysign(m[c], -u[c]) if m[c] > 0.0 else 0.0


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
def read_row(penalty: Any, rule: Any, row: Any, L: float, state: Any, j: int, out: Any, at: int, work: Any) -> None:
    """Write the weights of feature j, one a class, to out[at:]."""
    classes = work.u.shape[0]
    for c in range(classes):
        out[at + c] = weight(rule, penalty, row, state, j * classes + c)


@read_row.of(RowL2, RowLinf)
def _(penalty, rule, row, L, state, j, out, at, work):
    _read_group(rule, penalty, row, L, state, j, work)
    for c in range(work.u.shape[0]):
        out[at + c] = work.u[c]


@generic
def _read_group(rule: Any, penalty: Any, row: Any, L: float, state: Any, j: int, work: Any) -> None:
    """Write the weights of feature j to work.u: the solution under the sums as they are now."""
    classes = work.u.shape[0]
    for c in range(classes):
        work.u[c] = state[j * classes + c, 0]
        work.h[c] = curvature(rule, row, state, j * classes + c)
    solve_row(penalty, work, row.threshold, row.ridge, L)


@_read_group.of(MirrorDescent)
def _(rule, penalty, row, L, state, j, work):
    classes = work.u.shape[0]
    last = int(state[j * classes, 1])
    owed = row.table[row.now, 1] - row.table[last, 1]
    for c in range(classes):
        work.u[c] = -state[j * classes + c, 0] / row.table[last, 0]
        work.h[c] = 1.0
    if owed > 0.0:
        solve_row(penalty, work, penalty.l1 * owed, 0.0, penalty.lam * owed)
    else:
        for c in range(classes):
            work.u[c] = 0.0 - work.u[c]
    for c in range(classes):
        work.u[c] *= row.table[row.now, 0]


@_read_group.of(AdaGradMirror)
def _(rule, penalty, row, L, state, j, work):
    classes = work.u.shape[0]
    owed = row.table[row.now, 1] - row.table[int(state[j * classes, 2]), 1]
    for c in range(classes):
        work.h[c] = (rule.delta + state[j * classes + c, 1]) * rule.rate
        work.u[c] = -work.h[c] * state[j * classes + c, 0] if owed > 0.0 else state[j * classes + c, 0]
    if owed > 0.0:
        solve_row(penalty, work, 0.0, 0.0, penalty.lam * owed)


@generic
def write_row(penalty, rule, row, L, state, j, weights, at, x, g, v, work):
    """Take g_c x into the cells of feature j; weights[at:] were read before."""
    classes = work.u.shape[0]
    for c in range(classes):
        if g[c] != 0.0:
            accumulate(rule, penalty, row, state, j * classes + c, weights[at + c], x, g[c], v[c])


@write_row.of(RowL2, RowLinf)
def _(penalty, rule, row, L, state, j, weights, at, x, g, v, work):
    _write_group(rule, penalty, row, L, state, j, weights, at, x, g, v, work)


@generic
def _write_group(rule, penalty, row, L, state, j, weights, at, x, g, v, work):
    """Take the gradient into the sums."""
    classes = work.u.shape[0]
    for c in range(classes):
        if g[c] != 0.0:
            accumulate(rule, penalty, row, state, j * classes + c, weights[at + c], x, g[c], v[c])


@_write_group.of(MirrorDescent)
def _(rule, penalty, row, L, state, j, weights, at, x, g, v, work):
    classes = work.u.shape[0]
    for c in range(classes):
        work.u[c] = g[c] * x - row.h * weights[at + c]
        work.h[c] = row.h
    solve_row(penalty, work, row.threshold, row.ridge, L)
    for c in range(classes):
        state[j * classes + c, 0] = work.u[c]
        state[j * classes + c, 1] = row.now + 1


@_write_group.of(AdaGradMirror)
def _(rule, penalty, row, L, state, j, weights, at, x, g, v, work):
    classes = work.u.shape[0]
    for c in range(classes):
        gx, r = g[c] * x, state[j * classes + c, 1]
        r = r + gx * gx if rule.squares else math.sqrt(r * r + gx * gx)
        work.h[c] = (rule.delta + r) * rule.rate
        work.u[c] = gx - work.h[c] * weights[at + c]
        state[j * classes + c, 1] = r
    solve_row(penalty, work, row.threshold, row.ridge, L)
    for c in range(classes):
        state[j * classes + c, 0] = work.u[c]
        state[j * classes + c, 2] = row.now + 1


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
    classes = work.u.shape[0]
    for j in range(state.shape[0] // classes):
        _read_group(rule, penalty, row, 0.0, state, j, work)
        for c in range(classes):
            state[j * classes + c, 0] = work.u[c]
            state[j * classes + c, state.shape[1] - 1] = 0
    table[0, 0], table[0, 1], clock[NOW] = 1.0, 0.0, 0.0
