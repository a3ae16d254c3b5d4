"""The features with the largest weights, by name where names are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from ..core import validation as _checks
from ..core.validation import Array


class TopFeature(NamedTuple):
    """A feature with its weight; the name is the column's index where no name is known."""

    name: Any
    weight: float


class LinearModelMixin:
    """What every fitted linear estimator can say about its weights."""

    def top_features(self, n: int = 10, names: Any = None) -> Any:
        """Return the features with the largest weights in magnitude; zero weights are left out.

        Parameters
        ----------
        n : int
            How many, of each class where there are more than two.
        names : sequence or mapping from index to name, optional
            None takes the names that the model knows: those of a data frame's columns, or of a `FeatureSpec`'s
            features. Else a feature is named by its index.

        Returns
        -------
        list of TopFeature(name, weight), the largest magnitude first
            Of a classifier of two classes, positive weights speak for classes_[1]. With more classes, a dict from each
            class to its list.

        Examples
        --------
        >>> import numpy as np, proxstream as ps
        >>> model = ps.CertifiedRegressor(penalty="l1(0.1)").fit(np.eye(3), [1.0, 0.0, -2.0])
        >>> [feature.name for feature in model.top_features(2, names=["height", "width", "age"])]
        ['age', 'height']
        """
        check_is_fitted(self)
        _checks.integer("n", n, low=1)
        model: Any = self
        coef = model.coef_
        rows = coef.toarray() if issparse(coef) else np.atleast_2d(coef)
        known = self._feature_names() if names is None else names
        if names is not None and not isinstance(names, Mapping) and len(names) != rows.shape[1]:
            raise ValueError(f"names must have {rows.shape[1]} entries, one per feature, got {len(names)}")
        tops = [_largest(row, n, known) for row in rows]
        return tops[0] if len(tops) == 1 else dict(zip(model.classes_.tolist(), tops, strict=True))

    def _feature_names(self) -> Any:
        """Return the known names, a sequence or a mapping."""
        return getattr(self, "feature_names_in_", {})


def _largest(weights: Array, n: int, names: Any) -> list[TopFeature]:
    used = np.flatnonzero(weights)
    used = used[np.argsort(-np.abs(weights[used]), kind="stable")[:n]]
    mapped = isinstance(names, Mapping)
    return [TopFeature(names.get(i, i) if mapped else names[i], float(weights[i])) for i in used.tolist()]
