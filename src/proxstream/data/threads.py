"""A pool of threads, and how work is divided among them.

Compiled loops release the interpreter lock. How work is divided depends on the number of threads alone, and partial
sums are added in order: the same number of threads gives the same bits. Small work is done by one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from ..core.validation import Array

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Result = TypeVar("Result")

SMALL = 50_000  # rows, columns or entries below which one thread does all


def pool_of(n: int, name: str = "") -> ThreadPoolExecutor:
    """Return a pool of n threads; its module is imported only where there is one."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(n, name)


class Threads:
    """A number of threads, this one among them; use as a context."""

    def __init__(self, n: int = 1) -> None:
        self.n = n
        self._pool = pool_of(n - 1) if n > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, work: Callable[..., Result], parts: Iterable[tuple[Any, ...]]) -> list[Result]:
        """Return work(*part) of each part, in order."""
        first, *rest = parts
        if self._pool is None or not rest:
            return [work(*first), *(work(*part) for part in rest)]
        others = [self._pool.submit(work, *part) for part in rest]
        return [work(*first), *(other.result() for other in others)]  # this thread works, too

    def ranges(self, m: int, entries: float | None = None) -> list[tuple[int, int]]:
        """Cut m things, with so many entries in all, into ranges of the same length."""
        if self.n == 1 or (m if entries is None else entries) < SMALL:
            return [(0, m)]
        return list(pairwise(np.linspace(0, m, self.n + 1).astype(int).tolist()))

    def ranges_by_entries(self, ptr: Array) -> list[tuple[int, int]]:
        """Cut rows into ranges of about as many entries each; row i has those from ptr[i] to ptr[i + 1]."""
        m = len(ptr) - 1
        if self.n == 1 or ptr[-1] - ptr[0] < SMALL:
            return [(0, m)]
        share = np.linspace(ptr[0], ptr[-1], self.n + 1)[1:-1]
        return list(pairwise([0, *np.searchsorted(ptr, share).tolist(), m]))

    def deal(self, things: Array) -> list[tuple[Array]]:
        """Distribute things round-robin, so that where neighbours are of similar size all threads get about as much."""
        if self.n == 1 or len(things) < self.n:
            return [(things,)]
        return [(np.ascontiguousarray(things[k :: self.n]),) for k in range(self.n)]


ALONE = Threads()


def in_pieces(work: Callable[[int, int], Result], n: int, n_threads: int = 1, fewest: int = 1 << 18) -> list[Result]:
    """Return work(start, stop) of pieces that together are 0 to n, in their order: for one pass over a long array.

    A thread gets `fewest` elements at least: with fewer, starting it costs more than it saves.

    >>> in_pieces(lambda start, stop: sum(range(start, stop)), 10)
    [45]
    """
    pieces = max(1, min(n_threads, n // fewest))
    with Threads(pieces) as threads:
        return threads.each(work, pairwise(n * i // pieces for i in range(pieces + 1)))
