"""Prox-SDCA, one output: rows in some order, each moving its own dual variable.

    here            the paper                                    what it is
    alpha_i         alpha_i                                      dual variable of row i
    v               lambda v = (1/n) sum_i x_i alpha_i           sum_i p_i alpha_i x_i, the pull on the weights
    weight(link)    grad g*(v)                                   w_j = soft(v_j, l1_j) / l2_j
    c_i             ||x_i||^2 / (lambda n)                       p_i sum_j x_ij^2 / l2_j, curvature of the row's step
    reach           R^2 / (lambda n)                             the same with the largest norm of all rows
    gamma           gamma                                        1 / smoothness of the loss, 0 with kinks

A row's share p_i stands where the paper has 1/n. An intercept is a feature of value 1 whose strength mu is not in the
objective: b = center + (1/mu) sum_i p_i alpha_i. Between passes the solver moves the center to b, which is the method
of multipliers for the dual's constraint sum_i p_i alpha_i = 0; 1/mu = 0 holds b where it is.

Equations and options are those of S. Shalev-Shwartz, T. Zhang, Proximal stochastic dual coordinate ascent, 2012.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.losses._kernels import value
from ...data._random import draw
from ...jit.compile import compiled, prefetch
from .._conjugates import conjugate
from ._steps import Net, Nets, Option, QNorm, Ridge, dot, moved, push, refresh, rough_gap, squared_norm, weight

__all__ = [
    "Net",
    "Nets",
    "Option",
    "Parts",
    "QNorm",
    "Ridge",
    "State",
    "combine",
    "curvatures",
    "means",
    "measure",
    "sample",
    "shuffle",
    "sweep",
    "sweep_apart",
    "weights",
]

AHEAD = 4  # rows between asking for a row's cells and using them: in a random order no processor guesses them
LINE = 16  # cells in a line of the cache
TOGETHER = 64  # rows after which threads share what they did to the intercept


class Parts(NamedTuple):
    """The components of a solver."""

    loss: Any
    option: Any
    link: Any


class State(NamedTuple):
    """Dual variables, their pull, the rows' curvatures, and the intercept's (sum_i p_i alpha_i, center, 1/mu).

    For the mean of all alphas played: each row's sum so far, when it was last brought up to date, and the clock; empty
    where it is not wanted.
    """

    alpha: Any
    v: Any
    curvature: Any
    bias: Any
    sums: Any
    since: Any
    clock: Any


# -- a pass --------------------------------------------------------------------------------------


@compiled
def sweep(parts, rows, state, order, total, skip):
    """Move the rows in this order; `total` is the sum of all rows' weights.

    Return the sum of their local gaps, each as it was met, and how many rows have one above `skip`: those are brought
    to the front of `order`, for a next sweep that leaves the others out.
    """
    # Taken out once: each time counts references. Places are unsigned, which spares a look at their sign.
    alpha, v, bias, curvature, sums, since = state.alpha, state.v, state.bias, state.curvature, state.sums, state.since
    indptr, indices, data, labels, c = rows.indptr, rows.indices, rows.data, rows.y, rows.c
    loss, link, option = parts.loss, parts.link, parts.option
    refresh(link, v)
    estimate, kept, apart = 0.0, 0, 0.0
    averaged, weighted, clock = sums.shape[0] > 0, c.shape[0] > 0, state.clock[0]
    b = bias[1] + bias[0] * bias[2]
    for t in range(order.shape[0]):
        i = np.uint64(order[t])
        if t + AHEAD < order.shape[0]:
            coming = np.uint64(order[t + AHEAD])
            for q in range(indptr[coming], indptr[coming + np.uint64(1)], LINE):
                prefetch(indices, q)
                prefetch(data, q)
        share = (c[i] if weighted else 1.0) / total
        if share == 0.0:
            continue
        y, a = labels[i], alpha[i]
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        p = dot(link, v, indices, data, first, last) + b
        gap = rough_gap(loss, p, y, a)
        estimate += share * gap
        to = moved(option, loss, p, y, a, curvature[i], share)
        if to != a:
            if averaged:
                sums[i] += a * (clock + t + 1 - since[i])
                since[i] = clock + t + 1
            alpha[i] = to
            move = share * (to - a)
            for q in range(first, last):
                push(link, v, indices[q], move * data[q])
            apart += move
            b = bias[1] + (bias[0] + apart) * bias[2]
        if gap > skip:
            order[t] = order[kept]
            order[kept] = i
            kept += 1
        if t % TOGETHER == TOGETHER - 1:
            bias[0] += apart
            apart = 0.0
    bias[0] += apart
    state.clock[0] += order.shape[0]
    return estimate, kept


@compiled
def sweep_apart(parts, rows, state, order, total, skip, every):
    """Sweep with a copy of v that takes in what other threads did, and gives what it did, every so many rows.

    For narrow data, where threads that write the same few numbers all the time would wait for each other's caches.
    """
    shared, base, own = state.v, state.v.copy(), state.v.copy()
    apart = State(
        state.alpha, own, state.curvature, state.bias, state.sums, state.since, np.zeros(1, state.clock.dtype)
    )
    estimate, kept = 0.0, 0
    for start in range(0, order.shape[0], every):
        part = order[start : min(start + every, order.shape[0])]
        met, found = sweep(parts, rows, apart, part, total, skip)
        estimate += met
        for t in range(found):
            order[kept], order[start + t] = order[start + t], order[kept]
            kept += 1
        for j in range(own.shape[0]):
            shared[j] += own[j] - base[j]
            base[j] = shared[j]
            own[j] = base[j]
    return estimate, kept


# -- a certificate -------------------------------------------------------------------------------


@compiled
def combine(rows, alpha, sides, total, first, last, v):
    """Add sum_i p_i f_i alpha_i x_i of rows first to last to v; f_i is sides[0] where alpha_i > 0, else sides[1]."""
    indptr, indices, data, c = rows.indptr, rows.indices, rows.data, rows.c
    for i in range(first, last):
        a = alpha[i] * (sides[0] if alpha[i] > 0.0 else sides[1]) * ((c[i] if c.shape[0] else 1.0) / total)
        if a != 0.0:
            for q in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                v[indices[q]] += a * data[q]


@compiled
def measure(loss, rows, w, shifts, alpha, sides, total, first, last, out):
    """Add the mean losses of rows first to last at scores <x, w> + each shift, then the mean of phi*(-f_i alpha_i)."""
    link, end = Ridge(1.0), shifts.shape[0]
    indptr, indices, data, labels, c = rows.indptr, rows.indices, rows.data, rows.y, rows.c
    for i in range(first, last):
        share = (c[i] if c.shape[0] else 1.0) / total
        if share == 0.0:
            continue
        score = dot(link, w, indices, data, np.uint64(indptr[i]), np.uint64(indptr[i + 1]))
        for k in range(end):
            out[k] += share * value(loss, score + shifts[k], labels[i])
        a = alpha[i] * (sides[0] if alpha[i] > 0.0 else sides[1])
        out[end] += share * conjugate(loss, -a, labels[i])


@compiled
def means(state, out):
    """Write the mean of all alphas since the sums began."""
    for i in range(out.shape[0]):
        out[i] = (state.sums[i] + state.alpha[i] * (state.clock[0] - state.since[i])) / max(state.clock[0], 1)


# -- orders of rows ------------------------------------------------------------------------------


@compiled
def shuffle(order, seed):
    """Bring the numbers into a random order; `seed` (one uint64) moves on."""
    for t in range(order.shape[0] - 1, 0, -1):
        k = np.int64(((draw(seed) >> np.uint64(32)) * np.uint64(t + 1)) >> np.uint64(32))  # no division; t < 2^32
        order[t], order[k] = order[k], order[t]


@compiled
def sample(order, n, seed):
    """Fill order with numbers below n, each drawn on its own."""
    for t in range(order.shape[0]):
        order[t] = draw(seed) % np.uint64(n)


@compiled
def curvatures(rows, link, total, extra, out):
    """Write c_i = p_i (||x_i||^2 / lambda + extra) and return the largest of these without p_i."""
    indptr, indices, data, c = rows.indptr, rows.indices, rows.data, rows.c
    largest = 0.0
    for i in range(out.shape[0]):
        norm = squared_norm(link, indices, data, np.uint64(indptr[i]), np.uint64(indptr[i + 1])) + extra
        largest = max(largest, norm)
        out[i] = (c[i] if c.shape[0] else 1.0) / total * norm
    return largest


@compiled
def weights(link, v, out):
    """Write w = grad g*(v)."""
    refresh(link, v)
    for j in range(v.shape[0]):
        out[j] = weight(link, v, j)
