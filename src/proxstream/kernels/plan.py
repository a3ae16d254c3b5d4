"""From descriptions to components: which algorithm, penalty and loss a compiled kernel can join, and how."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import algorithms as library
from ..algorithms import Algorithm
from ..geometries import Euclidean
from ..losses import Loss
from ..losses.binary import Hinge
from ..losses.regression import Absolute, EpsilonInsensitive
from ..penalties import Penalty
from . import losses, penalties, rules
from .driver import Parts

_POWERS = {"sqrt": 0.5, "constant": 0.0, "linear": 1.0}


class Plan(NamedTuple):
    """The components of a compiled learner and the width of its cells."""

    parts: Parts
    width: int


def plan(algorithm: Algorithm, penalty: Penalty, loss: Loss, dtype: Any) -> Plan | str:
    """Return how to run this combination compiled, or the reason why there is no lazy closed form for it."""
    folded = penalties.as_tuple(penalty, dtype)
    if folded is None:
        return f"{penalty!r} does not act on each coordinate alone, with one strength for all"
    made = _rule(algorithm, folded, loss, dtype)
    if isinstance(made, str):
        return made
    rule, width = made
    return Plan(Parts(rule, folded, losses.as_tuple(loss), _for_intercept(rule), penalties.Plain(0.0, 0.0)), width)


def _for_intercept(rule: Any) -> Any:
    """Return the rule of one free coordinate, in 64 bits: no rho, a root where section 5 of AdaGrad drops it.

    A schedule that leaves all curvature to the penalty has none to lend: the intercept takes the sqrt one.
    """
    if isinstance(rule, rules.RDA):
        rule = rule._replace(rho=0.0, schedule=0 if rule.schedule == 1 else rule.schedule)
    if isinstance(rule, rules.AdaGradMirror):
        rule = rules.AdaGradMirror(rule.rate, rule.delta, False)
    return type(rule)(*(float(value) if isinstance(value, np.floating) else value for value in rule))


def _rule(a: Algorithm, penalty: Any, loss: Loss, number: Any) -> tuple[Any, int] | str:
    if not isinstance(a.space, Euclidean):
        return f"the geometry {a.space!r} couples all coordinates"
    if isinstance(a, library.RDA):
        return rules.RDA(float(a.gamma), float(a.rho), ("sqrt", "zero", "log").index(a.schedule)), 1
    if isinstance(a, library.AdaGrad) and a.matrix == "diagonal":
        if a.update == "mirror":
            kind = rules.AdaGradMirrorRidge if penalty.l2 > 0.0 else rules.AdaGradMirror
            return kind(number(1.0 / a.eta), number(a.delta), bool(a.strongly_convex)), 3
        return rules.AdaGrad(number(1.0 / a.eta), _positive(a.delta, a.eta, number)), 2
    if isinstance(a, library.FTRLProximal):
        return rules.FTRLProximal(
            number(1.0 / a.alpha), _positive(a.beta, a.alpha, number), a.penalty_weight == "once"
        ), 2
    if isinstance(a, library.MirrorDescent) and not a.implicit and a.projection == "greedy":
        return rules.MirrorDescent(1.0 / a.eta, _POWERS[a.schedule]), 2
    if isinstance(a, library.SGD):
        if penalty.l1 > 0.0:
            return "SGD decays idle weights in closed form with L2 or no soft penalty alone"
        return rules.SGD(1.0 / a.eta, _POWERS[a.schedule]), 2
    if isinstance(a, library.TruncatedGradient):
        if a.theta != np.inf and penalty.l2 > 0.0:
            return "TruncatedGradient with a finite theta and an l2 part has no closed form over idle rounds"
        return rules.TruncatedGradient(1.0 / a.eta, _POWERS[a.schedule], int(a.every), float(a.theta)), 2
    if isinstance(a, library.PassiveAggressive) and isinstance(loss, (Hinge, EpsilonInsensitive, Absolute)):
        return rules.PassiveAggressive(float(a.C), ("PA", "PA-I", "PA-II").index(a.variant)), 1
    if isinstance(a, library.AROW) and a.matrix == "diagonal" and isinstance(loss, Hinge):
        return rules.AROW(float(a.r)), 2
    return f"{a!r} with {loss} keeps more than a cell a feature"


def _positive(share: float, rate: float, number: Any) -> Any:
    """Return delta or beta, or in place of 0 a number so small that no root of squares feels it: h is never 0."""
    return number(share) if share > 0.0 else number(np.finfo(number).tiny * max(1.0, rate))
