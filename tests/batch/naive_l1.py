"""An obvious minimizer of mean loss + l1 + l2 on dense matrices: accelerated proximal gradient with backtracking."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxstream.core.losses import Loss

Vector = NDArray[np.float64]


class Case(NamedTuple):
    """Minimize sum_i p_i phi(<x_i, w> + b, y_i) + sum_j l1_j |w_j| + (l2_j / 2) w_j^2; the intercept is w[-1]."""

    X: Vector
    y: Vector
    p: Vector
    loss: Loss
    l1: Vector
    l2: Vector

    def smooth(self, w: Vector) -> float:
        with np.errstate(over="ignore"):
            return float(self.p @ self.loss.value(self.X @ w, self.y)) + 0.5 * float(self.l2 @ (w * w))

    def gradient(self, w: Vector) -> Vector:
        return self.X.T @ (self.p * self.loss.slope(self.X @ w, self.y)) + self.l2 * w

    def objective(self, w: Vector) -> float:
        return self.smooth(w) + float(self.l1 @ np.abs(w))

    def distance(self, w: Vector) -> float:
        """How far 0 is from the subdifferential, in the largest coordinate."""
        g = self.gradient(w)
        return float(np.max(np.where(w == 0.0, np.maximum(np.abs(g) - self.l1, 0.0), np.abs(g + self.l1 * np.sign(w)))))


def case(X: Any, y: Any, loss: Loss, l1: Any, l2: Any, *, c: Any = None, intercept: bool) -> Case:
    X, c = np.asarray(X, np.float64), np.ones(len(y)) if c is None else np.asarray(c, np.float64)
    l1, l2 = (np.broadcast_to(strength, X.shape[1]).astype(np.float64) for strength in (l1, l2))
    if intercept:
        X, l1, l2 = np.hstack((X, np.ones((len(y), 1)))), np.append(l1, 0.0), np.append(l2, 0.0)
    return Case(X, np.asarray(y, np.float64), c / c.sum(), loss, l1, l2)


def minimize(at: Case, tol: float = 1e-11, most: int = 50_000) -> Vector:
    """Return w with a subgradient below tol in every coordinate, or what `most` steps reach."""
    w = v = np.zeros(at.X.shape[1])
    t, L = 1.0, 1e-3
    for k in range(most):
        if k % 20 == 0 and at.distance(w) <= tol:
            break
        g, value, L = at.gradient(v), at.smooth(v), 0.9 * L
        while True:
            u = v - g / L
            new = np.sign(u) * np.maximum(np.abs(u) - at.l1 / L, 0.0)
            step = new - v
            if at.smooth(new) <= value + g @ step + 0.5 * L * (step @ step) + 1e-15 * abs(value):
                break
            L *= 2.0
        if (v - new) @ (new - w) > 0.0:  # momentum points uphill: restart
            t = 1.0
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        v, w, t = new + (t - 1.0) / following * (new - w), new, following
    return w
