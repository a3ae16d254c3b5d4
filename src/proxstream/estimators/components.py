"""Parameters of parts, under scikit-learn's double underscores.

A part (an algorithm, a penalty, a loss, a geometry) is a frozen dataclass that knows nothing of scikit-learn. Its
fields are read as parameters, and setting one puts a changed copy in the part's place: two models that were given the
same part never feel each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from sklearn.base import BaseEstimator


def parameters(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of a part with their values, those of parts within it too.

    >>> import proxstream as ps
    >>> dict(parameters(ps.FTRLProximal(alpha=0.5)))
    {'alpha': 0.5, 'beta': 1.0, 'penalty_weight': 'every_round'}
    >>> list(parameters("logistic"))
    []
    """
    if not is_dataclass(part) or isinstance(part, type):
        return
    for field in fields(part):
        value = getattr(part, field.name)
        yield field.name, value
        for name, inner in parameters(value):
            yield f"{field.name}__{name}", inner


def changed(part: Any, changes: Mapping[str, Any], place: str) -> Any:
    """Return a copy of the part with other parameters; `place` is its own name, for the error.

    >>> import proxstream as ps
    >>> changed(ps.MirrorDescent(eta=0.5, geometry=ps.PNorm(p=1.5)), {"geometry__p": 1.2}, "algorithm").geometry
    PNorm(p=1.2)
    """
    known = [name for name, _ in parameters(part) if "__" not in name]
    whole, within = split(changes)
    for name in (*whole, *within):
        if name not in known:
            raise ValueError(f"Invalid parameter {name!r} for {place}={part!r}. Valid parameters are: {known!r}.")
    if whole:
        part = replace(part, **whole)
    for name, inner in within.items():
        part = replace(part, **{name: changed(getattr(part, name), inner, f"{place}__{name}")})
    return part


def split(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the parameters without a double underscore, and the others by what stands before the first one."""
    whole: dict[str, Any] = {}
    within: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, value in params.items():
        name, inside, rest = key.partition("__")
        if inside:
            within[name][rest] = value
        else:
            whole[name] = value
    return whole, dict(within)


class Composed(BaseEstimator):  # type: ignore[misc]
    """An estimator whose parameters may be parts with parameters of their own."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; deep, also those of the parts, as `algorithm__alpha` or `penalty__lam`.

        Parameters
        ----------
        deep : bool

        Returns
        -------
        dict of name and value
        """
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, part in list(params.items()):
                params |= {f"{name}__{inner}": value for inner, value in parameters(part)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of parts as `algorithm__alpha=0.5`: a changed copy takes the part's place.

        Parameters
        ----------
        **params : names and values

        Returns
        -------
        self
        """
        whole, within = split(params)
        known = self.get_params(deep=False)
        for name in (*whole, *within):
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {[*known]!r}."
                )
        parts = {name: changed(whole.get(name, known[name]), inner, name) for name, inner in within.items()}
        for name, value in (whole | parts).items():
            setattr(self, name, value)
        return self
