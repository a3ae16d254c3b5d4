"""How much of a large test is in the default run: the rest is run by `-m exhaustive` and the profile `thorough`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK = 99  # examples by default where a test does not say how many; `examples` knows the profile by it


def examples(count: int, **more: Any) -> settings:
    """Return the settings of a property test: a quarter of these examples by default, all of them in other profiles."""
    by_default = settings.default.max_examples == QUICK  # type: ignore[attr-defined]
    return settings(max_examples=min(count, max(10, count // 4)) if by_default else count, **more)


def sample(cases: Iterable[Any], every: int) -> list[Any]:
    """Return all cases of a parameter, or tuples of several, of which one in `every` is in the default run."""
    rest = pytest.mark.exhaustive
    several = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=rest if i % every else ()) for i, case in enumerate(several)]
