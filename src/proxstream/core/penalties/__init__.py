"""Penalties and constraints Psi, each with the exact solver of the one subproblem.

Every algorithm of the family picks its next point by solving

    x+ = argmin_x  <u, x> + k Psi(x) + (1/2) sum_j h_j x_j^2

and a penalty knows how: `penalty.solve(u, h, k)`. Penalties add with `+` where the sum still has an exact
solver.

    what                 names                              how it is solved (room)
    each weight alone    NoPenalty L1 L2 ElasticNet Berhu   closed form, then a clip (separable, coordinate)
                         Box NonNegative
    groups of weights    L2Norm LinfNorm GroupL2 GroupLinf  one root per group (norms, segments)
    all weights at once  L1Ball L2Ball Simplex              one multiplier (balls, segments)
    a distribution       KL                                 one multiplier (kl)

A sum folds into thresholds, curvature, bends, bounds and at most one part that couples coordinates (base,
sums).

A learner that cannot use the subproblem asks for the pieces: `subgradient` of the soft part, `project` onto
the hard part. A regret bound asks for facts: `strong_convexity`, `minimal_at`. `PENALTIES` lists the
classes by name.

>>> from proxstream.core.penalties import L1, NonNegative
>>> penalty = L1(1.0) + NonNegative()
>>> penalty.solve(u=[-3.0, -0.5, 2.0], h=[1.0, 1.0, 4.0])
array([2., 0., 0.])
>>> penalty.value([2.0, 0.0, 0.0])
2.0
"""

from __future__ import annotations

from .balls import L1Ball, L2Ball, Simplex
from .base import Penalty
from .kl import KL
from .norms import GroupL2, GroupLinf, L2Norm, LinfNorm
from .separable import L1, L2, Berhu, Box, ElasticNet, NonNegative, NoPenalty
from .sums import Sum

PENALTIES: dict[str, type[Penalty]] = {
    "none": NoPenalty,
    "l1": L1,
    "l2": L2,
    "elastic_net": ElasticNet,
    "berhu": Berhu,
    "group_l2": GroupL2,
    "group_linf": GroupLinf,
    "l2_norm": L2Norm,
    "linf_norm": LinfNorm,
    "kl": KL,
    "box": Box,
    "nonnegative": NonNegative,
    "l1_ball": L1Ball,
    "l2_ball": L2Ball,
    "simplex": Simplex,
}

__all__ = [
    "KL",
    "L1",
    "L2",
    "PENALTIES",
    "Berhu",
    "Box",
    "ElasticNet",
    "GroupL2",
    "GroupLinf",
    "L1Ball",
    "L2Ball",
    "L2Norm",
    "LinfNorm",
    "NoPenalty",
    "NonNegative",
    "Penalty",
    "Simplex",
    "Sum",
    "get",
]


def get(penalty: Penalty | str | None) -> Penalty:
    """Return a penalty as it is, a text parsed, and None as NoPenalty().

    >>> get("l1(0.1) + nonnegative"), get(None)
    (L1(lam=0.1) + NonNegative(), NoPenalty())
    """
    if penalty is None:
        return NoPenalty()
    if isinstance(penalty, str):
        from ..parsing import parse_penalty  # which knows penalties: the import must wait

        return parse_penalty(penalty)
    if not isinstance(penalty, Penalty):
        names = ", ".join(kind.__name__ for kind in PENALTIES.values())
        raise TypeError(f"penalty must be None, one of {names}, a sum of them or text, got {penalty!r}")
    return penalty
