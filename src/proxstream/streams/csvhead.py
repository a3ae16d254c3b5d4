"""How a CSV file begins: its dialect, its header if it has one, and the rows from which columns are told."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._checks import Array
from .base import DataError
from .sources import HEAD
from .text import BOM, PAD

_NUMBER = re.compile(r" *[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *")
_NO_NUMBER = re.compile(r"(?i) *[+-]?(nan|inf|infinity) *")


class Dialect(NamedTuple):
    """How fields are told apart, and whether the first record has the names of the columns (None: look)."""

    separator: str
    quote: bool = True
    header: bool | None = None


class Head(NamedTuple):
    """What the beginning of a file tells: the columns' names, the bytes that the header takes, and rows behind it."""

    columns: list[str]
    n_bytes: int
    rows: bytes


def dialect_of(options: Any, separator: str) -> Dialect:
    """Return what the options `separator`, `quote` and `header` tell."""
    dialect = Dialect(separator)._replace(**dict(options))
    if not isinstance(dialect.separator, str) or len(dialect.separator.encode()) != 1 or dialect.separator in '"\r\n':
        raise ValueError(f"separator must be one ASCII character, no quote or line end, got {dialect.separator!r}")
    if not isinstance(dialect.quote, bool):
        raise TypeError(f"quote must be True or False, got {dialect.quote!r}")
    if not isinstance(dialect.header, bool | None):
        raise TypeError(f"header must be True, False or None, got {dialect.header!r}")
    return dialect


def head_of(text: bytes, dialect: Dialect, place: str) -> Head | None:
    """Return what the first bytes of a file tell, None if there is not a single record."""
    from ..kernels.csvtext import end_of_record

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
    """Tell of each column whether its first values are numbers, NaN and infinity, and one of them a number at least.

    Such a column is meant as numbers: it would be a surprise if each of them became a category.

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
