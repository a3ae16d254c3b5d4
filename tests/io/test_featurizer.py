"""Features of tables against the naive ones: hashes, crosses, n-grams, missing values, names, no hashing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from proxstream.io.features._crosses import bucketed
from proxstream.io.features.featurizer import Featurizer
from proxstream.io.features.spec import FeatureSpec, parse_grams
from proxstream.io.table.columns import TableRows, fillers_of, gram_names, kinds
from proxstream.io.types import DataError

from ..examples import examples
from . import naive_features as naive

pytestmark = pytest.mark.interpreted

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text("ab C\t\n_é,9", max_size=20)
ROW = st.fixed_dictionaries(
    {
        "x": st.none() | st.floats(-8, 8, width=16),
        "i": st.none() | st.integers(-3, 3),
        "c": st.none() | st.sampled_from(["", "a", "b", "NA", "long value, with é and 漢"]),
        "d": st.none() | st.sampled_from(["u", "v"]),
        "b": st.none() | st.booleans(),
        "t": st.none() | TEXT,
    }
)
COLUMNS = tuple(zip("xicdbt", ("numeric", "numeric", *["categorical"] * 3, "text"), strict=True))
SCHEMA = pa.schema(
    zip("xicdbt", (pa.float64(), pa.int64(), pa.string(), pa.string(), pa.bool_(), pa.string()), strict=True)
)
SPECS = st.builds(
    FeatureSpec,
    bits=st.sampled_from([None, 3, 22, 31]),
    signed=st.booleans(),
    missing=st.sampled_from(["nothing", "value"]),
    nulls=st.sampled_from([(), ("NA",)]),
    text=st.sampled_from(["words:1-2", "chars:2-3", "words:3-3"]).map(lambda message: {"t": message}),
    crosses=st.lists(
        st.sampled_from(["x*c", "c*d*b", "x*x", "d*t", "t*t", "x*c*x", "i*b*i*d"]), unique=True, max_size=3
    ),
    names=st.booleans(),
)


def rows_of(starts: Any, indices: Any, data: Any) -> list[dict[int, float]]:
    pairs = list(zip(indices.tolist(), data.tolist(), strict=True))
    rows = [pairs[a:b] for a, b in pairwise(starts)]
    assert all(len(dict(row)) == len(row) for row in rows)
    return [dict(row) for row in rows]


def featurized(featurizer: Featurizer, table: Any) -> list[dict[int, float]]:
    featurizer.decide(kinds(table.schema), "table")
    fillers = fillers_of(featurizer)
    batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    return [row for batch in batches for row in rows_of(*featurizer.numbered(TableRows(batch, featurizer, fillers)))]


@examples(150)
@given(st.lists(ROW, max_size=8), SPECS, st.integers(0, 8))
def test_tables_as_naive(rows: list[dict[str, Any]], spec: FeatureSpec, cut: int) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    featurizer = Featurizer(spec, np.float64)
    found = featurized(featurizer, table[:cut]) + featurized(featurizer, table[cut:])
    assert featurizer.spec == replace(spec, columns=COLUMNS)
    numbers = naive.Numbers(featurizer.spec)
    assert found == [numbers.row(row) for row in rows]
    if spec.bits is None:
        assert featurizer.named() == {number: [name] for name, number in numbers.known.items()}
    elif spec.names:
        # A bucket's names are identified by 32-bit hashes; numeric columns are named whether they had values or not.
        for bucket, names in numbers.buckets.items():
            assert set(featurizer.named()[bucket]) - {"x", "i"} == set(names) - {"x", "i"}


@examples(50)
@given(st.lists(ROW, min_size=1, max_size=6), SPECS)
def test_however_a_column_is_stored(rows: list[dict[str, Any]], spec: FeatureSpec) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    expected = featurized(Featurizer(spec, np.float64), table)
    for changed in (
        {"d": table["d"].dictionary_encode(), "c": table["c"].dictionary_encode()},
        {"d": table["d"].cast(pa.large_string()), "t": table["t"].cast(pa.large_string())},
        {
            "d": table["d"].cast(pa.string_view()),
            "c": table["c"].cast(pa.binary()),
            "t": table["t"].dictionary_encode(),
        },
        {"x": table["x"].cast(pa.float32()), "i": table["i"].cast(pa.int8())},
        {"i": table["i"].cast(pa.decimal128(25, 2)), "b": table["b"].cast(pa.string())},
    ):
        other = table
        for name, column in changed.items():
            other = other.set_column(other.schema.get_field_index(name), name, column)
        assert featurized(Featurizer(spec, np.float64), other) == expected
    padded = pa.concat_tables([table, table, table]).combine_chunks()
    assert featurized(Featurizer(spec, np.float64), padded.slice(len(rows), len(rows))) == expected


@given(TEXT, st.sampled_from(["words:1-3", "chars:1-2"]))
def test_names_of_grams(text: str, message: str) -> None:
    assert gram_names(text.encode(), parse_grams(message)) == naive.grams(text, message)


def test_numbers_without_hashing_are_those_of_a_matrix() -> None:
    X = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    table = pa.table({name: X[:, j] for j, name in enumerate("abc")})
    assert featurized(Featurizer(FeatureSpec(bits=None)), table) == [{1: 2.0}, {0: 1.0, 2: 3.0}]


def test_names_are_saved_and_restored_at_any_row() -> None:
    table = pa.table({"c": [f"v{i % 700}" for i in range(1500)], "x": np.ones(1500)})
    whole = Featurizer(FeatureSpec(bits=None))
    expected = featurized(whole, table)
    first = Featurizer(FeatureSpec(bits=None))
    featurized(first, table[:300])
    known = len(first.names)
    featurized(first, table[300:900])  # a reader that is ahead
    second = Featurizer(first.spec)
    second.restore(first.arrays(known))
    assert len(second.names) == known
    assert featurized(second, table[300:]) == expected[300:]
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(second.arrays()[name], array)


def test_a_featurizer_that_does_not_grow_leaves_new_names_out() -> None:
    trained = Featurizer(FeatureSpec(bits=None))
    featurized(trained, pa.table({"c": ["a", "b"]}))
    fixed = Featurizer(trained.spec, growing=False)
    fixed.restore(trained.arrays())
    assert featurized(fixed, pa.table({"c": ["b", "new", "a"]})) == [{1: 1.0}, {}, {0: 1.0}]
    assert len(fixed.names) == 2


@pytest.mark.parametrize("change", ["keys", "ends", "names"])
def test_names_that_do_not_fit_together_are_refused(change: str) -> None:
    featurizer = Featurizer(FeatureSpec(bits=None))
    featurized(featurizer, pa.table({"c": ["a", "b"]}))
    arrays = featurizer.arrays()
    arrays[change] = arrays[change][:-1]
    with pytest.raises(ValueError, match="do not fit together"):
        featurizer.restore(arrays)
    assert featurizer.names.names == ["c=a", "c=b"]


def test_names_of_a_hashed_model_are_bounded() -> None:
    featurizer = Featurizer(FeatureSpec(names=True))
    featurizer.names.most = 3
    rows = featurized(featurizer, pa.table({"c": list("abcdef")}))
    assert featurizer.names.names == ["c=a", "c=b", "c=c"]
    assert all(len(row) == 1 for row in rows)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([-1.0, 0.0, 1.0, 2.0])))), st.booleans())
@settings(deadline=None)
def test_equal_features_of_a_row_are_added_up(rows: list[list[tuple[int, float]]], signed: bool) -> None:
    flat = [pair for row in rows for pair in row]
    hashes = np.array([h for h, _ in flat], np.uint32)
    values = np.array([value for _, value in flat])
    indptr = np.cumsum([0, *map(len, rows)])
    found = rows_of(*bucketed(indptr, hashes, values, np.uint32(7), signed))
    for row, expected in zip(found, rows, strict=True):
        sums = np.zeros(8)
        for h, value in expected:
            sums[h % 8] += -value if signed and h >= 2**31 else value
        assert row == {j: value for j, value in enumerate(sums) if value != 0.0}


def test_a_row_of_many_features() -> None:
    hashes = np.arange(100_000, dtype=np.uint32) * 3 % 50_000
    starts, indices, data = bucketed(np.array([0, 1, 100_000]), hashes, np.ones(100_000), np.uint32(2**31 - 1), False)
    assert starts.tolist() == [0, 1, 50_001]
    assert sorted(indices[1:].tolist()) == list(range(50_000))
    assert data[1:].sum() == 99_999


@pytest.mark.parametrize(
    ("spec", "table", "message"),
    [
        (FeatureSpec(label="y"), {"x": [1.0]}, r"t: found no column 'y' for the label, expected one of 'x'"),
        (FeatureSpec(drop=["z"]), {"x": [1.0]}, r"t: found no column 'z', expected one of 'x'"),
        (FeatureSpec(crosses=["x*z"]), {"x": [1.0]}, r"t: found no column 'z'"),
        (FeatureSpec(crosses=["x*label"]), {"x": [1.0], "label": [1]}, r"column 'label' has no features"),
        (
            FeatureSpec(),
            {"x": [[1.0]]},
            r"t: found column 'x' of type list<.*>, expected numbers or strings; drop it\?",
        ),
        (FeatureSpec(columns=[("q", "numeric")]), {"x": [1.0]}, r"t: found no column 'q', expected it as in the first"),
    ],
)
def test_tables_that_do_not_fit(spec: FeatureSpec, table: dict[str, Any], message: str) -> None:
    featurizer = Featurizer(spec)
    with pytest.raises(DataError, match=message):
        featurizer.decide(kinds(pa.table(table).schema), "t")
    assert featurizer.spec == spec


def test_which_columns_are_features() -> None:
    table = pa.table(
        {"a": [1], "label": [1], "b": ["x"], "w": [1.0], "c": [2.0], "when": pa.array([0], pa.timestamp("s"))}
    )
    featurizer = Featurizer(FeatureSpec(weight="w", categorical="a", drop=["when"]))
    featurizer.decide(kinds(table.schema), "t")
    assert featurizer.spec.columns == (("a", "categorical"), ("b", "categorical"), ("c", "numeric"))
    kept = Featurizer(FeatureSpec(keep=["c", "b"]))
    kept.decide(kinds(table.schema), "t")
    assert kept.spec.columns == (("b", "categorical"), ("c", "numeric"))


def test_features_come_in_the_order_of_the_first_table() -> None:
    first, other = pa.table({"a": [1.0], "b": [2.0]}), pa.table({"z": [9.0], "b": [2.0], "a": [1.0]})
    featurizer = Featurizer(FeatureSpec())
    featurized(featurizer, first)
    featurizer.decide(kinds(other.schema), "t")
    (batch,) = other.to_batches()
    _, _, data = featurizer.numbered(TableRows(batch, featurizer, fillers_of(featurizer)))
    assert data.tolist() == [1.0, 2.0]


# ---- patterns of columns

PATTERNED = {"label": [1], "ROLE_A": [1], "ROLE_B": [2], "RESOURCE": [3], "age": [4.0], "note": ["x"]}


def decided(spec: FeatureSpec, columns: dict[str, Any] | None = None) -> FeatureSpec:
    featurizer = Featurizer(spec)
    featurizer.decide(kinds(pa.table(columns or PATTERNED).schema), "t")
    return featurizer.spec


@pytest.mark.parametrize(
    ("options", "categories", "texts", "dropped"),
    [
        ({"categorical": "ROLE_*,RESOURCE"}, "ROLE_A ROLE_B RESOURCE note", "", ""),
        ({"categorical": ["ROLE_*", "RESOURCE"]}, "ROLE_A ROLE_B RESOURCE note", "", ""),
        ({"categorical": "all"}, "ROLE_A ROLE_B RESOURCE age note", "", ""),
        ({"categorical": "all", "numeric": "age"}, "ROLE_A ROLE_B RESOURCE note", "", ""),
        ({"categorical": "all", "numeric": "R*", "drop": "ROLE_B"}, "age note", "", "ROLE_B"),
        ({"drop": "R*, age"}, "note", "", "ROLE_A ROLE_B RESOURCE age"),
        ({"text": {"n*": "words:2"}, "categorical": "all"}, "ROLE_A ROLE_B RESOURCE age", "note", ""),
        ({"keep": "ROLE_?"}, "", "", "RESOURCE age note"),
    ],
)
def test_columns_are_named_by_globs_and_lists(
    options: dict[str, Any], categories: str, texts: str, dropped: str
) -> None:
    spec = decided(FeatureSpec(**options))
    of_kind = {kind: [name for name, one in spec.columns or () if one == kind] for kind in ("categorical", "text")}
    assert of_kind == {"categorical": categories.split(), "text": texts.split()}
    assert set(PATTERNED) - {name for name, _ in spec.columns or ()} == {"label", *dropped.split()}
    assert set(spec.grams) == set(texts.split())
    assert FeatureSpec.from_json(spec.to_json()) == spec
    assert decided(spec) == spec


def test_a_column_whose_name_looks_like_a_pattern() -> None:
    odd = {"a,b": [1], "a": [2], "x[0]": [3], "all": [4]}
    for name in odd:
        assert decided(FeatureSpec(categorical=name), odd).categorical == (name,)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"categorical": "ROLE_*,ROOM"}, "t: found no column 'ROOM', expected one of 'label', 'ROLE_A'"),
        ({"drop": "Z*"}, r"t: found no column 'Z\*'"),
        ({"categorical": "ROLE_*", "numeric": "*_A"}, "column 'ROLE_A' is specified as numeric and categorical"),
        ({"keep": "Z*"}, r"t: found no column 'Z\*'"),
    ],
)
def test_patterns_that_do_not_fit(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        decided(FeatureSpec(**options))


def test_crosses_of_all_columns() -> None:
    columns = {"label": [1], "a": ["u"], "b": ["v"], "c": [2.0]}
    assert decided(FeatureSpec(crosses="all*all"), columns).crosses == ("a*b", "a*c", "b*c")
    assert decided(FeatureSpec(crosses=["a*b", "all*all"]), columns).crosses == ("a*b", "a*c", "b*c")
    assert decided(FeatureSpec(crosses="all*all*all", drop="c"), columns).crosses == ()
    assert decided(FeatureSpec(crosses="b*all"), columns).crosses == ("b*a", "b*c")
    spelled, every = (FeatureSpec(crosses=cross, bits=None) for cross in (["a*b", "a*c", "b*c"], "all*all"))
    rows = pa.table(columns)
    assert featurized(Featurizer(spelled), rows) == featurized(Featurizer(every), rows)
