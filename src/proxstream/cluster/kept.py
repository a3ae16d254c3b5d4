"""Checkpoints of CoCoA+: all dual variables and what the client remembers, from which a run goes on bit for bit."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..batch.problem import Record
from ..batch.sdca import net_terms
from ..training.checkpoint import compare
from .cocoa import Job
from .cocoa_run import Alphas, Progress

_KIND = "cluster_sdca"
Start = tuple[Progress, list[Record], Alphas]


class Keeper:
    """The state of one run in a file, which is replaced whole or not at all.

    Parameters
    ----------
    path : str or path
        Of a class against the rest the file has its number behind it.
    settings : dict of what JSON knows
        All that the result depends on.
    """

    def __init__(self, path: Any, settings: dict[str, Any]) -> None:
        positive = settings["positive"]
        self.path = os.fspath(path) if positive is None else f"{os.fspath(path)}.{positive}"
        self._settings, self._seed = settings, 0

    def keep(self, progress: Progress, history: list[Record], alphas: Alphas) -> None:
        """Write the state."""
        from .. import modelfile

        arrays = {"progress": progress.as_array(), "history": np.array(history, dtype=np.float64)}
        for i, (now, before) in enumerate(alphas):
            arrays |= {f"alpha.{i}": now, f"before.{i}": before}
        modelfile.write(self.path, {"kind": _KIND, "settings": self._settings, "seed": self._seed}, arrays)

    def find(self, job: Job) -> tuple[Job, Start | None]:
        """Return the job with the seed it was begun with, and the state that was kept if there is one.

        Raises
        ------
        ValueError
            if the file is no such checkpoint, or was made with other data or settings.
        """
        from .. import modelfile

        self._seed = job.seed
        if not os.path.lexists(self.path):
            return job, None
        header, arrays = modelfile.read(self.path)
        if header.get("kind") != _KIND:
            raise ValueError(f"{self.path}: is no checkpoint of Prox-SDCA on a cluster, but a {header.get('kind')!r}")
        compare(self.path, self._settings, header["settings"])
        self._seed = int(header["seed"])
        history = [Record(int(r[0]), r[1], r[2], r[3], r[4], int(r[5])) for r in arrays["history"].tolist()]
        alphas = [(arrays[f"alpha.{i}"], arrays[f"before.{i}"]) for i in range(job.partitions)]
        return replace(job, seed=self._seed), (Progress.of_array(arrays["progress"]), history, alphas)

    def clear(self) -> None:
        """Remove the file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def settings_of(job: Job, rows: Sequence[int], seeded: bool) -> dict[str, Any]:
    """Return what a run's result depends on, but for `tol` and the number of rounds; a seed only if it was told."""
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
