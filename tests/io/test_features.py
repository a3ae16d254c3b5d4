"""Specifications of features: what they accept, what they refuse, and that they survive JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxstream.io.features.spec import FeatureSpec, parse_cross, parse_grams

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4).filter(lambda s: "*" not in s.strip())


@given(st.lists(WORDS, unique=True, min_size=4, max_size=8), st.sampled_from([None, 1, 18, 31]), st.booleans())
def test_json_round_trip(columns: list[str], bits: int | None, flag: bool) -> None:
    label, number, text, *others = columns
    spec = FeatureSpec(
        label=label,
        numeric=[number],
        categorical=others,
        text={text: "words:1-2"},
        crosses=[f"{number.strip() or 'a'}*{others[0].strip() or 'b'}"],
        bits=bits,
        signed=flag,
        names=not flag,
        columns=[(number, "numeric")] if flag else None,
    )
    assert FeatureSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert hash(spec) == hash(FeatureSpec.from_json(spec.to_json()))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"bits": 0}, ValueError, r"bits must be an integer from 1 to 31, or None for no hashing, got 0"),
        ({"bits": True}, ValueError, r"bits must be .*, got True"),
        ({"bits": 32}, ValueError, r"got 32"),
        ({"label": 3}, TypeError, r"label must be the name of a column, got 3"),
        ({"signed": 1}, TypeError, r"signed must be True or False, got 1"),
        ({"numeric": [1]}, TypeError, r"numeric must be strings, got \[1\]"),
        ({"drop": 5}, TypeError, r"drop must be strings, got 5"),
        ({"drop": ["a", "a"]}, ValueError, r"drop must not repeat a name"),
        ({"missing": "mean"}, ValueError, r"missing must be one of 'nothing', 'value', got 'mean'"),
        ({"label": "a", "drop": "a"}, ValueError, r"column 'a' cannot be both label and drop"),
        ({"numeric": "a", "text": {"a": "words"}}, ValueError, r"column 'a' cannot be both numeric and text"),
        ({"text": {"a": "words:2-1"}}, ValueError, r"words:1-2 or chars:3-5 \(from 1 to 16\), got 'words:2-1'"),
        ({"text": {"a": 3}}, TypeError, r"text must be pairs of strings"),
        ({"text": "a"}, TypeError, r"text must be pairs of strings, got 'a'"),
        ({"crosses": "a*"}, ValueError, r"a cross is two to 8 columns such as 'site\*device', got 'a\*'"),
        ({"crosses": "*".join("abcdefghi")}, ValueError, r"two to 8 columns"),
        ({"columns": [("a", "number")]}, ValueError, r"the kind of column 'a' must be one of 'numeric'"),
    ],
)
def test_refused_settings(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FeatureSpec(**settings)


def test_grams() -> None:
    assert parse_grams("words") == ("words", 1, 1)
    assert parse_grams("words:2") == ("words", 2, 2)
    assert parse_grams("chars:3-5") == ("chars", 3, 5)


def test_factors_that_are_equal_stand_side_by_side() -> None:
    assert parse_cross("a * b*a*c*b") == ("a", "a", "b", "b", "c")
