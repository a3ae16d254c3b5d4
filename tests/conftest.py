"""One cluster for all tests that need one: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread each, with nannies that start them anew when they die."""
    import dask
    from distributed import LocalCluster

    from proxstream.cluster.clients import PATIENT

    with (
        dask.config.set(PATIENT),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, memory_limit="1GiB", dashboard_address=":0"
        ) as made,
    ):
        yield made


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """A client of that cluster."""
    from distributed import Client

    with Client(cluster) as made:
        made.wait_for_workers(2)
        yield made


@pytest.fixture
def eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch solvers share out even the little work of a test."""
    monkeypatch.setattr("proxstream._threads.SMALL", 0)
