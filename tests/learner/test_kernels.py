"""Compiled learners of one output equal the dense family, zeros and all, whatever the algorithm, loss and penalty."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.core import losses
from proxstream.core.algorithms import ALGORITHMS
from proxstream.core.penalties import PENALTIES
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner import _loop as driver, _loop_averaged as averaged
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import AveragedLayout, ScalarLayout
from proxstream.learner.plan import Plan, plan

from . import kernel_cases
from .kernel_cases import Case, Setting, Twin, differences, engine, stream

# What has no kernel of one output, or is shown elsewhere.
DENSE_ALGORITHMS = {"accelerated_rda", "ftrl", "follow_the_leader"}
ELSEWHERE = {"auto_ftrl"}  # a kernel and a test file of its own
DENSE_PENALTIES = {
    "berhu": ps.Berhu(0.1, 0.5),
    "group_l2": ps.GroupL2(0.1, [0, 0, 1]),
    "group_linf": ps.GroupLinf(0.1, [0, 0, 1]),
    "l2_norm": ps.L2Norm(0.1),
    "linf_norm": ps.LinfNorm(0.1),
    "kl": ps.KL(0.1),
    "l1_ball": ps.L1Ball(1.0),
    "l2_ball": ps.L2Ball(1.0),
    "simplex": ps.Simplex(1.0),
}


def made(algorithm: Any, loss: str = "logistic", penalty: Any = None) -> Plan:
    built = plan(algorithm, penalty or ps.NoPenalty(), losses.get(loss), np.float64)
    assert not isinstance(built, str), built
    return built


# -- the matrix ----------------------------------------------------------------------------------


def test_the_matrix_holds_everything_that_is_registered() -> None:
    assert set(kernel_cases.ALGORITHMS) | DENSE_ALGORITHMS == set(ALGORITHMS) - ELSEWHERE
    assert set(kernel_cases.PENALTIES) - {"sum"} | set(DENSE_PENALTIES) == set(PENALTIES)
    scalar = {name for name in losses.names() if losses.get(name).kind != "multiclass"}
    assert set(kernel_cases.LOSSES) == scalar
    for name, members in kernel_cases.ALGORITHMS.items():
        assert all(type(member) is ALGORITHMS[name] for member in members)


def play_interpreted(every: int, *names: str) -> dict[str, dict[str, Any]]:
    """Losses and penalties, with and without weights, means and cuts, in epochs of 5, of 8 and of all rows."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", kernel_cases.__file__, str(every), *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    reports: dict[str, dict[str, Any]] = json.loads(done.stdout)
    assert [failure for report in reports.values() for failure in report["failures"]] == []
    return reports


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", kernel_cases.ALGORITHMS)
def test_every_interpreted_kernel_equals_the_dense_family(name: str) -> None:
    report = play_interpreted(1, name)[name]
    assert report["played"] >= 20
    assert min(report["settled"], report["averaged"]) >= 8


def test_interpreted_kernels_equal_the_dense_family() -> None:
    reports = play_interpreted(40, *kernel_cases.ALGORITHMS)
    assert all(report["played"] for report in reports.values())
    assert sum(report["played"] for report in reports.values()) >= 60


# Each algorithm, loss and kind of penalty at least once, in as few kernels as will do.
COVERING = {
    "rda": Case(ps.RDA(gamma=1.5, rho=0.03), ps.ElasticNet(0.02, 0.1), losses.logistic),
    "rda-zero": Case(ps.RDA(schedule="zero"), ps.L2(0.5) + ps.Box(-0.3, 0.4), losses.squared),
    "adagrad": Case(ps.AdaGrad(0.3, delta=0.0), ps.L1(0.05), losses.hinge),
    "adagrad-mirror": Case(ps.AdaGrad(0.4, update="mirror"), ps.ElasticNet(0.05, 0.3), losses.squared_hinge),
    "adagrad-strong": Case(ps.AdaGrad(0.5, 0.5, "mirror", strongly_convex=True), ps.Box(0.1, 0.3), losses.huber),
    "ftrl": Case(ps.FTRLProximal(0.3, beta=0.0), ps.L1(0.05), losses.poisson),
    "ftrl-once": Case(ps.FTRLProximal(0.5, penalty_weight="once"), ps.NonNegative(), losses.quantile(0.8)),
    "mirror": Case(ps.MirrorDescent(0.3), ps.ElasticNet(0.04, 0.3), losses.smoothed_hinge(0.5)),
    "mirror-bounded": Case(ps.MirrorDescent(0.8, "linear"), ps.L1(0.03) + ps.Box(-0.2, 0.3), losses.perceptron),
    "truncated": Case(ps.TruncatedGradient(0.3, 3), ps.L1(0.05), losses.absolute),
    "sgd": Case(ps.SGD(4.0, "linear"), ps.L2(0.5), losses.hinge),
    "pa": Case(ps.PassiveAggressive(0.4, "PA-II"), ps.NoPenalty(), losses.epsilon_insensitive),
    "rda-gamma": Case(ps.RDA(gamma=5.0), ps.L1(0.02), losses.gamma),
    "ftrl-tweedie": Case(ps.FTRLProximal(0.1), ps.L1(0.02), losses.tweedie),
    "arow": Case(ps.AROW(0.7), ps.Box(-0.5, 0.5), losses.ranking_hinge),
}


def test_the_covering_set_covers() -> None:
    assert {case.algorithm.name for case in COVERING.values()} == set(kernel_cases.ALGORITHMS)
    assert {case.loss.name for case in COVERING.values()} == set(kernel_cases.LOSSES)
    kinds = {type(part) for case in COVERING.values() for part in case.penalty.parts}
    assert kinds == {PENALTIES[name] for name in set(kernel_cases.PENALTIES) - {"sum"}}


# In the default run: one that is compiled ahead, and two that other tests compile too.
OFTEN = ("rda", "mirror")
COMPILED = [
    pytest.param(case, id=name, marks=[pytest.mark.exhaustive] * (name not in OFTEN)) for name, case in COVERING.items()
]


@pytest.mark.default_cases(len(OFTEN))
@pytest.mark.parametrize("case", COMPILED)
def test_compiled_kernels_equal_the_dense_family(case: Case) -> None:
    for seed, weighted in enumerate((False, True)):
        for cuts in ((), (9, 9, 40)):
            assert differences(case, Setting(weighted, cuts=cuts, rows=60, seed=seed)) == []


MEANS = ("adagrad", "mirror", "truncated", "sgd", "arow")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MEANS)
def test_compiled_means_equal_the_dense_family(name: str) -> None:
    case = COVERING[name]
    for seed, weighted in enumerate((False, True)):
        assert differences(case, Setting(weighted, average=True, cuts=(7, 31), rows=60, seed=seed)) == []


# -- decay, epochs and idle rounds ----------------------------------------------------------------


EXTREME = {
    "underflow": Case(ps.MirrorDescent(10.0, "constant"), ps.ElasticNet(0.5, 1e4), losses.smoothed_hinge(0.5)),
    "rho = 0": Case(ps.SGD(0.5, "constant"), ps.L2(2.0), losses.hinge),
    "rho < 0": Case(ps.SGD(0.5, "constant"), ps.L2(2.5), losses.hinge),
    "truncated, rho < 0": Case(
        ps.TruncatedGradient(0.5, 3, schedule="constant"), ps.ElasticNet(0.01, 2.5), losses.absolute
    ),
}


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("name", EXTREME)
def test_decay_that_ends_an_epoch(name: str) -> None:
    case = EXTREME[name]
    for weighted in (False, True):
        assert differences(case, Setting(weighted, rows=80, seed=3)) == []


def test_pegasos_forgets_its_first_point_and_is_right_from_there() -> None:
    """eta_t = 1/(lam t): rho = 0 in round 1, and 1 - 1/t from then on."""
    case = Case(ps.SGD(eta=1.0 / 0.1, schedule="linear"), ps.L2(0.1), losses.hinge)
    assert differences(case, Setting(rows=200, seed=4)) == []


IDLE = {
    "mirror": Case(ps.MirrorDescent(0.3, "constant"), ps.ElasticNet(1e-6, 1e-3), losses.smoothed_hinge(0.5)),
    "sgd": Case(ps.SGD(0.3, "constant"), ps.L2(1e-3), losses.hinge),
    "adagrad-mirror": Case(ps.AdaGrad(0.4, update="mirror"), ps.ElasticNet(1e-6, 1e-3), losses.squared_hinge),
    "adagrad-mirror, l1": Case(ps.AdaGrad(0.4, update="mirror"), ps.L1(1e-6), losses.squared_hinge),
    "rda": Case(ps.RDA(), ps.ElasticNet(1e-5, 1e-3), losses.logistic),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", IDLE)
def test_a_feature_that_sleeps_for_thousands_of_rounds(name: str) -> None:
    """Seen in the first and in the last row; in between rows are empty, which decay like any other."""
    case = IDLE[name]
    gap, own, twin = 3000, engine(case, Setting()), Twin(case, intercept=True)
    z = np.zeros(kernel_cases.D)
    z[2] = 1.0
    for row, repeats in ((z, 2), (0.0 * z, gap), (z, 2)):
        own.learn(as_block(csr_array(np.tile(row, (repeats, 1))), np.ones(repeats)))
        for _ in range(repeats):
            twin.learn(row, 1.0, 1.0)
    (w, b), (ref, bias) = own.weights(), twin.read("point")
    np.testing.assert_allclose(w, ref, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(b, bias, rtol=1e-10)
    assert w[2] != 0.0


@pytest.mark.exhaustive
@pytest.mark.parametrize("l2", [0.0, 0.05, 0.5])
def test_means_keep_their_digits_under_any_decay(l2: float) -> None:
    """P falls to 1e-9 and below here: sums of it since the beginning would hold no digit of a feature's own."""
    case = Case(ps.MirrorDescent(0.3, "constant"), ps.ElasticNet(1e-3, l2), losses.smoothed_hinge(0.5))
    assert differences(case, Setting(average=True, cuts=(100,), rows=1500, seed=8)) == []


# -- numbers too small and too large ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["adagrad", "ftrl"])
def test_a_gradient_whose_square_underflows_moves_a_fresh_feature_by_one_step(name: str, dtype: Any) -> None:
    algorithm = {"adagrad": ps.AdaGrad(0.3, delta=0.0), "ftrl": ps.FTRLProximal(0.3, beta=0.0)}[name]
    built = plan(algorithm, ps.NoPenalty(), losses.logistic, dtype)
    assert isinstance(built, Plan)
    own = CompiledEngine(ScalarLayout(built), 1, dtype, fit_intercept=False)
    tiny = {np.float32: 1e-30, np.float64: 1e-200}[dtype]
    own.learn(as_block(np.array([[tiny]], dtype), [1.0]))
    np.testing.assert_allclose(own.weights()[0], [0.3], rtol=1e-6)


@pytest.mark.interpreted
def test_arow_keeps_a_small_variance_in_32_bits() -> None:
    wide, narrow = (engine(COVERING["arow"], Setting(intercept=False), dtype) for dtype in (np.float64, np.float32))
    X = np.zeros((400, kernel_cases.D))
    X[:, 0] = 300.0
    y = np.where(np.arange(400) % 2, 1.0, -1.0)
    for own, dtype in ((wide, np.float64), (narrow, np.float32)):
        own.learn(as_block(X.astype(dtype), y))
    exact, rounded = (1.0 / (1.0 + own.arrays()["state"][0, 1]) for own in (wide, narrow))
    assert exact < 1e-7
    np.testing.assert_allclose(rounded, exact, rtol=1e-3)


# -- rows -----------------------------------------------------------------------------------------


def learned(rows: RowBlock, case: Case = COVERING["mirror"], dtype: Any = np.float64) -> dict[str, Any]:
    own = engine(case, Setting(), dtype)
    own.learn(rows)
    return own.arrays()


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.interpreted("core", "learner")
def test_the_same_rows_in_any_form() -> None:
    X = stream(losses.hinge, Setting(rows=40)).X
    y = np.where(np.arange(40) % 3 == 0, 1.0, -1.0)
    expected = learned(as_block(X.toarray(), y))
    assert not X.has_canonical_format
    assert not X.data.all()
    assert not X.has_sorted_indices
    before = X.data.copy()
    for name in ("tocsr", "tocsc", "tocoo", "tobsr"):
        assert same(learned(as_block(getattr(X, name)(), y)), expected)
    assert np.array_equal(X.data, before)  # a matrix that is not canonical is copied, not mended
    block = as_block(X, y)
    wide = block._replace(indptr=block.indptr.astype(np.int64), indices=block.indices.astype(np.int64))
    assert same(learned(wide), expected)


def test_the_order_of_indices_in_a_row_changes_no_cell() -> None:
    """But for the rounding of the sum that predicts."""
    block = as_block(stream(losses.hinge, Setting(rows=40)).X, np.ones(40))
    turned = block._replace(indices=block.indices.copy(), data=block.data.copy())
    for a, b in zip(block.indptr[:-1], block.indptr[1:], strict=True):
        turned.indices[a:b], turned.data[a:b] = block.indices[a:b][::-1], block.data[a:b][::-1]
    for name, array in learned(turned).items():
        np.testing.assert_allclose(array, learned(block)[name], rtol=1e-12, atol=1e-14)


def test_integers_and_booleans_become_numbers() -> None:
    X = np.array([[1, 0, 2], [0, 3, 0]])
    expected = as_block(X.astype(np.float64))
    for form in (X, csr_array(X), X.astype(np.int8)):
        assert same(as_block(form)._asdict(), expected._asdict())
    assert as_block(X > 0).data.dtype == np.float64
    assert as_block(X.astype(np.float32)).data.dtype == np.float32
    assert as_block(X, dtype=np.float32).data.dtype == np.float32
    with pytest.raises(ValueError, match=r"X must be a matrix, got shape \(3,\)"):
        as_block(X[0])


def test_empty_blocks_and_rows_and_features_never_seen() -> None:
    own = engine(COVERING["mirror"], Setting())
    fresh = {name: array.copy() for name, array in own.arrays().items()}
    assert own.learn(as_block(np.zeros((0, kernel_cases.D)), [])).shape == (0,)
    assert same(own.arrays(), fresh)
    assert own.predict(as_block(np.zeros((0, kernel_cases.D)))).shape == (0,)
    own.learn(as_block(np.zeros((3, kernel_cases.D)), [1.0, 1.0, -1.0]))
    w, b = own.weights()
    assert not w.any()
    assert b != 0.0
    assert own.t == 3


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["mirror", "adagrad-mirror", "arow", "ftrl"])
def test_weight_0_leaves_every_number_as_it_was(name: str) -> None:
    case = COVERING[name]
    rows = stream(case.loss, Setting(rows=30))
    own = engine(case, Setting())
    own.learn(rows.block())
    before = {key: array.copy() for key, array in own.arrays().items()}
    scores = own.learn(rows.block()._replace(c=np.zeros(30)))
    np.testing.assert_allclose(scores, own.predict(rows.block()), rtol=1e-12)
    assert same(own.arrays(), before)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["mirror", "adagrad", "pa"])
def test_weights_of_1_are_no_weights(name: str) -> None:
    case = COVERING[name]
    rows = stream(case.loss, Setting(rows=30)).block()
    assert same(learned(rows, case), learned(rows._replace(c=np.ones(30)), case))


@pytest.mark.exhaustive
def test_float32_state_follows_float64() -> None:
    for name in ("mirror", "ftrl", "adagrad-mirror"):
        case = COVERING[name]
        rows = stream(case.loss, Setting(rows=60, seed=1))
        wide, narrow = engine(case, Setting()), engine(case, Setting(), np.float32)
        wide.learn(rows.block())
        narrow.learn(rows.block(dtype=np.float32))
        assert narrow.weights()[0].dtype == np.float32
        np.testing.assert_allclose(narrow.weights()[0], wide.weights()[0], atol=2e-5)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.interpreted
@pytest.mark.parametrize("weights", [[1.0, 0.5], [2.0, 2.0], [0.0, 3.0]])
def test_adagrad_mirror_with_l2_takes_weights_0_and_1_alone(weights: list[float]) -> None:
    own = engine(COVERING["adagrad-mirror"], Setting())
    own.learn(as_block(np.eye(2, kernel_cases.D), [1.0, -1.0]))
    before = {name: array.copy() for name, array in own.arrays().items()}
    with pytest.raises(ValueError, match=r"AdaGrad\(update='mirror'\) with an l2 penalty .* 0 or 1, got"):
        own.learn(as_block(np.eye(2, kernel_cases.D), [1.0, -1.0], weights))
    assert same(own.arrays(), before)
    own.learn(as_block(np.eye(2, kernel_cases.D), [1.0, -1.0], [1.0, 0.0]))


@pytest.mark.parametrize("name", kernel_cases.ALGORITHMS)
def test_penalties_that_couple_coordinates_have_no_kernel(name: str) -> None:
    for penalty in (*DENSE_PENALTIES.values(), ps.L1([0.1, 0.2]), ps.L2([0.1, 0.2]), ps.Box([0.0, 0.1], 1.0)):
        for algorithm in kernel_cases.ALGORITHMS[name]:
            reason = plan(algorithm, penalty, losses.hinge, np.float64)
            assert isinstance(reason, str)
            assert "each coordinate alone" in reason


@pytest.mark.parametrize(
    ("algorithm", "loss", "penalty", "reason"),
    [
        (ps.SGD(), "hinge", ps.L1(0.1), "SGD decays"),
        (ps.TruncatedGradient(theta=1.0), "hinge", ps.L2(0.1), "finite theta and an l2 part"),
        (ps.PassiveAggressive(), "logistic", None, "more than a cell"),
        (ps.AROW(), "squared", None, "more than a cell"),
        (ps.AROW(matrix="full"), "hinge", None, "more than a cell"),
        (ps.AdaGrad(matrix="full"), "hinge", None, "more than a cell"),
        (ps.MirrorDescent(implicit=True), "hinge", None, "more than a cell"),
        (ps.MirrorDescent(projection="lazy"), "hinge", None, "more than a cell"),
        (ps.RDA(geometry=ps.PNorm(1.5)), "hinge", None, "couples all coordinates"),
        (ps.FollowTheLeader(), "squared", None, "more than a cell"),
    ],
)
def test_refusals_name_the_reason(algorithm: Any, loss: str, penalty: Any, reason: str) -> None:
    found = plan(algorithm, penalty or ps.NoPenalty(), losses.get(loss), np.float64)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(
    ("algorithm", "penalty", "reason"),
    [
        (ps.RDA(), ps.NonNegative(), "bounds on the weights"),
        (ps.AdaGrad(), ps.L2(0.1), "an l2 penalty that comes in every round"),
        (ps.FTRLProximal(), ps.ElasticNet(0.1, 0.1), "an l2 penalty that comes in every round"),
        (ps.TruncatedGradient(theta=1.0), ps.L1(0.1), "a finite theta"),
    ],
)
def test_means_without_a_closed_form_are_refused(algorithm: Any, penalty: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"average=True: {reason}"):
        AveragedLayout(made(algorithm, penalty=penalty))


def test_means_are_returned_only_where_they_are_kept() -> None:
    with pytest.raises(ValueError, match="no means are kept"):
        engine(COVERING["mirror"], Setting()).averages()


@pytest.mark.exhaustive
def test_the_mean_of_no_rounds_is_the_first_point() -> None:
    case = Case(ps.PassiveAggressive(), ps.Box(0.25, 1.0), losses.hinge)
    own = engine(case, Setting(average=True))
    np.testing.assert_array_equal(own.averages()[0], Twin(case, intercept=True).read("average")[0])
    own.learn(as_block(np.zeros((4, kernel_cases.D)), np.ones(4)))
    own.grow(kernel_cases.D + 2)
    np.testing.assert_array_equal(own.averages()[0], 0.25)


def test_a_state_of_other_settings_is_refused() -> None:
    own = engine(COVERING["mirror"], Setting())
    own.learn(stream(losses.hinge, Setting(rows=20)).block())
    before = {name: array.copy() for name, array in own.arrays().items()}
    others = {
        "bias": engine(COVERING["mirror"], Setting(intercept=False)),
        "state of the state": engine(COVERING["rda"], Setting()),
        "float32": engine(COVERING["mirror"], Setting(), np.float32),
    }
    for words, other in others.items():
        with pytest.raises(ValueError, match=words):
            own.restore(other.arrays())
    with pytest.raises(ValueError, match=r"the entry means\.sums"):
        engine(COVERING["mirror"], Setting(average=True)).restore(own.arrays())
    with pytest.raises(ValueError, match="table of the state must have 21 rows"):
        own.restore({**own.arrays(), "table": own.arrays()["table"][:20]})
    assert same(own.arrays(), before)


def test_the_moments_of_the_two_loops_are_bounded() -> None:
    """An epoch of means ends where V has lost three digits, one of the plain loop where P nears the least number."""
    assert 0.0 < driver.SMALLEST < averaged.FALLEN < 1.0
    assert math.isfinite(1.0 / driver.SMALLEST**2)
