"""`proxstream reproduce`: runs the experiments of the papers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click import Option, UsageError

from .command import Argument, command
from .errors import error_line
from .options import Integer

if TYPE_CHECKING:
    from rich.console import Console

    from ..reproduce import Experiment, Run, Table
    from ..reproduce.outcome import Outcome

EPILOG = """\b
Examples:
  proxstream reproduce --list
  proxstream reproduce ftrl-oscillation
  proxstream reproduce sdca-rates --quick -o pages
"""
ALL = "all"
FOLDER = click.Path(path_type=Path, readable=False)  # that it exists is checked when it is used
WIDTH = 120  # columns if not on a terminal
MARKS = {"agrees": "[bold green]agrees[/]", "partly": "[bold yellow]partly[/]", "differs": "[bold red]differs[/]"}


@command(
    EPILOG,
    [Argument("name", "An experiment of --list, or all.", metavar="[NAME]", required=False)],
    [
        Option(["--list", "list_"], is_flag=True, help="List the experiments and the data they need."),
        Option(["--data"], type=FOLDER, metavar="DIR", help="Folder of the data, or of one folder per data set."),
        Option(
            ["--output", "-o"],
            type=FOLDER,
            default=Path("reproductions"),
            metavar="DIR",
            help="Folder for pages and figures.",
        ),
        Option(["--quick"], is_flag=True, help="A small version on embedded or generated data."),
        Option(["--seed"], type=Integer(0), default=0, metavar="N", help="Random seed."),
        Option(["--jobs"], type=Integer(1), default=2, metavar="N", help="Number of processes."),
    ],
)
def reproduce(
    name: str | None, list_: bool, data: Path | None, output: Path, quick: bool, seed: int, jobs: int
) -> None:
    """Run an experiment of the papers and compare its results with the published ones.

    Prints tables and verdicts. DIR gets, for each experiment, a self-contained HTML page, figures as PNG and SVG and
    numbers as JSON, and an index of all experiments in DIR. The same seed gives the same numbers.
    """
    from ..reproduce import EXPERIMENTS, Run, experiment

    if list_:
        _list([experiment(one) for one in EXPERIMENTS])
        return
    if name is None:
        raise UsageError("missing argument NAME: an experiment (see --list) or 'all'")
    if name != ALL and name not in EXPERIMENTS:
        raise UsageError(f"unknown experiment {name!r}; see --list")
    chosen = [experiment(one) for one in EXPERIMENTS if name in (ALL, one)]
    for one in chosen:
        if one.data is not None and data is None and not quick:
            raise UsageError(f"{one.name} needs --data DIR ({one.data}), or --quick, which needs no data")
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"{data}: no such folder")
    _need_matplotlib()
    output.mkdir(parents=True, exist_ok=True)
    _perform(chosen, Run(data=data, quick=quick, seed=seed, jobs=jobs), output)


def _perform(chosen: list[Experiment], run: Run, out: Path) -> None:
    """Run the experiments; if there are several, a failure is reported and the others still run."""
    from ..reproduce.outcome import perform

    console, failed = _console(), 0
    for one in chosen:
        console.print(f"[bold]{one.title}[/]\n{one.paper}\n", soft_wrap=True)
        try:
            outcome = perform(one, run, out)
        except (ValueError, OSError, FloatingPointError) as error:
            if len(chosen) == 1:
                raise
            failed += 1
            print(f"{one.name}: {error_line(error)}", file=sys.stderr)
            continue
        _show(console, outcome)
        console.print(f"{outcome.seconds:,.1f} s; {out / one.name}.html\n", soft_wrap=True)
    if len(chosen) > 1:
        console.print(f"the index is {out / 'index.html'}", soft_wrap=True)
    if failed:
        raise click.exceptions.Exit(1)


def _need_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise OSError("figures need the package matplotlib: pip install 'proxstream[reproduce]'")


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console


def _list(experiments: list[Experiment]) -> None:
    from rich.table import Table as Shown

    table = Shown(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("name", "paper", "what", "data"):
        table.add_column(column, no_wrap=column == "name")
    for one in experiments:
        table.add_row(one.name, one.paper, one.title, one.data or "generated")
    _console().print(table)


def _show(console: Console, outcome: Outcome) -> None:
    from rich.markup import escape

    from ..reproduce.outcome import verdict

    for table in outcome.tables:
        _show_table(console, table)
    for claim in outcome.claims:
        console.print(f"{MARKS[verdict(claim)]}  {escape(claim.claim)}\n         {escape(claim.ours)}", soft_wrap=True)
        if claim.why:
            console.print(f"         why: {escape(claim.why)}", soft_wrap=True)
    console.print()


def _show_table(console: Console, table: Table) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table as Shown

    from ..report.page import text

    shown = Shown(title=escape(table.title), title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(table.columns):
        words = any(isinstance(row[i], str) for row in table.rows)
        shown.add_column(escape(column), justify="left" if words else "right")
    for row in table.rows:
        shown.add_row(*(escape(text(cell)) for cell in row))
    console.print(shown)
    if table.note:
        console.print(f"{escape(table.note)}\n", style="dim", soft_wrap=True)
