"""What a loss is, the registry of losses by name, and `get`."""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from dataclasses import fields
from numbers import Real
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from proxstream.losses.numerics import Floats

Kind = Literal["binary", "regression", "multiclass", "ranking"]


class Loss(ABC):
    """A convex loss phi(p, y) of a prediction p and a label y.

    A loss is immutable; calling it makes one with other parameters (those not told take their defaults). Its
    `str` is what `get` reads back. All methods broadcast over arrays, take the prediction first, and keep
    float32 where everything that comes in is float32.

    >>> from proxstream import losses
    >>> losses.huber(0.5)
    Huber(delta=0.5)
    >>> str(losses.huber(0.5)), str(losses.logistic)
    ('huber(delta=0.5)', 'logistic')
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    labels: ClassVar[str]  # the labels that are accepted, in words

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

    def check_labels(self, y: Any) -> None:
        """Raise a ValueError that names the first label this loss does not accept."""
        labels = _numeric(y, self.name, self.labels)
        _refuse(labels, ~self._accepts(labels), self.name, self.labels)

    @abstractmethod
    def _accepts(self, labels: Any) -> Any:
        """Tell, for each label of an array, whether it is accepted."""


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
        """Raise a ValueError that names the first label this loss does not accept, of k classes if told."""
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

_REGISTRY: dict[str, Loss] = {}


def register(loss: LossT) -> LossT:
    """Enter a loss, with its default parameters, under its name."""
    _REGISTRY[loss.name] = loss
    return loss


def names() -> tuple[str, ...]:
    """The names of all losses, as `get` takes them.

    >>> from proxstream import losses
    >>> len(losses.names()), losses.names()[0]
    (14, 'logistic')
    """
    return tuple(_REGISTRY)


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
        raise TypeError(f"loss must be a Loss or its name, got {loss!r}; the names are {', '.join(_REGISTRY)}")
    name, args, kwargs = _parse(loss)
    if name not in _REGISTRY:
        raise ValueError(f"loss must be one of {', '.join(_REGISTRY)}, got {loss!r}")
    known = parameters(_REGISTRY[name])
    if len(args) > len(known) or not set(kwargs) <= set(known[len(args) :]):
        accepted = ", ".join(known) or "no parameters"
        raise ValueError(f"loss {name} takes {accepted}, got {loss!r}")
    return _REGISTRY[name](*args, **kwargs) if args or kwargs else _REGISTRY[name]


def _parse(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Read "name" or "name(number, key=number)"."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, [], {}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            kwargs = {str(k.arg): ast.literal_eval(k.value) for k in tree.keywords}
            return tree.func.id, [ast.literal_eval(a) for a in tree.args], kwargs
    except (SyntaxError, ValueError):
        pass
    raise ValueError(
        f"loss must be one of {', '.join(_REGISTRY)}, alone or with numbers as in 'huber(0.5)' or "
        f"'huber(delta=0.5)', got {text!r}"
    )


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
