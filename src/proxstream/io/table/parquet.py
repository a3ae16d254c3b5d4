"""Parquet files through pyarrow: only the columns that are needed are read, decoded on pyarrow's threads.

Columns of strings that are stored as codes of a dictionary are read as codes, so that each distinct value is hashed
once per dictionary and not once per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from ..formats import Job
from ..prefetch import Prefetch
from ..types import Chunk
from .arrow import Table, checked, needed_of, opened, read_batches, refusals

BATCH = 1 << 16  # rows decoded at once
DECODED = 2  # batches that wait at most
PROBED = 1 << 14  # rows that decide which columns are read as codes
STRINGS = ("string", "large_string", "binary", "large_binary")


def read(job: Job) -> Iterator[Chunk]:
    """Read a Parquet file, row group after row group."""
    import pyarrow.parquet as pq

    check = checked(job)
    with ExitStack() as stack:
        file = stack.enter_context(opened(job, stack))
        with refusals(job):
            metadata = pq.read_metadata(file)
            schema = metadata.schema.to_arrow_schema()
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        needed, skip, first = needed_of(job, schema), job.start.row, 0
        while first < len(sizes) and skip >= sizes[first]:
            skip -= sizes[first]
            first += 1
        groups = list(range(first, len(sizes)))

        def open_file(coded: list[str]) -> Any:
            return pq.ParquetFile(file, metadata=metadata, read_dictionary=coded)

        def batches() -> Iterator[Any]:
            columns = list(dict.fromkeys(name if name in schema.names else name.split(".")[0] for name in needed))
            coded = _dictionaries(open_file, schema, columns, groups[0])
            yield from open_file(coded).iter_batches(BATCH, row_groups=groups, columns=columns, use_threads=True)

        def stored(row: int) -> int:  # as if all rows took the same
            return int((job.source.size or 0) * row // max(sum(sizes), 1))

        decoded = stack.enter_context(Prefetch(lambda closed: batches() if groups else (), DECODED))
        yield from read_batches(job, Table(decoded, needed, skip, check, stored))


def _dictionaries(open_file: Callable[..., Any], schema: Any, columns: list[str], group: int) -> list[str]:
    """Return the columns of strings that are best read as codes: those with few values in the first rows.

    With many values the writer has fallen back to the strings themselves, and pyarrow would have to build a dictionary.
    Within structs pyarrow cannot join the codes of several dictionaries. (Column metadata would show it without reading
    rows, but pyarrow ends the process over those of a damaged file.)
    """
    strings = [name for name in columns if str(schema.field(name).type) in STRINGS]
    if not strings:
        return []
    batch = next(open_file(strings).iter_batches(PROBED, row_groups=[group], columns=strings, use_threads=True), None)
    if batch is None:
        return []
    return [name for name in strings if 2 * len(batch.column(name).dictionary) <= batch.num_rows]
