"""Small odd problems at random, and their optima by a solver of another kind in extended precision.

A problem has collinear, duplicated, constant, empty, huge and tiny columns, empty rows, labels that can be separated or
are all alike, and weights from 0 to 1e12. The reference shares no code with the package: losses and penalties are
written out here, their kinks rounded over a width that goes to 0, and Newton's method follows the minimizer in
`numpy.longdouble`. Whatever point it ends at has a value no smaller than the optimum, so a dual value above it is wrong
without further proof.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from proxstream import L1, L2, ElasticNet
from proxstream.batch import Problem, Solution
from proxstream.core import losses
from proxstream.data.rowblock import as_block

Long = np.longdouble
EPS, EXACT = float(np.finfo(Long).eps), Long(0)

BINARY = ("logistic", "hinge", "squared_hinge", "smoothed_hinge(0.5)", "perceptron")
REGRESSION = ("squared", "absolute", "huber(0.5)", "epsilon_insensitive(0.2)", "quantile(0.3)", "poisson")
KINKED = ("hinge", "perceptron", "absolute", "epsilon_insensitive", "quantile", "multiclass_hinge")
MULTICLASS = ("softmax", "multiclass_hinge")


class Case(NamedTuple):
    """A problem: rows, labels as the loss knows them, weights, and the strengths of |w_j| and w_j^2 / 2."""

    X: Any
    y: Any
    c: Any
    loss: str
    l1: Any
    l2: Any
    fit_intercept: bool
    k: int

    @property
    def problem(self) -> Problem:
        """The same for the package."""
        l1, l2 = (float(x) if np.ndim(x) == 0 else x for x in (self.l1, self.l2))
        penalty: Any = ElasticNet(l1, l2)
        if not np.any(l1):
            penalty = L2(l2)
        elif not np.any(l2):
            penalty = L1(l1)
        return Problem(
            as_block(self.X, self.y, self.c),
            self.X.shape[1],
            losses.get(self.loss),
            penalty,
            self.fit_intercept,
            self.k,
        )


# -- problems at random ----------------------------------------------------------------------------


def draw(seed: int, loss: str | None = None, kind: str | None = None, *, each: bool = True) -> Case:
    """Draw a problem; its loss, and which of "l2", "net" and "l1" its penalty is, if given.

    `each`: strengths may differ from feature to feature.
    """
    rng = np.random.default_rng(seed)
    loss = str(rng.choice([*BINARY, *REGRESSION, *MULTICLASS])) if loss is None else loss
    kind = str(rng.choice(["l2", "l2", "net", "l1"])) if kind is None else kind
    n, d, k = int(rng.integers(1, 13)), int(rng.integers(1, 5)), 3 if loss in MULTICLASS else 1
    X = _features(rng, n, d)
    with np.errstate(over="ignore"):
        score = X @ (rng.normal(size=(d, k)) / np.maximum(np.abs(X).max(axis=0), 1e-300)[:, None]) + rng.normal(size=k)
    y = _labels(rng, loss, 2.0 * score)
    strengths = 10.0 ** rng.uniform(-6.0, 1.0, (2, d) if rng.random() < 0.2 and each else (2, 1))
    l1, l2 = (strengths if strengths.shape[1] == d and d > 1 else strengths[:, 0])[:]
    l1, l2 = (0.0 * l1 if kind == "l2" else l1), (0.0 * l2 if kind == "l1" else l2)
    return Case(X, y, _weights(rng, n), loss, l1, l2, bool(rng.random() < 0.7), k)


def _features(rng: Any, n: int, d: int) -> Any:
    X = rng.normal(size=(n, d))
    for j in range(d):
        match rng.integers(12):
            case 0 if j:
                X[:, j] = X[:, rng.integers(j)]
            case 1 if j:
                X[:, j] = X[:, :j] @ rng.integers(-2, 3, j)
            case 2:
                X[:, j] = rng.choice([0.0, 1.0, -3.0])
            case 3:
                X[:, j] *= 10.0 ** rng.uniform(3.0, 12.0)
            case 4:
                X[:, j] *= 10.0 ** rng.uniform(-12.0, -3.0)
            case 5:
                X[:, j] += rng.uniform(-10.0, 10.0)
            case 6:
                X[:, j] = rng.integers(-1, 2, n)
            case 7 if j:  # almost a copy
                X[:, j] = X[:, rng.integers(j)] * (1.0 + 10.0 ** rng.uniform(-15.0, -3.0) * rng.normal(size=n))
    if rng.random() < 0.3:
        X[rng.random(X.shape) < 0.5] = 0.0
    if rng.random() < 0.2:
        X[rng.random(n) < 0.4] = 0.0
    if rng.random() < 0.2:
        X = X[rng.integers(n, size=n)]
    return X


def _labels(rng: Any, loss: str, score: Any) -> Any:
    n = len(score)
    if loss in MULTICLASS:
        y = [
            lambda: rng.integers(3, size=n),
            lambda: np.argmax(score, axis=1),
            lambda: np.full(n, rng.integers(3)),
            lambda: rng.integers(2, size=n) * 2,
        ][rng.choice(4, p=[0.4, 0.3, 0.1, 0.2])]()
        return y.astype(float)
    score = score[:, 0]
    if loss in BINARY:
        style = rng.choice(3, p=[0.5, 0.35, 0.15])
        noise = (rng.normal(size=n), 0.0, 1e9 * rng.choice([-1.0, 1.0]))[style]
        return np.where(score + noise > 0.0, 1.0, -1.0)
    if loss == "poisson":
        y = rng.poisson(np.exp(np.clip(score, -5.0, 5.0))).astype(float)
        return [y, np.zeros(n), y * 1000.0, y + 0.5][rng.choice(4, p=[0.7, 0.1, 0.1, 0.1])]
    y = score + rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=n)
    return [y, y * 1e6, y * 1e-6, np.full(n, y[0]), np.round(y)][rng.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1])]


def _weights(rng: Any, n: int) -> Any:
    c = rng.uniform(0.1, 2.0, n)
    match rng.integers(6):
        case 0:
            c[rng.random(n) < 0.5] = 0.0
        case 1:
            c[rng.random(n) < 0.3] = 1e12
        case 2:
            c = 10.0 ** rng.uniform(-12.0, 12.0, n)
        case 3:
            c = rng.choice([0.0, 1.0, 1e12], n)
        case _:
            return None if rng.random() < 0.7 else c
    return c if c.any() else None


# -- the objective, with kinks rounded over a width ------------------------------------------------


def _positive(t: Any, width: Any) -> tuple[Any, Any, Any]:
    """max(0, t), rounded: value, slope, curvature."""
    root = np.hypot(t, width)
    safe = np.where(root > 0.0, root, 1.0)
    # t + root without the cancellation for t < 0
    value = np.where(t > 0.0, t + root, width * (width / np.where(t > 0.0, 1.0, safe - np.minimum(t, 0.0)))) / 2
    return value, 0.5 * (1.0 + t / safe), 0.5 * (width / safe) ** 2 / safe


def _half_square(t: Any, width: Any) -> Any:
    """The integral of the rounded max(0, t), near max(0, t)^2 / 2."""
    if width == 0.0:
        return np.maximum(t, 0.0) ** 2 / 2
    return (t * t + t * np.hypot(t, width) + width * width * np.arcsinh(t / width)) / 4


def _larger(x: Any, y: Any, width: Any) -> tuple[Any, Any, Any]:
    """max(x, y), rounded: value, slope in y, curvature in y - x."""
    v, s, h = _positive(y - x, width)
    return x + v, s, h


def _one_output(name: str, a: float, p: Any, y: Any, width: Any) -> tuple[Any, Any, Any]:
    r = p - y
    if name == "logistic":
        m = y * p
        e = np.exp(-np.abs(m))
        s = np.where(m > 0.0, e, 1.0) / (1.0 + e)
        return np.maximum(-m, 0.0) + np.log1p(e), -y * s, e / (1.0 + e) ** 2
    if name in ("hinge", "perceptron"):
        v, s, h = _positive((name == "hinge") - y * p, width)
        return v, -y * s, h
    if name == "squared_hinge":
        t, (v, s, _) = 1.0 - y * p, _positive(1.0 - y * p, width)
        return 2.0 * _half_square(t, width), -2.0 * y * v, 2.0 * s
    if name == "smoothed_hinge":
        t = 1.0 - y * p
        (v, s, _), (v2, s2, _) = _positive(t, width), _positive(t - a, width)
        return (_half_square(t, width) - _half_square(t - a, width)) / a, -y * (v - v2) / a, (s - s2) / a
    if name == "squared":
        return r * r / 2, r, np.ones_like(r)
    if name == "absolute":
        (v, s, h), (v2, s2, h2) = _positive(r, width), _positive(-r, width)
        return v + v2, s - s2, h + h2
    if name == "huber":
        (v, s, _), (v2, s2, _) = _positive(r + a, width), _positive(r - a, width)
        if width == 0.0:
            return np.where(np.abs(r) < a, r * r / 2, a * (np.abs(r) - a / 2)), v - v2 - a, s - s2
        return _half_square(r + a, width) - _half_square(r - a, width) - a * r, v - v2 - a, s - s2
    if name == "epsilon_insensitive":
        (v, s, h), (v2, s2, h2) = _positive(r - a, width), _positive(-r - a, width)
        return v + v2, s - s2, h + h2
    if name == "quantile":
        v, s, h = _positive(r, width)
        return v - a * r, s - a, h
    assert name == "poisson"
    e = np.exp(np.minimum(p, 11000.0))
    return e - y * p, e - y, e


def _rows(case: Case, scores: Any, width: Any) -> tuple[Any, Any, Any]:
    """Value (n,), slope (n, k) and curvature (n, k, k) of each row's loss."""
    name, _, a = case.loss.partition("(")
    if case.k == 1:
        v, s, h = _one_output(name, Long(a[:-1] or 0), scores[:, 0], case.y.astype(Long), width)
        return v, s[:, None], h[:, None, None]
    hot = np.eye(case.k, dtype=Long)[case.y.astype(int)]
    u = scores - np.sum(hot * scores, axis=1, keepdims=True) + (1.0 - hot) * (name == "multiclass_hinge")
    if name == "softmax":
        top = u.max(axis=1, keepdims=True)
        e = np.exp(u - top) * (np.arange(case.k) != np.argmax(u, axis=1)[:, None])
        total = e.sum(axis=1, keepdims=True)
        q = (e + (np.arange(case.k) == np.argmax(u, axis=1)[:, None])) / (1.0 + total)
        curvature = np.eye(case.k) * q[:, :, None] - q[:, :, None] * q[:, None, :]
        return (top + np.log1p(total))[:, 0], q - hot, curvature
    # Of three scores: the larger of the first two, then of that and the third.
    v, s, h = _larger(u[:, 0], u[:, 1], width)
    value, s2, h2 = _larger(v, u[:, 2], width)
    first = np.column_stack([1.0 - s, s, 0.0 * s])
    apart, away = np.array([-1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]) - first
    slope = (1.0 - s2)[:, None] * first + s2[:, None] * np.array([0.0, 0.0, 1.0]) - hot
    curvature = ((1.0 - s2) * h)[:, None, None] * np.outer(apart, apart)
    return value, slope, curvature + h2[:, None, None] * away[:, :, None] * away[:, None, :]


def shares(case: Case) -> Any:
    """The rows' shares in the mean."""
    c = np.ones(len(case.y), Long) if case.c is None else case.c.astype(Long)
    return c / c.sum()


def objective(case: Case, w: Any, b: Any) -> Any:
    """P(w, b) in extended precision."""
    W = np.asarray(w, Long).reshape(case.X.shape[1], case.k)
    scores = (case.X.astype(Long)[:, :, None] * W).sum(axis=1) + np.asarray(b, Long).reshape(-1)
    W, size = np.abs(W), (-1, 1) if np.ndim(case.l1) else ()
    l1, l2 = (np.reshape(np.asarray(x, Long), size) for x in (case.l1, case.l2))
    return np.sum(shares(case) * _rows(case, scores, Long(0))[0]) + np.sum(l1 * W + l2 / 2 * W * W)


# -- the reference ---------------------------------------------------------------------------------


def reference(case: Case, weights: bool = True) -> Any:
    """Return a value no smaller than the least P and, but for roundings, no larger; without weights, of weights 0."""
    k, d = case.k, case.X.shape[1] if weights else 0
    largest = np.abs(case.X[:, :d]).max(axis=0).astype(Long)
    scale = np.where(largest > 0.0, largest, 1.0)
    A = np.column_stack([case.X[:, :d].astype(Long) / scale, np.ones((len(case.X), int(case.fit_intercept)), Long)])
    size = (d, 1)
    l1, l2 = (np.broadcast_to(np.reshape(np.asarray(x, Long), (-1, 1))[: d or 1], size) for x in (case.l1, case.l2))
    l1, l2 = l1 / scale[:, None], l2 / scale[:, None] ** 2
    p, m = shares(case), A.shape[1]
    spread = Long(max(np.abs(case.y).max(), 1e-6)) if case.k == 1 else Long(1)
    if m == 0:
        return objective(case, np.zeros((case.X.shape[1], k)), np.zeros(k))

    def expand(theta: Any, more: bool = True, *, width: Any = EXACT) -> tuple[Any, Any, Any]:
        value, s, h = _rows(case, A @ theta, width)
        W = theta[:d]
        root = np.hypot(W, width)
        P = p @ value + np.sum(l1 * root + l2 / 2 * W * W)
        if k > 1:  # of a class without weight b goes far down: what rounding may take off the differences of scores
            P += 16 * EPS * (np.abs(A) @ np.abs(theta)).max()
        if not more:
            return P, None, None
        g = A.T @ (p[:, None] * s)
        g[:d] += l1 * W / np.where(root > 0.0, root, 1.0) + l2 * W
        H = np.einsum("i,ia,ib,ikl->akbl", p, A, A, h)
        safe = np.where(root > 0.0, root, 1.0)
        bend = np.zeros((m, k), Long)
        bend[:d] = l1 * (width / safe) ** 2 / safe + l2
        H = H.reshape(m * k, m * k)
        H[np.arange(m * k), np.arange(m * k)] += bend.ravel()
        return P, g.ravel(), H

    theta, width = np.zeros((m, k), Long), spread
    best = reference(case, False) if weights else expand(theta, False)[0]
    straight = case.loss in ("logistic", "squared", "poisson", "softmax") and not np.any(l1)
    with np.errstate(all="ignore"):
        while width > (spread / 2 if straight else 1e-17 * spread):
            theta = _newton(theta, partial(expand, width=width), d)
            best = min(best, expand(theta, False)[0])
            width /= 8
        for j in np.ndindex(theta[:d].shape):
            near = theta.copy()
            near[j] = 0.0
            value = expand(near, False)[0]
            if value < best:
                theta, best = near, value
    return best


def _newton(theta: Any, expand: Callable[..., Any], d: int) -> Any:
    """Damped steps until none lowers the value."""
    P, g, H = expand(theta)
    for _ in range(60):
        step = -_solved(H, g).reshape(theta.shape)
        if theta.shape[1] > 1:  # the scores of all classes may move together: far out their differences lose digits
            step[d:] -= step[d:].mean(axis=1, keepdims=True)
        slope = float(g @ step.ravel())
        if not slope < 0.0 or -slope <= 4 * EPS * abs(P):
            break
        size = Long(1)
        while not (expand(theta + size * step, False)[0] <= P + 0.1 * size * slope):
            size /= 4
            if size < 1e-12:
                return theta
        theta = theta + size * step
        P, g, H = expand(theta)
    return theta


def _solved(H: Any, g: Any) -> Any:
    """Solve H x = g for a positive semidefinite H by Gaussian elimination, a little ridge on its unit diagonal."""
    s = 1.0 / np.sqrt(np.where(np.diag(H) > 0.0, np.diag(H), 1.0))
    M = H * s * s[:, None]
    n = len(g)
    M = np.column_stack([M + 100 * EPS * np.eye(n), g * s])
    for j in range(n):
        M[j + 1 :] -= (M[j + 1 :, j] / M[j, j])[:, None] * M[j]
    x = np.zeros(n, Long)
    for j in range(n - 1, -1, -1):
        x[j] = (M[j, n] - M[j, j + 1 : n] @ x[j + 1 :]) / M[j, j]
    return x * s


# -- what is wrong with a solution -----------------------------------------------------------------


def rounding(case: Case, found: Solution) -> float:
    """Return how far rounding alone may take P and D: a few units in the last place of what is added up."""
    W, b = np.abs(np.reshape(found.coef, (-1, case.k))), np.abs(np.reshape(found.intercept, -1))
    reach = (np.abs(case.X) @ W + b).max(axis=1) + (np.abs(case.y) if case.k == 1 else 1.0)
    scores = case.X @ np.reshape(found.coef, (-1, case.k)) + np.reshape(found.intercept, -1)
    with np.errstate(all="ignore"):
        slope = np.abs(_rows(case, scores.astype(Long), Long(1e-12))[1]).max(axis=1)
    kinked = case.loss.split("(")[0] in KINKED
    alpha = np.abs(np.reshape(found.alpha, (len(case.y), -1))).max(axis=1)
    return float(1e-15 * np.sum(shares(case) * np.maximum(np.maximum(slope, alpha), 1.0 * kinked) * reach) + 1e-16)


def faults(case: Case, found: Solution, tol: float, optimum: Any, null: Any) -> list[str]:
    """Return what is wrong; `optimum` and `null` are the reference's values with and without weights."""
    numbers = np.concatenate([np.ravel(x) for x in (found.coef, found.intercept, found.alpha)])
    if not np.isfinite(numbers).all() or not np.isfinite(found.primal):
        return [f"not finite: primal {found.primal}, dual {found.dual}, coef {found.coef}, b {found.intercept}"]
    P, noise = objective(case, found.coef, found.intercept), rounding(case, found)
    low, size = min(P, optimum), float(max(abs(P), abs(optimum)))
    wrong = []
    if found.dual > low + 1e-13 * size + noise:
        wrong.append(f"dual {found.dual!r} above the optimum {low!s} by {float(found.dual - low) / size:.1e}")
    if abs(P - found.primal) > 1e-13 * size + noise:
        wrong.append(f"primal {found.primal!r}, but P of the weights is {P!s}")
    if null + (tol if found.converged else 1e-13) * abs(null) + noise < P:
        wrong.append(f"P {P!s} above {null!s} of weights 0")
    if found.converged and found.primal - found.dual > tol * max(abs(found.primal), abs(found.dual)):
        wrong.append(f"gap {found.primal - found.dual} of {found.primal} is not below {tol}")
    return wrong
