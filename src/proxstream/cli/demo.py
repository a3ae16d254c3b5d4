"""`proxstream demo`: runs the commands on a generated click stream, then compares five learners.

The commands run as typed, in a temporary folder; the report stays.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
from click import Option

from .command import command
from .options import Integer, Number

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from .demo_data import Clicks, Result

HELD_OUT = 1000
PASSES = 200
WIDTH = 100  # columns if not on a terminal; a narrower terminal wraps lines
SHOWN = 3  # predictions shown

REPORT = "report.html"

EPILOG = """\b
Examples:
  proxstream demo
  proxstream demo --rows 3000 --l1 0.003
"""


class NumberOrAuto(Number):
    """A number in a range, or the word auto."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of a word, or auto."""
        return value if value == "auto" else super().convert(value, param, ctx)


@command(
    EPILOG,
    options=[
        Option(["--rows"], type=Integer(1, 20_000), default=1000, metavar="N", help="Rows to learn from."),
        Option(
            ["--l1"],
            type=NumberOrAuto(0.0, 1000.0),
            default="auto",
            metavar="LAM|auto",
            help="Strength of the l1 penalty; auto: one of ten, learned in one pass.",
        ),
        Option(["--seed"], type=Integer(0), default=1, metavar="N", help="Random seed of the stream."),
    ],
)
def demo(rows: int, l1: float | str, seed: int) -> None:
    """Train, certify and predict on a generated click stream, and compare five learners on it.

    Needs no data and no network, and takes a few seconds (longer the first time, when kernels are compiled). Shows the
    commands from a file to predictions, then loss and sparsity of five learners, then their regret and its bound. With
    matplotlib it also writes an HTML report of the training.
    """
    from rich.console import Console

    from ..online import OnlineLearner, Regret
    from . import demo_data as stage

    console = Console(highlight=False)
    console.width = max(WIDTH, console.width) if console.is_terminal else WIDTH
    stream, held_out = stage.make(rows + HELD_OUT, seed).split(rows)

    console.print(
        f"A click stream: {rows:,} rows, {stage.FEATURES} features of which {len(stream.matter)} matter, "
        f"{stage.SLOTS} active per row; {float((stream.y > 0).mean()):.0%} are clicks.\n"
    )
    with _folder():
        stream.write("clicks.svm")
        held_out.split(SHOWN)[0].write("new.svm")
        report = f" --report {REPORT}" if find_spec("matplotlib") is not None else ""
        _show(console, f"train clicks.svm -o model.psm --l1 {l1 if l1 == 'auto' else f'{l1:g}'}{report}")
        strength = _strength(l1)
        for words in _commands(strength):
            _show(console, words)
        kept = _keep(REPORT) if report else None
    psi = stage.penalty(strength)
    console.print(
        f"[bold]Five learners[/bold] read the same rows once each, in plain NumPy, with logistic loss and "
        f"L1({strength:g})\n"
    )
    with console.status("finding the best fixed weights in hindsight"):
        best = stage.best_in_hindsight(stream, psi, PASSES)

    results: list[Result] = []
    for name, algorithm in reversed(stage.CONTEST.items()):
        ledger = Regret(OnlineLearner(algorithm, psi, dim=len(stream.w)))
        with console.status(f"playing {name}"):
            stage.play(ledger, stream)
        results.insert(0, stage.result(name, ledger, held_out, best))

    console.print("[bold]One pass each[/bold]: the same stream, the same penalty")
    console.print(_comparison(results, stream, held_out))
    console.print("\n[bold]Regret[/bold]: loss and penalty in excess of the best fixed weights in hindsight")
    console.print(_regrets(results))
    _explain(console)
    if kept is not None:
        console.print(f"\nThe report of the training, with figures: {kept}", soft_wrap=True)
    else:
        console.print("\nWith `pip install '.[report]'` there is a report of the training, with figures.", markup=False)


@contextmanager
def _folder() -> Iterator[None]:
    """Work in a temporary folder."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _strength(l1: float | str) -> float:
    """Return the strength of the model that was trained."""
    if not isinstance(l1, str):
        return l1
    from ..models.file import load_model

    return float(load_model("model.psm").summary["strength"])


def _commands(l1: float) -> list[str]:
    """Return the commands after training; a certificate needs a penalty."""
    proof = ["certify model.psm clicks.svm", f"train clicks.svm -o best.psm --algorithm certified --l1 {l1:g}"]
    return [*(proof if l1 > 0.0 else []), "predict model.psm new.svm --predict probabilities"]


def _keep(report: str) -> str:
    """Copy a report to a file that stays, and return its name."""
    number, path = tempfile.mkstemp(prefix="proxstream-demo-", suffix=".html")
    os.close(number)
    shutil.copyfile(report, path)
    return path


def _show(console: Console, words: str) -> None:
    """Run a command and print it with its output."""
    from . import main

    console.print(f"[bold]$ proxstream {words}[/bold]", highlight=False, soft_wrap=True)
    sys.stdout.flush()
    with redirect_stderr(sys.stdout):
        code = main(words.split())
    if code:
        raise click.exceptions.Exit(code)
    console.print()


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False, padding=(0, 1))
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    return table


def _comparison(results: list[Result], stream: Clicks, held_out: Clicks) -> Table:
    table = _table(
        "learner", "progressive\nlog loss", "held-out\nlog loss", "held-out\naccuracy", "non-\nzeros", "true\nfound"
    )
    for r in results:
        table.add_row(
            r.algorithm,
            f"{r.progressive:.4f}",
            f"{r.held_out:.4f}",
            f"{r.accuracy:.1%}",
            f"[bold]{r.nonzeros}[/bold]",
            str(r.true_found),
        )
    table.add_section()
    w, true = stream.w, str(len(stream.matter))
    table.add_row(
        "the true weights",
        f"{stream.loss(w):.4f}",
        f"{held_out.loss(w):.4f}",
        f"{held_out.accuracy(w):.1%}",
        true,
        true,
        style="dim",
    )
    return table


def _regrets(results: list[Result]) -> Table:
    table = _table("learner", "regret", "linearized", "bound", "theorem")
    table.columns[-1].justify = "left"
    for r in results:
        theorem = re.sub(r", equation (\d+)", r" (\1)", r.bound.theorem)
        table.add_row(r.name, f"{r.regret:.1f}", f"{r.linearized:.1f}", f"{r.bound.value:.1f}", theorem)
    return table


def _explain(console: Console) -> None:
    console.print(
        "\nFOBOS is MirrorDescent with L1. The best fixed weights are those that "
        f"{PASSES} exact gradients of accelerated RDA find. Regret is never above linearized regret, "
        "which is what the theorem bounds. Rates were tuned on other seeds: try --l1 and --seed."
    )
