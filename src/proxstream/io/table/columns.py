"""Columns of Arrow tables as features: buffers are read in place, only cells (a hash and a value) are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...core.records import NamedTuple
from ...core.validation import Array
from ..features.featurizer import Cells, Featurizer, RawRows
from ..features.spec import FeatureSpec, Grams

NO_BITS = np.frombuffer(b"", np.uint8)  # read-only like Arrow's buffers, so that compiled code sees one type
SHOWN = 40  # characters of a value in an error
NUMBERS = {"double": np.float64, "float": np.float32, "int64": np.int64, "int32": np.int32}
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORD = re.compile(rb"[0-9A-Za-z_\x80-\xff]+")


class Bad(NamedTuple):
    """A value that cannot be used: its row, its column, and `found ..., expected ...`."""

    row: int
    column: str
    words: str


def kinds(schema: Any) -> dict[str, str]:
    """Return the kind of each column by its type: numeric, categorical, or else the type itself."""
    return {field.name: kind_of(field.type) for field in schema}


def kind_of(kind: Any) -> str:
    """Return the kind of a type: numeric, categorical, or else the type itself."""
    import pyarrow.types as t

    if t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind):
        return "numeric"
    if t.is_boolean(kind) or t.is_null(kind) or _is_string(kind):
        return "categorical"
    if t.is_dictionary(kind) and kind_of(kind.value_type) in ("numeric", "categorical"):
        return "categorical"
    return str(kind)


def _is_string(kind: Any) -> bool:
    import pyarrow.types as t

    strings = (t.is_string, t.is_large_string, t.is_string_view, t.is_binary, t.is_large_binary, t.is_binary_view)
    return any(is_kind(kind) for is_kind in strings) or bool(t.is_fixed_size_binary(kind))


class ColumnFiller:
    """Writes cells of one column, with its hashes of one salt; dictionaries are hashed once."""

    def __init__(self, name: str, kind: str, spec: FeatureSpec, salt: int) -> None:
        from ..features._hash import hash_name

        self.name, self.kind = name, kind
        own = hash_name(name, salt)
        self.own = np.uint32(own)
        self.absent = np.uint32(hash_name("", own)), float(spec.missing == "value")
        self.nulls = np.array([hash_name(word, own) for word in spec.nulls], np.uint32)
        self._null_words = set(spec.nulls)
        self._type: Any = None
        self._way: Callable[[Any, Array, Array], Iterable[Bad]] = self._fill_strings
        self._dictionary: Any = None
        self._entries: tuple[Array, Array] = (np.empty(0, np.uint32), np.empty(0))

    def fill(self, column: Any, hashes: Array, values: Array) -> Iterable[Bad]:
        """Write the cells of a column; return the rows whose value cannot be used, whose cells are absent."""
        if column.type != self._type:
            self._type, self._way = (
                column.type,
                self._fill_numbers if self.kind == "numeric" else self._filler(column.type),
            )
        return self._way(column, hashes, values)

    def _filler(self, kind: Any) -> Callable[[Any, Array, Array], Iterable[Bad]]:
        """Return how categories of a type are written."""
        import pyarrow.types as t

        if t.is_null(kind):
            return self._fill_absent
        if t.is_dictionary(kind):
            return self._fill_dictionary
        return self._fill_truths if t.is_boolean(kind) else self._fill_strings

    def _fill_numbers(self, column: Any, hashes: Array, values: Array) -> Iterable[Bad]:
        from ._columns import put_numbers

        numbers, valid, shift = as_numbers(column, self._null_words)
        at, bad = 0, []
        while at < len(column):
            wrong = put_numbers(numbers[at:], valid, shift + at, self.own, self.absent, hashes[at:], values[at:])
            if wrong < 0:
                break
            at += wrong
            hashes[at], values[at] = self.absent
            found = shown(column[at])
            expected = f"a number that fits {values.dtype}" if np.isfinite(numbers[at]) else "a finite number"
            bad.append(Bad(at, self.name, f"found {found}, expected {expected}"))
            at += 1
        return bad

    def _fill_absent(self, column: Any, hashes: Array, values: Array) -> Iterable[Bad]:
        hashes[:], values[:] = self.absent
        return ()

    def _fill_strings(self, column: Any, hashes: Array, values: Array) -> Iterable[Bad]:
        from ._columns import put_strings

        strings = as_strings(column)
        data, offsets = string_buffers(strings)
        wrong = put_strings(data, offsets, *validity(strings), self.own, self.nulls, self.absent, hashes, values)
        if wrong < 0:
            return ()
        hashes[:], values[:] = self.absent
        return (
            Bad(
                wrong, self.name, f"found bytes {offsets[wrong]} to {offsets[wrong + 1]}, expected some of {len(data)}"
            ),
        )

    def _fill_truths(self, column: Any, hashes: Array, values: Array) -> Iterable[Bad]:
        import pyarrow as pa

        return self._fill_codes(column.cast(pa.int32()), pa.array(["false", "true"]), hashes, values)

    def _fill_dictionary(self, column: Any, hashes: Array, values: Array) -> Iterable[Bad]:
        return self._fill_codes(column.indices, column.dictionary, hashes, values)

    def _fill_codes(self, codes: Any, dictionary: Any, hashes: Array, values: Array) -> Iterable[Bad]:
        import pyarrow as pa

        from ._columns import put_codes

        if not _same(dictionary, self._dictionary):
            self._dictionary = dictionary
            self._entries = np.empty(len(dictionary), np.uint32), np.empty(len(dictionary), values.dtype)
            if bad := self._filler(dictionary.type)(dictionary, *self._entries):
                self._dictionary = None
                hashes[:], values[:] = self.absent
                return [one._replace(row=0) for one in bad]
        if codes.type != pa.int32():
            codes = codes.cast(pa.int32())
        numbers = as_array(codes, np.int32)
        if put_codes(numbers, *validity(codes), *self._entries, self.absent, hashes, values) < 0:
            return ()
        wrong = ((numbers < 0) | (numbers >= len(dictionary))) & codes.is_valid().to_numpy(zero_copy_only=False)
        hashes[:], values[:] = self.absent
        expected = f"one below {len(dictionary)}"
        rows = np.flatnonzero(wrong).tolist()
        return [Bad(row, self.name, f"found code {numbers[row]}, expected {expected}") for row in rows]


class TableRows:
    """The rows of one record batch as a featurizer wants them."""

    def __init__(self, batch: Any, featurizer: Featurizer, fillers: Callable[[int], list[ColumnFiller]]) -> None:
        self._batch, self._spec, self._fillers = batch, featurizer.spec, fillers
        self._dtype = featurizer.cell_dtype
        self.columns = [column.name for column in featurizer.columns]
        self._kinds = [column.kind for column in featurizer.columns]
        self._n_cells = sum(kind != "text" for kind in self._kinds)
        self.bad: list[Bad] = []
        self._grams: tuple[int, list[str]] = (-1, [])
        self._cells: dict[int, Cells] = {}

    def cells(self, salt: int) -> Cells:
        """Return the cells hashed with this salt; what cannot be used is entered in `bad` and is absent."""
        if salt not in self._cells:
            n_cells, n_rows = self._n_cells, self._batch.num_rows
            hashes, values = np.empty((n_cells, n_rows), np.uint32), np.empty((n_cells, n_rows), self._dtype)
            self.bad = []
            for k, filler in enumerate(self._fillers(salt)[:n_cells]):
                self.bad += filler.fill(self._batch.column(self.columns[k]), hashes[k], values[k])
            self._cells[salt] = Cells(hashes, values)
        return self._cells[salt]

    def raw(self, salt: int) -> RawRows:
        """Return the rows hashed with this salt."""
        n_rows, n_cells = self._batch.num_rows, self._n_cells
        hashes, values = self.cells(salt)
        indptr = np.arange(n_rows + 1) * n_cells
        terms = np.tile(np.arange(n_cells, dtype=np.int32), n_rows)
        rows = RawRows(indptr, hashes.T.ravel(), values.T.ravel(), terms)
        fillers = self._fillers(salt)
        for k in range(n_cells, len(self.columns)):
            data, starts, stops = text_buffers(self._batch.column(self.columns[k]))
            rows = with_grams(rows, data, starts, stops, self._spec.grams[self.columns[k]], fillers[k].own, k)
        return rows

    def name(self, row: int, k: int) -> str:
        """Return the name of a feature."""
        n_cells = self._n_cells
        if k < n_cells:
            value = self._value(self.columns[k], row, number=self._kinds[k] == "numeric")
            return cell_name(self.columns[k], self._kinds[k], value, self._spec)
        if self._grams[0] != row:
            texts = self.columns[n_cells:]
            values = [(name, self._value(name, row)) for name in texts]
            self._grams = (
                row,
                [
                    f"{name}={gram}"
                    for name, value in values
                    for gram in gram_names(_encoded(value), self._spec.grams[name])
                ],
            )
        return self._grams[1][k - n_cells]

    def _value(self, column: str, row: int, *, number: bool = False) -> Any:
        """Return a value as its text, but for truth values, and for numbers where it counts as one."""
        import pyarrow.types as t

        one = self._batch.column(column).slice(row, 1)
        text = _is_string(one.type) or t.is_dictionary(one.type)
        return (one if str(one.type) == "bool" or (number and not text) else as_strings(one))[0].as_py()


def fillers_of(featurizer: Featurizer) -> Callable[[int], list[ColumnFiller]]:
    """Return a function of a salt that returns the column fillers of a featurizer."""
    made: dict[int, list[ColumnFiller]] = {}

    def fillers(salt: int) -> list[ColumnFiller]:
        if salt not in made:
            made[salt] = [ColumnFiller(*column, featurizer.spec, salt) for column in featurizer.columns]
        return made[salt]

    return fillers


def with_grams(rows: RawRows, data: Array, starts: Array, stops: Array, kind: Grams, seed: Any, term: int) -> RawRows:
    """Return the rows with the n-grams of a text column after their features."""
    from ..features._crosses import joined_rows
    from ..features._hash import CHARS, WORDS, grams

    unit = WORDS if kind.unit == "words" else CHARS
    indptr, hashes = grams(data, starts, stops, unit, kind.low, kind.high, seed)
    return RawRows(*joined_rows(tuple(rows), indptr, hashes, term))


def cell_name(column: str, kind: str, value: Any, spec: FeatureSpec) -> str:
    """Return the name of the one feature that a value is."""
    missing = value is None or value in ("", b"") or value in spec.nulls
    if kind == "numeric":
        return f"{column}=" if missing else column
    if isinstance(value, bool):
        return f"{column}={str(value).lower()}"
    return f"{column}=" if missing else f"{column}={decoded(value)}"


def gram_names(text: bytes, kind: Grams) -> list[str]:
    """Return the n-grams of a text, in the order of `_hash.grams`.

    >>> gram_names(b"To be, or", Grams("words", 1, 2))
    ['to', 'be', 'or', 'to be', 'be or']
    """
    text = text.lower()
    units = _WORD.findall(text) if kind.unit == "words" else [c.encode() for c in b" ".join(text.split()).decode()]
    between = b" " if kind.unit == "words" else b""
    sizes = range(kind.low, kind.high + 1)
    return [between.join(units[k : k + n]).decode() for n in sizes for k in range(len(units) - n + 1)]


def as_numbers(column: Any, null_words: set[str]) -> tuple[Array, Array, int]:
    """Return the numbers of a column with their validity; those of 32 and 64 bits are not copied.

    A string that is not a number becomes NaN.
    """
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_string(column.type):
        words = [decoded(value).strip(" ") for value in column.to_pylist()]
        column = pa.array([None if not word or word in null_words else _number(word) for word in words], pa.float64())
    dtype = NUMBERS.get(str(column.type))
    if dtype is None:
        column, dtype = column.cast(pa.float64(), safe=False), np.float64
    return as_array(column, dtype), *validity(column)


def _number(word: str) -> float:
    return float(word) if _DECIMAL.fullmatch(word) else float("nan")


def as_strings(column: Any) -> Any:
    """Return a column as strings: those of numbers are their shortest decimal form."""
    import pyarrow as pa
    import pyarrow.types as t

    plain = (t.is_string, t.is_large_string, t.is_binary, t.is_large_binary)
    if any(is_plain(column.type) for is_plain in plain):
        return column
    if t.is_dictionary(column.type):
        return as_strings(column.dictionary_decode())
    if t.is_binary_view(column.type) or t.is_fixed_size_binary(column.type):
        return column.cast(pa.large_binary())
    return column.cast(pa.large_string() if t.is_string_view(column.type) else pa.string())


def text_buffers(column: Any) -> tuple[Array, Array, Array]:
    """Return the bytes of a column of texts, and where each begins and ends; a null is an empty text."""
    column = as_strings(column)
    data, offsets = string_buffers(column)
    starts, stops = offsets[:-1], offsets[1:]
    if column.null_count:
        stops = np.where(column.is_null().to_numpy(zero_copy_only=False), starts, stops)
    return data, starts, stops


def string_buffers(column: Any) -> tuple[Array, Array]:
    """Return the bytes and the offsets of a column of strings."""
    import pyarrow.types as t

    large = t.is_large_string(column.type) or t.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    first = column.offset
    if offsets is None or offsets.size == 0:
        return NO_BITS, np.zeros(len(column) + 1, np.int32)
    where = np.frombuffer(offsets, np.int64 if large else np.int32)[first : first + len(column) + 1]
    return NO_BITS if data is None or data.size == 0 else np.frombuffer(data, np.uint8), where


def as_array(column: Any, dtype: Any) -> Array:
    """Return the values of a column of this primitive type without copying them."""
    data = column.buffers()[1]
    if data is None or len(column) == 0:
        return np.zeros(len(column), dtype)
    return np.frombuffer(data, dtype)[column.offset : column.offset + len(column)]


def validity(column: Any) -> tuple[Array, int]:
    """Return a column's validity bits, read-only as NO_BITS so that kernels have one version, and where they begin."""
    buffer = column.buffers()[0] if column.null_count else None
    if buffer is None:
        return NO_BITS, column.offset
    bits = np.frombuffer(buffer, np.uint8)
    bits.flags.writeable = False
    return bits, column.offset


def _same(one: Any, other: Any) -> bool:
    """Return whether two dictionaries share their memory."""
    if other is None or len(one) != len(other) or one.offset != other.offset or one.type != other.type:
        return False
    places = [[None if b is None else b.address for b in array.buffers()] for array in (one, other)]
    return bool(places[0] == places[1])


def shown(value: Any) -> str:
    """Return a value as errors show it.

    >>> shown("x" * 50)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'..."
    """
    value = value.as_py() if hasattr(value, "as_py") else value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return repr(value[:SHOWN]) + ("..." if len(value) > SHOWN else "")
    return "nothing" if value is None else str(value)


def decoded(value: Any) -> str:
    """Return a string or bytes as a string, None as an empty one."""
    if value is None:
        return ""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _encoded(value: Any) -> bytes:
    return value if isinstance(value, bytes) else decoded(value).encode()
