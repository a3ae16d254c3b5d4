"""Decimal numbers in bytes to the nearest double, inside the loop that parses them.

A token is [sign] digits [. digits] [e [sign] digits]: its value is m * 10^e with an integer m. There are three ways to
the nearest double (ties to even), the first taken nearly always:

1. m <= 2^53 and |e| <= 22: both are doubles, and one operation rounds once (Clinger 1990).
2. m of up to 19 digits, any e: the product of m and 5^e, the latter kept to 128 bits, rounded down. The true product is
   less than two units of the second word above the computed one, so unless a tie between two doubles is that near,
   the rounding is known (Lemire 2021). Further digits are cut off, and the result holds if m and m + 1 agree on it.
3. The rare rest, ties, subnormal numbers and such: Python's own `float`.

These functions rely on a byte after the token that is not part of a number (a newline), and on `PAD` bytes after that.
"""

from __future__ import annotations

import numpy as np

from ...jit.byteops import digits, leading_zeros
from ...jit.compile import compiled, compiled_inline, intrinsic

GOOD, BAD, UNSURE = 0, 1, 2
SIGNED_DIGITS, MOST_DIGITS = 18, 19  # of m that fit 63 bits and 64 bits
LOWEST, HIGHEST = -360, 310  # of e: beyond, m of 19 digits is 0 or too large
EXACT = 10.0 ** np.arange(23)


def _powers_of_five():
    """Return 5^e for each e as two words: its 128 leading bits, rounded down."""
    table = np.empty((HIGHEST - LOWEST + 1, 2), np.uint64)
    for e in range(LOWEST, HIGHEST + 1):
        power = 5 ** abs(e)
        if e < 0:
            power = (1 << (power.bit_length() + 127)) // power
        shift = power.bit_length() - 128
        leading = power >> shift if shift >= 0 else power << -shift
        table[e - LOWEST] = leading >> 64, leading & (2**64 - 1)
    return table


FIVES = _powers_of_five()
LOW32, U0, U1, U2, U10, U32, U63 = (np.uint64(x) for x in (2**32 - 1, 0, 1, 2, 10, 32, 63))


@intrinsic
def python_float(token):
    """Return the number in an array of bytes that ends in 0, as Python's `float` does."""
    return float(token[:-1].tobytes())


@compiled_inline
def number(buf, at):
    """Read the number at `at`; return its value, where it stops, and GOOD, or BAD if no number is there."""
    c = np.int64(buf[at])
    if 48 <= c <= 57 and buf[at + 1] < 46:  # a single digit, by far the most frequent token
        return np.float64(c - 48), at + 1, GOOD
    negative = c == 45
    if negative or c == 43:
        at += 1
        c = np.int64(buf[at])
    start, m, e = at, 0, 0
    while 48 <= c <= 57:  # rarely many: a loop is faster than `digits`
        m = m * 10 + (c - 48)
        at += 1
        c = np.int64(buf[at])
    n = at - start
    if c == 46:
        point = at + 1
        m, at = digits(buf, point, m)
        c = np.int64(buf[at])
        e = point - at
        n -= e
    if n == 0:
        return 0.0, at, BAD
    if c == 101 or c == 69:
        e, at, status = exponent(buf, at + 1, e)
        if status == BAD:
            return 0.0, at, BAD
    if n <= SIGNED_DIGITS and m <= 1 << 53 and -22 <= e <= 22:
        value = np.float64(m) * EXACT[e] if e >= 0 else np.float64(m) / EXACT[-e]
    else:
        value = hard_number(buf, start, at, m, n, e)
    return -value if negative else value, at, GOOD


@compiled
def exponent(buf, at, e):
    """Read an exponent and add it to e; return the sum, where it stops, and GOOD or BAD."""
    c = np.int64(buf[at])
    negative = c == 45
    if negative or c == 43:
        at += 1
        c = np.int64(buf[at])
    start, x = at, 0
    while 48 <= c <= 57:
        x = min(x * 10 + (c - 48), 1 << 40)
        at += 1
        c = np.int64(buf[at])
    return (e - x if negative else e + x), at, GOOD if at > start else BAD


@compiled
def hard_number(buf, start, stop, m, n, e):
    """Return m * 10^e, whose n digits begin the unsigned token buf[start:stop], the second or the third way."""
    mantissa, x, status = U0, 0, UNSURE
    if n <= SIGNED_DIGITS:
        mantissa, x, status = rounded(np.uint64(m), e)
    else:
        leading, more = leading_digits(buf, start)
        mantissa, x, status = rounded(leading, e + more)
        if more and status == GOOD:
            above, x_above, status = rounded(leading + U1, e + more)
            if above != mantissa or x_above != x:
                status = UNSURE
    if status == GOOD:
        return scaled(mantissa, x)
    token = np.zeros(stop - start + 1, np.uint8)
    for i in range(start, stop):
        token[i - start] = buf[i]
    return python_float(token)


@compiled
def leading_digits(buf, at):
    """Return the first digits of a number without leading zeros, and how many digits follow them."""
    m, n, more, point = U0, 0, 0, False
    while True:
        c = np.int64(buf[at])
        if 48 <= c <= 57:
            if n < MOST_DIGITS:
                m = m * U10 + np.uint64(c - 48)
                n += m != U0
            else:
                more += 1
        elif c == 46 and not point:
            point = True
        else:
            return m, more
        at += 1


@compiled
def product(a, b):
    """Return the upper and the lower word of a * b."""
    a1, a0, b1, b0 = a >> U32, a & LOW32, b >> U32, b & LOW32
    low, cross = a0 * b0, a1 * b0
    middle = (low >> U32) + (cross & LOW32) + a0 * b1
    return a1 * b1 + (cross >> U32) + (middle >> U32), (middle << U32) | (low & LOW32)


@compiled
def wide(m, e):
    """Return the two upper words of m * 5^e, and x, such that m * 10^e is the upper one without 10 or 11 bits * 2^x."""
    lead = leading_zeros(m)
    w = m << np.uint64(lead)
    top, second = product(w, FIVES[e - LOWEST, 0])
    carried, _ = product(w, FIVES[e - LOWEST, 1])
    lower = second + carried
    if lower < second:
        top += U1
    return top, lower, np.int64(U10 + (top >> U63)) + 1 - lead + ((217706 * e) >> 16)  # log2(10) = 217706 / 2^16 nearly


@compiled
def rounded(m, e):
    """Return mantissa and x of the double mantissa * 2^x nearest to m * 10^e, and GOOD or UNSURE."""
    if m == U0 or e < LOWEST:
        return U0, 0, GOOD
    if e > HIGHEST:
        return U1, 1024, GOOD
    top, lower, x = wide(m, e)
    drop = U10 + (top >> U63)
    # 53 bits are kept of top's 64 or 63; what is cut off is compared with half a unit of the last bit.
    mantissa, cut, half = top >> drop, top & ((U1 << drop) - U1), U1 << (drop - U1)
    if x < -1074 or (cut == half and lower == U0) or (cut == half - U1 and lower >= U0 - U2):
        return U0, 0, UNSURE
    return mantissa + np.uint64(cut >= half), x, GOOD


@compiled
def scaled(mantissa, x):
    """Return mantissa * 2^x, a double or infinity; 2^x may not be a double, so two exact factors are used."""
    if x > 971:
        return np.inf
    return np.float64(mantissa) * power_of_two(x // 2) * power_of_two(x - x // 2)


@compiled
def power_of_two(x):
    """Return 2^x, for x from -1022 to 1023."""
    return np.int64((x + 1023) << 52).view(np.float64)
