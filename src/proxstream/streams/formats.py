"""The formats: which reader turns what into chunks, and how a source's format is told.

A reader is a function of a `Job` that yields chunks of rows in order, beginning at `job.start`:

- a row that cannot be read goes to `job.faults.take(DataError("file:line:column: ..."), raw bytes)`, which raises, or
  returns and the row is left out;
- each chunk's `end` is `job.faults.mark(Position(job.start.file, row, offset, check))`, where `check` is a checksum of
  the file so far (63 bits), begun with `job.seed`; `row` and `offset` are the reader's own and enough to come back;
- when `job.start` is not the file's beginning, what lies before is checked against `job.start.check`, and a file that
  has changed is refused with `changed(job)`;
- a chunk may have no rows: if rows were left out after the last one, say. The last chunk ends at the file's end.

Readers run on a thread of their own and end early when `job.closed()`; they are imported when first used. The format's
`checksum`, if it has one, gives the check at a file's end without reading its rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import PurePath
from typing import Any, NamedTuple

from .base import Chunk, DataError, Position, Settings
from .faults import Faults
from .sources import COMPRESSIONS, Source, Thing


class Job(NamedTuple):
    """One source to be read, from one place on."""

    source: Source
    settings: Settings
    faults: Faults
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
    checksum: str = "text:checksum"  # (source, seed, closed) -> the check at the file's end
    features: str = ""  # (source, features given, dtype) -> the features, where the source itself tells them

    def read(self, job: Job) -> Iterator[Chunk]:
        """Read a source."""
        return iter(_load(self.reader)(job))

    def told(self, source: Source, given: Any, dtype: Any) -> Any:
        """Return the features that a source tells of, or else those given."""
        return _load(self.features)(source, given, dtype) if self.features else given

    def check(self, source: Source, seed: int, closed: Callable[[], bool]) -> int:
        """Return the check at a source's end."""
        return int(_load(self.checksum)(source, seed, closed))


FORMATS = {
    one.name: one
    for one in (
        Format("svmlight", "svmlight:read", (".svm", ".svmlight", ".libsvm")),
        Format("vw", "vw:read", (".vw",), ("digits",)),
        Format("cache", "rowcache:read", (".psr",), features="rowcache:features"),
        Format("csv", "csvtext:read", (".csv",), ("separator", "quote", "header")),
        Format("tsv", "csvtext:read_tabs", (".tsv",), ("separator", "quote", "header")),
        Format("jsonl", "jsontext:read", (".jsonl", ".ndjson")),
        Format("parquet", "parquet:read", (".parquet", ".pq"), checksum="tables:checksum"),
        Format("arrow", "tables:read_arrow", (".arrow", ".feather", ".ipc"), checksum="tables:checksum"),
        Format("frame", "tables:read_frame", checksum="tables:same"),
        Format("matrix", "tables:read_matrix", checksum="tables:same"),
    )
}
_EXTENSIONS = {extension: one for one in FORMATS.values() for extension in one.extensions}

_NUMBER = rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_SVMLIGHT = re.compile(rb"[ \t]*" + _NUMBER + rb"([ \t]+(qid:-?\d+|\d+:" + _NUMBER + rb"))*[ \t]*(#.*)?\r?$")
_VW = re.compile(rb"[^|]*\|")


def changed(job: Job, how: str = "what was read of it before is not there any more") -> DataError:
    """Return the error for a source that is not what it was when the position was kept."""
    return DataError(f"{job.source.name}: the file has changed, {how}; begin anew")


def get(name: str) -> Format:
    """Return a format by its name."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def tell(source: Source) -> Format:
    """Tell a source's format by its extension, else by how it begins."""
    if isinstance(source, Thing):
        return _tell_thing(source)
    path = PurePath(source.name)
    if path.suffix.lower() in COMPRESSIONS:
        path = path.with_suffix("")
    known = _EXTENSIONS.get(path.suffix.lower())
    return known if known is not None else _sniff(source.name, source.head())


def _tell_thing(source: Thing) -> Format:
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
        if pattern.match(lines[0]):
            return FORMATS[known]
    for known, separator in (("tsv", b"\t"), ("csv", b",")):
        if separator in lines[0] and lines[0].isascii() and b"\0" not in lines[0]:
            return FORMATS[known]
    raise DataError(
        f"{name}: the format cannot be told from its name or its first line {_shown(lines[0])}; expected it "
        f"told, one of {', '.join(kind.name for kind in FORMATS.values() if kind.extensions)}"
    )


def _shown(line: bytes) -> str:
    return repr(line[:40].decode("utf-8", "replace")) + ("..." if len(line) > 40 else "")


def _load(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(f".{module}", __package__), name)
