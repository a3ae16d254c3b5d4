"""Several classes compiled: equal to the dense learners, cut anywhere, rows zero together, classes one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import random_array

import proxstream as ps
from proxstream.core import losses
from proxstream.core.losses import _kernels as kernel_losses
from proxstream.data.rowblock import as_block
from proxstream.learner._groups import RowL2, RowLinf, solve_row
from proxstream.learner._loop_multiclass import slopes
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import MulticlassLayout, ScalarLayout
from proxstream.learner.plan import multiclass_plan, plan

from ..examples import examples
from . import naive_multiclass as naive
from .naive_multiclass import CLASSES, D, sample

# -- equal to the dense learners -----------------------------------------------------------------


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.exhaustive), 40])
def test_combinations_interpreted(every: int) -> None:
    script = Path(__file__).with_name("naive_multiclass.py")
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", script, str(every)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 450 // every


COVERING = [
    (ps.FTRLProximal(alpha=0.5), ps.L1(0.02), losses.softmax),
    (ps.MirrorDescent(eta=0.3), ps.GroupLinf(0.02) + ps.L1(0.01), losses.softmax),
    (ps.AdaGrad(eta=0.5), ps.GroupL2(0.03), losses.multiclass_hinge),
    (ps.PassiveAggressive(C=0.1), None, losses.multiclass_hinge),
]


@pytest.mark.default_cases(1)
@pytest.mark.parametrize(("algorithm", "penalty", "loss"), COVERING)
def test_compiled(algorithm: Any, penalty: Any, loss: Any) -> None:
    assert not naive.difference(algorithm, penalty, loss, sample(), intercept=True)
    assert not naive.difference(algorithm, penalty, loss, sample(weighted=True), intercept=False)


@pytest.mark.interpreted
def test_predictions_are_the_next_scores() -> None:
    machine, rows = naive.engine(*COVERING[0]), sample()
    machine.learn(rows.slice(0, 30))
    rest = rows.slice(30, 45)
    assert np.array_equal(machine.predict(rest)[0], machine.learn(rest)[0])
    assert machine.t == 45
    assert machine.k == 45.0


@pytest.mark.interpreted
def test_predict_skips_features_without_cells() -> None:
    machine = naive.engine(*COVERING[0])
    machine.learn(sample())
    wide = as_block(np.ones((1, D + 5)))
    assert np.allclose(machine.predict(wide)[0], machine.weights()[0].sum(axis=0) + machine.weights()[1])


# -- the slopes ----------------------------------------------------------------------------------


@numba.njit
def _slopes(loss: Any, p: Any, y: int, g: Any) -> float:
    return slopes(loss, p, y, g)


@pytest.mark.parametrize("loss", [losses.softmax, losses.multiclass_hinge])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 30.0, 1e3, 1e8])
def test_slopes_are_the_losses_own(loss: Any, scale: float) -> None:
    rng = np.random.default_rng(0)
    for classes in (2, 3, 10):
        P = scale * rng.normal(size=(20, classes))
        P[5:10] = np.round(P[5:10])  # ties
        P[0], P[1] = 0.0, scale
        for p, y in zip(P, rng.integers(0, classes, len(P)), strict=True):
            g = np.full(classes, np.nan)
            suffered = _slopes(kernel_losses.as_tuple(loss), p, y, g)
            assert np.allclose(g, loss.slope(p, y), rtol=1e-12, atol=0.0)
            if loss is losses.multiclass_hinge:
                assert suffered == loss.value(p, y)


# -- rows as groups ------------------------------------------------------------------------------


@numba.njit
def _solve_row(penalty: Any, u: Any, h: Any, threshold: float, ridge: float, L: float) -> Any:
    work = np.concatenate((u, h, u))
    solve_row(penalty, work, u.shape[0], threshold, ridge, L)
    return work[: u.shape[0]]


@pytest.mark.default_cases(2)
@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize(("kind", "norm"), [(RowL2, ps.GroupL2), (RowLinf, ps.GroupLinf)])
def test_a_row_is_solved_as_the_penalty_solves_it(kind: Any, norm: Any, equal: bool, nonnegative: bool) -> None:
    rng = np.random.default_rng(1)
    for classes in (1, 2, 3, 7, 40):
        for k in (0.0, 1e-9, 0.5, 3.0, 1e4):
            u = rng.normal(size=classes) * 10.0 ** rng.uniform(-3, 3, classes)
            h = np.full(classes, 0.3) if equal else 10.0 ** rng.uniform(-4, 4, classes)
            penalty = norm(2.0) + ps.L1(0.1) + ps.L2(0.5)
            penalty = penalty + ps.NonNegative() if nonnegative else penalty
            expected = penalty.solve(u[None], h[None], k)[0]
            got = _solve_row(kind(0.1, 0.5, 2.0, nonnegative), u, h, 0.1 * k, 0.5 * k, 2.0 * k)
            assert np.allclose(got, expected, rtol=1e-12, atol=1e-300)
            assert np.array_equal(got == 0.0, expected == 0.0)


def _two_steps_are_one(penalty: Any, h: Any, x: Any) -> bool:
    def step(x: Any, k: float) -> Any:
        return penalty.solve(-h * x, h, k)

    return np.allclose(step(step(x, 0.7), 0.4), step(x, 1.1), rtol=1e-12, atol=1e-15)


def test_which_proxes_add_up_over_idle_rounds() -> None:
    x = np.array([[3.0, -2.0, 0.5], [1.0, 1.0, -4.0]])
    equal, unequal = np.full((2, 3), 2.0), np.array([[1.0, 2.0, 3.0], [0.3, 2.0, 0.1]])
    for penalty in (ps.GroupL2(1.0), ps.GroupLinf(1.0), ps.GroupLinf(1.0) + ps.L1(0.3)):
        assert _two_steps_are_one(penalty, equal, x)
    assert not _two_steps_are_one(ps.GroupL2(1.0) + ps.L1(0.3), equal, x)
    assert _two_steps_are_one(ps.GroupLinf(1.0), unequal, x)
    for penalty in (ps.GroupL2(1.0), ps.GroupLinf(1.0) + ps.L1(0.3), ps.GroupLinf(1.0) + ps.L2(0.3)):
        assert not _two_steps_are_one(penalty, unequal, x)


@pytest.mark.parametrize(
    ("algorithm", "penalty", "loss", "word"),
    [
        (ps.AdaGrad(update="mirror"), ps.GroupL2(0.1), "softmax", "unequal"),
        (ps.AdaGrad(update="mirror"), ps.GroupLinf(0.1) + ps.L1(0.1), "softmax", "unequal"),
        (ps.AdaGrad(update="mirror"), ps.GroupLinf(0.1) + ps.L2(0.1), "softmax", "unequal"),
        (ps.MirrorDescent(), ps.GroupL2(0.1) + ps.L1(0.1), "softmax", "turns"),
        (ps.SGD(), ps.GroupL2(0.1), "softmax", "SGD"),
        (ps.RDA(), ps.GroupL2(0.1, groups=[0, 0, 1]), "softmax", "rows"),
        (ps.RDA(), ps.L2Norm(0.1), "softmax", "L2Norm"),
        (ps.RDA(geometry=ps.PNorm(1.5)), None, "softmax", "couples"),
        (ps.AROW(), None, "multiclass_hinge", "one-vs-rest"),
        (ps.PassiveAggressive(), None, "softmax", "multiclass_hinge"),
        (ps.RDA(), None, "squared", "binary"),
    ],
)
def test_reasons_without_a_lazy_form(algorithm: Any, penalty: Any, loss: str, word: str) -> None:
    made = multiclass_plan(algorithm, ps.penalties.get(penalty), losses.get(loss), CLASSES, np.float64)
    assert isinstance(made, str)
    assert word in made


@pytest.mark.exhaustive
@pytest.mark.parametrize("index", [1, 2])
def test_rows_are_zero_together(index: int) -> None:
    algorithm, _, loss = COVERING[index]
    penalty = ps.GroupLinf(0.04) + ps.L1(0.01) if index == 1 else ps.GroupL2(0.08)
    machine = naive.engine(algorithm, penalty, loss)
    machine.learn(sample())
    zero = machine.weights()[0] == 0.0
    assert zero.all(axis=1).any()
    assert not zero.all()
    if index == 2:
        assert np.array_equal(zero.all(axis=1), zero.any(axis=1))


# -- the stream law ------------------------------------------------------------------------------


@pytest.mark.interpreted("core", "learner")
@pytest.mark.default_cases(1)
@pytest.mark.parametrize(
    ("combination", "dtype"),
    [
        *((combination, np.float64) for combination in COVERING),
        (COVERING[0], np.float32),
        (COVERING[1], np.float32),
    ],
)
@examples(8)
@given(cuts=st.lists(st.integers(0, 45), max_size=6), resume=st.booleans())
def test_cut_and_resumed_anywhere(combination: Any, dtype: Any, cuts: list[int], resume: bool) -> None:
    rows = sample(weighted=True, dtype=dtype)
    whole = naive.engine(*combination, dtype=dtype)
    scores = whole.learn(rows)
    pieces, got = naive.engine(*combination, dtype=dtype), []
    edges = [0, *sorted(cuts), rows.n_rows]
    for start, stop in pairwise(edges):
        got.append(pieces.learn(rows.slice(start, stop)))
        if resume:
            saved = {name: array.copy() for name, array in pieces.arrays().items()}
            pieces = naive.engine(*combination, dtype=dtype)
            pieces.restore(saved)
    assert np.array_equal(np.concatenate(got), scores)
    for a, b in zip(pieces.weights(), whole.weights(), strict=True):
        assert np.array_equal(a, b)
    for name, array in whole.arrays().items():
        assert np.array_equal(array, pieces.arrays()[name])
    assert whole.weights()[0].dtype == dtype


@pytest.mark.interpreted("core", "learner")
def test_grown_as_if_always_there() -> None:
    algorithm, penalty, loss = COVERING[1]
    small = sample()
    keep = small.indices < D - 2
    counts = np.add.reduceat(keep, small.indptr[:-1]) * (np.diff(small.indptr) > 0)
    narrow = small._replace(
        indptr=np.concatenate(([0], np.cumsum(counts))).astype(small.indptr.dtype),
        indices=small.indices[keep],
        data=small.data[keep],
    )
    made = multiclass_plan(algorithm, penalty, loss, CLASSES, np.float64)
    grown = CompiledEngine(MulticlassLayout(made), D - 2)  # type: ignore[arg-type]
    whole = naive.engine(algorithm, penalty, loss)
    grown.learn(narrow), whole.learn(narrow)
    grown.grow(D)
    grown.learn(small), whole.learn(small)
    assert np.array_equal(grown.weights()[0], whole.weights()[0])
    assert grown.n_features == D


def test_labels_that_are_no_classes_leave_the_state() -> None:
    machine, rows = naive.engine(*COVERING[0]), sample()
    for bad in (-1.0, float(CLASSES), 0.5, np.nan):
        y = rows.y.copy()
        y[7] = bad
        with pytest.raises(ValueError, match=r"y must be a class in 0..2, got .* at index 7"):
            machine.learn(rows._replace(y=y))
    assert machine.t == 0
    assert not machine.arrays()["state"].any()


@pytest.mark.interpreted("core", "learner")
def test_weight_zero_leaves_the_model() -> None:
    machine, rows = naive.engine(*COVERING[1]), sample(weighted=True)
    seen = rows.c > 0.0
    picked = as_block(naive.dense(rows)[seen], rows.y[seen], rows.c[seen])
    other = naive.engine(*COVERING[1])
    machine.learn(rows), other.learn(picked)
    assert np.array_equal(machine.weights()[0], other.weights()[0])
    assert machine.t == seen.sum()


@pytest.mark.exhaustive
def test_threads_learn_the_same_problem() -> None:
    rng = np.random.default_rng(0)
    X = random_array((8000, 2000), density=0.005, format="csr", rng=rng)
    y = np.asarray(X @ rng.normal(size=(2000, CLASSES))).argmax(axis=1)
    for algorithm, _, loss in COVERING[:2]:
        penalty = ps.GroupLinf(1e-5) + ps.L1(1e-5) if isinstance(algorithm, ps.MirrorDescent) else ps.L1(1e-5)
        made = multiclass_plan(algorithm, penalty, loss, CLASSES, np.float64)
        one, two = (CompiledEngine(MulticlassLayout(made), 2000) for _ in range(2))  # type: ignore[arg-type]
        suffered = [np.mean(loss.value(s, y)) for s in (one.learn(as_block(X, y)), two.learn(as_block(X, y), 2))]
        assert suffered[1] == pytest.approx(suffered[0], rel=0.05)
        assert one.t == two.t


# -- one-vs-rest ---------------------------------------------------------------------------------


@pytest.mark.interpreted
@pytest.mark.default_cases(1)
@pytest.mark.parametrize(
    ("algorithm", "penalty", "loss", "dtype"),
    [
        (ps.FTRLProximal(alpha=0.5), ps.L1(0.02), losses.logistic, np.float32),
        (ps.AROW(), None, losses.hinge, np.float64),
        (ps.MirrorDescent(), ps.ElasticNet(0.01, 0.1), losses.squared_hinge, np.float64),
    ],
)
def test_one_vs_rest_is_a_scalar_engine_a_class(algorithm: Any, penalty: Any, loss: Any, dtype: Any) -> None:
    # The two loops sum a row in different orders: equal to rounding, and in their zeros.
    close = {"rtol": 1e-12, "atol": 1e-13} if dtype == np.float64 else {"rtol": 1e-5, "atol": 1e-6}
    rows = sample(dtype=dtype)
    machine = naive.engine(algorithm, penalty, loss, dtype=dtype)
    scores = machine.learn(rows)
    W, b = machine.weights()
    for c in range(CLASSES):
        one = plan(algorithm, ps.penalties.get(penalty), loss, dtype)
        alone = CompiledEngine(ScalarLayout(one), D, dtype)  # type: ignore[arg-type]
        own = alone.learn(rows._replace(y=np.where(rows.y == c, 1.0, -1.0)))
        np.testing.assert_allclose(own, scores[:, c], **close)
        np.testing.assert_allclose(alone.weights()[0], W[:, c], **close)
        np.testing.assert_allclose(alone.weights()[1], b[c], **close)
        assert np.array_equal(alone.weights()[0] == 0.0, W[:, c] == 0.0)
