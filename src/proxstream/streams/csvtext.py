"""CSV and its kin: a record a row, fields hashed where they stand in the text.

What columns there are and what they hold is decided once a file, from its first 64 KiB: whether there is a header, and
for columns that the feature specification does not speak of whether they hold numbers. Reading on, a value that is no
number in a numeric column is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from .._checks import Array
from ..blocks import NO_WEIGHTS, RowBlock
from .base import Chunk
from .columns import SHOWN, cell_name, gram_names, with_grams
from .csvhead import Dialect, Head, dialect_of, fields_of, head_of, numbers_but_for_nan
from .featurizer import SALTS, Featurizer, RawRows
from .formats import Job
from .parallel import read_on_threads
from .text import BOM, PAD, Fault, Parsed, no_rows, read_lines, shown

ROWS, CELLS = 1 << 12, 1 << 18  # parsed at once, at most


def read(job: Job) -> Iterator[Chunk]:
    """Read comma-separated values."""
    return read_separated(job, ",")


def read_tabs(job: Job) -> Iterator[Chunk]:
    """Read tab-separated values."""
    return read_separated(job, "\t")


def read_separated(job: Job, separator: str) -> Iterator[Chunk]:
    """Read values with this separator, unless the options tell another."""
    dialect = dialect_of(job.settings.options, separator)
    featurizer = job.settings.featurizer
    text = job.source.head(whole=True)
    head = head_of(text, dialect, job.source.name)
    if head is None:
        yield from read_lines(job, _Nothing(job.settings.dtype))
        return
    featurizer.decide(sniffed(head, dialect, featurizer), job.source.name, labelled=job.settings.labels is not None)
    bom = len(BOM) * text.startswith(BOM)
    parser = CsvParser(featurizer, head, dialect, skip=max(0, head.n_bytes + bom - max(job.start.offset, bom)))
    for chunk in read_on_threads(job, parser):
        yield chunk._replace(end=chunk.end._replace(names=len(featurizer.names)))


def sniffed(head: Head, dialect: Dialect, featurizer: Featurizer) -> dict[str, str]:
    """Return the columns with what their first values tell: numeric if all are numbers, else categorical."""
    if featurizer.spec.columns is not None:
        return dict.fromkeys(head.columns, "categorical")
    from ..kernels import csvtext as kernel

    n = len(head.columns)
    columns = _columns(featurizer, head.columns, SALTS[0])._replace(
        roles=np.full(n, kernel.SNIFFED, np.int32), places=np.arange(n, dtype=np.int32)
    )
    cells = _cells(featurizer, n, head.rows.count(b"\n") + 1, n_spans=0)
    cells.hashes[:] = 0
    buffer = np.frombuffer(bytearray(head.rows + bytes(PAD)), np.uint8)
    told = kernel.Dialect(ord(dialect.separator), dialect.quote, True)
    kernel.parse(buffer, len(head.rows), told, columns, cells, np.zeros(kernel.STATE, np.int64))
    numeric = cells.hashes[:n] == 1
    if re.search(rb"(?i)nan|inf", head.rows):
        numeric |= numbers_but_for_nan(head, dialect, featurizer.spec.nulls)
    return {name: "numeric" if numeric[j] else "categorical" for j, name in enumerate(head.columns)}


def _cells(featurizer: Featurizer, n_cells: int, n_rows: int, n_spans: int) -> Any:
    """Return room for so many rows."""
    from ..kernels import csvtext as kernel

    return kernel.Cells(
        np.empty(n_rows * n_cells, np.uint32),
        np.empty(n_rows * n_cells, featurizer.dtype),
        np.full(n_rows, np.nan),
        np.empty(n_rows),
        np.empty(n_rows, np.int64),
        np.empty(2 * n_rows * n_spans, np.int64),
        np.empty(kernel.MARKS, np.int64),
        n_cells,
        n_spans,
    )


def _columns(featurizer: Featurizer, names: list[str], salt: int) -> Any:
    """Return what the kernel needs to know of columns, but for their roles and places."""
    from ..kernels import csvtext as kernel
    from ..kernels.hashing import hash_name

    spec = featurizer.spec
    seeds = [hash_name(name, salt) for name in names]
    return kernel.Columns(
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        np.array(seeds, np.uint32),
        np.array([hash_name("", seed) for seed in seeds], np.uint32),
        np.array([hash_name(word, seed) for seed in seeds for word in spec.nulls], np.uint32),
        float(spec.missing == "value"),
        len(spec.nulls),
    )


class _Nothing:
    """A parser of a file without records: there may be empty lines."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Pass the lines."""
        return Parsed(no_rows(self._dtype), None, buffer[at:stop].tobytes().count(b"\n"), stop, None)


class CsvParser:
    """Rows of the records of one file; `skip` are the bytes of its header that are still to be passed."""

    def __init__(self, featurizer: Featurizer, head: Head, dialect: Dialect, skip: int) -> None:
        from ..kernels import csvtext as kernel

        self._kernel: Any = kernel
        self._featurizer, self._names, self.skip = featurizer, head.columns, skip
        self._told_of = head, dialect
        self._dialect = kernel.Dialect(ord(dialect.separator), dialect.quote, False)
        self.columns = featurizer.columns
        self.n_cells = sum(column.kind != "text" for column in self.columns)
        named = {role: featurizer.role(role, head.columns) for role in ("label", "weight", "qid")}
        self._weighted, self._has_qid = named["weight"] is not None, named["qid"] is not None
        kinds = {"numeric": kernel.NUMERIC, "categorical": kernel.CATEGORY, "text": kernel.TEXT}
        roles = {name: getattr(kernel, role.upper()) for role, name in named.items()}
        roles |= {column.name: kinds[column.kind] for column in self.columns}
        places = {column.name: k for k, column in enumerate(self.columns)}
        self._told = _columns(featurizer, head.columns, SALTS[0])._replace(
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

    def twin(self) -> Self | None:
        """Return a parser for another thread, behind the header, unless names are learned as they come."""
        ordered = self._featurizer.spec.names or not self._featurizer.hashed
        return None if ordered or self.skip else type(self)(self._featurizer, *self._told_of, skip=0)

    def in_sequence(self, text: bytearray, at: int, stop: int) -> bool:
        """Tell whether a field among these lines may be quoted, and hold line ends."""
        return self._dialect.quoted and text.find(b'"', at, stop) >= 0

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse whole records; the last one may need more lines."""
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
        fault = self._bad_text(buffer, text, at, shift) or self._fault(buffer, shift)
        state = self._state.tolist()
        n_rows, end = state[self._kernel.ROWS], state[self._kernel.AT] + shift
        numbered = self._featurizer.numbered(CsvRows(self, text, n_rows))
        y, weights = self._cells.y[:n_rows].copy(), self._cells.c[:n_rows].copy() if self._weighted else NO_WEIGHTS
        qid = self._cells.qid[:n_rows].copy() if self._has_qid else None
        return Parsed(RowBlock(*numbered, y, weights), qid, passed + state[self._kernel.LINES], end, fault)

    def label_place(self, buffer: Array, record: int) -> int:
        """Return where the label of a record is."""
        separator, quoted = self._dialect.separator, False
        labels = np.flatnonzero(self._told.roles == self._kernel.LABEL)
        fields, at = int(labels[0]) if len(labels) else 0, record
        while fields:
            quoted ^= bool(buffer[at] == ord('"') and self._dialect.quoted)
            fields -= bool(buffer[at] == separator and not quoted)
            at += 1
        return at

    def _run(self, text: Array, at: int, stop: int, writable: bool) -> None:
        self._state[:] = 0
        self._state[self._kernel.AT] = at
        self._kernel.parse(text, stop, self._dialect._replace(writable=writable), self._told, self._cells, self._state)

    def _bad_text(self, buffer: Array, text: Array, at: int, shift: int) -> Fault | None:
        """Look for what is not UTF-8 in the records parsed; if there is any, end before its record."""
        from ..kernels.lines import invalid_utf8

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
        return Fault(wrong, f"found a byte {buffer[wrong]:#04x}, expected UTF-8", after)

    def _fault(self, buffer: Array, shift: int) -> Fault | None:
        kernel, state = self._kernel, self._state
        error, where = int(state[kernel.ERROR]), int(state[kernel.WHERE]) + shift
        begin, end = int(state[kernel.AT]) + shift, int(state[kernel.END]) + shift
        if error in (kernel.FINE, kernel.FULL, kernel.ESCAPED):
            return None
        if error == kernel.OPEN:
            return Fault(where, "found a quote that is not closed, expected a closing one", open=True)
        if error in (kernel.FEW, kernel.MANY):
            record = buffer[begin:end].tobytes().decode("utf-8", "replace")
            dialect = Dialect(chr(self._dialect.separator), self._dialect.quoted)
            found = len(fields_of(record.encode(), dialect, ""))
            return Fault(where, f"found {found} columns, expected {len(self._names)}", end)
        inside = error != kernel.CLOSED and self._dialect.quoted and where > 0 and buffer[where - 1] == ord('"')
        value = _shown(
            buffer[where : where + 4 * SHOWN].tobytes(), b'"' if inside else bytes([self._dialect.separator])
        )
        if error == kernel.CLOSED:
            return Fault(where, f"found {value} behind a closing quote, expected a separator or the line end", end)
        dtype = self._featurizer.dtype.name
        name = self._names[int(state[kernel.FIELD])]
        expected = {
            kernel.NUMBER: "a finite number",
            kernel.LARGE: f"a number that fits {dtype}",
            kernel.NEGATIVE: "a weight of at least 0",
            kernel.MISSING: "a value",
        }[error]
        return Fault(where, f"found {value}, expected {expected} in column {name!r}", end)

    def raw(self, text: Array, n_rows: int, salt: int) -> RawRows:
        """Return the cells of the rows parsed, and their texts, hashed with a salt."""
        from ..kernels.features import hash_spans

        n_cells, now = self.n_cells, self._salted[salt]
        hashes, values = self._cells.hashes[: n_rows * n_cells], self._cells.values[: n_rows * n_cells]
        if salt != SALTS[0]:
            numeric = np.array([column.kind == "numeric" for column in self.columns[:n_cells]], np.bool_)
            before, hashes = (hashes, self._salted[SALTS[0]].absent), np.empty_like(hashes)
            hash_spans(text, self.spans(n_rows), before, (now.seeds, now.absent), numeric, hashes)
        rows = RawRows(self._indptr[: n_rows + 1], hashes, values, self._terms[: n_rows * n_cells])
        for k in range(n_cells, len(self.columns)):
            spans, told = self.spans(n_rows)[:, k], self._featurizer.spec.grams[self.columns[k].name]
            rows = with_grams(rows, text, spans[:, 0], spans[:, 1], told, now.seeds[k], k)
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
