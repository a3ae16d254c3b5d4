"""Offsets of losses with a log link: the score of a row is <w, x> + b + o, with o given, such as a log exposure.

Let e = exp(o), and q = `loss.variance_power`, the power of the mean that the variance grows with: 1 for Poisson, 2 for
gamma, `power` for Tweedie. Each of these losses satisfies

    phi(p + o, y) = e^(2-q) phi(p, y / e) + const                                                           (1)

so a row with an offset is a row without one that has the label y / e and e^(2-q) times the weight: a rate, weighted by
its exposure.
"""

from __future__ import annotations

import numpy as np

from ..core.losses import Loss
from ..core.losses.base import LOSSES
from ..core.penalties import Penalty
from ..core.records import NamedTuple
from ..core.validation import Array
from .rowblock import RowBlock


class WithoutOffset(NamedTuple):
    """Rows after (1): their labels, the factors of their weights, and the constants."""

    y: Array
    factors: Array
    constants: Array


def absorbed(loss: Loss, y: Array, o: Array) -> WithoutOffset:
    """Return labels and factors of weights by which rows need no offset.

    >>> from proxstream import losses
    >>> rows = absorbed(losses.poisson, np.array([3.0]), np.log([2.0]))
    >>> rows.y, rows.factors.round(12)
    (array([1.5]), array([2.]))
    """
    with np.errstate(over="ignore"):
        rates, factors = y * np.exp(-o), np.exp((2.0 - variance_power(loss)) * o)
    bad = ~(np.isfinite(rates) & np.isfinite(factors) & (factors > 0.0) & ((rates > 0.0) | (y <= 0.0)))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"offset must have an exponential that is a positive finite number, got {o[i]:g} at index {i}")
    constants = loss.value(o, y) - factors * loss.value(np.zeros(len(y)), rates)
    return WithoutOffset(rates, factors, np.asarray(constants))


def absorb_offset(loss: Loss, rows: RowBlock, o: Array) -> RowBlock:
    """Return rows without an offset that are learned as these rows are with it."""
    without = absorbed(loss, rows.y, o)
    return rows._replace(y=without.y, c=rows.weights() * without.factors)


def variance_power(loss: Loss) -> float:
    """Return q of a loss; a ValueError where it takes no offset."""
    if loss.variance_power is None:
        *others, last = (name for name, one in LOSSES.items() if one.variance_power is not None)
        able = f"{', '.join(others)} and {last}"
        raise ValueError(f"offset is for the losses {able}, whose mean is e^score, got {loss}")
    return loss.variance_power


def needs_no_penalty(loss: Loss, penalty: Penalty) -> bool:
    """Return whether a stream learner has to refuse offsets: they act by weights of rows, which multiply a penalty."""
    return variance_power(loss) != 2.0 and not penalty.is_constraint
