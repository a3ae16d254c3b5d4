"""One line on a terminal while kernels are compiled for more than a second: what, how many, and that it is kept.

The line is rewritten as compiling goes on and removed at its end. There is none if standard error is not a terminal, or
if a command is quiet (`jit.SHOW_COMPILING`). While kernels are compiled, Python does not look for garbage.
"""

from __future__ import annotations

import gc
import shutil
import sys
import time
from typing import Any

from numba.core import event

from .. import jit

PATIENCE = 1.0  # seconds of compiling without a word
PAUSE = 0.1  # seconds between two lines


class Notice(event.Listener):  # type: ignore[misc]
    """Listens to numba: every function that is compiled starts and ends an event, inside that of its caller."""

    def __init__(self) -> None:
        self.depth = self.functions = 0
        self.seconds = self.started = self.shown_at = 0.0
        self.kernel = ""
        self.collects = True  # whether garbage was collected before

    def on_start(self, started: Any) -> None:
        """Count a function, and show the line if it is time."""
        now = time.monotonic()
        if not self.depth:
            self.collects = gc.isenabled()
            gc.disable()  # the compiler makes millions of objects and keeps most: looking for garbage is of no use
            function = started.data["dispatcher"].py_func
            self.started, self.kernel = now, f"{function.__module__}.{function.__name__}"
        self.depth += 1
        self.functions += 1
        if self.seconds + now - self.started > PATIENCE and now > self.shown_at + PAUSE:
            self.shown_at = now
            self._show()

    def on_end(self, ended: Any) -> None:
        """Remove the line when the outermost function has been compiled."""
        self.depth -= 1
        if not self.depth:
            if self.collects:
                gc.enable()
            self.seconds += time.monotonic() - self.started
            if self.shown_at:
                self.shown_at = 0.0
                self._write("")

    def _show(self) -> None:
        package, _, name = self.kernel.partition(".")
        if package == __package__.partition(".")[0]:  # not what other libraries compile
            self._write(f"{package}: compiling {name}, {self.functions} functions so far; kept on disk")

    def _write(self, line: str) -> None:
        if jit.SHOW_COMPILING and sys.stderr.isatty():
            sys.stderr.write("\r" + line[: shutil.get_terminal_size().columns - 1] + "\x1b[K")
            sys.stderr.flush()


def install() -> None:
    """Listen from now on."""
    event.register("numba:compile", Notice())
