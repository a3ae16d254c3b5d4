"""Losses of k scores p[..., k] and an integer label y: softmax and the multiclass hinge.

Both are maxima over the simplex of <b, p> - p_y plus a term in b alone, so their slopes are b - e_y with b
in the simplex: entries >= 0 but for y's, which is minus the sum of the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from proxstream.core.losses.base import VectorLoss, column, register
from proxstream.core.losses.numerics import MOST_STEPS, Floats, clipped, exp_root, inside, project_simplex, xlogx

from ..component import component


@component
class Softmax(VectorLoss):
    """The softmax loss (multinomial logistic), minus the log-likelihood of class y.

    phi(p, y) = log(sum_j e^p_j) - p_y, smooth everywhere. Its Hessian diag(b) - b b' has 2-norm at most
    1/2, reached at b = (1/2, 1/2); its slopes b - e_y have 2-norm below sqrt(2).

    >>> import numpy as np
    >>> from proxstream import losses
    >>> p = np.log([1.0, 2.0, 5.0])
    >>> losses.softmax.probabilities(p), losses.softmax.slope(p, 2)
    (array([0.125, 0.25 , 0.625]), array([ 0.125,  0.25 , -0.375]))

    Reference: Shalev-Shwartz and Zhang (2012), Prox-SDCA, for the dual; Corless et al. (1996), On the
    Lambert W function, for the step.
    """

    name = "softmax"
    link = "logit"
    smooth = True
    smoothness = 0.5
    lipschitz = math.sqrt(2.0)

    def value(self, p: Floats, y: Floats) -> Floats:
        """log(sum_j e^(p_j - p_y)), to full relative accuracy also where it is tiny."""
        d = _less_label(p, _hot(p, y))
        top = np.max(d, axis=-1, keepdims=True)
        rest = np.exp(d - top) * (np.arange(d.shape[-1]) != np.argmax(d, axis=-1)[..., None])
        return top[..., 0] + np.log1p(np.sum(rest, axis=-1))

    def slope(self, p: Floats, y: Floats) -> Floats:
        """b - e_y with b the class probabilities."""
        return _slope_from(self.probabilities(p), _hot(p, y))

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """sum_j b_j log b_j for b = a + e_y in the simplex."""
        hot = _hot(a, y)
        return inside(_in_domain(a, hot), np.sum(xlogx(a + hot), axis=-1))

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """b - e_y with log b_j + c b_j = p_j + c [j = y] - theta, theta such that b sums to 1.

        Each b_j is convex and falling in theta: Newton climbs from a theta where some b_j is 1. The
        entries are accurate to a few roundings of 1 (so p - c s is to a few roundings of c).
        """
        hot = _hot(p, y)
        d = _less_label(p, hot)
        c = column(c, p)
        theta = np.max(np.where(hot, 0.0, d - c), axis=-1, keepdims=True)
        for _ in range(MOST_STEPS):
            b = np.exp(exp_root(np.where(hot, c, d) - theta, c))
            total = np.sum(b, axis=-1, keepdims=True)
            climbed = theta + (total - 1.0) / np.sum(b / (1.0 + c * b), axis=-1, keepdims=True)
            if not np.any(climbed > theta):
                break
            theta = np.maximum(theta, climbed)
        return _slope_from(b / total, hot)

    def probabilities(self, scores: Floats) -> Floats:
        """e^p_j / sum_i e^p_i, the probability of each class."""
        e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)


@component
class MulticlassHinge(VectorLoss):
    """The multiclass hinge loss of Crammer and Singer.

    phi(p, y) = max(0, max_{j != y} 1 + p_j - p_y). Where several j attain the maximum the slope is 0 if the
    loss is 0, else e_j - e_y for the first such j. Slopes have 2-norm at most sqrt(2).

    >>> import numpy as np
    >>> from proxstream import losses
    >>> p = np.array([0.5, 2.0, 1.75])
    >>> float(losses.multiclass_hinge.value(p, 1)), losses.multiclass_hinge.slope(p, 1)
    (0.75, array([ 0., -1.,  1.]))

    Reference: Crammer and Singer (2001), On the algorithmic implementation of multiclass kernel-based vector
    machines; Shalev-Shwartz and Zhang (2012), Prox-SDCA, section 3.3.
    """

    name = "multiclass_hinge"
    smoothness = math.inf
    lipschitz = math.sqrt(2.0)

    def value(self, p: Floats, y: Floats) -> Floats:
        """The largest of 0 and 1 + p_j - p_y, j != y."""
        return np.max(_violations(p, _hot(p, y)), axis=-1)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """e_j - e_y for the j that violates the margin most, 0 if none does."""
        hot = _hot(p, y)
        u = _violations(p, hot)
        worst = np.arange(u.shape[-1]) == np.argmax(u, axis=-1)[..., None]
        return _slope_from((worst & (u > 0.0)).astype(u.dtype), hot)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """a_y for a + e_y in the simplex."""
        hot = _hot(a, y)
        return inside(_in_domain(a, hot), np.sum(a * hot, axis=-1))

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """b - e_y with b the projection onto the simplex of u/c + e_y, u_j = 1 + p_j - p_y and u_y = 0.

        The projection does not depend on a shift of u, nor on an entry that is 2 or more below the largest:
        so u/c is put in [-2, 0], which works for every c, and for c = 0.
        """
        hot = _hot(p, y)
        u = _violations(p, hot)
        z = 2.0 * clipped(u - np.max(u, axis=-1, keepdims=True), 2.0 * column(c, p))
        return _slope_from(project_simplex(z + hot), hot)


def _hot(p: Any, y: Any) -> Any:
    """Where the label's entry is: a mask of p's shape."""
    return np.broadcast_to(np.arange(np.shape(p)[-1]) == np.asarray(y)[..., None], np.shape(p))


def _less_label(p: Any, hot: Any) -> Any:
    """p_j - p_y."""
    return p - np.sum(p * hot, axis=-1, keepdims=True)


def _violations(p: Any, hot: Any) -> Any:
    """1 + p_j - p_y, and 0 for j = y."""
    return np.where(hot, 0.0, 1.0 + _less_label(p, hot))


def _slope_from(b: Any, hot: Any) -> Any:
    """b - e_y for b in the simplex, y's entry as minus the sum of the others, which cancels nothing."""
    others = np.where(hot, 0.0, b)
    return np.where(hot, -np.minimum(np.sum(others, axis=-1, keepdims=True), 1.0), others)


def _in_domain(a: Any, hot: Any) -> Any:
    """Whether a + e_y is in the simplex. A sum of floats is rarely exactly 0: 10^4 roundings are accepted."""
    slack = 1e4 * np.finfo(np.result_type(a)).eps
    return np.all(a + hot >= 0.0, axis=-1) & (np.abs(np.sum(a, axis=-1)) <= slack)


softmax = register(Softmax())
multiclass_hinge = register(MulticlassHinge())
