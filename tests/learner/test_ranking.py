"""Ranking: pairs of a query's rows, learned as rows of their own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.core import losses
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner import _auto as auto, _ranking as ranking
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import ScalarLayout
from proxstream.learner.learner import Learner
from proxstream.learner.plan import plan
from proxstream.learner.ranking import RankingEngine

from ..examples import examples

pytestmark = pytest.mark.interpreted

D, ROWS = 8, 40


def sample(weighted: bool = False, dtype: Any = np.float64) -> tuple[RowBlock, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, D)) * (rng.random((ROWS, D)) < 0.4)
    X[3], X[5] = X[4], 0.0
    qid = np.sort(rng.integers(0, 6, ROWS))
    c = np.where(rng.random(ROWS) < 0.2, 0.0, rng.uniform(0.5, 2.0, ROWS)) if weighted else None
    return as_block(X.astype(dtype), rng.integers(0, 3, ROWS), c), qid


def engine(
    pairs: int | None = None,
    seed: int = 0,
    dtype: Any = np.float64,
    algorithm: Any = ps.FTRLProximal(alpha=0.5),  # noqa: B008
    loss: Any = losses.ranking_hinge,
) -> RankingEngine:
    made = plan(algorithm, ps.L1(0.01), loss, dtype)
    assert not isinstance(made, str)
    return RankingEngine(CompiledEngine(ScalarLayout(made), D, dtype, False), pairs, seed)


def dense(rows: RowBlock) -> Any:
    X = np.zeros((rows.n_rows, D))
    for i in range(rows.n_rows):
        X[i, rows.indices[rows.indptr[i] : rows.indptr[i + 1]]] = rows.data[rows.indptr[i] : rows.indptr[i + 1]]
    return X


def naive_pairs(rows: RowBlock, qid: Any) -> list[tuple[Any, float]]:
    """Each row with the earlier rows of its query, the more relevant one first, and the pair's weight."""
    X, found = dense(rows), []
    c = rows.c if len(rows.c) else np.ones(rows.n_rows)
    for i in range(rows.n_rows):
        for e in range(i):
            if qid[e] == qid[i] and rows.y[e] != rows.y[i] and c[i] * c[e] > 0.0:
                sign = 1.0 if rows.y[i] > rows.y[e] else -1.0
                found.append((sign * (X[i] - X[e]), float(np.sqrt(c[i] * c[e]))))
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_all_pairs_are_learned_as_rows(weighted: bool) -> None:
    rows, qid = sample(weighted)
    machine = engine()
    scores = machine.learn(rows, qid)
    learner, expected = ps.OnlineLearner(ps.FTRLProximal(alpha=0.5), ps.L1(0.01), dim=D), []
    pairs = []
    for query in np.unique(qid):
        mine = naive_pairs(rows.take(np.flatnonzero(qid == query)), qid[qid == query])
        expected += [float(x @ learner.point) for x, _ in mine]  # before any of them is learned
        for x, c in mine:
            learner.learn(x, 1, "ranking_hinge", **({"weight": c} if weighted else {}))
        pairs += mine
    assert np.allclose(scores, expected, atol=1e-12)
    assert np.allclose(machine.weights()[0], learner.point, atol=1e-12)
    assert np.array_equal(machine.weights()[0] == 0.0, learner.point == 0.0)
    assert machine.t == len(pairs)
    assert machine.k == pytest.approx(sum(c for _, c in pairs))


def test_learns_to_order() -> None:
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(600, D)), rng.normal(size=D)
    y, qid = np.digitize(X @ w, [-1.0, 1.0]), np.repeat(np.arange(60), 10)
    machine = engine()
    machine.learn(as_block(X, y), qid)
    order = np.corrcoef(machine.predict(as_block(X)), X @ w)[0, 1]
    assert order > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pairs", [None, 2])
@examples(15)
@given(cuts=st.lists(st.integers(0, ROWS), max_size=8), resume=st.booleans())
def test_cut_and_resumed_anywhere(pairs: int | None, dtype: Any, cuts: list[int], resume: bool) -> None:
    rows, qid = sample(weighted=True, dtype=dtype)
    whole = engine(pairs, dtype=dtype)
    scores = whole.learn(rows, qid)
    pieces, got = engine(pairs, dtype=dtype), []
    edges = [0, *sorted(cuts), ROWS]
    for start, stop in pairwise(edges):
        got.append(pieces.learn(rows.slice(start, stop), qid[start:stop]))
        if resume:
            saved = {name: array.copy() for name, array in pieces.arrays().items()}
            pieces = engine(pairs, dtype=dtype)
            pieces.restore(saved)
    assert np.array_equal(np.concatenate(got), scores)
    assert np.array_equal(pieces.weights()[0], whole.weights()[0])
    for name, array in whole.arrays().items():
        assert np.array_equal(array, pieces.arrays()[name])


ANY_STATE = [
    (ps.AutoFTRL(), ps.L1(0.001)),
    (ps.RDA(), ps.L1(0.01)),
    (ps.MirrorDescent(0.1), ps.L2(0.1)),
    (ps.FTRLProximal(0.5), ps.Box(0.1, 2.0)),
    (ps.RDA(), ps.L2Ball(1.0)),  # a dense engine
]


@pytest.mark.default_cases(3)
@pytest.mark.parametrize(("algorithm", "penalty"), ANY_STATE, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_losses_of_whole_queries_do_not_depend_on_cuts(algorithm: Any, penalty: Any, dtype: Any) -> None:
    """Queries are cut and saved anywhere, and have features that did not occur before."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 30)) * (rng.random((60, 30)) < 0.3) * (np.arange(30) < 3 + np.arange(60)[:, None] // 2)
    rows, qid = as_block(X.astype(dtype), rng.integers(0, 3, 60)), np.arange(60) // 15

    def learner() -> Learner:
        n = 30 if isinstance(penalty, ps.L2Ball) else 1
        return Learner(algorithm, "logistic", penalty, n_features=n, growing=n == 1, ranking=True, dtype=dtype)

    whole, total, weight = learner(), 0.0, 0.0
    for query in range(4):
        mine = rows.slice(15 * query, 15 * query + 15)
        whole.engine.grow(mine.n_features)  # features have a weight before they occur
        scores = whole.predict(mine)
        pairs = [(i, e) for i in range(15) for e in range(i) if mine.y[i] != mine.y[e]]
        apart = [float(scores[i] - scores[e]) * np.sign(mine.y[i] - mine.y[e]) for i, e in pairs]
        total, weight = total + sum(np.logaddexp(0.0, -np.array(apart))), weight + len(apart)
        whole.learn(mine, qid[15 * query : 15 * query + 15])
    np.testing.assert_allclose(whole.loss_sums, (total, weight), rtol=1e-5 if dtype == np.float32 else 1e-9)
    for cuts in ([1], [7, 8, 9, 29, 31, 47], list(range(1, 60))):
        pieces = learner()
        for start, stop in pairwise([0, *cuts, 60]):
            pieces.learn(rows.slice(start, stop), qid[start:stop])
            resumed = learner()
            resumed.load_state_dict(pieces.state_dict())
            pieces = resumed
        assert pieces.loss_sums == whole.loss_sums
        assert np.array_equal(pieces.weights()[0], whole.weights()[0])


def test_buffers_of_any_size_make_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, qid = sample()
    expected = [engine(pairs).learn(rows, qid) for pairs in (None, 3)]

    def cramped(longest: int, rows: Any) -> Any:
        pairs = room(longest, rows)
        size = 2 * longest
        return pairs._replace(
            indptr=pairs.indptr[:4], indices=pairs.indices[:size], data=pairs.data[:size], c=pairs.c[:3]
        )

    room = ranking.room
    monkeypatch.setattr(ranking, "room", cramped)
    for pairs, scores in zip((None, 3), expected, strict=True):
        assert np.array_equal(engine(pairs).learn(rows, qid), scores)


def test_draws_are_a_function_of_seed_and_rows() -> None:
    rows, qid = sample()
    first, again, other = engine(2, seed=1), engine(2, seed=1), engine(2, seed=2)
    scores = first.learn(rows, qid)
    assert np.array_equal(scores, again.learn(rows, qid))
    assert not np.array_equal(scores, other.learn(rows, qid))


def test_at_most_so_many_partners_a_row_and_all_if_there_are_fewer() -> None:
    rows, qid = sample()
    X, everything = dense(rows), naive_pairs(rows, qid)
    for pairs in (1, 3, 100):
        machine = engine(pairs)
        machine.learn(rows, qid)
        partners = [
            min(pairs, sum(qid[e] == qid[i] and rows.y[e] != rows.y[i] for e in range(i))) for i in range(len(X))
        ]
        assert machine.t == sum(partners)
    assert machine.t == len(everything)


@pytest.mark.compiled
def test_every_partner_is_as_likely() -> None:
    rows = as_block(np.eye(D), np.array([0.0] * (D - 1) + [1.0]))
    seed = np.array([5], np.uint64)
    counts = np.zeros(D)
    for _ in range(3000):
        pairs = ranking.room(1, rows)
        made = ranking.fill(rows, np.zeros(D, np.int64), 2, seed, pairs)
        taken = pairs.indices[pairs.indptr[D] : pairs.indptr[made]]  # after the rows themselves
        counts += np.bincount(taken[taken < D - 1], minlength=D)
    share = counts[:-1] / 3000
    assert np.all(np.abs(share - 2 / 7) < 5 * np.sqrt(2 / 7 * 5 / 7 / 3000))


def test_unsorted_rows_and_duplicates_add_up() -> None:
    indptr, y = np.array([0, 3, 5]), np.array([1.0, 0.0])
    loose = RowBlock(indptr, np.array([5, 1, 5]), np.array([1.0, 2.0, 3.0]), y)
    loose = loose._replace(indices=np.array([5, 1, 5, 7, 0]), data=np.array([1.0, 2.0, 3.0, 1.0, 1.0]))
    tidy = RowBlock(np.array([0, 2, 4]), np.array([1, 5, 0, 7]), np.array([2.0, 4.0, 1.0, 1.0]), y)
    one, two = engine(), engine()
    one.learn(loose, np.zeros(2, int)), two.learn(tidy, np.zeros(2, int))
    assert np.array_equal(one.weights()[0], two.weights()[0])
    assert one.t == 1


def test_any_loss_of_a_margin_ranks() -> None:
    rows, qid = sample()
    machine = engine(loss=losses.logistic)
    assert len(machine.learn(rows, qid)) == machine.t > 0


def queries(seed: int, n: int, weights: Any, kind: str) -> tuple[Any, Any, Any]:
    """Queries of 4 to 24 rows, whose relevance is the quarter that a noisy score is in."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n), rng.integers(4, 25, n))
    X = rng.normal(size=(len(qid), len(weights)))
    if kind == "binary":
        X = (rng.random(X.shape) < 0.15).astype(float)
    elif kind == "shifted":
        X += 3.0 * rng.normal(size=(n, len(weights)))[qid]
    score = X @ weights + 2.0 * rng.normal(size=len(qid))
    ranks = np.array([np.sum(score[qid == q] < s) / np.sum(qid == q) for s, q in zip(score, qid, strict=True)])
    return X, np.floor(4.0 * ranks), qid


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["plain", "binary", "shifted"])
def test_the_default_orders_new_queries_as_well_as_ftrl_proximal(kind: str) -> None:
    weights = np.random.default_rng(0).normal(size=40)
    X, y, qid = queries(1, 150, weights, kind)
    new, relevance, of = queries(2, 100, weights, kind)
    scores = {
        str(algorithm): ps.StreamRanker(algorithm).fit(X, y, qid=qid).score(new, relevance, qid=of)
        for algorithm in (None, ps.FTRLProximal(), ps.FTRLProximal(1.0))
    }
    assert scores["None"] > max(scores.values()) - 0.002  # 8,000 pairs of 100 queries: less than their error


def test_pairs_teach_no_rates() -> None:
    X, y, qid = queries(1, 20, np.ones(5), "plain")
    model = ps.StreamRanker().fit(X, y, qid=qid)
    clock = model._learner.engine.clock
    assert (clock[auto.A], clock[auto.B], clock[auto.C]) == (0.0, -1.0, 0.0)
    assert clock[auto.T] == model.t_ > 0


def test_refusals() -> None:
    rows, qid = sample()
    machine = engine()
    with pytest.raises(ValueError, match="qid must be one integer per row, 40"):
        machine.learn(rows, qid[:-1])
    with pytest.raises(ValueError, match="qid must be one integer per row"):
        machine.learn(rows, qid.astype(float))
    with pytest.raises(ValueError, match="pairs must be an integer >= 1"):
        engine(0)
    assert machine.learn(rows.slice(0, 0), qid[:0]).shape == (0,)
    assert machine.t == 0


def test_weights_of_any_size_make_pairs_that_weigh_their_mean() -> None:
    """The product of two weights may be no number, or 0: their geometric mean is what it is for weights near 1."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(12, 3)), rng.integers(0, 3, 12), np.repeat([0, 1, 2], 4)
    c = 2.0 ** rng.integers(0, 4, 12)
    for scale in (2.0**600, 2.0**-600):
        model = ps.StreamRanker(ps.RDA(gamma=scale)).fit(X, y, qid, c * scale)
        plain = ps.StreamRanker(ps.RDA(gamma=1.0)).fit(X, y, qid, c)
        assert model.t_ == plain.t_ > 0
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-12)


def test_more_partners_than_there_are_rows_are_all() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), rng.integers(0, 3, 12)
    every, many = (ps.StreamRanker(ps.RDA(), pairs=pairs).fit(X, y) for pairs in (None, 1 << 62))
    assert np.array_equal(every.coef_, many.coef_)
    with pytest.raises(ValueError, match=r"pairs must be an integer in 1\.\.4611686018427387904, got 1000000000000"):
        ps.StreamRanker(ps.RDA(), pairs=10**30).fit(X, y)
