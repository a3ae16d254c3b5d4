"""The warning of rates that do not fit the units of the features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.learner import Learner


def rows(units: float, n: int = 3000) -> RowBlock:
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(n, 4))
    return as_block(units * X, np.where(np.log(X[:, 0]) + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0))


@pytest.mark.parametrize("algorithm", [ps.FTRLProximal(), ps.AdaGrad(), ps.SGD()], ids=lambda a: a.name)
def test_warns_once_of_unscaled_features(algorithm: Any) -> None:
    learner, block = Learner(algorithm, n_features=4), rows(1000.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for start in range(0, 3000, 100):
            learner.learn(block.slice(start, start + 100))
    (one,) = map(str, (warning.message for warning in caught))
    assert "after 1000 rows, that of a model without weights 0.693: the steps of " + repr(algorithm) in one
    assert "use AutoFTRL" in one


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("algorithm", "units"),
    [
        (ps.FTRLProximal(), 1.0),
        (ps.AdaGrad(), 1.0),
        (ps.SGD(), 1.0),
        (ps.AutoFTRL(), 1000.0),
        (ps.PassiveAggressive(), 1.0),
    ],
    ids=str,
)
def test_says_nothing_where_steps_fit(algorithm: Any, units: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Learner(algorithm, "hinge" if algorithm.name == "passive_aggressive" else "logistic", n_features=4).learn(
            rows(units)
        )


def test_few_rows_and_repeated_passes_say_nothing() -> None:
    learner, block = Learner(ps.FTRLProximal(), n_features=4), rows(1000.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.learn(block.slice(0, 900))
        learner.learn(block, count=False)
