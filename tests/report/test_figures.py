"""Figures: they show the numbers they are given, no text covers another, and colours follow the page."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from proxstream.report import curves, figures
from proxstream.report.axes import POINTS
from proxstream.report.drawing import SHADES, THEMED, themed, with_shades
from proxstream.report.records import Figure

RNG = np.random.default_rng(0)
TWOS = [1 << i for i in range(21)]
DECAY = [0.5 + 0.2 * 2.0**-i for i in range(21)]
NAN = math.nan
LABELS = RNG.normal(size=300)
PREDICTED = LABELS + 0.3 * RNG.normal(size=300)
EDGES = np.linspace(-3.0, 3.0, 41)
GROUPS = [(100.0, (i + 0.5) / 10, (i + 0.3) / 10) for i in range(10)]
STRENGTHS = np.geomspace(1e-6, 1e-2, 9)

CASES = {
    "learning": figures.learning_curve(TWOS, DECAY, DECAY, {"best constant": 0.6, "held-out rows": 0.52}),
    "learning-one-row": figures.learning_curve([1], [0.7], [0.7], {}),
    "learning-wide": figures.learning_curve(TWOS, [10.0**i for i in range(-8, 13)], [NAN] * 21, {"best constant": 1.0}),
    "learning-extreme": figures.learning_curve([1, 2], [1e100, 1e-100], [1e100, 1e-100], {}),
    "learning-many": figures.learning_curve(range(1, 20_001), [0.5] * 20_000, [0.5] * 20_000, {}),
    "learning-zero": figures.learning_curve(TWOS, [0.0] * 21, [NAN] * 21, {"best constant": 0.0}),
    "passes": figures.pass_curve([0.5, 0.4, 0.35], [0.52, 0.5, 0.51], 2),
    "passes-two": figures.pass_curve([0.5, 0.4], [NAN, NAN]),
    "passes-many": figures.pass_curve([1.0 / i for i in range(1, 201)], [NAN] * 200),
    "nonzeros": figures.nonzero_curve(TWOS, TWOS, 123_456_789),
    "nonzeros-zero": figures.nonzero_curve(TWOS, [0] * 21, 0),
    "nonzeros-flat": figures.nonzero_curve(TWOS, [1_000_000 - i for i in range(21)], 5),
    "gap": figures.gap_curve(range(6), [1.0, 1e-2, 1e-5, 1e-9, 0.0, 0.0]),
    "gap-one": figures.gap_curve([0], [0.0]),
    "roc": figures.roc_curve(np.array([0.0, 0.2, 1.0]), np.array([0.0, 0.7, 1.0]), 0.75),
    "precision": figures.precision_recall_curve(np.array([0.5, 1.0]), np.array([1.0, 0.4]), 0.7, 0.3),
    "calibration": figures.calibration_plot(GROUPS, np.linspace(0, 1, 31), RNG.integers(0, 90_000, 30)),
    "calibration-rare": figures.calibration_plot([(9.0, 0.0004, 0.0)], np.linspace(0, 4.6e-4, 31), np.ones(30)),
    "scores": figures.score_histograms(EDGES, RNG.random(40), RNG.random(40)),
    "scores-one-class": figures.score_histograms(EDGES, np.zeros(40), RNG.random(40)),
    "predicted": figures.predicted_against_true(LABELS, PREDICTED, np.array([[-1.0, -1.1], [1.0, 0.9]]), 5000),
    "predicted-large": figures.predicted_against_true(1e9 * LABELS, -1e9 * LABELS, np.zeros((1, 2)), 300),
    "predicted-one": figures.predicted_against_true(np.ones(1), np.ones(1), np.ones((1, 2)), 1),
    "residuals": figures.residual_plot(LABELS, PREDICTED, 5000),
    "residuals-tiny": figures.residual_plot(1e-12 * LABELS, 1e-12 * PREDICTED, 5000),
    "residual-histogram": figures.residual_histogram(EDGES, RNG.random(40) * 1e7),
    "path": figures.path_plot(STRENGTHS, 0.5 + STRENGTHS**0.5, [0.01] * 9, [10**i for i in range(9, 0, -1)], 3),
    "path-one": figures.path_plot([0.1], [0.5], [NAN], [0], 0),
}


def drawn(figure: Figure) -> Canvas:
    """Return the canvas of a figure after its layout."""
    with rc_context(THEMED):
        canvas = Canvas(figsize=figure.size, layout="constrained")
        FigureCanvasAgg(canvas)
        figure.draw(canvas)
        canvas.draw_without_rendering()
    return canvas


def texts(canvas: Canvas) -> list[tuple[str, Any]]:
    """Return all texts that are seen, with their boxes."""
    renderer = canvas.canvas.get_renderer()  # type: ignore[attr-defined]
    found = []
    for axes in canvas.axes:
        for axis, low, high in ((axes.xaxis, *axes.get_xlim()), (axes.yaxis, *axes.get_ylim())):
            shown = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found += [*shown, axis.label, axis.get_offset_text()]
    found += [label for legend in canvas.legends for label in legend.get_texts()]
    seen = [one for one in found if one.get_visible() and one.get_text()]
    return [(one.get_text(), one.get_window_extent(renderer)) for one in seen]


@pytest.mark.default_cases(10)
@pytest.mark.parametrize("name", CASES)
def test_no_text_covers_another_or_leaves_the_figure(name: str) -> None:
    canvas = drawn(CASES[name])
    seen = texts(canvas)
    assert len(seen) >= 4
    for i, (words, box) in enumerate(seen):
        assert canvas.bbox.x0 - 1 <= box.x0, words
        assert box.x1 <= canvas.bbox.x1 + 1, words
        assert canvas.bbox.y0 - 1 <= box.y0, words
        assert box.y1 <= canvas.bbox.y1 + 1, words
        for others, other in seen[:i]:
            assert not box.padded(-0.5).overlaps(other.padded(-0.5)), (words, others)


@pytest.mark.default_cases(8)
@pytest.mark.parametrize("name", CASES)
def test_a_figure_is_small_and_needs_nothing_from_elsewhere(name: str) -> None:
    svg = themed(CASES[name])
    assert len(svg) < 120_000
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if attribute.endswith("href"):
                assert value.startswith("#")
    text = svg.decode()
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    colours = set(re.findall(r"(?:fill|stroke): ([^;\"]+)", text))
    assert colours <= {f"var(--{name})" for name in SHADES} | {"none"}
    assert "prefers-color-scheme: dark" in text
    assert CASES[name].title
    assert CASES[name].caption.endswith(".")
    assert "nan" not in CASES[name].caption


def test_a_figure_is_the_same_file_every_time() -> None:
    assert themed(CASES["path"]) == themed(CASES["path"])


def test_only_colours_of_the_house_become_variables() -> None:
    shaded = with_shades('<?xml?><svg a="#1b1f24"><a href="#1b1f24"/><b style="fill: #D55E00; stroke: #00ff00"/></svg>')
    assert shaded.startswith('<svg a="#1b1f24"><style>:root{--ink:#1b1f24;')
    assert shaded.endswith('<a href="#1b1f24"/><b style="fill: var(--orange); stroke: #00ff00"/></svg>')


def luminance(colour: str) -> float:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return float(np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("i", [0, 1])
def test_colours_stand_out_from_their_ground(i: int) -> None:
    """Contrast as WCAG defines it: 4.5 for text, 3 for curves."""
    ground = luminance(SHADES["ground"][i])
    for name, least in {"ink": 7.0, "soft": 4.5, "blue": 3.0, "orange": 3.0, "green": 3.0}.items():
        low, high = sorted((luminance(SHADES[name][i]), ground))
        assert (high + 0.05) / (low + 0.05) >= least, name


# -- the numbers in the figures ------------------------------------------------------------------


def line(canvas: Canvas, label: str, axes: int = 0) -> Any:
    return next(one for one in canvas.axes[axes].lines if one.get_label() == label)


def test_the_learning_curve_has_the_losses_and_a_log_axis() -> None:
    canvas = drawn(CASES["learning"])
    assert canvas.axes[0].get_xscale() == "log"
    assert line(canvas, "mean so far").get_xdata().tolist() == TWOS
    assert line(canvas, "mean so far").get_ydata().tolist() == DECAY
    assert line(canvas, "best constant").get_ydata() == [0.6, 0.6]
    assert "Best constant: 0.6; held-out rows: 0.52." in CASES["learning"].caption


def test_the_learning_curve_is_not_squeezed_by_losses_of_single_rows() -> None:
    since = [1e-9, 50.0, *DECAY[2:]]
    low, high = drawn(figures.learning_curve(TWOS, DECAY, since, {"best constant": 0.6})).axes[0].get_ylim()
    assert 0.45 < low < min(DECAY)
    assert max(DECAY) < high < 0.75


def test_a_long_curve_is_thinned_evenly_on_its_log_axis() -> None:
    x = line(drawn(CASES["learning-many"]), "mean so far").get_xdata()
    assert len(x) <= POINTS
    assert (x[0], x[-1]) == (1, 20_000)
    assert (np.diff(np.log(x[100:])) < 0.1).all()


def test_losses_of_passes_and_the_saved_one() -> None:
    canvas = drawn(CASES["passes"])
    assert line(canvas, "held-out rows").get_ydata().tolist() == [0.52, 0.5, 0.51]
    assert line(canvas, "saved model").get_xdata() == [2, 2]
    assert len(drawn(CASES["passes-two"]).axes[0].lines) == 1


def test_the_path_shows_loss_errors_non_zeros_and_the_chosen_strength() -> None:
    order = RNG.permutation(9)
    loss, error, count = 0.5 + STRENGTHS**0.5, 0.1 * STRENGTHS**0.5, np.arange(9, 0, -1) * 100
    chosen = int(np.flatnonzero(order == 5)[0])
    figure = figures.path_plot(STRENGTHS[order], loss[order], error[order], count[order], chosen)
    canvas = drawn(figure)
    above, below = canvas.axes
    assert above.get_xscale() == "log"
    (container,) = above.containers
    data, _, (bars,) = container
    assert data.get_xdata().tolist() == STRENGTHS.tolist()
    assert data.get_ydata().tolist() == loss.tolist()
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert np.allclose(ends, np.stack((loss - error, loss + error), axis=1), rtol=1e-12)
    assert below.lines[0].get_ydata().tolist() == count.tolist()
    assert (line(canvas, "chosen").get_xdata()[0], line(canvas, "chosen").get_ydata()[0]) == (STRENGTHS[5], loss[5])
    assert line(canvas, "chosen", 1).get_ydata()[0] == count[5]
    assert "9 strengths. Chosen: 0.0003162" in figure.caption
    assert "and 400 non-zeros." in figure.caption


def test_no_penalty_is_one_step_left_of_the_weakest() -> None:
    canvas = drawn(figures.path_plot([0.1, 0.01, 0.0], [0.7, 0.6, 0.5], [0.02, 0.01, 0.0], [1, 2, 3], 2))
    above, below = canvas.axes
    np.testing.assert_allclose(below.lines[0].get_xdata(), [0.001, 0.01, 0.1], rtol=1e-12)
    assert below.lines[0].get_ydata().tolist() == [3, 2, 1]
    ticks = zip(below.get_xticks(), below.get_xticklabels(), strict=True)
    assert [label.get_text() for place, label in ticks if place < 0.009] == ["0"]
    assert line(canvas, "chosen").get_ydata()[0] == 0.5
    assert above.get_xscale() == "log"


def test_precision_is_drawn_in_steps_from_recall_zero() -> None:
    curve = drawn(CASES["precision"]).axes[0].lines[-1]
    assert curve.get_drawstyle() == "steps-pre"
    assert curve.get_xdata().tolist() == [0.0, 0.5, 1.0]
    assert curve.get_ydata().tolist() == [1.0, 1.0, 0.4]


def test_the_calibration_plot_has_its_counts_below() -> None:
    above, below = drawn(CASES["calibration"]).axes
    assert above.lines[-1].get_xdata().tolist() == [mean for _, mean, _ in GROUPS]
    assert above.lines[-1].get_ydata().tolist() == [share for *_, share in GROUPS]
    assert len(below.patches) == 30


def test_score_histograms_are_shares_of_their_class() -> None:
    canvas = drawn(CASES["scores"])
    for stairs in canvas.axes[0].patches:
        assert stairs.get_data().values.sum() == pytest.approx(1.0)  # type: ignore[attr-defined]


def test_the_average_precision_weights_thresholds_by_recall() -> None:
    assert curves.average_precision(curves.Curve(np.array([0.5, 1.0]), np.array([1.0, 0.4]))) == pytest.approx(0.7)
