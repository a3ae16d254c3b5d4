"""Checkpoints: a run on disk, from which a killed one resumes without a trace.

A checkpoint is one file in the format of model files: the state of the learner and of the run, the position in the
data, and the settings. It is replaced atomically, so that there is one valid checkpoint or none whenever a run is
killed. A finished run removes it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Mapping
from typing import Any

from ..core.validation import Array


class SettingsChangedError(ValueError):
    """A checkpoint written with other settings; `name` is the first that differs."""

    def __init__(self, path: str, name: str, current: Any, saved: Any) -> None:
        super().__init__(f"{path}: was written with {name} {_shown(saved)}, this run has {_shown(current)}")
        self.name = name


class CheckpointStore:
    """Writes checkpoints of one kind and one set of settings, says when they are due, finds and removes them.

    Parameters
    ----------
    path : str or path
        File of the checkpoint.
    settings : dict of JSON values
        Everything that the result depends on: a checkpoint made with other settings is rejected.
    kind : str
        What the file is, in words.
    rows, seconds : int, float
        A checkpoint is due this many rows or seconds after the last; 0: never.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: Mapping[str, Any],
        kind: str = "checkpoint",
        *,
        rows: int = 0,
        seconds: float = 0.0,
    ) -> None:
        self.path, self._settings, self._kind = os.fspath(path), dict(settings), kind
        self._rows, self._seconds = rows, seconds
        self._last_rows, self._last_time = 0, time.monotonic()

    def is_due(self, rows: int) -> bool:
        """Return whether a checkpoint is due after this many rows."""
        passed = rows - self._last_rows
        return 0 < self._rows <= passed or 0.0 < self._seconds <= time.monotonic() - self._last_time

    def save(self, header: Mapping[str, Any], arrays: Mapping[str, Array], rows: int = 0) -> None:
        """Replace the checkpoint; the next one is due counting from these rows and from now."""
        from ..models import file as modelfile

        modelfile.write(self.path, {"kind": self._kind, "settings": self._settings, **header}, dict(arrays))
        self._last_rows, self._last_time = rows, time.monotonic()

    def find(self) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """Return header and arrays of the checkpoint if there is one.

        Raises
        ------
        SettingsChangedError
            if the checkpoint was written with other settings.
        ValueError
            if the file is not such a checkpoint, or is damaged.
        """
        if not os.path.lexists(self.path):
            return None
        from ..models import file as modelfile

        header, arrays = modelfile.read(self.path)
        if header.get("kind") != self._kind:
            raise ValueError(f"{self.path}: not a {self._kind}, but a file of kind {header.get('kind')!r}")
        current, saved = self._settings, header["settings"]
        for name in sorted({*current, *saved}):
            if current.get(name) != saved.get(name):
                raise SettingsChangedError(self.path, name, current.get(name), saved.get(name))
        return header, arrays

    def clear(self) -> None:
        """Remove the checkpoint, and partly written files of a killed run."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.sweep()

    def sweep(self) -> None:
        """Remove temporary files of a run that was killed while writing the checkpoint or its model."""
        folder, name = os.path.split(os.path.realpath(self.path))
        for stem in {name, name.removesuffix(".ckpt")}:
            for path in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(stem)}.*.tmp")):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)
