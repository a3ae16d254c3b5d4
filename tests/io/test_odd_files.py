"""Odd files on the command line: each becomes a model, or one line that names it; full disks leave what was there."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream import cli

SVMLIGHT: list[bytes] = [
    *(b"", b"\n", b"\n\n\n", b" \t\r\n", b"#\n", b"# note", b"\0", b"\xff\xfe1 1:1\n", b"\xef\xbb\xbf1 1:1\n-1 2:1\n"),
    *(b"1\n-1\n", b"1", b"1 1:1", b"1 1:1\r\n-1 2:1\r\n", b"1 1:1\r-1 2:1\r", b"1\t1:1\n-1\t\t2:1\n", b"1 1:1 1:1\n"),
    *(b"1 9:1 1:1\n-1 3:0\n", b"1 1:nan\n", b"1 1:inf\n", b"nan 1:1\n", b"1e400 1:1\n", b"1 1:1e400\n", b"1 1:3e38\n"),
    *(b"1 -1:1\n", b"1 1.5:1\n", b"1 1:1:1\n", b"1 :1\n", b"1 1:\n", b"1 1\n", b"one 1:1\n", b"1 qid:1 1:1\n-1 1:1\n"),
    *(
        b"+1 +1:1\n",
        b"1 1:0x10\n",
        b"1 1:1_0\n",
        b"1 1:\xd9\xa1\n",
        b"1 1:1" + b" " * 70000 + b"\n-1 2:1\n",
        b"3 1:1\n",
    ),
]
VW: list[bytes] = [
    *(b"", b"|\n", b"1 |\n-1 |\n", b"1 | a\n-1 | b\n", b"1 2 3 4 | a\n", b"1 -1 | a\n", b"1 'tag | a\n-1 'tag| b\n"),
    *(b"1 |a:nan b\n", b"1 |a b:inf\n", b"1 |\xff\xfe b\n", b"1 |a " + b"x" * 70000 + b"\n-1 |a y\n", b"no bar\n"),
]
CSV: list[bytes] = [
    *(
        b"",
        b"label,x\n",
        b"label,x\n1,2\n0,3\n",
        b"x,y\n1,2\n",
        b"label,label\n1,2\n",
        b"label,x\n1\n",
        b"label,x\n1,2,3\n",
    ),
    *(b'label,x\n1,"a\n', b"label,x\n1,\xff\n", b"label\n1\n0\n", b"label,x\n,\n"),
]
JSON: list[bytes] = [
    *(
        b"",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"null\nnull\n",
        b'{"label": 1, "x": 2}\nnull\n',
        b'{"label": 1} null\n',
        b"1\n",
    ),
    *(b'{"label": 1, "x": 2}\n{"label": 0, "x": "a"}\n', b'{"label": 1, "x": ', b'{"label": 1, "x": "}null"}\n'),
]
KINDS = {"svm": SVMLIGHT, "vw": VW, "csv": CSV, "jsonl": JSON}
ODD = [(f"odd{i}.{ending}", text) for ending, texts in KINDS.items() for i, text in enumerate(texts)]


def test_there_are_many() -> None:
    assert len(ODD) >= 64


@pytest.mark.interpreted
@pytest.mark.parametrize("bad", ["stop", pytest.param("skip", marks=pytest.mark.exhaustive)])
def test_an_odd_file_is_a_model_or_one_line_that_names_it(bad: str, run: Any) -> None:
    for name, text in ODD:
        Path(name).write_bytes(text)
        done = run("train", name, "-o", "model.psm", "-q", "--bits", "8", "--on-error", bad)
        if done.code == 0:
            coef, intercept = ps.load("model.psm").learner.weights()
            assert np.isfinite(coef).all(), (name, text)
            assert np.isfinite(intercept).all(), (name, text)
            os.unlink("model.psm")
        else:
            assert (done.code, done.out) == (1, ""), (name, text, done)
            assert done.err.startswith(name), (text, done)
            assert done.err.count("\n") == 1, (text, done)
        assert sorted(path.name for path in Path().iterdir()) == ["clicks.svm", name]
        os.unlink(name)


@pytest.mark.parametrize("text", [b"null\n", b'{"label": 1}\n null\n', b'{"label": 1} null\n'])
def test_a_null_among_json_lines_is_a_bad_row(text: bytes, run: Any) -> None:
    """Of lines that are all null pyarrow would crash."""
    Path("rows.jsonl").write_bytes(text)
    line = 1 + text.rstrip().count(b"\n")
    done = run("train", "rows.jsonl", "-o", "m.psm", "-q")
    assert done.code == 1
    assert done.err.startswith(f"rows.jsonl:{line}:1: found ")
    assert "expected an object" in done.err
    assert run("convert", "rows.jsonl", "rows.psr").code == 1
    assert not Path("rows.psr").exists()


def limited(room: int, *args: str) -> tuple[int, str]:
    """Run a command whose files have at most so many bytes."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))  # noqa: E731
    words = [sys.executable, "-B", "-m", "proxstream", *args]  # -B: Python would keep the start of its own files too
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=limit, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("args", "target"),
    [
        ("train clicks.svm -o old.psm -q --bits 8", "old.psm"),
        ("convert clicks.svm old.psr", "old.psr"),
        ("convert model.psm old.json", "old.json"),
    ],
)
def test_a_full_disk_leaves_what_was_there(args: str, target: str, run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "model.psm", "-q") == (0, "", "")
    Path(target).write_text("what was there")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert limited(200, *args.split()) == (1, f"{target}: File too large\n")
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_a_checkpoint_on_a_full_disk_is_named_and_no_model_written(run: Any) -> None:
    command = ["train", "clicks.svm", "-o", "m.psm", "-q", "--checkpoint", "1", "--chunk-bytes", "500"]
    code, err = limited(200, *command)
    assert (code, err) == (1, "m.psm.ckpt: File too large\n")
    assert sorted(path.name for path in Path().iterdir()) == ["clicks.svm"]


# -- files that change between a checkpoint and its continuation --------------------------------------

FTRL = ("--algorithm", "ftrl_proximal", "--alpha", "0.3", "-q", "--chunk-bytes", "500", "--checkpoint", "1")
KILLED = """
import os, sys
from proxstream.io import cache as rowcache
from proxstream.training.run import Run
save, n = Run.save_checkpoint, []
def save_and_stop(run):
    save(run)
    n.append(1)
    if len(n) == 2: os._exit(9)
Run.save_checkpoint = save_and_stop
from proxstream.cli import main
sys.exit(main(sys.argv[1:]))
"""


def killed(*args: str) -> None:
    """Train, and die after the second checkpoint."""
    assert subprocess.run([sys.executable, "-c", KILLED, *args], check=False).returncode == 9
    assert Path("m.psm.ckpt").exists()


def test_rows_added_after_a_checkpoint_are_learned_as_if_they_had_been_there(run: Any) -> None:
    command = ("train", "clicks.svm", "-o", "m.psm", *FTRL)
    killed(*command)
    with open("clicks.svm", "a") as file:
        file.write("1 1:1 7:1\n-1 2:1\n" * 30)
    assert run(*command, "--resume") == (0, "", "")
    resumed = Path("m.psm").read_bytes()
    assert run(*command) == (0, "", "")
    assert Path("m.psm").read_bytes() == resumed


def test_a_row_that_is_still_being_written_is_named_and_the_checkpoint_kept(run: Any) -> None:
    command = ("train", "clicks.svm", "-o", "m.psm", *FTRL)
    killed(*command)
    text = Path("clicks.svm").read_text()
    with open("clicks.svm", "a") as file:
        file.write("1 1:1 7:")
    done = run(*command, "--resume")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"clicks.svm:{text.count(chr(10)) + 1}:9: found the end of the line, expected a finite number\n"
    assert not Path("m.psm").exists()
    with open("clicks.svm", "a") as file:
        file.write("1\n")
    assert run(*command, "--resume") == (0, "", "")
    resumed = Path("m.psm").read_bytes()
    assert run(*command) == (0, "", "")
    assert Path("m.psm").read_bytes() == resumed


def test_a_row_cache_that_changes_after_a_checkpoint_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from proxstream.io import cache as rowcache, write_cache

    monkeypatch.setattr(rowcache, "ENTRIES", 100)  # several chunks
    write_cache(ps.open_stream("clicks.svm", chunk_bytes=500), "rows.psr")
    command = ("train", "rows.psr", "-o", "m.psm", *FTRL)
    killed(*command)
    kept, whole = Path("m.psm.ckpt").read_bytes(), Path("rows.psr").read_bytes()
    longer = Path("more.svm")
    longer.write_text("1 1:1\n" + Path("clicks.svm").read_text())
    write_cache(ps.open_stream("more.svm", chunk_bytes=500), "more.psr")
    changes = {
        "cut": whole[: len(whole) // 2],
        "cut to its beginning": whole[:100],
        "empty": b"",
        "longer": whole + b"\0" * 64,
        "another": Path("more.psr").read_bytes(),
        "a byte": whole[:200] + bytes([whole[200] ^ 1]) + whole[201:],
        "text": Path("clicks.svm").read_bytes(),
    }
    for name, changed in changes.items():
        Path("rows.psr").write_bytes(changed)
        done = run(*command, "--resume")
        assert (done.code, done.out) == (1, ""), name
        assert done.err.startswith("rows.psr: "), (name, done)
        assert done.err.count("\n") == 1, (name, done)
        assert Path("m.psm.ckpt").read_bytes() == kept, name
        assert not Path("m.psm").exists(), name
    Path("rows.psr").write_bytes(whole)
    assert run(*command, "--resume") == (0, "", "")
    resumed = Path("m.psm").read_bytes()
    assert run(*command) == (0, "", "")
    assert Path("m.psm").read_bytes() == resumed


def test_a_compressed_file_that_is_cut_after_a_checkpoint_is_refused(run: Any) -> None:
    assert run("convert", "clicks.svm", "clicks.svm.gz") == (0, "", "")
    command = ("train", "clicks.svm.gz", "-o", "m.psm", *FTRL)
    killed(*command)
    kept, whole = Path("m.psm.ckpt").read_bytes(), Path("clicks.svm.gz").read_bytes()
    for changed in (whole[:-20], whole[:30], b"", Path("clicks.svm").read_bytes()[:100]):
        Path("clicks.svm.gz").write_bytes(changed)
        done = run(*command, "--resume")
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("clicks.svm.gz: ")
        assert not Path("m.psm").exists()
        Path("m.psm.ckpt").write_bytes(kept)  # it may have moved on to the cut, behind rows that are sound
    Path("clicks.svm.gz").write_bytes(whole)
    assert cli.main([*command, "--resume"]) == 0
