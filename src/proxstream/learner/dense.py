"""The engine of everything else: the dense family itself, O(features) per row and as exact as the papers.

Balls, simplexes, norms over all weights, other geometries, full matrices, accelerated and implicit steps couple all
coordinates: a row cannot cost its non-zeros alone. They run here, on the learners of `proxstream.online`.

The intercept is a separate learner without a penalty where the algorithm takes gradients; where it takes examples
it is one more feature, equal to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.algorithms import AdaGrad, Algorithm, FollowTheLeader, MirrorDescent
from ..core.algorithms.base import ExampleAlgorithm
from ..core.geometries import Euclidean
from ..core.losses import Loss
from ..core.penalties import NoPenalty, Penalty
from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.rowblock import RowBlock
from ..online import OnlineLearner
from .divergence import DivergedError


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

    loss_kernel = None

    def check(self, rows: RowBlock) -> None:
        """Take any weights."""

    def learn(self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False) -> Array:
        """Learn the rows in order, on one thread; return the predictions made before each was learned.

        A row that has no step raises a ValueError, one whose step overflows a DivergedError.
        """
        scores = np.empty((rows.n_rows, *self._weights.shape[1:]))
        for i in range(rows.n_rows):
            z, y, c = self._row(rows, i), _label(self._loss, rows.y[i]), float(rows.c[i]) if len(rows.c) else 1.0
            intercept = 0.0 if self._intercept is None else self._intercept.point[0]
            with np.errstate(all="ignore"):  # what is not finite is refused
                scores[i] = z @ self._weights.point + intercept
                slope = np.asarray(self._loss.slope(scores[i], y), dtype=np.float64)
                g = np.multiply.outer(z, slope)
            examples = _needs_examples(self._weights.algorithm)
            finite = np.isfinite(scores[i]).all() and (examples or np.isfinite(g).all())
            if not (finite and np.isfinite(self._k + c).all()):
                raise DivergedError(i)
            try:
                if examples:
                    self._weights.learn(z, y, self._loss, c, repeated=repeated)
                else:
                    self._weights.update(g, c)
                    if self._intercept is not None:
                        self._intercept.update(slope[np.newaxis], c)
            except FloatingPointError:
                raise DivergedError(i) from None
            self._k += c
        return scores

    def snapshot(self, rows: RowBlock, indices: Array, *, grows: bool) -> _Copy:
        """Return all that the engine remembers, to be put back."""
        return _Copy({name: array.copy() for name, array in self.arrays().items()})

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept of each row."""
        return rows.scores(*self.weights())

    def weights(self) -> tuple[Array, Any]:
        """Return all weights and the intercept."""
        return self._split(self._weights.output, None if self._intercept is None else self._intercept.output)

    def averages(self) -> tuple[Array, Any]:
        """Return the means of the weights and of the intercept over the rows learned."""
        return self._split(self._weights.average, None if self._intercept is None else self._intercept.average)

    def count_nonzero(self, occurred: Array | None = None) -> int:
        """Return how many weights are not zero."""
        return int(np.count_nonzero(self.weights()[0]))

    def grow(self, n_features: int) -> None:
        """Refuse: a geometry over all coordinates must know them from the start."""
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
        """Continue from what `arrays` returned."""
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


class _Copy(NamedTuple):
    """A copy of all arrays: learning one row costs as much."""

    arrays: dict[str, Array]

    def put_back(self, engine: DenseEngine) -> None:
        """Bring the engine back to where it was."""
        engine.restore(self.arrays)


def _label(loss: Loss, y: float) -> float | int:
    return int(y) if loss.kind == "multiclass" else float(y)


def _needs_examples(algorithm: Algorithm) -> bool:
    implicit = isinstance(algorithm, MirrorDescent) and algorithm.implicit
    return implicit or isinstance(algorithm, (ExampleAlgorithm, FollowTheLeader))


def _for_intercept(algorithm: Algorithm) -> Algorithm:
    """Return the same algorithm as one free Euclidean coordinate sees it: no rho, its own root, no shared curvature.

    A schedule that takes all curvature from the penalty does not work without one: the intercept uses sqrt.
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
