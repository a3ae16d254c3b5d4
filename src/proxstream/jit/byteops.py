"""Bytes eight and sixty-four at a time: arrays as bare pointers, words, digits in a word, where bytes occur.

Passing an array from function to function counts references at each call, and an index into it may be negative; both
cost more than reading a byte. A pointer has neither, and no bounds: the caller keeps the array alive and every index
inside it. With NUMBA_DISABLE_JIT=1 a pointer is the array itself and leaving it is an IndexError, which the tests
look for. A word is read in one load, so that `PAD` bytes have to follow the last one that matters.
"""

from __future__ import annotations

import numpy as np

from .compile import compiled_inline, intrinsic

PAD = 8
U8, U16, U24, U32, U40, U48, U56 = (np.uint64(8 * k) for k in range(1, 8))
TENS = 10 ** np.arange(9)
ZEROS, SIXES, HIGH = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x76, 0x80))
PAIRS, QUADS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
BY_TEN, BY_HUNDRED, BY_MYRIAD = np.uint64(1 + (10 << 8)), np.uint64(1 + (100 << 16)), np.uint64(1 + (10000 << 32))
WIDTH = 64
AT_ONCE = 8
U1 = np.uint64(1)


@intrinsic
def pointer(array):
    """Return the address of an array's first element, to be indexed as the flat array is: in Python a flat view."""
    return array.reshape(-1)


@intrinsic
def trailing_zeros(x):
    """Return the number of zero bits below the lowest one; 64 if there is none."""
    return (int(x) & -int(x)).bit_length() - 1 if x else 64


@intrinsic
def leading_zeros(x):
    """Return the number of zero bits above the highest one; 64 if there is none."""
    return 64 - int(x).bit_length()


@intrinsic
def occurrences(buf, at, a, b):
    """Return a word whose bit i is set if buf[at + i] is a or b; buf is a pointer to bytes."""
    return np.uint64(sum(1 << i for i in range(WIDTH) if buf[at + i] in (a, b)))


@intrinsic
def below(buf, at, limit):
    """Return a word whose bit i is set if buf[at + i] is below a limit; buf is a pointer to bytes."""
    return np.uint64(sum(1 << i for i in range(WIDTH) if buf[at + i] < limit))


@intrinsic
def ones(word):
    """Return how many bits of a word are set."""
    return int(word).bit_count()


@compiled_inline
def word(buf, i):
    """Return the 8 bytes at i as a number, lowest first."""
    low = np.uint64(buf[i]) | np.uint64(buf[i + 1]) << U8 | np.uint64(buf[i + 2]) << U16 | np.uint64(buf[i + 3]) << U24
    high = np.uint64(buf[i + 4]) << U32 | np.uint64(buf[i + 5]) << U40
    return low | high | np.uint64(buf[i + 6]) << U48 | np.uint64(buf[i + 7]) << U56


@compiled_inline
def not_digits(w):
    """Return a word with the highest bit set of each byte that is not a digit; valid up to the first such byte."""
    return ((w + SIXES) | w) & HIGH


@compiled_inline
def joined(w):
    """Return the number whose digits are a word's bytes, the first the lowest: pairs, fours, one number."""
    w = (w * BY_TEN) >> U8 & PAIRS
    w = (w * BY_HUNDRED) >> U16 & QUADS
    return (w * BY_MYRIAD) >> U32


@compiled_inline
def digits(buf, at, m):
    """Append the decimal digits at `at` to m; return m and where they end. Beyond 18 digits m is arbitrary.

    The digits among eight bytes, up to the first other byte, are moved to the word's end and joined.
    """
    while True:
        w = word(buf, at) ^ ZEROS
        n = trailing_zeros(not_digits(w)) >> 3
        w = w << np.uint64(56 - 8 * n) << U8 if n < 8 else w
        m = m * TENS[n] + np.int64(joined(w))
        at += n
        if n < 8:
            return m, at


@compiled_inline
def write_places(found, at, places, k):
    """Write the places of a word's bits, counted from `at`, from places[k] on; return the k after them.

    AT_ONCE are written at a time even if there are fewer; the excess is overwritten later.
    """
    stop = k + ones(found)
    while k < stop:
        for i in range(AT_ONCE):
            places[k + i] = at + trailing_zeros(found)
            found &= found - U1
        k += AT_ONCE
    return stop


SQUARE = 8


@intrinsic
def gather_square(state, places, q, column, lines, start, across):
    """Copy the SQUARE columns from `column` on of SQUARE cells to as many lines; all arrays are pointers.

    The cells are at places[q], places[q + 1], ...; the lines at start, start + across, ...
    """
    for a in range(SQUARE):
        for b in range(SQUARE):
            lines[start + b * across + a] = state[places[q + a] + column + b]


@intrinsic
def scatter_square(lines, start, across, state, places, q, column):
    """Copy SQUARE lines back to SQUARE columns of SQUARE cells: see `gather_square`."""
    for a in range(SQUARE):
        for b in range(SQUARE):
            state[places[q + a] + column + b] = lines[start + b * across + a]


@intrinsic
def every_nth(lines, k, n):
    """Return lines k, k + n, k + 2 n, ... of a matrix as columns; the result is not counted as a reference to it."""
    return lines[k::n].T


@intrinsic
def dot_in_strands(w, v, n):
    """Return the sum of w[q] v[q] over q < n in SQUARE strands of 64 bits, added in order at the end.

    w and v are pointers, whose precision the products have. Whole strands are read: v is 0 from n to their end.
    """
    strands = np.zeros(SQUARE)
    for q in range(0, n, SQUARE):
        for a in range(SQUARE):
            strands[a] += w[q + a] * v[q + a]
    return sum(strands.tolist()[1:], float(strands[0]))
