"""The algorithms: small immutable descriptions, each defined by how it keeps (u, h, k) of one subproblem.

| method                                     | u                              | h                         | k        |
|--------------------------------------------|--------------------------------|---------------------------|----------|
| RDA                                        | g_1:t                          | gamma sqrt(t)             | t        |
| RDA, strongly convex Psi                   | g_1:t                          | 0 or gamma (1 + ln t)     | t        |
| AdaGrad, dual averaging                    | g_1:t                          | (delta + |g_1:t,j|) / eta | t        |
| AdaGrad, mirror                            | g_t - h x_t                    | (delta + |g_1:t,j|) / eta | 1        |
| FTRLProximal                               | g_1:t - sum_s sigma_s x_s      | (beta + |g_1:t,j|)/ alpha | t or 1   |
| AutoFTRL                                   | the same, scaled by itself     | sigma / kappa, see there  | t or 1   |
| MirrorDescent (FOBOS, SMIDAS, EG)          | g_t - theta_t / eta_t          | 1 / eta_t                 | 1        |
| AcceleratedRDA                             | sum_s alpha_s g_s              | L + beta_t                | A_t      |
| FTRL, the survey's templates               | either of the above            | 1 / eta_t                 | alpha_1:t|
| FollowTheLeader, quadratic losses          | the losses' linear part        | the losses' Hessian       | t        |

Outside the scheme: SGD, TruncatedGradient, PassiveAggressive and AROW.
"""

from __future__ import annotations

from .adagrad import AdaGrad
from .auto import AutoFTRL
from .base import Algorithm
from .descent import SGD, MirrorDescent, TruncatedGradient
from .dual_averaging import RDA, AcceleratedRDA
from .ftrl import FTRL, FollowTheLeader, FTRLProximal
from .margin import AROW, PassiveAggressive

ALGORITHMS: dict[str, type[Algorithm]] = {
    cls.name: cls
    for cls in (
        RDA,
        AcceleratedRDA,
        AdaGrad,
        FTRLProximal,
        AutoFTRL,
        FTRL,
        MirrorDescent,
        TruncatedGradient,
        SGD,
        PassiveAggressive,
        AROW,
        FollowTheLeader,
    )
}

__all__ = [
    "ALGORITHMS",
    "AROW",
    "FTRL",
    "RDA",
    "SGD",
    "AcceleratedRDA",
    "AdaGrad",
    "Algorithm",
    "AutoFTRL",
    "FTRLProximal",
    "FollowTheLeader",
    "MirrorDescent",
    "PassiveAggressive",
    "TruncatedGradient",
]
