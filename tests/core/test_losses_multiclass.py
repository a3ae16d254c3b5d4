"""Losses of k scores: softmax and the multiclass hinge against naive twins, numerical solvers and k = 2."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from proxstream.core import losses
from proxstream.core.losses import numerics

from ..examples import examples

LD = np.longdouble
EXTENDED = np.finfo(LD).eps < 1e-18
INF = math.inf

VECTOR = [losses.get(name) for name in losses.names() if losses.get(name).kind == "multiclass"]
every_loss = pytest.mark.parametrize("loss", VECTOR, ids=str)
both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


def _softmax(p, y):
    top = max(p)
    return top + np.log(sum(np.exp(v - top) for v in p)) - p[y]


def _crammer_singer(p, y):
    return max([LD(0)] + [1 + p[j] - p[y] for j in range(len(p)) if j != y])


TWIN = {"softmax": _softmax, "multiclass_hinge": _crammer_singer}


def twin(loss, p, y):
    return TWIN[loss.name](np.asarray(p, LD), y)


def fenchel_gap(loss, p, y, a):
    """phi(p) + phi*(a) - <a, p>: never negative, and zero exactly where a is a subgradient at p."""
    # a's sum is 0 up to rounding: make it 0 here, so that the rounding is not multiplied by scores of 1e4
    a = np.array(a, LD)
    a[y] = 0
    a /= max(np.sum(a), 1)
    a[y] = -min(np.sum(a), 1)
    p = np.asarray(p, LD)
    return float(twin(loss, p, y) + loss.conjugate(a, y) - np.sum(a * (p - p[y])))


def unit(y, k):
    return (np.arange(k) == y).astype(float)


@st.composite
def cases(draw):
    """(p, y, alpha, c): ties, zeros and scores of 1e4, alpha = e_y - b with b in the simplex, c from 0 to 1e12."""
    k = draw(st.integers(1, 7))
    y = draw(st.integers(0, k - 1))
    score = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e4, -1e4]), st.floats(-5, 5), st.floats(-1e4, 1e4))
    p = np.array(draw(st.lists(score, min_size=k, max_size=k)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    b = rng.dirichlet(np.full(k, draw(st.sampled_from([0.1, 1.0, 10.0]))))
    c = draw(st.one_of(st.sampled_from([0.0, 1e-12, 1.0, 1e12]), st.floats(-12, 12).map(lambda e: 10.0**e)))
    return p, y, unit(y, k) - b, c


def in_domain(a, y):
    others = np.delete(a, y)
    return np.all(others >= 0) and -1 <= a[y] <= 0 and abs(a.sum()) <= len(a) * 1e-15


# --- value, slope, conjugate


def test_every_vector_loss_has_a_twin():
    assert {loss.name for loss in VECTOR} == set(TWIN)


@every_loss
@examples(300)
@given(case=cases())
def test_value_is_its_twin_and_fenchel_young_holds(loss, case):
    p, y, alpha, _ = case
    spread = 1 + np.abs(p).max()
    assert abs(loss.value(p, y) - twin(loss, p, y)) <= 1e-15 * spread
    assert fenchel_gap(loss, p, y, -alpha) >= -1e-15 * spread
    slope = loss.slope(p, y)
    assert in_domain(slope, y)
    assert abs(fenchel_gap(loss, p, y, slope)) <= 2e-15 * spread


@every_loss
def test_slope_is_the_gradient(loss):
    rng = np.random.default_rng(0)
    h = LD(1e-6)
    for _ in range(300):
        k = rng.integers(2, 6)
        y = rng.integers(k)
        p = 2 * rng.standard_normal(k)
        numerical = [(twin(loss, p + h * e, y) - twin(loss, p - h * e, y)) / (2 * h) for e in np.eye(k)]
        assert loss.slope(p, y) == pytest.approx(np.array(numerical, float), abs=1e-6)


@pytest.mark.skipif(not EXTENDED, reason="needs a longdouble wider than float64")
@both_precisions
def test_softmax_is_accurate_in_the_tails(dtype):
    rng = np.random.default_rng(1)
    info = np.finfo(dtype)
    for scale in (1.0, 30.0, 1e3):  # longdouble holds e^10000, so the textbook formulas serve
        p = np.clip(scale * rng.standard_normal((50, 4)), -5e3, 5e3).astype(dtype)
        for y in range(4):
            d = p.astype(LD) - p[:, [y]].astype(LD)
            others = np.exp(np.delete(d, y, axis=1)).sum(axis=1)
            value, slope = losses.softmax.value(p, y), losses.softmax.slope(p, y)
            assert value.dtype == slope.dtype == dtype
            # p_j - p_y is rounded once, which moves its exponential by as much as its size
            blur = info.eps * (8 + np.abs(d).max(axis=1))
            assert np.all(np.abs(value - np.log1p(others)) <= blur * np.log1p(others) + info.tiny)
            expected = others / (1 + others)
            assert np.all(np.abs(-slope[:, y] - expected) <= 2 * blur * expected + info.tiny)


def test_the_documented_choice_at_ties():
    hinge = losses.multiclass_hinge
    assert hinge.slope(np.array([0.0, 0.0, 0.0]), 1).tolist() == [1, -1, 0]
    assert hinge.slope(np.array([1.0, 2.0, 1.0]), 1).tolist() == [0, 0, 0]
    assert hinge.slope(np.array([1.5, 2.0, 1.5]), 1).tolist() == [1, -1, 0]


@every_loss
@both_precisions
def test_conjugate_at_the_edges_of_its_domain(loss, dtype):
    for y in range(3):
        corner = -unit(y, 3)
        for j in range(3):
            assert loss.conjugate((corner + unit(j, 3)).astype(dtype), y) == (
                0 if j == y or loss.name == "softmax" else -1
            )
        j = (y + 1) % 3
        middle = 0.5 * unit(j, 3) - 0.5 * unit(y, 3)
        expected = -0.5 if loss.name == "multiclass_hinge" else -math.log(2)
        assert loss.conjugate(middle.astype(dtype), y) == pytest.approx(expected, rel=1e-6)
        outside = [
            -middle,
            3 * middle,
            middle + 0.01 * unit(j, 3),
            middle + 0.01 * (unit(j, 3) - unit((y + 2) % 3, 3)),
        ]
        for a in outside:
            assert loss.conjugate(a.astype(dtype), y) == INF


@every_loss
def test_biconjugate_is_the_loss(loss):
    grid = np.linspace(0, 1, 401)
    b = np.array([(s, t, 1 - s - t) for s in grid for t in grid if s + t <= 1])
    b[:, 2] = np.maximum(b[:, 2], 0)
    for p in ([0.3, -0.7, 1.1], [0.0, 0.0, 0.0], [2.0, 1.0, 0.5]):
        for y in range(3):
            a = b - unit(y, 3)
            assert np.max(a @ np.array(p) - loss.conjugate(a, y)) == pytest.approx(loss.value(np.array(p), y), abs=1e-4)


@every_loss
def test_constants_hold_and_are_tight(loss):
    rng = np.random.default_rng(2)
    p = np.concatenate([rng.standard_normal((2000, 4)) * 3, np.full((1, 4), -50.0), np.eye(4) * 40 - 40])
    q = p + 1e-4 * rng.standard_normal(p.shape)
    p[-5], q[-5] = (
        [0, 0, -50, -50],
        [1e-4, -1e-4, -50, -50],
    )  # b = (1/2, 1/2, 0, 0), along its steepest direction
    p[-6], q[-6] = [0, 1e-4, 0, 0], [0, 0, 1e-4, 0]  # across a kink
    slopes = np.concatenate([loss.slope(p, y) for y in range(4)])
    steepest = np.linalg.norm(slopes, axis=-1).max()
    assert 0.999 * loss.lipschitz <= steepest <= loss.lipschitz * (1 + 1e-12)
    change = np.linalg.norm(loss.slope(p, 0) - loss.slope(q, 0), axis=-1) / np.linalg.norm(p - q, axis=-1)
    if math.isinf(loss.smoothness):
        assert change.max() > 100
    else:
        assert 0.999 * loss.smoothness <= change.max() <= loss.smoothness * (1 + 1e-6)


# --- the two steps


@pytest.mark.default_cases(1)
@every_loss
@examples(600)
@given(case=cases())
def test_steps_are_subgradients_where_they_land(loss, case):
    p, y, alpha, c = case
    for start in (p, p - c * alpha):
        s = loss.implicit_step(start, y, c)
        assert in_domain(s, y)
        landed = start.astype(LD) - LD(c) * s.astype(LD)
        blur = 1 + np.abs(start).max() + c
        assert abs(fenchel_gap(loss, landed, y, s)) <= 1e-14 * blur
    assert loss.dual_step(p, y, alpha, c) == pytest.approx(-alpha - s, rel=0, abs=1e-15)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")  # of SciPy's solver
@every_loss
def test_dual_step_against_a_numerical_solver(loss):
    rng = np.random.default_rng(3)
    for _ in range(60):
        k = rng.integers(2, 6)
        y = rng.integers(k)
        p, c = 2 * rng.standard_normal(k), 10 ** rng.uniform(-1, 1)
        alpha = unit(y, k) - rng.dirichlet(np.ones(k))

        def negated(b, p=p, y=y, k=k, c=c, alpha=alpha):  # minus the objective, for alpha + delta = e_y - b
            b = np.maximum(b, 0) / np.maximum(b, 0).sum()
            delta = unit(y, k) - b - alpha
            return loss.conjugate(b - unit(y, k), y) + delta @ p + c / 2 * delta @ delta

        sums_to_one = {"type": "eq", "fun": lambda b: b.sum() - 1}
        start = np.full(k, 1 / k)
        found = minimize(negated, start, method="SLSQP", bounds=[(1e-12, 1)] * k, constraints=sums_to_one)
        b = unit(y, k) - alpha - loss.dual_step(p, y, alpha, c)
        assert negated(b) <= negated(found.x) + 1e-12
        # the objective is c-strongly concave: close in value is close in place
        assert np.linalg.norm(b - found.x) ** 2 <= 2 / c * (negated(found.x) - negated(b) + 1e-12) + 1e-9
        assert negated(found.x) - negated(b) <= 1e-4


def _bisect(f, low, high, steps=200):
    """The root of a falling function, elementwise."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = np.where(f(middle) > 0, middle, low), np.where(f(middle) > 0, high, middle)
    return (low + high) / 2


def _naive_steps(loss, p, y, c):
    """b - e_y by bisection inside bisection, in extended precision: p (n, k), y and c (n,)."""
    hot = np.arange(p.shape[1]) == y[:, None]
    p, c = p.astype(LD), c.astype(LD)[:, None]
    v = p - p[hot][:, None] + np.where(hot, c, 0)
    if loss.name == "multiclass_hinge":
        v = v - hot

        def b_of(theta):
            return np.maximum(v - theta, 0) / c
    else:

        def b_of(theta):  # log b + c b = v - theta
            q = _bisect(lambda q: v - theta - q - c * np.exp(q), np.full_like(v, -3e4), np.full_like(v, 1.0), 120)
            return np.exp(q)

    top = v.max(axis=1, keepdims=True)
    theta = _bisect(lambda t: b_of(t).sum(axis=1, keepdims=True) - 1, top - c - 1, top + 8, 120)
    return b_of(theta) - hot


@pytest.mark.skipif(not EXTENDED, reason="needs a longdouble wider than float64")
@every_loss
@pytest.mark.exhaustive
def test_steps_to_the_last_digits_at_every_scale(loss):
    rng = np.random.default_rng(4)
    n, k = 150, 5
    y, c = rng.integers(k, size=n), 10.0 ** rng.uniform(-4, 12, n)
    p = rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-3, 4, (n, 1))
    alpha = (np.arange(k) == y[:, None]) - rng.dirichlet(np.full(k, 0.5), n)
    p = np.where(rng.random((n, 1)) < 0.5, p, p - c[:, None] * alpha)  # as Prox-SDCA calls it, of the size of c
    # scores of size |p| are known to roundings of |p|; a step divides that by c
    tolerance = 1e-15 * (10 + 4 * np.abs(p).max(axis=1, keepdims=True) / np.maximum(c[:, None], 1))
    if loss.name == "multiclass_hinge":
        tolerance = 1e-15 * (10 + 4 * (1 + np.abs(p).max(axis=1, keepdims=True)) / c[:, None])
    assert np.all(np.abs(loss.implicit_step(p, y, c) - _naive_steps(loss, p, y, c)) <= tolerance)


@pytest.mark.parametrize(
    ("vector", "scalar"),
    [(losses.softmax, losses.logistic), (losses.multiclass_hinge, losses.hinge)],
    ids=["softmax", "multiclass_hinge"],
)
def test_two_classes_are_the_binary_loss_of_the_difference(vector, scalar):
    rng = np.random.default_rng(5)
    n = 3000
    p = rng.standard_normal((n, 2)) * 10.0 ** rng.uniform(-3, 4, (n, 1))
    p[:100] = np.round(p[:100])
    y, c = rng.integers(2, size=n), 10.0 ** rng.uniform(-12, 12, n)
    c[:50] = 0
    difference, sign = p[:, 1] - p[:, 0], 2.0 * y - 1.0
    assert vector.value(p, y) == pytest.approx(scalar.value(difference, sign), rel=1e-14, abs=0)
    for computed, expected in [
        (vector.slope(p, y), scalar.slope(difference, sign)),
        (vector.implicit_step(p, y, c), scalar.implicit_step(difference, sign, 2 * c)),  # ||(1, -1)||^2 = 2
    ]:
        assert computed[:, 1] == pytest.approx(expected, rel=0, abs=3e-15)
        assert computed[:, 0] == pytest.approx(-expected, rel=0, abs=3e-15)


@every_loss
def test_steps_at_zero_c_are_slopes_of_least_norm(loss):
    rng = np.random.default_rng(6)
    p, y = rng.standard_normal((50, 4)), rng.integers(4, size=50)
    assert loss.implicit_step(p, y, 0.0) == pytest.approx(loss.slope(p, y), rel=0, abs=1e-15)
    alpha = np.tile([0.5, -0.25, -0.25, 0.0], (50, 1))
    assert alpha + loss.dual_step(p, y, alpha, 0.0) == pytest.approx(-loss.slope(p, y), rel=0, abs=1e-15)
    tied = losses.multiclass_hinge.implicit_step
    for c in (0.0, 1e-13):
        assert tied(np.zeros(3), 1, c) == pytest.approx([0.5, -1.0, 0.5], rel=0, abs=1e-12)
        assert tied(np.array([1.0, 2.0, 1.0]), 1, c).tolist() == [0, 0, 0]


@every_loss
@both_precisions
def test_shapes_and_precision(loss, dtype):
    rng = np.random.default_rng(7)
    p = (1e4 * rng.standard_normal((2, 3, 4))).astype(dtype)
    y, c = rng.integers(4, size=(2, 3)), rng.random((2, 3)).astype(dtype)
    for result in (loss.value(p, y), loss.conjugate(loss.slope(p, y), y)):
        assert result.dtype == dtype
        assert result.shape == (2, 3)
    steps = [loss.slope(p, y), loss.implicit_step(p, y, c), loss.dual_step(p, y, 0 * p, c)]
    for result in steps:
        assert result.dtype == dtype
        assert result.shape == p.shape
        assert np.isfinite(result).all()
    for i in np.ndindex(2, 3):
        assert loss.value(p[i], y[i]) == loss.value(p, y)[i]
        assert loss.implicit_step(p[i], y[i], c[i]).tolist() == steps[1][i].tolist()
    for step in (loss.implicit_step(p, 0, 0.5), loss.dual_step(p, 0, 0 * p, 0.5)):  # numbers for y and c
        assert step.dtype == dtype
        assert step.shape == p.shape
    only = np.ones((1,), dtype)
    assert loss.value(only, 0) == 0
    assert loss.slope(only, 0) == loss.implicit_step(only, 0, 2.0) == 0


def test_softmax_probabilities():
    p = np.array([[1e4, 0.0, -1e4], [0.0, 0.0, 0.0]])
    assert losses.softmax.probabilities(p) == pytest.approx(np.array([[1, 0, 0], [1 / 3] * 3]))
    k = 500
    assert losses.softmax.value(np.zeros(k), 7) == pytest.approx(math.log(k), rel=1e-15)
    s = losses.softmax.implicit_step(np.zeros(k), 7, 3.0)
    assert losses.softmax.slope(-3.0 * s, 7) == pytest.approx(s, rel=1e-12)


@examples(300)
@given(v=st.lists(st.one_of(st.sampled_from([0.0, 1.0, -2.0]), st.floats(-3, 3)), min_size=1, max_size=8))
def test_simplex_projection(v):
    v = np.array(v)
    b = numerics.project_simplex(v)
    assert b.min() >= 0
    assert b.sum() == pytest.approx(1, rel=1e-14)
    assert numerics.project_simplex(b) == pytest.approx(b, rel=0, abs=1e-15)
    # v - b is normal to the simplex at b: largest, and equal, on the support
    normal = v - b
    assert np.all(normal[b > 0] >= normal.max() - 1e-14)


@every_loss
def test_labels(loss):
    loss.check_labels([0, 3, 2.0])
    loss.check_labels(2, k=3)
    for bad, k, message in [
        ([0, -1], None, r"must be an integer in 0..k-1, got -1 at index 1"),
        ([0.5], None, r"must be an integer in 0..k-1, got 0.5 at index 0"),
        ([1, INF], None, r"got inf at index 1"),
        ([1, 3], 3, r"must be an integer in 0..2, got 3 at index 1"),
        (["a"], 3, r"must be an integer in 0..2, got 'a' at index 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss.check_labels(bad, k)
