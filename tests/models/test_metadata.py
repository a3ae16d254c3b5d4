"""Every field of a model file's settings made null, of another type or huge, with a right checksum."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.models.file import ModelFileError, load_model

from .metadata_mutants import TWO, X
from .model_mutants import Parts, put_together, taken_apart

ROOT = Path(__file__).parent.parent.parent


def tried(module: str, *args: str) -> dict[str, Any]:
    """Return what a program of mutants printed, run without compiling."""
    command = [sys.executable, "-m", module, *args]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


@pytest.mark.exhaustive
def test_a_sample_of_changed_settings_is_refused_or_works() -> None:
    counted = tried("tests.models.metadata_mutants", "389")
    assert counted.pop("failures") == []
    assert sum(counted.values()) > 50
    assert min(counted["refused"], counted["works"]) > 7


@pytest.mark.search
def test_all_changed_settings_are_refused_or_work() -> None:
    counted = tried("tests.models.metadata_mutants")
    assert counted.pop("failures") == []
    assert sum(counted.values()) > 20000


@pytest.mark.search
def test_many_mutants_are_refused_in_one_line_or_learn_on() -> None:
    assert sum(tried("tests.models.model_mutants", "9486").values()) == 9486


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a model is made of, and make the checksum right."""
    layout, data = taken_apart(path.read_bytes())
    header = json.loads(layout["__metadata__"]["header"])
    change(header["data"]["model"]["with"])
    layout["__metadata__"]["header"] = json.dumps(header)
    path.write_bytes(put_together(Parts(layout, data)))


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no learner": (lambda parts: parts.update(learner=None), "must have its learner or weights, got none"),
    "another width": (lambda parts: parts["fitted"].update(n_features_in_=7), "n_features_in_ must be 3"),
    "no classes": (lambda parts: parts["fitted"].pop("classes_"), "classes"),
    "classes of null": (lambda parts: parts["fitted"].update(classes_=None), "damaged"),
    "a history of null": (lambda parts: parts["fitted"].update(history=[[0, 0, None, 0, 0, 0]]), "must be"),
    "no parameters": (lambda parts: parts.update(params=None), "damaged"),
}


@pytest.mark.parametrize("kind", ["StreamClassifier", "CertifiedClassifier"])
@pytest.mark.parametrize("name", CHANGES)
def test_an_estimator_whose_parts_do_not_fit_is_refused_when_it_is_loaded(kind: str, name: str, tmp_path: Path) -> None:
    path, (change, words) = tmp_path / "model.psm", CHANGES[name]
    made = ps.StreamClassifier(ps.RDA()) if kind == "StreamClassifier" else ps.CertifiedClassifier(penalty=ps.L2(0.1))
    ps.save(made.fit(X, TWO), path)
    changed(path, change)
    if name == "a history of null" and kind == "StreamClassifier":
        words = "has a learner"
    with pytest.raises(ModelFileError, match=words) as error:
        ps.load(path)
    assert str(error.value).startswith(f"{path}: is damaged: ")


def test_an_estimator_that_is_not_fitted_is_still_one(tmp_path: Path) -> None:
    path = tmp_path / "model.psm"
    for model in (ps.StreamRegressor(ps.RDA(gamma=2.0)), ps.SDCARegressor(tol=0.5)):
        ps.save(model, path)
        assert repr(ps.load(path)) == repr(model)
        with pytest.raises(ModelFileError, match="has not been fitted"):
            load_model(path)


def test_names_of_columns_are_as_many_as_weights(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "model.psm"
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    ps.save(ps.StreamClassifier().fit(frame, TWO), path)
    assert ps.load(path).feature_names_in_.tolist() == ["a", "b", "c"]
    changed(path, lambda parts: parts["fitted"].update(feature_names_in_=np.arange(3).tolist()))
    with pytest.raises(ModelFileError, match="feature_names_in_ must be 3 names"):
        ps.load(path)
