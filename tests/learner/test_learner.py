"""OnlineLearner: what it shows, what it remembers, and what it refuses without a trace."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.core.algorithms import ALGORITHMS, rates
from proxstream.online import OnlineLearner

from ..examples import examples


class Game(NamedTuple):
    algorithm: Any
    penalty: Any = None
    dim: Any = 4
    loss: str | None = None


GAMES = {
    "rda": Game(ps.RDA(), ps.L1(0.1)),
    "rda-log": Game(ps.RDA(schedule="log"), ps.L2(0.1)),
    "rda-pnorm": Game(ps.RDA(rho=0.1, geometry=ps.PNorm(1.3)), ps.L1(0.1)),
    "rda-entropy": Game(ps.RDA(geometry=ps.Entropy()), ps.KL(0.3)),
    "rda-matrix": Game(ps.RDA(), ps.GroupL2(0.1), (4, 3), "softmax"),
    "accelerated": Game(ps.AcceleratedRDA(), ps.L1(0.1)),
    "accelerated-entropy": Game(ps.AcceleratedRDA(weights="constant", geometry=ps.Entropy())),
    "adagrad": Game(ps.AdaGrad(), ps.L1(0.1)),
    "adagrad-mirror": Game(ps.AdaGrad(delta=0.0, update="mirror"), ps.Box(-0.5, 0.5)),
    "adagrad-full": Game(ps.AdaGrad(update="mirror", matrix="full"), ps.L2Ball(0.5)),
    "adagrad-blocks": Game(ps.AdaGrad(matrix=[0, 1, 0, 1]), ps.L2Norm(0.1)),
    "adagrad-strong": Game(ps.AdaGrad(update="mirror", strongly_convex=True), ps.L2(0.1)),
    "ftrl_proximal": Game(ps.FTRLProximal(), ps.L1(0.1), loss="logistic"),
    "ftrl_proximal-once": Game(ps.FTRLProximal(beta=0.0, penalty_weight="once"), ps.ElasticNet(0.1, 0.1)),
    "ftrl": Game(ps.FTRL(0.3, penalty_weight=lambda t: 1.0 / t), ps.L1(0.1)),
    "ftrl-proximal": Game(ps.FTRL(rates.AdaptiveDiagonal(1.0), "proximal", "linearized"), ps.L1(0.1)),
    "ftrl-entropy": Game(ps.FTRL(rates.AdaptiveNorm(1.0, 1.0), "proximal", geometry=ps.Entropy())),
    "mirror": Game(ps.MirrorDescent(), ps.L1(0.1)),
    "mirror-entropy": Game(ps.MirrorDescent(geometry=ps.Entropy()), ps.Simplex(2.0)),
    "smidas": Game(ps.MirrorDescent(geometry=ps.PNorm(1.3)), ps.L1(0.05)),
    "lazy": Game(ps.MirrorDescent(projection="lazy"), ps.L2Ball(0.4)),
    "implicit": Game(ps.MirrorDescent(1.0, implicit=True), ps.L1(0.05), loss="hinge"),
    "truncated": Game(ps.TruncatedGradient(every=3, theta=1.0), ps.ElasticNet(0.1, 0.1)),
    "sgd": Game(ps.SGD(), ps.L1(0.1) + ps.L2Ball(1.0)),
    "pa": Game(ps.PassiveAggressive(), ps.NonNegative(), loss="hinge"),
    "pa-multiclass": Game(ps.PassiveAggressive(variant="PA-II"), None, (4, 3), "multiclass_hinge"),
    "pa-regression": Game(ps.PassiveAggressive(variant="PA"), None, loss="epsilon_insensitive"),
    "auto_ftrl": Game(ps.AutoFTRL(), ps.L1(0.01), loss="logistic"),
    "auto_ftrl-global": Game(ps.AutoFTRL(scale="global"), None, loss="squared"),
    "arow": Game(ps.AROW(), None, loss="hinge"),
    "arow-full": Game(ps.AROW(matrix="full"), None, loss="hinge"),
    "leader": Game(ps.FollowTheLeader(), ps.L1(0.1)),
    "leader-examples": Game(ps.FollowTheLeader(), ps.L2(0.1), loss="squared"),
}


def learner_of(game):
    return OnlineLearner(game.algorithm, game.penalty, dim=game.dim)


def play(learner, game, rounds, seed=0):
    """Move the learner; the game's random numbers depend on the round alone."""
    for _ in range(rounds):
        rng = np.random.default_rng([seed, learner.t])
        if game.loss is None:
            learner.update(rng.normal(size=learner.shape))
            continue
        kind = ps.losses.get(game.loss).kind
        y = rng.integers(3) if kind == "multiclass" else rng.choice([-1.0, 1.0])
        learner.learn(rng.normal(size=learner.shape[0]), y, game.loss)


def same(a, b):
    """Whether two state dicts are equal to the last bit."""
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and a[n].tobytes() == b[n].tobytes() for n in a
    )


def test_every_algorithm_plays_here():
    assert {type(game.algorithm) for game in GAMES.values()} == set(ALGORITHMS.values())


# ---- what it shows -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", GAMES)
def test_average_is_the_mean_of_the_points_played(name):
    game = GAMES[name]
    learner, played = learner_of(game), []
    np.testing.assert_array_equal(learner.average, learner.point)
    for t in range(40):
        assert learner.t == t
        played.append(learner.point)
        play(learner, game, 1)
        np.testing.assert_allclose(learner.average, np.mean(played, axis=0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", GAMES)
def test_points_are_feasible_and_output_is_the_point_unless_accelerated(name):
    game = GAMES[name]
    learner = learner_of(game)
    for _ in range(40):
        assert learner.point.shape == learner.shape
        assert learner.point.dtype == np.float64
        assert math.isfinite(learner.penalty.value(learner.point))
        if isinstance(game.algorithm, ps.AcceleratedRDA):
            assert math.isfinite(learner.penalty.value(learner.output))
            assert learner.t < 2 or not np.array_equal(learner.output, learner.point)
        else:
            np.testing.assert_array_equal(learner.output, learner.point)
        play(learner, game, 1)


@pytest.mark.parametrize("name", GAMES)
def test_what_is_handed_out_cannot_be_used_to_change_the_learner(name):
    game = GAMES[name]
    learner = learner_of(game)
    play(learner, game, 3)
    before = learner.state_dict()
    for array in (learner.point, learner.output, learner.average, *learner.state_dict().values()):
        array[...] = 77
    assert same(before, learner.state_dict())


def test_the_gradient_handed_in_is_not_kept():
    g = np.ones(3)
    learner = ps.OnlineLearner(ps.MirrorDescent(), dim=3)
    learner.update(g)
    g[...] = 55.0
    assert learner.state_dict()["state.u"].max() == 1.0


def test_learn_returns_the_loss_suffered_before_the_step():
    rng = np.random.default_rng(0)
    learner = ps.OnlineLearner(ps.RDA(), dim=3)
    for _ in range(10):
        z, y, x = rng.normal(size=3), rng.choice([-1.0, 1.0]), learner.point
        assert learner.learn(z, y, "logistic") == pytest.approx(math.log1p(math.exp(-y * (z @ x))))


def test_learn_is_update_with_the_losses_gradient():
    rng = np.random.default_rng(1)
    for loss, dim in (("logistic", 3), ("huber(0.3)", 3), ("softmax", (3, 4))):
        a, b = (ps.OnlineLearner(ps.AdaGrad(), ps.L1(0.01), dim=dim) for _ in range(2))
        phi = ps.losses.get(loss)
        for _ in range(20):
            z, y = rng.normal(size=3), (int(rng.integers(4)) if phi.kind == "multiclass" else 1.0)
            g = np.multiply.outer(z, phi.slope(z @ b.point, y))
            a.learn(z, y, loss)
            b.update(g)
            np.testing.assert_array_equal(a.point, b.point)


def test_integers_lists_and_float32_are_numbers():
    for g in ([1, 2], np.array([1, 2]), np.array([1.0, 2.0], dtype=np.float32), (True, 2)):
        learner = ps.OnlineLearner(ps.RDA(), dim=2)
        learner.update(g)
        np.testing.assert_array_equal(learner.point, [-1.0, -2.0])
        assert learner.point.dtype == np.float64


def test_repr_names_the_components():
    learner = ps.OnlineLearner(ps.RDA(gamma=2.0), ps.L1(0.1), dim=2)
    learner.update([1.0, 0.0])
    text = repr(learner)
    assert "RDA(gamma=2.0" in text
    assert "L1(lam=0.1)" in text
    assert "t=1" in text


# ---- what it remembers -------------------------------------------------------------------------


@given(
    name=st.sampled_from(sorted(GAMES)), before=st.integers(0, 25), after=st.integers(1, 15), seed=st.integers(0, 99)
)
@examples(150)
def test_a_saved_game_continues_bit_for_bit(name, before, after, seed):
    game = GAMES[name]
    whole = learner_of(game)
    play(whole, game, before + after, seed)
    first = learner_of(game)
    play(first, game, before, seed)
    saved = {key: np.array(value) for key, value in first.state_dict().items()}
    second = learner_of(game)
    play(second, game, 3, seed + 1)  # whatever it did before
    second.load_state_dict(saved)
    assert same(second.state_dict(), saved)
    play(second, game, after, seed)
    assert same(second.state_dict(), whole.state_dict())
    assert second.t == before + after


@pytest.mark.parametrize("name", GAMES)
def test_state_survives_npz_and_plain_lists(name, tmp_path):
    game = GAMES[name]
    learner, restored, listed = learner_of(game), learner_of(game), learner_of(game)
    play(learner, game, 7)
    np.savez(tmp_path / "state.npz", **learner.state_dict())
    with np.load(tmp_path / "state.npz") as saved:
        restored.load_state_dict(dict(saved))
    listed.load_state_dict(
        {key: value.tolist() if value.size else value for key, value in learner.state_dict().items()}
    )
    play(learner, game, 5)
    play(restored, game, 5)
    play(listed, game, 5)
    assert same(learner.state_dict(), restored.state_dict())
    np.testing.assert_array_equal(learner.point, listed.point)


@pytest.mark.parametrize("name", GAMES)
def test_a_state_with_wrong_entries_or_shapes_is_refused(name):
    game = GAMES[name]
    learner = learner_of(game)
    play(learner, game, 4)
    good = learner.state_dict()
    play(learner, game, 1)
    now = learner.state_dict()
    for key in good:
        with pytest.raises(ValueError, match="must have the entries"):
            learner.load_state_dict({k: v for k, v in good.items() if k != key})
        with pytest.raises(ValueError, match=rf"{key} of the state must have shape"):
            learner.load_state_dict({**good, key: np.zeros((2, 9, 2))})
    with pytest.raises(ValueError, match=r"must have the entries .* got .*velocity"):
        learner.load_state_dict({**good, "velocity": np.zeros(4)})
    assert same(now, learner.state_dict())
    learner.load_state_dict(good)
    assert same(good, learner.state_dict())


def test_a_state_of_another_algorithm_or_size_is_refused():
    for (_, a), (_, b) in itertools.permutations([(n, GAMES[n]) for n in ("rda", "adagrad", "ftrl", "arow")], 2):
        with pytest.raises(ValueError, match="must have the entries"):
            learner_of(a).load_state_dict(learner_of(b).state_dict())
    small, large = (ps.OnlineLearner(ps.RDA(), dim=d) for d in (2, 3))
    with pytest.raises(ValueError, match=r"must have shape \(2,\), got \(3,\)"):
        small.load_state_dict(large.state_dict())


def test_learners_pickle():
    game = GAMES["adagrad-blocks"]
    learner = learner_of(game)
    play(learner, game, 3)
    copy = pickle.loads(pickle.dumps(learner))
    play(learner, game, 3)
    play(copy, game, 3)
    assert same(learner.state_dict(), copy.state_dict())


# ---- what it refuses ---------------------------------------------------------------------------


def refused(learner, call, error, *words):
    """The call raises an error with all the words in it, and the learner is as it was."""
    before, point, t = learner.state_dict(), learner.point, learner.t
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {caught.value}"
    assert same(before, learner.state_dict())
    assert learner.t == t
    np.testing.assert_array_equal(point, learner.point)


@pytest.mark.parametrize("name", [name for name, game in GAMES.items() if not game.loss])
def test_bad_gradients(name):
    game = GAMES[name]
    learner = learner_of(game)
    play(learner, game, 3)
    for bad in (math.nan, math.inf, -math.inf):
        g = np.ones(4)
        g[2] = bad
        refused(learner, lambda g=g: learner.update(g), ValueError, "g must be finite", str(bad), "index 2")
    refused(learner, lambda: learner.update(np.ones(3)), ValueError, "g must have shape (4,)", "(3,)")
    refused(learner, lambda: learner.update(np.ones((4, 1))), ValueError, "g must have shape (4,)", "(4, 1)")
    refused(learner, lambda: learner.update(1.0), ValueError, "g must have shape (4,)", "()")
    refused(learner, lambda: learner.update(["a", "b", "c", "d"]), TypeError, "g must be an array of numbers")
    refused(learner, lambda: learner.update(None), (TypeError, ValueError), "g must")


@pytest.mark.parametrize("name", [name for name, game in GAMES.items() if game.loss])
def test_bad_examples(name):
    game = GAMES[name]
    learner = learner_of(game)
    play(learner, game, 3)
    y = 1
    z = np.ones(4)
    for bad in (math.nan, math.inf):
        row = z.copy()
        row[1] = bad
        refused(learner, lambda row=row: learner.learn(row, y, game.loss), ValueError, "z must be finite", "index 1")
    refused(learner, lambda: learner.learn(np.ones(5), y, game.loss), ValueError, "z must", "4 features", "(5,)")
    refused(learner, lambda: learner.learn(np.ones((0, 4)), [], game.loss), ValueError, "z must", "(0, 4)")
    refused(learner, lambda: learner.learn(np.ones((2, 4)), y, game.loss), ValueError, "y must have one label per row")
    refused(learner, lambda: learner.learn(z, [y, y], game.loss), ValueError, "y must have one label per row")
    refused(learner, lambda: learner.learn(z, math.nan, game.loss), ValueError, "y")
    refused(learner, lambda: learner.learn(z, y, "hinges"), ValueError, "hinges")
    refused(learner, lambda: learner.learn(z, y, 3), TypeError, "loss must be")
    other = "softmax" if learner.point.ndim == 1 else "hinge"
    refused(learner, lambda: learner.learn(z, y, other), ValueError, "dim")
    if learner.point.ndim == 2:
        refused(learner, lambda: learner.learn(z, 3, game.loss), ValueError, "0..2", "3")
        refused(learner, lambda: learner.learn(z, -1, game.loss), ValueError, "-1")
    elif ps.losses.get(game.loss).kind == "binary":
        refused(learner, lambda: learner.learn(z, 0, game.loss), ValueError, "-1 or +1", "0")


def test_learners_of_examples_refuse_bare_gradients_and_batches():
    for algorithm in (ps.PassiveAggressive(), ps.AROW(), ps.MirrorDescent(implicit=True)):
        learner = ps.OnlineLearner(algorithm, dim=2)
        refused(learner, lambda u=learner: u.update([1.0, 1.0]), TypeError, "learn(z, y, loss)")
        refused(learner, lambda u=learner: u.learn(np.ones((2, 2)), [1, 1], "hinge"), TypeError, "one example")
    leader = ps.OnlineLearner(ps.FollowTheLeader(curvature=0.0), dim=2)
    refused(leader, lambda: leader.update([1.0, 1.0]), TypeError, "curvature")
    matrix = ps.OnlineLearner(ps.MirrorDescent(implicit=True), dim=(2, 3))
    refused(matrix, lambda: matrix.learn([1.0, 1.0], 1, "softmax"), TypeError, "one output")


def test_losses_that_an_algorithm_does_not_know():
    pa, arow, leader = (ps.OnlineLearner(a, dim=2) for a in (ps.PassiveAggressive(), ps.AROW(), ps.FollowTheLeader()))
    refused(pa, lambda: pa.learn([1.0, 1.0], 1, "logistic"), TypeError, "hinge", "Logistic()")
    refused(arow, lambda: arow.learn([1.0, 1.0], 1, "squared"), TypeError, "hinge", "Squared()")
    refused(leader, lambda: leader.learn([1.0, 1.0], 1, "hinge"), TypeError, "squared loss", "Hinge()")
    sparse = ps.OnlineLearner(ps.FollowTheLeader(), ps.L1(0.1), dim=2)
    refused(sparse, lambda: sparse.learn([1.0, 1.0], 1, "squared"), TypeError, "L2", "L1(lam=0.1)")


def test_a_rate_that_rises():
    for rate, first_bad in ((lambda t: 0.1 * t, 2), (lambda t: 1.0 if t < 3 else 1.1, 3)):
        for centering in ("origin", "proximal"):
            learner = ps.OnlineLearner(ps.FTRL(rate, centering), ps.L1(0.1), dim=2)
            for _ in range(first_bad - 1):
                learner.update([1.0, -1.0])
            call = lambda learner=learner: learner.update([1.0, 0.0])  # noqa: E731
            refused(learner, call, ValueError, "rate must not rise", f"t = {first_bad}")
    learner = ps.OnlineLearner(ps.FTRL(lambda t: 1.0 if t < 2 else -1.0), dim=2)
    learner.update([1.0, 1.0])
    refused(learner, lambda: learner.update([1.0, 1.0]), ValueError, "rate", "> 0", "-1.0", "t = 2")
    with pytest.raises(ValueError, match=r"rate must be finite and > 0 .* got nan"):
        ps.OnlineLearner(ps.FTRL(lambda t: math.nan), dim=2)


def test_penalty_weights_that_rise():
    learner = ps.OnlineLearner(ps.FTRL(0.1, penalty_weight=lambda t: 1.0 * t), ps.L1(0.1), dim=2)
    learner.update([1.0, 1.0])
    refused(learner, lambda: learner.update([1.0, 1.0]), ValueError, "penalty_weight must not rise", "1", "2", "t = 2")
    learner = ps.OnlineLearner(ps.FTRL(0.1, penalty_weight=lambda t: 1.0 - t), ps.L1(0.1), dim=2)
    learner.update([1.0, 1.0])
    refused(learner, lambda: learner.update([1.0, 1.0]), ValueError, "penalty_weight", ">= 0", "-1.0")


UNSOLVABLE = [
    (ps.AdaGrad(matrix="full"), ps.L1(0.1), 4, TypeError, ["L2, L2Norm, L2Ball", "L1(lam=0.1)"]),
    (ps.AdaGrad(matrix="full"), ps.L2([0.1, 0.2, 0.3, 0.4]), 4, TypeError, ["L2(lam="]),
    (ps.AdaGrad(matrix=[0, 0, 1, 1]), ps.Box(-1.0, 1.0), 4, TypeError, ["Box(lo=-1.0, hi=1.0)"]),
    (ps.AdaGrad(matrix=[0, 0, 1]), None, 4, ValueError, ["matrix", "4", "3"]),
    (ps.AdaGrad(matrix="full"), None, (4, 2), ValueError, ["matrix", "(4, 2)"]),
    (ps.RDA(geometry=ps.PNorm(1.5)), ps.L2(0.1), 4, TypeError, ["PNorm", "L1", "L2(lam=0.1)"]),
    (ps.RDA(geometry=ps.PNorm(1.5)), ps.L2Ball(0.1), 4, TypeError, ["PNorm", "L2Ball"]),
    (ps.RDA(geometry=ps.Entropy()), ps.L1(0.1), 4, TypeError, ["Entropy", "Simplex", "L1(lam=0.1)"]),
    (ps.MirrorDescent(geometry=ps.Entropy()), ps.Box(0.0, 1.0), 4, TypeError, ["Entropy", "Box"]),
    (ps.RDA(rho=0.5, geometry=ps.Entropy()), None, 4, TypeError, ["Entropy", "0.5"]),
    (ps.RDA(rho=0.5), ps.KL(1.0), 4, TypeError, ["KL", "L1(lam=0.5)"]),
    (ps.MirrorDescent(projection="lazy"), ps.L1(0.1), 4, TypeError, ["lazy", "Box", "L1(lam=0.1)"]),
    (ps.MirrorDescent(projection="lazy"), ps.L1(0.1) + ps.Box(-1.0, 1.0), 4, TypeError, ["lazy", "L1(lam=0.1)"]),
    (ps.RDA(schedule="zero"), ps.L1(0.1), 4, ValueError, ["schedule='zero'", "strongly convex", "L1(lam=0.1)"]),
    (ps.RDA(schedule="zero"), None, 4, ValueError, ["schedule='zero'", "NoPenalty()"]),
    (ps.RDA(schedule="zero"), ps.L2([1.0, 1.0, 0.0, 1.0]), 4, ValueError, ["schedule='zero'"]),
    (ps.PassiveAggressive(), ps.L1(0.1), 4, TypeError, ["PassiveAggressive", "Box", "L1(lam=0.1)"]),
    (ps.PassiveAggressive(), ps.L2Ball(1.0), 4, TypeError, ["PassiveAggressive", "L2Ball"]),
    (ps.AROW(), ps.L2(0.1), 4, TypeError, ["AROW", "Box", "L2(lam=0.1)"]),
    (ps.AROW(), None, (4, 2), ValueError, ["AROW", "(4, 2)"]),
    (ps.TruncatedGradient(), ps.Box(-1.0, 1.0), 4, TypeError, ["TruncatedGradient", "L1", "Box"]),
    (ps.TruncatedGradient(), ps.L1(0.1) + ps.NonNegative(), 4, TypeError, ["TruncatedGradient", "NonNegative()"]),
    (ps.FTRL(rates.AdaptiveDiagonal(1.0), geometry=ps.Entropy()), None, 4, TypeError, ["rate", "Euclidean"]),
    (ps.FTRL(rates.AdaptiveDiagonal(1.0), geometry=ps.PNorm(1.5)), None, 4, TypeError, ["rate", "Euclidean"]),
    (ps.RDA(), ps.L1([0.1, 0.2]), 4, ValueError, ["lam", "(4,)", "(2,)"]),
    (ps.RDA(), 0.1, 4, TypeError, ["penalty", "0.1"]),
    ("rda", None, 4, TypeError, ["algorithm", "'rda'"]),
    (ps.RDA, None, 4, TypeError, ["algorithm"]),
    (ps.RDA(), None, 0, ValueError, ["dim", ">= 1", "0"]),
    (ps.RDA(), None, 2.5, TypeError, ["dim", "2.5"]),
    (ps.RDA(), None, (2, 3, 4), ValueError, ["(2, 3, 4)"]),
    (ps.RDA(), None, (), ValueError, ["()"]),
]


@pytest.mark.parametrize(("algorithm", "penalty", "dim", "error", "words"), UNSOLVABLE)
def test_what_has_no_exact_step_is_refused_at_the_door(algorithm, penalty, dim, error, words):
    with pytest.raises(error) as caught:
        ps.OnlineLearner(algorithm, penalty, dim=dim)
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {caught.value}"


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("size", [1e160, 1e300])
def test_what_overflows_is_refused_or_survived_but_never_kept(name, size):
    """No warning, no inf or nan in the state: either an error that leaves no trace, or a finite step."""
    game = GAMES[name]
    learner = learner_of(game)
    play(learner, game, 2)
    before = learner.state_dict()
    z = np.array([size, 0.0, -size, 1.0])
    try:
        if game.loss:
            learner.learn(z, 1, game.loss)
        else:
            learner.update(z)
    except (ValueError, FloatingPointError):
        assert same(before, learner.state_dict())
    for value in learner.state_dict().values():
        assert np.isfinite(value).all()
    play(learner, game, 2)


def test_curvature_that_is_missing_is_named():
    """A gradient so small that its square is 0 leaves AdaGrad without curvature: an error, and nothing changes."""
    learner = ps.OnlineLearner(ps.AdaGrad(delta=0.0), dim=2)
    learner.update([1.0, 0.0])
    refused(learner, lambda: learner.update([0.0, 1e-170]), ValueError, "h = 0.0 at index 1", "1e-170")
