"""Sums of penalties: which have an exact solver, and the flat list of their parts.

Four roles decide. Light parts (L1, L2, ElasticNet, NonNegative) go with anything but KL: they fold into the
linear term, the curvature or the sign. Separable parts (Berhu, Box) go with light and separable ones.
Coupled parts (norms, balls, the simplex) go with light ones, one at a time. KL goes with none.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import combinations
from operator import add as plus
from typing import Any

from .. import validation as _checks
from ..component import component
from .base import SOLVABLE, Penalty, Terms
from .separable import NoPenalty


@component
class Sum(Penalty):
    """A sum of penalties that keeps an exact solver: what `a + b` gives.

    Psi(w) = sum_i Psi_i(w). The order has no effect, and two sums of the same parts are equal.

    Parameters
    ----------
    summands : the penalties to add; the parts of a sum among them are taken one by one

    >>> from proxstream.core.penalties import L1, L2, NonNegative
    >>> L1(1.0) + L2(2.0) == L2(2.0) + L1(1.0)
    True
    >>> (L1(1.0) + L2(2.0) + NonNegative()).solve([-3.0, 5.0], 1.0)
    array([0.66666667, 0.        ])

    Reference: Duchi, Hazan and Singer (2011), section 6, solves the parts; base.py describes how they fold.
    """

    summands: tuple[Penalty, ...]

    def _validate(self) -> None:
        summands = self.summands if isinstance(self.summands, (tuple, list)) else ()
        if not summands or not all(isinstance(summand, Penalty) for summand in summands):
            raise TypeError(f"summands must be penalties, one or more, got {_checks.shown(self.summands)}")
        self._set("summands", tuple(part for summand in self.summands for part in summand.parts))
        for a, b in combinations(self.summands, 2):
            roles = {a._role, b._role}
            if "alone" in roles or roles in ({"coupled"}, {"coupled", "separable"}):
                raise TypeError(f"{a!r} + {b!r} has no exact solver; {SOLVABLE}")

    @property
    def parts(self) -> tuple[Penalty, ...]:
        """The penalties that this sum consists of."""
        return self.summands

    def scaled(self, c: float) -> Penalty:
        """Return the sum of the scaled parts."""
        return reduce(plus, (part.scaled(c) for part in self.parts))

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """The terms of all parts."""
        return reduce(Terms.join, (part.terms(shape) for part in self.parts))

    def _key(self) -> tuple[Any, ...]:
        return "Sum", frozenset(Counter(self.parts).items())

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


def add(a: Penalty, b: Penalty) -> Penalty:
    """The sum of two penalties, where Psi = 0 leaves no trace."""
    if isinstance(a, NoPenalty):
        return b
    return a if isinstance(b, NoPenalty) else Sum((a, b))
