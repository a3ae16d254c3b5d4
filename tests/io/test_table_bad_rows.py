"""Every bad row of a table is named, and can be left out; junk ends in one line."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.io import DataError
from proxstream.io.features.featurizer import Featurizer
from proxstream.io.features.spec import FeatureSpec

from ..examples import examples
from .table_cases import as_arrow, as_parquet, many, read

pytestmark = pytest.mark.interpreted

CSV_FAULTS = [
    (b"1,x,1,u\n", r"3:3: found 'x', expected a finite number in column 'a'"),
    (b"1,nan,1,u\n", r"3:3: found 'nan', expected a finite number in column 'a'"),
    (b"1,inf,1,u\n", r"3:3: found 'inf', expected a finite number in column 'a'"),
    (b"1,1_000,1,u\n", r"3:3: found '1_000', expected a finite number in column 'a'"),
    (b"1,1e400,1,u\n", r"3:3: found '1e400', expected a number that fits float64 in column 'a'"),
    (b"oops,1,1,u\n", r"3:1: found 'oops', expected a finite number in column 'label'"),
    (b"1,1,-2,u\n", r"3:5: found '-2', expected a weight of at least 0 in column 'w'"),
    (b"1,1,,u\n", r"3:5: found nothing, expected a value in column 'w'"),
    (b"1,1,1\n", r"3:6: found 3 columns, expected 4"),
    (b"1,1,1,u,v,w\n", r"3:9: found 6 columns, expected 4"),
    (b'1,1,1,"u"v\n', r"3:10: found 'v' after a closing quote, expected a separator or the line end"),
    (b"1,1,1,\xff\n", r"3:7: found a byte 0xff, expected UTF-8"),
    (b'1,1,1,"a\nb\xc3"\n', r"4:2: found a byte 0xc3, expected UTF-8"),
    (b'1,1,"\n\nx",u\n', r"3:6: found .*, expected a finite number in column 'w'"),
    (b'1,1,1,"a ""b"" \xff"\n', r"3:16: found a byte 0xff, expected UTF-8"),
    (b'1,"1""",1,u\n', r"3:4: found .*, expected a finite number in column 'a'"),
]
JSON_FAULTS = [
    (b'{"a": 1,\n', r"3:9: found the end of the line, expected JSON: .*"),
    (b"[1]\n", r"3:1: found '\[1\]', expected an object"),
    (b'{"a": "x"}\n', r"3:1: found string in column 'a', expected number"),
    (b'{"a": 1, "a": 2}\n', r"3:1: found column 'a' twice, expected it once"),
    (b'{"a": 1} {"a": 2}\n', r"3:10: found .*, expected JSON: extra data"),
    (b'{"a": NaN, "w": 1}\n', r"3:1: found nan, expected a finite number in column 'a'"),
    (b'{"c": "\xff"}\n', r"3:8: found a byte 0xff, expected UTF-8"),
    (b'{"c": 5}\n', r"3:1: found number in column 'c', expected string"),
    (b'{"a": 1, "w": -1}\n', r"3:1: found -1.0, expected a weight of at least 0 in column 'w'"),
    (b'{"a": 1}\n', r"3:1: found nothing, expected a weight of at least 0 in column 'w'"),
    # From Python 3.13 on its reader of JSON goes deeper, and finds that they do not end.
    (b'{"a":' * 3000 + b"\n", r"3:(1: found objects inside objects, too deep|15001: found the end of the line)"),
]
CSV_ROWS = b"label,a,w,c\n1,2,1,u\n", b"0,3,1,v\n"
JSON_ROWS = b'{"label":1,"a":1,"w":1,"c":"x"}\n' * 2, b'{"label":0,"a":3,"w":1,"c":"y"}\n'


@pytest.mark.parametrize(("bad", "message"), CSV_FAULTS)
@pytest.mark.parametrize("piece", [8, 1 << 20])
def test_bad_csv_records(bad: bytes, message: str, piece: int, tmp_path: Path) -> None:
    check_bad_row("csv", CSV_ROWS, bad, message, piece, tmp_path)


@pytest.mark.parametrize(("bad", "message"), JSON_FAULTS)
@pytest.mark.parametrize("piece", [8, 1 << 20])
def test_bad_json_lines(bad: bytes, message: str, piece: int, tmp_path: Path) -> None:
    check_bad_row("jsonl", JSON_ROWS, bad, message, piece, tmp_path)


def check_bad_row(kind: str, around: tuple[bytes, bytes], bad: bytes, message: str, piece: int, folder: Path) -> None:
    path, kept = folder / f"rows.{kind}", folder / "bad.txt"
    path.write_bytes(around[0] + bad + around[1])
    spec = FeatureSpec(weight="w", numeric="a", categorical="c")
    with pytest.raises(DataError, match=rf"rows.{kind}:{message}"):
        read(path, kind, spec, chunk_bytes=piece)
    clean = read(io.BytesIO(around[0] + around[1]), kind, spec)
    stream = ps.open_stream(path, features=spec, on_error="quarantine", quarantine=kept, chunk_bytes=piece)
    assert sum(rows.n_rows for rows in stream) == len(clean)
    assert stream.skipped == 1
    assert bad.rstrip(b"\n") in kept.read_bytes()
    assert read(path, kind, spec, on_error="skip", chunk_bytes=piece) == clean


@pytest.mark.parametrize("piece", [8, 1 << 20])
def test_a_quote_that_is_never_closed(piece: int) -> None:
    text, spec = b'label,a\n1,2\n1,"x\n0,3\n', FeatureSpec(categorical="a")
    with pytest.raises(DataError, match=r":3:3: found a quote that is not closed, expected a closing one"):
        read(io.BytesIO(text), "csv", spec, chunk_bytes=piece)
    rows = read(io.BytesIO(text), "csv", spec, chunk_bytes=piece, on_error="skip")
    assert [row[2] for row in rows] == [1.0, 0.0]


def test_an_open_quote_does_not_fill_the_memory() -> None:
    text = b'label,a\n1,"' + b"x\n" * 100_000 + b"1,u\n"
    with pytest.raises(DataError, match=r":2:3: found a quote that is not closed"):
        read(io.BytesIO(text), "csv", FeatureSpec(categorical="a"), chunk_bytes=256, max_line_bytes=4096)


def test_bad_headers() -> None:
    for text, message in (
        (b"a,b,a\n1,2,3\n", r":1:1: found column 'a' twice, expected names that differ"),
        (b"a,\xff\n1,2\n", r":1:3: found a byte 0xff, expected UTF-8"),
        (b"x" * 70_000, r":1:1: found no line end in 65536 bytes, expected a header or a record"),
    ):
        with pytest.raises(DataError, match=message):
            read(io.BytesIO(text), "csv", FeatureSpec(), header=True)


def test_bad_rows_of_tables() -> None:
    table = pa.table({"label": [1, 0, 1], "x": [1.0, float("nan"), 2.0], "c": ["a", "b", "c"]})
    with pytest.raises(DataError, match=r"<Table>:2:x: found nan, expected a finite number"):
        read(table, None, FeatureSpec())
    found = Featurizer(FeatureSpec(bits=None), np.float64)
    rows = read(table, None, found, on_error="skip")
    assert [row[1] for row in rows] == [[1.0, 1.0], [2.0, 1.0]]
    assert found.names.names == ["x", "c=a", "c=c"]  # nothing of a row that was left out
    with pytest.raises(DataError, match=r"<Table>:1:x: found 1e\+300, expected a number that fits float32"):
        list(ps.open_stream(pa.table({"x": [1e300]})))
    with pytest.raises(DataError, match=r":2:x: found nan, expected a finite number"):
        read(pl.DataFrame({"x": [1.0, float("nan")]}), None, FeatureSpec())
    for word in ("abc", "1_000", "nan"):
        with pytest.raises(DataError, match=rf"<Table>:2:x: found '{word}', expected a finite number"):
            read(pa.table({"x": ["1", word]}), None, FeatureSpec(numeric="x"))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"label": [float("inf")]}, r":1:label: found inf, expected a finite number"),
        ({"label": ["spam"]}, r":1:label: found 'spam', expected a finite number"),
        ({"w": [-1.0]}, r":1:w: found -1.0, expected a weight of at least 0"),
        ({"w": pa.array([None], pa.float64())}, r":1:w: found nothing, expected a weight of at least 0"),
        ({"q": pa.array([None], pa.string())}, r":1:q: found nothing, expected a value"),
    ],
)
def test_bad_labels_weights_and_queries(column: dict[str, list[object]], message: str) -> None:
    table = pa.table({"w": [1.0], "q": [1], "x": [1.0], **column})
    with pytest.raises(DataError, match=message):
        read(table, None, FeatureSpec(weight="w", qid="q"))


@pytest.mark.parametrize(
    ("kind", "junk"),
    [("parquet", b"PAR1 junk"), ("parquet", b""), ("arrow", b"ARROW1junk"), ("arrow", b"\0" * 100), ("arrow", b"")],
)
def test_junk_is_refused(kind: str, junk: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{kind}"
    path.write_bytes(junk)
    with pytest.raises(DataError, match=rf"^\S*rows.{kind}: [^\n]+$"):
        read(path, kind, FeatureSpec())


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_file_cut_in_half_is_refused(kind: str, tmp_path: Path) -> None:
    whole = as_parquet(many(50)) if kind == "parquet" else as_arrow(many(50), pa.ipc.new_file)
    path = tmp_path / f"rows.{kind}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=rf"^\S*rows.{kind}: [^\n]+$"):
        read(path, kind)


def test_binary_junk_as_text_is_refused(tmp_path: Path) -> None:
    junk = np.random.default_rng(0).integers(0, 256, 200_000).astype(np.uint8).tobytes()
    for kind in ("csv", "tsv", "jsonl"):
        path = tmp_path / f"rows.{kind}"
        path.write_bytes(junk)
        with pytest.raises(DataError, match=rf"^\S*rows.{kind}:\d+:\d+: [^\n]+$"):
            read(path, kind, FeatureSpec(label="label", columns=[("a", "numeric")]))


PIECES = [b"a", b'"', b",", b"\n", b"\r\n", b"1", b"-", b".", b"e5", b" ", b"\xc3\xa9", b"\xff", b'""', b'x"y', b"\r"]
FUZZED = FeatureSpec(numeric="a", categorical="b", text={"t": "words:1-2"}, crosses=["a*b", "b*t"], bits=None)


@examples(150)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.sampled_from([1, 7, 20]))
def test_whatever_the_text_the_cut_into_chunks_means_nothing(text: bytes, piece: int) -> None:
    answers = []
    for size in (piece, 1 << 16):
        featurizer = Featurizer(FUZZED, np.float64)
        rows = read(io.BytesIO(b"label,a,b,t\n" + text), "csv", featurizer, chunk_bytes=size, on_error="skip")
        answers.append((rows, featurizer.names.names))
    assert answers[0] == answers[1]


@examples(60)
@given(
    st.lists(
        st.sampled_from([b"1,2,a\n", b"0,,b c\n", b'1,3,"x,\ny"\n', b"\n", b"1,2\n", b'0,1,"', b"0,z,a\n"]), max_size=40
    ),
    st.integers(6, 60),
)
def test_rows_and_faults_do_not_depend_on_the_number_of_parsers(records: list[bytes], piece: int) -> None:
    spec, answers = FeatureSpec(numeric="a", categorical="b", bits=12), []
    for n in (1, 2, 3):
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch.setattr("proxstream.io.text.parallel.parsers", lambda n=n: n)
            kept, text = Path(folder) / "bad.txt", io.BytesIO(b"label,a,b\n" + b"".join(records))
            rows = read(text, "csv", spec, chunk_bytes=piece, on_error="quarantine", quarantine=kept)
            answers.append((rows, kept.read_text()))
    assert answers[0] == answers[1] == answers[2]
