"""Several classes on dense matrices: what the compiled engine is checked against, and the whole matrix of combinations.

Run as a script (with NUMBA_DISABLE_JIT=1, so that nothing is compiled) it checks all of the matrix.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import proxstream as ps
from proxstream.core import losses
from proxstream.core.algorithms import AdaGrad, Algorithm, PassiveAggressive
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.engine import CompiledEngine
from proxstream.learner.layouts import MulticlassLayout
from proxstream.learner.plan import multiclass_plan

D, CLASSES = 12, 3


class Fit(NamedTuple):
    scores: Any
    weights: Any
    intercepts: Any


def sample(rows: int = 45, seed: int = 0, weighted: bool = False, dtype: Any = np.float64) -> RowBlock:
    """Sparse rows in which features stay away for long, the last of them for good after a while."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, D)) * (rng.random((rows, D)) < np.linspace(0.7, 0.1, D))
    X[rows // 3 :, -1] = 0.0
    y = rng.integers(0, CLASSES, rows)
    c = np.where(rng.random(rows) < 0.2, 0.0, rng.uniform(0.5, 2.0, rows)) if weighted else None
    return as_block(X.astype(dtype), y, c)


def dense(rows: RowBlock) -> Any:
    X = np.zeros((rows.n_rows, D))
    for i in range(rows.n_rows):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        X[i, rows.indices[part]] = rows.data[part]
    return X


def free(algorithm: Algorithm) -> Algorithm:
    """The algorithm of the intercepts: no extra threshold, and always the root."""
    if isinstance(algorithm, ps.RDA):
        return replace(algorithm, rho=0.0)
    return replace(algorithm, strongly_convex=False) if isinstance(algorithm, AdaGrad) else algorithm


def reference(algorithm: Algorithm, penalty: Any, loss: Any, rows: RowBlock, intercept: bool) -> Fit:
    """Two dense learners, of the weights and of the intercepts, fed with the gradients of one loss."""
    if isinstance(algorithm, PassiveAggressive):
        return _passive_aggressive(algorithm, penalty, loss, rows, intercept)
    W = ps.OnlineLearner(algorithm, penalty, dim=(D, CLASSES))
    b = ps.OnlineLearner(free(algorithm) if intercept else ps.RDA(), dim=(1, CLASSES))
    scores = []
    for i, z in enumerate(dense(rows)):
        scores.append(z @ W.point + (b.point[0] if intercept else 0.0))
        slope = loss.slope(scores[-1], int(rows.y[i]))
        weight = {"weight": rows.c[i]} if len(rows.c) else {}
        W.update(np.outer(z, slope), **weight)
        b.update(slope[None], **weight)
    return Fit(np.array(scores), W.point, b.point[0] if intercept else np.zeros(CLASSES))


def _passive_aggressive(algorithm: Any, penalty: Any, loss: Any, rows: RowBlock, intercept: bool) -> Fit:
    """The intercept is a feature that is always 1, without bounds."""
    X = np.column_stack([dense(rows), np.full(rows.n_rows, float(intercept))])
    if penalty is not None:
        edge = np.repeat([penalty.lo, -np.inf], (D, 1)), np.repeat([penalty.hi, np.inf], (D, 1))
        penalty = ps.Box(*edge)
    learner = ps.OnlineLearner(algorithm, penalty, dim=(D + 1, CLASSES))
    scores = []
    for i, z in enumerate(X):
        scores.append(z @ learner.point)
        learner.learn(z, int(rows.y[i]), loss, **({"weight": rows.c[i]} if len(rows.c) else {}))
    return Fit(np.array(scores), learner.point[:-1], learner.point[-1])


def engine(algorithm: Any, penalty: Any, loss: Any, dtype: Any = np.float64, intercept: bool = True) -> Any:
    made = multiclass_plan(algorithm, ps.penalties.get(penalty), losses.get(loss), CLASSES, dtype)
    assert not isinstance(made, str), made
    return CompiledEngine(MulticlassLayout(made), D, dtype, intercept)


def learned(machine: Any, rows: RowBlock) -> Fit:
    return Fit(machine.learn(rows), *machine.weights())


def difference(algorithm: Any, penalty: Any, loss: Any, rows: RowBlock, intercept: bool) -> str:
    """What is wrong with the engine's fit, if anything."""
    got = learned(engine(algorithm, penalty, loss, intercept=intercept), rows)
    expected = reference(algorithm, penalty, loss, rows, intercept)
    far = max(float(np.max(np.abs(a - b))) for a, b in zip(got, expected, strict=True))
    zeros = np.array_equal(got.weights == 0.0, expected.weights == 0.0)
    return "" if far < 1e-10 and zeros else f"off by {far:.1e}, zeros {'agree' if zeros else 'differ'}"


ALGORITHMS = [
    ps.RDA(gamma=0.7),
    ps.RDA(gamma=1.0, rho=0.05),
    ps.RDA(gamma=1.0, schedule="log"),
    ps.RDA(gamma=1.0, schedule="zero"),
    ps.AdaGrad(eta=0.5, delta=0.1),
    ps.AdaGrad(eta=0.5, delta=0.0),
    ps.FTRLProximal(alpha=0.5, beta=1.0),
    ps.FTRLProximal(alpha=0.5, beta=0.0, penalty_weight="once"),
    ps.MirrorDescent(eta=0.3),
    ps.MirrorDescent(eta=0.1, schedule="constant"),
    ps.MirrorDescent(eta=1.0, schedule="linear"),
    ps.AdaGrad(eta=0.5, delta=0.1, update="mirror"),
    ps.AdaGrad(eta=2.0, delta=1.0, update="mirror", strongly_convex=True),
    ps.SGD(eta=0.2),
    ps.TruncatedGradient(eta=0.2, every=3),
    ps.PassiveAggressive(variant="PA"),
    ps.PassiveAggressive(C=0.1, variant="PA-I"),
    ps.PassiveAggressive(C=0.1, variant="PA-II"),
]
ROWS = [
    ps.GroupL2(0.03),
    ps.GroupLinf(0.04),
    ps.GroupL2(0.03) + ps.L2(0.1),
    ps.GroupLinf(0.03) + ps.L2(0.1),
    ps.GroupL2(0.02) + ps.NonNegative(),
    ps.GroupLinf(0.03) + ps.L1(0.01),
    ps.GroupL2(0.02) + ps.L1(0.01),
    ps.GroupLinf(0.02) + ps.L1(0.01) + ps.L2(0.1) + ps.NonNegative(),
]
SEPARABLE = [
    None,
    ps.L1(0.02),
    ps.L2(0.1),
    ps.ElasticNet(0.02, 0.1),
    ps.Box(-0.2, 0.3),
    ps.L1(0.02) + ps.NonNegative(),
]
LOSSES = [losses.softmax, losses.multiclass_hinge]


def matrix() -> list[tuple[Any, Any, Any]]:
    """Every combination that has both a dense step and a lazy form."""
    found = []
    for algorithm, penalty, loss in itertools.product(ALGORITHMS, SEPARABLE + ROWS, LOSSES):
        known = ps.penalties.get(penalty)
        try:
            algorithm.check(known, (D, CLASSES))
        except (TypeError, ValueError):
            continue
        if not isinstance(multiclass_plan(algorithm, known, loss, CLASSES, np.float64), str):
            found.append((algorithm, penalty, loss))
    return found


def counts_rounds(algorithm: Any, penalty: Any, loss: Any) -> bool:
    """Adaptive mirror steps with an l2 term multiply over idle rounds: rows of unequal weight have no closed form."""
    mirrored = isinstance(algorithm, AdaGrad) and algorithm.update == "mirror"
    return mirrored and ps.penalties.get(penalty).strong_convexity > 0.0


def main(every: int) -> None:
    """Compare one in `every` combinations, interpreted."""
    from proxstream.jit import compile as jit
    from proxstream.learner import _loop_multiclass as kernels, engine, layouts

    assert jit.INTERPRETED
    checked = 0
    for epoch in (1 << 20, 13):  # the second settles all features every 13 rounds
        kernels.EPOCH = engine.EPOCH = layouts.EPOCH = epoch
        for combination in matrix()[::every]:
            if epoch == 13 and not isinstance(combination[0], (ps.MirrorDescent, ps.AdaGrad, ps.TruncatedGradient)):
                continue
            rows = sample(seed=checked % 5, weighted=checked % 3 == 0 and not counts_rounds(*combination))
            curved = (
                getattr(combination[0], "schedule", "") == "zero"
            )  # by the penalty alone, which intercepts have not
            wrong = difference(*combination, rows, intercept=checked % 4 != 0 and not curved)
            assert not wrong, (combination, wrong)
            checked += 1
    print(checked)


if __name__ == "__main__":
    main(int(sys.argv[1]))
