"""Commands that work with models: predict, evaluate, inspect, certify and convert, their help and how they end."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

import proxstream as ps
from proxstream import cli
from proxstream.data.rowblock import as_block
from proxstream.learner.learner import Learner
from proxstream.models.file import load_model
from proxstream.models.model import OUTPUTS, Model, Weights

from ..interpreted import interpreted_kernels

pytestmark = pytest.mark.interpreted

SCRIPT = Path(sys.executable).parent / ("proxstream.exe" if os.name == "nt" else "proxstream")
N, D = 400, 12


def rows(seed: int, n: int = N) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, D)), 3) * (rng.random((n, D)) < 0.4)
    return X, X @ np.r_[2.0, -2.0, 1.0, np.zeros(D - 3)] - 0.5 + rng.logistic(size=n)


def text(X: Any, y: Any, qid: Any = None) -> str:
    lines = []
    for i, row in enumerate(X):
        head = f"{y[i]:g}" + ("" if qid is None else f" qid:{qid[i]}")
        lines.append(" ".join([head, *(f"{j}:{row[j]:g}" for j in np.flatnonzero(row))]))
    return "\n".join(lines) + "\n"


def learned(path: Path, loss: str, **settings: Any) -> Learner:
    """Learn the rows of a file."""
    learner = Learner(ps.FTRLProximal(0.5), loss, ps.L1(1e-3), dtype=np.float32, growing=True, **settings)
    for element in ps.open_stream(str(path)):
        block, qid = element if isinstance(element[0], tuple) else (element, None)
        y = np.where(block.y > 0.0, 1.0, -1.0) if learner.loss.kind == "binary" and learner.n_outputs == 1 else block.y
        learner.learn(block._replace(y=y), qid)
    return learner


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of data and models."""
    folder = tmp_path_factory.mktemp("models")
    with interpreted_kernels(request.config):
        write_data_and_models(folder)
    return folder


def write_data_and_models(folder: Path) -> None:
    for name, seed in (("rows", 0), ("test", 1)):
        X, score = rows(seed)
        (folder / f"{name}.svm").write_text(text(X, score > 0.0))
        (folder / f"{name}-many.svm").write_text(text(X, np.array([1, 2, 5])[np.digitize(score, [-1.0, 1.0])]))
        (folder / f"{name}-numbers.svm").write_text(text(X, np.round(score, 3)))
        relevance = np.digitize(score, [-1.0, 1.0])
        (folder / f"{name}-queries.svm").write_text(text(X, relevance, np.arange(N) // 9))
    (folder / "rows.svm.gz").write_bytes(gzip.compress((folder / "rows.svm").read_bytes()))
    (folder / "clicks.csv").write_text("click,site,price\n1,a.com,3.5\n0,b.org,\n1,a.com,1e-3\n")

    two = learned(folder / "rows.svm", "logistic")
    history = [{"rows": 1, "mean_loss": 0.6931}, {"rows": N, "mean_loss": two.progressive_loss}]
    save(Model(two, (0.0, 1.0), history=history, summary={"rows": N}), folder / "model.psm")
    save(two, folder / "learner.psm")
    many = Path(folder / "many.svm")
    X, score = rows(0)
    many.write_text(text(X, np.digitize(score, [-1.0, 1.0])))
    save(Model(learned(many, "softmax", n_outputs=3), (1.0, 2.0, 5.0)), folder / "many.psm")
    save(Model(learned(many, "logistic", n_outputs=3), (1.0, 2.0, 5.0)), folder / "rest.psm")
    save(Model(learned(folder / "rows-numbers.svm", "huber(0.5)")), folder / "numbers.psm")
    save(Model(learned(folder / "rows-queries.svm", "ranking_hinge", ranking=True)), folder / "queries.psm")
    coef, intercept = two.weights()
    save(Model(Weights(coef, intercept, "hinge", ps.L2(0.1))), folder / "weights.psm")
    save(Model(Weights(coef / 4.0, intercept, "poisson", ps.L2(0.1))), folder / "counts.psm")


def save(model: Any, path: Path) -> None:
    ps.save(model, path)


class Done:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def numbers(self) -> Any:
        return np.array([[float(x) for x in line.split(",")] for line in self.out.splitlines()]).squeeze()


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(place)

    def command(*args: str) -> Done:
        code = cli.main(args)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return command


# -- predict -------------------------------------------------------------------------------------


def test_labels_probabilities_and_scores(run: Any, place: Path) -> None:
    model = ps.load(place / "model.psm")
    (block,) = ps.open_stream(str(place / "test.svm"))
    scores = model.learner.predict(block)
    reported = {output: run("predict", "model.psm", "test.svm", "--predict", output) for output in OUTPUTS}
    assert all(done.code == 0 and done.err == "" for done in reported.values())
    np.testing.assert_allclose(reported["scores"].numbers, scores, rtol=5e-9)  # nine digits
    np.testing.assert_allclose(reported["probabilities"].numbers, 1.0 / (1.0 + np.exp(-scores)), rtol=1e-8)
    assert reported["labels"].out.split() == ["1" if score > 0 else "0" for score in scores]
    assert reported["labels"].out == run("predict", "model.psm", "test.svm").out
    assert run("predict", "learner.psm", "test.svm").out.split() == ["1" if score > 0 else "-1" for score in scores]


def test_several_classes_are_separated_by_commas(run: Any, place: Path) -> None:
    model = ps.load(place / "many.psm")
    (block,) = ps.open_stream(str(place / "test-many.svm"))
    scores = model.learner.predict(block)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = run("predict", "many.psm", "test-many.svm", "--predict", "probabilities")
    assert found.out.splitlines()[0].count(",") == 2
    np.testing.assert_allclose(found.numbers, p, rtol=1e-6)
    labels = run("predict", "many.psm", "test-many.svm").numbers
    np.testing.assert_array_equal(labels, np.array([1, 2, 5])[np.argmax(scores, axis=1)])
    rest = run("predict", "rest.psm", "test-many.svm", "--predict", "probabilities").numbers
    np.testing.assert_allclose(rest.sum(axis=1), 1.0, rtol=1e-7)


def test_numbers_counts_and_ranks(run: Any) -> None:
    for name in ("numbers", "queries"):
        both = [run("predict", f"{name}.psm", f"test-{name}.svm", "--predict", o).out for o in ("labels", "scores")]
        assert both[0] == both[1]
    labels, scores = (run("predict", "counts.psm", "test.svm", "--predict", o).numbers for o in ("labels", "scores"))
    np.testing.assert_allclose(labels, np.exp(scores), rtol=1e-6)


def test_a_file_of_predictions_is_what_stdout_would_be(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    done = run("predict", "model.psm", "test.svm", "rows.svm", "-o", str(path), "--predict", "scores")
    assert (done.code, done.out, done.err) == (0, "", "")
    parts = [run("predict", "model.psm", name, "--predict", "scores").out for name in ("test.svm", "rows.svm")]
    assert path.read_text() == "".join(parts)
    path.write_text("old")
    (tmp_path / "bad.svm").write_text("1 1:1\n1 2:x\n")
    failed = run("predict", "model.psm", str(tmp_path / "bad.svm"), "-o", str(path))
    assert failed.code == 1
    assert failed.err.startswith(f"{tmp_path}/bad.svm:2:")
    assert sorted(os.listdir(tmp_path)) == ["bad.svm", "out.txt"]
    assert path.read_text() == "old"


def shell(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"}
    bash = ["bash", "-o", "pipefail", "-c", command]
    return subprocess.run(bash, cwd=place, capture_output=True, text=True, env=environment, timeout=1800)


def test_a_pipe_keeps_order_and_count(run: Any, place: Path) -> None:
    done = shell("cat test.svm | proxstream predict model.psm - --format svmlight --predict scores", place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("predict", "model.psm", "test.svm", "--predict", "scores").out
    assert done.stdout.count("\n") == N


def test_a_reader_that_goes_away_ends_it_quietly(place: Path) -> None:
    many = "for i in $(seq 400); do cat test.svm; done | proxstream predict model.psm - --format svmlight"
    done = shell(f"{many} --predict scores | head -n 2; echo ${{PIPESTATUS[1]}}", place)
    assert done.stdout.splitlines()[-1] == "0"
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == ""
    assert shell("proxstream inspect model.psm | true; sleep 0.1", place).stderr == ""


def test_no_rows_no_lines(run: Any, tmp_path: Path) -> None:
    (tmp_path / "empty.svm").write_text("")
    done = run("predict", "model.psm", str(tmp_path / "empty.svm"))
    assert (done.code, done.out) == (0, "")


# -- evaluate ------------------------------------------------------------------------------------


def test_evaluate_two_classes(run: Any) -> None:
    reported = json.loads(run("evaluate", "model.psm", "test.svm", "--json").out)
    y = rows(1)[1] > 0.0
    p = run("predict", "model.psm", "test.svm", "--predict", "probabilities").numbers
    assert reported["rows"] == N
    np.testing.assert_allclose(reported["auc"], sk.roc_auc_score(y, p), rtol=1e-6)
    np.testing.assert_allclose(reported["logistic_loss"], sk.log_loss(y, p), rtol=1e-6)
    np.testing.assert_allclose(reported["accuracy"], sk.accuracy_score(y, p > 0.5))
    assert 8 <= len(reported["calibration"]) <= 10
    assert {"weight", "mean probability", "share of positives"} == set(reported["calibration"][0])


def test_evaluate_is_readable_without_a_terminal(run: Any) -> None:
    done = run("evaluate", "model.psm", "test.svm")
    assert done.code == 0
    assert re.search(r"^rows +400$", done.out, flags=re.M)
    assert re.search(r"^auc +0\.\d+$", done.out, flags=re.M)
    assert "\ncalibration\nweight  mean probability  share of positives\n" in done.out
    assert "\x1b" not in done.out


def test_evaluate_other_kinds(run: Any) -> None:
    many = json.loads(run("evaluate", "many.psm", "test-many.svm", "--json").out)
    labels = run("predict", "many.psm", "test-many.svm").numbers
    y = np.array([1, 2, 5])[np.digitize(rows(1)[1], [-1.0, 1.0])]
    np.testing.assert_allclose(many["accuracy"], np.mean(labels == y))
    assert [entry["class"] for entry in many["classes"]] == [1.0, 2.0, 5.0]
    numbers = json.loads(run("evaluate", "numbers.psm", "test-numbers.svm", "--json").out)
    predicted = run("predict", "numbers.psm", "test-numbers.svm").numbers
    np.testing.assert_allclose(numbers["r2"], sk.r2_score(np.round(rows(1)[1], 3), predicted), rtol=1e-6)
    queries = json.loads(run("evaluate", "queries.psm", "test-queries.svm", "--json").out)
    assert queries["queries"] == -(-N // 9)
    assert 0.6 < queries["ndcg_at_10"] <= queries["ndcg"] <= 1.0
    assert queries["pair_accuracy"] > 0.7


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ("1 1:1\n3 1:1\n", ":2:1: found the label 3, expected -1, 0 or 1"),
        ("", ": no rows to evaluate"),
    ],
)
def test_labels_that_cannot_be_measured(run: Any, tmp_path: Path, contents: str, words: str) -> None:
    (tmp_path / "bad.svm").write_text(contents)
    done = run("evaluate", "model.psm", str(tmp_path / "bad.svm"))
    assert (done.code, done.out) == (1, "")
    assert done.err == f"{tmp_path}/bad.svm{words}\n"


# -- inspect -------------------------------------------------------------------------------------


def test_inspect_shows_settings_sparsity_weights_and_history(run: Any, place: Path) -> None:
    reported = json.loads(run("inspect", "model.psm", "--json", "--top", "3").out)
    learner = ps.load(place / "model.psm").learner
    coef, intercept = learner.weights()
    assert reported["settings"]["algorithm"] == repr(learner.algorithm)
    assert reported["settings"]["rows_learned"] == N
    assert reported["settings"]["can_learn"] is True
    assert reported["settings"]["classes"] == "0, 1"
    assert reported["sparsity"]["non_zeros"] == np.count_nonzero(coef)
    assert reported["sparsity"]["intercept"] == intercept
    order = np.argsort(-np.abs(coef))[:3]
    assert reported["weights"] == [{"feature": int(j), "weight": float(coef[j])} for j in order]
    assert reported["history"][0] == {"rows": 1, "mean_loss": 0.6931}
    plain = run("inspect", "model.psm", "--top", "2").out
    assert [line for line in plain.splitlines() if line in ("settings", "sparsity", "largest weights", "history")]
    assert re.search(r"^algorithm +FTRLProximal\(alpha=0.5, ", plain, flags=re.M)
    assert plain.split("# largest weights")[-1].count("\n") > 2


def test_inspect_shows_names_and_classes(run: Any, tmp_path: Path) -> None:
    import pandas as pd

    X, score = rows(0)
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(D)])
    model = ps.StreamClassifier(ps.FTRLProximal(0.5)).fit(frame, np.array(["a", "b", "c"])[np.digitize(score, [-1, 1])])
    save(model, tmp_path / "named.psm")
    weights = json.loads(run("inspect", str(tmp_path / "named.psm"), "--json").out)["weights"]
    assert weights[0]["name"] == [f"column {weights[0]['feature']}"]
    assert {entry["class"] for entry in weights} == {"a", "b", "c"}
    assert "column 0" in run("inspect", str(tmp_path / "named.psm")).out


def test_inspect_shows_the_scale_that_the_default_keeps(run: Any, place: Path, tmp_path: Path) -> None:
    X, score = rows(0)
    for kind, values in (("feature", X * 10.0 ** np.arange(-4, 8)), ("global", np.round(X, 1))):
        (tmp_path / "rows.svm").write_text(text(values, np.where(score > 0.0, 1.0, -1.0)))
        assert run("train", str(tmp_path / "rows.svm"), "-o", str(tmp_path / "m.psm"), "-q").code == 0
        shown = json.loads(run("inspect", str(tmp_path / "m.psm"), "--json").out)["settings"]
        assert shown["scale"] == ps.load(tmp_path / "m.psm").learner.engine.scale
        assert kind == "global" or shown["scale"] == "feature"
    assert "scale" not in json.loads(run("inspect", "model.psm", "--json").out)["settings"]


def test_inspect_of_hashed_names_and_of_weights_alone(run: Any, tmp_path: Path) -> None:
    words = [b"site=a.com", b"site=b.org", b"age\x1b[2J"]
    names = {
        "keys": np.array([1, 9, 2], np.uint64),
        "names": np.frombuffer(b"".join(words), np.uint8),
        "ends": np.cumsum([len(word) for word in words]),
    }
    model = Model(Weights(np.array([0.0, 2.0, -3.0, 1.0]), 0.5, "logistic"), features={"bits": 3}, names=names)
    save(model, tmp_path / "hashed.psm")
    reported = json.loads(run("inspect", str(tmp_path / "hashed.psm"), "--json").out)
    assert [(entry["feature"], entry["name"]) for entry in reported["weights"]] == [
        (2, ["age\x1b[2J"]),
        (1, ["site=a.com", "site=b.org"]),
        (3, []),
    ]
    plain = run("inspect", str(tmp_path / "hashed.psm")).out
    assert "site=a.com | site=b.org" in plain
    assert "\x1b" not in plain
    assert re.search(r"^algorithm +a batch solver$", plain, flags=re.M)
    assert re.search(r"^can learn +no$", plain, flags=re.M)


def test_a_model_of_a_table_reads_new_tables_as_its_own(run: Any, place: Path, tmp_path: Path) -> None:
    """Rows without a label, categories never met, columns in another order; a missing number counts as the mean."""
    model = str(tmp_path / "clicks.psm")
    assert run("train", "clicks.csv", "-o", model, "--label", "click", "--names", "--bits", "18", "-q").code == 0
    weights = json.loads(run("inspect", model, "--json").out)["weights"]
    assert {name for entry in weights for name in entry["name"]} == {"site=a.com", "site=b.org", "price"}
    of = {entry["name"][0]: entry["weight"] for entry in weights}
    intercept = json.loads(run("inspect", model, "--json").out)["sparsity"]["intercept"]
    (mean,) = ps.load(model).means.values()
    (tmp_path / "new.csv").write_text("price,site\n2,a.com\n,nowhere.net\n")
    scores = run("predict", model, str(tmp_path / "new.csv"), "--predict", "scores").numbers
    expected = [2.0 * of["price"] + of["site=a.com"] + intercept, mean * of["price"] + intercept]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    assert run("convert", "clicks.csv", str(tmp_path / "clicks.svm"), "--model", model).code == 0
    numbered = run("predict", model, str(tmp_path / "clicks.svm"), "--predict", "scores").out
    assert numbered == run("predict", model, "clicks.csv", "--predict", "scores").out


# -- certify -------------------------------------------------------------------------------------


def test_certify_is_the_certificate_of_the_library(run: Any, place: Path) -> None:
    X, score = rows(0)
    y = np.where(score > 0.0, 1.0, -1.0)
    for name, options, penalty in (("model", ["--l2", "0.01"], ps.L2(0.01)), ("weights", [], ps.L2(0.1))):
        done = run("certify", f"{name}.psm", "rows.svm", "--json", *options)
        assert done.code == 0, done.err
        reported = json.loads(done.out)
        learner = ps.load(place / f"{name}.psm").learner
        proof = ps.certificate(learner.weights(), X, y, loss=learner.loss, penalty=penalty)
        np.testing.assert_allclose(reported["primal"], proof.primal, rtol=1e-6)
        assert reported["gap"] >= 0.0
        np.testing.assert_allclose(reported["gap"], reported["primal"] - reported["dual"], rtol=1e-9)
        assert reported["dual"] <= proof.primal


def test_certify_several_classes_in_words(run: Any) -> None:
    done = run("certify", "many.psm", "rows-many.svm", "--l2", "0.1")
    assert (done.code, done.err) == (0, "")
    names = [line.split()[0] for line in done.out.splitlines()]
    assert names == ["loss", "penalty", "primal", "dual", "gap", "relative"]


# -- convert -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows", "rows-queries", "rows-numbers"])
@pytest.mark.parametrize("target", ["out.svm", "out.libsvm.gz", "out.svm.zst", "out.svm.bz2", "out.svm.lz4", "out.psr"])
def test_rows_come_back_bit_for_bit(run: Any, place: Path, tmp_path: Path, name: str, target: str) -> None:
    done = run("convert", f"{name}.svm", str(tmp_path / target))
    assert (done.code, done.out, done.err) == (0, "", "")
    assert os.listdir(tmp_path) == [target]
    ((one, other),) = zip(
        ps.open_stream(str(place / f"{name}.svm")), ps.open_stream(str(tmp_path / target)), strict=True
    )
    for a, b in zip(*((e if isinstance(e[0], tuple) else (e, None)) for e in (one, other)), strict=True):
        if a is None:
            assert b is None
            continue
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_vowpal_wabbit_text_comes_back(run: Any, place: Path, tmp_path: Path) -> None:
    assert run("convert", "rows.svm", str(tmp_path / "out.vw")).code == 0
    (one,) = ps.open_stream(str(place / "rows.svm"))
    (other,) = ps.open_stream(str(tmp_path / "out.vw"), digits=True)
    for name in ("indptr", "indices", "data", "y"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_model_as_json(run: Any, place: Path, tmp_path: Path) -> None:
    for name in ("model", "many"):
        assert run("convert", f"{name}.psm", str(tmp_path / "model.json")).code == 0
        reported = json.loads((tmp_path / "model.json").read_text())
        model = ps.load(place / f"{name}.psm")
        coef, intercept = model.learner.weights()
        np.testing.assert_array_equal(reported["intercept"], intercept)
        back = np.zeros_like(coef)
        for number, weight in reported["weights"]:
            back[number] = weight
        np.testing.assert_array_equal(back, coef)
        assert reported["classes"] == list(model.classes)
        assert reported["algorithm"]["name"] == "ftrl_proximal"


def test_a_model_as_readable_text(run: Any, place: Path, tmp_path: Path) -> None:
    assert run("convert", "many.psm", str(tmp_path / "model.txt")).code == 0
    head, _, body = (tmp_path / "model.txt").read_text().partition("\n:0\n")
    assert head.splitlines()[0] == f"Version proxstream {ps.__version__}"
    model = ps.load(place / "many.psm")
    coef, intercept = model.learner.weights()
    back = np.zeros((D + 1, 3))
    for line in body.splitlines():
        name, number, weight = line.rsplit(":", 2)
        label = re.fullmatch(r"(\w+)\[(\d)\]", name)
        assert label is not None
        back[int(number), model.classes.index(float(label[2]))] = float(weight)
    np.testing.assert_array_equal(back[:D], coef)
    np.testing.assert_array_equal(back[D], intercept)


@pytest.mark.parametrize("name", ["model", "learner", "many", "rest", "numbers", "queries", "weights", "counts"])
def test_a_model_as_onnx_predicts_the_same(run: Any, place: Path, tmp_path: Path, name: str) -> None:
    from onnx.reference import ReferenceEvaluator

    assert run("convert", f"{name}.psm", str(tmp_path / "model.onnx")).code == 0
    model = load_model(place / f"{name}.psm")
    X = rows(1)[0].astype(np.float32)
    block = as_block(X)
    session = ReferenceEvaluator(str(tmp_path / "model.onnx"))
    reported = dict(zip(session.output_names, session.run(None, {"X": X}), strict=True))
    if not model.classes:
        np.testing.assert_allclose(reported["prediction"].ravel(), model.predict(block, "labels"), rtol=1e-5, atol=1e-5)
        return
    np.testing.assert_array_equal(reported["label"], model.predict(block, "labels"))
    scores = model.predict(block, "probabilities" if "probabilities" in model.outputs else "scores")
    if scores.ndim == 1:
        other = 1.0 - scores if "probabilities" in model.outputs else -scores
        scores = np.stack([other, scores], axis=1)
    np.testing.assert_allclose(reported["scores"], scores, rtol=1e-5, atol=1e-5)


def test_text_classes_as_onnx(place: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    from proxstream.models.exports import to_onnx

    model = Model(Weights(np.array([1.0, -1.0]), 0.0, "logistic"), ("no", "yes"))
    (label, _) = ReferenceEvaluator(to_onnx(model)).run(None, {"X": np.eye(2, dtype=np.float32)})
    assert label.tolist() == ["yes", "no"]


def test_without_the_package_the_extra_is_named(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = run("convert", "model.psm", str(tmp_path / "model.onnx"))
    assert done.code == 2
    assert "pip install 'proxstream[onnx]'" in done.err
    assert os.listdir(tmp_path) == []


# -- how commands end ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["predict", "none.psm", "rows.svm"], 1, "none.psm: cannot be read: No such file or directory"),
        (["predict", "rows.svm", "rows.svm"], 1, "rows.svm: not a model file"),
        (["predict", "model.psm", "none.svm"], 1, "none.svm: no such file"),
        (["predict", "model.psm", "."], 1, "a directory, expected a file"),
        (["predict", "model.psm", "rows.svm", "-o", "none/out.txt"], 1, "none/"),
        (["predict", "model.psm", "rows.svm", "--format", "excel"], 1, "format must be one of"),
        (["predict", "model.psm"], 2, "DATA"),
        (["predict", "model.psm", "rows.svm", "--predict", "odds"], 2, "--predict must be one of labels"),
        (["predict", "weights.psm", "rows.svm", "--predict", "probabilities"], 2, "does not give probabilities"),
        (["evaluate", "queries.psm", "rows.svm"], 1, "each row needs a qid"),
        (["certify", "queries.psm", "rows-queries.svm"], 1, "a ranker has no certificate"),
        (["certify", "model.psm", "-"], 2, "pass files"),
        (["certify", "model.psm", "rows.svm", "--loss", "hings"], 2, "loss must be one of"),
        (["certify", "model.psm", "rows.svm", "--loss", "squared"], 2, "must be a binary loss"),
        (["certify", "model.psm", "rows.svm", "--l1", "-1"], 2, "--l1"),
        (["inspect", "model.psm", "--top", "-1"], 2, "--top"),
        (["convert", "rows.svm", "out.csv"], 2, "svmlight, vw or cache, got csv"),
        (["convert", "rows.svm", "out.xyz"], 2, "cannot infer the format"),
        (["convert", "model.psm", "out.svm"], 2, "json, text, onnx"),
        (["convert", "rows-queries.svm", "out.vw"], 1, "queries"),
        (["convert", "none.svm", "out.vw"], 1, "none.svm: no such file"),
        (["convert", "rows.svm", "out.vw", "--bits", "99"], 2, "bits must be"),
    ],
)
def test_errors_are_one_line(run: Any, place: Path, args: list[str], code: int, words: str) -> None:
    before = sorted(os.listdir(place))
    done = run(*args)
    assert done.code == code
    assert done.out == ""
    assert words in done.err
    assert done.err.count("\n") == 1
    assert sorted(os.listdir(place)) == before


@pytest.mark.exhaustive
def test_an_estimator_is_served_without_scikit_learn(place: Path, tmp_path: Path) -> None:
    X, score = rows(0)
    model = ps.StreamClassifier(ps.FTRLProximal(0.5)).fit(X, np.where(score > 0.0, "yes", "no"))
    save(model, tmp_path / "estimator.psm")
    code = (
        "import sys; from proxstream.cli import main; main(['predict', sys.argv[1], sys.argv[2]]); "
        "print('sklearn' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "estimator.psm"), str(place / "rows.svm")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert lines.pop() == "False"
    assert lines == model.predict(X).tolist()


def test_help_of_these_commands_does_not_wait_for_numpy() -> None:
    code = (
        "import sys; from proxstream.cli import main\n"
        "for name in ('predict', 'evaluate', 'inspect', 'certify', 'convert'): main([name, '--help'])\n"
        "print('loaded', *{'numpy', 'pyarrow', 'rich', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].strip() == "loaded"


def test_a_shell_completes_commands_and_options(place: Path) -> None:
    for words, expected in (
        ("proxstream pre", "plain,predict"),
        ("proxstream certify --l", "plain,--l1"),
        ("proxstream train rows.svm --alp", "plain,--alpha"),  # a parameter of an algorithm
        ("proxstream predict mod", "file,mod"),
    ):
        typed = f"COMP_WORDS='{words}' COMP_CWORD={words.count(' ')} _PROXSTREAM_COMPLETE=bash_complete proxstream"
        assert expected in shell(typed, place).stdout.split()


EXAMPLES = [
    (name, line.strip())
    for name in ("predict", "evaluate", "inspect", "certify", "convert")
    for line in import_module(f"proxstream.cli.{name}").EPILOG.splitlines()
    if "proxstream" in line
]


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_the_examples_of_the_help_run(run: Any, name: str, example: str, place: Path) -> None:
    before = set(os.listdir(place))
    if "|" in example:
        piped = shell(example, place)
        done = Done(piped.returncode, piped.stdout, piped.stderr)
    else:
        done = run(*shlex.split(example)[1:])
    assert done.code == 0, done.err
    assert done.err == ""
    for made in set(os.listdir(place)) - before:
        (place / made).unlink()


def test_only_a_process_of_the_command_line_does_without_blas(place: Path) -> None:
    ask = "import sys; from proxstream.cli import main; main({}); print('scipy.linalg' in sys.modules)"
    dot = "; import numba, numpy, scipy.linalg.cython_blas; print(numba.njit(lambda x: x @ x)(numpy.ones(2)))"
    arguments = ["predict", *[str(place / name) for name in ("model.psm", "rows.svm")]]
    for given, code, more, last in (("", ask, arguments, "False"), (repr(arguments), ask + dot, [], "2.0")):
        command = [sys.executable, "-c", code.format(given), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split()[-1] == last
