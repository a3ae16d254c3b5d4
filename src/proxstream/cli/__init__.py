"""The command line: `proxstream COMMAND`, one module per command.

The module of a command defines its options, its help and its output; it is imported when the command is used, and
imports NumPy and the rest of the package when the command runs, so that `--help` and `--version` are instant. To add a
command, write its function in a new module of the same name and add its line below.

Exit codes: 0 success, 1 bad data or a file that cannot be read or written, 2 bad usage, 130 interrupted; errors are one
line on stderr. A closed output pipe, as with `| head`, ends a command quietly.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence

import click

from .. import jit
from .command import Program
from .errors import Stopped, error_line

_started = time.perf_counter()  # when the command did; the first one of a process with the process
NEW_OBJECTS = 100_000  # allocations between garbage collections: scanning all imported objects takes 0.1 s
DONE, BAD_DATA, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "train": "Train a model from files.",
    "predict": "Predict each row: one line per row.",
    "evaluate": "Measure a model on labelled data.",
    "inspect": "Show the contents of a model file.",
    "choose": "Choose a strength of the penalty among those stored in a model.",
    "certify": "Bound how far a model is from the optimum.",
    "convert": "Convert data between formats, or export a model.",
    "reproduce": "Run an experiment of the papers and compare the results.",
    "demo": "Run these commands and five learners on generated clicks.",
}


@click.group(
    cls=Program,
    lines=COMMANDS,
    package=__name__,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"show_default": True},
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.option("--verbose", is_flag=True, help="With --version: also Python, NumPy, numba and the compiled kernels.")
@click.option(
    "--show-completion",
    is_flag=False,
    flag_value="",
    metavar="[SHELL]",
    help="Print the completion script for bash, zsh or fish. [default: by $SHELL]",
)
@click.option(
    "--install-completion",
    is_flag=False,
    flag_value="",
    metavar="[SHELL]",
    help="Install completion for bash, zsh or fish. [default: by $SHELL]",
)
@click.pass_context
def program(
    context: click.Context, version: bool, verbose: bool, show_completion: str | None, install_completion: str | None
) -> None:
    """Sparse linear models from streams: online learners with regret bounds."""
    if version:
        click.echo("\n".join(_versions(verbose)))
    elif verbose:
        raise click.UsageError("--verbose applies to --version only")
    elif show_completion is not None:
        from .completion import script

        click.echo(script(program, show_completion), nl=False)
    elif install_completion is not None:
        from .completion import install

        click.echo(install(program, install_completion))
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())
    else:
        return
    context.exit()


def _versions(verbose: bool) -> list[str]:
    """Return the version and, if `verbose`, what speed and results may depend on."""
    from .. import __version__

    lines = [f"proxstream {__version__}"]
    if verbose:
        from importlib.metadata import version
        from platform import machine, python_version

        from ..jit import describe

        lines += [f"python {python_version()} ({sys.platform}, {machine()})"]
        lines += [f"{name} {version(name)}" for name in ("numpy", "numba")]
        lines += [describe()]
    return lines


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line on `args` (default: sys.argv) and return the exit code.

    >>> main(["demo", "--rows", "some"])
    2
    """
    global _started
    if args is not None:
        _started = time.perf_counter()
        return _run([*args])
    # The process runs this command only.
    jit.LOOK_FOR_BLAS = False
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # mimalloc gives pages back and asks for them again
    gc.set_threshold(NEW_OBJECTS)
    code = _run(sys.argv[1:])
    gc.freeze()  # otherwise Python looks for garbage among all objects as it exits: 0.1 s
    return code


def elapsed() -> float:
    """Return the seconds since the command started."""
    return time.perf_counter() - _started


def _run(words: list[str]) -> int:
    """Run a command and return its exit code; errors become one line."""
    try:
        # Without standalone mode click returns the code of an Exit, or None.
        code = program.main(words, prog_name="proxstream", standalone_mode=False)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "proxstream"
        message = " ".join(error.format_message().split()).rstrip(".")
        print(f"{command}: {message}; see {command} --help", file=sys.stderr)
        return BAD_USAGE
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return INTERRUPTED
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except (ValueError, FloatingPointError, OSError, MemoryError) as error:
        print(error_line(error), file=sys.stderr)
        return BAD_DATA
    if code == INTERRUPTED:
        print("proxstream: interrupted", file=sys.stderr)
    return int(code or DONE)
