"""Model files: exact round trips, equal bytes, and nothing but one line from a file that is damaged or means harm."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import proxstream as ps
from proxstream.core import losses
from proxstream.data.rowblock import as_block
from proxstream.learner.learner import Learner
from proxstream.models import container
from proxstream.models.file import KINDS, ModelFileError, load, pack, read, save, write

from ..examples import examples
from . import model_cases as modelfile_cases
from .model_cases import rows, same

# -- round trips -----------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.exhaustive), 11])
def test_algorithms_penalties_and_kinds_of_losses_learn_on_from_a_file(every: int) -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", modelfile_cases.__file__, str(every)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["failures"] == []
    assert report["played"] > 900 // every
    assert min(report["engines"].values()) >= max(10 // every, 1)
    missing = {"ScalarLayout", "MulticlassLayout", "AutoLayout", "TrialEngine", "DenseEngine"} - set(report["engines"])
    assert not missing if every == 1 else missing <= {"TrialEngine"}


def test_the_matrix_has_every_member_of_the_registries() -> None:
    assert {type(a) for a in modelfile_cases.ALGORITHMS} == set(ps.algorithms.ALGORITHMS.values())
    assert {type(ps.penalties.get(p)) for p in modelfile_cases.PENALTIES} >= set(ps.penalties.PENALTIES.values())


@pytest.mark.parametrize("name", losses.names())
def test_every_loss_comes_back_with_its_parameters(name: str, tmp_path: Path) -> None:
    loss = losses.get(name)
    parameters = {name: 1.25 if name == "power" else 0.25 for name in losses.parameters(loss)}
    n_outputs = 3 if loss.kind == "multiclass" else 1
    save(Learner(ps.RDA(), loss(**parameters), n_features=2, n_outputs=n_outputs), tmp_path / "a.psm")
    assert load(tmp_path / "a.psm").loss == loss(**parameters)


NUMBERS = st.sampled_from(
    [np.float64, np.float32, np.int64, np.int32, np.uint64, np.uint32, np.int16, np.uint16, np.int8, np.uint8, np.bool_]
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=40)


@examples(60)
@given(
    arrays=st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable()),
        NUMBERS.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES, fill=st.just(0) if dtype != np.bool_ else None)),
        max_size=4,
    ),
    header=st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    ),
)
def test_what_is_written_is_read_back_and_any_safetensors_reader_opens_it(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Any], header: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "hypothesis.psm"
    write(path, header, arrays)
    found, back = read(path)
    assert found == header
    assert same(back, arrays)
    opened = safetensors.numpy.load_file(path)
    assert sum(array.nbytes for array in opened.values()) <= sum(array.nbytes for array in arrays.values())


def test_mostly_zeros_are_stored_sparse_and_come_back_bit_for_bit(tmp_path: Path) -> None:
    state = np.zeros((1 << 18, 2), np.float32)
    state[[3, 70_000]] = [[1.5, -0.0], [np.nan, 0.0]]
    state[70_001, 1] = -0.0
    write(tmp_path / "a.psm", {}, {"state": state})
    assert (tmp_path / "a.psm").stat().st_size < 1000
    assert same(read(tmp_path / "a.psm")[1], {"state": state})
    stored = safetensors.numpy.load_file(tmp_path / "a.psm")
    np.testing.assert_array_equal(stored["state:rows"], [3, 70_000, 70_001])


def test_what_a_small_file_unfolds_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, few, many = tmp_path / "a.psm", np.zeros(1 << 16), np.zeros(1 << 16)
    few[0], many[:1000] = 1.0, 1.0
    write(path, {}, {"few": few})
    assert path.stat().st_size < 1000
    monkeypatch.setattr(container, "UNFOLDED", 1 << 12)
    assert "larger than their stored bytes allow" in refused(path)
    for array, bound in ((few, 600_000), (many, 20_000)):  # many numbers account for more
        write(path, {}, {"array": array})
        assert bound // 2 < path.stat().st_size < bound
        assert same(read(path)[1], {"array": array})


# -- estimators ------------------------------------------------------------------------------------


def batch(kind: str, seed: int, n: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.7)
    score = X @ [1.0, -2.0, 0.0, 0.5, 0.0] + 0.3 * rng.normal(size=n)
    if kind == "regressor":
        return {"X": X, "y": score}
    if kind == "ranker":
        return {"X": X, "y": np.round(score), "qid": np.arange(n) // 7}
    names = np.array(["no", "perhaps", "yes"] if kind == "many" else ["no", "yes"])
    return {"X": X, "y": names[np.digitize(score, [-0.5, 0.5] if kind == "many" else [0.0])]}


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "classifier": lambda: ps.StreamClassifier(
        ps.FTRLProximal(0.5), penalty=ps.L1(0.01), class_weight={"no": 1.0, "yes": 2.0}
    ),
    "many": lambda: ps.StreamClassifier(ps.FTRLProximal(0.5), penalty=ps.L1(0.01)),
    "regressor": lambda: ps.StreamRegressor(loss="huber(0.5)"),
    "ranker": lambda: ps.StreamRanker(ps.FTRLProximal(0.5), pairs=2, random_state=3),
}


@pytest.mark.interpreted
@pytest.mark.default_cases(2)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_loaded_estimator_continues_training(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.psm"
    model = ESTIMATORS[kind]().partial_fit(**batch(kind, 0))
    save(model, path)
    other = load(path)
    assert type(other) is type(model)
    assert other.get_params() == model.get_params()
    for name in ("n_features_in_", "classes_"):
        np.testing.assert_array_equal(getattr(other, name, None), getattr(model, name, None))
    for each in (model, other):
        each.partial_fit(**batch(kind, 1))
    assert same(other._learner.state_dict(), model._learner.state_dict())
    X = batch(kind, 2)["X"]
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert other.progressive_loss_ == model.progressive_loss_


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_weights_alone_predict_the_same_and_learn_no_more(kind: str, tmp_path: Path) -> None:
    path, again = tmp_path / "a.psm", tmp_path / "b.psm"
    model = ESTIMATORS[kind]().partial_fit(**batch(kind, 0))
    save(model, path, weights_only=True)
    other = load(path)
    X = batch(kind, 2)["X"]
    assert other.predict(X).tobytes() == model.predict(X).tobytes()
    np.testing.assert_array_equal(other.coef_, model.coef_)
    assert (other.t_, other.progressive_loss_) == (model.t_, model.progressive_loss_)
    with pytest.raises(ValueError, match="saved with its weights only: it predicts and cannot learn"):
        other.partial_fit(**batch(kind, 1))
    save(other, again)
    assert again.read_bytes() == path.read_bytes()


def certified(kind: Any, penalty: Any, **params: Any) -> Callable[[], Any]:
    return lambda: kind(penalty=penalty, warm_start=True, random_state=0, **params)


BATCH: dict[str, tuple[str, Callable[[], Any]]] = {
    "classifier": ("classifier", certified(ps.CertifiedClassifier, ps.L2(0.1), solver="newton")),
    "softmax": ("many", certified(ps.CertifiedClassifier, ps.ElasticNet(0.01, 0.1))),
    "one against the rest": (
        "many",
        certified(ps.CertifiedClassifier, ps.L2(0.1), solver="newton", multi_class="one_vs_rest"),
    ),
    "regressor": ("regressor", certified(ps.CertifiedRegressor, ps.L2(0.1), solver="newton")),
    "sdca classifier": ("classifier", certified(ps.SDCAClassifier, ps.L2(0.1))),
    "sdca regressor": ("regressor", certified(ps.SDCARegressor, ps.ElasticNet(0.01, 0.1))),
}


@pytest.mark.parametrize("kind", BATCH)
def test_a_batch_estimator_comes_back_with_its_proof(kind: str, tmp_path: Path) -> None:
    data = batch(BATCH[kind][0], 0)
    model = BATCH[kind][1]().fit(**data)
    for name in ("a.psm", "b.psm"):
        save(BATCH[kind][1]().fit(**data), tmp_path / name)
    assert (tmp_path / "a.psm").read_bytes() == (tmp_path / "b.psm").read_bytes()
    other = load(tmp_path / "a.psm")
    assert other.get_params() == model.get_params()
    for name in ("coef_", "intercept_", "dual_coef_", "primal_", "dual_", "duality_gap_", "n_iter_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(model, name), err_msg=name)
    assert [record._replace(seconds=0.0) for record in other.history_] == [
        record._replace(seconds=0.0) for record in model.history_
    ]
    np.testing.assert_array_equal(other.predict(data["X"]), model.predict(data["X"]))
    proofs = [ps.certificate(each, data["X"], data["y"]) for each in (model, other)]
    assert proofs[0] == proofs[1]
    np.testing.assert_array_equal(other.fit(**data).coef_, model.fit(**data).coef_)  # from where they stood

    save(model.sparsify(), tmp_path / "a.psm", weights_only=True)
    small = load(tmp_path / "a.psm")
    assert small.dual_coef_.size == 0
    np.testing.assert_array_equal(small.coef_.toarray(), model.coef_.toarray())
    np.testing.assert_array_equal(small.predict(data["X"]), model.predict(data["X"]))
    assert ps.certificate(small, data["X"], data["y"]).gap >= 0.0


def test_an_estimator_that_has_not_learned_is_stored_as_such(tmp_path: Path) -> None:
    save(ps.StreamClassifier(loss="hinge"), tmp_path / "a.psm")
    assert str(load(tmp_path / "a.psm")) == "StreamClassifier(loss='hinge')"


def test_names_of_columns_and_numbers_as_classes_come_back(tmp_path: Path) -> None:
    import pandas as pd

    X = pd.DataFrame(batch("classifier", 0)["X"], columns=["a", "größe", "c", "d", ""])
    model = ps.StreamClassifier(ps.FTRLProximal(0.5)).fit(X, np.arange(60) % 2 == 0)
    save(model, tmp_path / "a.psm")
    other = load(tmp_path / "a.psm")
    assert other.feature_names_in_.tolist() == X.columns.tolist()
    assert other.feature_names_in_.dtype == model.feature_names_in_.dtype
    assert other.classes_.dtype == bool
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))


# -- equal models, equal bytes ---------------------------------------------------------------------


def trained(seed: int = 0) -> Learner:
    learner = Learner(ps.FTRLProximal(0.5), "logistic", ps.L1(0.01), n_features=6)
    learner.learn(rows(learner, seed)[0])
    return learner


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    for name in ("a.psm", "some-other-name.psm"):
        save(trained(), tmp_path / name)
    one = (tmp_path / "a.psm").read_bytes()
    assert one == (tmp_path / "some-other-name.psm").read_bytes()
    save(load(tmp_path / "a.psm"), tmp_path / "a.psm")
    assert (tmp_path / "a.psm").read_bytes() == one
    save(trained(1), tmp_path / "a.psm")
    assert (tmp_path / "a.psm").read_bytes() != one


def test_equal_models_of_two_processes_give_equal_files(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, proxstream as ps; model = ps.StreamClassifier(ps.FTRLProximal(0.5), "
        "penalty=ps.L1(0.01)); ps.save(model.fit(np.eye(6), np.arange(6) % 2), sys.argv[1])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, env=environment)
    model = ps.StreamClassifier(ps.FTRLProximal(0.5), penalty=ps.L1(0.01))
    ps.save(model.fit(np.eye(6), np.arange(6) % 2), tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


# -- files of version 1 ----------------------------------------------------------------------------

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


def test_a_model_of_version_1_predicts_and_continues_training() -> None:
    model, reported = load(GOLDEN / "model-1.psm"), EXPECTED["model"]
    probe = as_block(np.array(EXPECTED["rows to predict"]))
    np.testing.assert_allclose(model.scores(probe), reported["scores"], rtol=1e-6)
    rows = np.array(EXPECTED["rows to learn"], np.float32)
    model.learner.learn(as_block(rows, EXPECTED["their labels"]))
    np.testing.assert_allclose(model.scores(probe), reported["learned on"], rtol=1e-6)
    assert model.learner.algorithm == ps.FTRLProximal(alpha=0.5, penalty_weight="once")
    assert model.learner.penalty == ps.L1(0.5) + ps.L2(0.01)
    assert (model.learner.n_features, model.learner.dtype, model.classes) == (256, np.float32, (0.0, 1.0))
    assert model.named() == {0: ["site=a.com"], 1: ["site=b.org"], 4: ["age"]}
    assert [line["rows"] for line in model.history] == [1, 60]
    assert (model.summary["rows"], model.reading) == (60, {"zero_based": True})


@pytest.mark.parametrize("name", ["classifier", "regressor", "ball", "certified", "weights"])
def test_an_estimator_of_version_1_predicts(name: str) -> None:
    model, reported, X = load(GOLDEN / f"{name}-1.psm"), EXPECTED[name], np.array(EXPECTED["rows to predict"])
    scores = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    np.testing.assert_allclose(scores, reported["scores"], rtol=1e-6)
    labels = model.predict(X)
    if labels.dtype.kind == "f":
        np.testing.assert_allclose(labels, reported["labels"], rtol=1e-6)
    else:
        assert labels.tolist() == reported["labels"]


# -- what cannot be stored -------------------------------------------------------------------------


def value(p: float, y: float) -> float:
    return (p - y) ** 2


def slope(p: float, y: float) -> float:
    return 2.0 * (p - y)


UNSTORABLE = {
    "loss": (
        lambda: ps.StreamRegressor(loss=losses.custom(value, slope)),
        "params.loss .*: it is made of Python functions",
    ),
    "rate": (
        lambda: ps.StreamRegressor(ps.FTRL(rate=lambda t: 1.0 / t)),
        "params.algorithm.rate .*: it is made of Python functions",
    ),
    "random": (lambda: ps.StreamRegressor(random_state=np.random.RandomState(0)), "params.random_state .*RandomState"),
    "list": (lambda: [1, 2], "a model file can hold one of .*learner, .*, got list"),
    "module": (lambda: ps, "cannot be stored in a model file"),
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_what_cannot_be_stored_is_named_and_the_old_file_stays(name: str, tmp_path: Path) -> None:
    make, words = UNSTORABLE[name]
    (tmp_path / "a.psm").write_bytes(b"old")
    with pytest.raises(TypeError, match=words):
        save(make(), tmp_path / "a.psm")
    assert os.listdir(tmp_path) == ["a.psm"]
    assert (tmp_path / "a.psm").read_bytes() == b"old"


def test_every_kind_is_a_class_that_can_be_stored() -> None:
    for module, name in KINDS.values():
        kind = getattr(import_module(module), name)
        assert hasattr(kind, "__proxstream_save__")
        assert hasattr(kind, "__proxstream_load__")


def test_a_subclass_is_not_taken_for_its_parent() -> None:
    class Mine(ps.StreamRegressor):  # type: ignore[misc]
        pass

    with pytest.raises(TypeError, match="Mine is a subclass"):
        pack(Mine())


# -- writing ---------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are set as Linux has them")
def test_a_disk_that_is_full_leaves_the_old_file(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys, numpy as np; from proxstream.models.file import write\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: write(sys.argv[1], {}, {'w': np.ones(100_000)})\n"
        "except OSError as error: print(type(error).__name__)\n"
    )
    path = tmp_path / "a.psm"
    save(trained(), path)
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "OSError\n"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.psm"]


def test_no_folder_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save(trained(), tmp_path / "none" / "a.psm")
    with pytest.raises(IsADirectoryError, match="cannot be written: it is a folder"):
        save(trained(), tmp_path)


def test_a_link_stays_a_link_and_a_mode_a_mode(tmp_path: Path) -> None:
    save(trained(), tmp_path / "a.psm")
    (tmp_path / "a.psm").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "a.psm")
    save(trained(1), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a.psm").stat().st_mode & 0o777 == 0o640
    assert same(load(tmp_path / "a.psm").state_dict(), trained(1).state_dict())


# -- files that are damaged, or mean harm ----------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 500
    return message.removeprefix(f"{path}: ")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(trained(), tmp_path / "model.psm")
    return tmp_path / "model.psm"


def test_files_that_are_not_models(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert "No such file" in refused(path)
    assert "not a regular file" in refused(tmp_path)
    for contents in (b"", b"abc", b"\0" * 8, b"\0" * 100, b"1 3:0.5 7:1\n" * 50, b"\xff" * 100, os.urandom(2000)):
        path.write_bytes(contents)
        assert "not a model file" in refused(path)
    safetensors.numpy.save_file({"w": np.ones(3)}, path, metadata={"format": "pt"})
    assert "do not name proxstream" in refused(path)


def test_every_truncation_is_an_error(model: Path) -> None:
    whole = model.read_bytes()
    for size in sorted({*range(0, len(whole), 97), *range(len(whole) - 9, len(whole))}):
        model.write_bytes(whole[:size])
        refused(model)
    model.write_bytes(whole + b"\0")
    assert "truncated" in refused(model)


def test_every_flipped_bit_is_told(model: Path) -> None:
    whole = model.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.permutation(len(whole))[:400]:
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        model.write_bytes(changed)
        refused(model)


def forged(path: Path, change: Callable[[dict[str, Any]], Any], data: bytes | None = None) -> None:
    """Change the layout of a file and make its checksum right again."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    layout = json.loads(raw[8 : 8 + length])
    layout["__metadata__"]["sha256"] = "0" * 64
    changed = change(layout)
    text = json.dumps(layout if changed is None else changed).encode()
    body = len(text).to_bytes(8, "little") + text + (raw[8 + length :] if data is None else data)
    path.write_bytes(body.replace(b"0" * 64, hashlib.sha256(body).hexdigest().encode(), 1))


def test_a_forged_file_without_a_change_is_read(model: Path) -> None:
    forged(model, lambda layout: None)
    assert same(load(model).state_dict(), trained().state_dict())


def entry(name: str, **changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda layout: layout[name].update(changes)


LAYOUTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "huge shape": entry("state.state", shape=[1 << 61, 2]),
    "beyond 64 bits": entry("state.state", shape=[1 << 70, 0]),
    "negative shape": entry("state.state", shape=[-6, -2]),
    "shape of floats": entry("state.state", shape=[6.0, 2.0]),
    "shape of truths": entry("state.losses", shape=[True, 2]),
    "shape of text": entry("state.state", shape="62"),
    "many dimensions": entry("state.losses", shape=[2] + [1] * 2000),
    "no shape": lambda layout: layout["state.state"].pop("shape"),
    "other dtype": entry("state.state", dtype="F16"),
    "dtype of other size": entry("state.state", dtype="F32"),
    "dtype of a list": entry("state.state", dtype=["F64"]),
    "overlap": entry("state.state", data_offsets=[0, 96]),
    "offsets backwards": entry("state.state", data_offsets=[96, 0]),
    "three offsets": entry("state.state", data_offsets=[0, 96, 96]),
    "offset beyond the end": entry("state.state", data_offsets=[10**30, 10**30 + 96]),
    "further keys": entry("state.state", more=1),
    "tensor missing": lambda layout: layout.pop("state.state"),
    "tensor of null": lambda layout: layout.update({"state.state": None}),
    "a list": lambda layout: [layout],
    "no metadata": lambda layout: layout.pop("__metadata__"),
    "metadata of text": lambda layout: layout.update(__metadata__="proxstream 1"),
    "newer format": lambda layout: layout["__metadata__"].update(format="proxstream 2"),
    "no checksum": lambda layout: layout["__metadata__"].pop("sha256"),
    "header no JSON": lambda layout: layout["__metadata__"].update(header="{"),
    "header of a list": lambda layout: layout["__metadata__"].update(header="[]"),
    "header of a number": lambda layout: layout["__metadata__"].update(header=7),
    "header with NaN": lambda layout: layout["__metadata__"].update(header='{"data":{},"sparse":{"a":NaN}}'),
    "key twice": lambda layout: layout["__metadata__"].update(header='{"data":{},"data":{}}'),
    "deep": lambda layout: layout["__metadata__"].update(header='{"a":' * 50_000 + "1" + "}" * 50_000),
    "long number": lambda layout: layout["__metadata__"].update(header='{"data":' + "9" * 10_000 + "}"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_that_lies_is_refused(name: str, model: Path) -> None:
    forged(model, LAYOUTS[name])
    refused(model)


def test_sparse_arrays_that_lie_are_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.psm", np.zeros((100, 2))
    whole[[3, 50]] = 1.0

    def sparse(shape: Any) -> Callable[[dict[str, Any]], None]:
        def change(layout: dict[str, Any]) -> None:
            layout["__metadata__"]["header"] = json.dumps({"data": {}, "sparse": {"w": shape}})

        return change

    for shape in ([50, 2], [100, 3], [100], [], [-100, 2], [100.0, 2], "w", None, [True, 2]):
        write(path, {}, {"w": whole})
        forged(path, sparse(shape))
        assert "do not fit its shape" in refused(path)
    write(path, {}, {"w": whole})
    forged(path, sparse([1 << 60, 2]))
    assert "larger than their stored bytes allow" in refused(path)
    for places in ([50, 3], [3, 3], [-1, 3], [3, 100]):
        write(path, {}, {"w": whole})
        forged(path, lambda layout: None, np.ones((2, 2)).tobytes() + np.array(places, np.int32).tobytes())
        assert "do not fit its shape" in refused(path)

    def numbers(layout: dict[str, Any]) -> None:  # in place of a row and its value
        layout["w:rows"]["shape"] = layout["w:values"]["shape"] = []

    write(path, {}, {"w": np.eye(1, 100)[0]})
    forged(path, numbers)
    assert "do not fit its shape" in refused(path)


def settings_of(model: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    def inner(layout: dict[str, Any]) -> None:
        header = json.loads(layout["__metadata__"]["header"])
        change(header["data"])
        layout["__metadata__"]["header"] = json.dumps(header)

    forged(model, inner)


def within(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda data: data["model"]["with"].update(changes)


SETTINGS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "newer schema": lambda data: data.update(schema=2),
    "no schema": lambda data: data.pop("schema"),
    "no model": lambda data: data.pop("model"),
    "model of text": lambda data: data.update(model="learner"),
    "unknown kind": lambda data: data["model"].update(kind="os.system"),
    "kind of a list": lambda data: data["model"].update(kind=["learner"]),
    "another kind": lambda data: data["model"].update(kind="stream_classifier"),
    "unknown algorithm": lambda data: data["model"]["with"]["algorithm"].update(name="evil"),
    "unknown registry": lambda data: data["model"]["with"]["algorithm"].update({"is": "module"}),
    "parameter out of range": lambda data: data["model"]["with"]["algorithm"]["with"].update(alpha=-1.0),
    "parameter of text": lambda data: data["model"]["with"]["algorithm"]["with"].update(alpha="import os"),
    "further parameter": lambda data: data["model"]["with"]["algorithm"]["with"].update(evil=1),
    "algorithm of null": within(algorithm=None),
    "loss of text": within(loss="huber(__import__('os'))"),
    "penalty of a number": within(penalty=3),
    "all the features there are": within(n_features=1 << 50),
    "negative features": within(n_features=-1),
    "a feature less": within(n_features=5),
    "many outputs": within(n_outputs=1 << 40),
    "several outputs": within(n_outputs=3),
    "intercept of text": within(fit_intercept="yes"),
    "unknown array": within(state={"state": {"is": "array", "name": "nowhere"}}),
    "no state": within(state={}),
    "dtype of objects": within(dtype={"is": "dtype", "name": "object"}),
    "another dtype": within(dtype={"is": "dtype", "name": "float32"}),
    "many threads": within(n_threads=0),
    "means": within(average=True),
    "queries": within(ranking=True),
    "no with": lambda data: data["model"].pop("with"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_lie_are_refused(name: str, model: Path) -> None:
    settings_of(model, SETTINGS[name])
    refused(model)


STATES: dict[str, tuple[Callable[[], Learner], dict[str, Any]]] = {
    # Rounds beyond the table of rounds, in which a compiled loop would look them up.
    "descent": (
        lambda: Learner(ps.MirrorDescent(0.1), "logistic", ps.L1(0.1), n_features=6),
        {"state.state": lambda a: a[:, 1].fill(1e9), "state.clock": lambda a: a.fill(1e15)},
    ),
    "negative": (
        lambda: Learner(ps.MirrorDescent(0.1), "logistic", ps.L1(0.1), n_features=6),
        {"state.state": lambda a: a[:, 1].fill(-5.0), "state.bias": lambda a: a[:, 1].fill(-5.0)},
    ),
    "nan": (
        lambda: Learner(ps.AdaGrad(0.1, update="mirror"), "logistic", ps.L1(0.1), n_features=6),
        {"state.state": lambda a: a[:, 2].fill(np.nan), "state.clock": lambda a: a.fill(np.nan)},
    ),
    "means": (
        lambda: Learner(ps.RDA(), "logistic", ps.L1(0.1), n_features=6, average=True),
        {"state.means.sums": lambda a: a[:, 1].fill(1e9), "state.means.clock": lambda a: a.fill(1e9)},
    ),
    "classes": (
        lambda: Learner(ps.MirrorDescent(0.1), "softmax", ps.L1(0.1), n_features=6, n_outputs=3),
        {"state.state": lambda a: a[:, 1].fill(1e9), "state.clock": lambda a: a.fill(-1.0)},
    ),
    "auto": (
        lambda: Learner(ps.AutoFTRL(), "logistic", n_features=6),
        {"state.feature.clock": lambda a: a.fill(np.nan)},
    ),
    "queries": (
        lambda: Learner(ps.RDA(), "ranking_hinge", n_features=6, ranking=True),
        {
            "state.ranking.indptr": lambda a: a.fill(1 << 30),
            "state.ranking.indices": lambda a: a.fill(-1),
        },
    ),
}


@pytest.mark.interpreted
@pytest.mark.default_cases(2)
@pytest.mark.parametrize("name", STATES)
def test_a_state_that_would_lead_a_compiled_loop_astray_is_refused(name: str, tmp_path: Path) -> None:
    make, changes = STATES[name]
    learner = make()
    block, qid = rows(learner)
    learner.learn(block, qid if learner.ranking else None)
    for array, spoil in changes.items():
        header, arrays = pack(learner)
        arrays[array] = arrays[array].copy()
        spoil(arrays[array])
        write(tmp_path / "a.psm", header, arrays)
        assert "is damaged" in refused(tmp_path / "a.psm")


@pytest.mark.interpreted
@pytest.mark.default_cases(3)
@pytest.mark.parametrize("name", STATES)
def test_a_state_of_another_shape_is_refused(name: str, tmp_path: Path) -> None:
    learner = STATES[name][0]()
    block, qid = rows(learner)
    learner.learn(block, qid if learner.ranking else None)
    for array in pack(learner)[1]:
        for change in (lambda a: a[:-1], lambda a: a.astype(np.int8), lambda a: a[..., None], lambda a: a[:0]):
            header, arrays = pack(learner)
            arrays[array], was = change(arrays[array]), arrays[array]
            if (arrays[array].dtype, arrays[array].shape) == (was.dtype, was.shape):
                continue
            write(tmp_path / "a.psm", header, arrays)
            try:
                other = load(tmp_path / "a.psm")
            except ModelFileError:
                continue
            # The state before a query may have fewer features than the one now.
            shorter = array == "state.ranking.before.state"
            assert shorter or array.split(".")[-1] in ("c", "losses", "rounds", "table"), array
            other.learn(block, qid if learner.ranking else None)


def test_mutants_are_refused_in_one_line_or_learn_on() -> None:
    """A few of the million that `python -m benchmarks fuzz_model` tries, where a place outside an array is an error."""
    command = [sys.executable, "-m", "tests.models.model_mutants", "700"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert sum(counted.values()) == 700
    assert set(counted) == {"refused", "loaded", "learned on", "loaded, did not learn on"}
    assert min(counted.values()) > 7


def test_loading_a_learner_imports_no_scikit_learn(model: Path) -> None:
    code = "import sys, proxstream as ps; ps.load(sys.argv[1]); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
