"""The data of the demo: a generated click stream with known weights, and learners run on it.

A row has one active value in each of its slots (such as site, device, hour, ad) with uneven frequencies, and a constant
1 in coordinate 0 for the intercept. Few of the values matter; the others are noise that a sparse model should leave at
exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core import losses
from ..core.algorithms import RDA, SGD, AcceleratedRDA, AdaGrad, Algorithm, FTRLProximal, MirrorDescent
from ..core.penalties import L1, Penalty
from ..online import Bound, OnlineLearner, Regret

Array = NDArray[np.float64]

SLOTS, VALUES, INFORMATIVE = 12, 25, 20
FEATURES = SLOTS * VALUES

# The rate among 0.1, 0.2, 0.5, 1, 2, 5 with the lowest progressive loss on the streams of seeds 2, 3 and 4.
CONTEST: dict[str, Algorithm] = {
    "SGD": SGD(eta=1.0),
    "FOBOS": MirrorDescent(eta=1.0),
    "RDA": RDA(gamma=0.2),
    "AdaGrad": AdaGrad(eta=1.0),
    "FTRL-Proximal": FTRLProximal(alpha=0.5),
}


class Clicks(NamedTuple):
    """Rows Z, labels y (+1 for a click) and the weights w that the labels were sampled from."""

    Z: Array
    y: Array
    w: Array

    @property
    def matter(self) -> NDArray[np.intp]:
        """The features whose true weight is not 0, the intercept apart."""
        return 1 + np.flatnonzero(self.w[1:])

    def split(self, rows: int) -> tuple[Clicks, Clicks]:
        """Return the first rows and the others."""
        return Clicks(self.Z[:rows], self.y[:rows], self.w), Clicks(self.Z[rows:], self.y[rows:], self.w)

    def write(self, path: str) -> None:
        """Write the rows as svmlight text, without the intercept's constant."""
        with open(path, "w") as file:
            for z, y in zip(self.Z, self.y, strict=True):
                cells = " ".join(f"{j}:1" for j in 1 + np.flatnonzero(z[1:]))
                file.write(f"{int(y)} {cells}\n")

    def loss(self, x: Array) -> float:
        """Return the mean log loss of the weights x."""
        return float(np.mean(losses.logistic.value(self.Z @ x, self.y)))

    def accuracy(self, x: Array) -> float:
        """Return the share of rows that the weights x classify correctly."""
        return float(np.mean(np.where(self.Z @ x > 0.0, 1.0, -1.0) == self.y))


def make(rows: int, seed: int) -> Clicks:
    """Sample a stream, from uniform numbers only, which are the same in every version of NumPy.

    >>> clicks = make(rows=5, seed=1)
    >>> clicks.Z.shape, clicks.Z.sum(axis=1)                       # 12 values and the intercept
    ((5, 301), array([13., 13., 13., 13., 13.]))
    >>> len(clicks.matter)
    20
    """
    rng = np.random.default_rng(seed)
    w = np.zeros(1 + FEATURES)
    w[0] = -1.5
    common = 1 + (VALUES * np.arange(SLOTS)[:, None] + np.arange(5)).ravel()  # the 5 commonest values of each slot
    matter = common[np.argsort(rng.random(len(common)))[:INFORMATIVE]]
    w[matter] = np.where(rng.random(INFORMATIVE) < 0.5, -1.0, 1.0) * (0.8 + 1.2 * rng.random(INFORMATIVE))
    share = np.cumsum(1.0 / np.arange(1, VALUES + 1) ** 0.8)
    values = np.searchsorted(share / share[-1], rng.random((rows, SLOTS)))
    Z = np.zeros((rows, 1 + FEATURES))
    Z[:, 0] = 1.0
    np.put_along_axis(Z, 1 + VALUES * np.arange(SLOTS) + values, 1.0, axis=1)
    y = np.where(rng.random(rows) * (1.0 + np.exp(-Z @ w)) < 1.0, 1.0, -1.0)
    return Clicks(Z, y, w)


def penalty(lam: float) -> Penalty:
    """Return lam ||w||_1 without the intercept.

    >>> penalty(0.5).value(np.ones(301))
    150.0
    """
    strengths = np.full(1 + FEATURES, lam)
    strengths[0] = 0.0
    return L1(strengths)


def best_in_hindsight(clicks: Clicks, psi: Penalty, passes: int) -> Array:
    """Return the weights of the smallest mean loss + Psi that `passes` exact gradients find."""
    largest = float(np.linalg.eigvalsh(clicks.Z.T @ clicks.Z / len(clicks.Z))[-1])
    algorithm = AcceleratedRDA(gamma=0.0, smoothness=losses.logistic.smoothness * largest)
    learner = OnlineLearner(algorithm, psi, dim=len(clicks.w))
    for _ in range(passes):
        slopes = losses.logistic.slope(clicks.Z @ learner.point, clicks.y)
        learner.update(clicks.Z.T @ slopes / len(clicks.Z))
    return learner.output


def play(ledger: Regret, clicks: Clicks) -> None:
    """Run the learner on the complete stream."""
    for z, y in zip(clicks.Z, clicks.y, strict=True):
        ledger.learn(z, y, losses.logistic)


@dataclass(frozen=True)
class Result:
    """The result of one learner."""

    name: str
    algorithm: str
    progressive: float
    held_out: float
    accuracy: float
    nonzeros: int
    true_found: int
    regret: float
    linearized: float
    bound: Bound


def result(name: str, ledger: Regret, held_out: Clicks, best: Array) -> Result:
    """Measure a finished run."""
    x = ledger.learner.output
    return Result(
        name=name,
        algorithm=code(ledger.learner.algorithm),
        progressive=ledger.loss / ledger.t,
        held_out=held_out.loss(x),
        accuracy=held_out.accuracy(x),
        nonzeros=nonzeros(x[1:]),
        true_found=nonzeros(x[held_out.matter]),
        regret=ledger.regret(best),
        linearized=ledger.linearized_regret(best, penalty=True),
        bound=ledger.bound(best),
    )


def nonzeros(x: Array) -> int:
    """Count the weights that are not exactly 0."""
    return int(np.count_nonzero(x))


def code(algorithm: Algorithm) -> str:
    """Return an algorithm as code: its rate, and parameters that are not at their defaults.

    >>> code(RDA(gamma=1.0)), code(AdaGrad(eta=2.0, update="mirror"))
    ('RDA(gamma=1.0)', "AdaGrad(eta=2.0, update='mirror')")
    """
    rate, *others = fields(algorithm)
    shown = [rate, *(f for f in others if getattr(algorithm, f.name) != f.default)]
    return f"{type(algorithm).__name__}({', '.join(f'{f.name}={getattr(algorithm, f.name)!r}' for f in shown)})"
