"""Named columns: data frames and streams of files become rows, whose numbers the model standardizes.

Row blocks hold numbers in the units of their columns, wherever they come from. A model that was fitted on named columns
has their running means and deviations (`proxstream.data.standardize`) and applies them to all that it gives its
learner.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.batches import Batch
from ..data.rowblock import RowBlock
from ..data.standardize import NO_MATRIX, StandardizedRows
from ..learner.learner import Learner
from ._params import Composed
from ._rows import is_stream, is_table, read_as_learned, without_column
from ._top_features import LinearModelMixin

if TYPE_CHECKING:
    from ..io.features.featurizer import Featurizer


class NamedColumns(LinearModelMixin, Composed):
    """What a stream estimator does with columns that have names."""

    _learner: Learner
    _featurizer: Featurizer

    @property
    def featurizer_(self) -> Featurizer:
        """How columns became features: pass it to `open_stream` as `features` to read new data in the same way."""
        if "_featurizer" not in vars(self):
            raise AttributeError("featurizer_ is for models that were fitted on named columns, see `features`")
        return unpacked(packed(self._featurizer), growing=False)

    def _feature_names(self) -> Any:
        if "_featurizer" in vars(self):
            return {number: "|".join(names) for number, names in self._featurizer.named().items()}
        return super()._feature_names()

    def _rows_of(self, X: Any, y: Any, *, first: bool) -> tuple[Any, Any]:
        """Return a data frame as the rows that `features` makes of it, and its label column unless y is given.

        Whatever else X is stays as it is; a row block brings its labels.
        """
        if first:
            self.__dict__.pop("_featurizer", None)
            if self.features is not None:
                from ..io.features.featurizer import Featurizer
                from ..io.features.spec import FeatureSpec

                if not isinstance(self.features, FeatureSpec):
                    raise TypeError(f"features must be None or a FeatureSpec, got {self.features!r}")
                # Labels may be text, which is the estimator's to encode: the featurizer never sees them.
                self._featurizer = Featurizer(replace(self.features.standardizing(), label=None), np.float64)
        if isinstance(X, RowBlock):
            return X, X.y if y is None else y
        if not is_table(X) or "_featurizer" not in vars(self):
            return X, y
        label = self.features.label if self.features is not None else self._featurizer.spec.label
        X, found = without_column(X, label or "label")
        return block_of_table(X, self._featurizer), found if y is None else y

    @property
    def _standardizes(self) -> bool:
        """Whether the model has numeric columns that it standardizes."""
        return "_featurizer" in vars(self) and self._featurizer.standardizes

    def _standardized(self, batch: Batch, *, learn: bool = True) -> Batch:
        """Return a batch as the learner is given it; numbers of rows that are to be learned enter the statistics."""
        if not self._standardizes:
            return batch
        if not isinstance(batch.X, RowBlock):
            raise ValueError(
                "this model standardizes the columns that it was fitted on: give it more rows as a frame, a stream or "
                f"a RowBlock of these columns, not as a matrix of shape {batch.X.shape}"
            )
        rows = batch.X._replace(c=batch.c)
        return batch._replace(X=self._rows_of_learner(rows, learn=learn), raw=rows)

    def _rows_of_learner(self, rows: RowBlock, *, learn: bool = False) -> RowBlock:
        """Return rows with standardized numbers, in the precision of the learner."""
        if not self._standardizes:
            return rows.in_precision(self._learner.dtype)
        return self._featurizer.standardizer.transform(rows, learn=learn, dtype=self._learner.dtype)

    def _parts_to_certify(self, X: Any, y: Any) -> tuple[Any, Any, Any]:
        """Return the model, rows as the learner was given them, and labels, for a certificate."""
        if "_featurizer" not in vars(self):
            return self, X, y
        if is_stream(X):
            return self, StandardizedRows(self._rows_of_learner, read_as_learned(self, X)), y
        X, y = self._rows_of(X, y, first=False)
        if not isinstance(X, RowBlock) and self._standardizes:
            raise TypeError(NO_MATRIX)
        return self, self._rows_of_learner(X) if isinstance(X, RowBlock) else X, y

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if "_featurizer" in state:
            state["_featurizer"] = packed(state["_featurizer"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_featurizer" in state:
            state = state | {"_featurizer": unpacked(state["_featurizer"])}
        super().__setstate__(state)


def packed(featurizer: Featurizer) -> tuple[Any, ...]:
    """Return what a featurizer is made of, which can be pickled."""
    return featurizer.spec, featurizer.dtype, featurizer.arrays()


def unpacked(parts: tuple[Any, ...], *, growing: bool = True) -> Featurizer:
    from ..io.features.featurizer import Featurizer

    spec, dtype, names = parts
    featurizer = Featurizer(spec, dtype, growing=growing)
    featurizer.restore(names)
    return featurizer


def block_of_table(X: Any, featurizer: Featurizer) -> RowBlock:
    """Return the rows of a data frame or Arrow table."""
    from ..io.open import open_stream

    with open_stream(X, features=featurizer, dtype=np.float64) as stream:
        return RowBlock.concat([rows if isinstance(rows, RowBlock) else rows[0] for rows in stream])
