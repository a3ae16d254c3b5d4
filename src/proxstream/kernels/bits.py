"""Sixty-four bytes at a glance: where two bytes occur among them, as the bits of one word."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import INTERPRETED

WIDTH = 64

if INTERPRETED:

    def occurrences(buf, at, a, b):
        """Return a word whose bit i tells whether buf[at + i] is a or b."""
        return np.uint64(sum(1 << i for i in range(WIDTH) if buf[at + i] in (a, b)))

    def ones(word):
        """Return how many bits of a word are set."""
        return int(word).bit_count()

else:

    @intrinsic
    def occurrences(typingctx, buf, at, a, b):
        """Return a word whose bit i tells whether buf[at + i] is a or b; buf is a pointer to bytes."""

        def codegen(context, builder, signature, arguments):
            data, place, *wanted = arguments
            byte, vector = ir.IntType(8), ir.VectorType(ir.IntType(8), WIDTH)
            address = builder.bitcast(builder.gep(data, [place]), vector.as_pointer())
            text = builder.load(address, align=1)
            found = None
            for value in wanted:
                first = builder.insert_element(ir.Constant(vector, ir.Undefined), builder.trunc(value, byte), word(0))
                splat = builder.shuffle_vector(
                    first, first, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * 64)
                )
                equal = builder.icmp_unsigned("==", text, splat)
                found = equal if found is None else builder.or_(found, equal)
            return builder.bitcast(found, ir.IntType(WIDTH))

        def word(value):
            return ir.Constant(ir.IntType(32), value)

        return types.uint64(buf, types.int64, types.int64, types.int64), codegen

    @intrinsic
    def ones(typingctx, word):
        """Return how many bits of a word are set."""

        def codegen(context, builder, signature, arguments):
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), codegen
