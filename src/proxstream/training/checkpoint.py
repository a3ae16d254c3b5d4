"""Checkpoints: a session on disk, from which a killed run goes on as if nothing had happened.

A checkpoint is a file beside the model, MODEL.ckpt, in the model files' own format: all that the learner and the
session remember, the place in the source, and the settings. It is replaced as a whole or not at all, so whatever moment
a run is killed at, there is one good checkpoint or none. A finished run removes it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .._checks import Array
from .session import Session

if TYPE_CHECKING:
    from ..streams.featurizer import Featurizer

KIND, NAMES = "checkpoint", "names."


class SettingsChangedError(ValueError):
    """A checkpoint made with other settings; `name` is the first that differs."""

    def __init__(self, path: str, name: str, told: Any, kept: Any) -> None:
        super().__init__(f"{path}: was made with {name} {_shown(kept)}, this run has {_shown(told)}")
        self.name = name


class Kept(NamedTuple):
    """A checkpoint that was found: what the session remembers, and the meaning of features if they had to be told."""

    session: dict[str, Any]
    features: dict[str, Any] | None
    arrays: dict[str, Array]

    @property
    def names(self) -> dict[str, Array]:
        """The names of features."""
        return {name.removeprefix(NAMES): a for name, a in self.arrays.items() if name.startswith(NAMES)}


class Keeper:
    """Writes checkpoints when they are due, finds one to go on from, and clears up.

    Parameters
    ----------
    model : str
        The model's path, beside which the checkpoint lies.
    settings : dict of what JSON knows
        All that the model depends on.
    rows, seconds : int, float
        A checkpoint is due after so many rows or seconds since the last; 0: none is.
    """

    def __init__(self, model: str, settings: Mapping[str, Any], rows: int = 0, seconds: float = 0.0) -> None:
        self.path = f"{model}.ckpt"
        self._model, self._settings = model, dict(settings)
        self._rows, self._seconds = rows, seconds
        self._last_rows, self._last_time = 0, time.monotonic()

    def is_due(self, session: Session) -> bool:
        """Tell whether a checkpoint is due."""
        rows = session.facts.all_rows - self._last_rows
        return 0 < self._rows <= rows or 0.0 < self._seconds <= time.monotonic() - self._last_time

    def keep(self, session: Session, featurizer: Featurizer | None = None) -> None:
        """Write a checkpoint.

        The reader is ahead of the session; of the names of features those are kept that the session's rows brought.
        """
        from .. import modelfile

        header = {"kind": KIND, "settings": self._settings, "session": session.record(), "features": None}
        arrays = session.arrays()
        if featurizer is not None:
            header["features"] = featurizer.spec.to_json()
            names = featurizer.arrays(session.facts.position.names)
            arrays |= {f"{NAMES}{name}": array for name, array in names.items()}
        modelfile.write(self.path, header, arrays)
        self._last_rows, self._last_time = session.facts.all_rows, time.monotonic()

    def find(self) -> Kept | None:
        """Return the checkpoint if there is one.

        Raises
        ------
        SettingsChangedError
            if the checkpoint was made with other settings.
        ValueError
            if the file is no checkpoint, or is damaged.
        """
        if not os.path.lexists(self.path):
            return None
        from .. import modelfile

        header, arrays = modelfile.read(self.path)
        if header.get("kind") != KIND:
            raise ValueError(f"{self.path}: is no checkpoint, but a {header.get('kind')!r}")
        compare(self.path, self._settings, header["settings"])
        return Kept(header["session"], header["features"], arrays)

    def clear(self) -> None:
        """Remove the checkpoint, and what a killed run may have left half written."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.sweep()

    def sweep(self) -> None:
        """Remove temporary files of a run that was killed while it wrote."""
        folder, name = os.path.split(os.path.realpath(self._model))
        for stem in (name, f"{name}.ckpt"):
            for path in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(stem)}.*.tmp")):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def compare(path: str, told: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Raise a SettingsChangedError that names the first setting that differs."""
    for name in sorted({*told, *kept}):
        if told.get(name) != kept.get(name):
            raise SettingsChangedError(path, name, told.get(name), kept.get(name))


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)
