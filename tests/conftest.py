"""What several tests need: commands in a folder of their own, and one cluster, which takes seconds to start."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from .browser import open_browser
from .examples import QUICK, mark_cases
from .training.training_cases import clicks

# No example fails for being slow: how long one takes depends on the load. The examples are the same in every run, so
# that the tests pass on every machine or on none: an eighth of them by default, all with
# `--hypothesis-profile thorough`, and with `explore` new ones each time.
UNHURRIED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **UNHURRIED, max_examples=QUICK)
settings.register_profile("thorough", derandomize=True, **UNHURRIED)
settings.register_profile("explore", print_blob=True, **UNHURRIED)
settings.load_profile("repeatable")

# Compiling makes millions of objects that stay: looking for garbage among them takes a tenth of the time.
gc.set_threshold(100_000, 50, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is not in the default run, before `-m` is applied."""
    mark_cases(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`: give each worker a run of whole files, as far as possible, so that a kernel is compiled once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


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


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium."""
    opened = open_browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.quit()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread each, with nannies that start them anew when they die."""
    import dask
    from distributed import LocalCluster

    from proxstream.cluster.client import PATIENT

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
    monkeypatch.setattr("proxstream.data.threads.SMALL", 0)
