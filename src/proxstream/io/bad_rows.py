"""Rows that cannot be read: the stream stops, or they are counted and left out, or also written to a file.

In the quarantine file a bad row is a line `# place: what was found, what was expected` and then the row as it was.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import IO, Any

from ..core.validation import one_of
from .atomic import named
from .types import DataError, Position

MARK = b"# "  # before the place of a bad row
MOST_BYTES = 1 << 16  # of a bad row that are written


def bad_row_options(on_error: str, quarantine: str | None = None) -> dict[str, Any]:
    """Return the options of `open_stream` for `--on-error` and `--quarantine`, which implies skipping.

    >>> bad_row_options("stop", "bad.txt")
    {'on_error': 'quarantine', 'quarantine': 'bad.txt'}
    """
    one_of("--on-error", on_error, ("stop", "skip"))
    return {"on_error": on_error if quarantine is None else "quarantine", "quarantine": quarantine}


class BadRows:
    """The bad rows of one pass over a stream."""

    def __init__(self, on_error: str = "stop", quarantine: str | os.PathLike[str] | None = None) -> None:
        one_of("on_error", on_error, ("stop", "skip", "quarantine"))
        if (quarantine is not None) != (on_error == "quarantine"):
            raise ValueError(
                f"on_error='quarantine' and quarantine=FILE go together, got {on_error!r} and {quarantine!r}"
            )
        if quarantine is not None and os.path.isfile(quarantine):
            with open(quarantine, "rb") as file:
                if file.read(len(MARK)) not in (b"", MARK):
                    raise ValueError(
                        f"{os.fspath(quarantine)}: exists and is not a quarantine file, refusing to overwrite it"
                    )
        self.on_error, self.path = on_error, quarantine
        self.skipped = self.quarantined = 0
        self._file: IO[bytes] | None = None

    def begin(self, start: Position) -> None:
        """Begin a pass at this position: quarantined rows after it are removed from the file."""
        self.skipped, self.quarantined = start.skipped, start.quarantined
        if self.path is not None:
            self.end()
            self._file = open(self.path, "r+b" if start.quarantined else "wb")  # noqa: SIM115
            self._file.truncate(start.quarantined)
            self._file.seek(0, os.SEEK_END)

    def take(self, error: DataError, raw: bytes) -> None:
        """Raise the error of a bad row, or leave the row out of the stream."""
        if self.on_error == "stop":
            raise error
        self.skipped += 1
        if self._file is not None:
            cut = f" (its first {MOST_BYTES} bytes of {len(raw)})" if len(raw) > MOST_BYTES else ""
            entry = MARK + f"{error}{cut}\n".encode() + raw[:MOST_BYTES].rstrip(b"\r\n") + b"\n"
            with self._named():
                self._file.write(entry)
            self.quarantined += len(entry)

    def mark(self, position: Position) -> Position:
        """Return the position with the number of bad rows so far, which are then on disk."""
        if self._file is not None:
            with self._named():
                self._file.flush()
        return position._replace(skipped=self.skipped, quarantined=self.quarantined)

    def end(self) -> None:
        """Close the quarantine file."""
        if self._file is not None:
            file, self._file = self._file, None
            with self._named():
                file.close()

    def _named(self) -> AbstractContextManager[None]:
        return named(self.path or "")

    def __enter__(self) -> BadRows:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
