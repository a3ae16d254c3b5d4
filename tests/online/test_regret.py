"""The ledger: sums against brute force, the frame against the calls, and rounds that are refused."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps

from ..examples import examples

D = 3
CENTRES = np.random.default_rng(0).normal(size=(12, D))


def absolute(c):
    return lambda x: float(np.sum(np.abs(x - c)))


def game(algorithm=None, penalty=None, rounds=12, **told):
    """A ledger after rounds of f_t(x) = ||x - c_t||_1, with the points and gradients played."""
    ledger = ps.Regret(ps.OnlineLearner(algorithm or ps.RDA(), penalty, dim=D), **told)
    xs, gs = [], []
    for c in CENTRES[:rounds]:
        x = ledger.learner.point
        xs.append(x)
        gs.append(np.sign(x - c))
        ledger.play(absolute(c), gs[-1])
    return ledger, np.array(xs), np.array(gs)


ALGORITHMS = [
    ps.RDA(gamma=0.5),
    ps.AdaGrad(),
    ps.AdaGrad(update="mirror"),
    ps.FTRLProximal(alpha=0.5),
    ps.FTRLProximal(alpha=0.5, penalty_weight="once"),
    ps.FTRL(rate=0.3, penalty_weight=[2.0, 1.0, 0.25]),
    ps.MirrorDescent(eta=0.5),
    ps.SGD(eta=0.5),
    ps.TruncatedGradient(eta=0.5, every=1),
    ps.FollowTheLeader(),
]
NAMES = [f"{a.name}-{i}" for i, a in enumerate(ALGORITHMS)]


def weights(algorithm, T):
    if getattr(algorithm, "penalty_weight", "every_round") == "once":
        return np.eye(T)[0]
    if isinstance(algorithm, ps.FTRL):
        return np.array([2.0, 1.0, *[0.25] * (T - 2)])
    return np.ones(T)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=NAMES)
def test_regret_is_the_sum_over_rounds(algorithm):
    penalty = ps.L1(0.3)
    ledger, xs, gs = game(algorithm, penalty)
    alpha = weights(algorithm, len(xs))
    for x in (np.zeros(D), np.array([0.5, -2.0, 1.0])):
        losses = sum(absolute(c)(at) - absolute(c)(x) for c, at in zip(CENTRES, xs, strict=True))
        linear = sum(float(g @ (at - x)) for g, at in zip(gs, xs, strict=True))
        psi = sum(a * 0.3 * (np.sum(np.abs(at)) - np.sum(np.abs(x))) for a, at in zip(alpha, xs, strict=True))
        assert ledger.regret(x) == pytest.approx(losses + psi)
        assert ledger.regret(x, penalty=False) == pytest.approx(losses)
        assert ledger.linearized_regret(x) == pytest.approx(linear)
        assert ledger.linearized_regret(x, penalty=True) == pytest.approx(linear + psi)
    assert ledger.loss == pytest.approx(sum(absolute(c)(at) for c, at in zip(CENTRES, xs, strict=True)))
    assert ledger.t == ledger.learner.t == len(xs)


@examples(60)
@given(
    st.sampled_from(ALGORITHMS),
    st.lists(st.tuples(st.lists(st.floats(-2, 2), min_size=D, max_size=D), st.sampled_from([-1, 1])), min_size=1),
    st.lists(st.floats(-3, 3), min_size=D, max_size=D),
)
def test_linearized_regret_is_never_below_regret_for_convex_losses(algorithm, examples, x):
    ledger = ps.Regret(ps.OnlineLearner(algorithm, ps.L1(0.1), dim=D))
    for z, y in examples[:8]:
        z = np.array(z)
        p = float(z @ ledger.learner.point)
        ledger.play(lambda x, z=z, y=y: float(np.logaddexp(0.0, -y * (z @ x))), -y * z / (1.0 + np.exp(y * p)))
    for penalty in (True, False):
        assert ledger.regret(x, penalty) <= ledger.linearized_regret(x, penalty) + 1e-9


def test_several_comparators_at_once():
    ledger, _, _ = game(penalty=ps.L1(0.3))
    X = np.random.default_rng(1).normal(size=(5, D))
    for call in (ledger.regret, ledger.linearized_regret):
        for penalty in (True, False):
            together = call(X, penalty)
            assert together.shape == (5,)
            assert together == pytest.approx([call(x, penalty) for x in X])
            assert isinstance(call(X[0], penalty), float)


def test_several_comparators_of_a_matrix_of_weights():
    ledger = ps.Regret(ps.OnlineLearner(ps.RDA(), dim=(2, 3)))
    ledger.play(lambda x: float(np.sum(x)), np.ones((2, 3)))
    ledger.play(lambda x: float(np.sum(x)), np.ones((2, 3)))
    X = np.arange(24.0).reshape(4, 2, 3)
    assert ledger.regret(X) == pytest.approx([ledger.regret(x) for x in X])
    assert ledger.regret(X[0]) == pytest.approx(-6.0 - 2.0 * 15.0)


def test_a_comparator_outside_the_constraint_is_infinitely_worse():
    ledger, _, _ = game(penalty=ps.Box(-0.5, 0.5))
    assert ledger.regret([1.0, 0.0, 0.0]) == -math.inf
    assert math.isfinite(ledger.regret([1.0, 0.0, 0.0], penalty=False))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=NAMES)
@pytest.mark.parametrize("loss_curvature", [0.0, 0.5])
def test_the_frame_agrees_with_the_calls_after_every_round(algorithm, loss_curvature):
    x = np.array([0.3, -0.4, 0.1])
    ledger = ps.Regret(ps.OnlineLearner(algorithm, ps.L1(0.3), dim=D), loss_curvature=loss_curvature)
    told = {"regret": [], "linearized_regret": [], "bound": [], "cumulative_loss": []}
    for c in CENTRES:
        at = ledger.learner.point
        ledger.play(absolute(c), np.sign(at - c))
        told["regret"].append(ledger.regret(x))
        told["linearized_regret"].append(ledger.linearized_regret(x, penalty=True))
        told["bound"].append(ledger.bound(x).value)
        told["cumulative_loss"].append(ledger.loss)
    frame = ledger.frame(x)
    for name, column in told.items():
        assert frame[name] == pytest.approx(np.array(column), rel=1e-12), name
    assert frame["t"].tolist() == list(range(1, 13))
    assert np.cumsum(frame["loss"]) == pytest.approx(frame["cumulative_loss"])
    assert all(len(column) == 12 for column in frame.values())
    assert list(ledger.frame()) == ["t", "loss", "cumulative_loss", "penalty", "gradient_norm"]


def test_the_frames_own_columns():
    ledger, xs, gs = game(ps.FTRLProximal(penalty_weight="once"), ps.L1(0.3) + ps.Box(0.5, 2.0))
    frame = ledger.frame()
    assert frame["gradient_norm"] == pytest.approx(np.linalg.norm(gs, axis=1))
    assert frame["penalty"] == pytest.approx([0.3 * np.sum(xs[0]), *[0.0] * 11])
    assert frame["loss"] == pytest.approx([absolute(c)(x) for c, x in zip(CENTRES, xs, strict=True)])


def test_the_frame_measures_what_the_theorem_bounds():
    # Here Psi is not smallest at the first point: the theorem is on regret without it, and so are the columns.
    penalty = ps.L1([0.1, 0.2, 0.3]) + ps.Simplex()
    ledger, _, _ = game(ps.RDA(), penalty)
    x = [0.2, 0.3, 0.5]
    assert ledger.bound(x).regret == "linearized_regret(x, penalty=False)"
    frame = ledger.frame(x)
    assert frame["linearized_regret"][-1] == pytest.approx(ledger.linearized_regret(x, penalty=False))
    assert frame["regret"][-1] == pytest.approx(ledger.regret(x, penalty=False))


def test_the_bound_names_a_call_of_the_ledger():
    for algorithm in ALGORITHMS:
        ledger, _, _ = game(algorithm, ps.L1(0.3))
        for penalty in (True, False):
            found = ledger.bound([0.1, 0.2, 0.3], penalty=penalty)
            measured = eval("ledger." + found.regret, {"ledger": ledger, "x": [0.1, 0.2, 0.3]})
            assert f"penalty={penalty}" in found.regret
            if not isinstance(algorithm, ps.FollowTheLeader):  # absolute losses have no curvature to rely on
                assert measured <= found.value


def test_values_in_place_of_functions_leave_linearized_regret():
    by_value = ps.Regret(ps.OnlineLearner(ps.RDA(), ps.L1(0.3), dim=D))
    by_function, _, _ = game(ps.RDA(), ps.L1(0.3))
    for c in CENTRES:
        x = by_value.learner.point
        by_value.play(absolute(c)(x), np.sign(x - c))
    x = [0.1, 0.2, 0.3]
    assert by_value.loss == pytest.approx(by_function.loss)
    assert by_value.linearized_regret(x) == by_function.linearized_regret(x)
    assert by_value.bound(x) == by_function.bound(x)
    assert "regret" not in by_value.frame(x)
    assert by_value.frame(x)["bound"] == pytest.approx(by_function.frame(x)["bound"])
    with pytest.raises(ValueError, match="f of round 1 was given by its value: regret needs the function"):
        by_value.regret(x)


def test_one_value_among_functions_is_named():
    ledger, _, _ = game(rounds=3)
    ledger.play(1, [0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="f of round 4"):
        ledger.regret(np.zeros(D))


def test_examples_play_their_loss():
    z, y = np.random.default_rng(4).normal(size=(6, D)), [1, -1, 1, 1, -1, -1]
    ledger = ps.Regret(ps.OnlineLearner(ps.MirrorDescent(), ps.L1(0.01), dim=D))
    twin = ps.OnlineLearner(ps.MirrorDescent(), ps.L1(0.01), dim=D)
    suffered = []
    for row, label in zip(z, y, strict=True):
        ledger.learn(row, label, "logistic")
        suffered.append(twin.learn(row, label, "logistic"))
    assert ledger.frame()["loss"] == pytest.approx(suffered)
    assert np.array_equal(ledger.learner.point, twin.point)
    x = np.array([0.5, 0.0, -0.5])
    expected = sum(suffered) - np.sum(np.logaddexp(0.0, -np.array(y) * (z @ x)))
    assert ledger.regret(x, penalty=False) == pytest.approx(expected)


def test_before_the_first_round():
    ledger = ps.Regret(ps.OnlineLearner(ps.RDA(), dim=D))
    assert (ledger.t, ledger.loss, ledger.regret(np.ones(D)), ledger.linearized_regret(np.ones(D))) == (0, 0, 0, 0)
    assert all(len(column) == 0 for column in ledger.frame(np.ones(D)).values())
    with pytest.raises(ValueError, match="no round has been played yet"):
        ledger.bound(np.ones(D))


# ---- refused


def state_of(ledger):
    x = np.full(D, 0.2)
    return copy.deepcopy((ledger.learner.state_dict(), ledger.t, ledger.loss, ledger.regret(x), ledger.bound(x)))


def same(a, b):
    return a[1:] == b[1:] and all(np.array_equal(a[0][name], b[0][name]) for name in a[0])


def boom(x):
    raise RuntimeError("the loss itself failed")


@pytest.mark.parametrize(
    ("f", "g", "error", "says"),
    [
        (1.0, [1.0, np.nan, 0.0], ValueError, "g must be finite, got nan at index 1"),
        (1.0, [1.0, 0.0], ValueError, r"g must have shape \(3,\), got \(2,\)"),
        (1.0, "abc", TypeError, "g must be an array of numbers"),
        (np.nan, [1.0, 0.0, 0.0], ValueError, "f must be a finite number, got nan"),
        ("1", [1.0, 0.0, 0.0], TypeError, "f must be a finite number, got '1'"),
        (lambda x: math.inf, [1.0, 0.0, 0.0], ValueError, "f must be a finite number, got inf"),
        (lambda x: math.nan, [1.0, 0.0, 0.0], ValueError, r"f\(x\) must be a finite number, got nan"),
        (lambda x: x, [1.0, 0.0, 0.0], TypeError, r"f\(x\) must be a finite number, got array"),
        (boom, [1.0, 0.0, 0.0], RuntimeError, "the loss itself failed"),
    ],
)
def test_a_refused_round_leaves_everything_as_it_was(f, g, error, says):
    ledger, _, _ = game(penalty=ps.L1(0.1))
    before = state_of(ledger)
    with pytest.raises(error, match=says):
        ledger.play(f, g)
    assert same(before, state_of(ledger))


def test_a_round_refused_by_the_learner_leaves_everything_as_it_was():
    ledger = ps.Regret(ps.OnlineLearner(ps.FTRL(rate=lambda t: 1.0 if t < 4 else 2.0), dim=D))
    for _ in range(3):
        ledger.play(lambda x: float(np.sum(x)), np.ones(D))
    before, seen = state_of(ledger), []
    with pytest.raises(ValueError, match="rate must not rise"):
        ledger.play(lambda x: float(len(seen.append(x) or seen)), np.ones(D))
    assert len(seen) == 1  # f had been asked
    assert same(before, state_of(ledger))


def test_a_refused_example_leaves_everything_as_it_was():
    ledger = ps.Regret(ps.OnlineLearner(ps.RDA(), dim=D))
    ledger.learn([1.0, 2.0, 3.0], 1, "logistic")
    before = state_of(ledger)
    for z, y in (([1.0, 2.0], 1), ([1.0, 2.0, 3.0], 5), ([1.0, np.inf, 3.0], 1)):
        with pytest.raises(ValueError, match=r"^(z|y|labels?|.*label)"):
            ledger.learn(z, y, "logistic")
    assert same(before, state_of(ledger))


def test_a_loss_may_spoil_its_argument():
    def f(x):
        x *= 0.0
        return 1.0

    ledger, _, _ = game()
    point, x = ledger.learner.point, np.ones(D)
    ledger.play(f, np.zeros(D))
    ledger.regret(x)
    assert np.array_equal(ledger._rounds[-1].at.x, point)
    assert np.array_equal(x, np.ones(D))


def test_a_learner_that_has_moved_is_refused():
    learner = ps.OnlineLearner(ps.RDA(), dim=1)
    ledger = ps.Regret(learner)
    ledger.play(0.0, [1.0])
    learner.update([1.0])
    with pytest.raises(ValueError, match="the learner has played 2 rounds and the ledger 1"):
        ledger.play(0.0, [1.0])
    with pytest.raises(ValueError, match="the learner has played 2 rounds and the ledger 1"):
        ledger.learn([1.0], 1, "hinge")
    with pytest.raises(ValueError, match="a ledger follows a game from its start, got a learner with t = 2"):
        ps.Regret(learner)


def test_bad_comparators_and_parameters_are_named():
    ledger, _, _ = game()
    with pytest.raises(
        ValueError, match=r"x must be a comparator of shape \(3,\) or an array of them, got shape \(2,\)"
    ):
        ledger.regret([1.0, 2.0])
    with pytest.raises(ValueError, match="x must be finite, got nan"):
        ledger.linearized_regret([1.0, np.nan, 0.0])
    with pytest.raises(ValueError, match=r"x must have shape \(3,\), got \(2,\)"):
        ledger.bound([1.0, 2.0])
    with pytest.raises(ValueError, match="loss_curvature must be a finite number >= 0, got -1"):
        ps.Regret(ps.OnlineLearner(ps.RDA(), dim=1), loss_curvature=-1)


@pytest.mark.parametrize(
    "algorithm",
    [
        ps.SGD(10.0, "constant"),
        ps.MirrorDescent(10.0),
        ps.TruncatedGradient(10.0, every=1),
        ps.RDA(gamma=1e-3),
        ps.FTRLProximal(alpha=1e3),
        ps.AdaGrad(eta=1e3, update="mirror"),
        ps.AdaGrad(eta=1e3, matrix="full"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("penalty", [None, ps.L2(0.1)], ids=repr)
def test_the_bound_of_a_game_that_diverges_is_a_number_or_infinite(algorithm, penalty):
    """A step too long for f(x) = |x - c|^2 / 2 takes the points to 1e300, and sums of squares beyond all numbers."""
    rng = np.random.default_rng(0)
    for scale, curvature in itertools.product((1.0, 1e150), (0.0, 1.0)):
        ledger = ps.Regret(ps.OnlineLearner(algorithm, penalty, dim=2), loss_curvature=curvature)
        for _ in range(60):
            c = scale * rng.normal(size=2)
            try:
                ledger.play(1.0, ledger.learner.point - c)
            except FloatingPointError:
                break
            assert ledger.t == ledger.learner.t
            for x in (np.zeros(2), np.full(2, scale)):
                for counted in (True, False):
                    assert ledger.bound(x, penalty=counted).value > -np.inf  # which NaN is not


def test_a_step_that_overflows_moves_neither_learner_nor_ledger():
    for penalty in (None, ps.L1Ball(1.0), ps.L1(0.1)):
        ledger = ps.Regret(ps.OnlineLearner(ps.RDA(), penalty, dim=2))
        ledger.play(0.0, [1e308, 1.0])
        before = ledger.learner.state_dict()
        with pytest.raises(FloatingPointError, match="the step in round 2 overflows"):
            ledger.play(0.0, [1e308, 1.0])
        assert ledger.t == ledger.learner.t == 1
        assert all(np.array_equal(value, before[name]) for name, value in ledger.learner.state_dict().items())
