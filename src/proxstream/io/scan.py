"""A first look at a source, before it is read: which label texts it has, and which columns may be identifiers.

Text labels. The label column of a CSV, TSV, JSON lines, Parquet or Arrow file or of a data frame may contain text. The
texts are found first, then the stream gives rows the numbers that belong to them:

    texts = find_label_texts("clicks.csv", features=FeatureSpec(label="clicked"))        # ["no", "yes"]
    stream = open_stream("clicks.csv", features=..., label_texts={"no": -1.0, "yes": 1.0})

A source that can be read only once (a pipe) is scanned as far as its first 64 KiB: pass the stream that will be read,
`find_label_texts(stream)`, then `stream.with_label_texts(...)`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.validation import Array
from . import formats
from .features.featurizer import Featurizer
from .features.spec import LABEL, FeatureSpec
from .open import Stream, open_stream
from .sources import HEAD, Handle
from .types import DataError, Settings

TABLES = ("csv", "tsv", "jsonl", "parquet", "arrow", "frame")
MOST_LABELS = 10_000
SAMPLE = 20_000  # rows in which identifiers are searched for
BITS = 4  # of the hashes of categories among them, which nobody looks at
_IDENTIFIER = re.compile(r"(^|_)(id|code|zip)$", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def find_label_texts(
    source: Any, format: str | None = None, *, features: Any = None, rows: int | None = None, **options: Any
) -> list[str] | None:
    """Return the distinct label texts of a source in sorted order, or None if its labels are numbers.

    Labels are numbers if all in the first chunk of rows are. The texts `true` and `false`, and values of boolean
    columns, are texts.

    Parameters
    ----------
    source : Stream, or what `open_stream` takes
    format, features, **options
        As for `open_stream`; those of a Stream are its own.
    rows : int, optional
        Stop after about so many rows, at the end of a chunk; None scans all rows. A source that can be read only once
        is scanned as far as its first 64 KiB.

    Raises
    ------
    DataError
        If there is no label column, or more than 10,000 label texts.

    Examples
    --------
    >>> import io
    >>> find_label_texts(io.BytesIO(b"label,x\\nyes,1\\nno,2\\nyes,3\\n"), "csv")
    ['no', 'yes']
    >>> find_label_texts(io.BytesIO(b"label,x\\n1,1\\n0,2\\n"), "csv") is None
    True
    """
    stream = source if isinstance(source, Stream) else open_stream(source, format, features=features, **options)
    spec = _spec(stream)
    label = LABEL if spec.label is None else spec.label
    wanted = FeatureSpec(label="", keep=[label], categorical=[label], bits=None, nulls=spec.nulls)
    texts: set[str] = set()
    for featurizer, n_rows in _scan(stream, wanted):
        texts = {name[len(label) + 1 :].strip(" ") for name in featurizer.names.names}
        if all(map(_NUMBER.fullmatch, texts)):
            return None
        if len(texts) > MOST_LABELS:
            raise DataError(
                f"{stream.names[0]}: found more than {MOST_LABELS} label texts in column {label!r}; is it the label?"
            )
        if rows is not None and n_rows >= rows:
            break
    return sorted(texts) or None


def suggest_categorical(source: Any, format: str | None = None, *, features: Any = None, **options: Any) -> list[str]:
    """Return the numeric columns of a source that look like identifiers, to be treated as categories.

    In the first rows, their values are integers of which many repeat, and either the column is named like an identifier
    (user_id, zip, PRODUCT_CODE) or the values are spread over a range much larger than their number and are not round,
    as amounts often are.

    Examples
    --------
    >>> import io
    >>> rows = [f"{i % 2},{7919 * (i % 13) + 501},{20 + i}" for i in range(60)]
    >>> suggest_categorical(io.BytesIO("\\n".join(["label,shop,age", *rows]).encode()), "csv")
    ['shop']
    """
    stream = source if isinstance(source, Stream) else open_stream(source, format, features=features, **options)
    given = _spec(stream)
    # Hashed categories are cheap, and numbers to be standardized have features of their own.
    drop = [*given.drop, *given.grams]
    spec = replace(given, crosses=(), bits=BITS, standardize=True, names=False, text=(), drop=drop)
    values: dict[str, list[Array]] = {}
    for _, n_rows in _scan(stream, spec, values):
        if n_rows >= SAMPLE:
            break
    return [name for name, parts in values.items() if _is_identifier(name, np.concatenate(parts))]


def _is_identifier(name: str, values: Array) -> bool:
    if len(values) < 50 or (values != np.floor(values)).any():
        return False
    distinct, counts = np.unique(values, return_counts=True)
    repeated = counts[counts > 1].sum() / len(values)
    spread = (distinct[-1] - distinct[0] + 1) / len(distinct)
    round_share = np.mean(distinct % 10 == 0)
    named = _IDENTIFIER.search(name) is not None
    return bool(len(distinct) >= 8 and repeated >= 0.3 and (named or (spread >= 10 and round_share < 0.5)))


def _spec(stream: Stream) -> FeatureSpec:
    given = stream._settings.features
    return given.spec if isinstance(given, Featurizer) else FeatureSpec() if given is None else given


def _scan(
    stream: Stream, spec: FeatureSpec, values: dict[str, list[Array]] | None = None
) -> Iterator[tuple[Featurizer, int]]:
    """Read the tables of a stream with another specification; yield its featurizer and the rows so far."""
    found, kinds = [], []
    for source, kind in zip(stream._sources, stream._formats, strict=True):
        if kind.name in TABLES and source.rereadable:
            found.append(source)
            kinds.append(kind)
        elif kind.name in ("csv", "tsv", "jsonl"):
            head = source.head(whole=True)
            text = head if len(head) < HEAD else head[: head.rfind(b"\n") + 1]
            found.append(Handle(io.BytesIO(text), source.name))
            kinds.append(formats.get(kind.name))
    if not found:
        return
    settings = Settings(
        features=spec,
        dtype=np.float64,
        chunk_bytes=stream._settings.chunk_bytes,
        max_line_bytes=stream._settings.max_line_bytes,
        label_texts=stream._settings.label_texts,
        options=stream._settings.options,
    )
    scanned, n_rows = Stream(found, kinds, settings, ("skip", None)), 0
    with scanned:
        for chunk in scanned.chunks():
            n_rows += chunk.rows.n_rows
            if values is not None:
                numeric = [column.name for column in scanned.featurizer.columns if column.kind == "numeric"]
                for feature, name in enumerate(numeric, scanned.featurizer.standardizer.first):
                    numbers = chunk.rows.data[chunk.rows.indices == feature]
                    values.setdefault(name, []).append(numbers[numbers != 0.0])
            yield scanned.featurizer, n_rows
