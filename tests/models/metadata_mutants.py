"""Model files with one field of their settings changed and the checksum made right: refused, or a model that works.

Every field of every kind of model is made null, of another type, huge, or is left out. What loads has to do all that
such a model does: a file that loads and fails later is the fault that is looked for.

`python -m tests.models.metadata_mutants [EVERY]` tries all of them, or each EVERY-th, and prints what became of them.
"""

from __future__ import annotations

import copy
import io
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np

import proxstream as ps
from proxstream.cli.common import open_data
from proxstream.cli.inspect import inspect
from proxstream.data.rowblock import as_block
from proxstream.io import DataError
from proxstream.learner.learner import Learner
from proxstream.models.file import ModelFileError, load, load_model, save
from proxstream.models.model import Model, Weights

from .model_cases import rows
from .model_mutants import Parts, put_together, taken_apart

X = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.5], [1.5, 1.0, 0.0], [0.0, 2.0, 1.0], [0.5, 0.0, 3.0], [1.0, 1.0, 1.0]])
TWO, THREE = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 2, 0, 1, 2])
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        7,
        1 << 40,
        1 << 70,
        10**400,
        0.5,
        -0.5,
        1e300,
        "",
        "x",
        "float64",
        [],
        {},
        [0],
        [[]],
    ),
    *([None], {"a": 1}, {"is": "number", "value": "nan"}, {"is": "number", "value": "inf"}, {"is": "tuple", "of": []}),
]


def models() -> list[Any]:
    """Return a model of every kind, fitted and not."""
    stream = ps.StreamClassifier(ps.FTRLProximal(0.5), penalty=ps.L1(0.01))
    learner = Learner(ps.RDA(), "logistic", ps.L1(0.01), n_features=6)
    learner.learn(rows(learner)[0])
    names = {"keys": np.arange(3, dtype=np.uint64), "names": np.zeros(3, np.uint8), "ends": np.arange(1, 4)}
    trained = Learner(ps.AdaGrad(0.3), "logistic", n_features=8)
    return [
        learner,
        Model(learner, (0.0, 1.0), reading={"zero_based": True}, history=[{"rows": 1}], summary={"rows": 1}),
        Model(trained, (0.0, 1.0), {"bits": 3, "columns": [["a", "numeric"]]}, names),
        Model(Weights(np.ones(3), 0.5, "logistic", ps.L2(0.1))),
        stream,
        ps.StreamClassifier(ps.FTRLProximal(0.5), penalty=ps.L1(0.01)).fit(X, TWO),
        ps.StreamClassifier(ps.FTRLProximal(0.5)).fit(X, np.array(["a", "b", "c"])[THREE]),
        ps.StreamRegressor(ps.RDA(), average=True).fit(X, TWO),
        ps.StreamRanker(ps.RDA(), pairs=2).fit(X, THREE, qid=np.repeat([0, 1], 3)),
        ps.CertifiedClassifier(penalty=ps.L2(0.1)).fit(X, TWO),
        ps.CertifiedRegressor(penalty=ps.L2(0.1)).fit(X, THREE),
        ps.SDCAClassifier(penalty=ps.L2(0.1)).fit(X, THREE),
        ps.SDCARegressor(penalty=ps.L2(0.1)),
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every field inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from places(item, (*path, key))


def mutants(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a file with each field of its settings changed, and which field to what."""
    layout, data = taken_apart(raw)
    settings = json.loads(layout["__metadata__"]["header"])
    for path in places(settings["data"]):
        for i in range(len(VALUES) + 1):
            changed = copy.deepcopy(settings)
            inside = changed["data"]
            for key in path[:-1]:
                inside = inside[key]
            if i < len(VALUES):
                inside[path[-1]] = VALUES[i]
            elif isinstance(path[-1], str):
                del inside[path[-1]]
            layout["__metadata__"]["header"] = json.dumps(changed)
            value = repr(VALUES[i])[:30] if i < len(VALUES) else "left out"
            yield f"{'.'.join(map(str, path))} = {value}", put_together(Parts(layout, data))


def outcome(raw: bytes, path: Path) -> str:
    """Return "refused", or "works" of a model that does all that one of its kind does; raise what else happens."""
    path.write_bytes(raw)
    try:
        model = load(path)
    except ModelFileError as error:
        if not str(error).startswith(f"{path}: ") or "\n" in str(error):
            raise AssertionError(f"not one line that begins with the path: {error}") from None
        try:
            use(load_model(path))
        except ModelFileError:
            return "refused"
        return "refused as an estimator"  # whose parameters the command line does not look at
    use(model)
    save(model, path)
    use_command_line(path)
    return "works"


def use(model: Any) -> None:
    """Let a model do what it does."""
    repr(model)
    if isinstance(model, Model):
        model.named()
        use_learner(model.learner)
        model.outputs_of(model.learner.predict(as_block(np.eye(3), dtype=model.learner.dtype)), model.outputs[0])
        return
    if isinstance(model, (Learner, Weights)):
        use_learner(model)
        return
    if not model.__sklearn_is_fitted__() if hasattr(model, "__sklearn_is_fitted__") else not hasattr(model, "coef_"):
        return
    assert np.isfinite(model.predict(X).astype(float) if model.predict(X).dtype.kind in "biuf" else 0).all()
    _ = model.coef_, model.intercept_, model.nnz_, model.n_features_in_
    if hasattr(model, "primal_"):
        _ = float(model.primal_), float(model.dual_), float(model.duality_gap_), int(model.n_iter_)
    if hasattr(model, "progressive_loss_"):
        _ = float(model.progressive_loss_), int(model.t_)


def use_learner(learner: Any) -> None:
    learner.predict(as_block(np.eye(3), dtype=learner.dtype))
    coef, intercept = learner.weights()
    assert np.isfinite(coef).all()
    assert np.isfinite(intercept).all()


def use_command_line(path: Path) -> None:
    """Let the command line's view of a model be taken."""
    try:
        model = load_model(path)
    except ModelFileError as error:
        if "not been fitted" not in str(error):
            raise AssertionError(f"loaded as an estimator, not as a model: {error}") from None
        return
    use(model)
    for as_json in (False, True):
        with redirect_stdout(io.StringIO()):
            inspect.callback(str(path), top=5, json=as_json)
    named = model.features is not None
    data = path.with_suffix(".csv" if named else ".svm")
    data.write_text("label,a\n1,2\n" if named else "1 1:1\n")
    with open_data(model, [str(data)], None) as stream, suppress(DataError):  # of other columns, or none
        for chunk in stream.chunks():
            model.outputs_of(model.scores(chunk.rows), model.outputs[0])


def main(every: int) -> None:
    """Try every so many-th mutant of every model."""
    counted: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        path, number = Path(folder) / "mutant.psm", 0
        for model in models():
            save(model, path)
            for what, raw in mutants(path.read_bytes()):
                number += 1
                if number % every:
                    continue
                try:
                    counted[outcome(raw, path)] += 1
                except Exception as error:
                    failures.append(f"{type(model).__name__}: {what}: {type(error).__name__}: {str(error)[:150]}")
    print(json.dumps({**counted, "failures": failures}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
