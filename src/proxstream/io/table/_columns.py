"""From Arrow's column buffers to cells: a hash and a value for each row and column, where 0 is no feature.

Columns are not copied. A row is null where its bit in `valid` is 0; an empty `valid` means that none is. `absent` is
what a missing value becomes: a hash and a value, which is 0 unless missing values count. Missing values cannot be
predicted, so they are selected without a branch.
"""

from __future__ import annotations

import numpy as np

from ...jit.byteops import PAD, pointer
from ...jit.compile import compiled, compiled_inline
from ..features._hash import hashed, murmur3_32


@compiled_inline
def _is_null(valid, i):
    return len(valid) > 0 and not (valid[i >> 3] >> (i & 7)) & 1


@compiled
def put_numbers(numbers, valid, shift, own, absent, hashes, values):
    """Put a column of numbers with the hash `own`; return the first row that is not finite, or -1."""
    absent_hash, absent_value = absent
    unfit = 0
    for i in range(len(numbers)):
        null = _is_null(valid, i + shift)
        hashes[i] = absent_hash if null else own
        values[i] = absent_value if null else numbers[i]
        unfit += not np.isfinite(values[i])
    if unfit:
        for i in range(len(numbers)):
            if not np.isfinite(values[i]):
                return i
    return -1


@compiled_inline
def string_cell(data, start, stop, end, seed, nulls, n_nulls, absent):
    """Return the cell of the string data[start:stop] of `end` bytes; an empty one and those in `nulls` are missing."""
    h = hashed(data, start, stop, seed) if stop + PAD <= end else murmur3_32(data, start, stop, seed)
    present = start < stop
    for k in range(n_nulls):
        present &= h != nulls[k]
    return (h, 1.0) if present else absent


@compiled
def put_strings(buf, offsets, valid, shift, seed, nulls, absent, hashes, values):
    """Put a column of strings; return the first row whose string is outside of the buffer, or -1."""
    data, end = pointer(buf), len(buf)
    for i in range(len(offsets) - 1):
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        hashes[i], values[i] = absent
        if not _is_null(valid, i + shift):
            if not 0 <= start <= stop <= end:
                return i
            hashes[i], values[i] = string_cell(data, start, stop, end, seed, pointer(nulls), len(nulls), absent)
    return -1


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
