"""CSV and TSV: one record per row, fields hashed in place.

The columns and their kinds are inferred once per file, from its first 64 KiB: whether there is a header, and whether
columns that the feature specification does not mention contain numbers. Later on, a value that is not a number in a
numeric column is an error.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from ...core.records import NamedTuple
from ...core.validation import Array
from ...data.rowblock import NO_WEIGHTS, RowBlock
from ..features.featurizer import SALTS, Featurizer, RawRows, listed
from ..features.spec import OFFSETS, ROLES
from ..formats import Job
from ..sources import HEAD
from ..table.columns import SHOWN, cell_name, gram_names, with_grams
from ..types import Chunk, DataError
from .parallel import read_on_threads
from .reader import BOM, PAD, BadRow, Parsed, TextParser, no_rows, read_lines, shown

ROWS, CELLS = 1 << 12, 1 << 18  # parsed at once, at most
_NUMBER = re.compile(r" *[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *")
_NO_NUMBER = re.compile(r"(?i) *[+-]?(nan|inf|infinity) *")


class Dialect(NamedTuple):
    """How fields are separated, and whether the first record has the names of the columns (None: infer it)."""

    separator: str
    quote: bool = True
    header: bool | None = None


class Head(NamedTuple):
    """The beginning of a file: the names of columns, the bytes of the header, and the rows after it."""

    columns: list[str]
    n_bytes: int
    rows: bytes


def read(job: Job) -> Iterator[Chunk]:
    """Read comma-separated values."""
    return read_separated(job, ",")


def read_tabs(job: Job) -> Iterator[Chunk]:
    """Read tab-separated values."""
    return read_separated(job, "\t")


def read_separated(job: Job, separator: str) -> Iterator[Chunk]:
    """Read values with this separator, unless the options give another."""
    dialect = dialect_of(job.settings.options, separator)
    featurizer = job.settings.featurizer
    text = job.source.head(whole=True)
    head = head_of(text, dialect, job.source.name)
    if head is None:
        yield from read_lines(job, _Nothing(job.settings.dtype))
        return
    featurizer.decide(sniffed(head, dialect, featurizer), job.source.name, labelled=job.settings.labels is not None)
    bom = len(BOM) * text.startswith(BOM)
    skip = max(0, head.n_bytes + bom - max(job.start.offset, bom))
    parser = CsvParser(featurizer, head, dialect, skip, job.settings.label_texts)
    for chunk in read_on_threads(job, parser):
        yield chunk._replace(end=chunk.end._replace(names=len(featurizer.names)))


def sniffed(head: Head, dialect: Dialect, featurizer: Featurizer) -> dict[str, str]:
    """Return the kinds of columns by their first values: numeric if all are numbers, else categorical."""
    if featurizer.spec.columns is not None:
        return dict.fromkeys(head.columns, "categorical")
    from . import _csv as kernel

    n = len(head.columns)
    columns = _columns(featurizer, head.columns, SALTS[0])._replace(
        roles=np.full(n, kernel.SNIFFED, np.int32), places=np.arange(n, dtype=np.int32)
    )
    cells = _cells(featurizer, n, head.rows.count(b"\n") + 1, n_spans=0)
    cells.hashes[:] = 0
    buffer = np.frombuffer(bytearray(head.rows + bytes(PAD)), np.uint8)
    separated = kernel.Dialect(ord(dialect.separator), dialect.quote, True)
    kernel.parse(buffer, len(head.rows), separated, columns, cells, np.zeros(kernel.STATE, np.int64))
    numeric = cells.hashes[:n] == 1
    if re.search(rb"(?i)nan|inf", head.rows):
        numeric |= numbers_but_for_nan(head, dialect, featurizer.spec.nulls)
    return {name: "numeric" if numeric[j] else "categorical" for j, name in enumerate(head.columns)}


def _cells(featurizer: Featurizer, n_cells: int, n_rows: int, n_spans: int) -> Any:
    """Return room for so many rows."""
    from . import _csv as kernel

    return kernel.Cells(
        np.empty(n_rows * n_cells, np.uint32),
        np.empty(n_rows * n_cells, featurizer.cell_dtype),
        np.full(n_rows, np.nan),
        np.empty(n_rows),
        np.empty(n_rows, np.int64),
        np.empty(n_rows),
        np.empty(2 * n_rows * n_spans, np.int64),
        np.empty(kernel.MARKS, np.int64),
        n_cells,
        n_spans,
    )


def _columns(featurizer: Featurizer, names: list[str], salt: int, labels: Mapping[str, float] | None = None) -> Any:
    """Return what the kernel needs to know of columns, except for their roles and places."""
    from ..features._hash import hash_name
    from . import _csv as kernel

    spec = featurizer.spec
    seeds = [hash_name(name, salt) for name in names]
    return kernel.Columns(
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        np.array(seeds, np.uint32),
        np.array([hash_name("", seed) for seed in seeds], np.uint32),
        np.array([hash_name(word, seed) for seed in seeds for word in spec.nulls], np.uint32),
        np.frombuffer("".join(labels or ()).encode(), np.uint8),
        np.cumsum([len(text.encode()) for text in labels or ()], dtype=np.int64),
        np.array([hash_name(text) for text in labels or ()], np.uint32),
        np.array(list((labels or {}).values()), np.float64),
        float(spec.missing == "value"),
        len(spec.nulls),
        len(labels or ()),
    )


class _Nothing(TextParser):
    """A parser of a file without records: there may be empty lines."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Pass the lines."""
        return Parsed(no_rows(self._dtype), None, buffer[at:stop].tobytes().count(b"\n"), stop, None)


class CsvParser(TextParser):
    """Rows of the records of one file; `skip` counts the bytes of its header that are still to be skipped."""

    def __init__(
        self,
        featurizer: Featurizer,
        head: Head,
        dialect: Dialect,
        skip: int,
        label_texts: Mapping[str, float] | None = None,
    ) -> None:
        from . import _csv as kernel

        self._kernel: Any = kernel
        self._featurizer, self._names, self.skip = featurizer, head.columns, skip
        self._head, self._label_texts = (head, dialect), label_texts
        self._dialect = kernel.Dialect(ord(dialect.separator), dialect.quote, False)
        self.columns = featurizer.columns
        self.n_cells = sum(column.kind != "text" for column in self.columns)
        named = {role: featurizer.role(role, head.columns) for role in ROLES}
        self._has = {role for role, name in named.items() if name is not None}
        kinds = {"numeric": kernel.NUMERIC, "categorical": kernel.CATEGORY, "text": kernel.TEXT}
        roles = {name: getattr(kernel, role.upper()) for role, name in named.items()}
        roles |= {column.name: kinds[column.kind] for column in self.columns}
        places = {column.name: k for k, column in enumerate(self.columns)}
        self._columns = _columns(featurizer, head.columns, SALTS[0], label_texts)._replace(
            roles=np.array([roles.get(name, kernel.DROPPED) for name in head.columns], np.int32),
            places=np.array([places.get(name, 0) for name in head.columns], np.int32),
        )
        names = [column.name for column in self.columns]
        self._salted = {salt: _columns(featurizer, names, salt) for salt in SALTS}
        spec = featurizer.spec
        spans = spec.names or spec.bits is None or self.n_cells < len(self.columns)
        n_rows = max(1, min(ROWS, CELLS // max(len(self.columns), 1)))
        self._cells = _cells(featurizer, self.n_cells, n_rows, len(self.columns) if spans else 0)
        self._indptr = np.arange(n_rows + 1) * self.n_cells
        self._terms = np.tile(np.arange(self.n_cells, dtype=np.int32), n_rows)
        self._state = np.zeros(kernel.STATE, np.int64)

    def clone(self) -> Self | None:
        """Return a parser for another thread, once the header is read, unless names are numbered in order."""
        ordered = self._featurizer.spec.names or not self._featurizer.hashed
        return None if ordered or self.skip else type(self)(self._featurizer, *self._head, 0, self._label_texts)

    def in_sequence(self, text: bytearray, at: int, stop: int) -> bool:
        """Return whether a field of these lines may be quoted, and contain line ends."""
        return self._dialect.quoted and text.find(b'"', at, stop) >= 0

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse complete records; the last one may need more lines."""
        begin = at
        at += min(self.skip, stop - at)
        self.skip -= at - begin
        passed = buffer[begin:at].tobytes().count(b"\n")
        text, shift = buffer, 0
        self._run(text, at, stop, writable=False)
        if self._state[self._kernel.ERROR] == self._kernel.ESCAPED and self._state[self._kernel.ROWS] == 0:
            # The text is still to be checked as it is: quotes are undoubled in a copy.
            shift = int(self._state[self._kernel.AT])
            text = np.concatenate((buffer[shift:stop], np.zeros(PAD, np.uint8)))
            passed += int(self._state[self._kernel.LINES])
            self._run(text, 0, stop - shift, writable=True)
        bad = self._bad_text(buffer, text, at, shift) or self._bad_record(buffer, shift)
        state = self._state.tolist()
        n_rows, end = state[self._kernel.ROWS], state[self._kernel.AT] + shift
        numbered = self._featurizer.numbered(CsvRows(self, text, n_rows))
        cells = self._cells
        y, weights = cells.y[:n_rows].copy(), cells.c[:n_rows].copy() if "weight" in self._has else NO_WEIGHTS
        qid = cells.qid[:n_rows].copy() if "qid" in self._has else None
        offset = cells.offset[:n_rows].copy() if "offset" in self._has else None
        lines = passed + state[self._kernel.LINES]
        return Parsed(RowBlock(*numbered, y, weights), qid, lines, end, bad, start=at, offset=offset)

    def row_spans(self, buffer: Array, at: int, stop: int) -> tuple[Array, Array]:
        """Return where each record begins and ends."""
        spans = []
        while at < stop:
            end = int(self._kernel.end_of_record(buffer, at, stop, self._dialect.separator, self._dialect.quoted))
            if buffer[at:end].tobytes() not in (b"\n", b"\r\n"):
                spans.append((at, end))
            at = end
        begins, ends = np.array(spans, np.int64).reshape(-1, 2).T
        return begins, ends

    def label_position(self, buffer: Array, at: int) -> int:
        """Return where the label of the record that begins at `at` is."""
        separator, quoted = self._dialect.separator, False
        labels = np.flatnonzero(self._columns.roles == self._kernel.LABEL)
        fields = int(labels[0]) if len(labels) else 0
        while fields:
            quoted ^= bool(buffer[at] == ord('"') and self._dialect.quoted)
            fields -= bool(buffer[at] == separator and not quoted)
            at += 1
        return at

    def _run(self, text: Array, at: int, stop: int, writable: bool) -> None:
        self._state[:] = 0
        self._state[self._kernel.AT] = at
        self._kernel.parse(
            text, stop, self._dialect._replace(writable=writable), self._columns, self._cells, self._state
        )

    def _bad_text(self, buffer: Array, text: Array, at: int, shift: int) -> BadRow | None:
        """Look for what is not UTF-8 in the records parsed; if there is any, end before its record."""
        from ._lines import invalid_utf8

        at, end = max(at, shift), int(self._state[self._kernel.AT]) + shift
        if at == end or buffer[at:end].max() < 128:
            return None
        wrong = int(invalid_utf8(buffer, at, end))
        if wrong < 0:
            return None
        record, after = at, at
        while after <= wrong:
            record = after
            after = int(self._kernel.end_of_record(buffer, record, end, self._dialect.separator, self._dialect.quoted))
        self._run(text, at - shift, record - shift, writable=text is not buffer)
        return BadRow(wrong, f"found a byte {buffer[wrong]:#04x}, expected UTF-8", after)

    def _bad_record(self, buffer: Array, shift: int) -> BadRow | None:
        kernel, state = self._kernel, self._state
        error, where = int(state[kernel.ERROR]), int(state[kernel.WHERE]) + shift
        begin, end = int(state[kernel.AT]) + shift, int(state[kernel.END]) + shift
        if error in (kernel.FINE, kernel.FULL, kernel.ESCAPED):
            return None
        if error == kernel.OPEN:
            return BadRow(where, "found a quote that is not closed, expected a closing one", open=True)
        if error in (kernel.FEW, kernel.MANY):
            record = buffer[begin:end].tobytes().decode("utf-8", "replace")
            dialect = Dialect(chr(self._dialect.separator), self._dialect.quoted)
            found = len(fields_of(record.encode(), dialect, ""))
            return BadRow(where, f"found {found} columns, expected {len(self._names)}", end)
        inside = error != kernel.CLOSED and self._dialect.quoted and where > 0 and buffer[where - 1] == ord('"')
        value = _shown(
            buffer[where : where + 4 * SHOWN].tobytes(), b'"' if inside else bytes([self._dialect.separator])
        )
        if error == kernel.CLOSED:
            return BadRow(where, f"found {value} after a closing quote, expected a separator or the line end", end)
        dtype = self._featurizer.cell_dtype.name
        name = self._names[int(state[kernel.FIELD])]
        expected = {
            kernel.NUMBER: "a finite number",
            kernel.LARGE: f"a number that fits {dtype}",
            kernel.NEGATIVE: "a weight of at least 0",
            kernel.FAR: OFFSETS,
            kernel.MISSING: "a value",
            kernel.UNKNOWN_LABEL: f"one of {listed(self._label_texts or ())}",
        }[error]
        return BadRow(where, f"found {value}, expected {expected} in column {name!r}", end)

    def raw(self, text: Array, n_rows: int, salt: int) -> RawRows:
        """Return the cells of the rows parsed, and their texts, hashed with a salt."""
        from ..features._crosses import hash_spans

        n_cells, now = self.n_cells, self._salted[salt]
        hashes, values = self._cells.hashes[: n_rows * n_cells], self._cells.values[: n_rows * n_cells]
        if salt != SALTS[0]:
            numeric = np.array([column.kind == "numeric" for column in self.columns[:n_cells]], np.bool_)
            before, hashes = (hashes, self._salted[SALTS[0]].absent), np.empty_like(hashes)
            hash_spans(text, self.spans(n_rows), before, (now.seeds, now.absent), numeric, hashes)
        rows = RawRows(self._indptr[: n_rows + 1], hashes, values, self._terms[: n_rows * n_cells])
        for k in range(n_cells, len(self.columns)):
            spans, kind = self.spans(n_rows)[:, k], self._featurizer.spec.grams[self.columns[k].name]
            rows = with_grams(rows, text, spans[:, 0], spans[:, 1], kind, now.seeds[k], k)
        return rows

    def spans(self, n_rows: int) -> Array:
        """Return where the values of the rows parsed begin and end: rows, columns, two places."""
        n_spans = self._cells.n_spans
        return np.asarray(self._cells.spans[: 2 * n_rows * n_spans].reshape(n_rows, n_spans, 2))

    def grams(self, column: str, text: bytes) -> list[str]:
        """Return the names of a text's n-grams."""
        return [f"{column}={gram}" for gram in gram_names(text, self._featurizer.spec.grams[column])]

    def cell(self, k: int, value: bytes) -> str:
        """Return the name of a cell."""
        name, kind = self.columns[k]
        if kind == "numeric":
            value = value.strip(b" ")
        return cell_name(name, kind, value.decode(), self._featurizer.spec)


class CsvRows:
    """Rows just parsed, as a featurizer takes them."""

    def __init__(self, parser: CsvParser, text: Array, n_rows: int) -> None:
        self._parser, self._text, self._n_rows = parser, text, n_rows
        self.columns = [column.name for column in parser.columns]
        self._grams: tuple[int, list[str]] = (-1, [])

    def raw(self, salt: int) -> RawRows:
        """Return the rows, names of columns hashed with this seed."""
        return self._parser.raw(self._text, self._n_rows, salt)

    def name(self, row: int, k: int) -> str:
        """Return the name of a feature."""
        n_cells = self._parser.n_cells
        if k < n_cells:
            return self._parser.cell(k, self._value(row, k))
        if self._grams[0] != row:
            texts = enumerate(self.columns[n_cells:], n_cells)
            self._grams = row, [gram for t, name in texts for gram in self._parser.grams(name, self._value(row, t))]
        return self._grams[1][k - n_cells]

    def _value(self, row: int, k: int) -> bytes:
        start, stop = self._parser.spans(self._n_rows)[row, k]
        return bytes(self._text[start:stop].tobytes())


def _shown(text: bytes, end: bytes) -> str:
    """Return a field, up to this byte, as errors show it."""
    found = re.match(rb"[^\r\n" + re.escape(end) + rb"]*", text)
    value = (found[0] if found else b"").strip()
    return shown(value, SHOWN) if value else "nothing"


# -- how a file begins -------------------------------------------------------------------------------


def dialect_of(options: Any, separator: str) -> Dialect:
    """Return the dialect that the options `separator`, `quote` and `header` specify."""
    dialect = Dialect(separator)._replace(**dict(options))
    if not isinstance(dialect.separator, str) or len(dialect.separator.encode()) != 1 or dialect.separator in '"\r\n':
        raise ValueError(f"separator must be one ASCII character, no quote or line end, got {dialect.separator!r}")
    if not isinstance(dialect.quote, bool):
        raise TypeError(f"quote must be True or False, got {dialect.quote!r}")
    if not isinstance(dialect.header, bool | None):
        raise TypeError(f"header must be True, False or None, got {dialect.header!r}")
    return dialect


def head_of(text: bytes, dialect: Dialect, place: str) -> Head | None:
    """Return how a file begins, None if it has no record."""
    from ._csv import end_of_record

    whole = len(text) < HEAD
    text = text.removeprefix(BOM)
    blank = len(text) - len(text.lstrip(b"\r\n"))
    if blank == len(text):
        return None
    if b"\n" not in text[blank:]:
        if not whole:
            raise DataError(f"{place}:1:1: found no line end in {HEAD} bytes, expected a header or a record")
        text += b"\n"
    buffer = np.frombuffer(bytearray(text + bytes(PAD)), np.uint8)
    stop = text.rfind(b"\n") + 1
    end = int(end_of_record(buffer, blank, stop, ord(dialect.separator), dialect.quote))
    fields = fields_of(text[blank:end], dialect, place)
    is_header = dialect.header
    if is_header is None:
        named = [field for field in fields if field]
        is_header = len(set(named)) == len(named) > 0 and not any(map(_NUMBER.fullmatch, fields))
    if not is_header:
        return Head([str(j) for j in range(len(fields))], 0, text[blank:stop])
    columns = [field or str(j) for j, field in enumerate(fields)]
    for j, name in enumerate(columns):
        if name in columns[:j]:
            raise DataError(f"{place}:1:1: found column {name!r} twice, expected names that differ")
    rows = text[end:stop] if not whole or text.endswith(b"\n") else text[end:] + b"\n"
    return Head(columns, end, rows)


def fields_of(record: bytes, dialect: Dialect, place: str) -> list[str]:
    """Return the fields of a record."""
    try:
        text = record.decode()
    except UnicodeDecodeError as error:
        found = f"found a byte {record[error.start]:#04x}, expected UTF-8"
        raise DataError(f"{place}:1:{error.start + 1}: {found}") from None
    if dialect.quote:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=dialect.separator), [])
    return text.rstrip("\r\n").split(dialect.separator)


def numbers_but_for_nan(head: Head, dialect: Dialect, nulls: Sequence[str]) -> Array:
    """Return for each column whether its first values are numbers, NaN or infinity, and at least one is a number.

    Such a column is meant as numbers, not as categories.

    >>> numbers_but_for_nan(Head(["a", "b"], 4, b"1.5,nan\\nNaN,x\\n"), Dialect(","), ())
    array([ True, False])
    """
    text = io.StringIO(head.rows.decode("utf-8", "replace"), newline="")
    rows = csv.reader(text, delimiter=dialect.separator, quotechar='"' if dialect.quote else None)
    finite, all_numbers = np.zeros(len(head.columns), bool), np.ones(len(head.columns), bool)
    for row in rows:
        for j, value in enumerate(row[: len(head.columns)]):
            if value.strip() and value not in nulls:
                number = _NUMBER.fullmatch(value) is not None
                finite[j] |= number
                all_numbers[j] &= number or _NO_NUMBER.fullmatch(value) is not None
    return finite & all_numbers
