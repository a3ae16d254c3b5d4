"""Centring of columns and labels that are far from zero; the intercept absorbs the shift.

    <x, w> + b = <x - c, w> + (b + <c, w>)                   phi(z, y) = phi(z - t, y - t)         (1)

Years, prices and timestamps are thousands of standard deviations from zero. Without centring a solver loses the square
of that in its Gram matrices, and the proof t eps in sum_i p_i alpha_i = 0. With an unpenalized intercept b, (1) is
the same problem in coordinates without that loss: weights, penalty, dual variables, primal and dual value are the same,
only b changes. The second half of (1) holds for losses of y - z.

A column of which a share q is not zero has |mean| <= sqrt(q / (1 - q)) standard deviations. So a column that is far
from zero is present in nearly every row, and x - c is as sparse as x. Which columns are far is decided by a sample of
rows; rows are copied only if there is such a column. Centres are entries of their columns, so that x - c is exact where
x is within a factor 2 of c (Sterbenz 1974).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.losses import Loss
from ..core.validation import Array
from ..data.rowblock import RowBlock
from .lambda_max import no_worse_than_null
from .problem import Problem, Solution
from .proof import proved

SAMPLE, LEAST = 256, 16  # rows that decide which columns are far
ENTRIES = 4e6  # of these rows, about
PRESENT = 0.97  # of these rows have an entry in a column that can be far
FAR = 10.0  # mean absolute deviations
LARGEST = 1e150  # value that a solver takes
PRECISION = 1e-6  # of scores, in the unit of `Frame`


class Frame(NamedTuple):
    """The origin of a solver's coordinates: centres c of some columns, t of the labels.

    `unit` is the scale of scores: 1 for classes and counts, else the deviation of the labels.
    """

    columns: Array
    centres: Array
    label: float = 0.0
    unit: float = 1.0

    def rows(self, rows: RowBlock) -> RowBlock:
        """Return a centred copy of rows."""
        moved = _moved(rows, self.columns, self.centres) if len(self.columns) else rows
        return moved._replace(y=rows.y - self.label) if self.label else moved

    def inward(self, coef: Array, intercept: Any) -> Any:
        """Return the intercept for centred data from that for the original data."""
        return self._shifted(coef, intercept, 1.0)

    def outward(self, coef: Array, intercept: Any) -> Any:
        """Return the intercept for the original data from that for centred data."""
        return self._shifted(coef, intercept, -1.0)

    def _shifted(self, coef: Array, intercept: Any, sign: float) -> Any:
        known = self.columns < len(coef)
        c, w = self.centres[known], coef[self.columns[known]]
        if w.ndim == 1:
            return _sum_of_products([float(intercept), -sign * self.label], sign * c, w)
        b = np.broadcast_to(np.asarray(intercept, dtype=np.float64), coef.shape[1:])
        return np.array([_sum_of_products([x], sign * c, column) for x, column in zip(b.tolist(), w.T, strict=True)])

    def check(self, coef: Array) -> None:
        """Raise a ValueError if 64 bits cannot represent the original data's intercept to `PRECISION`."""
        if not len(self.columns):
            return
        largest = np.abs(coef[self.columns]).reshape(len(self.columns), -1).max(axis=1)
        lost = np.finfo(np.float64).eps * np.abs(self.centres) * largest
        if not lost.max() <= PRECISION * self.unit:
            j = int(np.argmax(lost))
            raise ValueError(
                f"column {self.columns[j]} is too far from zero: its entries are about {self.centres[j]:.6g} and its "
                f"weight is {largest[j]:.3g}, so that scores are off by {lost[j]:.1g} in 64 "
                f"bits, where {PRECISION * self.unit:.1g} is accepted; subtract {self.centres[j]:.17g} from the column"
            )


def frame_of(rows: RowBlock, loss: Loss) -> Frame | None:
    """Return a frame in which no column, and no label of a loss of y - z, is far from zero; None if none is needed.

    >>> from proxstream import losses
    >>> from proxstream.data.rowblock import as_block
    >>> X = np.array([[2001.0, 0.0], [2003.0, 5.0], [2002.0, 0.0]])
    >>> frame = frame_of(as_block(X, [1.0, -1.0, 1.0]), losses.logistic)
    >>> frame.columns, frame.centres, frame.rows(as_block(X)).data
    (array([0]), array([2002.]), array([-1.,  1.,  5.]))
    """
    sample = _sample(rows)
    columns, centres = _far_columns(rows, sample)
    label, unit = 0.0, 1.0
    if loss.of_residuals and len(sample):
        label, unit = (float(numbers[0]) for numbers in _centres(rows.y[sample][None]))
        if not FAR * unit < abs(label):
            label = 0.0
    return Frame(columns, centres, label, unit) if len(columns) or label else None


def centred(problem: Problem) -> tuple[Problem, Frame | None]:
    """Return the centred problem and its frame; the problem itself and None if nothing is far from zero."""
    _check_size(problem.rows)
    frame = frame_of(problem.rows, problem.loss) if problem.fit_intercept else None
    return (problem, None) if frame is None else (replace(problem, rows=frame.rows(problem.rows)), frame)


def _check_size(rows: RowBlock) -> None:
    """Raise a ValueError that names a value whose square is not a number: every solver sums squares."""
    if rows.check_finite() <= LARGEST:
        return
    at = int(np.argmax(np.abs(rows.data)))
    row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
    raise ValueError(
        f"values must be between {-LARGEST:g} and {LARGEST:g} for a batch solver, got {rows.data[at]:g} in row {row}, "
        f"column {rows.indices[at]}; scale the column"
    )


def solve_centred(
    problem: Problem, start: Solution | None, tol: float, solver: Callable[[Problem, Solution | None], Solution]
) -> Solution:
    """Solve the centred problem and return the solution for the original data.

    The result is finite, never worse than weights 0 (`no_worse_than_null`), and its dual value is `proved`.
    """
    near, frame = centred(problem)
    if frame is None:
        return proved(problem, no_worse_than_null(problem, solver(problem, start), tol), tol)
    if start is not None:
        start = start._replace(intercept=frame.inward(start.coef, start.intercept))
    return outward(near, frame, proved(near, no_worse_than_null(near, solver(near, start), tol), tol), tol)


def outward(near: Problem, frame: Frame, found: Solution, tol: float) -> Solution:
    """Return a solution of a centred problem for the original data.

    The primal value is that of the returned intercept, which rounding may have changed.
    """
    frame.check(found.coef)
    b = frame.outward(found.coef, found.intercept)
    last = found.history[-1]
    primal = near.primal(found.coef, frame.inward(found.coef, b))
    dual = min(last.dual, primal)
    record = last._replace(primal=primal, dual=dual, gap=primal - dual)
    proved = found.converged and record.gap <= tol * max(abs(primal), abs(dual), abs(last.primal))
    return found._replace(intercept=b, history=[*found.history[:-1], record], converged=proved)


# -- far columns ----------------------------------------------------------------------------------


def _sample(rows: RowBlock) -> Array:
    """Return a sample of rows with a weight, one from each of equal ranges."""
    counted = np.flatnonzero(rows.c) if len(rows.c) else np.arange(rows.n_rows)
    length = (int(rows.indptr[-1]) - int(rows.indptr[0])) / max(rows.n_rows, 1)
    m = min(SAMPLE, max(LEAST, int(ENTRIES / max(length, 1.0))))
    if len(counted) <= m:
        return counted
    ends = np.linspace(0, len(counted), m + 1).astype(np.int64)
    return np.asarray(counted[np.random.default_rng(0).integers(ends[:-1], ends[1:])])


def _far_columns(rows: RowBlock, sample: Array) -> tuple[Array, Array]:
    """Return the columns that are far from zero, and their centres."""
    pieces = [slice(rows.indptr[i], rows.indptr[i + 1]) for i in sample]
    if not pieces:
        return np.empty(0, np.int64), np.empty(0)
    indices = np.concatenate([rows.indices[piece] for piece in pieces])
    seen, at, counts = np.unique(indices, return_inverse=True, return_counts=True)
    often = counts >= PRESENT * len(sample)
    seen, place = seen[often].astype(np.int64), np.cumsum(often) - 1
    if not len(seen):
        return seen, np.empty(0)
    kept = often[at]
    of = np.repeat(np.arange(len(sample)), [piece.stop - piece.start for piece in pieces])[kept]
    table = np.zeros((len(seen), len(sample)))
    table[place[at[kept]], of] = np.concatenate([rows.data[piece] for piece in pieces])[kept]
    centres, deviations = _centres(table)
    far = FAR * deviations < np.abs(centres)
    return seen[far], centres[far]


def _centres(values: Array) -> tuple[Array, Array]:
    """Return the median of each row, as one of its values, and the mean absolute deviation from it."""
    middle = values.shape[1] // 2
    centres = np.partition(values, middle, axis=1)[:, middle]
    scales = np.maximum(np.abs(values).max(axis=1), np.finfo(np.float64).tiny)  # so that no sum overflows
    parts = np.abs(values / scales[:, None] - (centres / scales)[:, None])
    return centres, scales * np.mean(parts, axis=1)


# -- moving rows ---------------------------------------------------------------------------------


def _moved(rows: RowBlock, columns: Array, centres: Array) -> RowBlock:
    """Return rows minus the centres of their columns, without explicit zeros; 32-bit if that loses nothing."""
    from scipy.sparse import csr_array

    first, last = int(rows.indptr[0]), int(rows.indptr[-1])
    indices, n = rows.indices[first:last], rows.n_rows
    shifts = np.zeros(max(int(indices.max(initial=-1)), int(columns.max())) + 1)
    shifts[columns] = centres
    data = shifts[indices]
    whole = np.count_nonzero(data) == n * len(columns)
    np.subtract(rows.data[first:last], data, out=data)
    X = csr_array((data, indices, rows.indptr - first), shape=(n, len(shifts)))
    if not whole:
        X = X + _missing(X, columns, centres)
    elif not data.all():
        X = X.copy()  # indices are those of the data
    X.eliminate_zeros()
    data = X.data
    if rows.data.dtype == np.float32:
        short = data.astype(np.float32)
        data = short if np.array_equal(short, data) else data
    return rows._replace(indptr=X.indptr, indices=X.indices, data=data)


def _missing(X: Any, columns: Array, centres: Array) -> Any:
    """Return -c where a column has no entry, as a sparse matrix."""
    from scipy.sparse import csr_array

    here = np.isin(X.indices, columns)
    lacks = np.ones((X.shape[0], len(columns)), dtype=bool)
    of = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[here]
    lacks[of, np.searchsorted(columns, X.indices[here])] = False
    i, k = np.nonzero(lacks)
    return csr_array((-centres[k], (i, columns[k])), shape=X.shape)


def _sum_of_products(terms: list[float], a: Array, b: Array) -> float:
    """Return sum terms + <a, b>, rounded once; products are split into two numbers each (Dekker 1971)."""
    high = a * b
    with np.errstate(all="ignore"):
        (a1, a2), (b1, b2) = _split(a), _split(b)
        low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2
    low = np.where(np.isfinite(low), low, 0.0)
    return math.fsum([*terms, *high.tolist(), *low.tolist()])


def _split(x: Array) -> tuple[Array, Array]:
    """Return x as a sum of two numbers with half of the digits each."""
    t = 134217729.0 * x  # 2^27 + 1
    high = t - (t - x)
    return high, x - high
