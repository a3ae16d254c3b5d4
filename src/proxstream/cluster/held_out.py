"""Held-out rows of a cluster: measured by the workers after each pass, file by file, with the merged state.

Rows are held out by their number in their own file. A worker reads a file once more and predicts those rows; the client
receives sums and counts. What is sent: the state, once to each worker that measures a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from distributed import Client

from ..core.validation import Array
from ..data.batches import Batch
from ..data.rowblock import RowBlock
from ..learner.learner import Learner
from ..learner.path import PathLearner
from ..training.holdout import Measures
from ..training.path_session import PathMeasures
from .lane_reader import mark_held_out
from .lanes import Counts, add_counts, make, sparse_counts
from .partitions import FilePartition
from .rounds import MAX_FAILURES, PAUSE, RETRIES, ClusterError, result_of


class FileMeasures(NamedTuple):
    """Sums of loss and weight over the held-out rows of a file, and counts of their predictions, under each model.

    `compared` are the sums of `learner.path_losses`, where there are several models.
    """

    sums: tuple[tuple[float, float], ...]
    counts: tuple[Counts, ...]
    compared: Array | None


class HeldOutTask(NamedTuple):
    """How rows of a file are held out, and the arguments of the learner that predicts them."""

    share: Fraction | int
    settings: Mapping[str, Any]
    encode: Callable[[Batch], Batch]


def measure_file(file: FilePartition, task: HeldOutTask, state: Mapping[str, Array]) -> FileMeasures:
    """Return the measures of a file, on a worker."""
    measures = measures_of(make(task.settings, state))
    if file.quarantines:
        file = replace(file, reading={**file.reading, "on_error": "skip"})
    measures.add_rows((rows, None, None) for rows in _held_out_rows(file, task))
    each = _each(measures)
    counts = tuple({name: sparse_counts(one) for name, one in own.tally.arrays.items()} for own in each)
    compared = measures.compared.sums if isinstance(measures, PathMeasures) else None
    return FileMeasures(tuple(own.sums for own in each), counts, compared)


def _held_out_rows(file: FilePartition, task: HeldOutTask) -> Iterator[RowBlock]:
    """Yield the rows of a file that are held out."""
    before = 0
    for chunk in file.chunks():
        rows = chunk.rows
        marked = task.encode(mark_held_out(Batch(rows, rows.y, rows.c), task.share, before))
        before += rows.n_rows
        block: RowBlock = marked.X.take(np.flatnonzero(marked.c < 0.0))
        yield block._replace(c=-block.c)


def measures_of(learner: Learner) -> Measures | PathMeasures:
    """Return what measures a learner, or each strength of a path."""
    return PathMeasures(learner) if isinstance(learner, PathLearner) else Measures(learner)


def _each(measures: Measures | PathMeasures) -> Sequence[Measures]:
    return measures.each if isinstance(measures, PathMeasures) else [measures]


def measure_files(
    client: Client, files: Sequence[FilePartition], task: HeldOutTask, learner: Learner
) -> Measures | PathMeasures:
    """Return the measures of all files with the state of a learner; they are added in the order of the files."""
    total = measures_of(learner)
    for found in _run_tasks(client, files, task, learner):
        for own, sums, counts in zip(_each(total), found.sums, found.counts, strict=True):
            own.sums = own.sums[0] + sums[0], own.sums[1] + sums[1]
            add_counts(own.tally, counts)
        if isinstance(total, PathMeasures):
            total.compared.sums += found.compared
    return total


def _run_tasks(client: Client, files: Sequence[FilePartition], task: HeldOutTask, learner: Learner) -> list[Any]:
    """Run the tasks, and again if the state was lost with a worker."""
    for _ in range(MAX_FAILURES):
        try:
            state = client.scatter([learner.state_dict(copy=False)], hash=False)[0]
        except OSError:  # the worker has died and the scheduler does not know it yet
            state = None
        if state is not None:
            futures = [client.submit(measure_file, file, task, state, pure=False, retries=RETRIES) for file in files]
            found = [result_of(future) for future in futures]
            if None not in found:
                return found
        time.sleep(PAUSE)
        client.wait_for_workers(1, timeout=300)
    raise ClusterError(f"measuring held-out rows failed {MAX_FAILURES} times; see the logs of the workers")
