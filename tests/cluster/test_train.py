"""`proxstream train --cluster` counts, holds out and keeps what a run without a cluster does."""

from __future__ import annotations

import os
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import proxstream as ps
from proxstream import cli
from proxstream.cluster.lane_reader import LanePosition, LaneReader, Quarantine
from proxstream.cluster.partitions import FilePartition
from proxstream.cluster.rounds import Rounds
from proxstream.training.checkpoint import CheckpointStore

from ..cli.test_report import BINARY, numbers, titles
from ..training.training_cases import clicks

ROWS = 4_000
BAD = ("what is this\n", "1 3:x\n", "7 1:1 2:1\n", "-1 5:1 4:1:1\n")  # the third has a label that no loss knows


def spoiled(path: Path, seed: int) -> str:
    """Write rows with bad ones at the beginning, at the end, and in between, some of them side by side."""
    good = clicks(path, ROWS, seed=seed).read_text().splitlines(keepends=True)
    rng = np.random.default_rng(seed)
    lines = [*BAD[:2]]
    for line in good:
        lines.append(line)
        lines.extend(rng.choice(BAD, rng.integers(1, 4)) if rng.random() < 0.01 else ())
    path.write_text("".join([*lines, *BAD]))
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("spoiled")
    return [spoiled(folder / f"{k}.svm", k) for k in range(3)]


@pytest.fixture
def there(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Train on the cluster, in rounds that end within chunks, and return the model."""
    monkeypatch.chdir(tmp_path)

    def run(data: list[str], *words: object, output: str = "there.psm") -> Any:
        on = "--cluster", client.scheduler.address, "--rows-per-round", 1500, "--quiet"
        assert cli.main(["train", *data, "-o", output, *map(str, (*on, *one_scale(words)))]) == 0
        return ps.load(output)

    return run


def here(data: list[str], *words: object) -> Any:
    """Train without a cluster and return the model."""
    assert cli.main(["train", *data, "-o", "here.psm", "--quiet", *map(str, one_scale(words))]) == 0
    return ps.load("here.psm")


def one_scale(words: tuple[object, ...]) -> tuple[object, ...]:
    """Return options that take one scale, so that no rows are predicted by another one."""
    return words if {"--initial", "--scale", "--algorithm"} & set(words) else (*words, "--scale", "feature")


def same_learner(one: Any, two: Any) -> None:
    """Two models hold the same bits."""
    for name, array in one.learner.state_dict().items():
        np.testing.assert_array_equal(array, two.learner.state_dict()[name], err_msg=name)


def bad_lines(data: list[str]) -> int:
    """Count the bad lines of files."""
    return sum(line in BAD for path in data for line in Path(path).read_text().splitlines(keepends=True))


# ---- skipped rows


def test_rows_that_are_skipped_are_counted(there: Any, files: list[str]) -> None:
    words = "--on-error", "skip", "--passes", 2
    one, two = there(files, *words), here(files, *words)
    assert one.summary["skipped"] == two.summary["skipped"] == bad_lines(files) > 50
    assert one.summary["rows"] == two.summary["rows"] == 2 * ROWS * 3


@pytest.mark.exhaustive
def test_rows_of_a_cache_with_bad_labels_are_counted_in_each_pass(there: Any, tmp_path: Path) -> None:
    text = clicks(tmp_path / "a.svm", 3_000, labels=(2, 1))
    assert cli.main(["convert", str(text), str(tmp_path / "a.psr")]) == 0
    refused = sum(line.startswith("2 ") for line in text.read_text().splitlines())
    words = "--on-error", "skip", "--passes", 2
    one, two = (train([str(tmp_path / "a.psr")], *words) for train in (there, here))
    assert one.summary["skipped"] == two.summary["skipped"] == 2 * refused > 0
    same_learner(one, two)


class Killed(BaseException):
    """The client is gone."""


def broken_off(monkeypatch: pytest.MonkeyPatch, there: Any, data: list[str], *words: object) -> None:
    """Run until five checkpoints are saved, and stop."""
    save, saved = CheckpointStore.save, []

    def last(self: CheckpointStore, *arguments: Any) -> None:
        save(self, *arguments)
        saved.append(1)
        if len(saved) == 5:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "save", last)
        with pytest.raises(Killed):
            there(data, *words, output="resumed.psm")


def test_a_bad_row_is_named_where_it_stands(
    there: Any, client: Any, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", files[0], "-o", "m.psm", "--cluster", client.scheduler.address, "--quiet"]) == 1
    assert f"{files[0]}:1:1: found 'what'" in capsys.readouterr().err


# ---- held-out rows


@pytest.mark.parametrize(
    "words",
    [
        ("--holdout-every", "7", "--passes", "3"),
        ("--holdout-share", "0.3", "--class-weight", "1=2.5"),
        (
            "--holdout-file",
            "FILE",
            "--passes",
            "9",
            "--early-stop",
            "1",
            "--algorithm",
            "ftrl_proximal",
        ),  # another truth
    ],
    ids=lambda words: words[1],
)
def test_rows_of_one_file_are_held_out_as_without_a_cluster(there: Any, files: list[str], words: Any) -> None:
    words = [*(files[1] if word == "FILE" else word for word in words), "--on-error", "skip", "--l1", "1e-3"]
    one, two = (train(files[:1], *words) for train in (there, here))
    held_out = [[entry["held_out_loss"] for entry in model.history if "held_out_loss" in entry] for model in (one, two)]
    assert held_out[0] == held_out[1]
    assert one.summary["held_out_loss"] == two.summary["held_out_loss"] == min(held_out[0])
    measures = ("held_out_accuracy", "held_out_auc")
    for name in ("passes", "progressive_loss", "accuracy", "auc", "best_constant", "rows", *measures):
        assert one.summary[name] == two.summary[name]
    same_learner(one, two)
    if "--early-stop" in words:
        assert len(held_out[0]) == 2


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("rows", [100, 700])
def test_which_rows_of_several_files_are_held_out(there: Any, tmp_path: Path, rows: int) -> None:
    """A model that says 0 of each row has losses that tell which rows they are of: each third of its own file."""
    labels = [np.arange(1.0, n) ** 2 / n for n in (500, 3, 1001)]
    for k, y in enumerate(labels):
        (tmp_path / f"{k}.svm").write_text("".join(f"{label:.17g} 1:1\n" for label in y))
    data = [str(tmp_path / f"{k}.svm") for k in range(3)]
    silent = "--loss", "squared", "--l1", 1e12, "--no-intercept", "--dtype", "float64", "--rows-per-round", rows
    model = there(data, *silent, "--holdout-every", 3)
    out = np.concatenate([y[2::3] for y in labels])
    learned = np.concatenate([y[np.arange(len(y)) % 3 != 2] for y in labels])
    assert model.summary["nonzeros"] == 0
    np.testing.assert_allclose(model.summary["held_out_loss"], np.mean(out**2) / 2, rtol=1e-12)
    np.testing.assert_allclose(model.summary["progressive_loss"], np.mean(learned**2) / 2, rtol=1e-12)


@pytest.mark.exhaustive
def test_early_stopping_survives_a_checkpoint(there: Any, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of another truth show after the second pass that the first was best."""
    words = "--on-error", "skip", "--holdout-file", files[1], "--early-stop", 1, "--passes", 9, "--checkpoint", 1
    data, words = files[::2], (*words, "--rows-per-round", 5_000, "--algorithm", "ftrl_proximal")
    broken_off(monkeypatch, there, data, *words)  # in the second pass
    resumed = there(data, *words, "--resume", output="resumed.psm")
    there(data, *words)
    assert resumed.summary["passes"] == 2
    assert Path("resumed.psm").read_bytes() == Path("there.psm").read_bytes()


# ---- quarantine


@pytest.mark.default_cases(1)
@pytest.mark.parametrize(("n_files", "passes"), [(1, 2), (3, 1)])
def test_bad_rows_are_kept_as_without_a_cluster(there: Any, files: list[str], n_files: int, passes: int) -> None:
    data = files[:n_files]
    one = there(data, "--passes", passes, "--quarantine", "there.bad")
    two = here(data, "--passes", passes, "--quarantine", "here.bad")
    assert Path("there.bad").read_bytes() == Path("here.bad").read_bytes()
    assert one.summary["skipped"] == two.summary["skipped"] == bad_lines(data)
    assert sorted(line for line in Path("there.bad").read_text().splitlines(keepends=True) if line[0] != "#") == sorted(
        line for path in data for line in Path(path).read_text().splitlines(keepends=True) if line in BAD
    )


def test_bad_rows_of_a_table_are_kept_and_not_counted_among_those_held_out(there: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, label = rng.normal(size=5_000), rng.choice([0.0, 1.0, 1.0, 7.0], 5_000)
    pq.write_table(pa.table({"x": x, "label": label}), tmp_path / "a.parquet", row_group_size=700)
    words = "--no-standardize", "--bits", 8, "--holdout-every", 3, "--quarantine"
    one, two = (train([str(tmp_path / "a.parquet")], *words, f"{train.__name__}.bad") for train in (there, here))
    assert Path("run.bad").read_bytes() == Path("here.bad").read_bytes()
    assert one.summary["held_out_loss"] == two.summary["held_out_loss"]
    assert one.summary["skipped"] == np.count_nonzero(label == 7.0)
    same_learner(one, two)


@pytest.mark.exhaustive
def test_bad_rows_survive_a_checkpoint(there: Any, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = "--passes", 2, "--holdout-every", 5, "--rows-per-round", 5_000, "--checkpoint", 1, "--quarantine"
    broken_off(monkeypatch, there, files, *words, "resumed.bad")  # in the second pass
    resumed = there(files, *words, "resumed.bad", "--resume", output="resumed.psm")
    there(files, *words, "straight.bad")
    assert resumed.summary["skipped"] == bad_lines(files)
    assert Path("resumed.bad").read_bytes() == Path("straight.bad").read_bytes()
    assert Path("resumed.psm").read_bytes() == Path("there.psm").read_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_bad_rows_reported_again_are_quarantined_once(tmp_path: Path, files: list[str], seed: int) -> None:
    """A lane returns to an earlier position, as after a failure, and reports at most `most` bytes at a time."""
    rng, most = np.random.default_rng(seed), 2_000
    reading = {"on_error": "quarantine", "chunk_bytes": 1 << 14}
    parts = [FilePartition(path, "svmlight", reading) for path in files]
    quarantine, positions, done = Quarantine(str(tmp_path / "bad")), [LanePosition()], False
    reader = LaneReader(parts, LanePosition(), Fraction(0))
    while not done:
        if rng.random() < 0.2:
            reader.close()
            back = rng.integers(max(len(positions) - 3, 0), len(positions))
            del positions[back + 1 :]
            reader = LaneReader(parts, positions[back], Fraction(0))
        found = reader.read(int(rng.integers(1, 800)), most)
        assert sum(len(bad.text) for bad in found.bad) < most + 200
        for bad in found.bad:
            quarantine.add(*bad)
        positions.append(found.position)
        done = found.done
    reader.close()
    quarantine.finish()
    with ps.open_stream(files, on_error="quarantine", quarantine=tmp_path / "straight", chunk_bytes=1 << 14) as stream:
        assert sum(chunk.rows.n_rows for chunk in stream.chunks()) >= 3 * ROWS
    assert (tmp_path / "bad").read_bytes() == (tmp_path / "straight").read_bytes()
    assert positions[-1].bad_rows == stream.skipped


@pytest.mark.exhaustive
def test_workers_that_are_killed_leave_no_trace(
    there: Any, client: Any, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both workers die and reported rounds are learned again: rows held out, skipped and quarantined count once."""
    words = "--rows-per-round", 500, "--holdout-every", 6, "--quarantine"
    there(files, *words, "there.bad")
    record, attempts, pids = Rounds._record_round, [], client.run(os.getpid).values()

    def record_and_kill(self: Rounds, *ended: Any) -> None:
        record(self, *ended)
        attempts.append(self._attempt)
        if len(attempts) == 21:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(Rounds, "_record_round", record_and_kill)
    there(files, *words, "killed.bad", output="killed.psm")
    assert len(attempts) > 22
    assert attempts[-1] > 0
    assert Path("killed.bad").read_bytes() == Path("there.bad").read_bytes()
    assert Path("killed.psm").read_bytes() == Path("there.psm").read_bytes()


# ---- continuing


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("n_files", [1, 2])
def test_a_run_continues_from_a_model(
    there: Any, files: list[str], monkeypatch: pytest.MonkeyPatch, n_files: int
) -> None:
    here(files[2:], "--on-error", "skip", "--l1", 1e-3)
    Path("here.psm").rename("first.psm")
    data, words = files[:n_files], ("--initial", "first.psm", "--on-error", "skip", "--checkpoint", 1)
    one = there(data, *words)
    if n_files == 1:
        two = here(data, *words)
        same_learner(one, two)
        for name in ("progressive_loss", "accuracy", "auc", "best_constant", "rows", "nonzeros"):
            assert one.summary[name] == two.summary[name]
        assert one.history[-1] == two.history[-1]
    else:
        broken_off(monkeypatch, there, data, *words)
        there(data, *words, "--resume", output="resumed.psm")
        assert Path("resumed.psm").read_bytes() == Path("there.psm").read_bytes()
        assert one.learner.t == 3 * ROWS


def test_the_default_takes_the_scale_of_a_single_stream(there: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scales = set()
    for kind in ("wild", "unit"):
        X = rng.random((5000, 40)) * (rng.random((5000, 40)) < 0.2)
        y = np.where(X @ rng.normal(size=40) > 0.0, 1, -1)
        X = X * 10.0 ** np.arange(-2, 2).repeat(10) if kind == "wild" else X / np.maximum(X.sum(axis=1), 0.1)[:, None]
        lines = (f"{y[i]} " + " ".join(f"{j}:{X[i, j]:.6g}" for j in np.flatnonzero(X[i])) for i in range(5000))
        (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
        data, words = [str(tmp_path / "rows.svm")], ("--scale", "auto", "--holdout-every", 7)
        one, two = there(data, *words), here(data, *words)
        assert one.learner.algorithm.scale == two.learner.engine.scale
        np.testing.assert_array_equal(one.learner.weights()[0], two.learner.weights()[0])
        scales.add(one.learner.algorithm.scale)
    assert len(scales) == 2


# ---- reports


@pytest.mark.exhaustive
def test_each_pass_tells_its_own_losses(there: Any, files: list[str]) -> None:
    words = "--on-error", "skip", "--passes", 3, "--holdout-every", 9, "--class-weight", "1=3", "--progress-every", 1500
    one, two = (train(files[:1], *words) for train in (there, here))
    passes = [[entry for entry in model.history if "held_out_loss" in entry] for model in (one, two)]
    means = [[entry["mean_loss"] for entry in each] for each in passes]
    assert means[0] == pytest.approx(means[1], 1e-12)
    assert len({entry["mean_loss"] for entry in passes[0]}) == 3
    for number in (1, 2, 3):  # the mean over a pass, from the means since the last line
        lines = [entry for entry in one.history if entry["pass"] == number and "since_last" in entry]
        assert len(lines) > 1
        assert lines[0]["since_last"] == pytest.approx(lines[0]["mean_loss"], 1e-12)
        low, high = sorted((lines[0]["mean_loss"], lines[1]["since_last"]))
        assert low < lines[1]["mean_loss"] < high


def test_reports_about_odd_files_are_as_without_a_cluster(
    there: Any, client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.svm").write_text("".join(BAD))
    (tmp_path / "mixed.svm").write_text("1 1:1\n0 2:1\n-1 3:1\n")
    on = "--cluster", client.scheduler.address
    for words, code in (
        ((tmp_path / "bad.svm", "--on-error", "skip"), 1),
        ((tmp_path / "mixed.svm", "--label", "x"), 2),
    ):
        reports = []
        for where in (on, ()):
            assert cli.main(["train", *map(str, words), "-o", "m.psm", "--quiet", *where]) == code
            reports.append(capsys.readouterr().err)
        assert reports[0] == reports[1] != ""
    one, two = (train([str(tmp_path / "mixed.svm")]) for train in (there, here))
    assert one.summary["negative_labels"] == two.summary["negative_labels"] == [-1, 0]
    assert one.reading == two.reading == {"zero_based": True, "min_index": 1}
    (tmp_path / "zero.svm").write_text("1 0:1\n-1 2:1\n")
    assert there([str(tmp_path / n) for n in ("mixed.svm", "zero.svm")]).reading == {"zero_based": True}


@pytest.mark.parametrize(("loss", "figures"), [("logistic", BINARY), ("squared", [])])
def test_a_run_has_a_page(run: Any, client: Any, loss: str, figures: list[str]) -> None:
    data = "clicks.svm" if loss == "logistic" else str(numbers(Path("numbers.svm")))
    path = str(Path(data).absolute())
    options = ("--cluster", client.scheduler.address, "--loss", loss, "--report", "run.html")
    assert run("train", path, "-o", "m.psm", *options).code == 0
    assert titles(Path("run.html")) == ["Progressive loss", "Non-zeros", *figures]
