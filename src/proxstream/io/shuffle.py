"""Shuffled rows in bounded memory: the stream is cut into windows of as many rows, and each window is permuted.

A window's order is a function of the seed and of its number, so that rows come in the same order however chunks are cut
and in every pass, which keeps held-out rows the same rows. A position within a window is where the window may be read
from and how many of its rows have been yielded: a checkpoint needs no row, and the window is read again.

Row i of a window is sorted by the i-th number of a splitmix64 sequence (see `data._random`), a permutation that does
not depend on the version of a library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.rowblock import RowBlock
from .types import Chunk, DataError, Position

PIECE = 1 << 13  # rows of a chunk, at most
_GOLDEN, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def permutation(seed: int, window: int, n: int) -> Array:
    """Return the order of the n rows of a window.

    >>> permutation(0, 0, 6), permutation(0, 1, 6)
    (array([3, 5, 2, 0, 1, 4]), array([2, 5, 3, 4, 0, 1]))
    """
    start = _mixed(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64)) ^ _mixed(~np.array([window], np.uint64))
    keys = _mixed(start + _GOLDEN * np.arange(1, n + 1, dtype=np.uint64))
    return np.argsort(keys, kind="stable")


def _mixed(z: Array) -> Array:
    """Return the numbers with all their bits mixed; 64-bit products wrap around."""
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return np.asarray(z ^ (z >> np.uint64(31)))


class _Part(NamedTuple):
    """Rows of a chunk that belong to a window, their offsets and places in the source, and their share of its bytes."""

    rows: RowBlock
    offset: Array | None
    places: Array
    n_bytes: int


def shuffled(read: Callable[[Position], Iterator[Chunk]], start: Position, size: int, seed: int) -> Iterator[Chunk]:
    """Yield the rows in shuffled windows of `size` rows, from a position at which an earlier chunk ended.

    Parameters
    ----------
    read : function of a position
        Yields the chunks of the source from there on, each with rows.
    start : Position
    size, seed : int
    """
    window, taken = divmod(start.shuffled, size)
    passed, before = start.passed, start._replace(passed=0, shuffled=0)
    begin, parts, held = start._replace(shuffled=0), [], 0
    chunks = read(before)
    try:
        for chunk in chunks:
            if chunk.qid is not None:
                raise DataError("shuffle_buffer is not for rows with a qid: the rows of a query must follow each other")
            first = min(passed, chunk.rows.n_rows)
            passed -= first
            while first < chunk.rows.n_rows:
                stop = min(first + size - held, chunk.rows.n_rows)
                parts.append(_part(chunk, first, stop))
                held, first = held + stop - first, stop
                if held == size:
                    end = chunk.end if stop == chunk.rows.n_rows else before._replace(passed=stop)
                    yield from _window(parts, begin, end, window * size, permutation(seed, window, held), taken, size)
                    begin, parts, held, window, taken = end, [], 0, window + 1, 0
            before = chunk.end
        if held:
            yield from _window(parts, begin, before, window * size, permutation(seed, window, held), taken, size)
    finally:
        if hasattr(chunks, "close"):
            chunks.close()


def _part(chunk: Chunk, first: int, stop: int) -> _Part:
    n, (file, number) = chunk.rows.n_rows, chunk.place(0)
    places = np.stack((np.full(stop - first, file), np.arange(number + first, number + stop)), axis=1)
    offset = None if chunk.offset is None else chunk.offset[first:stop]
    return _Part(chunk.rows.slice(first, stop), offset, places, chunk.n_bytes * stop // n - chunk.n_bytes * first // n)


def _window(
    parts: list[_Part], begin: Position, end: Position, before: int, order: Array, taken: int, size: int
) -> Iterator[Chunk]:
    """Yield the rows of a window that are not `taken` yet; `before` counts the rows of earlier windows."""
    rows, places = RowBlock.concat([part.rows for part in parts]), np.concatenate([part.places for part in parts])
    offsets = [part.offset for part in parts if part.offset is not None]
    offset = np.concatenate(offsets) if offsets else None
    n_bytes, n = sum(part.n_bytes for part in parts), len(order)
    parts.clear()
    for first in range(taken, n, PIECE):
        stop = min(first + PIECE, n)
        here, share = order[first:stop], n_bytes * stop // n - n_bytes * first // n
        at = begin._replace(shuffled=before + stop) if stop < n else end._replace(shuffled=before + size)
        yield Chunk(rows.take(here), None, at, share, None if offset is None else offset[here], places[here])
