"""`--offset COLUMN`: training from tables with log exposures agrees with `fit(..., offset=)` on the same numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import proxstream as ps
from proxstream import cli
from proxstream.models.file import load_model

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(3)
N = 200
X = RNG.normal(size=(N, 3)).round(3)
EXPOSURE = RNG.uniform(0.2, 5.0, N)
OFFSET = np.log(EXPOSURE)
COUNTS = RNG.poisson(EXPOSURE * np.exp(X @ [0.6, -0.4, 0.2] - 0.3)).astype(float)
WEIGHT = RNG.integers(0, 4, N).astype(float)
COLUMNS = {"count": COUNTS, "u": X[:, 0], "v": X[:, 1], "w": X[:, 2], "weight": WEIGHT, "exposure": OFFSET}
PLAIN = ("--label", "count", "--offset", "exposure", "--bits", "0", "--dtype", "float64", "--no-standardize", "-q")


def write_csv(folder: Path, columns: dict[str, Any] = COLUMNS) -> Path:
    path = folder / "rows.csv"
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def write_json(folder: Path) -> Path:
    path = folder / "rows.jsonl"
    rows = zip(*(column.tolist() for column in COLUMNS.values()), strict=True)
    path.write_text("".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows))
    return path


def write_parquet(folder: Path) -> Path:
    path = folder / "rows.parquet"
    pq.write_table(pa.table(COLUMNS), path, row_group_size=97)
    return path


def trained(path: Path, *options: str) -> Any:
    model = path.parent / "model.psm"
    assert cli.main(["train", str(path), "-o", str(model), *PLAIN, *options]) == 0
    return load_model(str(model))


@pytest.mark.parametrize("write", [write_csv, write_json, write_parquet])
@pytest.mark.parametrize("loss", ["poisson", "tweedie(1.5)"])
def test_training_agrees_with_the_estimator(write: Callable[[Path], Path], loss: str, tmp_path: Path) -> None:
    model = trained(write(tmp_path), "--loss", loss, "--weight", "weight")
    expected = ps.StreamRegressor(loss=loss).fit(X, COUNTS, sample_weight=WEIGHT, offset=OFFSET)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-9)
    assert model.learner.progressive_loss == pytest.approx(expected.progressive_loss_, rel=1e-9)
    path = str(tmp_path / "rows.csv") if write is write_csv else str(write(tmp_path))
    np.testing.assert_allclose(model.predict(path), expected.predict(X, offset=OFFSET), rtol=1e-9)


def test_a_penalty_needs_a_loss_whose_weights_an_offset_leaves_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    amounts = COLUMNS | {"count": COUNTS + 0.5}
    path = write_csv(tmp_path, amounts)
    model = trained(path, "--loss", "gamma", "--l2", "0.01", "--drop", "weight")
    expected = ps.StreamRegressor(loss="gamma", penalty="l2(0.01)").fit(X, COUNTS + 0.5, offset=OFFSET)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    command = ["train", str(path), "-o", str(tmp_path / "m.psm"), *PLAIN, "--l2", "0.01"]
    assert cli.main([*command, "--loss", "poisson"]) == 2
    assert "--algorithm certified takes both" in capsys.readouterr().err
    assert cli.main(["train", str(path), "-o", str(tmp_path / "m.psm"), *PLAIN, "--loss", "squared"]) == 2
    assert "poisson, gamma and tweedie" in capsys.readouterr().err


def test_each_of_several_strengths_learns_with_the_offset_as_a_run_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_csv(tmp_path, COLUMNS | {"count": COUNTS + 0.5})
    options = ("--loss", "gamma", "--drop", "weight", "--holdout-every", "3", "--passes", "2")
    both = trained(path, "--l1", "0.1,0.01", "--choose", "best", *options)
    for entry in both.summary["path"]:
        alone = trained(path, "--l1", str(entry["strength"]), *options)
        for name in entry.keys() - {"strength", "difference_error"}:
            assert alone.summary[name] == entry[name], name
        if entry["strength"] == both.summary["strength"]:
            assert np.array_equal(alone.coef_, both.coef_)
    found = trained(path, "--l1", "auto", "--loss", "gamma", "--drop", "weight").summary["path"][0]["strength"]
    rates = (COUNTS + 0.5) / EXPOSURE
    largest = np.abs(X.T @ (1.0 - rates / rates.mean())).max() / N  # the slopes of the loss at the best constant
    assert found == pytest.approx(largest, rel=5e-3)
    command = ["train", str(path), "-o", str(tmp_path / "m.psm"), *PLAIN, "--loss", "poisson", "--l1", "auto"]
    assert cli.main(command) == 2
    assert "--algorithm certified takes both" in capsys.readouterr().err


def test_the_certified_optimum_is_that_of_the_estimator(tmp_path: Path) -> None:
    model = trained(
        write_csv(tmp_path), "--loss", "poisson", "--l2", "0.1", "--algorithm", "certified", "--drop", "weight"
    )
    expected = ps.CertifiedRegressor("poisson", ps.L2(0.1)).fit(X, COUNTS, offset=OFFSET)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    assert model.summary["primal"] == pytest.approx(expected.primal_, rel=1e-9)
    assert model.summary["dual"] <= expected.primal_ + 1e-9


def test_evaluate_and_predict_use_the_column_that_the_model_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_csv(tmp_path)
    model = trained(path, "--loss", "poisson", "--drop", "weight")
    capsys.readouterr()
    assert cli.main(["evaluate", str(tmp_path / "model.psm"), str(path), "--json"]) == 0
    means = EXPOSURE * np.exp(X @ model.coef_ + model.intercept_)
    measured = json.loads(capsys.readouterr().out)
    assert measured["rmse"] == pytest.approx(np.sqrt(np.mean((means - COUNTS) ** 2)), rel=1e-9)
    assert measured["poisson_loss"] == pytest.approx(np.mean(means - COUNTS * np.log(means)), rel=1e-9)
    assert cli.main(["predict", str(tmp_path / "model.psm"), str(path)]) == 0
    np.testing.assert_allclose([float(line) for line in capsys.readouterr().out.split()], means, rtol=1e-9)
    without = {name: column for name, column in COLUMNS.items() if name != "exposure"}
    assert cli.main(["predict", str(tmp_path / "model.psm"), str(write_csv(tmp_path, without))]) == 1
    assert "found no column 'exposure' for the offset, expected one of" in capsys.readouterr().err


def test_held_out_rows_count_with_their_offsets(tmp_path: Path) -> None:
    path = write_csv(tmp_path)
    whole = trained(path, "--loss", "poisson", "--drop", "weight", "--holdout-file", str(path))
    means = whole.predict(str(path))
    expected = np.mean(means - COUNTS * np.log(means))
    assert whole.summary["held_out_loss"] == pytest.approx(expected, rel=1e-9)
    every = trained(path, "--loss", "poisson", "--drop", "weight", "--holdout-every", "5")
    kept = np.arange(1, N + 1) % 5 != 0
    fitted = ps.StreamRegressor(loss="poisson").fit(X, COUNTS, sample_weight=kept.astype(float), offset=OFFSET)
    np.testing.assert_allclose(every.coef_, fitted.coef_, rtol=1e-9)


def test_cutting_and_resuming_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_csv(tmp_path)
    command = ["train", str(path), *PLAIN, "--loss", "poisson", "--passes", "2"]
    for name, more in (("one.psm", []), ("cut.psm", ["--chunk-bytes", "900", "--checkpoint", "50"])):
        assert cli.main([*command, "-o", str(tmp_path / name), *more]) == 0
    assert (tmp_path / "one.psm").read_bytes() == (tmp_path / "cut.psm").read_bytes()


@pytest.mark.parametrize("value", ["", "nan", "1e9", "much"])
def test_a_bad_offset_is_a_bad_row(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offsets = [*OFFSET.astype(str)[:-1], value]
    path = write_csv(tmp_path, COLUMNS | {"exposure": np.array(offsets, object)})
    command = ["train", str(path), "-o", str(tmp_path / "m.psm"), *PLAIN, "--loss", "poisson"]
    assert cli.main(command) == 1
    error = capsys.readouterr().err
    assert f"rows.csv:{N + 1}:" in error
    assert "in column 'exposure'" in error
    assert cli.main([*command, "--on-error", "skip"]) == 0
    assert load_model(str(tmp_path / "m.psm")).summary["rows"] == N - 1


def test_tables_refuse_offsets_that_are_no_numbers_in_range() -> None:
    table = pa.table({"label": [1.0, 2.0], "x": [1.0, 2.0], "o": [0.0, 501.0]})
    with pytest.raises(ps.DataError, match=r"found 501\.0, expected a number from -500 to 500"):
        list(ps.open_stream(table, features=ps.FeatureSpec(offset="o")).chunks())
    chunks = list(ps.open_stream(table, features=ps.FeatureSpec(offset="o"), on_error="skip").chunks())
    np.testing.assert_array_equal(chunks[0].offset, [0.0])


def test_what_has_no_offsets_refuses_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path)
    assert cli.main(["convert", str(path), str(tmp_path / "rows.psr"), "--offset", "exposure", "--label", "count"]) == 2
    assert "have no offsets" in capsys.readouterr().err
    trained(path, "--loss", "poisson")
    model = str(tmp_path / "model.psm")
    assert cli.main(["convert", str(path), str(tmp_path / "rows.psr"), "--model", model]) == 1
    assert "found offsets" in capsys.readouterr().err
    assert cli.main(["certify", model, str(path)]) == 1
    assert "CertifiedRegressor.fit(offset=)" in capsys.readouterr().err
    stream = ps.open_stream(str(path), features=ps.FeatureSpec(label="count", offset="exposure"))
    with pytest.raises(ValueError, match="row blocks do not hold offsets"):
        list(stream)
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    assert cli.main(["train", str(tmp_path / "rows.svm"), "-o", model, "--offset", "a", "--loss", "poisson"]) == 2
    assert "--offset does not apply to svmlight" in capsys.readouterr().err
