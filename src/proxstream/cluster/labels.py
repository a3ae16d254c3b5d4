"""Label encoders, which run on the workers: labels as they are in the data to labels of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core import validation as _checks
from ..core.losses import Loss
from ..core.validation import Array
from ..data.batches import Batch
from ..data.labels import LabelEncoder, class_weighted

if TYPE_CHECKING:
    from ..training.labels import Labels


@dataclass(frozen=True)
class ClassEncoder:
    """Encodes classes as -1 and 1, or 0, 1, ... if `multiclass`; `weights`, one per class, multiply those of rows."""

    classes: Array
    multiclass: bool
    weights: Array | None = None

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with encoded labels."""
        encoder = LabelEncoder(self.classes)
        numbers = encoder.encode(batch.y)
        y = encoder.targets(numbers, len(self.classes) if self.multiclass else 1)
        return batch._replace(y=y, c=class_weighted(batch.c, numbers, self.weights))


@dataclass(frozen=True)
class TargetCheck:
    """Checks that targets are numbers that the loss accepts, and makes them 64-bit."""

    loss: Loss

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with checked targets."""
        y = _checks.vector("y", batch.y).astype(np.float64, copy=False)
        self.loss.check_labels(y)
        return batch._replace(y=y)


@dataclass(frozen=True)
class FileLabels:
    """Reads labels of files as `proxstream train` does."""

    labels: Labels
    skip: bool

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with labels of the loss; rows with other labels raise an error or are skipped."""
        rows = self.labels.read(batch.X._replace(y=batch.y, c=batch.c), skip=self.skip).rows
        return Batch(rows, rows.y, rows.c)
