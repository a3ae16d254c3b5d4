"""What an experiment is, and what it hands back: plain records, without matplotlib until a figure is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import matplotlib.figure

    from .run import Run

Cell: TypeAlias = "str | float | int | None"


@dataclass(frozen=True)
class Table:
    """Rows under columns; the numbers of the paper are in separate columns next to ours.

    Parameters
    ----------
    title
        One line.
    columns
        Heads of the columns.
    rows
        One cell a column: a text, a number, or None for an empty cell.
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
        Stem of its files.
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


@dataclass(frozen=True)
class Claim:
    """Something that a paper says, and what was seen here.

    Parameters
    ----------
    claim
        What the paper says, in our words, with its section, figure or table.
    ours
        What was seen, with numbers.
    agrees
        True, False, or None if it holds in part or is undecided.
    why
        Where the two differ: the reason.
    """

    claim: str
    ours: str
    agrees: bool | None
    why: str = ""

    def __post_init__(self) -> None:
        if self.agrees is not None:
            object.__setattr__(self, "agrees", bool(self.agrees))  # a NumPy comparison is not a bool


@dataclass(frozen=True)
class Report:
    """What an experiment found.

    Parameters
    ----------
    tables, figures, claims
        In the order in which they are shown.
    settings
        What was set, by name: steps, strengths, repetitions, solvers.
    data
        One sentence: what data, how many rows.
    """

    tables: Sequence[Table]
    figures: Sequence[Figure]
    claims: Sequence[Claim]
    settings: Mapping[str, str]
    data: str


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    Parameters
    ----------
    name
        As the command line knows it: "rda-mnist".
    title
        One line.
    paper
        Author, year and section: "Xiao 2010, section 6".
    about
        One paragraph: what is tried and what it shows.
    data
        What the folder of `--data` must hold; None if the data are generated.
    perform
        Runs it.
    """

    name: str
    title: str
    paper: str
    about: str
    data: str | None
    perform: Callable[[Run], Report]
