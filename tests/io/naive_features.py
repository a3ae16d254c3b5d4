"""What a table means as features, the obvious way: dictionaries, loops, one row at a time."""

from __future__ import annotations

import itertools
import math
from typing import Any

from proxstream.io.features.spec import FeatureSpec


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86 32, from its description: blocks of four bytes, a tail, an avalanche at the end."""

    def rotate(x: int, r: int) -> int:
        return (x << r | x >> (32 - r)) % 2**32

    def scrambled(k: int) -> int:
        return rotate(k * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32

    h = seed
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        h = rotate(h ^ scrambled(int.from_bytes(data[start : start + 4], "little")), 13)
        h = (h * 5 + 0xE6546B64) % 2**32
    h ^= scrambled(int.from_bytes(data[whole:], "little"))
    h ^= len(data) % 2**32
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> shift) * factor % 2**32
    return h


def grams(text: str, kind: str) -> list[str]:
    """All n-grams of a text: of words, or of characters with white space made single."""
    unit, _, span = kind.partition(":")
    low, high = int(span.split("-")[0]), int(span.split("-")[-1])
    small = "".join(c.lower() if c.isascii() else c for c in text)
    if unit == "words":
        parts = "".join(c if not c.isascii() or c.isalnum() or c == "_" else " " for c in small).split(" ")
        parts, glue = [part for part in parts if part], " "
    else:
        spaced = "".join(" " if c in "\t\n\v\f\r" else c for c in small)
        parts, glue = list(" ".join(word for word in spaced.split(" ") if word)), ""
    return [glue.join(parts[i : i + n]) for n in range(low, high + 1) for i in range(len(parts) - n + 1)]


def features(row: dict[str, Any], spec: FeatureSpec) -> list[tuple[str, int, float]]:
    """Name, hash and value of each feature of a row, in order, with the columns and kinds of the specification."""
    bags: dict[str, list[tuple[str, int, float]]] = {}
    for column, kind in sorted(spec.columns or (), key=lambda pair: pair[1] == "text"):
        seed, value = murmur3(column.encode()), row[column]
        if kind == "text":
            words = grams(value or "", dict(spec.text)[column])
            bags[column] = [(f"{column}={word}", murmur3(word.encode(), seed), 1.0) for word in words]
        elif value is None or value == "" or value in spec.nulls:
            bags[column] = [(f"{column}=", murmur3(b"", seed), 1.0)] if spec.missing == "value" else []
        elif kind == "numeric":
            bags[column] = [(column, seed, float(value))] if float(value) != 0.0 else []
        else:
            word = str(value).lower() if isinstance(value, bool) else str(value)
            bags[column] = [(f"{column}={word}", murmur3(word.encode(), seed), 1.0)]
    found = [feature for bag in bags.values() for feature in bag]
    for cross in spec.crosses:
        names = sorted(cross.split("*"), key=cross.split("*").index)
        places = [range(len(bags[name])) for name in names]
        for at in itertools.product(*places):
            # Of a column that is crossed with itself, each combination counts once.
            if any(a == b and i > j for a, b, i, j in zip(names, names[1:], at, at[1:], strict=False)):
                continue
            parts = [bags[name][i] for name, i in zip(names, at, strict=True)]
            tail = b"".join(h.to_bytes(4, "little") for _, h, _ in parts[1:])
            value = math.prod(value for _, _, value in parts)
            found.append(("*".join(name for name, _, _ in parts), murmur3(tail, parts[0][1]), value))
    return [feature for feature in found if feature[2] != 0.0]


class Numbers:
    """Features to numbers: buckets with signs, or the next number for each new name."""

    def __init__(self, spec: FeatureSpec) -> None:
        self.spec = spec
        numeric = [column for column, kind in spec.columns or () if kind == "numeric"]
        self.known: dict[str, int] = {} if spec.bits is not None else {name: i for i, name in enumerate(numeric)}
        self.buckets: dict[int, list[str]] = {}

    def row(self, row: dict[str, Any]) -> dict[int, float]:
        """Sum up a row's features by number, zeros left out."""
        sums: dict[int, float] = {}
        for name, h, value in features(row, self.spec):
            if self.spec.bits is None:
                number = self.known.setdefault(name, len(self.known))
            else:
                number = h % 2**self.spec.bits
                value = -value if self.spec.signed and h >= 2**31 else value
                if name not in self.buckets.setdefault(number, []):
                    self.buckets[number].append(name)
            sums[number] = sums.get(number, 0.0) + value
        return {number: value for number, value in sums.items() if value != 0.0}
