"""proxstream: sparse linear models from streams.

Every algorithm here solves one subproblem,

    x+ = argmin_x  <u, x> + k Psi(x) + (1/2) sum_j h_j x_j^2

A penalty solves it, an algorithm keeps (u, h, k), a loss computes slopes; nothing knows two of these.

>>> import proxstream as ps
>>> learner = ps.OnlineLearner(ps.RDA(gamma=1.0), ps.L1(0.1), dim=2)
>>> _ = learner.learn([1.0, 0.1], +1, "logistic")
>>> learner.point
array([0.4, 0. ])

Names are loaded on demand: importing the package imports nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0.dev0"


def _public_names() -> dict[str, str]:
    """Return the module of each public name: `__init__.pyi` is their one table."""
    modules: dict[str, str] = {}
    with open(f"{__file__.removesuffix('c')}i", encoding="utf-8") as stub:
        for line in stub:
            words = line.rstrip(",\n").split()
            if words[:1] == ["from"]:
                module = words[1]
            elif words[1:2] == ["as"]:
                modules[words[0]] = module
    return modules


_MODULES = _public_names()
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULES[name] in (".", ".core"):
        return import_module(f"{_MODULES[name].rstrip('.')}.{name}", __name__)
    return getattr(import_module(_MODULES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
