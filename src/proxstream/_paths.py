"""Paths of users: a file that cannot be written is told by the name that it was given."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what comes of a write, without the name of its file


@contextmanager
def named(path: str | os.PathLike[str], behind: str | None = None) -> Iterator[None]:
    """Let an error of writing to a file, or to one that stands in for it, tell the file's name.

    >>> with named("model.psm"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'model.psm'
    """
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno in FULL
        if error.errno is None or not (nameless or (behind is not None and error.filename == behind)):
            raise
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from None
