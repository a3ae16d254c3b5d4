"""From sources to row blocks: files of many formats, tables and matrices, read ahead of the learner.

Names are loaded on demand: a command that reads text needs neither row caches nor the features of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.on_demand import load_on_demand

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

__getattr__ = load_on_demand(
    __name__,
    {
        ".cache": ["write_cache"],
        ".features.spec": ["FeatureSpec"],
        ".open": ["Stream", "open_stream"],
        ".scan": ["find_label_texts", "suggest_categorical"],
        ".types": ["Chunk", "DataError", "Position"],
    },
)
