"""Dual points: from any alpha, or any model, to a lower bound on what any weights can reach.

    P(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + Psi(w)
    D(alpha) = -sum_i p_i phi*(-alpha_i, y_i) - Psi*(sum_i p_i alpha_i x_i)       P >= D whatever w, b and alpha

An alpha becomes a proof in four steps, each of which keeps what the one before it made good:

1. into the domain of phi*: each alpha_i is clipped (each row of a matrix put back in the simplex);
2. with an unpenalized intercept, sum_i p_i alpha_i = 0: the heavier of the positive and the negative side is scaled
   down, which stays in the domain since that holds 0;
3. into the domain of Psi*: all of alpha is scaled down (L1: ||X'alpha||_inf <= lam), which keeps 1 and 2;
4. the best of all smaller scales is taken: D is concave along the ray.

For many classes at once step 2 is a flow. Row i of class y sends p_i b_ij from y to j (alpha_i = e_y - b_i), and the
sum vanishes when each class receives what it sends. Flows scaled by 1 - (f_y - f_j), with potentials f from one linear
system, do that exactly; a common factor then keeps every scale below 1.

A solver calls `dual_point` with its own alpha. `proxstream.batch.certificate` makes alphas for models that have none.

The conjugate of a penalty is Psi*(v) = sup_w <v, w> - Psi(w):

    Psi                              Psi*(v)                                     finite where
    sum l1_j |w_j| + (l2_j/2) w_j^2  sum (|v_j| - l1_j)+^2 / (2 l2_j)            |v_j| <= l1_j wherever l2_j = 0
    lam sum_g ||w_g||_2              sum_g (||soft(v_g, l1)|| - lam)+^2 / (2 l2) that norm <= lam if l2 = 0
      + l1 ||w||_1 + (l2/2) ||w||^2
    every other penalty              <v, w> - Psi(w) at the w that `solve(-v, h=0)` finds

The domain is convex and holds 0 (Psi is bounded below), so on the ray s v it is an interval [0, limit].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from functools import reduce
from typing import NamedTuple

import numpy as np

from ..core.penalties import GroupL2, L2Norm, Penalty
from ..core.penalties.base import Terms
from ..core.validation import Array
from .problem import Problem

LOOKS = (1.0, 0.9999)  # parts of the largest scale that are tried first
LADDER = np.array([0.99, 0.9, 0.6, 0.3, 0.1, 0.01, 0.001, 0.0])
_POINTS = 8  # scales that are tried at once
_ROUNDS = 8


class Certificate(NamedTuple):
    """What is proved of a model: P(w), a lower bound on every P, and their distance.

    No weights whatsoever have an objective below `dual`; so `gap` bounds how much could still be gained.

    >>> Certificate(primal=0.5, dual=0.4, gap=0.1).relative_gap
    0.2
    """

    primal: float
    dual: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """The gap as a part of the larger of |primal| and |dual|, which solvers compare with `tol`."""
        size = max(abs(self.primal), abs(self.dual))
        return self.gap / size if size > 0.0 else 0.0

    @classmethod
    def of(cls, primal: float, dual: float) -> Certificate:
        """Certify; by weak duality a dual value above the primal one can only be rounding."""
        dual = min(dual, primal)
        return cls(primal, dual, primal - dual if primal > dual else 0.0)


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
    >>> dual_point(problem, np.array([3.0, -0.5])).value
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
        s, value = found.value
    if s != 1.0:
        repaired *= s
        v *= s
    return DualPoint(value, repaired, v)


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


# -- conjugates of penalties ----------------------------------------------------------------------


_HALVINGS = 60


class PenaltyConjugate(ABC):
    """Psi* along rays from 0."""

    @abstractmethod
    def limit(self, v: Array) -> float:
        """Return the largest s in [0, 1] for which Psi*(s v) is finite."""

    @abstractmethod
    def value(self, v: Array, scale: float = 1.0) -> float:
        """Return Psi*(scale v) for a scale up to the limit."""


def conjugate_of(penalty: Penalty, shape: tuple[int, ...]) -> PenaltyConjugate:
    """Return the conjugate of a penalty on weights of this shape.

    >>> from proxstream import L1, L2
    >>> v = np.array([3.0, -1.0])
    >>> conjugate_of(L1(1.0) + L2(0.5), v.shape).value(v), conjugate_of(L1(1.5), v.shape).limit(v)
    (4.0, 0.5)
    """
    if not isinstance(penalty, Penalty):
        raise TypeError(f"penalty must be a Penalty such as L2(1e-4), got {penalty!r}")
    penalty.check_shape(shape)
    terms = reduce(Terms.join, (part.terms(shape) for part in penalty.parts))
    if terms.only_l1_l2:
        return Net(terms, shape)
    others = terms._replace(coupled=None, bends=())
    if others.only_l1_l2 and isinstance(terms.coupled, (GroupL2, L2Norm)) and np.ndim(terms.l2) == 0:
        return _Groups(terms, terms.coupled, shape)
    return _Solved(penalty)


class Net(PenaltyConjugate):
    """L1, L2, the elastic net, with one strength or one per weight; no penalty at all."""

    def __init__(self, terms: Terms, shape: tuple[int, ...]):
        self.l1, self.l2 = (_flat(strength, shape) for strength in (terms.l1, terms.l2))

    def limit(self, v: Array) -> float:
        """Return the largest s in [0, 1] for which Psi*(s v) is finite."""
        from ._conjugates import net_limit

        return float(net_limit(v.ravel(), self.l1, self.l2))

    def value(self, v: Array, scale: float = 1.0) -> float:
        """Return Psi*(scale v) for a scale up to the limit."""
        from ._conjugates import net_conjugate

        return float(net_conjugate(v.ravel(), self.l1, self.l2, scale))

    def primal(self, w: Array) -> float:
        """Return Psi(w) itself."""
        from ._conjugates import net_value

        return float(net_value(w.ravel(), self.l1, self.l2))


class _Groups(PenaltyConjugate):
    """Norms of groups with an l1 norm and one strength of squares beside them."""

    def __init__(self, terms: Terms, norm: GroupL2 | L2Norm, shape: tuple[int, ...]):
        self.l1, self.l2, self.lam = terms.l1, float(terms.l2), norm.lam
        self.cut = norm._segments(shape)

    def _norms(self, v: Array, scale: float) -> Array:
        return self.cut.norm(self.cut.gather(np.maximum(scale * np.abs(v) - self.l1, 0.0).ravel()))

    def limit(self, v: Array) -> float:
        if self.l2 > 0.0:
            return 1.0
        return _last(lambda s: bool(np.all(self._norms(v, s) <= self.lam)))

    def value(self, v: Array, scale: float = 1.0) -> float:
        if self.l2 == 0.0:
            return 0.0
        beyond = np.maximum(self._norms(v, scale) - self.lam, 0.0)
        return 0.5 * float(np.sum(beyond * (beyond / self.l2)))


class _Solved(PenaltyConjugate):
    """Any other penalty, through the solver of its subproblem without curvature."""

    def __init__(self, penalty: Penalty):
        self.penalty = penalty

    def limit(self, v: Array) -> float:
        return _last(lambda s: np.isfinite(self.value(v, s)))

    def value(self, v: Array, scale: float = 1.0) -> float:
        try:
            w = self.penalty.solve(-scale * v, 0.0)
        except ValueError:  # no minimizer: outside the domain
            return np.inf
        return scale * float(np.sum(v * w)) - self.penalty.value(w)


def _flat(strength: Array | float, shape: tuple[int, ...]) -> Array:
    """Return one number, or one per weight, as a flat array."""
    if np.ndim(strength) == 0:
        return np.full(1, float(strength))
    return np.broadcast_to(strength, shape).astype(np.float64).ravel()


def _last(inside: Callable[[float], bool]) -> float:
    """Return the largest s of [0, 1] that is inside, for a set that holds 0 and every s below another."""
    if inside(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low
