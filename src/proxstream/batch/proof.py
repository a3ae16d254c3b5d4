"""The proof that a solver's result is returned with: its dual value, with all that rounding may have added taken off.

On the way a solver computes dual values in the way that is cheapest for it, by plain sums; they decide when it stops.
What is reported is computed again from the dual variables alone (`rounding`). Where the solver's own sums v are good
enough that costs no pass over the data; otherwise sums are compensated.

A feature without any penalty asks for sum_i p_i alpha_i x_ij = 0, which no alpha in 64 bits satisfies (the intercept is
an exception: its sides can be scaled). There the solver's value is kept, and may be off by 1e-13 of its terms.
"""

from __future__ import annotations

import math

import numpy as np

from .dual import combine, dual_point, proved_value
from .penalty_conjugates import conjugate_of
from .problem import Problem, Solution, within
from .rounding import DualSums, exact_total

AIM = 0.99  # of tol that a solver gets: the rest is for what rounding takes off its proof
SPARE = 0.003  # of tol that plain sums may take off


def proved(problem: Problem, found: Solution, tol: float) -> Solution:
    """Return a solution whose last record has a dual value that is not above the optimum, however sums were rounded."""
    last = found.history[-1]
    if not (math.isfinite(last.primal) and math.isfinite(last.dual)) or _unpenalized(problem):
        return found
    enough = last.dual - SPARE * tol * max(abs(last.primal), abs(last.dual))
    value = _from_plain_sums(problem, found)
    if not value >= enough:
        value = max(value, proved_value(problem, found.alpha, conjugate_of(problem.penalty, problem.shape)))
    if not value >= enough:  # a solver whose best dual value was that of another alpha
        value = max(value, dual_point(problem, found.alpha).value)
    dual = min(value, last.primal)
    record = last._replace(dual=dual, gap=last.primal - dual)
    lost = within(last, tol) and not within(record, tol)
    return found._replace(history=[*found.history[:-1], record], converged=found.converged and not lost, v=None)


def _unpenalized(problem: Problem) -> bool:
    """Return whether some features have no penalty and others have one."""
    terms = problem.penalty.terms(problem.shape)
    return terms.only_l1_l2 and not np.all(np.add(terms.l1, terms.l2) > 0.0)


def _from_plain_sums(problem: Problem, found: Solution) -> float:
    """Return a lower bound on the optimum from v as the solver knows it."""
    v = found.v if found.v is not None else combine(problem, found.alpha)
    total = exact_total(problem.rows.c, problem.rows.n_rows)
    sums = DualSums(problem.loss, problem.shape, total, fit_intercept=problem.fit_intercept)
    sums.add_known(problem.rows, problem.labels, found.alpha, v)
    return sums.value(conjugate_of(problem.penalty, problem.shape))
