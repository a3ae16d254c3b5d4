"""Regret: the ledger of a game, and the bound beside it.

For points x_t played, losses f_t with gradients g_t at x_t, a penalty Psi that comes in with weights alpha_t (1 every
round; 1, 0, 0, ... for "once"), and a comparator x:

    regret(x)             sum_t f_t(x_t) - f_t(x)        + alpha_t (Psi(x_t) - Psi(x))
    linearized_regret(x)  sum_t <g_t, x_t - x>           + alpha_t (Psi(x_t) - Psi(x))   with penalty=True

For convex losses the second is never below the first. `bound(x)` is what a theorem promises for one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core import losses, validation as _checks
from ..core.algorithms.base import Point
from ..core.geometries import Curvature
from ..core.losses import Loss
from ..core.validation import Array
from . import bounds
from .bounds import Bound, Observed
from .learner import OnlineLearner


class Round(NamedTuple):
    """What one round leaves behind."""

    f: Callable[[Array], float] | None
    value: float
    psi: float
    at: Point
    g: Array
    played: Array
    h: Curvature


class Regret:
    """Follow a learner's game from its first round: losses, regret against any comparator, and the bound.

    Every round's point, gradient and curvature are kept, so memory grows with rounds times weights (times weights
    once more for full matrices).

    Parameters
    ----------
    learner : OnlineLearner
        Not yet moved. Play through the ledger from then on.
    loss_curvature : float
        Strong convexity of every f_t, where the player can vouch for it: bounds on regret get tighter by
        (loss_curvature / 2) sum_t ||x_t - x||^2.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> ledger = ps.Regret(ps.OnlineLearner(ps.RDA(gamma=1.0), dim=1))
    >>> for c in (1.0, 1.0, -1.0, 1.0):
    ...     x = ledger.learner.point
    ...     ledger.play(lambda x, c=c: abs(x[0] - c), np.sign(x - c))
    >>> round(ledger.regret([1.0]), 3)
    1.707
    >>> value, theorem, which = ledger.bound([1.0])
    >>> round(value, 3), theorem, which
    (3.0, 'Xiao 2010, Corollary 2', 'linearized_regret(x, penalty=True)')
    """

    def __init__(self, learner: OnlineLearner, *, loss_curvature: float = 0.0) -> None:
        if learner.t:
            raise ValueError(f"a ledger follows a game from its start, got a learner with t = {learner.t}")
        self.learner = learner
        self.loss_curvature = _checks.number("loss_curvature", loss_curvature, low=0.0)
        self._rounds: list[Round] = []
        self._seen = self._observer()

    @property
    def t(self) -> int:
        """Rounds played."""
        return len(self._rounds)

    @property
    def loss(self) -> float:
        """The sum of losses incurred, without the penalty."""
        return float(sum(r.value for r in self._rounds))

    def play(self, f: Callable[[Array], float] | float, g: Any) -> None:
        """Play one round: f is the loss, or its value at the point; g is a gradient of it at the point.

        With values in place of functions only the linearized regret is known.
        """
        self._check_turn()
        at = self.learner._at
        value = _checks.number("f", _value(f, at.x) if callable(f) else f)
        g = _checks.vector("g", g, self.learner.shape).astype(np.float64)
        self._record(f if callable(f) else None, value, at, g, lambda: self.learner.update(g))

    def learn(self, z: Any, y: Any, loss: Loss | str) -> float:
        """Play one round of a linear model, f(x) = loss(<z, x>, y), and return the loss incurred."""
        self._check_turn()
        loss = losses.get(loss)
        at = self.learner._at
        example = self.learner._example(z, y, loss)

        def f(x: Array) -> float:
            return float(np.mean(loss.value(example.z @ x, example.y)))

        incurred = example.mean_loss()
        self._record(f, incurred, at, example.gradient(), lambda: self.learner._learn(example))
        return incurred

    def _check_turn(self) -> None:
        if self.learner.t != self.t:
            raise ValueError(
                f"the learner has played {self.learner.t} rounds and the ledger {self.t}: "
                "play through ledger.play or ledger.learn alone"
            )

    def _record(
        self, f: Callable[[Array], float] | None, value: float, at: Point, g: Array, move: Callable[[], Any]
    ) -> None:
        learner = self.learner
        with np.errstate(over="ignore", invalid="ignore"):  # a penalty may be infinite where weights are large
            played = learner.algorithm.played_gradient(g, at, learner.penalty)
            psi = learner.penalty.value(at.x)
        move()  # last of what may raise: learner and ledger stay together
        entry = Round(f, value, psi, at, g, played, learner.algorithm.h(learner._state))
        self._seen.see(at, played, entry.h)
        self._rounds.append(entry)

    def _observer(self) -> Observed:
        learner = self.learner
        first = self._rounds[0].at if self.t else learner._at
        return Observed(learner.algorithm, learner.penalty, first, learner.algorithm.h(learner.algorithm.start(first)))

    def regret(self, x: Any, penalty: bool = True) -> Any:
        """Return sum_t f_t(x_t) - f_t(x), with the penalty's share; an array for an array of comparators."""
        for t, r in enumerate(self._rounds, 1):
            if r.f is None:
                raise ValueError(
                    f"f of round {t} was given by its value: regret needs the function, linearized_regret does not"
                )
        return self._each(x, lambda x: self._total(self._differences(x), x, penalty))

    def linearized_regret(self, x: Any, penalty: bool = False) -> Any:
        """Return sum_t <g_t, x_t - x>, on request with the penalty's share; an array for an array of comparators."""
        return self._each(x, lambda x: self._total(self._linear_differences(x), x, penalty))

    def bound(self, x: Any, penalty: bool = True) -> Bound:
        """Return (value, theorem, regret): the theorem that covers this game, and the call that it bounds.

        Where none does, value is inf, `theorem` begins with "none" and says why, and `regret` is empty. Some theorems
        speak of regret without the penalty alone; penalty=False asks for that of every theorem. In a game whose points
        or gradients are so large that a theorem's sums overflow, value is inf too.
        """
        if not self.t:
            raise ValueError("no round has been played yet")
        x = _checks.vector("x", x, self.learner.shape).astype(np.float64)
        return bounds.bound(self._seen, x, penalty=penalty, loss_curvature=self.loss_curvature)

    def frame(self, x: Any = None) -> dict[str, Array]:
        """Return a column per quantity and a row per round; with a comparator also its regrets and the bound.

        Columns: t, loss, cumulative_loss, penalty, gradient_norm, and with x: linearized_regret, bound and, where
        every f is known, regret. Both regrets count the penalty, unless the theorem behind `bound` leaves it out.
        `pandas.DataFrame(ledger.frame(x))` takes it as it is.
        """
        space, rounds = self.learner.algorithm.space, self._rounds
        values = np.array([r.value for r in rounds])
        columns = {
            "t": np.arange(1, self.t + 1),
            "loss": values,
            "cumulative_loss": np.cumsum(values),
            "penalty": self._weights() * np.array([r.psi for r in rounds]),
            "gradient_norm": np.array([space.dual_norm(r.g, r.at.x) for r in rounds]),
        }
        if x is None:
            return columns
        x = _checks.vector("x", x, self.learner.shape).astype(np.float64)
        values, counted = self._bounds(x)
        penalties = self._penalty_differences(x) if counted else np.zeros(self.t)
        if all(r.f is not None for r in rounds):
            columns["regret"] = np.cumsum(self._differences(x) + penalties)
        columns["linearized_regret"] = np.cumsum(self._linear_differences(x) + penalties)
        columns["bound"] = values
        return columns

    def _bounds(self, x: Array) -> tuple[Array, bool]:
        """Return the bound after each round, and whether it is on regret with the penalty."""
        seen = self._observer()
        found = []
        for r in self._rounds:
            seen.see(r.at, r.played, r.h)
            found.append(bounds.bound(seen, x, loss_curvature=self.loss_curvature))
        return np.array([b.value for b in found]), not any("penalty=False" in b.regret for b in found)

    def _each(self, x: Any, one: Callable[[Array], float]) -> Any:
        shape = self.learner.shape
        x = _checks.vector("x", x).astype(np.float64)
        if x.shape == shape:
            return one(x)
        if x.shape[1:] == shape:
            return np.array([one(row) for row in x])
        raise ValueError(f"x must be a comparator of shape {shape} or an array of them, got shape {x.shape}")

    def _total(self, differences: Array, x: Array, penalty: bool) -> float:
        return float(np.sum(differences + self._penalty_differences(x) if penalty else differences))

    def _differences(self, x: Array) -> Array:
        return np.array([r.value - _value(r.f, x) for r in self._rounds if r.f is not None])

    def _linear_differences(self, x: Array) -> Array:
        return np.array([float(np.vdot(r.g, r.at.x - x)) for r in self._rounds])

    def _weights(self) -> Array:
        return np.array([self.learner.algorithm.penalty_weight_at(t) for t in range(1, self.t + 1)])

    def _penalty_differences(self, x: Array) -> Array:
        psi, weights = np.array([r.psi for r in self._rounds]), self._weights()
        against = self.learner.penalty.value(x)
        return np.where(weights > 0.0, weights * (psi - against), 0.0)


def _value(f: Callable[[Array], Any], x: Array) -> float:
    value = f(x.copy())  # a loss may do what it likes with its argument
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return math.inf if isinstance(value, float) and value == math.inf else _checks.number("f(x)", value)
