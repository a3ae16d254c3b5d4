"""Which strength of a path: rules that need the losses of the same rows under all strengths, and the non-zeros.

| rule          | chooses                                                                                             |
|---------------|-----------------------------------------------------------------------------------------------------|
| "best"        | the least mean loss                                                                                 |
| "1se"         | the sparsest model whose loss is above the best by at most one standard error of their difference   |
| strength=     | one of the grid                                                                                     |
| nnz=          | the least loss among models with so many non-zeros at most                                          |
| loss_within=  | the sparsest model whose loss is above the best by this share of it at most                         |

The standard error of "1se" is that of paired differences: the losses of the same rows under two strengths (see
`path_losses`), not of their means.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import validation as _checks
from ..core.validation import Array
from .path_losses import PairedLosses

RULES = ("best", "1se")
NEAR = 1e-6  # relative distance at which a strength is one of the grid


def choose_strength(
    strengths: Array,
    losses: PairedLosses,
    nonzeros: Array,
    rule: str | None = None,
    *,
    strength: float | None = None,
    nnz: int | None = None,
    loss_within: float | None = None,
) -> int:
    """Return the place of the strength that a rule chooses; exactly one rule is given.

    Examples
    --------
    >>> losses = PairedLosses(3)
    >>> losses.add(np.array([[0.5, 0.7], [0.45, 0.6], [0.4, 0.62]]))
    >>> grid, nonzeros = np.array([0.1, 0.01, 0.001]), np.array([5, 20, 300])
    >>> choose_strength(grid, losses, nonzeros, "best"), choose_strength(grid, losses, nonzeros, "1se")
    (2, 1)
    >>> choose_strength(grid, losses, nonzeros, nnz=10), choose_strength(grid, losses, nonzeros, strength=0.01)
    (0, 1)
    """
    given = {"rule": rule, "strength": strength, "nnz": nnz, "loss_within": loss_within}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise TypeError(f"choose takes one of rule, strength, nnz and loss_within, got {', '.join(named) or 'none'}")
    if strength is not None:
        return _place(strengths, _checks.number("strength", strength, low=0.0))
    means = losses.means
    if np.isnan(means).all():
        raise ValueError("no losses to choose by: no row of weight > 0 has been learned")
    best = _sparsest(np.flatnonzero(means == np.nanmin(means)), means, nonzeros)
    if nnz is not None:
        most = _checks.integer("nnz", nnz, low=0)
        few = np.flatnonzero(nonzeros <= most)
        if not len(few):
            raise ValueError(f"nnz={most}: all models have more non-zeros, the sparsest one {nonzeros.min()}")
        return int(few[np.argmin(means[few])])
    if loss_within is not None:
        margin: Any = _checks.number("loss_within", loss_within, low=0.0) * abs(means[best])
    else:
        _checks.one_of("rule", rule, RULES)
        if rule == "best":
            return best
        margin = losses.difference_errors(best)
    return _sparsest(np.flatnonzero(means - means[best] <= margin), means, nonzeros)


def _sparsest(places: Array, means: Array, nonzeros: Array) -> int:
    """Return the place with the fewest non-zeros, among several the one of the least loss."""
    return int(places[np.lexsort((means[places], nonzeros[places]))[0]])


def _place(strengths: Array, strength: float) -> int:
    nearest = int(np.argmin(np.abs(strengths - strength)))
    if abs(strengths[nearest] - strength) > NEAR * strengths[nearest]:
        known = ", ".join(f"{value:.6g}" for value in strengths)
        raise ValueError(f"strength must be one of the path's, {known}; got {strength:g}")
    return nearest
