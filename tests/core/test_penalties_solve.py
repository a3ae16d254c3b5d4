"""The subproblem of every penalty and every legal sum: against a naive minimizer, and by its own optimality."""

from __future__ import annotations

import itertools
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, strategies as st

from proxstream.core import penalties as pen

from ..examples import examples
from . import naive_penalties as naive

LIGHT = {"l1", "l2", "elastic_net", "nonnegative", "none"}
SEPARABLE = LIGHT | {"berhu", "box"}
CONSTRAINTS = ["box", "nonnegative", "l1_ball", "l2_ball", "simplex", "kl"]
COUPLED = {"group_l2", "group_linf", "l2_norm", "linf_norm", "l1_ball", "l2_ball", "simplex"}


def legal(a, b):
    """The table of sums, as the design states it."""
    if "none" in (a, b):
        return True
    if "kl" in (a, b):
        return False
    return (a in SEPARABLE and b in SEPARABLE) or (a in LIGHT and b in COUPLED) or (a in COUPLED and b in LIGHT)


PAIRS = list(itertools.combinations_with_replacement(pen.PENALTIES, 2))
LEGAL = [pair for pair in PAIRS if legal(*pair)]
MANY = [
    ("l1", "l2", "berhu", "berhu", "box"),
    ("berhu", "berhu", "berhu", "nonnegative"),
    ("l1", "nonnegative", "l2", "group_l2"),
    ("l1", "nonnegative", "elastic_net", "group_linf"),
    ("elastic_net", "l1", "l2_norm"),
    ("l1", "nonnegative", "linf_norm"),
    ("l1", "nonnegative", "l2", "l1_ball"),
    ("elastic_net", "nonnegative", "l2_ball"),
    ("l1", "nonnegative", "l2", "simplex"),
]
CHECKED = [(name,) for name in pen.PENALTIES] + [pair for pair in LEGAL if "none" not in pair] + MANY

strength = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.5, 10.0])
positive = st.sampled_from([0.1, 0.5, 1.0, 2.0, 30.0])
number = st.one_of(
    st.sampled_from([0.0, 0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1e8, -1e8, 1e-8]),
    st.integers(-500, 500).map(lambda i: i / 100),
)
curvature = st.one_of(st.sampled_from([1e-8, 1e-4, 1.0, 1.0, 2.0, 1e4, 1e8]), st.floats(0.125, 8.0, width=32))


def vectors(n, elements):
    return st.lists(elements, min_size=n, max_size=n).map(np.array)


def penalties(name, n):
    """Penalties of one kind for n weights. A kind that is not here fails `test_every_penalty_is_checked`."""
    strengths = strength | vectors(n, strength)
    groups = st.none() | vectors(n, st.integers(-2, 2))
    prior = st.none() | vectors(n, st.floats(0.125, 4.0, width=32)).map(lambda p: p / p.sum())
    lo, hi = st.sampled_from([-np.inf, -1.0, 0.0, 0.5]), st.sampled_from([1.0, 2.0, np.inf])
    parameters = {
        "none": (),
        "l1": (strengths,),
        "l2": (strengths,),
        "elastic_net": (strengths, strengths),
        "berhu": (strength, positive),
        "group_l2": (strength, groups),
        "group_linf": (strength, groups),
        "l2_norm": (strength,),
        "linf_norm": (strength,),
        "kl": (st.sampled_from([0.0, 0.5, 1.0, 10.0]), prior),
        "box": (lo | vectors(n, lo), hi | vectors(n, hi)),
        "nonnegative": (),
        "l1_ball": (positive,),
        "l2_ball": (positive,),
        "simplex": (positive,),
    }
    return st.builds(pen.PENALTIES[name], *parameters[name])


@st.composite
def problems(draw, names):
    n = draw(st.integers(1, 6))
    penalty = reduce(add, [draw(penalties(name, n)) for name in names])
    u, h = draw(vectors(n, number)), draw(vectors(n, curvature))
    k = draw(st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0]))
    l1 = 0.0 if "kl" in names else draw(st.sampled_from([0.0, 0.0, 0.75]))
    return penalty, u, h, k, l1


def problems_of(count):
    hard = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return examples(count, suppress_health_check=hard)


def tolerance(penalty, x, u, h, k):
    """What 64 bits allow: a rounding of the inputs moves x_j by this much (strong monotonicity in the metric h)."""
    h = h + k * penalty.strong_convexity * (0.0 if isinstance(penalty, pen.KL) else 1.0)
    scale = np.abs(u).max() + 30.0 * k + 1.0
    return 1e-10 * np.abs(x) + 100 * np.finfo(float).eps * scale * np.sqrt((1.0 / h).sum() / h)


def test_every_penalty_is_checked():
    for name in pen.PENALTIES:
        penalties(name, 2)
    assert {*SEPARABLE, *COUPLED, "kl"} == set(pen.PENALTIES)


@pytest.mark.default_cases(15)
@pytest.mark.parametrize("names", CHECKED, ids="+".join)
def test_solve_finds_the_naive_minimizer(names):
    @problems_of(40)
    @given(problems(names))
    def check(problem):
        penalty, u, h, k, l1 = problem
        x, expected = penalty.solve(u, h, k, l1), naive.minimize(penalty, u, h, k, l1)
        assert penalty.value(x) < np.inf
        assert (np.abs(x - expected) <= tolerance(penalty, expected, u, h, k)).all(), (x, expected)
        terms = [u * x, h * x * x, k * penalty.value(x), l1 * x, 1e-12]
        gain = naive.objective(penalty, x, u, h, k, l1) - naive.objective(penalty, expected, u, h, k, l1)
        if penalty.value(expected) < np.inf:
            assert gain <= 1e-11 * sum(np.abs(term).sum() for term in terms)

        # The subdifferential, with the multiplier of a constraint in the scale.
        scale = np.abs(u).max() + np.abs(h * x).max() + 30.0 * k + 1.0
        assert naive.violation(penalty, x, u, h, k, l1) <= 1e-11 * scale

    check()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["simplex", "l1_ball", "l2_ball"])
def test_relative_accuracy_when_curvature_and_pull_are_far_apart(name):
    """u = 1e8 and h = 1e-8 in one vector: the multiplier cannot hold the digits that x needs."""
    rng = np.random.default_rng(1)
    penalty = pen.PENALTIES[name]()
    for _ in range(300):
        n = rng.integers(1, 7)
        u, h = rng.choice([-1e8, -99999999.0, -3.0, -1.0, 1e-8], n), 10.0 ** rng.integers(-8, 9, n)
        expected = naive.minimize(penalty, u, h)
        np.testing.assert_allclose(penalty.solve(u, h), expected, rtol=1e-11, atol=1e-15)


@pytest.mark.default_cases(15)
@pytest.mark.parametrize("names", CHECKED, ids="+".join)
def test_solve_is_non_expansive(names):
    """In the metric h, v -> solve(-h v, h) moves two points no farther apart."""

    @problems_of(8)
    @given(problems(names), st.integers(0, 2**31))
    def check(problem, seed):
        penalty, u, h, k, l1 = problem
        other = u + np.random.default_rng(seed).normal(size=len(u)) * np.sqrt(h)
        a, b = penalty.solve(u, h, k, l1), penalty.solve(other, h, k, l1)
        before, after = np.sqrt(np.sum((u - other) ** 2 / h)), np.sqrt(np.sum(h * (a - b) ** 2))
        rounding = 1e-14 * np.sqrt(np.sum((np.abs(u) + k + 1.0) ** 2 / h))
        assert after <= before * (1 + 1e-9) + rounding

    check()


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_table_of_sums(a, b):
    first, second = pen.PENALTIES[a](), pen.PENALTIES[b]()
    if not legal(a, b):
        for left, right in [(first, second), (second, first)]:
            with pytest.raises(TypeError) as error:
                left + right
            assert repr(first) in str(error.value)
            assert repr(second) in str(error.value)
            named = {cls.__name__ for cls in pen.PENALTIES.values() if cls.__name__ in str(error.value)}
            assert named | {"NoPenalty"} == {cls.__name__ for cls in pen.PENALTIES.values()}
        return
    total = first + second
    assert total == second + first
    assert hash(total) == hash(second + first)
    w = np.array([0.25, 0.75])
    assert total.value(w) == pytest.approx(first.value(w) + second.value(w))
    assert total.separable == (first.separable and second.separable)
    assert total.rotation_invariant == (first.rotation_invariant and second.rotation_invariant)
    assert total.strong_convexity == first.strong_convexity + second.strong_convexity
    np.testing.assert_array_equal(total.solve([1.0, -3.0], 2.0), (second + first).solve([1.0, -3.0], 2.0))


@pytest.mark.parametrize("names", MANY, ids="+".join)
def test_sums_do_not_depend_on_order_or_brackets(names):
    rng = np.random.default_rng(0)
    parts = [pen.PENALTIES[name]() for name in names]
    u, h = rng.normal(size=5) * 4, rng.uniform(0.1, 3.0, 5)
    expected = reduce(add, parts).solve(u, h, 0.7)
    for order in itertools.islice(itertools.permutations(parts), 24):
        total = reduce(add, order)
        np.testing.assert_allclose(total.solve(u, h, 0.7), expected, rtol=1e-13)
        nested = order[0] + reduce(add, order[1:])
        assert nested == total == reduce(add, parts)
        assert nested.parts == tuple(order)


@pytest.mark.parametrize("name", pen.PENALTIES)
def test_k_zero_leaves_only_the_constraint(name):
    """With k = 0, and with strength 0, soft penalties vanish: x = -u / h to the bit."""
    rng = np.random.default_rng(2)
    u, h = rng.normal(size=7), rng.uniform(0.1, 9.0, 7)
    penalty = pen.PENALTIES[name]()
    x = penalty.solve(u, h, k=0.0)
    if name in CONSTRAINTS:
        assert penalty.value(x) < np.inf
        return
    np.testing.assert_array_equal(x, -u / h)
    zero = {field: 0.0 for field in ("lam", "l1", "l2") if hasattr(penalty, field)}
    np.testing.assert_array_equal(type(penalty)(**zero).solve(u, h), -u / h)


def outside(penalty, w):
    """Relative distance to the constraint set, by its definition."""
    name, w = type(penalty).__name__, np.asarray(w)
    if name == "Box":
        return max((penalty.lo - w).max(), (w - penalty.hi).max(), 0.0)
    if name == "NonNegative":
        return max(-w.min(), 0.0)
    if name in ("Simplex", "KL"):
        radius = getattr(penalty, "radius", 1.0)
        return max(-w.min(), abs(w.sum() - radius)) / radius
    size = np.abs(w).sum() if name == "L1Ball" else np.linalg.norm(w)
    return max(size / penalty.radius - 1.0, 0.0)


def test_constraints_are_those_that_forbid_something():
    assert {n for n, cls in pen.PENALTIES.items() if cls().value(np.full(3, -1e9)) == np.inf} == set(CONSTRAINTS)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_projections_are_feasible_idempotent_and_nearest(name):
    rng = np.random.default_rng(3)
    for trial in range(200):
        n = int(rng.integers(1, 400))
        penalty = pen.PENALTIES[name](*([rng.uniform(0.1, 50.0)] if "ball" in name else []))
        w = rng.normal(size=n) * 10.0 ** rng.integers(-3, 8)
        x = penalty.project(w)
        assert outside(penalty, x) <= 1e-12
        np.testing.assert_allclose(penalty.project(x), x, rtol=0, atol=1e-12 * np.abs(x).max())
        if trial < 20:  # nearest: <w - x, y - x> <= 0 for every y in the set
            for _ in range(20):
                y = penalty.project(rng.normal(size=n) * np.abs(w).max())
                assert (w - x) @ (y - x) <= 1e-10 * np.abs(w).max() * (1 + np.abs(y).sum() + np.abs(x).sum())


@pytest.mark.parametrize("name", ["l1_ball", "l2_ball", "simplex", "kl", "box"])
@pytest.mark.parametrize("k", [0.0, 1e-300, 1e-8, 1.0, 1e8])
def test_constrained_solutions_hold_at_any_scale(name, k):
    """Nothing overflows or leaves the set for |u| <= 1e8 and h from 1e-300 to 1e300, zeros among them."""
    rng = np.random.default_rng(4)
    penalty = pen.PENALTIES[name]()
    for _ in range(150):
        n = rng.integers(1, 9)
        u = rng.choice([0.0, 1.0, -1.0, 1e8, -1e8, 1e-8, rng.normal()], n)
        h = rng.choice([0.0, 1e-300, 1e-12, 1e-8, 1.0, 1e8, 1e12, 1e300], n)
        assert outside(penalty, penalty.solve(u, h, k)) <= 1e-12


@pytest.mark.parametrize("name", ["l1", "elastic_net", "berhu", "group_l2", "group_linf", "l2_norm", "linf_norm"])
def test_soft_solutions_are_optimal_when_curvature_spans_24_decades(name):
    rng = np.random.default_rng(5)
    penalty = pen.PENALTIES[name]()
    for _ in range(400):
        n = rng.integers(1, 12)
        u = rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-8, 8, n)
        h = 10.0 ** rng.uniform(-12, 12, n)
        k = 10.0 ** rng.uniform(-8, 8)
        x = penalty.solve(u, h, k)
        assert naive.violation(penalty, x, u, h, k) <= 1e-13 * (np.abs(u).max() + k) * n


@pytest.mark.parametrize("name", ["l1_ball", "l2_ball", "simplex"])
def test_balls_are_optimal_when_curvature_spans_24_decades(name):
    rng = np.random.default_rng(6)
    penalty = pen.PENALTIES[name](3.0)
    for _ in range(400):
        n = rng.integers(1, 12)
        u = rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-8, 8, n)
        h = 10.0 ** rng.uniform(-12, 12, n)
        x = penalty.solve(u, h)
        assert naive.violation(penalty, x, u, h) <= 1e-13 * (np.abs(u).max() + np.abs(h * x).max()) * n


def test_kl_against_its_closed_form_and_its_limit():
    rng = np.random.default_rng(7)
    prior = rng.dirichlet(np.ones(6))
    u = rng.normal(size=6) * 3
    expected = prior * np.exp(-u / 0.7)
    np.testing.assert_allclose(pen.KL(0.7, prior).solve(u, 0.0), expected / expected.sum(), rtol=1e-13)
    # One coordinate's curvature vanishing must not be a jump, and little entropy is nearly the simplex.
    h = rng.uniform(0.5, 2.0, 6)
    np.testing.assert_allclose(pen.KL(0.7, prior).solve(u, h * 1e-13), pen.KL(0.7, prior).solve(u, 0.0), rtol=1e-11)
    np.testing.assert_allclose(pen.KL(1e-12).solve(u, h), pen.Simplex().solve(u, h), atol=1e-9)
    x = pen.KL(1e-8).solve([1e8, -1e8, -1e8], [0.0, 1e-8, 1e8])
    assert x[0] == 0.0
    assert np.log(x[2]) + 1e16 * x[2] == pytest.approx(np.log(x[1]) + x[1])


@pytest.mark.parametrize("name", ["group_l2", "group_linf"])
def test_groups_are_solved_one_by_one(name):
    rng = np.random.default_rng(8)
    labels = rng.integers(-1000, 1000, 3000) * 10**12
    u, h = rng.normal(size=3000) * 10.0 ** rng.integers(-4, 5, 3000), 10.0 ** rng.uniform(-6, 6, 3000)
    x = pen.PENALTIES[name](1.5, labels).solve(u, h, 2.0)
    alone = pen.L2Norm(1.5) if name == "group_l2" else pen.LinfNorm(1.5)
    for label in np.unique(labels):
        group = labels == label
        np.testing.assert_array_equal(x[group] == 0.0, alone.solve(u[group], h[group], 2.0) == 0.0)
        np.testing.assert_allclose(x[group], alone.solve(u[group], h[group], 2.0), rtol=1e-12)


@pytest.mark.parametrize("name", ["group_l2", "group_linf"])
def test_groups_of_a_matrix(name):
    rng = np.random.default_rng(9)
    u, h = rng.normal(size=(40, 5)) * 2, rng.uniform(0.1, 3.0, (40, 5))
    make = pen.PENALTIES[name]
    rows = make(5.0).solve(u, h)
    assert 0 < (rows == 0).all(axis=1).sum() < 40
    np.testing.assert_array_equal(make(5.0, np.arange(40)).solve(u, h), rows)
    labels = np.repeat(np.arange(40), 5)
    np.testing.assert_array_equal(make(5.0, labels).solve(u.ravel(), h.ravel()), rows.ravel())
    columns = make(5.0, np.tile(np.arange(5), (40, 1))).solve(u, h)
    np.testing.assert_allclose(columns, make(5.0).solve(u.T, h.T).T, rtol=1e-14)
    alone = make(0.5).solve(u[:, 0], h[:, 0])
    np.testing.assert_allclose(alone, pen.L1(0.5).solve(u[:, 0], h[:, 0]), rtol=1e-13)


@pytest.mark.parametrize("name", [n for n in pen.PENALTIES if not n.startswith("group")])
def test_a_matrix_is_its_entries(name):
    rng = np.random.default_rng(10)
    u, h = rng.normal(size=(6, 3)), rng.uniform(0.1, 3.0, (6, 3))
    penalty = pen.PENALTIES[name]()
    np.testing.assert_array_equal(penalty.solve(u, h).ravel(), penalty.solve(u.ravel(), h.ravel()))
    np.testing.assert_array_equal(penalty.solve(u, 2.0), penalty.solve(u, np.full_like(u, 2.0)))


def test_numbers_a_row_and_a_coordinate():
    u = np.array([[3.0, -3.0], [3.0, -3.0]])
    np.testing.assert_array_equal(pen.L1([1.0, 2.0]).solve(u, 1.0), [[-2, 2], [-1, 1]])
    np.testing.assert_array_equal(pen.L1([[1.0, 2.0], [0.0, 4.0]]).solve(u, 1.0), [[-2, 1], [-3, 0]])
    np.testing.assert_array_equal(pen.Box([0.0, -1.0], np.inf).solve(u, 1.0), [[0, 3], [-1, 3]])
    prior = np.array([[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_allclose(pen.KL(1.0, prior).solve(np.zeros((2, 2)), 0.0), prior)
    # On the simplex an l1 term is a constant only while it is one number.
    weighted = pen.Simplex() + pen.L1([0.0, 1.0])
    np.testing.assert_allclose(weighted.solve([0.0, 0.0], 2.0), pen.Simplex().solve([0.0, 1.0], 2.0))


@pytest.mark.parametrize("name", pen.PENALTIES)
def test_32_bit_in_32_bit_out(name):
    rng = np.random.default_rng(11)
    u, h = rng.normal(size=9).astype(np.float32), rng.uniform(0.1, 3.0, 9).astype(np.float32)
    penalty = pen.PENALTIES[name]()
    x = penalty.solve(u, h)
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x, penalty.solve(u.astype(float), h.astype(float)).astype(np.float32))
    assert np.isfinite(penalty.value(x))
    assert penalty.project(u).dtype == np.float32
    assert penalty.subgradient(np.abs(u)).dtype == np.float32
    assert penalty.solve(u.astype(float), h).dtype == np.float64
    assert penalty.solve([1, 2, -3], 1).dtype == np.float64


@pytest.mark.default_cases(8)
@pytest.mark.parametrize("names", [[*names] for names in CHECKED], ids="+".join)
def test_zeros_are_zeros(names):
    """A coordinate that the naive minimizer sets to 0 is 0.0, not small and not -0.0."""

    @problems_of(8)
    @given(problems(names))
    def check(problem):
        penalty, u, h, k, l1 = problem
        x, expected = penalty.solve(u, h, k, l1), naive.minimize(penalty, u, h, k, l1)
        assume(k * getattr(penalty, "sigma", 0.0) == 0.0)
        assert not np.signbit(x[x == 0.0]).any()
        # Rounding may decide a tie, so only where the answer does not depend on the last bits of k and l1.
        near = [naive.minimize(penalty, u, h, k * (1 + e), l1 * (1 + e)) for e in (-1e-14, 1e-14)]
        firm = (expected == 0.0) & (near[0] == 0.0) & (near[1] == 0.0)
        assert (x[firm] == 0.0).all()

    check()


def test_thresholds_are_closed_at_the_edge():
    assert (pen.L1(1.0).solve([2.5, -2.5, 1.0], 1e-8, k=2.0, l1=0.5) == 0.0).all()
    assert (pen.L2Norm(5.0).solve([3.0, -4.0], 1e-8) == 0.0).all()
    assert (pen.LinfNorm(7.0).solve([3.0, -4.0], 1e-8) == 0.0).all()
    assert (pen.Berhu(2.0, 0.5).solve([2.0, -2.0], 1e-8) == 0.0).all()


FLAT = [
    # penalty, u, h, x: problems with coordinates of no curvature that have a minimizer
    (pen.NoPenalty(), [0.0, 2.0], [0.0, 1.0], [0.0, -2.0]),
    (pen.L1(1.0), [1.0, -1.0, 0.5], 0.0, [0.0, 0.0, 0.0]),
    (pen.L2(2.0), [1.0, -4.0], 0.0, [-0.5, 2.0]),
    (pen.L2([2.0, 0.0]), [1.0, 0.0], 0.0, [-0.5, 0.0]),
    (pen.ElasticNet(1.0, 2.0), [1.0, -4.0], 0.0, [0.0, 1.5]),
    (pen.Berhu(1.0, 0.5), [1.0, -4.0, 3.0], 0.0, [0.0, 2.0, -1.5]),
    (pen.Box(-1.0, 2.0), [1.0, -4.0, 0.0], 0.0, [-1.0, 2.0, 0.0]),
    (pen.Box(1.0, 2.0), [0.0, 3.0], 0.0, [1.0, 1.0]),
    (pen.Box(-2.0, -1.0) + pen.L1(1.0), [0.5, 0.0, 2.0], 0.0, [-1.0, -1.0, -2.0]),
    (pen.Box(-2.0, -1.0) + pen.L1(1.0), [0.0, 2.5, 9.0], 1.0, [-1.0, -1.5, -2.0]),
    (pen.NonNegative(), [1.0, 0.0], 0.0, [0.0, 0.0]),
    (pen.L2Norm(5.0), [3.0, -4.0], 0.0, [0.0, 0.0]),
    (pen.L2Norm(5.0), [3.0, -8.0], [0.0, 1.0], [-3.0, 4.0]),
    (pen.LinfNorm(7.0), [3.0, -4.0], 0.0, [0.0, 0.0]),
    (pen.LinfNorm(5.0), [3.0, -4.0], [0.0, 1.0], [-2.0, 2.0]),
    (pen.LinfNorm(3.0), [3.0, -4.0], [0.0, 1.0], [-4.0, 4.0]),
    (pen.GroupL2(5.0, [0, 0, 1]), [3.0, -4.0, 7.0], [0.0, 0.0, 1.0], [0.0, 0.0, -2.0]),
    (pen.L1Ball(2.0), [3.0, -4.0], 0.0, [0.0, 2.0]),
    (pen.L1Ball(2.0), [4.0, -4.0, 0.0], 0.0, [-1.0, 1.0, 0.0]),
    (pen.L1Ball(2.0), [3.0, -4.0], [0.0, 1.0], [-1.0, 1.0]),
    (pen.L2Ball(5.0), [3.0, -4.0], 0.0, [-3.0, 4.0]),
    (pen.L2Ball(5.0), [0.0, -4.0], [0.0, 1.0], [0.0, 4.0]),
    (pen.Simplex(2.0), [3.0, 3.0, 4.0], 0.0, [1.0, 1.0, 0.0]),
    (pen.Simplex(2.0), [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]),
    (pen.Simplex(2.0), [0.0, 0.0], 0.0, [1.0, 1.0]),
    (pen.Simplex(2.0) + pen.L2(1.0), [1.0, 0.0], 0.0, [0.5, 1.5]),
    (pen.KL(2.0), [0.0, 0.0], 0.0, [0.5, 0.5]),
    (pen.KL(0.0), [1.0, 1.0], 0.0, [0.5, 0.5]),
]


@pytest.mark.parametrize(("penalty", "u", "h", "x"), FLAT, ids=lambda v: repr(v) if isinstance(v, pen.Penalty) else "")
def test_no_curvature_but_a_minimizer(penalty, u, h, x):
    np.testing.assert_allclose(penalty.solve(u, h), x, rtol=1e-14, atol=1e-15)


ENDLESS = [
    (pen.NoPenalty(), [0.0, 2.0], [1.0, 0.0], 1),
    (pen.L1(1.0), [1.0, -1.5], 0.0, 1),
    (pen.L2([2.0, 0.0]), [1.0, 1.0], 0.0, 1),
    (pen.Box(-1.0, np.inf), [1.0, -4.0], 0.0, 1),
    (pen.NonNegative(), [1.0, -4.0], 0.0, 1),
    (pen.L2Norm(5.0), [4.0, -4.0], 0.0, 0),
    (pen.L2Norm(5.0), [1.0, -5.0], [1.0, 0.0], 1),  # no descent direction of negative slope, but no minimizer
    (pen.LinfNorm(7.0), [1.0, -8.0], [1.0, 0.0], 1),
    (pen.GroupLinf(7.0, [0, 1]), [1.0, -8.0], [1.0, 0.0], 1),
    (pen.GroupL2(7.0), [[1.0, 1.0], [5.0, 8.0]], 0.0, (1, 0)),
]


@pytest.mark.parametrize(("penalty", "u", "h", "index"), ENDLESS)
def test_no_minimizer_is_an_error_that_names_the_place(penalty, u, h, index):
    value = np.asarray(u)[index]
    with pytest.raises(ValueError, match="no finite minimizer") as error:
        penalty.solve(u, h)
    for word in ("h = 0.0", f"index {index}", f"u = {value}", repr(penalty)):
        assert word in str(error.value)


def test_a_32_bit_overflow_is_an_error_too():
    with pytest.raises(ValueError, match="no finite minimizer"):
        pen.L1(0.0).solve(np.array([1e8], dtype=np.float32), 1e-35)
