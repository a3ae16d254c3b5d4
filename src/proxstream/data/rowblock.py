"""Row blocks: the one form in which data travels, from any source to any kernel.

A block is a piece of a stream in CSR form: row i has the values data[indptr[i]:indptr[i+1]] at the features
indices[indptr[i]:indptr[i+1]], the label y[i] and the weight c[i] (an empty c: all weights are 1). Indices may come in
any order, each once in a row: `as_block` adds up duplicates.

Invariant: the entries of a block are those at indptr[0]:indptr[-1]. A block may have been built with more, which belong
to no row and are never read. Every block that a method returns is compact: indptr[0] is 0 and there are indptr[-1]
entries, so that checking all slices of a block costs as much as checking the block once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.records import NamedTuple
from ..core.validation import Array
from .sparse_checks import check_csr, check_sparse, is_canonical
from .threads import in_pieces

NO_WEIGHTS = np.empty(0)


class RowBlock(NamedTuple):
    """Rows in CSR form with their labels and weights.

    >>> import proxstream as ps
    >>> ps.RowBlock(np.array([0, 2]), np.array([3, 5]), np.array([1.0, 0.5]), np.array([1.0])).n_rows
    1
    """

    indptr: Array
    indices: Array
    data: Array
    y: Array
    c: Array = NO_WEIGHTS

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_features(self) -> int:
        """One more than the largest index."""
        used = self.indices[self.indptr[0] : self.indptr[-1]]
        return int(used.max()) + 1 if len(used) else 0

    def weights(self) -> Array:
        """Return the weight of each row, ones where the block has none."""
        return weights_or_ones(self.c, self.n_rows)

    def slice(self, start: int, stop: int) -> RowBlock:
        """Return rows start to stop; the entries are views, only row pointers are copied.

        >>> as_block(np.diag([1.0, 2.0, 3.0])).slice(1, 3).data
        array([2., 3.])
        """
        indptr = self.indptr[start : stop + 1]
        first, last = indptr[0], indptr[-1]
        return RowBlock(
            indptr - first if first else indptr,
            self.indices[first:last],
            self.data[first:last],
            self.y[start:stop],
            self.c[start:stop] if len(self.c) else self.c,
        )

    def take(self, rows: Array) -> RowBlock:
        """Return a copy of the rows with these numbers, in their order.

        >>> as_block(np.diag([1.0, 2.0, 3.0]), y=[1, 2, 3]).take(np.array([2, 0])).y
        array([3., 1.])
        """
        lengths = np.diff(self.indptr)[rows]
        indptr = _pointers(lengths, self.indptr.dtype)
        # Entry q of a row keeps its distance from the row's first entry.
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        c = self.c[rows] if len(self.c) else self.c
        return RowBlock(indptr, self.indices[entries], self.data[entries], self.y[rows] if len(self.y) else self.y, c)

    def sorted_by(self, key: Array) -> RowBlock:
        """Return a copy with the rows in rising order of a key per row; equal keys keep their order.

        >>> as_block(np.eye(3), y=[1, 2, 3]).sorted_by(np.array([5, 4, 4])).y
        array([2., 3., 1.])
        """
        return self.take(np.argsort(key, kind="stable"))

    def sorted_indices(self, *, add_duplicates: bool = False) -> RowBlock:
        """Return the rows with rising indices, duplicates next to each other or added up; itself if they rise."""
        if is_canonical(self.indptr, self.indices):
            return self
        block = self.slice(0, self.n_rows)
        if add_duplicates:
            from scipy.sparse import csr_array

            arrays = block.data, block.indices, block.indptr
            matrix = csr_array(arrays, shape=(self.n_rows, self.n_features), copy=True)
            matrix.sum_duplicates()
            return block._replace(indptr=matrix.indptr, indices=matrix.indices, data=matrix.data)
        order = np.lexsort((block.indices, np.repeat(np.arange(self.n_rows), np.diff(self.indptr))))
        return block._replace(indices=block.indices[order], data=block.data[order])

    @staticmethod
    def concat(blocks: Sequence[RowBlock]) -> RowBlock:
        """Return the rows of one or more blocks as one; where some have weights, the others' rows weigh 1.

        >>> RowBlock.concat([as_block(np.eye(1), y=[1], c=[3]), as_block(np.eye(2), y=[1, -1])]).c
        array([3., 1., 1.])
        """
        if len(blocks) == 1:
            return blocks[0].slice(0, blocks[0].n_rows)
        compact = [block.slice(0, block.n_rows) for block in blocks]
        lengths = np.concatenate([np.diff(block.indptr) for block in compact])
        return RowBlock(
            _pointers(lengths, lengths.dtype),
            np.concatenate([block.indices for block in compact]),
            np.concatenate([block.data for block in compact]),
            np.concatenate([block.y for block in compact]),
            np.concatenate([b.weights() for b in compact]) if any(len(b.c) for b in compact) else NO_WEIGHTS,
        )

    def times(self, weights: Array) -> Array:
        """Return <x, w> of each row (of each column of a matrix w); features that w does not know count 0."""
        from scipy.sparse import csr_array

        first, last = self.indptr[0], self.indptr[-1]
        indices, data = self.indices[first:last], self.data[first:last]
        if len(indices) and indices.max() >= len(weights):
            known = indices < len(weights)
            indices, data = np.where(known, indices, 0), np.where(known, data, 0)
        if len(weights) == 0:
            return np.zeros((self.n_rows, *weights.shape[1:]))
        matrix = csr_array((data, indices, self.indptr - first), shape=(self.n_rows, len(weights)))
        return np.asarray(matrix @ weights, dtype=np.float64)

    def scores(self, coef: Array, intercept: Any) -> Array:
        """Return <x, w> + b of each row, (rows,) or (rows, outputs); features beyond the weights count 0.

        >>> as_block(np.array([[0.0, 2.0], [3.0, 0.0]])).scores(np.array([1.0]), 0.5)
        array([0.5, 3.5])
        """
        return np.asarray(self.times(coef) + intercept)

    def in_precision(self, dtype: Any) -> RowBlock:
        """Return the rows with their values in another precision; a TypeError unless they are real numbers."""
        if not isinstance(self.data, np.ndarray) or self.data.dtype.kind not in "biuf":
            got = self.data.dtype if isinstance(self.data, np.ndarray) else type(self.data).__name__
            raise TypeError(f"data of a RowBlock must be a vector of real numbers, got {got}")
        return self._replace(data=self.data.astype(dtype, copy=False))

    def for_kernels(self) -> RowBlock:
        """Return the rows with no array marked as read-only; nothing is copied.

        Kernels do not write to rows, but numba compiles another version of a kernel for every array with that mark, as
        the columns of frames and of Arrow tables and files mapped into memory have it.
        """
        if all(array.flags.writeable for array in self):
            return self
        return RowBlock(*map(_unmarked, self))

    def check(self, n_threads: int = 1) -> int:
        """Raise an error unless the arrays fit together, as compiled loops trust them to; return n_features."""
        data = self.data
        if not isinstance(data, np.ndarray) or data.ndim != 1 or data.dtype not in (np.float32, np.float64):
            got = f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
            raise TypeError(f"data of a RowBlock must be a vector of float32 or float64, got {got}")
        return check_csr(self.indptr, self.indices, data, n_threads=n_threads)

    def check_finite(self, n_threads: int = 1) -> float:
        """Raise a ValueError that names the first row with a value that is not finite; return the largest magnitude."""
        first, last = int(self.indptr[0]), int(self.indptr[-1])
        data = self.data[first:last]
        if len(data) == 0:
            return 0.0
        # The least and the largest value are NaN if any is; a sum would take twice as long.
        ends = in_pieces(lambda start, stop: (data[start:stop].min(), data[start:stop].max()), len(data), n_threads)
        if not np.isfinite(ends).all():
            row = int(np.searchsorted(self.indptr, first + np.argmin(np.isfinite(data)), side="right")) - 1
            raise ValueError(f"features must be finite, got NaN or infinity in row {row} of the block")
        return float(np.abs(ends).max())


class _Unmarked:
    """The memory of a read-only array, for a view without the mark, which keeps this object alive."""

    def __init__(self, array: Array) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def _unmarked(array: Array) -> Array:
    """Return an array, or a view of it that is not read-only."""
    return array if array.flags.writeable else np.asarray(_Unmarked(array))


def weights_or_ones(c: Array, n: int) -> Array:
    """Return the weights of n rows, ones where there are none."""
    return c if len(c) else np.ones(n)


def _pointers(lengths: Array, dtype: Any) -> Array:
    """Return row pointers from the rows' lengths, in 64 bits where the total does not fit the dtype."""
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return indptr.astype(dtype, copy=False) if indptr[-1] <= np.iinfo(dtype).max else indptr


def as_block(X: Any, y: Any = None, c: Any = None, dtype: Any = None, *, checked: bool = False) -> RowBlock:
    """Return a dense or sparse matrix as a block; a CSR matrix of this dtype is not copied if it can stay as it is.

    Duplicate indices of a row are added up and explicit zeros dropped: dense or sparse, one matrix is one block.
    Numbers other than 32-bit floats become 64-bit ones, unless a dtype is specified. A sparse matrix whose arrays do
    not fit together is refused, unless it is known to have been `checked`.

    >>> as_block(np.array([[0.0, 2.0], [3.0, 0.0]]))
    RowBlock(indptr=array([0, 1, 2], dtype=int32), indices=array([1, 0], dtype=int32), data=array([2., 3.]),
             y=array([], dtype=float64), c=array([], dtype=float64))
    """
    from scipy.sparse import csr_array, issparse

    if len(np.shape(X)) != 2:
        raise ValueError(f"X must be a matrix, got shape {np.shape(X)}")
    if issparse(X):
        if not checked:
            check_sparse(X)
        matrix = X.tocsr()
        last = matrix.indptr[-1]
        if not is_canonical(matrix.indptr, matrix.indices) or not (matrix.data[:last] != 0).all():
            parts = matrix.data[:last], matrix.indices[:last], matrix.indptr
            matrix = csr_array(parts, shape=matrix.shape, copy=matrix is X)  # without flags, which may be wrong
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
    else:
        X = np.asarray(X)
        if X.dtype.kind not in "biuf":
            raise TypeError(f"X must be a matrix of real numbers, got {X.dtype}")
        matrix = csr_array(X)
    if dtype is None:
        dtype = np.float32 if matrix.dtype == np.float32 else np.float64
    last = matrix.indptr[-1]
    data = np.ascontiguousarray(matrix.data[:last], dtype)
    # Indices of 64 bits where 32 are enough take twice the memory, and kernels of their own.
    small = max(last, matrix.shape[1]) <= np.iinfo(np.int32).max
    indptr, indices = (
        np.ascontiguousarray(array, np.int32 if small else None) for array in (matrix.indptr, matrix.indices[:last])
    )
    labels = np.empty(0) if y is None else np.asarray(y, dtype=np.float64)
    weights = NO_WEIGHTS if c is None else np.asarray(c, dtype=np.float64)
    return RowBlock(indptr, indices, data, labels, weights).for_kernels()
