"""What a loss is, the registry of losses by name, and `get`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from numbers import Real
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from proxstream.core.losses.numerics import Floats
from proxstream.core.records import NamedTuple

Kind = Literal["binary", "regression", "multiclass", "ranking"]
Link = Literal["identity", "log", "logit"]


class Sides(NamedTuple):
    """A loss of straight pieces, with kinks or with corners rounded by e > 0:

        phi(p, y) = max over 0 <= beta_k <= h_k of  sum_k beta_k (c_k - sigma_k p) - (e/2) beta_k^2 - o (y - p)

    sigma, c and h are arrays (sides, labels).
    """

    sigma: Any
    c: Any
    h: Any
    o: float
    e: float = 0.0


class Loss(ABC):
    """A convex loss phi(p, y) of a prediction p and a label y.

    A loss is immutable; calling it makes one with other parameters (those not given have their defaults). Its
    `str` is what `get` reads back. All methods broadcast over arrays, take the prediction first, and keep
    float32 where all arguments are float32.

    >>> from proxstream import losses
    >>> losses.huber(0.5)
    Huber(delta=0.5)
    >>> str(losses.huber(0.5)), str(losses.logistic)
    ('huber(delta=0.5)', 'logistic')
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    labels: ClassVar[str]  # the labels that are accepted, in words
    link: ClassVar[Link | None] = None  # what a score is of the mean label: itself, its logarithm, its log odds
    has_conjugate: ClassVar[bool] = True  # without one there are no dual solvers and no certificates
    of_residuals: ClassVar[bool] = False  # a function of p - y: labels and predictions may be shifted together
    under_l1: ClassVar[bool] = True  # a smooth loss on whose quadratic models the l1 solver can rely

    def __call__(self, *args: Any, **kwargs: Any) -> Self:
        """Make a loss of the same kind with these parameters."""
        return type(self)(*args, **kwargs)

    def __str__(self) -> str:
        values = ", ".join(f"{f}={getattr(self, f)!r}" for f in parameters(self))
        return f"{self.name}({values})" if values else self.name

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """The least L with |slope(p, y) - slope(q, y)| <= L |p - q|; inf if there is none."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """The least G with |slope(p, y)| <= G, over all labels accepted; inf if there is none."""

    @abstractmethod
    def value(self, p: Floats, y: Floats) -> Floats:
        """phi(p, y)."""

    @abstractmethod
    def slope(self, p: Floats, y: Floats) -> Floats:
        """The derivative of phi(., y) at p; at a kink the subgradient that the class names."""

    @abstractmethod
    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """phi*(a, y) = sup_p a p - phi(p, y); +inf outside its domain."""

    @abstractmethod
    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """The slope s of phi at the point p' that solves p' = p - c s, for c >= 0.

        p' = argmin_q c phi(q, y) + (q - p)^2 / 2, and s is the subgradient that proves it. At c = 0 every
        subgradient at p would do; s is then the limit from c > 0, the subgradient of least norm.
        """

    def dual_step(self, p: Floats, y: Floats, alpha: Floats, c: Floats) -> Floats:
        """The delta that maximizes -phi*(-(alpha + delta), y) - delta p - (c/2) delta^2, for c >= 0.

        With c = ||x||^2 / (lambda n) this is Option I of Prox-SDCA. Put s = -(alpha + delta): up to a
        constant the function is s (p - c alpha) - phi*(s, y) - (c/2) s^2, and s maximizes it exactly when
        it is a slope of phi at (p - c alpha) - c s. That is `implicit_step` (Moreau's decomposition):

            alpha + delta = -implicit_step(p - c alpha, y, c).

        Take the right side itself where the new alpha is wanted: it is in the domain of the conjugate, while
        alpha + delta may round out of it. At c = 0 the new alpha is minus a slope at p, whatever alpha was.
        """
        return -alpha - self.implicit_step(p - c * alpha, y, c)

    # ---- what a loss can do, and what scores mean

    @property
    def smooth(self) -> bool:
        """Whether phi has a slope everywhere and a second derivative almost everywhere."""
        return type(self).curvature is not Loss.curvature

    @property
    def variance_power(self) -> float | None:
        """The power of the mean that the variance grows with, of a loss with a log link: it takes offsets."""
        return None

    @property
    def has_sides(self) -> bool:
        """Whether `sides` describes phi."""
        return type(self).sides is not Loss.sides

    @property
    def piecewise_linear(self) -> bool:
        """Whether phi is straight between kinks and `sides` describes it."""
        return self.has_sides and not self.smooth

    @property
    def has_probabilities(self) -> bool:
        """Whether scores give probabilities of classes."""
        return type(self).probabilities is not Loss.probabilities

    def curvature(self, p: Floats, y: Floats) -> Floats:
        """The second derivative of phi(., y) at p; where it jumps, a value between its two sides."""
        raise TypeError(f"{self} has no second derivative")

    def _taylor(self, p: float, y: float) -> tuple[float, float, float]:
        """Value, slope and curvature of one number; a loss whose three share an exponential overrides it."""
        return self.value(p, y), self.slope(p, y), self.curvature(p, y)

    def quadratic_range(self, p: Floats, y: Floats) -> float:
        """How far a prediction may move before the quadratic model of phi at p is of no use."""
        return 3.0

    def sides(self, y: Floats) -> Sides:
        """A loss of straight pieces as a maximum over bounded numbers, for an array of labels."""
        raise TypeError(f"{self} does not consist of straight pieces")

    def mean(self, scores: Any) -> Any:
        """The mean label E[y | x] that scores predict: the scores themselves, or e^score with a log link.

        >>> from proxstream import losses
        >>> float(losses.squared.mean(2.0)), float(losses.poisson.mean(0.0))
        (2.0, 1.0)
        """
        if self.link == "log":
            with np.errstate(over="ignore"):  # the mean is infinite then
                return np.exp(scores)
        if self.link != "identity":
            raise TypeError(f"loss {self} does not predict a mean; available outputs: labels, scores")
        return scores

    def probabilities(self, scores: Any) -> Any:
        """The probabilities of classes that scores predict; a TypeError if the loss has none.

        Binary losses: P(y = +1) of each score of shape (n,); scores of shape (n, k), each of one class against the
        others, give the classes' probabilities, which sum to 1 in each row. Multiclass losses: shape (..., k).
        """
        raise TypeError(f"loss {self} does not give probabilities; available outputs: labels, scores")

    def check_labels(self, y: Any) -> None:
        """Raise a ValueError that names the first label this loss does not accept."""
        labels = _numeric(y, self.name, self.labels)
        _refuse(labels, ~self._accepts(labels), self.name, self.labels)

    @abstractmethod
    def _accepts(self, labels: Any) -> Any:
        """Return for each label of an array whether it is accepted."""


class VectorLoss(Loss):
    """A loss of k scores p[..., k] and an integer label y in 0..k-1.

    `value` and `conjugate` drop the last axis; `slope`, `implicit_step` and `dual_step` (whose alpha has k
    entries) keep it; norms and squares are those of the Euclidean norm. y and c are numbers, or arrays of
    shape p.shape[:-1].
    """

    kind = "multiclass"
    labels = "an integer in 0..k-1"

    def dual_step(self, p: Floats, y: Floats, alpha: Floats, c: Floats) -> Floats:
        """The delta that maximizes -phi*(-(alpha + delta), y) - <delta, p> - (c/2) ||delta||^2."""
        return -alpha - self.implicit_step(p - column(c, p) * alpha, y, c)

    def check_labels(self, y: Any, k: int | None = None) -> None:
        """Raise a ValueError that names the first label this loss does not accept, of k classes if given."""
        accepted = self.labels if k is None else f"an integer in 0..{k - 1}"
        labels = _numeric(y, self.name, accepted)
        ok = self._accepts(labels) & (labels < (math.inf if k is None else k))
        _refuse(labels, ~ok, self.name, accepted)

    def _accepts(self, labels: Any) -> Any:
        return np.isfinite(labels) & (labels >= 0) & (labels == np.floor(labels))


def column(c: Floats, p: Floats) -> Floats:
    """One c for each row of scores, ready to multiply them, in their precision."""
    return np.asarray(c, np.result_type(p, np.float32))[..., None]


LossT = TypeVar("LossT", bound=Loss)

LOSSES: dict[str, Loss] = {}


def register(loss: LossT) -> LossT:
    """Enter a loss, with its default parameters, under its name."""
    LOSSES[loss.name] = loss
    return loss


def names() -> tuple[str, ...]:
    """The names of all losses, as `get` takes them.

    >>> from proxstream import losses
    >>> len(losses.names()), losses.names()[0]
    (16, 'logistic')
    """
    return tuple(LOSSES)


def parameters(loss: Loss) -> tuple[str, ...]:
    """The names of a loss's parameters, in order.

    >>> from proxstream import losses
    >>> losses.parameters(losses.huber)
    ('delta',)
    """
    return tuple(f.name for f in fields(loss))  # type: ignore[arg-type]


def get(loss: Loss | str) -> Loss:
    """A loss from a loss, or from its name with or without parameters.

    >>> from proxstream import losses
    >>> losses.get("logistic"), losses.get("huber(0.5)"), losses.get("quantile(tau=0.9)")
    (Logistic(), Huber(delta=0.5), Quantile(tau=0.9))
    >>> losses.get(losses.hinge) is losses.hinge
    True
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise TypeError(f"loss must be a Loss or its name, got {loss!r}; the names are {', '.join(LOSSES)}")
    from ..parsing import parse_component  # which knows losses: the import must wait

    made: Loss = parse_component("loss", loss, LOSSES)
    return made


def _numeric(y: Any, name: str, accepted: str) -> Any:
    labels = np.asarray(y)
    if labels.dtype.kind in "biuf":
        return labels
    real = np.array([isinstance(label, Real) for label in labels.ravel()], dtype=bool).reshape(labels.shape)
    _refuse(labels, ~real, name, accepted)
    return labels.astype(np.float64)


def _refuse(labels: Any, bad: Any, name: str, accepted: str) -> None:
    if not np.any(bad):
        return
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    place = "" if not where else f" at index {where[0] if len(where) == 1 else where}"
    raise ValueError(f"a label y of {name} must be {accepted}, got {labels.item(*where)!r}{place}")
