"""Proximal Newton steps on any number of columns: coordinate descent, and Newton steps on faces when that is slow.

A pass over the live columns finds the weights that move; a few more passes over those solve the quadratic problem well
enough while the objective still changes a lot. On hard problems passes stall. Once the passes still needed would cost
more than factors of the Hessian, Newton steps on the face (`face`) replace them, with a pass in between so that other
weights can become non-zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.validation import Array
from .. import cost
from ..sdca._sweep import shuffle
from . import _csc as column_kernels, _kernels as kernels
from .face import Face, Factors
from .point import Point

FLOOR = 1e-7  # of phi'' in the model, so that rows far from their bend keep one
FACE_FLOOR = 1e-11  # the same where factors make up for the bad condition
MOST_PASSES = 6
LOOK_BACK = 3  # steps
TIGHTEST = 0.05
STALLING = 0.5  # part of the violations that a step of passes leaves, from which on gradients are tried
RETRY = 6  # steps after which the way that lowered P less is tried again
SETTLED = 1.5  # live columns for each weight that is not 0, up to which steps on a face are tried
STEADY = 1.1  # the same at the end of a step, up to which a face is worth factors


class Step(NamedTuple):
    """The result of a Newton step: columns still live, violations before it (sum and largest), how far it went."""

    live: Array
    total: float
    largest: float
    length: float
    slopes: Array  # theta + D v, the slopes of the model at its end
    costly: bool = False  # beside a certificate


class Sweeps:
    """Coordinate descent on the model, with Newton steps on faces once they are worth it."""

    def __init__(self, at: Point, seed: int):
        self.at, self.seed = at, np.array([seed], np.uint64)
        self.face = Face(at)
        self.H = np.empty(len(at.w))
        self.reach = np.empty(len(at.w))
        column_kernels.largest(at.columns, self.reach)
        np.divide(1.0, self.reach, out=self.reach, where=self.reach > 0.0)
        self.most = np.empty(len(at.w))  # the longest step of each weight
        self.leave = 1.0  # part of the first violations at which a model is left; the first model gets one pass
        self.seconds = 0.0  # of passes so far, by the cost model
        self.gains: dict[str, float] = {}  # decrease of P for each second of the last step of either kind
        self.turns = 0
        self.steady = False  # whether the last step left few columns live that have no weight
        self.met: list[
            tuple[float, float, float]
        ] = []  # violations, sum and largest, before each step, and seconds then

    def step(self, live: Array, slack: float, goal: float) -> Step:
        """Take one step; columns of weight 0 whose slopes are further than `slack` inside their threshold are dropped.

        `goal` is the largest violation that needs no further reduction.
        """
        at = self.at
        at.expand()
        self.seconds += cost.ROW * len(at.z)
        np.multiply(at.trust, self.reach, out=self.most)
        factors, D = None, np.maximum(at.D, FACE_FLOOR * at.p)
        settled = len(live) <= SETTLED * int(np.count_nonzero(at.w))
        if settled and (self.face.factors is not None or ("gradients" in self.gains and self.steady)):
            factors = self.face.consider(self._ahead(goal), D)
        if factors is None:
            np.maximum(D, FLOOR * at.p, out=D)
        u, r = at.w.copy(), at.theta.copy()
        self.H[live] = -1.0
        start, before = self.seconds + self.face.seconds, at.primal
        live, total, largest = self._pass(live, u, r, D, slack)
        way = "factors" if factors is not None else self._cheaper_way(settled)
        if factors is not None:
            self._by_faces(factors, live, u, r, D, TIGHTEST * total)
        elif way == "gradients":
            self._by_faces(None, live, u, r, D, TIGHTEST * total)
        elif self.leave < 1.0:
            self._by_passes(live, u, r, D, self.leave * total, largest)
        self.leave = max(0.25 * self.leave, TIGHTEST)
        v = np.divide(r - at.theta, D, out=np.zeros_like(D), where=D > 0.0)
        length = at.advance(live, u[live], v)
        self.steady = len(live) <= STEADY * int(np.count_nonzero(at.w))
        now = self.seconds + self.face.seconds
        self.met.append((total, largest, now))
        self.gains[way] = (before - at.primal) / (now - start)
        return Step(live, total, largest, length, r, factors is not None)

    def _cheaper_way(self, settled: bool) -> str:
        """Return how to solve the next model: as the last but one if that lowered P more for its cost.

        Conjugate gradients on the face are tried once passes leave more than half of the violations.
        """
        if not settled or len(self.met) < 2 or self.leave > TIGHTEST:
            return "passes"
        if "gradients" not in self.gains:
            return "gradients" if self.met[-1][0] > STALLING * self.met[-2][0] else "passes"
        self.turns += 1
        better = self.gains["passes"] < self.gains["gradients"]
        if self.turns % RETRY == 0:  # what lost once may win later
            better = not better
        return "gradients" if better else "passes"

    def _ahead(self, goal: float) -> float:
        """Return the seconds needed to reach the goal at the rate of the last steps, up to what was spent so far.

        So a way that turns out not to pay at most doubles the time.
        """
        if len(self.met) <= LOOK_BACK:
            return 0.0
        (before, _, then), (total, largest, now) = self.met[-1 - LOOK_BACK], self.met[-1]
        if largest <= goal or total <= 0.0:
            return 0.0
        if total >= before:
            return now
        ahead = (now - then) * float(np.log(largest / goal) / np.log(before / total)) if goal > 0.0 else now
        return min(ahead, now)

    def _pass(self, columns: Array, u: Array, r: Array, D: Array, slack: float) -> tuple[Array, float, float]:
        """Pass over columns in random order; return those still live, and the sum and the largest of the violations."""
        order = columns.copy()
        shuffle(order, self.seed)
        l1, l2 = self.at.psi
        kept, total, largest, entries = kernels.sweep(self.at.columns, order, r, D, self.H, u, l1, l2, self.most, slack)
        self.seconds += cost.SWEEP_ENTRY * entries
        return order[:kept], total, largest

    def _by_passes(self, live: Array, u: Array, r: Array, D: Array, enough: float, slack: float) -> None:
        """Pass over the columns that moved until few violations are left."""
        movers = live[(u[live] != 0.0) | (self.H[live] >= 0.0)]
        for k in range(1, MOST_PASSES):
            movers, left, _ = self._pass(movers, u, r, D, slack if k > 2 else np.inf)
            if left <= enough:
                break

    def _by_faces(self, factors: Factors | None, live: Array, u: Array, r: Array, D: Array, enough: float) -> None:
        """Alternate between minimizing on the face and a pass over all live columns until few violations are left."""
        for _ in range(MOST_PASSES if factors is not None else 1):
            if self.face.descend(factors, live, u, r, D) == 0.0:
                break
            _, left, _ = self._pass(live, u, r, D, np.inf)
            if left <= enough:
                break
