"""Parquet files give the rows of their table, however they were written."""

from __future__ import annotations

import contextlib
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.core import losses
from proxstream.io import DataError
from proxstream.io.features.spec import FeatureSpec
from proxstream.training.labels import Labels

from ..examples import examples
from .table_cases import read

SPEC = FeatureSpec(weight="w", bits=20, missing="value", nulls=("b",))
TEXT = st.none() | st.sampled_from(["", "a", "b", "four", "eight by", "漢字 é"]) | st.text(max_size=30)
NUMBER = st.none() | st.sampled_from([0.0, -1.5, 1e20]) | st.floats(-1e6, 1e6)
WRITTEN: dict[str, dict[str, Any]] = {
    "as ever": {},
    "without dictionaries": {"use_dictionary": False, "compression": "none"},
    "second version": {"data_page_version": "2.0", "compression": "zstd"},
    "second version, plain": {"data_page_version": "2.0", "use_dictionary": False, "compression": "gzip"},
    "small pages": {"data_page_size": 64, "write_batch_size": 3, "row_group_size": 11},
    "dictionaries given up": {"dictionary_pagesize_limit": 40, "data_page_size": 100, "write_batch_size": 2},
    "no statistics": {"write_statistics": False, "compression": "gzip"},
    "another codec": {"compression": "brotli"},
    "another encoding": {"use_dictionary": False, "column_encoding": {"i": "DELTA_BINARY_PACKED"}},
}


def table(rows: list[tuple[Any, ...]], nullable: bool = True) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[]] * 6
    label, x, f, i, c, w = (list(column) for column in columns)
    kinds = {"label": pa.int64(), "x": pa.float64(), "f": pa.float32(), "i": pa.int32(), "c": pa.string()}
    arrays = [pa.array(values, kind) for values, kind in zip((label, x, f, i, c), kinds.values(), strict=True)]
    fields = [pa.field(name, kind, nullable) for name, kind in kinds.items()]
    schema = pa.schema([*fields, pa.field("w", pa.float64())])
    return pa.table([*arrays, pa.array(w, pa.float64())], schema=schema)


def written(one: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(one, file, **options)
    return file.getvalue()


ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1]), NUMBER, st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
        st.none() | st.integers(-(2**31), 2**31 - 1), TEXT, st.integers(0, 8).map(lambda k: k / 2),
    ),
    max_size=40,
)  # fmt: skip


@pytest.mark.default_cases(4)
@pytest.mark.parametrize("way", WRITTEN)
@examples(25)
@given(rows=ROWS, copies=st.sampled_from([1, 30]))
def test_files_give_the_rows_of_the_table(way: str, rows: list[tuple[Any, ...]], copies: int) -> None:
    one = table(rows * copies)
    for made in (one, one.replace_schema_metadata()):
        assert read(io.BytesIO(written(made, **WRITTEN[way])), "parquet", SPEC) == read(one, None, SPEC)


@pytest.mark.parametrize("way", WRITTEN)
def test_many_rows_and_values_that_cannot_be_missing(way: str) -> None:
    rng = np.random.default_rng(0)
    n = 9000
    words = np.array([f"word {k}" for k in range(3000)])[(3000 * rng.random(n) ** 3).astype(int)]
    rows = [*zip(rng.integers(0, 2, n).tolist(), rng.normal(size=n).tolist(), rng.random(n).tolist(),
                 rng.integers(-5, 5, n).tolist(), words.tolist(), [1.0] * n, strict=True)]  # fmt: skip
    one = table(rows, nullable=False)
    assert read(io.BytesIO(written(one, **WRITTEN[way])), "parquet", SPEC) == read(one, None, SPEC)


def test_dictionaries_and_small_integers() -> None:
    words = pa.array(["u", "v", "u", None]).dictionary_encode()
    one = pa.table({"c": words, "k": pa.array([1, None, -3, 0], pa.int8()), "n": pa.array([1, 2, 3, 4], pa.uint16())})
    assert read(io.BytesIO(written(one)), "parquet", FeatureSpec()) == read(one, None, FeatureSpec())


@pytest.mark.parametrize("kind", [pa.uint32(), pa.uint64(), pa.decimal128(5, 1), pa.float16()])
def test_numbers_that_are_not_what_is_stored(kind: pa.DataType) -> None:
    one = pa.table({"x": pa.array([1, None, 3]).cast(pa.int32()).cast(pa.float32()).cast(kind, safe=False)})
    assert read(io.BytesIO(written(one)), "parquet", FeatureSpec()) == read(one, None, FeatureSpec())


def test_reading_resumes_in_the_middle_of_a_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    from proxstream.io.table import arrow as tables

    monkeypatch.setattr(tables, "ROWS", 7)
    text = written(table([(1, k / 4, None, k, f"v{k % 9}", 1.0) for k in range(60)]), row_group_size=25)
    whole = read(io.BytesIO(text), "parquet", SPEC)
    ends = [chunk.end for chunk in ps.open_stream(io.BytesIO(text), "parquet", features=SPEC).chunks()]
    assert [end.row for end in ends] == [7, 14, 21, 25, 32, 39, 46, 50, 57, 60]  # row groups end at 25 and 50
    for end in ends:
        assert read(io.BytesIO(text), "parquet", SPEC, end) == whole[end.row :]


# ---- bad rows


def test_a_bad_value_is_named_and_what_follows_is_read(tmp_path: Path) -> None:
    path, n = tmp_path / "rows.parquet", 10_000
    x = np.arange(n, dtype=np.float64)
    x[[5000, 9000]] = np.nan
    pq.write_table(pa.table({"label": np.arange(n) % 2, "x": x}), path, row_group_size=4000, use_dictionary=False)
    with pytest.raises(DataError, match=r"rows.parquet:5001:x: found nan, expected a finite number"):
        read(path, None, FeatureSpec())
    kept = tmp_path / "bad.txt"
    rows = read(path, None, FeatureSpec(), on_error="quarantine", quarantine=kept)
    assert [(row[1] or [0.0])[0] for row in rows] == x[np.isfinite(x)].tolist()
    assert kept.read_text() == "".join(
        f"# {path}:{row + 1}:x: found nan, expected a finite number\n" + f'{{"label": {row % 2}, "x": NaN}}\n'
        for row in (5000, 9000)
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow", "frame"])
def test_labels_that_are_not_accepted_are_bad_rows(kind: str, tmp_path: Path) -> None:
    one = pa.table({"click": [0.0, 1.0, 2.0, None, 1.0], "c": ["u", "v", "w", "x", None]})
    path, kept, source = tmp_path / f"rows.{kind}", tmp_path / "bad.txt", one
    if kind == "parquet":
        pq.write_table(one, path)
    elif kind == "arrow":
        with pa.ipc.new_file(str(path), one.schema) as writer:
            writer.write_table(one)
    if kind != "frame":
        source = path
    settings = {"labels": Labels(losses.logistic).accepted_labels}
    name = ps.open_stream(source).names[0]
    with pytest.raises(DataError, match=r":3:click: found the label 2, expected -1, 0 or 1"):
        read(source, None, FeatureSpec(label="click"), **settings)
    rows = read(source, None, FeatureSpec(label="click"), on_error="quarantine", quarantine=kept, **settings)
    assert [row[2] for row in rows] == [0.0, 1.0, 1.0]
    assert kept.read_text() == (
        f'# {name}:3:click: found the label 2, expected -1, 0 or 1\n{{"click": 2.0, "c": "w"}}\n'
        f'# {name}:4:click: found no label, expected -1, 0 or 1\n{{"click": null, "c": "x"}}\n'
    )


@pytest.mark.parametrize("way", ["as ever", "second version", "without dictionaries"])
def test_changed_bytes_are_refused_or_read_and_never_more(way: str, tmp_path: Path) -> None:
    whole = written(table([(1, k / 4, None, k, f"v{k % 9}", 1.0) for k in range(60)]), **WRITTEN[way])
    path = tmp_path / "rows.parquet"
    for seed in range(100):
        rng, changed = random.Random(seed), bytearray(whole)
        for _ in range(rng.choice([1, 1, 3, 20])):
            changed[rng.randrange(4, len(whole))] = rng.randrange(256)
        path.write_bytes(changed)
        with contextlib.suppress(DataError):
            read(path, None, SPEC)
        with contextlib.suppress(DataError):
            read(path, None, SPEC, on_error="skip")


def test_parts_of_another_type_than_their_column_are_refused() -> None:
    text = written(pa.table({"x": pa.array([7, 8], pa.int32())})).replace(b"\x15\x02\x19", b"\x15\x08\x19")
    with pytest.raises(DataError, match="FLOAT vs"):
        read(io.BytesIO(text), "parquet", FeatureSpec())


def test_names_that_are_no_text_are_refused_in_one_line() -> None:
    text = written(pa.table({"name": [1, 2]}), store_schema=False).replace(b"name", b"n\xffme")
    with pytest.raises(DataError, match=r"^<BytesIO>: .*invalid start byte$"):
        read(io.BytesIO(text), "parquet", FeatureSpec())


@pytest.mark.parametrize("kind", [None, "parquet"])
def test_columns_of_one_name_are_refused_if_they_are_needed(kind: str | None) -> None:
    one = pa.table([[1, 2], [3, 4], [0.5, 0.25]], names=["x", "x", "z"])
    first, second = (io.BytesIO(written(one)) if kind else one for _ in range(2))
    with pytest.raises(DataError, match=r": found several columns 'x', expected one$"):
        read(first, kind, FeatureSpec())
    assert [row[1] for row in read(second, kind, FeatureSpec(drop=["x"]))] == [[0.5], [0.25]]


def test_strings_within_structs_that_have_several_dictionaries() -> None:
    rows = [{"s": {"v": f"v{k % 5}"}, "x": float(k)} for k in range(400)]
    one = pa.Table.from_pylist(rows)
    assert read(io.BytesIO(written(one, row_group_size=100)), "parquet", FeatureSpec()) == read(
        one, None, FeatureSpec()
    )
