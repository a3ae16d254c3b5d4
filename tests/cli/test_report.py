"""`train --report` and `evaluate --report`: pages that a real browser shows whole, and what is refused beforehand."""

from __future__ import annotations

import csv
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxstream import cli
from proxstream.training.session import Session

from ..browser import check_light_and_dark, look_at, prefer
from ..training.training_cases import clicks

pytestmark = pytest.mark.interpreted

BINARY = ["ROC", "Precision and recall", "Calibration", "Scores of both classes"]
NUMBERS = ["Predicted against true", "Residuals", "Distribution of the residuals"]


def numbers(path: Path, rows: int = 300) -> Path:
    """Write rows with numbers as labels."""
    rng = random.Random(1)
    lines = []
    for _ in range(rows):
        x = [rng.uniform(-1, 1) for _ in range(4)]
        y = 3 * x[0] - 2 * x[1] + rng.gauss(0, 0.3)
        lines.append(f"{y:.4f} " + " ".join(f"{j}:{value:.4f}" for j, value in enumerate(x)) + "\n")
    path.write_text("".join(lines))
    return path


def flowers(path: Path, rows: int = 300) -> Path:
    """Write a table of three classes whose names need care in HTML."""
    rng = random.Random(2)
    names = ["<b>setosa</b>", "a_1 & b", "ирис 🌸"]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["species", "petal_1", "site"])
        for _ in range(rows):
            kind = rng.randrange(3)
            table.writerow([names[kind], f"{kind + rng.gauss(0, 0.5):.3f}", rng.choice(["<i>x</i>", "$y$", "z_1"])])
    return path


def queries(path: Path) -> Path:
    rng = random.Random(3)
    lines = []
    for query in range(40):
        for _ in range(6):
            x = rng.uniform(-1, 1)
            lines.append(f"{int(x > 0) + int(x > 0.6)} qid:{query} 0:{x:.3f} 1:{rng.uniform(-1, 1):.3f}\n")
    path.write_text("".join(lines))
    return path


def titles(page: Path) -> list[str]:
    """Return the titles of the figures, after checking that the page needs nothing from elsewhere."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r'(?:src|href)="([^"]*)"', text):
        assert target.startswith("data:")
    assert "<script" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert len(text) < 1_500_000
    return re.findall(r'<figure id="[\w-]+"><h3>(.*?)</h3>', text)


def headings(page: Path) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", page.read_text(encoding="utf-8"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave figures empty, in tests of what is around them: drawing those of a page takes more than a second."""
    monkeypatch.setattr(
        "proxstream.report.sections.themed", lambda figure: b"<svg xmlns='http://www.w3.org/2000/svg'/>"
    )


def words_of(browser: Any) -> str:
    return str(browser.execute_script("return document.body.innerText"))


# -- what is on the pages ------------------------------------------------------------------------


def test_a_page_of_two_classes_and_of_its_evaluation(run: Any, browser: Any) -> None:
    clicks(Path("clicks.svm"), 600)
    done = run("train", "clicks.svm", "-o", "m.psm", "--l1", "0.001", "--report", "run.html")
    assert done.code == 0
    assert done.err.splitlines()[-1] == "report written to run.html"
    assert titles(Path("run.html")) == ["Progressive loss", "Non-zeros", *BINARY]
    assert headings(Path("run.html")) == ["Learning", "Predictions", "Weights", "Measures", "Settings and data"]
    look_at(browser, Path("run.html").absolute(), 6)
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert all(name.startswith("data:") for name in loaded)
    check_light_and_dark(browser)
    text = words_of(browser)
    facts = run("evaluate", "m.psm", "clicks.svm", "--json", "--report", "eval.html")
    measured = json.loads(facts.out)
    assert "proxstream train clicks.svm -o m.psm --l1 0.001" in text
    assert "Predictions made before each row was learned, in the first pass." in text
    assert "The positive class is 1, the negative one -1." in text
    assert titles(Path("eval.html")) == [*BINARY, "Progressive loss", "Non-zeros"]
    look_at(browser, Path("eval.html").absolute(), 6)
    text = words_of(browser)
    assert f"{measured['auc']:.4f}"[:6] in text
    assert f"The area under the curve is {measured['auc']:.4g}" in text
    assert "calibration error" in text
    assert "rows per second" in text
    assert run("evaluate", "m.psm", "clicks.svm", "--json").out == facts.out


def test_held_out_rows_passes_and_a_loss_without_probabilities(run: Any, browser: Any) -> None:
    options = ("--passes", "4", "--holdout-every", "5", "--early-stop", "1", "--loss", "hinge")
    assert run("train", "clicks.svm", "-o", "m.psm", *options, "--report", "run.html").code == 0
    expected = ["Progressive loss", "Loss per pass", "Non-zeros", *(t for t in BINARY if t != "Calibration")]
    assert titles(Path("run.html")) == expected
    look_at(browser, Path("run.html").absolute(), len(expected))
    assert "held-out loss" in words_of(browser)


@pytest.mark.exhaustive
def test_pages_of_a_regression(run: Any, browser: Any) -> None:
    numbers(Path("numbers.svm"))
    assert run("train", "numbers.svm", "-o", "m.psm", "--loss", "squared", "--report", "run.html").code == 0
    assert titles(Path("run.html")) == ["Progressive loss", "Non-zeros", *NUMBERS]
    look_at(browser, Path("run.html").absolute(), 5)
    assert run("evaluate", "m.psm", "numbers.svm", "--report", "eval.html").code == 0
    assert titles(Path("eval.html")) == [*NUMBERS, "Progressive loss", "Non-zeros"]
    look_at(browser, Path("eval.html").absolute(), 5)
    assert "All rows (300)" in words_of(browser)


def test_names_of_classes_features_and_files_are_shown_as_they_are(run: Any, browser: Any) -> None:
    name = "a_1 <b>&amp;.csv"
    flowers(Path(name))
    options = ("--label", "species", "--loss", "softmax", "--names", "--categorical", "site")
    assert run("train", name, "-o", "m.psm", *options, "--report", "run.html").code == 0
    assert titles(Path("run.html")) == ["Progressive loss", "Non-zeros"]
    look_at(browser, Path("run.html").absolute(), 2)
    text = words_of(browser)
    for word in ("<b>setosa</b>", "a_1 & b", "ирис 🌸", "<i>x</i>", "$y$", "z_1", "petal_1", name):
        assert word in text
    assert run("evaluate", "m.psm", name, "--report", "eval.html").code == 0
    look_at(browser, Path("eval.html").absolute(), 2)
    text = words_of(browser)
    assert "Confusion matrix" in text
    assert "macro F1" in text
    cells = browser.execute_script("return [...document.querySelectorAll('.confusion td')].map(c => +c.innerText)")
    assert sum(cells) == 300


def test_a_page_of_a_ranking(run: Any, browser: Any) -> None:
    queries(Path("queries.svm"))
    assert run("train", "queries.svm", "-o", "m.psm", "--loss", "ranking_hinge", "--report", "run.html").code == 0
    assert titles(Path("run.html")) == ["Progressive loss", "Non-zeros"]
    assert run("evaluate", "m.psm", "queries.svm", "--report", "eval.html").code == 0
    look_at(browser, Path("eval.html").absolute(), 2)
    assert "NDCG" in words_of(browser)


@pytest.mark.default_cases(1)
@pytest.mark.parametrize(("loss", "figures"), [("logistic", BINARY), ("squared", NUMBERS)])
def test_a_page_of_a_batch_solver(run: Any, browser: Any, loss: str, figures: list[str]) -> None:
    data = "clicks.svm" if loss == "logistic" else str(numbers(Path("numbers.svm")))
    options = ("--algorithm", "certified", "--l1", "0.01", "--loss", loss)
    done = run("train", data, "-o", "m.psm", *options, "--report", "run.html")
    assert done.err.splitlines()[-1] == "report written to run.html"
    assert titles(Path("run.html")) == ["Duality gap", *figures]
    look_at(browser, Path("run.html").absolute(), 1 + len(figures))
    assert "Predictions of the rows that the model was fitted to." in words_of(browser)


@pytest.mark.exhaustive
def test_one_class_and_a_single_row(run: Any, browser: Any) -> None:
    Path("one.svm").write_text("1 0:1 3:2\n")
    assert run("train", "one.svm", "-o", "m.psm", "--report", "run.html").code == 0
    assert titles(Path("run.html")) == ["Progressive loss", "Non-zeros", "Calibration", "Scores of both classes"]
    assert run("evaluate", "m.psm", "one.svm", "--report", "eval.html").code == 0
    look_at(browser, Path("eval.html").absolute())
    assert "All rows are of one class" in words_of(browser)


@pytest.mark.usefixtures("undrawn")
def test_a_model_without_weights_has_a_page(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm", "--l1", "1000", "--report", "run.html").code == 0
    assert "All weights are 0." in Path("run.html").read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_figures_follow_the_page_into_the_dark(run: Any, browser: Any) -> None:
    """The pixels of a figure change with the preference: dark ink on light, light ink on dark."""
    assert run("train", "clicks.svm", "-o", "m.psm", "--report", "run.html").code == 0
    browser.get(Path("run.html").absolute().as_uri())
    script = (
        "const i = document.images[0]; await i.decode(); const c = document.createElement('canvas');"
        "c.width = 300; c.height = 220; const g = c.getContext('2d'); g.drawImage(i, 0, 0, 300, 220);"
        "const d = g.getImageData(0, 0, 300, 220).data; let sum = 0, n = 0;"
        "for (let k = 0; k < d.length; k += 4) if (d[k+3] > 200) { sum += d[k] + d[k+1] + d[k+2]; n++; }"
        "return sum / n;"
    )
    means = {}
    for scheme in ("light", "dark"):
        prefer(browser, scheme)
        browser.refresh()
        means[scheme] = browser.execute_script(f"return (async () => {{ {script} }})()")
    prefer(browser, None)
    assert means["light"] < means["dark"]


# -- the run -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_the_model_does_not_depend_on_the_report(run: Any) -> None:
    numbers(Path("numbers.svm"))
    for name, more in (("a.psm", ()), ("b.psm", ("--report", "run.html"))):
        assert run("train", "numbers.svm", "-o", name, "--loss", "squared", *more).code == 0
    assert Path("a.psm").read_bytes() == Path("b.psm").read_bytes()


@pytest.mark.usefixtures("undrawn")
def test_a_model_that_is_up_to_date_has_a_page_of_its_history(run: Any) -> None:
    command = ("train", "clicks.svm", "-o", "m.psm", "--resume", "--report", "run.html")
    assert run(*command).code == 0
    Path("run.html").unlink()
    done = run(*command)
    assert done.err == "m.psm is up to date, nothing to do\nreport written to run.html\n"
    assert titles(Path("run.html")) == ["Progressive loss", "Non-zeros"]


@pytest.mark.usefixtures("undrawn")
def test_a_resumed_run_says_which_rows_its_residuals_are_of(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers(Path("numbers.svm"), 600)
    command = ("train", "numbers.svm", "-o", "m.psm", "--loss", "squared", "--chunk-bytes", "4096", "--resume")
    learn_chunk = Session._learn_chunk

    def stop_after(session: Session, *chunk: Any) -> None:
        learn_chunk(session, *chunk)
        session.stop()

    with monkeypatch.context() as patched:
        patched.setattr(Session, "_learn_chunk", stop_after)
        assert run(*command).code == 130
    assert run(*command, "--report", "run.html").code == 0
    assert titles(Path("run.html")) == ["Progressive loss", "Non-zeros", *NUMBERS]
    text = Path("run.html").read_text(encoding="utf-8")
    assert "in the first pass since the run was resumed." in text
    rows = int(re.search(r"All rows \((\d+)\)", text)[1])  # type: ignore[index]
    assert 300 < rows < 600


def test_a_history_without_lines_still_has_a_curve(run: Any) -> None:
    options = ("--passes", "2", "--progress-every", "1000", "--report", "run.html")
    assert run("train", "clicks.svm", "-o", "m.psm", *options).code == 0
    assert titles(Path("run.html"))[:2] == ["Progressive loss", "Loss per pass"]


@pytest.mark.usefixtures("undrawn")
def test_a_quiet_run_prints_nothing_and_a_page_replaces_its_predecessor(run: Any) -> None:
    Path("run.html").write_text("old")
    done = run("train", "clicks.svm", "-o", "m.psm", "-q", "--report", "run.html")
    assert done == (0, "", "")
    assert Path("run.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert not [path for path in Path().iterdir() if path.name.endswith(".tmp")]


@pytest.mark.usefixtures("undrawn")
def test_a_report_goes_together_with_an_initial_model(run: Any) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm").code == 0
    done = run("train", "clicks.svm", "-o", "n.psm", "-i", "m.psm", "--report", "run.html")
    assert done.code == 0
    assert titles(Path("run.html"))[:2] == ["Progressive loss", "Non-zeros"]
    refused = run("train", "clicks.svm", "-o", "n.psm", "-i", "m.psm", "--report", "m.psm")
    assert (refused.code, refused.err.startswith("proxstream train: --report m.psm is also an input file")) == (2, True)


@pytest.mark.parametrize("command", [("train", "clicks.svm", "-o", "n.psm"), ("evaluate", "m.psm", "clicks.svm")])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no/such/run.html", "--report no/such/run.html: the folder no/such does not exist"),
        (".", "--report .: is a folder; pass a file"),
        ("-", "--report -: a report cannot be written to standard output; pass a file"),
        ("clicks.svm", "--report clicks.svm is also an input file; choose another output"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_first(
    run: Any, command: tuple[str, ...], path: str, message: str
) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm").code == 0
    done = run(*command, "--report", path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"proxstream {command[0]}: {message}; see proxstream {command[0]} --help\n"
    assert not Path("n.psm").exists()


def test_the_model_and_the_report_are_different_files(run: Any) -> None:
    done = run("train", "clicks.svm", "-o", "m.psm", "--report", "m.psm")
    assert done.code == 2
    assert "--report m.psm is also the file of -o; choose another" in done.err
    assert run("train", "clicks.svm", "-o", "m.psm").code == 0
    done = run("evaluate", "m.psm", "clicks.svm", "--report", "m.psm")
    assert (done.code, "--report m.psm is also an input file" in done.err) == (2, True)
    done = run("evaluate", "m.psm", "clicks.svm", "--report", "bad.txt", "--quarantine", "bad.txt")
    assert (done.code, "--report bad.txt is also the file of --quarantine" in done.err) == (2, True)


@pytest.mark.parametrize("command", [("train", "clicks.svm", "-o", "n.psm"), ("evaluate", "m.psm", "clicks.svm")])
def test_without_matplotlib_the_extra_is_named_first(
    run: Any, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    assert run("train", "clicks.svm", "-o", "m.psm").code == 0
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run(*command, "--report", "run.html")
    line = f"proxstream {command[0]}: --report needs matplotlib: pip install 'proxstream[report]'"
    assert (done.code, done.out, done.err) == (2, "", f"{line}; see proxstream {command[0]} --help\n")
    assert {path.name for path in Path().iterdir()} == {"clicks.svm", "m.psm"}


def test_without_a_report_no_drawing_library_is_imported(tmp_path: Path) -> None:
    clicks(tmp_path / "clicks.svm", 50)
    code = (
        "import sys; from proxstream.cli import main\n"
        "assert main('train clicks.svm -o m.psm -q'.split()) == 0\n"
        "assert main('evaluate m.psm clicks.svm'.split()) == 0\n"
        "drawing = ('matplotlib', 'PIL', 'proxstream.report')\n"
        "print(*(name for name in sys.modules if name.startswith(drawing)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_both_commands_list_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("train", "evaluate"):
        assert cli.main([command, "--help"]) == 0
        assert "--report FILE" in capsys.readouterr().out
