"""Standardized columns on a cluster: means and deviations of the first rows, the same for all lanes.

Running statistics are a function of the sequence of rows, and lanes have several sequences: their weights would be of
different units, and could not be merged. So the client, which reads the head of the first file anyway, takes the
statistics of the first rows of the run and fixes them; workers standardize the rows that they read by them. They do
not depend on the number of lanes, and a run that resumes finds the same ones.

A column that is constant in the first rows has the deviation 1, and one without numbers the mean 0 too, so that later
numbers count: with running statistics they would be standardized as soon as they differ.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..core.validation import Array
from ..data._standardize import MEAN, SQUARES, WEIGHT
from ..data.standardize import Standardizer
from ..io.features.featurizer import Featurizer
from ..io.types import Chunk

HEAD = 4096  # rows, as many as AutoFTRL tries its scales on


def fix_statistics(featurizer: Featurizer, chunks: Iterable[Chunk], given: Array | None = None) -> None:
    """Set the statistics of a featurizer to those of a model that is continued, or else of the first rows of chunks."""
    columns = featurizer.standardizer
    if given is not None:
        columns.restore(given)
        return
    left = HEAD
    for chunk in chunks:
        columns.transform(chunk.rows.slice(0, min(left, chunk.rows.n_rows)), learn=True)
        left -= chunk.rows.n_rows
        if left <= 0:
            break
    columns.state = with_deviations(columns.state)


def with_deviations(state: Array) -> Array:
    """Return statistics with the deviation 1 for columns that have none.

    >>> with_deviations(np.array([[2.0, 2.0, 0.0], [5.0, 5.0, 0.0], [8.0, 0.0, 0.0]]))
    array([[2., 2., 1.],
           [5., 5., 0.],
           [8., 2., 1.]])
    """
    weight = np.where(state[WEIGHT] > 0.0, state[WEIGHT], 1.0)
    return np.stack([weight, state[MEAN], np.where(state[SQUARES] > 0.0, state[SQUARES], weight)])


def standardized(chunk: Chunk, columns: Standardizer | None, dtype: type) -> Chunk:
    """Return a chunk whose rows are standardized by fixed statistics, if there are any."""
    return chunk if columns is None else chunk._replace(rows=columns.transform(chunk.rows, learn=False, dtype=dtype))
