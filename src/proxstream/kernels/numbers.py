"""Decimal numbers in bytes to the nearest double, without ever leaving the loop that meets them.

A token is [sign] digits [. digits] [e [sign] digits]: its value is m * 10^e with a whole m. Three roads lead to the
double that is nearest (of two equally near the even one), the first taken nearly always:

1. m <= 2^53 and |e| <= 22: both are doubles, one rounding in all (Clinger 1990).
2. m of up to 18 digits, any e: the product of m and 5^e, the latter kept to 128 bits, rounded below; the true product
   lies less than two units of the second word above the one computed, so unless a tie between two doubles is that near,
   the rounding is known (Lemire 2021). Further digits are cut off, and the result holds if m and m + 1 share it.
3. What is left, ties, subnormal numbers and such: the product of 2 stops at a double not above the number, and whole
   numbers of any length tell on which side of the tie above it the number lies.

A function here trusts that something that is no part of a number (a newline) ends the buffer, and `PAD` bytes follow.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled, compiled_inline
from .words import digits, leading_zeros

GOOD, BAD, UNSURE = 0, 1, 2
MOST_DIGITS = 18  # of m, which then is below 2^60
ALL_DIGITS = 800  # that can matter: a tie between two doubles has 767 at most
LOWEST, HIGHEST = -360, 310  # of e: beyond, m of 18 digits is 0 or too large
EXACT = 10.0 ** np.arange(23)
LIMBS = 192  # of 32 bits: 800 digits times 2^1076, or 54 bits times 10^1160, and some


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
LOW32, U0, U1, U2, U10, U32, U63 = (np.uint64(x) for x in (2**32 - 1, 0, 1, 2, 10, 32, 63))


@compiled_inline
def number(buf, at):
    """Read the number at `at`; return its value, where it stops, and GOOD, or BAD if no number is there."""
    c = np.int64(buf[at])
    if 48 <= c <= 57 and buf[at + 1] < 46:  # a digit alone, by far the most frequent of all
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
        e, at, told = exponent(buf, at + 1, e)
        if told == BAD:
            return 0.0, at, BAD
    if n <= MOST_DIGITS and m <= 1 << 53 and -22 <= e <= 22:
        value = np.float64(m) * EXACT[e] if e >= 0 else np.float64(m) / EXACT[-e]
    else:
        value = hard_number(buf, start, m, n, e)
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
def hard_number(buf, start, m, n, e):
    """Return m * 10^e, whose n digits begin at `start`, by the second road or the third."""
    more = 0
    if n > MOST_DIGITS:
        m, more = leading_digits(buf, start)
    mantissa, x, told = rounded(m, e + more)
    if more and told == GOOD:
        above, x_above, told = rounded(m + 1, e + more)
        if above != mantissa or x_above != x:
            told = UNSURE
    if told != GOOD:
        mantissa, x = below(m, e + more)
        mantissa = settled(buf, start, e, mantissa, x)
    return scaled(mantissa, x)


@compiled
def leading_digits(buf, at):
    """Return the first digits of a number that are not zeros, and how many follow them."""
    m, n, more, point = 0, 0, 0, False
    while True:
        c = np.int64(buf[at])
        if 48 <= c <= 57:
            if n < MOST_DIGITS:
                m = m * 10 + (c - 48)
                n += m > 0
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
    lead = leading_zeros(np.uint64(m))
    w = np.uint64(m) << np.uint64(lead)
    top, second = product(w, FIVES[e - LOWEST, 0])
    carried, _ = product(w, FIVES[e - LOWEST, 1])
    lower = second + carried
    if lower < second:
        top += U1
    return top, lower, np.int64(U10 + (top >> U63)) + 1 - lead + ((217706 * e) >> 16)  # log2(10) = 217706 / 2^16 nearly


@compiled
def rounded(m, e):
    """Return mantissa and x of the double mantissa * 2^x nearest to m * 10^e, and GOOD or UNSURE."""
    if m == 0 or e < LOWEST:
        return 0, 0, GOOD
    if e > HIGHEST:
        return 1, 1024, GOOD
    top, lower, x = wide(m, e)
    drop = U10 + (top >> U63)
    # 53 bits are kept of top's 64 or 63; what is cut off is compared with half a unit of the last bit.
    mantissa, cut, half = np.int64(top >> drop), top & ((U1 << drop) - U1), U1 << (drop - U1)
    if x < -1074 or (cut == half and lower == U0) or (cut == half - U1 and lower >= U0 - U2):
        return 0, 0, UNSURE
    return mantissa + (cut >= half), x, GOOD


@compiled
def below(m, e):
    """Return mantissa and x of a double mantissa * 2^x that is not above m * 10^e, and less than two units below."""
    top, _, x = wide(m, e)
    mantissa = np.int64(top >> (U10 + (top >> U63)))
    if x < -1074:
        mantissa, x = (mantissa >> (-1074 - x) if x > -1138 else 0), -1074
    return mantissa, x


@compiled
def scaled(mantissa, x):
    """Return mantissa * 2^x, a double or infinity. Two factors, since 2^x may be none; both products are exact."""
    if x > 971:
        return np.inf
    return np.float64(mantissa) * power_of_two(x // 2) * power_of_two(x - x // 2)


@compiled
def power_of_two(x):
    """Return 2^x, for x from -1022 to 1023."""
    return np.int64((x + 1023) << 52).view(np.float64)


@compiled
def settled(buf, at, e, mantissa, x):
    """Return the mantissa of the double nearest to the number at `at`, not below mantissa * 2^x.

    With d for the digits as one whole number, d * 10^e is compared with the tie (2 mantissa + 1) * 2^(x - 1), both
    sides made whole. Digits beyond ALL_DIGITS only tell that the number is not a tie.
    """
    d, n, seen, point = np.zeros(LIMBS, np.uint64), 0, 0, False
    while True:
        c = np.int64(buf[at])
        if 48 <= c <= 57:
            if seen < ALL_DIGITS:
                n = times(d, n, 10, c - 48)
                seen += n > 0
            else:
                e += 1
                d[0] |= np.uint64(c != 48)
        elif c == 46 and not point:
            point = True
        else:
            break
        at += 1
    n = times_power(d, n, 10, e)
    n = times_power(d, n, 2, 1 - x)
    while True:
        tie = np.zeros(LIMBS, np.uint64)
        k = times(tie, times(tie, 0, 1, 2 * (mantissa >> 31)), 1 << 31, 2 * (mantissa & ((1 << 31) - 1)) + 1)
        k = times_power(tie, k, 10, -e)
        k = times_power(tie, k, 2, x - 1)
        side = compared(d, n, tie, k)
        if side < 0 or (side == 0 and mantissa % 2 == 0):
            return mantissa
        mantissa += 1
        if side == 0:
            return mantissa


@compiled
def times(big, n, factor, plus):
    """Multiply a number of n limbs by a factor and add `plus`, both below 2^32; return its limbs."""
    carry = np.uint64(plus)
    for i in range(n):
        t = big[i] * np.uint64(factor) + carry
        big[i], carry = t & LOW32, t >> U32
    if carry:
        big[n] = carry
        n += 1
    return n


@compiled
def times_power(big, n, base, power):
    """Multiply a number of n limbs by base^power if power > 0; return its limbs."""
    while power > 0:
        step = min(power, 9)
        n = times(big, n, base**step, 0)
        power -= step
    return n


@compiled
def compared(a, n, b, k):
    """Return the sign of a - b."""
    if n != k:
        return 1 if n > k else -1
    for i in range(n - 1, -1, -1):
        if a[i] != b[i]:
            return 1 if a[i] > b[i] else -1
    return 0
