"""Choice of the fastest solver for a problem; all of them end with a certificate.

    loss                       penalty                       solver
    smooth                     L2                            `newton`, or `sdca` where the penalty is strong enough
    smooth                     L1, elastic net               `l1`
    with kinks                 L2, elastic net               `sdca`, or `interior` where data are narrow and L2 is weak
    with kinks, smoothed hinge L1                            `interior`, on a working set where data are wide
    with kinks                 with a strongly convex part   `sdca`
    softmax                    L2                            `newton`, or `multiclass` where the penalty is strong
    softmax, multiclass hinge  what `multiclass` takes       `multiclass`

Under L2 the choice depends on how much one row of n bends the objective compared with the penalty,

    kappa = L mean ||x_i||^2 / (n mu)                        (1)   L the loss's smoothness, mu the penalty's strength

Prox-SDCA reduces the gap by a constant factor in 1 + kappa passes (Shalev-Shwartz and Zhang 2012, Theorem 1, whose
steps gain a factor 1 - 1 / (n (1 + kappa))). Newton's method hardly depends on kappa, but each of its steps costs
several passes. A loss with kinks counts as L = 1, or for regression as 1 / standard deviation of the labels; on narrow
data an interior-point method takes the place of Newton's.
"""

from __future__ import annotations

from importlib import import_module
from typing import Literal

import numpy as np

from ..core import losses
from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import one_of
from . import cost
from .centring import solve_centred
from .problem import Problem, Solution
from .proof import AIM

Room = Literal["sdca", "newton", "interior", "l1", "multiclass"]

MODULES: dict[Room, str] = {
    "interior": ".newton.interior",
    "l1": ".l1",
    "multiclass": ".sdca.multiclass",
    "newton": ".newton",
    "sdca": ".sdca",
}

SOLVERS = ("auto", "sdca", "newton")

NARROW = 2_500  # features up to which a Hessian is built and factorized
SDCA_BELOW, SDCA_BELOW_NARROW = 25.0, 2.0  # the largest kappa (1) for Prox-SDCA: wide data, narrow data
SDCA_BELOW_COSTLY, COSTLY = 10.0, 12.0  # narrow data of which a factorized Hessian costs as much as so many passes
SDCA_BELOW_KINKED = 3.0  # narrow data and kinks


def solve(
    problem: Problem,
    *,
    solver: str = "auto",
    tol: float = 1e-4,
    max_epochs: int = 1000,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
) -> Solution:
    """Solve a problem to a relative duality gap of `tol`, by the fastest solver or by the specified one."""

    def solved(near: Problem, start: Solution | None) -> Solution:
        room = import_module(MODULES[choose(near, solver)], __package__)
        solution: Solution = room.solve(
            near, tol=AIM * tol, max_epochs=max_epochs, seed=seed, start=start, n_threads=n_threads
        )
        return solution

    return solve_centred(problem, start, tol, solved)


def choose(problem: Problem, solver: str = "auto") -> Room:
    """Return the key in `MODULES` of the solver for the problem; raise a TypeError if there is none.

    >>> import numpy as np
    >>> from proxstream import L1, L2, losses
    >>> from proxstream.data.rowblock import as_block
    >>> rows = as_block(np.eye(4), [1.0, -1.0, 1.0, -1.0])
    >>> [choose(Problem(rows, 4, losses.logistic, penalty)) for penalty in (L1(0.1), L2(1.0), L2(1e-4))]
    ['l1', 'sdca', 'newton']
    """
    one_of("solver", solver, SOLVERS)
    loss, penalty = problem.loss, problem.penalty
    if not loss.has_conjugate:
        raise TypeError(f"{loss} has no conjugate, which a certificate needs; take a built-in loss")
    primal = _primal(problem)
    dual: Room = "multiclass" if loss.kind == "multiclass" else "sdca"
    if solver == "newton":
        if primal is None:
            raise TypeError(_refusal(loss, penalty))
        return primal
    if solver == "auto":
        if primal == "l1" or (primal is not None and kappa(problem) > _limit(problem, primal)):
            return primal
        if dual == "sdca" and not penalty.strong_convexity > 0.0:
            raise TypeError(_refusal(loss, penalty))
    return dual


def _primal(problem: Problem) -> Room | None:
    """Return the solver that works on weights, not on dual variables alone, if there is one."""
    terms = problem.penalty.terms(problem.shape)
    under_l1 = bool(terms.only_l1_l2 and np.any(terms.l1))  # a strength may be 0
    if under_l1 and takes_l1(problem.loss):
        return "l1"
    strong = bool(np.all(np.greater(terms.l2, 0.0)))
    if not (terms.only_l1_l2 and (strong or np.all(np.add(terms.l1, terms.l2) > 0.0))):
        return None
    narrow_with_kinks = problem.loss.piecewise_linear and problem.n_features <= NARROW
    if problem.loss.has_sides and (narrow_with_kinks or not strong):
        return "interior"
    return "newton" if problem.loss.smooth and not under_l1 else None


def takes_l1(loss: Loss) -> bool:
    """Whether the `l1` solver takes a loss."""
    return loss.smooth and loss.under_l1 and loss.kind != "multiclass"


def _limit(problem: Problem, primal: Room) -> float:
    """Return the largest kappa at which Prox-SDCA is faster than the other solver."""
    if primal != "newton":
        return SDCA_BELOW_KINKED
    if problem.n_features > NARROW:
        return SDCA_BELOW
    _, seconds = cost.factorized_hessian(problem.rows.indptr, float(problem.fit_intercept), problem.n_features + 1)
    costly = problem.n_outputs == 1 and seconds > COSTLY * cost.data_pass(len(problem.rows.data))
    return SDCA_BELOW_COSTLY if costly else SDCA_BELOW_NARROW


def kappa(problem: Problem) -> float:
    """Return (1): how much a row bends the objective beside the penalty; inf where one of them has no bound."""
    n, mu = problem.rows.n_rows, problem.penalty.strong_convexity
    squares = float(np.vdot(problem.rows.data, problem.rows.data)) / n
    if not squares > 0.0:
        return 0.0
    bend = problem.loss.smoothness
    if problem.loss.piecewise_linear:
        bend = 1.0 if problem.loss.kind != "regression" else 1.0 / (float(np.std(problem.rows.y)) or 1.0)
    return bend * squares / (n * mu) if mu > 0.0 else np.inf


def _refusal(loss: Loss, penalty: Penalty) -> str:
    every = [one for one in map(losses.get, losses.names()) if one.kind != "ranking" and one.has_conjugate]
    under_l1 = ", ".join(one.name for one in every if takes_l1(one) or one.has_sides)
    others = " and ".join(one.name for one in every if one.smooth and not takes_l1(one) and not one.has_sides)
    return (
        f"no solver for loss {loss} with penalty {penalty!r}: {under_l1} take L1 and ElasticNet, and with {others} L2, "
        "with a strength > 0 for every weight; other losses with kinks, and penalties with other parts, need L2 or "
        "ElasticNet among the parts"
    )
