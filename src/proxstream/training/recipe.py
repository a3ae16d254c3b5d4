"""From words to parts: an algorithm, a loss and a penalty as a command line or a settings file names them.

    penalty("l1(0.001) + nonnegative")              L1(lam=0.001) + NonNegative()
    algorithm("ftrl_proximal", {"alpha": "0.5"})    FTRLProximal(alpha=0.5)

Names and parameters are those of the registries; values are numbers, words, or parts such as `pnorm(1.5)`. Nothing is
evaluated but literals.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

from .. import penalties
from ..algorithms import ALGORITHMS, Algorithm
from ..geometries import Geometry
from ..modelfile.codec import REGISTRIES
from ..penalties import PENALTIES, Penalty

CERTIFIED = {"tol": 1e-4, "max_epochs": 1000, "solver": "auto"}


def parameters(name: str) -> dict[str, Any]:
    """Return the parameters of an algorithm, or of the certified solver, with their defaults, in order.

    >>> parameters("ftrl_proximal")
    {'alpha': 0.1, 'beta': 1.0, 'penalty_weight': 'every_round'}
    """
    return dict(CERTIFIED) if name == "certified" else {f.name: f.default for f in fields(_algorithm_class(name))}


def algorithm(name: str, told: Mapping[str, str | bool]) -> Algorithm:
    """Make an algorithm from its name and parameters in words.

    >>> algorithm("rda", {"gamma": "2", "geometry": "pnorm(1.5)"})
    RDA(gamma=2.0, rho=0.0, geometry=PNorm(p=1.5), schedule='sqrt')
    >>> algorithm("sgd", {"alpha": "2"})
    Traceback (most recent call last):
    ValueError: sgd has no parameter alpha; it has eta, schedule
    """
    cls = _algorithm_class(name)
    known: dict[str, Field[Any]] = {field.name: field for field in fields(cls)}
    check_known(name, told)
    return cls(**{parameter: value(parameter, text, known[parameter].default) for parameter, text in told.items()})


def check_known(name: str, told: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the first parameter that an algorithm does not have, and those it has."""
    known = parameters(name)
    for parameter in told:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter}; it has {', '.join(known) or 'none'}")


def penalty(text: str) -> Penalty:
    """Make a penalty, or a sum of them, from words.

    >>> penalty("l1(0.5) + box(lo=0, hi=2)")
    L1(lam=0.5) + Box(lo=0.0, hi=2.0)
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _unreadable(text) from None
    made: list[Penalty] = [_part(node, PENALTIES, text) for node in _summands(tree)]
    total = made[0]
    for one in made[1:]:
        total = total + one
    return total


def together(l1: float, l2: float, more: str | None) -> Penalty:
    """Return the penalty of the options l1, l2 and penalty.

    >>> together(0.1, 0.0, None), together(0.0, 0.0, None), together(0.1, 0.2, "nonnegative")
    (L1(lam=0.1), NoPenalty(), ElasticNet(l1=0.1, l2=0.2) + NonNegative())
    """
    total: Penalty = penalties.NoPenalty()
    if l1 and l2:
        total = penalties.ElasticNet(l1, l2)
    elif l1 or l2:
        total = penalties.L1(l1) if l1 else penalties.L2(l2)
    if more is None:
        return total
    other = penalty(more)
    return other if isinstance(total, penalties.NoPenalty) else total + other


def _algorithm_class(name: str) -> type[Algorithm]:
    if name not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, certified, got {name!r}")
    return ALGORITHMS[name]


def value(name: str, text: str | bool, default: Any) -> Any:
    """Read a value of the kind that the default is of.

    >>> value("tol", "1e-6", 1e-4)
    1e-06
    """
    if isinstance(default, bool) or isinstance(text, bool):
        if not isinstance(text, bool) or not isinstance(default, bool):
            raise ValueError(f"{name} {'takes no value' if isinstance(default, bool) else 'needs a value'}")
        return text
    if isinstance(default, Geometry):
        return _parsed(text, REGISTRIES["geometry"], name)
    if isinstance(default, int):
        return _number(name, text, int)
    if isinstance(default, float):
        return (
            _parsed(text, REGISTRIES["rate"], name)
            if name == "rate" and text[:1].isalpha()
            else _number(name, text, float)
        )
    return text


def _number(name: str, text: str, kind: type[int] | type[float]) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} must be {'a whole number' if kind is int else 'a number'}, got {text!r}") from None


def _parsed(text: str, registry: Mapping[str, Any], name: str) -> Any:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        tree = None
    if tree is None:
        raise ValueError(f"{name} must be one of {', '.join(registry)}, got {text!r}")
    return _part(tree, registry, text, name)


def _summands(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        return [*_summands(tree.left), *_summands(tree.right)]
    return [tree]


def _part(tree: ast.expr, registry: Mapping[str, Any], text: str, what: str = "penalty") -> Any:
    """Make a part from `name` or `name(number, key=number)`."""
    call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
    if not isinstance(call.func, ast.Name) or call.func.id not in registry:
        raise ValueError(f"{what} must be one of {', '.join(registry)}, as in {_example(registry)}, got {text!r}")
    try:
        arguments = [ast.literal_eval(node) for node in call.args]
        named = {str(node.arg): ast.literal_eval(node.value) for node in call.keywords}
    except ValueError:
        raise _unreadable(text, what) from None
    known = [field.name for field in fields(registry[call.func.id])]
    if len(arguments) > len(known) or not set(named) <= set(known[len(arguments) :]):
        raise ValueError(f"{what} {call.func.id} takes {', '.join(known) or 'no parameters'}, got {text!r}")
    return registry[call.func.id](*arguments, **named)


def _example(registry: Mapping[str, Any]) -> str:
    return "'l1(0.01) + nonnegative'" if registry is PENALTIES else repr(next(iter(registry)))


def _unreadable(text: str, what: str = "penalty") -> ValueError:
    return ValueError(f"{what} must be names with numbers, as in 'l1(0.01) + nonnegative', got {text!r}")
