"""Scores from weights alone, summed in the order in which the learners' own predictions are."""

from __future__ import annotations

import numpy as np

from ..jit.compile import compiled


@compiled
def score(coef, intercept, rows, out):
    """Write <w, x> + b of each row; features beyond the weights have none."""
    for i in range(rows.indptr.shape[0] - 1):
        p = intercept
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            j = np.int64(rows.indices[q])
            if j < coef.shape[0]:
                p += coef[j] * rows.data[q]
        out[i] = p


@compiled
def scores(coef, intercept, rows, out):
    """Write the score of each row and output."""
    for i in range(rows.indptr.shape[0] - 1):
        out[i] = intercept
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            j = np.int64(rows.indices[q])
            if j < coef.shape[0]:
                for a in range(coef.shape[1]):
                    out[i, a] += coef[j, a] * rows.data[q]
