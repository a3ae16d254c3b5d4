"""What every algorithm is: how it keeps (u, h, k) of the one subproblem (*).

An algorithm is a small immutable description. It owns no data: `start` makes a state, `take` returns the
state after one more gradient, `problem` reads (u, h, k) off a state, and the penalty solves

    x+ = argmin_x  <u, x> + k Psi(x) + (1/2) sum_j h_j x_j^2                                       (*)

States are named tuples of arrays and are replaced, never changed: a step that raises leaves the learner as it was.

Notation, here and in the sibling modules:

| symbol      | meaning                                                          |
|-------------|------------------------------------------------------------------|
| t           | gradients taken so far; the first gradient is t = 1              |
| g           | the gradient at the point just played, times the round's weight  |
| c           | the round's weight: so much penalty comes in with its gradient   |
| u, h, k     | linear term, curvature (inverse rate), penalty so far: see (*)   |
| x, theta    | the point and its mirror coordinates (equal in Euclidean space)  |
| q           | sums of squared gradients, a coordinate or a matrix              |
| eta, alpha  | rates; beta_t = Xiao's weights of R                              |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field
from typing import Any, ClassVar

import numpy as np

from .. import validation as _checks
from ..geometries import Curvature, Euclidean, Geometry, Shape
from ..losses import Loss
from ..penalties import Penalty
from ..records import NamedTuple
from ..validation import Array

EUCLIDEAN = Euclidean()
State = Any  # each algorithm's own named tuple of arrays and counts


class Point(NamedTuple):
    """Where the learner stands: x and its mirror coordinates."""

    x: Array
    theta: Array


class Problem(NamedTuple):
    """The four numbers of (*): linear term, curvature, penalty weight and a further l1 threshold."""

    u: Array
    h: Curvature
    k: float
    l1: float = 0.0


class Example(NamedTuple):
    """One row of a linear model with its label, loss and prediction p = <z, x> (or a small batch of rows).

    repeated: whether it has been learned before.
    """

    z: Array
    y: Any
    loss: Loss
    p: Any
    c: float = 1.0
    repeated: bool = False

    def mean_loss(self) -> float:
        """Return the loss of the prediction, the mean one of a batch, without the weight."""
        return float(np.mean(self.loss.value(self.p, self.y)))

    def gradient(self) -> Array:
        """Return the gradient of the loss in x times its weight, the mean one of a batch."""
        slope = self.c * np.asarray(self.loss.slope(self.p, self.y), dtype=np.float64)
        if self.z.ndim == 2:
            return self.z.T @ slope / len(self.z)
        return np.multiply.outer(self.z, slope)


class Algorithm(ABC):
    """An online algorithm in the scheme of (*): the base class of all algorithms.

    >>> import proxstream as ps
    >>> isinstance(ps.RDA(gamma=2.0), ps.Algorithm)
    True
    """

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # every algorithm is a dataclass

    @property
    def space(self) -> Geometry:
        """The geometry that the algorithm works in."""
        geometry: Geometry = getattr(self, "geometry", EUCLIDEAN)
        return geometry

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Raise where this algorithm has no exact step with `penalty` on weights of this shape."""
        self.space.check(penalty, shape)

    @abstractmethod
    def start(self, at: Point) -> State:
        """Return the state before the first gradient."""

    @abstractmethod
    def take(self, s: State, at: Point, g: Array, c: float) -> State:
        """Return the state after the gradient g, of weight c, at the point `at`."""

    @abstractmethod
    def h(self, s: State) -> Curvature:
        """Return h: what multiplies the geometry now."""

    @abstractmethod
    def problem(self, s: State, at: Point) -> Problem:
        """Return (u, h, k) for the next point, `at` being the last."""

    def step(self, s: State, at: Point, g: Array, penalty: Penalty, c: float = 1.0) -> tuple[State, Point]:
        """Take g and return the new state and the next point."""
        s = self.take(s, at, g, c)
        return s, self.point(self.space.solve(penalty, *self.problem(s, at)))

    def point(self, theta: Array) -> Point:
        """Return the point with these mirror coordinates."""
        return Point(self.space.primal(theta), theta)

    def learn(self, s: State, at: Point, example: Example, penalty: Penalty) -> tuple[State, Point]:
        """Take one example; unless an algorithm needs more of it, its gradient."""
        return self.step(s, at, example.gradient(), penalty, example.c)

    def output(self, s: State, at: Point) -> Array:
        """Return the vector to predict with."""
        return at.x

    def played_gradient(self, g: Array, at: Point, penalty: Penalty, c: float = 1.0) -> Array:
        """Return the gradient that the step is built on (SGD adds the penalty's own)."""
        return g

    def penalty_weight_at(self, t: int) -> float:
        """Return alpha_t, the penalty that comes in with gradient t."""
        return 1.0


class ExampleAlgorithm(Algorithm):
    """An algorithm that needs the whole example: a bare gradient is refused."""

    def take(self, s: State, at: Point, g: Array, c: float) -> State:
        """Refuse."""
        raise self._needs_example()

    def h(self, s: State) -> Curvature:
        """Return 0: there is no single R here."""
        return 0.0

    def problem(self, s: State, at: Point) -> Problem:
        """Refuse."""
        raise self._needs_example()

    def _needs_example(self) -> TypeError:
        return TypeError(
            f"{type(self).__name__} learns from whole examples, not from a bare gradient: "
            "call learn(z, y, loss) in place of update(g)"
        )


SCHEDULES = ("sqrt", "constant", "linear")


def inverse_rate(eta: float, schedule: str, t: int) -> float:
    """Return 1/eta_t of the schedules eta/sqrt(t) "sqrt", eta "constant" and eta/t "linear".

    Before the first gradient it is 1/eta_1, which moves no point.
    """
    t = max(t, 1)
    return (1.0 if schedule == "constant" else t if schedule == "linear" else t**0.5) / eta


def check_rate(algorithm: Any) -> None:
    """Check the two parameters that the gradient-descent algorithms share, eta and schedule."""
    _checks.set_number(algorithm, "eta", low=0.0, strict=True)
    _checks.one_of("schedule", algorithm.schedule, SCHEDULES)
