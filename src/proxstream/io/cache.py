"""Row caches: the rows of a stream in a file that is read ten times as fast as text.

    16 bytes            magic, version
    chunks              each a head of 48 bytes and a payload
    trailer             the same, its payload JSON: number of rows, feature specification; and names of features
    16 bytes            where the trailer begins, magic

A payload has, one after the other and each padded to 8 bytes: the lengths of rows, indices, values, labels, weights
and qid. Each is stored in the narrowest type that is lossless for the chunk: not at all if all are 1, in a byte if they
are small integers, in 32 bits if they are single precision. Indices take 1 to 4 bytes and keep their order. (Delta
coding would save one more byte where rows are sorted, which hashed ones are not.) Head and payload have XXH64
checksums; a truncated file has no end. What is read is what was written, bit for bit.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.rowblock import RowBlock
from .features.featurizer import Featurizer
from .features.spec import ROLES, FeatureSpec
from .formats import Job, changed
from .sources import Opened, Source
from .text.reader import Checksum, check_highest, no_rows, skim
from .types import Chunk, DataError, Position, without_offsets

if TYPE_CHECKING:
    from .open import Stream

MAGIC, VERSION, END = b"PSROWS\r\n", 1, b"PSROWEND"
START = struct.Struct("<8sII")
TAIL = struct.Struct("<Q8s")
HEAD = struct.Struct("<4sI6BHQQQQ")  # kind, rows, codes, 0, entries, payload's size and checksum, own checksum
ROWS, TRAILER = b"ROWS", b"LAST"
ENTRIES = 1 << 18  # minimum per chunk

# How an array is stored: not at all, all ones, or by a type; U24 are three bytes.
ABSENT, ONES, U8, U16, U24, U32, I8, I64, F32, F64 = range(10)
TYPES = {U8: "|u1", U16: "<u2", U32: "<u4", I8: "|i1", I64: "<i8", F32: "<f4", F64: "<f8"}
WIDTHS = {code: np.dtype(name).itemsize for code, name in TYPES.items()} | {U24: 3}


class Head(NamedTuple):
    """The head of a payload."""

    kind: bytes
    n_rows: int
    codes: tuple[int, ...]  # of lengths, indices, values, labels, weights, qid
    n_entries: int
    size: int
    check: int

    def packed(self) -> bytes:
        """Return the bytes of the head."""
        fields = (self.kind, self.n_rows, *self.codes, 0, self.n_entries, self.size, self.check)
        return HEAD.pack(*fields, hashed(HEAD.pack(*fields, 0)))

    @classmethod
    def unpacked(cls, data: bytes) -> Head | None:
        """Return the head in these bytes, None if they are not a head."""
        kind, n_rows, *codes, _, n_entries, size, check, own = HEAD.unpack(data)
        if kind not in (ROWS, TRAILER) or own != hashed(data[:-8] + bytes(8)):
            return None
        return cls(kind, n_rows, tuple(codes), n_entries, size, check)


def hashed(data: Any) -> int:
    """Return the checksum of some bytes."""
    check = Checksum(0)
    check.update(np.frombuffer(data, np.uint8).copy() if isinstance(data, bytes) else data, 0, len(data))
    return check.value()


# -- arrays ------------------------------------------------------------------------------------------


def stored(array: Array | None) -> tuple[int, bytes]:
    """Return the narrowest lossless type for an array, and its bytes.

    >>> stored(np.array([1.0, -1.0, 3.0]))
    (6, b'\\x01\\xff\\x03')
    """
    if array is None or len(array) == 0:
        return ABSENT, b""
    if array.dtype.kind in "iu":
        return _stored_whole(array)
    if (array == 1).all():
        return ONES, b""
    with np.errstate(over="ignore", invalid="ignore"):
        for code in (I8, F32):
            narrow = array.astype(TYPES[code])
            if narrow.astype(array.dtype).tobytes() == array.tobytes():  # as bits: -0.0 and NaN stay
                return code, narrow.tobytes()
    return F64, array.astype(TYPES[F64]).tobytes()


def _stored_whole(array: Array) -> tuple[int, bytes]:
    low, high = int(array.min()), int(array.max())
    if low >= 0 and 1 << 16 <= high < 1 << 24:
        from ._packing import pack24

        packed = np.empty(3 * len(array), np.uint8)
        pack24(array, packed)
        return U24, packed.tobytes()
    code = I64 if low < 0 or high >= 1 << 32 else U8 if high < 1 << 8 else U16 if high < 1 << 16 else U32
    return code, array.astype(TYPES[code]).tobytes()


def size_of(code: int, n: int) -> int | None:
    """Return the bytes that n numbers take, padded to 8, or None if there is no such code."""
    if code in (ABSENT, ONES):
        return 0
    return (n * WIDTHS[code] + 7) // 8 * 8 if code in WIDTHS else None


def restored(code: int, data: memoryview, n: int, dtype: Any) -> Array:
    """Return the array that was stored, without a copy if it is of this type already."""
    if code == ABSENT:
        return np.empty(0, dtype)
    if code == ONES:
        return np.ones(n, dtype)
    if code == U24:
        from ._packing import unpack24

        numbers = np.empty(n, np.int32)
        unpack24(np.frombuffer(data, np.uint8), numbers)
        return numbers.astype(dtype, copy=False)
    array = np.frombuffer(data, TYPES[code], n)
    if code == U32 and dtype == np.int32:
        return array.view(np.int32)
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False)


# -- writing -----------------------------------------------------------------------------------------


def write_cache(stream: Stream, path: str | os.PathLike[str]) -> int:
    """Write a stream's rows to a row cache, and return how many there were.

    The file is replaced when the new one is complete; until then, and after an error, the old one stays.

    Parameters
    ----------
    stream : Stream
    path : path
        Usually with the extension .psr, from which `open_stream` infers the format.

    Examples
    --------
    >>> import io, os, tempfile, proxstream as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.psr")
    ...     write_cache(ps.open_stream(io.BytesIO(b"1 3:0.5\\n-1 2:1\\n"), "svmlight"), path)
    ...     next(iter(ps.open_stream(path))).indices
    2
    array([3, 2], dtype=int32)
    """
    from .atomic import replacing

    files = [name for name in getattr(stream, "names", ()) if os.path.isfile(name)]
    if os.path.realpath(path) in map(os.path.realpath, files):
        raise ValueError(f"{os.fspath(path)}: a row cache must not overwrite its own source")
    n_rows = n_entries = 0
    with replacing(path) as file:
        file.write(START.pack(MAGIC, VERSION, 0))
        for rows, qid in _regrouped(stream.chunks()):
            lengths = np.diff(rows.indptr)
            parts = [stored(array) for array in (lengths, rows.indices, rows.data, rows.y, rows.c, qid)]
            payload = b"".join(data + bytes(-len(data) % 8) for _, data in parts)
            codes = tuple(code for code, _ in parts)
            head = Head(ROWS, rows.n_rows, codes, len(rows.indices), len(payload), hashed(payload))
            file.write(head.packed())
            file.write(payload)
            n_rows += rows.n_rows
            n_entries += len(rows.indices)
        featurizer = stream.used_featurizer
        facts: dict[str, Any] = {"rows": n_rows, "entries": n_entries, "dtype": stream.dtype}
        names = b""
        if featurizer is not None:
            arrays = featurizer.arrays()
            names = b"".join(arrays[name].tobytes() for name in ("keys", "ends", "names"))
            facts |= {"features": featurizer.spec.to_json(), "names": [len(arrays["keys"]), len(arrays["names"])]}
        text = json.dumps(facts).encode()
        payload = text + bytes(-len(text) % 8) + names
        where = file.tell()
        file.write(Head(TRAILER, n_rows, (0,) * 6, len(text), len(payload), hashed(payload)).packed())
        file.write(payload)
        file.write(TAIL.pack(where, END))
    return n_rows


def _regrouped(chunks: Iterable[Chunk]) -> Iterator[tuple[RowBlock, Array | None]]:
    """Join small chunks."""
    waiting: list[Chunk] = []
    for chunk in without_offsets(chunks):
        if waiting and (waiting[0].qid is None) != (chunk.qid is None):
            yield _joined(waiting)
            waiting = []
        waiting.append(chunk)
        if sum(len(one.rows.indices) + one.rows.n_rows for one in waiting) >= ENTRIES:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(chunks: list[Chunk]) -> tuple[RowBlock, Array | None]:
    rows = RowBlock.concat([chunk.rows for chunk in chunks])
    qid = [chunk.qid for chunk in chunks if chunk.qid is not None]
    return rows, np.concatenate(qid) if qid else None


# -- reading -----------------------------------------------------------------------------------------


def damaged(name: str, what: str) -> DataError:
    """Return the error for a damaged row cache."""
    return DataError(f"{name}: the row cache is damaged or cut short: {what}; write it again")


def read_trailer(source: Source) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of the trailer, and the names of features in it."""
    if source.compression is not None or not source.rereadable:
        raise DataError(f"{source.name}: a row cache has to be a plain file")
    with source.native() as file:
        size = file.size()
        if size < START.size + TAIL.size or START.unpack(file.read(START.size))[0] != MAGIC:
            raise DataError(f"{source.name}: not a row cache")
        file.seek(8)
        version = struct.unpack("<I", file.read(4))[0]
        if version != VERSION:
            raise DataError(f"{source.name}: a row cache of version {version}, expected {VERSION}; write it again")
        file.seek(size - TAIL.size)
        where, end = TAIL.unpack(file.read(TAIL.size))
        if end != END or where > size - TAIL.size - HEAD.size:
            raise damaged(source.name, "it does not end as a row cache does")
        file.seek(where)
        head = Head.unpacked(file.read(HEAD.size))
        if head is None or head.kind != TRAILER or head.size != size - TAIL.size - HEAD.size - where:
            raise damaged(source.name, "its trailer has changed")
        payload = file.read(head.size)
    if hashed(payload) != head.check or head.n_entries > head.size:
        raise damaged(source.name, "its trailer has changed")
    text = json.loads(payload[: head.n_entries])
    return text, payload[head.n_entries + -head.n_entries % 8 :]


def features(source: Source, given: Any, dtype: Any) -> Any:
    """Return the featurizer of a cache; a specification other than its own or the default is refused."""
    text, names = read_trailer(source)
    if text.get("features") is None:
        return given
    spec = FeatureSpec.from_json(text["features"])
    asked = given.spec if isinstance(given, Featurizer) else given
    if asked is not None:  # numbers are standardized if the rows were written for it
        asked = replace(asked, standardize=spec.standardize)
    if asked not in (None, FeatureSpec(standardize=spec.standardize)):
        own, other = spec.to_json(), _expanded(asked, spec).to_json()
        differ = [name for name in own if name != "columns" and own[name] != other[name]]
        if differ:
            raise DataError(
                f"{source.name}: its rows were made with {differ[0]}={own[differ[0]]!r}, not {other[differ[0]]!r}"
            )
    if isinstance(given, Featurizer):
        return given
    n, n_bytes = text["names"]
    if len(names) != 16 * n + n_bytes:
        raise damaged(source.name, "it lacks names of features")
    featurizer = Featurizer(spec, dtype)
    keys, ends = np.frombuffer(names, "<u8", n), np.frombuffer(names, "<i8", n, 8 * n)
    featurizer.restore({"keys": keys, "ends": ends, "names": np.frombuffer(names, np.uint8, n_bytes, 16 * n)})
    return featurizer


def _expanded(asked: FeatureSpec, spec: FeatureSpec) -> FeatureSpec:
    """Return the specification asked for with the columns of a cache instead of patterns, if it has any."""
    if asked.columns is not None or spec.columns is None:
        return asked
    roles = [name for role in ROLES if (name := getattr(spec, role))]
    featurizer = Featurizer(asked)
    with suppress(DataError):  # a column that the cache does not have
        featurizer.decide({**dict(spec.columns), **dict.fromkeys([*spec.drop, *roles], "categorical")}, "")
        named = {use: sorted(getattr(featurizer.spec, use)) for use in ("numeric", "categorical", "drop")}
        if named == {use: sorted(getattr(spec, use)) for use in named}:
            return replace(featurizer.spec, numeric=spec.numeric, categorical=spec.categorical, drop=spec.drop)
    return asked


def read(job: Job) -> Iterator[Chunk]:
    """Read a row cache."""
    with job.source.open(job.closed) as opened:
        yield from _Reading(job, opened).chunks()


class _Reading:
    """One pass over a row cache."""

    def __init__(self, job: Job, opened: Opened) -> None:
        self.job, self.opened = job, opened
        self.check = Checksum(job.seed)
        self.row, self.offset = job.start.row, job.start.offset
        done, _ = skim(opened, self.check, self.offset)
        if done < self.offset or (done and self.check.value() != job.start.check):
            raise changed(job)

    def _take(self, n: int) -> Array:
        """Read so many bytes."""
        data = np.empty(n, np.uint8)
        view, filled = data.data, 0
        while filled < n:
            more = self.opened.readinto(view[filled:])
            if more == 0:
                raise damaged(self.job.source.name, f"it ends at byte {self.offset + filled}")
            filled += more
        self.check.update(data, 0, n)
        self.offset += n
        return data

    def chunks(self) -> Iterator[Chunk]:
        """Yield chunks as they were stored."""
        before = self.offset
        if self.offset == 0:
            self._take(START.size)
        while not self.job.closed():
            at = self.offset
            head = Head.unpacked(bytes(self._take(HEAD.size)))
            if head is None or head.size > (self.job.source.size or 0):
                raise damaged(self.job.source.name, f"no chunk begins at byte {at}")
            payload = self._take(head.size)
            if hashed(payload) != head.check:
                raise damaged(self.job.source.name, f"the chunk at byte {at} is not what it was")
            rows, qid = no_rows(self.job.settings.dtype), None
            if head.kind == ROWS:
                rows, qid = self._decoded(head, payload, at)
            else:
                self._take(TAIL.size)
            self.row += rows.n_rows
            end = Position(self.job.start.file, self.row, self.offset, self.check.value())
            n_bytes, before = self.offset - before, self.offset
            yield Chunk(rows, qid, self.job.bad_rows.mark(end), n_bytes)
            if head.kind == TRAILER:
                return

    def _decoded(self, head: Head, payload: Array, at: int) -> tuple[RowBlock, Array | None]:
        counts = [head.n_rows, head.n_entries, head.n_entries, head.n_rows, head.n_rows, head.n_rows]
        sizes = [size_of(code, n) for code, n in zip(head.codes, counts, strict=True)]
        if None in sizes or sum(size for size in sizes if size is not None) != head.size:
            raise damaged(self.job.source.name, f"the chunk at byte {at} does not have the size in its head")
        ends = np.cumsum([size or 0 for size in sizes]).tolist()
        views = [payload.data[end - (size or 0) : end] for size, end in zip(sizes, ends, strict=True)]
        features = self.job.settings.features
        dtype = features.cell_dtype if isinstance(features, Featurizer) else self.job.settings.dtype
        types = (np.int64, np.int32, dtype, np.float64, np.float64, np.int64)
        parts = zip(head.codes, views, counts, types, strict=True)
        lengths, indices, data, y, c, qid = (restored(*part) for part in parts)
        indptr = np.zeros(head.n_rows + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        fits = len(lengths) == head.n_rows and len(indices) == len(data) == head.n_entries == indptr[-1]
        if not fits:
            raise damaged(self.job.source.name, f"the rows of the chunk at byte {at} do not fit together")
        if head.codes[2] == F64 and data.dtype == np.float32 and not np.isfinite(data).all():
            raise DataError(f"{self.job.source.name}: a value of the chunk at byte {at} does not fit float32")
        rows = RowBlock(indptr.astype(np.int32), indices, data, y, c)
        if not isinstance(self.job.settings.features, Featurizer):  # names and hashes have their own bounds
            check_highest(self.job, rows, self.row)
        return rows, qid if head.codes[-1] != ABSENT else None
