"""The loop over rows for models with one score per class: the features' cells lie class by class, side by side.

Cell j * classes + c belongs to feature j and class c, so every rule of `rules` works on it as on any other cell, and
all that a non-zero touches is one stretch of memory. A row of data reads all classes of its features, makes one slope
a class, and writes back. Two kinds of loss:

- a loss of all scores (softmax, multiclass_hinge): one problem, its slopes made together by `slopes`;
- one-vs-rest: a binary loss per class with the label +1 for the row's class and -1 for all others. The classes share
  the clock and nothing else: with a separable penalty they are the models that one scalar engine per class would learn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.losses import _kernels as losses
from ..core.records import NamedTuple
from ..jit.compile import ask_for_cells, compiled, generic, inlined
from ._finite import CAREFUL, REACH, ROW, are_finite, larger, largest, limit, quiet, quiet_step
from ._groups import brought, norm_strength, read_row, settle_rows, unit, write_row
from ._loop import SMALLEST, longest
from ._rules import EPOCH, NOW, PassiveAggressive, accumulate, begin, finish, pull, spread, spreads, weight

AHEAD = 32  # non-zeros between asking for cells and using them


class OneVsRest(NamedTuple):
    """A binary loss per class."""

    loss: Any


# -- slopes of the losses of all scores ----------------------------------------------------------


@generic
def slopes(loss: Any, p: Any, y: int, g: Any) -> float:
    """Write the slope of the loss in each score to g and return the loss, or 0 where no rule asks for it."""
    raise NotImplementedError


@slopes.of(losses.Softmax)
def _(loss, p, y, g):
    top = p[0]
    for c in range(1, p.shape[0]):
        top = max(top, p[c])
    total = 0.0
    for c in range(p.shape[0]):
        g[c] = math.exp(p[c] - top)
        total += g[c]
    others = 0.0
    for c in range(p.shape[0]):
        g[c] /= total
        if c != y:
            others += g[c]
    g[y] = -min(others, 1.0)
    return 0.0


@slopes.of(losses.MulticlassHinge)
def _(loss, p, y, g):
    worst, most = y, 0.0
    for c in range(p.shape[0]):
        g[c] = 0.0
        if c != y and 1.0 + (p[c] - p[y]) > most:
            worst, most = c, 1.0 + (p[c] - p[y])
    if most > 0.0:
        g[worst], g[y] = 1.0, -1.0
    return most


@generic
def pulls(loss: Any, rule: Any, p: Any, y: int, v: Any, c: float, g: Any) -> None:
    """Write the gradient of the row's loss in each score, times its weight, to g."""
    suffered = slopes(loss, p, y, g)
    _weigh(rule, suffered, v, c, g)


@pulls.of(OneVsRest)
def _(loss, rule, p, y, v, c, g):
    for j in range(p.shape[0]):
        g[j] = pull(rule, loss.loss, p[j], 1.0 if j == y else -1.0, v[j], c)


@generic
def _weigh(rule: Any, suffered: float, v: Any, c: float, g: Any) -> None:
    """Turn slopes into what the cells take in."""
    for j in range(g.shape[0]):
        g[j] *= c


@_weigh.of(PassiveAggressive)
def _(rule, suffered, v, c, g):
    squared = 0.0
    for j in range(g.shape[0]):
        squared += g[j] * g[j] * v[j]
    tau = 0.0
    if suffered > 0.0 and squared > 0.0:
        if rule.variant == 2:
            tau = suffered / (squared + 1.0 / (2.0 * c * rule.C))
        else:
            tau = suffered / squared
            if rule.variant == 1:
                tau = min(tau, c * rule.C)
    for j in range(g.shape[0]):
        g[j] *= tau


# -- the loop ------------------------------------------------------------------------------------


@compiled
def learn(parts, classes, rows, model, out, guard):
    """Learn from each row in turn; out gets the scores before learning it. Labels are the classes 0, 1, ..."""
    rule, penalty = parts.rule, parts.penalty
    state, bias, clock, table = model.state, model.bias, model.clock, model.table
    end, has_bias, span = rows.indptr[-1], bias.shape[0] > 0, classes * state.shape[1]
    weights = np.empty(longest(rows.indptr) * classes, state.dtype)
    b, p, v, g = np.zeros(classes), np.zeros(classes), np.zeros(classes), np.zeros(classes)
    g_cell, v_cell = np.zeros(classes, state.dtype), np.zeros(classes, state.dtype)
    work = np.zeros(3 * classes)
    careful, step, reach = guard[CAREFUL] > 0.0, quiet_step(state), max(guard[REACH], 1.0)
    for i in range(rows.y.shape[0]):
        c = rows.c[i] if rows.c.shape[0] else 1.0
        first, last = rows.indptr[i], rows.indptr[i + 1]
        shared = begin(rule, penalty, clock, int(clock[NOW]), table, c, state)
        apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, c, bias)
        L = norm_strength(penalty, brought(rule, clock, c))
        for a in range(classes):
            p[a], v[a] = 0.0, 0.0
            if has_bias:
                b[a] = weight(parts.bias_rule, parts.free, apart, bias, model.still, a)
                p[a], v[a] = b[a], spread(parts.bias_rule, bias, a)
        for q in range(first, last):
            if q + AHEAD < end:
                ask_for_cells(state, span * np.int64(rows.indices[q + AHEAD]), span)
            j, x, at = np.int64(rows.indices[q]), rows.data[q], (q - first) * classes
            read_row(penalty, rule, shared, L, state, model.table, j, weights, at, work)
            for a in range(classes):
                p[a] += weights[at + a] * x
            if spreads(rule):
                for a in range(classes):
                    v[a] += spread(rule, state, j * classes + a) * x * x
        for a in range(classes):
            out[i, a] = p[a]
        if not are_finite(p):
            guard[ROW] = i
            return
        if c == 0.0:
            continue
        pulls(parts.loss, rule, p, int(rows.y[i]), v, c, g)
        touched, steepest = False, 0.0
        for a in range(classes):
            g_cell[a], v_cell[a] = g[a], v[a]
            touched = touched or g[a] != 0.0
            steepest = larger(steepest, g[a])
        if touched:
            for q in range(first, last):
                j, x, at = np.int64(rows.indices[q]), rows.data[q], (q - first) * classes
                write_row(penalty, rule, shared, L, state, j, weights, at, x, g_cell, v_cell, work)
            if has_bias:
                for a in range(classes):
                    if g[a] != 0.0:
                        accumulate(parts.bias_rule, parts.free, apart, bias, a, b[a], 1.0, g[a], v[a])
        finish(rule, unit(penalty), clock, table, c)
        if touched and (careful or not quiet(rule, shared, steepest, reach, step)):
            shared = begin(rule, penalty, clock, int(clock[NOW]), table, 1.0, state)
            apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, 1.0, bias)
            L, top = norm_strength(penalty, brought(rule, clock, 1.0)), largest(0.0, bias, bias.shape[0])
            for q in range(first, last):
                j = np.int64(rows.indices[q])
                top = largest(top, state[j * classes : (j + 1) * classes], classes)
                read_row(penalty, rule, shared, L, state, model.table, j, weights, 0, work)
                for a in range(classes):
                    top = larger(top, weights[a])
            for a in range(bias.shape[0]):
                top = larger(top, weight(parts.bias_rule, parts.free, apart, bias, model.still, a))
            careful = careful or top > limit(state)
            if top == np.inf:
                guard[ROW] = i
                return
        now = int(clock[NOW])
        if now == EPOCH or table[now, 0] < SMALLEST:
            settle_rows(penalty, rule, clock, table, state, work)
            top = largest(0.0, state, state.shape[0])
            careful = careful or top > limit(state)
            if top == np.inf:
                guard[ROW] = i
                return
    guard[CAREFUL] = careful
    if not (are_finite(clock) and are_finite(table[int(clock[NOW])])):
        guard[ROW] = rows.y.shape[0] - 1


@compiled
def predict(parts, classes, rows, model, out):
    """Score each row with the weights as they are now; features beyond the state have none."""
    rule, penalty, state, clock = parts.rule, parts.penalty, model.state, model.clock
    shared = begin(rule, penalty, clock, int(clock[NOW]), model.table, 1.0, state)
    L = norm_strength(penalty, brought(rule, clock, 1.0))
    b, w, work = np.zeros(classes), np.empty(classes, state.dtype), np.zeros(3 * classes)
    _read_bias(parts, model, b)
    for i in range(rows.indptr.shape[0] - 1):
        for a in range(classes):
            out[i, a] = b[a]
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            j = np.int64(rows.indices[q])
            if (j + 1) * classes <= state.shape[0]:
                read_row(penalty, rule, shared, L, state, model.table, j, w, 0, work)
                for a in range(classes):
                    out[i, a] += w[a] * rows.data[q]


@compiled
def read(parts, classes, model, out, intercepts):
    """Write the weights, feature by feature, into the flat out, and the intercepts."""
    rule, penalty, state, clock = parts.rule, parts.penalty, model.state, model.clock
    shared = begin(rule, penalty, clock, int(clock[NOW]), model.table, 1.0, state)
    L = norm_strength(penalty, brought(rule, clock, 1.0))
    work = np.zeros(3 * classes)
    for j in range(state.shape[0] // classes):
        read_row(penalty, rule, shared, L, state, model.table, j, out, j * classes, work)
    _read_bias(parts, model, intercepts)


@inlined
def _read_bias(parts, model, out):
    apart = begin(parts.bias_rule, parts.free, model.clock, 0, model.still, 1.0, model.bias)
    for a in range(model.bias.shape[0]):
        out[a] = weight(parts.bias_rule, parts.free, apart, model.bias, model.still, a)
