"""A feature index that no memory is worth is refused with its place, and no input is written over."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import proxstream as ps
from proxstream.io import DataError, write_cache
from proxstream.io.types import ALL_FEATURES, MAX_FEATURES

WORDS = "expected an index of at most"


def read(text: bytes, **reported: Any) -> list[Any]:
    return list(ps.open_stream(io.BytesIO(text), "svmlight", **reported))


@pytest.mark.parametrize(
    ("text", "reported", "words"),
    [
        (b"1 1:1\n1 2147483647:1\n", {}, f":2:3: found '2147483647:1', {WORDS} 67108863, as max-features is 67108864"),
        (b"1 0:1 67108864:1\n", {}, f":1:7: found '67108864:1', {WORDS} 67108863"),
        (b"1 7:1\n-1 10:1\n", {"max_features": 10}, f":2:4: found '10:1', {WORDS} 9, as max-features is 10"),
        (b"1 7:1\n-1 11:1\n", {"max_features": 10, "zero_based": False}, f":2:4: found '11:1', {WORDS} 10, as max"),
        (b"1 2147483648:1\n", {"max_features": ALL_FEATURES}, f":1:3: found '2147483648:1', {WORDS} 2147483647"),
    ],
)
def test_an_index_beyond_the_limit_is_named_with_its_place(text: bytes, reported: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError) as error:
        read(text, **reported)
    assert words in str(error.value)


@pytest.mark.parametrize("zero_based", [True, False])
def test_the_limit_holds_in_windows_of_plain_lines_too(zero_based: bool) -> None:
    """Plain lines are parsed by the window once the first piece has been read line by line."""
    lines = [b"1 %d:1 %d:2\n" % (i % 90 + 1, i % 90 + 5) for i in range(20000)]
    most = 200 - zero_based
    assert sum(rows.n_rows for rows in read(b"".join(lines), max_features=200, zero_based=zero_based)) == 20000
    lines[15000] = b"1 3:1 %d:1\n" % most
    assert sum(rows.n_rows for rows in read(b"".join(lines), max_features=200, zero_based=zero_based)) == 20000
    lines[15000] = b"1 3:1 %d:1\n" % (most + 1)
    with pytest.raises(DataError, match=f":15001:7: found '{most + 1}:1', {WORDS} {most}, as max-features is 200"):
        read(b"".join(lines), max_features=200, zero_based=zero_based)
    stream = ps.open_stream(
        io.BytesIO(b"".join(lines)), "svmlight", max_features=200, zero_based=zero_based, on_error="skip"
    )
    assert sum(rows.n_rows for rows in stream) == 19999
    assert stream.skipped == 1


def test_caches_and_matrices_have_the_limit_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.psr"
    text = b"1 1:1\n" * 3 + b"1 2:1 70:1\n1 3:1\n"
    write_cache(ps.open_stream(io.BytesIO(text), "svmlight"), path)
    assert sum(rows.n_rows for rows in ps.open_stream(path, max_features=71)) == 5
    words = f"row 4: found the index 70, {WORDS} 69, as max-features is 70"
    with pytest.raises(DataError, match=f"rows.psr: {words}"):
        list(ps.open_stream(path, max_features=70))
    X = sparse.csr_array((np.ones(3), ([0, 3, 4], [0, 70, 2])), shape=(5, 100))
    with pytest.raises(DataError, match=words):
        list(ps.open_stream((X, np.ones(5)), max_features=70))


def test_hashed_features_have_their_own_bound() -> None:
    spec = ps.FeatureSpec(bits=20)
    (rows,) = ps.open_stream(io.BytesIO(b"1 | a b c\n"), "vw", features=spec, max_features=2)
    assert rows.n_features > 2


@pytest.mark.parametrize("value", [0, -1, ALL_FEATURES + 1, 10**400])
def test_a_limit_out_of_range_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="max_features must be"):
        read(b"1 1:1\n", max_features=value)


@pytest.mark.parametrize("value", [True, 1e6, "9", None])
def test_a_limit_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="max_features must be an integer >= 1"):
        read(b"1 1:1\n", max_features=value)


def test_a_block_beyond_memory_names_its_row_and_leaves_the_learner() -> None:
    """In a process that may take 3 GiB: the weights of 2^31 features are 24 GiB and more."""
    code = """
import resource, numpy as np, proxstream as ps
from proxstream.data.rowblock import RowBlock
from proxstream.learner.learner import Learner
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
rows = RowBlock(np.array([0, 1, 2]), np.array([1, 2**31 - 2]), np.ones(2), np.ones(2))
for average in (False, True):
    learner = Learner(ps.RDA(), n_features=3, growing=True, average=average)
    before = learner.state_dict()
    try:
        learner.learn(rows)
    except MemoryError as error:
        print(error)
    assert learner.n_features == 3 and all((before[k] == a).all() for k, a in learner.state_dict().items())
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout.count("the feature index 2147483646 in row 1 of the block needs more memory than there is") == 2


# -- the command line ------------------------------------------------------------------------------


def test_commands_name_the_place_of_an_index_beyond_the_limit(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "model.psm", "-q") == (0, "", "")
    Path("wide.svm").write_text("1 1:1\n1 2147483647:1\n")
    words = f"wide.svm:2:3: found '2147483647:1', {WORDS} 67108863, as max-features is 67108864\n"
    for args in (
        ("train", "wide.svm", "-o", "m.psm", "-q"),
        ("train", "wide.svm", "-o", "m.psm", "-q", "--algorithm", "certified", "--l2", "0.1"),
        ("certify", "model.psm", "wide.svm"),
    ):
        assert run(*args) == (1, "", words)
    assert not Path("m.psm").exists()
    # What needs no memory for features takes any.
    assert run("predict", "model.psm", "wide.svm").code == 0
    assert run("evaluate", "model.psm", "wide.svm").code == 0
    assert run("convert", "wide.svm", "wide.psr") == (0, "", "")
    assert run("train", "wide.psr", "-o", "m.psm", "-q") == (
        1,
        "",
        f"wide.psr: row 2: found the index 2147483647, {WORDS} 67108863, as max-features is 67108864\n",
    )


def test_the_limit_can_be_moved(run: Any) -> None:
    Path("wide.svm").write_text("1 1:1\n-1 1000:1\n")
    done = run("train", "wide.svm", "-o", "m.psm", "-q", "--max-features", "1000")
    assert done == (1, "", f"wide.svm:2:4: found '1000:1', {WORDS} 999, as max-features is 1000\n")
    assert run("train", "wide.svm", "-o", "m.psm", "-q", "--max-features", "1001") == (0, "", "")
    assert run("train", "wide.svm", "-o", "n.psm", "-q", "--max-features", "1000", "--one-based") == (0, "", "")
    done = run("train", "wide.svm", "-o", "o.psm", "-q", "--max-features", "1000", "--on-error", "skip")
    assert done.code == 0
    for value in ("0", str(ALL_FEATURES + 1), "many"):
        done = run("train", "wide.svm", "-o", "m.psm", "--max-features", value)
        assert (done.code, done.out) == (2, "")
        assert "--max-features" in done.err


def test_the_limit_is_no_setting_of_the_model(run: Any) -> None:
    args = ("train", "clicks.svm", "-o", "m.psm", "-q")
    assert run(*args) == (0, "", "")
    before = Path("m.psm").read_bytes()
    assert run(*args, "--max-features", str(MAX_FEATURES * 2)) == (0, "", "")
    assert Path("m.psm").read_bytes() == before


@pytest.mark.parametrize(
    "args",
    [
        "clicks.svm clicks.svm",
        "clicks.svm ./clicks.svm",
        "clicks.svm linked.svm",
        "linked.svm clicks.svm",
        "clicks.svm folder/../clicks.svm",
        "clicks.svm across/clicks.svm",
        "cl*.svm clicks.svm",
        "**/c*.svm clicks.svm",
        "**/inner.svm folder/inner.svm",
        "clicks.svm clicks.svm --to vw",
        "clicks.svm clicks.svm --to cache",
        "clicks.svm.gz clicks.svm.gz",
        "rows.psr rows.psr",
        "table.csv table.csv --to parquet",
        "model.psm model.psm --to text",
        "clicks.svm model.psm --to vw --model model.psm",
        "file://{here}/clicks.svm clicks.svm",
        "file://{here}/%63licks.svm clicks.svm",
        "/dev/stdin clicks.svm --format svmlight",
        "- clicks.svm --format svmlight",
    ],
)
def test_convert_does_not_write_over_its_input(args: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    os.symlink("clicks.svm", "linked.svm")
    os.mkdir("folder")
    os.symlink(".", "across")
    Path("folder/inner.svm").write_bytes(Path("clicks.svm").read_bytes())
    Path("table.csv").write_text("label,x\n1,2\n")
    assert run("convert", "clicks.svm", "clicks.svm.gz") == (0, "", "")
    assert run("convert", "clicks.svm", "rows.psr") == (0, "", "")
    assert run("train", "clicks.svm", "-o", "model.psm", "-q") == (0, "", "")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    words = args.format(here=Path().absolute()).split()
    if words[0] in ("-", "/dev/stdin"):
        command = [sys.executable, "-m", "proxstream", "convert", *words]
        with open("clicks.svm", "rb") as file:
            done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        code, out, err = run("convert", *words)
    assert (code, out) == (2, "")
    assert f"-o {words[1]} is also an input file" in err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_a_cache_is_not_written_over_what_it_is_made_of(run: Any) -> None:
    before = Path("clicks.svm").read_bytes()
    os.symlink("clicks.svm", "linked.svm")
    for name in ("clicks.svm", "linked.svm", Path("./clicks.svm")):
        with pytest.raises(ValueError, match="must not overwrite its own source"):
            write_cache(ps.open_stream("clicks.svm"), name)
    assert Path("clicks.svm").read_bytes() == before
