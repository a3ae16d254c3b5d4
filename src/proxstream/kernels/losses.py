"""Losses in kernels: named tuples of a loss's parameters; the bodies are those of `proxstream.losses`."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import fields
from typing import Any

from numba.extending import register_jitable

from .. import losses as library
from ..losses import Loss, numerics
from .jit import generic

for _helper in (numerics.sigmoid, numerics.inside, numerics.clipped, numerics.exp_or_inf):
    register_jitable(_helper)


@generic
def value(loss: Any, p: float, y: float) -> float:
    """Return phi(p, y)."""
    raise NotImplementedError


@generic
def slope(loss: Any, p: float, y: float) -> float:
    """Return the derivative of phi in p."""
    raise NotImplementedError


_TUPLES: dict[type[Loss], Any] = {}

for _name in library.names():
    _kind = type(library.get(_name))
    # Caches refer to a type by module and name, so each must be found here under its own.
    _tuple = namedtuple(_kind.__name__, [field.name for field in fields(_kind)])
    _tuple.__module__ = __name__
    globals()[_kind.__name__] = _TUPLES[_kind] = _tuple
    value.of(_tuple)(_kind.value)
    slope.of(_tuple)(_kind.slope)


def as_tuple(loss: Loss) -> Any:
    """Return the named tuple that stands for `loss` in a kernel."""
    kind = _TUPLES[type(loss)]
    return kind(*(float(getattr(loss, name)) for name in kind._fields))
