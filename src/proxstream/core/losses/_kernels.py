"""Losses in kernels: named tuples of a loss's parameters; the bodies are those of `proxstream.core.losses`.

Each type is another version of every kernel. What learns from streams asks a loss for its value and slope alone, once
per row: there the losses of everyday use are one type, `Common`, which carries a code. Solvers ask more often, and get
the loss itself.

A user's own loss is a separate named tuple type without fields, known to this process only: kernels are compiled for it
once per process (see `per_process` in `jit.compile`).
"""

from __future__ import annotations

import itertools
import math
from collections import namedtuple
from dataclasses import fields
from functools import cache
from inspect import getclosurevars
from types import FunctionType
from typing import Any

import numpy as np

from proxstream.core.records import NamedTuple

from ...jit.compile import INTERPRETED, compiled, generic, inlined, substitute
from .. import losses as library
from . import Loss, numerics
from .custom import Custom

LARGEST_EXPONENT = 709.78  # of an exponential that is a number


def _sigmoid(z):
    e = math.exp(-abs(z))
    return (1.0 if z >= 0.0 else e) / (1.0 + e)


def _inside(ok, value):
    return value if ok else np.inf


def _clipped(r, c):
    m = max(abs(r), c)
    return r / m if m > 0.0 else 0.0


def _exp_or_inf(p):
    return math.exp(p) if p <= LARGEST_EXPONENT else np.inf


def _xlogx(x):
    return x * math.log(x) if x > 0.0 else 0.0


def _negative_entropy(t):
    if t < 0.0 or t > 1.0:
        return np.inf
    return (t * math.log(t) if t > 0.0 else 0.0) + ((1.0 - t) * math.log1p(-t) if t < 1.0 else 0.0)


def _indicator(ok, like):
    return 1.0 if ok else 0.0


def _times_exp(y, z):
    return y * _exp_or_inf(z) if y > 0.0 else 0.0


def _exp_root(b, c):
    if c == 0.0:
        return b
    log_c = math.log(c)
    r = b + log_c
    w = math.log(r) if r > 1.0 else r
    for _ in range(numerics.MOST_STEPS):
        z = math.exp(w)
        descended = w - (w + z - r) / (1.0 + z)
        if not descended < w:
            break
        w = descended
    z = math.exp(w)
    return w - log_c if z > 1.0 else b - z


def _tweedie_conjugate(a, y, power):
    kappa, lam = power - 1.0, 2.0 - power
    if y == 0.0:
        return (_xlogx(a) - a) / lam if a >= 0.0 else np.inf
    T = y**lam
    slope = abs(a) / T
    k = kappa / lam if a >= 0.0 else lam / kappa
    x = max(slope, 1.0)
    for _ in range(numerics.MOST_STEPS):
        small = x**-k
        climbed = x + (slope + small - x) / (1.0 + k * small / x)
        if not climbed > x:
            break
        x = climbed
    if a >= 0.0:
        return a * (math.log(y) + math.log(x) / lam) - T * (x / lam + x**-k / kappa)
    return a * (math.log(y) - math.log(x) / kappa) - T * (x**-k / lam + x / kappa)


def _tweedie_step(p, y, c, power):
    if y == 0.0:
        lam = 2.0 - power
        q = _exp_root(lam * p, lam * c) / lam
        return (p - q) / c if _times_exp(lam * c, lam * q) > 1.0 else _exp_or_inf(lam * q)
    T = y ** (2.0 - power)
    signed = p - math.log(y)
    C, D = c * T, abs(signed)
    u = power - 1.0 if signed < 0.0 else 2.0 - power
    v = 1.0 - u
    bend = min(2.0 * math.log(max(u, v) / max(u, 1e-37)), D)
    falls = bend + _times_exp(C, u * bend) - C * math.exp(-v * bend) <= D
    d = 0.0
    if falls:
        d = min(D, _exp_root(u * (D + C), u * C) / u) if u > 0.0 else D
    for _ in range(numerics.MOST_STEPS):
        up, down = _times_exp(C, u * d), C * math.exp(-v * d)
        moved = d - (d + up - down - D) / (1.0 + u * up + v * down)
        if not (moved < d if falls else moved > d):
            break
        d = moved
    steep = u * _times_exp(C, u * d) + v * C * math.exp(-v * d) > 1.0
    s = (D - d) / c if steep else -_times_exp(T, u * d) * math.expm1(-d)
    return -s if signed < 0.0 else s


for _function in (_exp_or_inf, _times_exp, _exp_root, _xlogx):
    inlined(_function)

# The helpers of the losses' bodies, for one number: compiled, their array forms would make arrays of one number each.
_SCALAR = {
    numerics.sigmoid: _sigmoid,
    numerics.inside: _inside,
    numerics.clipped: _clipped,
    numerics.exp_or_inf: _exp_or_inf,
    numerics.xlogx: _xlogx,
    numerics.indicator: _indicator,
    numerics.times_exp: _times_exp,
    numerics.exp_root: _exp_root,
    numerics.tweedie_conjugate: _tweedie_conjugate,
    numerics.tweedie_step: _tweedie_step,
    numerics.negative_entropy: _negative_entropy,
}
_CALLABLE = set(_SCALAR)  # from compiled code


for _helper, _scalar in _SCALAR.items():
    substitute(_helper, _scalar)


@generic
def value(loss: Any, p: float, y: float) -> float:
    """Return phi(p, y)."""
    raise NotImplementedError


@generic
def slope(loss: Any, p: float, y: float) -> float:
    """Return the derivative of phi in p."""
    raise NotImplementedError


@generic
def curvature(loss: Any, p: float, y: float) -> float:
    """Return the second derivative of phi in p."""
    raise NotImplementedError


@generic
def taylor(loss: Any, p: float, y: float) -> tuple[float, float, float]:
    """Return phi(p, y) and its first and second derivative in p."""
    return value(loss, p, y), slope(loss, p, y), curvature(loss, p, y)


@compiled
def add_losses(loss, scores, y, c, sums):
    """Add each row's weight times its loss to sums[0], its weight to sums[1], in order."""
    for i in range(scores.shape[0]):
        weight = c[i] if c.shape[0] else 1.0
        sums[0] += weight * value(loss, scores[i], y[i])
        sums[1] += weight


TUPLES: dict[type[Loss], Any] = {}


def _component(name: str, parameters: list[str]) -> Any:
    """Make a named tuple type; caches refer to it by module and name, so it must be found here under its name."""
    made = namedtuple(name, parameters)
    made.__module__ = __name__
    globals()[name] = made
    return made


for _name in library.names():
    _kind = type(library.get(_name))
    TUPLES[_kind] = _component(_kind.__name__, [field.name for field in fields(_kind)])
    value.of(TUPLES[_kind])(_kind.value)
    slope.of(TUPLES[_kind])(_kind.slope)
    if _kind.curvature is not Loss.curvature:
        curvature.of(TUPLES[_kind])(_kind.curvature)
    if _kind._taylor is not Loss._taylor:
        taylor.of(TUPLES[_kind])(_kind._taylor)


def as_tuple(loss: Loss) -> Any:
    """Return the named tuple that represents `loss` in a kernel."""
    if isinstance(loss, Custom):
        return _custom(loss.value_of, loss.slope_of)()
    kind = TUPLES[type(loss)]
    return kind(*(float(getattr(loss, name)) for name in kind._fields))


# -- losses of everyday use, one type ------------------------------------------------------------


class Common(NamedTuple):
    """A loss without parameters by its place in `COMMON`."""

    code: int


COMMON = tuple(map(as_tuple, (library.logistic, library.squared, library.hinge)))
LOGISTIC, SQUARED, HINGE = COMMON


@value.of(Common)
def _(loss, p, y):
    if loss.code == 0:
        return value(LOGISTIC, p, y)
    return value(SQUARED, p, y) if loss.code == 1 else value(HINGE, p, y)


@slope.of(Common)
def _(loss, p, y):
    if loss.code == 0:
        return slope(LOGISTIC, p, y)
    return slope(SQUARED, p, y) if loss.code == 1 else slope(HINGE, p, y)


def for_streams(loss: Loss) -> Any:
    """Return the named tuple that represents `loss` in a kernel that asks for its value and slope alone."""
    made = as_tuple(loss)
    kinds = list(map(type, COMMON))
    return Common(kinds.index(type(made))) if type(made) in kinds else made


# -- users' losses -------------------------------------------------------------------------------


_NUMBERS = itertools.count()


@cache
def _custom(value_of: Any, slope_of: Any) -> Any:
    """Make the type of a user's loss; the same two functions have one type."""
    name = f"Custom{next(_NUMBERS)}"  # compiled functions are distinguished by the names of their types
    kind = type(name, (namedtuple(name, ()),), {"per_process": True, "__slots__": ()})
    for role, generic_function, function in (("value", value, value_of), ("slope", slope, slope_of)):
        function = getattr(function, "py_func", function)
        _make_callable(function)
        if not INTERPRETED:
            _check_compiles(role, function)
        generic_function.of(kind)(_body(function))
    return kind


def _body(function: Any) -> Any:
    """Return the function as a kernel calls it."""
    return lambda loss, p, y: float(function(p, y))


def _check_compiles(role: str, function: Any) -> None:
    """Raise a TypeError with the compiler's reason, while it is still known which function it concerns."""
    from ...jit.numba_backend import returns_a_number

    try:
        returned = returns_a_number(function, 2)
    except Exception as error:  # the compiler has many kinds of errors
        reason = str(error).strip()
        raise TypeError(f"{role} = {function!r} cannot be compiled as a function of two numbers: {reason}") from None
    if returned is not None:
        raise TypeError(f"{role} = {function!r} must return a number, got {returned}")


def _make_callable(function: Any) -> None:
    """Let compiled code call a plain function and the plain functions that it calls."""
    if isinstance(function, FunctionType) and function not in _CALLABLE:
        _CALLABLE.add(function)
        inlined(function)
        outside = getclosurevars(function)
        for thing in (*outside.nonlocals.values(), *outside.globals.values()):
            _make_callable(thing)
