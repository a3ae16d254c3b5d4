"""What commands share: options of the same name and meaning, and how a command ends when something is in its way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command end quietly when its reader goes away, as `| head` does."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still in the buffer would be written, and refused, when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None

    return run


def told(error: BaseException) -> str:
    """Return an error as one line.

    >>> told(FileNotFoundError(2, "No such file or directory", "rows.svm"))
    'rows.svm: No such file or directory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
