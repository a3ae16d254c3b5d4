"""Work on one long array by several threads, a piece each: for what reads much memory and does little with it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def in_pieces(work: Callable[[int, int], Result], n: int, n_threads: int = 1, fewest: int = 1 << 18) -> list[Result]:
    """Return work(start, stop) of pieces that together are 0 to n, in their order.

    A thread gets `fewest` elements at least: with fewer, starting it costs more than it saves.

    >>> in_pieces(lambda start, stop: sum(range(start, stop)), 10)
    [45]
    """
    pieces = max(1, min(n_threads, n // fewest))
    cuts = [n * i // pieces for i in range(pieces + 1)]
    if pieces == 1:
        return [work(0, n)]
    with ThreadPoolExecutor(pieces) as pool:
        return list(pool.map(work, cuts, cuts[1:]))
