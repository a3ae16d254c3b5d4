"""`adagrad-motivation`: rare features, learned once by AdaGrad and again and again by a global step (Duchi 2010, 1.2).

Hinge loss, rows z_t = +-e_i that walk through the coordinates cycle after cycle, labels such that x = (1, ..., 1) is
right about all. A coordinate's first gradient moves AdaGrad (eq. 4 with delta = 0) by 1, which is all that it needs.
Online gradient descent with steps 1/sqrt(t) moves coordinate i in cycle tau by 1/sqrt(i + tau d) and suffers (eq. 6)

    sum_tau sum_i [1 - sum_{s < tau} 1/sqrt(i + s d)]_+

Three games: the walk; the walk after e_1 was played until steps are short; the walk along an orthonormal basis, which
takes a full matrix to see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.algorithms import SGD, AdaGrad
from ..core.algorithms.base import Algorithm
from ..core.penalties import Box, L2Ball
from ..core.validation import Array
from ..online import OnlineLearner
from .experiment import Claim, Experiment, Figure, Report, Table
from .looks import look
from .run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

DESCENT, DIAGONAL, FULL = "gradient descent", "AdaGrad, diagonal", "AdaGrad, full matrix"
LOOKS = {DESCENT: "SGD", DIAGONAL: "AdaGrad-FOBOS", FULL: "AdaGrad-RDA"}
ALGORITHMS: dict[str, Algorithm] = {
    DESCENT: SGD(eta=1.0),
    DIAGONAL: AdaGrad(eta=1.0, delta=0.0, update="mirror"),
    FULL: AdaGrad(eta=1.0, delta=0.0, update="mirror", matrix="full"),
}
BARE = "AdaGrad, full matrix, margins as rounded"
SLACK = 1e-9


class Walk(NamedTuple):
    """A game: who plays, how many coordinates, how often e_1 comes first, after which cycles the loss is read."""

    name: str
    d: int
    first: int
    cycles: tuple[int, ...]
    seed: int


def walk(task: Walk) -> list[float]:
    """Return the cumulative loss after each of the task's cycles, from the compiled learner on sparse rows."""
    from scipy.sparse import csr_matrix

    from ..estimators import StreamClassifier

    model = StreamClassifier(ALGORITHMS[task.name], loss="hinge", penalty=Box(-1.0, 1.0), fit_intercept=False)
    rng = np.random.default_rng([task.seed, task.d])
    losses, done = [], 0
    for cycle in task.cycles:
        coordinates = np.tile(np.arange(task.d), cycle - done)
        if not done:
            coordinates = np.concatenate([np.zeros(task.first, np.int64), coordinates])
        signs = rng.choice([-1.0, 1.0], len(coordinates))
        indptr = np.arange(len(coordinates) + 1)
        X = csr_matrix((signs, coordinates, indptr), shape=(len(coordinates), task.d))
        model.partial_fit(X, signs, classes=[-1.0, 1.0])  # the label is the sign of <1, z>
        losses.append(float(model.progressive_loss_ * model.t_))
        done = cycle
    return losses


class Turn(NamedTuple):
    """A game along an orthonormal basis; margins that lack no more than `slack` of 1 are taken for 1."""

    name: str
    d: int
    slack: float
    seed: int


def turned(task: Turn) -> float:
    """Return the cumulative loss of a game along a random orthonormal basis, within the ball of radius sqrt(d).

    Exact arithmetic leaves AdaGrad at margins of exactly 1, where the hinge is flat. Rounded ones of 1 - 1e-16 still
    have the slope -1, and a step of the full length from there is an error: hence the slack.
    """
    rng = np.random.default_rng([task.seed, task.d, 1])
    V = np.linalg.qr(rng.standard_normal((task.d, task.d)))[0].T
    learner = OnlineLearner(ALGORITHMS[task.name], L2Ball(float(np.sqrt(task.d))), dim=task.d)
    total = 0.0
    for _ in range(proposition_cycles(task.d)):
        for v in V:  # the row is +-v and its label +-1: the sign cancels
            lacking = 1.0 - float(v @ learner.point)
            total += max(0.0, lacking)
            learner.update(-v if lacking > task.slack else np.zeros(task.d))
    return total


def equation_6(d: int, cycles: int) -> Array:
    """Return the loss of gradient descent after each cycle, by the paper's formula, truncated at x = 1."""
    x, i = np.zeros(d), np.arange(1, d + 1)
    lost = np.empty(cycles)
    for tau in range(cycles):
        left = np.maximum(1.0 - x, 0.0)
        lost[tau] = left.sum()
        x += (left > 0.0) / np.sqrt(i + tau * d)
    return np.cumsum(lost)


def bound(d: int) -> float:
    """Return Proposition 1's lower bound on what gradient descent suffers."""
    return d + d * float(np.sqrt(d)) / 4


def proposition_cycles(d: int) -> int:
    """Return the cycles of the proposition: the first, and t = 0, ..., T for the least whole T >= sqrt(d) + 1."""
    return int(np.ceil(np.sqrt(d) + 1)) + 2


def perform(run: Run) -> Report:
    """Play the three games."""
    big = 400 if run.quick else 10_000
    sizes = [16, 64, 256] if run.quick else [16, 32, 64, 128, 256, 512, 1024]
    turns = [8, 16] if run.quick else [8, 16, 32, 64]
    marks = tuple(int(c) for c in np.unique(np.geomspace(1, proposition_cycles(big), 12 if run.quick else 30).round()))
    walkers = (DESCENT, DIAGONAL)
    plain = [Walk(name, d, 0, (d // 2 + 4,), run.seed) for d in sizes for name in walkers]
    after = [Walk(name, d, d * d, (2 * d,), run.seed) for d in sizes for name in walkers]
    curves = [Walk(name, big, 0, marks, run.seed) for name in walkers]
    lost = run.map(walk, curves + plain + after, "the walk")
    ends = lost[len(curves) :]
    along = [Turn(name, d, SLACK, run.seed) for d in turns for name in ALGORITHMS]
    bare = [Turn(FULL, d, 0.0, run.seed) for d in turns]
    around = run.map(turned, along + bare, "along a basis")

    walked = {(task.name, task.d): end[-1] for task, end in zip(plain, ends, strict=False)}
    pushed = {(task.name, task.d): end[-1] for task, end in zip(after, ends[len(plain) :], strict=True)}
    rotated = {(task.name, task.d): total for task, total in zip(along, around, strict=False)}
    rotated |= {(BARE, task.d): total for task, total in zip(bare, around[len(along) :], strict=True)}
    curve = dict(zip(walkers, lost, strict=False))
    formula = equation_6(big, big // 3)
    return Report(
        tables=[
            _big(big, marks, curve, formula),
            _over_d("Loss in all, over d", sizes, walked, pushed),
            _turned(turns, rotated),
        ],
        figures=[
            Figure(
                "walk",
                f"Cumulative loss at d = {big:,}",
                "AdaGrad loses 1 per coordinate, in the first cycle, and no more. Gradient descent continues; the "
                "dashed line is what Proposition 1 says it must suffer at least.",
                lambda canvas: _draw_walk(canvas.subplots(), big, marks, curve),
            ),
            Figure(
                "over-d",
                "Loss in all over the number of coordinates",
                "Left, the walk until nobody suffers any more; right, the same after e_1 was played d^2 times, which "
                "only shortens the steps of gradient descent.",
                lambda canvas: _draw_over_d(canvas, sizes, walked, pushed),
                (8.0, 4.0),
            ),
            Figure(
                "basis",
                "The walk along a random orthonormal basis",
                "Loss over the cycles of Proposition 1. The full matrix finds the directions and again suffers 1 for "
                "each; its diagonal does not see them.",
                lambda canvas: _draw_turned(canvas.subplots(), turns, rotated),
            ),
        ],
        claims=_claims(big, marks, curve, formula, sizes, walked, pushed, turns, rotated),
        settings={
            "gradient descent": "SGD(eta=1), steps 1/sqrt(t)",
            "AdaGrad": 'AdaGrad(eta=1, delta=0, update="mirror"), diagonal and full',
            "set": "|x_i| <= 1 for the walk, ||x|| <= sqrt(d) along the basis",
            "margins": f"along the basis, one that lacks no more than {SLACK:g} of 1 is taken for 1",
            "cycles": f"{marks[-1]} at d = {big:,} (T = sqrt(d) + 1); d/2 + 4 for the loss in all, 2d after e_1",
        },
        data="Rows made as in the paper, signs at random.",
    )


# -- tables --------------------------------------------------------------------------------------


def _big(big: int, marks: tuple[int, ...], curve: dict[str, list[float]], formula: Array) -> Table:
    paper = {10_000: (260_000.0, 10_000.0)}.get(big, (None, None))
    rows = [
        (DESCENT, curve[DESCENT][-1], float(formula[marks[-1] - 1]), bound(big), paper[0]),
        (DIAGONAL, curve[DIAGONAL][-1], float(big), None, paper[1]),
    ]
    note = f"After {marks[-1]} cycles. The paper gives 2.6e5 for gradient descent as the least that it can be."
    columns = ("algorithm", "loss", "by the formula", "Proposition 1, at least", "paper")
    return Table(f"Cumulative loss at d = {big:,}", columns, rows, note)


def _over_d(
    title: str, sizes: list[int], walked: dict[tuple[str, int], float], pushed: dict[tuple[str, int], float]
) -> Table:
    rows = [
        (d, walked[DESCENT, d], walked[DIAGONAL, d], bound(d), pushed[DESCENT, d], pushed[DIAGONAL, d]) for d in sizes
    ]
    columns = (
        "d",
        DESCENT,
        DIAGONAL,
        "Proposition 1, at least",
        f"{DESCENT}, e_1 first",
        f"{DIAGONAL}, e_1 first",
    )
    return Table(title, columns, rows)


def _turned(turns: list[int], rotated: dict[tuple[str, int], float]) -> Table:
    names = (*ALGORITHMS, BARE)
    rows = [(d, *(rotated[name, d] for name in names), bound(d)) for d in turns]
    note = (
        f"Margins that lack no more than {SLACK:g} of 1 are taken for 1, as exact arithmetic has them, but for the "
        "column before the last: there a margin of 1 - 1e-16 still brings a step of the full length, and projecting "
        "then takes from the other directions what it overshot."
    )
    return Table("Loss along an orthonormal basis", ("d", *names, "Proposition 1, at least"), rows, note)


# -- claims --------------------------------------------------------------------------------------


def _slope(sizes: list[int], lost: dict[tuple[str, int], float], name: str) -> float:
    """Return the exponent p of loss = c d^p, fitted over the larger half of the sizes."""
    top = sizes[len(sizes) // 2 :] if len(sizes) > 3 else sizes
    return float(np.polyfit(np.log(top), np.log([lost[name, d] for d in top]), 1)[0])


def _claims(
    big: int,
    marks: tuple[int, ...],
    curve: dict[str, list[float]],
    formula: Array,
    sizes: list[int],
    walked: dict[tuple[str, int], float],
    pushed: dict[tuple[str, int], float],
    turns: list[int],
    rotated: dict[tuple[str, int], float],
) -> list[Claim]:
    suffered, adaptive = curve[DESCENT][-1], curve[DIAGONAL][-1]
    plain, far = _slope(sizes, walked, DESCENT), _slope(sizes, pushed, DESCENT)
    below = [d for d in range(1, 41) if equation_6(d, 4 * d + 20)[-1] < bound(d)]
    exact = [rotated[FULL, d] for d in turns]
    predicted = float(formula[marks[-1] - 1])
    return [
        Claim(
            "In 10,000 dimensions AdaGrad suffers d = 10^4 in all, gradient descent at least 2.6e5 (section 1.2).",
            f"At d = {big:,}: AdaGrad {adaptive:,.0f}; gradient descent {suffered:,.0f} after {marks[-1]} cycles, "
            f"{predicted:,.0f} by eq. 6, at least {bound(big):,.0f} by Proposition 1.",
            bool(
                abs(adaptive - big) < 1e-6 * big
                and suffered >= bound(big)
                and abs(suffered - predicted) < 1e-6 * predicted
            ),
        ),
        Claim(
            "Gradient descent's loss is of order d sqrt(d) (Proposition 1: at least d + d sqrt(d)/4 for T >= sqrt(d) + "
            "1).",
            f"The bound holds at every d tried, and is far from tight: walked to the end, the loss grows like "
            f"d^{plain:.2f}, close to d^2/12.",
            bool(all(walked[DESCENT, d] >= bound(d) for d in sizes)),
            "After tau cycles a coordinate has come to about 2 sqrt(tau/d), to 1 after d/4 of them, and lacks a third "
            "in the mean: d coordinates, d/4 cycles, 1/3 each are d^2/12. The proposition counts sqrt(d) cycles only.",
        ),
        Claim(
            "Proposition 1 holds for every d (as stated).",
            f"Eq. 6 computed for d = 1 to 40: at d = {', '.join(map(str, below))} the sum stays below the bound, "
            "whatever T is.",
            None if below else True,
            "For few coordinates the first steps, 1 and 1/sqrt(2), are as long as all the way. The order of growth is "
            "not touched.",
        ),
        Claim(
            "An adversary that first plays e_1 until steps are short makes gradient descent suffer order d^2, while "
            "AdaGrad's regret stays constant per coordinate (section 1.2).",
            f"After d^2 rounds of e_1 gradient descent's loss grows like d^{far:.2f} and is "
            f"{pushed[DESCENT, sizes[-1]]:,.0f} at d = {sizes[-1]:,}, where AdaGrad's is "
            f"{pushed[DIAGONAL, sizes[-1]]:,.0f}.",
            bool(far > 1.9 and all(abs(pushed[DIAGONAL, d] - d) < 1e-6 * d for d in sizes)),
        ),
        Claim(
            "Along an orthonormal basis the full matrix again needs each direction once, while gradient descent's loss "
            "is of order d sqrt(d) (section 1.2, full matrix adaptation).",
            f"The full matrix suffers {', '.join(f'{loss:.4g}' for loss in exact)} at d = "
            f"{', '.join(map(str, turns))}; gradient descent {rotated[DESCENT, turns[-1]]:.4g} and the diagonal "
            f"{rotated[DIAGONAL, turns[-1]]:.4g} at d = {turns[-1]}.",
            bool(
                all(abs(loss - d) < 1e-6 * d for loss, d in zip(exact, turns, strict=True))
                and all(rotated[DESCENT, d] >= bound(d) for d in turns)
            ),
        ),
    ]


# -- figures -------------------------------------------------------------------------------------


def _draw_walk(axes: Axes, big: int, marks: tuple[int, ...], curve: dict[str, list[float]]) -> None:
    for name, lost in curve.items():
        axes.plot(marks, lost, label=name, **look(LOOKS[name]))
    axes.axhline(bound(big), linestyle="--", label="Proposition 1: at least", **look("bound"))
    axes.set(xscale="log", yscale="log", xlabel="cycles through all coordinates", ylabel="cumulative hinge loss")
    axes.legend()


def _draw_over_d(
    canvas: Canvas, sizes: list[int], walked: dict[tuple[str, int], float], pushed: dict[tuple[str, int], float]
) -> None:
    panes = canvas.subplots(1, 2, sharey=True)
    for axes, lost, title in zip(panes, (walked, pushed), ("The walk", "$e_1$ first, $d^2$ times"), strict=True):
        for name in (DESCENT, DIAGONAL):
            axes.plot(sizes, [lost[name, d] for d in sizes], label=name, **look(LOOKS[name]))
        axes.plot(sizes, [bound(d) for d in sizes], linestyle="--", label="Proposition 1: at least", **look("bound"))
        axes.set(xscale="log", yscale="log", xlabel="coordinates d", title=title)
    panes[0].set_ylabel("loss in all")
    panes[0].legend(loc="upper left")


def _draw_turned(axes: Axes, turns: list[int], rotated: dict[tuple[str, int], float]) -> None:
    for name in ALGORITHMS:
        axes.plot(turns, [rotated[name, d] for d in turns], label=name, **look(LOOKS[name]))
    axes.plot(turns, [bound(d) for d in turns], linestyle="--", label="Proposition 1: at least", **look("bound"))
    axes.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="loss in all")
    axes.set_xticks(turns, [str(d) for d in turns])
    axes.minorticks_off()
    axes.legend()


EXPERIMENT = Experiment(
    name="adagrad-motivation",
    title="What a separate step size does for a rare feature",
    paper="Duchi, Hazan and Singer 2010, section 1.2",
    about=(
        "Every row has one feature, and each feature comes once a cycle. A method with one step size for all has worn "
        "it out by the time a feature comes; AdaGrad gives each its own, and learns each from its first row. The "
        "second game wears the common step out beforehand; the third hides the features in a rotation, which the full "
        "matrix undoes."
    ),
    data=None,
    perform=perform,
)
