"""Rows to text: numbered features as svmlight or Vowpal Wabbit lines, which read back give the same rows bit for bit.

Values are written with the fewest digits that identify them in their precision.

    svmlight   label [qid:n] index:value ...                indices increase, as other readers require
    vw         [label [weight]] | index:value ...           read back with digits=True: a name of digits is its number
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.validation import Array
from ..data.rowblock import RowBlock
from .types import Chunk, DataError, without_offsets


def svmlight(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """Yield svmlight lines; a row without a label, or with a weight other than 1, is a DataError.

    >>> from proxstream.io import Position
    >>> rows = RowBlock(np.array([0, 2]), np.array([7, 3]), np.array([1.0, 0.5]), np.array([-1.0]))
    >>> list(svmlight([Chunk(rows, None, Position(), 0)]))
    [b'-1 3:0.5 7:1\\n']
    """
    for chunk in without_offsets(chunks):
        rows = chunk.rows
        missing, weighted = np.flatnonzero(np.isnan(rows.y)), np.flatnonzero(rows.c != 1.0)
        if len(missing):
            raise DataError(f"row {_place(chunk, missing)}: found no label, which svmlight needs; vw and cache do not")
        if len(weighted):
            found = rows.c[weighted[0]]
            raise DataError(
                f"row {_place(chunk, weighted)}: found weight {found:g}, svmlight has none; vw and cache do"
            )
        heads = [f"{label:.17g}" for label in rows.y.tolist()]
        if chunk.qid is not None:
            heads = [f"{head} qid:{query}" for head, query in zip(heads, chunk.qid.tolist(), strict=True)]
        yield _lines(heads, rows)


def vw(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """Yield Vowpal Wabbit lines; a query is a DataError.

    >>> from proxstream.io import Position
    >>> rows = RowBlock(np.array([0, 1]), np.array([7]), np.array([0.5]), np.array([-1.0]), np.array([2.0]))
    >>> list(vw([Chunk(rows, None, Position(), 0)]))
    [b'-1 2 | 7:0.5\\n']
    """
    for chunk in without_offsets(chunks):
        rows = chunk.rows
        if chunk.qid is not None:
            raise DataError("found queries, which vw does not have; svmlight and cache do")
        weights = [f" {weight:.17g}" for weight in rows.c.tolist()] if len(rows.c) else [""] * rows.n_rows
        labels = ["" if label != label else f"{label:.17g}" for label in rows.y.tolist()]
        unlabelled = [i for i, label in enumerate(labels) if not label and weights[i] not in ("", " 1")]
        if unlabelled:
            raise DataError(
                f"row {_place(chunk, np.array(unlabelled))}: found a weight without a label, which vw cannot express"
            )
        heads = [f"{y}{c} |" if y else "|" for y, c in zip(labels, weights, strict=True)]
        yield _lines(heads, rows)


def _lines(heads: list[str], rows: RowBlock) -> bytes:
    import pyarrow as pa

    rows = rows.sorted_indices()
    first = int(rows.indptr[0])
    ends = (rows.indptr - first).tolist()
    flat: list[Any] = [None] * (2 * ends[-1])
    flat[0::2] = rows.indices[first : first + ends[-1]].tolist()
    flat[1::2] = pa.array(rows.data[first : first + ends[-1]]).cast(pa.string()).to_pylist()
    return "".join(
        head + _pattern(end - begin) % tuple(flat[2 * begin : 2 * end])
        for head, begin, end in zip(heads, ends, ends[1:], strict=False)
    ).encode("ascii")


@lru_cache(maxsize=4096)
def _pattern(n: int) -> str:
    return " %d:%s" * n + "\n"


def _place(chunk: Chunk, bad: Array) -> int:
    return int(chunk.end.row - chunk.rows.n_rows + bad[0] + 1)


WRITERS: dict[str, Callable[[Iterable[Chunk]], Iterator[bytes]]] = {"svmlight": svmlight, "vw": vw}
