"""Threads over one state: nothing is lost that is counted, nothing explodes, and one thread is one thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.core import losses
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner import _finite as finite, _loop as driver, hogwild as threads
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.learner import Learner

ROWS, FEATURES = 6000, 200
GUARD = finite.guard(np.empty(0), None, False)


def data(seed: int = 0) -> tuple[Any, Any]:
    """Rows in which a few features are in nearly all, most in hardly any."""
    rng = np.random.default_rng(seed)
    share = np.minimum(2.0 / np.arange(1, FEATURES + 1), 0.9)
    X = rng.normal(size=(ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < share)
    truth = rng.normal(size=FEATURES)
    return csr_array(X), np.where(X @ truth + rng.normal(size=ROWS) > 0.5, 1.0, -1.0)


CASES = {
    "ftrl": (ps.FTRLProximal(0.3), ps.L1(1e-4), "logistic"),
    "adagrad-mirror": (ps.AdaGrad(0.2, update="mirror"), ps.ElasticNet(1e-4, 1e-4), "squared_hinge"),
    # P falls to 1e-100 every 2500 rows or so: the threads meet there, settle, and go on.
    "mirror, epochs": (ps.MirrorDescent(0.03, "constant"), ps.ElasticNet(1e-4, 3.0), "smoothed_hinge"),
    # A step of 1.2/l2 turns signs in the first round, which settles all.
    "sgd, epochs": (ps.SGD(12.0, "linear"), ps.L2(0.1), "hinge"),
    "arow": (ps.AROW(1.0), ps.Box(-50.0, 50.0), "ranking_hinge"),
}


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of 8 rows, so that threads meet all the time."""
    monkeypatch.setattr(threads, "CHUNK", 8)


@pytest.mark.default_cases(1)
@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("name", CASES)
def test_stress(name: str) -> None:
    algorithm, penalty, loss = CASES[name]
    X, y = data()
    c = np.where(np.arange(ROWS) % 50 == 7, 0.0, 1.0)

    def learn(n_threads: int, size: int) -> Learner:
        learner = Learner(algorithm, loss, penalty, n_features=FEATURES, n_threads=n_threads)
        for start in range(0, ROWS, size):
            stop = start + size
            learner.learn(as_block(X[start:stop], y[start:stop], c[start:stop]))
        return learner

    def final(learner: Learner) -> float:
        return float(np.mean(losses.get(loss).value(learner.predict(as_block(X)), y)))

    # Under eta/t a row that comes late takes a step far longer than those around it: the price of no locks.
    near = 0.25 if name == "sgd, epochs" else 0.06
    alone = learn(1, ROWS)
    for n_threads, size in ((2, 37), (4, 500), (4, ROWS)):
        together = learn(n_threads, size)
        assert together.t == int(c.sum())
        assert together.engine.k == c.sum()
        w, b = together.weights()
        assert np.isfinite(w).all()
        assert np.isfinite(b)
        assert all(np.isfinite(array).all() for array in together.state_dict().values())
        assert final(together) == pytest.approx(final(alone), rel=near)
        assert together.progressive_loss == pytest.approx(alone.progressive_loss, rel=2.0 * near)


STRAGGLERS = {
    "mirror": (ps.MirrorDescent(0.1, "constant"), ps.ElasticNet(1e-4, 0.2), "smoothed_hinge"),
    "adagrad-mirror": (ps.AdaGrad(0.2, update="mirror"), ps.ElasticNet(1e-4, 0.2), "squared_hinge"),
    "sgd": (ps.SGD(0.1, "constant"), ps.L2(0.2), "hinge"),
    "truncated": (ps.TruncatedGradient(0.1, 1, schedule="constant"), ps.L1(1e-3), "absolute"),
}


@pytest.mark.interpreted
@pytest.mark.default_cases(1)
@pytest.mark.parametrize("name", STRAGGLERS)
def test_a_thread_that_lags_behind_lets_no_feature_decay_twice(name: str) -> None:
    """A row of round 100 comes last of all, after round 400: each weight moves by that row's own step and no more."""
    algorithm, penalty, loss = STRAGGLERS[name]
    X, y = data()
    learner = Learner(algorithm, loss, penalty, n_features=FEATURES)
    learner.learn(as_block(X[:100], y[:100]))
    assert isinstance(learner.engine, CompiledEngine)
    then = learner.engine.arrays()["clock"].copy()
    learner.learn(as_block(X[100:400], y[100:400]))
    before = learner.weights()[0]
    late = as_block(X[400:401], [np.sign(0.5 - learner.predict(as_block(X[400:401]))[0])])
    model = learner.engine._model()._replace(clock=then)
    driver.learn(learner.engine.layout.parts, late, model, np.empty(1), finite.guard(late.data, None, False))
    after, touched = learner.weights()[0], np.isin(np.arange(FEATURES), late.indices)
    assert (np.abs(before[touched]) > 0.05).sum() >= 3
    assert np.array_equal(after[~touched], before[~touched])
    # A decay over 300 rounds more would leave hardly anything of them.
    np.testing.assert_allclose(after[touched], before[touched], atol=0.25 * np.abs(late.data).max())
    assert (np.abs(after[touched]) > 0.5 * np.abs(before[touched])).sum() >= 3


@pytest.mark.usefixtures("short_chunks")
def test_one_thread_at_a_time_is_the_stream_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool of one runs the chunks in order: clocks, idle rounds and settling are then those of one thread."""
    X, y = data()
    penalty = ps.ElasticNet(1e-4, 1.0)
    algorithm = ps.MirrorDescent(0.1, "constant")
    alone, pooled = (Learner(algorithm, "smoothed_hinge", penalty, n_features=FEATURES) for _ in range(2))
    alone.learn(as_block(X, y))
    monkeypatch.setattr(threads, "pool_of", lambda n: ThreadPoolExecutor(1))
    pooled.n_threads = 3
    pooled.learn(as_block(X, y))
    a, b = alone.state_dict(), pooled.state_dict()
    for name in ("state", "clock", "table", "losses"):
        # The intercept's change is added at the end of each chunk, which rounds it.
        np.testing.assert_allclose(a[name], b[name], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(alone.weights()[1], pooled.weights()[1], rtol=1e-9)


def test_asking_for_one_thread_changes_no_bit() -> None:
    X, y = data()
    a, b = (
        Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(1e-4), n_features=FEATURES, **k) for k in ({}, {"n_threads": 1})
    )
    assert np.array_equal(a.learn(as_block(X, y)), b.learn(as_block(X, y)))
    assert all(np.array_equal(array, b.state_dict()[name]) for name, array in a.state_dict().items())


@pytest.mark.usefixtures("short_chunks")
def test_an_error_in_a_thread_is_raised() -> None:
    def fail(rows: RowBlock, bias: Any, at: int, out: Any, guard: Any) -> None:
        raise ArithmeticError("in a chunk")

    rows = as_block(np.eye(20), np.ones(20))
    with pytest.raises(ArithmeticError, match="in a chunk"):
        threads.learn(rows, np.zeros((1, 2)), np.empty(20), GUARD.copy(), 2, fail)


def test_no_more_threads_than_asked_for_and_every_row_once() -> None:
    seen: list[int] = []

    def note(rows: RowBlock, bias: Any, at: int, out: Any, guard: Any) -> None:
        seen.append(at)
        out[:] = 1.0
        bias[0, 0] += rows.n_rows

    bias, scores = np.zeros((1, 1)), np.zeros(5000)
    rows = RowBlock(np.zeros(5001, np.int32), np.zeros(0, np.int32), np.zeros(0), np.ones(5000))
    threads.learn(rows, bias, scores, GUARD.copy(), 3, note)
    assert sorted(seen) == list(range(0, 5000, threads.CHUNK))
    assert scores.all()
    assert bias[0, 0] == 5000


def test_a_long_block_is_checked_and_counted_by_threads() -> None:
    n, each = 40_000, 16  # long enough that each thread gets a piece
    indices = np.arange(n * each, dtype=np.int32) % FEATURES
    rows = RowBlock(
        np.arange(n + 1, dtype=np.int32) * each,
        indices,
        np.full(n * each, 0.1),
        np.where(np.arange(n) % 3, 1.0, -1.0),
        np.ones(n),
    )
    learner = Learner(ps.FTRLProximal(0.1), "logistic", n_features=FEATURES, n_threads=2)
    for at in (0, n * each - 1):
        for name, wrong, message in (("data", np.nan, "infinity in row"), ("indices", -1, "must be >= 0, got -1")):
            array = getattr(rows, name).copy()
            array[at] = wrong
            with pytest.raises(ValueError, match=message):
                learner.learn(rows._replace(**{name: array}))
    assert learner.t == 0
    scores = learner.learn(rows)
    assert learner.progressive_loss == pytest.approx(np.mean(losses.logistic.value(scores, rows.y)), rel=1e-12)
    assert learner.loss_sums[1] == n


def test_there_are_no_more_threads_than_chunks() -> None:
    X, y = data()
    few, many = (
        Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(1e-4), n_features=FEATURES, n_threads=n) for n in (1, 2**62)
    )
    for learner in (few, many):
        learner.learn(as_block(X[:500], y[:500]))
    np.testing.assert_array_equal(many.weights()[0], few.weights()[0])
