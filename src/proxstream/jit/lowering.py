"""The LLVM code of intrinsics, one function per name: numba asks it for the types and for the code.

The plain Python functions of the same names, in the modules that declare them with `compile.intrinsic`, have the
documentation; tests compare both.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

BYTE, HALF = ir.IntType(8), ir.IntType(32)
WIDTH = 64  # bytes that are compared at once


def prefetch(typingctx, array, i):
    """Lower `compile.prefetch`."""

    def codegen(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, HALF, HALF, HALF])
        call = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        read, keep, as_data = ir.Constant(HALF, 0), ir.Constant(HALF, 3), ir.Constant(HALF, 1)
        builder.call(call, [address, read, keep, as_data])
        return context.get_dummy_value()

    return types.void(array, i), codegen


def pointer(typingctx, array):
    """Lower `byteops.pointer`."""

    def codegen(context, builder, signature, arguments):
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), codegen


def trailing_zeros(typingctx, x):
    """Lower `byteops.trailing_zeros`."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


def leading_zeros(typingctx, x):
    """Lower `byteops.leading_zeros`."""

    def codegen(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


def ones(typingctx, word):
    """Lower `byteops.ones`."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), codegen


def _text(builder, data, place):
    """Return the bytes at a place as one vector."""
    vector = ir.VectorType(BYTE, WIDTH)
    return builder.load(builder.bitcast(builder.gep(data, [place]), vector.as_pointer()), align=1)


def _everywhere(builder, value):
    """Return a vector with this byte in every place."""
    vector, places = ir.VectorType(BYTE, WIDTH), ir.Constant(ir.VectorType(HALF, WIDTH), [0] * WIDTH)
    empty = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(empty, builder.trunc(value, BYTE), ir.Constant(HALF, 0))
    return builder.shuffle_vector(first, first, places)


def occurrences(typingctx, buf, at, a, b):
    """Lower `byteops.occurrences`."""

    def codegen(context, builder, signature, arguments):
        data, place, *wanted = arguments
        text = _text(builder, data, place)
        one, other = (builder.icmp_unsigned("==", text, _everywhere(builder, value)) for value in wanted)
        return builder.bitcast(builder.or_(one, other), ir.IntType(WIDTH))

    return types.uint64(buf, types.int64, types.int64, types.int64), codegen


def below(typingctx, buf, at, limit):
    """Lower `byteops.below`."""

    def codegen(context, builder, signature, arguments):
        data, place, limit = arguments
        found = builder.icmp_unsigned("<", _text(builder, data, place), _everywhere(builder, limit))
        return builder.bitcast(found, ir.IntType(WIDTH))

    return types.uint64(buf, types.int64, types.int64), codegen


def magnitude(typingctx, value):
    """Lower `byteops.magnitude`."""

    def codegen(context, builder, signature, arguments):
        width = signature.args[0].bitwidth
        word = builder.bitcast(arguments[0], ir.IntType(width))
        return builder.and_(word, ir.Constant(ir.IntType(width), (1 << width - 1) - 1))

    return types.Integer.from_bitwidth(value.bitwidth, signed=True)(value), codegen


def python_float(typingctx, token):
    """Lower `byteops.python_float`: the C function behind Python's `float`, under the interpreter's lock."""

    def codegen(context, builder, signature, arguments):
        def call(name, result, kinds, values):
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name)
            return builder.call(function, values)

        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        text = BYTE.as_pointer()
        lock = call("PyGILState_Ensure", HALF, [], [])
        kinds, values = [text, text.as_pointer(), text], [data, text.as_pointer()(None), text(None)]
        value = call("PyOS_string_to_double", ir.DoubleType(), kinds, values)
        call("PyGILState_Release", ir.VoidType(), [HALF], [lock])
        return value

    return types.float64(token), codegen
