"""Model files: `save` a model, `load` it, continue as if nothing had happened.

A file holds the complete model: the settings as data (never code: see `codec`), the state of its learner, the meaning
of features and labels, and the training history. `container` describes the bytes.

A class can be stored if it is in `KINDS` and has

    __proxstream_save__(self, weights_only)       -> dict of its parts: numbers, text, arrays, components, models
    __proxstream_load__(cls, parts)               classmethod: restores it after checking the parts

or if it has `__proxstream_as__(self)`, which returns such a model to store instead.

scikit-learn is imported only if a file holds an estimator.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.validation import Array
from .codec import Decoder, Encoder, Saved
from .container import Header, ModelFileError, read, write

if TYPE_CHECKING:
    from .model import Model

__all__ = [
    "KINDS",
    "SCHEMA",
    "ModelFileError",
    "load",
    "load_model",
    "pack",
    "read",
    "save",
    "unpack",
    "write",
]

SCHEMA = 1

# The class of each kind.
KINDS = {
    "certified_classifier": ("proxstream.estimators", "CertifiedClassifier"),
    "certified_regressor": ("proxstream.estimators", "CertifiedRegressor"),
    "learner": ("proxstream.learner.learner", "Learner"),
    "model": ("proxstream.models.model", "Model"),
    "model_path": ("proxstream.models.path", "ModelPath"),
    "path_learner": ("proxstream.learner.path", "PathLearner"),
    "sdca_classifier": ("proxstream.estimators", "SDCAClassifier"),
    "sdca_regressor": ("proxstream.estimators", "SDCARegressor"),
    "stream_classifier": ("proxstream.estimators", "StreamClassifier"),
    "stream_path_classifier": ("proxstream.estimators", "StreamPathClassifier"),
    "stream_path_regressor": ("proxstream.estimators", "StreamPathRegressor"),
    "stream_ranker": ("proxstream.estimators", "StreamRanker"),
    "stream_regressor": ("proxstream.estimators", "StreamRegressor"),
    "weights": ("proxstream.models.model", "Weights"),
}


def save(model: Any, path: str | os.PathLike[str], *, weights_only: bool = False) -> None:
    """Write a model to a file, from which `load` makes the same model.

    Parameters
    ----------
    model : estimator, Learner or Model
    path : str or path
        Usually with the extension .psm. The file is replaced atomically.
    weights_only : bool
        Leave out the training state: a small file that predicts the same. Allows custom losses, whose functions are
        not stored.

    Examples
    --------
    >>> import os, tempfile, numpy as np, proxstream as ps
    >>> X, y = np.eye(4), np.array([0, 1, 0, 1])
    >>> model = ps.StreamClassifier(ps.FTRLProximal(alpha=1.0)).partial_fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.psm")
    ...     ps.save(model, path)
    ...     same = ps.load(path)
    >>> bool((same.partial_fit(X, y).coef_ == model.partial_fit(X, y).coef_).all())
    True
    """
    write(path, *pack(model, weights_only=weights_only))


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model that `save` wrote; it continues training bit for bit.

    A `ModelFileError` says what is wrong with a file. No code in a file is ever run. A file that the command line wrote
    gives a `Model`, which has `coef_`, `classes_`, `predict` and `predict_proba` like an estimator.

    Parameters
    ----------
    path : str or path

    Examples
    --------
    >>> import os, tempfile, numpy as np, proxstream as ps
    >>> model = ps.StreamRegressor().fit(np.eye(3), [1.0, 2.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.psm")
    ...     ps.save(model, path, weights_only=True)
    ...     ps.load(path)
    StreamRegressor()
    """
    header, arrays = read(path)
    try:
        return unpack(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None


def load_model(path: str | os.PathLike[str]) -> Model:
    """Return the contents of any model file as a `Model`, without importing scikit-learn.

    An estimator becomes a model with its learner, its classes and the names of its columns.
    """
    header, arrays = read(path)
    try:
        return _as_model(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None


def _as_model(header: Header, arrays: dict[str, Array]) -> Model:
    from .model import Model

    if header.get("kind") == "checkpoint":
        raise ModelFileError("is a checkpoint, not a model; resume it with proxstream train --resume")
    entry: Any = header.get("model")
    parts = entry.get("with") if isinstance(entry, dict) else None
    if not isinstance(parts, dict) or entry.get("kind") in ("model", "learner", "weights"):
        found = unpack(header, arrays)
        return found if isinstance(found, Model) else Model(found)
    inner = parts.get("learner")
    if inner is None:
        raise ModelFileError(f"holds a {str(entry.get('kind'))[:40]} that has not been fitted")
    learner = unpack({"schema": header.get("schema"), "model": inner}, arrays)
    try:
        fitted = Decoder(arrays, _refuse).decode(parts["fitted"])
        classes = tuple(fitted.get("classes_", np.empty(0)).tolist())
        if "features" in fitted:  # the label is named by the parameter: the featurizer does not see it
            spec, given = fitted["features"]["spec"], parts["params"].get("features") or {}
            spec = spec | {"label": spec.get("label") or given.get("label")}
            made = {"learner": learner, "classes": classes, "features": spec, "names": fitted["features"]["names"]}
            return Model.__proxstream_load__(made | {"reading": {}, "history": [], "summary": {}})
        names = [str(name).encode() for name in fitted.get("feature_names_in_", ())]
        table: dict[str, Array] = {
            "keys": np.arange(len(names), dtype=np.uint64),
            "names": np.frombuffer(b"".join(names), np.uint8),
            "ends": np.cumsum([len(name) for name in names], dtype=np.int64),
        }
        return Model(learner, classes, names=table if names else {})
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"is damaged: {' '.join(str(error).split())[:300]}") from None


def _refuse(kind: str, parts: dict[str, Any]) -> Any:
    raise ValueError(f"no {kind[:40]} is expected here")


def pack(model: Any, *, weights_only: bool = False) -> tuple[Header, dict[str, Array]]:
    """Return a model as a header and arrays for `write`; the arrays are not copied.

    >>> import proxstream as ps
    >>> header, arrays = pack(ps.Learner(ps.RDA(), n_features=2))
    >>> header["model"]["kind"], header["model"]["with"]["algorithm"]["name"], sorted(arrays)
    ('learner', 'rda', ['state.bias', 'state.clock', 'state.losses', 'state.state', 'state.table'])
    """

    def saved(value: Any) -> Saved | None:
        if not hasattr(type(value), "__proxstream_save__"):
            return None
        if hasattr(type(value), "__proxstream_as__"):
            value = value.__proxstream_as__()
        for kind, (_, name) in KINDS.items():
            if type(value).__name__ == name and type(value) is _class(kind):
                return kind, value.__proxstream_save__(weights_only)
        raise TypeError(f"{type(value).__name__} is a subclass, which cannot be stored in a model file")

    encoder = Encoder(saved, weights_only=weights_only)
    encoded = encoder.encode(model, "")
    if not isinstance(encoded, dict) or encoded.get("is") != "model":
        raise TypeError(f"a model file can hold one of {', '.join(KINDS)}, got {type(model).__name__}")
    return {"schema": SCHEMA, "model": encoded}, encoder.arrays


def unpack(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    """Return the model that `pack` was given; a `ModelFileError` says what does not fit."""
    schema = header.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        raise ModelFileError(f"has schema {str(schema)[:40]}{', of a newer version' * newer}; expected {SCHEMA}")

    def loaded(kind: str, parts: dict[str, Any]) -> Any:
        return _class(kind).__proxstream_load__(parts)

    try:
        entry = header["model"]
        if not isinstance(entry, dict) or entry.get("is") != "model":
            raise ValueError("the header must have a model")
        return Decoder(arrays, loaded).decode(entry)
    except ModelFileError:
        raise
    except KeyError as error:
        raise ModelFileError(f"is damaged: unknown or missing {str(error)[:120]}") from None
    except (AttributeError, LookupError, OverflowError, MemoryError, RecursionError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelFileError(f"is damaged: {reason}") from None


def _class(kind: str) -> Any:
    module, name = KINDS[kind]
    return getattr(import_module(module), name)
