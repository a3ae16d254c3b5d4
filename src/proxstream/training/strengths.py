"""The strengths of a path as options: `--l1 auto`, lists and grids, and the rules of `--choose`."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ..core.validation import Array

AUTO = "auto"
DEFAULT = "1se"  # of --choose
Strengths: TypeAlias = "float | tuple[float, ...] | str"  # one, several, or AUTO


def parse_strengths(text: str) -> Strengths:
    """Return one strength, several, or `AUTO`, from the text of `--l1`.

    >>> parse_strengths("1e-5"), parse_strengths("auto"), parse_strengths("0,0.1,1")
    (1e-05, 'auto', (0.0, 0.1, 1.0))
    >>> parse_strengths("1:100:3")
    (1.0, 10.0, 100.0)
    """
    if text == AUTO:
        return AUTO
    try:
        if ":" in text:
            low, high, count = text.split(":")
            return _grid(text, float(low), float(high), int(count))
        values = tuple(float(word) for word in text.split(","))
    except (ValueError, OverflowError) as error:
        raise (error if isinstance(error, GridError) else _misread(text)) from None
    if len(values) == 1:
        if not 0.0 <= values[0] < math.inf:
            raise _misread(text)
        return values[0]
    from ..learner.path import checked_strengths

    try:
        checked_strengths(values)
    except ValueError as error:
        raise ValueError(f"--l1 {text}: {error}") from None
    return values


class GridError(ValueError):
    """A grid whose numbers do not make one."""


def _grid(text: str, low: float, high: float, count: int) -> tuple[float, ...]:
    """Return `count` strengths from one end to the other, evenly on a logarithmic scale."""
    if not (0.0 < low < math.inf and 0.0 < high < math.inf and low != high and 2 <= count <= 1000):
        raise GridError(f"--l1 {text}: a grid has two different ends above 0 and 2 to 1000 strengths")
    grid: Array = np.geomspace(low, high, count)
    return tuple(grid.tolist())


def _misread(text: str) -> ValueError:
    return ValueError(
        "--l1 must be a number >= 0, auto, increasing or decreasing numbers such as 1e-6,1e-5,1e-4, or a grid such as "
        f"1e-7:1e-3:9, got {text!r}"
    )


def parse_choice(text: str) -> dict[str, Any]:
    """Return the rule of `--choose` as an argument of `PathLearner.choose`.

    >>> parse_choice("1se"), parse_choice("nnz=1000"), parse_choice("loss=1%")
    ({'rule': '1se'}, {'nnz': 1000}, {'loss_within': 0.01})
    """
    from ..learner.path_choice import RULES

    name, _, value = text.partition("=")
    try:
        if text in RULES:
            return {"rule": text}
        if name == "nnz" and int(value) >= 0:
            return {"nnz": int(value)}
        if name == "loss":
            return {"loss_within": parse_share(value)}
    except ValueError:
        pass
    raise ValueError(f"--choose must be best, 1se, nnz=N such as nnz=1000, or loss=SHARE such as loss=1%, got {text!r}")


def parse_share(text: str) -> float:
    """Return a share, given as a number or with a percent sign.

    >>> parse_share("1%"), parse_share("0.5")
    (0.01, 0.5)
    """
    share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    if not 0.0 <= share < math.inf:
        raise ValueError(f"must be a share >= 0 such as 1% or 0.01, got {text!r}")
    return share
