"""Prox-SDCA for one output: stochastic dual coordinate ascent with every option of the paper.

    min_w,b  sum_i p_i phi(<x_i, w> + b, y_i) + Psi(w)        Psi(w) = sum_j l1_j |w_j| + (l2_j / 2) w_j^2, all l2_j > 0

Each step moves the dual variable of one row, and with it v = sum_i p_i alpha_i x_i and the weights
w = grad Psi*(v) = soft(v, l1) / l2. `_sweep` has the steps, `run` the passes and the certificates.

Without squares, where an l2_j is 0, Psi is not strongly convex. As in sections 3.1 and 3.2 of the paper a strongly
convex part is added, of strength

    lam = eps / B^2              beside ||w||_2^2 / 2,           B >= ||w*||_2
    lam = eps / (kappa B^2)      beside (kappa / 2) ||w||_q^2,   B >= ||w*||_1

for an accuracy eps = tol max(|P|, |D|), so that an eps/2-optimum with it is an eps-optimum without. B = (P - D(0)) / l1
always holds, since l1 ||w*||_1 <= P(w*) less the least the mean loss can be. The search starts with a larger lam and
weakens it fourfold whenever what is left of the gap is less than the part itself, down to that lam; and further if the
proof asks for it, which is always for the objective without the part.

The q-norm: q = p/(p - 1) with p = max(ln d, 2), and kappa = d^(2/p) (p - 1). The paper prints kappa = 3 ln d, which
falls short: at w = (1, ..., 1), along (1, -1, 1, -1, ...), the second derivative of (kappa/2) ||w||_q^2 is
kappa (q - 1) d^(-2/p) ||h||_1^2, so that strong convexity in the 1-norm needs the kappa above, about e^2 ln d.

Reference: S. Shalev-Shwartz, T. Zhang, Proximal stochastic dual coordinate ascent, 2012.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.losses import Loss
from ...core.penalties import Penalty
from ...core.penalties.base import Terms
from ...core.validation import Array, integer, one_of
from ..problem import Problem, Solution, Trace
from .run import Run

OPTIONS = ("I", "II", "III", "IV", "V")
SAMPLINGS = ("permutation", "uniform")
OUTPUTS = ("last", "average", "random")
STRONG_PARTS = ("l2", "q_norm")

_WEAKEN = 0.25
_FAINTEST = 1e-12  # of the lam that theory asks for: a weaker part proves nothing more
_SMALLEST = 1e-150  # lam, so that 1 / lam^2 is a number


@dataclass(frozen=True)
class Rule:
    """How Prox-SDCA steps, draws rows, and which of its iterates it returns (the paper's Figure 1).

    `average_from` is T_0 in passes, for the outputs "average" and "random"; None restarts the
    average after passes 1, 2, 4, ..., so that it always covers at least the second half. `strong_part` is added to a
    penalty without squares.

    >>> Rule(option="VI")
    Traceback (most recent call last):
    ValueError: option must be one of 'I', 'II', 'III', 'IV', 'V', got 'VI'
    """

    option: str = "I"
    sampling: str = "permutation"
    output: str = "last"
    average_from: int | None = None
    strong_part: str = "l2"

    def __post_init__(self) -> None:
        one_of("option", self.option, OPTIONS)
        one_of("sampling", self.sampling, SAMPLINGS)
        one_of("output", self.output, OUTPUTS)
        one_of("strong_part", self.strong_part, STRONG_PARTS)
        if self.average_from is not None:
            integer("average_from", self.average_from, low=0)

    @property
    def number(self) -> int:
        """The option's number, from 1."""
        return OPTIONS.index(self.option) + 1

    def check(self, loss: Loss) -> None:
        """Raise a TypeError for an option that the loss has no constant for."""
        if self.option == "V" and not np.isfinite(loss.smoothness):
            raise TypeError(f"option 'V' is for smooth losses: {loss} has no smoothness; options I to IV take it")


def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
    rule: Rule | None = None,
) -> Solution:
    """Solve a problem to a relative duality gap of `tol`.

    Parameters
    ----------
    problem : Problem
        Of a loss with a conjugate and one output, and L2, ElasticNet, L1, or sums of them.
    tol, max_epochs : when to stop; an epoch is a pass over all rows, and over those that have not settled
    seed : of the order of rows
    start : a solution of a problem with as many rows, whose alpha is to be the first
    n_threads : more than one: lock-free threads (only with output "last" and the l2 part; otherwise a warning)
    rule : Rule

    >>> import proxstream as ps
    >>> from proxstream.data.rowblock import as_block
    >>> problem = Problem(as_block(np.array([[1.0], [-1.0]]), y=[1, -1]), 1, ps.hinge, ps.L2(1.0))
    >>> solution = solve(problem)
    >>> solution.coef, solution.primal
    (array([1.]), 0.5)
    """
    rule = Rule() if rule is None else rule
    rule.check(problem.loss)
    terms = net_terms(problem.penalty, problem.n_features)
    trace, strong = Trace(tol), bool(np.all(np.greater(terms.l2, 0.0)))
    if n_threads > 1 and (rule.output != "last" or not (strong or rule.strong_part == "l2")):
        why = f"output={rule.output!r}" if rule.output != "last" else "strong_part='q_norm'"
        warnings.warn(f"n_threads={n_threads} does nothing with {why}: one thread is used", stacklevel=2)
        n_threads = 1
    if strong:
        run = Run(problem, link_of(terms.l1, terms.l2, problem.n_features), rule, seed, start, n_threads)
        converged = run.until(trace, max_epochs)
    else:
        squares = float(np.vdot(problem.rows.data, problem.rows.data))
        lam = first_strength(problem.loss, squares, problem.rows.n_rows)
        part = StrongPart(problem.penalty, problem.n_features, rule.strong_part, lam)
        run = Run(problem, part.link(), rule, seed, start, n_threads)
        run.rises = False
        converged = run.until(trace, max_epochs, part)
    return run.solution(trace, converged)


def net_terms(penalty: Penalty, n_features: int) -> Terms:
    """Return l1 and l2 of a penalty made of them, with one of them > 0 for each weight."""
    terms = penalty.terms((n_features,))
    if not terms.only_l1_l2 or not np.all(np.add(terms.l1, terms.l2) > 0.0):
        raise TypeError(
            "Prox-SDCA needs a strongly convex penalty, L2, ElasticNet or a sum with them, or L1, with a strength > 0 "
            f"for every weight; got {penalty!r}"
        )
    return terms


def link_of(l1: Any, l2: Any, n_features: int) -> Any:
    """Return how weights follow from v: w_j = soft(v_j, l1_j) / l2_j."""
    from . import _sweep as kernels

    if np.ndim(l1) == 0 and np.ndim(l2) == 0:
        return kernels.Net(float(l1), 1.0 / float(l2)) if l1 > 0.0 else kernels.Ridge(1.0 / float(l2))
    l1, l2 = (np.broadcast_to(x, n_features).astype(np.float64) for x in (l1, l2))
    return kernels.Nets(l1, 1.0 / l2)


def first_strength(loss: Loss, squares: float, n_rows: int) -> float:
    """Return a strength that makes the first steps easy: about as curved as the loss itself.

    `squares` is the sum of all features squared.
    """
    return max(squares / n_rows**2 * min(loss.smoothness, 1.0), 1e-12)


class StrongPart:
    """The strongly convex part that replaces missing squares, and how weak it may become."""

    def __init__(self, penalty: Penalty, n_features: int, kind: str, lam: float):
        terms = net_terms(penalty, n_features)
        self.l1, self.l2, self.kind, self.d, self.lam = terms.l1, terms.l2, kind, n_features, lam
        if kind == "q_norm" and (np.ndim(terms.l1) > 0 or np.any(terms.l2)):
            raise TypeError(f"strong_part='q_norm' takes L1 with one strength for all weights, got {penalty!r}")
        self.p = max(np.log(self.d), 2.0)
        self.kappa = self.d ** (2.0 / self.p) * (self.p - 1.0) if kind == "q_norm" else 1.0
        self.thinnest = float(np.min(np.where(np.equal(self.l2, 0.0), self.l1, np.inf)))
        self.floor = np.inf

    def link(self, share: float = 1.0) -> Any:
        """Return how weights follow from v with this part added; `share` of the penalty and of the part."""
        from . import _sweep as kernels

        if self.kind == "q_norm":
            lam = share * self.lam
            return kernels.QNorm(
                share * float(self.l1), 1.0 / (lam * self.kappa), self.p, 1.0 / lam, np.array([1.0, 0.0])
            )
        l2 = np.where(np.equal(self.l2, 0.0), self.lam, self.l2)[()]
        return link_of(np.multiply(share, self.l1), share * l2, self.d)

    def size(self, w: Array) -> float:
        """Return the part's value at w."""
        if self.kind == "q_norm":
            q, top = self.p / (self.p - 1.0), float(np.abs(w).max())
            norm = top * float(np.sum((np.abs(w) / top) ** q)) ** (1.0 / q) if top > 0.0 else 0.0
            return 0.5 * self.lam * self.kappa * norm * norm
        return 0.5 * self.lam * float(np.sum(np.square(w)[np.broadcast_to(np.equal(self.l2, 0.0), w.shape)]))

    def weaken(self, estimate: float, size: float, accuracy: float, room: float) -> bool:
        """Weaken the part if the gap left with it is less than `size`, its own value; return whether it was.

        `accuracy` is eps; `room` is P - D(0), which bounds l1 ||w*||_1.
        """
        if estimate > max(size, 0.1 * accuracy):
            return False
        least = accuracy / (self.kappa * (room / self.thinnest) ** 2) if room > 0.0 else self.lam
        if self.lam <= max(_FAINTEST * least, _SMALLEST):
            return False
        self.floor = least if self.lam > least else _WEAKEN * self.lam
        self.lam = max(_WEAKEN * self.lam, self.floor)
        return True
