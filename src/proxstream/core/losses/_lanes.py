"""e^-a and log(1 + e) as plain arithmetic: a compiled loop that calls them works on four or eight rows at once.

A call of the C library's functions, one row after the other, is most of the time of a loss over many rows. Both
functions here are right to a unit or two in the last place.

    e^-a = 2^-k e^-r                  a = k log 2 + r with k whole, |r| <= log(2) / 2; a polynomial of degree 13
    log(1 + e) = 2 artanh s           s = e / (2 + e) <= 1/3 for e in [0, 1]; an odd polynomial of degree 33

For compiled loops alone: interpreted they are slow.
"""

from __future__ import annotations

import math

from ...jit.compile import inlined, intrinsic

LARGEST = 708.0  # from where on e^-a counts as 0: smaller numbers have fewer digits
PER_LOG_2 = 1.4426950408889634
LOG_2, REST_OF_LOG_2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # k times the first is exact
WHOLE = 1.5 * 2.0**52  # numbers near it are whole: to add it rounds, and the last bits are those of k
C = tuple((-1.0) ** k / math.factorial(k) for k in range(14))  # of e^-r
A = tuple(2.0 / (2 * k + 1) for k in range(17))  # of 2 artanh(s) / s, in s^2


@intrinsic
def power_of_half(t: float) -> float:
    """Return 2^-k for t = WHOLE + k, k from 0 to 1022: k is moved to where a number has its exponent."""
    return math.ldexp(1.0, -int(t - WHOLE))


@inlined
def exp_of_minus(a: float) -> float:
    """Return e^-a for a >= 0.

    >>> exp_of_minus(0.0), round(exp_of_minus(1.0), 15), exp_of_minus(1e9)
    (1.0, 0.367879441171442, 0.0)
    """
    t = min(a, LARGEST) * PER_LOG_2 + WHOLE
    k = t - WHOLE
    r = (a - k * LOG_2) - k * REST_OF_LOG_2
    e = C[13] * r + C[12]
    e = ((e * r + C[11]) * r + C[10]) * r + C[9]
    e = ((e * r + C[8]) * r + C[7]) * r + C[6]
    e = ((e * r + C[5]) * r + C[4]) * r + C[3]
    e = ((e * r + C[2]) * r + C[1]) * r + C[0]
    return 0.0 if a > LARGEST else e * power_of_half(t)


@inlined
def log_of_1_plus(e: float) -> float:
    """Return log(1 + e) for e in [0, 1].

    >>> log_of_1_plus(0.0), round(log_of_1_plus(1.0), 15), log_of_1_plus(1e-300)
    (0.0, 0.693147180559945, 1e-300)
    """
    s = e / (2.0 + e)
    q = s * s
    t = A[16] * q + A[15]
    t = ((t * q + A[14]) * q + A[13]) * q + A[12]
    t = ((t * q + A[11]) * q + A[10]) * q + A[9]
    t = ((t * q + A[8]) * q + A[7]) * q + A[6]
    t = ((t * q + A[5]) * q + A[4]) * q + A[3]
    return s * (((t * q + A[2]) * q + A[1]) * q + A[0])
