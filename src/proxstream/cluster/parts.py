"""Partitions: what users have on a cluster, as an ordered list of pieces that workers turn into rows.

    dask array, frame, bag, delayed values, futures -> a task a partition, run by the worker that has the data
    paths, globs, URIs                              -> a description a file, which a worker opens and reads

What moves over the network: descriptions of tasks and files, never rows, unless Dask itself moves a partition to a
worker that is free. The client reads no rows but the head of the first file, where a table's columns are decided for
all. A partition is described by a `Part`; `Part.load` asks the cluster for it and returns a future (or, for a file,
the description itself), and `batches`, on the worker, yields its rows with labels as they were given.

`survey` tells the number of rows, features and classes by a reduction on the workers: of arrays and frames only the
labels are looked at, of other partitions all rows, of files the whole files. Declared classes spare that pass.
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

from .._checks import Array
from ..blocks import NO_WEIGHTS, RowBlock, as_block
from ..estimators.base import weights
from ..estimators.rows import Batch, blocks, element_parts
from ..streams import open_stream
from ..streams.base import Chunk, Position
from ..streams.features import FeatureSpec
from ..streams.sources import is_pipe, is_uri, sources
from .clients import tree

ACCEPTED = (
    "a dask array, data frame or bag, a list of delayed values or futures, or paths and globs; local matrices are "
    "for StreamClassifier and the like, or become dask arrays with dask.array.from_array"
)


# ---- one partition


@dataclass(frozen=True)
class FilePart:
    """A file that a worker opens; `reading` are options of `open_stream`."""

    path: str
    format: str
    reading: Mapping[str, Any] = field(default_factory=dict)

    def chunks(
        self, start: Position | None = None, *, empty: bool = False, quarantine: str | None = None
    ) -> Iterator[Chunk]:
        """Yield the file's chunks from a position on; the rows before it are read again and compared by checksum."""
        with open_stream([self.path], self.format, quarantine=quarantine, **self.reading) as stream:
            yield from stream.chunks(start, empty=empty)

    @property
    def quarantines(self) -> bool:
        """Whether bad rows are kept."""
        return self.reading.get("on_error") == "quarantine"


@dataclass(frozen=True)
class Part:
    """One partition: features, labels and weights as Dask knows them, or a file.

    `data` is a Delayed, a Future or a FilePart; `y` and `c` are Delayed or Future where they are apart from it.
    """

    number: int
    data: Any
    y: Any = None
    c: Any = None

    @property
    def is_file(self) -> bool:
        """Whether it is read from a file."""
        return isinstance(self.data, FilePart)

    @property
    def held(self) -> bool:
        """Whether its rows are in the workers' memory anyway."""
        return isinstance(self.data, Future)

    def load(self, client: Client, workers: list[str] | None = None) -> Any:
        """Return what `batches` takes on a worker: a future of the rows in memory, or the file's description.

        Delayed values are computed on one of `workers`, if they are told and alive.
        """
        if self.is_file:
            return self.data
        there = {} if workers is None else {"workers": workers, "allow_other_workers": True}
        data, y, c = (_asked(client, value, **there) for value in (self.data, self.y, self.c))
        return client.submit(assembled, self.number, data, y, c, **there)


def _asked(client: Client, value: Any, **there: Any) -> Any:
    return client.compute(value, **there) if isinstance(value, Delayed) else value


def assembled(number: int, data: Any, y: Any = None, c: Any = None) -> list[Batch]:
    """Return a partition's rows, on the worker that has them; an error tells its number, from 0."""
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
    if not isinstance(X, RowBlock):
        X = X if issparse(X) else np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix, got shape {X.shape}")
        if X.dtype != np.float32:
            X = X.astype(np.float64, copy=False)
    batch = Batch(as_block(X), y, columns=X.shape[1]) if issparse(X) else Batch(X, y)  # once, not in every round
    if y.shape != (batch.n_rows,):
        raise ValueError(f"{batch.n_rows} rows need as many labels, got y of shape {y.shape}")
    return batch._replace(c=weights(c, batch.n_rows))


def batches(part: FilePart | list[Batch]) -> Iterator[Batch]:
    """Yield a loaded partition's rows, on a worker: of a file a chunk at a time, never whole in memory."""
    if isinstance(part, FilePart):
        for chunk in part.chunks():
            yield Batch(chunk.rows, chunk.rows.y, chunk.rows.c)
    else:
        yield from part


def whole(part: FilePart | list[Batch], labelled: Callable[[Batch], Batch], dtype: Any = None) -> RowBlock:
    """Return a loaded partition as one row block, on a worker, with labels as `labelled` makes them."""
    made = [block for batch in batches(part) for block, _ in blocks(labelled(batch))]
    if not made:
        return as_block(np.zeros((0, 0), dtype or np.float64), [], [])
    if dtype is None:
        dtype = np.float32 if all(block.data.dtype == np.float32 for block in made) else np.float64
    pointers = [np.zeros(1, np.int64)]
    for block in made:
        pointers.append(block.indptr[1:] - block.indptr[0] + pointers[-1][-1])
    cells = [slice(block.indptr[0], block.indptr[-1]) for block in made]
    weighted = any(len(block.c) for block in made)
    return RowBlock(
        np.concatenate(pointers),
        np.concatenate([block.indices[at] for block, at in zip(made, cells, strict=True)]),
        np.concatenate([block.data[at] for block, at in zip(made, cells, strict=True)]).astype(dtype, copy=False),
        np.concatenate([block.y for block in made]),
        np.concatenate([block.c if len(block.c) else np.ones(block.n_rows) for block in made])
        if weighted
        else NO_WEIGHTS,
    )


# ---- all partitions


@dataclass(frozen=True)
class Parts:
    """The partitions in order, with what is known of them without a look at the rows.

    rows : rows a partition, None where they would have to be counted
    n_features : columns, None where rows would have to be read
    dtype : of the features, None likewise
    names : columns of a data frame
    features : how files' columns and names become features, as decided by the first file
    """

    parts: tuple[Part, ...]
    rows: tuple[int, ...] | None = None
    n_features: int | None = None
    dtype: Any = None
    names: tuple[str, ...] = ()
    features: FeatureSpec | None = None

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def from_files(self) -> bool:
        """Whether they are files."""
        return self.parts[0].is_file


def parts_of(X: Any, y: Any = None, sample_weight: Any = None, **reading: Any) -> Parts:
    """Return the partitions of what a user has; nothing is computed and nothing is read but a table's head.

    Parameters
    ----------
    X : dask array (of dense or scipy.sparse blocks), data frame, bag, list of delayed values or futures, or paths
        A bag, delayed value or future without y holds RowBlock, (X, y) or (X, y, sample_weight), or a list of these.
        Paths, globs and URIs must mean the same file on every worker.
    y : dask array or series, column of the frame, list of delayed values or futures, or local array, optional
        Labels, cut as X is. A file brings its own.
    sample_weight : as y
    **reading
        For files: `format`, `features` and all that `open_stream` takes.

    Examples
    --------
    >>> import dask.array as da
    >>> found = parts_of(da.ones((100, 3), chunks=(40, 3)), da.ones(100, chunks=40))
    >>> len(found), found.rows, found.n_features
    (3, (40, 40, 20), 3)
    """
    if isinstance(X, (str, os.PathLike)) or (
        isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(one, (str, os.PathLike)) for one in X)
    ):
        if y is not None or sample_weight is not None:
            raise TypeError("files bring their own labels and weights: y and sample_weight must be None")
        return _of_files(list(X) if isinstance(X, (list, tuple)) else [X], **reading)
    if reading:
        raise TypeError(f"{', '.join(reading)}: told of files alone, got {type(X).__name__}")
    if isinstance(X, da.Array):
        return _of_array(X, y, sample_weight)
    if _is_frame(X):
        return _of_frame(X, y, sample_weight)
    if isinstance(X, db.Bag):
        return _listed(X.to_delayed(), y, sample_weight)
    if isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(one, (Delayed, Future)) for one in X):
        return _listed(list(X), y, sample_weight)
    raise TypeError(f"X must be {ACCEPTED}; got {type(X).__name__}")


def _is_frame(X: Any) -> bool:
    return dask.is_dask_collection(X) and hasattr(X, "to_delayed") and hasattr(X, "columns")


def _of_array(X: da.Array, y: Any, c: Any) -> Parts:
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix, got a dask array of {X.ndim} dimensions")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    sizes, width = X.chunks[0], X.shape[1]
    rows = None if any(math.isnan(size) for size in sizes) else tuple(map(int, sizes))
    made = _parted(X.to_delayed().ravel().tolist(), _column("y", y, sizes), _column("sample_weight", c, sizes))
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    return Parts(made, rows, None if math.isnan(width) else int(width), dtype)


def _of_frame(X: Any, y: Any, c: Any) -> Parts:
    held = {name: given for name, given in (("y", y), ("sample_weight", c)) if isinstance(given, str)}
    for name, column in held.items():
        if column not in X.columns:
            raise ValueError(f"{name} must be a column of the frame, one of {', '.join(X.columns)}, got {column!r}")
    y, c = (X[given] if isinstance(given, str) else given for given in (y, c))
    features = X.drop(columns=list(held.values())) if held else X
    sizes = (math.nan,) * X.npartitions
    made = _parted(features.to_delayed(), _column("y", y, sizes), _column("sample_weight", c, sizes))
    names = tuple(map(str, features.columns))
    dtype = np.float32 if all(kind == np.float32 for kind in features.dtypes) else np.float64
    return Parts(made, None, len(names), dtype, names)


def _listed(values: list[Any], y: Any, c: Any) -> Parts:
    if y is None and c is not None:
        raise TypeError("sample_weight needs y beside it, got None")
    sizes = (math.nan,) * len(values)
    return Parts(_parted(values, None if y is None else _column("y", y, sizes), _column("sample_weight", c, sizes)))


def _parted(data: list[Any], y: list[Any] | None, c: list[Any] | None) -> tuple[Part, ...]:
    if not data:
        raise ValueError("X must have at least one partition, got none")
    for name, values in (("y", y), ("sample_weight", c)):
        if values is not None and len(values) != len(data):
            raise ValueError(f"X has {len(data)} partitions, so must {name}; it has {len(values)}")
    return tuple(Part(i, one, y and y[i], c and c[i]) for i, one in enumerate(data))


def _column(name: str, given: Any, sizes: Sequence[float]) -> list[Any] | None:
    """Return labels or weights as a value a partition, cut as X is where that is known."""
    if given is None:
        if name == "y":
            raise TypeError("y must be given beside X, got None")
        return None
    if isinstance(given, (list, tuple)) and given and all(isinstance(one, (Delayed, Future)) for one in given):
        return list(given)
    known = not any(math.isnan(size) for size in sizes)
    if not dask.is_dask_collection(given):
        given = np.asarray(given)
        if not known:
            raise TypeError(
                f"{name} must be a dask collection, as the rows of X's partitions are not known; got an array"
            )
        if given.shape != (sum(sizes),):
            raise ValueError(f"{name} must have shape ({sum(sizes):g},) as X has rows, got {given.shape}")
        given = da.from_array(given, chunks=(tuple(sizes),))
    if isinstance(given, da.Array):
        if given.ndim != 1:
            raise ValueError(f"{name} must be a vector, got a dask array of {given.ndim} dimensions")
        if known and not math.isnan(given.shape[0]):
            if given.shape[0] != sum(sizes):
                raise ValueError(f"{name} must have {sum(sizes):g} rows as X has, got {given.shape[0]}")
            given = given.rechunk((tuple(sizes),))
        return list(given.to_delayed().ravel())
    if hasattr(given, "to_delayed"):
        return list(given.to_delayed())
    raise TypeError(f"{name} must be a dask array or series, or a list of delayed values, got {type(given).__name__}")


def _of_files(paths: list[Any], format: str | None = None, features: Any = None, **reading: Any) -> Parts:
    if reading.get("on_error") == "quarantine":
        raise ValueError("on_error='quarantine' keeps one file of bad rows: on a cluster it must be 'stop' or 'skip'")
    for path in map(os.fspath, paths):
        if path == "-" or is_pipe(path):
            raise ValueError(f"{path}: can be read once and here alone, expected files that every worker can open")
    found = [source.name for source in sources(paths)]
    names = [name if is_uri(name) else os.path.abspath(name) for name in found]
    with open_stream(names, format, features=features, **reading) as stream:
        formats, dtype = stream.formats, stream.dtype
        next(stream.chunks(), None)
        made = stream.used_featurizer
    spec = None if made is None else made.spec
    if spec is not None and (spec.bits is None or spec.names):
        raise ValueError(
            "names=True and bits=None keep names of features in the order in which they come, which workers do not "
            "share: on a cluster features must be hashed, as FeatureSpec(bits=22)"
        )
    told = {**reading, "features": spec} if spec is not None else reading
    parts = tuple(
        Part(i, FilePart(name, kind, told)) for i, (name, kind) in enumerate(zip(names, formats, strict=True))
    )
    return Parts(
        parts, None, 1 << spec.bits if spec is not None and spec.bits else None, np.dtype(dtype).type, (), spec
    )


# ---- the survey


class Survey(NamedTuple):
    """What is known of all partitions: rows each, features, their precision, the different labels and their counts."""

    rows: tuple[int, ...]
    n_features: int
    dtype: Any
    labels: Array
    counts: Array


def survey(client: Client, parts: Parts, *, labels: bool = True) -> Survey:
    """Look at all partitions on the workers, FANOUT results a task; what moves are counts and the different labels.

    Parameters
    ----------
    client : Client
    parts : Parts
    labels : bool
        Collect the different labels and their counts (of classes, not of numbers).
    """
    run = uuid4().hex
    shape = parts.n_features, parts.dtype
    if all(part.y is not None for part in parts.parts) and None not in shape:
        looks = [
            client.submit(_looked_at_labels, _asked(client, part.y), *shape, labels, key=f"proxstream-labels-{run}-{i}")
            for i, part in enumerate(parts.parts)
        ]
    else:
        looks = [
            client.submit(_looked, part.load(client), labels, key=f"proxstream-survey-{run}-{i}")
            for i, part in enumerate(parts.parts)
        ]
    found: Survey = tree(client, summed, looks, f"proxstream-survey-sum-{run}").result()
    if not sum(found.rows):
        raise ValueError("the partitions have no rows to learn from")
    return found._replace(n_features=parts.n_features or found.n_features)


def _looked_at_labels(y: Any, n_features: int, dtype: Any, labels: bool) -> Survey:
    y = np.asarray(y)
    different, counts = np.unique(y, return_counts=True) if labels else (y[:0], np.empty(0, np.int64))
    return Survey((len(y),), n_features, dtype, different, counts)


def _looked(part: FilePart | list[Batch], labels: bool) -> Survey:
    total, rows, n_features, single = None, 0, 0, True
    for batch in batches(part):
        rows, n_features = rows + batch.n_rows, max(n_features, batch.n_features)
        single = single and batch.dtype == np.float32
        look = _looked_at_labels(batch.y, 0, None, labels)
        total = look if total is None else summed([total, look])
    dtype = np.float32 if single else np.float64
    if total is None:
        return Survey((0,), 0, np.float32, np.empty(0), np.empty(0, np.int64))
    return Survey((rows,), n_features, dtype, total.labels, total.counts)


def summed(looks: list[Survey]) -> Survey:
    """Return surveys of some partitions as one."""
    rows = tuple(n for look in looks for n in look.rows)
    several = [look for look in looks if len(look.labels)] or looks[:1]
    labels, at = np.unique(np.concatenate([look.labels for look in several]), return_inverse=True)
    counts = np.bincount(at, np.concatenate([look.counts for look in several]), len(labels)).astype(np.int64)
    dtype = np.float32 if all(look.dtype == np.float32 for look in looks) else np.float64
    return Survey(rows, max(look.n_features for look in looks), dtype, labels, counts)
