"""Labels of a file as labels of a loss, row by row: the meaning of a label never depends on other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..core.component import component
from ..core.losses import Loss
from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.labels import LabelEncoder, text_numbers
from ..data.rowblock import RowBlock
from ..io.types import Accepted, Chunk


class BadLabelError(ValueError):
    """A label that the loss does not accept; `row` is its index in the block."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class Labelled(NamedTuple):
    """Rows with the labels of the loss, and the indices of the rows that were kept (None: all)."""

    rows: RowBlock
    kept: Array | None

    def take(self, array: Array | None) -> Array | None:
        """Return what belongs to the rows that were kept, of an array of one value per row, or None."""
        return array if array is None or self.kept is None else array[self.kept]


@component
class Labels:
    """How labels are read, and the weights of their rows.

    Two classes: 1 is the positive class, 0 and -1 both mean the negative one; or the two of `classes`, the negative one
    first. More classes: each of `classes` is a label, the first is class 0. Regression and ranking: the labels as read.

    Parameters
    ----------
    loss : Loss
    classes : labels of the classes in order; empty for two classes with the default labels, regression and ranking
    weights : factors for the weights of the rows with this label
    texts : label texts of the classes in order, if the labels of the data are texts; see `text_numbers`

    Examples
    --------
    >>> import numpy as np
    >>> from proxstream import losses
    >>> from proxstream.data.rowblock import as_block
    >>> block = as_block(np.eye(2), y=[0, 1])
    >>> Labels(losses.logistic, weights={1.0: 3.0}).read(block).rows[3:]
    (array([-1.,  1.]), array([1., 3.]))
    """

    loss: Loss
    classes: tuple[float, ...] = ()
    weights: Mapping[float, float] = field(default_factory=dict)
    texts: tuple[str, ...] = ()

    @property
    def n_outputs(self) -> int:
        """Scores per row: one per class, but a single one for two classes of a binary loss."""
        two = len(self.classes) == 2 and self.loss.kind == "binary"
        return 1 if two else max(len(self.classes), 1)

    @property
    def default(self) -> bool:
        """Whether there are two classes with the default labels, -1 or 0, and 1."""
        return not self.classes and self.loss.kind == "binary"

    def observed_classes(self, *, zeros: bool, negatives: bool) -> tuple[Any, ...]:
        """Return the labels of the classes; of two default ones 0 and 1 if 0 occurred and -1 did not."""
        if self.texts:
            return self.texts
        if not self.default:
            return self.classes
        return (0.0, 1.0) if zeros and not negatives else (-1.0, 1.0)

    @property
    def accepted(self) -> str:
        """The accepted labels, in words."""
        if self.classes:
            return f"one of {', '.join(f'{label:g}' for label in self.classes)}"
        if self.loss.kind == "binary":
            return "-1, 0 or 1"
        return self.loss.labels if self.loss.kind == "regression" else "a finite number"

    @property
    def accepted_labels(self) -> Accepted:
        """The accepted labels, as the `labels` option of `open_stream`."""
        return Accepted(lambda given: self._labels(given)[1], self.accepted)

    def read(self, rows: RowBlock, *, skip: bool = False) -> Labelled:
        """Return the rows with the labels of the loss; one that is not accepted is a BadLabelError, or skipped."""
        y, good = self._labels(rows.y)
        kept = None
        if not good.all():
            if not skip:
                first = int(np.argmin(good))
                raise BadLabelError(first, f"the label is {_shown(rows.y[first])}, expected {self.accepted}")
            kept = np.flatnonzero(good)
            rows, y = rows.take(kept), y[kept]
        if self.weights:
            rows = rows._replace(c=self._factors(rows.y) * (rows.c if len(rows.c) else 1.0))
        return Labelled(rows._replace(y=y), kept)

    def read_chunk(self, chunk: Chunk, names: Sequence[str], *, skip: bool = False) -> Labelled:
        """Read a chunk of a stream of these files; an error names the file and the row in it, from 1."""
        try:
            return self.read(chunk.rows, skip=skip)
        except BadLabelError as error:
            file, row = chunk.place(error.row)
            raise BadLabelError(row, f"{names[file]}: row {row + 1}: {error}") from None

    def _labels(self, given: Array) -> tuple[Array, Array]:
        """Return the labels of the loss, and which of them are accepted."""
        if self.classes:
            encoder = LabelEncoder(self.classes)
            numbers, known = encoder.find(given)
            return encoder.targets(numbers, self.n_outputs), known
        if self.loss.kind == "binary":
            positive = given == 1.0
            return np.where(positive, 1.0, -1.0), np.asarray(positive | (given == 0.0) | (given == -1.0))
        good = np.isfinite(given)
        if self.loss.kind == "regression":
            good &= self.loss._accepts(given)
        return given, good

    def _factors(self, given: Array) -> Array:
        factors = np.ones(len(given))
        for label, weight in self.weights.items():
            same = given == label
            if not self.classes and self.loss.kind == "binary" and label <= 0.0:
                same = given <= 0.0
            factors[same] = weight
        return factors


def make_labels(loss: Loss, classes: Sequence[Any], weights: Mapping[float, float] | None = None) -> Labels:
    """Return the labels of classes that are numbers or texts."""
    numbers = text_numbers(loss, classes)
    if numbers is None:
        return Labels(loss, tuple(classes), weights or {})
    two = len(classes) == 2 and loss.kind == "binary"
    return Labels(loss, () if two else tuple(numbers.values()), weights or {}, tuple(classes))


def _shown(label: float) -> str:
    return "missing" if np.isnan(label) else f"{label:g}"
