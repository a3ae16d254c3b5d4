"""The container of a model file: named arrays and one JSON header, in the safetensors layout.

    8 bytes          length n of what follows, little-endian
    n bytes          JSON: a dtype, a shape and two offsets a tensor, and "__metadata__"
    the rest         the tensors' bytes, little-endian, one after another without gaps

Any safetensors reader opens it. "__metadata__" holds three strings: "format" is "proxstream 1", "header" the JSON of
the model (settings, history, which tensors make up which array), "sha256" a checksum of the whole file, taken with
zeros in its own place.

An array that is mostly zeros is stored sparse: the rows that have a bit set, and their numbers. What is read back is
the same array bit for bit, -0.0 and NaN among it.

Equal contents give equal bytes: keys are sorted, and neither clock nor machine nor path goes in.

Reading trusts nothing. Every size and offset is checked against the size of the file before memory is asked for, and
sparse arrays unfold to UNFOLDED bytes, or TIMES what they take in the file, and no more (such an array is not stored
sparse). Whatever is wrong is a `ModelFileError` of one line that begins with the path.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .._checks import Array
from .._paths import named

FORMAT = "proxstream 1"
LONGEST_HEADER = 1 << 25
MOST_DIMENSIONS = 8
UNFOLDED, TIMES = 1 << 29, 1 << 12  # bounds of what sparse arrays become: in bytes, and for each byte stored
PIECE = 1 << 22  # bytes written, read or hashed in one go

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
    """A file that is no model, or one that is damaged; the message is one line and begins with the path.

    >>> import proxstream as ps
    >>> ps.load("no-such-model.psm")
    Traceback (most recent call last):
    proxstream.modelfile.container.ModelFileError: no-such-model.psm: cannot be read: No such file or directory
    """


class Tensor(NamedTuple):
    """Where a tensor lies: its bytes begin and end so far behind the header."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


# -- writing -------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a header and arrays to a file, whole or not at all.

    The bytes go to a temporary file in the same folder, which takes the path's place once they are on the disk: an
    error, a full disk or a crash leaves the old file as it was.

    Parameters
    ----------
    path : str or path
    header : dict
        Of what JSON knows; a number that is not finite is refused.
    arrays : dict of str and array
        Of numbers; the names may be any but those that sparse arrays take, which end in ":rows" and ":values".

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


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends well, and vanishes when it does not."""
    target = os.fspath(path)
    if os.path.isdir(target):
        raise IsADirectoryError(f"{target}: cannot be written: it is a folder")
    target = os.path.realpath(target)  # a link stays a link
    if os.path.exists(target) and not os.path.isfile(target):  # a pipe or a device has no place to take
        with open(target, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(6)}.tmp")
    mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with named(path, temporary):
        descriptor = os.open(temporary, mode, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, os.stat(target).st_mode & 0o7777)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    if os.name == "posix":
        entry = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def _tensors(arrays: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, list[int]]]:
    """Return what is stored, in the order of the file, and the full shapes of the arrays that are stored sparse."""
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
    ordered = sorted(found.items(), key=lambda item: (-item[1].itemsize, item[0]))  # so that all lie aligned
    return dict(ordered), sparse


def _rows_worth_storing(array: Array, room: int) -> Array | None:
    """Return the rows with a bit set if storing them alone takes fewer bytes and unfolds within bounds, else None."""
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
    """Return by how many bytes a sparse array outgrows what its stored bytes account for."""
    return max(unfolded - TIMES * stored, 0)


def _head(header: Header, sparse: dict[str, list[int]], tensors: dict[str, Array]) -> bytes:
    """Return the bytes before the tensors, with the checksum of the file in them."""
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
    digest = hashlib.sha256(head)
    for array in tensors.values():
        for piece in _pieces(array):
            digest.update(piece)
    return head.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest.hexdigest().encode())


def _pieces(array: Array) -> Iterator[memoryview]:
    flat = array.reshape(-1).view(np.uint8).data
    return (flat[start : start + PIECE] for start in range(0, len(flat), PIECE))


def as_json(value: Any) -> str:
    """Return JSON with sorted keys and without spaces; NaN and infinities are refused."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"), ensure_ascii=True)


# -- reading -------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> tuple[Header, dict[str, Array]]:
    """Return the header and the arrays that `write` was given; see there."""
    name = os.fspath(path)
    try:
        if not os.path.isfile(name) and os.path.exists(name):  # a pipe would be waited for
            raise ModelFileError("cannot be read: it is no regular file")
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
        raise ModelFileError(f"is no model file, or is cut short: its {size} bytes do not hold a header")
    text = file.read(length)
    layout = _object(text, "the layout")
    metadata = layout.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not str(metadata.get("format", "")).startswith("proxstream "):
        raise ModelFileError("is no model file: its metadata do not say that proxstream wrote it")
    if metadata["format"] != FORMAT:
        raise ModelFileError(f"has the format {str(metadata['format'])[:40]!r}, this version reads {FORMAT!r}")
    told = metadata.get("sha256")
    if not isinstance(told, str) or len(told) != 64 or text.count(told.encode()) != 1:
        raise ModelFileError("is damaged: it must have one checksum of 64 digits")
    tensors = _checked_layout(layout, size - 8 - length)
    digest = hashlib.sha256(start + text.replace(told.encode(), b"0" * 64))
    stored = {tensor.name: _read_tensor(file, tensor, digest) for tensor in tensors}
    if digest.hexdigest() != told:
        raise ModelFileError("is damaged: its checksum does not match its contents")
    outer = _object(metadata.get("header", ""), "the header")
    header, sparse = outer.get("data"), outer.get("sparse")
    if not isinstance(header, dict) or not isinstance(sparse, dict):
        raise ModelFileError("is damaged: its header must have 'data' and 'sparse'")
    return header, _unfolded(stored, sparse)


def _object(text: str | bytes, what: str) -> dict[str, Any]:
    """Return the JSON object that a text holds; a key twice, NaN and nesting without end are refused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key comes twice")
        return found

    def constant(word: str) -> Any:
        raise ValueError(f"{word} is no number of JSON")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=constant)
    except (ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ModelFileError(f"is damaged: {what} is no JSON: {reason}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"is damaged: {what} must be a JSON object, got {type(value).__name__}")
    return value


def _checked_layout(layout: Mapping[str, Any], size: int) -> list[Tensor]:
    """Return the tensors in the order of the file, after checking that they fill its bytes without gap or overlap."""
    tensors = sorted((_tensor(name, entry) for name, entry in layout.items()), key=lambda t: (t.begin, t.end))
    end = 0
    for tensor in tensors:
        if tensor.begin != end:
            raise ModelFileError(f"is damaged: tensor {tensor.name[:80]!r} must begin at {end}, got {tensor.begin}")
        end = tensor.end
    if end != size:
        raise ModelFileError(f"is damaged or cut short: its tensors take {end} bytes, the file has {size} for them")
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
            raise ModelFileError("became shorter while it was read")
        digest.update(piece)
    if tensor.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise ModelFileError(f"is damaged: tensor {tensor.name[:80]!r} must have truth values 0 and 1")
    native = array if sys.byteorder == "little" else array.astype(tensor.dtype.newbyteorder("="))
    return native.reshape(tensor.shape)


def _unfolded(stored: dict[str, Array], sparse: Mapping[str, Any]) -> dict[str, Array]:
    """Return the arrays, those that were stored sparse in full."""
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
        raise ModelFileError(f"is damaged: its sparse arrays are {beyond} bytes larger than what is stored tells")
    arrays = dict(stored)
    for name, shape in sparse.items():
        array = np.zeros(shape, stored[f"{name}:values"].dtype)
        array[arrays.pop(f"{name}:rows")] = arrays.pop(f"{name}:values")
        arrays[name] = array
    return dict(sorted(arrays.items()))
