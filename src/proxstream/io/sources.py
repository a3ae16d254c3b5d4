"""Where bytes come from: files, globs, standard input, file objects, pyarrow's file systems; compressed or not.

A source is opened once per pass. It is read by `readinto`, in large pieces, and counts the bytes of the source as it is
stored, so that progress is known for compressed files, too. A plain file is not memory-mapped: a mapped file that is
truncated while it is read would kill the process.
"""

from __future__ import annotations

import glob
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from .types import DataError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
HEAD = 1 << 16  # bytes from which formats and columns are inferred
PATIENCE = 0.1  # seconds between two checks whether the stream was closed, while standard input is silent


class Opened(Protocol):
    """Bytes being read."""

    def readinto(self, into: memoryview) -> int:
        """Fill as much as there is, at least a byte; 0 at the end."""

    @property
    def bytes_read(self) -> int:
        """Bytes read of the source as it is stored."""

    def idle(self) -> bool:
        """Return whether the next byte has not been written yet."""


class Source(Protocol):
    """Something that can be opened; `thing` is it as it was given."""

    name: str
    thing: Any

    @property
    def size(self) -> int | None:
        """Bytes as stored, if known."""

    @property
    def rereadable(self) -> bool:
        """Whether it can be opened again."""

    @property
    def compression(self) -> str | None:
        """How it is compressed."""

    def open(self, closed: Callable[[], bool]) -> Any:
        """Return a context manager of `Opened`; `closed` returns whether the stream was closed."""

    def native(self) -> Any:
        """Return it as a pyarrow file of random access, for formats that need one."""

    def head(self, whole: bool = False) -> bytes:
        """Return the first bytes, uncompressed, without consuming them; `whole` waits for HEAD of them or the end."""

    def close(self) -> None:
        """Close what stays open between passes."""


@dataclass
class Reading:
    """An opened source: `read` fills memory, `tell` returns the bytes read."""

    name: str
    read: Callable[[memoryview], int]
    tell: Callable[[], int]
    idle: Callable[[], bool] = bool

    def readinto(self, into: memoryview) -> int:
        """Fill as much as there is, at least a byte; 0 at the end."""
        try:
            return self.read(into)
        except OSError as error:
            if error.errno is not None:
                raise
            # pyarrow's complaints about compressed data have no number
            raise DataError(f"{self.name}: cannot be decompressed: {str(error).rstrip('. ')}") from None

    @property
    def bytes_read(self) -> int:
        """Bytes read of the source as it is stored."""
        return self.tell()


@contextmanager
def decompressed(name: str, file: Any, compression: str) -> Iterator[Reading]:
    """Read a pyarrow file through its codec."""
    import pyarrow as pa

    with file, pa.CompressedInputStream(file, compression) as stream:
        yield Reading(name, stream.readinto, file.tell)


class Located:
    """A file by its path, or by a URI of a file system that pyarrow knows."""

    def __init__(self, thing: str | os.PathLike[str]) -> None:
        self.thing, self.rereadable = thing, True
        self.name = os.fspath(thing)
        self._system: Any = None
        self._path = self.name
        if is_uri(self.name):
            from pyarrow import fs

            try:
                self._system, self._path = fs.FileSystem.from_uri(self.name)
            except (ValueError, OSError) as error:
                raise DataError(f"{self.name}: no file system that pyarrow knows: {error}") from None
            info = self._system.get_file_info(self._path)
            exists, folder, size = info.type != fs.FileType.NotFound, info.type == fs.FileType.Directory, info.size
        else:
            try:
                info = os.stat(self.name or os.curdir)
                exists, folder, size = True, stat.S_ISDIR(info.st_mode), info.st_size
            except (FileNotFoundError, NotADirectoryError, ValueError):
                exists, folder, size = False, False, 0
        if not exists:
            raise FileNotFoundError(f"{self.name}: no such file")
        if folder:
            raise IsADirectoryError(f"{self.name}: a directory, expected a file; its files are read as {self.name}/*")
        self.size: int | None = size
        suffix = os.path.splitext(self.name)[1].lower()
        self.compression = COMPRESSIONS.get(suffix)
        if self.compression is None and suffix not in BINARY:
            with self.native() if self._system is not None else open(self._path, "rb") as file:
                self.compression = compression_of(file.read(4))  # without pyarrow, which takes a while to import

    def native(self) -> Any:
        """Return it as a pyarrow file of random access."""
        import pyarrow as pa

        return self._system.open_input_file(self._path) if self._system is not None else pa.OSFile(self._path)

    @contextmanager
    def open(self, closed: Callable[[], bool] = bool) -> Iterator[Reading]:
        """Open it from its beginning."""
        if self.compression is not None:
            if self.size == 0:
                raise DataError(f"{self.name}: empty, expected {self.compression} data")
            with decompressed(self.name, self.native(), self.compression) as reading:
                yield reading
        elif self._system is not None:
            with self.native() as file:
                yield Reading(self.name, file.readinto, file.tell)
        else:
            with open(self._path, "rb", buffering=0) as file:
                yield Reading(self.name, file.readinto, file.tell)

    def head(self, whole: bool = False) -> bytes:
        """Return the first bytes, uncompressed."""
        with self.open() as reading:
            return filled(reading)

    def close(self) -> None:
        """Nothing is open."""


class Handle:
    """An open binary file object, or standard input, read from its current position. It is closed if it is `owned`."""

    def __init__(self, thing: Any, name: str | None = None, owned: bool = False) -> None:
        given = getattr(thing, "name", None)
        self.name = name or (given if isinstance(given, str) else f"<{type(thing).__name__}>")
        self.thing, self._owned, self._opened = thing, owned, False
        if isinstance(thing, io.TextIOBase):
            raise TypeError(f"{self.name}: a file object must be opened in binary mode, as open(..., 'rb')")
        self.rereadable = bool(hasattr(thing, "seekable") and thing.seekable())
        self._start = thing.tell() if self.rereadable else 0
        self._head = bytes(getattr(thing, "read1", thing.read)(HEAD) or b"")
        self.compression = compression_of(self._head[:4])

    @property
    def size(self) -> int | None:
        """Bytes from the first position on, if known."""
        if not self.rereadable:
            return None
        here = self.thing.tell()
        end = self.thing.seek(0, os.SEEK_END)
        self.thing.seek(here)
        return int(end) - self._start

    def native(self) -> Any:
        """Return it as a pyarrow file of random access."""
        import pyarrow as pa

        if self.rereadable:
            self.thing.seek(self._start)
            if self._start == 0:
                return pa.PythonFile(_Lent(self.thing), mode="r")
        elif self._opened:
            raise ValueError(f"{self.name}: cannot be read twice")
        self._opened = True
        return pa.BufferReader(self._head + self.thing.read())

    @contextmanager
    def open(self, closed: Callable[[], bool] = bool) -> Iterator[Reading]:
        """Open it at its first position."""
        if self.rereadable:
            self.thing.seek(self._start)
        elif self._opened:
            raise ValueError(f"{self.name}: cannot be read twice")
        self._opened = True
        raw = _Patient(self.thing, b"" if self.rereadable else self._head, closed)
        if self.compression is not None:
            import pyarrow as pa

            with decompressed(self.name, pa.PythonFile(raw, mode="r"), self.compression) as reading:
                yield Reading(self.name, reading.read, raw.tell)
        else:
            yield Reading(self.name, raw.readinto, raw.tell, raw.idle)

    def head(self, whole: bool = False) -> bytes:
        """Return the first bytes, uncompressed."""
        if self.rereadable:
            with self.open() as reading:
                return filled(reading)
        while whole and len(self._head) < HEAD:
            more = getattr(self.thing, "read1", self.thing.read)(HEAD - len(self._head))
            if not more:
                break
            self._head += more
        if self.compression is None:
            return self._head
        import pyarrow as pa

        with decompressed(self.name, pa.BufferReader(self._head), self.compression) as reading:
            try:
                return filled(reading)
            except DataError:  # the head is cut
                return b""

    def close(self) -> None:
        """Close it if it was opened for this stream."""
        if self._owned:
            self.thing.close()


class _Lent:
    """A file object that stays open when its reader closes it."""

    def __init__(self, file: Any) -> None:
        self.read, self.seek, self.tell = file.read, file.seek, file.tell
        self.closed = False

    def close(self) -> None:
        """Leave it open."""
        self.closed = True


class _Patient(io.RawIOBase):
    """A file object with the bytes already read of it in front, which ends when the stream is closed."""

    def __init__(self, file: Any, head: bytes, closed: Callable[[], bool]) -> None:
        super().__init__()
        self._file, self._head, self._closed, self._bytes_read = file, head, closed, 0
        # select() knows nothing of the bytes that a buffered file has already read.
        self._number = file.fileno() if isinstance(file, io.FileIO) and not file.seekable() else None

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._bytes_read

    def idle(self) -> bool:
        """Return whether the next byte has not been written yet."""
        return not self._head and not self._written(0.0)

    def _written(self, seconds: float) -> bool:
        if self._number is None:
            return True
        try:
            return bool(select.select([self._number], [], [], seconds)[0])
        except OSError:  # a system whose select() takes sockets alone
            self._number = None
            return True

    def readinto(self, into: Any) -> int:
        if self._head:
            n = min(len(into), len(self._head))
            into[:n], self._head = self._head[:n], self._head[n:]
        else:
            while not self._written(PATIENCE):
                if self._closed():
                    return 0
            if hasattr(self._file, "readinto"):
                n = self._file.readinto(into) or 0
            else:
                data = self._file.read(len(into))
                n = len(data)
                into[:n] = data
        self._bytes_read += n
        return n


class Thing:
    """A table, a matrix or the like, in memory."""

    compression = None
    size = None

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.name = f"<{type(thing).__name__}>"
        self.rereadable = iter(thing) is not thing if hasattr(thing, "__next__") else True

    def open(self, closed: Callable[[], bool] = bool) -> Any:
        """Refuse."""
        raise TypeError(f"{self.name} is not made of bytes")

    def native(self) -> Any:
        """Refuse."""
        raise TypeError(f"{self.name} is not made of bytes")

    def head(self, whole: bool = False) -> bytes:
        """Refuse."""
        raise TypeError(f"{self.name} is not made of bytes")

    def close(self) -> None:
        """Nothing is open."""


BINARY = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".psr")


def is_uri(name: str) -> bool:
    """Return whether a name is a URI and not a path.

    >>> is_uri("s3://bucket/clicks.svm"), is_uri("c:/clicks.svm")
    (True, False)
    """
    return "://" in name


def is_pipe(path: str) -> bool:
    """Return whether a path is something that can be read only once."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def is_piped(word: Any) -> bool:
    """Return whether an argument is standard input, or the path of a pipe."""
    return isinstance(word, str) and (word == "-" or is_pipe(word))


def compression_of(first: bytes) -> str | None:
    """Return how data that begins like this is compressed."""
    return next((codec for magic, codec in MAGIC.items() if first.startswith(magic)), None)


def filled(reading: Reading) -> bytes:
    """Return the first bytes of an opened source."""
    into = bytearray(HEAD)
    n = 0
    while n < HEAD and (more := reading.readinto(memoryview(into)[n:])):
        n += more
    return bytes(into[:n])


def sources(given: Any) -> list[Source]:
    """Return the sources that were given: a path, a glob, '-', a URI, a file object, a list of these, or a thing.

    A `Handle` is itself: a pipe whose first bytes were looked at is read from there.
    """
    if isinstance(given, Handle):
        return [given]
    if isinstance(given, list) and all(isinstance(one, (str, os.PathLike, Handle)) for one in given):
        if not given:
            raise ValueError("a list of paths must name at least one, got none")
        return [source for one in given for source in sources(one)]
    if isinstance(given, (str, os.PathLike)):
        given = os.fspath(given)
        if given == "-":
            stdin = getattr(sys.stdin, "buffer", sys.stdin)
            return [Handle(getattr(stdin, "raw", stdin), "stdin")]
        if not is_uri(given) and glob.has_magic(given) and not os.path.exists(given):
            found = sorted(name for name in glob.glob(given, recursive=True) if not os.path.isdir(name))
            if not found:
                raise FileNotFoundError(f"{given}: no file matches this pattern")
            return [Located(name) for name in found]
        if is_pipe(given):
            return [Handle(open(given, "rb", buffering=0), given, owned=True)]
        return [Located(given)]
    return [Handle(given)] if hasattr(given, "read") and not hasattr(given, "schema") else [Thing(given)]
