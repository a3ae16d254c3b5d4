"""Bytes eight at a time: arrays as bare pointers, the word at a place, the digits in a word.

An array that is handed from function to function is counted in and out at each call, and an index into it may be
negative, counted from its end; both cost more than reading a byte. A pointer has neither, and no bounds: who takes one
sees to it that the array lives on and that no index leaves it. With NUMBA_DISABLE_JIT=1 a pointer is the array itself,
and leaving it is an IndexError: so the tests look for such steps. A word is read whole, so that `PAD` bytes have to
follow the last one that matters.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import INTERPRETED, compiled_inline

PAD = 8
U8, U16, U24, U32, U40, U48, U56 = (np.uint64(8 * k) for k in range(1, 8))
TENS = 10 ** np.arange(9)
ZEROS, SIXES, HIGH = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x76, 0x80))
PAIRS, QUADS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
BY_TEN, BY_HUNDRED, BY_MYRIAD = np.uint64(1 + (10 << 8)), np.uint64(1 + (100 << 16)), np.uint64(1 + (10000 << 32))

if INTERPRETED:

    def pointer(array):
        """Return the array itself."""
        return array

    def trailing_zeros(x):
        """Return the number of zero bits below the lowest one; 64 if there is none."""
        return (int(x) & -int(x)).bit_length() - 1 if x else 64

    def leading_zeros(x):
        """Return the number of zero bits above the highest one."""
        return 64 - int(x).bit_length()

else:

    @intrinsic
    def pointer(typingctx, array):
        """Return the address of an array's first element, to be indexed as the array is."""

        def codegen(context, builder, signature, arguments):
            return context.make_array(signature.args[0])(context, builder, arguments[0]).data

        return types.CPointer(array.dtype)(array), codegen

    @intrinsic
    def trailing_zeros(typingctx, x):
        """Return the number of zero bits below the lowest one; 64 if there is none."""

        def codegen(context, builder, signature, arguments):
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.int64(types.uint64), codegen

    @intrinsic
    def leading_zeros(typingctx, x):
        """Return the number of zero bits above the highest one; 64 if there is none."""

        def codegen(context, builder, signature, arguments):
            return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.int64(types.uint64), codegen


@compiled_inline
def word(buf, i):
    """Return the 8 bytes at i as a number, lowest first."""
    low = np.uint64(buf[i]) | np.uint64(buf[i + 1]) << U8 | np.uint64(buf[i + 2]) << U16 | np.uint64(buf[i + 3]) << U24
    high = np.uint64(buf[i + 4]) << U32 | np.uint64(buf[i + 5]) << U40
    return low | high | np.uint64(buf[i + 6]) << U48 | np.uint64(buf[i + 7]) << U56


@compiled_inline
def not_digits(w):
    """Return a word with the highest bit set of each byte that is no digit, 0 to 9: right up to the first such byte."""
    return ((w + SIXES) | w) & HIGH


@compiled_inline
def joined(w):
    """Return the number whose digits a word's bytes are, the first the lowest: pairs, fours, one number."""
    w = (w * BY_TEN) >> U8 & PAIRS
    w = (w * BY_HUNDRED) >> U16 & QUADS
    return (w * BY_MYRIAD) >> U32


@compiled_inline
def digits(buf, at, m):
    """Append the decimal digits at `at` to m; return it and where they stop. Beyond 18 digits m is arbitrary.

    Of eight bytes, the digits before the first that is none are moved to the word's end and joined.
    """
    while True:
        w = word(buf, at) ^ ZEROS
        n = trailing_zeros(not_digits(w)) >> 3
        w = w << np.uint64(56 - 8 * n) << U8 if n < 8 else w
        m = m * TENS[n] + np.int64(joined(w))
        at += n
        if n < 8:
            return m, at
