"""A model that the command line wrote, as an estimator; exports of the features in use; custom losses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.models.exports import to_json, to_onnx
from proxstream.models.file import load_model

TABLE = "click,site,price\n" + "".join(f"{i % 2},s{i % 5 if i % 2 else i % 3},{i % 7}\n" for i in range(100))


@pytest.fixture
def hashed(run: Any) -> Any:
    """Train on a table with hashed features."""
    Path("clicks.csv").write_text(TABLE)
    assert run("train", "clicks.csv", "-o", "m.psm", "-q", "--label", "click", "-b", "20", "--names").code == 0
    return ps.load("m.psm")


def test_a_loaded_model_is_an_estimator(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm", "-q", "--l1", "0.01").code == 0
    model = ps.load("m.psm")
    (rows,) = ps.open_stream("clicks.svm")
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, 51))
    scores = (X @ model.coef_.T.astype(float)).ravel() + model.intercept_
    assert model.coef_.shape == (1, 51)
    assert model.intercept_.shape == (1,)
    assert model.classes_.tolist() == [-1.0, 1.0]
    for each in (rows, X, X.toarray(), "clicks.svm", ps.open_stream("clicks.svm")):
        np.testing.assert_allclose(model.decision_function(each), scores, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(model.predict(each), np.where(scores > 0, 1.0, -1.0))
    p = model.predict_proba(X)
    assert p.shape == (100, 2)
    np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-scores)), rtol=1e-5)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.predict(X[:0]).shape == (0,)


def test_a_loaded_model_of_numbers_is_a_regressor(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm", "-q", "--loss", "squared").code == 0
    model = ps.load("m.psm")
    assert model.coef_.shape == (51,)
    assert np.ndim(model.intercept_) == 0
    np.testing.assert_array_equal(model.predict("clicks.svm"), model.decision_function("clicks.svm"))
    assert not hasattr(model, "classes_")
    with pytest.raises(AttributeError, match="loss squared does not give probabilities"):
        model.predict_proba("clicks.svm")


def test_a_loaded_model_reads_tables_as_in_training(hashed: Any) -> None:
    pd = pytest.importorskip("pandas")
    by_file = hashed.predict_proba("clicks.csv")
    np.testing.assert_array_equal(hashed.predict_proba(pd.read_csv("clicks.csv")), by_file)
    assert by_file.shape == (100, 2)


def test_exports_hold_the_features_in_use(hashed: Any) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    used = np.flatnonzero(hashed.coef_[0])
    assert 0 < len(used) < 20
    text = to_onnx(hashed)
    assert len(text) < 5000
    assert len(b"".join(to_json(hashed))) < 5000
    properties = {entry.key: json.loads(entry.value) for entry in onnx.load_from_string(text).metadata_props}
    assert properties["feature_indices"] == used.tolist()
    assert "site=s0" in properties["feature_names"] or any("s0" in name for name in properties["feature_names"])
    (rows,) = hashed.open("clicks.csv")
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, hashed.coef_.shape[1]))[:, used].toarray()
    label, scores = ReferenceEvaluator(text).run(None, {"X": X.astype(np.float32)})
    np.testing.assert_array_equal(label, hashed.predict("clicks.csv"))
    np.testing.assert_allclose(scores, hashed.predict_proba("clicks.csv"), rtol=1e-5, atol=1e-6)


def half_square(p: float, y: float) -> float:
    return 0.5 * (p - y) * (p - y)


def difference(p: float, y: float) -> float:
    return p - y


def test_a_custom_loss_is_saved_with_weights_alone(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = ps.StreamRegressor(loss=ps.losses.custom(half_square, difference)).fit(X, X[:, 0])
    path = tmp_path / "model.psm"
    with pytest.raises(TypeError, match="weights_only=True stores the weights alone"):
        ps.save(model, path)
    ps.save(model, path, weights_only=True)
    same = ps.load(path)
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    np.testing.assert_array_equal(load_model(path).predict(X), model.predict(X))
    with pytest.raises(ValueError, match="weights only"):
        same.partial_fit(X, X[:, 0])
