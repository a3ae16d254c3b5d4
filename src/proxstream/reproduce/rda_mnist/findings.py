"""All passes and optima of section 6, spread over the processes; what comes back is what the figures show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from ...core.validation import Array
from ..run import Run
from .passes import (
    ENHANCED,
    METHODS,
    RDA_ENHANCED,
    Optimum,
    Outcome,
    Task,
    Weights,
    digits,
    folder,
    optimum,
    outcomes,
    trace,
    weights,
)


@dataclass(frozen=True)
class Plan:
    """How much is run: the published sizes, or those of a quick version."""

    easy: tuple[int, int] = (6, 7)
    hard: tuple[int, int] = (3, 8)
    strengths: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    orders: int = 100
    trace_strengths: Sequence[float] = (0.1, 10.0)
    gammas: Sequence[float] = tuple(1000.0 * k for k in range(1, 11))
    gamma_strengths: Sequence[float] = (0.1, 1.0, 10.0)
    gamma_orders: int = 20
    digits: int = 10
    pair_strengths: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0)
    pair_orders: int = 5
    shown: float = 1.0  # the strength whose patterns Figure 7 shows
    parts: int = 10
    part_orders: int = 10
    chunk: int = 50  # orders in a task


QUICK = Plan(
    strengths=(0.1, 1.0, 10.0),
    orders=8,
    gammas=(1000.0, 3000.0, 10000.0),
    gamma_orders=8,
    digits=4,
    pair_strengths=(0.1, 1.0, 10.0),
    pair_orders=4,
    parts=4,
    part_orders=2,
    chunk=8,
)


class PairFinding(NamedTuple):
    """Figure 7's part on two digits."""

    optima: dict[float, Optimum]
    outcomes: dict[float, Array]
    pattern: Array
    strongest: float
    rows: tuple[int, int]


@dataclass
class Findings:
    """What was found; arrays of outcomes have a row per pass and the columns of `Outcome`."""

    plan: Plan
    side: int
    optima: dict[float, Optimum] = field(default_factory=dict)
    patterns: dict[tuple[str, float], tuple[Weights, Weights]] = field(default_factory=dict)
    traces: dict[tuple[str, float], Array] = field(default_factory=dict)
    tradeoffs: dict[tuple[str, float], Array] = field(default_factory=dict)
    gamma_outcomes: dict[tuple[float, float], Array] = field(default_factory=dict)
    gamma_patterns: dict[tuple[float, float], Weights] = field(default_factory=dict)
    pairs: dict[tuple[int, int], PairFinding] = field(default_factory=dict)
    part_optima: dict[float, list[Optimum]] = field(default_factory=dict)
    part_outcomes: dict[tuple[str, float], Array] = field(default_factory=dict)  # (part, order, column)


def find(run: Run) -> Findings:
    """Run everything."""
    plan = QUICK if run.quick else Plan()
    found = Findings(plan, round(digits(folder(run)).train.X.shape[1] ** 0.5))
    for stage in STAGES:
        stage(run, plan, found)
    return found


def _easy_pair(run: Run, plan: Plan, found: Findings) -> None:
    """Figures 2, 3 and 4."""
    strengths = plan.strengths
    tasks = [Task(run, plan.easy, "optimum", lam) for lam in strengths]
    found.optima.update(zip(strengths, run.map(optimum, tasks, "batch optima of the pair"), strict=True))

    keys = list(product(ENHANCED, strengths))
    first = run.map(weights, [Task(run, plan.easy, *key) for key in keys], "weights of one pass")
    found.patterns.update((key, both[0]) for key, both in zip(keys, first, strict=True))

    keys = list(product(METHODS, plan.trace_strengths))
    counts = run.map(trace, [Task(run, plan.easy, *key) for key in keys], "non-zeros round by round")
    found.traces.update(zip(keys, counts, strict=True))

    def task(key: tuple[str, float], orders: range) -> Task:
        method, lam = key
        return Task(run, plan.easy, method, lam, orders=orders)

    keys = list(product(METHODS, strengths))
    found.tradeoffs.update(_over_orders(run, keys, task, plan.orders, plan.chunk))


def _gammas(run: Run, plan: Plan, found: Findings) -> None:
    """Figures 5 and 6."""
    keys = list(product(plan.gammas, plan.gamma_strengths))

    def task(key: tuple[float, float], orders: range) -> Task:
        gamma, lam = key
        return Task(run, plan.easy, RDA_ENHANCED, lam, gamma, orders)

    found.gamma_outcomes.update(_over_orders(run, keys, task, plan.gamma_orders, plan.chunk))
    first = run.map(weights, [task(key, range(1)) for key in keys], "weights for each gamma")
    found.gamma_patterns.update((key, both[0][0]) for key, both in zip(keys, first, strict=True))


def _all_pairs(run: Run, plan: Plan, found: Findings) -> None:
    """Figure 7."""
    pairs = list(combinations(range(plan.digits), 2))
    tasks = [(run, plan, pair) for pair in pairs]
    found.pairs.update(zip(pairs, run.map(pair_finding, tasks, "all pairs of digits"), strict=True))


def pair_finding(task: tuple[Run, Plan, tuple[int, int]]) -> PairFinding:
    """Return the tradeoffs and the pattern of one pair."""
    run, plan, pair = task
    rows = Task(run, pair, RDA_ENHANCED, plan.shown).pair()
    passes = {lam: Task(run, pair, RDA_ENHANCED, lam, orders=range(plan.pair_orders)) for lam in plan.pair_strengths}
    return PairFinding(
        {lam: optimum(passes[lam]) for lam in passes},
        {lam: np.array(outcomes(passes[lam])) for lam in passes},
        weights(passes[plan.shown]._replace(orders=range(1)))[0][0].coef,
        rows.strongest(),
        (len(rows.y), len(rows.y_test)),
    )


def _parts(run: Run, plan: Plan, found: Findings) -> None:
    """Figure 8."""
    parts, orders = range(plan.parts), range(plan.part_orders)
    keys = list(product(plan.strengths, parts))
    tasks = [Task(run, plan.hard, "optimum", lam, part=(k, plan.parts)) for lam, k in keys]
    solved = dict(zip(keys, run.map(optimum, tasks, "batch optima of the parts"), strict=True))
    found.part_optima.update((lam, [solved[lam, k] for k in parts]) for lam in plan.strengths)

    passes = list(product(METHODS, plan.strengths, parts))
    made = [Task(run, plan.hard, m, lam, orders=orders, part=(k, plan.parts)) for m, lam, k in passes]
    done = dict(zip(passes, run.map(outcomes, made, "passes over the parts"), strict=True))
    for m, lam in product(METHODS, plan.strengths):
        found.part_outcomes[m, lam] = np.array([done[m, lam, k] for k in parts])


STAGES = (_easy_pair, _gammas, _all_pairs, _parts)


def _over_orders(
    run: Run, keys: Sequence[Any], task: Callable[[Any, range], Task], orders: int, chunk: int
) -> dict[Any, Array]:
    """Return the outcomes of each key for this many orders, a few a task."""
    chunks = [range(start, min(start + chunk, orders)) for start in range(0, orders, chunk)]
    tasks = [(key, part) for key in keys for part in chunks]
    done = run.map(outcomes, [task(key, part) for key, part in tasks], f"passes in {orders} orders")
    rows: dict[Any, list[Outcome]] = {key: [] for key in keys}
    for (key, _), outcome in zip(tasks, done, strict=True):
        rows[key] += outcome
    return {key: np.array(outcomes) for key, outcomes in rows.items()}
