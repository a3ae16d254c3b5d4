"""Features that are zero in every optimum, and features that are zero in none.

A gap says where the dual optimum is. phi* is 1/L-strongly convex for a loss of smoothness L, so from a dual point alpha
and any weights whose objective is G above its value

    sum_i p_i (alpha_i - alpha*_i)^2 <= 2 L G        |V_j - V*_j| <= q_j sqrt(2 L G) =: r_j,  q_j^2 = sum_i p_i x_ij^2

with V_j = sum_i p_i alpha_i x_ij. The optimal weight is a slope of Psi* at V*_j, so under l1_j |w| + (l2_j / 2) w^2

    |V_j| + r_j < l1_j                  w_j is 0 in every optimum                                                    (1)
    |V_j| - r_j > l1_j and l2_j > 0     w_j is not 0, and has the sign of V_j                                        (2)

Without squares |V*_j| <= l1_j always, and (2) cannot hold. There w_j = 0 is refuted: a dual point of the problem
without column j whose value is above the objective of some weights with it proves that every optimum uses it. Such a
point is on the way from alpha to the slopes of the quadratic model at its minimizer with w_j = 0,

    w' = w - w_j H^-1 e_j / (H^-1)_jj        H = X'DX + diag(l2) on the non-zero weights and the intercept          (3)

which gains about w_j^2 / (2 (H^-1)_jj) where other features do not come across their bounds.

Reference: E. Ndiaye, O. Fercoq, A. Gramfort, J. Salmon, Gap safe screening rules for sparsity enforcing penalties,
2017.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..core.penalties import ElasticNet
from ..core.validation import Array
from .dual import dual_point
from .problem import Problem
from .shadow import Shadow

EPOCHS, TOL = 100, 1e-9  # of the run that makes G small
SLACK = 1e-12  # of the objective and of V, more than rounding takes
MOST = 1_000  # non-zero weights for (3)
WAYS = (1.0, 0.5, 0.2, 0.05)  # parts of the way to the slopes of (3)


def certain_features(shadow: Shadow) -> tuple[Array, Array]:
    """Return which features are zero in every optimum of a problem, and which in none, as two masks."""
    problem = shadow.problem
    zeros, support = np.zeros(problem.n_features, bool), np.zeros(problem.n_features, bool)
    terms, smoothness = problem.penalty.terms(problem.shape), problem.loss.smoothness
    if not terms.only_l1_l2 or not math.isfinite(smoothness):
        return zeros, support
    shadow.solve(EPOCHS, TOL)
    l1, l2 = (np.broadcast_to(np.asarray(term, np.float64), problem.shape) for term in (terms.l1, terms.l2))
    gap = max(shadow.least - shadow.point.value, 0.0) + SLACK * abs(shadow.least)
    q = np.sqrt(_mean_squares(problem))
    size, r = np.abs(shadow.point.v), q * math.sqrt(2.0 * smoothness * gap) * (1.0 + SLACK)
    r = r if size.ndim == 1 else r[:, None]
    zero, used = size + r < l1 * (1.0 - SLACK), (size - r > l1 * (1.0 + SLACK)) & (l2 > 0.0)
    if size.ndim == 2:
        return np.all(zero, axis=1), np.any(used, axis=1)
    open_ones = np.flatnonzero((shadow.coef != 0.0) & ~used & (l1 > 0.0))
    used[_refuted(shadow, open_ones, gap, l1, l2)] = True
    return zero, used


def _mean_squares(problem: Problem) -> Array:
    """Return sum_i p_i x_ij^2 of each feature."""
    from ._conjugates import add_rows

    rows, out = problem.rows, np.zeros(problem.n_features)
    squared = rows._replace(data=np.square(rows.data, dtype=np.float64))
    add_rows(squared, problem.shares, out)
    return out


def _refuted(shadow: Shadow, candidates: Array, gap: float, l1: Array, l2: Array) -> list[int]:
    """Return the candidates j for which w_j = 0 is refuted."""
    problem, w = shadow.problem, shadow.coef
    S = np.flatnonzero(w)
    if not len(candidates) or len(S) > MOST:
        return []
    z = problem.scores(w, shadow.intercept)
    bend, slope = problem.loss.curvature(z, problem.labels), problem.loss.slope(z, problem.labels)
    X = _columns(problem, S)
    H = X.T @ ((problem.shares * bend)[:, None] * X)
    H[np.arange(len(S)), np.arange(len(S))] += l2[S]
    inverse = np.linalg.pinv(H, hermitian=True)
    found = []
    for k, j in enumerate(S):
        diagonal = inverse[k, k]
        if j not in candidates or not diagonal > 0.0 or 0.5 * w[j] ** 2 / diagonal <= gap:
            continue
        there = -(slope - bend * (X @ inverse[:, k]) * (w[j] / diagonal))
        strengths = np.where(np.arange(len(w)) == j, 1e300, l1)
        without = replace(problem, penalty=ElasticNet(strengths, np.array(l2)))
        alpha = shadow.point.alpha
        values = (dual_point(without, alpha + t * (there - alpha), search=False).value for t in WAYS)
        if any(value > shadow.least + SLACK * abs(shadow.least) for value in values):
            found.append(int(j))
    return found


def _columns(problem: Problem, S: Array) -> Array:
    """Return the columns S as a dense matrix, and the intercept's if there is one."""
    from scipy.sparse import csr_array

    rows = problem.rows
    first, last = int(rows.indptr[0]), int(rows.indptr[-1])
    parts = rows.data[first:last].astype(np.float64), rows.indices[first:last].astype(np.int64), rows.indptr - first
    X = csr_array(parts, shape=(rows.n_rows, problem.n_features))[:, S].toarray()
    return np.hstack([X, np.ones((len(X), 1))]) if problem.fit_intercept else np.asarray(X)
