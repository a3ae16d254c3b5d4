"""The engine of everything else: the dense family itself, O(features) a row and as exact as the papers.

Balls, simplexes, norms over all weights, other geometries, full matrices, accelerated and implicit steps couple all
coordinates: a row cannot cost its non-zeros alone. They run here, on the learners of `proxstream.online`.

The intercept is a learner of its own, without a penalty, where the algorithm takes gradients; where it takes whole
examples it is one more feature, equal to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .._checks import Array
from ..algorithms import AdaGrad, Algorithm, FollowTheLeader, MirrorDescent
from ..algorithms.base import ExampleAlgorithm
from ..blocks import RowBlock
from ..geometries import Euclidean
from ..losses import Loss
from ..online import OnlineLearner
from ..penalties import NoPenalty, Penalty


class DenseEngine:
    """One or more outputs, learned by `OnlineLearner` on dense rows."""

    def __init__(
        self,
        algorithm: Algorithm,
        penalty: Penalty,
        loss: Loss,
        *,
        n_features: int,
        n_outputs: int,
        fit_intercept: bool,
    ) -> None:
        self._loss = loss
        outputs = (n_outputs,) if loss.kind == "multiclass" else ()
        self._one_more = fit_intercept and _needs_examples(algorithm)
        plain = isinstance(penalty, NoPenalty) and isinstance(algorithm.space, Euclidean)
        if self._one_more and not plain:
            what = penalty if isinstance(algorithm.space, Euclidean) else algorithm.space
            raise TypeError(
                f"{type(algorithm).__name__} would apply {what!r} to the intercept too: take fit_intercept=False"
            )
        self._weights = OnlineLearner(algorithm, penalty, dim=(n_features + self._one_more, *outputs))
        self._intercept: OnlineLearner | None = None
        if fit_intercept and not self._one_more:
            self._intercept = OnlineLearner(_for_intercept(algorithm), dim=(1, *outputs))
        self._k = np.zeros(1)

    @property
    def n_features(self) -> int:
        """Features that have a weight."""
        return self._weights.shape[0] - self._one_more

    @property
    def t(self) -> int:
        """Rows learned."""
        return self._weights.t

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the rows' weights."""
        return float(self._k[0])

    def learn(self, rows: RowBlock, n_threads: int = 1) -> Array:
        """Learn the rows in order, on one thread; return the predictions made before each was learned.

        A row that has no step, or whose step overflows, leaves the engine as it was before the block.
        """
        before = {name: array.copy() for name, array in self.arrays().items()}
        try:
            return self._learn(rows)
        except Exception:
            self.restore(before)
            raise

    def _learn(self, rows: RowBlock) -> Array:
        scores = np.empty((rows.n_rows, *self._weights.shape[1:]))
        for i in range(rows.n_rows):
            z, y, c = self._row(rows, i), _label(self._loss, rows.y[i]), float(rows.c[i]) if len(rows.c) else 1.0
            intercept = 0.0 if self._intercept is None else self._intercept.point[0]
            scores[i] = z @ self._weights.point + intercept
            if _needs_examples(self._weights.algorithm):
                self._weights.learn(z, y, self._loss, c)
            else:
                slope = np.asarray(self._loss.slope(scores[i], y), dtype=np.float64)
                with np.errstate(over="ignore"):  # an infinite gradient is refused by the learner
                    g = np.multiply.outer(z, slope)
                self._weights.update(g, c)
                if self._intercept is not None:
                    self._intercept.update(slope[np.newaxis], c)
            self._k += c
        return scores

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept a row."""
        weights, intercept = self.weights()
        return np.asarray(rows.times(weights) + intercept)

    def weights(self) -> tuple[Array, Any]:
        """Return all weights and the intercept."""
        return self._split(self._weights.output, None if self._intercept is None else self._intercept.output)

    def averages(self) -> tuple[Array, Any]:
        """Return the means of the weights and of the intercept over the rows learned."""
        return self._split(self._weights.average, None if self._intercept is None else self._intercept.average)

    def grow(self, n_features: int) -> None:
        """Refuse: a geometry over all coordinates has to know them from the start."""
        if n_features > self.n_features:
            raise ValueError(
                f"{self._weights.algorithm!r} with {self._weights.penalty!r} acts on all weights at once: "
                f"features cannot be added to its {self.n_features}"
            )

    def arrays(self) -> dict[str, Array]:
        """Return all that the engine remembers."""
        arrays = {f"weights.{name}": array for name, array in self._weights.state_dict().items()}
        if self._intercept is not None:
            arrays |= {f"intercept.{name}": array for name, array in self._intercept.state_dict().items()}
        return arrays | {"k": self._k}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `arrays` returned."""
        for prefix, learner in (("weights.", self._weights), ("intercept.", self._intercept)):
            if learner is not None:
                own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
                learner.load_state_dict(own)
        self._k = np.array(arrays["k"])

    def _split(self, weights: Array, intercept: Array | None) -> tuple[Array, Any]:
        if self._one_more:
            weights, intercept = weights[:-1], weights[-1:]
        if intercept is None:
            intercept = np.zeros((1, *weights.shape[1:]))
        return weights, intercept[0] if weights.ndim > 1 else float(intercept[0])

    def _row(self, rows: RowBlock, i: int) -> Array:
        z = np.zeros(self._weights.shape[0])
        mine = slice(rows.indptr[i], rows.indptr[i + 1])
        z[rows.indices[mine]] = rows.data[mine]
        if self._one_more:
            z[-1] = 1.0
        return z


def _label(loss: Loss, y: float) -> float | int:
    return int(y) if loss.kind == "multiclass" else float(y)


def _needs_examples(algorithm: Algorithm) -> bool:
    implicit = isinstance(algorithm, MirrorDescent) and algorithm.implicit
    return implicit or isinstance(algorithm, (ExampleAlgorithm, FollowTheLeader))


def _for_intercept(algorithm: Algorithm) -> Algorithm:
    """Return the same algorithm as one free Euclidean coordinate sees it: no rho, a root of its own, no curvature lent.

    A schedule that leaves all curvature to the penalty has none to lend: the intercept takes the sqrt one.
    """
    changes: dict[str, Any] = {}
    if hasattr(algorithm, "geometry"):
        changes["geometry"] = Euclidean()
    if getattr(algorithm, "rho", 0.0):
        changes["rho"] = 0.0
    if getattr(algorithm, "schedule", "") == "zero":
        changes["schedule"] = "sqrt"
    if isinstance(algorithm, AdaGrad):
        changes |= {"matrix": "diagonal", "strongly_convex": False}
    if getattr(algorithm, "projection", "") == "lazy":
        changes["projection"] = "greedy"
    return replace(algorithm, **changes)
