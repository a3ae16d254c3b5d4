"""From descriptions to components, for models with one score a class."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, NamedTuple

from .. import algorithms as library
from .. import losses as loss_library
from ..algorithms import Algorithm
from ..losses import Loss
from ..losses.multiclass import MulticlassHinge
from ..penalties import GroupL2, GroupLinf, NoPenalty, Penalty
from . import losses
from .driver import Parts
from .groups import RowL2, RowLinf
from .multiclass import OneVsRest
from .penalties import Bounded
from .plan import plan


class MulticlassPlan(NamedTuple):
    """The components of a compiled learner of several classes, the width of its cells and the number of classes."""

    parts: Parts
    width: int
    classes: int


def multiclass_plan(
    algorithm: Algorithm, penalty: Penalty, loss: Loss, classes: int, dtype: Any
) -> MulticlassPlan | str:
    """Return how to run this combination compiled, or the reason why there is no lazy closed form for it.

    A multiclass loss makes one problem of all classes; any binary loss makes one-vs-rest problems, one a class.
    """
    together = loss.kind == "multiclass"
    if not together and loss.kind != "binary":
        return f"one-vs-rest takes a binary loss a class, {loss} is a loss for {loss.kind}"
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
            penalty=kind(float(folded.l1), float(folded.l2), float(rows[0].lam), isinstance(folded, Bounded))
        )
    return MulticlassPlan(parts, width, classes)


def _no_lazy_rows(algorithm: Algorithm, group: GroupL2 | GroupLinf, rest: Penalty) -> str:
    """Return why row groups cannot be brought up to date in closed form, or nothing."""
    if group.groups is not None:
        return f"{group!r}: groups other than the rows of the matrix couple features, which do not arrive together"
    if isinstance(algorithm, library.AdaGrad) and algorithm.update == "mirror":
        terms = rest._terms((1,))
        if isinstance(group, GroupLinf) and terms.l1 == terms.l2 == 0.0:
            return ""
        return f"AdaGrad's mirror steps with {group + rest!r} do not add up over idle rounds: h is unequal in a row"
    if isinstance(algorithm, library.MirrorDescent):
        if isinstance(group, GroupL2) and rest._terms((1,)).l1 > 0.0:
            return f"mirror steps with {group!r} and an l1 term do not add up over idle rounds: the l1 term turns a row"
        return ""
    if isinstance(algorithm, (library.RDA, library.AdaGrad, library.FTRLProximal)):
        return ""
    return f"{algorithm!r} with {group!r} keeps more than a cell a weight"
