"""Losses of one score: every registered loss against a naive twin, its conjugate, its steps, its constants.

The twins are written the long way and run in extended precision; all tests read the registry, so a loss
that is registered without a twin, a domain and its kinks fails here.
"""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import wrightomega

from proxstream.core import losses
from proxstream.core.losses import numerics

from ..examples import examples

LD = np.longdouble
EXTENDED = np.finfo(LD).eps < 1e-18
INF = math.inf


def _log1pexp(z):
    return np.where(z > 0, z, 0) + np.log1p(np.exp(-np.abs(z)))


def _smoothed_hinge(loss, p, y):
    m, gamma = y * p, loss.gamma
    middle = (1 - m) ** 2 / (2 * gamma)
    return np.where(m >= 1, 0, np.where(m <= 1 - gamma, 1 - m - LD(gamma) / 2, middle))


def _huber(loss, p, y):
    r = np.abs(p - y)
    return np.where(r <= loss.delta, r**2 / 2, loss.delta * r - LD(loss.delta) ** 2 / 2)


def _pinball(loss, p, y):
    return np.where(y > p, loss.tau * (y - p), (1 - loss.tau) * (p - y))


def _poisson(loss, p, y):
    with np.errstate(over="ignore"):
        return np.exp(p) - y * p


def _gamma(loss, p, y):
    with np.errstate(over="ignore"):
        return y * np.exp(-p) + p


def _tweedie(loss, p, y):
    one, two = 1 - LD(loss.power), 2 - LD(loss.power)
    with np.errstate(over="ignore"):
        first = np.where(y > 0, -np.exp(np.where(y > 0, one * p, 0)) * y / one, 0)
        return first + np.exp(two * p) / two


TWIN = {
    "logistic": lambda loss, p, y: _log1pexp(-y * p),
    "hinge": lambda loss, p, y: np.where(y * p < 1, 1 - y * p, 0),
    "squared_hinge": lambda loss, p, y: np.where(y * p < 1, (1 - y * p) ** 2, 0),
    "smoothed_hinge": _smoothed_hinge,
    "perceptron": lambda loss, p, y: np.where(y * p < 0, -y * p, 0),
    "ranking_hinge": lambda loss, p, y: np.where(y * p < 1, 1 - y * p, 0),
    "squared": lambda loss, p, y: (p - y) ** 2 / 2,
    "absolute": lambda loss, p, y: np.abs(p - y),
    "huber": _huber,
    "epsilon_insensitive": lambda loss, p, y: np.where(np.abs(p - y) > loss.epsilon, np.abs(p - y) - loss.epsilon, 0),
    "quantile": _pinball,
    "poisson": _poisson,
    "gamma": _gamma,
    "tweedie": _tweedie,
}

# The interval on which the conjugate is finite, for a label y.
DOMAIN = {
    "logistic": lambda loss, y: sorted((0.0, -y)),
    "hinge": lambda loss, y: sorted((0.0, -y)),
    "squared_hinge": lambda loss, y: sorted((0.0, -y * INF)),
    "smoothed_hinge": lambda loss, y: sorted((0.0, -y)),
    "perceptron": lambda loss, y: sorted((0.0, -y)),
    "ranking_hinge": lambda loss, y: sorted((0.0, -y)),
    "squared": lambda loss, y: [-INF, INF],
    "absolute": lambda loss, y: [-1.0, 1.0],
    "huber": lambda loss, y: [-loss.delta, loss.delta],
    "epsilon_insensitive": lambda loss, y: [-1.0, 1.0],
    "quantile": lambda loss, y: [-loss.tau, 1.0 - loss.tau],
    "poisson": lambda loss, y: [-y, INF],
    "gamma": lambda loss, y: [-INF, 1.0],
    "tweedie": lambda loss, y: [-INF if y > 0 else 0.0, INF],
}

# The points without a derivative, for a label y, and the slope that the class documents there.
KINKS = {
    "hinge": lambda loss, y: {y: 0.0},
    "perceptron": lambda loss, y: {0.0: -y},
    "ranking_hinge": lambda loss, y: {y: 0.0},
    "absolute": lambda loss, y: {y: 0.0},
    "epsilon_insensitive": lambda loss, y: {y - loss.epsilon: 0.0, y + loss.epsilon: 0.0},
    "quantile": lambda loss, y: {y: 0.0},
}

VARIANTS = [
    losses.smoothed_hinge(0.01),
    losses.smoothed_hinge(5.0),
    losses.huber(0.25),
    losses.huber(3.0),
    losses.epsilon_insensitive(0.0),
    losses.epsilon_insensitive(0.5),
    losses.quantile(0.125),
    losses.quantile(0.9),
    losses.tweedie(1.05),
    losses.tweedie(1.9),
]
SCALAR = [losses.get(name) for name in losses.names() if losses.get(name).kind != "multiclass"] + VARIANTS

every_loss = pytest.mark.parametrize("loss", SCALAR, ids=str)
both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


def labels_of(loss):
    if loss.kind != "regression":
        return [-1.0, 1.0]
    if loss.link == "log":
        return [0.25, 0.5, 3.0] if loss.name == "gamma" else [0.0, 0.5, 3.0]
    return [-2.0, 0.0, 0.5]


def range_of(loss):
    """Scores beyond which an exponential alone swamps any check."""
    power = {"poisson": 1.0, "gamma": 2.0}.get(loss.name, getattr(loss, "power", None))
    if power is None:
        return -1e4, 1e4
    return (max(-30.0 / (power - 1.0), -1e4) if power > 1.0 else -1e4), (30.0 / (2.0 - power) if power < 2.0 else 1e4)


def kinks_of(loss, y):
    return KINKS.get(loss.name, lambda loss, y: {})(loss, y)


def kinks_in_floats(loss, y):
    """Those kinks that a float can stand on: y + 0.1 may round to a point beside the edge of the tube."""
    return {p: s for p, s in kinks_of(loss, y).items() if abs(p - y) == getattr(loss, "epsilon", abs(p - y))}


def twin(loss, p, y):
    return TWIN[loss.name](loss, np.asarray(p, LD), np.asarray(y, LD))


def fenchel_gap(loss, p, y, a):
    """phi(p) + phi*(a) - a p: never negative, and zero exactly where a is a subgradient at p."""
    p, y, a = LD(p), LD(y), LD(a)
    return float(twin(loss, p, y) + loss.conjugate(a, y) - a * p)


def case(loss):
    """(p, y, alpha, c): kinks, zeros and 1e4 among the scores, alpha in the domain, c from 0 to 1e12."""

    def with_label(y):
        lo, hi = DOMAIN[loss.name](loss, y)
        special = [0.0, 1.0, -1.0, y, 1e4, -1e4, 1e3, -1e3, *kinks_of(loss, y)]
        low, high = range_of(loss)
        p = st.one_of(st.sampled_from(special), st.floats(-5, 5), st.floats(-1e4, 1e4))
        p = p.map(lambda v: min(max(v, low), high))
        alpha = st.floats(max(-hi, -20.0), min(-lo, 20.0))
        c = st.one_of(st.sampled_from([0.0, 1e-12, 1.0, 1e12]), st.floats(-12, 12).map(lambda e: 10.0**e))
        return st.tuples(p, st.just(y), alpha, c)

    return st.sampled_from(labels_of(loss)).flatmap(with_label)


# --- value and slope


@every_loss
@both_precisions
def test_value_is_its_twin(loss, dtype):
    p = np.concatenate([np.linspace(-6, 6, 241), [-1e4, -1e3, -800, -100, 80, 100, 700, 800, 1e3, 1e4]])
    for y in labels_of(loss):
        at, label = np.append(p, list(kinks_of(loss, y))).astype(dtype), dtype(y)
        value, expected = loss.value(at, label), twin(loss, at, label)
        assert value.dtype == dtype
        representable = expected < np.finfo(dtype).max
        assert np.all(value[~representable] == INF)
        at, value, expected = at[representable], value[representable], expected[representable]
        rounded_exponent = np.abs(at) if loss.name == "tweedie" else 0.0  # (2 - power) p is rounded before e^ of it
        scale = np.abs(expected) * (1 + rounded_exponent) + (1 + np.abs(at)) * (1 + abs(y))
        assert np.all(np.abs(value - expected) <= 4 * np.finfo(dtype).eps * scale)


@every_loss
@examples(150)
@given(data=st.data())
def test_slope_is_the_derivative(loss, data):
    p, y = data.draw(st.floats(-20, 20)), data.draw(st.sampled_from(labels_of(loss)))
    h = LD(1e-7)
    assume(all(abs(p - kink) > 2 * h for kink in kinks_of(loss, y)))
    difference = float((twin(loss, p + h, y) - twin(loss, p - h, y)) / (2 * h))
    # Off by h times the curvature's jump, which is 100 for the smoothed hinge with gamma = 0.01.
    noise = 1e-4 if loss.smoothness == 100 else 1e-6
    assert float(loss.slope(p, y)) == pytest.approx(difference, rel=1e-6, abs=noise)


@every_loss
def test_curvature_is_the_slope_of_the_slope_and_only_smooth_losses_have_one(loss):
    if not loss.smooth:
        with pytest.raises(TypeError, match="has no second derivative"):
            loss.curvature(0.5, 1.0)
        return
    p, h = np.random.default_rng(0).uniform(-6, 6, 500), 1e-6
    for y in labels_of(loss):
        left, right = (np.diff(loss.slope(p + np.array([[side - h], [side]]), y), axis=0)[0] / h for side in (0.0, h))
        curvature = loss.curvature(p, y)
        slack = 1e-4 * (1 + np.abs(curvature))
        assert np.all(curvature >= np.minimum(left, right) - slack)
        assert np.all(curvature <= np.maximum(left, right) + slack)


@every_loss
def test_slope_at_a_kink_is_the_documented_subgradient(loss):
    q = np.linspace(-10, 10, 2001)
    for y in labels_of(loss):
        kinks = kinks_in_floats(loss, y)
        assert bool(kinks_of(loss, y)) == (loss.smoothness == INF and not loss.smooth)
        for p, documented in kinks.items():
            slope = loss.slope(p, y)
            assert slope == documented
            assert np.all(loss.value(q, y) >= loss.value(p, y) + slope * (q - p) - 1e-12)


@pytest.mark.skipif(not EXTENDED, reason="needs a longdouble wider than float64")
@both_precisions
def test_logistic_is_accurate_in_both_tails(dtype):
    m = np.concatenate([np.linspace(-1e4, 1e4, 4001), np.linspace(-50, 50, 2001)]).astype(dtype)
    wide = m.astype(LD)  # longdouble holds e^10000, so the textbook formulas serve
    info = np.finfo(dtype)
    for computed, expected in [
        (losses.logistic.value(m, dtype(1)), np.log1p(np.exp(-wide))),
        (-losses.logistic.slope(m, dtype(1)), 1 / (1 + np.exp(wide))),
        (losses.logistic.slope(m, dtype(-1)), 1 / (1 + np.exp(-wide))),
        (losses.logistic.probabilities(m), 1 / (1 + np.exp(-wide))),
    ]:
        assert computed.dtype == dtype
        assert np.all(np.abs(computed - expected) <= 4 * info.eps * expected + info.tiny)


@every_loss
@both_precisions
def test_no_warning_and_the_same_precision_out(loss, dtype):
    p = np.array([-1e4, -1e3, -88.8, -1.0, 0.0, 1.0, 88.7, 88.8, 709.7, 710.0, 1e3, 1e4], dtype)
    a = np.linspace(-4, 4, 12).astype(dtype)
    for y in labels_of(loss):
        label = np.full_like(p, y)
        results = [loss.value(p, label), loss.slope(p, label), loss.conjugate(a, label)]
        results += [loss.curvature(p, label)] if loss.smooth else []
        for c in (0.0, 1e-12, 1.0, 1e12):
            results += [loss.implicit_step(p, label, dtype(c)), loss.dual_step(p, label, 0 * p, dtype(c))]
        for result in results:
            assert result.dtype == dtype
            assert result.shape == p.shape
            assert not np.isnan(result).any()
        one = [loss.value(p[3], label[3]), loss.slope(p[3], label[3]), loss.conjugate(a[3], label[3])]
        assert [type(result) for result in one] == [dtype] * 3
        # On some processors NumPy's powers and logarithms of arrays and of single numbers differ in the last bit.
        together = [results[0][3], results[1][3], results[2][3]]
        np.testing.assert_allclose(one, together, rtol=8 * np.finfo(dtype).eps)


@every_loss
def test_python_floats_are_welcome(loss):
    y = labels_of(loss)[-1]
    for result in (
        loss.value(0.3, y),
        loss.slope(0.3, y),
        loss.conjugate(0.1, y),
        loss.dual_step(0.3, y, 0.1, 2.0),
    ):
        assert np.shape(result) == ()
        assert isinstance(result, float)


def test_poisson_reaches_the_largest_float():
    top = math.log(np.finfo(np.float64).max)
    assert math.isfinite(losses.poisson.value(np.nextafter(top, 0), 1.0))
    assert losses.poisson.value(top + 1e-9, 1.0) == INF == losses.poisson.slope(top + 1e-9, 1.0)


# --- conjugate


@pytest.mark.default_cases(8)
@every_loss
@examples(150)
@given(data=st.data())
def test_fenchel_young(loss, data):
    p, y, alpha, _ = data.draw(case(loss))
    scale = (1 + abs(p)) * (1 + abs(alpha) + abs(y))
    assert fenchel_gap(loss, p, y, -alpha) >= -1e-15 * scale
    slope = loss.slope(p, y)
    assert abs(fenchel_gap(loss, p, y, slope)) <= 1e-14 * (1 + abs(p)) * (1 + abs(slope) + abs(y))


@every_loss
def test_conjugate_is_the_supremum_and_biconjugate_the_loss(loss):
    p = np.linspace(-40, 40, 80001)
    for y in labels_of(loss):
        lo, hi = DOMAIN[loss.name](loss, y)
        # slopes at scores of the grid, where it is fine enough
        lowest, highest = loss.slope(np.array([-3.0, 3.0]), y) if loss.name in ("gamma", "tweedie") else (-20.0, 20.0)
        lo, hi = max(lo, lowest), min(hi, highest)
        a = np.linspace(lo, hi, 80001)
        # phi* from phi, away from the edges where the supremum is at infinity
        for inner in lo + (hi - lo) * np.array([0.02, 0.3, 0.5, 0.8, 0.98]):
            expected = np.max(inner * p - loss.value(p, y))
            assert loss.conjugate(inner, y) == pytest.approx(expected, abs=2e-5)
        # phi from phi*
        for q in (-2.5, -1.0, -0.3, 0.0, 0.4, 1.0, 2.5):
            assert np.max(a * q - loss.conjugate(a, y)) == pytest.approx(loss.value(q, y), abs=2e-5)


@every_loss
@both_precisions
def test_conjugate_is_finite_up_to_its_edges_and_infinite_past_them(loss, dtype):
    for y in labels_of(loss):
        for edge, outwards in zip(DOMAIN[loss.name](loss, y), (-INF, INF), strict=True):
            if math.isinf(edge):
                assert np.isfinite(loss.conjugate(dtype(math.copysign(1e3, outwards)), dtype(y)))
                continue
            at = dtype(edge)
            inwards = np.nextafter(at, dtype(-outwards))
            assert loss.conjugate(at, dtype(y)) == pytest.approx(loss.conjugate(inwards, dtype(y)), abs=1e-4)
            assert np.isfinite(loss.conjugate(at, dtype(y)))
            past = np.nextafter(at, dtype(outwards)) if edge else dtype(math.copysign(1e-30, outwards))
            assert loss.conjugate(past, dtype(y)) == INF


def test_entropies_at_their_edges():
    for y in (-1.0, 1.0):
        assert losses.logistic.conjugate(0.0, y) == 0.0 == losses.logistic.conjugate(-y, y)
    assert losses.logistic.conjugate(-1e-16, 1.0) == pytest.approx(-1e-16 * (math.log(1e16) + 1), rel=1e-12, abs=0)
    assert losses.poisson.conjugate(-3.0, 3.0) == 0.0


# --- constants


@every_loss
def test_constants_hold_and_are_tight(loss):
    near = np.linspace(-8, 8, 16001)
    far = np.array([-1e4, -1e3, -50.0, 20.0, 1e3, 1e4])
    steepest = curvature = 0.0
    for y in labels_of(loss):
        low, high = range_of(loss)
        p = np.sort(np.concatenate([near, far[(far > low) & (far < high)]]))
        slope = loss.slope(p, y)
        steepest = max(steepest, np.abs(slope).max())
        curvature = max(curvature, np.max(np.abs(np.diff(slope)) / np.diff(p)))
    for measured, constant in [(steepest, loss.lipschitz), (curvature, loss.smoothness)]:
        if math.isinf(constant):
            assert measured > 100  # a kink on this grid, or growth
        else:
            assert 0.999 * constant <= measured <= constant * (1 + 1e-9)


# --- the two steps


@pytest.mark.default_cases(8)
@every_loss
@examples(150)
@given(data=st.data())
def test_implicit_step_is_a_subgradient_where_it_lands(loss, data):
    p, y, _, c = data.draw(case(loss))
    s = loss.implicit_step(p, y, c)
    lo, hi = DOMAIN[loss.name](loss, y)
    assert lo <= s <= hi
    landed = LD(p) - LD(c) * LD(s)
    # s is rounded, so p - c s is known to c |s| roundings; phi is as steep as s or y there
    blur = (1 + abs(p) + abs(c * s)) * (1 + abs(s) + abs(y))
    assert abs(fenchel_gap(loss, landed, y, s)) <= 2e-14 * blur


@pytest.mark.default_cases(8)
@every_loss
@examples(150)
@given(data=st.data())
def test_dual_step_maximizes_its_objective(loss, data):
    p, y, alpha, c = data.draw(case(loss))
    assume(loss.link != "log" or range_of(loss)[0] <= p - c * alpha <= range_of(loss)[1])
    lo, hi = DOMAIN[loss.name](loss, y)
    delta = loss.dual_step(p, y, alpha, c)
    new = -loss.implicit_step(p - c * alpha, y, c)
    assert lo <= -new <= hi
    assert abs(alpha + delta - new) <= 4e-16 * (abs(alpha) + abs(new))

    def objective(d):
        return -loss.conjugate(-(LD(alpha) + d), LD(y)) - d * LD(p) - LD(c) / 2 * d * d

    # Against points of the domain on both sides, near and far, and the bounded scalar minimizer's.
    reach = 10 * (abs(alpha) + abs(new) + 1)
    low, high = max(-hi, -reach), min(-lo, reach)
    rivals = [
        low,
        high,
        alpha,
        *np.clip(new + np.outer([-1, 1], 10.0 ** np.arange(-8.0, 1)).ravel(), low, high),
    ]
    found = minimize_scalar(lambda d: -float(objective(LD(d))), bounds=(low - alpha, high - alpha), method="bounded")
    rivals.append(np.clip(alpha + found.x, low, high))
    best = max(objective(LD(rival) - LD(alpha)) for rival in rivals)
    roundings = (1 + abs(p) + abs(c * alpha)) * (abs(alpha) + abs(new) + 1) + c * delta**2
    assert objective(LD(new) - LD(alpha)) >= best - 1e-14 * roundings


@every_loss
def test_steps_find_the_minimizer_of_a_golden_section(loss):
    rng = np.random.default_rng(5)
    n = 2000
    y = rng.choice(labels_of(loss), n).astype(LD)
    p = (3 * rng.standard_normal(n)).astype(LD)
    p[: n // 10] = y[: n // 10]  # ties: on the label, or on the margin
    c = (10.0 ** rng.uniform(-2, 2, n)).astype(LD)
    s = loss.implicit_step(p.astype(float), y.astype(float), c.astype(float))
    # |p' - p| = c |s| and |s| <= |slope(p)|, so this bracket holds the minimizer
    reach = c * np.abs(loss.slope(p, y)) + 1
    low, high = p - reach, p + reach
    if loss.name == "tweedie":  # the minimizer is between p and log y, and further out both sides are infinite
        best = np.where(y > 0, np.log(np.where(y > 0, y, 1)), -np.inf)
        low, high = np.maximum(low, np.minimum(p, best) - 1), np.minimum(high, np.maximum(p, best) + 1)
    ratio = (np.sqrt(LD(5)) - 1) / 2
    for _ in range(120):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        go_left = c * twin(loss, left, y) + (left - p) ** 2 / 2 < c * twin(loss, right, y) + (right - p) ** 2 / 2
        low, high = np.where(go_left, low, left), np.where(go_left, right, high)
    resolution = math.sqrt(np.finfo(LD).eps) * 100  # a minimum is flat: its place is known to the root of the eps
    assert np.all(np.abs((p - c * s) - (low + high) / 2) <= resolution * (1 + reach))


@every_loss
def test_steps_at_zero_c_are_slopes_of_least_norm(loss):
    for y in labels_of(loss):
        kinks = kinks_of(loss, y)
        p = np.array([v for v in (-7.3, -1.0, -0.2, 0.0, 0.2, 1.0, 3.1) if v not in kinks])
        assert loss.implicit_step(p, y, 0.0) == pytest.approx(loss.slope(p, y), rel=1e-15, abs=1e-15)
        assert 0.25 + loss.dual_step(p, y, 0.25, 0.0) == pytest.approx(-loss.slope(p, y), rel=1e-15, abs=1e-15)
        assert loss.implicit_step(p, y, 1e-13) == pytest.approx(loss.slope(p, y), rel=1e-8, abs=1e-8)
        for kink in kinks_in_floats(loss, y):
            assert loss.implicit_step(kink, y, 0.0) == 0.0 == loss.implicit_step(kink, y, 1e-13)


def _bisect(f, low, high):
    """The root of an increasing function, elementwise."""
    for _ in range(200):
        middle = (low + high) / 2
        above = f(middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


def _extreme_cases(dtype, n=4000):
    rng = np.random.default_rng(11)
    p = (rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-6, 4, n)).astype(dtype)
    c = (10.0 ** rng.uniform(-12, 12, n)).astype(dtype)
    return rng, p, c


@pytest.mark.skipif(not EXTENDED, reason="needs a longdouble wider than float64")
@both_precisions
def test_logistic_steps_to_the_last_digits_at_every_scale(dtype):
    rng, m, c = _extreme_cases(dtype)
    eps = np.finfo(dtype).eps

    def exact(m):
        wide, cc = m.astype(LD), c.astype(LD)
        x = _bisect(lambda x: x - wide - cc / (1 + np.exp(np.minimum(x, 1.1e4))), wide, wide + cc)
        return np.exp(-_log1pexp(x))

    expected = exact(m)
    computed = -losses.logistic.implicit_step(m, dtype(1), c)
    assert np.all(np.abs(computed - expected) <= 32 * eps * expected + np.finfo(dtype).tiny)
    # As Prox-SDCA calls it: p - c alpha with alpha in (0, 1), of the size of c.
    m = m - c * rng.random(len(m)).astype(dtype)
    assert np.all(np.abs(-losses.logistic.implicit_step(m, dtype(1), c) - exact(m)) <= 2 * eps)


@pytest.mark.skipif(not EXTENDED, reason="needs a longdouble wider than float64")
@both_precisions
def test_poisson_steps_to_the_last_digits_at_every_scale(dtype):
    rng, p, c = _extreme_cases(dtype)
    y = np.where(rng.random(len(p)) < 0.3, 0, 10 ** rng.uniform(-3, 4, len(p))).astype(dtype)
    computed = losses.poisson.implicit_step(p, y, c)
    pp, yy, cc = p.astype(LD), y.astype(LD), c.astype(LD)
    q = _bisect(lambda q: q - pp + cc * (np.exp(q) - yy), np.full_like(pp, -3e4), np.full_like(pp, 1.1e4))
    expected = np.where(cc * np.exp(q) > 1, (pp - q) / cc, np.exp(q) - yy)
    eps, tiny = np.finfo(dtype).eps, np.finfo(dtype).tiny
    assert np.all(computed >= -y)
    assert np.all(np.abs(computed - expected) <= 64 * eps * np.maximum(np.exp(q), yy) + tiny)
    # Where it lands, p - c s, is known to roundings of p and q
    assert np.all(cc * np.abs(computed - expected) <= 64 * eps * (1 + np.abs(pp) + np.abs(q)))
    # As Prox-SDCA may call it with alpha = y, the edge of the domain: c y swallows p, yet s stays inside.
    assert np.all(losses.poisson.implicit_step(p - c * (100 * y), 100 * y, c) >= -100 * y)


@every_loss
def test_a_step_does_not_depend_on_its_neighbours(loss):
    _, p, c = _extreme_cases(np.float64, 300)
    y = labels_of(loss)[-1]
    together = loss.implicit_step(p, y, c)
    assert together.tolist() == [loss.implicit_step(p[i : i + 1], y, c[i : i + 1])[0] for i in range(300)]


def test_exp_root_is_wrights_omega():
    length = np.concatenate([np.linspace(-700, 700, 2801), [-1e4, 1e4, 1e12]])
    assert np.exp(numerics.exp_root(length, 1.0)) == pytest.approx(wrightomega(length), rel=1e-13, abs=0)


@pytest.mark.skipif(not EXTENDED, reason="needs a longdouble wider than float64")
@pytest.mark.default_cases(2)
@pytest.mark.parametrize("power", [1.05, 1.5, 1.95, 2.0])
def test_tweedie_and_gamma_steps_to_the_last_digits_at_every_scale(power):
    rng, p, c = _extreme_cases(np.float64)
    y = np.where((rng.random(len(p)) < 0.3) & (power < 2), 0, 10 ** rng.uniform(-3, 4, len(p)))
    loss = losses.gamma if power == 2.0 else losses.tweedie(power)
    p = np.clip(p, *range_of(loss))
    computed = loss.implicit_step(p, y, c)
    pp, yy, cc = p.astype(LD), y.astype(LD), c.astype(LD)
    best = np.where(yy > 0, np.log(np.where(yy > 0, yy, 1)), -1e5)
    q = _bisect(lambda q: q - pp + cc * loss.slope(q, yy), np.minimum(pp, best), np.maximum(pp, best))
    # Where it lands, p - c s, is known to roundings of p, q and log y
    assert np.all(
        np.abs(pp - cc * computed - q)
        <= 64 * np.finfo(np.float64).eps * (1 + np.abs(pp) + np.abs(q) + cc * np.abs(computed))
    )


# --- what scores mean


def test_means_and_probabilities_follow_the_link():
    scores = np.array([-1.0, 0.0, 800.0])
    links = {name: losses.get(name).link for name in losses.names()}
    assert {name for name, link in links.items() if link == "log"} == {"poisson", "gamma", "tweedie"}
    assert {name for name, link in links.items() if link == "logit"} == {"logistic", "softmax"}
    for name, link in links.items():
        loss = losses.get(name)
        assert (link == "identity") == loss.of_residuals
        assert loss.has_probabilities == (link == "logit")
        if link in ("identity", "log"):
            assert np.array_equal(loss.mean(scores), scores if link == "identity" else [math.exp(-1.0), 1.0, INF])
        else:
            with pytest.raises(TypeError, match=f"loss {name}.* does not predict a mean"):
                loss.mean(scores)
        if not loss.has_probabilities:
            with pytest.raises(TypeError, match="does not give probabilities; available outputs: labels, scores"):
                loss.probabilities(scores)
    assert losses.logistic.probabilities(scores) == pytest.approx(1 / (1 + np.exp(-scores)), rel=1e-15)
    apart = losses.logistic.probabilities(np.array([[0.0, 0.0, -800.0], [1.0, 2.0, 3.0]]))
    assert apart[0].tolist() == [0.5, 0.5, 0.0]
    assert apart.sum(axis=1) == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize("loss", [loss for loss in SCALAR if loss.has_sides], ids=str)
def test_sides_are_the_loss_as_a_maximum_over_bounded_numbers(loss):
    p = np.linspace(-4, 4, 161)
    for y in labels_of(loss):
        sigma, c, h, o, e = loss.sides(np.full(len(p), y))
        slack = c - sigma * p
        beta = np.clip(slack / e, 0.0, h) if e else h * (slack > 0.0)
        assert np.sum(beta * slack - 0.5 * e * beta**2, axis=0) - o * (y - p) == pytest.approx(
            loss.value(p, y), abs=1e-12
        )


# --- the objects


def test_every_name_is_a_loss_of_this_module_and_in_its_table():
    assert len(losses.names()) == 16
    assert set(TWIN) == set(DOMAIN) == {n for n in losses.names() if losses.get(n).kind != "multiclass"}
    for name in losses.names():
        loss = getattr(losses, name)
        assert loss is losses.get(name)
        assert loss.name == name
        assert name in losses.__all__
        assert f"\n    {name} " in losses.__doc__
        assert loss.kind in ("binary", "regression", "multiclass", "ranking")
        doc = type(loss).__doc__
        assert ">>>" in doc
        assert "phi(p, y) =" in doc
        assert "Reference: " in doc
        assert all(parameter in doc for parameter in losses.parameters(loss))


@pytest.mark.parametrize("loss", [losses.get(name) for name in losses.names()] + VARIANTS, ids=str)
def test_losses_are_values(loss):
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss
    assert hash(again) == hash(loss)
    assert losses.get(str(loss)) == loss
    same = {parameter: getattr(loss, parameter) for parameter in losses.parameters(loss)}
    assert loss(**same) == loss
    assert loss(*same.values()) == loss
    with pytest.raises(dataclasses.FrozenInstanceError):
        loss.delta = 3.0


def test_different_losses_differ():
    everything = [losses.get(name) for name in losses.names()] + VARIANTS
    assert len(set(everything)) == len(everything)
    assert losses.hinge != losses.ranking_hinge
    assert losses.huber() == losses.huber == losses.huber(1) != losses.huber(0.5)
    assert losses.huber(0.5)() == losses.huber
    assert losses.logistic() == losses.logistic


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("logistic", losses.logistic),
        ("logistic()", losses.logistic),
        (" huber ", losses.huber),
        ("huber(0.5)", losses.huber(0.5)),
        ("huber(delta=0.5)", losses.huber(delta=0.5)),
        ("huber( delta = 5e-1 )", losses.huber(0.5)),
        ("quantile(1e-3)", losses.quantile(0.001)),
        ("epsilon_insensitive(0)", losses.epsilon_insensitive(0)),
    ],
)
def test_get_reads(text, loss):
    assert losses.get(text) == loss


@pytest.mark.parametrize("text", ["huber(a)", "huber(*[1])"])
def test_a_value_that_is_not_a_number_names_its_parameter(text):
    with pytest.raises(ValueError, match="delta must be a number or a word, got ") as error:
        losses.get(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("text", ["log", "Logistic", "", "huber(", "huber[1]", "a.b", "1"])
def test_get_lists_the_names(text):
    with pytest.raises(ValueError, match="loss must be one of logistic, ") as error:
        losses.get(text)
    assert repr(text) in str(error.value)
    assert all(name in str(error.value) for name in losses.names())


@pytest.mark.parametrize("text", ["huber(1, 2)", "huber(tau=1)", "huber(1, delta=1)", "huber(**{})", "logistic(1)"])
def test_get_names_the_parameters(text):
    with pytest.raises(ValueError, match=r"loss (huber takes delta|logistic takes no parameters), got") as error:
        losses.get(text)
    assert repr(text) in str(error.value)


def test_get_refuses_what_is_neither():
    for thing in (None, 3, losses.Loss, type(losses.hinge)):
        with pytest.raises(TypeError, match="loss must be a Loss or its name, got"):
            losses.get(thing)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.huber(0.0), r"delta must be a finite number > 0, got 0.0"),
        (lambda: losses.huber(math.nan), r"delta must be a finite number > 0, got nan"),
        (lambda: losses.get("huber(-1)"), r"delta must be a finite number > 0, got -1"),
        (lambda: losses.smoothed_hinge(gamma=INF), r"gamma must be a finite number > 0, got inf"),
        (lambda: losses.epsilon_insensitive(-0.1), r"epsilon must be a finite number >= 0, got -0.1"),
        (lambda: losses.quantile(0.0), r"tau must be a finite number in \(0, 1\), got 0.0"),
        (lambda: losses.quantile(1), r"tau must be a finite number in \(0, 1\), got 1"),
        (lambda: losses.quantile(math.nan), r"tau must be a finite number, got nan"),
        (lambda: losses.tweedie(1.0), r"power must be a finite number in \(1, 2\), got 1.0"),
        (lambda: losses.get("tweedie(2)"), r"power must be a finite number in \(1, 2\), got 2"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_parameters_must_be_numbers():
    with pytest.raises(TypeError, match="delta must be a finite number > 0, got 'wide'"):
        losses.huber("wide")
    assert type(losses.huber(np.float32(0.5)).delta) is float


@pytest.mark.parametrize(
    ("loss", "good", "bad", "message"),
    [
        (losses.logistic, [-1, 1, 1.0], [1, -1, 0], "of logistic must be -1 or .1, got 0 at index 2"),
        (losses.ranking_hinge, [1], [True, False], "of ranking_hinge must be -1 or .1, got False at index 1"),
        (losses.hinge, 1.0, 2.0, "of hinge must be -1 or .1, got 2.0$"),
        (losses.hinge, [], ["spam", "ham"], "of hinge must be -1 or .1, got 'spam' at index 0"),
        (losses.hinge, np.array([1, -1.0], object), np.array([1, None]), "got None at index 1"),
        (
            losses.squared,
            [-3, 2.5],
            [1.0, math.nan],
            "of squared must be a finite number, got nan at index 1",
        ),
        (
            losses.huber,
            [[1.0]],
            [[1.0, -INF]],
            r"of huber must be a finite number, got -inf at index \(0, 1\)",
        ),
        (
            losses.poisson,
            [0, 0.5, 7],
            [0, -1e-9],
            "of poisson must be a finite number >= 0, got -1e-09 at index 1",
        ),
        (losses.gamma, [0.5, 7], [1, 0], "of gamma must be a finite number > 0, got 0 at index 1"),
        (losses.tweedie, [0, 0.5], [0, -1.0], "of tweedie must be a finite number >= 0, got -1.0 at index 1"),
    ],
)
def test_labels(loss, good, bad, message):
    loss.check_labels(good)
    with pytest.raises(ValueError, match=message):
        loss.check_labels(bad)
