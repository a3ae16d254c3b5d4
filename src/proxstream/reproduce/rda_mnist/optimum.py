"""The batch optimum, with a proof: what one pass is measured against."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...estimators import CertifiedClassifier
from ...penalties import L1
from .passes import Task, Weights

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
