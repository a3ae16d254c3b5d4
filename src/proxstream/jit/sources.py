"""Which files compiled code is made from, and one hash of them all: code from other sources is stale."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
ROOMS = ("core", "data", "learner", "batch", "io")


def kernel_sources(package: Path) -> list[Path]:
    """Return the files that compiled code is made from: modules with a leading underscore, losses, and this room."""
    private = (path for room in ROOMS for path in (package / room).rglob("_*.py") if path.name != "__init__.py")
    return sorted({*private, *(package / "jit").glob("*.py"), *(package / "core/losses").glob("*.py")})


@cache
def digest(package: Path = PACKAGE) -> str:
    """Return a hash of the kernel sources of a package."""
    found = hashlib.sha256()
    for source in kernel_sources(package):
        found.update(source.read_bytes())
    return found.hexdigest()
