"""OnlineLearner: one algorithm, one penalty, one vector (or matrix) of weights, played round by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core import losses, penalties, validation as _checks
from ..core.algorithms import Algorithm
from ..core.algorithms.base import Example, Point
from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import Array


class OnlineLearner:
    """Play an online algorithm against gradients or examples, in plain NumPy and O(d) a round.

    Each round the learner stands at `point`, meets a loss, and moves. The first point minimizes the algorithm's
    geometry over the penalty's constraint.

    Parameters
    ----------
    algorithm : Algorithm
        Such as RDA(), AdaGrad(), FTRLProximal(), MirrorDescent().
    penalty : Penalty, optional
        Psi, such as L1(0.1) or L2Ball(1.0); None for none.
    dim : int or (int, int)
        Number of weights; (features, classes) for the multiclass losses.

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.FTRLProximal(alpha=0.5), ps.L1(0.01), dim=3)
    >>> round(learner.learn([1.0, 0.0, 2.0], +1, "logistic"), 4)     # learn returns the loss of this example
    0.6931
    >>> learner.point
    array([0.16333333, 0.        , 0.2475    ])
    >>> learner.t
    1
    """

    def __init__(self, algorithm: Algorithm, penalty: Penalty | None = None, *, dim: int | tuple[int, ...]) -> None:
        if not isinstance(algorithm, Algorithm):
            raise TypeError(f"algorithm must be an Algorithm such as RDA(), got {algorithm!r}")
        self.algorithm = algorithm
        self.penalty = penalties.get(penalty)
        self.shape = tuple(_checks.integer("dim", n, low=1) for n in (dim if isinstance(dim, tuple) else (dim,)))
        algorithm.check(self.penalty, self.shape)
        self._at = algorithm.point(algorithm.space.start(self.penalty, self.shape))
        self._state = algorithm.start(self._at)
        self._average = self._at.x
        self._t = 0

    def __repr__(self) -> str:
        return f"OnlineLearner({self.algorithm!r}, {self.penalty!r}, dim={self.shape}, t={self.t})"

    @property
    def point(self) -> Array:
        """The point to play now, x_{t+1}: the one at which the next gradient is asked for."""
        return self._at.x.copy()

    @property
    def output(self) -> Array:
        """The vector to predict with: w_t of accelerated RDA, `point` for all others."""
        return self.algorithm.output(self._state, self._at).copy()

    @property
    def average(self) -> Array:
        """The mean of the points played, x_1 to x_t (x_1 before the first round)."""
        return self._average.copy()

    @property
    def t(self) -> int:
        """Rounds played."""
        return self._t

    def update(self, g: Any, weight: float = 1.0) -> None:
        """Take the gradient of this round's loss at `point` and move.

        A weight c stands for c times the loss and c times the penalty; 0 leaves the learner as it is.
        """
        g, c = _checks.vector("g", g, self.shape).astype(np.float64), _checks.number("weight", weight, low=0.0)
        if c > 0.0:
            with self._refusing():
                self._move(*self.algorithm.step(self._state, self._at, c * g, self.penalty, c))

    def learn(self, z: Any, y: Any, loss: Loss | str, weight: float = 1.0, *, repeated: bool = False) -> float:
        """Take one linear-model example (or the mean of a small batch of rows) and return the loss incurred.

        Parameters
        ----------
        z : array of features, or rows of them
        y : label
            -1/+1 for the binary losses, a number for regression, the class 0..k-1 for multiclass.
        loss : str or Loss
            Such as "logistic" or losses.huber(0.5).
        weight : float
            As for `update`; the loss returned is without it.
        repeated : bool
            Whether the example has been learned before: AutoFTRL learns its rates on new ones only.
        """
        example = self._example(z, y, losses.get(loss))
        return self._learn(example._replace(c=_checks.number("weight", weight, low=0.0), repeated=repeated))

    def _learn(self, example: Example) -> float:
        """Take a checked example, predicted at `point`, and return the loss incurred."""
        with self._refusing():
            incurred = example.mean_loss()
            if example.c > 0.0:
                self._move(*self.algorithm.learn(self._state, self._at, example, self.penalty))
        return incurred

    def _example(self, z: Any, y: Any, loss: Loss) -> Example:
        z = _checks.vector("z", z).astype(np.float64)
        if z.ndim not in (1, 2) or z.shape[-1] != self.shape[0] or len(z) == 0:
            raise ValueError(f"z must be one row or more of {self.shape[0]} features, got shape {z.shape}")
        if (loss.kind == "multiclass") != (len(self.shape) == 2):
            raise ValueError(
                f"{loss!r} takes {'a (features, classes)' if loss.kind == 'multiclass' else 'an integer'} dim, "
                f"got dim={self.shape}"
            )
        y = np.asarray(y)
        if y.shape != z.shape[:-1]:
            raise ValueError(f"y must have one label per row, shape {z.shape[:-1]}, got shape {y.shape}")
        loss.check_labels(y)
        if loss.kind == "multiclass" and int(np.max(y, initial=0)) >= self.shape[1]:
            raise ValueError(f"y must be a class in 0..{self.shape[1] - 1}, got {int(np.max(y))}")
        return Example(z, y, loss, z @ self._at.x)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Let a step that overflows be one error, wherever it is noticed; the learner has not moved then."""
        try:
            with np.errstate(all="ignore"):
                yield
        except _checks.NotFiniteError:
            raise self._overflow() from None

    def _overflow(self) -> FloatingPointError:
        return FloatingPointError(f"the step in round {self._t + 1} overflows: scale the gradients or lower the rate")

    def _move(self, state: Any, at: Point) -> None:
        t = self._t + 1
        average = self._average + (self._at.x - self._average) / t
        points = (at.x,) if at.theta is at.x else at
        if not all(np.isfinite(value).all() for value in (*points, average, *state)):
            raise self._overflow()
        self._state, self._at, self._average, self._t = state, at, average, t

    def state_dict(self) -> dict[str, Array]:
        """Return everything that the learner remembers, as a dict of arrays."""
        own = {f"state.{name}": np.array(value) for name, value in self._state._asdict().items()}
        return {
            "x": self._at.x.copy(),
            "theta": self._at.theta.copy(),
            "average": self._average.copy(),
            "t": np.array(self._t),
            **own,
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on, bit for bit, from a state_dict of a learner with the same algorithm, penalty and dim."""
        expected = OnlineLearner(self.algorithm, self.penalty, dim=self.shape).state_dict()
        grown = {name for name, value in expected.items() if value.size == 0}
        if set(saved) != set(expected):
            raise ValueError(
                f"the state must have the entries {', '.join(sorted(expected))}, got {', '.join(sorted(saved))}"
            )
        arrays = {name: np.array(value) for name, value in saved.items()}
        for name, value in expected.items():
            # What is empty at the start (a matrix not yet needed) may have grown to all pairs of weights.
            accepted = (value.shape, self.shape * 2) if name in grown else (value.shape,)
            if arrays[name].shape not in accepted:
                raise ValueError(
                    f"{name} of the state must have shape {' or '.join(map(str, accepted))}, got {arrays[name].shape}"
                )
        fields = {
            name: arrays[f"state.{name}"] if isinstance(value, np.ndarray) else arrays[f"state.{name}"].item()
            for name, value in self._state._asdict().items()
        }
        self._state = type(self._state)(**fields)
        self._at = Point(arrays["x"], arrays["theta"])
        self._average = arrays["average"]
        self._t = int(arrays["t"])
