"""A better model in the shadow of a given one: the dual point that it brings proves how far the given one is off.

No dual point proves more than P* = min P, and a solver finds one that proves nearly that. So from the model's own
weights and the alphas that its scores suggest, the solver that `dispatch` chooses runs for a bounded number of epochs.
Each of its proofs brackets the distance of the model from the optimum:

    P(model) - P(shadow) <= P(model) - P* <= P(model) - D                                                           (1)

Once D is within a small part of the left side from P(shadow), no more work could make the proof much tighter.

A bound on the norm, Psi(w) = 0 for ||w|| <= R, has no solver; its optimum is that of L2(mu) for one mu. With
w_mu the optimum of L2(mu), v = X'(p alpha) = mu w_mu there, and

    D_ball(alpha) = mean loss at w_mu - mu ||w_mu|| (R - ||w_mu||)                                                  (2)

so mu is sought that makes ||w_mu|| = R: log ||w_mu|| falls with log mu, nearly along a line, and D_ball is flat at its
maximum, so that few values of mu are enough.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..core.penalties import L2, L2Ball
from ..core.validation import Array
from .centring import LARGEST
from .dispatch import MODULES, choose
from .dual import DualPoint, dual_point
from .problem import Problem, Solution

ENOUGH = 0.1  # part of the left side of (1) by which a proof may be loose
FIRST = 1e-3  # relative gap of the first run
TIGHTER = 0.1  # relative gaps of the next ones, compared with the last
FROM_SCRATCH = 6  # steps for each pass allowed, of the method that can neither start from a model nor be continued
FARTHEST = 1e3  # factor by which mu changes at most


class Progress(NamedTuple):
    """How far a proof has come: passes over the data so far, the best lower bound, and the gap to it."""

    passes: int
    dual: float
    gap: float


class Shadow:
    """A model's weights and objective, the best point and the best proof found so far."""

    def __init__(self, problem: Problem, coef: Array, intercept: Any, primal: float, points: list[DualPoint]):
        self.problem, self.primal, self.passes = problem, primal, 0
        self.point = max(points, key=lambda point: point.value)
        self.coef, self.intercept, self.least = coef, intercept, primal
        self.history = [self._progress()]

    def _progress(self) -> Progress:
        dual = min(self.point.value, self.primal)
        return Progress(self.passes, dual, self.primal - dual)

    def improve(self, passes: int, tol: float) -> None:
        """Improve the proof within this many epochs of a solver, until the relative gap is `tol` or (1) is tight."""
        if not self._needs_work(tol) or self.problem.rows.check_finite() > LARGEST:
            return
        with np.errstate(all="ignore"):
            for found in self._runs(passes, tol):
                self.passes += max(found.history[-1].epoch, 1)
                self._take(found)
                if not self._needs_work(tol):
                    break

    def solve(self, passes: int, tol: float) -> None:
        """Bring the best point and the proof to a relative gap of `tol`, where there is a solver."""
        if self.least - self.point.value <= tol * abs(self.least) or self.problem.rows.check_finite() > LARGEST:
            return
        start = Solution(self.coef, self.intercept, self.point.alpha, [], False)
        with np.errstate(all="ignore"), contextlib.suppress(TypeError):
            self._take(_run(MODULES[choose(self.problem)], self.problem, tol, passes, start))

    def _needs_work(self, tol: float) -> bool:
        """Return whether the proof can become much tighter."""
        dual, size = self.point.value, max(abs(self.primal), abs(self.point.value))
        if self.primal - dual <= tol * size:
            return False
        return not self.least - dual <= max(ENOUGH * (self.primal - self.least), tol * size)

    def _take(self, found: Solution) -> None:
        """Take over what a run has found, where it is better."""
        w, b = found.coef, found.intercept
        if isinstance(self.problem.penalty, L2Ball):
            w = w * min(1.0, self.problem.penalty.radius / max(float(np.linalg.norm(w)), 1e-300))
        value = self.problem.primal(w, b)
        if value < self.least:
            self.coef, self.intercept, self.least = w, b, value
        point = dual_point(self.problem, found.alpha)
        if point.value > self.point.value:
            self.point = point
        self.history.append(self._progress())

    # -- runs of solvers --------------------------------------------------------------------------

    def _runs(self, passes: int, tol: float) -> Iterator[Solution]:
        """Solve to smaller and smaller gaps."""
        start = self._start()
        if isinstance(self.problem.penalty, L2Ball):
            yield from self._along_strengths(passes, tol, start)
            return
        try:
            room = choose(self.problem)
        except TypeError:  # no solver for this loss and penalty
            return
        name = MODULES[room]
        if room == "interior":
            yield _run(name, self.problem, tol, FROM_SCRATCH * passes, start)
            return
        goal = FIRST
        while self.passes < passes:
            goal = max(tol, min(goal, 0.5 * self._wanted()))
            start = _run(name, self.problem, goal, passes - self.passes, start)
            yield start
            if not start.converged or goal == tol:
                return
            goal *= TIGHTER

    def _wanted(self) -> float:
        """Return the relative gap at which (1) is tight, by what is known."""
        known = self.primal - self.least
        return ENOUGH * known / abs(self.least) if known > 0.0 and self.least != 0.0 else FIRST

    def _start(self) -> Solution:
        """Return the model, or weights 0 where these are better."""
        zero = np.zeros(self.problem.shape)
        none: Any = np.zeros(self.problem.shape[1:]) if zero.ndim == 2 else 0.0
        if not self.problem.primal(zero, none) < self.primal:
            zero, none = self.coef, self.intercept
        return Solution(zero, none, self.point.alpha, [], False)

    def _along_strengths(self, passes: int, tol: float, start: Solution) -> Iterator[Solution]:
        """Solve under L2(mu) for the mu that brings the norm of the weights to the radius."""
        radius = self.problem.penalty.radius  # type: ignore[attr-defined]
        mu, seen = float(np.linalg.norm(self.point.v)) / radius or FIRST, []
        while self.passes < passes and mu > 0.0 and math.isfinite(mu):
            shaped = replace(self.problem, penalty=L2(mu))
            try:
                name = MODULES[choose(shaped)]
            except TypeError:
                return
            start = _run(name, shaped, max(tol, min(FIRST, self._wanted())), passes - self.passes, start)
            yield start
            seen.append((math.log(mu), math.log(max(float(np.linalg.norm(start.coef)), 1e-300) / radius)))
            step = seen[-1][1]  # v = mu w has the norm mu R at the right mu
            if len(seen) > 1 and seen[-1][1] != seen[-2][1]:
                slope = (seen[-1][1] - seen[-2][1]) / (seen[-1][0] - seen[-2][0])
                step = -seen[-1][1] / slope if slope < 0.0 else step
            mu *= math.exp(max(min(step, math.log(FARTHEST)), -math.log(FARTHEST)))


def _run(name: str, problem: Problem, tol: float, max_epochs: int, start: Solution) -> Solution:
    solution: Solution = import_module(name, __package__).solve(problem, tol=tol, max_epochs=max_epochs, start=start)
    return solution
