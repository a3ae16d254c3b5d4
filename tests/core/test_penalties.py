"""What penalties say about themselves: values, slopes, facts, identity, and the errors for bad input."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from proxstream.core import penalties as pen

inf = np.inf

EXAMPLES = [
    *(cls() for cls in pen.PENALTIES.values()),
    pen.L1([0.0, 1.0, 2.0]),
    pen.L2([1.0, 2.0, 3.0]),
    pen.ElasticNet([0.0, 1.0, 2.0], 0.5),
    pen.Box([-inf, 0.0, 1.0], [0.0, inf, 2.0]),
    pen.GroupL2(0.5, [7, 7, -1]),
    pen.GroupLinf(0.5, [7, 7, -1]),
    pen.KL(2.0, [0.2, 0.3, 0.5]),
    pen.L1(0.5) + pen.L2(2.0) + pen.NonNegative() + pen.GroupL2(0.5, [7, 7, -1]),
    pen.L1([0.0, 1.0, 2.0]) + pen.Box(-1.0, 2.0) + pen.Berhu(0.5, 2.0),
]

every = pytest.mark.parametrize("penalty", EXAMPLES, ids=repr)


# ---- identity


@every
def test_penalties_are_values(penalty):
    for other in (pickle.loads(pickle.dumps(penalty)), copy.deepcopy(penalty), replace(penalty)):
        assert other == penalty
        assert hash(other) == hash(penalty)
        assert repr(other) == repr(penalty)
        np.testing.assert_array_equal(other.solve([1.0, -2.0, 3.0], 0.5), penalty.solve([1.0, -2.0, 3.0], 0.5))
    assert eval(repr(penalty), {**vars(pen), "inf": inf}) == penalty
    assert penalty not in [other for other in EXAMPLES if other is not penalty]
    assert penalty != "a penalty"
    for field in fields(penalty):
        with pytest.raises(FrozenInstanceError):
            setattr(penalty, field.name, 1.0)
        value = getattr(pickle.loads(pickle.dumps(penalty)), field.name)
        assert not isinstance(value, np.ndarray) or not value.flags.writeable


def test_arrays_are_copied_and_compared_by_value():
    lam = np.array([0.0, 1.0])
    penalty = pen.L1(lam)
    lam[0] = 5.0
    assert penalty == pen.L1([-0.0, 1.0])
    assert hash(penalty) == hash(pen.L1([-0.0, 1.0]))
    assert penalty != pen.L1([1.0, 0.0])
    assert pen.L1(1) == pen.L1(1.0) == pen.L1(np.float32(1.0))
    assert pen.L1(1.0) != pen.L2(1.0)
    assert replace(pen.ElasticNet(1.0, 2.0), l2=0.5) == pen.ElasticNet(1.0, 0.5)
    assert repr(pen.L1(np.ones(1000))) == "L1(lam=<array of shape (1000,)>)"
    assert repr(pen.L1(0.5) + pen.Box(0, 1)) == "L1(lam=0.5) + Box(lo=0.0, hi=1.0)"


def test_sums_are_flat_and_compare_as_bags():
    a, b, c = pen.L1(1.0), pen.L2(1.0), pen.NonNegative()
    assert ((a + b) + c).parts == (a + (b + c)).parts == (a, b, c)
    assert a + b + c == c + b + a
    assert a + a + b != a + b
    assert a + pen.NoPenalty() == pen.NoPenalty() + a == a
    assert pen.KL() + pen.NoPenalty() == pen.KL()
    assert a.parts == (a,)
    with pytest.raises(TypeError):
        a + 1.0


def test_get():
    assert pen.get(None) == pen.NoPenalty()
    penalty = pen.L1(0.5)
    assert pen.get(penalty) is penalty
    assert pen.get("l1(0.5) + nonnegative") == penalty + pen.NonNegative()
    for wrong in (1.0, pen.L1):
        with pytest.raises(TypeError, match=r"penalty must be None, one of NoPenalty, L1, .*, a sum of them or text"):
            pen.get(wrong)


def test_the_registry_holds_every_public_penalty():
    public = [getattr(pen, name) for name in pen.__all__]
    classes = {cls for cls in public if isinstance(cls, type) and issubclass(cls, pen.Penalty)}
    assert classes - {pen.Penalty, pen.Sum} == set(pen.PENALTIES.values())
    for cls in classes - {pen.Penalty}:
        doc = cls.__doc__ or ""
        assert "Psi(w)" in doc, cls
        assert ">>>" in doc, cls
        assert "Reference: " in doc, cls


# ---- values

W = np.array([3.0, -4.0, 0.0])
VALUES = [
    (pen.NoPenalty(), W, 0.0),
    (pen.L1(2.0), W, 14.0),
    (pen.L1([1.0, 2.0, 9.0]), W, 11.0),
    (pen.L2(2.0), W, 25.0),
    (pen.ElasticNet(2.0, 4.0), W, 64.0),
    (pen.Berhu(2.0, 3.0), W, 2 * (3 + 25 / 6)),
    (pen.L2Norm(2.0), W, 10.0),
    (pen.LinfNorm(2.0), W, 8.0),
    (pen.GroupL2(2.0), W, 14.0),
    (pen.GroupL2(2.0, [5, 5, 1]), W, 10.0),
    (pen.GroupL2(2.0), [[3.0, 4.0], [0.0, 1.0]], 12.0),
    (pen.GroupLinf(2.0), [[3.0, 4.0], [0.0, 1.0]], 10.0),
    (pen.GroupLinf(2.0, [3, 3]), [[3.0, 4.0], [0.0, 1.0]], 8.0),
    (pen.KL(2.0), [1.0, 0.0], 2 * np.log(2)),
    (pen.KL(2.0, [0.25, 0.75]), [0.25, 0.75], 0.0),
    (pen.KL(2.0), [0.5, 0.6], inf),
    (pen.KL(2.0), [1.5, -0.5], inf),
    (pen.Box(-4.0, 3.0), W, 0.0),
    (pen.Box(-4.0, 2.0), W, inf),
    (pen.Box([0.0, -inf, 0.0], inf), W, 0.0),
    (pen.NonNegative(), W, inf),
    (pen.NonNegative(), [0.0, 1.0], 0.0),
    (pen.NonNegative(), [-1e-300, 1.0], inf),
    (pen.L1Ball(7.0), W, 0.0),
    (pen.L1Ball(7.0 * (1 - 1e-10)), W, 0.0),
    (pen.L1Ball(7.0 * (1 - 1e-8)), W, inf),
    (pen.L1Ball(7.0 * (1 - 1e-6)), W.astype(np.float32), 0.0),
    (pen.L2Ball(5.0), W, 0.0),
    (pen.L2Ball(4.9), W, inf),
    (pen.Simplex(7.0), np.abs(W), 0.0),
    (pen.Simplex(7.0), -W, inf),
    (pen.Simplex(-1.0 + 8.0), [8.0, -1.0], inf),
    (pen.L1(2.0) + pen.L2(2.0) + pen.Box(-4.0, 4.0), W, 39.0),
    (pen.L1(2.0) + pen.NonNegative(), W, inf),
]


@pytest.mark.parametrize(("penalty", "w", "expected"), VALUES)
def test_value(penalty, w, expected):
    value = penalty.value(w)
    assert type(value) is float
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.default_cases(8)
@every
def test_psi_is_not_negative_and_convex(penalty):
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = (penalty.project(rng.normal(size=3) * 3) for _ in "ab")
        middle = 0.5 * (a + b)
        # Pinsker: KL is strongly convex for the l1 norm, the others for the l2 norm.
        gap = np.abs(a - b).sum() if isinstance(penalty, pen.KL) else np.linalg.norm(a - b)
        bend = penalty.strong_convexity / 8 * gap**2
        assert min(penalty.value(a), penalty.value(b)) >= 0.0
        mean = 0.5 * (penalty.value(a) + penalty.value(b))
        assert penalty.value(middle) <= mean - bend + 1e-12 * (1 + mean)


@pytest.mark.default_cases(8)
@every
def test_subgradient_lies_below(penalty):
    """Psi(y) >= Psi(w) + <g, y - w> on the constraint set, with ties and zeros in w."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        w = penalty.project(rng.choice([-2.0, 0.0, 1.0, 2.0, rng.normal()], 3))
        if isinstance(penalty, pen.KL):
            w = rng.dirichlet(np.ones(3))
        y = penalty.project(rng.normal(size=3) * 3)
        g = penalty.subgradient(w)
        assert penalty.value(y) >= penalty.value(w) + g @ (y - w) - 1e-12 * (1 + np.abs(g).sum()) * np.abs(y - w).sum()


@every
def test_subgradient_is_zero_where_zero_is_one(penalty):
    if not isinstance(penalty, pen.KL):
        assert (penalty.subgradient(np.zeros(3)) == 0.0).all()


def test_subgradients_at_kinks():
    np.testing.assert_array_equal(pen.L1(2.0).subgradient([-1.0, 0.0, 3.0]), [-2, 0, 2])
    np.testing.assert_array_equal(pen.LinfNorm(2.0).subgradient([-3.0, 1.0, 3.0]), [-1, 0, 1])
    np.testing.assert_array_equal(pen.GroupL2(5.0).subgradient([[3.0, -4.0], [0.0, 0.0]]), [[3, -4], [0, 0]])
    np.testing.assert_array_equal(pen.GroupLinf(2.0, [0, 1, 0]).subgradient([1.0, 0.0, -2.0]), [0, 0, -2])
    np.testing.assert_array_equal(pen.Berhu(2.0, 0.5).subgradient([0.25, -1.0]), [2, -4])
    with pytest.raises(ValueError, match=r"KL has a subgradient only at positive weights, got .* 0\.0"):
        pen.KL().subgradient([1.0, 0.0])


def test_project_touches_only_the_constraints():
    w = np.array([3.0, -0.1, 0.2])
    for soft in (
        pen.NoPenalty(),
        pen.L1(9.0),
        pen.L2(9.0),
        pen.Berhu(),
        pen.L2Norm(9.0),
        pen.GroupLinf(9.0),
        pen.L1(1.0) + pen.L2(3.0),
    ):
        np.testing.assert_array_equal(soft.project(w), w)
    np.testing.assert_array_equal((pen.L1(9.0) + pen.Box(-1.0, 1.0)).project(w), [1.0, -0.1, 0.2])
    np.testing.assert_array_equal((pen.L2(9.0) + pen.L1Ball(1.0) + pen.NonNegative()).project(w), [1.0, 0.0, 0.0])


# ---- facts


def test_facts():
    facts = {name: (cls().separable, cls().rotation_invariant) for name, cls in pen.PENALTIES.items()}
    assert {n for n, (yes, _) in facts.items() if yes} == {
        *("none", "l1", "l2", "elastic_net", "berhu", "box", "nonnegative")
    }
    assert {n for n, (_, yes) in facts.items() if yes} == {"none", "l2", "l2_norm", "l2_ball"}
    hard = {name for name, cls in pen.PENALTIES.items() if cls().is_constraint}
    assert hard == {"none", "box", "nonnegative", "l1_ball", "l2_ball", "simplex"}
    assert (pen.Box() + pen.NonNegative()).is_constraint
    assert not (pen.Box() + pen.L1()).is_constraint
    assert (pen.L2(1.0) + pen.L2Ball(2.0)).rotation_invariant
    assert not (pen.L2(1.0) + pen.L1(2.0)).rotation_invariant
    assert not pen.L2([1.0, 2.0]).rotation_invariant


def test_strong_convexity():
    moduli = {name: cls().strong_convexity for name, cls in pen.PENALTIES.items()}
    assert {name for name, modulus in moduli.items() if modulus} == {"l2", "elastic_net", "kl"}
    assert pen.L2(0.5).strong_convexity == 0.5
    assert pen.L2([0.5, 0.25]).strong_convexity == 0.25
    assert pen.ElasticNet(3.0, 0.125).strong_convexity == 0.125
    assert pen.KL(0.75).strong_convexity == 0.75
    assert (pen.L2([1.0, 3.0]) + pen.L2([3.0, 1.0]) + pen.L1Ball()).strong_convexity == 4.0


@every
def test_minimal_at_the_first_point(penalty):
    """The point that minimizes the geometry over the constraints, and where Psi is least."""
    best = penalty.solve(np.zeros(3), 0.0)
    assert penalty.minimal_at(best)
    rng = np.random.default_rng(2)
    for _ in range(50):
        w = penalty.project(rng.normal(size=3) * 5)
        assert penalty.value(w) >= penalty.value(best) - 1e-12
        assert penalty.minimal_at(w) == (penalty.value(w) <= penalty.value(best))


def test_minimal_at():
    assert pen.L1(1.0).minimal_at([0.0, 0.0])
    assert not pen.L1(1e-200).minimal_at([1e-100, 0.0])
    assert pen.L1Ball(1.0).minimal_at([0.5, 0.5])
    assert not pen.L1Ball(1.0).minimal_at([0.5, 0.6])
    assert pen.Box(1.0, 2.0).minimal_at([1.5, 2.0])
    assert (pen.L1(1.0) + pen.Box(1.0, 2.0)).minimal_at([1.0, 1.0])
    assert not (pen.L1(1.0) + pen.Box(1.0, 2.0)).minimal_at([1.0, 1.5])
    assert not pen.NonNegative().minimal_at([-1.0])
    prior = np.random.default_rng(3).dirichlet(np.ones(50))
    assert pen.KL(1.0, prior).minimal_at(prior)
    assert not pen.KL(1.0, prior).minimal_at(np.full(50, 0.02))
    assert (pen.L2(1.0) + pen.Simplex(3.0)).minimal_at([1.0, 1.0, 1.0])
    assert not (pen.L2(1.0) + pen.Simplex(3.0)).minimal_at([0.0, 2.0, 1.0])


# ---- errors

BAD = [
    (lambda: pen.L1(-1.0), ValueError, "lam must be a finite number >= 0, got -1.0"),
    (lambda: pen.L1([1.0, -1.0]), ValueError, "lam must be >= 0, got -1.0 at index 1"),
    (lambda: pen.L1([1.0, np.nan]), ValueError, "lam must be finite, got nan at index 1"),
    (lambda: pen.L1(inf), ValueError, "lam must be a finite number >= 0, got inf"),
    (lambda: pen.L1("much"), TypeError, "lam must be a finite number >= 0, got 'much'"),
    (lambda: pen.L2(-1.0), ValueError, "lam must be a finite number >= 0"),
    (lambda: pen.ElasticNet(-1.0, 1.0), ValueError, "l1 must be a finite number >= 0"),
    (lambda: pen.ElasticNet(1.0, -1.0), ValueError, "l2 must be a finite number >= 0"),
    (lambda: pen.ElasticNet([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError, "l2 must have shape (2,), got (3,)"),
    (lambda: pen.Berhu(-1.0), ValueError, "lam must be"),
    (lambda: pen.Berhu(1.0, 0.0), ValueError, "delta must be a finite number > 0, got 0.0"),
    (lambda: pen.L2Norm([1.0, 2.0]), TypeError, "lam must be a finite number >= 0, got [1.0, 2.0]"),
    (lambda: pen.LinfNorm(-2.0), ValueError, "lam must be"),
    (lambda: pen.GroupL2(-2.0), ValueError, "lam must be"),
    (
        lambda: pen.GroupL2(1.0, [0.5, 1.0]),
        TypeError,
        "groups must be None or one integer label per coordinate, got [0.5",
    ),
    (
        lambda: pen.GroupLinf(1.0, 3),
        TypeError,
        "groups must be None or one integer label per coordinate, got 3",
    ),
    (lambda: pen.KL(-1.0), ValueError, "sigma must be"),
    (
        lambda: pen.KL(1.0, [0.5, 0.6]),
        ValueError,
        "prior must be positive numbers that sum to 1, got [0.5, 0.6]",
    ),
    (lambda: pen.KL(1.0, [0.0, 1.0]), ValueError, "prior must be positive"),
    (lambda: pen.KL(1.0, 1.0), ValueError, "prior must be positive"),
    (lambda: pen.Box(2.0, 1.0), ValueError, "lo must be <= hi, got lo = 2.0 and hi = 1.0"),
    (lambda: pen.Box([0.0, 2.0], 1.0), ValueError, "lo must be <= hi, got lo = 2.0 and hi = 1.0 at index 1"),
    (lambda: pen.Box(np.nan, 1.0), ValueError, "lo must be numbers other than nan and inf, got nan"),
    (lambda: pen.Box(inf, inf), ValueError, "lo must be numbers other than nan and inf, got inf"),
    (lambda: pen.Box(0.0, -inf), ValueError, "hi must be numbers other than nan and -inf, got -inf"),
    (lambda: pen.Box("low", 1.0), TypeError, "lo must be a number or one per coordinate, got 'low'"),
    (lambda: pen.L1Ball(0.0), ValueError, "radius must be a finite number > 0, got 0.0"),
    (lambda: pen.L2Ball(-1.0), ValueError, "radius must be a finite number > 0, got -1.0"),
    (lambda: pen.Simplex(0), ValueError, "radius must be a finite number > 0, got 0"),
    (
        lambda: pen.Box(0.0, 1.0) + pen.Box(2.0, 3.0),
        ValueError,
        "Box(lo=0.0, hi=1.0) + Box(lo=2.0, hi=3.0) is empty",
    ),
    (
        lambda: pen.NonNegative() + pen.Box(-2.0, -1.0),
        ValueError,
        "is empty: lo must be <= hi, got lo = 0.0 and hi = -1.0",
    ),
    (
        lambda: pen.L1([1.0, 2.0]) + pen.L2([1.0, 2.0, 3.0]),
        ValueError,
        "L2: lam must have shape (2,), got (3,)",
    ),
    (
        lambda: pen.L1().solve([1.0], [1.0, 2.0]),
        ValueError,
        "h must be a number or have the shape (1,) of u, got (2,)",
    ),
    (lambda: pen.L1().solve([1.0, 2.0], [1.0, -2.0]), ValueError, "h must be >= 0, got -2.0 at index 1"),
    (lambda: pen.L1().solve([1.0, 2.0], -1.0), ValueError, "h must be >= 0, got -1.0"),
    (lambda: pen.L1().solve([1.0, np.nan], 1.0), ValueError, "u must be finite, got nan at index 1"),
    (lambda: pen.L1().solve([1.0], inf), ValueError, "h must be finite, got inf"),
    (lambda: pen.L1().solve([1.0], 1.0, k=-1.0), ValueError, "k must be a finite number >= 0, got -1.0"),
    (lambda: pen.L1().solve([1.0], 1.0, l1=-1.0), ValueError, "l1 must be a finite number >= 0, got -1.0"),
    (
        lambda: pen.L1().solve(1.0, 1.0),
        ValueError,
        "weights must be a vector or a matrix with entries, got shape ()",
    ),
    (lambda: pen.L1().solve([], 1.0), ValueError, "got shape (0,)"),
    (lambda: pen.L1().value(np.zeros((2, 2, 2))), ValueError, "got shape (2, 2, 2)"),
    (lambda: pen.L1().value([np.inf]), ValueError, "w must be finite"),
    (
        lambda: pen.KL().solve([1.0, 2.0], 1.0, l1=0.5),
        TypeError,
        "l1 = 0.5 adds an L1 to KL(sigma=1.0, prior=None)",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


FIT = [
    (pen.L1([1.0, 2.0]), [(2,), (2, 3)], [(3,), (3, 2)]),
    (pen.L2(np.ones((2, 3))), [(2, 3)], [(2,), (3,), (3, 2)]),
    (pen.Box(0.0, [1.0, 2.0]), [(2,), (2, 1)], [(1,)]),
    (pen.GroupL2(1.0, [4, 5]), [(2,), (2, 7)], [(3,), (1, 2)]),
    (pen.GroupL2(1.0), [(2,), (2, 7)], []),
    (pen.KL(1.0, [0.5, 0.5]), [(2,)], [(2, 2), (3,)]),
    (pen.L1([1.0, 2.0]) + pen.Simplex(), [(2,), (2, 2)], [(3,)]),
    (pen.L1(1.0), [(1,), (5, 5)], [(), (0,), (1, 1, 1)]),
]


@pytest.mark.parametrize(("penalty", "good", "bad"), FIT)
def test_check_shape(penalty, good, bad):
    for shape in good:
        penalty.check_shape(shape)
    for shape in bad:
        with pytest.raises(ValueError, match="shape"):
            penalty.check_shape(shape)
