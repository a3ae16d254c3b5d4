"""What every source becomes: a stream of chunks of rows, each knowing where in its source it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._checks import Array
from ..blocks import RowBlock

if TYPE_CHECKING:
    from .featurizer import Featurizer


class DataError(ValueError):
    """Data that cannot be read as what it should be; the message begins with the place, `file:line:column`."""


class Position(NamedTuple):
    """A place between two rows of a stream: what a checkpoint keeps, and where reading can begin again.

    `file` counts the files of the stream; `row` and `offset` are the rows and the (uncompressed) bytes of that file
    that have been read, `check` a checksum of all bytes up to here, those of earlier files too, by which a changed file
    is found out. `skipped` counts the bad rows left out since the stream began, `quarantined` the bytes that they take
    in the quarantine file. `names` counts the names that features had by then.
    """

    file: int = 0
    row: int = 0
    offset: int = 0
    check: int = 0
    skipped: int = 0
    quarantined: int = 0
    names: int = 0


class Chunk(NamedTuple):
    """Some rows of a stream, in order; a label that is not told is NaN.

    `n_bytes` are bytes of the source as it is stored, so that those of all chunks add up to its size.
    """

    rows: RowBlock
    qid: Array | None
    end: Position
    n_bytes: int


class Accepted(NamedTuple):
    """Which labels are taken: whether each of an array is, and what they are in words."""

    good: Callable[[Array], Array]
    words: str


@dataclass(frozen=True, eq=False)
class Settings:
    """How a source is read: what `open_stream` was told."""

    features: Any = None
    dtype: Any = np.float32
    zero_based: bool = True
    qid: Any = None
    chunk_bytes: int = 1 << 21
    max_line_bytes: int = 1 << 25
    labels: Accepted | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def featurizer(self) -> Featurizer:
        """What makes features of names, one for all sources and passes: `features`, or made of it."""
        from .featurizer import Featurizer

        return self.features if isinstance(self.features, Featurizer) else Featurizer(self.features, self.dtype)
