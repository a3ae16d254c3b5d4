"""Lock-free threads over one state (Hogwild): each takes the next chunk of rows and writes to the state without locks.

Two threads may read and write one cell at the same time; occasionally an update is lost, so a run with several threads
is not reproducible bit for bit. What every row touches is not shared: each thread works on a copy of the intercept's
cell and of the clock, and adds its changes at the end of a chunk. A row knows its position in the stream, so rates,
penalties and idle rounds are those of one thread.

Reference: F. Niu, B. Recht, C. Re, S. Wright, Hogwild!: a lock-free approach to parallelizing stochastic gradient
descent, 2011.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.losses import _kernels as losses
from ..core.validation import Array
from ..data.rowblock import RowBlock
from ..data.threads import in_pieces, pool_of
from . import _loop as driver
from ._finite import CAREFUL, ROW
from ._loop import Model, Parts

CHUNK = 4096  # rows between two exchanges of the intercept

# (rows of one chunk, the intercept's cell, where the chunk begins, its scores, its guard)
LearnChunk = Callable[[RowBlock, Array, int, Array, Array], None]


def learn(rows: RowBlock, bias: Array, scores: Array, guard: Array, n_threads: int, learn_chunk: LearnChunk) -> None:
    """Let threads learn chunks of rows in turn; `learn_chunk` is given its own copy of the intercept's cell.

    The guard is left with the first row found at which the model was not finite; no chunk begins after that.
    """
    starts = iter(range(0, rows.n_rows, CHUNK))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                start = next(starts, None) if guard[ROW] < 0.0 else None
                own, own_guard = bias.copy(), guard.copy()
            if start is None:
                return
            before = own.copy()
            stop = min(start + CHUNK, rows.n_rows)
            learn_chunk(rows.slice(start, stop), own, start, scores[start:stop], own_guard)
            with lock:
                bias[:] = joined(bias, before, own)
                if own_guard[ROW] < 0.0 and not np.isfinite(bias).all():
                    own_guard[ROW] = stop - start - 1
                _join_guards(guard, own_guard, start)

    n_threads = min(n_threads, max(-(-rows.n_rows // CHUNK), 1))  # a model file may contain any number
    with pool_of(n_threads) as pool:
        for done in [pool.submit(work) for _ in range(n_threads)]:
            done.result()


def _join_guards(guard: Array, own: Array, start: int) -> None:
    """Add what a chunk that starts at this row found to the shared guard."""
    guard[CAREFUL] = max(guard[CAREFUL], own[CAREFUL])
    if own[ROW] >= 0.0:
        row = start + own[ROW]
        guard[ROW] = row if guard[ROW] < 0.0 else min(guard[ROW], row)


# (rows, the intercept's cell, the clock before the first of them, their scores, their guard)
LearnRows = Callable[[RowBlock, Array, Array, Array, Array], None]


def learn_settling(
    parts: Parts, rows: RowBlock, model: Model, scores: Array, guard: Array, n_threads: int, learn_rows: LearnRows
) -> None:
    """Let threads learn up to the row that settles all features, learn that row alone, and so on."""
    start = 0
    while start < rows.n_rows and guard[ROW] < 0.0:
        clocks = np.empty(((rows.n_rows - start) // CHUNK + 1, len(model.clock)))
        rest = rows.slice(start, rows.n_rows)
        stop = start + int(driver.foresee(parts, rest, model.clock, model.table, CHUNK, clocks))

        def learn_chunk(
            chunk: RowBlock, bias: Array, at: int, out: Array, guard: Array, clocks: Array = clocks
        ) -> None:
            learn_rows(chunk, bias, clocks[at // CHUNK].copy(), out, guard)

        own = guard.copy()
        learn(rows.slice(start, stop), model.bias, scores[start:stop], own, n_threads, learn_chunk)
        _join_guards(guard, own, start)
        if stop < rows.n_rows and guard[ROW] < 0.0:
            own = guard.copy()
            learn_rows(rows.slice(stop, stop + 1), model.bias, model.clock, scores[stop : stop + 1], own)
            _join_guards(guard, own, stop)
        start = stop + 1


def add_losses(loss: Any, scores: Array, rows: RowBlock, sums: Array, n_threads: int) -> None:
    """Add the rows' losses at these scores, and their weights, to the sums; by one thread, in the rows' order."""
    if n_threads == 1:
        losses.add_losses(loss, scores, rows.y, rows.c, sums)
        return

    def piece(start: int, stop: int) -> Array:
        own, some = np.zeros(2), rows.slice(start, stop)
        losses.add_losses(loss, scores[start:stop], some.y, some.c, own)
        return own

    sums += np.sum(in_pieces(piece, rows.n_rows, n_threads, fewest=CHUNK), axis=0)


def joined(shared: Array, before: Array, after: Array) -> Array:
    """Return the shared cell with one thread's change: sums add, and so do the squares of a root of squares (r)."""
    out: Array = shared + (after - before)
    if shared.shape[1] > 1:
        out[:, 1] = np.sqrt(np.maximum(shared[:, 1] ** 2 + after[:, 1] ** 2 - before[:, 1] ** 2, 0.0))
    return out
