"""Names of features: a table that only grows, from the key of a name to its number and to the name itself.

Without hashing it is what numbers features; with hashing it tells what fell into a bucket. A key is the name's hash:
32 bits where a bucket is told by it anyway, 64 where a number is, so that two of n names share a number with a
probability below n^2 / 2^65. Because the table only grows, its state at an earlier row is a prefix of it: a reader may
be ahead of the learner, and a checkpoint keeps as many names as its rows had brought.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._checks import Array

MOST = 1 << 20  # names kept beside a hashed model
ALL = (1 << 31) - 1  # numbers of features are 32-bit integers
FIRST = 1 << 10


class Names:
    """Keys and names in the order in which they first occurred, at most `most` of them.

    >>> names = Names()
    >>> names.add(np.array([7, 9, 7], np.uint64), np.ones(3), lambda at: f"feature at {at}")
    array([0, 1, 0], dtype=int32)
    >>> names.names
    ['feature at 0', 'feature at 1']
    """

    def __init__(self, most: int = ALL) -> None:
        self.most = most
        self.names: list[str] = []
        self._keys = np.empty(FIRST, np.uint64)
        self._table: tuple[Array, Array] = (np.empty(0, np.uint64), np.empty(0, np.int32))
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def keys(self) -> Array:
        """The key of each name."""
        return self._keys[: len(self.names)]

    def add(self, keys: Array, values: Array, name: Callable[[int], str]) -> Array:
        """Return the number of each key, -1 of an absent feature and of a new one when the table is full.

        `name(at)` tells the name of the key at this place; it is asked once for every new key.
        """
        from ..kernels.features import numbered

        self._reserve(min(self.most, len(self) + len(keys)))
        numbers = np.empty(len(keys), np.int32)
        fresh = np.empty(len(keys), np.int64)
        n = numbered(keys, values, self._table, len(self), self.most, numbers, fresh)
        new = fresh[: n - len(self)]
        told = [name(int(at)) for at in new]
        with self._lock:
            self._keys[len(self) : n] = keys[new]
            self.names += told
        return numbers

    def find(self, keys: Array, values: Array) -> Array:
        """Return the number of each key that is known, and -1 of all others."""
        from ..kernels.features import numbered

        self._reserve(0)
        numbers = np.empty(len(keys), np.int32)
        numbered(keys, values, self._table, len(self), len(self), numbers, np.empty(0, np.int64))
        return numbers

    def _reserve(self, n: int) -> None:
        """Make the table large enough for n keys."""
        size = max(len(self._table[0]), FIRST)
        while size < 2 * n + 2:
            size *= 2
        if size > len(self._table[0]):
            from ..kernels.features import numbered

            self._table = np.empty(size, np.uint64), np.full(size, np.int32(-1))
            known = self.keys
            places = np.empty(len(known), np.int64)
            numbered(known, np.ones(len(known)), self._table, 0, len(known), places.astype(np.int32), places)
        if n > len(self._keys):
            self._keys = np.resize(self._keys, max(n, 2 * len(self._keys)))

    def arrays(self, n: int | None = None) -> dict[str, Array]:
        """Return the first n names (all) as arrays: keys, the bytes of the names, and where each ends."""
        with self._lock:
            names, keys = self.names[:n], self.keys[:n].copy()
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        return {"keys": keys, "names": np.frombuffer(b"".join(encoded), np.uint8), "ends": ends}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Go on from what `arrays` returned; arrays that do not fit together are refused."""
        keys, ends = np.asarray(arrays["keys"], np.uint64), np.asarray(arrays["ends"], np.int64)
        data = np.asarray(arrays["names"], np.uint8).tobytes()
        starts = np.concatenate((np.zeros(min(len(ends), 1), np.int64), ends[:-1]))
        whole = len(ends) == 0 or int(ends[-1]) == len(data)
        if keys.shape != ends.shape or len(np.unique(keys)) < len(keys) or not whole or (starts > ends).any():
            raise ValueError(f"{len(keys)} keys and {len(ends)} names of {len(data)} bytes do not fit together")
        names = [data[start:end].decode("utf-8", "surrogateescape") for start, end in zip(starts, ends, strict=True)]
        self._keys, self.names = keys.copy(), names
        self._table = (np.empty(0, np.uint64), np.empty(0, np.int32))
