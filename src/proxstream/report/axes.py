"""Axes that are read at a glance: plain ticks, logarithms where they help, a legend that covers nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.validation import Array
from .drawing import BLUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas

POINTS = 400  # of a curve at most


def legend_below(canvas: Canvas, axes: Axes | None = None) -> None:
    """Put a legend below the axes, where it covers no curve."""
    handles, labels = (axes or canvas.axes[0]).get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=2, columnspacing=1.2, borderaxespad=0.2)


def log_rows(axes: Axes) -> None:
    """Make the x axis logarithmic."""
    axes.set_xscale("log")
    log_ticks(axes.xaxis)


def focus(axes: Axes, values: Sequence[float]) -> None:
    """Let the y axis show the range of these values, even if others are beyond it."""
    shown = [value for value in values if np.isfinite(value)]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    if low == high:
        return
    if log_if_wide(axes, shown, ratio=5.0):
        margin = math.exp(0.07 * (math.log(high) - math.log(low)))
        axes.set_ylim(low / margin, high * margin)
    else:
        margin = 0.07 * (high - low)
        axes.set_ylim(low - margin, high + margin)


def log_if_wide(axes: Axes, values: Sequence[float] | Array, ratio: float = 30.0) -> bool:
    """Make the y axis logarithmic if the values are positive, and the largest is `ratio` times the smallest."""
    there = np.asarray(values, np.float64)
    there = there[np.isfinite(there)]
    if len(there) == 0 or there.min() <= 0.0:
        return False
    decades = math.log10(there.max()) - math.log10(there.min())
    if decades < math.log10(ratio):
        return False
    axes.set_yscale("log")
    log_ticks(axes.yaxis, (1, 1.5, 2, 3, 5, 7) if decades < 1.0 else (1, 2, 5) if decades < 3.0 else (1,))
    return True


def log_ticks(axis: Axis, digits: tuple[float, ...] = (1,)) -> None:
    """Set plain ticks at these digits times powers of ten."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=digits, numticks=8))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(short)


def whole_numbers(axis: Axis) -> None:
    """Set ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def from_zero(axes: Axes, counts: Sequence[float] | Array) -> None:
    """Let the y axis begin at 0, for whole numbers."""
    axes.set_ylim(0, 1.08 * max(float(np.max(counts)), 1.0))
    whole_numbers(axes.yaxis)
    axes.yaxis.set_major_formatter(short)


def marker_of(points: Sequence[float]) -> str | None:
    """Return the marker of a curve: a single point has no line to be seen by."""
    return "o" if len(points) == 1 else None


def unit_square(axes: Axes) -> None:
    """Show the unit square, as a square."""
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")


def dots() -> dict[str, Any]:
    """Return the look of many points that may cover each other."""
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 2.6, "markeredgewidth": 0}
    return look | {"color": BLUE, "alpha": 0.45}


def range_of(values: Array) -> tuple[float, float]:
    """Return the range of all but a hundredth of the values, with a margin."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return -1.0, 1.0
    low, high = (float(limit) for limit in np.quantile(values, (0.005, 0.995)))
    margin = 0.06 * (high - low) or max(0.06 * abs(low), 1e-3)
    return low - margin, high + margin


def evenly(rows: Sequence[float]) -> Array:
    """Return the places of at most `POINTS` of the rows, evenly spaced on a logarithmic axis, the last one included."""
    if len(rows) <= POINTS:
        return np.arange(len(rows))
    wanted = np.geomspace(max(rows[0], 1), rows[-1], POINTS)
    return np.unique(np.minimum(np.searchsorted(rows, wanted), len(rows) - 1))


def short(value: float, place: float = 0.0) -> str:
    """Return a number as short as an axis needs it.

    >>> short(0), short(250), short(20_000), short(1_500_000), short(3e9), short(0.5)
    ('0', '250', '20k', '1.5M', '3G', '0.5')
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if 1000.0 * size > abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
