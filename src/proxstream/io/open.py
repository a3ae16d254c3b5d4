"""open_stream: one function for every source.

    source -> reader of its format (on its own thread, a few chunks ahead) -> chunks -> learner

A stream is read from its beginning each time it is iterated, or from a `Position` at which an earlier chunk ended: what
precedes it is read again and compared with the checksum, so that training never resumes on a file that has changed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core import validation as _checks
from ..core.validation import Array
from ..data.rowblock import RowBlock
from . import formats
from .bad_rows import BadRows
from .formats import Format, Job
from .prefetch import Prefetch
from .shuffle import shuffled
from .sources import Source, sources
from .types import ALL_FEATURES, MAX_FEATURES, Accepted, Chunk, DataError, Position, Settings

if TYPE_CHECKING:
    from .features.featurizer import Featurizer
    from .features.spec import FeatureSpec

DEPTH = 4  # chunks that wait at most
OF_LINES = {"svmlight", "vw", "csv", "tsv", "jsonl"}


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
    given_features : FeatureSpec, Featurizer or None
        How columns and names were to become features when it was opened.
    skipped : int
        Bad rows left out in the current or last pass, up to the last chunk yielded.
    lowest_index : int or None
        svmlight: the lowest feature index seen so far. If it is at least 1, the file may count from 1, and a model
        trained on it should refuse rows with index 0: `open_stream(..., min_index=1)`.
    """

    def __init__(self, found: list[Source], kinds: list[Format], settings: Settings, faults: tuple[str, Any]) -> None:
        self._sources, self._formats, self._settings, self._on_error = found, kinds, settings, faults
        self.given_features = settings.features
        self._running: weakref.WeakSet[Prefetch[Chunk]] = weakref.WeakSet()
        self.names = [source.name for source in found]
        self.formats = [kind.name for kind in kinds]
        self.rereadable = all(source.rereadable for source in found)
        sizes = [source.size for source in found]
        self.n_bytes = None if None in sizes else sum(size for size in sizes if size is not None)
        self.skipped = 0
        self.lowest_index: int | None = None

    def __iter__(self) -> Iterator[RowBlock | tuple[RowBlock, Array]]:
        for chunk in self.chunks():
            if chunk.offset is not None:
                raise ValueError(
                    "row blocks do not hold offsets: read `chunks()`, use `proxstream train`, or pass the offset "
                    "to `fit` or `predict` and drop its column"
                )
            yield chunk.rows if chunk.qid is None else (chunk.rows, chunk.qid)

    def chunks(self, start: Position | None = None, *, empty: bool = False) -> Iterator[Chunk]:
        """Yield chunks of rows, each with the position where it ends, from `start` (the end of an earlier chunk) on.

        Chunks without rows, whose ends count bad rows, are yielded if asked for with `empty`, unless rows are shuffled.
        """
        begin = Position() if start is None else Position(*start)
        if self._settings.shuffle_buffer:
            return shuffled(self._chunks, begin, self._settings.shuffle_buffer, self._settings.seed)
        return self._chunks(begin, empty=empty)

    def _chunks(self, begin: Position, *, empty: bool = False) -> Iterator[Chunk]:
        """Yield chunks in the order of the source."""
        if not 0 <= begin.file < max(len(self._sources), 1):
            raise DataError(f"a stream of {len(self._sources)} files has no file {begin.file}: the files have changed")
        self.skipped = begin.skipped
        with Prefetch(lambda closed: self._read(begin, closed), DEPTH) as ahead:
            self._running.add(ahead)
            for chunk in ahead:
                self.skipped = chunk.end.skipped
                self._note_index(chunk)
                if chunk.rows.n_rows or empty:
                    yield chunk

    def _note_index(self, chunk: Chunk) -> None:
        if self.lowest_index != 0 and len(chunk.rows.indices) and self.formats[chunk.end.file] == "svmlight":
            lowest = int(chunk.rows.indices.min())
            self.lowest_index = lowest if self.lowest_index is None else min(lowest, self.lowest_index)

    def _read(self, start: Position, closed: Callable[[], bool]) -> Iterator[Chunk]:
        """Read, on the other thread."""
        with BadRows(*self._on_error) as bad_rows:
            bad_rows.begin(start)
            seed = 0
            for number, (source, kind) in enumerate(zip(self._sources, self._formats, strict=True)):
                if number < start.file:
                    seed = kind.check(source, seed, closed)
                    continue
                place = start if number == start.file else Position(number, check=seed)
                end = place
                for chunk in kind.read(Job(source, self._settings, bad_rows, place, seed, closed)):
                    end = chunk.end
                    yield chunk
                seed = end.check

    def locate(self, start: Position, row: int) -> str:
        """Return `file:line` of the row that is so many rows after a position, empty if it cannot be known.

        Rows carry no line numbers, so the file is read again up to there.
        """
        from .text.reader import RowFoundError

        source, kind = self._sources[start.file], self._formats[start.file]
        if kind.name not in OF_LINES or not source.rereadable:
            return ""
        try:
            seed = 0
            for number in range(start.file):
                seed = self._formats[number].check(self._sources[number], seed, bool)
            if start.offset == 0:
                start = start._replace(check=seed)
            for _ in kind.read(Job(source, replace(self._settings, row=row), BadRows("skip"), start, seed)):
                pass
        except RowFoundError as found:
            return str(found)
        except (DataError, OSError):  # a file that has changed since
            pass
        return ""

    @property
    def dtype(self) -> str:
        """The name of the type of values."""
        return str(np.dtype(self._settings.dtype))

    @property
    def used_featurizer(self) -> Featurizer | None:
        """The featurizer, if rows have been made by one."""
        from .features.featurizer import Featurizer

        used = isinstance(self._settings.features, Featurizer) or "featurizer" in vars(self._settings)
        return self.featurizer if used else None

    @property
    def featurizer(self) -> Featurizer:
        """The featurizer of names and columns, the same in every pass."""
        return self._settings.featurizer

    def use_features(self, features: FeatureSpec | Featurizer) -> None:
        """Make features of columns and names in this way from the next pass on, for a model that reads the stream."""
        self._settings = replace(self._settings, features=features)

    def with_label_texts(self, label_texts: Mapping[str, float] | None) -> Stream:
        """Return a stream of the same sources whose label texts become these numbers."""
        texts = check_label_texts(label_texts)
        settings = replace(self._settings, label_texts=texts, features=self.given_features)
        return Stream(self._sources, self._formats, settings, self._on_error)

    def close(self) -> None:
        """Stop the threads that are still reading."""
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
    max_features: int = MAX_FEATURES,
    min_index: int = 0,
    labels: Accepted | None = None,
    label_texts: Mapping[str, float] | None = None,
    shuffle_buffer: int = 0,
    seed: int = 0,
    **options: Any,
) -> Stream:
    """Open a source of rows: files of any size, a pipe, tables and matrices.

    Reading, decompressing and parsing run on separate threads, a few chunks ahead of the consumer; the rows come in the
    order of the source, and how they are cut into chunks does not matter.

    Parameters
    ----------
    source : path, glob, URI, list of these, '-', binary file object, data frame, Arrow table, matrix, or (X, y)
        `-` is standard input; a URI is one that pyarrow knows (s3://, gs://, hdfs://, file://). Files may be compressed
        by gzip, zstd, bz2 or lz4.
    format : str, optional
        svmlight, vw, csv, tsv, jsonl, parquet, arrow or cache; inferred from the extension or the first line if None.
    features : FeatureSpec or Featurizer, optional
        How columns and names become features.
    dtype : float32 or float64
        Of the values.
    on_error : "stop", "skip" or "quarantine"
        What to do with a row that cannot be read: raise an error; or count it and leave it out; or also write it to the
        file `quarantine`, with the place and the reason.
    quarantine : path, optional
    zero_based : bool
        svmlight: True takes indices as they are, so that a file that counts from 1 leaves feature 0 unused; False
        subtracts 1.
    qid : optional
        svmlight: True requires a qid in each row, False ignores it, None does as the first row has it; tables: the
        column.
    chunk_bytes : int
        Text parsed at once.
    max_line_bytes : int
        A longer line is an error.
    max_features : int
        svmlight, row caches of numbered features and matrices: a feature beyond so many is an error that names its
        place, since a model takes memory for all features up to the largest index. At most 2^31.
    min_index : int
        svmlight: a row with a smaller index is a bad row.
    labels : Accepted, optional
        Which labels are accepted: a row with another one is a bad row, unless it comes from a matrix or a row cache.
    label_texts : mapping of label text to number, optional
        Tables whose label column is text: {"no": -1.0, "yes": 1.0}. Rows get the numbers; a row with another text is a
        bad row. `find_label_texts` finds the texts. Formats whose labels are always numbers (svmlight, vw, cache,
        matrices) ignore it.
    shuffle_buffer : int
        Shuffle the rows, windows of so many at a time, in the same order in every pass; 0: keep their order. Memory
        holds one window. Rows that are further apart than this stay apart: sorted rows need a buffer as large as the
        runs of their labels. Not for rows with a qid.
    seed : int
        Random seed of the order.
    **options
        Options of single formats, see docs/streams.md.

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
    if _checks.integer("max_features", max_features, low=1) > ALL_FEATURES:
        raise ValueError(f"max_features must be at most {ALL_FEATURES}, got {max_features}")
    if features is not None:
        _check_features(features)
    BadRows(on_error, quarantine)
    given = None if format is None else formats.get(format)
    found = sources(source)
    kinds = [given or formats.infer(one) for one in found]
    for one, kind in zip(found, kinds, strict=True):
        features = kind.stored_features(one, features, dtype)
    settings = Settings(
        features=features,
        dtype=np.dtype(dtype).type,
        zero_based=bool(zero_based),
        qid=qid,
        chunk_bytes=_checks.integer("chunk_bytes", chunk_bytes, low=1),
        max_line_bytes=_checks.integer("max_line_bytes", max_line_bytes, low=1),
        max_features=int(max_features),
        min_index=_checks.integer("min_index", min_index, low=0),
        labels=labels,
        label_texts=check_label_texts(label_texts),
        shuffle_buffer=_checks.integer("shuffle_buffer", shuffle_buffer, low=0),
        seed=_checks.integer("seed", seed, low=0),
        options=options,
    )
    known = {name for kind in kinds for name in kind.options}
    for name in options:
        if name not in known:
            raise TypeError(f"{', '.join(dict.fromkeys(k.name for k in kinds))} has no option {name!r}")
    return Stream(found, kinds, settings, (on_error, quarantine))


def check_label_texts(label_texts: Mapping[str, float] | None) -> dict[str, float] | None:
    """Return the numbers of label texts, checked."""
    if label_texts is None:
        return None
    if not isinstance(label_texts, Mapping) or not label_texts:
        raise TypeError(f"label_texts must map label texts to numbers, got {label_texts!r}")
    for text, number in label_texts.items():
        if not isinstance(text, str) or not text or text != text.strip(" "):
            raise ValueError(f"label_texts must have texts without blanks at their ends, got {text!r}")
        _checks.number("a number of label_texts", number)
    return {text: float(number) for text, number in label_texts.items()}


def place_of(source: Any, chunk: Chunk, start: Position, row: int) -> str:
    """Return where row number `row` of a chunk, from 0, is in its source: `file:line`, or `file: row N`.

    `start` is where the chunk before it ended. A source that has no lines, or cannot be read again, has rows alone.
    """
    file, number = chunk.place(row)
    near = chunk.places is None and start.file == file
    if hasattr(source, "locate"):
        line = source.locate(start, row) if near else source.locate(Position(file), number)
        if line:
            return str(line)
    return f"{source.names[file]}: row {number + 1}"


def _check_features(features: Any) -> None:
    from .features.featurizer import Featurizer
    from .features.spec import FeatureSpec

    if not isinstance(features, (FeatureSpec, Featurizer)):
        raise TypeError(f"features must be a FeatureSpec or a Featurizer, got {features!r}")
