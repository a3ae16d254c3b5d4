"""The problems of `benchmarks.batch`: losses, penalties and data, as tables of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import proxstream as ps
from proxstream.batch import Problem, dispatch as certified
from proxstream.data.rowblock import as_block

from .data import Stream
from .peers import Task


def problem_of(task: Task) -> Problem:
    """Return the task as our solvers take it."""
    penalty = ps.ElasticNet(task.l1, task.l2) if task.l1 and task.l2 else ps.L1(task.l1) if task.l1 else ps.L2(task.l2)
    problem = Problem(as_block(task.X, task.y), task.X.shape[1], ps.losses.get(task.loss), penalty, fit_intercept=False)
    _ = problem.shares
    return problem


def ours(problem: Problem, tol: float, n_threads: int = 1) -> Any:
    """Return our weights."""
    return certified.solve(problem, tol=tol, max_epochs=10_000, n_threads=n_threads).coef


def numeric(stream: Stream, seed: int = 0) -> np.ndarray:
    """Labels for regression: a sparse linear model and noise."""
    rng = np.random.default_rng(seed)
    d = stream.X.shape[1]
    z = stream.X @ (rng.standard_normal(d) * (rng.random(d) < max(0.05, 4.0 / d)))
    return np.asarray((z + z.std() * rng.standard_normal(len(z))) / z.std(), dtype=np.float64)


@dataclass
class Plan:
    """A group of tasks that make one table."""

    title: str
    tasks: list[tuple[str, Task]] = field(default_factory=list)


def logistic(stream: Stream, kind: str, C: float) -> Task:
    """Return a task with a binary loss; the penalty's weight is 1/C beside the sum of losses."""
    lam = 1.0 / (C * stream.X.shape[0])
    loss = "hinge" if kind == "l2-hinge" else "logistic"
    l1, l2 = {"l2": (0.0, lam), "l1": (lam, 0.0), "en": (0.5 * lam, 0.5 * lam)}[kind[:2]]
    return Task(stream.X, stream.y, loss, l1, l2)


def squared(stream: Stream, part: float, ratio: float) -> Task:
    """Return a lasso (ratio 1) or elastic net whose l1 is a part of the strength that leaves no weight."""
    y = numeric(stream)
    largest = float(np.abs(stream.X.T @ y).max()) / len(y)
    return Task(stream.X, y, "squared", part * largest * ratio, part * largest * (1.0 - ratio))


def plans(streams: list[Stream], large: list[Stream], small: list[Stream], quick: bool) -> Iterator[Plan]:
    """Yield the tables' tasks; `large` data have one strength each, `small` ones their own tables."""
    few = (1.0,) if quick else (1.0, 30.0)
    yield Plan(
        "l2-logistic",
        [(f"{s.name}, C = {C:g}", logistic(s, "l2", C)) for s in streams for C in few]
        + [(f"{s.name}, C = 1", logistic(s, "l2", 1.0)) for s in large],
    )
    yield Plan(
        "l2-hinge",
        [(f"{s.name}, C = {C:g}", logistic(s, "l2-hinge", C)) for s in streams for C in few]
        + [(f"{s.name}, C = 1", logistic(s, "l2-hinge", 1.0)) for s in large],
    )
    many = (1.0, 10.0) if quick else (0.3, 1.0, 10.0, 30.0)
    yield Plan(
        "l1-logistic",
        [(f"{s.name}, C = {C:g}", logistic(s, "l1", C)) for s in streams for C in many]
        + [(f"{s.name}, C = 1", logistic(s, "l1", 1.0)) for s in large],
    )
    for kind in ("l2", "l1"):
        tasks = [(f"{s.name}, C = {C:g}", logistic(s, kind, C)) for s in small for C in (1.0, 10.0)]
        yield Plan(f"{kind}-logistic, small and sparse", tasks)
    yield Plan("elastic net, equal parts, logistic", [(f"{s.name}, C = 1", logistic(s, "en", 1.0)) for s in streams])
    parts = (0.1,) if quick else (0.1, 0.01)
    yield Plan(
        "squared loss: the lasso, and the elastic net in equal parts",
        [
            (f"{s.name}, {word}, l1 {part:g} of the largest", squared(s, part, ratio))
            for s in streams
            for word, ratio in (("lasso", 1.0), ("elastic net", 0.5))
            for part in parts
        ],
    )
