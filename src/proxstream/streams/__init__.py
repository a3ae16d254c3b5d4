"""From sources to row blocks: files of many formats, tables and matrices, read ahead of whoever learns from them."""

from .base import Chunk, Position

__all__ = ["Chunk", "Position"]
