"""Contests: several methods over the same rows, each at the rate that made the fewest mistakes.

The experiments of Duchi, Hazan and Singer (section 7) are all of one kind. A method has one number to choose: the step
eta of dual averaging and FOBOS, the aggressiveness C = 1/lambda of PA, the r = lambda of AROW. It is chosen by running
the method once for every rate of a grid and counting the mistakes that it made while it learned; the weights after one
pass then predict rows that were not seen. A predictor is <z, x> without an intercept, and the penalty, if there is
one, is the same for all methods that take one.

| name          | algorithm                              | rate |
|---------------|----------------------------------------|------|
| RDA           | h = sqrt(t) / eta                      | eta  |
| FOBOS         | steps eta / sqrt(t)                    | eta  |
| AdaGrad-RDA   | equation 3, h = (delta + ||g_1:t||)/eta | eta  |
| AdaGrad-FOBOS | equation 4, the same h                 | eta  |
| PA            | PA-I                                   | C    |
| AROW          | diagonal                               | r    |
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.algorithms import AROW, RDA, AdaGrad, Algorithm, MirrorDescent, PassiveAggressive
from ..core.penalties import L1, Penalty
from ..core.validation import Array
from ..data.rowblock import RowBlock
from ..learner.learner import Learner
from ..learner.scale_warning import ScaleWarning

DELTA = 0.01  # small beside the sums of gradients: it only keeps the first steps finite
HALF_DECADE = math.sqrt(10.0)


def _rda(eta: float) -> Algorithm:
    return RDA(gamma=1.0 / eta)


def _fobos(eta: float) -> Algorithm:
    return MirrorDescent(eta=eta)


def _adagrad_rda(eta: float) -> Algorithm:
    return AdaGrad(eta=eta, delta=DELTA)


def _adagrad_fobos(eta: float) -> Algorithm:
    return AdaGrad(eta=eta, delta=DELTA, update="mirror")


def _pa(C: float) -> Algorithm:
    return PassiveAggressive(C=C)


def _arow(r: float) -> Algorithm:
    return AROW(r=r)


@dataclass(frozen=True)
class Method:
    """A method with one rate to choose.

    Parameters
    ----------
    make
        From the rate to the algorithm.
    rates
        Where the search for the best rate begins.
    penalized
        Whether it takes a penalty.
    """

    make: Callable[[float], Algorithm]
    rates: Sequence[float]
    penalized: bool = True


def decades(low: int, high: int) -> tuple[float, ...]:
    """Return two rates per decade, from 10^low to 10^high.

    >>> [round(rate, 3) for rate in decades(-1, 0)]
    [0.1, 0.316, 1.0]
    """
    return tuple(float(10.0 ** (i / 2)) for i in range(2 * low, 2 * high + 1))


METHODS = {
    "RDA": Method(_rda, decades(-2, 1)),
    "FOBOS": Method(_fobos, decades(-2, 1)),
    "AdaGrad-RDA": Method(_adagrad_rda, decades(-3, 0)),
    "AdaGrad-FOBOS": Method(_adagrad_fobos, decades(-3, 0)),
    "PA": Method(_pa, decades(-4, 1), penalized=False),
    "AROW": Method(_arow, decades(0, 3), penalized=False),
}


class Outcome(NamedTuple):
    """One pass: the rate, the share of mistakes while learning, of errors on the test rows, and of weights not 0."""

    rate: float
    online: float
    error: float
    nonzero: float


@dataclass(frozen=True)
class Contest:
    """What all methods of an experiment share: the shape of the model and its loss.

    Parameters
    ----------
    n_features
        Features, each with a weight an output.
    loss
        A name, "hinge" or "multiclass_hinge".
    n_outputs
        Classes of a multiclass loss.
    """

    n_features: int
    loss: str = "hinge"
    n_outputs: int = 1

    def learner(self, method: str, rate: float, penalty: Penalty | None = None) -> Learner:
        """Return a learner that has seen nothing; a method that takes no penalty goes without."""
        how = METHODS[method]
        return Learner(
            how.make(rate),
            self.loss,
            penalty if how.penalized else None,
            n_features=self.n_features,
            n_outputs=self.n_outputs,
            dtype=np.float32,
            fit_intercept=False,
        )

    def mistakes(self, method: str, rate: float, rows: RowBlock, penalty: Penalty | None = None) -> float:
        """Return the share of rows that were predicted wrongly before they were learned; 1 for a run that diverged."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ScaleWarning)  # rates that are too large are tried as well
                scores = self.learner(method, rate, penalty).learn(rows)
        except FloatingPointError:
            return 1.0
        return float(np.mean(wrong(scores, rows.y)))

    def best_rate(
        self, method: str, rows: RowBlock, penalty: Penalty | None = None, rates: Sequence[float] | None = None
    ) -> float:
        """Return the rate with the fewest mistakes in one pass over the rows."""
        return fewest(lambda rate: self.mistakes(method, rate, rows, penalty), rates or METHODS[method].rates)

    def strength(self, method: str, kept: float, rows: RowBlock) -> tuple[float, float]:
        """Return the strength of an l1 penalty with which the method keeps about so large a share, and its rate.

        The one depends on the other: first comes the best rate without a penalty, then the strength at this rate, the
        best rate with it, and the strength at that rate.
        """

        def strength_at(rate: float) -> float:
            def share(strength: float) -> float:
                learner = self.learner(method, rate, L1(strength))
                learner.learn(rows)
                return nonzero(learner)

            return strength_for(share, kept, 1e-6, 1e-1)

        rate = self.best_rate(method, rows, L1(strength_at(self.best_rate(method, rows))))
        return strength_at(rate), rate

    def play(
        self, method: str, rate: float, train: RowBlock, test: RowBlock, penalty: Penalty | None = None
    ) -> Outcome:
        """Learn one pass and judge the weights at its end."""
        learner = self.learner(method, rate, penalty)
        online = float(np.mean(wrong(learner.learn(train), train.y)))
        error = float(np.mean(wrong(learner.predict(test), test.y)))
        return Outcome(rate, online, error, nonzero(learner))


def wrong(scores: Array, y: Array) -> Array:
    """Return which rows are predicted wrongly: a score of 0 is not an answer, of equal scores the first class counts.

    >>> wrong(np.array([2.0, -1.0, 0.0]), np.array([1.0, 1.0, -1.0]))
    array([False,  True,  True])
    """
    if scores.ndim == 2:
        return np.asarray(np.argmax(scores, axis=1) != y)
    return np.asarray(scores * y <= 0.0)


def nonzero(learner: Learner) -> float:
    """Return the share of features with a weight that is not 0 (in any class)."""
    weights = learner.weights()[0]
    used = weights != 0.0
    return float(np.mean(used.any(axis=1) if used.ndim == 2 else used))


def most(count: int, of: int) -> bool | None:
    """Return what becomes of a claim that holds in `count` of some cases: True in all, None in most, else False.

    >>> most(5, 5), most(3, 5), most(2, 5)
    (True, None, False)
    """
    return True if count == of else (None if 2 * count > of else False)


def fewest(count: Callable[[float], float], rates: Sequence[float], further: int = 8) -> float:
    """Return the rate at which `count` is least.

    Rates rise by a constant factor. A best one at an end of the grid extends the grid there, for at most `further`
    more rates, as long as each is better than the one before.

    >>> fewest(lambda rate: abs(rate - 64), [1, 2, 4])
    64.0
    """
    tried = {float(rate): count(float(rate)) for rate in rates}
    factor = float(rates[1]) / float(rates[0]) if len(rates) > 1 else HALF_DECADE
    for _ in range(further):
        best = min(tried, key=lambda rate: tried[rate])
        if best == max(tried):
            beyond = best * factor
        elif best == min(tried):
            beyond = best / factor
        else:
            break
        tried[beyond] = count(beyond)
    return min(tried, key=lambda rate: tried[rate])


def strength_for(share: Callable[[float], float], target: float, low: float, high: float, steps: int = 10) -> float:
    """Return the strength in [low, high] at which the falling function `share` is nearest to `target`, by their ratio.

    The logarithm of the strength is halved `steps` times. Where sums of gradients are whole numbers, as those of 0/1
    features under the hinge are, shares come in steps and the target need not be among them: the nearest one tried
    counts.

    >>> round(strength_for(lambda strength: 0.01 / strength, 0.1, 1e-4, 1e2), 3)
    0.1
    """
    tried: dict[float, float] = {}
    for _ in range(steps):
        middle = math.sqrt(low * high)
        tried[middle] = share(middle)
        if tried[middle] > target:
            low = middle
        else:
            high = middle
    return min(tried, key=lambda strength: abs(math.log(max(tried[strength], 1e-12) / target)))
