"""Partitions: data on a cluster as an ordered list of pieces that workers turn into rows.

    dask array, frame, bag, delayed values, futures -> one task per partition, run by the worker that has the data
    paths, globs, URIs                              -> one description per file, which a worker opens and reads

What is sent over the network: descriptions of tasks and files, never rows, unless Dask itself moves a partition to a
free worker. The client reads only the head of the first file, which decides the columns of a table for all. A
`Partition` describes one piece; `Partition.load` returns a future of its rows (or, for a file, the description itself),
and `batches`, on the worker, yields its rows with labels as they are in the data.

`survey` returns the number of rows, features and classes by a reduction on the workers: of arrays and frames only the
labels are read, of other partitions all rows, of files the complete files. Declared classes avoid that pass.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

import dask
import dask.array as da
import dask.bag as db
import numpy as np
from dask.delayed import Delayed
from distributed import Client, Future
from scipy.sparse import issparse

from ..core.validation import Array
from ..data.batches import Batch, blocks, check_weights, checked_matrix, element_parts
from ..data.rowblock import RowBlock, as_block
from ..data.standardize import Standardizer
from ..io import open_stream
from ..io.features.spec import FeatureSpec
from ..io.sources import Handle, is_piped, is_uri, sources
from ..io.types import Chunk, Position
from .client import tree
from .standardize import fix_statistics, standardized

ACCEPTED = (
    "a dask array, data frame or bag, a list of delayed values or futures, or paths and globs; local matrices are "
    "for StreamClassifier and the like, or become dask arrays with dask.array.from_array"
)


# ---- one partition


@dataclass(frozen=True)
class FilePartition:
    """A file that a worker opens; `reading` are options of `open_stream`, `columns` those that are standardized."""

    path: str
    format: str
    reading: Mapping[str, Any] = field(default_factory=dict)
    columns: Standardizer | None = None

    def chunks(
        self, start: Position | None = None, *, empty: bool = False, quarantine: str | None = None
    ) -> Iterator[Chunk]:
        """Yield the chunks of the file from a position on; earlier rows are read again and verified by checksum."""
        with open_stream([self.path], self.format, quarantine=quarantine, **self.reading) as stream:
            for chunk in stream.chunks(start, empty=empty):
                yield standardized(chunk, self.columns, np.dtype(stream.dtype).type)

    @property
    def quarantines(self) -> bool:
        """Whether bad rows are quarantined."""
        return self.reading.get("on_error") == "quarantine"


@dataclass(frozen=True)
class Partition:
    """One partition: features, labels and weights as objects of Dask, or a file.

    `data` is a Delayed, a Future or a FilePartition; `y` and `c` are Delayed or Future if they are separate.
    """

    number: int
    data: Any
    y: Any = None
    c: Any = None

    @property
    def is_file(self) -> bool:
        """Whether it is read from a file."""
        return isinstance(self.data, FilePartition)

    @property
    def in_memory(self) -> bool:
        """Whether its rows are in the memory of the workers anyway."""
        return isinstance(self.data, Future)

    def load(self, client: Client, workers: list[str] | None = None) -> Any:
        """Return the argument of `batches` on a worker: a future of the rows in memory, or the description of a file.

        Delayed values are computed on one of `workers`, if given and alive.
        """
        if self.is_file:
            return self.data
        there = {} if workers is None else {"workers": workers, "allow_other_workers": True}
        data, y, c = (_compute(client, value, **there) for value in (self.data, self.y, self.c))
        return client.submit(assemble, self.number, data, y, c, **there)


def _compute(client: Client, value: Any, **there: Any) -> Any:
    return client.compute(value, **there) if isinstance(value, Delayed) else value


def assemble(number: int, data: Any, y: Any = None, c: Any = None) -> list[Batch]:
    """Return the rows of a partition, on the worker that has them; an error names its number, from 0."""
    try:
        if y is not None:
            return [_batch((data, y) if c is None else (data, y, c))]
        elements = data if isinstance(data, list) else [data]
        return [batch for batch in map(_batch, elements) if batch.n_rows]
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from None


def _batch(element: Any) -> Batch:
    X, y, _, c = element_parts(element, ranks=False)
    y = np.asarray(y)
    if isinstance(X, RowBlock):
        X.check()
    else:
        X = checked_matrix(X) if issparse(X) else np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix, got shape {X.shape}")
        if X.dtype != np.float32:
            X = X.astype(np.float64, copy=False)
    # A sparse matrix becomes a block here, once, not in every round.
    batch = Batch(as_block(X, checked=True), y, columns=X.shape[1]) if issparse(X) else Batch(X, y)
    if y.shape != (batch.n_rows,):
        raise ValueError(f"{batch.n_rows} rows need as many labels, got y of shape {y.shape}")
    return batch._replace(c=check_weights(c, batch.n_rows))


def batches(part: FilePartition | list[Batch]) -> Iterator[Batch]:
    """Yield the rows of a loaded partition, on a worker: a file chunk by chunk, never completely in memory."""
    if isinstance(part, FilePartition):
        for chunk in part.chunks():
            yield Batch(chunk.rows, chunk.rows.y, chunk.rows.c)
    else:
        yield from part


def to_row_block(part: FilePartition | list[Batch], encode: Callable[[Batch], Batch], dtype: Any = None) -> RowBlock:
    """Return a loaded partition as one row block, on a worker, with labels encoded by `encode`."""
    made = [block for batch in batches(part) for block, _ in blocks(encode(batch))]
    if not made:
        return as_block(np.zeros((0, 0), dtype or np.float64), [], [])
    if dtype is None:
        dtype = np.float32 if all(block.data.dtype == np.float32 for block in made) else np.float64
    return RowBlock.concat(made).in_precision(dtype)


# ---- all partitions


@dataclass(frozen=True)
class Partitions:
    """The partitions in order, with what is known without reading rows.

    rows : rows per partition, None if they would have to be counted
    n_features : columns, None if rows would have to be read
    dtype : of the features, None if rows would have to be read
    names : columns of a data frame
    features : how columns and names of files become features, as decided by the first file
    columns : names and statistics of the columns that are standardized
    """

    parts: tuple[Partition, ...]
    rows: tuple[int, ...] | None = None
    n_features: int | None = None
    dtype: Any = None
    names: tuple[str, ...] = ()
    features: FeatureSpec | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def from_files(self) -> bool:
        """Whether the partitions are files."""
        return self.parts[0].is_file


def make_partitions(X: Any, y: Any = None, sample_weight: Any = None, **reading: Any) -> Partitions:
    """Return the partitions of data; nothing is computed, and only the head of a table is read.

    Parameters
    ----------
    X : dask array (of dense or scipy.sparse blocks), data frame, bag, list of delayed values or futures, or paths
        A bag, delayed value or future without y holds RowBlock, (X, y) or (X, y, sample_weight), or a list of these.
        Paths, globs and URIs must mean the same file on every worker.
    y : dask array or series, column of the frame, list of delayed values or futures, or local array, optional
        Labels, chunked as X. Files contain their own.
    sample_weight : as y
    **reading
        For files: `format`, `features`, all that `open_stream` takes, and `fixed_statistics`, by which numbers are
        standardized: True takes those of the first rows, an array the statistics of a model that is continued.

    Examples
    --------
    >>> import dask.array as da
    >>> found = make_partitions(da.ones((100, 3), chunks=(40, 3)), da.ones(100, chunks=40))
    >>> len(found), found.rows, found.n_features
    (3, (40, 40, 20), 3)
    """
    if isinstance(X, (str, os.PathLike)) or (
        isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(one, (str, os.PathLike)) for one in X)
    ):
        if y is not None or sample_weight is not None:
            raise TypeError("files contain labels and weights: y and sample_weight must be None")
        return _of_files(list(X) if isinstance(X, (list, tuple)) else [X], **reading)
    if reading:
        options = ", ".join(f"{name}=" for name in reading)
        raise TypeError(f"{options} applies to file inputs only, got {_describe(X)}")
    if isinstance(X, da.Array):
        return _of_array(X, y, sample_weight)
    if _is_frame(X):
        return _of_frame(X, y, sample_weight)
    if isinstance(X, db.Bag):
        return _of_list(X.to_delayed(), y, sample_weight)
    if isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(one, (Delayed, Future)) for one in X):
        return _of_list(list(X), y, sample_weight)
    raise TypeError(f"X must be {ACCEPTED}; got {type(X).__name__}")


def _describe(X: Any) -> str:
    return f"{'dask ' if dask.is_dask_collection(X) else ''}{type(X).__name__}"


def _is_frame(X: Any) -> bool:
    return dask.is_dask_collection(X) and hasattr(X, "to_delayed") and hasattr(X, "columns")


def _of_array(X: da.Array, y: Any, c: Any) -> Partitions:
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix, got a dask array of {X.ndim} dimensions")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    sizes, width = X.chunks[0], X.shape[1]
    rows = None if any(math.isnan(size) for size in sizes) else tuple(map(int, sizes))
    made = _pair_up(X.to_delayed().ravel().tolist(), _column("y", y, sizes), _column("sample_weight", c, sizes))
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    return Partitions(made, rows, None if math.isnan(width) else int(width), dtype)


def _of_frame(X: Any, y: Any, c: Any) -> Partitions:
    held = {name: given for name, given in (("y", y), ("sample_weight", c)) if isinstance(given, str)}
    for name, column in held.items():
        if column not in X.columns:
            raise ValueError(f"{name} must be a column of the frame, one of {', '.join(X.columns)}, got {column!r}")
    y, c = (X[given] if isinstance(given, str) else given for given in (y, c))
    features = X.drop(columns=list(held.values())) if held else X
    sizes = (math.nan,) * X.npartitions
    made = _pair_up(features.to_delayed(), _column("y", y, sizes), _column("sample_weight", c, sizes))
    names = tuple(map(str, features.columns))
    dtype = np.float32 if all(kind == np.float32 for kind in features.dtypes) else np.float64
    return Partitions(made, None, len(names), dtype, names)


def _of_list(values: list[Any], y: Any, c: Any) -> Partitions:
    if y is None and c is not None:
        raise TypeError("sample_weight needs y, got y=None")
    sizes = (math.nan,) * len(values)
    return Partitions(
        _pair_up(values, None if y is None else _column("y", y, sizes), _column("sample_weight", c, sizes))
    )


def _pair_up(data: list[Any], y: list[Any] | None, c: list[Any] | None) -> tuple[Partition, ...]:
    if not data:
        raise ValueError("X must have at least one partition, got none")
    for name, values in (("y", y), ("sample_weight", c)):
        if values is not None and len(values) != len(data):
            raise ValueError(f"{name} must have {len(data)} partitions like X, got {len(values)}")
    return tuple(Partition(i, one, y and y[i], c and c[i]) for i, one in enumerate(data))


def _column(name: str, given: Any, sizes: Sequence[float]) -> list[Any] | None:
    """Return labels or weights as one value per partition, chunked as X if its chunks are known."""
    if given is None:
        if name == "y":
            raise TypeError("y is missing: pass labels with X")
        return None
    if isinstance(given, (list, tuple)) and given and all(isinstance(one, (Delayed, Future)) for one in given):
        return list(given)
    known = not any(math.isnan(size) for size in sizes)
    if not dask.is_dask_collection(given):
        given = np.asarray(given)
        if not known:
            raise TypeError(f"{name} must be a dask collection, since the chunk sizes of X are unknown; got an array")
        if given.shape != (sum(sizes),):
            raise ValueError(f"{name} must have shape ({sum(sizes):g},), one value per row of X, got {given.shape}")
        given = da.from_array(given, chunks=(tuple(sizes),))
    if isinstance(given, da.Array):
        if given.ndim != 1:
            raise ValueError(f"{name} must be a vector, got a dask array of {given.ndim} dimensions")
        if known and not math.isnan(given.shape[0]):
            if given.shape[0] != sum(sizes):
                raise ValueError(f"{name} must have {sum(sizes):g} rows like X, got {given.shape[0]}")
            given = given.rechunk((tuple(sizes),))
        return list(given.to_delayed().ravel())
    if hasattr(given, "to_delayed"):
        return list(given.to_delayed())
    raise TypeError(f"{name} must be a dask array or series, or a list of delayed values, got {type(given).__name__}")


def _of_files(
    paths: list[Any],
    format: str | None = None,
    features: Any = None,
    fixed_statistics: bool | Array = False,
    **reading: Any,
) -> Partitions:
    if reading.get("on_error") == "quarantine":
        raise ValueError("on_error='quarantine' writes one file and does not work on a cluster: use 'stop' or 'skip'")
    for path in paths:
        if isinstance(path, Handle) or is_piped(os.fspath(path)):
            raise ValueError(
                f"{getattr(path, 'name', path)}: a pipe can only be read here; on a cluster pass files that "
                "every worker can open"
            )
    found = [source.name for source in sources(paths)]
    names = [name if is_uri(name) else os.path.abspath(name) for name in found]
    with open_stream(names, format, features=features, **reading) as stream:
        formats, dtype = stream.formats, stream.dtype
        next(stream.chunks(), None)
        made = stream.used_featurizer
        if made is not None and made.standardizes and fixed_statistics is not False:
            fix_statistics(made, stream.chunks(), None if fixed_statistics is True else fixed_statistics)
    spec = None if made is None else made.spec
    if spec is not None and (spec.bits is None or spec.names):
        raise ValueError(
            "names=True and bits=None number features in the order of the rows, which workers do not share: on a "
            "cluster hash the features, for example with FeatureSpec(bits=22)"
        )
    if spec is not None and spec.offset is not None:
        raise ValueError(f"an offset (column {spec.offset!r}) does not work on a cluster: train in one process")
    columns = made.standardizer if made is not None and made.standardizes else None
    if columns is not None and fixed_statistics is False:
        raise ValueError("standardize=True does not work on a cluster, whose lanes would have different means")
    options = {**reading, "features": spec} if spec is not None else reading
    parts = tuple(
        Partition(i, FilePartition(name, kind, options, columns))
        for i, (name, kind) in enumerate(zip(names, formats, strict=True))
    )
    n_features = 1 << spec.bits if spec is not None and spec.bits else None
    known: dict[str, Array] = {}
    if made is not None and columns is not None:
        n_features, known = columns.first + columns.n_columns, made.arrays()
    return Partitions(parts, None, n_features, np.dtype(dtype).type, (), spec, known)


# ---- the survey


class Survey(NamedTuple):
    """Statistics of all partitions: rows of each, features, precision, distinct labels and their counts."""

    rows: tuple[int, ...]
    n_features: int
    dtype: Any
    labels: Array
    counts: Array


def survey(client: Client, parts: Partitions, *, labels: bool = True) -> Survey:
    """Read all partitions on the workers; only counts and distinct labels are sent.

    Parameters
    ----------
    client : Client
    parts : Partitions
    labels : bool
        Collect the distinct labels and their counts (for classes, not for regression).
    """
    run = uuid4().hex
    shape = parts.n_features, parts.dtype
    if all(part.y is not None for part in parts.parts) and None not in shape:
        surveys = [
            client.submit(_survey_labels, _compute(client, part.y), *shape, labels, key=f"proxstream-labels-{run}-{i}")
            for i, part in enumerate(parts.parts)
        ]
    else:
        surveys = [
            client.submit(_survey_rows, part.load(client), labels, key=f"proxstream-survey-{run}-{i}")
            for i, part in enumerate(parts.parts)
        ]
    found: Survey = tree(client, merge_surveys, surveys, f"proxstream-survey-sum-{run}").result()
    if not sum(found.rows):
        raise ValueError("the partitions have no rows to learn from")
    return found._replace(n_features=parts.n_features or found.n_features)


def _survey_labels(y: Any, n_features: int, dtype: Any, labels: bool) -> Survey:
    y = np.asarray(y)
    distinct, counts = np.unique(y, return_counts=True) if labels else (y[:0], np.empty(0, np.int64))
    return Survey((len(y),), n_features, dtype, distinct, counts)


def _survey_rows(part: FilePartition | list[Batch], labels: bool) -> Survey:
    total, rows, n_features, single = None, 0, 0, True
    for batch in batches(part):
        rows, n_features = rows + batch.n_rows, max(n_features, batch.n_features)
        single = single and batch.dtype == np.float32
        one = _survey_labels(batch.y, 0, None, labels)
        total = one if total is None else merge_surveys([total, one])
    dtype = np.float32 if single else np.float64
    if total is None:
        return Survey((0,), 0, np.float32, np.empty(0), np.empty(0, np.int64))
    return Survey((rows,), n_features, dtype, total.labels, total.counts)


def merge_surveys(surveys: list[Survey]) -> Survey:
    """Return the survey of several partitions."""
    rows = tuple(n for one in surveys for n in one.rows)
    several = [one for one in surveys if len(one.labels)] or surveys[:1]
    labels, at = np.unique(np.concatenate([one.labels for one in several]), return_inverse=True)
    counts = np.bincount(at, np.concatenate([one.counts for one in several]), len(labels)).astype(np.int64)
    dtype = np.float32 if all(one.dtype == np.float32 for one in surveys) else np.float64
    return Survey(rows, max(one.n_features for one in surveys), dtype, labels, counts)
