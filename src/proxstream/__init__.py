"""proxstream: sparse linear models from streams.

One subproblem stands behind every algorithm here,

    x+ = argmin_x  <u, x> + k Psi(x) + (1/2) sum_j h_j x_j^2

A penalty solves it, an algorithm keeps (u, h, k), a loss tells slopes; nothing knows two of these.

>>> import proxstream as ps
>>> learner = ps.OnlineLearner(ps.RDA(gamma=1.0), ps.L1(0.1), dim=2)
>>> _ = learner.learn([1.0, 0.1], +1, "logistic")
>>> learner.point
array([0.4, 0. ])

Names are loaded on demand: importing the package imports nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import algorithms, batch, estimators, geometries, losses, modelfile, online, penalties, streams
    from .algorithms import (
        AROW,
        FTRL,
        RDA,
        SGD,
        AcceleratedRDA,
        AdaGrad,
        AutoFTRL,
        FollowTheLeader,
        FTRLProximal,
        MirrorDescent,
        PassiveAggressive,
        TruncatedGradient,
    )
    from .batch import Certificate, Path, StructuredSDCA, certificate, path
    from .estimators import (
        CertifiedClassifier,
        CertifiedRegressor,
        SDCAClassifier,
        SDCARegressor,
        StreamClassifier,
        StreamRanker,
        StreamRegressor,
    )
    from .geometries import Entropy, Euclidean, PNorm
    from .losses import (
        absolute,
        epsilon_insensitive,
        hinge,
        huber,
        logistic,
        multiclass_hinge,
        perceptron,
        poisson,
        quantile,
        ranking_hinge,
        smoothed_hinge,
        softmax,
        squared,
        squared_hinge,
    )
    from .modelfile import ModelFileError, load, save
    from .online import Bound, OnlineLearner, Regret
    from .penalties import (
        KL,
        L1,
        L2,
        Berhu,
        Box,
        ElasticNet,
        GroupL2,
        GroupLinf,
        L1Ball,
        L2Ball,
        L2Norm,
        LinfNorm,
        NonNegative,
        NoPenalty,
        Simplex,
    )
    from .streams import open_stream

_ROOMS = {
    "algorithms": (
        "AROW",
        "FTRL",
        "RDA",
        "SGD",
        "AcceleratedRDA",
        "AdaGrad",
        "AutoFTRL",
        "FTRLProximal",
        "FollowTheLeader",
        "MirrorDescent",
        "PassiveAggressive",
        "TruncatedGradient",
    ),
    "batch": ("Certificate", "Path", "StructuredSDCA", "certificate", "path"),
    "estimators": (
        "CertifiedClassifier",
        "CertifiedRegressor",
        "SDCAClassifier",
        "SDCARegressor",
        "StreamClassifier",
        "StreamRanker",
        "StreamRegressor",
    ),
    "geometries": ("Entropy", "Euclidean", "PNorm"),
    "losses": (
        "absolute",
        "epsilon_insensitive",
        "hinge",
        "huber",
        "logistic",
        "multiclass_hinge",
        "perceptron",
        "poisson",
        "quantile",
        "ranking_hinge",
        "smoothed_hinge",
        "softmax",
        "squared",
        "squared_hinge",
    ),
    "modelfile": ("ModelFileError", "load", "save"),
    "online": ("Bound", "OnlineLearner", "Regret"),
    "penalties": (
        "KL",
        "L1",
        "L2",
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
        "Simplex",
    ),
    "streams": ("open_stream",),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = ["__version__", *_ROOMS, *_HOME]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("proxstream")
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
