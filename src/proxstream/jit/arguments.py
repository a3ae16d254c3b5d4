"""The types and values of a kernel's arguments, without numba: as text, and as numbers in one row.

The text names a version of a kernel, in the manifest of what is compiled ahead and at each call:

    f8 f4 i8 i4 u8 u4 b1  numbers: floats, integers, unsigned integers, booleans of that many bytes
    n                     None
    <f4[1] <f4[2Fr]       arrays: dtype, dimensions; F (Fortran) or A (any) layout if not C, r read-only, u unaligned
    package.module.Name(f8i8)    a named tuple and its items; ( ... ) a plain tuple

The values are what a compiled version reads from its frame, eight bytes each: numbers, and of an array its address and
shape, with its strides unless it is contiguous.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

NUMBERS = {
    float: "f8",
    bool: "b1",
    np.float64: "f8",
    np.float32: "f4",
    np.int64: "i8",
    np.int32: "i4",
    np.uint64: "u8",
    np.uint32: "u4",
    np.bool_: "b1",
    type(None): "n",
}
# How struct packs a value into eight bytes; None has none.
FORMATS = {"f8": "d", "f4": "f4x", "i8": "q", "i4": "i4x", "u8": "Q", "u4": "I4x", "b1": "?7x", "n": ""}
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_ARRAYS: dict[tuple[int, int], str] = {}
_TUPLES: dict[type, str] = {tuple: "("}
# Tuples of numbers by their id: the tuple itself, which must not be freed while its id is a key, its types and values.
_COMPONENTS: dict[int, tuple[tuple[Any, ...], str, list[Any]]] = {}
_MOST_COMPONENTS = 256


def _address_in_header(array: Any) -> int:
    """Return the address of an array's first element: the field after its object's head, in numpy's C interface."""
    return _POINTER.from_address(id(array) + _HEAD).value or 0


def _address_by_ctypes(array: Any) -> int:
    """Return the address of an array's first element, as numpy documents it: five times as slow."""
    return array.ctypes.data  # type: ignore[no-any-return]


_POINTER, _HEAD = ctypes.c_void_p, object.__basicsize__
_PROBE = np.arange(6.0)[2:]
address = _address_in_header if _address_in_header(_PROBE) == _PROBE.ctypes.data else _address_by_ctypes


def flatten(arguments: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Return the types of arguments as text, and their values in order; a type without a name here is a "?"."""
    text: list[str] = []
    values: list[Any] = []
    _flatten(arguments, text, values)
    return "".join(text), values


def _flatten(arguments: tuple[Any, ...], text: list[str], values: list[Any]) -> bool:
    """Append types and values; return whether there are only numbers."""
    only_numbers = True
    for argument in arguments:
        kind = type(argument)
        if kind is np.ndarray:
            only_numbers = False
            name = _ARRAYS.get((argument.dtype.num, argument.ndim)) or _name_array(argument)
            values.append(address(argument))
            values += argument.shape
            if not argument.flags.carray:
                name = f"{name[:-1]}{_layout(argument)}]"
                if not argument.flags.forc:
                    values += argument.strides
            text.append(name)
        elif kind is int:
            text.append("i8" if _SMALLEST <= argument <= _LARGEST else "u8")
            values.append(argument)
        elif kind in NUMBERS:
            text.append(NUMBERS[kind])
            if argument is not None:
                values.append(argument)
        elif isinstance(argument, tuple):
            only_numbers &= _flatten_tuple(argument, text, values)
        else:
            text.append("?")
    return only_numbers


def _flatten_tuple(argument: tuple[Any, ...], text: list[str], values: list[Any]) -> bool:
    """Append a tuple's types and values; those of components, which come again in every call, are remembered."""
    known = _COMPONENTS.get(id(argument))
    if known is not None and known[0] is argument:
        text.append(known[1])
        values += known[2]
        return True
    n_text, n_values = len(text), len(values)
    text.append(_TUPLES.get(type(argument)) or _name_tuple(type(argument)))
    only_numbers = _flatten(argument, text, values)
    text.append(")")
    if only_numbers:
        if len(_COMPONENTS) >= _MOST_COMPONENTS:
            _COMPONENTS.clear()
        _COMPONENTS[id(argument)] = argument, "".join(text[n_text:]), values[n_values:]
    return only_numbers


def _name_array(array: Any) -> str:
    name = f"{array.dtype.str}[{array.ndim}]" if array.dtype.isnative and array.dtype.kind in "fiub" else "?"
    _ARRAYS[array.dtype.num, array.ndim] = name
    return name


def _name_tuple(kind: type) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}("
    _TUPLES[kind] = name
    return name


def _layout(array: Any) -> str:
    """Return what is special about an array: no C layout, read-only, not aligned."""
    flags = array.flags
    order = "" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return order + ("" if flags.writeable else "r") + ("" if flags.aligned else "u")
