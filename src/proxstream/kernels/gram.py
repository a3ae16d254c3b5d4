"""The quadratic model on few columns, through their Gram matrix H = X_S' D X_S.

With H at hand a step no longer looks at the rows: coordinate passes keep q = g + H (u - w), the model's slope without
its penalty, one row of H a move.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled
from .l1 import shrunk, violation


@compiled
def add(columns, chosen, X, c, first, H):
    """Add sum_i c_i x_ij x_ik to H_jk for all pairs of columns of which one stands at `first` or later.

    `chosen` are columns, X the same by rows. One column's products with those before it are summed up side by side,
    in a vector that stays near the processor, which all of H would not.
    """
    sums = np.zeros(chosen.shape[0])
    for j in range(first, chosen.shape[0]):
        sums[: j + 1] = 0.0
        for k in range(columns.ptr[chosen[j]], columns.ptr[chosen[j] + 1]):
            i = np.int64(columns.idx[k])
            x = c[i] * columns.val[k]
            if x != 0.0:
                q, end = X.indptr[i], X.indptr[i + 1]
                while q < end and X.indices[q] <= j:
                    sums[X.indices[q]] += x * X.data[q]
                    q += 1
        for k in range(j):
            H[j, k] += sums[k]
            H[k, j] = H[j, k]
        H[j, j] += sums[j]


@compiled
def passes(H, diagonal, q, u, l1, l2, enough, most):
    """Go over the coordinates up to `most` times, until a pass meets violations of `enough`; return their sum."""
    total = 0.0
    for _ in range(most):
        total = 0.0
        for j in range(u.shape[0]):
            x = u[j]
            if x == 0.0 and abs(q[j]) <= l1[j]:
                continue
            total += violation(x, q[j], l1[j], l2[j])
            h = diagonal[j]
            if h + l2[j] == 0.0:
                continue
            u[j] = shrunk(x, q[j], h, l1[j], l2[j])
            move = u[j] - x
            if move != 0.0:
                row = H[j]
                for k in range(u.shape[0]):
                    q[k] += move * row[k]
                q[j] += move * (h - row[j])
        if total <= enough:
            break
    return total
