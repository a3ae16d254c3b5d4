"""Files of a data set: found under the names that they go by, or missed with all that is needed to get them."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

COMPRESSED = ("", ".gz")


def find(folder: str | Path, names: Sequence[str], source: str, endings: Sequence[str] = COMPRESSED) -> Path:
    """Return the first of `names`, with one of the `endings`, that is in the folder; `source` tells whence they come.

    >>> find("no/such", ["adult.data"], "the UCI repository")
    Traceback (most recent call last):
    FileNotFoundError: no/such: there is no such folder; it should hold adult.data, from the UCI repository
    """
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"{place}: there is no such folder; it should hold {names[0]}, from {source}")
    for name in names:
        for ending in endings:
            if (place / (name + ending)).exists():
                return place / (name + ending)
    *others, last = [ending for ending in endings if ending] or [""]
    also = f" (or with {', '.join([*others, last])})" if last else ""
    raise FileNotFoundError(f"{place}: it holds no {' or '.join(names)}{also}, which is had from {source}")


def content(file: Path) -> bytes:
    """Return a file's bytes, unpacked if its name says so."""
    if file.suffix != ".gz":
        return file.read_bytes()
    try:
        return gzip.decompress(file.read_bytes())
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{file}: it is no whole gzip file: {error}") from None


def fetched(what: str, error: OSError) -> OSError:
    """Return the error of a download that failed."""
    return OSError(f"{what} could not be fetched, a network is needed: {error}")
