"""Users' own losses: as they are, and compiled."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.core import losses
from proxstream.core.losses._kernels import as_tuple
from proxstream.data.rowblock import as_block
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import ScalarLayout
from proxstream.learner.plan import plan


def branching_value(p: float, y: float) -> float:
    return 0.5 * (p - y) ** 2 if p < y else p - y


def branching_slope(p: float, y: float) -> float:
    return p - y if p < y else 1.0


def squared_value(p: float, y: float) -> float:
    return 0.5 * (p - y) ** 2


def squared_slope(p: float, y: float) -> float:
    return p - y


def sigmoid(z: Any) -> Any:
    return np.exp(np.minimum(z, 0.0)) / (1.0 + np.exp(-np.abs(z)))


def logistic_value(p: float, y: float) -> Any:
    return np.logaddexp(0.0, -y * p)


def logistic_slope(p: float, y: float) -> Any:
    return -y * sigmoid(-y * p)


squared = losses.custom(squared_value, squared_slope)
logistic = losses.custom(logistic_value, logistic_slope, kind="binary")


def fit(loss: Any, dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(80, 10)) * (rng.random((80, 10)) < 0.5)).astype(dtype)
    made = plan(ps.FTRLProximal(alpha=0.5), ps.L1(0.01), loss, dtype)
    assert not isinstance(made, str)
    machine = CompiledEngine(ScalarLayout(made), 10, dtype)
    scores = machine.learn(as_block(X, np.where(rng.random(80) < 0.5, 1.0, -1.0)))
    return scores, *machine.weights()


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("mine", "built_in"), [(squared, losses.squared), (logistic, losses.logistic)])
def test_the_same_body_gives_the_same_bits(mine: Any, built_in: Any, dtype: Any) -> None:
    for a, b in zip(fit(mine, dtype), fit(built_in, dtype), strict=True):
        assert np.array_equal(a, b)


def test_dense_learners_take_it() -> None:
    learner, other = (ps.OnlineLearner(ps.RDA(), dim=2) for _ in range(2))
    for z, y in (([1.0, 2.0], 1.0), ([0.5, -1.0], -1.0)):
        assert learner.learn(z, y, squared) == other.learn(z, y, "squared")
    assert np.array_equal(learner.point, other.point)


@pytest.mark.parametrize("loss", [squared, losses.custom(branching_value, branching_slope)])
def test_arrays_element_by_element(loss: Any) -> None:
    rng = np.random.default_rng(0)
    p, y = rng.normal(size=(6, 5)), rng.normal(size=5)
    for mine, function in ((loss.value, loss.value_of), (loss.slope, loss.slope_of)):
        got = mine(p, y)
        assert got.shape == p.shape
        assert np.array_equal(got, [[function(a, b) for a, b in zip(row, y, strict=True)] for row in p])
        assert mine(p.astype(np.float32), np.float32(1.0)).dtype == np.float32
        assert mine(0.5, 1.0) == function(0.5, 1.0)


@pytest.mark.parametrize(
    ("mine", "built_in"),
    [
        (squared, losses.squared),
        (logistic, losses.logistic),
        (
            losses.custom(lambda p, y: max(0.0, 1.0 - y * p), lambda p, y: -y * (y * p < 1.0), kind="binary"),
            losses.hinge,
        ),
    ],
)
def test_implicit_step(mine: Any, built_in: Any) -> None:
    p, y = np.linspace(-3.0, 3.0, 13), np.where(np.arange(13) % 2, 1.0, -1.0)
    for c in (1e-3, 1.0, 1e3):
        assert np.allclose(mine.implicit_step(p, y, c), built_in.implicit_step(p, y, c), rtol=1e-12, atol=1e-15)


def test_facts() -> None:
    loss = losses.custom(logistic_value, logistic_slope, kind="binary", smoothness=0.25, lipschitz=1.0)
    assert (loss.kind, loss.smoothness, loss.lipschitz) == ("binary", 0.25, 1.0)
    assert (squared.kind, squared.smoothness, squared.lipschitz) == ("regression", math.inf, math.inf)
    assert str(loss) == "custom(logistic_value, logistic_slope, kind='binary')"
    assert losses.get(loss) is loss
    assert loss == losses.custom(logistic_value, logistic_slope, kind="binary", smoothness=0.25, lipschitz=1.0)
    assert loss != logistic
    with pytest.raises(ValueError, match=r"must be -1 or \+1, got 0.5 at index 1"):
        loss.check_labels([1.0, 0.5])
    with pytest.raises(ValueError, match="must be a finite number, got nan"):
        squared.check_labels([np.nan])
    assert "custom" not in losses.names()


def test_pickled_by_the_functions_names() -> None:
    ours = losses.custom(squared_value, squared_slope)
    assert pickle.loads(pickle.dumps(ours)) == ours


def test_a_slope_that_is_not_the_values_is_refused() -> None:
    wrong = (
        r"at p=-2\.3, y=-2 <lambda> returns -0\.6, but the slope of squared_value there is between -0\.3000. and -0\.29"
    )
    with pytest.raises(ValueError, match=wrong):
        losses.custom(squared_value, lambda p, y: 2.0 * (p - y))
    with pytest.raises(ValueError, match=r"slope must be the derivative of value in p: at p=-0\.4, y=-1"):
        losses.custom(lambda p, y: max(0.0, 1.0 - y * p), lambda p, y: y if y * p < 1.0 else 0.0, kind="binary")
    with pytest.raises(ValueError, match="returns nan"):
        losses.custom(squared_value, lambda p, y: math.nan)


@pytest.mark.parametrize("name", [name for name in losses.names() if losses.get(name).kind != "multiclass"])
def test_the_slopes_of_all_losses_pass(name: str) -> None:
    loss = losses.get(name)
    losses.custom(lambda p, y: loss.value(p, y), lambda p, y: loss.slope(p, y), kind=loss.kind)


@pytest.mark.parametrize("subgradient", [-1.0, -0.3, 0.0, 1.0])
def test_any_subgradient_at_a_kink_passes(subgradient: float) -> None:
    losses.custom(lambda p, y: abs(p - 0.6), lambda p, y: float(np.sign(p - 0.6)) if p != 0.6 else subgradient)
    with pytest.raises(ValueError, match=r"at p=0\.6"):
        losses.custom(lambda p, y: abs(p - 0.6), lambda p, y: float(np.sign(p - 0.6)) if p != 0.6 else 1.1)


def test_where_a_loss_is_not_defined_nothing_is_checked() -> None:
    def value(p: float, y: float) -> float:
        return y / p + math.log(p)  # for p, y > 0 only; math.log raises elsewhere

    losses.custom(value, lambda p, y: 1.0 / p - y / p**2 if p > 0.0 else math.nan)


def test_refusals() -> None:
    with pytest.raises(TypeError, match="value must be a function"):
        losses.custom(1.0, squared_slope)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind must be one of 'regression', 'binary', 'ranking', got 'multiclass'"):
        losses.custom(squared_value, squared_slope, kind="multiclass")
    with pytest.raises(ValueError, match="smoothness must be a finite number >= 0, got -1"):
        losses.custom(squared_value, squared_slope, smoothness=-1)
    with pytest.raises(TypeError, match="no conjugate"):
        squared.conjugate(0.5, 1.0)


def test_what_does_not_compile_is_named() -> None:
    def opening(p: float, y: float) -> float:
        with open("nowhere") as f:
            return float(f.read())

    with pytest.raises(TypeError, match=r"(?s)slope = .*opening.* cannot be compiled as a function of two numbers: "):
        as_tuple(losses.custom(squared_value, opening))

    def pair(p: float, y: float) -> Any:
        return p, y

    with pytest.raises(TypeError, match=r"slope = .*pair.* must return a number, got "):
        as_tuple(losses.custom(squared_value, pair))

    def three(p: float, y: float, z: float) -> float:
        return p

    with pytest.raises(TypeError, match=r"(?s)value = .*three.* cannot be compiled"):
        as_tuple(losses.custom(three, squared_slope))  # type: ignore[arg-type]


def test_one_type_for_the_same_functions() -> None:
    assert type(as_tuple(squared)) is type(as_tuple(losses.custom(squared_value, squared_slope, kind="binary")))
    assert type(as_tuple(squared)) is not type(as_tuple(logistic))


SCRIPT = """
import numpy as np, sys
import proxstream as ps
from proxstream import losses
from proxstream.data.rowblock import as_block
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import AveragedLayout, ScalarLayout
from proxstream.learner import _loop as driver
from proxstream.learner.plan import plan

FACTOR = float(sys.argv[1])
mine = losses.custom(lambda p, y: FACTOR * (p - y) ** 2 / 2, lambda p, y: FACTOR * (p - y))
layout = ScalarLayout(plan(ps.RDA(), ps.penalties.get(None), mine, np.float64))
machine = CompiledEngine(layout, 2, np.float64, False)
machine.learn(as_block(np.eye(2), [1.0, 2.0]))
print(sum(driver.learn.dispatcher.stats.cache_hits.values()), machine.weights()[0][1])
"""


@pytest.mark.exhaustive
def test_each_process_compiles_its_own_loss(tmp_path: Path) -> None:
    def run(factor: float) -> list[float]:
        environment = {**os.environ, "PROXSTREAM_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", SCRIPT, str(factor)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return [float(word) for word in done.stdout.split()]

    assert run(3.0) == [0.0, 6.0 / math.sqrt(2.0)]
    assert run(5.0) == [0.0, 10.0 / math.sqrt(2.0)]  # nothing of the first process is in the cache
