"""What the first rows decide on a cluster, before the first round: strengths of `--l1 auto`, and scales of AutoFTRL.

One worker reads the rows that a single stream would look at, the first ones in the order of the first pass, and reports
what it found. That does not depend on the number of lanes, and a run that resumes finds the same.

States of two scales of AutoFTRL(scale="auto") do not add up, so lanes cannot try both: the worker learns its rows with
both scales and reports the one that is ahead, under each strength of a path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
from distributed import Client

from ..batch.strengths import OPENING
from ..core.algorithms.auto_state import TRIAL
from ..data.rowblock import RowBlock
from ..learner.learner import Learner
from ..training.config import ConfigError, TrainConfig
from ..training.learners import find_strengths
from .lane_reader import LanePosition, LaneReader, LaneRows, slice_partition
from .lanes import MOST_BAD, LaneTask, Slice, make, prepare_rows
from .partitions import Partitions
from .rounds import MAX_FAILURES, RETRIES, ClusterError, result_of
from .schedule import Plan, Schedule, learner_settings


def settle_scale(client: Client, parts: Partitions, learner: Learner, encode: Any, plan: Plan) -> None:
    """Let a learner that would try both scales continue with one: that of the first rows, or the one ahead."""
    if learner.scale_ahead is not None:
        found = None if learner.t else _ask_worker(client, parts, _task(learner, TRIAL, encode, plan), plan, find_scale)
        learner.settle_scale(found)


def settle_strengths(
    client: Client, parts: Partitions, config: TrainConfig, encode: Any, plan: Plan
) -> list[float] | None:
    """Return the strengths of `--l1 auto` by the first rows, None if there are no rows."""
    task = _task(config.learner(), OPENING, encode, plan)
    found: list[float] | ConfigError | None = _ask_worker(client, parts, task, plan, find_opening_strengths, config)
    if isinstance(found, ConfigError):
        raise found
    return found or None


def _task(learner: Learner, rows: int, encode: Any, plan: Plan) -> LaneTask:
    settings = learner_settings(learner)
    return LaneTask("", 0, 0, 1, rows, True, True, settings, encode, (), LanePosition(), held_out=plan.held_out)


def _ask_worker(
    client: Client, parts: Partitions, task: LaneTask, plan: Plan, find: Callable[..., Any], *more: Any
) -> Any:
    """Return what a function finds on a worker, by the first rows of the first pass; None if there are none."""
    order = list(plan.passes[0])
    (slices,) = Schedule([[order]], parts.rows).take(task.rows)
    if slices is None:
        return None
    used = [part for part, _, _ in slices] or order
    task = replace(task, slices=tuple(Slice(k, start, stop) for k, (_, start, stop) in enumerate(slices)))
    for _ in range(MAX_FAILURES):
        data = [parts.parts[part].load(client) for part in used]
        key = f"proxstream-first-{uuid4().hex[:12]}"
        found = result_of(client.submit(find, task, data, *more, key=key, retries=RETRIES))
        if found is not None:
            return found
    raise ClusterError(f"reading the first rows failed {MAX_FAILURES} times; see the logs of the workers")


def find_scale(task: LaneTask, data: list[Any]) -> Any:
    """Return the scale that is ahead after the rows of a task, or that of each strength; runs on a worker."""
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
    return learner.scale_ahead


def find_opening_strengths(task: LaneTask, files: list[Any], config: TrainConfig) -> list[float] | ConfigError:
    """Return the strengths by the first rows that will be learned, none if there are none; runs on a worker.

    An error of the options is returned, not raised: Dask would try again, and write it to its log.
    """
    reader, blocks, done = LaneReader(files, LanePosition(), task.held_out), list[RowBlock](), False
    try:
        while not done and sum(block.n_rows for block in blocks) < task.rows:
            found = reader.read(task.rows, MOST_BAD)
            done = found.done
            for block in prepare_rows(task, found):
                blocks.append(block.take(np.flatnonzero(block.c >= 0.0)) if task.held_out else block)
    finally:
        reader.close()
    n_rows = min(sum(block.n_rows for block in blocks), task.rows)
    try:
        return find_strengths(config, RowBlock.concat(blocks).slice(0, n_rows)) if n_rows else []
    except ConfigError as error:
        return error
