"""Model files: `save` a model, `load` it, go on as if nothing had happened.

A file holds everything that a model is made of: the settings as data (never code: see `codec`), the complete state of
its learner, what the features and labels mean, and how it has learned so far. `container` tells the bytes.

A class can be stored if it is in `KINDS` and has

    __proxstream_kind__                           its name there
    __proxstream_save__(self, weights_only)       -> dict: what it is made of: numbers, text, arrays, components, models
    __proxstream_load__(cls, parts)               classmethod: makes it again, after checking what it is given

scikit-learn is imported if a file holds one of its estimators, and only then.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .._checks import Array
from .codec import Decoder, Encoder, Saved
from .container import Header, ModelFileError, read, replacing, write

__all__ = ["KINDS", "SCHEMA", "ModelFileError", "load", "pack", "read", "replacing", "save", "unpack", "write"]

SCHEMA = 1

# Where the class of each kind lives.
KINDS = {
    "learner": ("proxstream.learner", "Learner"),
    "model": ("proxstream.model", "Model"),
    "stream_classifier": ("proxstream.estimators", "StreamClassifier"),
    "stream_ranker": ("proxstream.estimators", "StreamRanker"),
    "stream_regressor": ("proxstream.estimators", "StreamRegressor"),
    "weights": ("proxstream.model", "Weights"),
}


def save(model: Any, path: str | os.PathLike[str], *, weights_only: bool = False) -> None:
    """Write a model to a file, from which `load` makes the same model.

    Parameters
    ----------
    model : estimator, Learner or Model
    path : str or path
        Usually with the ending .psm. The file is replaced whole or not at all.
    weights_only : bool
        Leave out all that only learning on needs: a small file that predicts the same.

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
    """Return the model that `save` wrote, which learns on bit for bit; a `ModelFileError` tells what is wrong.

    No code in the file is ever run; one that was made to do harm is refused like a damaged one.

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


def pack(model: Any, *, weights_only: bool = False) -> tuple[Header, dict[str, Array]]:
    """Return a model as a header and arrays, which `write` takes; the arrays are the model's own, not copied.

    >>> import proxstream as ps
    >>> header, arrays = pack(ps.learner.Learner(ps.RDA(), n_features=2))
    >>> header["model"]["kind"], header["model"]["with"]["algorithm"]["name"], sorted(arrays)
    ('learner', 'rda', ['state.bias', 'state.clock', 'state.losses', 'state.state', 'state.table'])
    """

    def saved(value: Any) -> Saved | None:
        kind = getattr(type(value), "__proxstream_kind__", None)
        if kind is None:
            return None
        if type(value) is not _class(kind):
            raise TypeError(f"{type(value).__name__} is a subclass, which a model file does not know: save a {kind}")
        return kind, value.__proxstream_save__(weights_only)

    encoder = Encoder(saved)
    encoded = encoder.encode(model, "")
    if not isinstance(encoded, dict) or encoded.get("is") != "model":
        raise TypeError(f"a model file holds one of {', '.join(KINDS)}, got {type(model).__name__}")
    return {"schema": SCHEMA, "model": encoded}, encoder.arrays


def unpack(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    """Return the model that `pack` was given; a `ModelFileError` tells what does not fit."""
    schema = header.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        raise ModelFileError(f"has the schema {schema!r}{', of a newer version' * newer}; accepted is {SCHEMA}")

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
        raise ModelFileError(f"is damaged: nothing is known of {str(error)[:120]}") from None
    except (AttributeError, LookupError, OverflowError, MemoryError, RecursionError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelFileError(f"is damaged: {reason}") from None


def _class(kind: str) -> Any:
    module, name = KINDS[kind]
    return getattr(import_module(module), name)
