"""Numbers of named columns are standardized by default: frames, streams of files, and all that depends on it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from tests.examples import examples

import proxstream as ps
from proxstream import cli
from proxstream.models.file import load_model

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(7)
N = 240
U, V, W = 1e8 + RNG.normal(size=N), RNG.normal(size=N).round(3), np.where(RNG.random(N) < 0.4, 0.0, 50.0)
CITY = RNG.choice(["a", "b", "c"], N)
Y = ((U - 1e8) - 2.0 * V + 0.02 * W + (CITY == "a") + 0.1 * RNG.normal(size=N)).round(3)
ROWS = pd.DataFrame({"u": U, "v": V, "w": W, "city": CITY})
FRAME = ROWS.assign(label=Y)
KIND = np.array(["low", "middle", "high"])[np.digitize(Y, [-1.0, 1.0])]
NAMED = ps.FeatureSpec(bits=None)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    return path


def trained(path: Path, *options: str) -> Any:
    model = path.with_name("trained.psm")
    assert cli.main(["train", str(path), "-o", str(model), "--loss", "squared", "-q", *options]) == 0
    return load_model(str(model))


def same(one: Any, two: Any) -> None:
    """Check that two estimators have the same weights and statistics, bit for bit."""
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    np.testing.assert_array_equal(statistics(one), statistics(two))


def statistics(model: Any) -> Any:
    return model.featurizer_.standardizer.state


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("options", [(), ("--no-standardize",)])
def test_frames_and_files_give_the_model_of_the_command_line(
    passes: int, options: tuple[str, ...], table: Path
) -> None:
    standardize = False if options else None
    expected = trained(table, "--bits", "0", "--dtype", "float64", "--passes", str(passes), *options)
    spec = ps.FeatureSpec(bits=None, standardize=standardize)
    frame = ps.StreamRegressor(features=spec, passes=passes).fit(FRAME)
    stream = ps.open_stream(table, features=spec, dtype=np.float64)
    for model in (frame, ps.StreamRegressor(passes=passes).fit_stream(stream)):
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
        np.testing.assert_allclose(model.predict(ROWS), expected.predict(ROWS), rtol=1e-12)
    assert (r2_score(Y, frame.predict(ROWS)) > 0.9) == (not options)


def test_a_stream_without_more_is_that_of_the_command_line(table: Path) -> None:
    model, expected = ps.StreamRegressor().fit_stream(ps.open_stream(table)), trained(table)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.predict(ROWS), expected.predict(ROWS))
    np.testing.assert_array_equal(model.predict(ps.open_stream(table)), expected.predict(ROWS))
    assert model.coef_.dtype == np.float32
    assert model.score(ps.open_stream(table)) > 0.9
    of_frame = ps.StreamRegressor().fit_stream(ps.open_stream(FRAME))
    np.testing.assert_array_equal(of_frame.coef_, model.coef_)


def test_a_frame_of_numbers_without_features_is_a_matrix() -> None:
    numbers = ROWS[["v", "w"]]
    for model in (ps.StreamRegressor(), ps.CertifiedRegressor()):
        frame, matrix = clone(model).fit(numbers, Y), clone(model).fit(numbers.to_numpy(), Y)
        np.testing.assert_array_equal(frame.coef_, matrix.coef_)
        np.testing.assert_array_equal(frame.intercept_, matrix.intercept_)


def odd_rows(n: int, seed: int) -> pd.DataFrame:
    """Return columns of all the kinds that go wrong: constants, gaps, identifiers, numbers far from zero."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "constant": np.full(n, 3.0),
            "zero": np.zeros(n),
            "far": 1e8 + rng.normal(size=n),
            "gaps": np.where(rng.random(n) < 0.5, np.nan, 7.0 + rng.normal(size=n)),
            "empty": np.full(n, np.nan),
            "id": 10_000 + np.arange(n),
            "late": np.where(np.arange(n) < n // 2, 5.0, rng.normal(size=n)),
            "kind": rng.choice(["x", "y"], n),
        }
    )
    return frame.assign(label=rng.normal(size=n) + (frame["far"] - 1e8))


@examples(80)
@given(
    cuts=st.lists(st.integers(1, 39), max_size=4),
    seed=st.integers(0, 3),
    bits=st.sampled_from([None, 6]),
    penalty=st.sampled_from([None, "l1(0.01)"]),
)
def test_the_stream_law(cuts: list[int], seed: int, bits: int | None, penalty: str | None) -> None:
    frame = odd_rows(40, seed)
    weight = np.where(np.arange(40) % 7 == 3, 0.0, 1.0 + np.arange(40) % 2)
    model = ps.StreamRegressor(features=ps.FeatureSpec(bits=bits), penalty=penalty)
    whole, parts = clone(model).fit(frame, sample_weight=weight), clone(model)
    ends = [0, *sorted(set(cuts)), 40]
    for start, stop in pairwise(ends):
        parts.partial_fit(frame[start:stop], sample_weight=weight[start:stop])
    same(whole, parts)
    assert np.isfinite(whole.predict(frame)).all()


@pytest.mark.parametrize("n", [1, 2, 40])
def test_odd_columns_have_their_statistics(n: int) -> None:
    frame, weight = odd_rows(n, 1), np.arange(n) % 3 + 1.0
    model = ps.StreamRegressor(features=NAMED).fit(frame, sample_weight=weight)
    names = ["constant", "zero", "far", "gaps", "empty", "id", "late"]
    total, means, squares = statistics(model)
    for j, name in enumerate(names):
        x, known = frame[name].to_numpy(float), frame[name].notna().to_numpy()
        assert total[j] == weight[known].sum()
        if known.any():
            mean = np.average(x[known], weights=weight[known])
            variance = np.average((x[known] - mean) ** 2, weights=weight[known])
            assert means[j] == pytest.approx(mean, rel=1e-12)
            assert squares[j] == pytest.approx(variance * weight[known].sum(), rel=1e-6, abs=1e-12)
    zero = [names.index(name) for name in ("constant", "zero", "empty")]
    assert (model.coef_[zero] == 0.0).all()
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict(frame)).all()


def test_rows_of_weight_zero_are_as_if_left_out() -> None:
    weight = (np.arange(N) % 4 > 0).astype(float)
    model = ps.StreamClassifier(features=NAMED)
    with_zeros = clone(model).fit(ROWS, KIND, sample_weight=weight)
    without = clone(model).fit(ROWS[weight > 0.0], KIND[weight > 0.0])
    np.testing.assert_array_equal(statistics(with_zeros), statistics(without))
    np.testing.assert_array_equal(with_zeros.predict_proba(ROWS), without.predict_proba(ROWS))


def test_class_weights_are_weights_of_the_statistics() -> None:
    model = ps.StreamClassifier(features=NAMED, class_weight={"low": 2.0, "middle": 1.0, "high": 0.5}).fit(ROWS, KIND)
    weight = np.select([KIND == "low", KIND == "middle"], [2.0, 1.0], 0.5)
    np.testing.assert_allclose(statistics(model)[1], np.average(ROWS[["u", "v", "w"]], axis=0, weights=weight))


def test_a_refused_batch_changes_no_statistics() -> None:
    model = ps.StreamClassifier(features=NAMED).partial_fit(ROWS[:100], KIND[:100])
    before = pickle.dumps(model)
    for bad in (
        lambda: model.partial_fit(ROWS[100:], np.full(140, "other")),
        lambda: model.partial_fit(ROWS[100:], KIND[100:99]),
        lambda: model.fit_stream([(ROWS[100:], np.full(140, "other"))], reset=False),
        lambda: model.partial_fit(np.ones((3, 6)), KIND[:3]),
    ):
        with pytest.raises(ValueError, match=r"other|labels|as a matrix of shape"):
            bad()
    assert pickle.dumps(model) == before


def test_two_models_of_one_stream_do_not_share_statistics(table: Path) -> None:
    stream = ps.open_stream(table, features=NAMED, dtype=np.float64)
    one = ps.StreamRegressor().fit_stream(stream)
    state = statistics(one).copy()
    predicted = one.predict(stream)
    two = ps.StreamRegressor().fit_stream(stream)
    same(one, two)
    np.testing.assert_array_equal(statistics(one), state)
    again = ps.StreamRegressor().fit_stream(ps.open_stream(table, features=one.featurizer_))
    np.testing.assert_array_equal(statistics(again), state)
    one.fit_stream(stream, reset=False)
    assert (statistics(one)[0] == 2.0 * state[0]).all()
    np.testing.assert_array_equal(two.predict(ROWS), predicted)


@pytest.mark.parametrize("bits", [None, 8])
def test_files_continue_a_model(bits: int | None, table: Path) -> None:
    spec = ps.FeatureSpec(bits=bits)
    files = [table.with_name("a.csv"), table.with_name("b.csv")]
    FRAME[:70].to_csv(files[0], index=False)
    FRAME[70:][["w", "label", "city", "v", "u"]].to_csv(files[1], index=False)
    model = ps.StreamRegressor().fit_stream(ps.open_stream(files[0], features=spec))
    same(
        model.fit_stream(ps.open_stream(files[1]), reset=False),
        ps.StreamRegressor().fit_stream(ps.open_stream(table, features=spec)),
    )


@pytest.mark.compiled
def test_row_blocks_are_in_the_units_of_the_columns(table: Path) -> None:
    model = ps.StreamRegressor().fit_stream(ps.open_stream(table, features=NAMED, dtype=np.float64))
    with ps.open_stream(table, features=model.featurizer_, dtype=np.float64) as stream:
        rows = next(iter(stream))
    np.testing.assert_array_equal(model.predict(rows), model.predict(ROWS))
    whole = ps.StreamRegressor(features=NAMED).fit(FRAME).partial_fit(FRAME)
    same(model.partial_fit(rows), whole)


def test_predictions_do_not_depend_on_the_order_of_columns() -> None:
    model = ps.StreamRegressor(features=NAMED).fit(FRAME)
    np.testing.assert_array_equal(model.predict(ROWS[["city", "w", "u", "v"]]), model.predict(ROWS))
    np.testing.assert_array_equal(model.predict(FRAME[["w", "label", "u", "city", "v"]]), model.predict(ROWS))


def test_coefficients_are_in_the_units_of_the_columns() -> None:
    numbers = ROWS.drop(columns="city")
    for model, y in ((ps.StreamRegressor(features=NAMED), Y), (ps.StreamClassifier(features=NAMED), KIND)):
        fitted = model.fit(numbers, y)
        scores = fitted.predict(numbers) if y is Y else fitted.decision_function(numbers)
        expected = numbers.to_numpy() @ np.asarray(fitted.coef_).T + fitted.intercept_
        np.testing.assert_allclose(scores, expected, atol=1e-6)
        raw = fitted.predict(numbers.to_numpy()) if y is Y else fitted.decision_function(numbers.to_numpy())
        np.testing.assert_allclose(scores, raw, atol=1e-6)
    qid = np.arange(N) // 12
    ranker = ps.StreamRanker(features=NAMED).fit(numbers, Y, qid=qid)
    assert ranker.score(numbers, Y, qid=qid) > 0.9
    np.testing.assert_allclose(
        ranker.predict(numbers), numbers.to_numpy() @ ranker.coef_ + ranker.intercept_, atol=1e-6
    )


def stored(model: Any, path: Path) -> Any:
    ps.save(model, path)
    return ps.load(path)


@pytest.mark.parametrize("save", [lambda model, path: pickle.loads(pickle.dumps(model)), stored])
@pytest.mark.parametrize("bits", [None, 7])
def test_a_model_continues_from_its_file(save: Callable[[Any, Any], Any], bits: int | None, tmp_path: Path) -> None:
    model = ps.StreamClassifier(features=ps.FeatureSpec(bits=bits, label="kind"))
    frame = ROWS.assign(kind=KIND)
    half = save(clone(model).partial_fit(frame[:90], classes=np.unique(KIND)), tmp_path / "model.psm")
    np.testing.assert_array_equal(half.predict(ROWS), save(half, tmp_path / "again.psm").predict(ROWS))
    same(half.partial_fit(frame[90:]), clone(model).partial_fit(frame, classes=np.unique(KIND)))


def test_commands_take_the_file_of_an_estimator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ps.StreamClassifier(features=ps.FeatureSpec(bits=None, label="kind"), penalty="l2(0.01)")
    frame = ROWS.assign(kind=KIND)
    model.fit(frame)
    path, table = str(tmp_path / "model.psm"), str(tmp_path / "rows.csv")
    ps.save(model, path)
    frame.to_csv(table, index=False)
    scores = model.decision_function(ROWS)
    loaded = load_model(path)
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    np.testing.assert_allclose(loaded.predict(ROWS, "scores"), scores, rtol=1e-12)
    np.testing.assert_array_equal(loaded.predict(table), model.predict(ROWS))
    assert cli.main(["evaluate", path, table, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == pytest.approx(model.score(ROWS, KIND))
    assert cli.main(["convert", path, str(tmp_path / "model.json")]) == 0
    exported = json.loads((tmp_path / "model.json").read_text())
    assert [entry[2] for entry in exported["weights"]] == ["u", "v", "w", *dict.fromkeys("city=" + ROWS["city"])]
    dense = np.column_stack([ROWS[["u", "v", "w"]], *(one == CITY for one in dict.fromkeys(CITY))])
    coef = np.array([entry[1] for entry in exported["weights"]])
    np.testing.assert_allclose(dense @ coef + exported["intercept"], scores, atol=1e-6)
    np.testing.assert_allclose([mean for _, mean in exported["means"]], ROWS[["u", "v", "w"]].mean(), rtol=1e-12)


def test_onnx_has_the_units_of_the_columns(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    numbers = ROWS[["v", "w"]]
    model = ps.StreamRegressor(features=NAMED).fit(numbers, Y)
    ps.save(model, tmp_path / "model.psm")
    assert cli.main(["convert", str(tmp_path / "model.psm"), str(tmp_path / "model.onnx")]) == 0
    found = onnx.load(tmp_path / "model.onnx")
    node = next(node for node in found.graph.node if node.op_type == "LinearRegressor")
    kept = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    np.testing.assert_allclose(kept["coefficients"], model.coef_, rtol=1e-6)
    np.testing.assert_allclose(kept["intercepts"], model.intercept_, rtol=1e-6)


def test_a_certificate_is_about_what_was_learned(table: Path) -> None:
    model = ps.StreamRegressor(features=NAMED, penalty="l2(0.01)").fit(FRAME)
    weights, _ = model._learner.weights()
    primal = 0.5 * np.mean((model.predict(ROWS) - Y) ** 2) + 0.005 * weights @ weights
    stream = ps.open_stream(table, features=ps.FeatureSpec(bits=None))
    loaded = trained(table, "--bits", "0", "--dtype", "float64", "--l2", "0.01")
    for proof in (
        ps.certificate(model, FRAME),
        ps.certificate(model, ROWS, Y),
        ps.certificate(model, stream),
        ps.certificate(loaded, FRAME),
        ps.certificate(loaded, ROWS, Y),
        ps.certificate(loaded, ps.open_stream(table, features=model.featurizer_)),
    ):
        assert proof.primal == pytest.approx(primal, rel=1e-9)
        assert 0.0 <= proof.gap < primal
    for either in (model, loaded):
        with pytest.raises(TypeError, match="standardizes its columns"):
            ps.certificate(either, np.ones((3, 6)), Y[:3])


def test_text_classes_of_a_loaded_model_have_a_certificate(table: Path) -> None:
    frame = ROWS.assign(label=np.where(Y > 0.0, "up", "down"))
    frame.to_csv(table, index=False)
    path = table.with_name("model.psm")
    assert cli.main(["train", str(table), "-o", str(path), "--l2", "0.01", "-q"]) == 0
    loaded = ps.load(path)
    one, two = ps.certificate(loaded, frame), ps.certificate(loaded, ROWS, frame["label"])
    assert one.primal == pytest.approx(two.primal, rel=1e-9)


def test_a_path_has_the_units_of_the_columns() -> None:
    strengths = [0.5, 0.05, 0.005]
    path = ps.StreamPathRegressor(strengths=strengths, features=NAMED).fit(FRAME)
    for k, strength in enumerate(strengths):
        alone = ps.StreamRegressor(penalty=ps.L1(strength), features=NAMED).fit(FRAME)
        chosen = path.choose(strength=path.strengths_[k])
        np.testing.assert_allclose(chosen.predict(ROWS), alone.predict(ROWS), atol=1e-6)
        np.testing.assert_allclose(path.coef_[k], alone.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(path.intercept_[k], alone.intercept_, rtol=1e-6)
    state = statistics(path).copy()
    path.validate(ROWS, Y)
    path.choose("best").partial_fit(FRAME)
    np.testing.assert_array_equal(statistics(path), state)


def test_a_path_finds_its_strengths_on_standardized_rows() -> None:
    y, model = Y > 0.0, ps.StreamPathClassifier(features=NAMED)
    path = clone(model).fit(ROWS, y)
    parts = clone(model).partial_fit(ROWS[:50], y[:50]).partial_fit(ROWS[50:], y[50:])
    np.testing.assert_array_equal(path.strengths_, parts.strengths_)
    np.testing.assert_array_equal(path.coef_, parts.coef_)
    assert path.strengths_[0] < 10.0  # those of the raw numbers are near 1e8
    assert path.score(ROWS, y) > 0.85


def test_a_grid_search_tries_both() -> None:
    model = ps.StreamRegressor(features=NAMED)
    search = GridSearchCV(model, {"features__standardize": [False, None], "penalty": [None, "l1(0.001)"]}, cv=3)
    search.fit(ROWS, Y)
    assert search.best_params_["features__standardize"] is None
    assert search.best_score_ > 0.9
    assert clone(search.best_estimator_).features == search.best_estimator_.features


def test_a_spec_that_has_no_room_for_numbers_learns_them_as_they_are() -> None:
    model = ps.StreamRegressor(features=ps.FeatureSpec(bits=31))
    assert not model.features.standardizing().standardize
    with pytest.raises(TypeError, match="standardize must be True, False or None, got 1"):
        ps.FeatureSpec(standardize=1)  # type: ignore[arg-type]


def test_text_columns_without_features_are_refused_with_what_to_do() -> None:
    for frame in (ROWS, ROWS.to_numpy(dtype=object)):
        with pytest.raises(ValueError, match=r"could not convert string to float: '[abc]'") as error:
            ps.StreamRegressor().fit(frame, Y)
        assert ("needs features=FeatureSpec" in str(error.value)) == (frame is ROWS)


@pytest.mark.compiled
def test_a_path_of_a_file_is_that_of_its_frame(table: Path) -> None:
    model = ps.StreamPathRegressor(strengths=[0.1, 0.001], features=NAMED, passes=2)
    stream = ps.open_stream(table, features=NAMED, dtype=np.float64)
    frame, streamed = clone(model).fit(FRAME), clone(model).fit_stream(stream)
    same(frame, streamed)
    again = pickle.loads(pickle.dumps(streamed))
    np.testing.assert_array_equal(again.predict(ROWS), stored(frame, table.with_name("path.psm")).predict(ROWS))
    np.testing.assert_array_equal(again.predict(stream), frame.predict(ROWS))
