"""Sections of a report: which figures there are, and texts of users shown as they are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from proxstream import losses
from proxstream.data.measures import SCORE_BITS
from proxstream.report import sections
from proxstream.report.collect import Confusion, NumberPairs
from proxstream.report.page import page, verbatim, words

LINE = {"pass": 1, "rows": 1, "mean_loss": 0.7, "since_last": 0.7, "nonzeros": 3}
PASS = {"pass": 1, "rows": 2, "mean_loss": 0.6}


def titles(html: str) -> list[str]:
    return re.findall(r'<figure id="[\w-]+"><h3>(.*?)</h3>', html)


@pytest.mark.parametrize(
    ("history", "summary", "expected"),
    [
        ([], {}, []),
        ([LINE, PASS], {"nonzeros": 3}, ["Progressive loss", "Non-zeros"]),
        ([PASS], {}, ["Progressive loss"]),
        ([LINE], {}, []),
        ([LINE, PASS, {**PASS, "pass": 2}], {}, ["Progressive loss", "Loss per pass", "Non-zeros"]),
        ([{"epoch": 0, "gap": 0.1}, {"epoch": 1, "gap": 0.0}], {}, ["Duality gap"]),
        ([{"rows": 1, "mean_loss": 0.6931}], {"rows": 1}, []),
        ([{**LINE, "rows": None}, {**LINE, "mean_loss": "x"}, PASS], {"best_constant_loss": None}, None),
        ([{**LINE, "pass": 7}, PASS], {"best_constant_loss": float("inf")}, None),
    ],
)
def test_a_history_has_the_figures_it_has_numbers_for(history: Any, summary: Any, expected: list[str] | None) -> None:
    found = titles(sections.learning(history, summary))
    assert found == (["Progressive loss", "Non-zeros"] if expected is None else expected)


def test_the_saved_pass_is_the_best_one_unless_it_is_the_last() -> None:
    passes = [{**PASS, "pass": i + 1, "held_out_loss": loss} for i, loss in enumerate((0.6, 0.5, 0.55))]
    early = sections.learning(passes, {"held_out_loss": 0.5})
    assert early != sections.learning(passes, {"held_out_loss": 0.55})


def test_texts_of_users_are_not_marked_up() -> None:
    assert verbatim("`x_1` & <b>\x00\ud800") == "`x_1` &amp; &lt;b&gt;\\x00\\ud800"
    assert words("`x_1`") == "<code>x_1</code>"
    weights = [{"feature": 3, "name": ["a_1", "<i>"], "weight": -2.0}, {"feature": 4, "name": [], "weight": 1.0}]
    html = sections.weights(weights, 2)
    assert "a_1 | &lt;i&gt;" in html
    assert "feature 4" in html
    assert 'class="minus" style="width:100%"' in html
    assert 'class="plus" style="width:50%"' in html
    assert "<code>x_1</code>" not in sections.making("`x_1`", {"files": "`x_1`"})
    assert "&lt;script&gt;" in sections.report("<script>", "<script>", {"loss": "<script>"}, {})


def test_an_empty_section_is_left_out() -> None:
    html = sections.report("title", "lead", {}, {"one": "", "two": "<p>text</p>"})
    assert "<h2>two</h2>" in html
    assert "<h2>one</h2>" not in html
    assert page("a", []).count("<main>") == 1


def test_scores_of_one_class_or_none_have_no_roc() -> None:
    counts = np.zeros((1 << SCORE_BITS, 2))
    assert titles(sections.two_classes(counts, (0.0, 1.0), float("nan"), likely=True)) == []
    counts[1 << 17, 1] = 5.0
    html = sections.two_classes(counts, (), float("nan"), likely=True)
    assert titles(html) == ["Calibration", "Scores of both classes"]
    assert "All rows are of one class" in html


def test_numbers_that_are_not_finite_are_left_out() -> None:
    pairs = NumberPairs(losses.poisson)
    assert sections.numbers(pairs) == ""
    with np.errstate(over="ignore"):
        pairs.add(np.array([1000.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0]), np.empty(0))
    assert len(titles(sections.numbers(pairs))) == 3


def test_many_classes_have_no_matrix() -> None:
    assert sections.confusion(Confusion(3), ["a", "b", "c"]) == ""
    counted = Confusion(31)
    counted.weights += 1.0
    assert sections.confusion(counted, list(range(31))) == ""
    small = Confusion(2)
    small.weights += [[3.0, 1.0], [0.5, 0.0]]
    html = sections.confusion(small, ["<x>", 2.0])
    assert re.findall(r"<td [^>]*>(.*?)</td>", html) == ["3", "1", "0.5", "0"]
    assert "&lt;x&gt;" in html
    assert "34%" in html
