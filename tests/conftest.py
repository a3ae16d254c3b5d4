"""What several tests need: commands in a folder of their own, and one cluster, which takes seconds to start."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

# With `-n`, workers share the cores: threads of BLAS that wait for each other would take them from other workers. NumPy
# reads this when it is imported, which the next lines do; so do the processes that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from .browser import open_browser
from .examples import QUICK, mark_cases
from .interpreted import interpreted_kernels
from .training.training_cases import clicks

# No example fails for being slow: how long one takes depends on the load. The examples are the same in every run, so
# that the tests pass on every machine or on none: a tenth of them by default, all with
# `--hypothesis-profile thorough`, and with `explore` new ones each time.
UNHURRIED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **UNHURRIED, max_examples=QUICK)
settings.register_profile("thorough", derandomize=True, **UNHURRIED)
settings.register_profile("explore", print_blob=True, **UNHURRIED)
settings.load_profile("repeatable")

# Compiling makes millions of objects that stay: looking for garbage among them takes a tenth of the time.
gc.set_threshold(100_000, 50, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let tests marked `interpreted` be compiled, where the arithmetic of a processor is what is tested."""
    parser.addoption("--compile-all", action="store_true", help="compile kernels in tests marked `interpreted` too")


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


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium."""
    opened = open_browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.quit()


RUNNING: list[tuple[ExitStack, Any]] = []  # the cluster, while there is one


@pytest.fixture(scope="module")
def cluster() -> Any:
    """Two worker processes of one thread each, with nannies that start them again when they die.

    One cluster serves a folder of tests. Workers are forked from a process that has imported what they need, which
    takes seconds.
    """
    import dask
    from distributed import LocalCluster
    from distributed.utils import get_mp_context

    from proxstream.cluster.client import PATIENT

    if RUNNING:
        return RUNNING[0][1]
    method = "distributed.worker.multiprocessing-method"
    with dask.config.set({method: "forkserver"}):
        get_mp_context().set_forkserver_preload(["dask.dataframe", "distributed", "proxstream.estimators"])
    stack = ExitStack()
    stack.enter_context(dask.config.set({**PATIENT, method: "forkserver"}))
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "memory_limit": "1GiB"}
    made = stack.enter_context(LocalCluster(**options, dashboard_address=":0"))
    RUNNING.append((stack, made))
    return made


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the cluster after the last test of a folder: idle workers take a twentieth of a processor."""
    if RUNNING and (nextitem is None or nextitem.path.parent != item.path.parent):
        RUNNING.pop()[0].close()


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


@pytest.fixture(autouse=True)
def _interpret(request: pytest.FixtureRequest) -> Iterator[None]:
    """Interpret kernels in tests marked `interpreted`, but compile them in exhaustive ones and if marked `compiled`."""
    mark = request.node.get_closest_marker("interpreted")
    if mark and not any(map(request.node.get_closest_marker, ("compiled", "exhaustive"))):
        with interpreted_kernels(request.config, *mark.args):
            yield
    else:
        yield
