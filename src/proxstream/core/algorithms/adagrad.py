"""AdaGrad: the geometry itself is learned, from the gradients' second moments.

Reference: J. Duchi, E. Hazan, Y. Singer, Adaptive subgradient methods for online learning and stochastic
optimization, 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .. import validation as _checks
from ..component import component
from ..geometries import Curvature, Shape, Spectrum
from ..penalties import Penalty
from ..records import NamedTuple
from ..validation import Array
from .base import Algorithm, Point, Problem


class Moments(NamedTuple):
    """The linear term, second moments (squares, or outer products), the penalty's weight and the count."""

    u: Array
    q: Array
    k: float
    t: int


@component
class AdaGrad(Algorithm):
    """Adaptive subgradient steps: h = (delta + root of g_1:t's second moments) / eta.

    "dual_averaging": u = g_1:t, k = t, that is x_{t+1} = argmin <g_1:t, x> + t Psi(x) + <x, H x>/2.
    "mirror": u = g_t - H x_t, k = 1, a composite mirror-descent step from x_t.
    H = (delta I + G_t^(1/2)) / eta, where G_t is the sum of outer products g g': its diagonal, all of it, or
    its blocks; an eigenvalue of 0 acts as in the pseudo-inverse. The strongly convex variant drops the root.

    Parameters
    ----------
    eta : float
        Rate; in the bounds best at the size of the comparator.
    delta : float
        Added to the diagonal. The dual-averaging bound asks for delta >= the largest gradient.
    update : {"dual_averaging", "mirror"}
    matrix : {"diagonal", "full"} or one integer label per coordinate
        Coordinates with one label share a full block.
    strongly_convex : bool
        Sums of squares without the root, for penalties with curvature; mirror and diagonal only.

    Examples
    --------
    >>> import proxstream as ps
    >>> learner = ps.OnlineLearner(ps.AdaGrad(eta=1.0, delta=0.0, update="mirror"), dim=2)
    >>> learner.update([3.0, 0.1])
    >>> learner.point                            # a first step is eta long, whatever the scale
    array([-1., -1.])

    References: Duchi, Hazan and Singer 2010, equations 3 and 4, Figures 1 and 2, section 5.
    """

    eta: float = 0.3
    delta: float = 1.0
    update: str = "dual_averaging"
    matrix: str | Sequence[int] = "diagonal"
    strongly_convex: bool = False

    name: ClassVar[str] = "adagrad"

    def __post_init__(self) -> None:
        _checks.set_number(self, "eta", low=0.0, strict=True)
        _checks.set_number(self, "delta", low=0.0)
        _checks.one_of("update", self.update, ("dual_averaging", "mirror"))
        if isinstance(self.matrix, str):
            _checks.one_of("matrix", self.matrix, ("diagonal", "full"))
        else:
            object.__setattr__(self, "matrix", _checks.labels("matrix", self.matrix))
        object.__setattr__(self, "strongly_convex", _checks.truth("strongly_convex", self.strongly_convex))
        if self.strongly_convex and (self.update != "mirror" or self.matrix != "diagonal"):
            raise ValueError(
                "strongly_convex=True is defined for update='mirror' and matrix='diagonal', "
                f"got update={self.update!r}, matrix={self.matrix!r}"
            )

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Also refuse a matrix with a penalty that has no closed form in rotated coordinates."""
        super().check(penalty, shape)
        if self.matrix == "diagonal":
            return
        if len(shape) != 1:
            raise ValueError(f"matrix={self.matrix!r} takes a vector of weights, got dim={shape}")
        if not penalty.rotation_invariant:
            raise TypeError(
                f"full and block matrices take no penalty, L2, L2Norm, L2Ball or a sum of these, got {penalty!r}"
            )
        if not isinstance(self.matrix, str) and len(self.matrix) != shape[0]:
            raise ValueError(f"matrix must have one label per coordinate, {shape[0]}, got {len(self.matrix)}")

    def start(self, at: Point) -> Moments:
        """Return no gradients."""
        shape = at.x.shape if self.matrix == "diagonal" else at.x.shape * 2
        return Moments(np.zeros_like(at.x), np.zeros(shape), 0.0, 0)

    def take(self, s: Moments, at: Point, g: Array, c: float) -> Moments:
        """Add g g' (its part that the matrix keeps); the mirror update looks at this gradient alone."""
        if self.matrix == "diagonal":
            q = s.q + g * g
        elif self.matrix == "full":
            q = s.q + np.outer(g, g)
        else:
            labels = np.asarray(self.matrix)
            q = s.q + np.where(labels[:, None] == labels, np.outer(g, g), 0.0)
        if self.update == "mirror":
            return Moments(g, q, c, s.t + 1)
        return Moments(s.u + g, q, s.k + c, s.t + 1)

    def h(self, s: Moments) -> Curvature:
        """Return H_t: Figure 1, Figure 2, or section 5."""
        if self.matrix != "diagonal":
            moments = Spectrum.of(s.q) if isinstance(self.matrix, str) else Spectrum.of_blocks(s.q, self.matrix)
            return moments.root().shifted(self.delta).scaled(1.0 / self.eta)
        return (self.delta + (s.q if self.strongly_convex else np.sqrt(s.q))) / self.eta

    def problem(self, s: Moments, at: Point) -> Problem:
        """Return equation 3 as (g_1:t, H, k) or equation 4 as (g_t - H x_t, H, 1)."""
        h = self.h(s)
        if self.update == "dual_averaging":
            return Problem(s.u, h, s.k)
        hx = h.times(at.x) if isinstance(h, Spectrum) else h * at.x
        return Problem(s.u - hx, h, s.k)

    def step(self, s: Moments, at: Point, g: Array, penalty: Penalty, c: float = 1.0) -> tuple[Moments, Point]:
        """Take a mirror step in the eigenvectors' coordinates, so that x stays where no gradient has been."""
        if self.update == "dual_averaging" or self.matrix == "diagonal":
            return super().step(s, at, g, penalty, c)
        s = self.take(s, at, g, c)
        h = self.h(s)
        assert isinstance(h, Spectrum)
        # The least of curvatures stands for 0: it holds x against nothing, and loses to any penalty.
        seen, least = h.values > 0.0, np.finfo(np.float64).eps * float(np.max(h.values))
        values = np.where(seen, h.values, least or 1.0)
        v = np.where(seen, h.vectors.T @ g, 0.0)
        return s, self.point(h.vectors @ penalty.solve(v - values * (h.vectors.T @ at.x), values, s.k))
