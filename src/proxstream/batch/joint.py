"""The softmax under L2 as Newton's method sees it: the passes of `passes` with one score a class.

Weights are kept flat, (features + 1) x classes, so that conjugate gradients need not know of classes. The curvature of
row i, p_i (diag(pi_i) - pi_i pi_i'), is told by the probabilities pi_i: they stand where other losses have D_i.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import Array
from ..kernels import softmax_passes as kernels
from ..kernels.newton import scaled_rows
from .curvature import BLOCK, Factorized
from .passes import Passes
from .problem import Problem

CENTRING_STEPS = 30
LARGEST = 800  # weights of all classes up to which the Hessian is factorized


class JointPasses(Passes):
    """Passes with a score for each class."""

    def __init__(self, problem: Problem, n_threads: int = 1) -> None:
        super().__init__(problem, n_threads)
        self.outputs = problem.n_outputs
        self.rows_of_weights = self.size
        self.size *= self.outputs
        self.nonzeros *= self.outputs

    @property
    def narrow(self) -> bool:
        """Whether the Hessian is worth factorizing."""
        return self.size <= LARGEST

    def _matrix(self, v: Array) -> Array:
        return v.reshape(self.rows_of_weights, self.outputs)

    def _added(self, work: Callable[..., Any], T: Array) -> Array:
        shape = (self.rows_of_weights, self.outputs)
        return self.summed(lambda first, last, out: work(self.X, self.one, T, first, last, out), shape).ravel()

    def times(self, v: Array) -> Array:
        """Return X V."""
        out = np.empty((self.n, self.outputs))
        self.each(lambda first, last: kernels.times(self.X, self.one, self._matrix(v), first, last, out))
        return out

    def transposed(self, t: Array) -> Array:
        """Return X'T."""
        return self._added(kernels.transposed, t)

    def transposed_squares(self, t: Array) -> Array:
        """Return the diagonal of the Hessian for probabilities t."""
        return self._added(kernels.transposed_squares, self.p[:, None] * t * (1.0 - t))

    def hessian_times(self, D: Array, v: Array) -> tuple[Array, Array]:
        """Return X V, and the Hessian of the mean loss times V."""
        t, bent = self.times(v), np.empty((self.n, self.outputs))
        self.each(lambda first, last: kernels.bent(self.p, D, t, first, last, bent))
        return t, self.transposed(bent)

    def expand(self, z: Array) -> tuple[float, Array, Array]:
        """Return the mean loss, p_i (pi_i - e_y) and pi_i of each row."""
        s, pi = np.empty_like(z), np.empty_like(z)
        sums = self.each(lambda first, last: kernels.expand(self.y, self.p, z, first, last, s, pi))
        return float(sum(sums)), s, pi

    def along(self, z: Array, t: Array, step: float) -> Array:
        """Return f(step) = sum_i p_i phi(z_i + step t_i), f' and f''."""
        sums = self.each(lambda first, last: kernels.along(self.y, self.p, z, t, step, first, last))
        return np.asarray(np.sum(sums, axis=0))

    def centred(self, z: Array, b: Array) -> Array:
        """Return the intercepts that minimize the mean loss for scores z without them, from b; they sum to 0."""
        value, s, pi = self.expand(z + b)
        for _ in range(CENTRING_STEPS):
            g = s.sum(axis=0)
            H = np.diag(self.p @ pi) - pi.T @ (self.p[:, None] * pi)
            step = -np.linalg.lstsq(H, g, rcond=1e-12)[0]
            size, moved = 1.0, self.expand(z + b + step)
            while not moved[0] <= value and size > 1e-3:
                size *= 0.5
                moved = self.expand(z + b + size * step)
            if not moved[0] <= value or np.abs(moved[1].sum(axis=0)).max() >= np.abs(g).max():
                break
            b, (value, s, pi) = b + size * step, moved
        return np.asarray(b - b.mean())


class JointFactorized(Factorized):
    """Cholesky factors of the Hessian of all classes at once."""

    def hessian(self, D: Array) -> Array:
        """Return the Hessian of the mean loss for probabilities D."""
        passes = self.passes
        d, k = passes.size // passes.outputs, passes.outputs
        H = np.zeros((d, k, d, k))
        for first in range(0, passes.n, BLOCK):
            rows = np.arange(first, min(first + BLOCK, passes.n))
            X = np.zeros((len(rows), d))
            scaled_rows(passes.X, passes.one, np.ones(passes.n), rows, X)
            for a in range(k):
                for b in range(a + 1):
                    c = passes.p[rows] * D[rows, a] * ((a == b) - D[rows, b])
                    H[:, a, :, b] += X.T @ (c[:, None] * X)
        for a in range(k):
            for b in range(a):
                H[:, b, :, a] = H[:, a, :, b]
        return np.asfortranarray(H.reshape(passes.size, passes.size))
