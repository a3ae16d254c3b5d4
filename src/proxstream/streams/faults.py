"""What becomes of rows that cannot be read: the stream stops, or they are counted and left out, or also kept in a file.

In the quarantine file a bad row is a line `# place: what was found, what was expected` and then the row as it was.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import IO, Any

from .._checks import one_of
from .._paths import named
from .base import DataError, Position

MARK = b"# "  # before the place of a bad row
KEPT = 1 << 16  # bytes of a bad row that are kept at most


class Faults:
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
                        f"{os.fspath(quarantine)}: holds no quarantined rows, which begin with '# ', and is not "
                        "overwritten by them; expected a new file, or that of an earlier run"
                    )
        self.on_error, self.path = on_error, quarantine
        self.skipped = self.quarantined = 0
        self._file: IO[bytes] | None = None

    def begin(self, start: Position) -> None:
        """Begin a pass at this place: what the quarantine file has from beyond it is cut off."""
        self.skipped, self.quarantined = start.skipped, start.quarantined
        if self.path is not None:
            self.end()
            self._file = open(self.path, "r+b" if start.quarantined else "wb")  # noqa: SIM115
            self._file.truncate(start.quarantined)
            self._file.seek(0, os.SEEK_END)

    def take(self, error: DataError, raw: bytes) -> None:
        """Raise the error of a bad row, or take the row out of the stream."""
        if self.on_error == "stop":
            raise error
        self.skipped += 1
        if self._file is not None:
            cut = f" (its first {KEPT} bytes of {len(raw)})" if len(raw) > KEPT else ""
            entry = MARK + f"{error}{cut}\n".encode() + raw[:KEPT].rstrip(b"\r\n") + b"\n"
            with self._named():
                self._file.write(entry)
            self.quarantined += len(entry)

    def mark(self, position: Position) -> Position:
        """Return the position with the bad rows so far, which are then on disk."""
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

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
