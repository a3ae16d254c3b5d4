"""CoCoA+: the mathematics in this process on lists of blocks, then real workers, one of which is killed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin
from hypothesis import given, strategies as st
from sklearn.exceptions import ConvergenceWarning

import proxstream as ps
from proxstream.batch import Problem, dual_point, sdca
from proxstream.cluster import DaskSDCAClassifier, DaskSDCARegressor, cocoa
from proxstream.cluster.cocoa import Command, Job, Point
from proxstream.cluster.cocoa_run import LocalEngine, Progress, Run
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.training.checkpoint import SettingsChangedError

from ..examples import examples

rng = np.random.default_rng(0)
N, D = 240, 12
X = rng.normal(size=(N, D)) * rng.choice([0.0, 1.0], size=(N, D), p=[0.5, 0.5])
SCORE = X @ (rng.normal(size=D) * (np.arange(D) < 6)) + 0.5 + rng.normal(size=N)
SIGNS = np.where(SCORE > 0.0, 1.0, -1.0)
C = rng.uniform(0.2, 2.0, N)


def cut(rows: RowBlock, k: int) -> list[RowBlock]:
    edges = np.linspace(0, rows.n_rows, k + 1).astype(int)
    return [rows.slice(a, b) for a, b in pairwise(edges)]


def posed(loss: str, penalty: Any, fit_intercept: bool = True, c: Any = C) -> Problem:
    kind = ps.losses.get(loss)
    return Problem(as_block(X, SIGNS if kind.kind == "binary" else SCORE, c), D, kind, penalty, fit_intercept)


def run_of(problem: Problem, k: int, **options: Any) -> Run:
    blocks = cut(problem.rows, k)
    sums = cocoa.add_sums([cocoa.data_sums(block) for block in blocks])
    job = Job(problem.loss, problem.penalty, D, problem.fit_intercept, sums.total, k)
    return Run(LocalEngine(), job, blocks, sums, **options)


# -- the mathematics -----------------------------------------------------------------------------


@examples(50)
@given(st.integers(1, 9), st.sampled_from([0.0, 0.3]), st.integers(0, 2**32 - 1))
def test_shares_of_the_penalty_bound_what_is_added(k: int, l1: float, seed: int) -> None:
    """The safe bound Psi*(sum z) <= sum (Psi/K)*(z), and equality where a round begins."""

    def conjugate(z: Any, share: float) -> float:
        return float(np.sum(np.maximum(np.abs(z) - share * l1, 0.0) ** 2) / (2.0 * share * 0.7))

    draw = np.random.default_rng(seed)
    v, changes = draw.normal(size=5), draw.normal(size=(k, 5)) * draw.choice([0.01, 1.0, 100.0])
    bound = sum(conjugate(v / k + change, 1.0 / k) for change in changes)
    assert conjugate(v + changes.sum(axis=0), 1.0) <= bound * (1.0 + 1e-12) + 1e-12
    assert sum(conjugate(v / k, 1.0 / k) for _ in range(k)) == pytest.approx(conjugate(v, 1.0), abs=1e-12)


def rounds_without_momentum(problem: Problem, blocks: list[RowBlock], share: int, rounds: int) -> list[float]:
    """Return D after each round, computed from the alphas alone."""
    sums = cocoa.add_sums([cocoa.data_sums(block) for block in blocks])
    job = Job(problem.loss, problem.penalty, D, False, sums.total, share)
    steps = [cocoa.begin(job, block)[0] for block in blocks]
    values = []
    for r in range(rounds):
        pull = sum(step.local.pull for step in steps)
        command = Command(r, 0.0, 0.0, 0.0, None, 0.0, (0.0,), (1.0, 1.0))
        steps = [
            cocoa.advance(job, k, block, step, Point(pull, 0.0 * pull), command)
            for k, (block, step) in enumerate(zip(blocks, steps, strict=True))
        ]
        alpha = np.concatenate([step.local.alpha for step in steps])
        values.append(dual_value(problem, alpha))
    return values


def dual_value(problem: Problem, alpha: Any) -> float:
    terms = problem.penalty.terms((D,))
    v = problem.rows.times(np.eye(D)).T @ (problem.shares * alpha)
    conjugate = np.sum(np.maximum(np.abs(v) - terms.l1, 0.0) ** 2 / (2.0 * np.asarray(terms.l2)))
    return float(-problem.shares @ problem.loss.conjugate(-alpha, problem.rows.y) - conjugate)


@pytest.mark.interpreted
@pytest.mark.default_cases(1)
@pytest.mark.parametrize(
    ("loss", "penalty"),
    [("logistic", ps.L2(0.01)), ("logistic", ps.ElasticNet(0.02, 0.01)), ("hinge", ps.L2(0.01))],
)
def test_the_dual_never_falls_with_the_safe_bound(loss: str, penalty: Any) -> None:
    problem = posed(loss, penalty, False)
    values = rounds_without_momentum(problem, cut(problem.rows, 6), 6, 15)
    start = dual_value(problem, np.zeros(N))
    assert all(b >= a - 1e-12 for a, b in pairwise([start, *values]))


@pytest.mark.exhaustive
def test_the_dual_falls_if_partitions_do_not_share_the_penalty() -> None:
    """What the bound is for: six copies of the same rows, each taking the whole penalty for itself, overshoot."""
    dense, y = np.tile(X[:40], (6, 1)), np.tile(SIGNS[:40], 6)
    problem = Problem(as_block(dense, y), D, ps.logistic, ps.L2(1e-3), False)
    blocks = cut(problem.rows, 6)
    assert min(np.diff(rounds_without_momentum(problem, blocks, 1, 8))) < -1e-3
    assert min(np.diff(rounds_without_momentum(problem, blocks, 6, 8))) >= -1e-12


@pytest.mark.interpreted
def test_a_partition_solves_its_own_problem_exactly() -> None:
    """Squared loss: the maximizer of a partition's problem solves (I + K X X' P / l2) alpha = y - X v / l2."""
    problem = posed("squared", ps.L2(0.1), False)
    block = cut(problem.rows, 4)[1]
    job = Job(problem.loss, problem.penalty, D, False, float(C.sum()), 4, local_epochs=60)
    v = rng.normal(size=D) * 0.1
    begun = cocoa.begin(job, block)[0]
    command = Command(0, 0.0, 0.0, 0.0, None, 0.0, (0.0,), (1.0, 1.0))
    alpha = cocoa.advance(job, 1, block, begun, Point(np.append(v, 0.0), np.zeros(D + 1)), command).local.alpha
    dense, shares = block.times(np.eye(D)), block.c / C.sum()
    system = np.eye(len(alpha)) + 4.0 * (dense @ dense.T) * shares / 0.1
    np.testing.assert_allclose(alpha, np.linalg.solve(system, block.y - dense @ v / 0.1), atol=1e-6)


PENALTIES = [(ps.L2(0.01), 1e-6), (ps.ElasticNet(0.02, 0.01), 1e-6), (ps.L1(0.02), 1e-3)]


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("penalty", "tol"), PENALTIES)
@pytest.mark.parametrize("k", [1, 3])
def test_the_optimum_is_that_of_the_local_solver(penalty: Any, tol: float, k: int, fit_intercept: bool) -> None:
    problem = posed("logistic", penalty, fit_intercept)
    found = run_of(problem, k, tol=tol).solve()
    last = found.history[-1]
    assert found.converged
    assert 0.0 <= last.gap <= tol * last.primal
    local = sdca.solve(problem, tol=tol)
    assert abs(last.primal - local.primal) <= tol * (last.primal + local.primal)
    # The certificate is true: both values, recomputed from the weights and from the alphas.
    assert problem.primal(found.coef, found.intercept) == pytest.approx(last.primal, rel=1e-12)
    alpha = np.concatenate(found.alphas)
    assert dual_point(problem, alpha, search=False).value == pytest.approx(
        found.history[-1].dual, abs=tol * last.primal
    )
    assert abs(problem.shares @ alpha) <= 1e-14 or not fit_intercept
    assert found.intercept == 0.0 or fit_intercept


@pytest.mark.interpreted
@pytest.mark.default_cases(1)
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_other_losses_reach_tol(loss: str) -> None:
    problem = posed(loss, ps.L2(0.05))
    found = run_of(problem, 4, tol=1e-4).solve()
    assert found.converged
    assert found.history[-1].primal == pytest.approx(sdca.solve(problem, tol=1e-6).primal, rel=1.1e-4)
    duals = [record.dual for record in found.history]
    assert duals == sorted(duals)


@pytest.mark.interpreted
def test_strengths_and_starts_of_l1_by_a_q_norm() -> None:
    problem = posed("logistic", ps.L1(0.05))
    run = run_of(problem, 2, tol=1e-2)
    run.job = replace(run.job, strong_part="q_norm")
    found = Run(LocalEngine(), run.job, run.blocks, run.sums, tol=1e-2).solve()
    assert found.converged
    assert found.history[-1].primal == pytest.approx(sdca.solve(problem, tol=1e-4).primal, rel=1.1e-2)


def test_a_run_goes_on_from_what_was_kept_to_the_same_bits() -> None:
    for penalty, tol in (PENALTIES[0], PENALTIES[2]):
        problem, saved = posed("logistic", penalty), []

        def save(progress: Progress, history: Any, alphas: Any, saved: Any = saved) -> None:
            saved.append((Progress.of_array(progress.as_array()), list(history), alphas))

        whole = run_of(problem, 3, tol=tol, save=save, save_every=4).solve()
        plain = run_of(problem, 3, tol=tol).solve()
        again = run_of(problem, 3, tol=tol).solve(saved[1])
        for other in (plain, again):
            np.testing.assert_array_equal(other.coef, whole.coef)
            assert other.intercept == whole.intercept
            assert [r[2:] for r in other.history] == [r[2:] for r in whole.history]


# -- workers -------------------------------------------------------------------------------------


def dask_rows(y: Any = SIGNS, chunk: int = 40) -> tuple[Any, Any, Any]:
    return da.from_array(X, chunks=(chunk, D)), da.from_array(y, chunks=chunk), da.from_array(C, chunks=chunk)


@pytest.mark.exhaustive
def test_workers_do_what_this_process_does(client: Client) -> None:
    model = DaskSDCAClassifier(penalty=ps.L2(0.01), tol=1e-6, client=client, n_blocks=3, random_state=7)
    model.fit(*dask_rows(), classes=[-1.0, 1.0])
    run = run_of(posed("logistic", ps.L2(0.01)), 3, tol=1e-6)
    run.job = replace(run.job, seed=model._seed())
    here = Run(LocalEngine(), run.job, run.blocks, run.sums, tol=1e-6).solve()
    np.testing.assert_array_equal(model.coef_[0], here.coef)
    np.testing.assert_array_equal(model.dual_coef_.compute(), np.concatenate(here.alphas))
    assert model.intercept_[0] == here.intercept
    assert model.n_iter_ == model.history_[-1].epoch == len(model.history_) - 1
    assert model.history_[0].bytes == 8 * 3 * (2 * D + 2 * (D + 1))
    assert model.duality_gap_ == model.primal_ - model.dual_ <= 1e-6 * model.primal_
    proof = ps.certificate(model.to_local(), X, SIGNS, sample_weight=C)
    assert proof.primal == pytest.approx(model.primal_, rel=1e-12)
    assert proof.gap <= 1.01 * model.duality_gap_ + 1e-12
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        said = getattr(model, method)(dask_rows()[0])
        np.testing.assert_array_equal(said.compute(), getattr(model, method)(X))
    assert model.score(*dask_rows()) == model.score(X, SIGNS, C)


@pytest.mark.exhaustive
def test_numbers_from_files_and_classes_against_the_rest(client: Client, tmp_path: Any) -> None:
    from sklearn.datasets import dump_svmlight_file

    for i, rows in enumerate(np.array_split(np.arange(N), 3)):
        dump_svmlight_file(X[rows], SCORE[rows], str(tmp_path / f"{i}.svm"))
    model = DaskSDCARegressor(penalty=ps.L2(0.1), client=client, random_state=0)
    model.fit(str(tmp_path / "*.svm"), dtype=np.float64)
    local = ps.SDCARegressor(penalty=ps.L2(0.1), tol=1e-6).fit(X, SCORE)
    assert model.primal_ == pytest.approx(local.primal_, rel=1.1e-4)
    np.testing.assert_allclose(model.predict(X), local.predict(X), atol=0.05)

    y = np.array(["a", "b", "c"])[np.digitize(SCORE, [-0.5, 1.0])]
    options: dict[str, Any] = {"penalty": ps.L2(0.05), "multi_class": "one_vs_rest", "class_weight": "balanced"}
    several = DaskSDCAClassifier(client=client, random_state=0, **options).fit(*dask_rows(y))
    expected = ps.SDCAClassifier(tol=1e-6, **options).fit(X, y, sample_weight=C)
    assert several.classes_.tolist() == ["a", "b", "c"]
    assert several.primal_ == pytest.approx(expected.primal_, rel=2e-4)
    assert several.dual_coef_.shape == (N, 3)
    assert np.mean(several.predict(X) == expected.predict(X)) > 0.98
    with pytest.raises(ValueError, match="multi_class='one_vs_rest'"):
        DaskSDCAClassifier(client=client).fit(*dask_rows(y))


class KillAt(SchedulerPlugin):  # type: ignore[misc]
    """Kill a process at the n-th step that any worker has finished, however fast or slow they are."""

    def __init__(self, process: int, n: int) -> None:
        self.process, self.n, self.steps = process, n, set[str]()

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        if finish != "memory" or "advance" not in str(key) or key in self.steps:
            return
        self.steps.add(key)
        if len(self.steps) == self.n:
            os.kill(self.process, signal.SIGKILL)


@pytest.mark.exhaustive
@pytest.mark.parametrize("every", [4, None])
def test_a_killed_worker_changes_nothing(
    client: Client, cluster: LocalCluster, tmp_path: Any, every: int | None
) -> None:
    """Dask goes back to the beginning, or to the last checkpoint, whose alphas are in the tasks themselves."""
    options: dict[str, Any] = {"penalty": ps.L2(1e-3), "tol": 1e-5, "n_blocks": 2, "random_state": 0}
    expected = DaskSDCAClassifier(client=client, **options).fit(*dask_rows())
    assert expected.n_iter_ > 30
    victim = next(iter(client.run(os.getpid).values()))
    killer = KillAt(victim, 20)
    cluster.scheduler.add_plugin(killer, name="kill")
    if every is not None:
        options |= {"checkpoint": tmp_path / "run.ckpt", "checkpoint_every": every}
    model = DaskSDCAClassifier(client=client, **options).fit(*dask_rows())
    cluster.scheduler.remove_plugin("kill")
    assert len(killer.steps) > 20
    assert victim not in client.run(os.getpid).values()
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert [r[2:] for r in model.history_] == [r[2:] for r in expected.history_]


@pytest.mark.exhaustive
def test_a_stopped_run_is_resumed_by_another_client(cluster: LocalCluster, tmp_path: Any) -> None:
    options: dict[str, Any] = {"penalty": ps.L2(0.01), "tol": 1e-5, "n_blocks": 2, "checkpoint": tmp_path / "run.ckpt"}
    with Client(cluster) as first:
        whole = DaskSDCAClassifier(client=first, random_state=3, checkpoint_every=4, **options).fit(*dask_rows())
        assert not (tmp_path / "run.ckpt").exists()
        stopped = DaskSDCAClassifier(client=first, random_state=3, checkpoint_every=4, max_epochs=6, **options)
        with pytest.warns(ConvergenceWarning, match="stopped after 6 epochs"):
            stopped.fit(*dask_rows())
    assert (tmp_path / "run.ckpt").exists()
    with Client(cluster) as second:
        with pytest.raises(SettingsChangedError, match="was written with fit_intercept True, this run has False"):
            DaskSDCAClassifier(client=second, random_state=3, fit_intercept=False, **options).fit(*dask_rows())
        again = DaskSDCAClassifier(client=second, random_state=3, checkpoint_every=4, **options).fit(*dask_rows())
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    assert [r[2:] for r in again.history_] == [r[2:] for r in whole.history_]
    assert not (tmp_path / "run.ckpt").exists()


def test_refusals_name_the_place(client: Client) -> None:
    with pytest.raises(ValueError, match="local_epochs must be an integer >= 1, got 0"):
        DaskSDCAClassifier(client=client, local_epochs=0).fit(*dask_rows())
    with pytest.raises(TypeError, match="strongly convex"):
        DaskSDCAClassifier(client=client, penalty=ps.NoPenalty()).fit(*dask_rows())
    with pytest.raises(ValueError, match="at least 2 classes"):
        DaskSDCAClassifier(client=client).fit(*dask_rows(np.ones(N)))
    with pytest.raises(ValueError, match="whose weight is not zero"):
        DaskSDCARegressor(client=client).fit(*dask_rows(SCORE)[:2], da.zeros(N, chunks=40))


@pytest.mark.exhaustive
def test_columns_and_labels_far_from_zero(client: Client) -> None:
    """Partitions run in coordinates near zero, and the intercept comes back."""
    rows = da.from_array(X + 1e5, chunks=(80, D)), da.from_array(SCORE + 1e6, chunks=80)
    model = DaskSDCARegressor(penalty=ps.L2(0.1), client=client, random_state=0, tol=1e-6).fit(*rows)
    local = ps.SDCARegressor(penalty=ps.L2(0.1), tol=1e-9).fit(X, SCORE)
    assert model.primal_ == pytest.approx(local.primal_, rel=2e-6)
    np.testing.assert_allclose(model.predict(X + 1e5), local.predict(X) + 1e6, atol=5e-3)
    assert ps.certificate(model.to_local(), X + 1e5, SCORE + 1e6).gap <= 2e-6 * local.primal_


@pytest.mark.exhaustive
def test_workers_do_not_matter(client: Client, cluster: LocalCluster) -> None:
    """Four processes prove what two did, to the bit."""
    options: dict[str, Any] = {"penalty": ps.ElasticNet(0.01, 0.01), "tol": 1e-2, "n_blocks": 4, "random_state": 0}
    two = DaskSDCAClassifier(client=client, **options).fit(*dask_rows())
    cluster.scale(4)
    try:
        client.wait_for_workers(4)
        four = DaskSDCAClassifier(client=client, **options).fit(*dask_rows())
        assert len(client.nthreads()) == 4
    finally:
        cluster.scale(2)
    np.testing.assert_array_equal(four.coef_, two.coef_)
    assert [r[2:] for r in four.history_] == [r[2:] for r in two.history_]


@pytest.mark.exhaustive
def test_more_rows_than_a_worker_has_memory_for() -> None:
    """Blocks that are not worked on go to the worker's disk; the proof is that of all rows."""
    parts, rows, columns, limit = 12, 70_000, 100, 600 << 20

    def made(k: int) -> tuple[Any, Any]:
        own = np.random.default_rng(k)
        x = own.standard_normal((rows, columns), dtype=np.float32)
        return x, np.where(x[:, 0] + own.logistic(size=rows) > 0.0, 1, 0)

    assert parts * rows * columns * 8 > limit  # an index and a value each
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, memory_limit=limit, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        before = set(client.run(os.getpid).values())
        model = DaskSDCAClassifier(penalty=ps.L2(0.1), tol=0.1, n_blocks=parts, client=client, random_state=0)
        model.fit([delayed(made)(k) for k in range(parts)])
        assert set(client.run(os.getpid).values()) == before  # it was not killed for its memory
        assert model.dual_coef_.shape == (parts * rows,)
    assert model.duality_gap_ <= 0.1 * model.primal_
    assert np.argmax(np.abs(model.coef_)) == 0
