"""From sources to row blocks: files of many formats, tables and matrices, read ahead of whoever learns from them."""

from .base import Chunk, DataError, Position
from .core import Stream, open_stream
from .features import FeatureSpec
from .rowcache import write_cache

__all__ = ["Chunk", "DataError", "FeatureSpec", "Position", "Stream", "open_stream", "write_cache"]
