"""The one loop over rows: predict, then learn, at the speed of memory.

A row's cells are gathered side by side, turned into weights and a prediction, take in the gradient, and are scattered
back: between the two, loops over contiguous numbers run in vector registers, always whole steps of them. Beyond the
row's end its values are 0: what an earlier row left in the buffers there counts for nothing and is not written back.
Cells of the rows ahead are asked for early, and so are these rows themselves. What is gathered and scattered one by one
goes through pointers: an array would look at each index whether it is negative. A row costs its own non-zeros, whatever
the dimension; its features must be distinct.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.records import NamedTuple
from ..jit.byteops import dot_in_strands, pointer
from ..jit.compile import ask_for_cell, ask_for_rows, compiled, inlined
from ._finite import CAREFUL, REACH, ROW, are_finite, larger, largest, limit, quiet, quiet_step
from ._rules import EPOCH, NOW, accumulate, begin, finish, pull, settle, spread, spreads, weight

AHEAD = 64  # non-zeros between asking for a cell and using it
STEP = 32  # numbers that a round of the vector loops takes: four registers of 8; what is left over would run one by one
SMALLEST = 1e-100  # of P, the decay since the epoch began


class Parts(NamedTuple):
    """The components of a learner: for the features, and for the intercept, which is free of penalty."""

    rule: Any
    penalty: Any
    loss: Any
    bias_rule: Any
    free: Any


class Model(NamedTuple):
    """A learner's memory: a cell per feature, the intercept's cell (or none), the clock, the idle rounds' table."""

    state: Any
    bias: Any
    clock: Any
    table: Any
    still: Any  # a table in which nothing decays, for the intercept


@compiled
def learn(parts, rows, model, out, guard):
    """Learn from each row in turn; out gets the prediction made before learning it. For the guard see `finite`."""
    rule, penalty = parts.rule, parts.penalty
    state, bias, clock, table = model.state, model.bias, model.clock, model.table
    end, has_bias = rows.indptr[-1], bias.shape[0] > 0
    most = longest(rows.indptr) + STEP
    room = np.zeros((state.shape[1], most), state.dtype)
    cells = room.T  # a column a number of the cell
    away, near = pointer(state), pointer(room)
    weights, x = np.zeros(most, state.dtype), np.zeros(most, state.dtype)
    careful, step, reach = guard[CAREFUL] > 0.0, quiet_step(state), max(guard[REACH], 1.0)
    for i in range(rows.y.shape[0]):
        c = rows.c[i] if rows.c.shape[0] else 1.0
        first, n = rows.indptr[i], rows.indptr[i + 1] - rows.indptr[i]
        shared = begin(rule, penalty, clock, int(clock[NOW]), table, c, state)
        apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, c, bias)
        v, b = 0.0, 0.0
        gather(state, away, near, rows.indices, rows.data, first, n, end, x)
        x[n : n + STEP] = 0.0
        m = (n + STEP - 1) // STEP * STEP
        for q in range(m):
            weights[q] = weight(rule, penalty, shared, cells, table, q)
        p = dot(weights, x, n)
        if spreads(rule):
            for q in range(m):
                v += spread(rule, cells, q) * x[q] * x[q]
        if has_bias:
            b = weight(parts.bias_rule, parts.free, apart, bias, model.still, 0)
            p, v = p + b, v + spread(parts.bias_rule, bias, 0)
        out[i] = p
        if not abs(p) < np.inf:
            guard[ROW] = i
            return
        if c == 0.0:
            continue
        g = pull(rule, parts.loss, p, rows.y[i], v, c)
        if g != 0.0:
            g_cell, v_cell = state.dtype.type(g), state.dtype.type(v)
            for q in range(m):
                accumulate(rule, penalty, shared, cells, q, weights[q], x[q], g_cell, v_cell)
            scatter(near, most, away, state.shape[1], rows.indices, first, n)
            if has_bias:
                accumulate(parts.bias_rule, parts.free, apart, bias, 0, b, 1.0, g, v)
        finish(rule, penalty, clock, table, c)
        if g != 0.0 and (careful or not quiet(rule, shared, abs(g), reach, step)):
            shared = begin(rule, penalty, clock, int(clock[NOW]), table, 1.0, state)
            apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, 1.0, bias)
            top = largest(largest(0.0, cells, n), bias, bias.shape[0])
            for q in range(n):
                top = larger(top, weight(rule, penalty, shared, cells, table, q))
            if has_bias:
                top = larger(top, weight(parts.bias_rule, parts.free, apart, bias, model.still, 0))
            careful = careful or top > limit(state)
            if top == np.inf:
                guard[ROW] = i
                return
        now = int(clock[NOW])
        if now == EPOCH or table[now, 0] < SMALLEST:
            settle(rule, penalty, clock, table, state)
            top = largest(0.0, state, state.shape[0])
            careful = careful or top > limit(state)
            if top == np.inf:
                guard[ROW] = i
                return
    guard[CAREFUL] = careful
    if not (are_finite(clock) and are_finite(table[int(clock[NOW])])):
        guard[ROW] = rows.y.shape[0] - 1


@inlined
def gather(state, away, near, indices, data, first, n, end, x):
    """Copy a row's values, and the cells of its features side by side; ask for the cells of the rows ahead."""
    width, across, index, value, out = state.shape[1], x.shape[0], pointer(indices), pointer(data), pointer(x)
    ask_for_rows(indices, data, first, n)
    for q in range(n):
        if first + q + AHEAD < end:
            ask_for_cell(state, width, np.int64(index[first + q + AHEAD]))
        j = width * np.int64(index[first + q])
        out[q] = value[first + q]
        near[q] = away[j]
        if width > 1:
            near[across + q] = away[j + 1]
        if width > 2:
            near[2 * across + q] = away[j + 2]


@inlined
def scatter(near, across, away, width, indices, first, n):
    """Write a row's cells back."""
    index = pointer(indices)
    for q in range(n):
        j = width * np.int64(index[first + q])
        away[j] = near[q]
        if width > 1:
            away[j + 1] = near[across + q]
        if width > 2:
            away[j + 2] = near[2 * across + q]


@inlined
def dot(weights, x, n):
    """Return the sum of weights times x in eight strands, an order that depends on the row alone; x is 0 beyond n."""
    return dot_in_strands(pointer(weights), pointer(x), n)


@compiled
def foresee(parts, rows, clock, table, every, clocks):
    """Write the clock before every so many rows, and the idle rounds' table, up to the row that settles all.

    Neither depends on what is learned, only on the rows' weights: threads can then begin at any of these rows. Return
    that row's place; `clock` moves there.
    """
    before = clock.copy()
    for i in range(rows.y.shape[0]):
        if i % every == 0:
            clocks[i // every] = clock
        c = rows.c[i] if rows.c.shape[0] else 1.0
        if c != 0.0:
            before[:] = clock
            finish(parts.rule, parts.penalty, clock, table, c)
            now = int(clock[NOW])
            if now == EPOCH or table[now, 0] < SMALLEST:
                clock[:] = before
                return i
    return rows.y.shape[0]


@compiled
def predict(parts, rows, model, out):
    """Predict each row with the weights as they are now; features beyond the state have none."""
    rule, penalty, state, clock, table = parts.rule, parts.penalty, model.state, model.clock, model.table
    shared = begin(rule, penalty, clock, int(clock[NOW]), table, 1.0, state)
    apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, 1.0, model.bias)
    for i in range(rows.indptr.shape[0] - 1):
        p = 0.0
        if model.bias.shape[0]:
            p += weight(parts.bias_rule, parts.free, apart, model.bias, model.still, 0)
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            j = np.int64(rows.indices[q])
            if j < state.shape[0]:
                p += weight(rule, penalty, shared, state, table, j) * rows.data[q]
        out[i] = p


@compiled
def read(parts, model, out):
    """Write every feature's weight into out and return the intercept."""
    rule, penalty, state, clock, table = parts.rule, parts.penalty, model.state, model.clock, model.table
    shared = begin(rule, penalty, clock, int(clock[NOW]), table, 1.0, state)
    apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, 1.0, model.bias)
    for j in range(state.shape[0]):
        out[j] = weight(rule, penalty, shared, state, table, j)
    return weight(parts.bias_rule, parts.free, apart, model.bias, model.still, 0) if model.bias.shape[0] else 0.0


@compiled
def longest(indptr):
    """Return the number of non-zeros of the longest row."""
    most = 0
    for i in range(indptr.shape[0] - 1):
        most = max(most, indptr[i + 1] - indptr[i])
    return most
