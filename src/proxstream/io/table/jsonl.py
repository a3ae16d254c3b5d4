"""JSON lines: one object per line, its members the columns of a row; nested members are columns `outer.inner`.

Which columns there are, and whether they contain numbers, strings or booleans, is inferred from the first 64 KiB of a
file; members that first occur later are ignored, and a member of another type is an error. Lists are not features: a
column that has them must be dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.validation import Array
from ..features.spec import ROLES
from ..formats import Job
from ..sources import HEAD
from ..text.reader import BOM, BadRow, Parsed, TextParser, no_rows, read_lines
from ..types import Chunk
from .arrow import Batches, flat, flat_schema
from .columns import SHOWN, kinds

PIECE = 1 << 20  # bytes parsed at once; less where lines are bad, since what follows is parsed again
SMALL = 1 << 14
_ROW = re.compile(r"(.*?)\.? in row (\d+)")
_CHANGED = re.compile(r"Column\(/(.*)\) changed from (\w+) to (\w+)")
_NULL = re.compile(rb"(?:^|[\n}])[ \t\r]*null")  # at the top level, or in a string
_TWICE = re.compile(r"Column\(/(.*)\) was specified twice")


def read(job: Job) -> Iterator[Chunk]:
    """Read JSON lines."""
    featurizer = job.settings.featurizer
    head = job.source.head(whole=True)
    schema = _schema(head.removeprefix(BOM), whole=len(head) < HEAD)
    if featurizer.spec.columns is None and len(schema) == 0:
        yield from read_lines(job, JsonParser(job, schema, []))
        return
    found = kinds(flat_schema(schema))
    if featurizer.spec.columns is not None:  # a member that is missing from the first lines may yet come
        found = {**dict.fromkeys((name for name, _ in featurizer.spec.columns), "categorical"), **found}
    featurizer.decide(found, job.source.name, labelled=job.settings.labels is not None)
    for chunk in read_lines(job, JsonParser(job, schema, list(found))):
        yield chunk._replace(end=chunk.end._replace(names=len(featurizer.names)))


def _schema(head: bytes, whole: bool) -> Any:
    """Return the types of members in the first lines, as far as they can be read: numbers, booleans or strings."""
    import pyarrow as pa

    text = head if whole else head[: head.rfind(b"\n") + 1]
    fields: dict[str, Any] = {}
    for line in text.split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue  # reported when it is read
        if isinstance(row, dict):
            for name, value in row.items():
                fields[name] = _joined(fields.get(name), _type(value))
    return pa.schema([(name, pa.string() if kind == pa.null() else kind) for name, kind in fields.items()])


def _type(value: Any) -> Any:
    import pyarrow as pa

    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int) and abs(value) < 1 << 63:
        return pa.int64()
    if isinstance(value, int | float):
        return pa.float64()
    if isinstance(value, dict):
        return pa.struct([(name, _type(inner)) for name, inner in value.items()])
    return pa.list_(pa.null()) if isinstance(value, list) else pa.string()


def _joined(one: Any, other: Any) -> Any:
    """Return the type of a member that has been seen with two; the first one's if they do not fit."""
    import pyarrow as pa

    if one is None or one == pa.null():
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = _joined(fields.get(field.name), field.type)
        return pa.struct(list(fields.items()))
    return pa.float64() if {one, other} == {pa.int64(), pa.float64()} else one


class JsonParser(TextParser):
    """Rows of JSON lines."""

    def __init__(self, job: Job, schema: Any, columns: list[str]) -> None:
        self._dtype, self._featurizer = job.settings.dtype, job.settings.featurizer
        self._label_texts, self._label = job.settings.label_texts, job.settings.featurizer.role("label", columns)
        self._batches = Batches(job.settings, columns) if columns else None
        self._needed = {column.name for column in self._featurizer.columns} | {
            name for role in ROLES if (name := self._featurizer.role(role, columns)) is not None
        }
        self._schema = self._full(schema)
        self._piece = PIECE

    def _full(self, schema: Any) -> Any:
        """Return the types of what is needed; an integer may be followed by a fraction unless it is a category."""
        import pyarrow as pa

        kinds_of = {column.name: column.kind for column in self._featurizer.columns}
        if self._label_texts and self._label is not None:
            kinds_of[self._label] = "categorical"

        def needed(field: Any, name: str) -> Any:
            if pa.types.is_struct(field.type):
                inner = [needed(part, f"{name}.{part.name}") for part in field.type]
                return pa.field(field.name, pa.struct([part for part in inner if part is not None]))
            if name not in self._needed:
                return None
            whole = pa.types.is_int64(field.type) and kinds_of.get(name, "numeric") == "numeric"
            unknown = pa.types.is_null(field.type)
            return pa.field(field.name, pa.float64() if whole else pa.string() if unknown else field.type)

        fields = [field for one in schema if (field := needed(one, one.name)) is not None]
        for name in self._needed - set(flat_schema(pa.schema(fields)).names):
            kind = pa.float64() if kinds_of.get(name, "numeric") == "numeric" else pa.string()
            fields.append(pa.field(name, kind))
        return pa.schema(fields)

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse complete lines."""
        from ..text._lines import invalid_utf8

        text = buffer[at : min(stop, at + self._piece)].tobytes()
        end = text.rfind(b"\n") + 1
        text = text[:end] if end else buffer[at : at + 1 + buffer[at:stop].tobytes().find(b"\n")].tobytes()
        bad = None
        wrong = -1 if text.isascii() else int(invalid_utf8(buffer, at, at + len(text)))
        if wrong >= 0:
            bad = BadRow(wrong, f"found a byte {buffer[wrong]:#04x}, expected UTF-8")
            text = text[: text.rfind(b"\n", 0, wrong - at) + 1]
        places = _places(text)
        batch, broken = self._read(text, places)
        if broken is not None:
            row, words, column = broken
            bad, places = BadRow(at + places[row] + column, words), places[:row]
        scanned = None if self._batches is None else self._batches.scan(batch)
        if scanned is not None and self._batches is not None:
            if scanned.bad:
                row, name, words = scanned.bad[0]
                bad, places = BadRow(at + places[row], f"{words} in column {name!r}"), places[:row]
                scanned = self._batches.scan(batch.slice(0, row))
            rows, qid, offset = self._batches.block(scanned), scanned.qid, scanned.offset
        else:
            rows, qid, offset = no_rows(self._dtype), None, None
        self._piece = min(PIECE, 2 * self._piece) if bad is None else SMALL
        passed = len(text) if bad is None else _line_start(buffer, at, bad.where) - at
        return Parsed(rows, qid, text.count(b"\n", 0, passed), at + passed, bad, offset=offset)

    def row_spans(self, buffer: Array, at: int, stop: int) -> tuple[Array, Array]:
        """Return where each row begins and ends."""
        text = buffer[at:stop].tobytes()
        begins = np.array(_places(text), np.int64)
        ends = np.array([text.index(b"\n", begin) + 1 for begin in begins.tolist()], np.int64)
        return at + begins, at + ends

    def _read(self, text: bytes, places: list[int]) -> tuple[Any, tuple[int, str, int] | None]:
        """Return the rows of lines, up to the first bad one, and that one's row, words and column."""
        import pyarrow as pa
        import pyarrow.json as pj

        broken = None
        for place in null_lines(text):
            row = places.index(place)
            line = text[place : text.find(b"\n", place)]
            broken = row, f"found {_shown(line)}, expected an object", 0
            text, places = text[:place], places[:row]
            break
        while True:
            if not places:
                return pa.RecordBatch.from_pylist([], flat_schema(self._schema)), broken
            options = pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore")
            block = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
            try:
                table = pj.read_json(pa.BufferReader(text), block, options)
                if table.num_rows == len(places):
                    return flat(table.combine_chunks().to_batches()[0]), broken
                reason = ""
            except pa.ArrowInvalid as error:
                reason = str(error)
            row, words, column = self._why(text, places, reason)
            broken = row, words, column
            text, places = text[: places[row]], places[:row]

    def _why(self, text: bytes, places: list[int], reason: str) -> tuple[int, str, int]:
        """Return the first bad row, what is wrong with it, and at which byte of its line."""
        found = _ROW.search(reason)
        last = min(int(found[2]), len(places) - 1) if found else len(places) - 1
        for row in range(last + 1):
            line = text[places[row] : text.find(b"\n", places[row])]
            try:
                if isinstance(json.loads(line), dict):
                    continue
                return row, f"found {_shown(line)}, expected an object", 0
            except json.JSONDecodeError as error:
                at = len(line.decode()[: error.pos].encode())
                return row, f"found {_shown(line[at:])}, expected JSON: {error.msg[0].lower()}{error.msg[1:]}", at
            except RecursionError:
                return row, "found objects inside objects, too deep to be read, expected numbers and strings", 0
        if changed := _CHANGED.search(reason):
            return last, f"found {changed[3]} in column {changed[1]!r}, expected {changed[2]}", 0
        if twice := _TWICE.search(reason):
            return last, f"found column {twice[1]!r} twice, expected it once", 0
        return last, f"found {_shown(text[places[last] :])}, expected valid JSON: {reason}", 0


def null_lines(text: bytes) -> Iterator[int]:
    """Yield where lines begin that are or contain a top-level null: pyarrow takes it for a row, or crashes.

    >>> list(null_lines(b'{"a": null}\\n{"a": "}null"}\\nnull\\n'))
    [27]
    """
    for found in _NULL.finditer(text):
        place = text.rfind(b"\n", 0, found.end()) + 1
        try:
            if not isinstance(json.loads(text[place:].split(b"\n", 1)[0]), dict):
                yield place
        except json.JSONDecodeError:  # as {"a": 1} null
            yield place
        except RecursionError:
            continue


def _places(text: bytes) -> list[int]:
    """Return where the lines begin that are not empty."""
    places, at = [], 0
    for line in text.split(b"\n"):
        if line.strip():
            places.append(at)
        at += len(line) + 1
    return places


def _line_start(buffer: Array, at: int, where: int) -> int:
    ends = np.flatnonzero(buffer[at:where] == 10)
    return at + int(ends[-1]) + 1 if len(ends) else at


def _shown(text: bytes) -> str:
    word = text[: 4 * SHOWN].decode("utf-8", "replace").split("\n")[0].rstrip("\r")
    return repr(word[:SHOWN]) + ("..." if len(word) > SHOWN else "") if word else "the end of the line"
