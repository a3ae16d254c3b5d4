"""AutoFTRL: the compiled engine against the dense learner and plain loops, the stream law, what its scales promise."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner import _auto as auto
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import AutoLayout
from proxstream.learner.learner import Learner

from ..examples import examples
from . import naive_auto
from .naive_auto import CLASSES, MULTICLASS, D, differences, engine_for, stream

AUTO = ps.AutoFTRL(scale="feature", track=True)


# ---- one algorithm, three ways -----------------------------------------------------------------


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.exhaustive), 17])
def test_the_matrix_uncompiled(every):
    done = subprocess.run(
        [sys.executable, str(Path(naive_auto.__file__)), str(every)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["failures"] == []
    assert report["played"] == -(-8 * 6 * 2 * 2 * 2 // every)


@pytest.mark.default_cases(2)
@pytest.mark.parametrize(
    ("loss", "penalty", "once", "scale", "intercept"),
    [
        ("logistic", "l1", True, "feature", True),
        ("logistic", "elastic_net", False, "feature", False),
        ("logistic", "none", False, "global", True),
        ("softmax", "l1", False, "feature", True),
        ("softmax", "l1", False, "feature", False),
        ("squared", "box", False, "feature", False),
    ],
)
def test_compiled_is_the_dense_learner_and_the_formulas(loss, penalty, once, scale, intercept):
    for seed in range(3):
        assert differences(loss, penalty, once, scale, intercept, seed) == []


def test_predictions_are_the_weights():
    for loss in ("logistic", "softmax"):
        X, y, c = stream(loss, 3)
        engine = engine_for(loss, ps.L1(0.01), AUTO)
        engine.learn(as_block(X, y, c))
        weights, intercept = engine.weights()
        np.testing.assert_allclose(engine.predict(as_block(X)), X @ weights + intercept, rtol=1e-12, atol=1e-12)
        wider = np.hstack([X, np.ones((len(X), 1))])
        np.testing.assert_array_equal(engine.predict(as_block(wider)), engine.predict(as_block(X)))


@pytest.mark.interpreted
def test_one_against_the_rest_separates():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    X = np.eye(3)[y] + 0.3 * rng.normal(size=(600, 3))
    engine = CompiledEngine(AutoLayout(AUTO, ps.NoPenalty(), ps.losses.logistic, 3), 3)
    scores = engine.learn(as_block(X, y))
    assert np.mean(scores[300:].argmax(axis=1) == y[300:]) > 0.9
    with pytest.raises(ValueError, match=r"y must be a class in 0\.\.2, got .*3.* at index 1"):
        engine.learn(as_block(X[:2], [0, 3]))


def test_combinations_without_a_compiled_form_are_refused():
    def refused(penalty, loss="logistic", outputs=1):
        return CompiledEngine(AutoLayout(AUTO, penalty, ps.losses.get(loss), outputs), 3)

    with pytest.raises(TypeError, match="does not act on each coordinate alone"):
        refused(ps.L1Ball(1.0))
    with pytest.raises(TypeError, match="gives weight to features never seen"):
        refused(ps.Box(0.5, 1.0))
    with pytest.raises(TypeError, match="squared has one output, got 3"):
        refused(ps.NoPenalty(), "squared", 3)
    with pytest.raises(ValueError, match="no means are kept"):
        refused(ps.NoPenalty()).averages()
    with pytest.raises(TypeError, match="one example at a time"):
        ps.OnlineLearner(AUTO, dim=2).learn(np.ones((3, 2)), [1, 1, -1], "logistic")
    with pytest.raises(TypeError, match="learns from whole examples"):
        ps.OnlineLearner(AUTO, dim=2).update([1.0, 2.0])
    with pytest.raises(ValueError, match="scale must be one of 'auto', 'feature', 'global', got 'row'"):
        ps.AutoFTRL(scale="row")
    with pytest.raises(ValueError, match="penalty_weight must be one of"):
        ps.AutoFTRL("twice")
    with pytest.raises(TypeError, match="track must be True or False, got 'yes'"):
        ps.AutoFTRL(track="yes")


def test_dense_learner_keeps_and_restores_its_state():
    X, y, _ = stream("softmax", 5)
    whole, first, second = (ps.OnlineLearner(AUTO, ps.L1(0.01), dim=(D, CLASSES)) for _ in range(3))
    for i in range(len(y)):
        whole.learn(X[i], int(y[i]), "softmax")
        (first if i < 17 else second).learn(X[i], int(y[i]), "softmax")
        if i == 16:
            second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    np.testing.assert_array_equal(second.point, whole.point)


# ---- the stream law ----------------------------------------------------------------------------


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("loss", ["logistic", "squared", "softmax"])
@given(data=st.data(), seed=st.integers(0, 100), single=st.booleans())
@examples(40)
def test_cuts_and_restarts_change_no_bit(loss, data, seed, single):
    X, y, c = stream(loss, seed)
    dtype = np.float32 if single else np.float64
    rows = as_block(csr_array(X.astype(dtype)), y, c)
    whole = engine_for(loss, ps.L1(0.005), AUTO, dtype=dtype)
    scores = whole.learn(rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(y)), max_size=5)))
    engine, pieces = engine_for(loss, ps.L1(0.005), AUTO, dtype=dtype), []
    for start, stop in zip([0, *cuts], [*cuts, len(y)], strict=True):
        pieces.append(engine.learn(rows.slice(start, stop)))
        saved = pickle.loads(pickle.dumps(engine.arrays()))
        engine = engine_for(loss, ps.L1(0.005), AUTO, dtype=dtype)
        engine.restore(saved)
    np.testing.assert_array_equal(np.concatenate(pieces), scores)
    np.testing.assert_array_equal(engine.weights()[0], whole.weights()[0])
    np.testing.assert_array_equal(engine.weights()[1], whole.weights()[1])
    assert (engine.t, engine.k) == (whole.t, whole.k)
    assert engine.weights()[0].dtype == dtype


# ---- rows learned again ------------------------------------------------------------------------

RATES = [auto.A, auto.B, auto.C, auto.SQUARES_A, auto.SQUARES_B, auto.SQUARES_C]


@pytest.mark.parametrize("scale", ["feature", "global"])
def test_rates_are_learned_in_the_first_pass_alone(scale):
    X, y = streams_of_text()
    once, often = (ps.StreamClassifier(ps.AutoFTRL(scale=scale), passes=n).fit(X, y) for n in (1, 4))
    first, last = (model._learner.engine.clock for model in (once, often))
    np.testing.assert_array_equal(last[RATES], first[RATES])
    assert (last[auto.T], last[auto.K]) == (4 * len(y), 4 * len(y))
    more = often._learner.engine.clock.copy()
    often.partial_fit(X[:50], y[:50])  # partial_fit knows of no passes: its rows are new
    assert not np.array_equal(often._learner.engine.clock[RATES], more[RATES])


def test_a_stream_read_twice_is_learned_as_a_matrix_is():
    X, y = streams_of_text()
    whole = ps.StreamClassifier(passes=3).fit(X, y)
    parts = ps.StreamClassifier(passes=3).fit_stream([(X[:150], y[:150]), (X[150:], y[150:])], classes=[-1, 1])
    np.testing.assert_array_equal(parts.coef_, whole.coef_)


def test_threads_leave_the_rates_of_repeated_rows_alone():
    X, y = streams_of_text(n=20_000)
    learner = Learner(AUTO, n_features=X.shape[1])
    rows = as_block(X, y)
    learner.learn(rows)
    rates = learner.engine.clock[RATES]
    learner.n_threads = 2
    learner.learn(rows, repeated=True)
    np.testing.assert_array_equal(learner.engine.clock[RATES], rates)
    assert learner.t == 40_000


def test_more_passes_do_not_spoil_what_the_first_has_learned():
    # Rare features memorize their rows: the rates that fit known rows best are far too high for new ones.
    rng = np.random.default_rng(0)
    n, d = 6000, 3000
    indices = (d * rng.random(20 * n) ** 3).astype(np.int32)
    X = csr_array((np.ones(20 * n), indices, np.arange(0, 20 * n + 1, 20)), shape=(n, d))
    X.sum_duplicates()
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ rng.normal(size=d)))), 1.0, -1.0)
    rows, new = as_block(X[:4000], y[:4000]), as_block(X[4000:], y[4000:])
    losses = {}
    for frozen in (True, False):
        learner, losses[frozen] = Learner(AUTO, n_features=d), []
        for i in range(3):
            learner.learn(rows, repeated=frozen and i > 0)
            losses[frozen].append(float(np.mean(ps.losses.logistic.value(learner.predict(new), new.y))))
    assert max(losses[True]) <= 1.01 * losses[True][0]
    assert losses[False][-1] > 1.05 * losses[True][-1]  # what rates learned on known rows would cost


def test_features_may_come_later_and_weight_zero_is_nothing():
    X, y, c = stream("logistic", 1)
    whole, growing = (
        engine_for("logistic", None, AUTO),
        CompiledEngine(AutoLayout(AUTO, ps.NoPenalty(), ps.losses.logistic), 0),
    )
    whole.learn(as_block(X, y, c))
    for i in range(len(y)):
        row = as_block(X[i : i + 1], y[i : i + 1], c[i : i + 1])
        growing.grow(row.n_features)
        growing.learn(row)
    known = growing.n_features
    np.testing.assert_array_equal(growing.weights()[0], whole.weights()[0][:known])
    before = {name: array.copy() for name, array in whole.arrays().items()}
    whole.learn(as_block(X, y, np.zeros(len(y))))
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    assert whole.t == np.count_nonzero(c)
    assert whole.k == c.sum()


@pytest.mark.interpreted
def test_explicit_zeros_and_vanishing_values_change_nothing():
    rows = RowBlock(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([2.0, 0.0, 1.0]), np.array([1.0, -1.0]))
    plain = RowBlock(np.array([0, 1, 2]), np.array([0, 0]), np.array([2.0, 1.0]), np.array([1.0, -1.0]))
    tiny = rows._replace(data=np.array([2.0, 5e-324, 1.0]))
    for loss in ("logistic", "softmax"):
        weights = []
        for block in (rows, plain, tiny):
            engine = engine_for(loss, None, AUTO)
            engine.learn(block._replace(y=np.abs(block.y)) if loss == "softmax" else block)
            weights.append(engine.weights()[0])
        np.testing.assert_array_equal(weights[0], weights[1])
        np.testing.assert_array_equal(weights[0], weights[2])


def test_threads_learn_as_well_as_one():
    rng = np.random.default_rng(0)
    X = csr_array((rng.random((6000, 40)) < 0.2).astype(np.float32))
    y = np.where(X @ rng.normal(size=40) + 0.3 * rng.normal(size=6000) > 0, 1.0, -1.0)
    found = []
    for threads in (1, 2):
        engine = CompiledEngine(AutoLayout(AUTO, ps.NoPenalty(), ps.losses.logistic, 1, np.float32), 40, np.float32)
        scores = engine.learn(as_block(X, y), threads)
        assert engine.t == 6000
        found.append(np.mean(np.logaddexp(0.0, -y * scores)))
    assert found[1] < 1.2 * found[0]


# ---- scales ------------------------------------------------------------------------------------


def streams_of_text(seed=0, n=400, d=60):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < 0.7 * np.arange(1, d + 1) ** -0.7) * rng.random((n, d))
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    return X, y


def progressive(X, y, algorithm=AUTO, penalty=None, dtype=np.float64, loss="logistic"):
    made = ps.losses.get(loss)
    outputs = int(y.max()) + 1 if made.kind == "multiclass" else 1
    engine = CompiledEngine(AutoLayout(algorithm, ps.penalties.get(penalty), made, outputs, dtype), X.shape[1], dtype)
    scores = engine.learn(as_block(X.astype(dtype), y))
    labels = y.astype(int) if outputs > 1 else y
    return scores, float(np.mean(made.value(scores, labels))), engine


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("scale", ["global", "feature"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_powers_of_two_on_all_columns_change_no_bit(scale, dtype):
    X, y = streams_of_text()
    scores, _, engine = progressive(X, y, ps.AutoFTRL(scale=scale), dtype=dtype)
    for power in (-14, 14):
        others, _, scaled = progressive(X * 2.0**power, y, ps.AutoFTRL(scale=scale), dtype=dtype)
        np.testing.assert_array_equal(others, scores)
        np.testing.assert_array_equal(scaled.weights()[0] * dtype(2.0**power), engine.weights()[0])


@pytest.mark.default_cases(2)
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_any_factor_on_all_columns_changes_nothing(factor, loss):
    X, y = streams_of_text()
    y = (y > 0).astype(float) if loss == "softmax" else y
    scores = progressive(X, y, loss=loss)[0]
    np.testing.assert_allclose(progressive(X * factor, y, loss=loss)[0], scores, rtol=1e-9, atol=1e-12)


def test_a_small_column_is_on_its_own_scale_once_there_is_evidence():
    # A column far below the others is held back by the floor, and so is not free of its unit, until
    # (1 + (r/s)^2)^4 reaches S/s. From there on its scale is its own size, to the bit.
    X, y = streams_of_text(n=2000)
    X[:, 0] *= 1e-4
    learner, held = ps.OnlineLearner(AUTO, dim=X.shape[1]), []
    for x, label in zip(X, y, strict=True):
        learner.learn(x, label, "logistic")
        state = learner._state
        if state.s[0] > 0.0:
            reached = (1.0 + (state.r[0] / state.s[0]) ** 2) ** 4 >= state.scale / state.s[0]
            assert (AUTO._scales(state)[0] == state.s[0]) == reached
            held.append(not reached)
    assert held[0]
    assert not held[-1]


def test_a_column_without_the_floor_has_no_unit(monkeypatch):
    # The floor is the one place where features are compared: without it a column may have any unit of its own.
    monkeypatch.setattr("proxstream.core.algorithms.auto.CONSTANTS", naive_constants(floor=0.0))
    X, y = streams_of_text()
    scores = progressive(X, y)[0]
    units = 10.0 ** np.random.default_rng(1).integers(-4, 5, X.shape[1])
    np.testing.assert_allclose(progressive(X * units, y)[0], scores, rtol=1e-9, atol=1e-12)
    powers = 2.0 ** np.random.default_rng(1).integers(-14, 15, X.shape[1])
    np.testing.assert_array_equal(progressive(X * powers, y)[0], scores)


def naive_constants(**changed):
    from proxstream.core.algorithms.auto import CONSTANTS

    return CONSTANTS._replace(**changed)


@pytest.mark.interpreted
@pytest.mark.default_cases(1)
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_units_of_labels_change_nothing(loss):
    X, _ = streams_of_text()
    y = X @ np.random.default_rng(2).normal(size=X.shape[1])
    scores = progressive(X, y, loss=loss)[0]
    np.testing.assert_array_equal(progressive(X, 1024.0 * y, loss=loss)[0], 1024.0 * scores)
    np.testing.assert_allclose(progressive(X, 1e-3 * y, loss=loss)[0], 1e-3 * scores, rtol=1e-9, atol=1e-12)


def test_a_rare_feature_seen_small_gets_no_huge_weight(monkeypatch):
    X = np.zeros((60, 10))
    X[:, :9] = np.random.default_rng(0).choice([-1.0, 1.0], (60, 9))
    X[50, 9] = 1e-3
    y = X[:, 0].copy()
    y[50] = -y[50]

    def weight():
        return abs(progressive(X, y)[2].weights()[0][9])

    floored = weight()
    monkeypatch.setattr("proxstream.core.algorithms.auto.CONSTANTS", naive_constants(floor=0.0))
    assert floored < 1.0
    assert weight() > 50.0


def test_l1_gives_exact_zeros_and_more_of_them_the_stronger():
    X, y = streams_of_text(n=1500)
    for once, strengths in ((False, (0.0, 0.001, 0.01, 10.0)), (True, (0.0, 1.0, 8.0, 1e6))):
        algorithm = ps.AutoFTRL("once" if once else "every_round", "feature")
        zeros = [int(np.sum(progressive(X, y, algorithm, ps.L1(lam))[2].weights()[0] == 0.0)) for lam in strengths]
        assert zeros == sorted(zeros)
        assert zeros[0] < zeros[1] < zeros[2] <= zeros[3] == X.shape[1]


def test_steps_grow_where_residuals_go_one_way():
    rng = np.random.default_rng(0)
    n = 8000
    X = rng.normal(size=(n, 5))
    drifting = X @ np.ones(5) + 6.0 * np.sin(np.arange(n) / 150.0)
    order = rng.permutation(n)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-drifting)), 1.0, -1.0)
    _, loss, engine = progressive(X, y)
    _, shuffled_loss, shuffled = progressive(X[order], y[order])
    assert engine.arrays()["clock"][auto.B] > 1.0 > 0.0 >= shuffled.arrays()["clock"][auto.B]
    assert loss < 0.8 * shuffled_loss
    _, resting_loss, resting = progressive(X, y, ps.AutoFTRL(scale="feature"))
    assert resting.arrays()["clock"][auto.B] <= 0.0
    assert loss < 0.9 * resting_loss


def test_sorted_rows_leave_a_model_of_all_rows_unless_it_tracks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 20)) + np.where(np.arange(8000) < 4000, 1.0, -1.0)[:, None]
    y = np.where(rng.random(8000) < 1.0 / (1.0 + np.exp(-X @ np.linspace(0.0, 0.6, 20))), 1.0, -1.0)
    order = np.argsort(-y, kind="stable")
    losses = [
        np.mean(np.logaddexp(0.0, -y * (X @ engine.weights()[0] + engine.weights()[1])))
        for track in (False, True)
        for engine in [progressive(X[order], y[order], ps.AutoFTRL(scale="feature", track=track))[2]]
    ]
    assert losses[0] < 0.8 * losses[1]


@pytest.mark.exhaustive
def test_several_classes_are_learned_in_one_pass():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    for loss, most in (("softmax", 0.12), ("multiclass_hinge", 0.14)):
        scores, suffered, engine = progressive(X, y.astype(float), loss=loss)
        assert np.mean(scores.argmax(axis=1) != y) < most
        weights, intercepts = engine.weights()
        assert (weights.shape, intercepts.shape) == ((64, 10), (10,))
        if loss == "softmax":
            assert suffered < 0.4


def test_state_is_twelve_bytes_a_feature():
    def bytes_a_feature(algorithm, outputs=1, loss="logistic"):
        made = ps.losses.get(loss)
        engine = CompiledEngine(AutoLayout(algorithm, ps.NoPenalty(), made, outputs, np.float32), 1000, np.float32)
        return engine.arrays()["state"].nbytes / 1000

    assert bytes_a_feature(AUTO) == 12
    assert bytes_a_feature(ps.AutoFTRL(scale="global")) == 8
    assert bytes_a_feature(AUTO, 3, "softmax") == 4 * 7
    assert all(array.dtype == np.float64 for name, array in engine_for("hinge", None, AUTO).arrays().items())


def test_multiclass_losses_are_all_here():
    assert {name for name in ps.losses.names() if ps.losses.get(name).kind == "multiclass"} == set(MULTICLASS)
