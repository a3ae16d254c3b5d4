"""Prox-SDCA: the paper's steps against a naive twin, its theorems, its optimum against other solvers, its proofs."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.svm import SVC, SVR

import proxstream as ps
from proxstream.batch import Problem, Trace, dual_point, sdca
from proxstream.batch.sdca import Rule, StrongPart, link_of
from proxstream.batch.sdca.run import Run
from proxstream.data.rowblock import as_block

from .naive_sdca import Naive

pytestmark = pytest.mark.interpreted

rng = np.random.default_rng(0)
N, D = 60, 4
X = rng.normal(size=(N, D)) * rng.choice([0.0, 1.0], size=(N, D), p=[0.2, 0.8])
SCORE = X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.4 + 0.7 * rng.normal(size=N)
C = rng.uniform(0.2, 2.0, N)
SMOOTH = [
    "logistic",
    "squared_hinge",
    "smoothed_hinge(0.5)",
    "squared",
    "huber(0.5)",
    "poisson",
    "gamma",
    "tweedie(1.3)",
]
KINKED = ["hinge", "absolute", "epsilon_insensitive(0.2)", "quantile(0.3)"]


def labels(loss: ps.losses.Loss) -> Any:
    if loss.kind == "binary":
        return np.where(SCORE > 0.0, 1.0, -1.0)
    return np.round(np.exp(0.5 * SCORE)) + float(loss.name == "gamma") if loss.link == "log" else SCORE


def problem(loss: str, penalty: Any = None, *, c: Any = C, fit_intercept: bool = True) -> Problem:
    kind = ps.losses.get(loss)
    return Problem(as_block(X, labels(kind), c), D, kind, penalty or ps.L2(0.05), fit_intercept)


def relative_gap(solution: Any) -> float:
    return float((solution.primal - solution.dual) / max(abs(solution.primal), abs(solution.dual)))


# -- the steps -----------------------------------------------------------------------------------


def run_of(given: Problem, option: str = "I", **rule: Any) -> Run:
    terms = given.penalty.terms((given.n_features,))
    link = link_of(terms.l1, terms.l2, given.n_features)
    return Run(given, link, Rule(option, sampling="uniform", **rule), 0, None, 1)


STEPS = [
    (option, loss, l1)
    for loss, l1 in (("logistic", 0.0), ("logistic", 0.02), ("hinge", 0.0), ("squared", 0.0))
    for option in sdca.OPTIONS
    if (option, loss) != ("V", "hinge")
]


@pytest.mark.parametrize(("option", "loss", "l1"), STEPS)
def test_steps_are_those_of_figure_1(option: str, loss: str, l1: float) -> None:
    given = problem(loss, ps.ElasticNet(l1, 0.05) if l1 else ps.L2(0.05), c=None, fit_intercept=False)
    naive = Naive(X, labels(given.loss), given.loss, 0.05, l1)
    run = run_of(given, option)
    order = np.random.default_rng(1).integers(N, size=3 * N).astype(np.int32)
    run._move(order.copy())
    for i in order:
        naive.step(int(i), option)
    np.testing.assert_allclose(run.state.alpha, naive.alpha, atol=2e-5)
    np.testing.assert_allclose(run.state.v, 0.05 * naive.v, atol=2e-5)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "poisson"])
@pytest.mark.parametrize("b", [0.0, 0.7])
def test_the_dual_never_falls_under_option_i_with_the_intercept_held(loss: str, b: float) -> None:
    given = problem(loss, c=None, fit_intercept=False)
    run, naive = run_of(given), Naive(X, labels(given.loss), given.loss, 0.05, b=b)
    run.state.bias[1] = b
    before = naive.dual()
    for i in np.random.default_rng(2).integers(N, size=200).astype(np.int32):
        run._move(np.array([i]))
        naive.alpha[:] = run.state.alpha
        after = naive.dual()
        assert after >= before - 1e-14
        before = after
    assert run.state.bias[1] == b


def test_the_sum_of_local_gaps_is_the_duality_gap() -> None:
    given = problem("hinge", c=None, fit_intercept=False)
    run, naive = run_of(given), Naive(X, labels(given.loss), given.loss, 0.05)
    run._move(np.arange(N, dtype=np.int32))
    naive.alpha[:] = run.state.alpha
    p = X @ naive.w
    local = given.loss.value(p, naive.y) + given.loss.conjugate(-naive.alpha, naive.y) + naive.alpha * p
    assert local.mean() == pytest.approx(naive.primal() - naive.dual(), abs=1e-12)


@pytest.mark.parametrize("option", sdca.OPTIONS)
def test_theorem_1_counts_enough_iterations(option: str) -> None:
    lam, eps = 0.02, 1e-4
    y = labels(ps.logistic)
    given = problem("logistic", ps.L2(lam), c=None, fit_intercept=False)
    assert ps.logistic.value(0.0, y).mean() <= 1.0
    work = N + (X * X).sum(axis=1).max() / (lam * 4.0)  # n + R^2 / (lambda gamma), gamma = 4
    T = int(np.ceil(work * np.log(work / eps)))
    gaps = []
    for seed in range(20):
        run, naive = run_of(given, option), Naive(X, y, ps.logistic, lam)
        run._move(np.random.default_rng(seed).integers(N, size=T).astype(np.int32))
        naive.alpha[:] = run.state.alpha
        gaps.append(naive.primal() - naive.dual())
    assert np.mean(gaps) <= eps


# -- the optimum ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "loss"), [(option, loss) for option, loss, l1 in STEPS if not l1])
@pytest.mark.parametrize("sampling", sdca.SAMPLINGS)
def test_every_option_ends_at_the_optimum_of_other_solvers(option: str, sampling: str, loss: str) -> None:
    given = problem(loss)
    solution = sdca.solve(given, tol=1e-6, max_epochs=20000, rule=Rule(option, sampling))
    assert solution.converged
    assert 0.0 <= relative_gap(solution) <= 1e-6
    assert given.primal(solution.coef, solution.intercept) == pytest.approx(solution.primal, rel=1e-12)
    assert solution.primal == pytest.approx(optimum(given), rel=1e-6)


@pytest.mark.default_cases(4)
@pytest.mark.parametrize("loss", [*SMOOTH, "hinge", "epsilon_insensitive(0.2)", "absolute"])
def test_every_loss_ends_at_the_optimum_of_other_solvers(loss: str) -> None:
    given = problem(loss)
    solution = sdca.solve(given, tol=1e-7, max_epochs=20000)
    assert solution.converged
    assert solution.primal == pytest.approx(optimum(given), rel=1e-6)


def optimum(given: Problem) -> float:
    """The least P as scipy finds it, or, with kinks, scikit-learn's support vector machines."""
    if given.loss.name in ("hinge", "absolute", "epsilon_insensitive"):
        lam = given.penalty.lam  # type: ignore[attr-defined]
        scale = {"kernel": "linear", "C": 1.0 / (lam * C.sum()), "tol": 1e-10}
        width = getattr(given.loss, "epsilon", 0.0)
        model = SVC(**scale) if given.loss.kind == "binary" else SVR(epsilon=width, **scale)
        model.fit(X, given.rows.y, sample_weight=C)
        return given.primal(model.coef_[0], float(model.intercept_[0]))

    def objective(z: Any) -> tuple[float, Any]:
        p = X @ z[:D] + z[D]
        slopes = given.shares * given.loss.slope(p, given.rows.y)
        gradient = np.append(X.T @ slopes + given.penalty.subgradient(z[:D]), slopes.sum())
        return given.primal(z[:D], z[D]), gradient

    return float(minimize(objective, np.zeros(D + 1), jac=True, method="BFGS", options={"gtol": 1e-9}).fun)


def test_quantiles_end_with_the_right_share_below() -> None:
    solution = sdca.solve(problem("quantile(0.3)", ps.L2(1e-3), c=None), tol=1e-5, max_epochs=20000)
    below = np.mean(X @ solution.coef + solution.intercept > SCORE)
    assert abs(below - 0.3) <= (D + 1) / N


@pytest.mark.exhaustive
def test_strengths_for_each_feature() -> None:
    l1, l2 = np.array([0.0, 0.02, 0.1, 0.3]), np.array([0.05, 0.1, 0.2, 0.05])
    given = problem("logistic", ps.ElasticNet(l1, l2))
    solution = sdca.solve(given, tol=1e-9, max_epochs=5000)
    assert solution.converged
    # Optimality: v - l2 w is a subgradient of the l1 part, and the slopes cancel over the rows.
    slopes = given.shares * given.loss.slope(X @ solution.coef + solution.intercept, given.rows.y)
    rest = -(X.T @ slopes) - l2 * solution.coef
    zero = solution.coef == 0.0
    assert zero.any()
    np.testing.assert_allclose(rest[~zero], (l1 * np.sign(solution.coef))[~zero], atol=1e-4)
    assert (np.abs(rest[zero]) <= l1[zero]).all()
    assert abs(slopes.sum()) <= 1e-4


def test_the_history_is_true_and_the_best_dual_is_kept() -> None:
    given = problem("hinge")
    solution = sdca.solve(given, tol=1e-5, max_epochs=5000)
    epochs = [record.epoch for record in solution.history]
    duals = [record.dual for record in solution.history]
    assert epochs == sorted(set(epochs))
    assert duals == sorted(duals)
    assert all(record.gap == record.primal - record.dual >= 0.0 for record in solution.history)
    point = dual_point(given, solution.alpha, search=False)
    assert abs(given.shares @ solution.alpha) <= 1e-15
    assert solution.dual - 1e-6 <= point.value <= solution.dual + 1e-14


# -- outputs -------------------------------------------------------------------------------------


def test_the_mean_is_that_of_all_iterates() -> None:
    given = problem("logistic", c=None, fit_intercept=False)
    run, naive = run_of(given, output="average"), Naive(X, labels(ps.logistic), ps.logistic, 0.05)
    order, played = np.random.default_rng(3).integers(N, size=100).astype(np.int32), []
    for i in order:
        played.append(naive.alpha.copy())
        naive.step(int(i), "V")
    run = run_of(given, "V", output="average")
    run._move(order[:60].copy())
    run._move(order[60:].copy())
    np.testing.assert_allclose(run._alpha(), np.mean(played, axis=0), atol=1e-7)


def test_a_random_output_is_an_iterate_after_t0() -> None:
    given = problem("logistic", c=None, fit_intercept=False)
    seen = set()
    for seed in range(10):
        terms = given.penalty.terms((D,))
        run = Run(given, link_of(terms.l1, terms.l2, D), Rule("V", "uniform", "random", average_from=1), seed, None, 1)
        for _ in range(3):
            run._pass()
            run.epoch += 1
        naive, iterates = Naive(X, labels(ps.logistic), ps.logistic, 0.05), []
        order, state = np.empty(N, np.int32), np.array([seed], np.uint64)
        for _ in range(3):
            run.kernels.sample(order, N, state)
            for i in order:
                naive.step(int(i), "V")
                iterates.append(naive.alpha.copy())
        distances = [np.abs(run._alpha() - iterate).max() for iterate in iterates]
        assert min(distances) <= 1e-7
        seen.add(int(np.argmin(distances)))
    assert min(seen) >= N  # after T_0 = 1 pass
    assert len(seen) > 5


@pytest.mark.parametrize("output", ["average", "random"])
@pytest.mark.parametrize("average_from", [None, 2])
def test_other_outputs_are_proved_too(output: str, average_from: int | None) -> None:
    for loss, tol in (("logistic", 1e-5), ("hinge", 1e-3)):
        given = problem(loss)
        solution = sdca.solve(given, tol=tol, max_epochs=5000, rule=Rule(output=output, average_from=average_from))
        assert solution.converged
        assert dual_point(given, solution.alpha).value == pytest.approx(solution.dual, abs=tol)
        assert given.primal(solution.coef, solution.intercept) - optimum(given) <= solution.history[-1].gap + 1e-9


# -- L1 alone ------------------------------------------------------------------------------------


@pytest.mark.parametrize("strong_part", sdca.STRONG_PARTS)
def test_l1_alone_by_the_two_constructions(strong_part: str) -> None:
    from sklearn.linear_model import Lasso

    given = problem("squared", ps.L1(0.05), c=None)
    solution = sdca.solve(given, tol=1e-3, max_epochs=20000, rule=Rule(strong_part=strong_part))
    lasso = Lasso(0.05, tol=1e-12).fit(X, SCORE)
    best = given.primal(lasso.coef_, float(lasso.intercept_))
    assert solution.converged
    assert 0.0 <= solution.primal - best <= solution.history[-1].gap + 1e-9
    assert best >= solution.dual - 1e-12
    assert set(np.flatnonzero(solution.coef)) >= set(np.flatnonzero(np.abs(lasso.coef_) > 0.05))


def test_the_q_norm_is_strongly_convex_with_this_constant_and_not_with_the_printed_one() -> None:
    d = 64
    part = StrongPart(ps.L1(1.0), d, "q_norm", 1.0)
    q = part.p / (part.p - 1.0)

    def curvature(kappa: float, w: Any, h: Any, t: float = 1e-3) -> float:
        def f(x: Any) -> float:
            return 0.5 * kappa * float((np.abs(x) ** q).sum()) ** (2.0 / q)

        return (f(w + t * h) - 2.0 * f(w) + f(w - t * h)) / t**2

    signs = np.where(np.arange(d) % 2, 1.0, -1.0) / d  # ||h||_1 = 1
    assert curvature(part.kappa, np.ones(d), signs) == pytest.approx(1.0, rel=1e-3)
    assert curvature(3.0 * np.log(d), np.ones(d), signs) < 0.6
    draw = np.random.default_rng(0)
    for _ in range(200):
        w, h = draw.normal(size=(2, d)) * draw.choice([0.01, 1.0], size=(2, d))
        assert curvature(part.kappa, w, h / np.abs(h).sum(), 1e-4) >= 1.0 - 1e-3


def test_q_norm_weights_minimize() -> None:
    """Equations 10 and 11: v - lam (kappa/2) grad ||w||_q^2 is a subgradient of l1 ||w||_1."""
    from proxstream.batch.sdca import _sweep as kernels

    d, l1, lam, kappa, p = 30, 0.3, 0.1, 5.0, 3.4
    v = np.random.default_rng(0).normal(size=d)
    link, w = kernels.QNorm(l1, 1.0 / (lam * kappa), p, 1.0 / lam, np.array([1.0, 0.0])), np.empty(d)
    kernels.weights(link, v, w)
    q = p / (p - 1.0)
    size = float((np.abs(w) ** q).sum()) ** (1.0 / q)
    pull = v - lam * kappa * size ** (2.0 - q) * np.sign(w) * np.abs(w) ** (q - 1.0)
    zero = w == 0.0
    assert zero.any()
    np.testing.assert_allclose(pull[~zero], l1 * np.sign(w)[~zero], atol=1e-10)
    assert (np.abs(pull[zero]) <= l1).all()


# -- hard data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
def test_odd_columns_and_rows_have_a_valid_gap(loss: str) -> None:
    kind = ps.losses.get(loss)
    odd = np.column_stack([X, np.ones(N), np.zeros(N), X[:, 0]])
    odd[:5] = 0.0
    odd, y = np.vstack([odd, odd[:10]]), np.concatenate([labels(kind), labels(kind)[:10]])
    given = Problem(as_block(odd, y), 7, kind, ps.L2(0.1))
    solution = sdca.solve(given, tol=1e-5, max_epochs=5000)
    assert solution.converged
    assert solution.coef[5] == 0.0
    assert solution.coef[0] == pytest.approx(solution.coef[6], abs=1e-9)
    assert given.primal(solution.coef, solution.intercept) == pytest.approx(solution.primal, rel=1e-12)
    assert dual_point(given, solution.alpha).value == pytest.approx(solution.dual, rel=1e-6)


def test_rows_of_zeros_alone_leave_the_intercept() -> None:
    given = Problem(as_block(np.zeros((4, 2)), [1.0, 2.0, 3.0, 6.0]), 2, ps.squared, ps.L2(1.0))
    solution = sdca.solve(given, tol=1e-10)
    assert solution.converged
    assert solution.intercept == pytest.approx(3.0, abs=1e-4)
    np.testing.assert_array_equal(solution.coef, 0.0)


def test_huge_scales_have_a_valid_gap_or_warn() -> None:
    huge = X * np.array([1e6, 1.0, 1e-6, 1.0])
    given = Problem(as_block(huge, labels(ps.logistic)), D, ps.logistic, ps.L2(1e-3))
    solution = sdca.solve(given, tol=1e-6, max_epochs=50)
    assert not solution.converged
    assert np.isfinite(solution.coef).all()
    assert given.primal(solution.coef, solution.intercept) == pytest.approx(solution.primal, rel=1e-9)
    other = sdca.solve(Problem(as_block(X, labels(ps.logistic)), D, ps.logistic, ps.L2(1e-1)), tol=1e-9)
    small = Problem(as_block(1e-6 * X, labels(ps.logistic)), D, ps.logistic, ps.L2(1e-13))
    tiny = sdca.solve(small, tol=1e-9)
    assert tiny.converged
    assert tiny.primal == pytest.approx(other.primal, rel=1e-8)  # w scales, P does not


@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_threads_keep_the_proof(loss: str) -> None:
    draw = np.random.default_rng(5)
    for d in (6, 3000):  # copies of v, and one v for all
        wide = csr_array(draw.normal(size=(800, d)) * (draw.random((800, d)) < 6 / d))
        y = np.where(wide @ draw.normal(size=d) + 0.3 > 0, 1.0, -1.0)
        given = Problem(as_block(wide, y), d, ps.losses.get(loss), ps.L2(0.01))
        one, two = (sdca.solve(given, tol=1e-5, max_epochs=3000, n_threads=k) for k in (1, 2))
        assert one.converged
        assert two.converged
        assert given.primal(two.coef, two.intercept) == pytest.approx(two.primal, rel=1e-10)
        assert two.primal == pytest.approx(one.primal, rel=2e-5)


def test_memory_is_16_bytes_per_row_and_16_per_feature() -> None:
    n, d = 40_000, 20_000
    draw = np.random.default_rng(0)
    indices = draw.integers(d, size=3 * n).astype(np.int32)
    values = draw.normal(size=3 * n).astype(np.float32)
    matrix = csr_array((values, indices, np.arange(0, 3 * n + 1, 3, dtype=np.int32)), shape=(n, d))
    given = Problem(as_block(matrix, draw.choice([-1.0, 1.0], size=n)), d, ps.logistic, ps.L2(1e-3))
    sdca.solve(given, max_epochs=5, tol=1e-12)
    peaks = []
    for _ in range(3):  # other tests' threads that are still there can only add to a peak
        tracemalloc.start()
        sdca.solve(given, max_epochs=5, tol=1e-12)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert min(peaks) <= 16 * (n + d) + 100_000  # NumPy sums through a buffer of 64 KB


# -- settings ------------------------------------------------------------------------------------


def test_a_warm_start_continues_the_last_run() -> None:
    given = problem("logistic")
    first = sdca.solve(given, tol=1e-8)
    again = sdca.solve(given, tol=1e-8, start=first)
    assert again.history[-1].epoch < first.history[-1].epoch
    assert again.primal == pytest.approx(first.primal, rel=1e-7)


def test_a_weight_of_two_is_two_rows() -> None:
    twice = np.vstack([X, X[:20]])
    y = labels(ps.logistic)
    both = sdca.solve(Problem(as_block(twice, np.concatenate([y, y[:20]])), D, ps.logistic, ps.L2(0.05)), tol=1e-10)
    weighted = sdca.solve(problem("logistic", c=np.where(np.arange(N) < 20, 2.0, 1.0)), tol=1e-10)
    np.testing.assert_allclose(both.coef, weighted.coef, atol=1e-5)


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        (ps.NoPenalty(), "strongly convex"),
        (ps.GroupL2(0.1), "strongly convex"),
        (ps.L2(0.1) + ps.NonNegative(), "strongly convex"),
        (ps.L2([0.0, 1.0, 1.0, 1.0]), "strength > 0 for every weight"),
    ],
)
def test_unsupported_penalties_are_named(penalty: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        sdca.solve(problem("logistic", penalty))


def test_other_refusals() -> None:
    with pytest.raises(TypeError, match="option 'V' is for smooth losses: hinge"):
        sdca.solve(problem("hinge"), rule=Rule("V"))
    with pytest.raises(ValueError, match="sampling must be one of"):
        Rule(sampling="cyclic")
    with pytest.raises(ValueError, match="average_from must be an integer >= 0"):
        Rule(average_from=-1)
    with pytest.raises(TypeError, match="strong_part='q_norm' takes L1 with one strength"):
        sdca.solve(problem("logistic", ps.L1(np.full(D, 0.1))), rule=Rule(strong_part="q_norm"))


def test_the_trace_stops_at_tol() -> None:
    trace = Trace(0.1)
    assert not trace.certify(1, 1.0, 0.5, 3)
    assert trace.certify(2, 0.55, 0.4, 3)
    assert trace.history[-1].dual == 0.5


def test_threads_without_effect_cause_a_warning() -> None:
    given = Problem(as_block(X, labels(ps.logistic)), D, ps.logistic, ps.L2(0.1))
    with pytest.warns(UserWarning, match="n_threads=2 does nothing with output='average'"):
        averaged = sdca.solve(given, tol=1e-3, n_threads=2, rule=sdca.Rule(output="average"))
    assert averaged.converged
    lasso = Problem(as_block(X, labels(ps.logistic)), D, ps.logistic, ps.L1(0.1))
    with pytest.warns(UserWarning, match="n_threads=2 does nothing with strong_part='q_norm'"):
        sdca.solve(lasso, tol=0.1, n_threads=2, rule=sdca.Rule(strong_part="q_norm"))
