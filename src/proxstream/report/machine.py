"""Where and with what something was run, in a few words."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path


def machine() -> str:
    """Return a few words on the machine: system, processor, cores."""
    model = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass  # not Linux: the architecture has to do
    return f"{platform.system()}, {model}, {os.cpu_count()} cores"


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of libraries.

    >>> [*versions(["numpy"])]
    ['python', 'numpy']
    """
    return {"python": platform.python_version(), **{name: version(name) for name in libraries}}
