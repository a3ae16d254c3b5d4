"""Several strengths in one run: the chosen model is the one that a run alone with its strength writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxstream import cli
from proxstream.models import file as modelfile
from proxstream.training.checkpoint import CheckpointStore
from proxstream.training.opening import OpenedStream
from proxstream.training.strengths import parse_choice, parse_strengths

from .training_cases import clicks, contents

OFTEN = ("--chunk-bytes", "4000", "--checkpoint", "1")  # a checkpoint after each chunk
HELD_OUT = ("--holdout-every", "5", "--passes", "3")


@pytest.fixture
def train(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    clicks(Path("clicks.svm"), 1500)

    def run(*args: str, output: str = "model.psm", data: str = "clicks.svm") -> str:
        assert cli.main(["train", data, "-o", output, *args]) == 0
        return capsys.readouterr().err

    return run


# ---- one run is as good as many


@pytest.mark.interpreted("core", "learner")
@pytest.mark.default_cases(2)
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--algorithm", "ftrl_proximal", "--alpha", "0.3", *HELD_OUT),
        ("--algorithm", "mirror_descent", "--dtype", "float64", "--holdout-share", "0.1"),
        ("--average", "--passes", "2", "--algorithm", "rda"),
        ("--loss", "squared", "--algorithm", "adagrad", "--holdout-file", "clicks.svm", "--passes", "2"),
        ("--l2", "0.01", "--algorithm", "rda"),
        ("--l2", "0.02", "--penalty", "nonnegative", *HELD_OUT),
    ],
    ids=lambda options: " ".join(options) or "default",
)
def test_the_chosen_model_is_that_of_a_run_alone(options: tuple[str, ...], train: Any) -> None:
    clicks(Path("clicks.svm"), 150)
    train("--l1", "0.1,0.01,0.001,0", "--choose", "best", *options)
    model = modelfile.load("model.psm")
    losses = [entry.get("held_out_loss", entry["progressive_loss"]) for entry in model.summary["path"]]
    place = int(np.argmin(losses))
    assert model.summary["strength"] == (0.1, 0.01, 0.001, 0.0)[place]
    assert model.summary["path"][place]["difference_error"] == 0.0
    for entry in model.summary["path"]:
        train("--l1", str(entry["strength"]), *options, output="alone.psm")
        alone = modelfile.load("alone.psm").summary
        for name in entry.keys() - {"strength", "difference_error"}:
            assert alone[name] == entry[name], name
        if entry["strength"] == model.summary["strength"]:
            assert contents("alone.psm") == contents("model.psm")


def test_a_path_stored_gives_what_each_choice_would_have_given(train: Any) -> None:
    path = ("--l1", "1e-4:0.1:4", *HELD_OUT)
    train(*path, "--keep-path")
    choices = {"best": ("--best",), "1se": ("--1se",), "nnz=20": ("--nnz", "20"), "loss=5%": ("--loss", "5%")}
    for rule, option in choices.items():
        assert cli.main(["choose", "model.psm", *option, "-o", "later.psm"]) == 0
        train(*path, "--choose", rule, output="once.psm")
        assert contents("later.psm") == contents("once.psm"), rule
    train("--l1", "0.1", *HELD_OUT, output="alone.psm")
    assert cli.main(["choose", "model.psm", "--strength", "0.1", "-o", "later.psm"]) == 0
    assert contents("later.psm") == contents("alone.psm")


def test_a_path_stored_keeps_its_l2_penalty(train: Any) -> None:
    train("--l1", "0.1,0.01,0", "--l2", "0.05", "--keep-path")
    for strength in ("0.1", "0.01", "0"):
        assert cli.main(["choose", "model.psm", "--strength", strength, "-o", "later.psm"]) == 0
        train("--l1", strength, "--l2", "0.05", output="alone.psm")
        assert contents("later.psm") == contents("alone.psm")


def test_the_model_chosen_learns_on(train: Any) -> None:
    train("--l1", "0.01,0.001", "--choose", "best", "--keep-path")
    strength = str(modelfile.load("model.psm").summary["strength"])
    train("--l1", strength, output="alone.psm")
    for name in ("model", "alone"):
        train("--initial", f"{name}.psm", output=f"more-{name}.psm")
    assert contents("more-model.psm") == contents("more-alone.psm")


# ---- strengths found by the first rows


def test_auto_is_the_list_that_it_finds_from_a_file_or_a_pipe(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    train("--l1", "auto")
    found = [entry["strength"] for entry in modelfile.load("model.psm").summary["path"]]
    rows = [line.split() for line in Path("clicks.svm").read_text().splitlines()[:1000]]
    X = np.zeros((1000, 51))
    for x, (_, *cells) in zip(X, rows, strict=True):
        x[[int(cell.split(":")[0]) for cell in cells]] = 1.0
    y = np.array([float(label) for label, *_ in rows])
    largest = np.abs(X.T @ (y / 2 - np.mean(y) / 2)).max() / 1000  # the slope of the loss at the best constant
    np.testing.assert_allclose(found, [*largest * np.logspace(0, -4, 9), 0.0], rtol=5e-3)
    train("--l1", ",".join(map(str, found)), output="listed.psm")
    assert contents("listed.psm") == contents("model.psm")
    with open("clicks.svm") as file:
        command = [sys.executable, "-m", "proxstream", "train", "-", "-o", "piped.psm", "--l1", "auto"]
        subprocess.run([*command, "--format", "svmlight", "--quiet"], stdin=file, check=True)
    assert contents("piped.psm") == contents("model.psm")


def test_auto_leaves_out_held_out_rows_and_quarantines_bad_rows_once(train: Any) -> None:
    good = Path("clicks.svm").read_text().splitlines(keepends=True)
    Path("bad.svm").write_text("".join([*good[:3], "1 2:x\n", *good[3:], "3 1:1\n"]))
    train("--l1", "auto", "--holdout-every", "2")
    options = ("--l1", "auto", "--holdout-every", "2", "--quarantine", "bad.txt")
    train(*options, data="bad.svm", output="skipped.psm")
    assert [line for line in Path("bad.txt").read_text().splitlines() if line[0] != "#"] == ["1 2:x", "3 1:1"]
    kept = "".join(line for i, line in enumerate(good) if i % 2 == 0)
    Path("kept.svm").write_text(kept)
    train("--l1", "auto", data="kept.svm", output="kept.psm")
    grids = [
        [entry["strength"] for entry in modelfile.load(f"{name}.psm").summary["path"]]
        for name in ("model", "skipped", "kept")
    ]
    assert grids[0] == grids[1] == grids[2]


@pytest.mark.exhaustive
def test_auto_sees_standardized_columns(train: Any) -> None:
    rows = [f"{(i * 7) % 13 * 1000 + 5},{i % 2 if i % 5 else (i * 7) % 13 > 6:d}" for i in range(300)]
    Path("table.csv").write_text("\n".join(["amount,label", *rows]) + "\n")
    train("--l1", "auto", data="table.csv")
    summary = modelfile.load("model.psm").summary
    assert summary["path"][0]["strength"] < 1.0  # of the column itself it would be in the thousands
    train("--l1", str(summary["strength"]), data="table.csv", output="alone.psm")
    assert contents("alone.psm") == contents("model.psm")


# ---- interruptions


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("saves", [1, 7, 30])
def test_a_run_that_is_killed_and_resumed_writes_the_same_bytes(
    saves: int, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--l1", "auto", "--keep-path", "--early-stop", "1", *HELD_OUT, *OFTEN)
    train(*options, output="whole.psm")

    class Killed(BaseException):
        pass

    save, left = CheckpointStore.save, [saves]

    def save_and_die(store: CheckpointStore, *args: Any) -> None:
        save(store, *args)
        left[0] -= 1
        if not left[0]:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "save", save_and_die)
        with pytest.raises(Killed):
            train(*options)
    train(*options, "--resume")
    assert Path("model.psm").read_bytes() == Path("whole.psm").read_bytes()
    assert not os.path.exists("model.psm.ckpt")
    assert "up to date" in train(*options, "--resume")


def test_a_checkpoint_of_other_strengths_is_refused(
    train: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "clear", lambda store: None)
        train("--l1", "0.1,0.01", *OFTEN)
    assert cli.main(["train", "clicks.svm", "-o", "model.psm", "--l1", "0.1,0.02", "--resume"]) == 1
    assert "was written with --l1 [0.1, 0.01], this run has [0.1, 0.02]" in capsys.readouterr().err


# ---- what is shown


def test_the_table_shows_the_best_strength_so_far_and_the_summary_the_path(train: Any) -> None:
    shown = train("--l1", "0.1,0.01,0.001", "--choose", "nnz=0", "--holdout-every", "4")
    model = modelfile.load("model.psm")
    head = next(line.split() for line in shown.splitlines() if "mean loss" in line)
    assert head[-3:] == ["l1", "rows/s", "MB/s"]
    chosen = next(line.split() for line in shown.splitlines() if line.startswith("* "))
    assert chosen[1] == f"{model.summary['strength']:g}"
    assert len(chosen) == 5  # the mark, strength, progressive and held-out loss, non-zeros


def test_a_rule_that_no_strength_meets_takes_the_sparsest(train: Any) -> None:
    shown = train("--l1", "0.001,0.0001", "--choose", "nnz=1")
    assert shown.splitlines()[-1].startswith("nnz=1: all models have more non-zeros, the sparsest one ")
    assert modelfile.load("model.psm").summary["strength"] == 0.001


# ---- options


def test_grids_and_rules() -> None:
    assert parse_strengths("1e-7:1e-3:5") == pytest.approx((1e-7, 1e-6, 1e-5, 1e-4, 1e-3), rel=1e-12)
    assert parse_strengths("0.5") == 0.5
    assert parse_choice("loss=0.02") == {"loss_within": 0.02}


def test_an_opened_stream_is_read_once() -> None:
    class Source:
        reads = 0

        def chunks(self, start: Any) -> Any:
            self.reads += 1
            yield from "abcd"

    source = Source()
    stream = OpenedStream(source)
    look = stream.look()
    assert [next(look), next(look)] == ["a", "b"]
    assert [*stream.chunks()] == ["a", "b", "c", "d"]
    assert source.reads == 1
    assert [*stream.chunks()] == ["a", "b", "c", "d"]
    assert source.reads == 2
