"""Labels that are texts, identifiers that look like numbers, and the index base, on the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxstream as ps

SPECIES = ("setosa", "versicolor", "virginica")


@pytest.fixture
def run(run: Any) -> Any:
    """Run a command in a folder with tables whose labels are texts, and the same with numbers."""
    sexes = ["male" if (i * i) % 7 > 2 else "female" for i in range(200)]
    rows = [(sex, i % 10 < (8 if sex == "female" else 2), i % 3) for i, sex in enumerate(sexes)]
    for name, labels in (("titanic.csv", ("no", "yes")), ("numbers.csv", ("-1", "1")), ("other.csv", ("1", "-1"))):
        table = [f"{labels[survived]},{sex},c{place}" for sex, survived, place in rows]
        Path(name).write_text("\n".join(["survived,sex,place", *table]) + "\n")
    iris = [f"{SPECIES[i % 3]},{i % 3 + i % 10 / 20},{2 * (i % 3) + i % 7 / 10}" for i in range(300)]
    Path("iris.csv").write_text("\n".join(["label,width,length", *iris]) + "\n")
    return run


def same_weights(one: str, other: str) -> None:
    np.testing.assert_array_equal(ps.load(one).coef_, ps.load(other).coef_)


def test_two_classes_are_found_in_the_first_rows(run: Any) -> None:
    assert run("train", "titanic.csv", "--label", "survived", "-b", "10", "-o", "m.psm", "-q") == (0, "", "")
    assert run("train", "numbers.csv", "--label", "survived", "-b", "10", "-o", "n.psm", "-q") == (0, "", "")
    same_weights("m.psm", "n.psm")
    model = ps.load("m.psm")
    assert model.classes_.tolist() == ["no", "yes"]
    words = run("predict", "m.psm", "titanic.csv").out.split()
    numbers = run("predict", "n.psm", "numbers.csv").out.split()
    assert words == [{"-1": "no", "1": "yes"}[label] for label in numbers]
    assert words == model.predict("titanic.csv").tolist()
    assert run("evaluate", "m.psm", "titanic.csv").out == run("evaluate", "n.psm", "numbers.csv").out
    assert "classes           no, yes\n" in run("inspect", "m.psm").out


def test_the_positive_class_is_chosen(run: Any) -> None:
    train = ("train", "titanic.csv", "--label", "survived", "-b", "10", "-o", "m.psm", "-q", "--class-weight", "no=2")
    assert run(*train, "--positive", "no") == (0, "", "")
    options = ("--label", "survived", "-b", "10", "-o", "n.psm", "-q", "--class-weight", "1=2")
    assert run("train", "other.csv", *options) == (0, "", "")
    same_weights("m.psm", "n.psm")
    assert ps.load("m.psm").classes_.tolist() == ["yes", "no"]
    done = run(*train, "--positive", "maybe")
    assert done.code == 2
    assert "--positive: unknown label 'maybe'; expected no or yes" in done.err
    done = run("train", "clicks.svm", "-o", "n.psm", "--positive", "1")
    assert done.code == 2
    assert "--positive applies to text labels" in done.err
    done = run(*train, "--class-weight", "maybe=3")
    assert done.code == 2
    assert "--class-weight: unknown label maybe; expected no or yes" in done.err


def test_classes_are_found_by_a_pass_that_is_announced(run: Any) -> None:
    done = run("train", "iris.csv", "-o", "m.psm", "--loss", "softmax", "-b", "10")
    assert done.code == 0
    assert done.err.startswith("--loss softmax without --classes: reading the data once to find the classes\n")
    assert ps.load("m.psm").classes_.tolist() == list(SPECIES)
    assert {*run("predict", "m.psm", "iris.csv").out.split()} <= {*SPECIES}
    assert "versicolor" in run("evaluate", "m.psm", "iris.csv").out
    named = ("--loss", "softmax", "--classes", "setosa,versicolor,virginica", "-b", "10")
    assert run("train", "iris.csv", "-o", "n.psm", "-q", *named) == (0, "", "")
    assert Path("m.psm").read_bytes() == Path("n.psm").read_bytes()


def test_numbers_of_classes_are_found_too(run: Any) -> None:
    Path("many.svm").write_text("".join(f"{3 * (i % 3)} {i % 5}:1\n" for i in range(60)))
    done = run("train", "many.svm", "-o", "m.psm", "--loss", "softmax")
    assert done.code == 0
    assert ps.load("m.psm").classes_.tolist() == [0.0, 3.0, 6.0]


def test_more_texts_than_classes(run: Any) -> None:
    done = run("train", "iris.csv", "-o", "m.psm")
    assert done.code == 1
    assert "iris.csv: found 3 label texts (setosa, versicolor, virginica), but loss logistic has two" in done.err
    Path("late.csv").write_text("label,x\n" + "no,1\nyes,2\n" * 1000 + "maybe,3\n")
    done = run("train", "late.csv", "-o", "m.psm", "-q", "--classes", "no,yes")
    assert done.code == 1
    assert "late.csv:2002" in done.err
    assert "maybe" in done.err
    assert run("train", "late.csv", "-o", "m.psm", "-q", "--classes", "no,yes", "--on-error", "skip").code == 0


def test_a_run_with_texts_is_continued_and_resumed(run: Any) -> None:
    assert run("train", "titanic.csv", "--label", "survived", "-b", "10", "-o", "m.psm", "-q") == (0, "", "")
    first = Path("m.psm").read_bytes()
    assert run("train", "titanic.csv", "-o", "n.psm", "-q", "-i", "m.psm") == (0, "", "")
    assert ps.load("n.psm").learner.t == 400
    assert ps.load("n.psm").classes_.tolist() == ["no", "yes"]
    done = run("train", "titanic.csv", "--label", "survived", "-b", "10", "-o", "m.psm", "--resume")
    assert done.err.endswith("m.psm is up to date, nothing to do\n")
    assert Path("m.psm").read_bytes() == first


def test_certified_weights_of_text_labels(run: Any) -> None:
    options = ("--label", "survived", "-q", "--algorithm", "certified", "--l2", "0.01", "-b", "10")
    assert run("train", "titanic.csv", "-o", "m.psm", *options) == (0, "", "")
    assert run("train", "numbers.csv", "-o", "n.psm", *options) == (0, "", "")
    same_weights("m.psm", "n.psm")
    done = run("certify", "m.psm", "titanic.csv")
    assert done.code == 0, done.err


def test_identifiers_are_pointed_out(run: Any) -> None:
    rows = [f"{('no', 'yes')[i % 2]},{7919 * (i % 13) + 501},{20 + i % 40}" for i in range(200)]
    Path("shops.csv").write_text("\n".join(["label,shop,age", *rows]) + "\n")
    note = "integer columns that look like identifiers: shop; for categories add --categorical shop\n"
    assert run("train", "shops.csv", "-b", "10", "-o", "m.psm").err.startswith(note)
    for options in (("--categorical", "shop"), ("--categorical", "all"), ("--numeric", "s*,age"), ("--drop", "shop")):
        done = run("train", "shops.csv", "-b", "10", "-o", "m.psm", *options)
        assert done.code == 0
        assert "identifiers" not in done.err
    assert run("train", "shops.csv", "-b", "10", "-o", "m.psm", "-q") == (0, "", "")


def test_all_columns_and_all_pairs(run: Any) -> None:
    options = ("--label", "survived", "--categorical", "all", "--cross", "all*all", "--names", "-b", "0")
    assert run("train", "titanic.csv", "-o", "m.psm", "-q", *options) == (0, "", "")
    names = {name for each in ps.load("m.psm").named().values() for name in each}
    assert any("sex" in name and "place" in name for name in names)


def test_a_model_refuses_rows_of_the_other_index_base(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm", "-q") == (0, "", "")  # counts from 1
    Path("zero.svm").write_text("1 0:1 3:1\n")
    done = run("predict", "m.psm", "zero.svm")
    assert done.code == 1
    assert done.err.startswith("zero.svm:1")
    assert run("predict", "m.psm", "zero.svm", "--zero-based").code == 0
    assert run("train", "zero.svm", "-o", "n.psm", "-q") == (0, "", "")
    assert run("predict", "n.psm", "zero.svm").code == 0


def piped(*words: str, data: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the data on a pipe."""
    command = [sys.executable, "-m", "proxstream", *words]
    return subprocess.run(command, input=data, capture_output=True, text=True, check=False)


def test_two_classes_are_found_in_the_first_rows_of_a_pipe(run: Any) -> None:
    text = Path("titanic.csv").read_text()
    rows = text.split("\n", 1)[1]
    text += rows * 60  # beyond what is looked at
    Path("long.csv").write_text(text)
    options = ("--label", "survived", "-q", "-b", "10", "--positive", "no")
    assert run("train", "long.csv", "-o", "m.psm", *options) == (0, "", "")
    done = piped("train", "-", "-o", "n.psm", "--format", "csv", *options, data=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(text) > 1 << 17
    same_weights("m.psm", "n.psm")
    one, two = ps.load("m.psm"), ps.load("n.psm")
    assert one.classes_.tolist() == two.classes_.tolist() == ["yes", "no"]
    assert one.learner.t == two.learner.t == 200 * 61
    done = piped("train", "-", "-o", "n.psm", "--format", "csv", "--label", "survived", data=rows_of_one_class())
    assert done.returncode == 2
    assert "stdin: the first rows have the label 'no' only; use --classes" in " ".join(done.stderr.split())
    done = piped("train", "-", "-o", "n.psm", "--format", "csv", "--loss", "softmax", data=text)
    assert done.returncode == 2
    assert "--loss softmax needs --classes" in done.stderr


def rows_of_one_class() -> str:
    return "survived,sex\n" + "no,male\n" * 100


def test_text_labels_are_converted_as_they_are_trained(run: Any) -> None:
    done = run("convert", "titanic.csv", "m.svm", "--label", "survived", "-b", "10")
    assert (done.code, done.err) == (0, "labels: no = -1, yes = 1\n")
    assert run("convert", "numbers.csv", "n.svm", "--label", "survived", "-b", "10") == (0, "", "")
    assert Path("m.svm").read_bytes() == Path("n.svm").read_bytes()
    flipped = ("--label", "survived", "-b", "10", "--classes", "yes,no")
    assert run("convert", "titanic.csv", "m.svm", *flipped) == (0, "", "")
    assert run("convert", "other.csv", "n.svm", "--label", "survived", "-b", "10") == (0, "", "")
    assert Path("m.svm").read_bytes() == Path("n.svm").read_bytes()
    done = run("convert", "iris.csv", "iris.psr", "-b", "10")
    assert done.err == (
        "found the labels setosa, versicolor, virginica in the first rows: reading the data once to find all\n"
        "labels: setosa = 0, versicolor = 1, virginica = 2\n"
    )
    assert run("train", "iris.psr", "-o", "n.psm", "--loss", "softmax", "--classes", "3", "-q", "-b", "10").code == 0
    assert run("train", "iris.csv", "-o", "m.psm", "--loss", "softmax", "-q", "-b", "10").code == 0
    same_weights("m.psm", "n.psm")
    assert run("convert", "iris.csv", "same.psr", "--model", "m.psm") == (0, "", "")
    with ps.open_stream("same.psr") as one, ps.open_stream("iris.psr") as two:
        for mine, other in zip(one, two, strict=True):
            np.testing.assert_array_equal(mine.y, other.y)
