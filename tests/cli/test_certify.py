"""certify: bounds close to the truth, models without a penalty, and features that are certain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream import cli
from proxstream.batch import Problem, certificate
from proxstream.batch.dispatch import solve
from proxstream.cli.demo_data import make
from proxstream.data.rowblock import as_block

ROWS, L1 = 3000, 0.003


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the demo's stream, its model, and a model without a penalty."""
    folder = tmp_path_factory.mktemp("certify")
    stream = make(ROWS, 1)
    stream.write(str(folder / "clicks.svm"))
    for name, options in (("model", ["--l1", str(L1)]), ("plain", [])):
        words = ["train", str(folder / "clicks.svm"), "-o", str(folder / f"{name}.psm"), "-q"]
        assert cli.main([*words, "--algorithm", "ftrl_proximal", "--alpha", "0.5", *options]) == 0
    return folder


@pytest.fixture
def certify(place: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs certify on the demo's rows and returns what it prints."""

    def run(name: str, *options: str) -> str:
        capsys.readouterr()
        assert cli.main(["certify", str(place / f"{name}.psm"), str(place / "clicks.svm"), *options]) == 0
        return capsys.readouterr().out

    return run


def dense(place: Path) -> tuple[Any, Any]:
    block = ps.RowBlock.concat([*ps.open_stream(str(place / "clicks.svm"))])
    return block.times(np.eye(block.n_features)), np.where(block.y > 0.0, 1.0, -1.0)


def test_the_bound_of_the_demos_model_is_close_to_the_truth(certify: Any, place: Path) -> None:
    reported = json.loads(certify("model", "--json"))
    X, y = dense(place)
    best = solve(Problem(as_block(X, y), X.shape[1], ps.losses.logistic, ps.L1(L1)), tol=1e-9).primal
    truth = reported["primal"] - best
    assert 0.0 < truth <= reported["gap"] <= 1.2 * truth


def test_a_model_without_a_penalty_is_compared_with_weights_of_its_norm(certify: Any, place: Path) -> None:
    reported = json.loads(certify("plain", "--json"))
    coef, _ = ps.load(place / "plain.psm").learner.weights()
    assert reported["norm_at_most"] == pytest.approx(float(np.linalg.norm(coef.astype(float))), rel=1e-6)
    assert 0.0 < reported["relative_gap"] < 0.5
    assert "without a penalty an optimum may not exist" in certify("plain")


def test_a_model_is_judged_by_the_penalty_that_it_was_trained_with(certify: Any, place: Path) -> None:
    """Also where training added it once to the sum of the losses, and only the weights were kept."""
    words = ["train", str(place / "clicks.svm"), "-o", str(place / "once.psm"), "-q", "--l1", "9"]
    assert cli.main([*words, "--algorithm", "ftrl_proximal", "--penalty-weight", "once", "--weights-only"]) == 0
    reported = json.loads(certify("once", "--json"))
    assert reported["penalty"] == repr(ps.L1(9.0 / ROWS))
    same = json.loads(certify("once", "--json", "--l1", str(9.0 / ROWS)))
    assert reported["primal"] == same["primal"]


def test_a_certified_model_of_a_loss_with_kinks_is_confirmed(certify: Any, place: Path) -> None:
    words = ["train", str(place / "clicks.svm"), "-o", str(place / "hinge.psm"), "-q", "--l1", "0.01"]
    assert cli.main([*words, "--loss", "hinge", "--algorithm", "certified", "--tol", "1e-5"]) == 0
    reported = json.loads(certify("hinge", "--json"))
    assert reported["penalty"] == "L1(lam=0.01)"
    assert 0.0 <= reported["relative_gap"] <= 2e-5


def test_features_are_listed_with_their_place_in_the_optimum(certify: Any, place: Path) -> None:
    reported = json.loads(certify("model", "--features", "--json"))
    X, y = dense(place)
    best = solve(Problem(as_block(X, y), X.shape[1], ps.losses.logistic, ps.L1(L1)), tol=1e-12).coef
    never, always = ([entry["feature"] for entry in reported[name]] for name in ("never_zero", "always_zero"))
    assert best[never].all()
    assert not best[[j for j in always if j < len(best)]].any()
    assert len(never) + len(always) >= 0.95 * len(best)
    words = certify("model", "--features")
    assert "zero in no optimum" in words
    assert f"never zero{len(never):>36,}".split() == words[words.index("never zero") :].split("\n")[0].split()


def test_a_stream_too_large_for_memory_has_a_bound_and_says_so(place: Path) -> None:
    stream = ps.open_stream(str(place / "clicks.svm"))
    fitted = ps.load(place / "model.psm")
    large = certificate(fitted, [*stream], memory=1000)
    assert not large.in_memory
    kept = certificate(fitted, [*stream])
    assert kept.in_memory
    assert kept.primal == pytest.approx(large.primal, rel=1e-12)
    assert large.dual < kept.dual <= kept.reached < kept.primal
    assert [step.dual for step in kept.history] == sorted(step.dual for step in kept.history)


def test_a_hashed_model_in_32_bits_is_judged_by_its_own_norm_and_lists_what_occurs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    lines = ["label,x,z,city"]
    for x, z in rng.normal(size=(600, 2)):
        lines.append(f"{int(x + rng.logistic() > 0)},{x:.4f},{z:.4f},{rng.choice(['Rome', 'Bern', 'Oslo'])}")
    rows, model = str(tmp_path / "rows.csv"), str(tmp_path / "model.psm")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    assert cli.main(["train", rows, "-o", model, "-q", "-b", "12"]) == 0
    assert cli.main(["certify", model, rows, "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["dual"] <= reported["primal"] < np.log(2.0)
    assert cli.main(["certify", model, rows, "--l1", "0.02", "--features", "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in reported["never_zero"]] == [["x"]]
    assert len(reported["always_zero"]) == 4  # z and three cities, not the 2^12 places of the table
