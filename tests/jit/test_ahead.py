"""Code compiled ahead gives the bits of code compiled on first use, and is not used where anything does not fit."""

from __future__ import annotations

import gc
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.core.losses import _kernels as losses
from proxstream.data import _dense_to_csr
from proxstream.data.rowblock import as_block
from proxstream.io.features import _hash
from proxstream.io.text import _numbers
from proxstream.jit import ahead, arguments, build, describe, loader, sources
from proxstream.jit.compile import Kernel
from proxstream.learner import _loop
from proxstream.learner.learner import Learner

from ..examples import examples

can_run = not ahead._missing_features() and not ahead._other_processor()
pytestmark = pytest.mark.skipif(not can_run, reason="code is compiled ahead for Linux on x86-64-v3 only")

X = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -1.0]])
TEXT = np.frombuffer(b"one two three\n" + bytes(8), np.uint8).copy()
SPANS = np.array([0, 4, 8]), np.array([3, 7, 13])
CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (_dense_to_csr.count, (X, np.zeros(3, np.int32))),
    (_dense_to_csr.count, (X.astype(np.float32), np.zeros(3, np.int32))),
    (_dense_to_csr.count, (np.asfortranarray(X), np.zeros(3, np.int32))),
    (_dense_to_csr.count, (X[:, ::2], np.zeros(3, np.int32))),
    (losses.add_losses, (losses.Common(0), X[0], X[1], X[0, :0], np.zeros(2))),
    (losses.add_losses, (losses.Huber(0.5), X[0], X[1], X[0], np.zeros(2))),
    (_numbers.number, (np.frombuffer(b"-12.5e3\n" + bytes(8), np.uint8).copy(), 0)),
    (_numbers.number, (np.frombuffer(b"1.00000000000000011102230246251565404\n" + bytes(8), np.uint8).copy(), 0)),
    (_hash.grams, (TEXT, *SPANS, 0, 1, 2, 7)),
]


LEARNER = ps.FTRLProximal()


def manifest_lines() -> list[str]:
    """Return the lines of a manifest for the calls above, and for a pass of a learner."""
    engine, rows = Learner(LEARNER, "logistic", ps.L1(0.01), n_features=3).engine, as_block(X, [1.0, -1.0])
    calls = [*CALLS, (_loop.learn, (engine.layout.parts, rows, engine._model(), np.zeros(2), np.zeros(3)))]
    return [f"{kernel.__module__}.{kernel.__name__} {arguments.flatten(given)[0]}" for kernel, given in calls]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ahead")
    manifest = folder / "manifest.txt"
    manifest.write_text("# a comment\n" + "\n".join(dict.fromkeys(manifest_lines())) + "\n")
    lines = len(build.read_manifest(manifest))
    assert build.build(folder / "built", manifest, workers=2) == lines
    return folder / "built"


@pytest.fixture
def used(built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let kernels find the folder."""
    monkeypatch.setattr(ahead, "FOLDER", built)
    monkeypatch.delenv("PROXSTREAM_PREBUILD", raising=False)
    ahead._library.cache_clear()
    yield built
    ahead._library.cache_clear()


def copied(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(item.copy(order="K") if isinstance(item, np.ndarray) and item.flags.forc else item for item in given)


def as_bytes(thing: Any) -> Any:
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.shape, thing.tobytes()
    if isinstance(thing, tuple):
        return [as_bytes(item) for item in thing]
    return struct.pack("<d", thing) if isinstance(thing, float) else thing


@pytest.mark.default_cases(4)
@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("call", range(len(CALLS)))
def test_kernels_compiled_ahead_give_the_same_bits(call: int) -> None:
    kernel, given = CALLS[call]
    ours, theirs = copied(given), copied(given)
    fresh = Kernel(kernel.py_func)
    types, _ = arguments.flatten(ours)
    assert fresh.versions[types].is_loaded()
    result = fresh(*ours)
    assert "dispatcher" not in fresh.__dict__, "numba was asked"
    assert as_bytes(result) == as_bytes(kernel.dispatcher(*theirs))
    assert as_bytes(ours) == as_bytes(theirs)


@pytest.mark.usefixtures("used")
def test_a_pass_of_a_learner_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(500, 3))
    rows = as_block(Z, np.where(Z[:, 0] + rng.normal(size=500) > 0.0, 1.0, -1.0))

    def weights(kernel: Any) -> bytes:
        monkeypatch.setattr(_loop, "learn", kernel)
        learner = Learner(LEARNER, "logistic", ps.L1(0.01), n_features=3)
        learner.learn(rows)
        return learner.weights()[0].tobytes()

    by_numba, fresh = _loop.learn.dispatcher, Kernel(_loop.learn.py_func)
    assert weights(fresh) == weights(by_numba)
    assert "dispatcher" not in fresh.__dict__, "numba was asked"


@pytest.mark.usefixtures("used")
def test_memory_that_a_kernel_returns_lives_as_long_as_its_arrays() -> None:
    grams = Kernel(_hash.grams.py_func)
    given = (TEXT, *SPANS, 0, 1, 2, 7)
    first = grams(*given)
    kept = [array[:2] for array in first]
    before = as_bytes(tuple(kept))
    del first
    for _ in range(2000):
        grams(*given)
    gc.collect()
    assert as_bytes(tuple(kept)) == before


@pytest.mark.usefixtures("used")
def test_other_types_are_compiled_on_first_use() -> None:
    count = Kernel(_dense_to_csr.count.py_func)
    indptr = np.zeros(3, np.int64)
    count(X, indptr)
    assert indptr.tolist() == [0, 1, 3]
    assert "dispatcher" in count.__dict__


@pytest.mark.parametrize("installed", [False, True])
def test_every_version_can_be_loaded(installed: bool, built: Path) -> None:
    library = ahead._library()[0] if installed else ahead.Library(built)
    for kernel in library.index["kernels"] if library else ():
        for types, version in library.versions(kernel).items():
            assert version.is_loaded(), f"{kernel} {types}"


def changed(folder: Path, to: Path, **fields: Any) -> Path:
    shutil.copytree(folder, to)
    index = json.loads((to / "index.json").read_text())
    (to / "index.json").write_text(json.dumps({**index, **fields}))
    return to


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"sources": "0" * 64}, "other sources"),
        ({"format": 99}, "format 99"),
        ({"system": "linux arm64"}, "compiled for linux arm64"),
        ({"size": 1}, "not complete"),
    ],
)
def test_stale_and_foreign_code_is_refused(built: Path, tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ahead.UnusableError, match=reason):
        ahead.Library(changed(built, tmp_path / "built", **fields))


def test_a_folder_that_others_can_write_to_is_refused(built: Path, tmp_path: Path) -> None:
    folder = changed(built, tmp_path / "built")
    for path in (folder, folder / "index.json", folder / "kernels.bin"):
        mode = path.stat().st_mode
        path.chmod(mode | 0o020)
        with pytest.raises(ahead.UnusableError, match="written by other users"):
            ahead.Library(folder)
        path.chmod(mode)
    assert ahead.Library(folder).versions("proxstream.data._dense_to_csr.count")


def test_a_lesser_processor_and_the_variables_turn_it_off(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "V3", {"avx2", "avx9000"})
    with pytest.raises(ahead.UnusableError, match="lacks avx9000"):
        ahead.Library(built)
    monkeypatch.undo()
    features = ahead.TARGET["NUMBA_CPU_FEATURES"]
    for name, same, another in (
        ("NUMBA_CPU_NAME", "x86-64-v3", "generic"),
        ("NUMBA_CPU_FEATURES", ",".join(reversed(features.split(","))), "+sse,+sse2"),
    ):
        monkeypatch.setenv(name, same)
        ahead.Library(built)
        monkeypatch.setenv(name, another)
        with pytest.raises(ahead.UnusableError, match=f"{name} is set to another"):
            ahead.Library(built)
        monkeypatch.delenv(name)
    monkeypatch.setenv("PROXSTREAM_PREBUILD", "0")
    with pytest.raises(ahead.UnusableError, match="PROXSTREAM_PREBUILD is 0"):
        ahead.Library(built)


def test_damaged_object_code_is_refused(built: Path) -> None:
    place = json.loads((built / "index.json").read_text())["runtime"]
    code = (built / "kernels.bin").read_bytes()[place[0] : place[0] + place[1]]
    with pytest.raises(ValueError, match="not an object file"):
        loader.load(b"\x7fELF\x01" + code[5:], ahead.external)
    with pytest.raises(ValueError, match="not an object file"):
        loader.load(code[:18] + b"\xb7\x00" + code[20:], ahead.external)


def test_one_line_describes_what_is_used(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = sum(map(len, json.loads((used / "index.json").read_text())["kernels"].values()))
    assert describe() == f"kernels: {count} compiled ahead for linux x86-64-v3; others on first use, kept on disk"
    monkeypatch.setattr(ahead, "FOLDER", used / "missing")
    ahead._library.cache_clear()
    assert "none were compiled when the package was installed" in describe()


numbers = st.sampled_from(["f8", "f4", "i8", "i4", "u8", "u4", "b1", "n", "<f4[1]", "<f8[2A]", "<i8[1r]", "|u1[3Fr]"])
types = st.recursive(numbers, lambda inner: st.tuples(st.sampled_from(["", "a.b.Name"]), st.lists(inner, max_size=4)))


def written(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"{kind[0]}({''.join(map(written, kind[1]))})"


@given(st.lists(types, max_size=5))
@examples(100)
def test_types_are_read_as_they_are_written(kinds: list[Any]) -> None:
    assert ahead.parse("".join(map(written, kinds))) == kinds


def test_types_without_a_closing_bracket_are_refused() -> None:
    for text in ("a.Name(f8", "f8)"):
        with pytest.raises(ValueError, match=r"Name\(f8|f8\)"):
            ahead.parse(text)


def test_every_line_of_the_manifest_names_a_kernel_and_types() -> None:
    lines = build.read_manifest(build.MANIFEST)
    assert len(lines) == len(set(lines)) > 50
    for name, text in lines:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(__import__(module, fromlist=[attribute]), attribute), Kernel)
        assert struct.calcsize("<" + build.frame_format(ahead.parse(text))) % ahead.SLOT == 0


def test_groups_hold_every_version_once() -> None:
    lines = build.read_manifest(build.MANIFEST)
    groups = build.group(lines)
    assert sorted(line for some in groups for line in some) == sorted(lines)
    assert 1 < len(groups) < len(lines)


def test_a_process_without_numba_learns(built: Path) -> None:
    code = f"""
import sys
sys.modules["numba"] = None
from pathlib import Path
from proxstream.jit import ahead
ahead.FOLDER = Path({str(built)!r})
import numpy as np, proxstream as ps
from proxstream.data.rowblock import as_block
from proxstream.learner.learner import Learner
learner = Learner(ps.FTRLProximal(), "logistic", ps.L1(0.01), n_features=3)
learner.learn(as_block(np.eye(3), [1.0, -1.0, 1.0]))
print(learner.t)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PROXSTREAM_PREBUILD"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("3", "")


def test_the_digest_is_that_of_the_package() -> None:
    assert Path(ps.__file__).parent == Path(sources.PACKAGE)
    assert os.path.join(sources.PACKAGE, "learner", "_auto.py") in sources.kernel_sources(sources.PACKAGE)
