"""Features of the lasso, judged by their slopes: which constraints a dual point meets, and who breaks them.

G_j   <x_j, theta>, theta a dual point          l1, l2   strengths, one a feature
"""

from __future__ import annotations

import numpy as np

from .jit import compiled


@compiled
def limit(G, l1, l2):
    """Return the largest s with s |G_j| <= l1_j wherever l2_j = 0."""
    s = np.inf
    for j in range(l1.shape[0]):
        if l2[j] == 0.0 and s * abs(G[j]) > l1[j]:
            s = l1[j] / abs(G[j])
    return s


@compiled
def beyond(G, s, l1, l2):
    """Return sum_j (s |G_j| - l1_j)+^2 / (2 l2_j) over the features with l2_j > 0."""
    total = 0.0
    for j in range(l1.shape[0]):
        if l2[j] > 0.0:
            over = max(s * abs(G[j]) - l1[j], 0.0)
            total += over * (over / l2[j])
    return 0.5 * total


@compiled
def above(G, w, inside, part, l1, out):
    """Write the features that are not inside and have a weight or |G_j| > part l1_j; return how many."""
    found = 0
    for j in range(l1.shape[0]):
        if not inside[j] and (abs(G[j]) > part * l1[j] or w[j] != 0.0):
            out[found] = j
            found += 1
    return found
