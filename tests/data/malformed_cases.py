"""Sparse matrices whose arrays do not fit together, and every way into the package that takes one.

Run as a program it prints, for each way in named on the command line, what became of each matrix: a crash of the
process, which no test could catch, ends its output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

import proxstream as ps
from proxstream.batch import StructuredSDCA
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.learner import Learner
from proxstream.models.model import Weights

N, D = 6, 4
DENSE = np.array(
    [
        [1.0, 0.0, 2.0, 0.0],
        [0.0, 1.0, 0.0, 0.5],
        [1.5, 0.0, 0.0, 1.0],
        [0.0, 2.0, 1.0, 0.0],
        [0.5, 0.0, 0.0, 3.0],
        [0.0, 1.0, 0.0, 1.0],
    ]
)
LABELS = np.array([0, 1, 0, 1, 0, 1])


def changed(array: Any, at: int, value: int) -> Any:
    array = array.astype(np.int64)
    array[at] = value
    return array


def made(format: str = "csr", kind: Any = sparse.csr_array, **arrays: Callable[[Any], Any]) -> Any:
    """Return the matrix in a format, with some of its arrays changed behind scipy's back."""
    X = kind(DENSE).asformat(format)
    for name, change in arrays.items():
        setattr(X, name, change(getattr(X, name)))
    return X


def shaped(format: str, shape: tuple[int, int]) -> Any:
    X = made(format)
    X._shape = shape
    return X


MALFORMED: dict[str, Callable[[], Any]] = {
    "index beyond the columns": lambda: made(indices=lambda a: changed(a, 3, 99)),
    "index of the next column": lambda: made(indices=lambda a: changed(a, 3, D)),
    "index -1": lambda: made(indices=lambda a: changed(a, 3, -1)),
    "index 2^30": lambda: made(indices=lambda a: changed(a, 3, 1 << 30).astype(np.int32)),
    "index 2^62": lambda: made(indices=lambda a: changed(a, 3, 1 << 62)),
    "index -2^63": lambda: made(indices=lambda a: changed(a, 3, -(1 << 63))),
    "indptr falls": lambda: made(indptr=lambda a: changed(a, 3, 1)),
    "indptr falls by 2^63": lambda: made(indptr=lambda a: changed(changed(a, 2, (1 << 63) - 1), 3, -(1 << 63))),
    "indptr past the end": lambda: made(indptr=lambda a: changed(a, -1, 10**9)),
    "indptr beyond and back": lambda: made(indptr=lambda a: changed(a, 3, 10**9)),
    "indptr negative": lambda: made(indptr=lambda a: changed(a, 0, -5)),
    "indptr begins at 1": lambda: made(indptr=lambda a: changed(a, 0, 1)),
    "indptr too short": lambda: made(indptr=lambda a: a[:-1]),
    "indptr too long": lambda: made(indptr=lambda a: np.append(a, a[-1])),
    "indptr empty": lambda: made(indptr=lambda a: a[:0]),
    "indptr of floats": lambda: made(indptr=lambda a: a.astype(float)),
    "indptr as a matrix": lambda: made(indptr=lambda a: a[None, :]),
    "indptr a list": lambda: made(indptr=lambda a: a.tolist()),
    "data shorter": lambda: made(data=lambda a: a[:-4]),
    "data empty": lambda: made(data=lambda a: a[:0]),
    "data as a matrix": lambda: made(data=lambda a: a[:, None]),
    "data of objects": lambda: made(data=lambda a: a.astype(object)),
    "data complex": lambda: made(data=lambda a: a + 1j),
    "indices shorter": lambda: made(indices=lambda a: a[:-4]),
    "indices of floats": lambda: made(indices=lambda a: a + 0.5),
    "indices unsigned": lambda: made(indices=lambda a: a.astype(np.uint64)),
    "indices of bytes": lambda: made(indices=lambda a: a.astype(np.int8)),
    "indices of the other order": lambda: made(indices=lambda a: a.astype(">i4")),
    "indices of booleans": lambda: made(indices=lambda a: a > 0),
    "shape of fewer columns": lambda: shaped("csr", (N, 2)),
    "shape of no columns": lambda: shaped("csr", (N, 0)),
    "csc index": lambda: made("csc", indices=lambda a: changed(a, 3, 1 << 30)),
    "csc index -1": lambda: made("csc", indices=lambda a: changed(a, 3, -1)),
    "csc indptr": lambda: made("csc", indptr=lambda a: changed(a, -1, 10**9)),
    "csc shape": lambda: shaped("csc", (3, D)),
    "coo row": lambda: made("coo", coords=lambda a: (changed(a[0], 3, 1 << 30), a[1])),
    "coo column": lambda: made("coo", coords=lambda a: (a[0], changed(a[1], 3, D))),
    "coo negative": lambda: made("coo", coords=lambda a: (changed(a[0], 3, -9), a[1])),
    "coo data shorter": lambda: made("coo", data=lambda a: a[:-4]),
    "bsr index": lambda: made("bsr", indices=lambda a: changed(a, 3, 1 << 30)),
    "bsr indptr": lambda: made("bsr", indptr=lambda a: changed(a, 2, 10**9)),
    "bsr data": lambda: made("bsr", data=lambda a: a[:-2]),
    "dia data": lambda: made("dia", data=lambda a: a[:1]),
    "lil lengths": lambda: made("lil", data=lambda a: np.array([[1.0] * 9] * N + [[]], object)[:N]),
    "lil column": lambda: made("lil", rows=lambda a: np.array([[0, 77]] * N + [[]], object)[:N]),
}


JUDGED: dict[str, Any] = {"loss": "logistic", "penalty": ps.L2(0.1)}


def model() -> tuple[Any, float]:
    return np.ones(D), 0.0


@cache
def learned() -> Any:
    return ps.StreamClassifier(ps.RDA()).fit(DENSE, LABELS)


@cache
def certified() -> Any:
    return ps.CertifiedClassifier().fit(DENSE, LABELS)


@cache
def path_model() -> Any:
    return ps.regularization_path(DENSE, LABELS, loss="logistic", penalty=ps.L1(1.0), n_strengths=3).model(1)


class Structured:
    """Features that are what is tried."""

    dim = N * D

    def __init__(self, X: Any) -> None:
        self.X = X

    def features(self, x: Any, y: Any) -> Any:
        return self.X

    def loss(self, y: Any, other: Any) -> float:
        return float(y != other)

    def argmax(self, w: Any, x: Any, y: Any) -> Any:
        return 1 - y


def block_of(X: Any) -> RowBlock:
    """Return the arrays of a CSR matrix as they are."""
    return RowBlock(X.indptr, X.indices, X.data, 2.0 * LABELS - 1.0)


WAYS: dict[str, Callable[[Any], Any]] = {
    "as_block": as_block,
    "stream fit": lambda X: ps.StreamClassifier(ps.RDA()).fit(X, LABELS),
    "stream shuffled": lambda X: ps.StreamClassifier(ps.RDA(), shuffle=True, random_state=0).fit(X, LABELS),
    "stream partial_fit": lambda X: ps.StreamClassifier(ps.RDA()).partial_fit(X, LABELS),
    "stream fit_stream": lambda X: ps.StreamClassifier(ps.RDA()).fit_stream([(X, LABELS)], classes=[0, 1]),
    "stream regressor": lambda X: ps.StreamRegressor(ps.RDA()).fit(X, LABELS),
    "stream predict": lambda X: learned().predict(X),
    "ranker": lambda X: ps.StreamRanker(ps.RDA()).fit(X, LABELS, qid=np.zeros(N, int)),
    "certified fit": lambda X: ps.CertifiedClassifier().fit(X, LABELS),
    "certified l1": lambda X: ps.CertifiedClassifier(penalty=ps.L1(0.01)).fit(X, LABELS),
    "certified regressor": lambda X: ps.CertifiedRegressor().fit(X, LABELS),
    "certified predict": lambda X: certified().predict(X),
    "sdca": lambda X: ps.SDCAClassifier(penalty=ps.L2(0.1)).fit(X, LABELS),
    "sdca regressor": lambda X: ps.SDCARegressor(penalty=ps.L2(0.1)).fit(X, LABELS),
    "certificate": lambda X: ps.certificate(model(), X, 2 * LABELS - 1, **JUDGED),
    "certificate of a stream": lambda X: ps.certificate(model(), [(X, 2 * LABELS - 1)], **JUDGED),
    "path": lambda X: ps.regularization_path(X, LABELS, loss="logistic", penalty=ps.L1(1.0), n_strengths=3),
    "path model": lambda X: (
        ps.regularization_path(DENSE, LABELS, loss="logistic", penalty=ps.L1(1.0), n_strengths=3).model(1).predict(X)
    ),
    "open_stream": lambda X: list(ps.open_stream((X, LABELS))),
    "structured": lambda X: StructuredSDCA(Structured(X), 0.1).fit([0, 1], [0, 1]),
}

BLOCK_WAYS: dict[str, Callable[[Any], Any]] = {
    "learn": lambda X: Learner(ps.RDA(), "logistic", n_features=D).learn(block_of(X)),
    "learn growing": lambda X: Learner(ps.RDA(), "logistic", growing=True).learn(block_of(X)),
    "predict": lambda X: Learner(ps.RDA(), "logistic", n_features=D).predict(block_of(X)),
    "weights": lambda X: Weights(*model(), "logistic").predict(block_of(X)),
    "stream predict": lambda X: learned().predict(block_of(X)),
    "certified predict": lambda X: certified().predict(block_of(X)),
    "certificate": lambda X: ps.certificate(model(), block_of(X), **JUDGED),
    "path": lambda X: ps.regularization_path(block_of(X), None, loss="logistic", penalty=ps.L1(1.0), n_strengths=3),
}


def became(way: Callable[[Any], Any], X: Any) -> str:
    """Return what became of a matrix: "accepted", or the error in one line."""
    try:
        way(X)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "accepted"


# What a block, which has no shape, can be in spite of it: features that a model does not know count 0.
UNBOUNDED = ("index beyond", "index of the next", "index 2^", "indptr begins at 1", "indptr too", "shape")


def cases(name: str) -> dict[str, Callable[[], Any]]:
    """Return the matrices that a way in must refuse."""
    if not name.startswith("block "):
        return MALFORMED
    named = {case: make for case, make in MALFORMED.items() if not case.startswith(UNBOUNDED)}
    return {case: make for case, make in named.items() if make().format == "csr"}


def main() -> None:
    for name in sys.argv[1:] or [*WAYS, *(f"block {way}" for way in BLOCK_WAYS)]:
        way = BLOCK_WAYS[name.removeprefix("block ")] if name.startswith("block ") else WAYS[name]
        for case, make in cases(name).items():
            print(f"{name}\t{case}\t", end="", flush=True)
            print(became(way, make()), flush=True)


if __name__ == "__main__":
    main()
