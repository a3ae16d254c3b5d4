"""Kernels that were compiled when the package was built, called without numba.

The folder `built` of this room, if there is one, has an index and one file with the object code of all versions. A
version is an object file with one entry: a C function of one pointer, to a frame of eight-byte slots. The caller writes
the arguments there (`arguments`), the entry calls the kernel and writes what it returns behind them.

What does not fit is not used, silently, and numba compiles as it would without: code made from other sources, for
another processor or operating system, in a folder that another user could write to, a version that is not there.
`proxstream --version --verbose` shows which of these is the case. PROXSTREAM_PREBUILD=0 turns it off, and so do
numba's own variables, if they are set to another processor's.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import stat
import struct
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from . import loader, sources
from .arguments import FORMATS, flatten

__all__ = ["Version", "describe", "flatten", "versions"]

FOLDER: str | os.PathLike[str] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "built")
INDEX, CODE = "index.json", "kernels.bin"
FORMAT = 1  # of the index
# What x86-64-v3 has beyond what every 64-bit processor has, as Linux names it.
V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
SYSTEM = "linux x86-64-v3"
TARGET = {  # the same as numba names it
    "NUMBA_CPU_NAME": "x86-64-v3",
    "NUMBA_CPU_FEATURES": "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,"
    "+sahf,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave",
}
SLOT = 8


class UnusableError(Exception):
    """Why code compiled ahead cannot be used."""


class Version:
    """One kernel for one combination of types: writes its frame, calls, reads what it returns."""

    def __init__(self, library: Library, record: dict[str, Any]) -> None:
        self._library, self._record = library, record
        self._frame = struct.Struct("<" + record["frame"])
        self._returns = Returned(record["returns"])
        self._size = self._frame.size + self._returns.size
        self._kind = ctypes.c_char * self._size
        self._entry: Any = None

    def is_loaded(self) -> bool:
        """Load the code if that was not tried yet; return whether it can be called."""
        if self._entry is None:
            try:
                self._entry = self._library.entry(self._record)
            except (UnusableError, OSError, ValueError):
                self._entry = False
        return self._entry is not False

    def __call__(self, values: list[Any], arguments: tuple[Any, ...]) -> Any:
        """Call the kernel with flattened arguments, which are kept alive meanwhile by `arguments`."""
        frame = bytearray(self._size)
        self._frame.pack_into(frame, 0, *values)
        status = self._entry(self._kind.from_buffer(frame))
        if status:
            raise MemoryError(f"{self._record['name']} failed with status {status}: not enough memory")
        return self._returns.read(frame, self._frame.size, arguments, self._library)


class Returned:
    """What a kernel returns: read from the frame by its type, text as for arguments."""

    def __init__(self, types: str) -> None:
        self.items = parse(types)
        self.size = SLOT * sum(map(slots, self.items))

    def read(self, frame: bytearray, at: int, arguments: tuple[Any, ...], library: Library) -> Any:
        """Return the object that the slots from `at` on describe."""
        if not self.items:
            return None
        return _read(self.items[0], frame, at, arguments, library)[0]


def parse(types: str) -> list[Any]:
    """Return the types of a text as a list: numbers and arrays as text, tuples as (name, items)."""
    found, rest = _parse(types, 0)
    if rest != len(types):
        raise ValueError(f"{types!r} is not a list of types")
    return found


def _parse(types: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while at < len(types) and types[at] != ")":
        if types[at] in "<|":
            end = types.index("]", at) + 1
            found.append(types[at:end])
        elif types[at] == "n" or types[at : at + 2] in FORMATS:
            end = at + (1 if types[at] == "n" else 2)
            found.append(types[at:end])
        else:
            opened = types.index("(", at)
            items, end = _parse(types, opened + 1)
            if types[end : end + 1] != ")":
                raise ValueError(f"{types!r} has no ) for the ( at {opened}")
            found.append((types[at:opened], items))
            end += 1
        at = end
    return found, at


def dimensions(array: str) -> int:
    """Return the number of dimensions of an array's type."""
    return int(array[array.index("[") + 1 : -1].rstrip("FAru"))


def slots(kind: Any) -> int:
    """Return how many slots a returned value takes: of an array its owner, address, shape and strides."""
    if isinstance(kind, tuple):
        return sum(map(slots, kind[1]))
    if kind[0] in "<|":
        return 2 + 2 * dimensions(kind)
    return int(kind != "n")


def _read(kind: Any, frame: bytearray, at: int, arguments: tuple[Any, ...], library: Library) -> tuple[Any, int]:
    """Return a value and the place after it."""
    if kind == "n":
        return None, at
    if isinstance(kind, tuple):
        items = []
        for inner in kind[1]:
            item, at = _read(inner, frame, at, arguments, library)
            items.append(item)
        return (_class(kind[0])(*items) if kind[0] else tuple(items)), at
    if kind[0] in "<|":
        n = dimensions(kind)
        owner, address, *layout = struct.unpack_from(f"<{2 + 2 * n}q", frame, at)
        memory = Memory(owner, library.release) if owner else arguments
        view = _View(kind[: kind.index("[")], address, tuple(layout[:n]), tuple(layout[n:]), memory)
        return np.asarray(view), at + SLOT * (2 + 2 * n)
    return struct.unpack_from("<" + FORMATS[kind], frame, at)[0], at + SLOT


def _class(name: str) -> Callable[..., Any]:
    """Return a named tuple type by its full name."""
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules[module], attribute)  # type: ignore[no-any-return]


class Memory:
    """Memory that a kernel allocated; released with the last array that is made of it."""

    def __init__(self, owner: int, release: Callable[[int], None]) -> None:
        self._owner, self._release = owner, release

    def __del__(self) -> None:
        self._release(self._owner)


class _View:
    """What numpy needs to know to make an array of memory; the array keeps this alive."""

    def __init__(self, dtype: str, address: int, shape: Any, strides: Any, memory: Any) -> None:
        self._memory = memory
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype,
            "data": (address, False),
            "shape": shape,
            "strides": strides,
        }


class Library:
    """The object code of all versions: each is loaded when it is first called."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.index = _read_index(folder)
        with open(os.path.join(folder, CODE), "rb") as file:
            self._file = file.read()
        if len(self._file) != self.index["size"]:
            raise UnusableError(f"{os.path.basename(folder)} is not complete")
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}
        self._codes: list[loader.Code] = []
        self._places.update(self._load(self.index["runtime"]).symbols)
        self.release = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._places["release"])

    def versions(self, kernel: str) -> dict[str, Version]:
        """Return the versions of a kernel by the types of their arguments."""
        records = self.index["kernels"].get(kernel, {})
        return {types: Version(self, {**record, "name": kernel}) for types, record in records.items()}

    def entry(self, record: dict[str, Any]) -> Any:
        """Load a version and return its entry."""
        with self._lock:
            code = self._load(record["place"])
        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.symbols["entry"])

    def _load(self, place: list[int]) -> loader.Code:
        start, size = place
        code = loader.load(self._file[start : start + size], self._resolve)
        self._codes.append(code)
        return code

    def _resolve(self, name: str) -> int:
        """Return the address of a function of the runtime or of a library."""
        if name not in self._places:
            self._places[name] = external(name)
        return self._places[name]


def external(name: str) -> int:
    """Return the address of a function of the C library, which numba gives a prefix at times, or of Python."""
    plain = name.removeprefix("numba_")
    for library in (ctypes.CDLL(None), ctypes.CDLL("libm.so.6"), ctypes.pythonapi):
        if hasattr(library, plain):
            return ctypes.cast(getattr(library, plain), ctypes.c_void_p).value or 0
    raise UnusableError(f"no library has the function {name}")


def _read_index(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the index of a folder, if the code beside it is ours, whole, from these sources and for this processor."""
    if os.environ.get("PROXSTREAM_PREBUILD") == "0":
        raise UnusableError("PROXSTREAM_PREBUILD is 0")
    if name := _other_processor():
        raise UnusableError(f"{name} is set to another processor's")
    if not os.path.isdir(folder):
        raise UnusableError("none were compiled when the package was installed")
    for name in ("", INDEX, CODE):
        _check_owner(os.path.join(folder, name))
    with open(os.path.join(folder, INDEX), "rb") as file:
        index: dict[str, Any] = json.load(file)
    if index.get("format") != FORMAT or index.get("system") != SYSTEM:
        raise UnusableError(f"they were compiled for {index.get('system')}, format {index.get('format')}")
    if index["sources"] != sources.digest():
        raise UnusableError("they were compiled from other sources")
    missing = _missing_features()
    if missing:
        raise UnusableError(f"the processor lacks {', '.join(sorted(missing))}")
    return index


def _check_owner(path: str) -> None:
    """Refuse a file or folder that a user other than this one and root could have written."""
    found = os.stat(path)
    if found.st_uid not in (0, os.getuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnusableError(f"{path} can be written by other users")


def _other_processor() -> str:
    """Return the variable that makes numba compile for another processor, if one does."""
    given = {name: os.environ.get(name) or value for name, value in TARGET.items()}
    return next((name for name in given if {*given[name].split(",")} != {*TARGET[name].split(",")}), "")


def _missing_features() -> set[str]:
    """Return what this processor lacks of x86-64-v3."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.maxsize < 2**32:
        return {f"the instructions of {SYSTEM} (it is {sys.platform} {platform.machine()})"}
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line for line in file if line.startswith("flags")), "")
    return V3 - set(flags.split())


@cache
def _library() -> tuple[Library | None, str]:
    """Return the library, or None and why there is none."""
    try:
        library = Library(FOLDER)
    except (UnusableError, OSError, ValueError, KeyError) as reason:
        return None, str(reason)
    return library, ""


def versions(kernel: str) -> dict[str, Version]:
    """Return what was compiled ahead of a kernel, by the types of the arguments; {} if nothing can be used."""
    library, _ = _library()
    return library.versions(kernel) if library else {}


def describe() -> str:
    """Return one line about the kernels that were compiled ahead."""
    library, reason = _library()
    if library is None:
        return f"kernels: compiled on first use, kept on disk ({reason})"
    count = sum(map(len, library.index["kernels"].values()))
    return f"kernels: {count} compiled ahead for {SYSTEM}; others on first use, kept on disk"
