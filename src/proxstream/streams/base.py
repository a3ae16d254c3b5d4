"""What every source becomes: a stream of chunks of rows, each knowing where in its source it ends."""

from __future__ import annotations

from typing import NamedTuple

from .._checks import Array
from ..blocks import RowBlock


class Position(NamedTuple):
    """A place between two rows of a stream: what a checkpoint keeps, and where reading can begin again.

    `file` counts the files of the stream; `row` and `offset` are the rows and the (uncompressed) bytes of that file
    that have been read, `check` a checksum of those bytes, by which a changed file is found out.
    """

    file: int = 0
    row: int = 0
    offset: int = 0
    check: int = 0


class Chunk(NamedTuple):
    """Some rows of a stream, in order; a label that is not told is NaN."""

    rows: RowBlock
    qid: Array | None
    end: Position
    n_bytes: int
