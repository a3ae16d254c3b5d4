"""Batch solvers to compare with, each as a function of one tolerance that returns weights; none fits an intercept.

All of them minimize  mean loss + l1 ||w||_1 + (l2/2) ||w||^2  in their own scale. A peer's data are put in the form
that it works on (64-bit; column by column for coordinate descent) before the clock starts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix

Solve = Callable[[float], Any]  # tolerance -> weights

TOLERANCES = tuple(10.0**-k for k in range(1, 10))
MANY = 100_000  # iterations: the time limit ends a run, not their number


class Task(NamedTuple):
    """Rows, labels, and what is to be minimized."""

    X: csr_matrix
    y: np.ndarray
    loss: str
    l1: float
    l2: float

    @property
    def C(self) -> float:  # noqa: N802 (the name it has in every package)
        """The weight of a row's loss, where the penalty has weight one."""
        return 1.0 / (max(self.l1, self.l2) * self.X.shape[0])


def liblinear(task: Task, solver: int) -> Solve:
    """LIBLINEAR: -s 0 and 7 (l2-logistic, primal and dual), 3 (l2-hinge, dual), 6 (l1-logistic)."""
    from liblinear.liblinearutil import parameter, problem, train

    rows = problem(task.y, task.X.astype(np.float64))

    def solve(tol: float) -> Any:
        model = train(rows, parameter(f"-s {solver} -c {task.C!r} -e {tol!r} -q"))
        return np.array(model.w[: task.X.shape[1]]) * (1.0 if model.label[0] == 1 else -1.0)

    return solve


def snapml(task: Task, *, dual: bool) -> Solve:
    """Snap ML's coordinate descent on one thread, on the primal or (L2 alone) on the dual."""
    from snapml import LogisticRegression

    X = csr_matrix(task.X, dtype=np.float32)  # the type that it works on
    penalty, strength = ("l1", task.l1) if task.l1 else ("l2", task.l2)

    def solve(tol: float) -> Any:
        model = LogisticRegression(
            regularizer=strength * X.shape[0],
            penalty=penalty,
            dual=dual,
            tol=tol,
            max_iter=MANY,
            n_jobs=1,
            random_state=0,
        )
        return np.ravel(model.fit(X, task.y).coef_)

    return solve


def saga(task: Task) -> Solve:
    """scikit-learn's LogisticRegression(solver="saga")."""
    from sklearn.linear_model import LogisticRegression

    X, ratio = task.X.astype(np.float64), task.l1 / (task.l1 + task.l2)
    C = 1.0 / ((task.l1 + task.l2) * X.shape[0])

    def solve(tol: float) -> Any:
        model = LogisticRegression(
            C=C, l1_ratio=ratio, solver="saga", tol=tol, max_iter=MANY, fit_intercept=False, random_state=0
        )
        return model.fit(X, task.y).coef_[0]

    return solve


def skglm(task: Task) -> Solve:
    """skglm's working sets with prox-Newton (logistic) or coordinate descent (squared)."""
    from skglm import ElasticNet, Lasso, SparseLogisticRegression

    X = csc_matrix(task.X, dtype=np.float64)

    def solve(tol: float) -> Any:
        total = task.l1 + task.l2
        common: dict[str, Any] = {"tol": tol, "fit_intercept": False, "max_iter": 1000}
        if task.loss == "logistic":
            model: Any = SparseLogisticRegression(total, l1_ratio=task.l1 / total, **common)
        elif task.l2:
            model = ElasticNet(total, l1_ratio=task.l1 / total, **common)
        else:
            model = Lasso(total, **common)
        return np.ravel(model.fit(X, task.y).coef_)

    return solve


def celer(task: Task) -> Solve:
    """celer's working sets with dual extrapolation."""
    import celer as library

    X = csc_matrix(task.X, dtype=np.float64)

    def solve(tol: float) -> Any:
        if task.loss == "logistic":
            model: Any = library.LogisticRegression(C=task.C, tol=tol, max_iter=1000, fit_intercept=False)
        else:
            total = task.l1 + task.l2
            model = library.ElasticNet(total, l1_ratio=task.l1 / total, tol=tol, max_iter=1000, fit_intercept=False)
        return np.ravel(model.fit(X, task.y).coef_)

    return solve


def coordinate_descent(task: Task) -> Solve:
    """scikit-learn's Lasso and ElasticNet."""
    from sklearn.linear_model import ElasticNet

    X, total = csc_matrix(task.X, dtype=np.float64), task.l1 + task.l2

    def solve(tol: float) -> Any:
        model = ElasticNet(total, l1_ratio=task.l1 / total, tol=tol, max_iter=MANY, fit_intercept=False)
        return model.fit(X, task.y).coef_

    return solve


def of(task: Task) -> dict[str, Callable[[], Solve]]:
    """Return the peers that solve a task, by name; each makes its own form of the data when called."""
    warnings.filterwarnings("ignore")  # of peers about their own convergence: the objective shows it
    if task.loss == "hinge":
        return {"LIBLINEAR -s 3": lambda: liblinear(task, 3)}
    if task.loss == "squared":
        return {
            "scikit-learn": lambda: coordinate_descent(task),
            "celer": lambda: celer(task),
            "skglm": lambda: skglm(task),
        }
    if task.l1 == 0.0:
        return {
            "LIBLINEAR -s 0": lambda: liblinear(task, 0),
            "LIBLINEAR -s 7": lambda: liblinear(task, 7),
            "Snap ML, primal": lambda: snapml(task, dual=False),
            "Snap ML, dual": lambda: snapml(task, dual=True),
            "saga": lambda: saga(task),
        }
    if task.l2 == 0.0:
        return {
            "LIBLINEAR -s 6": lambda: liblinear(task, 6),
            "Snap ML": lambda: snapml(task, dual=False),
            "celer": lambda: celer(task),
            "skglm": lambda: skglm(task),
        }
    return {"saga": lambda: saga(task), "skglm": lambda: skglm(task)}
