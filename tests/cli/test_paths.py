"""Files that the command line writes: never over what it reads, and errors name the file."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..training.training_cases import clicks


@pytest.fixture
def run(run: Any) -> Any:
    """Run a command in a folder with clicks.svm and model.psm in it."""
    assert run("train", "clicks.svm", "-o", "model.psm", "-q") == (0, "", "")
    return run


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("train clicks.svm -o clicks.svm", "-o clicks.svm is also an input file"),
        ("train c*.svm -o ./clicks.svm", "-o ./clicks.svm is also an input file"),
        ("train clicks.svm -o linked.svm", "-o linked.svm is also an input file"),
        ("train clicks.svm -o m.psm --metrics-file clicks.svm", "--metrics-file clicks.svm is also"),
        ("train noted.svm -o m.psm --quarantine noted.svm", "--quarantine noted.svm is also"),
        ("train clicks.svm -o m.psm --quarantine held.svm", "held.svm: exists and is not a quarantine file"),
        (
            "train clicks.svm -o m.psm --holdout-file held.svm --metrics-file held.svm",
            "--metrics-file held.svm is also",
        ),
        ("train clicks.svm -o m.psm --metrics-file m.psm", "--metrics-file m.psm is also the file of -o"),
        ("train clicks.svm -o m.psm --algorithm certified --metrics-file m.psm", "--metrics-file m.psm is also"),
        ("predict model.psm clicks.svm -o clicks.svm", "-o clicks.svm is also an input file"),
        ("predict model.psm clicks.svm -o model.psm", "-o model.psm is also an input file"),
        ("convert model.psm model.psm --to json", "-o model.psm is also an input file"),
    ],
)
def test_inputs_are_not_overwritten(args: str, expected: str, run: Any) -> None:
    os.symlink("clicks.svm", "linked.svm")
    clicks(Path("held.svm"), 20)
    Path("noted.svm").write_text("# of whom\n" + Path("held.svm").read_text())
    before = {path: path.read_bytes() for path in Path().iterdir()}
    done = run(*args.split())
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert done.err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_a_model_may_replace_the_initial_one(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "model.psm", "-q", "--initial", "model.psm") == (0, "", "")


def limited(*args: str, stdout: Any = subprocess.PIPE) -> tuple[int, str]:
    """Run a command whose files have at most 1000 bytes; return its code and its stderr."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731
    words = [sys.executable, "-B", "-m", "proxstream", *args]  # -B: Python would keep the start of its own files too
    done = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ("predict model.psm clicks.svm clicks.svm clicks.svm clicks.svm --predict scores -o scores.txt", "scores.txt"),
        ("convert clicks.svm rows.svm.gz", "rows.svm.gz"),
        ("train clicks.svm -o m.psm -q --metrics-file metrics.jsonl", "metrics.jsonl"),
        ("train bad.svm clicks.svm -o m.psm -q --quarantine kept.txt", "kept.txt"),
    ],
)
def test_a_full_disk_is_reported_with_the_file(args: str, name: str, run: Any) -> None:
    Path("bad.svm").write_text("1 1:x\n" * 100)
    assert limited(*args.split()) == (1, f"{name}: File too large\n")


def test_a_full_standard_output_is_reported(run: Any) -> None:
    with open("/dev/full", "w") as full:
        assert limited("predict", "model.psm", "clicks.svm", stdout=full) == (1, "stdout: No space left on device\n")


@pytest.mark.parametrize("args", ["convert clicks.svm gone/rows.vw", "predict model.psm clicks.svm -o gone/rows.vw"])
def test_a_missing_folder_is_reported_with_the_path(args: str, run: Any) -> None:
    assert run(*args.split()) == (1, "", "gone/rows.vw: No such file or directory\n")


def test_a_dash_is_standard_output_where_rows_go_and_refused_where_files_are_made(run: Any) -> None:
    assert run("predict", "model.psm", "clicks.svm", "-o", "-") == run("predict", "model.psm", "clicks.svm")
    for args in (("train", "clicks.svm", "-o", "-"), ("convert", "clicks.svm", "-", "--to", "vw")):
        done = run(*args)
        assert (done.code, done.out) == (2, "")
        assert "standard output" in done.err
    assert not Path("-").exists()


@pytest.mark.exhaustive
def test_a_full_disk_where_compiled_code_is_kept_stops_nothing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXSTREAM_CACHE_DIR", str(Path("compiled").absolute()))
    assert limited("predict", "model.psm", "clicks.svm") == (0, "")
