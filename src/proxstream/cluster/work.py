"""Where CoCoA+ runs on Dask: tasks with names of their own, and rows as the loss knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from distributed import Client, Future

from .._checks import Array
from ..blocks import RowBlock
from ..estimators.rows import Batch, encoded
from ..losses import Loss
from .clients import tree
from .parts import batches, whole


class Cluster:
    """Tasks that Dask runs; each has a name of its own, and is computed again by Dask if its result is lost."""

    def __init__(self, client: Client) -> None:
        self.client, self._run, self._number = client, uuid4().hex[:12], 0

    def _key(self, name: str) -> str:
        self._number += 1
        return f"proxstream-{name}-{self._run}-{self._number}"

    def submit(self, function: Any, *arguments: Any) -> Future:
        """Return the future of what the function returns.

        Dual variables of a checkpoint are part of the task, so that Dask can begin there again: that they are large is
        no mistake that Dask has to warn of.
        """
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            return self.client.submit(function, *arguments, key=self._key(function.__name__))

    def tree(self, function: Any, handles: Sequence[Future]) -> Future:
        """Return the future of all results put together, in their order."""
        return tree(self.client, function, handles, self._key("tree"))

    def result(self, handle: Future) -> Any:
        """Wait for a result."""
        return handle.result()


@dataclass(frozen=True)
class Labelled:
    """Brings labels into the form that the loss knows, on a worker: numbers, -1 and +1, or numbers of classes."""

    loss: Loss
    classes: Array | None = None
    class_weight: Array | None = None

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with labels as the loss knows them, and its classes' weights."""
        if self.classes is None:
            y = np.asarray(batch.y, dtype=np.float64)
            self.loss.check_labels(y)
            return batch._replace(y=y)
        at, c = encoded(batch.y, self.classes), batch.c
        if self.class_weight is not None:
            c = self.class_weight[at] * (c if len(c) else 1.0)
        y = at.astype(np.float64) if len(self.classes) > 2 else 2.0 * at - 1.0
        return batch._replace(y=y, c=np.asarray(c))


def block_of(labelled: Labelled, loaded: list[Any]) -> RowBlock:
    """Return loaded partitions as one checked row block, on a worker."""
    rows = whole([batch for part in loaded for batch in batches(part)], labelled)
    rows.check()
    rows.check_finite()
    return rows._replace(indptr=rows.indptr.astype(np.int32)) if rows.indptr[-1] < 2**31 else rows
