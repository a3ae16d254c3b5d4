"""From text to components: losses, penalties and algorithms as strings, for estimators, commands and model files.

    losses.get("huber(0.5)")                        Huber(delta=0.5)
    parse_penalty("l1(0.001) + nonnegative")        L1(lam=0.001) + NonNegative()
    parse_algorithm("rda(gamma=2)")                 RDA(gamma=2)

Names and parameters are those of the registries; values are literals, words (`schedule=log`), or components such as
`geometry=pnorm(1.5)`. Only literals are evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import reduce
from operator import add
from typing import Any

from . import penalties
from .algorithms import ALGORITHMS, Algorithm, AutoFTRL, rates
from .geometries import Entropy, Euclidean, Geometry, PNorm
from .losses.base import LOSSES
from .penalties import PENALTIES, Penalty, Sum

REGISTRIES: dict[str, Mapping[str, Any]] = {
    "algorithm": ALGORITHMS,
    "penalty": {**PENALTIES, "sum": Sum},
    "loss": {name: type(loss) for name, loss in LOSSES.items()},
    "geometry": {"euclidean": Euclidean, "pnorm": PNorm, "entropy": Entropy},
    "rate": {
        "constant": rates.Constant,
        "sqrt_decay": rates.SqrtDecay,
        "adaptive_diagonal": rates.AdaptiveDiagonal,
        "adaptive_norm": rates.AdaptiveNorm,
    },
}
EXAMPLES = {
    "algorithm": "rda(gamma=2)",
    "penalty": "l1(0.01) + nonnegative",
    "loss": "huber(0.5)",
    "geometry": "pnorm(1.5)",
    "rate": "sqrt_decay(0.5)",
}

CERTIFIED = {"tol": 1e-4, "max_epochs": 1000, "solver": "auto"}


def parse_penalty(text: str) -> Penalty:
    """Return the penalty, or the sum of penalties, that a text names.

    >>> parse_penalty("l1(0.5) + box(lo=0, hi=2)")
    L1(lam=0.5) + Box(lo=0.0, hi=2.0)
    """
    tree = _parse("penalty", text, PENALTIES)
    parts: list[Penalty] = [_component("penalty", node, text, PENALTIES) for node in _summands(tree)]
    return reduce(add, parts)


def parse_algorithm(text: str) -> Algorithm:
    """Return the algorithm that a text names.

    >>> parse_algorithm("rda(gamma=2.0, geometry=pnorm(1.5))")
    RDA(gamma=2.0, rho=0.0, geometry=PNorm(p=1.5), schedule='sqrt')
    """
    made: Algorithm = parse_component("algorithm", text, ALGORITHMS)
    return made


def as_penalty(penalty: Penalty | str | None) -> Penalty:
    """Return a penalty as it is, a text parsed, and None as no penalty.

    >>> as_penalty("l2(0.5)"), as_penalty(None)
    (L2(lam=0.5), NoPenalty())
    """
    return penalties.get(penalty)


def as_algorithm(algorithm: Algorithm | str | None) -> Algorithm:
    """Return an algorithm as it is, a text parsed, and None as AutoFTRL, the default.

    >>> as_algorithm("sgd(0.5)"), as_algorithm(None)
    (SGD(eta=0.5, schedule='sqrt'), AutoFTRL(penalty_weight='every_round', scale='auto', track=False))
    """
    if algorithm is None:
        return AutoFTRL()
    if isinstance(algorithm, str):
        return parse_algorithm(algorithm)
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be None, text or an Algorithm such as RDA(gamma=1.0), got {algorithm!r}")
    return algorithm


# -- options of the command line -----------------------------------------------------------------


def parameters(name: str) -> dict[str, Any]:
    """Return the parameters of an algorithm, or of the certified solver, with their defaults, in order.

    >>> parameters("ftrl_proximal")
    {'alpha': 0.1, 'beta': 1.0, 'penalty_weight': 'every_round'}
    """
    return dict(CERTIFIED) if name == "certified" else {f.name: f.default for f in fields(_algorithm_class(name))}


def split_algorithm(text: str) -> tuple[str, dict[str, str | bool]]:
    """Return the name of an algorithm, or of the certified solver, and the texts of the parameters given with it.

    >>> split_algorithm("rda(2, geometry=pnorm(1.5))")
    ('rda', {'gamma': '2', 'geometry': 'pnorm(1.5)'})
    >>> split_algorithm("certified(tol=1e-6)")
    ('certified', {'tol': '1e-6'})
    """
    tree = _parse("algorithm", text, ALGORITHMS) if "(" in text else None
    if tree is None:
        return text, {}
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise _error("algorithm", text, ALGORITHMS)
    name = tree.func.id
    known = parameters(name)
    named = {str(keyword.arg): keyword.value for keyword in tree.keywords}
    check_parameters(name, named)
    if len(tree.args) > len(known) or set(named) & set([*known][: len(tree.args)]):
        raise ValueError(f"{name} takes {', '.join(known) or 'no parameters'}, got {text!r}")
    nodes = dict(zip(known, tree.args, strict=False)) | named
    return name, {parameter: _option_text(node, text) for parameter, node in nodes.items()}


def _option_text(node: ast.expr, text: str) -> str | bool:
    """Return a value as it is typed after an option."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bool)):
        return node.value
    return ast.get_source_segment(text.strip(), node) or ast.unparse(node)


def algorithm_from_options(name: str, options: Mapping[str, str | bool]) -> Algorithm:
    """Return an algorithm from its name and the texts of its parameters.

    >>> algorithm_from_options("rda", {"gamma": "2", "geometry": "pnorm(1.5)"})
    RDA(gamma=2.0, rho=0.0, geometry=PNorm(p=1.5), schedule='sqrt')
    >>> algorithm_from_options("sgd", {"alpha": "2"})
    Traceback (most recent call last):
    ValueError: sgd has no parameter alpha; it has eta, schedule
    """
    known = parameters(name)
    check_parameters(name, options)
    return _algorithm_class(name)(**{key: parse_option(key, text, known[key]) for key, text in options.items()})


def check_parameters(name: str, options: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the first parameter that an algorithm does not have, and those it has."""
    known = parameters(name)
    for parameter in options:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter}; it has {', '.join(known) or 'none'}")


def penalty_from_options(l1: float, l2: float, more: str | None) -> Penalty:
    """Return the penalty of the options l1, l2 and penalty.

    >>> penalty_from_options(0.1, 0.0, None), penalty_from_options(0.0, 0.0, None)
    (L1(lam=0.1), NoPenalty())
    >>> penalty_from_options(0.1, 0.2, "nonnegative")
    ElasticNet(l1=0.1, l2=0.2) + NonNegative()
    """
    total: Penalty = penalties.NoPenalty()
    if l1 and l2:
        total = penalties.ElasticNet(l1, l2)
    elif l1 or l2:
        total = penalties.L1(l1) if l1 else penalties.L2(l2)
    if more is None:
        return total
    other = parse_penalty(more)
    return other if isinstance(total, penalties.NoPenalty) else total + other


def parse_option(name: str, text: str | bool, default: Any) -> Any:
    """Return the value of an option, of the type of its default.

    >>> parse_option("tol", "1e-6", 1e-4)
    1e-06
    """
    if isinstance(default, bool) or isinstance(text, bool):
        if not isinstance(text, bool) or not isinstance(default, bool):
            raise ValueError(f"{name} {'takes no value' if isinstance(default, bool) else 'needs a value'}")
        return text
    if isinstance(default, Geometry) or (name == "rate" and text[:1].isalpha()):
        return parse_component(name, text, REGISTRIES["rate" if name == "rate" else "geometry"])
    if isinstance(default, (int, float)):
        try:
            return type(default)(text)
        except ValueError:
            kind = "a whole number" if isinstance(default, int) else "a number"
            raise ValueError(f"{name} must be {kind}, got {text!r}") from None
    return text


def _algorithm_class(name: str) -> type[Algorithm]:
    if name not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, certified, got {name!r}")
    return ALGORITHMS[name]


# -- the parser ----------------------------------------------------------------------------------


def parse_component(what: str, text: str, registry: Mapping[str, Any]) -> Any:
    """Return the component `name` or `name(value, parameter=value)` of a registry of classes or of default instances.

    >>> parse_component("geometry", "pnorm(1.5)", REGISTRIES["geometry"])
    PNorm(p=1.5)
    >>> parse_component("geometry", "pnom(1.5)", REGISTRIES["geometry"])
    Traceback (most recent call last):
    ValueError: geometry must be one of euclidean, pnorm, entropy, as in 'pnorm(1.5)', got 'pnom' in 'pnom(1.5)'
    """
    return _component(what, _parse(what, text, registry), text, registry)


def _parse(what: str, text: str, registry: Mapping[str, Any]) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _error(what, text, registry) from None


def _summands(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        return [*_summands(tree.left), *_summands(tree.right)]
    return [tree]


def _component(what: str, tree: ast.expr, text: str, registry: Mapping[str, Any]) -> Any:
    call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
    if not isinstance(call.func, ast.Name):
        raise _error(what, text, registry)
    name = call.func.id
    if name not in registry:
        raise _error(what, text, registry, name)
    known: dict[str, Field[Any]] = {field.name: field for field in fields(registry[name])}
    named = [str(node.arg) for node in call.keywords]
    if len(call.args) > len(known) or not set(named) <= set([*known][len(call.args) :]):
        raise ValueError(f"{what} {name} takes {', '.join(known) or 'no parameters'}, got {text!r}")
    nodes = {**dict(zip(known, call.args, strict=False)), **{str(node.arg): node.value for node in call.keywords}}
    if not nodes and not isinstance(registry[name], type):
        return registry[name]
    for parameter, field in known.items():
        if parameter not in nodes and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{what} {name} needs {parameter}, got {text!r}")
    values = {parameter: _value(node, known[parameter], text) for parameter, node in nodes.items()}
    make = registry[name] if isinstance(registry[name], type) else type(registry[name])
    return make(**values)


def _value(node: ast.expr, field: Field[Any], text: str) -> Any:
    if isinstance(field.default, Geometry) or (field.name == "rate" and isinstance(node, (ast.Name, ast.Call))):
        kind = "rate" if field.name == "rate" else "geometry"
        return _component(kind, node, text, REGISTRIES[kind])
    if isinstance(node, ast.Name) and isinstance(field.default, str):
        return node.id
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"{field.name} must be a number or a word, got {ast.unparse(node)!r} in {text!r}") from None


def _error(what: str, text: str, registry: Mapping[str, Any], word: str | None = None) -> ValueError:
    found = repr(text) if word in (None, text) else f"{word!r} in {text!r}"
    example = EXAMPLES.get(what, next(iter(registry)))
    return ValueError(f"{what} must be one of {', '.join(registry)}, as in {example!r}, got {found}")
