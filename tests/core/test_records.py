"""Named tuples behave as those of `typing` do."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from proxstream.core.records import NamedTuple


class Ours(NamedTuple):
    """Fields without and with defaults, and methods."""

    a: int
    b: Any = 2.0

    @property
    def total(self) -> float:
        """Return a sum."""
        return float(self.a + self.b)

    @classmethod
    def of(cls, text: str) -> Ours:
        """Return one from text."""
        return cls(*map(int, text.split()))

    def __str__(self) -> str:
        return f"{self.a} {self.b}"


class Theirs(typing.NamedTuple):
    """The same, by `typing`."""

    a: int
    b: Any = 2.0

    @property
    def total(self) -> float:
        """Return a sum."""
        return float(self.a + self.b)

    @classmethod
    def of(cls, text: str) -> Theirs:
        """Return one from text."""
        return cls(*map(int, text.split()))

    def __str__(self) -> str:
        return f"{self.a} {self.b}"


def test_they_have_the_fields_defaults_and_methods_of_others() -> None:
    for kind in (Ours, Theirs):
        made: Any = kind(1)
        assert made == (1, 2.0) == kind(b=2.0, a=1)
        assert (made.a, made.total, str(made), kind.of("3 4")) == (1, 3.0, "1 2.0", (3, 4))
        assert made._replace(a=5)._asdict() == {"a": 5, "b": 2.0}
        assert repr(made) == f"{kind.__name__}(a=1, b=2.0)"
        assert kind._fields == ("a", "b")
        assert kind._field_defaults == {"b": 2.0}
        assert typing.get_type_hints(kind) == {"a": int, "b": Any}
    assert (Ours.__module__, Ours.__qualname__, Ours.__mro__[1:]) == (__name__, "Ours", Theirs.__mro__[1:])
    assert Ours.__doc__ == "Fields without and with defaults, and methods."


def test_they_are_copied_and_pickled() -> None:
    made = Ours(1, [2])
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))
    assert type(pickle.loads(pickle.dumps(made))) is Ours


def test_a_field_without_a_default_after_one_with_is_refused() -> None:
    for base in (NamedTuple, typing.NamedTuple):
        with pytest.raises(TypeError):
            exec("class Wrong(base):\n    a: int = 1\n    b: int", {"base": base, "__name__": __name__})
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Ours()  # type: ignore[call-arg]
