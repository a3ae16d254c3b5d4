"""Checkpoints of a run on a cluster: the state after a round and where each lane stands, in a file of the client's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from .. import modelfile
from .._checks import Array
from ..learner import Learner
from ..streams.base import Position
from ..training.checkpoint import compare
from .plan import Plan, Standing
from .reading import Place

KIND = "cluster checkpoint"
MORE = "more."  # before the names of arrays that are not the learner's


class Kept(NamedTuple):
    """A checkpoint that was found: arrays of the learner, and what else was kept, in numbers and arrays."""

    plan: Plan
    standing: Standing
    arrays: dict[str, Array]
    record: dict[str, Any]
    more: dict[str, Array]


class Keeper:
    """Keeps a run in a file, which is replaced as a whole or not at all.

    Parameters
    ----------
    path : str or path
    settings : dict of what JSON knows
        All that the model depends on: a checkpoint that was made with others is refused.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        self.path, self._settings = os.fspath(path), dict(settings)

    def keep(
        self,
        learner: Learner,
        plan: Plan,
        standing: Standing,
        record: Mapping[str, Any] | None = None,
        more: Mapping[str, Array] | None = None,
    ) -> None:
        """Write the checkpoint; `record` and `more` are what its owner remembers beside, in numbers and arrays."""
        told = asdict(standing) | {"places": [[p.part, list(p.position), *p[2:]] for p in standing.places]}
        orders = [list(map(int, order)) for order in plan.passes]
        header = {"kind": KIND, "settings": self._settings, "standing": told, "fresh": plan.fresh}
        header |= {"lanes": plan.lanes, "rows": plan.rows, "passes": orders, "tally": plan.tally}
        header["record"] = dict(record or {})
        aside = {f"{MORE}{name}": array for name, array in (more or {}).items()}
        modelfile.write(self.path, header, learner.state_dict(copy=False) | aside)

    def find(self) -> Kept | None:
        """Return the checkpoint if there is one; one of another run is a ValueError."""
        if not os.path.lexists(self.path):
            return None
        header, arrays = modelfile.read(self.path)
        if header.get("kind") != KIND:
            raise ValueError(f"{self.path}: is no checkpoint of a cluster's run, but a {header.get('kind')!r}")
        compare(self.path, self._settings, header["settings"])
        told = dict(header["standing"])
        places = [Place(part, Position(*position), *rest) for part, position, *rest in told.pop("places")]
        plan = Plan(header["lanes"], header["rows"], header["passes"], header["fresh"], header["tally"])
        more = {name.removeprefix(MORE): arrays.pop(name) for name in list(arrays) if name.startswith(MORE)}
        return Kept(plan, Standing(places=places, **told), arrays, header["record"], more)

    def clear(self) -> None:
        """Remove the checkpoint."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
