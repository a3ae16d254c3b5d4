"""From the labels of a file to those of a loss, row by row: what a label means never depends on other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .._checks import Array
from ..blocks import NO_WEIGHTS, RowBlock
from ..losses import Loss
from ..streams.base import Accepted, Chunk


class BadLabelError(ValueError):
    """A label that the loss does not know; `row` is its place in the block, from 0."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class Labelled(NamedTuple):
    """Rows with labels as the loss knows them, and which of the rows given these are (None: all)."""

    rows: RowBlock
    kept: Array | None


@dataclass(frozen=True)
class Labels:
    """How labels are read, and what rows of a label weigh.

    Two classes: 1 is the positive one, 0 and -1 both mean the negative one; or the two of `classes`, the negative one
    first. More classes: each of `classes` is a label, the first is class 0. Numbers and ranks stand for themselves.

    Parameters
    ----------
    loss : Loss
    classes : labels of the classes in order; empty for two classes with the usual labels, and where there are none
    weights : what multiplies the weight of a row with this label

    Examples
    --------
    >>> import numpy as np
    >>> from proxstream import losses
    >>> from proxstream.blocks import as_block
    >>> block = as_block(np.eye(2), y=[0, 1])
    >>> Labels(losses.logistic, weights={1.0: 3.0}).read(block).rows[3:]
    (array([-1.,  1.]), array([1., 3.]))
    """

    loss: Loss
    classes: tuple[float, ...] = ()
    weights: Mapping[float, float] = field(default_factory=dict)

    @property
    def n_outputs(self) -> int:
        """Scores a row: one a class, one in all for two classes told apart by a sign."""
        two = len(self.classes) == 2 and self.loss.kind == "binary"
        return 1 if two else max(len(self.classes), 1)

    @property
    def usual(self) -> bool:
        """Whether there are two classes with the usual labels, -1 or 0, and 1."""
        return not self.classes and self.loss.kind == "binary"

    def seen(self, *, zeros: bool, negatives: bool) -> tuple[float, ...]:
        """Return the labels of the classes, two of them as the data had them: 0 where that and never -1 occurred."""
        if not self.usual:
            return self.classes
        return (0.0, 1.0) if zeros and not negatives else (-1.0, 1.0)

    @property
    def accepted(self) -> str:
        """The labels that are taken, in words."""
        if self.classes:
            return f"one of {', '.join(f'{label:g}' for label in self.classes)}"
        return "-1, 0 or 1" if self.loss.kind == "binary" else "a finite number"

    @property
    def told(self) -> Accepted:
        """What a stream is told of the labels that are taken."""
        return Accepted(lambda given: self._labels(given)[1], self.accepted)

    def read(self, rows: RowBlock, *, skip: bool = False) -> Labelled:
        """Return the rows with the loss's labels; a label not accepted is a BadLabelError or, if asked, left out."""
        y, good = self._labels(rows.y)
        kept = None
        if not good.all():
            if not skip:
                first = int(np.argmin(good))
                raise BadLabelError(first, f"the label is {_shown(rows.y[first])}, expected {self.accepted}")
            kept = np.flatnonzero(good)
            rows, y = chosen(rows, kept), y[kept]
        if self.weights:
            rows = rows._replace(c=self._factors(rows.y) * (rows.c if len(rows.c) else 1.0))
        return Labelled(rows._replace(y=y), kept)

    def read_chunk(self, chunk: Chunk, names: Sequence[str], *, skip: bool = False) -> Labelled:
        """Do the same with a chunk of a stream of these files; an error tells the file and the row in it, from 1."""
        try:
            return self.read(chunk.rows, skip=skip)
        except BadLabelError as error:
            row = chunk.end.row - chunk.rows.n_rows + error.row
            raise BadLabelError(row, f"{names[chunk.end.file]}: row {row + 1}: {error}") from None

    def _labels(self, given: Array) -> tuple[Array, Array]:
        """Return the loss's labels and whether each is one."""
        if self.classes:
            order = np.argsort(self.classes)
            known = np.asarray(self.classes)[order]
            place = np.minimum(np.searchsorted(known, given), len(known) - 1)
            classes = order[place].astype(np.float64)
            return classes if self.n_outputs > 1 else 2.0 * classes - 1.0, np.asarray(known[place] == given)
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


def chosen(rows: RowBlock, which: Array) -> RowBlock:
    """Return a copy of some rows, in the order told.

    >>> from proxstream.blocks import as_block
    >>> chosen(as_block(np.diag([1.0, 2.0, 3.0]), y=[1, 2, 3]), np.array([0, 2])).data
    array([1., 3.])
    """
    lengths = np.diff(rows.indptr)[which]
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    # Cell q of the new rows is as far behind its row's first cell as it was before.
    cells = np.arange(indptr[-1]) + np.repeat(rows.indptr[which] - indptr[:-1], lengths)
    c = rows.c[which] if len(rows.c) else NO_WEIGHTS
    return RowBlock(indptr, rows.indices[cells], rows.data[cells], rows.y[which], c)


def _shown(label: float) -> str:
    return "missing" if np.isnan(label) else f"{label:g}"
