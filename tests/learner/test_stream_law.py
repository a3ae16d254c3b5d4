"""The stream law: a model is a function of its rows in their order, bit for bit, wherever they are cut or saved."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.core import losses
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.learner import Learner

from ..examples import examples
from .kernel_cases import Case, D, Setting, engine, stream

ROWS = 40

CASES = {
    "ftrl": Case(ps.FTRLProximal(0.3, beta=0.0), ps.L1(0.05), losses.poisson),
    "mirror": Case(ps.MirrorDescent(0.3), ps.ElasticNet(0.04, 0.3), losses.smoothed_hinge(0.5)),
    "mirror, underflow": Case(ps.MirrorDescent(10.0, "constant"), ps.ElasticNet(0.5, 1e6), losses.smoothed_hinge(0.5)),
    "adagrad-mirror": Case(ps.AdaGrad(0.4, update="mirror"), ps.ElasticNet(0.05, 0.3), losses.squared_hinge),
    "truncated": Case(ps.TruncatedGradient(0.3, 3), ps.L1(0.05), losses.absolute),
    "sgd, rho <= 0 at first": Case(ps.SGD(4.0, "linear"), ps.L2(0.5), losses.hinge),
    "pa": Case(ps.PassiveAggressive(0.4, "PA-II"), ps.NoPenalty(), losses.epsilon_insensitive),
}
MEANS = {"mirror", "mirror, underflow", "sgd, rho <= 0 at first"}
NARROW = {"ftrl", "mirror", "adagrad-mirror"}
PLAYS = [
    *((name, np.float64, False) for name in CASES),
    *((name, np.float64, True) for name in CASES if name in MEANS),
    *((name, np.float32, False) for name in CASES if name in NARROW),
]

cuts = st.lists(st.tuples(st.integers(0, ROWS), st.sampled_from(["go on", "restore", "file"])), max_size=6)


def through_file(arrays: dict[str, Any]) -> Any:
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    return np.load(file)


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(a[name].dtype == b[name].dtype for name in a) and not different(a, b)


def different(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    return [name for name in a if not np.array_equal(a[name], b[name])]


def cut(rows: RowBlock, start: int, stop: int) -> RowBlock:
    """The rows as a block of their own."""
    first, last = rows.indptr[start], rows.indptr[stop]
    return RowBlock(
        rows.indptr[start : stop + 1] - first,
        rows.indices[first:last],
        rows.data[first:last],
        rows.y[start:stop],
        rows.c[start:stop],
    )


@pytest.mark.interpreted
@pytest.mark.default_cases(1)
@pytest.mark.parametrize(("name", "dtype", "average"), PLAYS)
@examples(20)
@given(seed=st.integers(0, 1000), weighted=st.booleans(), places=cuts)
def test_cutting_and_saving_change_nothing(
    name: str, dtype: Any, average: bool, seed: int, weighted: bool, places: list[tuple[int, str]]
) -> None:
    case = CASES[name]
    setting = Setting(weighted, average=average, rows=ROWS, seed=seed)
    rows = stream(case.loss, setting, unit=name == "adagrad-mirror").block(dtype=dtype)
    whole = engine(case, setting, dtype)
    expected = whole.learn(rows)

    own, start, scores = engine(case, setting, dtype), 0, []
    for stop, what in [*sorted(places), (ROWS, "go on")]:
        scores.append(own.learn(cut(rows, start, stop)))
        start = stop
        if what != "go on":
            saved = own.arrays() if what == "restore" else through_file(own.arrays())
            own = engine(case, setting, dtype)
            own.restore(saved)
    assert np.array_equal(np.concatenate(scores), expected)
    assert same(own.arrays(), whole.arrays())
    for a, b in zip(own.weights(), whole.weights(), strict=True):
        assert np.array_equal(a, b)
    if average:
        for a, b in zip(own.averages(), whole.averages(), strict=True):
            assert np.array_equal(a, b)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["mirror", "ftrl", "sgd, rho <= 0 at first"])
@examples(15)
@given(seed=st.integers(0, 1000), places=st.lists(st.integers(0, ROWS), max_size=4))
def test_growing_in_steps_equals_starting_wide(name: str, seed: int, places: list[int]) -> None:
    case = CASES[name]
    setting = Setting(rows=ROWS, seed=seed, average=name in MEANS)
    rows = stream(case.loss, setting).block()
    wide, narrow = engine(case, setting), engine(case, setting, n_features=0)
    wide.learn(rows)
    start = 0
    for stop in [*sorted(places), ROWS]:
        block = cut(rows, start, stop)
        narrow.grow(block.n_features)
        narrow.learn(block)
        start = stop
    narrow.grow(D)
    assert same(narrow.arrays(), wide.arrays())


@pytest.mark.interpreted("core", "learner")
@examples(15)
@given(seed=st.integers(0, 1000), dtype=st.sampled_from([np.float32, np.float64]))
def test_dense_rows_and_sparse_rows_are_one_stream(seed: int, dtype: Any) -> None:
    case = CASES["mirror"]
    rows = stream(case.loss, Setting(rows=ROWS, seed=seed))
    X = rows.X.astype(dtype)
    X.sum_duplicates()
    dense, sparse = (engine(case, Setting(), dtype) for _ in range(2))
    dense.learn(as_block(X.toarray(), rows.y))
    sparse.learn(as_block(X, rows.y))
    assert same(dense.arrays(), sparse.arrays())


@pytest.mark.parametrize(
    ("algorithm", "penalty"),
    [
        (ps.MirrorDescent(0.3), ps.ElasticNet(0.04, 0.3)),
        (ps.RDA(), ps.L1Ball(0.5)),
        (ps.AdaGrad(matrix="full"), ps.L2(0.1)),
    ],
    ids=["compiled", "dense", "full matrix"],
)
@examples(8)
@given(seed=st.integers(0, 1000), places=cuts)
def test_learners_obey_the_law_with_their_losses(
    algorithm: Any, penalty: Any, seed: int, places: list[tuple[int, str]]
) -> None:
    def fresh() -> Learner:
        return Learner(algorithm, losses.smoothed_hinge(0.5), penalty, n_features=D)

    rows = stream(losses.hinge, Setting(True, rows=ROWS, seed=seed)).block()
    whole, own, start = fresh(), fresh(), 0
    whole.learn(rows)
    for stop, what in [*sorted(places), (ROWS, "go on")]:
        own.learn(cut(rows, start, stop))
        start = stop
        if what != "go on":
            saved = own.state_dict() if what == "restore" else through_file(own.state_dict())
            own = fresh()
            own.load_state_dict(saved)
    assert same(own.state_dict(), whole.state_dict())
    assert own.progressive_loss == whole.progressive_loss or np.isnan(whole.progressive_loss)
    assert np.array_equal(own.predict(rows), whole.predict(rows))
