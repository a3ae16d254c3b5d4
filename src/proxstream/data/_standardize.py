"""Rows with standardized numbers: running means and deviations, and numbers put into rows."""

from __future__ import annotations

import numpy as np

from ..jit.compile import compiled

# Rows of the state: sums of weights, means, sums of weighted squared distances from the mean.
WEIGHT, MEAN, SQUARES = range(3)


@compiled
def standardize(indptr, indices, data, weights, first, state, learning, out):
    """Write the values of the rows, those of features first, first + 1, ... standardized by the state, one column each.

    A row that is learned enters the state before its own values are standardized: West (1979), with the weight c,

        W += c,    m' = m + (x - m) c / W,    S += c (x - m) (x - m'),    z = (x - m') / sqrt(S / W).

    Rows come one after the other, so it does not matter how a stream is cut. `weights` are empty where all are 1.
    """
    for i in range(len(indptr) - 1):
        c = weights[i] if len(weights) else 1.0
        for k in range(indptr[i], indptr[i + 1]):
            j, x = np.int64(indices[k]) - first, np.float64(data[k])
            if 0 <= j < state.shape[1]:
                if learning and c > 0.0:
                    step = x - state[MEAN, j]
                    state[WEIGHT, j] += c
                    state[MEAN, j] += step * (c / state[WEIGHT, j])
                    state[SQUARES, j] += c * step * (x - state[MEAN, j])
                if state[SQUARES, j] > 0.0:
                    x = (x - state[MEAN, j]) / np.sqrt(state[SQUARES, j] / state[WEIGHT, j])
                else:
                    x = 0.0
            out[k] = x


@compiled
def take_numbers(indptr, hashes, values, places, seeds, numbers):
    """Move the numbers of columns out of hashed rows into a table, NaN where there is none; return how many there are.

    The cell of column q is at places[q] of each row, and is a number if its hash is seeds[q]. What was moved becomes 0,
    an absent feature.
    """
    found = 0
    for i in range(len(indptr) - 1):
        for q in range(len(places)):
            k = indptr[i] + places[q]
            present = hashes[k] == seeds[q]
            numbers[i, q] = values[k] if present else np.nan
            values[k] = 0.0 if present else values[k]
            found += present
    return found


@compiled
def put_numbers(indptr, indices, data, numbers, first, out_indptr, out_indices, out_data):
    """Write rows with the numbers of a table before their other features, number q as the feature first + q."""
    at = 0
    out_indptr[0] = 0
    for i in range(len(indptr) - 1):
        for q in range(numbers.shape[1]):
            if not np.isnan(numbers[i, q]):
                out_indices[at], out_data[at] = first + q, numbers[i, q]
                at += 1
        for k in range(indptr[i], indptr[i + 1]):
            out_indices[at], out_data[at] = indices[k], data[k]
            at += 1
        out_indptr[i + 1] = at
