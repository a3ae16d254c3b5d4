"""Certificates of every loss with every penalty: no weights that the penalty allows are below the dual value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.core.penalties import Penalty

from .test_certificate import BINARY, PENALTIES, REGRESSION

LOSSES = [*BINARY, *REGRESSION, "softmax"]
MORE = [
    ps.NoPenalty(),
    ps.NonNegative(),
    ps.GroupLinf(0.3, [0, 0, 1]),
    ps.L1(0.1) + ps.L2Ball(1.5),
    ps.L2(0.2) + ps.Box(-0.5, 2.0),
    ps.L2Norm(0.2) + ps.L2(0.1),
    ps.L1(np.array([0.1, 0.0, 0.3])),
]
EVERY: list[Penalty] = [*PENALTIES, *MORE]


def rows(loss: str, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 3)) * rng.choice([0.0, 1.0], size=(20, 3))
    score = X @ [1.0, -1.0, 0.5] + 0.3 + rng.normal(size=20)
    if loss == "softmax":
        y: Any = np.arange(20) % 3
    elif loss in BINARY:
        y = np.where(score > 0.0, 1.0, -1.0)
    else:
        y = score
        if ps.losses.get(loss).link == "log":
            y = np.exp(0.5 * score) if loss == "gamma" else np.round(np.exp(0.5 * score))
    return X, y.astype(float), rng.uniform(0.1, 2.0, 20)


def objective(model: Any, X: Any, y: Any, c: Any, loss: str, penalty: Penalty) -> float:
    """Return the mean loss, by the rows' weights, and the penalty of a model."""
    (w, b), judged = model, ps.losses.get(loss)
    labels = y.astype(int) if judged.kind == "multiclass" else y
    return float(np.average(judged.value(X @ w.T + b, labels), weights=c)) + penalty.value(w.T)


def check(loss: str, penalty: Penalty, seed: int) -> None:
    k = 3 if loss == "softmax" else 1
    X, y, c = rows(loss, seed)
    rng = np.random.default_rng(seed + 1)
    many = (rng.normal(size=(60, k, 3)) * rng.exponential(1.0, size=(60, 1, 1))).reshape(-1, k, 3)
    allowed = [penalty.project(w.T if k > 1 else w[0]) for w in many]
    models = [(w.T if k > 1 else w, rng.normal(size=k) if k > 1 else float(rng.normal())) for w in allowed]
    proofs = [ps.certificate(model, X, y, loss, penalty, sample_weight=c, passes=0) for model in models[:3]]
    values = [objective(model, X, y, c, loss, penalty) for model in models]
    assert [proof.primal for proof in proofs] == pytest.approx(values[:3], rel=1e-12)
    for proof in proofs:
        # Without a penalty, a model is compared with the weights of at most its own norm.
        radius = proof.penalty.radius if isinstance(proof.penalty, ps.L2Ball) else np.inf
        inside = [value for value, (w, _) in zip(values, models, strict=True) if np.linalg.norm(w) <= radius]
        assert np.isfinite(proof.primal)
        assert proof.gap >= 0.0
        assert proof.dual <= min(inside, default=np.inf) * (1.0 + 1e-12) + 1e-12


@pytest.mark.default_cases(2)
@pytest.mark.parametrize("i", range(len(EVERY)))
def test_a_certificate_of_each_penalty(i: int) -> None:
    loss, penalty = LOSSES[i % (len(LOSSES) - 1)], EVERY[i]
    check(loss, penalty, seed=i)


@pytest.mark.exhaustive
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", EVERY, ids=repr)
def test_certificates_of_every_loss_with_every_penalty(loss: str, penalty: Penalty) -> None:
    check(loss, penalty, seed=7)
