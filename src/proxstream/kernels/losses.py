"""Losses in kernels: named tuples of a loss's parameters; the bodies are those of `proxstream.losses`.

A user's own loss is a named tuple type of its own, without fields, whose name holds a fingerprint of its two
functions. Compiled kernels are kept on disk by the names of their components: equal fingerprints find them again, and
a name that no loss of this process has yet is made when the compiler's index asks for it.
"""

from __future__ import annotations

import builtins
import hashlib
import inspect
import math
import uuid
from collections import namedtuple
from dataclasses import fields
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from .. import losses as library
from ..losses import Loss, numerics
from ..losses.custom import Custom
from .jit import CACHE_FOLDER, INTERPRETED, compiled, generic, inlined

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


# The helpers of the losses' bodies, for one number: compiled, their array forms would make arrays of one number each.
_SCALAR = {
    numerics.sigmoid: _sigmoid,
    numerics.inside: _inside,
    numerics.clipped: _clipped,
    numerics.exp_or_inf: _exp_or_inf,
    numerics.xlogx: _xlogx,
    numerics.negative_entropy: _negative_entropy,
}
_CALLABLE = set(_SCALAR)  # from compiled code


def _let_compiled_code_call(helper: Any, scalar: Any) -> None:
    overload(helper, strict=False)(lambda *arguments: scalar)


for _helper, _scalar in _SCALAR.items():
    _let_compiled_code_call(_helper, _scalar)


@generic
def value(loss: Any, p: float, y: float) -> float:
    """Return phi(p, y)."""
    raise NotImplementedError


@generic
def slope(loss: Any, p: float, y: float) -> float:
    """Return the derivative of phi in p."""
    raise NotImplementedError


@compiled
def suffer(loss, scores, y, c, sums):
    """Add each row's weight times its loss to sums[0], its weight to sums[1], in order."""
    for i in range(scores.shape[0]):
        weight = c[i] if c.shape[0] else 1.0
        sums[0] += weight * value(loss, scores[i], y[i])
        sums[1] += weight


TUPLES: dict[type[Loss], Any] = {}


def _component(name: str, parameters: list[str]) -> Any:
    """Make a named tuple type; caches refer to it by module and name, so it must be found here under its own."""
    made = namedtuple(name, parameters)
    made.__module__ = __name__
    globals()[name] = made
    return made


for _name in library.names():
    _kind = type(library.get(_name))
    TUPLES[_kind] = _component(_kind.__name__, [field.name for field in fields(_kind)])
    value.of(TUPLES[_kind])(_kind.value)
    slope.of(TUPLES[_kind])(_kind.slope)


def as_tuple(loss: Loss) -> Any:
    """Return the named tuple that stands for `loss` in a kernel."""
    if isinstance(loss, Custom):
        return _custom(loss.value_of, loss.slope_of)
    kind = TUPLES[type(loss)]
    return kind(*(float(getattr(loss, name)) for name in kind._fields))


# -- users' losses -------------------------------------------------------------------------------

_PREFIX = "Custom_"
_KNOWN = ("math", "cmath", "numpy", "numba")  # modules whose contents their names tell


def __getattr__(name: str) -> Any:
    """Make the type of a user's loss that an index of compiled kernels knows and this process does not yet."""
    if name.startswith(_PREFIX):
        return _component(name, [])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _custom(value_of: Any, slope_of: Any) -> Any:
    value_of, slope_of = (getattr(function, "py_func", function) for function in (value_of, slope_of))
    name = f"{_PREFIX}{fingerprint(value_of, slope_of)}"
    kind = globals().get(name) or _component(name, [])
    if kind not in slope.bodies:
        # A file tells that these functions compiled before: the check costs more than loading the kernel.
        seen = Path(CACHE_FOLDER, f"{name}.compiles") if CACHE_FOLDER else None
        for role, generic_function, function in (("value", value, value_of), ("slope", slope, slope_of)):
            _make_callable(function)
            if not (INTERPRETED or (seen and seen.exists())):
                _check_compiles(role, function)
            generic_function.of(kind)(_body(function))
        if seen:
            seen.touch()
    return kind()


def _body(function: Any) -> Any:
    """Return the function as a kernel calls it."""
    return lambda loss, p, y: float(function(p, y))


def _check_compiles(role: str, function: Any) -> None:
    """Raise a TypeError with the compiler's reason, while it is still known which function it speaks of."""
    try:
        compiled = numba.njit(function)
        compiled.compile((types.float64, types.float64))
    except Exception as error:  # a compiler has many ways to say no
        reason = str(error).strip()
        raise TypeError(f"{role} = {function!r} cannot be compiled as a function of two numbers: {reason}") from None
    returned = compiled.nopython_signatures[0].return_type
    if not isinstance(returned, (types.Float, types.Integer, types.Boolean)):
        raise TypeError(f"{role} = {function!r} must return a number, got {returned}")


def _make_callable(function: Any) -> None:
    """Let compiled code call a plain function and the plain functions that it calls."""
    if isinstance(function, FunctionType) and function not in _CALLABLE:
        _CALLABLE.add(function)
        inlined(function)
        for thing in _outside(function).values():
            _make_callable(thing)


def fingerprint(*functions: Any) -> str:
    """Return a hash of what the functions compute, or a new word each time if that cannot be told."""
    try:
        text = repr([_told(function, ()) for function in functions])
    except _UntoldError:
        return uuid.uuid4().hex
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class _UntoldError(Exception):
    """What a function refers to has no description to hash."""


def _told(thing: Any, seen: tuple[Any, ...]) -> Any:
    """Describe a function with all that it refers to; the compiler takes those values as constants."""
    thing = getattr(thing, "py_func", thing)
    if isinstance(thing, FunctionType):
        if thing in seen:
            return "itself"
        home = inspect.getmodule(thing)
        if home is None:  # compiled code is loaded with its functions' modules: without one, by no other process
            raise _UntoldError
        seen = (*seen, thing)
        told = [(name, _told(value, seen)) for name, value in sorted(_outside(thing).items())]
        return "function", home.__name__, _code(thing.__code__), told, _told(thing.__defaults__, seen)
    if isinstance(thing, ModuleType) and thing.__name__ in _KNOWN:
        return "module", thing.__name__
    if isinstance(thing, (bool, int, float, complex, str, bytes, type(None), np.generic)):
        return type(thing).__name__, repr(thing)
    if isinstance(thing, tuple):
        return "tuple", [_told(item, seen) for item in thing]
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "biufc":
        return "array", thing.dtype.str, thing.shape, hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
    home = str(getattr(thing, "__module__", None)).partition(".")[0]
    if isinstance(thing, (BuiltinFunctionType, np.ufunc)) or (
        home in ("builtins", *_KNOWN) and hasattr(thing, "__name__")
    ):
        return "known", home, thing.__name__
    raise _UntoldError(thing)


def _outside(function: FunctionType) -> dict[str, Any]:
    """Return what a function refers to beyond its arguments, by name."""
    names = _names(function.__code__)
    found = {name: getattr(builtins, name) for name in names if hasattr(builtins, name)}
    found.update((name, function.__globals__[name]) for name in names if name in function.__globals__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**found, **{name: cell.cell_contents for name, cell in cells}}


def _names(code: CodeType) -> set[str]:
    """Return the names that the code may look up outside; attribute names among them do no harm."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _code(code: CodeType) -> Any:
    consts = [_code(c) if isinstance(c, CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts]
    return code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, consts
