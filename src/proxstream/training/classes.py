"""The classes of a training run: found in the data where the options do not name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import losses
from ..data.labels import text_numbers
from ..io import find_label_texts, open_stream
from ..io.sources import is_piped, sources
from .config import ConfigError, TrainConfig

FIRST_ROWS = 1000  # in which two classes are looked for
MOST_CLASSES = 10_000
TABLES = {"csv", "tsv", "jsonl", "parquet", "arrow"}


def find_classes(config: TrainConfig, announce: Callable[[str], None]) -> TrainConfig:
    """Return the configuration with the classes that the data have.

    Text labels of two classes are looked for in the first rows, those of a pipe in its first 64 KiB; the configuration
    then has the opened pipe. The classes of a multiclass loss need a pass over the data, which is announced, unless
    `--classes` names them. Labels of two classes that are numbers need nothing.
    """
    kind = losses.get(config.loss).kind
    if config.classes or kind not in ("binary", "multiclass"):
        return config
    if kind == "multiclass" and any(map(is_piped, config.data)):
        raise ConfigError(f"--loss {config.loss} needs --classes if the data can be read only once")
    config = replace(config, data=tuple(sources(word)[0] if is_piped(word) else word for word in config.data))
    stream = open_stream(list(config.data), config.format, features=config.features, zero_based=config.zero_based)
    if kind == "binary":
        classes = _two_classes(config, stream, announce)
    else:
        announce(f"--loss {config.loss} without --classes: reading the data once to find the classes")
        classes = _all_classes(stream)
    if stream.rereadable:  # a pipe is read on
        stream.close()
    if config.positive is not None and not classes:
        raise ConfigError("--positive applies to text labels; for numbers use --classes NEGATIVE,POSITIVE")
    try:
        config = replace(config, classes=classes)
        config.labels()
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return config


def number_label_texts(stream: Any, announce: Callable[[str], None]) -> dict[str, float] | None:
    """Return numbers for the label texts of tables, as a training run numbers them; None if labels are numbers.

    Two texts in the first rows are -1 and 1 in sorted order. If there are others, all are found in a pass that is
    announced, and numbered from 0.
    """
    texts = find_label_texts(stream, rows=FIRST_ROWS) if set(stream.formats) & TABLES else None
    if texts is None:
        return None
    if len(texts) != 2:
        if not stream.rereadable:
            raise ConfigError(f"{stream.names[0]}: found {_listed(texts)} in the first rows; name all with --classes")
        announce(f"found the labels {_listed(texts)} in the first rows: reading the data once to find all")
        texts = find_label_texts(stream) or texts
    return text_numbers(losses.logistic, texts)


def _two_classes(config: TrainConfig, stream: Any, announce: Callable[[str], None]) -> tuple[Any, ...]:
    """Return the two label texts, the negative class first; none if labels are numbers."""
    if not set(stream.formats) & TABLES:
        return ()
    texts = find_label_texts(stream, rows=FIRST_ROWS)
    if texts is not None and len(texts) == 1:
        if not stream.rereadable:
            raise ConfigError(f"{stream.names[0]}: the first rows have the label {texts[0]!r} only; use --classes")
        announce(f"the first rows have the label {texts[0]!r} only: reading the data once to find the classes")
        texts = find_label_texts(stream)
    if texts is None:
        return ()
    if len(texts) != 2:
        raise ValueError(
            f"{stream.names[0]}: found {len(texts)} label texts ({_listed(texts)}), but loss {config.loss} has two "
            "classes; use --loss softmax for several classes, or --label COLUMN for another label"
        )
    return tuple(texts)


def _all_classes(stream: Any) -> tuple[Any, ...]:
    """Return all labels of the data in sorted order: texts, or numbers."""
    texts = find_label_texts(stream) if set(stream.formats) & TABLES else None
    if texts is not None:
        return tuple(texts)
    found: set[float] = set()
    for rows in stream:
        found.update(np.unique(rows.y[np.isfinite(rows.y)]).tolist())
        if len(found) > MOST_CLASSES:
            raise ValueError(
                f"{stream.names[0]}: found more than {MOST_CLASSES} labels; use --classes, or another loss"
            )
    return tuple(sorted(found))


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:5]) + (", ..." if len(texts) > 5 else "")
