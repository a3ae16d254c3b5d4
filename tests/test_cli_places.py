"""Files that the command line writes: never over what it reads, and told by their names where they cannot be."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .training_cases import clicks


@pytest.fixture
def run(run: Any) -> Any:
    """Run a command in a folder with clicks.svm and model.psm in it."""
    assert run("train", "clicks.svm", "-o", "model.psm", "-q") == (0, "", "")
    return run


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("train clicks.svm -o clicks.svm", "-o clicks.svm would be written over what is read"),
        ("train c*.svm -o ./clicks.svm", "-o ./clicks.svm would be written over what is read"),
        ("train clicks.svm -o linked.svm", "-o linked.svm would be written over what is read"),
        ("train clicks.svm -o m.psm --metrics-file clicks.svm", "--metrics-file clicks.svm would be"),
        ("train noted.svm -o m.psm --on-error quarantine noted.svm", "--on-error quarantine noted.svm would be"),
        ("train clicks.svm -o m.psm --on-error quarantine held.svm", "held.svm: holds no quarantined rows"),
        ("train clicks.svm -o m.psm --holdout held.svm --metrics-file held.svm", "--metrics-file held.svm would be"),
        ("train clicks.svm -o m.psm --metrics-file m.psm", "--metrics-file m.psm would be written over -o"),
        ("train clicks.svm -o m.psm --algorithm certified --metrics-file m.psm", "--metrics-file m.psm would be"),
        ("predict model.psm clicks.svm -o clicks.svm", "-o clicks.svm would be written over what is read"),
        ("predict model.psm clicks.svm -o model.psm", "-o model.psm would be written over what is read"),
        ("convert model.psm model.psm --to json", "OUT model.psm would be written over what is read"),
    ],
)
def test_what_is_read_is_not_written_over(args: str, told: str, run: Any) -> None:
    os.symlink("clicks.svm", "linked.svm")
    clicks(Path("held.svm"), 20)
    Path("noted.svm").write_text("# of whom\n" + Path("held.svm").read_text())
    before = {path: path.read_bytes() for path in Path().iterdir()}
    done = run(*args.split())
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_a_model_may_take_the_place_of_the_one_that_it_goes_on_from(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "model.psm", "-q", "--initial", "model.psm") == (0, "", "")


def limited(*args: str, stdout: Any = subprocess.PIPE) -> tuple[int, str]:
    """Run a command whose files have at most 1000 bytes; return its code and what it told."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731
    words = [sys.executable, "-m", "proxstream", *args]
    done = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ("predict model.psm clicks.svm clicks.svm clicks.svm clicks.svm --output scores -o scores.txt", "scores.txt"),
        ("convert clicks.svm rows.svm.gz", "rows.svm.gz"),
        ("train clicks.svm -o m.psm -q --metrics-file metrics.jsonl", "metrics.jsonl"),
        ("train bad.svm clicks.svm -o m.psm -q --on-error quarantine kept.txt", "kept.txt"),
    ],
)
def test_a_full_disk_is_told_with_the_file(args: str, name: str, run: Any) -> None:
    Path("bad.svm").write_text("1 1:x\n" * 100)
    assert limited(*args.split()) == (1, f"{name}: File too large\n")


def test_a_standard_output_that_is_full_is_told(run: Any) -> None:
    with open("/dev/full", "w") as full:
        assert limited("predict", "model.psm", "clicks.svm", stdout=full) == (1, "stdout: No space left on device\n")


@pytest.mark.parametrize("args", ["convert clicks.svm gone/rows.vw", "predict model.psm clicks.svm -o gone/rows.vw"])
def test_a_folder_that_is_not_there_is_told_by_the_name_given(args: str, run: Any) -> None:
    assert run(*args.split()) == (1, "", "gone/rows.vw: No such file or directory\n")


def test_a_dash_is_standard_output_where_rows_go_and_refused_where_files_are_made(run: Any) -> None:
    assert run("predict", "model.psm", "clicks.svm", "-o", "-") == run("predict", "model.psm", "clicks.svm")
    for args in (("train", "clicks.svm", "-o", "-"), ("convert", "clicks.svm", "-", "--to", "vw")):
        done = run(*args)
        assert (done.code, done.out) == (2, "")
        assert "standard output" in done.err
    assert not Path("-").exists()


def test_a_full_disk_where_compiled_code_is_kept_stops_nothing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXSTREAM_CACHE_DIR", str(Path("compiled").absolute()))
    assert limited("predict", "model.psm", "clicks.svm") == (0, "")
