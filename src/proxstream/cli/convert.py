"""`proxstream convert`: converts data between formats, and exports models."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

from click import Option, UsageError

from .command import Argument, command
from .common import BadRows, check_places, feature_options
from .errors import usage
from .options import BAD_ROWS, FEATURES, FILE, FORMAT, ONE_BASED

if TYPE_CHECKING:
    from ..io import Stream

MODELS = {".json": "json", ".txt": "text", ".onnx": "onnx"}

EPILOG = """\b
Examples:
  proxstream convert rows.svm rows.psr
  proxstream convert rows.svm rows.vw
  proxstream convert rows.svm.gz out.svm
  proxstream convert clicks.csv clicks.psr
  proxstream convert model.psm model.json
  proxstream convert model.psm model.txt
"""


@command(
    EPILOG,
    [
        Argument("source", "A file of data, or a model file.", metavar="IN", type=FILE),
        Argument(
            "target",
            "The file to write, as -o; its extension sets the format.",
            metavar="[OUT]",
            type=FILE,
            required=False,
        ),
    ],
    {
        "Options": [
            Option(["--output", "-o"], metavar="OUT", type=FILE, help="The file to write."),
            Option(["--to"], metavar="NAME", help="Format of OUT: a data format, or json, text or onnx of a model."),
            FORMAT,
            Option(["--model"], metavar="MODEL", type=FILE, help="Make features as this model does."),
            ONE_BASED,
            Option(["--dtype"], default="float32", metavar="TYPE", help="Precision of the values: float32 or float64."),
            Option(
                ["--classes"],
                metavar="LABELS",
                help="Label texts: no,yes become -1,1; more become 0,1,2,... [default: found]",
            ),
            *BAD_ROWS,
        ],
        "Features": [
            *FEATURES,
            Option(["--names"], is_flag=True, help="Store feature names in a cache, for inspect."),
            Option(
                ["--no-standardize"], is_flag=True, help="Write a cache whose numbers are learned in their own units."
            ),
        ],
    },
)
def convert(source: str, target: str | None, output: str | None, **options: Any) -> None:
    """Convert data to another format, or a model to JSON, readable text or ONNX.

    Rows of any format become svmlight, Vowpal Wabbit text, or a row cache (.psr), which is read many times faster.
    OUT is replaced atomically.
    """
    if (target is None) == (output is None):
        raise UsageError("give the file to write, as -o OUT")
    target = output or target or ""
    if target == "-":
        raise UsageError("convert cannot write to standard output; pass a file")
    model, to = options["model"], options["to"]
    check_places({"-o": target}, [source, model])
    if is_model(source):
        _convert_model(source, target, to)
        return
    bad = BadRows(options["on_error"], options["quarantine"])
    bad.check([source, target])
    if options["offset"] is not None:
        raise UsageError("--offset: svmlight, vw and row caches have no offsets; train from the table itself")
    spec = feature_options(options)
    reading: dict[str, Any] = {
        "zero_based": not options["one_based"],
        "dtype": options["dtype"],
        "max_features": 1 << 31,
    }
    if options["classes"] is not None:
        from ..core import losses
        from ..data.labels import text_numbers
        from ..training.config import parse_classes

        with usage():
            reading["label_texts"] = text_numbers(losses.logistic, parse_classes(options["classes"]))
    if model is not None:
        from ..data.labels import text_numbers
        from ..models.file import load_model

        fitted = load_model(model)
        reading |= {**fitted.reading, "dtype": fitted.learner.dtype}
        reading["label_texts"] = text_numbers(fitted.loss, fitted.classes)
        spec = {} if fitted.features is None else {"featurizer": fitted.featurizer()}
    reading |= bad.stream_options()
    _convert_data(source, target, to, options["format"], reading, spec)


def is_model(path: str) -> bool:
    """Return whether a file starts like a model file: a length within the file, then a brace.

    The first bytes of a text, read as a length, are far beyond its size.
    """
    try:
        with open(path, "rb") as file:
            start, size = file.read(9), os.fstat(file.fileno()).st_size
    except OSError:
        return False
    return len(start) == 9 and int.from_bytes(start[:8], "little") <= size - 8 and start[8:] == b"{"


def _convert_model(source: str, target: str, to: str | None) -> None:
    from ..io.atomic import replacing
    from ..models.exports import EXPORTS, MissingExtraError
    from ..models.file import load_model

    name = to or MODELS.get(PurePath(target).suffix.lower(), "")
    if name not in EXPORTS:
        raise UsageError(
            f"a model can be exported as {', '.join(EXPORTS)}: use --to, or an extension {', '.join(MODELS)}; "
            f"got {target!r}"
        )
    fitted = load_model(source)
    try:
        pieces = iter(EXPORTS[name](fitted))
    except MissingExtraError as error:
        raise UsageError(str(error)) from None
    with replacing(target) as out:
        for piece in pieces:
            out.write(piece)


def _convert_data(
    source: str, target: str, to: str | None, format: str | None, reading: dict[str, Any], spec: dict[str, Any]
) -> None:
    from ..io import formats, open_stream, write_cache
    from ..io.atomic import replacing
    from ..io.features.spec import FeatureSpec
    from ..io.writers import WRITERS

    with usage():
        wanted = formats.get(to or _format_of(target))
        prepared = {"standardize": wanted.name == "cache" and spec.get("standardize", False)}
        features = spec.get("featurizer") or FeatureSpec(**spec | prepared)
    if wanted.name not in (*WRITERS, "cache"):
        raise UsageError(
            f"rows are written as {', '.join(WRITERS)} or cache, got {wanted.name}; "
            "use pyarrow, polars or duckdb to convert tables to other tables"
        )
    with open_stream(source, format, features=features, **reading) as opened:
        stream = opened if reading.get("label_texts") else _with_label_numbers(opened)
        if wanted.name == "cache":
            write_cache(stream, target)
        else:
            with replacing(target) as out, _compressed(out, target) as inner:
                for piece in WRITERS[wanted.name](stream.chunks()):
                    inner.write(piece)
        if stream.skipped:
            print(f"{', '.join(stream.names)}: {stream.skipped:,} bad rows skipped", file=sys.stderr)


def _with_label_numbers(stream: Stream) -> Stream:
    """Return a stream whose labels, if they are texts, are numbers as `train` has them, and print which."""
    from ..io.types import DataError
    from ..training.classes import number_label_texts

    try:
        numbers = number_label_texts(stream, lambda text: print(text, file=sys.stderr))
    except DataError:  # rows without labels are converted too; what else is wrong is reported as they are read
        return stream
    if numbers is None:
        return stream
    named = ", ".join(f"{text} = {number:g}" for text, number in numbers.items())
    print(f"labels: {named}", file=sys.stderr)
    return stream.with_label_texts(numbers)


def _format_of(target: str) -> str:
    """Return the format of a file extension."""
    from ..io.formats import FORMATS
    from ..io.sources import COMPRESSIONS

    path = PurePath(target)
    if path.suffix.lower() in COMPRESSIONS:
        path = path.with_suffix("")
    for name, known in FORMATS.items():
        if path.suffix.lower() in known.extensions:
            return name
    endings = ", ".join(ending for known in FORMATS.values() for ending in known.extensions)
    raise ValueError(f"cannot infer the format of {target!r}: use --to, or an extension {endings}")


@contextmanager
def _compressed(out: BinaryIO, target: str) -> Iterator[Any]:
    """Compress the output if the extension of the target says so."""
    from ..io.sources import COMPRESSIONS

    codec = COMPRESSIONS.get(PurePath(target).suffix.lower())
    if codec is None:
        yield out
        return
    import pyarrow as pa

    with pa.CompressedOutputStream(pa.PythonFile(_StaysOpen(out), "w"), codec) as inner:
        yield inner


class _StaysOpen:
    """A file that a compressor does not close."""

    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self.write, self.flush, self.tell = out.write, out.flush, out.tell

    def close(self) -> None:
        """Do nothing."""
