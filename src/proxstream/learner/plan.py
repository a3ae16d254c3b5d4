"""From descriptions to components: which algorithm, penalty and loss a compiled loop can join, and how."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..core import algorithms as library, losses as loss_library
from ..core.algorithms import Algorithm
from ..core.geometries import Euclidean
from ..core.losses import Loss, _kernels as losses
from ..core.losses.binary import Hinge
from ..core.losses.multiclass import MulticlassHinge
from ..core.losses.regression import Absolute, EpsilonInsensitive
from ..core.penalties import GroupL2, GroupLinf, NoPenalty, Penalty, _kernels as penalties
from ..core.records import NamedTuple
from . import _rules as rules
from ._groups import RowL2, RowLinf
from ._loop import Parts
from ._loop_multiclass import OneVsRest

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
    return Plan(Parts(rule, folded, losses.for_streams(loss), _for_intercept(rule), penalties.Plain(0.0, 0.0)), width)


def _for_intercept(rule: Any) -> Any:
    """Return the rule of one free coordinate, in 64 bits: no rho, a root where section 5 of AdaGrad drops it.

    A schedule that takes all curvature from the penalty does not work without one: the intercept uses sqrt.
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
    return f"{a!r} with {loss} keeps more than a cell per feature"


def _positive(share: float, rate: float, number: Any) -> Any:
    """Return delta or beta, or in place of 0 a number so small that no root of squares feels it: h is never 0."""
    return number(share) if share > 0.0 else number(np.finfo(number).tiny * max(1.0, rate))


class MulticlassPlan(NamedTuple):
    """The components of a compiled learner of several classes, the width of its cells and the number of classes."""

    parts: Parts
    width: int
    classes: int


def multiclass_plan(
    algorithm: Algorithm, penalty: Penalty, loss: Loss, classes: int, dtype: Any
) -> MulticlassPlan | str:
    """Return how to run this combination compiled, or the reason why there is no lazy closed form for it.

    A multiclass loss makes one problem of all classes; any binary loss makes one-vs-rest problems, one per class.
    """
    together = loss.kind == "multiclass"
    if not together and loss.kind != "binary":
        return f"one-vs-rest takes a binary loss per class, {loss} is a loss for {loss.kind}"
    if together and isinstance(algorithm, library.AROW):
        return "AROW learns one vector of weights: it takes several classes one-vs-rest, with the hinge"
    if together and isinstance(algorithm, library.PassiveAggressive) and not isinstance(loss, MulticlassHinge):
        return f"PassiveAggressive on several classes takes multiclass_hinge, or the hinge one-vs-rest, got {loss}"
    rows = [part for part in penalty.parts if isinstance(part, (GroupL2, GroupLinf))]
    rest: Penalty = reduce(add, (part for part in penalty.parts if part not in rows), NoPenalty())
    # A rule is the same for every loss; the hinge is the one that all of them take.
    made = plan(algorithm, rest, loss_library.hinge if together else loss, dtype)
    if isinstance(made, str):
        return made
    parts, width = made.parts, made.width
    parts = parts._replace(loss=losses.as_tuple(loss) if together else OneVsRest(parts.loss))
    if rows:
        reason = _no_lazy_rows(algorithm, rows[0], rest)
        if reason:
            return reason
        kind = RowL2 if isinstance(rows[0], GroupL2) else RowLinf
        folded = parts.penalty
        parts = parts._replace(
            penalty=kind(float(folded.l1), float(folded.l2), float(rows[0].lam), isinstance(folded, penalties.Bounded))
        )
    return MulticlassPlan(parts, width, classes)


def _no_lazy_rows(algorithm: Algorithm, group: GroupL2 | GroupLinf, rest: Penalty) -> str:
    """Return why row groups cannot be brought up to date in closed form, or nothing."""
    if group.groups is not None:
        return f"{group!r}: groups other than the rows of the matrix couple features, which do not arrive together"
    if isinstance(algorithm, library.AdaGrad) and algorithm.update == "mirror":
        terms = rest.terms((1,))
        if isinstance(group, GroupLinf) and terms.l1 == terms.l2 == 0.0:
            return ""
        return f"AdaGrad's mirror steps with {group + rest!r} do not add up over idle rounds: h is unequal in a row"
    if isinstance(algorithm, library.MirrorDescent):
        if isinstance(group, GroupL2) and rest.terms((1,)).l1 > 0.0:
            return f"mirror steps with {group!r} and an l1 term do not add up over idle rounds: the l1 term turns a row"
        return ""
    if isinstance(algorithm, (library.RDA, library.AdaGrad, library.FTRLProximal)):
        return ""
    return f"{algorithm!r} with {group!r} keeps more than a cell per weight"
