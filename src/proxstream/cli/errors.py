"""How commands end early: bad usage, a handled interrupt, and errors as one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from click import UsageError


class Stopped(Exception):  # noqa: N818 - requested, not an error
    """An interrupt that was handled: the message says how to resume. Exit code 130."""


@contextmanager
def usage() -> Iterator[None]:
    """Report a ValueError or TypeError about parameters as bad usage."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def error_line(error: BaseException) -> str:
    """Return an error as one line.

    >>> error_line(FileNotFoundError(2, "No such file or directory", "rows.svm"))
    'rows.svm: No such file or directory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
