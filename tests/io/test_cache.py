"""Row caches: what is read back is what was written, bit for bit; a file that was changed anywhere is refused."""

from __future__ import annotations

import io
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.data.rowblock import RowBlock
from proxstream.io import Chunk, DataError, Position, cache as rowcache, write_cache
from proxstream.io.features.spec import FeatureSpec
from proxstream.io.types import ALL_FEATURES

from ..examples import examples

open_stream = partial(ps.open_stream, max_features=ALL_FEATURES)  # a cache holds any index
TEXT = b"1 qid:1 3:0.5 9:1\n-1 qid:1 70000:2\n2 qid:-5\n0.5 qid:9 2147483647:1e-30\n"


class Given:
    """A stream of blocks in memory, as far as `write_cache` looks at one."""

    used_featurizer = None

    def __init__(self, chunks: list[tuple[RowBlock, Any]]) -> None:
        self._chunks = chunks
        self.dtype = str(chunks[0][0].data.dtype)

    def chunks(self) -> Any:
        return (Chunk(rows, qid, Position(), 0) for rows, qid in self._chunks)


def cached(path: Path, text: bytes = TEXT, format: str = "svmlight", **settings: Any) -> list[Chunk]:
    stream = open_stream(io.BytesIO(text), format, **settings)
    assert write_cache(stream, path) == sum(chunk.rows.n_rows for chunk in stream.chunks())
    return list(stream.chunks())


def same_bits(one: Any, other: Any) -> None:
    assert one.dtype == other.dtype
    assert one.tobytes() == other.tobytes()


@st.composite
def blocks(draw: Any, dtype: Any, has_qid: bool) -> tuple[RowBlock, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 5))
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, draw(st.sampled_from([1, 3, 400])), n)))).astype(np.int32)
    high = draw(st.sampled_from([1, 255, 256, 65535, 65536, 2**24 - 1, 2**24, 2**31 - 1]))
    numbers = draw(st.sampled_from(["ones", "bytes", "halves", "any"]))
    values = {
        "ones": np.ones(indptr[-1]),
        "bytes": rng.integers(-128, 128, indptr[-1]),
        "halves": rng.integers(-300, 300, indptr[-1]) / 2,
        "any": rng.normal(size=indptr[-1]) * 10.0 ** rng.integers(-30, 30, indptr[-1]),
    }[numbers].astype(dtype)
    labels = draw(st.sampled_from([np.ones(n), rng.normal(size=n), np.full(n, np.nan), np.full(n, -1.0)]))
    weights = draw(st.sampled_from([np.empty(0), rng.random(n), np.ones(n)]))
    qid = rng.integers(-(2**40), 2**40, n) if has_qid else None
    return RowBlock(
        indptr, rng.integers(0, high, indptr[-1], endpoint=True).astype(np.int32), values, labels, weights
    ), qid


@examples(100)
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]), has_qid=st.booleans())
def test_what_is_read_is_what_was_written(data: Any, dtype: Any, has_qid: bool, tmp_path_factory: Any) -> None:
    given_blocks = data.draw(st.lists(blocks(dtype, has_qid), min_size=1, max_size=3))
    path = tmp_path_factory.mktemp("cache") / "rows.psr"
    n_rows = write_cache(Given(given_blocks), path)  # type: ignore[arg-type]
    found = list(open_stream(path, dtype=dtype).chunks())
    assert n_rows == sum(chunk.rows.n_rows for chunk in found) == sum(rows.n_rows for rows, _ in given_blocks)
    for name in ("indices", "data", "y"):
        whole = np.concatenate([getattr(rows, name) for rows, _ in given_blocks])
        same_bits(np.concatenate([getattr(chunk.rows, name) for chunk in found]), whole)
    lengths = np.concatenate([np.diff(rows.indptr) for rows, _ in given_blocks])
    same_bits(np.concatenate([np.diff(chunk.rows.indptr) for chunk in found]), lengths)
    weights = np.concatenate([rows.c if len(rows.c) else np.ones(rows.n_rows) for rows, _ in given_blocks])
    read = np.concatenate([c.rows.c if len(c.rows.c) else np.ones(c.rows.n_rows) for c in found])
    same_bits(read, weights)
    if has_qid:
        same_bits(np.concatenate([chunk.qid for chunk in found]), np.concatenate([qid for _, qid in given_blocks]))
    else:
        assert all(chunk.qid is None for chunk in found)
    assert sum(chunk.n_bytes for chunk in found) <= os.path.getsize(path)


def test_a_cache_is_learned_as_its_text_is(tmp_path: Path) -> None:
    text = b"".join(b"%d %d:1 %d:0.25\n" % (i % 2, i % 7, 7 + i % 11) for i in range(3000))
    cached(tmp_path / "rows.psr", text)
    models = [
        ps.StreamClassifier(passes=2).fit_stream(stream)
        for stream in (open_stream(tmp_path / "rows.psr"), open_stream(io.BytesIO(text), "svmlight"))
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_small_chunks_are_put_together(tmp_path: Path) -> None:
    text = b"1 1:1\n" * 1000
    assert len(cached(tmp_path / "rows.psr", text, chunk_bytes=50)) > 100
    (chunk,) = open_stream(tmp_path / "rows.psr").chunks()
    assert chunk.rows.n_rows == 1000


def test_reading_begins_at_any_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowcache, "ENTRIES", 1)
    path = tmp_path / "rows.psr"
    cached(path, chunk_bytes=5)
    chunks = list(open_stream(path).chunks())
    assert len(chunks) == 4
    for i, chunk in enumerate(chunks):
        rest = list(open_stream(path).chunks(chunk.end))
        assert [one.rows.y.tolist() for one in rest] == [one.rows.y.tolist() for one in chunks[i + 1 :]]
    cached(path, TEXT.replace(b"0.5", b"0.6"), chunk_bytes=5)
    with pytest.raises(DataError, match=r"rows\.psr: the file has changed"):
        list(open_stream(path).chunks(chunks[1].end))


def test_every_changed_byte_and_every_cut_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowcache, "ENTRIES", 4)
    path = tmp_path / "rows.psr"
    cached(path, chunk_bytes=20)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :], whole[:at]):
            if 12 <= at < 16 and len(damaged) == len(whole):
                continue  # four bytes that mean nothing
            path.write_bytes(damaged)
            with pytest.raises(DataError, match=r"rows\.psr: .*row cache"):
                list(open_stream(path, "cache"))
    path.write_bytes(whole + b"\0")
    with pytest.raises(DataError, match="does not end as a row cache does"):
        list(open_stream(path))


def test_a_size_that_cannot_be_is_refused_before_memory_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.psr"
    cached(path)
    whole = path.read_bytes()
    head = rowcache.Head.unpacked(whole[16 : 16 + rowcache.HEAD.size])
    assert head is not None
    for forged in (head._replace(size=2**62), head._replace(n_entries=2**62), head._replace(codes=(77,) * 6)):
        path.write_bytes(whole[:16] + forged.packed() + whole[16 + rowcache.HEAD.size :])
        with pytest.raises(DataError, match="row cache is damaged"):
            list(open_stream(path))


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.psr"
    path.write_text("before")
    with pytest.raises(DataError):
        write_cache(open_stream(io.BytesIO(b"1 1:1\n" * 100 + b"x\n"), "svmlight", chunk_bytes=10), path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["rows.psr"]


def test_a_cache_knows_what_its_features_mean(tmp_path: Path) -> None:
    path = tmp_path / "rows.psr"
    spec = FeatureSpec(bits=12, crosses="a*b", names=True)
    text = b"1 |a x |b y z\n-1 |a w |b y\n"
    chunks = cached(path, text, "vw", features=spec)
    for settings in (None, FeatureSpec(), spec):
        stream = open_stream(path, features=settings)
        assert stream.featurizer.spec == spec
        assert sorted(name for names in stream.featurizer.named().values() for name in names) == [
            *("a=w", "a=w*b=y", "a=x", "a=x*b=y", "a=x*b=z", "b=y", "b=z")
        ]
        np.testing.assert_array_equal(next(iter(stream.chunks())).rows.indices, chunks[0].rows.indices)
    with pytest.raises(DataError, match=r"rows\.psr: its rows were made with bits=12, not 13"):
        open_stream(path, features=FeatureSpec(bits=13, crosses="a*b", names=True))
    again = tmp_path / "again.psr"
    write_cache(open_stream(path), again)
    assert again.read_bytes() == path.read_bytes()
    cached(path)  # svmlight has no names
    assert open_stream(path, features=FeatureSpec(bits=13)).used_featurizer is None


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "rows.psr"
    for junk in (b"", b"1 2:3\n", b"\0" * 100):
        path.write_bytes(junk)
        with pytest.raises(DataError, match="not a row cache"):
            list(open_stream(path))
    cached(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + b"\2" + whole[9:])
    with pytest.raises(DataError, match="a row cache of version 2, expected 1"):
        list(open_stream(path))
    (tmp_path / "rows.psr.gz").write_bytes(gzip.compress(whole))
    with pytest.raises(DataError, match="has to be a plain file"):
        list(open_stream(tmp_path / "rows.psr.gz"))
    path.write_bytes(whole)
    assert len(list(open_stream(tmp_path / "rows.psr"))) == 1
    (tmp_path / "rows").write_bytes(whole)
    assert open_stream(tmp_path / "rows").formats == ["cache"]


@pytest.mark.exhaustive
def test_wider_numbers_than_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.psr"
    cached(path, b"1 1:0.1 2:3\n", dtype=np.float64)
    (rows,) = open_stream(path)
    assert rows.data.dtype == np.float32  # type: ignore[union-attr]
    np.testing.assert_array_equal(rows.data, np.float32([0.1, 3]))  # type: ignore[union-attr]
    cached(path, b"1 1:1e300\n", dtype=np.float64)
    with pytest.raises(DataError, match="does not fit float32"):
        list(open_stream(path))
