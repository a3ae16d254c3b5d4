"""Decimal numbers in bytes to the nearest double, without ever leaving the loop that meets them.

A token is [sign] digits [. digits] [e [sign] digits]: its value is m * 10^e with a whole m. Three roads lead to the
double that is nearest, the first taken nearly always:

1. m <= 2^53 and |e| <= 22: both are doubles, one rounding in all (Clinger 1990).
2. m of up to 18 digits, any e: the product of m and 5^e, the latter kept to 128 bits, rounded below; the true product
   lies less than two units of the second word above the one computed, so unless a tie between two doubles is that near,
   the rounding is known (Lemire 2021). Further digits are cut off, and the result holds if m and m + 1 share it.
3. The few left (ties, subnormal numbers) are LATE: the caller converts the token's text exactly.

A function here trusts that something that is no part of a number (a newline) ends the buffer.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled

GOOD, BAD, LATE = 0, 1, 2
MOST_DIGITS = 18  # of m, which then is below 2^60
LOWEST, HIGHEST = -360, 310  # of e: beyond, m of 18 digits is 0 or too large
EXACT = 10.0 ** np.arange(23)


def _powers_of_five():
    """Return 5^e for each e as two words: its 128 leading bits, rounded below."""
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
LOW32, U0, U1, U32, U63 = (np.uint64(x) for x in (2**32 - 1, 0, 1, 32, 63))


@compiled
def product(a, b):
    """Return the upper and the lower word of a * b."""
    a1, a0, b1, b0 = a >> U32, a & LOW32, b >> U32, b & LOW32
    low, cross = a0 * b0, a1 * b0
    middle = (low >> U32) + (cross & LOW32) + a0 * b1
    return a1 * b1 + (cross >> U32) + (middle >> U32), (middle << U32) | (low & LOW32)


@compiled
def nearest(m, e):
    """Return the double nearest to m * 10^e and GOOD, or LATE where 128 bits of 5^e do not tell it."""
    if m == 0 or e < LOWEST:
        return 0.0, GOOD
    if e > HIGHEST:
        return np.inf, GOOD
    lead = 0
    w = np.uint64(m)
    while w >> U63 == U0:
        w, lead = w << U1, lead + 1
    top, second = product(w, FIVES[e - LOWEST, 0])
    carried, _ = product(w, FIVES[e - LOWEST, 1])
    lower = second + carried
    if lower < second:
        top += U1
    # 53 bits are kept of top's 64 or 63; what is cut off is compared with half a unit of the last bit.
    drop = np.uint64(10) + (top >> U63)
    mantissa, cut, half = np.int64(top >> drop), top & ((U1 << drop) - U1), U1 << (drop - U1)
    if (cut == half and lower == U0) or (cut == half - U1 and lower >= U0 - np.uint64(2)):
        return 0.0, LATE
    if cut >= half:
        mantissa += 1
    x = np.int64(drop) + 1 - lead + ((217706 * e) >> 16)  # of 2, log2(10) = 217706 / 2^16 nearly
    if x < -1074:
        return 0.0, LATE
    if x > 971 or (x == 971 and mantissa == 1 << 53):
        return np.inf, GOOD
    # Two factors, since 2^x alone may be no normal number; both products are exact.
    return np.float64(mantissa) * power_of_two(x // 2) * power_of_two(x - x // 2), GOOD


@compiled
def power_of_two(x):
    """Return 2^x, for x from -1022 to 1023."""
    return np.int64((x + 1023) << 52).view(np.float64)


@compiled
def long_mantissa(buf, at, e):
    """Return the number whose many digits begin at `at`, when its last digit stands for 10^e, and GOOD or LATE."""
    m, digits, more, point = 0, 0, 0, False
    while True:
        c = np.int64(buf[at])
        if 48 <= c <= 57:
            if digits < MOST_DIGITS:
                m = m * 10 + (c - 48)
                digits += m > 0
            else:
                more += 1
        elif c == 46 and not point:
            point = True
        else:
            break
        at += 1
    below, told = nearest(m, e + more)
    above, told_above = nearest(m + 1, e + more) if more else (below, told)
    return below, GOOD if told == GOOD and told_above == GOOD and below == above else LATE


@compiled
def number(buf, at):
    """Read the number at `at`; return its value, where it stops, and GOOD, BAD (no number is there) or LATE."""
    c = np.int64(buf[at])
    negative = c == 45
    if negative or c == 43:
        at += 1
        c = np.int64(buf[at])
    start, m, e = at, 0, 0
    while 48 <= c <= 57:
        m = m * 10 + (c - 48)
        at += 1
        c = np.int64(buf[at])
    digits = at - start
    if c == 46:
        at += 1
        point = at
        c = np.int64(buf[at])
        while 48 <= c <= 57:
            m = m * 10 + (c - 48)
            at += 1
            c = np.int64(buf[at])
        e = point - at
        digits -= e
    if digits == 0:
        return 0.0, at, BAD
    if c == 101 or c == 69:
        e, at, told = exponent(buf, at + 1, e)
        if told == BAD:
            return 0.0, at, BAD
    if digits > MOST_DIGITS:
        value, told = long_mantissa(buf, start, e)
    elif m <= 1 << 53 and -22 <= e <= 22:
        value, told = (np.float64(m) * EXACT[e] if e >= 0 else np.float64(m) / EXACT[-e]), GOOD
    else:
        value, told = nearest(m, e)
    return -value if negative else value, at, told


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
