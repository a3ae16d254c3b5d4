"""certificate(...).zeros and .support: what they claim is true of the optimum, and they claim much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

import proxstream as ps

from ..examples import examples

PENALTIES = [ps.L1(0.02), ps.L1(0.08), ps.ElasticNet(0.03, 0.1), ps.L2(0.05)]


def data(loss: str, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 12)) * rng.choice([0.0, 1.0], size=(80, 12), p=[0.3, 0.7])
    score = X @ np.concatenate(([2.0, -1.5, 1.0], np.zeros(9))) + 0.5 + 0.5 * rng.normal(size=80)
    return X, score if loss == "squared" else np.where(score > 0.0, 1.0, -1.0)


def optimum(X: Any, y: Any, loss: str, penalty: Any) -> Any:
    kind = ps.CertifiedRegressor if loss == "squared" else ps.CertifiedClassifier
    return kind(loss, penalty=penalty, tol=1e-12).fit(X, y)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@examples(20)
@given(seed=st.integers(0, 10**6), penalty=st.sampled_from(PENALTIES))
def test_certain_features_are_those_of_the_optimum(loss: str, seed: int, penalty: Any) -> None:
    X, y = data(loss, seed)
    proof = ps.certificate((np.zeros(12), 0.0), csr_array(X), y, loss=loss, penalty=penalty)
    weights = np.ravel(optimum(X, y, loss, penalty).coef_)
    assert not weights[proof.zeros].any()
    assert weights[proof.support].all()
    assert len(proof.zeros) + len(proof.support) >= 10


def test_a_feature_and_its_copy_are_not_certain() -> None:
    X, y = data("logistic", 0)
    X[:, 1] = X[:, 0]
    proof = ps.certificate((np.zeros(12), 0.0), X, y, loss="logistic", penalty=ps.L1(0.02))
    assert not {0, 1} & {*proof.zeros, *proof.support}
    assert len(proof.zeros) >= 6
    ridge = ps.certificate((np.zeros(12), 0.0), X, y, loss="logistic", penalty=ps.ElasticNet(0.02, 0.01))
    assert {0, 1} <= set(ridge.support)


@pytest.mark.exhaustive
def test_several_classes() -> None:
    X, y = data("squared", 1)
    y = np.digitize(y, [-1.0, 1.0])
    for kind in ("one_vs_rest", "auto"):
        model = ps.StreamClassifier(penalty=ps.ElasticNet(0.05, 0.05), passes=2, multi_class=kind).fit(X, y)
        proof = ps.certificate(model, X, y)
        assert {0, 1} <= set(proof.support)
        assert not set(proof.support) & set(proof.zeros)
        assert len(proof.zeros)


@pytest.mark.interpreted
def test_nothing_is_certain_of_kinks_and_of_streams_too_large() -> None:
    X, y = data("logistic", 2)
    for proof in (
        ps.certificate((np.zeros(12), 0.0), X, y, loss="hinge", penalty=ps.ElasticNet(0.05, 0.1)),
        ps.certificate((np.zeros(12), 0.0), [(X, y)], loss="logistic", penalty=ps.L1(0.05), memory=100),
    ):
        assert len(proof.zeros) == len(proof.support) == 0
