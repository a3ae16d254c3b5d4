"""Parquet files: the short way where it goes, `pages`, and pyarrow where it does not.

    columns of pages -> cells -> rows         as long as features are plain, columns flat, and every value can be used
    record batches -> columns -> cells -> rows        from there on, which also tells what is wrong with a bad row

Both make the same rows. Columns that are not needed stay unread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from .._checks import Array
from ..blocks import NO_WEIGHTS, RowBlock
from .ahead import Ahead
from .base import Chunk
from .columns import ColumnFiller
from .features import ROLES
from .featurizer import SALTS, Cells, Featurizer
from .formats import Job
from .pages import CODECS, NUMBERS, STORED_AS, STRINGS, Form, Meaning, PagedColumn, Stored, UnfitError, parts_of
from .tables import Made, Table, by_rows, checked, made, most_rows, needed_of, opened, placed, refusals

BATCH = 1 << 15  # rows decoded at once by pyarrow
DECODED = 2  # such batches that wait at most
CODE_BYTES = 4  # a value, at most, in columns that pyarrow is told to read as codes
# Numbers that are what is stored, and no dates or such, or its lowest bits.
KEPT: dict[str, Any] = {name: np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16")}
KEPT |= {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
TEXTS = ("string", "large_string", "binary", "large_binary")
NO_NULLS = np.empty(0, np.uint32)


class File(NamedTuple):
    """An open file, with what it tells of itself, and the columns of it that are needed."""

    file: Any
    metadata: Any
    schema: Any
    needed: list[str]
    parts: Array  # what is told of each row group and column, nothing where that cannot be read
    sizes: list[int]  # rows of each row group
    paths: list[str]  # names of all columns, those within others behind the names of these

    def groups(self, row: int) -> tuple[list[int], int]:
        """Return the row groups that end behind a row, and how many rows of the first lie before it."""
        first = 0
        while first < len(self.sizes) and row >= self.sizes[first]:
            row -= self.sizes[first]
            first += 1
        return list(range(first, len(self.sizes))), row


def read(job: Job) -> Iterator[Chunk]:
    """Read a Parquet file, row group after row group."""
    import pyarrow.parquet as pq

    check = checked(job)
    with ExitStack() as stack:
        opened_file = stack.enter_context(opened(job, stack))
        with refusals(job):
            metadata = pq.read_metadata(opened_file)
            schema = metadata.schema.to_arrow_schema()
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        needed, parts = needed_of(job, schema), _parts(opened_file, metadata)
        file = File(opened_file, metadata, schema, needed, parts, sizes, paths)
        table = Table(iter(()), file.needed, 0, check, by_rows(job, metadata.num_rows))
        yield from placed(job, table, _made(job, file, table, stack))


def _parts(file: Any, metadata: Any) -> Array:
    try:
        return parts_of(file, metadata.num_row_groups, metadata.num_columns)
    except UnfitError:
        return np.empty((0, 0, 0), np.int64)


def _made(job: Job, file: File, table: Table, stack: ExitStack) -> Iterator[Made]:
    """Make row blocks: from pages to the end or the first row where that cannot be, then from record batches."""
    row = job.start.row
    for block in made_of_pages(job, file):
        yield block
        row = block.row
    groups, skip = file.groups(row)
    if groups and not job.closed():
        batches = stack.enter_context(Ahead(lambda closed: _batches(file, groups), DECODED))
        yield from made(job, table._replace(batches=batches, skip=skip), row)


def _batches(file: File, groups: list[int]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    names = file.schema.names
    columns = list(dict.fromkeys(name if name in names else name.split(".")[0] for name in file.needed))
    reader = pq.ParquetFile(file.file, metadata=file.metadata, read_dictionary=_dictionaries(file))
    # One thread decodes while another hashes: pyarrow's own threads take more time than they save beside a learner.
    yield from reader.iter_batches(BATCH, row_groups=groups, columns=columns, use_threads=False)


def _dictionaries(file: File) -> list[str]:
    """Return the columns of strings that are stored as codes of a few values, and are best read as such.

    Where values are many, the writer has fallen back to the strings themselves, and a dictionary would be made anew.
    Within structs pyarrow cannot put together codes of several dictionaries.
    """
    from ..kernels import pages

    if not file.parts.size:
        return []
    told = file.parts[0].T
    few = told[pages.PART_SIZE] < CODE_BYTES * np.maximum(told[pages.PART_VALUES], 1)
    chosen = (told[pages.PART_TYPE] == STRINGS) & (told[pages.PART_DICTIONARY] > 0) & few
    return [file.paths[i] for i in np.flatnonzero(chosen).tolist() if file.paths[i] in file.schema.names]


# ---- from pages


def made_of_pages(job: Job, file: File) -> Iterator[Made]:
    """Make row blocks of pages, up to the first rows that need more than that."""
    row, left = job.start.row, file.metadata.num_rows - job.start.row
    try:
        rows = PagedRows(job, file, row)
        while left > 0 and not job.closed():
            block = rows.next(min(rows.most, left))
            row, left = row + block.n_rows, left - block.n_rows
            yield Made(block, None, row)
    except UnfitError:
        return


class PagedRows:
    """The rows of a file from a row on, as long as all of them can be used."""

    def __init__(self, job: Job, file: File, row: int) -> None:
        featurizer: Featurizer = job.settings.featurizer
        self._featurizer, self._accepted = featurizer, job.settings.labels
        roles = {role: featurizer.role(role, file.needed) for role in ROLES}
        if (
            not file.parts.size
            or not featurizer.plain
            or roles["qid"] is not None
            or len(set(file.schema.names)) < len(file.schema.names)
        ):
            raise UnfitError
        self.most = most_rows(featurizer)
        groups, before = file.groups(row)
        fillers = (ColumnFiller(*column, featurizer.spec, SALTS[0]) for column in featurizer.columns)
        meanings = {f.name: (f.kind, Meaning(f.own, f.nulls, f.absent)) for f in fillers}
        number = "numeric", Meaning(np.uint32(0), NO_NULLS, (np.uint32(0), float("nan")))
        meanings |= {name: number for name in roles.values() if name is not None}
        paged = {name: _column(file, groups, name, *meaning) for name, meaning in meanings.items()}
        self._cells = [paged[column.name] for column in featurizer.columns]
        self._label, self._weight = (paged[name] if (name := roles[role]) else None for role in ("label", "weight"))
        while before:
            before -= self._read(min(before, self.most))[0].hashes.shape[1]

    def next(self, n: int) -> RowBlock:
        """Return the next rows."""
        cells, y, c = self._read(n)
        if self._accepted is not None and not self._accepted.good(y).all():
            raise UnfitError
        if self._weight is not None and not (c >= 0.0).all():
            raise UnfitError
        return RowBlock(*self._featurizer.bucketed(cells), y, c)

    def _read(self, n: int) -> tuple[Cells, Array, Array]:
        cells = Cells(
            np.empty((len(self._cells), n), np.uint32), np.empty((len(self._cells), n), self._featurizer.dtype)
        )
        for column, hashes, values in zip(self._cells, *cells, strict=True):
            column.fill(hashes, values)
        y, c, spare = np.full(n, np.nan), NO_WEIGHTS, np.empty(n, np.uint32)
        if self._label is not None:
            self._label.fill(spare, y)
        if self._weight is not None:
            c = np.empty(n)
            self._weight.fill(spare, c)
        return cells, y, c


def _column(file: File, groups: list[int], name: str, kind: str, meaning: Meaning) -> PagedColumn:
    """Return a column that can be read page by page."""
    from ..kernels import pages

    if file.paths.count(name) != 1 or file.schema.get_field_index(name) < 0:
        raise UnfitError
    place = file.paths.index(name)
    column, told = file.metadata.schema.column(place), file.schema.field(name).type
    if hasattr(told, "value_type") and kind == "categorical":
        told = told.value_type
    form = Form(STORED_AS.get(column.physical_type, -1), KEPT.get(str(told)), column.max_definition_level == 1)
    fits = (
        str(told) in TEXTS and form.kind == STRINGS
        if kind == "categorical"
        else form.number is not None and form.kind in NUMBERS
    )
    fits &= set(file.parts[:, place, pages.PART_TYPE].tolist()) == {form.kind}
    if not fits or column.max_repetition_level or column.max_definition_level > 1:
        raise UnfitError
    stored = []
    for group in groups:
        told = file.parts[group, place].tolist()
        at, first, n_rows = told[pages.PART_DATA], told[pages.PART_DICTIONARY], told[pages.PART_VALUES]
        if told[pages.PART_CODEC] not in CODECS or n_rows != file.sizes[group] or at < 0 or told[pages.PART_STORED] < 0:
            raise UnfitError
        at = first if 0 < first < at else at
        stored.append(Stored(at, at + told[pages.PART_STORED], CODECS[told[pages.PART_CODEC]], n_rows))
    return PagedColumn(file.file, form, stored, meaning)
