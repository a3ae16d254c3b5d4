"""Load an ELF object file into memory: neither a linker nor a compiler is needed to use code compiled ahead.

An object file has sections (code, constants), symbols (names of places in sections, or of functions elsewhere) and
relocations (places that hold the address of a symbol). Loading is copying the sections to one piece of memory, writing
the addresses, and making the memory executable and no longer writable. Compiled for the "large" code model, addresses
are absolute, so that two kinds of relocations suffice, whatever the distance to the C library.

A linker would make the same at build time, but would have to be there, where wheels are built and on every machine that
installs from source; memory that is written, then executed, is what numba needs as well.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from typing import NamedTuple

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
X86_64 = 62
SYMBOLS, RELOCATIONS, EMPTY = 2, 4, 8  # kinds of sections: the last has no bytes in the file
IN_MEMORY = 2  # flag of a section
ABSOLUTE, RELATIVE_64 = 1, 24  # R_X86_64_64, R_X86_64_PC64
UNDEFINED, COMMON = 0, 0xFFF2  # places of symbols that are not in a section
READ_AND_EXECUTE = 5


class Section(NamedTuple):
    """An entry of the table of sections."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Code(NamedTuple):
    """Loaded code: addresses of its global symbols, and the memory, which must outlive every call."""

    symbols: dict[str, int]
    memory: mmap.mmap


def load(file: bytes, resolve: Callable[[str], int]) -> Code:
    """Load an object file; `resolve` returns the address of a function that is not in it.

    Raises ValueError if the file is not what `build` writes, OSError if the system refuses executable memory.
    """
    header = HEADER.unpack_from(file)
    if header[0][:6] != b"\x7fELF\x02\x01" or header[2] != X86_64:
        raise ValueError("not an object file for x86-64")
    table, entry_size, count = header[6], header[11], header[12]
    sections = [Section(*SECTION.unpack_from(file, table + i * entry_size)) for i in range(count)]
    places, size = _arrange(sections)
    symbols = next(s for s in sections if s.kind == SYMBOLS)
    entries = list(SYMBOL.iter_unpack(file[symbols.offset : symbols.offset + symbols.size]))
    # Variables of numba's, which kernels do not use: after the code, where the memory stays writable.
    code_size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    common = {k: 8 * n for n, k in enumerate(k for k, entry in enumerate(entries) if entry[3] == COMMON)}
    memory = mmap.mmap(-1, code_size + 8 * len(common) or mmap.PAGESIZE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for i, place in places.items():
        if sections[i].kind != EMPTY:
            start = sections[i].offset
            memory[place : place + sections[i].size] = file[start : start + sections[i].size]
    names, found, addresses = sections[symbols.link].offset, {}, []
    for k, (name_at, info, _, section, value, _) in enumerate(entries):
        name = file[names + name_at : file.index(b"\0", names + name_at)].decode()
        if section in places:
            address = base + places[section] + value
        elif section == COMMON:
            address = base + code_size + common[k]
        elif section == UNDEFINED:
            address = resolve(name) if name else 0
        else:
            address = value
        if info >> 4 and section != UNDEFINED:
            found[name] = address
        addresses.append(address)
    for section in sections:
        if section.kind == RELOCATIONS and section.info in places:
            _relocate(
                memory, base, places[section.info], addresses, file[section.offset : section.offset + section.size]
            )
    if code_size and ctypes.CDLL(None, use_errno=True).mprotect(
        ctypes.c_void_p(base), ctypes.c_size_t(code_size), READ_AND_EXECUTE
    ):
        raise OSError(ctypes.get_errno(), "the system refuses to make memory executable")
    return Code(found, memory)


def _arrange(sections: list[Section]) -> tuple[dict[int, int], int]:
    """Return where each section that is needed in memory begins, and the size of all."""
    places, size = {}, 0
    for i, section in enumerate(sections):
        if section.flags & IN_MEMORY:
            step = max(section.alignment, 1)
            places[i] = -(-size // step) * step
            size = places[i] + section.size
    return places, size


def _relocate(memory: mmap.mmap, base: int, place: int, addresses: list[int], table: bytes) -> None:
    """Write the addresses that a section wants to know."""
    for offset, info, addend in RELOCATION.iter_unpack(table):
        at, value, kind = place + offset, addresses[info >> 32] + addend, info & 0xFFFFFFFF
        if kind == ABSOLUTE:
            struct.pack_into("<Q", memory, at, value & (2**64 - 1))
        elif kind == RELATIVE_64:
            struct.pack_into("<q", memory, at, value - base - at)
        else:
            raise ValueError(f"relocation of the unknown kind {kind}")
