"""Bad rows of all files in one file of the client's, each once, whatever workers tell twice.

A worker keeps the bad rows of a file as a stream does and tells them with a round, as bytes from a place on in what
that file has of them. Rounds that are learned again tell the same bytes at the same places, so those that are there
already are passed over. While a run goes on they stand in the order in which they were told; at its end, in that of
the files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import NamedTuple

COPIED = 1 << 20  # bytes at a time


class Bad(NamedTuple):
    """Bad rows of a lane's file: its number among the lane's, where they stand in what it has of them, and they."""

    part: int
    start: int
    text: bytes


class Quarantine:
    """The file.

    Parameters
    ----------
    path : str
        What is there beyond the segments is cut off.
    segments : pairs of a file's number and bytes
        What the file has, in order, as an earlier run left it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = Quarantine(f"{folder}/bad")
    ...     kept.take(1, 0, b"# b:1\\n?\\n")
    ...     kept.take(0, 0, b"# a:1\\n!\\n")
    ...     kept.take(1, 0, b"# b:1\\n?\\n# b:2\\n??\\n")
    ...     kept.finish()
    ...     pathlib.Path(folder, "bad").read_text().split()
    ['#', 'a:1', '!', '#', 'b:1', '?', '#', 'b:2', '??']
    """

    def __init__(self, path: str, segments: Iterable[tuple[int, int]] = ()) -> None:
        self.path, self.segments = path, [(part, n) for part, n in segments]
        self._had: dict[int, int] = {}
        for part, n in self.segments:
            self._had[part] = self._had.get(part, 0) + n
        with open(path, "r+b" if self.segments else "wb") as file:
            file.truncate(sum(self._had.values()))

    def begin(self) -> None:
        """Begin a pass: the file has the bad rows of the last one alone."""
        self.segments, self._had = [], {}
        os.truncate(self.path, 0)

    def take(self, part: int, start: int, text: bytes) -> None:
        """Write what a file has from a place on, if it is not there already."""
        had = self._had.get(part, 0)
        new = text[max(had - start, 0) :]
        if not new:
            return
        with open(self.path, "ab") as file:
            file.write(new)
        self._had[part] = had + len(new)
        if self.segments and self.segments[-1][0] == part:
            self.segments[-1] = part, self.segments[-1][1] + len(new)
        else:
            self.segments.append((part, len(new)))

    def finish(self) -> None:
        """Put the bad rows in the order of files; the file is replaced as a whole."""
        numbers = [part for part, _ in self.segments]
        if numbers == sorted(numbers):
            return
        starts, at = [], 0
        for part, n in self.segments:
            starts.append((part, at, n))
            at += n
        ordered = f"{self.path}.ordered"
        with open(self.path, "rb") as file, open(ordered, "wb") as made:
            for _, start, n in sorted(starts):
                file.seek(start)
                while n > 0:
                    n -= made.write(file.read(min(n, COPIED)))
        shutil.copymode(self.path, ordered)
        os.replace(ordered, self.path)
