"""Tasks ready for `StructuredSDCA`: classes, and chains of labels. They are also patterns for a task of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import validation as _checks
from ..core.validation import Array


class Multiclass:
    """One of k classes for a vector x: the weights are a matrix (features, classes), row by row.

    The objective of `StructuredSDCA` is then that of multiclass_hinge with L2 and without intercept.

    Parameters
    ----------
    n_features : length of x
    n_classes : number of classes, encoded as 0, 1, ..., n_classes - 1

    >>> import numpy as np
    >>> task = Multiclass(n_features=2, n_classes=3)
    >>> task.features(np.array([5.0, 7.0]), 1)
    array([0., 5., 0., 0., 7., 0.])
    >>> task.argmax(np.array([1.0, 0.0, 0.5, 0.0, 0.0, 0.0]), np.array([1.0, 1.0]), 0)
    2

    Reference: Crammer and Singer (2001), On the algorithmic implementation of multiclass kernel-based vector machines.
    """

    def __init__(self, n_features: int, n_classes: int) -> None:
        self.n_features = _checks.integer("n_features", n_features, low=1)
        self.n_classes = _checks.integer("n_classes", n_classes, low=2)

    @property
    def dim(self) -> int:
        """The number of weights."""
        return self.n_features * self.n_classes

    def features(self, x: Any, y: int) -> Array:
        """Return x in the column of class y."""
        joint = np.zeros((self.n_features, self.n_classes))
        joint[:, _label("a class", y, self.n_classes)] = x
        return joint.ravel()

    def loss(self, y: int, y2: int) -> float:
        """Return 0 for the right class, else 1."""
        return float(y != y2)

    def argmax(self, w: Array, x: Any, y: int | None = None) -> int:
        """Return the class of the best score; if y is given, 1 is added to the scores of all others."""
        scores = np.asarray(x @ w.reshape(self.n_features, self.n_classes), dtype=np.float64)
        if y is not None:
            scores += 1.0
            scores[y] -= 1.0
        return int(np.argmax(scores))


class Chain:
    """A label for each place of a sequence: a score for a label at its place, and one for two labels in a row.

    The input x is a matrix with a row of features a place, the output a sequence of as many labels. The weights are a
    matrix (features, labels), row by row, and after it one of steps from label to label, (labels, labels).

    Parameters
    ----------
    n_features : features of a place
    n_labels : number of labels, encoded as 0, 1, ..., n_labels - 1

    The loss is the number of wrong labels, and argmax is Viterbi's algorithm.

    >>> import numpy as np
    >>> task = Chain(n_features=1, n_labels=2)
    >>> task.features(np.array([[1.0], [4.0], [9.0]]), [0, 1, 1])
    array([ 1., 13.,  0.,  1.,  0.,  1.])
    >>> likes_to_stay = np.array([-1.0, 1.0, 3.0, 0.0, 0.0, 3.0])
    >>> task.argmax(likes_to_stay, np.array([[1.0], [-1.0], [2.0]]))
    array([1, 1, 1])

    Reference: Viterbi (1967), Error bounds for convolutional codes; Taskar, Guestrin and Koller (2003), Max-margin
    Markov networks.
    """

    def __init__(self, n_features: int, n_labels: int) -> None:
        self.n_features = _checks.integer("n_features", n_features, low=1)
        self.n_labels = _checks.integer("n_labels", n_labels, low=2)

    @property
    def dim(self) -> int:
        """The number of weights."""
        return (self.n_features + self.n_labels) * self.n_labels

    def features(self, x: Any, y: Any) -> Array:
        """Return the sum of the features of each label's places, and how often each label follows each."""
        k = self.n_labels
        labels = np.array([_label("a label", label, k) for label in y], dtype=np.intp)
        if len(labels) != len(x):
            raise ValueError(f"there must be one label per place, {len(x)}, got {len(labels)}")
        joint = np.zeros((self.n_features + k, k))
        np.add.at(joint[: self.n_features].T, labels, x)
        np.add.at(joint[self.n_features :], (labels[:-1], labels[1:]), 1.0)
        return joint.ravel()

    def loss(self, y: Any, y2: Any) -> float:
        """Return the number of wrong labels."""
        return float(np.count_nonzero(np.asarray(y) != np.asarray(y2)))

    def argmax(self, w: Array, x: Any, y: Any = None) -> Array:
        """Return the labels of the best score; if y is given, each label other than y's adds 1."""
        weights = w.reshape(-1, self.n_labels)
        scores = np.asarray(x @ weights[: self.n_features], dtype=np.float64)
        if y is not None:
            scores += 1.0
            scores[np.arange(len(scores)), np.asarray(y, dtype=np.intp)] -= 1.0
        return viterbi(scores, weights[self.n_features :])


def _label(name: str, y: Any, k: int) -> int:
    """Return a label after checking that it is one of 0..k-1; a negative index would mean another label."""
    if isinstance(y, (bool, np.bool_)) or not isinstance(y, (int, np.integer, float, np.floating)) or y != y // 1:
        raise ValueError(f"{name} must be an integer in 0..{k - 1}, got {y!r}")
    if not 0 <= y < k:
        raise ValueError(f"{name} must be an integer in 0..{k - 1}, got {y!r}")
    return int(y)


def viterbi(scores: Array, steps: Array) -> Array:
    """Return the labels y of the largest sum_t scores[t, y_t] + sum_t steps[y_t, y_t+1].

    >>> viterbi(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[3.0, 0.0], [0.0, 1.0]]))
    array([0, 0])
    """
    if len(scores) == 0:
        return np.empty(0, dtype=np.intp)
    best = scores[0]
    came_from = np.zeros(scores.shape, dtype=np.intp)
    for t in range(1, len(scores)):
        through = best[:, None] + steps
        came_from[t] = np.argmax(through, axis=0)
        best = scores[t] + np.max(through, axis=0)
    path = np.empty(len(scores), dtype=np.intp)
    path[-1] = np.argmax(best)
    for t in range(len(scores) - 1, 0, -1):
        path[t - 1] = came_from[t, path[t]]
    return path
