"""What loaders share: the records that they return, and finding and reading files."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..core.validation import Array

Part = TypeVar("Part", covariant=True)


@dataclass(frozen=True, eq=False)
class Split(Generic[Part]):
    """Two parts of a data set, as its makers cut it.

    Parameters
    ----------
    train, test
        `Rows`, `Table`, `Texts` or `Ranked`.
    """

    train: Part
    test: Part


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of numbers.

    Parameters
    ----------
    X
        One row per line: a NumPy array, or a SciPy CSR matrix.
    y
        One label per row.
    """

    X: Any
    y: Array

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns with a label of two values.

    Parameters
    ----------
    columns
        By name, in the file's order: float64 for numbers, objects of type str for categories ("?" if missing).
    y
        -1 or +1 a row.
    weight
        One per row, where the data bring weights.
    """

    columns: Mapping[str, Array]
    y: Array
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts in classes.

    Parameters
    ----------
    texts
        As they were written, with their heads.
    y
        The index in `names` of each text's class.
    names
        Of the classes.
    """

    texts: list[str]
    y: Array
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Rows that compete within queries.

    Parameters
    ----------
    X
        A SciPy CSR matrix.
    y
        Relevance a row, higher is better.
    query
        The number of the query of each row; the rows of a query are adjacent.
    """

    X: Any
    y: Array
    query: Array

    def __len__(self) -> int:
        return len(self.y)


COMPRESSED = ("", ".gz")


def find(folder: str | Path, names: Sequence[str], source: str, endings: Sequence[str] = COMPRESSED) -> Path:
    """Return the first of `names`, with one of the `endings`, that is in the folder; `source` says where to get them.

    >>> find("no/such", ["adult.data"], "the UCI repository")
    Traceback (most recent call last):
    FileNotFoundError: no/such: no such folder; it should contain adult.data, from the UCI repository
    """
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"{place}: no such folder; it should contain {names[0]}, from {source}")
    for name in names:
        for ending in endings:
            if (place / (name + ending)).exists():
                return place / (name + ending)
    *others, last = [ending for ending in endings if ending] or [""]
    also = f" (or with {', '.join([*others, last])})" if last else ""
    raise FileNotFoundError(f"{place}: no {' or '.join(names)}{also} in it; get it from {source}")


def content(file: Path) -> bytes:
    """Return a file's bytes, unpacked if its name says so."""
    if file.suffix != ".gz":
        return file.read_bytes()
    try:
        return gzip.decompress(file.read_bytes())
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{file}: not a complete gzip file: {error}") from None


def fetched(what: str, error: OSError) -> OSError:
    """Return the error of a download that failed."""
    return OSError(f"{what} could not be downloaded: {error}")
