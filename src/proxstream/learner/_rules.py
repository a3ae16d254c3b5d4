"""The algorithms in kernels: how each reads a weight off a cell of state, and takes a gradient into it.

A feature's cell is one row of `state`. A row of data begins with a record of what all its features share (`begin`),
reads weights (`weight`), makes a gradient of the prediction (`pull`), writes it into the cells (`accumulate`), and
ends (`finish`). The intercept is a cell of its own, read and written by the same functions without a penalty.

| algorithm         | cell         | weight read from it                                                  |
|-------------------|--------------|----------------------------------------------------------------------|
| RDA               | u            | solve(u, beta_t, k)                                                  |
| AdaGrad, dual     | u, r         | solve(u, (delta + r)/eta, k)             r: root of sum g^2          |
| FTRLProximal      | z, r         | solve(z, (beta + r)/alpha, k)                                        |
| MirrorDescent, SGD, TruncatedGradient | x, last | x after the idle rounds since `last`: a decay, see below  |
| AdaGrad, mirror   | x, r, last   | x after the idle rounds: an arithmetic or geometric series           |
| PassiveAggressive | x            | x                                                                    |
| AROW              | x, 1/sigma-1 | x                                                                    |

Dual averaging owes idle coordinates nothing: the penalty's weight k is global. Descent does, and pays in closed form.
A round without a gradient takes |x| to max(rho_s |x| - tau_s, 0), so with P_s = rho_1 ... rho_s and
A_s = sum of tau_i / P_i,

    |x_b| = P_b max(|x_a| / P_a - (A_b - A_a), 0).

P and A are kept for the rounds of one epoch of at most EPOCH rounds; then all coordinates are settled and the table
starts again. When that happens depends on the rows seen, never on how they were cut. A round whose step is too long
for its l2 penalty, rho_s <= 0, turns signs or ends in 0: it ends its epoch, so P <= 0 is met at the last round alone.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.losses._kernels import slope, value
from ..core.penalties._kernels import clip, solve
from ..core.records import NamedTuple
from ..jit.compile import generic, inlined

EPOCH = 1 << 20
SMALLEST_H = 1e-37  # in place of 0 where the penalty alone gives curvature, and has not come in yet
T, K, NOW, PENDING = 0, 1, 2, 3  # the clock: rows, penalty so far, rounds of this epoch, penalty since a truncation


class Shared(NamedTuple):
    """What a row's features share in dual averaging: k l1 (and more), k l2, and RDA's h."""

    threshold: float
    ridge: float
    h: float


class Decaying(NamedTuple):
    """What a row's features share in descent: its threshold, ridge and 1/eta_t; P and A now, and their table."""

    threshold: float
    ridge: float
    h: float
    P: float
    A: float
    now: int
    table: Any


@generic
def begin(algorithm: Any, penalty: Any, clock: Any, now: int, table: Any, c: float, state: Any) -> Any:
    """Return what the features of the coming row share, in the state's precision."""
    number = state.dtype.type
    return Shared(number(clock[K] * penalty.l1), number(clock[K] * penalty.l2), number(0.0))


@generic
def weight(algorithm: Any, penalty: Any, row: Any, state: Any, table: Any, j: int) -> float:
    """Return the weight that feature j has now.

    The table comes beside the row's record: numba counts references to an array that it takes out of a record.
    """
    return clip(penalty, state[j, 0])


@generic
def spreads(algorithm: Any) -> bool:
    """Return whether the row's sum v of spread times x_j^2 is asked for."""
    return False


@generic
def spread(algorithm: Any, state: Any, j: int) -> float:
    """Return what x_j^2 is multiplied by in the row's sum v."""
    return 0.0


@generic
def pull(algorithm: Any, loss: Any, p: float, y: float, v: float, c: float) -> float:
    """Return the gradient of the row's loss in the prediction, times its weight."""
    return c * slope(loss, p, y)


@generic
def accumulate(algorithm, penalty, row, state, j, w, x, g, v):
    """Take g x into feature j's cell; w is the weight read before."""
    raise NotImplementedError


@generic
def finish(algorithm: Any, penalty: Any, clock: Any, table: Any, c: float) -> None:
    """End a row."""
    clock[T] += 1.0
    clock[K] += c


@generic
def idle(algorithm: Any, penalty: Any, row: Any, state: Any, table: Any, j: int) -> float:
    """Return the weight after the rounds that passed feature j by (descent only)."""
    return state[j, 0]


@generic
def settle(algorithm: Any, penalty: Any, clock: Any, table: Any, state: Any) -> None:
    """Bring all features up to date and begin a new epoch (descent only)."""


def _settle(algorithm, penalty, clock, table, state):
    row = begin(algorithm, penalty, clock, int(clock[NOW]), table, 1.0, state)
    for j in range(state.shape[0]):
        state[j, 0] = idle(algorithm, penalty, row, state, table, j)
        state[j, state.shape[1] - 1] = 0
    table[0, 0], table[0, 1], clock[NOW] = 1.0, 0.0, 0.0


@inlined
def _extend(clock, table, rho, tau):
    """Add one round to the table of idle rounds."""
    now = int(clock[NOW])
    P = table[now, 0] * rho
    table[now + 1, 0] = P
    table[now + 1, 1] = table[now, 1] + tau / abs(P) if P != 0.0 else math.inf
    clock[NOW] = now + 1.0


@inlined
def longer(r, gx):
    """Return the root of r^2 + gx^2, which is r or |gx| at least also where both squares underflow."""
    return max(math.sqrt(r * r + gx * gx), r, abs(gx))


# -- dual averaging ------------------------------------------------------------------------------


class RDA(NamedTuple):
    """Xiao 2010, Algorithms 1 and 2; schedule 0 is sqrt, 1 zero, 2 log."""

    gamma: float
    rho: float
    schedule: int


@begin.of(RDA)
def _(algorithm, penalty, clock, now, table, c, state):
    t = max(clock[T], 1.0)
    h = SMALLEST_H
    if algorithm.schedule != 1:
        h = algorithm.gamma * (math.sqrt(t) if algorithm.schedule == 0 else 1.0 + math.log(t))
    number = state.dtype.type
    return Shared(number(clock[K] * penalty.l1 + h * algorithm.rho), number(clock[K] * penalty.l2), number(h))


@weight.of(RDA)
def _(algorithm, penalty, row, state, table, j):
    return solve(penalty, state[j, 0], row.h, row.threshold, row.ridge)


@accumulate.of(RDA)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    state[j, 0] += g * x


class AdaGrad(NamedTuple):
    """Duchi, Hazan and Singer 2010, equation 3, diagonal; rate = 1/eta."""

    rate: float
    delta: float


@weight.of(AdaGrad)
def _(algorithm, penalty, row, state, table, j):
    return solve(penalty, state[j, 0], (algorithm.delta + state[j, 1]) * algorithm.rate, row.threshold, row.ridge)


@accumulate.of(AdaGrad)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    gx, r = g * x, state[j, 1]
    state[j, 0] += gx
    state[j, 1] = longer(r, gx)


class FTRLProximal(NamedTuple):
    """McMahan 2017, section 3.4; rate = 1/alpha."""

    rate: float
    beta: float
    once: bool


@begin.of(FTRLProximal)
def _(algorithm, penalty, clock, now, table, c, state):
    k = 1.0 if algorithm.once else clock[K]
    number = state.dtype.type
    return Shared(number(k * penalty.l1), number(k * penalty.l2), number(0.0))


@weight.of(FTRLProximal)
def _(algorithm, penalty, row, state, table, j):
    return solve(penalty, state[j, 0], (algorithm.beta + state[j, 1]) * algorithm.rate, row.threshold, row.ridge)


@accumulate.of(FTRLProximal)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    gx, r = g * x, state[j, 1]
    r_new = longer(r, gx)
    state[j, 0] += gx - (r_new - r) * algorithm.rate * w
    state[j, 1] = r_new


# -- descent -------------------------------------------------------------------------------------


class MirrorDescent(NamedTuple):
    """FOBOS; 1/eta_t = t^power / eta with power 1/2, 0 or 1."""

    rate: float
    power: float


class SGD(NamedTuple):
    """Subgradient steps with L2 or none."""

    rate: float
    power: float


class TruncatedGradient(NamedTuple):
    """Langford, Li and Zhang 2009: every K-th round the weights up to theta are shrunk."""

    rate: float
    power: float
    every: int
    theta: float


@begin.of(MirrorDescent, SGD)
def _(algorithm, penalty, clock, now, table, c, state):
    number = state.dtype.type
    h = algorithm.rate * (clock[T] + 1.0) ** algorithm.power
    return Decaying(number(c * penalty.l1), number(c * penalty.l2), number(h), table[now, 0], table[now, 1], now, table)


@begin.of(TruncatedGradient)
def _(algorithm, penalty, clock, now, table, c, state):
    number = state.dtype.type
    h = algorithm.rate * (clock[T] + 1.0) ** algorithm.power
    truncated = (clock[T] + 1.0) % algorithm.every == 0.0
    threshold = (clock[PENDING] + c) * penalty.l1 / h if truncated else 0.0
    return Decaying(number(threshold), number(c * penalty.l2), number(h), table[now, 0], table[now, 1], now, table)


@weight.of(MirrorDescent, SGD, TruncatedGradient)
def _(algorithm, penalty, row, state, table, j):
    return idle(algorithm, penalty, row, state, table, j)


@idle.of(MirrorDescent, SGD)
def _(algorithm, penalty, row, state, table, j):
    x = state[j, 0]
    last = min(int(state[j, 1]), row.now)  # another thread may be ahead
    a = max(abs(x) / table[last, 0] - (row.A - table[last, 1]), 0.0)
    return clip(penalty, x if last == row.now else state.dtype.type(math.copysign(a, x) * row.P))


@idle.of(TruncatedGradient)
def _(algorithm, penalty, row, state, table, j):
    x = state[j, 0]
    last = min(int(state[j, 1]), row.now)
    owed = row.A - table[last, 1]
    a = max(abs(x) / table[last, 0] - owed, 0.0)
    moved = state.dtype.type(math.copysign(a, x) * row.P)
    if abs(x) > algorithm.theta:
        moved = _cut(x, owed, table, last, row.now)
    return x if last == row.now else moved


@inlined
def _cut(x, owed, table, last, now):
    """Return x, or 0 if one threshold reached |x|: beyond theta nothing shrinks (theta needs l2 = 0, so P = 1)."""
    largest = 0.0
    if owed >= abs(x):
        for s in range(last, now):
            largest = max(largest, table[s + 1, 1] - table[s, 1])
    return x - x if largest >= abs(x) and largest > 0.0 else x


@accumulate.of(MirrorDescent)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    state[j, 0] = solve(penalty, g * x - row.h * w, row.h, row.threshold, row.ridge)
    state[j, 1] = max(state[j, 1], row.now + 1)


@accumulate.of(SGD)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    state[j, 0] = clip(penalty, w - (g * x + row.ridge * w) / row.h)
    state[j, 1] = max(state[j, 1], row.now + 1)


@accumulate.of(TruncatedGradient)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    moved = w - (g * x + row.ridge * w) / row.h
    a = abs(moved) - row.threshold
    if a <= 0.0:
        moved = moved - moved
    elif abs(moved) <= algorithm.theta:
        moved = math.copysign(a, moved)
    state[j, 0] = moved
    state[j, 1] = max(state[j, 1], row.now + 1)


@finish.of(MirrorDescent)
def _(algorithm, penalty, clock, table, c):
    h = algorithm.rate * (clock[T] + 1.0) ** algorithm.power
    rho = 1.0 / (1.0 + c * penalty.l2 / h)
    _extend(clock, table, rho, c * penalty.l1 / h * rho)
    clock[T] += 1.0
    clock[K] += c


@finish.of(SGD)
def _(algorithm, penalty, clock, table, c):
    h = algorithm.rate * (clock[T] + 1.0) ** algorithm.power
    _extend(clock, table, 1.0 - c * penalty.l2 / h, 0.0)
    clock[T] += 1.0
    clock[K] += c


@finish.of(TruncatedGradient)
def _(algorithm, penalty, clock, table, c):
    h = algorithm.rate * (clock[T] + 1.0) ** algorithm.power
    clock[PENDING] += c
    tau = 0.0
    if (clock[T] + 1.0) % algorithm.every == 0.0:
        tau = clock[PENDING] * penalty.l1 / h
        clock[PENDING] = 0.0
    _extend(clock, table, 1.0 - c * penalty.l2 / h, tau)
    clock[T] += 1.0
    clock[K] += c


class AdaGradMirror(NamedTuple):
    """Duchi, Hazan and Singer 2010, equation 4, diagonal; rate = 1/eta; squares: section 5, no root."""

    rate: float
    delta: float
    squares: bool


@begin.of(AdaGradMirror)
def _(algorithm, penalty, clock, now, table, c, state):
    number = state.dtype.type
    return Decaying(number(c * penalty.l1), number(c * penalty.l2), number(0.0), 1.0, table[now, 1], now, table)


@weight.of(AdaGradMirror)
def _(algorithm, penalty, row, state, table, j):
    return idle(algorithm, penalty, row, state, table, j)


# h stands still while a feature is away: every unit of penalty takes |x| to (h |x| - l1) / (h + l2).


@idle.of(AdaGradMirror)
def _(algorithm, penalty, row, state, table, j):
    x, last = state[j, 0], min(int(state[j, 2]), row.now)
    n = row.A - table[last, 1]
    h = (algorithm.delta + state[j, 1]) * algorithm.rate
    a = max(abs(x) - n * penalty.l1 / h, 0.0) if h > 0.0 else 0.0
    return clip(penalty, x if n == 0.0 else state.dtype.type(math.copysign(a, x)))


class AdaGradMirrorRidge(AdaGradMirror):
    """The same with l2 > 0, apart because a logarithm and an exponential would make the common case slow."""

    __slots__ = ()


@idle.of(AdaGradMirrorRidge)
def _(algorithm, penalty, row, state, table, j):
    x, last = state[j, 0], min(int(state[j, 2]), row.now)
    n = row.A - table[last, 1]
    h = (algorithm.delta + state[j, 1]) * algorithm.rate
    moved = x
    if n > 0.0 and x != 0.0 and h > 0.0:
        fall = math.expm1(-n * math.log1p(penalty.l2 / h))
        a = abs(x) + fall * (abs(x) + penalty.l1 / penalty.l2)
        moved = state.dtype.type(math.copysign(max(a, 0.0), x))
    return clip(penalty, moved)


@accumulate.of(AdaGradMirror)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    gx, r = g * x, state[j, 1]
    r = r + gx * gx if algorithm.squares else longer(r, gx)
    h = (algorithm.delta + r) * algorithm.rate
    state[j, 0] = solve(penalty, gx - h * w, h, row.threshold, row.ridge) if h > 0.0 else w
    state[j, 1] = r
    state[j, 2] = max(state[j, 2], row.now + 1)


@finish.of(AdaGradMirror)
def _(algorithm, penalty, clock, table, c):
    _extend(clock, table, 1.0, c)
    clock[T] += 1.0
    clock[K] += c


DECAYING = (MirrorDescent, SGD, TruncatedGradient, AdaGradMirror)
settle.of(*DECAYING)(_settle)


# -- margins -------------------------------------------------------------------------------------


class PassiveAggressive(NamedTuple):
    """Crammer et al. 2006; variant 0 is PA, 1 PA-I, 2 PA-II."""

    C: float
    variant: int


@spread.of(PassiveAggressive)
def _(algorithm, state, j):
    return 1.0


@pull.of(PassiveAggressive)
def _(algorithm, loss, p, y, v, c):
    suffered, direction = value(loss, p, y), slope(loss, p, y)
    squared = direction * direction * v
    if suffered == 0.0 or squared == 0.0:
        return 0.0
    if algorithm.variant == 2:
        return direction * suffered / (squared + 1.0 / (2.0 * c * algorithm.C))
    tau = suffered / squared
    return direction * (min(tau, c * algorithm.C) if algorithm.variant == 1 else tau)


@accumulate.of(PassiveAggressive)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    state[j, 0] = clip(penalty, w - g * x)


@spreads.of(PassiveAggressive)
def _(algorithm):
    return True


class AROW(NamedTuple):
    """Crammer, Kulesza and Dredze 2009, diagonal.

    A cell holds 1/sigma - 1: fresh state is all zeros, and a small sigma keeps its digits in 32 bits too.
    """

    r: float


@begin.of(AROW)
def _(algorithm, penalty, clock, now, table, c, state):
    number = state.dtype.type
    return Shared(number(0.0), number(0.0), number(algorithm.r / c if c > 0.0 else 0.0))


@spreads.of(AROW)
def _(algorithm):
    return True


@spread.of(AROW)
def _(algorithm, state, j):
    return 1.0 / (1.0 + state[j, 1])


@pull.of(AROW)
def _(algorithm, loss, p, y, v, c):
    return -y * max(1.0 - y * p, 0.0) / (v + algorithm.r / c)


@accumulate.of(AROW)
def _(algorithm, penalty, row, state, j, w, x, g, v):
    # sigma - (sigma x)^2 / (v + r) in terms of 1/sigma; v - sigma x^2 is the other features' share of v.
    sx = x / (1.0 + state[j, 1])
    state[j, 0] = clip(penalty, w - g * sx)
    state[j, 1] += x * x / (max(v - sx * x, 0.0) + row.h)
