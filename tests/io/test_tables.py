"""Tables in every format give the same rows: those of the naive featurizer."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.io import DataError
from proxstream.io.features.featurizer import Featurizer
from proxstream.io.features.spec import FeatureSpec

from ..examples import examples
from . import naive_features as naive
from .table_cases import (
    COLUMNS,
    ROW,
    SCHEMA,
    SPEC,
    WAYS,
    as_arrow,
    as_csv,
    as_feather,
    as_jsonl,
    as_parquet,
    many,
    read,
)

pytestmark = pytest.mark.interpreted


@pytest.mark.default_cases(3)
@pytest.mark.parametrize("way", WAYS)
@examples(25)
@given(st.lists(ROW, min_size=1, max_size=8), st.sampled_from([16, 100, 1 << 22]))
def test_every_format_gives_the_rows_of_the_naive_featurizer(way: str, rows: list[dict[str, Any]], piece: int) -> None:
    source, kind = WAYS[way](rows)
    found = read(source, kind, chunk_bytes=piece)
    numbers = naive.Numbers(replace(SPEC, columns=COLUMNS))
    assert len(found) == len(rows)
    for row, (indices, data, y, weight, qid) in zip(rows, found, strict=True):
        assert dict(zip(indices, data, strict=True)) == numbers.row(row)
        assert (y, weight, qid) == (row["label"], row["w"], row["q"])


EMPTY = {"label": 0, "x": None, "c": None, "i": None, "b": None, "t": None, "w": 0.0, "q": 0}


@examples(40)
@given(st.lists(ROW, min_size=1, max_size=10), st.sampled_from([None, 16]), st.booleans())
@example([EMPTY, {**EMPTY, "x": 7.0}], None, False)  # a number whose text is that of a null
def test_formats_agree_in_every_order_and_name(rows: list[dict[str, Any]], bits: int | None, names: bool) -> None:
    spec, answers = replace(SPEC, bits=bits, names=names, missing="value", nulls=("7",)), []
    for way in ("csv", "jsonl", "parquet", "polars"):
        featurizer = Featurizer(spec, np.float64)
        source, kind = WAYS[way](rows)
        answers.append((read(source, kind, featurizer), featurizer.named(), featurizer.spec))
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("csv, all quoted", "parquet, plain", "feather")])
@pytest.mark.parametrize("bits", [None, 18])
def test_reading_can_begin_again_at_every_chunk(way: str, bits: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from proxstream.io.table import arrow as tables
    from proxstream.io.text import csv as csvtext

    monkeypatch.setattr(csvtext, "ROWS", 7)
    monkeypatch.setattr(tables, "ROWS", 7)
    rows, spec = many(60), replace(SPEC, bits=bits)
    whole = read(*WAYS[way](rows), spec, chunk_bytes=700)
    first = Featurizer(spec, np.float64)
    ends = [chunk.end for chunk in ps.open_stream(*WAYS[way](rows), features=first, chunk_bytes=700).chunks()]
    assert len(ends) > 5
    for end in ends[::3]:
        again = Featurizer(first.spec, np.float64)
        again.restore(first.arrays(end.names))
        assert read(*WAYS[way](rows), again, end) == whole[end.row :]
        assert again.named() == first.named()


@pytest.mark.parametrize("name", ["csv", "csv.gz", "tsv.bz2", "jsonl.gz", "parquet", "parquet.gz", "arrow", "feather"])
def test_files_and_their_sizes(name: str, tmp_path: Path) -> None:
    rows = many(50)
    make: dict[str, Callable[[], bytes]] = {
        "csv": lambda: as_csv(rows),
        "tsv": lambda: as_csv(rows, "\t"),
        "jsonl": lambda: as_jsonl(rows),
        "parquet": lambda: as_parquet(rows),
        "arrow": lambda: as_arrow(rows, pa.ipc.new_file),
        "feather": lambda: as_feather(rows),
    }
    kind, _, packed = name.partition(".")
    pack: Any = {"": bytes, "gz": gzip.compress, "bz2": bz2.compress}[packed]
    path = tmp_path / f"rows.{name}"
    path.write_bytes(pack(make[kind]()))
    expected = read(pa.Table.from_pylist(rows, SCHEMA), None)
    assert read(path, None) == expected
    assert read([path, path], None) == 2 * expected
    sizes = [chunk.n_bytes for chunk in ps.open_stream(path, features=SPEC).chunks()]
    assert sum(sizes) == path.stat().st_size


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_file_that_has_changed_is_refused(kind: str, tmp_path: Path) -> None:
    def write(rows: list[dict[str, Any]]) -> None:
        make = as_parquet(rows, row_group_size=10) if kind == "parquet" else as_arrow(rows, pa.ipc.new_file)
        path.write_bytes(make)

    path, spec = tmp_path / f"rows.{kind}", replace(SPEC, columns=COLUMNS)
    write(many(50))
    (chunk, *_) = ps.open_stream(path, features=spec).chunks()
    write(many(50)[::-1])
    with pytest.raises(DataError, match=rf"rows.{kind}: the file has changed"):
        list(ps.open_stream(path, features=spec).chunks(chunk.end._replace(row=1)))


# ---- columns


def test_columns_may_come_in_another_order_and_with_others(tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("label,a,b\n1,2,u\n")
    second.write_text("new,b,a,label\n9,u,2,1\n")
    one, other = read([first, second], None, FeatureSpec())
    assert one == other


def test_a_column_that_is_missing_from_a_later_file_is_named(tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("label,a,b\n1,2,u\n")
    second.write_text("label,a\n1,2\n")
    with pytest.raises(DataError, match=r"2.csv: found no column 'b', expected it as in the first table"):
        read([first, second], None, FeatureSpec())


def test_a_kind_decided_in_the_first_file_stays(tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.parquet"
    first.write_text("label,a\n1,u\n")
    pq.write_table(pa.table({"label": [1], "a": [7]}), second)
    (_, other) = read([first, second], None, FeatureSpec(bits=8))
    assert other[0] == [naive.murmur3(b"7", naive.murmur3(b"a")) % 256]


def test_scored_data_need_no_label() -> None:
    spec = replace(FeatureSpec(label="y", weight="w"), columns=[("a", "numeric")])
    for source, kind in (
        (io.BytesIO(b"a\n3\n"), "csv"),
        (pa.table({"a": [3]}), None),
        (io.BytesIO(b'{"a":3}'), "jsonl"),
    ):
        ((_, data, y, weight, _),) = read(source, kind, spec)
        assert data == [3.0]
        assert y is None
        assert weight is None
    with pytest.raises(DataError, match=r"found no column 'y' for the label, expected one of 'a'"):
        read(io.BytesIO(b"a\n3\n"), "csv", FeatureSpec(label="y"))


@pytest.mark.parametrize(
    ("text", "columns", "n_rows"),
    [
        (b"a,b\n1,x\n", ["a", "b"], 1),
        (b"a,\n1,x\n", ["a", "1"], 1),
        (b'\n\r\n"a\nz",b\n1,x\n', ["a\nz", "b"], 1),
        (b"1,x\n2,y\n", ["0", "1"], 2),
        (b"x,x\n", ["0", "1"], 1),
        (b"-1e5,x", ["0", "1"], 1),
    ],
)
def test_header_or_not(text: bytes, columns: list[str], n_rows: int) -> None:
    for piece in (4, 1 << 20):
        featurizer = Featurizer(FeatureSpec())
        rows = read(io.BytesIO(text), "csv", featurizer, chunk_bytes=piece)
        assert [name for name, _ in featurizer.spec.columns or ()] == columns
        assert len(rows) == n_rows


def test_header_option() -> None:
    assert len(read(io.BytesIO(b"1,x\n2,y\n"), "csv", FeatureSpec(), header=True)) == 1
    assert len(read(io.BytesIO(b"a,b\n2,y\n"), "csv", FeatureSpec(), header=False)) == 2


def test_kinds_of_csv_columns_follow_from_their_first_values() -> None:
    featurizer = Featurizer(FeatureSpec(nulls=["NA"], drop=["e"]))
    read(io.BytesIO(b"a,b,c,d,e,f\n1, ,NA,x,0,\n,-2.5e3, .5 ,1,0,\n"), "csv", featurizer)
    kinds = {"a": "numeric", "b": "numeric", "c": "numeric", "d": "categorical", "f": "categorical"}
    assert dict(featurizer.spec.columns or ()) == kinds


@pytest.mark.parametrize("text", [b"", b"\n\n", b"\xef\xbb\xbf", b"a,b\n"])
def test_csv_files_without_rows(text: bytes) -> None:
    assert read(io.BytesIO(text), "csv", FeatureSpec()) == []


@pytest.mark.parametrize("text", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_json_files_without_rows(text: bytes) -> None:
    assert read(io.BytesIO(text), "jsonl", FeatureSpec()) == []


@pytest.mark.parametrize("way", ["csv", "parquet", "arrow", "arrow stream", "feather", "pyarrow", "pandas", "polars"])
def test_tables_without_rows(way: str) -> None:
    assert read(*WAYS[way]([])) == []


def test_a_pipe_is_read_like_a_file() -> None:
    text = b"label,a,b\n" + b"".join(b"%d,%d,v%d\n" % (k % 2, k, k) for k in range(9000))
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as file:
            for start in range(0, len(text), 5000):
                file.write(text[start : start + 5000])

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reading, "rb", buffering=0) as file:
        found = read(file, "csv", FeatureSpec())
    thread.join()
    assert found == read(io.BytesIO(text), "csv", FeatureSpec())


def test_separator_and_quotes_are_options() -> None:
    one = read(io.BytesIO(b"a;b\n1;x\n"), "csv", FeatureSpec(), separator=";")
    assert one == read(io.BytesIO(b"a\tb\n1\tx\n"), "tsv", FeatureSpec())
    plain = Featurizer(FeatureSpec(bits=None))
    read(io.BytesIO(b'a,b\n"x,y\nu,v"\n'), "csv", plain, quote=False)
    assert plain.names.names == ['a="x', "b=y", "a=u", 'b=v"']


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"separator": ",,"}, ValueError, "separator must be one ASCII character"),
        ({"separator": '"'}, ValueError, "separator must be one ASCII character"),
        ({"header": 1}, TypeError, "header must be True, False or None, got 1"),
        ({"quote": "'"}, TypeError, "quote must be True or False"),
    ],
)
def test_options_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read(io.BytesIO(b"a,b\n1,2\n"), "csv", FeatureSpec(), **options)


def test_long_rows_and_many_columns() -> None:
    n = 3000  # more separators than are looked for at once
    header, values = ",".join(f"c{j}" for j in range(n)), ",".join(str(j) for j in range(n))
    ((indices, data, *_),) = read(io.BytesIO(f"{header}\n{values}\n".encode()), "csv", FeatureSpec(bits=None))
    assert indices == list(range(1, n))
    assert data == list(range(1, n))
    quoted = ",".join(f'"{j},""{j}"' for j in range(n))
    featurizer = Featurizer(FeatureSpec(bits=None))
    read(io.BytesIO(f"{header}\n{quoted}\n".encode()), "csv", featurizer)
    assert featurizer.names.names == [f'c{j}={j},"{j}' for j in range(n)]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(deadline=None)
def test_numbers_of_csv_are_exact(numbers: list[float]) -> None:
    for shown in (repr, "{:.3f}".format, "{:.0f}".format, "{:+e}".format, "{:.25g}".format):
        words = [shown(x) for x in numbers]
        found = read(io.BytesIO(("x\n" + "\n".join(words) + "\n").encode()), "csv", FeatureSpec(numeric="x"))
        assert [(row[1] or [0.0])[0] for row in found] == [float(word) for word in words]


def test_text_of_vowpal_wabbit_has_the_features_of_a_table() -> None:
    table = read(io.BytesIO(b"label,age,site,ad\n1,30,a.com,7\n-1,,b.com,x\n"), "csv", FeatureSpec(crosses="site*ad"))
    lines = b"1 | age:30 |site a.com |ad 7\n-1 |site b.com |ad x\n"
    assert [row[:3] for row in read(io.BytesIO(lines), "vw", FeatureSpec(crosses="site*ad"))] == [r[:3] for r in table]


# ---- data frames


def test_nan_of_pandas_is_missing_and_its_index_no_feature() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan], "c": pd.Categorical(["u", None])}, index=[7, 9])
    assert [row[1] for row in read(frame, None, FeatureSpec())] == [[1.0, 1.0], []]


@pytest.mark.parametrize("index", [[7, 9], pd.Index([7, 9], name="user"), pd.MultiIndex.from_tuples([(1, 2), (3, 4)])])
def test_an_index_of_pandas_is_no_feature(index: Any) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=index)
    assert [row[1] for row in read(frame, None, FeatureSpec())] == [[1.0], [2.0]]


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_rows_that_were_chosen_in_pandas_and_written_have_no_index(ending: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [3.0, 2.0, 1.0, 4.0]})
    path = tmp_path / f"chosen.{ending}"
    table = pa.Table.from_pandas(frame[frame.x > 1.5])
    assert "__index_level_0__" in table.column_names
    {"parquet": pq.write_table, "feather": feather.write_feather}[ending](table, path)
    assert [row[1] for row in read(path, None, FeatureSpec())] == [[3.0], [2.0], [4.0]]


def test_categoricals_of_data_frames() -> None:
    words = ["u", "v", "u", None]
    plain = [row[:2] for row in read(pa.table({"c": words}), None, FeatureSpec())]
    for series in (pl.Series(words, dtype=pl.Categorical), pl.Series(words, dtype=pl.Enum(["v", "u"]))):
        assert [row[:2] for row in read(pl.DataFrame({"c": series}), None, FeatureSpec())] == plain
    assert [row[:2] for row in read(pd.DataFrame({"c": pd.Categorical(words)}), None, FeatureSpec())] == plain


def test_structs_are_columns_of_their_own() -> None:
    rows = [{"label": 1, "a": {"x": 1.5, "in": {"c": "u"}}}, {"label": 0, "a": {"x": None, "in": {"c": "v"}}}]
    flat = pa.table({"label": [1, 0], "a.x": [1.5, None], "a.in.c": ["u", "v"]})
    expected = read(flat, None, FeatureSpec())
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    file.seek(0)
    assert read(pa.Table.from_pylist(rows), None, FeatureSpec()) == expected
    assert read(file, "parquet", FeatureSpec()) == expected
    assert (
        read(io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode()), "jsonl", FeatureSpec()) == expected
    )


def test_dropped_columns_are_not_read(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0], "list": [[1, 2]], "when": pa.array([0], pa.timestamp("s"))})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"rows.parquet: found column 'list' of type list"):
        read(tmp_path / "rows.parquet", None, FeatureSpec())
    assert len(read(tmp_path / "rows.parquet", None, FeatureSpec(drop=["list", "when"]))) == 1
    line = b'{"a": 1, "list": [1, 2]}\n'
    with pytest.raises(DataError, match=r"found column 'list' of type list"):
        read(io.BytesIO(line), "jsonl", FeatureSpec())
    assert len(read(io.BytesIO(line), "jsonl", FeatureSpec(drop="list"))) == 1


def test_numbers_and_strings_of_tables_are_not_copied() -> None:
    from proxstream.io.table.columns import as_numbers, string_buffers

    for kind in (pa.float64(), pa.float32(), pa.int64(), pa.int32()):
        column = pa.array([1, 2, 3], kind)
        numbers, _, _ = as_numbers(column.slice(1), set())
        assert numbers.ctypes.data == column.buffers()[1].address + numbers.itemsize
    words = pa.array(["one", "two"])
    data, offsets = string_buffers(words)
    assert (data.ctypes.data, offsets.ctypes.data) == (words.buffers()[2].address, words.buffers()[1].address)


# ---- matrices


@pytest.mark.parametrize("make", [np.asarray, csr_array, lambda X: csr_array(X).tocsc()])
def test_matrices(make: Callable[[Any], Any]) -> None:
    X = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    rows = read((make(X), [1, -1], [0.5, 2.0]), None, None, qid=[3, 3])
    assert rows == [[[1], [2.0], 1.0, 0.5, 3], [[0, 2], [1.0, 3.0], -1.0, 2.0, 3]]
    (first, second) = read(make(X), None, None)
    assert (first[:2], second[:2]) == ([[1], [2.0]], [[0, 2], [1.0, 3.0]])
    assert first[2] is None


def test_matrices_refused() -> None:
    with pytest.raises(DataError, match=r"found y of shape \(3,\), expected \(2,\)"):
        read((np.eye(2), [1, 2, 3]), None, None)
    with pytest.raises(DataError, match=r"must be finite, got NaN or infinity in row 1"):
        read(np.array([[1.0], [np.inf]]), None, None)


def test_a_table_of_numbers_is_its_matrix() -> None:
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((20, 4)), 2) * (rng.random((20, 4)) < 0.5)
    table = pa.table({name: X[:, j] for j, name in enumerate("abcd")})
    assert [row[:2] for row in read(table, None, FeatureSpec(bits=None))] == [row[:2] for row in read(X, None, None)]


def test_queries_may_be_strings() -> None:
    table = pa.table({"q": ["a", "a", "7"], "x": [1.0, 1.0, 1.0]})
    text = b"q,x\na,1\na,1\n7,1\n"
    expected = [naive.murmur3(b"a"), naive.murmur3(b"a"), 7]
    assert [row[4] for row in read(table, None, FeatureSpec(qid="q"))] == expected
    assert [row[4] for row in read(io.BytesIO(text), "csv", FeatureSpec(qid="q"))] == expected
