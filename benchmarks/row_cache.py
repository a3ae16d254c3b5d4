"""Row caches against Arrow IPC files of the same rows: seconds from disk to row blocks, and bytes.

    python -m benchmarks row_cache [--rows 400000] [--repeats 15]

All are read in one process and in turn, each time after the system was asked to drop the file from its cache, and the
medians are shown. In the Arrow files, values that are all 1 are left out. Nothing checks that the bytes of a plain one
are those that were written; "checked" has what a row cache has and a resumed run needs: a checksum of each batch, which
is compared before the batch is decoded, a running checksum of the file, and a thread that reads ahead.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

import proxstream as ps
from proxstream.data.rowblock import NO_WEIGHTS, RowBlock
from proxstream.io import Chunk, Position
from proxstream.io.cache import hashed
from proxstream.io.prefetch import Prefetch
from proxstream.io.text.reader import Checksum

BLOCK = 8192  # rows
HEAD = struct.Struct("<QQ")  # size and checksum


def blocks(kind: str, n_rows: int) -> Iterator[RowBlock]:
    """Yield generated rows: 39 hashed categories, or 75 numbers of a bag of words."""
    rng, n, d = np.random.default_rng(0), 39 if kind == "categories" else 75, 1 << 22 if kind == "categories" else 47236
    for first in range(0, n_rows, BLOCK):
        size = min(BLOCK, n_rows - first)
        indices = np.sort((d * rng.random((size, n)) ** 3).astype(np.int32), axis=1).ravel()
        values = np.ones(size * n, np.float32) if kind == "categories" else rng.random(size * n, np.float32)
        y = np.where(rng.random(size) < 0.3, 1.0, -1.0)
        yield RowBlock(np.arange(size + 1, dtype=np.int32) * n, indices, values, y, NO_WEIGHTS)


class Generated:
    """The generated rows, as `write_cache` takes a stream."""

    used_featurizer, dtype = None, "float32"

    def __init__(self, kind: str, n_rows: int) -> None:
        self._kind, self._n_rows = kind, n_rows

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows."""
        for block in blocks(self._kind, self._n_rows):
            yield Chunk(block, None, Position(), 0)


def as_batch(block: RowBlock) -> pa.RecordBatch:
    """Return rows as a record batch."""
    columns: dict[str, Any] = {"y": block.y, "indices": pa.ListArray.from_arrays(block.indptr, block.indices)}
    if not (block.data == 1).all():
        columns["values"] = pa.ListArray.from_arrays(block.indptr, block.data)
    return pa.record_batch(columns)


def as_block(batch: pa.RecordBatch) -> RowBlock:
    """Return the rows of a record batch, without a copy."""
    lists = batch.column("indices")
    indices = lists.values.to_numpy()
    named = "values" in batch.schema.names
    values = batch.column("values").values.to_numpy() if named else np.ones(len(indices), np.float32)
    return RowBlock(lists.offsets.to_numpy(), indices, values, batch.column("y").to_numpy(), NO_WEIGHTS)


def write_arrow(path: str, rows: Iterator[RowBlock], compression: str | None) -> None:
    """Write rows as an Arrow IPC file."""
    batches = map(as_batch, rows)
    first = next(batches)
    with ipc.new_file(path, first.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_batch(batch)


def read_arrow(path: str) -> Iterator[RowBlock]:
    """Read the same rows."""
    with pa.OSFile(path) as file, ipc.open_file(file) as reader:
        for k in range(reader.num_record_batches):
            yield as_block(reader.get_batch(k))


def write_checked(path: str, rows: Iterator[RowBlock]) -> None:
    """Write each block as an Arrow IPC stream after its size and checksum."""
    with open(path, "wb") as file:
        for block in rows:
            sink = pa.BufferOutputStream()
            batch = as_batch(block)
            with ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            payload = bytes(sink.getvalue())
            file.write(HEAD.pack(len(payload), hashed(payload)))
            file.write(payload)


def read_checked(path: str) -> Iterator[RowBlock]:
    """Read the same rows, on another thread."""

    def chunks(closed: Callable[[], bool]) -> Iterator[RowBlock]:
        running = Checksum(0)
        with open(path, "rb", buffering=0) as file:
            while head := file.read(HEAD.size):
                size, check = HEAD.unpack(head)
                payload = np.empty(size, np.uint8)
                file.readinto(payload.data)
                running.update(payload, 0, size)
                assert hashed(payload) == check
                with ipc.open_stream(pa.py_buffer(payload)) as reader:
                    yield as_block(reader.read_next_batch())

    with Prefetch(chunks, 4) as ahead:
        yield from ahead


def drop(path: str) -> None:
    """Ask the system to read a file from disk the next time."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def consume(rows: Iterator[Any]) -> tuple[float, int]:
    """Return the seconds to read all rows, and a sum that takes every byte."""
    start, total = time.perf_counter(), 0
    for block in rows:
        total += int(block.indices.sum(dtype=np.int64)) + int(block.data.view(np.int32).sum(dtype=np.int64))
    return time.perf_counter() - start, total


def compare(folder: Path, kind: str, n_rows: int, repeats: int) -> None:
    """Print the table of one kind of rows."""
    endings = ("psr", "checked.arrow", "arrow", "lz4.arrow")
    cache, checked, plain, packed = (str(folder / f"{kind}.{ending}") for ending in endings)
    ps.io.write_cache(Generated(kind, n_rows), cache)
    write_checked(checked, blocks(kind, n_rows))
    write_arrow(plain, blocks(kind, n_rows), None)
    write_arrow(packed, blocks(kind, n_rows), "lz4")
    ways: dict[str, tuple[str, Callable[[], Iterator[Any]]]] = {
        "row cache": (cache, lambda: iter(ps.open_stream(cache))),
        "Arrow, checked": (checked, lambda: read_checked(checked)),
        "Arrow IPC": (plain, lambda: read_arrow(plain)),
        "Arrow IPC, lz4": (packed, lambda: read_arrow(packed)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sums = set()
    for _ in range(repeats + 1):
        for name, (path, rows) in ways.items():
            drop(path)
            spent, total = consume(rows())
            seconds[name].append(spent)
            sums.add(total)
    assert len(sums) == 1, "the files do not hold the same rows"
    base = statistics.median(seconds["row cache"][1:])
    for name, (path, _) in ways.items():
        median = statistics.median(seconds[name][1:])
        size = os.path.getsize(path) / 1e6
        print(f"{kind:<12} {name:<16} {size:9.1f} MB {median:8.3f} s {median / base:6.2f}")


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks row_cache", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("categories", "words"):
            compare(Path(folder), kind, options.rows, options.repeats)
