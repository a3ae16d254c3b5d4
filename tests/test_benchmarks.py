"""Every benchmark can be imported: a module that moves is noticed here, not on the day of the next measurement."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

MODULES = sorted(path.stem for path in (Path(__file__).parent.parent / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_benchmark_imports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent)
    assert import_module(f"benchmarks.{name}").__doc__
