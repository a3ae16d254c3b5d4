"""Completion in shells: the scripts, what they offer, and where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proxstream import cli

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str, capsys: Captured) -> None:
    assert cli.main(["--show-completion", shell]) == 0
    assert f"_PROXSTREAM_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["ev"], ["evaluate"]), (["predict", "m.psm", "--pre"], ["--predict"]), (["inspect", "--t"], ["--top"])],
)
def test_bash_completes(words: list[str], expected: list[str], capsys: Captured) -> None:
    assert cli.main(["--show-completion", "bash"]) == 0
    quoted = " ".join(["proxstream", *words])
    script = (
        f"{capsys.readouterr().out}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}; COMPREPLY=()\n"
        '_proxstream_completion proxstream; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == expected


@pytest.mark.parametrize(
    ("shell", "script", "start_file"),
    [
        ("bash", ".bash_completions/proxstream.sh", ".bashrc"),
        ("zsh", ".zfunc/_proxstream", ".zshrc"),
        ("fish", ".config/fish/completions/proxstream.fish", None),
    ],
)
def test_completion_is_installed_once(
    shell: str, script: str, start_file: str | None, home: Path, capsys: Captured
) -> None:
    if start_file is not None:
        (home / start_file).write_text("alias ll='ls -l'")  # without an end of line
    for _ in range(2):
        assert cli.main(["--install-completion", shell]) == 0
        assert str(home / script) in capsys.readouterr().out
    assert cli.main(["--show-completion", shell]) == 0
    assert (home / script).read_text() == capsys.readouterr().out
    if start_file is not None:
        first, *added = (home / start_file).read_text().splitlines()
        assert first == "alias ll='ls -l'"
        assert len(added) == 1


def test_the_login_shell_is_the_default(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert cli.main(["--install-completion"]) == 0
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["proxstream.fish"]


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_other_shells_are_bad_usage(option: str, home: Path, capsys: Captured) -> None:
    assert cli.main([option, "tcsh"]) == 2
    assert "bash, zsh, fish; got 'tcsh'" in capsys.readouterr().err
    assert list(home.iterdir()) == []
