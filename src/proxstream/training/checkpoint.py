"""Checkpoints: a session on disk, from which a killed run resumes without a trace.

A checkpoint is the file MODEL.ckpt next to the model, in the format of model files: the state of the learner and of the
session, the position in the source, and the settings. It is replaced atomically, so that there is one valid checkpoint
or none whenever a run is killed. A finished run removes it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.validation import Array
from .session import Session

if TYPE_CHECKING:
    from ..io.features.featurizer import Featurizer

KIND, NAMES = "checkpoint", "names."


class SettingsChangedError(ValueError):
    """A checkpoint written with other settings; `name` is the first that differs."""

    def __init__(self, path: str, name: str, current: Any, saved: Any) -> None:
        super().__init__(f"{path}: was written with {name} {_shown(saved)}, this run has {_shown(current)}")
        self.name = name


class Checkpoint(NamedTuple):
    """The contents of a checkpoint: the session, the specification of the features if there is one, and the arrays."""

    session: dict[str, Any]
    features: dict[str, Any] | None
    arrays: dict[str, Array]

    @property
    def names(self) -> dict[str, Array]:
        """The names of features."""
        return {name.removeprefix(NAMES): a for name, a in self.arrays.items() if name.startswith(NAMES)}


class CheckpointStore:
    """Writes checkpoints when they are due, finds one to resume from, and removes it.

    Parameters
    ----------
    model : str
        Path of the model; the checkpoint is next to it.
    settings : dict of JSON values
        All settings that the model depends on.
    rows, seconds : int, float
        A checkpoint is due this many rows or seconds after the last; 0: never.
    """

    def __init__(self, model: str, settings: Mapping[str, Any], rows: int = 0, seconds: float = 0.0) -> None:
        self.path = f"{model}.ckpt"
        self._model, self._settings = model, dict(settings)
        self._rows, self._seconds = rows, seconds
        self._last_rows, self._last_time = 0, time.monotonic()

    def is_due(self, session: Session) -> bool:
        """Return whether a checkpoint is due."""
        rows = session.progress.all_rows - self._last_rows
        return 0 < self._rows <= rows or 0.0 < self._seconds <= time.monotonic() - self._last_time

    def save(self, session: Session, featurizer: Featurizer | None = None) -> None:
        """Write a checkpoint.

        The reader is ahead of the session: only names of features from rows that the session has seen are saved.
        """
        from ..models import file as modelfile

        header = {"kind": KIND, "settings": self._settings, "session": session.record(), "features": None}
        arrays = session.arrays()
        if featurizer is not None:
            header["features"] = featurizer.spec.to_json()
            names = featurizer.arrays(session.progress.position.names)
            arrays |= {f"{NAMES}{name}": array for name, array in names.items()}
        modelfile.write(self.path, header, arrays)
        self._last_rows, self._last_time = session.progress.all_rows, time.monotonic()

    def find(self) -> Checkpoint | None:
        """Return the checkpoint if there is one.

        Raises
        ------
        SettingsChangedError
            if the checkpoint was written with other settings.
        ValueError
            if the file is not a checkpoint, or is damaged.
        """
        if not os.path.lexists(self.path):
            return None
        from ..models import file as modelfile

        header, arrays = modelfile.read(self.path)
        if header.get("kind") != KIND:
            raise ValueError(f"{self.path}: not a checkpoint, but a file of kind {header.get('kind')!r}")
        compare(self.path, self._settings, header["settings"])
        return Checkpoint(header["session"], header["features"], arrays)

    def clear(self) -> None:
        """Remove the checkpoint, and partly written files of a killed run."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.sweep()

    def sweep(self) -> None:
        """Remove temporary files of a run that was killed while writing."""
        folder, name = os.path.split(os.path.realpath(self._model))
        for stem in (name, f"{name}.ckpt"):
            for path in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(stem)}.*.tmp")):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def compare(path: str, current: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Raise a SettingsChangedError that names the first setting that differs."""
    for name in sorted({*current, *saved}):
        if current.get(name) != saved.get(name):
            raise SettingsChangedError(path, name, current.get(name), saved.get(name))


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)
