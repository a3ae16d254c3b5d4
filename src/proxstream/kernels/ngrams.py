"""N-grams of texts, hashed where they stand.

A text is first made plain: ASCII letters become small, and

- words are the longest runs of letters, digits, underscores and characters beyond ASCII; all else separates them. A
  gram of n words is n neighbours with one space between each two.
- chars are the text with runs of white space made one space, none at its ends. A gram of n is n neighbouring characters
  (Unicode code points, whatever their bytes).

Plain text is laid out so that each gram is a run of bytes, which is hashed with the column's seed.
"""

from __future__ import annotations

import numpy as np

from .hashing import murmur3_32
from .jit import compiled

WORDS, CHARS = 0, 1
SPACE = np.uint8(32)


@compiled
def _small(byte):
    return byte + SPACE if 65 <= byte <= 90 else byte


@compiled
def _plain_words(buf, start, stop, plain, begins, ends):
    """Write the words of a text and where each begins and ends; return how many."""
    out, n = 0, 0
    inside = False
    for i in range(start, stop):
        byte = _small(buf[i])
        if byte >= 128 or byte == 95 or 48 <= byte <= 57 or 97 <= byte <= 122:
            if not inside:
                if n > 0:
                    plain[out] = SPACE
                    out += 1
                begins[n] = out
                n += 1
                inside = True
            plain[out] = byte
            out += 1
            ends[n - 1] = out
        else:
            inside = False
    return n


@compiled
def _plain_chars(buf, start, stop, plain, begins, ends):
    """Write the characters of a text and where each begins and ends; return how many."""
    out, n = 0, 0
    waiting = False
    for i in range(start, stop):
        byte = _small(buf[i])
        if byte == 32 or 9 <= byte <= 13:
            waiting = n > 0
            continue
        if waiting:
            plain[out] = SPACE
            begins[n] = out
            out += 1
            ends[n] = out
            n += 1
            waiting = False
        if not 128 <= byte < 192:  # the first byte of a character
            begins[n] = out
            n += 1
        plain[out] = byte
        out += 1
        ends[max(n - 1, 0)] = out
    return n


@compiled
def grams(buf, starts, stops, unit, low, high, seed):
    """Return the hashed n-grams of each text buf[starts[i]:stops[i]], as (indptr, hashes)."""
    n_rows = len(starts)
    longest = 1
    for i in range(n_rows):
        longest = max(longest, stops[i] - starts[i])
    plain = np.empty(longest, np.uint8)
    begins, ends = np.empty(longest, np.int64), np.empty(longest, np.int64)
    indptr = np.zeros(n_rows + 1, np.int64)
    hashes = np.empty(0, np.uint32)
    for writing in (False, True):
        out = 0
        for i in range(n_rows):
            if unit == WORDS:
                n = _plain_words(buf, starts[i], stops[i], plain, begins, ends)
            else:
                n = _plain_chars(buf, starts[i], stops[i], plain, begins, ends)
            for size in range(low, high + 1):
                if writing:
                    for k in range(n - size + 1):
                        hashes[out + k] = murmur3_32(plain, begins[k], ends[k + size - 1], seed)
                out += max(n - size + 1, 0)
            indptr[i + 1] = out
        if not writing:
            hashes = np.empty(out, np.uint32)
    return indptr, hashes
