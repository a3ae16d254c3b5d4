"""Labels of classes, as users write them and as a loss knows them.

Users have texts, booleans or numbers. A loss with one output knows -1 and +1, the second class being +1; one with an
output per class knows the classes' numbers 0, 1, ...; a binary loss with an output per class learns each class against
the rest, with signs +1 and -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.validation import Array


class LabelEncoder:
    """Numbers the labels of some classes, in the order in which the classes are given.

    Parameters
    ----------
    classes : array of different texts, booleans or numbers

    Examples
    --------
    >>> encoder = LabelEncoder(["ham", "spam"])
    >>> numbers = encoder.encode(["spam", "ham", "spam"])
    >>> numbers, encoder.targets(numbers), encoder.decode(numbers).tolist()
    (array([1, 0, 1]), array([ 1., -1.,  1.]), ['spam', 'ham', 'spam'])
    """

    def __init__(self, classes: Any) -> None:
        self.classes_ = np.asarray(classes)
        self._order = np.argsort(self.classes_, kind="stable")
        self._sorted = self.classes_[self._order]

    def find(self, y: Any) -> tuple[Array, Array]:
        """Return the number of each label's class, and whether there is one; unknown labels get any number."""
        y = np.asarray(y)
        at = np.minimum(np.searchsorted(self._sorted, y), len(self._sorted) - 1)
        return self._order[at], np.asarray(self._sorted[at] == y)

    def encode(self, y: Any, hint: str = "") -> Array:
        """Return the number of each label's class; a ValueError names the first label that has none."""
        numbers, known = self.find(y)
        if not known.all():
            i = int(np.argmin(known))
            label, classes = np.asarray(y).tolist()[i], self.classes_.tolist()
            raise ValueError(f"y has the label {label!r} at index {i}, which is none of the classes {classes}{hint}")
        return numbers

    def decode(self, numbers: Array) -> Array:
        """Return the label of each class number."""
        return np.asarray(self.classes_[numbers])

    def targets(self, numbers: Array, n_outputs: int = 1) -> Array:
        """Return class numbers as a loss with so many outputs knows them: -1 and +1 of one output, else themselves."""
        return 2.0 * numbers - 1.0 if n_outputs == 1 else numbers.astype(np.float64)


def one_vs_rest(y: Array, classes: Any) -> Array:
    """Return +1 for rows of a class and -1 for all others: of one class number a vector, of several a column each.

    >>> one_vs_rest(np.array([0, 2]), 2), one_vs_rest(np.array([0, 2]), range(3))[0]
    (array([-1.,  1.]), array([ 1., -1., -1.]))
    """
    return np.where(np.equal.outer(y, np.asarray(classes)), 1.0, -1.0)


def class_weighted(c: Array, numbers: Array, factors: Array | None) -> Array:
    """Return rows' weights (empty: all 1) times the factors of their classes; None leaves them as they are."""
    return c if factors is None else np.asarray(factors[numbers] * (c if len(c) else 1.0))


def text_numbers(loss: Any, classes: Any) -> dict[str, float] | None:
    """Return the numbers that stand for label texts: -1 and 1 for two classes, else 0, 1, ...; None without texts.

    >>> from proxstream import losses
    >>> text_numbers(losses.logistic, ("no", "yes")), text_numbers(losses.softmax, ("a", "b", "c"))
    ({'no': -1.0, 'yes': 1.0}, {'a': 0.0, 'b': 1.0, 'c': 2.0})
    """
    if not classes or not isinstance(classes[0], str):
        return None
    two = len(classes) == 2 and loss.kind == "binary"
    return dict(zip(classes, (-1.0, 1.0) if two else map(float, range(len(classes))), strict=True))
