"""Structured outputs: the optimum, the certificate and the paper's step, against enumeration and plain code."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.batch import Chain, Multiclass, Problem, StructuredSDCA
from proxstream.batch.problem import ConvergenceWarning
from proxstream.batch.sdca import multiclass
from proxstream.batch.structured_tasks import viterbi
from proxstream.data.rowblock import as_block

from ..examples import examples

Matrix = NDArray[np.float64]


def classes(seed: int, n: int = 60, d: int = 5, k: int = 3) -> tuple[Matrix, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(k, d))[y], y


def sequences(seed: int, n: int = 8) -> tuple[list[Matrix], list[NDArray[np.int64]]]:
    """Labels that tend to stay, each place showing its own label or, one time in three, any."""
    rng = np.random.default_rng(seed)
    xs, ys = [], []
    for _ in range(n):
        y = np.cumsum(rng.random(int(rng.integers(1, 5))) < 0.3) % 2
        shown = np.where(rng.random(len(y)) < 0.35, rng.integers(2, size=len(y)), y)
        xs.append(np.eye(2)[shown] + 0.1 * rng.normal(size=(len(y), 2)))
        ys.append(y)
    return xs, ys


def outputs(task: Any, x: Any) -> list[Any]:
    """Every output there is."""
    if isinstance(task, Multiclass):
        return list(range(task.n_classes))
    return [np.array(y) for y in itertools.product(range(task.n_labels), repeat=len(x))]


def objective(task: Any, lam: float, xs: Any, ys: Any, w: Matrix) -> float:
    """P(w), each maximum over all outputs."""
    worst = [
        max(task.loss(y, y2) - w @ (task.features(x, y) - task.features(x, y2)) for y2 in outputs(task, x))
        for x, y in zip(xs, ys, strict=True)
    ]
    return float(np.mean(worst) + 0.5 * lam * w @ w)


# ---- the tasks -----------------------------------------------------------------------------------


@examples(100)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(2, 4), st.booleans())
def test_the_chain_finds_what_enumeration_finds(seed: int, length: int, k: int, with_loss: bool) -> None:
    rng = np.random.default_rng(seed)
    task = Chain(n_features=3, n_labels=k)
    w, x = rng.normal(size=task.dim), rng.normal(size=(length, 3))
    y = rng.integers(k, size=length) if with_loss else None

    def worth(y2: Any) -> float:
        return float(w @ task.features(x, y2)) + (task.loss(y, y2) if with_loss else 0.0)

    assert worth(task.argmax(w, x, y)) == pytest.approx(max(map(worth, outputs(task, x))), abs=1e-12)


def test_viterbi_of_one_place_is_its_best_label() -> None:
    assert viterbi(np.array([[0.0, 2.0, 1.0]]), np.zeros((3, 3))).tolist() == [1]


@pytest.mark.parametrize("kind", [Chain, Multiclass])
def test_tasks_refuse_invalid_sizes(kind: Any) -> None:
    with pytest.raises(ValueError, match="n_features must be an integer >= 1, got 0"):
        kind(0, 3)
    with pytest.raises(ValueError, match="must be an integer >= 2, got 1"):
        kind(3, 1)


# ---- the optimum ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.2, 0.02])
def test_multiclass_as_a_structured_problem_has_the_weights_of_the_multiclass_solver(lam: float) -> None:
    X, y = classes(1)
    model = StructuredSDCA(Multiclass(5, 3), lam, tol=1e-11, random_state=0).fit(X, y)
    stated = Problem(as_block(X, y), 5, ps.multiclass_hinge, ps.L2(lam), False, 3)
    found = multiclass.solve(stated, tol=1e-11, max_epochs=20_000)
    np.testing.assert_allclose(model.coef_.reshape(5, 3), found.coef, atol=1e-8)
    assert model.primal_ == pytest.approx(found.primal, rel=1e-10)


def test_a_chain_reaches_the_optimum_of_its_quadratic_program() -> None:
    xs, ys = sequences(3)
    task, lam, n = Chain(2, 2), 0.1, len(xs)
    model = StructuredSDCA(task, lam, tol=1e-9, random_state=0).fit(xs, ys)
    rows, margins = [], []
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        for y2 in outputs(task, x):
            rows.append(np.r_[task.features(x, y) - task.features(x, y2), np.eye(n)[i]])
            margins.append(task.loss(y, y2))
    A, margin, d = np.array(rows), np.array(margins), task.dim
    program = minimize(
        lambda v: 0.5 * lam * v[:d] @ v[:d] + v[d:].mean(),
        np.r_[np.zeros(d), np.full(n, 4.0)],
        jac=lambda v: np.r_[lam * v[:d], np.full(n, 1.0 / n)],
        constraints={"type": "ineq", "fun": lambda v: A @ v - margin, "jac": lambda v: A},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert program.success
    assert model.primal_ == pytest.approx(program.fun, rel=1e-7)
    np.testing.assert_allclose(model.coef_, program.x[:d], atol=1e-4)


def test_one_plane_is_the_step_of_the_paper() -> None:
    xs, ys = sequences(4)
    task, lam, n, epochs = Chain(2, 2), 0.3, len(xs), 12
    w, w_i, l_i = np.zeros(task.dim), np.zeros((n, task.dim)), np.zeros(n)
    rng = np.random.default_rng(7)
    for _ in range(epochs):
        for i in rng.permutation(n):
            j = task.argmax(w, xs[i], ys[i])
            psi = (task.features(xs[i], ys[i]) - task.features(xs[i], j)) / (lam * n)
            lack = task.loss(ys[i], j) - l_i[i] - lam * n * w @ (psi - w_i[i])
            size = lam * n * (psi - w_i[i]) @ (psi - w_i[i])
            s = min(max(lack / size, 0.0), 1.0) if size > 0.0 else 0.0
            l_i[i] += s * (task.loss(ys[i], j) - l_i[i])
            w += s * (psi - w_i[i])
            w_i[i] += s * (psi - w_i[i])
    with pytest.warns(ConvergenceWarning, match=r"after 12 epochs with a relative duality gap of .*raise max_epochs"):
        model = StructuredSDCA(task, lam, tol=1e-15, max_epochs=epochs, planes=1, random_state=7).fit(xs, ys)
    assert model.history_[-1].dual == pytest.approx(l_i.mean() - 0.5 * lam * w @ w, rel=1e-12)
    assert model.history_[-1].primal <= objective(task, lam, xs, ys, w) + 1e-12


# ---- the certificate -----------------------------------------------------------------------------


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1, 2, 20]))
@pytest.mark.filterwarnings("ignore::proxstream.batch.problem.ConvergenceWarning")
def test_the_bound_holds_for_any_weights_and_the_primal_is_that_of_the_weights(
    seed: int, epochs: int, planes: int
) -> None:
    xs, ys = sequences(seed % 20, n=5)
    task, lam = Chain(2, 2), 0.2
    model = StructuredSDCA(task, lam, tol=1e-15, max_epochs=epochs, planes=planes, random_state=seed).fit(xs, ys)
    assert model.primal_ == pytest.approx(objective(task, lam, xs, ys, model.coef_), rel=1e-12)
    best = StructuredSDCA(task, lam, tol=1e-6, random_state=0).fit(xs, ys)
    w = best.coef_ + 10.0 ** -(seed % 5) * np.random.default_rng(seed).normal(size=task.dim)
    assert model.dual_ <= min(objective(task, lam, xs, ys, w), best.primal_) + 1e-12
    assert model.duality_gap_ >= model.primal_ - best.primal_ - 1e-12


def test_the_dual_never_falls_and_planes_end_sooner() -> None:
    X, y = classes(2)
    histories = {}
    for planes in (1, 20):
        model = StructuredSDCA(Multiclass(5, 3), 0.1, tol=1e-3, planes=planes, random_state=0).fit(X, y)
        duals = [record.dual for record in model.history_]
        assert duals == sorted(duals)
        histories[planes] = model.history_
        assert model.duality_gap_ <= 1e-3 * model.primal_
    assert histories[20][-1].epoch < histories[1][-1].epoch


# ---- the ways in ---------------------------------------------------------------------------------


class OtherForm(Multiclass):
    """Features in another form, and a word for each prediction."""

    def __init__(self, form: Any) -> None:
        super().__init__(5, 3)
        self.form = form

    def features(self, x: Any, y: int) -> Any:
        return self.form(super().features(x, y))

    def predict(self, w: Matrix, x: Any) -> str:
        return "abc"[self.argmax(w, x)]


@pytest.mark.parametrize(
    "form", [lambda v: {i: v[i] for i in np.flatnonzero(v)[::-1]}, lambda v: csr_array(v[None]), list]
)
def test_features_may_come_in_any_form(form: Any) -> None:
    X, y = classes(3, n=20)
    plain = StructuredSDCA(Multiclass(5, 3), 0.1, random_state=0).fit(X, y)
    other = StructuredSDCA(OtherForm(form), 0.1, random_state=0).fit(X, y)
    np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-13, atol=1e-15)
    assert other.predict(X) == ["abc"[j] for j in plain.predict(X)]


def test_a_weight_of_two_is_a_copy_and_of_zero_is_none() -> None:
    X, y = classes(4, n=12)
    c = np.array([2.0, 0.0] + [1.0] * 10)
    weighed = StructuredSDCA(Multiclass(5, 3), 0.1, tol=1e-9, random_state=0).fit(X, y, sample_weight=c)
    rows = np.repeat(np.arange(12), c.astype(int))
    copied = StructuredSDCA(Multiclass(5, 3), 0.1, tol=1e-9, random_state=0).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighed.coef_, copied.coef_, atol=1e-5)


def test_the_same_seed_gives_the_same_bits() -> None:
    xs, ys = sequences(5)
    first, second = (StructuredSDCA(Chain(2, 2), 0.1, random_state=3).fit(xs, ys) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_score_is_minus_the_mean_loss() -> None:
    xs, ys = sequences(5)
    model = StructuredSDCA(Chain(2, 2), 0.1, random_state=3).fit(xs, ys)
    wrong = [np.count_nonzero(y != y2) for y, y2 in zip(ys, model.predict(xs), strict=True)]
    assert model.score(xs, ys) == -np.mean(wrong)


def test_a_wrong_argmax_is_detected() -> None:
    class Lazy(Multiclass):
        calls = 0

        def argmax(self, w: Matrix, x: Any, y: int | None = None) -> int:
            self.calls += 1
            return super().argmax(w, x, y) if self.calls % 3 else int(y or 0)

    X, y = classes(0)
    with pytest.raises(ValueError, match=r"argmax\(w, x, y\) must return the output of the largest score plus loss"):
        StructuredSDCA(Lazy(5, 3), 0.1).fit(X, y)


class Bare:
    """Only what has to be there, for one number and two outputs."""

    def __init__(self, make_features: Any) -> None:
        self.make_features = make_features

    def features(self, x: Any, y: Any) -> Any:
        return self.make_features(x, y)

    def loss(self, y: Any, y2: Any) -> float:
        return float(y != y2)

    def argmax(self, w: Matrix, x: Any, y: Any) -> Any:
        scores = [
            w @ np.asarray(self.make_features(x, y2)) + (0.0 if y is None else self.loss(y, y2)) for y2 in (-1, 1)
        ]
        return (-1, 1)[int(np.argmax(scores))]


def test_a_bare_problem_is_enough() -> None:
    model = StructuredSDCA(Bare(lambda x, y: [0.5 * x * y]), 0.5, tol=1e-8).fit([1.0, -1.0], [1, -1])
    assert model.coef_ == pytest.approx([1.0])
    assert model.predict([3.0, -2.0]) == [1, -1]


@pytest.mark.parametrize(
    ("make_features", "error", "message"),
    [
        (lambda x, y: {0: x * y}, TypeError, "features are mappings must have a number `dim`"),
        (lambda x, y: np.zeros(2 if y > 0 else 3), ValueError, "must be a vector of 2 entries, got 3 entries"),
        (lambda x, y: [np.nan], ValueError, r"features\(x, y\) of example 0 must be finite, got nan"),
        (lambda x, y: np.zeros((1, 1)), ValueError, "must be a vector of 1 entries, got not a vector"),
    ],
)
def test_invalid_features_are_named(make_features: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        StructuredSDCA(Bare(make_features), 0.5).fit([1.0, -1.0], [1, -1])


def test_indices_beyond_the_weights_are_named() -> None:
    task = Bare(lambda x, y: {1: x})
    task.dim = 1  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"must have indices in 0\.\.0, got 1\.\.1"):
        StructuredSDCA(task, 0.5).fit([1.0], [1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 0.0}, "lam must be a finite number > 0, got 0"),
        ({"lam": 0.1, "tol": 0.0}, "tol must be a finite number > 0, got 0"),
        ({"lam": 0.1, "planes": 0}, "planes must be an integer >= 1, got 0"),
        ({"lam": 0.1, "max_epochs": 0}, "max_epochs must be an integer >= 1, got 0"),
    ],
)
def test_settings_are_checked(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StructuredSDCA(Multiclass(1, 2), **settings).fit([[1.0]], [0])


def test_examples_and_their_weights_are_checked() -> None:
    model = StructuredSDCA(Multiclass(1, 2), 0.1)
    with pytest.raises(ValueError, match="xs and ys must be as many, and at least one, got 2 and 1"):
        model.fit([[1.0], [2.0]], [0])
    with pytest.raises(ValueError, match="got 0 and 0"):
        model.fit([], [])
    with pytest.raises(ValueError, match=r"sample_weight must be numbers >= 0, not all 0, got -1\.0"):
        model.fit([[1.0]], [0], sample_weight=[-1.0])
    with pytest.raises(AttributeError, match="not fitted yet"):
        model.predict([[1.0]])


@pytest.mark.parametrize(
    ("task", "x", "y", "message"),
    [
        (Multiclass(1, 2), [1.0], 2, r"example 1: a class must be an integer in 0\.\.1, got 2"),
        (Multiclass(1, 2), [1.0], -1, r"example 1: a class must be an integer in 0\.\.1, got -1"),
        (Multiclass(1, 2), [1.0], "a", r"example 1: a class must be an integer in 0\.\.1, got 'a'"),
        (Chain(1, 2), [[1.0], [2.0]], [0, 0.7], r"example 1: a label must be an integer in 0\.\.1, got 0\.7"),
        (Chain(1, 2), [[1.0], [2.0]], [0, -1], r"example 1: a label must be an integer in 0\.\.1, got -1"),
        (Chain(1, 2), [[1.0], [2.0]], [0], "example 1: there must be one label per place, 2, got 1"),
    ],
)
def test_invalid_labels_are_named(task: Any, x: Any, y: Any, message: str) -> None:
    first = ([1.0], 0) if isinstance(task, Multiclass) else ([[1.0]], [0])
    model = StructuredSDCA(task, 0.1).fit([np.array(first[0])], [first[1]])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=message):
        model.fit([np.array(first[0]), np.array(x)], [first[1], y])
    np.testing.assert_array_equal(model.coef_, before)


def test_a_sequence_may_be_empty() -> None:
    model = StructuredSDCA(Chain(1, 2), 0.1).fit([np.empty((0, 1)), np.ones((2, 1))], [[], [0, 1]])
    assert len(model.predict([np.empty((0, 1))])[0]) == 0


@pytest.mark.parametrize("key", [0.5, "a", True])
def test_an_index_of_features_is_an_integer(key: Any) -> None:
    task = Bare(lambda x, y: {key: x})
    task.dim = 2  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=f"example 0 must have integers as indices, got {key!r}"):
        StructuredSDCA(task, 0.5).fit([1.0], [1])


def test_complex_features_generators_and_empty_scores_are_refused() -> None:
    with pytest.raises(TypeError, match="example 0 must be an array of numbers, got ndarray: an array of complex128"):
        StructuredSDCA(Bare(lambda x, y: np.array([1j])), 0.5).fit([1.0], [1])
    model = StructuredSDCA(Multiclass(1, 2), 0.1)
    with pytest.raises(TypeError, match="xs must be a sequence with a length, such as a list, got generator"):
        model.fit((x for x in [[1.0]]), [0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one, got 0 and 0"):
        model.fit([[1.0]], [0]).score([], [])


def test_weights_whose_sum_overflows_are_valid_shares() -> None:
    X, y = classes(4, n=12)
    plain, large = (
        StructuredSDCA(Multiclass(5, 3), 0.1, random_state=0).fit(X, y, sample_weight=np.full(12, c))
        for c in (1.0, 1e308)
    )
    assert large.primal_ == pytest.approx(plain.primal_, rel=1e-9) != 0.0


@pytest.mark.parametrize(("scale", "epochs"), [(1e160, 20), (30.0, 1)])
def test_weights_are_finite_and_no_worse_than_zero(scale: float, epochs: int) -> None:
    X, y = classes(0)
    with pytest.warns(ConvergenceWarning, match=f"after {epochs} epochs"):
        model = StructuredSDCA(Multiclass(5, 3), 1e-6, tol=1e-9, max_epochs=epochs, planes=1, random_state=0).fit(
            scale * X, y
        )
    assert np.isfinite(model.coef_).all()
    assert 0.0 <= model.dual_ <= model.primal_ <= 1.0 + 1e-12  # the mean loss of the worst class, at weights 0


def test_neither_numba_nor_scikit_learn_is_needed() -> None:
    code = (
        "import sys, proxstream as ps\n"
        "ps.StructuredSDCA(ps.batch.Multiclass(1, 2), 0.1).fit([[1.0], [-1.0]], [0, 1]).predict([[2.0]])\n"
        "print(*{'numba', 'sklearn', 'scipy'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
