"""Dual values that rounding cannot push above the truth.

A dual value is proved by an alpha that satisfies every constraint exactly. In floating point it does not quite: sums of
alpha x are rounded, and so are the conjugates. `DualSums` computes all sums with bounds on their errors (u = 2^-53):

    V_j = sum_i p_i alpha_i x_ij      |V_j - v_j| <= 9 u sum_i |p_i alpha_i x_ij| =: e_j      compensated sums       (1)
    A   = sum_i p_i phi*(-alpha_i)    |A - a| <= 16 u sum_i p_i (size of the terms of phi*)   compensated sums

and then proves the value of a point next to alpha, made of it in exact arithmetic:

1. the heavier side of alpha scaled by 1 - eps, eps = |sum_i p_i alpha_i| / (that side's sum), so that the sum is 0
   (with an intercept); each V_j moves by at most eps sum_i |p_i alpha_i x_ij|, which is added to e_j;
2. all of alpha scaled by s <= 1, so that |v_j| + e_j satisfies what Psi* requires.

A conjugate is convex, phi*(s a) <= s phi*(a) + (1 - s) phi*(0), so step 1 costs at most

    eps sum_i p_i (|phi*(-alpha_i)| + |phi*(0)|)                                                             (2)

Psi* of the usual penalties grows with each |v_j|, so Psi*(s (|v| + e)) bounds Psi*(s V). What is proved is

    -s a - (1 - s) sum_i p_i phi*(0) - (error of a) - (2) - Psi*(s (|v| + e))

with the last operations rounded down: some 1e-14 of the objective below what plain sums give. For penalties whose
conjugate is found by their solver, the last term is that result plus 1e-12 of its terms.

Solvers know V from plain sums, in any order, of n rows at most. That is good enough where n u is far below the gap, and
costs no pass over the data:

    |V_j - v_j| <= (n + 16) u max |x_ij| sum_i |p_i alpha_i|                                                 (3)

Columns and labels that were centred (`centring`) are rounded differences; 9 instead of 7 in (1) accounts for them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.losses import Loss
from ..core.validation import Array
from ..data.rowblock import RowBlock
from .penalty_conjugates import PenaltyConjugate

UNIT = 2.0**-53
COLUMN, CONJUGATE, PLAIN = 9.0, 16.0, 16.0  # units in (1) and (3)
LAST = 16.0  # units of the last operations
TINY = 1e-300  # more than underflow takes
LARGEST_LOG = 1500.0  # bounds |log y| + |log a| of every number, in conjugates of losses with a log link
POISSON = 4.0  # the same where the conjugate itself shows how large the logarithm is


class DualSums:
    """The sums over rows that a dual value is made of, with bounds on their errors; rows may come in pieces.

    `total` is the sum of all rows' weights. For losses of several scores alpha is a matrix.
    """

    def __init__(self, loss: Loss, shape: tuple[int, ...], total: float, *, fit_intercept: bool) -> None:
        self.loss, self.shape, self.total, self.fit_intercept = loss, shape, total, fit_intercept
        self.n_columns = shape[1] if len(shape) == 2 else 1
        self.cells: Array | None = None  # of each feature, for each column
        self.known: Array | None = None
        self.largest = 0.0
        self.sums = np.zeros(5)  # of conjugates: see `add_conjugates`
        self.excess = np.zeros((3, self.n_columns))  # sums of c alpha in two numbers, and of c |alpha|
        self.n_rows = 0

    def add(self, rows: RowBlock, labels: Array, alpha: Array) -> None:
        """Add rows with their dual variables."""
        from . import _bounded as kernels

        if self.cells is None:
            self.cells = np.zeros((self.n_columns, self.shape[0], kernels.CELL))
        for k, column in enumerate(alpha.T if alpha.ndim == 2 else (alpha,)):
            weighted = column * rows.c if len(rows.c) else column
            kernels.add_rows(rows, weighted / self.total, self.cells[k].ravel())
        self._add_conjugates(rows, labels, alpha)

    def add_known(self, rows: RowBlock, labels: Array, alpha: Array, v: Array) -> None:
        """Add all rows, of which v are plain sums: (3) instead of (1)."""
        self._add_conjugates(rows, labels, alpha)
        self.known, self.largest = v, rows.check_finite()

    def _add_conjugates(self, rows: RowBlock, labels: Array, alpha: Array) -> None:
        self.n_rows += rows.n_rows
        if alpha.ndim == 1:
            self._add_single(labels, rows.c, alpha)
        else:
            self._add_joint(labels, rows.weights(), alpha)

    def _add_single(self, y: Array, c: Array, alpha: Array) -> None:
        from ..core.losses._kernels import as_tuple
        from . import _bounded as kernels

        loss = self.loss
        square = 1.0 / loss.smoothness if 0.0 < loss.smoothness < np.inf else 0.0
        linear = 1.0 if not loss.of_residuals else float(getattr(loss, "epsilon", 0.0))
        wide = (POISSON if loss.name == "poisson" else LARGEST_LOG) if loss.link == "log" else 0.0
        sums = np.concatenate((self.sums, self.excess[:, 0]))
        alpha, y = np.ascontiguousarray(alpha), np.ascontiguousarray(y)
        kernels.add_conjugates(as_tuple(loss), alpha, y, c, linear, square, wide, sums)
        self.sums, self.excess[:, 0] = sums[:5], sums[5:]

    def _add_joint(self, labels: Array, c: Array, alpha: Array) -> None:
        values = self.loss.conjugate(-alpha, labels)
        null = self.loss.conjugate(np.zeros_like(alpha), labels)
        sizes = np.abs(values) + 4.0 * (1.0 + alpha.shape[1]) * np.sum(np.abs(alpha), axis=1)
        self.sums[:2] = _two_numbers(self.sums[:2], c * values)
        self.sums[2:] += float(c @ (np.abs(values) + np.abs(null))), float(c @ null), float(c @ sizes)
        for k, column in enumerate(alpha.T):
            self.excess[:2, k] = _two_numbers(self.excess[:2, k], c * column)
            self.excess[2, k] += float(c @ np.abs(column))

    def value(self, conjugate: PenaltyConjugate) -> float:
        """Return what is proved; -inf where that is not a number."""
        with np.errstate(all="ignore"):
            value = self._value(conjugate)
        return value if math.isfinite(value) else -math.inf

    def _value(self, conjugate: PenaltyConjugate) -> float:
        plain = 4.0 * self.n_rows * UNIT  # relative error of plain sums of positive terms
        second = 2.0 * (self.n_rows * UNIT) ** 2
        eps = self._imbalance() if self.fit_intercept else 0.0
        s, psi = conjugate.bound(*self._columns(plain, second + eps))
        ends = (self.sums[0] + self.sums[1]) / self.total, self.sums[3] / self.total
        both, sizes = ((1.0 + plain) * x / self.total for x in (self.sums[2], self.sums[4]))
        a = s * ends[0] + (1.0 - s) * ends[1]
        off = (eps + plain * (1.0 - s)) * both + (CONJUGATE * UNIT + second) * sizes
        return float(-a - psi - off - LAST * UNIT * (abs(ends[0]) + abs(ends[1]) + abs(psi) + off))

    def _imbalance(self) -> float:
        """Return eps of step 1; several scores are balanced by flows between classes, and each may need its share."""
        mass = self.excess[2]
        excess = np.abs(self.excess[0] + self.excess[1]) + 8.0 * UNIT * mass
        return float(np.sum(np.divide(2.0 * excess, mass, out=np.zeros_like(mass), where=mass > 0.0)))

    def _columns(self, plain: float, more: float) -> tuple[Array, Array]:
        """Return V and the bounds on its errors, with `more` than (1) or (3) counts."""
        if self.known is not None:
            size = np.asarray(self.largest * self.excess[2] / self.total)
            error = (1.0 + plain) * ((self.n_rows + PLAIN) * UNIT + more) * size + TINY
            return self.known, error if len(self.shape) == 2 else error[0]
        cells = self.cells if self.cells is not None else np.zeros((self.n_columns, self.shape[0], 3))
        size = cells[..., 2]
        error = (1.0 + plain) * (COLUMN * UNIT + more) * size
        error[size > 0.0] += TINY
        v = cells[..., 0] + cells[..., 1]
        return (v.T, error.T) if len(self.shape) == 2 else (v[0], error[0])


def exact_total(c: Any, n_rows: int) -> float:
    """Return the sum of the rows' weights, rounded once; an empty c is all ones."""
    return math.fsum(c.tolist()) if len(c) else float(n_rows)


def _two_numbers(so_far: Array, terms: Array) -> tuple[float, float]:
    """Return a sum as a rounded number and what rounding took from it."""
    every = [*so_far.tolist(), *terms.tolist()]
    high = math.fsum(every)
    return high, math.fsum([*every, -high])
