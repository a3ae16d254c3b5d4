"""`proxstream convert`: data from format to format, and models for other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Annotated, Any, BinaryIO

import typer

from .common import (
    Bad,
    Categorical,
    Drop,
    Format,
    Nulls,
    Numeric,
    OnError,
    Quarantine,
    Text,
    check_places,
    features_of,
    grams_of,
    usage,
)

MODELS = {".json": "json", ".txt": "text", ".onnx": "onnx"}

EPILOG = """\b
Examples:
  proxstream convert rows.svm rows.psr
  proxstream convert rows.svm rows.vw
  proxstream convert rows.svm.gz out.svm
  proxstream convert clicks.csv clicks.parquet
  proxstream convert model.psm model.json
  proxstream convert model.psm model.txt
"""


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file of data, or a model file.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="Where it goes; its ending tells the format.")],
    to: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Format of OUT: a data format, or json, text or onnx of a model."),
    ] = None,
    format: Format = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Read the data as this model does: its features.")
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: the label.")] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: the rows' weights.")] = None,
    qid: Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: the rows' queries.")] = None,
    bits: Annotated[
        int, typer.Option(metavar="B", help="Hash names into 2^B buckets; 0: number them as they come.")
    ] = 22,
    cross: Annotated[list[str] | None, typer.Option(metavar="A*B", help="Products of columns; repeatable.")] = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    text: Text = None,
    drop: Drop = None,
    nulls: Nulls = None,
    names: Annotated[bool, typer.Option("--names", help="Keep names of features in a cache, for inspect.")] = False,
    one_based: Annotated[bool, typer.Option("--one-based", help="svmlight: subtract 1 from indices.")] = False,
    dtype: Annotated[str, typer.Option(metavar="TYPE", help="float32 or float64, of the values.")] = "float32",
    on_error: OnError = "stop",
    quarantine: Quarantine = None,
) -> None:
    """Convert data to another format, or a model to JSON, readable text or ONNX.

    Rows of any format become svmlight, Vowpal Wabbit text, or a row cache (.psr), which is read many times faster;
    tables become other tables. OUT is written whole or not at all.
    """
    if target == "-":
        raise typer.BadParameter("OUT is written whole: it must be a file, not standard output")
    if is_model(source):
        check_places({"OUT": target}, [source])
        _convert_model(source, target, to)
        return
    bad = Bad(on_error, quarantine)
    bad.check([source, target])
    told: dict[str, Any] = {
        "label": label,
        "weight": weight,
        "qid": qid,
        "bits": bits or None,
        "crosses": cross or (),
        "names": names,
    }
    told |= {"categorical": categorical or (), "numeric": numeric or (), "drop": drop or (), "nulls": nulls or ()}
    told["text"] = grams_of(text)
    reading: dict[str, Any] = {"zero_based": not one_based, "dtype": dtype}
    if model is not None:
        from ..modelfile import load_model

        made = load_model(model)
        reading |= {**made.reading, "dtype": made.learner.dtype}
        told = {} if made.features is None else {"made": features_of(made)}
    reading |= bad._asdict()
    _convert_data(source, target, to, format, reading, told)


def is_model(path: str) -> bool:
    """Tell whether a file begins as model files do: a length that fits in, and a brace.

    The first bytes of a text, taken for a length, are far beyond its size.
    """
    try:
        with open(path, "rb") as file:
            start, size = file.read(9), os.fstat(file.fileno()).st_size
    except OSError:
        return False
    return len(start) == 9 and int.from_bytes(start[:8], "little") <= size - 8 and start[8:] == b"{"


def _convert_model(source: str, target: str, to: str | None) -> None:
    from ..modelfile import load_model, replacing
    from ..modelfile.exports import EXPORTS, MissingExtraError

    name = to or MODELS.get(PurePath(target).suffix.lower(), "")
    if name not in EXPORTS:
        told = f"told by --to or an ending {', '.join(MODELS)}"
        raise typer.BadParameter(f"a model is converted to {', '.join(EXPORTS)}, {told}; got {target!r}")
    made = load_model(source)
    try:
        pieces = iter(EXPORTS[name](made))
    except MissingExtraError as error:
        raise typer.BadParameter(str(error)) from None
    with replacing(target) as out:
        for piece in pieces:
            out.write(piece)


def _convert_data(
    source: str, target: str, to: str | None, format: str | None, reading: dict[str, Any], told: dict[str, Any]
) -> None:
    from ..modelfile import replacing
    from ..streams import formats, open_stream, write_cache
    from ..streams.features import FeatureSpec
    from ..streams.retabling import TABLES, retable
    from ..streams.sources import sources
    from ..streams.writing import WRITERS

    with usage():
        read = formats.get(format) if format is not None else None
        wanted = formats.get(to or _format_of(target))
        features = told.get("made") or FeatureSpec(**told)
    found = sources(source)
    kinds = {(read or formats.tell(one)).name for one in found}
    if wanted.name in TABLES:
        if len(found) > 1 or not kinds <= set(TABLES):
            raise typer.BadParameter(
                f"rows of numbered features are written as {', '.join(WRITERS)} or cache, and one table as another "
                f"({', '.join(TABLES)}); got {', '.join(sorted(kinds))} to {wanted.name}"
            )
        if reading["on_error"] != "stop":
            raise typer.BadParameter("--on-error is for rows: a table becomes another table whole")
        with replacing(target) as out, _compressed(out, target) as inner:
            retable(found[0], kinds.pop(), inner, wanted.name)
        return
    with open_stream(source, format, features=features, **reading) as stream:
        if wanted.name == "cache":
            write_cache(stream, target)
        else:
            with replacing(target) as out, _compressed(out, target) as inner:
                for piece in WRITERS[wanted.name](stream.chunks()):
                    inner.write(piece)
        if stream.skipped:
            print(f"{', '.join(stream.names)}: {stream.skipped:,} bad rows skipped", file=sys.stderr)


def _format_of(target: str) -> str:
    """Return the format that an ending tells."""
    from ..streams.formats import FORMATS
    from ..streams.sources import COMPRESSIONS

    path = PurePath(target)
    if path.suffix.lower() in COMPRESSIONS:
        path = path.with_suffix("")
    for name, known in FORMATS.items():
        if path.suffix.lower() in known.extensions:
            return name
    endings = ", ".join(ending for known in FORMATS.values() for ending in known.extensions)
    raise ValueError(f"the ending of {target!r} tells no format; give --to, or one of {endings}")


@contextmanager
def _compressed(out: BinaryIO, target: str) -> Iterator[Any]:
    """Compress what is written if the ending of the target says so."""
    from ..streams.sources import COMPRESSIONS

    codec = COMPRESSIONS.get(PurePath(target).suffix.lower())
    if codec is None:
        yield out
        return
    import pyarrow as pa

    with pa.CompressedOutputStream(pa.PythonFile(_StaysOpen(out), "w"), codec) as inner:
        yield inner


class _StaysOpen:
    """A file that the end of its compression does not close."""

    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self.write, self.flush, self.tell = out.write, out.flush, out.tell

    def close(self) -> None:
        """Do nothing."""
