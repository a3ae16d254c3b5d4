"""Training sessions against a naive replay: one row at a time into a learner, every sum kept in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize_scalar
from sklearn.metrics import roc_auc_score

import proxstream as ps
from proxstream.core import losses
from proxstream.data import measures, tallies
from proxstream.data.rowblock import NO_WEIGHTS, RowBlock, as_block
from proxstream.io import Chunk, DataError, Position
from proxstream.learner.learner import Learner
from proxstream.training import holdout
from proxstream.training.base_session import NoRowsError, Plan
from proxstream.training.labels import BadLabelError, Labels
from proxstream.training.report import Line, Pass
from proxstream.training.session import Interrupted, Session

from ..examples import examples


class Memory:
    """Rows in memory as a source, in chunks of any sizes."""

    def __init__(self, rows: RowBlock, cuts: list[int], qid: Any = None) -> None:
        self.names = ["memory"]
        self.rows, self.cuts, self.qid = rows, sorted({c for c in cuts if 0 < c < rows.n_rows}), qid

    def chunks(self, start: Position = Position()) -> Iterator[Chunk]:  # noqa: B008
        ends = [cut for cut in self.cuts if cut > start.row] + [self.rows.n_rows] * (start.row < self.rows.n_rows)
        for first, last in zip([start.row, *ends], ends, strict=False):
            qid = None if self.qid is None else self.qid[first:last]
            yield Chunk(self.rows.slice(first, last), qid, Position(row=last), 10 * (last - first))


def clicks(n: int = 150, seed: int = 0, *, weighted: bool = False, zero: bool = False) -> RowBlock:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 12)) * (rng.random((n, 12)) < 0.4)
    p = 1.0 / (1.0 + np.exp(-2.0 * (X[:, 0] - X[:, 1])))
    y = np.where(rng.random(n) < p, 1.0, 0.0 if zero else -1.0)
    return as_block(X, y, rng.choice([0.5, 1.0, 2.0], n) if weighted else None)


def ftrl(**more: Any) -> Learner:
    return Learner(ps.FTRLProximal(0.5), "logistic", ps.L1(0.01), growing=True, **more)


def auto() -> Learner:
    return Learner(ps.AutoFTRL(), growing=True)


def held(i: int, share: Fraction) -> bool:
    return math.floor((i + 1) * share) > math.floor(i * share)


class Replay:
    """The same run, a row at a time."""

    def __init__(self, learner: Learner, rows: RowBlock, plan: Plan, factor: dict[float, float] | None = None) -> None:
        self.lines: list[Line] = []
        self.passes: list[Pass] = []
        states = []
        factor = factor or {}
        for number in range(plan.passes):
            total = weight = last_total = last_weight = 0.0
            out = []
            for i in range(rows.n_rows):
                row = rows.slice(i, i + 1)
                c = (float(row.c[0]) if len(row.c) else 1.0) * factor.get(float(row.y[0]), 1.0)
                label = 1.0 if row.y[0] > 0 else -1.0
                row = row._replace(y=np.array([label]), c=np.array([c]))
                if held(i, plan.held_out):
                    score = float(learner.predict(row)[0])
                    out.append(row)
                else:
                    score = float(learner.learn(row, count=number == 0)[0])
                    total, weight = total + c * math.log1p(math.exp(-label * score)), weight + c
                if (i + 1) % plan.every == 0 if plan.every else (i + 1).bit_count() == 1:
                    since = (total - last_total) / (weight - last_weight) if weight > last_weight else math.nan
                    mean = total / weight if weight else math.nan
                    nonzeros = int(np.count_nonzero(learner.weights()[0]))
                    reported = 1.0 / (1.0 + math.exp(-score))
                    features = int(np.diff(row.indptr)[0])
                    self.lines.append(
                        Line(number + 1, i + 1, mean, since, float(rows.y[i]), reported, features, nonzeros)
                    )
                    last_total, last_weight = total, weight
            self.passes.append(Pass(number + 1, rows.n_rows, total / weight, *self.measured(learner, out)))
            states.append(learner.state_dict())
            if plan.early_stop:
                best = int(np.argmin([one.held_out_loss for one in self.passes]))
                if number - best >= plan.early_stop:
                    break
        if plan.early_stop:
            learner.load_state_dict(states[int(np.argmin([one.held_out_loss for one in self.passes]))])

    @staticmethod
    def measured(learner: Learner, out: list[RowBlock]) -> list[float]:
        """Return loss, accuracy and AUC of rows with the model at the end of the pass."""
        if not out:
            return []
        scores, y, c = (np.concatenate([part(row) for row in out]) for part in (learner.predict, _labels, _weights))
        found = tallies.tally(losses.logistic, 1)
        found.add(scores, y, c)
        right = np.average((scores > 0.0) == (y > 0.0), weights=c)
        return [float(np.average(np.log1p(np.exp(-y * scores)), weights=c)), float(right), found.facts()["auc"]]


def _labels(row: RowBlock) -> Any:
    return row.y


def _weights(row: RowBlock) -> Any:
    return row.c


def same_state(a: Learner, b: Learner) -> None:
    one, other = a.state_dict(), b.state_dict()
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def same_tables(a: Any, b: Any) -> None:
    for one, other in ((a.lines, b.lines), (a.passes, b.passes)):
        assert len(one) == len(other)
        np.testing.assert_allclose(np.array(one, float), np.array(other, float), rtol=1e-10, atol=1e-12)


@examples(40)
@given(
    cuts=st.lists(st.integers(1, 149), max_size=6),
    share=st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(3, 8)]),
    every=st.sampled_from([0, 1, 7]),
    passes=st.integers(1, 3),
    weighted=st.booleans(),
    factor=st.sampled_from([{}, {1.0: 2.5}, {-1.0: 0.5, 1.0: 2.0}]),
)
def test_a_session_is_its_replay_row_by_row(
    cuts: list[int], share: Fraction, every: int, passes: int, weighted: bool, factor: dict[float, float]
) -> None:
    rows, plan = clicks(weighted=weighted), Plan(passes=passes, held_out=share, every=every)
    session = Session(ftrl(), Labels(losses.logistic, weights=factor), plan)
    session.run(Memory(rows, cuts))
    naive = ftrl()
    replay = Replay(naive, rows, plan, factor)
    same_state(session.learner, naive)
    same_tables(session, replay)
    assert session.progress.n_bytes == 10 * passes * rows.n_rows
    assert session.progress.all_rows == passes * rows.n_rows


def overfitting() -> tuple[RowBlock, Plan]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 40))
    y = np.where(rng.random(120) < 0.6, 1.0, -1.0)  # noise, so that every further pass fits it more
    return as_block(X, y), Plan(passes=12, held_out=Fraction(1, 4), early_stop=2)


def test_early_stopping_ends_with_the_best_pass() -> None:
    rows, plan = overfitting()
    session = Session(ftrl(), Labels(losses.logistic), plan)
    session.run(Memory(rows, [50]))
    naive = ftrl()
    replay = Replay(naive, rows, plan)
    assert 3 <= len(session.passes) < 12
    same_tables(session, replay)
    same_state(session.learner, naive)
    best = int(np.argmin([one.held_out_loss for one in session.passes]))
    assert len(session.passes) == best + 3


def test_the_first_pass_is_not_judged_by_a_half_trained_model() -> None:
    """On noise the first pass is the best, though its early predictions are worse than those of the second."""
    rng = np.random.default_rng(0)
    rows = as_block(rng.standard_normal((400, 60)), np.where(rng.random(400) < 0.7, 1.0, -1.0))
    one, other = (Learner(ps.FTRLProximal(0.1), n_features=60) for _ in range(2))
    session = Session(one, Labels(losses.logistic), Plan(passes=9, held_out=Fraction(1, 3), early_stop=1))
    session.run(Memory(rows, [90]))
    out = np.arange(2, 400, 3)
    other.learn(rows.take(np.setdiff1d(np.arange(400), out)))
    scores, y = other.predict(rows.take(out)), rows.y[out]
    assert len(session.passes) == 2
    assert session.progress.best_pass == 0
    best = session.passes[0]
    assert best.held_out_loss == pytest.approx(np.mean(np.logaddexp(0.0, -y * scores)), rel=1e-12)
    assert best.held_out_accuracy == pytest.approx(np.mean((scores > 0) == (y > 0)))
    assert best.held_out_auc == pytest.approx(roc_auc_score(y, scores), abs=0.002)


def stop_after(session: Session, chunks: int) -> None:
    """Let a session stop after so many chunks."""
    left = iter(range(chunks - 1))

    def count() -> None:
        if next(left, None) is None:
            session.stop()

    session._on_chunk = count


@pytest.mark.parametrize("stop", [0, 2, 5])
def test_held_out_rows_that_do_not_fit_in_memory_are_read_again(stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, plan = overfitting()
    whole = Session(ftrl(), Labels(losses.logistic), plan)
    whole.run(Memory(rows, [33]))
    monkeypatch.setattr(holdout.HeldOutRows.__init__, "__defaults__", (400,))
    session = Session(ftrl(), Labels(losses.logistic), plan, again=Memory(rows, [11, 70]))
    if stop:
        stop_after(session, stop)
        with pytest.raises(Interrupted):
            session.run(Memory(rows, [20, 90]))
        record, arrays = session.record(), session.arrays()
        session = Session(ftrl(), Labels(losses.logistic), plan, again=Memory(rows, [5]))
        session.restore(record, arrays)
    session.run(Memory(rows, [64]))
    assert not session.kept.complete
    assert session.passes == whole.passes
    same_state(session.learner, whole.learner)


def test_a_source_that_cannot_be_read_again_keeps_the_held_out_rows_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = overfitting()
    monkeypatch.setattr(holdout.HeldOutRows.__init__, "__defaults__", (43 * 7 + 42,))
    losses_found = set()
    for cuts in ([], [1, 2, 3], [50]):
        session = Session(ftrl(), Labels(losses.logistic), Plan(held_out=Fraction(1, 4)))
        session.run(Memory(rows, cuts))
        losses_found.add(session.passes[0].held_out_loss)
        first = rows.take(np.arange(3, 28, 4))
        loss = np.mean(np.logaddexp(0.0, -first.y * session.learner.predict(first)))
        assert session.passes[0].held_out_loss == pytest.approx(loss, rel=1e-12)
    assert len(losses_found) == 1


def test_held_out_rows_of_a_changed_source_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, plan = overfitting()
    monkeypatch.setattr(holdout.HeldOutRows.__init__, "__defaults__", (10,))
    session = Session(ftrl(), Labels(losses.logistic), plan, again=Memory(rows.slice(0, 100), []))
    with pytest.raises(DataError, match="the file has changed: 25 rows are held out, the first pass had 30"):
        session.run(Memory(rows, []))


def test_rows_of_a_separate_source_are_held_out_after_each_pass() -> None:
    rows, out = clicks(), clicks(60, seed=9, weighted=True)
    session = Session(ftrl(), Labels(losses.logistic), Plan(passes=2), held_out=Memory(out, [7, 30]))
    session.run(Memory(rows, [40]))
    naive = ftrl()
    for one in session.passes:
        naive.learn(rows, count=one.number == 1)
        suffered = np.log1p(np.exp(-out.y * naive.predict(out)))
        assert one.held_out_loss == pytest.approx(np.average(suffered, weights=out.c), rel=1e-12)
    same_state(session.learner, naive)


@examples(25)
@given(
    stop=st.integers(1, 9),
    first=st.lists(st.integers(1, 119), min_size=3, max_size=6, unique=True),
    then=st.lists(st.integers(1, 119), max_size=4),
)
def test_a_session_resumes_from_its_record_without_a_trace(stop: int, first: list[int], then: list[int]) -> None:
    rows, plan = overfitting()
    whole = Session(ftrl(), Labels(losses.logistic), plan)
    whole.run(Memory(rows, []))
    broken = Session(ftrl(), Labels(losses.logistic), plan)
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == stop:
            broken.stop()

    broken._on_chunk = count
    with pytest.raises(Interrupted):
        broken.run(Memory(rows, first))
    record, arrays = broken.record(), {name: array.copy() for name, array in broken.arrays().items()}
    resumed = Session(ftrl(), Labels(losses.logistic), plan)
    resumed.restore(record, arrays)
    resumed.run(Memory(rows, then))
    same_state(resumed.learner, whole.learner)
    np.testing.assert_array_equal(np.array(resumed.lines), np.array(whole.lines))
    assert resumed.passes == whole.passes
    assert resumed.tally.facts() == whole.tally.facts()
    assert resumed.progress == whole.progress


@pytest.mark.parametrize("stop", [1, 4])  # in the first pass and in the second, whose rows are known
def test_rows_of_a_later_pass_are_known_also_after_a_restart(stop: int) -> None:
    rows, plan = clicks(), Plan(passes=3)
    expected = auto()
    for number in range(3):
        expected.learn(rows, count=number == 0, repeated=number > 0)
    session, chunks = Session(auto(), Labels(losses.logistic), plan), iter(range(stop))

    def count() -> None:
        if next(chunks, None) is None:
            session.stop()

    session._on_chunk = count
    with pytest.raises(Interrupted):
        session.run(Memory(rows, [40, 90]))
    assert session.progress.number == stop // 3
    resumed = Session(auto(), Labels(losses.logistic), plan)
    resumed.restore(session.record(), {name: array.copy() for name, array in session.arrays().items()})
    resumed.run(Memory(rows, [11]))
    same_state(resumed.learner, expected)


@pytest.mark.interpreted
@pytest.mark.default_cases(2)
@pytest.mark.parametrize(
    ("algorithm", "penalty"),
    [
        (ps.FTRLProximal(0.5), ps.L1(0.02)),
        (ps.FTRLProximal(0.5), ps.Box(0.1, 1.0)),  # which gives weight to features that never occurred
        (ps.AutoFTRL(), ps.L1(0.02)),
        (ps.MirrorDescent(0.3), ps.L1(0.02)),
    ],
    ids=str,
)
def test_weights_of_features_that_occurred_are_all_that_count(algorithm: Any, penalty: Any) -> None:
    rows = clicks(2000)
    learner = Learner(algorithm, "logistic", penalty, n_features=40)
    session = Session(learner, Labels(losses.logistic), Plan(every=500))
    naive = Learner(algorithm, "logistic", penalty, n_features=40)
    session.run(Memory(rows, [77, 900]))
    for line in session.lines:
        naive.learn(rows.slice(line.rows - 500, line.rows))
        assert line.nonzeros == np.count_nonzero(naive.weights()[0])


def test_a_stop_while_waiting_breaks_in_and_loses_nothing() -> None:
    rows = clicks()
    session: Session

    class Stuck(Memory):
        def chunks(self, start: Position = Position()) -> Iterator[Chunk]:  # noqa: B008
            for i, chunk in enumerate(super().chunks(start)):
                if i == 1:
                    session.stop()  # as a signal handler would, while `next` waits
                yield chunk

    session = Session(ftrl(), Labels(losses.logistic))
    with pytest.raises(Interrupted):
        session.run(Stuck(rows, [30, 60]))
    assert session.progress.position.row == session.progress.rows == session.learner.t == 30


def test_a_trained_learner_reports_the_losses_of_new_rows_only() -> None:
    rows = clicks()
    learner = ftrl()
    learner.learn(rows)
    before = learner.loss_sums
    session = Session(learner, Labels(losses.logistic), Plan(passes=2))
    session.run(Memory(clicks(seed=5), []))
    one = session.passes[0]
    sums = learner.loss_sums
    assert one.mean_loss == pytest.approx((sums[0] - before[0]) / (sums[1] - before[1]))


@pytest.mark.parametrize("zero", [False, True])
def test_binary_labels_are_minus_one_or_zero_and_one(zero: bool) -> None:
    learners = []
    for way in (False, zero):
        session = Session(ftrl(), Labels(losses.logistic))
        session.run(Memory(clicks(zero=way), [10]))
        learners.append(session.learner)
    same_state(*learners)


def test_labels_of_classes_are_any_numbers() -> None:
    labels = Labels(losses.softmax, classes=(3.0, 1.0, 7.0), weights={7.0: 2.0})
    block = as_block(np.eye(4), y=[1, 7, 3, 1])
    read = labels.read(block).rows
    np.testing.assert_array_equal(read.y, [1, 2, 0, 1])
    np.testing.assert_array_equal(read.c, [1, 2, 1, 1])
    with pytest.raises(BadLabelError, match="the label is 2, expected one of 3, 1, 7") as caught:
        labels.read(block._replace(y=np.array([1.0, 7.0, 2.0, 3.0])))
    assert caught.value.row == 2


@pytest.mark.parametrize(
    ("loss", "label", "expected"),
    [
        (losses.logistic, 2.0, "the label is 2, expected -1, 0 or 1"),
        (losses.hinge, math.nan, "the label is missing, expected -1, 0 or 1"),
        (losses.squared, math.inf, "the label is inf, expected a finite number"),
        (losses.poisson, -1.0, "the label is -1, expected"),
        (losses.ranking_hinge, math.nan, "the label is missing, expected a finite number"),
    ],
)
def test_a_label_that_the_loss_does_not_know(loss: Any, label: float, expected: str) -> None:
    block = as_block(np.eye(3), y=[1.0, 1.0, label])
    with pytest.raises(BadLabelError, match=expected) as caught:
        Labels(loss).read(block)
    assert caught.value.row == 2
    left = Labels(loss).read(block, skip=True)
    assert left.kept is not None
    np.testing.assert_array_equal(left.kept, [0, 1])
    assert left.rows.n_rows == 2


def test_rows_with_bad_labels_are_skipped_and_counted() -> None:
    rows = clicks()
    bad = rows.y.copy()
    bad[[3, 70, 149]] = 5.0
    session = Session(ftrl(), Labels(losses.logistic), Plan(skip_bad=True))
    session.run(Memory(rows._replace(y=bad), [50, 71]))
    naive = ftrl()
    naive.learn(rows.take(np.delete(np.arange(150), [3, 70, 149])))
    same_state(session.learner, naive)
    assert (session.progress.bad_labels, session.progress.rows) == (3, 147)


def test_several_classes_report_the_predicted_label() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.array([5.0, 2.0, 9.0])[np.argmax(X, axis=1)]
    learner = Learner(ps.FTRLProximal(0.5), "softmax", n_features=3, n_outputs=3)
    session = Session(learner, Labels(losses.softmax, classes=(2.0, 5.0, 9.0)))
    session.run(Memory(as_block(X, y), [64]))
    assert {line.prediction for line in session.lines} <= {2.0, 5.0, 9.0}
    assert session.lines[-1].label in (2.0, 5.0, 9.0)
    assert 0.8 < session.tally.facts()["accuracy"] < 1.0
    best = session.tally.best_constant()
    assert best is not None
    shares = np.unique(y, return_counts=True)[1] / 200
    assert best.loss == pytest.approx(-(shares @ np.log(shares)))


def test_rankers_learn_pairs_and_hold_out_separate_queries() -> None:
    rng = np.random.default_rng(1)
    X, qid = rng.standard_normal((90, 4)), np.repeat(np.arange(18), 5)
    y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
    train, out = as_block(X[:60], y[:60]), as_block(X[60:], y[60:])

    def ranker() -> Learner:
        return Learner(ps.FTRLProximal(0.5), "ranking_hinge", n_features=4, ranking=True)

    session = Session(ranker(), Labels(losses.ranking_hinge), held_out=Memory(out, [3, 17], qid[60:]))
    session.run(Memory(train, [33], qid[:60]))
    naive = ranker()
    naive.learn(train, qid[:60])
    same_state(session.learner, naive)
    scores = naive.predict(out)
    pairs = [
        max(0.0, 1.0 - (scores[i] - scores[j]))
        for i in range(30)
        for j in range(30)
        if qid[60 + i] == qid[60 + j] and out.y[i] > out.y[j]
    ]
    assert session.passes[0].held_out_loss == pytest.approx(np.mean(pairs), rel=1e-12)
    assert 0.5 < session.tally.facts()["pair_accuracy"] <= 1.0
    with pytest.raises(ValueError, match="part of a query cannot be held out"):
        Session(ranker(), Labels(losses.ranking_hinge), Plan(held_out=Fraction(1, 2)))


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_rows_that_look_ordered_are_reported_once(stop: int) -> None:
    rows = clicks(1200).sorted_by(clicks(1200).y)
    found: list[int] = []
    reports: Any = {"on_order": lambda labels: found.append(labels.rows)}
    session = Session(ftrl(), Labels(losses.logistic), Plan(passes=2), **reports)
    if stop:
        stop_after(session, stop)
        with pytest.raises(Interrupted):
            session.run(Memory(rows, [300, 700, 1100]))
        record, arrays = session.record(), {name: array.copy() for name, array in session.arrays().items()}
        session = Session(ftrl(), Labels(losses.logistic), Plan(passes=2), **reports)
        session.restore(record, arrays)
    session.run(Memory(rows, [5]))
    assert found == [1024]
    with pytest.warns(ps.OrderWarning, match="rows look ordered: after 1,024 rows"):
        Session(ftrl(), Labels(losses.logistic)).run(Memory(rows, [64]))


def test_no_rows_are_an_error() -> None:
    with pytest.raises(NoRowsError, match="no rows"):
        Session(ftrl(), Labels(losses.logistic)).run(Memory(clicks(0), []))


# ---- metrics


@examples(30)
@given(seed=st.integers(0, 1000), weighted=st.booleans(), scale=st.sampled_from([1e-30, 0.01, 1.0, 50.0]))
def test_auc_is_that_of_scikit_learn_within_its_error(seed: int, weighted: bool, scale: float) -> None:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(400) < 0.3, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    scores = scale * (rng.standard_normal(400) + y)
    if scale < 1.0:
        scores[rng.random(400) < 0.2] = 0.0  # ties, which count half
    c = rng.random(400) if weighted else NO_WEIGHTS
    counted = tallies.tally(losses.logistic, 1)
    for cut in (slice(0, 100), slice(100, 400)):
        counted.add(scores[cut], y[cut], c[cut])
    facts = counted.facts()
    weights = c if weighted else None
    assert abs(facts["auc"] - roc_auc_score(y, scores, sample_weight=weights)) <= facts["auc_error"] + 1e-12
    assert facts["auc_error"] < 0.002 or scale < 1.0
    assert facts["accuracy"] == pytest.approx(np.average((scores > 0) == (y > 0), weights=weights))


@pytest.mark.parametrize("loss", [losses.logistic, losses.hinge, losses.squared_hinge, losses.smoothed_hinge])
def test_the_best_constant_of_two_classes(loss: Any) -> None:
    y = np.repeat([-1.0, 1.0], [30, 70])
    counted = tallies.tally(loss, 1)
    counted.add(np.zeros(100), y, NO_WEIGHTS)
    best = counted.best_constant()
    found = minimize_scalar(lambda p: float(np.mean(loss.value(np.full(100, p), y))))
    assert best is not None
    assert best.loss == pytest.approx(found.fun, abs=1e-8)
    assert best.loss == pytest.approx(float(np.mean(loss.value(np.full(100, best.value), y))))


@pytest.mark.parametrize(
    "loss", [losses.squared, losses.absolute, losses.huber(0.5), losses.quantile(0.9), losses.poisson]
)
@pytest.mark.parametrize("whole", [True, False])
def test_the_best_constant_of_numbers(loss: Any, whole: bool) -> None:
    rng = np.random.default_rng(0)
    y = rng.poisson(4.0, 500).astype(float) if whole else rng.gamma(2.0, 2.0, 500)
    c = rng.random(500)
    counted = tallies.tally(loss, 1)
    counted.add(np.zeros(500), y, c)
    best = counted.best_constant()
    assert best is not None

    def mean(p: float) -> float:
        return float(np.average(loss.value(np.full(500, p), y), weights=c))

    found = minimize_scalar(mean, bounds=(-1.0, 20.0), method="bounded", options={"xatol": 1e-9})
    slack = abs(found.fun) * (1e-7 if whole or loss is losses.squared else 1e-3)
    assert abs(best.loss - found.fun) <= slack
    assert mean(best.value) <= found.fun + slack


def test_one_against_the_rest_has_the_best_constant_of_each() -> None:
    y = np.repeat([0.0, 1.0, 2.0], [50, 30, 20])
    counted = tallies.tally(losses.logistic, 3)
    counted.add(np.zeros((100, 3)), y, NO_WEIGHTS)
    best = counted.best_constant()
    shares = np.array([0.5, 0.3, 0.2])
    assert best is not None
    assert best.value == 0.0
    assert best.loss == pytest.approx(-float(np.sum(shares * np.log(shares) + (1 - shares) * np.log(1 - shares))))
    assert counted.facts() == {"accuracy": 0.5}


def test_regression_reports_its_squared_error() -> None:
    counted = tallies.tally(losses.squared, 1)
    counted.add(np.array([1.0, 2.0]), np.array([1.0, 4.0]), NO_WEIGHTS)
    assert counted.facts()["rmse"] == pytest.approx(math.sqrt(2.0))


def test_bins_keep_the_order() -> None:
    values = np.sort(np.concatenate([s * 10.0 ** np.arange(-45, 39) for s in (-1.0, 1.0)]))
    found = measures.bins(values, measures.LABEL_BITS)
    assert (np.diff(found) >= 0).all()
    assert found.min() >= 0
    assert found.max() < 1 << measures.LABEL_BITS
    whole = np.arange(-4096.0, 4097.0)
    assert len(np.unique(measures.bins(whole, measures.LABEL_BITS))) == len(whole)
