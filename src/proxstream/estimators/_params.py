"""Nested parameters: the fields of a component under scikit-learn's double underscores.

A component (an algorithm, a penalty, a loss, a geometry) is a frozen dataclass that does not know scikit-learn. Its
fields are parameters of the estimator, and setting one puts a changed copy in the component's place: two models that
share a component never affect each other. Strings and defaults are components too: setting a parameter of
`penalty="l1(0.1)"`, or of the default algorithm, replaces it with a changed object.

The penalties of a sum are named as in strings: the strength of `L1(0.1) + NonNegative()` is `penalty__l1__lam`. Where
a single penalty of the sum has the field, `penalty__lam` reaches it too. A second penalty of the same class is
`l1_2`, a third one `l1_3`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from ..core import losses
from ..core.algorithms import Algorithm
from ..core.losses import Loss
from ..core.parsing import as_algorithm, as_penalty
from ..core.penalties import PENALTIES, Penalty, Sum

AlgorithmLike = Algorithm | str | None
PenaltyLike = Penalty | str | None


def parameters(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of a component with their values, including those of components within it.

    >>> import proxstream as ps
    >>> dict(parameters(ps.FTRLProximal(alpha=0.5)))
    {'alpha': 0.5, 'beta': 1.0, 'penalty_weight': 'every_round'}
    >>> dict(parameters(ps.L1(0.1) + ps.NonNegative()))
    {'l1': L1(lam=0.1), 'l1__lam': 0.1, 'nonnegative': NonNegative()}
    """
    for name, value in own_parameters(part).items():
        yield name, value
        for inner_name, inner in parameters(value):
            yield f"{name}__{inner_name}", inner


def own_parameters(part: Any) -> dict[str, Any]:
    """Return the fields of a component, or the penalties of a sum by name; nothing for any other value."""
    if isinstance(part, Sum):
        named: dict[str, Any] = {}
        classes = {kind: name for name, kind in PENALTIES.items()}
        counts: dict[str, int] = defaultdict(int)
        for penalty in part.parts:
            name = classes[type(penalty)]
            counts[name] += 1
            named[name if counts[name] == 1 else f"{name}_{counts[name]}"] = penalty
        return named
    if not is_dataclass(part) or isinstance(part, type):
        return {}
    return {field.name: getattr(part, field.name) for field in fields(part)}


def changed(part: Any, changes: Mapping[str, Any], place: str) -> Any:
    """Return a copy of the component with other parameters; `place` is its own name, for the error.

    >>> import proxstream as ps
    >>> changed(ps.MirrorDescent(eta=0.5, geometry=ps.PNorm(p=1.5)), {"geometry__p": 1.2}, "algorithm").geometry
    PNorm(p=1.2)
    >>> changed(ps.L1(0.1) + ps.NonNegative(), {"lam": 0.2}, "penalty")
    L1(lam=0.2) + NonNegative()
    """
    known = own_parameters(part)
    values, nested = split(changes)
    if isinstance(part, Sum):
        for name in [name for name in values if name not in known]:
            owners = [owner for owner, penalty in known.items() if name in own_parameters(penalty)]
            if len(owners) == 1:
                nested.setdefault(owners[0], {})[name] = values.pop(name)
    for name in (*values, *nested):
        if name not in known:
            listed = [name for name, _ in parameters(part)]
            raise ValueError(f"Invalid parameter {name!r} for {place}={part!r}. Valid parameters are: {listed!r}.")
    values |= {
        name: changed(values.get(name, known[name]), inner, f"{place}__{name}") for name, inner in nested.items()
    }
    if isinstance(part, Sum):
        return Sum(tuple((known | values).values()))
    return replace(part, **values)


def split(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the parameters without a double underscore, and the others grouped by what precedes the first one."""
    values: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, value in params.items():
        name, inside, rest = key.partition("__")
        if inside:
            nested[name][rest] = value
        else:
            values[name] = value
    return values, dict(nested)


class Composed(BaseEstimator):  # type: ignore[misc]
    """An estimator of sparse rows and known labels, whose parameters may be components, as objects or as strings."""

    _kinds: tuple[str, ...]  # of losses that the estimator takes
    loss: Loss | str
    n_threads: int

    _components: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "algorithm": as_algorithm,
        "loss": losses.get,
        "penalty": as_penalty,
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.non_deterministic = self.n_threads != 1
        return tags

    def _loss(self) -> Loss:
        """Return the loss; a ValueError if it is not of the kinds that the estimator takes."""
        loss = losses.get(self.loss)
        if loss.kind not in self._kinds:
            named = [name for name in losses.names() if losses.get(name).kind in self._kinds]
            raise ValueError(f"the loss of {type(self).__name__} must be one of {', '.join(named)}, got {loss}")
        return loss

    def _component(self, name: str, value: Any) -> Any:
        """Return the component that a parameter specifies; other values, and invalid ones, as they are."""
        try:
            return self._components[name](value) if name in self._components else value
        except (TypeError, ValueError):
            return value

    def _set_parameters(self, given: Mapping[str, Any]) -> None:
        """Set the parameters of a constructor, its `locals()`, as attributes of the same names."""
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; deep, also those of components, as `algorithm__alpha` or `penalty__lam`.

        Parameters
        ----------
        deep : bool

        Returns
        -------
        dict of name and value
        """
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, value in list(params.items()):
                inner = parameters(self._component(name, value))
                params |= {f"{name}__{inner_name}": inner_value for inner_name, inner_value in inner}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of components as `algorithm__alpha=0.5`: a changed copy replaces the component.

        Parameters
        ----------
        **params : names and values

        Returns
        -------
        self
        """
        values, nested = split(params)
        known = self.get_params(deep=False)
        for name in (*values, *nested):
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {[*known]!r}."
                )
        for name, inner in nested.items():
            values[name] = changed(self._component(name, values.get(name, known[name])), inner, name)
        for name, value in values.items():
            setattr(self, name, value)
        return self
