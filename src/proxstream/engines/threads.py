"""Lock-free threads over one state (Hogwild): each takes the next chunk of rows and writes where it will.

Two threads may read and write one cell at the same time; now and then an update is lost, so a run with several threads
is not reproducible bit for bit. What every row would touch is kept apart: each thread works on a copy of the
intercept's cell and of the clock, and adds what it learned at the end of a chunk. A row knows its own place in the
stream, so rates, penalties and idle rounds are those of one thread.

Reference: F. Niu, B. Recht, C. Re, S. Wright, Hogwild!: a lock-free approach to parallelizing stochastic gradient
descent, 2011.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .._checks import Array
from .._threads import in_pieces
from ..blocks import RowBlock
from ..kernels import driver, losses
from ..kernels.driver import Model, Parts

CHUNK = 4096  # rows between two looks at what the other threads made of the intercept

# (rows of one chunk, the intercept's cell, where the chunk begins, its scores)
LearnChunk = Callable[[RowBlock, Array, int, Array], None]


def learn(rows: RowBlock, bias: Array, scores: Array, n_threads: int, learn_chunk: LearnChunk) -> None:
    """Let threads learn chunks of rows in turn; `learn_chunk` is given its own copy of the intercept's cell."""
    starts = iter(range(0, rows.n_rows, CHUNK))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                start = next(starts, None)
                own = bias.copy()
            if start is None:
                return
            before = own.copy()
            stop = min(start + CHUNK, rows.n_rows)
            learn_chunk(part(rows, start, stop), own, start, scores[start:stop])
            with lock:
                bias[:] = joined(bias, before, own)

    n_threads = min(n_threads, max(-(-rows.n_rows // CHUNK), 1))  # a model file may tell any number
    with ThreadPoolExecutor(n_threads) as pool:
        for done in [pool.submit(work) for _ in range(n_threads)]:
            done.result()


# (rows, the intercept's cell, the clock before the first of them, their scores)
LearnRows = Callable[[RowBlock, Array, Array, Array], None]


def learn_settling(
    parts: Parts, rows: RowBlock, model: Model, scores: Array, n_threads: int, learn_rows: LearnRows
) -> None:
    """Let threads learn up to the row that settles all features, learn that row alone, and so on."""
    start = 0
    while start < rows.n_rows:
        clocks = np.empty(((rows.n_rows - start) // CHUNK + 1, len(model.clock)))
        rest = part(rows, start, rows.n_rows)
        stop = start + int(driver.foresee(parts, rest, model.clock, model.table, CHUNK, clocks))

        def learn_chunk(chunk: RowBlock, bias: Array, at: int, out: Array, clocks: Array = clocks) -> None:
            learn_rows(chunk, bias, clocks[at // CHUNK].copy(), out)

        learn(part(rows, start, stop), model.bias, scores[start:stop], n_threads, learn_chunk)
        if stop < rows.n_rows:
            learn_rows(part(rows, stop, stop + 1), model.bias, model.clock, scores[stop : stop + 1])
        start = stop + 1


def suffer(loss: Any, scores: Array, rows: RowBlock, sums: Array, n_threads: int) -> None:
    """Add the rows' losses at these scores, and their weights, to the sums; by one thread, in the rows' order."""
    if n_threads == 1:
        losses.suffer(loss, scores, rows.y, rows.c, sums)
        return

    def piece(start: int, stop: int) -> Array:
        own, some = np.zeros(2), part(rows, start, stop)
        losses.suffer(loss, scores[start:stop], some.y, some.c, own)
        return own

    sums += np.sum(in_pieces(piece, rows.n_rows, n_threads, fewest=CHUNK), axis=0)


def part(rows: RowBlock, start: int, stop: int) -> RowBlock:
    """Return rows start to stop without copying them."""
    c = rows.c[start:stop] if len(rows.c) else rows.c
    return rows._replace(indptr=rows.indptr[start : stop + 1], y=rows.y[start:stop], c=c)


def joined(shared: Array, before: Array, after: Array) -> Array:
    """Return the shared cell with one thread's change: sums add, and so do the squares of a root of squares (r)."""
    out: Array = shared + (after - before)
    if shared.shape[1] > 1:
        out[:, 1] = np.sqrt(np.maximum(shared[:, 1] ** 2 + after[:, 1] ** 2 - before[:, 1] ** 2, 0.0))
    return out
