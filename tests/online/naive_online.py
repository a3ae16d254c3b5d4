"""Every online algorithm as its paper displays it: slow, whole histories kept, nothing shared with the package.

Each algorithm is a generator: it yields the point to play and is sent the gradient (or the example) of the round.
Equation numbers are those of Xiao 2010, McMahan 2017 ("survey") and Duchi, Hazan and Singer 2010.

A prox here is a function (u, h, k) -> argmin <u, x> + k Psi(x) + sum_j h_j x_j^2 / 2, coordinate by coordinate; a
prox of a matrix takes H in place of h.
"""

from __future__ import annotations

import math
from itertools import count

import numpy as np
from scipy.optimize import brentq

# ---- proxes ------------------------------------------------------------------------------------


def separable(l1=0.0, l2=0.0, lo=-math.inf, hi=math.inf):
    """Survey (37) with a square and a clip, one coordinate at a time."""

    def one(b, a, l1, l2):
        x = 0.0 if abs(b) <= l1 else -(b - math.copysign(l1, b)) / (a + l2)
        return min(max(x, lo), hi)

    def prox(u, h, k):
        h = np.broadcast_to(h, np.shape(u))
        l1s, l2s = np.broadcast_to(l1, np.shape(u)), np.broadcast_to(l2, np.shape(u))
        return np.array([one(u[j], h[j], k * l1s[j], k * l2s[j]) for j in range(len(u))])

    return prox


none = separable()


def simplex(radius=1.0):
    """x_j = max(0, -(u_j + nu) / h_j) with the multiplier nu that makes the sum right."""

    def prox(u, h, k):
        h = np.broadcast_to(h, np.shape(u))

        def total(nu):
            return sum(max(0.0, -(u[j] + nu) / h[j]) for j in range(len(u))) - radius

        nu = brentq(total, -np.max(u) - radius * np.max(h), -np.min(u), xtol=1e-15, rtol=1e-15)
        return np.maximum(0.0, -(u + nu) / h)

    return prox


def _matrix(h, n):
    return np.diag(np.broadcast_to(h, n)) if np.ndim(h) < 2 else h


def round_none(u, H, k):
    return -np.linalg.pinv(_matrix(H, len(u)), rcond=1e-12, hermitian=True) @ u


def round_l2(lam):
    return lambda u, H, k: -np.linalg.solve(_matrix(H, len(u)) + k * lam * np.eye(len(u)), u)


def round_l2_norm(lam):
    """u + H x + k lam x / ||x|| = 0, solved for the norm."""

    def prox(u, H, k):
        H = _matrix(H, len(u))
        if np.linalg.norm(u) <= k * lam:
            return np.zeros(len(u))

        def x(m):  # m = 1 / ||x||
            return -np.linalg.solve(H + k * lam * m * np.eye(len(u)), u)

        def f(m):
            return m * np.linalg.norm(x(m)) - 1.0

        high = 1.0
        while f(high) < 0.0:
            high *= 2.0
        return x(brentq(f, 1e-12, high, xtol=1e-16, rtol=1e-15))

    return prox


def round_l2_ball(radius):
    """(H + nu I) x = -u in the coordinates of H's eigenvectors, for the least nu >= 0 that brings x into the ball."""

    def prox(u, H, k):
        e, V = np.linalg.eigh(_matrix(H, len(u)))
        e, V = e[e > 1e-12 * e.max()], V[:, e > 1e-12 * e.max()]
        c = V.T @ u

        def excess(nu):
            return np.linalg.norm(c / (e + nu)) / radius - 1.0

        # One function decides and is solved, so that its sign at 0 is known whatever the rounding.
        inside = excess(0.0) <= 0.0
        nu = 0.0 if inside else brentq(excess, 0.0, np.linalg.norm(u) / radius + 1.0, xtol=1e-16, rtol=1e-15)
        return -V @ (c / (e + nu))

    return prox


# ---- links -------------------------------------------------------------------------------------


def link(x, p):
    """Xiao 7.2: the gradient of ||x||_p^2 / 2."""
    norm = np.sum(np.abs(x) ** p) ** (1 / p)
    return np.zeros_like(x) if norm == 0.0 else np.sign(x) * np.abs(x) ** (p - 1) / norm ** (p - 2)


def inverse_link(v, p):
    return link(v, p / (p - 1))


def soft(v, threshold):
    return np.array([0.0 if abs(a) <= threshold else a - math.copysign(threshold, a) for a in v])


def normalized(weights, radius=1.0):
    return radius * weights / np.sum(weights)


# ---- Xiao --------------------------------------------------------------------------------------


def rda(x, prox, beta, rho=0.0):
    """Algorithm 1 with the mean gradient; (31) puts beta_t rho on the l1 norm, through prox(..., l1)."""
    gradients = []
    for t in count(1):
        gradients.append((yield x))
        mean = sum(gradients) / t
        x = prox(mean, beta(t) / t, 1.0)


def rda_l1(d, lam, gamma, rho=0.0):
    """Algorithm 2, equation (30); rho = 0 is (10)."""
    gradients, x = [], np.zeros(d)
    for t in count(1):
        gradients.append((yield x))
        mean = sum(gradients) / t
        threshold = lam + gamma * rho / math.sqrt(t)
        x = -math.sqrt(t) / gamma * soft(mean, threshold)


def rda_pnorm(d, lam, gamma, p, rho=0.0):
    """Section 7.2."""
    gradients, x = [], np.zeros(d)
    for t in count(1):
        gradients.append((yield x))
        mean = sum(gradients) / t
        g_hat = -(p - 1) * math.sqrt(t) / gamma * soft(mean, lam + gamma * rho / math.sqrt(t))
        x = inverse_link(g_hat, p)


def rda_entropy(d, gamma, radius=1.0):
    """Section 2.1, exponentiated dual averaging."""
    gradients, x = [], np.full(d, radius / d)
    for t in count(1):
        gradients.append((yield x))
        mean = sum(gradients) / t
        x = normalized(np.exp(-math.sqrt(t) / gamma * mean), radius)


def rda_kl(d, sigma, prior, beta):
    """Section 2.2 where beta_t = 0; otherwise the same with beta_t/t of the entropy beside it."""
    gradients, x = [], np.full(d, 1.0 / d)
    for t in count(1):
        gradients.append((yield x))
        mean = sum(gradients) / t
        s = sigma / (sigma + beta(t) / t)
        x = normalized(prior**s * np.exp(-mean / (sigma + beta(t) / t)))


def accelerated(v, prox, alpha, beta, L):
    """Algorithm 3; yields the query point u_t, with w_{t-1} beside it."""
    w, A, g_tilde = v, 0.0, np.zeros_like(v)
    for t in count(1):
        A = A + alpha(t)
        theta = alpha(t) / A
        u = (1 - theta) * w + theta * v
        g = yield u, w
        g_tilde = (1 - theta) * g_tilde + theta * g
        v = prox(g_tilde, (L + beta(t)) / A, 1.0)
        w = (1 - theta) * w + theta * v


def sgd(x, subgradient, project, rate):
    """Equation (3)."""
    for t in count(1):
        g = yield x
        x = project(x - rate(t) * (g + subgradient(x)))


def truncated_gradient(d, lam, rate, K, theta, l2=0.0):
    """Equation (29)."""
    x = np.zeros(d)

    def trnc(w, threshold):
        if abs(w) <= threshold:
            return 0.0
        return w - math.copysign(threshold, w) if abs(w) <= theta else w

    for t in count(1):
        g = (yield x) + l2 * x
        x = x - rate(t) * g
        if t % K == 0:
            x = np.array([trnc(w, rate(t) * lam * K) for w in x])


# ---- Duchi, Hazan, Singer ----------------------------------------------------------------------


def root_of_outer_products(gradients, labels):
    """The symmetric root of sum g g', block by block, through the singular values of the gradients themselves."""
    G = np.array(gradients).T
    S = np.zeros((len(G), len(G)))
    for label in set(labels):
        block = [j for j in range(len(G)) if labels[j] == label]
        U, s, _ = np.linalg.svd(G[block], full_matrices=False)
        S[np.ix_(block, block)] = (U * s) @ U.T
    return S


def adagrad(x, prox, eta, delta, update, labels=None, strongly_convex=False):
    """Figures 1 and 2 and section 5: equations (3) and (4), multiplied by t/eta and 1/eta."""
    gradients, d = [], len(x)
    for t in count(1):
        gradients.append((yield x))
        if labels is not None:
            H = (delta * np.eye(d) + root_of_outer_products(gradients, labels)) / eta
        else:
            s = [math.fsum(g[j] ** 2 for g in gradients) for j in range(d)]
            H = (delta + (np.array(s) if strongly_convex else np.sqrt(s))) / eta
        if update == "dual_averaging":
            x = prox(sum(gradients), H, t)
        else:
            Hx = H @ x if labels is not None else H * x
            x = prox(gradients[-1] - Hx, H, 1.0)


def arow(d, r, full):
    """Equation (10), alpha_t with its factor beta_t."""
    mu, Sigma = np.zeros(d), np.eye(d)
    while True:
        z, y = yield mu
        if y * (z @ mu) < 1.0:
            beta = 1.0 / (z @ Sigma @ z + r)
            alpha = max(0.0, 1.0 - y * (z @ mu)) * beta
            mu = mu + alpha * y * Sigma @ z
            Sigma = Sigma - beta * np.outer(Sigma @ z, z @ Sigma)
            if not full:
                Sigma = np.diag(np.diag(Sigma))


# ---- Crammer et al. 2006 -----------------------------------------------------------------------


def _tau(loss, squared, C, variant):
    if loss == 0.0 or squared == 0.0:
        return 0.0
    return {"PA": loss / squared, "PA-I": min(C, loss / squared), "PA-II": loss / (squared + 1 / (2 * C))}[variant]


def pa_binary(d, C, variant):
    w = np.zeros(d)
    while True:
        z, y = yield w
        w = w + _tau(max(0.0, 1.0 - y * (w @ z)), z @ z, C, variant) * y * z


def pa_regression(d, C, variant, epsilon):
    w = np.zeros(d)
    while True:
        z, y = yield w
        loss = max(0.0, abs(y - w @ z) - epsilon)
        w = w + np.sign(y - w @ z) * _tau(loss, z @ z, C, variant) * z


def pa_multiclass(shape, C, variant):
    W = np.zeros(shape)
    while True:
        z, y = yield W
        scores = z @ W
        rival = max((j for j in range(shape[1]) if j != y), key=lambda j: scores[j])
        loss = max(0.0, 1.0 - scores[y] + scores[rival])
        phi = np.zeros(shape)
        phi[:, y] += z
        phi[:, rival] -= z
        W = W + _tau(loss, np.sum(phi**2), C, variant) * phi


# ---- the survey --------------------------------------------------------------------------------


def ftrl(x, prox, inverse_rate, alpha, centering, past, r0=None):
    """Equations (24) and (29) in the Euclidean geometry; r_0 has curvature r0 = 1/eta_0 and its minimum at x_1."""
    points, gradients, sigmas, psis = [], [], [], []
    first = x
    for t in count(1):
        points.append(x)
        gradients.append((yield x))
        before = inverse_rate(t - 1, gradients[:-1]) if t > 1 else r0
        sigmas.append(inverse_rate(t, gradients) - before)
        linear = sum(gradients)
        if centering == "proximal":
            linear = linear - r0 * first - sum(s * p for s, p in zip(sigmas, points, strict=True))
        quadratic = r0 + sum(sigmas)
        if past == "native":
            x = prox(linear, quadratic, sum(alpha(s) for s in range(1, t + 1)))
        else:
            x = prox(linear + sum(psis, np.zeros_like(x)), quadratic, alpha(t))
            psis.append(-(linear + sum(psis, np.zeros_like(x)) + quadratic * x))  # (30)


def ftrl_proximal(x, prox, alpha, beta, once):
    """Section 3.4 with per-coordinate rates alpha/(beta + root of squares), beta's share centred at 0."""
    points, gradients, sigma, root = [], [], [], np.zeros_like(x)
    for t in count(1):
        points.append(x)
        gradients.append((yield x))
        before, root = root, np.sqrt(sum(g * g for g in gradients))
        sigma.append((root - before) / alpha)
        linear = sum(gradients) - sum(s * p for s, p in zip(sigma, points, strict=True))
        x = prox(linear, beta / alpha + sum(sigma), 1.0 if once else t)


def ftrl_entropy(d, rate, centering, radius=1.0):
    """Figure 1's entropic update and its proximal form, argmin <g, x> + sum_s sigma_s KL(x, x_s)."""
    x = np.full(d, radius / d)
    points, gradients = [x], []
    for t in count(1):
        gradients.append((yield x))
        if centering == "origin":
            x = normalized(np.exp(-rate(t, gradients) * sum(gradients)), radius)
        else:
            inverse = [1.0 / rate(s, gradients[:s]) for s in range(t + 1)]
            logs = inverse[0] * np.log(points[0])
            for s in range(1, t + 1):
                logs = logs + (inverse[s] - inverse[s - 1]) * np.log(points[s - 1])
            logs = (logs - sum(gradients)) / inverse[t]
            x = normalized(np.exp(logs - logs.max()), radius)
        points.append(x)


def ftrl_pnorm(d, p, lam, inverse_rate, centering, r0):
    """(24) with R = ||x||_p^2 / (2 (p - 1)), in the coordinates grad R(x)."""
    x = np.zeros(d)
    linear, h = np.zeros(d), r0
    for t in count(1):
        g = yield x
        after = inverse_rate(t)
        linear = linear + g
        if centering == "proximal":
            linear = linear - (after - h) * link(x, p) / (p - 1)
        h = after
        x = (p - 1) * inverse_link(-soft(linear, t * lam) / h, p)


def fobos(x, prox, rate):
    """Xiao (28), in its two steps."""
    for t in count(1):
        g = yield x
        half = x - rate(t) * g
        x = prox(-half / rate(t), 1.0 / rate(t), 1.0)


def exponentiated_gradient(d, rate, radius=1.0):
    x = np.full(d, radius / d)
    for t in count(1):
        g = yield x
        x = normalized(x * np.exp(-rate(t) * g), radius)


def kl_mirror_descent(d, sigma, prior, rate):
    """argmin <g, x> + sigma KL(x, prior) + KL(x, x_t) / eta_t."""
    x = np.full(d, 1.0 / d)
    for t in count(1):
        g = yield x
        h = 1.0 / rate(t)
        x = normalized(np.exp((h * np.log(x) + sigma * np.log(prior) - g) / (h + sigma)))


def smidas(d, p, lam, rate):
    """Shalev-Shwartz and Tewari: a step and a truncation in the link's coordinates (R has 1/(p - 1) in front)."""
    x = np.zeros(d)
    for t in count(1):
        g = yield x
        theta = link(x, p) / (p - 1) - rate(t) * g
        x = inverse_link((p - 1) * soft(theta, rate(t) * lam), p)


def lazy(x, project, rate):
    """Survey, Figure 6, lazy projection."""
    gradients = []
    for t in count(1):
        gradients.append((yield x))
        x = project(-rate(t) * sum(gradients))


def implicit(d, slope, rate):
    """Survey (28) without a penalty: x' = x - eta phi'(<z, x'>) z, solved for <z, x'>."""
    x = np.zeros(d)
    for t in count(1):
        z, y = yield x
        p, c = z @ x, rate(t) * (z @ z)
        f = lambda q, p=p, c=c, y=y: q - p + c * slope(q, y)  # noqa: E731
        q = brentq(f, p - c - 1.0, p + c + 1.0, xtol=1e-15, rtol=1e-15)
        x = x - rate(t) * slope(q, y) * z


def leader_of_bowls(d, s, prox):
    """Section 3.7: argmin of sum <g_s, x> + (s/2) ||x - x_s||^2 + t Psi."""
    x, points, gradients = np.zeros(d), [], []
    for t in count(1):
        points.append(x)
        gradients.append((yield x))
        x = prox(sum(gradients) - s * sum(points), s * t, t)


def leader_of_examples(d, l2=0.0):
    """Least squares on all rows so far, by the pseudo-inverse (t l2/2 ||x||^2 as d more rows)."""
    x, rows, labels = np.zeros(d), [], []
    for t in count(1):
        z, y = yield x
        rows.append(z)
        labels.append(y)
        Z = np.vstack([*rows, math.sqrt(t * l2) * np.eye(d)])
        x = np.linalg.pinv(Z, rcond=1e-10) @ np.concatenate([labels, np.zeros(d)])
