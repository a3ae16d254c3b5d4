"""Geometries: R, its mirror map and its steps, against definitions and numerical minimizers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize

import proxstream as ps
from proxstream.core.geometries import Spectrum

from ..examples import examples

GEOMETRIES = {
    "euclidean": (ps.Euclidean(), None),
    "pnorm": (ps.PNorm(1.5), None),
    "pnorm-low": (ps.PNorm(1.15), None),
    "pnorm-rule": (ps.PNorm(), None),
    "entropy": (ps.Entropy(), None),
    "entropy-radius": (ps.Entropy(), ps.Simplex(2.5)),
}
N = 9


def points(name, rng, n=N):
    """A random point of the geometry's domain."""
    geometry, penalty = GEOMETRIES[name]
    if isinstance(geometry, ps.Entropy):
        return (penalty.radius if penalty else 1.0) * rng.dirichlet(np.ones(n))
    return rng.normal(size=n)


def mirror(name, x):
    """Grad R, by the definitions."""
    geometry, _ = GEOMETRIES[name]
    if isinstance(geometry, ps.Euclidean):
        return x
    if isinstance(geometry, ps.Entropy):
        return np.log(x)
    p = geometry.p or math.log(len(x)) / (math.log(len(x)) - 1.0)
    return np.sign(x) * np.abs(x) ** (p - 1) * np.sum(np.abs(x) ** p) ** (2 / p - 1) / (p - 1)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_primal_inverts_the_gradient_of_r(name):
    geometry, rng = GEOMETRIES[name][0], np.random.default_rng(0)
    for _ in range(50):
        x = points(name, rng)
        np.testing.assert_allclose(geometry.primal(mirror(name, x)), x, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_theta_is_the_gradient_of_r(name):
    """By finite differences along directions that stay in the domain."""
    geometry, rng = GEOMETRIES[name][0], np.random.default_rng(1)
    for _ in range(20):
        x, y = points(name, rng), points(name, rng)
        direction = (y - x) * 1e-5
        slope = (geometry.value(x + direction) - geometry.value(x - direction)) / 2.0
        assert slope == pytest.approx(float(mirror(name, x) @ direction), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_r_has_modulus_1_in_the_norm_whose_dual_it_names(name):
    """B_R(x, y) >= ||x - y||^2 / 2, the norm as the dual of `dual_norm`."""
    geometry, rng = GEOMETRIES[name][0], np.random.default_rng(2)
    for _ in range(200):
        x, y = points(name, rng), points(name, rng)
        divergence = geometry.bregman(x, mirror(name, y))
        for g in (np.sign(x - y), x - y, rng.normal(size=N)):
            reach = abs(float(g @ (x - y))) / geometry.dual_norm(g, y)  # <= ||x - y||
            assert divergence >= 0.5 * reach**2 - 1e-12


@pytest.mark.parametrize("name", GEOMETRIES)
def test_bregman_is_a_divergence(name):
    geometry, rng = GEOMETRIES[name][0], np.random.default_rng(3)
    for _ in range(20):
        x, y = points(name, rng), points(name, rng)
        theta = mirror(name, y)
        definition = geometry.value(x) - geometry.value(y) - float(theta @ (x - y))
        assert geometry.bregman(x, theta) == pytest.approx(definition, rel=1e-9, abs=1e-12)
        assert geometry.bregman(y, theta) == pytest.approx(0.0, abs=1e-12)
        assert geometry.bregman(x, theta) > 0.0


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_first_point_has_the_smallest_r(name):
    (geometry, penalty), rng = GEOMETRIES[name], np.random.default_rng(4)
    first = geometry.primal(geometry.start(penalty or ps.NoPenalty(), (N,)))
    assert geometry.value(first) == pytest.approx(0.0, abs=1e-12)
    assert all(geometry.value(points(name, rng)) >= 0.0 for _ in range(20))


def test_the_first_euclidean_point_is_the_constraints_nearest_to_0():
    start = ps.Euclidean().start
    np.testing.assert_array_equal(start(ps.Box(1.0, 2.0), (2,)), [1.0, 1.0])
    np.testing.assert_array_equal(start(ps.Simplex(3.0), (3,)), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(start(ps.L1(5.0), (2,)), [0.0, 0.0])


@pytest.mark.default_cases(2)
@pytest.mark.parametrize("p", [1.2, 1.5, 1.9, 2.0])
@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_the_pnorm_step_is_a_minimum(p, lam):
    geometry, rng = ps.PNorm(p), np.random.default_rng(5)
    penalty = ps.L1(lam) if lam else ps.NoPenalty()
    for _ in range(20):
        u, h, k, l1 = rng.normal(size=5) * 2.0, rng.uniform(0.2, 3.0), rng.uniform(0.5, 2.0), rng.choice([0.0, 0.3])

        def objective(x, u=u, h=h, k=k, l1=l1):
            return float(u @ x) + (k * lam + l1) * float(np.abs(x).sum()) + h * geometry.value(x)

        x = geometry.primal(geometry.solve(penalty, u, h, k, l1))
        best = min(minimize(objective, x0, method="Nelder-Mead").fun for x0 in (x, np.zeros(5)))
        assert objective(x) <= best + 1e-9
        assert ((x == 0.0) == (np.abs(u) <= k * lam + l1)).all()


@pytest.mark.parametrize("penalty", [ps.NoPenalty(), ps.Simplex(2.0), ps.KL(0.8), ps.KL(0.8, [0.1, 0.2, 0.3, 0.4])])
def test_the_entropy_step_is_a_minimum(penalty):
    geometry, rng = ps.Entropy(), np.random.default_rng(6)
    radius = penalty.radius if isinstance(penalty, ps.Simplex) else 1.0
    for _ in range(20):
        u, h, k = rng.normal(size=4) * 2.0, rng.uniform(0.2, 3.0), rng.uniform(0.5, 2.0)

        def objective(x, u=u, h=h, k=k):
            soft = k * penalty.value(x) if isinstance(penalty, ps.KL) else 0.0
            return float(u @ x) + soft + h * geometry.value(x)

        x = geometry.primal(geometry.solve(penalty, u, h, k))
        assert x.sum() == pytest.approx(radius, rel=1e-12)
        # In a simplex a minimum to first order is one: the gradient is constant there.
        gradient = u + h * np.log(x)
        if isinstance(penalty, ps.KL):
            gradient = gradient + k * 0.8 * np.log(x / (0.25 if penalty.prior is None else penalty.prior))
        assert np.ptp(gradient) < 1e-11
        for _ in range(10):
            assert objective(x) <= objective(radius * rng.dirichlet(np.ones(4))) + 1e-12


def test_the_entropy_knows_weights_that_no_float_holds():
    learner = ps.OnlineLearner(ps.MirrorDescent(1.0, "constant", ps.Entropy()), dim=2)
    learner.update([2000.0, 0.0])
    np.testing.assert_array_equal(learner.point, [0.0, 1.0])
    learner.update([-2000.0, 0.0])
    np.testing.assert_allclose(learner.point, [0.5, 0.5], rtol=1e-12)
    learner.update([1e300, 0.0])
    assert np.isfinite(learner.point).all()


def test_the_pnorm_rule():
    n = 1000
    q = math.log(n)
    assert ps.PNorm()._p(n) == pytest.approx(q / (q - 1.0))
    assert ps.PNorm()._p(7) == 2.0  # n < e^2
    assert 1.9 < ps.PNorm()._p(8) <= 2.0
    assert ps.PNorm(1.3)._p(n) == 1.3
    g = np.ones(n)
    assert ps.PNorm().dual_norm(g, g) == pytest.approx(math.e)  # n^(1/ln n)


def test_pnorm_at_2_is_euclidean():
    rng = np.random.default_rng(7)
    for _ in range(20):
        x, u = rng.normal(size=4), rng.normal(size=4)
        two, euclidean = ps.PNorm(2.0), ps.Euclidean()
        assert two.value(x) == pytest.approx(euclidean.value(x))
        assert two.dual_norm(u, x) == pytest.approx(euclidean.dual_norm(u, x))
        np.testing.assert_allclose(two.primal(x), x, rtol=1e-13)


@given(
    st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=8),
    st.floats(1.01, 2.0),
)
@examples(100)
def test_no_scale_overflows_the_pnorm_link(values, p):
    theta = np.array(values)
    geometry = ps.PNorm(p)
    with np.errstate(under="ignore"):
        x = geometry.primal(theta)
    assert np.isfinite(x).all()
    assert not ((np.sign(x) != np.sign(theta)) & (x != 0.0)).any()
    # ||x||_p = (p - 1) ||theta||_q (Gentile 2003, Lemma 1)
    dual = geometry.dual_norm(theta, theta)
    norm = math.sqrt(2.0 * (p - 1.0)) * math.sqrt(geometry.value(x / dual)) if dual > 1e-100 else 0.0
    assert norm == pytest.approx((p - 1.0) if dual > 1e-100 else 0.0, rel=1e-9)


@pytest.mark.parametrize("p", [1.0, 0.5, 2.5, -1.0, math.nan, math.inf])
def test_p_outside_1_to_2_is_refused(p):
    with pytest.raises(ValueError, match=r"p must be a finite number in \(1, 2\]"):
        ps.PNorm(p)


def test_what_a_geometry_cannot_solve_is_refused_by_name():
    with pytest.raises(TypeError, match=r"PNorm .* without a penalty or with L1, got L2\(lam=1.0\)"):
        ps.PNorm(1.5).check(ps.L2(1.0), (3,))
    with pytest.raises(TypeError, match=r"Entropy .* Simplex\(radius\) or KL, got L1\(lam=1.0\)"):
        ps.Entropy().check(ps.L1(1.0), (3,))
    with pytest.raises(TypeError, match="one number h"):
        ps.Entropy().solve(ps.NoPenalty(), np.ones(2), np.ones(2), 1.0)
    with pytest.raises(TypeError, match="rho"):
        ps.Entropy().solve(ps.NoPenalty(), np.ones(2), 1.0, 1.0, l1=0.5)
    with pytest.raises(ValueError, match="h > 0"):
        ps.Entropy().solve(ps.NoPenalty(), np.array([0.0, 1.0]), 0.0, 1.0)
    ps.PNorm(1.5).check(ps.L1(1.0) + ps.L1(2.0), (3,))  # two l1 norms are one


def test_an_idle_entropy_stays_where_it_is():
    np.testing.assert_allclose(np.exp(ps.Entropy().solve(ps.NoPenalty(), np.zeros(4), 0.0, 1.0)), 0.25)


def test_outside_the_simplex_the_entropy_is_infinite():
    assert ps.Entropy().value(np.array([0.5, -0.1])) == math.inf
    assert ps.Entropy().value(np.array([0.0, 0.0])) == math.inf
    assert ps.Entropy().value(np.array([1.0, 0.0])) == pytest.approx(math.log(2.0))


# ---- matrices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_a_spectrum_is_its_matrix(rank):
    rng = np.random.default_rng(8)
    A = rng.normal(size=(5, rank))
    M = A @ A.T
    spectrum = Spectrum.of(M)
    assert (spectrum.values > 0.0).sum() == rank
    x = rng.normal(size=5)
    np.testing.assert_allclose(spectrum.matrix(), M, atol=1e-12)
    np.testing.assert_allclose(spectrum.times(x), M @ x, atol=1e-12)
    root = spectrum.root().matrix()
    np.testing.assert_allclose(root @ root, M, atol=1e-12)
    np.testing.assert_allclose(spectrum.shifted(0.5).scaled(2.0).matrix(), 2.0 * M + np.eye(5), atol=1e-12)


def test_blocks_are_decomposed_one_by_one():
    rng = np.random.default_rng(9)
    labels = (3, 1, 3, 1, 1)
    A = rng.normal(size=(5, 7))
    M = np.where(np.equal.outer(labels, labels), A @ A.T, 0.0)
    M[0] *= 1e-12  # a block of another scale
    M[:, 0] *= 1e-12
    spectrum = Spectrum.of_blocks(M, labels)
    np.testing.assert_allclose(spectrum.matrix(), M, atol=1e-12)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(5), atol=1e-12)
    assert not spectrum.vectors[np.not_equal.outer(labels, labels)].any()


def test_a_matrix_step_solves_its_equation():
    """u + H x + k grad Psi(x) = 0 for the penalties that no rotation changes."""
    rng = np.random.default_rng(10)
    for _ in range(20):
        A = rng.normal(size=(5, 6))
        H, u = A @ A.T, rng.normal(size=5) * 3.0
        solve = ps.Euclidean().solve
        spectrum = Spectrum.of(H)
        x = solve(ps.NoPenalty(), u, spectrum, 2.0)
        np.testing.assert_allclose(H @ x + u, 0.0, atol=1e-9)
        x = solve(ps.L2(0.5), u, spectrum, 2.0)
        np.testing.assert_allclose(H @ x + u + 1.0 * x, 0.0, atol=1e-9)
        x = solve(ps.L2Norm(0.5), u, spectrum, 2.0)
        np.testing.assert_allclose(H @ x + u + x / np.linalg.norm(x), 0.0, atol=1e-9)
        x = solve(ps.L2Ball(0.05), u, spectrum, 2.0)
        assert np.linalg.norm(x) == pytest.approx(0.05, rel=1e-12)
        residual = -(H @ x + u)  # an outward normal
        np.testing.assert_allclose(residual, (residual @ x) / (x @ x) * x, atol=1e-9)
        assert residual @ x > 0.0
