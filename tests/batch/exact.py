"""Objectives in 60-digit arithmetic, and their minimum on tiny problems: what proved values are compared with."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from proxstream.batch import Problem

DIGITS = 60
ZERO, ONE, HALF = Decimal(0), Decimal(1), Decimal("0.5")
Taylor = tuple[Decimal, Decimal, Decimal]  # value, slope, curvature


def _logistic(z: Decimal, y: Decimal) -> Taylor:
    m = y * z
    e = (-abs(m)).exp()
    value = (ONE + e).ln() + max(-m, ZERO)
    q = (e if m > 0 else ONE) / (ONE + e)
    return value, -y * q, e / (ONE + e) ** 2


def _squared(z: Decimal, y: Decimal) -> Taylor:
    return HALF * (z - y) ** 2, z - y, ONE


def _squared_hinge(z: Decimal, y: Decimal) -> Taylor:
    short = max(ONE - y * z, ZERO)
    return short**2, -2 * y * short, Decimal(2) if short > 0 else ZERO


def _poisson(z: Decimal, y: Decimal) -> Taylor:
    e = z.exp()
    return e - y * z, e - y, e


def _hinge(z: Decimal, y: Decimal) -> Taylor:
    return max(ONE - y * z, ZERO), -y if y * z < 1 else ZERO, ZERO


LOSSES = {
    "logistic": _logistic,
    "squared": _squared,
    "squared_hinge": _squared_hinge,
    "poisson": _poisson,
    "hinge": _hinge,
}


class Exact:
    """A problem with every number as it is, weights and intercept in one list, the intercept last."""

    def __init__(self, problem: Problem) -> None:
        rows, d = problem.rows, problem.n_features
        dense = rows.times(np.eye(d))
        self.X = [[*map(_number, row), ONE] for row in dense]
        self.y, self.c = [_number(y) for y in rows.y], [_number(c) for c in rows.weights()]
        terms = problem.penalty.terms((d,))
        self.l1, self.l2 = ([*map(_number, np.broadcast_to(x, d)), ZERO] for x in (terms.l1, terms.l2))
        self.loss, self.total = LOSSES[problem.loss.name], sum(self.c)
        self.free = range(d + 1) if problem.fit_intercept else range(d)

    def value(self, w: list[Decimal]) -> Decimal:
        """Return the objective."""
        losses = (c * self.loss(_dot(x, w), y)[0] for x, y, c in zip(self.X, self.y, self.c, strict=True))
        sizes = (a * abs(v) + HALF * b * v * v for v, a, b in zip(w, self.l1, self.l2, strict=True))
        return sum(losses, ZERO) / self.total + sum(sizes, ZERO)

    def least(self, coef: Any, intercept: Any) -> Decimal:
        """Return the least objective that Newton's method reaches from these weights, their zeros kept."""
        with localcontext() as context:
            context.prec = DIGITS
            w = [*map(_number, coef), _number(intercept)]
            best = self.value(w)
            for _ in range(40):
                step = self._newton(w)
                moved = next(((v, x) for x, v in self._along(w, step) if v < best), None)
                if moved is None:
                    break
                best, w = moved
            return best

    def _along(self, w: list[Decimal], step: dict[int, Decimal]) -> Any:
        t = ONE
        for _ in range(12):
            there = [v + t * step.get(j, ZERO) for j, v in enumerate(w)]
            kept = all(there[j] * w[j] > 0 or self.l1[j] == 0 for j in step)
            if kept:
                yield there, self.value(there)
            t /= 4

    def _newton(self, w: list[Decimal]) -> dict[int, Decimal]:
        S = [j for j in self.free if w[j] != 0 or self.l1[j] == 0]
        g, H = dict.fromkeys(S, ZERO), {(j, k): ZERO for j in S for k in S}
        for x, y, c in zip(self.X, self.y, self.c, strict=True):
            _, slope, bend = self.loss(_dot(x, w), y)
            for j in S:
                g[j] += c * slope * x[j] / self.total
                for k in S:
                    H[j, k] += c * bend * x[j] * x[k] / self.total
        for j in S:
            g[j] += self.l1[j] * (1 if w[j] > 0 else -1 if w[j] < 0 else 0) + self.l2[j] * w[j]
            H[j, j] += self.l2[j]
        return _solved(H, g, S)


def _solved(H: dict[tuple[int, int], Decimal], g: dict[int, Decimal], S: list[int]) -> dict[int, Decimal]:
    """Return -H^-1 g by elimination, a little more than H where it is singular."""
    A = [[H[j, k] + (H[j, j] * Decimal("1e-45") if j == k else 0) for k in S] + [-g[j]] for j in S]
    m = len(S)
    for i in range(m):
        at = max(range(i, m), key=lambda r: abs(A[r][i]))
        A[i], A[at] = A[at], A[i]
        if A[i][i] == 0:
            A[i][i] = ONE
        for r in range(m):
            if r != i and A[r][i] != 0:
                f = A[r][i] / A[i][i]
                A[r] = [a - f * b for a, b in zip(A[r], A[i], strict=True)]
    return {j: A[i][m] / A[i][i] for i, j in enumerate(S)}


def _dot(x: list[Decimal], w: list[Decimal]) -> Decimal:
    return sum((a * b for a, b in zip(x, w, strict=True)), ZERO)


def _number(x: Any) -> Decimal:
    return Decimal(float(x))
