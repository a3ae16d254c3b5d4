"""Models for other programs: JSON, readable text like that of Vowpal Wabbit, and ONNX.

Exports are for prediction. Text and JSON hold the non-zero weights with all digits; ONNX holds 32-bit weights, of named
and hashed features only the non-zero ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.validation import Array
from .codec import Encoder

if TYPE_CHECKING:
    from .model import Model

OPSET, ML_OPSET, IR = 17, 3, 8  # of ONNX: for runtimes since 2022


class MissingExtraError(ImportError):
    """A package is not installed; the message names the extra to install."""


def to_json(model: Model) -> Iterator[bytes]:
    """Yield a JSON object: settings, intercept, classes, and one line per feature with a non-zero weight.

    A feature is [index, weight] or [index, weight, name, ...]; with several classes the weight is a list. Where numbers
    were standardized in training, `means` has an entry [index, mean] for each: the value of a missing number.
    """
    learner = model.learner
    coef, intercept = model.weights()
    encoder = Encoder(lambda value: None)
    head: dict[str, Any] = {
        "format": "proxstream model 1",
        "loss": str(learner.loss),
        "classes": list(model.classes),
        "n_features": len(coef),
        "intercept": np.asarray(intercept, np.float64).tolist(),
        "features": model.features,
    }
    if model.means:
        head["means"] = [[number, mean] for number, mean in model.means.items()]
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
    """Yield lines like those of `vw --invert_hash`: a head, a line `:0`, then `name:index:weight` per weight.

    A feature without a known name is named by its index; with several classes the name is followed by [class]. The
    intercept is named Constant.
    """
    from .. import __version__

    learner = model.learner
    coef, intercept = model.weights()
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

    The columns of `X` are all numbered features; of named or hashed ones only those with a non-zero weight, whose
    indices and names are in the metadata `feature_indices` and `feature_names`, as JSON. Classifiers have the outputs
    `label` and `scores`, one column per class (of two classes minus the score and the score): probabilities where the
    loss gives them. Other models have `prediction` of shape (rows, 1). A `MissingExtraError` if onnx is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("ONNX needs the package onnx: pip install 'proxstream[onnx]'") from None
    helper = onnx.helper
    coef, intercept = model.weights()
    used = list(range(len(coef))) if model.features is None else _nonzero_rows(coef) or [0]
    coef = coef[used]
    make = _classifier if model.classes else _regressor
    nodes, outputs = make(helper, model, coef.astype(np.float64), np.atleast_1d(np.asarray(intercept, np.float64)))
    graph = helper.make_graph(
        nodes, "proxstream", [helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, [None, len(coef)])], outputs
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model_proto = helper.make_model(graph, opset_imports=opsets, producer_name="proxstream", ir_version=IR)
    if model.features is not None:
        names = model.named()
        columns = {"feature_indices": used, "feature_names": ["|".join(names.get(place, ())) for place in used]}
        helper.set_model_props(model_proto, {name: json.dumps(column) for name, column in columns.items()})
    onnx.checker.check_model(model_proto)
    text: bytes = model_proto.SerializeToString()
    return text


def _classifier(helper: Any, model: Model, coef: Array, intercept: Array) -> tuple[list[Any], list[Any]]:
    rows = coef.T if coef.ndim == 2 else np.stack([-coef, coef])
    b = intercept if coef.ndim == 2 else np.concatenate([-intercept, intercept])
    texts = [_label(label) for label in model.classes]
    integers = not any(isinstance(label, str) or label != int(label) for label in model.classes)
    labels = {"classlabels_ints": [int(t) for t in texts]} if integers else {"classlabels_strings": texts}
    # e^-s/(1 + e^-s) is 1 - 1/(1 + e^-s): the logistic function of both columns gives probabilities that sum to 1.
    transform = (
        ("SOFTMAX" if model.loss.kind == "multiclass" else "LOGISTIC") if model.loss.has_probabilities else "NONE"
    )
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
    label_type = types(np.dtype(np.int64)) if integers else types(np.dtype(object))
    return nodes, [
        helper.make_tensor_value_info("label", label_type, [None]),
        helper.make_tensor_value_info("scores", types(np.dtype(np.float32)), [None, len(texts)]),
    ]


def _regressor(helper: Any, model: Model, coef: Array, intercept: Array) -> tuple[list[Any], list[Any]]:
    log_link = model.loss.link == "log"
    nodes = [
        helper.make_node(
            "LinearRegressor",
            ["X"],
            ["scores" if log_link else "prediction"],
            domain="ai.onnx.ml",
            coefficients=coef.tolist(),
            intercepts=intercept.tolist(),
            targets=1,
        )
    ]
    if log_link:
        nodes.append(helper.make_node("Exp", ["scores"], ["prediction"]))
    number = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32))
    return nodes, [helper.make_tensor_value_info("prediction", number, [None, 1])]


EXPORTS: dict[str, Callable[[Model], Any]] = {"json": to_json, "text": to_text, "onnx": lambda model: [to_onnx(model)]}
