"""The one loop over rows: predict, then learn, at the speed of memory.

A row is read twice. The forward pass turns cells into weights, keeps them in a small buffer and sums the prediction;
the backward pass writes the gradient into the same cells, still warm. Cells of the rows ahead are asked for early.
A row costs its own non-zeros, whatever the dimension.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .jit import compiled, prefetch
from .rules import EPOCH, NOW, accumulate, begin, finish, pull, settle, spread, spreads, weight

AHEAD = 64  # non-zeros between asking for a cell and using it
SMALLEST = 1e-100  # of P, the decay since the epoch began


class Parts(NamedTuple):
    """The components of a learner: for the features, and for the intercept, which is free of penalty."""

    rule: Any
    penalty: Any
    loss: Any
    bias_rule: Any
    free: Any


class Model(NamedTuple):
    """What a learner remembers: a cell a feature, the intercept's cell (or none), the clock, the idle rounds' table."""

    state: Any
    bias: Any
    clock: Any
    table: Any
    still: Any  # a table in which nothing decays, for the intercept


@compiled
def learn(parts, rows, model, out):
    """Learn from each row in turn; out gets the prediction made before learning it."""
    rule, penalty = parts.rule, parts.penalty
    state, bias, clock, table = model.state, model.bias, model.clock, model.table
    width, end, has_bias = state.shape[1], rows.indptr[-1], bias.shape[0] > 0
    weights = np.empty(longest(rows.indptr), state.dtype)
    for i in range(rows.y.shape[0]):
        c = rows.c[i] if rows.c.shape[0] else 1.0
        first, last = rows.indptr[i], rows.indptr[i + 1]
        shared = begin(rule, penalty, clock, int(clock[NOW]), table, c, state)
        apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, c, bias)
        p, v, b = 0.0, 0.0, 0.0
        if has_bias:
            b = weight(parts.bias_rule, parts.free, apart, bias, model.still, 0)
            p, v = b, spread(parts.bias_rule, bias, 0)
        for q in range(first, last):
            if q + AHEAD < end:
                prefetch(state, width * np.int64(rows.indices[q + AHEAD]))
            j, x = np.int64(rows.indices[q]), rows.data[q]
            w = weight(rule, penalty, shared, state, table, j)
            weights[q - first] = w
            p += w * x
            if spreads(rule):
                v += spread(rule, state, j) * x * x
        out[i] = p
        if c == 0.0:
            continue
        g = pull(rule, parts.loss, p, rows.y[i], v, c)
        if g != 0.0:
            g_cell, v_cell = state.dtype.type(g), state.dtype.type(v)
            for q in range(first, last):
                j = np.int64(rows.indices[q])
                accumulate(rule, penalty, shared, state, j, weights[q - first], rows.data[q], g_cell, v_cell)
            if has_bias:
                accumulate(parts.bias_rule, parts.free, apart, bias, 0, b, 1.0, g, v)
        finish(rule, penalty, clock, table, c)
        now = int(clock[NOW])
        if now == EPOCH or table[now, 0] < SMALLEST:
            settle(rule, penalty, clock, table, state)


@compiled
def foresee(parts, rows, clock, table, clocks):
    """Write the clock before each row and the idle rounds' table up to the row that settles all; return its place.

    Neither depends on what is learned, only on the rows' weights: threads can then begin a row anywhere.
    """
    clocks[0] = clock
    for i in range(rows.y.shape[0]):
        c = rows.c[i] if rows.c.shape[0] else 1.0
        clocks[i + 1] = clocks[i]
        if c != 0.0:
            finish(parts.rule, parts.penalty, clocks[i + 1], table, c)
            now = int(clocks[i + 1, NOW])
            if now == EPOCH or table[now, 0] < SMALLEST:
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
