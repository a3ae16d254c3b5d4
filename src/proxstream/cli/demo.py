"""`proxstream demo`: runs the commands on a generated click stream, then compares five learners.

The commands run as typed, in a temporary folder.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING

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

EPILOG = """\b
Examples:
  proxstream demo
  proxstream demo --rows 1000 --l1 0.01
"""


@command(
    EPILOG,
    options=[
        Option(["--rows"], type=Integer(1, 20_000), default=3000, metavar="N", help="Rows to learn from."),
        Option(["--l1"], type=Number(0.0, 1000.0), default=0.003, metavar="LAM", help="Strength of the l1 penalty."),
        Option(["--seed"], type=Integer(0), default=1, metavar="N", help="Random seed of the stream."),
    ],
)
def demo(rows: int, l1: float, seed: int) -> None:
    """Train, certify and predict on a generated click stream, and compare five learners on it.

    Needs no data and no network, and takes a few seconds (longer the first time, when kernels are compiled). Shows the
    commands from a file to predictions, then loss and sparsity of five learners, then their regret and its bound.
    """
    from rich.console import Console

    from ..online import OnlineLearner, Regret
    from . import demo_data as stage

    console = Console(highlight=False)
    console.width = max(WIDTH, console.width) if console.is_terminal else WIDTH
    stream, held_out = stage.make(rows + HELD_OUT, seed).split(rows)
    psi = stage.penalty(l1)

    console.print(
        f"A click stream: {rows:,} rows, {stage.FEATURES} features of which {len(stream.matter)} matter, "
        f"{stage.SLOTS} active per row; {float((stream.y > 0).mean()):.0%} are clicks.\n"
    )
    with _folder():
        stream.write("clicks.svm")
        held_out.split(SHOWN)[0].write("new.svm")
        for words in _commands(l1):
            _show(console, words)
    console.print(
        f"[bold]Five learners[/bold] read the same rows once each, in plain NumPy, with logistic loss and L1({l1:g})\n"
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


def _commands(l1: float) -> list[str]:
    """Return the commands; without a penalty there is no certificate."""
    proof = ["certify model.psm clicks.svm", f"train clicks.svm -o best.psm --algorithm certified --l1 {l1:g}"]
    return [
        f"train clicks.svm -o model.psm --algorithm ftrl_proximal --alpha 0.5 --l1 {l1:g}",
        *(proof if l1 > 0.0 else []),
        "predict model.psm new.svm --predict probabilities",
    ]


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
        "which is what the theorem bounds. Rates were tuned on other seeds, the penalty by hand: try --l1 and --seed."
    )
