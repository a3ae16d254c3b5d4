"""The classes of a training run: found in the data where the options do not name them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import losses
from ..io import find_label_texts, open_stream
from .config import ConfigError, TrainConfig

FIRST_ROWS = 1000  # in which two classes are looked for
MOST_CLASSES = 10_000
TABLES = {"csv", "tsv", "jsonl", "parquet", "arrow"}


def find_classes(config: TrainConfig, announce: Callable[[str], None]) -> TrainConfig:
    """Return the configuration with the classes that the data have.

    Text labels of two classes are looked for in the first rows. The classes of a multiclass loss need a pass over the
    data, which is announced, unless `--classes` names them. Labels of two classes that are numbers need nothing.
    """
    kind = losses.get(config.loss).kind
    if config.classes or kind not in ("binary", "multiclass"):
        return config
    if not all(map(_is_rereadable, config.data)):  # a pipe is not opened before it is read
        if kind == "multiclass" or config.positive is not None:
            option = "--positive" if kind == "binary" else f"--loss {config.loss}"
            raise ConfigError(f"{option} needs --classes if the data can be read only once")
        return config
    with open_stream(
        list(config.data), config.format, features=config.features, zero_based=config.zero_based
    ) as stream:
        if kind == "binary":
            classes = _two_classes(config, stream, announce)
        else:
            announce(f"--loss {config.loss} without --classes: reading the data once to find the classes")
            classes = _all_classes(stream)
    if config.positive is not None and not classes:
        raise ConfigError("--positive applies to text labels; for numbers use --classes NEGATIVE,POSITIVE")
    try:
        config = replace(config, classes=classes)
        config.labels()
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return config


def _is_rereadable(word: str) -> bool:
    return word != "-" and (os.path.isfile(word) or not os.path.exists(word))


def _two_classes(config: TrainConfig, stream: Any, announce: Callable[[str], None]) -> tuple[Any, ...]:
    """Return the two label texts, the negative class first; none if labels are numbers."""
    if not set(stream.formats) & TABLES:
        return ()
    texts = find_label_texts(stream, rows=FIRST_ROWS)
    if texts is not None and len(texts) == 1:
        announce(f"the first rows have the label {texts[0]!r} only: reading the data once to find the classes")
        texts = find_label_texts(stream)
    if texts is None:
        return ()
    if len(texts) != 2:
        listed = ", ".join(texts[:5]) + (", ..." if len(texts) > 5 else "")
        raise ValueError(
            f"{stream.names[0]}: found {len(texts)} label texts ({listed}), but loss {config.loss} has two classes; "
            "use --loss softmax for several classes, or --label COLUMN for another label"
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
