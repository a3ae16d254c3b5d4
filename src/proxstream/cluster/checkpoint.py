"""What checkpoints of a cluster hold: of streams the state after a round and the position of each lane, of CoCoA+ all
dual variables. They are files on the client.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ..batch.problem import Record
from ..batch.sdca import net_terms
from ..io.types import Position
from ..training.checkpoint import CheckpointStore
from .cocoa import Job
from .cocoa_run import Alphas, Progress
from .lane_reader import LanePosition
from .schedule import Plan, RunProgress

KIND = "cluster checkpoint"


def record_rounds(plan: Plan, progress: RunProgress) -> dict[str, Any]:
    """Return how far a run has come, as JSON values."""
    return {
        "progress": asdict(progress) | {"positions": [[p.part, list(p.position), *p[2:]] for p in progress.positions]},
        "fresh": plan.fresh,
        "lanes": plan.lanes,
        "rows": plan.rows,
        "passes": [list(map(int, order)) for order in plan.passes],
        "tally": plan.tally,
    }


def restore_rounds(record: Mapping[str, Any]) -> tuple[Plan, RunProgress]:
    """Invert `record_rounds`."""
    progress = dict(record["progress"])
    positions = [
        LanePosition(part, Position(*at), *rest)._replace(relearned=tuple(relearned))
        for part, at, *rest, relearned in progress.pop("positions")
    ]
    plan = Plan(record["lanes"], record["rows"], record["passes"], record["fresh"], record["tally"])
    return plan, RunProgress(positions=positions, **progress)


class CocoaCheckpoint:
    """Saves a run of CoCoA+; of one class against the others, the path ends with the number of the class."""

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        positive = settings["positive"]
        name = os.fspath(path) if positive is None else f"{os.fspath(path)}.{positive}"
        self._store, self._seed = CheckpointStore(name, settings, "cluster SDCA checkpoint"), 0
        self.clear = self._store.clear

    def save(self, progress: Progress, history: list[Record], alphas: Alphas) -> None:
        """Write the checkpoint."""
        arrays = {"progress": progress.as_array(), "history": np.array(history, dtype=np.float64)}
        for i, (now, before) in enumerate(alphas):
            arrays |= {f"alpha.{i}": now, f"before.{i}": before}
        self._store.save({"seed": self._seed}, arrays)

    def find(self, job: Job) -> tuple[Job, tuple[Progress, list[Record], Alphas] | None]:
        """Return the job with the seed that it was started with, and the checkpoint if there is one."""
        self._seed = job.seed
        found = self._store.find()
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
