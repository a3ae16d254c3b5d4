"""AutoFTRL(scale="auto"): what the definition says, computed from two learners; the stream law; overflow."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.core.algorithms import auto_state
from proxstream.core.algorithms.auto_state import SCALES
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.learner import Learner
from proxstream.learner.merge import refusal
from proxstream.learner.trial import TrialEngine

from ..examples import examples

AUTO = ps.AutoFTRL(scale="auto")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(auto_state, "TRIAL", 100)
    return 100


def rows_of(kind: str, n: int = 300, seed: int = 0) -> RowBlock:
    """Rows of unit length, or columns in units from 1e-3 to 1e3; some rows have no weight."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 30)) * (rng.random((n, 30)) < 0.2)
    if kind == "unit":
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    y = np.where(X @ rng.normal(size=30) > 0.0, 1.0, -1.0)
    if kind == "wild":
        X *= 10.0 ** rng.integers(-3, 4, 30)
    return as_block(csr_array(X), y, rng.choice([0.0, 1.0, 2.0], n))


def learner(algorithm: Any = AUTO, **more: Any) -> Learner:
    return Learner(algorithm, **{"n_features": 30, **more})


@pytest.mark.parametrize("kind", ["unit", "wild", "plain"])
def test_the_choice_is_that_of_two_learners(short: int, kind: str) -> None:
    rows = rows_of(kind)
    both = [learner(ps.AutoFTRL(scale=scale)) for scale in SCALES]
    scores = [one.learn(rows) for one in both]
    sums, expected, counted, winner = [0.0, 0.0], [], 0, -1
    for i in range(rows.n_rows):
        leader = winner if winner >= 0 else int(sums[1] < sums[0])
        expected.append(scores[leader][i])
        if rows.c[i] == 0.0 or winner >= 0:
            continue
        for k in (0, 1):
            sums[k] += rows.c[i] * np.logaddexp(0.0, -rows.y[i] * scores[k][i])
        counted += 1
        if counted == short:
            winner = int(sums[1] < sums[0])
    chooser = learner()
    np.testing.assert_array_equal(chooser.learn(rows), expected)
    assert isinstance(chooser.engine, TrialEngine)
    assert chooser.engine.scale == SCALES[winner]
    np.testing.assert_array_equal(chooser.weights()[0], both[winner].weights()[0])
    assert chooser.weights()[1] == both[winner].weights()[1]


@pytest.mark.parametrize("scale", ["feature", "global"])
def test_each_scale_has_its_kind_of_rows(scale: str) -> None:
    rng = np.random.default_rng(1)
    n, d = 6000, 2000
    indices = (d * rng.random(30 * n) ** 3).astype(np.int32)
    X = csr_array((rng.random(30 * n) + 0.1, indices, np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    X = csr_array(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))[:, None]))
    y = np.where(X @ rng.normal(size=d) > 0.0, 1.0, -1.0)
    if scale == "feature":
        X = csr_array(X.multiply(10.0 ** rng.integers(-3, 4, d)))
    model = ps.StreamClassifier(AUTO).fit(X, y)
    assert model._learner.engine.scale == scale
    alone = ps.StreamClassifier(ps.AutoFTRL(scale=scale)).fit(X, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)


@pytest.mark.default_cases(1)
@pytest.mark.parametrize(("loss", "outputs", "dtype"), [("logistic", 1, np.float32), ("softmax", 3, np.float64)])
@given(cuts=st.lists(st.integers(0, 300), max_size=4))
@examples(10)
def test_cuts_and_restarts_change_no_bit(loss: str, outputs: int, dtype: Any, cuts: list[int]) -> None:
    rows = rows_of("plain")
    if outputs > 1:
        rows = rows._replace(y=np.arange(300.0) % 3)
    before, auto_state.TRIAL = auto_state.TRIAL, 100
    try:
        settings: dict[str, Any] = {"loss": loss, "n_outputs": outputs, "dtype": dtype}
        whole = learner(**settings)
        scores = whole.learn(rows)
        cut, pieces, places = learner(**settings), [], sorted(cuts)
        for start, stop in zip([0, *places], [*places, 300], strict=True):
            pieces.append(cut.learn(rows.slice(start, stop)))
            saved = pickle.loads(pickle.dumps(cut.state_dict()))
            cut = learner(**settings)
            cut.load_state_dict(saved)
        np.testing.assert_array_equal(np.concatenate(pieces), scores)
        np.testing.assert_array_equal(cut.weights()[0], whole.weights()[0])
        assert (cut.t, cut.engine.k, cut.progressive_loss) == (whole.t, whole.engine.k, whole.progressive_loss)
    finally:
        auto_state.TRIAL = before


@pytest.mark.parametrize("rows", [60, 250])  # within the trial, and after
def test_a_model_file_continues(short: int, rows: int, tmp_path: Any) -> None:
    block = rows_of("plain")
    whole, first = learner(), learner()
    whole.learn(block)
    first.learn(block.slice(0, rows))
    ps.save(first, tmp_path / "half.psm")
    again: Any = ps.load(tmp_path / "half.psm")
    assert again.engine.scale == first.engine.scale
    again.learn(block.slice(rows, 300))
    np.testing.assert_array_equal(again.weights()[0], whole.weights()[0])


def test_a_refused_block_changes_nothing(short: int) -> None:
    block = rows_of("plain")
    one = learner()
    one.learn(block.slice(0, 40))
    before = one.state_dict()

    def fail(*_: Any) -> Any:
        raise RuntimeError

    one._count = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        one.learn(block.slice(40, 300))
    after = one.state_dict()
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)


def test_rows_learned_again_do_not_decide(short: int) -> None:
    block = rows_of("plain").slice(0, 50)
    one = learner()
    one.learn(block)
    sums = one.engine.losses.copy()
    for _ in range(5):
        one.learn(block, repeated=True)
    np.testing.assert_array_equal(one.engine.losses, sums)
    assert len(one.engine.engines) == 1
    assert one.engine.scale == SCALES[int(sums[1] < sums[0])]


def test_features_may_come_later(short: int) -> None:
    block = rows_of("plain")
    growing = learner(n_features=0, growing=True)
    for start in range(0, 300, 30):
        growing.learn(block.slice(start, start + 30))
    whole = learner()
    whole.learn(block)
    np.testing.assert_array_equal(growing.weights()[0], whole.weights()[0][: growing.n_features])


@pytest.mark.parametrize("kind", ["unit", "wild", "plain"])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_the_dense_learner_makes_the_same_choice(short: int, kind: str, loss: str) -> None:
    rows = rows_of(kind)
    outputs = 3 if loss == "softmax" else 1
    y = np.arange(300) % 3 if outputs == 3 else rows.y
    compiled = learner(loss=loss, n_outputs=outputs, fit_intercept=False)
    dense = ps.OnlineLearner(AUTO, dim=30 if outputs == 1 else (30, 3))
    scores = compiled.learn(rows._replace(y=y.astype(float)))
    X, predicted = csr_array((rows.data, rows.indices, rows.indptr), shape=(300, 30)).toarray(), []
    for x, label, weight in zip(X, y, rows.c, strict=True):
        predicted.append(x @ dense.point)
        if is_saved_before(len(predicted)):
            again = ps.OnlineLearner(AUTO, dim=dense.shape)
            again.load_state_dict(dense.state_dict())
            dense = again
        dense.learn(x, label, loss, weight)
    np.testing.assert_allclose(scores, predicted, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(compiled.weights()[0], dense.point, rtol=1e-9, atol=1e-11)
    assert isinstance(compiled.engine, TrialEngine)
    assert compiled.engine.decision == dense.state_dict()["state.decision"]
    np.testing.assert_allclose(compiled.engine.losses, dense.state_dict()["state.losses"], rtol=1e-9)


def is_saved_before(row: int) -> bool:
    """Whether a learner is saved and restored before this row: within the trial, at its end and after it."""
    return row in (40, 150, 151, 250)


def test_penalties_that_couple_weights_try_both(short: int) -> None:
    rows = rows_of("unit")
    tried = learner(penalty=ps.L2Ball(1.0), fit_intercept=False)
    tried.learn(rows)
    both = [learner(ps.AutoFTRL(scale=scale), penalty=ps.L2Ball(1.0), fit_intercept=False) for scale in SCALES]
    for one in both:
        one.learn(rows)
    decided = int(tried.state_dict()["weights.state.decision"])
    np.testing.assert_array_equal(tried.weights()[0], both[decided].weights()[0])
    assert tried.weights()[0].tolist() != both[1 - decided].weights()[0].tolist()


def test_rankers_take_one_scale_per_feature() -> None:
    assert Learner(AUTO, "logistic", n_features=3, ranking=True).algorithm == ps.AutoFTRL(scale="feature")


def test_a_settled_learner_is_that_of_the_scale(short: int) -> None:
    rows = rows_of("unit")
    assert "settle_scale" in refusal(AUTO, learner().engine)
    for scale, stop in ((None, 60), ("feature", 60), ("global", 60), (None, 300)):
        one = learner()
        one.learn(rows.slice(0, stop))
        ahead = one.engine.scale
        one.settle_scale(scale)
        assert one.algorithm == ps.AutoFTRL(scale=scale or ahead)
        alone = learner(one.algorithm)
        alone.learn(rows.slice(0, stop))
        for now in (one, alone):
            now.learn(rows)
        np.testing.assert_array_equal(one.weights()[0], alone.weights()[0])
        assert refusal(one.algorithm, one.engine) == ""
        one.settle_scale("global")  # without effect: there is no trial
        assert one.algorithm == alone.algorithm
    with pytest.raises(ValueError, match="scale must be feature or global, got 'row'"):
        learner().settle_scale("row")
    decided = learner()
    decided.learn(rows)
    with pytest.raises(ValueError, match=f"scale must be {decided.engine.scale}, got"):
        decided.settle_scale(SCALES[1 - SCALES.index(decided.engine.scale)])


@pytest.mark.parametrize("size", [1, 7, 300])  # of blocks
def test_a_scale_that_overflows_is_dropped(size: int) -> None:
    """Column 0 is like a time in nanoseconds: in 32 bits its squares overflow, unless it has its own unit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X @ [1.0, 2.0, -1.0] > 0.0, 1.0, -1.0)
    X[40:, 0] *= 1e19
    rows = as_block(X.astype(np.float32), y, dtype=np.float32)
    alone, tried = (learner(a, n_features=3, dtype=np.float32) for a in (ps.AutoFTRL(scale="feature"), AUTO))
    with pytest.raises(FloatingPointError):
        learner(ps.AutoFTRL(scale="global"), n_features=3, dtype=np.float32).learn(rows)
    expected = alone.learn(rows)
    scores = np.concatenate([tried.learn(rows.slice(i, min(i + size, 300))) for i in range(0, 300, size)])
    assert isinstance(tried.engine, TrialEngine)
    assert (tried.engine.scale, tried.t) == ("feature", 300)
    np.testing.assert_array_equal(scores[-100:], expected[-100:])
    np.testing.assert_array_equal(tried.weights()[0], alone.weights()[0])
    whole = learner(n_features=3, dtype=np.float32)
    np.testing.assert_array_equal(whole.learn(rows), scores)


def test_if_both_scales_overflow_the_block_is_refused() -> None:
    one = learner(n_features=1)
    one.learn(as_block(np.ones((2, 1)), [1.0, -1.0]))
    before = one.state_dict()
    with pytest.raises(FloatingPointError, match="row 1 of the block"):
        one.learn(as_block(np.array([[1.0], [1e308], [1.0]]), [1.0, -1.0, 1.0], [1.0, 1e308, 1.0]))
    after = one.state_dict()
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("trial.decision", 7.0, "must be -1, 0 or 1, got 7"),
        ("trial.losses", np.nan, "must be numbers"),
        ("global.clock", None, "must have the entry clock"),
    ],
)
def test_a_damaged_state_is_refused(short: int, name: str, value: float | None, match: str) -> None:
    one = learner()
    one.learn(rows_of("plain").slice(0, 40))
    saved = one.state_dict()
    if value is None:
        del saved[name]
    else:
        saved[name][0] = value
    with pytest.raises(ValueError, match=match):
        learner().load_state_dict(saved)
