"""Kernels as plain Python, for tests of what is around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from proxstream.jit import describe
from proxstream.jit.arguments import flatten
from proxstream.jit.build import MANIFEST, read_manifest
from proxstream.jit.compile import Kernel
from proxstream.learner import _auto, _path_auto

COMPILED_AHEAD = {*read_manifest(MANIFEST)}


@contextmanager
def interpreted_kernels(config: pytest.Config, *rooms: str) -> Iterator[None]:
    """Let kernels run as plain Python, but for the versions that wheels have compiled; all versions of some rooms.

    With an unusual loss, penalty or type, compiling takes seconds, and learning a few hundred rows takes less. Which
    version is interpreted depends on the types of its arguments alone: all calls of a version give the same bits. A
    test that compares the bits of one kernel with those of another has to interpret both, so it names their rooms.
    """
    call, always = Kernel.__call__, tuple(f"proxstream.{room}." for room in rooms)

    def interpret(kernel: Any, *arguments: Any) -> Any:
        name = f"{kernel.__module__}.{kernel.__name__}"
        if not name.startswith(always) and (name, flatten(arguments)[0]) in COMPILED_AHEAD:
            return call(kernel, *arguments)
        with np.errstate(all="ignore"):
            return kernel.py_func(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        if not config.getoption("compile_all"):
            patched.setattr(Kernel, "__call__", interpret)
            # There are no vector registers to fill. But where kernels are compiled meanwhile, theirs count.
            for module in (_auto, _path_auto) if "compiled ahead" in describe() else ():
                patched.setattr(module, "PAD", 1)
        yield
