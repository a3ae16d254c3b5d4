"""A user's own loss, from two plain Python functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from proxstream.core.component import component
from proxstream.core.losses.base import Kind, Link, Loss
from proxstream.core.losses.numerics import Floats
from proxstream.core.validation import number, one_of

Function = Callable[[float, float], float]

_LABELS = {"regression": "a finite number", "binary": "-1 or +1", "ranking": "-1 or +1"}
_PROBE = 4  # elements that decide whether a function may be called with arrays
_SLOPES = {"regression": (-2.0, 0.0, 0.7, 3.0), "binary": (-1.0, 1.0), "ranking": (-1.0, 1.0)}  # labels to check at
_PLACES = (-2.3, -0.4, 0.6, 1.9)  # predictions to check at
_APART = 1e-4
_HALVINGS = 2100  # more than a 64-bit bracket can take before its ends are neighbours


@component
class Custom(Loss):
    """A loss made by `custom`; two of the same functions and kind are equal."""

    value_of: Function
    slope_of: Function
    kind: Kind = "regression"  # type: ignore[misc]
    smoothness: float = math.inf
    lipschitz: float = math.inf

    name = "custom"
    has_conjugate = False

    def __post_init__(self) -> None:
        for role, function in (("value", self.value_of), ("slope", self.slope_of)):
            if not callable(function):
                raise TypeError(f"{role} must be a function of (p, y), got {function!r}")
        one_of("kind", self.kind, tuple(_LABELS))
        for constant in ("smoothness", "lipschitz"):
            if getattr(self, constant) != math.inf:
                number(constant, getattr(self, constant), low=0.0)
        for y in _SLOPES[self.kind]:
            for p in _PLACES:
                self._check_slope(p, y)

    def _check_slope(self, p: float, y: float) -> None:
        """Refuse a slope that is not one of the value's: it has to be between those of two short chords.

        (phi(p) - phi(p - h)) / h <= phi'(p) <= (phi(p + h) - phi(p)) / h holds for every subgradient of a convex phi.
        Where a function is not defined nothing is checked.
        """
        try:
            below, here, above = (float(self.value_of(p + step, y)) for step in (-_APART, 0.0, _APART))
            slope = float(self.slope_of(p, y))
        except Exception:  # a label or prediction that it does not take; what it cannot do is reported where it is used
            return
        low, high = sorted(((here - below) / _APART, (above - here) / _APART))
        room = 1e-6 * (1.0 + abs(slope)) + 1e-14 * max(abs(below), abs(here), abs(above)) / _APART
        if math.isfinite(low) and math.isfinite(high) and not low - room <= slope <= high + room:
            raise ValueError(
                f"slope must be the derivative of value in p: at p={p:g}, y={y:g} {_name(self.slope_of)} returns "
                f"{slope:.6g}, but the slope of {_name(self.value_of)} there is between {low:.6g} and {high:.6g}"
            )

    @property
    def link(self) -> Link | None:  # type: ignore[override]
        """Numbers are predicted as they are."""
        return "identity" if self.kind == "regression" else None

    @property
    def labels(self) -> str:  # type: ignore[override]
        """The labels that are accepted, in words."""
        return _LABELS[self.kind]

    def __repr__(self) -> str:
        return f"custom({_name(self.value_of)}, {_name(self.slope_of)}, kind={self.kind!r})"

    def __str__(self) -> str:
        return repr(self)

    def value(self, p: Floats, y: Floats) -> Floats:
        """What the user's first function returns."""
        return _elementwise(self.value_of, p, y)

    def slope(self, p: Floats, y: Floats) -> Floats:
        """What the user's second function returns."""
        return _elementwise(self.slope_of, p, y)

    def conjugate(self, a: Floats, y: Floats) -> Floats:
        """Raise a TypeError: two functions do not determine it."""
        raise TypeError(f"{self} has no conjugate, which dual solvers and certificates need; take a built-in loss")

    def implicit_step(self, p: Floats, y: Floats, c: Floats) -> Floats:
        """The slope s at p - c s, by halving a bracket until it ends at neighbouring numbers.

        The slope of a convex loss does not fall: s is between 0 and the slope at p, and the slope at p - c s less s
        falls with s.
        """
        return np.vectorize(self._implicit_step, otypes=[np.float64])(p, y, c)[()]

    def _implicit_step(self, p: float, y: float, c: float) -> float:
        steepest = float(self.slope_of(p, y))
        if c == 0.0 or steepest == 0.0:
            return steepest
        sign, near, far = math.copysign(1.0, steepest), 0.0, abs(steepest)
        for _ in range(_HALVINGS):
            middle = near + 0.5 * (far - near)
            if middle in (near, far):
                break
            if sign * self.slope_of(p - c * sign * middle, y) > middle:
                near = middle
            else:
                far = middle
        return sign * far

    def _accepts(self, labels: Any) -> Any:
        return np.isfinite(labels) if self.kind == "regression" else (labels == 1) | (labels == -1)


def custom(
    value: Function,
    slope: Function,
    *,
    kind: Kind = "regression",
    smoothness: float = math.inf,
    lipschitz: float = math.inf,
) -> Custom:
    """Make a loss from two plain Python functions of two numbers: the prediction p and the label y.

    It can be used wherever a built-in loss can, except by solvers that need its conjugate (Prox-SDCA, certificates).
    `proxstream.online` calls the functions as they are, with arrays if they accept them. The stream learners compile
    them on first use, once per process, into the same loop that runs the built-in losses and at its speed: so they must
    be what numba can compile, that is arithmetic, branches, `math` and NumPy functions of numbers, calls of other such
    functions, constants. A TypeError names the function that is not, and the compiler's reason. Constants are those of
    the first use: a global that changes later has no effect.

    Parameters
    ----------
    value : function of (p, y)
        phi(p, y), convex in p.
    slope : function of (p, y)
        Its derivative in p, a subgradient at a kink.
    kind : {"regression", "binary", "ranking"}
        Which labels it takes: numbers, or -1 and +1.
    smoothness, lipschitz : float
        The constants of its slope, where they are known; regret bounds read them.

    >>> from proxstream import losses
    >>> def value(p, y):
    ...     return 0.5 * (p - y) ** 2 if p < y else p - y
    >>> def slope(p, y):
    ...     return p - y if p < y else 1.0
    >>> lopsided = losses.custom(value, slope)
    >>> lopsided
    custom(value, slope, kind='regression')
    >>> lopsided.value([0.0, 3.0], 1.0), float(lopsided.slope(3.0, 1.0))
    (array([0.5, 2. ]), 1.0)
    """
    return Custom(value, slope, kind, smoothness, lipschitz)


def _elementwise(function: Function, p: Any, y: Any) -> Any:
    """Return the function of each pair of elements: in one call if a few of them show that it takes arrays."""
    if np.ndim(p) == 0 and np.ndim(y) == 0:
        return function(p, y)
    p, y = np.broadcast_arrays(p, y)
    dtype = np.result_type(p, y, np.float32)
    if p.size > _PROBE and _takes_arrays(function, p.ravel()[:_PROBE], y.ravel()[:_PROBE]):
        return np.asarray(function(p, y), dtype)
    return np.vectorize(function, otypes=[dtype])(p, y)


def _takes_arrays(function: Function, p: Any, y: Any) -> bool:
    try:
        together = np.asarray(function(p, y))
        apart = [function(a, b) for a, b in zip(p, y, strict=True)]
    except Exception:  # calling it element by element raises it again
        return False
    return together.shape == p.shape and bool(np.array_equal(together, apart, equal_nan=True))


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", function))
