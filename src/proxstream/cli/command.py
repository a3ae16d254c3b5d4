"""Commands as this package shows and runs them: click's, with a few habits added.

The help lists arguments, and options under headings. A misspelled option or command is answered with the nearest ones.
A command ends quietly when its reader closes the pipe, as `| head` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click


class Argument(click.Argument):
    """A positional argument with a line in the help; click knows `help` of arguments only since version 8.5."""

    def __init__(self, name: str, line: str, **attributes: Any) -> None:
        super().__init__([name], **attributes)
        self.line = line

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return the line of the help in two columns."""
        return self.human_readable_name.strip("[.]"), self.line + "  [required]" * self.required


class Command(click.Command):
    """A command whose options are under headings, by `sections`."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[click.Option]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.sections = sections

    def make_parser(self, ctx: click.Context) -> Any:
        """Return a parser that knows -o at once: click looks for it among the long options and for words like it."""
        parser: Any = super().make_parser(ctx)
        for name, option in getattr(parser, "_short_opt", {}).items():
            getattr(parser, "_long_opt", {}).setdefault(name, option)
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command; an error knows its command and suggests options."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise unknown("option", error.option_name, known_options(self), ctx) from None
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> None:
        """Run the command."""
        from ..io.atomic import named

        try:
            with named("stdout"):  # errors of other files name them already
                super().invoke(ctx)
                sys.stdout.flush()
        except BrokenPipeError:
            # Otherwise Python would fail to flush the buffer at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments, then options by section."""
        arguments = [parameter for parameter in self.params if isinstance(parameter, Argument)]
        listed: dict[str, list[click.Parameter]] = {"Arguments": [*arguments]}
        listed |= {title: [*options] for title, options in self.sections.items()}
        if (help_option := self.get_help_option(ctx)) is not None:
            listed[next(reversed(listed))].append(help_option)
        for title, parameters in listed.items():
            records = [parameter.get_help_record(ctx) for parameter in parameters]
            if shown := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(shown)


def command(
    epilog: str,
    arguments: Sequence[Argument] = (),
    options: Sequence[click.Option] | Mapping[str, Sequence[click.Option]] = (),
    *,
    kind: type[Command] = Command,
    **settings: Any,
) -> Callable[[Callable[..., None]], Command]:
    """Return a decorator that makes a command of a function, whose docstring is the help.

    Parameters
    ----------
    epilog : str
        Examples, after the help.
    arguments, options : of the command, in the order of the help; options also by heading
    kind : class of the command
    settings : context settings of click
    """
    sections = options if isinstance(options, Mapping) else {"Options": options}
    params = [*arguments, *(option for section in sections.values() for option in section)]
    return click.command(cls=kind, epilog=epilog, params=params, sections=sections, context_settings=settings)


class Program(click.Group):
    """Commands by name, with one line about each; the module of a command is imported when the command is used."""

    def __init__(self, *args: Any, lines: Mapping[str, str], package: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.lines, self.package = lines, package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return [*self.lines]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None."""
        if cmd_name not in self.lines:
            return None
        found: click.Command = getattr(import_module(f"{self.package}.{cmd_name}"), cmd_name)
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words before the command."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise unknown("option", error.option_name, known_options(self), ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words name."""
        if args[0] not in self.lines and not ctx.resilient_parsing:
            raise unknown("command", args[0], self.lines, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one line per command."""
        with formatter.section("Commands"):
            formatter.write_dl([*self.lines.items()])


def known_options(command: click.Command) -> list[str]:
    """Return the options of a command that are not hidden."""
    shown = (option for option in command.params if isinstance(option, click.Option) and not option.hidden)
    return ["--help", *(word for option in shown for word in (*option.opts, *option.secondary_opts))]


def unknown(kind: str, word: str, known: Iterable[str], ctx: click.Context | None = None) -> click.UsageError:
    """Return the error of an unknown word, with the nearest known ones.

    >>> unknown("command", "trian", ["train", "predict"]).message
    'No such command: trian (did you mean train?)'
    """
    from difflib import get_close_matches

    near = " or ".join(get_close_matches(word, [*known], n=2, cutoff=0.7))
    return click.UsageError(f"No such {kind}: {word}" + (f" (did you mean {near}?)" if near else ""), ctx)
