"""Clients of Dask clusters, and reductions over results on the workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client, Future, LocalCluster

from ..core import validation as _checks

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
