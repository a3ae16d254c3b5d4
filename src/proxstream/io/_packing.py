"""Numbers below 2^24 in three bytes each, a width that NumPy does not have."""

from __future__ import annotations

import numpy as np

from ..jit.byteops import pointer
from ..jit.compile import compiled


@compiled
def pack24(numbers, packed):
    """Write each number's three lower bytes, lowest first."""
    out = pointer(packed)
    for i in range(len(numbers)):
        x = np.uint32(numbers[i])
        out[3 * i], out[3 * i + 1], out[3 * i + 2] = x & 0xFF, (x >> 8) & 0xFF, (x >> 16) & 0xFF


@compiled
def unpack24(packed, numbers):
    """Read what `pack24` wrote."""
    data, out = pointer(packed), pointer(numbers)
    for i in range(len(numbers)):
        out[i] = np.uint32(data[3 * i]) | np.uint32(data[3 * i + 1]) << 8 | np.uint32(data[3 * i + 2]) << 16
