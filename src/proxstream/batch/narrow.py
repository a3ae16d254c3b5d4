"""Newton's method on many sparse rows of few features, for the logistic loss under l1 and l2.

    P(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + sum_j l1_j |w_j| + (l2_j / 2) w_j^2                              (1)
    g = X's        H = X'D'X        s_i = p_i phi'(z_i)    D_i = p_i phi''(z_i)

Here a pass over the data takes about as long as the losses of all rows, and H as long as a few passes: fixed costs
decide. So nothing is copied or screened, and a step reads the rows twice: once for scores, losses and their
derivatives, once for g and for the part of H whose D_i has changed by more than CHANGED (D' is D at that time). The
quadratic model under the penalty is solved on H alone (`l1.gram.minimize`).

First steps are made on a sample of the rows: all of a rare class, and a part of the others, weighted as they are in the
whole. Such weights are two or three steps of Newton's method from the optimum, and the steps to them cost little.

The proof. Two dual points are tried: the slopes s, and those of the model at its minimizer, s + D'X(u - w), which prove
the same gap a step earlier (`l1.point`). What a point proves is estimated first, without a logarithm per row: Fenchel's
equality gives the value of s, and that of the model's slopes is lower by about sum_i (s'_i - s_i)^2 / (2 D_i). Only
points that may prove enough are made feasible and evaluated, from the weights alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.losses._kernels import as_tuple
from ..core.validation import Array
from ..data import _products as csr_products
from ..data.rowblock import RowBlock
from ..data.threads import Threads
from . import _narrow as kernels, cost
from .dual import balance
from .problem import Problem, Solution, Trace

MOST_COLUMNS = 500  # up to which half of H is in the processor's second cache
TALL = 16.0  # rows per feature
LEAST_ENTRIES = 50_000  # of which a pass is worth being careful with
CHANGED = 0.2
TINY = 1e-11  # floor of phi''
PASSES, FEW_PASSES = 40, 10  # over H, before factors of it are tried; for a sample
SOLVED, TIGHTEST = 0.02, 1e-4  # part of the violations that the model's solution may leave
ENOUGH = 0.01  # part of the promised decrease that a step has to bring
SHORTEST, LONGEST = 1e-6, 16.0  # steps
FAR = 0.005  # part of P by which a step lowers it where longer ones are tried
MOST_STEPS = 30
SAMPLE, LEAST_SAMPLE = 4.0, 10.0  # rows per row in the sample; rows per feature there
SAMPLE_STEPS, SAMPLE_ENDS = 6, 0.05  # a step that lowers P by less than this part ends work on the sample
LIKELY = 2.0  # an estimate of at most so many gaps that are wanted is worth an evaluation


def suits(problem: Problem, l1: Array, l2: Array) -> bool:
    """Return whether a logistic problem has many sparse rows of few features, all with a penalty."""
    if problem.loss.name != "logistic":
        return False
    rows, d, n = problem.rows, problem.n_features, problem.rows.n_rows
    if d > MOST_COLUMNS or n < TALL * d or len(rows.data) < LEAST_ENTRIES or not np.all(l1 + l2 > 0.0):
        return False
    pairs = cost.pairs_in_rows(rows.indptr)
    return bool(cost.gram_by_rows(pairs) < cost.gram_in_blocks(n, d) and pairs < d * float(len(rows.data)) / 4.0)


def solve(
    problem: Problem, l1: Array, l2: Array, trace: Trace, max_epochs: int, start: Solution | None, n_threads: int
) -> tuple[Solution, bool]:
    """Minimize (1) in at most `max_epochs` steps; return the solution, and whether it is final.

    It is not where steps end before the gap is proved: another method has to continue then.
    """
    zero = np.zeros(1)
    psi = np.append(l1, zero), np.append(l2, zero)
    rows = problem.rows
    rows = rows._replace(indices=rows.indices.view(f"u{rows.indices.itemsize}"))
    # Values beyond what sums can hold end the steps, and another method continues.
    with Threads(n_threads) as threads, np.errstate(over="ignore", invalid="ignore"):
        whole = _Steps(problem, rows, problem.shares, psi, threads)
        if start is not None:
            whole.w[:] = np.append(start.coef, problem.fit_intercept * float(start.intercept))
        elif max_epochs > 0:
            few = _sample(problem)
            if few is not None:
                whole.w[:] = _on_sample(_Steps(problem, *_taken(rows, *few), psi, threads))
        return _certified(whole, trace, max_epochs)


class _Point(NamedTuple):
    """Weights, and the scores, slopes and curvatures of rows and P there."""

    w: Array
    z: Array
    s: Array
    D: Array
    P: float


class _Steps:
    """Weights of some rows, and steps on them."""

    def __init__(self, problem: Problem, rows: RowBlock, p: Array, psi: tuple[Array, Array], threads: Threads) -> None:
        self.problem, self.X, self.y, self.p = problem, rows, rows.y, p
        self.loss, self.one = as_tuple(problem.loss), float(problem.fit_intercept)
        self.l1, self.l2 = psi
        self.threads, self.ranges = threads, threads.ranges_by_entries(rows.indptr)
        m = len(self.l1)
        self.w, self.every = np.zeros(m), np.arange(m)
        self.half = [np.zeros((m, m)) for _ in self.ranges]
        self.latest = np.zeros(rows.n_rows)
        self.floor, self.changed = TINY * p, CHANGED

    def penalty(self, w: Array) -> float:
        """Return the penalty of weights."""
        return float(self.l1 @ np.abs(w) + 0.5 * (self.l2 @ (w * w)))

    def expand(self, w: Array) -> _Point:
        """Return P to first order, from the weights alone."""
        z, s, D = (np.empty(len(self.y)) for _ in range(3))

        def work(first: int, last: int) -> float:
            return float(kernels.expand(self.X, self.one, self.loss, self.y, self.p, w, first, last, z, s, D))

        return _Point(w, z, s, D, float(sum(self.threads.each(work, self.ranges))) + self.penalty(w))

    def gather(self, at: _Point) -> Array:
        """Return g, and bring H up to date."""
        m = len(self.w)
        parts = [(first, last, np.zeros(m), H) for (first, last), H in zip(self.ranges, self.half, strict=True)]

        def work(first: int, last: int, out: Array, H: Array) -> None:
            kernels.gather(self.X, self.one, at.s, at.D, self.floor, self.changed, first, last, self.latest, out, H)

        self.threads.each(work, parts)
        return np.asarray(sum((out for _, _, out, _ in parts[1:]), start=parts[0][2]))

    def hessian(self) -> Array:
        """Return H."""
        half = sum(self.half[1:], start=self.half[0])
        H = half + half.T
        H.flat[:: len(H) + 1] = half.diagonal()
        return np.asarray(H)

    def minimize(self, g: Array, w: Array, goal: float) -> tuple[Array, Array]:
        """Return the minimizer of the quadratic model under the penalty, and the model's slopes of features there."""
        from .l1 import _kernels as l1_kernels
        from .l1.gram import minimize
        from .l1.point import Strengths

        far = np.empty(len(w))
        l1_kernels.violations(self.every, w, g, self.l1, self.l2, far)
        total = float(far.sum())
        H = self.hessian()
        diagonal = H.diagonal().copy()
        if not self.one:
            diagonal[-1] = 1.0
        enough = min(max(goal, TIGHTEST * total), SOLVED * total)
        u, q = w.copy(), g.copy()
        rough = goal == np.inf
        left = l1_kernels.gram_passes(H, diagonal, q, u, self.l1, self.l2, enough, FEW_PASSES if rough else PASSES)
        if left > enough and not rough:
            u = minimize(H, diagonal, q, u, Strengths(self.l1, self.l2), enough)
        return u, g + H @ (u - w)

    def advance(self, at: _Point, u: Array, g: Array, *, far: float) -> tuple[_Point, float]:
        """Go from a point towards u as far as P falls enough; return where, and how far.

        A step that lowers P by more than the part `far` of it is doubled while that lowers P further: far from the
        optimum, where D falls on the way, Newton's steps are short.
        """
        d = u - at.w
        promised, t = float(g @ d) + self.penalty(u) - self.penalty(at.w), 1.0
        while promised < 0.0 and t >= SHORTEST:
            there = self.expand(u if t == 1.0 else at.w + t * d)
            if at.P + ENOUGH * t * promised >= there.P:
                while far * abs(at.P) < at.P - there.P and 1.0 <= t < LONGEST:
                    beyond = self.expand(at.w + 2.0 * t * d)
                    if not beyond.P < there.P:
                        break
                    there, t = beyond, 2.0 * t
                return there, t
            t *= 0.5
        return at, 0.0


def _on_sample(steps: _Steps) -> Array:
    """Return weights that are near the optimum of a sample."""
    at = steps.expand(steps.w)
    for _ in range(SAMPLE_STEPS):
        g = steps.gather(at)
        u, _ = steps.minimize(g, at.w, np.inf)
        there, length = steps.advance(at, u, g, far=0.0)
        fallen, at = at.P - there.P, there
        if length == 0.0 or fallen <= SAMPLE_ENDS * abs(at.P):
            break
    return at.w


def _certified(steps: _Steps, trace: Trace, max_epochs: int) -> tuple[Solution, bool]:
    """Take steps until the gap is proved."""
    tol, proof = trace.aim, _Proof(steps, trace)
    at = steps.expand(steps.w)
    ended = done = False
    for epoch in range(max_epochs + 1):
        proved = at.P - proof.dual <= trace.tol * abs(at.P)
        if not proved:
            g = steps.gather(at)
            proof.offer(at, at.s, g, 0.0, last=epoch == max_epochs)
        nnz = int(np.count_nonzero(at.w[:-1]))
        done = trace.certify(epoch, at.P, proof.dual, nnz)
        ended = done or epoch == max_epochs or trace.stalled
        if ended or epoch == MOST_STEPS:
            break
        size = float(np.sum(np.abs(at.w)))
        u, q = steps.minimize(g, at.w, 0.3 * tol * abs(at.P) / size if size > 0.0 else 0.0)
        there, length = steps.advance(at, u, g, far=FAR)
        if length == 0.0:
            break
        if length < 1.0:
            steps.changed *= 0.5
        elif length == 1.0:
            slopes = at.s + steps.latest * (there.z - at.z)
            r = slopes - there.s
            missing = 0.5 * float(r @ (r / np.maximum(there.D, steps.floor + 1e-300)))
            proof.offer(there, slopes, q, missing)
        at = there
    if not ended:
        trace.history.pop()  # another method continues from here
    coef = at.w[:-1].copy()
    return Solution(coef, float(at.w[-1]) * steps.one, proof.alpha, trace.history, done), ended


class _Proof:
    """The best dual point so far."""

    def __init__(self, steps: _Steps, trace: Trace) -> None:
        self.steps, self.tol = steps, trace.aim
        self.alpha = np.zeros(len(steps.y))
        self.dual = self._value(self.alpha, np.zeros(len(steps.w)), 1.0)

    def offer(self, at: _Point, theta: Array, G: Array, missing: float, *, last: bool = False) -> None:
        """Take the bound of a dual point if it may prove that `at` is good enough; G is about X' theta."""
        steps = self.steps
        gap, wanted = self._estimate(at, G, missing), self.tol * abs(at.P)
        if not (last or gap <= LIKELY * wanted):
            return
        if steps.one:
            up, down = balance(float(np.sum(np.maximum(theta, 0.0))), float(np.sum(np.minimum(theta, 0.0))))
            theta = theta * np.where(theta > 0.0, up, down)
        G = self._products(theta)
        s = self._scale(G)
        value = self._value(theta, G, s)
        if value > self.dual:
            self.dual = value
            p = steps.p
            self.alpha = np.divide(-s * theta, p, out=np.zeros_like(p), where=p > 0.0)

    def _estimate(self, at: _Point, G: Array, missing: float) -> float:
        """Return about what the gap between P and the value of theta is."""
        steps, s = self.steps, self._scale(G)
        product = float(G @ at.w)
        return steps.penalty(at.w) + product + self._beyond(G, 1.0) + missing + (1.0 - s) * abs(product)

    def _scale(self, G: Array) -> float:
        from .l1 import _kernels as l1_kernels

        return min(float(l1_kernels.limit(G, self.steps.every, self.steps.l1, self.steps.l2)), 1.0)

    def _beyond(self, G: Array, s: float) -> float:
        from .l1 import _kernels as l1_kernels

        return float(l1_kernels.beyond(G, self.steps.every, s, self.steps.l1, self.steps.l2))

    def _products(self, theta: Array) -> Array:
        steps = self.steps

        def work(first: int, last: int) -> Array:
            out = np.zeros(len(steps.w))
            csr_products.transposed(steps.X, steps.one, theta, first, last, out)
            return out

        return np.asarray(sum(steps.threads.each(work, steps.ranges)))

    def _value(self, theta: Array, G: Array, s: float) -> float:
        from .l1 import _kernels as l1_kernels

        steps = self.steps

        def work(first: int, last: int) -> float:
            return float(l1_kernels.dual_loss(steps.loss, theta, s, steps.y, steps.p, first, last))

        return float(sum(steps.threads.each(work, steps.ranges))) - self._beyond(G, s)


# -- a sample of the rows ------------------------------------------------------------------------


def _sample(problem: Problem) -> tuple[Array, Array] | None:
    """Return a sample of the rows and their shares, None if it would be too small or hardly smaller than the whole."""
    n, d, p = problem.rows.n_rows, problem.n_features, problem.shares
    most = max(int(n / SAMPLE), int(LEAST_SAMPLE * d))
    if 2 * most > n:
        return None
    y, rng = problem.rows.y, np.random.default_rng(0)
    groups = [np.flatnonzero(y > 0.0), np.flatnonzero(y <= 0.0)]
    chosen, shares = [], []
    for group in groups:
        some = group
        if len(group) > most // 2:
            ends = np.linspace(0, len(group), most // 2 + 1).astype(np.int64)
            some = group[rng.integers(ends[:-1], ends[1:])]  # one of each range
        total = float(np.sum(p[some]))
        if total > 0.0:
            chosen.append(some)
            shares.append(p[some] * (float(np.sum(p[group])) / total))
    return (np.concatenate(chosen), np.concatenate(shares)) if chosen else None


def _taken(rows: RowBlock, chosen: Array, shares: Array) -> tuple[RowBlock, Any]:
    """Return the chosen rows and their shares."""
    lengths = np.diff(rows.indptr)[chosen]
    indptr = np.zeros(len(chosen) + 1, rows.indptr.dtype)
    np.cumsum(lengths, out=indptr[1:])
    entries = np.repeat(rows.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
    return (
        rows._replace(
            indptr=indptr,
            indices=rows.indices[entries],
            data=rows.data[entries],
            y=rows.y[chosen],
            c=rows.c[chosen] if len(rows.c) else rows.c,
        ),
        shares,
    )
