"""Several strengths on a cluster: each model is the one that a run alone with its strength gives, to the last bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream import cli
from proxstream.cluster.rounds import Rounds
from proxstream.training.checkpoint import CheckpointStore

from ..training.training_cases import clicks, contents

ROWS, GRID = 2_000, "0.1,0.01,0"
BAD = "7 1:1 2:1\n"  # a label that no loss knows


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three files of different truths and lengths, with bad rows in two of them."""
    folder, paths = tmp_path_factory.mktemp("days"), []
    for k in range(3):
        path = clicks(folder / f"day{k}.svm", ROWS + 500 * k, seed=k)
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines[:700], *([BAD] * k), *lines[700:]]))
        paths.append(str(path))
    return paths


@pytest.fixture
def there(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Train on a cluster of two workers, and return the model."""
    monkeypatch.chdir(tmp_path)

    def run(data: list[str], *words: object, output: str = "there.psm") -> Any:
        on = "--cluster", client.scheduler.address, "--rows-per-round", 1500, "--quiet", "--on-error", "skip"
        assert cli.main(["train", *data, "-o", output, *map(str, (*on, *words))]) == 0
        return ps.load(output)

    return run


def here(data: list[str], *words: object) -> Any:
    """Train without a cluster, and return the model."""
    assert cli.main(["train", *data, "-o", "here.psm", "--quiet", "--on-error", "skip", *map(str, words)]) == 0
    return ps.load("here.psm")


# ---- one run is as good as many


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "words",
    [
        ("--holdout-every", 7, "--passes", 2),
        ("--algorithm", "ftrl_proximal", "--l2", 0.01),
        ("--algorithm", "rda", "--dtype", "float64", "--class-weight", "1=2.5", "--holdout-share", 0.2),
        ("--algorithm", "adagrad", "--loss", "squared", "--passes", 2, "--quarantine", "bad.txt"),
        ("--classes", "-1,1", "--loss", "softmax", "--passes", 2),
        ("--loss", "hinge", "--scale", "feature", "--penalty", "nonnegative", "--no-intercept"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_each_strength_is_that_of_a_run_alone(there: Any, files: list[str], words: tuple[object, ...]) -> None:
    """Model file and measures; `proxstream choose` writes each model of the path."""
    path = there(files, "--l1", GRID, "--keep-path", *words)
    assert path.summary["lanes"] == 2
    losses = [entry.get("held_out_loss", entry["progressive_loss"]) for entry in path.summary["path"]]
    assert len(set(losses)) == 3
    for entry in path.summary["path"]:
        strength = entry["strength"]
        alone = there(files, "--l1", strength, *words, output="alone.psm").summary
        for name in entry.keys() - {"strength", "difference_error"}:
            assert alone[name] == entry[name], (strength, name)
        assert cli.main(["choose", "there.psm", "--strength", str(strength), "-o", "later.psm"]) == 0
        assert contents("later.psm") == contents("alone.psm"), strength


@pytest.mark.exhaustive
def test_models_may_have_different_scales(there: Any, tmp_path: Path) -> None:
    """Of a column in large units and small ones, a weak penalty prefers a scale for each, a strong one may not."""
    rng, lines = np.random.default_rng(3), []
    for _ in range(6_000):
        x = rng.normal(size=8) * 10.0 ** np.arange(-2, 2).repeat(2) / 10.0
        y = 1 if x[0] * 30.0 - x[7] * 0.1 + rng.logistic() > 0.0 else -1
        lines.append(f"{y} " + " ".join(f"{j}:{value:.4g}" for j, value in enumerate(x, 1)) + "\n")
    data = [str(tmp_path / f"{k}.svm") for k in range(2)]
    for k, path in enumerate(data):
        Path(path).write_text("".join(lines[k::2]))
    grid = [1.0, 0.03, 0.001, 0.0]
    kept = there(data, "--l1", ",".join(map(str, grid)), "--keep-path")
    scales = [there(data, "--l1", strength, output="alone.psm").learner.algorithm.scale for strength in grid]
    assert list(kept.path.learner.scales) == scales
    assert set(scales) == {"feature", "global"}


# ---- one lane


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("words", [("--passes", 2, "--holdout-every", 5), ("--algorithm", "rda", "--l2", 0.1)])
def test_one_lane_is_a_run_without_a_cluster(there: Any, files: list[str], words: tuple[object, ...]) -> None:
    scale = () if "rda" in words else ("--scale", "feature")  # no rows are predicted by another one
    one, two = (train(files[:1], "--l1", "auto", "--keep-path", *words, *scale) for train in (there, here))
    assert len(one.summary["path"]) == 10
    assert one.summary["path"] == two.summary["path"]
    states = [model.path.learner.state_dict() for model in (one, two)]
    assert {name: array.tobytes() for name, array in states[0].items()} == {
        name: array.tobytes() for name, array in states[1].items()
    }
    ignored = "lanes", "end_of_input"
    assert cli.main(["choose", "there.psm", "--best", "-o", "a.psm"]) == 0
    assert cli.main(["choose", "here.psm", "--best", "-o", "b.psm"]) == 0
    headers = [contents(name, *ignored) for name in ("a.psm", "b.psm")]
    assert headers[0][1] == headers[1][1]


@pytest.mark.exhaustive
def test_the_standard_errors_of_lanes_are_those_of_their_rows(there: Any, tmp_path: Path) -> None:
    """Models that say 0 have losses that are known: sums over lanes whose rows have weights are those of all rows."""
    rng, y = np.random.default_rng(0), []
    data = [str(tmp_path / f"{k}.svm") for k in range(3)]
    for k, path in enumerate(data):
        y.append(rng.normal(size=400 + 300 * k))
        Path(path).write_text("".join(f"{label:.17g} 1:1\n" for label in y[-1]))
    silent = "--loss", "squared", "--no-intercept", "--dtype", "float64", "--rows-per-round", 100, "--keep-path"
    model = there(data, *silent, "--l1", "1e12,2e12,3e12", "--scale", "feature")
    losses, compared = np.concatenate(y) ** 2 / 2.0, model.path.learner.compared
    np.testing.assert_allclose(compared.means, np.full(3, losses.mean()), rtol=1e-12)
    np.testing.assert_allclose(compared.errors, np.full(3, losses.std() / np.sqrt(len(losses))), rtol=1e-9)


# ---- strengths by the first rows


@pytest.mark.exhaustive
def test_auto_finds_the_strengths_of_a_single_stream(there: Any, files: list[str]) -> None:
    """In the rows of the first file that are learned, and of the next ones where it is short."""
    Path("short.svm").write_text("".join(Path(files[0]).read_text().splitlines(keepends=True)[:300]))
    for data in (files, ["short.svm", *files[1:]]):
        one, two = (train(data, "--l1", "auto", "--choose", "best") for train in (there, here))
        assert [entry["strength"] for entry in one.summary["path"]] == [
            entry["strength"] for entry in two.summary["path"]
        ]
    held_out = "--l1", "auto", "--holdout-every", 3
    one, two = (train(files, *held_out) for train in (there, here))
    assert one.summary["path"][0]["strength"] == two.summary["path"][0]["strength"]


def test_a_path_of_a_cluster_is_read_like_any_other(
    there: Any, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model = there(files, "--l1", "1e-4:0.1:4", "--choose", "nnz=5", "--keep-path", "--report", "run.html")
    assert model.summary["strength"] == 0.1
    assert "Strengths of the penalty" in Path("run.html").read_text()
    assert cli.main(["inspect", "there.psm"]) == 0
    assert "0.0001" in capsys.readouterr().out
    for strength in ("0.1", "0.001"):
        assert cli.main(["predict", "there.psm", files[0], "--strength", strength, "-o", f"{strength}.txt"]) == 0
    assert Path("0.1.txt").read_text() != Path("0.001.txt").read_text()


# ---- interruptions


class Killed(BaseException):
    """The client is gone."""


@pytest.mark.default_cases(1)
@pytest.mark.parametrize(
    ("words", "saves"),
    [
        (("--passes", 9, "--early-stop", 1, "--holdout-file", "FILE", "--algorithm", "ftrl_proximal"), 7),
        (("--choose", "best", "--holdout-every", 4, "--quarantine", "BAD"), 3),
    ],
)
def test_a_run_that_is_killed_resumes_to_the_same_bytes(
    there: Any, files: list[str], monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], saves: int
) -> None:
    save, saved = CheckpointStore.save, []

    def last(self: CheckpointStore, *arguments: Any) -> None:
        save(self, *arguments)
        saved.append(1)
        if len(saved) == saves:
            raise Killed

    def options(name: str) -> list[object]:
        meant = {"BAD": f"{name}.bad", "FILE": files[1]}
        return ["--l1", "auto", "--keep-path", "--checkpoint", 1, *(meant.get(str(word), word) for word in words)]

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "save", last)
        with pytest.raises(Killed):
            there(files[::2], *options("resumed"), output="resumed.psm")
    there(files[::2], *options("resumed"), "--resume", output="resumed.psm")
    straight = there(files[::2], *options("straight"))
    assert Path("resumed.psm").read_bytes() == Path("there.psm").read_bytes()
    assert straight.summary["skipped"] == 2
    if "BAD" in words:
        assert Path("resumed.bad").read_bytes() == Path("straight.bad").read_bytes()
    else:
        assert straight.summary["passes"] < 9


@pytest.mark.exhaustive
def test_workers_that_are_killed_leave_no_trace(
    there: Any, client: Any, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "--l1", "auto", "--rows-per-round", 400, "--holdout-every", 6, "--keep-path"
    there(files, *words)
    record, attempts, pids = Rounds._record_round, [], client.run(os.getpid).values()

    def record_and_kill(self: Rounds, *ended: Any) -> None:
        record(self, *ended)
        attempts.append(self._attempt)
        if len(attempts) == 21:  # after the client has sent the state, which dies with the workers
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(Rounds, "_record_round", record_and_kill)
    there(files, *words, output="killed.psm")
    assert len(attempts) > 22
    assert attempts[-1] > 0
    assert Path("killed.psm").read_bytes() == Path("there.psm").read_bytes()


# ---- odd input


def test_odd_input_is_reported_in_one_line(
    there: Any, client: Any, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.svm").write_text("")
    Path("alike.svm").write_text("1 1:1\n" * 30)
    for words, code, expected in (
        (["empty.svm", "--l1", "auto"], 1, "empty.svm: no rows to learn from"),
        (["alike.svm", "--l1", "auto"], 2, "--l1 auto: all weights are 0 at every strength"),
        ([files[0], "--l1", "auto", "--average"], 2, "--average does not apply to --cluster"),
        ([files[0], "--l1", GRID, "--algorithm", "mirror_descent"], 2, "--cluster: the state of MirrorDescent"),
        ([files[0], "--l1", GRID, "--threads", "2"], 2, "--threads 2 does not go with several strengths"),
        ([files[0], "--l1", GRID, "--penalty", "l2(1)"], 2, "must be a constraint"),
    ):
        on = "--cluster", client.scheduler.address, "-o", "m.psm", "--quiet", "--on-error", "skip"
        assert cli.main(["train", *words, *on]) == code
        error = capsys.readouterr().err
        assert expected in error
        assert error.count("\n") == 1
    model = there(["empty.svm", "alike.svm", *files[:1]], "--l1", GRID)
    assert model.summary["rows"] == ROWS + 30
