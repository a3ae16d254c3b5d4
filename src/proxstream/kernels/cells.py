"""From Arrow's column buffers to cells: a hash and a value for each row and column, where 0 is no feature.

Nothing of a column is copied but these cells. A row is null where its bit in `valid` is 0; an empty `valid` says that
none is. `absent` is what a missing value becomes: a hash and a value, which is 0 unless missing values count.
"""

from __future__ import annotations

import numpy as np

from .hashing import murmur3_32
from .jit import compiled


@compiled
def _is_null(valid, i):
    return len(valid) > 0 and not (valid[i >> 3] >> (i & 7)) & 1


@compiled
def put_numbers(numbers, valid, shift, own, absent, hashes, values):
    """Put a column of numbers with the hash `own`; return the first row that is not finite, or -1."""
    absent_hash, absent_value = absent
    for i in range(len(numbers)):
        if _is_null(valid, i + shift):
            hashes[i], values[i] = absent_hash, absent_value
        else:
            hashes[i], values[i] = own, numbers[i]
            if not np.isfinite(values[i]):
                return i
    return -1


@compiled
def put_strings(buf, offsets, valid, shift, seed, nulls, absent, hashes, values):
    """Put a column of strings; a string whose hash is one of `nulls`, and an empty one, are missing."""
    absent_hash, absent_value = absent
    for i in range(len(offsets) - 1):
        hashes[i], values[i] = absent_hash, absent_value
        if offsets[i] < offsets[i + 1] and not _is_null(valid, i + shift):
            h = murmur3_32(buf, offsets[i], offsets[i + 1], seed)
            missing = False
            for null in nulls:
                missing = missing or h == null
            if not missing:
                hashes[i], values[i] = h, 1.0


@compiled
def put_codes(codes, valid, shift, entry_hashes, entry_values, absent, hashes, values):
    """Put a column of codes of dictionary entries that are hashed already; return the first bad code's row, or -1."""
    absent_hash, absent_value = absent
    for i in range(len(codes)):
        if _is_null(valid, i + shift):
            hashes[i], values[i] = absent_hash, absent_value
        elif 0 <= codes[i] < len(entry_hashes):
            hashes[i], values[i] = entry_hashes[codes[i]], entry_values[codes[i]]
        else:
            return i
    return -1
