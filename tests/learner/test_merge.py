"""Changes that add: what learners found apart from one state is put together as engines/sums.py says."""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxstream as ps
from proxstream.data.rowblock import as_block
from proxstream.learner import _auto as auto, merge as sums
from proxstream.learner.learner import Learner

pytestmark = pytest.mark.interpreted

D = 7
SETTINGS = {
    "rda": (ps.RDA(gamma=2.0, rho=0.01), "logistic", 1),
    "adagrad": (ps.AdaGrad(eta=0.5), "logistic", 1),
    "ftrl": (ps.FTRLProximal(alpha=0.5), "logistic", 1),
    "auto": (ps.AutoFTRL(scale="feature"), "logistic", 1),
    "auto_global": (ps.AutoFTRL(scale="global"), "squared", 1),
    "ftrl_classes": (ps.FTRLProximal(alpha=0.5), "softmax", 3),
    "auto_classes": (ps.AutoFTRL(scale="feature"), "softmax", 3),
}


def rows(n, seed, outputs=1, columns=range(D)):
    rng = np.random.default_rng(seed)
    X = np.zeros((n, D))
    X[:, list(columns)] = rng.normal(size=(n, len(list(columns)))) * rng.integers(0, 2, (n, len(list(columns))))
    y = (
        rng.integers(0, outputs, n).astype(float)
        if outputs > 1
        else np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    )
    return as_block(X, y)


def learner(name, dtype=np.float64):
    algorithm, loss, outputs = SETTINGS[name]
    made = Learner(algorithm, loss, ps.L1(1e-3), n_features=D, n_outputs=outputs, dtype=dtype)
    made.learn(rows(30, 0, outputs))
    return made


def apart(made, blocks, lanes, everything=False):
    """Return the changes of lanes that learn a block each, from the state that the learner is in."""
    found = []
    for block in blocks:
        start = sums.before(made.engine, sums.NO_FEATURES if everything else sums.touched(D, [block.indices]))
        made.learn(block._replace(c=np.full(block.n_rows, float(lanes))) if lanes > 1 else block)
        found.append(sums.withdraw(made.engine, start, lanes))
    return found


def state(made):
    return {name: array.copy() for name, array in made.engine.arrays().items()}


@pytest.mark.default_cases(2)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, np.float64) for name in SETTINGS), ("ftrl", np.float32), ("auto", np.float32)],
)
def test_one_learner_is_taken_as_it_is(name, dtype):
    made, straight, outputs = learner(name, dtype), learner(name, dtype), SETTINGS[name][2]
    block = rows(40, 1, outputs)._replace(y=rows(40, 1, outputs).y)
    block = block._replace(data=block.data.astype(dtype))
    before = state(made)
    [changes] = apart(made, [block], 1)
    for array, old in zip(state(made).values(), before.values(), strict=True):
        np.testing.assert_array_equal(array, old)  # put back
    sums.apply(made.engine, changes)
    straight.learn(block)
    for array, other in zip(state(made).values(), state(straight).values(), strict=True):
        np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("name", SETTINGS)
def test_learners_that_agree_are_their_mean(name):
    """All learners meet the same rows: cells and penalty are those of each, rows are counted."""
    n, made, one = 3, learner(name), learner(name)
    block = rows(25, 2, SETTINGS[name][2])
    sums.apply(made.engine, sums.add(apart(made, [block] * n, n)))
    one.learn(block._replace(c=np.full(25, float(n))))
    np.testing.assert_allclose(made.engine.state, one.engine.state, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(made.engine.bias, one.engine.bias, rtol=1e-12, atol=1e-14)
    assert made.engine.k == pytest.approx(one.engine.k)
    assert made.t == 30 + 25 * n


def test_gradients_come_in_once_each():
    """The state of RDA is the sum of the rows' gradients, each at the point where its lane met it."""
    n, gamma, l1 = 2, 2.0, 1e-3
    blocks = [rows(12, 3), rows(15, 4)]
    made = Learner(ps.RDA(gamma=gamma), "logistic", ps.L1(l1), n_features=D, fit_intercept=False)
    made.learn(rows(30, 0))
    u0, t0, k0 = made.engine.state[:, 0].copy(), made.t, made.engine.k
    total = np.zeros(D)
    for block in blocks:
        u, t, k = u0.copy(), t0, k0
        X = np.zeros((block.n_rows, D))
        for i in range(block.n_rows):
            cells = slice(block.indptr[i], block.indptr[i + 1])
            X[i, block.indices[cells]] = block.data[cells]
            w = -np.sign(u) * np.maximum(np.abs(u) - k * l1, 0.0) / (gamma * math.sqrt(t))
            g = -block.y[i] / (1.0 + math.exp(block.y[i] * float(X[i] @ w))) * X[i]
            total += g
            u, t, k = u + n * g, t + 1, k + n
    sums.apply(made.engine, sums.add(apart(made, blocks, n)))
    np.testing.assert_allclose(made.engine.state[:, 0], u0 + total, rtol=1e-12)
    assert (made.t, made.engine.k) == (t0 + 27, k0 + 27)


def test_curvature_and_centring_of_ftrl_proximal():
    """The formulas of the module's head, from the lanes' own cells."""
    n, alpha = 2, 0.5
    made = Learner(ps.FTRLProximal(alpha=alpha), "logistic", n_features=D, fit_intercept=False)
    made.learn(rows(30, 0))
    blocks = [rows(12, 3), rows(15, 4, columns=range(4))]
    (z0, r0), cells, points = made.engine.state.T.copy(), [], []
    for block in blocks:
        lane = Learner(ps.FTRLProximal(alpha=alpha), "logistic", n_features=D, fit_intercept=False)
        lane.load_state_dict(made.state_dict())
        lane.learn(block._replace(c=np.full(block.n_rows, float(n))))
        cells.append(lane.engine.state.T)
        points.append(lane.weights()[0])
    d = [(r * r - r0 * r0) / n**2 for _, r in cells]
    met = np.divide(sum(d) ** 2, sum(x * x for x in d), out=np.ones(D), where=sum(d) > 0)
    r = np.sqrt(r0 * r0 + met * sum(d))
    assert met[4:] == pytest.approx(np.ones(3))  # those that one lane alone has met
    grown = sum(ri - r0 for _, ri in cells)
    surplus = 1.0 - np.divide(n * (r - r0), grown, out=np.ones(D), where=grown > 0)
    centred = sum((ri - r0) * w for (_, ri), w in zip(cells, points, strict=True)) / alpha / n
    z = z0 + sum(zi - z0 for zi, _ in cells) / n + surplus * centred
    sums.apply(made.engine, sums.add(apart(made, blocks, n)))
    np.testing.assert_allclose(made.engine.state, np.stack((z, r), axis=1), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["auto", "auto_classes"])
def test_sizes_of_auto_ftrl(name):
    """s is the largest, and the floor S is what it is by definition: twice the geometric mean of all s."""
    made, outputs = learner(name), SETTINGS[name][2]
    blocks = [rows(12, 3, outputs), rows(15, 4, outputs), rows(9, 5, outputs, columns=(1, 2))]
    blocks[1] = blocks[1]._replace(data=blocks[1].data * 5.0)
    largest = 1.0 / made.engine.state[:, -1]
    for block in blocks:
        np.maximum.at(largest, block.indices, np.abs(block.data))
    sums.apply(made.engine, sums.add(apart(made, blocks, 3)))
    np.testing.assert_allclose(1.0 / made.engine.state[:, -1], largest, rtol=1e-12)
    clock = made.engine.clock
    assert clock[auto.COUNT] == D
    assert clock[auto.SCALE] == pytest.approx(2.0 * np.exp(np.log(largest).mean()), rel=1e-12)
    assert clock[auto.SUM] + math.log2(clock[auto.MANTISSA]) == pytest.approx(-np.log2(largest).sum(), rel=1e-12)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("lanes", [1, 2])
def test_looking_at_all_features_is_the_same_bits(name, lanes, monkeypatch):
    """Whether changes are those of the features that rows have or of all, with their numbers or without."""
    blocks = [rows(12, 3, SETTINGS[name][2], columns=(0, 2)), rows(5, 4, SETTINGS[name][2], columns=(0, 5))][:lanes]
    some, every, dense = (learner(name) for _ in range(3))
    sums.apply(some.engine, sums.add(apart(some, blocks, lanes)))
    sums.apply(every.engine, sums.add(apart(every, blocks, lanes, everything=True)))
    monkeypatch.setattr(sums, "DENSE", 0.0)
    found = sums.add(apart(dense, blocks, lanes, everything=True))
    assert len(found.cells) == D
    assert len(found.features) == 0
    sums.apply(dense.engine, found)
    for made in (every, dense):
        for array, other in zip(state(made).values(), state(some).values(), strict=True):
            np.testing.assert_array_equal(array, other)


def test_touched_features():
    indices = [np.array([5, 1, 5], np.int32), np.array([0], np.int32)]
    np.testing.assert_array_equal(sums.touched(D, indices), [0, 1, 5])
    assert len(sums.touched(1, indices)) == 0  # four entries a feature: all of them


def test_new_features_make_room():
    made = Learner(ps.AutoFTRL(scale="feature"), n_features=0, growing=True)
    blocks = [rows(20, 1).slice(0, 10), rows(20, 2, columns=range(3))]
    found = []
    for block in blocks:
        made.engine.grow(D)
        start = sums.before(made.engine, np.unique(block.indices[: block.indptr[-1]]).astype(np.int32))
        made.learn(block._replace(c=np.full(block.n_rows, 2.0)))
        found.append(sums.withdraw(made.engine, start, 2))
    fresh = Learner(ps.AutoFTRL(scale="feature"), n_features=0, growing=True)
    sums.apply(fresh.engine, sums.add(found))
    assert fresh.n_features == D
    assert fresh.t == 30


def test_adding_does_not_depend_on_grouping():
    made = learner("auto")
    found = apart(made, [rows(8, seed) for seed in range(5)], 5)
    twice = sums.add([sums.add(found[:2]), sums.add(found[2:])])
    once = sums.add(found)
    for one, other in zip(once, twice, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_what_does_not_add_is_refused():
    for algorithm in (ps.MirrorDescent(), ps.SGD(), ps.AROW(), ps.AdaGrad(update="mirror")):
        made = Learner(algorithm, "hinge", n_features=2)
        assert "is not a sum over rows" in sums.refusal(algorithm, made.engine)
    dense = Learner(ps.RDA(), "logistic", ps.L2Norm(0.1), n_features=2)
    assert "runs on dense vectors" in sums.refusal(dense.algorithm, dense.engine)
    averaged = Learner(ps.RDA(), average=True, n_features=2)
    assert "average must be False" in sums.refusal(averaged.algorithm, averaged.engine, average=True)
    exact = apart(learner("rda"), [rows(3, 1)], 1)
    with pytest.raises(ValueError, match="one learner alone"):
        sums.add(exact * 2)
