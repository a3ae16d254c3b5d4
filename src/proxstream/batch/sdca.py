"""Prox-SDCA for one output: stochastic dual coordinate ascent with every option of the paper.

    min_w,b  sum_i p_i phi(<x_i, w> + b, y_i) + Psi(w)        Psi(w) = sum_j l1_j |w_j| + (l2_j / 2) w_j^2, all l2_j > 0

Each step moves the dual variable of one row, and with it v = sum_i p_i alpha_i x_i and the weights
w = grad Psi*(v) = soft(v, l1) / l2 (`proxstream.kernels.sdca`). A pass sums the rows' local gaps as it meets them; that
estimates the duality gap for nothing; where the estimate comes near `tol`, weights, primal and dual value are computed
afresh from alpha, and that certificate decides.

Rows that a pass met with a small local gap are left out of the next three: most support vectors have long settled.

Intercept. A row's step also moves b = center + (1/mu) sum_i p_i alpha_i; after each pass the center moves to b. That is
the method of multipliers for the constraint sum_i p_i alpha_i = 0 of the dual, and needs no penalty on b. 1/mu is as
large as it can be without bending the rows' steps more than the features do.

L1 alone is not strongly convex. As in sections 3.1 and 3.2 of the paper a small strongly convex part is added, of
strength eps / B^2 with B >= ||w*||: see `l1_only`. The certificate is for the objective without it.

Reference: S. Shalev-Shwartz, T. Zhang, Proximal stochastic dual coordinate ascent, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import Array, integer, one_of
from ..losses import Loss
from ..penalties import Penalty
from ..penalties.base import Terms
from .conjugates import conjugate_of
from .dual import balance
from .problem import Problem, Solution, Trace

OPTIONS = ("I", "II", "III", "IV", "V")
SAMPLINGS = ("permutation", "uniform")
OUTPUTS = ("last", "average", "random")

_FULL_EVERY = 4  # sweeps from one that takes all rows to the next
_SKIP = 0.1  # of the mean local gap: rows below it are left out
_FEATURES_TO_INTERCEPT = 0.25  # 1/mu as a part of the rows' mean curvature
_LOOSE = 0.1  # 1/mu makes at least so much of a step's curvature beside the loss's own


@dataclass(frozen=True)
class Rule:
    """How Prox-SDCA steps, draws rows, and which of its iterates it returns (the paper's Figure 1).

    `average_from` is T_0 in passes, for outputs "average" and "random"; None begins anew after passes 1, 2, 4, 8, ...,
    so that the second half, at least, is always in.

    >>> Rule(option="VI")
    Traceback (most recent call last):
    ValueError: option must be one of 'I', 'II', 'III', 'IV', 'V', got 'VI'
    """

    option: str = "I"
    sampling: str = "permutation"
    output: str = "last"
    average_from: int | None = None

    def __post_init__(self) -> None:
        one_of("option", self.option, OPTIONS)
        one_of("sampling", self.sampling, SAMPLINGS)
        one_of("output", self.output, OUTPUTS)
        if self.average_from is not None:
            integer("average_from", self.average_from, low=0)

    def check(self, loss: Loss) -> None:
        """Raise a TypeError for an option that the loss has no constant for."""
        if self.option == "V" and not np.isfinite(loss.smoothness):
            raise TypeError(f"option 'V' is for smooth losses: {loss} has no smoothness; options I to IV take it")


def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
    rule: Rule | None = None,
) -> Solution:
    """Solve a problem with a strongly convex penalty to a relative duality gap of `tol`.

    Parameters
    ----------
    problem : Problem
        Of a loss with a conjugate and one output, and L2, ElasticNet, or sums of L1 and L2.
    tol, max_epochs : when to stop; a sweep over a part of the rows counts as an epoch, too
    seed : of the order of rows
    start : a solution of a problem with as many rows, whose alpha is to be the first
    n_threads : more than one: lock-free threads
    rule : Rule

    >>> import proxstream as ps
    >>> from proxstream.blocks import as_block
    >>> problem = Problem(as_block(np.array([[1.0], [-1.0]]), y=[1, -1]), 1, ps.hinge, ps.L2(1.0))
    >>> solution = solve(problem)
    >>> solution.coef, solution.primal
    (array([1.]), 0.5)
    """
    rule = Rule() if rule is None else rule
    rule.check(problem.loss)
    run = Run(problem, link_of(problem.penalty, problem.n_features), rule, seed, start, n_threads)
    trace = Trace(tol)
    converged = run.until(trace, max_epochs)
    return run.solution(trace, converged)


def link_of(penalty: Penalty, n_features: int) -> Any:
    """Return how weights follow from v, for a penalty of l1 and l2 parts with every l2_j > 0."""
    from ..kernels import sdca as kernels

    terms = penalty._terms((n_features,))
    if not _is_net(terms) or not np.all(np.greater(terms.l2, 0.0)):
        raise TypeError(
            "Prox-SDCA needs a strongly convex penalty: L2 or ElasticNet with l2 > 0 for every weight, or sums of L1 "
            f"and L2; got {penalty!r}"
        )
    if np.ndim(terms.l1) == 0 and np.ndim(terms.l2) == 0:
        inverse = 1.0 / float(terms.l2)
        return kernels.Net(float(terms.l1), inverse) if terms.l1 > 0.0 else kernels.Ridge(inverse)
    l1, l2 = (np.broadcast_to(x, n_features).astype(np.float64) for x in (terms.l1, terms.l2))
    return kernels.Nets(l1, 1.0 / l2)


def _is_net(terms: Terms) -> bool:
    bounded = np.isfinite(terms.lo).any() or np.isfinite(terms.hi).any()
    return terms.coupled is None and not terms.bends and not bounded


class Run:
    """One run of Prox-SDCA: its state, its sweeps, its certificates."""

    def __init__(self, problem: Problem, link: Any, rule: Rule, seed: int, start: Solution | None, n_threads: int):
        from ..kernels import sdca as kernels
        from ..kernels.losses import as_tuple

        self.problem, self.rule, self.n_threads, self.kernels = problem, rule, n_threads, kernels
        rows, n = problem.rows, problem.rows.n_rows
        self.total = float(rows.c.sum()) if len(rows.c) else float(n)
        self.seed, self.random = np.array([seed], np.uint64), np.random.default_rng(seed)
        self.order = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
        self.loss, self.link = as_tuple(problem.loss), link
        averaged = n if rule.output == "average" else 0
        self.state = kernels.State(
            np.zeros(n),
            np.zeros(problem.n_features),
            np.empty(n, np.float32),
            np.zeros(3),
            np.zeros(averaged),
            np.zeros(averaged, np.int64),
            np.zeros(1, np.int64),
        )
        self.bend()
        if start is not None:
            self._begin(start)
        self.output: tuple[Array, Any] = np.zeros(problem.n_features), 0.0
        self.shift, self.spread = float(self.state.bias[1]), 0.1 * self._scale()
        self.kept, self.epoch, self.chosen = n, 0, self.state.alpha

    def _begin(self, start: Solution) -> None:
        from ..kernels.conjugates import clip

        self.state.alpha[:] = start.alpha
        clip(self.loss, self.state.alpha, self.problem.rows.y)
        self.state.bias[1] = float(start.intercept) if self.problem.fit_intercept else 0.0
        self._refresh()

    def _refresh(self) -> None:
        """Compute the sums over alpha afresh."""
        from ..kernels.conjugates import sides

        self.state.v[:] = 0.0
        self.kernels.combine(self.problem.rows, self.state.alpha, np.ones(2), self.total, self.state.v)
        self.state.bias[0] = sum(sides(self.state.alpha, self.problem.rows.c)) / self.total

    def _scale(self) -> float:
        """Return how far apart labels are, the scale of predictions."""
        y = self.problem.rows.y
        return 1.0 if self.problem.loss.kind == "binary" else max(float(np.std(y)), 1e-9 * float(np.abs(y).max()), 1e-9)

    def bend(self) -> None:
        """Compute the rows' curvatures, with the intercept's part in them, for the link as it is now."""
        rows, curvature, bias = self.problem.rows, self.state.curvature, self.state.bias
        largest = self.kernels.curvatures(rows, self.link, self.total, 0.0, curvature)
        smoothness = self.problem.loss.smoothness
        if self.problem.fit_intercept:
            mean = float(curvature.sum(dtype=np.float64))
            flat = 1.0 / smoothness if np.isfinite(smoothness) else self._scale()
            heaviest = float(rows.c.max()) / self.total if len(rows.c) else 1.0 / self.total
            bias[2] = max(_FEATURES_TO_INTERCEPT * mean, _LOOSE * flat / heaviest)
            largest = self.kernels.curvatures(rows, self.link, self.total, bias[2], curvature)
        option = getattr(self.kernels, f"Option{self.rule.option}")
        gamma = 1.0 / smoothness
        self.parts = self.kernels.Parts(self.loss, option(*(gamma, largest)[: len(option._fields)]), self.link)

    # ---- sweeps

    def until(self, trace: Trace, max_epochs: int) -> bool:
        """Sweep until the certificate is good enough, or for so many epochs; tell whether it is."""
        estimate = ratio = np.inf
        size, due = 0.0, 1
        while self.epoch < max_epochs:
            whole = self._whole()
            met = self._sweep(whole)
            self.epoch += 1
            if whole:
                estimate = met
            near = whole and min(ratio, 1.0) * estimate <= trace.tol * size
            if near or self.epoch >= due or self.epoch == max_epochs:
                if self._certify(trace):
                    return True
                due = self.epoch + max(5, self.epoch // 4)
                last = trace.history[-1]
                size = max(abs(last.primal), abs(last.dual))
                ratio = last.gap / estimate if estimate > 0.0 else np.inf
        return False

    def _whole(self) -> bool:
        """Tell whether the next sweep takes all rows."""
        skipping = self.rule.sampling == "permutation" and self.rule.output == "last"
        return not skipping or self.epoch % _FULL_EVERY == 0

    def _sweep(self, whole: bool) -> float:
        n, state = self.problem.rows.n_rows, self.state
        if whole:
            self.kept = n
        order = self.order[: self.kept]
        if self.rule.sampling == "uniform":
            self.kernels.sample(order, n, self.seed)
        else:
            self.kernels.shuffle(order, self.seed)
        estimate, kept = self._move(order)
        self.kept = max(kept, 1)
        if whole:
            self.skip = _SKIP * estimate
        state.bias[1] += state.bias[0] * state.bias[2]
        return estimate

    def _move(self, order: Array) -> tuple[float, int]:
        skip = self.skip if self.epoch else 0.0
        told: tuple[float, int] = self.kernels.sweep(self.parts, self.problem.rows, self.state, order, self.total, skip)
        return told

    skip = 0.0

    # ---- certificates

    def _certify(self, trace: Trace) -> bool:
        """Compute weights, primal and dual value from alpha alone; tell whether they prove enough."""
        from ..kernels.conjugates import sides

        problem, alpha, state = self.problem, self._alpha(), self.state
        rows, total = problem.rows, self.total
        positive, negative = sides(alpha, rows.c)
        if alpha is state.alpha:
            state.bias[0] = (positive + negative) / total  # what rounding has added up goes
        factors = np.array(balance(positive, negative) if problem.fit_intercept else (1.0, 1.0))
        v = np.zeros(problem.n_features)
        self.kernels.combine(rows, alpha, factors, total, v)
        conjugate = conjugate_of(problem.penalty, problem.shape)
        scale = conjugate.limit(v)
        bound = conjugate.value(v, scale)
        w = v
        self.kernels.weights(self.link, v, w)
        shifts = self._shifts()
        sums = np.zeros(len(shifts) + 1)
        self.kernels.measure(self.loss, rows, w, shifts, alpha, scale * factors, total, sums)
        k = self._settle(shifts, sums[:-1])
        self.output = w, float(shifts[k])
        primal = float(sums[k]) + problem.penalty.value(w)
        return trace.certify(self.epoch, primal, -float(sums[-1]) - bound, int(np.count_nonzero(w)))

    def _alpha(self) -> Array:
        return np.asarray(self.state.alpha)

    def _shifts(self) -> Array:
        """Return the intercepts to try: the multiplier, and those around the best of the last certificate."""
        if not self.problem.fit_intercept:
            return np.zeros(1)
        return np.array([self.state.bias[1], self.shift, self.shift - self.spread, self.shift + self.spread])

    def _settle(self, shifts: Array, losses: Array) -> int:
        """Return the best of the intercepts, and guess where a still better one is."""
        k = int(np.argmin(losses))
        if len(shifts) > 1:
            a, b, c = losses[2], losses[1], losses[3]
            bend = a - 2.0 * b + c
            guess = self.shift + (0.5 * self.spread * (a - c) / bend if bend > 0.0 else 0.0)
            if k in (1, 2, 3) and np.isfinite(guess):
                step = np.clip(guess - shifts[k], -4.0 * self.spread, 4.0 * self.spread)
                self.shift, self.spread = float(shifts[k] + step), max(abs(step), 0.1 * self.spread)
            else:
                self.shift, self.spread = float(shifts[k]), max(abs(float(shifts[k]) - self.shift), 0.1 * self.spread)
        return k

    def solution(self, trace: Trace, converged: bool) -> Solution:
        """Return what the last certificate was for."""
        coef, intercept = self.output
        return Solution(coef, intercept, self.state.alpha, trace.history, converged)
