"""The compiled learners beside the dense family: every combination that has a kernel, and how the two are compared.

Run as a program with NUMBA_DISABLE_JIT=1 it plays the matrix of one algorithm in plain Python, with short epochs, and
prints what differs: `python kernel_cases.py 1 rda` plays all of it, `7 rda sgd` every seventh combination of two.
Imported, it lends its streams and its reference.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.core import losses
from proxstream.core.penalties import Penalty
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner import _loop as driver, _loop_averaged as averaged, engine as engines, layouts, plan
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import AveragedLayout, ScalarLayout

D = 9  # features of every stream here; the last is never seen

ALGORITHMS: dict[str, tuple[Any, ...]] = {
    "rda": (
        ps.RDA(gamma=1.5),
        ps.RDA(gamma=2.0, rho=0.05),
        ps.RDA(gamma=1.0, schedule="log"),
        ps.RDA(gamma=1.0, rho=0.02, schedule="log"),
        ps.RDA(schedule="zero"),
    ),
    "adagrad": (
        ps.AdaGrad(eta=0.5),
        ps.AdaGrad(eta=0.3, delta=0.0),
        ps.AdaGrad(eta=0.4, update="mirror"),
        ps.AdaGrad(eta=0.3, delta=0.0, update="mirror"),
        ps.AdaGrad(eta=0.5, delta=0.5, update="mirror", strongly_convex=True),
    ),
    "ftrl_proximal": (
        ps.FTRLProximal(alpha=0.5),
        ps.FTRLProximal(alpha=0.3, beta=0.0),
        ps.FTRLProximal(alpha=0.5, penalty_weight="once"),
        ps.FTRLProximal(alpha=0.3, beta=0.0, penalty_weight="once"),
    ),
    "mirror_descent": (
        ps.MirrorDescent(eta=0.3),
        ps.MirrorDescent(eta=0.1137, schedule="constant"),
        ps.MirrorDescent(eta=0.8, schedule="linear"),
    ),
    "truncated_gradient": (
        ps.TruncatedGradient(eta=0.3, every=1),
        ps.TruncatedGradient(eta=0.3, every=3),
        ps.TruncatedGradient(eta=0.1137, every=4, theta=0.06, schedule="constant"),
        ps.TruncatedGradient(eta=0.8, every=2, theta=0.2, schedule="linear"),
    ),
    "sgd": (
        ps.SGD(eta=0.3),
        ps.SGD(eta=0.1137, schedule="constant"),
        ps.SGD(eta=2.0, schedule="linear"),
        ps.SGD(eta=4.0, schedule="linear"),
    ),
    "passive_aggressive": tuple(ps.PassiveAggressive(C=0.4, variant=variant) for variant in ("PA", "PA-I", "PA-II")),
    "arow": (ps.AROW(r=0.7),),
}

PENALTIES: dict[str, tuple[Penalty, ...]] = {
    "none": (ps.NoPenalty(),),
    "l1": (ps.L1(0.05),),
    "l2": (ps.L2(0.5),),
    "elastic_net": (ps.ElasticNet(0.04, 0.3),),
    "box": (ps.Box(-0.1, 0.2), ps.Box(0.1, 0.3), ps.Box(-np.inf, -0.05)),
    "nonnegative": (ps.NonNegative(),),
    "sum": (ps.L1(0.03) + ps.L2(0.4) + ps.Box(-0.2, 0.3), ps.ElasticNet(0.02, 0.2) + ps.Box(0.05, 0.5)),
}

LOSSES = {
    **{name: losses.get(name) for name in losses.names()},
    "smoothed_hinge": losses.get("smoothed_hinge(0.5)"),
    "huber": losses.get("huber(0.4)"),
    "quantile": losses.get("quantile(0.8)"),
}
LOSSES = {name: loss for name, loss in LOSSES.items() if loss.kind != "multiclass"}
STEEP = ("gamma", "tweedie")  # slopes grow exponentially on both sides: rates and labels must be moderate


# Decay so strong that it ends an epoch: P underflows, or a round's rho is 0 or below. Played with steady losses.
EXTREME: dict[str, tuple[tuple[Any, Penalty], ...]] = {
    "mirror_descent": tuple(
        (ps.MirrorDescent(10.0, "constant"), penalty)
        for penalty in (ps.L2(1e4), ps.ElasticNet(0.5, 1e4), ps.L2(1e4) + ps.Box(-1e-5, 2e-5))
    ),
    "adagrad": tuple(
        (ps.AdaGrad(2.0, update="mirror"), penalty) for penalty in (ps.L2(1e6), ps.ElasticNet(0.1, 1e6), ps.L1(0.4))
    ),
    "truncated_gradient": tuple(
        (ps.TruncatedGradient(0.5, every, schedule="constant"), penalty)
        for every in (1, 3)
        for penalty in (ps.L2(2.0), ps.ElasticNet(0.01, 2.5), ps.ElasticNet(0.02, 2.0 - 2e-7))
    ),
    "sgd": (
        *((ps.SGD(0.5, "constant"), penalty) for penalty in (ps.L2(2.0), ps.L2(2.5), ps.L2(2.0 - 2e-7))),
        (ps.SGD(0.5, "constant"), ps.L2(2.5) + ps.Box(-0.1, 0.3)),
        (ps.SGD(0.5, "constant"), ps.L2(2.5) + ps.Box(0.1, 0.3)),
    ),
}


class Case(NamedTuple):
    algorithm: Any
    penalty: Penalty
    loss: Any

    def __str__(self) -> str:
        return f"{self.algorithm!r}, {self.loss}, {self.penalty!r}"


class Setting(NamedTuple):
    """How a case is played."""

    weighted: bool = False
    intercept: bool = True
    average: bool = False
    cuts: tuple[int, ...] = ()
    rows: int = 26
    seed: int = 0


def has_step(algorithm: Any, penalty: Penalty) -> bool:
    """Return whether the dense family has this combination."""
    try:
        algorithm.check(penalty, (D,))
    except (TypeError, ValueError):
        return False
    return True


def has_kernel(case: Case) -> bool:
    """Return, from the papers alone, whether idle rounds have a closed form."""
    algorithm, penalty, loss = case
    terms = penalty.terms((1,))
    if isinstance(algorithm, ps.SGD):
        return terms.l1 == 0.0
    if isinstance(algorithm, ps.TruncatedGradient):
        return algorithm.theta == np.inf or terms.l2 == 0.0
    if isinstance(algorithm, ps.PassiveAggressive):
        return loss.name in ("hinge", "ranking_hinge", "epsilon_insensitive", "absolute")
    if isinstance(algorithm, ps.AROW):
        return loss.name in ("hinge", "ranking_hinge")
    return True


def has_means(case: Case) -> bool:
    """Return whether the sum of the weights over idle rounds has a closed form too."""
    algorithm, penalty, _ = case
    terms = penalty.terms((1,))
    if isinstance(algorithm, (ps.PassiveAggressive, ps.AROW)):
        return True
    if terms.lo != -np.inf or terms.hi != np.inf:
        return False
    if isinstance(algorithm, ps.TruncatedGradient):
        return algorithm.theta == np.inf
    every_round = isinstance(algorithm, ps.FTRLProximal) and algorithm.penalty_weight == "every_round"
    return terms.l2 == 0.0 or not (every_round or isinstance(algorithm, ps.AdaGrad))


def unit_weights_alone(case: Case) -> bool:
    """Return whether idle rounds of unequal weights have no closed form."""
    algorithm, penalty, _ = case
    return isinstance(algorithm, ps.AdaGrad) and algorithm.update == "mirror" and penalty.terms((1,)).l2 > 0.0


def cases(name: str) -> Iterator[Case]:
    pairs = [
        (algorithm, penalty)
        for algorithm, kind in itertools.product(ALGORITHMS[name], PENALTIES)
        for penalty in PENALTIES[kind]
        if has_step(algorithm, penalty)
    ]
    for (algorithm, penalty), loss in itertools.product(pairs, LOSSES):
        if loss not in STEEP:
            yield Case(algorithm, penalty, LOSSES[loss])
    for (algorithm, penalty), loss in itertools.product(EXTREME.get(name, ()), ("logistic", "hinge", "quantile")):
        yield Case(algorithm, penalty, LOSSES[loss])
    for (algorithm, penalty), loss in itertools.product(pairs, STEEP):
        if getattr(algorithm, "eta", 0.0) < 2.0 and getattr(algorithm, "schedule", "") != "log":
            yield Case(algorithm, penalty, LOSSES[loss])


# -- streams -------------------------------------------------------------------------------------


class Stream(NamedTuple):
    X: csr_array
    y: Any
    c: Any

    def block(self, start: int = 0, stop: int | None = None, dtype: Any = np.float64) -> RowBlock:
        c = None if self.c is None else self.c[start:stop]
        return as_block(self.X[start:stop], self.y[start:stop], c, dtype)


def stream(loss: Any, setting: Setting, unit: bool = False) -> Stream:
    """Rows with gaps, blanks, explicit zeros, unsorted and duplicate indices; feature 1 sleeps most of the time."""
    rng = np.random.default_rng(setting.seed)
    n = setting.rows
    indptr, indices, data = [0], [], []
    for i in range(n):
        row = rng.permutation(D - 1)[: rng.integers(1, 5)]
        row = row[(row != 1) | (i < 2) | (i == n - 3)]
        if i % 7 == 5:
            row = row[:0]
        if i % 6 == 2 and len(row):
            row = np.append(row, row[0])
        values = 0.7 * rng.normal(size=len(row))
        values[rng.random(len(row)) < 0.1] = 0.0
        indices.extend(row)
        data.extend(values)
        indptr.append(len(indices))
    X = csr_array((np.array(data), np.array(indices, np.int32), np.array(indptr, np.int32)), shape=(n, D))
    truth = rng.normal(size=D) * (rng.random(D) < 0.6)
    p = X @ truth + 0.3
    y = {
        "binary": np.where(p + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0),
        "ranking": np.where(p > 0.0, 1.0, -1.0),
        "regression": p + 0.3 * rng.normal(size=n),
    }[loss.kind]
    if loss.link == "log":
        y = rng.poisson(np.exp(np.clip(p, -2.0, 1.0))).astype(float)
        if loss.name in STEEP:
            y = 0.2 * y + 0.1 * (loss.name == "gamma")
    c = rng.choice([0.0, 1.0] if unit else [0.0, 0.3, 1.0, 2.5], size=n) if setting.weighted else None
    return Stream(X, y, c)


# -- the reference -------------------------------------------------------------------------------


class Twin:
    """A linear model on the dense family: weights with the penalty, an intercept without."""

    def __init__(self, case: Case, intercept: bool) -> None:
        self.loss, self.bias = case.loss, None
        self.whole = isinstance(case.algorithm, (ps.PassiveAggressive, ps.AROW)) and intercept
        if self.whole:  # one more feature, equal to 1 and unbounded
            terms = case.penalty.terms((D,))
            free = ps.Box(np.append(np.full(D, terms.lo), -np.inf), np.append(np.full(D, terms.hi), np.inf))
            self.learner = ps.OnlineLearner(case.algorithm, free, dim=D + 1)
            return
        self.learner = ps.OnlineLearner(case.algorithm, case.penalty, dim=D)
        if intercept:
            self.bias = ps.OnlineLearner(unpenalized(case.algorithm), dim=1)

    def learn(self, z: Any, y: float, c: float) -> float:
        """Learn one row and return the prediction made before."""
        z = np.append(z, 1.0) if self.whole else z
        p = float(z @ self.learner.point) + (0.0 if self.bias is None else float(self.bias.point[0]))
        if isinstance(self.learner.algorithm, (ps.PassiveAggressive, ps.AROW)):
            self.learner.learn(z, y, self.loss, c)
            return p
        slope = float(self.loss.slope(p, y))
        self.learner.update(slope * z, c)
        if self.bias is not None:
            self.bias.update([slope], c)
        return p

    def read(self, name: str) -> tuple[Any, float]:
        """Return `point` or `average` of the weights and of the intercept."""
        w = getattr(self.learner, name)
        if self.whole:
            return w[:-1], float(w[-1])
        return w, 0.0 if self.bias is None else float(getattr(self.bias, name)[0])


def unpenalized(algorithm: Any) -> Any:
    """The algorithm of an intercept: no rho, and curvature and a root of its own."""
    if isinstance(algorithm, ps.RDA):
        return replace(algorithm, rho=0.0, schedule="sqrt" if algorithm.schedule == "zero" else algorithm.schedule)
    return replace(algorithm, strongly_convex=False) if isinstance(algorithm, ps.AdaGrad) else algorithm


# -- the comparison ------------------------------------------------------------------------------


def engine(case: Case, setting: Setting, dtype: Any = np.float64, n_features: int = D) -> CompiledEngine:
    made = plan.plan(case.algorithm, case.penalty, case.loss, dtype)
    assert not isinstance(made, str), made
    layout = AveragedLayout(made) if setting.average else ScalarLayout(made)
    return CompiledEngine(layout, n_features, dtype, setting.intercept)


def differences(case: Case, setting: Setting) -> list[str]:
    """Play the case on both sides and return what is not equal."""
    rows = stream(case.loss, setting, unit_weights_alone(case))
    twin, own = Twin(case, setting.intercept), engine(case, setting)
    Z, c = rows.X.toarray(), np.ones(setting.rows) if rows.c is None else rows.c
    expected = np.array([twin.learn(Z[i], rows.y[i], c[i]) for i in range(setting.rows)])
    got = []
    for start, stop in itertools.pairwise([0, *setting.cuts, setting.rows]):
        saved, own = own.arrays(), engine(case, setting)
        own.restore(saved)
        got.append(own.learn(rows.block(start, stop)))
    found = list(apart("scores", np.concatenate(got), expected))
    if setting.cuts:
        whole = engine(case, setting)
        whole.learn(rows.block())
        found += [f"{k} is not that of one block" for k, v in own.arrays().items() if not same(v, whole.arrays()[k])]
    for name, (w, b) in {"point": own.weights(), "average": own.averages() if setting.average else (0, 0)}.items():
        if name == "point" or setting.average:
            ref, bias = twin.read(name)
            found += apart(name, w, ref)
            found += apart(f"intercept's {name}", np.array([b]), np.array([bias]))
            if name == "point":
                tiny = 1e-13 * max(1.0, float(np.max(np.abs(ref))))
                wrong = ((w == 0.0) != (ref == 0.0)) & (np.maximum(np.abs(w), np.abs(ref)) > tiny)
                found += [f"zeros differ at {np.flatnonzero(wrong)}"] if wrong.any() else []
    found += apart("predictions", own.predict(rows.block()), Z @ twin.read("point")[0] + twin.read("point")[1])
    if own.t != twin.learner.t or abs(own.k - c.sum()) > 1e-12 * max(c.sum(), 1.0):
        found.append(f"t, k = {own.t}, {own.k}, not {twin.learner.t}, {c.sum()}")
    return found


def same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b)


def apart(name: str, got: Any, expected: Any, tol: float = 1e-10) -> Iterator[str]:
    error = np.max(np.abs(got - expected) / np.maximum(1.0, np.abs(expected)), initial=0.0)
    if not error <= tol:
        yield f"{name} differ by {error:.1e}"


def play(name: str, every: int) -> dict[str, Any]:
    """Play one in `every` combinations that have a kernel, the settings drawn at random."""
    assert driver.learn.__class__.__name__ == "function", "this program is for NUMBA_DISABLE_JIT=1"
    report: dict[str, Any] = {"played": 0, "settled": 0, "averaged": 0, "failures": []}
    kernels = 0
    for number, case in enumerate(cases(name)):
        made = plan.plan(case.algorithm, case.penalty, case.loss, np.float64)
        if isinstance(made, str) == has_kernel(case):
            report["failures"].append(f"{case}: the plan is {made}")
        if isinstance(made, str):
            continue
        kernels += 1
        if (kernels - 1) % every:
            continue
        rng = np.random.default_rng([0, number])
        if bool(averaged.refusal(made.parts)) == has_means(case):
            report["failures"].append(f"{case}: means are refused because {averaged.refusal(made.parts)!r}")
        # Means are kept by a loop of their own: where there are any, both are played.
        for average in (False, True)[: 1 + has_means(case)]:
            epoch, weighted, intercept = int(rng.choice([5, 8, 1 << 20])), rng.random() < 0.5, rng.random() < 0.7
            for module in (driver, averaged, engines, layouts):
                module.EPOCH = epoch  # type: ignore[attr-defined]
            cuts = ((), (), (11,), (1, 13, 13, 24))[rng.integers(4)]
            setting = Setting(weighted, intercept, average, cuts, seed=number)
            try:
                with np.errstate(all="ignore"):  # as compiled: what is not finite must show as a difference
                    found = differences(case, setting)
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            report["failures"] += [f"{case}, {setting}, epoch {epoch}: {text}" for text in found]
            report["played"] += 1
            report["settled"] += epoch < 10
            report["averaged"] += average
    return report


if __name__ == "__main__":
    print(json.dumps({name: play(name, int(sys.argv[1])) for name in sys.argv[2:]}))
