"""Data that the command line cannot use: errors that help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

import proxstream as ps

from ..io.table_cases import write_table


@pytest.fixture
def run(run: Any) -> Any:
    """Run a command in a folder with some data in it."""
    Path("rows.csv").write_text("click,site,price\n1,a,2\n0,b,3\n")
    Path("rows.vw").write_text("1 |site a |price 2\n-1 |site b |price 3\n")
    return run


# ---- options and formats


@pytest.mark.parametrize(
    ("args", "reported"),
    [
        ("clicks.svm --cross a*b", "--cross does not apply to svmlight, only to csv, tsv, jsonl, parquet, arrow, vw"),
        ("clicks.svm --label click", "--label does not apply to svmlight, only to csv, tsv, jsonl, parquet, arrow"),
        ("clicks.svm --text site --algorithm certified --l1 0.1", "--text does not apply to svmlight"),
        ("rows.vw --weight price", "--weight does not apply to vw"),
        ("rows.vw --one-based", "--one-based does not apply to vw, only to svmlight"),
        ("rows.csv --label click --one-based", "--one-based does not apply to csv"),
    ],
)
def test_options_that_do_not_apply_to_a_format_are_rejected(args: str, reported: str, run: Any) -> None:
    done = run("train", *args.split(), "-o", "m.psm")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"proxstream train: {reported}")
    assert done.err.count("\n") == 1
    assert not Path("m.psm").exists()


def test_options_go_with_what_they_mean_something_in(run: Any) -> None:
    assert (
        run("train", "rows.vw", "-o", "m.psm", "-q", "--cross", "site*price", "--drop", "site", "--bits", "10")[0] == 0
    )
    assert run("train", "clicks.svm", "-o", "m.psm", "-q", "--one-based", "--bits", "10")[0] == 0


@pytest.mark.interpreted
def test_a_cache_of_a_table_takes_the_options_of_training(run: Any) -> None:
    Path("texts.csv").write_text("label,review,price,id\n1,good one,NA,7\n0,bad one,3,8\n")
    options = ("--text", "review=words:1-2", "--drop", "id", "--nulls", "NA", "--numeric", "price", "--names")
    assert run("convert", "texts.csv", "texts.psr", *options) == (0, "", "")
    assert run("train", "texts.psr", "-o", "cached.psm", "-q") == (0, "", "")
    assert run("train", "texts.csv", "-o", "read.psm", "-q", *options) == (0, "", "")
    assert run("predict", "cached.psm", "texts.csv", "--predict", "scores") == run(
        "predict", "read.psm", "texts.csv", "--predict", "scores"
    )
    assert "good one" in run("inspect", "cached.psm").out


# ---- the base of indices


@pytest.fixture
def based(run: Any) -> Any:
    """The same with models of rows that count from 0 and from 1."""
    Path("from0.svm").write_text("1 0:1 2:1\n-1 1:1\n")
    Path("from1.svm").write_text("1 1:1 3:1\n-1 2:1\n")
    for base in "01":
        assert run("train", f"from{base}.svm", "-o", f"{base}.psm", "-q") == (0, "", "")
    return run


def test_training_continues_with_rows_of_the_same_base_only(based: Any) -> None:
    found = "from0.svm:1:3: found the index 0, expected an index of at least 1, as in training\n"
    assert based("train", "from0.svm", "-i", "1.psm", "-o", "m.psm", "-q") == (1, "", found)
    assert based("train", "from1.svm", "-i", "1.psm", "-o", "m.psm", "-q") == (0, "", "")
    assert based("predict", "m.psm", "from0.svm").err == found
    assert based("train", "from0.svm", "-i", "1.psm", "-o", "m.psm", "-q", "--zero-based") == (0, "", "")
    assert based("predict", "m.psm", "from0.svm").code == 0


def test_a_model_that_counts_from_0_does_so_after_rows_without_index_0(based: Any) -> None:
    assert based("train", "from1.svm", "-i", "0.psm", "-o", "m.psm", "-q") == (0, "", "")
    assert based("predict", "m.psm", "from0.svm").code == 0
    assert based("train", "from1.svm", "-o", "m.psm", "-q", "--zero-based") == (0, "", "")
    assert based("predict", "m.psm", "from0.svm").code == 0


def test_the_base_cannot_be_changed_when_training_continues(based: Any) -> None:
    assert based("train", "from1.svm", "-o", "m.psm", "-q", "--one-based") == (0, "", "")
    reported = "m.psm: was trained with --one-based, which cannot be changed\n"
    assert based("train", "from1.svm", "-i", "m.psm", "-o", "n.psm", "--zero-based") == (1, "", reported)
    done = based("train", "from1.svm", "-i", "0.psm", "-o", "n.psm", "--one-based")
    assert (done.code, done.err.partition(":")[2][:28]) == (2, " --one-based cannot be chang")


def test_a_certified_model_remembers_the_base(based: Any) -> None:
    options = ("--algorithm", "certified", "--l2", "0.1", "-q")
    for base in "01":
        assert based("train", f"from{base}.svm", "-o", "m.psm", *options) == (0, "", "")
        assert based("predict", "m.psm", "from0.svm").code == int(base)


# ---- labels


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "feather"])
def test_a_table_without_a_label_lists_its_columns(ending: str, run: Any) -> None:
    name = f"table.{ending}"
    write_table(pyarrow.csv.read_csv("rows.csv"), name)
    reported = f"{name}: found no column 'label', expected one of 'click', 'site', 'price'\n"
    assert run("train", name, "-o", "m.psm") == (1, "", reported)
    assert run("train", name, "-o", "m.psm", "--on-error", "skip") == (1, "", reported)
    assert run("train", name, "-b", "10", "-o", "m.psm", "-q", "--label", "click") == (0, "", "")
    Path("new.csv").write_text("site,price\na,1\n")
    assert run("predict", "m.psm", "new.csv").code == 0
    done = run("evaluate", "m.psm", "new.csv")
    assert (done.code, done.out) == (1, "")
    assert done.err == "new.csv: found no column 'click' for the label, expected one of 'site', 'price'\n"


def test_a_wide_table_without_a_label_shows_its_last_column(run: Any) -> None:
    Path("wide.csv").write_text(",".join([*(f"x{i}" for i in range(29)), "outcome"]) + "\n" + ",".join("1" * 30) + "\n")
    done = run("train", "wide.csv", "-o", "m.psm")
    assert done.err.startswith("wide.csv: found no column 'label', expected one of 'x0', ")
    assert done.err.endswith(", 20 more, 'outcome'\n")


@pytest.mark.interpreted
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_a_label_that_a_loss_of_amounts_rejects_names_what_it_accepts(loss: str, run: Any) -> None:
    Path("amounts.csv").write_text("label,x\n1,1\n-1,2\n")
    done = run("train", "amounts.csv", "-o", "m.psm", "-q", "--loss", loss, "--no-standardize", "-b", "10")
    expected = ps.losses.get(loss).labels
    assert (done.code, done.err) == (1, f"amounts.csv:3:1: found the label -1, expected {expected}\n")


def test_labels_that_mix_minus_one_and_zero_are_reported(run: Any) -> None:
    Path("mixed.svm").write_text("1 1:1\n-1 2:1\n0 3:1\n")
    done = run("train", "mixed.svm", "-o", "m.psm")
    assert done.code == 0
    assert "labels            both -1 and 0 occur; both are read as the negative class\n" in done.err
    for name, rows in (("zero.svm", "1 1:1\n0 2:1\n"), ("minus.svm", "1 1:1\n-1 2:1\n")):
        Path(name).write_text(rows)
        assert "both are read" not in run("train", name, "-o", "m.psm").err
    assert "both are read" not in run("train", "mixed.svm", "-o", "m.psm", "--loss", "squared").err


def test_weights_of_labels_that_there_are_not_are_refused(run: Any) -> None:
    done = run("train", "clicks.svm", "-o", "m.psm", "--class-weight", "2=3")
    assert (done.code, done.out) == (2, "")
    assert "--class-weight: unknown label 2; expected -1, 0 or 1" in done.err
    several = ("--loss", "softmax", "--classes", "-1,1,2")
    assert run("train", "clicks.svm", "-o", "m.psm", "-q", *several, "--class-weight", "2=3") == (0, "", "")
    going_on = ("--initial", "m.psm", "--class-weight", "2=3")
    assert run("train", "clicks.svm", "-o", "n.psm", "-q", *going_on) == (0, "", "")


def test_a_model_of_numbers_is_not_asked_about_names(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm", "-q") == (0, "", "")
    reported = "rows.vw: found named features (vw), but the model was trained on numbered ones\n"
    for command in ("predict", "evaluate", "certify"):
        assert run(command, "m.psm", "rows.vw") == (1, "", reported)
    assert run("train", "rows.csv", "-o", "m.psm", "-q", "--label", "click") == (0, "", "")
    assert run("convert", "rows.csv", "rows.svm", "--model", "m.psm") == (0, "", "")  # numbers that the model gave
    assert run("predict", "m.psm", "rows.svm") == run("predict", "m.psm", "rows.csv")


def test_rows_that_are_all_bad_are_counted(run: Any) -> None:
    Path("bad.svm").write_text("1 1:x\n?\n")
    done = run("train", "bad.svm", "-o", "m.psm", "-q", "--on-error", "skip")
    assert done == (1, "", "bad.svm: no rows to learn from, 2 skipped\n")


def test_bad_rows_are_left_out_of_measures_proofs_and_caches(run: Any) -> None:
    good = Path("clicks.svm").read_text()
    Path("dirty.svm").write_text(good[: good.index("\n") + 1] + "1 3:bad\n7 1:1\n" + good[good.index("\n") + 1 :])
    assert run("train", "clicks.svm", "-o", "m.psm", "-q", "--l1", "0.01") == (0, "", "")
    for command in ("evaluate", "certify"):
        clean = json.loads(run(command, "m.psm", "clicks.svm", "--json").out)
        found = "dirty.svm:2:5: found 'bad', expected a finite number"
        assert run(command, "m.psm", "dirty.svm") == (1, "", f"{found}\n")
        done = run(command, "m.psm", "dirty.svm", "--json", "--quarantine", "kept.txt")
        reported = json.loads(done.out)
        assert reported.pop("skipped") == 2
        assert reported.keys() == clean.keys()
        for name in (name for name, value in clean.items() if not isinstance(value, list)):
            assert reported[name] == (
                clean[name] if isinstance(clean[name], str) else pytest.approx(clean[name], rel=1e-12)
            )
        label = "dirty.svm:3:1: found the label 7, expected -1, 0 or 1"
        assert Path("kept.txt").read_text() == f"# {found}\n1 3:bad\n# {label}\n7 1:1\n"
    for target in ("made.psr", "made.vw"):  # a label may be any number here
        assert run("convert", "dirty.svm", target).code == 1
        assert not Path(target).exists()
        assert run("convert", "dirty.svm", target, "--on-error", "skip") == (0, "", "dirty.svm: 1 bad rows skipped\n")
    done = run("evaluate", "m.psm", "made.psr", "--on-error", "skip", "--json")
    assert json.loads(done.out)["rows"] == 100
    assert run("evaluate", "m.psm", "dirty.svm", "--on-error", "leave").code == 2
    done = run("convert", "rows.csv", "rows.parquet")
    assert done.code == 2
    assert "rows are written as svmlight, vw or cache, got parquet" in done.err


# ---- CSV


@pytest.mark.parametrize("word", ["nan", "NaN", "-inf", "Infinity"])
def test_nan_among_numbers_is_an_error_and_makes_no_categories(word: str, run: Any) -> None:
    Path("numbers.csv").write_text(f"label,x,name\n1,2.5,nan\n0,{word},b\n1,0.5,c\n")
    found = f"numbers.csv:3:3: found '{word}', expected a finite number in column 'x'\n"
    assert run("train", "numbers.csv", "-b", "10", "-o", "m.psm", "-q") == (1, "", found)
    assert run("train", "numbers.csv", "-b", "10", "-o", "m.psm", "-q", "--nulls", word) == (0, "", "")
    assert dict(ps.load("m.psm").features["columns"]) == {"x": "numeric", "name": "categorical"}
    assert run("train", "numbers.csv", "-b", "10", "-o", "m.psm", "-q", "--categorical", "x") == (0, "", "")


def test_a_quoted_field_is_shown_without_its_quotes(run: Any) -> None:
    Path("quoted.csv").write_text('label,x\n1,"two, or ""three"""\n')
    done = run("train", "quoted.csv", "-o", "m.psm", "--numeric", "x")
    assert done.err == "quoted.csv:2:4: found 'two, or', expected a finite number in column 'x'\n"


# ---- bytes


@pytest.mark.parametrize("name", ["junk.svm", "junk.vw"])
def test_bytes_that_are_no_text_are_shown_by_their_codes(name: str, run: Any) -> None:
    Path(name).write_bytes("é".encode() + b"\xff\x1b[31m\n")
    done = run("train", name, "-o", "m.psm")
    assert done.code == 1
    assert r"found 'é\xff\x1b[31m', expected" in done.err
