"""Checkpoints of runs on a cluster, each one file on the client that is replaced atomically.

`CheckpointFile` writes and reads a file and refuses one of other settings; `CheckpointStore` keeps runs of streams in
it (the state after a round and the position of each lane), `CocoaCheckpoint` runs of CoCoA+ (all dual variables).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from ..batch.problem import Record
from ..batch.sdca import net_terms
from ..core.validation import Array
from ..io.types import Position
from ..learner.learner import Learner
from ..models import file as modelfile
from ..training.checkpoint import compare
from .cocoa import Job
from .cocoa_run import Alphas, Progress
from .lane_reader import LanePosition
from .schedule import Plan, RunProgress

EXTRA = "extra."  # prefix of the names of arrays that are not the learner's


class CheckpointFile:
    """A checkpoint of one kind and one set of settings.

    Parameters
    ----------
    path : str or path
    kind : str
    settings : dict of JSON values
        Everything that the result depends on: a checkpoint made with other settings is rejected.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str, settings: Mapping[str, Any]) -> None:
        self.path, self._kind, self._settings = os.fspath(path), kind, dict(settings)

    def write(self, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Replace the file."""
        modelfile.write(self.path, {"kind": self._kind, "settings": self._settings, **header}, dict(arrays))

    def read(self) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """Return header and arrays, None if there is no file; one of another run is a ValueError."""
        if not os.path.lexists(self.path):
            return None
        header, arrays = modelfile.read(self.path)
        if header.get("kind") != self._kind:
            raise ValueError(f"{self.path}: not a {self._kind}, but a file of kind {header.get('kind')!r}")
        compare(self.path, self._settings, header["settings"])
        return header, arrays

    def clear(self) -> None:
        """Remove the file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class Checkpoint(NamedTuple):
    """The contents of a checkpoint of a stream: arrays of the learner, and what the owner of the run added."""

    plan: Plan
    progress: RunProgress
    arrays: dict[str, Array]
    record: dict[str, Any]
    extra: dict[str, Array]


class CheckpointStore(CheckpointFile):
    """Saves runs of streams; parameters as of `CheckpointFile`."""

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        super().__init__(path, "cluster checkpoint", settings)

    def save(
        self,
        learner: Learner,
        plan: Plan,
        progress: RunProgress,
        record: Mapping[str, Any] | None = None,
        extra: Mapping[str, Array] | None = None,
    ) -> None:
        """Write the checkpoint, with JSON values and arrays that its owner adds."""
        positions = [[p.part, list(p.position), *p[2:]] for p in progress.positions]
        header = {
            "progress": asdict(progress) | {"positions": positions},
            "fresh": plan.fresh,
            "lanes": plan.lanes,
            "rows": plan.rows,
            "passes": [list(map(int, order)) for order in plan.passes],
            "tally": plan.tally,
            "record": dict(record or {}),
        }
        arrays = {f"{EXTRA}{name}": array for name, array in (extra or {}).items()}
        self.write(header, learner.state_dict(copy=False) | arrays)

    def find(self) -> Checkpoint | None:
        """Return the checkpoint if there is one."""
        found = self.read()
        if found is None:
            return None
        header, arrays = found
        progress = dict(header["progress"])
        positions = [LanePosition(part, Position(*at), *rest) for part, at, *rest in progress.pop("positions")]
        plan = Plan(header["lanes"], header["rows"], header["passes"], header["fresh"], header["tally"])
        extra = {name.removeprefix(EXTRA): arrays.pop(name) for name in list(arrays) if name.startswith(EXTRA)}
        return Checkpoint(plan, RunProgress(positions=positions, **progress), arrays, header["record"], extra)


class CocoaCheckpoint(CheckpointFile):
    """Saves a run of CoCoA+; of one class against the others, the path ends with the number of the class."""

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        positive = settings["positive"]
        name = os.fspath(path) if positive is None else f"{os.fspath(path)}.{positive}"
        super().__init__(name, "cluster SDCA checkpoint", settings)
        self._seed = 0

    def save(self, progress: Progress, history: list[Record], alphas: Alphas) -> None:
        """Write the checkpoint."""
        arrays = {"progress": progress.as_array(), "history": np.array(history, dtype=np.float64)}
        for i, (now, before) in enumerate(alphas):
            arrays |= {f"alpha.{i}": now, f"before.{i}": before}
        self.write({"seed": self._seed}, arrays)

    def find(self, job: Job) -> tuple[Job, tuple[Progress, list[Record], Alphas] | None]:
        """Return the job with the seed that it was started with, and the checkpoint if there is one."""
        self._seed = job.seed
        found = self.read()
        if found is None:
            return job, None
        header, arrays = found
        self._seed = int(header["seed"])
        history = [Record(int(r[0]), r[1], r[2], r[3], r[4], int(r[5])) for r in arrays["history"].tolist()]
        alphas = [(arrays[f"alpha.{i}"], arrays[f"before.{i}"]) for i in range(job.partitions)]
        return replace(job, seed=self._seed), (Progress.of_array(arrays["progress"]), history, alphas)


def cocoa_settings(job: Job, rows: Sequence[int], seeded: bool) -> dict[str, Any]:
    """Return everything that the result depends on except `tol` and the number of rounds; the seed if it was given."""
    terms = net_terms(job.penalty, job.n_features)
    strengths = hashlib.sha256()
    for strength in (terms.l1, terms.l2):
        strengths.update(np.asarray(strength, np.float64).tobytes())
    return {
        "loss": str(job.loss),
        "penalty": f"{type(job.penalty).__name__} {strengths.hexdigest()[:16]}",
        "rows": list(rows),
        "n_features": job.n_features,
        "fit_intercept": job.fit_intercept,
        "weight": job.total,
        "option": job.option,
        "sampling": job.sampling,
        "strong_part": job.strong_part,
        "local_epochs": job.local_epochs,
        "positive": job.positive,
        "seed": job.seed if seeded else None,
    }
