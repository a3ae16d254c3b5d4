"""Model files gone wrong: mutants of good ones, by chance or by intent, and what loading them may do.

A mutant of the first kind has bytes flipped, cut, doubled or swapped; its checksum finds it out. One of the second kind
has its checksum made right again, so that what lies behind it is tried: the layout, the settings, the state.

`NUMBA_DISABLE_JIT=1 python -m tests.models.model_mutants N` tries N of them in plain Python, where an index outside
an array is an error, and prints the outcomes. `python -m benchmarks fuzz_model` tries a million, compiled.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import proxstream as ps
from proxstream.learner.learner import Learner
from proxstream.models.file import ModelFileError, load, load_model, save
from proxstream.models.model import Model, Weights

from .model_cases import rows

ODD: list[Any] = [
    *(0, 1, -1, 2, 3, 7, 1 << 31, 1 << 40, 1 << 62, 10**30, -(1 << 63), 0.5, -0.5, 1e-300, 1e300, 1e999, True, False),
    *(None, "", "x", "learner", "weights", "model", "float32", "object", "inf", "nan", "rda", "sum", "state.state"),
    *([], {}, [0], [[]], [1, 2, 3], {"is": "model"}, {"is": "array", "name": "state.state"}, {"is": "tuple", "of": []}),
    *({"is": "number", "value": "nan"}, {"is": "number", "value": "inf"}, {"is": "dict", "of": [[[], 1]]}),
]


def good(path: Path) -> list[bytes]:
    """Return files of all kinds of engines, small."""
    learners = [
        Learner(ps.FTRLProximal(0.5), "logistic", ps.L1(0.01), n_features=6),
        Learner(ps.MirrorDescent(0.3), "logistic", ps.L1(0.1), n_features=6),
        Learner(ps.AdaGrad(0.3, update="mirror"), "logistic", ps.L1(0.1), n_features=6),
        Learner(ps.RDA(), "logistic", ps.L1(0.01), n_features=6, average=True),
        Learner(ps.AutoFTRL(), "logistic", n_features=6),
        Learner(ps.MirrorDescent(0.3), "softmax", ps.L1(0.1), n_features=6, n_outputs=3),
        Learner(ps.RDA(), "ranking_hinge", n_features=6, ranking=True, pairs=2),
        Learner(ps.RDA(), "squared", ps.L2Ball(1.0), n_features=6),
    ]
    models: list[Any] = []
    for learner in learners:
        block, qid = rows(learner)
        learner.learn(block, qid if learner.ranking else None)
        models.append(learner)
    names = {"keys": np.arange(6, dtype=np.uint64), "names": np.zeros(6, np.uint8), "ends": np.arange(1, 7)}
    features = {"bits": 3, "columns": [["a", "numeric"]]}
    models.append(Model(learners[0], (0.0, 1.0), features, names, history=[{"rows": 1}]))
    models.append(Model(Weights(np.eye(3)[0], 0.5, "logistic", ps.L2(0.1))))
    files = []
    for model in models:
        for weights_only in (False, True):
            save(model, path, weights_only=weights_only)
            files.append(path.read_bytes())
    return files


def mutants(files: list[bytes], seed: int) -> Iterator[bytes]:
    """Yield mutants without end."""
    rng = np.random.default_rng(seed)
    while True:
        raw = files[rng.integers(len(files))]
        kind = rng.integers(8)
        if kind == 0:
            yield scrambled(raw, rng)
        elif kind == 1:
            yield repaired(scrambled(raw, rng))
        elif kind in (2, 3):
            yield repaired(with_data(raw, rng))
        else:
            yield with_header(raw, rng, inner=kind > 4)


def scrambled(raw: bytes, rng: Any) -> bytes:
    """Return the bytes with some of them flipped, cut out, doubled or put elsewhere."""
    changed = bytearray(raw)
    for _ in range(rng.integers(1, 5)):
        a, b = np.sort(rng.integers(len(changed) + 1, size=2))
        match rng.integers(5):
            case 0 if a < len(changed):
                changed[a] = rng.integers(256)
            case 1:
                del changed[a : min(b, a + 64)]
            case 2:
                changed[a:a] = changed[a : min(b, a + 64)]
            case 3:
                changed[a : a + 8] = rng.bytes(8)
            case _:
                del changed[b:]
        if not changed:
            return b""
    return bytes(changed)


class Parts(NamedTuple):
    layout: Any
    data: bytes


def taken_apart(raw: bytes) -> Parts:
    length = int.from_bytes(raw[:8], "little")
    return Parts(json.loads(raw[8 : 8 + length]), raw[8 + length :])


def put_together(parts: Parts) -> bytes:
    text = json.dumps(parts.layout).encode()
    return repaired(len(text).to_bytes(8, "little") + text + parts.data)


def repaired(raw: bytes) -> bytes:
    """Return the bytes with the right checksum, if they still have a place for one."""
    place = raw.find(b'"sha256": "')
    at = place + 11 if place >= 0 else raw.find(b'"sha256":"') + 10
    if at < 10 or len(raw) < at + 64:
        return raw
    blank = raw[:at] + b"0" * 64 + raw[at + 64 :]
    return raw[:at] + hashlib.sha256(blank).hexdigest().encode() + raw[at + 64 :]


def with_data(raw: bytes, rng: Any) -> bytes:
    """Return the file with other numbers in its tensors."""
    length = int.from_bytes(raw[:8], "little")
    data = bytearray(raw[8 + length :])
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(max(len(data) // 8, 1))) * 8
        number = rng.choice([-1.0, 0.0, 1e9, 1e18, -1e300, np.inf, np.nan, 0.5, 3.0])
        what = np.float64(number).tobytes() if rng.random() < 0.6 else rng.bytes(8)
        data[at : at + 8] = what[: len(data) - at]
    return raw[: 8 + length] + bytes(data)


def with_header(raw: bytes, rng: Any, *, inner: bool) -> bytes:
    """Return the file with something else somewhere in its layout, or in its header."""
    layout, data = taken_apart(raw)
    whole = json.loads(layout["__metadata__"]["header"]) if inner else layout
    for _ in range(rng.integers(1, 3)):
        _mutate(whole, rng)
    if inner:
        layout["__metadata__"]["header"] = json.dumps(whole)
    try:
        return put_together(Parts(layout, data))
    except (TypeError, AttributeError):
        return raw


def _mutate(value: Any, rng: Any) -> None:
    """Change something inside a JSON value."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        inside = value[key]
        if isinstance(inside, (dict, list)) and inside and rng.random() < 0.85:
            value = inside
            continue
        match rng.integers(4):
            case 0:
                del value[key]
            case 1 if isinstance(inside, int):
                value[key] = inside + int(rng.integers(-3, 4))
            case 2:
                value[key] = value[keys[rng.integers(len(keys))]]
            case _:
                value[key] = ODD[rng.integers(len(ODD))]
        return


def outcome(raw: bytes, path: Path) -> str:
    """Load a mutant and, if it loads, let it predict and learn: whatever is not refused in one line is raised."""
    path.write_bytes(raw)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except ModelFileError as error:
            message = str(error)
            if not message.startswith(f"{path}: ") or "\n" in message or len(message) > len(str(path)) + 600:
                raise AssertionError(f"not one line that begins with the path: {message!r}") from None
            return "refused"
        load_model(path).named()
        learner = model.learner if isinstance(model, Model) else model
        block, qid = rows(learner) if isinstance(learner, Learner) else (None, None)
        if block is None:
            return "loaded"
        try:
            learner.predict(block)
            learner.weights()
            learner.learn(block, qid if learner.ranking else None)
        except (ValueError, TypeError, ArithmeticError):
            return "loaded, did not learn on"
        return "learned on"


def main(n: int) -> None:
    """Try some mutants."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.psm"
        print(json.dumps(Counter(outcome(raw, path) for raw in islice(mutants(good(path), seed=0), n))))


if __name__ == "__main__":
    main(int(sys.argv[1]))
