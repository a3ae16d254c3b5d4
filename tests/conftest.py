"""What several tests need: commands in a folder of their own, and one cluster, which takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .training_cases import clicks


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in a folder of its own, with clicks.svm in it."""
    from proxstream import cli

    monkeypatch.chdir(tmp_path)
    clicks(Path("clicks.svm"), 100)
    return lambda *args: Done(cli.main(args), *capsys.readouterr())


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
