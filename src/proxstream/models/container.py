"""The container of a model file: named arrays and one JSON header, in the safetensors layout.

    8 bytes          length n of what follows, little-endian
    n bytes          JSON: a dtype, a shape and two offsets per tensor, and "__metadata__"
    then             the bytes of the tensors, little-endian, without gaps

Any safetensors reader opens it. "__metadata__" holds three strings: "format" is "proxstream 1", "header" the JSON of
the model (settings, history, which tensors make up which array), "sha256" a checksum of the file computed with
zeros in its place.

An array that is mostly zeros is stored sparse: its rows with a bit set, and their indices. It is restored bit for bit,
including -0.0 and NaN.

Equal contents give equal bytes: keys are sorted, and nothing depends on the clock, the machine or the path.

Reading trusts nothing. Every size and offset is checked against the size of the file before memory is allocated, and
sparse arrays expand to at most UNFOLDED bytes, or TIMES their bytes in the file (larger ones are not stored sparse).
Any error is a `ModelFileError` of one line that starts with the path.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np

from ..core.records import NamedTuple
from ..core.validation import Array
from ..io.atomic import replacing

FORMAT = "proxstream 1"
LONGEST_HEADER = 1 << 25
MOST_DIMENSIONS = 8
UNFOLDED, TIMES = 1 << 29, 1 << 12  # limits of expanded sparse arrays: in bytes, and per byte stored
FEW_BYTES = 1 << 20  # up to which a checksum is computed without OpenSSL
PIECE = 1 << 22  # bytes written, read or hashed at once

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

Header = dict[str, Any]


class ModelFileError(ValueError):
    """A file that is not a model file, or is damaged; the message is one line and starts with the path.

    >>> import proxstream as ps
    >>> ps.load("no-such-model.psm")
    Traceback (most recent call last):
    proxstream.models.container.ModelFileError: no-such-model.psm: cannot be read: No such file or directory
    """


class Tensor(NamedTuple):
    """A tensor: its bytes begin and end at these offsets after the header."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


# -- writing -------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a header and arrays to a file, atomically: an error, a full disk or a crash leaves the old file unchanged.

    Parameters
    ----------
    path : str or path
    header : dict
        JSON values; numbers must be finite.
    arrays : dict of str and array
        Arrays of numbers; names must not end in ":rows" or ":values", which sparse arrays use.

    Examples
    --------
    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "some.psm")
    ...     write(path, {"kind": "demo"}, {"w": np.array([0.0, 1.5])})
    ...     read(path)
    ({'kind': 'demo'}, {'w': array([0. , 1.5])})
    """
    tensors, sparse = _tensors(arrays)
    head = _head(dict(header), sparse, tensors)
    with replacing(path) as file:
        file.write(head)
        for tensor in tensors.values():
            for piece in _pieces(tensor):
                file.write(piece)


def _tensors(arrays: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, list[int]]]:
    """Return the stored tensors in the order of the file, and the full shapes of the sparse arrays."""
    found: dict[str, Array] = {}
    sparse: dict[str, list[int]] = {}
    room = UNFOLDED
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        if name == "__metadata__" or name.endswith((":rows", ":values")):
            raise ValueError(f"an array's name must not be __metadata__ nor end in :rows or :values, got {name!r}")
        if array.dtype.newbyteorder("<") not in NAMES:
            raise TypeError(f"{name} must be an array of numbers of at most 64 bits, got {array.dtype}")
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(array.shape)
        rows = _rows_worth_storing(array, room)
        if rows is None:
            found[name] = array
        else:
            found[f"{name}:rows"], found[f"{name}:values"] = rows, array[rows]
            sparse[name] = list(array.shape)
            room -= _beyond(array.nbytes, rows.nbytes + found[f"{name}:values"].nbytes)
    ordered = sorted(found.items(), key=lambda item: (-item[1].itemsize, item[0]))  # keeps all aligned
    return dict(ordered), sparse


def _rows_worth_storing(array: Array, room: int) -> Array | None:
    """Return the rows with a bit set if storing only them is smaller and expands within the limits, else None."""
    if array.ndim == 0 or array.size == 0 or array.dtype.kind != "f":
        return None
    index = np.dtype("<i4") if len(array) < 1 << 31 else np.dtype("<i8")
    bits = array.view(f"u{array.itemsize}").reshape(len(array), -1)
    filled = bits[:, 0] != 0
    for column in range(1, bits.shape[1]):  # a column at a time: any() over a short axis takes ten times as long
        filled |= bits[:, column] != 0
    stored = int(np.count_nonzero(filled)) * (array.nbytes // len(array) + index.itemsize)
    if stored >= array.nbytes or _beyond(array.nbytes, stored) > room:
        return None
    return np.flatnonzero(filled).astype(index)


def _beyond(unfolded: int, stored: int) -> int:
    """Return the bytes of an expanded sparse array in excess of the limit for its stored bytes."""
    return max(unfolded - TIMES * stored, 0)


def _head(header: Header, sparse: dict[str, list[int]], tensors: dict[str, Array]) -> bytes:
    """Return the bytes before the tensors, including the checksum."""
    layout, offset = {}, 0
    for name, array in tensors.items():
        layout[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    metadata = {"format": FORMAT, "header": as_json({"data": header, "sparse": sparse}), "sha256": "0" * 64}
    text = as_json({"__metadata__": metadata, **layout}).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise ValueError(f"the header must be at most {LONGEST_HEADER} bytes, got {len(text)}")
    head = len(text).to_bytes(8, "little") + text
    digest = _sha256(offset)
    digest.update(head)
    for array in tensors.values():
        for piece in _pieces(array):
            digest.update(piece)
    return head.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest.hexdigest().encode())


def _sha256(size: int) -> Any:
    """Return a new SHA-256 checksum, for about so many bytes.

    OpenSSL, behind `hashlib`, is quicker, but loading it takes longer than a small model.
    """
    if size < FEW_BYTES:
        for module in ("_sha2", "_sha256"):  # since Python 3.12, and before
            with suppress(ImportError, AttributeError):
                return import_module(module).sha256()
    from hashlib import sha256

    return sha256()


def _pieces(array: Array) -> Iterator[memoryview]:
    flat = array.reshape(-1).view(np.uint8).data
    return (flat[start : start + PIECE] for start in range(0, len(flat), PIECE))


def as_json(value: Any) -> str:
    """Return JSON with sorted keys and without spaces; NaN and infinities are errors."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"), ensure_ascii=True)


# -- reading -------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> tuple[Header, dict[str, Array]]:
    """Return the header and the arrays of a file that `write` wrote."""
    name = os.fspath(path)
    try:
        if not os.path.isfile(name) and os.path.exists(name):  # a pipe would block
            raise ModelFileError("cannot be read: not a regular file")
        with open(name, "rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None
    except OSError as error:
        raise ModelFileError(f"{name}: cannot be read: {error.strerror or error}") from None
    except (MemoryError, RecursionError) as error:
        raise ModelFileError(f"{name}: cannot be read: {type(error).__name__}") from None


def _read(file: BinaryIO, size: int) -> tuple[Header, dict[str, Array]]:
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(size - 8, LONGEST_HEADER):
        raise ModelFileError(f"not a model file, or truncated ({size} bytes)")
    text = file.read(length)
    layout = _object(text, "the layout")
    metadata = layout.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not str(metadata.get("format", "")).startswith("proxstream "):
        raise ModelFileError("not a model file: its metadata do not name proxstream")
    if metadata["format"] != FORMAT:
        raise ModelFileError(f"has the format {str(metadata['format'])[:40]!r}, this version reads {FORMAT!r}")
    checksum = metadata.get("sha256")
    if not isinstance(checksum, str) or len(checksum) != 64 or text.count(checksum.encode()) != 1:
        raise ModelFileError("is damaged: it must have one checksum of 64 digits")
    tensors = _checked_layout(layout, size - 8 - length)
    digest = _sha256(size)
    digest.update(start + text.replace(checksum.encode(), b"0" * 64))
    stored = {tensor.name: _read_tensor(file, tensor, digest) for tensor in tensors}
    if digest.hexdigest() != checksum:
        raise ModelFileError("is damaged: its checksum does not match its contents")
    outer = _object(metadata.get("header", ""), "the header")
    header, sparse = outer.get("data"), outer.get("sparse")
    if not isinstance(header, dict) or not isinstance(sparse, dict):
        raise ModelFileError("is damaged: its header must have 'data' and 'sparse'")
    return header, _unfolded(stored, sparse)


def _object(text: str | bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object; duplicate keys, NaN and unbounded nesting are errors."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("duplicate key")
        return found

    def constant(word: str) -> Any:
        raise ValueError(f"{word} is not valid JSON")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=constant)
    except (ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ModelFileError(f"is damaged: {what} is not valid JSON: {reason}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"is damaged: {what} must be a JSON object, got {type(value).__name__}")
    return value


def _checked_layout(layout: Mapping[str, Any], size: int) -> list[Tensor]:
    """Return the tensors in the order of the file after checking that they cover it without gaps or overlaps."""
    tensors = sorted((_tensor(name, entry) for name, entry in layout.items()), key=lambda t: (t.begin, t.end))
    end = 0
    for tensor in tensors:
        if tensor.begin != end:
            raise ModelFileError(f"is damaged: tensor {tensor.name[:80]!r} must begin at {end}, got {tensor.begin}")
        end = tensor.end
    if end != size:
        raise ModelFileError(f"is damaged or truncated: its tensors take {end} bytes, the file has {size} for them")
    return tensors


def _tensor(name: str, entry: Any) -> Tensor:
    try:
        dtype = DTYPES[entry["dtype"]]
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        numbers = (*shape, begin, end)
        if any(type(number) is not int or not 0 <= number < 1 << 62 for number in numbers):
            raise ValueError
        if len(entry) != 3 or len(shape) > MOST_DIMENSIONS or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError
    except (TypeError, ValueError, KeyError, IndexError):
        raise ModelFileError(
            f"is damaged: tensor {name[:80]!r} must have a known dtype, a shape and the offsets that these take"
        ) from None
    return Tensor(name, dtype, shape, begin, end)


def _read_tensor(file: BinaryIO, tensor: Tensor, digest: Any) -> Array:
    array = np.empty(math.prod(tensor.shape), tensor.dtype)
    room = array.view(np.uint8).data
    for start in range(0, len(room), PIECE):
        piece = room[start : start + PIECE]
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]
            raise ModelFileError("shrank while it was being read")
        digest.update(piece)
    if tensor.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise ModelFileError(f"is damaged: tensor {tensor.name[:80]!r} must have truth values 0 and 1")
    native = array if sys.byteorder == "little" else array.astype(tensor.dtype.newbyteorder("="))
    return native.reshape(tensor.shape)


def _unfolded(stored: dict[str, Array], sparse: Mapping[str, Any]) -> dict[str, Array]:
    """Return the arrays, with sparse ones expanded."""
    beyond = 0
    for name, shape in sparse.items():
        rows, values = stored.get(f"{name}:rows"), stored.get(f"{name}:values")
        fits = (
            rows is not None
            and values is not None
            and isinstance(shape, list)
            and 0 < len(shape) <= MOST_DIMENSIONS
            and all(type(n) is int and 0 <= n < 1 << 62 for n in shape)
            and name not in stored
            and rows.dtype.kind == "i"
            and rows.ndim == 1
            and values.dtype.kind == "f"
            and rows.shape == values.shape[:1]
            and values.shape[1:] == tuple(shape[1:])
            and (len(rows) == 0 or (rows[0] >= 0 and rows[-1] < shape[0] and bool((rows[1:] > rows[:-1]).all())))
        )
        if not fits or rows is None or values is None:
            raise ModelFileError(f"is damaged: the rows and values of {name[:80]!r} do not fit its shape")
        beyond += _beyond(math.prod(shape) * values.itemsize, rows.nbytes + values.nbytes)
    if beyond > UNFOLDED:
        raise ModelFileError(f"is damaged: its sparse arrays are {beyond} bytes larger than their stored bytes allow")
    arrays = dict(stored)
    for name, shape in sparse.items():
        array = np.zeros(shape, stored[f"{name}:values"].dtype)
        array[arrays.pop(f"{name}:rows")] = arrays.pop(f"{name}:values")
        arrays[name] = array
    return dict(sorted(arrays.items()))
