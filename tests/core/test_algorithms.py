"""Every registered algorithm against its naive twin, and what each promises on its own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import proxstream as ps
from proxstream.core.algorithms import ALGORITHMS, rates

from ..learner import naive_auto
from ..online import naive_online as naive

ROUNDS = 240
D = 5
PRIOR = np.array([0.4, 0.1, 0.2, 0.25, 0.05])
LABELS = (0, 1, 0, 1, 2)


class Twin(NamedTuple):
    """An algorithm with a penalty, the generator that must select the same points, and what they play."""

    algorithm: Any
    penalty: Any
    naive: Callable[[], Any]
    dim: Any = D
    loss: str | None = None


def zeros():
    return np.zeros(D)


def uniform(radius=1.0):
    return np.full(D, radius / D)


def sqrt_rate(eta):
    return lambda t: eta / math.sqrt(t)


def entropic_rate(scale, floor):
    return lambda t, gradients: scale / math.sqrt(floor**2 + sum(np.max(np.abs(g)) ** 2 for g in gradients))


def diagonal_rate(scale, floor):
    return lambda t, gradients: np.sqrt(floor**2 + sum((g * g for g in gradients), np.zeros(D))) / scale


def always(value):
    return lambda t: value


def ball(radius):
    return lambda x: x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))


L1, L2, ENET, BOX = ps.L1(0.2), ps.L2(0.3), ps.ElasticNet(0.2, 0.3), ps.Box(-0.4, 0.3)
N_L1, N_L2 = naive.separable(l1=0.2), naive.separable(l2=0.3)
N_ENET, N_BOX = naive.separable(l1=0.2, l2=0.3), naive.separable(lo=-0.4, hi=0.3)
PENALTIES = {
    "none": (None, naive.none),
    "l1": (L1, N_L1),
    "l2": (L2, N_L2),
    "enet": (ENET, N_ENET),
    "box": (BOX, N_BOX),
}
ROUND = {
    "none": (None, naive.round_none),
    "l2": (L2, naive.round_l2(0.3)),
    "l2_norm": (ps.L2Norm(0.5), naive.round_l2_norm(0.5)),
    "l2_ball": (ps.L2Ball(0.5), naive.round_l2_ball(0.5)),
}


def _rda():
    def beta(t):
        return 1.5 * math.sqrt(t)

    def log(t):
        return 1.5 * (1 + math.log(t))

    rda, entropy = ps.RDA(gamma=1.5), ps.RDA(gamma=1.5, geometry=ps.Entropy())
    zero = ps.RDA(schedule="zero")
    yield "eq10", Twin(rda, L1, lambda: naive.rda_l1(D, 0.2, 1.5))
    yield "eq30", Twin(ps.RDA(gamma=1.5, rho=0.3), L1, lambda: naive.rda_l1(D, 0.2, 1.5, 0.3))
    yield "rho-none", Twin(ps.RDA(gamma=1.5, rho=0.3), None, lambda: naive.rda_l1(D, 0.0, 1.5, 0.3))
    for name, (penalty, prox) in PENALTIES.items():
        yield f"sqrt-{name}", Twin(rda, penalty, lambda prox=prox: naive.rda(zeros(), prox, beta))
        yield (
            f"log-{name}",
            Twin(ps.RDA(1.5, schedule="log"), penalty, lambda prox=prox: naive.rda(zeros(), prox, log)),
        )
    yield "zero-l2", Twin(zero, L2, lambda: naive.rda(zeros(), lambda g, h, k: -g / 0.3, always(0.0)))
    yield "zero-enet", Twin(zero, ENET, lambda: naive.rda(zeros(), N_ENET, always(0.0)))
    yield "eq9-ball", Twin(rda, ps.L2Ball(0.3), lambda: naive.rda(zeros(), lambda g, h, k: ball(0.3)(-g / h), beta))
    yield "eq9-simplex", Twin(rda, ps.Simplex(2.0), lambda: naive.rda(uniform(2.0), naive.simplex(2.0), beta))
    yield "l2-norm", Twin(rda, ps.L2Norm(0.5), lambda: naive.rda(zeros(), naive.round_l2_norm(0.5), beta))
    for p in (1.2, 1.5, 2.0):
        pnorm = ps.RDA(gamma=1.5, geometry=ps.PNorm(p))
        yield f"pnorm-{p}-l1", Twin(pnorm, L1, lambda p=p: naive.rda_pnorm(D, 0.2, 1.5, p))
        yield f"pnorm-{p}", Twin(pnorm, None, lambda p=p: naive.rda_pnorm(D, 0.0, 1.5, p))
    yield (
        "pnorm-rho",
        Twin(ps.RDA(1.5, 0.3, ps.PNorm(1.5)), L1, lambda: naive.rda_pnorm(D, 0.2, 1.5, 1.5, 0.3)),
    )
    yield "entropy", Twin(entropy, None, lambda: naive.rda_entropy(D, 1.5))
    yield "entropy-radius", Twin(entropy, ps.Simplex(3.0), lambda: naive.rda_entropy(D, 1.5, 3.0))
    for name, geometry in (("euclidean", ps.Euclidean()), ("entropy", ps.Entropy())):
        kl = ps.RDA(schedule="zero", geometry=geometry)
        yield f"kl-zero-{name}", Twin(kl, ps.KL(0.7, PRIOR), lambda: naive.rda_kl(D, 0.7, PRIOR, always(0.0)))
    yield "kl-sqrt", Twin(entropy, ps.KL(0.7, PRIOR), lambda: naive.rda_kl(D, 0.7, PRIOR, beta))
    yield "kl-uniform", Twin(entropy, ps.KL(0.7), lambda: naive.rda_kl(D, 0.7, uniform(), beta))


def _accelerated():
    linear = (lambda t: t / 2, lambda t: 0.8 * (t + 1) ** 1.5 / 2)
    constant = (lambda t: 1.0, lambda t: 0.8 * math.sqrt(t + 1))
    for weights, (alpha, beta) in (("linear", linear), ("constant", constant)):
        for name, (penalty, prox) in PENALTIES.items():
            yield (
                f"{weights}-{name}",
                Twin(
                    ps.AcceleratedRDA(gamma=0.8, smoothness=2.0, weights=weights),
                    penalty,
                    lambda prox=prox, alpha=alpha, beta=beta: naive.accelerated(zeros(), prox, alpha, beta, 2.0),
                ),
            )

        def entropy_prox(g, h, k):
            return naive.normalized(np.exp(-g / h))

        def pnorm_prox(g, h, k):
            return naive.inverse_link(-0.5 * naive.soft(g, 0.2) / h, 1.5)

        for name, geometry, penalty, prox, first in (
            ("entropy", ps.Entropy(), None, entropy_prox, uniform()),
            ("pnorm", ps.PNorm(1.5), L1, pnorm_prox, zeros()),
        ):
            yield (
                f"{weights}-{name}",
                Twin(
                    ps.AcceleratedRDA(0.8, 2.0, weights, geometry),
                    penalty,
                    lambda a=alpha, b=beta, q=prox, x=first: naive.accelerated(x, q, a, b, 2.0),
                ),
            )


def _adagrad():
    for update in ("dual_averaging", "mirror"):
        for delta in (0.0, 0.5):
            for name, (penalty, prox) in PENALTIES.items():
                yield (
                    f"{update}-diagonal-{delta}-{name}",
                    Twin(
                        ps.AdaGrad(0.6, delta, update),
                        penalty,
                        lambda q=prox, u=update, e=delta: naive.adagrad(zeros(), q, 0.6, e, u),
                    ),
                )
            for name, (penalty, prox) in ROUND.items():
                for matrix, labels in (("full", (0,) * D), (LABELS, LABELS)):
                    if delta == 0.0 and name != "none":
                        continue  # the twin's inverse needs curvature; singular matrices have tests of their own
                    kind = matrix if isinstance(matrix, str) else "blocks"
                    yield (
                        f"{update}-{kind}-{delta}-{name}",
                        Twin(
                            ps.AdaGrad(0.6, delta, update, matrix),
                            penalty,
                            lambda q=prox, u=update, e=delta, v=labels: naive.adagrad(zeros(), q, 0.6, e, u, v),
                        ),
                    )
        yield (
            f"{update}-simplex",
            Twin(
                ps.AdaGrad(0.6, 0.5, update),
                ps.Simplex(),
                lambda u=update: naive.adagrad(uniform(), naive.simplex(), 0.6, 0.5, u),
            ),
        )
    for name, (penalty, prox) in PENALTIES.items():
        yield (
            f"strongly-convex-{name}",
            Twin(
                ps.AdaGrad(0.6, 0.5, "mirror", strongly_convex=True),
                penalty,
                lambda q=prox: naive.adagrad(zeros(), q, 0.6, 0.5, "mirror", strongly_convex=True),
            ),
        )


def _ftrl_proximal():
    for name, (penalty, prox) in PENALTIES.items():
        for beta in (0.0, 1.0):
            for weight in ("every_round", "once"):
                yield (
                    f"{name}-{beta}-{weight}",
                    Twin(
                        ps.FTRLProximal(0.5, beta, weight),
                        penalty,
                        lambda q=prox, b=beta, w=weight: naive.ftrl_proximal(zeros(), q, 0.5, b, w == "once"),
                    ),
                )


def _ftrl():
    # The rate, 1/eta_t of the twin, and 1/eta_0.
    schedules = {
        "constant": (0.3, lambda t, g: 1 / 0.3, 1 / 0.3),
        "sqrt": (rates.SqrtDecay(0.5), lambda t, g: math.sqrt(t) / 0.5, 1 / 0.5),
        "offset": (rates.SqrtDecay(0.5, 1.0), lambda t, g: math.sqrt(t + 1) / 0.5, 1 / 0.5),
        "diagonal": (rates.AdaptiveDiagonal(0.7), diagonal_rate(0.7, 0.0), np.zeros(D)),
        "diagonal-floor": (rates.AdaptiveDiagonal(0.7, 0.4), diagonal_rate(0.7, 0.4), np.full(D, 0.4 / 0.7)),
        "norm": (
            rates.AdaptiveNorm(0.7, 0.4),
            lambda t, gs: math.sqrt(0.16 + sum(g @ g for g in gs)) / 0.7,
            0.4 / 0.7,
        ),
        "function": (lambda t: 0.4 * t**-0.3, lambda t, g: t**0.3 / 0.4, 1 / 0.4),
    }
    weights = {
        "every": ("every_round", always(1.0)),
        "once": ("once", lambda t: float(t == 1)),
        "function": (lambda t: 1.0 / t, lambda t: 1.0 / t),
        "sequence": ((2.0, 1.0, 0.25), lambda t: (2.0, 1.0, 0.25)[min(t, 3) - 1]),
    }
    for centering in ("origin", "proximal"):
        for past in ("native", "linearized"):
            for s, (rate, inverse, r0) in schedules.items():
                for w, (weight, alpha) in weights.items():
                    for p in ("l1", "box") if w == "every" else ("enet",):
                        penalty, prox = PENALTIES[p]
                        yield (
                            f"{centering}-{past}-{s}-{w}-{p}",
                            Twin(
                                ps.FTRL(rate, centering, past, weight),
                                penalty,
                                lambda q=prox, i=inverse, a=alpha, c=centering, h=past, r=r0: naive.ftrl(
                                    zeros(), q, i, a, c, h, r
                                ),
                            ),
                        )
        entropic = rates.AdaptiveNorm(math.sqrt(math.log(D)), 0.5)
        rate = entropic_rate(math.sqrt(math.log(D)), 0.5)
        yield (
            f"{centering}-entropy",
            Twin(
                ps.FTRL(entropic, centering, geometry=ps.Entropy()),
                None,
                lambda c=centering, r=rate: naive.ftrl_entropy(D, r, c),
            ),
        )
        yield (
            f"{centering}-pnorm",
            Twin(
                ps.FTRL(rates.SqrtDecay(0.5), centering, geometry=ps.PNorm(1.5)),
                ps.L1(0.1),
                lambda c=centering: naive.ftrl_pnorm(D, 1.5, 0.1, lambda t: math.sqrt(t) / 0.5, c, 2.0),
            ),
        )


def _mirror():
    for schedule, rate in (("sqrt", sqrt_rate(0.4)), ("constant", always(0.4)), ("linear", lambda t: 0.4 / t)):
        for name, (penalty, prox) in PENALTIES.items():
            yield (
                f"{schedule}-{name}",
                Twin(
                    ps.MirrorDescent(0.4, schedule),
                    penalty,
                    lambda q=prox, r=rate: naive.fobos(zeros(), q, r),
                ),
            )
    rate = sqrt_rate(0.4)
    euclidean, entropy = ps.MirrorDescent(0.4), ps.MirrorDescent(0.4, geometry=ps.Entropy())
    yield "l2-norm", Twin(euclidean, ps.L2Norm(0.3), lambda: naive.fobos(zeros(), naive.round_l2_norm(0.3), rate))
    yield "l2-ball", Twin(euclidean, ps.L2Ball(0.3), lambda: naive.fobos(zeros(), naive.round_l2_ball(0.3), rate))
    yield "simplex", Twin(euclidean, ps.Simplex(), lambda: naive.fobos(uniform(), naive.simplex(), rate))
    yield "entropy", Twin(entropy, None, lambda: naive.exponentiated_gradient(D, rate))
    yield "entropy-radius", Twin(entropy, ps.Simplex(3.0), lambda: naive.exponentiated_gradient(D, rate, 3.0))
    yield "entropy-kl", Twin(entropy, ps.KL(0.7, PRIOR), lambda: naive.kl_mirror_descent(D, 0.7, PRIOR, rate))
    for p in (1.3, 2.0):
        smidas = ps.MirrorDescent(0.4, geometry=ps.PNorm(p))
        yield f"smidas-{p}", Twin(smidas, ps.L1(0.1), lambda p=p: naive.smidas(D, p, 0.1, rate))
    for schedule, falling in (("sqrt", rate), ("constant", always(0.4))):
        lazy = ps.MirrorDescent(0.4, schedule, projection="lazy")
        yield f"lazy-{schedule}", Twin(lazy, None, lambda r=falling: naive.lazy(zeros(), lambda x: x, r))
        yield (
            f"lazy-box-{schedule}",
            Twin(lazy, BOX, lambda r=falling: naive.lazy(zeros(), lambda x: np.clip(x, -0.4, 0.3), r)),
        )
        yield f"lazy-ball-{schedule}", Twin(lazy, ps.L2Ball(0.3), lambda r=falling: naive.lazy(zeros(), ball(0.3), r))
    lazy_entropy = ps.MirrorDescent(0.4, geometry=ps.Entropy(), projection="lazy")
    yield "lazy-entropy", Twin(lazy_entropy, None, lambda: naive.rda_entropy(D, 1 / 0.4))
    implicit = ps.MirrorDescent(0.4, implicit=True)

    def logistic(p, y):
        return -y / (1.0 + math.exp(y * p))

    def squared(p, y):
        return p - y

    yield "implicit-logistic", Twin(implicit, None, lambda: naive.implicit(D, logistic, rate), loss="logistic")
    yield "implicit-squared", Twin(implicit, None, lambda: naive.implicit(D, squared, rate), loss="squared")


def _truncated():
    for schedule, rate in (("sqrt", sqrt_rate(0.4)), ("constant", always(0.4)), ("linear", lambda t: 0.4 / t)):
        for every, theta in ((1, math.inf), (3, math.inf), (7, 0.5), (2, 0.01)):
            yield (
                f"{schedule}-{every}-{theta}",
                Twin(
                    ps.TruncatedGradient(0.4, every, theta, schedule),
                    L1,
                    lambda r=rate, k=every, th=theta: naive.truncated_gradient(D, 0.2, r, k, th),
                ),
            )
    rate = sqrt_rate(0.4)
    for name, penalty in (("enet", ENET), ("sum", L1 + L2)):
        yield (
            name,
            Twin(
                ps.TruncatedGradient(0.4, 3), penalty, lambda: naive.truncated_gradient(D, 0.2, rate, 3, math.inf, 0.3)
            ),
        )
    yield "none", Twin(ps.TruncatedGradient(0.4, 3), None, lambda: naive.truncated_gradient(D, 0, rate, 3, math.inf))


def _sgd():
    subgradients = {
        "none": lambda x: 0.0 * x,
        "l1": lambda x: 0.2 * np.sign(x),
        "l2": lambda x: 0.3 * x,
        "enet": lambda x: 0.2 * np.sign(x) + 0.3 * x,
        "box": lambda x: 0.0 * x,
    }
    for schedule, rate in (("sqrt", sqrt_rate(0.4)), ("constant", always(0.4)), ("linear", lambda t: 0.4 / t)):
        for name, xi in subgradients.items():
            project = (lambda x: np.clip(x, -0.4, 0.3)) if name == "box" else (lambda x: x)
            yield (
                f"{schedule}-{name}",
                Twin(
                    ps.SGD(0.4, schedule),
                    PENALTIES[name][0],
                    lambda xi=xi, q=project, r=rate: naive.sgd(zeros(), xi, q, r),
                ),
            )
    yield (
        "l1-in-ball",
        Twin(
            ps.SGD(0.4), L1 + ps.L2Ball(0.3), lambda: naive.sgd(zeros(), subgradients["l1"], ball(0.3), sqrt_rate(0.4))
        ),
    )


def _pa():
    for variant in ("PA", "PA-I", "PA-II"):
        pa = ps.PassiveAggressive(0.1, variant)
        yield f"{variant}-hinge", Twin(pa, None, lambda v=variant: naive.pa_binary(D, 0.1, v), loss="hinge")
        yield f"{variant}-ranking", Twin(pa, None, lambda v=variant: naive.pa_binary(D, 0.1, v), loss="ranking_hinge")
        yield (
            f"{variant}-regression",
            Twin(
                pa,
                None,
                lambda v=variant: naive.pa_regression(D, 0.1, v, 0.25),
                loss="epsilon_insensitive(epsilon=0.25)",
            ),
        )
        yield (
            f"{variant}-absolute",
            Twin(pa, None, lambda v=variant: naive.pa_regression(D, 0.1, v, 0.0), loss="absolute"),
        )
        yield (
            f"{variant}-multiclass",
            Twin(pa, None, lambda v=variant: naive.pa_multiclass((D, 4), 0.1, v), dim=(D, 4), loss="multiclass_hinge"),
        )


def _arow():
    for matrix in ("diagonal", "full"):
        yield (
            matrix,
            Twin(ps.AROW(0.7, matrix), None, lambda m=matrix: naive.arow(D, 0.7, m == "full"), loss="hinge"),
        )


def _leader():
    for name, (penalty, prox) in PENALTIES.items():
        yield name, Twin(ps.FollowTheLeader(1.5), penalty, lambda q=prox: naive.leader_of_bowls(D, 1.5, q))
    leader = ps.FollowTheLeader()
    yield "examples", Twin(leader, None, lambda: naive.leader_of_examples(D), loss="squared")
    yield "examples-l2", Twin(leader, L2, lambda: naive.leader_of_examples(D, 0.3), loss="squared")


def _auto():
    for loss in ("logistic", "squared"):
        for name, (penalty, numbers) in naive_auto.PENALTIES.items():
            for scale in ("feature", "global"):
                settings = {"scale": scale, "once": scale == "global", "track": loss == "squared", **numbers}
                algorithm = ps.AutoFTRL("once" if scale == "global" else "every_round", scale, loss == "squared")
                play = partial(naive_auto.play, D, loss, **settings)
                yield f"{loss}-{name}-{scale}", Twin(algorithm, penalty, play, loss=loss)


TWINS = {
    "rda": _rda,
    "accelerated_rda": _accelerated,
    "adagrad": _adagrad,
    "ftrl_proximal": _ftrl_proximal,
    "auto_ftrl": _auto,
    "ftrl": _ftrl,
    "mirror_descent": _mirror,
    "truncated_gradient": _truncated,
    "sgd": _sgd,
    "passive_aggressive": _pa,
    "arow": _arow,
    "follow_the_leader": _leader,
}
CASES = {f"{name}:{case}": twin for name, twins in TWINS.items() for case, twin in twins()}


def gradient(rng, x):
    """A gradient with exact zeros in it that also depends on the point, so that a wrong point is felt for long."""
    g = rng.normal(size=x.shape) * (rng.random(x.shape) < 0.6)
    return g + 0.2 * x * (g != 0.0)


def example(rng, loss):
    z = rng.normal(size=D) * (rng.random(D) < 0.8)
    kind = ps.losses.get(loss).kind
    if kind == "multiclass":
        return z, int(rng.integers(4))
    return z, (float(rng.normal()) if kind == "regression" else float(rng.choice([-1.0, 1.0])))


def test_every_registered_algorithm_has_a_twin():
    assert set(TWINS) == set(ALGORITHMS), "an algorithm was registered without a naive twin (or a twin has no owner)"


@pytest.mark.default_cases(40)
@pytest.mark.parametrize("case", CASES)
def test_points_are_those_of_the_naive_twin(case):
    twin = CASES[case]
    rng = np.random.default_rng(len(case))
    learner, other = ps.OnlineLearner(twin.algorithm, twin.penalty, dim=twin.dim), twin.naive()
    accelerated = isinstance(twin.algorithm, ps.AcceleratedRDA)
    x = next(other)
    for t in range(ROUNDS if "full" not in case and "ftrl" not in case else 120):
        if accelerated:
            x, w = x
            np.testing.assert_allclose(learner.output, w, rtol=0.0, atol=1e-10, err_msg=f"output at t = {t}")
        np.testing.assert_allclose(learner.point, x, rtol=0.0, atol=1e-10, err_msg=f"t = {t}")
        if twin.loss:
            z, y = example(rng, twin.loss)
            learner.learn(z, y, twin.loss)
            x = other.send((z, y))
        else:
            g = gradient(rng, x)
            learner.update(g)
            x = other.send(g)
    assert learner.t == t + 1


# ---- exact zeros -------------------------------------------------------------------------------

SPARSE = {
    "rda": ps.RDA(),
    "enhanced": ps.RDA(rho=0.1),
    "pnorm": ps.RDA(geometry=ps.PNorm(1.3)),
    "adagrad": ps.AdaGrad(),
    "adagrad-mirror": ps.AdaGrad(update="mirror"),
    "adagrad-strong": ps.AdaGrad(update="mirror", strongly_convex=True),
    "ftrl_proximal": ps.FTRLProximal(1.0),
    "once": ps.FTRLProximal(1.0, penalty_weight="once"),
    "ftrl": ps.FTRL(0.3),
    "ftrl-proximal": ps.FTRL(rates.AdaptiveDiagonal(1.0), "proximal"),
    "ftrl-linearized": ps.FTRL(0.3, past="linearized"),
    "mirror": ps.MirrorDescent(0.3),
    "smidas": ps.MirrorDescent(0.3, geometry=ps.PNorm(1.3)),
    "truncated": ps.TruncatedGradient(0.3, 1),
}


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_zero_is_zero_and_has_no_sign(name, sign):
    rng = np.random.default_rng(3)
    learner = ps.OnlineLearner(SPARSE[name], ps.L1(0.4), dim=20)
    zeros = 0
    for _ in range(100):
        learner.update(sign * rng.normal(size=20) * (rng.random(20) < 0.7))
        x, theta = learner.point, learner._at.theta
        assert not np.signbit(x[x == 0.0]).any(), "a negative zero"
        # In theta: the p-norm's link makes small weights of middling ones, and rightly so.
        assert not ((theta != 0.0) & (np.abs(theta) < 1e-14)).any(), "almost zero is not zero"
        assert ((x == 0.0) == (theta == 0.0)).all()
        zeros += int((x == 0.0).sum())
    assert zeros > 20


# ---- Duchi's matrices --------------------------------------------------------------------------


@pytest.mark.parametrize("update", ["dual_averaging", "mirror"])
@pytest.mark.parametrize("penalty", [None, ps.L2(0.3), ps.L2Norm(0.3), ps.L2Ball(0.7)])
def test_one_label_is_full_and_all_labels_are_diagonal(update, penalty):
    rng = np.random.default_rng(0)
    algorithms = [
        ps.AdaGrad(0.6, 0.0, update, matrix)
        for matrix in ("full", [7] * D, "diagonal", list(range(D)), [4, 1, 3, 2, 0])
    ]
    full, one, diagonal, each, permuted = (ps.OnlineLearner(a, penalty, dim=D) for a in algorithms)
    for _ in range(50):
        g = rng.normal(size=D)
        for learner in (full, one, diagonal, each, permuted):
            learner.update(g)
        np.testing.assert_allclose(one.point, full.point, rtol=0, atol=1e-10)
        np.testing.assert_allclose(each.point, diagonal.point, rtol=0, atol=1e-10)
        np.testing.assert_allclose(permuted.point, diagonal.point, rtol=0, atol=1e-10)
    assert np.abs(full.point - diagonal.point).max() > 1e-3


@pytest.mark.parametrize("update", ["dual_averaging", "mirror"])
def test_full_matrix_where_singular_acts_as_its_pseudo_inverse(update):
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    plane, others = basis[:, :2], basis[:, 2:]
    learner = ps.OnlineLearner(ps.AdaGrad(0.6, 0.0, update, "full"), dim=6)
    x, seen = np.zeros(6), []
    for _ in range(40):
        g = plane @ rng.normal(size=2)
        seen.append(g)
        learner.update(g)
        root = naive.root_of_outer_products(seen, (0,) * 6)
        inverse = np.linalg.pinv(root, rcond=1e-9, hermitian=True)
        x = -0.6 * inverse @ sum(seen) if update == "dual_averaging" else x - 0.6 * inverse @ g
        np.testing.assert_allclose(learner.point, x, rtol=0, atol=1e-9)
        np.testing.assert_allclose(others.T @ learner.point, 0.0, atol=1e-12)


def test_a_matrix_step_forgets_nothing_when_a_larger_gradient_comes_from_elsewhere():
    """The square of 1e-9 is below the rounding of the square of 1, but the step that it made stays made."""
    for matrix in ("full", (0, 1), "diagonal"):
        learner = ps.OnlineLearner(ps.AdaGrad(1.0, 0.0, "mirror", matrix), dim=2)
        learner.update([1e-9, 0.0])
        learner.update([0.0, 1.0])
        np.testing.assert_allclose(learner.point, [-1.0, -1.0], rtol=1e-12)


def test_a_zero_gradient_first_moves_nothing():
    for algorithm in (
        ps.AdaGrad(delta=0.0),
        ps.AdaGrad(delta=0.0, update="mirror"),
        ps.AdaGrad(delta=0.0, update="mirror", matrix="full"),
        ps.AdaGrad(delta=0.0, matrix="full"),
        ps.FTRLProximal(beta=0.0),
        ps.FTRL(rates.AdaptiveDiagonal(1.0), "proximal"),
        ps.FTRL(rates.AdaptiveNorm(1.0), geometry=ps.Entropy()),
    ):
        learner = ps.OnlineLearner(algorithm, dim=3)
        first = learner.point
        learner.update(np.zeros(3))
        np.testing.assert_array_equal(learner.point, first)


# ---- accelerated RDA ---------------------------------------------------------------------------


def _least_squares(d=8):
    rng = np.random.default_rng(5)
    A = rng.normal(size=(20, d))
    b = rng.normal(size=20)
    L = float(np.linalg.eigvalsh(A.T @ A)[-1])

    def f(x):
        return 0.5 * float(np.sum((A @ x - b) ** 2))

    return f, (lambda x: A.T @ (A @ x - b)), L, np.linalg.lstsq(A, b, rcond=None)[0]


@pytest.mark.parametrize(("weights", "bound"), [("linear", lambda L, D2, t: 4 * L * D2 / t**2), ("constant", None)])
def test_exact_gradients_converge_within_corollary_7(weights, bound):
    f, grad, L, best = _least_squares()
    bound = bound or (lambda L, D2, t: L * D2 / t)
    learner = ps.OnlineLearner(ps.AcceleratedRDA(gamma=0.0, smoothness=L, weights=weights), dim=len(best))
    for t in range(1, 301):
        learner.update(grad(learner.point))
        assert f(learner.output) - f(best) <= bound(L, 0.5 * float(best @ best), t) + 1e-12


def test_exact_gradients_with_l1_converge_within_corollary_7():
    f, grad, L, _ = _least_squares()
    lam, d = 2.0, 8
    best = np.zeros(d)
    for _ in range(20000):
        best = naive.soft(best - grad(best) / L, lam / L)
    goal = f(best) + lam * np.abs(best).sum()
    assert 0 < (best == 0.0).sum() < d
    learner = ps.OnlineLearner(ps.AcceleratedRDA(gamma=0.0, smoothness=L), ps.L1(lam), dim=d)
    for t in range(1, 201):
        learner.update(grad(learner.point))
        value = f(learner.output) + lam * np.abs(learner.output).sum()
        assert value - goal <= 2 * L * float(best @ best) / t**2 + 1e-9


def test_minibatches_reduce_the_error_of_accelerated_rda():
    rng = np.random.default_rng(2)
    d, truth = 6, np.array([1.0, -2.0, 0.5, 0.0, 1.5, -1.0])

    def error(batch):
        total = 0.0
        for _ in range(5):
            learner = ps.OnlineLearner(ps.AcceleratedRDA(gamma=2.0 / math.sqrt(batch), smoothness=2.0), dim=d)
            for _ in range(150):
                Z = rng.normal(size=(batch, d))
                learner.learn(Z, Z @ truth + rng.normal(size=batch), "squared")
            total += float(np.sum((learner.output - truth) ** 2))
        return total / 5

    assert error(32) < error(1) / 4


def test_a_batch_is_the_mean_of_its_rows():
    rng = np.random.default_rng(4)
    Z, y = rng.normal(size=(7, 3)), rng.normal(size=7)
    batch, mean = (ps.OnlineLearner(ps.RDA(), ps.L1(0.01), dim=3) for _ in range(2))
    for _ in range(5):
        x = mean.point
        suffered = batch.learn(Z, y, "squared")
        assert suffered == pytest.approx(np.mean(0.5 * (Z @ x - y) ** 2), rel=1e-13)
        mean.update(sum(z * (z @ x - v) for z, v in zip(Z, y, strict=True)) / 7)
        np.testing.assert_allclose(batch.point, mean.point, rtol=0, atol=1e-13)


def test_the_leader_takes_a_batch_as_one_mean_loss_and_bare_gradients_beside_it():
    """Mean squared losses, bowls (s/2) ||x - x_t||^2 + <g, x>, and t (lam/2) ||x||^2: one normal equation."""
    rng, lam, s = np.random.default_rng(10), 0.3, 2.0
    leader = ps.OnlineLearner(ps.FollowTheLeader(s), ps.L2(lam), dim=3)
    A, u = np.zeros((3, 3)), np.zeros(3)
    for t in range(1, 31):
        if t % 3 == 0:
            g = rng.normal(size=3)
            A, u = A + s * np.eye(3), u + g - s * leader.point
            leader.update(g)
        else:
            n = int(rng.integers(1, 5))
            Z, y = rng.normal(size=(n, 3)), rng.normal(size=n)
            A, u = A + Z.T @ Z / n, u - Z.T @ y / n
            leader.learn(Z, y, "squared")
        np.testing.assert_allclose(leader.point, -np.linalg.solve(A + t * lam * np.eye(3), u), rtol=0, atol=1e-10)


# ---- implicit updates --------------------------------------------------------------------------

SCALAR_LOSSES = [name for name in ps.losses.names() if ps.losses.get(name).kind != "multiclass"]


def _label(rng, loss):
    if loss.kind == "regression":
        return float(rng.integers(loss.name == "gamma", 4)) if loss.link == "log" else float(rng.normal())
    return float(rng.choice([-1.0, 1.0]))


@pytest.mark.parametrize("name", SCALAR_LOSSES)
def test_an_implicit_step_is_the_losses_own_step(name):
    loss, rng = ps.losses.get(name), np.random.default_rng(6)
    learner = ps.OnlineLearner(ps.MirrorDescent(0.8, implicit=True), dim=4)
    for t in range(1, 80):
        z, y, x, eta = rng.normal(size=4), _label(rng, loss), learner.point, 0.8 / math.sqrt(t)
        slope = float(loss.implicit_step(z @ x, y, eta * (z @ z)))
        learner.learn(z, y, loss)
        np.testing.assert_allclose(learner.point, x - eta * slope * z, rtol=0, atol=1e-11)


@pytest.mark.default_cases(4)
@pytest.mark.parametrize("name", SCALAR_LOSSES)
@pytest.mark.parametrize(
    "penalty",
    [ps.L1(0.3), ps.L2(0.5), ps.Box(-0.3, 0.2), ps.L1(0.1) + ps.L2Ball(0.4), ps.Simplex()],
    ids=lambda penalty: type(penalty).__name__,
)
def test_an_implicit_step_is_a_minimum(name, penalty):
    """phi(<z, x>) + Psi(x) + ||x - x_t||^2 / (2 eta) is no smaller anywhere near."""
    loss, rng = ps.losses.get(name), np.random.default_rng(7)
    learner = ps.OnlineLearner(ps.MirrorDescent(0.8, "constant", implicit=True), penalty, dim=3)
    for _ in range(25):
        z, y, x = rng.normal(size=3) * 2.0, _label(rng, loss), learner.point
        learner.learn(z, y, loss)
        new = learner.point

        def objective(w, z=z, y=y, x=x):
            return float(loss.value(z @ w, y)) + penalty.value(w) + float(np.sum((w - x) ** 2)) / 1.6

        least = objective(new)
        for scale in (1e-1, 1e-3, 1e-5):
            for _ in range(10):
                other = penalty.project(new + scale * rng.normal(size=3))
                assert least <= objective(other) + 1e-12 * (1.0 + abs(least))


@pytest.mark.parametrize("geometry", [ps.Entropy(), ps.PNorm(1.4)], ids=repr)
@pytest.mark.parametrize("name", ["logistic", "hinge", "squared", "absolute"])
def test_an_implicit_step_agrees_with_the_slope_it_takes(geometry, name):
    loss, rng = ps.losses.get(name), np.random.default_rng(8)
    learner = ps.OnlineLearner(ps.MirrorDescent(0.8, "constant", geometry, implicit=True), dim=4)
    for _ in range(50):
        z, y = rng.normal(size=4) * 3.0, _label(rng, loss)
        theta = learner._at.theta
        learner.learn(z, y, loss)
        # theta_{t+1} = theta_t - eta slope z, up to a constant on the simplex.
        moved = (learner._at.theta - theta) / -0.8
        center = np.mean if isinstance(geometry, ps.Entropy) else (lambda v: 0.0)
        direction = z - center(z)
        slope = float((moved - center(moved)) @ direction / (direction @ direction))
        np.testing.assert_allclose(moved - center(moved), slope * direction, atol=1e-10)
        p = float(z @ learner.point)
        low, high = float(loss.slope(p - 1e-7, y)), float(loss.slope(p + 1e-7, y))
        assert low - 1e-6 <= slope <= high + 1e-6


@pytest.mark.parametrize("eta", [0.1, 1.0, 1e3, 1e8])
def test_an_implicit_step_never_overshoots(eta):
    rng = np.random.default_rng(9)
    for name in ("squared", "absolute", "huber", "hinge", "squared_hinge", "smoothed_hinge"):
        loss = ps.losses.get(name)
        learner = ps.OnlineLearner(ps.MirrorDescent(eta, "constant", implicit=True), dim=3)
        for _ in range(30):
            z, y = rng.normal(size=3), _label(rng, loss)
            before = float(z @ learner.point)
            learner.learn(z, y, loss)
            after = float(z @ learner.point)
            goal = y  # the residual's zero, or the margin 1
            assert abs(after - goal) <= abs(before - goal) + 1e-9 or loss.value(before, y) == 0.0
            if loss.value(before, y) > 0.0:
                assert (after - goal) * (before - goal) >= -1e-6


def test_implicit_steps_stay_finite_where_explicit_ones_do_not():
    learner = ps.OnlineLearner(ps.MirrorDescent(10.0, "constant", implicit=True), ps.L1(0.1), dim=1)
    for z in (1.0, 30.0, -40.0, 100.0):
        learner.learn([z], 3, "poisson")
        assert abs(z * learner.point[0]) < 50.0


# ---- margins -----------------------------------------------------------------------------------


def test_passive_aggressive_cures_the_loss_and_is_passive_without_one():
    learner = ps.OnlineLearner(ps.PassiveAggressive(variant="PA"), dim=3)
    learner.learn([1.0, 2.0, -1.0], -1, "hinge")
    assert learner.learn([1.0, 2.0, -1.0], -1, "hinge") == pytest.approx(0.0, abs=1e-15)
    before = learner.point
    learner.learn([1.0, 2.0, -1.0], -1, "hinge")
    np.testing.assert_allclose(learner.point, before, atol=1e-15)
    learner.learn([0.0, 0.0, 0.0], 1, "hinge")  # a loss of 1 that no weight can cure
    np.testing.assert_allclose(learner.point, before, atol=1e-15)
    assert learner.t == 4


@pytest.mark.parametrize("algorithm", [ps.PassiveAggressive(), ps.AROW(), ps.AROW(matrix="full")], ids=repr)
def test_margin_learners_stay_in_a_box(algorithm):
    rng = np.random.default_rng(0)
    learner = ps.OnlineLearner(algorithm, ps.Box(-0.2, 0.3), dim=4)
    for _ in range(50):
        learner.learn(rng.normal(size=4), rng.choice([-1, 1]), "hinge")
        assert learner.point.min() >= -0.2
        assert learner.point.max() <= 0.3


def test_arow_shrinks_its_covariance_and_leaves_it_where_the_margin_is_wide():
    learner = ps.OnlineLearner(ps.AROW(r=0.5), dim=2)
    for _ in range(20):
        learner.learn([1.0, 0.0], 1, "hinge")
    sigma = learner.state_dict()["state.sigma"]
    assert sigma[0] < 0.1
    assert sigma[1] == 1.0
    learner.learn([100.0, 0.0], 1, "hinge")
    np.testing.assert_array_equal(learner.state_dict()["state.sigma"], sigma)


# ---- descriptions ------------------------------------------------------------------------------

BAD = [
    (ps.RDA, {"gamma": 0.0}, ValueError),
    (ps.RDA, {"gamma": -1.0}, ValueError),
    (ps.RDA, {"gamma": math.nan}, ValueError),
    (ps.RDA, {"gamma": "1"}, TypeError),
    (ps.RDA, {"rho": -0.1}, ValueError),
    (ps.RDA, {"schedule": "linear"}, ValueError),
    (ps.RDA, {"geometry": "entropy"}, TypeError),
    (ps.AcceleratedRDA, {"gamma": -1.0}, ValueError),
    (ps.AcceleratedRDA, {"smoothness": 0.0}, ValueError),
    (ps.AcceleratedRDA, {"weights": "sqrt"}, ValueError),
    (ps.AcceleratedRDA, {"geometry": None}, TypeError),
    (ps.AdaGrad, {"eta": 0.0}, ValueError),
    (ps.AdaGrad, {"delta": -1.0}, ValueError),
    (ps.AdaGrad, {"update": "rda"}, ValueError),
    (ps.AdaGrad, {"matrix": "blocks"}, ValueError),
    (ps.AdaGrad, {"matrix": [0.5, 1.5]}, TypeError),
    (ps.FTRLProximal, {"alpha": 0.0}, ValueError),
    (ps.FTRLProximal, {"beta": -1.0}, ValueError),
    (ps.FTRLProximal, {"penalty_weight": "twice"}, ValueError),
    (ps.FTRL, {"rate": 0.0}, ValueError),
    (ps.FTRL, {"rate": "fast"}, TypeError),
    (ps.FTRL, {"centering": "x"}, ValueError),
    (ps.FTRL, {"past": "lazy"}, ValueError),
    (ps.FTRL, {"penalty_weight": 0.5}, TypeError),
    (ps.FTRL, {"penalty_weight": []}, ValueError),
    (ps.FTRL, {"penalty_weight": [1.0, -1.0]}, ValueError),
    (ps.FTRL, {"penalty_weight": [1.0, 0.5, 0.75]}, ValueError),
    (ps.FTRL, {"geometry": 2}, TypeError),
    (ps.MirrorDescent, {"eta": math.inf}, ValueError),
    (ps.MirrorDescent, {"schedule": "zero"}, ValueError),
    (ps.MirrorDescent, {"projection": "eager"}, ValueError),
    (ps.MirrorDescent, {"geometry": ps.Entropy}, TypeError),
    (ps.TruncatedGradient, {"every": 0}, ValueError),
    (ps.TruncatedGradient, {"every": 1.5}, TypeError),
    (ps.TruncatedGradient, {"theta": -1.0}, ValueError),
    (ps.TruncatedGradient, {"theta": math.nan}, ValueError),
    (ps.SGD, {"eta": -1.0}, ValueError),
    (ps.SGD, {"schedule": None}, ValueError),
    (ps.PassiveAggressive, {"C": 0.0}, ValueError),
    (ps.PassiveAggressive, {"variant": "PA-III"}, ValueError),
    (ps.AROW, {"r": 0.0}, ValueError),
    (ps.AROW, {"matrix": "blocks"}, ValueError),
    (ps.FollowTheLeader, {"curvature": -1.0}, ValueError),
    (rates.Constant, {"eta": 0.0}, ValueError),
    (rates.SqrtDecay, {"scale": 1.0, "offset": -1.0}, ValueError),
    (rates.AdaptiveDiagonal, {"scale": 0.0}, ValueError),
    (rates.AdaptiveNorm, {"scale": 1.0, "floor": -1.0}, ValueError),
]


@pytest.mark.parametrize(("kind", "parameters", "error"), BAD, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_bad_parameter_is_named_with_its_value(kind, parameters, error):
    (name, value), *_ = [(n, v) for n, v in parameters.items() if n != "scale" or v == 0.0]
    with pytest.raises(error) as caught:
        kind(**parameters)
    message = str(caught.value)
    assert (name if kind is not rates.Constant else "rate") in message
    assert repr(value) in message or repr(value[-1]) in message


@pytest.mark.parametrize("bad", [{"update": "dual_averaging"}, {"update": "mirror", "matrix": "full"}])
def test_strongly_convex_is_for_the_diagonal_mirror_update(bad):
    with pytest.raises(ValueError, match=r"strongly_convex=True .* update='mirror' and matrix='diagonal'"):
        ps.AdaGrad(strongly_convex=True, **bad)


def test_implicit_and_lazy_exclude_each_other():
    with pytest.raises(ValueError, match="implicit=True takes projection='greedy'"):
        ps.MirrorDescent(implicit=True, projection="lazy")


@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=lambda kind: kind.__name__)
def test_descriptions_are_frozen_values(kind):
    algorithm = kind()
    field = dataclasses.fields(algorithm)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(algorithm, field, 7.0)
    assert algorithm == kind()
    assert hash(algorithm) == hash(kind())
    changed = dataclasses.replace(algorithm, **{field: "once" if field == "penalty_weight" else 7.0})
    assert changed != algorithm
    assert dataclasses.replace(changed, **{field: getattr(algorithm, field)}) == algorithm
    names = {**vars(ps.algorithms), **vars(rates), **vars(ps.geometries), "inf": math.inf}
    assert eval(repr(changed), names) == changed
    assert kind.__doc__
    assert ">>>" in kind.__doc__
    assert "eferences" in kind.__doc__ or kind.name in ("passive_aggressive", "arow")  # theirs head the module


def test_names_are_those_of_the_registry():
    for name, kind in ALGORITHMS.items():
        assert kind.name == name
        assert getattr(ps, kind.__name__) is kind
