"""Prox-SDCA as Figure 1 of the paper states it, one output, dense and obvious: what the kernels are tested against.

Steps that are maximizers are found by a scalar search; nothing here knows a closed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar


class Naive:
    """The procedure's state, with g(w) = ||w||^2 / 2 + (l1/lam) ||w||_1, so that lam g is the elastic net."""

    def __init__(self, X: Any, y: Any, loss: Any, lam: float, l1: float = 0.0, b: float = 0.0) -> None:
        self.X, self.y, self.loss, self.lam, self.l1, self.b = X, y, loss, lam, l1, b
        self.n = len(y)
        self.alpha = np.zeros(self.n)
        self.R = np.sqrt((X * X).sum(axis=1).max())
        self.gamma = 1.0 / loss.smoothness

    @property
    def v(self) -> Any:
        return self.X.T @ self.alpha / (self.lam * self.n)

    @property
    def w(self) -> Any:
        return np.sign(self.v) * np.maximum(np.abs(self.v) - self.l1 / self.lam, 0.0)

    def dual(self) -> float:
        conjugates = self.loss.conjugate(-self.alpha, self.y)
        return float(-conjugates.mean() - self.lam * 0.5 * self.w @ self.w - self.b * self.alpha.mean())

    def primal(self) -> float:
        p = self.X @ self.w + self.b
        return float(
            self.loss.value(p, self.y).mean() + self.lam * 0.5 * self.w @ self.w + self.l1 * np.abs(self.w).sum()
        )

    def step(self, i: int, option: str) -> None:
        x, y, a, loss = self.X[i], self.y[i], self.alpha[i], self.loss
        p = x @ self.w + self.b
        norm = x @ x

        def gain(change: float) -> float:
            return float(-loss.conjugate(-(a + change), y) - p * change - norm * change**2 / (2 * self.lam * self.n))

        u = -float(loss.slope(p, y))
        z = u - a
        if option in ("I", "II"):
            # Option I's change lies between 0 and z as well: the same search serves both, by different formulas.
            if option == "I":
                low, high = min(0.0, z) - 1e-9, max(0.0, z) + 1e-9
                change = _best(gain, low, high)
            else:
                change = z * _best(lambda s: gain(s * z), 0.0, 1.0)
        elif option == "V":
            scale = self.lam * self.n * self.gamma
            change = scale / (self.R**2 + scale) * z
        elif z == 0.0:
            change = 0.0
        else:
            size = norm if option == "III" else self.R**2
            top = float(loss.value(p, y) + loss.conjugate(-a, y)) + p * a + 0.5 * self.gamma * z * z
            change = min(max(top / (z * z * (self.gamma + size / (self.lam * self.n))), 0.0), 1.0) * z
        self.alpha[i] += change


def _best(f: Any, low: float, high: float) -> float:
    """The maximizer of a concave function that may be -inf outside its domain."""
    found = minimize_scalar(
        lambda x: -max(f(x), -1e300), bounds=(low, high), method="bounded", options={"xatol": 1e-13}
    )
    return float(max((low, high, found.x, 0.0), key=f))
