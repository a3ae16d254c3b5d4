"""svmlight and Vowpal Wabbit's text read the obvious way: split, match, float()."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from .naive_features import murmur3

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
BLANKS = b" \t\r"


class BadLineError(Exception):
    """A line that is no row."""


class Row(NamedTuple):
    y: float
    c: float
    qid: int | None
    features: dict[int, float]  # in the order of the first occurrence


def number(token: bytes, dtype: Any = np.float64) -> float:
    if not NUMBER.fullmatch(token):
        raise BadLineError
    with np.errstate(over="ignore"):
        value = float(dtype(float(token)))
    if not np.isfinite(value):
        raise BadLineError
    return value


def added(pairs: list[tuple[int, float]], dtype: Any) -> dict[int, float]:
    """Add up what shares an index."""
    sums: dict[int, Any] = {}
    for j, x in pairs:
        if x != 0.0:
            sums[j] = dtype(sums[j] + dtype(x)) if j in sums else dtype(x)
    return {j: float(x) for j, x in sums.items() if x != 0.0}


def svmlight(line: bytes, dtype: Any = np.float32) -> Row | None:
    """Return the row of a line, None if it has none."""
    content, _, comment = line.partition(b"#")
    tokens = [token for token in re.split(rb"[ \t\r]+", content) if token]
    if not tokens:
        check_utf8(comment)
        return None
    y = number(tokens[0])
    qid = None
    rest = tokens[1:]
    if rest and rest[0].startswith(b"qid:"):
        if not re.fullmatch(rb"qid:-?\d{1,18}", rest[0]):
            raise BadLineError
        qid = int(rest[0][4:])
        rest = rest[1:]
    pairs = []
    for token in rest:
        index, _, value = token.partition(b":")
        if not re.fullmatch(rb"\d{1,18}", index) or int(index) > 2**31 - 1:
            raise BadLineError
        pairs.append((int(index), number(value, dtype)))
    check_utf8(comment)
    return Row(y, 1.0, qid, dict(sorted(added(pairs, dtype).items())))


def check_utf8(text: bytes) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise BadLineError from None


def vw(line: bytes, bits: int, digits: bool = False, dtype: Any = np.float32) -> Row | None:
    """Return the row of a line, None if it has none."""
    if not line.strip(BLANKS):
        return None
    before, bar, after = line.partition(b"|")
    if not bar:
        raise BadLineError
    tokens = [token for token in re.split(rb"[ \t\r]+", before) if token]
    glued = bool(before) and before[-1:] not in (b" ", b"\t", b"\r")
    if tokens and (tokens[-1].startswith(b"'") or glued):
        if NUMBER.fullmatch(tokens[-1]):
            raise BadLineError
        tokens.pop()
    if len(tokens) > 3:
        raise BadLineError
    label, weight, base = [number(token) for token in tokens] + [np.nan, 1.0, 0.0][len(tokens) :]
    if weight < 0.0 or base != 0.0:
        raise BadLineError
    pairs = []
    for part in after.split(b"|"):
        space, *features = re.split(rb"[ \t\r]+", part)
        name, scale = named(space)
        seed = murmur3(name, 0)
        for feature in features:
            if feature:
                name, value = named(feature)
                if not name:
                    raise BadLineError
                h = murmur3(name, seed)
                if digits and re.fullmatch(rb"\d+", name):
                    h = (int(name) + seed) % 2**32
                with np.errstate(over="ignore"):
                    x = float(dtype(scale * value))
                if not np.isfinite(x):
                    raise BadLineError
                pairs.append((h % 2**bits, x))
    check_utf8(line)
    return Row(label, weight, None, added(pairs, dtype))


def named(token: bytes) -> tuple[bytes, float]:
    name, colon, value = token.partition(b":")
    if any(byte < 32 for byte in name):
        raise BadLineError
    return name, number(value) if colon else 1.0


def rows(text: bytes, parse: Any, **settings: Any) -> tuple[list[Row], int]:
    """Return the rows of a text and the number of bad lines."""
    good: list[Row] = []
    bad = 0
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            row = parse(line, **settings)
        except BadLineError:
            bad += 1
            continue
        if row is not None:
            good.append(row)
    return good, bad
