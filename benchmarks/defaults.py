"""Where the defaults of the algorithms come from: one pass over each kind of stream, for each value on a grid.

    python -m benchmarks defaults [--rows N] [--data FOLDER]

With a folder of real sets (or PROXSTREAM_DATA), what is measured is what a run leaves behind: see `kept`.
The streams are those of `benchmarks.quality`. On each, a value's loss is divided by the least that any value of the
grid has there, and the geometric mean of these quotients over some streams shows how far from tuned a value is.
A rate has a unit, that of the features: no default serves raw pixels or columns in units from 1e-3 to 1e4, for which
AutoFTRL is there. So a default is chosen on the streams whose values are of the order of one, the others are shown; and
it stays what it is while no other value is 2% better.

What the margin algorithms learn with the hinge loss are no probabilities: for them it is the share of rows with the
wrong sign that counts.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import proxstream as ps
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.learner import Learner

from . import kept
from .harness import save
from .kept_sets import CHOSEN_ON, JUDGED_ON, load
from .quality import STREAMS, abrupt, clicks, log_loss, text_counts, text_unit_rows

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
GRIDS: dict[str, tuple[Any, str, dict[str, str], tuple[float, ...]]] = {
    "RDA": (ps.RDA, "gamma", {}, (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)),
    "AdaGrad": (ps.AdaGrad, "eta", {}, RATES),
    "AdaGrad, mirror": (ps.AdaGrad, "eta", {"update": "mirror"}, RATES),
    "FTRLProximal": (ps.FTRLProximal, "alpha", {}, RATES),
    "MirrorDescent": (ps.MirrorDescent, "eta", {}, RATES),
    "TruncatedGradient": (ps.TruncatedGradient, "eta", {}, RATES),
    "SGD": (ps.SGD, "eta", {}, RATES),
    "PassiveAggressive": (ps.PassiveAggressive, "C", {}, (0.001, 0.003, 0.01, 0.03, 0.1, 1.0, 10.0)),
    "AROW": (ps.AROW, "r", {}, (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)),
}
SCALED = (text_unit_rows, text_counts, clicks, abrupt)  # streams of values of the order of one
MARGIN = (ps.PassiveAggressive, ps.AROW)


def one_pass(algorithm: Any, rows: RowBlock, n_features: int) -> float:
    """Return the progressive log loss, or the share of mistakes; infinite if the weights have left all bounds."""
    margin = isinstance(algorithm, MARGIN)
    learner = Learner(algorithm, "hinge" if margin else "logistic", n_features=n_features, dtype=np.float32)
    try:
        scores = learner.learn(rows)
    except FloatingPointError:
        return np.inf
    return float(np.mean(rows.y * scores <= 0.0)) if margin else log_loss(scores, rows.y)


def above_tuned(losses: dict[float, list[float]], where: list[bool]) -> dict[float, float]:
    """Return the geometric mean of each value's loss over the least loss of any, on some of the streams."""
    all_losses = {value: np.array(found)[where] for value, found in losses.items()}
    least = np.min(list(all_losses.values()), axis=0)
    return {value: float(np.exp(np.mean(np.log(found / least)))) for value, found in all_losses.items()}


def compare_kept(folder: Path, rows: int, names: Sequence[str]) -> None:
    """Print and keep what everyone's models have on held-out rows of real sets."""
    found: dict[str, Any] = {}
    for one in load(folder, rows, names):
        found[one.name] = kept.measure(one)
        figures = {"rows": rows, "chosen_on": CHOSEN_ON, "judged_on": JUDGED_ON, "sets": found}
        save("kept", kept.tables(found), figures, show=kept.tables({one.name: found[one.name]}))


def main(arguments: list[str]) -> None:
    """Print and keep the tables; * marks a default that another value beats by 2%."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks defaults", description="Defaults of the algorithms.")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of a stream")
    parser.add_argument("--data", default=os.environ.get("PROXSTREAM_DATA"), help="folder of real sets: see kept_sets")
    parser.add_argument("--sets", nargs="*", default=(), help="some of them, by name")
    options = parser.parse_args(arguments)
    if options.data:
        compare_kept(Path(options.data), options.rows, options.sets)
        return
    streams = [make(options.rows) for make in STREAMS]
    blocks = [(as_block(stream.X, stream.y, dtype=np.float32), stream.X.shape[1]) for stream in streams]
    scaled = [make in SCALED for make in STREAMS]
    grids = Table("", "above tuned", "default", "best", title="Loss over that of the best value", title_justify="left")
    passes = Table("", *(stream.name for stream in streams), title="Losses at defaults", title_justify="left")
    passes.add_row("AutoFTRL", *(f"{one_pass(ps.AutoFTRL(), *block):.4g}" for block in blocks))
    found: dict[str, Any] = {}
    for name, (make, parameter, more, values) in GRIDS.items():
        losses = {value: [one_pass(make(value, **more), *block) for block in blocks] for value in values}
        above = above_tuned(losses, scaled)
        default, best = getattr(make(), parameter), min(above, key=above.__getitem__)
        found[name] = {"parameter": parameter, "default": default, "best": best, "above": above, "losses": losses}
        row = "  ".join(f"{value:g}: {mean:.3f}" for value, mean in above.items())
        better = above[default] > 1.02 * above[best]
        grids.add_row(f"{name}({parameter})", row, f"{default:g}{' *' * better}", f"{best:g}")
        passes.add_row(f"{name} {default:g}", *(f"{loss:.4g}" for loss in losses[default]))
    save("defaults", [grids, passes], {"streams": [stream.name for stream in streams], "algorithms": found})
