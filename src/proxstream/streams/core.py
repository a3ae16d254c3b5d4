"""open_stream: one door for every source.

    source -> format's reader (its own thread, a few chunks ahead) -> chunks -> whoever learns

A stream is read from its beginning each time it is iterated, or from a `Position` that an earlier chunk ended at: what
lies before is read again and compared with the checksum, so that a model never goes on from a file that has changed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .. import _checks
from .._checks import Array
from ..blocks import RowBlock
from . import formats
from .ahead import Ahead
from .base import Accepted, Chunk, DataError, Position, Settings
from .faults import Faults
from .formats import Format, Job
from .sources import Source, sources

if TYPE_CHECKING:
    from .featurizer import Featurizer

DEPTH = 4  # chunks that wait at most


class Stream:
    """Rows of some sources, in their order; made by `open_stream`.

    Iterating yields row blocks, or (row block, qid) where rows have a qid: what `fit_stream` takes. A stream of files
    can be iterated any number of times, one of standard input once.

    Attributes
    ----------
    names : the sources' names
    formats : the sources' formats
    n_bytes : int or None
        Bytes of all sources as they are stored (of compressed files the compressed ones), if known; the `n_bytes` of
        all chunks add up to it.
    rereadable : bool
        Whether it can be iterated again.
    skipped : int
        Bad rows left out in the pass that runs, or ran last, up to the last chunk handed out.
    """

    def __init__(self, found: list[Source], kinds: list[Format], settings: Settings, faults: tuple[str, Any]) -> None:
        self._sources, self._formats, self._settings, self._faults = found, kinds, settings, faults
        self._running: weakref.WeakSet[Ahead[Chunk]] = weakref.WeakSet()
        self.names = [source.name for source in found]
        self.formats = [kind.name for kind in kinds]
        self.rereadable = all(source.rereadable for source in found)
        sizes = [source.size for source in found]
        self.n_bytes = None if None in sizes else sum(size for size in sizes if size is not None)
        self.skipped = 0

    def __iter__(self) -> Iterator[RowBlock | tuple[RowBlock, Array]]:
        for chunk in self.chunks():
            yield chunk.rows if chunk.qid is None else (chunk.rows, chunk.qid)

    def chunks(self, start: Position | None = None, *, empty: bool = False) -> Iterator[Chunk]:
        """Yield chunks of rows, each with the place where it ends, from `start` (the end of an earlier chunk) on.

        Chunks without rows, whose ends tell of bad rows, are yielded if asked for.
        """
        begin = Position() if start is None else Position(*start)
        if not 0 <= begin.file < max(len(self._sources), 1):
            raise DataError(f"a stream of {len(self._sources)} files has no file {begin.file}: the files have changed")
        self.skipped = begin.skipped
        with Ahead(lambda closed: self._read(begin, closed), DEPTH) as ahead:
            self._running.add(ahead)
            for chunk in ahead:
                self.skipped = chunk.end.skipped
                if chunk.rows.n_rows or empty:
                    yield chunk

    def _read(self, start: Position, closed: Callable[[], bool]) -> Iterator[Chunk]:
        """Read on the other thread."""
        with Faults(*self._faults) as faults:
            faults.begin(start)
            seed = 0
            for number, (source, kind) in enumerate(zip(self._sources, self._formats, strict=True)):
                if number < start.file:
                    seed = kind.check(source, seed, closed)
                    continue
                place = start if number == start.file else Position(number, check=seed)
                end = place
                for chunk in kind.read(Job(source, self._settings, faults, place, seed, closed)):
                    end = chunk.end
                    yield chunk
                seed = end.check

    @property
    def dtype(self) -> str:
        """The name of the values' type."""
        return str(np.dtype(self._settings.dtype))

    @property
    def used_featurizer(self) -> Featurizer | None:
        """The featurizer, if the rows were made by one."""
        from .featurizer import Featurizer

        made = isinstance(self._settings.features, Featurizer) or "featurizer" in vars(self._settings)
        return self.featurizer if made else None

    @property
    def featurizer(self) -> Featurizer:
        """What makes features of names and columns; it is the same in every pass."""
        return self._settings.featurizer

    def close(self) -> None:
        """End what is still reading."""
        for ahead in list(self._running):
            ahead.close()
        for source in self._sources:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(self.names[:3]) + (", ..." if len(self.names) > 3 else "")
        return f"Stream({names}; {', '.join(dict.fromkeys(self.formats))})"


def open_stream(
    source: Any,
    format: str | None = None,
    *,
    features: Any = None,
    dtype: Any = np.float32,
    on_error: str = "stop",
    quarantine: str | os.PathLike[str] | None = None,
    zero_based: bool = True,
    qid: Any = None,
    chunk_bytes: int = 1 << 21,
    max_line_bytes: int = 1 << 25,
    labels: Accepted | None = None,
    **options: Any,
) -> Stream:
    """Open a source of rows: files of any size, a pipe, tables and matrices.

    Reading, decompressing and parsing run on a thread of their own, a few chunks ahead of whoever consumes them; the
    rows come in the order of the source, and their cut into chunks means nothing.

    Parameters
    ----------
    source : path, glob, URI, list of these, '-', binary file object, data frame, Arrow table, matrix, or (X, y)
        `-` is standard input; a URI is one that pyarrow knows (s3://, gs://, hdfs://, file://). Files may be compressed
        by gzip, zstd, bz2 or lz4.
    format : str, optional
        svmlight, vw, csv, tsv, jsonl, parquet, arrow or cache; told by the extension or the first line if not given.
    features : FeatureSpec or Featurizer, optional
        How columns and names become features.
    dtype : float32 or float64
        Of the values.
    on_error : "stop", "skip" or "quarantine"
        What becomes of a row that cannot be read: an error, or it is counted and left out, or also written to the file
        `quarantine`, with the place and the reason.
    quarantine : path, optional
    zero_based : bool
        svmlight: True takes indices as they are, so that a file that counts from 1 leaves feature 0 unused; False
        subtracts 1.
    qid : optional
        svmlight: True demands a qid of each row, False does not look at it, None does as the first row has it; tables:
        the column.
    chunk_bytes : int
        Text parsed at once.
    max_line_bytes : int
        A longer line is an error.
    labels : Accepted, optional
        Which labels are taken: a row with another one is a bad row, unless it comes from a matrix or a row cache.
    **options
        Of single formats, see docs/streams.md.

    Returns
    -------
    Stream

    Raises
    ------
    DataError
        While it is iterated: `file:line:column: found ..., expected ...`. It is a ValueError.

    Examples
    --------
    >>> import io, proxstream as ps
    >>> text = b"+1 3:0.5 7:1 # a click\\n-1 2:1\\n"
    >>> for rows in ps.open_stream(io.BytesIO(text), "svmlight"):
    ...     print(rows.y, rows.indices, rows.data)
    [ 1. -1.] [3 7 2] [0.5 1.  1. ]
    """
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    if not isinstance(zero_based, (bool, np.bool_)):
        raise TypeError(f"zero_based must be True or False, got {zero_based!r}")
    Faults(on_error, quarantine)
    told = None if format is None else formats.get(format)
    found = sources(source)
    kinds = [told or formats.tell(one) for one in found]
    for one, kind in zip(found, kinds, strict=True):
        features = kind.told(one, features, dtype)
    settings = Settings(
        features=features,
        dtype=np.dtype(dtype).type,
        zero_based=bool(zero_based),
        qid=qid,
        chunk_bytes=_checks.integer("chunk_bytes", chunk_bytes, low=1),
        max_line_bytes=_checks.integer("max_line_bytes", max_line_bytes, low=1),
        labels=labels,
        options=options,
    )
    known = {name for kind in kinds for name in kind.options}
    for name in options:
        if name not in known:
            raise TypeError(f"{', '.join(dict.fromkeys(k.name for k in kinds))} has no option {name!r}")
    return Stream(found, kinds, settings, (on_error, quarantine))
