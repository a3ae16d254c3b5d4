"""Writing files whole or not at all, with errors that name the file as the user gave it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import BinaryIO

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what comes of a write, without the name of its file


@contextlib.contextmanager
def named(path: str | os.PathLike[str], behind: str | None = None) -> Iterator[None]:
    """Add the name of a file to errors of writing to it, or to the temporary file that replaces it.

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


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends well, and vanishes when it does not."""
    target = os.fspath(path)
    if os.path.isdir(target):
        raise IsADirectoryError(f"{target}: cannot be written: it is a folder")
    target = os.path.realpath(target)  # a link stays a link
    if os.path.exists(target) and not os.path.isfile(target):  # a pipe or a device has no place to take
        with open(target, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:200]}.{os.urandom(6).hex()}.tmp")
    mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with named(path, temporary):
        descriptor = os.open(temporary, mode, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, os.stat(target).st_mode & 0o7777)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    if os.name == "posix":
        entry = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)
