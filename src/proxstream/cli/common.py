"""Shared by all commands: checks of paths, opening models and data, plain tables."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import glob
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click import UsageError

from .errors import usage

if TYPE_CHECKING:
    from ..data.rowblock import RowBlock
    from ..io import Chunk, Stream
    from ..models.model import Model
    from ..training.labels import Labels

# -- files ----------------------------------------------------------------------------------------


def _real_paths(word: str) -> Iterator[str]:
    """Yield the real paths of the files that an input names."""
    if word.startswith("file:///"):
        from urllib.parse import unquote

        word = unquote(word.removeprefix("file://"))
    for path in (word, *glob(word, recursive=True)):
        if os.path.isfile(path):
            yield os.path.realpath(path)


def _is_stdin(path: str, inputs: Sequence[str | None]) -> bool:
    """Return whether a file is standard input, as in `- < path`."""
    try:
        return "-" in inputs and os.path.samestat(os.fstat(sys.stdin.fileno()), os.stat(path))
    except (OSError, ValueError):  # no such file yet, or no standard input
        return False


def check_places(outputs: Mapping[str, str | None], inputs: Sequence[str | None]) -> None:
    """Raise a UsageError if an output, by its option, is also an input or another output."""
    found = {place for word in inputs if word for place in _real_paths(word)}
    written: dict[str, str] = {}
    for option, path in outputs.items():
        if not path or (os.path.exists(path) and not os.path.isfile(path)):  # pipes and devices may be shared
            continue
        place = os.path.realpath(path)
        if place in found or _is_stdin(place, inputs):
            raise UsageError(f"{option} {path} is also an input file; choose another output")
        if place in written:
            raise UsageError(f"{option} {path} is also the file of {written[place]}; choose another")
        written[place] = option


# -- models and data -----------------------------------------------------------------------------


class BadRows(NamedTuple):
    """The options `--on-error` and `--quarantine`."""

    on_error: str = "stop"
    quarantine: str | None = None

    def check(self, inputs: Sequence[str]) -> None:
        """Raise a UsageError if they are invalid, or if an input would be overwritten."""
        from ..io import bad_rows

        with usage():
            bad_rows.BadRows(**self.stream_options())
        check_places({"--quarantine": self.quarantine}, inputs)

    @property
    def skip(self) -> bool:
        """Whether bad rows are left out."""
        return self.on_error != "stop" or self.quarantine is not None

    def stream_options(self) -> dict[str, Any]:
        """Return the options of `open_stream`."""
        from ..io.bad_rows import bad_row_options

        return bad_row_options(*self)


def load_strength(path: str, strength: float | None) -> Model:
    """Return the model of a file; if a strength is given, its model, which must be stored beside the chosen one."""
    from ..models.file import load_model

    model = load_model(path)
    return model if strength is None else choose_model(model, path, f"--strength {strength:g}", strength=strength)


def choose_model(model: Model, path: str, option: str, **rule: Any) -> Model:
    """Return the model that a rule chooses; a UsageError names its option and the file."""
    try:
        return model.choose(**rule)
    except ValueError as error:
        raise UsageError(f"{option}: {path}: {error}") from None


def open_data(
    model: Model,
    data: Sequence[str],
    format: str | None,
    one_based: bool | None = None,
    *,
    bad: BadRows | None = None,
    labelled: bool = False,
    max_features: int | None = None,
) -> Stream:
    """Open data as the training data of the model were read; with `labelled`, labels must be those of the model.

    Unknown features need no memory in prediction, so that any index is accepted unless a limit is given.
    """
    from ..io.formats import NUMBERED

    reading: dict[str, Any] = (bad or BadRows()).stream_options()
    if max_features is not None:
        reading["max_features"] = max_features
    if labelled and not model.learner.ranking:
        reading["labels"] = labels_of(model).accepted_labels
    if one_based is not None:
        reading |= {"zero_based": not one_based, "min_index": 0}
    stream = model.open(list(data) if len(data) > 1 else data[0], format, **reading)
    if (
        model.features is None and model.reading
    ):  # written by `train`; an estimator does not know the format of its rows
        for name, kind in zip(stream.names, stream.formats, strict=True):
            if kind not in NUMBERED:
                stream.close()
                raise ValueError(f"{name}: found named features ({kind}), but the model was trained on numbered ones")
    return stream


def feature_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `FeatureSpec` from the options `FEATURES` and `--names`."""
    same = ("label", "weight", "qid", "offset", "numeric", "categorical", "drop", "nulls", "names")
    spec = {name: options[name] for name in same}
    spec |= {"text": grams_of(options["text"]), "crosses": options["cross"], "bits": options["bits"] or None}
    return spec | {"standardize": options["bits"] < 31 and not options.get("no_standardize", True)}


def grams_of(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return text columns with their n-grams.

    >>> grams_of(["review", "title=chars:3"])
    [('review', 'words'), ('title', 'chars:3')]
    """
    return [(column, grams or "words") for column, _, grams in (word.partition("=") for word in words)]


def labels_of(model: Model) -> Labels:
    """Return the labels of the model."""
    from ..training.labels import make_labels

    default = model.learner.n_outputs == 1 and model.classes in ((-1.0, 1.0), (0.0, 1.0))
    return make_labels(model.loss, () if default else model.classes)


class Labelled:
    """A stream with the labels of a model's loss; it can be read again if the stream can.

    A row whose label is missing or not one of the model's is a ValueError with its place, or is skipped. `skipped`
    counts the rows skipped for any reason in the last pass.
    """

    def __init__(self, model: Model, stream: Stream, *, skip: bool = False) -> None:
        self._labels, self._skip, self.skipped = labels_of(model), skip, 0
        self._ranks, self.stream, self._model = model.learner.ranking, stream, model

    def chunks(self) -> Iterator[Chunk]:
        """Yield chunks."""
        unknown = 0
        for chunk in self.stream.chunks():
            if not self._ranks:
                found = self._labels.read_chunk(chunk, self.stream.names, skip=self._skip)
                unknown += chunk.rows.n_rows - found.rows.n_rows
                chunk = chunk._replace(rows=found.rows, offset=found.take(chunk.offset))
            yield chunk
        self.skipped = self.stream.skipped + unknown

    def __iter__(self) -> Iterator[RowBlock]:
        return (self._model.standardized(chunk.rows) for chunk in self.chunks())


# -- output -------------------------------------------------------------------------------


def show(lines: Iterable[str]) -> None:
    """Print lines; a line that starts with # is a heading."""
    bold = sys.stdout.isatty()
    for line in lines:
        heading = line.startswith("# ")
        text = line[2:] if heading else line
        print(click.style(text, bold=True) if heading and bold else text)


def facts(pairs: Iterable[tuple[str, Any]]) -> list[str]:
    """Return names and values as aligned lines.

    >>> facts([("rows", 1200), ("log_loss", 0.25)])
    ['rows      1,200', 'log loss  0.25']
    """
    shown = [(name.replace("_", " "), cell(value)) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    return [f"{name:<{width}}  {value}" for name, value in shown]


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 0) -> list[str]:
    """Return a table as lines; all columns but the first `left` are right-aligned.

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
    """Format a value: six digits, thousands separated.

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
    """Print JSON; NaN and infinities become null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if hasattr(value, "item"):
            value = value.item()
        return None if isinstance(value, float) and not math.isfinite(value) else value

    print(json.dumps(plain(value), indent=2, allow_nan=False))
