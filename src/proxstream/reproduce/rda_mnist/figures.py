"""Figures 2 to 8 of section 6, drawn from our own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.validation import Array
from ...report.drawing import legend
from ..experiment import Figure
from ..looks import look
from .findings import Findings
from .passes import BASIC, ENHANCED, LAST, MEAN, RDA_ENHANCED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

OPTIMUM = "batch optimum"
_LOOKS = {
    "SGD": "SGD",
    "TG, K=1": "TG",
    "TG, K=10": "TG",
    "RDA, ρ=0": "RDA",
    "RDA, γρ=25": "RDA enhanced",
    OPTIMUM: "optimum",
}


def style(method: str, **more: Any) -> dict[str, Any]:
    """Return the house style of a method of section 6."""
    return look(_LOOKS[method], **{"markersize": 4, "linewidth": 1.2, **more})


def figures(found: Findings) -> list[Figure]:
    """Return all figures."""
    plan = found.plan
    easy, hard = "{} and {}".format(*plan.easy), "{} and {}".format(*plan.hard)
    columns, rows = len(plan.strengths), 2 * len(ENHANCED) + 1
    gamma_columns = len(plan.gammas) + 1
    return [
        Figure(
            "figure-2",
            f"Which weights are not zero: {easy} (Figure 2)",
            "Above, the last weights of one pass; in the middle, the batch optimum; below, the means of the weights "
            "over the pass. Grey is zero, bright is positive, dark is negative, on one scale for all.",
            partial(_draw_patterns, found),
            (1.0 + 0.9 * columns, 0.4 + 0.9 * rows),
        ),
        Figure(
            "figure-3",
            f"Non-zeros of the weights, round by round: {easy} (Figure 3)",
            "Left the basic methods, right the enhanced ones, SGD in both. The vertical axis is the same in a row.",
            partial(_draw_traces, found),
            (7.5, 5.0),
        ),
        Figure(
            "figure-4",
            f"Error and non-zeros against λ: {easy} (Figure 4)",
            f"Means over {plan.orders} orders of the rows, bars of one standard deviation. Only the first row's "
            "vertical axis is logarithmic. At the largest λ SGD's step αλ is longer than the rounding of 0.00001, so "
            "that weights which hop over zero are counted.",
            partial(_draw_tradeoffs, plan.strengths, found.tradeoffs, _optimum_lines(found)),
            (7.5, 9.0),
        ),
        Figure(
            "figure-5",
            f"Error and non-zeros of enhanced RDA against γ: {easy} (Figure 5)",
            f"γρ = 25 throughout; means over {plan.gamma_orders} orders with bars of one standard deviation. The line "
            "without bars is the batch optimum.",
            partial(_draw_gammas, found),
            (7.5, 6.5),
        ),
        Figure(
            "figure-6",
            f"Which of the last weights are not zero, against γ: {easy} (Figure 6)",
            "The first column is the batch optimum. The smaller γ, the fewer and the more scattered the weights.",
            partial(_draw_gamma_patterns, found),
            (0.7 + 0.75 * gamma_columns, 0.4 + 0.8 * len(plan.gamma_strengths)),
        ),
        Figure(
            "figure-7",
            "All pairs of digits (Figure 7)",
            f"Lower left: the last weights of enhanced RDA at λ = {plan.shown:g}. Upper right: test error in percent "
            "(left scale, circles) and non-zeros (right scale, squares) against λ; filled is the batch optimum, hollow "
            f"is one pass of enhanced RDA, mean and deviation over {plan.pair_orders} orders.",
            partial(_draw_pairs, found),
            (1.05 * plan.digits + 0.5, 1.0 * plan.digits + 0.5),
        ),
        Figure(
            "figure-8",
            f"Overfitting on one part in {plan.parts} of the rows: {hard} (Figure 8)",
            f"Means over {plan.parts} random parts of the training rows, {plan.part_orders} orders each; bars are one "
            "standard deviation over the parts. Tested on all test rows.",
            partial(_draw_tradeoffs, plan.strengths, _over_parts(found), _part_lines(found)),
            (7.5, 9.0),
        ),
    ]


# -- patterns: Figures 2 and 6 -----------------------------------------------------------------------------------


def _draw_patterns(found: Findings, canvas: Canvas) -> None:
    rows: list[tuple[str, Callable[[float], Array]]] = []
    for place, which in ((0, "last"), (1, "mean")):
        for method in ENHANCED:
            rows.append((f"{method}\n{which}", partial(_pattern, found, method, place)))
    rows.insert(len(ENHANCED), ("batch\noptimum", lambda lam: found.optima[lam].weights.coef))
    panels = [[show(lam) for lam in found.plan.strengths] for _, show in rows]
    heads = [f"λ = {lam:g}" for lam in found.plan.strengths]
    _draw_images(canvas, panels, [name for name, _ in rows], heads, found.side)


def _pattern(found: Findings, method: str, place: int, strength: float) -> Array:
    return found.patterns[method, strength][place].coef


def _draw_gamma_patterns(found: Findings, canvas: Canvas) -> None:
    strengths, gammas = found.plan.gamma_strengths, found.plan.gammas
    panels = [
        [found.optima[lam].weights.coef, *(found.gamma_patterns[gamma, lam].coef for gamma in gammas)]
        for lam in strengths
    ]
    heads = ["optimum", *(f"γ = {gamma:g}" for gamma in gammas)]
    _draw_images(canvas, panels, [f"λ = {lam:g}" for lam in strengths], heads, found.side)


def _draw_images(
    canvas: Canvas, panels: Sequence[Sequence[Array]], names: Sequence[str], heads: Sequence[str], side: int
) -> None:
    axes = canvas.subplots(len(panels), len(heads), squeeze=False)
    scale = _scale(coef for row in panels for coef in row)
    for i, row in enumerate(panels):
        for j, coef in enumerate(row):
            _image(axes[i, j], coef, side, scale)
        axes[i, 0].set_ylabel(names[i], rotation=0, ha="right", va="center", fontsize=7)
    for j, head in enumerate(heads):
        axes[0, j].set_title(head, fontsize=7)


def _scale(patterns: Iterable[Array]) -> float:
    """Return what is drawn as black and white: most weights are within, and the few beyond hide no others."""
    together = np.concatenate(list(patterns))
    return float(np.quantile(np.abs(together[together != 0.0]), 0.9))


def _image(axes: Axes, coef: Array, side: int, scale: float) -> None:
    axes.imshow(coef.reshape(side, side), cmap="gray", vmin=-scale, vmax=scale, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)


# -- curves ------------------------------------------------------------------------------------------------------


def _draw_traces(found: Findings, canvas: Canvas) -> None:
    strengths = found.plan.trace_strengths
    axes = canvas.subplots(len(strengths), 2, squeeze=False, sharex=True, sharey="row")
    for i, lam in enumerate(strengths):
        for j, methods in enumerate((BASIC, ENHANCED)):
            for method in methods:
                counts = found.traces[method, lam]
                every = max(len(counts) // 1500, 1)  # no more points than the figure has pixels
                rounds = np.arange(1, len(counts) + 1)[::every]
                axes[i, j].plot(
                    rounds, counts[::every], label=method, **style(method, marker="", linewidth=0.7), rasterized=True
                )
            axes[i, j].set_title(f"λ = {lam:g}")
        axes[i, 0].set_ylabel("non-zeros")
    for j in (0, 1):
        axes[-1, j].set_xlabel("round t")
    legend(canvas, 5)


def _draw_tradeoffs(
    strengths: Sequence[float],
    outcomes: dict[tuple[str, float], Array],
    optimum: dict[str, tuple[Array, Array | None]],
    canvas: Canvas,
) -> None:
    axes = canvas.subplots(4, 2, squeeze=False, sharex=True, sharey="row")
    for half, (columns, which) in enumerate(((LAST, "last"), (MEAN, "mean"))):
        for quantity, (column, name) in enumerate(zip(columns, ("error", "nnz"), strict=True)):
            row = 2 * half + quantity
            for j, methods in enumerate((BASIC, ENHANCED)):
                panel = axes[row, j]
                for method in methods:
                    runs = [outcomes[method, lam][:, column] for lam in strengths]
                    means, deviations = np.mean(runs, axis=1), np.std(runs, axis=1)
                    _errorbar(panel, strengths, means, deviations, label=method, **style(method))
                means, deviations_or_none = optimum[name]
                _errorbar(panel, strengths, means, deviations_or_none, label=OPTIMUM, **style(OPTIMUM))
                panel.set_xscale("log")
            axes[row, 0].set_ylabel(f"{'error %' if name == 'error' else 'non-zeros'}, {which} w")
    axes[0, 0].set_yscale("log")
    for j in (0, 1):
        axes[-1, j].set_xlabel("λ")
    legend(canvas, 6)


def _errorbar(axes: Axes, x: Sequence[float], means: Array, deviations: Array | None, **drawn: Any) -> None:
    if deviations is None:
        axes.plot(x, means, **drawn)
    else:
        axes.errorbar(x, means, yerr=deviations, capsize=2, elinewidth=0.7, **drawn)


def _optimum_lines(found: Findings) -> dict[str, tuple[Array, Array | None]]:
    optima = [found.optima[lam] for lam in found.plan.strengths]
    return {"error": (np.array([o.error for o in optima]), None), "nnz": (np.array([o.nnz for o in optima]), None)}


def _over_parts(found: Findings) -> dict[tuple[str, float], Array]:
    """Return outcomes averaged over the orders of each part: deviations are then those over parts."""
    return {key: outcomes.mean(axis=1) for key, outcomes in found.part_outcomes.items()}


def _part_lines(found: Findings) -> dict[str, tuple[Array, Array | None]]:
    optima = [found.part_optima[lam] for lam in found.plan.strengths]
    errors, counts = ([[getattr(o, name) for o in parts] for parts in optima] for name in ("error", "nnz"))
    return {
        "error": (np.mean(errors, axis=1), np.std(errors, axis=1)),
        "nnz": (np.mean(counts, axis=1), np.std(counts, axis=1)),
    }


def _draw_gammas(found: Findings, canvas: Canvas) -> None:
    plan = found.plan
    axes = canvas.subplots(len(plan.gamma_strengths), 2, squeeze=False, sharex=True)
    for i, lam in enumerate(plan.gamma_strengths):
        optimum = found.optima[lam]
        for j, level in enumerate((optimum.error, optimum.nnz)):
            panel = axes[i, j]
            for columns, which, line in ((LAST, "last w", "-"), (MEAN, "mean w", "--")):
                runs = [found.gamma_outcomes[gamma, lam][:, columns[j]] for gamma in plan.gammas]
                fill = "none" if which == "mean w" else None
                drawn = style(RDA_ENHANCED, linestyle=line, markerfacecolor=fill)
                _errorbar(panel, plan.gammas, np.mean(runs, axis=1), np.std(runs, axis=1), label=which, **drawn)
            panel.axhline(level, label=OPTIMUM, **style(OPTIMUM, marker=""))
            panel.set_ylabel("error %" if j == 0 else "non-zeros")
            panel.set_title(f"λ = {lam:g}")
            panel.set_ylim(bottom=0)
    for j in (0, 1):
        axes[-1, j].set_xlabel("γ")
    legend(canvas)


def _draw_pairs(found: Findings, canvas: Canvas) -> None:
    plan = found.plan
    axes = canvas.subplots(plan.digits, plan.digits, squeeze=False)
    for panel in axes.ravel():
        panel.axis("off")
    for digit in range(plan.digits):
        axes[digit, digit].text(0.5, 0.5, str(digit), ha="center", va="center", fontsize=18)
    most = max(
        max(finding.optima[lam].nnz, finding.outcomes[lam][:, LAST[1]].max())
        for finding in found.pairs.values()
        for lam in plan.pair_strengths
    )
    scale = _scale(finding.pattern for finding in found.pairs.values())
    for (a, b), finding in found.pairs.items():
        image = axes[b, a]
        image.axis("on")
        _image(image, finding.pattern, found.side, scale)
        panel = axes[a, b]
        panel.axis("on")
        _draw_pair(panel, list(plan.pair_strengths), finding, 1.05 * most, last=b == plan.digits - 1)


def _draw_pair(panel: Axes, strengths: list[float], finding: Any, top: float, *, last: bool) -> None:
    optima = [finding.optima[lam] for lam in strengths]
    runs = [finding.outcomes[lam] for lam in strengths]
    counts = panel.twinx()
    for axes, column, best, method, marker in (
        (panel, LAST[0], [o.error for o in optima], RDA_ENHANCED, "o"),
        (counts, LAST[1], [o.nnz for o in optima], "SGD", "s"),
    ):
        colour = style(method)["color"] if marker == "o" else "#0072B2"
        shared: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 2.5, "linewidth": 0.6}
        axes.plot(strengths, best, **shared)
        means, deviations = np.mean(runs, axis=1)[:, column], np.std(runs, axis=1)[:, column]
        axes.errorbar(strengths, means, yerr=deviations, elinewidth=0.6, markerfacecolor="white", **shared)
    panel.set_xscale("log")
    panel.set_ylim(bottom=0)
    counts.set_ylim(0, top)
    for axes in (panel, counts):
        axes.grid(False)
        axes.tick_params(labelsize=5, length=1.5, pad=1)
    panel.set_xticks([])
    panel.minorticks_off()
    if not last:
        counts.set_yticklabels([])
