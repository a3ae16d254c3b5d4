"""Learner: refused blocks leave no trace, the loss before learning is right, and every algorithm has an engine."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.core import losses
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.dense import DenseEngine
from proxstream.learner.divergence import DivergedError
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.learner import Learner

from .kernel_cases import D, Setting, stream

pytestmark = pytest.mark.interpreted

LEARNERS = {
    "compiled": lambda **k: Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.01), n_features=D, **k),
    "means": lambda **k: Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.01), n_features=D, average=True, **k),
    "dense": lambda **k: Learner(ps.RDA(), "logistic", ps.L1Ball(0.5), n_features=D, **k),
}


def rows(n: int = 30, weighted: bool = False, loss: Any = losses.logistic, seed: int = 0) -> RowBlock:
    return stream(loss, Setting(weighted, rows=n, seed=seed)).block()


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# -- refused blocks --------------------------------------------------------------------------------


def put(array: Any, i: int, value: float) -> Any:
    changed = array.copy()
    changed[i] = value
    return changed


def bad_blocks() -> dict[str, tuple[RowBlock, str]]:
    good = rows()
    return {
        "nan": (good._replace(data=put(good.data, 9, np.nan)), "features must be finite, got NaN or infinity in row"),
        "infinity": (good._replace(data=put(good.data, -1, np.inf)), "features must be finite"),
        "index": (good._replace(indices=put(good.indices, 5, D)), f"a feature index must be < {D}, got {D}"),
        "negative index": (
            good._replace(indices=put(good.indices, 5, -1)),
            ">= 0, got -1 at position 5, in row",
        ),
        "label 0": (good._replace(y=put(good.y, 29, 0.0)), "logistic must be -1 or .1, got 0.0 at index 29"),
        "label nan": (good._replace(y=put(good.y, 29, np.nan)), "logistic must be"),
        "too few labels": (good._replace(y=good.y[:-1]), r"30 rows needs as many labels, got shape \(29,\)"),
        "no labels": (good._replace(y=good.y[:0]), "as many labels"),
        "labels in columns": (good._replace(y=good.y[:, None]), r"as many labels, got shape \(30, 1\)"),
        "too many weights": (good._replace(c=np.ones(31)), r"as many weights, got shape \(31,\)"),
        "negative weight": (good._replace(c=put(np.ones(30), 29, -0.5)), ">= 0, got -0.5 in row 29"),
        "weight nan": (good._replace(c=put(np.ones(30), 29, np.nan)), "a weight must be finite"),
        "values missing": (good._replace(data=good.data[:-1]), "as many indices as values"),
        "indptr falls": (good._replace(indptr=put(good.indptr, 3, 1000)), "not fall"),
        "indptr too far": (good._replace(indptr=put(good.indptr, -1, 1000)), "as many indices as values"),
    }


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("name", bad_blocks())
def test_a_refused_block_changes_nothing(kind: str, name: str) -> None:
    block, words = bad_blocks()[name]
    learner = LEARNERS[kind]()
    learner.learn(rows(seed=1))
    before = learner.state_dict()
    with pytest.raises(ValueError, match=words):
        learner.learn(block)
    assert same(learner.state_dict(), before)


def test_the_row_of_a_bad_value_is_named() -> None:
    X = np.eye(4, D)
    X[2, 2] = np.inf
    with pytest.raises(ValueError, match="in row 2 of the block"):
        LEARNERS["compiled"]().learn(as_block(X, np.ones(4)))


def test_a_refused_block_makes_no_features() -> None:
    learner = Learner(ps.AdaGrad(update="mirror"), "logistic", ps.L2(0.1), n_features=2, growing=True)
    block = as_block(np.eye(5), np.ones(5))
    for bad in (block._replace(c=np.full(5, 2.0)), block._replace(y=np.zeros(5))):
        with pytest.raises(ValueError, match=r"0 or 1, got 2|must be -1"):
            learner.learn(bad)
    assert learner.n_features == 2
    learner.learn(block)
    assert learner.n_features == 5


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
@pytest.mark.parametrize("penalty", [None, ps.L1Ball(1.0)])
def test_labels_that_are_no_classes_change_nothing(loss: str, penalty: Any) -> None:
    if loss == "logistic" and penalty is not None:
        return  # one against the rest has no dense engine
    learner = Learner(ps.RDA(), loss, penalty, n_features=4, n_outputs=3)
    before = learner.state_dict()
    for bad in (3.0, -1.0, 0.5, np.nan):
        with pytest.raises(ValueError, match=r"must be an integer in 0\.\.2, got"):
            learner.learn(as_block(np.eye(4), [0.0, 1.0, 2.0, bad]))
    assert same(learner.state_dict(), before)


def test_a_step_that_overflows_takes_back_its_block_on_the_dense_path() -> None:
    learner = Learner(ps.MirrorDescent(1.0, "constant", projection="lazy"), "squared", ps.L2Ball(1e300), n_features=2)
    learner.learn(as_block(np.eye(2), [1.0, 1.0]))
    before = learner.state_dict()
    with pytest.raises(DivergedError, match="the model has diverged in row 1 of the block"):
        learner.learn(as_block(np.array([[1.0, 0.0], [1e200, 1e200]]), [1.0, 1e200]))
    assert same(learner.state_dict(), before)


def test_a_model_that_diverges_says_so() -> None:
    learner = Learner(ps.SGD(10.0, "constant"), "squared", n_features=1)
    with pytest.raises(FloatingPointError, match=r"the model has diverged in row 1.. of the block"):
        learner.learn(as_block(np.full((500, 1), 10.0), np.ones(500)))


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"algorithm": "rda"}, TypeError, "algorithm must be an Algorithm"),
        ({"dtype": np.float16}, ValueError, "dtype must be float32 or float64, got float16"),
        ({"n_threads": 0}, ValueError, "n_threads must be an integer >= 1"),
        ({"n_outputs": 0}, ValueError, "n_outputs must be an integer >= 1"),
        ({"loss": "softmax"}, ValueError, "softmax needs n_outputs >= 2"),
        ({"penalty": ps.NonNegative(), "average": True}, ValueError, "average=True: bounds"),
        ({"algorithm": ps.AROW(), "penalty": ps.L1(0.1)}, TypeError, "AROW takes no penalty"),
        ({"algorithm": ps.MirrorDescent(implicit=True), "penalty": ps.L1(0.1)}, TypeError, "to the intercept too"),
        ({"algorithm": ps.MirrorDescent(implicit=True, geometry=ps.Entropy())}, TypeError, "to the intercept too"),
        ({"loss": "squared", "n_outputs": 3}, (TypeError, ValueError), "squared"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        Learner(**{"algorithm": ps.RDA(), "loss": "logistic", "n_features": 3, **settings})


# -- the loss before learning -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_progressive_loss_is_that_of_predictions_made_before(kind: str, weighted: bool) -> None:
    block = rows(weighted=weighted, seed=5)
    learner = LEARNERS[kind]()
    assert np.isnan(learner.progressive_loss)
    scores = LEARNERS[kind]().learn(block)
    c = block.c if weighted else np.ones(30)
    naive = sum(ci * float(np.log1p(np.exp(-y * p))) for ci, y, p in zip(c, block.y, scores, strict=True)) / c.sum()
    for start, stop in itertools.pairwise((0, 3, 3, 17, 30)):
        sparse = csr_array((block.data, block.indices, block.indptr), shape=(30, D))
        learner.learn(as_block(sparse[start:stop], block.y[start:stop], c[start:stop]))
    assert learner.progressive_loss == pytest.approx(naive, rel=1e-12)
    whole = LEARNERS[kind]()
    whole.learn(block)
    assert whole.progressive_loss == learner.progressive_loss


def test_scores_are_those_of_predict_before() -> None:
    learner = LEARNERS["compiled"]()
    learner.learn(rows(seed=1))
    block = rows(1, seed=2)
    assert learner.predict(block) == pytest.approx(learner.learn(block), rel=1e-14)


# -- state ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_state_dict_is_a_picture_not_a_window(kind: str) -> None:
    learner = LEARNERS[kind]()
    learner.learn(rows(seed=1))
    taken = learner.state_dict()
    kept = {name: array.copy() for name, array in taken.items()}
    learner.learn(rows(seed=2))
    assert same(taken, kept)
    other = LEARNERS[kind]()
    other.load_state_dict(taken)
    other.learn(rows(seed=2))
    assert same(other.state_dict(), learner.state_dict())
    assert same(taken, kept)


def test_means_are_what_an_averaging_learner_predicts_with() -> None:
    learner, twin = LEARNERS["means"](), ps.OnlineLearner(ps.FTRLProximal(0.3), ps.L1(0.01), dim=D)
    bias = ps.OnlineLearner(ps.FTRLProximal(0.3), dim=1)
    block = rows()
    Z = csr_array((block.data, block.indices, block.indptr), shape=(30, D)).toarray()
    learner.learn(block)
    for z, y in zip(Z, block.y, strict=True):
        slope = losses.logistic.slope(z @ twin.point + bias.point[0], y)
        twin.update(slope * z)
        bias.update([slope])
    np.testing.assert_allclose(learner.predict(block), Z @ twin.average + bias.average[0], atol=1e-12)
    unknown = as_block(np.ones((2, D + 5)))
    np.testing.assert_allclose(learner.predict(unknown), twin.average.sum() + bias.average[0], atol=1e-12)
    assert learner.predict(as_block(np.zeros((0, D)))).shape == (0,)


def test_features_that_the_model_does_not_know_count_0() -> None:
    for kind in ("compiled", "dense"):
        learner = LEARNERS[kind]()
        learner.learn(rows())
        w, b = learner.weights()
        np.testing.assert_allclose(learner.predict(as_block(np.ones((1, D + 3)))), [w.sum() + b], rtol=1e-12)


def test_growing_from_nothing() -> None:
    learner = Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.01), growing=True)
    assert learner.predict(as_block(np.eye(3))).tolist() == [0.0, 0.0, 0.0]
    learner.learn(as_block(np.eye(2), [1.0, -1.0]))
    learner.learn(as_block(np.eye(5), [1.0, -1.0, 1.0, 1.0, 1.0]))
    assert learner.n_features == 5
    wide = Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.01), n_features=5)
    wide.learn(as_block(np.vstack([np.eye(2, 5), np.eye(5)]), [1.0, -1.0, 1.0, -1.0, 1.0, 1.0, 1.0]))
    assert same(wide.state_dict(), learner.state_dict())
    with pytest.raises(ValueError, match="features cannot be added"):
        Learner(ps.RDA(), "logistic", ps.L1Ball(1.0), n_features=2, growing=True).learn(as_block(np.eye(3), np.ones(3)))


# -- the dense path ---------------------------------------------------------------------------------

DENSE: dict[str, tuple[Any, str, Any, bool]] = {
    "l1 ball": (ps.RDA(), "logistic", ps.L1Ball(0.5), True),
    "l1 ball, mirror": (ps.MirrorDescent(0.3), "hinge", ps.L1Ball(0.5), True),
    "simplex": (ps.AdaGrad(), "squared", ps.Simplex(1.0), True),
    "l2 norm": (ps.FTRLProximal(0.5), "logistic", ps.L2Norm(0.01), True),
    "l-inf norm": (ps.RDA(rho=0.0), "logistic", ps.LinfNorm(0.02), True),
    "berhu": (ps.MirrorDescent(0.3), "logistic", ps.Berhu(0.05, 0.1), True),
    "a strength a coordinate": (ps.SGD(0.3), "logistic", ps.L2(np.linspace(0.0, 1.0, D)), True),
    "groups": (ps.SGD(0.3), "logistic", ps.GroupL2(0.05, np.arange(D) // 3), True),
    "sgd, l1": (ps.SGD(0.3), "logistic", ps.L1(0.05), True),
    "p-norm": (ps.RDA(rho=0.1, geometry=ps.PNorm(1.5)), "logistic", ps.L1(0.01), True),
    "smidas": (ps.MirrorDescent(0.3, geometry=ps.PNorm(1.5)), "logistic", ps.L1(0.01), True),
    "entropy": (ps.MirrorDescent(0.3, geometry=ps.Entropy()), "squared", ps.Simplex(1.0), True),
    "kl": (ps.RDA(geometry=ps.Entropy()), "squared", ps.KL(0.3), False),
    "full": (ps.AdaGrad(0.3, matrix="full"), "logistic", ps.L2(0.1), True),
    "full, mirror": (ps.AdaGrad(0.3, update="mirror", matrix="full"), "logistic", ps.L2Ball(0.5), True),
    "blocks": (ps.AdaGrad(0.3, matrix=np.arange(D) // 2), "logistic", ps.L2Norm(0.01), True),
    "accelerated": (ps.AcceleratedRDA(), "logistic", ps.L1(0.01), True),
    "templates": (ps.FTRL(0.3, "proximal", "linearized"), "logistic", ps.L1(0.01), True),
    "lazy": (ps.MirrorDescent(0.3, projection="lazy"), "logistic", ps.L2Ball(0.4), True),
    "truncated, theta and l2": (ps.TruncatedGradient(0.3, 2, 0.1), "logistic", ps.ElasticNet(0.05, 0.1), True),
    "implicit": (ps.MirrorDescent(1.0, implicit=True), "hinge", None, True),
    "implicit, l1": (ps.MirrorDescent(1.0, implicit=True), "logistic", ps.L1(0.01), False),
    "leader": (ps.FollowTheLeader(), "squared", None, True),
    "leader, l2": (ps.FollowTheLeader(), "squared", ps.L2(0.1), False),
    "arow, full": (ps.AROW(matrix="full"), "hinge", None, True),
}


def free(algorithm: Any) -> Any:
    """The algorithm as an intercept sees it, written down case by case."""
    if isinstance(algorithm, ps.AdaGrad):
        return ps.AdaGrad(algorithm.eta, algorithm.delta, algorithm.update)
    if isinstance(algorithm, ps.RDA):
        return ps.RDA(algorithm.gamma)
    if isinstance(algorithm, ps.MirrorDescent):
        return ps.MirrorDescent(algorithm.eta, algorithm.schedule)
    return algorithm


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("weighted", [False, True])
def test_what_couples_all_weights_runs_on_dense_rows(name: str, weighted: bool) -> None:
    algorithm, loss_name, penalty, intercept = DENSE[name]
    loss = losses.get(loss_name)
    block = rows(weighted=weighted, loss=loss, seed=6)
    c = block.c if weighted else np.ones(30)
    learner = Learner(algorithm, loss, penalty, n_features=D, fit_intercept=intercept, average=True)
    assert isinstance(learner.engine, DenseEngine)
    scores = learner.learn(block)

    Z = csr_array((block.data, block.indices, block.indptr), shape=(30, D)).toarray()
    whole = isinstance(algorithm, (ps.AROW, ps.FollowTheLeader)) or getattr(algorithm, "implicit", False)
    if whole and intercept:
        Z = np.hstack([Z, np.ones((30, 1))])
    twin, bias = ps.OnlineLearner(algorithm, penalty, dim=Z.shape[1]), ps.OnlineLearner(free(algorithm), dim=1)
    apart = intercept and not whole
    for i, z in enumerate(Z):
        p = z @ twin.point + bias.point[0] * apart
        assert scores[i] == pytest.approx(p, rel=1e-12, abs=1e-14)
        if whole:
            twin.learn(z, block.y[i], loss, c[i])
        else:
            slope = float(loss.slope(p, block.y[i]))
            twin.update(slope * z, c[i])
            if apart:
                bias.update([slope], c[i])
    for got, field in ((learner.engine.weights(), "output"), (learner.engine.averages(), "average")):
        w, b = getattr(twin, field), getattr(bias, field)[0] * apart
        if whole and intercept:
            w, b = w[:-1], w[-1]
        np.testing.assert_allclose(got[0], w, rtol=1e-12, atol=1e-14)
        assert got[1] == pytest.approx(b, rel=1e-12, abs=1e-14)
    assert learner.t == twin.t
    assert learner.engine.k == pytest.approx(c.sum(), rel=1e-14)


def test_a_wide_block_is_never_made_dense_at_once() -> None:
    n = 20_000
    learner = Learner(ps.RDA(), "logistic", ps.L2Norm(0.1), n_features=n)
    wide = csr_array((np.ones(2), np.array([0, n - 1]), np.array([0, 1, 2] + [2] * (n - 2))), shape=(n, n))
    learner.learn(as_block(wide[:2], np.ones(2)))
    assert learner.predict(as_block(wide)).shape == (n,)  # 3 GB if it were dense


def test_the_compiled_engine_is_taken_where_there_is_one() -> None:
    for kind in ("compiled", "means"):
        assert isinstance(LEARNERS[kind]().engine, CompiledEngine)
    assert isinstance(LEARNERS["dense"]().engine, DenseEngine)
