"""Small tables with everything that can be in them, written in every format; and what was read, as plain lists."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
from hypothesis import strategies as st

import proxstream as ps
from proxstream.io.features.spec import FeatureSpec
from proxstream.io.types import Position

VALUES = st.sampled_from(
    ["a", "b", "", "7", 'say "hi"', "x,y", "two\nlines", "cr\r\nlf", "tab\there", "漢字 é", " ", "'"]
)
ROW = st.fixed_dictionaries(
    {
        "label": st.sampled_from([0, 1]),
        "x": st.none() | st.integers(-40, 40).map(lambda k: k / 4) | st.sampled_from([1e-5, 123456789.5, 1e20]),
        "c": st.none() | VALUES,
        "i": st.none() | st.integers(-1000, 10**12),
        "b": st.none() | st.booleans(),
        "t": st.none() | VALUES | st.text("ab ,\n\"'é", max_size=12),
        "w": st.integers(0, 8).map(lambda k: k / 2),
        "q": st.integers(0, 3),
    }
)
TYPES = [pa.int64(), pa.float64(), pa.string(), pa.int64(), pa.bool_(), pa.string(), pa.float64(), pa.int64()]
SCHEMA = pa.schema(zip(["label", "x", "c", "i", "b", "t", "w", "q"], TYPES, strict=True))
SPEC = FeatureSpec(
    weight="w",
    qid="q",
    numeric=["x", "i"],
    categorical=["c", "b"],
    text={"t": "words:1-2"},
    crosses=["c*b", "x*c"],
    bits=20,
)
COLUMNS = tuple(zip("xcibt", ("numeric", "categorical", "numeric", "categorical", "text"), strict=True))

Rows = list[dict[str, Any]]


def as_csv(rows: Rows, separator: str = ",", end: str = "\n", quoting: Any = csv.QUOTE_MINIMAL) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerow(SCHEMA.names)
    for row in rows:
        writer.writerow([str(row[name]).lower() if isinstance(row[name], bool) else row[name] for name in SCHEMA.names])
    return text.getvalue().encode()


def as_jsonl(rows: Rows) -> bytes:
    ordered = [{name: row[name] for name in SCHEMA.names} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=bool(k % 2)) + "\n" for k, row in enumerate(ordered)).encode()


def as_parquet(rows: Rows, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file, **options)
    return file.getvalue()


def as_arrow(rows: Rows, kind: Any, batch: int = 3) -> bytes:
    file = io.BytesIO()
    with kind(file, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA), max_chunksize=batch)
    return file.getvalue()


def as_feather(rows: Rows) -> bytes:
    file = io.BytesIO()
    pyarrow.feather.write_feather(pa.Table.from_pylist(rows, SCHEMA), file, compression="zstd")
    return file.getvalue()


WAYS: dict[str, Callable[[Rows], tuple[Any, str | None]]] = {
    "csv": lambda rows: (io.BytesIO(as_csv(rows)), "csv"),
    "csv, CRLF": lambda rows: (io.BytesIO(as_csv(rows, end="\r\n")), "csv"),
    "csv, all quoted": lambda rows: (io.BytesIO(as_csv(rows, quoting=csv.QUOTE_ALL)), "csv"),
    "csv, BOM, no last newline": lambda rows: (io.BytesIO(b"\xef\xbb\xbf" + as_csv(rows)[:-1]), "csv"),
    "tsv": lambda rows: (io.BytesIO(as_csv(rows, "\t")), "tsv"),
    "jsonl": lambda rows: (io.BytesIO(as_jsonl(rows)), "jsonl"),
    "parquet": lambda rows: (io.BytesIO(as_parquet(rows, row_group_size=3)), "parquet"),
    "parquet, plain": lambda rows: (io.BytesIO(as_parquet(rows, use_dictionary=False)), "parquet"),
    "arrow": lambda rows: (io.BytesIO(as_arrow(rows, pa.ipc.new_file)), "arrow"),
    "arrow stream": lambda rows: (io.BytesIO(as_arrow(rows, pa.ipc.new_stream)), "arrow"),
    "feather": lambda rows: (io.BytesIO(as_feather(rows)), "arrow"),
    "pyarrow": lambda rows: (pa.Table.from_pylist(rows, SCHEMA), None),
    "pandas": lambda rows: (pa.Table.from_pylist(rows, SCHEMA).to_pandas(), None),
    "polars": lambda rows: (pl.from_arrow(pa.Table.from_pylist(rows, SCHEMA)), None),
}


def many(n: int) -> Rows:
    rng = np.random.default_rng(n)
    words = np.array(["alpha", "beta", 'quo"te', "two\nlines", "漢", ""])
    return [
        {
            "label": int(rng.integers(2)),
            "x": float(rng.integers(-9, 9)) / 4,
            "c": str(words[rng.integers(6)]) + str(rng.integers(n)),
            "i": None if rng.random() < 0.2 else int(rng.integers(100)),
            "b": bool(rng.integers(2)),
            "t": " ".join(rng.choice(words, 3)),
            "w": 1.0,
            "q": k // 5,
        }
        for k in range(n)
    ]


def read(source: Any, kind: str | None, spec: Any = SPEC, start: Position | None = None, **options: Any) -> list[Any]:
    """Return indices, data, label, weight and qid of each row, None for what it has not."""
    rows = []
    with ps.open_stream(source, kind, features=spec, dtype=np.float64, **options) as stream:
        for chunk in stream.chunks(start):
            block = chunk.rows
            block.check()
            for i in range(block.n_rows):
                at = slice(block.indptr[i], block.indptr[i + 1])
                weight = block.c[i] if len(block.c) else None
                qid = None if chunk.qid is None else chunk.qid[i]
                label = None if np.isnan(block.y[i]) else block.y[i]
                rows.append([block.indices[at].tolist(), block.data[at].tolist(), label, weight, qid])
    return rows


def write_table(table: pa.Table, path: str) -> None:
    """Write a table in the format of the extension: csv, tsv, jsonl, parquet or feather."""
    ending = path.rpartition(".")[2]
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "feather":
        pyarrow.feather.write_feather(table, path)
    elif ending == "jsonl":
        with open(path, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in table.to_pylist())
    else:
        options = pyarrow.csv.WriteOptions(delimiter="\t" if ending == "tsv" else ",")
        pyarrow.csv.write_csv(table, path, options)
