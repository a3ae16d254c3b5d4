"""The figures of a report, one function each: from numbers to a `Figure`, which is drawn later.

A figure fits a column of 340 pixels, so that it is read on a telephone without scaling. No text of a user is drawn: the
font may lack its letters, and the page can show and wrap it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.validation import Array
from .drawing import BLUE, ORANGE, SOFT
from .page import text
from .records import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas

SIZE = (3.7, 2.8)
SQUARE = (3.7, 3.3)
TALL = (3.7, 3.7)
POINTS = 400  # of a curve at most


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
        few = _evenly(rows)
        x, marker = np.take(rows, few), _marker(rows)
        axes.plot(x, np.take(means, few), color=BLUE, marker=marker, linewidth=2.0, zorder=3, label="mean so far")
        axes.plot(x, np.take(since, few), color=ORANGE, marker=marker, linewidth=1.0, label="since the last point")
        for (name, loss), style in zip(lines.items(), ("--", ":"), strict=False):
            axes.axhline(loss, color=SOFT, linestyle=style, linewidth=1.2, label=name)
        _log_rows(axes)
        _focus(axes, [*means, *lines.values()])
        axes.set(xlabel="rows", ylabel="loss")
        _legend(canvas)

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
        _whole_numbers(axes.xaxis)
        _legend(canvas)

    caption = (
        "Mean loss in each pass. From the second pass on, rows learned have been seen before: only held-out rows show "
        "how well the model predicts."
    )
    return Figure("passes", "Loss per pass", caption, draw, SIZE)


def nonzero_curve(rows: Sequence[float], nonzeros: Sequence[float], saved: int) -> Figure:
    """Return the non-zeros of the model against rows, over all passes; `saved` is the number in the saved model."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        few = _evenly(rows)
        axes.plot(np.take(rows, few), np.take(nonzeros, few), color=BLUE, marker=_marker(rows))
        _log_rows(axes)
        if not _log_if_wide(axes, nonzeros):
            _from_zero(axes, nonzeros)
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
        _log_ticks(axes.yaxis)
        axes.set(xlabel="epoch", ylabel="duality gap")
        _whole_numbers(axes.xaxis)

    caption = "Mean loss plus penalty is at most so far above its least value: a proof."
    return Figure("gap", "Duality gap", caption, draw, SIZE)


def roc_curve(x: Array, y: Array, auc: float) -> Figure:
    """Return the ROC curve."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        axes.plot([0, 1], [0, 1], color=SOFT, linestyle="--", linewidth=1.0)
        axes.fill_between(x, y, color=BLUE, alpha=0.12, linewidth=0)
        axes.plot(x, y, color=BLUE)
        _unit_square(axes)
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
        _unit_square(axes)
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
        below.yaxis.set_major_formatter(_short)
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
        _legend(canvas)

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
        low, high = _range(np.concatenate((labels, predictions)))
        axes.plot([low, high], [low, high], color=SOFT, linestyle="--", linewidth=1.0)
        axes.plot(predictions, labels, **_dots())
        axes.plot(*means.T, color=ORANGE, marker="o", label="mean of a tenth of the rows")
        axes.set(xlim=(low, high), ylim=(low, high), xlabel="predicted", ylabel="true")
        _legend(canvas)

    caption = f"{_sample(len(labels), rows)}, and the mean of each tenth of all rows, sorted by prediction."
    return Figure("predicted", "Predicted against true", caption, draw, SQUARE)


def residual_plot(labels: Array, predictions: Array, rows: int) -> Figure:
    """Return label minus prediction against the prediction, of a sample."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        axes.axhline(0.0, color=SOFT, linestyle="--", linewidth=1.0)
        axes.plot(predictions, labels - predictions, **_dots())
        axes.set(xlim=_range(predictions), ylim=_range(labels - predictions))
        axes.set(xlabel="predicted", ylabel="true minus predicted")

    return Figure("residuals", "Residuals", f"{_sample(len(labels), rows)}.", draw, SQUARE)


def residual_histogram(edges: Array, weights: Array) -> Figure:
    """Return the distribution of label minus prediction over all rows."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        axes.stairs(weights, edges, fill=True, color=BLUE, alpha=0.55, linewidth=0)
        axes.axvline(0.0, color=SOFT, linestyle="--", linewidth=1.0)
        axes.yaxis.set_major_formatter(_short)
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
    strengths : positive, in any order
    losses, errors : loss of each model and its standard error (NaN: not known)
    nonzeros : of each model
    chosen : index of the chosen strength
    """
    order = np.argsort(strengths)
    x, loss, error, count = (np.asarray(values, np.float64)[order] for values in (strengths, losses, errors, nonzeros))
    at = int(np.flatnonzero(order == chosen)[0])

    def draw(canvas: Canvas) -> None:
        above, below = canvas.subplots(2, 1, sharex=True, height_ratios=(1.5, 1))
        above.errorbar(x, loss, np.nan_to_num(error), color=BLUE, marker="o", capsize=2, elinewidth=1.0)
        below.plot(x, count, color=BLUE, marker="o")
        for axes, values in ((above, loss), (below, count)):
            axes.axvline(x[at], color=ORANGE, linestyle=":", linewidth=1.2)
            ring: dict[str, Any] = {"marker": "o", "markersize": 9.0, "markerfacecolor": "none", "linestyle": "none"}
            axes.plot(x[at], values[at], **ring, markeredgecolor=ORANGE, markeredgewidth=2.0, label="chosen")
        above.set(xscale="log", ylabel="loss")
        _log_ticks(below.xaxis)
        if not _log_if_wide(below, count):
            _from_zero(below, count)
        below.set(xlim=(x[0] / 1.6, x[-1] * 1.6), xlabel="strength of the penalty", ylabel="non-zeros")
        canvas.align_ylabels()
        _legend(canvas, above)

    with_error = " with its standard error" if np.isfinite(error).any() else ""
    caption = (
        f"Loss{with_error} and non-zero weights of {len(x)} strengths. Chosen: {text(float(x[at]))}, "
        f"with loss {text(float(loss[at]))} and {text(int(count[at]))} non-zeros."
    )
    return Figure("path", "Regularization path", caption, draw, TALL)


# ---- axes


def _legend(canvas: Canvas, axes: Axes | None = None) -> None:
    """Put a legend below the axes, where it covers no curve."""
    handles, labels = (axes or canvas.axes[0]).get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=2, columnspacing=1.2, borderaxespad=0.2)


def _log_rows(axes: Axes) -> None:
    axes.set_xscale("log")
    _log_ticks(axes.xaxis)


def _focus(axes: Axes, values: Sequence[float]) -> None:
    """Let the y axis show the range of these values, even if others are beyond it."""
    shown = [value for value in values if np.isfinite(value)]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    if low == high:
        return
    if _log_if_wide(axes, shown, ratio=5.0):
        margin = (high / low) ** 0.07
        axes.set_ylim(low / margin, high * margin)
    else:
        margin = 0.07 * (high - low)
        axes.set_ylim(low - margin, high + margin)


def _log_if_wide(axes: Axes, values: Sequence[float] | Array, ratio: float = 30.0) -> bool:
    """Make the y axis logarithmic if the values are positive, and the largest is `ratio` times the smallest."""
    there = np.asarray(values, np.float64)
    there = there[np.isfinite(there)]
    wide = len(there) > 0 and float(there.min()) > 0.0 and float(there.max() / there.min()) >= ratio
    if wide:
        axes.set_yscale("log")
        _log_ticks(axes.yaxis, few=float(there.max() / there.min()) < 1000.0)
    return wide


def _log_ticks(axis: Axis, *, few: bool = False) -> None:
    """Set plain ticks at powers of ten and, where these are few, also at 2 and 5 times these."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=8))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(_short)


def _whole_numbers(axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def _from_zero(axes: Axes, counts: Sequence[float] | Array) -> None:
    """Let the y axis begin at 0, for whole numbers."""
    axes.set_ylim(0, 1.08 * max(float(np.max(counts)), 1.0))
    _whole_numbers(axes.yaxis)
    axes.yaxis.set_major_formatter(_short)


def _marker(points: Sequence[float]) -> str | None:
    """Return the marker of a curve: a single point has no line to be seen by."""
    return "o" if len(points) == 1 else None


def _unit_square(axes: Axes) -> None:
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")


def _dots() -> dict[str, Any]:
    dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 2.6, "markeredgewidth": 0}
    return dots | {"color": BLUE, "alpha": 0.45}


def _range(values: Array) -> tuple[float, float]:
    """Return the range of all but a hundredth of the values, with a margin."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return -1.0, 1.0
    low, high = (float(limit) for limit in np.quantile(values, (0.005, 0.995)))
    margin = 0.06 * (high - low) or max(0.06 * abs(low), 1e-3)
    return low - margin, high + margin


def _evenly(rows: Sequence[float]) -> Array:
    """Return the places of at most `POINTS` of the rows, evenly spaced on a logarithmic axis, the last one included."""
    if len(rows) <= POINTS:
        return np.arange(len(rows))
    wanted = np.geomspace(max(rows[0], 1), rows[-1], POINTS)
    return np.unique(np.minimum(np.searchsorted(rows, wanted), len(rows) - 1))


def _short(value: float, place: float = 0.0) -> str:
    """Return a number as short as an axis needs it.

    >>> _short(0), _short(250), _short(20_000), _short(1_500_000), _short(3e9), _short(0.5)
    ('0', '250', '20k', '1.5M', '3G', '0.5')
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _sample(n: int, rows: int) -> str:
    return f"All rows ({text(rows)})" if n == rows else f"A sample of {text(n)} of {text(rows)} rows"


def _listed(lines: dict[str, float]) -> str:
    """Return names and losses as a sentence.

    >>> _listed({"best constant": 0.62, "held-out rows": 0.5})
    'Best constant: 0.62; held-out rows: 0.5'
    """
    listed = "; ".join(f"{name}: {text(loss)}" for name, loss in lines.items())
    return listed[:1].upper() + listed[1:]
