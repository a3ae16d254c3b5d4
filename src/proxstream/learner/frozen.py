"""The engine of models that were saved with their weights only: they predict and cannot learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from ..core.validation import Array
from ..data.rowblock import RowBlock


class FrozenEngine:
    """Weights (features,) or (features, outputs) and intercepts; t and k are those of the learner that was saved."""

    def __init__(self, coef: Array, intercept: Any, t: int, k: float) -> None:
        self._coef, self._intercept, self._t, self._k = coef, intercept, t, k

    @property
    def n_features(self) -> int:
        """Features that have a weight."""
        return len(self._coef)

    @property
    def t(self) -> int:
        """Rows learned before the weights were saved."""
        return self._t

    @property
    def k(self) -> float:
        """Penalty that had come in by then."""
        return self._k

    loss_kernel = None

    def check(self, rows: RowBlock) -> NoReturn:
        """Refuse all rows."""
        _refuse()

    def learn(
        self, rows: RowBlock, n_threads: int = 1, reach: float | None = None, *, repeated: bool = False
    ) -> NoReturn:
        """Refuse: the state is gone."""
        _refuse()

    def snapshot(self, rows: RowBlock, indices: Array, *, grows: bool) -> NoReturn:
        """Refuse, as to learn."""
        _refuse()

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> + intercept of each row; features without a weight count 0."""
        from ..data import _linear as frozen

        several = self._coef.ndim == 2
        scores = np.empty((rows.n_rows, self._coef.shape[1]) if several else rows.n_rows)
        (frozen.scores if several else frozen.score)(self._coef, self._intercept, rows, scores)
        return scores

    def weights(self) -> tuple[Array, Any]:
        """Return all weights and the intercept."""
        return self._coef, self._intercept

    averages = weights

    def count_nonzero(self, occurred: Array | None = None) -> int:
        """Return how many weights are not zero."""
        return int(np.count_nonzero(self._coef))

    def grow(self, n_features: int) -> None:
        """Refuse, as to learn."""
        if n_features > self.n_features:
            _refuse()

    def arrays(self) -> dict[str, Array]:
        """Refuse: the state is gone."""
        _refuse()

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Refuse, as to learn."""
        _refuse()


def _refuse() -> NoReturn:
    raise ValueError("this model was saved with its weights only: it predicts and cannot learn")
