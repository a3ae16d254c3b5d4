"""MurmurHash3 (x86, 32 bits) of bytes in place: how names become feature numbers.

The hash of a string takes it in words of 4 bytes, lowest byte first,

    h <- mix(h, word),      then, with the 0 to 3 bytes that are left,    finish(h xor scramble(rest), length)

beginning with h = seed. Of two names the second is hashed with the hash of the first as its seed (namespace, then
feature; column, then value), and features that are crossed are hashed as the words h_2, h_3, ... with the seed h_1:
see `crossed`. A bucket is the hash's lowest bits, its sign the highest bit: see `proxstream.io.features.spec`.

Arithmetic is in 64 bits with the upper half cleared, which the compiler takes back to 32.

N-grams of texts are hashed in place as well. A text is first normalized: ASCII letters become lower case, and

- words are the longest runs of letters, digits, underscores and characters beyond ASCII; all else separates them. A
  gram of n words is n adjacent words joined by single spaces.
- chars are the text with runs of white space made one space, none at its ends. A gram of n is n adjacent characters
  (Unicode code points, whatever their bytes).

Normalized text is laid out so that each gram is a run of bytes, which is hashed with the column's seed.
"""

from __future__ import annotations

import numpy as np

from ...jit.byteops import U8, U32, word
from ...jit.compile import compiled, compiled_inline

LOW = np.uint64(0xFFFFFFFF)
C1, C2 = np.uint64(0xCC9E2D51), np.uint64(0x1B873593)
FIVE, ADDED = np.uint64(5), np.uint64(0xE6546B64)
F1, F2 = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
ZERO, ONE, TWO, THREE, FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
R8, R13, R15, R16, R17, R19, R24 = (np.uint64(r) for r in (8, 13, 15, 16, 17, 19, 24))

WORDS, CHARS = 0, 1
SPACE = np.uint8(32)


@compiled_inline
def scramble(word):
    """Return a word as it enters a hash."""
    k = (np.uint64(word) * C1) & LOW
    k = ((k << R15) & LOW) | (k >> R17)
    return (k * C2) & LOW


@compiled_inline
def mix(h, word):
    """Return the hash h after one more word."""
    h = np.uint64(h) ^ scramble(word)
    h = ((h << R13) & LOW) | (h >> R19)
    return (h * FIVE + ADDED) & LOW


@compiled_inline
def finish(h, length):
    """Return the hash of so many bytes in all."""
    h = np.uint64(h) ^ (np.uint64(length) & LOW)
    h = ((h ^ (h >> R16)) * F1) & LOW
    h = ((h ^ (h >> R13)) * F2) & LOW
    return np.uint32(h ^ (h >> R16))


@compiled
def word_at(buf, i):
    """Return the 4 bytes at i, lowest first."""
    low = np.uint64(buf[i]) | (np.uint64(buf[i + ONE]) << R8)
    return low | (np.uint64(buf[i + TWO]) << R16) | (np.uint64(buf[i + THREE]) << R24)


@compiled
def murmur3_32(buf, start, stop, seed):
    """Return the hash of buf[start:stop]."""
    h, i, end = np.uint64(seed), np.uint64(start), np.uint64(stop)
    length = end - i
    while i + FOUR <= end:
        h = mix(h, word_at(buf, i))
        i += FOUR
    # A loop instead of ifs: with a last use of buf on each branch, every call would count references.
    rest, shift = ZERO, ZERO
    while i < end:
        rest |= np.uint64(buf[i]) << shift
        shift += R8
        i += ONE
    return finish(h ^ scramble(rest), length)


@compiled_inline
def hashed(buf, at, stop, seed):
    """Return the hash of buf[at:stop], eight bytes at a time; eight more must be readable after it."""
    h, length = np.uint64(seed), stop - at
    while at + 8 <= stop:
        w = word(buf, at)
        h = mix(mix(h, w & LOW), w >> U32)
        at += 8
    w = word(buf, at) & ((ONE << (U8 * np.uint64(stop - at))) - ONE)
    # One more word of 4 bytes or none cannot be predicted, so both are computed and a mask selects one.
    more = ZERO - np.uint64(stop - at >= 4)
    h ^= (h ^ mix(h, w & LOW)) & more
    return finish(h ^ scramble(w >> (U32 & more)), length)


@compiled
def crossed(h, g):
    """Return the hash of two crossed features: of the 4 bytes of g, with the seed h."""
    return finish(mix(h, g), FOUR)


@compiled
def hash_strings(buf, offsets, seed):
    """Return the hash of each string buf[offsets[i]:offsets[i+1]] of an Arrow array."""
    hashes = np.empty(len(offsets) - 1, np.uint32)
    for i in range(len(hashes)):
        hashes[i] = murmur3_32(buf, offsets[i], offsets[i + 1], seed)
    return hashes


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


def hash_name(name: str | bytes, seed: int = 0) -> int:
    """Return the hash of a name as an int: the seed of what belongs to it.

    >>> hash_name("hello")
    613153351
    """
    data = np.frombuffer(name.encode() if isinstance(name, str) else name, np.uint8)
    return int(murmur3_32(data, 0, len(data), np.uint32(seed)))
