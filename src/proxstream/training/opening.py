"""The first rows of a stream, read before training starts: they show which strengths a path needs.

They are learned like all others. A pipe can be read once, and bad rows are written to a quarantine once, so that the
chunks of these rows are kept until the session reads the stream.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.offsets import absorb_offset
from ..data.rowblock import RowBlock
from ..io.types import Chunk, Position
from . import holdout
from .labels import Labels

if TYPE_CHECKING:
    from fractions import Fraction

    from ..io.features.featurizer import Featurizer


class OpenedStream:
    """A stream whose first chunks can be looked at before it is read; otherwise the stream itself.

    Parameters
    ----------
    stream : as `open_stream` returns
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._first = stream, list[Chunk]()
        self._rest: Iterator[Chunk] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def look(self) -> Iterator[Chunk]:
        """Yield the first chunks, as many as are taken."""
        self._rest = self._stream.chunks(Position())
        for chunk in self._rest:
            self._first.append(chunk)
            yield chunk

    def chunks(self, start: Position = Position()) -> Iterator[Chunk]:  # noqa: B008 - a constant
        """Yield the chunks after a position; those that have been looked at are not read again."""
        if self._rest is None or start != Position():
            yield from self._stream.chunks(start)
            return
        first, rest, self._first, self._rest = self._first, self._rest, [], None
        yield from first
        yield from rest


def opening_rows(
    stream: OpenedStream,
    labels: Labels,
    *,
    held_out: Fraction | int,
    skip: bool,
    featurizer: Callable[[], Featurizer | None],
) -> RowBlock | None:
    """Return the first rows that will be learned, at most `batch.strengths.OPENING`, as the learner will be given them.

    Parameters
    ----------
    stream : OpenedStream
    labels : Labels
    held_out : share of the rows that are not learned
    skip : whether rows with other labels are left out
    featurizer : function that returns the stream's featurizer, once a chunk has been read
    """
    from ..batch.strengths import OPENING

    blocks: list[RowBlock] = []
    before = found = 0
    for chunk in stream.look():
        labelled = labels.read_chunk(chunk, stream.names, skip=skip)
        rows, offset = labelled.rows, labelled.take(chunk.offset)
        rows = rows if offset is None else absorb_offset(labels.loss, rows, offset)
        out = holdout.held_out_rows(held_out, before, rows.n_rows) if held_out else np.zeros(rows.n_rows, np.bool_)
        blocks.append(rows.take(np.flatnonzero(~out)))
        before, found = before + rows.n_rows, found + blocks[-1].n_rows
        if found >= OPENING:
            break
    if not found:
        return None
    rows = RowBlock.concat(blocks).slice(0, min(found, OPENING))
    columns = featurizer()
    return rows if columns is None else copy.deepcopy(columns.standardizer).transform(rows, learn=True)
