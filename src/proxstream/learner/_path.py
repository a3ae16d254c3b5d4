"""K strengths of one penalty learned side by side by dual averaging: RDA, AdaGrad and FTRL-Proximal.

A feature's cell holds the first number (u or z) of all K models, then the second one (r) of all: one stretch of memory
per non-zero, read and written once for all models. A row is gathered into buffers with one line per model and number,
in which each model learns it with the functions of `_loop` and `_rules`, in their order: its numbers are bit for bit
those of a learner with its strength alone. The clock counts rows and weights, which all models share.

A row of weight 0 is predicted and changes nothing: predictions are made in this way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.losses._kernels import value
from ..core.penalties._kernels import Bounded, Plain
from ..core.records import NamedTuple
from ..jit.byteops import SQUARE, every_nth, gather_square, pointer, scatter_square
from ..jit.compile import ask_for_rows, compiled, generic, inlined, prefetch
from ._finite import CAREFUL, REACH, ROW, are_finite, larger, largest, limit, quiet, quiet_step
from ._loop import STEP, dot, longest
from ._rules import accumulate, begin, finish, pull, weight

AHEAD = 32  # non-zeros beyond a row whose cells are asked for at least, even if the next row is shorter
LINE = 16  # numbers of a cache line


class Strengths(NamedTuple):
    """The l1 and l2 strengths of all models, in the precision of the state."""

    l1: Any
    l2: Any


@generic
def with_strengths(penalty: Any, l1: float, l2: float) -> Any:
    """Return the penalty of one model; constraints are those of the template."""
    return Plain(l1, l2)


@with_strengths.of(Bounded)
def _(penalty, l1, l2):
    return Bounded(l1, l2, penalty.lo, penalty.hi)


@inlined
def line_length(most):
    """Return the length of a buffer's lines: whole cache lines, an odd number, so that no two fall into one place."""
    return ((most + STEP + LINE - 1) // LINE | 1) * LINE


@compiled
def learn(parts, strengths, rows, model, out, guard):
    """Learn from each row in turn; out (models, rows) gets the predictions made before. For the guard see `_finite`."""
    rule, l1, l2 = parts.rule, strengths.l1, strengths.l2
    state, bias, clock, still = model.state, model.bias, model.clock, model.still
    models, asked, has_bias, number = l1.shape[0], rows.indptr[0], bias.shape[0] > 0, state.dtype.type
    across = line_length(longest(rows.indptr))
    places, lines = np.zeros(across, np.int64), np.zeros((state.shape[1], across), state.dtype)
    weights, x = np.zeros(across, state.dtype), np.zeros(across, state.dtype)
    careful, step, reach = guard[CAREFUL] > 0.0, quiet_step(state), max(guard[REACH], 1.0)
    for i in range(rows.y.shape[0]):
        c = rows.c[i] if rows.c.shape[0] else 1.0
        first, n = rows.indptr[i], rows.indptr[i + 1] - rows.indptr[i]
        apart = begin(parts.bias_rule, parts.free, clock, 0, still, c, bias)
        find_cells(state, rows.indices, rows.data, first, n, places, x)
        gather(state, places, n, state.shape[1], lines)
        until, turn = next_to_ask(rows.indptr, i, asked, models)
        x[n : n + STEP] = 0.0
        m = (n + SQUARE - 1) // SQUARE * SQUARE  # whole vector registers
        loud = careful
        for k in range(models):
            asked = ask_for_some(state, rows.indices, asked, min(asked + turn, until))
            penalty = with_strengths(parts.penalty, l1[k], l2[k])
            shared = begin(rule, penalty, clock, 0, still, c, state)
            b, cells = 0.0, every_nth(lines, k, models)
            for q in range(m):
                weights[q] = weight(rule, penalty, shared, cells, still, q)
            p = dot(weights, x, n)
            if has_bias:
                b = weight(parts.bias_rule, parts.free, apart, bias, still, k)
                p = p + b
            out[k, i] = p
            if not abs(p) < np.inf:
                guard[ROW] = i
                return
            if c == 0.0:
                continue
            g = pull(rule, parts.loss, p, rows.y[i], 0.0, c)
            if g != 0.0:
                g_cell, v_cell = number(g), number(0.0)
                for q in range(m):
                    accumulate(rule, penalty, shared, cells, q, weights[q], x[q], g_cell, v_cell)
                if has_bias:
                    accumulate(parts.bias_rule, parts.free, apart, bias, k, b, 1.0, g, 0.0)
                loud = loud or not quiet(rule, shared, abs(g), reach, step)
        if c == 0.0:
            continue
        scatter(lines, state, places, n, state.shape[1])
        finish(rule, parts.penalty, clock, still, c)
        if loud:
            top = largest(0.0, bias, bias.shape[0])
            for k in range(models):
                penalty = with_strengths(parts.penalty, l1[k], l2[k])
                top = looked_at(parts, penalty, model, every_nth(lines, k, models), n, k, top)
            careful = careful or top > limit(state)
            if top == np.inf:
                guard[ROW] = i
                return
    guard[CAREFUL] = careful
    if not are_finite(clock):
        guard[ROW] = rows.y.shape[0] - 1


@inlined
def looked_at(parts, penalty, model, cells, n, k, top):
    """Return the largest number of model k's cells of a row and of its weights, or `top`."""
    shared = begin(parts.rule, penalty, model.clock, 0, model.still, 1.0, model.state)
    top = largest(top, cells, n)
    for q in range(n):
        top = larger(top, weight(parts.rule, penalty, shared, cells, model.still, q))
    if model.bias.shape[0]:
        apart = begin(parts.bias_rule, parts.free, model.clock, 0, model.still, 1.0, model.bias)
        top = larger(top, weight(parts.bias_rule, parts.free, apart, model.bias, model.still, k))
    return top


@inlined
def find_cells(state, indices, data, first, n, places, x):
    """Copy a row's values and the places of its features' cells in the flat state."""
    span, index, values, at, own = state.shape[1], pointer(indices), pointer(data), pointer(places), pointer(x)
    ask_for_rows(indices, data, first, n)
    for q in range(n):
        at[q] = span * np.int64(index[first + q])
        own[q] = values[first + q]


@inlined
def next_to_ask(indptr, i, asked, models):
    """Return up to which non-zero cells are asked for while row i is learned, and how many per model.

    Asked for all at once, the cells of a row would wait for each other: a processor fetches few lines at a time.
    """
    until = max(indptr[min(i + 2, indptr.shape[0] - 1)], min(indptr[i + 1] + AHEAD, indptr[-1]))
    return until, (until - asked + models - 1) // models


@inlined
def ask_for_some(state, indices, asked, stop):
    """Ask for the cells of the non-zeros from `asked` to `stop`; return `stop`."""
    span, index = state.shape[1], pointer(indices)
    step = LINE if state.itemsize == 4 else LINE // 2
    for q in range(asked, stop):
        cell = span * np.int64(index[q])
        for s in range(0, span - 1, step):
            prefetch(state, cell + s)
        if span % step:  # else cells begin where lines do
            prefetch(state, cell + span - 1)
    return stop


@inlined
def gather(state, places, n, columns, lines):
    """Copy the first columns of the row's cells, a line per column; after the row's end comes a copy of its last."""
    away, at, near, across = pointer(state), pointer(places), pointer(lines), lines.shape[1]
    for q in range(n, n + SQUARE):
        at[q] = at[max(n - 1, 0)]
    whole = columns // SQUARE * SQUARE
    for q in range(0, n, SQUARE):
        for a in range(0, whole, SQUARE):
            gather_square(away, at, q, a, near, a * across + q, across)
    for a in range(whole, columns):
        for q in range((n + SQUARE - 1) // SQUARE * SQUARE):
            near[a * across + q] = away[at[q] + a]


@inlined
def scatter(lines, state, places, n, columns):
    """Copy lines back to the first columns of the row's cells."""
    away, at, near, across = pointer(state), pointer(places), pointer(lines), lines.shape[1]
    whole = columns // SQUARE * SQUARE if n >= SQUARE else 0
    for start in range(0, n if whole else 0, SQUARE):
        q = min(start, n - SQUARE)  # the last square begins inside the one before: both write the same there
        for a in range(0, whole, SQUARE):
            scatter_square(near, a * across + q, across, away, at, q, a)
    for a in range(whole, columns):
        for q in range(n):
            away[at[q] + a] = near[a * across + q]


# -- losses of all models, row by row ------------------------------------------------------------


# Columns of the sums of all models: c l, c, c^2 l, c^2, c^2 l^2, and from PAIRS on c^2 (l_k - l_j)^2 for each model j.
LOSS, WEIGHT, SQUARED_LOSS, SQUARED_WEIGHT, SQUARES, PAIRS = range(6)


@compiled
def add_losses(loss, scores, y, c, sums, each):
    """Add the rows' losses times weights, and weights, to the sums, in order; write the losses to `each`.

    scores and each : (models, rows)
    """
    for k in range(scores.shape[0]):
        for i in range(y.shape[0]):
            own, share = value(loss, scores[k, i], y[i]), c[i] if c.shape[0] else 1.0
            each[k, i] = own
            sums[k, LOSS] += share * own
            sums[k, WEIGHT] += share


@compiled
def add_pairs(each, c, sums):
    """Add the rows' losses (models, rows) to the sums of squares, in order."""
    models = each.shape[0]
    own = np.zeros(models)
    for i in range(each.shape[1]):
        square = c[i] * c[i] if c.shape[0] else 1.0
        for k in range(models):
            own[k] = each[k, i]
        for k in range(models):
            sums[k, SQUARED_LOSS] += square * own[k]
            sums[k, SQUARED_WEIGHT] += square
            sums[k, SQUARES] += square * own[k] * own[k]
            for j in range(models):
                d = own[j] - own[k]
                sums[k, PAIRS + j] += square * d * d
