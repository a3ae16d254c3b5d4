"""Tables to tables: CSV, TSV, JSON lines, Parquet and Arrow files into one another, a batch of rows at a time.

Columns keep their names and types as far as the target has them; nothing is made into features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from .base import DataError
from .sources import Source

TABLES = ("csv", "tsv", "jsonl", "parquet", "arrow")
SEPARATORS = {"csv": ",", "tsv": "\t"}
BLOCK_BYTES, BLOCK_ROWS = 1 << 22, 1 << 16

Batches = tuple[Any, Iterable[Any]]  # a pyarrow schema and record batches


def retable(source: Source, format: str, out: BinaryIO, target: str) -> int:
    """Write a table in another format and return the number of its rows; what cannot be read is a DataError."""
    import pyarrow as pa

    rows = 0
    try:
        with _opened(source) as file:
            schema, batches = _READERS[format](file, format)
            with _WRITERS[target](out, schema, target) as write:
                for batch in batches:
                    write(batch)
                    rows += batch.num_rows
    except pa.ArrowException as error:
        raise DataError(f"{source.name}: {' '.join(str(error).split())}") from None
    return rows


@contextmanager
def _opened(source: Source) -> Iterator[Any]:
    import pyarrow as pa

    with source.native() as file:
        if source.compression is None:
            yield file
        else:
            with pa.CompressedInputStream(file, source.compression) as stream:
                yield stream


def _read_csv(file: Any, format: str) -> Batches:
    from pyarrow import csv

    reader = csv.open_csv(
        file,
        read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=csv.ParseOptions(delimiter=SEPARATORS[format], newlines_in_values=True),
    )
    return reader.schema, reader


def _read_jsonl(file: Any, format: str) -> Batches:
    from pyarrow import json as lines

    table = lines.read_json(file, read_options=lines.ReadOptions(block_size=BLOCK_BYTES))
    return table.schema, table.to_batches(BLOCK_ROWS)


def _read_parquet(file: Any, format: str) -> Batches:
    from pyarrow import parquet

    opened = parquet.ParquetFile(file)
    return opened.schema_arrow, opened.iter_batches(BLOCK_ROWS)


def _read_arrow(file: Any, format: str) -> Batches:
    import pyarrow as pa

    try:
        opened = pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        reader = pa.ipc.open_stream(file)
        return reader.schema, reader
    return opened.schema, (opened.get_batch(i) for i in range(opened.num_record_batches))


@contextmanager
def _write_csv(out: BinaryIO, schema: Any, format: str) -> Iterator[Callable[[Any], None]]:
    from pyarrow import csv

    with csv.CSVWriter(out, schema, write_options=csv.WriteOptions(delimiter=SEPARATORS[format])) as writer:
        yield writer.write_batch


@contextmanager
def _write_jsonl(out: BinaryIO, schema: Any, format: str) -> Iterator[Callable[[Any], None]]:
    def write(batch: Any) -> None:
        for row in batch.to_pylist():
            known = {name: value for name, value in row.items() if value is not None}
            out.write(json.dumps(known, ensure_ascii=False, default=str).encode() + b"\n")

    yield write


@contextmanager
def _write_parquet(out: BinaryIO, schema: Any, format: str) -> Iterator[Callable[[Any], None]]:
    from pyarrow import parquet

    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        yield writer.write_batch


@contextmanager
def _write_arrow(out: BinaryIO, schema: Any, format: str) -> Iterator[Callable[[Any], None]]:
    import pyarrow as pa

    with pa.ipc.new_file(out, schema) as writer:
        yield writer.write_batch


_READERS = {
    "csv": _read_csv,
    "tsv": _read_csv,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
    "arrow": _read_arrow,
}
_WRITERS = {
    "csv": _write_csv,
    "tsv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}
