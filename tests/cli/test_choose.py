"""Several strengths on the command line: what is refused, and models that hold a path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxstream import cli
from proxstream.models import file as modelfile

from ..training.training_cases import clicks


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    clicks(Path("clicks.svm"), 400)

    def run(*words: str, code: int = 0) -> str:
        assert cli.main([*words]) == code
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    return run


@pytest.fixture
def path(run: Any) -> Any:
    """Return a function that runs commands where path.psm has four strengths and model.psm one."""
    run("train", "clicks.svm", "-o", "path.psm", "--l1", "0.1,0.03,0.01,0.003", "--keep-path", "--quiet")
    run("train", "clicks.svm", "-o", "model.psm", "--l1", "0.01", "--quiet")
    return run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--l1 much", "--l1 must be a number >= 0, auto, increasing or decreasing numbers such as 1e-6,1e-5,1e-4"),
        ("--l1 -1", "got '-1'"),
        ("--l1 nan", "got 'nan'"),
        ("--l1 inf", "got 'inf'"),
        ("--l1 0.1,-0.2", "--l1 0.1,-0.2: strengths must be numbers >= 0, got -0.2 at index 1"),
        ("--l1 0.1,0.1", "--l1 0.1,0.1: strengths must increase or decrease: 0.1 at index 1 follows 0.1"),
        ("--l1 0.1,0.3,0.2", "--l1 0.1,0.3,0.2: strengths must increase or decrease: 0.2 at index 2 follows 0.3"),
        ("--l1 0.1,nan", "--l1 0.1,nan: strengths"),
        ("--l1 0:1:3", "--l1 0:1:3: a grid has two different ends above 0 and 2 to 1000 strengths"),
        ("--l1 0.1:1:1", "--l1 0.1:1:1: a grid"),
        ("--l1 0.1:1", "got '0.1:1'"),
        (
            "--l1 auto --choose some",
            "--choose must be best, 1se, nnz=N such as nnz=1000, or loss=SHARE such as loss=1%",
        ),
        ("--l1 auto --choose nnz=-1", "got 'nnz=-1'"),
        ("--l1 auto --choose loss=nan", "got 'loss=nan'"),
        ("--l1 0.1 --choose best", "--choose needs several strengths: --l1 auto"),
        ("--keep-path", "--keep-path needs several strengths"),
        ("--l1 auto --threads 2", "--threads 2 does not go with several strengths"),
        ("--l1 auto --algorithm certified", "--algorithm certified does not go with several strengths"),
        ("--l1 auto --loss ranking_hinge", "--loss ranking_hinge does not go with several strengths"),
        ("--l1 auto --keep-path --weights-only", "--keep-path --weights-only does not go with several strengths"),
        ("--l1 auto --penalty l2(0.1)", "must be a constraint such as nonnegative"),
        ("--l1 auto --names --cluster local:1", "--names does not apply to --cluster"),
    ],
)
def test_options_that_cannot_be_used(options: str, message: str, run: Any) -> None:
    error = run("train", "clicks.svm", "-o", "model.psm", *options.split(), code=2)
    assert message in error
    assert error.count("\n") == 1
    assert not Path("model.psm").exists()


def test_auto_says_that_a_loss_has_no_bound_at_zero(run: Any) -> None:
    Path("zeros.svm").write_text("0 1:1\n0 2:1\n0 1:1 2:1\n")
    error = run("train", "zeros.svm", "-o", "model.psm", "--loss", "poisson", "--l1", "auto", code=2)
    assert error.startswith("proxstream train: --l1 auto: ")
    assert error.count("\n") == 1


def test_auto_without_rows(run: Any) -> None:
    Path("none.svm").write_text("\n")
    assert run("train", "none.svm", "-o", "m.psm", "--l1", "auto", code=1) == "none.svm: no rows to learn from\n"


def test_predict_and_evaluate_use_the_chosen_strength_or_another(path: Any) -> None:
    chosen = modelfile.load("path.psm").summary["strength"]
    usual = path("predict", "path.psm", "clicks.svm", "--predict", "scores")
    assert usual == path("predict", "path.psm", "clicks.svm", "--predict", "scores", "--strength", str(chosen))
    alone = path("predict", "model.psm", "clicks.svm", "--predict", "scores")
    assert alone == path("predict", "path.psm", "clicks.svm", "--predict", "scores", "--strength", "0.01")
    strong = path("predict", "path.psm", "clicks.svm", "--predict", "scores", "--strength", "0.1")
    assert strong != alone
    measured = json.loads(path("evaluate", "path.psm", "clicks.svm", "--strength", "0.01", "--json"))
    assert measured == json.loads(path("evaluate", "model.psm", "clicks.svm", "--json"))


def test_inspect_shows_all_strengths(path: Any) -> None:
    shown = path("inspect", "path.psm", "--top", "0")
    assert "path: all models are in the file" in shown
    (start,) = [i for i, line in enumerate(shown.splitlines()) if line.split()[:2] == ["l1", "strength"]]
    lines = shown.splitlines()[start + 1 : start + 5]
    assert [line.lstrip("* ").split()[0] for line in lines] == ["0.1", "0.03", "0.01", "0.003"]
    assert sum(line.startswith("*") for line in lines) == 1
    path("choose", "path.psm", "--nnz", "10000", "-o", "small.psm")
    assert "path: the chosen model is in the file" in path("inspect", "small.psm")


def test_choose_obeys_its_limits(path: Any) -> None:
    entries = modelfile.load("path.psm").summary["path"]
    counts, losses = ([entry[name] for entry in entries] for name in ("nonzeros", "progressive_loss"))
    limit = sorted(counts)[1]
    path("choose", "path.psm", "--nnz", str(limit), "-o", "small.psm")
    fitting = [k for k in range(4) if counts[k] <= limit]
    assert modelfile.load("small.psm").summary["strength"] == entries[min(fitting, key=losses.__getitem__)]["strength"]
    path("choose", "path.psm", "--best", "-o", "small.psm")
    small = modelfile.load("small.psm")
    assert small.summary["strength"] == entries[int(np.argmin(losses))]["strength"]
    assert small.learner.progressive_loss == min(losses)
    assert np.count_nonzero(small.coef_) == small.summary["nonzeros"] == counts[int(np.argmin(losses))]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("choose path.psm -o small.psm", "give one of --best, --1se, --nnz, --loss, --strength; got none"),
        ("choose path.psm -o small.psm --best --nnz 3", "got --best and --nnz"),
        ("choose path.psm -o small.psm --loss much", "--loss must be a share >= 0 such as 1% or 0.01, got 'much'"),
        ("choose path.psm -o small.psm --nnz -1", "--nnz"),
        ("choose path.psm -o small.psm --strength 0.5", "--strength 0.5: path.psm: strength must be one of the path's"),
        ("choose model.psm -o small.psm --best", "--best: model.psm: has no other strengths; train with --keep-path"),
        ("choose path.psm -o path.psm --best", "-o path.psm is also an input file"),
        ("predict path.psm clicks.svm --strength 0.5", "--strength 0.5: path.psm: strength must be one of the path's"),
        ("evaluate model.psm clicks.svm --strength 0.01", "model.psm: has no other strengths; train with --keep-path"),
    ],
)
def test_choices_that_cannot_be_made(words: str, message: str, path: Any) -> None:
    error = path(*words.split(), code=2)
    assert message in error
    assert error.count("\n") == 1


def test_the_report_draws_the_path(run: Any) -> None:
    options = ("--l1", "0,0.001,0.01,0.1", "--choose", "nnz=40", "--quiet", "--report", "run.html")
    run("train", "clicks.svm", "-o", "model.psm", *options)
    summary, page = modelfile.load("model.psm").summary, Path("run.html").read_text()
    assert "Regularization path" in page
    assert f"Chosen: {summary['strength']:g}, with loss {summary['progressive_loss']:.4g}" in page
    run("train", "clicks.svm", "-o", "m.psm", "--loss", "squared", *options[:-1], "numbers.html")
    assert "Distribution of the residuals" in Path("numbers.html").read_text()
