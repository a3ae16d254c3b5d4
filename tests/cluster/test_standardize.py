"""Numbers of tables on a cluster: standardized by the means and deviations of the first rows, for all lanes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

import proxstream as ps
from proxstream import cli
from proxstream.cluster.partitions import make_partitions
from proxstream.cluster.standardize import HEAD

pytestmark = pytest.mark.interpreted

N = 6_000
OPTIONS = ("--loss", "squared", "--dtype", "float64", "--scale", "feature", "--bits", "8", "--quiet")


def rows(seed: int) -> pd.DataFrame:
    """Return columns far from zero, one that is constant in the first rows of a file, and one of missing numbers."""
    rng = np.random.default_rng(seed)
    late = 7.0 + np.where(np.arange(N) < HEAD, 0.0, rng.normal(size=N))
    frame = pd.DataFrame({"far": 500.0 + rng.normal(size=N), "late": late, "gaps": rng.normal(size=N)})
    frame.loc[rng.random(N) < 0.3, "gaps"] = np.nan
    return frame.assign(label=(frame["far"] - 500.0) * 2.0 + late - 7.0 + 0.1 * rng.normal(size=N)).round(4)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("tables")
    for k in range(3):
        rows(k).to_csv(folder / f"{k}.csv", index=False)
    return [str(folder / f"{k}.csv") for k in range(3)]


@pytest.fixture
def train(client: Any, tmp_path: Path) -> Any:
    def run(data: list[str], *words: str, output: str = "model.psm") -> Any:
        on = "--cluster", client.scheduler.address, "--rows-per-round", "3000"
        assert cli.main(["train", *data, "-o", str(tmp_path / output), *on, *words]) == 0
        return ps.load(tmp_path / output)

    return run


def fixed(X: Any) -> tuple[Any, Any]:
    """Return means and deviations of the first rows, 1 where there is none."""
    means, deviations = np.nanmean(X[:HEAD], axis=0), np.nanstd(X[:HEAD], axis=0)
    return means, np.where(deviations > 0.0, deviations, 1.0)


def test_one_lane_learns_rows_standardized_by_the_first_ones(train: Any, files: list[str]) -> None:
    model, frame = train(files[:1], *OPTIONS), rows(0)
    X = frame.drop(columns="label").to_numpy()
    means, deviations = fixed(X)
    Z = (X - means) / deviations
    known = ~np.isnan(Z)
    indptr = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    learner = ps.Learner(ps.AutoFTRL(scale="feature"), "squared", n_features=3)
    learner.learn(ps.RowBlock(indptr, np.nonzero(known)[1].astype(np.int32), Z[known], frame["label"].to_numpy()))
    coef, intercept = learner.weights()
    np.testing.assert_allclose(model.coef_[256:], coef / deviations, rtol=1e-6)
    assert model.intercept_ == pytest.approx(intercept - coef / deviations @ means, rel=1e-6)
    np.testing.assert_allclose(model.predict(frame), np.where(known, Z, 0.0) @ coef + intercept, rtol=1e-6, atol=1e-6)
    assert [names for _, names in sorted(model.named().items())] == [["far"], ["late"], ["gaps"]]


def test_lanes_share_statistics_of_the_first_rows(train: Any, files: list[str]) -> None:
    model = train(files, *OPTIONS, "--holdout-file", files[2])
    test = rows(2)
    weight, mean, squares = model.names["statistics"]
    means, deviations = fixed(rows(0).drop(columns="label").to_numpy())
    np.testing.assert_allclose(mean, means)
    np.testing.assert_allclose(np.sqrt(squares / weight), deviations)
    assert r2_score(test["label"], model.predict(test)) > 0.95
    assert model.summary["held_out_loss"] == pytest.approx(
        0.5 * np.mean((model.predict(test) - test["label"]) ** 2), rel=1e-6
    )
    raw = train(files, *OPTIONS, "--no-standardize")
    assert "statistics" not in raw.names
    assert r2_score(test["label"], raw.predict(test)) < r2_score(test["label"], model.predict(test))


def test_a_cluster_continues_with_the_statistics_of_a_model(train: Any, files: list[str], tmp_path: Path) -> None:
    first = tmp_path / "first.psm"
    assert cli.main(["train", files[0], "-o", str(first), *OPTIONS]) == 0
    model = train(files[1:], "--initial", str(first), "--quiet")
    np.testing.assert_array_equal(model.names["statistics"], ps.load(first).names["statistics"])
    assert r2_score(rows(2)["label"], model.predict(rows(2))) > 0.95


def test_estimators_leave_numbers_as_they_are(files: list[str]) -> None:
    assert make_partitions(files).n_features == 1 << 22
    with pytest.raises(ValueError, match="lanes would have different means"):
        make_partitions(files, features=ps.FeatureSpec(standardize=True))
