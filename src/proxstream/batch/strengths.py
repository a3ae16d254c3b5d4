"""Grids of strengths: from the least one that leaves no weight down to a share of it, evenly on a logarithmic scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core import validation as _checks
from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import Array
from ..data.labels import one_vs_rest
from ..data.rowblock import RowBlock
from .lambda_max import null_model
from .problem import Problem

OPENING = 1000  # first rows of a stream, by which its strengths are found
COUNT, RATIO = 9, 1e-4  # strengths of a stream above 0, and the last over the first


def strength_grid(largest: float, penalty: Penalty, n_strengths: int, ratio: float) -> Array:
    """Return the strengths from the largest down to `ratio` of it."""
    _checks.integer("n_strengths", n_strengths, low=1)
    _checks.number("ratio", ratio, low=0.0, high=1.0, strict=True)
    if not np.isfinite(largest):
        raise ValueError(
            f"no strength of {penalty!r} sets all weights to 0: pass strengths, or use L1, ElasticNet or GroupL2 "
            "with a strength above 0 for every weight"
        )
    if largest == 0.0:
        raise ValueError("all weights are 0 at every strength: no feature is correlated with y")
    return np.asarray(largest * ratio ** (np.arange(n_strengths) / max(n_strengths - 1, 1)))


def stream_strengths(
    rows: RowBlock, loss: Loss, penalty: Penalty, *, n_outputs: int = 1, fit_intercept: bool = True
) -> Array:
    """Return the strengths of a path by the first rows of its stream, at most `OPENING` of them.

    After those from the least one that leaves no weight down to `RATIO` of it comes 0: a column in large units may set
    the largest strength so high that all others of the grid still hold back what the small columns know.

    A binary loss with several outputs learns one class against the rest: the largest strength is that of the class
    that needs the strongest penalty.

    Examples
    --------
    >>> import proxstream as ps
    >>> from proxstream.data.rowblock import as_block
    >>> rows = as_block(np.array([[1.0, 0.0], [0.0, 3.0], [1.0, 1.0]]), y=[1.0, 5.0, 3.0])
    >>> grid = stream_strengths(rows, ps.squared, ps.L1())
    >>> len(grid), grid[:3].round(4)
    (10, array([2.    , 0.6325, 0.2   ]))
    >>> grid[-2:]
    array([0.0002, 0.    ])
    """
    first = rows.slice(0, min(rows.n_rows, OPENING))
    first = first._replace(data=first.data.astype(np.float64), y=np.asarray(first.y, np.float64))
    problem = Problem(first, max(first.n_features, 1), loss, penalty, fit_intercept, n_outputs)
    if n_outputs > 1 and loss.kind != "multiclass":
        signs = (first._replace(y=one_vs_rest(first.y, k)) for k in range(n_outputs))
        problems = [replace(problem, rows=own, n_outputs=1) for own in signs]
    else:
        problems = [problem]
    for own in problems:
        _check_slopes(own)
    return np.append(strength_grid(max(null_model(own).strength for own in problems), penalty, COUNT, RATIO), 0.0)


def _check_slopes(problem: Problem) -> None:
    """Raise a ValueError where the loss has no finite slope at score 0: no strength is known to leave no weight."""
    n, outputs = problem.rows.n_rows, problem.shape[1:]
    with np.errstate(all="ignore"):
        slopes = np.asarray(problem.loss.slope(np.zeros((n, *outputs)), problem.labels))
    bad = ~np.isfinite(slopes.reshape(n, -1)).all(axis=1)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"the loss {problem.loss} has no finite slope at score 0, at the label {problem.rows.y[i]:g} of row {i}, "
            "so that no strength is known to leave no weight: pass strengths"
        )
