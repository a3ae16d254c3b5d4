"""Pairs of digits, one pass over them by each of the methods that section 6 compares, and the batch optimum.

| method              | step                                                  | compared by its           |
|---------------------|-------------------------------------------------------|---------------------------|
| SGD                 | w - alpha (g + lam sgn w)                             | weights beyond ROUNDING   |
| TG, K = 1 (FOBOS)   | soft(w - alpha g, alpha lam)                          | weights that are not zero |
| TG, K = 10          | every tenth round soft(w - alpha g, 10 alpha lam)     | weights beyond ROUNDING   |
| RDA, rho = 0        | -(sqrt(t)/gamma) soft(mean g, lam)                    | weights that are not zero |
| RDA, enhanced       | the same with lam + gamma rho / sqrt(t), equation 30  | weights that are not zero |

Means of weights have no exact zeros in any method: they are all counted beyond ROUNDING, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from ...core.algorithms import RDA, SGD, Algorithm, TruncatedGradient
from ...core.penalties import L1
from ...core.validation import Array
from ...data.rowblock import RowBlock
from ...datasets import Rows, Split, load_mnist
from ...estimators import CertifiedClassifier
from ...learner.learner import Learner
from ..run import Run


@dataclass(frozen=True, eq=False)
class Pair:
    """The images of two digits: -1 is the first, +1 the second."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @cached_property
    def sparse(self) -> csr_array:
        """The training rows without their zeros, four in five."""
        return csr_array(self.X)

    def rows(self, order: Array) -> RowBlock:
        """Return the training rows in this order, as a block."""
        matrix = self.sparse[order]
        return RowBlock(matrix.indptr, matrix.indices, matrix.data, self.y[order])

    def part(self, indices: Array) -> Pair:
        """Return the pair with some of the training rows; the test rows stay."""
        return replace(self, X=self.X[indices], y=self.y[indices])

    def error(self, weights: Array, intercept: float) -> float:
        """Return the percentage of test rows on the wrong side; a score of 0 is on none."""
        return 100.0 * float(np.mean(self.y_test * (self.X_test @ weights + intercept) <= 0.0))

    def strongest(self) -> float:
        """Return the least lambda whose optimum has no weight: the largest gradient under the best intercept alone."""
        positive = np.mean(self.y > 0.0)
        residuals = positive - (self.y > 0.0)
        return float(np.max(np.abs(residuals @ self.X)) / len(self.y))


@lru_cache(maxsize=1)
def digits(folder: Path | None) -> Split[Rows]:
    """Return MNIST from its folder or, without one, scikit-learn's 8 by 8 digits with their 16 greys spread to 255."""
    if folder is not None:
        return load_mnist(folder)
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    images = np.round(found.data * (255.0 / 16.0))
    held_out = np.arange(len(images)) % 4 == 0
    return Split(Rows(images[~held_out], found.target[~held_out]), Rows(images[held_out], found.target[held_out]))


@lru_cache(maxsize=2)
def pair(folder: Path | None, first: int, second: int) -> Pair:
    """Return the rows of two digits."""
    both = digits(folder)

    def chosen(rows: Rows) -> tuple[Array, Array]:
        kept = (rows.y == first) | (rows.y == second)
        return rows.X[kept].astype(np.float64), np.where(rows.y[kept] == second, 1.0, -1.0)

    return Pair(*chosen(both.train), *chosen(both.test))


ROUNDING = 1e-5
GAMMA, EXTRA = 5000.0, 25.0  # gamma, and gamma rho of the enhanced method
BASIC = ("SGD", "TG, K=1", "RDA, ρ=0")
ENHANCED = ("SGD", "TG, K=10", "RDA, γρ=25")
METHODS = (*BASIC, *ENHANCED[1:])
RDA_ENHANCED = ENHANCED[2]
_EXACT = {"TG, K=1", "RDA, ρ=0", "RDA, γρ=25"}


class Weights(NamedTuple):
    """A linear model."""

    coef: Array
    intercept: float


class Task(NamedTuple):
    """Passes over one pair: which rows, in which orders, by which method."""

    run: Run
    digits: tuple[int, int]
    method: str
    strength: float
    gamma: float = GAMMA
    orders: range = range(1)
    part: tuple[int, int] | None = None  # which of how many random parts of the training rows

    def pair(self) -> Pair:
        """Return the rows."""
        both = pair(folder(self.run), *self.digits)
        if self.part is None:
            return both
        which, parts = self.part
        shuffled = self.run.generator(*self.digits, parts).permutation(len(both.y))
        return both.part(np.array_split(shuffled, parts)[which])

    def order(self, number: int, n_rows: int) -> Array:
        """Return the permutation of this number, the same one for every method and strength."""
        return self.run.generator(*self.digits, 0, number).permutation(n_rows)


class Outcome(NamedTuple):
    """One pass: test error in percent and number of non-zeros, of the last weights and of the mean of all."""

    error: float
    nnz: int
    mean_error: float
    mean_nnz: int


LAST, MEAN = (0, 1), (2, 3)  # places of error and non-zeros in an Outcome


def folder(run: Run) -> Path | None:
    """Return the folder of MNIST, or None for the digits that scikit-learn has."""
    return None if run.quick else run.folder("mnist")


def algorithm(method: str, rounds: int, gamma: float = GAMMA) -> Algorithm:
    """Return the method at the published settings for a pass of `rounds` rows."""
    alpha = math.sqrt(2.0 / rounds) / gamma  # what minimizes the bound (19) at T if the one of RDA has this gamma
    return {
        "SGD": SGD(alpha, schedule="constant"),
        "TG, K=1": TruncatedGradient(alpha, every=1, schedule="constant"),
        "TG, K=10": TruncatedGradient(alpha, every=10, schedule="constant"),
        "RDA, ρ=0": RDA(gamma),
        "RDA, γρ=25": RDA(gamma, rho=EXTRA / gamma),
    }[method]


def nonzeros(method: str, coef: Array) -> int:
    """Count the weights that are not zero, as the paper counts them for this method's last weights."""
    return int(np.count_nonzero(np.abs(coef) > (0.0 if method in _EXACT else ROUNDING)))


def _learner(method: Algorithm, strength: float, n_features: int) -> Learner:
    return Learner(method, "logistic", L1(strength), n_features=n_features, average=True)


def learned(method: Algorithm, strength: float, rows: RowBlock, n_features: int) -> tuple[Weights, Weights]:
    """Return the last weights and the mean of the weights played, after one pass of a compiled learner."""
    learner = _learner(method, strength, n_features)
    learner.learn(rows)
    return Weights(*learner.engine.weights()), Weights(*learner.engine.averages())


def descended(
    pair: Pair, orders: Sequence[Array], method: SGD | TruncatedGradient, strength: float
) -> list[tuple[Weights, Weights]]:
    """Return what `learned` returns for a descent at a constant rate, for many orders at once.

    Under an l1 norm SGD moves every weight in every round, which no learner can put off. Side by side, the runs cost a
    few operations on a matrix per round, and truncated gradients not even these.
    """
    X, y = np.column_stack((pair.X, np.ones(len(pair.y)))), pair.y
    which = np.array(orders).T
    W = np.zeros((which.shape[1], X.shape[1]))
    Z, S, total = np.empty_like(W), np.empty_like(W), np.zeros_like(W)
    alpha, every = method.eta, method.every if isinstance(method, TruncatedGradient) else 0
    shrink = np.full(X.shape[1], alpha * strength * max(every, 1))
    shrink[-1] = 0.0  # the intercept is free
    for t, rows in enumerate(which, 1):
        total += W
        np.take(X, rows, axis=0, out=Z)
        labels = y[rows]
        Z *= (-alpha * labels * expit(-labels * np.einsum("ij,ij->i", Z, W)))[:, None]
        if not every:
            np.sign(W, out=S)
            S *= shrink
            Z += S
        W -= Z
        if every and t % every == 0:
            np.clip(W, -shrink, shrink, out=S)
            W -= S  # soft(w, s) = w - clip(w, -s, s)
    means = total / len(which)
    return [(Weights(w[:-1], float(w[-1])), Weights(m[:-1], float(m[-1]))) for w, m in zip(W, means, strict=True)]


def weights(task: Task) -> list[tuple[Weights, Weights]]:
    """Return the last weights and their means for each of a task's orders."""
    both = task.pair()
    orders = [task.order(number, len(both.y)) for number in task.orders]
    method = algorithm(task.method, len(both.y), task.gamma)
    if isinstance(method, (SGD, TruncatedGradient)):
        return descended(both, orders, method, task.strength)
    return [learned(method, task.strength, both.rows(order), both.X.shape[1]) for order in orders]


def outcomes(task: Task) -> list[Outcome]:
    """Return errors and non-zeros for each of a task's orders."""
    both = task.pair()
    return [
        Outcome(
            both.error(*last),
            nonzeros(task.method, last.coef),
            both.error(*mean),
            int(np.count_nonzero(np.abs(mean.coef) > ROUNDING)),
        )
        for last, mean in weights(task)
    ]


def trace(task: Task) -> Array:
    """Return the number of non-zeros of w_t after every round t of the first order."""
    both = task.pair()
    rows = both.rows(task.order(task.orders[0], len(both.y)))
    method = algorithm(task.method, len(both.y), task.gamma)
    learner = _learner(method, task.strength, both.X.shape[1])
    counts = np.empty(rows.n_rows, dtype=np.int64)
    for t in range(rows.n_rows):
        start, end = rows.indptr[t : t + 2]
        learner.learn(
            RowBlock(np.array([0, end - start]), rows.indices[start:end], rows.data[start:end], rows.y[t : t + 1])
        )
        counts[t] = nonzeros(task.method, learner.engine.weights()[0])
    return counts


TOL = 1e-5


class Optimum(NamedTuple):
    """Weights that no others beat by more than `gap` times their objective."""

    weights: Weights
    error: float
    nnz: int
    gap: float


def optimum(task: Task) -> Optimum:
    """Return the minimum over w and b of the mean logistic loss + lambda ||w||_1 on a task's rows."""
    both = task.pair()
    model = CertifiedClassifier(penalty=L1(task.strength), tol=TOL, random_state=task.run.seed).fit(both.sparse, both.y)
    found = Weights(model.coef_[0], float(model.intercept_[0]))
    nnz = int(np.count_nonzero(found.coef))
    return Optimum(found, both.error(*found), nnz, model.duality_gap_ / model.primal_)
