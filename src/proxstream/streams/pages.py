"""Columns of Parquet files, page by page, straight to cells: the short way for what nearly every file holds.

    bytes of a column -> pages -> cells of the dictionary, each value hashed once -> cells of rows

A general reader makes an array of strings of each column, which takes longer than learning from its rows. Here a row
costs its code. Flat columns of numbers and strings are read, plain or by dictionary, in pages of both versions. What
else a page holds, or what is wrong with it, is `UnfitError`, and pyarrow reads on from there and knows what to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._checks import Array
from .columns import NO_BITS
from .featurizer import Cells

WINDOW = 1 << 18  # bytes of a column read at once, at least
MOST_PAGE = 1 << 28  # bytes of a page
MOST_WIDTH = 32  # bits of a code
NUMBERS = {1: np.int32, 2: np.int64, 4: np.float32, 5: np.float64}  # by how a file tells what is stored
STRINGS = 6
STORED_AS = {"INT32": 1, "INT64": 2, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": STRINGS}
CODECS = {0: None, 1: "snappy", 2: "gzip", 6: "zstd"}
ENDING = b"PAR1"
DATA, DICTIONARY, DATA_2 = 0, 2, 3  # kinds of pages
HEADERS = {DATA: 5, DICTIONARY: 7, DATA_2: 8}  # which field has the header for each
PART_BYTES = 16  # that tell of a column's part of a row group, at least
PLAIN, BY_DICTIONARY, RUNS = 0, (2, 8), 3  # encodings


class UnfitError(Exception):
    """Something that is not read here."""


def read_at(file: Any, size: int, at: int) -> bytes:
    """Return up to so many bytes of a pyarrow file at a place."""
    import pyarrow as pa

    try:
        return bytes(file.read_at(size, at))
    except (OSError, OverflowError, pa.ArrowException):  # pyarrow will meet it, too, and tell
        raise UnfitError from None


def parts_of(file: Any, n_groups: int, n_columns: int) -> Array:
    """Return what a file tells of its row groups' columns: the fields of each group and column, -1 where there is none.

    pyarrow tells it, too, but ends the process where what a broken file tells does not fit together.
    """
    from ..kernels import pages

    size = file.size()
    told = read_at(file, 8, max(size - 8, 0))
    length = int.from_bytes(told[:4], "little")
    if told[4:] != ENDING or length > size - 8 or n_groups * n_columns > length // PART_BYTES:
        raise UnfitError
    text = np.frombuffer(read_at(file, length, size - 8 - length), np.uint8)
    found = np.full((n_groups * n_columns, pages.FIELDS), -1)
    if pages.column_chunks(text, len(text), found) != len(found):
        raise UnfitError
    return found.reshape(n_groups, n_columns, pages.FIELDS)


class Form(NamedTuple):
    """How the values of a column are stored, which numbers are kept of them, and whether they may be missing."""

    kind: int
    number: Any  # a type of numpy, which may have fewer bits than what is stored; None for strings
    optional: bool


class Stored(NamedTuple):
    """Where a column's values of one row group are."""

    at: int
    stop: int
    codec: str | None
    n_rows: int


class Meaning(NamedTuple):
    """What the values of a column become: the hash of its name, the hashes of words for nothing, and of nothing."""

    own: Any
    nulls: Array
    absent: tuple[Any, float]


class PagedColumn:
    """The cells of a column, some rows after the others."""

    def __init__(self, file: Any, form: Form, stored: list[Stored], meaning: Meaning) -> None:
        from ..kernels import pages

        self._kernel: Any = pages
        self._file, self._form, self._meaning = file, form, meaning
        self._parts = iter(stored)
        self._pages: Iterator[int] = iter(())
        self._page = NO_BITS
        self._runs = np.zeros((2, pages.RUN), np.int64)
        self._left = 0  # rows of the page
        self._scratch = np.empty((2, 0), np.int32)
        self._told = np.empty(2 * pages.FIELDS, np.int64)
        self._window = (0, b"")

    def fill(self, hashes: Array, values: Array) -> None:
        """Put the next rows, as many as there is room for."""
        n, done = len(hashes), 0
        if n >= self._scratch.shape[1]:
            self._scratch = np.empty((2, n + 1), np.int32)
        while done < n:
            while not self._left:
                self._turn(values.dtype)
            m = min(n - done, self._left)
            if not self._kernel.put_page(
                self._page, self._runs, self._entries, self._meaning.absent, self._scratch, done, m, hashes, values
            ):
                raise UnfitError
            done += m
            self._left -= m

    def _turn(self, dtype: Any) -> None:
        """Turn to the next page."""
        left = next(self._pages, None)
        if left is None:
            part = next(self._parts, None)
            if part is None:
                raise UnfitError
            self._pages = self._turned(part, dtype)
        else:
            self._left = left

    def _turned(self, part: Stored, dtype: Any) -> Iterator[int]:
        """Go through the pages of one row group; yield the rows of each when it is ready."""
        at, left, known = part.at, part.n_rows, None
        while left:
            header = self._header(at, part.stop)
            told: list[int] = self._told.tolist()
            kernel, at = self._kernel, at + header
            kind, size, n = told[kernel.KIND], told[kernel.STORED], told[kernel.VALUES]
            if not (
                0 <= size <= MOST_PAGE
                and 0 <= told[kernel.SIZE] <= MOST_PAGE
                and at + size <= part.stop
                and n >= 0
                and told[kernel.WHICH] == HEADERS.get(kind)
            ):
                raise UnfitError
            body = np.frombuffer(self._bytes(at, size, part.stop), np.uint8)[:size]
            at += size
            if kind == DICTIONARY and told[kernel.ENCODING] in (PLAIN, 2):
                known = self._entered(unpacked(body, part.codec, told[kernel.SIZE]), 0, n, dtype)
                if len(known.hashes) != n + 1:
                    raise UnfitError
            elif kind in (DATA, DATA_2) and n <= left:
                self._open(body, part.codec, told, known, dtype)
                left -= n
                yield n
            else:
                raise UnfitError

    def _open(self, body: Array, codec: str | None, told: list[int], known: Cells | None, dtype: Any) -> None:
        """Make a data page ready."""
        kernel, at, levels = self._kernel, 0, (0, 0)
        if told[kernel.KIND] == DATA:
            page, encoding = unpacked(body, codec, told[kernel.SIZE]), told[kernel.ENCODING]
            if self._form.optional:
                if told[kernel.LEVEL_ENCODING] != RUNS or len(page) < 4:
                    raise UnfitError
                at = 4 + int.from_bytes(page[:4].tobytes(), "little")
                levels = (4, at)
        else:
            encoding, at = told[kernel.ENCODING_2], told[kernel.LEVEL_BYTES]
            if (
                told[kernel.ROWS_2] != told[kernel.VALUES]
                or told[kernel.REPETITION_BYTES] != 0
                or not 0 <= at <= min(len(body), told[kernel.SIZE])
            ):
                raise UnfitError
            packed = codec if told[kernel.PACKED] != 0 else None
            page = np.concatenate((body[:at], unpacked(body[at:], packed, told[kernel.SIZE] - at)))
            page.flags.writeable = False
            levels = (0, at)
        if at > len(page):
            raise UnfitError
        runs = self._runs
        runs[:] = 0
        runs[0, kernel.RUN_AT], runs[0, kernel.RUN_STOP] = levels
        runs[0, kernel.RUN_WIDTH] = int(self._form.optional)
        if encoding == PLAIN:
            self._entries, runs[1, kernel.RUN_WIDTH] = self._entered(page, at, told[kernel.VALUES], dtype), -1
        elif encoding in BY_DICTIONARY and known is not None:
            width = int(page[at]) if at < len(page) else 0
            if width > MOST_WIDTH:
                raise UnfitError
            self._entries = known
            runs[1, kernel.RUN_AT], runs[1, kernel.RUN_STOP] = at + 1, len(page)
            runs[1, kernel.RUN_WIDTH] = width
        else:
            raise UnfitError
        self._page = page

    def _entered(self, page: Array, at: int, n: int, dtype: Any) -> Cells:
        """Return the cells of the values that follow in a page, up to n of them, and one more that nobody takes."""
        from ..kernels.cells import put_numbers

        own, nulls, absent = self._meaning
        if self._form.kind == STRINGS:
            most = min(n, (len(page) - at) // 4)
            hashes, values = np.zeros(most + 1, np.uint32), np.zeros(most + 1, dtype)
            n = self._kernel.string_entries(page, at, len(page), most, own, nulls, absent, hashes, values)
            if n < 0:
                raise UnfitError
        else:
            kind = np.dtype(NUMBERS[self._form.kind])
            n = min(n, (len(page) - at) // kind.itemsize)
            numbers = np.frombuffer(page[at : at + n * kind.itemsize].tobytes(), kind).astype(self._form.number)
            hashes, values = np.zeros(n + 1, np.uint32), np.zeros(n + 1, dtype)
            if put_numbers(numbers, NO_BITS, 0, own, absent, hashes, values) >= 0:
                raise UnfitError
        return Cells(hashes[: n + 1], values[: n + 1])

    def _header(self, at: int, stop: int) -> int:
        """Read the header of the page at a place; return its bytes."""
        size = 1 << 10
        while True:
            text = self._bytes(at, min(size, stop - at), stop)
            found = int(self._kernel.page_header(np.frombuffer(text, np.uint8), len(text), self._told)) if text else -1
            if found > 0:
                return found
            if found < 0 or size >= stop - at:
                raise UnfitError
            size *= 4

    def _bytes(self, at: int, size: int, stop: int) -> memoryview:
        """Return bytes of the column, at least so many, all of which lie before `stop`."""
        begin, text = self._window
        if not begin <= at <= at + size <= begin + len(text):
            begin, text = at, read_at(self._file, min(max(size, WINDOW), stop - at), at)
            self._window = begin, text
            if len(text) < size:
                raise UnfitError
        return memoryview(text)[at - begin :]


def unpacked(body: Array, codec: str | None, size: int) -> Array:
    """Return a page's bytes, of which there have to be as many as its header tells."""
    import pyarrow as pa

    from ..kernels.pages import varint

    if codec is None:
        n = len(body)
    elif codec == "snappy":
        n = varint(body, 0, len(body))[0]
    else:  # zstd has its own way of telling
        n = int.from_bytes(body[-4:].tobytes(), "little") if codec == "gzip" else size
    if n != size:
        raise UnfitError
    if codec is None or size == 0:
        return body[:size]
    try:
        return np.frombuffer(pa.Codec(codec).decompress(body, size), np.uint8)
    except (pa.ArrowException, OSError):
        raise UnfitError from None
