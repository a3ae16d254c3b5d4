"""What the papers prove equal is equal, what they prove different differs, and their worked examples come out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxstream as ps
from proxstream.core.algorithms import rates

D = 6
EXACT = 1e-10


def same_points(first, second, rounds=300, seed=0, scale=1.0, sparse=0.3):
    """Play both learners against the same gradients, and return the points, which agree to 1e-10."""
    rng = np.random.default_rng(seed)
    points = [first.point]
    for _ in range(rounds):
        np.testing.assert_allclose(first.point, second.point, rtol=0.0, atol=EXACT)
        g = scale * (rng.normal(size=first.point.shape) + 0.3 * first.point)
        g *= rng.random(first.point.shape) >= sparse
        first.update(g)
        second.update(g)
        points.append(first.point)
    np.testing.assert_allclose(first.point, second.point, rtol=0.0, atol=EXACT)
    return np.array(points)


def learners(penalty, *algorithms, dim=D):
    return [ps.OnlineLearner(algorithm, penalty, dim=dim) for algorithm in algorithms]


# ---- Theorem 11: mirror descent is FTRL-Proximal with its past penalties linearized ------------

SCHEDULES = {
    "constant": rates.Constant(0.4),
    "sqrt": rates.SqrtDecay(0.4),
    "linear": lambda t: 0.4 / t,
}
THEOREM_11 = {
    "none": (ps.Euclidean(), None),
    "l1": (ps.Euclidean(), ps.L1(0.3)),
    "enet": (ps.Euclidean(), ps.ElasticNet(0.2, 0.5)),
    "box": (ps.Euclidean(), ps.Box(-0.2, 0.3)),
    "box-without-0": (ps.Euclidean(), ps.Box(0.1, 0.6)),
    "l1-box": (ps.Euclidean(), ps.L1(0.2) + ps.Box(-0.2, 0.3)),
    "ball": (ps.Euclidean(), ps.L2Ball(0.4)),
    "simplex": (ps.Euclidean(), ps.Simplex()),
    "group": (ps.Euclidean(), ps.GroupL2(0.3, [0, 0, 1, 1, 2, 2])),
    "pnorm": (ps.PNorm(1.4), None),
    "pnorm-l1": (ps.PNorm(1.4), ps.L1(0.1)),
    "entropy": (ps.Entropy(), None),
    "entropy-radius": (ps.Entropy(), ps.Simplex(2.5)),
    "entropy-kl": (ps.Entropy(), ps.KL(0.4)),
}


@pytest.mark.default_cases(5)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", THEOREM_11)
def test_theorem_11(case, schedule):
    geometry, penalty = THEOREM_11[case]
    mirror = ps.MirrorDescent(0.4, schedule, geometry)
    ftrl = ps.FTRL(SCHEDULES[schedule], "proximal", "linearized", geometry=geometry)
    points = same_points(*learners(penalty, mirror, ftrl))
    assert np.ptp(points, axis=0).min() > 1e-4, "the game must move every weight"


@pytest.mark.parametrize("penalty", [None, ps.L1(0.3), ps.Box(-0.2, 0.3), ps.L2(0.5)], ids=repr)
@pytest.mark.parametrize("delta", [0.0, 0.7])
def test_theorem_11_with_adagrad_rates(penalty, delta):
    """AdaGrad adds delta beside the root; the survey's floor stands under it. With delta = 0 they are one."""

    class Beside(rates.Rate):
        def inverse(self, t, q, n):
            return (delta + np.sqrt(q)) / 0.5

    mirror = ps.AdaGrad(0.5, delta, "mirror")
    same_points(*learners(penalty, mirror, ps.FTRL(Beside(), "proximal", "linearized")))
    if delta == 0.0:
        same_points(*learners(penalty, mirror, ps.FTRL(rates.AdaptiveDiagonal(0.5), "proximal", "linearized")))


@pytest.mark.parametrize("penalty", [ps.L1(0.3), ps.Box(-0.2, 0.3)], ids=repr)
def test_native_and_linearized_pasts_differ(penalty):
    native, linearized = learners(penalty, ps.FTRL(0.4, "proximal"), ps.FTRL(0.4, "proximal", "linearized"))
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(50):
        g = rng.normal(size=D)
        native.update(g)
        linearized.update(g)
        gaps.append(np.abs(native.point - linearized.point).max())
    assert max(gaps) > 1e-2
    assert gaps[0] < 1e-15, "one round has no past"


# ---- one algorithm by two names ----------------------------------------------------------------


@pytest.mark.parametrize("penalty", [None, ps.L1(0.3)], ids=repr)
@pytest.mark.parametrize("rho", [0.0, 0.2])
def test_p_norm_rda_at_2_is_rda(penalty, rho):
    same_points(*learners(penalty, ps.RDA(1.3, rho), ps.RDA(1.3, rho, ps.PNorm(2.0))))


def test_smidas_at_2_is_fobos():
    same_points(*learners(ps.L1(0.1), ps.MirrorDescent(0.3), ps.MirrorDescent(0.3, geometry=ps.PNorm(2.0))))


def test_accelerated_p_norm_at_2_is_accelerated():
    same_points(*learners(ps.L1(0.1), ps.AcceleratedRDA(), ps.AcceleratedRDA(geometry=ps.PNorm(2.0))))


@pytest.mark.parametrize("schedule", ["sqrt", "constant", "linear"])
@pytest.mark.parametrize(
    "penalty", [None, ps.L1(0.3), ps.L1([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])], ids=["none", "l1", "l1s"]
)
def test_fobos_is_truncated_gradient_with_every_1(penalty, schedule):
    same_points(
        *learners(penalty, ps.MirrorDescent(0.3, schedule), ps.TruncatedGradient(0.3, every=1, schedule=schedule))
    )


def test_truncated_gradient_on_a_matrix_takes_a_strength_a_row():
    penalty = ps.L1([0.1, 0.2, 0.4])
    points = same_points(*learners(penalty, ps.MirrorDescent(0.3), ps.TruncatedGradient(0.3, every=1), dim=(3, 2)))
    zeros = (points == 0.0).sum(axis=(0, 2))
    assert zeros[0] < zeros[2]


def test_without_a_penalty_sgd_fobos_and_truncated_gradient_are_one():
    for other in (ps.SGD(0.3), ps.TruncatedGradient(0.3, every=4)):
        same_points(*learners(None, ps.MirrorDescent(0.3), other))
    same_points(*learners(ps.Box(-0.2, 0.3), ps.MirrorDescent(0.3), ps.SGD(0.3)))


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_ftrl_proximal_without_a_penalty_is_gradient_descent_per_coordinate(beta):
    """x_j -= alpha / (beta + root of squares) g_j (McMahan et al. 2013), by an independent loop."""
    learner = ps.OnlineLearner(ps.FTRLProximal(0.4, beta), dim=D)
    rng, x, q = np.random.default_rng(1), np.zeros(D), np.zeros(D)
    for _ in range(300):
        g = rng.normal(size=D) * (rng.random(D) < 0.5)
        learner.update(g)
        q += g * g
        for j in range(D):
            if g[j]:
                x[j] -= 0.4 / (beta + math.sqrt(q[j])) * g[j]
        np.testing.assert_allclose(learner.point, x, rtol=0.0, atol=EXACT)


@pytest.mark.parametrize("penalty", [None, ps.L2(0.0)], ids=repr)
def test_without_a_penalty_ftrl_proximal_is_adagrads_mirror_step(penalty):
    same_points(*learners(penalty, ps.FTRLProximal(0.4, 1.0), ps.AdaGrad(0.4, 1.0, "mirror")))


def test_ftrl_proximal_is_a_case_of_the_template():
    for penalty in (None, ps.L1(0.2), ps.Box(-0.2, 0.3)):
        for weight in ("every_round", "once"):
            template = ps.FTRL(rates.AdaptiveDiagonal(0.4), "proximal", penalty_weight=weight)
            same_points(*learners(penalty, ps.FTRLProximal(0.4, 0.0, weight), template))


def test_rda_is_a_case_of_the_template():
    for penalty in (None, ps.L1(0.2), ps.ElasticNet(0.2, 0.1), ps.L2Ball(0.5)):
        same_points(*learners(penalty, ps.RDA(2.5), ps.FTRL(rates.SqrtDecay(0.4))))
        same_points(*learners(penalty, ps.RDA(2.5), ps.FTRL(lambda t: 0.4 / math.sqrt(t), penalty_weight=[1.0])))


def test_constant_rate_ftrl_is_online_gradient_descent():
    learner = ps.OnlineLearner(ps.FTRL(0.2), dim=D)
    rng, x = np.random.default_rng(2), np.zeros(D)
    for _ in range(300):
        g = rng.normal(size=D) + x
        learner.update(g)
        x = x - 0.2 * g
        np.testing.assert_allclose(learner.point, x, rtol=0.0, atol=EXACT)
    for centering in ("origin", "proximal"):
        same_points(*learners(None, ps.FTRL(0.2, centering), ps.MirrorDescent(0.2, "constant")))


@pytest.mark.parametrize("curvature", [0.5, 1.0, 4.0])
def test_follow_the_leader_is_gradient_descent_at_one_over_curvature_t(curvature):
    learner = ps.OnlineLearner(ps.FollowTheLeader(curvature), dim=D)
    rng, x = np.random.default_rng(3), np.zeros(D)
    for t in range(1, 301):
        g = rng.normal(size=D) + curvature * x
        learner.update(g)
        x = x - g / (curvature * t)
        np.testing.assert_allclose(learner.point, x, rtol=0.0, atol=EXACT)
    same_points(*learners(None, ps.FollowTheLeader(curvature), ps.MirrorDescent(1 / curvature, "linear")))


def test_follow_the_leader_on_quadratics_minimizes_their_sum():
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(50, D))
    leader = ps.OnlineLearner(ps.FollowTheLeader(2.0), ps.L2(0.5), dim=D)
    for t, c in enumerate(centres, 1):
        leader.update(2.0 * (leader.point - c))
        np.testing.assert_allclose(leader.point, 2.0 * centres[:t].mean(axis=0) / 2.5, atol=1e-12)


def test_exponentiated_gradient_is_rda_with_the_entropy_at_a_constant_rate():
    """Unconstrained in mirror coordinates, greedy and lazy meet wherever the rate stands still."""
    entropy = ps.Entropy()
    same_points(
        *learners(None, ps.MirrorDescent(0.3, "constant", entropy), ps.FTRL(0.3, geometry=entropy)),
    )


def test_with_the_zero_schedule_kl_means_the_same_in_both_geometries():
    penalty = ps.KL(0.5, np.arange(1, D + 1) / sum(range(1, D + 1)))
    same_points(
        *learners(penalty, ps.RDA(schedule="zero"), ps.RDA(schedule="zero", geometry=ps.Entropy())),
    )


def test_adagrad_full_on_orthogonal_gradients_is_the_diagonal_one_in_their_basis():
    rng = np.random.default_rng(5)
    V = np.linalg.qr(rng.normal(size=(D, D)))[0]
    for update in ("dual_averaging", "mirror"):
        full, diagonal = learners(ps.L2Ball(0.8), ps.AdaGrad(0.5, 0.1, update, "full"), ps.AdaGrad(0.5, 0.1, update))
        for _ in range(100):
            g = np.zeros(D)
            g[rng.integers(D)] = rng.normal()
            full.update(V @ g)
            diagonal.update(g)
            np.testing.assert_allclose(V.T @ full.point, diagonal.point, rtol=0.0, atol=EXACT)


# ---- lazy and greedy projection (appendix C.2) -------------------------------------------------


def greedy_and_lazy(penalty, dim, eta=1.0, schedule="constant", geometry=None):
    geometry = geometry or ps.Euclidean()
    return learners(
        penalty,
        ps.MirrorDescent(eta, schedule, geometry),
        ps.MirrorDescent(eta, schedule, geometry, projection="lazy"),
        dim=dim,
    )


def test_lazy_remembers_what_greedy_forgets_at_the_boundary():
    """Three steps into the wall and one back: greedy leaves the wall, lazy still has two steps to return."""
    greedy, lazy = greedy_and_lazy(ps.Box(-1.0, 1.0), 1)
    for g in (-1.0, -1.0, -1.0):
        greedy.update([g])
        lazy.update([g])
    assert greedy.point == lazy.point == 1.0
    greedy.update([1.0])
    lazy.update([1.0])
    assert greedy.point == 0.0
    assert lazy.point == 1.0


def test_lazy_is_greedy_without_a_constraint_and_away_from_its_boundary():
    same_points(*greedy_and_lazy(None, D, 0.2))
    same_points(*greedy_and_lazy(ps.L2Ball(1e3), D, 0.2))
    same_points(*greedy_and_lazy(ps.Box(-1e3, 1e3), D, 0.2))


def test_lazy_is_greedy_on_the_simplex_with_the_entropy():
    """The normalization only shifts the logarithms: the two families are one there, at a constant rate."""
    same_points(*greedy_and_lazy(ps.Simplex(2.0), D, 0.3, geometry=ps.Entropy()))
    greedy, lazy = greedy_and_lazy(ps.Simplex(), 3, 1.0)  # in the Euclidean geometry they are two
    for g in ([5.0, 0.0, 0.0], [-2.0, 0.0, 0.0]):
        greedy.update(g)
        lazy.update(g)
    assert np.abs(greedy.point - lazy.point).max() > 0.1


def test_lazy_is_native_ftrl_with_the_constraint_once():
    for schedule, rate in (("constant", 0.4), ("sqrt", rates.SqrtDecay(0.4))):
        lazy = ps.MirrorDescent(0.4, schedule, projection="lazy")
        for penalty in (ps.Box(-0.2, 0.3), ps.L2Ball(0.4)):
            same_points(*learners(penalty, lazy, ps.FTRL(rate, penalty_weight="once")))


def test_greedy_and_lazy_part_at_a_rate_that_falls():
    greedy, lazy = greedy_and_lazy(None, 1, schedule="sqrt")
    for _ in range(2):
        greedy.update([1.0])
        lazy.update([1.0])
    assert greedy.point[0] == pytest.approx(-1.0 - 1.0 / math.sqrt(2.0))
    assert lazy.point[0] == pytest.approx(-2.0 / math.sqrt(2.0))


# ---- McMahan's one-dimensional example (section 6.2, appendix D) -------------------------------

G, T, LAM = 11.0, 16, 0.5
RATE = 2.0 / math.sqrt(T)


def one_dimensional(algorithm, adversary):
    learner = ps.OnlineLearner(algorithm, ps.L1(LAM), dim=1)
    points = [0.0]
    for t in range(1, T + 1):
        x = float(learner.point[0])
        learner.update([-(G + LAM) / 2.0 if t == 1 else adversary(t, x)])
        points.append(float(learner.point[0]))
    return np.array(points)  # points[t] is x_{t+1}


def alternating(t, x):
    return G if t % 2 == 0 else -G


def as_printed(t, x):
    return G if x > 0.0 else -G


@pytest.mark.parametrize("adversary", [alternating, as_printed])
@pytest.mark.parametrize(
    "algorithm",
    [ps.MirrorDescent(RATE, "constant"), ps.FTRL(RATE, "proximal", "linearized"), ps.FTRL(RATE, past="linearized")],
    ids=["mirror", "theorem-11", "linearized"],
)
def test_mirror_descent_oscillates_for_ever(algorithm, adversary):
    points = one_dimensional(algorithm, adversary)
    x_hat = (G - LAM) / math.sqrt(T)
    assert points[0] == 0.0
    np.testing.assert_allclose(points[1:], [x_hat if t % 2 else -x_hat for t in range(1, T + 1)], atol=1e-12)


@pytest.mark.parametrize(
    "algorithm",
    [ps.FTRL(RATE), ps.FTRL(RATE, "proximal")],
    ids=["origin", "proximal"],
)
def test_native_ftrl_learns_that_zero_is_best(algorithm):
    points = one_dimensional(algorithm, alternating)
    assert points[1] == pytest.approx((G - LAM) / math.sqrt(T))
    for t in range(1, T + 1):
        if t > G / (2.0 * LAM) + 0.5:
            assert points[t] == 0.0
    assert np.any(points[2:11] != 0.0), "before that it does move"


def test_the_adversary_as_printed_drives_native_ftrl_away_again():
    """g = -G whenever x <= 0: at 0 the gradient sum grows without end, and so must the point."""
    points = one_dimensional(ps.FTRL(RATE), as_printed)
    late = np.array([points[t] for t in range(1, T + 1) if t > G / (2.0 * LAM) + 0.5])
    assert (late != 0.0).any()
    assert (points == 0.0).sum() > 1


# ---- Duchi, Hazan and Singer's two examples (section 1.2, appendix A) --------------------------


def hinge_game(learner, V, cycles, seed=0):
    """The total hinge loss of a game in which z_t = +-v_i in turn, and y_t = sign(<1, V' z_t>).

    The margin 1 is a kink where 0 is a subgradient; a rotated basis reaches it up to rounding.
    """
    rng, total = np.random.default_rng(seed), 0.0
    for _ in range(cycles):
        for v in V.T:
            y = rng.choice([-1.0, 1.0])
            z = y * v
            loss = max(0.0, 1.0 - y * float(z @ learner.point))
            learner.update(-y * z * (loss > 1e-12))
            total += loss
    return total


@pytest.mark.parametrize("d", [8, 16, 50])
def test_diagonal_adagrad_suffers_d_and_gradient_descent_far_more(d):
    cycles = math.ceil(math.sqrt(d) + 1) + 1
    box = ps.Box(-1.0, 1.0)
    adaptive = ps.OnlineLearner(ps.AdaGrad(1.0, 0.0, "mirror"), box, dim=d)
    descent = ps.OnlineLearner(ps.MirrorDescent(1.0, "sqrt"), box, dim=d)
    assert hinge_game(adaptive, np.eye(d), cycles) == d
    np.testing.assert_array_equal(adaptive.point, np.ones(d))
    assert hinge_game(descent, np.eye(d), cycles) >= d + d * math.sqrt(d) / 4.0


@pytest.mark.parametrize("d", [8, 16, 30])
def test_full_adagrad_suffers_d_in_any_basis_and_gradient_descent_far_more(d):
    cycles = math.ceil(math.sqrt(d) + 1) + 1
    V = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0]
    ball = ps.L2Ball(math.sqrt(d))
    adaptive = ps.OnlineLearner(ps.AdaGrad(1.0, 0.0, "mirror", "full"), ball, dim=d)
    descent = ps.OnlineLearner(ps.MirrorDescent(1.0, "sqrt"), ball, dim=d)
    diagonal = ps.OnlineLearner(ps.AdaGrad(1.0, 0.0, "mirror"), ball, dim=d)
    assert hinge_game(adaptive, V, cycles) == pytest.approx(d, abs=1e-9)
    np.testing.assert_allclose(adaptive.point, V.sum(axis=1), atol=1e-9)
    assert hinge_game(descent, V, cycles) >= d + d * math.sqrt(d) / 4.0
    assert hinge_game(diagonal, V, cycles) > d + 1.0, "the diagonal cannot see a rotated basis"


def test_proposition_1_needs_d_of_8_or_so():
    """The sum of equation (6), as the paper writes it: it fails its own bound at d = 2."""

    def six(d, cycles):
        rounds = range(cycles + 1)
        hinge = [
            max(0.0, 1.0 - sum(1.0 / math.sqrt(i + tau * d) for tau in range(t + 1)))
            for t in rounds
            for i in range(1, d + 1)
        ]
        return d + sum(hinge)

    assert six(8, 4) >= 8 + 8 * math.sqrt(8) / 4
    assert six(2, 3) < 2 + 2 * math.sqrt(2) / 4
