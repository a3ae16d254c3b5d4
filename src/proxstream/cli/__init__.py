"""The command line: `proxstream COMMAND`, one module per command.

The module of a command defines its options, its help and its output. NumPy, rich and the rest of the package are
imported when a command runs, so that `--help` and `--version` are instant. To add a command, write its function in a
new module and register it below.

Exit codes: 0 success, 1 bad data or a file that cannot be read or written, 2 bad usage, 130 interrupted; errors are one
line on stderr. A closed output pipe, as with `| head`, ends a command quietly.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from .. import jit
from . import certify, convert, evaluate, inspect, predict, reproduce, train
from .common import Stopped, UsageError, error_line, guarded
from .demo import EPILOG as DEMO, demo

NEW_OBJECTS = 100_000  # allocations between garbage collections: scanning all imported objects takes 0.1 s
DONE, BAD_DATA, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(name="proxstream", add_completion=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def proxstream(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Sparse linear models from streams: online learners with regret bounds."""
    if version:
        from .. import __version__

        typer.echo(f"proxstream {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command(context_settings={"ignore_unknown_options": True}, epilog=train.EPILOG)(guarded(train.train))
app.command(epilog=predict.EPILOG)(guarded(predict.predict))
app.command(epilog=evaluate.EPILOG)(guarded(evaluate.evaluate))
app.command(epilog=inspect.EPILOG)(guarded(inspect.inspect))
app.command(epilog=certify.EPILOG)(guarded(certify.certify))
app.command(epilog=convert.EPILOG)(guarded(convert.convert))
app.command(epilog=reproduce.EPILOG)(guarded(reproduce.reproduce))
app.command(epilog=DEMO)(guarded(demo))


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line on `args` (default: sys.argv) and return the exit code.

    >>> main(["demo", "--rows", "some"])
    2
    """
    if args is None:  # the process runs this command only
        jit.LOOK_FOR_BLAS = False
        gc.set_threshold(NEW_OBJECTS)
    try:
        # Without standalone mode typer returns the code of a typer.Exit, or None.
        words = list(sys.argv[1:] if args is None else args)
        code = app(words, prog_name="proxstream", standalone_mode=False)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "proxstream"
        message = " ".join(error.format_message().split()).rstrip(".")
        print(f"{command}: {message}; see {command} --help", file=sys.stderr)
        return BAD_USAGE
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return INTERRUPTED
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except (ValueError, FloatingPointError, OSError, MemoryError) as error:
        print(error_line(error), file=sys.stderr)
        return BAD_DATA
    if code == INTERRUPTED:
        print("proxstream: interrupted", file=sys.stderr)
    return int(code or DONE)
