"""The papers' experiments: each quick run is finite, repeatable and makes a page that a real browser shows whole."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxstream import cli, reproduce
from proxstream.report.drawing import drawn
from proxstream.reproduce import Claim, Experiment, Figure, Report, Run, Table, outcome as outcomes
from proxstream.reproduce.looks import LOOKS
from proxstream.reproduce.outcome import Outcome

from ..browser import check_light_and_dark, look_at

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs" / "reproductions").glob("*.html"))


# -- every experiment ----------------------------------------------------------------------------


def numbers(report: Report | Outcome) -> list[Any]:
    """Return all cells that a seed decides: not what a clock told."""
    return [
        cell
        for table in report.tables
        for row in table.rows
        for name, cell in zip(table.columns, row, strict=True)
        if "second" not in name
    ]


def test_each_experiment_goes_by_its_name() -> None:
    assert {
        "rda-mnist",
        "adagrad-text",
        "adagrad-mnist",
        "adagrad-census",
        "adagrad-ranking",
        "ftrl-oscillation",
        "adagrad-motivation",
        "regret",
        "accelerated-rda",
        "sdca-rates",
    } == set(reproduce.EXPERIMENTS)
    for name in reproduce.EXPERIMENTS:
        one = reproduce.experiment(name)
        assert one.name == name
        assert one.title
        assert one.paper
        assert one.about


QUICKEST = "ftrl-oscillation"  # which the default run has
ALL = [name if name == QUICKEST else pytest.param(name, marks=pytest.mark.exhaustive) for name in reproduce.EXPERIMENTS]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ALL)
def test_a_quick_run_is_finite_and_its_page_is_whole(name: str, tmp_path: Path, browser: Any) -> None:
    one, run = reproduce.experiment(name), Run(quick=True, seed=3, jobs=1)
    outcome = outcomes.perform(one, run, tmp_path)

    assert outcome.tables
    assert outcome.figures
    assert outcome.claims
    assert outcome.data
    for cell in numbers(outcome):
        assert isinstance(cell, str) or cell is None or math.isfinite(cell)
    for claim in outcome.claims:
        assert claim.claim
        assert claim.ours
        assert claim.agrees in (True, False, None)
        assert "nan" not in claim.ours.split()
    assert all(isinstance(value, str) for value in outcome.settings.values())

    names = {figure.name for figure in outcome.figures}
    assert len(names) == len(outcome.figures)
    made = {f"{name}.html", f"{name}.json", "index.html"}
    made |= {f"{name}-{figure}.{kind}" for figure in names for kind in ("png", "svg")}
    assert {file.name for file in tmp_path.iterdir()} == made
    for figure in names:
        assert (tmp_path / f"{name}-{figure}.png").read_bytes().startswith(b"\x89PNG")
    look_at(browser, tmp_path / f"{name}.html", len(names))
    look_at(browser, tmp_path / "index.html", 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ALL)
def test_a_quick_run_is_a_function_of_its_seed(name: str) -> None:
    one, run = reproduce.experiment(name), Run(quick=True, seed=3, jobs=1)
    assert numbers(one.perform(run)) == numbers(one.perform(run))


@pytest.mark.default_cases(4)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_of_the_full_runs_are_whole(page: Path, browser: Any) -> None:
    look_at(browser, page)
    if page.stem != "index":
        record = Outcome.from_json(page.with_suffix(".json").read_text(encoding="utf-8"))
        assert not record.quick
        assert len(browser.execute_script("return [...document.images]")) == len(record.figures)


def counted(claims: Sequence[Claim]) -> str:
    words = {
        "agrees": ("agrees", "agree"),
        "partly": ("holds in part", "hold in part"),
        "differs": ("differs", "differ"),
    }
    return ", ".join(f"{count} {words[word][count != 1]}" for word, count in outcomes.tally(claims).items())


def test_the_docs_tell_the_verdicts_of_the_full_runs() -> None:
    text = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")
    records = outcomes.outcomes(ROOT / "docs" / "reproductions")
    assert [record.name for record in records] == list(reproduce.EXPERIMENTS)
    for record in records:
        assert f"| [`{record.name}`](#{record.name}) | {record.paper} | {counted(record.claims)} |" in text
    claims = [claim for record in records for claim in record.claims]
    assert f"Of {len(claims)} claims {outcomes.tally(claims)['agrees']} agree" in text


def test_results_of_the_full_runs_are_small() -> None:
    folder = ROOT / "docs" / "reproductions"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 5_000_000


# -- a made-up experiment ------------------------------------------------------------------------


def draw(canvas: Any) -> None:
    axes = canvas.subplots()
    axes.plot([1, 2, 3], [1.0, 4.0, 9.0])


TABLE = Table("Squares & <more>", ("x", "ours", "paper"), [(1, 1.0, 1.0), (2, 4.5, None)], "A note.")
REPORT = Report(
    [TABLE],
    [Figure("curve", "A curve", "It rises.", draw, (4.0, 3.0))],
    [
        Claim("x_1 < x_2 in `code`", "yes", True),
        Claim("<script>alert(1)</script>", "no", False, "why not"),
        Claim("perhaps", "maybe", None),
    ],
    {"eta": "0.1"},
    "Three numbers.",
)


def made_up(report: Report = REPORT) -> Experiment:
    return Experiment("made-up", "A <title>", "Nobody 2000", "About it.", None, lambda run: report)


def test_a_record_is_kept_as_json_and_read_again(tmp_path: Path) -> None:
    outcome = outcomes.perform(made_up(), Run(), tmp_path)
    again = Outcome.from_json((tmp_path / "made-up.json").read_text(encoding="utf-8"))
    assert again.to_json() == outcome.to_json()
    assert again.claims == outcome.claims
    assert again.seed == 0
    assert outcomes.tally(again.claims) == {"agrees": 1, "partly": 1, "differs": 1}


def test_what_is_no_record_is_named() -> None:
    for text in ("{", "[]", "{}", json.dumps({"form": "something else"})):
        with pytest.raises(ValueError, match=r"a\.json: not a record of a reproduction"):
            Outcome.from_json(text, "a.json")


def test_a_number_that_is_none_is_null_in_the_record(tmp_path: Path) -> None:
    table = replace(TABLE, rows=[(1, math.nan, math.inf)])
    outcome = outcomes.perform(made_up(replace(REPORT, tables=[table])), Run(), tmp_path)
    assert json.loads(outcome.to_json())["tables"][0]["rows"] == [[1, None, None]]


def test_a_page_needs_nothing_from_elsewhere_and_trusts_no_text(tmp_path: Path) -> None:
    outcomes.perform(made_up(), Run(), tmp_path)
    page = (tmp_path / "made-up.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "A &lt;title&gt;" in page
    assert "Squares &amp; &lt;more&gt;" in page
    assert "x<sub>1</sub> &lt; x<sub>2</sub> in <code>code</code>" in page
    for target in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert target.startswith("data:") or target == "index.html"
    assert "url(" not in page
    assert "@import" not in page


def test_a_page_tells_verdicts_in_words_and_adapts_to_light_and_dark(tmp_path: Path, browser: Any) -> None:
    outcomes.perform(made_up(), Run(quick=True), tmp_path)
    look_at(browser, tmp_path / "made-up.html", 1)
    badges = browser.execute_script("return [...document.querySelectorAll('.claims .badge')].map(b => b.innerText)")
    assert badges == ["✓ agrees", "✗ differs", "≈ partly"]
    assert "A quick run" in browser.execute_script("return document.body.innerText")
    check_light_and_dark(browser)


def test_an_experiment_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(canvas: Any) -> None:
        raise ValueError("cannot be drawn")

    broken = replace(REPORT, figures=[REPORT.figures[0], replace(REPORT.figures[0], name="second", draw=fail)])
    with pytest.raises(ValueError, match="cannot be drawn"):
        outcomes.perform(made_up(broken), Run(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_figure_is_the_same_file_every_time() -> None:
    assert drawn(REPORT.figures[0]) == drawn(REPORT.figures[0])


def test_a_row_of_the_wrong_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row 1 of the table 'T' must have 2 cells, got 1"):
        Table("T", ("a", "b"), [(1, 2), (3,)])


def test_colours_can_be_told_apart_without_seeing_red_or_green() -> None:
    """All pairs differ, for normal eyes and, by Viénot's matrices, for those that lack a kind of cones."""
    import numpy as np

    def linear(colour: str) -> np.ndarray:
        rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)

    seen = {
        "all": np.eye(3),
        "no red": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
        "no green": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    }
    colours = sorted({look.colour for look in LOOKS.values()})
    for matrix in seen.values():
        shown = [np.cbrt(np.clip(matrix @ linear(colour), 0, 1)) for colour in colours]
        for i, one in enumerate(shown):
            for colour, other in zip(colours[:i], shown, strict=False):
                assert np.linalg.norm(one - other) > 0.12, (colours[i], colour)
    assert len(set(LOOKS.values())) == len(LOOKS)


# -- runs ----------------------------------------------------------------------------------------


def test_tasks_keep_their_order_in_processes_and_errors_come_through() -> None:
    assert Run(jobs=2).map(math.sqrt, [4.0, 1.0, 9.0], "roots") == [2.0, 1.0, 3.0]
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        Run(jobs=2).map(math.sqrt, [1.0, -1.0], "roots")


def test_a_process_that_is_killed_is_told() -> None:
    with pytest.raises(OSError, match=r"a process of 'leaving' was killed, perhaps for want of memory"):
        Run(jobs=2).map(os._exit, [3, 3], "leaving")


def test_generators_depend_on_seed_and_key_alone() -> None:
    assert Run(seed=1).generator(2, 3).random() == Run(seed=1, jobs=7, quick=True).generator(2, 3).random()
    draws = {Run(seed=s).generator(*key).random() for s in (0, 1) for key in ((0,), (1,), (0, 1))}
    assert len(draws) == 6


def test_the_folder_of_a_data_set_is_inside_or_itself(tmp_path: Path) -> None:
    assert Run(data=tmp_path).folder("mnist") == tmp_path
    (tmp_path / "mnist").mkdir()
    assert Run(data=tmp_path).folder("mnist") == tmp_path / "mnist"
    with pytest.raises(ValueError, match="'mnist' are needed: --data names their folder"):
        Run().folder("mnist")


# -- the command ---------------------------------------------------------------------------------


def told(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = cli.main(["reproduce", *args])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_lists_the_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, "--list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:] if not line.startswith(" ")] == list(reproduce.EXPERIMENTS)


def test_the_command_prints_tables_and_verdicts_and_writes_the_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out_folder = tmp_path / "some" / "where"
    code, out, err = told(capsys, "ftrl-oscillation", "--quick", "--jobs", "1", "-o", str(out_folder))
    assert (code, err) == (0, "")
    assert "mirror descent" in out
    assert re.search(r"^agrees  Both play", out, flags=re.MULTILINE)
    assert re.search(r"^differs  The example's adversary", out, flags=re.MULTILINE)
    assert f"{out_folder / 'ftrl-oscillation.html'}" in out
    assert (out_folder / "index.html").is_file()


@pytest.mark.parametrize(
    ("args", "code", "line"),
    [
        ((), 2, "missing argument NAME: an experiment (see --list) or 'all'"),
        (("no-such",), 2, "unknown experiment 'no-such'; see --list"),
        (("rda-mnist",), 2, "rda-mnist needs --data DIR (MNIST's four idx files"),
        (("all",), 2, "needs --data DIR"),
        (("sdca-rates", "--data", "no/such/folder"), 1, "no/such/folder: no such folder"),
        (("ftrl-oscillation", "--jobs", "0"), 2, "--jobs"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: int, line: str
) -> None:
    got, out, err = told(capsys, *args)
    assert (got, out) == (code, "")
    assert line in err
    assert err.count("\n") == 1


def test_missing_data_are_told_with_their_source(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = told(capsys, "sdca-rates", "--data", str(tmp_path), "-o", str(tmp_path / "out"))
    assert code == 1
    assert err.startswith(f"{tmp_path / 'a9a'}: no such file")
    assert err.count("\n") == 1
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_told_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = told(capsys, "ftrl-oscillation", "--quick", "-o", str(tmp_path / "file"))
    assert (code, out) == (1, "")
    assert err == f"{tmp_path / 'file'}: File exists\n"


def test_without_matplotlib_the_extra_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = told(capsys, "ftrl-oscillation", "-o", str(tmp_path / "out"))
    assert code == 1
    assert err == "figures need the package matplotlib: pip install 'proxstream[reproduce]'\n"
    assert not (tmp_path / "out").exists()
