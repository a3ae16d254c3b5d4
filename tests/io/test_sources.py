"""Where streams come from: paths, globs, pipes, file objects, URIs, compressed or not, and what can be wrong there."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import proxstream as ps
from proxstream.io import DataError
from proxstream.io.prefetch import Prefetch

ROWS = b"1 1:1\n-1 2:1\n"


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if "proxstream" in thread.name] == []


def labels(source: Any, *arguments: Any, **settings: Any) -> list[float]:
    with ps.open_stream(source, *arguments, **settings) as stream:
        return [y for chunk in stream.chunks() for y in chunk.rows.y.tolist()]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"day{i}.svm" for i in (2, 10, 1)]
    for i, path in enumerate(paths):
        path.write_bytes(b"%d 1:1\n" % i * (i + 1))
    return paths


def test_paths_lists_and_globs(files: list[Path]) -> None:
    assert labels(files[1]) == labels(str(files[1])) == [1, 1]
    assert labels([str(path) for path in files]) == labels(list(files)) == [0, 1, 1, 2, 2, 2]
    stream = ps.open_stream(str(files[0].parent / "day*.svm"))  # in the order of their names
    assert [Path(name).name for name in stream.names] == ["day1.svm", "day10.svm", "day2.svm"]
    assert stream.n_bytes == sum(path.stat().st_size for path in files)
    assert labels(str(files[0].parent / "day*.svm")) == [2, 2, 2, 1, 1, 0]
    odd = files[0].parent / "a[1].svm"  # a file of that very name is meant
    odd.write_bytes(ROWS)
    assert labels(str(odd)) == [1, -1]
    with pytest.raises(ValueError, match="a list of paths must name at least one, got none"):
        ps.open_stream([])


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.svm: no such file"):
        ps.open_stream(tmp_path / "none.svm")
    with pytest.raises(FileNotFoundError, match=r"\*\.svm: no file matches this pattern"):
        ps.open_stream(str(tmp_path / "*.svm"))
    with pytest.raises(IsADirectoryError, match="a directory, expected a file"):
        ps.open_stream(tmp_path)
    with pytest.raises(DataError, match="no file system that pyarrow knows"):
        ps.open_stream("nowhere://a/b.svm")
    gone = tmp_path / "gone.svm"
    gone.write_bytes(ROWS)
    stream = ps.open_stream(gone)
    gone.unlink()
    with pytest.raises(FileNotFoundError):
        list(stream)


def test_uris(tmp_path: Path) -> None:
    plain, packed = tmp_path / "rows.svm", tmp_path / "rows.svm.gz"
    plain.write_bytes(ROWS)
    packed.write_bytes(gzip.compress(ROWS))
    for path in (plain, packed):
        assert labels(path.as_uri()) == [1, -1]
    with pytest.raises(FileNotFoundError):
        ps.open_stream((tmp_path / "none.svm").as_uri())


def test_file_objects_are_read_from_where_they_stand(tmp_path: Path) -> None:
    file = io.BytesIO(b"junk" + ROWS)
    file.seek(4)
    stream = ps.open_stream(file, "svmlight")
    assert stream.rereadable
    assert stream.n_bytes == len(ROWS)
    assert [len(list(stream)) for _ in range(2)] == [1, 1]
    assert not file.closed
    path = tmp_path / "rows.svm"
    path.write_bytes(gzip.compress(ROWS))
    with path.open("rb") as opened:
        assert labels(opened) == [1, -1]
    with path.open() as text, pytest.raises(TypeError, match="must be opened in binary mode"):
        ps.open_stream(text)
    with pytest.raises(TypeError, match=r"a stream is opened from a path, .* got int"):
        ps.open_stream(3)


class Trickle(io.RawIOBase):
    """A file object that cannot seek, and gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step, self._at = data, step, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        piece = self._data[self._at : self._at + min(self._step, len(into))]
        into[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


@pytest.mark.parametrize("packed", [False, True])
def test_what_cannot_seek_is_read_once(packed: bool) -> None:
    text = ROWS * 50
    data = gzip.compress(text) if packed else text
    stream = ps.open_stream(Trickle(data, 7), "svmlight", chunk_bytes=100)
    chunks = list(stream.chunks())
    assert sum(chunk.rows.n_rows for chunk in chunks) == 100
    assert sum(chunk.n_bytes for chunk in chunks) == len(data)
    assert (stream.n_bytes, stream.rereadable) == (None, False)
    with pytest.raises(ValueError, match="cannot be read twice"):
        list(stream)


def test_standard_input(tmp_path: Path) -> None:
    code = "import sys, proxstream as ps; print([y for b in ps.open_stream('-') for y in b.y.tolist()])"
    for data in (ROWS, gzip.compress(ROWS), b""):
        done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
        assert done.stdout.decode().strip() == ("[1.0, -1.0]" if data else "[]")
    path = tmp_path / "rows"
    path.write_bytes(ROWS)
    with path.open("rb") as file:
        done = subprocess.run([sys.executable, "-c", code], stdin=file, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[1.0, -1.0]"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are a thing of POSIX")
def test_rows_of_a_pipe_do_not_wait_for_more(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer_ready, got_first = threading.Event(), threading.Event()

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(b"1 1:1\n-1")
            writer_ready.set()
            assert got_first.wait(60)
            file.write(b" 2:1\n")

    writer = threading.Thread(target=write)
    writer.start()
    with ps.open_stream(pipe, "svmlight") as stream:
        chunks = stream.chunks()
        assert next(chunks).rows.y.tolist() == [1.0]
        got_first.set()
        assert [y for chunk in chunks for y in chunk.rows.y.tolist()] == [-1.0]
    writer.join()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are a thing of POSIX")
def test_waiting_for_a_pipe_ends_with_the_stream(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    number = os.open(pipe, os.O_RDWR)  # a writer that never writes again
    os.write(number, ROWS)
    stream = ps.open_stream(pipe, "svmlight")
    assert next(stream.chunks()).rows.n_rows == 2
    stream.close()
    assert not [thread for thread in threading.enumerate() if "proxstream" in thread.name]
    os.close(number)


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("rows", b"1 1:1 2:0.5\n", "svmlight"),
        ("rows", b"# note\n\n+1 qid:3 1:1e-3 # note\r\n", "svmlight"),
        ("rows", b"3\n", "svmlight"),
        ("rows", b"", "svmlight"),
        ("rows", b"1 |a b\n", "vw"),
        ("rows", b"'tag |a b:1\n", "vw"),
        ("rows", b'{"a": 1}\n', "jsonl"),
        ("rows", b"a,b\n1,2\n", "csv"),
        ("rows", b"a\tb\n1\t2\n", "tsv"),
        ("rows", b"PAR1xxxx", "parquet"),
        ("rows", b"ARROW1\0\0", "arrow"),
        ("rows.csv", b"1 1:1\n", "csv"),
        ("rows.data.gz", gzip.compress(b"1 1:1\n", mtime=0), "svmlight"),
        ("rows.VW", b"", "vw"),
        ("rows.libsvm.zst", b"", "svmlight"),
        ("ROWS.SVM.GZ", gzip.compress(b"", mtime=0), "svmlight"),
    ],
)
def test_formats_are_inferred_from_name_or_beginning(name: str, data: bytes, format: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert ps.open_stream(path).formats == [format]


def test_formats_that_cannot_be_inferred(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    for junk in (b"hello world\n", b"\0\1\2\3" * 100, bytes(range(256))):
        path.write_bytes(junk)
        with pytest.raises(DataError, match=r"cannot infer the format from the name or the first line .*; specify it"):
            ps.open_stream(path)
    with pytest.raises(ValueError, match=r"format must be one of svmlight, vw, .* got 'xml'"):
        ps.open_stream(path, "xml")
    with pytest.raises(TypeError, match="svmlight has no option 'digits'"):
        ps.open_stream(path, "svmlight", digits=True)
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        ps.open_stream(path, "svmlight", dtype=np.int64)
    with pytest.raises(TypeError, match="zero_based must be True or False, got 'auto'"):
        ps.open_stream(path, "svmlight", zero_based="auto")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="go together"):
        ps.open_stream(path, "svmlight", quarantine=path)
    with pytest.raises(ValueError, match="on_error must be one of 'stop', 'skip', 'quarantine', got 'ignore'"):
        ps.open_stream(path, "svmlight", on_error="ignore")


@pytest.mark.parametrize("extension", ["gz", "zst", "bz2", "lz4"])
def test_compressed_files_that_are_cut_or_are_none(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.svm.{extension}"
    codec = {"gz": "gzip", "zst": "zstd"}.get(extension, extension)
    with pa.CompressedOutputStream(str(path), codec) as file:
        file.write(b"".join(b"%d 1:%d\n" % (i, i * 7919) for i in range(20000)))
    whole = path.read_bytes()
    for data in (whole[: len(whole) // 2], whole[:-1], whole + b"junk", b"1 1:1\n"):
        path.write_bytes(data)
        with pytest.raises(DataError, match=rf"rows\.svm\.{extension}: cannot be decompressed: .*[a-z]"):
            list(ps.open_stream(path))
    path.write_bytes(b"")
    with pytest.raises(DataError, match=f"empty, expected {codec} data"):
        list(ps.open_stream(path))
    path.write_bytes(whole + whole)  # parts one after the other are one file, as for the codecs' own tools
    assert len(labels(path)) == 40000


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    for data in (b"", b"\n", b"\n\n  \r\n# note", b"\xef\xbb\xbf"):
        path.write_bytes(data)
        assert labels(path) == []
    with pytest.raises(ValueError, match="at least one row"):
        ps.StreamClassifier().fit_stream(ps.open_stream(path))


@pytest.mark.parametrize("on_error", ["stop", "skip", "quarantine"])
def test_a_long_line_is_a_bad_row(on_error: str, tmp_path: Path) -> None:
    path, bad = tmp_path / "rows.svm", tmp_path / "bad"
    arguments: dict[str, Any] = {"max_line_bytes": 1000, "chunk_bytes": 100, "on_error": on_error}
    if on_error == "quarantine":
        arguments["quarantine"] = bad
    long = b"2" + b" 1:1" * 5000
    for text, rows in ((b"1\n" + long + b"\n3\n", [1.0, 3.0]), (b"1\n" + long, [1.0]), (long + b"\n\n4", [4.0])):
        path.write_bytes(text)
        if on_error == "stop":
            with pytest.raises(DataError, match=r"rows\.svm:\d:1: found a line of more than 1000 bytes"):
                labels(path, **arguments)
            continue
        stream = ps.open_stream(path, **arguments)
        chunks = list(stream.chunks())
        assert [y for chunk in chunks for y in chunk.rows.y.tolist()] == rows
        assert stream.skipped == 1
        assert b"".join(chunk.rows.y.tobytes() for chunk in chunks) == np.array(rows).tobytes()
        rest = ps.open_stream(path, **arguments)  # and reading can resume after it
        assert [y for chunk in rest.chunks(chunks[0].end) for y in chunk.rows.y.tolist()] == rows[1:]
    if on_error == "quarantine":
        assert bad.read_bytes().startswith(b"# %s:1:1: found a line" % os.fsencode(path))


def test_memory_does_not_grow_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    with path.open("wb") as file:
        for _ in range(40):
            file.write(b"7" * (1 << 20))
    code = (
        "import resource, sys, proxstream as ps\n"
        "list(ps.open_stream(sys.argv[2], 'svmlight'))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: list(ps.open_stream(sys.argv[1]))\n"
        "except ps.DataError as error: print(error, file=sys.stderr)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    small = tmp_path / "small.svm"
    small.write_bytes(ROWS)
    done = subprocess.run([sys.executable, "-c", code, path, small], capture_output=True, text=True, check=True)
    assert "rows.svm:1:1: found a line of more than 33554432 bytes, expected a shorter one" in done.stderr
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 160 << 20  # the buffer of 64 MiB and what moved into it


def test_ahead_keeps_order_and_stays_bounded() -> None:
    made: list[int] = []

    def make(closed: Any) -> Iterator[int]:
        for i in range(50):
            made.append(i)
            yield i

    with Prefetch(make, depth=3) as items:
        for i, item in enumerate(items):
            assert item == i
            time.sleep(0.001)
            assert len(made) <= i + 1 + 3 + 1
    assert made == list(range(50))


def test_ahead_hands_on_errors_after_what_came_before() -> None:
    closed: list[bool] = []

    def make(_: Any) -> Iterator[int]:
        try:
            yield 1
            raise KeyError("here")
        finally:
            closed.append(True)

    items = Prefetch(make, depth=2)
    assert next(items) == 1
    with pytest.raises(KeyError, match="here"):
        next(items)
    assert closed == [True]
    assert list(items) == []
    items.close()


def test_prefetching_ends_when_it_is_closed() -> None:
    closed: list[bool] = []

    def make(is_closed: Any) -> Iterator[int]:
        try:
            while not is_closed():
                yield 0
        finally:
            closed.append(True)

    items = Prefetch(make, depth=2)
    next(items)
    items.close()
    assert closed == [True]
    assert list(items) == []


def test_a_stream_may_be_read_by_two_at_once(files: list[Path]) -> None:
    stream = ps.open_stream(list(files), chunk_bytes=4)
    both = [(a.rows.y.tolist(), b.rows.y.tolist()) for a, b in zip(stream.chunks(), stream.chunks(), strict=True)]
    assert all(a == b for a, b in both)
    assert len(both) == 6
