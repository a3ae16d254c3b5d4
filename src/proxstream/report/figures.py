"""The figures of a report, one function each: from numbers to a `Figure`, which is drawn later.

A figure fits a column of 340 pixels, so that it is read on a telephone without scaling. No text of a user is drawn: the
font may lack its letters, and the page can show and wrap it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.validation import Array
from .axes import (
    dots,
    evenly,
    focus,
    from_zero,
    legend_below,
    log_if_wide,
    log_rows,
    log_ticks,
    marker_of,
    range_of,
    short,
    unit_square,
    whole_numbers,
)
from .drawing import BLUE, ORANGE, SOFT
from .page import text
from .records import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

SIZE = (3.7, 2.8)
SQUARE = (3.7, 3.3)
TALL = (3.7, 3.7)
RING: dict[str, Any] = {"marker": "o", "markersize": 9.0, "markerfacecolor": "none", "linestyle": "none"}
RING |= {"markeredgecolor": ORANGE, "markeredgewidth": 2.0, "clip_on": False}


def learning_curve(
    rows: Sequence[float], means: Sequence[float], since: Sequence[float], lines: dict[str, float]
) -> Figure:
    """Return the progressive loss against rows.

    Parameters
    ----------
    rows : rows learned, increasing
    means, since : mean loss since the start, and since the point before; NaN where there is none
    lines : losses by name to compare with, such as that of the best constant
    """

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        few = evenly(rows)
        x, marker = np.take(rows, few), marker_of(rows)
        axes.plot(x, np.take(means, few), color=BLUE, marker=marker, linewidth=2.0, zorder=3, label="mean so far")
        axes.plot(x, np.take(since, few), color=ORANGE, marker=marker, linewidth=1.0, label="since the last point")
        for (name, loss), style in zip(lines.items(), ("--", ":"), strict=False):
            axes.axhline(loss, color=SOFT, linestyle=style, linewidth=1.2, label=name)
        log_rows(axes)
        focus(axes, [*means, *since[-3:], *lines.values()])
        axes.set(xlabel="rows", ylabel="loss")
        legend_below(canvas)

    caption = "Loss of predictions made before each row was learned: the mean since the start, and since the last point"
    more = f". {_listed(lines)}." if lines else "."
    return Figure("learning-curve", "Progressive loss", caption + more, draw, SIZE)


def pass_curve(means: Sequence[float], held_out: Sequence[float], saved: int | None = None) -> Figure:
    """Return the loss of each pass, on the rows learned and on the rows held out (NaN where there are none).

    `saved` is the number of the pass, from 1, whose model was saved.
    """

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        numbers = np.arange(1, len(means) + 1)
        axes.plot(numbers, means, color=BLUE, marker="o", label="rows learned")
        if np.isfinite(held_out).any():
            axes.plot(numbers, held_out, color=ORANGE, marker="s", label="held-out rows")
        if saved is not None:
            axes.axvline(saved, color=SOFT, linestyle=":", linewidth=1.2, label="saved model")
        axes.set(xlabel="pass", ylabel="mean loss")
        whole_numbers(axes.xaxis)
        legend_below(canvas)

    caption = (
        "Mean loss in each pass. From the second pass on, rows learned have been seen before: only held-out rows show "
        "how well the model predicts."
    )
    return Figure("passes", "Loss per pass", caption, draw, SIZE)


def nonzero_curve(rows: Sequence[float], nonzeros: Sequence[float], saved: int) -> Figure:
    """Return the non-zeros of the model against rows, over all passes; `saved` is the number in the saved model."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        few = evenly(rows)
        axes.plot(np.take(rows, few), np.take(nonzeros, few), color=BLUE, marker=marker_of(rows))
        log_rows(axes)
        if not log_if_wide(axes, nonzeros):
            from_zero(axes, nonzeros)
        axes.set(xlabel="rows", ylabel="non-zero weights")

    return Figure(
        "non-zeros", "Non-zeros", f"Weights that are not exactly 0. The saved model has {text(saved)}.", draw, SIZE
    )


def gap_curve(epochs: Sequence[float], gaps: Sequence[float]) -> Figure:
    """Return the duality gap of a batch solver against its epochs."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        axes.plot(epochs, np.maximum(gaps, 1e-17), color=BLUE, marker="o")
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
        axes.set(xlabel="epoch", ylabel="duality gap")
        whole_numbers(axes.xaxis)

    caption = "Mean loss plus penalty is at most so far above its least value: a proof."
    return Figure("gap", "Duality gap", caption, draw, SIZE)


def roc_curve(x: Array, y: Array, auc: float) -> Figure:
    """Return the ROC curve."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        axes.plot([0, 1], [0, 1], color=SOFT, linestyle="--", linewidth=1.0)
        axes.fill_between(x, y, color=BLUE, alpha=0.12, linewidth=0)
        axes.plot(x, y, color=BLUE)
        unit_square(axes)
        axes.set(xlabel="false positive rate", ylabel="true positive rate")

    caption = f"The area under the curve is {text(auc)}. The dashed line is chance."
    return Figure("roc", "ROC", caption, draw, SQUARE)


def precision_recall_curve(recall: Array, precision: Array, average: float, share: float) -> Figure:
    """Return the precision-recall curve; `share` is that of the positive rows, `average` the mean precision."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        x, y = np.concatenate(([0.0], recall)), np.concatenate((precision[:1], precision))
        axes.axhline(share, color=SOFT, linestyle="--", linewidth=1.0)
        axes.fill_between(x, y, step="pre", color=BLUE, alpha=0.12, linewidth=0)
        axes.plot(x, y, color=BLUE, drawstyle="steps-pre")
        unit_square(axes)
        axes.set(xlabel="recall", ylabel="precision")

    caption = (
        f"Average precision {text(average)}. The dashed line is chance: the share of positive rows, {text(share)}."
    )
    return Figure("precision-recall", "Precision and recall", caption, draw, SQUARE)


def calibration_plot(groups: Sequence[tuple[float, float, float]], edges: Array, counts: Array) -> Figure:
    """Return the calibration plot above a histogram of the probabilities.

    Parameters
    ----------
    groups : weight, mean probability and share of positives of groups of rows
    edges, counts : histogram of all probabilities, over the range that is drawn
    """
    _, mean, share = np.array(groups, np.float64).T

    def draw(canvas: Canvas) -> None:
        top = float(edges[-1])
        above, below = canvas.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
        above.plot([0, top], [0, top], color=SOFT, linestyle="--", linewidth=1.0)
        above.plot(mean, share, color=BLUE, marker="o", clip_on=False, zorder=3)
        above.set(xlim=(0, top), ylim=(0, max(top, 1.04 * float(share.max()))), ylabel="share of positives")
        below.bar(edges[:-1], counts, np.diff(edges), align="edge", color=BLUE, alpha=0.55, linewidth=0)
        below.yaxis.set_major_formatter(short)
        below.yaxis.get_major_locator().set_params(nbins=2, min_n_ticks=2)
        below.set(xlabel="predicted probability", ylabel="rows")
        canvas.align_ylabels()

    caption = (
        "Share of positive rows against mean probability, in groups of rows of about "
        f"{text(float(np.mean([w for w, *_ in groups])))} in weight each; dashed, a perfectly calibrated model. Below, "
        "how often each probability is predicted; the last bar has also what is above it."
    )
    return Figure("calibration", "Calibration", caption, draw, TALL)


def score_histograms(edges: Array, negative: Array, positive: Array) -> Figure:
    """Return the scores of the rows of both classes, as shares of their class."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        series = ((negative, ORANGE, "--", "negative"), (positive, BLUE, "-", "positive"))
        for weights, colour, style, label in series:
            shares = weights / max(float(weights.sum()), 1e-300)
            axes.stairs(shares, edges, fill=True, color=colour, alpha=0.22, linewidth=0)
            axes.stairs(shares, edges, color=colour, linewidth=1.4, linestyle=style, label=label)
        axes.axvline(0.0, color=SOFT, linestyle=":", linewidth=1.0)
        axes.set(xlabel="score", ylabel="share of the class")
        legend_below(canvas)

    caption = "Scores above 0 predict the positive class. The outermost bars have also what is beyond them."
    return Figure("scores", "Scores of both classes", caption, draw, TALL)


def predicted_against_true(labels: Array, predictions: Array, means: Array, rows: int) -> Figure:
    """Return predictions against labels.

    Parameters
    ----------
    labels, predictions : of a sample
    means : array of shape (groups, 2), mean prediction and mean label of groups of all rows
    rows : number of rows, of which the sample is one
    """

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        low, high = range_of(np.concatenate((labels, predictions)))
        axes.plot([low, high], [low, high], color=SOFT, linestyle="--", linewidth=1.0)
        axes.plot(predictions, labels, **dots())
        axes.plot(*means.T, color=ORANGE, marker="o", label="mean of a tenth of the rows")
        axes.set(xlim=(low, high), ylim=(low, high), xlabel="predicted", ylabel="true")
        legend_below(canvas)

    caption = f"{_sample(len(labels), rows)}, and the mean of each tenth of all rows, sorted by prediction."
    return Figure("predicted", "Predicted against true", caption, draw, SQUARE)


def residual_plot(labels: Array, predictions: Array, rows: int) -> Figure:
    """Return label minus prediction against the prediction, of a sample."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        axes.axhline(0.0, color=SOFT, linestyle="--", linewidth=1.0)
        axes.plot(predictions, labels - predictions, **dots())
        axes.set(xlim=range_of(predictions), ylim=range_of(labels - predictions))
        axes.set(xlabel="predicted", ylabel="true minus predicted")

    return Figure("residuals", "Residuals", f"{_sample(len(labels), rows)}.", draw, SQUARE)


def residual_histogram(edges: Array, weights: Array) -> Figure:
    """Return the distribution of label minus prediction over all rows."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        axes.stairs(weights, edges, fill=True, color=BLUE, alpha=0.55, linewidth=0)
        axes.axvline(0.0, color=SOFT, linestyle="--", linewidth=1.0)
        axes.yaxis.set_major_formatter(short)
        axes.set(xlabel="true minus predicted", ylabel="rows")

    caption = "All rows, by their weights. The outermost bars have also what is beyond them."
    return Figure("residual-histogram", "Distribution of the residuals", caption, draw, SIZE)


def path_plot(
    strengths: Sequence[float],
    losses: Sequence[float],
    errors: Sequence[float],
    nonzeros: Sequence[float],
    chosen: int,
) -> Figure:
    """Return loss and non-zeros of models of several strengths of one penalty, with the one that was chosen.

    Parameters
    ----------
    strengths : >= 0, in any order; 0 is drawn one step to the left of the others
    losses, errors : loss of each model, and the standard error of its difference to the least loss (NaN: not known)
    nonzeros : of each model
    chosen : index of the chosen strength
    """
    order = np.argsort(strengths)
    true, loss, error, count = (
        np.asarray(values, np.float64)[order] for values in (strengths, losses, errors, nonzeros)
    )
    at, x = int(np.flatnonzero(order == chosen)[0]), _without_zero(true)

    def draw(canvas: Canvas) -> None:
        above, below = canvas.subplots(2, 1, sharex=True, height_ratios=(1.5, 1))
        above.errorbar(x, loss, np.nan_to_num(error), color=BLUE, marker="o", capsize=2, elinewidth=1.0)
        below.plot(x, count, color=BLUE, marker="o")
        for axes, values in ((above, loss), (below, count)):
            axes.axvline(x[at], color=ORANGE, linestyle=":", linewidth=1.2)
            axes.plot(x[at], values[at], **RING, label="chosen")
        above.set(xscale="log", ylabel="loss")
        log_ticks(below.xaxis)
        if not log_if_wide(below, count):
            from_zero(below, count)
        below.set(xlim=(x[0] / 1.6, x[-1] * 1.6), xlabel="strength of the penalty", ylabel="non-zeros")
        if true[0] == 0.0:
            _mark_zero(below, x[0])
        canvas.align_ylabels()
        legend_below(canvas, above)

    caption = (
        f"Loss and non-zero weights of {len(x)} strengths. Chosen: {text(float(true[at]))}, "
        f"with loss {text(float(loss[at]))} and {text(int(count[at]))} non-zeros."
    )
    if np.isfinite(error).any():
        caption += " Bars: one standard error of the difference to the least loss, over the same rows."
    return Figure("path", "Regularization path", caption, draw, TALL)


def _without_zero(strengths: Array) -> Array:
    """Return rising strengths for a logarithmic axis: 0 is one step below the next."""
    if strengths[0] > 0.0:
        return strengths
    if len(strengths) == 1:
        return np.ones(1)
    step = strengths[2] / strengths[1] if len(strengths) > 2 else 10.0
    return np.concatenate(([strengths[1] / step], strengths[1:]))


def _mark_zero(axes: Axes, place: float) -> None:
    """Write 0 at the place of strength 0, and no power of ten around it."""
    ticks = [tick for tick in axes.get_xticks() if tick > 2.0 * place]
    axes.set_xticks([place, *ticks], ["0", *(axes.xaxis.get_major_formatter()(tick) for tick in ticks)])


def _sample(n: int, rows: int) -> str:
    return f"All rows ({text(rows)})" if n == rows else f"A sample of {text(n)} of {text(rows)} rows"


def _listed(lines: dict[str, float]) -> str:
    """Return names and losses as a sentence.

    >>> _listed({"best constant": 0.62, "held-out rows": 0.5})
    'Best constant: 0.62; held-out rows: 0.5'
    """
    listed = "; ".join(f"{name}: {text(loss)}" for name, loss in lines.items())
    return listed[:1].upper() + listed[1:]
