"""Types of operators on numbers are remembered: they are those that numba finds, also at the second occurrence."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytest
from numba import types
from numba.core.registry import cpu_target

from proxstream.jit import numba_backend as backend

NUMBERS = (types.int64, types.uint64, types.int32, types.float32, types.float64, types.boolean, types.literal(2))
OPERATORS = (operator.add, operator.truediv, operator.floordiv, operator.mod, operator.lt, operator.eq, operator.rshift)


def found(find: Any) -> Any:
    """Return what a search finds, None if there is no such operator."""
    try:
        return find()
    except Exception:
        return None


@pytest.mark.parametrize("function", OPERATORS)
def test_the_types_are_those_that_numba_finds(function: Any) -> None:
    context = cpu_target.typing_context
    context.refresh()
    kind = context.resolve_value_type(function)
    for arguments in itertools.product(NUMBERS, repeat=2):
        expected = found(lambda a=arguments: backend.find_type(kind, context, a, {}))
        for _ in range(2):
            assert found(lambda a=arguments: kind.get_call_type(context, a, {})) == expected
        if expected is not None:
            assert kind.get_impl_key(expected) is not None
