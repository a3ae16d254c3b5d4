"""What `benchmarks.batch` is measured by: each table's bars, and whether its figures meet them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

Found = dict[str, Any]  # of one task, as `batch_runs.compare` returns it


class Verdict(NamedTuple):
    """A bar, and the tasks that fall short of it, with their figures."""

    bar: str
    met: bool
    short: list[str]

    def words(self) -> str:
        """One line."""
        return f"{'met' if self.met else 'NOT met'}: {self.bar}" + (f" ({'; '.join(self.short)})" if self.short else "")


def ratio(found: Found, counts: Callable[[str], bool]) -> float:
    """Return the best time of the peers that count, or a bound on it, as a multiple of ours; inf if none gets there."""
    mine, *others = found["entries"]
    if mine.median is None:
        return 0.0
    times = [entry.median if entry.median is not None else entry.cut for entry in others if counts(entry.name)]
    return min((seconds / mine.median for seconds in times if seconds is not None), default=math.inf)


def _all(bar: str, figures: dict[str, float], least: float) -> Verdict:
    short = [f"{name}: {figure:.2f}" for name, figure in figures.items() if figure < least]
    return Verdict(bar, not short, short)


def _most(bar: str, figures: dict[str, float], least: float) -> Verdict:
    short = [f"{name}: {figure:.2f}" for name, figure in figures.items() if figure < least]
    return Verdict(bar, 2 * len(short) < len(figures), short)


def _proofs(results: dict[str, Found]) -> list[Verdict]:
    verdicts = []
    for tol, times in ((1e-4, 2.0), (1e-6, 4.0)):
        cost = {
            name: (found["proofs"][tol] or math.inf) / (found["entries"][0].median or math.inf)
            for name, found in results.items()
        }
        short = [f"{name}: {figure:.2f}" for name, figure in cost.items() if not figure <= times]
        verdicts.append(Verdict(f"a proof of {tol:g} within {times:g} times the seconds to 1e-6", not short, short))
    return verdicts


def judge(title: str, results: dict[str, Found]) -> list[Verdict]:
    """Return the verdicts on a table of races."""
    if not results:
        return []
    saga = {name: ratio(found, lambda peer: peer == "saga") for name, found in results.items()}
    others = {name: ratio(found, lambda peer: peer != "saga") for name, found in results.items()}
    if "small" in title:
        return [_all("never slower than the best peer", others, 1.0)]
    if title.startswith("l2"):
        verdicts = [
            _all("never slower than the best of LIBLINEAR", others, 1.0),
            _most("1.5 times as fast on most", others, 1.5),
        ]
        return verdicts + ([_all("3 times as fast as saga", saga, 3.0)] if title == "l2-logistic" else [])
    if title.startswith("elastic net"):
        return [_all("5 times as fast as saga", saga, 5.0)]
    verdicts = [
        _most("2 times as fast as the best peer on most", others, 2.0),
        _all("slower than it on none by more than 1.2", others, 1.0 / 1.2),
    ]
    return verdicts + (_proofs(results) if title.startswith("l1") else [])
