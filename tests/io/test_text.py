"""Text streams: compiled parsers read what naive ones read, wherever the text is cut; bad input is named."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import proxstream as ps
from proxstream.data.rowblock import RowBlock
from proxstream.io import Chunk, DataError, Position
from proxstream.io.features.spec import FeatureSpec
from proxstream.io.text import parallel, vw

from ..examples import examples
from . import naive_text, text_cases

pytestmark = pytest.mark.interpreted

CODECS = {"": None, ".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


def joined(chunks: Any) -> RowBlock:
    """Return all rows as one block."""
    blocks = [chunk.rows if isinstance(chunk, Chunk) else chunk for chunk in chunks]
    starts = np.cumsum([0, *(block.indptr[-1] for block in blocks)])
    return RowBlock(
        np.concatenate([[0], *(block.indptr[1:] + start for block, start in zip(blocks, starts, strict=False))]),
        np.concatenate([block.indices for block in blocks]),
        np.concatenate([block.data for block in blocks]),
        np.concatenate([block.y for block in blocks]),
        np.concatenate([block.c for block in blocks]),
    )


def same(one: RowBlock, other: RowBlock) -> None:
    for name in RowBlock._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def read(text: bytes, format: str = "svmlight", **settings: Any) -> RowBlock:
    return joined(ps.open_stream(io.BytesIO(text), format, **settings))


@pytest.fixture(scope="module")
def example() -> tuple[bytes, Any, Any]:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 40)) < 0.3, rng.normal(size=(300, 40)).round(4), 0.0)
    y = rng.integers(0, 2, 300) * 2.0 - 1.0
    file = io.BytesIO()
    dump_svmlight_file(X, y, file, zero_based=True)
    return file.getvalue(), X, y


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if "proxstream" in thread.name] == []


def test_rows_are_those_of_scikit_learn(example: tuple[bytes, Any, Any]) -> None:
    text, X, _ = example
    rows = read(text, dtype=np.float64)
    expected, labels = load_svmlight_file(io.BytesIO(text), zero_based=True, n_features=40)
    same(rows, RowBlock(expected.indptr, expected.indices, expected.data, labels))
    np.testing.assert_array_equal(expected.toarray(), X)


@pytest.mark.parametrize("chunk_bytes", [1, 2, 7, 100, 1000])
def test_the_cut_into_chunks_means_nothing(example: tuple[bytes, Any, Any], chunk_bytes: int) -> None:
    text = example[0]
    same(read(text, chunk_bytes=chunk_bytes), read(text))


@pytest.mark.parametrize("extension", CODECS)
def test_compressed_files(example: tuple[bytes, Any, Any], extension: str, tmp_path: Path) -> None:
    text = example[0]
    path = tmp_path / f"rows.svm{extension}"
    codec = CODECS[extension]
    with pa.CompressedOutputStream(str(path), codec) if codec else path.open("wb") as file:
        file.write(text)
    stream = ps.open_stream(path)
    chunks = list(stream.chunks())
    same(joined(chunks), read(text))
    assert stream.n_bytes == path.stat().st_size == sum(chunk.n_bytes for chunk in chunks)


def test_reading_begins_at_any_place(example: tuple[bytes, Any, Any], tmp_path: Path) -> None:
    paths = [tmp_path / "a.svm", tmp_path / "b.svm"]
    lines = example[0].splitlines(keepends=True)[:60]
    paths[0].write_bytes(b"".join(lines[:20]))
    paths[1].write_bytes(b"".join(lines[20:]))
    stream = ps.open_stream([str(path) for path in paths], chunk_bytes=200)
    chunks = list(stream.chunks())
    assert chunks[-1].end[:2] == (1, 40)
    for i, chunk in enumerate(chunks[:-1]):
        rest = list(ps.open_stream([str(path) for path in paths]).chunks(chunk.end))
        same(joined(rest), joined(chunks[i + 1 :]))
        assert rest[-1].end == chunks[-1].end
    for path in paths:
        before = path.read_bytes()
        path.write_bytes(before.replace(b"-1 ", b"+1 ", 1))
        with pytest.raises(DataError, match=f"{paths[1]}: the file has changed"):
            list(stream.chunks(chunks[-1].end))
        path.write_bytes(before)
    paths[1].write_bytes(b"".join(lines[20:30]))
    with pytest.raises(DataError, match=r"the file has changed since it was read before \(it has .* bytes where"):
        list(stream.chunks(chunks[-1].end))
    with pytest.raises(DataError, match="has no file 2"):
        list(stream.chunks(Position(file=2)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 1:1\n1 2:3 x:1\n", ":2:7: found 'x:1', expected index:value"),
        (b"1 2:nan\n", ":1:5: found 'nan', expected a finite number"),
        (b"1 2:inf\n", ":1:5: found 'inf', expected a finite number"),
        (b"nan 2:1\n", ":1:1: found 'nan', expected a label, a finite number"),
        (b"3:1\n", ":1:1: found '3:1', expected a label, a finite number"),
        (b"1 2:\n", ":1:5: found the end of the line, expected a finite number"),
        (b"1 2: 3\n", ":1:5: found a blank, expected a finite number"),
        (b"1 2147483648:1\n", ":1:3: found '2147483648:1', expected an index of at most 2147483647"),
        (b"1 " + b"9" * 50 + b":1\n", f":1:3: found '{'9' * 40}'..., expected an index of at most 2147483647"),
        (b"1 -2:1\n", ":1:3: found '-2:1', expected index:value"),
        (b"1 1:1e39\n", ":1:5: found '1e39', expected a number that fits float32"),
        (b"1e999 1:1\n", ":1:1: found '1e999', expected a number that fits float32"),
        (b"1 1:1 # \xff\n", ":1:9: found '\\xff', expected UTF-8"),
        (b"1 qid:x 1:1\n", ":1:3: found 'qid:x', expected qid:number, a whole number of up to 18 digits"),
        (b"1 qid:1 1:1\n1 1:1\n", ":2:3: found '1:1', expected a qid, as the rows before have one"),
        (b"1 1:1\n1 qid:1 1:1\n", ":2:3: found 'qid:1', expected no qid, as the rows before have none"),
        (b"\0\1\2\3", ":1:1: found '\\x00\\x01\\x02\\x03', expected a label, a finite number"),
    ],
)
def test_bad_svmlight_is_named(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_bytes(text)
    with pytest.raises(DataError) as raised:
        list(ps.open_stream(path, max_features=1 << 31))
    assert str(raised.value) == f"{path}{message}"


def test_bad_rows_are_left_out_and_kept(tmp_path: Path) -> None:
    text = b"1 1:1\n1 x\n# note\n\n1 2:1\n1 3:y\r\n1 4:1"
    path, bad = tmp_path / "rows.svm", tmp_path / "bad"
    path.write_bytes(text)
    stream = ps.open_stream(path, on_error="skip")
    assert joined(stream).indices.tolist() == [1, 2, 4]
    assert stream.skipped == 2
    stream = ps.open_stream(path, on_error="quarantine", quarantine=bad)
    entries = [
        f"# {path}:2:3: found 'x', expected index:value\n1 x\n",
        f"# {path}:6:5: found 'y', expected a finite number\n1 3:y\n",
    ]
    for _ in range(2):  # a second pass finds them again, and the file is the same
        chunks = list(stream.chunks())
        assert stream.skipped == 2
        assert bad.read_text() == "".join(entries)
    for chunk in chunks:  # and so it is after going on from any place
        list(stream.chunks(chunk.end))
        assert stream.skipped == 2
        assert bad.read_text() == "".join(entries)


def test_a_consumer_that_stops_early_ends_the_thread(example: tuple[bytes, Any, Any]) -> None:
    others = set(threading.enumerate())  # of this process: what tests before may have left
    stream = ps.open_stream(io.BytesIO(example[0]), "svmlight", chunk_bytes=100)
    for _ in stream:
        break
    assert set(threading.enumerate()) <= others
    blocks = iter(stream)
    next(blocks)
    assert set(threading.enumerate()) - others
    stream.close()
    assert set(threading.enumerate()) <= others


def rows_of(block: RowBlock) -> list[tuple[float, float, list[tuple[int, float]]]]:
    """Return rows as label, weight and features."""
    ends = block.indptr.tolist()
    pairs = list(zip(block.indices.tolist(), block.data.tolist(), strict=True))
    weights = block.c.tolist() if len(block.c) else [1.0] * block.n_rows
    labels = [None if np.isnan(y) else y for y in block.y.tolist()]
    return [(labels[i], weights[i], pairs[ends[i] : ends[i + 1]]) for i in range(block.n_rows)]


def expected_rows(text: bytes, format: str, bits: int, digits: bool) -> tuple[Any, int]:
    if format == "svmlight":
        good, bad = naive_text.rows(text, naive_text.svmlight)
    else:
        good, bad = naive_text.rows(text, naive_text.vw, bits=bits, digits=digits)
    return [(None if np.isnan(r.y) else r.y, r.c, list(r.features.items())) for r in good], bad


@pytest.mark.parametrize("format", ["svmlight", "vw"])
@examples(150)
@given(
    seed=st.integers(0, 2**32),
    chunk_bytes=st.integers(1, 300),
    bits=st.integers(1, 12),
    digits=st.booleans(),
    n_threads=st.sampled_from([1, 3]),
)
def test_good_and_bad_lines_are_those_of_a_naive_parser(
    format: str, seed: int, chunk_bytes: int, bits: int, digits: bool, n_threads: int
) -> None:
    text = text_cases.text(format, random.Random(seed))
    options: dict[str, Any] = {"digits": digits, "features": FeatureSpec(bits=bits)} if format == "vw" else {}
    stream = ps.open_stream(
        io.BytesIO(text),
        format,
        on_error="skip",
        chunk_bytes=chunk_bytes,
        qid=False if format == "svmlight" else None,
        max_features=1 << 31,
        **options,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "parsers", lambda: n_threads)
        rows = [row for block in stream for row in rows_of(block)]
    assert (rows, stream.skipped) == expected_rows(text, format, bits, digits), text


@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("bad", [0, 1, 777, 1999])
def test_rows_before_a_bad_line_come_first(bad: int, n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "parsers", lambda: n_threads)
    lines = [b"%d 1:%d" % (i, i + 1) for i in range(2000)]
    lines[bad] = b"%d 1:" % bad
    lines[1500] = b"x" if bad < 1500 else lines[1500]  # a later one is not reported
    seen: list[float] = []
    stream = ps.open_stream(io.BytesIO(b"\n".join(lines)), "svmlight", chunk_bytes=500)
    with pytest.raises(DataError, match=rf":{bad + 1}:{len(str(bad)) + 4}: found the end of the line"):
        seen.extend(y for chunk in stream.chunks() for y in chunk.rows.y.tolist())
    assert seen == list(range(bad))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_qid_is_asked_of_all_rows_or_of_none(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "parsers", lambda: n_threads)
    text = b"# note\n\n" * 50 + b"1 qid:%d 2:1\n" * 300 % tuple(range(300))
    elements = list(ps.open_stream(io.BytesIO(text), "svmlight", chunk_bytes=100))
    assert [q for _, qid in elements for q in qid.tolist()] == list(range(300))
    assert all(isinstance(rows, RowBlock) for rows in ps.open_stream(io.BytesIO(text), "svmlight", qid=False))
    for line in (b"1 2:1", b"1 qid:1 2:1"):
        mixed = (text if line == b"1 2:1" else b"1 2:1\n" * 300) + line
        n = mixed.count(b"\n") + 1
        with pytest.raises(DataError, match=rf":{n}:3: found '{line[2:].split()[0].decode()}', expected"):
            list(ps.open_stream(io.BytesIO(mixed), "svmlight", chunk_bytes=100))
    with pytest.raises(DataError, match="expected a qid"):
        list(ps.open_stream(io.BytesIO(b"1 2:1\n"), "svmlight", qid=True))
    with pytest.raises(ValueError, match="qid of svmlight text must be None, True or False, got 'q'"):
        list(ps.open_stream(io.BytesIO(b"1 2:1\n"), "svmlight", qid="q"))


def test_indices_from_one() -> None:
    assert read(b"1 1:1 3:1\n", zero_based=False).indices.tolist() == [0, 2]
    with pytest.raises(DataError, match="found '0:1', expected an index of at least 1, since indices count from 1"):
        read(b"1 0:1\n", zero_based=False)


def test_rows_are_sorted_and_summed() -> None:
    rows = read(b"1 5:1 2:3 5:0.5 2:-3 9:0 1:4\n1 1:1 2:2\n")
    assert rows_of(rows) == [(1.0, 1.0, [(1, 4.0), (5, 1.5)]), (1.0, 1.0, [(1, 1.0), (2, 2.0)])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1|a b\n", ":1:1: found '1|a', expected a blank between the label and the bar"),
        (b"1 x |a b\n", ":1:3: found 'x', expected a weight, a finite number >= 0"),
        (b"1 -2 |a b\n", ":1:3: found '-2', expected a weight, a finite number >= 0"),
        (b"1 1 0.5 |a b\n", ":1:5: found '0.5', expected no base other than 0"),
        (b"1 1 0 0 |a b\n", ":1:7: found '0', expected no base other than 0"),
        (b"1 2\n", ":1:4: found the end of the line, expected a bar before the features"),
        (b"x y |a\n", ":1:1: found 'x', expected a label, a finite number"),
        (b"nan |a\n", ":1:1: found 'nan', expected a label, a finite number"),
        (b"1 'tag x|a\n", ':1:3: found "\'tag", expected a bar after the tag'),
        (b"1 |a b:x\n", ":1:8: found 'x', expected a finite number"),
        (b"1 |a b:nan\n", ":1:8: found 'nan', expected a finite number"),
        (b"1 |a b:1:2\n", ":1:8: found '1:2', expected a finite number"),
        (b"1 |a:x b\n", ":1:6: found 'x', expected a finite number"),
        (b"1 |a :1\n", ":1:6: found ':1', expected the name of a feature"),
        (b"1 |a b\0c\n", ":1:7: found '\\x00c', expected the name of a feature"),
        (b"1 |a b:1e39\n", ":1:6: found 'b:1e39', expected a number that fits float32"),
        (b"1 |a:1e200 b:1e200\n", ":1:14: found '1e200', expected a number that fits float32"),
        (b"1 |a caf\xe9 b\n", ":1:9: found '\\xe9', expected UTF-8"),
        (b"1 'caf\xe9 |a b\n", ":1:7: found '\\xe9', expected UTF-8"),
    ],
)
def test_bad_vw_text_is_named(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.vw"
    path.write_bytes(b"1 |a b\n" + text)
    with pytest.raises(DataError) as raised:
        list(ps.open_stream(path))
    assert str(raised.value) == f"{path}{message.replace(':1:', ':2:', 1)}"


def test_namespaces_can_be_chosen_crossed_and_named() -> None:
    text = b"1 |a x y:2 |b z |c w\n" * 3
    everything = read(text, "vw", features=FeatureSpec(bits=20))
    assert len(everything.indices) == 12
    kept = read(text, "vw", features=FeatureSpec(bits=20, keep=["a"]))
    assert kept.indices.tolist() == [j for i in range(3) for j in everything.indices[4 * i : 4 * i + 2]]
    dropped = read(text, "vw", features=FeatureSpec(bits=20, drop=["a", "b"]))
    assert dropped.indices.tolist() == everything.indices[3::4].tolist()
    stream = ps.open_stream(io.BytesIO(text), "vw", features=FeatureSpec(bits=None, crosses="a*b"), chunk_bytes=10)
    rows = joined(stream)
    names = {name: number for number, named in stream.featurizer.named().items() for name in named}
    assert list(names) == ["a=x", "a=y", "b=z", "c=w", "a=x*b=z", "a=y*b=z"]
    assert rows.indices.tolist() == list(range(6)) * 3
    assert rows.data.tolist() == [1, 2, 1, 1, 1, 2] * 3
    assert [chunk.end.names for chunk in stream.chunks()] == [6, 6, 6]


def test_too_many_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vw, "MOST_SPACES", 3)
    text = b"".join(b"1 |n%d x\n" % i for i in (0, 1, 0, 2, 3, 1))
    stream = ps.open_stream(io.BytesIO(text), "vw", features=FeatureSpec(names=True), on_error="skip")
    assert joined(stream).n_rows == 5
    assert stream.skipped == 1
    assert len(read(text, "vw").indices) == 6  # untracked, there may be any number
