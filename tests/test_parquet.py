"""Parquet files read page by page give the rows that pyarrow's own reader gives, however they were written."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

import proxstream as ps
from proxstream import losses
from proxstream.kernels import pages as kernel
from proxstream.streams import DataError, parquet
from proxstream.streams.features import FeatureSpec
from proxstream.streams.pages import CODECS, STRINGS, parts_of
from proxstream.training import Labels

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
}
NOT_PAGED: dict[str, dict[str, Any]] = {
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


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where pyarrow's reader would be needed."""

    def unexpected(*_: Any) -> Any:
        raise AssertionError("the short way did not go")

    monkeypatch.setattr(parquet, "made", unexpected)


@pytest.mark.parametrize("way", WRITTEN)
@settings(deadline=None, max_examples=25)
@given(rows=ROWS, copies=st.sampled_from([1, 30]))
def test_pages_give_the_rows_of_the_table(way: str, rows: list[tuple[Any, ...]], copies: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "made", lambda *_: pytest.fail("the short way did not go"))
        one = table(rows * copies)
        for made in (one, one.replace_schema_metadata()):
            assert read(io.BytesIO(written(made, **WRITTEN[way])), "parquet", SPEC) == read(one, None, SPEC)


@pytest.mark.usefixtures("paged")
@pytest.mark.parametrize("way", WRITTEN)
def test_many_rows_and_values_that_cannot_be_missing(way: str) -> None:
    rng = np.random.default_rng(0)
    n = 9000
    words = np.array([f"word {k}" for k in range(3000)])[(3000 * rng.random(n) ** 3).astype(int)]
    rows = [*zip(rng.integers(0, 2, n).tolist(), rng.normal(size=n).tolist(), rng.random(n).tolist(),
                 rng.integers(-5, 5, n).tolist(), words.tolist(), [1.0] * n, strict=True)]  # fmt: skip
    one = table(rows, nullable=False)
    assert read(io.BytesIO(written(one, **WRITTEN[way])), "parquet", SPEC) == read(one, None, SPEC)


@pytest.mark.parametrize("way", NOT_PAGED)
def test_what_pages_are_not_read_of_is_left_to_pyarrow(way: str) -> None:
    one = table([(1, 0.5, 1.5, k, f"v{k % 7}", 1.0) for k in range(50)])
    assert read(io.BytesIO(written(one, **NOT_PAGED[way])), "parquet", SPEC) == read(one, None, SPEC)


@pytest.mark.usefixtures("paged")
def test_dictionaries_and_small_integers() -> None:
    words = pa.array(["u", "v", "u", None]).dictionary_encode()
    one = pa.table({"c": words, "k": pa.array([1, None, -3, 0], pa.int8()), "n": pa.array([1, 2, 3, 4], pa.uint16())})
    assert read(io.BytesIO(written(one)), "parquet", FeatureSpec()) == read(one, None, FeatureSpec())


@pytest.mark.parametrize("kind", [pa.uint32(), pa.uint64(), pa.decimal128(5, 1), pa.float16()])
def test_numbers_that_are_not_what_is_stored(kind: pa.DataType) -> None:
    one = pa.table({"x": pa.array([1, None, 3]).cast(pa.int32()).cast(pa.float32()).cast(kind, safe=False)})
    assert read(io.BytesIO(written(one)), "parquet", FeatureSpec()) == read(one, None, FeatureSpec())


@pytest.mark.usefixtures("paged")
def test_reading_begins_again_in_the_middle_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from proxstream.streams import tables

    monkeypatch.setattr(tables, "ROWS", 7)
    text = written(table([(1, k / 4, None, k, f"v{k % 9}", 1.0) for k in range(60)]), row_group_size=25)
    whole = read(io.BytesIO(text), "parquet", SPEC)
    ends = [chunk.end for chunk in ps.open_stream(io.BytesIO(text), "parquet", features=SPEC).chunks()]
    assert [end.row for end in ends] == [*range(7, 60, 7), 60]
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
    told = {"labels": Labels(losses.logistic).told}
    name = ps.open_stream(source).names[0]
    with pytest.raises(DataError, match=r":3:click: found the label 2, expected -1, 0 or 1"):
        read(source, None, FeatureSpec(label="click"), **told)
    rows = read(source, None, FeatureSpec(label="click"), on_error="quarantine", quarantine=kept, **told)
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


def by_pyarrow(text: bytes, spec: FeatureSpec) -> Any:
    """Return what pyarrow's reader makes of a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "made_of_pages", lambda *_: iter(()))
        return read(io.BytesIO(text), "parquet", spec)


@pytest.mark.parametrize(("kind", "before", "after"), [
    (pa.int8(), (7).to_bytes(4, "little"), (1031).to_bytes(4, "little")),  # more bits than the column has
    (pa.uint16(), (7).to_bytes(4, "little"), b"\xff" * 4),
])  # fmt: skip
def test_what_does_not_fit_together_means_what_it_means_to_pyarrow(kind: Any, before: bytes, after: bytes) -> None:
    text = written(pa.table({"x": pa.array([7, 8], kind)}), use_dictionary=False, compression="none")
    assert before in text
    changed, spec = text.replace(before, after), FeatureSpec()
    assert read(io.BytesIO(changed), "parquet", spec) == by_pyarrow(changed, spec)


def test_parts_of_another_type_than_their_column_are_refused() -> None:
    text = written(pa.table({"x": pa.array([7, 8], pa.int32())})).replace(b"\x15\x02\x19", b"\x15\x08\x19")
    with pytest.raises(DataError, match="FLOAT vs"):
        read(io.BytesIO(text), "parquet", FeatureSpec())


def test_a_number_of_rows_below_0() -> None:
    text = written(pa.table({"x": pa.array(range(30))}))
    changed = text.replace(b"\x16\x3c\x19", b"\x16\x3b\x19")
    assert changed != text
    assert read(io.BytesIO(changed), "parquet", FeatureSpec()) == by_pyarrow(changed, FeatureSpec())


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


# ---- kernels


def runs(values: list[int], width: int, rng: random.Random) -> bytes:
    """Write values as runs, repeated or packed as chance will have it."""
    out, at = b"", 0
    while at < len(values):
        same = at
        while same < len(values) and values[same] == values[at]:
            same += 1
        if rng.random() < 0.5 or same - at > 12:
            out += varint(2 * (same - at)) + values[at].to_bytes((width + 7) // 8, "little")
            at = same
        else:
            groups = rng.randint(1, 4)
            some = values[at : at + 8 * groups]
            bits = sum(value << (k * width) for k, value in enumerate(some))
            out += varint(2 * groups + 1) + bits.to_bytes(groups * width, "little")
            at += len(some)
    return out


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n % 128 + 128]) + varint(n // 128)


@settings(deadline=None)
@given(st.integers(0, 32), st.lists(st.integers(0, 2**32 - 1), max_size=60), st.integers(0, 99))
def test_runs_are_read_piece_by_piece(width: int, drawn: list[int], seed: int) -> None:
    rng = random.Random(seed)
    fitting = [value & ((1 << min(width, rng.choice([1, width, 31]))) - 1) for value in drawn]
    values = [value for value in fitting for _ in range(rng.choice([1, 1, 20]))]
    text = np.frombuffer(runs(values, width, rng), np.uint8)
    run = np.zeros(kernel.RUN, np.int64)
    run[kernel.RUN_STOP], run[kernel.RUN_WIDTH] = len(text), width
    out, done = np.zeros(len(values) + 1, np.int64), 0
    while done < len(values):
        n = rng.randint(1, len(values) - done)
        assert kernel.take_run(text, run, n, out[done:]) == max(values[done : done + n])
        done += n
    assert out[: len(values)].tolist() == values
    assert kernel.take_run(text, run, 9, np.zeros(9, np.int64)) <= 0  # at most what fills the last eight


def test_what_is_told_of_columns_is_what_pyarrow_tells() -> None:
    for rows, options in ((60, {"row_group_size": 25}), (1, {"compression": "zstd"}), (0, {})):
        text = written(table([(1, k / 4, None, k, f"v{k % 9}", 1.0) for k in range(rows)]), **options)
        metadata = pq.read_metadata(io.BytesIO(text))
        told = parts_of(pa.BufferReader(text), metadata.num_row_groups, metadata.num_columns)
        for group, column in np.ndindex(told.shape[:2]):
            part, fields = metadata.row_group(group).column(column), told[group, column]
            assert fields[kernel.PART_VALUES] == part.num_values
            assert fields[kernel.PART_SIZE] == part.total_uncompressed_size
            assert fields[kernel.PART_STORED] == part.total_compressed_size
            assert fields[kernel.PART_DATA] == part.data_page_offset
            assert max(fields[kernel.PART_DICTIONARY], 0) == (part.dictionary_page_offset or 0)
            assert str(CODECS[fields[kernel.PART_CODEC]]).upper() in (part.compression, "NONE")
            assert (fields[kernel.PART_TYPE] == STRINGS) == (part.physical_type == "BYTE_ARRAY")


def test_headers_that_are_none() -> None:
    told = np.empty(2 * kernel.FIELDS, np.int64)
    header = np.frombuffer(bytes([0x15, 0, 0x15, 0x80, 1, 0x15, 20, 0x2C, 0x15, 6, 0x15, 16, 0, 0]), np.uint8)
    assert kernel.page_header(header, len(header), told) == len(header)
    fields = kernel.KIND, kernel.SIZE, kernel.STORED, kernel.VALUES, kernel.ENCODING
    assert told[list(fields)].tolist() == [0, 64, 10, 3, 8]
    for cut in range(len(header)):
        assert kernel.page_header(header[:cut], cut, told) == kernel.CUT
    for junk in (
        b"\x05\x00\x00",
        b"\x1c" * 8 + b"\x00",
        b"\x19\x00",
        b"\xf1\xf1\x00",
        b"\x0c\x00",
        b"\x1c\x00\x1c\x00",
    ):
        assert kernel.page_header(np.frombuffer(junk, np.uint8), len(junk), told) == kernel.NONE


def test_lengths_that_no_number_holds() -> None:
    junk = np.frombuffer(b"\x18" + b"\xff" * 8 + b"\x7f" + bytes(20), np.uint8)
    assert kernel.page_header(junk, len(junk), np.empty(2 * kernel.FIELDS, np.int64)) == kernel.CUT
    assert kernel.column_chunks(junk, len(junk), np.empty((1, kernel.FIELDS), np.int64)) == kernel.CUT


def test_a_repeated_value_of_more_bits_than_there_are() -> None:
    run = np.zeros(kernel.RUN, np.int64)
    run[kernel.RUN_STOP], run[kernel.RUN_WIDTH] = 2, 1
    for value, largest in ((1, 1), (3, -1), (64, -1)):
        out = np.zeros(4, np.int64)
        assert kernel.take_run(np.frombuffer(bytes([8, value]), np.uint8), run.copy(), 4, out) == largest


@pytest.mark.parametrize("nothing", [0, 1])
def test_runs_of_nothing_are_none(nothing: int) -> None:
    text, run = np.frombuffer(bytes([nothing, 3, 255]), np.uint8), np.zeros(kernel.RUN, np.int64)
    run[kernel.RUN_STOP], run[kernel.RUN_WIDTH] = len(text), 1
    assert kernel.take_run(text, run, 8, np.zeros(8, np.int64)) == -1
