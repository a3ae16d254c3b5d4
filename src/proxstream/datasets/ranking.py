"""Rows that compete within queries: svmlight text with query ids, or with the queries' sizes in a file beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .._checks import Array
from .files import find
from .records import Ranked, Split
from .text import load_text

SOURCE = "microsoft/LightGBM, examples/lambdarank, or (train.txt, test.txt) from Microsoft's LETOR collections"
FILES = {"train": ["rank.train", "train.txt"], "test": ["rank.test", "test.txt"]}


def load_ranking(folder: str | Path) -> Split[Ranked]:
    """Load rows in queries.

    Parameters
    ----------
    folder
        Holds rank.train and rank.test (or train.txt and test.txt): svmlight text with `qid:` in every row, or without
        and a file of the same name and `.query` beside it, which has the number of rows of each query in turn.

    Returns
    -------
    Two parts, of the same width.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from proxstream.datasets import load_ranking
    >>> folder = Path(mkdtemp())
    >>> for part in ("train", "test"):
    ...     _ = (folder / f"rank.{part}").write_text("2 1:0.5\\n0 1:0.1\\n1 2:1\\n")
    ...     _ = (folder / f"rank.{part}.query").write_text("2\\n1\\n")
    >>> load_ranking(folder).train.query
    array([0, 0, 1])
    """
    parts = [_part(folder, part) for part in FILES]
    width = max(part.X.shape[1] for part in parts)
    for part in parts:
        part.X.resize(part.X.shape[0], width)
    return Split(*parts)


def _part(folder: str | Path, name: str) -> Ranked:
    file = find(folder, FILES[name], SOURCE)
    sizes = file.with_name(file.name.removesuffix(".gz") + ".query")
    rows = load_text(file)
    query = _of_sizes(sizes, file, len(rows)) if sizes.exists() else _of_rows(file)
    return Ranked(rows.X, rows.y, query)


def _of_sizes(sizes: Path, file: Path, n_rows: int) -> Array:
    try:
        counts = np.array(sizes.read_text().split(), dtype=np.int64)
    except ValueError as error:
        raise ValueError(f"{sizes}: it must hold the number of rows of each query: {error}") from None
    if counts.sum() != n_rows or (counts < 0).any():
        raise ValueError(f"{sizes}: the queries' sizes must add up to the {n_rows} rows of {file.name}")
    return np.repeat(np.arange(len(counts)), counts)


def _of_rows(file: Path) -> Array:
    from ..streams import open_stream

    with open_stream(file, "svmlight") as stream:
        found = [chunk.qid for chunk in stream.chunks()]
    if any(qid is None for qid in found):
        beside = file.name.removesuffix(".gz") + ".query"
        raise ValueError(f"{file}: its rows tell no qid, and there is no file {beside} beside it")
    return np.concatenate([qid for qid in found if qid is not None])
