"""What every source becomes: a stream of chunks of rows, each with the position in its source where it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.rowblock import RowBlock

if TYPE_CHECKING:
    from .features.featurizer import Featurizer


ALL_FEATURES = 1 << 31  # the most that 32-bit indices can number
MAX_OFFSET = 500.0  # its exponential, and that of its negative, times any label are finite numbers
MAX_FEATURES = 1 << 26  # the default limit: 768 MiB of three 32-bit numbers each


class DataError(ValueError):
    """Data that cannot be read; the message begins with the place, `file:line:column`.

    >>> import proxstream as ps
    >>> issubclass(ps.DataError, ValueError)
    True
    """


class Position(NamedTuple):
    """A position between two rows of a stream: what a checkpoint stores, and where reading can resume.

    `file` counts the files of the stream; `row` and `offset` are the rows and the (uncompressed) bytes of that file
    that have been read, `check` a checksum of all bytes up to here, including earlier files, by which a changed file
    is detected. `skipped` counts the bad rows left out since the stream began, `quarantined` the bytes that they take
    in the quarantine file. `names` counts the feature names known by then.

    A shuffled stream reads windows of rows: all of the above is then where a window may be read from, `passed` the rows
    from there that belong to earlier windows, and `shuffled` the rows yielded, those of a last, shorter window rounded
    up.
    """

    file: int = 0
    row: int = 0
    offset: int = 0
    check: int = 0
    skipped: int = 0
    quarantined: int = 0
    names: int = 0
    passed: int = 0
    shuffled: int = 0


class Chunk(NamedTuple):
    """Some rows of a stream, in order; a missing label is NaN.

    `n_bytes` counts bytes of the source as it is stored, so that the chunks add up to its size. `offset` is what is
    added to the score of each row, None where the source has no such column. `places` has the number of the file and
    the number in it of each row where rows are not in the order of the source.
    """

    rows: RowBlock
    qid: Array | None
    end: Position
    n_bytes: int
    offset: Array | None = None
    places: Array | None = None

    def place(self, row: int) -> tuple[int, int]:
        """Return the number of the file of a row, and its number in that file, both from 0."""
        if self.places is not None:
            file, number = self.places[row].tolist()
            return file, number
        return self.end.file, self.end.row - self.rows.n_rows + row


def without_offsets(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield chunks for a format that has no offsets; a DataError where rows have one."""
    for chunk in chunks:
        if chunk.offset is not None:
            raise DataError("found offsets, which svmlight, vw and row caches do not have; train from the table itself")
        yield chunk


class Accepted(NamedTuple):
    """Which labels are accepted: a function of an array of labels, and a description for errors."""

    good: Callable[[Array], Array]
    words: str


@dataclass(frozen=True, eq=False)
class Settings:
    """How a source is read: the arguments of `open_stream`."""

    features: Any = None
    dtype: Any = np.float32
    zero_based: bool = True
    qid: Any = None
    chunk_bytes: int = 1 << 21
    max_line_bytes: int = 1 << 25
    max_features: int = ALL_FEATURES
    labels: Accepted | None = None
    label_texts: Mapping[str, float] | None = None
    min_index: int = 0
    shuffle_buffer: int = 0
    seed: int = 0
    row: int = -1  # whose line is searched for, see `Stream.locate`; -1: none
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def featurizer(self) -> Featurizer:
        """The featurizer of all sources and passes: `features`, or made from it."""
        from .features.featurizer import Featurizer

        return self.features if isinstance(self.features, Featurizer) else Featurizer(self.features, self.dtype)
