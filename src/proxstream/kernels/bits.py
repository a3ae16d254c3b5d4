"""Sixty-four bytes at a glance: where some bytes occur among them, as the bits of one word."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import INTERPRETED, compiled_inline
from .words import trailing_zeros

WIDTH = 64
AT_ONCE = 8
U1 = np.uint64(1)

if INTERPRETED:

    def occurrences(buf, at, a, b):
        """Return a word whose bit i tells whether buf[at + i] is a or b."""
        return np.uint64(sum(1 << i for i in range(WIDTH) if buf[at + i] in (a, b)))

    def below(buf, at, limit):
        """Return a word whose bit i tells whether buf[at + i] is below a limit."""
        return np.uint64(sum(1 << i for i in range(WIDTH) if buf[at + i] < limit))

    def ones(word):
        """Return how many bits of a word are set."""
        return int(word).bit_count()

else:

    def _text(builder, data, place):
        """Return the bytes at a place as one vector."""
        vector = ir.VectorType(ir.IntType(8), WIDTH)
        return builder.load(builder.bitcast(builder.gep(data, [place]), vector.as_pointer()), align=1)

    def _everywhere(builder, value):
        """Return a vector that has this byte everywhere."""
        byte, number = ir.IntType(8), ir.IntType(32)
        vector, places = ir.VectorType(byte, WIDTH), ir.Constant(ir.VectorType(number, WIDTH), [0] * WIDTH)
        empty = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(empty, builder.trunc(value, byte), ir.Constant(number, 0))
        return builder.shuffle_vector(first, first, places)

    @intrinsic
    def occurrences(typingctx, buf, at, a, b):
        """Return a word whose bit i tells whether buf[at + i] is a or b; buf is a pointer to bytes."""

        def codegen(context, builder, signature, arguments):
            data, place, *wanted = arguments
            text = _text(builder, data, place)
            one, other = (builder.icmp_unsigned("==", text, _everywhere(builder, value)) for value in wanted)
            return builder.bitcast(builder.or_(one, other), ir.IntType(WIDTH))

        return types.uint64(buf, types.int64, types.int64, types.int64), codegen

    @intrinsic
    def below(typingctx, buf, at, limit):
        """Return a word whose bit i tells whether buf[at + i] is below a limit; buf is a pointer to bytes."""

        def codegen(context, builder, signature, arguments):
            data, place, limit = arguments
            found = builder.icmp_unsigned("<", _text(builder, data, place), _everywhere(builder, limit))
            return builder.bitcast(found, ir.IntType(WIDTH))

        return types.uint64(buf, types.int64, types.int64), codegen

    @intrinsic
    def ones(typingctx, word):
        """Return how many bits of a word are set."""

        def codegen(context, builder, signature, arguments):
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), codegen


@compiled_inline
def write_places(found, at, places, k):
    """Write the places of a word's bits, counted from `at`, from places[k] on; return the k behind them.

    AT_ONCE are written at a time, whether there are as many or not: what is too much is overwritten.
    """
    stop = k + ones(found)
    while k < stop:
        for i in range(AT_ONCE):
            places[k + i] = at + trailing_zeros(found)
            found &= found - U1
        k += AT_ONCE
    return stop
