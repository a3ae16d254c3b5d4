"""Proximal Newton steps on few columns, through their Gram matrix.

    S    the columns                        H   X_S' D' X_S, with D' as of each row's last update
    u    trial weights                      q   X_S' theta + H (u - w), the slope of the model's loss

Most of a step's cost is H. A row's part is updated only when its D has changed by more than the fraction CHANGED.
The lag makes the model slightly wrong but not the proof, since the slopes theta + D' X d of that same model are offered
as a dual point. On the diagonal the exact curvature is used where it is larger; otherwise steps could be too long.

The quadratic problem is solved by coordinate passes, which find the weights that are 0, and Newton steps on the others
(the face), which finish it. A step along a face stops at the lowest point of the piecewise quadratic function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.validation import Array
from ...data import _products as csr_products
from ...data.threads import ALONE, Threads
from .. import cost
from ..newton import _kernels as newton
from . import _kernels as kernels
from ._csc import Columns, Rows, by_rows
from .point import Point, Strengths
from .sweeps import Step

MOST_COLUMNS = 1000
NEAR_COLUMNS = 512  # up to which half of H is in the processor's second cache
CHANGED = 0.15
BLOCK = 1024
TINY = 1e-11  # floor of phi''
SOLVED = 0.03  # part of the violations that the quadratic problem may leave


def add(columns: Columns, chosen: Array, X: Rows, c: Array, first: int, H: Array, threads: Threads = ALONE) -> None:
    """Add sum_i c_i x_ij x_ik to H_jk for all pairs of columns of which one is at place `first` or later.

    A small H stays near the processor while rows are read in order; a large one is summed up column by column.
    """
    m = len(chosen)
    if first == 0 and m <= NEAR_COLUMNS:
        for half in threads.each(lambda first, last: _half(X, c, first, last, m), threads.ranges_by_entries(X.indptr)):
            half.flat[:: len(half) + 1] *= 0.5
            H += half
            H += half.T
        return
    places = threads.deal(np.arange(first, m))
    threads.each(lambda some: kernels.add_gram(columns, chosen, X, c, some, H), places)


def _half(X: Rows, c: Array, first: int, last: int, m: int) -> Array:
    """Return sum_i c_i x_i x_i' of some rows on one side of the diagonal."""
    half = np.zeros((m, m))
    newton.gram(X, 0.0, c, first, last, half)
    return half


def extended(H: Array, columns: Columns, chosen: Array, c: Array, threads: Threads = ALONE) -> Array:
    """Return the Gram matrix sum_i c_i x_ij x_ik of chosen columns, all c_i >= 0; H is that of the first of them."""
    before, m, n = len(H), len(chosen), len(c)
    X = by_rows(columns, chosen, n)
    grown = np.zeros((m, m))
    grown[:before, :before] = H
    by_row_pairs = cost.gram_by_rows(cost.pairs_in_rows(X.indptr)) * (1.0 - (before / m) ** 2)
    if cost.gram_in_blocks(n, m) * (1.0 - before / m) >= by_row_pairs:
        add(columns, chosen, X, c, before, grown, threads)
        return grown
    new = _in_blocks(X, c, np.arange(n), before, m, threads)
    grown[:, before:], grown[before:, :before] = new, new[:before].T
    return grown


def _in_blocks(X: Rows, c: Array, rows: Array, before: int, m: int, threads: Threads) -> Array:
    """Return sum_i c_i x_ij x_ik over these rows, for all of m columns j and those k from `before`, in dense blocks.

    Blocks have 32 bits, or 64 where entries beyond 1e19 have no square in 32.
    """

    def work(first: int, last: int, dtype: Any) -> Array:
        total = np.zeros((m, m - before))
        for begin in range(first, last, BLOCK):
            some = rows[begin : min(begin + BLOCK, last)]
            block = np.zeros((len(some), m + 1), dtype)
            newton.scaled_rows(X, 0.0, c, some, block)
            with np.errstate(over="ignore", invalid="ignore"):
                total += block[:, :-1].T @ block[:, before:-1]
        return total

    def summed(dtype: Any) -> Array:
        ranges = threads.ranges(len(rows), len(rows) * m)
        return np.asarray(sum(threads.each(lambda first, last: work(first, last, dtype), ranges)))

    short = summed(np.float32)
    return short if np.isfinite(short).all() else summed(np.float64)


class Gram:
    """The Gram matrix of some columns, kept up to date."""

    def __init__(self, at: Point, columns: Array):
        self.at, self.S = at, np.empty(0, np.int64)
        self.H = np.empty((0, 0))
        self.D = np.zeros(len(at.z))
        self.changed = CHANGED
        self.extend(columns)

    def lacks(self, live: Array) -> Array:
        """Return the live columns that are not in it."""
        return np.setdiff1d(live, self.S, assume_unique=True)

    def extend(self, columns: Array) -> None:
        """Add columns."""
        if len(columns) == 0:
            return
        before, self.S = len(self.S), np.concatenate((self.S, columns))
        m = len(self.S)
        H = np.zeros((m, m))
        H[:before, :before] = self.H
        self.H = H
        self.X: Rows = by_rows(self.at.columns, self.S, len(self.at.z))
        if before:
            add(self.at.columns, self.S, self.X, self.D, before, H, self.at.threads)
        by_row_pairs = cost.gram_by_rows(cost.pairs_in_rows(self.X.indptr))
        self.dense = cost.gram_in_blocks(len(self.D), m) < by_row_pairs

    def step(self) -> Step:
        """Take one step on all its columns."""
        at, X, S = self.at, self.X, self.S
        n, m = len(at.z), len(S)
        at.expand()
        D = np.maximum(at.D, TINY * at.p)
        g, exact = self._sums(csr_products.transposed, at.theta), self._sums(csr_products.transposed_squares, D)
        w, psi = at.w[S], at.psi.of(S)
        far = np.empty(m)
        kernels.violations(np.arange(m), w, g, psi.l1, psi.l2, far)
        total = float(far.sum())
        self._update(D)
        diagonal = np.maximum(self.H.diagonal(), exact)
        u = minimize(self.H, diagonal, g, w, psi, SOLVED * total)
        v, step = np.empty(n), np.append(u - w, 0.0)
        ranges = at.threads.ranges_by_entries(X.indptr)
        at.threads.each(lambda first, last: csr_products.times(X, 0.0, step, first, last, v), ranges)
        length = at.advance(S, u, v)
        if length < 1.0:
            self.changed = 0.0 if length == 0.0 else 0.5 * self.changed
        return Step(S, total, float(far.max()), length, at.theta + self.D * v)

    def _sums(self, kernel: Callable[..., None], t: Array) -> Array:
        """Return what a kernel sums up over rows, for each column."""

        def work(first: int, last: int) -> Array:
            out = np.zeros(len(self.S) + 1)
            kernel(self.X, 0.0, t, first, last, out)
            return out[:-1]

        threads = self.at.threads
        return np.asarray(sum(threads.each(work, threads.ranges_by_entries(self.X.indptr))))

    def _update(self, D: Array) -> None:
        """Update the rows whose D has changed."""
        delta = D - self.D
        delta[np.abs(delta) <= self.changed * self.D] = 0.0
        self.D += delta
        if not self.dense:
            add(self.at.columns, self.S, self.X, delta, 0, self.H, self.at.threads)
            return
        for sign in (1.0, -1.0):
            rows = np.flatnonzero(sign * delta > 0.0)
            if len(rows):
                self.H += sign * _in_blocks(self.X, sign * delta, rows, 0, len(self.S), self.at.threads)


def minimize(H: Array, diagonal: Array, g: Array, w: Array, psi: Strengths, enough: float) -> Array:
    """Minimize <g, u - w> + (1/2) (u - w)' H (u - w) + Psi(u) until violations are `enough`; H has this diagonal."""
    u, q = w.copy(), g.copy()
    for _ in range(30):
        face = int(np.count_nonzero(u))
        most = int(min(max(face * face / (30.0 * len(u)), 8), 40))
        if kernels.gram_passes(H, diagonal, q, u, psi.l1, psi.l2, enough, most) <= enough:
            break
        for _ in range(2):
            if _face_step(H, diagonal, q, u, psi):
                break
    return u


def _face_step(H: Array, diagonal: Array, q: Array, u: Array, psi: Strengths) -> bool:
    """Take a Newton step on the weights that are not 0, in place; return whether none of them reached 0."""
    from scipy.linalg.lapack import dpotrf, dpotrs

    F = np.flatnonzero(u)
    if len(F) == 0:
        return True
    x, penalty = u[F], psi.of(F)
    l1, l2 = penalty
    A = H[np.ix_(F, F)]
    A.flat[:: len(F) + 1] = diagonal[F] * (1.0 + 1e-9) + l2 + 1e-300
    factor, failed = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        return True
    slope = q[F] + l2 * x + l1 * np.sign(x)
    d = -dpotrs(factor, slope, lower=1)[0]

    def change(new: Array) -> tuple[float, Array]:
        """Return by how much the model changes, and H times the step."""
        move = np.zeros(len(u))
        move[F] = new - x
        Hm = H @ move + (diagonal - H.diagonal()) * move
        gain = float(q @ move + 0.5 * (move @ Hm))
        return gain + penalty.value(new) - penalty.value(x), Hm

    crosses = (x + d) * x < 0.0
    new = np.where(crosses, 0.0, x + d)
    best, Hm = change(new)
    if crosses.any():
        move = np.zeros(len(u))
        move[F] = d
        bend = float(move @ (H @ move) + (diagonal - H.diagonal()) @ (move * move) + l2 @ (d * d))
        t, k = kernels.lowest(x, d, float(slope @ d), bend, l1)
        other = x + t * d
        if k >= 0:
            other[k] = 0.0
        gain, Ho = change(other)
        if gain < best:
            best, Hm, new = gain, Ho, other
    if best >= 0.0:
        return True
    u[F] = new
    q += Hm
    return not crosses.any()
