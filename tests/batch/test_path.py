"""Regularization paths: where they begin, what each model is, and what cross-validation measures."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, enet_path, lasso_path
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold

import proxstream as ps
from proxstream.batch import Problem
from proxstream.batch.cross_validation import make_folds
from proxstream.batch.lambda_max import null_model, zeroing_strength
from proxstream.batch.problem import ConvergenceWarning
from proxstream.core import losses
from proxstream.core.penalties import L1, L2, Berhu, ElasticNet, GroupL2, GroupLinf, L2Norm, Penalty
from proxstream.data.rowblock import as_block

from ..examples import examples

Matrix = NDArray[np.float64]


def data(seed: int = 0, n: int = 80, d: int = 8) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ np.r_[2.0, -1.0, 0.5, np.zeros(d - 3)] + rng.normal(size=n) + 1.0


def labels_for(loss: Any, y: Matrix) -> Matrix:
    if loss.kind == "binary":
        return np.where(y > 0.5, 1.0, -1.0)
    if loss.kind == "multiclass":
        return np.digitize(y, [0.0, 1.5]).astype(float)
    return np.round(np.abs(y)) + float(loss.name == "gamma") if loss.link == "log" else y


# ---- where a path begins -------------------------------------------------------------------------

GROUPS = [0, 0, 1, 1]
SHAPES = [
    L1(0.7),
    ElasticNet(0.7, 0.3),
    L1([1.0, 0.5, 2.0, 1.0]),
    GroupL2(0.7, GROUPS),
    L1(0.2) + GroupL2(0.7, GROUPS),
    GroupLinf(0.7, GROUPS),
    L2Norm(0.7) + L2(0.1),
    Berhu(0.7, 0.5),
]


@examples(20)
@given(st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_zeroing_strength_is_the_smallest(shape: Penalty, seed: int) -> None:
    v = np.random.default_rng(seed).normal(size=4)
    s = zeroing_strength(shape, v)
    assert not shape.solve(-v, 1.0, k=s * (1.0 + 1e-12)).any()
    assert shape.solve(-v, 1.0, k=0.9999 * s).any()


def test_zeroing_strength_may_be_infinite_or_zero() -> None:
    v = np.array([1.0, -2.0])
    assert zeroing_strength(L2(1.0), v) == np.inf
    assert zeroing_strength(L1([1.0, 0.0]), v) == np.inf
    assert zeroing_strength(L1([1.0, 0.0]), np.array([3.0, 0.0])) == 3.0
    assert zeroing_strength(GroupL2(0.0), v) == np.inf
    assert zeroing_strength(L2Norm(0.0) + L1([1.0, 0.0]), v) == np.inf
    assert zeroing_strength(L1(1.0), 0.0 * v) == 0.0


CONVEX = [name for name in losses.names() if name not in ("ranking_hinge", "perceptron")]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", CONVEX)
def test_the_null_model_is_proved_at_its_strength(name: str, intercept: bool) -> None:
    loss = losses.get(name)
    X, y = data()
    labels = labels_for(loss, y)
    c = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    k = 3 if loss.kind == "multiclass" else 1
    shape: Penalty = GroupL2(1.0) if k == 3 else L1(1.0)
    null = null_model(Problem(as_block(X, labels, c), 8, loss, shape, intercept, k))
    tight = Problem(as_block(X, labels, c), 8, loss, shape.scaled(null.strength * (1.0 + 1e-9)), intercept, k)
    proof = null.solution(tight)
    assert proof.history[-1].gap <= 1e-8 * abs(proof.primal)
    assert not proof.coef.any()
    assert proof.primal == tight.primal(proof.coef, proof.intercept)
    if loss.smoothness < np.inf:
        loose = Problem(as_block(X, labels, c), 8, loss, shape.scaled(0.98 * null.strength), intercept, k)
        assert null.solution(loose).history[-1].gap > 1e-7


def test_known_null_models() -> None:
    X, y = data()
    c = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    squared = null_model(Problem(as_block(X, y, c), 8, losses.squared, L1(2.0)))
    assert squared.intercept == pytest.approx(np.average(y, weights=c), rel=1e-14)
    v = X.T @ (c * (y - squared.intercept)) / c.sum()
    assert squared.strength == pytest.approx(np.abs(v).max() / 2.0, rel=1e-12)
    signs = np.where(y > 0.5, 1.0, -1.0)
    up = np.average(signs > 0, weights=c)
    logistic = null_model(Problem(as_block(X, signs, c), 8, losses.logistic, L1(1.0)))
    assert logistic.intercept == pytest.approx(np.log(up / (1.0 - up)), rel=1e-12)
    counts = np.round(np.abs(y))
    poisson = null_model(Problem(as_block(X, counts, c), 8, losses.poisson, L1(1.0)))
    assert poisson.intercept == pytest.approx(np.log(np.average(counts, weights=c)), rel=1e-12)


def test_labels_of_one_class_are_refused() -> None:
    assert null_model(Problem(as_block(np.eye(2), [1.0, 1.0]), 2, losses.logistic, L1(1.0))).strength < 1e-300
    with pytest.raises(ValueError, match=r"y must have 2 classes.*got 1 classes"):
        ps.regularization_path(np.eye(2), [1, 1])
    with pytest.raises(ValueError, match="a weight above 0 of each of the 3 classes"):
        null_model(Problem(as_block(np.eye(2), [0.0, 1.0]), 2, losses.softmax, L2(1.0), n_outputs=3))


# ---- the models ----------------------------------------------------------------------------------


def test_the_lasso_is_scikit_learns() -> None:
    X, y = data()
    found = ps.regularization_path(X, y, loss="squared", n_strengths=20, tol=1e-10, fit_intercept=False)
    strengths, coefs, _ = lasso_path(X, y, alphas=20, tol=1e-12, max_iter=100_000)
    np.testing.assert_allclose(found.strengths, strengths, rtol=1e-10)
    np.testing.assert_allclose(found.coefs.toarray(), coefs, atol=1e-6)
    assert found.gaps.max() <= 1e-10


def test_the_elastic_net_is_scikit_learns() -> None:
    X, y = data(1)
    X, y = X - X.mean(axis=0), y - y.mean()
    found = ps.regularization_path(
        X, y, loss="squared", penalty=ElasticNet(0.5, 0.5), n_strengths=15, ratio=0.01, tol=1e-12
    )
    strengths, coefs, _ = enet_path(X, y, l1_ratio=0.5, alphas=15, eps=0.01, tol=1e-12, max_iter=100_000)
    np.testing.assert_allclose(found.strengths, strengths, rtol=1e-10)
    np.testing.assert_allclose(found.coefs.toarray(), coefs, atol=1e-6)
    np.testing.assert_allclose(found.intercepts, 0.0, atol=1e-6)


def test_l1_logistic_regression_is_liblinears() -> None:
    X, y = data(2)
    up = y > 0.5
    found = ps.regularization_path(X, up, n_strengths=6, ratio=0.02, tol=1e-11, fit_intercept=False)
    for i in range(1, 6):
        C = 1.0 / (len(y) * found.strengths[i])
        other = LogisticRegression(
            l1_ratio=1.0, solver="liblinear", C=C, fit_intercept=False, tol=1e-10, max_iter=10_000, random_state=0
        )
        np.testing.assert_allclose(found.coef(i), other.fit(X, up).coef_[0], atol=2e-5)


def test_warm_started_models_equal_cold_started_ones() -> None:
    X, y = data(3)
    found = ps.regularization_path(X, y, loss="huber", n_strengths=10, tol=1e-9)
    alone = ps.regularization_path(X, y, loss="huber", strengths=[found.strengths[6]], tol=1e-9)
    np.testing.assert_allclose(found.coef(6), alone.coef(0), atol=1e-4)
    stated = Problem(as_block(X, y), 8, losses.huber, L1(found.strengths[6]))
    assert found.primal[6] == pytest.approx(stated.primal(found.coef(6), found.intercepts[6]), rel=1e-12)
    assert found.dual[6] <= alone.primal[0]


@pytest.mark.parametrize(
    ("loss", "shape"), [("softmax", GroupL2(0.9) + L2(0.1)), ("multiclass_hinge", ElasticNet(0.9, 0.1))]
)
def test_several_classes(loss: str, shape: Penalty) -> None:
    X, y = data(4)
    words = np.array(["low", "middle", "top"])[np.digitize(y, [0.0, 1.5])]
    found = ps.regularization_path(X, words, loss=loss, penalty=shape, n_strengths=6, ratio=0.1, tol=1e-3)
    assert found.nnz[0] == 0
    assert found.nnz[-1] > 0
    assert found.gaps.max() <= 1e-3
    assert found.coef(3).shape == (8, 3)
    assert found.intercepts.shape == (6, 3)
    assert (found.model(5).predict(X) == words).mean() > 0.6
    assert set(found.model(0).predict(X)) == {max(words, key=list(words).count)}


def test_weights_and_sparse_input_and_labels() -> None:
    X, y = data(5)
    c = np.r_[np.zeros(20), np.ones(40), np.full(20, 2.0)]
    copies = np.repeat(np.arange(80), c.astype(int))
    weighed = ps.regularization_path(csr_array(X), y, loss="squared", sample_weight=c, n_strengths=5, tol=1e-9)
    copied = ps.regularization_path(X[copies], y[copies], loss="squared", n_strengths=5, tol=1e-9)
    np.testing.assert_allclose(weighed.strengths, copied.strengths, rtol=1e-10)
    np.testing.assert_allclose(weighed.coefs.toarray(), copied.coefs.toarray(), atol=1e-5)
    np.testing.assert_allclose(weighed.model(4).predict(X), X @ weighed.coef(4) + weighed.intercepts[4], atol=1e-12)


def test_given_strengths_are_sorted_and_large_ones_give_zero_weights() -> None:
    X, y = data(6)
    top = ps.regularization_path(X, y, loss="squared", n_strengths=1).strengths[0]
    found = ps.regularization_path(X, y, loss="squared", strengths=[0.99 * top, 5.0 * top, top], tol=1e-9)
    np.testing.assert_array_equal(found.strengths, [5.0 * top, top, 0.99 * top])
    assert found.nnz.tolist() == [0, 0, 1]
    ridge = ps.regularization_path(X, y, loss="squared", penalty=L2(1.0), strengths=[1.0, 0.1])
    expected = np.linalg.solve(np.cov(X.T, ddof=0) + 0.1 * np.eye(8), (X - X.mean(axis=0)).T @ (y - y.mean()) / 80)
    np.testing.assert_allclose(ridge.coef(1), expected, atol=2e-2)


# ---- cross-validation ----------------------------------------------------------------------------


def test_cross_validation_losses_are_those_of_models_without_the_fold() -> None:
    X, y = data(7)
    up = y > 0.5
    folds = [(np.flatnonzero(np.arange(80) % 3 != f), np.flatnonzero(np.arange(80) % 3 == f)) for f in range(3)]
    found = ps.regularization_path(X, up, n_strengths=5, ratio=0.05, tol=1e-12, cv=folds)
    assert found.cv is not None
    for f, (learn, held) in enumerate(folds):
        alone = ps.regularization_path(X[learn], up[learn], strengths=found.strengths, tol=1e-12)
        for i in range(5):
            model = alone.model(i)
            expected = np.mean(np.log1p(np.exp(-np.where(up[held], 1.0, -1.0) * model.scores(X[held]))))
            assert found.cv.losses[f, i] == pytest.approx(expected, rel=1e-6)
    mean = found.cv.losses.mean(axis=0)
    error = found.cv.losses.std(axis=0, ddof=1) / np.sqrt(3.0)
    np.testing.assert_allclose(found.cv.mean, mean)
    np.testing.assert_allclose(found.cv.error, error)
    best = int(np.argmin(mean))
    assert found.best.strength == found.strengths[best]
    assert found.one_se.strength == max(found.strengths[mean <= mean[best] + error[best]])


def test_folds_are_stratified_and_depend_on_the_seed() -> None:
    y = np.r_[np.full(17, -1.0), np.full(43, 1.0)]
    folds = make_folds(5, y, np.random.default_rng(0), stratify=True)
    np.testing.assert_array_equal(np.sort(np.concatenate([held for _, held in folds])), np.arange(60))
    for learn, held in folds:
        np.testing.assert_array_equal(np.sort(np.r_[learn, held]), np.arange(60))
        assert (y[held] < 0).sum() in (3, 4)
    again = make_folds(5, y, np.random.default_rng(0), stratify=True)
    assert all((a == b).all() for a, b in zip(folds[0], again[0], strict=True))


@pytest.mark.parametrize("splitter", [KFold(4), StratifiedKFold(4), GroupKFold(4), ShuffleSplit(3, random_state=1)])
def test_splitters_make_the_folds(splitter: Any) -> None:
    X, y = data(8)
    labels = np.where(y > 0.5, "yes", "no")
    groups = np.arange(80) % 7 if isinstance(splitter, GroupKFold) else None  # others warn about groups
    options: Any = {"n_strengths": 4, "ratio": 0.1, "tol": 1e-10, "random_state": 0}
    pairs = list(splitter.split(X, labels, groups))
    by_splitter = ps.regularization_path(X, labels, cv=splitter, groups=groups, **options)
    by_pairs = ps.regularization_path(X, labels, cv=pairs, **options)
    masks = [tuple(np.isin(np.arange(80), rows) for rows in pair) for pair in pairs]
    by_masks = ps.regularization_path(X, labels, cv=masks, **options)
    assert by_splitter.cv is not None
    assert by_pairs.cv is not None
    assert by_masks.cv is not None
    assert by_splitter.cv.losses.shape == (len(pairs), 4)
    np.testing.assert_array_equal(by_splitter.cv.losses, by_pairs.cv.losses)
    np.testing.assert_allclose(by_masks.cv.losses, by_pairs.cv.losses, rtol=1e-6)


def test_the_default_penalty_is_in_the_signature() -> None:
    assert repr(inspect.signature(ps.regularization_path).parameters["penalty"].default) == "L1(lam=1.0)"


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    X, y = data(8)
    one, two = (
        ps.regularization_path(X, y, loss="squared", n_strengths=6, cv=4, random_state=1, n_threads=threads)
        for threads in (1, 2)
    )
    assert one.cv is not None
    assert two.cv is not None
    np.testing.assert_array_equal(one.cv.losses, two.cv.losses)
    np.testing.assert_array_equal(one.coefs.toarray(), two.coefs.toarray())


# ---- messages -----------------------------------------------------------------------------------


def test_a_path_prints_as_a_table() -> None:
    X, y = data(9)
    found = ps.regularization_path(X, y, loss="squared", n_strengths=60, ratio=1e-2, cv=3, random_state=0)
    lines = str(found).splitlines()
    assert lines[0].split() == ["place", "strength", "non-zero", "objective", "relative", "gap", "held-out", "loss"]
    assert len(lines) <= 30
    assert lines[1].split()[2:6:2] == ["0", "<="]
    assert int(lines[-1].split()[0]) == 59
    assert sum(line.endswith("best") for line in lines) == 1
    assert repr(found).startswith("<RegularizationPath of 60 strengths of L1(lam=1.0) from ")
    assert len(found) == 60


def test_models_above_tol_cause_a_warning() -> None:
    X, y = data(1)
    labels = np.digitize(y, [0.0, 1.5])
    with pytest.warns(
        ConvergenceWarning, match=r"\d of 4 strengths ended above tol=1e-12, with a relative duality gap"
    ):
        ps.regularization_path(
            X, labels, loss="softmax", penalty=ElasticNet(0.9, 0.1), n_strengths=4, tol=1e-12, max_epochs=2
        )


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"penalty": L2(1.0)}, ValueError, r"no strength of L2\(lam=1.0\) sets all weights to 0: pass strengths"),
        ({"strengths": [1.0, 0.0]}, ValueError, "strengths must be one or more numbers > 0"),
        ({"strengths": []}, ValueError, "strengths must be one or more numbers > 0"),
        ({"n_strengths": 0}, ValueError, "n_strengths must be an integer >= 1, got 0"),
        ({"ratio": 0.0}, ValueError, r"ratio must be a finite number in \(0, 1\], got 0"),
        ({"tol": 0.0}, ValueError, "tol must be a finite number > 0, got 0"),
        ({"cv": 1}, ValueError, "cv must be an integer >= 2, got 1"),
        ({"cv": 81}, ValueError, "cv must be at most the number of rows, 80, got 81"),
        ({"cv": [([0], [1])]}, ValueError, "cv must have 2 folds or more, got 1"),
        ({"cv": "five"}, TypeError, "cv must be an integer, a splitter such as KFold"),
        ({"cv": 2.5}, TypeError, "cv must be an integer, a splitter such as KFold"),
        ({"cv": [([0], [80]), ([1], [2])]}, ValueError, r"row numbers from 0 to 79, got array\(\[80\]\)"),
        ({"cv": [([0.5], [1]), ([1], [2])]}, ValueError, "two arrays of row numbers"),
        ({"cv": GroupKFold(3)}, ValueError, "'groups' parameter should not be None"),
        ({"penalty": None}, ValueError, r"no strength of NoPenalty\(\) sets all weights to 0"),
        ({"loss": "logistic"}, ValueError, "y must have 2 classes; softmax and multiclass_hinge take more, got 80"),
        ({"sample_weight": np.zeros(80)}, ValueError, "a row with a weight above 0, got none"),
        ({"sample_weight": np.full(80, -1.0)}, ValueError, "sample_weight must be finite and >= 0"),
        ({"penalty": L1(np.ones(3))}, ValueError, "must have shape"),
        ({"penalty": 1.0}, TypeError, "penalty must be None, one of"),
        ({"n_threads": 0}, ValueError, "n_threads must be an integer >= 1"),
    ],
)
def test_invalid_arguments_are_named(changes: Any, error: type[Exception], message: str) -> None:
    X, y = data()
    with pytest.raises(error, match=message):
        ps.regularization_path(X, y, **{"loss": "squared", **changes})


def test_invalid_rows_are_named() -> None:
    X, y = data()
    with pytest.raises(ValueError, match="all weights are 0 at every strength"):
        ps.regularization_path(0.0 * X, y, loss="squared")
    with pytest.raises(ValueError, match="features must be finite"):
        ps.regularization_path(np.where(X > 1.0, np.nan, X), y, loss="squared")
    with pytest.raises(ValueError, match="80 rows need as many labels"):
        ps.regularization_path(X, y[:3], loss="squared")
    with pytest.raises(ValueError, match="2 rows or more of each class, got a class of 1"):
        ps.regularization_path(X, np.arange(80) == 0, cv=3)
    with pytest.raises(AttributeError, match="was not cross-validated"):
        _ = ps.regularization_path(X, y, loss="squared", penalty=L2(1.0), strengths=[1.0], solver="newton").best
