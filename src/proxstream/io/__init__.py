"""From sources to row blocks: files of many formats, tables and matrices, read ahead of the learner.

Names are loaded on demand: a command that reads text needs neither row caches nor the features of tables.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cache import write_cache
    from .features.spec import FeatureSpec
    from .open import Stream, open_stream
    from .scan import find_label_texts, suggest_categorical
    from .types import Chunk, DataError, Position

__all__ = [
    "Chunk",
    "DataError",
    "FeatureSpec",
    "Position",
    "Stream",
    "find_label_texts",
    "open_stream",
    "suggest_categorical",
    "write_cache",
]

_MODULES = {
    **dict.fromkeys(("Chunk", "DataError", "Position"), ".types"),
    **dict.fromkeys(("Stream", "open_stream"), ".open"),
    **dict.fromkeys(("find_label_texts", "suggest_categorical"), ".scan"),
    "FeatureSpec": ".features.spec",
    "write_cache": ".cache",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
