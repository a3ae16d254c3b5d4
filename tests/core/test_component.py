"""Components behave as frozen dataclasses do, whose methods are generated."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from proxstream.core.component import component


@component
class Ours:
    """Fields without and with defaults, and a check."""

    a: int
    b: float = 2.0
    c: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a must be >= 0")


@dataclass(frozen=True)
class Theirs:
    """The same, generated."""

    a: int
    b: float = 2.0
    c: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a must be >= 0")


@component
class Pair:
    """Only values that have a hash."""

    a: int
    b: str = "x"


def outcome(make: Any) -> Any:
    """Return what a call returns, as text, or its error."""
    try:
        return repr(make()).replace("Theirs", "Ours")
    except Exception as error:
        return type(error), str(error).replace("Theirs", "Ours")


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 3.0), {"c": [1]}),
    ((), {"c": [2], "a": 5}),
    ((), {}),
    ((1,), {"a": 2}),
    ((1,), {"d": 2}),
    ((-1,), {}),
]


@pytest.mark.parametrize(("arguments", "named"), CALLS)
def test_calls_have_the_outcome_of_a_generated_class(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert outcome(lambda: Ours(*arguments, **named)) == outcome(lambda: Theirs(*arguments, **named))


def test_too_many_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"takes 4 positional arguments but 5 were given"):
        Ours(1, 2.0, [], 4)  # type: ignore[call-arg]


def test_every_object_has_its_own_default_list() -> None:
    assert Ours(1).c is not Ours(1).c


def test_components_compare_and_hash_by_class_and_value() -> None:
    assert Pair(1) == Pair(1, "x") != Pair(2)
    assert hash(Pair(1)) == hash(Pair(1))
    assert Ours(1) != Theirs(1)
    assert {Pair(1), Pair(1), Pair(2)} == {Pair(1), Pair(2)}


def test_a_component_cannot_be_changed() -> None:
    pair = Pair(1)
    with pytest.raises(FrozenInstanceError, match="'a'"):
        pair.a = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="'a'"):
        del pair.a
    assert pair == Pair(1)


def test_the_functions_of_dataclasses_know_a_component() -> None:
    assert dataclasses.is_dataclass(Ours)
    assert [one.name for one in fields(Ours)] == [one.name for one in fields(Theirs)]
    assert replace(Pair(1), b="y") == Pair(1, "y")
    assert dataclasses.asdict(Ours(1)) == dataclasses.asdict(Theirs(1))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_are_equal(duplicate: Any) -> None:
    assert duplicate(Pair(3, "z")) == Pair(3, "z")


def test_the_signature_lists_the_fields() -> None:
    ours, theirs = inspect.signature(Pair).parameters, inspect.signature(Theirs).parameters
    assert [*ours] == ["a", "b"]
    assert ours["b"].default == "x"
    assert ours["a"].default is theirs["a"].default is inspect.Parameter.empty


def test_a_frozen_dataclass_may_be_an_algorithm() -> None:
    import proxstream as ps

    @dataclass(frozen=True)
    class Mine(ps.Algorithm):
        """A user's algorithm."""

        rate: float = 0.5

        def start(self, at: Any) -> Any:
            return ()

        def take(self, s: Any, at: Any, g: Any, c: float) -> Any:
            return s

        def h(self, s: Any) -> float:
            return 1.0

        def problem(self, s: Any, at: Any) -> Any:
            return 0.0 * at.x, 1.0, 0.0

    assert Mine(0.25).rate == 0.25
    assert Mine() == Mine(0.5)
