"""AutoFTRL compiled: what its rows share, and the loop over rows for models with one output.

The formulas are those of `core.algorithms.auto`, in units of each feature's own size: a cell is (z/s, r/s, 1/s)
side by side, and with x/s and w s in place of x and w no division by s is left but where s grows and a cell changes
its unit. With one global scale a cell is (z, r), its unit 1. The intercept's cell is (z, r), a feature with x = s = 1
that is neither floored nor penalized. All other numbers live in the clock, 64-bit, and are read once a row: kappa,
beta, lam and S stay those of the prediction to the row's end.

A row is gathered into buffers, worked on there, and scattered back: the arithmetic in between has neither branches nor
sums, so the compiler does it on whole vector registers, and the sums are taken apart, in order.

Whether features have sizes of their own is known at run time, so that one version of a loop serves both scales. What
runs over a row's non-zeros is called by `if sized: f(..., True) else: f(..., False)`: typed once, it becomes a part of
the loop twice, each time with a constant in place of the question. It gets pointers: an array passed on in two branches
would be counted as a reference in both, for every row.

| symbol | meaning, in the units of the cell               |
|--------|-------------------------------------------------|
| i      | 1/s, 0 for a feature never seen                 |
| f      | st/s, 1 but for rare features; the global scale |
| u, w   | x i and the weight over i                       |
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.losses._kernels import slope
from ..core.penalties._kernels import Bounded
from ..core.records import NamedTuple
from ..jit.byteops import pointer
from ..jit.compile import INTERPRETED, ask_for_cell, ask_for_rows, compiled, generic, inlined
from ._finite import CAREFUL, ROW, are_finite, magnitude, quiet_step
from ._loop import longest

AHEAD = 64  # non-zeros between asking for a cell and using it
PAD = 1 if INTERPRETED else 32  # buffers are worked on in multiples: four registers of eight, no scalar rest

# The clock: rows and penalty so far; a, b, c and their sums of squares; the product of all sizes (exponent, mantissa,
# count) or the sum and count of squared non-zeros; S or the global scale; the sum of row sizes; the labels' range; the
# units of predictions and slopes; and from RECENT on a recent slope per class.
T, K, A, B, C, SQUARES_A, SQUARES_B, SQUARES_C = range(8)
SUM, MANTISSA, COUNT, SCALE, SIZE, LO, HI, P_UNIT, G_UNIT, RECENT = range(8, 18)


class Rule(NamedTuple):
    """AutoFTRL; labels, ranged: whether labels set the units, and bound predictions.

    adapts: whether a, b and c are learned, as they are on rows that come for the first time.
    sized: whether each feature has a scale of its own; if not, one serves all.
    """

    constants: Any
    lam: float
    once: bool
    labels: bool
    ranged: bool
    adapts: bool
    sized: bool


class Parts(NamedTuple):
    """The components of a learner."""

    rule: Any
    penalty: Any
    loss: Any


class Model(NamedTuple):
    """What a learner remembers: a cell per feature, the intercepts' cells (or none), the clock."""

    state: Any
    bias: Any
    clock: Any


class Row(NamedTuple):
    """What the features of a row share: evidence = 1/G^2, threshold = k l1, ridge = kappa k l2, centre = 1/kappa."""

    kappa: float
    centre: float
    beta: float
    lam: float
    scale: float
    evidence: float
    threshold: float
    ridge: float
    one: float


def start_clock(rule: Any, classes: int = 1) -> Any:
    """Return the clock before the first row."""
    clock = np.zeros(RECENT + classes)
    clock[B] = rule.constants.low_b
    clock[[SQUARES_A, SQUARES_B, SQUARES_C, MANTISSA]] = 1.0
    return clock


# -- a row's own numbers -------------------------------------------------------------------------


@inlined
def unit(value):
    """Return a unit, 1 while unknown."""
    return value if value > 0.0 else 1.0


@inlined
def begin(rule, penalty, clock):
    """Return what the coming row shares, in 64 bits."""
    P, G = unit(clock[P_UNIT]), unit(clock[G_UNIT])
    track = math.exp(clock[B]) if clock[B] > 0.0 else 1.0
    size = clock[SIZE] / clock[T] if clock[T] > 0.0 else 1.0
    kappa = P * track * math.exp(clock[A]) / math.sqrt(size)
    beta = G * rule.constants.beta * math.exp(clock[C])
    k = 1.0 if rule.once else clock[K]
    lam, evidence = rule.lam / (G * track), 1.0 / (G * G)
    return Row(kappa, 1.0 / kappa, beta, lam, clock[SCALE], evidence, k * penalty.l1, kappa * k * penalty.l2, 1.0)


@inlined
def narrowed(row, state):
    """Return what the row shares in the state's precision."""
    n = state.dtype.type
    return Row(
        n(row.kappa),
        n(row.centre),
        n(row.beta),
        n(row.lam),
        n(row.scale),
        n(row.evidence),
        n(row.threshold),
        n(row.ridge),
        n(row.one),
    )


@inlined
def finish(rule, clock, q_a, q_b, q_c, size, c):
    """End a row: a, b and c by their gradients if the row is new, the row's size, the counts."""
    if rule.adapts:
        constants, P, G = rule.constants, unit(clock[P_UNIT]), unit(clock[G_UNIT])
        _adapt(clock, A, SQUARES_A, q_a / (P * G), constants.eta_a, constants.low_a, constants.high_a)
        _adapt(clock, B, SQUARES_B, q_b / (G * G), constants.eta_b, constants.low_b, constants.high_b)
        _adapt(clock, C, SQUARES_C, q_c / (P * G), constants.eta_c, constants.low_c, constants.high_c)
    clock[SIZE] += 1.0 + size
    clock[T] += 1.0
    clock[K] += c


@inlined
def _adapt(clock, at, squares, q, eta, low, high):
    clock[squares] += q * q
    clock[at] = min(max(clock[at] - eta * q / math.sqrt(clock[squares]), low), high)


@inlined
def see_label(rule, loss, clock, y):
    """Take a label into the range and the units."""
    clock[LO], clock[HI] = min(clock[LO], y), max(clock[HI], y)
    clock[G_UNIT] = max(clock[G_UNIT], abs(slope(loss, 0.0, y)))
    if rule.ranged:
        clock[P_UNIT] = max(clock[P_UNIT], abs(y))


# -- cells ---------------------------------------------------------------------------------------


@generic
def bounded(penalty: Any, w: float, i: float) -> float:
    """Return a weight, in its cell's unit, moved into the penalty's bounds."""
    return w


@bounded.of(Bounded)
def _(penalty, w, i):
    return min(max(w, penalty.lo / i), penalty.hi / i) if i > 0.0 else w


@inlined
def solve(penalty, row, z, r, i, f):
    """Return a weight, and the share of it that beta holds back: -dw/dc = share * w."""
    t = row.threshold * i
    first = row.beta * f * f
    inverse = row.one / (first + r * (f + row.lam * r) + row.ridge * i * i)
    return bounded(penalty, (min(max(z, -t), t) - z) * row.kappa * inverse, i), first * inverse


@inlined
def intercept(row, z, r):
    """Return the intercept and its share."""
    inverse = 1.0 / (row.beta + r * (1.0 + row.lam * r))
    return -row.kappa * z * inverse, row.beta * inverse


@inlined
def taken(row, r, gu, w, f):
    """Return what the gradient gu at the weight w adds to z and to r."""
    more = math.sqrt(r * r + gu * gu) - r
    return gu - (more * f + row.lam * gu * gu) * row.centre * w, more


@inlined
def unit_of(sized, row, state, j, at):
    """Return i of feature j, which stands at `at` of its cell."""
    return state[j, at] if sized else row.one


@inlined
def floor(sized, row, i, total):
    """Return f of a feature whose r^2 is `total`."""
    if not sized:
        return row.scale if row.scale > 0.0 else row.one
    e = row.one + row.evidence * total
    e *= e
    e *= e
    lowest = row.scale * i
    return lowest / e if lowest > e else row.one


@inlined
def outgrows(sized, row, i, u):
    """Return whether |x| is larger than all before it; u = x i."""
    return sized & ((abs(u) > row.one) | (i == 0.0))


@inlined
def squared(sized, row, u):
    """Return (x/s)^2 with s no smaller than |x|, or x^2."""
    return min(u * u, row.one) if sized else u * u


@inlined
def grow(state, j, x, one, clock):
    """Make |x| the size of feature j, in its cell and in the product of all sizes; return the new unit over the old.

    A value so small that its inverse is no number counts as 0, and the ratio is then 0.
    """
    at = state.shape[1] - 1
    old, new = state[j, at], one / abs(x)
    if not new < np.inf:
        return one - one
    ratio = new
    mantissa, exponent = math.frexp(new)
    if old > 0.0:
        less, lower = math.frexp(old)
        mantissa, exponent, ratio = mantissa / less, exponent - lower, new / old
        for k in range(at):
            state[j, k] *= ratio
    else:
        clock[COUNT] += 1.0
        clock[SIZE] += 1.0  # its (x/s)^2, which was 0 when the row was summed
    mantissa, carry = math.frexp(clock[MANTISSA] * mantissa)
    clock[SUM] += exponent + carry
    clock[MANTISSA] = mantissa
    state[j, at] = new
    return ratio


@inlined
def measure(rule, clock, larger, size, value, first, m):
    """Bring S, or the global scale, up to date after a row whose squares sum to `size`; return its sum of (x_j/s_j)^2.

    `larger` of its features outgrew their sizes; its m values stand at value[first]. Values and clock are pointers.
    """
    if not rule.sized:
        clock[SUM] += size
        for q in range(first, first + m):
            clock[COUNT] += value[q] != 0.0
        if clock[SUM] > 0.0:
            clock[SCALE] = math.sqrt(clock[SUM] / clock[COUNT])
            size /= clock[SCALE] * clock[SCALE]
    elif larger > 0 and clock[COUNT] > 0.0:
        # The sums are those of 1/s. Whole powers of two are taken out first, exactly.
        whole = math.floor(clock[SUM] / clock[COUNT])
        rest = (clock[SUM] - whole * clock[COUNT] + math.log2(clock[MANTISSA])) / clock[COUNT]
        clock[SCALE] = rule.constants.floor * math.ldexp(2.0**-rest, -int(whole))
    return size


# -- the loop ------------------------------------------------------------------------------------


class Buffers(NamedTuple):
    """One number a non-zero of the row: weight, r, x i, i and then f, share; and which features outgrew their sizes.

    After the backward pass w and share hold what z and r are to be raised by.
    """

    w: Any
    r: Any
    u: Any
    f: Any
    share: Any
    larger: Any


class Pointers(NamedTuple):
    """The rows' features and values, of which there are `end`, and the cells."""

    index: Any
    value: Any
    cell: Any
    end: int


@inlined
def room(most, dtype):
    """Return buffers for rows of up to `most` non-zeros."""
    m = most + PAD
    w, r, u = np.zeros(m, dtype), np.zeros(m, dtype), np.zeros(m, dtype)
    return Buffers(w, r, u, np.ones(m, dtype), np.zeros(m, dtype), np.empty(m, np.int64))


@inlined
def pointers(buffers):
    """Return the buffers as bare pointers."""
    return Buffers(
        pointer(buffers.w),
        pointer(buffers.r),
        pointer(buffers.u),
        pointer(buffers.f),
        pointer(buffers.share),
        pointer(buffers.larger),
    )


@inlined
def gather(row, away, near, first, m, sized):
    """Copy the row's cells and values to the buffers, and ask for those ahead; return how many outgrew their sizes."""
    width, larger = 3 if sized else 2, 0
    for q in range(m):
        if first + q + AHEAD < away.end:
            ask_for_cell(away.cell, width, np.int64(away.index[first + q + AHEAD]))
        j = np.int64(away.index[first + q])
        i = away.cell[width * j + 2] if sized else row.one
        u = away.value[first + q] * i
        near.w[q], near.r[q], near.f[q], near.u[q] = away.cell[width * j], away.cell[width * j + 1], i, u
        near.larger[larger] = q
        larger += outgrows(sized, row, i, u)
    return larger


@inlined
def scatter(away, near, first, m, width):
    """Raise z and r of the row's cells."""
    for q in range(m):
        j = width * np.int64(away.index[first + q])
        away.cell[j] += near.w[q]
        away.cell[j + 1] += near.share[q]


@inlined
def forward(penalty, row, near, m, sized):
    """Turn z, r and i into w, f and share."""
    for q in range((m + PAD - 1) // PAD * PAD):
        r, i = near.r[q], near.f[q]
        f = floor(sized, row, i, r * r)
        w, share = solve(penalty, row, near.w[q], r, i, f)
        near.w[q], near.f[q], near.share[q] = w, f, share


@inlined
def backward(row, buffers, m, g):
    """Turn w and the gradient g of the prediction into what z and r are raised by."""
    for q in range((m + PAD - 1) // PAD * PAD):
        z, r = taken(row, buffers.r[q], g * buffers.u[q], buffers.w[q], buffers.f[q])
        buffers.w[q], buffers.share[q] = z, r


@inlined
def most_raised(row, buffers, m):
    """Return the largest `magnitude` of what z and r are raised by: a loop that only reads needs no look at aliases."""
    top = magnitude(row.one - row.one)
    for q in range((m + PAD - 1) // PAD * PAD):
        z, r = magnitude(buffers.w[q]), magnitude(buffers.share[q])
        z = z if z > r else r
        top = z if z > top else top
    return top


@inlined
def is_finite(rule, penalty, clock, state):
    """Return whether the clock, and what the next row's features share, are finite numbers."""
    row = narrowed(begin(rule, penalty, clock), state)
    shared = (row.kappa < np.inf) & (row.centre < np.inf) & (row.beta < np.inf) & (row.lam < np.inf)
    return shared and are_finite(clock)


@compiled
def learn(parts, rows, model, out, guard):
    """Learn from each row in turn; out gets the prediction made before learning it. A row's indices are distinct.

    For the guard see `finite`: what a row adds to its cells is always looked at, the cells only if that is much.
    """
    rule, penalty, loss = parts.rule, parts.penalty, parts.loss
    state, bias, clock = model.state, model.bias, model.clock
    has_bias = bias.shape[0] > 0
    sized, buffers = rule.sized, room(longest(rows.indptr), state.dtype)
    away = Pointers(pointer(rows.indices), pointer(rows.data), pointer(state), rows.indptr[-1])
    near = pointers(buffers)
    careful, step = guard[CAREFUL] > 0.0, quiet_step(state)
    much = magnitude(state.dtype.type(step))
    for n in range(rows.y.shape[0]):
        c = rows.c[n] if rows.c.shape[0] else 1.0
        first, m = rows.indptr[n], rows.indptr[n + 1] - rows.indptr[n]
        wide = begin(rule, penalty, clock)
        row = narrowed(wide, state)
        ask_for_rows(rows.indices, rows.data, first, m)
        larger = gather(row, away, near, first, m, True) if sized else gather(row, away, near, first, m, False)
        for q in range(m, m + PAD):  # what an earlier row left there would grow with every row
            near.f[q] = row.one - row.one
        for q in range(m, m + PAD):
            near.u[q] = row.one - row.one
        if sized:
            forward(penalty, row, near, m, True)
        else:
            forward(penalty, row, near, m, False)
        p, held, size, b = 0.0, 0.0, 0.0, 0.0
        if has_bias:
            b, share = intercept(wide, bias[0, 0], bias[0, 1])
            p, held = b, b * share
        for q in range(m):
            wu = buffers.w[q] * buffers.u[q]
            p += wu
            held += wu * buffers.share[q]
            size += squared(sized, row, buffers.u[q])
        out[n] = p
        if not abs(p) < np.inf:
            guard[ROW] = n
            return
        if c == 0.0:
            continue
        inside = min(max(p, clock[LO]), clock[HI]) if rule.ranged else p
        g = c * slope(loss, inside, rows.y[n])
        for k in range(larger):
            q = buffers.larger[k]
            j, x = np.int64(rows.indices[first + q]), rows.data[first + q]
            ratio = grow(state, j, x, row.one, clock)
            if ratio > 0.0:
                r, i = state[j, 1], state[j, 2]
                buffers.w[q] /= ratio
                buffers.r[q], buffers.u[q], buffers.f[q] = r, x * i, floor(True, row, i, r * r)
                careful = careful or i > step
        backward(row, buffers, m, state.dtype.type(g))
        top = most_raised(row, buffers, m)
        if sized:
            scatter(away, near, first, m, 3)
        else:
            scatter(away, near, first, m, 2)
        if has_bias:
            z, r = taken(wide, bias[0, 1], g, b, 1.0)
            bias[0, 0] += z
            bias[0, 1] += r
            if not (abs(bias[0, 0]) < np.inf) & (bias[0, 1] < np.inf):
                guard[ROW] = n
                return
        if top > much or wide.kappa > step:
            careful = True
            for q in range(first, first + m):
                for k in range(state.shape[1]):
                    if not abs(state[np.int64(rows.indices[q]), k]) < np.inf:
                        guard[ROW] = n
                        return
        size = measure(rule, pointer(clock), larger, size, away.value, first, m)
        finish(rule, clock, g * p, -g * clock[RECENT], -g * held, size, c)
        clock[RECENT] = rule.constants.recall * clock[RECENT] + (1.0 - rule.constants.recall) * g
        if rule.labels:
            see_label(rule, loss, clock, rows.y[n])
        if careful and not is_finite(rule, penalty, clock, state):
            guard[ROW] = n
            return
    guard[CAREFUL] = careful
    if not is_finite(rule, penalty, clock, state):
        guard[ROW] = rows.y.shape[0] - 1


@compiled
def predict(parts, rows, model, out):
    """Predict each row with the weights as they are now; features beyond the state have none."""
    rule, penalty, state = parts.rule, parts.penalty, model.state
    wide = begin(rule, penalty, model.clock)
    row, b = narrowed(wide, state), read_intercept(wide, model.bias)
    for i in range(rows.indptr.shape[0] - 1):
        p = b
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            j = np.int64(rows.indices[q])
            if j < state.shape[0]:
                p += weight(rule, penalty, row, state, j) * rows.data[q]
        out[i] = p


@compiled
def read(parts, model, out):
    """Write every feature's weight into out and return the intercept."""
    wide = begin(parts.rule, parts.penalty, model.clock)
    row = narrowed(wide, model.state)
    for j in range(model.state.shape[0]):
        out[j] = weight(parts.rule, parts.penalty, row, model.state, j)
    return read_intercept(wide, model.bias)


@inlined
def weight(rule, penalty, row, state, j):
    """Return the weight that feature j has now."""
    r, i = state[j, 1], unit_of(rule.sized, row, state, j, 2)
    return solve(penalty, row, state[j, 0], r, i, floor(rule.sized, row, i, r * r))[0] * i


@inlined
def read_intercept(row, bias):
    """Return the intercept, 0 if there is none."""
    return intercept(row, bias[0, 0], bias[0, 1])[0] if bias.shape[0] else 0.0


def joined_clock(rule: Any, shared: Any, before: Any, after: Any) -> Any:
    """Return the shared clock with what one thread's chunk of rows changed: sums add, ranges widen."""
    out = shared + (after - before)
    constants = rule.constants
    for at, low, high in (
        (A, constants.low_a, constants.high_a),
        (B, constants.low_b, constants.high_b),
        (C, constants.low_c, constants.high_c),
    ):
        out[at] = min(max(out[at], low), high)
    out[LO] = min(shared[LO], after[LO])
    for at in (HI, P_UNIT, G_UNIT):
        out[at] = max(shared[at], after[at])
    out[MANTISSA] = shared[MANTISSA] * after[MANTISSA] / before[MANTISSA]
    out[SCALE], out[RECENT:] = after[SCALE], after[RECENT:]
    return out
