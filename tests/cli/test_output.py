"""What the command line shows: on narrow terminals, quietly, and of models that were made in several passes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from ..training.training_cases import clicks

FTRL = ("--algorithm", "ftrl_proximal", "--l1", "0.02", "--alpha", "0.3")


# ---- training


def test_a_quiet_run_measures_its_speed(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm", *FTRL, "-q", "--metrics-file", "m.jsonl") == (0, "", "")
    lines = [json.loads(line) for line in Path("m.jsonl").read_text().splitlines()]
    summary = lines[-1]["summary"]
    assert 0.0 < lines[0]["seconds"] <= lines[-2]["seconds"] <= summary["seconds"]
    assert summary["rows_per_second"] * summary["seconds"] == pytest.approx(100.0)


def on_terminal(width: int, *args: str, cwd: Path) -> str:
    """Run a command on a pseudo-terminal of this width and return what it was sent, without what moves and colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    words = [sys.executable, "-m", "proxstream", *args]
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(words, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    seen = b""
    while True:
        try:
            seen += os.read(master, 1 << 16)
        except OSError:  # the other end has been closed
            break
    os.close(master)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


@pytest.mark.parametrize(("width", "last"), [(80, "non-zeros"), (90, "rows/s"), (120, "MB/s")])
def test_a_narrow_terminal_is_shown_the_columns_that_it_has_room_for(width: int, last: str, tmp_path: Path) -> None:
    clicks(tmp_path / "clicks.svm", 2000)
    seen = on_terminal(width, "train", "clicks.svm", "-o", "m.psm", *FTRL, cwd=tmp_path)
    lines = [line for line in re.split(r"[\r\n]+", seen) if not re.match(r"[━╸╺]", line)]
    head = next(i for i, line in enumerate(lines) if "mean loss" in line)
    assert lines[head].endswith(last)
    table = [line for line in lines[head:] if re.match(r" +[\d,]+ +0\.\d{6} ", line)]
    assert [int(line.split()[0].replace(",", "")) for line in table] == [1 << i for i in range(11)]
    assert {len(line) for line in [lines[head], *table]} == {len(lines[head])}
    assert len(lines[head]) <= width
    assert "nan" not in seen


# ---- inspect


def test_the_history_of_a_pass_ends_with_the_pass(run: Any) -> None:
    train = ("train", "clicks.svm", "-o", "m.psm", *FTRL, "-q", "--passes", "2", "--progress-every", "50")
    assert run(*train) == (0, "", "")
    expected = json.loads(run("inspect", "m.psm", "--json").out)["history"]
    assert [(line["pass"], line["rows"], "label" in line) for line in expected] == [
        *((1, 50, True), (1, 100, True), (1, 100, False)),
        *((2, 50, True), (2, 100, True), (2, 100, False)),
    ]


def test_options_are_shown_as_one_types_them(run: Any) -> None:
    Path("rows.csv").write_text("click,price,site,review\n1,2.5,a,good one\n0,1,b,bad one\n")
    words = "--class-weight 1=2 --bits 0 --classes 0,1 --cross 'site*price' --cross 'site*site' --label click --names"
    options = [*shlex.split(words), "--no-intercept", "--text", "review=words:1-2"]
    assert run("train", "rows.csv", "-o", "m.psm", "-q", *options) == (0, "", "")
    summary = run("inspect", "m.psm").out.partition("\nsummary\n")[2]
    expected = re.search(r"^options +(.*)$", summary, re.MULTILINE)
    assert expected
    assert sorted(shlex.split(expected[1])) == sorted(options)
    assert run("train", "rows.csv", "-o", "again.psm", "-q", *shlex.split(expected[1])) == (0, "", "")
    assert Path("again.psm").read_bytes() == Path("m.psm").read_bytes()
    assert "end of input" not in summary
