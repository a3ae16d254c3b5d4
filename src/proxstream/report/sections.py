"""The parts of a report as HTML: how the model learned, how it predicts, its weights, and how it was made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.losses import logistic
from ..core.validation import Array
from ..data.measures import SCORE_BITS, middles
from . import curves, figures
from .collect import Confusion, NumberPairs
from .drawing import themed
from .page import facts, image, page, table, text, verbatim, words
from .records import Figure, Table

MANY = 30  # classes above which the confusion matrix is left out

STYLE = """
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(12rem, 46%), 1fr)); gap: .7rem;
  margin: 1.4rem 0 0; }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .55rem .8rem; }
.tiles dt { color: var(--soft); font-size: .82rem; }
.tiles dd { margin: 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.35; }
.figures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr));
  margin: 1rem 0 1.5rem; }
.figures figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .7rem .75rem .8rem; }
.figures figure img { background: none; border: 0; padding: 0; border-radius: 0; }
.weights td { vertical-align: middle; }
.weights td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; }
.weights .bar { width: 34%; min-width: 4.5rem; }
.bar span { display: block; height: .62rem; border-radius: .15rem; min-width: 1px; }
.bar .plus { background: var(--blue); } .bar .minus { background: var(--orange); }
.scroll + .table { margin-top: 1.75rem; }
.confusion td { text-align: right; white-space: nowrap; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 34rem) { main { padding-left: 1rem; padding-right: 1rem; } th, td { padding: .38rem .6rem; }
  .weights .bar { min-width: 2.5rem; } }
"""


def report(title: str, lead: str, headline: Mapping[str, str], sections: Mapping[str, str]) -> str:
    """Return the page of a report.

    Parameters
    ----------
    title, lead : plain text, the lead below the title
    headline : the most important numbers, as plain text by name
    sections : HTML by heading; an empty one is left out
    """
    parts = [
        '<p class="kicker">proxstream</p>',
        f"<h1>{verbatim(title)}</h1>",
        f"<p>{verbatim(lead)}</p>",
        tiles(headline),
    ]
    for heading, content in sections.items():
        if content:
            parts += [f"<h2>{words(heading)}</h2>", content]
    return page(title, parts, STYLE)


def tiles(named: Mapping[str, str]) -> str:
    """Return numbers in boxes."""
    boxes = (f"<div><dt>{words(name)}</dt><dd>{verbatim(value)}</dd></div>" for name, value in named.items())
    return f'<dl class="tiles">{"".join(boxes)}</dl>'


def grid(shown: Sequence[Figure]) -> str:
    """Return figures, as many beside each other as fit."""
    if not shown:
        return ""
    return f'<div class="figures">{"".join(image(figure, "svg+xml", themed(figure)) for figure in shown)}</div>'


# ---- learning


def learning(history: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> str:
    """Return how a model learned, from the history and the summary that a model file has; empty where it has none.

    An entry of the history is a line of the table, which has non-zeros, a pass, or an epoch of a batch solver.
    """
    epochs = [entry for entry in history if _has(entry, "epoch", "gap")]
    if epochs:
        return grid([figures.gap_curve(_column(epochs, "epoch"), _column(epochs, "gap"))])
    lines = [entry for entry in history if _has(entry, "pass", "rows", "nonzeros")]
    passes = [entry for entry in history if _has(entry, "pass", "rows") and "nonzeros" not in entry]
    if not passes:
        return ""
    shown = [_progressive_loss(lines, passes, summary)]
    if len(passes) > 1:
        held_out, best = _column(passes, "held_out_loss"), summary.get("held_out_loss")
        saved = held_out.index(best) + 1 if best in held_out and best != held_out[-1] else None
        shown.append(figures.pass_curve(_column(passes, "mean_loss"), held_out, saved))
    if lines:
        before = np.cumsum([0.0, *_column(passes, "rows")])
        rows = [float(before[min(int(entry["pass"]), len(passes)) - 1]) + entry["rows"] for entry in lines]
        nonzeros = _column(lines, "nonzeros")
        shown.append(figures.nonzero_curve(rows, nonzeros, int(summary.get("nonzeros", nonzeros[-1]))))
    return grid(shown)


def _progressive_loss(
    lines: Sequence[Mapping[str, Any]], passes: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]
) -> Figure:
    first = [entry for entry in lines if entry["pass"] == 1]
    if not first or passes[0]["rows"] > first[-1]["rows"]:
        first.append(passes[0])
    compared = {"best constant": "best_constant_loss"}
    if len(passes) == 1:
        compared["held-out rows"] = "held_out_loss"
    losses = {name: float(summary[key]) for name, key in compared.items() if _has(summary, key)}
    rows, means, since = (_column(first, name) for name in ("rows", "mean_loss", "since_last"))
    return figures.learning_curve(rows, means, since, losses)


def _has(entry: Mapping[str, Any], *names: str) -> bool:
    """Return whether an entry has finite numbers by these names; a model file may have anything."""
    found = (entry.get(name) for name in names)
    return all(isinstance(value, (int, float)) and math.isfinite(value) for value in found)


def _column(entries: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return the numbers of this name, NaN where there are none."""
    return [float(entry[name]) if _has(entry, name) else math.nan for entry in entries]


PATH_COLUMNS = {
    "strength": "strength",
    "progressive_loss": "progressive loss",
    "held_out_loss": "held-out loss",
    "auc": "AUC",
    "difference_error": "error of difference",
    "nonzeros": "non-zeros",
}


def path(entries: Sequence[Mapping[str, Any]], chosen: float) -> str:
    """Return the models of several strengths, of which one was chosen.

    An entry has a strength, the progressive loss, the number of non-zeros and, if there were held-out rows, their loss;
    and, if it is known, the standard error of its loss less the least one.
    """
    loss = "held_out_loss" if all(_has(entry, "held_out_loss") for entry in entries) else "progressive_loss"
    drawn = [entry for entry in entries if _has(entry, "strength", loss, "nonzeros")]
    at = [entry["strength"] for entry in drawn].index(chosen) if any(e["strength"] == chosen for e in drawn) else None
    shown = ""
    if at is not None:
        strengths, losses, nonzeros = (_column(drawn, name) for name in ("strength", loss, "nonzeros"))
        errors = [entry.get("difference_error", math.nan) for entry in drawn]
        shown = grid([figures.path_plot(strengths, losses, errors, nonzeros, at)])
    names = [name for name in PATH_COLUMNS if any(name in entry for entry in entries)]
    rows = [[*(entry.get(name) for name in names), "chosen" * (entry["strength"] == chosen)] for entry in entries]
    return shown + measures("All strengths, learned in one pass", [*(PATH_COLUMNS[name] for name in names), ""], rows)


# ---- predictions


def two_classes(
    counts: Array, classes: Sequence[Any], auc: float, *, likely: bool, probabilities: Array | None = None
) -> str:
    """Return how a model of two classes predicts.

    Parameters
    ----------
    counts : weights of the negative and of the positive rows by bin of their score
    classes : names of the negative and of the positive class
    auc : area below the ROC curve
    likely : bool
        Whether the loss gives probabilities.
    probabilities : sums of weight times probability by bin, if they are known
    """
    shown, lead = [], ""
    if len(classes) == 2:
        negative, positive = (verbatim(_class_text(label)) for label in classes)
        lead = f"<p>The positive class is <b>{positive}</b>, the negative one <b>{negative}</b>.</p>"
    weights = counts.sum(axis=0)
    curve, trade = curves.roc(counts), curves.precision_recall(counts)
    if curve is not None and trade is not None:
        share = float(weights[1] / weights.sum())
        average = curves.average_precision(trade)
        shown += [figures.roc_curve(*curves.thin(curve), auc)]
        shown += [figures.precision_recall_curve(*curves.thin(trade), average, share)]
    else:
        lead += "<p>All rows are of one class: there are no ROC and no precision-recall curves.</p>"
    if likely and weights.any():
        shown.append(_calibration(counts, probabilities))
    if weights.any():
        edges, (minus, plus) = curves.histogram(middles(SCORE_BITS), counts)
        shown.append(figures.score_histograms(edges, minus, plus))
    return lead + grid(shown)


def _calibration(counts: Array, probabilities: Array | None) -> Figure:
    """Return the calibration plot, up to the largest probability that matters."""
    groups = curves.calibration(counts, probabilities)
    top = min(1.0, 1.15 * max(max(mean, share) for _, mean, share in groups))
    top = 1.0 if top > 0.6 else top
    weights = counts.sum(axis=1, keepdims=True)
    edges, (shown,) = curves.histogram(logistic.probabilities(middles(SCORE_BITS)), weights, 30, (0.0, top))
    return figures.calibration_plot(groups, edges, shown)


def numbers(pairs: NumberPairs) -> str:
    """Return how a regression predicts."""
    finite = np.isfinite(pairs.predictions) & np.isfinite(pairs.labels)
    if not finite.any():
        return ""
    labels, predictions = pairs.labels[finite], pairs.predictions[finite]
    edges, (weights,) = curves.histogram(middles(SCORE_BITS), pairs.residuals[:, None])
    means = pairs.means()
    means = means[np.isfinite(means).all(axis=1)]
    return grid(
        [
            figures.predicted_against_true(labels, predictions, means, pairs.rows),
            figures.residual_plot(labels, predictions, pairs.rows),
            figures.residual_histogram(edges, weights),
        ]
    )


def confusion(counted: Confusion, classes: Sequence[Any]) -> str:
    """Return the confusion matrix of several classes, each cell shaded by its share of the row."""
    if len(classes) > MANY or not counted.weights.any():
        return ""
    names = [verbatim(_class_text(label)) for label in classes]
    heads = "".join(f'<th scope="col" class="number">{name}</th>' for name in names)
    rows = []
    for name, weights in zip(names, counted.weights, strict=True):
        shares = weights / max(float(weights.sum()), 1e-300)
        cells = (
            f'<td style="background:color-mix(in srgb, var(--blue) {round(45 * share)}%, transparent)">'
            f"{text(int(weight) if weight.is_integer() else weight)}</td>"
            for weight, share in zip(weights.tolist(), shares.tolist(), strict=True)
        )
        rows.append(f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>')
    return (
        '<section class="table"><h3>Confusion matrix</h3><div class="scroll"><table class="confusion"><thead><tr>'
        f"<th>true \\ predicted</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="note">Weights of rows by class and by predicted class; the shade is the share of the class.</p>'
        "</section>"
    )


def measures(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """Return a table of measures; its texts may come from a user."""
    cells = [[_class_text(row[0]) if columns[0] == "class" else row[0], *row[1:]] for row in rows]
    return table(Table(title, columns, cells, note), verbatim)


# ---- the model and its making


def weights(largest: Sequence[Mapping[str, Any]], nonzeros: int) -> str:
    """Return the largest weights; each has a feature, a weight and, if known, the names of the feature and a class."""
    if not largest:
        return "<p>All weights are 0.</p>"
    top = max(abs(entry["weight"]) for entry in largest)
    several = "class" in largest[0]
    rows = []
    for entry in largest:
        name = " | ".join(entry.get("name") or ()) or f"feature {entry['feature']}"
        label = f"<td>{verbatim(_class_text(entry['class']))}</td>" if several else ""
        width = 100.0 * abs(entry["weight"]) / top
        bar = f'<span class="{"plus" if entry["weight"] > 0.0 else "minus"}" style="width:{width:.3g}%"></span>'
        number = f'<td class="number">{text(entry["weight"])}</td><td class="bar">{bar}</td>'
        rows.append(f"<tr><td>{verbatim(name)}</td>{label}{number}</tr>")
    heads = f"<th>feature</th>{'<th>class</th>' * several}<th class='number'>weight</th><th></th>"
    return (
        f'<section class="table"><div class="scroll"><table class="weights"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="note">The {len(largest)} largest of {text(nonzeros)} non-zero weights. Blue is positive, orange '
        "negative.</p></section>"
    )


def making(command: str, named: Mapping[str, str]) -> str:
    """Return the command line, and how and with what it was run; texts may come from a user."""
    shown = f"<pre><code>{verbatim(command)}</code></pre>"
    return shown + facts({name: verbatim(value) for name, value in named.items()})


def _class_text(label: Any) -> str:
    return label if isinstance(label, str) else f"{label:g}"
