"""Text labels: found in a source, turned into numbers by every table reader, refused by file and line if unknown."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.io import DataError, FeatureSpec, find_label_texts, open_stream, suggest_categorical

from ..examples import examples
from .table_cases import write_table

pytestmark = pytest.mark.interpreted

TEXTS = {"no": -1.0, "yes": 1.0}
ENDINGS = ["csv", "tsv", "jsonl", "parquet", "feather"]
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(lambda t: t == t.strip())


def labels_of(source: Any, format: str | None = None, **options: Any) -> list[float]:
    return [float(y) for rows in open_stream(source, format, **options) for y in rows.y]


@pytest.mark.parametrize("ending", [*ENDINGS, "frame", "dictionary"])
def test_text_labels_of_all_tables(ending: str, tmp_path: Path) -> None:
    words = ["yes", "no", "no", None, "yes"] * 50
    labels = pa.array(words).dictionary_encode() if ending == "dictionary" else pa.array(words)
    table = pa.table({"answer": labels, "x": np.arange(250.0), "c": ["u", "v"] * 125})
    source: Any = table
    if ending in ENDINGS:
        source = tmp_path / f"rows.{ending}"
        write_table(table, str(source))
    spec = FeatureSpec(label="answer")
    assert find_label_texts(source, features=spec) == ["no", "yes"]
    expected = [TEXTS.get(word or "", np.nan) for word in words]
    np.testing.assert_array_equal(labels_of(source, features=spec, label_texts=TEXTS), expected)


@examples(50)
@given(st.lists(TEXT, min_size=2, max_size=5, unique=True), st.data(), st.booleans())
def test_any_texts_in_csv_and_jsonl(texts: list[str], data: st.DataObject, quoted: bool) -> None:
    chosen = data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=30))
    numbers = {text: float(k) for k, text in enumerate(texts)}
    csv = "x,label\n" + "".join(f'{k},"{text.replace(chr(34), 2 * chr(34))}"\n' for k, text in enumerate(chosen))
    if not quoted and not any(c in text for text in texts for c in '",\n\r'):
        csv = csv.replace('"', "")
    lines = "".join(json.dumps({"x": k, "label": text}) + "\n" for k, text in enumerate(chosen))
    for format, text in (("csv", csv), ("jsonl", lines)):
        found = labels_of(io.BytesIO(text.encode()), format, label_texts=numbers, chunk_bytes=64)
        assert found == [numbers[one] for one in chosen], format


@pytest.mark.parametrize(
    ("ending", "place"),
    [("csv", "4:2"), ("tsv", "4:2"), ("jsonl", "3:1"), ("parquet", "3:label"), ("feather", "3:label")],
)
def test_unknown_texts_are_bad_rows(ending: str, place: str, tmp_path: Path) -> None:
    path, kept = tmp_path / f"rows.{ending}", tmp_path / "bad.txt"
    write_table(pa.table({"label": ["yes", "no", "maybe", "yes"], "x": [1, 2, 3, 4]}), str(path))
    with pytest.raises(DataError, match=rf"rows.{ending}:{place}: found 'maybe', expected one of 'no', 'yes'"):
        labels_of(path, label_texts=TEXTS)
    assert labels_of(path, label_texts=TEXTS, on_error="quarantine", quarantine=kept) == [1.0, -1.0, 1.0]
    assert "found 'maybe', expected one of 'no', 'yes'" in kept.read_text()


def test_a_text_that_begins_like_a_known_one_is_unknown() -> None:
    for text in ("ye", "yes!", "Yes", "y"):
        with pytest.raises(DataError, match=rf":2:1: found '{text}', expected one of 'no', 'yes' in column 'label'"):
            labels_of(io.BytesIO(f"label,x\n{text},1\n".encode()), "csv", label_texts=TEXTS)


def test_numbers_are_not_texts() -> None:
    assert find_label_texts(io.BytesIO(b"label,x\n1,a\n-0.5e3,b\n,c\n"), "csv") is None
    assert find_label_texts(io.BytesIO(b"1 1:1\n"), "svmlight") is None
    assert find_label_texts((np.eye(2), np.ones(2))) is None
    assert find_label_texts(pa.table({"label": [0.5, 1.0], "x": [1, 2]})) is None
    assert find_label_texts(io.BytesIO(b"label,x\ntrue,a\nfalse,b\n"), "csv") == ["false", "true"]
    assert labels_of(io.BytesIO(b"1 1:1\n"), "svmlight", label_texts=TEXTS) == [1.0]


def test_words_for_missing_values_are_not_labels() -> None:
    text, spec = b"label,x\nyes,1\nNA,2\nno,3\n", FeatureSpec(nulls=["NA"])
    assert find_label_texts(io.BytesIO(text), "csv", features=spec) == ["no", "yes"]
    labels = labels_of(io.BytesIO(text), "csv", features=spec, label_texts=TEXTS)
    np.testing.assert_array_equal(labels, [1.0, np.nan, -1.0])


def test_a_table_without_the_label_names_its_columns() -> None:
    with pytest.raises(DataError, match=r"found no column 'label', expected one of 'a', 'b'"):
        find_label_texts(io.BytesIO(b"a,b\nx,1\n"), "csv")


def test_the_scan_ends_after_some_rows_or_at_too_many_texts(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("label,x\n" + "a,1\n" * 5000 + "b,2\n" * 5000 + "c,3\n")
    assert find_label_texts(path) == ["a", "b", "c"]
    assert find_label_texts(path, rows=10, chunk_bytes=100) == ["a"]
    path.write_text("label,x\n" + "".join(f"word{i},1\n" for i in range(10_001)))
    with pytest.raises(DataError, match=r"more than 10000 label texts in column 'label'; is it the label\?"):
        find_label_texts(path)


def test_a_pipe_is_read_after_its_labels_were_found() -> None:
    code = (
        "import proxstream as ps\nfrom proxstream.io import find_label_texts\n"
        "stream = ps.open_stream('-', 'csv')\nprint(find_label_texts(stream))\n"
        "stream = stream.with_label_texts({'no': -1.0, 'yes': 1.0})\n"
        "print([float(y) for rows in stream for y in rows.y])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], input="label,x\nyes,1\nno,2\n", capture_output=True, text=True, env=environment,
        check=True,
    )  # fmt: skip
    assert done.stdout == "['no', 'yes']\n[1.0, -1.0]\n"


@pytest.mark.parametrize("wrong", [{}, {"": 1.0}, {" yes": 1.0}, {"yes": "1"}, ["yes"], {1: 1.0}])
def test_wrong_label_texts(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="label_texts"):
        open_stream(io.BytesIO(b"label,x\n"), "csv", label_texts=wrong)


# ---- identifiers


def test_identifiers_are_suggested_as_categories(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 2000
    table = pa.table({
        "label": rng.integers(0, 2, n),
        "RESOURCE": rng.choice(rng.integers(1000, 300_000, 300), n),
        "age": rng.integers(18, 90, n),
        "price": rng.choice([1000, 2500, 5000, 12_000, 20_000, 30_000, 45_000, 60_000, 90_000], n),
        "height": rng.normal(size=n),
        "time": np.arange(n) * 1000 + 1,
        "site": rng.choice(["a", "b"], n),
    })  # fmt: skip
    for ending in ("csv", "parquet", "jsonl"):
        path = tmp_path / f"rows.{ending}"
        write_table(table, str(path))
        assert suggest_categorical(path) == ["RESOURCE"]
        assert suggest_categorical(path, features=FeatureSpec(categorical="RES*")) == []
    assert suggest_categorical(io.BytesIO(b"1 1:1\n"), "svmlight") == []


# ---- the base of svmlight indices


def test_the_lowest_index_is_known_and_smaller_ones_can_be_refused() -> None:
    stream = ps.open_stream(io.BytesIO(b"1 3:1 1:2\n-1 2:1\n"), "svmlight")
    assert stream.lowest_index is None
    list(stream)
    assert stream.lowest_index == 1
    text = b"1 1:1\n# none\n\n-1 00:1 2:1\n1 2:1\n-1 0:1\n"
    with pytest.raises(DataError, match=r":4:4: found the index 0, expected an index of at least 1, as in training"):
        list(ps.open_stream(io.BytesIO(text), "svmlight", min_index=1))
    stream = ps.open_stream(io.BytesIO(text), "svmlight", min_index=1, on_error="skip")
    assert [rows.indices.tolist() for rows in stream] == [[1, 2]]
    assert (stream.skipped, stream.lowest_index) == (2, 1)


def test_a_column_named_like_an_identifier_is_suggested_although_its_values_are_dense(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    rows = [f"{i % 2},{1000 + i % 37},{20 + i % 37}" for i in range(200)]
    path.write_text("\n".join(["label,user_id,age", *rows, ""]))
    assert suggest_categorical(path) == ["user_id"]


def test_features_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("label,a\n1,2\n")
    with pytest.raises(TypeError, match=r"features must be a FeatureSpec or a Featurizer, got \{'bits': 20\}"):
        open_stream(path, features={"bits": 20})
