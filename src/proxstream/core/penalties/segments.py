"""Groups of coordinates laid side by side, and the two one-dimensional equations that couple them.

Every coupled penalty asks each of its groups for one unknown number. Two equations cover them all:

- `level`: sum_j w_j max(c_j - theta, 0) = r, piecewise linear in theta. It projects onto the simplex and
  the l1 ball (w = 1/h, c = -u or |u|) and finds the largest magnitude under an l-infinity norm, their dual
  (w = h, c = a/h). Solved exactly at sorted breakpoints.
- `secular_root`: ||a / (p + q z)||_2 = 1, smooth in z. It finds the length of x under an l2 norm
  (p = k lam, q = h) and the multiplier of an l2 ball (p = radius h, q = radius). Solved by Newton steps
  that cannot overshoot.

All groups advance together: no loop over groups, and no group's rounding reaches another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Index = NDArray[np.intp]

EPS = float(np.finfo(np.float64).eps)
FLAT = 1e-300  # curvature below this is none: 1/h and sums of it must stay finite


class Segments:
    """Consecutive runs of a flat array, one per group.

    Parameters
    ----------
    sizes : how many coordinates each group has
    order : where the coordinates of the runs are in the weights; None if they already lie in order

    >>> cut = Segments.labelled(np.array([7, -1, 7]))
    >>> cut.sum(cut.gather(np.array([1.0, 10.0, 2.0])))     # groups in the order of their labels
    array([10.,  3.])
    """

    def __init__(self, sizes: Index, order: Index | None = None):
        self.starts: Index = np.cumsum(sizes) - sizes
        self.index: Index = np.repeat(np.arange(len(sizes)), sizes)
        self.position: Index = np.arange(len(self.index)) - self.starts[self.index]
        self.longest = int(sizes.max())
        self.order = order

    @classmethod
    def even(cls, groups: int, width: int) -> Segments:
        """`groups` runs of `width` coordinates each: the rows of a matrix, or one run of everything."""
        return cls(np.full(groups, width, dtype=np.intp))

    @classmethod
    def labelled(cls, labels: NDArray[np.integer[Any]]) -> Segments:
        """One run for each distinct label."""
        return cls(np.unique(labels, return_counts=True)[1], np.argsort(labels, kind="stable"))

    def gather(self, x: Vector) -> Vector:
        """Lay the coordinates of `x` group by group."""
        return x if self.order is None else x[self.order]

    def scatter(self, x: Vector) -> Vector:
        """Undo `gather`."""
        if self.order is None:
            return x
        out = np.empty_like(x)
        out[self.order] = x
        return out

    def sum(self, x: Vector) -> Vector:
        """Sum over each group."""
        return np.add.reduceat(x, self.starts)

    def max(self, x: Vector) -> Vector:
        """Largest entry of each group."""
        return np.maximum.reduceat(x, self.starts)

    def norm(self, x: Vector) -> Vector:
        """Euclidean norm of each group, scaled so that no square over- or underflows."""
        scale = self.max(np.abs(x))
        scale[scale == 0.0] = 1.0
        unit = x / scale[self.index]
        return scale * np.sqrt(self.sum(unit * unit))

    def cumsum(self, x: Vector) -> Vector:
        """Running sum inside each group, by doubling: log2(longest) passes, so as many roundings."""
        step = 1
        while step < self.longest:
            inside = self.position[step:] >= step
            x = np.concatenate((x[:step], x[step:] + np.where(inside, x[:-step], 0.0)))
            step *= 2
        return x


def level(c: Vector, w: Vector, r: Vector, cut: Segments) -> tuple[Vector, Vector, Vector]:
    """Solve sum_j w_j max(c_j - theta, 0) = r >= 0 in each group, for w >= 0 (infinite weights too).

    Returns (top, below, filled): theta = top - below, where top is the smallest breakpoint c_j >= theta and
    filled is the left side there. The two numbers stay apart because c_j - theta = (c_j - top) + below keeps
    every digit where theta alone would lose them (with c = 1e8 and r h = 1e-8, all of them).

    Duchi, Hazan and Singer (2011), Figure 3 with v_i/a_i = c_i and a_i^2 = w_i, and their eq. 28 for theta.
    """
    order = np.lexsort((-c, cut.index))
    c, w = c[order], w[order]
    slope = cut.cumsum(w)
    drop = c[:-1] - c[1:]
    # The left side at each breakpoint, summed from terms >= 0: the paper's difference of two sums cancels.
    # A drop of 0 adds nothing, also under an infinite weight.
    rise = np.concatenate(([0.0], np.where(drop > 0.0, slope[:-1] * drop, 0.0)))
    rise[cut.starts] = 0.0
    left = cut.cumsum(rise)
    rho = cut.starts + cut.sum(np.where(left <= r[cut.index], 1.0, 0.0)).astype(np.intp) - 1
    return c[rho], np.maximum((r - left[rho]) / slope[rho], 0.0), left[rho]


def fill(c: Vector, h: Vector, r: float) -> Vector:
    """Minimize -<c, x> + (1/2) sum_j h_j x_j^2 over x >= 0 with sum x = r.

    Coordinates without curvature take, in equal shares, what the others leave at their price: the shortest of
    the minimizers.

    >>> fill(np.array([3.0, 2.0, 0.0]), np.array([1.0, 2.0, 1.0]), 2.0)
    array([1.66666667, 0.33333333, 0.        ])
    """
    flat = h < FLAT
    w = np.where(flat, np.inf, 1.0 / h)
    top, below, filled = level(c, w, np.array([r]), Segments.even(1, len(c)))
    x = w * np.maximum((c - top) + below, 0.0)
    tied = flat & (c == top)
    x[flat] = 0.0
    x[tied] = (r - filled) / max(int(tied.sum()), 1)
    return x


def secular_root(a: Vector, p: Vector | float, q: Vector, cut: Segments) -> Vector:
    """Find z >= 0 with ||a / (p + q z)||_2 = 1 in each group, for a, p, q >= 0; 0 where no z > 0 has it.

    1 / ||a / (p + q z)|| is a power mean of affine functions, so it is concave and rises with z: Newton's
    steps on it from the left stay on the left and end when rounding stops them. They start where the
    largest single term is 1, so that no term ever exceeds 1.
    """
    z = np.fmax(cut.max(np.where(q > 0.0, (a - p) / q, -np.inf)), 0.0)
    moving = np.ones(len(z), dtype=bool)
    for _ in range(100):
        d = p + q * z[cut.index]
        v = np.fmax(a / d, 0.0)  # fmax: 0/0 is a coordinate that asks for nothing
        s2 = cut.sum(v * v)
        s = np.sqrt(s2)
        step = s2 * (s - 1.0) / cut.sum(np.fmax(v * v * (q / d), 0.0))
        moving &= step > EPS * z
        if not moving.any():
            break
        z = np.where(moving, z + step, z)
    return z
