"""Checkpoints: a run that is killed, at whatever moment, and resumed ends in the same bytes as one that was not."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream import FTRLProximal, cli
from proxstream.core import losses
from proxstream.io import DataError
from proxstream.learner.learner import Learner
from proxstream.models import file as modelfile
from proxstream.training.base_session import Plan
from proxstream.training.labels import Labels
from proxstream.training.report import Pass
from proxstream.training.session import Session

from .training_cases import clicks

SCRIPT = str(Path(sys.executable).parent / "proxstream")
FTRL = ("--algorithm", "ftrl_proximal", "--l1", "0.002", "--alpha", "0.3")
SEVERAL = ("--algorithm", "ftrl_proximal", "--alpha", "0.3", "--l1", "auto", "--l2", "1e-4", "--keep-path")
OFTEN = ("--chunk-bytes", "4000", "--checkpoint", "1")  # a checkpoint after each chunk

# Trains in children of a process that has imported everything, kills each at a random moment, and resumes until the
# model is there. Its arguments: the kills wanted, a seed, and the command line.
DRIVER = """
import os, random, signal, sys, time
from proxstream import cli

kills, rng, command = int(sys.argv[1]), random.Random(int(sys.argv[2])), sys.argv[3:]

def run(seconds, *more):
    child = os.fork()
    if child == 0:
        os._exit(cli.main([*command, *more]))
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

model = command[command.index("-o") + 1]
assert cli.main(command) == 0  # so that the children find compiled code loaded
os.unlink(model)
begun = time.perf_counter()
assert run(None) == 0
whole = time.perf_counter() - begun
expected = open(model, "rb").read()
done = runs = 0
while done < kills:
    os.unlink(model)
    runs += 1
    while True:
        code = run(whole * rng.random(), "--resume")
        if code == 0:
            break
        assert code == -signal.SIGKILL, code
        done += 1
    assert open(model, "rb").read() == expected, f"run {runs} differs after {done} kills"
    assert not os.path.exists(model + ".ckpt"), "a finished run leaves its checkpoint"
print(done, runs)
"""


@pytest.mark.parametrize(
    ("least", "learner"),
    [*(pytest.param(least, FTRL, marks=pytest.mark.exhaustive) for least in (24, 6)), (6, SEVERAL)],
    ids=["one strength, often", "one strength", "several strengths"],
)
def test_kills_leave_no_trace(least: int, learner: tuple[str, ...], tmp_path: Path) -> None:
    clicks(tmp_path / "a.svm", 2000, features=200)
    clicks(tmp_path / "b.svm", 1000, features=300, seed=1)
    command = [
        "train",
        "a.svm",
        "b.svm",
        "-o",
        "model.psm",
        *learner,
        *OFTEN,
        "--passes",
        "2",
        "--holdout-every",
        "7",
        "--shuffle-buffer",
        "700",
        "--quiet",
    ]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(least), "1", *command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills, runs = map(int, done.stdout.split())
    assert kills >= least
    assert runs >= 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svm", "b.svm", "model.psm"]


@pytest.mark.exhaustive
def test_killed_while_names_are_numbered_and_rows_quarantined(tmp_path: Path) -> None:
    rng = random.Random(0)
    lines = [
        f"{rng.choice((-1, 1))} |site s{rng.randrange(400)} |ad a{rng.randrange(300)} b{rng.randrange(50)}\n"
        if rng.random() > 0.01
        else "1 |site x:nan\n"
        for _ in range(2000)
    ]
    (tmp_path / "rows.vw").write_text("".join(lines))
    command = ["train", "rows.vw", "-o", "model.psm", *FTRL, *OFTEN, "--bits", "0", "--cross", "site*ad", "--quiet"]
    command += ["--quarantine", "bad.txt"]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, "6", "2", *command], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    model = ps.load(tmp_path / "model.psm")
    assert model.summary["skipped"] == lines.count("1 |site x:nan\n")
    assert (tmp_path / "bad.txt").read_text().count("1 |site x:nan\n") == model.summary["skipped"]
    assert model.learner.n_features == len(model.names["keys"])


@pytest.fixture
def train(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    clicks(Path("clicks.svm"), 3000)

    def run(*args: str) -> tuple[int, str]:
        code = cli.main(["train", "clicks.svm", "-o", "model.psm", *FTRL, *args])
        return code, capsys.readouterr().err

    return run


def interrupted(folder: Path, number: int, *args: str) -> subprocess.CompletedProcess[str]:
    """Feed rows slowly to a run, and send it a signal once it has learned some."""
    command = [SCRIPT, "train", "-", "-o", "model.psm", "--format", "svmlight", *FTRL, *args]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=folder, text=True, **pipes)
    assert process.stdin is not None
    assert process.stderr is not None
    lines = (folder / "clicks.svm").read_text().splitlines(keepends=True)
    process.stdin.write("".join(lines[:1000]))
    process.stdin.flush()
    table = ""
    while not re.search(r"^ +512 ", table, flags=re.MULTILINE):  # now it waits for more
        table += process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(number)
    _, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(command, process.returncode, "", table + err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_a_checkpoint_and_says_how_to_resume(number: int, train: Any, tmp_path: Path) -> None:
    assert train("--quiet", "--format", "svmlight") == (0, "")
    expected = Path("model.psm").read_bytes()
    os.unlink("model.psm")
    done = interrupted(tmp_path, number)
    assert done.returncode == 130
    found = "interrupted after 1,000 rows; checkpoint written to model.psm.ckpt; to resume, add --resume to the command"
    assert done.stderr.splitlines()[-1] == found
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clicks.svm", "model.psm.ckpt"]
    # The rows come again from the start, from a file or from a pipe: what was learned of them is passed over.
    code, err = train("--format", "svmlight", "--resume")
    assert code == 0
    assert err.startswith("resumed after 1,000 rows\n")
    assert Path("model.psm").read_bytes() == expected
    assert not Path("model.psm.ckpt").exists()


def checkpointed(train: Any, tmp_path: Path, *args: str) -> bytes:
    """Leave a checkpoint in the folder, and return what the whole run makes."""
    assert train("--quiet", "--format", "svmlight", *args)[0] == 0
    expected = Path("model.psm").read_bytes()
    os.unlink("model.psm")
    assert interrupted(tmp_path, signal.SIGINT, *args).returncode == 130
    return expected


def test_other_settings_are_named(train: Any, tmp_path: Path) -> None:
    expected = checkpointed(train, tmp_path)
    kept = Path("model.psm.ckpt").read_bytes()
    for args, found in (
        (("--l1", "0.5"), "model.psm.ckpt: was written with --l1 0.002, this run has 0.5"),
        (("--alpha", "0.4"), "model.psm.ckpt: was written with --alpha 0.3, this run has 0.4"),
        (("--beta", "2"), "model.psm.ckpt: was written with --beta unset, this run has 2"),
        (("--loss", "hinge"), "model.psm.ckpt: was written with --loss logistic, this run has hinge"),
        (("--passes", "3"), "model.psm.ckpt: was written with --passes 1, this run has 3"),
        (("--bits", "10"), "model.psm.ckpt: was written with --bits 22, this run has 10"),
    ):
        code, err = train("--format", "svmlight", "--resume", *args)
        assert (code, err) == (1, f"{found}\n")
        assert Path("model.psm.ckpt").read_bytes() == kept
        assert not Path("model.psm").exists()
    # What is only shown or kept may differ.
    assert train("--format", "svmlight", "--resume", "--quiet", "--checkpoint", "5", "--chunk-bytes", "999")[0] == 0
    assert Path("model.psm").read_bytes() == expected


def test_changed_input_is_refused_and_the_checkpoint_kept(train: Any, tmp_path: Path) -> None:
    expected = checkpointed(train, tmp_path)
    kept = Path("model.psm.ckpt").read_bytes()
    text = Path("clicks.svm").read_text()
    lines = text.splitlines(keepends=True)
    changes = {
        "a byte": text.replace("1:1", "1:2", 1),
        "shorter": "".join(lines[:500]),
        "a row less": "".join(lines[1:]),
        "empty": "",
    }
    for name, changed in changes.items():
        Path("clicks.svm").write_text(changed)
        code, err = train("--format", "svmlight", "--resume", "--quiet")
        assert code == 1, name
        assert err.startswith("clicks.svm: the file has changed"), name
        assert err.count("\n") == 1
        assert Path("model.psm.ckpt").read_bytes() == kept
    os.unlink("clicks.svm")
    assert train("--format", "svmlight", "--resume", "--quiet") == (1, "clicks.svm: no such file\n")
    assert Path("model.psm.ckpt").read_bytes() == kept
    Path("clicks.svm").write_text(text)
    assert train("--format", "svmlight", "--resume", "--quiet") == (0, "")
    assert Path("model.psm").read_bytes() == expected


@pytest.mark.parametrize("place", [10, 1990])
def test_rows_that_change_between_two_passes_are_refused(place: int, tmp_path: Path) -> None:
    lines = clicks(tmp_path / "clicks.svm", 2000).read_text().splitlines(keepends=True)
    path = str(tmp_path / "clicks.svm")
    changed = [*lines[:place], lines[place].replace(":1", ":2", 1), *lines[place + 1 :]]
    for other in ("".join(changed), "".join([*lines, "1 1:1\n"]), "".join(lines[:-1])):
        Path(path).write_text("".join(lines))
        ended: list[Pass] = []

        def change(one: Pass, other: str = other, ended: list[Pass] = ended) -> None:
            ended.append(one)
            Path(path).write_text(other)

        session = Session(
            Learner(FTRLProximal(), growing=True), Labels(losses.logistic), Plan(passes=3), on_pass=change
        )
        with pytest.raises(DataError, match=r"clicks\.svm: the file has changed"):
            session.run(ps.open_stream(path, chunk_bytes=4096))
        assert [one.number for one in ended] == [1]


def test_a_change_behind_the_place_of_a_checkpoint_in_a_later_pass_is_refused(train: Any, tmp_path: Path) -> None:
    several = ("--passes", "3", "--quiet", "--chunk-bytes", "4096")
    assert train(*several)[0] == 0
    expected = Path("model.psm").read_bytes()
    os.unlink("model.psm")
    order = ("train", "clicks.svm", "-o", "model.psm", *FTRL, *several, "--checkpoint", "1")
    killed = (
        "import os, sys; from proxstream.training.run import Run\n"
        "save = Run.save_checkpoint\n"
        "def saved(run):\n"
        "    save(run)\n"
        "    if run.session.progress.number == 1: os._exit(9)\n"
        "Run.save_checkpoint = saved\n"
        f"from proxstream.cli import main; sys.exit(main({list(order)!r}))"
    )
    assert subprocess.run([sys.executable, "-c", killed], cwd=tmp_path, check=False).returncode == 9
    text = Path("clicks.svm").read_text()
    kept = Path("model.psm.ckpt").read_bytes()
    Path("clicks.svm").write_text(text[:-2] + "9\n")  # the last value
    code, err = train(*several, "--resume")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("clicks.svm: the file has changed")
    Path("clicks.svm").write_text(text)
    Path("model.psm.ckpt").write_bytes(kept)
    assert train(*several, "--resume") == (0, "")
    assert Path("model.psm").read_bytes() == expected


def test_a_damaged_checkpoint_is_an_error(train: Any) -> None:
    Path("model.psm.ckpt").write_bytes(b"no checkpoint")
    code, err = train("--resume", "--quiet")
    assert code == 1
    assert err.startswith("model.psm.ckpt: not a model file")
    modelfile.write("model.psm.ckpt", {"kind": "other"}, {})
    assert train("--resume", "--quiet") == (1, "model.psm.ckpt: not a checkpoint, but a file of kind 'other'\n")


def test_resuming_without_a_checkpoint(train: Any) -> None:
    assert train("--resume", "--quiet") == (0, "")  # afresh
    first, made = Path("model.psm").read_bytes(), os.stat("model.psm").st_mtime_ns
    code, err = train("--resume")
    assert (code, err) == (0, "model.psm is up to date, nothing to do\n")
    assert os.stat("model.psm").st_mtime_ns == made
    # A model of other settings or other rows is not what this run makes.
    assert train("--resume", "--quiet", "--l1", "0.1")[0] == 0
    assert Path("model.psm").read_bytes() != first
    with open("clicks.svm", "a") as file:
        file.write("1 1:1\n")
    assert train("--resume", "--quiet")[0] == 0
    assert ps.load("model.psm").summary["rows"] == 3001


def test_metrics_of_a_resumed_run_have_each_line_once(train: Any, tmp_path: Path) -> None:
    assert train("--quiet", "--format", "svmlight", "--metrics-file", "whole.jsonl")[0] == 0
    os.unlink("model.psm")
    assert interrupted(tmp_path, signal.SIGINT, "--metrics-file", "metrics.jsonl").returncode == 130
    with open("metrics.jsonl", "a") as file:  # as if a killed run had got further than its checkpoint
        file.write('{"pass": 1, "rows": 1024, "mean_loss": 9.0}\n{"pass": 1, "ro')
    assert train("--quiet", "--format", "svmlight", "--resume", "--metrics-file", "metrics.jsonl")[0] == 0

    def found(path: str) -> list[Any]:
        lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
        return [{name: line[name] for name in sorted(line) if name not in ("seconds", "summary")} for line in lines]

    assert found("metrics.jsonl") == found("whole.jsonl")


def test_leftovers_of_a_killed_writer_are_swept_up(train: Any, tmp_path: Path) -> None:
    for name in (".model.psm.0123456789ab.tmp", ".model.psm.ckpt.0123456789ab.tmp", ".other.psm.0123456789ab.tmp"):
        Path(name).write_bytes(b"half")
    assert train("--quiet", "--resume")[0] == 0
    left = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("."))
    assert left == [".other.psm.0123456789ab.tmp"]


def test_a_checkpoint_is_no_model(train: Any, tmp_path: Path) -> None:
    checkpointed(train, tmp_path)
    with pytest.raises(modelfile.ModelFileError, match=r"model\.psm\.ckpt: "):
        ps.load("model.psm.ckpt")


@pytest.mark.exhaustive
def test_resumed_with_float64_and_means(train: Any, tmp_path: Path) -> None:
    args = ("--dtype", "float64", "--average", "--holdout-share", "0.3")
    expected = checkpointed(train, tmp_path, *args)
    assert train("--quiet", "--format", "svmlight", "--resume", *args)[0] == 0
    assert Path("model.psm").read_bytes() == expected
    assert np.isfinite(ps.load("model.psm").learner.weights()[0]).all()
