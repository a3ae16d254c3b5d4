"""Relative entropy to a prior, on the unit simplex."""

from __future__ import annotations

import numpy as np

from .. import validation as _checks
from ..component import component
from .base import Coupled, Strength, frozen
from .segments import EPS, Vector, fill


@component
class KL(Coupled):
    """Relative entropy to a prior over the unit simplex: weights that leave the prior only where it pays.

    Psi(w) = sigma sum_j w_j ln(w_j / prior_j) if w >= 0 and sum_j w_j = 1, else infinity.

    Parameters
    ----------
    sigma : strength >= 0, the modulus of strong convexity for the l1 norm
    prior : positive numbers that sum to 1, of the weights' shape; None: all equal

    >>> KL(sigma=1.0, prior=[0.5, 0.25, 0.25]).solve([0.0, 0.0, 0.0], h=0.0)
    array([0.5 , 0.25, 0.25])

    Reference: Xiao (2010), section 2.2, where h = 0.
    """

    sigma: float = 1.0
    prior: Vector | None = None
    _role = "alone"
    _strengths = ("sigma",)

    def _validate(self) -> None:
        self._set("sigma", _checks.number("sigma", self.sigma, low=0.0))
        if self.prior is None:
            return
        p = _checks.vector("prior", self.prior)
        if p.size == 0 or p.ndim == 0 or p.min() <= 0.0 or abs(p.sum() - 1.0) > 1e-6:
            raise ValueError(f"prior must be positive numbers that sum to 1, got {_checks.shown(self.prior)}")
        self._set("prior", frozen(p))

    def _check_fit(self, shape: tuple[int, ...]) -> None:
        if self.prior is not None and self.prior.shape != shape:
            raise ValueError(f"KL: prior must have shape {shape}, got {self.prior.shape}")

    @property
    def strong_convexity(self) -> float:
        """The modulus sigma, for the l1 norm (Pinsker's inequality)."""
        return self.sigma

    def _prior(self, shape: tuple[int, ...]) -> Vector:
        return np.full(shape, 1.0 / np.prod(shape)) if self.prior is None else self.prior

    def _value(self, w: Vector, slack: float) -> float:
        if max(float(-w.min()), abs(float(w.sum()) - 1.0)) > slack:
            return np.inf
        from scipy.special import rel_entr

        # Never below 0 (Gibbs), whatever the rounding.
        return max(self.sigma * float(rel_entr(np.maximum(w, 0.0), self._prior(w.shape)).sum()), 0.0)

    def _subgradient(self, w: Vector) -> Vector:
        if w.min() <= 0.0:
            raise ValueError(f"KL has a subgradient only at positive weights, got w with an entry {w.min()}")
        return self.sigma * (np.log(w / self._prior(w.shape)) + 1.0)

    def _solve(self, u: Vector, h: Vector, k: float, t: Strength, *, nonnegative: bool) -> Vector:
        s, log_p = k * self.sigma, np.log(self._prior(u.shape))
        flat = (-u.ravel(), h.ravel())
        return (fill(*flat, 1.0) if s == 0.0 else _tilt(*flat, s, log_p.ravel())).reshape(u.shape)


def _tilt(c: Vector, h: Vector, s: float, log_p: Vector) -> Vector:
    """Minimize -<c, x> + s sum_j x_j (ln x_j - log_p_j) + (1/2) sum_j h_j x_j^2 on the unit simplex, s > 0.

    Where the derivative vanishes, ln x_j + q_j x_j = b_j - y with q = h / s, b = log_p + c / s and y the
    multiplier (up to a constant). So q x = omega(ln q + b - y), the Wright omega function: Lambert's W of an
    exponential that is never formed. Without curvature x = exp(b - y). What is left is y, from sum_j x_j = 1.
    """
    from scipy.special import logsumexp, wrightomega

    s = max(s, 1e-250 * float(h.max()))  # q stays finite; no digit of x depends on less
    first = int(np.argmax(log_p + c / s))
    b = (c - c[first]) / s + (log_p - log_p[first])  # differences first: c / s alone loses digits
    q = h / s
    curved, log_q = q > 0.0, np.log(q)

    # x_j <= exp(b_j - y), and x_j >= exp(b_j - q_j - y) while x_j <= 1: sum x crosses 1 between these.
    low, high = float(logsumexp(b - q)), float(logsumexp(b))
    y = high
    for _ in range(200):
        z = b - y
        omega = wrightomega(np.where(curved, log_q + z, 0.0))
        x = np.where(curved, omega / q, np.exp(np.minimum(z, 700.0)))
        total = float(x.sum())
        low, high = (y, high) if total > 1.0 else (low, y)
        # Newton on ln sum x, which is exact when h = 0; half the bracket where it would leave it.
        step = np.log(total) * total / float(np.sum(x / (1.0 + q * x)))
        if abs(step) <= EPS * (1.0 + abs(y)):
            break
        y = y + step if low < y + step < high else 0.5 * (low + high)
        if not low < y < high:
            break
    return np.asarray(x / total)  # what is left is rounding
