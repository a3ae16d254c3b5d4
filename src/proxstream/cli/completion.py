"""Completion of commands and options in a shell: its script, and where each shell looks for one."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click import UsageError
from click.shell_completion import get_completion_class

NAME, VARIABLE = "proxstream", "_PROXSTREAM_COMPLETE"
# The file of the script, and the line of a start-up file that loads it, by shell; fish looks by itself.
PLACES = {
    "bash": (f".bash_completions/{NAME}.sh", ".bashrc", f". ~/.bash_completions/{NAME}.sh"),
    "zsh": (f".zfunc/_{NAME}", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (f".config/fish/completions/{NAME}.fish", None, ""),
}


def script(program: click.Command, shell: str) -> str:
    """Return the completion script of a shell; an empty name is that of the login shell."""
    kind = get_completion_class(_named(shell))
    if kind is None:
        raise UsageError(f"completion is for {', '.join(PLACES)}; got {_named(shell)!r}")
    return kind(program, {}, NAME, VARIABLE).source()


def install(program: click.Command, shell: str) -> str:
    """Write the completion script of a shell where it is found, and return a message that says where that is."""
    shell = _named(shell)
    if shell not in PLACES:
        raise UsageError(f"completion can be installed for {', '.join(PLACES)}; got {shell!r}")
    place, start_file, line = PLACES[shell]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script(program, shell), encoding="utf-8")
    if start_file is not None:
        _add_line(Path.home() / start_file, line)
    return f"completion for {shell} installed in {path}; it takes effect in a new shell"


def _named(shell: str) -> str:
    """Return the name of a shell in lower case, or of the login shell if it is empty."""
    return (shell or os.path.basename(os.environ.get("SHELL", ""))).lower()


def _add_line(path: Path, line: str) -> None:
    """Add a line to a file that does not have it yet."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if line not in text.splitlines():
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")
