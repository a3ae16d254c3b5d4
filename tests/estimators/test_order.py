"""Estimators warn of rows that look ordered by their labels, once, and not of others."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.data.rowblock import as_block


def sorted_rows(classes: int, seed: int = 0) -> tuple[Any, Any]:
    """Return rows in the order of their labels; 0 classes: numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(900, 4))
    y = X[:, 0] + 0.1 * rng.normal(size=900) if not classes else np.argmax(X[:, :classes], axis=1)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def estimator(classes: int, **more: Any) -> Any:
    if not classes:
        return ps.StreamRegressor(**more)
    return ps.StreamClassifier(loss="logistic" if classes == 2 else "softmax", **more)


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_ordered_rows_are_warned_of_once_and_learned_all_the_same(classes: int) -> None:
    X, y = sorted_rows(classes)
    with pytest.warns(ps.OrderWarning, match=r"rows look ordered.*use shuffle=True$") as caught:
        model = estimator(classes, passes=2).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.t_ == 1800
    stream = [(X[i : i + 100], y[i : i + 100]) for i in range(0, 900, 100)]
    options = {"classes": np.arange(classes)} if classes else {}
    with pytest.warns(ps.OrderWarning, match=r"rows look ordered.*shuffle_buffer=ROWS\) does$") as caught:
        streamed = estimator(classes, passes=2).fit_stream(stream, **options)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(streamed.coef_, model.coef_)


@pytest.mark.interpreted
@pytest.mark.parametrize("classes", [0, 2, 4])
def test_shuffled_rows_few_rows_and_queries_are_not_warned_of(classes: int) -> None:
    X, y = sorted_rows(classes)
    order = np.random.default_rng(1).permutation(900)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator(classes, shuffle=True, random_state=0).fit(X, y)
        estimator(classes).fit(X[order], y[order])
        estimator(classes).fit(X[::4], y[::4])
        estimator(classes).partial_fit(X, y, **({"classes": np.arange(classes)} if classes else {}))
        ps.StreamRanker().fit(X, y, qid=np.arange(900) // 9)
        ps.StreamRanker().fit_stream([(as_block(X, np.asarray(y, float)), np.arange(900) // 9)])
