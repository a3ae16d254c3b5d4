"""What loaders return: small frozen records of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .._checks import Array

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
        One row a line: a NumPy array, or a SciPy CSR matrix.
    y
        One label a row.
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
        By name, in the file's order: float64 for numbers, objects of type str for categories ("?" where none is told).
    y
        -1 or +1 a row.
    weight
        One a row, where the data bring weights.
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
        A query's number a row; the rows of a query stand together.
    """

    X: Any
    y: Array
    query: Array

    def __len__(self) -> int:
        return len(self.y)
