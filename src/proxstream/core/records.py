"""`NamedTuple` that is quick to define: as that of `typing`, whose check of every annotation is most of its time.

A command defines eighty named tuples as it starts. A class has fields with annotations, defaults and methods; a module
that defines one has `from __future__ import annotations`, so that annotations are text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class _Definition(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
            """Return the named tuple that a class statement describes."""
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            given = [field for field in fields if field in body]
            if given != [*fields][len(fields) - len(given) :]:
                raise TypeError(f"{name}: fields without a default come first, got defaults of {', '.join(given)}")
            defaults = [body[field] for field in given]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            made.__annotations__ = fields
            for key, value in body.items():
                if key not in fields and key not in _DEFINED:
                    setattr(made, key, value)
                    if hasattr(type(value), "__set_name__"):
                        type(value).__set_name__(value, made, key)
            return made

    class NamedTuple(metaclass=_Definition):
        """The base of classes that are named tuples."""

    _DEFINED = {"__module__", "__annotations__"}  # by `namedtuple`
