"""How fast a user's own loss runs beside the built-in one with the same body: `python -m benchmarks custom_loss`."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from scipy.sparse import random_array

import proxstream as ps
from proxstream.core import losses
from proxstream.data.rowblock import as_block
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import ScalarLayout
from proxstream.learner.plan import Plan, plan


def value(p: Any, y: Any) -> Any:
    """log(1 + e^-m)."""
    return np.logaddexp(0.0, -y * p)


def slope(p: Any, y: Any) -> Any:
    """-y / (1 + e^m)."""
    z = -y * p
    return -y * (np.exp(np.minimum(z, 0.0)) / (1.0 + np.exp(-np.abs(z))))


def main(arguments: list[str], rows: int = 50_000, features: int = 1 << 18, runs: int = 11) -> None:
    """Alternate the two losses and print the ratio of their medians."""
    rng = np.random.default_rng(0)
    X = random_array((rows, features), density=50 / features, format="csr", rng=rng, dtype=np.float32)
    block = as_block(X, np.where(rng.random(rows) < 0.5, 1.0, -1.0))
    seconds: dict[str, list[float]] = {"built-in": [], "custom": []}
    kinds = {"built-in": losses.logistic, "custom": losses.custom(value, slope, kind="binary")}
    for run in range(runs + 1):
        for name, loss in kinds.items():
            made = plan(ps.FTRLProximal(), ps.L1(1e-6), loss, np.float32)
            assert isinstance(made, Plan)
            engine = CompiledEngine(ScalarLayout(made), features, np.float32)
            start = time.perf_counter()
            engine.learn(block)
            if run:  # the first one compiles
                seconds[name].append(time.perf_counter() - start)
    built_in, custom = (statistics.median(times) for times in seconds.values())
    print(f"built-in {built_in:.4f} s, custom {custom:.4f} s, ratio {custom / built_in:.3f}")
