"""Checks of what users hand in: each error names the parameter, the value and what is accepted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class NotFiniteError(ValueError):
    """An array with a number that is not finite."""


def number(name: str, value: Any, *, low: float = -math.inf, high: float = math.inf, strict: bool = False) -> float:
    """Return `value` as a float after checking low <= value <= high (low < value when `strict`).

    >>> number("radius", 2, low=0, strict=True)
    2.0
    >>> number("radius", -1, low=0, strict=True)
    Traceback (most recent call last):
    ValueError: radius must be a finite number > 0, got -1
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be {_range_in_words(low, high, strict)}, got {shown(value)}")
    try:
        x = float(value)
    except OverflowError:  # of an integer beyond all floats
        x = math.inf
    inside = low < x <= high if strict else low <= x <= high
    if not inside or not math.isfinite(x):
        raise ValueError(f"{name} must be {_range_in_words(low, high, strict)}, got {shown(value)}")
    return x


def set_number(owner: Any, name: str, label: str | None = None, **bounds: Any) -> None:
    """Check a number that a frozen component holds; one of another type than Python's own becomes a float.

    A number of numpy's would have arithmetic of its own: that of a np.float16 is done in 16 bits.
    """
    given = getattr(owner, name)
    value = number(label or name, given, **bounds)
    if type(given) is not float and not (type(given) is int and given == value):
        object.__setattr__(owner, name, value)


def truth(name: str, value: Any) -> bool:
    """Return `value` as a bool after checking that it is one.

    >>> truth("implicit", "no")
    Traceback (most recent call last):
    TypeError: implicit must be True or False, got 'no'
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def shown(value: Any) -> str:
    """Return a value as errors show it: what is long, as an integer of thousands of digits, is cut short.

    >>> shown(10**400), shown("a")
    ('an integer of 1329 bits', "'a'")
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # such an integer inside
        return f"a {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}..."


def integer(name: str, value: Any, *, low: int, high: int = (1 << 63) - 1) -> int:
    """Return `value` as an int after checking that it is a whole number, low <= value <= high.

    >>> integer("every", 0, low=1)
    Traceback (most recent call last):
    ValueError: every must be an integer >= 1, got 0
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer >= {low}, got {shown(value)}")
    if value < low:
        raise ValueError(f"{name} must be an integer >= {low}, got {shown(value)}")
    if value > high:
        raise ValueError(f"{name} must be an integer in {low}..{high}, got {shown(value)}")
    return int(value)


def labels(name: str, value: Any) -> tuple[int, ...]:
    """Return one integer label per coordinate as a tuple.

    >>> labels("matrix", [0, 0, 1])
    (0, 0, 1)
    """
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.empty(0)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be one integer label per coordinate, got {shown(value)}")
    return tuple(int(label) for label in array)


def one_of(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    """Return `value` after checking that it is one of the `accepted` words.

    >>> one_of("update", "mirrored", ("mirror", "dual_averaging"))
    Traceback (most recent call last):
    ValueError: update must be one of 'mirror', 'dual_averaging', got 'mirrored'
    """
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, accepted))}, got {shown(value)}")
    return value


def vector(name: str, value: Any, shape: tuple[int, ...] | None = None) -> Array:
    """Return `value` as a finite floating array, of the given shape if there is one.

    >>> vector("g", [1, 2], (2,))
    array([1., 2.])
    >>> vector("g", [1, float("nan")], (2,))
    Traceback (most recent call last):
    proxstream.core.validation.NotFiniteError: g must be finite, got nan at index 1
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"an array of {array.dtype}")
        if array.dtype.kind != "f" or array.itemsize > 8:
            with np.errstate(over="ignore"):  # what does not fit is infinite, and refused below
                array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers, got {type(value).__name__}: {error}") from None
    except OverflowError:
        raise ValueError(f"{name} must be finite, got a number beyond the largest float") from None
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        at = f" at index {where[0] if len(where) == 1 else where}" if where else ""
        raise NotFiniteError(f"{name} must be finite, got {array[where]}{at}")
    return array


def _range_in_words(low: float, high: float, strict: bool) -> str:
    if low == -math.inf and high == math.inf:
        return "a finite number"
    if high == math.inf:
        return f"a finite number {'>' if strict else '>='} {low:g}"
    if low == -math.inf:
        return f"a finite number <= {high:g}"
    return f"a finite number in {'(' if strict else '['}{low:g}, {high:g}]"
