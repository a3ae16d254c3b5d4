"""K strengths of one penalty learned side by side by AutoFTRL.

A feature's cell is z/s of all models, then r/s of all models, then the 1/s that they share, as sizes depend on the data
alone (none with a global scale). What a model learns beside its weights depends on its predictions: each has its own
clock. What a clock counts of the data is the same in all of them; it is counted in the first and copied.

Each model learns a row with the functions of `_auto`, in their order: its numbers are bit for bit those of a learner
with its strength alone. A row of weight 0 is predicted and changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.losses._kernels import slope
from ..core.records import NamedTuple
from ..jit.byteops import pointer
from ..jit.compile import compiled, inlined
from ._auto import (
    COUNT,
    HI,
    LO,
    MANTISSA,
    PAD,
    RECENT,
    SCALE,
    SIZE,
    SUM,
    backward,
    begin,
    finish,
    floor,
    forward,
    grow,
    intercept,
    is_finite,
    measure,
    most_raised,
    narrowed,
    outgrows,
    pointers,
    room,
    see_label,
    squared,
    taken,
    unit_of,
)
from ._finite import CAREFUL, ROW, magnitude, quiet_step
from ._loop import longest
from ._path import ask_for_some, find_cells, gather, line_length, next_to_ask, scatter, with_strengths


class Outgrown(NamedTuple):
    """Of features that outgrew their sizes: new unit over old (0: too small to count), new unit, x in both units."""

    ratio: Any
    unit: Any
    u_old: Any
    u_new: Any


@compiled
def learn(parts, strengths, rows, model, out, guard):
    """Learn from each row in turn; out (models, rows) gets the predictions made before. For the guard see `_finite`."""
    rule, state, bias, clocks = parts.rule, model.state, model.bias, model.clock
    models, asked, has_bias, number = clocks.shape[0], rows.indptr[0], bias.shape[0] > 0, state.dtype.type
    most, common, nothing = longest(rows.indptr), clocks[0].copy(), number(0.0)
    buffers, units, x = room(most, state.dtype), np.zeros(most + PAD, state.dtype), np.zeros(most + PAD, state.dtype)
    near, across = pointers(buffers), line_length(most)
    places, lines = np.zeros(across, np.int64), np.zeros((2 * models, across), state.dtype)
    outgrown = new_outgrown(most, state.dtype)
    careful, step = guard[CAREFUL] > 0.0, quiet_step(state)
    much = magnitude(number(step))
    for n in range(rows.y.shape[0]):
        c = rows.c[n] if rows.c.shape[0] else 1.0
        first, m = rows.indptr[n], rows.indptr[n + 1] - rows.indptr[n]
        row = narrowed(row_of(parts, strengths, clocks[0], 0)[0], state)
        find_cells(state, rows.indices, rows.data, first, m, places, x)
        gather(state, places, m, 2 * models, lines)
        larger, size = scale(rule.sized, row, state, places, x, units, buffers, m)
        copy_counts(clocks[0], common)
        if larger > 0:
            measure_outgrown(common, units, x, row.one, buffers, outgrown, larger)
        size = measure(rule, pointer(common), larger, size, pointer(rows.data), first, m)
        top = magnitude(nothing)
        until, turn = next_to_ask(rows.indptr, n, asked, models)
        for k in range(models):
            asked = ask_for_some(state, rows.indices, asked, min(asked + turn, until))
            clock = clocks[k]
            wide, penalty = row_of(parts, strengths, clock, k)
            row = narrowed(wide, state)
            z_at, r_at = k * across, (models + k) * across
            copy_numbers(lines, z_at, buffers.w, 0, m)
            copy_numbers(lines, r_at, buffers.r, 0, m)
            copy_numbers(units, 0, buffers.f, 0, m + PAD)
            if rule.sized:
                forward(penalty, row, near, m, True)
            else:
                forward(penalty, row, near, m, False)
            p, held, b = 0.0, 0.0, 0.0
            if has_bias:
                b, share = intercept(wide, bias[k, 0], bias[k, 1])
                p, held = b, b * share
            p, held = scored(buffers, m, p, held)
            out[k, n] = p
            if not abs(p) < np.inf:
                guard[ROW] = n
                return
            if c == 0.0:
                continue
            inside = min(max(p, clock[LO]), clock[HI]) if rule.ranged else p
            g = c * slope(parts.loss, inside, rows.y[n])
            if larger > 0:
                change_units(row, lines, z_at, r_at, buffers, outgrown, larger)
            backward(row, buffers, m, number(g))
            top = max(top, most_raised(row, buffers, m))
            careful = careful or wide.kappa > step
            raise_line(lines, z_at, buffers.w, m)
            raise_line(lines, r_at, buffers.share, m)
            for a in range(larger):
                buffers.u[buffers.larger[a]] = outgrown.u_old[a]
            if has_bias:
                z, r = taken(wide, bias[k, 1], g, b, 1.0)
                bias[k, 0] += z
                bias[k, 1] += r
                if not (abs(bias[k, 0]) < np.inf) & (bias[k, 1] < np.inf):
                    guard[ROW] = n
                    return
            copy_counts(common, clock)
            finish(rule, clock, g * p, -g * clock[RECENT], -g * held, size, c)
            clock[RECENT] = rule.constants.recall * clock[RECENT] + (1.0 - rule.constants.recall) * g
            if rule.labels:
                see_label(rule, parts.loss, clock, rows.y[n])
        if c == 0.0:
            continue
        scatter(lines, state, places, m, 2 * models)
        for a in range(larger):
            if outgrown.ratio[a] > 0.0:
                state[np.int64(rows.indices[first + buffers.larger[a]]), 2 * models] = outgrown.unit[a, 0]
                careful = careful or outgrown.unit[a, 0] > step
        if top > much or careful:
            careful = True
            for q in range(first, first + m):
                for a in range(state.shape[1]):
                    if not abs(state[np.int64(rows.indices[q]), a]) < np.inf:
                        guard[ROW] = n
                        return
            if not all_finite(parts, strengths, model):
                guard[ROW] = n
                return
    guard[CAREFUL] = careful
    if not all_finite(parts, strengths, model):
        guard[ROW] = rows.y.shape[0] - 1


@inlined
def row_of(parts, strengths, clock, k):
    """Return what the coming row shares in model k, in 64 bits, and the model's penalty."""
    penalty = with_strengths(parts.penalty, strengths.l1[k], strengths.l2[k])
    return begin(parts.rule, penalty, clock), penalty


@inlined
def scale(sized, row, state, places, x, units, buffers, m):
    """Write the row's values in units of their features' sizes; return how many outgrew these, and sum (x_j/s_j)^2."""
    larger, size, unit_at, numbers = 0, 0.0, state.shape[1] - 1, state.reshape(-1, 1)
    for q in range(m):
        i = unit_of(sized, row, numbers, places[q] + unit_at, 0)
        u = x[q] * i
        units[q], buffers.u[q] = i, u
        buffers.larger[larger] = q
        larger += outgrows(sized, row, i, u)
        size += squared(sized, row, u)
    for q in range(m, m + PAD):  # what an earlier row left there would grow with every row
        units[q] = row.one - row.one
    for q in range(m, m + PAD):
        buffers.u[q] = row.one - row.one
    return larger, size


@inlined
def new_outgrown(most, dtype):
    """Return room for the features of a row."""
    return Outgrown(np.zeros(most, dtype), np.zeros((most, 1), dtype), np.zeros(most, dtype), np.zeros(most, dtype))


@inlined
def measure_outgrown(clock, units, x, one, buffers, outgrown, larger):
    """Find the new units of features that outgrew their sizes, and count them in a clock."""
    for a in range(larger):
        q = buffers.larger[a]
        outgrown.unit[a, 0], outgrown.u_old[a] = units[q], buffers.u[q]
        outgrown.ratio[a] = grow(outgrown.unit[a : a + 1], 0, x[q], one, clock)
        outgrown.u_new[a] = x[q] * outgrown.unit[a, 0]


@inlined
def change_units(row, lines, z_at, r_at, buffers, outgrown, larger):
    """Express a model's numbers of features that outgrew their sizes, and what was read off them, in the new units."""
    cell = pointer(lines)
    for a in range(larger):
        ratio, q = outgrown.ratio[a], buffers.larger[a]
        if ratio > 0.0:
            if outgrown.u_old[a] != 0.0:  # else the feature is new: its cell is 0
                cell[z_at + q] *= ratio
                cell[r_at + q] *= ratio
            r = cell[r_at + q]
            buffers.w[q] /= ratio
            buffers.r[q], buffers.u[q] = r, outgrown.u_new[a]
            buffers.f[q] = floor(True, row, outgrown.unit[a, 0], r * r)


@inlined
def copy_numbers(source, at, target, to, n):
    """Copy n numbers from one flat place to another."""
    old, new = pointer(source), pointer(target)
    for q in range(n):
        new[to + q] = old[at + q]


@inlined
def raise_line(lines, at, more, m):
    """Raise the m numbers of a line by those of another."""
    line, other = pointer(lines), pointer(more)
    for q in range(m):
        line[at + q] += other[q]


@inlined
def copy_counts(common, clock):
    """Copy what a clock counts of the data alone."""
    clock[SUM], clock[MANTISSA], clock[COUNT] = common[SUM], common[MANTISSA], common[COUNT]
    clock[SCALE], clock[SIZE] = common[SCALE], common[SIZE]


@inlined
def scored(buffers, m, p, held):
    """Return the prediction p and the share that beta holds back of it, both summed in the order of the row."""
    for q in range(m):
        wu = buffers.w[q] * buffers.u[q]
        p += wu
        held += wu * buffers.share[q]
    return p, held


@inlined
def all_finite(parts, strengths, model):
    """Return whether the clocks of all models, and what their next rows share, are finite numbers."""
    for k in range(model.clock.shape[0]):
        penalty = with_strengths(parts.penalty, strengths.l1[k], strengths.l2[k])
        if not is_finite(parts.rule, penalty, model.clock[k], model.state):
            return False
    return True
