"""Accelerated dual averaging on minibatches: the empirical study that Xiao left for later (section 7.1).

Minimize phi(w) = mean of f(w, z_i) + lam ||w||_1 from gradients of b rows drawn at random. With L the smoothness of the
mean loss, Q^2 the variance of a row's gradient and D^2 = ||w*||^2 / 2, theory says of t steps

| method                                           | E phi - phi* is at most                    |            |
|--------------------------------------------------|--------------------------------------------|------------|
| accelerated RDA, alpha_t = t/2, gamma = Q_b/D    | 4 L D^2 / t^2  +  4 Q D / sqrt(b t)        | Cor. 7     |
| accelerated RDA, alpha_t = 1,   gamma = Q_b/D    | L D^2 / t  +  2 Q D / sqrt(b t)            | Thm 6      |
| RDA, mean of the points, gamma = G_b/D           | 2 G_b D / sqrt(t)                          | Cor. 2, 4  |

where Q_b = Q/sqrt(b), and G_b^2 = ||grad||^2 + Q^2/b bounds the mean square of a minibatch's gradient. So with N = b t
rows to spend, the noise term of accelerated RDA, 4 Q D / sqrt(N), does not depend on b: a minibatch is free until the
other term, 4 L D^2 b^2 / N^2, has grown to it, at

    b* = (Q / (L D))^(1/2) N^(3/4)

while plain RDA pays sqrt(b) as soon as the mean gradient, which no minibatch makes smaller, dominates G_b. Here "the
expectation" is the mean over all training rows, so that phi* is known, with a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from ..core import losses
from ..core.algorithms import RDA, AcceleratedRDA, Algorithm
from ..core.penalties import L1
from ..core.validation import Array
from ..online import OnlineLearner
from ..report.drawing import legend
from .experiment import Cell, Claim, Experiment, Figure, Report, Table
from .looks import look
from .rda_mnist.passes import folder, pair
from .run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

DIGITS = 3, 8
STRENGTH = 0.002
ACCELERATED, UNIFORM, PLAIN = "accelerated RDA", "accelerated RDA, α = 1", "RDA"
METHODS = (ACCELERATED, UNIFORM, PLAIN)
FACTORS = (0.03, 0.1, 0.3, 1.0)  # of the gamma that the bound likes best


class Sizes(NamedTuple):
    """How much is run."""

    rows: int = 4096  # N, to be spent by each minibatch size
    steps: int = 256  # at least
    batches: Sequence[int] = (1, 4, 16, 64, 256)
    repeats: int = 3


QUICK = Sizes(rows=512, steps=64, batches=(1, 8, 64), repeats=2)


class Problem(NamedTuple):
    """Rows, the optimum with its proof, and the constants of the theory."""

    X: Array
    y: Array
    best: float
    optimum: Array
    certified: float  # no weights are better than `best` by more than this
    L: float
    Q: float
    slope: float  # the largest norm of the mean gradient
    D: float

    def objective(self, w: Array) -> float:
        """Return phi(w)."""
        return float(np.mean(losses.logistic.value(self.X @ w, self.y))) + STRENGTH * float(np.abs(w).sum())

    def gradient(self, w: Array, rows: Array | slice) -> Array:
        """Return the mean gradient of some rows' losses."""
        X, y = self.X[rows], self.y[rows]
        return np.asarray(-(y * expit(-y * (X @ w))) @ X / len(y))

    def noise(self, batch: int | None) -> float:
        """Return Q_b, 0 for exact gradients."""
        return 0.0 if batch is None else self.Q / math.sqrt(batch)

    def size(self, batch: int | None) -> float:
        """Return G_b."""
        return math.hypot(self.slope, self.noise(batch))

    def terms(self, method: str, batch: int | None, t: Array) -> tuple[Array, Array]:
        """Return the two terms of a method's bound: what smoothness leaves, and what noise (or plain RDA) leaves."""
        L, D, noise = self.L, self.D, self.noise(batch)
        if method == ACCELERATED:
            return 4.0 * L * D * D / t**2, 4.0 * noise * D / np.sqrt(t)
        if method == UNIFORM:
            return L * D * D / t, 2.0 * noise * D / np.sqrt(t)
        return np.zeros(len(t)), 2.0 * self.size(batch) * D / np.sqrt(t)

    def bound(self, method: str, batch: int | None, t: Array) -> Array:
        """Return the sum of the terms."""
        smooth, rest = self.terms(method, batch, t)
        return smooth + rest

    def algorithm(self, method: str, batch: int | None, factor: float) -> Algorithm:
        """Return the method at `factor` times its best gamma in theory."""
        if method == PLAIN:
            return RDA(gamma=factor * self.size(batch) / self.D)
        weights = "linear" if method == ACCELERATED else "constant"
        return AcceleratedRDA(factor * self.noise(batch) / self.D, smoothness=self.L, weights=weights)


@lru_cache(maxsize=1)
def problem(run: Run) -> Problem:
    """Return the problem of two digits, pixels from 0 to 1."""
    from ..estimators import CertifiedClassifier

    rows = pair(folder(run), *DIGITS)
    X, y = rows.X / 255.0, rows.y
    model = CertifiedClassifier(penalty=L1(STRENGTH), tol=1e-7, fit_intercept=False, random_state=run.seed)
    model.fit(X, y)
    optimum = np.asarray(model.coef_[0])
    squares = np.einsum("ij,ij->i", X, X)
    variances, norms = [], []
    for w in (np.zeros(X.shape[1]), optimum):  # where a run begins and where it should end
        slopes = expit(-y * (X @ w))
        norms.append(float(np.linalg.norm((y * slopes) @ X / len(y))))
        variances.append(float(np.mean(slopes**2 * squares)) - norms[-1] ** 2)
    return Problem(
        X,
        y,
        best=model.primal_,
        optimum=optimum,
        certified=model.duality_gap_,
        L=float(np.linalg.eigvalsh(X.T @ X / len(y))[-1]) / 4.0,
        Q=math.sqrt(max(variances)),
        slope=max(norms),
        D=float(np.linalg.norm(optimum)) / math.sqrt(2.0),
    )


class Task(NamedTuple):
    """One run of a method."""

    run: Run
    method: str
    batch: int | None  # None: exact gradients
    factor: float
    repeat: int
    steps: int


class Course(NamedTuple):
    """phi - phi* at some steps, of the vector that the theorem speaks of, and the non-zeros at the end."""

    t: Array
    gap: Array
    nnz: int
    inner_nnz: int  # of the point that solves the last subproblem


def course(task: Task) -> Course:
    """Make one run."""
    here = problem(task.run)
    learner = OnlineLearner(here.algorithm(task.method, task.batch, task.factor), L1(STRENGTH), dim=here.X.shape[1])
    rng = task.run.generator(task.batch or 0, task.repeat)
    looked = np.unique(np.round(np.geomspace(1, task.steps, 2 * round(math.log2(task.steps)) + 1)).astype(int))
    gaps = []
    for t in range(1, task.steps + 1):
        rows = slice(None) if task.batch is None else rng.integers(len(here.y), size=task.batch)
        learner.update(here.gradient(learner.point, rows))
        if t in looked:
            gaps.append(here.objective(_told(task.method, learner)) - here.best)
    state = learner.state_dict()
    inner = learner.point if task.method == PLAIN else state["state.v"]
    return Course(
        looked, np.array(gaps), int(np.count_nonzero(_told(task.method, learner))), int(np.count_nonzero(inner))
    )


def _told(method: str, learner: OnlineLearner) -> Array:
    """Return the vector whose objective the theorem bounds."""
    return learner.average if method == PLAIN else learner.output


class Findings(NamedTuple):
    """Courses by (method, batch), means over repeats: at the theory's gamma, and at the best of FACTORS."""

    sizes: Sizes
    problem: Problem
    theory: Mapping[tuple[str, int | None], Course]
    tuned: Mapping[tuple[str, int | None], Course]
    factors: Mapping[tuple[str, int | None], float]


def find(run: Run) -> Findings:
    """Make all runs."""
    sizes = QUICK if run.quick else Sizes()
    batches: list[int | None] = [*sizes.batches, None]
    tasks = [
        Task(run, method, batch, factor, repeat, max(sizes.rows // (batch or sizes.rows), sizes.steps))
        for batch in batches
        for method in METHODS
        for factor in (FACTORS if batch or method == PLAIN else FACTORS[-1:])  # without noise gamma is 0
        for repeat in range(sizes.repeats if batch else 1)
    ]
    runs: dict[tuple[str, int | None, float], list[Course]] = {}
    for task, made in zip(tasks, run.map(course, tasks, "runs of both methods"), strict=True):
        runs.setdefault((task.method, task.batch, task.factor), []).append(made)
    means = {key: _mean(courses) for key, courses in runs.items()}
    keys = [(method, batch) for method in METHODS for batch in batches]
    # Tuned for the rows to spend, as someone with N rows would.
    factors = {
        key: min((f for f in FACTORS if (*key, f) in means), key=lambda f: at(means[*key, f], sizes.rows, key[1]))
        for key in keys
    }
    return Findings(
        sizes,
        problem(run),
        {key: means[*key, 1.0] for key in keys},
        {key: means[*key, factors[key]] for key in keys},
        factors,
    )


def _mean(courses: Sequence[Course]) -> Course:
    gap = np.mean([c.gap for c in courses], axis=0)
    return Course(
        courses[0].t, gap, round(np.mean([c.nnz for c in courses])), round(np.mean([c.inner_nnz for c in courses]))
    )


def at(course: Course, rows: int, batch: int | None) -> float:
    """Return the gap after `rows` rows; with exact gradients, at the end."""
    step = course.t[-1] if batch is None else max(rows // batch, 1)
    return float(course.gap[np.searchsorted(course.t, step)])


def slope(course: Course) -> float:
    """Return the slope of the gap against t on doubly logarithmic axes, over the last eightfold of t."""
    kept = (course.t >= course.t[-1] / 8) & (course.gap > 0.0)
    return float(np.polyfit(np.log(course.t[kept]), np.log(course.gap[kept]), 1)[0])


def perform(run: Run) -> Report:
    """Make all runs, and report."""
    return report(run, find(run))


def report(run: Run, found: Findings) -> Report:
    """Return the report of the runs."""
    here, sizes = found.problem, found.sizes
    source = "scikit-learn's 8 by 8 digits" if run.quick else "MNIST"
    return Report(
        [_constants(here, sizes), _by_batch(found), _by_rows(found)],
        [
            Figure(
                "steps",
                "The gap against steps, for each minibatch size",
                "phi - phi* of accelerated RDA's output and of plain RDA's mean, at the theory's γ, mean of "
                f"{sizes.repeats} runs. Dashed: the bounds. Dotted: accelerated RDA's two terms apart, smoothness "
                "(steep) and noise (flat).",
                partial(_draw_steps, found),
                (8.0, 5.0),
            ),
            Figure(
                "rows",
                f"What {sizes.rows:,} rows buy, against the minibatch size",
                "Left at the theory's γ, right at the best of "
                f"{', '.join(f'{factor:g}' for factor in FACTORS)} times it. Dashed: the bounds; the vertical line is "
                "b*, where theory lets a minibatch begin to cost accelerated RDA something.",
                partial(_draw_rows, found),
                (8.0, 3.8),
            ),
        ],
        _claims(found),
        {
            "objective": f"mean logistic loss + {STRENGTH:g} ‖w‖₁, no intercept, pixels from 0 to 1",
            "gradients": "means over rows drawn with replacement; the expectation is the mean over all training rows",
            "accelerated RDA": "α_t = t/2 and β_t = γ (t+1)^1.5 / 2, or α_t = 1 and β_t = γ √(t+1); γ = Q/(D √b)",
            "RDA": "β_t = γ √t with γ = G_b/D; the mean of the points played",
            "runs": f"{sizes.repeats} of each; at least {sizes.steps} steps, and {sizes.rows:,} rows",
            "optimum": f"CertifiedClassifier, no weights are better by more than {here.certified:.1e}",
        },
        f"{source}, digits {DIGITS[0]} and {DIGITS[1]}: {len(here.y):,} rows of {here.X.shape[1]} pixels.",
    )


def _crossing(here: Problem, rows: int) -> float:
    """Return b*."""
    return math.sqrt(here.Q / (here.L * here.D)) * math.pow(rows, 0.75)


def _constants(here: Problem, sizes: Sizes) -> Table:
    return Table(
        "The constants of the theory, measured",
        ("quantity", "value", "what it is"),
        [
            ("L", f"{here.L:.3g}", "smoothness of the mean loss: the largest eigenvalue of X'X / 4n"),
            ("Q", f"{here.Q:.3g}", "root of the variance of a row's gradient, at 0 or at the optimum"),
            ("G", f"{here.size(1):.3g}", "root of the mean square of a row's gradient, at most"),
            ("D", f"{here.D:.3g}", "norm of the optimum / √2"),
            ("LD / Q", f"{here.L * here.D / here.Q:.3g}", "how much smoothness weighs beside noise"),
            (f"b* for {sizes.rows:,} rows", f"{_crossing(here, sizes.rows):.0f}", "(Q / LD)^(1/2) N^(3/4)"),
        ],
    )


def _by_batch(found: Findings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (method, batch), made in found.theory.items():
        smooth, noise = (float(term[0]) for term in found.problem.terms(method, batch, made.t[-1:]))
        rows.append(
            (
                method,
                _name(batch),
                int(made.t[-1]),
                f"{made.gap[-1]:.2e}",
                f"{smooth:.2e}",
                f"{noise:.2e}",
                f"{slope(made):.2f}",
                f"{slope(Course(made.t, found.problem.bound(method, batch, made.t), 0, 0)):.2f}",
                made.nnz,
                made.inner_nnz,
            )
        )
    return Table(
        "After all steps, at the theory's γ",
        ("method", "b", "steps", "gap", "smoothness", "noise", "slope", "bound's slope", "non-zeros", "of v"),
        rows,
        note="Smoothness and noise are the bound's two terms (plain RDA has one). Slopes are of the gap against t on "
        "doubly logarithmic axes, over the last eightfold. Non-zeros are those of the vector that the theorem speaks "
        "of; the last column is of the solution of the last subproblem (for RDA, the last point).",
    )


def _by_rows(found: Findings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for batch in found.sizes.batches:
        cells: list[Cell] = [batch, found.sizes.rows // batch]
        for method in METHODS:
            key = method, batch
            cells += [
                f"{at(found.theory[key], found.sizes.rows, batch):.2e}",
                f"{at(found.tuned[key], found.sizes.rows, batch):.2e} ({found.factors[key]:g})",
            ]
        rows.append(tuple(cells))
    heads = [f"{method}, {which}" for method in METHODS for which in ("theory's γ", "tuned")]
    return Table(
        f"The gap after {found.sizes.rows:,} rows, in minibatches of b",
        ("b", "steps", *heads),
        rows,
        note="In brackets: the best factor of the theory's γ.",
    )


def _name(batch: int | None) -> str:
    return "all rows" if batch is None else str(batch)


def _draw_steps(found: Findings, canvas: Canvas) -> None:
    batches = [*found.sizes.batches[:: max(len(found.sizes.batches) // 5, 1)][:5], None]
    axes = canvas.subplots(2, 3, sharex=False, sharey=True).ravel()
    for panel in axes[len(batches) :]:
        panel.axis("off")
    for panel, batch in zip(axes, batches, strict=False):
        for method in METHODS:
            made = found.theory[method, batch]
            drawn = _style(method)
            panel.plot(made.t, np.maximum(made.gap, 1e-9), **drawn, markersize=2.5, linewidth=1.0, label=method)
            terms = found.problem.terms(method, batch, made.t)
            if method != UNIFORM:
                panel.plot(made.t, terms[0] + terms[1], color=drawn["color"], linestyle="--", linewidth=0.8)
            if method == ACCELERATED:
                for term in terms:
                    if np.any(term > 0.0):
                        panel.plot(made.t, term, color=drawn["color"], linestyle=":", linewidth=0.8)
        panel.set_title(f"b = {_name(batch)}")
        _log_log(panel)
    axes[0].set_ylabel("φ - φ*")
    axes[3].set_ylabel("φ - φ*")
    for panel in axes[3:]:
        panel.set_xlabel("steps t")
    legend(canvas)


def _draw_rows(found: Findings, canvas: Canvas) -> None:
    axes = canvas.subplots(1, 2, sharey=True)
    sizes, batches = found.sizes, found.sizes.batches
    for panel, courses, title in zip(axes, (found.theory, found.tuned), ("theory's γ", "tuned γ"), strict=True):
        for method in METHODS:
            drawn = _style(method)
            gaps = [at(courses[method, b], sizes.rows, b) for b in batches]
            panel.plot(batches, gaps, **drawn, markersize=4, label=method)
            if title == "theory's γ":
                bounds = [float(found.problem.bound(method, b, np.array([sizes.rows / b]))[0]) for b in batches]
                panel.plot(batches, bounds, color=drawn["color"], linestyle="--", linewidth=0.8)
        panel.axvline(_crossing(found.problem, sizes.rows), color="#999999", linewidth=0.8)
        panel.set_title(title)
        panel.set_xlabel("rows in a minibatch, b")
        _log_log(panel)
    axes[0].set_ylabel(f"φ - φ* after {sizes.rows:,} rows")
    legend(canvas)


def _style(method: str) -> dict[str, str]:
    return look("FOBOS") if method == UNIFORM else look(method)


def _log_log(panel: Axes) -> None:
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.tick_params(labelsize=7)


def _claims(found: Findings) -> Sequence[Claim]:
    here, sizes = found.problem, found.sizes
    small, large = sizes.batches[0], sizes.batches[-1]
    worst = max(
        float(np.max(made.gap / here.bound(method, batch, made.t))) for (method, batch), made in found.theory.items()
    )
    exact = {method: slope(found.theory[method, None]) for method in METHODS}

    def cost(method: str, courses: Mapping[tuple[str, int | None], Course], batch: int) -> float:
        return at(courses[method, batch], sizes.rows, batch) / at(courses[method, small], sizes.rows, small)

    def costs(batch: int) -> str:
        costs = [cost(m, courses, batch) for courses in (found.theory, found.tuned) for m in (ACCELERATED, PLAIN)]
        return (
            f"at b = {batch} it is {costs[0]:.2f} times that at b = {small} (RDA: {costs[1]:.2f}) at the theory's γ, "
            f"{costs[2]:.2f} times (RDA: {costs[3]:.2f}) tuned"
        )

    free = max((b for b in sizes.batches if b <= _crossing(here, sizes.rows)), default=small)
    ratios = {b: found.theory[PLAIN, b].gap[-1] / found.theory[ACCELERATED, b].gap[-1] for b in sizes.batches}
    made = found.theory[ACCELERATED, large]
    return [
        Claim(
            "The gap of accelerated RDA is at most 4LD²/t² + 4QD/√(bt) in the mean (Corollary 7), LD²/t + 2QD/√(bt) "
            "with α = 1 (Theorem 6), that of RDA's mean 2GD/√t (Corollary 4).",
            f"The mean of the runs came to at most {worst:.1%} of its bound, over all b and t.",
            worst <= 1.0,
        ),
        Claim(
            "Without noise accelerated RDA converges as 1/t², RDA as 1/√t (section 7.1).",
            f"With exact gradients the slopes are {exact[ACCELERATED]:.2f} (accelerated), {exact[UNIFORM]:.2f} (α = 1) "
            f"and {exact[PLAIN]:.2f} (RDA).",
            exact[ACCELERATED] < -1.9 or (None if exact[ACCELERATED] < exact[PLAIN] - 0.5 else False),
            why=""
            if exact[ACCELERATED] < -1.9
            else "The bound falls as 1/t²; the gap begins far beneath it, and in so few steps has fallen less.",
        ),
        Claim(
            "Acceleration is effective where Q is much smaller than LD, which minibatches bring about (section 7.1).",
            "After the same number of steps plain RDA's gap is "
            + ", ".join(f"{ratio:.2f} (b = {b})" for b, ratio in ratios.items())
            + " times accelerated RDA's, at the theory's γ.",
            ratios[large] > 2.0 * ratios[small] and ratios[large] > 1.0,
        ),
        Claim(
            "With N rows to spend, minibatches up to b* cost accelerated RDA nothing: "
            f"{_crossing(here, sizes.rows):.0f} for N = {sizes.rows:,} (from Corollary 7).",
            f"Accelerated RDA's gap after N rows: {costs(free)}; {costs(large)}.",
            cost(ACCELERATED, found.theory, free) < 1.25,
        ),
        Claim(
            "Accelerated RDA keeps the whole of the regularization in every step (section 7.1).",
            f"At b = {large} its subproblem's solution v has {made.inner_nnz} non-zeros, but its output, a mean of all "
            f"v so far, has {made.nnz}; the optimum has {np.count_nonzero(here.optimum)}.",
            None,
            why="The theorem is about the output w, and a weight stays in a mean once it has been in one v: for sparse "
            "weights take v, or the last point of plain RDA.",
        ),
    ]


EXPERIMENT = Experiment(
    name="accelerated-rda",
    title="Accelerated dual averaging and the size of a minibatch",
    paper="Xiao 2010, section 7.1 (its empirical study was left for later)",
    about="Accelerated RDA converges as L/t² + Q/√t: smoothness is forgotten quickly, noise is not. Minibatches make "
    "the noise small. How large may they be before they cost more than they bring, and when is acceleration worth its "
    "name? Logistic regression on two digits, where the optimum is known with a proof, and so is every term of "
    "the theory.",
    data="MNIST's four idx files, plain or gzipped",
    perform=perform,
)
