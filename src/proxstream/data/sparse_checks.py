"""Checks of sparse arrays at the door, before scipy or a kernel trusts them: an index out of range is a crash there.

Row i of a CSR matrix has the values data[indptr[i]:indptr[i+1]] at the columns indices[indptr[i]:indptr[i+1]]. Each
check is one vectorized reduction without a branch per element; the position of an error is searched only once it is
known that there is one. scipy's flags (`has_sorted_indices`, `has_canonical_format`) are not trusted: anyone can set
them, and they are not updated when arrays change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.validation import Array
from .threads import in_pieces

_PIECE = 1 << 18  # indices that are compared at once, so that what is compared stays in the processor's cache


def check_csr(
    indptr: Any, indices: Any, data: Any, width: int | None = None, n_threads: int = 1, line: str = "row"
) -> int:
    """Raise a ValueError or TypeError unless the arrays fit together; return one more than the largest index.

    `width` is the number of columns that an index must be below; `line` is what a pointer begins: "row", or "column" of
    a CSC matrix. Entries outside of indptr[0]:indptr[-1] belong to no row and are not looked at.

    >>> check_csr(np.array([0, 1, 2]), np.array([1, 99]), np.ones(2), 4)
    Traceback (most recent call last):
    ValueError: indices must be in 0..3, got 99 at position 1, in row 1
    """
    for name, array in (("indptr", indptr), ("indices", indices)):
        check_index_array(name, array)
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "biuf":
        raise TypeError(f"data must be an array of real numbers, got {_what(data)}")
    if len(indptr) == 0 or indptr[0] < 0:
        raise ValueError(f"indptr must begin at 0 or above, got {indptr[0] if len(indptr) else 'an empty array'}")
    # Neighbours are compared, not subtracted: a difference may overflow.
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        i = int(np.argmax(falls))
        raise ValueError(f"indptr must not fall, got {line} {i} from {indptr[i]} to {indptr[i + 1]}")
    first, last = int(indptr[0]), int(indptr[-1])
    if not len(indices) == len(data) >= last:
        raise ValueError(
            f"there must be as many indices as values, and at least the {last} at which {line} {len(indptr) - 2} ends, "
            f"got {len(indices)} indices and {len(data)} values"
        )
    if first == last:
        return 0
    # As unsigned numbers negative ones are the largest: one reduction covers both ends.
    unsigned = indices.view(f"u{indices.itemsize}")[first:last]
    highest = max(in_pieces(lambda start, stop: int(unsigned[start:stop].max()), last - first, n_threads))
    limit = np.iinfo(indices.dtype).max if width is None else width - 1
    if highest > limit:
        at = first + int(np.argmax(unsigned > limit))
        i = int(np.searchsorted(indptr, at, side="right")) - 1
        accepted = ">= 0" if width is None else f"in 0..{width - 1}" if width else "none, as there are no columns"
        raise ValueError(f"indices must be {accepted}, got {indices[at]} at position {at}, in {line} {i}")
    return highest + 1


def check_index_array(name: str, array: Any) -> None:
    """Raise a TypeError unless an array of positions or indices is a vector of int32 or int64."""
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype not in (np.int32, np.int64):
        raise TypeError(f"{name} must be a vector of int32 or int64, got {_what(array)}")


def check_sparse(X: Any) -> None:
    """Raise a ValueError or TypeError unless a scipy matrix, or vector, of any format is what its shape says.

    >>> from scipy.sparse import csr_array
    >>> X = csr_array(np.eye(3))
    >>> X.indices[1] = -7
    >>> check_sparse(X)
    Traceback (most recent call last):
    ValueError: X is malformed: indices must be in 0..2, got -7 at position 1, in row 1
    """
    try:
        _CHECKS.get(X.format, lambda X: None)(X)
    except (TypeError, ValueError) as error:
        raise type(error)(f"X is malformed: {error}") from None


def is_canonical(indptr: Array, indices: Array) -> bool:
    """Return whether the indices of each row rise, each once: what scipy calls canonical. The arrays have been checked.

    >>> is_canonical(np.array([0, 2, 4]), np.array([0, 3, 1, 2])), is_canonical(np.array([0, 2]), np.array([1, 1]))
    (True, False)
    """
    first, last = int(indptr[0]), int(indptr[-1])
    falls = 0
    for start in range(first + 1, last, _PIECE):
        stop = min(start + _PIECE, last)
        falls += int(np.count_nonzero(indices[start:stop] <= indices[start - 1 : stop - 1]))
    if falls > max(len(indptr) - 2, 0):  # more than there are rows that follow another
        return False
    starts = indptr[1:-1][indptr[1:-1] < indptr[2:]]  # of the rows after the first that have entries
    starts = starts[starts > first]
    return falls == int(np.count_nonzero(indices[starts] <= indices[starts - 1]))


def _check_compressed(X: Any) -> None:
    lines, width = _shape(X) if X.format == "csr" else _shape(X)[::-1]
    line = "row" if X.format == "csr" else "column"
    _check_pointers(X.indptr, lines, line)
    if np.ndim(X.data) != 1:
        raise ValueError(f"data must be a vector, got shape {np.shape(X.data)}")
    check_csr(X.indptr, X.indices, X.data, width, line=line)


def _check_blocks(X: Any) -> None:
    if np.ndim(X.data) != 3 or 0 in X.data.shape[1:]:
        raise ValueError(f"data of a BSR matrix must be blocks, got shape {np.shape(X.data)}")
    R, C = X.data.shape[1:]
    if X.shape[0] % R or X.shape[1] % C:
        raise ValueError(f"blocks of {R} by {C} must divide the shape, got {X.shape}")
    _check_pointers(X.indptr, X.shape[0] // R, "row of blocks")
    check_csr(X.indptr, X.indices, X.data, X.shape[1] // C, line="row of blocks")
    if not len(X.data) == len(X.indices) == X.indptr[-1]:  # scipy unfolds all blocks that there are
        raise ValueError(f"there must be {X.indptr[-1]} indices and blocks, got {len(X.indices)} and {len(X.data)}")


def _check_pointers(indptr: Any, lines: int, line: str) -> None:
    check_index_array("indptr", indptr)
    if len(indptr) != lines + 1:
        raise ValueError(f"indptr must have {lines + 1} entries, one more than {line}s, got {len(indptr)}")
    if indptr[0] != 0:
        raise ValueError(f"indptr must begin at 0, got {indptr[0]}")


def _check_coordinates(X: Any) -> None:
    for name, places, size in zip(("row", "col"), (X.row, X.col), _shape(X), strict=True):
        check_index_array(name, places)
        if np.shape(X.data) != places.shape:
            raise ValueError(f"data must have shape {places.shape} as {name}, got {np.shape(X.data)}")
        wrong = (places < 0) | (places >= size)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValueError(f"{name} must be in 0..{size - 1}, got {places[at]} at position {at}")


def _check_diagonals(X: Any) -> None:
    if np.ndim(X.data) != 2 or np.shape(X.offsets) != X.data.shape[:1] or X.offsets.dtype.kind != "i":
        raise ValueError(
            f"data of a DIA matrix must be one row per offset, got shape {np.shape(X.data)} and offsets {X.offsets!r}"
        )


def _check_lists(X: Any) -> None:
    if not len(X.rows) == len(X.data) == X.shape[0]:
        raise ValueError(f"rows and data must have {X.shape[0]} lists, got {len(X.rows)} and {len(X.data)}")
    for i, (columns, values) in enumerate(zip(X.rows, X.data, strict=True)):
        if not isinstance(columns, list) or not isinstance(values, list) or len(columns) != len(values):
            raise ValueError(f"row {i} must be a list of columns and a list of as many values")
        if columns and not (min(columns) >= 0 and max(columns) < X.shape[1]):
            wrong = next(j for j in columns if not 0 <= j < X.shape[1])
            raise ValueError(f"a column must be in 0..{X.shape[1] - 1}, got {wrong} in row {i}")


def _shape(X: Any) -> tuple[int, int]:
    """Return the shape of a matrix; a vector is one row."""
    if len(X.shape) not in (1, 2):
        raise ValueError(f"the shape must be that of a matrix, got {X.shape}")
    return X.shape if len(X.shape) == 2 else (1, *X.shape)


_CHECKS = {
    "csr": _check_compressed,
    "csc": _check_compressed,
    "bsr": _check_blocks,
    "coo": _check_coordinates,
    "dia": _check_diagonals,
    "lil": _check_lists,
}


def _what(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    return f"{value.dtype} of shape {value.shape}"
