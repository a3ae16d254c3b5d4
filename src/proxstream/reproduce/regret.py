"""Every algorithm's regret beneath the bound of its theorem, round by round, in four games.

| game        | losses                                            | penalty      | what theory says of T rounds      |
|-------------|---------------------------------------------------|--------------|-----------------------------------|
| coin flips  | <g_t, x>, random signs in g_t                     | a unit ball  | sqrt(T)                           |
| adversary   | <g_t, x>, g_t across x_t and across g_1:t-1       | a unit ball  | sqrt(T), and at least that        |
| logistic    | the logistic loss of noisy examples               | L1           | sqrt(T), often far from reached   |
| support     | the hinge loss of noisy examples                  | L2           | ln(T): the penalty is strongly    |
| vectors     |                                                   |              | convex                            |

Regret at T is measured against the best x of just these T rounds, computed for each T: in the ball it is
-g_1:T / ||g_1:T||, in the others it is a certified optimum. The bounds are the ones that `Regret.bound` gives, from the
gradients and points of the very game.

The adversary is the classical one behind the lower bound: with g_t orthogonal to x_t nothing is ever won, and with
g_t orthogonal to the sum of all before it that sum grows as sqrt(T), which is what the best x gains.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core import losses
from ..core.algorithms import FTRL, RDA, SGD, AdaGrad, Algorithm, FTRLProximal, MirrorDescent
from ..core.algorithms.rates import SqrtDecay
from ..core.losses import Loss
from ..core.penalties import L1, L2, L2Ball, Penalty
from ..core.validation import Array
from ..online import OnlineLearner, Regret
from .experiment import Cell, Claim, Experiment, Figure, Report, Table
from .looks import look
from .run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

ROUNDS, QUICK_ROUNDS = 4096, 256
DIM = 10


class Opponent(ABC):
    """Who answers a point by a loss and its gradient, and knows the best point in hindsight."""

    penalty: Penalty

    @abstractmethod
    def answer(self, x: Array) -> tuple[Callable[[Array], float], Array]:
        """Return f_t and its gradient at x."""

    @abstractmethod
    def best(self) -> Array:
        """Return the x of least loss and penalty in the rounds so far."""


class CoinFlips(Opponent):
    """Linear losses on the unit ball, with gradients of length 1 and random signs."""

    penalty = L2Ball(1.0)

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.sum = rng, np.zeros(DIM)

    def gradient(self, x: Array) -> Array:
        """Return g_t."""
        return self.rng.choice((-1.0, 1.0), DIM) / math.sqrt(DIM)

    def answer(self, x: Array) -> tuple[Callable[[Array], float], Array]:
        """Return <g_t, .> and g_t."""
        g = self.gradient(x)
        self.sum += g
        return partial(_linear, g), g

    def best(self) -> Array:
        """Return the point of the sphere opposite to the sum."""
        return np.asarray(-self.sum / np.linalg.norm(self.sum))


class Adversary(CoinFlips):
    """Gradients of length 1 orthogonal to the point and to all of the past's sum, else random."""

    def gradient(self, x: Array) -> Array:
        """Return g_t."""
        across, _ = np.linalg.qr(np.column_stack((x, self.sum, self.rng.normal(size=DIM))))
        return np.asarray(across[:, 2])


class Examples(Opponent):
    """A linear model's loss on rows of length 1; three features matter and one label in ten is wrong."""

    loss: Loss

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.rows: list[Array] = []
        self.labels: list[float] = []
        self.truth = np.concatenate(([3.0, -2.0, 1.0], np.zeros(DIM - 3)))

    def answer(self, x: Array) -> tuple[Callable[[Array], float], Array]:
        """Return the loss of a new example and its gradient."""
        z = self.rng.normal(size=DIM)
        z /= np.linalg.norm(z)
        y = (1.0 if z @ self.truth > 0.0 else -1.0) * (-1.0 if self.rng.random() < 0.1 else 1.0)
        self.rows.append(z)
        self.labels.append(y)
        return partial(_loss_of, self.loss, z, y), float(self.loss.slope(z @ x, y)) * z

    def best(self) -> Array:
        """Return the certified optimum of the rows so far; while all labels agree, no matter which point."""
        from ..estimators import CertifiedClassifier

        if len(set(self.labels)) == 1:
            return np.zeros(DIM)
        model = CertifiedClassifier(self.loss, self.penalty, tol=1e-7, fit_intercept=False, random_state=0)
        return np.asarray(model.fit(np.array(self.rows), np.array(self.labels)).coef_[0])


class Logistic(Examples):
    """The logistic loss, and an l1 penalty."""

    loss, penalty = losses.logistic, L1(0.02)


class SupportVectors(Examples):
    """The hinge loss, and a squared l2 penalty: strongly convex."""

    loss, penalty = losses.hinge, L2(0.1)


def _linear(g: Array, x: Array) -> float:
    return float(g @ x)


def _loss_of(loss: Loss, z: Array, y: float, x: Array) -> float:
    return float(loss.value(z @ x, y))


def general(radius: float) -> dict[str, Algorithm]:
    """Return the algorithms for any convex losses, at the rates that their bounds like best.

    Gradients have length 1, and comparators are about `radius` away. RDA: gamma = G/D with D^2 = radius^2/2.
    """
    return {
        "RDA": RDA(gamma=math.sqrt(2.0) / radius),
        "RDA enhanced": RDA(gamma=math.sqrt(2.0) / radius, rho=0.05),
        "FTRL": FTRL(SqrtDecay(radius / math.sqrt(2.0), offset=1.0)),
        "FTRL-Proximal": FTRLProximal(alpha=radius, beta=1.0),
        "FOBOS": MirrorDescent(eta=math.sqrt(2.0) * radius),
        "SGD": SGD(eta=math.sqrt(2.0) * radius),
        "AdaGrad-RDA": AdaGrad(eta=radius, delta=1.0),
        "AdaGrad-FOBOS": AdaGrad(eta=radius / math.sqrt(2.0), delta=0.1, update="mirror"),
    }


def strongly_convex(modulus: float) -> dict[str, Algorithm]:
    """Return the algorithms that live on the penalty's curvature."""
    return {
        "RDA, β = 0": RDA(schedule="zero"),
        "RDA, β ~ ln t": RDA(gamma=modulus, schedule="log"),
        "SGD, 1/t": SGD(eta=1.0 / modulus, schedule="linear"),
        "AdaGrad-FOBOS, no root": AdaGrad(eta=1.0 / modulus, delta=1.0, update="mirror", strongly_convex=True),
    }


class Game(NamedTuple):
    """An opponent, and who plays against it."""

    title: str
    opponent: type[CoinFlips] | type[Logistic] | type[SupportVectors]
    algorithms: Mapping[str, Algorithm]
    logarithmic: bool = False


GAMES = {
    "coin-flips": Game("Coin flips in the unit ball", CoinFlips, general(1.0)),
    "adversary": Game("An adversary in the unit ball", Adversary, general(1.0)),
    "logistic": Game("Logistic loss with L1", Logistic, general(4.0)),
    "support-vectors": Game("Hinge loss with L2", SupportVectors, strongly_convex(0.1), logarithmic=True),
}


class Course(NamedTuple):
    """One algorithm in one game: at each horizon its regrets against the best point of that horizon, and the bound."""

    horizons: Array
    regret: Array
    linearized: Array
    bound: Array
    theorem: str
    closest: float  # the largest linearized regret over bound, at any round, against the last comparator

    @property
    def slope(self) -> float:
        """Return the regret's slope on doubly logarithmic axes over the last three quarters of the horizons."""
        return _slope(self.horizons, self.regret)

    @property
    def bound_slope(self) -> float:
        """Return the bound's."""
        return _slope(self.horizons, self.bound)


def play(task: tuple[Run, str, str, int]) -> Course:
    """Play one game to its end."""
    run, name, player, rounds = task
    game = GAMES[name]
    opponent = game.opponent(run.generator(list(GAMES).index(name)))
    ledger = Regret(OnlineLearner(game.algorithms[player], opponent.penalty, dim=DIM))
    horizons = 2 ** np.arange(2, round(math.log2(rounds)) + 1)
    found = []
    for horizon in horizons:
        while ledger.t < horizon:
            ledger.play(*opponent.answer(ledger.learner.point))
        best = opponent.best()
        theorem_bound = ledger.bound(best)
        counted = "penalty=True" in theorem_bound.regret
        found.append(
            (ledger.regret(best, penalty=counted), ledger.linearized_regret(best, penalty=counted), theorem_bound.value)
        )
    frame = ledger.frame(best)
    regret, linearized, bound = np.array(found).T
    return Course(
        horizons,
        regret,
        linearized,
        bound,
        theorem_bound.theorem,
        float(np.max(frame["linearized_regret"] / frame["bound"])),
    )


def _slope(t: Array, values: Array) -> float:
    kept = (t >= t[-1] / 2 ** (0.75 * math.log2(t[-1] / t[0]))) & (values > 0.0)
    if np.count_nonzero(kept) < 3:
        return math.nan
    return float(np.polyfit(np.log(t[kept]), np.log(values[kept]), 1)[0])


def perform(run: Run) -> Report:
    """Play all games."""
    rounds = QUICK_ROUNDS if run.quick else ROUNDS
    keys = [(name, player) for name, game in GAMES.items() for player in game.algorithms]
    courses = dict(
        zip(keys, run.map(play, [(run, *key, rounds) for key in keys], "games against each algorithm"), strict=True)
    )
    return Report(
        [_table(name, courses) for name in GAMES],
        [_figure(name, courses) for name in GAMES],
        _claims(courses),
        {
            "rounds": f"{rounds:,}, regret measured at {', '.join(str(h) for h in courses[keys[0]].horizons)}",
            "weights": f"{DIM}",
            "comparator": "the best point of the rounds up to each horizon, in closed form or by CertifiedClassifier",
            "rates": "the ones that the bounds like best for gradients of length 1 and comparators about 1 away "
            "(logistic: 4 away; hinge: the penalty's modulus, 0.1)",
        },
        f"Generated: four games of {rounds:,} rounds.",
    )


def _table(name: str, courses: Mapping[tuple[str, str], Course]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for player in GAMES[name].algorithms:
        course = courses[name, player]
        regret, bound = course.regret[-1], course.bound[-1]
        rows.append(
            (
                player,
                f"{regret:.2f}",
                f"{course.linearized[-1]:.2f}",
                f"{bound:.2f}",
                f"{course.linearized[-1] / bound:.0%}",
                f"{course.slope:.2f}",
                f"{course.bound_slope:.2f}",
                course.theorem,
            )
        )
    return Table(
        f"{GAMES[name].title}, {courses[name, player].horizons[-1]:,} rounds",
        ("algorithm", "regret", "linearized", "bound", "of the bound", "slope", "bound's slope", "theorem"),
        rows,
        note="Slopes are on doubly logarithmic axes: 0.5 is sqrt(T), and ln T falls slowly towards 0. The bound is on "
        "the linearized regret, which is never below the regret.",
    )


def _figure(name: str, courses: Mapping[tuple[str, str], Course]) -> Figure:
    game = GAMES[name]
    rows = math.ceil(len(game.algorithms) / 4)
    return Figure(
        name,
        f"{game.title}: regret beneath its bound",
        "Filled: regret against the best point of the first T rounds. Thin: the linearized regret. Dashed: the bound. "
        + ("The axis of T alone is logarithmic: ln T is a straight line." if game.logarithmic else "Dotted: sqrt(T)."),
        partial(_draw, game, {player: courses[name, player] for player in game.algorithms}),
        (8.0, 0.5 + 2.2 * rows),
    )


def _draw(game: Game, courses: Mapping[str, Course], canvas: Canvas) -> None:
    rows = math.ceil(len(courses) / 4)
    axes = canvas.subplots(rows, 4, squeeze=False, sharex=True, sharey=True)
    for panel, (player, course) in zip(axes.ravel(), courses.items(), strict=True):
        drawn = look(player.split(",")[0])
        t, thin = course.horizons, {"color": drawn["color"], "linewidth": 0.9}
        panel.plot(t, _positive(course.regret), **drawn, markersize=4)
        panel.plot(t, _positive(course.linearized), **thin)
        panel.plot(t, course.bound, **thin, linestyle="--")
        panel.set_xscale("log", base=2)
        if not game.logarithmic:
            panel.plot(t, np.sqrt(t), color="#999999", linestyle=":", linewidth=1.0)
            panel.set_yscale("log", base=2)
            panel.text(0.04, 0.93, f"slope {course.slope:.2f}", transform=panel.transAxes, va="top", fontsize=8)
        panel.set_title(player, fontsize=9)
        panel.tick_params(labelsize=7)
    for panel in axes[:, 0]:
        panel.set_ylabel("regret")
    for panel in axes[-1]:
        panel.set_xlabel("rounds T")


def _positive(values: Array) -> Array:
    """Return the values with gaps where a logarithm has none."""
    return np.where(values > 0.0, values, np.nan)


def _claims(courses: Mapping[tuple[str, str], Course]) -> Sequence[Claim]:
    ratios = {key: max(float(np.max(c.linearized / c.bound)), c.closest) for key, c in courses.items()}
    closest = max(ratios, key=lambda key: ratios[key])
    forced = {player: courses["adversary", player] for player in GAMES["adversary"].algorithms}
    rounds = int(next(iter(forced.values())).horizons[-1])
    friendly = {player: courses["logistic", player] for player in GAMES["logistic"].algorithms}
    steep = [player for player, course in friendly.items() if course.slope > 0.5]
    curved = {player: courses["support-vectors", player] for player in GAMES["support-vectors"].algorithms}
    growth = [(c.regret[-1] - c.regret[-3]) / max(c.regret[-3] - c.regret[-5], 1e-12) for c in curved.values()]
    return [
        Claim(
            "No game exceeds the bound of its theorem (Xiao, Theorem 1 and Corollary 2; Duchi et al., Theorems 6 and "
            "13; McMahan, Theorems 1, 2, 10 and 12).",
            f"In {len(courses)} games the linearized regret came to at most {ratios[closest]:.1%} of its bound "
            f"({closest[1]} in the game “{GAMES[closest[0]].title}”). Where descent is unconstrained, "
            "Theorem 12 leaves next to nothing on the table: it has the distances to all points played in it.",
            ratios[closest] <= 1.0,
        ),
        Claim(
            "sqrt(T) cannot be improved: some opponent forces it on every algorithm.",
            f"The adversary made each algorithm's regret {min(c.regret[-1] for c in forced.values()):.2f} to "
            f"{max(c.regret[-1] for c in forced.values()):.2f} after {rounds:,} rounds, where sqrt(T) = "
            f"{math.sqrt(rounds):.2f}; slopes {_span(c.slope for c in forced.values())}.",
            all(abs(c.regret[-1] / math.sqrt(rounds) - 1.0) < 1e-6 for c in forced.values()),
        ),
        Claim(
            "sqrt(T) is the worst case: stochastic examples do not force it.",
            f"With the logistic loss and L1, slopes are {_span(c.slope for c in friendly.values())}: "
            + ", ".join(f"{player} {course.slope:.2f}" for player, course in friendly.items())
            + ".",
            True if not steep else None,
            why=""
            if not steep
            else f"Steeper than 1/2 in these rounds: {', '.join(steep)}. A guess, not tried: AdaGrad divides by "
            "the root of the squares that it has seen, small ones here, so that its steps are longer than the others'. "
            "Its regret is beneath its bound all the same.",
        ),
        Claim(
            "With a strongly convex penalty regret grows as ln T (Xiao, section 3.2; Duchi et al., Theorem 13).",
            "Over the last two doublings of T regret grew by "
            + ", ".join(f"{value:.2f}" for value in growth)
            + " times as much as over the two before ("
            + "; ".join(curved)
            + "): ln T would give 1, sqrt(T) 2.",
            all(value < 1.5 for value in growth),
        ),
    ]


def _span(values: object) -> str:
    numbers = list(values)  # type: ignore[call-overload]
    return f"{min(numbers):.2f} to {max(numbers):.2f}"


EXPERIMENT = Experiment(
    name="regret",
    title="Regret stays beneath its bound",
    paper="Xiao 2010, section 3; McMahan 2017; Duchi, Hazan and Singer 2010",
    about="Eight algorithms play against coin flips, against an adversary that forces the worst case, and against "
    "noisy examples; four more live on the curvature of a strongly convex penalty. Each game's regret, against the "
    "best fixed point of its rounds, is drawn beneath the bound of the theorem that covers it.",
    data=None,
    perform=perform,
)
