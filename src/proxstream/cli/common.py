"""What commands share: options of one meaning, models and data opened, plain tables, and how a command ends early."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from glob import glob
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .._paths import named

if TYPE_CHECKING:
    from ..blocks import RowBlock
    from ..model import Model
    from ..streams import Chunk, Stream
    from ..training.labels import Labels

ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")]
Data = Annotated[list[str], typer.Argument(metavar="DATA", help="Files, globs, URIs, or - for standard input.")]
Format = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="svmlight, vw, csv, tsv, jsonl, parquet, arrow or cache; told by the name."),
]
OneBased = Annotated[
    bool | None, typer.Option("--one-based/--zero-based", help="svmlight: how indices count; as in training.")
]
OnError = Annotated[
    str, typer.Option(metavar="WHAT", help="Bad rows: stop, skip, or quarantine FILE to keep them there.")
]
Quarantine = Annotated[str | None, typer.Option(hidden=True)]
Categorical = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Take as categories; repeatable.")]
Numeric = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Take as numbers; repeatable.")]
Text = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN[=GRAMS]", help="Take as text: words:1-2, chars:3; repeatable.")
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Leave out; repeatable.")]
Nulls = Annotated[list[str] | None, typer.Option(metavar="WORD", help="Take for missing, as NA or nan; repeatable.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Tell it as JSON.")]


# -- how a command ends --------------------------------------------------------------------------

# typer has lent its exceptions from click and then moved them; that BadParameter is a UsageError has stayed.
UsageError: Any = typer.BadParameter.__base__


class Stopped(Exception):  # noqa: N818 - asked for, no error
    """An interrupt that was waited for: the message tells how to go on. Exit code 130."""


@contextmanager
def usage() -> Iterator[None]:
    """Let what a part of the package says against its parameters be bad usage."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def spelled_out(args: Sequence[str]) -> list[str]:
    """Return the words of a command line with `--on-error quarantine FILE` as the two options that it stands for.

    >>> spelled_out(["train", "a.svm", "--on-error", "quarantine", "bad.txt"])
    ['train', 'a.svm', '--on-error', 'quarantine', '--quarantine', 'bad.txt']
    """
    words = [part for word in args for part in (word.split("=", 1) if word.startswith("--on-error=") else [word])]
    for i in range(len(words) - 2):
        if words[i : i + 2] == ["--on-error", "quarantine"] and not words[i + 2].startswith("-"):
            return [*words[: i + 2], "--quarantine", *words[i + 2 :]]
    return words


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command end quietly when its reader goes away, as `| head` does."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            with named("stdout"):  # all other files have told their names
                command(*args, **options)
                sys.stdout.flush()
        except BrokenPipeError:
            # What is still in the buffer would be written, and refused, when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None

    return run


def told(error: BaseException) -> str:
    """Return an error as one line.

    >>> told(FileNotFoundError(2, "No such file or directory", "rows.svm"))
    'rows.svm: No such file or directory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def check_places(outputs: Mapping[str, str | None], inputs: Iterable[str | None]) -> None:
    """Refuse to write over a file that is read, or two files to one place; `outputs` are told by their options."""
    found = {os.path.realpath(path) for word in inputs if word for path in (word, *glob(word)) if os.path.isfile(path)}
    taken: dict[str, str] = {}
    for option, path in outputs.items():
        if not path or (os.path.exists(path) and not os.path.isfile(path)):  # a pipe or a device takes all that comes
            continue
        place = os.path.realpath(path)
        if place in found:
            raise UsageError(f"{option} {path} would be written over what is read")
        if place in taken:
            raise UsageError(f"{option} {path} would be written over {taken[place]}")
        taken[place] = option


# -- models and data -----------------------------------------------------------------------------


class Bad(NamedTuple):
    """What becomes of bad rows."""

    on_error: str = "stop"
    quarantine: str | None = None

    def check(self, inputs: Iterable[str]) -> None:
        """Raise a UsageError unless the two go together, and no input is written over."""
        from ..streams.faults import Faults

        with usage():
            Faults(*self)
        check_places({"--on-error quarantine": self.quarantine}, inputs)


def open_data(
    model: Model,
    data: list[str],
    format: str | None,
    one_based: bool | None = None,
    *,
    bad: Bad | None = None,
    labelled: bool = False,
) -> Stream:
    """Open data as the model's own were read; if their labels count, those must be the model's."""
    from ..streams import open_stream
    from ..training.run import NUMBERED

    reading = {**model.reading, **(bad or Bad())._asdict()}
    if labelled and not model.learner.ranking:
        reading["labels"] = labels_of(model).told
    if one_based is not None:
        reading["zero_based"] = not one_based
    if model.features is not None:
        reading["features"] = features_of(model)
    stream = open_stream(data if len(data) > 1 else data[0], format, dtype=model.learner.dtype, **reading)
    if model.features is None and model.reading:  # of `train`: an estimator does not tell what it has learned from
        for name, kind in zip(stream.names, stream.formats, strict=True):
            if kind not in NUMBERED:
                stream.close()
                raise ValueError(f"{name}: found names of features ({kind}), expected numbers, as the model knows them")
    return stream


def features_of(model: Model) -> Any:
    """Return what makes features as the model's own were made; names that it does not know have none."""
    from ..streams.features import FeatureSpec
    from ..streams.featurizer import Featurizer

    featurizer = Featurizer(FeatureSpec.from_json(model.features or {}), model.learner.dtype, growing=False)
    if model.names:
        featurizer.restore(model.names)
    return featurizer


def grams_of(words: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return columns of text with their n-grams.

    >>> grams_of(["review", "title=chars:3"])
    [('review', 'words'), ('title', 'chars:3')]
    """
    return [(column, grams or "words") for column, _, grams in (word.partition("=") for word in words or ())]


def labels_of(model: Model) -> Labels:
    """Return how the model reads labels."""
    from ..training.labels import Labels

    several = model.learner.n_outputs > 1
    if several and any(isinstance(label, str) for label in model.classes):
        raise ValueError(f"the model's classes are texts, {', '.join(model.classes)}, which data files have not")
    usual = not several and tuple(model.classes) in ((-1.0, 1.0), (0.0, 1.0))
    return Labels(model.loss, () if usual else tuple(model.classes))


class Labelled:
    """A stream whose labels are those of a model's loss; it can be read again if the stream can.

    A label that is missing, or is none of the model's, is a ValueError that tells its place, or its row is left out.
    `skipped` counts the rows that were left out for any reason, in the pass that ran last.
    """

    def __init__(self, model: Model, stream: Stream, *, skip: bool = False) -> None:
        self._labels, self._skip, self.skipped = labels_of(model), skip, 0
        self._ranks, self.stream = model.learner.ranking, stream

    def chunks(self) -> Iterator[Chunk]:
        """Yield chunks."""
        unknown = 0
        for chunk in self.stream.chunks():
            rows = chunk.rows
            if not self._ranks:
                rows = self._labels.read_chunk(chunk, self.stream.names, skip=self._skip).rows
                unknown += chunk.rows.n_rows - rows.n_rows
            yield chunk._replace(rows=rows)
        self.skipped = self.stream.skipped + unknown

    def __iter__(self) -> Iterator[RowBlock]:
        return (chunk.rows for chunk in self.chunks())


# -- what is shown -------------------------------------------------------------------------------


def show(lines: Iterable[str]) -> None:
    """Print lines; a line that begins with # is a heading."""
    bold = sys.stdout.isatty()
    for line in lines:
        heading = line.startswith("# ")
        text = line[2:] if heading else line
        print(typer.style(text, bold=True) if heading and bold else text)


def facts(pairs: Iterable[tuple[str, Any]]) -> list[str]:
    """Return names and values as lines, the values aligned.

    >>> facts([("rows", 1200), ("log_loss", 0.25)])
    ['rows      1,200', 'log loss  0.25']
    """
    told = [(name.replace("_", " "), cell(value)) for name, value in pairs]
    width = max((len(name) for name, _ in told), default=0)
    return [f"{name:<{width}}  {value}" for name, value in told]


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 0) -> list[str]:
    """Return a table as lines; all columns but the first `left` are aligned at their right ends.

    >>> table(("class", "weight"), [(1, 20), (2, 3.5)])
    ['class  weight', '    1      20', '    2     3.5']
    """
    cells = [list(columns), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]

    def line(row: list[str]) -> str:
        fitted = enumerate(zip(row, widths, strict=True))
        padded = [text.ljust(width) if i < left else text.rjust(width) for i, (text, width) in fitted]
        return "  ".join(padded).rstrip()

    return [line(row) for row in cells]


def cell(value: Any) -> str:
    """Return a value as it is shown: six digits, thousands apart.

    >>> cell(1234567), cell(0.123456789), cell(float("nan")), cell(1e-9), cell(None)
    ('1,234,567', '0.123457', '-', '1e-09', '-')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def print_json(value: Any) -> None:
    """Print JSON; numbers that are none are null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if hasattr(value, "item"):
            value = value.item()
        return None if isinstance(value, float) and not math.isfinite(value) else value

    print(json.dumps(plain(value), indent=2, allow_nan=False))
