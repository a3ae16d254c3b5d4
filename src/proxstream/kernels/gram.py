"""The quadratic model on few columns, through their Gram matrix H = X_S' D X_S.

With H at hand a step no longer looks at the rows: coordinate passes keep q = g + H (u - w), the model's slope without
its penalty, one row of H a move.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled
from .l1 import shrunk, violation


@compiled
def add(columns, chosen, X, c, places, H):
    """Add sum_i c_i x_ij x_ik to H_jk and H_kj for each place j that is told and all k <= j.

    `chosen` are columns, X the same by rows. One column's products with those before it are summed up side by side,
    in a vector that stays near the processor, which all of H would not.
    """
    ptr, idx, val = columns.ptr, columns.idx, columns.val
    indptr, indices, data = X.indptr, X.indices, X.data
    sums = np.zeros(chosen.shape[0])
    for j in places:
        sums[: j + 1] = 0.0
        for k in range(np.uint64(ptr[chosen[j]]), np.uint64(ptr[chosen[j] + 1])):
            i = idx[k]
            x = c[i] * val[k]
            if x != 0.0:
                q, end = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint32(1)])
                while q < end and indices[q] <= j:
                    sums[indices[q]] += x * data[q]
                    q += np.uint64(1)
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
