"""Settings as data: the parts of a model as JSON and arrays, and back through the registries.

Nothing is pickled and no code is looked up by name: an algorithm, penalty, loss, geometry or rate is written as its
name in its registry with its parameters, and restored by its constructor, which checks them. The functions of a custom
loss are not stored: with weights alone, `not_stored` takes their place.

| Python                       | JSON                                                                      |
|------------------------------|---------------------------------------------------------------------------|
| None, bool, int, str, list   | themselves                                                                |
| dict with keys of text       | itself                                                                    |
| float                        | itself, {"is": "number", "value": "inf"} where it is not finite           |
| tuple                        | {"is": "tuple", "of": [...]}                                              |
| any other dict               | {"is": "dict", "of": [[key, value], ...]}                                 |
| dtype                        | {"is": "dtype", "name": "float32"}                                        |
| array of numbers             | {"is": "array", "name": ...}: the name of an array of the file            |
| array of text                | {"is": "text", "name": ..., "dtype": ...}: UTF-8 bytes and their ends |
| RDA(gamma=2.0), L1(0.1), ... | {"is": "algorithm", "name": "rda", "with": {"gamma": 2.0, ...}}           |
| a model (see `kinds`)        | {"is": "model", "kind": "learner", "with": {...}}                         |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..core.algorithms import rates
from ..core.losses.custom import Custom
from ..core.parsing import REGISTRIES
from ..core.validation import Array

Arrays = dict[str, Array]
Saved = tuple[str, Mapping[str, Any]]  # a kind of model and its parts


class Encoder:
    """Turns values into JSON; arrays go into `arrays`, each under the path that led to it."""

    def __init__(self, model: Callable[[Any], Saved | None], *, weights_only: bool = False) -> None:
        self.arrays: Arrays = {}
        self._model, self._weights_only = model, weights_only

    def encode(self, value: Any, path: str) -> Any:
        """Return a value as JSON; a TypeError names what cannot be stored."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.generic) and value.dtype.kind in "biufU":
            value = value.item()
        if isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"is": "number", "value": str(value)}
        if isinstance(value, list):
            return [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]
        if isinstance(value, np.dtype):
            return {"is": "dtype", "name": value.name}
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        saved = self._model(value)
        if saved is not None:
            return {"is": "model", "kind": saved[0], "with": self._named(saved[1], path)}
        part = self._part(value, path)
        if part is not None:
            return part
        if isinstance(value, tuple):
            return {"is": "tuple", "of": self.encode(list(value), path)}
        if isinstance(value, dict):
            if "is" not in value and all(isinstance(key, str) for key in value):
                return self._named(value, path)
            pairs = [[self.encode(k, path), self.encode(v, f"{path}.{k}")] for k, v in value.items()]
            return {"is": "dict", "of": pairs}
        raise TypeError(f"{path or 'the model'} cannot be stored in a model file: {_what(value)}")

    def _named(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        return {name: self.encode(value, f"{path}.{name}" if path else name) for name, value in values.items()}

    def _part(self, value: Any, path: str) -> Any:
        """Return a component by its name in its registry; None if it is not a component."""
        if isinstance(value, Custom) and self._weights_only:
            constants = {name: getattr(value, name) for name in ("kind", "smoothness", "lipschitz")}
            return {"is": "loss", "name": "custom", "with": self._named(constants, path)}
        if isinstance(value, (Custom, rates.OfRound)):
            more = "; weights_only=True stores the weights alone" if isinstance(value, Custom) else ""
            raise TypeError(f"{path} cannot be stored in a model file: it is made of Python functions{more}")
        for kind, registry in REGISTRIES.items():
            for name, known in registry.items():
                if type(value) is known:
                    parameters = {field.name: getattr(value, field.name) for field in fields(known)}
                    return {"is": kind, "name": name, "with": self._named(parameters, path)}
        return None

    def _array(self, value: Array, path: str) -> dict[str, Any]:
        if value.dtype.kind in "biuf":
            self.arrays[path] = value
            return {"is": "array", "name": path}
        text = value.ravel().tolist()
        if value.ndim != 1 or not all(isinstance(item, str) for item in text):
            raise TypeError(
                f"{path} cannot be stored in a model file: an array of {value.dtype}, not of numbers or text"
            )
        words = [item.encode("utf-8", "surrogatepass") for item in text]
        self.arrays[f"{path}.text"] = np.frombuffer(b"".join(words), np.uint8)
        self.arrays[f"{path}.ends"] = np.cumsum([0, *map(len, words)], dtype=np.int64)[1:]
        return {"is": "text", "name": path, "dtype": "object" if value.dtype == object else value.dtype.str}


class Decoder:
    """Makes values from JSON and the arrays of a file; a ValueError, TypeError or KeyError if they do not fit."""

    def __init__(self, arrays: Mapping[str, Array], model: Callable[[str, dict[str, Any]], Any]) -> None:
        self._arrays, self._model = arrays, model

    def decode(self, value: Any) -> Any:
        """Return the value that `Encoder.encode` was given."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "is" not in value:
            return {name: self.decode(item) for name, item in value.items()}
        kind = value["is"]
        if kind == "number":
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[value["value"]]
        if kind == "tuple":
            return tuple(self.decode(value["of"]))
        if kind == "dict":
            return {self.decode(k): self.decode(v) for k, v in value["of"]}
        if kind == "dtype":
            return np.dtype({"float32": np.float32, "float64": np.float64}[value["name"]])
        if kind == "array":
            return self._arrays[value["name"]]
        if kind == "text":
            return self._text(value["name"], value["dtype"])
        parameters = {str(name): self.decode(item) for name, item in value["with"].items()}
        if kind == "model":
            return self._model(value["kind"], parameters)
        if kind == "loss" and value["name"] == "custom":
            return Custom(not_stored, not_stored, **parameters)
        return REGISTRIES[kind][value["name"]](**parameters)

    def _text(self, name: str, dtype: str) -> Array:
        ends, raw = self._arrays[f"{name}.ends"], self._arrays[f"{name}.text"]
        if raw.dtype != np.uint8 or ends.dtype != np.int64 or raw.ndim != 1 or ends.ndim != 1:
            raise ValueError(f"{name} must be bytes and the ends of the texts")
        begins = np.concatenate(([0], ends[:-1]))
        if (begins > ends).any() or (ends[-1] if len(ends) else 0) != len(raw):
            raise ValueError(f"the ends of the texts of {name} must increase")
        text = raw.tobytes()
        words = [text[a:b].decode("utf-8", "surrogatepass") for a, b in zip(begins, ends, strict=True)]
        made = np.empty(len(words), object)
        made[:] = words
        return made if dtype == "object" else made.astype(f"U{max(map(len, words), default=1) or 1}")


def not_stored(p: float, y: float) -> float:
    """Return NaN, in place of a function of a custom loss."""
    return math.nan


def _what(value: Any) -> str:
    if callable(value):
        return f"{getattr(value, '__name__', value)!r} is a Python function"
    return f"{value!r} is a {type(value).__name__}"
