"""How commands start: what they import, what they do not, and what they say about versions."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import proxstream as ps
from proxstream import cli

from ..training.training_cases import clicks

HEAVY = ("typer", "rich", "pydantic", "scipy", "sklearn", "pyarrow", "pandas")

# Runs commands, each in the words of one line of the argument, and prints the heavy modules imported with the importer.
WATCH = f"""
import sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in {HEAVY}:
            frame = sys._getframe(1)
            while frame.f_globals["__name__"].startswith("importlib"):
                frame = frame.f_back
            print("imported", name, frame.f_globals["__name__"])

sys.meta_path.insert(0, Watch())
from proxstream import jit
from proxstream.cli import main
jit.LOOK_FOR_BLAS = False  # as in a process of the command line
for line in sys.argv[1].splitlines():
    assert main(line.split()) == 0
"""


def run(code: str, *args: str, cwd: Path | None = None) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, cwd=cwd, check=True)
    return done.stdout.splitlines()


@pytest.mark.default_cases(2)
@pytest.mark.parametrize(
    "last",
    [
        "train clicks.svm -o other.psm --loss hinge --algorithm ftrl_proximal --l1 0.1",
        "predict model.psm clicks.svm --predict probabilities",
        "evaluate model.psm clicks.svm",
        "inspect model.psm",
    ],
)
def test_a_command_on_plain_text_imports_no_library_that_it_does_not_need(last: str, tmp_path: Path) -> None:
    clicks(tmp_path / "clicks.svm", 1000)
    lines = run(WATCH, f"train clicks.svm -o model.psm\n{last}", cwd=tmp_path)
    imported = {tuple(line.split()[1:]) for line in lines if line.startswith("imported ")}
    assert imported <= {("scipy", "numba")}  # numba looks at its version


@pytest.mark.parametrize("words", ["", "--help", "--version", "--show-completion bash"])
def test_help_and_version_import_click_and_nothing_else(words: str) -> None:
    code = (
        "import sys; before = set(sys.modules); from proxstream.cli import main; main(sys.argv[1].split())\n"
        "print('loaded', *{name for name in set(sys.modules) - before})"
    )
    loaded = set(run(code, words)[-1].split()[1:])
    assert {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names) <= {"proxstream", "click", "colorama"}
    own = {name for name in loaded if name.startswith("proxstream.")}
    assert own <= {f"proxstream.{name}" for name in ("jit", "cli", "cli.command", "cli.errors", "cli.completion")}


def test_verbose_version_without_importing_what_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version", "--verbose"]) == 0
    first, python, *libraries, kernels = capsys.readouterr().out.splitlines()
    assert first == f"proxstream {ps.__version__}"
    assert python.startswith(f"python {sys.version.split()[0]}")
    assert libraries == [f"{name} {version(name)}" for name in ("numpy", "numba")]
    assert "kernels" in kernels
    code = "import sys; from proxstream.cli import main; main(['--version', '--verbose']); print(*sys.modules)"
    assert {"numba", "llvmlite", "scipy"}.isdisjoint(run(code)[-1].split())


def test_verbose_is_for_the_version_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--verbose"]) == 2
    assert capsys.readouterr().err == "proxstream: --verbose applies to --version only; see proxstream --help\n"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_a_line_and_a_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: proxstream {name} [OPTIONS]")
    assert cli.main(["--help"]) == 0
    assert f"  {name:<9}  {cli.COMMANDS[name]}\n" in capsys.readouterr().out


def test_options_of_train_are_listed_under_headings(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    expected = ["Arguments", "Model", "Data", "Labels", "Features", "Held-out rows", "Run", "Output"]
    assert headings == [f"{name}:" for name in expected]
    for option in (
        "--l1 LAM|auto|LIST",
        "--label COLUMN",
        "--holdout-every N",
        "--resume",
        "--metrics-file FILE",
        "--help",
    ):
        assert text.count(f"  {option} ") == 1
    assert "--chunk-bytes" not in text


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        ("trian", "train"),
        ("--verison", "--version"),
        ("demo --rowz 3", "--rows"),
        ("predict m.psm rows.svm --predikt scores", "--predict"),
        ("train rows.svm -o m.psm --pases 2", "--passes"),
        ("train rows.svm -o m.psm --alpa 0.1", "--alpha"),  # a parameter of an algorithm
    ],
)
def test_a_misspelled_word_is_answered_with_the_nearest(
    words: str, suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words.split()) == 2
    assert f"(did you mean {suggestion}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("demo --rows many", "proxstream demo: Invalid value for '--rows': 'many' is not a valid integer"),
        ("demo --rows 0", "proxstream demo: Invalid value for '--rows': 0 is not in the range 1<=x<=20000"),
        ("demo --l1 much", "proxstream demo: Invalid value for '--l1': 'much' is not a valid number"),
        ("certify m.psm rows.svm --l1 nan", "proxstream certify: Invalid value for '--l1': must be a number, got nan"),
        ("demo --rows", "proxstream demo: Option '--rows' requires an argument"),
        ("predict m.psm", "proxstream predict: Missing argument 'DATA...'"),
        ("train rows.svm", "proxstream train: Missing option '--output' / '-o'"),
    ],
)
def test_bad_values_are_named_with_what_is_accepted(words: str, message: str, capsys: Any) -> None:
    assert cli.main(words.split()) == 2
    command = message.partition(":")[0]
    assert capsys.readouterr().err == f"{message}; see {command} --help\n"
