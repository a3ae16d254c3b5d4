"""What came of a run: the report with its circumstances, as a record that can be kept as JSON, and its files.

A run writes NAME.html, NAME.json and the figures NAME-FIGURE.png and .svg. All of them are made in memory before the
first is written, and each takes the place of its forerunner whole or not at all. index.html is made again from all the
records in the folder, so that experiments may be run one by one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ..report.machine import machine, versions
from .experiment import Cell, Claim, Experiment, Table
from .run import Run

FORM = "proxstream reproduction 1"
LIBRARIES = ("proxstream", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Picture:
    """A figure that was drawn: its file's stem, its words and its size in inches."""

    name: str
    title: str
    caption: str
    size: tuple[float, float]


@dataclass(frozen=True)
class Outcome:
    """A run of an experiment, with the complete content of its page.

    Parameters
    ----------
    name, title, paper, about
        Of the experiment.
    data, settings, tables, claims, figures
        Of the report.
    quick, seed, jobs, seconds, date, machine, versions
        How, when, where and with what it was run.
    needs
        What the folder of `--data` had to hold.
    """

    name: str
    title: str
    paper: str
    about: str
    data: str
    settings: Mapping[str, str]
    tables: Sequence[Table]
    claims: Sequence[Claim]
    figures: Sequence[Picture]
    quick: bool
    seed: int
    jobs: int
    seconds: float
    date: str
    machine: str
    versions: Mapping[str, str]
    needs: str | None = None

    def to_json(self) -> str:
        """Return the record as JSON; a number that is none is null."""
        tables = [replace(table, rows=[[_plain(cell) for cell in row] for row in table.rows]) for table in self.tables]
        fields = {"form": FORM, **asdict(replace(self, tables=tables))}
        return json.dumps(fields, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, place: str = "the record") -> Outcome:
        """Invert `to_json`; an error names the `place`."""
        try:
            fields = json.loads(text)
            if fields.pop("form") != FORM:
                raise KeyError("form")
            return cls(
                **fields
                | {
                    "tables": [Table(**table) for table in fields["tables"]],
                    "claims": [Claim(**claim) for claim in fields["claims"]],
                    "figures": [Picture(**figure | {"size": tuple(figure["size"])}) for figure in fields["figures"]],
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{place}: not a record of a reproduction; run the experiment again") from None


def perform(experiment: Experiment, run: Run, folder: Path) -> Outcome:
    """Run an experiment, write its page, its record and its figures into the folder, and return the record."""
    from ..io.atomic import replacing
    from ..report.drawing import drawn
    from . import page

    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    report = experiment.perform(run)
    outcome = Outcome(
        name=experiment.name,
        title=experiment.title,
        paper=experiment.paper,
        about=experiment.about,
        data=report.data,
        settings=dict(report.settings),
        tables=report.tables,
        claims=report.claims,
        figures=[Picture(figure.name, figure.title, figure.caption, figure.size) for figure in report.figures],
        quick=run.quick,
        seed=run.seed,
        jobs=run.jobs,
        seconds=round(time.perf_counter() - began, 1),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=machine(),
        versions=versions(LIBRARIES),
        needs=None if run.quick else experiment.data,
    )
    pictures = {figure.name: drawn(figure) for figure in report.figures}
    files = {f"{experiment.name}-{name}.png": picture.png for name, picture in pictures.items()}
    files |= {f"{experiment.name}-{name}.svg": picture.svg for name, picture in pictures.items()}
    files[f"{experiment.name}.json"] = outcome.to_json().encode()
    files[f"{experiment.name}.html"] = page.experiment(outcome, pictures).encode()
    for name, content in files.items():
        with replacing(folder / name) as file:
            file.write(content)
    write_index(folder)
    return outcome


def outcomes(folder: Path) -> list[Outcome]:
    """Return what is recorded in a folder, in the order of the experiments."""
    from . import EXPERIMENTS

    files = [folder / f"{name}.json" for name in EXPERIMENTS]
    return [Outcome.from_json(file.read_text(encoding="utf-8"), str(file)) for file in files if file.is_file()]


def write_index(folder: Path) -> None:
    """Write index.html of what is recorded in the folder."""
    from ..io.atomic import replacing
    from . import page

    with replacing(folder / "index.html") as file:
        file.write(page.index(outcomes(folder)).encode())


def _plain(cell: Cell) -> Cell:
    plain: Cell = getattr(cell, "item", lambda: cell)()  # of a NumPy scalar
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def verdict(claim: Claim) -> str:
    """Return one word: agrees, differs or partly.

    >>> verdict(Claim("the sky is blue", "it is grey", False))
    'differs'
    """
    return "partly" if claim.agrees is None else "agrees" if claim.agrees else "differs"


def tally(claims: Sequence[Claim]) -> dict[str, int]:
    """Return how many claims agree, hold in part, and differ; verdicts that no claim has are left out.

    >>> tally([Claim("a", "b", True), Claim("c", "d", True), Claim("e", "f", None)])
    {'agrees': 2, 'partly': 1}
    """
    words = [verdict(claim) for claim in claims]
    return {word: words.count(word) for word in ("agrees", "partly", "differs") if word in words}
