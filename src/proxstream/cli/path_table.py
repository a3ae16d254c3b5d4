"""The strengths of a path as a table, as `train`, `inspect` and `choose` show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .common import table

HEADS = {
    "strength": "l1 strength",
    "progressive_loss": "progressive loss",
    "held_out_loss": "held-out loss",
    "nonzeros": "non-zeros",
}


def path_table(path: Sequence[Mapping[str, Any]], chosen: float) -> list[str]:
    """Return the strengths of a path as lines, the chosen one marked.

    >>> strong = {"strength": 0.1, "progressive_loss": 0.5, "nonzeros": 3}
    >>> weak = {"strength": 0.01, "progressive_loss": 0.25, "nonzeros": 1200}
    >>> print(*path_table([strong, weak], chosen=0.01), sep="\\n")
      l1 strength  progressive loss  non-zeros
              0.1          0.500000          3
    *        0.01          0.250000      1,200
    """
    names = [name for name in HEADS if name in path[0]]
    rows = [[_cell(name, entry[name]) for name in names] for entry in path]
    marks = ["* " if entry["strength"] == chosen else "  " for entry in path]
    lines = table([HEADS[name] for name in names], rows)
    return [mark + line for mark, line in zip(("  ", *marks), lines, strict=True)]


def _cell(name: str, value: Any) -> str:
    if name == "nonzeros":
        return f"{value:,}"
    return f"{value:g}" if name == "strength" else f"{value:.6f}" if abs(value) < 1000.0 else f"{value:.5g}"
