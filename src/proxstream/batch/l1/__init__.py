"""Smooth losses under l1 and l2: proximal Newton steps, on the features that can matter.

    P(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + sum_j l1_j |w_j| + (l2_j / 2) w_j^2                              (1)

An epoch is

1. everything computed from the weights alone, and the certificate (`point`), which also rules features out for good;
2. proximal Newton steps on the live features, those with a weight or with a slope near the threshold: by coordinate
   descent on the columns (`sweeps`), and when few are left through their Gram matrix (`gram`).

Columns that no dual point can pull across their threshold are dropped first: a loss of bounded slope bounds
|<x_j, theta>| by sums over the column alone. Narrow sparse data go to `narrow` first. docs/l1_solver.md describes all
methods and how one is chosen.

Reference: G.-X. Yuan, C.-H. Ho, C.-J. Lin, An improved GLMNET for l1-regularized logistic regression, 2012; E. Ndiaye,
O. Fercoq, A. Gramfort, J. Salmon, Gap safe screening rules for sparsity enforcing penalties, 2017.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.validation import Array
from ...data.threads import ALONE, Threads
from .. import cost, narrow
from ..problem import Problem, Solution, Trace
from ..rounding import UNIT
from . import _csc as kernels, gram, squares
from ._kernels import violations
from .gram import Gram
from .point import Point, Proof, Strengths
from .sweeps import Step, Sweeps

SURE = 1e-9  # part of l1 by which a column has to stay below it to be dropped
NEAR = 0.9  # part of l1 from which |G_j| makes a resting feature worth looking at
TENTH = 0.1  # of the first violations: there an epoch ends
MOST_STEPS = 50
LONGEST, SHORTEST = 0.3, 20.0  # an epoch, in parts of all the steps before it, and in passes over the data
GRAM_PASSES = 90  # over a Gram matrix, of a few models: with few entries per column these cost more than the data
SETTLING = 0.002  # part of P by which an epoch may have lowered it where projections begin
STALLED, STUCK = 8, 30  # epochs without progress where the gap is small, and where it is not


def solve(
    problem: Problem,
    *,
    tol: float,
    max_epochs: int,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
) -> Solution:
    """Minimize (1) until the duality gap is at most `tol` of the objective, or for `max_epochs`."""
    psi, trace = strengths(problem), Trace(tol)
    if problem.loss.name == "squared" and np.all(psi.l1 > 0.0):
        solution, ended = squares.solve(problem, psi, trace, max_epochs, start, n_threads)
        if ended:
            return solution
        start = solution if solution.coef.any() else start
    elif narrow.suits(problem, *psi):
        solution, ended = narrow.solve(problem, *psi, trace, max_epochs, start, n_threads)
        if ended:
            return solution
        start = solution
    with Threads(n_threads) as threads:
        return _solve(problem, psi, trace, max_epochs, seed, start, threads)


def _solve(
    problem: Problem, psi: Strengths, trace: Trace, max_epochs: int, seed: int, start: Solution | None, threads: Threads
) -> Solution:
    """Solve by proximal Newton steps, continuing the trace."""
    w = np.zeros(problem.n_features) if start is None else np.array(start.coef, dtype=np.float64)
    b = [0.0 if start is None else float(start.intercept)] * problem.fit_intercept
    kept, parts = survivors(problem, psi, threads)
    zeros = np.zeros(len(b))
    at = Point(
        problem,
        kernels.gather(problem.rows, kept, parts, problem.n_features, problem.fit_intercept),
        Strengths(np.append(psi.l1[kept], zeros), np.append(psi.l2[kept], zeros)),
        np.append(w[kept], b),
        threads,
    )
    proof, descent = Proof(problem, at, start), _Descent(at, seed, trace.tol)
    epoch, slopes = len(trace.history), None
    while True:
        at.refresh()
        proof.settle()
        if slopes is not None:
            proof.offer(slopes, at.w)
        proof.offer(at.theta, at.w)
        nnz = int(np.count_nonzero(at.w[: len(kept)]))
        if _settling(trace, at.primal):
            proof.project(trace.tol, descent.seconds, descent.sweeps.face.preconditioner)
        done = trace.certify(epoch, at.primal, proof.dual, nnz)
        if done or epoch >= max_epochs or _stalled(trace):
            break
        epoch += 1
        slopes = descent.improve(proof.alive, proof.G)
    coef, v = np.zeros(problem.n_features), np.zeros(problem.n_features)
    coef[kept] = at.w[: len(kept)]
    v[kept] = proof.products()[: len(kept)]
    return Solution(coef, float(at.w[-1]) if problem.fit_intercept else 0.0, proof.alpha, trace.history, done, v)


def _settling(trace: Trace, primal: float) -> bool:
    """Return whether the weights are near enough to the optimum for a projection of their slopes to prove anything."""
    return bool(trace.history) and trace.history[-1].primal - primal <= SETTLING * abs(primal)


def _stalled(trace: Trace) -> bool:
    """Return whether rounding hides all further progress."""
    gaps = [record.gap for record in trace.history[-STUCK:]]
    if trace.stalled or (len(gaps) == STUCK and not min(gaps) < 0.99 * gaps[0]):
        return True
    gaps = gaps[-STALLED:]
    return len(gaps) == STALLED and min(gaps) == gaps[0] and gaps[0] <= 1e-8 * abs(trace.history[-1].primal)


def strengths(problem: Problem) -> Strengths:
    """Return l1 and l2 of each feature; a TypeError if the loss or the penalty is not one that (1) speaks of."""
    loss = problem.loss
    if not (loss.smooth and loss.under_l1 and loss.kind != "multiclass"):
        raise TypeError(f"the l1 solver takes smooth losses of one score, got {loss}")
    shape = (problem.n_features,)
    terms = problem.penalty.terms(shape)
    if not terms.only_l1_l2:
        raise TypeError(f"penalty must be a sum of L1, L2 and ElasticNet, got {problem.penalty!r}")
    return Strengths(*(np.broadcast_to(np.asarray(term, np.float64), shape) for term in (terms.l1, terms.l2)))


def survivors(problem: Problem, psi: Strengths, threads: Threads = ALONE) -> tuple[Array, kernels.Parts]:
    """Return the features that the optimum may use, and how many entries each has in parts of the rows."""
    loss, p, y, rows = problem.loss, problem.shares, problem.rows.y, problem.rows
    low = high = np.zeros_like(p)
    if math.isfinite(loss.lipschitz):
        edge = loss.lipschitz * p
        low, high = -edge, edge
        if loss.kind == "binary":  # slopes are between -y L and 0
            low, high = np.where(y > 0.0, low, 0.0), np.where(y > 0.0, 0.0, high)

    def work(first: int, last: int) -> Array:
        table = np.zeros((problem.n_features, 3))
        kernels.tally(rows, low, high, first, last, table)
        return table

    ranges = threads.ranges_by_entries(rows.indptr)
    tables = threads.each(work, ranges)
    table = sum(tables[1:], start=tables[0])
    pulled = table[:, 0] > 0.0
    if math.isfinite(loss.lipschitz):
        pulled &= np.maximum(-table[:, 1], table[:, 2]) > psi.l1 * (1.0 - max(SURE, problem.rows.n_rows * 4.0 * UNIT))
    kept = np.flatnonzero(pulled)
    return kept, kernels.Parts(ranges, threads.each, [one[kept, 0].astype(np.int64) for one in tables])


class _Descent:
    """Newton steps by whichever way is the cheaper."""

    def __init__(self, at: Point, seed: int, tol: float):
        self.at, self.tol = at, tol
        self.sweeps = Sweeps(at, seed)
        self.gram: Gram | None = None
        self._gram_seconds = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of all steps so far, by the cost model."""
        return self.sweeps.seconds + self.sweeps.face.seconds + self._gram_seconds

    def improve(self, alive: Array, G: Array) -> Array | None:
        """Take steps until a tenth of the violations is left; return the slopes of the last model if it was trusted."""
        at = self.at
        far = np.empty(len(alive))
        violations(alive, at.w, G, at.psi.l1, at.psi.l2, far)
        live = alive[(at.w[alive] != 0.0) | (np.abs(G[alive]) >= NEAR * at.psi.l1[alive])]
        target, slack = TENTH * float(far.sum()), float(far.max(initial=0.0))
        step, start = None, self.seconds
        for _ in range(MOST_STEPS):
            step = self._step(live, slack)
            live, slack = step.live, step.largest
            if step.costly or step.total <= target or step.largest <= self._goal():
                break
            if self.seconds - start >= max(LONGEST * start, SHORTEST * cost.data_pass(float(at.columns.ptr[-1]))):
                break
        return step.slopes if step is not None and step.length == 1.0 else None

    def _goal(self) -> float:
        """Return how large a violation may be that still lets slopes prove tol."""
        size = float(np.sum(np.abs(self.at.w)))
        return 0.3 * self.tol * self.at.primal / size if size > 0.0 else 0.0

    def _step(self, live: Array, slack: float) -> Step:
        if self.gram is not None:
            new = self.gram.lacks(live)
            if len(new) <= 0.3 * len(self.gram.S) and len(new) + len(self.gram.S) <= gram.MOST_COLUMNS:
                self.gram.extend(new)
                return self._gram_step(self.gram)
            self.gram = None
        if self._worth_a_gram(live):
            self.gram = Gram(self.at, np.sort(live))
            self._gram_seconds += self._gram_cost(live)
            return self._gram_step(self.gram)
        return self.sweeps.step(live, slack, self._goal())

    def _worth_a_gram(self, live: Array) -> bool:
        settled = len(live) < 300 or len(live) <= 1.5 * np.count_nonzero(self.at.w)
        if len(live) > gram.MOST_COLUMNS or not settled:
            return False
        m = float(len(live))
        models = cost.FACE_FACTOR * m**3 + GRAM_PASSES * cost.FACTOR_CELL * m**2
        return self.sweeps.seconds >= self._gram_cost(live) + models

    def _gram_cost(self, live: Array) -> float:
        ptr = self.at.columns.ptr
        return float(cost.gram(len(self.at.z), float(np.sum(ptr[live + 1] - ptr[live])), len(live)))

    def _gram_step(self, gram: Gram) -> Step:
        self._gram_seconds += cost.FACE_FACTOR * float(len(gram.S)) ** 3 + cost.FACE_PRODUCT * len(gram.X.data)
        return gram.step()
