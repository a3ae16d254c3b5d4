"""Loops of `projection`: a step in the dual, and how far each column is from its place."""

from __future__ import annotations

from ..jit.compile import compiled
from ._conjugates import into_domain

SHORT_OF_EDGE = 0.9  # part of the way to the edge of the domain of phi* that a step beyond it goes


@compiled
def move(loss, theta, D, v, y, p):
    """Subtract D_i v_i from theta_i.

    Where that would leave the domain of phi*, go most of the way to its edge, and take the curvature as so much smaller.
    """
    for i in range(theta.shape[0]):
        if p[i] > 0.0:
            new = (theta[i] - D[i] * v[i]) / p[i]
            inside = -into_domain(loss, -new, y[i])
            if inside == new:
                theta[i] = p[i] * new
            else:
                theta[i] += SHORT_OF_EDGE * (p[i] * inside - theta[i])
                D[i] *= 1.0 - SHORT_OF_EDGE


@compiled
def excess(G, chosen, x, l1, l2, out):
    """Write how far G_j is beyond -(l2_j x_j +- l1_j), 0 where it is between; return the columns where it is not 0."""
    found, k = chosen.copy(), 0
    for j in chosen:
        out[j] = G[j] - min(max(G[j], -l1[j]), l1[j]) + l2[j] * x[j]
        if abs(out[j]) > 1e-14 * l1[j]:
            found[k] = j
            k += 1
    return found[:k].copy()
