"""0/1 features from a table: a bin or a category each, and products of two of them.

Duchi, Hazan and Singer (section 7.4) cut every number into five bins and take products of features, 4,001 in all,
without telling which. Here they are

    one for every bin of a column of numbers and every category of the others,
    the products of two that are 1 in the most rows, leaving out those that only repeat one of the two,
    and one that is always 1.

Bins hold about as many rows each, as far as values that many rows share allow: a value that alone has more rows than a
bin should, such as 0 in a column of capital gains, is a separate bin, and the others share the bins that are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..core.validation import Array

BINS = 5
CHUNK = 8192  # rows of products that are made at a time


class Binning(NamedTuple):
    """The values with a bin each, in rising order, and the upper ends of all further bins but the last."""

    own: Array
    ends: Array

    def codes(self, values: Array) -> Array:
        """Return the bin of each value: those of single values come first."""
        bins = len(self.own) + np.searchsorted(self.ends, values, side="left")
        for i, value in enumerate(self.own):
            bins[values == value] = i
        return np.asarray(bins)

    @property
    def size(self) -> int:
        """How many bins there are."""
        return len(self.own) + len(self.ends) + 1


def binning(values: Array, n_bins: int = BINS) -> Binning:
    """Return bins of about equal numbers of rows, at most n_bins.

    >>> binning(np.array([0.0] * 6 + [1.0, 2.0, 3.0, 4.0]), 3)
    Binning(own=array([0.]), ends=array([2.]))
    """
    different, counts = np.unique(values, return_counts=True)
    heavy = counts > len(values) / n_bins
    own = different[heavy]  # fewer than n_bins: n_bins of them would have more rows than there are
    others = np.sort(values[~np.isin(values, own)])
    left = n_bins - len(own)
    if len(others) == 0:
        return Binning(own[:-1], np.empty(0))
    ends = np.unique(others[np.ceil(np.arange(1, left) * len(others) / left).astype(int) - 1])
    return Binning(own, ends[ends < others[-1]])


class Products:
    """From columns to 0/1 rows; what the bins, categories and products are is learned from the columns given first.

    Parameters
    ----------
    columns
        By name: floats to be cut into bins, anything else is a category.
    n_features
        In all; fewer if there are no more products.

    Examples
    --------
    >>> columns = {"sex": np.array(["f", "m", "m"], dtype=object), "age": np.array([20.0, 30.0, 40.0])}
    >>> products = Products(columns, n_features=100)
    >>> products.n_features                      # 2 sexes, 3 ages, no product that is not one of them, and the constant
    6
    >>> products.rows(products.codes(columns)).toarray().astype(int)
    array([[1, 0, 1, 0, 0, 1],
           [0, 1, 0, 1, 0, 1],
           [0, 1, 0, 0, 1, 1]])
    """

    def __init__(self, columns: Mapping[str, Array], n_features: int) -> None:
        self._kinds: dict[str, Binning | dict[Any, int]] = {}
        offsets = [0]
        for name, column in columns.items():
            kind: Binning | dict[Any, int]
            if column.dtype.kind == "f":
                kind = binning(column)
                offsets.append(offsets[-1] + kind.size)
            else:
                kind = {category: i for i, category in enumerate(sorted(set(column)))}
                offsets.append(offsets[-1] + len(kind))
            self._kinds[name] = kind
        self._offsets = offsets[:-1]
        self.n_values = offsets[-1]
        first, second = self._most_frequent(self.codes(columns), n_features - self.n_values - 1)
        self.pairs = list(zip(first.tolist(), second.tolist(), strict=True))
        self.n_features = self.n_values + len(first) + 1
        # The feature of the product of two values, or -1; the last place is for values that were not known.
        self._places = np.full((self.n_values + 1, self.n_values + 1), -1, np.int32)
        self._places[first, second] = self.n_values + np.arange(len(first))

    def _most_frequent(self, codes: Array, room: int) -> tuple[Array, Array]:
        n, width = codes.shape
        ones = np.ones(n * width, np.float32)
        values = csr_matrix((ones, codes.ravel(), np.arange(n + 1) * width), (n, self.n_values))
        together = (values.T @ values).toarray()
        alone = np.diag(together)
        first, second = np.nonzero(np.triu(together, 1))
        count = together[first, second]
        new = (count < alone[first]) & (count < alone[second])
        first, second, count = first[new], second[new], count[new]
        chosen = np.sort(np.argsort(-count, kind="stable")[: max(room, 0)])
        return first[chosen], second[chosen]

    def codes(self, columns: Mapping[str, Array]) -> Array:
        """Return the value's number per row and column; a category that was not known has the number n_values."""
        made = np.empty((len(next(iter(columns.values()))), len(self._kinds)), np.int32)
        for i, ((name, kind), offset) in enumerate(zip(self._kinds.items(), self._offsets, strict=True)):
            if isinstance(kind, Binning):
                made[:, i] = offset + kind.codes(columns[name])
            else:
                unknown = self.n_values - offset
                made[:, i] = [offset + kind.get(category, unknown) for category in columns[name]]
        return made

    def rows(self, codes: Array) -> Any:
        """Return the 0/1 rows (CSR, float32) of the numbers that `codes` returned."""
        indices, lengths = [], []
        for start in range(0, len(codes), CHUNK):
            chunk = codes[start : start + CHUNK]
            places = [np.where(chunk < self.n_values, chunk, -1)]
            places += [
                self._places[chunk[:, a], chunk[:, b]][:, None] for a, b in combinations(range(chunk.shape[1]), 2)
            ]
            places.append(np.full((len(chunk), 1), self.n_features - 1))
            features = np.hstack(places).astype(np.int32, copy=False)
            there = features >= 0
            lengths.append(there.sum(axis=1))
            indices.append(features[there])
        indptr = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        flat = np.concatenate(indices)
        made = csr_matrix((np.ones(len(flat), np.float32), flat, indptr), (len(codes), self.n_features))
        made.sort_indices()
        return made
