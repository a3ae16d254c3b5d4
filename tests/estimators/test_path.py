"""Path estimators: strengths found on the first rows, a strength chosen, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score

import proxstream as ps
from proxstream.batch.strengths import OPENING, stream_strengths
from proxstream.data.rowblock import as_block
from proxstream.learner.path_choice import choose_strength
from proxstream.learner.path_losses import PairedLosses

from ..examples import examples

ROWS = 1300


def data(seed: int = 0, n: int = ROWS) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, 20)) * (rng.random((n, 20)) < 0.5)).astype(np.float32)
    return X, np.where(X[:, 0] - X[:, 1] + rng.logistic(size=n) > 0.0, "yes", "no")


@pytest.mark.parametrize("algorithm", [None, ps.FTRLProximal(alpha=0.5)])
def test_a_chosen_estimator_is_the_one_with_its_strength_alone(algorithm: Any) -> None:
    X, y = data()
    path = ps.StreamPathClassifier([0.1, 0.01, 0.001], algorithm=algorithm, class_weight={"yes": 2.0, "no": 1.0})
    path.fit(X[:1000], y[:1000])
    for strength in path.strengths_:
        alone = ps.StreamClassifier(algorithm, penalty=ps.L1(strength), class_weight={"yes": 2.0, "no": 1.0})
        alone.fit(X[:1000], y[:1000])
        chosen = path.choose(strength=strength)
        assert type(chosen) is ps.StreamClassifier
        assert chosen.get_params() == alone.get_params()
        for one in (alone, chosen):
            one.partial_fit(X[1000:], y[1000:])
        assert np.array_equal(chosen.coef_, alone.coef_)
        assert np.array_equal(chosen.intercept_, alone.intercept_)
        assert chosen.progressive_loss_ == alone.progressive_loss_
        assert chosen.t_ == alone.t_ == ROWS


@examples(12)
@given(places=st.lists(st.integers(1, ROWS - 1), max_size=4, unique=True), stop=st.sampled_from([40, 999, 1000, ROWS]))
def test_strengths_are_found_however_the_stream_is_cut(places: list[int], stop: int) -> None:
    X, y = data()
    whole = ps.StreamPathClassifier(algorithm=ps.FTRLProximal()).fit(X[:stop], y[:stop])
    cut = ps.StreamPathClassifier(algorithm=ps.FTRLProximal())
    stops = [*sorted(place for place in places if place < stop), stop]
    for start, end in zip([0, *stops], stops, strict=False):
        cut.partial_fit(X[start:end], y[start:end], classes=["no", "yes"])
        assert cut.t_ == end
    assert np.array_equal(cut.strengths_, whole.strengths_)
    assert np.array_equal(cut.coef_, whole.coef_)
    assert np.array_equal(cut.progressive_loss_, whole.progressive_loss_)
    assert np.array_equal(cut.choose("1se").coef_, whole.choose("1se").coef_)


def test_the_largest_strength_leaves_no_weight_of_the_batch_problem() -> None:
    X, y = data()
    path = ps.StreamPathClassifier().fit(X, y)
    first = ps.regularization_path(X[:OPENING], y[:OPENING] == "yes", n_strengths=2, penalty=ps.L1())
    assert path.strengths_[0] == pytest.approx(first.strengths[0], rel=1e-9)
    assert np.allclose(path.strengths_[1:-1] / path.strengths_[:-2], 1e-4 ** (1 / 8))
    assert path.strengths_[-1] == 0.0


@pytest.mark.interpreted
def test_several_classes_and_several_passes() -> None:
    X, _ = data(n=90)
    y = np.argmax(X[:, :3] + 0.3 * np.random.default_rng(1).normal(size=(90, 3)), axis=1)
    path = ps.StreamPathClassifier(penalty=ps.GroupL2(), algorithm=ps.FTRLProximal(), passes=2).fit(X, y)
    assert path.coef_.shape == (10, 3, 20)
    assert not path.coef_[0].any() or path.nnz_[0] < path.nnz_[-1]
    assert [record.epoch for record in path.history_] == [1, 2]
    alone = ps.StreamClassifier(ps.FTRLProximal(), penalty=ps.GroupL2(path.strengths_[4]), passes=2).fit(X, y)
    assert np.array_equal(path.choose(strength=path.strengths_[4]).coef_, alone.coef_)
    assert path.choose(strength=path.strengths_[4]).progressive_loss_ == alone.progressive_loss_
    assert path.score(X, y) > 0.6


def test_held_out_rows_are_measured_under_all_strengths() -> None:
    X, y = data()
    path = ps.StreamPathClassifier([0.1, 0.01]).fit(X[:900], y[:900])
    c = np.random.default_rng(0).random(400)
    path.validate(X[900:], y[900:], sample_weight=c)
    for entry in path.table():
        alone = path.choose(strength=entry.strength)
        p = alone.predict_proba(X[900:])[:, 1]
        assert entry.held_out_loss == pytest.approx(log_loss(y[900:] == "yes", p, sample_weight=c))
        assert entry.auc == pytest.approx(roc_auc_score(y[900:] == "yes", p, sample_weight=c))
        own = -np.log(np.where(y[900:] == "yes", p, 1.0 - p))
        error = np.sqrt(np.sum(c**2 * (own - entry.held_out_loss) ** 2)) / c.sum()
        assert entry.held_out_error == pytest.approx(error)
    assert "held-out loss" in str(path.table())
    path.partial_fit(X[900:], y[900:])
    assert np.isnan(path.table()[0].held_out_loss)


def test_regression_saves_pickles_and_clones(tmp_path: Path) -> None:
    X, _ = data()
    y = 3.0 * X[:, 0] - X[:, 1] + np.random.default_rng(0).normal(size=ROWS)
    path = ps.StreamPathRegressor().fit(X, y)
    assert path.score(X, y) == path.choose("best").score(X, y)
    ps.save(path, tmp_path / "path.psm")
    for other in (ps.load(tmp_path / "path.psm"), pickle.loads(pickle.dumps(path))):
        assert np.array_equal(other.coef_, path.coef_)
        assert str(other.table()) == str(path.table())
        assert np.array_equal(other.partial_fit(X, y).coef_, clone(path).fit(X, y).partial_fit(X, y).coef_)


def test_the_drawing_has_the_path_and_the_chosen_point() -> None:
    pytest.importorskip("matplotlib").use("agg")
    X, y = data()
    path = ps.StreamPathClassifier(algorithm=ps.FTRLProximal()).fit(X, y)
    ax = path.plot("best")
    counts, losses = ax.lines[0].get_data()
    assert np.array_equal(counts, path.nnz_)
    assert np.array_equal(losses, path.progressive_loss_)
    assert ax.lines[-1].get_ydata()[0] == path.progressive_loss_.min()
    few = path.plot(nnz=int(path.nnz_[1])).lines[-1]
    assert (few.get_xdata()[0], few.get_ydata()[0]) == (path.nnz_[1], path.progressive_loss_[1])
    assert path.plot().lines[-1].get_xdata()[0] == path.choose("1se").nnz_


def test_rules() -> None:
    strengths, nonzeros = np.array([1.0, 0.1, 0.01, 0.001]), np.array([0, 10, 50, 400])
    rng = np.random.default_rng(0)
    common = rng.random(1000)
    losses = PairedLosses(4)
    noise = [0.0, 0.0, 0.001, 0.001]
    losses.add(
        np.array(
            [common + rise + s * rng.normal(size=1000) for rise, s in zip([0.5, 0.02, 1e-5, 0.0], noise, strict=True)]
        )
    )
    assert choose_strength(strengths, losses, nonzeros, "best") in (2, 3)
    assert choose_strength(strengths, losses, nonzeros, "1se") == 2  # 0.02 is far more than the paired error
    assert choose_strength(strengths, losses, nonzeros, loss_within=0.05) == 1
    assert choose_strength(strengths, losses, nonzeros, nnz=49) == 1
    assert choose_strength(strengths, losses, nonzeros, strength=0.1) == 1


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, TypeError, "choose takes one of rule, strength, nnz and loss_within, got none"),
        ({"rule": "best", "nnz": 3}, TypeError, "got rule, nnz"),
        ({"rule": "worst"}, ValueError, "rule must be one of"),
        ({"strength": 0.5}, ValueError, "strength must be one of the path's, 0.1, 0.01; got 0.5"),
        ({"nnz": 0}, ValueError, "nnz=0: all models have more non-zeros, the sparsest one"),
        ({"loss_within": -0.1}, ValueError, "loss_within must be"),
    ],
)
def test_choices_that_are_refused(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    X, y = data(n=200)
    path = ps.StreamPathClassifier([0.1, 0.01], algorithm=ps.FTRLProximal()).fit(X, y)
    with pytest.raises(kind, match=message):
        path.choose(**options)


def test_paths_that_cannot_find_their_strengths() -> None:
    X, y = data(n=200)
    with pytest.raises(ValueError, match=r"no strength of L2\(lam=1.0\) sets all weights to 0: pass strengths"):
        ps.StreamPathClassifier(penalty=ps.L2()).fit(X, y)
    with pytest.raises(
        ValueError, match="strengths=None: with penalty_weight='once' they depend on the number of rows"
    ):
        ps.StreamPathClassifier(algorithm=ps.FTRLProximal(penalty_weight="once")).fit(X, y)
    with pytest.raises(ValueError, match="no feature is correlated with y"):
        ps.StreamPathRegressor().fit(np.zeros((5, 2)), np.arange(5.0))
    with pytest.raises(ValueError, match="strengths must be numbers >= 0, got -1 at index 1"):
        ps.StreamPathRegressor([0.1, -1.0]).fit(X, np.arange(200.0))


def test_a_loss_without_a_slope_at_zero_is_refused() -> None:
    class Barrier(type(ps.squared)):  # type: ignore[misc]
        def slope(self, p: Any, y: Any) -> Any:
            return np.where(y > 0.0, -1.0 / np.asarray(p), p - y)

    rows = as_block(np.ones((3, 1)), y=[-1.0, -2.0, 3.0])
    with pytest.raises(
        ValueError, match="has no finite slope at score 0, at the label 3 of row 2, so that no strength"
    ):
        stream_strengths(rows, Barrier(), ps.L1())
