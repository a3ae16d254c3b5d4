"""Streams, row blocks and data frames with text columns as what estimators take."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import GridSearchCV

import proxstream as ps
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.io.features.featurizer import Featurizer
from proxstream.io.features.spec import FeatureSpec

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 6)) * (RNG.random((200, 6)) < 0.6)
SCORE = np.round(2.0 * X[:, 0] - X[:, 1] + 0.1 * RNG.normal(size=200), 3)
TWO = (SCORE > 0).astype(float)
FTRL = ps.FTRLProximal(alpha=0.5)

SITES, DEVICES = np.array(["news", "shop", "mail"]), np.array(["phone", "desk"])
SITE, DEVICE = SITES[RNG.integers(0, 3, 200)], DEVICES[RNG.integers(0, 2, 200)]
CLICK = np.where((SITE == "shop") ^ (RNG.random(200) < 0.1), "yes", "no")
FRAME = pd.DataFrame({"site": SITE, "device": DEVICE, "age": np.abs(X[:, 0]), "click": CLICK})
SPEC = FeatureSpec(label="click", bits=12, names=True)


def svmlight(y: Any) -> bytes:
    lines = []
    for row, label in zip(X, y, strict=True):
        cells = " ".join(f"{j}:{float(value)!r}" for j, value in enumerate(row) if value)
        lines.append(f"{float(label)!r} {cells}")
    return "\n".join(lines).encode() + b"\n"


def opened(y: Any) -> Any:
    return ps.open_stream(io.BytesIO(svmlight(y)), "svmlight", dtype=np.float64, chunk_bytes=1000)


# ---- streams


@pytest.mark.parametrize("model", [ps.StreamClassifier(FTRL), ps.CertifiedClassifier(), ps.SDCAClassifier(tol=0.1)])
def test_classifiers_predict_and_score_streams(model: Any) -> None:
    model.fit(X, TWO)
    np.testing.assert_array_equal(model.predict(opened(TWO)), model.predict(X))
    np.testing.assert_allclose(model.predict_proba(opened(TWO)), model.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(opened(TWO)), model.decision_function(X), rtol=1e-9, atol=1e-12)
    assert model.score(opened(TWO)) == pytest.approx(model.score(X, TWO))
    assert model.score(as_block(X, TWO)) == pytest.approx(model.score(X, TWO))
    c = RNG.uniform(0.5, 2.0, 200)
    assert model.score(as_block(X, TWO, c)) == pytest.approx(model.score(X, TWO, sample_weight=c))


@pytest.mark.parametrize("model", [ps.StreamRegressor(FTRL), ps.CertifiedRegressor()])
def test_regressors_predict_and_score_streams(model: Any) -> None:
    model.fit(X, SCORE)
    np.testing.assert_allclose(model.predict(opened(SCORE)), model.predict(X), rtol=1e-9, atol=1e-12)
    assert model.score(opened(SCORE)) == pytest.approx(model.score(X, SCORE))


def test_a_ranker_scores_blocks() -> None:
    model = ps.StreamRanker(FTRL).fit(X, SCORE)
    assert model.score(as_block(X, SCORE)) == pytest.approx(model.score(X, SCORE))


def test_scores_need_labels() -> None:
    model = ps.StreamRegressor(FTRL).fit(X, SCORE)
    with pytest.raises(ValueError, match="score needs y, since the rows have no labels"):
        model.score(as_block(X))
    with pytest.raises(ValueError, match="score needs y, or a stream or RowBlock with labels"):
        model.score(X)


def test_an_empty_stream_has_no_predictions() -> None:
    model = ps.StreamRegressor(FTRL).fit(X, SCORE)
    assert model.predict(ps.open_stream(io.BytesIO(b""), "svmlight")).shape == (0,)


# ---- row blocks


def test_partial_fit_takes_blocks_with_their_labels() -> None:
    c = RNG.uniform(0.5, 2.0, 200)
    matrix = ps.StreamClassifier(FTRL).partial_fit(X, TWO, sample_weight=c)
    block = ps.StreamClassifier(FTRL)
    rows = as_block(X, TWO, c)
    for start in range(0, 200, 50):
        block.partial_fit(rows.slice(start, start + 50))
    np.testing.assert_array_equal(block.coef_, matrix.coef_)
    names = np.where(TWO > 0, "yes", "no")
    other = ps.StreamClassifier(FTRL).partial_fit(as_block(X), names, sample_weight=c)
    np.testing.assert_array_equal(other.coef_, matrix.coef_)
    assert other.classes_.tolist() == ["no", "yes"]


def test_fit_takes_a_block_in_any_number_of_passes() -> None:
    matrix = ps.StreamRegressor(FTRL, passes=3, shuffle=True, random_state=0).fit(X, SCORE)
    block = ps.StreamRegressor(FTRL, passes=3, shuffle=True, random_state=0).fit(as_block(X, SCORE))
    np.testing.assert_array_equal(block.coef_, matrix.coef_)
    qid = np.repeat(np.arange(20), 10)
    ranker = ps.StreamRanker(FTRL).fit(X, SCORE, qid=qid)
    np.testing.assert_array_equal(ps.StreamRanker(FTRL).partial_fit(as_block(X, SCORE), qid=qid).coef_, ranker.coef_)


def test_blocks_may_bring_new_features_and_bad_ones_are_refused() -> None:
    model = ps.StreamRegressor(FTRL).partial_fit(as_block(X[:, :3], SCORE))
    assert model.partial_fit(as_block(X, SCORE)).n_features_in_ == 6
    before = model.coef_
    broken = RowBlock(np.array([0, 5]), np.array([0]), np.array([1.0]), np.array([1.0]))
    with pytest.raises(ValueError, match="as many indices as values"):
        model.partial_fit(broken)
    np.testing.assert_array_equal(model.coef_, before)


# ---- data frames with text columns


@pytest.mark.parametrize(
    "make", [pd.DataFrame, lambda frame: pl.DataFrame(frame.to_dict("list"))], ids=["pandas", "polars"]
)
@pytest.mark.parametrize("bits", [12, None])
def test_frames_with_text_columns(make: Any, bits: int | None) -> None:
    spec = FeatureSpec(label="click", bits=bits, names=True)
    frame = make(FRAME)
    whole = ps.StreamClassifier(FTRL, features=spec).fit(frame)
    pieces = ps.StreamClassifier(FTRL, features=spec)
    for start in range(0, 200, 40):
        pieces.partial_fit(make(FRAME[start : start + 40]))
    np.testing.assert_array_equal(whole.coef_[:, : pieces.n_features_in_], pieces.coef_)
    without = make(FRAME.drop(columns="click"))
    np.testing.assert_array_equal(pieces.predict(frame), pieces.predict(without))
    assert pieces.score(without, CLICK) > 0.8
    assert pieces.classes_.tolist() == ["no", "yes"]
    names = {feature.name for feature in pieces.top_features(10)}
    assert "site=shop" in names
    assert names <= {f"site={site}" for site in SITES} | {f"device={device}" for device in DEVICES} | {"age"}
    given = ps.StreamClassifier(FTRL, features=spec).fit(without, CLICK)
    np.testing.assert_array_equal(given.coef_, whole.coef_)
    streamed = ps.StreamClassifier(FTRL, features=spec).fit_stream([(without, CLICK)])
    np.testing.assert_array_equal(streamed.predict_proba(frame), whole.predict_proba(frame))


def test_new_categories_do_not_change_what_is_known() -> None:
    model = ps.StreamClassifier(FTRL, features=FeatureSpec(label="click", bits=None)).fit(FRAME)
    strange = pd.DataFrame({"site": ["shop", "blog"], "device": ["tablet", "phone"], "age": [0.0, 0.0]})
    known = model.predict_proba(strange)
    names = {feature.name: feature.weight for feature in model.top_features(10)}
    scores = [names["site=shop"], names.get("device=phone", 0.0)] + model.intercept_[0]
    np.testing.assert_allclose(known[:, 1], 1.0 / (1.0 + np.exp(-scores)))


@pytest.mark.parametrize("bits", [12, None])
def test_models_of_frames_are_copied_pickled_and_saved(bits: int | None, tmp_path: Path) -> None:
    model = ps.StreamClassifier(FTRL, features=FeatureSpec(label="click", bits=bits, names=True)).fit(FRAME)
    ps.save(model, tmp_path / "model.psm")
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), ps.load(tmp_path / "model.psm")):
        np.testing.assert_array_equal(twin.predict_proba(FRAME), model.predict_proba(FRAME))
        assert twin.top_features() == model.top_features()
        twin.partial_fit(FRAME)
    assert model.t_ == 200


def test_models_of_files_read_frames_and_files_alike(tmp_path: Path) -> None:
    FRAME.assign(click=(CLICK == "yes").astype(int)).to_csv(tmp_path / "clicks.csv", index=False)
    spec = FeatureSpec(label="click", bits=None)
    model = ps.StreamClassifier(FTRL).fit_stream(
        ps.open_stream(tmp_path / "clicks.csv", features=spec, dtype=np.float64), classes=[0, 1]
    )
    again = ps.open_stream(tmp_path / "clicks.csv", features=model.featurizer_, dtype=np.float64)
    assert model.score(again) > 0.8
    np.testing.assert_allclose(model.predict_proba(again), model.predict_proba(FRAME.drop(columns="click")))
    assert "site=shop" in [feature.name for feature in model.top_features()]
    stream = ps.open_stream(tmp_path / "clicks.csv", features=spec, dtype=np.float64)
    np.testing.assert_array_equal(model.predict(stream), model.predict(again))
    other = ps.open_stream(tmp_path / "clicks.csv", features=Featurizer(spec, np.float64))
    with pytest.raises(ValueError, match=r"features=model.featurizer_"):
        model.predict(other)


def test_a_matrix_after_frames_starts_over() -> None:
    model = ps.StreamClassifier(FTRL).fit_stream([(X, TWO)])
    with pytest.raises(AttributeError, match="featurizer_ is for models that were fitted on named columns"):
        _ = model.featurizer_
    with pytest.raises(TypeError, match="features must be None or a FeatureSpec"):
        ps.StreamClassifier(features=["site"]).fit(FRAME, CLICK)


def test_grid_search_over_features() -> None:
    model = ps.StreamClassifier(FTRL, features=SPEC)
    found = GridSearchCV(model, {"features__bits": [1, 12]}, cv=3).fit(FRAME.drop(columns="click"), CLICK)
    assert found.best_params_ == {"features__bits": 12}
