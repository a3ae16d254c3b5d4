"""Losses of the same rows under K models: their means, and standard errors of the differences between two models.

Two models that see the same rows err on the same rows: the difference of their losses varies far less than either loss.
With d_i the difference on row i, c_i the row's weight and D = sum c_i d_i / sum c_i,

    (standard error of D)^2 = sum_i c_i^2 (d_i - D)^2 / (sum_i c_i)^2                                            (1)
                            = (sum c_i^2 d_i^2 - 2 D sum c_i^2 d_i + D^2 sum c_i^2) / (sum c_i)^2,

and all sums can be kept while rows come: those of c^2 d^2 for every pair of models, the others for each model.
"""

from __future__ import annotations

import numpy as np

from ..core.validation import Array
from ..data.sums import add_in_order
from . import _path as kernels


class PairedLosses:
    """Sums of the losses of rows under several models.

    Parameters
    ----------
    models : int

    Examples
    --------
    >>> losses = PairedLosses(2)
    >>> losses.add(np.array([[1.0, 2.0, 3.0, 6.0], [1.5, 2.5, 3.5, 4.5]]))
    >>> losses.means
    array([3., 3.])
    >>> losses.difference_errors(0).round(3)  # the root of the mean square of -0.5, -0.5, -0.5, 1.5, over the root of 4
    array([0.   , 0.433])
    """

    def __init__(self, models: int) -> None:
        self.sums = np.zeros((models, kernels.PAIRS + models))

    def add(self, each: Array, weights: Array | None = None) -> None:
        """Add the losses (models, rows) of rows and their weights, 1 if there are none."""
        c = np.empty(0) if weights is None else np.asarray(weights, np.float64)
        self.add_sums(each, c)
        self.add_pairs(each, c)

    def add_sums(self, each: Array, c: Array) -> None:
        """Add to the sums of losses and weights alone, in the order of the rows; c may be empty."""
        weights = c if len(c) else np.ones(each.shape[1])
        for sums, losses in zip(self.sums, each, strict=True):
            for at, terms in ((kernels.LOSS, weights * losses), (kernels.WEIGHT, weights)):
                sums[at] = add_in_order(sums[at], terms)

    def add_pairs(self, each: Array, c: Array) -> None:
        """Add to the sums of squares alone; c may be empty."""
        kernels.add_pairs(np.ascontiguousarray(each), c, self.sums)

    @property
    def weight(self) -> float:
        """The sum of the rows' weights."""
        return float(self.sums[0, kernels.WEIGHT])

    @property
    def means(self) -> Array:
        """The mean loss of each model; NaN before the first row."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.sums[:, kernels.LOSS] / self.sums[:, kernels.WEIGHT])

    @property
    def errors(self) -> Array:
        """The standard error of each mean loss: (1) with d the loss itself."""
        sums, means = self.sums, self.means
        squares = sums[:, kernels.SQUARES] - 2.0 * means * sums[:, kernels.SQUARED_LOSS]
        squares += means**2 * sums[:, kernels.SQUARED_WEIGHT]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.sqrt(np.maximum(squares, 0.0)) / sums[:, kernels.WEIGHT])

    def difference_errors(self, reference: int) -> Array:
        """Return the standard errors (1) of each model's mean loss less that of the reference."""
        sums, weight = self.sums, self.weight
        if weight == 0.0:
            return np.full(len(sums), np.nan)
        difference = (sums[:, kernels.LOSS] - sums[reference, kernels.LOSS]) / weight
        linear = sums[:, kernels.SQUARED_LOSS] - sums[reference, kernels.SQUARED_LOSS]
        squares = sums[:, kernels.PAIRS + reference] - 2.0 * difference * linear
        squares += difference**2 * sums[reference, kernels.SQUARED_WEIGHT]
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)) / weight)
