"""What AutoFTRL remembers: the state of one scale, and of two that are tried side by side.

With scale="auto" both scales learn the first `TRIAL` examples of weight > 0. Their losses before each example are
summed, and the one with the lower sum plays (at a tie, the scale per feature); after the trial it continues alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..records import NamedTuple
from ..validation import Array

SCALES = ("feature", "global")
TRIAL = 4096  # examples after which scale="auto" keeps the scale with the lower progressive loss
UNDECIDED = -1


class Auto(NamedTuple):
    """What AutoFTRL remembers: three arrays, and numbers that all features share.

    sums: exponent, mantissa (of the product of all s) and count of the features seen, or with one global scale the sum
    and count of squared non-zeros; scale: S, or the global scale; size: sum over rows of 1 + sum_j (x_j/s_j)^2;
    lo, hi: the labels' range with 0; P, G: the units, 0 while unknown.
    """

    z: Array
    r: Array
    s: Array
    a: float
    b: float
    c: float
    squares_a: float
    squares_b: float
    squares_c: float
    recent: Array
    sums: Array
    scale: float
    size: float
    lo: float
    hi: float
    P: float
    G: float
    k: float
    t: int


VECTORS = ("z", "r", "s", "recent", "sums")
NUMBERS = tuple(name for name in Auto._fields if name not in VECTORS)


class AutoTrial(NamedTuple):
    """The states of both scales, first that of `SCALES[0]`; losses: their sums; decision: a place in SCALES, or -1.

    numbers: those of NUMBERS.
    """

    z: Array
    r: Array
    s: Array
    recent: Array
    sums: Array
    numbers: Array
    losses: Array
    decision: int

    @property
    def ahead(self) -> int:
        """Which scale plays."""
        return int(self.losses[1] < self.losses[0]) if self.decision == UNDECIDED else self.decision

    def of_scale(self, i: int) -> Auto:
        """Return the state of one scale."""
        numbers = dict(zip(NUMBERS, self.numbers[i].tolist(), strict=True))
        numbers["t"] = int(numbers["t"])
        return Auto(**{name: getattr(self, name)[i] for name in VECTORS}, **numbers)


def join_scales(states: Sequence[Auto], losses: Array, decision: int) -> AutoTrial:
    """Return the states of both scales as one.

    >>> state = Auto(**dict.fromkeys(VECTORS, np.zeros(3)), **dict.fromkeys(NUMBERS, 0))
    >>> trial = join_scales([state, state._replace(a=0.5)], np.array([2.0, 1.0]), UNDECIDED)
    >>> trial.ahead, trial.of_scale(1).a
    (1, 0.5)
    """
    vectors = {name: np.stack([getattr(state, name) for state in states]) for name in VECTORS}
    numbers = np.array([[getattr(state, name) for name in NUMBERS] for state in states])
    return AutoTrial(**vectors, numbers=numbers, losses=losses, decision=decision)
