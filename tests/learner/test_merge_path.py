"""Changes of several strengths side by side are merged as those of each strength alone, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner import merge as sums
from proxstream.learner.learner import Learner
from proxstream.learner.path import PathLearner
from proxstream.learner.path_engine import EachAlone
from proxstream.models.file import pack, unpack

from ..examples import examples

D = 30
ALGORITHMS: dict[str, tuple[Any, str, int]] = {
    "rda": (ps.RDA(gamma=1.5), "logistic", 1),
    "adagrad": (ps.AdaGrad(eta=0.5), "squared", 1),
    "ftrl": (ps.FTRLProximal(alpha=0.5), "logistic", 1),
    "auto, feature": (ps.AutoFTRL(scale="feature"), "hinge", 1),
    "auto, global": (ps.AutoFTRL(scale="global"), "squared", 1),
    "classes": (ps.FTRLProximal(alpha=0.5), "softmax", 3),
    "auto, classes": (ps.AutoFTRL(scale="feature"), "softmax", 3),
}


def rows_of(seed: int, dtype: Any, outputs: int) -> RowBlock:
    """Rows whose features have different units, which grow; a lane does not meet all of them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < rng.choice([0.03, 0.3])) * 10.0 ** rng.integers(-2, 3, D)
    y = rng.integers(0, outputs, n).astype(float) if outputs > 1 else rng.choice([-1.0, 1.0], n)
    return as_block(csr_array(X), y, rng.choice([0.0, 1.0, 2.5], n), dtype=dtype)


def learn_apart(learner: Learner, blocks: list[RowBlock], lanes: int, few: bool) -> None:
    """Learn a block per lane from one state, and merge what the lanes have learned."""
    found = []
    for block in blocks:
        engines = sums.engines_of(learner.engine)
        touched = sums.touched(D, [block.indices]) if few else sums.NO_FEATURES
        starts = [sums.before(engine, touched) for engine in engines]
        learner.learn(block._replace(c=block.c * lanes))
        found.append([sums.withdraw(engine, start, lanes) for engine, start in zip(engines, starts, strict=True)])
    for engine, each in zip(sums.engines_of(learner.engine), zip(*found, strict=True), strict=True):
        sums.apply(engine, sums.add(list(each)))


@pytest.mark.interpreted("core", "learner")
@pytest.mark.default_cases(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ALGORITHMS)
@examples(20)
@given(seed=st.integers(0, 10**6), lanes=st.integers(1, 4), intercept=st.booleans(), few=st.booleans())
def test_each_strength_is_merged_as_it_is_alone(
    name: str, dtype: Any, seed: int, lanes: int, intercept: bool, few: bool
) -> None:
    algorithm, loss, outputs = ALGORITHMS[name]
    grid = sorted({*(10.0 ** np.random.default_rng(seed).uniform(-5, 1, 4)), 0.0}, reverse=True)
    settings = {"n_features": D, "n_outputs": outputs, "dtype": dtype, "fit_intercept": intercept}
    path = PathLearner(algorithm, loss, ps.ElasticNet(1.0, 0.01), strengths=grid, fixed_l2=True, **settings)
    assert sums.refusal(algorithm, path.engine) == ""
    rounds = [[rows_of(seed + 10 * r + i, dtype, outputs) for i in range(lanes)] for r in range(3)]
    for blocks in rounds:
        learn_apart(path, blocks, lanes, few)
    for k in range(len(grid)):
        alone = Learner(algorithm, loss, path.penalty_of(k), **settings)
        for blocks in rounds:
            learn_apart(alone, blocks, lanes, few)
        own, expected = path.engine.member(k), alone.engine.arrays()
        assert {name: array.tobytes() for name, array in own.items()} == {
            name: array.tobytes() for name, array in expected.items()
        }


def test_what_does_not_add_is_refused() -> None:
    grid = [0.1, 0.01]
    trial = PathLearner(ps.AutoFTRL(), "logistic", strengths=grid, n_features=2)
    assert "settle_scale() keeps one" in sums.refusal(trial.algorithm, trial.engine)
    several = PathLearner(ps.AutoFTRL(), "logistic", strengths=grid, n_features=2, n_outputs=3)
    assert isinstance(several.engine, EachAlone)
    assert "settle_scale() keeps one" in sums.refusal(several.algorithm, several.engine)
    mirror = PathLearner(ps.MirrorDescent(), "logistic", strengths=grid, n_features=2)
    assert "is not a sum over rows" in sums.refusal(mirror.algorithm, mirror.engine)


# ---- scales


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("after", [0, 2])
def test_models_whose_scales_are_settled_are_those_of_the_scales(outputs: int, after: int) -> None:
    """Before the first row or later, in one engine or one after the other; from a state and from a file."""
    blocks = [rows_of(seed, np.float64, outputs) for seed in range(4)]
    settings: dict[str, Any] = {"n_features": D, "n_outputs": outputs}
    grid, scales = [0.1, 0.01, 0.0], ("feature", "global", "feature")
    path = PathLearner(ps.AutoFTRL(), "logistic", ps.L1(), strengths=grid, **settings)
    for block in blocks[:after]:
        path.learn(block)
    path.settle_scale(scales)
    assert sums.refusal(path.algorithm, path.engine) == ""
    made = PathLearner(ps.AutoFTRL(), "logistic", ps.L1(), strengths=grid, scales=scales, **settings)
    made.load_state_dict(path.state_dict())
    for learner in (path, made):
        for block in blocks[after:]:
            learner.learn(block)
    stored = unpack(*pack(made))
    for k, scale in enumerate(scales):
        alone = Learner(ps.AutoFTRL(scale=scale), "logistic", path.penalty_of(k), **settings)
        for block in blocks:
            alone.learn(block)
        expected = {name: array.tobytes() for name, array in alone.engine.arrays().items()}
        for learner in (path, made, stored):
            model = learner.model(k)
            assert model.algorithm == alone.algorithm
            assert {name: array.tobytes() for name, array in model.engine.arrays().items()} == expected


def test_scales_that_cannot_be_settled() -> None:
    grid = [0.1, 0.01]
    with pytest.raises(ValueError, match="scales must be feature or global for each of 2 strengths, got"):
        PathLearner(ps.AutoFTRL(), "logistic", strengths=grid, scales=["feature", "best"])
    with pytest.raises(ValueError, match="for each of 2 strengths"):
        PathLearner(ps.AutoFTRL(), "logistic", strengths=grid, scales=["feature"])
    with pytest.raises(ValueError, match=r"scales are those of AutoFTRL\(scale='auto'\)"):
        PathLearner(ps.RDA(), "logistic", strengths=grid, scales=["feature", "global"])
    path = PathLearner(ps.AutoFTRL(), "logistic", strengths=grid, scales=["feature", "global"])
    with pytest.raises(ValueError, match="have kept the scales feature, global, got global, global"):
        path.settle_scale(["global", "global"])
    assert path.scales == ("feature", "global")
