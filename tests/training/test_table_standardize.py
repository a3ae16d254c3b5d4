"""Numeric columns of tables are standardized as they stream: what the model keeps, and what depends on it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

import proxstream as ps
from proxstream import cli
from proxstream.models.file import load_model

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(5)
N = 300
X = np.stack([100.0 + RNG.normal(size=N), RNG.normal(size=N), np.where(RNG.random(N) < 0.3, 0.0, 5.0)], axis=1).round(3)
CITY = RNG.choice(["a", "b", "c"], N)
Y = ((X - X.mean(axis=0)) @ [1.0, -2.0, 0.5] + (CITY == "a") + 0.1 * RNG.normal(size=N)).round(3)
FRAME = pd.DataFrame({"label": Y, "u": X[:, 0], "v": X[:, 1], "w": X[:, 2], "city": CITY})
BITS = 12  # columns of words; numbers come after them
SQUARED = ("--loss", "squared", "-q")


def trained(path: Path, *options: str, name: str = "model.psm") -> Any:
    """Train on a table, with fewer columns than by default unless the options say how many."""
    model = path.parent / name
    bits = () if "--bits" in options or path.suffix == ".psr" else ("--bits", str(BITS))
    assert cli.main(["train", str(path), "-o", str(model), *SQUARED, *bits, *options]) == 0
    return load_model(str(model))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    return path


def running(x: Any) -> Any:
    """Standardize a column by the rows up to each."""
    z = np.zeros(len(x))
    for i in range(1, len(x)):
        deviation = np.std(x[: i + 1])
        z[i] = (x[i] - np.mean(x[: i + 1])) / deviation if deviation > 0.0 else 0.0
    return z


@pytest.mark.parametrize("bits", ["0", "10"])
def test_a_model_is_that_of_running_means_and_deviations(bits: str, table: Path) -> None:
    model = trained(table, "--bits", bits, "--dtype", "float64", "--passes", "2")
    dummies = np.stack([city == CITY for city in dict.fromkeys(CITY)], axis=1).astype(float)
    means, deviations = X.mean(axis=0), X.std(axis=0)
    learner = ps.Learner(ps.AutoFTRL(), "squared", n_features=6)
    later = np.hstack([(X - means) / deviations, dummies])
    for i, Z in enumerate((np.hstack([np.stack([running(x) for x in X.T], axis=1), dummies]), later)):
        learner.learn(ps.RowBlock(*dense_csr(Z), Y), repeated=i > 0)
    coef, intercept = learner.weights()
    found = model.coef_[np.flatnonzero(model.coef_)]
    expected = [*(coef[:3] / deviations), *coef[3:]]
    np.testing.assert_allclose(sorted(found), sorted(expected), rtol=1e-7)
    assert model.intercept_ == pytest.approx(intercept - coef[:3] / deviations @ means, rel=1e-7)
    np.testing.assert_allclose(model.predict(FRAME), later @ coef + intercept, rtol=1e-7)


def dense_csr(Z: Any) -> tuple[Any, ...]:
    """Return all cells of a matrix, zeros too, as CSR arrays."""
    n, d = Z.shape
    return np.arange(n + 1, dtype=np.int32) * d, np.tile(np.arange(d, dtype=np.int32), n), Z.ravel()


def test_it_is_on_unless_switched_off(table: Path) -> None:
    on, off = trained(table), trained(table, "--no-standardize", name="off.psm")
    assert r2_score(Y, on.predict(FRAME)) > 0.9 > r2_score(Y, off.predict(FRAME))
    assert "statistics" not in off.names
    assert "standardize" not in on.summary["options"]
    assert off.summary["options"] == f"{on.summary['options']} --no-standardize"


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_every_table_gives_the_same_model(kind: str, table: Path) -> None:
    other = table.with_suffix(f".{kind}")
    if kind == "jsonl":
        other.write_text("".join(json.dumps(row) + "\n" for row in FRAME.to_dict("records")))
    else:
        FRAME.to_parquet(other)
    for options in ((), ("--cross", "u*city"), ("--bits", "0")):
        one, two = trained(table, *options), trained(other, *options, name="two.psm")
        np.testing.assert_array_equal(one.coef_, two.coef_)
        assert one.intercept_ == two.intercept_


def test_cutting_resuming_and_continuing_change_no_bit(table: Path) -> None:
    whole = table.with_name("model.psm")
    trained(table, "--passes", "2")
    trained(table, "--passes", "2", "--chunk-bytes", "700", "--checkpoint", "20", name="cut.psm")
    assert whole.read_bytes() == table.with_name("cut.psm").read_bytes()
    lines = table.read_text().splitlines(keepends=True)
    parts = [table.with_name(name) for name in ("a.csv", "b.csv")]
    for part, rows in zip(parts, (lines[1:101], lines[101:]), strict=True):
        part.write_text(lines[0] + "".join(rows))
    trained(parts[0])
    part = table.with_name("part.psm")
    assert cli.main(["train", str(parts[1]), "-o", str(part), "-i", str(whole), "-q"]) == 0
    continued, once = load_model(str(part)), trained(table)
    assert continued.names["statistics"].tobytes() == once.names["statistics"].tobytes()
    assert continued.learner.weights()[0].tobytes() == once.learner.weights()[0].tobytes()


def test_an_interrupted_run_resumes_with_its_statistics(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from proxstream.training import session

    expected = trained(table).coef_
    command = ["train", str(table), "-o", str(table.with_name("model.psm")), *SQUARED, "--chunk-bytes", "700"]
    command += ["--bits", str(BITS)]
    learn, seen = session.Session._learn_chunk, []

    def stopping(self: Any, chunk: Any, source: Any) -> None:
        learn(self, chunk, source)
        seen.append(chunk)
        if len(seen) == 5:
            self._stop = True

    table.with_name("model.psm").unlink()
    monkeypatch.setattr(session.Session, "_learn_chunk", stopping)
    assert cli.main(command) != 0
    assert table.with_name("model.psm.ckpt").exists()
    assert cli.main([*command, "--resume"]) == 0
    np.testing.assert_array_equal(load_model(str(table.with_name("model.psm"))).coef_, expected)


def test_held_out_rows_are_not_in_the_statistics(table: Path) -> None:
    model = trained(table, "--holdout-every", "3", "--dtype", "float64")
    learned = np.arange(1, N + 1) % 3 != 0
    weight, mean, squares = model.names["statistics"]
    np.testing.assert_array_equal(weight, learned.sum())
    np.testing.assert_allclose(mean, X[learned].mean(axis=0))
    np.testing.assert_allclose(np.sqrt(squares / weight), X[learned].std(axis=0))


def test_a_missing_number_counts_as_the_mean(table: Path) -> None:
    model = trained(table, "--dtype", "float64")
    means = model.names["statistics"][1]
    missing = FRAME.drop(columns="label").iloc[:4].copy()
    filled = missing.copy()
    missing["u"], filled["u"] = None, means[0]
    np.testing.assert_allclose(model.predict(missing), model.predict(filled), rtol=1e-9)


def test_a_zero_is_a_number(table: Path) -> None:
    model = trained(table, "--dtype", "float64")
    row = FRAME.drop(columns="label").iloc[:1].copy()
    row["w"] = 0.0
    names = {name[0]: number for number, name in model.named().items()}
    city = np.setdiff1d(np.flatnonzero(model.coef_), list(names.values()))
    assert len(city) == 3
    numbers = row[["u", "v", "w"]].to_numpy()[0] @ model.coef_[[names[column] for column in "uvw"]]
    assert np.min(np.abs(numbers + model.coef_[city] + model.intercept_ - model.predict(row)[0])) < 1e-9


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_exports_are_in_the_units_of_the_columns(loss: str, table: Path, tmp_path: Path) -> None:
    if loss == "softmax":
        frame = FRAME.assign(label=np.digitize(Y, [-1.0, 1.0]))
        frame.to_csv(table, index=False)
    options = ("--loss", loss, "--dtype", "float64", "--drop", "city", "--bits", "0")
    model = trained(table, *options, *(("--classes", "3") if loss == "softmax" else ()))
    expected = model.predict(FRAME, "scores")
    np.testing.assert_allclose(model.predict(X, "scores"), expected, rtol=1e-9)
    assert cli.main(["convert", str(tmp_path / "model.psm"), str(tmp_path / "model.json")]) == 0
    exported = json.loads((tmp_path / "model.json").read_text())
    coef = np.array([entry[1] for entry in exported["weights"]])
    np.testing.assert_allclose(X @ coef + exported["intercept"], expected, rtol=1e-9)
    assert [entry[2] for entry in exported["weights"]] == ["u", "v", "w"]


def test_commands_read_rows_as_they_were_learned(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = trained(table, "--dtype", "float64", "--l2", "0.01")
    path = str(table.with_name("model.psm"))
    assert cli.main(["evaluate", path, str(table), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["r2"] == pytest.approx(r2_score(Y, model.predict(FRAME)), rel=1e-9)
    assert cli.main(["certify", path, str(table), "--json"]) == 0
    proof = json.loads(capsys.readouterr().out)
    coef, _ = model.learner.weights()
    loss = 0.5 * np.mean((model.predict(FRAME) - Y) ** 2)
    assert proof["primal"] == pytest.approx(loss + 0.005 * coef @ coef, rel=1e-9)
    assert cli.main(["inspect", path, "--json"]) == 0
    shown = {tuple(entry["name"]): entry["weight"] for entry in json.loads(capsys.readouterr().out)["weights"]}
    assert shown[("u",)] == pytest.approx(model.coef_[1 << BITS], rel=1e-12)


def test_other_formats_and_solvers_are_as_they_were(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certified = trained(table, "--algorithm", "certified", "--l2", "0.01")
    assert "statistics" not in certified.names
    svm = table.with_name("rows.svm")
    svm.write_text("1 1:100\n0 1:101\n")
    assert cli.main(["train", str(svm), "-o", str(table.with_name("m.psm")), "--no-standardize"]) == 2
    assert "--no-standardize does not apply to svmlight" in capsys.readouterr().err


def test_a_row_cache_is_standardized_as_its_table_is(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache, raw = table.with_name("rows.psr"), table.with_name("raw.psr")
    assert cli.main(["convert", str(table), str(cache), "--cross", "u*city", "--bits", str(BITS)]) == 0
    assert cli.main(["convert", str(table), str(raw), "--no-standardize", "--bits", str(BITS)]) == 0
    expected = trained(table, "--cross", "u*city")
    np.testing.assert_array_equal(trained(cache).coef_, expected.coef_)
    np.testing.assert_array_equal(trained(cache).predict(FRAME), expected.predict(FRAME))
    np.testing.assert_array_equal(trained(raw).coef_, trained(table, "--no-standardize").coef_)
    assert cli.main(["train", str(cache), "-o", str(table.with_name("m.psm")), *SQUARED, "--no-standardize"]) == 2
    assert "convert the table again" in capsys.readouterr().err
    columns = ("--cross", "u*city", "--bits", str(BITS), "--dtype", "float64")
    certified = ("--algorithm", "certified", "--l2", "0.01", *columns)
    one, two = trained(cache, *certified), trained(table, *certified)
    np.testing.assert_allclose(one.predict(FRAME), two.predict(FRAME), rtol=1e-4)
    assert {name for names in one.named().values() for name in names} == {"u", "v", "w"}
    assert sorted(one.named()) == [1 << BITS, (1 << BITS) + 1, (1 << BITS) + 2]


def test_estimators_take_it_with_their_features(table: Path) -> None:
    spec = ps.FeatureSpec(bits=None, standardize=True)
    model = ps.StreamRegressor(features=spec).fit(FRAME)
    expected = trained(table, "--bits", "0", "--dtype", "float64")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-12)
    np.testing.assert_allclose(model.predict(FRAME.drop(columns="label")), expected.predict(FRAME), rtol=1e-12)
    parts = ps.StreamRegressor(features=spec).partial_fit(FRAME[:100]).partial_fit(FRAME[100:])
    np.testing.assert_array_equal(parts.coef_, model.coef_)
    streamed = ps.StreamRegressor().fit_stream(ps.open_stream(str(table), features=spec, dtype=np.float64))
    np.testing.assert_array_equal(streamed.coef_, model.coef_)
    assert streamed.score(ps.open_stream(str(table), features=streamed.featurizer_)) == pytest.approx(
        r2_score(Y, expected.predict(FRAME)), rel=1e-6
    )
    np.testing.assert_array_equal(
        streamed.predict(ps.open_stream(str(table))), streamed.predict(FRAME.drop(columns="label"))
    )


def stored(model: Any, path: Path) -> Any:
    """Return a model from its file."""
    ps.save(model, path)
    return ps.load(path)


@pytest.mark.parametrize("save", [lambda model, path: pickle.loads(pickle.dumps(model)), stored])
def test_an_estimator_continues_from_its_file(save: Callable[[Any, Any], Any], tmp_path: Path) -> None:
    spec = ps.FeatureSpec(bits=8, standardize=True)
    half = save(ps.StreamRegressor(features=spec).partial_fit(FRAME[:100]), tmp_path / "model.psm")
    whole = ps.StreamRegressor(features=spec).partial_fit(FRAME)
    np.testing.assert_array_equal(half.partial_fit(FRAME[100:]).coef_, whole.coef_)


def test_statistics_that_do_not_fit_the_columns_are_refused(table: Path) -> None:
    model = trained(table)
    model.names["statistics"] = np.zeros((3, 2))
    path = table.with_name("wrong.psm")
    ps.save(model, path)
    with pytest.raises(ps.ModelFileError, match="statistics must be 3 weights"):
        ps.load(path)


def test_bits_leave_room_for_numbers() -> None:
    with pytest.raises(ValueError, match="bits must be less than 31"):
        ps.FeatureSpec(bits=31, standardize=True)
