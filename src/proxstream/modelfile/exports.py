"""Models for other programs: JSON, readable text in the manner of Vowpal Wabbit, and ONNX.

What is exported predicts; it does not learn on. Text and JSON hold the weights that are not zero, with all their
digits; ONNX holds all of them, in 32 bits as its linear operators have them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import Array
from .codec import Encoder

if TYPE_CHECKING:
    from ..model import Model

OPSET, ML_OPSET, IR = 17, 3, 8  # of ONNX: what runtimes of 2022 and later know


class MissingExtraError(ImportError):
    """A package that is not installed; the message names the extra that brings it."""


def to_json(model: Model) -> Iterator[bytes]:
    """Yield a JSON object: settings, intercept, classes, and a line a feature whose weight is not zero.

    A feature is [number, weight] or [number, weight, name, ...]; the weight of several classes is a list, one a class.
    """
    learner = model.learner
    coef, intercept = learner.weights()
    encoder = Encoder(lambda value: None)
    head: dict[str, Any] = {
        "format": "proxstream model 1",
        "loss": str(learner.loss),
        "classes": list(model.classes),
        "n_features": len(coef),
        "intercept": np.asarray(intercept, np.float64).tolist(),
        "features": model.features,
    }
    for name in ("algorithm", "penalty"):
        head[name] = encoder.encode(getattr(learner, name), name)
    head["arrays"] = {name: array.tolist() for name, array in encoder.arrays.items()}
    text = json.dumps(head, indent=1, sort_keys=True, allow_nan=False)
    yield text[: -len("\n}")].encode() + b',\n "weights": ['
    comma, names = b"\n", model.named()
    for place in _nonzero_rows(coef):
        entry = [place, coef[place].tolist(), *names.get(place, ())]
        yield comma + b"  " + json.dumps(entry, ensure_ascii=True).encode("ascii")
        comma = b",\n"
    yield b"\n ]\n}\n"


def to_text(model: Model) -> Iterator[bytes]:
    """Yield lines in the manner of `vw --invert_hash`: a head, a line `:0`, then `name:number:weight` a weight.

    A feature without a known name has its number for a name; one of several classes is followed by [class]. The
    intercept is named Constant.
    """
    from .. import __version__

    learner = model.learner
    coef, intercept = learner.weights()
    bits = (model.features or {}).get("bits")
    head = {
        "Version": f"proxstream {__version__}",
        "loss": str(learner.loss),
        "classes": ",".join(_label(label) for label in model.classes),
        "bits": "" if bits is None else str(bits),
        "features": str(len(coef)),
    }
    for name, value in head.items():
        yield f"{name} {value}".rstrip().encode() + b"\n"
    yield b":0\n"
    names, several = model.named(), coef.ndim == 2
    for k, b in enumerate(np.atleast_1d(intercept).tolist()):
        mark = f"[{_label(model.classes[k])}]" if several else ""
        yield f"Constant{mark}:{len(coef)}:{b!r}\n".encode()
    for place in _nonzero_rows(coef):
        name = "|".join(names.get(place, [str(place)])).replace("\n", " ")
        for k, weight in enumerate(np.atleast_1d(coef[place]).tolist()):
            mark = f"[{_label(model.classes[k])}]" if several else ""
            if weight:
                yield f"{name}{mark}:{place}:{weight!r}\n".encode("utf-8", "surrogateescape")


def _nonzero_rows(coef: Array) -> list[int]:
    there = coef != 0.0
    found: list[int] = np.flatnonzero(there.any(axis=1) if coef.ndim == 2 else there).tolist()
    return found


def _label(label: Any) -> str:
    return label if isinstance(label, str) else f"{label:.17g}"


# -- ONNX ----------------------------------------------------------------------------------------


def to_onnx(model: Model) -> bytes:
    """Return the model as ONNX: input `X`, float32 of shape (rows, features).

    Classifiers have the outputs `label` and `scores`, a column a class (of two classes minus the score and the score):
    probabilities where the model tells them. All others have `prediction` of shape (rows, 1). A `MissingExtraError`
    tells where the package onnx is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("ONNX needs the package onnx: pip install 'proxstream[onnx]'") from None
    helper = onnx.helper
    coef, intercept = model.learner.weights()
    made = _classifier if model.classes else _regressor
    nodes, outputs = made(helper, model, coef.astype(np.float64), np.atleast_1d(np.asarray(intercept, np.float64)))
    graph = helper.make_graph(
        nodes, "proxstream", [helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, [None, len(coef)])], outputs
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    whole = helper.make_model(graph, opset_imports=opsets, producer_name="proxstream", ir_version=IR)
    onnx.checker.check_model(whole)
    text: bytes = whole.SerializeToString()
    return text


def _classifier(helper: Any, model: Model, coef: Array, intercept: Array) -> tuple[list[Any], list[Any]]:
    rows = coef.T if coef.ndim == 2 else np.stack([-coef, coef])
    b = intercept if coef.ndim == 2 else np.concatenate([-intercept, intercept])
    texts = [_label(label) for label in model.classes]
    whole = not any(isinstance(label, str) or label != int(label) for label in model.classes)
    labels = {"classlabels_ints": [int(t) for t in texts]} if whole else {"classlabels_strings": texts}
    # e^-s/(1 + e^-s) is 1 - 1/(1 + e^-s): the logistic function of both columns gives probabilities that sum to 1.
    transform = {"logistic": "LOGISTIC", "softmax": "SOFTMAX"}.get(model.loss.name, "NONE")
    one_vs_rest = coef.ndim == 2 and transform == "LOGISTIC"
    first = "each" if one_vs_rest else "scores"
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["X"],
            ["label", first],
            domain="ai.onnx.ml",
            coefficients=rows.ravel().tolist(),
            intercepts=b.tolist(),
            post_transform=transform,
            multi_class=int(coef.ndim == 2),
            **labels,
        )
    ]
    if one_vs_rest:
        nodes.append(helper.make_node("Normalizer", ["each"], ["scores"], domain="ai.onnx.ml", norm="L1"))
    types = helper.np_dtype_to_tensor_dtype
    label_type = types(np.dtype(np.int64)) if whole else types(np.dtype(object))
    return nodes, [
        helper.make_tensor_value_info("label", label_type, [None]),
        helper.make_tensor_value_info("scores", types(np.dtype(np.float32)), [None, len(texts)]),
    ]


def _regressor(helper: Any, model: Model, coef: Array, intercept: Array) -> tuple[list[Any], list[Any]]:
    counts = model.loss.name == "poisson"
    nodes = [
        helper.make_node(
            "LinearRegressor",
            ["X"],
            ["scores" if counts else "prediction"],
            domain="ai.onnx.ml",
            coefficients=coef.tolist(),
            intercepts=intercept.tolist(),
            targets=1,
        )
    ]
    if counts:
        nodes.append(helper.make_node("Exp", ["scores"], ["prediction"]))
    number = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32))
    return nodes, [helper.make_tensor_value_info("prediction", number, [None, 1])]


EXPORTS: dict[str, Callable[[Model], Any]] = {"json": to_json, "text": to_text, "onnx": lambda model: [to_onnx(model)]}
