"""The same learners on Dask: rows stay where the workers are, and only sums of what was learned travel.

| module   | what it does                                                                                         |
|----------|------------------------------------------------------------------------------------------------------|
| `parts`  | dask arrays, frames, bags, futures or files become partitions that workers turn into row blocks        |
| `stream` | `DaskStreamClassifier`, `DaskStreamRegressor`: rounds of the compiled learners, whose sums are added   |
| `sdca`   | `DaskSDCAClassifier`, `DaskSDCARegressor`: Prox-SDCA over partitions, proved by one gap                |

Scheduling, retries, locality and the dashboard are Dask's. Dask is the extra `cluster`, imported with the first of
these names and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .stream import DaskStreamClassifier, DaskStreamRegressor

__all__ = ["DaskSDCAClassifier", "DaskSDCARegressor", "DaskStreamClassifier", "DaskStreamRegressor"]

_ROOMS = {
    "DaskSDCAClassifier": "sdca",
    "DaskSDCARegressor": "sdca",
    "DaskStreamClassifier": "stream",
    "DaskStreamRegressor": "stream",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import_module("distributed")
    except ImportError as error:
        raise ImportError(f"proxstream.cluster.{name} needs Dask: pip install 'proxstream[cluster]'") from error
    return getattr(import_module(f".{_ROOMS[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
