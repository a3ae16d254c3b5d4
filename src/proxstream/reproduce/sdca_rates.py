"""`sdca-rates`: Prox-SDCA's theorems beside what it does, and beside FISTA and RDA (Shalev-Shwartz and Zhang 2012).

Notation: n rows of norm at most R, a loss that is (1/gamma)-smooth or L-Lipschitz, lambda g(w) the regularizer, T steps
of one row each (n of them are an epoch), eps the duality gap asked for.

| theorem    | steps that suffice                                                                          |
|------------|---------------------------------------------------------------------------------------------|
| 1, smooth  | (n + R^2/(lambda gamma)) log((n + R^2/(lambda gamma)) / eps)                                   |
| 2, L-Lipschitz | n + max(0, n log(lambda n / (2 (R L)^2))) + 20 (R L)^2 / (lambda eps), for averaged weights |

Section 3.1 minimizes mean loss + sigma ||w||_1 to an accuracy eps with lambda = eps/B^2, B >= ||w*||_2, and compares:
n + (R B)^2/(eps gamma) steps against FISTA's R B/sqrt(eps gamma) passes and (R B/eps)^2 steps of SGD's relatives.

`sdca_rates_report` makes the report.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core import losses
from ..core.penalties import L1, L2, ElasticNet
from ..core.validation import Array
from ..data.rowblock import as_block
from .experiment import Experiment, Report
from .run import Run

OPTIONS = ("I", "II", "III", "IV", "V")
GAP, LEAST = 1e-4, 1e-6  # the gap that epochs are counted to, and the one where runs end
SMOOTHED, HINGE = "smoothed_hinge", "hinge"
SIGMA = 1e-3


class Source(NamedTuple):
    """Where the rows come from: a folder with a9a, or a seed."""

    folder: Path | None
    seed: int


@lru_cache(maxsize=1)
def rows_of(source: Source) -> tuple[Any, Array]:
    """Return rows of norm 1 and labels -1, +1."""
    from sklearn.preprocessing import normalize

    from ..datasets import load_text

    if source.folder is not None:
        rows = load_text(source.folder / "a9a", zero_based=False)
        return normalize(rows.X), rows.y
    from scipy.sparse import random_array

    rng = np.random.default_rng([source.seed, 7])
    X = random_array((1500, 60), density=0.2, format="csr", rng=rng, data_sampler=lambda size: np.ones(size))
    X = normalize(X[np.diff(X.indptr) > 0])
    p = 1.0 / (1.0 + np.exp(-3.0 * (X @ rng.standard_normal(60))))
    return X, np.where(rng.random(len(p)) < p, 1.0, -1.0)


# -- theorems against practice -------------------------------------------------------------------


class Solve(NamedTuple):
    """A run of Prox-SDCA at lambda = strength/n, with rows drawn at random as the paper draws them."""

    source: Source
    loss: str
    strength: float
    option: str
    epochs: int
    runs: int
    seed: int


def gaps(task: Solve) -> list[float]:
    """Return the duality gap after each epoch, in the mean of the runs, until it is LEAST or the epochs are over."""
    from ..batch.problem import Problem
    from ..batch.sdca import Rule, solve

    X, y = rows_of(task.source)
    problem = Problem(as_block(X, y=y), X.shape[1], losses.get(task.loss), L2(task.strength / len(y)), False)
    rule, values = Rule(option=task.option, sampling="uniform"), []
    solutions: list[Any] = [None] * task.runs
    for epoch in range(task.epochs):
        solutions = [
            solve(problem, tol=1e-15, max_epochs=1, seed=_seed(task.seed, i, epoch), start=start, rule=rule)
            for i, start in enumerate(solutions)
        ]
        values.append(float(np.mean([solution.history[-1].gap for solution in solutions])))
        if values[-1] <= LEAST:
            break
    return values


def _seed(*key: int) -> int:
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def first_at(gaps: list[float], at: float) -> int | None:
    """Return the number of the first epoch with a gap of at most `at`."""
    return next((epoch for epoch, gap in enumerate(gaps, 1) if gap <= at), None)


def theorem_1(n: int, strength: float, gamma: float = 1.0, at: float = GAP) -> float:
    """Return the epochs that suffice for a smooth loss; R = 1 and lambda = strength/n."""
    steps = n * (1.0 + 1.0 / (strength * gamma))
    return float(steps * np.log(steps / at)) / n


def theorem_2(n: int, strength: float, at: float = GAP) -> float:
    """Return the epochs that suffice for a 1-Lipschitz loss; R = 1 and lambda = strength/n."""
    return float(1.0 + max(0.0, np.log(0.5 * strength)) + 20.0 / (strength * at))


# -- FISTA and RDA -------------------------------------------------------------------------------


class Contest(NamedTuple):
    """A method that minimizes mean logistic loss + SIGMA ||w||_1, for so many passes; `knob` is its parameter."""

    source: Source
    method: str
    knob: float
    passes: int
    seed: int


def objectives(task: Contest) -> list[float]:
    """Return the objective of the l1 problem after each pass over the rows."""
    X, y = rows_of(task.source)
    return list({"SDCA": _by_sdca, "FISTA": _by_fista, "RDA": _by_rda}[task.method](task, X, y))


def value(X: Any, y: Array, w: Array) -> float:
    """Return mean logistic loss + SIGMA ||w||_1."""
    return float(np.logaddexp(0.0, -y * (X @ w)).mean() + SIGMA * np.abs(w).sum())


def _by_sdca(task: Contest, X: Any, y: Array) -> list[float]:
    """Run section 3.1's procedure; `knob` is lambda."""
    from ..batch.problem import Problem
    from ..batch.sdca import Rule, solve

    problem = Problem(as_block(X, y=y), X.shape[1], losses.get("logistic"), ElasticNet(SIGMA, task.knob), False)
    solution, values = None, []
    for epoch in range(task.passes):
        rule = Rule(sampling="uniform")
        seed = _seed(task.seed, epoch)
        solution = solve(problem, tol=1e-15, max_epochs=1, seed=seed, start=solution, rule=rule)
        values.append(value(X, y, solution.coef))
    return values


def _by_fista(task: Contest, X: Any, y: Array) -> list[float]:
    """Run FISTA; `knob` is the smoothness of the mean loss, 1/step."""
    w = z = np.zeros(X.shape[1])
    t, values = 1.0, []
    for _ in range(task.passes):
        g = X.T @ (-y / (1.0 + np.exp(y * (X @ z)))) / len(y)
        new = z - g / task.knob
        new = np.sign(new) * np.maximum(np.abs(new) - SIGMA / task.knob, 0.0)
        t, last = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0, t
        z, w = new + (last - 1.0) / t * (new - w), new
        values.append(value(X, y, w))
    return values


def _by_rda(task: Contest, X: Any, y: Array) -> list[float]:
    """Run l1-RDA over rows in a new order each pass; `knob` is gamma."""
    from ..core.algorithms import RDA
    from ..estimators import StreamClassifier

    model = StreamClassifier(RDA(gamma=task.knob), loss="logistic", penalty=L1(SIGMA), fit_intercept=False)
    rng = np.random.default_rng([task.seed, 3])
    values = []
    for _ in range(task.passes):
        order = rng.permutation(len(y))
        model.partial_fit(X[order], y[order], classes=[-1.0, 1.0])
        values.append(value(X, y, np.ravel(model.coef_)))
    return values


class Best(NamedTuple):
    """The optimum of the l1 problem: its value, the norm of its weights, and the smoothness of the mean loss."""

    objective: float
    norm: float
    smoothness: float


def optimum(source: Source) -> Best:
    """Solve the l1 problem to a certified gap far below all accuracies asked for."""
    from scipy.sparse.linalg import svds

    from ..estimators import CertifiedClassifier

    X, y = rows_of(source)
    model = CertifiedClassifier(penalty=L1(SIGMA), tol=1e-9, fit_intercept=False, random_state=0).fit(X, y)
    top = float(svds(X.astype(np.float64), k=1, return_singular_vectors=False, random_state=0)[0])
    return Best(float(model.primal_), float(np.linalg.norm(model.coef_)), 0.25 * top * top / len(y))


# -- the experiment ----------------------------------------------------------------------------------


class Found(NamedTuple):
    """All that was measured: gaps by loss, strength and option; objectives by method and its parameter."""

    n: int
    strengths: tuple[float, ...]
    compared: tuple[float, ...]
    curves: dict[tuple[str, float, str], list[float]]
    accuracies: tuple[float, ...]
    contest: dict[tuple[str, float], list[float]]
    best: Best

    def epochs(self, loss: str, strength: float, option: str = "I") -> int | None:
        """Return the epochs to GAP."""
        return first_at(self.curves[loss, strength, option], GAP)

    def passes(self, method: str, accuracy: float, *, prescribed: bool = False) -> int | None:
        """Return the passes of a method to an accuracy, at the parameter that is the best for it of those tried.

        Prox-SDCA has a `prescribed` one too: section 3.1's lambda for this accuracy.
        """
        if prescribed:
            return first_at(self.contest[method, self.lam(accuracy)], self.best.objective + accuracy)
        runs = [values for (name, _), values in self.contest.items() if name == method]
        tried = [first_at(values, self.best.objective + accuracy) for values in runs]
        return min((one for one in tried if one is not None), default=None)

    def lam(self, accuracy: float) -> float:
        """Return section 3.1's lambda."""
        return accuracy / self.best.norm**2


def perform(run: Run) -> Report:
    """Measure epochs over lambda for a smooth and a Lipschitz loss, then run the three methods on an l1 problem."""
    from . import sdca_rates_report as pages

    source = Source(None if run.quick else run.folder("a9a"), run.seed)
    strengths = (0.1, 1.0, 10.0) if run.quick else (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
    compared = (1.0,) if run.quick else (0.1, 1.0, 10.0)
    epochs, runs = (60, 2) if run.quick else (300, 2)
    n = len(rows_of(source)[1])
    tasks = [Solve(source, SMOOTHED, c, "I", epochs, runs, run.seed) for c in strengths]
    tasks += [Solve(source, SMOOTHED, c, option, epochs, runs, run.seed) for c in compared for option in OPTIONS[1:]]
    tasks += [Solve(source, HINGE, c, "I", epochs, runs, run.seed) for c in strengths]
    values = run.map(gaps, tasks, "epochs over lambda")
    best = optimum(source)
    accuracies = (1e-2, 1e-3) if run.quick else (1e-2, 1e-3, 1e-4, 1e-5)
    passes = 40 if run.quick else 300
    contests = [Contest(source, "SDCA", accuracy / best.norm**2, passes, run.seed) for accuracy in accuracies]
    contests.append(Contest(source, "FISTA", best.smoothness, passes, run.seed))
    gammas = (0.1, 1.0) if run.quick else (0.03, 0.1, 0.3, 1.0, 3.0)
    contests += [Contest(source, "RDA", gamma, passes, run.seed) for gamma in gammas]
    reached = run.map(objectives, contests, "three methods")
    found = Found(
        n,
        strengths,
        compared,
        {(task.loss, task.strength, task.option): curve for task, curve in zip(tasks, values, strict=True)},
        accuracies,
        {(task.method, task.knob): curve for task, curve in zip(contests, reached, strict=True)},
        best,
    )
    return Report(
        tables=pages.tables(found),
        figures=pages.figures(found),
        claims=pages.claims(found),
        settings={
            "rows": f"{n:,}, scaled to norm 1, so that R = 1; no intercept",
            "theorems": f"smoothed hinge (gamma = 1) and hinge (L = 1), L2(lambda), lambda n from {strengths[0]:g} to "
            f"{strengths[-1]:g}, rows drawn uniformly, means of {runs} runs of at most {epochs} epochs",
            "l1 problem": f"logistic loss, sigma = {SIGMA:g}, ||w*|| = {best.norm:.3g}, at most {passes} passes",
            "FISTA": f"step 1/{best.smoothness:.4g}, the inverse of the mean loss's own smoothness",
            "RDA": f"last weights, gamma the best of {', '.join(f'{gamma:g}' for gamma in gammas)} at each accuracy",
        },
        data=f"a9a of the LIBSVM collection, {n:,} rows." if source.folder else f"{n:,} generated rows.",
    )


EXPERIMENT = Experiment(
    name="sdca-rates",
    title="Prox-SDCA's theorems against its practice, and against FISTA and RDA",
    paper="Shalev-Shwartz and Zhang 2012, Theorems 1 and 2, section 3.1",
    about=(
        "The paper proves how many steps of one row each bring the duality gap below a given size, and compares orders "
        "of growth with accelerated gradients and online methods; it has no experiments. Here its theorems are set "
        "beside counted epochs, from strong to very weak regularization, and the three methods solve one l1 problem "
        "whose optimum is certified."
    ),
    data="a folder with a9a (svmlight, from the LIBSVM collection)",
    perform=perform,
)
