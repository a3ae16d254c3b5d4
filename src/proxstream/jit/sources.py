"""Which files compiled code is made from, and one checksum of them all: code from other sources is stale.

Every command reads them as it starts, so this is done with what Python has loaded anyway: importing `hashlib` and
`pathlib` would take longer than the reading.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from functools import cache

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = ("core", "data", "learner", "batch", "io")


def kernel_sources(package: str) -> list[str]:
    """Return the files that compiled code is made from: modules with a leading underscore, losses, and this room."""
    found = set(_modules(os.path.join(package, "jit"))) | set(_modules(os.path.join(package, "core", "losses")))
    for room in ROOMS:
        for folder, _, _ in os.walk(os.path.join(package, room)):
            private = (path for path in _modules(folder) if os.path.basename(path).startswith("_"))
            found.update(path for path in private if os.path.basename(path) != "__init__.py")
    return sorted(found)


def _modules(folder: str) -> Iterator[str]:
    """Yield the Python files of a folder, if there is one."""
    if os.path.isdir(folder):
        yield from (entry.path for entry in os.scandir(folder) if entry.name.endswith(".py"))


@cache
def digest(package: str = PACKAGE) -> str:
    """Return two checksums of the kernel sources of a package, their number and their size."""
    crc, adler, size = 0, 1, 0
    sources = kernel_sources(package)
    for source in sources:
        with open(source, "rb") as file:
            text = file.read()
        crc, adler, size = zlib.crc32(text, crc), zlib.adler32(text, adler), size + len(text)
    return f"{crc:08x}{adler:08x}-{len(sources)}-{size}"
