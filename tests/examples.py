"""How much of a large test is in the default run: the rest is run by `-m exhaustive` and the profile `thorough`.

Of a test with several parameters the default run has each value of each parameter at least once; a test marked
`default_cases(n)` has n cases in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK = 21  # examples by default where a test does not say how many; `examples` knows the profile by it


def examples(count: int, **more: Any) -> settings:
    """Return the settings of a property test: a tenth of these examples by default, all of them in other profiles."""
    by_default = settings.default.max_examples == QUICK  # type: ignore[attr-defined]
    return settings(max_examples=min(count, max(6, count // 10)) if by_default else count, **more)


def mark_cases(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of parametrized tests that are not in the default run as exhaustive."""
    tests: dict[tuple[Any, ...], list[pytest.Function]] = {}
    for item in items:
        marked = any(item.iter_markers("exhaustive")) or any(item.iter_markers("search"))
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not marked:
            tests.setdefault((item.path, item.cls, item.originalname), []).append(item)
    for cases in tests.values():
        count = cases[0].get_closest_marker("default_cases")
        chosen = spread(len(cases), count.args[0]) if count else cover([_values(case) for case in cases])
        for k, case in enumerate(cases):
            if k not in chosen:
                case.add_marker(pytest.mark.exhaustive)


def _values(case: pytest.Function) -> set[tuple[int, str]]:
    """Return the values of the parameters of a case by their names in its identifier."""
    return set(enumerate(case.callspec._idlist))  # type: ignore[attr-defined]


def spread(n: int, count: int) -> set[int]:
    """Return `count` of the numbers below n, as far apart as possible.

    >>> sorted(spread(10, 3))
    [1, 5, 8]
    """
    return {(2 * k + 1) * n // (2 * count) for k in range(count)}


def cover(cases: list[set[Any]]) -> set[int]:
    """Return the places of cases that have all values among them: always the case with the most new ones.

    >>> cover([{"a1", "b1"}, {"a1", "b2"}, {"a2", "b1"}, {"a2", "b2"}]) == {0, 3}
    True
    """
    missing, chosen = set().union(*cases), set()
    while missing:
        best = max(range(len(cases)), key=lambda k: (len(missing & cases[k]), -k))
        chosen.add(best)
        missing -= cases[best]
    return chosen
