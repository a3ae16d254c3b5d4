"""The experiments after Xiao: passes against naive ones, games against theorems, optima against their conditions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxstream as ps
from proxstream.reproduce import Run, accelerated_rda, experiment, rda_mnist, regret
from proxstream.reproduce.accelerated_rda import ACCELERATED, METHODS, PLAIN, problem
from proxstream.reproduce.rda_mnist import passes
from proxstream.reproduce.rda_mnist.passes import RDA_ENHANCED, TOL, Task, optimum, pair

RUN = Run(quick=True, jobs=1)


def drawn(report):
    """Draw every figure of a report; return how many axes each has."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = []
    for figure in report.figures:
        canvas = Figure(figsize=figure.size, layout="constrained")
        figure.draw(canvas)
        FigureCanvasAgg(canvas).draw()
        counts.append(len(canvas.axes))
    return counts


# -- rda-mnist ---------------------------------------------------------------------------------------------------


def naive(method, rows, order, strength, gamma=5000.0):
    """Return last and mean weights, the intercept last, by the formulas of section 6 on dense rows."""
    alpha, T = math.sqrt(2.0 / len(order)) / gamma, len(order)
    X, lam = np.column_stack((rows.X, np.ones(T))), np.full(rows.X.shape[1] + 1, strength)
    lam[-1] = 0.0
    w, mean_g, total = np.zeros(len(lam)), np.zeros(len(lam)), np.zeros(len(lam))
    for t, i in enumerate(order, 1):
        total += w
        g = -rows.y[i] * X[i] / (1.0 + math.exp(rows.y[i] * (X[i] @ w)))
        if method.startswith("RDA"):
            mean_g = (t - 1) / t * mean_g + g / t
            extra = 25.0 / math.sqrt(t) if method == RDA_ENHANCED else 0.0
            threshold = np.where(np.arange(len(lam)) < len(lam) - 1, lam + extra, 0.0)
            w = np.where(
                np.abs(mean_g) <= threshold, 0.0, -math.sqrt(t) / gamma * (mean_g - threshold * np.sign(mean_g))
            )
        elif method == "SGD":
            w = w - alpha * (g + lam * np.sign(w))
        else:
            every = int(method.rpartition("=")[2])
            w = w - alpha * g
            if t % every == 0:
                threshold = alpha * lam * every
                w = np.where(np.abs(w) <= threshold, 0.0, w - threshold * np.sign(w))
    return w, total / T


@pytest.mark.parametrize("method", passes.METHODS)
def test_a_pass_is_the_formula_of_the_paper(method):
    task = Task(RUN, (6, 7), method, 1.0, orders=range(2))
    rows = task.pair()
    for number, (last, mean) in enumerate(passes.weights(task)):
        expected_last, expected_mean = naive(method, rows, task.order(number, len(rows.y)), 1.0)
        np.testing.assert_allclose(np.append(*last), expected_last, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(np.append(*mean), expected_mean, rtol=1e-9, atol=1e-14)
        if method.startswith("RDA"):
            np.testing.assert_array_equal(last.coef != 0.0, expected_last[:-1] != 0.0)


@pytest.mark.interpreted
@pytest.mark.default_cases(1)
@pytest.mark.parametrize("method", ["SGD", "TG, K=10", "TG, K=1"])
def test_side_by_side_is_what_the_library_learns_one_by_one(method):
    task = Task(RUN, (3, 8), method, 3.0, orders=range(3))
    rows = task.pair()
    one = passes.algorithm(method, len(rows.y))
    for number, together in enumerate(passes.weights(task)):
        alone = passes.learned(one, 3.0, rows.rows(task.order(number, len(rows.y))), rows.X.shape[1])
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(np.append(*a), np.append(*b), rtol=1e-9, atol=1e-14)


@pytest.mark.exhaustive
def test_a_trace_ends_where_the_pass_ends():
    for method in ("SGD", "TG, K=10", RDA_ENHANCED):
        task = Task(RUN, (6, 7), method, 10.0)
        counts = passes.trace(task)
        assert len(counts) == len(task.pair().y)
        assert counts[-1] == passes.nonzeros(method, passes.weights(task)[0][0].coef)


def test_orders_are_shared_by_methods_and_parts_cut_all_rows():
    sgd, rda = Task(RUN, (6, 7), "SGD", 0.1), Task(RUN, (6, 7), RDA_ENHANCED, 10.0, gamma=1000.0)
    np.testing.assert_array_equal(sgd.order(3, 50), rda.order(3, 50))
    assert (sgd.order(3, 50) != sgd.order(4, 50)).any()
    parts = [Task(RUN, (3, 8), "SGD", 0.1, part=(k, 4)).pair() for k in range(4)]
    whole = pair(None, 3, 8)
    together = np.concatenate([part.X for part in parts])
    assert sorted(map(bytes, together)) == sorted(map(bytes, whole.X))
    assert all(part.X_test is whole.X_test for part in parts)


@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_the_optimum_meets_its_conditions(strength):
    task = Task(RUN, (3, 8), "optimum", strength)
    rows, found = task.pair(), optimum(task)
    assert 0.0 <= found.gap <= TOL
    coef, intercept = found.weights
    # The weights alone, without the solver's dual variables, prove a little less.
    assert 0.0 <= ps.certificate((coef, intercept), rows.X, rows.y, "logistic", ps.L1(strength)).gap < 1e-3
    slopes = -rows.y / (1.0 + np.exp(rows.y * (rows.X @ coef + intercept)))
    gradient = slopes @ rows.X / len(rows.y)
    used = coef != 0.0
    assert used.sum() == found.nnz > 0
    np.testing.assert_allclose(gradient[used], -strength * np.sign(coef[used]), atol=0.01 * strength)
    assert np.abs(gradient[~used]).max() <= 1.01 * strength


def test_beyond_the_strongest_penalty_no_weight_is_left():
    strongest = pair(None, 3, 8).strongest()
    assert optimum(Task(RUN, (3, 8), "optimum", 1.001 * strongest)).nnz == 0
    assert optimum(Task(RUN, (3, 8), "optimum", 0.98 * strongest)).nnz > 0


@pytest.mark.exhaustive
def test_the_quick_version_shows_what_section_6_is_about():
    found = rda_mnist.find(RUN)
    report = rda_mnist.report(RUN, found)
    for lam in found.plan.strengths:
        counts = {method: found.tradeoffs[method, lam][:, 1].mean() for method in passes.METHODS}
        assert counts[RDA_ENHANCED] < counts["RDA, ρ=0"] < min(counts["SGD"], counts["TG, K=1"], counts["TG, K=10"])
    assert len(report.figures) == 7
    assert drawn(report)[0] == 7 * len(found.plan.strengths)  # Figure 2: three methods twice, and the optimum
    agreed = {claim.claim: claim.agrees for claim in report.claims}
    assert any(agreed[text] for text in agreed if text.startswith("RDA's last weights are sparser"))
    assert any(agreed[text] for text in agreed if text.startswith("TG's number of non-zeros swings"))


# -- regret ------------------------------------------------------------------------------------------------------

GAMES = [(name, player) for name, game in regret.GAMES.items() for player in game.algorithms]


@pytest.fixture(scope="module")
def courses():
    return {key: regret.play((RUN, *key, 64)) for key in GAMES}


def test_no_regret_is_above_its_bound(courses):
    for key, course in courses.items():
        assert not course.theorem.startswith("none"), key
        assert (course.linearized <= course.bound).all(), key
        assert (course.regret <= course.linearized + 1e-9).all(), key
        assert course.closest <= 1.0, key


def test_the_adversary_forces_the_root_of_t_on_everyone(courses):
    for player in regret.GAMES["adversary"].algorithms:
        course = courses["adversary", player]
        np.testing.assert_allclose(course.regret, np.sqrt(course.horizons), rtol=1e-9)
        assert course.slope == pytest.approx(0.5)


@pytest.mark.parametrize("opponent", [regret.CoinFlips, regret.Logistic, regret.SupportVectors])
def test_no_point_beats_the_best_one_in_hindsight(opponent):
    rng = np.random.default_rng(0)
    against = opponent(rng)
    rounds = [against.answer(np.zeros(regret.DIM))[0] for _ in range(60)]
    best = against.best()

    def total(x):
        return sum(f(x) for f in rounds) + len(rounds) * against.penalty.value(x)

    for scale in (0.01, 0.1, 1.0):
        for _ in range(50):
            assert total(best) <= total(best + scale * rng.normal(size=regret.DIM)) + 1e-5


@pytest.mark.exhaustive
def test_regret_reports_every_game():
    report = experiment("regret").perform(RUN)
    assert sum(len(table.rows) for table in report.tables) == len(GAMES)
    assert drawn(report) == [8, 8, 8, 4]
    assert report.claims[0].agrees is True
    assert report.claims[1].agrees is True


# -- accelerated-rda ---------------------------------------------------------------------------------------------


def test_the_constants_are_what_they_are_called():
    here = problem(RUN)
    rng = np.random.default_rng(0)
    zero, everything = np.zeros(here.X.shape[1]), slice(None)
    each = np.array([here.gradient(zero, np.array([i])) for i in range(len(here.y))])
    variance = np.mean(np.sum((each - each.mean(axis=0)) ** 2, axis=1))
    assert variance * (1.0 - 1e-9) <= here.Q**2
    for _ in range(20):
        v, w = rng.normal(size=(2, here.X.shape[1]))
        moved = np.linalg.norm(here.gradient(v, everything) - here.gradient(w, everything))
        assert moved <= here.L * np.linalg.norm(v - w)
    assert here.objective(here.optimum) == pytest.approx(here.best, rel=1e-12)
    assert pytest.approx(0.5 * here.optimum @ here.optimum) == here.D**2


def test_exact_gradients_follow_algorithm_3():
    here, steps = problem(RUN), 16
    made = accelerated_rda.course(accelerated_rda.Task(RUN, ACCELERATED, None, 1.0, 0, steps))
    w = v = np.zeros(here.X.shape[1])
    A, weighted = 0.0, np.zeros_like(w)
    for t in range(1, steps + 1):
        alpha = t / 2.0
        A += alpha
        theta = alpha / A
        weighted = (1.0 - theta) * weighted + theta * here.gradient((1.0 - theta) * w + theta * v, slice(None))
        v = -A / here.L * np.sign(weighted) * np.maximum(np.abs(weighted) - accelerated_rda.STRENGTH, 0.0)
        w = (1.0 - theta) * w + theta * v
    assert made.gap[-1] == pytest.approx(here.objective(w) - here.best, rel=1e-9)
    assert made.inner_nnz == np.count_nonzero(v)


@pytest.fixture(scope="module")
def found():
    return accelerated_rda.find(RUN)


@pytest.mark.exhaustive
def test_gaps_lie_between_the_certificate_and_the_bound(found):
    for (method, batch), made in found.theory.items():
        assert (made.gap >= -found.problem.certified).all()
        assert (made.gap <= found.problem.bound(method, batch, made.t)).all()
        tuned = accelerated_rda.at(found.tuned[method, batch], found.sizes.rows, batch)
        assert tuned <= accelerated_rda.at(made, found.sizes.rows, batch)
    exact = {method: found.theory[method, None].gap[-1] for method in METHODS}
    assert exact[ACCELERATED] < exact[PLAIN]


@pytest.mark.exhaustive
def test_accelerated_rda_reports_every_minibatch(found):
    report = accelerated_rda.report(RUN, found)
    assert len(report.tables[1].rows) == len(METHODS) * (len(accelerated_rda.QUICK.batches) + 1)
    assert drawn(report) == [6, 2]
    assert report.claims[0].agrees is True
