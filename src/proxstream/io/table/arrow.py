"""Tables: Arrow files, data frames, matrices; from record batches to chunks.

A columnar file is not read from its first to its last byte, so its checksum covers its size, its first and its last
bytes, which contain the positions and statistics of all columns. Tables in memory are not checked.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from ...core.records import NamedTuple
from ...core.validation import Array
from ...data.rowblock import NO_WEIGHTS, RowBlock, as_block
from ...data.sparse_checks import check_sparse
from ..features.featurizer import SALTS, Featurizer, listed
from ..features.spec import LABEL, OFFSETS, ROLES
from ..formats import Job, changed
from ..sources import Source
from ..text.reader import Checksum, check_highest, no_rows
from ..types import MAX_OFFSET, Accepted, Chunk, DataError, Position, Settings
from .columns import Bad, TableRows, as_numbers, as_strings, decoded, fillers_of, kind_of, kinds, shown

CELLS, ROWS = 1 << 18, 4000  # made at once, at most; with 2^12, cells of a row would share cache sets
EDGE = 1 << 16  # bytes at both ends of a file that are checked
INDEX = re.compile(r"__index_level_\d+__")  # how pandas writes an index without a name


class Scanned(NamedTuple):
    """The rows of a batch, with their labels, weights, qid and offset, and what cannot be used, by row."""

    rows: TableRows
    y: Array
    c: Array
    qid: Array | None
    offset: Array | None
    bad: list[Bad]


class Needed(NamedTuple):
    """Numbers that every row needs: their range, and how errors describe them."""

    low: float
    high: float
    words: str


WEIGHTS = Needed(0.0, np.inf, "a weight of at least 0")


class Batches:
    """Makes row blocks of the record batches of one table."""

    def __init__(self, settings: Settings, columns: list[str], labels: Accepted | None = None) -> None:
        self._featurizer, self._accepted, self._label_texts = settings.featurizer, labels, settings.label_texts
        self._fillers = fillers_of(self._featurizer)
        self._roles = {role: self._featurizer.role(role, columns) for role in ROLES}
        self.most_rows = max(1, min(ROWS, CELLS // max(len(self._featurizer.columns), 1)))

    def scan(self, batch: Any) -> Scanned:
        """Hash a batch and find what cannot be used; no names are remembered yet."""
        rows = TableRows(batch, self._featurizer, self._fillers)
        rows.cells(SALTS[0])
        bad = list(rows.bad)
        y, c, qid, offset = np.full(batch.num_rows, np.nan), NO_WEIGHTS, None, None
        label, weight, query, offset_column = (self._roles[role] for role in ROLES)
        if label is not None:
            y = self._numbers(batch, label, bad) if self._label_texts is None else self._texts(batch, label, bad)
        if self._accepted is not None:
            bad += refused(y, label or LABEL, self._accepted)
        if weight is not None:
            c = self._numbers(batch, weight, bad, WEIGHTS)
        if query is not None:
            qid = self._queries(batch, query, bad)
        if offset_column is not None:
            offset = self._numbers(batch, offset_column, bad, Needed(-MAX_OFFSET, MAX_OFFSET, OFFSETS))
        first: dict[int, Bad] = {}
        for one in bad:
            first.setdefault(one.row, one)
        return Scanned(rows, y, c, qid, offset, [first[row] for row in sorted(first)])

    def block(self, scanned: Scanned) -> RowBlock:
        """Return the rows that were scanned."""
        featurizer, rows = self._featurizer, scanned.rows
        arrays = featurizer.bucketed(rows.cells(SALTS[0])) if featurizer.plain else featurizer.numbered(rows)
        return RowBlock(*arrays, scanned.y, scanned.c)

    def _texts(self, batch: Any, name: str, bad: list[Bad]) -> Array:
        """Return the numbers of label texts, NaN where there is none."""
        texts, nulls = self._label_texts or {}, {"", *self._featurizer.spec.nulls}
        coded = as_strings(batch.column(name)).dictionary_encode()
        words = [decoded(value).strip(" ") for value in coded.dictionary.to_pylist()]
        known = np.array([*(texts.get(word, np.nan) for word in words), np.nan])
        unknown = np.array([*(word not in texts and word not in nulls for word in words), False])
        codes = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(unknown[codes]).tolist():
            bad.append(Bad(row, name, f"found {shown(words[codes[row]])}, expected one of {listed(texts)}"))
        return np.asarray(known[codes])

    def _numbers(self, batch: Any, name: str, bad: list[Bad], needed: Needed | None = None) -> Array:
        """Return labels, NaN where there is none, or numbers of which each row needs one."""
        column = batch.column(name)
        numbers, _, _ = as_numbers(column, set(self._featurizer.spec.nulls))
        numbers = numbers.astype(np.float64)
        null = missing(column, self._featurizer)
        wrong = ~np.isfinite(numbers) & ~null
        if needed is not None:
            wrong |= null | ~((numbers >= needed.low) & (numbers <= needed.high))
        expected = "a finite number" if needed is None else needed.words
        for row in np.flatnonzero(wrong).tolist():
            bad.append(Bad(row, name, f"found {shown(column[row])}, expected {expected}"))
        numbers[null] = np.nan
        return numbers

    def _queries(self, batch: Any, name: str, bad: list[Bad]) -> Array:
        """Return the qid of each row: an integer, or the hash of a string."""
        from ..features._hash import hash_name

        qid = np.zeros(batch.num_rows, np.int64)
        for row, value in enumerate(as_strings(batch.column(name)).to_pylist()):
            text = value if isinstance(value, bytes) else str(value or "").encode()
            if not text:
                bad.append(Bad(row, name, "found nothing, expected a value"))
            else:
                qid[row] = int(text) if re.fullmatch(rb"-?\d{1,18}", text) else hash_name(text)
        return qid


def refused(y: Array, label: str, accepted: Accepted) -> Iterator[Bad]:
    """Yield the rows whose label is not accepted."""
    for row in np.flatnonzero(~accepted.good(y)).tolist():
        found = "no label" if np.isnan(y[row]) else f"the label {y[row]:g}"
        yield Bad(row, label, f"found {found}, expected {accepted.words}")


def missing(column: Any, featurizer: Featurizer) -> Array:
    """Return where a column has no value."""
    null = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    if kind_of(column.type) == "categorical" and str(column.type) != "bool":
        words = {"", *featurizer.spec.nulls}
        null = null | np.array([str(value or "").strip(" ") in words for value in column.to_pylist()], np.bool_)
    return null


def read_arrow(job: Job) -> Iterator[Chunk]:
    """Read an Arrow IPC file, also known as feather, or a stream of the same."""
    from pyarrow import ipc

    check = checked(job)
    with ExitStack() as stack:
        file = stack.enter_context(opened(job, stack))
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        with refusals(job):
            reader = ipc.open_file(file) if is_file else ipc.open_stream(file)
        needed = needed_of(job, reader.schema)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else iter(reader)
        yield from read_batches(job, Table(batches, needed, job.start.row, check, lambda row: file.tell()))


def read_frame(job: Job) -> Iterator[Chunk]:
    """Read a data frame or table through the Arrow interfaces, without copying its buffers."""
    import pyarrow as pa

    thing = job.source.thing
    with refusals(job):
        if hasattr(thing, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(thing)
        elif hasattr(thing, "__arrow_c_array__"):
            batch = pa.record_batch(thing)
            reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
        else:
            reader = pa.Table.from_pandas(thing).to_reader()
    index = _index_of(reader.schema)
    named = pa.schema([field for field in reader.schema if field.name not in index])
    yield from read_batches(job, Table(iter(reader), needed_of(job, named), job.start.row, job.seed, lambda row: 0))


def _index_of(schema: Any) -> list[str]:
    """Return the columns that pandas marks as the index of a frame; a range index has none."""
    names = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    return [name for name in names if isinstance(name, str)]


class Table(NamedTuple):
    """Record batches; which columns of them are needed, and how many rows were read before.

    `check` is the source's checksum, `stored(row)` the bytes read of it after so many rows.
    """

    batches: Iterator[Any]
    needed: list[str]
    skip: int
    check: int
    stored: Callable[[int], int]


class TableBlock(NamedTuple):
    """Rows of a table, their qid and offset, and how many rows of the table precede their end, including bad ones."""

    rows: RowBlock
    qid: Array | None
    offset: Array | None
    row: int


def read_batches(job: Job, table: Table) -> Iterator[Chunk]:
    """Yield the rows of a table. The last chunk waits for the end, since it gets the bytes that are left."""
    before = table.stored(job.start.row) if job.start.row else 0
    last = Chunk(no_rows(job.settings.dtype), None, job.start._replace(check=table.check), 0)
    for rows, qid, offset, row in _blocks(job, table):
        stored = table.stored(row)
        end = job.bad_rows.mark(Position(job.start.file, row, 0, table.check))
        if last.rows.n_rows:
            yield last
        last = Chunk(rows, qid, end._replace(names=len(job.settings.featurizer.names)), stored - before, offset)
        before = stored
    if not job.closed():
        yield last._replace(n_bytes=last.n_bytes + max((job.source.size or 0) - before, 0))


def _blocks(job: Job, table: Table) -> Iterator[TableBlock]:
    """Yield row blocks of a table's batches, whose first `table.skip` rows are skipped."""
    maker, skip, row = Batches(job.settings, table.needed, job.settings.labels), table.skip, job.start.row
    for nested in _guarded(job, table.batches):
        batch = flat(nested)
        for start in range(min(skip, batch.num_rows), batch.num_rows, maker.most_rows):
            if job.closed():
                return
            piece = batch.slice(start, maker.most_rows)
            scanned = maker.scan(piece)
            if scanned.bad:
                scanned = maker.scan(_without(job, piece, row, scanned.bad))
            row += piece.num_rows
            yield TableBlock(maker.block(scanned), scanned.qid, scanned.offset, row)
        skip = max(0, skip - batch.num_rows)


def _without(job: Job, batch: Any, row: int, bad: list[Bad]) -> Any:
    """Report the bad rows of a batch that begins at this row; return the others."""
    import pyarrow as pa

    good = np.ones(batch.num_rows, np.bool_)
    for one in bad:
        error = DataError(f"{job.source.name}:{row + one.row + 1}:{one.column}: {one.words}")
        try:
            text = json.dumps(batch.slice(one.row, 1).to_pylist()[0], default=str).encode()
        except pa.ArrowException:  # a code beyond its dictionary: there is nothing to show
            text = b""
        job.bad_rows.take(error, text)
        good[one.row] = False
    return batch.filter(pa.array(good))


def read_matrix(job: Job) -> Iterator[Chunk]:
    """Read a dense or sparse matrix X, or (X, y) or (X, y, weights); `qid` gives the qid of rows."""
    from scipy.sparse import issparse

    thing = job.source.thing
    X, y, c = (*thing, None, None)[:3] if isinstance(thing, tuple) else (thing, None, None)
    try:
        if issparse(X):
            check_sparse(X)
    except (TypeError, ValueError) as error:
        raise DataError(f"{job.source.name}: {error}") from None
    X = X.tocsr() if issparse(X) else np.asarray(X)
    n_rows = X.shape[0]
    for name, one in (("y", y), ("weights", c), ("qid", job.settings.qid)):
        if one is not None and np.shape(one) != (n_rows,):
            raise DataError(f"{job.source.name}: found {name} of shape {np.shape(one)}, expected ({n_rows},)")
    y = np.full(n_rows, np.nan) if y is None else np.asarray(y, np.float64)
    qid = None if job.settings.qid is None else np.asarray(job.settings.qid)
    for start in range(job.start.row, n_rows, ROWS):
        stop = min(start + ROWS, n_rows)
        weights = None if c is None else np.asarray(c)[start:stop]
        rows = as_block(X[start:stop], y[start:stop], weights, job.settings.dtype, checked=True)
        try:
            rows.check_finite()
        except ValueError as error:
            raise DataError(f"{job.source.name}: {error}, which begins at row {start}") from None
        check_highest(job, rows, start)
        end = Position(job.start.file, stop, 0, job.seed)
        yield Chunk(rows, None if qid is None else qid[start:stop], job.bad_rows.mark(end), int(rows.data.nbytes))
    if job.start.row >= n_rows:
        end = Position(job.start.file, n_rows, 0, job.seed)
        yield Chunk(no_rows(job.settings.dtype), None, job.bad_rows.mark(end), 0)


def same(source: Source, seed: int, closed: Callable[[], bool]) -> int:
    """Return the checksum of what is in memory, which is not checked."""
    return seed


def checksum(source: Source, seed: int, closed: Callable[[], bool]) -> int:
    """Return the checksum of a columnar file: of its size and of its ends."""
    check = Checksum(seed)
    with source.native() as file:
        size = file.size()
        text = size.to_bytes(8, "little") + file.read(EDGE)
        file.seek(max(0, size - EDGE))
        text += file.read(EDGE)
    check.update(np.frombuffer(text, np.uint8), 0, len(text))
    return check.value()


def checked(job: Job) -> int:
    """Return the file's checksum; refuse a file that has changed since `job.start`."""
    check = checksum(job.source, job.seed, job.closed)
    if job.start.row and check != job.start.check:
        raise changed(job)
    return check


def opened(job: Job, stack: ExitStack) -> Any:
    """Return a file of random access; one that is compressed is unpacked to disk."""
    import pyarrow as pa

    if job.source.compression is None:
        return job.source.native()
    unpacked = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    with job.source.open(job.closed) as opened:
        piece = bytearray(1 << 20)
        while n := opened.readinto(memoryview(piece)):
            unpacked.write(piece[:n])
    unpacked.seek(0)
    return pa.PythonFile(unpacked, mode="r")


class refusals:  # noqa: N801 - a context manager, used as a function
    """Errors of pyarrow become errors that name the source."""

    def __init__(self, job: Job) -> None:
        self._name = job.source.name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        import pyarrow as pa

        broken = isinstance(error, (pa.ArrowException, UnicodeDecodeError))  # the latter of a name
        if broken or (isinstance(error, OSError) and error.errno is None):
            raise DataError(f"{self._name}: {' '.join(str(error).split()).rstrip('. ')}") from None


def _guarded(job: Job, batches: Iterator[Any]) -> Iterator[Any]:
    while True:
        with refusals(job):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def flat_schema(schema: Any) -> Any:
    """Return a schema in which a struct's fields are separate columns, `a.b`."""
    import pyarrow as pa

    while any(pa.types.is_struct(field.type) for field in schema):
        schema = pa.schema([part for field in schema for part in field.flatten()])
    return schema


def flat(batch: Any) -> Any:
    """Return a batch in which a struct's fields are separate columns."""
    import pyarrow as pa

    if not any(pa.types.is_struct(field.type) for field in batch.schema):
        return batch
    table = pa.Table.from_batches([batch])
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table.combine_chunks().to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)


def needed_of(job: Job, schema: Any) -> list[str]:
    """Decide what the columns of a table mean; return those that have to be read."""
    flattened = flat_schema(schema)
    featurizer = job.settings.featurizer
    found = {name: kind for name, kind in kinds(flattened).items() if not INDEX.fullmatch(name)}
    featurizer.decide(found, job.source.name, labelled=job.settings.labels is not None)
    wanted = {column.name for column in featurizer.columns}
    wanted |= {name for role in ROLES if (name := featurizer.role(role, list(found))) is not None}
    for name in wanted:
        if flattened.names.count(name) > 1:
            raise DataError(f"{job.source.name}: found several columns {name!r}, expected one")
    return [name for name in found if name in wanted]
