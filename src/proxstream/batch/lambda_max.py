"""The model without weights: its best intercept, a dual point that proves it, and how strong a penalty keeps it so.

w = 0 is optimal under s Psi exactly if some dual point of the problem in b alone has v = sum_i p_i alpha_i x_i within
s times the subdifferential of Psi at 0. For a loss without kinks that dual point is minus the slopes at b; at kinks it
is one of many, and the strength that it gives may be larger than necessary, never smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.losses.multiclass import Softmax
from ..core.penalties import L2, GroupL2, L2Norm, Penalty
from ..core.validation import Array
from ..data.rowblock import RowBlock
from .dual import combine, dual_point
from .problem import Problem, Record, Solution

LARGEST = 2.0**100  # a strength that does not zero weights here never does
HALVINGS = 200  # bring the two ends of any bracket to neighbouring numbers


class Null(NamedTuple):
    """The best intercept of weights 0, its dual point, and the least strength of Psi that keeps them at 0."""

    intercept: Any
    alpha: Array
    strength: float

    def solution(self, problem: Problem) -> Solution:
        """Return the weights 0 with their proof, for a penalty that is strong enough."""
        w = np.zeros(problem.shape)
        primal = problem.primal(w, self.intercept)
        dual = min(dual_point(problem, self.alpha, search=False).value, primal)
        return Solution(w, self.intercept, self.alpha, [Record(0, 0.0, primal, dual, primal - dual, 0)], True)


def null_model(problem: Problem) -> Null:
    """Find the best intercept without weights.

    >>> import proxstream as ps
    >>> from proxstream.data.rowblock import as_block
    >>> rows = as_block(np.array([[1.0, 0.0], [0.0, 3.0], [1.0, 1.0]]), y=[1.0, 5.0, 3.0])
    >>> null = null_model(Problem(rows, 2, ps.squared, ps.L1(1.0)))
    >>> null.intercept, null.alpha + 0.0, round(null.strength, 12)
    (3.0, array([-2.,  2.,  0.]), 2.0)
    """
    b, alpha = null_point(problem)
    return Null(b, alpha, zeroing_strength(problem.penalty, combine(problem, alpha)))


def null_point(problem: Problem) -> tuple[Any, Array]:
    """Return the best intercept of weights 0, and its dual point."""
    find: Callable[[Problem], tuple[Any, Array]] = _of_classes if problem.loss.kind == "multiclass" else _of_numbers
    return find(problem)


def _of_numbers(problem: Problem) -> tuple[float, Array]:
    """Halve a bracket of the best b; between its ends is the subgradient that sums to 0, whatever the kinks."""
    loss, y, shares = problem.loss, problem.labels, problem.shares

    def slopes(b: float) -> Array:
        return np.asarray(loss.slope(np.full(len(y), b), y))

    if not problem.fit_intercept:
        return 0.0, -slopes(0.0)
    low, high = -1.0, 1.0
    while shares @ slopes(low) > 0.0:
        low *= 2.0
    while shares @ slopes(high) < 0.0:
        high *= 2.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if shares @ slopes(middle) <= 0.0 else (low, middle)
    below, above = slopes(low), slopes(high)
    rise = float(shares @ above - shares @ below)
    t = -float(shares @ below) / rise if rise > 0.0 else 0.0
    return low, -(below + min(max(t, 0.0), 1.0) * (above - below))


def _of_classes(problem: Problem) -> tuple[Array, Array]:
    """Rows of a class are alike without weights: the problem has one row per class."""
    labels, k = problem.labels, problem.n_outputs
    if not problem.fit_intercept:
        return np.zeros(k), -problem.loss.slope(np.zeros((len(labels), k)), labels)
    class_shares = np.bincount(labels, problem.shares, minlength=k)
    if not class_shares.all():
        raise ValueError(f"there must be a row with a weight above 0 of each of the {k} classes")
    if isinstance(problem.loss, Softmax):
        b = np.log(class_shares)
        alpha = np.eye(k) - class_shares
    else:
        from .sdca import multiclass

        empty, none = np.zeros(k + 1, dtype=np.int32), np.empty(0)
        rows = RowBlock(empty, none.astype(np.int32), none, np.arange(float(k)), class_shares)
        found = multiclass.solve(Problem(rows, 1, problem.loss, L2(1.0), n_outputs=k), tol=1e-12, max_epochs=10_000)
        b, alpha = found.intercept, found.alpha
    return b - b.mean(), alpha[labels]


def no_worse_than_null(problem: Problem, found: Solution, tol: float) -> Solution:
    """Return a solution, or weights 0 with the best intercept where these are better or the solution is not finite.

    A converged solution is within `tol` of the optimum and returned unchanged. A dual value that is not a number proves
    nothing and is replaced by -inf.
    """
    last = found.history[-1]
    finite = np.isfinite(last.primal) and np.isfinite(found.coef).all() and np.all(np.isfinite(found.intercept))
    if finite and found.converged:
        return found
    zero = np.zeros(problem.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        b, alpha = _null_point(problem)
        primal = problem.primal(zero, b)
    if finite and not primal < last.primal:
        return found
    if not np.isfinite(primal):
        raise ValueError(
            f"the objective is not finite, with weights 0 neither: {problem.loss} of labels between "
            f"{problem.rows.y.min():.3g} and {problem.rows.y.max():.3g} and {problem.penalty!r}; scale the labels"
        )
    own = float(dual_point(problem, alpha).value)
    known = [value for value in (last.dual, own) if np.isfinite(value)]
    dual = min(max(known, default=-np.inf), primal)
    if not own >= dual:
        alpha = found.alpha
    record = Record(last.epoch, last.seconds, primal, dual, primal - dual, 0)
    proved = bool(record.gap <= tol * max(abs(primal), abs(dual)))
    return Solution(zero, b, np.nan_to_num(alpha), [*found.history, record], proved)


def _null_point(problem: Problem) -> tuple[Any, Array]:
    """Return the best intercept of weights 0 and its dual point; intercepts 0 where a class without rows has none."""
    try:
        return null_point(problem)
    except ValueError:
        zero = np.zeros((problem.rows.n_rows, problem.n_outputs))
        return zero[0], -problem.loss.slope(zero, problem.labels)


def zeroing_strength(penalty: Penalty, v: Array) -> float:
    """Return the least s for which all weights are 0 in argmin_w s Psi(w) - <v, w>, inf if there is none.

    L1: max_j |v_j| / l1_j. GroupL2 and L2Norm alone: the largest norm of a group / lam. Others: by halving.
    """
    terms = penalty.terms(v.shape)
    if terms.coupled is None and not terms.bends:
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 asks for no strength
            return float(np.nan_to_num(np.abs(v) / terms.l1, nan=0.0, posinf=np.inf).max())
    if isinstance(terms.coupled, (GroupL2, L2Norm)) and not np.any(terms.l1):
        cut = terms.coupled._segments(v.shape)
        largest = float(cut.norm(cut.gather(v.ravel())).max())
        return largest / terms.coupled.lam if terms.coupled.lam > 0.0 or largest == 0.0 else np.inf

    def zero(s: float) -> bool:
        return not penalty.solve(-v, 1.0, k=s).any()

    high = 1.0
    while not zero(high) and high < LARGEST:
        high *= 2.0
    if high >= LARGEST:
        return np.inf
    low = 0.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if zero(middle) else (middle, high)
    return high
