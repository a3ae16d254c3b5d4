"""certificate: of models of every make, in memory and over streams; never below the truth, tight where it can be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array
from scipy.special import xlogy
from sklearn import linear_model, svm

import proxstream as ps
from proxstream.batch import Problem, sdca
from proxstream.data.rowblock import as_block
from proxstream.learner.learner import Learner

from ..examples import examples

pytestmark = pytest.mark.interpreted

rng = np.random.default_rng(0)
N, D = 120, 5
X = rng.normal(size=(N, D))
SCORE = X @ np.array([1.0, -1.0, 0.5, 0.0, 0.0]) + 0.4 + 0.7 * rng.normal(size=N)
TWO = np.where(SCORE > 0.0, "yes", "no")
FOUR = np.digitize(SCORE, [-0.8, 0.2, 1.2])
COUNTS = np.round(np.exp(0.5 * SCORE))


class Stream:
    """Rows in pieces, as often as asked for; counts how often that is."""

    def __init__(self, X: Any, y: Any, c: Any = None, step: int = 50) -> None:
        self.parts, self.step, self.passes = (X, y) if c is None else (X, y, c), step, 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        for i in range(0, len(self.parts[1]), self.step):
            yield tuple(part[i : i + self.step] for part in self.parts)


EXACT = [
    (linear_model.LogisticRegression(C=0.1, tol=1e-10, max_iter=1000), TWO),
    (linear_model.LogisticRegression(C=0.1, tol=1e-10, max_iter=1000, fit_intercept=False), TWO),
    (linear_model.LogisticRegression(C=0.1, tol=1e-10, max_iter=1000), FOUR),
    (linear_model.LogisticRegression(C=0.5, l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=20000), TWO),
    (linear_model.LogisticRegression(C=0.5, l1_ratio=0.5, solver="saga", tol=1e-10, max_iter=20000), FOUR),
    (svm.LinearSVC(C=0.05, fit_intercept=False, tol=1e-12, max_iter=100000), TWO),
    (linear_model.Ridge(2.0), SCORE),
    (linear_model.Lasso(0.05, tol=1e-12), SCORE),
    (linear_model.ElasticNet(0.05, l1_ratio=0.3, tol=1e-12), SCORE),
    (linear_model.PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000), COUNTS),
]


@pytest.mark.parametrize(("model", "y"), EXACT, ids=lambda x: type(x).__name__)
def test_an_optimal_model_with_a_smooth_loss_is_proved_optimal(model: Any, y: Any) -> None:
    model = model.fit(X, y)
    proof = ps.certificate(model, X, y)
    assert 0.0 <= proof.gap <= 1e-7 * abs(proof.primal)
    streamed = ps.certificate(model, Stream(X, y))
    assert streamed.primal == pytest.approx(proof.primal, rel=1e-12)
    assert 0.0 <= streamed.gap <= 1e-6 * abs(proof.primal)


def test_positive_models_and_weights_use_their_own_objective() -> None:
    c = rng.uniform(0.1, 2.0, N)
    for model in (linear_model.Lasso(0.05, positive=True, tol=1e-12), linear_model.ElasticNet(0.05, tol=1e-12)):
        proof = ps.certificate(model.fit(X, SCORE, sample_weight=c), X, SCORE, sample_weight=c)
        assert 0.0 <= proof.gap <= 1e-8


CANDIDATES = [
    ("logistic", TWO == "yes"),
    ("hinge", TWO == "yes"),
    ("squared", SCORE),
    ("absolute", SCORE),
    ("quantile(0.8)", SCORE),
    ("poisson", COUNTS),
    ("softmax", FOUR),
    ("multiclass_hinge", FOUR),
]
PENALTIES = [ps.L2(0.1), ps.L1(0.05), ps.ElasticNet(0.02, 0.05)]


def best_seen(given_problem: Problem) -> float:
    """An upper bound on the least P: what a solver reaches."""
    from proxstream.batch.sdca import multiclass

    solver = multiclass.solve if given_problem.n_outputs > 1 else sdca.solve
    return float(solver(given_problem, tol=1e-4, max_epochs=300).primal)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("loss", "y"), CANDIDATES, ids=[loss for loss, _ in CANDIDATES])
def test_the_gap_of_any_model_bounds_what_could_be_gained(loss: str, y: Any) -> None:
    kind = ps.losses.get(loss)
    y = 2.0 * y - 1.0 if kind.kind == "binary" else y.astype(float)
    k = 4 if kind.kind == "multiclass" else 1
    reached = {
        penalty: best_seen(Problem(as_block(X, y), D, kind, penalty, True, k))
        for penalty in (PENALTIES if k == 1 else PENALTIES[:1])
    }

    @examples(15)
    @given(seed=st.integers(0, 10**6), penalty=st.sampled_from(list(reached)))
    def check(seed: int, penalty: Any) -> None:
        draw = np.random.default_rng(seed)
        size = draw.exponential(0.5)
        coef, intercept = (
            (draw.normal(size=(k, D)), draw.normal(size=k)) if k > 1 else (draw.normal(size=D), draw.normal())
        )
        model = size * coef, size * intercept
        proof = ps.certificate(model, X, y, loss=loss, penalty=penalty)
        assert proof.gap == proof.primal - proof.dual >= 0.0
        assert proof.gap >= proof.primal - reached[penalty]
        assert proof.dual <= reached[penalty]
        streamed = ps.certificate(model, Stream(X, y), loss=loss, penalty=penalty)
        assert streamed.primal == pytest.approx(proof.primal, rel=1e-12)
        assert streamed.dual <= reached[penalty]

    check()


def test_learners_and_stream_models() -> None:
    for y, model in (
        (TWO, ps.StreamClassifier(penalty=ps.L1(0.01), passes=3)),
        (FOUR, ps.StreamClassifier(penalty=ps.L2(0.05), passes=3)),
        (FOUR, ps.StreamClassifier(penalty=ps.L2(0.05), passes=3, multi_class="one_vs_rest")),
    ):
        model.fit(X, y)
        proof = ps.certificate(model, X, y)
        assert 0.0 < proof.gap < proof.primal
        assert ps.certificate(model, csr_array(X), y) == pytest.approx(proof)
    binary = ps.StreamClassifier(penalty=ps.L1(0.01), passes=3).fit(X, TWO)
    bare = ps.certificate(
        (binary.coef_, binary.intercept_[0]), X, np.where(TWO == "yes", 1, -1), "logistic", ps.L1(0.01)
    )
    assert bare == pytest.approx(ps.certificate(binary, X, TWO))
    wrapped = ps.certificate((binary.coef_, binary.intercept_), X, np.where(TWO == "yes", 1, -1), "hinge", ps.L2(0.1))
    number = ps.certificate(
        (binary.coef_[0], binary.intercept_[0]), X, np.where(TWO == "yes", 1, -1), "hinge", ps.L2(0.1)
    )
    assert wrapped == number


def test_one_against_the_rest_is_the_sum_of_its_problems() -> None:
    model = ps.StreamClassifier(penalty=ps.L2(0.05), passes=3, multi_class="one_vs_rest").fit(X, FOUR)
    parts = [
        ps.certificate((w, b), X, np.where(k == FOUR, 1.0, -1.0), "logistic", ps.L2(0.05), passes=0)
        for k, (w, b) in enumerate(zip(model.coef_, model.intercept_, strict=True))
    ]
    whole = ps.certificate(model, X, FOUR, passes=0)
    assert whole.primal == pytest.approx(sum(part.primal for part in parts), rel=1e-12)
    assert whole.dual == pytest.approx(sum(part.dual for part in parts), rel=1e-6)


def test_a_once_penalty_is_divided_by_the_rows() -> None:
    algorithm = ps.FTRLProximal(alpha=0.5, penalty_weight="once")
    model = ps.StreamClassifier(algorithm, penalty=ps.ElasticNet(1.0, 2.0)).fit(X, TWO)
    expected = ps.certificate(model, X, TWO, penalty=ps.ElasticNet(1.0 / N, 2.0 / N))
    assert ps.certificate(model, X, TWO) == pytest.approx(expected)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_dual_solvers_own_variables_are_tried(loss: str) -> None:
    model = ps.SDCAClassifier(loss, penalty=ps.L2(0.05), tol=1e-5, class_weight={"no": 3.0}).fit(X, TWO)
    proof = ps.certificate(model, X, TWO)
    assert proof.primal == pytest.approx(model.primal_, rel=1e-10)
    # D of the variables that the model keeps. `dual_` is the best of all epochs, which need not be the last one's.
    p = np.where(TWO == "no", 3.0, 1.0)
    p, alpha, t = p / p.sum(), model.dual_coef_, np.abs(model.dual_coef_)
    conjugates = -t if loss == "hinge" else xlogy(t, t) + xlogy(1.0 - t, 1.0 - t)
    assert float(p @ alpha) == pytest.approx(0.0, abs=1e-12)
    dual = -float(p @ conjugates) - float(np.sum((X.T @ (p * alpha)) ** 2)) / (2.0 * 0.05)
    assert dual - 1e-10 <= proof.dual <= proof.primal


@pytest.mark.parametrize(("loss", "y"), [("logistic", TWO == "yes"), ("hinge", TWO == "yes"), ("absolute", SCORE)])
def test_passes_of_a_solver_tighten_the_bound(loss: str, y: Any) -> None:
    y = 2.0 * y - 1.0 if y.dtype == bool else y
    best = best_seen(Problem(as_block(X, y), D, ps.losses.get(loss), ps.L2(0.05)))
    model = np.array([0.5, -0.2, 0.0, 0.3, 0.0]), 0.1
    loose, tight = (ps.certificate(model, X, y, loss, ps.L2(0.05), passes=passes) for passes in (0, 40))
    assert tight.primal == loose.primal
    assert tight.gap < loose.gap
    assert tight.primal - best <= tight.gap <= 1.05 * (tight.primal - best)


def test_a_stream_is_read_a_few_times_and_in_pieces() -> None:
    stream = Stream(X, SCORE, np.ones(N))
    ps.certificate((np.zeros(D), 0.0), stream, loss="squared", penalty=ps.L2(0.1))
    assert stream.passes <= 10
    whole, halves = (
        ps.certificate((np.ones(D), None), Stream(X, SCORE, step=step), loss="huber", penalty=ps.L1(0.1))
        for step in (N, 7)
    )
    assert whole == pytest.approx(halves)


def test_a_pipeline_is_certified_on_its_transformed_rows() -> None:
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit_transform(X)
    whole = make_pipeline(StandardScaler(), "passthrough", linear_model.LogisticRegression(C=0.1)).fit(X, TWO)
    last = whole[-1]
    assert ps.certificate(whole, X, TWO) == ps.certificate(last, scaled, TWO)
    rotated = make_pipeline(PCA(3), linear_model.Ridge(1.0)).fit(X, SCORE)
    assert 0.0 <= ps.certificate(rotated, X, SCORE).relative_gap <= 1e-6
    with pytest.raises(TypeError, match="a pipeline is certified on a matrix X"):
        ps.certificate(whole, Stream(X, TWO))


ONE_PASS = [
    ps.StreamClassifier(),
    ps.StreamClassifier(ps.FTRLProximal(alpha=0.5)),
    linear_model.SGDClassifier(loss="log_loss", max_iter=1, tol=None, random_state=0),
]


@pytest.mark.default_cases(2)
@pytest.mark.parametrize("penalty", [ps.L1(0.02), ps.L2(0.01), ps.ElasticNet(0.01, 0.01)])
def test_the_gap_of_one_pass_models_is_close_to_the_truth(penalty: Any) -> None:
    best = ps.CertifiedClassifier(penalty=penalty, tol=1e-9).fit(X, TWO).primal_
    for model in ONE_PASS:
        proof = ps.certificate(model.fit(X, TWO), X, TWO, loss="logistic", penalty=penalty)
        truth = proof.primal - best
        assert truth <= proof.gap <= 1.2 * truth + 1e-6 * proof.primal
        assert truth >= proof.primal - proof.reached - 1e-9
        duals = [step.dual for step in proof.history]
        assert duals == sorted(duals)
        assert proof.history[-1].passes <= 10


def test_a_loaded_model_is_certified_like_its_estimator(tmp_path: Any) -> None:
    model = ps.StreamClassifier(penalty=ps.L1(0.02)).fit(X, TWO)
    ps.save(model, tmp_path / "model.psm")
    assert ps.certificate(ps.load(tmp_path / "model.psm"), X, TWO) == ps.certificate(model, X, TWO)


def test_row_blocks_may_have_more_features_than_the_model() -> None:
    narrow = ps.certificate((np.ones(3), 0.0), [as_block(X, SCORE)], loss="squared", penalty=ps.L2(0.1))
    wide = ps.certificate((np.append(np.ones(3), [0.0, 0.0]), 0.0), X, SCORE, "squared", ps.L2(0.1))
    assert narrow.primal == pytest.approx(wide.primal)
    assert narrow.dual == pytest.approx(wide.dual, rel=1e-4)


def test_without_a_penalty_the_model_is_compared_with_weights_of_its_norm() -> None:
    model = linear_model.LinearRegression().fit(X, SCORE)
    proof = ps.certificate(model, X, SCORE)
    assert isinstance(proof.penalty, ps.L2Ball)
    assert proof.penalty.radius == pytest.approx(np.linalg.norm(model.coef_))
    assert 0.0 <= proof.gap <= 1e-6 * proof.primal
    short = ps.certificate((0.5 * model.coef_, 0.0), X, SCORE, "squared", ps.NoPenalty())
    best = ps.CertifiedRegressor(penalty=ps.L2(1e-9), tol=1e-9)
    shrunk = [best.set_params(penalty=ps.L2(lam)).fit(X, SCORE) for lam in np.geomspace(0.01, 10.0, 40)]
    inside = min(
        ps.certificate((m.coef_, m.intercept_), X, SCORE, "squared", ps.NoPenalty(), passes=0).primal
        for m in shrunk
        if np.linalg.norm(m.coef_) <= short.penalty.radius
    )
    assert short.dual <= inside
    assert short.dual <= short.reached <= inside
    assert short.gap <= 1.2 * (short.primal - short.reached)


def test_separable_classes_without_a_penalty_have_a_bound() -> None:
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    model = np.array([3.0, 0.1, 0.0, 0.0, 0.0]), 0.0
    proof = ps.certificate(model, X, y, "logistic", ps.NoPenalty())
    assert 0.0 < proof.dual <= proof.reached <= proof.primal
    assert proof.gap <= 1.2 * (proof.primal - proof.reached) + 1e-4 * proof.primal
    null = ps.certificate((np.zeros(D), 0.0), X, y, "logistic", ps.NoPenalty())
    assert null.penalty.radius == 1.0
    assert 0.0 < null.dual < null.reached < null.primal


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ps.certificate((np.zeros(D), 0.0), X, SCORE), TypeError, "needs loss and penalty"),
        (
            lambda: ps.certificate((np.zeros(D), np.zeros(2)), X, SCORE, "squared", ps.L2(1.0)),
            ValueError,
            "intercept must be one number per output",
        ),
        (lambda: ps.certificate(object(), X, SCORE), TypeError, "model must be a learner, a fitted linear model"),
        (lambda: ps.certificate((np.zeros(D), 0.0), X, TWO, "logistic", ps.L2(1.0)), ValueError, "label y of logistic"),
        (lambda: ps.certificate((np.zeros(D), 0.0), X, None, "squared", ps.L2(1.0)), TypeError, "needs its labels"),
        (lambda: ps.certificate((np.zeros(D), 0.0), X, SCORE[:3], "squared", ps.L2(1.0)), ValueError, "as many labels"),
        (
            lambda: ps.certificate((np.zeros(D), 0.0), iter([(X, SCORE)]), loss="squared", penalty=ps.L2(1.0)),
            TypeError,
            "can be read again, not an iterator",
        ),
        (lambda: ps.certificate((np.zeros(D), 0.0), X, SCORE, "ranking_hinge", ps.L2(1.0)), TypeError, "a ranker"),
        (
            lambda: ps.certificate((np.zeros(D), 0.0), X, FOUR, "softmax", ps.L2(1.0)),
            ValueError,
            "one column of weights",
        ),
        (
            lambda: ps.certificate(linear_model.HuberRegressor().fit(X, SCORE), X, SCORE),
            TypeError,
            "objective of HuberRegressor is not known",
        ),
        (
            lambda: ps.certificate(svm.LinearSVC().fit(X, TWO), X, TWO),
            TypeError,
            "penalizes its intercept",
        ),
        (
            lambda: ps.certificate(linear_model.LogisticRegression().fit(X, TWO), X, np.full(N, "maybe")),
            ValueError,
            "the label 'maybe' at index 0, which is none of the classes",
        ),
    ],
)
def test_refusals_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_no_scikit_learn_is_imported() -> None:
    code = (
        "import sys, numpy as np, proxstream as ps\n"
        "ps.certificate((np.zeros(2), 0.0), np.eye(2), [1, -1], 'logistic', ps.L2(1.0))\n"
        "print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_weights_in_32_bits_are_within_the_ball_of_their_norm() -> None:
    y = np.where(TWO == "yes", 1.0, -1.0)
    for seed in range(10):
        learner = Learner(ps.FTRLProximal(), n_features=D, dtype=np.float32)
        order = np.random.default_rng(seed).permutation(N)
        learner.learn(as_block(X[order], y[order], dtype=np.float32))
        proof = ps.certificate(learner, X, y, passes=0)
        assert np.isfinite(proof.primal)
        assert proof.dual <= proof.primal
