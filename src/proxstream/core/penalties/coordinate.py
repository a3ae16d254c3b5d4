"""The subproblem of one coordinate: the closed form of everything that does not couple coordinates.

    argmin_x  u x + t |x| + sum_b kappa_b B_b(x) + (h/2) x^2   subject to   lo <= x <= hi

with B_b the reverse Huber function of width delta_b. One-dimensional and convex, so the constraint only
clips the free minimizer, also where it leaves out 0. The functions are chains of ufuncs without branches or
checks: they take arrays or plain numbers. They divide by h = 0 on purpose: an infinite result is an
unbounded problem, and the caller says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def shrink(a: Any, h: Any) -> Any:
    """Minimize -a m + (h/2) m^2 over m >= 0: max(a / h, 0), where 0/0 is 0 and a/0 is infinite for a > 0."""
    return np.fmax(a / h, 0.0)


def threshold(u: Any, h: Any, t: Any, bends: Sequence[tuple[float, float]] = ()) -> Any:
    """Minimize u x + t |x| + sum_b kappa_b B_b(x) + (h/2) x^2, for (kappa_b, delta_b) in `bends`.

    Without bends this is the soft threshold (Xiao 2010, eq. 10; Duchi, Hazan and Singer 2011, eq. 22). With
    them, the derivative at m = |x| > 0, h m + sum_b kappa_b max(1, m / delta_b) + t - |u|, is convex and
    rises: it is the largest of its linear pieces, so its zero is the smallest of theirs.

    >>> float(threshold(-3.0, 2.0, 1.0)), float(threshold(-6.0, 2.0, 0.0, [(1.0, 0.5)]))
    (1.0, 1.5)
    """
    rest = sum(kappa for kappa, _ in bends)
    m = shrink(np.abs(u) - t - rest, h)
    for kappa, delta in sorted(bends, key=lambda bend: bend[1]):
        rest, h = rest - kappa, h + kappa / delta
        m = np.minimum(m, shrink(np.abs(u) - t - rest, h))
    return np.copysign(m, -u)
