"""Standardized columns: each number minus the mean of its column, divided by the deviation, as rows stream by.

A column with mean 100 and deviation 1 is nearly a second intercept, and a learner spends its time on finding that out.
With means m and deviations s the learner sees z = (x - m) / s instead. Both are running statistics, of the rows before
and including the row at hand, so a stream needs one pass; they are a function of the sequence of rows. In later passes
they are fixed. The model that is kept is that of the last weights and the last statistics,

    score = sum_j w_j (x_j - m_j) / s_j + b = sum_j (w_j / s_j) x_j + (b - sum_j w_j m_j / s_j),             (1)

a linear model in the units of the columns. A missing number has no feature, z = 0: it counts as the mean. A column
that has had one value only has z = 0, and in (1) the weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..core.records import NamedTuple
from ..core.validation import Array
from .rowblock import NO_WEIGHTS, RowBlock


class Folded(NamedTuple):
    """A linear model in the units of the columns: the right-hand side of (1)."""

    coef: Array
    intercept: Any


NO_MATRIX = "this model standardizes its columns: pass a frame, a stream or a RowBlock, not a matrix"


class Standardizer:
    """Running means and deviations of the features first, first + 1, ... of rows.

    >>> rows = RowBlock(np.array([0, 1, 2]), np.array([0, 0]), np.array([101.0, 99.0]), np.empty(0))
    >>> Standardizer(1).transform(rows, learn=True).data
    array([ 0., -1.])
    """

    def __init__(self, n_columns: int, first: int = 0) -> None:
        self.first = first
        self.state = np.zeros((3, n_columns))

    @property
    def n_columns(self) -> int:
        """Number of features that are standardized."""
        return int(self.state.shape[1])

    @property
    def means(self) -> Array:
        """The mean of each column, 0 before its first number."""
        return np.array(self.state[1])

    @property
    def deviations(self) -> Array:
        """The deviation of each column (the root of the mean squared distance from the mean), 0 of a constant."""
        return np.asarray(np.sqrt(self.state[2] / np.where(self.state[0] > 0.0, self.state[0], 1.0)))

    def transform(self, rows: RowBlock, *, learn: bool, dtype: Any = np.float64) -> RowBlock:
        """Return rows with standardized values, in a precision; with `learn` the rows enter the statistics in order."""
        if not self.n_columns:
            return rows if rows.data.dtype == dtype else rows._replace(data=rows.data.astype(dtype))
        from ._standardize import standardize

        rows = rows.slice(0, rows.n_rows)
        out = np.empty(len(rows.data), dtype)
        standardize(rows.indptr, rows.indices, rows.data, rows.c, self.first, self.state, learn, out)
        return rows._replace(data=out)

    def fold(self, coef: Array, intercept: Any) -> Folded:
        """Return weights of standardized columns as those of the columns themselves, by (1).

        The intercept belongs to the weights as they are rounded to their precision: a mean of 1e9 magnifies it.

        >>> columns = Standardizer(1)
        >>> columns.state[:] = [[2.0], [100.0], [50.0]]
        >>> columns.fold(np.array([1.0, 3.0]), 0.5)
        Folded(coef=array([0.2, 3. ]), intercept=-19.5)
        """
        if not self.n_columns:
            return Folded(coef, intercept)
        own = slice(self.first, self.first + self.n_columns)
        coef = coef.copy()
        n_known = len(coef[own])
        means, deviations = self.means[:n_known], self.deviations[:n_known]
        shape = (n_known,) + (1,) * (coef.ndim - 1)
        scales = np.divide(1.0, deviations, where=deviations > 0.0, out=np.zeros(n_known))
        coef[own] = (coef[own].astype(np.float64) * scales.reshape(shape)).astype(coef.dtype)
        shift = np.sum(coef[own].astype(np.float64) * means.reshape(shape), axis=0)
        return Folded(coef, intercept - (float(shift) if coef.ndim == 1 else shift))

    def arrays(self) -> dict[str, Array]:
        """Return the statistics; nothing where no column is standardized."""
        return {"statistics": self.state.copy()} if self.n_columns else {}

    def restore(self, state: Any) -> None:
        """Continue from statistics that `arrays` returned."""
        found = np.array(state, np.float64)
        if found.shape != self.state.shape or not np.isfinite(found).all() or (found[[0, 2]] < 0.0).any():
            raise ValueError(f"statistics must be {self.n_columns} weights, means and squares, got {found.shape}")
        self.state = found


class StandardizedRows:
    """A stream whose row blocks are as a learner is given them; it can be read as often as the stream."""

    def __init__(self, standardize: Callable[[RowBlock], RowBlock], stream: Iterable[Any]) -> None:
        self._standardize, self._stream = standardize, stream

    def __iter__(self) -> Iterator[Any]:
        for element in self._stream:
            rows = element[0] if isinstance(element, tuple) and not isinstance(element, RowBlock) else element
            yield self._standardize(rows) if isinstance(rows, RowBlock) else element


class StandardizedStream:
    """A stream of batches whose columns are standardized as they come: for arrays what tables have by default.

    The first pass over it takes means and deviations of the rows so far, later passes those at the end of the first.

    Parameters
    ----------
    stream : iterable of (X, y) or (X, y, sample_weight)
        Dense matrices of the same width; for several passes it has to be one that can be read again.

    Attributes
    ----------
    means_, deviations_ : arrays of shape (n_features,)

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> X = 100.0 + np.random.default_rng(0).normal(size=(200, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> rows = ps.StandardizedStream([(X, y)])
    >>> model = ps.StreamRegressor().fit_stream(rows)
    >>> model.score(rows.transform(X), y) > 0.9 > ps.StreamRegressor().fit(X, y).score(X, y)
    True
    >>> coef, intercept = rows.fold(model.coef_, model.intercept_)
    >>> bool(np.allclose(X @ coef + intercept, model.predict(rows.transform(X))))
    True
    """

    def __init__(self, stream: Iterable[Any]) -> None:
        self._stream, self._columns, self._learned = stream, Standardizer(0), False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        from .batches import check_weights

        if iter(self._stream) is self._stream and self._learned:
            raise ValueError("several passes need a stream that can be read again, got an iterator")
        learn = not self._learned
        if learn:
            self._columns = Standardizer(0)
        for element in self._stream:
            if not isinstance(element, tuple) or len(element) not in (2, 3):
                raise TypeError(f"a batch must be (X, y) or (X, y, sample_weight), got {type(element).__name__}")
            X, y, *weight = element
            X = self._checked(X, first=self._columns.n_columns == 0)
            c = check_weights(weight[0], len(X)) if weight else NO_WEIGHTS
            yield (self._standardized(X, c, learn=learn), y, *weight)
        self._learned = True

    @property
    def means_(self) -> Array:
        """The mean of each column."""
        return self._columns.means

    @property
    def deviations_(self) -> Array:
        """The deviation of each column."""
        return self._columns.deviations

    def transform(self, X: Any) -> Array:
        """Return a matrix standardized by the statistics so far.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        array of the same shape
        """
        return self._standardized(self._checked(X, first=False), NO_WEIGHTS, learn=False)

    def fold(self, coef: Any, intercept: Any) -> Folded:
        """Return the weights of a model of this stream as weights of the columns as they are.

        Parameters
        ----------
        coef : array of shape (n_features,) or (n_outputs, n_features)
        intercept : float, or array of shape (n_outputs,)

        Returns
        -------
        Folded(coef, intercept)
        """
        array = np.asarray(coef)
        found = self._columns.fold(array.T, np.asarray(intercept) if array.ndim == 2 else float(intercept))
        return Folded(found.coef.T, found.intercept)

    def _checked(self, X: Any, *, first: bool) -> Array:
        if hasattr(X, "tocsr"):
            raise TypeError("StandardizedStream takes dense matrices: a sparse one would lose its zeros")
        matrix: Array = np.asarray(X)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or not np.isfinite(matrix).all():
            raise ValueError(f"X must be a matrix of finite numbers, got {matrix.dtype} of shape {matrix.shape}")
        if first:
            self._columns = Standardizer(matrix.shape[1])
        if matrix.shape[1] != self._columns.n_columns:
            raise ValueError(f"X must have {self._columns.n_columns} columns as before, got {matrix.shape[1]}")
        return matrix

    def _standardized(self, X: Array, c: Array, *, learn: bool) -> Array:
        n_rows, n_columns = X.shape
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        indptr, indices = np.arange(n_rows + 1) * n_columns, np.tile(np.arange(n_columns, dtype=np.int32), n_rows)
        rows = RowBlock(indptr, indices, X.astype(dtype, copy=False).ravel(), np.empty(n_rows), c)
        return np.asarray(self._columns.transform(rows, learn=learn, dtype=dtype).data.reshape(X.shape))
