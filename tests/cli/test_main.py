"""The command line, through the real console script: what it prints, how it exits, how fast it starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

import proxstream as ps
from proxstream import cli
from proxstream.cli.demo import EPILOG

from ..test_docs import README, blocks

SCRIPT = Path(sys.executable).parent / ("proxstream.exe" if os.name == "nt" else "proxstream")


def run(*args: str, command: tuple[str, ...] = (str(SCRIPT),), **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        timeout=1800,
    )


@cache
def demo(rows: int, seed: int = 1) -> str:
    done = run("demo", "--rows", str(rows), "--seed", str(seed), PYTHONIOENCODING="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def rows_of(output: str, first: str) -> dict[str, list[str]]:
    """Return the cells of the table whose header starts with `first`, by the first cell of each row."""
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(first))
    rows: dict[str, list[str]] = {}
    for line in lines[start + 2 :]:
        if not line.strip():
            break
        name, *cells = re.split(r"\s{2,}", line.strip())
        rows[name] = cells
    return rows


def without_clock(output: str) -> str:
    """Drop what depends on the clock: the speeds in the table, the lines of seconds, and the name of the report."""
    changing = r"( +[\d,]+ +[\d.]+$)|(^seconds .*$)|(^The report of the training.*$)"
    return re.sub(changing, "", output, flags=re.MULTILINE)


def test_demo_trains_certifies_and_predicts() -> None:
    output = demo(1000)
    commands = re.findall(r"^\$ proxstream (\w+)", output, flags=re.MULTILINE)
    assert commands == ["train", "certify", "train", "predict"]
    rounds = re.findall(r"^ +(\d+)   \d\.\d{6} ", output, flags=re.MULTILINE)
    assert rounds == ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512"]
    primal, dual = (
        float(re.findall(rf"^{name} +(\S+)$", output, flags=re.MULTILINE)[0]) for name in ("primal", "dual")
    )
    best, bound = re.findall(r"^mean loss \+ penalty +(\S+).*\nlower bound +(\S+) ", output, flags=re.MULTILINE)[0]
    assert max(dual, float(bound)) <= float(best) + 1e-6 <= primal + 2e-6
    probabilities = output.split("--predict probabilities\n")[1].splitlines()[:3]
    assert all(0.0 < float(probability) < 1.0 for probability in probabilities)


def test_demo_shows_sparse_learners_against_sgd() -> None:
    table = rows_of(demo(1000), "learner                      log loss")
    assert len(table) == 5
    nonzeros = {name.split("(")[0]: int(cells[3]) for name, cells in table.items()}
    assert nonzeros["SGD"] == 300
    for sparse in ("RDA", "AdaGrad", "FTRLProximal"):
        assert nonzeros[sparse] < 150
    assert all(0.3 < float(cells[0]) < 0.7 and 0.3 < float(cells[1]) < 0.7 for cells in table.values())


def test_demo_regret_is_below_the_bound_of_the_theorem_named() -> None:
    table = rows_of(demo(1000), "learner         regret")
    assert list(table) == ["SGD", "FOBOS", "RDA", "AdaGrad", "FTRL-Proximal"]
    for regret, linearized, bound, theorem in table.values():
        assert float(regret) <= float(linearized) <= float(bound)
        assert "Theorem" in theorem or "Corollary" in theorem


@pytest.mark.exhaustive
def test_demo_is_the_same_every_time_but_for_the_seed() -> None:
    again = run("demo", "--rows", "1000", "--seed", "1", PYTHONIOENCODING="utf-8", PYTHONHASHSEED="7")
    assert without_clock(again.stdout) == without_clock(demo(1000))
    assert without_clock(demo(1000, seed=2)) != without_clock(demo(1000))


@pytest.mark.exhaustive
def test_demo_into_a_pipe_is_plain_text_of_a_fixed_width_without_unicode() -> None:
    wide, narrow = (run("demo", "--rows", "40", COLUMNS=n, PYTHONIOENCODING="ascii") for n in ("100", "30"))
    assert narrow.returncode == 0, narrow.stderr
    assert without_clock(narrow.stdout) == without_clock(wide.stdout)
    assert "\x1b" not in narrow.stdout
    assert max(map(len, narrow.stdout.splitlines())) <= 100
    assert narrow.stdout.isascii()


def test_readme_shows_its_output() -> None:
    printed = "\n".join(line.rstrip() for line in demo(1000).splitlines())
    (path, learners, *_) = (block.text for block in blocks(README) if block.language == "text")
    for shown in (path, learners):
        assert "\n".join(shown.splitlines()) in printed


def test_demo_shows_the_path_and_uses_the_strength_chosen() -> None:
    output = demo(1000)
    chosen = re.findall(r"^\* +(\S+) ", output, flags=re.MULTILINE)
    assert len(chosen) == 1
    assert f"penalty       L1(lam={chosen[0]})" in output
    assert f"--algorithm certified --l1 {chosen[0]}\n" in output
    assert f"with logistic loss and L1({chosen[0]})" in output


def test_commands_of_one_process_count_their_own_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the demo's solver are not those of all that the demo did before it."""
    start = time.perf_counter()
    assert cli.main(["demo", "--rows", "40", "--l1", "0.01"]) == 0
    took = time.perf_counter() - start
    shown = re.findall(r"^seconds +([0-9.]+)", capsys.readouterr().out, flags=re.MULTILINE)
    assert len(shown) == 2
    assert sum(map(float, shown)) < took


@pytest.mark.exhaustive
def test_demo_imports_no_scikit_learn_and_leaves_the_report_alone(tmp_path: Path) -> None:
    code = (
        "import sys, os; from proxstream.cli import main; main(['demo', '--rows', '50']); "
        f"(report,) = os.listdir({str(tmp_path)!r}); "
        f"page = open(os.path.join({str(tmp_path)!r}, report)).read(); "
        "assert report.startswith('proxstream-demo-') and 'Regularization path' in page; "
        "print('loaded', *{'sklearn'} & set(sys.modules))"
    )
    done = run("-c", code, command=(sys.executable,), TMPDIR=str(tmp_path))
    assert done.stdout.splitlines()[-1].strip() == "loaded", done.stderr


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("rows", ["1", "2"])
def test_demo_of_hardly_any_rows(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--rows", rows, "--l1", "0"]) == 0
    assert "FTRLProximal" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_the_examples_of_the_demo_run(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.strip() for line in EPILOG.splitlines()]
    examples = [line.split()[1:] for line in lines if line.startswith("proxstream ")]
    assert len(examples) == 2
    for example in examples:
        assert cli.main(example) == 0
        assert "certif" in capsys.readouterr().out


def test_version() -> None:
    for command in ((str(SCRIPT),), (sys.executable, "-m", "proxstream")):
        done = run("--version", command=command)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"proxstream {ps.__version__}\n", "")


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: proxstream [OPTIONS] COMMAND")
    assert re.search(r"^  demo +\S.*\.$", done.stdout, flags=re.MULTILINE)
    assert run().stdout == done.stdout


def test_help_of_a_command_shows_its_options_and_defaults() -> None:
    done = run("demo", "--help", command=(sys.executable, "-m", "proxstream"))
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: proxstream demo [OPTIONS]")
    for option in ("--rows", "--l1", "--seed", "default: 1000", "default: auto"):
        assert option in done.stdout


def test_help_does_not_wait_for_numpy() -> None:
    code = (
        "import sys; from proxstream.cli import main; main(['--help']); main(['demo', '--help']); "
        "print('loaded', *{'numpy', 'scipy', 'numba'} & set(sys.modules))"
    )
    assert run("-c", code, command=(sys.executable,)).stdout.splitlines()[-1].strip() == "loaded"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--fast"], "--fast"),
        (["fly"], "fly"),
        (["demo", "--rowz", "3"], "--rowz"),
        (["demo", "--rows"], "--rows"),
        (["demo", "--rows", "many"], "--rows"),
        (["demo", "--rows", "0"], "--rows"),
        (["demo", "--l1", "-1"], "--l1"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "clicks.svm"], "clicks.svm"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    args: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("proxstream")
    assert expected in err
    assert err.count("\n") == 1
    assert err.rstrip().endswith("--help")


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_strength_that_is_no_number_is_bad_usage(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--rows", "5", "--l1", number]) == 2
    assert "--l1" in capsys.readouterr().err


def test_the_script_exits_with_the_code_of_main() -> None:
    done = run("demo", "--rowz", "3")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


def test_an_interrupt_is_exit_code_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from proxstream.cli import demo_data as clicks

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(clicks, "make", interrupted)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr().err.strip() == "proxstream: interrupted"
