"""The same learners on Dask: rows stay on the workers, and only sums of changes are sent.

| module              | content                                                                                   |
|---------------------|-------------------------------------------------------------------------------------------|
| `partitions`        | dask arrays, frames, bags, futures or files as partitions that workers turn into rows     |
| `stream_estimators` | `DaskStreamClassifier`, `DaskStreamRegressor`: rounds of the compiled learners, merged    |
| `sdca_estimators`   | `DaskSDCAClassifier`, `DaskSDCARegressor`: Prox-SDCA over partitions, with one gap        |
| `train`             | `proxstream train --cluster`                                                              |

Scheduling, retries, locality and the dashboard are Dask's. Dask is the extra `cluster`, imported with the first of
these names. Only the estimators import scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .stream_estimators import DaskStreamClassifier, DaskStreamRegressor

__all__ = ["DaskSDCAClassifier", "DaskSDCARegressor", "DaskStreamClassifier", "DaskStreamRegressor"]

_ROOMS = {
    "DaskSDCAClassifier": "sdca_estimators",
    "DaskSDCARegressor": "sdca_estimators",
    "DaskStreamClassifier": "stream_estimators",
    "DaskStreamRegressor": "stream_estimators",
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
