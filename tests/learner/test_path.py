"""K strengths side by side: each model is bit for bit the one that its strength has alone, however rows are cut."""

from __future__ import annotations

import pickle
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.core.algorithms import auto_state
from proxstream.core.penalties import Penalty
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.divergence import DivergedError
from proxstream.learner.learner import Learner
from proxstream.learner.path import PathLearner
from proxstream.learner.path_engine import EachAlone, PathEngine
from proxstream.learner.path_trial import PathTrial

from ..examples import examples

D = 40
ALGORITHMS = {
    "rda": ps.RDA(gamma=1.5),
    "rda, enhanced": ps.RDA(gamma=2.0, rho=0.05, schedule="log"),
    "adagrad": ps.AdaGrad(eta=0.5),
    "ftrl": ps.FTRLProximal(alpha=0.5),
    "ftrl, once": ps.FTRLProximal(alpha=0.3, beta=0.0, penalty_weight="once"),
    "auto, feature": ps.AutoFTRL(scale="feature"),
    "auto, global": ps.AutoFTRL(scale="global"),
    "auto": ps.AutoFTRL(),
}
PENALTIES: dict[str, Penalty] = {
    "l1": ps.L1(),
    "elastic net": ps.ElasticNet(0.7, 0.3),
    "l2": ps.L2(),
    "l1, nonnegative": ps.L1(2.0) + ps.NonNegative(),
}
LOSSES = ("logistic", "squared", "hinge")
COMBINATIONS = product(ALGORITHMS, zip(cycle(PENALTIES), (np.float32, np.float64) * 2, strict=False))
# In the default run: mostly kernels that are compiled ahead.
DEFAULT = [
    ("ftrl", "l1", np.float32, "logistic"),
    ("auto", "l2", np.float32, "squared"),
]
REST = [(a, p, t, LOSSES[i % 3]) for i, (a, (p, t)) in enumerate(COMBINATIONS)]
CASES = [*DEFAULT, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in REST if case not in DEFAULT)]


def rows_of(seed: int, dtype: Any, loss: str, n: int = 60, weighted: bool = True, wild: bool = False) -> RowBlock:
    """Rows with features that may have different units, some of which turn up late; some rows have no weight."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < rng.choice([0.05, 0.3, 0.9]))
    X[: n // 2, D // 2 :] = 0.0
    X *= np.linspace(0.1, 0.5, n)[:, None]  # sizes grow
    X *= 10.0 ** rng.integers(-2, 3, D) if wild else 1.0
    y = np.sign(X @ rng.normal(size=D) + rng.normal(size=n)) if loss != "squared" else rng.normal(size=n) * 3.0
    y = np.where(y == 0.0, 1.0, y)
    return as_block(csr_array(X), y, rng.choice([0.0, 1.0, 2.5], n) if weighted else None, dtype=dtype)


def strengths_of(seed: int, k: int) -> list[float]:
    return sorted(10.0 ** np.random.default_rng(seed).uniform(-5, 1, k), reverse=True)


def differences(path: PathLearner, k: int, alone: Learner) -> list[str]:
    """Names of the arrays in which model k of a path is not the learner alone."""
    own, expected = path.model(k).state_dict(), alone.state_dict()
    assert own.keys() == expected.keys()
    return [
        name
        for name in own
        if own[name].dtype != expected[name].dtype or own[name].tobytes() != expected[name].tobytes()
    ]


@pytest.fixture(autouse=True)
def _short_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_state, "TRIAL", 20)


@pytest.mark.default_cases(len(DEFAULT))
@pytest.mark.parametrize(("algorithm", "penalty", "dtype", "loss"), CASES)
@examples(20)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 19),
    intercept=st.booleans(),
    places=st.lists(st.integers(0, 60), max_size=4),
)
def test_each_model_is_that_of_its_strength_alone(
    algorithm: str, penalty: str, dtype: Any, loss: str, seed: int, k: int, intercept: bool, places: list[int]
) -> None:
    rows, grid = rows_of(seed, dtype, loss, wild=algorithm.startswith("auto")), strengths_of(seed, k)
    settings: dict[str, Any] = {"dtype": dtype, "fit_intercept": intercept, "growing": True}
    path = PathLearner(ALGORITHMS[algorithm], loss, PENALTIES[penalty], strengths=grid, **settings)
    assert isinstance(path.engine, (PathEngine, PathTrial))
    stops = [*sorted(places), rows.n_rows]
    pieces = [rows.slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]
    scores = np.concatenate([path.learn(piece) for piece in pieces], axis=1)
    for i in range(k):
        alone = Learner(ALGORITHMS[algorithm], loss, PENALTIES[penalty].scaled(grid[i]), **settings)
        assert np.array_equal(scores[i], alone.learn(rows))
        assert differences(path, i, alone) == []
        assert path.progressive_loss[i] == alone.progressive_loss
        assert np.allclose(
            path.predict(rows)[i], alone.predict(rows), rtol=1e-4 if dtype == np.float32 else 1e-9, atol=1e-4
        )


def test_rows_of_earlier_passes_teach_no_rates_and_are_not_compared() -> None:
    rows, grid, settings = rows_of(1, np.float32, "logistic"), [0.1, 0.01], {"n_features": D, "dtype": np.float32}
    path = PathLearner(ps.AutoFTRL(scale="feature"), "logistic", ps.L1(), strengths=grid, **settings)
    path.learn(rows)
    pairs = path.compared.sums[:, 2:].copy()
    path.learn(rows, repeated=True)
    assert np.array_equal(path.compared.sums[:, 2:], pairs)
    for k, strength in enumerate(grid):
        alone = Learner(ps.AutoFTRL(scale="feature"), "logistic", ps.L1(strength), **settings)
        alone.learn(rows)
        alone.learn(rows, repeated=True)
        assert differences(path, k, alone) == []


OTHERS = {
    "sgd": (ps.SGD(0.1), "logistic", ps.L2(), {}),
    "adagrad, mirror": (ps.AdaGrad(0.3, update="mirror"), "hinge", ps.L1(), {}),
    "averaged": (ps.FTRLProximal(), "logistic", ps.L1(), {"average": True}),
    "classes": (ps.FTRLProximal(), "softmax", ps.GroupL2(1.0), {"n_outputs": 3}),
    "one against the rest": (ps.AutoFTRL(), "logistic", ps.L1(), {"n_outputs": 3}),
    "dense": (ps.FTRL(rate=1.0), "logistic", ps.L2(), {}),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("name", list(OTHERS))
def test_other_learners_take_turns(name: str) -> None:
    algorithm, loss, template, settings = OTHERS[name]
    rows = rows_of(2, np.float64, "logistic", weighted=False)
    if "n_outputs" in settings:
        rows = rows._replace(y=np.arange(rows.n_rows, dtype=float) % 3)
    path = PathLearner(algorithm, loss, template, strengths=[0.001, 0.1], n_features=D, **settings)
    assert isinstance(path.engine, EachAlone)
    scores = np.concatenate([path.learn(rows.slice(0, 25)), path.learn(rows.slice(25, rows.n_rows))], axis=1)
    for k, strength in enumerate([0.001, 0.1]):
        alone = Learner(algorithm, loss, template.scaled(strength), n_features=D, **settings)
        assert np.array_equal(scores[k], alone.learn(rows))
        assert differences(path, k, alone) == []
        assert np.array_equal(path.predict(rows)[k], alone.predict(rows))


@pytest.mark.parametrize("algorithm", ["ftrl", "auto, feature", "auto"])
@pytest.mark.parametrize("after", [0, 10, 20, 45])
def test_a_state_that_was_saved_continues(algorithm: str, after: int) -> None:
    rows, grid = rows_of(3, np.float32, "logistic"), [1.0, 0.1, 0.001]

    def make() -> PathLearner:
        return PathLearner(ALGORITHMS[algorithm], "logistic", ps.L1(), strengths=grid, dtype=np.float32, growing=True)

    whole, first, second = make(), make(), make()
    whole.learn(rows)
    first.learn(rows.slice(0, after), n_features=D)
    second.load_state_dict(first.state_dict())
    third = pickle.loads(pickle.dumps(first))
    for one in (second, third):
        one.learn(rows.slice(after, rows.n_rows))
        assert {name: a.tobytes() for name, a in one.state_dict().items()} == {
            name: a.tobytes() for name, a in whole.state_dict().items()
        }


@pytest.mark.interpreted
@pytest.mark.parametrize("algorithm", ["ftrl", "auto, feature", "auto"])
@pytest.mark.parametrize("after", [0, 15, 30])
def test_a_block_that_diverges_changes_nothing(algorithm: str, after: int) -> None:
    rows = rows_of(4, np.float32, "squared")
    path = PathLearner(ALGORITHMS[algorithm], "squared", ps.L1(), strengths=[1.0, 0.1], dtype=np.float32, n_features=D)
    path.learn(rows.slice(0, after))
    before = path.state_dict()
    bad = rows.slice(after, rows.n_rows)
    data = bad.data.copy()
    data[bad.indptr[bad.n_rows - 1] :] = 3e38
    y = np.full(bad.n_rows, 1e300)
    with pytest.raises(DivergedError):
        path.learn(bad._replace(data=data, y=y))
    assert {n: a.tobytes() for n, a in path.state_dict().items()} == {n: a.tobytes() for n, a in before.items()}


@examples(20)
@given(seed=st.integers(0, 1000), weighted=st.booleans())
def test_standard_errors_are_those_of_paired_differences(seed: int, weighted: bool) -> None:
    rows, grid = rows_of(seed, np.float32, "logistic", weighted=weighted), [0.5, 0.05, 0.005]
    path = PathLearner(ps.FTRLProximal(), "logistic", ps.L1(), strengths=grid, n_features=D, dtype=np.float32)
    each = np.logaddexp(0.0, -rows.y * path.learn(rows))
    c = rows.weights()
    for j in range(3):
        d = each - each[j]
        mean = (d * c).sum(axis=1) / c.sum()
        expected = np.sqrt((c**2 * (d - mean[:, None]) ** 2).sum(axis=1)) / c.sum()
        assert np.allclose(path.compared.difference_errors(j), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("strengths", "message"),
    [
        ([0.1, -0.2], r"strengths must be numbers >= 0, got -0.2 at index 1"),
        ([0.1, float("nan")], r"strengths must be finite, got nan at index 1"),
        ([0.1, 0.1], r"strengths must increase or decrease: 0.1 at index 1 follows 0.1"),
        ([0.1, 0.01, 0.05], r"strengths must increase or decrease: 0.05 at index 2 follows 0.01"),
        ([0.01, 0.1, 0.05], r"strengths must increase or decrease: 0.05 at index 2 follows 0.1"),
        ([], r"strengths must be between 1 and 1000 numbers >= 0, got an array of shape \(0,\)"),
        ([[0.1]], r"strengths must be between 1 and 1000 numbers >= 0, got an array of shape \(1, 1\)"),
    ],
)
def test_strengths_that_are_refused(strengths: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PathLearner(ps.FTRLProximal(), strengths=strengths)


def test_templates_that_are_refused() -> None:
    with pytest.raises(ValueError, match=r"penalty must have a strength that can vary, .* got NonNegative\(\)"):
        PathLearner(ps.FTRLProximal(), "logistic", ps.NonNegative(), strengths=[0.1])
    with pytest.raises(ValueError, match="ranking=True: a path has one loss per row"):
        PathLearner(ps.FTRLProximal(), "ranking_hinge", ps.L1(), strengths=[0.1], ranking=True)


def test_a_scale_that_overflows_is_dropped_by_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_state, "TRIAL", 60)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X @ [1.0, 2.0, -1.0] > 0.0, 1.0, -1.0)
    X[8:, 0] *= 1e19
    rows = as_block(X.astype(np.float32), y, dtype=np.float32)
    settings: dict[str, Any] = {"strengths": [0.0, 0.01], "n_features": 3, "dtype": np.float32}
    tried, alone = (
        PathLearner(a, "logistic", ps.L1(), **settings) for a in (ps.AutoFTRL(), ps.AutoFTRL("every_round", "feature"))
    )
    scores, expected = tried.learn(rows), alone.learn(rows)
    np.testing.assert_array_equal(scores[:, 40:], expected[:, 40:])
    for k in range(2):
        np.testing.assert_array_equal(tried.model(k).weights()[0], alone.model(k).weights()[0])
        one = Learner(ps.AutoFTRL(), "logistic", ps.L1(settings["strengths"][k]), n_features=3, dtype=np.float32)
        np.testing.assert_array_equal(one.learn(rows), scores[k])
