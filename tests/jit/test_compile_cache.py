"""Compiled code is made once: not again in the next call, nor in the next process, and never from an older source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.core import losses
from proxstream.data.rowblock import as_block
from proxstream.jit import compile, numba_backend, sources
from proxstream.learner import _loop as driver

from ..learner.kernel_cases import Case, Setting, engine, stream

FIT = """
import json, sys
import numpy as np, proxstream as ps
assert "numba" not in sys.modules and "sklearn" not in sys.modules
from proxstream.data.rowblock import as_block
from proxstream.learner.learner import Learner
from proxstream.learner import _loop as driver
assert "numba" not in sys.modules
learner = Learner(ps.AdaGrad(0.3), "hinge", ps.L1(0.05), n_features=3)
learner.learn(as_block(np.eye(3), [1.0, -1.0, 1.0]))
from proxstream.jit.numba_backend import CACHE_FOLDER
kernel = driver.learn.dispatcher
stats = kernel.stats
fresh = kernel.inspect_llvm().values() if stats.cache_misses else []
called = [line for code in fresh for line in code.splitlines() if " call " in line]
print(json.dumps({"called": called, "folder": CACHE_FOLDER, "hits": sum(stats.cache_hits.values()),
                  "misses": sum(stats.cache_misses.values()), "weights": learner.weights()[0].tolist()}))
"""


def fit(cache: Path | str, source: str | None = None) -> dict[str, Any]:
    environment = {**os.environ, "PROXSTREAM_CACHE_DIR": str(cache), "PROXSTREAM_PREBUILD": "0"}
    if source is not None:
        environment["PYTHONPATH"] = source
    command = [sys.executable, "-W", "error", "-c", FIT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first = fit(tmp_path)
    # What is called for each row is a part of the loop: calls, and the copies of their targets in the cache, are slow.
    assert not [line for line in first["called"] if "proxstream" in line and "_loop5learn" not in line]
    assert [line for line in first["called"] if "_loop5learn" in line]
    files = {path.name: path.stat().st_mtime_ns for path in Path(first["folder"]).rglob("*.nb?")}
    second = fit(tmp_path)
    assert first["misses"] > 0
    assert second["misses"] == 0
    assert second["hits"] > 0
    assert files == {path.name: path.stat().st_mtime_ns for path in Path(first["folder"]).rglob("*.nb?")}
    assert {Path(name).suffix for name in files} == {".nbi", ".nbc"}
    assert first["weights"] == second["weights"]
    assert Path(first["folder"]).parent == tmp_path


@pytest.mark.exhaustive
def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    report = fit(tmp_path / "file" / "cache")
    assert report["folder"] is None
    assert report["hits"] == 0


@pytest.mark.parametrize("source", ["jit/a.py", "core/losses/a.py", "batch/l1/_a.py"])
def test_an_edited_source_has_another_digest(source: str, tmp_path: Path) -> None:
    for name in ("jit/a.py", "core/losses/a.py", "batch/l1/_a.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x = 1\n")
    before = sources.digest(str(tmp_path))
    sources.digest.cache_clear()
    assert before == sources.digest(str(tmp_path))
    sources.digest.cache_clear()
    (tmp_path / source).write_text("x = 2\n")
    assert before != sources.digest(str(tmp_path))


def test_a_second_call_compiles_nothing() -> None:
    case = Case(ps.MirrorDescent(0.3), ps.ElasticNet(0.04, 0.3), losses.smoothed_hinge(0.5))
    kernels = driver.learn, driver.predict, driver.read

    def play(penalty: Any, seed: int, weighted: bool) -> list[int]:
        own = engine(case._replace(penalty=penalty), Setting())
        rows = stream(case.loss, Setting(weighted, rows=20, seed=seed)).block()
        own.learn(rows)
        own.predict(rows)
        own.weights()
        return [len(kernel.dispatcher.signatures) for kernel in kernels]

    compiled = play(case.penalty, 0, weighted=False)
    # Other strengths, weights, lengths, a state that came back from a file: the same types, so the same code.
    assert play(ps.L1(0.1), 1, weighted=True) == compiled
    own = engine(case, Setting())
    own.restore({name: np.array(array) for name, array in own.arrays().items()})
    own.grow(30)
    own.learn(as_block(np.eye(4, 30), np.ones(4)))
    assert [len(kernel.dispatcher.signatures) for kernel in kernels] == compiled


def twice(x: Any) -> Any:
    return 2 * x


def test_versions_compiled_by_two_processes_at_once_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second compiles and saves its version, having seen no other, while the first is about to write its own."""
    monkeypatch.setattr(numba_backend, "CACHE_FOLDER", str(tmp_path))
    numbers, vectors, later = (compile.compiled(twice).dispatcher for _ in range(3))
    monkeypatch.setattr(vectors._cache._cache_file, "_load_index", dict)
    write = numbers._cache._cache_file._save_data

    def write_after_the_other(name: str, code: Any) -> None:
        assert vectors(np.ones(3)).tolist() == [2.0, 2.0, 2.0]
        write(name, code)

    monkeypatch.setattr(numbers._cache._cache_file, "_save_data", write_after_the_other)
    assert numbers(1.5) == 3.0
    assert later(np.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert later(1.5) == 3.0
