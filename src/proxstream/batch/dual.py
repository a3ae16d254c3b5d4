"""Dual points: from any alpha, or any model, to a lower bound on what any weights can reach.

    P(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + Psi(w)
    D(alpha) = -sum_i p_i phi*(-alpha_i, y_i) - Psi*(sum_i p_i alpha_i x_i)       P >= D whatever w, b and alpha

An alpha becomes a proof in four steps, each of which keeps what the one before it made good:

1. into the domain of phi*: each alpha_i is clipped (each row of a matrix put back in the simplex);
2. with an unpenalized intercept, sum_i p_i alpha_i = 0: the heavier of the positive and the negative side is scaled
   down, which stays in the domain since that holds 0;
3. into the domain of Psi*: all of alpha is scaled down (L1: ||X'alpha||_inf <= lam), which keeps 1 and 2;
4. the best of all smaller scales is taken: D is concave along the ray.

The value of the result is then computed with bounds on all rounding errors (`rounding`): it is proved, not only nearly.

For many classes at once step 2 is a flow. Row i of class y sends p_i b_ij from y to j (alpha_i = e_y - b_i), and the
sum vanishes when each class receives what it sends. Flows scaled by 1 - (f_y - f_j), with potentials f from one linear
system, do that exactly; a common factor then keeps every scale below 1.

A solver calls `dual_point` with its own alpha. `proxstream.batch.certificate` makes alphas for models that have none.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from ..core.validation import Array
from .penalty_conjugates import PenaltyConjugate, conjugate_of
from .problem import Problem
from .rounding import DualSums, exact_total

LOOKS = (1.0, 0.9999)  # parts of the largest scale that are tried first
LADDER = np.array([0.99, 0.9, 0.6, 0.3, 0.1, 0.01, 0.001, 0.0])
_POINTS = 8  # scales that are tried at once
_ROUNDS = 8


class DualPoint(NamedTuple):
    """A feasible alpha, v = sum_i p_i alpha_i x_i, and the bound D(alpha) that they prove."""

    value: float
    alpha: Array
    v: Array


def dual_point(problem: Problem, alpha: Array, *, search: bool = True) -> DualPoint:
    """Return the best dual point that clipping, balancing and scaling make of any alpha.

    Parameters
    ----------
    problem : Problem
    alpha : array (rows,), or (rows, outputs) for a multiclass loss
        Any numbers; they are not changed.
    search : bool
        Look for a better scale than the largest feasible one, in some 50 sums over rows and features.

    >>> import proxstream as ps
    >>> from proxstream.batch import Problem
    >>> from proxstream.data.rowblock import as_block
    >>> rows = as_block(np.array([[1.0], [-1.0]]), y=[1, -1])
    >>> problem = Problem(rows, 1, ps.hinge, ps.L2(1.0))
    >>> round(dual_point(problem, np.array([3.0, -0.5])).value, 12)
    0.375
    """
    conjugate = conjugate_of(problem.penalty, problem.shape)
    repaired = repair(problem, alpha)
    v = combine(problem, repaired)
    scales = scale_search(conjugate.limit(v), _ROUNDS if search else 0)
    asked = next(scales)
    try:
        while True:
            asked = scales.send(
                np.array([-conjugate_mean(problem, repaired, s) - conjugate.value(v, s) for s in asked])
            )
    except StopIteration as found:
        s, _ = found.value
    if s != 1.0:
        repaired *= s
        v *= s
    return DualPoint(proved_value(problem, repaired, conjugate), repaired, v)


def proved_value(problem: Problem, alpha: Array, conjugate: PenaltyConjugate) -> float:
    """Return a lower bound on what any weights can reach, from a feasible alpha."""
    total = exact_total(problem.rows.c, problem.rows.n_rows)
    sums = DualSums(problem.loss, problem.shape, total, fit_intercept=problem.fit_intercept)
    sums.add(problem.rows, problem.labels, alpha)
    return sums.value(conjugate)


def repair(problem: Problem, alpha: Array) -> Array:
    """Return a copy of alpha in the domain of phi*, balanced if there is an intercept (steps 1 and 2)."""
    alpha = np.array(alpha, dtype=np.float64)
    if alpha.shape != (problem.rows.n_rows, *problem.shape[1:]):
        raise ValueError(
            f"alpha must have shape {(problem.rows.n_rows, *problem.shape[1:])}, one number per row and output, "
            f"got {alpha.shape}"
        )
    np.nan_to_num(alpha, copy=False, nan=0.0)
    if problem.loss.kind == "multiclass":
        b = into_simplex(alpha, problem.labels)
        if problem.fit_intercept:
            b = scaled_flows(b, problem.labels, circulation(flows(b, problem.labels, problem.shares)))
        return e_less(b, problem.labels)

    from ..core.losses._kernels import as_tuple
    from . import _conjugates as kernels

    kernels.clip(as_tuple(problem.loss), alpha, problem.rows.y)
    if problem.fit_intercept:
        kernels.scale_sides(alpha, *balance(*kernels.sides(alpha, problem.rows.c)))
    return alpha


def combine(problem: Problem, alpha: Array) -> Array:
    """Return v = sum_i p_i alpha_i x_i, in 64 bits whatever the data's precision."""
    from . import _conjugates as kernels

    v = np.zeros(problem.shape)
    if alpha.ndim == 2:
        kernels.add_row_matrix(problem.rows, problem.shares[:, None] * alpha, v)
    else:
        kernels.add_rows(problem.rows, problem.shares * alpha, v)
    return v


def conjugate_mean(problem: Problem, alpha: Array, scale: float = 1.0) -> float:
    """Return sum_i p_i phi*(-scale alpha_i, y_i)."""
    if alpha.ndim == 2:
        return float(problem.shares @ problem.loss.conjugate(-scale * alpha, problem.labels))

    from ..core.losses._kernels import as_tuple
    from . import _conjugates as kernels

    rows = problem.rows
    total = float(np.sum(rows.c)) if len(rows.c) else float(rows.n_rows)
    return float(kernels.conjugate_sum(as_tuple(problem.loss), alpha, rows.y, rows.c, scale)) / total


def balance(positive: float, negative: float) -> tuple[float, float]:
    """Return the factors of the positive and of the negative side that make their sum vanish.

    >>> balance(2.0, -1.0), balance(1.0, -2.0)
    ((0.5, 1.0), (1.0, 0.5))
    """
    if positive > -negative:
        return -negative / positive, 1.0
    return 1.0, positive / -negative if negative < 0.0 else 1.0


# -- many classes at once ------------------------------------------------------------------------


def into_simplex(alpha: Array, labels: Array) -> Array:
    """Return b = e_y - alpha with negative entries cut off and rows that sum to 1."""
    b = -alpha
    b[np.arange(len(b)), labels] += 1.0
    np.maximum(b, 0.0, out=b)
    total = b.sum(axis=1, keepdims=True)
    empty = total[:, 0] == 0.0
    b[empty, labels[empty]] = total[empty] = 1.0
    b /= total
    return b


def e_less(b: Array, labels: Array) -> Array:
    """Return alpha = e_y - b, the label's entry as the sum of the others, which cancels nothing."""
    b = np.array(b)
    at = np.arange(len(b)), labels
    b[at] = 0.0
    b[at] = -np.minimum(b.sum(axis=1), 1.0)
    return -b


def flows(b: Array, labels: Array, weights: Array) -> Array:
    """Return what the rows of each class (first index) send to each other class."""
    sent = np.zeros((b.shape[1], b.shape[1]))
    np.add.at(sent, labels, weights[:, None] * b)
    np.fill_diagonal(sent, 0.0)
    return sent


def circulation(sent: Array) -> Array:
    """Return factors in [0, 1] that make every class receive what it sends, all near 1 where it nearly does."""
    k = len(sent)
    both = sent + sent.T
    laplacian = np.diag(both.sum(axis=1)) - both
    factors = np.ones((k, k))
    for _ in range(3):  # the second and third time round off what the first left
        now = factors * sent
        f = np.linalg.lstsq(laplacian, now.sum(axis=1) - now.sum(axis=0), rcond=None)[0]
        factors -= f[:, None] - f
    if factors.min() < 0.0:  # far from balanced: keep of each pair of flows the smaller one both ways
        factors = np.minimum(sent, sent.T) / np.where(sent > 0.0, sent, 1.0)
    return np.asarray(factors / max(factors.max(), 1.0))


def scaled_flows(b: Array, labels: Array, factors: Array) -> Array:
    """Return rows of the simplex whose entries off the label are scaled by the factors of their class."""
    b = b * factors[labels]
    at = np.arange(len(b)), labels
    b[at] = 0.0
    b[at] = 1.0 - np.minimum(b.sum(axis=1), 1.0)
    return b


# -- the best scale ------------------------------------------------------------------------------


def scale_search(
    limit: float, rounds: int, looks: tuple[float, ...] = LOOKS
) -> Generator[Array, Array, tuple[float, float]]:
    """Find the s in [0, limit] where a concave function is largest: yields some s, is sent its values there.

    The first looks are at these parts of the limit; where the limit is best, as near the optimum, they end it. Returns
    s and the value.
    """
    s = limit * np.array(looks if rounds else (1.0,))
    values = yield s
    for _ in range(rounds - 1):
        best = int(np.argmax(values))
        high, low = s[max(best - 1, 0)], s[best + 1] if best + 1 < len(s) else 0.0
        if best == 0 or high - low <= 1e-7 * limit:
            break
        inner = np.linspace(high, low, _POINTS + 2)[1:-1] if low > 0.0 else s[best] * LADDER
        s, values = np.concatenate((s, inner)), np.concatenate((values, (yield inner)))
        order = np.argsort(-s, kind="stable")
        s, values = s[order], values[order]
    best = int(np.argmax(values))
    return float(s[best]), float(values[best])
