"""Every algorithm, penalty and kind of loss through a model file: saved half way, loaded, and learned on.

Run as a program with NUMBA_DISABLE_JIT=1 it plays one in N combinations (its argument) in plain Python and prints what
differs; imported, it lends its learners and streams.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

import proxstream as ps
from proxstream.core import losses
from proxstream.core.algorithms.rates import AdaptiveDiagonal, AdaptiveNorm, SqrtDecay
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.dense import DenseEngine
from proxstream.learner.layouts import AveragedLayout
from proxstream.learner.learner import Learner
from proxstream.models.container import as_json
from proxstream.models.file import pack, unpack

D, CLASSES, ROWS = 6, 3, 14

ALGORITHMS = (
    ps.RDA(gamma=1.5, rho=0.05),
    ps.RDA(schedule="log"),
    ps.RDA(geometry=ps.PNorm(p=1.4)),
    ps.AcceleratedRDA(gamma=2.0, smoothness=1.5),
    ps.AdaGrad(eta=0.5),
    ps.AdaGrad(eta=0.4, update="mirror"),
    ps.AdaGrad(eta=0.5, delta=0.5, update="mirror", strongly_convex=True),
    ps.AdaGrad(eta=0.5, matrix="full"),
    ps.AdaGrad(eta=0.5, matrix=(0, 0, 1, 1, 2, 2)),
    ps.FTRLProximal(alpha=0.5),
    ps.FTRLProximal(alpha=0.5, penalty_weight="once"),
    ps.AutoFTRL(),
    ps.AutoFTRL(scale="global", penalty_weight="once"),
    ps.FTRL(rate=0.5),
    ps.FTRL(rate=SqrtDecay(0.5, offset=1.0), centering="proximal", past="linearized", penalty_weight="once"),
    ps.FTRL(rate=AdaptiveDiagonal(0.5, floor=0.1)),
    ps.FTRL(rate=AdaptiveNorm(0.5, floor=0.1), penalty_weight=[0.5] * (ROWS + 1)),
    ps.MirrorDescent(eta=0.3),
    ps.MirrorDescent(eta=0.3, schedule="constant", implicit=True),
    ps.MirrorDescent(eta=0.3, geometry=ps.Entropy()),
    ps.MirrorDescent(eta=0.3, projection="lazy"),
    ps.TruncatedGradient(eta=0.3, every=3),
    ps.TruncatedGradient(eta=0.3, every=2, theta=0.2),
    ps.SGD(eta=0.3, schedule="linear"),
    ps.PassiveAggressive(C=0.4, variant="PA-II"),
    ps.AROW(r=0.7),
    ps.AROW(r=0.7, matrix="full"),
    ps.FollowTheLeader(curvature=0.5),
)
RISING = np.linspace(0.01, 0.05, D)
PENALTIES = (
    None,
    ps.L1(0.05),
    ps.L1(RISING),
    ps.L2(0.5),
    ps.ElasticNet(0.04, RISING),
    ps.Berhu(0.05, 0.1),
    ps.GroupL2(0.05, groups=[0, 0, 1, 1, 2, 2]),
    ps.GroupL2(0.05),
    ps.GroupLinf(0.05),
    ps.L2Norm(0.1),
    ps.LinfNorm(0.1),
    ps.KL(0.5),
    ps.KL(0.5, prior=np.full(D, 1.0 / D)),
    ps.Box(-0.1, np.inf),
    ps.NonNegative(),
    ps.L1Ball(0.5),
    ps.L2Ball(0.5),
    ps.Simplex(),
    ps.L1(0.03) + ps.L2(0.4) + ps.Box(-RISING, 0.3),
    ps.L1(0.02) + ps.GroupL2(0.05),
)
LOSSES = ("logistic", "hinge", "huber(0.4)", "poisson", "softmax", "multiclass_hinge", "ranking_hinge")


def learners() -> Iterator[Learner]:
    """Yield a learner of every combination that there is, means and one-vs-rest, weights in 32 bits, queries."""
    for number, algorithm in enumerate(ALGORITHMS):
        for place, penalty in enumerate(PENALTIES):
            for turn, loss in enumerate(LOSSES[(number + place) % 2 :: 2]):
                kind = losses.get(loss).kind
                settings = (
                    {"n_outputs": CLASSES if kind == "multiclass" else 1, "ranking": kind == "ranking"},
                    {"n_outputs": CLASSES if kind in ("binary", "multiclass") else 1, "fit_intercept": False},
                    {"average": True, "dtype": np.float32, "ranking": kind == "ranking", "pairs": 2},
                )[(number + place // 2 + turn) % 3]
                try:
                    yield Learner(algorithm, loss, penalty, n_features=D, **settings)  # type: ignore[arg-type]
                except (TypeError, ValueError):
                    continue


def rows(learner: Learner, seed: int = 0, n: int = ROWS) -> tuple[RowBlock, Any]:
    """Return rows and their qid, with labels that the learner takes; some entries are 0."""
    rng = np.random.default_rng(seed)
    X = 0.7 * rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.6)
    if learner.ranking:
        y: Any = rng.integers(3, size=n)
    elif learner.n_outputs > 1:
        y = rng.integers(learner.n_outputs, size=n)
    elif learner.loss.kind == "regression":
        y = rng.poisson(1.0, size=n)
    else:
        y = rng.choice([-1.0, 1.0], size=n)
    return as_block(X, y, dtype=learner.dtype), np.repeat(np.arange(n), 4)[:n]


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Tell whether two dicts hold the same arrays, bit for bit."""
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and a[name].shape == b[name].shape and a[name].tobytes() == b[name].tobytes()
        for name in a
    )


def stored(learner: Learner, weights_only: bool = False) -> Learner:
    """Return what a file would give back, without the wait for a disk."""
    header, arrays = pack(learner, weights_only=weights_only)
    return unpack(json.loads(as_json(header)), arrays)


def differences(learner: Learner) -> Iterator[str]:
    """Learn half, save, load, learn the rest: return what differs."""
    block, qid = rows(learner)
    half = ROWS // 2 + 1  # inside a query
    asked = (qid[:half], qid[half:]) if learner.ranking else (None, None)
    try:
        learner.learn(block.slice(0, half), asked[0])
    except (TypeError, ValueError):  # there is no such step: a refused block has left no trace
        return
    other = stored(learner)
    names = ("algorithm", "penalty", "loss", "n_features", "n_outputs", "dtype", "fit_intercept", "average", "pairs")
    yield from (name for name in names if getattr(other, name) != getattr(learner, name))
    if not same(other.state_dict(), learner.state_dict()):
        yield "the state"
    # Without a kernel of its own, and with means, scores are products of matrices, whose sums have another order.
    frozen, exact = stored(learner, weights_only=True), not isinstance(learner.engine, DenseEngine)
    tolerance = 0.0 if exact and not learner.average else 1e-6
    if not np.allclose(frozen.predict(block), learner.predict(block), rtol=tolerance, atol=tolerance):
        yield "predictions of the weights alone"
    scores = [model.learn(block.slice(half, ROWS), asked[1]) for model in (learner, other)]
    if scores[0].tobytes() != scores[1].tobytes():
        yield "scores learned on"
    if not same(other.state_dict(), learner.state_dict()):
        yield "the state learned on"


def main(every: int) -> None:
    """Play one in `every` combinations, interpreted."""
    report: dict[str, Any] = {"played": 0, "engines": {}, "failures": []}
    with np.errstate(all="ignore"):
        for learner in islice(learners(), None, None, every):
            state = getattr(learner.engine, "layout", learner.engine)
            engine = "ScalarLayout" if isinstance(state, AveragedLayout) else type(state).__name__
            words = f"{learner.algorithm!r}, {learner.loss}, {learner.penalty!r}, {engine}"
            found = list(differences(learner))
            report["failures"] += [f"{words}: {what}" for what in found]
            report["played"] += 1
            report["engines"][engine] = report["engines"].get(engine, 0) + 1
    print(json.dumps(report))


if __name__ == "__main__":
    main(int(sys.argv[1]))
