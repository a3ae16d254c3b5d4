"""What an experiment is, and what it hands back: plain records, without matplotlib until a figure is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..report.records import Cell, Figure, Table

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Cell", "Claim", "Experiment", "Figure", "Report", "Table"]


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
