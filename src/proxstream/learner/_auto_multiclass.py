"""AutoFTRL compiled, the loop over rows for models with one score per class.

A feature's cell is z/s of all classes, then r/s of all classes, then the one 1/s that they share (none with a global
scale): one stretch of memory per non-zero, and class by class the arithmetic uses whole vector registers. The classes
also share a, b, c, kappa and beta; the evidence behind a feature's scale and the gradients of a, b and c are sums over
classes. With a binary loss per class (one-vs-rest) the same holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.losses._kernels import slope
from ..jit.byteops import pointer
from ..jit.compile import ask_for_cells, compiled, generic, inlined
from ._auto import (
    RECENT,
    begin,
    finish,
    floor,
    grow,
    intercept,
    is_finite,
    measure,
    narrowed,
    outgrows,
    solve,
    squared,
    taken,
    unit_of,
)
from ._finite import CAREFUL, ROW, are_finite, larger as further, largest, magnitude, quiet_step
from ._loop import longest
from ._loop_multiclass import OneVsRest, slopes

AHEAD = 32  # non-zeros between asking for cells and using them


@generic
def slopes_of(loss: Any, p: Any, y: int, g: Any) -> None:
    """Write the slope of the row's loss in each score to g."""
    slopes(loss, p, y, g)


@slopes_of.of(OneVsRest)
def _(loss, p, y, g):
    for a in range(p.shape[0]):
        g[a] = slope(loss.loss, p[a], 1.0 if a == y else -1.0)


@inlined
def evidence(state, j, classes):
    """Return r^2 of feature j summed over classes."""
    total = state[j, classes] * state[j, classes]
    for a in range(classes + 1, 2 * classes):
        total += state[j, a] * state[j, a]
    return total


@compiled
def learn(parts, rows, model, out, guard):
    """Learn from each row in turn; out gets the scores before learning it. Labels are the classes 0, 1, ..."""
    rule, penalty = parts.rule, parts.penalty
    state, bias, clock = model.state, model.bias, model.clock
    classes, width, end, has_bias = out.shape[1], state.shape[1], rows.indptr[-1], bias.shape[0] > 0
    unit_at, most = 2 * classes, longest(rows.indptr)
    weights, floors = np.empty((most, classes), state.dtype), np.empty(most, state.dtype)
    p, held, g, b = np.zeros(classes), np.zeros(classes), np.zeros(classes), np.zeros(classes)
    g_cell = np.zeros(classes, state.dtype)
    careful, step = guard[CAREFUL] > 0.0, quiet_step(state)
    much = magnitude(state.dtype.type(step))
    for n in range(rows.y.shape[0]):
        c = rows.c[n] if rows.c.shape[0] else 1.0
        first, m = rows.indptr[n], rows.indptr[n + 1] - rows.indptr[n]
        wide = begin(rule, penalty, clock)
        row = narrowed(wide, state)
        size = 0.0
        for a in range(classes):
            p[a], held[a] = 0.0, 0.0
            if has_bias:
                b[a], share = intercept(wide, bias[a, 0], bias[a, 1])
                p[a], held[a] = b[a], b[a] * share
        for q in range(m):
            if first + q + AHEAD < end:
                ask_for_cells(state, width * np.int64(rows.indices[first + q + AHEAD]), width)
            j = np.int64(rows.indices[first + q])
            i = unit_of(rule.sized, row, state, j, unit_at)
            u, f = rows.data[first + q] * i, floor(rule.sized, row, i, evidence(state, j, classes))
            floors[q] = f
            for a in range(classes):
                w, share = solve(penalty, row, state[j, a], state[j, classes + a], i, f)
                weights[q, a] = w
                p[a] += w * u
                held[a] += w * u * share
            size += squared(rule.sized, row, u)
        for a in range(classes):
            out[n, a] = p[a]
        if not are_finite(p):
            guard[ROW] = n
            return
        if c == 0.0:
            continue
        slopes_of(parts.loss, p, int(rows.y[n]), g)
        q_a, q_b, q_c, recall = 0.0, 0.0, 0.0, rule.constants.recall
        for a in range(classes):
            g[a] *= c
            g_cell[a] = g[a]
            q_a += g[a] * p[a]
            q_b -= g[a] * clock[RECENT + a]
            q_c -= g[a] * held[a]
            clock[RECENT + a] = recall * clock[RECENT + a] + (1.0 - recall) * g[a]
        larger, top = 0, magnitude(row.one - row.one)
        for q in range(m):
            j, x = np.int64(rows.indices[first + q]), rows.data[first + q]
            i, f = unit_of(rule.sized, row, state, j, unit_at), floors[q]
            if outgrows(rule.sized, row, i, x * i):
                larger += 1
                ratio = grow(state, j, x, row.one, clock)
                if ratio > 0.0:
                    for a in range(classes):
                        weights[q, a] /= ratio
                    i = state[j, unit_at]
                    f = floor(rule.sized, row, i, evidence(state, j, classes))
                    careful = careful or i > step
            for a in range(classes):
                z, r = taken(row, state[j, classes + a], g_cell[a] * (x * i), weights[q, a], f)
                state[j, a] += z
                state[j, classes + a] += r
                top = max(top, magnitude(z), magnitude(r))
        if has_bias:
            for a in range(classes):
                z, r = taken(wide, bias[a, 1], g[a], b[a], 1.0)
                bias[a, 0] += z
                bias[a, 1] += r
        size = measure(rule, pointer(clock), larger, size, pointer(rows.data), first, m)
        finish(rule, clock, q_a, q_b, q_c, size, c)
        if careful or top > much or wide.kappa > step:
            careful, most = True, largest(0.0, bias, bias.shape[0])
            for q in range(first, first + m):
                for k in range(width):
                    most = further(most, state[np.int64(rows.indices[q]), k])
            if most == np.inf or not is_finite(rule, penalty, clock, state):
                guard[ROW] = n
                return
    guard[CAREFUL] = careful
    if not is_finite(rule, penalty, clock, state) or largest(0.0, bias, bias.shape[0]) == np.inf:
        guard[ROW] = rows.y.shape[0] - 1


@compiled
def predict(parts, rows, model, out):
    """Score each row with the weights as they are now; features beyond the state have none."""
    state, bias = model.state, model.bias
    wide = begin(parts.rule, parts.penalty, model.clock)
    row = narrowed(wide, state)
    w, b = np.empty(out.shape[1], state.dtype), np.zeros(out.shape[1])
    for a in range(bias.shape[0]):
        b[a] = intercept(wide, bias[a, 0], bias[a, 1])[0]
    for n in range(rows.indptr.shape[0] - 1):
        out[n] = b
        for q in range(rows.indptr[n], rows.indptr[n + 1]):
            j = np.int64(rows.indices[q])
            if j < state.shape[0]:
                _weights(parts, row, state, j, w)
                for a in range(w.shape[0]):
                    out[n, a] += w[a] * rows.data[q]


@compiled
def read(parts, model, out, intercepts):
    """Write the weights (features, classes) into out, and the intercepts."""
    wide = begin(parts.rule, parts.penalty, model.clock)
    row = narrowed(wide, model.state)
    for j in range(model.state.shape[0]):
        _weights(parts, row, model.state, j, out[j])
    for a in range(model.bias.shape[0]):
        intercepts[a] = intercept(wide, model.bias[a, 0], model.bias[a, 1])[0]


@inlined
def _weights(parts, row, state, j, w):
    """Write feature j's weights to w."""
    classes = w.shape[0]
    i = unit_of(parts.rule.sized, row, state, j, 2 * classes)
    f = floor(parts.rule.sized, row, i, evidence(state, j, classes))
    for a in range(classes):
        w[a] = solve(parts.penalty, row, state[j, a], state[j, classes + a], i, f)[0] * i
