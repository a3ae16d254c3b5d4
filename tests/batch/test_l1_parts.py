"""The parts of the l1 solver, each against its definition: factors, Gram matrices, lines, faces, screening."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csc_array, csr_array, random_array

import proxstream as ps
from proxstream.batch import Problem
from proxstream.batch.l1 import _csc as columns_kernels, face, gram, solve, survivors, sweeps
from proxstream.batch.l1._csc import Columns, by_rows
from proxstream.batch.l1._kernels import add_gram, lowest
from proxstream.batch.l1.face import Factors, Plan
from proxstream.batch.l1.point import Point, Proof, Strengths
from proxstream.core import losses
from proxstream.data.rowblock import as_block
from proxstream.data.threads import Threads

from ..examples import examples
from . import naive_l1
from .test_l1 import LOSSES, data

pytestmark = pytest.mark.interpreted


def by_columns(X: Any) -> Columns:
    X = csc_array(X)
    return Columns(X.indptr.astype(np.int64), X.indices.astype(np.uint32), X.data)


def point(X: Any, y: Any, w: Any, l1: Any, l2: Any = 0.0, loss: losses.Loss = losses.logistic) -> Point:
    problem = Problem(as_block(X, y), X.shape[1], loss, ps.ElasticNet(l1, l2), fit_intercept=False)
    psi = Strengths(*(np.broadcast_to(strength, X.shape[1]).astype(float) for strength in (l1, l2)))
    at = Point(problem, by_columns(X), psi, np.asarray(w, float))
    at.refresh()
    return at


def text(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows of a few rare and some frequent features; two columns alike, and one nearly so."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, d))
    for i in range(n):
        X[i, np.unique((d * rng.random(6) ** 3).astype(int))] = 1.0
    X[:, 1] = X[:, 0]
    X[:-1, 2] = X[:-1, 0]
    y = np.where(X @ (3.0 * rng.standard_normal(d)) + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return X, y


# -- columns -------------------------------------------------------------------------------------


def test_columns_are_gathered_from_rows_in_any_order() -> None:
    X = random_array((30, 20), density=0.3, rng=np.random.default_rng(0)).tocsr()
    for i in range(30):  # turn the rows around
        row = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[row], X.data[row] = X.indices[row][::-1].copy(), X.data[row][::-1].copy()
    kept = np.array([3, 4, 11, 19])
    ranges = [(0, 13), (13, 30)]
    counts = [np.count_nonzero(X.toarray()[first:last, kept], axis=0) for first, last in ranges]
    with Threads(2) as threads:
        parts = columns_kernels.Parts(ranges, threads.each, counts)
        made = columns_kernels.gather(as_block(X), kept, parts, 20, ones=True)
    dense = csc_array((made.val, made.idx, made.ptr), shape=(30, 5)).toarray()
    assert np.array_equal(dense, np.hstack((X.toarray()[:, kept], np.ones((30, 1)))))
    rows = by_rows(made, np.array([4, 1, 0]), 30)
    assert np.array_equal(csr_array((rows.data, rows.indices, rows.indptr)).toarray(), dense[:, [4, 1, 0]])
    assert all(np.all(np.diff(rows.indices[a:b].astype(int)) > 0) for a, b in pairwise(rows.indptr))


@pytest.mark.parametrize("loss", [losses.logistic, losses.huber(0.5)], ids=str)
def test_no_slopes_move_a_dropped_column_across_its_threshold(loss: losses.Loss) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 60)) * (rng.random((40, 60)) < 0.1), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    problem = Problem(as_block(X, y), 60, loss, ps.L1(0.05), fit_intercept=False)
    kept, parts = survivors(problem, Strengths(np.full(60, 0.05), np.zeros(60)))
    out = np.setdiff1d(np.arange(60), kept)
    assert 5 < len(out) < 55
    assert np.array_equal(sum(parts.counts), np.count_nonzero(X[:, kept], axis=0))
    for _ in range(200):
        theta = loss.slope(5.0 * rng.standard_normal(40), y) / 40
        assert np.all(np.abs(X[:, out].T @ theta) <= 0.05)


# -- factors -------------------------------------------------------------------------------------


@pytest.mark.default_cases(1)
@pytest.mark.parametrize(("n", "d", "sparse"), [(300, 40, False), (300, 400, True)])
def test_factors_solve_with_all_columns_and_with_some_left(n: int, d: int, sparse: bool) -> None:
    X, y = text(n, d)
    rng = np.random.default_rng(1)
    at = point(X, y, np.zeros(d), 0.01, rng.random(d) * 0.01 + 1e-3)
    F = np.flatnonzero(X.any(axis=0))
    rows = by_rows(at.columns, F, n)
    plan = Plan(rows, len(F))
    assert plan.sparse == sparse
    assert (plan.eliminated > 0) == sparse
    assert np.array_equal(np.sort(plan.order), np.arange(len(F)))
    factors = Factors(at, F, rows, at.D, plan)
    J = factors.columns
    H = X[:, J].T @ (at.D[:, None] * X[:, J]) + np.diag(at.psi.l2[J])
    b = rng.standard_normal((len(J), 3))
    assert factors.solve(b) == pytest.approx(np.linalg.solve(H, b), rel=1e-4, abs=1e-5)
    assert factors.solve(b[:, 0]) == pytest.approx(factors.solve(b)[:, 0])
    for left in (np.array([1, 5, 7]), np.array([5, 8]), np.array([], dtype=int)):
        factors.leave(left)
        stay = np.setdiff1d(np.arange(len(J)), left)
        x = factors.solve_rest(np.where(np.isin(np.arange(len(J)), stay), b[:, 0], 0.0))
        assert x[stay] == pytest.approx(np.linalg.solve(H[np.ix_(stay, stay)], b[stay, 0]), rel=1e-4, abs=1e-5)
        assert not x[left].any()


@pytest.mark.exhaustive
def test_factors_of_columns_that_depend_on_one_another_solve_what_can_be_solved() -> None:
    X, y = text(300, 400)
    at = point(X, y, np.zeros(400), 0.01)
    F = np.flatnonzero(X.any(axis=0))
    rows = by_rows(at.columns, F, 300)
    factors = Factors(at, F, rows, at.D, Plan(rows, len(F)))
    H = X[:, factors.columns].T @ (at.D[:, None] * X[:, factors.columns])
    b = H @ np.random.default_rng(0).standard_normal(len(F))
    assert H @ factors.solve(b) == pytest.approx(b, abs=1e-5 * np.abs(b).max())


# -- Gram matrices -------------------------------------------------------------------------------


def test_gram_matrix_grows_by_columns_and_by_rows() -> None:
    X, _ = text(80, 30)
    columns, c = by_columns(X), np.random.default_rng(0).standard_normal(80)
    chosen = np.array([7, 3, 20, 0, 1])
    H = np.zeros((5, 5))
    add_gram(columns, chosen[:2], by_rows(columns, chosen[:2], 80), c, np.arange(2), H[:2, :2])
    add_gram(columns, chosen, by_rows(columns, chosen, 80), c, np.arange(2, len(chosen)), H)
    assert X[:, chosen].T @ (c[:, None] * X[:, chosen]) == pytest.approx(H)


@pytest.mark.parametrize("dense", [False, True])
def test_gram_matrix_follows_the_curvature(dense: bool) -> None:
    X, y = text(200, 30)
    at = point(X, y, np.zeros(30), 0.01)
    S = np.flatnonzero(X.any(axis=0))
    made = gram.Gram(at, S[:10])
    made.extend(S[10:])
    made.dense = dense
    for _ in range(3):
        at.w[:] = np.random.default_rng(0).standard_normal(30)
        at.refresh()
        made._update(at.D)
        assert X[:, S].T @ (made.D[:, None] * X[:, S]) == pytest.approx(made.H, rel=1e-5, abs=1e-7)
        assert np.all(np.abs(made.D - at.D) <= 0.1501 * at.D / 0.85)


@examples(60)
@given(st.integers(0, 2**31))
def test_quadratic_problem_on_dependent_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, 9))
    A[:, 4], A[:, 8] = A[:, 3], A[:, :3].sum(axis=1)
    H, g, w = A.T @ A, A.T @ rng.standard_normal(12) * 5.0, rng.standard_normal(9) * (rng.random(9) < 0.6)
    psi = Strengths(rng.random(9), np.where(rng.random(9) < 0.3, 0.5, 0.0))
    u = gram.minimize(H, H.diagonal().copy(), g, w, psi, 1e-9)
    slope = g + H @ (u - w) + psi.l2 * u
    far = np.where(u == 0.0, np.maximum(np.abs(slope) - psi.l1, 0.0), np.abs(slope + psi.l1 * np.sign(u)))
    assert far.sum() <= 1e-6


# -- lines and faces -----------------------------------------------------------------------------


@given(st.integers(0, 2**31))
def test_lowest_point_on_a_line_with_kinks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    u, d, l1 = rng.standard_normal(5), rng.standard_normal(5), rng.random(5)
    u[u == 0.0] = 1.0
    bend, linear = rng.random() * 5.0, rng.standard_normal() * 5.0

    def q(t: Any) -> Any:
        return linear * t + 0.5 * bend * t * t + np.abs(u + np.multiply.outer(t, d)) @ l1

    t, k = lowest(u, d, linear + float(l1 * np.sign(u) @ d), bend, l1)
    assert 0.0 <= t <= 1.0
    assert q(np.array([t]))[0] <= q(np.linspace(0.0, 1.0, 2001)).min() + 1e-12
    if k >= 0:
        assert u[k] + t * d[k] == pytest.approx(0.0, abs=1e-12)


def test_a_step_on_a_face_solves_the_model_there() -> None:
    X, y = text(400, 500, seed=3)
    rough = solve(Problem(as_block(X, y), 500, losses.logistic, ps.L1(0.002), False), tol=3e-4, max_epochs=50).coef
    at = point(X, y, rough, 0.002)
    F = np.flatnonzero(rough)
    steps = face.Face(at)
    factors = steps.consider(np.inf, at.D)
    assert factors is not None
    u, r = rough.copy(), at.theta.copy()
    fell = steps.descend(factors, F, u, r, at.D)
    v = X @ (u - rough)
    assert r == pytest.approx(at.theta + at.D * v, abs=1e-14)
    change = at.theta @ v + 0.5 * (at.D * v) @ v + 0.002 * (np.abs(u).sum() - np.abs(rough).sum())
    assert change == pytest.approx(-fell, rel=1e-6)
    assert fell > 0.0
    left = np.flatnonzero(u)
    assert set(left) <= set(F)
    before = np.abs(X[:, left].T @ at.theta + 0.002 * np.sign(rough[left])).max()
    assert np.abs(X[:, left].T @ r + 0.002 * np.sign(u[left])).max() < 0.05 * before


@pytest.mark.parametrize("loss", [losses.logistic, losses.squared, losses.squared_hinge], ids=str)
@pytest.mark.parametrize("way", ["passes", "gradients", "faces", "gram"])
def test_every_method_reaches_the_optimum(monkeypatch: pytest.MonkeyPatch, loss: losses.Loss, way: str) -> None:
    if way != "gram":
        monkeypatch.setattr(gram, "MOST_COLUMNS", 0)
    monkeypatch.setattr(face.Face, "_affordable", lambda self, F, otherwise: way == "faces")
    if way in ("passes", "gradients"):
        monkeypatch.setattr(sweeps.Sweeps, "_cheaper_way", lambda self, settled: way)
    X, y = text(150, 200, seed=1)
    problem = Problem(as_block(X, y), 200, loss, ps.L1(0.004), fit_intercept=False)
    solution = solve(problem, tol=1e-7, max_epochs=2000)
    case = naive_l1.case(X, y, loss, 0.004, 0.0, intercept=False)
    assert solution.converged
    assert solution.primal <= case.objective(naive_l1.minimize(case, most=3000)) * (1.0 + 1e-7)


# -- screening -----------------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_no_feature_of_the_optimum_is_ever_ruled_out(loss: losses.Loss, l2: float) -> None:
    X, y = data(loss, n=60, d=40)
    case = naive_l1.case(X, y, loss, 0.03, l2, intercept=False)
    best = naive_l1.minimize(case)
    ruled_out = 0
    for closeness in (0.0, 0.5, 0.9, 0.99, 0.999, 1.0):
        at = point(X, y, closeness * best, 0.03, l2, loss)
        problem = Problem(as_block(X, y), 40, loss, ps.ElasticNet(0.03, l2), fit_intercept=False)
        proof = Proof(problem, at, None)
        proof.offer(at.theta, np.zeros(40))  # as if no weight spoke for its feature
        assert set(np.flatnonzero(best)) <= set(proof.alive)
        assert proof.dual <= case.objective(best) + 1e-13
        ruled_out = 40 - len(proof.alive)
    if loss.link != "log":  # has no bounded curvature
        assert ruled_out == np.count_nonzero(best == 0.0)
