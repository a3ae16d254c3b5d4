"""Whether rows come in an order: neighbouring labels that are far more alike than those of shuffled rows.

    V = sum_i |y_{i+1} - y_i|^2  /  2 sum_i |y_i - mean|^2            (von Neumann 1941)

where y_i is a number, or the unit vector of a class: then V is the number of label changes over n - sum_k n_k^2 / n,
with n_k rows of class k. If all orders of the labels are equally likely, two neighbours are any two rows, and numerator
and denominator have the same mean: V is about 1. Runs of m equal labels make it about 1 / m, sorted numbers about 0.

Rows look ordered if V is at most LIMIT. It is looked at after FIRST rows, then whenever their number has doubled, and
at the end, so that rows sorted by class are noticed once the second class has come. With two balanced classes the
chance of 256 shuffled rows to look ordered is below 1e-45, and less with more rows; few rows of one class would have to
follow each other. Rows in the order of time may look ordered as well, and rightly: whether they should be shuffled is
for the user to decide. All sums are kept in a few numbers and run in the order of the rows.

Reference: J. von Neumann, Distribution of the ratio of the mean square successive difference to the variance, 1941.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from ..core.validation import Array
from .sums import add_in_order

FIRST = 256  # rows after which labels are judged first
LIMIT = 1 / 8
ROWS, START, LAST, CHANGES, SUM, SQUARES, REPORTED = range(7)  # places in the sums; labels count from the first one


class OrderWarning(UserWarning):
    """Rows look ordered by their labels: a stream learner ends with a model of the last ones.

    >>> import proxstream as ps
    >>> issubclass(ps.OrderWarning, UserWarning)
    True
    """


class LabelOrder:
    """Watches the labels of a stream.

    Parameters
    ----------
    n_classes : int
        Labels are 0, 1, ..., n_classes - 1; 0: they are numbers, as the labels -1 and 1 of two classes are.

    Examples
    --------
    >>> labels = LabelOrder()
    >>> labels.add(np.repeat([-1.0, 1.0], 200)), labels.rows
    (True, 400)
    >>> round(labels.ratio(), 3)
    0.005
    """

    def __init__(self, n_classes: int = 0) -> None:
        self.arrays = {"sums": np.zeros(7), "counts": np.zeros(n_classes)}

    @property
    def rows(self) -> int:
        """Number of labels."""
        return int(self.arrays["sums"][ROWS])

    def add(self, y: Array) -> bool:
        """Take in the next labels; return whether rows look ordered now, which is said once."""
        found, start = False, 0
        while start < len(y):
            due = max(FIRST, 1 << self.rows.bit_length())
            stop = min(start + due - self.rows, len(y))
            self._add(y[start:stop])
            found = (self.rows == due and self.judge()) or found
            start = stop
        return found

    def judge(self) -> bool:
        """Return whether rows look ordered now, unless that has been said."""
        sums = self.arrays["sums"]
        if sums[REPORTED] or sums[ROWS] < FIRST or not self.ratio() <= LIMIT:
            return False
        sums[REPORTED] = 1.0
        return True

    def _add(self, y: Array) -> None:
        sums, counts = self.arrays["sums"], self.arrays["counts"]
        if sums[ROWS] == 0.0:
            sums[START] = sums[LAST] = y[0]
        changes = np.diff(y, prepend=sums[LAST])
        if len(counts):
            counts += np.bincount(y.astype(np.int64), minlength=len(counts))
            sums[CHANGES] += np.count_nonzero(changes)
        else:
            shifted = y - sums[START]
            with np.errstate(over="ignore"):
                for place, terms in ((CHANGES, changes**2), (SUM, shifted), (SQUARES, shifted**2)):
                    sums[place] = add_in_order(sums[place], terms)
        sums[ROWS] += len(y)
        sums[LAST] = y[-1]

    def ratio(self) -> float:
        """Return V; NaN if all labels are the same."""
        rows, _, _, changes, total, squares, _ = self.arrays["sums"].tolist()
        counts = self.arrays["counts"]
        if len(counts):
            expected = rows - float(counts @ counts) / rows if rows else 0.0
        else:
            expected = 2.0 * (squares - total * total / rows) if rows else 0.0
        return changes / expected if 0.0 < expected < math.inf else math.nan

    def describe(self, advice: str) -> str:
        """Return what was found and what to do, in one line."""
        return (
            f"rows look ordered: after {self.rows:,} rows, neighbouring labels differ {self.ratio():.1%} as much as if "
            f"shuffled, and the model follows the last rows; if their order means nothing, {advice}"
        )


def warn_of_order(labels: LabelOrder, advice: str) -> None:
    """Warn that rows look ordered, at the place where an estimator was called."""
    warnings.warn(labels.describe(advice), OrderWarning, stacklevel=5)
