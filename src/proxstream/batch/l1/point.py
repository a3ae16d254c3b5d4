"""Weights of the columns that matter, with the loss to second order there, and steps that lower the objective.

    P(w) = sum_i p_i phi(z_i, y_i) + sum_j l1_j |w_j| + (l2_j / 2) w_j^2         z = X w
    theta_i = p_i phi'(z_i)        D_i = p_i phi''(z_i)

The intercept is one more column, of ones, whose strengths are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._checks import Array
from ..._threads import ALONE, Threads
from ...kernels import columns as kernels
from ...kernels import l1, newton
from ...kernels.columns import Columns
from ...kernels.losses import Huber, Squared, as_tuple
from ..problem import Problem

HALVINGS = 40
TRUST = 3.0  # of scores whose natural unit is 1
HIDDEN = 1e-12  # part of P below which rounding hides a decrease
ENOUGH = 0.01  # part of the decrease that slopes promise which a step has to bring


class Strengths(NamedTuple):
    """l1 and l2 of each column."""

    l1: Array
    l2: Array

    def value(self, w: Array) -> float:
        """Return the penalty of weights, one a column."""
        return float(l1.penalty(w, self.l1, self.l2))

    def of(self, chosen: Array) -> Strengths:
        """Return the strengths of some columns."""
        return Strengths(self.l1[chosen], self.l2[chosen])


class Point:
    """Weights w and what follows from them: z, theta, D and the mean loss."""

    def __init__(self, problem: Problem, columns: Columns, psi: Strengths, w: Array, threads: Threads = ALONE):
        self.loss, self.y, self.p = as_tuple(problem.loss), problem.rows.y, problem.shares
        self.columns, self.psi, self.w = columns, psi, w
        self.threads, n = threads, problem.rows.n_rows
        self.z, self.theta, self.D = np.empty(n), np.empty(n), np.empty(n)
        self.mean_loss = np.inf

    @property
    def primal(self) -> float:
        """P at the weights."""
        return self.mean_loss + self.psi.value(self.w)

    @property
    def trust(self) -> float:
        """How far one weight may move a score before the quadratic model of the loss is no good."""
        if isinstance(self.loss, Squared):
            return np.inf
        return 2.0 * float(np.max(np.abs(self.z - self.y))) if isinstance(self.loss, Huber) else TRUST

    def refresh(self) -> None:
        """Compute everything from the weights alone, whatever small errors steps have summed up."""
        self.z[:] = 0.0
        kernels.combine(self.columns, np.flatnonzero(self.w), self.w, self.z)
        self.expand()

    def expand(self) -> None:
        """Compute theta, D and the mean loss at z."""

        def work(first: int, last: int) -> float:
            return float(newton.expand(self.loss, self.y, self.p, self.z, first, last, self.theta, self.D))

        self.mean_loss = sum(self.threads.each(work, self.threads.ranges(len(self.z))))

    def products(self, j: Array, v: Array, out: Array) -> None:
        """Write <x_j, v> into out[j] for each column j that is told."""
        self.threads.each(lambda some: kernels.products(self.columns, some, v, out), self.threads.deal(j))

    def _loss_along(self, v: Array, t: float) -> float:
        """Return the mean loss at z + t v."""

        def work(first: int, last: int) -> float:
            return float(newton.along(self.loss, self.y, self.p, self.z, v, t, first, last)[0])

        return float(sum(self.threads.each(work, self.threads.ranges(len(v)))))

    def advance(self, j: Array, u: Array, v: Array) -> float:
        """Move the weights of columns j towards u, v = X (u - w), as far as P falls enough; return how far, up to 1.

        theta and D stay those of the place where the step began.
        """
        w, psi = self.w[j], self.psi.of(j)
        d, before = u - w, psi.value(w)
        promised = float(self.theta @ v) + psi.value(u) - before
        start = self.mean_loss + before
        hidden = HIDDEN * abs(start) if -promised <= HIDDEN * abs(start) else 0.0
        t = 1.0
        for _ in range(HALVINGS):
            moved = u if t == 1.0 else w + t * d
            loss = self._loss_along(v, t)
            if loss + psi.value(moved) <= start + ENOUGH * t * promised + hidden:
                self.w[j] = moved
                self.z += v if t == 1.0 else t * v
                self.mean_loss = loss
                return t
            t *= 0.5
        return 0.0
