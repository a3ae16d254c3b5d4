"""The formats: which reader turns what into chunks, and how the format of a source is inferred.

A reader is a function of a `Job` that yields chunks of rows in order, beginning at `job.start`:

- a row that cannot be read is passed to `job.bad_rows.take(DataError("file:line:column: ..."), raw bytes)`, which
  raises, or returns if the row is to be left out;
- each chunk's `end` is `job.bad_rows.mark(Position(job.start.file, row, offset, check))`, where `check` is a checksum
  of the file so far (63 bits), seeded with `job.seed`; `row` and `offset` are the reader's own and enough to resume;
- when `job.start` is not the beginning of the file, what precedes it is checked against `job.start.check`, and a file
  that has changed is refused with `changed(job)`;
- a chunk may have no rows, for example if rows were left out after the last one. The last chunk ends at the file's end.

Readers run on a separate thread and end early when `job.closed()`; they are imported when first used. The `checksum`
of a format returns the checksum at the end of a file without parsing its rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from ..core.records import NamedTuple
from .bad_rows import BadRows
from .sources import COMPRESSIONS, Source, Thing
from .types import Chunk, DataError, Position, Settings

NUMBERED = {"svmlight", "cache"}  # formats whose features are numbers


class Job(NamedTuple):
    """One source to be read, from one position on."""

    source: Source
    settings: Settings
    bad_rows: BadRows
    start: Position
    seed: int = 0
    closed: Callable[[], bool] = bool


Reader = Callable[[Job], Iterator[Chunk]]


class Format(NamedTuple):
    """A format's name, where its reader is, how its files are named, and the options that it knows."""

    name: str
    reader: str  # module:function, in this package
    extensions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    checksum: str = "text.reader:checksum"  # (source, seed, closed) -> the check at the file's end
    features: str = ""  # (source, features given, dtype) -> the features, where the source itself stores them

    def read(self, job: Job) -> Iterator[Chunk]:
        """Read a source."""
        return iter(_load(self.reader)(job))

    def stored_features(self, source: Source, given: Any, dtype: Any) -> Any:
        """Return the features that a source stores, or else those given."""
        return _load(self.features)(source, given, dtype) if self.features else given

    def check(self, source: Source, seed: int, closed: Callable[[], bool]) -> int:
        """Return the checksum at the end of a source."""
        return int(_load(self.checksum)(source, seed, closed))


FORMATS = {
    one.name: one
    for one in (
        Format("svmlight", "text.svmlight:read", (".svm", ".svmlight", ".libsvm")),
        Format("vw", "text.vw:read", (".vw",), ("digits",)),
        Format("cache", "cache:read", (".psr",), features="cache:features"),
        Format("csv", "text.csv:read", (".csv",), ("separator", "quote", "header")),
        Format("tsv", "text.csv:read_tabs", (".tsv",), ("separator", "quote", "header")),
        Format("jsonl", "table.jsonl:read", (".jsonl", ".ndjson")),
        Format("parquet", "table.parquet:read", (".parquet", ".pq"), checksum="table.arrow:checksum"),
        Format("arrow", "table.arrow:read_arrow", (".arrow", ".feather", ".ipc"), checksum="table.arrow:checksum"),
        Format("frame", "table.arrow:read_frame", checksum="table.arrow:same"),
        Format("matrix", "table.arrow:read_matrix", checksum="table.arrow:same"),
    )
}
_EXTENSIONS = {extension: one for one in FORMATS.values() for extension in one.extensions}

_NUMBER = rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_SVMLIGHT = rb"[ \t]*" + _NUMBER + rb"([ \t]+(qid:-?\d+|\d+:" + _NUMBER + rb"))*[ \t]*(#.*)?\r?$"
_VW = rb"[^|]*\|"


def changed(job: Job, how: str = "") -> DataError:
    """Return the error for a source that is not what it was when the position was stored."""
    how = f" ({how})" if how else ""
    return DataError(f"{job.source.name}: the file has changed since it was read before{how}; start from the beginning")


def get(name: str) -> Format:
    """Return a format by its name."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def infer(source: Source) -> Format:
    """Return the format of a source by its extension, else by how it begins."""
    if isinstance(source, Thing):
        return _infer_thing(source)
    name, suffix = os.path.splitext(source.name)
    if suffix.lower() in COMPRESSIONS:
        suffix = os.path.splitext(name)[1]
    known = _EXTENSIONS.get(suffix.lower())
    return known if known is not None else _sniff(source.name, source.head())


def _infer_thing(source: Thing) -> Format:
    thing = source.thing
    if hasattr(thing, "__arrow_c_stream__") or hasattr(thing, "__arrow_c_array__") or hasattr(thing, "iloc"):
        return FORMATS["frame"]
    if isinstance(thing, tuple) or hasattr(thing, "shape"):
        return FORMATS["matrix"]
    raise TypeError(
        "a stream is opened from a path, a list of paths, a glob, '-', a URI, a binary file object, a data frame, an "
        f"Arrow table, a matrix X or a tuple (X, y), got {type(thing).__name__}"
    )


def _sniff(name: str, head: bytes) -> Format:
    for magic, known in ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"PSROWS", "cache"), (b"{", "jsonl")):
        if head.startswith(magic):
            return FORMATS[known]
    lines = [line for line in head.split(b"\n")[:-1] or [head] if line.strip() and not line.lstrip().startswith(b"#")]
    if not lines:
        return FORMATS["svmlight"]  # no rows in any format
    for known, pattern in (("svmlight", _SVMLIGHT), ("vw", _VW)):
        if re.match(pattern, lines[0]):
            return FORMATS[known]
    for known, separator in (("tsv", b"\t"), ("csv", b",")):
        if separator in lines[0] and lines[0].isascii() and b"\0" not in lines[0]:
            return FORMATS[known]
    raise DataError(
        f"{name}: cannot infer the format from the name or the first line {_shown(lines[0])}; specify it, "
        f"one of {', '.join(kind.name for kind in FORMATS.values() if kind.extensions)}"
    )


def _shown(line: bytes) -> str:
    return repr(line[:40].decode("utf-8", "replace")) + ("..." if len(line) > 40 else "")


def _load(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(f".{module}", __package__), name)
