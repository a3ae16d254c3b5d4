"""Means of the points played, kept lazily: what an idle feature's weights sum to over the rounds that passed it by.

Between two touches a feature's weight is, for every rule here, of one form,

    |w_s| = f (B - theta_s)+ v_s

with B and f of the feature and theta, v of the round, theta rising:

| rule                              | B                  | f     | theta_s                  | v_s                   |
|-----------------------------------|--------------------|-------|--------------------------|-----------------------|
| RDA                               | |u|                | 1     | k_s l1 + beta_s rho      | 1 / (beta_s + k_s l2) |
| AdaGrad dual, FTRLProximal        | |u|                | 1 / h | k_s l1                   | 1                     |
| MirrorDescent, SGD, Truncated     | |x|/P_a + A_a      | 1     | A_s                      | P_s                   |
| AdaGrad mirror                    | |x| h/l1 + K_a     | l1/h  | K_s                      | 1                     |
| PassiveAggressive, AROW           | |x|                | 1     | 0                        | 1                     |

so with V and W the running sums of v_s and theta_s v_s, the weights of rounds a to b - 1 sum to
f (B (V_m - V_a) - (W_m - W_a)), where m <= b is the first round with theta_m >= B. `refusal` names what has no such
form. V's digits are those of its largest terms: an epoch ends when v_s = P_s has fallen to FALLEN of the first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.penalties._kernels import Bounded, clip
from ..core.records import NamedTuple
from ..jit.compile import ask_for_cell, ask_for_rows, compiled, generic, inlined
from ._finite import CAREFUL, REACH, ROW, are_finite, larger, largest, limit, quiet, quiet_step
from ._loop import AHEAD, longest
from ._rules import (
    AROW,
    EPOCH,
    NOW,
    RDA,
    SGD,
    AdaGrad,
    AdaGradMirror,
    FTRLProximal,
    MirrorDescent,
    PassiveAggressive,
    TruncatedGradient,
    accumulate,
    begin,
    finish,
    pull,
    settle,
    spread,
    spreads,
    weight,
)

SUM, LAST = 0, 1
FALLEN = 1e-3


class Means(NamedTuple):
    """A sum and the round it reaches, a feature; theta, V and W of this epoch's rounds."""

    sums: Any
    bias: Any  # the intercept's sum: it is read in every row
    rounds: Any
    clock: Any  # rounds of this epoch


def refusal(parts: Any) -> str:
    """Return why these components have no means in closed form, or an empty string."""
    rule, penalty = parts.rule, parts.penalty
    if isinstance(penalty, Bounded) and not isinstance(rule, (PassiveAggressive, AROW)):
        return "bounds on the weights have no closed form for the mean of idle rounds"
    growing = isinstance(rule, (AdaGrad, AdaGradMirror)) or (isinstance(rule, FTRLProximal) and not rule.once)
    if growing and penalty.l2 > 0.0:
        return "an l2 penalty that comes in every round has no closed form here for the mean of idle rounds"
    if isinstance(rule, TruncatedGradient) and rule.theta != math.inf:
        return "a finite theta has no closed form for the mean of idle rounds"
    return ""


@generic
def moment(rule: Any, penalty: Any, shared: Any) -> Any:
    """Return theta_s and v_s of the round that begins."""
    return 0.0, 1.0


@moment.of(RDA)
def _(rule, penalty, shared):
    scale = float(shared.h + shared.ridge)  # none before the first round, where the penalty alone gives curvature
    return float(shared.threshold), 1.0 / scale if scale > 1e-30 else 0.0


@moment.of(AdaGrad, FTRLProximal)
def _(rule, penalty, shared):
    return float(shared.threshold), 1.0


@moment.of(MirrorDescent, SGD, TruncatedGradient)
def _(rule, penalty, shared):
    return shared.table[shared.now, 1], shared.table[shared.now, 0]


@moment.of(AdaGradMirror)
def _(rule, penalty, shared):
    return shared.table[shared.now, 1] if penalty.l1 > 0.0 else 0.0, 1.0


@generic
def reach(rule: Any, penalty: Any, shared: Any, state: Any, j: int) -> Any:
    """Return B and f of feature j, f with the weight's sign."""
    x = float(clip(penalty, state[j, 0]))
    return abs(x), math.copysign(1.0, x)


@reach.of(RDA)
def _(rule, penalty, shared, state, j):
    u = float(state[j, 0])
    return abs(u), -math.copysign(1.0, u)


@reach.of(AdaGrad)
def _(rule, penalty, shared, state, j):
    u, h = float(state[j, 0]), float((rule.delta + state[j, 1]) * rule.rate)
    return abs(u), -math.copysign(1.0 / h if h > 0.0 else 0.0, u)


@reach.of(FTRLProximal)
def _(rule, penalty, shared, state, j):
    u, h = float(state[j, 0]), float((rule.beta + state[j, 1]) * rule.rate)
    if rule.once:
        h += shared.ridge
    return abs(u), -math.copysign(1.0 / h if h > 0.0 else 0.0, u)


@reach.of(MirrorDescent, SGD, TruncatedGradient)
def _(rule, penalty, shared, state, j):
    x, a = float(state[j, 0]), int(state[j, 1])
    return abs(x) / shared.table[a, 0] + shared.table[a, 1], math.copysign(1.0, x)


@reach.of(AdaGradMirror)
def _(rule, penalty, shared, state, j):
    x, h = float(state[j, 0]), float((rule.delta + state[j, 1]) * rule.rate)
    if penalty.l1 == 0.0 or h == 0.0:
        return abs(x), math.copysign(1.0, x)
    return abs(x) * h / penalty.l1 + shared.table[int(state[j, 2]), 1], math.copysign(penalty.l1 / h, x)


@inlined
def passed(B, f, rounds, a, b):
    """Return the sum of f (B - theta_s)+ v_s over the rounds a <= s < b."""
    low, high = a, b
    while low < high:
        middle = (low + high) // 2
        if rounds[middle, 0] < B:
            low = middle + 1
        else:
            high = middle
    return f * (B * (rounds[low, 1] - rounds[a, 1]) - (rounds[low, 2] - rounds[a, 2]))


@inlined
def catch_up(rule, penalty, shared, state, means, j, now):
    """Add feature j's weights of the rounds before `now` to its sum."""
    last = int(means.sums[j, LAST])
    if last < now:
        B, f = reach(rule, penalty, shared, state, j)
        means.sums[j, SUM] += passed(B, f, means.rounds, last, now)
        means.sums[j, LAST] = now


@compiled
def learn(parts, rows, model, means, out, guard):
    """Do what `driver.learn` does, and keep the sums of the points played."""
    rule, penalty = parts.rule, parts.penalty
    state, bias, clock, table = model.state, model.bias, model.clock, model.table
    end, has_bias = rows.indptr[-1], bias.shape[0] > 0
    weights = np.empty(longest(rows.indptr), state.dtype)
    careful, step, extent = guard[CAREFUL] > 0.0, quiet_step(state), max(guard[REACH], 1.0)
    for i in range(rows.y.shape[0]):
        c = rows.c[i] if rows.c.shape[0] else 1.0
        first, last = rows.indptr[i], rows.indptr[i + 1]
        ask_for_rows(rows.indices, rows.data, first, last - first)
        shared = begin(rule, penalty, clock, int(clock[NOW]), table, c, state)
        apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, c, bias)
        p, v, b = 0.0, 0.0, 0.0
        if has_bias:
            b = weight(parts.bias_rule, parts.free, apart, bias, model.still, 0)
            p, v = b, spread(parts.bias_rule, bias, 0)
        for q in range(first, last):
            if q + AHEAD < end:
                ask_for_cell(state, state.shape[1], np.int64(rows.indices[q + AHEAD]))
            j, x = np.int64(rows.indices[q]), rows.data[q]
            w = weight(rule, penalty, shared, state, table, j)
            weights[q - first] = w
            p += w * x
            if spreads(rule):
                v += spread(rule, state, j) * x * x
        out[i] = p
        if not abs(p) < np.inf:
            guard[ROW] = i
            return
        if c == 0.0:
            continue
        now = int(means.clock[0])
        theta, height = moment(rule, penalty, shared)
        means.rounds[now, 0] = theta
        means.rounds[now + 1, 0] = 0.0  # not known yet; what an earlier epoch left is no part of the model
        means.rounds[now + 1, 1] = means.rounds[now, 1] + height
        means.rounds[now + 1, 2] = means.rounds[now, 2] + theta * height
        means.clock[0] = now + 1.0
        means.bias[0] += b
        g = pull(rule, parts.loss, p, rows.y[i], v, c)
        if g != 0.0:
            g_cell, v_cell = state.dtype.type(g), state.dtype.type(v)
            for q in range(first, last):
                j = np.int64(rows.indices[q])
                catch_up(rule, penalty, shared, state, means, j, now + 1)
                accumulate(rule, penalty, shared, state, j, weights[q - first], rows.data[q], g_cell, v_cell)
            if has_bias:
                accumulate(parts.bias_rule, parts.free, apart, bias, 0, b, 1.0, g, v)
        finish(rule, penalty, clock, table, c)
        if g != 0.0 and (careful or not quiet(rule, shared, abs(g), extent, step)):
            shared = begin(rule, penalty, clock, int(clock[NOW]), table, 1.0, state)
            apart = begin(parts.bias_rule, parts.free, clock, 0, model.still, 1.0, bias)
            top = largest(0.0, bias, bias.shape[0])
            for q in range(first, last):
                j = np.int64(rows.indices[q])
                for k in range(state.shape[1]):
                    top = larger(top, state[j, k])
                top = larger(larger(top, weight(rule, penalty, shared, state, table, j)), means.sums[j, SUM])
            if has_bias:
                top = larger(top, weight(parts.bias_rule, parts.free, apart, bias, model.still, 0))
            careful = careful or top > limit(state)
            if top == np.inf:
                guard[ROW] = i
                return
        if now + 1 == EPOCH or table[int(clock[NOW]), 0] < FALLEN:
            for j in range(state.shape[0]):
                catch_up(rule, penalty, shared, state, means, j, now + 1)
                means.sums[j, LAST] = 0.0
            means.rounds[0, 0], means.rounds[0, 1], means.rounds[0, 2], means.clock[0] = 0.0, 0.0, 0.0, 0.0
            settle(rule, penalty, clock, table, state)
            top = largest(largest(0.0, state, state.shape[0]), means.sums, means.sums.shape[0])
            careful = careful or top > limit(state)
            if top == np.inf:
                guard[ROW] = i
                return
    guard[CAREFUL] = careful
    kept = are_finite(means.rounds[int(means.clock[0])]) and are_finite(means.bias)
    if not (kept and are_finite(clock) and are_finite(table[int(clock[NOW])])):
        guard[ROW] = rows.y.shape[0] - 1


@compiled
def read(parts, model, means, out):
    """Write the sum of every feature's points played into out."""
    shared = begin(parts.rule, parts.penalty, model.clock, int(model.clock[NOW]), model.table, 1.0, model.state)
    now = int(means.clock[0])
    for j in range(model.state.shape[0]):
        B, f = reach(parts.rule, parts.penalty, shared, model.state, j)
        out[j] = means.sums[j, SUM] + passed(B, f, means.rounds, int(means.sums[j, LAST]), now)
