"""The scale of AutoFTRL(scale="auto") on a cluster: chosen before the first round, by one worker.

States of two scales do not add up, so lanes cannot try both. The worker learns the rows that a single stream would try
them on, the first ones in the order of the first pass, with both scales, and reports the one that is ahead. It does not
depend on the number of lanes, and a run that resumes finds the same one.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np
from distributed import Client

from ..core.algorithms.auto_state import TRIAL
from ..learner.learner import Learner
from ..learner.trial import TrialEngine
from .lane_reader import LanePosition, LaneReader, LaneRows, slice_partition
from .lanes import MOST_BAD, LaneTask, Slice, make, prepare_rows
from .partitions import Partitions
from .rounds import MAX_FAILURES, RETRIES, ClusterError, result_of
from .schedule import Plan, Schedule, learner_settings


def settle_scale(client: Client, parts: Partitions, learner: Learner, encode: Any, plan: Plan) -> None:
    """Let a learner that would try both scales continue with one: that of the first rows, or the one ahead."""
    if isinstance(learner.engine, TrialEngine):
        learner.settle_scale(None if learner.t else _choose_scale(client, parts, learner, encode, plan))


def _choose_scale(client: Client, parts: Partitions, learner: Learner, encode: Any, plan: Plan) -> str:
    order = list(plan.passes[0])
    (slices,) = Schedule([[order]], parts.rows).take(TRIAL)
    if slices is None:  # there are no rows
        return "feature"
    used = [part for part, _, _ in slices] or order
    task = LaneTask(
        "",
        0,
        0,
        1,
        TRIAL,
        True,
        True,
        learner_settings(learner),
        encode,
        tuple(Slice(k, start, stop) for k, (_, start, stop) in enumerate(slices)),
        LanePosition(),
        held_out=plan.held_out,
    )
    for _ in range(MAX_FAILURES):
        data = [parts.parts[part].load(client) for part in used]
        key = f"proxstream-scale-{uuid4().hex[:12]}"
        found: str | None = result_of(client.submit(find_scale, task, data, key=key, retries=RETRIES))
        if found is not None:
            return found
    raise ClusterError(f"choosing the scale failed {MAX_FAILURES} times; see the logs of the workers")


def find_scale(task: LaneTask, data: list[Any]) -> str:
    """Return the scale that is ahead after the rows of a task; runs on a worker."""
    if task.slices:
        batches = [slice_partition(data[at.part], at.start, at.stop) for at in task.slices]
        found = LaneRows(batches, LanePosition(), True, 0)
    else:
        reader = LaneReader(data, LanePosition(), task.held_out)
        try:
            found = reader.read(task.rows, MOST_BAD)
        finally:
            reader.close()
    learner = make(task.settings)
    for block in prepare_rows(task, found):
        learner.learn(block._replace(c=np.maximum(block.c, 0.0)), undo=False)
    return str(getattr(learner.engine, "scale", "feature"))
