"""Frozen dataclasses that are quick to define: their methods are written once, here, not generated for each class.

`dataclass(frozen=True)` writes the text of six methods per class and compiles it. A command defines sixty components
(losses, penalties, algorithms, rates, its options) as it starts, which was a seventh of the time before its first row.
A `component` has the fields of a dataclass, so that `dataclasses.fields` and `replace` work, and the methods below. Its
annotations are read when somebody asks for the fields: most commands use three or four components.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache
from threading import RLock
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class")
_MAKING = RLock()  # held while a class becomes a dataclass, which needs those it derives from


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def component(cls: type[Class]) -> type[Class]:
    """Make a class with annotated fields a frozen dataclass that compares by value.

    >>> @component
    ... class Interval:
    ...     lo: float
    ...     hi: float = 1.0
    >>> Interval(0.5), Interval(0.0) == Interval(hi=1.0, lo=0.0), len({Interval(0.0), Interval(0.0)})
    (Interval(lo=0.5, hi=1.0), True, 1)
    >>> Interval(0.0).hi = 2.0
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'hi'
    """
    made: Any = cls
    made.__dataclass_fields__ = _LazyFields(cls)
    made.__init__, made.__setattr__, made.__delattr__, made.__signature__ = _init, _set, _delete, _Signature()
    if made.__repr__ is object.__repr__:
        made.__repr__ = _repr
    if made.__eq__ is object.__eq__:
        made.__eq__, made.__hash__ = _equal, _hash
    return cls


class _LazyFields:
    """The fields of a component, found when somebody asks for those of the class or of one derived from it."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, kind: type) -> Any:
        with _MAKING:
            if vars(self._cls)["__dataclass_fields__"] is self:
                dataclass(init=False, repr=False, eq=False)(self._cls)  # puts the fields in the place of this object
        return self._cls.__dataclass_fields__  # type: ignore[attr-defined]


@cache
def _fields(kind: Any) -> dict[str, Field[Any]]:
    return {one.name: one for one in fields(kind)}


def field_values(self: Any) -> dict[str, Any]:
    """Return the fields of a component and their values."""
    return {name: getattr(self, name) for name in _fields(self.__class__)}


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _init(self: Any, *arguments: Any, **named: Any) -> None:
    known, call = _fields(self.__class__), f"{type(self).__name__}.__init__()"
    if len(arguments) > len(known):
        raise TypeError(f"{call} takes {len(known) + 1} positional arguments but {len(arguments) + 1} were given")
    given = dict(zip(known, arguments, strict=False))
    for name in named:
        if name not in known:
            raise TypeError(f"{call} got an unexpected keyword argument {name!r}")
        if name in given:
            raise TypeError(f"{call} got multiple values for argument {name!r}")
    given |= named
    values = {name: given[name] if name in given else _default(one) for name, one in known.items()}
    missing = [repr(name) for name, value in values.items() if value is MISSING]
    if missing:
        plural = "s" * (len(missing) > 1)
        raise TypeError(f"{call} missing {len(missing)} required positional argument{plural}: {' and '.join(missing)}")
    vars(self).update(values)
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _repr(self: Any) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in field_values(self).items())
    return f"{type(self).__qualname__}({values})"


def _equal(self: Any, other: object) -> Any:
    return field_values(self) == field_values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(tuple(field_values(self).values()))


class _Signature:
    """The parameters of a component, found when somebody asks, as `inspect.signature` does."""

    def __get__(self, instance: object, kind: type) -> Any:
        if instance is not None:
            return None
        from inspect import Parameter, Signature

        def parameter(one: Field[Any]) -> Parameter:
            default = _default(one)
            given = Parameter.empty if default is MISSING else default
            return Parameter(one.name, Parameter.POSITIONAL_OR_KEYWORD, default=given, annotation=one.type)

        return Signature([parameter(one) for one in _fields(kind).values()], return_annotation=None)
