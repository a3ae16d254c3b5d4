"""From sources to row blocks: files of many formats, tables and matrices, read ahead of the learner."""

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
