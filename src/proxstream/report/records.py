"""What pages are made of: plain records, without matplotlib until a figure is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import matplotlib.figure

Cell: TypeAlias = "str | float | int | None"


@dataclass(frozen=True)
class Table:
    """Rows under columns.

    Parameters
    ----------
    title
        One line.
    columns
        Heads of the columns.
    rows
        One cell per column: a text, a number, or None for an empty cell.
    note
        Text below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        width = len(self.columns)
        for i, row in enumerate(self.rows):
            if len(row) != width:
                raise ValueError(f"row {i} of the table {self.title!r} must have {width} cells, got {len(row)}")


@dataclass(frozen=True)
class Figure:
    """A picture, drawn when it is asked for.

    Parameters
    ----------
    name
        Stem of its files, and its id in a page.
    title
        One line above the picture.
    caption
        What is to be seen, below it.
    draw
        Draws on the matplotlib figure that it is given, which has the house style, the size and a constrained layout.
    size
        Width and height in inches.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[matplotlib.figure.Figure], None]
    size: tuple[float, float] = (7.0, 4.0)
