"""One pass of Prox-SDCA over rows with several classes: softmax and the multiclass hinge of Crammer and Singer.

A row's dual variables are kept as a point of the simplex, beta = e_y + slope, so that alpha = e_y - beta. With the
scores p of the row, m_j = p_j + [j != y] for the hinge and the row's stiffness c = share (||x||^2 / l2 + 1/rho), Option
I (Shalev-Shwartz and Zhang 2012, Fig. 1) is the same small problem for both,

    beta+ = argmin over the simplex of  phi*-part(beta+) - <p or m, beta+> + (c/2) ||beta+ - beta||^2

with negative entropy (softmax) or nothing (hinge) in place of the conjugate's part. What a row lacks to its own
optimum, phi(p) + phi*(-alpha) + <p, alpha>, falls out on the way; its sum over a pass tells about how large the gap is.

Notation: v = sum of share_i x_i alpha_i' (features x classes), held = intercepts of the last round, loose = 1/rho and
sums = sum of share_i alpha_i: the intercepts during a pass are held + loose sums (`batch.multiclass` tells why).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.losses import _kernels as losses
from ...jit.compile import compiled, generic, inlined, prefetch

AHEAD = 8  # non-zeros between asking for a feature's weights and using them
MOST_STEPS = 50  # of Newton's method; it takes two to six
NEAR = 1e-7  # a Newton step this small leaves an error of its square


class Ridge(NamedTuple):
    """(l2/2) ||W||^2."""

    l2: float


class Net(NamedTuple):
    """l1 sum |W_jc| + (l2/2) ||W||^2 + lam sum_j ||W_j||."""

    l1: float
    l2: float
    lam: float


class NetEach(NamedTuple):
    """The same with strengths l1 and l2 of each feature."""

    l1: Any
    l2: Any
    lam: float


class Rows(NamedTuple):
    """CSR arrays, labels, shares in the mean, and the stiffness of each row's step."""

    indptr: Any
    indices: Any
    data: Any
    y: Any
    share: Any
    stiffness: Any


class Dual(NamedTuple):
    """All that a pass changes (beta, v, sums), and the intercepts it holds."""

    beta: Any
    v: Any
    sums: Any
    held: Any
    loose: float


# -- the penalty: one feature's weights from v ---------------------------------------------------


@generic
def add_scores(penalty: Any, v: Any, j: int, x: float, p: Any) -> None:
    """Add x times the feature's weights, the gradient of the penalty's conjugate at v, to the scores."""
    scale = x / penalty.l2
    for a in range(p.shape[0]):
        p[a] += scale * v[j, a]


@add_scores.of(Net)
def _(penalty, v, j, x, p):
    _add_shrunk(penalty.l1, penalty.l2, penalty.lam, v, j, x, p)


@add_scores.of(NetEach)
def _(penalty, v, j, x, p):
    _add_shrunk(penalty.l1[j], penalty.l2[j], penalty.lam, v, j, x, p)


@inlined
def _add_shrunk(l1, l2, lam, v, j, x, p):
    scale = x / l2
    if lam > 0.0:
        squared = 0.0
        for a in range(p.shape[0]):
            over = v[j, a] - min(max(v[j, a], -l1), l1)
            squared += over * over
        if squared <= lam * lam:
            return
        scale *= 1.0 - lam / math.sqrt(squared)
    for a in range(p.shape[0]):
        p[a] += scale * (v[j, a] - min(max(v[j, a], -l1), l1))


# -- the loss: one row's step --------------------------------------------------------------------


@generic
def step(loss: Any, p: Any, y: int, c: float, old: Any, new: Any, work: Any) -> float:
    """Write the beta of Option I to `new` and return what the row lacked to its optimum at `old`."""
    raise NotImplementedError


@step.of(losses.MulticlassHinge)
def _(loss, p, y, c, old, new, work):
    # The nearest point of the simplex to old + m/c, which does not feel a shift of m.
    k = p.shape[0]
    worst, mean = p[y], 0.0
    for a in range(k):
        work[a] = p[a] + (0.0 if a == y else 1.0)
        worst = max(worst, work[a])
        mean += old[a] * work[a]
        new[a] = work[a] + c * old[a]
    top = y
    for a in range(k):
        if new[a] > new[top]:
            top = a
    highest = new[top]
    if not c > 0.0:
        for a in range(k):
            new[a] = 1.0 if a == top else 0.0
        return worst - mean
    # An entry c or more below the largest is 0, so that the quotient cannot overflow. Those that stay above the
    # threshold are found by dropping entries below it until none is (Michelot 1986).
    for a in range(k):
        new[a] = (new[a] - highest) / c if highest - new[a] < c else -2.0
    threshold, kept, before = -2.0, k + 1, k + 2
    while kept < before:
        before, kept, total = kept, 0, 0.0
        for a in range(k):
            if new[a] > threshold:
                kept += 1
                total += new[a]
        threshold = (total - 1.0) / kept
    for a in range(k):
        new[a] = max(new[a] - threshold, 0.0)
    return worst - mean


@step.of(losses.Softmax)
def _(loss, p, y, c, old, new, work):
    k = p.shape[0]
    top = p[0]
    for a in range(1, k):
        top = max(top, p[a])
    total = 0.0
    for a in range(k):
        new[a] = math.exp(p[a] - top)
        total += new[a]
    log_total = top + math.log(total)
    lack = log_total
    # Option V tells where about the answer is: between old, for a stiff row, and the probabilities.
    s = 1.0 / (1.0 + 0.5 * c)
    for a in range(k):
        if old[a] > 0.0:
            lack += old[a] * (math.log(old[a]) - p[a])
        new[a] = old[a] + s * (new[a] / total - old[a])
        work[a] = math.log(max(new[a], 1e-300))
    if not _entropy_newton(p, c, old, log_total, new, work):
        _entropy_climb(p, c, old, new)
    total = 0.0
    for a in range(k):
        total += new[a]
    for a in range(k):
        new[a] /= total
    return lack


@inlined
def _entropy_newton(p, c, old, theta, new, x):
    """Solve x_a + c e^x_a = p_a + c old_a - theta, sum e^x_a = 1, by Newton from x; tell whether it arrived.

    Linearized, dx_a = (r_a - dtheta) / (1 + c e^x_a) with r the residuals, and dtheta is what makes the sum right. No
    answer has x > 0, so no iterate has.
    """
    k = p.shape[0]
    for _ in range(MOST_STEPS):
        pulled, bent, total = 0.0, 0.0, 0.0
        for a in range(k):
            b = math.exp(x[a])
            new[a] = b
            slack = b / (1.0 + c * b)
            pulled += slack * (p[a] + c * (old[a] - b) - theta - x[a])
            bent += slack
            total += b
        change = (pulled + total - 1.0) / bent
        largest = 0.0
        for a in range(k):
            move = (p[a] + c * (old[a] - new[a]) - theta - x[a] - change) / (1.0 + c * new[a])
            move = min(move, -x[a])
            x[a] += move
            largest = max(largest, abs(move) * (1.0 if new[a] > 1e-20 else 0.0))
        theta += change
        if largest < NEAR:
            for a in range(k):
                new[a] = math.exp(x[a])
            return True
    return False


@inlined
def _entropy_climb(p, c, old, new):
    """Solve the same from a theta where some b is 1: b is convex and falls in theta, so Newton climbs to the root."""
    k = p.shape[0]
    theta = p[0] + c * (old[0] - 1.0)
    for a in range(1, k):
        theta = max(theta, p[a] + c * (old[a] - 1.0))
    for _ in range(MOST_STEPS):
        total, bent = 0.0, 0.0
        for a in range(k):
            new[a] = _exp_root(p[a] + c * old[a] - theta, c)
            total += new[a]
            bent += new[a] / (1.0 + c * new[a])
        climbed = theta + (total - 1.0) / bent
        if not climbed > theta:
            break
        theta = climbed


@inlined
def _exp_root(r, c):
    """Return b with log b + c b = r: z = c b solves log z + z = r + log c, convex in log z: Newton descends."""
    if not c > 0.0:
        return math.exp(r)
    r += math.log(c)
    w = math.log(r) if r > 1.0 else r
    for _ in range(MOST_STEPS):
        z = math.exp(w)
        descended = w - (w + z - r) / (1.0 + z)
        if not descended < w:
            break
        w = descended
    return math.exp(w) / c


# -- the pass ------------------------------------------------------------------------------------


@compiled
def sweep(loss, penalty, rows, dual, order):
    """Take Option I's step at each row of `order`; return the sum of what the rows lacked when they were met."""
    beta, v, sums = dual.beta, dual.v, dual.sums
    k = beta.shape[1]
    p, new, work = np.empty(k), np.empty(k), np.empty(k)
    lacked = 0.0
    for i in order:
        share = rows.share[i]
        if share == 0.0:
            continue
        first, last = rows.indptr[i], rows.indptr[i + 1]
        for a in range(k):
            p[a] = dual.held[a] + dual.loose * sums[a]
        for q in range(first, last):
            if q + AHEAD < last:
                prefetch(v, k * np.int64(rows.indices[q + AHEAD]))
            add_scores(penalty, v, np.int64(rows.indices[q]), float(rows.data[q]), p)
        old = beta[i]
        lacked += share * step(loss, p, rows.y[i], rows.stiffness[i], old, new, work)
        moved = False
        for a in range(k):
            work[a] = share * (old[a] - new[a])
            moved = moved or work[a] != 0.0
            old[a] = new[a]
        if moved:
            for q in range(first, last):
                j, x = np.int64(rows.indices[q]), float(rows.data[q])
                for a in range(k):
                    v[j, a] += x * work[a]
            for a in range(k):
                sums[a] += work[a]
    return lacked


@compiled
def weights(penalty, v, w):
    """Add the weights of v, the gradient of the penalty's conjugate there, to w."""
    for j in range(v.shape[0]):
        add_scores(penalty, v, j, 1.0, w[j])


@compiled
def climb(p, c, old, new):
    """Write softmax's step, up to a factor, found by the method that cannot fail."""
    _entropy_climb(p, c, old, new)
