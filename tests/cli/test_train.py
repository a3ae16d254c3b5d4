"""`proxstream train`: the table it shows, the model it writes, and its errors for bad usage and bad data."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import resource
import select
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest
from sklearn.metrics import roc_auc_score

import proxstream as ps
from proxstream import cli
from proxstream.batch import dispatch as certified
from proxstream.batch.problem import Problem
from proxstream.cli.train import EPILOG, _split
from proxstream.core import losses, parsing
from proxstream.core.algorithms.rates import SqrtDecay
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.learner import Learner

from ..io.table_cases import write_table
from ..training.training_cases import clicks

SCRIPT = str(Path(sys.executable).parent / "proxstream")
FTRL = ("--algorithm", "ftrl_proximal", "--l1", "0.02", "--alpha", "0.3")


@pytest.fixture
def train(run: Any) -> Any:
    """Run `proxstream train` in a temporary folder with clicks.svm in it."""
    return lambda *args: run("train", *args)


def trained(run: Any, *args: str, data: tuple[str, ...] = ("clicks.svm",)) -> Any:
    """Train quietly and return the model."""
    done = run(*data, "-o", "model.psm", "--quiet", *args)
    assert done == (0, "", "")
    return ps.load("model.psm")


def masked(text: str) -> str:
    """Mask what depends on the clock and the size of the header."""
    text = re.sub(r"( +[\d,]+ +[\d.]+)$", " SPEED", text, flags=re.MULTILINE)
    text = re.sub(r"^(seconds +).*$", r"\1CLOCK", text, flags=re.MULTILINE)
    return re.sub(r"[\d,]+ bytes$", "SIZE bytes", text, flags=re.MULTILINE)


# ---- what is shown

GOLDEN = """\
        rows  mean loss  since last    label  predicted  features   non-zeros     rows/s    MB/s
           1   0.693147    0.693147        1     0.5000        10          10 SPEED
           2   0.668772    0.644397        1     0.5250        10          20 SPEED
           4   0.695229    0.721687       -1     0.6386        10          30 SPEED
           8   0.556584    0.417938        1     0.7150        10          47 SPEED
          16   0.663967    0.771351       -1     0.3999        10          37 SPEED
          32   0.660560    0.657154        1     0.5228        10          32 SPEED
          64   0.641029    0.621498        1     0.8260        10          31 SPEED

rows              100
progressive loss  0.626890 (logistic)
best constant     0.59, loss 0.676859
accuracy          0.6600
AUC               0.6904
non-zeros         30 of 51
read              0.01 MB
seconds           CLOCK
model             model.psm, SIZE bytes
"""

GOLDEN_PASSES = """\
pass        rows  mean loss  since last    label  predicted  features   non-zeros     rows/s    MB/s
   1          50   0.665230    0.665230        1     0.4987        10          34 SPEED
   1         100   0.653773    0.642007        1     0.7040        10          35 SPEED
pass 1: 100 rows, mean loss 0.653773, held-out loss 0.555360, accuracy 0.8000, AUC 0.8373
   2          50   0.508495    0.508495        1     0.6365        10          30 SPEED
   2         100   0.524410    0.540755        1     0.7273        10          33 SPEED
pass 2: 100 rows, mean loss 0.524410, held-out loss 0.538074, accuracy 0.7600, AUC 0.8413

rows              200 in 2 passes
progressive loss  0.653773 (logistic)
best constant     0.546667, loss 0.688785
accuracy          0.5867
AUC               0.6575
held-out loss     0.538074, accuracy 0.7600, AUC 0.8413
non-zeros         33 of 51
read              0.01 MB
seconds           CLOCK
model             model.psm, SIZE bytes
"""


def test_the_table_and_the_summary(train: Any) -> None:
    done = train("clicks.svm", "-o", "model.psm", *FTRL)
    assert (done.code, done.out) == (0, "")
    assert masked(done.err) == GOLDEN


def test_the_table_of_several_passes_with_rows_held_out(train: Any) -> None:
    done = train(
        "clicks.svm", "-o", "model.psm", *FTRL, "--passes", "2", "--holdout-every", "4", "--progress-every", "50"
    )
    assert (done.code, done.out) == (0, "")
    assert masked(done.err) == GOLDEN_PASSES


def test_metrics_as_json_lines(train: Any) -> None:
    done = train("clicks.svm", "-o", "model.psm", *FTRL, "--metrics-file", "metrics.jsonl", "--quiet")
    assert done == (0, "", "")
    lines = [json.loads(line) for line in Path("metrics.jsonl").read_text().splitlines()]
    assert [line.get("rows") for line in lines] == [1, 2, 4, 8, 16, 32, 64, 100, None]
    assert lines[6]["mean_loss"] == pytest.approx(0.641029, abs=1e-6)
    assert lines[6]["nonzeros"] == 31
    assert lines[7]["ended"] is True
    summary = lines[8]["summary"]
    assert summary["progressive_loss"] == pytest.approx(0.626890, abs=1e-6)
    assert summary["accuracy"] == pytest.approx(0.66)
    assert (summary["rows"], summary["skipped"], summary["nonzeros"], summary["weights"]) == (100, 0, 30, 51)
    assert summary["bytes"] == Path("clicks.svm").stat().st_size
    assert summary["model_bytes"] == Path("model.psm").stat().st_size


def on_terminal(*args: str, cwd: Path) -> tuple[int, str]:
    """Run the script with stderr on a pseudo-terminal; return its code and what the terminal was sent."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [SCRIPT, *args], cwd=cwd, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}
    )
    os.close(slave)
    seen = b""
    while True:
        if select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 1 << 16)
            except OSError:  # the other end has been closed
                break
        elif process.poll() is not None:
            break
    os.close(master)
    return process.wait(), seen.decode()


def test_a_terminal_is_shown_a_bar_with_the_time_left(tmp_path: Path) -> None:
    clicks(tmp_path / "clicks.svm", 20_000)
    args = ("train", "clicks.svm", "-o", "model.psm", *FTRL, "--chunk-bytes", "20000", "--passes", "2")
    code, seen = on_terminal(*args, cwd=tmp_path)
    assert code == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    bars = re.findall(r"(?:━|╸|╺)+\s+(\d+)%\s+([\d,]+) rows, [\d,]+ rows/s, loss \d\.\d{5}, ETA (\S+)", text)
    assert bars
    assert all(re.fullmatch(r"\d+:\d\d:\d\d|-:--:--", left) for *_, left in bars)
    percents = [int(percent) for percent, *_ in bars]
    assert percents == sorted(percents)
    assert "\x1b" in seen
    table = [line.strip() for line in text.splitlines()]
    assert any(re.match(r"1\s+16,384\s+0\.\d{6}", line) for line in table)  # lines of the table stay above the bar
    assert "progressive loss" in text


def test_no_bar_without_a_terminal_or_when_quiet(train: Any, tmp_path: Path) -> None:
    assert "\x1b" not in train("clicks.svm", "-o", "model.psm", *FTRL).err
    code, seen = on_terminal("train", "clicks.svm", "-o", "model.psm", *FTRL, "--quiet", cwd=tmp_path)
    assert (code, seen) == (0, "")


# ---- the model


def rows_of(path: str) -> Any:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(path, zero_based=True)
    return as_block(X.astype(np.float32), np.where(y > 0, 1.0, -1.0))


def test_the_model_is_what_a_learner_makes_of_the_rows(train: Any) -> None:
    model = trained(train, *FTRL)
    learner = Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.02), growing=True, dtype=np.float32)
    learner.learn(rows_of("clicks.svm"))
    for name, array in learner.state_dict().items():
        np.testing.assert_array_equal(array, model.learner.state_dict()[name])
    assert model.classes == (-1.0, 1.0)
    assert model.summary["rows"] == 100
    assert [record["rows"] for record in model.history] == [1, 2, 4, 8, 16, 32, 64, 100]
    assert model.summary["options"] == "--algorithm ftrl_proximal --alpha 0.3 --l1 0.02"


def test_the_same_command_writes_the_same_bytes(train: Any, tmp_path: Path) -> None:
    trained(train, *FTRL)
    first = Path("model.psm").read_bytes()
    ways: list[tuple[str, ...]] = [
        ("-o", "other.psm"),
        ("-o", "model.psm", "--chunk-bytes", "100"),
        ("-o", "model.psm", "--checkpoint", "10", "--chunk-bytes", "500"),
        ("-o", "model.psm", "--checkpoint", "0.0001s", "--chunk-bytes", "500", "--metrics-file", "metrics.jsonl"),
        ("-o", "model.psm", "--resume"),
    ]
    for way in ways:
        assert train("clicks.svm", *FTRL, *way).code == 0
        assert Path(way[1]).read_bytes() == first
        assert sorted(path.name for path in tmp_path.iterdir() if "ckpt" in path.name or "tmp" in path.name) == []


def test_files_follow_one_another(train: Any) -> None:
    lines = Path("clicks.svm").read_text().splitlines(keepends=True)
    Path("a.svm").write_text("".join(lines[:30]))
    Path("b.svm").write_text("".join(lines[30:]))
    whole = trained(train, *FTRL).learner.state_dict()
    parts = trained(train, *FTRL, data=("a.svm", "b.svm")).learner.state_dict()
    globbed = trained(train, *FTRL, data=("[ab].svm",)).learner.state_dict()
    for name in whole:
        np.testing.assert_array_equal(whole[name], parts[name])
        np.testing.assert_array_equal(whole[name], globbed[name])


def test_every_format_of_the_same_rows_makes_the_same_model(train: Any) -> None:
    table = ["label,site,device,price"]
    table += [f"{i * i % 3 == 1:d},s{i % 7},d{i % 3},{i % 5 / 4}" for i in range(300)]
    Path("rows.csv").write_text("\n".join(table) + "\n")
    cells = [line.split(",") for line in table[1:]]
    lines = [
        f"{y} | price:{p} |site {s} |device {d}\n" if float(p) else f"{y} |site {s} |device {d}\n"
        for y, s, d, p in cells
    ]
    Path("rows.vw").write_text("".join(lines))
    for target in ("rows.parquet", "rows.jsonl", "rows.tsv"):
        write_table(pyarrow.csv.read_csv("rows.csv"), target)
    assert cli.main(["convert", "rows.csv", "rows.psr", "--bits", "12", "--no-standardize"]) == 0
    models = {}
    for name in ("rows.csv", "rows.vw", "rows.parquet", "rows.jsonl", "rows.tsv", "rows.psr"):
        raw = () if name in ("rows.vw", "rows.psr") else ("--no-standardize",)
        models[name] = trained(train, *FTRL, "--bits", "12", *raw, data=(name,))
        assert models[name].learner.n_features == 1 << 12
    for name, model in models.items():
        for key, array in model.learner.state_dict().items():
            np.testing.assert_array_equal(array, models["rows.csv"].learner.state_dict()[key], err_msg=name)
    assert models["rows.csv"].features["columns"] == [
        ["site", "categorical"],
        ["device", "categorical"],
        ["price", "numeric"],
    ]


@pytest.mark.interpreted
def test_ranks_and_numbers(train: Any) -> None:
    lines = Path("clicks.svm").read_text().splitlines()
    ranked = [f"{i % 3} qid:{i // 5} {line.split(' ', 1)[1]}\n" for i, line in enumerate(lines)]
    Path("ranked.svm").write_text("".join(ranked))
    model = trained(train, *FTRL, "--loss", "ranking_hinge", data=("ranked.svm",))
    assert model.learner.ranking
    assert model.classes == ()
    assert 0.0 <= model.summary["pair_accuracy"] <= 1.0
    model = trained(train, *FTRL, "--loss", "ranking_hinge", "--holdout-file", "ranked.svm", data=("ranked.svm",))
    assert model.summary["held_out_loss"] > 0.0
    Path("numbers.svm").write_text("".join(f"{i / 10} {line.split(' ', 1)[1]}\n" for i, line in enumerate(lines)))
    model = trained(train, *FTRL, "--loss", "huber(0.5)", data=("numbers.svm",))
    assert str(model.loss) == "huber(delta=0.5)"
    assert model.summary["rmse"] > 0.0
    assert model.summary["best_constant"] == pytest.approx(4.95, abs=0.06)


def test_standard_input(train: Any, tmp_path: Path) -> None:
    trained(train, *FTRL)
    with open("clicks.svm", "rb") as file:
        command = [SCRIPT, "train", "-", "-o", "piped.psm", *FTRL, "--format", "svmlight"]
        done = subprocess.run(command, stdin=file, capture_output=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    piped, whole = ps.load("piped.psm"), ps.load("model.psm")
    for name, array in whole.learner.state_dict().items():
        np.testing.assert_array_equal(array, piped.learner.state_dict()[name])


def test_labels_0_and_1_are_those_that_the_model_predicts(train: Any) -> None:
    usual = trained(train, *FTRL)
    clicks(Path("zero.svm"), 100, labels=(0, 1))
    clicks(Path("two.svm"), 100, labels=(1, 2))
    zero = trained(train, *FTRL, data=("zero.svm",))
    two = trained(train, *FTRL, "--classes", "1,2", data=("two.svm",))
    assert (zero.classes, two.classes) == ((0.0, 1.0), (1.0, 2.0))
    for other in (zero, two):
        np.testing.assert_array_equal(usual.learner.state_dict()["state"], other.learner.state_dict()["state"])


@pytest.mark.interpreted
def test_parameters_in_the_text_of_the_algorithm(train: Any) -> None:
    trained(train, *FTRL, "--penalty", "nonnegative")
    expected = Path("model.psm").read_bytes()
    for text in ("ftrl_proximal(0.3)", "ftrl_proximal(alpha=0.3)"):
        trained(train, "--algorithm", text, "--l1", "0.02", "--penalty", "nonnegative")
        assert Path("model.psm").read_bytes() == expected
    model = trained(train, "--algorithm", "ftrl_proximal(0.3)", "--penalty", "l1(0.02) + nonnegative")
    assert (model.learner.algorithm, model.learner.penalty) == (ps.FTRLProximal(0.3), ps.L1(0.02) + ps.NonNegative())
    summary = trained(train, "--algorithm", "certified(tol=1e-6)", "--l2", "0.01").summary
    assert summary["relative_gap"] <= 1e-6
    assert "--tol 1e-6" in summary["options"]
    for text, more, message in (
        ("rda(gamma=2)", ("--gamma", "3"), "--gamma is given twice: as an option and in --algorithm 'rda(gamma=2)'"),
        ("rda(beta=2)", (), "rda has no parameter beta; it has gamma, rho, geometry, schedule"),
        ("rda(1, gamma=2)", (), "rda takes gamma, rho, geometry, schedule, got 'rda(1, gamma=2)'"),
        ("rda(gamma=x)", (), "gamma must be a number, got 'x'"),
        ("rda(", (), "algorithm must be one of rda, "),
    ):
        code, _, err = train("clicks.svm", "-o", "model.psm", "--algorithm", text, *more)
        assert code == 2
        assert message in " ".join(err.split())


def test_class_weights_are_weights(train: Any) -> None:
    model = trained(train, *FTRL, "--class-weight", "1=2.5", "--class-weight", "-1=0.5")
    rows = rows_of("clicks.svm")
    learner = Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.02), growing=True, dtype=np.float32)
    learner.learn(rows._replace(c=np.where(rows.y > 0, 2.5, 0.5)))
    np.testing.assert_array_equal(learner.state_dict()["state"], model.learner.state_dict()["state"])


@pytest.mark.interpreted
def test_several_classes(train: Any) -> None:
    lines = Path("clicks.svm").read_text().splitlines()
    Path("many.svm").write_text("".join(f"{i % 3} {line.split(' ', 1)[1]}\n" for i, line in enumerate(lines)))
    model = trained(train, "--loss", "softmax", "--classes", "3", "--algorithm", "sgd", data=("many.svm",))
    assert model.classes == (0.0, 1.0, 2.0)
    assert model.learner.n_outputs == 3
    assert 0.0 < model.summary["accuracy"] < 1.0


@pytest.mark.exhaustive
def test_threads_learn_nearly_the_same(train: Any) -> None:
    clicks(Path("more.svm"), 20_000)
    one = trained(train, *FTRL, data=("more.svm",))
    two = trained(train, *FTRL, "--threads", "2", data=("more.svm",))
    assert two.learner.t == one.learner.t == 20_000
    assert two.summary["progressive_loss"] == pytest.approx(one.summary["progressive_loss"], rel=0.05)


def test_early_stopping(train: Any) -> None:
    model = trained(train, *FTRL, "--passes", "30", "--holdout-share", "0.25", "--early-stop", "1", "--l1", "0")
    held_out = [record["held_out_loss"] for record in model.history if "held_out_loss" in record]
    assert 2 <= len(held_out) < 30
    assert int(np.argmin(held_out)) == len(held_out) - 2
    assert model.summary["held_out_loss"] == min(held_out)


def measured(model: Any, rows: Any) -> dict[str, Any]:
    """Return what a summary should say of rows held out."""
    scores = model.scores(rows)
    return {
        "held_out_loss": pytest.approx(float(np.mean(np.logaddexp(0.0, -rows.y * scores))), rel=1e-6),
        "held_out_accuracy": pytest.approx(float(np.mean((scores > 0.0) == (rows.y > 0.0)))),
        "held_out_auc": pytest.approx(roc_auc_score(rows.y, scores), abs=0.002),
    }


@pytest.mark.parametrize(
    "more", [(), ("--shuffle-buffer", "37", "--seed", "5"), ("--algorithm", "certified", "--l2", "0.1")]
)
def test_held_out_rows_are_measured_with_the_model_that_is_written(more: tuple[str, ...], train: Any) -> None:
    model = trained(train, "--holdout-every", "4", *more)
    rows = rows_of("clicks.svm")
    if "--shuffle-buffer" in more:
        with ps.open_stream("clicks.svm", shuffle_buffer=37, seed=5) as stream:
            rows = RowBlock.concat([block for block in stream if isinstance(block, RowBlock)])
    found = {name: value for name, value in model.summary.items() if name.startswith("held_out")}
    assert found == measured(model, rows.take(np.arange(3, 100, 4)))


def test_the_certified_model_does_not_see_held_out_rows(train: Any) -> None:
    lines = Path("clicks.svm").read_text().splitlines(keepends=True)
    Path("out.svm").write_text("".join(lines[2::3]))
    Path("rest.svm").write_text("".join(line for i, line in enumerate(lines) if i % 3 != 2))
    options = ("--algorithm", "certified", "--l2", "0.1")
    one = trained(train, *options, "--holdout-every", "3")
    two = trained(train, *options, "--holdout-file", "out.svm", data=("rest.svm",))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.summary["rows"] == two.summary["rows"] == 67
    for name in ("held_out_loss", "held_out_accuracy", "held_out_auc"):
        assert one.summary[name] == two.summary[name]


def test_names_of_a_held_out_file_are_no_features_of_a_certified_model(train: Any) -> None:
    Path("a.vw").write_text("1 |u a b\n-1 |u b\n1 |u a\n-1 |u c\n" * 5)
    Path("b.vw").write_text("1 |u a d e\n-1 |u f\n")
    model = trained(
        train, "--algorithm", "certified", "--l2", "0.1", "--bits", "0", "--holdout-file", "b.vw", data=("a.vw",)
    )
    assert sorted(name for names in model.named().values() for name in names) == ["u=a", "u=b", "u=c"]
    assert model.summary["held_out_accuracy"] >= 0.5


def test_rows_that_look_ordered_are_reported_in_one_line(train: Any) -> None:
    clicks(Path("many.svm"), 600)
    ordered = sorted(Path("many.svm").read_text().splitlines(keepends=True))
    Path("ordered.svm").write_text("".join(ordered))

    def lines(name: str, *more: str) -> list[str]:
        done = train(name, "-o", "model.psm", *FTRL, *more)
        assert done.code == 0
        return [line for line in done.err.splitlines() if "ordered" in line and "ordered.svm" not in line]

    assert lines("many.svm") == []
    assert lines("ordered.svm", "--shuffle-buffer", "600") == []
    (line,) = lines("ordered.svm", "--passes", "2")
    assert line.startswith("rows look ordered: after 256 rows, neighbouring labels differ 1.4% as much as if shuffled")
    assert line.endswith("if their order means nothing, shuffle them: --shuffle-buffer ROWS")
    (line,) = lines("ordered.svm", "--shuffle-buffer", "20")
    assert line.endswith("use a --shuffle-buffer above 20")
    assert lines("ordered.svm", "--quiet") == []


def test_a_shuffled_run_is_one_over_shuffled_rows(train: Any) -> None:
    with ps.open_stream("clicks.svm", shuffle_buffer=30, seed=2) as stream:
        rows = RowBlock.concat([block for block in stream if isinstance(block, RowBlock)])
    Path("shuffled.svm").write_text(
        "".join(
            f"{rows.y[i]:g} " + " ".join(f"{j}:1" for j in rows.indices[rows.indptr[i] : rows.indptr[i + 1]]) + "\n"
            for i in range(100)
        )
    )
    options = (*FTRL, "--passes", "3", "--holdout-every", "5", "--early-stop", "1")
    one = trained(train, *options, "--shuffle-buffer", "30", "--seed", "2")
    two = trained(train, *options, data=("shuffled.svm",))
    assert one.history == two.history
    for name, array in two.learner.state_dict().items():
        np.testing.assert_array_equal(one.learner.state_dict()[name], array)


def test_rows_of_another_file_are_held_out(train: Any) -> None:
    clicks(Path("later.svm"), 50, seed=0)
    model = trained(train, *FTRL, "--holdout-file", "later.svm")
    rows = rows_of("later.svm")
    suffered = np.log1p(np.exp(-rows.y * model.scores(rows)))
    assert model.summary["held_out_loss"] == pytest.approx(float(suffered.mean()), rel=1e-9)


def test_continuing_from_a_model(train: Any) -> None:
    lines = Path("clicks.svm").read_text().splitlines(keepends=True)
    Path("a.svm").write_text("".join(lines[:30]))
    Path("b.svm").write_text("".join(lines[30:]))
    whole = trained(train, *FTRL)
    trained(train, *FTRL, data=("a.svm",))
    os.replace("model.psm", "first.psm")
    then = trained(train, "--initial", "first.psm", data=("b.svm",))
    for name, array in whole.learner.state_dict().items():
        np.testing.assert_array_equal(array, then.learner.state_dict()[name])
    assert then.summary["rows"] == 70
    assert train("b.svm", "-o", "c.psm", "--initial", "first.psm", "--loss", "hinge").code == 2
    trained(train, *FTRL, "--weights-only")
    done = train("b.svm", "-o", "c.psm", "--initial", "model.psm")
    assert (done.code, done.err) == (1, "model.psm: holds weights only, training cannot continue from it\n")


def test_certified_weights_of_columns_far_from_zero(train: Any) -> None:
    """Weights are kept in 32 bits; the intercept makes up for what that moves at a year of 2000."""
    rng = np.random.default_rng(0)
    years = rng.integers(1990, 2030, size=200)
    y = 0.1 * (years - 2010) + rng.normal(size=200)
    Path("years.svm").write_text("".join(f"{a:.17g} 1:{x}\n" for a, x in zip(y, years, strict=True)))
    options = ("--loss", "squared", "--algorithm", "certified", "--l2", "1e-3", "--tol", "1e-9")
    learner = trained(train, *options, data=("years.svm",)).learner
    slope = np.mean((years - years.mean()) * y) / (years.var() + 1e-3)
    expected = y.mean() + slope * (years - years.mean())
    np.testing.assert_allclose(learner.predict(rows_of("years.svm")), expected, atol=1e-5)


def test_certified_weights_are_those_of_the_batch_solver(train: Any) -> None:
    done = train("clicks.svm", "-o", "model.psm", "--algorithm", "certified", "--l1", "0.01", "--tol", "1e-6")
    assert done.code == 0
    assert "relative gap" in done.err
    model = ps.load("model.psm")
    problem = Problem(rows_of("clicks.svm"), 51, losses.logistic, ps.L1(0.01))
    solution = certified.solve(problem, tol=1e-6)
    np.testing.assert_array_equal(model.learner.weights()[0], solution.coef.astype(np.float32))
    assert model.summary["primal"] == solution.primal
    assert 0.0 <= model.summary["relative_gap"] <= 1e-6
    assert model.summary["converged"]
    first = Path("model.psm").read_bytes()
    trained(train, "--algorithm", "certified", "--l1", "0.01", "--tol", "1e-6", "--chunk-bytes", "100")
    assert Path("model.psm").read_bytes() == first


def test_certified_takes_losses_with_kinks_under_l1(train: Any) -> None:
    options = ("--loss", "hinge", "--algorithm", "certified", "--l1", "0.01")
    model = trained(train, *options)
    assert model.summary["converged"]
    assert 0.0 <= model.summary["relative_gap"] <= 1e-4
    assert 0 < np.count_nonzero(model.learner.weights()[0]) < 51


def test_weights_alone_predict_the_same_from_a_smaller_file(train: Any) -> None:
    whole = trained(train, *FTRL)
    size = os.path.getsize("model.psm")
    small = trained(train, *FTRL, "--weights-only")
    np.testing.assert_array_equal(whole.scores(rows_of("clicks.svm")), small.scores(rows_of("clicks.svm")))
    assert os.path.getsize("model.psm") < size


def test_an_algorithm_that_acts_on_all_weights_learns_the_dimension_first(train: Any) -> None:
    model = trained(train, "--algorithm", "accelerated_rda", "--gamma", "2", "--smoothness", "5", "--l2", "0.1")
    assert model.learner.n_features == 51
    assert model.learner.algorithm == ps.AcceleratedRDA(gamma=2.0, smoothness=5.0)


@pytest.mark.parametrize(
    ("args", "algorithm"),
    [
        (("--gamma", "2", "--rho=0.1"), ps.RDA(gamma=2.0, rho=0.1)),
        (("--strongly-convex", "--update", "mirror"), ps.AdaGrad(update="mirror", strongly_convex=True)),
        (("--geometry", "pnorm(1.5)"), ps.MirrorDescent(geometry=ps.PNorm(1.5))),
        (("--every", "3"), ps.TruncatedGradient(every=3)),
        (("--C", "0.5"), ps.PassiveAggressive(C=0.5)),
        (("--rate", "sqrt_decay(2.0, offset=1)"), ps.FTRL(rate=SqrtDecay(2.0, 1))),
        (("--scale", "global", "--penalty-weight", "once"), ps.AutoFTRL(penalty_weight="once", scale="global")),
    ],
)
def test_parameters_of_algorithms_are_options(args: tuple[str, ...], algorithm: Any) -> None:
    files, parameters = _split(["clicks.svm", *args, "more.svm"])
    assert files == ["clicks.svm", "more.svm"]
    assert parsing.algorithm_from_options(algorithm.name, parameters) == algorithm


@pytest.mark.parametrize("name", ps.algorithms.ALGORITHMS)
def test_every_parameter_of_every_algorithm_is_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--list"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{name} "))
    for parameter in parsing.parameters(name):
        assert f"--{parameter.replace('_', '-')}" in line


# ---- examples


def examples() -> list[str]:
    """Return the commands that the help and the pages show."""
    root = Path(__file__).parent.parent.parent
    pages = [(root / name).read_text(encoding="utf-8") for name in ("README.md", "docs/cli.md")]
    lines = [line for text in (EPILOG, *pages) for line in text.splitlines()]
    return sorted({line.split("#")[0].strip() for line in lines if line.strip().startswith("proxstream train ")})


def test_there_are_examples() -> None:
    assert len(examples()) >= 8


# Two kernels are compiled for Poisson's loss; test_table_offset.py has it in the default run.
EXAMPLES = [pytest.param(line, marks=pytest.mark.exhaustive) if "poisson" in line else line for line in examples()]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example: str, train: Any) -> None:
    rows = Path("clicks.svm").read_text().splitlines()
    for day in ("day1.vw.gz", "day2.vw.gz"):
        named = (line.split(" ", 1) for line in rows)
        Path(day).write_bytes(gzip.compress("".join(f"{y} | {x}\n" for y, x in named).encode()))
    table = ["click,site,device,price"] + [f"{i % 2},s{i % 5},d{i % 3},{i}" for i in range(100)]
    Path("clicks.csv").write_text("\n".join(table) + "\n")
    people = ["survived,sex,age"] + [f"{('no', 'yes')[i % 2]},s{i % 4 // 2},{i % 60}" for i in range(100)]
    Path("titanic.csv").write_text("\n".join(people) + "\n")
    flowers = ["species,width"] + [f"{('setosa', 'versicolor', 'virginica')[i % 3]},{i % 7}" for i in range(102)]
    Path("iris.csv").write_text("\n".join(flowers) + "\n")
    claims = ["claims,age,log_years"] + [f"{i % 3},{i % 60},{i % 4 / 2}" for i in range(100)]
    Path("claims.csv").write_text("\n".join(claims) + "\n")
    grants = ["ACTION,ROLE_A,ROLE_B,RESOURCE"] + [f"{i % 2},{i % 5},{i % 7},{i % 3}" for i in range(100)]
    Path("access.csv").write_text("\n".join(grants) + "\n")
    done = train(*shlex.split(example.removeprefix("proxstream train ")))
    assert done.code == 0, done.err
    assert ps.load("model.psm").summary["rows"] >= 100


# ---- bad usage


@pytest.mark.parametrize(
    ("args", "reported"),
    [
        ((), "DATA"),
        (("clicks.svm",), "--output"),
        (("clicks.svm", "-o", "m.psm", "--lozz", "hinge"), "No such option: --lozz"),
        (("clicks.svm", "-o", "m.psm", "-x"), "No such option: -x"),
        (("clicks.svm", "-o", "m.psm", "--alpha", "0.1"), "auto_ftrl has no parameter alpha; it has penalty_weight"),
        (("clicks.svm", "-o", "m.psm", "--algorithm", "sgd", "--eta"), "--eta requires an argument"),
        (("clicks.svm", "-o", "m.psm", "--algorithm", "sgd", "--eta", "x"), "eta must be a number, got 'x'"),
        (("clicks.svm", "-o", "m.psm", "--algorithm", "sgd", "--eta", "-1"), "eta must be a finite number > 0"),
        (("clicks.svm", "-o", "m.psm", "--algorithm", "sgdd"), "algorithm must be one of rda"),
        (("clicks.svm", "-o", "m.psm", "--loss", "l0"), "loss must be one of logistic"),
        (
            ("clicks.svm", "-o", "m.psm", "--loss", "squared", "--classes", "3"),
            "--classes applies to classification losses only",
        ),
        (("clicks.svm", "-o", "m.psm", "--classes", "three"), "--classes must be a number of classes"),
        (("clicks.svm", "-o", "m.psm", "--classes", "1,1"), "--classes must be at least two different labels"),
        (("clicks.svm", "-o", "m.psm", "--class-weight", "1"), "--class-weight must be LABEL=WEIGHT"),
        (("clicks.svm", "-o", "m.psm", "--class-weight", "1=-1"), "--class-weight must be LABEL=WEIGHT"),
        (("clicks.svm", "-o", "m.psm", "--l1", "-1"), "must be"),
        (("clicks.svm", "-o", "m.psm", "--l1", "nan"), "must be"),
        (("clicks.svm", "-o", "m.psm", "--penalty", "l3(1)"), "penalty must be one of none, l1"),
        (("clicks.svm", "-o", "m.psm", "--penalty", "box(0, 1, 2)"), "penalty box takes lo, hi"),
        (("clicks.svm", "-o", "m.psm", "--penalty", "l1(open('x'))"), "lam must be a number or a word, got"),
        (("clicks.svm", "-o", "m.psm", "--l1", "1", "--penalty", "kl"), "KL"),
        (("clicks.svm", "-o", "m.psm", "--passes", "0"), "passes must be an integer >= 1"),
        (("clicks.svm", "-o", "m.psm", "--threads", "0"), "threads must be an integer >= 1"),
        (("clicks.svm", "-o", "m.psm", "--dtype", "int8"), "dtype must be one of"),
        (("clicks.svm", "-o", "m.psm", "--holdout-share", "1.5"), "--holdout-share must be between"),
        (
            ("clicks.svm", "-o", "m.psm", "--loss", "ranking_hinge", "--holdout-every", "3"),
            "a ranking loss needs --holdout-file",
        ),
        (("clicks.svm", "-o", "m.psm", "--shuffle-buffer", "-1"), "--shuffle-buffer must be an integer >= 0"),
        (
            ("clicks.svm", "-o", "m.psm", "--loss", "ranking_hinge", "--shuffle-buffer", "9"),
            "--shuffle-buffer does not apply to a ranking loss",
        ),
        (
            ("clicks.svm", "-o", "m.psm", "--algorithm", "certified", "--l1", "1", "--shuffle-buffer", "9"),
            "--shuffle-buffer does not apply to --algorithm certified",
        ),
        (("clicks.svm", "-o", "m.psm", "--early-stop", "1"), "--early-stop needs held-out rows"),
        (("clicks.svm", "-o", "m.psm", "--early-stop", "1", "--holdout-every", "9"), "--early-stop needs --passes"),
        (("clicks.svm", "-o", "m.psm", "--checkpoint", "often"), "checkpoint must be a number of rows"),
        (("clicks.svm", "-o", "m.psm", "--checkpoint", "-5"), "checkpoint must be a number of rows"),
        (("clicks.svm", "-o", "m.psm", "--bits", "40"), "bits must be an integer from 1 to 31"),
        (("clicks.svm", "-o", "m.psm", "--cross", "site"), "a cross is two to 8 columns"),
        (("clicks.svm", "-o", "m.psm", "--on-error", "ignore"), "--on-error must be one of"),
        (("clicks.svm", "-o", "m.psm", "--on-error", "quarantine"), "--on-error must be one of"),
        (("clicks.svm", "-o", "m.psm", "--format", "xls"), "format must be one of svmlight"),
        (("clicks.svm", "-o", "m.psm", "--average"), "average=True: AutoFTRL"),
        (("clicks.svm", "-o", "m.psm", "--algorithm", "certified"), "no solver for loss logistic"),
        (("clicks.svm", "-o", "m.psm", "--algorithm", "certified", "--alpha", "1"), "it has tol, max_epochs, solver"),
        (
            ("clicks.svm", "-o", "m.psm", "--algorithm", "certified", "--l1", "1", "--passes", "2"),
            "--passes does not apply",
        ),
        (("clicks.svm", "-o", "none/m.psm"), "none/m.psm: the folder none does not exist"),
        (("clicks.svm", "-o", "."), ".: is a folder"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(args: tuple[str, ...], reported: str, train: Any) -> None:
    done = train(*args)
    assert (done.code, done.out) == (2, "")
    assert reported in done.err
    assert done.err.startswith("proxstream train: ")
    assert done.err.count("\n") == 1
    assert done.err.endswith("; see proxstream train --help\n")
    assert not Path("m.psm").exists()


def test_standard_input_cannot_be_read_twice(tmp_path: Path) -> None:
    command = [SCRIPT, "train", "-", "-o", "m.psm", "--format", "svmlight", "--passes", "2"]
    done = subprocess.run(command, input="1 1:1\n", capture_output=True, text=True, check=False, cwd=tmp_path)
    reported = "proxstream train: --passes 2: stdin can be read only once; see proxstream train --help\n"
    assert (done.returncode, done.stderr) == (2, reported)


# ---- bad data


def test_bad_data_is_one_line_and_exit_code_1(train: Any) -> None:
    Path("empty.svm").write_text("")
    Path("bad.svm").write_text("1 1:1\n-1 2:x\n")
    Path("label.svm").write_text("1 1:1\n0 1:1\n\n7 2:1\n")
    Path("folder.svm").mkdir()
    for name, reported in (
        ("none.svm", "none.svm: no such file\n"),
        ("empty.svm", "empty.svm: no rows to learn from\n"),
        ("bad.svm", "bad.svm:2:6: found 'x', expected a finite number\n"),
        ("label.svm", "label.svm:4:1: found the label 7, expected -1, 0 or 1\n"),
        ("folder.svm", "folder.svm: a directory, expected a file; its files are read as folder.svm/*\n"),
    ):
        done = train(name, "-o", "m.psm", *FTRL, "--quiet")
        assert done == (1, "", reported)
        assert not Path("m.psm").exists()


@pytest.mark.interpreted
def test_a_model_that_diverges_is_reported(train: Any) -> None:
    Path("wild.svm").write_text("".join(f"{i % 7} 1:1e4 2:{i}e4\n" for i in range(200)))
    done = train("wild.svm", "-o", "m.psm", "--loss", "squared", "--algorithm", "sgd", "--eta", "1e3", "--quiet")
    assert done.code == 1
    assert re.match(r"wild\.svm:\d+: the model has diverged: a score or a weight is not a finite number; ", done.err)
    assert done.err.count("\n") == 1


def test_bad_rows_are_skipped_and_counted(train: Any) -> None:
    good = Path("clicks.svm").read_text().splitlines(keepends=True)
    Path("mixed.svm").write_text("".join([*good[:50], "1 x:1\n", "5 1:1\n", *good[50:], "?\n"]))
    clean = trained(train, *FTRL)
    done = train("mixed.svm", "-o", "model.psm", *FTRL, "--on-error", "skip")
    assert done.code == 0
    assert re.search(r"^rows +100, 3 skipped$", done.err, flags=re.MULTILINE)
    mixed = ps.load("model.psm")
    np.testing.assert_array_equal(clean.learner.state_dict()["state"], mixed.learner.state_dict()["state"])
    assert train("mixed.svm", "-o", "model.psm", *FTRL, "--quarantine", "bad.txt", "--quiet").code == 0
    kept = Path("bad.txt").read_text()
    assert "mixed.svm:51:3: found" in kept
    assert "1 x:1\n" in kept
    assert "?\n" in kept


def test_a_full_disk_leaves_nothing_half_written(train: Any, tmp_path: Path) -> None:
    trained(train, *FTRL)
    before = Path("model.psm").read_bytes()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731
    for more in ((), ("--checkpoint", "1")):
        words = ["train", "clicks.svm", "-o", "model.psm", "--l1", "0.5", "--quiet", *more]
        command = [sys.executable, "-B", "-m", "proxstream", *words]  # -B: Python would keep the start of its own files
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, preexec_fn=limit, check=False)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert done.stderr == f"model.psm{'.ckpt' if more else ''}: File too large\n"
        assert Path("model.psm").read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["clicks.svm", "model.psm"]


def test_training_imports_neither_scikit_learn_nor_what_its_format_does_not_need(train: Any, tmp_path: Path) -> None:
    code = (
        "import sys; from proxstream.cli import main; main(['train', 'clicks.svm', '-o', 'm.psm', '--quiet']); "
        "print(*{'sklearn', 'pyarrow', 'pandas', 'rich', 'scipy.sparse', 'scipy.special'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "\n"


def test_training_and_evaluating_import_no_slow_part_of_the_standard_library() -> None:
    code = (
        "import sys, numpy, click, json; before = set(sys.modules)\n"
        "import proxstream.cli.train, proxstream.cli.evaluate, proxstream.training.run, proxstream.training.classes\n"
        "import proxstream.data.metrics, proxstream.io.open, proxstream.io.text.svmlight, proxstream.learner.trial\n"
        "print(*{'pathlib', 'hashlib', 'fractions', 'difflib', 'numba'} & (set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_short_option_may_have_its_value_attached(train: Any) -> None:
    for word in ("-omodel.psm", "-o=model.psm"):
        assert train("clicks.svm", word, "--quiet") == (0, "", "")
        Path("model.psm").unlink()


def test_bad_rows_of_a_file_held_out_do_not_replace_those_of_the_data(train: Any) -> None:
    Path("data.svm").write_text("1 1:1\nbad line\n-1 2:1\n")
    Path("out.svm").write_text("1 1:1\nworse line\n-1 2:1\n")
    trained(train, "--holdout-file", "out.svm", "--quarantine", "bad", data=("data.svm",))
    assert Path("bad").read_text().splitlines()[1:] == ["bad line"]
