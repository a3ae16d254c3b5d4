"""Obvious, slow solvers of the penalties' subproblem, and checks of optimality that share no code with them.

    argmin_x  <u, x> + k Psi(x) + (1/2) sum_j h_j x_j^2 + l1 ||x||_1

Coordinates alone: bisection on the interval-valued slope. Coupled ones: bisection on the one multiplier, in 60-digit
decimals, so that what comes out is the truth to the last bit. KL: two nested bisections in floats.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np

NORMS = ("L2Norm", "LinfNorm", "GroupL2", "GroupLinf")
COUPLED = (*NORMS, "L1Ball", "L2Ball", "Simplex", "KL")


def kind(part):
    return type(part).__name__


def split(penalty):
    """The coupled part (or None) and the others."""
    core = [part for part in penalty.parts if kind(part) in COUPLED]
    return (core[0] if core else None), [part for part in penalty.parts if kind(part) not in COUPLED]


def slopes(part, x):
    """The subdifferential of a separable part at x: an interval a coordinate, of k Psi for finite ones with k = 1."""
    zero, inf = np.zeros_like(x), np.inf
    name = kind(part)
    if name == "NoPenalty":
        return zero, zero
    if name == "L1":
        return np.where(x > 0, 1.0, -1.0) * part.lam, np.where(x < 0, -1.0, 1.0) * part.lam
    if name == "L2":
        return part.lam * x, part.lam * x
    if name == "ElasticNet":
        low, high = np.where(x > 0, 1.0, -1.0) * part.l1, np.where(x < 0, -1.0, 1.0) * part.l1
        return low + part.l2 * x, high + part.l2 * x
    if name == "Berhu":
        size = part.lam * np.maximum(1.0, np.abs(x) / part.delta)
        return np.where(x > 0, size, -size), np.where(x < 0, -size, size)
    lo, hi = (0.0, inf) if name == "NonNegative" else (part.lo, part.hi)
    low = np.where(x < lo, -inf, np.where(x > hi, inf, np.where(x == lo, -inf, 0.0)))
    high = np.where(x < lo, -inf, np.where(x > hi, inf, np.where(x == hi, inf, 0.0)))
    return low, high


def slope_sum(parts, x, k, l1):
    """The interval of k sum of the parts' slopes + l1 d|x|; a constraint is infinite for every k."""
    low = l1 * np.where(x > 0, 1.0, -1.0)
    high = l1 * np.where(x < 0, -1.0, 1.0)
    for part in parts:
        a, b = slopes(part, x)
        low = low + np.where(np.isinf(a), a, k * np.where(np.isinf(a), 0.0, a))
        high = high + np.where(np.isinf(b), b, k * np.where(np.isinf(b), 0.0, b))
    return low, high


def minimize_separable(parts, u, h, k, l1):
    """Bisect for the point where the slope passes 0."""
    left, right = np.full_like(u, -1e20), np.full_like(u, 1e20)
    for _ in range(170):
        x = 0.5 * (left + right)
        low, high = slope_sum(parts, x, k, l1)
        up, down = u + h * x + high < 0, u + h * x + low > 0
        left, right = np.where(down, left, x), np.where(up, right, x)
    # What closes on the kink at 0 is 0.
    x = 0.5 * (left + right)
    return np.where(np.abs(x) < 1e-30, 0.0, x)


def minimize_coupled(core, parts, u, h, k, l1):
    """Bisect for the multiplier of the coupled part, in decimals."""
    with localcontext() as context:
        context.prec = 60
        t = [Decimal(l1)] * len(u)
        curve = [Decimal(float(v)) for v in h]
        k = Decimal(k)
        for part in parts:
            for field in ("lam", "l1", "l2"):
                if hasattr(part, field):
                    each = np.broadcast_to(getattr(part, field), u.shape)
                    quadratic = field == "l2" or kind(part) == "L2"
                    target = curve if quadratic else t
                    for j, value in enumerate(each):
                        target[j] += k * Decimal(float(value))
        pull = [Decimal(float(-v)) for v in u]
        sign = [1 if v >= 0 else -1 for v in pull]
        if any(kind(part) == "NonNegative" for part in parts):
            sign = [1] * len(u)
        if kind(core) == "Simplex":
            m = _multiplier_sum([p - v for p, v in zip(pull, t, strict=True)], curve, Decimal(core.radius), free=True)
            return np.array([float(v) for v in m])
        a = [max(s * p - v, Decimal(0)) for s, p, v in zip(sign, pull, t, strict=True)]
        if kind(core) == "L1Ball":
            m = _multiplier_sum(a, curve, Decimal(core.radius), free=False)
        elif kind(core) == "L2Ball":
            m = _ball(a, curve, Decimal(core.radius))
        else:
            solver = _largest if "inf" in kind(core) else _euclid
            labels = np.zeros(len(u)) if "Norm" in kind(core) else core.groups
            labels = np.arange(len(u)) if labels is None else labels
            m = [Decimal(0)] * len(u)
            for label in np.unique(labels):
                group = np.flatnonzero(labels == label)
                found = solver([a[j] for j in group], [curve[j] for j in group], k * Decimal(core.lam))
                for j, value in zip(group, found, strict=True):
                    m[j] = value
        return np.array([s * float(v) for s, v in zip(sign, m, strict=True)])


def _bisect(low, high, too_low, geometric):
    for _ in range(260):
        middle = (low * high).sqrt() if geometric else (low + high) / 2
        low, high = (middle, high) if too_low(middle) else (low, middle)
        if high - low <= abs(high) * Decimal("1e-45"):
            break
    return (low + high) / 2


def _multiplier_sum(c, h, r, free):
    def point(theta):
        return [max(v - theta, Decimal(0)) / q for v, q in zip(c, h, strict=True)]

    if not free and sum(point(Decimal(0))) <= r:
        return point(Decimal(0))
    low = min(c) - r * max(h)
    return point(_bisect(low, max(c), lambda theta: sum(point(theta)) > r, geometric=False))


def _ball(a, h, r):
    def point(mu):
        return [v / (q + mu) for v, q in zip(a, h, strict=True)]

    def length(mu):
        return sum(v * v for v in point(mu))

    if length(Decimal(0)) <= r * r:
        return point(Decimal(0))
    return point(_bisect(Decimal("1e-80"), Decimal("1e80"), lambda mu: length(mu) > r * r, geometric=True))


def _euclid(a, h, L):
    if L == 0:
        return [v / q for v, q in zip(a, h, strict=True)]
    if sum(v * v for v in a) <= L * L:
        return [Decimal(0)] * len(a)

    def point(mu):  # mu = L / ||x||
        return [v / (q + mu) for v, q in zip(a, h, strict=True)]

    too_low = lambda mu: mu * mu * sum(v * v for v in point(mu)) < L * L  # noqa: E731
    return point(_bisect(Decimal("1e-80"), Decimal("1e80"), too_low, geometric=True))


def _largest(a, h, L):
    if L == 0:
        return [v / q for v, q in zip(a, h, strict=True)]
    if sum(a) <= L:
        return [Decimal(0)] * len(a)

    def too_low(t):
        return sum(max(v - q * t, Decimal(0)) for v, q in zip(a, h, strict=True)) > L

    t = _bisect(Decimal("1e-80"), Decimal("1e80"), too_low, geometric=True)
    return [min(v / q, t) for v, q in zip(a, h, strict=True)]


def minimize_kl(core, u, h, k):
    """Bisect for y in sum_j x_j = 1, and for each x_j in s ln(x_j / p_j) + h_j x_j + u_j = y."""
    s, p = k * core.sigma, np.full(len(u), 1.0 / len(u)) if core.prior is None else core.prior

    def point(y):
        low, high = np.full(len(u), -800.0), np.full(len(u), 1.0)  # ln x
        for _ in range(70):
            middle = 0.5 * (low + high)
            over = s * (middle - np.log(p)) + h * np.exp(middle) + u > y
            low, high = np.where(over, low, middle), np.where(over, middle, high)
        return np.exp(0.5 * (low + high))

    low, high = u.min() - 1000.0 * s, (u + h + s * (1.0 - np.log(p))).max() + 1.0
    for _ in range(90):
        y = 0.5 * (low + high)
        low, high = (y, high) if point(y).sum() < 1.0 else (low, y)
    x = point(0.5 * (low + high))
    return x / x.sum()  # y has too few digits when u is large


def minimize(penalty, u, h, k=1.0, l1=0.0):
    """The minimizer, by whatever is most obvious."""
    core, parts = split(penalty)
    if core is None:
        return minimize_separable(parts, u, h, k, l1)
    if kind(core) == "KL":
        if k * core.sigma > 0.0:
            return minimize_kl(core, u, h, k)
        with localcontext() as context:
            context.prec = 60
            c, curve = [Decimal(float(-v)) for v in u], [Decimal(float(v)) for v in h]
            return np.array([float(v) for v in _multiplier_sum(c, curve, Decimal(1), free=True)])
    return minimize_coupled(core, parts, u, h, k, l1)


def objective(penalty, x, u, h, k=1.0, l1=0.0):
    """The value that `minimize` makes small, summed without loss; Psi counts also at k = 0 where it is infinite."""
    psi = penalty.value(x)
    return (
        math.fsum(u * x) + 0.5 * math.fsum(h * x * x) + l1 * math.fsum(np.abs(x)) + (k * psi if psi < np.inf else psi)
    )


def violation(penalty, x, u, h, k=1.0, l1=0.0):
    """How far -(u + h x) is from the subdifferential of k Psi + l1 ||.||_1 at x, by the largest coordinate."""
    core, parts = split(penalty)
    low, high = slope_sum(parts, x, k, l1)
    g = -(u + h * x)
    low, high = g - high, g - low  # what the coupled part's subgradient must lie in
    if core is None:
        return float(np.max(np.maximum(low, -high).clip(0.0)))
    nearest = np.clip(0.0, low, high)  # the smallest subgradient that would do
    name = kind(core)
    if name in NORMS:
        labels = np.zeros(len(x)) if "Norm" in name else core.groups
        labels = np.arange(len(x)) if labels is None else labels
        check = _violation_largest if "inf" in name else _violation_euclid
        groups = [labels == label for label in np.unique(labels)]
        return max(check(x[g], low[g], high[g], nearest[g], k * core.lam) for g in groups)
    if name == "L2Ball":
        if np.linalg.norm(x) < core.radius * (1 - 1e-11):
            return float(np.max(np.abs(nearest)))
        j = int(np.argmax(np.abs(x)))
        nu = nearest[j] / x[j]
        return float(max(np.max(np.maximum(low - nu * x, nu * x - high)), -nu, 0.0))
    if name == "KL":
        p = np.full(len(x), 1.0 / len(x)) if core.prior is None else core.prior
        s = k * core.sigma
        if s > 0.0:
            inside = x > 1e-290
            nu = (g - s * (np.log(np.where(inside, x, 1.0) / p) + 1.0))[inside]
            return float(nu.max() - nu.min())
    if name == "L1Ball":
        if np.abs(x).sum() < core.radius * (1 - 1e-11):
            return float(np.max(np.abs(nearest)))
        on = x != 0
        sign = np.sign(x)
        lows = np.where(on, np.where(sign > 0, low, -high), np.abs(nearest))
        highs = np.where(on, np.where(sign > 0, high, -low), np.inf)
        return float(max(max(lows.max(), 0.0) - highs.min(), 0.0))
    on = x > 0  # the simplex: a common multiplier where x > 0, no more than it elsewhere
    return float(max(low.max() - high[on].min(), 0.0))


def _violation_euclid(x, low, high, nearest, L):
    length = np.linalg.norm(x)
    if length == 0.0:
        return float(max(np.linalg.norm(nearest) - L, 0.0))
    s = L * x / length
    return float(max(np.max(np.maximum(low - s, s - high)), 0.0))


def _violation_largest(x, low, high, nearest, L):
    if L == 0.0 or not x.any():
        return float(max(np.abs(nearest).sum() - L, 0.0))
    top = np.abs(x) >= np.abs(x).max() * (1 - 1e-13)
    lows, highs = np.where(x > 0, low, -high)[top], np.where(x > 0, high, -low)[top]
    rest = np.abs(nearest[~top]).max(initial=0.0)
    return float(max(rest, -highs.min(), lows.clip(0.0).sum() - L, L - highs.clip(0.0).sum(), 0.0))
