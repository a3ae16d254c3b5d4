"""Packages whose names are loaded on first use, so that importing one name does not import all modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def load_on_demand(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, given the names that each of its modules has.

    >>> load = load_on_demand("proxstream.io", {".types": ["DataError"]})
    >>> load("DataError").__module__
    'proxstream.io.types'
    """
    places = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name], package), name)

    return load
