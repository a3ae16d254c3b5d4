"""One run of Prox-SDCA: its state, its passes over the rows, and the certificates between them.

A pass sums the rows' local gaps, which estimates the duality gap before the pass at no cost. From one pass to the next
it falls at a rate that predicts the gap after the pass as well. When the prediction is near `tol`, and occasionally
before, weights, primal and dual value are computed from alpha alone: that certificate decides. After each pass over all
rows, those with more than a small local gap are visited again, until little of it is left or for as much work as three
more passes: most rows settle early.

Intercept. A row's step also moves b = center + (1/mu) sum_i p_i alpha_i; after each pass the center moves to b. That is
the method of multipliers for the constraint sum_i p_i alpha_i = 0 of the dual, and needs no penalty on b. 1/mu is as
large as it can be without bending the rows' steps much more than loss and features do: then b follows fast.

Threads share alpha and v without locks, each on its own part of the pass; where rows are long beside v, on copies of v
that are merged every so often. Now and then an update is lost; v is recomputed before each pass over all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.validation import Array
from ...data.threads import ALONE, Threads
from ..dual import balance
from ..newton.passes import unsigned
from ..penalty_conjugates import Net
from ..problem import Problem, Solution, Trace

if TYPE_CHECKING:
    from . import Rule, StrongPart

SKIP = 0.01  # of the mean local gap: rows below it have settled
_SETTLED = 0.03  # of the gap estimate: where the others come below it, all rows are due again,
_AGAIN = 3  # and after so many passes' work on them
_FEATURES = 0.25  # 1/mu as a part of the rows' mean curvature,
_LOSS = 0.1  # and of what a row's step bears beside the curvature of its loss
_RARELY = 4  # epochs between two certificates that only look how it goes
_EAGER = 3.0  # times tol: a gap expected below it is checked. An unsuccessful check costs less than an epoch too many
_FIRST_RATE = (
    0.1  # of the gap that a pass leaves, where it is unknown: the first pass, from alpha = 0, gives no estimate
)
_SAMPLE = 1000  # rows
_LARGEST = 1e37  # curvature that is kept in 32 bits
_NARROW = 8  # features that make v too narrow to be shared: fewer than this many non-zeros between two meetings
_MEET = 512  # rows between two meetings of threads with copies of v


class Seen(NamedTuple):
    """Weights and an intercept that a certificate was for, with P."""

    primal: float
    coef: Array
    intercept: float


class Run:
    """The state of a run and what it can do."""

    def __init__(self, problem: Problem, link: Any, rule: Rule, seed: int, start: Solution | None, n_threads: int):
        from ...core.losses._kernels import as_tuple
        from . import _sweep as kernels

        self.problem, self.rule, self.kernels = problem, rule, kernels
        rows, n = unsigned(problem.rows), problem.rows.n_rows
        self.rows = rows
        self.n_threads, self.threads = min(n_threads, n), ALONE
        self.total = float(rows.c.sum()) if len(rows.c) else float(n)
        self.seed, self.random = np.array([seed], np.uint64), np.random.default_rng(seed)
        self.order = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
        self.loss, self.link = as_tuple(problem.loss), link
        averaged = n if rule.output == "average" else 0
        self.state = kernels.State(
            alpha=np.zeros(n),
            v=np.zeros(problem.n_features),
            curvature=np.empty(n, np.float32),
            bias=np.zeros(3),
            sums=np.zeros(averaged),
            since=np.zeros(averaged, np.int64),
            clock=np.zeros(1, np.int64),
        )
        self.net = Net(problem.penalty.terms(problem.shape), problem.shape)
        self.epoch, self.skip, self.drawn = 0, 0.0, 0
        self.picked: Array | None = None
        self.coef, self.intercept, self.factors = np.zeros(problem.n_features), 0.0, np.ones(2)
        self.best, self.rose = Seen(np.inf, self.coef, 0.0), False
        self.rises = True  # D: not where a strongly convex part is weakened
        self.proof: tuple[float, Array] = (-np.inf, self.state.alpha)  # the best dual value then, and its alpha
        self.scale = 1.0 if problem.loss.kind == "binary" else scale_of(np.std(rows.y), np.abs(rows.y).max())
        self.bend(link)
        if start is not None:
            self._begin(start)
        self.intercepts = Intercepts(float(self.state.bias[1]), 0.1 * self.scale)

    def _begin(self, start: Solution) -> None:
        from .._conjugates import clip

        self.state.alpha[:] = start.alpha
        clip(self.loss, self.state.alpha, self.rows.y)
        self.state.bias[1] = float(start.intercept) if self.problem.fit_intercept else 0.0
        self._sum_up()

    def bend(self, link: Any) -> None:
        """Take a link, and compute the rows' curvatures with it and with the intercept's part in them."""
        self.link = link
        rows, curvature, bias = self.rows, self.state.curvature, self.state.bias
        largest = self.kernels.curvatures(rows, link, self.total, 0.0, curvature)
        if largest > _LARGEST and curvature.dtype == np.float32:
            curvature = np.empty(len(curvature))
            self.state = self.state._replace(curvature=curvature)
            self.kernels.curvatures(rows, link, self.total, 0.0, curvature)
        smoothness = self.problem.loss.smoothness
        if self.problem.fit_intercept:
            mean = float(curvature.sum(dtype=np.float64))
            flat = 1.0 / smoothness if np.isfinite(smoothness) else self.scale
            heaviest = float(rows.c.max()) if len(rows.c) else 1.0
            bias[2] = max(_FEATURES * mean, _LOSS * flat * self.total / heaviest)
            largest = self.kernels.curvatures(rows, link, self.total, bias[2], curvature)
        option = self.kernels.Option(self.rule.number, 1.0 / smoothness, largest)
        self.parts = self.kernels.Parts(self.loss, option, link)

    # ---- passes

    def until(self, trace: Trace, max_epochs: int, part: StrongPart | None = None) -> bool:
        """Sweep until a certificate is good enough, or for `max_epochs`; return whether one is.

        A strong part that is not in the objective is weakened on the way.
        """
        with Threads(self.n_threads) as self.threads:
            return self._until(trace, max_epochs, part)

    def _until(self, trace: Trace, max_epochs: int, part: StrongPart | None) -> bool:
        size, due, before = self._first_size(), 1 if part is not None else _RARELY, np.inf
        while self.epoch < max_epochs:
            estimate = self._pass()
            self.epoch += 1
            rate = _FIRST_RATE if self.epoch < 3 or part is not None else min(estimate / before, 1.0)
            before = max(estimate, 1e-300)
            near = rate * estimate <= _EAGER * trace.aim * size or trace.near_rounding
            if near or self.epoch >= due or self.epoch == max_epochs:
                if self._certify(trace):
                    return True
                if trace.stalled:
                    return False
                due = self.epoch + max(_RARELY, self.epoch // 2)
                last = trace.history[-1]
                size = max(abs(last.primal), abs(last.dual))
            if part is not None and part.weaken(estimate, part.size(self.coef), trace.tol * size, self._room(trace)):
                self.bend(part.link())
                due = min(due, self.epoch + 2)
        return False

    def _first_size(self) -> float:
        """Return about the mean loss without weights, which the objective will be below."""
        some = self.rows.y[:: max(1, self.rows.n_rows // _SAMPLE)]
        return float(np.mean(self.problem.loss.value(np.full(len(some), self.state.bias[1]), some)))

    def _pass(self) -> float:
        """Move all rows, then those that have not settled; return the sum of the local gaps that all were met with."""
        if self.rule.output != "last":
            self._maybe_begin_anew()
        if self.threads.n > 1 and self.epoch:
            self._sum_up()
        again = self.rule.sampling == "permutation" and self.rule.output == "last"
        estimate = go_over(self._sweep, self.order, again)
        self.skip = SKIP * estimate
        return estimate

    def _sweep(self, order: Array) -> tuple[float, int]:
        """Move these rows once, in a new order; return the sum of their local gaps and how many need another visit."""
        if self.rule.sampling == "uniform":
            self.kernels.sample(order, self.rows.n_rows, self.seed)
        else:
            self.kernels.shuffle(order, self.seed)
        if len(self._parts(len(order))) > 1:
            result = self._move_in_threads(order)
        elif self.rule.output == "random":
            result = self._move_and_pick(order)
        else:
            result = self._move(order)
        bias = self.state.bias
        bias[1] += bias[0] * bias[2]  # the method of multipliers; 1/mu = 0 where b is held
        return result

    def _move(self, order: Array) -> tuple[float, int]:
        result: tuple[float, int] = self.kernels.sweep(self.parts, self.rows, self.state, order, self.total, self.skip)
        return result

    def _move_and_pick(self, order: Array) -> tuple[float, int]:
        """Move rows, and keep one iterate of all since T_0, each as likely as any other."""
        m = len(order)
        self.drawn += m
        if self.random.random() * self.drawn >= m:
            return self._move(order)
        k = int(self.random.integers(m)) + 1
        first = self._move(order[:k])
        self.picked = self.state.alpha.copy()
        second = self._move(order[k:])
        return first[0] + second[0], first[1] + second[1]

    def _maybe_begin_anew(self) -> None:
        """Forget the iterates so far where the mean, or the draw, is to begin."""
        given, e = self.rule.average_from, self.epoch
        if e == given or (given is None and e & (e - 1) == 0):
            self.drawn, self.picked = 0, None
            for array in (self.state.sums, self.state.since, self.state.clock):
                array[...] = 0

    # ---- threads

    def _parts(self, m: int) -> list[tuple[int, int]]:
        """Cut m rows into parts for threads."""
        rows = self.rows
        return self.threads.ranges(m, m * (int(rows.indptr[-1]) - int(rows.indptr[0])) / rows.n_rows)

    def _each(self, work: Callable[[int, int], Any], m: int) -> list[Any]:
        """Do the work on each part of m rows, in threads."""
        return self.threads.each(work, self._parts(m))

    def _move_in_threads(self, order: Array) -> tuple[float, int]:
        rows, d = self.rows, self.problem.n_features
        narrow = _NARROW * d < _MEET * (int(rows.indptr[-1]) - int(rows.indptr[0])) / rows.n_rows

        def work(first: int, last: int) -> tuple[float, int]:
            arguments = self.parts, rows, self.state, order[first:last], self.total, self.skip
            result: tuple[float, int] = (
                self.kernels.sweep_apart(*arguments, _MEET) if narrow else self.kernels.sweep(*arguments)
            )
            return result

        parts = self._parts(len(order))
        results = self.threads.each(work, parts)
        ends = [(first, first + k, last) for (first, last), (_, k) in zip(parts, results, strict=True)]
        front, rest = [order[a:b] for a, b, _ in ends], [order[b:c] for _, b, c in ends]
        order[:] = np.concatenate((*front, *rest))
        return sum(estimate for estimate, _ in results), sum(map(len, front))

    def _combine(self, alpha: Array, factors: Array, v: Array) -> None:
        """Write sum_i p_i f_i alpha_i x_i into v."""
        rows = self.rows
        v[:] = 0.0

        def work(first: int, last: int) -> Array:
            own = v if first == 0 else np.zeros_like(v)
            self.kernels.combine(rows, alpha, factors, self.total, first, last, own)
            return own

        for other in self._each(work, rows.n_rows)[1:]:
            v += other

    def _sum_up(self) -> None:
        """Recompute from alpha what the state stores about it."""
        from .._conjugates import sides

        self._combine(self.state.alpha, np.ones(2), self.state.v)
        self.state.bias[0] = sum(sides(self.state.alpha, self.rows.c)) / self.total

    # ---- certificates

    def _alpha(self) -> Array:
        """Return the dual variables of the rule's output."""
        if self.rule.output == "average" and self.state.clock[0]:
            mean = np.empty_like(self.state.alpha)
            self.kernels.means(self.state, mean)
            return np.asarray(mean)
        return np.asarray(self.state.alpha if self.picked is None else self.picked)

    def _certify(self, trace: Trace) -> bool:
        """Compute weights, primal and dual value from alpha alone; return whether they prove enough."""
        from .._conjugates import sides

        problem, alpha, bias = self.problem, self._alpha(), self.state.bias
        positive, negative = sides(alpha, self.rows.c)
        if alpha is self.state.alpha:
            bias[0] = (positive + negative) / self.total  # what rounding has added up goes
        self.factors = np.array(balance(positive, negative) if problem.fit_intercept else (1.0, 1.0))
        w = v = self.coef  # one array for both
        self._combine(alpha, self.factors, v)
        scale = self.net.limit(v)
        bound = self.net.value(v, scale)
        self.kernels.weights(self.link, v, w)
        shifts = np.zeros(1)
        if problem.fit_intercept:
            shifts = self.intercepts.tried(float(bias[1]))

        def work(first: int, last: int) -> Array:
            out = np.zeros(len(shifts) + 1)
            arguments = self.loss, self.rows, w, shifts, alpha, scale * self.factors, self.total
            self.kernels.measure(*arguments, first, last, out)
            return out

        sums = np.sum(self._each(work, self.rows.n_rows), axis=0)
        k = int(np.argmin(sums[:-1]))
        if problem.fit_intercept:
            self.intercepts.move(shifts, sums[:-1], k)
        self.intercept = float(shifts[k])
        primal = float(sums[k]) + self.net.primal(w)
        self.rose = self.rose or bool(trace.history and not primal <= trace.history[-1].primal)
        if self.rose and primal < self.best.primal:  # a copy of w costs memory: only where P has been seen to rise
            self.best = Seen(primal, w.copy(), self.intercept)
        dual = -float(sums[-1]) - bound
        if not self.rises and dual > self.proof[0]:
            self.proof = dual, alpha * np.where(alpha > 0.0, *self.factors)
        return trace.certify(self.epoch, primal, dual, int(np.count_nonzero(w)))

    def _room(self, trace: Trace) -> float:
        """Return P less the least that the mean loss can be: what the penalty has at most at the optimum."""
        from .._conjugates import conjugate_sum

        rows = self.rows
        if not trace.history:
            return np.inf
        least = -float(conjugate_sum(self.loss, np.zeros(rows.n_rows), rows.y, rows.c, 1.0)) / self.total
        return min(record.primal for record in trace.history) - least

    def solution(self, trace: Trace, converged: bool) -> Solution:
        """Return what the last certificate was for; if it falls short, the best weights that any of them was for.

        P rises and falls on the way, for it is D that the steps ascend. Where D may fall as well, alpha is that of the
        best dual value.
        """
        from .._conjugates import scale_sides

        alpha = self._alpha() if self.rises else self.proof[1]
        if self.rises:
            scale_sides(alpha, *self.factors)
        last, best = trace.history[-1], self.best
        if converged or (np.isfinite(last.primal) and not best.primal < last.primal):
            known = np.all(self.net.l2 > 0.0) and not self.net.l1.any()
            v = np.multiply(self.net.l2, self.coef, out=self.state.v) if known else None
            return Solution(self.coef, self.intercept, alpha, trace.history, converged, v)
        converged = trace.certify(last.epoch, best.primal, last.dual, int(np.count_nonzero(best.coef)))
        return Solution(best.coef, best.intercept, alpha, trace.history, converged)


def go_over(sweep: Callable[[Array], tuple[float, int]], order: Array, again: bool = True) -> float:
    """Sweep over all rows, then `again` over those that have not settled; return the first sum of local gaps.

    `sweep` moves the rows of an order once, brings those that need another visit to its front, and returns the sum of
    local gaps and the number of those rows.
    """
    estimate, kept = sweep(order)
    met, work = estimate, 0
    while again and kept and work + kept <= _AGAIN * len(order) and met > _SETTLED * estimate:
        work += kept
        met, kept = sweep(order[:kept])
    return estimate


@dataclass
class Intercepts:
    """Which intercepts a certificate tries: the solver's own, and three about the best guess so far."""

    guess: float
    spread: float

    def tried(self, own: float) -> Array:
        """Return them, the solver's own first."""
        return np.array([own, self.guess, self.guess - self.spread, self.guess + self.spread])

    def move(self, shifts: Array, losses: Array, k: int) -> None:
        """Guess, from the mean losses at those tried, the k-th the least, which is best: the top of a parabola."""
        b, a, c = losses[1:]
        bend = a - 2.0 * b + c
        level = not 0.0 < bend < np.inf  # a loss may overflow at one of them
        guess = float(shifts[k]) if level else self.guess + 0.5 * self.spread * float(a - c) / float(bend)
        step = float(np.clip(guess - shifts[k], -4.0 * self.spread, 4.0 * self.spread))
        to = float(shifts[k]) + (step if k else 0.0)
        self.guess, self.spread = to, max(min(abs(to - self.guess), self.spread), 0.1 * self.spread)


def scale_of(spread: Any, largest: Any) -> float:
    """Return the scale of predicted numbers: the labels' standard deviation, if they differ; of classes it is 1."""
    return max(float(spread), 1e-6 * float(largest)) or 1e-6
