"""Clients of Dask clusters, reductions over results on the workers, and lazy predictions of dask collections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from distributed import Client, Future, LocalCluster

from ..core import validation as _checks
from ..core.validation import Array
from ..models import file as modelfile

# A worker that died is restarted; on a busy machine that takes longer than the default of 15 s.
PATIENT = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
FANOUT = 8  # results per task of a reduction


@contextmanager
def connect(client: Any = None) -> Iterator[Client]:
    """Yield a client: the one given, one of an address, the current one, or one of a cluster on this machine.

    Parameters
    ----------
    client : Client, str or None
        An address such as "tcp://host:8786"; "local" or "local:N" starts N worker processes on this machine. None is
        the current client if there is one, else as "local". Whatever is started here is closed at the end.
    """
    if isinstance(client, Client):
        yield client
        return
    if client is None:
        try:
            current = Client.current(allow_global=True)
        except ValueError:
            client = "local"
        else:
            yield current
            return
    if not isinstance(client, str):
        raise TypeError(f"client must be a distributed.Client, an address, 'local:N' or None, got {client!r}")
    kind, _, number = client.partition(":")
    if kind != "local":
        with Client(client) as made:
            yield made
        return
    if number and not number.isdigit():
        raise ValueError(f"client must be an address, 'local' or 'local:N' with a number of workers, got {client!r}")
    size = {"n_workers": _checks.integer("workers", int(number), low=1), "threads_per_worker": 1} if number else {}
    with (
        dask.config.set(PATIENT),
        LocalCluster(processes=True, dashboard_address=":0", **size) as cluster,
        Client(cluster) as made,
    ):
        yield made


def tree(client: Client, add: Callable[[list[Any]], Any], futures: Sequence[Future], key: str) -> Future:
    """Return the future of all results combined by `add`, FANOUT at a time, always in the same order."""
    level = 0
    while len(futures) > 1:
        groups = [list(futures[i : i + FANOUT]) for i in range(0, len(futures), FANOUT)]
        futures = [client.submit(add, group, key=f"{key}-{level}-{i}") for i, group in enumerate(groups)]
        level += 1
    return futures[0]


# ---- predictions of collections


def is_lazy(X: Any) -> bool:
    """Return whether X is a dask array or data frame."""
    return (
        bool(dask.is_dask_collection(X))
        and hasattr(X, "to_delayed")
        and hasattr(X, "dtypes" if _is_frame(X) else "chunks")
    )


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns")


def predict_lazily(model: Any, X: Any, method: str, width: int, dtype: Any) -> da.Array:
    """Return a method of a fitted local model on X as a dask array of `width` columns, or a vector (0); not computed.

    Over the network: the weights of the model, once to each worker that computes a partition.
    """
    frozen = modelfile.unpack(*modelfile.pack(model, weights_only=True))
    shared = dask.delayed(frozen, name=f"proxstream-model-{uuid4().hex}", traverse=False)
    if _is_frame(X):
        blocks, sizes = X.to_delayed(), [math.nan] * X.npartitions
    else:
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        blocks, sizes = X.to_delayed().ravel(), X.chunks[0]
    predict = dask.delayed(_predict_block, pure=True)
    made = [
        da.from_delayed(predict(shared, block, method), (size, *([width] if width else [])), dtype=dtype)
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return da.concatenate(made, allow_unknown_chunksizes=True)


def _predict_block(model: Any, block: Any, method: str) -> Array:
    if len(block) if _is_frame(block) else block.shape[0]:
        return np.asarray(getattr(model, method)(block))
    return np.asarray(getattr(model, method)(np.zeros((1, model.n_features_in_))))[:0]
